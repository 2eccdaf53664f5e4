#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/flow/flow_ops.hpp"
#include "graph/staged_plan.hpp"

namespace tapestry::detail {

/// Runs one function.
class FunctionRunner {
 public:
  /// `known`: the specs of the inputs, as far as the plan around the function knows them.
  FunctionRunner(const Node& node, const GraphFunction& function, Specs known, const SessionOptions& options)
      : function_(function), name_(node.name() + "/" + function.name), known_(std::move(known)), options_(options) {
    const std::vector<char> used = used_inputs(function);
    for (std::size_t i = 0; i < used.size(); ++i)
      if (used[i]) used_.push_back(i);
    for (std::size_t i = 0; i < function.outputs.size(); ++i) {
      const Tensor& output = function.outputs[i];
      const auto same = [&](const Tensor& input) { return bool(input) && bool(output) && input.is(output); };
      const auto found = std::find_if(function.inputs.begin(), function.inputs.end(), same);
      passed_on_.push_back(found == function.inputs.end() ? -1 : found - function.inputs.begin());
    }
    const std::vector<const Node*> nodes = nodes_of(function).running;
    has_branches_ = std::any_of(nodes.begin(), nodes.end(),
                                [](const Node* each) { return is_flow(each->op()) && !is_while(each->op()); });
  }

  /// A run of the function for inputs of these shapes, again and again; nothing if this is not possible. If the
  /// function does not fit the inputs, `run` says so: it may never be called.
  Executable* repeatable(const Tensors& inputs) {
    fed_.clear();
    for (const std::size_t i : used_) fed_.push_back(inputs[i]);
    const bool complete = std::all_of(fed_.begin(), fed_.end(), [](const Tensor& each) { return bool(each); });
    Executable* executable = nullptr;
    try {
      if (complete) executable = plan_for_fed(false).only();
    } catch (const Error& error) {
      if (!is_misfit(error)) throw;
    }
    fed_.clear();
    return executable;
  }
  /// The inputs that the function needs, in the order of the plan's feeds.
  const std::vector<std::size_t>& used() const { return used_; }
  /// By output: the number of the input that it is, or -1.
  const std::vector<std::ptrdiff_t>& passed_on() const { return passed_on_; }

  /// Appends the outputs for these inputs.
  void run(const Tensors& inputs, const Deadline* deadline, RunTimes* times, Tensors& outputs) {
    fed_.clear();
    for (const std::size_t i : used_) fed_.push_back(inputs[i]);
    StagedPlan& plan = plan_for_fed(true);
    std::optional<RunTimes> measured;
    if (times) measured = times->inner();
    const Tensors results = plan.run(fed_, measured ? &*measured : nullptr, deadline);
    if (times) times->add_function(name_, *measured, [&] { return plan.description(); });
    fed_.clear();
    for (std::size_t i = 0, next = 0; i < passed_on_.size(); ++i) {
      if (passed_on_[i] >= 0)
        outputs.push_back(inputs[passed_on_[i]]);
      else
        outputs.push_back(function_.outputs[i] ? results[next++] : Tensor());
    }
  }

 private:
  /// An operand may be absent: a result of a branch that was not taken, which is only passed on. It has the spec
  /// that the plan knows.
  Spec spec_of_fed(std::size_t i) const { return fed_[i] ? fed_[i].spec() : known_[used_[i]]; }

  bool fits(bool complete) const {
    for (std::size_t i = 0; i < fed_.size(); ++i)
      if (fed_[i] ? fed_[i].dtype() != specs_[i].dtype || fed_[i].shape() != specs_[i].shape
                  : spec_of_fed(i) != specs_[i])
        return false;
    return current_ && current_->is_placed() && complete_ == complete;
  }

  /// `is_one_run`: whether the plan is for one run. Where an iteration has other shapes than those before it, the next
  /// one may have others again. In a plan for more runs all inputs have values, so that branches may be others.
  StagedPlan& plan_for_fed(bool is_one_run) {
    const bool complete = has_branches_ && !is_one_run;
    if (current_ && !current_->is_quick() && fits(complete)) return *current_;
    complete_ = complete;
    current_ = nullptr;  // if no plan can be made, the next call must not take the old one
    specs_.clear();
    std::vector<std::int64_t> key{complete};
    for (std::size_t i = 0; i < fed_.size(); ++i) {
      specs_.push_back(spec_of_fed(i));
      const Shape& shape = specs_.back().shape;
      key.push_back(shape.rank());
      key.insert(key.end(), shape.sizes().begin(), shape.sizes().end());
    }
    const bool may_come_once = is_one_run && !plans_.empty();
    const std::lock_guard lock(function_.graph->mutex());
    current_ = plans_.plan_for(key, *function_.graph, options_, may_come_once, [this] { return request(); });
    return *current_;
  }

  Request request() const {
    Request request{
        .fetches = {}, .operations = function_.operations, .feeds = {}, .fed = specs_, .complete = complete_};
    for (const std::size_t i : used_) request.feeds.push_back(function_.inputs[i]);
    for (std::size_t i = 0; i < passed_on_.size(); ++i)
      if (bool(function_.outputs[i]) && passed_on_[i] < 0) request.fetches.push_back(function_.outputs[i]);
    return request;
  }

  const GraphFunction& function_;
  std::string name_;  ///< for measured times
  Specs known_;
  const SessionOptions& options_;
  std::vector<std::size_t> used_;          ///< the inputs that the function needs
  std::vector<std::ptrdiff_t> passed_on_;  ///< by output: the input that it is; -1 for none
  Tensors fed_;
  Specs specs_;            ///< of the values for which `current_` was made
  bool complete_ = false;  ///< whether that is a plan in which all inputs have values
  bool has_branches_;
  std::shared_ptr<StagedPlan> current_;
  SizedPlans plans_;  ///< by the shapes of the values
};

}  // namespace tapestry::detail
