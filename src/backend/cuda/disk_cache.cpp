#include "backend/cuda/disk_cache.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include <unistd.h>

namespace tapestry::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view file_prefix = "program-";

/// The start of a file; the key and the value follow. The byte order is this machine's, as files stay on it.
struct Header {
  char magic[16] = {'T', 'a', 'p', 'e', 's', 't', 'r', 'y', ' ', 'c', 'a', 'c', 'h', 'e', ' ', '1'};
  std::uint64_t key_bytes = 0, value_bytes = 0, value_hash = 0;
};

/// Fowler, Noll and Vo's hash, FNV-1a.
std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char each : bytes) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  return hash;
}

std::string hexadecimal(std::uint64_t number) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[number >> shift & 15];
  return text;
}

std::string header_of(const std::string& key, const std::string& value) {
  Header header;
  header.key_bytes = key.size();
  header.value_bytes = value.size();
  header.value_hash = hash_of(value);
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

/// All bytes of a file; nothing if it cannot be read or has more than `most_bytes`.
std::optional<std::string> read_file(const fs::path& file, std::uintmax_t most_bytes) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (error || bytes > most_bytes) return std::nullopt;
  std::string content(bytes, '\0');
  std::ifstream in(file, std::ios::binary);
  if (!in.read(content.data(), bytes)) return std::nullopt;
  return content;
}

/// Writes under another name first and then renames, so that nobody finds half a file.
void write_file(const fs::path& file, const std::string& content) {
  std::string temporary = file.string() + ".XXXXXX";
  const int descriptor = mkstemp(temporary.data());
  if (descriptor < 0) return;
  close(descriptor);
  std::ofstream out(temporary, std::ios::binary);
  out.write(content.data(), content.size());
  out.close();
  std::error_code error;
  if (out) fs::rename(temporary, file, error);
  if (!out || error) fs::remove(temporary, error);
}

}  // namespace

fs::path DiskCache::file_of(const std::string& key) const {
  return folder_ / (std::string(file_prefix) + hexadecimal(hash_of(key)));
}

std::optional<std::string> DiskCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const fs::path file = file_of(key);
  const std::optional<std::string> content = read_file(file, most_bytes_);
  const std::size_t begin = sizeof(Header) + key.size();
  if (!content || content->size() < begin) return std::nullopt;
  std::string value = content->substr(begin);
  if (*content != header_of(key, value) + key + value) return std::nullopt;
  std::error_code error;  // ignored: the file only seems older than it is
  fs::last_write_time(file, fs::file_time_type::clock::now(), error);
  return value;
}

void DiskCache::keep(const std::string& key, const std::string& value) const {
  const std::string content = header_of(key, value) + key + value;
  if (folder_.empty() || content.size() > most_bytes_) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  write_file(file_of(key), content);
  remove_oldest();
}

void DiskCache::remove_oldest() const {
  struct File {
    fs::path path;
    fs::file_time_type time;
    std::uintmax_t bytes;
  };
  std::vector<File> files;
  std::uintmax_t sum = 0;
  std::error_code error;
  for (fs::directory_iterator next(folder_, error), end; !error && next != end; next.increment(error)) {
    std::error_code gone;  // another process may have removed the file
    File file{next->path(), next->last_write_time(gone), next->file_size(gone)};
    if (gone || !file.path.filename().string().starts_with(file_prefix)) continue;
    sum += file.bytes;
    files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.time < b.time; });
  for (const File& file : files) {
    if (sum <= most_bytes_) return;
    fs::remove(file.path, error);
    sum -= file.bytes;
  }
}

fs::path cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  if (const fs::path asked = variable("TAPESTRY_CACHE"); !asked.empty()) return asked == "0" ? fs::path() : asked;
  if (const fs::path all = variable("XDG_CACHE_HOME"); all.is_absolute()) return all / "tapestry";
  const fs::path home = variable("HOME");
  return home.is_absolute() ? home / ".cache" / "tapestry" : fs::path();
}

}  // namespace tapestry::gpu
