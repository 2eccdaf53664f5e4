#include "io/tensorflow/node_writer.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/make_tensor.hpp"
#include "io/tensorflow/node_adder.hpp"
#include "tapestry/ops/array.hpp"

namespace tapestry::io {

std::string endpoint_name(const Tensor& tensor) {
  const detail::Endpoint end = detail::endpoint_of(tensor);
  return end.output == 0 ? end.node->name() : detail::join(end.node->name(), ":", end.output);
}

void add_control_inputs(const std::vector<std::string>& names, std::vector<std::string>& inputs) {
  if (names.empty()) return;
  inputs.reserve(inputs.size() + names.size());  // so that no input moves
  std::unordered_set<std::string_view> there;
  for (const std::string_view input : inputs)
    there.insert(input.starts_with('^') ? input.substr(1) : input.substr(0, input.find(':')));
  for (const std::string& name : names)
    if (there.insert(name).second) inputs.push_back("^" + name);
}

std::vector<std::string> names_of(const std::vector<detail::Node*>& nodes) {
  std::vector<std::string> names;
  names.reserve(nodes.size());
  for (const detail::Node* each : nodes) names.push_back(each->name());
  return names;
}

AttrDef attr_def(const AttrValue& value) {
  return std::visit(
      []<class T>(const T& each) -> AttrDef {
        if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, Shape> ||
                      std::is_same_v<T, std::string>) {
          return each;
        } else if constexpr (std::is_same_v<T, double>) {
          return TensorDef{code_of(float64), detail::make_scalar(each, float64)};
        } else if constexpr (std::is_same_v<T, DType>) {
          return code_of(each);
        } else if constexpr (std::is_same_v<T, Device>) {
          return tensorflow_name(each);
        } else if constexpr (std::is_same_v<T, Ints>) {
          return ListDef{.ints = {each.begin(), each.end()}};
        } else {
          return std::monostate();
        }
      },
      value);
}

void refuse(const detail::Node& node, const std::string& reason) {
  throw UnimplementedError(
      detail::join("Node '", node.name(), "' (op: '", node.type(), "') cannot be written as TensorFlow's: ", reason),
      node.where());
}

Value NodeWriter::in(std::size_t i) const { return {endpoint_name(node_.input(i)), node_.input(i).dtype()}; }

void NodeWriter::add_controls(std::vector<std::string>& inputs) const {
  add_control_inputs(names_of(node_.control_inputs), inputs);
  add_control_inputs(awaited_, inputs);
}

std::string NodeWriter::unique(std::string_view label) { return names_.unique(detail::join(node_.name(), "/", label)); }

std::string NodeWriter::unique_constant(std::string_view label, const Tensor& value) {
  return names_.unique_constant(detail::join(node_.name(), "/", label), value);
}

NodeDef& NodeWriter::add(std::string_view type, std::string_view label) {
  return file_.nodes.emplace_back(
      NodeDef{.name = unique(label.empty() ? type : label), .op = std::string(type), .device = node_.device});
}

void NodeWriter::add_inner(std::vector<NodeDef> nodes, const Tensors& inputs, const std::vector<Value>& given,
                           const Tensors& outputs) {
  std::unordered_map<std::string, std::string> names;  // by the name in the other graph
  for (std::size_t i = 0; i < inputs.size(); ++i) names.emplace(endpoint_name(inputs[i]), given[i].name);
  const auto renamed = [&](const std::string& name) {
    const std::size_t begin = name.starts_with('^') ? 1 : 0, end = std::min(name.find(':'), name.size());
    return name.substr(0, begin) + names.at(name.substr(begin, end - begin)) + name.substr(end);
  };
  for (NodeDef& each : nodes) {
    std::string name = each.op == "Const"
                           ? unique_constant(each.name, std::get<TensorDef>(each.attrs.at("value")).value)
                           : unique(each.name);
    names.emplace(std::exchange(each.name, name), name);
    each.device = node_.device;
    for (std::string& input : each.inputs) input = renamed(input);
    if (const auto hint = each.attrs.find(hint_inputs); hint != each.attrs.end())
      for (std::string& input : std::get<ListDef>(hint->second).strings) input = renamed(input);
    file_.nodes.push_back(std::move(each));
  }
  for (const Tensor& each : outputs) result.push_back({renamed(endpoint_name(each)), each.dtype()});
  // The last node must be the result: `finish_expanded` renames it.
  if (result.size() == 1 && (nodes.empty() || file_.nodes.back().name != result[0].name))
    result = {op("Identity", {result[0]})};
}

Value NodeWriter::op(std::string_view type, const std::vector<Value>& inputs, DType dtype, FieldList fields,
                     std::string_view label) {
  NodeDef& def = add(type, label);
  for (const Value& each : inputs) def.inputs.push_back(each.name);
  def.attrs = std::move(fields);
  // TensorFlow's ops have an attribute "T", except for these, which name their types otherwise.
  if (type != "Range" && type != "GatherV2" && type != "Cast") def.attrs.try_emplace("T", code_of(inputs[0].dtype));
  return {def.name, dtype};
}

Value NodeWriter::stateful_op(std::string_view type, const std::vector<Value>& inputs, DType dtype, FieldList fields) {
  NodeDef& def = add(type, {});
  for (const Value& each : inputs) def.inputs.push_back(each.name);
  add_controls(def.inputs);
  def.attrs = std::move(fields);
  return {def.name, dtype};
}

Value NodeWriter::constant(std::string_view label, const Tensor& value) {
  file_.nodes.push_back(constant_def(unique_constant(label, value), value, node_.device));
  return {file_.nodes.back().name, value.dtype()};
}

Value NodeWriter::number(double value, DType dtype) { return constant("Const", detail::make_scalar(value, dtype)); }

Value NodeWriter::ints(std::string_view label, const std::vector<std::int64_t>& values) {
  const ExecuteNow now;
  const bool fits = std::all_of(values.begin(), values.end(),
                                [](std::int64_t each) { return each == static_cast<std::int32_t>(each); });
  return constant(label, Init(values).tensor(fits ? int32 : int64));
}

Value NodeWriter::shape_of(const Value& x, DType type) { return op("Shape", {x}, type, {{"out_type", code_of(type)}}); }

Value NodeWriter::reshape(const Value& x, const Value& new_shape) {
  return op("Reshape", {x, new_shape}, {{"Tshape", code_of(new_shape.dtype)}});
}

Value NodeWriter::sum(const Value& x, const std::vector<std::int64_t>& axes, bool keep) {
  const Value list = ints("axis", axes);
  return op("Sum", {x, list}, {{"Tidx", code_of(list.dtype)}, {"keep_dims", keep}});
}

Value NodeWriter::transpose(const Value& x, const std::vector<std::int64_t>& perm) {
  const Value list = ints("perm", perm);
  return op("Transpose", {x, list}, {{"Tperm", code_of(list.dtype)}});
}

Value NodeWriter::cast(const Value& x, DType dtype) {
  return op("Cast", {x}, dtype, {{"SrcT", code_of(x.dtype)}, {"DstT", code_of(dtype)}});
}

Value NodeWriter::part(const Value& vector, std::int64_t first, std::int64_t last, bool is_element) {
  const Value begin = ints("begin", {first}), end = ints("end", {last}), strides = ints("strides", {1});
  return op("StridedSlice", {vector, begin, end, strides},
            {{"Index", code_of(int32)},
             {"begin_mask", std::int64_t{0}},
             {"end_mask", std::int64_t{0}},
             {"ellipsis_mask", std::int64_t{0}},
             {"new_axis_mask", std::int64_t{0}},
             {"shrink_axis_mask", std::int64_t{is_element}}});
}

Value NodeWriter::element(const Value& vector, std::int64_t i) { return part(vector, i, i + 1, true); }

Value NodeWriter::size(std::size_t i, int axis) {
  if (!shape(i).has_rank()) return element(shape_of(in(i)), axis);
  const int at = normalize_axis(axis, shape(i).rank());
  const std::int64_t known = shape(i).sizes()[at];
  return known >= 0 ? number(static_cast<double>(known), int64) : element(shape_of(in(i)), at);
}

void NodeWriter::finish(std::string_view type, const std::vector<std::string>& inputs, FieldList fields) {
  NodeDef def{.name = node_.name(), .op = std::string(type), .device = node_.device, .inputs = inputs};
  def.attrs = std::move(fields);
  add_controls(def.inputs);
  file_.nodes.push_back(std::move(def));
}

void NodeWriter::finish_expanded(const std::vector<Value>& outputs) {
  if (outputs.size() > 1) {
    ListDef types;
    std::vector<std::string> names;
    for (const Value& each : outputs) {
      types.types.push_back(code_of(each.dtype));
      names.push_back(each.name);
    }
    finish("IdentityN", names, {{"T", types}});
  } else {
    NodeDef& last = file_.nodes.back();
    names_.erase(last.name);
    last.name = node_.name();
    add_controls(last.inputs);
  }
  NodeDef& last = file_.nodes.back();
  // The last node may have hints of its own.
  std::erase_if(last.attrs, [](const auto& attr) { return attr.first.starts_with("_tapestry"); });
  last.attrs.merge(hints());
}

void NodeWriter::finish_constant(const Tensor& value) {
  // The axes of the value in memory: those that are broadcast stay where they are, with size 1; the others are in the
  // order of their strides.
  const auto strides = value.strides();
  std::vector<std::int64_t> order(strides.size()), back(order.size()), kept;
  Shape ends = value.shape();
  std::iota(order.begin(), order.end(), 0);
  for (int axis = 0; axis < value.rank(); ++axis) {
    if (strides[static_cast<std::size_t>(axis)] != 0) {
      kept.push_back(axis);
    } else {
      ends.set(axis, std::min<std::int64_t>(ends.sizes()[axis], 1));
    }
  }
  std::vector<std::int64_t> sorted = kept;
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::int64_t a, std::int64_t b) {
    return strides[static_cast<std::size_t>(a)] > strides[static_cast<std::size_t>(b)];
  });
  for (std::size_t i = 0; i < kept.size(); ++i) order[static_cast<std::size_t>(kept[i])] = sorted[i];
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);

  const Tensor stored = [&] {
    const ExecuteNow now;
    return tapestry::transpose(slice(value, Ints(order.size()), Ints(ends.sizes().begin(), ends.sizes().end())),
                               Ints(order.begin(), order.end()));
  }();
  const TypeCode type = code_of(value.dtype());
  if (value.is_contiguous() || !stored.is_contiguous())
    return finish("Const", {}, {{"dtype", type}, {"value", TensorDef{type, value}}});
  const Value base = constant("Const", stored);
  if (ends == value.shape()) {
    const Value perm = ints("perm", back);
    return finish("Transpose", {base.name, perm.name}, {{"T", type}, {"Tperm", code_of(perm.dtype)}});
  }
  const Value moved = sorted == kept ? base : transpose(base, back), shape = ints("shape", value.shape().to_vector());
  finish("BroadcastTo", {moved.name, shape.name}, {{"T", type}, {"Tidx", code_of(shape.dtype)}});
}

FieldList NodeWriter::hints() const {
  ListDef inputs;
  for (const Tensor& each : node_.inputs()) inputs.strings.push_back(endpoint_name(each));
  FieldList fields{{std::string(hint_op), node_.type()}, {std::string(hint_inputs), std::move(inputs)}};
  for (const Attr& each : node_.attrs())
    fields.emplace(std::string(hint_prefix) + std::string(each.name), attr_def(each.value));
  return fields;
}

}  // namespace tapestry::io
