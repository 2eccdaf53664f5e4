#include "graph/flow/function_tracer.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "autodiff/with_gradient_to.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/state_ops.hpp"
#include "ops/checked_like.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::detail {
namespace {

bool is_same(const Captures::Capture& a, const Captures::Capture& b) {
  if (a.variable || b.variable)
    return a.variable && b.variable && a.variable->is(*b.variable) && a.reads_itself == b.reads_itself;
  return a.tensor.is(b.tensor);
}

/// nullptr where ops are executed.
std::shared_ptr<GraphState> graph_around(const Tensors& arguments) {
  if (open_sink()) return scopes().graph;
  for (const Tensor& each : arguments)
    if (each.is_symbolic()) return graph_of(each);
  return nullptr;
}

/// While it lives, the recorders around a function that is being traced see the ops in it that are executed, such as
/// the square of an eager tensor: the result is an operand of the function. They do not see what becomes a node.
class RecordExecuted final : public Recorder {
 public:
  /// `around`: the graph around the function; nullptr where ops are executed.
  explicit RecordExecuted(std::shared_ptr<GraphState> around)
      : around_(std::move(around)), outside_(std::move(recorders())) {
    recorders() = outside_.empty() ? Recorders() : Recorders{this};
  }
  ~RecordExecuted() override { recorders() = std::move(outside_); }
  RecordExecuted(const RecordExecuted&) = delete;
  RecordExecuted& operator=(const RecordExecuted&) = delete;
  void record(Call&& call) override {
    const auto is_symbolic = [](const Tensor& each) { return bool(each) && each.is_symbolic(); };
    if (std::any_of(call.outputs().begin(), call.outputs().end(), is_symbolic)) return;
    in_surroundings([&] { tell_recorders(std::move(call)); });
  }
  /// A gradient in the function may need more of an op outside of it.
  void extend(const Call& call) override {
    in_surroundings([&] {
      for (Recorder* each : outside_) each->extend(call);
    });
  }
  void read(const Variable&, Tensor&) override {}

 private:
  struct RecordOutside {
    explicit RecordOutside(RecordExecuted& executed) : saved(std::exchange(recorders(), executed.outside_)) {}
    ~RecordOutside() { recorders() = std::move(saved); }
    RecordOutside(const RecordOutside&) = delete;
    RecordOutside& operator=(const RecordOutside&) = delete;
    Recorders saved;
  };

  /// A recorder may compute with what it has of the surroundings.
  template <class F>
  void in_surroundings(F f) {
    const RecordOutside outside(*this);
    std::optional<Graph::Scope> graph;
    std::optional<ExecuteNow> now;
    if (around_)
      graph.emplace(Graph(around_));
    else
      now.emplace();
    f();
  }

  std::shared_ptr<GraphState> around_;
  Recorders outside_;
};

/// Counts the functions that are being traced one inside the other. A function that calls itself until a value says
/// stop would be traced without end.
class Nesting {
 public:
  explicit Nesting(Where where) {
    constexpr int most = 64;
    if (depth == most)
      throw InvalidArgumentError(join("More than ", most, " branches or loops of a graph are nested. A function that ",
                                      "calls itself in a branch runs eagerly only; in a graph it is a while_loop"),
                                 where);
    ++depth;
  }
  ~Nesting() { --depth; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  static thread_local int depth;
};
thread_local int Nesting::depth = 0;

/// While it lives, the ops that are traced in a function find what an earlier trace of it has learned of them.
class FunctionScope {
 public:
  explicit FunctionScope(std::vector<KnownChanges>& inside) : inside_(inside), outer_(std::exchange(current, this)) {}
  ~FunctionScope() { current = outer_; }
  FunctionScope(const FunctionScope&) = delete;
  FunctionScope& operator=(const FunctionScope&) = delete;

  /// Of the next op in the function that is being traced; nullptr if there is none.
  static KnownChanges* next_op() {
    if (!current) return nullptr;
    std::vector<KnownChanges>& inside = current->inside_;
    if (current->next_ == inside.size()) inside.emplace_back();
    return &inside[current->next_++];
  }

 private:
  static thread_local FunctionScope* current;
  std::vector<KnownChanges>& inside_;
  std::size_t next_ = 0;
  FunctionScope* outer_;
};
thread_local FunctionScope* FunctionScope::current = nullptr;

}  // namespace

FunctionTracer::FunctionTracer(const Tensors& arguments, Where where)
    : outer_(graph_around(arguments)), is_in_graph_(outer_ != nullptr), where_(where) {
  if (!is_in_graph_) outer_ = std::make_shared<GraphState>();
}

std::vector<GraphFunction> FunctionTracer::trace(const std::vector<TracedFunction>& functions) {
  KnownChanges own;
  KnownChanges* const known = FunctionScope::next_op();
  return trace(functions, known ? *known : own);
}

std::vector<GraphFunction> FunctionTracer::trace(const std::vector<TracedFunction>& functions, KnownChanges& known) {
  constexpr int most_traces = 16;
  changed_ = known.variables;
  known.inside.resize(functions.size());
  for (int traces = 0;;) {
    std::vector<Captures> captures(functions.size());
    std::vector<GraphFunction> traced;
    std::vector<Variable> found;
    draws_ = false;
    for (std::size_t i = 0; i < functions.size(); ++i) {
      captures[i].outer = outer_.get();
      captures[i].is_recorded = !recorders().empty();
      captures[i].changed = changed_;
      const FunctionScope scope(known.inside[i]);
      traced.push_back(trace(functions[i], captures[i]));
      changed_ = captures[i].changed;
      found.insert(found.end(), captures[i].found.begin(), captures[i].found.end());
      draws_ = draws_ || traced.back().graph->draws();
    }
    const auto is_found = [&](const Variable& each) { return contains(found, each); };
    if (!std::all_of(known.variables.begin(), known.variables.end(), is_found)) {
      known.variables.clear();
      changed_.clear();
      continue;
    }
    const Variable* stale = changed_after_capture(captures);
    if (!stale) {
      known.variables.clear();
      std::copy_if(changed_.begin(), changed_.end(), std::back_inserter(known.variables), is_found);
      add_operands(traced, captures);
      return traced;
    }
    // The next trace knows that the Variable changes, unless the function makes it: then it is another one each time.
    if (++traces > most_traces)
      throw InvalidArgumentError(join("A function of a graph makes a Variable '", stale->name(),
                                      "' and changes it after it was read; make the Variable outside the function"),
                                 where_);
  }
}

/// A Variable whose value is an operand although a function changes it; nullptr for none.
const Variable* FunctionTracer::changed_after_capture(const std::vector<Captures>& captures) const {
  for (const Captures& each : captures)
    for (const Captures::Capture& capture : each.list)
      for (const Variable& variable : changed_)
        if (capture.variable && !capture.reads_itself && variable.is(*capture.variable)) return &variable;
  return nullptr;
}

GraphFunction FunctionTracer::trace(const TracedFunction& function, Captures& captures) {
  GraphFunction traced{.name = function.name,
                       .graph = std::make_shared<GraphState>(GraphState::Order::program),
                       .inputs = {},
                       .outputs = {}};
  GraphState& graph = *traced.graph;
  graph.budget().set_limits(outer_->budget().limits());
  const Nesting nesting(where_);
  const RecordExecuted recording(is_in_graph_ ? outer_ : nullptr);
  const OptionsScope open(traced.graph, {.device = scopes().device});
  for (const Spec& spec : function.inputs)
    traced.inputs.push_back(placeholder(spec.dtype, spec.shape, function.input_name, where_));
  graph.captures = &captures;
  graph.of_examples = function.of_examples;
  try {
    for (const Tensor& output : function.function(traced.inputs)) {
      if (!output && !function.may_lack_outputs)
        throw InvalidArgumentError(join("The function '", function.name, "' returned an empty Tensor"), where_);
      if (bool(output) && output.dtype() == DType::resource)
        throw UnimplementedError(join("The function '", function.name, "' returned '", output.name(),
                                      "', the handle of a Variable; it can return the Variable's value"),
                                 where_);
      traced.outputs.push_back(output ? graph.captured(output, where_) : Tensor());
    }
  } catch (...) {
    graph.captures = nullptr;
    throw;
  }
  graph.captures = nullptr;
  traced.operations = graph.must_run();
  return traced;
}

void FunctionTracer::add_operands(std::vector<GraphFunction>& functions, const std::vector<Captures>& captures) {
  operands_.clear();
  for (const Captures& each : captures)
    for (const Captures::Capture& capture : each.list)
      if (std::none_of(operands_.begin(), operands_.end(), [&](const auto& other) { return is_same(other, capture); }))
        operands_.push_back(capture);
  for (std::size_t i = 0; i < functions.size(); ++i)
    for (const Captures::Capture& operand : operands_) {
      const auto& list = captures[i].list;
      const auto found =
          std::find_if(list.begin(), list.end(), [&](const auto& other) { return is_same(other, operand); });
      functions[i].inputs.push_back(found == list.end() ? Tensor() : found->inside);
      if (found != list.end() && !found->variable)
        functions[i].graph->stand_ins.emplace(found->tensor.id(), found->inside);
    }
}

Tensors FunctionTracer::operands() const {
  std::optional<Graph::Scope> open;
  if (!open_sink() && is_in_graph_) open.emplace(Graph(outer_));
  Tensors values;
  for (const Captures::Capture& each : operands_) {
    const Tensor value = each.variable ? each.variable->value() : each.tensor;
    // The value itself would be kept while the function changes the Variable.
    const auto no_value = [&] {
      return broadcast_like(In(zeros({}, {.dtype = value.dtype()}, {}, where_), where_), value);
    };
    values.push_back(each.reads_itself ? with_gradient_to(no_value(), value, where_) : value);
  }
  return values;
}

std::vector<Attr> FunctionTracer::attrs(std::vector<GraphFunction> functions) const {
  std::vector<Attr> attrs{{"functions", functions_ref(std::move(functions))}};
  if (!changed_.empty()) attrs.emplace_back("variables", std::make_shared<const std::vector<Variable>>(changed_));
  if (draws_) attrs.emplace_back("draws", true);
  return attrs;
}

Tensors FunctionTracer::add(const Op& op, const Tensors& inputs, const std::vector<Attr>& attrs,
                            std::string_view name) const {
  std::optional<Graph::Scope> open;
  if (!open_sink()) open.emplace(Graph(outer_));
  // The sum of an input's gradient is replaced by the op's gradient, so no tensor may be an input twice. The operand is
  // the one that stays: a tape sums its gradient before those of the others.
  Tensors distinct;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    const bool comes_again =
        std::any_of(inputs.begin() + i + 1, inputs.end(), [&](const Tensor& other) { return other.is(input); });
    distinct.push_back(comes_again && is_floating(input.dtype()) ? identity(In(input, where_)) : input);
  }
  for (const Variable& each : changed_) outer_->variable_entry(each, where_);
  return apply_all(op, distinct, Attrs(attrs), name, where_);
}

}  // namespace tapestry::detail
