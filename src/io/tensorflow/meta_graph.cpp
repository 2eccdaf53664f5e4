#include "io/tensorflow/meta_graph.hpp"

#include <algorithm>

#include "io/wire.hpp"
#include "tapestry/error.hpp"

namespace tapestry::io {
namespace {

constexpr std::string_view all_variables = "variables", trainable_variables = "trainable_variables";

void read_tensor_info(WireReader info, std::string& name, SignatureDef& signature) {
  while (info.next()) {
    if (info.tag() == 1) {
      name = info.get_text();
    } else {
      if (info.tag() == 4 || info.tag() == 5) signature.is_plain = false;  // coo_sparse, composite_tensor
      info.skip();
    }
  }
}

SignatureDef read_signature(WireReader reader) {
  SignatureDef signature;
  while (reader.next()) {
    if (reader.tag() == 1 || reader.tag() == 2) {
      auto& tensors = reader.tag() == 1 ? signature.inputs : signature.outputs;
      with_entry(reader.get_message(),
                 [&](std::string key, WireReader info) { read_tensor_info(info, tensors[std::move(key)], signature); });
    } else if (reader.tag() == 3) {
      signature.method = reader.get_text();
    } else {
      reader.skip();
    }
  }
  return signature;
}

void read_saver(WireReader reader, MetaGraph& meta) {
  while (reader.next()) {
    if (reader.tag() == 1) {
      meta.filename = reader.get_text();
    } else if (reader.tag() == 3) {
      meta.restore = reader.get_text();
    } else {
      reader.skip();
    }
  }
}

/// The nodes in a collection of them.
void read_initializer(WireReader collection, MetaGraph& meta) {
  for_fields(collection, 1, [&](WireReader& lists) {
    for_fields(lists.get_message(), 1, [&](WireReader& name) { meta.initializer = name.get_text(); });
  });
}

/// A collection of Variables, each a VariableDef. Those of the graph that are not in the trainable ones are not.
void read_collection(const std::string& key, WireReader collection, MetaGraph& meta) {
  if (key == "saved_model_main_op" || key == "legacy_init_op") return read_initializer(collection, meta);
  if (key != all_variables && key != trainable_variables) return;
  for_fields(collection, 2, [&](WireReader& lists) {
    for_fields(lists.get_message(), 1, [&](WireReader& values) {
      for_fields(values.get_message(), 1, [&](WireReader& name) {
        std::string_view tensor = name.get_text();
        bool& trainable = meta.trainable[std::string(tensor.substr(0, tensor.rfind(':')))];
        trainable = trainable || key == trainable_variables;
      });
    });
  });
}

void read_child(WireReader reader, MetaGraph::Object& object) {
  std::size_t number = 0;
  std::string name;
  while (reader.next()) {
    if (reader.tag() == 1) {
      number = static_cast<std::size_t>(reader.get_int64());
    } else if (reader.tag() == 2) {
      name = reader.get_text();
    } else {
      reader.skip();
    }
  }
  object.children.insert_or_assign(std::move(name), number);
}

MetaGraph::Object read_object(WireReader reader) {
  MetaGraph::Object object;
  while (reader.next()) {
    if (reader.tag() == 1) {
      read_child(reader.get_message(), object);
    } else if (reader.tag() == 7) {
      object.trainable = false;
      const WireReader variable = reader.get_message();
      for_fields(variable, 3, [&](WireReader& trainable) { object.trainable = trainable.get_bool(); });
      for_fields(variable, 6, [&](WireReader& name) { object.name = name.get_text(); });
    } else if (reader.tag() == 12) {  // a captured tensor
      const WireReader tensor = reader.get_message();
      for_fields(tensor, 1, [&](WireReader& name) { object.name = name.get_text(); });
      for_fields(tensor, 2, [&](WireReader& function) { object.function = function.get_text(); });
    } else {
      reader.skip();
    }
  }
  return object;
}

/// What a StructuredValue, a list or a tuple of TensorFlow 2's, says of its elements.
std::vector<bool> elements_given(WireReader value) {
  std::vector<bool> given;
  const auto read_list = [&](WireReader& list) {
    for_fields(list.get_message(), 1, [&](WireReader& element) {
      given.push_back(true);
      for_fields(element.get_message(), 1, [&](WireReader& none) {
        none.skip();
        given.back() = false;
      });
    });
  };
  for_fields(value, 51, read_list);
  for_fields(value, 52, read_list);
  return given;
}

void read_objects(WireReader reader, MetaGraph& meta) {
  while (reader.next()) {
    if (reader.tag() == 1) {
      meta.objects.push_back(read_object(reader.get_message()));
    } else if (reader.tag() == 2) {
      with_entry(reader.get_message(), [&](const std::string& name, WireReader function) {
        std::vector<std::size_t>& captured = meta.captured[name];
        for_fields(function, 2, [&](WireReader& numbers) {
          read_numbers(numbers, captured, &WireReader::get_int32, &WireReader::get_packed_int32);
        });
        for_fields(function, 4, [&](WireReader& value) {
          meta.returned.insert_or_assign(name, elements_given(value.get_message()));
        });
      });
    } else {
      reader.skip();
    }
  }
}

/// The name of an attribute as keys have it: "." is "..", "/" is ".S".
std::string unescaped(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool is_escape = name[i] == '.' && i + 1 < name.size();
    if (is_escape) ++i;
    text += is_escape && name[i] == 'S' ? '/' : name[i];
  }
  return text;
}

void read_asset(WireReader reader, std::map<std::string, std::string>& assets) {
  std::string tensor, file;
  while (reader.next()) {
    if (reader.tag() == 1) {
      for_fields(reader.get_message(), 1, [&](WireReader& name) { tensor = name.get_text(); });
    } else if (reader.tag() == 2) {
      file = reader.get_text();
    } else {
      reader.skip();
    }
  }
  assets.insert_or_assign(std::move(tensor), std::move(file));
}

MetaGraph read_meta_graph(std::string_view bytes) {
  MetaGraph meta;
  meta.assets = assets_in(bytes);
  WireReader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        for_fields(reader.get_message(), 4, [&](WireReader& tag) { meta.tags.emplace_back(tag.get_text()); });
        break;
      case 2:
        meta.graph = reader.get_text();
        break;
      case 3:
        read_saver(reader.get_message(), meta);
        break;
      case 4:
        with_entry(reader.get_message(),
                   [&](const std::string& key, WireReader collection) { read_collection(key, collection, meta); });
        break;
      case 5:
        with_entry(reader.get_message(), [&](std::string key, WireReader signature) {
          meta.signatures.insert_or_assign(std::move(key), read_signature(signature));
        });
        break;
      case 7:
        read_objects(reader.get_message(), meta);
        break;
      default:
        reader.skip();
    }
  }
  if (const auto found = meta.signatures.find("__saved_model_init_op"); found != meta.signatures.end())
    for (const auto& [key, operation] : found->second.outputs) meta.initializer = operation;
  return meta;
}

}  // namespace

std::map<std::string, std::string> assets_in(std::string_view meta_graph) {
  std::map<std::string, std::string> assets;
  const WireReader reader(meta_graph.data(), meta_graph.size());
  const auto read_one = [&](WireReader& asset) { read_asset(asset.get_message(), assets); };
  // TensorFlow 1 has them in a collection of messages of any type.
  for_fields(reader, 4, [&](WireReader& entry) {
    with_entry(entry.get_message(), [&](const std::string& key, WireReader collection) {
      if (key != "saved_model_assets") return;
      for_fields(collection, 5, [&](WireReader& lists) {
        for_fields(lists.get_message(), 1, [&](WireReader& any) { for_fields(any.get_message(), 2, read_one); });
      });
    });
  });
  for_fields(reader, 6, read_one);
  return assets;
}

std::vector<MetaGraph> decode_saved_model(std::string_view bytes) {
  try {
    std::vector<MetaGraph> graphs;
    for_fields(WireReader(bytes.data(), bytes.size()), 2,
               [&](WireReader& each) { graphs.push_back(read_meta_graph(each.get_text())); });
    if (!graphs.empty()) return graphs;
  } catch (const protozero::exception&) {
  }
  throw DataLossError("The data are no SavedModel, or damaged");
}

const MetaGraph::Object* variable_at(const MetaGraph& graph, std::string_view key) {
  constexpr std::string_view ending = "/.ATTRIBUTES/VARIABLE_VALUE";
  if (!key.ends_with(ending) || graph.objects.empty()) return nullptr;
  key.remove_suffix(ending.size());
  std::size_t object = 0;
  while (!key.empty()) {
    const std::string_view part = key.substr(0, key.find('/'));
    key.remove_prefix(std::min(part.size() + 1, key.size()));
    const auto& children = graph.objects[object].children;
    const auto child = children.find(unescaped(part));
    if (child == children.end() || child->second >= graph.objects.size()) return nullptr;
    object = child->second;
  }
  return graph.objects[object].trainable ? &graph.objects[object] : nullptr;
}

}  // namespace tapestry::io
