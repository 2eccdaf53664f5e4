#include "io/tensorflow/foreign_ops.hpp"

#include <algorithm>
#include <atomic>

#include "core/make_tensor.hpp"
#include "graph/state_ops.hpp"
#include "io/tensorflow/op_reader.hpp"
#include "io/tensorflow/reader_plugin.hpp"
#include "tapestry/ops/array.hpp"

namespace tapestry::io {
namespace {

std::atomic<const ForeignOp* (*)(const NodeDef&)> find_other_op = nullptr;

}  // namespace

void set_other_ops(const ForeignOp* (*find)(const NodeDef&)) { find_other_op = find; }
bool is_other_op(std::string_view op) { return op.find("::") != std::string_view::npos; }

const ForeignOp* find_foreign_op(const NodeDef& def) {
  if (!is_other_op(def.op) || def.op.starts_with("TensorFlow::")) return reader_plugin().find_op(def);
  const auto find = find_other_op.load();
  return find ? find(def) : nullptr;
}

// ---- A node ---------------------------------------------------------------------------------------------------------

std::vector<std::int64_t> ForeignNode::numbers(std::size_t i) const {
  const Tensor value = node.constant(i);
  if ((value.dtype() != int32 && value.dtype() != int64) || value.rank() > 1)
    node.refuse(detail::join("its input ", i, " is ", to_string(value.dtype()), value.shape()));
  return node.listed(value);
}

Shape ForeignNode::shape(std::size_t i) const {
  Shape shape(numbers(i));
  if (!shape.is_known()) node.refuse(detail::join("its input ", i, " is the shape ", shape));
  return shape;
}

std::int64_t ForeignNode::number(std::size_t i) const {
  const std::vector<std::int64_t> all = numbers(i);
  if (all.size() != 1) node.refuse(detail::join("its input ", i, " has ", all.size(), " elements"));
  return all[0];
}

Tensors ForeignNode::named(Tensors results) const {
  // An op of values alone was executed at once.
  for (std::size_t i = results.size(); i-- > 1;)
    if (bool(results[i]) && !results[i].is_symbolic())
      results[i] = constant_node(results[i], detail::join(name(), "/_/", i), where);
  if (!results[0].is_symbolic())
    results[0] = constant_node(results[0], name(), where);
  else if (!take_name(results))
    results[0] = identity(results[0], name());
  return results;
}

/// Whether the first result is the last node that was composed, and has got the name. A node of its own would only cost
/// time and memory.
bool ForeignNode::take_name(const Tensors& results) const {
  detail::Node& last = detail::producer_of(results[0]);
  detail::GraphState* graph = detail::scopes().graph.get();
  const auto is_last = [&](const Tensor& each) { return each.is(results[0]); };
  if (last.graph != graph || last.index + 1 != graph->size() || last.outputs().size() != 1 || last.op().stateful ||
      !std::string_view(last.name()).starts_with(name() + "/_/") || graph->find(name()) ||
      std::count_if(results.begin(), results.end(), is_last) > 1)
    return false;
  graph->rename(last, name());
  return true;
}

// ---- Parts ----------------------------------------------------------------------------------------------------------

void require_checked_indices(const NodeReader& node) {
  if (node.attr_or<std::string>("bad_indices_policy", "") == "IGNORE")
    throw UnimplementedError(detail::join("Node '", node.def().name, "' (op: '", node.def().op,
                                          "'): Tapestry lacks its 'bad_indices_policy'"));
}

std::int64_t product(std::int64_t a, std::int64_t b) { return Shape{a, b}.size(); }

Tensor constant_node(const Tensor& value, const std::string& name, Where where) {
  return add_op(const_op, {}, {{"dtype", value.dtype()}, {"value", value}}, name, where)[0];
}

Tensor vector_of(const std::vector<std::int64_t>& numbers, DType dtype) {
  if (size_of(dtype) == 0)
    throw InvalidArgumentError(detail::join("An operand of type ", to_string(dtype), " is to hold whole numbers"));
  Tensor value = detail::make_tensor(dtype, {static_cast<std::int64_t>(numbers.size())}, cpu());
  detail::visit_dtype(dtype, [&]<class T>() {
    std::transform(numbers.begin(), numbers.end(), detail::mutable_data<T>(value),
                   [](std::int64_t each) { return static_cast<T>(each); });
  });
  return value;
}

}  // namespace tapestry::io
