#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace tapestry::host {

/// A reference to a callable. It allocates nothing, and is valid while the callable lives.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      // NOLINTNEXTLINE: it hides no copy, and is a parameter type
      FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(static_cast<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, static_cast<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

/// Runs `task(i)` for i in [0, count), on the pool's threads and the caller's. The tasks are the same for any number of
/// threads, and so are the results of a caller that splits its work by shape alone. Calls inside a task run in that
/// task's thread. If tasks throw, the exception of the first one is thrown here when no task is running any more.
void parallel_tasks(std::int64_t count, FunctionRef<void(std::int64_t)> task);

/// Splits [0, count) into chunks of `grain` and runs `body(begin, end)` for each by `parallel_tasks`. A count of up to
/// one grain runs here at once.
template <class F>
void parallel_for(std::int64_t count, std::int64_t grain, F&& body) {
  if (count <= grain) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  parallel_tasks((count + grain - 1) / grain,
                 [&](std::int64_t i) { body(i * grain, i * grain + grain < count ? i * grain + grain : count); });
}

}  // namespace tapestry::host
