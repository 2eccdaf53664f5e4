/// The wire format of function.proto, op_def.proto and of NameAttrList. The numbers of the fields are TensorFlow's.

#include "io/tensorflow/function_def.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "io/wire.hpp"

namespace tapestry::io {
namespace {

/// The entry of a map from strings: its key and the bytes of its value.
std::pair<std::string, std::string_view> read_entry(WireReader reader) {
  std::pair<std::string, std::string_view> entry;
  while (reader.next()) {
    if (reader.tag() == 1) {
      entry.first = reader.get_text();
    } else if (reader.tag() == 2) {
      entry.second = reader.get_text();
    } else {
      reader.skip();
    }
  }
  return entry;
}

FunctionDef::Arg read_arg(WireReader reader) {
  FunctionDef::Arg arg;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        arg.name = reader.get_text();
        break;
      case 3:
        arg.type.value = reader.get_enum();
        break;
      case 4:
        arg.type_attr = reader.get_text();
        break;
      case 5:  // number_attr
      case 6:  // type_list_attr
        arg.is_list = arg.is_list || !reader.get_text().empty();
        break;
      default:
        reader.skip();
    }
  }
  return arg;
}

void read_signature(WireReader reader, FunctionDef& function) {
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        function.name = reader.get_text();
        break;
      case 2:
        function.inputs.push_back(read_arg(reader.get_message()));
        break;
      case 3:
        function.outputs.push_back(read_arg(reader.get_message()));
        break;
      default:
        reader.skip();
    }
  }
}

FunctionDef read_function(WireReader reader, std::int64_t& repeats, std::int64_t& nodes_left) {
  FunctionDef function;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        read_signature(reader.get_message(), function);
        break;
      case 3:
        if (--nodes_left < 0)
          throw ResourceExhaustedError(
              detail::join("The functions of the graph have more nodes than a graph may have (GraphLimits::nodes)"));
        function.nodes.push_back(decode_node(reader.get_text(), repeats));
        break;
      case 4: {
        const auto [name, input] = read_entry(reader.get_message());
        function.returns.insert_or_assign(name, std::string(input));
        break;
      }
      case 6:
        function.control_returns.emplace_back(read_entry(reader.get_message()).second);
        break;
      default:
        reader.skip();
    }
  }
  return function;
}

/// The ops with several outputs that functions may have, and the names of these. Ops with lists among several outputs
/// are left out.
struct OutputNames {
  std::string_view op;
  std::array<std::string_view, 7> outputs;
};
constexpr OutputNames output_names[] = {
    {"BatchNormWithGlobalNormalizationGrad", {"dx", "dm", "dv", "db", "dg"}},
    {"BlockLSTM", {"i", "cs", "f", "o", "ci", "co", "h"}},
    {"BlockLSTMV2", {"i", "cs", "f", "o", "ci", "co", "h"}},
    {"BroadcastGradientArgs", {"r0", "r1"}},
    {"CTCGreedyDecoder", {"decoded_indices", "decoded_values", "decoded_shape", "log_probability"}},
    {"CTCLoss", {"loss", "gradient"}},
    {"CTCLossV2", {"loss", "gradient"}},
    {"CombinedNonMaxSuppression", {"nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections"}},
    {"CudnnRNNV3", {"output", "output_h", "output_c", "reserve_space", "host_reserved"}},
    {"DecodeWav", {"audio", "sample_rate"}},
    {"DeserializeSparse", {"sparse_indices", "sparse_values", "sparse_shape"}},
    {"Eig", {"e", "v"}},
    {"FakeQuantWithMinMaxVarsGradient", {"backprops_wrt_input", "backprop_wrt_min", "backprop_wrt_max"}},
    {"FusedBatchNorm", {"y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"}},
    {"FusedBatchNormGrad", {"x_backprop", "scale_backprop", "offset_backprop", "reserve_space_3", "reserve_space_4"}},
    {"FusedBatchNormGradV2", {"x_backprop", "scale_backprop", "offset_backprop", "reserve_space_3", "reserve_space_4"}},
    {"FusedBatchNormGradV3", {"x_backprop", "scale_backprop", "offset_backprop", "reserve_space_4", "reserve_space_5"}},
    {"FusedBatchNormV2", {"y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"}},
    {"FusedBatchNormV3",
     {"y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"}},
    {"GRUBlockCell", {"r", "u", "c", "h"}},
    {"LSTMBlockCell", {"i", "cs", "f", "o", "ci", "co", "h"}},
    {"ListDiff", {"out", "idx"}},
    {"LogMatrixDeterminant", {"sign", "log_abs_determinant"}},
    {"LookupTableExportV2", {"keys", "values"}},
    {"Lu", {"lu", "p"}},
    {"MaxPoolWithArgmax", {"output", "argmax"}},
    {"Merge", {"output", "value_index"}},
    {"NonMaxSuppressionV4", {"selected_indices", "valid_outputs"}},
    {"NonMaxSuppressionV5", {"selected_indices", "selected_scores", "valid_outputs"}},
    {"Qr", {"q", "r"}},
    {"RaggedRange", {"rt_nested_splits", "rt_dense_values"}},
    {"RaggedTensorToSparse", {"sparse_indices", "sparse_values", "sparse_dense_shape"}},
    {"SampleDistortedBoundingBoxV2", {"begin", "size", "bboxes"}},
    {"SelfAdjointEigV2", {"e", "v"}},
    {"SoftmaxCrossEntropyWithLogits", {"loss", "backprop"}},
    {"SparseAdd", {"sum_indices", "sum_values", "sum_shape"}},
    {"SparseConcat", {"output_indices", "output_values", "output_shape"}},
    {"SparseCross", {"output_indices", "output_values", "output_shape"}},
    {"SparseCrossV2", {"output_indices", "output_values", "output_shape"}},
    {"SparseFillEmptyRows", {"output_indices", "output_values", "empty_row_indicator", "reverse_index_map"}},
    {"SparseReorder", {"output_indices", "output_values"}},
    {"SparseReshape", {"output_indices", "output_shape"}},
    {"SparseSlice", {"output_indices", "output_values", "output_shape"}},
    {"SparseSoftmaxCrossEntropyWithLogits", {"loss", "backprop"}},
    {"StatelessRandomGetKeyCounter", {"key", "counter"}},
    {"StatelessRandomGetKeyCounterAlg", {"key", "counter", "alg"}},
    {"StringSplit", {"indices", "values", "shape"}},
    {"StringSplitV2", {"indices", "values", "shape"}},
    {"Svd", {"s", "u", "v"}},
    {"Switch", {"output_false", "output_true"}},
    {"TensorArrayGradV3", {"grad_handle", "flow_out"}},
    {"TensorArrayV3", {"handle", "flow"}},
    {"TensorListConcat", {"tensor", "lengths"}},
    {"TensorListConcatV2", {"tensor", "lengths"}},
    {"TensorListPopBack", {"output_handle", "tensor"}},
    {"TopK", {"values", "indices"}},
    {"TopKV2", {"values", "indices"}},
    {"UnicodeDecode", {"row_splits", "char_values"}},
    {"UnicodeDecodeWithOffsets", {"row_splits", "char_values", "char_to_byte_starts"}},
    {"Unique", {"y", "idx"}},
    {"UniqueV2", {"y", "idx"}},
    {"UniqueWithCounts", {"y", "idx", "count"}},
    {"UniqueWithCountsV2", {"y", "idx", "count"}},
};

WireReader reader_of(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

[[noreturn]] void refuse_library() { throw DataLossError("The functions of the graph are damaged"); }

/// The bytes of an attribute that is kept undecoded (RawAttr); none for any other attribute.
std::string_view raw_bytes(const AttrDef& attr) {
  const auto* raw = std::get_if<RawAttr>(&attr);
  return raw ? std::string_view(raw->bytes) : std::string_view();
}

/// The last field of that number in an AttrValue.
std::string_view field_of(std::string_view attr, protozero::pbf_tag_type tag) {
  std::string_view found;
  WireReader reader = reader_of(attr);
  while (reader.next()) {
    if (reader.tag() == tag) {
      found = reader.get_text();
    } else {
      reader.skip();
    }
  }
  return found;
}

}  // namespace

std::vector<FunctionDef> decode_library(std::string_view bytes, const GraphLimits& limits) {
  try {
    std::vector<FunctionDef> functions;
    auto repeats = static_cast<std::int64_t>(bytes.size());
    std::int64_t nodes_left = limits.nodes;
    WireReader reader = reader_of(bytes);
    while (reader.next()) {
      if (reader.tag() == 1) {
        functions.push_back(read_function(reader.get_message(), repeats, nodes_left));
      } else {
        reader.skip();
      }
    }
    return functions;
  } catch (const protozero::exception&) {
    refuse_library();
  }
}

FunctionName function_named_by(const AttrDef& attr) {
  try {
    FunctionName function;
    const std::string_view bytes = field_of(raw_bytes(attr), 10);
    auto repeats = static_cast<std::int64_t>(bytes.size());
    WireReader reader = reader_of(bytes);
    while (reader.next()) {
      if (reader.tag() == 1) {
        function.name = reader.get_text();
      } else if (reader.tag() == 2) {
        const auto [name, value] = read_entry(reader.get_message());
        function.attrs.insert_or_assign(name, decode_attr(value, repeats));
      } else {
        reader.skip();
      }
    }
    return function;
  } catch (const protozero::exception&) {
    refuse_library();
  }
}

std::string placeholder_of(const AttrDef& attr) {
  try {
    return std::string(field_of(raw_bytes(attr), 9));
  } catch (const protozero::exception&) {
    refuse_library();
  }
}

bool names_function(const AttrDef& attr) {
  try {
    const std::string_view bytes = raw_bytes(attr);
    return !field_of(bytes, 10).empty() || !field_of(field_of(bytes, 1), 9).empty();
  } catch (const protozero::exception&) {
    refuse_library();
  }
}

std::int64_t first_output(std::string_view op, std::string_view output) {
  const auto* row = std::find_if(std::begin(output_names), std::end(output_names),
                                 [&](const OutputNames& each) { return each.op == op; });
  if (row == std::end(output_names)) return 0;
  const auto* found = std::find(row->outputs.begin(), row->outputs.end(), output);
  if (found == row->outputs.end())
    throw InvalidArgumentError(detail::join("TensorFlow's op '", op, "' has no output '", output, "'"));
  return found - row->outputs.begin();
}

}  // namespace tapestry::io
