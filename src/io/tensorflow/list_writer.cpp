#include "io/tensorflow/list_writer.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "io/tensorflow/flow.hpp"

namespace tapestry::io {
namespace {

/// How TensorFlow has an op.
struct ListOp {
  std::string_view name;
  std::size_t lists = 0;    ///< how many of its first inputs are lists
  bool makes_list = true;   ///< whether its output is one
  int element_shape = -1;   ///< the input that tells the shape of the elements, if any
  bool names_dtype = true;  ///< whether it has the attribute "element_dtype"
  bool adds_item = false;   ///< whether its output is its list with another element
};

constexpr std::array list_ops = std::to_array<ListOp>({
    {.name = "EmptyTensorList", .element_shape = 0},
    {.name = "TensorListConcat", .lists = 1, .makes_list = false},
    {.name = "TensorListConcatLists", .lists = 2},
    {.name = "TensorListConcatV2", .lists = 1, .makes_list = false, .element_shape = 1},
    {.name = "TensorListPushBack", .lists = 1, .adds_item = true},
    {.name = "TensorListReserve", .element_shape = 0},
    {.name = "TensorListResize", .lists = 1, .names_dtype = false},
    {.name = "TensorListScatterIntoExistingList", .lists = 1},
    {.name = "TensorListScatterV2", .element_shape = 2},
    {.name = "TensorListSetItem", .lists = 1, .adds_item = true},
    {.name = "TensorListSplit", .element_shape = 1},
});

const ListOp* find_list_op(std::string_view op) {
  const auto* found =
      std::find_if(list_ops.begin(), list_ops.end(), [&](const ListOp& each) { return each.name == op; });
  return found == list_ops.end() ? nullptr : found;
}

/// The hint of the nodes around an op that takes or makes lists.
constexpr std::string_view hint_list = "_tapestry_list";

}  // namespace

AttrDefs element_attrs(DType dtype) { return {{"element_dtype", code_of(dtype)}, {"shape_type", code_of(int32)}}; }

Shape without_axis_0(const Shape& shape) { return shape.rank() > 0 ? Shape(shape.sizes().subspan(1)) : shape; }

Shape none_of(Shape shape) {
  for (int axis = 0; axis < shape.rank(); ++axis) shape.set(axis, std::max<std::int64_t>(shape.sizes()[axis], 0));
  return shape;
}

std::string list_of(NodeAdder& add, const std::string& tensor, const Spec& stacked, std::string_view hint) {
  const std::string shape = add.shape("element_shape", without_axis_0(stacked.shape));
  AttrDefs attrs = element_attrs(stacked.dtype);
  attrs.emplace(hint, true);
  return add.op("TensorListFromTensor", {tensor, shape}, std::move(attrs));
}

std::string stack_of(NodeAdder& add, const std::string& list, const Spec& stacked, std::string_view hint,
                     std::string shape) {
  const Shape element = without_axis_0(stacked.shape);
  const bool is_told = !shape.empty();
  if (!is_told) shape = add.shape("element_shape", element);
  if (!is_told && element.has_rank() && !element.is_known()) {
    const std::string length = add.op("TensorListLength", {list}, {});
    const std::string is_empty = add.typed("Equal", {length, add.number("none", 0)}, int32, "is_empty");
    const std::string known = add.op("TensorListElementShape", {list}, {{"shape_type", code_of(int32)}});
    const std::string of_none = add.whole("Maximum", known, add.shape("element_shape_of_none", none_of(element)));
    shape = add.typed("SelectV2", {is_empty, of_none, shape}, int32);
  }
  return add.op(
      "TensorListStack", {list, shape},
      {{"element_dtype", code_of(stacked.dtype)}, {"num_elements", std::int64_t{-1}}, {std::string(hint), true}});
}

namespace {

/// The list of an empty tensor does not tell the shape of its elements: the list of as many that are not set. Any other
/// list as it is.
std::string without_empty_elements(NodeAdder& add, const std::string& list, const std::string& tensor, DType dtype) {
  const std::string size = add.typed("Size", {tensor}, dtype);
  const std::string length = add.op("TensorListLength", {list}, {});
  const auto resize = [&](const std::string& given, const std::string& count) {
    return add.op("TensorListResize", {given, count}, {{std::string(hint_list), true}});
  };
  return resize(resize(list, add.whole("Minimum", size, length)), length);
}

}  // namespace

bool is_list_op(std::string_view op) { return find_list_op(op) != nullptr; }

void write_list_op(NodeWriter& writer, NodeAdder add, const NodeDef& def) {
  const ListOp& op = *find_list_op(def.op);
  const detail::Node& node = writer.node();
  const Spec elements = (op.lists > 0 ? node.input(0) : node.output(0)).spec();
  if (elements.dtype == DType::unknown) refuse(node, "the dtype of its list is not known yet");
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    const std::string tensor = writer.in(i).name;
    // The elements of two lists that are joined must have shapes that are known equally well.
    const Shape shape = op.lists > 1 ? Shape::unknown_rank() : node.input(i).shape();
    inputs.push_back(i < op.lists ? list_of(add, tensor, {elements.dtype, shape}, hint_list) : tensor);
    const bool may_be_empty = !shape.is_known() || shape.num_elements() == 0;
    if (i == 0 && op.adds_item && may_be_empty)
      inputs[0] = without_empty_elements(add, inputs[0], tensor, elements.dtype);
  }
  AttrDefs attrs;
  if (op.names_dtype) attrs.emplace("element_dtype", code_of(elements.dtype));
  if (op.element_shape >= 0)
    attrs.emplace("shape_type", code_of(node.input(static_cast<std::size_t>(op.element_shape)).dtype()));
  const std::string_view own = op.makes_list ? "resize_if_index_out_of_bounds" : "element_shape";
  if (const auto found = def.attrs.find(own); found != def.attrs.end()) attrs.emplace(own, found->second);
  if (!op.makes_list) return writer.finish(def.op, inputs, std::move(attrs));
  const std::string list = add.op(def.op, inputs, std::move(attrs));
  writer.finish("Identity", {stack_of(add, list, node.output(0).spec(), hint_list)},
                {{"T", code_of(elements.dtype)}, {std::string(hint_list), true}});
}

namespace {

/// Undoes `write_list_op` in a file.
class ListJoiner {
 public:
  explicit ListJoiner(GraphDef& file) : file_(file) {
    for (std::size_t i = 0; i < file.nodes.size(); ++i) places_.emplace(file.nodes[i].name, i);
  }

  void run() {
    for (NodeDef& each : file_.nodes)
      if (const NodeDef* list = list_behind(each)) take_over(each, *list);
    for (NodeDef& each : file_.nodes) {
      if (!is_list_op(each.op)) continue;
      for (std::string& input : each.inputs)
        for (const std::string_view op : {"TensorListResize", "TensorListResize", "TensorListFromTensor"})
          if (const NodeDef* made = added(input, op)) input = made->inputs[0];
    }
    drop_unused();
  }

 private:
  const NodeDef* find(const std::string& tensor) const {
    const auto found = places_.find(tensor);
    return found == places_.end() ? nullptr : &file_.nodes[found->second];
  }
  /// The node with the hint whose first output the tensor is.
  const NodeDef* added(const std::string& tensor, std::string_view op) {
    const NodeDef* node = find(tensor);
    if (!node || node->op != op || node->inputs.size() < 2 || !node->attrs.contains(hint_list)) return nullptr;
    added_.insert(node->name);
    return node;
  }
  /// The op whose list the node has as a tensor.
  const NodeDef* list_behind(const NodeDef& node) {
    if (node.op != "Identity" || node.inputs.empty() || !node.attrs.contains(hint_list)) return nullptr;
    const NodeDef* stack = added(node.inputs[0], "TensorListStack");
    const NodeDef* list = stack ? find(stack->inputs[0]) : nullptr;
    return list && is_list_op(list->op) ? list : nullptr;
  }
  void take_over(NodeDef& node, const NodeDef& list) {
    added_.insert(list.name);
    std::vector<std::string> inputs = list.inputs;
    inputs.insert(inputs.end(), node.inputs.begin() + 1, node.inputs.end());
    node.op = list.op;
    node.inputs = std::move(inputs);
    node.attrs = list.attrs;
  }

  /// Drops the added nodes that nothing uses any more, and then those that told them a shape.
  void drop_unused() {
    if (added_.empty()) return;
    std::unordered_map<std::string, int> uses;
    const auto source = [](std::string_view input) {
      if (input.starts_with('^')) input.remove_prefix(1);
      return std::string(input.substr(0, input.find(':')));
    };
    for (const NodeDef& each : file_.nodes)
      for (const std::string& input : each.inputs) ++uses[source(input)];
    std::unordered_set<std::string> dropped;
    std::vector<std::string> pending(added_.begin(), added_.end());
    while (!pending.empty()) {
      const std::string name = std::move(pending.back());
      pending.pop_back();
      const NodeDef* node = find(name);
      if (!node || uses[name] > 0 || !dropped.insert(name).second) continue;
      for (const std::string& input : node->inputs) {
        --uses[source(input)];
        if (added_.contains(source(input)) || is_of_shape(source(input))) pending.push_back(source(input));
      }
    }
    std::erase_if(file_.nodes, [&](const NodeDef& each) { return dropped.contains(each.name); });
  }
  /// Whether the node is one of those that `list_of` and `stack_of` add for the shape of the elements.
  bool is_of_shape(const std::string& name) const {
    constexpr std::array labels =
        std::to_array<std::string_view>({"/element_shape", "/none", "/is_empty", "/TensorListLength",
                                         "/TensorListElementShape", "/Maximum", "/Minimum", "/SelectV2", "/Size"});
    return std::any_of(labels.begin(), labels.end(),
                       [&](std::string_view label) { return name.find(label) != std::string::npos; });
  }

  GraphDef& file_;
  std::unordered_map<std::string, std::size_t> places_;
  std::unordered_set<std::string> added_;
};

}  // namespace

void join_list_ops(GraphDef& file) {
  const bool any = std::any_of(file.nodes.begin(), file.nodes.end(),
                               [](const NodeDef& each) { return each.attrs.contains(hint_list); });
  if (any) ListJoiner(file).run();
  for (NodeDef& each : file.nodes) {
    if (!each.flow) continue;
    Flow flow = *each.flow;
    for (FunctionBody& function : flow.functions) join_list_ops(function.graph);
    each.flow = std::make_shared<const Flow>(std::move(flow));
  }
}

}  // namespace tapestry::io
