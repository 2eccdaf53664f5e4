#pragma once

#include <functional>

#include "tapestry/nn/module.hpp"
#include "tapestry/trace.hpp"

namespace tapestry::nn {

/// @addtogroup nn
/// @{

namespace detail {
/// The first argument of a module, with the call site.
struct FirstSpec {
  TensorSpec spec;
  Where where;
  FirstSpec(TensorSpec s, Where w = Where::here())  // NOLINT(google-explicit-constructor): it stands for the spec
      : spec(std::move(s)), where(w) {}
};
TAPESTRY_API std::string summary(const Module& module, const std::vector<TensorSpec>& inputs,
                                 const std::function<void(const Tensors&)>& call, Where where);
}  // namespace detail

/// A table of the modules that have parameters or compute something: name, class, shape of the last result, number of
/// parameters, and the sums. The shapes are found by calling the module with symbolic tensors in a temporary graph; a
/// layer that is never called has none.
///
///     std::cout << tp::nn::summary(net, tp::spec(tp::float32, {-1, 784}));
///
/// Without arguments the module is not called, and no layer has a shape.
/// @{
template <std::derived_from<Module> M, std::same_as<TensorSpec>... Rest>
std::string summary(const M& module, const detail::FirstSpec& first, const Rest&... rest) {
  return detail::summary(
      module, {first.spec, rest...},
      [&](const Tensors& arguments) {
        tapestry::detail::spread(module, arguments, std::make_index_sequence<1 + sizeof...(Rest)>());
      },
      first.where);
}
template <std::derived_from<Module> M>
std::string summary(const M& module, Where where = Where::here()) {
  return detail::summary(module, {}, {}, where);
}
/// @}

/// @}

}  // namespace tapestry::nn
