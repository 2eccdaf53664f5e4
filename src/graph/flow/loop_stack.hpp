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
  /// What is special about the elements. `may_lack`: whether branches give them, so that some may be absent, or empty
  /// because all that they consist of is absent; `ragged`: whether their shapes may differ.
  struct Form {
    bool may_lack = false, ragged = false;
  };
  /// `element`: the spec of an element; `length`: the number of elements, or -1; `output`: of the loop's node.
  LoopStack(const Spec& element, std::int64_t length, Form form, const Tensor& output)
      : element_(element),
        form_(form),
        device_(output.device()),
        budget_(producer_of(output).graph->budget()),
        name_(output.name()) {
    if (length >= 0 && element_.shape.is_known()) reserve(length);
  }

  void put(std::int64_t index, const Tensor& value) {
    if (!value) return;
    if (form_.ragged) return put_in_corner(index, value);
    if (form_.may_lack && bool(memory_) && value.shape() != element_.shape) {
      if (value.size() == 0) return;
      if (element_.shape.num_elements() == 0) memory_ = Tensor();
    }
    if (!memory_) element_.shape = value.shape();
    if (value.shape() != element_.shape)
      throw InvalidArgumentError(join("The elements of '", name_, "' must have the same shape to be stacked: ",
                                      element_.shape, " and ", value.shape()));
    if (!memory_ || index >= memory_.shape()[0]) reserve(std::max<std::int64_t>(16, 2 * index));
    copy(value, view_at(memory_, 0, index));
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
    Tensor whole = view_part(memory_, 0, 0, length);
    if (!form_.ragged || !largest_.has_rank() || largest_ == element_.shape) return whole;
    return backend_of(device_).contiguous_copy(corner(whole, stacked(length, largest_)));
  }

 private:
  static Shape stacked(std::int64_t length, const Shape& element) {
    Shape shape{length};
    for (const std::int64_t size : element.sizes()) shape.push_back(size);
    return shape;
  }

  /// Allocates memory for some elements, and keeps those that are there.
  void reserve(std::int64_t elements) {
    const Shape shape = stacked(elements, element_.shape);
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(shape.num_elements(), static_cast<std::int64_t>(size_of(element_.dtype)), &bytes))
      throw ResourceExhaustedError(join("OOM when stacking '", name_, "' with shape ", shape));
    budget_.require_bytes(static_cast<std::size_t>(bytes), name_);
    const Tensor more = make_tensor(element_.dtype, shape, device_);
    Backend& backend = backend_of(device_);
    if (form_.may_lack || form_.ragged) backend.fill(0, more);
    if (memory_) backend.copy(memory_, corner(more, memory_.shape()));
    memory_ = more;
  }

  /// Puts an element where the indices are smallest; those behind it are 0.
  void put_in_corner(std::int64_t index, const Tensor& value) {
    if (bool(memory_) && value.rank() != element_.shape.rank())
      throw InvalidArgumentError(join("The elements of '", name_, "' must have the same number of axes to be stacked: ",
                                      element_.shape, " and ", value.shape()));
    const std::int64_t length = memory_ ? memory_.shape().sizes()[0] : 0;
    bool grows = !memory_;
    if (!memory_) element_.shape = value.shape();
    if (!largest_.has_rank()) largest_ = value.shape();
    for (int axis = 0; axis < value.rank(); ++axis) {
      const std::int64_t size = value.shape().sizes()[axis], room = element_.shape.sizes()[axis];
      largest_.set(axis, std::max<std::int64_t>(largest_.sizes()[axis], size));
      if (size > room) element_.shape.set(axis, std::max(size, 2 * room));
      grows = grows || size > room;
    }
    if (index >= length)
      reserve(std::max<std::int64_t>(16, 2 * index));
    else if (grows)
      reserve(length);
    copy(value, corner(view_at(memory_, 0, index), value.shape()));
  }

  void copy(const Tensor& value, const Tensor& row) const {
    if (device_.is_cpu() && value.is_contiguous() && row.is_contiguous())
      std::memcpy(row.impl().data, value.impl().data, nbytes(value));
    else
      backend_of(device_).copy(value, row);
  }

  static Tensor corner(Tensor tensor, const Shape& shape) {
    for (int axis = 0; axis < shape.rank(); ++axis) tensor = view_part(tensor, axis, 0, shape[axis]);
    return tensor;
  }

  Spec element_;
  Form form_;
  Device device_;
  const Budget& budget_;
  std::string name_;
  Tensor memory_;
  Shape largest_ = Shape::unknown_rank();  ///< of ragged elements, for which there may be more room
};

}  // namespace tapestry::detail
