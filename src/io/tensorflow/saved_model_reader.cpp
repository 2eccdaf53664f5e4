#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "dispatch/recorder.hpp"
#include "graph/specialize.hpp"
#include "graph/state_ops.hpp"
#include "io/file.hpp"
#include "io/known_format.hpp"
#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/graph_import.hpp"
#include "io/tensorflow/meta_graph.hpp"
#include "io/tensorflow/number_tables.hpp"
#include "io/tensorflow/read_graph.hpp"
#include "io/tensorflow/saved_model_extras.hpp"
#include "io/tensorflow/saver.hpp"
#include "io/tensorflow/table_rows.hpp"
#include "io/tensorflow/tensor_bundle.hpp"
#include "io/tensorflow/updates.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/saved_model.hpp"
#include "tapestry/session.hpp"

namespace tapestry::saved_model {
namespace {

namespace fs = std::filesystem;

std::string tag_list(std::vector<std::string> tags) {
  std::sort(tags.begin(), tags.end());
  std::string text;
  for (const std::string& each : tags) text += (text.empty() ? "'" : ", '") + each + "'";
  return "{" + text + "}";
}

/// The bytes of the folder's saved_model.pb, or of what its saved_model.pbtxt tells.
std::string read_model_file(const fs::path& folder, std::int64_t most_bytes, Where where) {
  std::error_code error;
  if (fs::is_regular_file(folder, error))
    throw InvalidArgumentError(
        detail::join(folder.string(), " is a file; a SavedModel is a folder, with a file saved_model.pb",
                     io::known_as(io::Format::unknown, folder)),
        where);
  const fs::path path = folder / "saved_model.pb";
  const fs::path text = folder / "saved_model.pbtxt";
  if (!fs::exists(path, error) && fs::exists(text, error))
    return io::from_text(io::bytes_of_file(text, most_bytes, where), io::TextMessage::saved_model);
  std::string bytes = io::bytes_of_file(path, most_bytes, where);
  io::refuse_all_but(io::Format::saved_model, bytes, path.string(), where);
  return bytes;
}

io::MetaGraph choose(const std::vector<io::MetaGraph>& graphs, const LoadOptions& options, const std::string& folder) {
  const std::set<std::string> wanted(options.tags.begin(), options.tags.end());
  std::string found;
  for (const io::MetaGraph& each : graphs) {
    if (std::set<std::string>(each.tags.begin(), each.tags.end()) == wanted) return each;
    found += (found.empty() ? "" : ", ") + tag_list(each.tags);
  }
  throw NotFoundError(
      detail::join(folder, " has no graph with the tags ", tag_list(options.tags), "; it has graphs with ", found));
}

/// The part "2,2:-" of "6 2 2,2:-" of a tensor.
Tensor part_of(const Tensor& whole, std::string_view slice) {
  const std::size_t space = slice.rfind(' ');
  std::string_view rest = space == std::string_view::npos ? slice : slice.substr(space + 1);
  Tensor part = whole;
  for (int axis = 0; !rest.empty(); ++axis) {
    const std::string_view extent = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(extent.size() + 1, rest.size()));
    if (extent == "-") continue;
    std::int64_t start = 0, length = 0;
    const char* const end = extent.data() + extent.size();
    const auto first = std::from_chars(extent.data(), end, start);
    const bool comma = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
    const auto second = comma ? std::from_chars(first.ptr + 1, end, length) : first;
    if (!comma || second.ec != std::errc() || second.ptr != end || axis >= whole.rank() || start < 0 || length < 0 ||
        start > whole.shape().sizes()[axis] || length > whole.shape().sizes()[axis] - start)
      throw DataLossError(detail::join("a Variable is the part '", slice, "' of a tensor of shape ", whole.shape()));
    std::vector<std::int64_t> begin(static_cast<std::size_t>(whole.rank()), 0), size = begin;
    for (int i = 0; i < whole.rank(); ++i) size[i] = part.shape().sizes()[i];
    begin[axis] = start;
    size[axis] = length;
    part = tapestry::slice(part, begin, size);
  }
  return part;
}

/// What the files tell of a Variable, under the name of its node.
struct VariableNames {
  std::string shared;             ///< under which nodes share it
  io::CheckpointTensor restored;  ///< no name: the graph does not restore it
  DType values_of_table = DType::unknown;
  std::vector<std::int64_t> reserved;  ///< the keys in the checkpoint that the table has not

  const std::string& key() const { return restored.name.empty() ? shared : restored.name; }
};

std::map<std::string, VariableNames> names_of_variables(const io::GraphDef& file) {
  const auto restored = io::restored_variables(file);
  std::map<std::string, VariableNames> names;
  std::map<std::string, io::CheckpointTensor> by_shared_name;
  for (const io::NodeDef& node : file.nodes) {
    if (node.op != "VarHandleOp" && node.op != "VariableV2" && node.op != "Variable") continue;
    const auto attr = node.attrs.find("shared_name");
    const auto* shared = attr == node.attrs.end() ? nullptr : std::get_if<std::string>(&attr->second);
    VariableNames& each = names[node.name];
    each.shared = shared && !shared->empty() ? *shared : node.name;
    if (const auto table = node.attrs.find(io::hint_table); table != node.attrs.end())
      if (const auto* type = std::get_if<io::TypeCode>(&table->second)) each.values_of_table = io::dtype_of(*type);
    if (const auto list = node.attrs.find(io::hint_reserved); list != node.attrs.end())
      if (const auto* keys = std::get_if<io::ListDef>(&list->second)) each.reserved = keys->ints;
    if (const auto found = restored.find(node.name); found != restored.end())
      by_shared_name.insert_or_assign(each.shared, found->second);
  }
  for (auto& [name, each] : names)
    if (const auto found = by_shared_name.find(each.shared); found != by_shared_name.end())
      each.restored = found->second;
  return names;
}

class Loader {
 public:
  Loader(std::string folder, Where where) : folder_(std::move(folder)), where_(where) {}

  Model run(const LoadOptions& options, const GraphLimits& limits) {
    Graph().set_limits(limits);  // throws for negative ones
    const std::string bytes = read_model_file(folder_, limits.bytes, where_);
    const std::string path = (fs::path(folder_) / "saved_model.pb").string();
    return io::naming(path, [&] {
      const io::MetaGraph meta = choose(io::decode_saved_model(bytes), options, folder_);
      std::optional<io::TensorBundle> bundle;  // a model without Variables needs none
      std::map<std::string, VariableNames> names;
      const auto read = [&](const io::UnevenLists& uneven) {
        io::GraphDef file = io::decode(meta.graph, limits);
        name_assets(file, meta);
        objects_ = objects_of_handles(file, meta);
        const io::FileGradients gradients = gradients_in(file, meta);  // before the file is moved
        file = io::read_graph(std::move(file), limits, uneven, gradients);
        names = names_of_variables(file);
        if (!names.empty() && !bundle) open_bundle(bundle);
        if (bundle) find_values(names, *bundle, meta);
        if (!meta.filename.empty()) file = io::without_saver(std::move(file), meta.filename);
        if (bundle) give_shapes(file, names, *bundle);
        return file;
      };
      const Graph graph = io::import_graph(read, limits, where_);
      std::map<std::string, Signature> signatures = signatures_in(meta, graph);
      give_values(graph, names, bundle, meta);
      if (const auto extras = extras_of(meta, graph); extras->initializer) initialize(graph, *extras->initializer);
      return Model(Model::Parts{
          .graph = graph, .signatures = std::move(signatures), .called = {}, .extras = extras_of(meta, graph)});
    });
  }

 private:
  std::map<std::string, Signature> signatures_in(const io::MetaGraph& meta, const Graph& graph) const {
    std::map<std::string, Signature> signatures;
    for (const auto& [name, def] : meta.signatures) {
      // The operations that initialize tables or train are no signatures to call. A sparse tensor would be several.
      if (name == "__saved_model_init_op" || name == "__saved_model_train_op" || !def.is_plain) continue;
      Signature& signature = signatures[name];
      for (const auto& [key, tensor] : def.inputs) signature.inputs.emplace(key, tensor_of(graph, name, tensor));
      for (const auto& [key, tensor] : def.outputs) signature.outputs.emplace(key, tensor_of(graph, name, tensor));
    }
    return signatures;
  }

  Tensor tensor_of(const Graph& graph, const std::string& signature, const std::string& tensor) const {
    try {
      Tensor found = graph.get_tensor_by_name(tensor, where_);
      // A signature that names a reference to a Variable, as TensorFlow 1 has them, means its value.
      const auto* variables = found.op().call().attrs().find<VariablesRef>("variables");
      if (found.dtype() != DType::resource || !variables) return found;
      return graph.state()->read((*variables)->front(), where_);
    } catch (const UnimplementedError&) {
      throw;  // it names the op
    } catch (const Error& error) {
      throw DataLossError(
          detail::join("The signature '", signature, "' has a tensor that the graph lacks: ", error.message()));
    }
  }

  /// TensorFlow adds an operation without effect to a model that has no tables.
  static bool does_something(const detail::GraphState& graph, detail::Node& operation) {
    const std::vector<char> needed =
        detail::needed_nodes(graph, {.fetches = {}, .operations = {&operation}, .feeds = {}, .fed = {}});
    for (std::size_t i = 0; i < needed.size(); ++i)
      if (needed[i] && &graph.node(i).op() != &no_op_op) return true;
    return false;
  }

  /// Runs the operation that is due whenever the model is loaded, or those of its parts that Tapestry has: others fill
  /// tables of texts.
  static void initialize(const Graph& graph, detail::Node& operation) {
    const Session session(graph);
    std::vector<detail::Node*> pending{&operation};
    std::set<const detail::Node*> seen;
    while (!pending.empty()) {
      detail::Node& next = *pending.back();
      pending.pop_back();
      if (!seen.insert(&next).second) continue;
      try {
        session.run(next.name());
      } catch (const UnimplementedError&) {
        if (&next.op() == &no_op_op)
          pending.insert(pending.end(), next.control_inputs.rbegin(), next.control_inputs.rend());
      }
    }
  }

  /// Tells the nodes that get the paths of assets where these are.
  void name_assets(io::GraphDef& graph, const io::MetaGraph& meta) const {
    std::map<std::string, std::string, std::less<>> files;  // by node
    for (const auto& [tensor, file] : meta.assets) {
      const fs::path path(file);
      if (file.empty() || path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
        throw DataLossError(detail::join("'", file, "' is no name of a file in the folder of assets"));
      files.emplace(io::without_zero(tensor), (fs::path(folder_) / "assets" / file).string());
    }
    for (io::NodeDef& each : graph.nodes)
      if (const auto found = files.find(each.name); found != files.end())
        each.attrs.insert_or_assign(std::string(io::asset_path), found->second);
  }

  /// What is written again with the model.
  std::shared_ptr<const detail::SavedModelExtras> extras_of(const io::MetaGraph& meta, const Graph& graph) const {
    detail::SavedModelExtras extras{.tags = meta.tags, .folder = folder_};
    for (const auto& [tensor, file] : meta.assets) extras.assets.push_back({tensor, file});
    detail::Node* initializer = meta.initializer.empty() ? nullptr : graph.state()->find(meta.initializer);
    if (initializer && does_something(*graph.state(), *initializer)) extras.initializer = initializer;
    return std::make_shared<const detail::SavedModelExtras>(std::move(extras));
  }

  fs::path prefix() const { return fs::path(folder_) / "variables" / "variables"; }

  /// Opens the checkpoint in the folder `variables`, if there is one.
  void open_bundle(std::optional<io::TensorBundle>& bundle) const {
    std::error_code error;
    if (fs::exists(io::bundle_index(prefix()), error)) bundle.emplace(prefix(), where_);
  }

  /// Adds where the checkpoint has the values that no node of the graph restores.
  void find_values(std::map<std::string, VariableNames>& names, const io::TensorBundle& bundle,
                   const io::MetaGraph& meta) const {
    const auto keys = keys_of_objects(bundle, meta);
    for (auto& [name, each] : names) {
      // The graph of a Keras model restores other Variables than its functions take.
      const auto object = objects_.find(name);
      const auto key = object == objects_.end() ? keys.end() : keys.find(object->second);
      if (each.restored.name.empty() && key != keys.end()) each.restored.name = key->second;
    }
  }

  /// Gives Variables whose sizes the graph leaves open, and does not change, those of their values: ours keep their
  /// sizes.
  static void give_shapes(io::GraphDef& file, const std::map<std::string, VariableNames>& names,
                          const io::TensorBundle& bundle) {
    const auto assigned = io::assignments_of_any_sizes(file.nodes);
    for (io::NodeDef& node : file.nodes) {
      if (assigned.contains(node.name)) continue;
      const auto known = names.find(node.name);
      const auto attr = node.attrs.find("shape");
      const auto* shape = attr == node.attrs.end() ? nullptr : std::get_if<Shape>(&attr->second);
      if (known == names.end() || !shape || shape->is_known() || !known->second.restored.slice.empty()) continue;
      const auto value = bundle.entries().find(known->second.key());
      if (value == bundle.entries().end()) continue;
      const std::vector<std::int64_t>& sizes = value->second.stored.sizes;
      if (std::cmp_less_equal(sizes.size(), Shape::max_rank)) attr->second = Shape(sizes);
    }
  }

  /// Reads the values of the Variables.
  void give_values(const Graph& graph, const std::map<std::string, VariableNames>& names,
                   const std::optional<io::TensorBundle>& bundle, const io::MetaGraph& meta) {
    const std::vector<Variable> variables = graph.variables();
    if (variables.empty()) return;
    if (!bundle) {
      const auto lacks = [](const Variable& each) { return !each.cell()->is_initialized(); };
      const auto first = std::find_if(variables.begin(), variables.end(), lacks);
      if (first == variables.end()) return;
      throw NotFoundError(detail::join("There is no file ", io::bundle_index(prefix()).string(),
                                       ", which has the value of the Variable '", first->name(), "'"));
    }
    for (const Variable& each : variables) {
      const auto found = names.find(each.name());
      if (found == names.end()) continue;
      give_value(each, found->second, *bundle);
      each.cell()->trainable.set(is_floating(each.dtype()) && is_trainable(each, found->second, meta));
    }
  }

  /// By the number of a Variable among TensorFlow 2's objects: where the checkpoint has it.
  static std::map<std::size_t, std::string> keys_of_objects(const io::TensorBundle& bundle, const io::MetaGraph& meta) {
    std::map<std::size_t, std::string> keys;
    for (const auto& [key, entry] : bundle.entries())
      if (const auto* object = io::variable_at(meta, key))
        keys.emplace(static_cast<std::size_t>(object - meta.objects.data()), key);
    return keys;
  }

  /// By the names of nodes: the numbers of the objects that calls of functions take from them.
  static std::map<std::string, std::size_t> objects_of_handles(const io::GraphDef& file, const io::MetaGraph& meta) {
    std::map<std::string, std::size_t> objects;
    for (const io::NodeDef& node : file.nodes) {
      const auto function = node.attrs.find("f");
      if (function == node.attrs.end()) continue;
      const auto found = meta.captured.find(io::function_named_by(function->second).name);
      const std::size_t count = io::data_inputs(node);
      if (found == meta.captured.end() || found->second.size() > count) continue;
      for (std::size_t i = 0; i < found->second.size(); ++i)
        objects.emplace(node.inputs[count - found->second.size() + i], found->second[i]);
    }
    return objects;
  }

  /// The gradients that the file has for functions of its own.
  io::FileGradients gradients_in(const io::GraphDef& file, const io::MetaGraph& meta) const {
    io::FileGradients gradients;
    for (const auto& [type, function] : io::registered_gradients(file.library)) {
      io::FileGradients::Gradient& gradient = gradients.by_type[type];
      gradient.function = function;
      if (const auto found = meta.returned.find(function); found != meta.returned.end()) gradient.given = found->second;
      const auto captured = meta.captured.find(function);
      for (std::size_t i = 0; captured != meta.captured.end() && i < captured->second.size(); ++i) {
        io::FileGradients::Capture& each = gradient.captured.emplace_back();
        each.object = captured->second[i];
        if (each.object >= meta.objects.size() || meta.objects[each.object].function.empty()) continue;
        each.tensor = meta.objects[each.object].name;
        each.function = meta.objects[each.object].function;
      }
    }
    if (gradients.by_type.empty()) return gradients;
    gradients.objects.insert(objects_.begin(), objects_.end());
    // No function takes a Variable that gradients alone use. Its node has its name.
    std::map<std::string_view, std::vector<std::size_t>> by_name;
    for (std::size_t i = 0; i < meta.objects.size(); ++i)
      if (meta.objects[i].function.empty() && !meta.objects[i].name.empty()) by_name[meta.objects[i].name].push_back(i);
    for (const io::NodeDef& node : file.nodes)
      if (const auto found = by_name.find(node.name); found != by_name.end() && found->second.size() == 1)
        gradients.objects.emplace(node.name, found->second[0]);
    return gradients;
  }

  void give_rows(const Variable& table, const VariableNames& names, const io::TensorBundle& bundle) const {
    const std::string keys_at = names.key() + std::string(io::table_keys),
                      values_at = names.key() + std::string(io::table_values);
    if (!bundle.entries().contains(keys_at) || !bundle.entries().contains(values_at)) return;
    const Tensor keys = bundle.read(keys_at), values = bundle.read(values_at);
    const std::int64_t width = table.shape().sizes()[1] - 1;
    if (!is_integer(keys.dtype()) || values.dtype() != names.values_of_table || values.size() != keys.size() * width)
      throw DataLossError(detail::join(folder_, ": the table '", table.name(), "' has ", to_string(keys.dtype()),
                                       keys.shape(), " as its keys in the checkpoint, and ", to_string(values.dtype()),
                                       values.shape(), " as its values"));
    const Tensor list = reshape(keys.cast(int64), {-1});
    Tensor is_key = ones_like(list).cast(boolean);
    for (const std::int64_t each : names.reserved) is_key = is_key & not_equal(list, each);
    table.cell()->store(boolean_mask(io::rows_of_table(list, values, {width}), is_key));
  }

  void give_value(const Variable& variable, const VariableNames& names, const io::TensorBundle& bundle) const {
    if (names.values_of_table != DType::unknown && io::is_table(variable)) return give_rows(variable, names, bundle);
    const std::string& key = names.key();
    if (names.restored.name.empty() && !bundle.entries().contains(key)) return;  // has no value in this model
    Tensor value = bundle.read(key);
    if (!names.restored.slice.empty()) value = part_of(value, names.restored.slice);
    if (value.dtype() != variable.dtype() || !agree(value.shape(), variable.shape()))
      throw DataLossError(detail::join(
          folder_, ": the Variable '", variable.name(), "' is ", to_string(variable.dtype()), variable.shape(),
          ", its value in the checkpoint, '", key, "', is ", to_string(value.dtype()), value.shape()));
    variable.cell()->store(value);
  }

  static bool is_trainable(const Variable& variable, const VariableNames& names, const io::MetaGraph& meta) {
    if (const auto* object = io::variable_at(meta, names.restored.name)) return *object->trainable;
    for (const std::string& name : {variable.name(), names.shared})
      if (const auto found = meta.trainable.find(name); found != meta.trainable.end()) return found->second;
    return true;
  }

  std::string folder_;
  Where where_;
  std::map<std::string, std::size_t> objects_;  ///< see `objects_of_handles`
};

}  // namespace

Model load(const std::string& folder, const LoadOptions& options, const GraphLimits& limits, Where where) {
  return detail::locating({}, where, [&] {
    const ExecuteNow now;
    const PauseRecording pause;
    return Loader(folder, where).run(options, limits);
  });
}

}  // namespace tapestry::saved_model
