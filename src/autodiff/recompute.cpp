#include <algorithm>

#include "autodiff/custom_gradient_ops.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/autocast.hpp"
#include "tapestry/custom_gradient.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/random.hpp"
#include "tapestry/tape.hpp"

namespace tapestry::detail {
namespace {

/// What a function used besides its arguments: the Variables that it read, each with the values that it had then; the
/// values that changes of Variables returned; and in a graph the random numbers that it drew.
struct Surroundings {
  std::vector<Variable> variables;  ///< for each of the values
  Tensors values, changes, drawn;
  std::vector<std::size_t> reads;  ///< for each read the number of its value
  bool has_stateful_flow = false;  ///< whether a branch or loop of a graph drew numbers or changed Variables
};

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
    if (call.op().stateful && std::ranges::any_of(call.outputs(), &Tensor::is_symbolic)) {
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

/// A function that has run once, and all that its second run needs.
struct Recomputation {
  std::function<Tensors(const Tensors&)> f;
  std::vector<Variable> variables;         ///< as in Surroundings
  std::vector<std::size_t> reads;          ///< as in Surroundings
  std::size_t arguments, values, changes;  ///< how many there are
  DType autocast;
  std::optional<random::State> random_before;  ///< if f draws random numbers
  Where where;

  /// The gradients of one result. `all`: the arguments, then the values of the Variables, the changes and the random
  /// numbers of the first run, then the gradient of the result.
  Tensors gradients(std::size_t result, const Tensors& all) const {
    const Tensor& g = all.back();
    const std::size_t sources = arguments + values;
    const Tensors from = own_sources(all, sources);
    const Tensor* const drawn = all.begin() + sources + changes;
    const Surroundings before{.variables = variables,
                              .values = Tensors(from.begin() + arguments, from.end()),
                              .changes = Tensors(all.begin() + sources, drawn),
                              .drawn = Tensors(drawn, all.end() - 1),
                              .reads = reads};
    GradientTape tape({.watch_accessed_variables = false});
    for (const Tensor& source : from)
      if (is_floating(source.dtype())) tape.watch(source);
    const Tensor again = run(Tensors(from.begin(), from.begin() + arguments), before)[result];
    Tensors found = tape.gradient(again, std::vector<Tensor>(from), {.output_gradients = g});
    // A tensor that occurs more than once has its whole gradient each time; only the first one counts.
    for (std::size_t i = 1; i < from.size(); ++i)
      if (std::any_of(from.begin(), from.begin() + i,
                      [&](const Tensor& earlier) { return earlier.id() == from[i].id(); }))
        found[i] = Tensor();
    for (std::size_t i = sources + 1; i < all.size(); ++i) found.emplace_back();
    return found;
  }

 private:
  /// The arguments and values for the second run. A tensor that occurs more than once is one source here, too, so that
  /// its gradients are summed in the same order.
  Tensors own_sources(const Tensors& all, std::size_t sources) const {
    Tensors from;
    for (const Tensor* source = all.begin(); source != all.begin() + sources; ++source) {
      const auto known = std::find_if(all.begin(), source, [&](const Tensor& earlier) { return earlier.is(*source); });
      from.push_back(known != source ? from[known - all.begin()]
                     : source->is_symbolic()
                         ? apply_all(optimization_barrier_op, {*source, all.back()}, {}, {}, where)[0]
                         : *source);
    }
    return from;
  }

  /// Runs f again, so that it reads the same values and draws the same numbers as before.
  Tensors run(const Tensors& inputs, const Surroundings& before) const {
    const Replay world(before);
    const Autocast types(autocast);
    std::optional<RandomReplay> numbers;
    if (random_before) numbers.emplace(*random_before);
    return f(inputs);
  }
};

}  // namespace

Tensors recompute(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs, Where where) {
  Tensors values;
  Surroundings found;
  const random::State random_before = random::state();
  const DType autocast = Autocast::current();
  std::vector<Call> calls;
  const bool in_graph = open_sink() || std::ranges::any_of(inputs, &Tensor::is_symbolic);
  {
    Watcher watcher(found, in_graph ? &calls : nullptr);
    values = locating({}, where, [&] { return f(inputs); });
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
  Tensors all_inputs = inputs;
  for (const Tensors* each : {&found.values, &found.changes, &found.drawn})
    all_inputs.append(each->begin(), each->end());
  const auto again = std::make_shared<const Recomputation>(
      Recomputation{.f = f,
                    .variables = std::move(found.variables),
                    .reads = std::move(found.reads),
                    .arguments = inputs.size(),
                    .values = found.values.size(),
                    .changes = found.changes.size(),
                    .autocast = autocast,
                    .random_before = random::state() == random_before ? std::nullopt : std::optional(random_before),
                    .where = where});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto gradients = [again, i](const Tensors& all) -> Tensors { return again->gradients(i, all); };
    values[i] = record_result(recompute_op, values[i], all_inputs, gradients, where);
  }
  return values;
}

}  // namespace tapestry::detail
