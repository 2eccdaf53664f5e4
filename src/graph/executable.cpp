#include "graph/executable.hpp"

#include <algorithm>

#include "backend/backend.hpp"
#include "core/make_tensor.hpp"
#include "graph/arena.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

constexpr std::size_t never = ~std::size_t{0};

std::size_t bytes_of(const Tensor& tensor) { return static_cast<std::size_t>(tensor.size()) * size_of(tensor.dtype()); }

std::ptrdiff_t distance(const Tensor& from, const Tensor& to) {
  return static_cast<const std::byte*>(to.impl().data) - static_cast<const std::byte*>(from.impl().data);
}

/// A tensor of that dtype, shape and device whose memory is still to come.
Tensor unbound(const Tensor& like) { return make_symbolic(like.dtype(), like.shape(), like.device()); }

/// The value where and how a kernel wants it.
Tensor placed(const Tensor& value, Device device) { return value.contiguous().to(device); }

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
      backend_of(output.device()).copy_from_host(output.impl().data, host.output(i).impl().data, bytes_of(output));
}

}  // namespace

Executable::Executable(PlanGraph plan, const Tensors& feeds, Rendezvous* rendezvous)
    : plan_(std::move(plan)), rendezvous_(rendezvous) {
  const PauseRecording pause;
  const ExecuteNow now;
  for (std::size_t i = 0; i < plan_.feeds.size(); ++i) {
    const Tensor& feed = plan_.feeds[i];
    feed_roots_.push_back(new_root(feed, Memory::bound, placed(feeds[i], feed.device())));
  }
  for (std::size_t i = 0; i < plan_.graph->size(); ++i) add(plan_.graph->node(i));
  for (const Tensor& fetch : plan_.fetches) {
    const auto& [value, root] = values_.at(fetch.id());
    fetched_.push_back(value);
    if (root >= 0) {
      Root& from = roots_[static_cast<std::size_t>(root)];
      from.last_step = never;
      if (from.memory == Memory::arena && !std::exchange(from.fetched, true)) output_roots_.push_back(root);
    }
  }
  lay_out();
  forget();
}

std::int32_t Executable::new_root(const Tensor& tensor, Memory memory, const Tensor& value) {
  const auto index = static_cast<std::int32_t>(roots_.size());
  Root& root = roots_.emplace_back();
  root.memory = memory;
  root.device = value.device();
  root.bytes = bytes_of(value);
  root.first_step = root.last_step = steps_.size();
  const Tensor own = unbound(value);
  root.tensors.emplace_back(own, 0);
  bind(root, value);
  values_.emplace(tensor.id(), std::pair(own, index));
  return index;
}

void Executable::use(const Tensor& input) {
  const auto& [value, root] = values_.at(input.id());
  if (root >= 0) roots_[static_cast<std::size_t>(root)].last_step = steps_.size();
}

void Executable::add(const Node& node) {
  const Op& op = node.op();
  if (&op == &no_op_op) return;
  // A placeholder that is not fed stands for a tensor of which only the shape is read.
  if (&op == &var_handle_op || &op == &placeholder_op) {
    values_.emplace(node.output().id(), std::pair(node.output(), -1));
    return;
  }
  if (&op == &const_op) {
    values_.emplace(node.output().id(), std::pair(node.attr<Tensor>("value"), -1));
    return;
  }
  Call call(op, {}, node.attrs(), node.where(), node.name());
  for (const Tensor& input : node.inputs()) {
    use(input);
    call.mutable_inputs().push_back(values_.at(input.id()).first);
  }
  try {
    if (&op == &recv_op) {
      const Tensor& output = node.output();
      const Tensor like = make_tensor(output.dtype(), output.shape(), output.device());
      const std::int32_t root = new_root(output, Memory::bound, like);
      steps_.push_back({Step::Kind::receive, std::move(call), nullptr, root, {}});
    } else if (op.view) {
      add_result(node, std::move(call));
    } else {
      add_kernel(node, std::move(call));
    }
  } catch (Error& error) {
    error.locate(op.name, node.where());
    throw;
  }
}

/// A view is made here, once and for all; what its op copies or finds elsewhere is made anew in every run.
void Executable::add_result(const Node& node, Call call) {
  const Tensor& output = node.output();
  const bool reads = &node.op() == &read_variable_op;
  Tensor value;
  if (reads && !node.attr<VariablesRef>("variables")->front().cell()->is_initialized()) {
    value = make_tensor(output.dtype(), output.shape(), output.device());  // an assignment may come before the read
  } else {
    value = node.op().view(call, output.spec());
  }
  for (const Tensor& input : node.inputs()) {
    const auto& [base, index] = values_.at(input.id());
    if (base.is_symbolic() || value.impl().storage.get() != base.impl().storage.get()) continue;
    if (index >= 0) {
      Root& root = roots_[static_cast<std::size_t>(index)];
      const auto offset = static_cast<std::size_t>(distance(root.tensors[0].first, value));
      const bool is_new = std::none_of(root.tensors.begin(), root.tensors.end(),
                                       [&](const auto& known) { return known.first.is(value); });
      if (is_new) root.tensors.emplace_back(value, offset);
    }
    values_.emplace(output.id(), std::pair(value, index));
    return;
  }
  const std::int32_t root = new_root(output, Memory::bound, placed(value, value.device()));
  steps_.push_back({reads ? Step::Kind::read : Step::Kind::made, std::move(call), nullptr, root, {}});
}

void Executable::add_kernel(const Node& node, Call call) {
  const Op& op = node.op();
  for (const Tensor& output : node.outputs()) {
    const std::int32_t root =
        new_root(output, Memory::arena, make_tensor(output.dtype(), output.shape(), output.device()));
    call.mutable_outputs().push_back(roots_[static_cast<std::size_t>(root)].tensors[0].first);
  }
  const Step::Kind kind = &op == &send_op ? Step::Kind::send : op.forward ? Step::Kind::kernel : Step::Kind::host;
  steps_.push_back({kind, std::move(call), &backend_of(node.place), -1, {}});
}

void Executable::lay_out() {
  std::vector<std::vector<std::int32_t>> begin(steps_.size() + 1), end(steps_.size() + 1);
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    Root& root = roots_[i];
    const auto index = static_cast<std::int32_t>(i);
    if (root.memory == Memory::bound) {
      if (root.last_step < steps_.size()) steps_[root.last_step].bound_until.push_back(index);
    } else if (!root.fetched) {
      begin[root.first_step].push_back(index);
      end[std::min(root.last_step, steps_.size())].push_back(index);
    }
  }
  std::vector<std::pair<Device, ArenaLayout>> layouts;
  const auto layout_of = [&](Device device) -> ArenaLayout& {
    for (auto& [place, layout] : layouts)
      if (place == device) return layout;
    return layouts.emplace_back(device, ArenaLayout()).second;
  };
  for (std::size_t step = 0; step <= steps_.size(); ++step) {
    for (const std::int32_t index : begin[step]) {
      Root& root = roots_[static_cast<std::size_t>(index)];
      root.offset = layout_of(root.device).allocate(root.bytes);
    }
    for (const std::int32_t index : end[step]) {
      const Root& root = roots_[static_cast<std::size_t>(index)];
      layout_of(root.device).release(root.offset, root.bytes);
    }
  }
  for (const auto& [device, layout] : layouts) {
    const auto bytes = static_cast<std::int64_t>(layout.size());
    const Tensor arena = make_tensor(uint8, {bytes}, device);
    arenas_.push_back(arena);
    for (Root& root : roots_)
      if (root.memory == Memory::arena && !root.fetched && root.device == device)
        bind(root, make_view(arena, {}, {}, static_cast<std::int64_t>(root.offset)));
  }
}

void Executable::bind(Root& root, const Tensor& value) {
  for (auto& [tensor, offset] : root.tensors) {
    tensor.impl().storage = value.impl().storage;
    tensor.impl().data = static_cast<std::byte*>(value.impl().data) + offset;
  }
}

void Executable::unbind(Root& root) {
  for (auto& [tensor, offset] : root.tensors) tensor.impl().storage = {};
}

/// What was fetched by the last run belongs to the caller for as long as it is held.
void Executable::bind_outputs() {
  for (const std::int32_t index : output_roots_) {
    Root& root = roots_[static_cast<std::size_t>(index)];
    const Tensor& first = root.tensors[0].first;
    const bool held = first.is_symbolic() ||
                      first.impl().storage->references.count() > static_cast<std::uint32_t>(root.tensors.size());
    if (held) bind(root, make_tensor(first.dtype(), first.shape(), root.device));
  }
}

Tensors Executable::run(const Tensors& feeds) {
  const std::lock_guard lock(mutex_);
  const PauseRecording pause;
  const ExecuteNow now;
  Tensors results;
  try {
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      Root& root = roots_[static_cast<std::size_t>(feed_roots_[i])];
      bind(root, placed(feeds[i], root.device));
    }
    bind_outputs();
    for (Step& step : steps_) run_step(step);
    for (const Tensor& value : fetched_) results.push_back(make_view(value, value.shape(), value.strides()));
  } catch (...) {
    forget();
    throw;
  }
  forget();
  return results;
}

void Executable::run_step(Step& step) {
  Call& call = step.call;
  try {
    switch (step.kind) {
      case Step::Kind::kernel:
        call.op().forward(*step.backend, call);
        break;
      case Step::Kind::host:
        run_on_host(call);
        break;
      case Step::Kind::made:
      case Step::Kind::read: {
        Root& root = roots_[static_cast<std::size_t>(step.root)];
        bind(root, placed(call.op().view(call, root.tensors[0].first.spec()), root.device));
        break;
      }
      case Step::Kind::send:
        rendezvous_->send(call.attr<std::string>("key"), call.input(0).to(call.attr<Device>("recv_device")));
        break;
      case Step::Kind::receive:
        bind(roots_[static_cast<std::size_t>(step.root)], rendezvous_->receive(call.attr<std::string>("key")));
    }
  } catch (Error& error) {
    error.locate(call.type(), call.where());
    throw;
  }
  // A Variable that nobody reads any longer can be changed in place.
  for (const std::int32_t root : step.bound_until) unbind(roots_[static_cast<std::size_t>(root)]);
}

/// Lets go of all memory that is not the plan's own.
void Executable::forget() noexcept {
  for (Root& root : roots_)
    if (root.memory == Memory::bound) unbind(root);
}

}  // namespace tapestry::detail
