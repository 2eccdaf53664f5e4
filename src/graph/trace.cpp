#include "tapestry/trace.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "graph/graph_state.hpp"

namespace tapestry::detail {
namespace {

Tensors tensors_of(std::span<const Init> arguments, Where where) {
  Tensors list;
  for (const Init& each : arguments) list.push_back(each.tensor({}, where));
  return list;
}

/// Whether the function itself is to be called: something around it wants to see its ops.
bool is_watched(std::span<const Init> arguments) {
  return open_sink() || !recorders().empty() || std::any_of(arguments.begin(), arguments.end(), [](const Init& each) {
           return each.is_tensor() && each.tensor().is_symbolic();
         });
}

}  // namespace

struct FlatTrace::State {
  FlatFunction function;
  Graph graph;
  Tensors inputs, outputs;
  std::optional<Session::Callable> run;  ///< fetches the outputs, and runs what changes Variables
};

FlatTrace::FlatTrace(FlatFunction function, const std::vector<TensorSpec>& specs, Where where)
    : state_(new State{.function = std::move(function),
                       .graph = Graph(std::make_shared<GraphState>(GraphState::Order::program)),
                       .inputs = {},
                       .outputs = {},
                       .run = {}}) {
  try {
    {
      const std::string device = scopes().device;
      const Graph::Scope scope(state_->graph);
      scopes().device = device;  // as in TensorFlow, what is traced is in the caller's scope
      for (const TensorSpec& each : specs)
        state_->inputs.push_back(placeholder(each.dtype, each.shape, each.name, where));
      for (const Tensor& result : state_->function(state_->inputs))
        state_->outputs.push_back(result ? state_->graph.state()->captured(result, where) : result);
    }
    std::vector<Fetch> fetches;
    for (const Tensor& output : state_->outputs) {
      if (!output) throw InvalidArgumentError("The traced function returned an empty Tensor");
      fetches.emplace_back(output);
    }
    std::vector<Operation> targets;
    for (Node* node : state_->graph.state()->must_run()) targets.push_back(operation_of(*node));
    if (!fetches.empty() || !targets.empty())
      state_->run.emplace(Session(state_->graph).make_callable(fetches, state_->inputs, targets, where));
  } catch (Error& error) {
    error.locate({}, where);
    throw;
  }
}

Tensors FlatTrace::call(std::span<const Init> arguments, Where where) const {
  if (is_watched(arguments)) return state_->function(tensors_of(arguments, where));
  if (arguments.size() != state_->inputs.size())
    throw InvalidArgumentError(
        join("The traced function takes ", state_->inputs.size(), " tensors, not ", arguments.size()), where);
  if (!state_->run) return {};
  return state_->run->call(arguments);
}

Graph FlatTrace::graph() const { return state_->graph; }
const Tensors& FlatTrace::inputs() const { return state_->inputs; }
const Tensors& FlatTrace::outputs() const { return state_->outputs; }

struct FlatTraces::State {
  explicit State(FlatFunction f) : function(std::move(f)) {}
  FlatFunction function;
  std::mutex mutex;
  std::map<std::string, FlatTrace> traces;
};

FlatTraces::FlatTraces(FlatFunction function) : state_(std::make_shared<State>(std::move(function))) {}

Tensors FlatTraces::call(std::span<const Init> arguments, Where where) const {
  if (is_watched(arguments)) return state_->function(tensors_of(arguments, where));
  std::string signature = scopes().device;
  std::vector<TensorSpec> specs;
  std::vector<Init> values;
  for (const Tensor& each : tensors_of(arguments, where)) {
    specs.push_back(spec(each.dtype(), each.shape()));
    signature += to_string(each.dtype()) + to_string(each.shape());
    values.emplace_back(each);
  }
  const FlatTrace trace = [&] {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->traces.find(signature);
    return found != state_->traces.end()
               ? found->second
               : state_->traces.emplace(signature, FlatTrace(state_->function, specs, where)).first->second;
  }();
  return trace.call(values, where);
}

std::size_t FlatTraces::size() const {
  const std::lock_guard lock(state_->mutex);
  return state_->traces.size();
}

}  // namespace tapestry::detail
