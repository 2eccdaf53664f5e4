#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {

inline bool contains(const std::vector<std::size_t>& list, std::size_t number) {
  return std::find(list.begin(), list.end(), number) != list.end();
}

/// The inputs of the op of ours for which a node was written. Sizes that were known may have taken their place.
inline std::vector<std::string> hinted(const NodeDef& node) {
  const auto found = node.attrs.find(hint_inputs);
  const auto* list = found == node.attrs.end() ? nullptr : std::get_if<ListDef>(&found->second);
  return list ? list->strings : std::vector<std::string>();
}

/// The nodes of a graph by name, for questions about what tensors are.
class Nodes {
 public:
  explicit Nodes(const GraphDef& graph) {
    for (const NodeDef& each : graph.nodes) by_name_.emplace(each.name, &each);
  }

  /// The node whose first output the tensor is; nullptr for another output.
  const NodeDef* producer(const std::string& tensor) const {
    const auto found = by_name_.find(without_zero(tensor));
    return found == by_name_.end() ? nullptr : found->second;
  }
  /// The tensor that it is a copy of.
  std::string origin(std::string tensor) const {
    for (std::size_t steps = 0; steps <= by_name_.size(); ++steps) {
      const NodeDef* node = producer(tensor);
      if (node && is_copy(*node)) {
        tensor = node->inputs[0];
        continue;
      }
      const auto [all, output] = endpoint(tensor);
      if (!all || all->op != "IdentityN" || output >= data_inputs(*all)) break;
      tensor = all->inputs[output];
    }
    return without_zero(tensor);
  }
  const NodeDef* source(const std::string& tensor) const { return producer(origin(tensor)); }
  const NodeDef* source(const std::string& tensor, std::string_view op, std::size_t inputs) const {
    const NodeDef* node = source(tensor);
    return node && node->op == op && data_inputs(*node) == inputs ? node : nullptr;
  }

  /// The node whose output a tensor is, and the number of this output; nullptr for a tensor that does not exist.
  std::pair<const NodeDef*, std::size_t> endpoint(const std::string& tensor) const {
    const std::size_t colon = tensor.rfind(':');
    const auto found = by_name_.find(std::string_view(tensor).substr(0, colon));
    if (found == by_name_.end()) return {};
    return {found->second, colon == std::string::npos ? 0 : static_cast<std::size_t>(std::atoll(&tensor[colon + 1]))};
  }

  /// The value of a constant of whole numbers; empty for another node.
  Tensor whole_numbers(const std::string& tensor) const {
    const NodeDef* node = source(tensor, "Const", 0);
    const auto found = node ? node->attrs.find("value") : decltype(node->attrs.end())();
    const TensorDef* value = node && found != node->attrs.end() ? std::get_if<TensorDef>(&found->second) : nullptr;
    if (!value || !value->value || (value->value.dtype() != int32 && value->value.dtype() != int64)) return {};
    return value->value;
  }
  /// The value of a constant with one whole number.
  std::optional<std::int64_t> number(const std::string& tensor) const {
    const Tensor value = whole_numbers(tensor);
    if (!value || value.size() != 1) return {};
    return value.item<std::int64_t>();
  }

  /// A text that identifies a scalar: equal keys mean equal scalars. "" if there is none.
  std::string key(const std::string& tensor) const {
    const Question question(*this);
    if (question.is_too_much()) return without_zero(tensor);
    if (const auto value = number(tensor)) return detail::join("=", *value);
    const NodeDef* node = source(tensor);
    if (node && node->op == "StridedSlice" && data_inputs(*node) == 4 && takes_first(*node))
      if (const NodeDef* shape = source(node->inputs[0], "Shape", 1)) return length_key(shape->inputs[0]);
    if (node && node->op == "TensorListLength" && data_inputs(*node) == 1) {
      std::string length = list_length_key(node->inputs[0]);
      if (!length.empty()) return length;
    }
    if (const auto [loop, output] = loop_output(tensor); loop && contains(loop->flow->counters, output))
      return iterations_key(*loop);
    return origin(tensor);
  }
  /// The key of the number of a list's elements; "" if it is not known.
  std::string list_length_key(const std::string& list) const {
    const Question question(*this);
    if (question.is_too_much()) return "";
    if (const NodeDef* node = source(list, "TensorListFromTensor", 2)) return length_key(node->inputs[0]);
    if (const NodeDef* node = source(list, "TensorListReserve", 2)) return key(node->inputs[1]);
    if (const NodeDef* node = source(list, "ZerosLike", 1)) return list_length_key(node->inputs[0]);
    const auto [loop, output] = loop_output(list);
    if (!loop) return "";
    const auto is_it = [i = output](const Flow::Stacked& each) {
      return each.variable == i && each.is_full && !each.extends;
    };
    return std::any_of(loop->flow->stacked.begin(), loop->flow->stacked.end(), is_it) ? iterations_key(*loop) : "";
  }
  /// Whether a list has the numbers 0, 1, 2, ..., because a loop has kept its counter.
  bool is_counting(const std::string& list) const {
    const auto [loop, output] = loop_output(list);
    if (!loop || loop->flow->reverse) return false;
    const Flow& flow = *loop->flow;
    const FunctionBody& body = flow.functions[0];
    const Nodes nodes(body.graph);
    return std::any_of(flow.stacked.begin(), flow.stacked.end(), [&, i = output](const Flow::Stacked& each) {
      if (each.variable != i || each.extends) return false;
      const std::string kept = nodes.origin(each.element);
      return std::any_of(flow.counters.begin(), flow.counters.end(),
                         [&](std::size_t counter) { return body.inputs[counter] == kept; });
    });
  }
  /// The key of the size of axis 0.
  std::string length_key(const std::string& tensor) const {
    const Question question(*this);
    if (question.is_too_much()) return "length of " + without_zero(tensor);
    const std::int64_t known = size(tensor, 0, 0);
    if (const NodeDef* stack = source(tensor, "TensorListStack", 2); stack && known < 0) {
      std::string length = list_length_key(stack->inputs[0]);
      if (!length.empty()) return length;
    }
    return known >= 0 ? detail::join("=", known) : "length of " + origin(tensor);
  }

  /// The nodes that a function runs.
  std::vector<const NodeDef*> needed_by(const FunctionBody& function) const {
    std::vector<const NodeDef*> needed;
    std::unordered_set<const NodeDef*> seen;
    const auto add = [&](std::string_view tensor) {
      const std::string_view name = tensor.substr(tensor.starts_with('^') ? 1 : 0);
      const auto found = by_name_.find(name.substr(0, name.find(':')));
      if (found != by_name_.end() && seen.insert(found->second).second) needed.push_back(found->second);
    };
    for (const std::string& each : function.outputs) add(each);
    for (const std::string& each : function.operations) add(each);
    for (std::size_t next = 0; next < needed.size(); ++next) {
      const NodeDef& node = *needed[next];
      for (const std::string& each : node.inputs) add(each);
      for (const std::string& each : hinted(node)) add(each);
    }
    return needed;
  }

  /// Whether the node's first output is its first input. Keras takes the maximum of the axes of a scalar, which has
  /// none.
  bool is_copy(const NodeDef& node) const {
    if (node.op == "Identity") return data_inputs(node) == 1;
    const Question question(*this);
    return !question.is_too_much() && (node.op == "Max" || node.op == "Min") && data_inputs(node) == 2 &&
           is_scalar(node.inputs[0]);
  }

 private:
  /// A question that is answered by others. Nodes of a file can lead to themselves, or to very many others: then there
  /// is no answer.
  class Question {
   public:
    explicit Question(const Nodes& nodes) : asked_(nodes.asked_) {
      ++asked_.depth;
      ++asked_.count;
    }
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;
    ~Question() {
      if (--asked_.depth == 0) asked_.count = 0;
    }
    bool is_too_much() const { return asked_.depth > 100 || asked_.count > 10'000; }

   private:
    struct Asked {
      int depth = 0, count = 0;  ///< inside each other, and since the outermost one
    };
    friend class Nodes;
    Asked& asked_;
  };

  bool is_scalar(const std::string& tensor) const {
    const NodeDef* node = producer(tensor);
    if (!node) return false;
    if (node->op == "Const") {
      const auto found = node->attrs.find("value");
      const auto* value = found == node->attrs.end() ? nullptr : std::get_if<TensorDef>(&found->second);
      return value && bool(value->value) && value->value.shape().rank() == 0;
    }
    return node->op == "TensorListLength" || (node->op == "StridedSlice" && data_inputs(*node) == 4 &&
                                              takes_first(*node) && source(node->inputs[0], "Shape", 1));
  }

  bool takes_first(const NodeDef& slice) const {
    const auto mask = slice.attrs.find("shrink_axis_mask");
    const auto* bits = mask == slice.attrs.end() ? nullptr : std::get_if<std::int64_t>(&mask->second);
    return bits && *bits == 1 && number(slice.inputs[1]) == 0 && number(slice.inputs[3]) == 1;
  }

  /// A size of a tensor as far as leaves tell it; -1 for an unknown one.
  std::int64_t size(const std::string& tensor, std::size_t axis, int depth) const {
    const NodeDef* node = source(tensor);
    if (!node || depth > 100) return -1;
    const auto shape_size = [&](const Shape& shape) {
      return shape.has_rank() && std::cmp_less(axis, shape.rank()) ? shape.sizes()[static_cast<int>(axis)] : -1;
    };
    const auto attr = [&](std::string_view name) {
      const auto found = node->attrs.find(name);
      return found == node->attrs.end() ? nullptr : &found->second;
    };
    if (node->op == "Placeholder")
      if (const AttrDef* shape = attr("shape"); shape && std::holds_alternative<Shape>(*shape))
        return shape_size(std::get<Shape>(*shape));
    if (node->op == "Const")
      if (const AttrDef* value = attr("value"); value && std::holds_alternative<TensorDef>(*value))
        if (const Tensor& constant = std::get<TensorDef>(*value).value) return shape_size(constant.shape());
    if (node->op == "Transpose" && data_inputs(*node) == 2)
      if (const NodeDef* perm = source(node->inputs[1], "Const", 0))
        if (const auto value = perm->attrs.find("value"); value != perm->attrs.end())
          if (const auto* list = std::get_if<TensorDef>(&value->second);
              list && bool(list->value) && (list->value.dtype() == int32 || list->value.dtype() == int64) &&
              list->value.rank() == 1 && std::cmp_less(axis, list->value.size()))
            return size(
                node->inputs[0],
                static_cast<std::size_t>(std::max<std::int64_t>(list->value.to_vector<std::int64_t>()[axis], 0)),
                depth + 1);
    return -1;
  }

  /// The loop whose output a tensor is, and the number of this output.
  std::pair<const NodeDef*, std::size_t> loop_output(const std::string& tensor) const {
    const auto [node, output] = endpoint(origin(tensor));
    if (!node || !node->flow || !node->flow->is_loop) return {};
    return {node, output};
  }
  static std::string iterations_key(const NodeDef& loop) {
    return loop.flow->count_key.empty() ? "iterations of " + loop.name : loop.flow->count_key;
  }

  std::unordered_map<std::string_view, const NodeDef*> by_name_;
  mutable Question::Asked asked_;
};

}  // namespace tapestry::io
