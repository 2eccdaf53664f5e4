#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <protozero/pbf_writer.hpp>

#include "graph/graph_state.hpp"

/// Graphs as ONNX writes them: nodes whose inputs and outputs are values with names, and constants, "initializers".

namespace tapestry::io {

/// ONNX's TensorProto.DataType. Throws UnimplementedError for what has no elements.
std::int64_t onnx_type(DType dtype);

/// An attribute of a node of the file; a word is a name such as "add".
using OnnxField =
    std::pair<std::string_view, std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>>;
using OnnxFields = std::vector<OnnxField>;

struct OnnxNode {
  std::string_view type;
  std::vector<std::string> inputs, outputs;
  OnnxFields fields;
};

/// The nodes and initializers of a file, and how its values are named.
class OnnxGraph {
 public:
  explicit OnnxGraph(protozero::pbf_writer& writer) : writer_(writer) {}

  /// The name itself, or with a number behind it, taken from now on.
  std::string unique(std::string_view name);
  /// The value that stands for a tensor of our graph.
  void name(const Tensor& tensor, const std::string& value) { values_.insert_or_assign(key(tensor), value); }
  const std::string& value(const Tensor& tensor) const { return values_.at(key(tensor)); }
  bool has(const Tensor& tensor) const { return values_.contains(key(tensor)); }
  /// That some node, or the model's user, needs the tensor.
  void note_use(const Tensor& tensor) { used_.insert(key(tensor)); }
  bool is_used(const Tensor& tensor) const { return used_.contains(key(tensor)); }

  void add(const OnnxNode& node);
  void add_initializer(std::string_view name, const Tensor& value);

 private:
  using Key = std::pair<const detail::Node*, std::int32_t>;
  static Key key(const Tensor& tensor);

  protozero::pbf_writer& writer_;
  std::unordered_set<std::string> names_;
  std::map<Key, std::string> values_;
  std::set<Key> used_;
};

/// Writes one node of our graph as ONNX's. All functions give the names of values.
class OnnxWriter {
 public:
  OnnxWriter(const detail::Node& node, OnnxGraph& graph) : node_(node), graph_(graph) {}

  const detail::Node& node() const { return node_; }
  const Shape& shape(std::size_t i = 0) const { return node_.input(i).shape(); }
  std::string in(std::size_t i = 0) const { return graph_.value(node_.input(i)); }
  bool is_used(std::size_t output) const { return graph_.is_used(node_.output(output)); }

  /// Adds a node of one output, or of several.
  std::string op(std::string_view type, std::vector<std::string> inputs, OnnxFields fields = {});
  std::vector<std::string> ops(std::string_view type, std::vector<std::string> inputs, OnnxFields fields,
                               std::size_t outputs);
  std::string constant(const Tensor& value);
  std::string number(double value, DType dtype);
  /// A vector of int64.
  std::string ints(const std::vector<std::int64_t>& values);

  /// An attribute for formulas beside our node's own.
  void set(std::string_view name, AttrValue value) { added_.push_back({name, std::move(value)}); }
  /// An added attribute, or our node's own; nullptr where there is none.
  const AttrValue* find(std::string_view name) const;
  /// The same, or what its absence means, as far as that is known.
  std::optional<AttrValue> attr(std::string_view name) const;

  /// What a formula of onnx_rules.cpp gives; an empty name for an output that nothing uses.
  std::vector<std::string> formula(std::string_view text);

  /// The nodes that have been added compute the outputs, whose values these are.
  void finish(const std::vector<std::string>& results);

  /// Throws the UnimplementedError of the node.
  [[noreturn]] void refuse(std::string_view reason) const;

 private:
  const detail::Node& node_;
  OnnxGraph& graph_;
  std::vector<OnnxNode> nodes_;
  std::vector<Attr> added_;
};

/// Writes a node that is no leaf and changes no Variable by what ONNX has of its kind. Returns why not where it has
/// nothing; throws UnimplementedError where that cannot say it.
std::optional<std::string> write_onnx(OnnxWriter& writer);

}  // namespace tapestry::io
