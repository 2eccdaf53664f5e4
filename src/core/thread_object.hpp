#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace tapestry::detail {

/// The T of this thread, made when it is first asked for. Unlike a `thread_local` T it may be used, and stays where it
/// is, in the destructors of other `thread_local` and of static objects: at its end a thread does not destroy it, but
/// makes it a new T. What it gets after that is not freed.
template <class T>
T& thread_object() {
  // Trivially destructible and constant-initialised, so that access needs no guard and works during thread exit.
  constinit static thread_local T* object __attribute__((tls_model("initial-exec"))) = nullptr;
  if (!object) [[unlikely]] {
    struct Emptier {
      // An empty T takes the place of the old one before that is destroyed, which may still ask for this object. The
      // old one is moved from: a string that is merely assigned to would keep its memory.
      ~Emptier() { const T old = std::exchange(*object, T()); }
    };
    alignas(T) constinit static thread_local std::byte place[sizeof(T)] = {};
    static thread_local Emptier registered;
    static_cast<void>(registered);
    object = ::new (place) T;
  }
  return *object;
}

}  // namespace tapestry::detail
