#include "io/tensorflow/foreign_parts.hpp"

#include <algorithm>
#include <optional>

#include "io/tensorflow/reader_plugin.hpp"
#include "tapestry/tape.hpp"

namespace tapestry::io {

// ---- Conditions -----------------------------------------------------------------------------------------------------

bool has_flag(const NodeDef& def, std::string_view name, bool value) {
  const auto found = def.attrs.find(name);
  const auto* flag = found == def.attrs.end() ? nullptr : std::get_if<bool>(&found->second);
  return flag && *flag == value;
}

bool is_of_integers(const NodeDef& def) {
  const auto type = def.attrs.find("T");
  const auto* code = type == def.attrs.end() ? nullptr : std::get_if<TypeCode>(&type->second);
  const DType dtype = code ? dtype_of(*code) : DType::unknown;
  return dtype == int32 || dtype == int64 || dtype == uint8;
}

bool lacks_rank(const NodeReader&, const Tensors& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return bool(x) && !x.shape().has_rank(); });
}
bool lacks_any_size(const NodeReader&, const Tensors& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return bool(x) && !x.shape().is_known(); });
}
bool lacks_element_sizes(const NodeReader& reader, const Tensors& inputs) {
  const Shape& shape = inputs[0].shape();
  if (!shape.has_rank() || lacks_any_size(reader, Tensors(inputs.begin() + 1, inputs.end()))) return true;
  return shape.rank() > 0 &&
         std::any_of(shape.sizes().begin() + 1, shape.sizes().end(), [](std::int64_t size) { return size < 0; });
}
bool lacks_image_sizes(const NodeReader&, const Tensors& inputs) {
  const Shape& shape = inputs[0].shape();
  return shape.rank() != 4 ? !shape.has_rank() : shape.sizes()[1] < 0 || shape.sizes()[2] < 0 || shape.sizes()[3] < 0;
}

Specs specs_like_first(const NodeReader&, const Tensors& inputs) { return {{inputs[0].dtype(), inputs[0].shape()}}; }

// ---- Checks ---------------------------------------------------------------------------------------------------------

void lack(const ForeignNode& n, std::string_view what) {
  throw UnimplementedError(
      detail::join("Node '", n.name(), "' (op: '", n.node.def().op, "'): Tapestry lacks its ", what));
}

void require_nhwc(const ForeignNode& n) {
  if (n.node.attr_or<std::string>("data_format", "NHWC") != "NHWC") lack(n, "'data_format'");
}

void require_images(const ForeignNode& n) {
  if (n.in(0).shape().rank() != 4) n.node.refuse(detail::join("its input is no image: ", n.in(0).shape()));
}

void require_rank(const ForeignNode& n, std::size_t input, int rank) {
  const Shape& shape = n.in(input).shape();
  if (shape.rank() != rank) n.node.refuse(detail::join("its input ", input, " has the shape ", shape));
}

void require_one_type(const ForeignNode& n, std::size_t first) {
  for (std::size_t i = first; i < n.inputs.size(); ++i)
    if (n.in(i).dtype() != n.in(first).dtype()) n.node.refuse("its inputs have several types");
}

// ---- Parts ----------------------------------------------------------------------------------------------------------

Tensors constant_nodes(const ForeignNode& n, const std::vector<Tensor>& values) {
  Tensors outputs(values.size());
  for (std::size_t i = values.size(); i-- > 0;)
    outputs[i] = constant_node(values[i], i == 0 ? n.name() : detail::join(n.name(), "/_/", i), n.where);
  return outputs;
}

std::vector<Padding> paddings_of(const ForeignNode& n, std::size_t input) {
  const Tensor value = n.node.constant(input);
  if (value.rank() != 2 || value.shape().sizes()[1] != 2 || (value.dtype() != int32 && value.dtype() != int64))
    n.node.refuse("its paddings are no pairs of whole numbers");
  const std::vector<std::int64_t> list = n.node.listed(value);
  std::vector<Padding> paddings;
  for (std::size_t i = 0; i < list.size(); i += 2) paddings.push_back({list[i], list[i + 1]});
  return paddings;
}

PadMode mirror_mode(const ForeignNode& n) {
  const auto& mode = n.node.attr<std::string>("mode");
  if (mode != "REFLECT" && mode != "SYMMETRIC") n.node.refuse("its mode is " + mode);
  return mode == "REFLECT" ? PadMode::reflect : PadMode::symmetric;
}

Tensor shape_only(const ForeignNode& n, const Shape& shape, DType dtype) {
  return broadcast_to(constant_node(detail::make_scalar(0, dtype), "zero", n.where), shape);
}

Tensors gradients_of(const Tensors& sources, const std::function<Tensors(const Tensors&)>& f) {
  Tensors own;
  for (const Tensor& each : sources) own.push_back(identity(each));
  std::optional<GradientTape> tape;
  if (!own[0].is_symbolic()) tape.emplace().watch(std::vector<Tensor>(own.begin(), own.end()));
  std::vector<Tensor> targets;
  for (const Tensor& each : f(own)) targets.push_back(reduce_sum(each));
  const std::vector<tapestry::Source> by(own.begin(), own.end());
  const std::vector<Tensor> found = own[0].is_symbolic()
                                        ? gradients(TensorList(targets), by, {.unconnected = Unconnected::zero})
                                        : tape->gradient(TensorList(targets), by, {.unconnected = Unconnected::zero});
  return {found.begin(), found.end()};
}

Attrs with_groups(const Attrs& attrs, std::int64_t groups) {
  std::vector<Attr> list;
  for (const Attr& each : attrs) list.push_back(each.name == "groups" ? Attr{"groups", groups} : each);
  return Attrs(list);
}

}  // namespace tapestry::io
