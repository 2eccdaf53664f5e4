#pragma once

namespace tapestry::test {

/// The sanitizer that the tests are built with; clang and g++ tell it by different means.
#if defined(__has_feature)
inline constexpr bool address_sanitizer = __has_feature(address_sanitizer);
inline constexpr bool thread_sanitizer = __has_feature(thread_sanitizer);
#else
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool address_sanitizer = true;
#else
inline constexpr bool address_sanitizer = false;
#endif
#if defined(__SANITIZE_THREAD__)
inline constexpr bool thread_sanitizer = true;
#else
inline constexpr bool thread_sanitizer = false;
#endif
#endif

/// Whether memory that is given back is kept for the next tensor. With the address sanitizer it is not, so that its use
/// after that is found.
inline constexpr bool caching = !address_sanitizer;

}  // namespace tapestry::test
