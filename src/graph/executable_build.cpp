/// Makes an Executable of a graph: which tensors share memory, how long they live, and at which offset each is stored.

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "backend/backend.hpp"
#include "core/make_tensor.hpp"
#include "dispatch/declaration.hpp"
#include "graph/arena.hpp"
#include "graph/executable.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/state_ops.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry::detail {
namespace {

/// The op that makes a contiguous copy of a tensor of which a view cannot be made.
const Op& copy_op() {
  static const Op& op = *new Op{
      .name = "_Copy",
      .infer = same_shape,
      .forward = [](Backend& backend, const Call& call) { backend.copy(call.input(0), call.output()); },
      .gradient = no_gradient,
  };
  return op;
}

/// A tensor that has a storage, so that views can be made of it, but no memory yet.
Tensor without_memory(const Spec& spec, Device device) {
  Tensor tensor = make_symbolic(spec.dtype, spec.shape, device);
  tensor.impl().storage = Storage::make(cpu(), 0);
  tensor.impl().data = tensor.impl().storage->data;
  return tensor;
}

/// The bytes to reserve for a tensor in the arena of a device. On an accelerator these are a multiple of 256, so that
/// the tensor is aligned as in an allocation of its own: kernels and libraries choose by alignment how to compute.
std::size_t aligned_bytes_on(Device device, std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  return device.is_cpu() ? bytes : (aligned_bytes(bytes) + alignment - 1) / alignment * alignment;
}

/// The most bytes of fixed buffers for each recorded step. To copy them takes about as long as a replay saves: a GPU of
/// 1 TB/s copies 2 MiB in the 4 µs in which the processor starts a kernel.
constexpr std::size_t worthwhile_copy = std::size_t{2} << 20;

/// Why a step cannot be recorded, as far as this is known before a run; nullptr if it may be.
const char* obstacle_of(const Op& op, bool has_forward) {
  const bool is_variables = find_attr(op, "variables");
  if (&op == &send_op || &op == &recv_op) return "meets another device";
  if (&op == &read_variable_op) return nullptr;
  if (find_attr(op, "communicator")) return "meets other ranks";
  if (!has_forward) return "is done on the host";
  return op.stateful && !(is_variables && op.outputs == 0) ? "draws random numbers" : nullptr;
}

}  // namespace

/// Goes through the graph once and gives every tensor a root and every step its tensors. Then it finds how long each
/// root lives, and lays out the arenas. Before that, nothing is computed and no large memory is allocated.
class Executable::Builder {
 public:
  Builder(Executable& to, const PlanGraph& plan, bool replay) : to_(to), plan_(plan), replay_(replay) {}

  void build() {
    for (const Tensor& feed : plan_.feeds) add_feed(feed);
    for (std::size_t i = 0; i < plan_.graph->size(); ++i) add(plan_.graph->node(i));
    for (const Tensor& fetch : plan_.fetches) add_fetch(fetch);
    if (replay_) find_obstacles();
    find_lifetimes();
    lay_out_arenas();
    to_.unbind_all();
    for (const std::int32_t output : to_.output_roots_)
      if (!to_.root(output).fixed) unbind(to_.root(output));
  }

 private:
  static constexpr std::int32_t no_root = -1;

  /// The tensor that stands for one of the graph, and its root.
  struct Value {
    Tensor tensor;
    std::int32_t root = no_root;  ///< none for constants, handles of Variables and placeholders that are not fed
  };

  const Value& value_of(const Tensor& tensor) const { return values_.at(tensor.id()); }

  Value new_root(const Tensor& source, const Spec& spec, Memory memory, Device device) {
    Value own{without_memory(spec, device), static_cast<std::int32_t>(to_.roots_.size())};
    Root& root = to_.roots_.emplace_back();
    root.source = source;
    root.memory = memory;
    root.device = device;
    root.is_open = !spec.shape.is_known();
    root.bytes = root.is_open && memory == Memory::bound ? 0 : checked_bytes(source, spec);
    root.tensors.emplace_back(own.tensor, 0);
    return own;
  }

  /// The size of a tensor in bytes. Its shape must be known by now.
  static std::size_t checked_bytes(const Tensor& source, const Spec& spec) {
    std::int64_t bytes = 0;
    const std::int64_t elements = spec.shape.num_elements();
    const auto element = static_cast<std::int64_t>(size_of(spec.dtype));
    if (elements < 0)
      throw InternalError(join("The plan has no size for '", source.name(), "': ", to_string(spec.dtype), spec.shape));
    if (__builtin_mul_overflow(elements, element, &bytes))
      throw ResourceExhaustedError(join("OOM when allocating tensor with shape ", spec.shape, " and type ",
                                        tensorflow_name(spec.dtype), " for '", source.name(), "'"));
    return static_cast<std::size_t>(bytes);
  }

  void add_feed(const Tensor& feed) {
    const Value own = new_root(feed, feed.spec(), Memory::bound, feed.device());
    to_.root(own.root).fed = true;
    to_.feed_roots_.push_back(own.root);
    values_.emplace(feed.id(), own);
  }

  void add(const Node& node) {
    const Op& op = node.op();
    detail::locating(op.name, node.name(), node.where(), [&] {
      if (&op == &no_op_op) return;
      // A placeholder that is not fed stands for a tensor of which only the shape is read.
      if (&op == &var_handle_op || &op == &placeholder_op) {
        values_.emplace(node.output().id(), Value{node.output()});
        if (&op == &var_handle_op)
          to_.variables_.emplace_back(node.attr<VariablesRef>("variables")->front(), plan_.device_of(node));
      } else if (&op == &const_op) {
        values_.emplace(node.output().id(), Value{node.attr<Tensor>("value")});
      } else if (!op.view || op.stateful || !add_view(node)) {
        add_step(node);
      }
    });
  }

  Call call_of(const Node& node) const {
    Call call(node.op(), {}, node.attrs(), node.where(), node.name());
    for (const Tensor& input : node.inputs()) call.mutable_inputs().push_back(value_of(input).tensor);
    return call;
  }

  /// Makes a view, which serves all runs. Returns false if it shares memory with no input.
  bool add_view(const Node& node) {
    Call call = call_of(node);
    SmallVector<Value, 2> bases;
    for (const Tensor& input : node.inputs()) bases.push_back(value_of(input));
    if (node.op().view_copies && !bases[0].tensor.is_contiguous()) {
      bases[0] = add_copy(node, bases[0]);
      call.mutable_inputs()[0] = bases[0].tensor;
    }
    const Tensor view = node.op().view(call, node.output().spec());
    const auto is_base = [&](const Value& base) {
      return !base.tensor.is_symbolic() && base.tensor.impl().storage.get() == view.impl().storage.get();
    };
    const Value* base = std::find_if(bases.begin(), bases.end(), is_base);
    if (base == bases.end()) return false;
    // An op may return an input as its view.
    const auto is_view = [&](const Value& known) { return known.tensor.is(view); };
    if (base->root != no_root && std::none_of(bases.begin(), bases.end(), is_view)) {
      Root& root = to_.root(base->root);
      root.tensors.emplace_back(view, static_cast<std::size_t>(distance(root.tensors[0].first, view)));
    }
    values_.emplace(node.output().id(), Value{view, base->root});
    return true;
  }

  /// Adds a step that copies the input of a view.
  Value add_copy(const Node& view, const Value& input) {
    const Tensor& from = input.tensor;
    Value copy = new_root(view.output(), from.spec(), Memory::arena, from.device());
    Step step(Step::Kind::kernel, Call(copy_op(), {from}, {}, view.where(), view.name()), from.device());
    step.call.mutable_outputs().push_back(copy.tensor);
    use(step, input);
    use(step, copy);
    to_.steps_.push_back(std::move(step));
    return copy;
  }

  void add_step(const Node& node) {
    const Op& op = node.op();
    const Step::Kind kind = kind_of(op);
    const bool is_found = kind == Step::Kind::read || kind == Step::Kind::receive;
    const bool allocates = kind == Step::Kind::evaluate || kind == Step::Kind::flow;
    Step step(kind, call_of(node), plan_.device_of(node));
    if (kind == Step::Kind::flow) step.flow = make_flow_runner(node, to_.options_);
    for (const Tensor& input : node.inputs()) use(step, value_of(input));
    for (const Tensor& output : node.outputs()) {
      const Memory memory = is_found || allocates ? Memory::bound : Memory::arena;
      const Value result = new_root(output, output.spec(), memory, output.device());
      if (is_found) {
        step.root = result.root;
      } else if (allocates) {
        step.results.push_back(result.root);
      } else {
        step.call.mutable_outputs().push_back(result.tensor);
      }
      use(step, result);
      values_.emplace(output.id(), result);
    }
    to_.steps_.push_back(std::move(step));
    join_group(plan_.group_of(node));
  }

  /// Lets the last step run side by side with the earlier steps of its group.
  void join_group(int group) {
    const std::size_t last = to_.steps_.size() - 1;
    if (group == 0 || group != group_ || group_begin_ + to_.steps_[group_begin_].together != last) {
      group_ = group;
      group_begin_ = last;
    } else {
      ++to_.steps_[group_begin_].together;
    }
  }

  static Step::Kind kind_of(const Op& op) {
    if (&op == &send_op) return Step::Kind::send;
    if (&op == &recv_op) return Step::Kind::receive;
    if (is_flow(op)) return Step::Kind::flow;
    if (op.evaluate) return Step::Kind::evaluate;
    return op.forward ? Step::Kind::kernel : op.cpu ? Step::Kind::host : Step::Kind::read;
  }

  static void use(Step& step, const Value& value) {
    if (value.root != no_root) step.roots.push_back(value.root);
  }

  void add_fetch(const Tensor& fetch) {
    const Value& value = value_of(fetch);
    to_.fetched_.push_back(value.tensor);
    to_.fetched_roots_.push_back(value.root);
    if (value.root == no_root) return;
    Root& root = to_.root(value.root);
    if (!std::exchange(root.fetched, true) && root.memory == Memory::arena) to_.output_roots_.push_back(value.root);
  }

  /// Finds the steps that may be recorded. Fetched results that they use become `fixed`, and so do bound roots, except
  /// values of Variables and roots that are also fetched. None is recorded if their copies would take too long.
  void find_obstacles() {
    std::vector<char> is_variable(to_.roots_.size());
    for (Step& step : to_.steps_) {
      const Op& op = step.call.op();
      step.obstacle = obstacle_of(op, step.kind == Step::Kind::kernel);
      if (allocates_results(step.call) || assigns_any_sizes(step.call)) step.obstacle = "has sizes that change";
      if (&op != &read_variable_op) continue;
      is_variable[step.root] = 1;
      if (to_.root(step.root).fetched) step.obstacle = "is fetched";
    }
    const auto is_recordable = [](const Step& step) { return !step.obstacle && step.backend->can_record(); };
    std::size_t recordable = 0, copied_bytes = 0;
    for (const Step& step : to_.steps_) {
      if (!is_recordable(step)) continue;
      ++recordable;
      for (const std::int32_t index : step.roots) {
        Root& root = to_.root(index);
        const bool bound = root.memory == Memory::bound;
        if (root.fixed || !(bound ? !root.fetched && !is_variable[index] : root.fetched)) continue;
        root.fixed = true;
        copied_bytes += root.bytes;
      }
    }
    to_.records_ = recordable > 0 && copied_bytes <= recordable * worthwhile_copy;
    if (recordable == 0 || to_.records_) return;
    for (Root& root : to_.roots_) root.fixed = false;
    for (Step& step : to_.steps_)
      if (is_recordable(step)) step.obstacle = "is one of few, and their buffers would be large";
  }

  void find_lifetimes() {
    std::vector<Step>& steps = to_.steps_;
    for (Root& root : to_.roots_) root.first_step = steps.size();
    for (std::size_t first = 0, last; first < steps.size(); first = last + 1) {
      last = first + steps[first].together - 1;
      for (std::size_t i = first; i <= last; ++i)
        for (const std::int32_t index : steps[i].roots) {
          Root& root = to_.root(index);
          root.first_step = std::min(root.first_step, first);
          root.last_step = last;
        }
    }
    for (const std::int32_t feed : to_.feed_roots_)
      if (to_.root(feed).fixed) to_.root(feed).first_step = 0;
    // A late check that refuses an integer reads it again (Executable::settle_checks).
    for (Root& root : to_.roots_)
      if (to_.records_ && root.is_in_arena() && root.first_step < steps.size() && is_integer(root.source.dtype()) &&
          backend_of(root.device).can_record())
        root.last_step = steps.size() - 1;
    for (const std::int32_t output : to_.output_roots_)
      if (to_.root(output).fixed) to_.root(output).last_step = steps.size() - 1;
    for (std::size_t i = 0; i < to_.roots_.size(); ++i) {
      const Root& root = to_.roots_[i];
      if (root.memory == Memory::bound && !root.fixed && !root.fetched && root.first_step < steps.size())
        steps[root.last_step].bound_until.push_back(static_cast<std::int32_t>(i));
    }
  }

  void lay_out_arenas() {
    std::vector<Device> devices;
    for (const Root& root : to_.roots_)
      if (root.is_in_arena() && std::find(devices.begin(), devices.end(), root.device) == devices.end())
        devices.push_back(root.device);
    std::vector<std::size_t> arenas;
    for (const Device device : devices) {
      std::vector<ArenaBuffer> buffers;
      for_each_in_arena(device, [&](const Root& root) {
        buffers.push_back({aligned_bytes_on(device, root.bytes), root.first_step, root.last_step});
      });
      arenas.push_back(lay_out(buffers));
      std::size_t next = 0;
      for_each_in_arena(device, [&](Root& root) { root.offset = buffers[next++].offset; });
    }
    require_memory(arenas);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const Tensor storage = make_tensor(uint8, {0}, devices[i]);
      to_.arenas_.push_back({.device = devices[i],
                             .bytes = static_cast<std::int64_t>(arenas[i]),
                             .storage = storage,
                             .address = nullptr});
      for_each_in_arena(devices[i], [&](Root& root) { bind(root, storage); });
    }
  }

  /// Throws if the memory of the plan exceeds the limits, before any of it is allocated.
  void require_memory(const std::vector<std::size_t>& arenas) const {
    const Root* largest = nullptr;
    std::size_t bytes = 0;
    const auto add = [&](std::size_t more) {
      if (__builtin_add_overflow(bytes, more, &bytes)) bytes = std::numeric_limits<std::size_t>::max();
    };
    for (const std::size_t arena : arenas) add(arena);
    for (const Root& root : to_.roots_) {
      if (root.memory == Memory::bound) continue;
      if (!root.is_in_arena()) add(root.bytes);
      if (!largest || root.bytes > largest->bytes) largest = &root;
    }
    if (largest) plan_.graph->budget().require_bytes(bytes, largest->source.name());
  }

  void for_each_in_arena(Device device, auto each) {
    for (Root& root : to_.roots_)
      if (root.is_in_arena() && root.device == device) each(root);
  }

  Executable& to_;
  const PlanGraph& plan_;
  const bool replay_;
  int group_ = 0;  ///< of the last step
  std::size_t group_begin_ = 0;
  std::unordered_map<std::int64_t, Value> values_;  ///< by id
};

Executable::Executable(const PlanGraph& plan, const SessionOptions& options, Rendezvous* rendezvous)
    : graph_(plan.graph), options_(options), rendezvous_(rendezvous) {
  const PauseRecording pause;
  const ExecuteNow now;
  Builder(*this, plan, options.replay).build();
  graph_->arena_pool->add_plan();
}

Executable::~Executable() { graph_->arena_pool->remove_plan(); }

Executable::Step::Step(Kind how, Call what, Device where)
    : kind(how), device(where), backend(&backend_of(where)), call(std::move(what)) {}

ExecutionPlan Executable::description() const {
  const std::lock_guard lock(mutex_);
  ExecutionPlan plan;
  for (const Step& step : steps_) {
    const char* reason = step.obstacle ? step.obstacle
                         : records_    ? "has not met the same memory twice"
                                       : "replay is off";
    if (step.replayed || !step.backend->can_record()) reason = "";
    plan.steps.push_back({.name = step.call.name(),
                          .type = step.call.type(),
                          .device = step.device,
                          .together = step.together,
                          .replayed = step.replayed,
                          .why_executed = reason});
  }
  for (const Arena& arena : arenas_) plan.arenas.push_back({arena.device, arena.bytes});
  for (const Root& root : roots_) {
    const auto memory = root.is_in_arena()             ? ExecutionPlan::Memory::arena
                        : root.memory == Memory::bound ? ExecutionPlan::Memory::bound
                                                       : ExecutionPlan::Memory::fetched;
    const auto bytes = static_cast<std::int64_t>(root.bytes), offset = static_cast<std::int64_t>(root.offset);
    plan.buffers.push_back({.tensor = root.source.name(),
                            .spec = root.source.spec(),
                            .device = root.device,
                            .memory = memory,
                            .bytes = bytes,
                            .offset = offset,
                            .first_step = root.first_step,
                            .last_step = root.last_step});
    for (ExecutionPlan::Arena& arena : plan.arenas)
      if (root.is_in_arena() && arena.device == root.device)
        arena.bytes_without_reuse +=
            static_cast<std::int64_t>(aligned_bytes(aligned_bytes_on(root.device, root.bytes)));
  }
  std::stable_sort(plan.buffers.begin(), plan.buffers.end(),
                   [](const auto& a, const auto& b) { return a.first_step < b.first_step; });
  return plan;
}

}  // namespace tapestry::detail
