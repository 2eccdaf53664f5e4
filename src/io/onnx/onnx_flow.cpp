/// Branches and loops. ONNX's If, Loop and Scan have graphs as attributes, which read the values around them: so the
/// operands of our functions need no inputs. The names in a file are unique, in all graphs together.

#include <algorithm>
#include <limits>
#include <mutex>

#include "core/element_shape.hpp"
#include "core/make_tensor.hpp"
#include "graph/flow/flow_ops.hpp"
#include "io/onnx/onnx_writer.hpp"

namespace tapestry::io {
namespace {

using Texts = std::vector<std::string>;
using protozero::pbf_writer;

/// Writes the nodes of a function to where `around` writes its own, and returns the values of the outputs that are
/// wanted; "" for the others, and for those that the function does not give. `inputs`: the values of its inputs.
Texts write_function(const OnnxGraph& around, const detail::GraphFunction& function, const Texts& inputs,
                     const std::vector<char>& wanted) {
  const std::lock_guard lock(function.graph->mutex());
  OnnxGraph graph(around.writer(), around);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (function.inputs[i]) graph.name(function.inputs[i], inputs[i]);
  const auto is_written = [&](std::size_t i) { return wanted[i] && bool(function.outputs[i]); };
  Tensors outputs;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (is_written(i)) outputs.push_back(function.outputs[i]);
  write_onnx_nodes(graph, outputs);
  Texts values(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (is_written(i)) values[i] = graph.value(function.outputs[i]);
  return values;
}

/// A graph that is an attribute of a node.
class Subgraph {
 public:
  Subgraph(const OnnxWriter& around, std::string_view name)
      : label_(detail::join(around.node().name(), '/', name)), writer_(bytes_), graph_(writer_, around.graph()) {
    writer_.add_string(2, label_);
  }

  const OnnxGraph& graph() const { return graph_; }

  std::string add_input(std::string_view name, const Spec& spec) {
    std::string unique = graph_.unique(detail::join(label_, '/', name));
    write_value_info(writer_, 11, unique, spec, unnamed);
    return unique;
  }

  /// Adds an output that has this value, which may be one from around the graph.
  void add_output(const std::string& value, const Spec& spec) {
    write_value_info(writer_, 12, add("Identity", {value}), spec, unnamed);
  }

  Texts add(std::string_view type, const Texts& inputs, const OnnxFields& fields, std::size_t outputs) {
    OnnxNode node{type, inputs, {}, fields};
    for (std::size_t i = 0; i < outputs; ++i) node.outputs.push_back(graph_.unique(detail::join(label_, '/', type)));
    graph_.add(node);
    return node.outputs;
  }
  std::string add(std::string_view type, const Texts& inputs, const OnnxFields& fields = {}) {
    return add(type, inputs, fields, 1)[0];
  }

  OnnxSubgraph take() { return {std::move(bytes_)}; }

 private:
  static std::string unnamed(int) { return {}; }

  std::string label_, bytes_;
  pbf_writer writer_;
  OnnxGraph graph_;
};

std::vector<char> used_outputs(const OnnxWriter& w) {
  std::vector<char> used;
  for (std::size_t i = 0; i < w.node().outputs().size(); ++i) used.push_back(w.is_used(i));
  return used;
}

/// The values at these places of a list with a place for each output of our node, and "" elsewhere.
Texts spread(const Texts& values, const std::vector<char>& used) {
  Texts all(used.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i]) all[i] = values[next++];
  return all;
}

// ---- Branches --------------------------------------------------------------------------------------------------------

class BranchWriter {
 public:
  explicit BranchWriter(OnnxWriter& w) : w_(w), functions_(detail::functions_of(w.node())), used_(used_outputs(w)) {
    for (std::size_t i = 1; i < w.node().inputs().size(); ++i) operands_.push_back(w.in(i));
  }

  void run() {
    const bool is_if = detail::is_if(w_.node().op());
    if (functions_.size() == 1) return w_.finish(write_function(w_.graph(), functions_[0], operands_, used_));
    const std::string is_first = is_if ? w_.in() : w_.op("Equal", {w_.in(), index(0)});
    const OnnxFields fields{{"then_branch", branch(0)}, {"else_branch", branches_from(1)}};
    w_.finish(spread(w_.ops("If", {is_first}, fields, count()), used_));
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(std::count(used_.begin(), used_.end(), 1)); }

  std::string index(std::size_t i) { return w_.number(static_cast<double>(i), int32); }

  OnnxSubgraph branch(std::size_t number) {
    const detail::GraphFunction& function = functions_[number];
    Subgraph graph(w_, function.name);
    const Texts values = write_function(graph.graph(), function, operands_, used_);
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (!used_[i]) continue;
      const bool is_given = bool(function.outputs[i]);
      Spec spec = is_given ? function.outputs[i].spec() : w_.node().output(i).spec();
      if (spec.dtype == DType::unknown) spec.dtype = w_.node().output(i).dtype();  // an op that Tapestry lacks
      graph.add_output(is_given ? values[i] : absent(graph, spec), spec);
    }
    return graph.take();
  }

  /// A value for an output that a branch does not give, and that nobody reads: of no elements where sizes are unknown.
  std::string absent(Subgraph& graph, const Spec& spec) {
    std::vector<std::int64_t> sizes;
    if (spec.shape.has_rank())
      for (const std::int64_t size : spec.shape.sizes()) sizes.push_back(std::max<std::int64_t>(size, 0));
    return graph.add("Expand", {w_.number(0, spec.dtype), w_.ints(sizes)});
  }

  /// What a Case does with the branches from this one on, where the index is none of those before.
  OnnxSubgraph branches_from(std::size_t number) {
    if (number + 1 == functions_.size()) return branch(number);
    Subgraph graph(w_, detail::join("from_", functions_[number].name));
    const std::string is_this = graph.add("Equal", {w_.in(), index(number)});
    const OnnxFields fields{{"then_branch", branch(number)}, {"else_branch", branches_from(number + 1)}};
    const Texts values = graph.add("If", {is_this}, fields, count());
    std::size_t next = 0;
    for (std::size_t i = 0; i < used_.size(); ++i)
      if (used_[i]) graph.add_output(values[next++], w_.node().output(i).spec());
    return graph.take();
  }

  OnnxWriter& w_;
  const std::vector<detail::GraphFunction>& functions_;
  std::vector<char> used_;
  Texts operands_;
};

// ---- Loops -----------------------------------------------------------------------------------------------------------

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

/// A loop over sequences of a known length is a Scan, any other a Loop, whose body takes the elements of the sequences
/// by the number of the iteration. (onnxruntime refuses to run a Scan over no elements.)
class LoopWriter {
 public:
  explicit LoopWriter(OnnxWriter& w)
      : w_(w), node_(w.node()), parts_(node_), specs_(parts_.body_specs(node_.inputs())), used_(used_outputs(w)) {
    for (std::size_t i = 0; i < node_.inputs().size(); ++i) inputs_.push_back(w.in(i));
    wanted_ = used_;
    std::fill_n(wanted_.begin(), parts_.carried, 1);
  }

  void run() {
    check_stacks();
    Texts values = spread(is_scan() ? scan() : loop(), wanted_);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!used_[i]) values[i].clear();
    w_.finish(values);
  }

 private:
  bool is_scan() const {
    if (parts_.condition || parts_.sequences == 0 || !parts_.varying.empty() || parts_.maximum >= 0) return false;
    const Shape& shape = node_.input(parts_.carried).shape();
    return shape.has_rank() && shape.sizes()[0] > 0;
  }

  std::size_t operands_begin() const { return parts_.carried + parts_.sequences; }
  std::size_t count() const { return static_cast<std::size_t>(std::count(wanted_.begin(), wanted_.end(), 1)); }

  /// The elements of a stack must have one shape, also where a branch does not give the element.
  void check_stacks() const {
    if (!parts_.ragged_stacks.empty() || !parts_.ragged_sequences.empty())
      w_.refuse(
          "it keeps tensors whose shapes differ from iteration to iteration, for the gradient of a loop in a loop");
    for (std::size_t i = parts_.carried; i < wanted_.size(); ++i)
      if (wanted_[i] && !parts_.body.outputs[i].shape().is_known() && may_be_absent(parts_.body.outputs[i]))
        w_.refuse("its gradient needs the results of a branch, whose sizes are not known yet");
  }

  static bool may_be_absent(const Tensor& tensor) {
    const auto [node, number] = detail::endpoint_of(tensor);
    if (!detail::is_flow(node->op()) || detail::is_while(node->op())) return false;
    const std::vector<detail::GraphFunction>& branches = detail::functions_of(*node);
    return std::any_of(branches.begin(), branches.end(),
                       [output = static_cast<std::size_t>(number)](const detail::GraphFunction& each) {
                         return !each.outputs[output] || may_be_absent(each.outputs[output]);
                       });
  }

  Spec element_spec(std::size_t output) const {
    Spec spec = node_.output(output).spec();
    spec.shape = detail::element_shape(spec.shape);
    return spec;
  }

  void add_outputs(Subgraph& graph, const Texts& values) const {
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      if (wanted_[i]) graph.add_output(values[i], i < parts_.carried ? specs_[i] : element_spec(i));
  }

  Texts scan() {
    Subgraph graph(w_, parts_.body.name);
    Texts values = inputs_;
    for (std::size_t i = 0; i < operands_begin(); ++i)
      values[i] = graph.add_input(i < parts_.carried ? "carried" : "element", specs_[i]);
    add_outputs(graph, write_function(graph.graph(), parts_.body, values, wanted_));
    const auto directions = [&](std::size_t many) { return std::vector<std::int64_t>(many, parts_.reverse); };
    const auto sequences = static_cast<std::int64_t>(parts_.sequences);
    const std::size_t stacks = count() - parts_.carried;
    OnnxFields fields{{"body", graph.take()},
                      {"num_scan_inputs", sequences},
                      {"scan_input_directions", directions(parts_.sequences)}};
    if (stacks > 0) fields.emplace_back("scan_output_directions", directions(stacks));
    return w_.ops("Scan", Texts(inputs_.begin(), inputs_.begin() + static_cast<std::ptrdiff_t>(operands_begin())),
                  fields, count());
  }

  Texts loop() {
    if (parts_.condition && parts_.reverse) w_.refuse("it has a condition and runs from the end of its sequences");
    const std::string length = parts_.sequences > 0 ? length_of(parts_.carried) : "";
    std::string limit =
        parts_.maximum < 0 && !length.empty() ? length : number(parts_.maximum < 0 ? most : parts_.maximum);
    if (parts_.maximum >= 0 && !length.empty()) limit = w_.op("Min", {limit, length});
    const std::string first =
        parts_.condition ? holds(w_.graph(), inputs_) : w_.constant(detail::make_scalar(1, boolean));
    Texts given{limit, first};
    given.insert(given.end(), inputs_.begin(), inputs_.begin() + static_cast<std::ptrdiff_t>(parts_.carried));
    Texts results = w_.ops("Loop", given, {{"body", body(length)}}, count());
    if (parts_.reverse)
      for (std::size_t i = parts_.carried; i < results.size(); ++i)
        results[i] = w_.op("Slice", {results[i], w_.ints({-1}), w_.ints({-most}), w_.ints({0}), w_.ints({-1})});
    return results;
  }

  OnnxSubgraph body(const std::string& length) {
    Subgraph graph(w_, parts_.body.name);
    const std::string iteration = graph.add_input("iteration", {int64, {}});
    const std::string goes_on = graph.add_input("condition", {boolean, {}});
    Texts values = inputs_;
    for (std::size_t i = 0; i < parts_.carried; ++i) values[i] = graph.add_input("carried", specs_[i]);
    std::string at = iteration;
    if (parts_.sequences > 0 && parts_.reverse) at = graph.add("Sub", {graph.add("Sub", {length, number(1)}), at});
    for (std::size_t i = parts_.carried; i < operands_begin(); ++i)
      values[i] = graph.add("Gather", {inputs_[i], at}, {{"axis", 0}});
    const Texts results = write_function(graph.graph(), parts_.body, values, wanted_);
    std::copy_n(results.begin(), parts_.carried, values.begin());
    graph.add_output(parts_.condition ? holds(graph.graph(), values) : goes_on, {boolean, {}});
    add_outputs(graph, results);
    return graph.take();
  }

  /// Writes the condition for these values of the loop's inputs, of which it takes no sequences.
  std::string holds(const OnnxGraph& around, Texts values) const {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(parts_.carried);
    values.erase(begin, begin + static_cast<std::ptrdiff_t>(parts_.sequences));
    return write_function(around, *parts_.condition, values, {1})[0];
  }

  std::string length_of(std::size_t input) {
    return w_.op("Squeeze", {w_.op("Shape", {inputs_[input]}, {{"start", 0}, {"end", 1}}), w_.ints({0})});
  }

  std::string number(std::int64_t value) {
    const Tensor scalar = detail::make_tensor(int64, {}, cpu());
    *detail::mutable_data<std::int64_t>(scalar) = value;
    return w_.constant(scalar);
  }

  OnnxWriter& w_;
  const detail::Node& node_;
  detail::WhileParts parts_;
  Specs specs_;                      ///< of the body's inputs
  std::vector<char> used_, wanted_;  ///< by output; wanted are all carried values, too
  Texts inputs_;
};

}  // namespace

void write_onnx_flow(OnnxWriter& writer) {
  if (detail::is_while(writer.node().op())) return LoopWriter(writer).run();
  BranchWriter(writer).run();
}

}  // namespace tapestry::io
