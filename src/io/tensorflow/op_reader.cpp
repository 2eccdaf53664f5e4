#include "io/tensorflow/op_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/lack_refusal.hpp"
#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "graph/state_ops.hpp"
#include "io/tensorflow/foreign_ops.hpp"
#include "ops/handles.hpp"

namespace tapestry::io {
namespace {

/// Throws unless operands that belong together have one type. Kernels rely on that; type promotion ensures it only when
/// a program builds a graph.
void check_types(const Op& op, const NodeReader& reader, const Tensors& inputs) {
  DType common = DType::unknown, real = DType::unknown;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DType dtype = inputs[i].dtype();
    if (dtype == DType::resource) reader.refuse("an input is a resource");
    if ((op.shape_inputs >> std::min<std::size_t>(i, 31) & 1) != 0) continue;  // only its shape is read
    const bool promoted = op.promotion.kind != Promotion::Kind::none && static_cast<int>(i) >= op.promotion.first;
    DType& due = promoted ? common : real;
    if (dtype == DType::unknown || (!promoted && !is_floating(dtype))) continue;
    if (due != DType::unknown && due != dtype)
      reader.refuse(detail::join("its inputs have the types ", to_string(due), " and ", to_string(dtype)));
    due = dtype;
  }
  if (op.promotion.kind == Promotion::Kind::floating && common != DType::unknown && !is_floating(common))
    throw LackRefusal(detail::join("its inputs have the type ", to_string(common)));
}

/// Sets the number of groups of a convolution, which its shapes tell.
Attrs with_groups(const Tensors& inputs, const Attrs& attrs) {
  const Tensor &x = inputs[0], &filter = inputs[1];
  if (x.shape().rank() != 4 || filter.shape().rank() != 4 || x.shape().sizes()[3] < 1 || filter.shape().sizes()[2] < 1)
    return attrs;
  const std::int64_t groups = x.shape().sizes()[3] / filter.shape().sizes()[2];
  std::vector<Attr> list;
  for (const Attr& each : attrs)
    list.push_back(each.name == "groups" ? Attr{"groups", std::max<std::int64_t>(groups, 1)} : each);
  return Attrs(list);
}

/// Throws for a wrong or too large number of outputs, before it costs memory.
void check_outputs(const NodeReader& reader, const Tensors& inputs, const Attrs& attrs) {
  const std::string& op = reader.def().op;
  std::int64_t count = 0;
  if (op == "Unpack") {
    const Tensor& x = inputs[0];
    count = x.shape().sizes()[normalize_axis(attrs.get<std::int64_t>("axis"), x.shape().rank())];
    if (count != reader.attr<std::int64_t>("num")) reader.refuse(detail::join("its 'num' is not ", count));
  } else if (op == "Split") {
    count = attrs.get<std::int64_t>("num_split");
  }
  if (count > most_outputs) reader.refuse(detail::join("it has ", count, " outputs"));
}

Tensors read_direct(const NodeReader& reader, const OpRule& rule, const Tensors& all, Where where) {
  Tensors inputs;
  for (const std::size_t i : reader.direct_inputs(rule)) inputs.push_back(all[i]);
  Attrs attrs = reader.direct_attrs(rule);
  if (reader.def().op == "Conv2D") attrs = with_groups(inputs, attrs);
  check_outputs(reader, inputs, attrs);
  // TensorFlow's op may return int32 or int64, ours only returns int64.
  for (const FieldRule& field : rule.fields) {
    if (field.source != FieldRule::Source::output_type) continue;
    const DType due = dtype_of(reader.attr_or<TypeCode>(field.name, std::get<TypeCode>(field.value)));
    if (due == int64) continue;
    if (due != int32) reader.refuse(detail::join("its '", field.name, "' is neither int32 nor int64"));
    const Tensors wide = make_op(rule, reader, inputs, attrs, where, reader.def().name + "/int64");
    return add_op(ops::cast, wide, {{"dtype", int32}}, reader.def().name, where);
  }
  return make_op(rule, reader, inputs, attrs, where);
}

/// Whether a rule's op is read only when sizes are known.
bool rule_needs_sizes(std::string_view op) {
  return op == "Unpack" || op == "Squeeze" || op == "Conv2D" || op == "GatherNd";
}

bool rule_lacks_sizes(const NodeReader& reader, const Tensors& inputs) {
  const std::string& op = reader.def().op;
  if (inputs.empty()) return false;
  const Shape& shape = inputs[0].shape();
  if (op == "Squeeze") return !shape.is_known() && reader.attr_or<ListDef>("squeeze_dims", {}).ints.empty();
  if (op == "GatherNd") {  // the last size of the indices tells how many axes they choose from
    const Shape& indices = inputs[1].shape();
    return !indices.has_rank() || (indices.rank() > 0 && indices.sizes().back() < 0);
  }
  if (!shape.has_rank()) return true;
  if (op == "Conv2D") {
    const Shape& filter = inputs[1].shape();
    return !filter.has_rank() ||
           (shape.rank() == 4 && filter.rank() == 4 && (shape.sizes()[3] < 0 || filter.sizes()[2] < 0));
  }
  return shape.sizes()[normalize_axis(reader.attr_or<std::int64_t>("axis", 0), shape.rank())] < 0;
}

}  // namespace

Tensors add_op(const Op& op, const Tensors& inputs, const Attrs& attrs, const std::string& name, Where where) {
  if (!open_sink()) {
    // A model is called: its ops are applied one by one.
    if (&op == &const_op) return {*std::get_if<Tensor>(attrs.find("value"))};
    return apply_all(op, inputs, attrs, name, where);
  }
  Call call(op, inputs, attrs, where, name);
  open_sink()->add(call);
  Tensors outputs = call.outputs();
  tell_recorders(std::move(call));
  return outputs;
}

Tensors make_op(const OpRule& rule, const NodeReader& reader, const Tensors& inputs, const Attrs& attrs, Where where,
                const std::string& name) {
  const Op& op = *rule.entry;
  if (!takes(rule, inputs.size())) reader.refuse(detail::join("it has ", inputs.size(), " inputs"));
  check_types(op, reader, inputs);
  return add_op(op, inputs, attrs, name.empty() ? reader.def().name : name, where);
}

bool is_readable(const NodeDef& def) { return find_foreign_op(def) || rule_of_tensorflow(def.op); }

std::vector<std::size_t> value_inputs(const NodeReader& reader) {
  const std::string& op = reader.def().op;
  if (const ForeignOp* foreign = find_foreign_op(reader.def())) {
    if (foreign->inputs >= 0 && reader.input_count() != static_cast<std::size_t>(foreign->inputs))
      reader.refuse(detail::join("it has ", reader.input_count(), " inputs; ", foreign->inputs, " are due"));
    if (foreign->find_values) return foreign->find_values(reader);
    if (foreign->inputs < 0 && reader.input_count() == 0) reader.refuse("it has no inputs");
    std::vector<std::size_t> values = foreign->values;
    for (std::size_t i = 0; foreign->all_values && i < reader.input_count(); ++i) values.push_back(i);
    // A constant that waits for a side of a condition stays an input, which tells the side.
    for (const std::size_t each : foreign->values_if_constant)
      if (reader.is_constant(each) && (!reader.input(each).node || reader.input(each).node->inputs.empty()))
        values.push_back(each);
    return values;
  }
  const OpRule* rule = rule_of_tensorflow(op);
  return rule ? reader.attribute_inputs(*rule) : std::vector<std::size_t>();
}

bool may_need_sizes(const NodeDef& def) {
  const ForeignOp* foreign = find_foreign_op(def);
  return foreign ? foreign->lacks_sizes != nullptr : rule_needs_sizes(def.op);
}

bool lacks_sizes(const NodeReader& reader, const Tensors& inputs) {
  const std::string& op = reader.def().op;
  const ForeignOp* foreign = find_foreign_op(reader.def());
  if (foreign) return foreign->lacks_sizes && foreign->lacks_sizes(reader, inputs);
  return rule_needs_sizes(op) && rule_lacks_sizes(reader, inputs);
}

namespace {

/// The foreign ops whose attribute T is not the type of their first input; bit i tells that it is that of input i.
struct TypedInputs {
  std::string_view op;
  unsigned inputs;
};
constexpr auto typed_otherwise = std::to_array<TypedInputs>({{"AvgPool3DGrad", 0b10},
                                                             {"AvgPoolGrad", 0b10},
                                                             {"Bincount", 0b100},
                                                             {"BlockLSTM", 0b1'1111'1110},
                                                             {"BlockLSTMGrad", 0b1'1111'1110},
                                                             {"BlockLSTMGradV2", 0b1'1111'1110},
                                                             {"BlockLSTMV2", 0b1'1111'1110},
                                                             {"Concat", 0b10},
                                                             {"Conv2DBackpropInput", 0b110},
                                                             {"Conv3DBackpropInputV2", 0b110},
                                                             {"CropAndResizeGradBoxes", 0b10},
                                                             {"CropAndResizeGradImage", 0},
                                                             {"DenseBincount", 0b100},
                                                             {"DenseToSparseSetOperation", 0b101},
                                                             {"DepthwiseConv2dNativeBackpropInput", 0b110},
                                                             {"EditDistance", 0b10010},
                                                             {"Fill", 0b10},
                                                             {"InTopK", 0b10},
                                                             {"InTopKV2", 0b110},
                                                             {"MaxPool3DGrad", 0b100},
                                                             {"OneHot", 0b1100},
                                                             {"ParallelDynamicStitch", 0},
                                                             {"QuantizeV2", 0},
                                                             {"QuantizedConcat", 0},
                                                             {"RaggedBincount", 0b1000},
                                                             {"RaggedCountSparseOutput", 0b10},
                                                             {"RaggedTensorToSparse", 0},
                                                             {"RaggedTensorToTensor", 0b110},
                                                             {"ResizeBicubicGrad", 0b10},
                                                             {"ResizeBilinearGrad", 0b10},
                                                             {"ScatterNd", 0b10},
                                                             {"Select", 0b110},
                                                             {"SetSize", 0b10},
                                                             {"SparseAdd", 0b10010},
                                                             {"SparseBincount", 0b10000},
                                                             {"SparseConcat", 0},
                                                             {"SparseCountSparseOutput", 0b10},
                                                             {"SparseDenseCwiseAdd", 0b1010},
                                                             {"SparseDenseCwiseDiv", 0b1010},
                                                             {"SparseDenseCwiseMul", 0b1010},
                                                             {"SparseFillEmptyRows", 0b1010},
                                                             {"SparseFillEmptyRowsGrad", 0b10},
                                                             {"SparseReduceMax", 0b10},
                                                             {"SparseReduceMaxSparse", 0b10},
                                                             {"SparseReduceSum", 0b10},
                                                             {"SparseReduceSumSparse", 0b10},
                                                             {"SparseReorder", 0b10},
                                                             {"SparseSlice", 0b10},
                                                             {"SparseSoftmax", 0b10},
                                                             {"SparseSparseMaximum", 0b10010},
                                                             {"SparseSparseMinimum", 0b10010},
                                                             {"SparseSplit", 0b100},
                                                             {"SparseTensorDenseAdd", 0b1010},
                                                             {"SparseTensorDenseMatMul", 0b1010},
                                                             {"SparseToDense", 0b1100},
                                                             {"SparseToSparseSetOperation", 0b10010},
                                                             {"StatelessRandomBinomial", 0b1100},
                                                             {"StridedSliceGrad", 0b10000}});

std::vector<std::size_t> typed_inputs_of_foreign(const NodeReader& reader) {
  const std::string& op = reader.def().op;
  std::vector<std::size_t> found;
  if (op == "AddN") {
    found.resize(reader.input_count());
    std::iota(found.begin(), found.end(), std::size_t{0});
    return found;
  }
  const auto other = std::find_if(typed_otherwise.begin(), typed_otherwise.end(),
                                  [&](const TypedInputs& each) { return each.op == op; });
  const unsigned inputs = other == typed_otherwise.end() ? 1 : other->inputs;
  for (std::size_t i = 0; inputs >> i != 0; ++i)
    if ((inputs >> i & 1) != 0) found.push_back(i);
  return found;
}

}  // namespace

std::vector<std::size_t> inputs_of_type_t(const NodeReader& reader) {
  const std::string& op = reader.def().op;
  if (find_foreign_op(reader.def())) return typed_inputs_of_foreign(reader);
  const OpRule& rule = *rule_of_tensorflow(op);
  const std::vector<std::size_t> inputs = reader.direct_inputs(rule);
  const Promotion& promotion = rule.entry->promotion;
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool promoted = promotion.kind != Promotion::Kind::none && std::cmp_greater_equal(i, promotion.first);
    const bool named = std::any_of(rule.fields.begin(), rule.fields.end(), [&](const FieldRule& field) {
      return field.name == "T" && field.source == FieldRule::Source::input_type && std::cmp_equal(field.index, i);
    });
    if (promoted || named) found.push_back(inputs[i]);
  }
  return found;
}

Tensors read_op(const NodeReader& reader, const Tensors& inputs, Where where) {
  const std::string& op = reader.def().op;
  if (const ForeignOp* foreign = find_foreign_op(reader.def())) {
    for (const Tensor& each : inputs)
      if (bool(each) && each.dtype() == DType::resource) reader.refuse("an input is a resource");
    const CallSiteScope site(where);
    return foreign->read({.node = reader, .inputs = inputs, .where = where});
  }
  return read_direct(reader, *rule_of_tensorflow(op), inputs, where);
}

}  // namespace tapestry::io
