#include "io/tensorflow/slice_assembly.hpp"

#include <algorithm>
#include <cstring>

#include "core/make_tensor.hpp"

namespace tapestry::io {

SliceAssembly::SliceAssembly(const Tensor& whole)
    : whole_(whole), element_(size_of(whole.dtype())), filled_(static_cast<std::size_t>(whole.size())) {}

/// Run by run along the last axis.
void SliceAssembly::add(const SliceExtents& extents, const Tensor& slice) {
  if (slice.size() == 0) return;
  const auto run = static_cast<std::size_t>(extents.empty() ? 1 : extents.back().length);
  const auto* from = detail::mutable_data<const std::byte>(slice);
  auto* to = detail::mutable_data<std::byte>(whole_);
  const auto runs = static_cast<std::size_t>(slice.size()) / run;
  for (std::size_t i = 0; i < runs; ++i) {
    const std::size_t place = place_of(i, extents);
    std::memcpy(to + place * element_, from + i * run * element_, run * element_);
    std::fill_n(filled_.begin() + static_cast<std::ptrdiff_t>(place), run, true);
  }
}

bool SliceAssembly::is_whole() const { return std::find(filled_.begin(), filled_.end(), false) == filled_.end(); }

/// Where in the whole tensor run number `run` of a slice begins.
std::size_t SliceAssembly::place_of(std::size_t run, const SliceExtents& extents) const {
  const auto sizes = whole_.shape().sizes();
  std::size_t place = extents.empty() ? 0 : static_cast<std::size_t>(extents.back().start), stride = 1;
  for (std::size_t axis = extents.size(); axis-- > 1;) {
    stride *= static_cast<std::size_t>(sizes[axis]);
    const auto [start, length] = extents[axis - 1];
    place += (static_cast<std::size_t>(start) + run % static_cast<std::size_t>(length)) * stride;
    run /= static_cast<std::size_t>(length);
  }
  return place;
}

}  // namespace tapestry::io
