#include "graph/flow/registered_gradient.hpp"

#include <utility>

#include "backend/backend.hpp"
#include "backend/views.hpp"
#include "dispatch/define.hpp"
#include "graph/call_graph.hpp"
#include "graph/flow/function_tracer.hpp"
#include "graph/state_ops.hpp"
#include "ops/handles.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::detail {
namespace {

Tensors values_of(const Call& call) {
  return {call.inputs().begin(), call.inputs().begin() + call.attr<std::int64_t>("values")};
}

/// The attribute is a function of the gradients of the outputs and of the inputs.
Op returning_values(const char* name, Needs needs) {
  return {
      .name = name,
      .attrs = {{"function", AttrKind::function}, {"values", AttrKind::number}},
      .infer = [](const Call& call) -> Specs {
        const auto values = call.attr<std::int64_t>("values");
        if (values < 1 || std::cmp_greater(values, call.inputs().size()))
          throw InvalidArgumentError(
              join("values must be between 1 and the number of inputs, ", call.inputs().size(), ", not ", values));
        Specs specs;
        for (const Tensor& each : values_of(call)) specs.push_back(each.spec());
        return specs;
      },
      .gradient = [](const Call& call, const Tensors& arrived) -> Tensors {
        Tensors all = arrived;
        all.append(call.inputs().begin(), call.inputs().end());
        return (*call.attr<Closure>("function"))(all);
      },
      .needs = needs,
  };
}

/// Of one value, which needs no copy.
TAPESTRY_OP(registered_gradient_op){[] {
  Op op = returning_values("RegisteredGradient", {~1U, 0});
  op.view = [](const Call& call, const Spec&) { return view_of(call.input(0)); };
  return op;
}()};
TAPESTRY_OP(registered_gradients_op){[] {
  Op op = returning_values("RegisteredGradients", {~0U, 0});
  op.forward = [](Backend& backend, const Call& call) { backend.copy_each(values_of(call), call.outputs()); };
  op.outputs = -1;
  return op;
}()};

/// The gradients of the inputs. `arrived`: those of the outputs; an empty handle for one that does not arrive.
Tensors input_gradients(const RegisteredGradient& gradient, const Tensors& arrived, const Tensors& inputs) {
  const GraphFunction& function = gradient.function;
  const std::size_t values = gradient.given.size();
  const std::vector<char> used = used_inputs(function);
  Tensors taken, given;
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    if (!used[i]) continue;
    taken.push_back(function.inputs[i]);
    const bool has_arrived = i < arrived.size() && bool(arrived[i]);
    given.push_back(has_arrived ? arrived[i] : i < values ? zeros_like(inputs[i]) : inputs[i]);
  }
  const Tensors results = call_graph(*function.graph, taken, given, function.outputs, {});
  Tensors gradients(inputs.size());
  auto next = results.begin();
  for (std::size_t i = 0; i < values; ++i)
    if (gradient.given[i]) gradients[i] = *next++;
  return gradients;
}

}  // namespace

Tensors with_registered_gradient(const RegisteredGradient& gradient, const Tensors& inputs, std::string_view name,
                                 Where where) {
  // No gradient flows from the other values if only the first one is a result.
  const auto& given = gradient.given;
  const bool has_one_result = given.size() > 1 && !given[0] && given[1];
  const std::size_t outputs = has_one_result ? 1 : given.size();
  const auto function = [gradient, outputs, op = std::string(name)](const Tensors& all) -> Tensors {
    if (!gradient.problem.empty())
      throw UnimplementedError(join("The gradient of '", op, "' cannot be computed: ", gradient.problem));
    const auto first_input = all.begin() + static_cast<std::ptrdiff_t>(outputs);
    return input_gradients(gradient, {all.begin(), first_input}, {first_input, all.end()});
  };
  const Attrs attrs{{"function", std::make_shared<const std::function<Tensors(const Tensors&)>>(function)},
                    {"values", static_cast<std::int64_t>(outputs)}};
  Tensors results =
      apply_all(has_one_result ? registered_gradient_op : registered_gradients_op, inputs, attrs, name, where);
  results.append(inputs.begin() + static_cast<std::ptrdiff_t>(outputs),
                 inputs.begin() + static_cast<std::ptrdiff_t>(given.size()));
  return results;
}

bool has_registered_gradient(const Op& op) { return &op == &registered_gradient_op || &op == &registered_gradients_op; }
bool has_own_gradient(const Op& op) { return has_registered_gradient(op) || &op == &ops::custom_gradient; }

namespace {

/// A tensor, or the value of a Variable, that a function uses: in the graph of the node, before it.
Tensor found_before(const Node& node, const Captures::Capture& capture) {
  if (!capture.variable) return capture.tensor;
  for (std::size_t i = node.index; i-- > 0;) {
    const Node& other = node.graph->node(i);
    if (&other.op() == &read_variable_op && other.attr<VariablesRef>("variables")->front().is(*capture.variable))
      return other.output();
  }
  throw UnimplementedError(
      join("it uses the Variable '", capture.variable->name(), "', which the function does not read"));
}

}  // namespace

std::optional<NodeGradient> gradient_function(const Node& node) {
  const std::size_t outputs = node.outputs().size();
  Specs specs = specs_of(node);
  for (const Tensor& each : node.inputs()) specs.push_back(each.spec());
  // The program's own takes the gradient alone; its arguments are the inputs behind the value.
  const FlatFunction gradient = [&](const Tensors& all) {
    const auto first_input = all.begin() + static_cast<std::ptrdiff_t>(outputs);
    const Call call(node.op(), {first_input, all.end()}, node.attrs(), node.where(), node.name());
    return node.op().gradient(call, {all.begin(), first_input});
  };
  try {
    FunctionTracer tracer(node.inputs(), node.where());
    NodeGradient found{.function = tracer.trace({{"gradient", gradient, specs, "given", true}})[0]};
    if (tracer.is_stateful()) throw UnimplementedError("it changes Variables or draws random numbers");
    for (const Captures::Capture& each : tracer.captured()) found.others.push_back(found_before(node, each));
    return found;
  } catch (const UnimplementedError& error) {
    if (has_registered_gradient(node.op())) return {};  // the file's gradient cannot be computed
    throw UnimplementedError(
        join("The gradient of the program's own cannot be written for node '", node.name(), "': ", error.message(),
             ". A model that is saved by its Signature, which is not trained, needs none"),
        node.where());
  }
}

}  // namespace tapestry::detail
