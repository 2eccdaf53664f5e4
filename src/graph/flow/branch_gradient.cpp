#include <algorithm>

#include "dispatch/recorder.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/flow/function_gradient.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::detail {

namespace {

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
    drop_absent(gradients);
    if (wanted_.empty()) return sums_;
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
      // A residual of a branch that was not taken has no gradient, and there are no zeros like it.
      if (!sums_[i + 1] && may_be_absent(operands[i] ? operands[i] : call_.input(i + 1))) {
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
    Tensors gradients(outputs_);
    // Residuals are behind the results, and eager code meets their gradients first.
    for (std::size_t i = outputs_; i-- > 0;) {
      if (!arrived_[i] || !branch.outputs[i]) continue;
      targets.push_back(branch.outputs[i]);
      seeds.push_back(FunctionGradient::gradient_like(branch.outputs[i]));
      gradients[i] = seeds.back();
    }
    for (std::size_t i = 0; i < outputs_; ++i)
      if (arrived_[i]) result.inputs.push_back(gradients[i]);
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

  /// Gives up the gradients that no branch gives.
  void drop_absent(std::vector<GraphFunction>& gradients) {
    for (std::size_t k = wanted_.size(); k-- > 0;) {
      if (std::any_of(gradients.begin(), gradients.end(), [&](const auto& each) { return bool(each.outputs[k]); }))
        continue;
      wanted_.erase(wanted_.begin() + static_cast<std::ptrdiff_t>(k));
      for (GraphFunction& each : gradients) each.outputs.erase(each.outputs.begin() + k);
    }
  }

  static Tensor placeholder_like(const Tensor& tensor) {
    return placeholder(tensor.dtype(), tensor.shape(), "operand");
  }

  /// The number of the forward op's output that is this residual of a branch, or `npos`. If a tape records the
  /// gradient, it is not a result of the branch: eager code sums the gradients of a result apart from those of the
  /// branch's ops.
  std::size_t known_output(std::size_t branch, const Tensor& residual) const {
    const Tensors& outputs = (*functions_)[branch].outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto lacks = [&](const GraphFunction& other) { return !other.outputs[i]; };
      const auto others = static_cast<std::size_t>(std::count_if(functions_->begin(), functions_->end(), lacks));
      const bool is_residual = others + 1 == functions_->size();
      if (bool(outputs[i]) && outputs[i].is(residual) && (is_residual || !is_recorded_)) return i;
    }
    return npos;
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
        const std::size_t known = known_output(b, residual);
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
  const bool is_recorded_ = is_recorded();
};

}  // namespace

Tensors if_gradient(const Call& call, const Tensors& arrived) { return BranchGradient(call, arrived).run(); }

}  // namespace tapestry::detail
