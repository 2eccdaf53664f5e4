#include "graph/flow/flow_ops.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "core/element_shape.hpp"
#include "dispatch/define.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::detail {

namespace {

Tensors refuse_to_run(const Call&) { throw InternalError("runs in the plan of a Session only"); }

/// What two specs of one output have in common.
Spec common(const Spec& a, const Spec& b) {
  Spec spec = a;
  if (a.shape.rank() != b.shape.rank()) {
    spec.shape = Shape::unknown_rank();
    return spec;
  }
  for (int axis = 0; axis < a.shape.rank(); ++axis)
    if (a.shape.sizes()[axis] != b.shape.sizes()[axis]) spec.shape.set(axis, -1);
  return spec;
}

/// Those of the inputs behind a selector.
Specs specs_of_operands(const Tensors& inputs) {
  Specs operands;
  for (std::size_t i = 1; i < inputs.size(); ++i) operands.push_back(inputs[i].spec());
  return operands;
}

Specs infer_branches(const Call& call) {
  const Specs operands = specs_of_operands(call.inputs());
  std::optional<Specs> all;
  for (const GraphFunction& branch : functions_of(call)) {
    const Specs specs = infer_if_run(branch, operands);
    if (!all) {
      all = specs;
      continue;
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Spec& known = (*all)[i];
      if (!branch.outputs[i]) continue;
      // A branch with an op that Tapestry lacks does not know what it returns.
      if (specs[i].dtype == DType::unknown) continue;
      const bool is_first = known.dtype == DType::unknown;
      if (!is_first && known.dtype != specs[i].dtype)
        throw InvalidArgumentError(join("The branches must return alike: output ", i, " is ", to_string(known.dtype),
                                        known.shape, " in '", functions_of(call)[0].name, "' and ",
                                        to_string(specs[i].dtype), specs[i].shape, " in '", branch.name, "'"));
      known = is_first ? specs[i] : common(known, specs[i]);
    }
  }
  return *all;
}

/// The number of iterations, or -1 where it is not known.
std::int64_t iterations_of(const WhileParts& parts, const Tensors& inputs) {
  if (parts.condition) return -1;
  if (parts.sequences == 0) return parts.maximum;
  const Shape& shape = inputs[parts.carried].shape();
  return shape.has_rank() ? shape.sizes()[0] : -1;
}

void require_same_length(const WhileParts& parts, const Tensors& inputs) {
  for (std::size_t i = parts.carried; i < parts.carried + parts.sequences; ++i) {
    const Shape &first = inputs[parts.carried].shape(), &shape = inputs[i].shape();
    if (shape.rank() == 0 || (first.has_rank() && shape.has_rank() && !agree({first[0]}, {shape[0]})))
      throw InvalidArgumentError(join("The sequences must have the same length along axis 0: ", first, " and ", shape));
  }
}

/// Throws unless each ragged stack and sequence is followed by its sizes, as far as the inputs are known.
void require_sizes(const WhileParts& parts, const Tensors& inputs) {
  const auto require = [](const Ints& ragged, std::size_t count, const std::function<Spec(std::size_t)>& spec_of) {
    for (const std::int64_t number : ragged) {
      const bool is_followed = number >= 0 && std::cmp_less(number, count) && std::cmp_less(number + 1, count);
      const Spec sizes = is_followed ? spec_of(static_cast<std::size_t>(number) + 1) : Spec{};
      if (!is_followed || sizes.dtype != int64 || (sizes.shape.has_rank() && sizes.shape.rank() != 2))
        throw InvalidArgumentError(join("The elements of number ", number, " of ", count,
                                        " stacks or sequences are said ",
                                        "to differ in shape, but int64[iterations, rank] does not follow"));
    }
  };
  require(parts.ragged_sequences, parts.sequences, [&](std::size_t i) { return inputs[parts.carried + i].spec(); });
  const std::size_t stacks = std::max(parts.body.outputs.size(), parts.carried) - parts.carried;
  require(parts.ragged_stacks, stacks, [&](std::size_t i) {
    const Tensor& given = parts.body.outputs[parts.carried + i];
    return Spec{given ? given.dtype() : int64, Shape::unknown_rank()};
  });
}

/// Throws unless the loop variables stay as they are, as far as the trace of the body tells. What only a run tells is
/// compared after each iteration, of which there may be none.
void require_loop_variables(const WhileParts& parts, const Specs& given) {
  const Specs next = traced_outputs(parts.body);
  for (std::size_t i = 0; i < parts.carried; ++i) {
    const Tensor& input = parts.body.inputs[i];
    require_loop_variable(input ? input.name() : join("variable ", i),
                          {given[i].dtype, input ? input.shape() : given[i].shape}, next[i], !parts.condition);
  }
}

Specs infer_while(const Call& call) {
  const WhileParts parts(call);
  require_same_length(parts, call.inputs());
  require_sizes(parts, call.inputs());
  const Specs given = parts.body_specs(call.inputs());
  Specs specs = infer_if_run(parts.body, given);
  if (specs.size() < parts.carried)
    throw InvalidArgumentError(join("The body '", parts.body.name, "' of the loop returns ", specs.size(),
                                    " tensors, where ", parts.carried, " loop variables are due"));
  require_loop_variables(parts, given);
  for (std::size_t i = 0; i < parts.carried; ++i) specs[i] = given[i];
  const std::int64_t iterations = iterations_of(parts, call.inputs());
  for (std::size_t i = parts.carried; i < specs.size(); ++i) {
    if (!specs[i].shape.has_rank()) continue;
    Shape stacked{iterations};
    for (const std::int64_t size : specs[i].shape.sizes()) stacked.push_back(size);
    specs[i].shape = stacked;
  }
  for (const std::int64_t stack : parts.ragged_stacks) {
    const std::size_t output = parts.carried + static_cast<std::size_t>(stack);
    const std::int64_t rank = specs[output].shape.has_rank() ? specs[output].shape.rank() - 1 : -1;
    specs[output + 1] = {int64, {iterations, rank}};
  }
  return specs;
}

Op flow_op(const char* name, bool stateful, Specs (*infer)(const Call&),
           Tensors (*gradient)(const Call&, const Tensors&), std::vector<OpAttr> more) {
  std::vector<OpAttr> attrs{{"functions", AttrKind::functions},
                            {"variables", AttrKind::variables, optional},
                            {"draws", AttrKind::flag, optional}};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return {
      .name = name,
      .attrs = attrs,
      .infer = infer,
      .evaluate = refuse_to_run,
      .gradient = gradient,
      .gradient_sums = true,
      .outputs = -1,
      .stateful = stateful,
  };
}

const std::vector<OpAttr> loop_attrs{{"carried", AttrKind::number},
                                     {"sequences", AttrKind::number},
                                     {"varying", AttrKind::numbers, optional},
                                     {"ragged_stacks", AttrKind::numbers, optional},
                                     {"ragged_sequences", AttrKind::numbers, optional},
                                     {"maximum_iterations", AttrKind::number, optional},
                                     {"reverse", AttrKind::flag, optional},
                                     {"recompute", AttrKind::flag, optional},
                                     {"replayed", AttrKind::number, optional},
                                     {"varying_states", AttrKind::flag, optional}};

TAPESTRY_OP(if_definition)(flow_op("If", true, infer_branches, if_gradient, {}));
TAPESTRY_OP(stateless_if_definition)(flow_op("StatelessIf", false, infer_branches, if_gradient, {}));
TAPESTRY_OP(case_definition)(flow_op("Case", true, infer_branches, if_gradient, {}));
TAPESTRY_OP(stateless_case_definition)(flow_op("StatelessCase", false, infer_branches, if_gradient, {}));
TAPESTRY_OP(while_definition)(flow_op("While", true, infer_while, while_gradient, loop_attrs));
TAPESTRY_OP(stateless_while_definition)(flow_op("StatelessWhile", false, infer_while, while_gradient, loop_attrs));

}  // namespace

const Op& if_op(bool stateful) { return stateful ? if_definition : stateless_if_definition; }
const Op& case_op(bool stateful) { return stateful ? case_definition : stateless_case_definition; }
const Op& while_op(bool stateful) { return stateful ? while_definition : stateless_while_definition; }

namespace {

/// `or_elements`: whether a stack may have absent elements, too.
bool may_lack(const Tensor& tensor, bool or_elements) {
  const auto [node, number] = endpoint_of(tensor);
  if (!is_flow(node->op())) return node->attrs().find("may_be_absent") != nullptr;
  const auto output = static_cast<std::size_t>(number);
  const std::vector<GraphFunction>& functions = functions_of(*node);
  if (is_while(node->op()))
    return or_elements && output >= WhileParts(*node).carried && bool(functions[0].outputs[output]) &&
           may_lack(functions[0].outputs[output], true);
  return std::any_of(functions.begin(), functions.end(), [&](const GraphFunction& each) {
    return !each.outputs[output] || may_lack(each.outputs[output], or_elements);
  });
}

}  // namespace

bool may_be_absent(const Tensor& tensor) { return may_lack(tensor, false); }
bool may_lack_elements(const Tensor& tensor) { return may_lack(tensor, true); }

bool is_replayed(const Call& call) { return call.attrs().find("replayed") != nullptr; }
bool is_while(const Op& op) { return &op == &while_op(true) || &op == &while_op(false); }
bool is_if(const Op& op) { return &op == &if_op(true) || &op == &if_op(false); }
bool is_flow(const Op& op) { return is_while(op) || is_if(op) || &op == &case_op(true) || &op == &case_op(false); }

Attrs with_functions(const Attrs& attrs, std::vector<GraphFunction> functions) {
  std::vector<Attr> list(attrs.begin(), attrs.end());
  const auto old = std::find_if(list.begin(), list.end(), [](const Attr& each) { return each.name == "functions"; });
  if (old != list.end()) old->value = functions_ref(std::move(functions));
  return Attrs(list);
}

WhileParts::WhileParts(const Call& call)
    : carried(static_cast<std::size_t>(call.attr<std::int64_t>("carried"))),
      sequences(static_cast<std::size_t>(call.attr<std::int64_t>("sequences"))),
      body(functions_of(call)[0]),
      condition(functions_of(call).size() > 1 && !is_replayed(call) ? &functions_of(call)[1] : nullptr),
      reverse(call.attrs().find("reverse") && call.attr<bool>("reverse")),
      maximum(call.attrs().find("maximum_iterations") ? call.attr<std::int64_t>("maximum_iterations") : -1) {
  if (const Ints* list = call.attrs().find<Ints>("varying")) varying = *list;
  if (const Ints* list = call.attrs().find<Ints>("ragged_stacks")) ragged_stacks = *list;
  if (const Ints* list = call.attrs().find<Ints>("ragged_sequences")) ragged_sequences = *list;
}

namespace {

bool has(const Ints& numbers, std::size_t number) {
  return std::find(numbers.begin(), numbers.end(), static_cast<std::int64_t>(number)) != numbers.end();
}

}  // namespace

bool WhileParts::may_vary(std::size_t carried_value) const { return has(varying, carried_value); }
bool WhileParts::is_ragged_stack(std::size_t stack) const { return has(ragged_stacks, stack); }
bool WhileParts::is_ragged_sequence(std::size_t sequence) const { return has(ragged_sequences, sequence); }

std::int64_t WhileParts::size_of_element(std::size_t input, const Tensor& element, int axis) const {
  const Tensor& expected = body.inputs[input];
  return expected.shape().rank() == element.rank() ? expected.shape().sizes()[axis] : -1;
}

Tensors WhileParts::varying_inputs() const {
  Tensors inputs;
  for (std::size_t i = 0; i < carried + sequences; ++i)
    if (bool(body.inputs[i]) && (i < carried ? may_vary(i) : is_ragged_sequence(i - carried)))
      inputs.push_back(body.inputs[i]);
  return inputs;
}

Specs WhileParts::body_specs(const Tensors& inputs) const {
  Specs specs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Spec spec = inputs[i].spec();
    if (i < carried && may_vary(i)) spec.shape = body.inputs[i].shape();
    if (i >= carried && i < carried + sequences) spec.shape = element_shape(spec.shape);
    if (i >= carried && is_ragged_sequence(i - carried) && bool(body.inputs[i])) spec.shape = body.inputs[i].shape();
    specs.push_back(spec);
  }
  return specs;
}

Attrs attrs_like(const Call& call, const Tensors& inputs) {
  std::vector<GraphFunction> functions = functions_of(call);
  const std::optional<WhileParts> parts = is_while(call.op()) ? std::optional<WhileParts>(call) : std::nullopt;
  const Specs given = parts ? parts->body_specs(inputs) : specs_of_operands(inputs);
  Specs of_condition;  // which does not take the sequences
  for (std::size_t i = 0; parts && i < given.size(); ++i)
    if (i < parts->carried || i >= parts->carried + parts->sequences) of_condition.push_back(given[i]);
  for (GraphFunction& each : functions) {
    try {
      each = function_like(each, parts && &each != functions.data() ? of_condition : given);
    } catch (const Error& error) {
      if (!is_misfit(error)) throw;  // a function that cannot run with these inputs stays as it is
    }
  }
  return with_functions(call.attrs(), std::move(functions));
}

void require_loop_variable(const std::string& name, const Spec& given, const Spec& next, bool is_scan) {
  const bool is_alike = next.dtype == given.dtype || next.dtype == DType::unknown || given.dtype == DType::unknown;
  if (is_alike && agree(given.shape, next.shape)) return;
  const auto describe = [](const Spec& spec) {
    return join("shape ", spec.shape, " and type ", to_string(spec.dtype));
  };
  throw InvalidArgumentError(
      join("Input tensor '", name, "' enters the loop with ", describe(given), ", but has ", describe(next),
           " after one iteration.",
           is_alike && !is_scan
               ? " To allow the shape to vary across iterations, use the `shape_invariants` argument to specify a "
                 "less-specific shape."
               : ""));
}

void add_outputs(Node& node, const std::vector<Tensors>& more, const Ints& ragged_stacks) {
  std::vector<GraphFunction> functions = functions_of(node);
  for (std::size_t i = 0; i < more.size(); ++i) functions[i].outputs.append(more[i].begin(), more[i].end());
  std::vector<Attr> list;
  for (const Attr& each : with_functions(node.attrs(), std::move(functions)))
    if (each.name != "ragged_stacks") list.push_back(each);
  if (!ragged_stacks.empty()) list.emplace_back("ragged_stacks", ragged_stacks);
  const Attrs attrs(list);
  Call call(node.op(), node.inputs(), attrs, node.where(), node.name());
  const Specs all = node.op().infer(call);
  node.graph->extend(node, attrs, Specs(all.begin() + node.outputs().size(), all.end()));
}

namespace {

/// Looks for ops whose outputs have sizes that depend on values, on the way to a tensor.
class ValueDependence {
 public:
  explicit ValueDependence(const Tensors& known) {
    for (const Tensor& each : known) known_.insert(each.id());
  }

  bool of(const Tensor& tensor) {
    if (tensor.shape().is_known()) return false;
    if (known_.contains(tensor.id())) return true;
    const auto [node, number] = endpoint_of(tensor);
    if (!node || !seen_.insert(tensor.id()).second) return false;
    const auto output = static_cast<std::size_t>(number);
    if (is_while(node->op())) return of_loop(*node, output);
    if (is_flow(node->op())) {
      const std::vector<GraphFunction>& branches = functions_of(*node);
      if (std::any_of(branches.begin(), branches.end(), [&](const GraphFunction& each) {
            return bool(each.outputs[output]) && of(each.outputs[output]);
          }))
        return true;
    } else if (allocates_results(*node)) {
      return true;
    }
    return std::any_of(node->inputs().begin(), node->inputs().end(), [&](const Tensor& input) { return of(input); });
  }

 private:
  bool of_loop(const Node& node, std::size_t output) {
    const WhileParts parts(node);
    if (output < parts.carried) return parts.may_vary(output) || of(node.input(output));
    if (parts.condition || (bool(parts.body.outputs[output]) && of(parts.body.outputs[output]))) return true;
    return std::any_of(node.inputs().begin() + parts.carried, node.inputs().end(),
                       [&](const Tensor& input) { return of(input); });
  }

  std::set<std::int64_t> known_, seen_;  ///< tensors, by id
};

}  // namespace

bool depends_on_values(const Tensor& tensor, const Tensors& known) { return ValueDependence(known).of(tensor); }

}  // namespace tapestry::detail
