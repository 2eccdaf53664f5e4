#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tapestry::gpu {

/// A folder of files that keeps results which take long to make: bytes under a key, which is any text. Processes share
/// it. Nothing is thrown when the folder or one of its files is unusable: a result that cannot be read is made again,
/// and one that cannot be written is not kept.
class DiskCache {
 public:
  /// The first file creates the folder. A cache with an empty folder name keeps nothing. While the files have more than
  /// `most_bytes` bytes, the least recently used one is removed.
  DiskCache(std::filesystem::path folder, std::uintmax_t most_bytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  /// The bytes that were kept under the key; nothing if there are none, or if their file is not exactly what `keep`
  /// writes.
  std::optional<std::string> find(const std::string& key) const;
  void keep(const std::string& key, const std::string& value) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;
  void remove_oldest() const;

  std::filesystem::path folder_;
  std::uintmax_t most_bytes_;
};

/// The folder that the environment names, see docs/devices.md; empty if it names none or turns the cache off.
std::filesystem::path cache_folder();

}  // namespace tapestry::gpu
