/// onnx.proto: ModelProto and GraphProto. The numbers of the fields are ONNX's.

#include "tapestry/onnx.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <set>

#include "core/locate.hpp"
#include "graph/state_ops.hpp"
#include "io/composition.hpp"
#include "io/file.hpp"
#include "io/onnx/onnx_writer.hpp"
#include "io/signature.hpp"
#include "io/tensorflow/update_writer.hpp"
#include "io/wire.hpp"
#include "ops/handles.hpp"

namespace tapestry::onnx {
namespace {

using detail::endpoint_of;
using detail::Node;
using io::add_message;
using io::OnnxGraph;
using io::OnnxWriter;
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
    for (const auto& [name, tensor] : signature_.outputs) need(tensor);
    check_changes();
    for (const Node* node : needed_) write(*node);
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
  struct InOrder {
    bool operator()(const Node* a, const Node* b) const { return a->index < b->index; }
  };
  using Nodes = std::set<const Node*, InOrder>;

  void take_names() {
    for (const auto* list : {&signature_.inputs, &signature_.outputs})
      for (const auto& [name, tensor] : *list)
        if (name.empty() || graph_.unique(name) != name)
          throw InvalidArgumentError(detail::join("ONNX needs a name of its own for each input and output, but '", name,
                                                  name.empty() ? "' is none" : "' is two"));
    for (const auto& [name, tensor] : signature_.inputs) graph_.name(tensor, name);
  }

  void need(const Tensor& tensor) {
    std::vector<Tensor> pending{tensor};
    while (!pending.empty()) {
      const Tensor next = pending.back();
      pending.pop_back();
      if (graph_.has(next)) continue;
      graph_.note_use(next);
      const Node* node = endpoint_of(next).node;
      if (!needed_.insert(node).second || &node->op() == &read_variable_op) continue;
      pending.insert(pending.end(), node->inputs().begin(), node->inputs().end());
    }
  }

  /// Throws if a needed node changes a Variable or runs after a change: the file has the Variables' present values.
  void check_changes() {
    Nodes seen = needed_;
    std::vector<const Node*> pending(seen.begin(), seen.end());
    while (!pending.empty()) {
      const Node& node = *pending.back();
      pending.pop_back();
      if (node.op().stateful && node.attrs().find("variables") && &node.op() != &var_handle_op &&
          &node.op() != &read_variable_op)
        OnnxWriter(node, graph_).refuse("it changes a Variable");
      const auto visit = [&](const Node* other) {
        if (seen.insert(other).second) pending.push_back(other);
      };
      for (const Node* control : node.control_inputs) visit(control);
      if (needed_.contains(&node)) continue;
      for (const Tensor& input : node.inputs()) visit(endpoint_of(input).node);
    }
  }

  void write(const Node& node) {
    const Op& op = node.op();
    OnnxWriter writer(node, graph_);
    for (const Tensor& each : node.outputs())
      if (each.dtype() == DType::unknown) writer.refuse("its dtype is not known yet");
    if (detail::awaited_values(node)) writer.refuse("it waits for a shape that the graph computes");
    if (&op == &placeholder_op) throw io::never_fed(node.name());
    if (&op == &const_op) return write_constant(node, node.name(), node.attr<Tensor>("value"));
    if (&op == &read_variable_op)
      return write_constant(node, endpoint_of(node.input(0)).node->name(), io::variable_of(node).cell()->load());
    if (node.inputs().empty() && !op.stateful && &op != &ops::fill) {
      const ExecuteNow now;
      return write_constant(node, node.name(), apply_all(op, {}, node.attrs(), {}, node.where())[0]);
    }
    const auto lack = io::write_onnx(writer);
    if (!lack) return;
    if (!op.composition) writer.refuse(*lack);
    write_composition(writer);
  }

  /// Writes the composition of the node's op in place of the node.
  void write_composition(OnnxWriter& writer) {
    const Node& node = writer.node();
    const io::ComposedGraph& composed = compositions_.emplace_back(io::compose(node));
    for (std::size_t i = 0; i < composed.inputs.size(); ++i)
      graph_.name(composed.inputs[i], graph_.value(node.input(i)));
    const auto is_used = [&](const Node& each) {
      return std::any_of(each.outputs().begin(), each.outputs().end(),
                         [&](const Tensor& output) { return graph_.is_used(output); });
    };
    const auto& inner = *composed.graph;
    for (std::size_t i = 0; i < composed.outputs.size(); ++i)
      if (writer.is_used(i)) graph_.note_use(composed.outputs[i]);
    for (std::size_t i = inner.size(); i-- > composed.inputs.size();)
      for (const Tensor& input : inner.node(i).inputs())
        if (is_used(inner.node(i))) graph_.note_use(input);
    for (std::size_t i = composed.inputs.size(); i < inner.size(); ++i)
      if (is_used(inner.node(i))) write(inner.node(i));
    for (std::size_t i = 0; i < composed.outputs.size(); ++i)
      if (writer.is_used(i) && !graph_.has(node.output(i)))
        graph_.name(node.output(i), graph_.value(composed.outputs[i]));
  }

  void write_constant(const Node& node, const std::string& name, const Tensor& value) {
    const std::string unique = graph_.unique(name);
    graph_.add_initializer(unique, value);
    graph_.name(node.output(), unique);
  }

  /// Writes ValueInfoProtos.
  template <class SizeName>
  void write_values(protozero::pbf_tag_type tag, const Tensors& tensors, SizeName size_name) {
    for (const auto& [name, tensor] : tensors)
      add_message(writer_, tag, [&, key = name, &value = tensor](pbf_writer& info) {
        info.add_string(1, key);
        add_message(info, 2, [&](pbf_writer& type) {
          add_message(type, 1, [&](pbf_writer& tensor_type) {
            tensor_type.add_int64(1, io::onnx_type(value.dtype()));
            if (!value.shape().has_rank()) return;
            add_message(tensor_type, 2, [&](pbf_writer& shape) {
              for (int axis = 0; axis < value.shape().rank(); ++axis)
                add_message(shape, 1, [&](pbf_writer& size) {
                  const std::int64_t known = value.shape().sizes()[axis];
                  if (known >= 0) return size.add_int64(1, known);
                  if (const std::string symbol = size_name(key, axis); !symbol.empty()) size.add_string(2, symbol);
                });
            });
          });
        });
      });
  }

  const Signature& signature_;
  std::string bytes_;
  pbf_writer writer_;
  OnnxGraph graph_;
  Nodes needed_;
  std::deque<io::ComposedGraph> compositions_;  ///< kept, as `graph_` knows values by their nodes
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
