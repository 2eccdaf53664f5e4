// The ways to run a program, and what they must agree on.

#include <cmath>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "core/make_tensor.hpp"
#include "fuzz/programs.hpp"
#include "graph/passes/passes.hpp"

namespace tapestry::test::programs {
namespace {

/// An error, as far as all ways to run a program must agree on it.
struct Refusal {
  Code code;
  std::string op, message;
};

/// What a call gave: values, or an error.
struct Outcome {
  Values values;
  std::optional<Refusal> refusal;
};
/// Of one call after the other, up to the first that is refused.
using History = std::vector<Outcome>;
/// For each call whether it is given the second batch.
using Calls = std::vector<bool>;

Refusal refusal_of(const Error& error) { return {error.code(), error.op(), error.what()}; }

bool same_number(double a, double b, bool same_zero) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && (!same_zero || std::signbit(a) == std::signbit(b)));
}

/// The same type, shape and bits; which of the many NaNs one is does not matter. `same_zero`: -0 is not 0.
bool same(const Tensor& a, const Tensor& b, bool same_zero) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Tensor p = detail::on_host(a), q = detail::on_host(b);
  if (p.size() == 0 ||
      std::memcmp(p.impl().data, q.impl().data, static_cast<std::size_t>(p.size()) * size_of(p.dtype())) == 0)
    return true;
  if (!is_floating(a.dtype())) return false;
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  return std::equal(x.begin(), x.end(), y.begin(),
                    [&](double number, double other) { return same_number(number, other, same_zero); });
}

std::string text(const Tensor& x) {
  std::string text = to_string(x.dtype()) + to_string(x.shape()) + ":";
  const std::vector<double> values = x.to_vector<double>();
  char number[32];
  for (std::size_t i = 0; i < std::min<std::size_t>(values.size(), 20); ++i) {
    std::snprintf(number, sizeof number, " %.17g", values[i]);
    text += number;
  }
  return text;
}
std::string text(const Outcome& outcome) {
  return outcome.refusal ? "refused: " + outcome.refusal->message : std::to_string(outcome.values.size()) + " values";
}

/// Where the second history differs from the first.
std::optional<std::string> differs(const History& expected, const History& found, bool unknown_sizes, bool same_zero) {
  // Of functions made of ops, some check sizes that are known, and leave the others to their ops.
  const auto same_refusal = [&](const Refusal& a, const Refusal& b) {
    return a.code == b.code && (unknown_sizes || a.op == b.op);
  };
  for (std::size_t call = 0; call < expected.size(); ++call) {
    const std::string at = "call " + std::to_string(call) + ": ";
    if (call >= found.size()) return at + "is missing";
    const Outcome &a = expected[call], &b = found[call];
    if (a.refusal || b.refusal) {
      if (a.refusal && b.refusal && same_refusal(*a.refusal, *b.refusal)) continue;
      return at + "expected " + text(a) + "\n    found " + text(b);
    }
    if (a.values.size() != b.values.size()) return at + "expected " + text(a) + ", found " + text(b);
    for (std::size_t i = 0; i < a.values.size(); ++i)
      if (!same(a.values[i], b.values[i], same_zero))
        return at + "value " + std::to_string(i) + "\n    expected " + text(a.values[i]) + "\n    found    " +
               text(b.values[i]);
  }
  return {};
}

/// Runs `call` for each batch.
History history(const Calls& calls, const std::function<Values(bool second)>& call) {
  History outcomes;
  for (const bool second : calls) {
    try {
      outcomes.push_back({call(second), {}});
    } catch (const Error& error) {
      outcomes.push_back({{}, refusal_of(error)});
      break;
    }
  }
  return outcomes;
}

/// A program with fresh Variables and its place in the stream of random numbers.
class Setup {
 public:
  Setup(const Program& program, Machine::Place place) : program_(program), machine_(variables_of(program), place) {
    random::seed(program.seed);
  }

  Values inputs(bool second) const {
    Values values;
    for (const Data& data : program_.inputs) values.push_back(make(data, program_.sizes, second));
    return values;
  }
  /// The same in row-major order. A sum adds up in the order of memory, and a run copies what it is fed.
  Values dense_inputs(bool second) const {
    Values values;
    for (const Tensor& each : inputs(second)) values.push_back(each.contiguous());
    return values;
  }
  std::vector<TensorSpec> specs(bool unknown_sizes) const {
    std::vector<TensorSpec> found;
    for (const Data& data : program_.inputs) {
      Shape shape;
      for (const std::size_t axis : data.axes) {
        const Size& size = program_.sizes[axis];
        shape.push_back(unknown_sizes && size.unknown ? -1 : size.first);
      }
      found.push_back(spec(data.dtype, shape));
    }
    return found;
  }
  Values run(const Values& inputs) { return machine_.run(program_, inputs); }
  /// The values of the Variables are results, too.
  Values with_variables(Values values) const {
    for (std::size_t i = 0; i < machine_.variables(); ++i)
      values.push_back(machine_.variable(static_cast<std::int64_t>(i)).value());
    return values;
  }
  std::size_t steps_done() const { return machine_.steps_done(); }

 private:
  static std::vector<Variable> variables_of(const Program& program) {
    std::vector<Variable> variables;
    for (const Data& data : program.variables)
      variables.emplace_back(make(data, program.sizes, false), VariableOptions{.name = "v"});
    return variables;
  }

  const Program& program_;
  Machine machine_;
};

/// One after the other, at once. Where a call is refused the program is cut behind the step that refuses, and all its
/// values are fetched, so that a graph cannot leave out what it does not need.
History eagerly(Program& program, const Calls& calls) {
  Setup setup(program, Machine::Place::program_order);
  History outcomes =
      history(calls, [&](bool second) { return setup.with_variables(setup.run(setup.dense_inputs(second))); });
  if (outcomes.empty() || !outcomes.back().refusal) return outcomes;
  const std::size_t steps = setup.steps_done() + 1;
  if (program.everything && program.steps.size() == steps) return outcomes;
  program.steps.resize(steps);
  program.fetched.resize(steps);
  program.everything = true;
  return eagerly(program, calls);
}

/// The operations that draw random numbers or change Variables. Eagerly and in a call of a trace each runs, whether its
/// result is needed or not; a session runs what is fetched.
std::vector<Operation> effects(const Graph& graph) {
  std::vector<Operation> found = graph.operations();
  std::erase_if(found, [](const Operation& each) { return !detail::node_of(each).op().stateful; });
  return found;
}
/// Of these, those that draw: in a graph by hand changes of Variables are in no order.
std::vector<Operation> draws(const Graph& graph) {
  std::vector<Operation> found = effects(graph);
  std::erase_if(found, [](const Operation& each) {
    return detail::node_of(each).op().outputs == 0 || detail::node_of(each).attrs().find("variables");
  });
  return found;
}

/// A trace of a program: called, or run by sessions of its graph.
class InTrace {
 public:
  InTrace(const Program& program, bool unknown_sizes)
      : setup_(program, Machine::Place::program_order),
        traced_(
            [this](const Tensors& inputs) { return detail::flatten(setup_.run(Values(inputs.begin(), inputs.end()))); },
            setup_.specs(unknown_sizes), {}, Where::here()) {
    random::seed(program.seed);
  }

  History called(const Calls& calls) {
    return history(calls, [&](bool second) {
      const Values inputs = setup_.inputs(second);
      std::vector<Value> arguments(inputs.begin(), inputs.end());
      const Tensors found = traced_.call(arguments, Where::here());
      return setup_.with_variables(Values(found.begin(), found.end()));
    });
  }
  History in_session(const Calls& calls, const SessionOptions& options) {
    Session session(traced_.graph(), options);
    return history(calls, [&](bool second) {
      const Values inputs = setup_.inputs(second);
      Feeds feeds;
      for (std::size_t i = 0; i < inputs.size(); ++i) feeds.add(traced_.inputs()[i], inputs[i]);
      const Values outputs(traced_.outputs().begin(), traced_.outputs().end());
      return setup_.with_variables(session.run(std::pair(outputs, effects(traced_.graph())), feeds).first);
    });
  }
  /// A copy that went through a file. Its Variables are its own, and their values no results.
  History reloaded(const Calls& calls) {
    const std::string path = std::filesystem::temp_directory_path() / ("programs-" + std::to_string(getpid()) + ".pb");
    traced_.graph().save(path);
    const Graph graph = Graph::load(path);
    std::filesystem::remove(path);
    Session session(graph);
    std::vector<std::string> fetches;
    for (const Tensor& output : traced_.outputs()) fetches.emplace_back(output.name());
    // By their names: the file also has operations that initialize Variables.
    std::vector<Operation> more;
    for (const Operation& each : effects(traced_.graph())) more.push_back(graph.get_operation_by_name(each.name()));
    return history(calls, [&](bool second) {
      const Values inputs = setup_.inputs(second);
      Feeds feeds;
      for (std::size_t i = 0; i < inputs.size(); ++i) feeds.add(traced_.inputs()[i].name(), inputs[i]);
      return session.run(std::pair(fetches, more), feeds).first;
    });
  }

 private:
  Setup setup_;
  detail::FlatTrace traced_;
};

/// As a graph built by hand.
History by_hand(const Program& program, const Calls& calls, bool unknown_sizes) {
  Setup setup(program, Machine::Place::graph);
  const Graph graph;
  Values placeholders, outputs;
  try {
    const auto scope = graph.as_default();
    for (const TensorSpec& each : setup.specs(unknown_sizes))
      placeholders.push_back(placeholder(each.dtype, each.shape));
    outputs = setup.run(placeholders);
    for (Tensor& output : outputs)
      if (!output.is_symbolic()) output = constant(output);
  } catch (const Error& error) {
    return {{{}, refusal_of(error)}};
  }
  Session session(graph);
  random::seed(program.seed);
  return history(calls, [&](bool second) {
    const Values inputs = setup.inputs(second);
    Feeds feeds;
    for (std::size_t i = 0; i < inputs.size(); ++i) feeds.add(placeholders[i], inputs[i]);
    return setup.with_variables(session.run(std::pair(outputs, draws(graph)), feeds).first);
  });
}

bool uses_row(const std::vector<Step>& steps, std::string_view beginning) {
  return std::any_of(steps.begin(), steps.end(), [&](const Step& step) {
    return (step.row && step.row->name.starts_with(beginning)) || uses_row(step.body, beginning) ||
           uses_row(step.other, beginning);
  });
}

bool uses(const std::vector<Step>& steps, std::string_view production) {
  return std::any_of(steps.begin(), steps.end(), [&](const Step& step) {
    return step.production->name == production || uses(step.body, production) || uses(step.other, production);
  });
}

/// While it lives, as many threads work.
class Threads {
 public:
  explicit Threads(int count) : before_(num_threads()) { set_num_threads(count); }
  ~Threads() { set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

/// Without the values of the Variables, which come last.
History without_variables(History outcomes, const Program& program) {
  for (Outcome& outcome : outcomes)
    if (!outcome.refusal) outcome.values.resize(outcome.values.size() - program.variables.size());
  return outcomes;
}

/// Whether a step has a result whose size depends on values, so that a trace never knows it.
bool has_open_sizes(const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Step& each) {
    return (each.row && each.row->open) || has_open_sizes(each.body) || has_open_sizes(each.other);
  });
}

/// The differences of a program in the ways that know all sizes, or that do not.
class Comparison {
 public:
  Comparison(const Program& program, bool unknown_sizes)
      : program_(program),
        unknown_sizes_(unknown_sizes),
        lacks_sizes_(unknown_sizes || has_open_sizes(program.steps)),
        calls_(unknown_sizes ? Calls{false, true, false} : Calls{false, false}) {}

  std::optional<Difference> run() {
    const Threads one(1);
    expected_ = eagerly(program_, calls_);
    if (expected_.back().refusal) ++statistics().refused;
    if (!unknown_sizes_) with_threads("eagerly, two threads", 2, [&] { return eagerly(program_, calls_); });
    // In a graph nothing refuses what nobody needs, and what happens inside of these functions cannot be fetched.
    const bool inside = uses(program_.steps, "custom_gradient") || uses(program_.steps, "recompute") || has_flow();
    if (inside && std::any_of(expected_.begin(), expected_.end(), [](const Outcome& each) { return each.refusal; }))
      return difference_;
    in_traces();
    // There, a function of known values runs while the graph is built, and what it does to Variables is in no order.
    if (!has_flow() || !uses(program_.steps, "assign"))
      compare("by hand", [&] { return by_hand(program_, calls_, unknown_sizes_); });
    return difference_;
  }

 private:
  void in_traces() {
    compare("traced", [&] { return InTrace(program_, unknown_sizes_).called(calls_); });
    if (difference_ || !traceable_) return;
    with_threads("traced, two threads", 2, [&] { return InTrace(program_, unknown_sizes_).called(calls_); });
    compare("without passes",
            [&] { return InTrace(program_, unknown_sizes_).in_session(calls_, {.optimize = false}); });
    std::vector<std::string> all;
    for (const detail::Pass& pass : detail::passes()) all.emplace_back(pass.name);
    compare("with all passes disabled",
            [&] { return InTrace(program_, unknown_sizes_).in_session(calls_, {.disabled_passes = all}); });
    for (const std::string& pass : all)
      compare("without the pass " + pass,
              [&] { return InTrace(program_, unknown_sizes_).in_session(calls_, {.disabled_passes = {pass}}); });
    // A file has no attribute for the groups of a convolution: they follow from its shapes, whatever was asked for.
    if (unknown_sizes_ && expected_.back().refusal && expected_.back().refusal->op == "Conv2D") return;
    // Without its Variables, of which a file has copies.
    expected_ = without_variables(std::move(expected_), program_);
    reloading_ = true;
    compare("reloaded", [&] { return InTrace(program_, unknown_sizes_).reloaded(calls_); });
    reloading_ = false;
    expected_ = eagerly(program_, calls_);
  }

  void with_threads(const std::string& way, int count, const std::function<History()>& run) {
    const Threads threads(count);
    compare(way, run);
  }

  void compare(const std::string& way, const std::function<History()>& run) {
    if (difference_) return;
    History found;
    try {
      found = run();
    } catch (const Error& error) {
      if (reloading_ && error.code() == Code::unimplemented) {
        ++statistics().not_written;
        return;
      }
      // When it was traced. What is refused only for the second batch cannot be known then.
      found = {{{}, refusal_of(error)}};
    } catch (const std::exception& error) {
      difference_ = Difference{way, std::string("another exception: ") + error.what()};
      return;
    }
    if (lacks_sizes_ && found.front().refusal && needs_size(*found.front().refusal)) {
      ++statistics().size_needed;
      traceable_ = false;
      return;
    }
    // The sum of no gradients is -0 in a branch or a loop of a graph, so that adding it changes no other number.
    if (const auto what = differs(expected_, found, lacks_sizes_, !has_flow()))
      difference_ = Difference{way + (unknown_sizes_ ? ", sizes unknown" : ""), *what};
  }

  bool has_flow() const {
    const std::vector<Production> flow = flow_productions();
    return std::any_of(flow.begin(), flow.end(),
                       [&](const Production& each) { return uses(program_.steps, each.name); });
  }

  /// Whether the program used a size as a number that is not known in a trace.
  static bool needs_size(const Refusal& refusal) {
    return std::any_of(std::begin(size_needed), std::end(size_needed),
                       [&](const char* part) { return refusal.message.find(part) != std::string::npos; });
  }
  static constexpr const char* size_needed[] = {"unknown", "must be known", "Cannot infer", "cannot tell",
                                                "is known only when the graph runs"};

  Program program_;
  bool unknown_sizes_;
  bool lacks_sizes_;  ///< some sizes, in any case
  Calls calls_;
  History expected_;
  std::optional<Difference> difference_;
  bool traceable_ = true, reloading_ = false;
};

}  // namespace

Statistics& statistics() {
  static Statistics counted;
  return counted;
}

std::optional<Difference> difference(const Program& program) {
  ++statistics().programs;
  statistics().steps += program.steps.size();
  if (program.steps.empty()) return {};
  if (auto found = Comparison(program, false).run()) return found;
  if (std::none_of(program.sizes.begin(), program.sizes.end(), [](const Size& size) { return size.unknown; }))
    return {};
  // Where it is not known how many rows a matrix has, the gradient of its svd has terms that vanish for some.
  if (uses_row(program.steps, "svd") || uses_row(program.steps, "singular values")) return {};
  ++statistics().unknown;
  return Comparison(program, true).run();
}

}  // namespace tapestry::test::programs
