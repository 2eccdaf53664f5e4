#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
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
#include "io/tensorflow/graph_def.hpp"

/// Writes graphs of ONNX: nodes whose inputs and outputs are named values, and constants, called initializers.

namespace tapestry::io {

/// ONNX's TensorProto.DataType. Throws UnimplementedError for DType::unknown and DType::resource.
std::int64_t onnx_type(DType dtype);

/// The GraphProto of a function that a node runs.
struct OnnxSubgraph {
  std::string bytes;
};

/// An attribute of a node of the file. A string is a keyword such as "add".
using OnnxValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<float>,
                               std::vector<std::string>, Tensor, OnnxSubgraph>;
using OnnxField = std::pair<std::string_view, OnnxValue>;
using OnnxFields = std::vector<OnnxField>;

struct OnnxNode {
  std::string_view type;
  std::vector<std::string> inputs, outputs;
  OnnxFields fields;
  std::string_view domain = {};
};

/// The versions of ONNX's opset and of others that a file needs, by their domains.
class OnnxOpsets {
 public:
  /// What our own ops are written in.
  static constexpr std::int64_t least = 18;

  void require(const std::string& domain, std::int64_t version) {
    std::int64_t& known = versions_[domain];
    known = std::max(known, version);
  }
  /// A node means something else from this version of ONNX's opset on.
  void require_before(std::int64_t version) { before_ = std::min(before_, version); }
  /// Throws UnimplementedError if no version has all that is required.
  const std::map<std::string, std::int64_t>& versions() const;

 private:
  std::map<std::string, std::int64_t> versions_{{"", least}};
  std::int64_t before_ = std::numeric_limits<std::int64_t>::max();
};

/// Writes a ValueInfoProto. `size_name`: names the unknown size of an axis; "" for no name.
void write_value_info(protozero::pbf_writer& writer, protozero::pbf_tag_type tag, const std::string& name,
                      const Spec& spec, const std::function<std::string(int axis)>& size_name);

/// Writes nodes and initializers, and knows the names of the values that stand for the tensors of one of our graphs.
class OnnxGraph {
 public:
  explicit OnnxGraph(protozero::pbf_writer& writer)
      : writer_(writer),
        names_(std::make_shared<std::unordered_set<std::string>>()),
        opsets_(std::make_shared<OnnxOpsets>()) {}
  /// For a function, whose tensors have values of their own. All graphs of a file together give each name once.
  OnnxGraph(protozero::pbf_writer& writer, const OnnxGraph& around)
      : writer_(writer), names_(around.names_), opsets_(around.opsets_) {}

  protozero::pbf_writer& writer() const { return writer_; }
  OnnxOpsets& opsets() const { return *opsets_; }

  /// Reserves and returns a name: the given one, with a number appended if that is taken.
  std::string unique(std::string_view name);
  /// Names the value that stands for a tensor of our graph.
  void name(const Tensor& tensor, const std::string& value) { values_.insert_or_assign(key(tensor), value); }
  const std::string& value(const Tensor& tensor) const { return values_.at(key(tensor)); }
  bool has(const Tensor& tensor) const { return values_.contains(key(tensor)); }
  /// Notes that a node, or an output of the model, uses the tensor.
  void note_use(const Tensor& tensor) { used_.insert(key(tensor)); }
  bool is_used(const Tensor& tensor) const { return used_.contains(key(tensor)); }

  /// The value that a Variable has in the file, which several nodes may read; "" before it was written.
  std::string& variable(const Variable& variable) {
    std::string& value = variables_[variable.cell().get()];
    return value;
  }
  /// The initializers that are trainable Variables.
  const std::vector<std::string>& trained() const { return trained_; }
  void add_trained(const std::string& name) { trained_.push_back(name); }

  void add(const OnnxNode& node);
  void add_initializer(std::string_view name, const Tensor& value);

 private:
  using Key = std::pair<const detail::Node*, std::int32_t>;
  static Key key(const Tensor& tensor);

  protozero::pbf_writer& writer_;
  std::shared_ptr<std::unordered_set<std::string>> names_;
  std::shared_ptr<OnnxOpsets> opsets_;
  std::map<Key, std::string> values_;
  std::set<Key> used_;
  std::map<const Variable::Cell*, std::string> variables_;
  std::vector<std::string> trained_;
};

/// Writes one node of our graph as nodes of ONNX. Functions that return strings return the names of values.
class OnnxWriter {
 public:
  OnnxWriter(const detail::Node& node, OnnxGraph& graph) : node_(node), graph_(graph) {}

  const detail::Node& node() const { return node_; }
  const OnnxGraph& graph() const { return graph_; }
  const Shape& shape(std::size_t i = 0) const { return node_.input(i).shape(); }
  std::string in(std::size_t i = 0) const { return graph_.value(node_.input(i)); }
  bool is_used(std::size_t output) const { return graph_.is_used(node_.output(output)); }

  /// Adds a node with one output, or with several.
  std::string op(std::string_view type, std::vector<std::string> inputs, OnnxFields fields = {});
  std::vector<std::string> ops(std::string_view type, std::vector<std::string> inputs, OnnxFields fields,
                               std::size_t outputs, std::string_view domain = {});
  std::string constant(const Tensor& value);
  std::string number(double value, DType dtype);
  /// A vector of int64.
  std::string ints(const std::vector<std::int64_t>& values);

  /// Adds an attribute for formulas to those of our node.
  void set(std::string_view name, AttrValue value) { added_.emplace_back(name, std::move(value)); }
  /// An added attribute, or our node's own; nullptr where there is none.
  const AttrValue* find(std::string_view name) const;
  /// The same, or the value that an absent attribute stands for, if that is known.
  std::optional<AttrValue> attr(std::string_view name) const;

  /// Adds the nodes of a formula (see onnx_formulas.cpp). Returns one value for each output of our node; an empty name
  /// for an output that is not used.
  std::vector<std::string> formula(std::string_view text);

  /// Writes the added nodes to the file. `results`: the values of our node's outputs.
  void finish(const std::vector<std::string>& results);

  /// Throws an UnimplementedError that names the node.
  [[noreturn]] void refuse(std::string_view reason) const;

 private:
  const detail::Node& node_;
  OnnxGraph& graph_;
  std::vector<OnnxNode> nodes_;
  std::vector<Attr> added_;
};

/// Whether a node has an attribute that is not false.
bool has_flag(const OnnxWriter& w, std::string_view name);
/// The formula for a node; nothing if there is none. `known` is set to whether there is one, maybe for other types.
std::optional<std::string> formula_of(const OnnxWriter& w, bool& known);
/// Writes a node in ONNX's ops. The node is no leaf and changes no Variable. Returns the reason if ONNX has no ops for
/// it; throws UnimplementedError if ONNX's ops cannot express this node.
std::optional<std::string> write_onnx(OnnxWriter& writer);

/// The node of a file of ONNX's that waits for what is fed, or whose op Tapestry lacks; nullptr for any other node.
const NodeDef* kept_onnx_node(const detail::Node& node);
/// Writes such a node as the file had it. Throws UnimplementedError if its form is too old.
void write_kept_onnx(OnnxWriter& writer, const NodeDef& def);

/// Writes an op that runs functions: If, Loop or Scan, whose attributes are graphs.
void write_onnx_flow(OnnxWriter& writer);

/// Writes the nodes that these tensors need and notes their use; once for each OnnxGraph. What has a value in `graph`
/// already is not written.
void write_onnx_nodes(OnnxGraph& graph, const Tensors& outputs);

}  // namespace tapestry::io
