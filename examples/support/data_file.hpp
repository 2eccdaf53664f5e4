#pragma once

#include <string>

namespace support {

/// The path of a data file of an example, which the user has to download. When it is not in the folder, throws
/// NotFoundError with `origin`: sentences that tell where to get it.
std::string data_file(const std::string& folder, const std::string& name, const std::string& origin);

}  // namespace support
