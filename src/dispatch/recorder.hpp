#pragma once

#include "tapestry/op.hpp"

namespace tapestry {

/// Whoever listens to the ops of a thread: gradient tapes, traces.
class Recorder {
 public:
  virtual ~Recorder() = default;
  /// After an op has run. The call may be moved from.
  virtual void record(Call&& call) = 0;
  /// When a Variable's value is read. The recorder may put another in its place, which those outside it then see.
  virtual void read(const Variable& variable, Tensor& value) = 0;
};

/// The recorders of this thread, outermost first.
using Recorders = SmallVector<Recorder*, 4>;
Recorders& recorders();

/// Tells this thread's recorders of a call.
void tell_recorders(Call&& call);
/// Tells recorders that a Variable is read, the innermost first.
void tell_read(const Recorders& listeners, const Variable& variable, Tensor& value);

/// Hides all recorders of this thread while it lives: for work that no gradient should see.
class PauseRecording {
 public:
  PauseRecording() : saved_(std::move(recorders())) { recorders().clear(); }
  ~PauseRecording() { recorders() = std::move(saved_); }
  PauseRecording(const PauseRecording&) = delete;
  PauseRecording& operator=(const PauseRecording&) = delete;

 private:
  Recorders saved_;
};

/// While it lives, ops of this thread are said to be called from `where`: the backward walk blames the line of the
/// forward op, not its own, and a function made of several ops that of its caller. Of nested ones the outermost counts.
class CallSiteScope {
 public:
  explicit CallSiteScope(Where where);
  ~CallSiteScope();
  CallSiteScope(const CallSiteScope&) = delete;
  CallSiteScope& operator=(const CallSiteScope&) = delete;

 private:
  Where saved_;
};

/// Calls f, for a function made of several ops: they are said to be called from `where`, and errors that know no op or
/// no place get these.
template <class F>
auto blaming(std::string_view op, Where where, F f) {
  const CallSiteScope site(where);
  try {
    return f();
  } catch (Error& error) {
    error.locate(op, where);
    throw;
  }
}

}  // namespace tapestry
