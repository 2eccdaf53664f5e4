#pragma once

#include <vector>

#include "io/tensorflow/bundle_entry.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::io {

/// A tensor that is put together from slices.
class SliceAssembly {
 public:
  explicit SliceAssembly(const Tensor& whole);

  /// Copies a slice, whose extents have their lengths, to its place.
  void add(const SliceExtents& extents, const Tensor& slice);
  bool is_whole() const;

 private:
  std::size_t place_of(std::size_t run, const SliceExtents& extents) const;

  Tensor whole_;
  std::size_t element_;
  std::vector<bool> filled_;
};

}  // namespace tapestry::io
