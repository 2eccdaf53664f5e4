#include "io/tensorflow/concrete_function.hpp"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <unordered_set>

#include "io/tensorflow/op_outputs.hpp"
#include "io/tensorflow/op_rules.hpp"
#include "io/wire.hpp"

namespace tapestry::io {
namespace {

using protozero::pbf_writer;

/// A name as TensorFlow's functions have them: small letters, digits and '_', of which the first is a letter.
std::string plain(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    c = std::isalnum(byte) && byte < 128 ? static_cast<char>(std::tolower(byte)) : '_';
  }
  if (text.empty() || text[0] < 'a' || text[0] > 'z') text = "arg_" + text;
  return text;
}

class FunctionWriter {
 public:
  explicit FunctionWriter(const ConcreteFunction& function) : function_(function) {
    std::unordered_set<std::string> taken;
    for (const NodeDef* each : function.nodes) {
      nodes_.emplace(each->name, each);
      taken.insert(each->name);
    }
    inputs_ = names_of(function.inputs, taken);
    outputs_ = names_of(function.outputs, {});
    for (std::size_t i = 0; i < inputs_.size(); ++i) arguments_.emplace(function.inputs[i].endpoint, inputs_[i]);
  }

  const std::vector<std::string>& arguments() const { return inputs_; }

  std::string run() const {
    std::string bytes;
    pbf_writer library(bytes);
    add_message(library, 1, [&](pbf_writer& writer) {
      add_message(writer, 1, [&](pbf_writer& signature) { write_signature(signature); });
      for (const NodeDef* each : function_.nodes) writer.add_message(3, encode_node(inner(*each)));
      for (std::size_t i = 0; i < outputs_.size(); ++i)
        write_entry(writer, 4, outputs_[i], input_in_function(function_.outputs[i].endpoint));
      add_message(writer, 5, [&](pbf_writer& entry) {
        entry.add_string(1, "_input_shapes");
        ListDef shapes;
        for (const ConcreteFunction::Tensor& each : function_.inputs)
          shapes.shapes.push_back(each.is_variable ? Shape() : each.shape);
        entry.add_message(2, encode_attr(shapes));
      });
    });
    return bytes;
  }

 private:
  static std::vector<std::string> names_of(const std::vector<ConcreteFunction::Tensor>& tensors,
                                           std::unordered_set<std::string> taken) {
    std::vector<std::string> names;
    for (const ConcreteFunction::Tensor& each : tensors) {
      const std::string name = plain(each.name);
      std::string unique = name;
      for (int i = 1; !taken.insert(unique).second; ++i) unique = detail::join(name, "_", i);
      names.push_back(unique);
    }
    return names;
  }

  static void write_entry(pbf_writer& writer, protozero::pbf_tag_type tag, const std::string& key,
                          const std::string& value) {
    add_message(writer, tag, [&](pbf_writer& entry) {
      entry.add_string(1, key);
      entry.add_string(2, value);
    });
  }

  void write_signature(pbf_writer& signature) const {
    signature.add_string(1, function_.name);
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      add_message(signature, 2, [&](pbf_writer& arg) { write_argument(arg, inputs_[i], function_.inputs[i]); });
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      add_message(signature, 3, [&](pbf_writer& arg) { write_argument(arg, outputs_[i], function_.outputs[i]); });
    signature.add_bool(17, true);  // may read and change Variables
  }

  static void write_argument(pbf_writer& arg, const std::string& name, const ConcreteFunction::Tensor& tensor) {
    arg.add_string(1, name);
    arg.add_enum(3, (tensor.is_variable ? resource_type : tensor.type).value);
    if (!tensor.is_variable) return;
    add_message(arg, 7, [&](pbf_writer& value) {
      value.add_enum(1, tensor.type.value);
      add_message(value, 2, [&](pbf_writer& shape) { write_shape(shape, tensor.shape); });
    });
  }

  /// A node as the function has it.
  NodeDef inner(const NodeDef& node) const {
    NodeDef copy = node;
    copy.inputs.clear();
    for (const std::string& each : node.inputs)
      if (std::string input = input_in_function(each); !input.empty()) copy.inputs.push_back(std::move(input));
    copy.attrs.erase("_class");
    if (const auto hint = copy.attrs.find(hint_inputs); hint != copy.attrs.end())
      for (std::string& each : std::get<ListDef>(hint->second).strings) each = input_in_function(each);
    return copy;
  }

  /// "argument", "node:output:index" or "^node"; "" for a control input from a node that the function lacks.
  std::string input_in_function(const std::string& input) const {
    if (input.starts_with('^')) return nodes_.contains(std::string_view(input).substr(1)) ? input : std::string();
    if (const auto found = arguments_.find(input); found != arguments_.end()) return found->second;
    const std::size_t colon = std::min(input.find(':'), input.size());
    const std::string node = input.substr(0, colon);
    const std::int64_t output = colon == input.size() ? 0 : std::stoll(input.substr(colon + 1));
    return detail::join(node, ":", output_in_function(*nodes_.at(node), output));
  }

  const ConcreteFunction& function_;
  std::unordered_map<std::string_view, const NodeDef*> nodes_;  ///< by name
  std::vector<std::string> inputs_, outputs_;                   ///< names in the function
  std::unordered_map<std::string, std::string> arguments_;      ///< by endpoint
};

}  // namespace

std::vector<std::string> argument_names(const ConcreteFunction& function) {
  return FunctionWriter(function).arguments();
}

std::string encode_in_library(const ConcreteFunction& function) { return FunctionWriter(function).run(); }

}  // namespace tapestry::io
