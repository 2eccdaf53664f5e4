#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/nn/module.hpp"
#include "tapestry/op.hpp"

namespace tapestry::nn {

namespace detail {
/// Calls f. Meanwhile the Variables of the module have other values for all reads on this thread.
TAPESTRY_API void with_values(const Module& module, const StateDict& values, const std::function<void()>& f,
                              Where where);
TAPESTRY_API StateDict by_names(const Module& module, const std::vector<Tensor>& parameters, Where where);
}  // namespace detail

/// @addtogroup nn
/// @{

/// Other values for the Variables of a module, with their call site.
class TAPESTRY_API Values {
 public:
  /// Values by the names of `state_dict`. Variables that are not in the list keep their own values.
  Values(StateDict values, Where where = Where::here())  // NOLINT(google-explicit-constructor)
      : named_(std::move(values)), where_(where) {}
  /// Values of all `parameters()`, in their order.
  Values(std::vector<Tensor> parameters, Where where = Where::here())  // NOLINT(google-explicit-constructor)
      : parameters_(std::move(parameters)), is_list_(true), where_(where) {}

  /// The values by their names in a module. Throws InvalidArgumentError when a list does not have one value for each
  /// parameter.
  StateDict of(const Module& module) const { return is_list_ ? detail::by_names(module, parameters_, where_) : named_; }
  /// The call site in the user's program.
  Where where() const { return where_; }

 private:
  StateDict named_;
  std::vector<Tensor> parameters_;
  bool is_list_ = false;
  Where where_;
};

/// Calls a module as if its Variables had other values. These may be symbolic, and the result can be differentiated by
/// them: for meta-learning, for ensembles, and for derivatives by parameters in functional form.
///
///     std::vector<tp::Tensor> moved;                            // one step of gradient descent, to be differentiated
///     for (std::size_t i = 0; i < w.size(); ++i) moved.push_back(w[i] - 0.1 * gradients[i]);
///     auto y = tp::nn::functional_call(net, moved, x);
///
/// The module itself does not change, except for what it assigns, such as the running means of a BatchNorm. A tape
/// inside the module's own function sees the Variables with their own values. Throws InvalidArgumentError for a name
/// that the module does not have, for a constant (which is not a Variable), and for a value of another dtype or shape.
template <std::derived_from<Module> M, class... Arguments>
auto functional_call(const M& module, const Values& values, Arguments&&... arguments) {
  using Result = std::remove_cvref_t<decltype(module(std::forward<Arguments>(arguments)...))>;
  std::optional<Result> result;
  detail::with_values(
      module, values.of(module), [&] { result.emplace(module(std::forward<Arguments>(arguments)...)); },
      values.where());
  return *std::move(result);
}

/// @}

}  // namespace tapestry::nn
