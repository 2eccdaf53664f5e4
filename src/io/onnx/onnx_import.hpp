#pragma once

#include <unordered_set>

#include "io/onnx/onnx_proto.hpp"
#include "io/tensorflow/flow.hpp"

/// An ONNX model as a GraphDef whose nodes are of ONNX's ops, each named by its first output, and of TensorFlow's where
/// it has constants, placeholders and Variables. Calls of the model's own functions are replaced by their nodes.

namespace tapestry::io {

/// What the graphs of a model share: names, and how many nodes there are.
class OnnxModelContext {
 public:
  OnnxModelContext(const OnnxModelDef& model, const GraphLimits& limits) : model_(model), limits_(limits) {}

  const OnnxModelDef& model() const { return model_; }
  /// A name for a node, as TensorFlow allows it: like the given one, and unique.
  std::string unique(std::string_view name);
  /// Throws ResourceExhaustedError for one node too many.
  void count_node();

 private:
  const OnnxModelDef& model_;
  const GraphLimits& limits_;
  std::unordered_set<std::string> names_;
  std::int64_t nodes_ = 0;
};

/// Makes the nodes of a graph of the model, or of a graph that is an attribute of a node.
class OnnxBuilder {
 public:
  /// The names that a graph, or a function, gives to values.
  struct Frame {
    std::map<std::string, std::string> values{};  ///< the tensor for each value: "node", "node:1"; "" for none
    const std::map<std::string, AttrDef, std::less<>>* attrs = nullptr;  ///< of the call, in a function
    const OnnxFunctionDef* function = nullptr;
    int depth = 0;
  };

  explicit OnnxBuilder(OnnxModelContext& context) : context_(context) { frames_.emplace_back(); }
  /// For a graph that is an attribute of a node of `around`, whose values it may use.
  OnnxBuilder(OnnxModelContext& context, OnnxBuilder& around);

  const GraphDef& graph() const { return graph_; }
  GraphDef take() { return std::move(graph_); }
  /// The values from around that the graph uses, with the arguments that stand for them.
  const std::vector<std::pair<std::string, std::string>>& captured() const { return captured_; }

  /// Adds the initializers, but for those that have values already, and the nodes.
  void add_contents(const OnnxGraphDef& graph);
  /// Names the tensor of a value.
  void define(const std::string& value, std::string tensor) {
    frames_.back().values.insert_or_assign(value, std::move(tensor));
  }
  bool defines(const std::string& value) const { return frames_.back().values.contains(value); }
  /// The tensor of a value; "" for a left-out input of a function. Throws InvalidArgumentError for an unknown one.
  std::string value(const std::string& name);

  /// Adds a node and returns its name, which is `def.name` made unique.
  std::string add(NodeDef def);
  std::string add_constant(std::string_view name, const TensorDef& value);
  std::string add_argument(std::string_view name);
  /// Adds a node of ONNX's, with these tensors as inputs.
  std::string add_op(std::string_view name, std::string_view op, std::vector<std::string> inputs,
                     std::map<std::string, AttrDef, std::less<>> attrs = {});
  /// The constant that a tensor of this graph is; nullptr for any other.
  const TensorDef* constant(const std::string& tensor) const;
  /// The tensor that an Identity passes on.
  std::string behind_identities(std::string tensor) const;

  /// Whether a tensor is a sequence without elements.
  bool is_empty_sequence(const std::string& tensor) const;
  /// The tensor that a SequenceInsert appends to the sequence, if that is the node; "" otherwise.
  std::string appended(const std::string& tensor, const std::string& sequence) const;

  OnnxModelContext& context() { return context_; }

 private:
  void add_node(const OnnxNodeDef& node);
  void add_plain(const OnnxNodeDef& node);
  void add_constant_node(const OnnxNodeDef& node);
  void call(const OnnxNodeDef& node, const OnnxFunctionDef& function);
  /// The attributes, where those of the function around are put in.
  std::map<std::string, AttrDef, std::less<>> attrs_of(const OnnxNodeDef& node) const;
  std::int64_t version_of(const std::string& domain) const;
  void define_outputs(const OnnxNodeDef& node, const std::string& name, const std::vector<std::string>& tensors);

  // In onnx_flow_import.cpp. They return the tensors of the node's outputs.
  void add_if(const OnnxNodeDef& node);
  void add_loop(const OnnxNodeDef& node);
  void add_scan(const OnnxNodeDef& node);

  OnnxModelContext& context_;
  OnnxBuilder* around_ = nullptr;
  GraphDef graph_;
  std::unordered_map<std::string, std::size_t> index_;  ///< of the nodes, by name
  std::vector<Frame> frames_;                           ///< the graph, and the functions that are being called
  std::vector<std::pair<std::string, std::string>> captured_;
};

/// A model as a graph, and the names of its inputs' and outputs' tensors in their order.
struct OnnxImport {
  GraphDef graph{};
  std::vector<std::pair<std::string, std::string>> inputs{}, outputs{};
};
OnnxImport import_onnx(const OnnxModelDef& model, const GraphLimits& limits);

}  // namespace tapestry::io
