#include "graph/vmap.hpp"

#include <algorithm>
#include <unordered_set>

#include "core/element_shape.hpp"
#include "dispatch/composition.hpp"
#include "graph/call_graph.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/flow/function_tracer.hpp"
#include "graph/state_ops.hpp"
#include "ops/batching.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/transformations.hpp"

namespace tapestry::detail {
namespace {

/// Whether each example has random numbers of its own, or all share those that one draws.
enum class Draws : std::uint8_t { own, shared };

Tensors map_examples(const FlatFunction& function, const Tensors& inputs, const std::vector<bool>& has_batch,
                     const Dimension& count, Where where, Draws draws = Draws::own);

/// `map_examples` for as many examples as the inputs have.
Tensors map_batch(const FlatFunction& function, const Tensors& inputs, const std::vector<bool>& has_batch,
                  Where where) {
  const auto first = std::find(has_batch.begin(), has_batch.end(), true) - has_batch.begin();
  return map_examples(function, inputs, has_batch, inputs[first].shape()[0], where);
}

/// Calls a function with the inputs of each example, and stacks its outputs.
Tensors for_each_example(const Tensors& inputs, const std::vector<bool>& has_batch, const Dimension& count,
                         const FlatFunction& function, Where where) {
  Tensors sequences;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (has_batch[i]) sequences.push_back(inputs[i]);
  // Examples that share all inputs still differ in the numbers that they draw.
  if (sequences.empty()) sequences.push_back(zeros({count}, {.dtype = int64}));
  const auto of_elements = [&](const Tensors& elements) {
    Tensors given = inputs;
    for (std::size_t i = 0, next = 0; i < inputs.size(); ++i)
      if (has_batch[i]) given[i] = elements[next++];
    return function(given);
  };
  return flat_scan(of_elements, {}, sequences, {}, where);
}

/// Applies the nodes of a function, which was traced for one example, to all examples of a batch.
class Batcher {
 public:
  Batcher(const Dimension& count, Where where, Draws draws) : count_(count), where_(where), draws_(draws) {}

  /// Notes that the value of a tensor of the function has an axis of the batch in front.
  void note(const Tensor& inside) { with_batch_.insert(inside.id()); }
  bool has_batch(const Tensor& inside) const { return with_batch_.contains(inside.id()); }

  Tensors apply(const Node& node, const Tensors& inputs, const std::function<Tensors(const Tensors&)>& once) {
    std::vector<bool> has_batch;
    for (const Tensor& each : node.inputs()) has_batch.push_back(this->has_batch(each));
    const bool any = std::find(has_batch.begin(), has_batch.end(), true) != has_batch.end();
    if (!any && (draws_ == Draws::shared || !draws(node))) return once(inputs);
    if (!node.op().stateful && reads_shapes_only(node, has_batch)) return once(of_one(inputs, has_batch));
    Tensors outputs = outputs_of(node, inputs, has_batch, once);
    for (std::size_t i = 0; i < outputs.size(); ++i) note(node.output(i));
    return outputs;
  }

 private:
  /// Whether each example must have results of its own although it has no inputs of its own.
  static bool draws(const Node& node) {
    if (is_flow(node.op())) return node.attrs().find("draws") != nullptr;
    return node.op().stateful && !node.attrs().find("variables") && !node.attrs().find("communicator");
  }

  static bool reads_shapes_only(const Node& node, const std::vector<bool>& has_batch) {
    // A gradient of the user's own reads them.
    if (node.attrs().find("function")) return false;
    for (std::size_t i = 0; i < has_batch.size(); ++i)
      if (has_batch[i] && (node.op().shape_inputs >> std::min<std::size_t>(i, 31) & 1) == 0) return false;
    return node.op().outputs != 0;
  }

  /// The inputs, with tensors that have the shape of one example instead of those that have a batch.
  Tensors of_one(const Tensors& inputs, const std::vector<bool>& has_batch) const {
    Tensors list = inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (has_batch[i]) list[i] = zeros_of_one(inputs[i], where_);
    return list;
  }

  Tensors outputs_of(const Node& node, const Tensors& inputs, const std::vector<bool>& has_batch,
                     const std::function<Tensors(const Tensors&)>& once) const {
    const auto has_rank = [](const Tensor& each) { return each.shape().has_rank(); };
    if (std::all_of(node.inputs().begin(), node.inputs().end(), has_rank) && !node.attrs().find("redo")) {
      const BatchedCall call(node, inputs, has_batch, count_, map_batch);
      Tensors outputs = at_once(call);
      if (!outputs.empty() && node.op().batch) require_batch(node, outputs);
      if (!outputs.empty()) return outputs;
    }
    // Of a branch that is not taken, an example has zeros instead of nothing.
    const auto complete = [&](const Tensors& example) {
      Tensors outputs = once(example);
      for (std::size_t i = 0; i < outputs.size(); ++i)
        if (const Spec& spec = node.output(i).spec(); !outputs[i] && spec.shape.is_known())
          outputs[i] = zeros(spec.shape, {.dtype = spec.dtype}, {}, where_);
      return outputs;
    };
    return for_each_example(inputs, has_batch, count_, complete, where_);
  }

  /// Throws unless these are the outputs of the node with the axis of the batch in front: an op may be the user's.
  static void require_batch(const Node& node, const Tensors& outputs) {
    if (outputs.size() != node.outputs().size())
      throw InvalidArgumentError(
          join("batch returns ", outputs.size(), " tensors, where the op has ", node.outputs().size(), " outputs"));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i]) throw InvalidArgumentError(join("batch returns an empty Tensor as output ", i));
      const Spec told = node.output(i).spec();
      const bool has_type =
          outputs[i].dtype() == told.dtype || told.dtype == DType::unknown || outputs[i].dtype() == DType::unknown;
      const bool has_rank = !outputs[i].shape().has_rank() || !told.shape.has_rank() ||
                            outputs[i].shape().rank() == told.shape.rank() + 1;
      if (!has_type || !has_rank)
        throw InvalidArgumentError(join("batch returns ", to_string(outputs[i].dtype()), outputs[i].shape(),
                                        " as output ", i, ", which is ", to_string(told.dtype), told.shape,
                                        " for one example"));
    }
  }

  /// No tensors if there is no rule for all examples at once.
  static Tensors at_once(const BatchedCall& call) {
    const Op& op = call.one().op();
    if (op.batch) return op.batch(call);
    if (op.forward.is_elementwise()) return elementwise(call);
    if (!op.composition) return {};
    const Composing inside(call.one());
    const auto composed = [&](const Tensors& example) { return compose(op.composition, call.one(), example); };
    return map_batch(composed, call.all(), std::vector<bool>(call.size(), true), call.one().where());
  }

  /// An input of the highest rank gets the axis of the batch: an op that does not broadcast needs it in all inputs.
  static Tensors elementwise(const BatchedCall& call) {
    int rank = 0;
    for (std::size_t i = 0; i < call.size(); ++i) rank = std::max(rank, call.rank(i));
    Tensors inputs;
    for (std::size_t i = 0; i < call.size(); ++i)
      inputs.push_back(call.rank(i) == rank ? call.all(i) : call.aligned(i, rank));
    return call.apply(inputs, call.one().attrs());
  }

  const Dimension& count_;
  Where where_;
  Draws draws_;
  std::unordered_set<std::int64_t> with_batch_;
};

/// Whether a tensor may have another shape for each example, as what a loop keeps of its iterations.
bool may_be_ragged(const GraphFunction& function, const std::vector<bool>& has_batch) {
  std::unordered_set<std::int64_t> with_batch;
  for (std::size_t i = 0; i < has_batch.size(); ++i)
    if (has_batch[i] && bool(function.inputs[i])) with_batch.insert(function.inputs[i].id());
  for (const Node* node : nodes_of(function).running) {
    const Tensors& inputs = node->inputs();
    if (std::none_of(inputs.begin(), inputs.end(), [&](const Tensor& each) { return with_batch.contains(each.id()); }))
      continue;
    for (const Tensor& each : node->outputs()) {
      if (allocates_results(*node) && depends_on_values(each)) return true;
      with_batch.insert(each.id());
    }
  }
  return false;
}

/// The outputs of a function for all examples, with the axis of the batch in front; an empty Tensor where the function
/// gives none. The inputs that have a batch have its axis in front.
Tensors map_examples(const FlatFunction& function, const Tensors& inputs, const std::vector<bool>& has_batch,
                     const Dimension& count, Where where, Draws draws) {
  Specs specs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Spec spec = inputs[i].spec();
    if (has_batch[i]) spec.shape = element_shape(spec.shape);
    specs.push_back(spec);
  }
  FunctionTracer tracer(inputs, where);
  const GraphFunction traced = tracer.trace({{"example", function, specs, "example", true, true}})[0];
  if (!tracer.changed().empty())
    throw UnimplementedError(join("The function changes the Variable '", tracer.changed()[0].name(), "', which ",
                                  draws == Draws::own ? "all examples share" : "jacrev takes, but not jacfwd"));
  Tensors values = inputs, feeds, given, fetches;
  const Tensors operands = tracer.operands();
  values.append(operands.begin(), operands.end());
  Batcher batcher(count, where, draws);
  std::vector<bool> given_batch;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!traced.inputs[i]) continue;
    feeds.push_back(traced.inputs[i]);
    given.push_back(values[i]);
    given_batch.push_back(i < inputs.size() && has_batch[i]);
    if (given_batch.back()) batcher.note(traced.inputs[i]);
  }
  for (const Tensor& each : traced.outputs)
    if (each) fetches.push_back(each);
  const auto each_op = [&](const Node& node, const Tensors& of_node, const auto& once) {
    return batcher.apply(node, of_node, once);
  };
  const auto example = [&](const Tensors& of_example) {
    return call_graph(*traced.graph, feeds, of_example, fetches, where, traced.operations);
  };
  const bool one_by_one = may_be_ragged(traced, has_batch);
  const Tensors found = one_by_one
                            ? for_each_example(given, given_batch, count, example, where)
                            : call_graph(*traced.graph, feeds, given, fetches, where, traced.operations, each_op);
  Tensors outputs;
  for (std::size_t i = 0, next = 0; i < traced.outputs.size(); ++i) {
    Tensor value = traced.outputs[i] ? found[next++] : Tensor();
    if (bool(value) && !one_by_one && !batcher.has_batch(traced.outputs[i])) {
      Shape shape = value.shape();
      shape.insert(0, count);
      value = broadcast_to(In(value, where), shape);
    }
    outputs.push_back(value);
  }
  return outputs;
}

}  // namespace

Tensor GraphState::map(const Tensor& elements, const std::function<Tensor(const Tensor&)>& f, Where where) {
  const FlatFunction function = [&](const Tensors& element) -> Tensors { return {f(element[0])}; };
  return map_examples(function, {elements}, {true}, elements.shape()[0], where)[0];
}

Tensor map_directions(const FlatFunction& function, const Tensor& directions, Where where) {
  return map_examples(function, {directions}, {true}, directions.shape()[0], where, Draws::shared)[0];
}

std::vector<std::optional<int>> axes_of_tensors(const VmapOptions& options, std::initializer_list<std::size_t> tensors,
                                                Where where) {
  if (!options.in_axes.empty() && options.in_axes.size() != tensors.size())
    throw InvalidArgumentError(
        join("There are ", options.in_axes.size(), " in_axes for ", tensors.size(), " arguments"), "vmap", where);
  std::vector<std::optional<int>> axes;
  std::size_t argument = 0;
  for (const std::size_t count : tensors) {
    axes.insert(axes.end(), count, options.in_axes.empty() ? std::optional(0) : options.in_axes[argument]);
    ++argument;
  }
  return axes;
}

Tensors flat_vmap(const FlatFunction& function, const Tensors& inputs, const std::vector<std::optional<int>>& axes,
                  int out_axis, Where where) {
  return locating("vmap", where, [&]() -> Tensors {
    Tensors examples = inputs;
    std::vector<bool> has_batch;
    std::optional<Dimension> count;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i].impl();
      has_batch.push_back(axes[i].has_value());
      if (!axes[i]) continue;
      const Shape& shape = inputs[i].shape();
      if (!shape.has_rank())
        throw InvalidArgumentError(join("Input ", i, " has an unknown number of axes; give the placeholder a shape"));
      if (*axes[i] < -shape.rank() || *axes[i] >= shape.rank())
        throw InvalidArgumentError(join("Input ", i, " has the shape ", shape, ", which has no axis ", *axes[i],
                                        " of examples; in_axes says tp::none for what all examples share"));
      examples[i] = with_axes_moved(inputs[i], *axes[i] < 0 ? *axes[i] + shape.rank() : *axes[i], 1, 0, where);
      const Dimension size = examples[i].shape()[0];
      if (count && count->is_known() && size.is_known() && std::int64_t{*count} != std::int64_t{size})
        throw InvalidArgumentError(
            join("The inputs have different numbers of examples: ", *count, " and, in input ", i, ", ", size));
      if (!count || size.is_known()) count = size;
    }
    if (!count) throw InvalidArgumentError("No argument has an axis of examples");
    Tensors outputs = map_examples(function, examples, has_batch, *count, where);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const int rank = outputs[i].rank();
      if (out_axis < -rank || out_axis >= rank)
        throw InvalidArgumentError(
            join("Output ", i, " has the shape ", outputs[i].shape(), ", in which no axis can be number ", out_axis));
      outputs[i] = with_axes_moved(outputs[i], 0, 1, out_axis < 0 ? out_axis + rank : out_axis, where);
    }
    return outputs;
  });
}

}  // namespace tapestry::detail
