#pragma once

#include <string>

namespace support {

/// The path of a file that an example learns from and that its reader has to fetch. When it is not in the folder,
/// throws NotFoundError with `origin`, sentences that tell where the file can be had.
std::string data_file(const std::string& folder, const std::string& name, const std::string& origin);

}  // namespace support
