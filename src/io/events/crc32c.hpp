#pragma once

#include <cstdint>
#include <string_view>

namespace tapestry::io {

/// The CRC of Castagnoli's polynomial: 0xE3069283 for "123456789".
std::uint32_t crc32c(std::string_view bytes);
/// As TFRecord files have it, so that a CRC over data that contain CRCs means something.
constexpr std::uint32_t masked(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8U; }

}  // namespace tapestry::io
