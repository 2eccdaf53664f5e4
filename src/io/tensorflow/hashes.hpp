#pragma once

#include <cstdint>
#include <string_view>

/// The hash functions of TensorFlow's ops, for short texts.

namespace tapestry::io {

/// FarmHash's 64 bits of up to 32 characters.
std::uint64_t farm_hash(std::string_view text);
/// SipHash-2-4 by a key.
std::uint64_t sip_hash(std::string_view text, std::uint64_t key0, std::uint64_t key1);
/// The one before these.
std::uint64_t murmur_hash(std::string_view text, std::uint64_t seed = 0xDECAFCAFFE);
/// That of a pair, by the hashes of its parts.
std::uint64_t pair_hash(std::uint64_t first, std::uint64_t second);

}  // namespace tapestry::io
