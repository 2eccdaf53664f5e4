#pragma once

namespace tapestry::test {

/// Whether memory that is given back is kept for the next tensor. With the address sanitizer it is not, so that its use
/// after that is found.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool caching = false;
#elif defined(__has_feature)
inline constexpr bool caching = !__has_feature(address_sanitizer);
#else
inline constexpr bool caching = true;
#endif

}  // namespace tapestry::test
