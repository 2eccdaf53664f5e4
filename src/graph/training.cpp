#include "graph/training.hpp"

#include "autodiff/row_update.hpp"
#include "backend/backend.hpp"
#include "dispatch/define.hpp"
#include "graph/state_ops.hpp"

namespace tapestry {
namespace {

/// The numbers of an optimizer's formula: they follow from the number of steps that have been made.
TAPESTRY_OP(learning_rate_definition){{
    .name = "LearningRate",
    .attrs = {{"variables", AttrKind::variables},
              {"numbers", AttrKind::function},
              {"count", AttrKind::number},
              {"rate", AttrKind::function, optional}},
    .infer = [](const Call& call) -> Specs {
      return {{float64, {call.attr<std::int64_t>("count")}}};
    },
    .view =
        [](const Call& call, const Spec&) {
          const Variable& iterations = call.attr<VariablesRef>("variables")->front();
          return (*call.attr<Closure>("numbers"))({iterations.cell()->load()})[0];
        },
    .gradient = no_gradient,
    .shape_inputs = 1,
    .stateful = true,
}};

constexpr int slots_of(Update formula) {
#define TAPESTRY_SLOTS(name, slots, formula) slots,
  constexpr int counts[] = {TAPESTRY_UPDATES(TAPESTRY_SLOTS)};
#undef TAPESTRY_SLOTS
  return counts[static_cast<int>(formula)];
}

/// Inputs: the handles of the variable and its slots, whether to update them at all (absent: yes), for `rows` the
/// indices of a row-sparse gradient, the formula's numbers, the gradient or its rows.
Op update_op(const char* name, Update formula, bool rows) {
  return {
      .name = name,
      .attrs = {{"variables", AttrKind::variables}},
      .infer = [rows](const Call& call) -> Specs {
        const Variable& variable = call.attr<VariablesRef>("variables")->front();
        const Shape& gradient = call.inputs().back().shape();
        if (!rows && !agree(gradient, variable.shape()))
          throw InvalidArgumentError(detail::join("The gradient of variable '", variable.name(), "' has the shape ",
                                                  gradient, "; the variable has ", variable.shape()));
        return {};
      },
      .forward =
          [formula, rows](Backend&, const Call& call) {
            const std::vector<Variable>& variables = *call.attr<VariablesRef>("variables");
            const std::size_t count = call.inputs().size();
            if (count > variables.size() + (rows ? 3 : 2) && !call.input(variables.size()).item<bool>()) return;
            const Tensor &numbers = call.input(count - 2), &gradient = call.inputs().back();
            if (rows)
              update_rows_in_place(formula, numbers, summed_rows({call.input(count - 3), gradient}, variables[0]),
                                   variables);
            else
              update_in_place(formula, numbers, gradient, variables);
          },
      .gradient = no_gradient,
      .shape_inputs = (2U << slots_of(formula)) - 1,
      .outputs = 0,
      .stateful = true,
  };
}

/// The op of a formula for all rows, and the one for some.
#define TAPESTRY_UPDATE_OPS(formula, op)                                            \
  TAPESTRY_OP(formula##_op)(update_op("ResourceApply" op, Update::formula, false)); \
  TAPESTRY_OP(sparse_##formula##_op)(update_op("ResourceSparseApply" op, Update::formula, true));

TAPESTRY_UPDATE_OPS(gradient_descent, "GradientDescent")
TAPESTRY_UPDATE_OPS(momentum, "Momentum")
TAPESTRY_UPDATE_OPS(nesterov, "NesterovMomentum")
TAPESTRY_UPDATE_OPS(adam, "Adam")
TAPESTRY_UPDATE_OPS(adamw, "AdamW")
TAPESTRY_UPDATE_OPS(rmsprop, "RMSProp")
TAPESTRY_UPDATE_OPS(adagrad, "AdagradV2")

const Op& op_of(Update formula, bool rows) {
#define TAPESTRY_PAIR(name, slots, statements) {&name##_op, &sparse_##name##_op},
  constexpr const Op* ops[][2] = {TAPESTRY_UPDATES(TAPESTRY_PAIR)};
#undef TAPESTRY_PAIR
  return *ops[static_cast<std::size_t>(formula)][rows ? 1 : 0];
}

}  // namespace

const Op& learning_rate_op = learning_rate_definition;

namespace detail {

std::optional<Call> update_of_rows(const Call& update) {
#define TAPESTRY_FORMULA(name, slots, statements) Update::name,
  for (const Update formula : {TAPESTRY_UPDATES(TAPESTRY_FORMULA)}) {
#undef TAPESTRY_FORMULA
    if (&update.op() != &op_of(formula, false)) continue;
    const std::optional<IndexedSlices> rows = indexed_slices(update.inputs().back(), update.where());
    if (!rows) return {};
    Tensors inputs(update.inputs().begin(), update.inputs().end() - 2);
    inputs.push_back(rows->indices);
    inputs.push_back(update.input(update.inputs().size() - 2));
    inputs.push_back(rows->values);
    return Call(op_of(formula, true), inputs, update.attrs(), update.where(), update.name());
  }
  return {};
}

namespace {

Tensor add_numbers(GraphState& graph, const TrainingStep& step) {
  const NameScope inside(step.name + "/", step.where);
  const Tensor handle = graph.variable_entry(step.iterations, step.where).handle;
  const std::int64_t count = (*step.numbers)({tensor(std::int64_t{0})})[0].size();
  std::vector<Attr> attrs{{"variables", std::make_shared<const std::vector<Variable>>(1, step.iterations)},
                          {"numbers", step.numbers},
                          {"count", count}};
  if (step.rate) attrs.emplace_back("rate", step.rate);
  return graph
      .add_in_scopes(Call(learning_rate_op, {handle}, Attrs(attrs), step.where, "learning_rate"), {{float64, {count}}})
      .output();
}

Operation add_update(GraphState& graph, const TrainingStep& step, const TrainingStep::Job& job, const Tensor& numbers) {
  Tensors inputs;
  for (const Variable& variable : job.variables) inputs.push_back(graph.variable_entry(variable, step.where).handle);
  const std::string name = endpoint_of(inputs[0]).node->name();
  if (step.only_if) inputs.push_back(step.only_if);
  const NameScope inside("update_" + name, step.where);
  if (step.composed) {
    TrainingStep::Job captured = job;
    captured.gradient = graph.captured(job.gradient, step.where);
    return step.composed(captured, numbers, step.only_if);
  }
  const std::optional<IndexedSlices> rows = indexed_slices(job.gradient, step.where);
  if (rows) inputs.push_back(graph.captured(rows->indices, step.where));
  inputs.push_back(numbers);
  inputs.push_back(graph.captured(rows ? rows->values : job.gradient, step.where));
  const Op& op = op_of(*step.formula, rows.has_value());
  return operation_of(graph.add_in_scopes(Call(op, inputs, variable_attrs(job.variables), step.where), {}));
}

/// Adds a node in this thread's scopes, with a name that has been taken for it.
Operation add_named(GraphState& graph, Call call) {
  NodeOptions options = graph.scope_options(call.op());
  options.scope.clear();
  options.name_is_taken = true;
  return operation_of(graph.add_node(std::move(call), {}, options));
}

/// Adds an operation that increments a Variable if a step is made. `name`: of the node, taken already; if empty, made
/// of the Variable's.
Operation add_increment(GraphState& graph, const Variable& variable, const Tensor& only_if, const std::string& name,
                        Where where) {
  Tensor one = only_if;
  if (!one) {
    const ExecuteNow now;
    one = tensor(1, {}, where);
  }
  one = one.cast(variable.dtype(), where);
  const Tensor handle = graph.variable_entry(variable, where).handle;
  Call call(assign_op(Assign::add), {handle, graph.captured(one, where)}, variable_attrs({variable}), where,
            name.empty() ? endpoint_of(handle).node->name() + "/AssignAdd" : name);
  return name.empty() ? operation_of(graph.add_in_scopes(std::move(call), {})) : add_named(graph, std::move(call));
}

}  // namespace

Operation add_training_step(GraphState& graph, const TrainingStep& step) {
  const std::lock_guard lock(graph.mutex());
  graph.require_open(step.where);
  const NameScope scope(step.name, step.where);
  const std::string name = scope.name().substr(0, scope.name().size() - 1);
  TrainingStep named = step;
  named.name = name;
  if (step.only_if) named.only_if = graph.captured(step.only_if, step.where);
  const Tensor numbers = add_numbers(graph, named);
  std::vector<Operation> updates;
  for (const TrainingStep::Job& job : step.jobs) updates.push_back(add_update(graph, named, job, numbers));

  std::vector<Operation> last = updates;
  {
    const ControlScope after(updates);
    const NameScope root("", step.where);
    last.push_back(add_increment(graph, step.iterations, named.only_if, {}, step.where));
  }
  Operation train;
  if (step.global_step) {
    const ControlScope after({group(last, "update", step.where)});
    train = add_increment(graph, *step.global_step, named.only_if, name, step.where);
  } else {
    const ControlScope after(last);
    train = add_named(graph, Call(no_op_op, {}, {}, step.where, name));
  }
  graph.collections[std::string(graph_keys::train_op)].operations.push_back(&node_of(train));
  return train;
}

bool is_traced() {
  const std::shared_ptr<GraphState>& graph = scopes().graph;
  return open_sink() && graph && graph->order() == GraphState::Order::program;
}

}  // namespace detail
}  // namespace tapestry
