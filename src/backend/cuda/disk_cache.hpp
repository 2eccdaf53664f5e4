#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tapestry::gpu {

/// A folder of files with what takes long to make: bytes under a key, which is any text. Processes share it. Whatever
/// is wrong with the folder or a file of it, nothing is thrown: what cannot be read has to be made again, and what
/// cannot be written is not kept.
class DiskCache {
 public:
  /// The folder appears with the first file; without a name it keeps nothing. Of more bytes than `most_bytes`, those go
  /// that were not used for longest.
  DiskCache(std::filesystem::path folder, std::uintmax_t most_bytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  /// The bytes that were kept under the key, nothing if a file is not exactly what `keep` has written.
  std::optional<std::string> find(const std::string& key) const;
  void keep(const std::string& key, const std::string& value) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;
  void remove_oldest() const;

  std::filesystem::path folder_;
  std::uintmax_t most_bytes_;
};

/// The folder that the environment names, see docs/devices.md; empty if there is none, or none is wanted.
std::filesystem::path cache_folder();

}  // namespace tapestry::gpu
