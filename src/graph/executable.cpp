/// How an Executable runs; executable_build.cpp makes it.

#include "graph/executable.hpp"

#include <algorithm>
#include <utility>

#include "backend/backend.hpp"
#include "backend/views.hpp"
#include "core/call_site.hpp"
#include "core/make_tensor.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry::detail {
namespace {

/// The value on the device, and contiguous.
Tensor placed(const Tensor& value, Device device) {
  return value.is_contiguous() && value.device() == device ? value : value.contiguous().to(device);
}

/// Gives a tensor of which some sizes were unknown the shape of its value.
void set_shape(const Tensor& tensor, const Shape& shape) {
  TensorImpl& impl = tensor.impl();
  impl.shape = shape;
  impl.strides = row_major_strides(shape);
}

/// The tensors, with empty handles for those that have no memory: results of branches that were not taken.
Tensors present(Tensors tensors) {
  for (Tensor& each : tensors)
    if (each.is_symbolic()) each = Tensor();
  return tensors;
}

/// Runs an op from outside the library, which works on the host and on contiguous tensors.
void run_on_host(const Call& call) {
  Call host(call.op(), {}, call.attrs(), call.where(), call.name());
  for (const Tensor& input : call.inputs())
    host.mutable_inputs().push_back(input.is_symbolic() ? input : on_host(input));
  for (const Tensor& output : call.outputs())
    host.mutable_outputs().push_back(output.device().is_cpu() ? output
                                                              : make_tensor(output.dtype(), output.shape(), cpu()));
  call.op().cpu(host);
  for (std::size_t i = 0; i < call.outputs().size(); ++i)
    if (const Tensor& output = call.output(i); !output.device().is_cpu())
      backend_of(output.device()).copy_from_host(output.impl().data, host.output(i).impl().data, nbytes(output));
}

}  // namespace

void Executable::bind(Root& root, const Tensor& value) {
  for (auto& [tensor, offset] : root.tensors) {
    if (root.is_open) set_shape(tensor, value.shape());
    tensor.impl().storage = value.impl().storage;
    tensor.impl().data = static_cast<std::byte*>(value.impl().data) + offset;
  }
}

void Executable::unbind(Root& root) {
  for (auto& [tensor, offset] : root.tensors) tensor.impl().storage = {};
}

/// Gives a root the value that is fed, read or received.
void Executable::set(Root& root, const Tensor& value) {
  if (!root.fixed) return bind(root, placed(value, root.device));
  const Tensor& place = root.tensors[0].first;
  Backend& backend = backend_of(root.device);
  if (value.device() == root.device) return backend.copy(value, place);
  const Tensor here = value.device().is_cpu() ? on_host(value) : value.to(root.device);
  here.device().is_cpu() ? backend.copy_from_host(place.impl().data, here.impl().data, root.bytes)
                         : backend.copy(here, place);
}

/// Gives each output memory: that of the last run, or new memory if the caller still holds that result.
void Executable::bind_outputs() {
  for (const std::int32_t index : output_roots_) {
    Root& output = root(index);
    if (output.fixed) continue;
    const Tensor& first = output.tensors[0].first;
    const bool held = first.is_symbolic() || first.impl().storage->references.count() > output.tensors.size();
    if (held) bind(output, make_tensor(first.dtype(), first.shape(), output.device));
  }
}

void Executable::copy_outputs() {
  for (const std::int32_t index : output_roots_) {
    Root& output = root(index);
    if (!output.fixed) continue;
    const Tensor& from = output.tensors[0].first;
    if (!output.result || output.result.impl().storage->references.is_shared())
      output.result = make_tensor(from.dtype(), from.shape(), output.device);
    backend_of(output.device).copy(from, output.result);
  }
}

/// Throws unless a value has the dtype and the shape that the steps behind it were planned for. A function or a branch
/// in a file may give others than its description says.
void Executable::require_planned(const Root& root, const Tensor& value) {
  const Tensor& planned = root.tensors[0].first;
  if (value.dtype() != planned.dtype() || (!root.is_open && value.shape() != planned.shape()))
    throw InvalidArgumentError(detail::join("The result is ", to_string(value.dtype()), value.shape(),
                                            ", where the graph expects ", to_string(planned.dtype()), planned.shape()));
}

void Executable::set_results(const Step& step, const Tensors& values) {
  for (std::size_t i = 0; i < step.results.size(); ++i) {
    Root& to = root(step.results[i]);
    note_absence(to, !values[i]);
    if (to.absent) {
      unbind(to);
      continue;
    }
    require_planned(to, values[i]);
    // A result in an arena, such as an operand that a branch returns, is copied: its memory there may be reused.
    set(to, is_in_arena(values[i]) ? backend_of(values[i].device()).contiguous_copy(values[i]) : values[i]);
  }
}

bool Executable::is_in_arena(const Tensor& value) const {
  return std::any_of(arenas_.begin(), arenas_.end(), [&](const Arena& arena) {
    return arena.storage.impl().storage.get() == value.impl().storage.get();
  });
}

void Executable::take_arenas() {
  for (Arena& arena : arenas_) {
    arena.block = graph_->arena_pool->take(arena.device, arena.bytes, arena.address);
    auto* const address = static_cast<std::byte*>(arena.block.impl().data);
    if (std::exchange(arena.address, address) == address) continue;
    for (Root& root : roots_) {
      if (!root.is_in_arena() || root.device != arena.device) continue;
      for (auto& [tensor, offset] : root.tensors) tensor.impl().data = address + root.offset + offset;
    }
  }
}

void Executable::give_back_arenas() noexcept {
  for (Arena& arena : arenas_)
    if (arena.block) graph_->arena_pool->give_back(std::move(arena.block));
}

Tensor Executable::result_of(std::size_t fetch) {
  const Tensor& value = fetched_[fetch];
  if (value.is_symbolic()) return {};  // of a branch that was not taken
  Tensor result = view_of(value);
  const std::int32_t index = fetched_roots_[fetch];
  if (index < 0 || !root(index).fixed) return result;
  const Tensor& copy = root(index).result;
  result.impl().storage = copy.impl().storage;
  result.impl().data = static_cast<std::byte*>(copy.impl().data) + distance(root(index).tensors[0].first, value);
  return result;
}

Tensors Executable::run(const Tensors& feeds, RunTimes* times, const Deadline* deadline) {
  const std::unique_lock lock = locked(mutex_, deadline);
  const PauseRecording pause;
  const ExecuteNow now;
  Tensors results;
  try {
    take_arenas();
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      note_absence(root(feed_roots_[i]), !feeds[i]);
      if (feeds[i]) set(root(feed_roots_[i]), feeds[i]);
    }
    bind_outputs();
    if (records_)
      for (Step& step : steps_) step.replayed = false;
    times ? run_measured(*times, deadline) : records_ ? run_segments(deadline) : run_steps(deadline);
    copy_outputs();
    settle_checks();
    for (std::size_t i = 0; i < fetched_.size(); ++i) results.push_back(result_of(i));
  } catch (...) {
    // A value that an earlier step refuses may be the cause.
    try {
      settle_checks();
    } catch (...) {
      unbind_all();
      throw;
    }
    unbind_all();
    throw;
  }
  unbind_all();
  return results;
}

void Executable::require_time(const Deadline* deadline, std::size_t step) const {
  if (deadline && deadline->has_passed()) [[unlikely]]
    deadline->fail(join(step, " of ", steps_.size(), " steps have run, before '", steps_[step].call.name(), "'"));
}

void Executable::run_steps(const Deadline* deadline) {
  for (std::size_t i = 0; i < steps_.size();) {
    require_time(deadline, i);
    const std::size_t end = i + steps_[i].together;
    if (end == i + 1) {
      run_step(steps_[i], deadline);
    } else {
      steps_[i].backend->run_side_by_side(
          end - i, [this, i, deadline](std::int64_t number) { run_step(steps_[i + number], deadline); });
    }
    for (; i < end; ++i) unbind_unused(steps_[i]);
  }
}

void Executable::run_measured(RunTimes& times, const Deadline* deadline) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    require_time(deadline, i);
    const std::int64_t start = RunTimes::now();
    run_step(step, deadline, &times);
    step.backend->synchronize();
    unbind_unused(step);
    times.steps.push_back({.start = start - times.begin, .duration = RunTimes::now() - start, .thread = times.thread});
  }
}

void Executable::note_absence(Root& root, bool absent) {
  root.absent = absent;
  may_lack_values_ |= absent;
}

/// Throws if a step would read a value that is absent. A graph that this library makes hands such values to branches
/// only, which do not use them; a file may hand them to any op.
void Executable::require_values(const Step& step) {
  if (step.kind == Step::Kind::flow) return;
  for (const std::int32_t index : step.roots)
    if (root(index).absent && std::find(step.results.begin(), step.results.end(), index) == step.results.end())
      throw InvalidArgumentError(
          detail::join("'", root(index).source.name(), "' has no value: it is of a branch that was not taken"));
}

void Executable::run_step(Step& step, const Deadline* deadline, RunTimes* times) {
  Call& call = step.call;
  detail::locating(call.type(), call.name(), call.where(), [&] {
    if (may_lack_values_) require_values(step);
    switch (step.kind) {
      case Step::Kind::kernel:
        call.op().forward(*step.backend, call);
        break;
      case Step::Kind::host:
        run_on_host(call);
        break;
      case Step::Kind::read: {
        Root& to = root(step.root);
        set(to, call.op().view(call, to.tensors[0].first.spec()));
        break;
      }
      case Step::Kind::send:
        rendezvous_->send(call.attr<std::string>("key"), call.input(0).to(call.attr<Device>("recv_device")));
        break;
      case Step::Kind::receive: {
        const Tensor value = rendezvous_->receive(call.attr<std::string>("key"), deadline);
        require_planned(root(step.root), value);
        set(root(step.root), value);
        break;
      }
      case Step::Kind::evaluate: {
        const CallSiteScope site(call.where());  // for the errors of the ops that it applies
        set_results(step, call.op().evaluate(call));
        break;
      }
      case Step::Kind::flow:
        set_results(step, step.flow->run(present(call.inputs()), deadline, times));
    }
  });
}

/// Releases bound memory that no later step uses, so that a Variable's value can be changed in place.
void Executable::unbind_unused(const Step& step) {
  for (const std::int32_t index : step.bound_until)
    if (!keeps_feeds_ || !root(index).fed) unbind(root(index));
}

/// Releases all memory that does not belong to the plan.
void Executable::unbind_all() noexcept {
  give_back_arenas();
  for (Root& each : roots_)
    if (each.memory == Memory::bound && !each.fixed) unbind(each);
}

Executable::Repeated::Repeated(Executable& executable, const Deadline* deadline)
    : executable_(executable), lock_(locked(executable.mutex_, deadline)) {
  executable_.take_arenas();
  executable_.keeps_feeds_ = true;
  executable_.bind_outputs();
}

Executable::Repeated::~Repeated() {
  executable_.keeps_feeds_ = false;
  executable_.unbind_all();
}

std::optional<std::vector<const Call*>> Executable::Repeated::kernels() const {
  std::vector<const Call*> calls;
  for (const Step& step : executable_.steps_) {
    if (step.kind != Step::Kind::kernel) return {};
    calls.push_back(&step.call);
  }
  return calls;
}

bool Executable::is_placed() const {
  return std::all_of(variables_.begin(), variables_.end(),
                     [](const auto& each) { return each.first.device() == each.second; });
}

}  // namespace tapestry::detail
