#include "serve/text_model.hpp"

#include <fstream>
#include <random>
#include <utility>

#include "io/tensorflow/meta_graph.hpp"
#include "io/tensorflow/read_graph.hpp"
#include "io/wire.hpp"
#include "tapestry/error.hpp"

namespace tapestry::serve {
namespace {

namespace fs = std::filesystem;

bool has_texts(const SignatureInfo& signature) {
  const auto is_text = [](const auto& each) { return each.second.type == string_type; };
  return std::any_of(signature.inputs.begin(), signature.inputs.end(), is_text) ||
         std::any_of(signature.outputs.begin(), signature.outputs.end(), is_text);
}

/// The node of a tensor "node:0".
std::string node_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind(':')); }

/// The files of a MetaGraph, by the nodes that get their paths.
AssetFiles assets_of(std::string_view meta, const fs::path& folder) {
  AssetFiles files;
  for (const auto& [tensor, file] : io::assets_in(meta))
    // The folder's own files only.
    if (fs::path(file).filename() == file) files[node_of(tensor)] = folder / "assets" / file;
  return files;
}

/// A folder that goes when it is no longer used.
class OwnFolder {
 public:
  OwnFolder() {
    std::random_device random;
    do {
      path_ = fs::temp_directory_path() / ("tapestry-serve-" + std::to_string(random()) + std::to_string(random()));
    } while (!fs::create_directory(path_));
    fs::permissions(path_, fs::perms::owner_all);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Copies a message, but for the fields that f(reader, writer) writes otherwise and returns true for.
template <class F>
std::string rewritten(std::string_view bytes, F f) {
  std::string result;
  protozero::pbf_writer writer(result);
  io::WireReader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    if (f(reader, writer)) continue;
    switch (reader.wire_type()) {
      case protozero::pbf_wire_type::varint:
        writer.add_uint64(reader.tag(), reader.get_uint64());
        break;
      case protozero::pbf_wire_type::fixed64:
        writer.add_fixed64(reader.tag(), reader.get_fixed64());
        break;
      case protozero::pbf_wire_type::fixed32:
        writer.add_fixed32(reader.tag(), reader.get_fixed32());
        break;
      default:
        writer.add_bytes(reader.tag(), reader.get_view());
    }
  }
  return result;
}

/// The input of a signature that a feature comes in. An input of a client's has no such slash.
std::string inner_input(const std::string& input, const ParsedFeature& feature) {
  return input + '/' + feature.placeholder;
}

}  // namespace

TextModel::TextModel(const fs::path& folder) : infos_(read_signatures(folder)) {
  const auto needs_numbers = [](const auto& each) { return has_texts(each.second); };
  if (std::any_of(infos_.begin(), infos_.end(), needs_numbers)) {
    load_numbered(folder);
  } else {
    adopt(saved_model::load(folder.string()));
  }
}

void TextModel::adopt(const Model& model) {
  graph_ = model.graph();
  signatures_ = model.signatures();
}

void TextModel::load_numbered(const fs::path& folder) {
  std::vector<std::string> outputs;
  for (const auto& [name, info] : infos_)
    for (const auto& [key, tensor] : info.outputs) outputs.push_back(node_of(tensor.name));
  std::optional<TextGraph> numbered;
  const std::string file = read_model(folder);
  std::string bytes;
  try {
    bytes = rewritten(file, [&](io::WireReader& model, protozero::pbf_writer& out) {
      if (model.tag() != 2) return false;
      const std::string_view meta = model.get_text();
      if (numbered || !is_for_serving(meta)) {
        out.add_bytes(2, meta.data(), meta.size());
        return true;
      }
      out.add_bytes(2, rewritten(meta, [&](io::WireReader& field, protozero::pbf_writer& inner) {
                      if (field.tag() != 2) return false;
                      numbered = number_texts(io::read_graph(io::decode(field.get_text()), GraphLimits()), outputs,
                                              assets_of(meta, folder));
                      inner.add_bytes(2, io::encode(numbered->graph));
                      return true;
                    }));
      return true;
    });
  } catch (const protozero::exception&) {
    throw DataLossError(model_file(folder).string() + " is no SavedModel, or damaged");
  }
  if (!numbered) throw DataLossError(model_file(folder).string() + " has no graph");
  // Only files can be loaded.
  const OwnFolder own;
  std::ofstream(own.path() / "saved_model.pb", std::ios::binary) << bytes;
  for (const char* part : {"variables", "assets"})
    if (fs::exists(folder / part)) fs::create_directory_symlink(fs::absolute(folder / part), own.path() / part);
  adopt(saved_model::load(own.path().string()));
  texts_ = std::move(numbered->texts);
  for (auto& [name, signature] : signatures_) {
    const SignatureInfo& info = infos_.at(name);
    for (const auto& [key, tensor] : info.inputs) {
      if (tensor.type != string_type) continue;
      const TextInput& input = numbered->inputs[node_of(tensor.name)];
      Examples& examples = inputs_[name][key];
      examples.is_moved = input.is_moved;
      if (!input.is_moved) signature.inputs.erase(key);
      examples.parsings = parsings_of(input.features, key);
      for (const ParsedFeature& each : input.features)
        signature.inputs.emplace(inner_input(key, each), graph_.get_tensor_by_name(each.placeholder + ":0"));
    }
  }
}

/// A graph may parse a feature twice, each time in its own way: by a parser each.
std::vector<TextModel::Parsing> TextModel::parsings_of(const std::vector<ParsedFeature>& features,
                                                       const std::string& input) {
  struct Group {
    std::map<std::string, data::Feature> features{};
    std::map<std::string, std::string> placeholders{};
  };
  std::vector<Group> groups;
  for (const ParsedFeature& each : features) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& other) { return !other.features.contains(each.name); });
    if (group == groups.end()) group = groups.emplace(groups.end());
    group->features.emplace(each.name, each.feature);
    group->placeholders.emplace(each.name, inner_input(input, each));
  }
  std::vector<Parsing> parsings;
  parsings.reserve(groups.size());
  for (Group& each : groups)
    parsings.push_back({data::ExampleParser(std::move(each.features)), std::move(each.placeholders)});
  return parsings;
}

const Signature& TextModel::signature(const std::string& name) const {
  const auto found = signatures_.find(name);
  if (found != signatures_.end()) return found->second;
  if (!infos_.contains(name))
    throw InvalidArgumentError("Serving signature name: \"" + name + "\" not found in signature def");
  throw UnimplementedError("The signature \"" + name + "\" has tensors that are not plain arrays");
}

NamedTensors TextModel::tensors_of(const std::string& name, NamedValues&& inputs, RequestTexts& texts) const {
  const auto of_texts = inputs_.find(name);
  NamedTensors tensors;
  tensors.reserve(inputs.size());
  for (auto& [key, value] : inputs) {
    const auto found =
        of_texts == inputs_.end() ? std::map<std::string, Examples>::const_iterator() : of_texts->second.find(key);
    const bool takes_texts = of_texts != inputs_.end() && found != of_texts->second.end();
    const Texts* given = std::get_if<Texts>(&value);
    if (takes_texts != (given != nullptr))
      throw InvalidArgumentError("The input " + key + (given ? " takes no texts" : " takes texts"));
    if (!given) {
      tensors.emplace(std::move(key), std::get<Tensor>(std::move(value)));
      continue;
    }
    const Examples& examples = found->second;
    if (examples.is_moved) tensors.emplace(key, texts.numbers(*given));
    if (!examples.parsings.empty()) parse_examples(examples, key, *given, signatures_.at(name), texts, tensors);
  }
  return tensors;
}

void TextModel::parse_examples(const Examples& examples, const std::string& key, const Texts& given,
                               const Signature& signature, RequestTexts& texts, NamedTensors& tensors) {
  if (given.sizes.size() != 1) throw InvalidArgumentError("The input " + key + " takes a list of tf.Examples");
  std::vector<data::Record> records;
  for (const std::string& each : given.elements) records.push_back({.bytes = each});
  try {
    for (const Parsing& parsing : examples.parsings) {
      data::Features parsed = parsing.parser(records);
      for (const auto& [feature, inner] : parsing.placeholders) {
        const auto words = parsed.texts.find(feature);
        if (words == parsed.texts.end()) {
          tensors.emplace(inner, parsed[feature]);
          continue;
        }
        std::vector<std::int64_t> sizes{std::ssize(records)};
        const Shape shape = signature.inputs.at(inner).shape();
        sizes.insert(sizes.end(), shape.sizes().begin() + 1, shape.sizes().end());
        tensors.emplace(inner, texts.numbers({.sizes = std::move(sizes), .elements = std::move(words->second)}));
      }
    }
  } catch (const DataLossError& error) {
    throw InvalidArgumentError("Could not parse example input: " + error.message());
  }
}

NamedValues TextModel::values_of(const std::string& name, NamedTensors&& outputs, const RequestTexts& texts) const {
  NamedValues values;
  values.reserve(outputs.size());
  const SignatureInfo& info = infos_.at(name);
  for (auto& [key, tensor] : outputs) {
    if (info.outputs.at(key).type == string_type) {
      values.emplace(key, texts.texts(tensor));
    } else {
      values.emplace(std::move(key), std::move(tensor));
    }
  }
  return values;
}

}  // namespace tapestry::serve
