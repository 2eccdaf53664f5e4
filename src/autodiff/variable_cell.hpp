#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "core/make_tensor.hpp"
#include "tapestry/variable.hpp"

namespace tapestry {

/// The cell behind the handles of a Variable.
struct Variable::Cell {
  std::string name;
  bool trainable = true;
  Spec spec;
  Device device;

  /// A consistent value while other threads assign.
  Tensor load() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  /// The cell gets a handle of its own: what a tape knows of the given tensor is no history of the Variable.
  void store(const Tensor& value) {
    Tensor own = detail::make_view(value, value.shape(), value.strides());
    const std::lock_guard lock(mutex_);
    std::swap(value_, own);
  }

  /// Lets `change` write the elements in place, on memory that nobody else reads: a value that is still held elsewhere
  /// is copied first. The value becomes a new tensor, with an id of its own.
  void modify(const std::function<void(const Tensor&)>& change);

 private:
  mutable std::mutex mutex_;
  Tensor value_;
};

}  // namespace tapestry
