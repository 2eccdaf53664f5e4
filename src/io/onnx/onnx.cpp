/// onnx.proto: ModelProto and GraphProto. The numbers of the fields are ONNX's.

#include "tapestry/onnx.hpp"

#include <mutex>

#include "core/locate.hpp"
#include "io/file.hpp"
#include "io/onnx/onnx_writer.hpp"
#include "io/signature.hpp"
#include "io/wire.hpp"

namespace tapestry::onnx {
namespace {

using io::add_message;
using io::OnnxGraph;
using protozero::pbf_writer;
using Tensors = std::map<std::string, Tensor>;

/// Opset 18 belongs to version 8 of the format.
constexpr std::int64_t format_version = 8, opset_version = 18;
/// The size of the largest message that protobuf reads.
constexpr std::size_t most_bytes = (std::size_t{1} << 31) - 1;

class Model {
 public:
  explicit Model(const Signature& signature) : signature_(signature), writer_(bytes_), graph_(writer_) {}

  /// Encodes the GraphProto.
  std::string encode() {
    writer_.add_string(2, "tapestry");
    take_names();
    tapestry::Tensors outputs;
    for (const auto& [name, tensor] : signature_.outputs) outputs.push_back(tensor);
    io::write_onnx_nodes(graph_, outputs);
    for (const auto& [name, tensor] : signature_.outputs) graph_.add({"Identity", {graph_.value(tensor)}, {name}, {}});
    int batches = 0;
    for (const auto& [name, tensor] : signature_.inputs)
      batches += tensor.shape().has_rank() && tensor.shape().rank() > 0 && tensor.shape().sizes()[0] < 0;
    write_values(11, signature_.inputs, [&](const std::string& name, int axis) {
      if (axis > 0) return detail::join(name, '_', axis);
      return batches == 1 ? std::string("batch") : name + "_batch";
    });
    write_values(12, signature_.outputs, [](const std::string&, int) { return std::string(); });
    return std::move(bytes_);
  }

 private:
  void take_names() {
    for (const auto* list : {&signature_.inputs, &signature_.outputs})
      for (const auto& [name, tensor] : *list)
        if (name.empty() || graph_.unique(name) != name)
          throw InvalidArgumentError(detail::join("ONNX needs a name of its own for each input and output, but '", name,
                                                  name.empty() ? "' is none" : "' is two"));
    for (const auto& [name, tensor] : signature_.inputs) graph_.name(tensor, name);
  }

  template <class SizeName>
  void write_values(protozero::pbf_tag_type tag, const Tensors& tensors, SizeName size_name) {
    for (const auto& [name, tensor] : tensors)
      io::write_value_info(writer_, tag, name, tensor.spec(),
                           [&, &key = name](int axis) { return size_name(key, axis); });
  }

  const Signature& signature_;
  std::string bytes_;
  pbf_writer writer_;
  OnnxGraph graph_;
};

std::string encode(const Signature& signature) {
  std::string bytes;
  pbf_writer model(bytes);
  model.add_int64(1, format_version);
  model.add_string(2, "Tapestry");
  model.add_message(7, Model(signature).encode());
  add_message(model, 8, [](pbf_writer& opset) { opset.add_int64(2, opset_version); });
  return bytes;
}

}  // namespace

void save(const std::string& path, const Signature& signature, Where where) {
  locating({}, where, [&] {
    const Graph graph = io::graph_of(signature);
    const std::lock_guard lock(graph.state()->mutex());
    const std::string bytes = encode(signature);
    if (bytes.size() > most_bytes) throw UnimplementedError("An ONNX file is at most 2 GiB large");
    io::write_file(path, std::as_bytes(std::span(bytes)), where);
  });
}

}  // namespace tapestry::onnx
