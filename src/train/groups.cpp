#include "tapestry/train/groups.hpp"

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

Tensor ParameterGroups::minimize(const Optimizer::Loss& loss, const ApplyOptions& options, Where where) {
  Tensor value;
  const auto noted = [&] { return value = loss(); };
  std::vector<Variable> trained = variables();
  std::erase_if(trained, [](const Variable& each) { return !each.trainable(); });
  const GradientsAndVariables pairs = groups_[0].first->compute_gradients(noted, trained, where);
  std::vector<Tensor> gradients;
  std::size_t next = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    bool any = false, is_trained = false;
    for (const Variable& variable : groups_[i].second) {
      gradients.push_back(variable.trainable() ? pairs[next++].first : Tensor());
      is_trained |= variable.trainable();
      any |= bool{gradients.back()};
    }
    if (is_trained && !any) throw InvalidArgumentError(join("The loss depends on no Variable of group ", i), where);
  }
  apply_gradients({gradients, where}, options, where);
  return value;
}

void ParameterGroups::apply_gradients(const TensorList& gradients, const ApplyOptions& options, Where where) {
  const Tensors& list = gradients.tensors();
  if (list.size() != variables().size())
    throw InvalidArgumentError(
        join("There are ", list.size(), " gradients and ", variables().size(), " variables in the groups"), where);
  ApplyOptions each = options;
  std::size_t next = 0;
  for (const auto& [optimizer, variables] : groups_) {
    GradientsAndVariables pairs;
    bool any = false;
    for (const Variable& variable : variables) {
      pairs.emplace_back(list[next++], variable);
      any |= bool{pairs.back().first};
    }
    if (!any) continue;
    optimizer->apply_gradients(pairs, each, where);
    each.global_step.reset();  // it counts once
  }
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
