#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "backend/backend.hpp"
#include "backend/views.hpp"
#include "tapestry/detail/flag.hpp"
#include "tapestry/variable.hpp"

namespace tapestry {

/// What modules do for the names of their Variables.
struct PathNames {
  void (*update)();                                   ///< sets `Variable::Cell::name` to the current path
  std::string (*node_name)(const std::string& path);  ///< of the node of a Variable in the open graph
};

/// The cell behind the handles of a Variable.
struct Variable::Cell {
  explicit Cell(bool is_trainable = true) : trainable(is_trainable) {}

  std::string name;
  std::string given_name;                 ///< the name before a module set it to the path
  const PathNames* path_names = nullptr;  ///< of a module's Variable
  std::weak_ptr<Cell> owner;              ///< of a slot, "w/Adam": the Variable "w" that it belongs to
  detail::Flag trainable;
  detail::Count replaced;  ///< how often a module has put another cell in the place of this one
  Spec spec;
  Device device;

  /// The value, consistent while other threads assign. Throws FailedPreconditionError before the first assignment.
  Tensor load() const {
    const std::lock_guard lock(mutex_);
    if (!value_) throw_uninitialized();
    return value_;
  }
  bool is_initialized() const {
    const std::lock_guard lock(mutex_);
    return static_cast<bool>(value_);
  }
  /// Sets the value. The cell makes a tensor of its own from it: what a tape knows of the given tensor is not the
  /// Variable's history. Its elements are contiguous, as plans have them: a GPU's products round by the layout.
  void store(const Tensor& value) {
    Tensor own = view_of(backend_of(value.device()).contiguous(value));
    const std::lock_guard lock(mutex_);
    std::swap(value_, own);
  }

  /// As `store`, but copies the elements: for a value in memory that will be used again. The value of a Variable whose
  /// sizes change may have others than before.
  void copy_from(const Tensor& value);

  /// Moves the Variable to that device.
  void move_to(Device place);

  /// A lock. While it is held, no other thread reads or changes the value; it owns nothing if another thread does so
  /// now.
  std::unique_lock<std::recursive_mutex> try_lock() const { return {mutex_, std::try_to_lock}; }
  /// The address of the elements; nullptr if they are not in row-major order, or before the first assignment.
  const void* memory() const {
    const std::lock_guard lock(mutex_);
    return bool(value_) && value_.is_contiguous() ? value_.impl().data : nullptr;
  }
  /// Whether `modify` would change that memory in place once `own` other tensors on it are gone.
  bool may_change_in_place(std::uint32_t own) const {
    const std::lock_guard lock(mutex_);
    return bool(value_) && !value_.impl().references.is_shared() &&
           value_.impl().storage->references.count() == 1 + own;
  }
  /// Makes the value a new tensor, after its elements were changed in place.
  void renew() {
    modify([](const Tensor&) {});
  }

  /// Lets `change` write the elements in place. A value that is still held elsewhere is copied first. The value becomes
  /// a new tensor with its own id.
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

namespace detail {

/// Throws InvalidArgumentError unless a tensor has the shape that the value of a Variable has now.
void require_same_shape(const Variable& variable, const Tensor& value, const Tensor& other);

template <class Change>
void modify_rest(std::span<const Variable> variables, SmallVector<Tensor, 4>& opened, const Change& change) {
  if (variables.empty()) return change(std::span<const Tensor>(opened.begin(), opened.end()));
  variables.front().cell()->modify([&](const Tensor& value) {
    opened.push_back(value);
    require_same_shape(variables.front(), value, opened.front());
    modify_rest(variables.subspan(1), opened, change);
  });
}

}  // namespace detail

/// Lets `change` write the elements of several Variables in place, as `modify` does. No other thread reads one of them
/// until it has run. Throws InvalidArgumentError if the values have not all one shape.
template <class Change>
void modify_all(std::span<const Variable> variables, const Change& change) {
  SmallVector<Tensor, 4> opened;
  detail::modify_rest(variables, opened, change);
}

enum class Update : std::uint8_t;

/// Makes one step of an optimizer in one pass: changes a Variable and its slots, which are behind it in the list, in
/// place. The numbers are those of the formula in backend/functors.hpp, float64, on the host or on the Variable's
/// device.
void update_in_place(Update formula, const Tensor& numbers, const Tensor& gradient,
                     std::span<const Variable> variable_and_slots);

}  // namespace tapestry
