#pragma once

#include <algorithm>
#include <string_view>

namespace tapestry::serve {

/// Compares in a time that does not tell how much is equal.
inline bool equal_secrets(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned>(static_cast<unsigned char>(b[i % std::max<std::size_t>(b.size(), 1)]));
  return difference == 0;
}

}  // namespace tapestry::serve
