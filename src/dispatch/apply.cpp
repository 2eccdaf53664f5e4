#include <atomic>
#include <iostream>

#include "backend/backend.hpp"
#include "backend/views.hpp"
#include "core/call_site.hpp"
#include "core/deferred.hpp"
#include "core/make_tensor.hpp"
#include "core/thread_object.hpp"
#include "dispatch/abandoned_recorders.hpp"
#include "dispatch/autocast.hpp"
#include "dispatch/declaration.hpp"
#include "dispatch/recorder.hpp"
#include "dispatch/tape_limits.hpp"

namespace tapestry {

// Below this size a tensor without its data would take as much memory as the data.
constinit std::size_t strip_above_bytes = 256;

namespace {

// Constant-initialised, so that access needs no guard.
constinit thread_local Sink* current_sink __attribute__((tls_model("initial-exec"))) = nullptr;
constinit thread_local DeviceRequest* current_request __attribute__((tls_model("initial-exec"))) = nullptr;
constinit std::atomic<bool> logs_placement = false, places_softly = false;

bool is_weak(const Tensor& input) { return input.impl().weak; }

/// The element type of a C++ number where no tensor decides it. A float arrives as float64, so that it loses no digit
/// beside a float64 tensor, but is a float32 by itself.
DType literal_type(const Tensor& number) { return is_floating(number.dtype()) ? float32 : number.dtype(); }

/// The element type that an op's promotion asks of its inputs. Numbers count only by their kind, as in PyTorch: 2.0
/// makes whole numbers and bools float32 and changes no other type.
DType promoted_type(const Op& op, const Tensors& inputs) {
  DType type = DType::unknown;
  for (std::size_t i = static_cast<std::size_t>(op.promotion.first); i < inputs.size(); ++i)
    if (!is_weak(inputs[i])) type = promote(type, inputs[i].dtype());
  for (std::size_t i = static_cast<std::size_t>(op.promotion.first); i < inputs.size(); ++i) {
    if (!is_weak(inputs[i])) continue;
    const DType number = literal_type(inputs[i]);
    const bool wider_kind = is_floating(number) ? !is_floating(type) : number != boolean && type <= boolean;
    if (wider_kind || type == DType::unknown) type = number;
  }
  if (op.promotion.kind == Promotion::Kind::floating && !is_floating(type)) type = float32;
  return type;
}

/// A C++ number as a constant of an element type on a device. This needs no Cast op, as a tensor would. Throws
/// InvalidArgumentError for a whole number that does not fit the type.
Tensor number_as(const Tensor& number, DType type, Device device) {
  if (number.dtype() == type) return view_as(number, {}).to(device);
  Tensor constant = detail::make_tensor(type, {}, cpu());
  detail::visit_dtype(type, [&]<class T>() { *detail::mutable_data<T>(constant) = number.item<T>(); });
  if (is_integer(type) && constant.item<std::int64_t>() != number.item<std::int64_t>())
    throw InvalidArgumentError(
        detail::join(number.item<std::int64_t>(), " does not fit the element type ", to_string(type)));
  return constant.to(device);
}

/// Whether the inputs need no promotion and no move, which is the common case: all are tensors on one device and of one
/// element type, which the op takes.
bool are_alike(const Op& op, const Tensors& inputs) {
  if (inputs.empty()) return false;
  const detail::TensorImpl& first = inputs[0].impl();
  for (const Tensor& input : inputs) {
    const detail::TensorImpl& impl = input.impl();
    if (impl.dtype != first.dtype || impl.device != first.device || impl.weak) return false;
  }
  return op.promotion.kind != Promotion::Kind::floating || is_floating(first.dtype);
}

/// The device of the first tensor among the inputs; the CPU if all are C++ numbers.
Device device_of_tensors(const Tensors& inputs) {
  const auto* tensor = std::find_if_not(inputs.begin(), inputs.end(), is_weak);
  return tensor == inputs.end() ? cpu() : tensor->device();
}

/// Casts the inputs to the element type that the op's promotion asks for. C++ numbers become constants on the device.
void promote_inputs(const Op& op, Tensors& inputs, Device device, Where where) {
  const bool promotes = op.promotion.kind != Promotion::Kind::none;
  const std::size_t first = promotes ? static_cast<std::size_t>(op.promotion.first) : inputs.size();
  for (std::size_t i = 0; i < first; ++i)
    if (is_weak(inputs[i])) inputs[i] = number_as(inputs[i], literal_type(inputs[i]), device);
  if (first >= inputs.size()) return;
  const DType type = promoted_type(op, inputs);
  for (std::size_t i = first; i < inputs.size(); ++i) {
    if (is_weak(inputs[i])) {
      inputs[i] = number_as(inputs[i], type, device);
    } else if (inputs[i].dtype() != type) {
      inputs[i] = inputs[i].cast(type, where);
    }
  }
}

/// Gives a list of numbers beside a float64 tensor all the digits that were written, not only float32's.
void keep_digits(const Op& op, std::initializer_list<In> given, Tensors& inputs) {
  const auto is_list = [](const In& each) { return each.is_list(); };
  if (op.promotion.kind == Promotion::Kind::none || std::none_of(given.begin(), given.end(), is_list)) return;
  const auto first = static_cast<std::size_t>(op.promotion.first);
  const auto is_double = [](const In& each) {
    return !each.is_number() && bool(each.tensor()) && each->dtype() == float64;
  };
  if (first >= given.size() || std::none_of(given.begin() + first, given.end(), is_double)) return;
  for (std::size_t i = first; i < inputs.size(); ++i)
    if (is_list(given.begin()[i])) inputs[i] = given.begin()[i].as(float64);
}

/// The device of all inputs, or, without inputs, that of the attribute "device". Throws InvalidArgumentError for inputs
/// on different devices.
Device common_device(const Tensors& inputs, const Attrs& attrs) {
  if (inputs.empty()) {
    const Device* device = attrs.find<Device>("device");
    return device ? *device : cpu();
  }
  const Device device = inputs[0].device();
  for (std::size_t i = 1; i < inputs.size(); ++i)
    if (inputs[i].device() != device)
      throw InvalidArgumentError(detail::join("Tensors on conflicting devices: input #0 is on ",
                                              tensorflow_name(device), " and input #", i, " on ",
                                              tensorflow_name(inputs[i].device()), "; move one with .to(device)"));
  return device;
}

/// The device on which an op runs within a device scope; its inputs are moved there. An op with inputs and the
/// attribute "device" decides itself where its result goes. A symbolic input, of which only the shape is read, has no
/// value to move.
Device requested_device(const Call& call, Tensors& inputs) {
  const bool says_itself = !inputs.empty() && call.attrs().find("device");
  const std::optional<Device> device = says_itself ? std::nullopt : current_request->place(call.name());
  if (!device) return common_device(inputs, call.attrs());
  for (Tensor& input : inputs)
    if (!input.is_symbolic()) input = input.to(*device, call.where());
  return *device;
}

void log_placement(const Call& call, Device device) {
  // The output of a copy to a device is on that device, not on that of the input.
  const Device place = call.outputs().empty() ? device : call.output().device();
  std::clog << detail::join("Executing op ", call.type(), " in device ", full_name(place), "\n");
}

void require_values(const Op& op, const Call& call) {
  for (std::size_t i = 0; i < call.inputs().size(); ++i) {
    const Tensor& input = call.input(i);
    if (input.is_symbolic() && (op.shape_inputs >> std::min<std::size_t>(i, 31) & 1) == 0)
      throw NoValueError(
          detail::join("Input #", i, " of shape ", input.shape(), " is symbolic: it has no value until a graph runs"),
          input.id());
  }
}

void run_on_host(const Op& op, Call& call, const Specs& specs, Device device) {
  for (Tensor& input : call.mutable_inputs())
    if (!input.device().is_cpu() || !input.is_contiguous()) input = detail::on_host(input);
  for (const Spec& spec : specs) call.mutable_outputs().push_back(detail::make_tensor(spec.dtype, spec.shape, cpu()));
  op.cpu(call);
  if (device.is_cpu()) return;
  const PauseRecording pause;
  for (Tensor& output : call.mutable_outputs()) output = output.to(device, call.where());
}

}  // namespace

void execute(Call& call, const Specs& specs, Device device) {
  const Op& op = call.op();
  if (op.view) {
    call.mutable_outputs().push_back(op.view(call, specs[0]));
  } else if (op.forward) [[likely]] {
    Backend& backend = backend_of(device);
    for (const Spec& spec : specs)
      call.mutable_outputs().push_back(detail::make_tensor(spec.dtype, spec.shape, device));
    op.forward(backend, call);
  } else if (op.evaluate) {
    const CallSiteScope site(call.where());  // for the errors of the ops that it applies
    call.mutable_outputs() = op.evaluate(call);
  } else {
    const Tensors inputs = call.inputs();
    run_on_host(op, call, specs, device);
    call.mutable_inputs() = inputs;
  }
}

namespace {

bool release(std::initializer_list<In> given) {
  bool any = false;
  for (const In& each : given) any |= each.release();
  return any;
}

/// Whether the elements of input i are used by nobody but this call, and are as many and of the type of the output.
bool may_overwrite(const Call& call, std::size_t i, const Spec& output) {
  const Tensor& input = call.input(i);
  return detail::is_private(input) && input.impl().storage->bytes > strip_above_bytes &&
         input.dtype() == output.dtype && input.shape() == output.shape &&
         std::none_of(recorders().begin(), recorders().end(),
                      [&](const Recorder* recorder) { return recorder->keeps_input(call, i); });
}

/// Computes an elementwise op in the memory of one of its inputs, which loses it. Returns whether there is such an
/// input.
bool execute_in_place(Call& call, const Specs& specs, Device device) {
  const Op& op = call.op();
  if (!op.forward || !op.forward.is_elementwise()) return false;
  for (std::size_t i = 0; i < call.inputs().size(); ++i) {
    if (!may_overwrite(call, i, specs[0])) continue;
    call.mutable_outputs().push_back(view_of(call.input(i)));
    op.forward(backend_of(device), call);
    call.mutable_inputs()[i] = detail::without_data(call.input(i));
    return true;
  }
  return false;
}

bool has_unknown_type(const Tensors& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return x.dtype() == DType::unknown; });
}

/// Whether a recorder has given the call its outputs; the innermost is asked first.
bool is_replayed(Call& call) {
  const Recorders& listeners = recorders();
  for (std::size_t i = listeners.size(); i-- > 0;)
    if (listeners[i]->replay(call)) return true;
  return false;
}

/// Makes a call a node of a graph. An eager input is replaced by a constant there, and one of a graph around a function
/// by an input of that function. Recorders are told of an op from the input to what replaces it, so that a tape
/// connects the two.
void add_to_graph(Sink& sink, Call& call) {
  const Tensors given = recorders().empty() ? Tensors() : call.inputs();
  sink.add(call);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].is(call.input(i)) || (given[i].is_symbolic() && !sink_of(given[i]))) continue;
    Call captured(sink.capture_op(), {given[i]}, {}, call.where());
    captured.mutable_outputs().push_back(call.input(i));
    tell_recorders(std::move(captured));
  }
}

/// Promotes the inputs of a call, checks their devices and computes the outputs. With a `sink`, it makes the call a
/// node of that graph instead. The temporaries among the arguments that were given are released.
void perform(Call& call, Sink* sink, std::initializer_list<In> given = {}) {
  const Op& op = call.op();
  if (op.stateful && is_replayed(call)) return;
  try {
    Tensors& inputs = call.mutable_inputs();
    if (autocast_type != float32 && op.precision != Precision::given) [[unlikely]]
      autocast_inputs(op, inputs, call.where());
    const bool alike = are_alike(op, inputs);
    if (sink && has_unknown_type(inputs)) return add_to_graph(*sink, call);
    // The placement of a graph chooses the devices of its constants later.
    if (!alike) promote_inputs(op, inputs, sink ? cpu() : device_of_tensors(inputs), call.where());
    if (sink) return add_to_graph(*sink, call);
    const Device device = current_request && !current_sink ? requested_device(call, inputs)
                          : alike                          ? inputs[0].device()
                                                           : common_device(inputs, call.attrs());
    const Specs specs = op.infer(call);
    require_values(op, call);
    if (!release(given) || !execute_in_place(call, specs, device)) execute(call, specs, device);
    if (logs_placement.load(std::memory_order_relaxed)) [[unlikely]]
      log_placement(call, device);
  } catch (Error& error) {
    error.locate(op.name, call.where());
    throw;
  } catch (const std::bad_alloc&) {
    ResourceExhaustedError error("OOM when allocating host memory");
    error.locate(op.name, call.where());
    throw error;
  }
}

}  // namespace

namespace {

struct RecordersOfThread {
  Recorders list;
  std::shared_ptr<AbandonedRecorders> abandoned;
};

}  // namespace

Recorders& recorders() { return detail::thread_object<RecordersOfThread>().list; }

std::weak_ptr<AbandonedRecorders> abandoned_recorders() {
  auto& abandoned = detail::thread_object<RecordersOfThread>().abandoned;
  if (!abandoned) abandoned = std::make_shared<AbandonedRecorders>();
  return abandoned;
}

namespace {
bool& function_is_recorded() {
  thread_local bool is = false;
  return is;
}
}  // namespace

RecordFunction::RecordFunction() : outer_(std::exchange(function_is_recorded(), is_recorded())) {}
RecordFunction::~RecordFunction() { function_is_recorded() = outer_; }
bool is_recorded() { return !recorders().empty() || function_is_recorded(); }

void tell_recorders(Call&& call) {
  const Recorders& listeners = recorders();
  for (std::size_t i = 0; i + 1 < listeners.size(); ++i) {
    Call copy = call;
    listeners[i]->record(std::move(copy));
  }
  if (!listeners.empty()) listeners.back()->record(std::move(call));
}

void tell_read(const Recorders& listeners, const Variable& variable, Tensor& value) {
  for (std::size_t i = listeners.size(); i-- > 0;) listeners[i]->read(variable, value);
}

bool is_change_replayed(const Recorders& listeners, const Variable& variable, Tensor& after) {
  for (std::size_t i = listeners.size(); i-- > 0;)
    if (listeners[i]->replay_change(variable, after)) return true;
  return false;
}

void tell_change(const Recorders& listeners, const Variable& variable, const Tensor& after) {
  for (std::size_t i = listeners.size(); i-- > 0;) listeners[i]->change(variable, after);
}

Sink*& open_sink() { return current_sink; }
DeviceRequest*& device_request() { return current_request; }

void set_log_device_placement(bool on) { logs_placement = on; }
void set_soft_device_placement(bool on) { places_softly = on; }
bool soft_device_placement() { return places_softly; }
std::string full_name(Device device) { return "/job:localhost/replica:0/task:0" + tensorflow_name(device); }

namespace {

/// The graph in which a call becomes a node; nullptr when the call is to be executed. While a graph is open, a call
/// without symbolic inputs is still executed, unless it has no inputs at all or its op is stateful. Deferred inputs are
/// computed.
Sink* sink_for(Call& call) {
  Tensors& inputs = call.mutable_inputs();
  Sink* sink = nullptr;
  for (Tensor& input : inputs) {
    if (!input || !input.impl().origin) continue;
    if (Sink* graph = detail::locating(call.op().name, call.where(), [&] { return sink_of(input); }))
      sink = current_sink ? current_sink : graph;
    else
      input = detail::computed(input);
  }
  return sink || !current_sink || !(inputs.empty() || call.op().stateful) ? sink : current_sink;
}

}  // namespace

In::In(const Init& literal, Where where) : own_(literal.tensor({}, where)), where_(where) {
  if (own_.dtype() == float32 && !literal.is_tensor()) wide_ = literal.tensor(float64, where);
}

namespace {

/// The library's own calls have the attributes that their op declares.
Attrs attrs_of_call(const Op& op, const Attrs& given, Where where) {
  return op.of_program ? checked_attrs(op, given, where) : given;
}

}  // namespace

Tensor apply(const Op& op, std::initializer_list<In> inputs, const Attrs& attrs, std::string_view name) {
  const Where where = detail::call_site || inputs.size() == 0 ? detail::call_site : inputs.begin()->where();
  Call call(op, {}, attrs_of_call(op, attrs, where), where, name);
  call.mutable_inputs().append(inputs.begin(), inputs.end());
  keep_digits(op, inputs, call.mutable_inputs());
  Sink* const sink = sink_for(call);
  // No graph is open: a Variable beside a symbolic tensor is read in that tensor's graph.
  if (sink && !current_sink) [[unlikely]]
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (const Variable* variable = (inputs.begin() + i)->variable()) {
        Tensor value = sink->read(*variable, call.where());
        tell_read(recorders(), *variable, value);
        call.mutable_inputs()[i] = value;
      }
  perform(call, sink, inputs);
  const bool has_output = !call.outputs().empty();
  if (recorders().empty()) return has_output ? std::move(call.mutable_outputs()[0]) : Tensor();
  Tensor output = has_output ? call.output() : Tensor();
  tell_recorders(std::move(call));
  return output;
}

namespace {

Tensors performed(Call&& call, Sink* sink) {
  perform(call, sink);
  if (recorders().empty()) return std::move(call.mutable_outputs());
  Tensors outputs = call.outputs();
  tell_recorders(std::move(call));
  return outputs;
}

}  // namespace

Tensors apply_all(const Op& op, const Tensors& inputs, const Attrs& attrs, std::string_view name, Where where) {
  const Where site = detail::call_site ? detail::call_site : where;
  Call call(op, inputs, attrs_of_call(op, attrs, site), site, name);
  Sink* const sink = sink_for(call);
  return performed(std::move(call), sink);
}

Tensors add_call(Sink& sink, Call call) {
  const OpenSink open(&sink);
  sink_for(call);  // computes deferred inputs
  return performed(std::move(call), &sink);
}

}  // namespace tapestry
