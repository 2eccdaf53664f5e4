#include <algorithm>

#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/autocast.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/random.hpp"
#include "tapestry/tape.hpp"

namespace tapestry {
namespace {

std::string describe(const Tensor& x) { return x ? to_string(x.dtype()) + to_string(x.shape()) : "None"; }

}  // namespace

TensorFunction hessian(TensorFunction f, Where where) {
  return [f = std::move(f), where](const Tensor& x) {
    GradientTape outer;
    outer.watch(x, where);
    Tensor gradient;
    {
      GradientTape inner;
      inner.watch(x, where);
      gradient = inner.gradient({f(x), where}, x, {.unconnected = Unconnected::zero});
    }
    Tensor second = outer.jacobian({gradient, where}, x);
    if (second) return second;
    Shape shape = x.shape();
    for (const std::int64_t size : x.shape()) shape.push_back(size);
    return zeros(shape, {.dtype = x.dtype(), .device = x.device()});
  };
}

std::pair<Tensor, TensorFunction> vjp(const TensorFunction& f, const Tensor& x, Where where) {
  auto tape = std::make_shared<GradientTape>(TapeOptions{.persistent = true});
  tape->watch(x, where);
  Tensor y = f(x);
  // The pullback may be called long after: it must not record what the thread does until then.
  std::shared_ptr<GradientTape::Pause> asleep(new GradientTape::Pause(tape->stop_recording()));
  TensorFunction pullback = [tape, asleep, y, x, where](const Tensor& v) {
    return tape->gradient({y, where}, x, {.output_gradients = v, .unconnected = Unconnected::zero});
  };
  return {y, pullback};
}

std::pair<Tensor, Tensor> vjp(const TensorFunction& f, const Tensor& x, const Tensor& v, Where where) {
  GradientTape tape;
  tape.watch(x, where);
  Tensor y = f(x);
  Tensor gradient = tape.gradient({y, where}, x, {.output_gradients = v, .unconnected = Unconnected::zero});
  return {y, gradient};
}

std::pair<Tensor, Tensor> jvp(const TensorFunction& f, const Tensor& x, const Tensor& v, Where where) {
  if (!v || !x || v.spec() != x.spec())
    throw InvalidArgumentError(
        detail::join("jvp: the direction ", describe(v), " does not fit the argument ", describe(x)), where);
  GradientTape outer;
  Tensor y, pulled, u;
  {
    GradientTape inner;
    inner.watch(x, where);
    y = f(x);
    u = zeros_like(In(y, where));
    outer.watch(u, where);
    pulled = inner.gradient({y, where}, x, {.output_gradients = u, .unconnected = Unconnected::zero});
  }
  // The pullback is linear in u, so its derivative does not depend on where u stands.
  Tensor pushed = outer.gradient({pulled, where}, u, {.output_gradients = v, .unconnected = Unconnected::zero});
  return {y, pushed};
}

namespace detail {
namespace {

const Closure& closure(const Call& call) { return call.attr<Closure>("function"); }

Specs no_inference(const Call& call) {
  throw InternalError(join(call.type(), " is recorded by its function and never applied"));
}

/// These two are recorded by hand: their value is computed by the user's function, through the door.
const Op& custom_gradient_op() {
  static const Op& op = *new Op{
      .name = "CustomGradient",
      .infer = no_inference,
      .gradient = [](const Call& call, const Tensor& g) -> Tensors { return (*closure(call))({g}); },
      .needs = needs_nothing,
  };
  return op;
}

const Op& recompute_op() {
  static const Op& op = *new Op{
      .name = "Recompute",
      .infer = no_inference,
      .gradient = [](const Call& call, const Tensor& g) -> Tensors {
        Tensors arguments = call.inputs();
        arguments.push_back(g);
        return (*closure(call))(arguments);
      },
      .needs = needs_inputs,
  };
  return op;
}

Tensor record_result(const Op& op, const Tensors& inputs, Closure function, const Tensor& value, Where where) {
  Call call(op, inputs, {{"function", std::move(function)}}, where);
  // A handle of its own: a tape that also saw how the value was computed must not find that way back.
  Tensor result = make_view(value, value.shape(), value.strides());
  call.mutable_outputs().push_back(result);
  tell_recorders(std::move(call));
  return result;
}

/// The Variables that a function has read, each with its first value.
struct Reads {
  std::vector<Variable> variables;
  Tensors values;
};

/// While it lives, the recorders around it see reads of Variables, which it notes, but no ops.
class ReadWatcher final : public Recorder {
 public:
  explicit ReadWatcher(Reads& reads) : reads_(reads), outside_(std::exchange(recorders(), Recorders{this})) {}
  ~ReadWatcher() override { recorders() = outside_; }
  ReadWatcher(const ReadWatcher&) = delete;
  ReadWatcher& operator=(const ReadWatcher&) = delete;
  void record(Call&&) override {}
  void read(const Variable& variable, Tensor& value) override {
    tell_read(outside_, variable, value);
    for (const Variable& known : reads_.variables)
      if (known.is(variable)) return;
    reads_.variables.push_back(variable);
    reads_.values.push_back(value);
  }

 private:
  Reads& reads_;
  Recorders outside_;
};

/// While it lives, Variables have the values again that were read before, whatever was assigned since.
class ReadReplay final : public Recorder {
 public:
  explicit ReadReplay(const Reads& reads) : reads_(reads) { recorders().push_back(this); }
  ~ReadReplay() override { recorders().pop_back(); }
  ReadReplay(const ReadReplay&) = delete;
  ReadReplay& operator=(const ReadReplay&) = delete;
  void record(Call&&) override {}
  void read(const Variable& variable, Tensor& value) override {
    for (std::size_t i = 0; i < reads_.variables.size(); ++i)
      if (reads_.variables[i].is(variable)) value = reads_.values[i];
  }

 private:
  const Reads& reads_;
};

/// While it lives, random numbers come from an earlier place of the stream; then the stream goes on where it was.
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

Tensor custom_gradient(const std::function<CustomGradient(const Tensors&)>& f, const Tensors& inputs, Where where) {
  const CustomGradient result = f(inputs);
  auto gradient = [backward = result.gradient](const Tensors& g) { return backward(g[0]); };
  return record_result(custom_gradient_op(), inputs,
                       std::make_shared<const std::function<Tensors(const Tensors&)>>(gradient), result.value, where);
}

Tensor recompute(const std::function<Tensor(const Tensors&)>& f, const Tensors& inputs, Where where) {
  Tensor value;
  Reads reads;
  const random::State random_before = random::state();
  const DType autocast = Autocast::current();
  {
    ReadWatcher watcher(reads);
    value = f(inputs);
  }
  const bool is_random = random::state() != random_before;
  const auto arguments = static_cast<std::ptrdiff_t>(inputs.size());
  Tensors sources = inputs;
  sources.append(reads.values.begin(), reads.values.end());
  // The second time f must find the world as it was the first time.
  auto backward = [=, variables = std::move(reads.variables)](const Tensors& all) -> Tensors {
    const Tensors from(all.begin(), all.end() - 1);
    const Reads before{variables, Tensors(from.begin() + arguments, from.end())};
    GradientTape tape({.watch_accessed_variables = false});
    for (const Tensor& source : from)
      if (is_floating(source.dtype())) tape.watch(source);
    Tensor again;
    {
      const ReadReplay values(before);
      const Autocast types(autocast);
      std::optional<RandomReplay> numbers;
      if (is_random) numbers.emplace(random_before);
      again = f(Tensors(from.begin(), from.begin() + arguments));
    }
    Tensors gradients = tape.gradient(again, std::vector<Tensor>(from), {.output_gradients = all.back()});
    // A tensor that came in more than once has its whole gradient at each place; it counts at the first.
    for (std::size_t i = 1; i < from.size(); ++i)
      if (std::any_of(from.begin(), from.begin() + i,
                      [&](const Tensor& earlier) { return earlier.id() == from[i].id(); }))
        gradients[i] = Tensor();
    return gradients;
  };
  return record_result(recompute_op(), sources,
                       std::make_shared<const std::function<Tensors(const Tensors&)>>(backward), value, where);
}

}  // namespace detail
}  // namespace tapestry
