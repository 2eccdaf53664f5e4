/// TensorFlow's saved_model.proto and meta_graph.proto. The numbers of the fields are TensorFlow's.

#include "tapestry/saved_model.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <unordered_map>

#include "io/file.hpp"
#include "io/signature.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/gradient_writer.hpp"
#include "io/tensorflow/graph_export.hpp"
#include "io/tensorflow/nodes.hpp"
#include "io/tensorflow/object_graph.hpp"
#include "io/tensorflow/saved_model_extras.hpp"
#include "io/tensorflow/saver.hpp"
#include "io/tensorflow/tensor_bundle.hpp"
#include "io/wire.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry::saved_model {
namespace {

using io::add_message;
using protozero::pbf_writer;
using Tensors = std::map<std::string, Tensor>;
using Signatures = std::map<std::string, Signature>;
using detail::SavedModelExtras;
using io::Saver;

namespace fs = std::filesystem;

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
    const auto node = by_name.find(input.substr(0, input.find(':')));
    if (node == by_name.end()) throw InternalError(detail::join("The file lacks the node of '", input, "'"));
    if (found.insert(node->second).second) pending.push_back(node->second);
  };
  for (const std::string& end : ends) need(end);
  while (!pending.empty()) {
    const io::NodeDef* node = pending.back();
    pending.pop_back();
    for (const std::string& input : node->inputs) need(endpoint(input));
    for (const std::string& input : io::hinted(*node))
      need(endpoint(input));  // what our op takes, and TensorFlow's not
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

/// The subgraph of the file that the signatures and the initializer need. Throws for a placeholder that would never be
/// fed.
io::GraphDef part_for(const Signatures& signatures, const io::GraphDef& file, const std::string& initializer = {}) {
  std::set<std::string, std::less<>> all;
  if (!initializer.empty()) all.insert(initializer);
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
  std::set<std::string, std::less<>> names;
  const auto add = [&](const io::NodeDef& node) {
    if (names.insert(node.name).second) part.nodes.push_back(node);
  };
  for (const io::NodeDef* node : nodes_behind(all, file, {})) add(*node);
  // What the file that the graph was read from called these tensors.
  for (const io::NodeDef& node : file.nodes) {
    if (!node.op.starts_with("Identity") || !io::is_result_of_loop(node) || names.contains(node.name)) continue;
    if (std::ranges::all_of(node.inputs, [&](const std::string& each) {
          return names.contains(each.substr(0, each.find(':'))) || each.starts_with(node.name + "/");
        }))
      for (const io::NodeDef* each : nodes_behind({node.name}, file, {})) add(*each);
  }
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

/// The operation that a loader runs first, which reads the assets.
void write_initializer(pbf_writer& meta_graph, const std::string& operation) {
  add_message(meta_graph, 4, [&](pbf_writer& entry) {
    entry.add_string(1, "saved_model_main_op");
    add_message(entry, 2, [&](pbf_writer& collection) {
      add_message(collection, 1, [&](pbf_writer& nodes) { nodes.add_string(1, operation); });
    });
  });
}

void write_asset(pbf_writer& meta_graph, const SavedModelExtras::Asset& asset) {
  add_message(meta_graph, 6, [&](pbf_writer& definition) {
    add_message(definition, 1, [&](pbf_writer& info) { info.add_string(1, asset.tensor); });
    definition.add_string(2, asset.file);
  });
}

void write_signature(pbf_writer& meta_graph, const std::string& name, const Signature& signature) {
  add_message(meta_graph, 5, [&](pbf_writer& entry) {
    entry.add_string(1, name);
    add_message(entry, 2, [&](pbf_writer& definition) {
      write_tensors(definition, 1, signature.inputs);
      write_tensors(definition, 2, signature.outputs);
      definition.add_string(3, "tensorflow/serving/predict");
    });
  });
}

/// What a file has beside the graph and the signatures.
struct Parts {
  const SavedModelExtras& extras;
  std::optional<Saver> saver{};
  std::string objects{};  ///< the bytes of TensorFlow 2's objects; "" for none
};

std::string encode(const io::GraphDef& graph, const Signatures& signatures, const Parts& parts) {
  std::string bytes;
  pbf_writer file(bytes);
  file.add_int64(1, 1);  // the version of the format
  add_message(file, 2, [&](pbf_writer& meta_graph) {
    add_message(meta_graph, 1, [&](pbf_writer& info) {
      for (const std::string& tag : parts.extras.tags) info.add_string(4, tag);
    });
    meta_graph.add_message(2, io::encode(graph));
    if (parts.saver) {
      write_saver(meta_graph, *parts.saver);
      for (const std::string_view key : {graph_keys::trainable_variables, graph_keys::global_variables})
        write_collection(meta_graph, std::string(key), *parts.saver);
    }
    if (parts.extras.initializer) write_initializer(meta_graph, parts.extras.initializer->name());
    for (const auto& [name, signature] : signatures) write_signature(meta_graph, name, signature);
    for (const SavedModelExtras::Asset& each : parts.extras.assets) write_asset(meta_graph, each);
    if (!parts.objects.empty()) meta_graph.add_message(7, parts.objects);
  });
  return bytes;
}

// ---- TensorFlow 2's objects -----------------------------------------------------------------------------------------

/// A tensor of a signature as the function has it.
io::ConcreteFunction::Tensor tensor_in_function(const std::string& name, const Tensor& tensor) {
  return {std::string(endpoint(tensor.name())), name, io::code_of(tensor.dtype()), tensor.shape()};
}

/// The names of our functions begin so. Those of an earlier file are not written again.
constexpr std::string_view function_prefix = "__inference_tapestry_";

/// The objects of a model: its Variables, and a function for each signature, which has a copy of the nodes.
io::ObjectGraph objects_of(const Signatures& signatures, const io::GraphDef& part,
                           const std::vector<Variable>& variables, const std::vector<Saver::Part>& saved,
                           const detail::GraphState& graph, const io::NodeGradients& gradients) {
  io::ObjectGraph objects;
  std::set<std::string, std::less<>> all_handles;
  for (const Saver::Part& each : saved) all_handles.insert(each.variable);
  for (std::size_t i = 0; i < saved.size(); ++i)
    objects.variables.push_back({saved[i].variable, saved[i].type, variables[i].shape(), saved[i].trainable});
  for (const auto& [name, signature] : signatures) {
    io::ObjectGraph::SignatureObject object{.name = name};
    io::ConcreteFunction& function = object.function;
    function.name = detail::join(function_prefix, objects.signatures.size(), "_0");
    std::set<std::string, std::less<>> ends, inputs, handles;
    add_endpoints(ends, signature.outputs);
    add_endpoints(inputs, signature.inputs);
    for (const auto& [key, tensor] : signature.inputs) function.inputs.push_back(tensor_in_function(key, tensor));
    for (const auto& [key, tensor] : signature.outputs) function.outputs.push_back(tensor_in_function(key, tensor));
    for (const io::NodeDef* node : nodes_behind(ends, part, inputs))
      if (all_handles.contains(node->name)) {  // not that of a Variable of a type that Tapestry lacks
        handles.insert(node->name);
      } else {
        function.nodes.push_back(node);
      }
    for (std::size_t i = 0; i < saved.size(); ++i) {
      if (!handles.contains(saved[i].variable)) continue;
      const io::ObjectGraph::VariableObject& each = objects.variables[i];
      function.inputs.push_back({each.name, each.name, each.type, each.shape, true});
      object.variables.push_back(i);
    }
    io::add_gradients(object, graph, gradients);
    objects.signatures.push_back(std::move(object));
  }
  return objects;
}

void write_model(const std::string& folder, const std::string& bytes, Where where) {
  std::error_code error;
  fs::create_directories(folder, error);
  io::write_file(fs::path(folder) / "saved_model.pb", std::as_bytes(std::span(bytes)), where);
}

void copy_assets(const SavedModelExtras& extras, const fs::path& folder, Where where) {
  for (const SavedModelExtras::Asset& each : extras.assets) {
    const fs::path from = extras.folder / "assets" / each.file, to = folder / "assets" / each.file;
    std::error_code error;
    if (fs::equivalent(from, to, error)) continue;
    if (!fs::is_regular_file(from, error))
      throw NotFoundError(detail::join("The model needs the file ", from.string(), ", which is not there any more"),
                          where);
    fs::create_directories(to.parent_path(), error);
    if (!fs::copy_file(from, to, fs::copy_options::overwrite_existing, error))
      throw FailedPreconditionError(
          detail::join("Cannot copy ", from.string(), " to ", to.string(), ": ", error.message()), where);
  }
}

}  // namespace

void save(const std::string& folder, const Signature& signature, Where where) {
  detail::locating({}, where, [&] {
    const Graph graph = io::graph_of(signature);
    const io::GraphDef file = io::export_graph(*graph.state(), {.variables = VariableStyle::frozen});
    const Signatures signatures{{"serving_default", signature}};
    write_model(folder, encode(part_for(signatures, file), signatures, {.extras = {}}), where);
  });
}

void save(const std::string& folder, const Model& model, Where where) {
  detail::locating({}, where, [&] {
    const Signatures& signatures = model.signatures();
    if (signatures.empty()) throw InvalidArgumentError("The model has no signature to be saved with");
    const SavedModelExtras extras = model.extras() ? *model.extras() : SavedModelExtras();
    const Graph graph = model.graph();
    tapestry::Tensors ends;
    for (const auto& [name, signature] : signatures)
      for (const Tensors* list : {&signature.inputs, &signature.outputs})
        for (const auto& [key, tensor] : *list) ends.push_back(tensor);
    std::vector<detail::Node*> operations;
    if (extras.initializer) operations.push_back(extras.initializer);
    const io::NodeGradients gradients = io::gradients_to_write(*graph.state(), ends, operations);
    io::GraphDef file = io::export_part(*graph.state(), {}, ends, operations);
    io::pass_on_inputs(file, *graph.state(), gradients);
    io::GraphDef part = part_for(signatures, file, extras.initializer ? extras.initializer->name() : "");
    std::map<std::string_view, io::TypeCode> handles;
    for (const io::NodeDef& node : part.nodes)
      if (node.op == "VarHandleOp") handles.emplace(node.name, std::get<io::TypeCode>(node.attrs.at("dtype")));
    StateDict values;
    std::vector<Variable> variables;
    std::vector<Saver::Part> saved;
    for (const Variable& each : graph.variables()) {
      const std::string& name = detail::producer_of(graph.state()->variable_entry(each, where).handle).name();
      const auto found = handles.find(name);
      if (found == handles.end()) continue;
      values.emplace(io::checkpoint_key(name), each.cell()->load());
      variables.push_back(each);
      saved.push_back({.variable = name, .type = found->second, .trainable = each.trainable()});
    }
    Parts parts{.extras = extras};
    std::string checkpoint_objects;
    // A table is no object that we could describe. With one, the model is one of TensorFlow 1.
    if (!extras.initializer) {
      const io::ObjectGraph objects = objects_of(signatures, part, variables, saved, *graph.state(), gradients);
      parts.objects = io::encode_objects(objects);
      checkpoint_objects = io::encode_checkpoint_objects(objects);
      part.library = io::without_functions(part.library, function_prefix);
      io::merge_library(part.library, io::encode_functions(objects));
      io::name_gradients(part, objects);
    }
    if (!saved.empty()) parts.saver = io::add_saver(part, std::move(saved));
    copy_assets(extras, folder, where);
    // The checkpoint is written first, so that a model that can be found is complete.
    if (!values.empty() || !checkpoint_objects.empty()) {
      const fs::path variables_folder = fs::path(folder) / "variables";
      std::error_code error;
      fs::create_directories(variables_folder, error);
      io::write_tensor_bundle(variables_folder / "variables", values, where, checkpoint_objects);
    }
    write_model(folder, encode(part, signatures, parts), where);
  });
}

}  // namespace tapestry::saved_model
