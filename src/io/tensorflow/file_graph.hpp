#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph_state.hpp"
#include "io/tensorflow/node_reader.hpp"
#include "io/tensorflow/updates.hpp"

namespace tapestry::io {

/// A node of the file with the nodes that it refers to, and with what it became in our graph.
struct Entry {
  const NodeDef* def = nullptr;
  std::vector<Source> inputs{}, hinted{};
  std::vector<const NodeDef*> controls{};
  std::size_t position = 0;  ///< in an order in which each node comes after those that it needs
  std::vector<char> used{};  ///< whether the file refers to an output, up to the last one that it refers to
  bool needed = false;       ///< our graph has it from the start
  bool is_read = false;
  Tensors outputs{};
  std::vector<std::size_t> shared{};  ///< the outputs that are also those of other names, see `Importer::separate`
  Tensors named{};                    ///< what its outputs are for who asks by name, if that is something else
  detail::Node* node = nullptr;       ///< the node of that name in our graph
};

/// Whether the node is a Variable, and whether other nodes refer to it as TensorFlow 1 does.
bool is_variable(const NodeDef& def);
TAPESTRY_API bool is_reference_variable(const NodeDef& def);

/// The rule by which an optimizer's update is read, or nullptr. Where several of our updates are written as the same op
/// of TensorFlow's, the node tells which one it was.
const UpdateRule* update_rule(const NodeReader& reader);
/// Whether an input of an update becomes one of our node's numbers. Epsilon does: TensorFlow's own is a constant.
bool is_number(const UpdateRule& rule, std::size_t input);
/// The node that gives an update its learning rate, or nullptr.
const NodeDef* rate_of(const Entry& entry);

/// The nodes of a file, with their edges.
class FileGraph {
 public:
  /// `ends`: the nodes that a function returns or runs; nullptr for a graph, whose ends are the nodes that no node
  /// uses. Throws InvalidArgumentError for names that are not unique, inputs that do not exist, and cycles.
  explicit FileGraph(GraphDef file, const std::vector<std::string>* ends = nullptr);

  const GraphDef& file() const { return file_; }
  Entry& entry(const NodeDef* def) { return entries_[def - file_.nodes.data()]; }
  const Entry& entry(const NodeDef* def) const { return entries_[def - file_.nodes.data()]; }
  bool has(std::string_view name) const { return index_.contains(name); }
  /// nullptr when the file has no node of this name.
  Entry* find(std::string_view name);
  /// All nodes, each after those that it needs; otherwise in the file's order.
  const std::vector<Entry*>& in_order() const { return order_; }

  /// What the name of an input of a node refers to.
  Source source(const NodeDef& user, const std::string& input);

  /// What our node has among its inputs, too: neither constants that become attributes, nor the inner nodes of an
  /// expansion.
  static std::vector<Source> used_inputs(const Entry& entry);
  /// Calls f(entry) for each entry to which an input, a control input or a hint of this one refers.
  template <class F>
  void for_all_needed(const Entry& entry, F f) {
    for (const Source& each : entry.inputs) f(this->entry(each.node));
    for (const Source& each : entry.hinted) f(this->entry(each.node));
    for (const NodeDef* each : entry.controls) f(this->entry(each));
  }
  /// The nodes that must be read before the entry, without constants that become attributes.
  std::vector<Entry*> requirements(const Entry& entry);

  /// The file in which each of these tensors is a constant of this value. What the hints tell of a node that needs such
  /// a constant holds no longer, and is left out.
  GraphDef with_constants(const std::vector<std::pair<detail::FileNodes::Name, Tensor>>& constants);

 private:
  void resolve(Entry& entry);
  void sort();
  /// Gives a node the control inputs by which it waits for what its attributes are computed from, and no longer does.
  void wait_for_attributes();
  void mark(const std::vector<std::string>* ends);

  GraphDef file_;
  std::vector<Entry> entries_;  ///< one for each node of the file
  std::unordered_map<std::string_view, std::size_t> index_;
  std::vector<Entry*> order_;
};

}  // namespace tapestry::io
