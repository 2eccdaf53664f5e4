#pragma once

#include <functional>

#include "tapestry/nn/module.hpp"
#include "tapestry/trace.hpp"

namespace tapestry::nn {

/// @addtogroup nn
/// @{

namespace detail {
TAPESTRY_API std::string summary(const Module& module, const std::vector<TensorSpec>& inputs,
                                 const std::function<void(const Tensors&)>& call);
}

/// A table of the modules that have parameters or compute something: name, class, shape of the last result, number of
/// parameters, and the sums. The shapes are found by calling the module with symbolic tensors in a temporary graph; a
/// layer that is never called has none.
///
///     std::cout << tp::nn::summary(net, tp::spec(tp::float32, {-1, 784}));
template <std::derived_from<Module> M, std::same_as<TensorSpec>... Inputs>
std::string summary(const M& module, const Inputs&... inputs) {
  return detail::summary(module, {inputs...}, [&](const Tensors& arguments) {
    if constexpr (sizeof...(Inputs) > 0)
      tapestry::detail::spread(module, arguments, std::index_sequence_for<Inputs...>());
  });
}

/// @}

}  // namespace tapestry::nn
