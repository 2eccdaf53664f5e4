#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "backend/backend.hpp"
#include "backend/loop_program.hpp"
#include "backend/views.hpp"
#include "core/make_tensor.hpp"
#include "graph/budget.hpp"
#include "graph/executable.hpp"

namespace tapestry::detail {

/// An output of a loop that gets one element in each iteration. Where the number of iterations is unknown, its memory
/// grows by doubling.
class LoopStack {
 public:
  /// `element`: the spec of an element; `length`: the number of elements, or -1; `may_lack`: whether branches give the
  /// elements, so that some may be absent, or empty because all that they consist of is absent; `output`: of the loop's
  /// node.
  LoopStack(const Spec& element, std::int64_t length, bool may_lack, const Tensor& output)
      : element_(element),
        may_lack_(may_lack),
        device_(output.device()),
        budget_(producer_of(output).graph->budget()),
        name_(output.name()) {
    if (length >= 0 && element_.shape.is_known()) reserve(length);
  }

  void put(std::int64_t index, const Tensor& value) {
    if (!value) return;
    if (may_lack_ && bool(memory_) && value.shape() != element_.shape) {
      if (value.size() == 0) return;
      if (element_.shape.num_elements() == 0) memory_ = Tensor();
    }
    if (!memory_) element_.shape = value.shape();
    if (value.shape() != element_.shape)
      throw InvalidArgumentError(join("The elements of '", name_, "' must have the same shape to be stacked: ",
                                      element_.shape, " and ", value.shape()));
    if (!memory_ || index >= memory_.shape()[0]) reserve(std::max<std::int64_t>(16, 2 * index));
    const std::size_t bytes = nbytes(value);
    const Tensor row = view_at(memory_, 0, index);
    if (device_.is_cpu() && value.is_contiguous())
      std::memcpy(row.impl().data, value.impl().data, bytes);
    else
      backend_of(device_).copy(value, row);
  }

  /// Where the element of an iteration is written by code that runs `count` iterations; the elements have this shape.
  LoopCode::Place place(std::int64_t index, std::int64_t count, bool reverse, const Shape& shape) {
    if (!memory_) element_.shape = shape;
    const std::int64_t needed = index + (reverse ? 1 : count);
    if (!memory_ || needed > memory_.shape()[0]) reserve(std::max<std::int64_t>(16, needed));
    const std::int64_t bytes = memory_.strides()[0] * static_cast<std::int64_t>(size_of(element_.dtype));
    return {static_cast<std::byte*>(memory_.impl().data) + index * bytes, reverse ? -bytes : bytes};
  }

  /// The stack of `length` elements.
  Tensor take(std::int64_t length) {
    if (!memory_) {
      Shape known = element_.shape;
      for (int axis = 0; axis < known.rank(); ++axis)
        if (known.sizes()[axis] < 0) known.set(axis, 0);
      element_.shape = known;
    }
    if (!memory_ || memory_.shape()[0] < length) reserve(length);
    return view_part(memory_, 0, 0, length);
  }

 private:
  Shape stacked(std::int64_t length) const {
    Shape shape{length};
    for (const std::int64_t size : element_.shape.sizes()) shape.push_back(size);
    return shape;
  }

  /// Allocates memory for some elements, and keeps those that are there.
  void reserve(std::int64_t elements) {
    const Shape shape = stacked(elements);
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(shape.num_elements(), static_cast<std::int64_t>(size_of(element_.dtype)), &bytes))
      throw ResourceExhaustedError(join("OOM when stacking '", name_, "' with shape ", shape));
    budget_.require_bytes(static_cast<std::size_t>(bytes), name_);
    const Tensor more = make_tensor(element_.dtype, shape, device_);
    Backend& backend = backend_of(device_);
    if (may_lack_) backend.fill(0, more);
    if (memory_) backend.copy(memory_, view_part(more, 0, 0, memory_.shape()[0]));
    memory_ = more;
  }

  Spec element_;
  bool may_lack_;
  Device device_;
  const Budget& budget_;
  std::string name_;
  Tensor memory_;
};

}  // namespace tapestry::detail
