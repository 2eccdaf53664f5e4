#include <algorithm>

#include "autodiff/backward.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/flow/function_gradient.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::detail {

namespace {

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

/// The tensors of a loop's body that have as many axes as a tensor can have: a stack of them would have one too many.
/// What is stacked has two of their axes joined to one, and the backward loop parts these again.
class JoinedAxes {
 public:
  /// Adds what joins and parts the axes to the graph of the body, before its gradient.
  explicit JoinedAxes(const GraphFunction& body) {
    const FunctionGradient open(body);
    for (std::size_t i = 0, end = body.graph->size(); i < end; ++i)
      for (const Tensor& output : body.graph->node(i).outputs())
        if (has_all_axes(output)) join(output);
    end_ = body.graph->size();
  }

  static bool has_all_axes(const Tensor& each) { return each.shape().rank() == Shape::max_rank; }

  /// Lets the gradient, which is behind them in the graph, take the residuals from what is stacked.
  void part(const Tensors& residuals, GraphState& graph) const {
    for (const Tensor& residual : residuals) {
      const auto found =
          std::find_if(list_.begin(), list_.end(), [&](const Joined& each) { return each.whole.is(residual); });
      if (found == list_.end()) continue;
      for (std::size_t i = end_; i < graph.size(); ++i)
        for (Tensor& input : graph.node(i).mutable_inputs())
          if (bool(input) && input.is(residual)) input = found->parted;
    }
  }
  /// Whether a node is there to part axes.
  bool parts(const Node& node) const {
    return std::any_of(list_.begin(), list_.end(), [&](const Joined& each) {
      return node.index > producer_of(each.joined).index && node.index <= producer_of(each.parted).index;
    });
  }

 private:
  struct Joined {
    Tensor whole, joined, parted;
  };

  /// Joins two axes whose sizes are known: those of the others are then sizes of what is stacked.
  void join(const Tensor& whole) {
    const auto sizes = whole.shape().sizes();
    const auto both_known = [](std::int64_t a, std::int64_t b) { return a >= 0 && b >= 0; };
    const auto pair = std::adjacent_find(sizes.begin(), sizes.end(), both_known);
    if (pair == sizes.end()) return;
    const auto axis = static_cast<int>(pair - sizes.begin());
    Shape shape;
    for (int i = 0; i < Shape::max_rank; ++i)
      if (i != axis + 1) shape.push_back(i == axis ? Shape::Size(pair[0] * pair[1]) : whole.shape()[i]);
    const Tensor joined = reshape(whole, shape);
    Shape parted;
    for (int i = 0; i < Shape::max_rank; ++i)
      parted.push_back(i == axis || i == axis + 1 ? Shape::Size(sizes[i]) : joined.shape()[i < axis ? i : i - 1]);
    list_.push_back({whole, joined, reshape(joined, parted)});
  }

  std::vector<Joined> list_;
  std::size_t end_ = 0;  ///< of the forward pass and what this adds to it
};

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
        operands_begin_(parts_.carried + parts_.sequences) {}

  Tensors run() {
    find_active();
    if (active_.empty() && wanted_sequences_.empty() && wanted_operands_.empty()) return sums_;
    {
      const JoinedAxes joined(body_);
      FunctionGradient gradient(body_);
      add_gradient(gradient);
      const bool prefers_replay = !parts_.varying.empty() && !keeps_ragged_ && !what_cannot_replay(gradient);
      replays_ = !is_ragged() && (prefers_replay || (node_.attrs().find("recompute") && !is_recorded_));
      if (!replays_) find_residuals(gradient, joined);
      if (replays_) require_replayable(gradient);
      add_length();
    }
    stack_residuals();
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

  /// A node of the body that cannot run again, since it would change or draw something else; nullptr for none.
  const Node* what_cannot_replay(const FunctionGradient& gradient) const {
    const Node* found = body_.operations.empty() ? nullptr : body_.operations.front();
    static_cast<void>(gradient.needs_of(results(), [&](const Node& node) {
      if (node.op().stateful && !found) found = &node;
      return true;
    }));
    return found;
  }

  /// Keeps the sequences and the operands for the backward loop, which computes all else again.
  void require_replayable(const FunctionGradient& gradient) {
    if (const Node* node = what_cannot_replay(gradient))
      throw UnimplementedError(join("The gradient of a loop that is to be computed again (recompute, or tensors of ",
                                    Shape::max_rank, " axes of unknown sizes), but in which '", node->name(),
                                    "' changes a Variable, draws random numbers or meets other ranks"));
    if (is_ragged())
      throw UnimplementedError(
          join("The gradient of a loop over tensors of different shapes, and of ", Shape::max_rank, " axes"));
    for (std::size_t i = parts_.carried; i < body_.inputs.size(); ++i)
      (i < operands_begin_ ? needed_sequences_ : needed_operands_).push_back(i);
  }

  /// Whether the forward loop takes or gives stacks of tensors of different shapes, which no loop that replays can
  /// have.
  bool is_ragged() const { return !parts_.ragged_sequences.empty() || !parts_.ragged_stacks.empty(); }
  bool is_ragged(const Tensor& tensor) const { return depends_on_values(tensor, varying_inputs_); }

  void find_residuals(const FunctionGradient& gradient, const JoinedAxes& joined) {
    const Invariants is_invariant(body_, operands_begin_);
    const auto floats = [](const Tensor& output) { return is_floating(output.dtype()); };
    const auto differs = [&](const Tensor& output) { return is_ragged(output); };
    const auto recompute = [&](const Node& node) {
      const auto& outputs = node.outputs();
      if (joined.parts(node)) return true;
      if (is_invariant(node) && (!is_recorded_ || std::none_of(outputs.begin(), outputs.end(), floats))) return true;
      // What gives tensors of different shapes is run again rather than kept, if it can be.
      return !keeps_ragged_ && !node.op().stateful && std::any_of(outputs.begin(), outputs.end(), differs);
    };
    take_needs(gradient.needs_of(results(), recompute));
    if (std::none_of(residuals_.begin(), residuals_.end(), JoinedAxes::has_all_axes)) return;
    joined.part(residuals_, *body_.graph);
    take_needs(gradient.needs_of(results(), recompute));
    if (std::none_of(residuals_.begin(), residuals_.end(), JoinedAxes::has_all_axes)) return;
    take_needs({.inputs = std::vector<char>(body_.inputs.size())});
    replays_ = true;
  }

  void take_needs(const FunctionGradient::Needs& needs) {
    residuals_ = needs.residuals;
    is_stateful_ = needs.is_stateful;
    for (std::vector<std::size_t>* each : {&needed_sequences_, &needed_operands_}) each->clear();
    for (std::size_t i = 0; i < body_.inputs.size(); ++i) {
      if (!needs.inputs[i]) continue;
      const bool is_sequence = i >= parts_.carried && i < operands_begin_;
      if (i < parts_.carried || (is_sequence && is_recorded_ && is_floating(body_.inputs[i].dtype())))
        residuals_.push_back(body_.inputs[i]);
      else
        (is_sequence ? needed_sequences_ : needed_operands_).push_back(i);
    }
  }

  /// Makes the residuals outputs of the forward loop.
  void stack_residuals() {
    Tensors more;
    Ints ragged = parts_.ragged_stacks;
    const Tensors known = stacked();
    for (const Tensor& residual : residuals_) {
      if (find_in(known, residual) != npos) continue;
      const bool differs = is_ragged(residual);
      if (differs && !residual.shape().has_rank())
        throw UnimplementedError(join("The gradient of a loop in which '", residual.name(),
                                      "' differs in shape from iteration to iteration, and has no known rank"));
      if (differs) ragged.push_back(static_cast<std::int64_t>(known.size() + more.size()));
      more.push_back(residual);
      if (differs) more.emplace_back();  // the sizes
    }
    if (!more.empty()) add_outputs(node_, {more}, ragged);
  }

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
    GraphFunction function{
        .name = body_.name + "_grad", .graph = body_.graph, .inputs = carried_inputs_, .outputs = results()};
    function.inputs.append(sum_inputs_.begin(), sum_inputs_.end());
    Tensors inputs;
    for (const std::size_t i : active_) inputs.push_back(arrived_[i] ? arrived_[i] : no_sum(node_.output(i)));
    for (const std::size_t i : wanted_operands_) inputs.push_back(sums_[i] ? sums_[i] : no_sum(call_.input(i)));
    const auto carried = static_cast<std::int64_t>(inputs.size());
    const Sequences sequences = sequences_of_gradient();
    inputs.append(sequences.tensors.begin(), sequences.tensors.end());
    function.inputs.append(sequences.elements.begin(), sequences.elements.end());
    for (std::size_t i = 0; replays_ && i < parts_.carried; ++i) {
      inputs.push_back(call_.input(i));
      function.inputs.push_back(body_.inputs[i]);
    }
    for (const std::size_t i : needed_operands_) {
      inputs.push_back(call_.input(i));
      function.inputs.push_back(body_.inputs[i]);
    }
    std::vector<Attr> attrs{{"carried", carried}, {"sequences", static_cast<std::int64_t>(sequences.tensors.size())}};
    if (!sequences.ragged.empty()) attrs.emplace_back("ragged_sequences", sequences.ragged);
    if (replays_) attrs.emplace_back("replayed", static_cast<std::int64_t>(parts_.carried));
    if (!parts_.reverse) attrs.emplace_back("reverse", true);
    const auto states_end = body_.inputs.begin() + parts_.carried;
    const bool can_stack_states =
        parts_.varying.empty() && std::none_of(body_.inputs.begin(), states_end, JoinedAxes::has_all_axes);
    if (replays_ && !can_stack_states) attrs.emplace_back("varying_states", true);
    if (!parts_.varying.empty()) add_varying(attrs);
    add_sizes(function, attrs);
    std::vector<GraphFunction> functions{function};
    if (replays_) functions.push_back(forward_body());
    attrs.emplace_back("functions", functions_ref(std::move(functions)));
    return gradients_of_inputs(apply_all(while_op(is_stateful_), inputs, Attrs(attrs), {}, call_.where()));
  }

  /// What the backward loop goes through: the residuals, the forward loop's sequences and the gradients of its stacks.
  struct Sequences {
    Tensors tensors{}, elements{};  ///< in the graph of the loop, and in that of the body
    Ints ragged{};

    /// `sizes`: an empty handle, or those of a ragged sequence's elements.
    void add(const Tensor& tensor, const Tensor& element, const Tensor& sizes) {
      if (sizes) ragged.push_back(static_cast<std::int64_t>(tensors.size()));
      tensors.push_back(tensor);
      elements.push_back(element);
      if (!sizes) return;
      tensors.push_back(sizes);
      elements.emplace_back();
    }
  };

  Sequences sequences_of_gradient() const {
    Sequences list;
    const WhileParts extended(node_);
    const Tensors stacks(extended.body.outputs.begin() + parts_.carried, extended.body.outputs.end());
    const auto add_stack = [&](const Tensor& tensor, const Tensor& element, std::size_t stack) {
      const bool is_ragged = extended.is_ragged_stack(stack);
      list.add(tensor, element, is_ragged ? node_.output(parts_.carried + stack + 1) : Tensor());
    };
    for (const Tensor& residual : residuals_) {
      const std::size_t stack = find_in(stacks, residual);
      add_stack(node_.output(parts_.carried + stack), residual, stack);
    }
    for (const std::size_t i : needed_sequences_) {
      const bool is_ragged = parts_.is_ragged_sequence(i - parts_.carried);
      list.add(call_.input(i), body_.inputs[i], is_ragged ? call_.input(i + 1) : Tensor());
    }
    auto element = element_inputs_.begin();
    for (std::size_t i = parts_.carried; i < outputs_; ++i)
      if (arrived_[i]) add_stack(arrived_[i], *element++, i - parts_.carried);
    return list;
  }

  /// Behind each gradient of a ragged sequence, the loop gives the sizes of its elements.
  void add_sizes(GraphFunction& function, std::vector<Attr>& attrs) const {
    const std::size_t first = function.outputs.size() - wanted_sequences_.size();
    const std::size_t carried = active_.size() + wanted_operands_.size();
    Tensors outputs(function.outputs.begin(), function.outputs.begin() + first);
    Ints ragged;
    for (std::size_t k = 0; k < wanted_sequences_.size(); ++k) {
      const bool is_ragged = parts_.is_ragged_sequence(wanted_sequences_[k] - parts_.carried);
      if (is_ragged) ragged.push_back(static_cast<std::int64_t>(outputs.size() - carried));
      outputs.push_back(function.outputs[first + k]);
      if (is_ragged) outputs.emplace_back();
    }
    function.outputs = outputs;
    if (!ragged.empty()) attrs.emplace_back("ragged_stacks", ragged);
  }

  /// `found`: the outputs of the backward loop.
  Tensors gradients_of_inputs(const Tensors& found) const {
    Tensors all = sums_;
    const Tensor* next = found.begin();
    const auto take = [&](std::size_t i) { all[i] = sums_[i] ? add(sums_[i], *next++) : *next++; };
    for (const std::size_t i : active_) take(i);
    for (const std::size_t i : wanted_operands_) all[i] = *next++;
    for (const std::size_t i : wanted_sequences_) {
      take(i);
      if (parts_.is_ragged_sequence(i - parts_.carried)) ++next;
    }
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
    if (!varying.empty()) attrs.emplace_back("varying", varying);
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
  /// Whether that holds for tensors of different shapes, too. Files have a stack of them as a list, which they cannot
  /// have where it leaves the function of a branch or of another loop.
  const bool keeps_ragged_ = is_recorded_ && !FunctionGradient::is_open();
  /// Whether the backward loop runs the forward body again, rather than to keep its results.
  bool replays_ = false;
  const Tensors varying_inputs_ = parts_.varying_inputs();
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

Tensors while_gradient(const Call& call, const Tensors& arrived) {
  return is_replayed(call) ? replay_gradient(call, arrived) : LoopGradient(call, arrived).run();
}

}  // namespace tapestry::detail
