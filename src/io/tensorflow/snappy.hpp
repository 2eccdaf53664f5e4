#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tapestry::io {

/// The bytes that Snappy has compressed to these, without a frame around them; nothing when the data are damaged. Takes
/// memory in proportion to the compressed bytes.
std::optional<std::string> snappy_decompressed(std::string_view packed);

}  // namespace tapestry::io
