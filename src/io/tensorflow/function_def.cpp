/// The wire format of function.proto, op_def.proto and of NameAttrList. The numbers of the fields are TensorFlow's.

#include "io/tensorflow/function_def.hpp"

#include <algorithm>

#include "io/wire.hpp"

namespace tapestry::io {
namespace {

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

WireReader reader_of(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

/// Whether two FunctionDefs are equal. TensorFlow writes nodes and the entries of a map in any order.
bool same_function(std::string_view a, std::string_view b) {
  const auto in_order = [](std::string_view bytes) {
    auto repeats = static_cast<std::int64_t>(bytes.size()), nodes_left = repeats;
    FunctionDef function = read_function(reader_of(bytes), repeats, nodes_left);
    std::sort(function.control_returns.begin(), function.control_returns.end());
    std::sort(function.nodes.begin(), function.nodes.end(),
              [](const NodeDef& x, const NodeDef& y) { return x.name < y.name; });
    return encode_function(function);
  };
  return a == b || in_order(a) == in_order(b);
}

constexpr std::string_view damaged_library = "The functions of the graph are damaged";

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

/// A NameAttrList.
FunctionName read_name(std::string_view bytes) {
  FunctionName function;
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
}

}  // namespace

std::vector<FunctionDef> decode_library(std::string_view bytes, const GraphLimits& limits) {
  return decoding(damaged_library, [&] {
    std::vector<FunctionDef> functions;
    std::map<std::string, std::string_view> known;  // by name: the bytes
    auto repeats = static_cast<std::int64_t>(bytes.size());
    std::int64_t nodes_left = limits.nodes;
    WireReader reader = reader_of(bytes);
    while (reader.next()) {
      if (reader.tag() == 1) {
        const std::string_view entry = reader.get_text();
        FunctionDef function = read_function(reader_of(entry), repeats, nodes_left);
        const auto [same, is_new] = known.emplace(function.name, entry);
        if (!is_new && !same_function(same->second, entry))
          throw InvalidArgumentError(detail::join("The graph has two different functions '", function.name, "'"));
        if (is_new) functions.push_back(std::move(function));
      } else {
        reader.skip();
      }
    }
    return functions;
  });
}

std::map<std::string, std::string> registered_gradients(std::string_view library) {
  return decoding(damaged_library, [&] {
    std::map<std::string, std::string> functions;
    for_fields(reader_of(library), 3, [&](WireReader& entry) {
      const std::string_view gradient = entry.get_text();
      functions.insert_or_assign(std::string(field_of(gradient, 2)), std::string(field_of(gradient, 1)));
    });
    return functions;
  });
}

std::string without_functions(std::string_view library, std::string_view prefix) {
  return decoding(damaged_library, [&] {
    std::string kept;
    protozero::pbf_writer writer(kept);
    WireReader reader = reader_of(library);
    while (reader.next()) {
      const std::uint32_t tag = reader.tag();
      const std::string_view entry = reader.get_text();
      const std::string_view name = field_of(tag == 1 ? field_of(entry, 1) : entry, 1);
      if (!name.starts_with(prefix)) writer.add_message(tag, std::string(entry));
    }
    return kept;
  });
}

void merge_library(std::string& library, std::string_view other) {
  decoding(damaged_library, [&] {
    std::map<std::string_view, std::string_view> known;  // by name: the entry
    WireReader reader = reader_of(library);
    while (reader.next()) {
      const bool is_function = reader.tag() == 1;
      const std::string_view entry = reader.get_text();
      if (is_function) known.emplace(field_of(field_of(entry, 1), 1), entry);
    }
    std::string more;
    protozero::pbf_writer writer(more);
    WireReader added = reader_of(other);
    while (added.next()) {
      const std::uint32_t tag = added.tag();
      const std::string_view entry = added.get_text();
      const std::string_view name = tag == 1 ? field_of(field_of(entry, 1), 1) : std::string_view();
      const auto found = tag == 1 ? known.find(name) : known.end();
      if (found == known.end()) {
        writer.add_message(tag, std::string(entry));
      } else if (!same_function(found->second, entry)) {
        throw InvalidArgumentError(detail::join("There is already another function '", name, "'"));
      }
    }
    library += more;
  });
}

FunctionName function_named_by(const AttrDef& attr) {
  return decoding(damaged_library, [&] { return read_name(field_of(raw_bytes(attr), 10)); });
}

std::vector<FunctionName> functions_named_by(const AttrDef& attr) {
  return decoding(damaged_library, [&] {
    std::vector<FunctionName> functions;
    WireReader reader = reader_of(field_of(raw_bytes(attr), 1));
    while (reader.next()) {
      if (reader.tag() == 9) {
        functions.push_back(read_name(reader.get_text()));
      } else {
        reader.skip();
      }
    }
    return functions;
  });
}

std::string placeholder_of(const AttrDef& attr) {
  return decoding(damaged_library, [&] { return std::string(field_of(raw_bytes(attr), 9)); });
}

bool names_function(const AttrDef& attr) {
  return decoding(damaged_library, [&] {
    const std::string_view bytes = raw_bytes(attr);
    return !field_of(bytes, 10).empty() || !field_of(field_of(bytes, 1), 9).empty();
  });
}

namespace {

void write_arg(protozero::pbf_writer& writer, protozero::pbf_tag_type tag, const FunctionDef::Arg& arg) {
  add_message(writer, tag, [&](protozero::pbf_writer& out) {
    out.add_string(1, arg.name);
    out.add_enum(3, arg.type.value);
  });
}

void write_entry(protozero::pbf_writer& writer, protozero::pbf_tag_type tag, const std::string& key,
                 const std::string& value) {
  add_message(writer, tag, [&](protozero::pbf_writer& out) {
    out.add_string(1, key);
    out.add_string(2, value);
  });
}

std::string name_list(const std::string& name) {
  std::string bytes;
  protozero::pbf_writer(bytes).add_string(1, name);
  return bytes;
}

}  // namespace

std::string encode_function(const FunctionDef& function) {
  std::string bytes;
  protozero::pbf_writer library(bytes);
  add_message(library, 1, [&](protozero::pbf_writer& out) {
    add_message(out, 1, [&](protozero::pbf_writer& signature) {
      signature.add_string(1, function.name);
      for (const FunctionDef::Arg& each : function.inputs) write_arg(signature, 2, each);
      for (const FunctionDef::Arg& each : function.outputs) write_arg(signature, 3, each);
      if (function.is_stateful) signature.add_bool(17, true);
      for (const std::string& each : function.control_returns) signature.add_string(20, each);
    });
    for (const NodeDef& each : function.nodes) out.add_message(3, encode_node(each));
    for (const auto& [output, input] : function.returns) write_entry(out, 4, output, input);
    for (const std::string& each : function.control_returns) write_entry(out, 6, each, each);
  });
  return bytes;
}

AttrDef function_attr(const std::string& name) {
  RawAttr attr;
  protozero::pbf_writer(attr.bytes).add_message(10, name_list(name));
  return attr;
}

AttrDef functions_attr(const std::vector<std::string>& names) {
  RawAttr attr;
  protozero::pbf_writer writer(attr.bytes);
  add_message(writer, 1, [&](protozero::pbf_writer& list) {
    for (const std::string& each : names) list.add_message(9, name_list(each));
  });
  return attr;
}

}  // namespace tapestry::io
