#include "tapestry/trace.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>

#include "autodiff/flag_reads.hpp"
#include "graph/graph_state.hpp"
#include "tapestry/autocast.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry::detail {
namespace {

Tensors tensors_of(std::span<const Value> arguments, Where where) {
  Tensors list;
  for (const Value& each : arguments) list.push_back(each.tensor({}, where));
  return list;
}

/// The number of significant bits of a floating type.
int digits_of(DType type) { return type == float64 ? 53 : type == float32 ? 24 : type == float16 ? 11 : 8; }

bool keeps(DType type, std::int64_t number) {
  const std::uint64_t size = number < 0 ? 0 - static_cast<std::uint64_t>(number) : number;
  if (type == float16 && size > 65504) return false;
  return size == 0 || static_cast<int>(std::bit_width(size)) - std::countr_zero(size) <= digits_of(type);
}

/// Whether a conversion has kept the values: integers exactly, floats up to rounding, but without overflow.
bool has_kept(const Tensor& from, const Tensor& to) {
  const ExecuteNow now;
  const PauseRecording pause;
  if (is_floating(from.dtype())) {
    const std::vector<double> before = from.to_vector<double>(), after = to.to_vector<double>();
    return std::equal(before.begin(), before.end(), after.begin(),
                      [](double a, double b) { return std::isinf(a) || !std::isinf(b); });
  }
  const auto numbers = from.to_vector<std::int64_t>();
  if (!is_floating(to.dtype())) return numbers == to.to_vector<std::int64_t>();
  return std::all_of(numbers.begin(), numbers.end(), [&](std::int64_t each) { return keeps(to.dtype(), each); });
}

/// Whether a value of one type may be converted to another: where an expression would widen it, and for a literal also
/// between integer types and between floating types.
bool may_become(DType given, DType wanted, bool literal) {
  if (promote(given, wanted) == wanted) return true;
  return literal && (given == float32 ? is_floating(wanted) : is_integer(given) && is_integer(wanted));
}

/// The argument number `place` in the dtype of its placeholder, `input`. Throws if it does not fit.
Tensor fitted(const Value& argument, const Tensor& input, std::size_t place, Where where) {
  const bool literal = !argument.is_tensor();
  const DType wanted = input.dtype();
  const auto refuse = [&](const std::string& given) {
    throw InvalidArgumentError(join("Argument ", place, ", '", input.op().name(), "', of the traced function is ",
                                    to_string(wanted), input.shape(), ", not ", given),
                               where);
  };
  if (argument.is_empty_tensor()) refuse("an empty Tensor");
  Tensor given = argument.tensor({}, where);
  const auto describe = [&] { return to_string(given.dtype()) + to_string(given.shape()); };
  if (!can_be(input.shape(), given.shape())) refuse(describe());
  if (wanted == DType::unknown || given.dtype() == DType::unknown || (!literal && given.dtype() == wanted))
    return given;
  if (!may_become(given.dtype(), wanted, literal)) refuse(describe() + ", which is not narrowed");
  const Tensor full = literal && is_floating(wanted) && is_floating(given.dtype()) ? argument.tensor(float64) : given;
  Tensor result = literal ? argument.tensor(wanted, where) : given.cast(wanted, where);
  if (!given.is_symbolic() && !has_kept(full, result))
    refuse(describe() + ", of which a value does not fit " + to_string(wanted));
  return result;
}

/// Whether the function itself must be called, because an open graph, a recorder or a symbolic argument needs its ops.
bool is_watched(std::span<const Value> arguments) {
  return open_sink() || !recorders().empty() || std::any_of(arguments.begin(), arguments.end(), [](const Value& each) {
           return each.is_tensor() && each.tensor().is_symbolic();
         });
}

}  // namespace

struct FlatTrace::State {
  FlatFunction function;
  Graph graph;
  Tensors inputs, outputs;
  FlagReads flags;
  std::optional<Session::Callable> run;  ///< fetches the outputs, and runs the nodes with an effect
};

FlatTrace::FlatTrace(FlatFunction function, const std::vector<TensorSpec>& specs, const TraceOptions& options,
                     Where where)
    : state_(new State{.function = std::move(function),
                       .graph = Graph(std::make_shared<GraphState>(GraphState::Order::program)),
                       .inputs = {},
                       .outputs = {},
                       .flags = {},
                       .run = {}}) {
  detail::locating({}, where, [&] {
    {
      const FlagReads::Scope flags(state_->flags);
      // As in TensorFlow, what is traced is in the scope of the caller's device.
      const OptionsScope scope(state_->graph.state(), {.device = scopes().device});
      for (const TensorSpec& each : specs)
        state_->inputs.push_back(placeholder(each.dtype, each.shape, each.name, where));
      for (const Tensor& result : state_->function(state_->inputs))
        state_->outputs.push_back(result ? state_->graph.state()->captured(result, where) : result);
    }
    state_->flags.find_owners();
    std::vector<Fetch> fetches;
    for (const Tensor& output : state_->outputs) {
      if (!output) throw InvalidArgumentError("The traced function returned an empty Tensor");
      fetches.emplace_back(output);
    }
    std::vector<Operation> targets;
    for (Node* node : state_->graph.state()->must_run()) targets.push_back(operation_of(*node));
    if (!fetches.empty() || !targets.empty()) {
      const Session session(state_->graph,
                            {.disabled_passes = options.disabled_passes, .most_plans = options.most_plans}, where);
      state_->run.emplace(session.make_callable(fetches, state_->inputs, targets, where));
    }
  });
}

Tensors FlatTrace::call(std::span<Value> arguments, Where where) const {
  if (arguments.size() != state_->inputs.size())
    throw InvalidArgumentError(
        join("The traced function takes ", state_->inputs.size(), " tensors, not ", arguments.size()), where);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Tensor value = fitted(arguments[i], state_->inputs[i], i, where);
    if (!arguments[i].is_tensor() || value.dtype() != arguments[i].tensor().dtype()) arguments[i] = Value(value, where);
  }
  if (is_watched(arguments))
    return detail::locating({}, where, [&] { return state_->function(tensors_of(arguments, where)); });
  if (!state_->run) return {};
  return state_->run->call(arguments, where);
}

Graph FlatTrace::graph() const { return state_->graph; }
const Tensors& FlatTrace::inputs() const { return state_->inputs; }
const Tensors& FlatTrace::outputs() const { return state_->outputs; }
bool FlatTrace::is_current() const { return state_->flags.hold(); }

namespace {

const Tensor& at(const Tensors& list, std::size_t i, std::string_view what) {
  if (i >= list.size())
    throw InvalidArgumentError(join("The traced function has ", list.size(), " ", what, "s, there is no number ", i));
  return list[i];
}

}  // namespace

const Tensor& FlatTrace::input(std::size_t i) const { return at(inputs(), i, "input"); }
const Tensor& FlatTrace::output(std::size_t i) const { return at(outputs(), i, "output"); }

struct FlatTraces::State {
  struct Kept {
    FlatTrace trace;
    std::uint64_t last_call;
  };

  State(FlatFunction f, const TraceOptions& o) : function(std::move(f)), options(o) {}
  FlatFunction function;
  TraceOptions options;
  std::mutex mutex;
  std::multimap<std::string, Kept> traces;
  std::uint64_t calls = 0;  ///< counts the uses of traces, which tells their order
  /// Of the plans of all traces, which take as much memory as the largest of them needs.
  std::shared_ptr<ArenaPool> arena_pool = std::make_shared<ArenaPool>();

  FlatTrace trace_for(const std::string& signature, const std::vector<TensorSpec>& specs, Where where) {
    const std::lock_guard lock(mutex);
    const auto [begin, end] = traces.equal_range(signature);
    auto found = std::find_if(begin, end, [](const auto& each) { return each.second.trace.is_current(); });
    if (found == end) {
      const FlatTrace trace(function, specs, options, where);
      trace.graph().state()->arena_pool = arena_pool;  // no plan has been made yet
      found = traces.emplace(signature, Kept{trace, 0});
    }
    found->second.last_call = ++calls;
    FlatTrace trace = found->second.trace;
    if (traces.size() > options.most_plans)
      traces.erase(std::min_element(traces.begin(), traces.end(), [](const auto& a, const auto& b) {
        return a.second.last_call < b.second.last_call;
      }));
    return trace;
  }
};

FlatTraces::FlatTraces(FlatFunction function, const TraceOptions& options)
    : state_(std::make_shared<State>(std::move(function), options)) {}

Tensors FlatTraces::call(std::span<Value> arguments, Where where) const {
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].is_empty_tensor())
      throw InvalidArgumentError(join("Argument ", i, " of the traced function is an empty Tensor"), where);
  if (is_watched(arguments))
    return detail::locating({}, where, [&] { return state_->function(tensors_of(arguments, where)); });
  std::string signature = join(scopes().device, ' ', to_string(Autocast::current()));
  std::vector<TensorSpec> specs;
  for (Value& each : arguments) {
    const Tensor value = each.tensor({}, where);
    specs.push_back(spec(value));
    signature += to_string(value.dtype()) + to_string(value.shape());
    if (!each.is_tensor()) each = Value(value, where);
  }
  return state_->trace_for(signature, specs, where).call(arguments, where);
}

std::size_t FlatTraces::size() const {
  const std::lock_guard lock(state_->mutex);
  return state_->traces.size();
}

}  // namespace tapestry::detail
