#pragma once

#include <functional>
#include <string_view>
#include <type_traits>

#include "tapestry/error.hpp"

namespace tapestry::detail {

template <class Result, class... Arguments>
bool has_target(const std::function<Result(Arguments...)>& function) {
  return static_cast<bool>(function);
}

/// Throws InvalidArgumentError: the function that `op` has got is empty.
[[noreturn]] TAPESTRY_API void refuse_empty_function(std::string_view op, Where where);

/// Throws InvalidArgumentError for an empty std::function and for a null pointer, which cannot be called.
template <class F>
void require_function(const F& function, std::string_view op, Where where) {
  bool is_empty = false;
  if constexpr (std::is_pointer_v<F>)
    is_empty = function == nullptr;
  else if constexpr (requires { has_target(function); })
    is_empty = !has_target(function);
  if (is_empty) refuse_empty_function(op, where);
}

/// The function itself, if it can be called.
template <class F>
F checked_function(F function, std::string_view op, Where where) {
  require_function(function, op, where);
  return function;
}

}  // namespace tapestry::detail
