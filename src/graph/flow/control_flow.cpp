#include "tapestry/control_flow.hpp"

#include <algorithm>
#include <exception>

#include "core/element_shape.hpp"
#include "dispatch/recorder.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/flow/function_tracer.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::detail {
namespace {

bool any_symbolic(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& each) { return each.is_symbolic(); });
}

/// What a loop is given, or one branch or iteration gives, as new tensors, as in a graph: a tape that watches one of
/// them does not watch a tensor around the function, and the gradients that arrive at it are summed before they are
/// added to those of such a tensor. Symbolic ones are inputs and outputs of a node, but for the tapes that record now.
Tensors separate(Tensors results, Where where) {
  for (Tensor& each : results)
    if (is_floating(each.dtype()) && !(each.is_symbolic() && recorders().empty())) each = identity(In(each, where));
  return results;
}

Specs specs_of(const Tensors& tensors) {
  Specs specs;
  for (const Tensor& each : tensors) specs.push_back(each.spec());
  return specs;
}

/// Of what the body of a loop over sequences is given.
Specs specs_of(const Tensors& carried, const Tensors& sequences) {
  Specs specs = specs_of(carried);
  for (const Tensor& each : sequences) {
    Spec element = each.spec();
    element.shape = element_shape(element.shape);
    specs.push_back(element);
  }
  return specs;
}

void require_scalar(std::string_view what, const Tensor& tensor, Where where) {
  if (!tensor) throw InvalidArgumentError(join(what, " is an empty Tensor"), where);
  if (tensor.shape().rank() > 0)
    throw InvalidArgumentError(join(what, " must be a scalar, not ", to_string(tensor.dtype()), tensor.shape()), where);
}

void require_predicate(std::string_view what, const Tensor& tensor, Where where) {
  require_scalar(what, tensor, where);
  if (tensor.dtype() != boolean && tensor.dtype() != DType::unknown)
    throw InvalidArgumentError(join(what, " must be bool, not ", to_string(tensor.dtype())), where);
}

/// Throws unless an iteration gives values like those that it was given. `options`: of a `while_loop`; nullptr for a
/// scan.
void require_alike(const Tensors& given, const Tensors& next, const WhileOptions* options) {
  require_count(given.size(), next.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!next[i])
      throw InvalidArgumentError(join("The body of the loop returned an empty Tensor for loop variable ", i));
    const Spec allowed{given[i].dtype(),
                       options && !options->shape_invariants.empty() ? options->shape_invariants[i] : given[i].shape()};
    require_loop_variable(join("variable ", i), allowed, next[i].spec(), !options);
  }
}

void check_options(const Tensors& variables, const WhileOptions& options) {
  if (options.maximum_iterations && *options.maximum_iterations < 0)
    throw InvalidArgumentError(join("maximum_iterations must not be negative: ", *options.maximum_iterations));
  const std::vector<Shape>& shapes = options.shape_invariants;
  if (shapes.empty()) return;
  if (shapes.size() != variables.size())
    throw InvalidArgumentError(
        join("There are ", variables.size(), " loop variables and ", shapes.size(), " shape_invariants"));
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (!agree(variables[i].shape(), shapes[i]))
      throw InvalidArgumentError(
          join("The shape invariant specified for variable ", i,
               " is not compatible with the initial shape of the loop variable. It enters the loop with shape ",
               variables[i].shape(), ", but the specified shape invariant is ", shapes[i], "."));
}

/// Whether one of these functions draws random numbers or changes Variables. What cannot be traced is held for one that
/// does not.
bool have_effects(const std::vector<TracedFunction>& functions, Where where) {
  try {
    FunctionTracer tracer({}, where);
    tracer.trace(functions);
    return tracer.is_stateful();
  } catch (const std::exception&) {
    return false;
  }
}

/// Whether these functions, of a branch or loop whose choices are known, have effects in the function that a vmap
/// traces. Executed there they would draw for all examples at once, op by op; where a trace does not know the choices,
/// they draw for one example after the other. So that the numbers are the same, what draws becomes a node in any case.
bool draw_for_examples(const std::vector<TracedFunction>& functions, Where where) {
  return open_sink() && bool(scopes().graph) && scopes().graph->of_examples && have_effects(functions, where);
}

/// The loop variables as the invariants say that they are: where a graph does not know a size that an invariant fixes,
/// a run checks it.
Tensors ensured(const Tensors& variables, const std::vector<Shape>& invariants, Where where) {
  Tensors checked = variables;
  for (std::size_t i = 0; i < invariants.size(); ++i)
    if (!can_be(invariants[i], variables[i].shape())) checked[i] = ensure_shape(In(variables[i], where), invariants[i]);
  return checked;
}

Tensors symbolic_while(const Predicate& condition, const FlatFunction& body, const Tensors& given,
                       const WhileOptions& options, std::int64_t maximum, Where where) {
  const Tensors variables = ensured(given, options.shape_invariants, where);
  Specs specs = specs_of(variables);
  Ints varying;
  for (std::size_t i = 0; i < options.shape_invariants.size(); ++i) {
    const Shape& shape = options.shape_invariants[i];
    if (shape.is_known()) continue;
    specs[i].shape = shape;
    varying.push_back(static_cast<std::int64_t>(i));
  }
  FunctionTracer tracer(variables, where);
  const FlatFunction flat_condition = [&](const Tensors& values) -> Tensors {
    const Tensor result = condition(values);
    require_predicate("The condition of the loop", result, where);
    const bool is_from_cpp = result.impl().weak;
    if (maximum < 0 && is_from_cpp && result.item<bool>())
      throw InvalidArgumentError(
          "The condition of the loop is a C++ bool, which is true when the graph is made, whatever the loop variables "
          "will be, so that the loop would never end. Compute it from the loop variables by ops, or give "
          "maximum_iterations");
    return {result.cast(boolean, where)};
  };
  const FlatFunction flat_body = [&](const Tensors& values) -> Tensors {
    Tensors next = body(values);
    require_alike(values, next, &options);
    return next;
  };
  std::vector<GraphFunction> functions =
      tracer.trace({{"body", flat_body, specs, "variable"}, {"cond", flat_condition, specs, "variable"}});
  const bool is_stateful = tracer.is_stateful();
  std::vector<Attr> attrs = tracer.attrs(std::move(functions));
  attrs.emplace_back("carried", static_cast<std::int64_t>(variables.size()));
  attrs.emplace_back("sequences", std::int64_t{0});
  attrs.emplace_back("maximum_iterations", maximum);
  if (!varying.empty()) attrs.emplace_back("varying", varying);
  if (options.recompute) attrs.emplace_back("recompute", true);
  Tensors inputs = variables;
  const Tensors operands = tracer.operands();
  inputs.append(operands.begin(), operands.end());
  return tracer.add(while_op(is_stateful), inputs, attrs, options.name);
}

/// The index of one of some branches as int32. One that is out of range, also of int32, stays so.
Tensor branch_index(const Tensor& index, std::size_t branches, Where where) {
  if (index.dtype() == int32 || index.dtype() == uint8) return index.cast(int32, where);
  const Tensor last = maximum(In(index.cast(int64, where), where), -1);
  return minimum(In(last, where), static_cast<std::int64_t>(branches)).cast(int32, where);
}

/// What the body makes of no elements: outputs of length 0.
Tensors empty_outputs(const FlatFunction& body, const Tensors& carried, const Tensors& sequences) {
  const PauseRecording pause;
  const Graph::Scope open{Graph()};
  Tensors inputs;
  for (const Tensor& each : carried) inputs.push_back(placeholder(each.dtype(), each.shape()));
  for (const Tensor& each : sequences) inputs.push_back(placeholder(each.dtype(), element_shape(each.shape())));
  const Tensors results = body(inputs);
  require_alike(carried, {results.begin(), results.begin() + carried.size()}, nullptr);
  Specs specs;
  for (std::size_t i = carried.size(); i < results.size(); ++i) specs.push_back(results[i].spec());
  const ExecuteNow now;
  Tensors outputs;
  for (const Spec& spec : specs) {
    Shape shape{0};
    for (const std::int64_t size : spec.shape.sizes()) shape.push_back(size);
    outputs.push_back(zeros(shape, {.dtype = spec.dtype}));
  }
  return outputs;
}

void check_sequences(const Tensors& sequences) {
  if (sequences.empty()) throw InvalidArgumentError("There is no sequence to go through");
  for (const Tensor& each : sequences) {
    each.impl();
    if (each.shape().has_rank() && each.shape().rank() == 0)
      throw InvalidArgumentError(join("A sequence needs an axis 0, but its shape is ", each.shape()));
    const Shape& first = sequences[0].shape();
    if (first.has_rank() && each.shape().has_rank() && !agree({first[0]}, {each.shape()[0]}))
      throw InvalidArgumentError(
          join("The sequences must have the same length along axis 0: ", first, " and ", each.shape()));
  }
}

}  // namespace

void require_count(std::size_t taken, std::size_t given) {
  if (taken != given)
    throw InvalidArgumentError(join("The body of the loop takes ", taken, " loop variables and returns ", given));
}

Tensors scan_symbolically(const FlatFunction& body, const Tensors& carried, const Tensors& sequences,
                          const ScanForm& form, Where where) {
  Specs specs = specs_of(carried, sequences);
  for (std::size_t i = 0; i < form.varying.size(); ++i) specs[form.varying[i]].shape = form.shapes[i];
  Tensors all = carried;
  all.append(sequences.begin(), sequences.end());
  FunctionTracer tracer(all, where);
  std::vector<GraphFunction> functions = tracer.trace({{"body", body, specs, "element"}});
  const bool is_stateful = tracer.is_stateful();
  std::vector<Attr> attrs = tracer.attrs(std::move(functions));
  attrs.emplace_back("carried", static_cast<std::int64_t>(carried.size()));
  attrs.emplace_back("sequences", static_cast<std::int64_t>(sequences.size()));
  if (form.reverse) attrs.emplace_back("reverse", true);
  if (!form.varying.empty()) attrs.emplace_back("varying", form.varying);
  const Tensors operands = tracer.operands();
  all.append(operands.begin(), operands.end());
  return tracer.add(while_op(is_stateful), all, attrs, form.name);
}

Tensors flat_case(const Value& value, const std::vector<FlatFunction>& branches, bool is_condition,
                  std::string_view name, Where where) {
  return detail::locating(is_condition ? "cond" : "switch_case", where, [&]() -> Tensors {
    if (branches.empty()) throw InvalidArgumentError("There is no branch");
    Tensor selector = value.is_empty_tensor() ? Tensor() : value.tensor({}, where);
    if (is_condition) require_predicate("The predicate", selector, where);
    if (!is_condition) require_scalar("The index", selector, where);
    if (!is_condition && !is_integer(selector.dtype()) && selector.dtype() != DType::unknown)
      throw InvalidArgumentError(join("The index must be a whole number, not ", to_string(selector.dtype())));
    std::vector<TracedFunction> list;
    for (std::size_t i = 0; i < branches.size(); ++i)
      list.push_back({is_condition ? (i == 0 ? "then" : "else") : join("branch_", i), branches[i], {}, {}});
    if (!selector.is_symbolic() && !draw_for_examples(list, where)) {
      const auto last = static_cast<std::int64_t>(branches.size()) - 1;
      const std::int64_t index = is_condition ? !selector.item<bool>() : selector.item<std::int64_t>();
      return separate(branches[index < 0 || index > last ? last : index]({}), where);
    }
    selector = is_condition ? selector.cast(boolean, where) : branch_index(selector, branches.size(), where);
    FunctionTracer tracer({selector}, where);
    std::vector<GraphFunction> functions = tracer.trace(list);
    for (const GraphFunction& each : functions)
      if (each.outputs.size() != functions[0].outputs.size())
        throw InvalidArgumentError(join("The branches must return alike: '", functions[0].name, "' returns ",
                                        functions[0].outputs.size(), " tensors, '", each.name, "' ",
                                        each.outputs.size()));
    const bool is_stateful = tracer.is_stateful();
    const Op& op = is_condition ? if_op(is_stateful) : case_op(is_stateful);
    Tensors inputs{selector};
    const Tensors operands = tracer.operands();
    inputs.append(operands.begin(), operands.end());
    return tracer.add(op, inputs, tracer.attrs(std::move(functions)), name);
  });
}

Tensors flat_while(const Predicate& condition, const FlatFunction& body, const Tensors& variables,
                   const WhileOptions& options, Where where) {
  return detail::locating("while_loop", where, [&]() -> Tensors {
    for (const Tensor& each : variables) each.impl();
    check_options(variables, options);
    const std::int64_t maximum = options.maximum_iterations.value_or(-1);
    Tensors current = separate(variables, where);
    const FlatFunction flat_condition = [&](const Tensors& values) -> Tensors { return {condition(values)}; };
    const Specs specs = specs_of(current);
    const std::vector<TracedFunction> of_condition{{"cond", flat_condition, specs, "variable"}};
    const std::vector<TracedFunction> of_body{{"body", body, specs, "variable"}};
    // A trace would ask a condition that draws once for the first iteration, which is not known, and again in the loop.
    if (!any_symbolic(current) && open_sink() &&
        (have_effects(of_condition, where) || draw_for_examples(of_body, where)))
      return symbolic_while(condition, body, current, options, maximum, where);
    for (std::int64_t i = 0;; ++i) {
      const auto rest = [&] { return maximum < 0 ? maximum : maximum - i; };
      if (any_symbolic(current)) return symbolic_while(condition, body, current, options, rest(), where);
      if (i == maximum) return current;
      const Tensor result = condition(current);
      require_predicate("The condition of the loop", result, where);
      if (result.is_symbolic()) return symbolic_while(condition, body, current, options, rest(), where);
      if (!result.item<bool>()) return current;
      const Tensors next = body(current);
      require_alike(current, next, &options);
      current = separate(next, where);
    }
  });
}

Tensors flat_scan(const FlatFunction& body, const Tensors& carried, const Tensors& sequences,
                  const SequenceOptions& options, Where where) {
  return detail::locating(carried.empty() ? "map" : "scan", where, [&]() -> Tensors {
    check_sequences(sequences);
    const std::vector<TracedFunction> functions{{"body", body, specs_of(carried, sequences), "element"}};
    if (any_symbolic(carried) || any_symbolic(sequences) || draw_for_examples(functions, where)) {
      const FlatFunction checked = [&](const Tensors& values) -> Tensors {
        Tensors results = body(values);
        require_alike({values.begin(), values.begin() + carried.size()},
                      {results.begin(), results.begin() + carried.size()}, nullptr);
        return results;
      };
      return scan_symbolically(checked, carried, sequences, {.reverse = options.reverse, .name = options.name}, where);
    }
    const std::int64_t length = sequences[0].shape()[0];
    Tensors current = separate(carried, where);
    if (length == 0) {
      const Tensors outputs = empty_outputs(body, carried, sequences);
      current.append(outputs.begin(), outputs.end());
      return current;
    }
    std::vector<std::vector<Tensor>> elements, outputs;
    for (const Tensor& each : sequences) elements.push_back(unstack(In(each, where)));
    for (std::int64_t step = 0; step < length; ++step) {
      const auto i = static_cast<std::size_t>(options.reverse ? length - 1 - step : step);
      Tensors inputs = current;
      for (const std::vector<Tensor>& each : elements) inputs.push_back(each[i]);
      const Tensors results = body(inputs);
      Tensors next(results.begin(), results.begin() + carried.size());
      require_alike(current, next, nullptr);
      current = separate(next, where);
      const std::size_t given = results.size() - carried.size();
      if (step == 0) outputs.assign(given, std::vector<Tensor>(static_cast<std::size_t>(length)));
      if (given != outputs.size())
        throw InvalidArgumentError(
            join("The body returns ", given, " outputs for element ", i, ", and ", outputs.size(), " before"));
      for (std::size_t k = 0; k < outputs.size(); ++k) outputs[k][i] = results[carried.size() + k];
    }
    for (const std::vector<Tensor>& each : outputs) current.push_back(stack(InList(each, where)));
    return current;
  });
}

}  // namespace tapestry::detail
