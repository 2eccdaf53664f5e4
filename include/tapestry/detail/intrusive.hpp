#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

#include "tapestry/detail/config.hpp"

namespace tapestry {

class Sink;
class Tensor;

namespace detail {

/// A reference count. An atomic operation costs more than the rest of copying a handle, so a process that has never
/// started a second thread does without, as in libstdc++'s shared_ptr.
class ReferenceCount {
 public:
  void increment() {
    if (is_single_threaded()) {
      count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    } else {
      count_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  /// Returns whether that was the last reference.
  bool decrement() {
    const std::uint32_t before = count_.load(std::memory_order_acquire);
    // The last owner needs no atomic subtraction, because nobody else has a reference that could be copied.
    if (before == 1) return true;
    if (is_single_threaded()) {
      count_.store(before - 1, std::memory_order_relaxed);
      return false;
    }
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  bool is_shared() const { return count() > 1; }
  std::uint32_t count() const { return count_.load(std::memory_order_acquire); }

 private:
  static bool is_single_threaded() {
#if __has_include(<sys/single_threaded.h>)
    return __libc_single_threaded;
#else
    return false;
#endif
  }

  std::atomic<std::uint32_t> count_{1};
};

/// A pointer to an object that counts its own references and frees itself by `T::destroy`.
template <class T>
class Intrusive {
 public:
  constexpr Intrusive() = default;
  /// Takes over the one reference that a new object starts with.
  explicit Intrusive(T* object) : object_(object) {}
  Intrusive(const Intrusive& other) : object_(other.object_) {
    if (object_) object_->references.increment();
  }
  Intrusive(Intrusive&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Intrusive& operator=(Intrusive other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Intrusive() {
    // clang 14 loses sight of structured bindings, and of how many references there are.
    // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Branch,clang-analyzer-cplusplus.NewDelete)
    if (object_ && object_->references.decrement()) T::destroy(object_);
  }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

/// The origin of a symbolic tensor: an output of an operation in a graph.
struct TAPESTRY_API Origin {
  ReferenceCount references;

  virtual ~Origin() = default;
  /// The graph, to which ops on the tensor are added. Throws FailedPreconditionError when the graph is gone.
  virtual Sink& sink() = 0;
  /// The tensor itself. Throws FailedPreconditionError when the graph is gone.
  virtual Tensor tensor() const = 0;
  /// A description of the tensor for messages. It works also when the graph is gone.
  virtual std::string describe() const = 0;
  static void destroy(Origin* origin) noexcept { delete origin; }
};

}  // namespace detail
}  // namespace tapestry
