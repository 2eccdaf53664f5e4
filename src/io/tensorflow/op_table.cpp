#include "io/tensorflow/op_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "io/tensorflow/op_expansions.hpp"

namespace tapestry::io {
namespace {

using detail::Node;
using Form = InputRule::Form;
using Origin = FieldRule::Source;

// ---- Words of the table ---------------------------------------------------------------------------------------------

InputRule in(int i) { return {.form = Form::input, .input = i}; }
InputRule rest_from(int i) { return {.form = Form::rest, .input = i}; }
InputRule scalar(std::string_view attr, std::string_view label, std::string_view type_attr = {}) {
  return {.form = Form::scalar, .attr = attr, .label = label, .type_attr = type_attr};
}
InputRule vector(std::string_view attr, std::string_view label, std::string_view type_attr = {}) {
  return {.form = Form::vector, .attr = attr, .label = label, .type_attr = type_attr};
}
InputRule pairs(std::string_view attr, std::string_view label, std::string_view type_attr) {
  return {.form = Form::pairs, .attr = attr, .label = label, .type_attr = type_attr};
}
/// A number of the type of our first input, or of the attribute "dtype".
InputRule real(std::string_view attr, std::string_view label) {
  return {.form = Form::real, .attr = attr, .label = label};
}

/// The type of an input; -1 stands for the last one.
FieldRule type_of(int input, std::string_view name = "T") {
  return {.name = name, .source = Origin::input_type, .index = input};
}
/// The type of an output; `otherwise` is the default.
FieldRule result_type(std::string_view name, DType otherwise) {
  return {.name = name, .source = Origin::output_type, .value = code_of(otherwise)};
}
FieldRule field(std::string_view name, std::string_view attr, AttrDef otherwise = {}) {
  return {.name = name, .source = Origin::attr, .attr = attr, .value = std::move(otherwise)};
}
FieldRule field(std::string_view name) { return field(name, name); }
FieldRule flag(std::string_view name) { return field(name, name, false); }
FieldRule bit_mask(std::string_view name, int i) {
  return {.name = name, .source = Origin::bit, .index = i, .attr = "masks", .value = std::int64_t{0}};
}
FieldRule fixed(std::string_view name, AttrDef value) {
  return {.name = name, .source = Origin::fixed, .value = std::move(value)};
}
FieldRule input_count(std::string_view name) { return {.name = name, .source = Origin::input_count}; }
/// Half the number of inputs, which are two lists.
FieldRule pair_count(std::string_view name) { return {.name = name, .source = Origin::pair_count}; }
FieldRule output_count(std::string_view name) { return {.name = name, .source = Origin::output_count}; }

const std::string& nhwc = *new std::string("NHWC");

/// An op whose inputs and outputs all have one type.
OpRule plain(std::string_view op, int inputs) {
  OpRule rule{.op = op, .inputs = inputs, .tensorflow = op, .fields = {type_of(0)}};
  for (int i = 0; i < inputs; ++i) rule.input_rules.push_back(in(i));
  return rule;
}
/// The same for an op of TensorFlow's that does not broadcast.
OpRule plain_unless_broadcast(std::string_view op) {
  OpRule rule = plain(op, 2);
  rule.is_direct = have_one_shape;
  return rule;
}
OpRule untyped(std::string_view op, int inputs) {
  OpRule rule = plain(op, inputs);
  rule.fields.clear();
  return rule;
}
/// An op that TensorFlow lacks; without `expand` its composition is written.
OpRule expanded(std::string_view op, int inputs, void (*expand)(NodeWriter&) = nullptr,
                bool (*asks_ranks)(const Node&) = nullptr) {
  return {.op = op, .inputs = inputs, .expand = expand, .asks_ranks = asks_ranks};
}

OpRule reduction(std::string_view op, bool typed = true) {
  OpRule rule{.op = op,
              .inputs = 1,
              .tensorflow = op,
              .input_rules = {in(0), vector("axis", "axis", "Tidx")},
              .fields = {flag("keep_dims")}};
  if (typed) rule.fields.push_back(type_of(0));
  return rule;
}

OpRule along_axis(std::string_view op, std::vector<FieldRule> fields) {
  fields.push_back(type_of(0));
  return {.op = op,
          .inputs = 1,
          .tensorflow = op,
          .input_rules = {in(0), scalar("axis", "axis", "Tidx")},
          .fields = std::move(fields)};
}

OpRule pooling(std::string_view op, int inputs, bool explicit_paddings) {
  OpRule rule = plain(op, inputs);
  for (const FieldRule& each : {field("ksize"), field("strides"), field("padding"), fixed("data_format", nhwc)})
    rule.fields.push_back(each);
  if (explicit_paddings) {
    rule.fields.push_back(field("explicit_paddings", "explicit_paddings", ListDef{}));
  } else {
    rule.is_direct = has_no_explicit_padding;
    rule.implied = {{"explicit_paddings", Ints{}}};
  }
  return rule;
}

OpRule slicing(std::string_view op, std::vector<InputRule> inputs, int count) {
  return {.op = op,
          .inputs = count,
          .tensorflow = op,
          .input_rules = std::move(inputs),
          .fields = {type_of(0), bit_mask("begin_mask", 0), bit_mask("end_mask", 1), bit_mask("ellipsis_mask", 2),
                     bit_mask("new_axis_mask", 3), bit_mask("shrink_axis_mask", 4)}};
}

OpRule random(std::string_view op, std::string_view a, std::string_view b, void (*expand)(NodeWriter&)) {
  return {.op = op,
          .inputs = none_or_one,
          .tensorflow = op,
          .input_rules = {vector("shape", "shape", "T")},
          .fields = {field("dtype"), fixed("seed", std::int64_t{0}), fixed("seed2", std::int64_t{0})},
          .implied = {{a, 0.0}, {b, 1.0}},
          .is_direct = is_standard_random,
          .expand = expand};
}

// ---- The table ------------------------------------------------------------------------------------------------------

using AddRule = std::function<void(OpRule)>;

/// Elementwise functions, those along the last axis, and losses.
void add_functions(const AddRule& add) {
  for (const char* op :
       {"Softmax", "LogSoftmax", "Identity", "StopGradient", "ZerosLike", "OnesLike", "Cholesky", "MatrixDiagPart"})
    add(plain(op, 1));
  add(untyped("LogicalNot", 1));
  add(untyped("LogicalAnd", 2));
  add(untyped("LogicalOr", 2));
  OpRule select = plain("SelectV2", 3);
  select.fields = {type_of(1)};
  add(select);
  OpRule check = plain("CheckNumerics", 1);
  check.fields.push_back(field("message"));
  add(check);
  OpRule ensure = plain("EnsureShape", 1);
  ensure.fields.push_back(field("shape"));
  add(ensure);
  OpRule clip = plain("ClipByValue", 3);
  clip.is_direct = has_scalar_bounds;
  add(clip);

  add(plain_unless_broadcast("SigmoidGrad"));
  add(plain_unless_broadcast("TanhGrad"));
  add(plain_unless_broadcast("ReluGrad"));
  add(plain_unless_broadcast("SoftplusGrad"));
  add(plain_unless_broadcast("EluGrad"));
  add(expanded("SoftmaxGrad", 2));
  add(expanded("LogSoftmaxGrad", 2));
  for (const char* op : {"LeakyRelu", "LeakyReluGrad"}) {
    OpRule leaky = plain(op, op == std::string_view("LeakyRelu") ? 1 : 2);
    leaky.fields.push_back(field("alpha", "alpha", 0.2F));
    leaky.is_direct = alpha_fits_float;
    add(leaky);
  }
  add(expanded("LayerNorm", 3));
  add(expanded("LayerNormGrad", 5));
  add(expanded("CTCLossDense", 4));
  add(expanded("LinearRecurrence", 2));
  add(expanded("PseudoInverse", 1));
  OpRule bias = plain("BiasAdd", 2);
  bias.fields.push_back(fixed("data_format", nhwc));
  add(bias);
  OpRule entropy = plain("SoftmaxCrossEntropyWithLogits", 2);
  entropy.fields.push_back(fixed(hint_any_sum, true));
  entropy.is_direct = has_rank_2;
  entropy.expand = expand_cross_entropy;
  add(entropy);
  OpRule sparse = plain("SparseSoftmaxCrossEntropyWithLogits", 2);
  sparse.fields.push_back(type_of(1, "Tlabels"));
  sparse.is_direct = has_rank_2;
  sparse.expand = expand_cross_entropy;
  add(sparse);
}

/// Products and decompositions of matrices.
void add_products(const AddRule& add) {
  OpRule matmul = plain("MatMul", 2);
  matmul.fields = {type_of(0), flag("transpose_a"), flag("transpose_b")};
  add(matmul);
  OpRule batch_matmul = plain("BatchMatMulV2", 2);
  batch_matmul.fields = {type_of(0), flag("adj_x"), flag("adj_y")};
  add(batch_matmul);
  add(plain("MatrixSetDiag", 2));
  add({.op = "MatrixBandPart",
       .inputs = 1,
       .tensorflow = "MatrixBandPart",
       .input_rules = {in(0), scalar("num_lower", "num_lower", "Tindex"), scalar("num_upper", "num_upper", "Tindex")},
       .fields = {type_of(0)}});
  OpRule inverse = plain("MatrixInverse", 1);
  inverse.fields.push_back(fixed("adjoint", false));
  add(inverse);
  OpRule solve = plain("MatrixSolve", 2);
  solve.fields.push_back(flag("adjoint"));
  add(solve);
  OpRule triangular = solve;
  triangular.op = triangular.tensorflow = "MatrixTriangularSolve";
  triangular.fields.push_back(field("lower", "lower", true));
  add(triangular);
  OpRule svd = plain("Svd", 1);
  svd.fields.push_back(fixed("compute_uv", true));
  svd.fields.push_back(fixed("full_matrices", false));
  add(svd);
  add(plain("MatrixDeterminant", 1));
  add(plain("LogMatrixDeterminant", 1));
  OpRule qr = plain("Qr", 1);
  qr.fields.push_back(fixed("full_matrices", false));
  add(qr);
  OpRule eigh = plain("SelfAdjointEigV2", 1);
  eigh.fields.push_back(fixed("compute_v", true));
  add(eigh);
}

void add_reductions(const AddRule& add) {
  for (const char* op : {"Sum", "Mean", "Prod", "Max", "Min"}) add(reduction(op));
  add(reduction("Any", false));
  add(reduction("All", false));
  for (const char* op : {"ArgMax", "ArgMin"}) add(along_axis(op, {result_type("output_type", int64)}));
  for (const char* op : {"Cumsum", "Cumprod"}) add(along_axis(op, {flag("exclusive"), flag("reverse")}));
}

void add_shapes(const AddRule& add) {
  add({.op = "Shape",
       .inputs = 1,
       .tensorflow = "Shape",
       .input_rules = {in(0)},
       .fields = {type_of(0), result_type("out_type", int32)}});
  add({.op = "Size",
       .inputs = 1,
       .tensorflow = "Size",
       .input_rules = {in(0)},
       .fields = {type_of(0), result_type("out_type", int32)}});
  add({.op = "Reshape",
       .inputs = 1,
       .tensorflow = "Reshape",
       .input_rules = {in(0), vector("shape", "shape", "Tshape")},
       .fields = {type_of(0)}});
  add({.op = "BroadcastTo",
       .inputs = 1,
       .tensorflow = "BroadcastTo",
       .input_rules = {in(0), vector("shape", "shape", "Tidx")},
       .fields = {type_of(0)},
       .is_direct = has_known_target,
       .expand = expand_broadcast_to});
  add({.op = "Transpose",
       .inputs = 1,
       .tensorflow = "Transpose",
       .input_rules = {in(0), vector("perm", "perm", "Tperm")},
       .fields = {type_of(0)}});
  OpRule squeeze = plain("Squeeze", 1);
  squeeze.fields.push_back(field("squeeze_dims", "axis", ListDef{}));
  add(squeeze);
  add({.op = "ExpandDims",
       .inputs = 1,
       .tensorflow = "ExpandDims",
       .input_rules = {in(0), scalar("axis", "dim", "Tdim")},
       .fields = {type_of(0)},
       .is_direct = has_one_axis,
       .expand = expand_expand_dims,
       .asks_ranks = counts_from_both_ends});
  add({.op = "ReverseV2",
       .inputs = 1,
       .tensorflow = "ReverseV2",
       .input_rules = {in(0), vector("axis", "axis", "Tidx")},
       .fields = {type_of(0)}});
  add({.op = "Roll",
       .inputs = 1,
       .tensorflow = "Roll",
       .input_rules = {in(0), scalar("shift", "shift", "Tshift"), scalar("axis", "axis", "Taxis")},
       .fields = {type_of(0)}});
  // A file cannot hold a program's own gradients: only the forward value is written.
  for (const std::string_view op : {"CustomGradient", "Recompute", "OptimizationBarrier"})
    add({.op = op, .inputs = any_number, .tensorflow = "Identity", .input_rules = {in(0)}, .fields = {type_of(0)}});
  // Nor can that of a graph hold those of a file; see gradient_writer.hpp.
  add({.op = "RegisteredGradient",
       .inputs = any_number,
       .tensorflow = "Identity",
       .input_rules = {in(0)},
       .fields = {type_of(0)},
       .implied = {{"values", std::int64_t{1}}}});
  add({.op = "RegisteredGradients",
       .inputs = any_number,
       .tensorflow = "IdentityN",
       .input_rules = {{.form = Form::rest, .input = 0, .attr = "values"}},
       .fields = {{.name = "T", .source = Origin::output_types}}});
  add({.op = "SumLike", .inputs = 2, .expand = expand_sum_like});
  add({.op = "BroadcastLike", .inputs = 2, .expand = expand_broadcast_like});
  add({.op = "ReshapeLike", .inputs = 2, .expand = expand_reshape_like});
  add({.op = "SizeLike", .inputs = 2, .expand = expand_size_like});
}

/// Types, devices, constants.
void add_types(const AddRule& add) {
  add({.op = "Cast",
       .inputs = 1,
       .tensorflow = "Cast",
       .input_rules = {in(0)},
       .fields = {type_of(0, "SrcT"), field("DstT", "dtype"), fixed("Truncate", false)}});
  add({.op = "Bitcast",
       .inputs = 1,
       .tensorflow = "Bitcast",
       .input_rules = {in(0)},
       .fields = {type_of(0, "T"), field("type", "type")}});
  add(expanded("DeviceCopy", 1, expand_identity));
  add({.op = "Fill",
       .inputs = 0,
       .tensorflow = "Fill",
       .input_rules = {vector("shape", "dims", "index_type"), real("value", "value")},
       .fields = {field("T", "dtype")},
       .is_direct = is_on_host,
       .expand = expand_fill});
  add(expanded("FillLike", any_number, expand_fill_like));
  add(expanded("Range", 0, expand_to_constant));
  add(expanded("LinSpace", 0, expand_to_constant));
}

/// Slices and joins.
void add_slices(const AddRule& add) {
  add({.op = "ConcatV2",
       .inputs = any_number,
       .tensorflow = "ConcatV2",
       .input_rules = {rest_from(0), scalar("axis", "axis", "Tidx")},
       .fields = {type_of(0), input_count("N")},
       .is_direct = [](const Node& node) { return node.inputs().size() > 1; },
       .expand = [](NodeWriter& w) { w.result = {w.op("Identity", {w.in(0)})}; }});
  add(expanded("ConcatGrad", any_number, expand_concat_grad));
  add({.op = "DynamicStitch",
       .inputs = any_number,
       .tensorflow = "DynamicStitch",
       .input_rules = {rest_from(0)},
       .fields = {type_of(-1), pair_count("N")}});
  add(expanded("SequenceMask", 1, expand_sequence_mask));
  add(expanded("Snapshot", 1, expand_identity));  // TensorFlow's op of that name has no gradient
  add({.op = "Pack",
       .inputs = any_number,
       .tensorflow = "Pack",
       .input_rules = {rest_from(0)},
       .fields = {type_of(0), input_count("N"), field("axis", "axis", std::int64_t{0})}});
  add({.op = "Unpack",
       .inputs = 1,
       .tensorflow = "Unpack",
       .input_rules = {in(0)},
       .fields = {type_of(0), output_count("num"), field("axis", "axis", std::int64_t{0})}});
  add({.op = "Split",
       .inputs = 1,
       .tensorflow = "Split",
       .input_rules = {scalar("axis", "split_dim"), in(0)},
       .fields = {type_of(0), field("num_split")}});
  add({.op = "SplitV",
       .inputs = 1,
       .tensorflow = "SplitV",
       .input_rules = {in(0), vector("size_splits", "size_splits", "Tlen"), scalar("axis", "split_dim")},
       .fields = {type_of(0), output_count("num_split")}});
  add({.op = "Slice",
       .inputs = 1,
       .tensorflow = "Slice",
       .input_rules = {in(0), vector("begin", "begin", "Index"), vector("size", "size", "Index")},
       .fields = {type_of(0)}});
  const std::vector<InputRule> region{vector("begin", "begin", "Index"), vector("end", "end", "Index"),
                                      vector("strides", "strides", "Index")};
  add(slicing("StridedSlice", {in(0), region[0], region[1], region[2]}, 1));
  OpRule update = slicing("TensorStridedSliceUpdate", {in(0), region[0], region[1], region[2], in(1)}, 2);
  update.is_direct = fills_whole_slice;
  update.expand = expand_slice_update;
  add(update);
  add(expanded("StridedSliceGrad", 2, expand_slice_grad));
  add({.op = "Tile",
       .inputs = 1,
       .tensorflow = "Tile",
       .input_rules = {in(0), vector("multiples", "multiples", "Tmultiples")},
       .fields = {type_of(0)}});
  add(expanded("Repeat", 1, expand_repeat, always));
  add(expanded("TileGrad", 2, expand_tile_grad, repeats_one_axis));
  add({.op = "PadV2",
       .inputs = 1,
       .tensorflow = "PadV2",
       .input_rules = {in(0), pairs("paddings", "paddings", "Tpaddings"), real("constant_values", "constant_values")},
       .fields = {type_of(0)}});
  add(expanded("PadGrad", 2, expand_pad_grad));
}

/// Ops that look elements up, or put them at places.
void add_lookups(const AddRule& add) {
  add({.op = "GatherV2",
       .inputs = 2,
       .tensorflow = "GatherV2",
       .input_rules = {in(0), in(1), scalar("axis", "axis", "Taxis")},
       .fields = {type_of(0, "Tparams"), type_of(1, "Tindices"), fixed("batch_dims", std::int64_t{0})}});
  add({.op = "GatherNd",
       .inputs = 2,
       .tensorflow = "GatherNd",
       .input_rules = {in(0), in(1)},
       .fields = {type_of(0, "Tparams"), type_of(1, "Tindices")}});
  for (const char* op : {"UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd", "UnsortedSegmentSum"})
    add(expanded(op, 3, expand_segments, is_behind_first));
  add(expanded("ScatterNd", 3, expand_scatter_nd));
  add(expanded("TakeAlongAxis", 2, expand_take_along, is_before_last));
  add(expanded("PutAlongAxis", 3, expand_put_along, is_before_last));
  add({.op = "TopKV2",
       .inputs = 1,
       .tensorflow = "TopKV2",
       .input_rules = {in(0), scalar("k", "k")},
       .fields = {type_of(0), fixed("sorted", true)},
       .is_direct = is_largest_known,
       .expand = expand_top_k});
}

/// Convolutions and pooling.
void add_images(const AddRule& add) {
  OpRule conv = plain("Conv2D", 2);
  conv.fields = {type_of(0),
                 field("strides"),
                 field("padding"),
                 field("explicit_paddings", "explicit_paddings", ListDef{}),
                 field("dilations", "dilations", ListDef{.ints = {1, 1, 1, 1}}),
                 fixed("data_format", nhwc)};
  conv.is_direct = has_one_group;
  conv.expand = expand_conv;
  conv.implied = {{"groups", std::int64_t{1}}};
  add(conv);
  add(expanded("Conv2DBackpropInput", 3, expand_conv_backprop_input));
  add(expanded("Conv2DBackpropFilter", 3, expand_conv_backprop_filter));
  add(pooling("MaxPool", 1, true));
  OpRule average = pooling("AvgPool", 1, false);
  average.expand = expand_avg_pool;
  add(average);
  add(pooling("MaxPoolGrad", 3, true));
  add(pooling("MaxPoolGradGrad", 3, false));
  add(expanded("AvgPoolGrad", 2, expand_avg_pool_grad));
}

void add_random_numbers(const AddRule& add) {
  add(random("RandomStandardNormal", "mean", "stddev", expand_normal));
  add(random("TruncatedNormal", "mean", "stddev", expand_normal));
  add(random("RandomUniform", "minval", "maxval", expand_uniform));
  add(expanded("RandomUniformInt", none_or_one, expand_uniform_int));
  add(expanded("RandomBernoulli", none_or_one, expand_bernoulli));
  add({.op = "Multinomial",
       .inputs = 1,
       .tensorflow = "Multinomial",
       .input_rules = {in(0), scalar("num_samples", "num_samples")},
       .fields = {type_of(0), result_type("output_dtype", int64), fixed("seed", std::int64_t{0}),
                  fixed("seed2", std::int64_t{0})}});
  add(expanded("RandomPermutation", none_or_one, expand_permutation));
}

}  // namespace

std::vector<OpRule> op_table() {
  std::vector<OpRule> rules;
  const AddRule add = [&](OpRule rule) { rules.push_back(std::move(rule)); };
  for (auto* family : {add_functions, add_products, add_reductions, add_shapes, add_types, add_slices, add_lookups,
                       add_images, add_random_numbers})
    family(add);
  return rules;
}

namespace {

/// Other names that older and newer graphs of TensorFlow have for the same ops.
struct Alias {
  std::string_view tensorflow, op;
};
constexpr std::array aliases = std::to_array<Alias>({{"Add", "AddV2"},
                                                     {"BatchCholesky", "Cholesky"},
                                                     {"BatchMatMul", "BatchMatMulV2"},
                                                     {"BatchMatMulV3", "BatchMatMulV2"},
                                                     {"BatchMatrixBandPart", "MatrixBandPart"},
                                                     {"BatchMatrixDiagPart", "MatrixDiagPart"},
                                                     {"BatchMatrixDeterminant", "MatrixDeterminant"},
                                                     {"BatchMatrixInverse", "MatrixInverse"},
                                                     {"BatchMatrixSetDiag", "MatrixSetDiag"},
                                                     {"BatchMatrixSolve", "MatrixSolve"},
                                                     {"BatchMatrixTriangularSolve", "MatrixTriangularSolve"},
                                                     {"BatchSelfAdjointEigV2", "SelfAdjointEigV2"},
                                                     {"BatchSvd", "Svd"},
                                                     {"BiasAddV1", "BiasAdd"},
                                                     {"ConjugateTranspose", "Transpose"},
                                                     {"Div", "RealDiv"},
                                                     {"Inv", "Reciprocal"},
                                                     {"Round", "Rint"},
                                                     {"PreventGradient", "Identity"}});

constexpr std::array state_ops = std::to_array<std::string_view>({"Const",
                                                                  "Placeholder",
                                                                  "NoOp",
                                                                  "VarHandleOp",
                                                                  "ReadVariableOp",
                                                                  "VarIsInitializedOp",
                                                                  "AssignVariableOp",
                                                                  "AssignAddVariableOp",
                                                                  "AssignSubVariableOp",
                                                                  "LearningRate",
                                                                  "ResourceApplyGradientDescent",
                                                                  "ResourceApplyMomentum",
                                                                  "ResourceApplyNesterovMomentum",
                                                                  "ResourceApplyAdam",
                                                                  "ResourceApplyAdamW",
                                                                  "ResourceApplyRMSProp",
                                                                  "ResourceApplyAdagradV2",
                                                                  "ResourceSparseApplyGradientDescent",
                                                                  "ResourceSparseApplyMomentum",
                                                                  "ResourceSparseApplyNesterovMomentum",
                                                                  "ResourceSparseApplyAdam",
                                                                  "ResourceSparseApplyAdamW",
                                                                  "ResourceSparseApplyRMSProp",
                                                                  "ResourceSparseApplyAdagradV2",
                                                                  "If",
                                                                  "StatelessIf",
                                                                  "Case",
                                                                  "StatelessCase",
                                                                  "While",
                                                                  "StatelessWhile",
                                                                  "AllReduce",
                                                                  "AllReduceStart",
                                                                  "AllReduceWait",
                                                                  "AllGather",
                                                                  "Barrier",
                                                                  "Broadcast",
                                                                  "BroadcastGrad",
                                                                  "ReduceScatter"});

}  // namespace

std::string_view op_of_alias(std::string_view tensorflow) {
  const auto* found =
      std::find_if(aliases.begin(), aliases.end(), [&](const Alias& each) { return each.tensorflow == tensorflow; });
  return found == aliases.end() ? tensorflow : found->op;
}

bool is_state_op(std::string_view op) {
  static const auto& sorted = *new auto([] {
    auto names = state_ops;
    std::sort(names.begin(), names.end());
    return names;
  }());
  return std::binary_search(sorted.begin(), sorted.end(), op);
}

}  // namespace tapestry::io
