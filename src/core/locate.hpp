#pragma once

#include <string_view>

#include "tapestry/error.hpp"

namespace tapestry {

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

}  // namespace tapestry
