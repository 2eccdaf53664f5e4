#include "tapestry/train/groups.hpp"

#include <optional>
#include <unordered_map>

#include "dispatch/recorder.hpp"
#include "tapestry/graph.hpp"
#include "train/ready_step.hpp"

namespace tapestry::train {

using detail::join;

namespace {

void check_group(const std::vector<ParameterGroups::Group>& groups, std::size_t place, Where where) {
  const auto& [optimizer, variables] = groups[place];
  if (!optimizer || variables.empty())
    throw InvalidArgumentError(join("Group ", place, " needs an optimizer and Variables"), where);
  for (std::size_t i = 0; i < place; ++i) {
    if (groups[i].first == optimizer)
      throw InvalidArgumentError(join("Groups ", i, " and ", place, " have the same optimizer, ", optimizer->name(),
                                      ": each needs its own, which counts its steps"),
                                 where);
    for (const Variable& mine : variables)
      for (const Variable& other : groups[i].second)
        if (mine.is(other))
          throw InvalidArgumentError(join("Variable '", mine.name(), "' is in the groups ", i, " and ", place), where);
  }
}

}  // namespace

ParameterGroups::ParameterGroups(std::vector<Group> groups, Where where) : groups_(std::move(groups)) {
  if (groups_.empty()) throw InvalidArgumentError("There are no groups of parameters", where);
  for (std::size_t i = 0; i < groups_.size(); ++i) check_group(groups_, i, where);
}

std::vector<Variable> ParameterGroups::variables() const {
  std::vector<Variable> all;
  for (const auto& [optimizer, variables] : groups_) all.insert(all.end(), variables.begin(), variables.end());
  return all;
}

/// The Variables that are not frozen.
std::vector<Variable> ParameterGroups::trained() const {
  std::vector<Variable> trained = variables();
  std::erase_if(trained, [](const Variable& each) { return !each.trainable(); });
  return trained;
}

/// Throws InvalidArgumentError if the gradients of `trained()` are those of a loss that depends on no Variable of some
/// group.
void ParameterGroups::check_gradients(const GradientsAndVariables& gradients, Where where) const {
  std::size_t next = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    bool any = false, is_trained = false;
    for (const Variable& variable : groups_[i].second) {
      if (!variable.trainable()) continue;
      is_trained = true;
      any |= bool{gradients[next++].first};
    }
    if (is_trained && !any) throw InvalidArgumentError(join("The loss depends on no Variable of group ", i), where);
  }
}

GradientsAndVariables ParameterGroups::compute_gradients(const Optimizer::Loss& loss, Where where) {
  GradientsAndVariables pairs = groups_[0].first->compute_gradients(loss, trained(), where);
  check_gradients(pairs, where);
  return pairs;
}

Tensor ParameterGroups::minimize(const Optimizer::Loss& loss, const ApplyOptions& options, Where where) {
  Tensor value;
  const auto noted = [&] { return value = loss(); };
  apply(compute_gradients(noted, where), options, where);
  return value;
}

void ParameterGroups::apply_gradients(const TensorList& gradients, const ApplyOptions& options, Where where) {
  const Tensors& list = gradients.tensors();
  const std::vector<Variable> all = variables();
  if (list.size() != all.size())
    throw InvalidArgumentError(
        join("There are ", list.size(), " gradients and ", all.size(), " variables in the groups"), where);
  GradientsAndVariables pairs;
  for (std::size_t i = 0; i < all.size(); ++i) pairs.emplace_back(list[i], all[i]);
  apply(pairs, options, where);
}

/// Makes a step with some gradients, in any order. In eager code, all optimizers get ready before the first one changes
/// anything.
Operation ParameterGroups::apply(const GradientsAndVariables& gradients, const ApplyOptions& options, Where where) {
  std::vector<std::pair<Optimizer*, GradientsAndVariables>> steps;
  std::unordered_map<const Variable::Cell*, std::size_t> group_of;
  for (const auto& [optimizer, variables] : groups_) {
    for (const Variable& each : variables) group_of.emplace(each.cell().get(), steps.size());
    steps.emplace_back(optimizer, GradientsAndVariables());
  }
  for (const auto& [gradient, variable] : gradients) {
    const auto found = group_of.find(variable.cell().get());
    if (found == group_of.end())
      throw InvalidArgumentError(join("Variable '", variable.name(), "' is in no group"), where);
    if (gradient) steps[found->second].second.emplace_back(gradient, variable);
  }
  std::erase_if(steps, [](const auto& step) { return step.second.empty(); });
  bool is_graph = false;
  for (const auto& [optimizer, pairs] : steps) {
    Optimizer::check_step(pairs, options, where);
    is_graph |= Optimizer::graph_for(pairs, options.only_if) != nullptr;
  }
  std::vector<Operation> operations;
  std::vector<std::pair<Optimizer*, Optimizer::Ready>> all_ready;
  ApplyOptions each = options;
  for (const auto& [optimizer, pairs] : steps) {
    if (is_graph) {
      if (const Operation step = optimizer->apply_gradients(pairs, each, where)) operations.push_back(step);
    } else if (auto ready = optimizer->make_ready(pairs, each, where)) {
      all_ready.emplace_back(optimizer, *std::move(ready));
    }
    each.global_step.reset();  // it counts once
  }
  for (const auto& [optimizer, ready] : all_ready) optimizer->make_step(ready);
  if (operations.size() < 2) return operations.empty() ? Operation() : operations[0];
  std::optional<Graph::Scope> graph;
  if (!open_sink()) graph.emplace(operations[0].graph());
  return group(operations, {}, where);
}

std::vector<Optimizer*> AnyOptimizer::all() const {
  if (!groups_) return {optimizer_};
  std::vector<Optimizer*> optimizers;
  for (const auto& [optimizer, variables] : groups_->groups_) optimizers.push_back(optimizer);
  return optimizers;
}

GradientsAndVariables AnyOptimizer::compute_gradients(const Optimizer::Loss& loss,
                                                      const std::vector<Variable>& variables, Where where) const {
  Optimizer& optimizer = groups_ ? *groups_->groups_[0].first : *optimizer_;
  if (!variables.empty()) return optimizer.compute_gradients(loss, variables, where);
  return groups_ ? groups_->compute_gradients(loss, where) : optimizer.compute_gradients(loss, where);
}

Operation AnyOptimizer::apply_gradients(const TensorList& gradients, const std::vector<Variable>& variables,
                                        const ApplyOptions& options, Where where) const {
  if (!groups_) return optimizer_->apply_gradients(gradients, variables, options, where);
  const Tensors& list = gradients.tensors();
  if (list.size() != variables.size())
    throw InvalidArgumentError(join("There are ", list.size(), " gradients and ", variables.size(), " variables"),
                               where);
  GradientsAndVariables pairs;
  for (std::size_t i = 0; i < variables.size(); ++i) pairs.emplace_back(list[i], variables[i]);
  return groups_->apply(pairs, options, where);
}

StateDict ParameterGroups::state_dict() const {
  StateDict all;
  for (std::size_t i = 0; i < groups_.size(); ++i)
    for (const auto& [name, value] : groups_[i].first->state_dict()) all.emplace(join(i, ".", name), value);
  return all;
}

void ParameterGroups::load_state_dict(const StateDict& state, Where where) {
  std::vector<StateDict> next(groups_.size()), before;
  for (const auto& [name, value] : state) {
    std::size_t place = 0;
    const std::size_t dot = name.find('.');
    while (place < groups_.size() && name.substr(0, dot) != join(place)) ++place;
    if (dot == std::string::npos || place == groups_.size())
      throw InvalidArgumentError(join("'", name, "' is no state of ", groups_.size(), " groups of parameters"), where);
    next[place].emplace(name.substr(dot + 1), value);
  }
  for (const auto& [optimizer, variables] : groups_) before.push_back(optimizer->state_dict());
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    try {
      groups_[i].first->load_state_dict(next[i], where);
    } catch (...) {
      for (std::size_t k = 0; k < i; ++k) groups_[k].first->load_state_dict(before[k], where);
      throw;
    }
  }
}

}  // namespace tapestry::train
