/// TensorFlow's saved_model.proto and meta_graph.proto. The numbers of the fields are TensorFlow's.

#include "tapestry/saved_model.hpp"

#include <filesystem>
#include <set>
#include <system_error>
#include <unordered_map>

#include "core/locate.hpp"
#include "io/file.hpp"
#include "io/signature.hpp"
#include "io/tensorflow/graph_export.hpp"
#include "io/wire.hpp"

namespace tapestry::saved_model {
namespace {

using io::add_message;
using protozero::pbf_writer;
using Tensors = std::map<std::string, Tensor>;

/// The name as the nodes of a file have it among their inputs: "x" for "x:0"; others, such as "x:1" or "^x", stay.
std::string_view endpoint(std::string_view name) {
  return name.substr(0, name.size() - (name.ends_with(":0") ? 2 : 0));
}

/// The nodes that compute some endpoints, in the order of the file. The search ends before the endpoints in `stops`.
std::vector<const io::NodeDef*> nodes_behind(const std::set<std::string, std::less<>>& ends, const io::GraphDef& file,
                                             const std::set<std::string, std::less<>>& stops) {
  std::unordered_map<std::string_view, const io::NodeDef*> by_name;
  for (const io::NodeDef& node : file.nodes) by_name.emplace(node.name, &node);
  std::set<const io::NodeDef*> found;
  std::vector<const io::NodeDef*> pending;
  const auto need = [&](std::string_view input) {
    if (stops.contains(input)) return;
    input.remove_prefix(input.starts_with('^') ? 1 : 0);
    const io::NodeDef* node = by_name.at(input.substr(0, input.find(':')));
    if (found.insert(node).second) pending.push_back(node);
  };
  for (const std::string& end : ends) need(end);
  while (!pending.empty()) {
    const io::NodeDef* node = pending.back();
    pending.pop_back();
    for (const std::string& input : node->inputs) need(endpoint(input));
  }
  std::vector<const io::NodeDef*> nodes;
  for (const io::NodeDef& node : file.nodes)
    if (found.contains(&node)) nodes.push_back(&node);
  return nodes;
}

std::set<std::string, std::less<>> endpoints_of(const Tensors& tensors) {
  std::set<std::string, std::less<>> names;
  for (const auto& [name, tensor] : tensors) names.emplace(endpoint(tensor.name()));
  return names;
}

/// Throws if the file has left out a tensor of the signature.
void check_whole(const Signature& signature, const io::GraphDef& file) {
  std::set<std::string_view> names;
  for (const io::NodeDef& node : file.nodes) names.insert(node.name);
  for (const Tensors* list : {&signature.inputs, &signature.outputs})
    for (const auto& [name, tensor] : *list)
      if (!names.contains(tensor.op().name()))
        throw UnimplementedError(
            detail::join("'", name, "' of the signature comes after a change of a Variable, which ",
                         "a model with fixed values cannot make"),
            tensor.op().where());
}

/// The subgraph of the file that the signature needs. Throws for a placeholder that would never be fed.
io::GraphDef part_for(const Signature& signature, const io::GraphDef& file) {
  check_whole(signature, file);
  std::set<std::string, std::less<>> ends = endpoints_of(signature.outputs);
  const std::set<std::string, std::less<>> inputs = endpoints_of(signature.inputs);
  for (const io::NodeDef* node : nodes_behind(ends, file, inputs))
    if (node->op == "Placeholder") throw io::never_fed(node->name);
  ends.insert(inputs.begin(), inputs.end());
  io::GraphDef part;
  for (const io::NodeDef* node : nodes_behind(ends, file, {})) part.nodes.push_back(*node);
  return part;
}

void write_tensors(pbf_writer& writer, protozero::pbf_tag_type tag, const Tensors& tensors) {
  for (const auto& [name, tensor] : tensors)
    add_message(writer, tag, [&, key = name, &value = tensor](pbf_writer& entry) {
      entry.add_string(1, key);
      add_message(entry, 2, [&](pbf_writer& info) {
        info.add_string(1, value.name());
        info.add_enum(2, io::code_of(value.dtype()).value);
        add_message(info, 3, [&](pbf_writer& shape) { io::write_shape(shape, value.shape()); });
      });
    });
}

std::string encode(const io::GraphDef& graph, const Signature& signature) {
  std::string bytes;
  pbf_writer file(bytes);
  file.add_int64(1, 1);  // the version of the format
  add_message(file, 2, [&](pbf_writer& meta_graph) {
    add_message(meta_graph, 1, [](pbf_writer& info) { info.add_string(4, "serve"); });
    meta_graph.add_message(2, io::encode(graph));
    add_message(meta_graph, 5, [&](pbf_writer& entry) {
      entry.add_string(1, "serving_default");
      add_message(entry, 2, [&](pbf_writer& definition) {
        write_tensors(definition, 1, signature.inputs);
        write_tensors(definition, 2, signature.outputs);
        definition.add_string(3, "tensorflow/serving/predict");
      });
    });
  });
  return bytes;
}

}  // namespace

void save(const std::string& folder, const Signature& signature, Where where) {
  locating({}, where, [&] {
    const Graph graph = io::graph_of(signature);
    const io::GraphDef file = io::export_graph(*graph.state(), {.variables = VariableStyle::frozen});
    const std::string bytes = encode(part_for(signature, file), signature);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    io::write_file(std::filesystem::path(folder) / "saved_model.pb", std::as_bytes(std::span(bytes)), where);
  });
}

}  // namespace tapestry::saved_model
