#include "graph/training.hpp"

#include "backend/backend.hpp"
#include "dispatch/define.hpp"
#include "graph/state_ops.hpp"

namespace tapestry {
namespace {

/// The numbers of an optimizer's formula: they follow from the number of steps that have been made.
TAPESTRY_OP(learning_rate_definition){{
    .name = "LearningRate",
    .attrs = {{"variables", AttrKind::variables}, {"numbers", AttrKind::function}, {"count", AttrKind::number}},
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

/// Inputs: the handles of the variable and its slots, whether to update them at all (absent: yes), the formula's
/// numbers, the gradient.
template <Update formula>
Op update_op(const char* name) {
  return {
      .name = name,
      .attrs = {{"variables", AttrKind::variables}},
      .infer = [](const Call&) -> Specs { return {}; },
      .forward =
          [](Backend&, const Call& call) {
            const std::vector<Variable>& variables = *call.attr<VariablesRef>("variables");
            const std::size_t count = call.inputs().size();
            if (count > variables.size() + 2 && !call.input(variables.size()).item<bool>()) return;
            update_in_place(formula, call.input(count - 2), call.inputs().back(), variables);
          },
      .gradient = no_gradient,
      .shape_inputs = (2U << slots_of(formula)) - 1,
      .outputs = 0,
      .stateful = true,
  };
}

TAPESTRY_OP(gradient_descent_op)(update_op<Update::gradient_descent>("ResourceApplyGradientDescent"));
TAPESTRY_OP(momentum_op)(update_op<Update::momentum>("ResourceApplyMomentum"));
TAPESTRY_OP(nesterov_op)(update_op<Update::nesterov>("ResourceApplyNesterovMomentum"));
TAPESTRY_OP(adam_op)(update_op<Update::adam>("ResourceApplyAdam"));
TAPESTRY_OP(adamw_op)(update_op<Update::adamw>("ResourceApplyAdamW"));
TAPESTRY_OP(rmsprop_op)(update_op<Update::rmsprop>("ResourceApplyRMSProp"));
TAPESTRY_OP(adagrad_op)(update_op<Update::adagrad>("ResourceApplyAdagradV2"));

const Op& op_of(Update formula) {
  switch (formula) {
    case Update::gradient_descent:
      return gradient_descent_op;
    case Update::momentum:
      return momentum_op;
    case Update::nesterov:
      return nesterov_op;
    case Update::adam:
      return adam_op;
    case Update::adamw:
      return adamw_op;
    case Update::rmsprop:
      return rmsprop_op;
    default:
      return adagrad_op;
  }
}

}  // namespace

const Op& learning_rate_op = learning_rate_definition;

namespace detail {
namespace {

Tensor add_numbers(GraphState& graph, const TrainingStep& step) {
  const NameScope inside(step.name + "/", step.where);
  const Tensor handle = graph.variable_entry(step.iterations, step.where).handle;
  const std::int64_t count = (*step.numbers)({tensor(std::int64_t{0})})[0].size();
  const Attrs attrs{{"variables", std::make_shared<const std::vector<Variable>>(1, step.iterations)},
                    {"numbers", step.numbers},
                    {"count", count}};
  return graph.add_in_scopes(Call(learning_rate_op, {handle}, attrs, step.where, "learning_rate"), {{float64, {count}}})
      .output();
}

Operation add_update(GraphState& graph, const TrainingStep& step, const TrainingStep::Job& job, const Tensor& numbers) {
  Tensors inputs;
  for (const Variable& variable : job.variables) inputs.push_back(graph.variable_entry(variable, step.where).handle);
  const std::string name = endpoint_of(inputs[0]).node->name();
  if (step.only_if) inputs.push_back(step.only_if);
  inputs.push_back(numbers);
  inputs.push_back(graph.captured(job.gradient, step.where));
  const NameScope inside("update_" + name, step.where);
  if (step.composed) {
    TrainingStep::Job captured = job;
    captured.gradient = graph.captured(job.gradient, step.where);
    return step.composed(captured, numbers, step.only_if);
  }
  return operation_of(
      graph.add_in_scopes(Call(op_of(*step.formula), inputs, variable_attrs(job.variables), step.where), {}));
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

}  // namespace detail
}  // namespace tapestry
