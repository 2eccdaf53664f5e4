#pragma once

#include "tapestry/op.hpp"

namespace tapestry {

/// How a Variable changes.
enum class Assign : std::uint8_t { set, add, subtract };

/// Where calls go that are not to be executed now: a graph under construction.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Makes the call a node and gives it symbolic outputs. An input is a weak number still where its element type cannot
  /// be told yet, because that of another input is unknown.
  virtual void add(Call& call) = 0;
  /// The op by which recorders know of the way from an eager tensor to the constant that stands for it in the graph.
  virtual const Op& capture_op() const = 0;
  /// The value that a Variable will have.
  virtual Tensor read(const Variable& variable, Where where) = 0;
  /// Changes a Variable when the graph runs; returns the new value.
  virtual Tensor assign(const Variable& variable, Assign kind, const Tensor& value, Where where) = 0;
  /// A Variable was made while the graph was open.
  virtual void declare(const Variable& variable, const Tensor& initial_value, Where where) = 0;
  /// New nodes get names in a scope of that name; returns what `leave_scope` wants.
  virtual std::string enter_scope(std::string_view name) = 0;
  virtual void leave_scope(std::string outer) = 0;
};

/// The graph that this thread has opened last; nullptr outside all scopes.
Sink*& open_sink();
/// The graph that a tensor belongs to; nullptr for one that has a value.
inline Sink* sink_of(const Tensor& tensor) {
  return bool(tensor) && tensor.impl().origin ? &tensor.impl().origin->sink() : nullptr;
}

/// While it lives, the nodes that this thread adds to the open graph, if any, have names in that scope.
class SinkScope {
 public:
  explicit SinkScope(std::string_view name) : sink_(open_sink()) {
    if (sink_) outer_ = sink_->enter_scope(name);
  }
  ~SinkScope() {
    if (sink_) sink_->leave_scope(std::move(outer_));
  }
  SinkScope(const SinkScope&) = delete;
  SinkScope& operator=(const SinkScope&) = delete;

 private:
  Sink* sink_;
  std::string outer_;
};

/// What the scope of a device asks of the ops that are executed in it.
class DeviceWish {
 public:
  virtual ~DeviceWish() = default;
  /// Where they run; nothing where the scope names no device. Throws InvalidArgumentError, with the name of the op that
  /// asks, when the device is not there.
  virtual std::optional<Device> place(std::string_view op) = 0;
};
/// The wish of this thread's innermost scope; nullptr outside all scopes.
DeviceWish*& device_wish();
/// What `set_soft_device_placement` has set.
bool soft_device_placement();
/// "/job:localhost/replica:0/task:0/device:GPU:0".
std::string full_name(Device device);

/// While it lives, ops of this thread are executed, whatever graph is open, where their inputs are, whatever scopes are
/// around: what an optimizer remembers is made once, and not at every run of a graph.
class ExecuteNow {
 public:
  ExecuteNow() : sink_(std::exchange(open_sink(), nullptr)), wish_(std::exchange(device_wish(), nullptr)) {}
  ~ExecuteNow() {
    open_sink() = sink_;
    device_wish() = wish_;
  }
  ExecuteNow(const ExecuteNow&) = delete;
  ExecuteNow& operator=(const ExecuteNow&) = delete;

 private:
  Sink* sink_;
  DeviceWish* wish_;
};

/// Whoever listens to the ops of a thread: gradient tapes, traces.
class Recorder {
 public:
  virtual ~Recorder() = default;
  /// After an op has run. The call may be moved from.
  virtual void record(Call&& call) = 0;
  /// Before an op that draws random numbers, or has another effect. The recorder may give the call its outputs instead
  /// and return true; then the op does not run.
  virtual bool replay(Call&) { return false; }
  /// When a Variable's value is read. The recorder may put another in its place, which those outside it then see.
  virtual void read(const Variable& variable, Tensor& value) = 0;
};

/// Computes the outputs of a call, which are like the specs: the innermost part of the door, for inputs that have been
/// promoted and checked.
void execute(Call& call, const Specs& specs, Device device);

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
  /// The place that counts now; empty when no such scope is open.
  static Where current();
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
