/// onnx.proto: ModelProto and GraphProto, written. The numbers of the fields are ONNX's.

#include <mutex>
#include <set>

#include "io/file.hpp"
#include "io/onnx/onnx_ops.hpp"
#include "io/onnx/onnx_plugin.hpp"
#include "io/onnx/onnx_writer.hpp"
#include "io/signature.hpp"
#include "io/wire.hpp"

namespace tapestry::io {
namespace {

using protozero::pbf_writer;

/// The version of the format to which an opset, from 18 on, belongs.
std::int64_t format_of(std::int64_t opset) {
  if (opset < 19) return 8;
  if (opset < 21) return 9;
  return opset < 23 ? 10 : 11;
}
/// The size of the largest message that protobuf reads.
constexpr std::size_t most_message_bytes = (std::size_t{1} << 31) - 1;

/// The names and tensors of a model's inputs or outputs, in its order.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

NamedTensors in_order(const std::vector<TensorSpec>& specs, const std::map<std::string, Tensor>& tensors) {
  NamedTensors named;
  for (const TensorSpec& each : specs) named.emplace_back(each.name, tensors.at(each.name));
  return named;
}

class OnnxModelWriter {
 public:
  explicit OnnxModelWriter(const Model& model)
      : inputs_(in_order(model.inputs(), model.signature().inputs)),
        outputs_(in_order(model.outputs(), model.signature().outputs)),
        writer_(bytes_),
        graph_(writer_) {}

  /// Encodes the GraphProto.
  std::string encode() {
    writer_.add_string(2, "tapestry");
    take_names();
    Tensors outputs;
    for (const auto& [name, tensor] : outputs_) outputs.push_back(tensor);
    write_onnx_nodes(graph_, outputs);
    for (const auto& [name, tensor] : outputs_) graph_.add({"Identity", {graph_.value(tensor)}, {name}, {}});
    int batches = 0;
    for (const auto& [name, tensor] : inputs_)
      batches += tensor.shape().has_rank() && tensor.shape().rank() > 0 && tensor.shape().sizes()[0] < 0;
    write_values(11, inputs_, [&](const std::string& name, int axis) {
      if (axis > 0) return detail::join(name, '_', axis);
      return batches == 1 ? std::string("batch") : name + "_batch";
    });
    write_values(12, outputs_, [](const std::string&, int) { return std::string(); });
    return std::move(bytes_);
  }

  const std::map<std::string, std::int64_t>& opsets() const { return graph_.opsets().versions(); }

  /// The initializers that are trainable Variables, each on a line.
  std::string trained() const {
    std::string names;
    for (const std::string& each : graph_.trained()) names += (names.empty() ? "" : "\n") + each;
    return names;
  }

 private:
  void take_names() {
    for (const auto* list : {&inputs_, &outputs_})
      for (const auto& [name, tensor] : *list)
        if (name.empty() || graph_.unique(name) != name)
          throw InvalidArgumentError(detail::join("ONNX needs a name of its own for each input and output, but '", name,
                                                  name.empty() ? "' is none" : "' is two"));
    for (const auto& [name, tensor] : inputs_) graph_.name(tensor, name);
  }

  template <class SizeName>
  void write_values(protozero::pbf_tag_type tag, const NamedTensors& tensors, SizeName size_name) {
    for (const auto& [name, tensor] : tensors)
      write_value_info(writer_, tag, name, tensor.spec(), [&, &key = name](int axis) { return size_name(key, axis); });
  }

  NamedTensors inputs_, outputs_;
  std::string bytes_;
  pbf_writer writer_;
  OnnxGraph graph_;
};

std::string encode_onnx(const Model& model) {
  std::string bytes;
  pbf_writer writer(bytes);
  OnnxModelWriter graph(model);
  const std::string encoded = graph.encode();
  const std::map<std::string, std::int64_t>& opsets = graph.opsets();
  writer.add_int64(1, format_of(opsets.at("")));
  writer.add_string(2, "Tapestry");
  writer.add_message(7, encoded);
  for (const auto& [domain, version] : opsets)
    add_message(writer, 8, [&, &domain = domain, &version = version](pbf_writer& opset) {
      if (!domain.empty()) opset.add_string(1, domain);
      opset.add_int64(2, version);
    });
  add_message(writer, 14, [&](pbf_writer& entry) {
    entry.add_string(1, onnx_trained.data(), onnx_trained.size());
    entry.add_string(2, graph.trained());
  });
  return bytes;
}

}  // namespace

void save_onnx(const std::string& path, const Model& model, Where where) {
  const Graph graph = graph_of(model.signature());
  const std::lock_guard lock(graph.state()->mutex());
  const std::string bytes = encode_onnx(model);
  if (bytes.size() > most_message_bytes) throw UnimplementedError("An ONNX file is at most 2 GiB large");
  write_file(path, std::as_bytes(std::span(bytes)), where);
}

}  // namespace tapestry::io
