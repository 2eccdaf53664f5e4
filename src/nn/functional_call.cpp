#include "tapestry/nn/functional_call.hpp"

#include <unordered_map>

#include "autodiff/variable_cell.hpp"
#include "dispatch/recorder.hpp"
#include "ops/checked_like.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry::nn::detail {

using tapestry::detail::join;

namespace {

using Substitutes = std::unordered_map<const Variable::Cell*, Tensor>;

/// While it lives, reads of some Variables give other values. The recorders around it see the ops and the reads of
/// other Variables, but not those reads: the values are ordinary tensors to them.
class Substitution final : public Recorder {
 public:
  explicit Substitution(Substitutes values)
      : values_(std::move(values)), outside_(std::exchange(recorders(), Recorders{this})) {}
  ~Substitution() override { recorders() = std::move(outside_); }
  Substitution(const Substitution&) = delete;
  Substitution& operator=(const Substitution&) = delete;

  void record(Call&& call) override {
    Recorders inside = std::exchange(recorders(), outside_);
    tell_recorders(std::move(call));
    recorders() = std::move(inside);
  }
  void extend(const Call& call) override {
    for (Recorder* each : outside_) each->extend(call);
  }
  void read(const Variable& variable, Tensor& value) override {
    if (const auto found = values_.find(variable.cell().get()); found != values_.end()) {
      value = found->second;
    } else {
      tell_read(outside_, variable, value);
    }
  }

 private:
  Substitutes values_;
  Recorders outside_;
};

/// All Variables of a module, buffers and frozen parameters included, by their names.
std::unordered_map<std::string, Variable> variables_of(const Module& module, const std::string& prefix = {}) {
  std::unordered_map<std::string, Variable> found;
  for (const Field& field : const_cast<Module&>(module).fields().list()) {
    if (Variable* const* variable = std::get_if<Variable*>(&field.part)) found.emplace(prefix + field.name, **variable);
    if (Module* const* part = std::get_if<Module*>(&field.part))
      found.merge(variables_of(**part, prefix + field.name + "."));
  }
  return found;
}

}  // namespace

void with_values(const Module& module, const StateDict& values, const std::function<void()>& f, Where where) {
  const auto variables = variables_of(module);
  Substitutes substitutes;
  for (const auto& [name, value] : values) {
    const auto found = variables.find(name);
    if (found == variables.end())
      throw InvalidArgumentError(join("The module ", type_name(module), " has no Variable '", name, "'"), where);
    const Variable& variable = found->second;
    if (!value || value.dtype() != variable.dtype() || !agree(value.shape(), variable.shape()))
      throw InvalidArgumentError(
          join("'", name, "' is ", to_string(variable.dtype()), variable.shape(), " in the module ", type_name(module),
               "; the value is ", value ? to_string(value.dtype()) + to_string(value.shape()) : "an empty Tensor"),
          where);
    substitutes.emplace(variable.cell().get(), checked_like(value, variable.shape()));
  }
  const Substitution scope(std::move(substitutes));
  tapestry::detail::locating({}, where, f);
}

StateDict by_names(const Module& module, const std::vector<Tensor>& parameters, Where where) {
  const auto named = module.named_parameters(where);
  if (named.size() != parameters.size())
    throw InvalidArgumentError(
        join("The module ", type_name(module), " has ", named.size(), " parameters, not ", parameters.size()), where);
  StateDict values;
  for (std::size_t i = 0; i < named.size(); ++i) values.emplace(named[i].first, parameters[i]);
  return values;
}

}  // namespace tapestry::nn::detail
