#include <unordered_map>

#include "autodiff/recorded_tape.hpp"
#include "graph/graph_state.hpp"
#include "ops/handles.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry {
namespace {

using detail::GraphState;

/// Makes a graph of what a tape has recorded.
class Lift {
 public:
  Lift(const GradientTape& tape, const ToGraphOptions& options, Where where)
      : tape_(tape), options_(options), where_(where), graph_(std::make_shared<GraphState>()) {}

  Graph run() {
    if (const std::size_t tensors = options_.inputs.size() + options_.outputs.size(); options_.names.size() > tensors)
      throw InvalidArgumentError(
          detail::join("to_graph: ", options_.names.size(), " names for ", tensors, " inputs and outputs"));
    const Graph::Scope open{Graph(graph_)};
    for (std::size_t i = 0; i < options_.inputs.size(); ++i) {
      const Tensor& input = options_.inputs[i];
      known_.emplace(input.id(), placeholder(input.dtype(), input.shape(), name(i), where_));
    }
    mark_needed();
    for (std::size_t i = 0; i < needed_.size(); ++i)
      if (needed_[i]) copy(tape_.calls[i]);
    for (std::size_t i = 0; i < options_.outputs.size(); ++i) add_output(i);
    return Graph(graph_);
  }

 private:
  std::string name(std::size_t i) const { return i < options_.names.size() ? options_.names[i] : std::string(); }

  void mark_needed() {
    std::unordered_map<std::int64_t, std::size_t> producers;
    for (std::size_t i = 0; i < tape_.calls.size(); ++i)
      for (const Tensor& output : tape_.calls[i].call.outputs()) producers.emplace(output.id(), i);
    needed_.resize(tape_.calls.size());
    std::vector<std::size_t> pending;
    const auto visit = [&](const Tensor& tensor) {
      if (known_.contains(tensor.id())) return;
      const auto found = producers.find(tensor.id());
      if (found != producers.end() && !std::exchange(needed_[found->second], 1)) pending.push_back(found->second);
    };
    for (const Tensor& output : options_.outputs) {
      if (!known_.contains(output.id()) && !producers.contains(output.id()))
        throw InvalidArgumentError(detail::join("to_graph: the tape has not recorded how the output of shape ",
                                                output.shape(), " was computed"));
      visit(output);
    }
    while (!pending.empty()) {
      const Call& call = tape_.calls[pending.back()].call;
      pending.pop_back();
      for (const Tensor& input : call.inputs()) visit(input);
    }
  }

  Tensor input_of(const RecordedCall& record, std::size_t i) {
    const Tensor& input = record.call.input(i);
    if (const auto found = known_.find(input.id()); found != known_.end()) return found->second;
    if (const auto read = tape_.reads.find(record.inputs[i]); read != tape_.reads.end())
      return graph_->read(read->second, record.call.where());
    return graph_->captured(input, record.call.where());
  }

  void copy(const RecordedCall& record) {
    const Call& call = record.call;
    detail::locating(call.type(), call.where(), [&] {
      if (!find_op(call.type()))
        throw UnimplementedError("A function with a gradient of its own cannot become part of a graph");
      Tensors inputs;
      for (std::size_t i = 0; i < call.inputs().size(); ++i) inputs.push_back(input_of(record, i));
      Call node(call.op(), inputs, call.attrs(), call.where(), call.name());
      const Specs specs = call.op().infer(node);
      const Tensors outputs = graph_->add_node(std::move(node), specs, {}).outputs();
      for (std::size_t i = 0; i < outputs.size(); ++i) known_.emplace(call.output(i).id(), outputs[i]);
    });
  }

  void add_output(std::size_t i) {
    Tensor output = known_.at(options_.outputs[i].id());
    const std::string given = name(options_.inputs.size() + i);
    if (!given.empty()) output = apply(ops::identity, {output}, {}, given);
    Graph(graph_).add_to_collection("outputs", output);
  }

  RecordedTape tape_;
  const ToGraphOptions& options_;
  Where where_;
  std::shared_ptr<GraphState> graph_;
  std::unordered_map<std::int64_t, Tensor> known_;  ///< by id: the tensor of the graph that stands for another
  std::vector<char> needed_;
};

}  // namespace

Graph GradientTape::to_graph(const ToGraphOptions& options, Where where) const {
  return detail::locating({}, where, [&] { return Lift(*this, options, where).run(); });
}

}  // namespace tapestry
