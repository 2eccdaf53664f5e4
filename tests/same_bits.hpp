#pragma once

#include <algorithm>
#include <cstring>

#include "core/make_tensor.hpp"
#include "tapestry/state_dict.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::test {

/// Whether two tensors, on any devices and in any layouts, have the same type, shape and bits (a NaN equals itself).
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Tensor x = detail::on_host(a), y = detail::on_host(b);
  return x.size() == 0 ||
         std::memcmp(x.impl().data, y.impl().data, static_cast<std::size_t>(x.size()) * size_of(x.dtype())) == 0;
}

/// Whether two states have the same names and bits.
inline bool same_bits(const StateDict& a, const StateDict& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same_bits(x.second, y.second); });
}

}  // namespace tapestry::test
