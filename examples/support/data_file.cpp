#include "data_file.hpp"

#include <filesystem>

#include <tapestry/tapestry.hpp>

namespace support {

std::string data_file(const std::string& folder, const std::string& name, const std::string& origin) {
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  if (!std::filesystem::is_regular_file(path))
    throw tp::NotFoundError("There is no " + name + " in the folder " + std::filesystem::absolute(folder).string() +
                            ". " + origin + " Put it there, or name another folder with --data");
  return path.string();
}

}  // namespace support
