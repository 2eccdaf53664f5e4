/// TensorFlow's saved_model.proto and meta_graph.proto. The numbers of the fields are TensorFlow's.

#include "tapestry/saved_model.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <unordered_map>

#include "core/locate.hpp"
#include "io/file.hpp"
#include "io/signature.hpp"
#include "io/tensorflow/graph_export.hpp"
#include "io/tensorflow/saver.hpp"
#include "io/tensorflow/tensor_bundle.hpp"
#include "io/wire.hpp"

namespace tapestry::saved_model {
namespace {

using io::add_message;
using protozero::pbf_writer;
using Tensors = std::map<std::string, Tensor>;
using Signatures = std::map<std::string, Signature>;
using io::Saver;

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

void add_endpoints(std::set<std::string, std::less<>>& names, const Tensors& tensors) {
  for (const auto& [name, tensor] : tensors) names.emplace(endpoint(tensor.name()));
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

/// The subgraph of the file that the signatures need. Throws for a placeholder that would never be fed.
io::GraphDef part_for(const Signatures& signatures, const io::GraphDef& file) {
  std::set<std::string, std::less<>> all;
  for (const auto& [name, signature] : signatures) {
    check_whole(signature, file);
    std::set<std::string, std::less<>> ends, inputs;
    add_endpoints(ends, signature.outputs);
    add_endpoints(inputs, signature.inputs);
    for (const io::NodeDef* node : nodes_behind(ends, file, inputs))
      if (node->op == "Placeholder") throw io::never_fed(node->name);
    all.merge(ends);
    all.merge(inputs);
  }
  io::GraphDef part{.library = file.library};
  for (const io::NodeDef* node : nodes_behind(all, file, {})) part.nodes.push_back(*node);
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

/// The collection of this name, with its Variables.
void write_collection(pbf_writer& meta_graph, const std::string& key, const Saver& saver) {
  add_message(meta_graph, 4, [&](pbf_writer& entry) {
    entry.add_string(1, key);
    add_message(entry, 2, [&](pbf_writer& collection) {
      add_message(collection, 2, [&](pbf_writer& list) {
        for (const Saver::Part& each : saver.variables) {
          if (key == graph_keys::trainable_variables && !each.trainable) continue;
          add_message(list, 1, [&](pbf_writer& variable) {
            variable.add_string(1, each.variable + ":0");
            variable.add_string(2, each.assign);
            variable.add_string(3, each.read + ":0");
            variable.add_bool(5, true);  // a resource
            variable.add_bool(7, each.trainable);
          });
        }
      });
    });
  });
}

void write_saver(pbf_writer& meta_graph, const Saver& saver) {
  add_message(meta_graph, 3, [&](pbf_writer& definition) {
    definition.add_string(1, saver.filename);
    definition.add_string(2, saver.save);
    definition.add_string(3, saver.restore);
    definition.add_enum(7, 2);  // checkpoint V2
  });
}

std::string encode(const io::GraphDef& graph, const Signatures& signatures, const Saver* saver = nullptr) {
  std::string bytes;
  pbf_writer file(bytes);
  file.add_int64(1, 1);  // the version of the format
  add_message(file, 2, [&](pbf_writer& meta_graph) {
    add_message(meta_graph, 1, [](pbf_writer& info) { info.add_string(4, "serve"); });
    meta_graph.add_message(2, io::encode(graph));
    if (saver) {
      write_saver(meta_graph, *saver);
      for (const std::string_view key : {graph_keys::trainable_variables, graph_keys::global_variables})
        write_collection(meta_graph, std::string(key), *saver);
    }
    for (const auto& [name, signature] : signatures)
      add_message(meta_graph, 5, [&, &key = name, &value = signature](pbf_writer& entry) {
        entry.add_string(1, key);
        add_message(entry, 2, [&](pbf_writer& definition) {
          write_tensors(definition, 1, value.inputs);
          write_tensors(definition, 2, value.outputs);
          definition.add_string(3, "tensorflow/serving/predict");
        });
      });
  });
  return bytes;
}

void write_model(const std::string& folder, const std::string& bytes, Where where) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  io::write_file(std::filesystem::path(folder) / "saved_model.pb", std::as_bytes(std::span(bytes)), where);
}

}  // namespace

void save(const std::string& folder, const Signature& signature, Where where) {
  locating({}, where, [&] {
    const Graph graph = io::graph_of(signature);
    const io::GraphDef file = io::export_graph(*graph.state(), {.variables = VariableStyle::frozen});
    const Signatures signatures{{"serving_default", signature}};
    write_model(folder, encode(part_for(signatures, file), signatures), where);
  });
}

void save(const std::string& folder, const Model& model, Where where) {
  locating({}, where, [&] {
    const Signatures& signatures = model.signatures();
    if (signatures.empty()) throw InvalidArgumentError("The model has no signature to be saved with");
    const Graph graph = model.graph();
    tapestry::Tensors ends;
    for (const auto& [name, signature] : signatures)
      for (const Tensors* list : {&signature.inputs, &signature.outputs})
        for (const auto& [key, tensor] : *list) ends.push_back(tensor);
    io::GraphDef part = part_for(signatures, io::export_part(*graph.state(), {}, ends));
    std::map<std::string_view, io::TypeCode> handles;
    for (const io::NodeDef& node : part.nodes)
      if (node.op == "VarHandleOp") handles.emplace(node.name, std::get<io::TypeCode>(node.attrs.at("dtype")));
    StateDict values;
    std::vector<Saver::Part> parts;
    for (const Variable& each : graph.variables()) {
      const std::string& name = detail::producer_of(graph.state()->variable_entry(each, where).handle).name();
      const auto found = handles.find(name);
      if (found == handles.end()) continue;
      values.emplace(name, each.cell()->load());
      parts.push_back({.variable = name, .type = found->second, .trainable = each.trainable()});
    }
    const bool has_variables = !parts.empty();
    const Saver saver = has_variables ? io::add_saver(part, std::move(parts)) : Saver();
    // The checkpoint is written first, so that a model that can be found is complete.
    if (has_variables) {
      const std::filesystem::path variables = std::filesystem::path(folder) / "variables";
      std::error_code error;
      std::filesystem::create_directories(variables, error);
      io::write_tensor_bundle(variables / "variables", values, where);
    }
    write_model(folder, encode(part, signatures, has_variables ? &saver : nullptr), where);
  });
}

}  // namespace tapestry::saved_model
