#include "serve/text_graph.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "io/wire.hpp"
#include "serve/proto_tensor.hpp"
#include "serve/signature_info.hpp"
#include "tapestry/op.hpp"

namespace tapestry::serve {
namespace {

using io::NodeDef;
using io::TypeCode;

constexpr TypeCode text_code{string_type}, number_code{9};

/// A tensor of a node: "node:1".
struct Endpoint {
  std::string node;
  std::size_t output;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 in the operator that it makes for a pointer
  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

bool is_control(const std::string& input) { return input.starts_with('^'); }

Endpoint endpoint_of(const std::string& input) {
  const std::size_t colon = input.rfind(':');
  std::size_t output = 0;
  if (colon == std::string::npos) return {input.substr(is_control(input) ? 1 : 0), 0};
  std::from_chars(input.data() + colon + 1, input.data() + input.size(), output);
  return {input.substr(0, colon), output};
}

template <class T>
const T* attr(const NodeDef& node, std::string_view name) {
  const auto found = node.attrs.find(name);
  return found == node.attrs.end() ? nullptr : std::get_if<T>(&found->second);
}

/// The operations whose results are elements of their inputs, whatever these are.
bool moves_elements(const std::string& op) {
  static const std::set<std::string, std::less<>> ops{
      "BroadcastTo", "Concat",       "ConcatV2",     "Const", "ExpandDims",  "Fill",     "Gather",  "GatherNd",
      "GatherV2",    "Identity",     "IdentityN",    "Pack",  "Placeholder", "Rank",     "Reshape", "ReverseV2",
      "Select",      "SelectV2",     "Shape",        "Size",  "Slice",       "Snapshot", "Split",   "SplitV",
      "Squeeze",     "StopGradient", "StridedSlice", "Tile",  "Transpose",   "Unpack"};
  return ops.contains(op);
}

/// The text that a constant attribute holds, in the bytes of an AttrValue.
std::optional<Texts> texts_in(const io::AttrDef* value) {
  const auto* raw = value ? std::get_if<io::RawAttr>(value) : nullptr;
  std::optional<Texts> texts;
  if (raw)
    for_fields(io::WireReader(raw->bytes.data(), raw->bytes.size()), 8,
               [&](io::WireReader& tensor) { texts = read_texts(tensor.get_text()); });
  return texts;
}

class Numbering {
 public:
  Numbering(io::GraphDef graph, const std::vector<std::string>& outputs, const AssetFiles& assets) : assets_(assets) {
    result_.graph = std::move(graph);
    for (std::size_t i = 0; i < nodes().size(); ++i) by_name_.emplace(nodes()[i].name, i);
    find_needed(outputs);
    for (const std::string& each : outputs)
      if (const NodeDef* node = find(each); node && node->op == "Placeholder" && is_text(*node))
        result_.inputs[each].is_moved = true;
  }

  TextGraph run() {
    for (const std::size_t each : needed_)
      if (nodes()[each].op == "ParseExample" || nodes()[each].op == "ParseExampleV2") parse_here(nodes()[each]);
    redirect();
    std::vector<NodeDef> added;
    for (const std::size_t each : needed_) {
      NodeDef& node = nodes()[each];
      if (node.op == "AsString") {
        number_digits(node, added);
      } else if (node.op == "LookupTableFindV2" || node.op == "LookupTableFind") {
        if (std::optional<Table> table = table_of(node)) lookups_.emplace_back(each, std::move(*table));
      } else if (moves_elements(node.op)) {
        number(node);
      }
    }
    // From here on the model has all of its texts.
    for (const auto& [each, table] : lookups_) look_up(nodes()[each], table, added);
    std::erase_if(nodes(), [&](const NodeDef& each) { return removed_.contains(each.name); });
    for (std::vector<NodeDef>* list : {&added, &placeholders_})
      nodes().insert(nodes().end(), std::make_move_iterator(list->begin()), std::make_move_iterator(list->end()));
    return std::move(result_);
  }

 private:
  std::vector<NodeDef>& nodes() { return result_.graph.nodes; }

  const NodeDef* find(const std::string& name) {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &nodes()[found->second];
  }

  void find_needed(const std::vector<std::string>& outputs) {
    std::vector<std::string> open = outputs;
    while (!open.empty()) {
      const auto found = by_name_.find(open.back());
      open.pop_back();
      if (found == by_name_.end() || !needed_.insert(found->second).second) continue;
      for (const std::string& input : nodes()[found->second].inputs) open.push_back(endpoint_of(input).node);
    }
  }

  /// The node whose elements an input has, in whatever shape.
  const NodeDef* origin(const std::string& input) {
    const NodeDef* node = find(endpoint_of(input).node);
    // A damaged graph may have a cycle.
    for (std::size_t steps = 0; node && steps < nodes().size(); ++steps) {
      if (node->op != "Identity" && node->op != "Reshape" && node->op != "Snapshot") return node;
      node = node->inputs.empty() ? nullptr : find(endpoint_of(node->inputs[0]).node);
    }
    return nullptr;
  }

  const NodeDef* first_origin(const NodeDef& node) { return node.inputs.empty() ? nullptr : origin(node.inputs[0]); }

  /// The elements of a constant input of texts.
  std::vector<std::string> names_in(const NodeDef& parser, std::size_t input) {
    const NodeDef* constant = input < parser.inputs.size() ? origin(parser.inputs[input]) : nullptr;
    const auto value = constant && constant->op == "Const" ? constant->attrs.find("value") : parser.attrs.end();
    const auto texts =
        constant && constant->op == "Const" && value != constant->attrs.end() ? texts_in(&value->second) : std::nullopt;
    return texts ? texts->elements : std::vector<std::string>();
  }

  /// The value that stands for a missing feature; nothing if the input has none. Throws UnimplementedError.
  data::FeatureOptions options_of(const std::string& input, const Shape& shape) {
    data::FeatureOptions options{.shape = shape};
    const NodeDef* constant = origin(input);
    if (!constant || constant->op != "Const") throw UnimplementedError("a default value that is computed");
    if (const auto* number = attr<io::TensorDef>(*constant, "value")) {
      const Tensor value = number->value.contiguous();
      if (value.size() == 0) return options;
      const auto all = value.to_vector<double>();
      if (std::any_of(all.begin(), all.end(), [&](double each) { return each != all.front(); }))
        throw UnimplementedError("a default value of several numbers");
      if (value.dtype() == int64) {
        options.missing = value.data<std::int64_t>()[0];
      } else {
        options.missing = all.front();
      }
      return options;
    }
    const auto value = constant->attrs.find("value");
    const auto texts = value == constant->attrs.end() ? std::nullopt : texts_in(&value->second);
    if (!texts) throw UnimplementedError("a default value of a type that tensors do not have");
    if (texts->elements.empty()) return options;
    if (std::set<std::string>(texts->elements.begin(), texts->elements.end()).size() > 1)
      throw UnimplementedError("a default value of several texts");
    options.missing = texts->elements.front();
    return options;
  }

  /// Replaces a ParseExample by placeholders, unless one of its uses does not allow that.
  void parse_here(const NodeDef& parser) {
    const bool is_second = parser.op == "ParseExampleV2";
    const auto* sparse = attr<std::int64_t>(parser, is_second ? "num_sparse" : "Nsparse");
    const auto *dense = attr<io::ListDef>(parser, "Tdense"), *shapes = attr<io::ListDef>(parser, "dense_shapes");
    const NodeDef* examples = parser.inputs.empty() ? nullptr : origin(parser.inputs[0]);
    if (!sparse || !dense || !shapes || !examples || examples->op != "Placeholder") return;
    const std::size_t count = dense->types.size(), first_output = 3 * static_cast<std::size_t>(*sparse);
    std::vector<std::string> names;
    if (is_second) {
      names = names_in(parser, 3);
    } else {
      for (std::size_t i = 0; i < count; ++i)
        for (const std::string& each : names_in(parser, 2 + static_cast<std::size_t>(*sparse) + i))
          names.push_back(each);
    }
    const std::size_t first_default = is_second ? 5 : 2 + static_cast<std::size_t>(*sparse) + count;
    if (names.size() != count || shapes->shapes.size() != count || parser.inputs.size() < first_default + count) return;
    if (uses_others(parser, first_output, count)) return;
    std::vector<ParsedFeature> features;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string placeholder = parser.name + "/feature/" + std::to_string(i);
      try {
        features.push_back(
            {.name = names[i],
             .placeholder = placeholder,
             .feature = feature_of(dense->types[i], options_of(parser.inputs[first_default + i], shapes->shapes[i]))});
      } catch (const Error&) {
        return;
      }
      add_placeholder(placeholder, dense->types[i], shapes->shapes[i]);
      redirected_[{parser.name, first_output + i}] = placeholder;
    }
    std::vector<ParsedFeature>& all = result_.inputs[examples->name].features;
    all.insert(all.end(), std::make_move_iterator(features.begin()), std::make_move_iterator(features.end()));
    removed_.insert(parser.name);
  }

  /// Whether anything needs outputs that are no dense features.
  bool uses_others(const NodeDef& parser, std::size_t first, std::size_t count) {
    for (const std::size_t each : needed_)
      for (const std::string& input : nodes()[each].inputs) {
        const Endpoint used = endpoint_of(input);
        if (!is_control(input) && used.node == parser.name && (used.output < first || used.output >= first + count))
          return true;
      }
    return false;
  }

  static data::Feature feature_of(TypeCode type, data::FeatureOptions options) {
    const auto& sizes = options.shape.sizes();
    if (!options.shape.is_known() ||
        std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; }))
      throw UnimplementedError("a feature of varying length");
    if (type == text_code) return data::Feature::texts(std::move(options));
    return type == number_code ? data::Feature::integers(std::move(options))
                               : data::Feature::floats(std::move(options));
  }

  void add_placeholder(const std::string& name, TypeCode type, const Shape& of_one) {
    std::vector<std::int64_t> sizes{-1};
    for (const std::int64_t each : of_one.sizes()) sizes.push_back(each);
    placeholders_.push_back({.name = name,
                             .op = "Placeholder",
                             .attrs = {{"dtype", type == text_code ? number_code : type}, {"shape", Shape(sizes)}}});
  }

  /// Lets everything that used the features use the placeholders.
  void redirect() {
    for (NodeDef& node : nodes()) {
      std::erase_if(node.inputs, [&](const std::string& input) {
        return is_control(input) && removed_.contains(endpoint_of(input).node);
      });
      for (std::string& input : node.inputs)
        if (const auto found = redirected_.find(endpoint_of(input)); !is_control(input) && found != redirected_.end())
          input = found->second;
    }
    for (const std::size_t each : needed_) {
      if (removed_.contains(nodes()[each].name)) continue;
      for (const std::string& input : nodes()[each].inputs) {
        const NodeDef* node = find(endpoint_of(input).node);
        if (node && node->op == "Placeholder" && is_text(*node)) result_.inputs[node->name].is_moved = true;
      }
    }
  }

  static bool is_text(const NodeDef& placeholder) {
    const auto* type = attr<TypeCode>(placeholder, "dtype");
    return type && *type == text_code;
  }

  void number(NodeDef& node) {
    for (auto& [name, value] : node.attrs) {
      if (auto* type = std::get_if<TypeCode>(&value); type && *type == text_code) *type = number_code;
      if (auto* list = std::get_if<io::ListDef>(&value))
        std::replace(list->types.begin(), list->types.end(), text_code, number_code);
    }
    if (node.op != "Const") return;
    const auto value = node.attrs.find("value");
    const auto texts = value == node.attrs.end() ? std::nullopt : texts_in(&value->second);
    if (!texts) return;
    std::vector<std::int64_t> numbers;
    for (const std::string& each : texts->elements) numbers.push_back(result_.texts.add(each));
    value->second = io::TensorDef{number_code, tensor(numbers, Shape(texts->sizes))};
  }

  /// The value of a text attribute "value", or of one of whole numbers, as numbers.
  std::optional<std::vector<std::int64_t>> numbers_in(const NodeDef* constant) {
    if (!constant || constant->op != "Const") return std::nullopt;
    const auto value = constant->attrs.find("value");
    if (value == constant->attrs.end()) return std::nullopt;
    if (const auto texts = texts_in(&value->second)) return numbers_of(texts->elements);
    const auto* whole = std::get_if<io::TensorDef>(&value->second);
    if (!whole || (whole->type != number_code && whole->value.dtype() != int32)) return std::nullopt;
    return whole->value.to_vector<std::int64_t>();
  }

  std::vector<std::int64_t> numbers_of(const std::vector<std::string>& texts) {
    std::vector<std::int64_t> numbers;
    numbers.reserve(texts.size());
    for (const std::string& each : texts) numbers.push_back(result_.texts.add(each));
    return numbers;
  }

  /// What a table gives for keys; both are numbers, some of them of texts.
  struct Table {
    bool is_of_texts = false;  ///< its keys
    std::vector<std::int64_t> keys{}, values{};
  };

  /// The table of a lookup; nothing if its contents are not known.
  std::optional<Table> table_of(const NodeDef& lookup) {
    const NodeDef* table = lookup.inputs.size() < 3 ? nullptr : origin(lookup.inputs[0]);
    if (!table || !table->op.starts_with("HashTable")) return std::nullopt;
    const auto is_type = [&](const char* name, TypeCode type) {
      const auto* found = attr<TypeCode>(*table, name);
      return found && *found == type;
    };
    const bool of_texts = is_type("key_dtype", text_code);
    // The digits of a number are no text of the model, even if the model has the same one.
    if (of_texts && depends_on_digits(lookup)) return std::nullopt;
    if ((!of_texts && !is_type("key_dtype", number_code)) ||
        (!is_type("value_dtype", text_code) && !is_type("value_dtype", number_code)))
      return std::nullopt;
    for (const NodeDef& each : nodes()) {
      if (each.inputs.size() < 2 || (!each.op.starts_with("InitializeTable") && each.op != "LookupTableImportV2") ||
          origin(each.inputs[0]) != table)
        continue;
      if (each.op.starts_with("InitializeTableFromTextFile")) return read_table(each, of_texts);
      if (each.inputs.size() < 3) return std::nullopt;
      const auto keys = numbers_in(origin(each.inputs[1])), values = numbers_in(origin(each.inputs[2]));
      if (!keys || !values || keys->size() != values->size()) return std::nullopt;
      return Table{of_texts, *keys, *values};
    }
    return std::nullopt;
  }

  bool depends_on_digits(const NodeDef& lookup) {
    std::vector<std::string> open{endpoint_of(lookup.inputs[1]).node};
    std::set<std::string> seen;
    while (!open.empty()) {
      const std::string name = std::move(open.back());
      open.pop_back();
      const NodeDef* node = find(name);
      if (!node || !seen.insert(name).second) continue;
      if (node->op == "AsString" || digits_.contains(name)) return true;
      for (const std::string& input : node->inputs) open.push_back(endpoint_of(input).node);
    }
    return false;
  }

  /// A table of a file's lines and their numbers, the one way or the other. Lines are counted from `offset` on, and
  /// those behind the first `vocab_size` are no part of it.
  std::optional<Table> read_table(const NodeDef& initializer, bool of_texts) {
    constexpr std::int64_t line = -2, line_number = -1;
    const auto *key = attr<std::int64_t>(initializer, "key_index"),
               *value = attr<std::int64_t>(initializer, "value_index");
    if (!key || !value || *key != (of_texts ? line : line_number) || *value != (of_texts ? line_number : line))
      return std::nullopt;
    const auto found = assets_.find(asset_of(initializer.inputs[1]));
    if (found == assets_.end()) return std::nullopt;
    std::ifstream file(found->second, std::ios::binary);
    if (!file) throw NotFoundError("Cannot read " + found->second.string() + ", which has the words of a table");
    std::vector<std::string> lines;
    for (std::string each; std::getline(file, each);) {
      if (each.ends_with('\r')) each.pop_back();
      lines.push_back(each);
    }
    const auto *offset = attr<std::int64_t>(initializer, "offset"),
               *size = attr<std::int64_t>(initializer, "vocab_size");
    if (size && *size >= 0) {
      if (std::cmp_less(lines.size(), *size))
        throw InvalidArgumentError(
            detail::join(found->second.string(), " has ", lines.size(), " words, where a table takes ", *size));
      lines.resize(static_cast<std::size_t>(*size));
    }
    std::vector<std::int64_t> numbers(lines.size());
    const std::int64_t begin = offset ? *offset : 0;
    if (begin > std::numeric_limits<std::int64_t>::max() - std::ssize(lines)) return std::nullopt;
    std::iota(numbers.begin(), numbers.end(), begin);
    std::vector<std::int64_t> texts = numbers_of(lines);
    return of_texts ? Table{true, std::move(texts), std::move(numbers)}
                    : Table{false, std::move(numbers), std::move(texts)};
  }

  /// The placeholder or constant that gets the path of an asset, perhaps by a Variable.
  std::string asset_of(const std::string& input) {
    const NodeDef* node = origin(input);
    const NodeDef* variable = node && node->op == "ReadVariableOp" ? first_origin(*node) : nullptr;
    for (const NodeDef& each : nodes())
      if (variable && each.op == "AssignVariableOp" && each.inputs.size() > 1 && origin(each.inputs[0]) == variable)
        node = origin(each.inputs[1]);
    return node ? node->name : "";
  }

  /// Replaces a lookup by a gather from a list: the table's values for the keys 0, 1, 2 and so on, then its value for
  /// all other keys. Keys that are texts are the numbers of the model's texts, as only those are in the table: each
  /// second number from the first one on.
  void look_up(NodeDef& node, const Table& table, std::vector<NodeDef>& added) const {
    const auto place_of = [&](std::int64_t key) { return table.is_of_texts ? (key - first_text) / 2 : key; };
    std::int64_t places = 0;
    for (const std::int64_t key : table.keys) {
      // Numbers that lie far apart would take a list that is mostly empty.
      if (place_of(key) < 0 || place_of(key) > 64 * std::ssize(table.keys) + result_.texts.size()) return;
      places = std::max(places, place_of(key) + 1);
    }
    std::vector<std::int64_t> values(static_cast<std::size_t>(places + 1), 0);
    std::vector<std::uint8_t> has(values.size(), 0);
    for (std::size_t i = table.keys.size(); i-- > 0;) {  // of a key that comes twice, the first value
      const auto place = static_cast<std::size_t>(place_of(table.keys[i]));
      values[place] = table.values[i];
      has[place] = 1;
    }
    const auto add = [&](const char* name, const char* op, std::vector<std::string> inputs, const char* type_name,
                         TypeCode type) {
      std::string full = node.name + name;
      added.push_back({.name = full, .op = op, .inputs = std::move(inputs), .attrs = {{type_name, type}}});
      return full;
    };
    const auto constant = [&](const char* name, TypeCode type, Tensor value) {
      added.push_back({.name = node.name + name,
                       .op = "Const",
                       .attrs = {{"dtype", type}, {"value", io::TensorDef{type, std::move(value)}}}});
      return added.back().name;
    };
    const TypeCode bool_code = io::code_of(boolean), index_code = io::code_of(int32);
    std::string place = node.inputs[1], is_listed;
    const std::string zero = constant("/zero", number_code, tensor(std::int64_t{0})),
                      last = constant("/last", number_code, tensor(places)),
                      axis = constant("/axis", index_code, tensor(0));
    if (table.is_of_texts) {
      const std::string begin = constant("/begin", number_code, tensor(first_text)),
                        end = constant("/end", number_code, tensor(end_of_texts)),
                        two = constant("/two", number_code, tensor(std::int64_t{2})),
                        text = add("/text", "Minimum", {place, end}, "T", number_code),
                        offset = add("/offset", "Sub", {text, begin}, "T", number_code),
                        kind = add("/kind", "FloorMod", {offset, two}, "T", number_code);
      place = add("/place", "FloorDiv", {offset, two}, "T", number_code);
      is_listed = add("/of_model", "Equal", {kind, zero}, "T", number_code);
    } else {
      is_listed = add("/above", "GreaterEqual", {place, zero}, "T", number_code);
    }
    const std::string below = add("/below", "Less", {place, last}, "T", number_code);
    is_listed = add("/is_listed", "LogicalAnd", {below, is_listed}, "T", bool_code);
    const std::string index = add("/index", "SelectV2", {is_listed, place, last}, "T", number_code);
    const auto take = [&](const char* name, const std::string& list, TypeCode type) {
      std::string full = add(name, "GatherV2", {list, index, axis}, "Tparams", type);
      added.back().attrs.insert({{"Tindices", number_code}, {"Taxis", index_code}, {"batch_dims", std::int64_t{0}}});
      return full;
    };
    const std::string found = take("/found", constant("/has", bool_code, tensor(has).cast(boolean)), bool_code),
                      value = take("/value", constant("/values", number_code, tensor(values)), number_code);
    node.op = "SelectV2";
    node.inputs[0] = found;
    node.inputs[1] = value;  // and behind it the default
    node.attrs = {{"T", number_code}};
  }

  /// The digits of a number are the number, unless a text has that.
  void number_digits(NodeDef& node, std::vector<NodeDef>& added) {
    const auto* type = attr<TypeCode>(node, "T");
    const auto* width = attr<std::int64_t>(node, "width");
    const DType dtype = type ? io::dtype_of(*type) : DType::unknown;
    const bool is_whole = dtype == int64 || dtype == int32 || dtype == uint8;
    if (!is_whole || (width && *width > 0) || node.inputs.empty()) return;
    const auto constant = [&](const char* name, std::int64_t value) {
      std::string full = node.name + name;
      added.push_back({.name = full,
                       .op = "Const",
                       .attrs = {{"dtype", number_code}, {"value", io::TensorDef{number_code, tensor(value)}}}});
      return full;
    };
    const std::string whole = node.name + "/whole", fits = node.name + "/fits";
    added.push_back({.name = whole,
                     .op = "Cast",
                     .inputs = {node.inputs[0]},
                     .attrs = {{"SrcT", *type}, {"DstT", number_code}, {"Truncate", false}}});
    added.push_back({.name = fits,
                     .op = "GreaterEqual",
                     .inputs = {whole, constant("/end", end_of_texts)},
                     .attrs = {{"T", number_code}}});
    digits_.insert(node.name);
    node.op = "SelectV2";
    node.inputs[0] = fits;
    node.inputs.insert(node.inputs.begin() + 1, {whole, constant("/none", first_text)});
    node.attrs = {{"T", number_code}};
  }

  const AssetFiles& assets_;
  TextGraph result_;
  std::map<std::string, std::size_t> by_name_;
  std::set<std::size_t> needed_;
  std::map<Endpoint, std::string> redirected_;
  std::set<std::string> removed_;
  std::set<std::string> digits_;  ///< the nodes that write numbers as texts
  std::vector<NodeDef> placeholders_;
  std::vector<std::pair<std::size_t, Table>> lookups_;
};

}  // namespace

TextGraph number_texts(io::GraphDef graph, const std::vector<std::string>& outputs, const AssetFiles& assets) {
  return Numbering(std::move(graph), outputs, assets).run();
}

}  // namespace tapestry::serve
