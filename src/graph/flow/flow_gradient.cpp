/// The gradients of ops that run functions of a graph. The gradient of a function is added to the function's own graph.
/// What it needs of the forward pass, its residuals, become further outputs of the forward op: a branch returns them,
/// and a loop stacks them.

#include <algorithm>
#include <functional>

#include "autodiff/backward.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/passes/passes.hpp"
#include "graph/state_ops.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::detail {
namespace {

constexpr std::size_t npos = static_cast<std::size_t>(-1);

std::size_t find_in(const Tensors& list, const Tensor& wanted) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Tensor& each) { return bool(each) && each.is(wanted); });
  return found == list.end() ? npos : static_cast<std::size_t>(found - list.begin());
}

/// The sum of no gradients. It is -0, because only -0 + x is x for every x, 0 included.
Tensor no_sum(const Tensor& like) { return negative(zeros_like(like)); }

/// The gradient of one function of a flow op, while it is added to the function's graph.
class FunctionGradient {
 public:
  explicit FunctionGradient(const GraphFunction& function)
      : function_(function),
        open_(Graph(function.graph)),
        lock_(function.graph->mutex()),
        forward_(function.graph->size()) {
    // The gradient runs in another op, so it does not wait for what the forward pass draws, or for its collectives.
    function.graph->forget_draws();
  }

  /// A placeholder for a gradient like this tensor, which is absent where the tensor is.
  static Tensor gradient_like(const Tensor& tensor) {
    Tensor gradient = placeholder(tensor.dtype(), tensor.shape(), "gradient");
    Node& node = producer_of(gradient);
    if (may_be_absent(tensor))
      node.graph->extend(node, {{"dtype", tensor.dtype()}, {"shape", tensor.shape()}, {"may_be_absent", true}}, {});
    return gradient;
  }

  /// The inputs that a gradient may reach from these outputs.
  std::vector<char> reached(const Tensors& outputs) const {
    std::vector<char> seen(forward_), inputs(function_.inputs.size());
    std::vector<Tensor> pending(outputs.begin(), outputs.end());
    while (!pending.empty()) {
      const Tensor tensor = pending.back();
      pending.pop_back();
      if (!is_floating(tensor.dtype())) continue;
      if (const std::size_t input = find_in(function_.inputs, tensor); input != npos) {
        inputs[input] = 1;
        continue;
      }
      const Node& node = producer_of(tensor);
      if (!node.op().gradient.flows() || std::exchange(seen[node.index], 1)) continue;
      pending.insert(pending.end(), node.inputs().begin(), node.inputs().end());
    }
    return inputs;
  }

  /// The gradients of the inputs whose numbers are `wanted`; empty where no gradient flows. `outputs`: tensors of the
  /// graph; `gradients`: theirs.
  std::vector<Tensor> of(const Tensors& outputs, const Tensors& gradients, const std::vector<std::size_t>& wanted) {
    std::vector<Source> sources;
    std::vector<Tensor> stops;
    for (const std::size_t i : wanted) sources.emplace_back(function_.inputs[i]);
    for (const Tensor& each : function_.inputs)
      if (each) stops.push_back(each);
    std::vector<Tensor> found =
        tapestry::gradients(std::vector<Tensor>(outputs), sources,
                            {.output_gradients = std::vector<Tensor>(gradients), .stop_gradients = stops});
    for (const Tensor& each : found)
      if (bool(each) && producer_of(each).attrs().find("redo"))
        throw UnimplementedError(join("The gradient of the function '", function_.name,
                                      "' of a graph needs ranks that are not known when the graph is made; give the "
                                      "placeholders shapes"));
    return found;
  }

  /// What the results need of the forward pass.
  struct Needs {
    std::vector<char> inputs;  ///< by the function's input: whether it is needed
    Tensors residuals{};       ///< other tensors of the forward pass
    bool is_stateful = false;  ///< whether the gradient itself meets other ranks
  };
  /// `recompute(node)`: whether to compute a forward node again, rather than to keep its outputs.
  Needs needs_of(const Tensors& results, const std::function<bool(const Node&)>& recompute) const {
    Needs needs{.inputs = std::vector<char>(function_.inputs.size())};
    std::vector<char> seen(function_.graph->size());
    std::vector<Tensor> pending(results.begin(), results.end());
    while (!pending.empty()) {
      const Tensor tensor = pending.back();
      pending.pop_back();
      const Node& node = producer_of(tensor);
      if (const std::size_t input = find_in(function_.inputs, tensor); input != npos) {
        needs.inputs[input] = 1;
        continue;
      }
      const bool is_free = &node.op() == &const_op || &node.op() == &placeholder_op || &node.op() == &var_handle_op;
      if (node.index < forward_ && !is_free && !recompute(node)) {
        if (find_in(needs.residuals, tensor) == npos) needs.residuals.push_back(tensor);
        continue;
      }
      if (std::exchange(seen[node.index], 1)) continue;
      needs.is_stateful |= has_effect(node);
      pending.insert(pending.end(), node.inputs().begin(), node.inputs().end());
    }
    return needs;
  }

 private:
  const GraphFunction& function_;
  const RecordFunction pause_{};
  Graph::Scope open_;
  std::lock_guard<std::recursive_mutex> lock_;
  std::size_t forward_;  ///< the number of nodes of the forward pass
};

/// Whether each node of a function depends on no more than the operands, and so is the same in every iteration.
class Invariants {
 public:
  Invariants(const GraphFunction& body, std::size_t varying_inputs) {
    invariant_.resize(body.graph->size());
    for (std::size_t i = 0; i < invariant_.size(); ++i) {
      const Node& node = body.graph->node(i);
      bool is_invariant = !node.op().stateful;
      for (const Tensor& output : node.outputs()) {
        const std::size_t input = find_in(body.inputs, output);
        is_invariant = is_invariant && (input == npos || input >= varying_inputs);
      }
      for (const Tensor& input : node.inputs()) is_invariant = is_invariant && invariant_[producer_of(input).index];
      invariant_[i] = is_invariant;
    }
  }
  bool operator()(const Node& node) const { return node.index < invariant_.size() && invariant_[node.index]; }

 private:
  std::vector<char> invariant_;
};

/// The forward op of a call: the node of its outputs.
Node& forward_node(const Call& call) { return producer_of(call.outputs().back()); }

/// Tells the tapes that record the gradient, for a derivative of higher order, of all outputs of the forward node.
void tell_of_outputs(const Node& node) {
  const Recorders listeners = recorders();
  for (Recorder* each : listeners) each->extend(node);
}

// ---- Branches --------------------------------------------------------------------------------------------------------

/// The gradient of an If or a Case: another one, whose branches are the gradients of the branches.
class BranchGradient {
 public:
  BranchGradient(const Call& call, const Tensors& arrived)
      : call_(call),
        node_(forward_node(call)),
        functions_(node_.attrs().get<FunctionsRef>("functions")),
        outputs_(call.outputs().size()),
        arrived_(arrived.begin(), arrived.begin() + call.outputs().size()),
        sums_(arrived.begin() + call.outputs().size(), arrived.end()) {}

  Tensors run() {
    find_wanted();
    if (wanted_.empty()) return sums_;
    add_inputs();
    std::vector<GraphFunction> gradients;
    for (const GraphFunction& branch : *functions_) gradients.push_back(gradient_of(branch));
    add_residuals(gradients);
    const Op& op = is_if(call_.op()) ? if_op(is_stateful_) : case_op(is_stateful_);
    const Tensors results =
        apply_all(op, inputs_, {{"functions", functions_ref(std::move(gradients))}}, {}, call_.where());
    Tensors all = sums_;
    for (std::size_t k = 0; k < wanted_.size(); ++k) all[wanted_[k] + 1] = results[k];
    return all;
  }

 private:
  const GraphFunction& first() const { return functions_->front(); }

  /// Finds the operands that a gradient reaches in some branch.
  void find_wanted() {
    std::vector<char> reached(first().inputs.size());
    for (const GraphFunction& branch : *functions_) {
      const FunctionGradient gradient(branch);
      const std::vector<char> here = gradient.reached(targets_of(branch));
      for (std::size_t i = 0; i < here.size(); ++i) reached[i] |= here[i];
    }
    for (std::size_t i = 0; i < reached.size(); ++i)
      if (reached[i] && call_.wants_gradient(i + 1)) wanted_.push_back(i);
  }

  Tensors targets_of(const GraphFunction& branch) const {
    Tensors targets;
    for (std::size_t i = 0; i < outputs_; ++i)
      if (bool(arrived_[i]) && bool(branch.outputs[i])) targets.push_back(branch.outputs[i]);
    return targets;
  }

  /// The inputs of the backward op: the selector, the sums so far, the gradients of the outputs, the operands. The
  /// residuals follow.
  void add_inputs() {
    inputs_.push_back(call_.input(0));
    for (const std::size_t i : wanted_)
      if (sums_[i + 1]) inputs_.push_back(sums_[i + 1]);
    for (const Tensor& each : arrived_)
      if (each) inputs_.push_back(each);
    for (std::size_t i = 1; i < call_.inputs().size(); ++i) inputs_.push_back(call_.input(i));
  }

  GraphFunction gradient_of(const GraphFunction& branch) {
    FunctionGradient gradient(branch);
    GraphFunction result{.name = branch.name + "_grad", .graph = branch.graph, .inputs = {}, .outputs = {}};
    Tensors targets, seeds;
    Tensors operands = branch.inputs;
    for (const std::size_t i : wanted_) {
      // A branch that does not know a residual of another branch gives no gradient of it.
      const bool is_absent = !operands[i] && !sums_[i + 1] && may_be_absent(call_.input(i + 1));
      if (is_absent) {
        result.outputs.emplace_back();
        continue;
      }
      if (!operands[i]) operands[i] = placeholder_like(call_.input(i + 1));
      Tensor sum;
      if (sums_[i + 1]) {
        sum = FunctionGradient::gradient_like(operands[i]);
        result.inputs.push_back(sum);
      }
      result.outputs.push_back(sum ? sum : no_sum(operands[i]));
      if (!sum || !branch.inputs[i]) continue;
      targets.push_back(branch.inputs[i]);
      seeds.push_back(sum);
    }
    for (std::size_t i = 0; i < outputs_; ++i) {
      if (!arrived_[i]) continue;
      if (!branch.outputs[i]) {
        result.inputs.push_back({});
        continue;
      }
      targets.push_back(branch.outputs[i]);
      seeds.push_back(FunctionGradient::gradient_like(branch.outputs[i]));
      result.inputs.push_back(seeds.back());
    }
    std::vector<std::size_t> present;
    for (const std::size_t i : wanted_)
      if (branch.inputs[i]) present.push_back(i);
    const bool is_reached = !present.empty() && !targets.empty();
    const std::vector<Tensor> found =
        is_reached ? gradient.of(targets, seeds, present) : std::vector<Tensor>(present.size());
    for (std::size_t k = 0, next = 0; k < wanted_.size(); ++k)
      if (branch.inputs[wanted_[k]])
        if (const Tensor& each = found[next++]) result.outputs[k] = each;
    Tensors given;
    for (const Tensor& each : result.outputs)
      if (each) given.push_back(each);
    const auto needs = gradient.needs_of(given, [](const Node&) { return false; });
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool is_needed = branch.inputs[i] ? needs.inputs[i] != 0 : bool(operands[i]);
      result.inputs.push_back(is_needed ? operands[i] : Tensor());
    }
    residuals_.push_back(needs.residuals);
    is_stateful_ |= needs.is_stateful;
    return result;
  }

  static Tensor placeholder_like(const Tensor& tensor) {
    return placeholder(tensor.dtype(), tensor.shape(), "operand");
  }

  /// Makes the residuals of each branch outputs of the forward op, and inputs of the backward op.
  void add_residuals(std::vector<GraphFunction>& gradients) {
    std::vector<Tensors> more(functions_->size());
    std::vector<std::pair<std::size_t, Tensor>> owned;  // the residuals, and the branches that they belong to
    std::vector<std::size_t> numbers;                   // of the forward node's outputs
    std::size_t next = first().outputs.size();
    for (std::size_t b = 0; b < residuals_.size(); ++b)
      for (const Tensor& residual : residuals_[b]) {
        owned.emplace_back(b, residual);
        const std::size_t known = find_in((*functions_)[b].outputs, residual);
        numbers.push_back(known == npos ? next++ : known);
        if (known != npos) continue;
        for (std::size_t other = 0; other < more.size(); ++other)
          more[other].push_back(other == b ? residual : Tensor());
      }
    if (!more[0].empty()) add_outputs(node_, more);
    tell_of_outputs(node_);
    for (std::size_t k = 0; k < owned.size(); ++k) {
      inputs_.push_back(node_.output(numbers[k]));
      for (std::size_t b = 0; b < gradients.size(); ++b)
        gradients[b].inputs.push_back(b == owned[k].first ? owned[k].second : Tensor());
    }
  }

  const Call& call_;
  Node& node_;
  FunctionsRef functions_;
  std::size_t outputs_;
  Tensors arrived_, sums_;
  std::vector<std::size_t> wanted_;  ///< the operands whose gradients are computed, without the selector
  Tensors inputs_;
  std::vector<Tensors> residuals_;  ///< by branch
  bool is_stateful_ = false;
};

// ---- Loops -----------------------------------------------------------------------------------------------------------

/// The gradient of a While: another one over the residuals, the other way round. It carries the gradients of the
/// carried values and the sums of the operands' gradients, and stacks the gradients of the sequences' elements.
class LoopGradient {
 public:
  LoopGradient(const Call& call, const Tensors& arrived)
      : call_(call),
        node_(forward_node(call)),
        functions_(node_.attrs().get<FunctionsRef>("functions")),
        parts_(node_),
        body_(functions_->front()),
        outputs_(call.outputs().size()),
        arrived_(arrived.begin(), arrived.begin() + outputs_),
        sums_(arrived.begin() + outputs_, arrived.end()),
        operands_begin_(parts_.carried + parts_.sequences),
        replays_(!parts_.varying.empty() || node_.attrs().find("recompute")) {}

  Tensors run() {
    find_active();
    if (active_.empty() && wanted_sequences_.empty() && wanted_operands_.empty()) return sums_;
    {
      FunctionGradient gradient(body_);
      add_gradient(gradient);
      if (!replays_) find_residuals(gradient);
      if (replays_) require_replayable(gradient);
      add_length();
    }
    Tensors more;
    for (const Tensor& residual : residuals_)
      if (find_in(stacked(), residual) == npos) more.push_back(residual);
    if (!more.empty()) add_outputs(node_, {more});
    tell_of_outputs(node_);
    return add_loop();
  }

 private:
  /// The outputs of the body that are stacked.
  Tensors stacked() const { return {body_.outputs.begin() + parts_.carried, body_.outputs.end()}; }

  /// Finds the carried values, sequences and operands that a gradient reaches after some iterations.
  void find_active() {
    const FunctionGradient gradient(body_);
    std::vector<char> active(parts_.carried);
    for (std::size_t i = 0; i < parts_.carried; ++i) active[i] = bool(arrived_[i]);
    std::vector<char> reached;
    for (bool grows = true; grows;) {
      Tensors targets;
      for (std::size_t i = 0; i < parts_.carried; ++i)
        if (active[i]) targets.push_back(body_.outputs[i]);
      for (std::size_t i = parts_.carried; i < outputs_; ++i)
        if (arrived_[i]) targets.push_back(body_.outputs[i]);
      reached = gradient.reached(targets);
      grows = false;
      for (std::size_t i = 0; i < parts_.carried; ++i)
        if (reached[i] && !std::exchange(active[i], 1)) grows = true;
    }
    for (std::size_t i = 0; i < parts_.carried; ++i)
      if (active[i]) active_.push_back(i);
    for (std::size_t i = parts_.carried; i < reached.size(); ++i)
      if (reached[i] && call_.wants_gradient(i))
        (i < operands_begin_ ? wanted_sequences_ : wanted_operands_).push_back(i);
  }

  /// Adds the gradient of the body to its graph.
  void add_gradient(FunctionGradient& gradient) {
    Tensors targets, seeds;
    std::vector<std::size_t> wanted = active_;
    wanted.insert(wanted.end(), wanted_sequences_.begin(), wanted_sequences_.end());
    wanted.insert(wanted.end(), wanted_operands_.begin(), wanted_operands_.end());
    const auto seed = [&](const Tensor& target) {
      targets.push_back(target);
      seeds.push_back(FunctionGradient::gradient_like(target));
      return seeds.back();
    };
    // The sums of the operands come first: what the body returns was computed after them.
    for (const std::size_t i : wanted_operands_) sum_inputs_.push_back(seed(body_.inputs[i]));
    for (const std::size_t i : active_) carried_inputs_.push_back(seed(body_.outputs[i]));
    for (std::size_t i = parts_.carried; i < outputs_; ++i)
      if (arrived_[i]) element_inputs_.push_back(seed(body_.outputs[i]));
    const std::vector<Tensor> found = gradient.of(targets, seeds, wanted);
    std::size_t next = 0;
    for (const std::size_t i : active_) {
      const Tensor& each = found[next++];
      carried_outputs_.push_back(each ? each : no_sum(body_.inputs[i]));
    }
    for (const std::size_t i : wanted_sequences_) {
      const Tensor& each = found[next++];
      element_outputs_.push_back(each ? each : no_sum(body_.inputs[i]));
    }
    for (std::size_t i = 0; i < wanted_operands_.size(); ++i) sum_outputs_.push_back(found[next++]);
  }

  /// What the backward body returns.
  Tensors results() const {
    Tensors all_results = carried_outputs_;
    for (const Tensors* more : {&sum_outputs_, &element_outputs_}) all_results.append(more->begin(), more->end());
    return all_results;
  }

  /// Keeps the sequences and the operands for the backward loop, which computes all else again.
  void require_replayable(const FunctionGradient& gradient) {
    static_cast<void>(gradient.needs_of(results(), [&](const Node& node) {
      if (node.op().stateful) throw_not_replayable(node);
      return true;
    }));
    for (const Node* node : body_.operations) throw_not_replayable(*node);
    for (std::size_t i = parts_.carried; i < body_.inputs.size(); ++i)
      (i < operands_begin_ ? needed_sequences_ : needed_operands_).push_back(i);
  }
  [[noreturn]] static void throw_not_replayable(const Node& node) {
    throw UnimplementedError(
        join("The gradient of a loop that is to be computed again (recompute, a shape that changes, ", "or tensors of ",
             Shape::max_rank, " axes), but in which '", node.name(),
             "' changes a Variable, draws random numbers or meets other ranks"));
  }

  void find_residuals(const FunctionGradient& gradient) {
    const Invariants is_invariant(body_, operands_begin_);
    const auto recompute = [&](const Node& node) {
      if (is_invariant(node)) return !is_recorded_ || !is_floating(node.outputs()[0].dtype());
      // Stacks of tensors of different lengths are not kept; what gives them is run again.
      const bool is_ragged = std::any_of(node.outputs().begin(), node.outputs().end(), depends_on_values);
      if (is_ragged && node.op().stateful)
        throw UnimplementedError(
            join("The gradient of a loop around '", node.name(),
                 "', which changes Variables or draws random numbers as often as a condition says"));
      return is_ragged;
    };
    const auto needs = gradient.needs_of(results(), recompute);
    residuals_ = needs.residuals;
    is_stateful_ = needs.is_stateful;
    for (std::size_t i = 0; i < body_.inputs.size(); ++i) {
      if (!needs.inputs[i]) continue;
      const bool is_sequence = i >= parts_.carried && i < operands_begin_;
      if (i < parts_.carried || (is_sequence && is_recorded_ && is_floating(body_.inputs[i].dtype())))
        residuals_.push_back(body_.inputs[i]);
      else
        (is_sequence ? needed_sequences_ : needed_operands_).push_back(i);
    }
    // A stack of these would have an axis too many.
    if (std::any_of(residuals_.begin(), residuals_.end(), has_all_axes)) {
      replays_ = true;
      for (std::vector<std::size_t>* each : {&needed_sequences_, &needed_operands_}) each->clear();
      residuals_.clear();
    }
  }

  static bool has_all_axes(const Tensor& each) { return each.shape().rank() == Shape::max_rank; }

  /// Lets something tell the backward loop the number of iterations.
  void add_length() {
    const bool tells_length = !residuals_.empty() || !needed_sequences_.empty() || !element_inputs_.empty();
    if (!tells_length && parts_.sequences > 0) needed_sequences_.push_back(parts_.carried);
    if (!tells_length && parts_.sequences == 0) residuals_.push_back(body_.graph->captured(mark(), call_.where()));
  }

  static Tensor mark() {
    const ExecuteNow now;
    return tensor(true);
  }

  /// Adds the backward loop. Returns the gradients of the forward op's inputs.
  Tensors add_loop() {
    Tensors inputs, sequences;
    GraphFunction function{
        .name = body_.name + "_grad", .graph = body_.graph, .inputs = carried_inputs_, .outputs = results()};
    for (const Tensors* more : {&sum_inputs_, &residuals_}) function.inputs.append(more->begin(), more->end());
    for (const std::size_t i : active_) inputs.push_back(arrived_[i] ? arrived_[i] : no_sum(node_.output(i)));
    for (const std::size_t i : wanted_operands_) inputs.push_back(sums_[i] ? sums_[i] : no_sum(call_.input(i)));
    const Tensors all_stacked(functions_of(node_)[0].outputs.begin() + parts_.carried,
                              functions_of(node_)[0].outputs.end());
    for (const Tensor& residual : residuals_)
      sequences.push_back(node_.output(parts_.carried + find_in(all_stacked, residual)));
    for (const std::size_t i : needed_sequences_) {
      sequences.push_back(call_.input(i));
      function.inputs.push_back(body_.inputs[i]);
    }
    for (std::size_t i = parts_.carried; i < outputs_; ++i)
      if (arrived_[i]) sequences.push_back(arrived_[i]);
    function.inputs.append(element_inputs_.begin(), element_inputs_.end());
    const auto carried = static_cast<std::int64_t>(inputs.size());
    const auto count = static_cast<std::int64_t>(sequences.size());
    inputs.append(sequences.begin(), sequences.end());
    for (std::size_t i = 0; replays_ && i < parts_.carried; ++i) {
      inputs.push_back(call_.input(i));
      function.inputs.push_back(body_.inputs[i]);
    }
    for (const std::size_t i : needed_operands_) {
      inputs.push_back(call_.input(i));
      function.inputs.push_back(body_.inputs[i]);
    }
    std::vector<GraphFunction> functions{function};
    if (replays_) functions.push_back(forward_body());
    std::vector<Attr> attrs{
        {"functions", functions_ref(std::move(functions))}, {"carried", carried}, {"sequences", count}};
    if (replays_) attrs.push_back({"replayed", static_cast<std::int64_t>(parts_.carried)});
    if (!parts_.reverse) attrs.push_back({"reverse", true});
    const auto states_end = body_.inputs.begin() + parts_.carried;
    const bool can_stack_states =
        parts_.varying.empty() && std::none_of(body_.inputs.begin(), states_end, has_all_axes);
    if (replays_ && !can_stack_states) attrs.push_back({"varying_states", true});
    if (!parts_.varying.empty()) add_varying(attrs);
    const Tensors found = apply_all(while_op(is_stateful_), inputs, Attrs(attrs), {}, call_.where());
    Tensors all = sums_;
    const Tensor* next = found.begin();
    const auto take = [&](std::size_t i) { all[i] = sums_[i] ? add(sums_[i], *next++) : *next++; };
    for (const std::size_t i : active_) take(i);
    for (const std::size_t i : wanted_operands_) all[i] = *next++;
    for (const std::size_t i : wanted_sequences_) take(i);
    return all;
  }

  /// The body without what it stacks.
  GraphFunction forward_body() const {
    GraphFunction forward = body_;
    forward.outputs = Tensors(body_.outputs.begin(), body_.outputs.begin() + parts_.carried);
    return forward;
  }

  void add_varying(std::vector<Attr>& attrs) const {
    Ints varying;
    for (std::size_t k = 0; k < active_.size(); ++k)
      if (parts_.may_vary(active_[k])) varying.push_back(static_cast<std::int64_t>(k));
    if (!varying.empty()) attrs.push_back({"varying", varying});
  }

  const Call& call_;
  Node& node_;
  FunctionsRef functions_;  ///< before the node is extended
  WhileParts parts_;
  const GraphFunction& body_;
  std::size_t outputs_;
  Tensors arrived_, sums_;
  std::size_t operands_begin_;
  bool is_stateful_ = false;
  /// Whether a tape records this gradient. What the backward loop could compute again, or take from a sequence, is then
  /// an output of the forward loop, too, so that its gradient meets those of the forward pass in each iteration, as in
  /// eager code.
  const bool is_recorded_ = is_recorded();
  bool replays_;  ///< whether the backward loop runs the forward body again, rather than to keep its results
  // Numbers of the forward op's inputs:
  std::vector<std::size_t> active_, wanted_sequences_, wanted_operands_, needed_sequences_, needed_operands_;
  // Tensors of the body's graph:
  Tensors carried_inputs_, sum_inputs_, element_inputs_, carried_outputs_, sum_outputs_, element_outputs_, residuals_;
};

/// The gradient of a loop that computes the states of another one again: that of its composition, whose loops keep what
/// they need.
Tensors replay_gradient(const Call& call, const Tensors& arrived) {
  Tensors gradients = gradient_of_composition(call, arrived, compose_replay);
  const auto sums = arrived.begin() + call.outputs().size();
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (sums[i]) gradients[i] = gradients[i] ? add(sums[i], gradients[i]) : sums[i];
  return gradients;
}

}  // namespace

void add_outputs(Node& node, const std::vector<Tensors>& more) {
  std::vector<GraphFunction> functions = functions_of(node);
  for (std::size_t i = 0; i < more.size(); ++i) functions[i].outputs.append(more[i].begin(), more[i].end());
  const Attrs attrs = with_functions(node.attrs(), std::move(functions));
  Call call(node.op(), node.inputs(), attrs, node.where(), node.name());
  const Specs all = node.op().infer(call);
  node.graph->extend(node, attrs, Specs(all.begin() + node.outputs().size(), all.end()));
}

Tensors if_gradient(const Call& call, const Tensors& arrived) { return BranchGradient(call, arrived).run(); }
Tensors while_gradient(const Call& call, const Tensors& arrived) {
  return is_replayed(call) ? replay_gradient(call, arrived) : LoopGradient(call, arrived).run();
}

}  // namespace tapestry::detail
