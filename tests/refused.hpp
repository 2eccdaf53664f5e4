#pragma once

#include <string>
#include <string_view>

#include "expect.hpp"

namespace tapestry::test {

/// Checks that `f` throws an E that says `text` and names the place `where`.
template <class E>
void refused(const char* expression, std::string_view text, Where where, Action f) {
  INFO(std::string(expression));
  const E error = caught<E>(f);
  CHECK_MESSAGE(std::string_view(error.what()).find(text) != std::string_view::npos, error.what());
  CHECK(place(error) == to_string(where));
}

}  // namespace tapestry::test

/// Checks that an expression, the last argument, throws an E that says `text` (the values, and the op as in
/// "[Op:AddV2]") and names this line.
#define TAPESTRY_REFUSED(E, text, ...) \
  ::tapestry::test::refused<E>(#__VA_ARGS__, text, ::tapestry::Where::here(), [&] { static_cast<void>(__VA_ARGS__); })
