#pragma once

#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "graph/graph_state.hpp"
#include "graph/known_values.hpp"
#include "io/tensorflow/composed_updates.hpp"
#include "io/tensorflow/file_graph.hpp"
#include "io/tensorflow/flow_reader.hpp"
#include "io/tensorflow/op_reader.hpp"
#include "io/tensorflow/variable_table.hpp"

namespace tapestry::io {

using detail::GraphState;
using detail::Node;

/// Adds the nodes of a file, or of a function in it, to a graph. That of a file stays with the graph.
class Importer final : public detail::FileNodes {
 public:
  /// `original`: the same file in another graph, whose Variables this graph has as well; nullptr for none. `shared`:
  /// the Variables that the graph shares with others; nullptr for Variables of its own.
  Importer(GraphDef file, GraphState& graph, Where where, const Importer* original = nullptr,
           std::shared_ptr<VariableTable> shared = nullptr)
      : file_(std::move(file)),
        graph_(graph),
        where_(where),
        original_(original),
        shared_(std::move(shared)),
        moved_(file_.file().moved),
        uneven_(std::make_shared<UnevenLists>()) {}
  /// Reads a function, with these arguments, whose `ends` are needed. `moved`: the nodes of the graph around that are
  /// in the function; empty for one that is a function in the file. `uneven`: takes what `uneven()` returns.
  Importer(const GraphDef& function, const std::vector<std::string>& ends, std::map<std::string, Argument> arguments,
           GraphState& graph, Where where, std::shared_ptr<const MovedNodes> moved, std::shared_ptr<UnevenLists> uneven)
      : file_(function, &ends),
        graph_(graph),
        where_(where),
        original_(nullptr),
        arguments_(std::move(arguments)),
        moved_(std::move(moved)),
        uneven_(std::move(uneven)) {}

  /// Reads a file into a graph, which keeps the importer. Returns its `uneven()`.
  static const UnevenLists& read(GraphState& graph, GraphDef file, Where where, const Importer* original = nullptr,
                                 std::shared_ptr<VariableTable> shared = nullptr);

  void run();

  /// The lists, each one tensor here, to which loops append tensors of different shapes: they fail when they run.
  const UnevenLists& uneven() const { return *uneven_; }

  // ---- FileNodes ----

  bool has(std::string_view name) const override { return file_.has(name) || is_moved(name); }

  const Tensors* outputs(std::string_view name, std::size_t wanted) override;
  Node* find(std::string_view name) override;
  std::vector<Alias> aliases() override;
  std::vector<Constant> constants_left_out() override;
  Name name_of(const Tensor& tensor) override;
  std::string name_of(const Node& node) override;
  bool only_names(const Node& node) const override { return for_names_.contains(&node); }
  std::string_view library() const override { return file_.file().library; }

  std::shared_ptr<GraphState> with_values(const Tensors& tensors, const Tensors& values) override;

 private:
  static std::string not_in_file(const std::string& name);
  GraphState& state() { return graph_; }

  // ---- Adding nodes ----

  void add(Entry& entry);
  /// Gives the name of the file's node to one of the graph's nodes, from node number `first` on, that has its outputs,
  /// by their numbers. No other node keeps it.
  void give_name(const Entry& entry, std::size_t first);

  /// Adds an entry that nothing has needed so far, and what it needs. The value of such a tensor is an attribute.
  void add_missing(Entry& wanted);
  /// Gives a loop the outputs that are its inputs, of variables that the body does not use.
  void pass_on(Entry& loop);
  /// The outputs of an entry, whose nodes begin with number `first`, whose tensors have another name too, or are used
  /// by the nodes of which the entry is composed.
  std::vector<std::size_t> shared_outputs(const Entry& entry, std::size_t first);
  /// Gives such outputs tensors of their own: who feeds one changes what the file's nodes make of it, and nothing else.
  /// Those that no node of the file uses wait in `Entry::shared` until somebody asks for them by name.
  void separate(Entry& entry, std::size_t first);
  Tensor own_output(const Entry& entry, std::size_t output);
  /// The node to which an entry's first output belongs, where several nodes without effects make its outputs: who asks
  /// for the operation takes that output of it. nullptr for other entries.
  Node* maker_of_first_output(const Entry& entry, std::size_t first);
  void separate_rest(Entry& entry);
  /// Gives a Merge of a condition its second output, the number of the input that it takes.
  void add_value_index(Entry& merge);
  /// Calls f() while the graph takes nodes, even if it is finalized.
  void extend(const std::function<void()>& f);
  /// The same for nodes that `only_names` knows.
  void extend_for_names(const std::function<void()>& f);

  // ---- Nodes in branches ----

  /// A node that is in a branch now: what runs it, and its outputs in this graph.
  struct Moved {
    Node* node = nullptr;
    Tensors outputs{};
  };
  bool is_moved(std::string_view name) const;
  /// nullptr when the file has no such node. Throws UnimplementedError for a node that has no value outside.
  const Moved* find_moved(std::string_view name, std::size_t wanted = 0);
  Entry* entry_around(const std::string& name);
  /// The tensor that has the value of an output of a node that is gone, among outputs as the node had them; nullptr if
  /// there is none.
  const Moved* find_passed_on(const std::string& name, std::size_t output);
  Moved give_out(const std::string& name, Node& node, std::size_t function, const Tensors& inside);

  /// Takes away what was added to the graph from node number `size` on, in an attempt to read an entry.
  void undo(std::size_t size);
  static bool is_known(const NodeReader& reader);

  /// Adds a node that is not read, with all its inputs.
  Tensors keep_unread(const Entry& entry, const NodeReader& reader, const std::string& reason);

  /// The node that the attribute `_class` names; "" for none.
  std::string colocation_of(const NodeDef& def);
  /// What runs before the node: its control inputs, the changes whose references it takes, and what a function waits
  /// for before it reads Variables.
  std::vector<Node*> nodes_before(const Entry& entry);
  /// Whether a node changes a Variable, or waits for one that does.
  bool is_after_change(const Node& node);
  std::vector<Node*> nodes_of(const std::vector<const NodeDef*>& defs);
  Tensors outputs_of(Entry& entry);

  // ---- Ops ----

  /// Reads a node, or keeps it as it is if values, sizes or ranks are not known that it needs to be read or written.
  Tensors read_or_keep(const Entry& entry, const NodeReader& reader);

  /// Adds a node that is read later, with all its inputs. `specs`: of its outputs, if they are known.
  Tensors keep(const NodeReader& reader, Tensors& inputs, const std::optional<Specs>& specs = {});

  /// Gives inputs of unknown dtype, such as the outputs of a node that is not read, the dtype that the node's own
  /// attribute "T" tells.
  static void give_types(const NodeReader& reader, const Tensors& inputs);
  Tensors make_hinted(const OpRule& rule, const Entry& entry, const NodeReader& reader);

  // ---- Branches and loops ----

  Tensors argument(const Entry& entry);
  /// A branch, a loop, or a node with a gradient of the file's.
  Tensors flow(const Entry& entry, const NodeReader& reader);

  /// Adds the nodes of a function to the open graph.
  Tensors read_function(const NodeReader& reader, const FunctionBody& body,
                        const std::map<std::string, Argument>& given, const std::vector<std::string>& outputs);

  /// The outputs of a loop of ours, which TensorFlow has in other nodes. The loop gets the name of the one that has
  /// all.
  Tensors results_of_loop(const Entry& entry);

  // ---- Leaves ----

  Tensors constant(const NodeReader& reader);
  Tensors placeholder(const NodeReader& reader);

  // ---- Variables ----

  Tensors variable(const NodeReader& reader);
  Shape shape_of_initial_value(const NodeDef& variable);
  std::shared_ptr<Variable::Cell> make_cell(const NodeReader& reader, const std::pair<std::string, std::string>& key,
                                            const Spec& spec);
  /// The node of the Variable to which the output of a change refers, as TensorFlow 1's do; the node itself for others.
  const NodeDef* referred(const NodeDef* def) const;
  const Variable& variable_of(const Entry& entry, const NodeReader& reader, std::size_t input = 0) const;
  Tensor handle_of(const Variable& variable) { return state().variable_entry(variable, where_).handle; }

  Tensors read(const Entry& entry, const NodeReader& reader);
  Tensors shape_of_variable(const Entry& entry, const NodeReader& reader);
  Tensors assign(const Entry& entry, const NodeReader& reader);

  // ---- Optimizers ----

  Tensors update(const Entry& entry, const NodeReader& reader, const UpdateRule& rule);
  static bool has_constant_numbers(const NodeReader& reader, const UpdateRule& rule);
  static std::vector<double> constant_numbers(const NodeReader& reader, const UpdateRule& rule);

  /// An input of an update as a number: a float64 scalar.
  Tensor number_of(const Entry& entry, const NodeReader& reader, std::size_t input);

  /// The numbers of an update, some of which the graph computes or a run feeds.
  Tensor numbers_by_tensors(const Entry& entry, const NodeReader& reader, const UpdateRule& rule);

  /// Adds an update that is several of our operations.
  Tensors compose(const Entry& entry, const NodeReader& reader, const ComposedUpdate& update);
  /// The value of a Variable before an update that is several operations. A second such update in the same run finds
  /// what the first one has left, though neither waits for the other: TensorFlow's are one operation each.
  Tensor value_before(const Variable& variable, const std::string& name);

  /// The rows of a Variable: TensorFlow's lookup of embeddings.
  Tensors gather_rows(const Entry& entry, const NodeReader& reader);
  static void check_update(const NodeReader& reader, const std::vector<Variable>& variables, const Tensor& gradient);
  static void check_row_update(const NodeReader& reader, const std::vector<Variable>& variables, const Tensor& indices,
                               const Tensor& rows);
  static void check_slots(const NodeReader& reader, const std::vector<Variable>& variables);
  /// Where the file sums the rows of equal indices before an update, as TensorFlow's optimizers do, takes the rows and
  /// indices before that: our update sums by itself.
  void take_summands(Source& rows, Source& indices);
  const Variable& hinted_variable(const Entry& entry, const NodeReader& reader, std::size_t place) const;

  /// The tensor of these numbers, which all updates with the same learning rate share; empty before it is made.
  Tensor& numbers_of(const Entry& rate, const std::vector<double>& numbers) { return numbers_[{rate.def, numbers}]; }
  /// The node of the numbers has the name of the rate's node, if that is no node of ours so far.
  Tensor numbers_named(const Entry& rate, Tensor numbers);
  Tensor numbers_node(const Entry& rate, const std::vector<double>& numbers);

  /// Adam's numbers as our own optimizer computes them, from a Variable that counts the steps.
  Tensor adam_numbers_by_counter(const Entry& rate, const NodeReader& reader, const Source& counter,
                                 const std::vector<double>& parts);

  /// Adam's numbers of a file of TensorFlow's own: the powers of the betas are tensors, and epsilon is not yet divided
  /// by sqrt(1 - beta2^step), as our op needs it (see UpdateRule).
  Tensor adam_numbers_by_powers(const Entry& entry, const NodeReader& reader);

  // ---- What all have in common ----

  Tensor tensor_of(const Source& source);
  Tensors node(const Op& op, const Tensors& inputs, const Attrs& attrs, const std::string& name);

  /// Whether the output of a node is TensorFlow 1's reference to the Variable that it has changed.
  bool refers_to_variable(const Entry& entry) const;

  FileGraph file_;
  std::vector<Entry*> changed_{};  ///< whose outputs are the value of a Variable after a change, in the graph's order
  GraphState& graph_;              ///< owns the importer
  Where where_;
  const Importer* original_;
  std::shared_ptr<VariableTable> shared_;
  std::optional<std::map<std::string, Argument>> arguments_{};  ///< of a function
  std::shared_ptr<const MovedNodes> moved_;
  std::map<std::string, Moved> known_moved_{};  ///< by name
  std::map<std::string, Moved> passed_on_{};    ///< see `find_passed_on`
  std::shared_ptr<UnevenLists> uneven_;
  std::unordered_map<const NodeDef*, Variable> variables_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Variable::Cell>> cells_;  ///< by container, shared name
  std::map<std::pair<const NodeDef*, std::vector<double>>, Tensor> numbers_;
  detail::KnownValues known_;
  std::unordered_set<const Node*> for_names_{};
  std::unordered_set<const void*> composed_{};  ///< the Variables that updates of several operations change
  std::vector<char> is_after_change_{};         ///< by node, see `is_after_change`
  std::optional<std::map<std::string, Assignments>> assignments_{};  ///< see `assignments_of_any_sizes`
};

}  // namespace tapestry::io
