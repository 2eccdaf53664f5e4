#include "io/tensorflow/foreign_ops.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <unordered_map>

#include "graph/state_ops.hpp"
#include "io/tensorflow/foreign_parts.hpp"
#include "tapestry/tape.hpp"

namespace tapestry::io {
namespace {

using Table = std::unordered_multimap<std::string_view, ForeignOp>;

/// The ops of all tables: those that are read so under a condition, or always.
const Table& foreign_ops(bool conditional) {
  static const auto& tables = *new std::pair<Table, Table>([] {
    std::pair<Table, Table> made;
    for (const auto& table :
         {foreign_arrays(),   foreign_candidates(), foreign_cells(),     foreign_channels_first(), foreign_colours(),
          foreign_control(),  foreign_fused(),      foreign_gradients(), foreign_images(),         foreign_integers(),
          foreign_lists(),    foreign_math(),       foreign_matrices(),  foreign_normalizations(), foreign_random(),
          foreign_sampling(), foreign_scatter(),    foreign_selection(), foreign_special(),        foreign_values(),
          foreign_volumes()})
      for (const ForeignOp& each : table) (each.applies ? made.first : made.second).emplace(each.name, each);
    return made;
  }());
  return conditional ? tables.first : tables.second;
}

std::atomic<const ForeignOp* (*)(const NodeDef&)> find_other_op = nullptr;

}  // namespace

void set_other_ops(const ForeignOp* (*find)(const NodeDef&)) { find_other_op = find; }
bool is_other_op(std::string_view op) { return op.find("::") != std::string_view::npos; }

const ForeignOp* find_foreign_op(const NodeDef& def) {
  if (is_other_op(def.op)) {
    const auto find = find_other_op.load();
    return find ? find(def) : nullptr;
  }
  for (const bool conditional : {true, false}) {
    const Table& table = foreign_ops(conditional);
    for (auto [each, end] = table.equal_range(def.op); each != end; ++each)
      if (!conditional || each->second.applies(def)) return &each->second;
  }
  return nullptr;
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
  results[0] = results[0].is_symbolic() ? identity(results[0], name()) : constant_node(results[0], name(), where);
  return results;
}

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

void require_checked_indices(const NodeReader& node) {
  if (node.attr_or<std::string>("bad_indices_policy", "") == "IGNORE")
    throw UnimplementedError(detail::join("Node '", node.def().name, "' (op: '", node.def().op,
                                          "'): Tapestry lacks its 'bad_indices_policy'"));
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

std::int64_t product(std::int64_t a, std::int64_t b) { return Shape{a, b}.size(); }

Tensor constant_node(const Tensor& value, const std::string& name, Where where) {
  return add_op(const_op, {}, {{"dtype", value.dtype()}, {"value", value}}, name, where)[0];
}

Tensors constant_nodes(const ForeignNode& n, const std::vector<Tensor>& values) {
  Tensors outputs(values.size());
  for (std::size_t i = values.size(); i-- > 0;)
    outputs[i] = constant_node(values[i], i == 0 ? n.name() : detail::join(n.name(), "/_/", i), n.where);
  return outputs;
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
