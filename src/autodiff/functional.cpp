#include <algorithm>

#include "autodiff/points.hpp"
#include "autodiff/with_gradient_to.hpp"
#include "backend/views.hpp"
#include "core/deferred.hpp"
#include "dispatch/define.hpp"
#include "dispatch/recorder.hpp"
#include "ops/batching.hpp"
#include "ops/checked_like.hpp"
#include "ops/handles.hpp"
#include "tapestry/autocast.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/random.hpp"
#include "tapestry/tape.hpp"

namespace tapestry {
namespace {

/// f(xs). An error that names no line of the user's names this one.
template <class F>
auto call_at(Where where, const F& f, const Tensors& xs) {
  return detail::locating({}, where, [&] { return f(xs); });
}

}  // namespace

Tensor detail::own_argument(const Tensor& x, Where where) { return identity(In(x, where)); }
std::vector<Tensor> detail::own_argument(const std::vector<Tensor>& xs, Where where) {
  std::vector<Tensor> own;
  own.reserve(xs.size());
  for (const Tensor& each : xs) own.push_back(own_argument(each, where));
  return own;
}

namespace detail {
namespace {

const Closure& closure(const Call& call) { return call.attr<Closure>("function"); }

Tensor view_of_value(const Call& call, const Spec&) { return view_of(call.input(0)); }

extern const OpDefinition recompute_op;

/// The value of each example. The gradient function runs for each example, too; the gradients of what the examples
/// share are summed. It needs the arguments, whichever op the value came from.
Tensors batch_with_gradient(const BatchedCall& call) {
  const std::vector<bool> has_batch(call.has_batch().begin() + 1, call.has_batch().end());
  auto gradient = [one = closure(call.one()), vmap = call.vmap(), has_batch,
                   where = call.one().where()](const Tensors& all) -> Tensors {
    std::vector<bool> given = has_batch;
    given.push_back(true);
    Tensors gradients = vmap(*one, all, given, where);
    for (std::size_t i = 0; i < gradients.size() && i < has_batch.size(); ++i)
      if (bool(gradients[i]) && !has_batch[i]) gradients[i] = reduce_sum(gradients[i], 0);
    return gradients;
  };
  Tensors inputs{call.all(0)};
  for (std::size_t i = 1; i < call.size(); ++i) inputs.push_back(call.input(i));
  const Attrs attrs{{"function", std::make_shared<const std::function<Tensors(const Tensors&)>>(gradient)}};
  return apply_all(recompute_op, inputs, attrs, {}, call.one().where());
}

/// An op that returns its first input, a value that the user's function has computed. No gradient flows back to that
/// input. The attribute gives the gradients of the other inputs, such as the function's arguments.
Op passing_op(const char* name, Needs needs) {
  return {
      .name = name,
      .attrs = {{"function", AttrKind::function}},
      .infer = same_shape,
      .view = view_of_value,
      .gradient = [](const Call& call, const Tensor& g) -> Tensors {
        Tensors arguments(call.inputs().begin() + 1, call.inputs().end());
        arguments.push_back(g);
        Tensors gradients = (*closure(call))(arguments);
        if (gradients.size() + 1 != call.inputs().size())
          throw InvalidArgumentError(join("Num gradients ", gradients.size(), " generated for op ", call.name(),
                                          " do not match num inputs ", call.inputs().size() - 1));
        gradients.insert(gradients.begin(), Tensor());
        return gradients;
      },
      .needs = needs,
      .shape_inputs = ~1U,
      .batch = batch_with_gradient,
  };
}
TAPESTRY_OP(custom_gradient_op)(passing_op("CustomGradient", needs_nothing));
TAPESTRY_OP(recompute_op)(passing_op("Recompute", {~1U, 0}));

/// Returns the first input once the second one is there. Ops on the output are not merged with the same ops on the
/// input. The name is XLA's.
TAPESTRY_OP(optimization_barrier_op){{
    .name = "OptimizationBarrier",
    .infer = same_shape,
    .view = view_of_value,
    .gradient = [](const Call&, const Tensor& g) -> Tensors {
      return {g, Tensor()};
    },
    .needs = needs_nothing,
    .batch = batch_in_front,
}};

Tensor record_result(const Op& op, const Tensor& value, const Tensors& arguments, Closure function, Where where) {
  Tensors inputs{detail::computed(value)};
  inputs.append(arguments.begin(), arguments.end());
  const Attrs attrs{{"function", std::move(function)}};
  if (std::any_of(inputs.begin(), inputs.end(), [](const Tensor& each) { return each.is_symbolic(); }))
    return apply_all(op, inputs, attrs, {}, where)[0];
  Call call(op, inputs, attrs, where);
  // The result is a new tensor: a tape that saw how the value was computed must not follow its ops back.
  Tensor result = view_of_value(call, value.spec());
  call.mutable_outputs().push_back(result);
  tell_recorders(std::move(call));
  return result;
}

/// What a function used besides its arguments: the Variables that it read, each with the values that it had then; the
/// values that changes of Variables returned; and in a graph the random numbers that it drew.
struct Surroundings {
  std::vector<Variable> variables;  ///< for each of the values
  Tensors values, changes, drawn;
  std::vector<std::size_t> reads;  ///< for each read the number of its value
  bool has_stateful_flow = false;  ///< whether a branch or loop of a graph drew numbers or changed Variables
};

bool is_symbolic(const Tensor& tensor) { return tensor.is_symbolic(); }

/// While it lives, it notes the reads of Variables and the random numbers of a graph. The recorders around it see these
/// reads, but no ops.
class Watcher final : public Recorder {
 public:
  /// The ops are put into `calls`, if there is one.
  Watcher(Surroundings& found, std::vector<Call>* calls)
      : found_(found),
        calls_(calls),
        outside_(std::exchange(recorders(), Recorders{this})),
        outer_(std::exchange(innermost, this)) {}
  ~Watcher() override {
    recorders() = outside_;
    innermost = outer_;
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  void record(Call&& call) override {
    if (call.op().stateful && std::ranges::any_of(call.outputs(), is_symbolic)) {
      for (Watcher* each = this; each; each = each->outer_) {
        each->found_.drawn.append(call.outputs().begin(), call.outputs().end());
        each->found_.has_stateful_flow |= call.attrs().find("functions") != nullptr;
      }
    }
    if (calls_) calls_->push_back(std::move(call));
  }
  bool replay(Call& call) override {
    for (std::size_t i = outside_.size(); i-- > 0;)
      if (outside_[i]->replay(call)) return true;
    return false;
  }
  void read(const Variable& variable, Tensor& value) override {
    tell_read(outside_, variable, value);
    std::size_t i = 0;
    while (i < found_.values.size() && !(found_.variables[i].is(variable) && found_.values[i].is(value))) ++i;
    found_.reads.push_back(i);
    if (i < found_.values.size()) return;
    found_.variables.push_back(variable);
    found_.values.push_back(value);
  }
  bool replay_change(const Variable& variable, Tensor& after) override {
    return is_change_replayed(outside_, variable, after);
  }
  void change(const Variable& variable, const Tensor& after) override {
    tell_change(outside_, variable, after);
    found_.changes.push_back(after);
  }

 private:
  static thread_local Watcher* innermost;
  Surroundings& found_;
  std::vector<Call>* calls_;
  Recorders outside_;
  Watcher* outer_;
};
thread_local Watcher* Watcher::innermost = nullptr;

/// While it lives, reads of Variables give the values that were read before, whatever was assigned since; assignments
/// change nothing more; and the random ops of a graph give the outputs that they gave before.
class Replay final : public Recorder {
 public:
  explicit Replay(const Surroundings& before) : before_(before) { recorders().push_back(this); }
  ~Replay() override { recorders().pop_back(); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  void record(Call&&) override {}
  bool replay(Call& call) override {
    const std::size_t first = next_;
    next_ += call.op().outputs;
    if (next_ > before_.drawn.size()) return false;
    call.mutable_outputs() = Tensors(before_.drawn.begin() + first, before_.drawn.begin() + next_);
    return true;
  }
  void read(const Variable& variable, Tensor& value) override {
    const std::size_t i = next_read_ < before_.reads.size() ? before_.reads[next_read_++] : before_.values.size();
    if (i == before_.values.size() || !before_.variables[i].is(variable)) refuse();
    value = before_.values[i];
  }
  bool replay_change(const Variable&, Tensor& after) override {
    if (next_change_ == before_.changes.size()) refuse();
    after = before_.changes[next_change_++];
    return true;
  }

 private:
  [[noreturn]] static void refuse() {
    throw FailedPreconditionError(
        "recompute: the function did something else the second time; it must depend on its arguments, Variables and "
        "random numbers alone");
  }

  const Surroundings& before_;
  std::size_t next_ = 0, next_read_ = 0, next_change_ = 0;
};

/// While it lives, random ops and assignments throw: the function runs a second time, and would draw other numbers and
/// change Variables again.
class NoEffects final : public Recorder {
 public:
  NoEffects() { recorders().push_back(this); }
  ~NoEffects() override { recorders().pop_back(); }
  NoEffects(const NoEffects&) = delete;
  NoEffects& operator=(const NoEffects&) = delete;
  void record(Call&&) override {}
  bool replay(Call& call) override {
    throw UnimplementedError(
        "custom_gradient: a function that draws random numbers cannot run again, in a vmap, for arguments whose rank "
        "was not known when the graph was made, or for a file; draw the numbers outside, or give the placeholder a "
        "shape",
        call.type(), call.where());
  }
  bool replay_change(const Variable& variable, Tensor&) override {
    throw UnimplementedError(
        join("custom_gradient: a function that changes a Variable, here '", variable.name(),
             "', cannot run again, in a vmap, for arguments whose rank was not known when the graph was made, or for a "
             "file; change it outside, or give the placeholder a shape"));
  }
  void read(const Variable&, Tensor&) override {}
};

/// While it lives, random numbers come from an earlier position of the stream. Then the stream goes on where it was.
class RandomReplay {
 public:
  explicit RandomReplay(const random::State& earlier) : saved_(random::state()) { random::set_state(earlier); }
  ~RandomReplay() { random::set_state(saved_); }
  RandomReplay(const RandomReplay&) = delete;
  RandomReplay& operator=(const RandomReplay&) = delete;

 private:
  random::State saved_;
};

}  // namespace

Tensor with_gradient_to(const Tensor& value, const Tensor& source, Where where) {
  static const Closure& pass = *new Closure(std::make_shared<const std::function<Tensors(const Tensors&)>>(
      [](const Tensors& all) -> Tensors { return {all.back()}; }));
  return apply_all(custom_gradient_op, {value, source}, {{"function", pass}}, {}, where)[0];
}

Tensor custom_gradient(const std::function<CustomGradient(const Tensors&)>& f, const Tensors& arguments, Where where) {
  // In a branch or the body of a loop, the gradient may only use tensors of that graph.
  Tensors inputs = arguments;
  for (Tensor& each : inputs)
    if (open_sink() && each.is_symbolic() && sink_of(each) != open_sink()) each = identity(In(each, where));
  const CustomGradient result = call_at(where, f, inputs);
  if (!result.value || !result.gradient)
    throw InvalidArgumentError(result.value ? "custom_gradient: there is no function that computes the gradient"
                                            : "custom_gradient: the value is an empty Tensor",
                               where);
  // A value that no argument decides belongs to no graph, but its gradient may use them.
  auto graph = sink_of(result.value);
  for (const Tensor& each : inputs)
    if (!graph && each.is_symbolic()) graph = sink_of(each);
  auto gradient = [f, backward = result.gradient, graph](const Tensors& all) -> Tensors {
    // `backward` has captured tensors of the graph in which f ran. Another graph is a copy of it, which is made once
    // the ranks are known. There f runs again.
    Tensors gradients;
    if (!graph || sink_of(all.back()) == graph || open_sink() == graph) {
      gradients = backward(all.back());
    } else {
      const NoEffects none;
      gradients = f(Tensors(all.begin(), all.end() - 1)).gradient(all.back());
    }
    for (std::size_t i = 0; i < gradients.size() && i + 1 < all.size(); ++i)
      if (bool(gradients[i]) && agree(gradients[i].shape(), all[i].shape()))
        gradients[i] = checked_like(gradients[i], all[i]);
    return gradients;
  };
  return record_result(custom_gradient_op, result.value, inputs,
                       std::make_shared<const std::function<Tensors(const Tensors&)>>(gradient), where);
}

namespace {

/// What stands for a value of which only dtype and shape are used: a tensor without memory, if that can be.
Tensor outline_of(const Tensor& value) {
  if (value.is_symbolic()) return value;
  return broadcast_to(zeros({}, {.dtype = value.dtype(), .device = value.device()}), value.shape());
}

/// All floats in one vector, of the widest type.
Tensor pack(const std::vector<Tensor>& values) {
  DType dtype = float16;
  Tensors parts;
  for (const Tensor& each : values)
    if (is_floating(each.dtype()))
      dtype = parts.empty() ? each.dtype() : promote(dtype, each.dtype()), parts.push_back(each);
  if (parts.empty()) throw InvalidArgumentError("custom_gradient: none of the values is a float");
  for (Tensor& each : parts) each = reshape(each, {-1}).cast(dtype);
  return concat(parts);
}

/// The parts of such a vector, in the shapes of the floats among the values; empty Tensors in place of others.
std::vector<Tensor> unpack(const Tensor& packed, const std::vector<Tensor>& values) {
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  Tensor begin_then;  // where sizes are unknown
  for (const Tensor& each : values) {
    if (!is_floating(each.dtype())) {
      parts.emplace_back();
      continue;
    }
    if (!begin_then && each.shape().is_known()) {
      parts.push_back(reshape(slice(packed, {begin}, {each.size()}), each.shape()).cast(each.dtype()));
      begin += each.size();
      continue;
    }
    if (!begin_then) begin_then = full({}, begin, {.dtype = int64, .device = packed.device()});
    const Tensor places = cumsum(ones_like(reshape(each, {-1})).cast(int64), 0, {.exclusive = true});
    parts.push_back(reshape_like(gather(packed, places + begin_then), each).cast(each.dtype()));
    begin_then = begin_then + size(each).cast(int64);
  }
  return parts;
}

}  // namespace

std::vector<Tensor> custom_gradients(const std::function<CustomGradients(const Tensors&)>& f, const Tensors& arguments,
                                     Where where) {
  // The values are one, in a vector, of which the op has the gradient: a gradient function that is not linear needs
  // those of all values at once.
  struct First {
    bool is_over = false;
    std::vector<Tensor> values;
  };
  const auto first = std::make_shared<First>();
  const auto packed = [f, first, where](const Tensors& inputs) -> CustomGradient {
    const CustomGradients result = f(inputs);
    for (const Tensor& each : result.values)
      if (!each) throw InvalidArgumentError("custom_gradient: a value is an empty Tensor", where);
    if (result.values.empty() || !result.gradient)
      throw InvalidArgumentError(result.gradient ? "custom_gradient: there are no values"
                                                 : "custom_gradient: there is no function that computes the gradient",
                                 where);
    if (!std::exchange(first->is_over, true)) first->values = result.values;
    std::vector<Tensor> outlines;
    for (const Tensor& each : result.values) outlines.push_back(outline_of(each));
    return {pack(result.values), [backward = result.gradient, outlines](const Tensor& g) -> Tensors {
              return backward(unpack(g, outlines));
            }};
  };
  const Tensor all = custom_gradient(packed, arguments, where);
  const std::vector<Tensor> values = std::exchange(first->values, {});
  const CallSiteScope site(where);
  std::vector<Tensor> results = unpack(all, values);
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!results[i]) results[i] = stop_gradient(values[i]);
  return results;
}

Tensors flat_hessian(const ListFunction& f, const std::vector<Value>& points, Where where) {
  const Tensors xs = own_points(points, where);
  GradientTape outer({.persistent = xs.size() > 1});
  outer.watch(xs, where);
  std::vector<Tensor> gradients;
  {
    GradientTape inner;
    inner.watch(xs, where);
    const Tensor value = call_at(where, f, xs);
    if (value.shape().is_known() && value.size() != 1)
      throw InvalidArgumentError(join("A hessian is that of a function with one value, not ", value.shape()), where);
    gradients = inner.gradient({value, where}, xs, {.unconnected = Unconnected::zero});
  }
  Tensors rows;
  for (const Tensor& gradient : gradients)
    for (const Tensor& x : xs) {
      const Tensor second = outer.jacobian({gradient, where}, x);
      rows.push_back(second ? second
                            : zeros(joined(gradient.shape(), x.shape()), {.dtype = x.dtype(), .device = x.device()}));
    }
  return rows;
}

std::pair<Tensor, std::function<Tensors(const Value&)>> flat_vjp(const ListFunction& f,
                                                                 const std::vector<Value>& points, Where where) {
  const Tensors xs = own_points(points, where);
  auto tape = std::make_shared<GradientTape>(TapeOptions{.persistent = true});
  tape->watch(xs, where);
  Tensor y = call_at(where, f, xs);
  // The pullback may be called much later: until then the tape must record nothing.
  std::shared_ptr<GradientTape::Pause> asleep(new GradientTape::Pause(tape->stop_recording()));
  auto pullback = [tape, asleep, y, xs, where](const Value& v) -> Tensors {
    return tape->gradient({y, where}, xs, {.output_gradients = like(v, y, where), .unconnected = Unconnected::zero});
  };
  return {y, pullback};
}

std::pair<Tensor, Tensors> flat_vjp(const ListFunction& f, const std::vector<Value>& points, const Value& v,
                                    Where where) {
  const Tensors xs = own_points(points, where);
  GradientTape tape;
  tape.watch(xs, where);
  Tensor y = call_at(where, f, xs);
  Tensors gradients =
      tape.gradient({y, where}, xs, {.output_gradients = like(v, y, where), .unconnected = Unconnected::zero});
  return {y, gradients};
}

Tensors recompute(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs, Where where) {
  Tensors values;
  Surroundings found;
  const random::State random_before = random::state();
  const DType autocast = Autocast::current();
  std::vector<Call> calls;
  const bool in_graph = open_sink() || std::ranges::any_of(inputs, is_symbolic);
  {
    Watcher watcher(found, in_graph ? &calls : nullptr);
    values = call_at(where, f, inputs);
  }
  for (const Tensor& each : values)
    if (!each) throw InvalidArgumentError("recompute: the function returns an empty Tensor", where);
  if (found.has_stateful_flow) {
    // A second branch or loop would draw other numbers, so the tapes keep the results of this one.
    if (!in_graph)
      throw UnimplementedError(
          "recompute: the function has a branch or loop of a graph that draws random numbers or changes Variables; "
          "call it with tensors of that graph",
          where);
    for (Call& each : calls) tell_recorders(std::move(each));
    return values;
  }
  const bool is_random = random::state() != random_before;
  const std::size_t arguments = inputs.size(), sources = arguments + found.values.size();
  Tensors all_inputs = inputs;
  for (const Tensors* each : {&found.values, &found.changes, &found.drawn})
    all_inputs.append(each->begin(), each->end());
  // In its second run f must read the same values and draw the same numbers as in the first.
  auto backward = [=, variables = std::move(found.variables), reads = std::move(found.reads),
                   changes = found.changes.size()](std::size_t result, const Tensors& all) -> Tensors {
    const Tensor& g = all.back();
    // A tensor that occurs more than once is one source here, too, so that its gradients are summed in the same order.
    Tensors from;
    for (const Tensor* source = all.begin(); source != all.begin() + sources; ++source) {
      const auto known = std::find_if(all.begin(), source, [&](const Tensor& earlier) { return earlier.is(*source); });
      from.push_back(known != source         ? from[known - all.begin()]
                     : source->is_symbolic() ? apply_all(optimization_barrier_op, {*source, g}, {}, {}, where)[0]
                                             : *source);
    }
    const Tensor* const drawn = all.begin() + sources + changes;
    const Surroundings before{.variables = variables,
                              .values = Tensors(from.begin() + arguments, from.end()),
                              .changes = Tensors(all.begin() + sources, drawn),
                              .drawn = Tensors(drawn, all.end() - 1),
                              .reads = reads};
    GradientTape tape({.watch_accessed_variables = false});
    for (const Tensor& source : from)
      if (is_floating(source.dtype())) tape.watch(source);
    Tensor again;
    {
      const Replay world(before);
      const Autocast types(autocast);
      std::optional<RandomReplay> numbers;
      if (is_random) numbers.emplace(random_before);
      again = f(Tensors(from.begin(), from.begin() + arguments))[result];
    }
    Tensors gradients = tape.gradient(again, std::vector<Tensor>(from), {.output_gradients = g});
    // A tensor that occurs more than once has its whole gradient each time; only the first one counts.
    for (std::size_t i = 1; i < from.size(); ++i)
      if (std::any_of(from.begin(), from.begin() + i,
                      [&](const Tensor& earlier) { return earlier.id() == from[i].id(); }))
        gradients[i] = Tensor();
    for (std::size_t i = sources + 1; i < all.size(); ++i) gradients.emplace_back();
    return gradients;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto of_result = [backward, i](const Tensors& all) -> Tensors { return backward(i, all); };
    values[i] = record_result(recompute_op, values[i], all_inputs,
                              std::make_shared<const std::function<Tensors(const Tensors&)>>(of_result), where);
  }
  return values;
}

}  // namespace detail
namespace ops {
const Op& custom_gradient = detail::custom_gradient_op;
}  // namespace ops

}  // namespace tapestry
