#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "core/make_tensor.hpp"
#include "tapestry/variable.hpp"

namespace tapestry {

/// The cell behind the handles of a Variable.
struct Variable::Cell {
  std::string name;
  std::string given_name;           ///< before a module gave it its path
  void (*update_name)() = nullptr;  ///< of a module's Variable: sees to it that `name` is the path that it has now
  bool trainable = true;
  Spec spec;
  Device device;

  /// A consistent value while other threads assign. Throws FailedPreconditionError before the first.
  Tensor load() const {
    const std::lock_guard lock(mutex_);
    if (!value_) throw_uninitialized();
    return value_;
  }
  bool is_initialized() const {
    const std::lock_guard lock(mutex_);
    return static_cast<bool>(value_);
  }
  /// The cell gets a handle of its own: what a tape knows of the given tensor is no history of the Variable.
  void store(const Tensor& value) {
    Tensor own = detail::make_view(value, value.shape(), value.strides());
    const std::lock_guard lock(mutex_);
    std::swap(value_, own);
  }

  /// As `store`, for a value whose memory somebody else will use again.
  void copy_from(const Tensor& value);

  /// The Variable lives on that device from now on.
  void move_to(Device place);

  /// While it is held, no other thread reads or changes the value; empty when another one does so now.
  std::unique_lock<std::recursive_mutex> try_lock() const { return {mutex_, std::try_to_lock}; }
  /// Where the elements lie, in row-major order; nullptr when they do not, or there are none yet.
  const void* memory() const {
    const std::lock_guard lock(mutex_);
    return bool(value_) && value_.is_contiguous() ? value_.impl().data : nullptr;
  }
  /// Whether `modify` would change that memory, beside `own` tensors on it that will be gone by then.
  bool may_change_in_place(std::uint32_t own) const {
    const std::lock_guard lock(mutex_);
    return bool(value_) && !value_.impl().references.is_shared() &&
           value_.impl().storage->references.count() == 1 + own;
  }
  /// The elements have been changed in place: the value becomes a new tensor.
  void renew() {
    modify([](const Tensor&) {});
  }

  /// Lets `change` write the elements in place, on memory that nobody else reads: a value that is still held elsewhere
  /// is copied first. The value becomes a new tensor, with an id of its own.
  template <class Change>
  void modify(const Change& change) {
    const std::lock_guard lock(mutex_);
    Tensor next = to_be_changed();
    change(std::as_const(next));
    value_ = std::move(next);
  }

 private:
  Tensor to_be_changed() const;
  [[noreturn]] void throw_uninitialized() const;

  mutable std::recursive_mutex mutex_;
  Tensor value_;
};

enum class Update : std::uint8_t;

/// One step of an optimizer in one pass: changes a Variable and its slots, the Variables behind it, in place. The
/// numbers are those of the formula in backend/functors.hpp, float64, on the host or with the Variable.
void update_in_place(Update formula, const Tensor& numbers, const Tensor& gradient,
                     std::span<const Variable> variable_and_slots);

}  // namespace tapestry
