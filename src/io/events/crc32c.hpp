#pragma once

#include <cstdint>
#include <string_view>

namespace tapestry::io {

/// The CRC of Castagnoli's polynomial: 0xE3069283 for "123456789".
std::uint32_t crc32c(std::string_view bytes);
/// The masked CRC that TFRecord files store: a CRC over data that contain unmasked CRCs would be of little use.
constexpr std::uint32_t masked(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8U; }

}  // namespace tapestry::io
