#pragma once

#include <functional>

#include "core/call_site.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/op.hpp"

namespace tapestry {

/// How a Variable changes.
enum class Assign : std::uint8_t { set, add, subtract };

/// A graph under construction, which takes the calls that are not to be executed now.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Makes the call a node and gives it symbolic outputs. An input is still a weak number when its element type depends
  /// on that of another input, which is unknown.
  virtual void add(Call& call) = 0;
  /// Recorders are told of a call of this op from an eager tensor to the constant that replaces it in the graph.
  virtual const Op& capture_op() const = 0;
  /// The symbolic value of a Variable, as it is when the graph runs.
  virtual Tensor read(const Variable& variable, Where where) = 0;
  /// What such a read would give, if it has been read before; otherwise an empty Tensor.
  virtual Tensor known_value(const Variable& variable) const = 0;
  /// Changes a Variable when the graph runs; returns the new value.
  virtual Tensor assign(const Variable& variable, Assign kind, const Tensor& value, Where where) = 0;
  /// Tells the graph of a Variable that has just been made.
  virtual void declare(const Variable& variable, const Tensor& initial_value, Where where) = 0;
  /// What f gives for each element of a tensor along axis 0, stacked; empty if it gives an empty Tensor. f is called
  /// once, for all elements.
  virtual Tensor map(const Tensor& elements, const std::function<Tensor(const Tensor&)>& f, Where where) = 0;
  /// The name scope of new nodes: "outer/inner/".
  virtual const std::string& scope() const = 0;
  /// Opens a name scope for new nodes. Returns the scope outside it, which `leave_scope` takes.
  virtual std::string enter_scope(std::string_view name) = 0;
  virtual void leave_scope(std::string outer) = 0;
};

/// This thread's innermost open graph; nullptr if none is open.
TAPESTRY_API Sink*& open_sink();

/// While it lives, the graph is this thread's innermost open one.
class OpenSink {
 public:
  explicit OpenSink(Sink* sink) : outer_(std::exchange(open_sink(), sink)) {}
  ~OpenSink() { open_sink() = outer_; }
  OpenSink(const OpenSink&) = delete;
  OpenSink& operator=(const OpenSink&) = delete;

 private:
  Sink* outer_;
};

/// Makes a call a node of a graph, even if no input is symbolic, and otherwise does what `apply_all` does.
Tensors add_call(Sink& sink, Call call);

/// The graph of a symbolic tensor; nullptr for a tensor that is in none.
inline Sink* sink_of(const Tensor& tensor) {
  return bool(tensor) && tensor.impl().origin && tensor.is_symbolic() ? &tensor.impl().origin->sink() : nullptr;
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

/// The request of a device scope to the ops that are executed in it.
class DeviceRequest {
 public:
  virtual ~DeviceRequest() = default;
  /// The device on which they run; nothing if the scope names none. Throws InvalidArgumentError, with the name of the
  /// op that asks, if there is no such device.
  virtual std::optional<Device> place(std::string_view op) = 0;
};
/// The request of this thread's innermost device scope; nullptr outside all of them.
TAPESTRY_API DeviceRequest*& device_request();
/// What `set_soft_device_placement` has set.
bool soft_device_placement();
/// "/job:localhost/replica:0/task:0/device:GPU:0".
std::string full_name(Device device);

/// While it lives, this thread's ops are executed, even if a graph is open, and on the device of their inputs, even in
/// a device scope. For example, the state of an optimizer is made once, and not at every run of a graph.
class ExecuteNow {
 public:
  ExecuteNow() : request_(std::exchange(device_request(), nullptr)) {}
  ~ExecuteNow() { device_request() = request_; }
  ExecuteNow(const ExecuteNow&) = delete;
  ExecuteNow& operator=(const ExecuteNow&) = delete;

 private:
  const OpenSink none_{nullptr};
  DeviceRequest* request_;
};

/// Listens to the ops of a thread, as a gradient tape does.
class Recorder {
 public:
  virtual ~Recorder() = default;
  /// Called after an op has run or has become a node. The call may be moved from.
  virtual void record(Call&& call) = 0;
  /// Whether `record` reads or keeps the elements of input i. Where no recorder does, the op may overwrite a temporary.
  virtual bool keeps_input(const Call&, std::size_t /*i*/) const { return true; }
  /// Called when an op of a graph that may have been recorded gets more outputs. The call has all of them.
  virtual void extend(const Call&) {}
  /// Called before a stateful op, such as one that draws random numbers. The recorder may give the call its outputs and
  /// return true; then the op does not run.
  virtual bool replay(Call&) { return false; }
  /// Called when a Variable's value is read. The recorder may replace the value; the recorders outside it see the new
  /// one.
  virtual void read(const Variable& variable, Tensor& value) = 0;
  /// Called before a Variable is changed. The recorder may tell the value after the change and return true; then the
  /// Variable is not changed.
  virtual bool replay_change(const Variable&, Tensor&) { return false; }
  /// Called after a Variable has been changed, or was not changed because of `replay_change`, with its value.
  virtual void change(const Variable&, const Tensor&) {}
};

/// Computes the outputs of a call, with the dtypes and shapes of the specs. The inputs must have been promoted and
/// checked.
void execute(Call& call, const Specs& specs, Device device);

/// Thrown where an op reads elements of a tensor that has none.
struct NoValueError : FailedPreconditionError {
  NoValueError(const std::string& message, std::int64_t id) : FailedPreconditionError(message), tensor(id) {}
  std::int64_t tensor;  ///< its id
};

/// The recorders of this thread, outermost first.
using Recorders = SmallVector<Recorder*, 4>;
TAPESTRY_API Recorders& recorders();

/// Tells this thread's recorders of a call.
void tell_recorders(Call&& call);
/// Tells recorders that a Variable is read, the innermost first.
void tell_read(const Recorders& listeners, const Variable& variable, Tensor& value);
/// The same for changes of a Variable. `is_change_replayed` tells whether one of the recorders wants no change.
/// @{
bool is_change_replayed(const Recorders& listeners, const Variable& variable, Tensor& after);
void tell_change(const Recorders& listeners, const Variable& variable, const Tensor& after);
/// @}

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

/// The same while ops become a part of a function of a graph: what is recorded is the function's call.
class RecordFunction {
 public:
  RecordFunction();
  ~RecordFunction();
  RecordFunction(const RecordFunction&) = delete;
  RecordFunction& operator=(const RecordFunction&) = delete;

 private:
  const bool outer_;
  const PauseRecording pause_{};
};
/// Whether recorders see this thread's ops, or the call of the function that they become a part of.
bool is_recorded();

/// Calls f, the body of a function made of several ops. `where` is the call site of these ops, and errors without an op
/// or a line get `op` and `where`.
template <class F>
auto blaming(std::string_view op, Where where, F f) {
  const CallSiteScope site(where);
  return detail::locating(op, CallSiteScope::current(), [&] { return f(); });
}

}  // namespace tapestry
