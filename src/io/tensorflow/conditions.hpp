#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// Whether the node gives a tensor to one of several branches; of a case to one of more than two.
bool is_switch_of_condition(const NodeDef& node);
bool is_case_switch(const NodeDef& node);

/// TensorFlow 1's conditions in a graph whose loops are While nodes already: which nodes are in which branches. Nodes
/// have their numbers in the graph. A condition is known by its predicate, and predicates are numbered.
class Conditions {
 public:
  /// An input of a node.
  struct Edge {
    std::size_t node = 0;
    std::int64_t output = 0;
    bool is_control = false;
  };

  /// The conditions that a node is in, from the outermost to the innermost: each the number of its predicate and the
  /// side.
  using Context = std::vector<std::pair<std::size_t, std::int64_t>>;

  explicit Conditions(const GraphDef& graph) : graph_(graph) {}

  /// Reads the graph, again if it has changed. Returns whether it has conditions; of a graph with cycles, or inputs
  /// that do not exist, false, as its reader refuses it.
  bool find();

  /// The nodes, each after its inputs, and what is in one condition together.
  const std::vector<std::size_t>& order() const { return order_; }
  std::size_t position(std::size_t node) const { return positions_[node]; }
  const std::vector<Edge>& inputs(std::size_t node) const { return edges_[node]; }
  const Context& context(std::size_t node) const { return contexts_[node]; }
  /// The condition that a Switch or a Merge belongs to.
  std::optional<std::size_t> predicate_of_switch(std::size_t node) const { return predicate_of_switch_[node]; }
  std::optional<std::size_t> predicate_of_merge(std::size_t node) const { return predicate_of_merge_[node]; }
  /// Whether something uses the second output of a Merge, the number of the input that it has taken.
  bool gives_number(std::size_t merge) const { return gives_number_[merge]; }

  /// The tensor of this name. Its node is the number of nodes if the graph does not have it.
  Edge edge_of(std::string_view input) const;
  Context context_of(const Edge& edge) const;
  /// The side that an output of a Switch is on.
  std::int64_t side_of(const Edge& edge) const;
  /// A Switch that has the predicate itself.
  std::optional<std::size_t> switch_of(std::size_t predicate) const;
  /// The number of the input that a Merge takes from a side.
  std::size_t input_taken(std::size_t merge, std::int64_t side, std::size_t predicate) const;

 private:
  const NodeDef& def(std::size_t i) const { return graph_.nodes[i]; }
  bool find_edges();
  bool sort();
  bool find_switches();
  bool merges_by_sizes() const;
  std::size_t number_of_predicate(Edge edge);
  void find_context(std::size_t i);
  void follow_branch_number(std::size_t i);

  const GraphDef& graph_;
  std::unordered_map<std::string_view, std::size_t> numbers_;  ///< of the nodes, by name
  std::vector<std::vector<Edge>> edges_;                       ///< by node, as are the following
  std::vector<std::size_t> order_, positions_;
  std::vector<Context> contexts_;
  std::vector<std::optional<std::size_t>> predicate_of_switch_, predicate_of_merge_;
  std::vector<char> gives_number_, is_used_;
  std::unordered_map<std::size_t, std::size_t> switches_;         ///< by predicate
  std::unordered_map<std::size_t, std::int64_t> side_of_second_;  ///< by Switch that follows a Merge: of its output 1
  std::map<std::string, std::size_t> predicates_;                 ///< by tensor
};

/// Throws UnimplementedError: the node is a Switch or a Merge, but not of a condition that can be read.
[[noreturn]] void refuse_condition(const NodeDef& node, std::string_view problem);

}  // namespace tapestry::io
