#pragma once

#include <cstdint>
#include <string_view>

namespace tapestry::io {

/// The CRC of Castagnoli's polynomial: 0xE3069283 for "123456789". `before` is the CRC of the bytes that come before.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);
/// The masked CRC that TensorFlow's files store: a CRC over data that contain unmasked CRCs would be of little use.
constexpr std::uint32_t masked(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8U; }

}  // namespace tapestry::io
