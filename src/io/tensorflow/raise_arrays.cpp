/// TensorArrays of TensorFlow 1 are resources. Their flows, scalars that only tell what comes first, become lists,
/// which have the elements. The gradient of a flow is a list of gradients, so that gradients are added as those of
/// tensors are.

#include <algorithm>
#include <set>
#include <utility>

#include "core/make_tensor.hpp"
#include "io/tensorflow/frames.hpp"

namespace tapestry::io {
namespace {

class ArrayRaiser {
 public:
  explicit ArrayRaiser(GraphDef& graph)
      : graph_(graph), index_(numbers_by_name(graph)), uses_(data_uses(graph, index_)) {}

  void run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeDef& each = node(i);
      if (each.op == "TensorArrayV3" && data_inputs(each) == 1) find_content(i);
      if (is_push(each))
        if (const NodeDef* stack = origin(each.inputs[0])) pushes_[stack->name].push_back(i);
    }
    if (contents_.empty()) return;
    std::vector<std::pair<std::size_t, const NodeDef*>> gradients;  // and their arrays
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (node(i).op == "TensorArrayGradV3" && data_inputs(node(i)) == 2)
        if (const NodeDef* array = origin(node(i).inputs[0]); array && contents_.contains(array->name))
          gradients.emplace_back(i, array);
    for (const auto& [i, array] : gradients) {
      give_content(i, *array);
      gradients_.emplace(node(i).name, node(i).inputs[1]);
    }
    give_first_gradients();
    for (NodeDef& each : graph_.nodes) {
      std::erase_if(each.inputs, [&](const std::string& input) {
        return input.starts_with('^') && gradients_.contains(producer_name(input));
      });
      for (std::string& input : each.inputs) {
        for (std::size_t steps = 0; input.ends_with(":1") && gradients_.contains(producer_name(input)); ++steps) {
          if (steps > gradients_.size())
            throw InvalidArgumentError(detail::join("The gradients of arrays behind node '", each.name, "' go round"));
          input = gradients_.at(producer_name(input));
        }
        if (input.ends_with(":1") && contents_.contains(producer_name(input))) input = producer_name(input);
      }
      raise(each);
    }
    for (NodeDef& each : added_) graph_.nodes.push_back(std::move(each));
  }

 private:
  NodeDef& node(std::size_t i) { return graph_.nodes[i]; }
  const NodeDef& node(std::size_t i) const { return graph_.nodes[i]; }
  const NodeDef* producer(const std::string& tensor) const {
    const auto found = index_.find(producer_name(tensor));
    return found == index_.end() ? nullptr : &node(found->second);
  }

  /// Where a tensor comes from, through loops, branches and the stacks of gradients.
  const NodeDef* origin(const std::string& tensor) const {
    const NodeDef* found = producer(tensor);
    for (std::size_t steps = 0; found && steps <= graph_.nodes.size(); ++steps) {
      if (passes_on(*found)) {
        found = producer(found->inputs[0]);
      } else if (is_pop(*found)) {
        const NodeDef* stack = origin_of_handle(found->inputs[0]);
        const auto pushes = stack ? pushes_.find(stack->name) : pushes_.end();
        if (pushes == pushes_.end()) return found;
        found = producer(node(pushes->second[0]).inputs[1]);
      } else {
        return found;
      }
    }
    return nullptr;
  }
  /// The same for the handle of a stack, which comes from no stack.
  const NodeDef* origin_of_handle(const std::string& tensor) const {
    const NodeDef* found = producer(tensor);
    for (std::size_t steps = 0; found && passes_on(*found) && steps <= graph_.nodes.size(); ++steps)
      found = producer(found->inputs[0]);
    return found;
  }

  // ---- What arrays have -------------------------------------------------------------------------------------------

  static bool is_write(const NodeDef& node) {
    return (node.op == "TensorArrayWriteV3" || node.op == "TensorArrayScatterV3" || node.op == "TensorArraySplitV3") &&
           data_inputs(node) == 4;
  }

  /// More than loops are nested in each other. A damaged graph may enter loops in a circle.
  static constexpr int most_nested = 64;

  /// Finds the last flow of an array outside of the loops that write it.
  void find_content(std::size_t array) {
    std::string& content = contents_[node(array).name];
    content = node(array).name;
    std::vector<std::pair<std::size_t, int>> pending{{array, 0}};  // nodes, and how many loops they are in
    std::set<std::pair<std::size_t, int>> seen;
    for (std::size_t next = 0; next < pending.size(); ++next) {
      const auto [i, depth] = pending[next];
      for (const Use& each : uses_[i]) {
        const NodeDef& user = node(each.node);
        if (i == array && !user.inputs[each.input].ends_with(":1")) continue;  // the handle
        const bool writes = is_write(user) && each.input == 3 && origin(user.inputs[0]) == &node(array);
        if (!writes && !is_way_of_flow(user)) continue;
        const int now = depth + (is_enter(user) ? 1 : 0) - (is_exit(user) ? 1 : 0);
        if (now < 0 || now > most_nested || !seen.emplace(each.node, now).second) continue;
        if (now == 0 && (writes || is_exit(user) || is_merge(user))) content = user.name;
        pending.emplace_back(each.node, now);
      }
    }
  }
  static bool is_way_of_flow(const NodeDef& node) {
    return passes_on(node) || is_merge(node) || is_exit(node) || is_next(node);
  }

  /// Lets the gradient of an array be given what the array has, in place of its handle.
  void give_content(std::size_t gradient, const NodeDef& array) {
    std::vector<std::pair<std::size_t, std::size_t>> pending{{gradient, 0}};  // nodes, and their inputs
    while (!pending.empty()) {
      const auto [user, input] = pending.back();
      pending.pop_back();
      if (!given_.emplace(user, input).second) continue;
      std::string& tensor = node(user).inputs[input];
      const auto found = index_.find(producer_name(tensor));
      if (found == index_.end()) continue;
      const std::size_t i = found->second;
      if (&node(i) == &array) {
        tensor = contents_.at(array.name);
      } else if (passes_on(node(i))) {
        node(i).attrs.erase("T");
        pending.emplace_back(i, 0);
      } else if (is_pop(node(i))) {
        const NodeDef* stack = origin_of_handle(node(i).inputs[0]);
        if (!stack) continue;
        if (const auto type = array.attrs.find("dtype"); type != array.attrs.end())
          node(index_.at(stack->name)).attrs["elem_type"] = type->second;
        for (const std::size_t push : pushes_[stack->name]) pending.emplace_back(push, 1);
      }
    }
  }

  /// The list of zeros with which sums of gradients of arrays begin, instead of a scalar.
  void give_first_gradients() {
    std::vector<std::pair<std::size_t, const NodeDef*>> pending;  // what has the gradient of a flow, and the array's
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (const NodeDef* gradient = is_write(node(i)) ? gradient_of(node(i)) : nullptr)
        pending.emplace_back(i, gradient);
    std::vector<char> seen(graph_.nodes.size());
    for (std::size_t next = 0; next < pending.size(); ++next) {
      const auto [i, gradient] = pending[next];
      if (std::exchange(seen[i], 1)) continue;
      if (is_merge(node(i)))
        for (std::size_t k = 0; k < data_inputs(node(i)); ++k) give_first_gradient(i, k, *gradient);
      for (const Use& each : uses_[i]) {
        const NodeDef& user = node(each.node);
        if (is_way_of_flow(user) || user.op == "AddN" || user.op == "AddV2" || user.op == "Add")
          pending.emplace_back(each.node, gradient);
      }
    }
  }
  void give_first_gradient(std::size_t user, std::size_t input, const NodeDef& gradient) {
    std::string like = gradient.inputs[0];
    const auto found = index_.find(producer_name(node(user).inputs[input]));
    if (found == index_.end()) return;
    if (is_enter(node(found->second))) {
      like = around(node(found->second), like);
      user = found->second;
      input = 0;
    }
    const NodeDef* constant = producer(node(user).inputs[input]);
    if (!constant || constant->op != "Const") return;
    NodeDef zeros{.name = detail::join(node(user).name, "/_/first_", input), .op = "ZerosLike", .inputs = {like}};
    zeros.inputs.insert(zeros.inputs.end(), constant->inputs.begin(), constant->inputs.end());
    node(user).inputs[input] = zeros.name;
    node(user).attrs.erase("T");
    added_.push_back(std::move(zeros));
  }
  /// A list as the frame around an Enter has it.
  std::string around(const NodeDef& enter, std::string list) const {
    const auto* frame = attr_of<std::string>(enter, "frame_name");
    for (std::size_t steps = 0; frame && steps <= graph_.nodes.size(); ++steps) {
      const NodeDef* from = producer(list);
      if (!from || !passes_on(*from)) break;
      list = from->inputs[0];
      const auto* entered = is_enter(*from) ? attr_of<std::string>(*from, "frame_name") : nullptr;
      if (entered && *entered == *frame) break;
    }
    return list;
  }
  /// The TensorArrayGradV3 of an operation on the gradient of an array; nullptr for one on an array.
  const NodeDef* gradient_of(const NodeDef& operation) const {
    const NodeDef* handle = producer(operation.inputs[0]);
    for (std::size_t steps = 0; handle && steps <= graph_.nodes.size(); ++steps) {
      if (gradients_.contains(handle->name)) return handle;
      if (!passes_on(*handle)) break;
      handle = producer(handle->inputs[0]);
    }
    return nullptr;
  }

  // ---- Raising ----------------------------------------------------------------------------------------------------

  void raise(NodeDef& node) {
    const std::size_t count = data_inputs(node);
    const auto become = [&](std::string_view op, const std::vector<std::size_t>& kept, bool with_shape,
                            std::size_t at) {
      std::vector<std::string> inputs;
      inputs.reserve(kept.size());
      for (const std::size_t i : kept) inputs.push_back(node.inputs[i]);
      if (with_shape) {
        added_.push_back(shape_of(node));
        inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(at), added_.back().name);
      }
      inputs.insert(inputs.end(), node.inputs.begin() + static_cast<std::ptrdiff_t>(count), node.inputs.end());
      for (const char* name : {"dtype", "T"})
        if (const auto* type = attr_of<TypeCode>(node, name)) node.attrs.emplace("element_dtype", *type);
      node.op = op;
      node.inputs = std::move(inputs);
    };
    if (node.op == "TensorArrayV3" && count == 1) return become("TensorListReserve", {0}, true, 0);
    if (node.op == "TensorArrayScatterV3" && count == 4 && is_whole_range(node.inputs[1]))
      return become("TensorListFromTensor", {2}, true, 1);
    if ((node.op == "TensorArrayWriteV3" || node.op == "TensorArrayScatterV3") && count == 4 && gradient_of(node)) {
      NodeDef none{.name = node.name + "/_/none", .op = "ZerosLike", .inputs = {node.inputs[0]}};
      node.inputs[3] = none.name;
      added_.push_back(std::move(none));
    }
    if (gradients_.contains(node.name)) {
      node.op = "Identity";
      node.inputs.resize(1);
      node.attrs.clear();
    }
    if (node.op == "TensorArrayReadV3" && count == 3) return become("TensorListGetItem", {2, 1}, true, 2);
    if (node.op == "TensorArrayWriteV3" && count == 4) {
      if (may_grow(node)) node.attrs["resize_if_index_out_of_bounds"] = true;
      return become("TensorListSetItem", {3, 1, 2}, false, 0);
    }
    if (node.op == "TensorArrayScatterV3" && count == 4)
      return become("TensorListScatterIntoExistingList", {3, 2, 1}, false, 0);
    if (node.op == "TensorArrayGatherV3" && count == 3)
      return is_whole_range(node.inputs[1]) ? become("TensorListStack", {2}, true, 1)
                                            : become("TensorListGather", {2, 1}, true, 2);
    if (node.op == "TensorArrayConcatV3" && count == 2) return become("TensorListConcat", {1}, false, 0);
    if (node.op == "TensorArraySplitV3" && count == 4) return become("TensorListSplit", {1, 2}, true, 1);
    if (node.op == "TensorArraySizeV3" && count == 2) return become("TensorListLength", {1}, false, 0);
    if (node.op == "TensorArrayCloseV3" && count == 1) return become("NoOp", {}, false, 0);
  }

  /// Whether the array of an operation becomes longer when an element beyond its end is written.
  bool may_grow(const NodeDef& operation) const {
    const NodeDef* array = origin(operation.inputs[0]);
    const auto* dynamic = array ? attr_of<bool>(*array, "dynamic_size") : nullptr;
    return dynamic && *dynamic;
  }

  /// The constant of the shape of the elements.
  NodeDef shape_of(const NodeDef& node) const {
    const Shape* declared = attr_of<Shape>(node, "element_shape");
    const Shape shape = declared ? *declared : Shape::unknown_rank();
    const Tensor value = detail::make_tensor(int32, shape.has_rank() ? Shape{shape.rank()} : Shape(), cpu());
    auto* sizes = detail::mutable_data<std::int32_t>(value);
    if (!shape.has_rank()) sizes[0] = -1;
    for (int i = 0; i < shape.rank(); ++i) sizes[i] = static_cast<std::int32_t>(shape.sizes()[i]);
    NodeDef constant{.name = node.name + "/_/element_shape", .op = "Const"};
    // It is in the frame of the node: beside the size of an array, beside what is split, or beside the elements.
    const std::size_t beside = node.op == "TensorArrayV3" ? 0 : node.op == "TensorArraySplitV3" ? 1 : 2;
    constant.inputs = {"^" + producer_name(node.inputs[beside])};
    constant.attrs = {{"dtype", code_of(int32)}, {"value", TensorDef{code_of(int32), value}}};
    return constant;
  }

  /// Whether indices are 0, 1, 2, ...
  bool is_whole_range(const std::string& indices) const {
    const NodeDef* source = origin(indices);
    if (!source) return false;
    const NodeDef& node = *source;
    if (const auto* value = attr_of<TensorDef>(node, "value"); value && node.op == "Const" && bool(value->value)) {
      if (value->value.dtype() != int32 || value->value.rank() != 1) return false;
      const auto numbers = value->value.to_vector<std::int64_t>();
      for (std::size_t i = 0; i < numbers.size(); ++i)
        if (std::cmp_not_equal(numbers[i], i)) return false;
      return true;
    }
    return node.op == "Range" && data_inputs(node) == 3 && is_number(node.inputs[0], 0) && is_number(node.inputs[2], 1);
  }
  bool is_number(const std::string& tensor, std::int64_t number) const {
    const NodeDef* source = origin(tensor);
    const auto* value = source ? attr_of<TensorDef>(*source, "value") : nullptr;
    return value && bool(value->value) && value->value.size() == 1 && value->value.dtype() == int32 &&
           value->value.item<std::int64_t>() == number;
  }

  GraphDef& graph_;
  Index index_;
  std::vector<std::vector<Use>> uses_;
  std::unordered_map<std::string, std::string> contents_;             ///< by array: the list of all that it is given
  std::unordered_map<std::string, std::string> gradients_;            ///< by TensorArrayGradV3: its flow
  std::unordered_map<std::string, std::vector<std::size_t>> pushes_;  ///< by stack
  std::set<std::pair<std::size_t, std::size_t>> given_;               ///< inputs
  std::vector<NodeDef> added_;
};

}  // namespace

void raise_arrays(GraphDef& graph) { ArrayRaiser(graph).run(); }

}  // namespace tapestry::io
