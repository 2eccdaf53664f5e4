#pragma once

#include <string_view>

#include "tapestry/error.hpp"

namespace tapestry::detail {

/// Calls f. An error that it throws gets the op and the call site, unless it has them already.
template <class F>
decltype(auto) locating(std::string_view op, Where where, F f) {
  try {
    return f();
  } catch (Error& error) {
    error.locate(op, where);
    throw;
  }
}

/// The same for an operation of a graph.
template <class F>
decltype(auto) locating(std::string_view op, std::string_view node, Where where, F f) {
  try {
    return f();
  } catch (Error& error) {
    error.locate(op, node, where);
    throw;
  }
}

}  // namespace tapestry::detail
