// The thread sanitizers do not see how libstdc++ counts the owners of an exception, and take the end that the last one
// makes of it for a fault. In programs that are built with one these stand in for the two functions that give up an
// exception: they say that what its other owners did comes before that end.

#include <atomic>
#include <exception>

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

extern "C" {
void release(void** pointer) noexcept __asm__("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
void end_catch() __asm__("__cxa_end_catch");
}

namespace {

template <class F>
F* replaced(const char* symbol) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, symbol));
}

/// One owner gives up at a time, so that the last one is told of all others. From a relaxed lock the sanitizer takes no
/// order, which could hide faults elsewhere. The end of an exception gives up those that it holds.
class Turn {
 public:
  Turn() {
    if (depth++ == 0)
      while (taken.exchange(true, std::memory_order_relaxed)) {
      }
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~Turn() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (--depth == 0) taken.store(false, std::memory_order_relaxed);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  static inline std::atomic<bool> taken{false};
  static inline thread_local int depth = 0;
};

void order(void* exception) {
  __tsan_acquire(exception);
  __tsan_release(exception);
}

}  // namespace

void release(void** pointer) noexcept {
  static auto* const replaced_release =
      replaced<void(void**) noexcept>("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
  const Turn turn;
  order(*pointer);
  replaced_release(pointer);
}

void end_catch() {
  static auto* const replaced_end = replaced<void()>("__cxa_end_catch");
  const Turn turn;
  if (const std::exception_ptr caught = std::current_exception()) order(*reinterpret_cast<void* const*>(&caught));
  replaced_end();
}
