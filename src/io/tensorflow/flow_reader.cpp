#include "io/tensorflow/flow_reader.hpp"

#include <algorithm>

#include "core/element_shape.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/flow/function_tracer.hpp"
#include "io/tensorflow/foreign_ops.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/nodes.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::io {
namespace {

using detail::FlatFunction;
using detail::FunctionTracer;

class FlowReader {
 public:
  FlowReader(const NodeReader& reader, const std::vector<Argument>& inputs, const ReadBody& read_body,
             UnevenLists& uneven, Where where)
      : reader_(reader),
        flow_(*reader.def().flow),
        inputs_(inputs),
        read_body_(read_body),
        uneven_(uneven),
        where_(where) {}

  Tensors read() { return flow_.is_loop ? read_loop() : read_branches(); }

 private:
  const FunctionBody& function(std::size_t i) const { return flow_.functions[i]; }

  const Tensor& tensor(std::size_t i) const {
    const Tensor& given = inputs_[i].tensor;
    if (!given) reader_.refuse(detail::join("its input ", i, " is no tensor"));
    if (given.dtype() == DType::unknown)
      throw UnimplementedError(detail::join("Node '", reader_.def().name, "' (op: '", reader_.def().op,
                                            "'): its input ", i, ", '", given.name(),
                                            "', has no dtype that Tapestry knows"));
    return given;
  }

  // ---- Branches ----

  Tensors read_branches() {
    const bool is_if = reader_.def().op.ends_with("If");
    Tensor selector = tensor(0);
    if (selector.shape().rank() > 0 && selector.shape().num_elements() == 1 && is_other_op(reader_.def().op))
      selector = reshape(In(selector, where_), {});  // to ONNX, a tensor of one element is a scalar
    if (selector.shape().rank() > 0)
      reader_.refuse(detail::join("its selector must be a scalar, but has the shape ", selector.shape()));
    const DType due = is_if ? boolean : int32;
    if (selector.dtype() != due) selector = cast(In(selector, where_), due);
    Tensors inputs{selector};
    std::vector<std::size_t> numbers;  // of the inputs that are tensors
    Specs specs;
    for (std::size_t i = 1; i < inputs_.size(); ++i) {
      if (inputs_[i].variable) continue;
      inputs.push_back(tensor(i));
      specs.push_back(inputs.back().spec());
      numbers.push_back(i);
    }
    std::vector<FlatFunction> branches;
    for (std::size_t b = 0; b < flow_.functions.size(); ++b)
      branches.emplace_back([&, b](const Tensors& values) {
        std::map<std::string, Argument> given;
        for (std::size_t i = 1; i < inputs_.size(); ++i) given.emplace(function(b).inputs[i - 1], inputs_[i]);
        for (std::size_t k = 0; k < values.size(); ++k) given[function(b).inputs[numbers[k] - 1]] = {values[k], {}};
        return read_body_(function(b), given, function(b).outputs);
      });
    std::vector<detail::TracedFunction> traced;
    for (std::size_t b = 0; b < branches.size(); ++b)
      traced.push_back(
          {is_if ? (b == 0 ? "then" : "else") : detail::join("branch_", b), branches[b], specs, "operand", true});
    FunctionTracer tracer(inputs, where_);
    std::vector<detail::GraphFunction> functions = tracer.trace(traced);
    const bool is_stateful = tracer.is_stateful();
    const Tensors operands = tracer.operands();
    inputs.append(operands.begin(), operands.end());
    return tracer.add(is_if ? detail::if_op(is_stateful) : detail::case_op(is_stateful), inputs,
                      tracer.attrs(std::move(functions)), reader_.def().name);
  }

  // ---- Loops ----

  Tensors read_loop() {
    Tensors inputs;
    for (const std::size_t i : flow_.carried) {
      if (inputs_[i].variable)
        throw UnimplementedError(detail::join("Node '", reader_.def().name, "' (op: '", reader_.def().op,
                                              "'): its loop variable ", i, " is a Variable that changes"));
      inputs.push_back(tensor(i));
    }
    for (const Flow::Sequence& each : flow_.sequences) inputs.push_back(tensor(each.variable));
    std::vector<std::size_t> operands;  // that are tensors
    for (const std::size_t i : flow_.operands)
      if (!inputs_[i].variable) operands.push_back(i);
    for (const std::size_t i : operands) inputs.push_back(tensor(i));
    Specs specs = body_specs(inputs);
    // A loop variable whose shape changes has no size where it does.
    for (;;) {
      std::optional<std::pair<std::size_t, Shape>> change;
      const Tensors results = try_loop(inputs, specs, operands, change);
      if (!change) return in_order_of_file(results);
      const auto& [i, shape] = *change;
      if (shape.has_rank() && is_empty(inputs[i].shape()) &&
          (inputs[i].shape().rank() != shape.rank() || changing_lists()[i] != 0))
        inputs[i] = empty_like(inputs[i], shape);
      specs[i].shape = shape;
    }
  }

  /// Whether a list has no elements, or none that is set, so that it does not tell what they are like.
  static bool is_empty(const Shape& list) {
    return list.rank() > 0 && std::ranges::find(list.sizes(), 0) != list.sizes().end();
  }
  /// A list of zeros with the length of `list` and elements of the sizes that `shape` gives.
  Tensor empty_like(const Tensor& list, const Shape& shape) const {
    Shape sizes = shape;
    for (int axis = 1; axis < sizes.rank(); ++axis) sizes.set(axis, std::max<std::int64_t>(sizes.sizes()[axis], 0));
    sizes.set(0, list.shape()[0]);
    return zeros(sizes, {.dtype = list.dtype()}, {}, where_);
  }

  Specs body_specs(const Tensors& inputs) const {
    Specs specs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Spec spec = inputs[i].spec();
      const bool is_element = i >= flow_.carried.size() && i < flow_.carried.size() + flow_.sequences.size();
      if (is_element && spec.shape.rank() == 0) reader_.refuse("a sequence is a scalar");
      if (is_element) spec.shape = detail::element_shape(spec.shape);
      specs.push_back(spec);
    }
    return specs;
  }

  /// Adds the loop with these specs of the body's inputs, or tells which loop variable cannot keep its shape.
  Tensors try_loop(const Tensors& inputs, const Specs& specs, const std::vector<std::size_t>& operands,
                   std::optional<std::pair<std::size_t, Shape>>& change) {
    const std::size_t carried = flow_.carried.size(), sequences = flow_.sequences.size();
    const std::vector<char> lists = changing_lists();
    std::vector<std::string> results, conditions;
    for (const std::size_t i : flow_.carried) results.push_back(function(0).outputs[i]);
    for (const Flow::Stacked& each : flow_.stacked) results.push_back(each.element);
    const auto arguments = [&](const FunctionBody& body, const Tensors& values, bool has_elements) {
      std::map<std::string, Argument> given;
      for (const std::size_t i : flow_.operands) given.emplace(body.inputs[i], inputs_[i]);
      std::size_t next = 0;
      for (const std::size_t i : flow_.carried) given[body.inputs[i]] = {values[next++], {}};
      for (std::size_t k = 0; has_elements && k < sequences; ++k)
        given[flow_.sequences[k].element] = {values[next++], {}};
      for (const std::size_t i : operands) given[body.inputs[i]] = {values[next++], {}};
      return given;
    };
    const FlatFunction body = [&](const Tensors& values) {
      Tensors next = read_body_(function(0), arguments(function(0), values, true), results);
      for (std::size_t i = 0; i < carried && !change; ++i) {
        if (next[i].dtype() != values[i].dtype() && next[i].dtype() != DType::unknown &&
            values[i].dtype() != DType::unknown)
          detail::require_loop_variable(function(0).inputs[flow_.carried[i]], values[i].spec(), next[i].spec());
        Shape common = common_shape(specs[i].shape, next[i].shape(), lists[i] != 0);
        if (const int axis = appended_axis(values[i], next[i]); axis >= 0) common.set(axis, -1);
        if (common != specs[i].shape) change.emplace(i, common);
      }
      return next;
    };
    const FlatFunction condition = [&](const Tensors& values) -> Tensors {
      const Tensor holds = read_body_(function(1), arguments(function(1), values, false), function(1).outputs)[0];
      return {holds.dtype() == boolean ? holds : cast(In(holds, where_), boolean)};
    };
    Specs condition_specs(specs.begin(), specs.begin() + carried);
    condition_specs.append(specs.begin() + carried + sequences, specs.end());
    std::vector<detail::TracedFunction> traced{{"body", body, specs, "variable"}};
    if (flow_.has_condition) traced.push_back({"cond", condition, condition_specs, "variable"});
    FunctionTracer tracer(inputs, where_);
    std::vector<detail::GraphFunction> functions = tracer.trace(traced);
    if (change) return {};
    std::vector<char> varies = changing_shapes(functions[0], tracer.operands(), change);
    if (change) return {};
    const bool is_stateful = tracer.is_stateful();
    const Ints ragged_stacks = ragged(flow_.stacked), ragged_sequences = ragged(flow_.sequences);
    // No sizes may fit all elements, so that the trial does not tell of what changes with them.
    Tensors elements;
    for (const std::int64_t k : ragged_sequences)
      elements.push_back(functions[0].inputs[carried + static_cast<std::size_t>(k)]);
    for (std::size_t i = 0; !elements.empty() && i < carried; ++i)
      if (detail::depends_on_values(functions[0].outputs[i], elements)) varies[i] = 1;
    for (const std::int64_t k : ragged_stacks) functions[0].outputs[carried + static_cast<std::size_t>(k) + 1] = {};
    std::vector<Attr> attrs = tracer.attrs(std::move(functions));
    if (!ragged_stacks.empty()) attrs.emplace_back("ragged_stacks", ragged_stacks);
    if (!ragged_sequences.empty()) attrs.emplace_back("ragged_sequences", ragged_sequences);
    attrs.emplace_back("carried", static_cast<std::int64_t>(carried));
    attrs.emplace_back("sequences", static_cast<std::int64_t>(sequences));
    if (flow_.iterations >= 0) attrs.emplace_back("maximum_iterations", flow_.iterations);
    if (flow_.reverse) attrs.emplace_back("reverse", true);
    if (reader_.def().attrs.contains(hint_recompute)) attrs.emplace_back("recompute", true);
    Ints varying;
    for (std::size_t i = 0; i < carried; ++i)
      if (specs[i].shape != inputs[i].shape() || varies[i]) varying.push_back(static_cast<std::int64_t>(i));
    if (!varying.empty()) attrs.emplace_back("varying", varying);
    Tensors all = inputs;
    const Tensors captured = tracer.operands();
    all.append(captured.begin(), captured.end());
    return tracer.add(detail::while_op(is_stateful), all, attrs, reader_.def().name);
  }

  /// The numbers of those lists of a loop of ours whose elements differ in shape, and which their sizes follow.
  template <class Lists>
  Ints ragged(const Lists& lists) const {
    const ListDef* hint = attr_of<ListDef>(reader_.def(), hint_ragged);
    Ints numbers;
    for (std::size_t k = 0; hint && k + 1 < lists.size(); ++k)
      if (lists[k + 1].variable == lists[k].variable + 1 &&
          std::ranges::count(hint->ints, static_cast<std::int64_t>(lists[k].variable)) != 0)
        numbers.push_back(static_cast<std::int64_t>(k));
    return numbers;
  }

  /// By loop variable, whether an iteration changes unknown sizes of its shape; `change` tells of one that changes
  /// sizes that are known in the body. It is tried with numbers in the place of all that is unknown: one for all sizes,
  /// and then another one for each size of a loop variable in turn, which shows sizes that come from other tensors.
  /// Where the body cannot take the number, those that it knows are tried.
  std::vector<char> changing_shapes(const detail::GraphFunction& body, const Tensors& captured,
                                    std::optional<std::pair<std::size_t, Shape>>& change) {
    std::vector<char> changing = changing_lists();
    Specs specs;
    for (const Tensor& each : body.inputs)
      specs.push_back(each ? each.spec() : captured[specs.size() + captured.size() - body.inputs.size()].spec());
    const auto has_no_rank = [](const Spec& each) { return !each.shape.has_rank(); };
    const int most_rank = std::any_of(specs.begin(), specs.end(), has_no_rank) ? 4 : 0;
    const std::vector<std::int64_t> sizes = sizes_to_try(body, specs);
    for (int rank = 0; rank <= most_rank; ++rank)
      for (const std::int64_t size : sizes) {
        Specs tried = specs;
        for (Spec& each : tried) each.shape = with_sizes(each.shape, rank, size);
        if (!note_changes(body, specs, tried, true, changing, change)) continue;
        for (std::size_t i = 0; i < changing.size(); ++i)
          for (int axis = 0; axis < specs[i].shape.rank() && !changing[i]; ++axis) {
            if (specs[i].shape.sizes()[axis] >= 0) continue;
            Specs other = tried;
            other[i].shape.set(axis, size + 2);
            note_changes(body, specs, other, false, changing, change);
          }
        if (!change) note_uneven_lists(body, tried, size + 1);
        break;
      }
    return changing;
  }

  static std::vector<std::int64_t> sizes_to_try(const detail::GraphFunction& body, const Specs& specs) {
    constexpr std::size_t most = 8;
    constexpr std::int64_t largest = 1 << 15;  // a shape of `most_rank` of them has less than 2^63 elements
    std::vector<std::int64_t> sizes{5};
    const auto is_known = [](const Spec& each) { return each.shape.is_known(); };
    if (std::all_of(specs.begin(), specs.end(), is_known)) return sizes;
    for (std::size_t i = 0; i < body.graph->size(); ++i)
      for (const Tensor& output : body.graph->node(i).outputs())
        for (const std::int64_t size : output.shape().sizes())
          if (size > 0 && size <= largest && sizes.size() < most &&
              std::find(sizes.begin(), sizes.end(), size) == sizes.end())
            sizes.push_back(size);
    return sizes;
  }
  static Shape with_sizes(Shape shape, int rank, std::int64_t size) {
    if (!shape.has_rank()) return Shape(std::vector<std::int64_t>(rank, size));
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (shape.sizes()[axis] < 0) shape.set(axis, size);
    return shape;
  }

  /// By loop variable, whether it is a list that an iteration makes longer or shorter.
  std::vector<char> changing_lists() const {
    std::vector<char> changing;
    for (const std::size_t i : flow_.carried)
      changing.push_back(changes_length(function(0), function(0).outputs[i]) ? 1 : 0);
    return changing;
  }
  /// Whether a function, or a branch in it, makes a list longer or shorter and returns it.
  static bool changes_length(const FunctionBody& body, const std::string& list) {
    const Nodes nodes(body.graph);
    const auto [node, output] = nodes.endpoint(nodes.origin(list));
    if (!node) return false;
    if (!node->flow || node->flow->is_loop)
      return node->op == "TensorListConcatLists" || node->op == "TensorListResize";
    return std::any_of(node->flow->functions.begin(), node->flow->functions.end(),
                       [i = output](const FunctionBody& branch) {
                         return i < branch.outputs.size() && changes_length(branch, branch.outputs[i]);
                       });
  }

  /// Notes what an iteration makes of loop variables of the shapes that are tried. Returns false if it cannot take
  /// them.
  /// `heeds_unknown`: whether a size that becomes unknown is a change; it also does where a branch cannot take them.
  static bool note_changes(const detail::GraphFunction& body, const Specs& specs, const Specs& tried,
                           bool heeds_unknown, std::vector<char>& changing,
                           std::optional<std::pair<std::size_t, Shape>>& change) {
    Specs next;
    try {
      next = detail::infer_function(body, tried);
    } catch (const Error&) {
      return false;  // another error than that of the shapes that are tried is reported when the graph runs
    }
    for (std::size_t i = 0; i < changing.size(); ++i) {
      const Shape& before = tried[i].shape;
      Shape after = next[i].shape;
      for (int axis = 0; !heeds_unknown && after.rank() == before.rank() && axis < after.rank(); ++axis)
        if (after.sizes()[axis] < 0) after.set(axis, before.sizes()[axis]);
      if (!before.has_rank() || before == after || (specs[i].shape.has_rank() && !after.has_rank())) continue;
      const Shape common = changed_shape(specs[i].shape, before, after);
      if (common != specs[i].shape)
        change.emplace(i, common);
      else
        changing[i] = 1;
    }
    return true;
  }
  /// Notes the lists to which an iteration and the next one append different shapes, or shapes that depend on values.
  /// `tried`: the inputs of the first one; `size` takes the place of what it makes unknown.
  void note_uneven_lists(const detail::GraphFunction& body, const Specs& tried, std::int64_t size) {
    const auto is_appended = [](const Flow::Stacked& each) { return !each.origin.empty(); };
    if (std::none_of(flow_.stacked.begin(), flow_.stacked.end(), is_appended)) return;
    const std::size_t carried = flow_.carried.size();
    Specs inputs = tried, first, second;
    try {
      first = detail::infer_function(body, inputs);
      for (std::size_t i = 0; i < carried; ++i)
        inputs[i].shape = with_sizes(first[i].shape, tried[i].shape.rank(), size);
      if (inputs == tried) return;
      second = detail::infer_function(body, inputs);
    } catch (const Error&) {
      return;  // an error that is not one of these shapes is reported when the graph runs
    }
    for (std::size_t k = 0; k < flow_.stacked.size(); ++k) {
      const Flow::Stacked& list = flow_.stacked[k];
      const Shape &element = first[carried + k].shape, &next = second[carried + k].shape;
      if (is_appended(list) && (!element.is_known() || element != next))
        uneven_.emplace(list.origin, element.rank() == next.rank() && element.has_rank() ? element.rank() : -1);
    }
  }
  /// The shape that a loop variable of the given shape has in the body if an iteration makes `after` of `before`.
  static Shape changed_shape(Shape given, const Shape& before, const Shape& after) {
    if (!given.has_rank()) return given;
    if (before.rank() != after.rank()) return Shape::unknown_rank();
    for (int axis = 0; axis < given.rank(); ++axis)
      if (after.sizes()[axis] != before.sizes()[axis]) given.set(axis, -1);
    return given;
  }

  /// The axis along which an iteration appends to a loop variable, or -1.
  static int appended_axis(const Tensor& variable, const Tensor& next) {
    const detail::Node* node = next.is_symbolic() ? detail::endpoint_of(next).node : nullptr;
    const int rank = variable.shape().rank();
    if (!node || node->op().movement != Movement::joins || node->inputs().size() < 2 || rank < 1) return -1;
    if (next.shape().has_rank() && next.shape().rank() != rank) return -1;  // a stack has one more
    const auto is_it = [&](const Tensor& input) { return input.is(variable); };
    if (std::none_of(node->inputs().begin(), node->inputs().end(), is_it)) return -1;
    return normalize_axis(node->attr<std::int64_t>("axis"), rank);
  }

  /// The sizes that two shapes have in common; where one is not known, that of the other. An empty list may get
  /// elements of any shape, and takes that of the first ones.
  static Shape common_shape(const Shape& given, const Shape& next, bool is_list) {
    if (given.has_rank() && !next.has_rank() && is_empty(given)) return next;
    if (!given.has_rank() || !next.has_rank()) return given;
    Shape common = given.rank() == next.rank() ? given : next;
    if (given.rank() != next.rank()) {
      if (!is_empty(given) || next.rank() == 0) return Shape::unknown_rank();
      common.set(0, -1);
      return common;
    }
    if (is_list && given.rank() > 0 && given.sizes()[0] == 0) {
      common = next;
      common.set(0, -1);
      return common;
    }
    for (int axis = 0; axis < given.rank(); ++axis)
      if (given.sizes()[axis] != next.sizes()[axis] && (given.sizes()[axis] == 0 || next.sizes()[axis] >= 0))
        common.set(axis, -1);
    return common;
  }

  Tensors in_order_of_file(const Tensors& results) const {
    Tensors outputs(inputs_.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) outputs[i] = inputs_[i].tensor;  // those that are passed on
    for (const std::size_t i : flow_.carried) outputs[i] = results[next++];
    for (const Flow::Stacked& each : flow_.stacked) outputs[each.variable] = results[next++];
    for (const Flow::Last& each : flow_.lasts)
      outputs[each.variable] = expand_dims(In(outputs[each.carried], where_), 0);
    return outputs;
  }

  const NodeReader& reader_;
  const Flow& flow_;
  const std::vector<Argument>& inputs_;
  const ReadBody& read_body_;
  UnevenLists& uneven_;
  Where where_;
};

}  // namespace

Tensors read_flow(const NodeReader& reader, const std::vector<Argument>& inputs, const ReadBody& read_body,
                  UnevenLists& uneven, Where where) {
  return FlowReader(reader, inputs, read_body, uneven, where).read();
}

}  // namespace tapestry::io
