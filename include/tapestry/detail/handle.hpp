#pragma once

#include <memory>
#include <utility>

#include "tapestry/error.hpp"

namespace tapestry::detail {

/// What a handle points to. A handle that was moved from still stands for the same object, as after a copy: there is no
/// handle to nothing.
template <class T>
class Handle : public std::shared_ptr<T> {
 public:
  using std::shared_ptr<T>::shared_ptr;
  Handle() = default;
  Handle(std::shared_ptr<T> pointer) noexcept  // NOLINT(google-explicit-constructor): one kind of pointer as another
      : std::shared_ptr<T>(std::move(pointer)) {}
  Handle(const Handle&) noexcept = default;
  Handle& operator=(const Handle&) noexcept = default;
  ~Handle() = default;
};

/// The pointer, unless what it points to has been moved to another object: then it throws FailedPreconditionError.
template <class Pointer>
const Pointer& owned(const Pointer& pointer) {
  if (!pointer) throw FailedPreconditionError("An object was used that had been moved to another one");
  return pointer;
}

/// What an object owns that can be moved, but not copied. Use of one that was moved from throws
/// FailedPreconditionError.
template <class T>
class Owned : public std::unique_ptr<T> {
 public:
  using std::unique_ptr<T>::unique_ptr;
  Owned(std::unique_ptr<T> owned) noexcept  // NOLINT(google-explicit-constructor): one kind of pointer as another
      : std::unique_ptr<T>(std::move(owned)) {}

  T* operator->() const { return &**this; }
  T& operator*() const { return *owned(this->get()); }
};

/// Whether the object that has this as a member was moved to another one, as copies of it are then, too.
class Moved {
 public:
  Moved() = default;
  Moved(const Moved&) = default;
  Moved& operator=(const Moved&) = default;
  Moved(Moved&& other) noexcept : away_(std::exchange(other.away_, true)) {}
  Moved& operator=(Moved&& other) noexcept {
    const bool away = std::exchange(other.away_, true);
    away_ = away;
    return *this;
  }
  ~Moved() = default;

  explicit operator bool() const { return away_; }

 private:
  bool away_ = false;
};

}  // namespace tapestry::detail
