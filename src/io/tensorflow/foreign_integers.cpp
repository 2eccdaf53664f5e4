// Ops that take whole numbers with TensorFlow, and with us floating point numbers only.

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

/// The node for float64, whose result is rounded toward 0, as TensorFlow's division of whole numbers is.
Tensors read_in_float64(const ForeignNode& n) {
  NodeDef def = n.node.def();
  def.name += "/_/float64";
  def.attrs.insert_or_assign("T", code_of(float64));
  std::vector<Source> sources;
  Tensors inputs = n.inputs, values(n.inputs.size());
  const std::size_t numbers = def.op == "Conv2D" || def.op == "Dilation2D" ? 2 : 1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    sources.push_back(n.node.input(i));
    if (n.node.is_constant(i)) values[i] = n.node.constant(i);
    if (i < numbers) inputs[i] = cast(inputs[i], float64, detail::join(n.name(), "/_/in_", i));
  }
  Tensors outputs = read_op(NodeReader(def, sources, values), inputs, n.where);
  outputs[0] = cast(outputs[0], n.in(0).dtype(), n.name());
  return outputs;
}

}  // namespace

ForeignOps foreign_integers() {
  ForeignOps ops;
  const auto add = [&](std::string_view name, int inputs, std::vector<std::size_t> values = {}) {
    ops.push_back({.name = name,
                   .inputs = inputs,
                   .values = std::move(values),
                   .applies = is_of_integers,
                   .lacks_sizes = lacks_any_size,
                   .outputs = {like(0)},
                   .read = read_in_float64});
  };
  add("Conv2D", 2);
  add("Dilation2D", 2);
  add("EuclideanNorm", 2, {1});
  add("MaxPool", 1);
  add("MaxPoolV2", 3, {1, 2});
  add("MaxPoolWithArgmax", 1);
  ops.back().outputs.push_back(told_by("Targmax", int64));
  add("Mean", 2, {1});
  add("SegmentMean", 2);
  return ops;
}

}  // namespace tapestry::io
