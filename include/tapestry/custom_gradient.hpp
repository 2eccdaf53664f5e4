#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/detail/function.hpp"
#include "tapestry/detail/results.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry {

/// @addtogroup tape
/// @{

namespace detail {

/// A function from the gradient of a value to those of the arguments, or to that of the only one.
class GradientFunction : public std::function<Tensors(const Tensor&)> {
 public:
  GradientFunction() = default;
  template <class F>
  requires std::is_invocable_r_v<Tensors, F&, const Tensor&> GradientFunction(F f)  // NOLINT: written as a lambda
      : function(std::move(f)) {}
  template <class F>
  requires std::is_invocable_r_v<Tensor, F&, const Tensor&> GradientFunction(F f)  // NOLINT: written as a lambda
      : function([f = std::move(f)](const Tensor& g) -> Tensors { return {Tensor(f(g))}; }) {}
};

}  // namespace detail

/// The result of a function that is given to `custom_gradient`.
struct CustomGradient {
  /// The value of the function.
  Tensor value;
  /// Computes the gradients of the arguments, one for each, from the gradient of the value. The function of one
  /// argument may return one Tensor instead of a list.
  detail::GradientFunction gradient;
};

/// The same for a function with several results.
struct CustomGradients {
  /// The values of the function: floats, but for results that have no gradient, such as indices.
  std::vector<Tensor> values;
  /// Computes the gradients of the arguments, one for each, from those of the values: zeros for a value that nothing
  /// depends on, and an empty Tensor for one that is no float.
  std::function<Tensors(const std::vector<Tensor>&)> gradient;
};

namespace detail {
TAPESTRY_API std::vector<Tensor> custom_gradients(const std::function<CustomGradients(const Tensors&)>& f,
                                                  const Tensors& inputs, Where where);
TAPESTRY_API Tensor custom_gradient(const std::function<CustomGradient(const Tensors&)>& f, const Tensors& inputs,
                                    Where where);
TAPESTRY_API Tensors recompute(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs, Where where);

/// Calls f with the tensors as separate arguments.
template <class F, std::size_t... I>
decltype(auto) spread(const F& f, const Tensors& xs, std::index_sequence<I...>) {
  return f(xs[I]...);
}

/// A function of any number of tensors, which it takes in one list.
template <class F>
concept TakesList = !std::invocable<const F&, const Tensor&> && std::invocable<const F&, const std::vector<Tensor>&>;

// The requirements on these functions, each with a message of its own. `Xs`: Tensor, once for each argument, or the
// list.

template <class F, class... Xs>
constexpr bool has_custom_gradient() {
  constexpr bool callable = std::invocable<const F&, const Xs&...>;
  static_assert(callable,
                "The function of tp::custom_gradient takes tp::Tensors, as many as the result is called with, or one "
                "std::vector<tp::Tensor>.");
  if constexpr (callable) {
    using Given = std::invoke_result_t<const F&, const Xs&...>;
    constexpr bool good = std::convertible_to<Given, CustomGradient> || std::convertible_to<Given, CustomGradients>;
    static_assert(good,
                  "The function of tp::custom_gradient returns a tp::CustomGradient: its value, and a function from "
                  "the gradient of the value to a tp::Tensors with a gradient for each argument; for several results "
                  "a tp::CustomGradients.");
    return good;
  }
  return callable;
}
template <class F, class... Xs>
constexpr bool can_be_recomputed() {
  constexpr bool callable = std::invocable<const F&, const Xs&...>;
  static_assert(callable,
                "The function of tp::recompute takes tp::Tensors, as many as the result is called with, or one "
                "std::vector<tp::Tensor>.");
  if constexpr (callable) {
    using Result = std::remove_cvref_t<std::invoke_result_t<const F&, const Xs&...>>;
    constexpr bool good = is_result<Result> && !std::is_void_v<Result>;
    static_assert(good,
                  "The function of tp::recompute returns a tp::Tensor, or a std::vector, std::array, std::pair, "
                  "std::tuple or struct of them.");
    return good;
  }
  return callable;
}
template <class>
using TensorFor = Tensor;
template <class F, class... Xs>
concept HasSeveralResults = std::convertible_to<std::invoke_result_t<const F&, const Xs&...>, CustomGradients>;

template <class F>
class WithGradient {
 public:
  using MadeOf = F;
  WithGradient(F f, Where where) : f_(std::move(f)), where_(where) {}

  template <std::convertible_to<Tensor>... Xs>
  auto operator()(const Xs&... xs) const {
    if constexpr (!has_custom_gradient<F, TensorFor<Xs>...>()) {
      return Tensor();
    } else if constexpr (HasSeveralResults<F, TensorFor<Xs>...>) {
      return custom_gradients(
          [f = f_](const Tensors& inputs) -> CustomGradients {
            return spread(f, inputs, std::index_sequence_for<Xs...>());
          },
          Tensors{Tensor(xs)...}, where_);
    } else {
      return custom_gradient(
          [f = f_](const Tensors& inputs) -> CustomGradient {
            return spread(f, inputs, std::index_sequence_for<Xs...>());
          },
          Tensors{Tensor(xs)...}, where_);
    }
  }
  auto operator()(const std::vector<Tensor>& xs) const requires TakesList<F> {
    if constexpr (!has_custom_gradient<F, std::vector<Tensor>>()) {
      return Tensor();
    } else if constexpr (HasSeveralResults<F, std::vector<Tensor>>) {
      return custom_gradients(
          [f = f_](const Tensors& inputs) -> CustomGradients { return f(std::vector<Tensor>(inputs)); }, Tensors(xs),
          where_);
    } else {
      return custom_gradient(
          [f = f_](const Tensors& inputs) -> CustomGradient { return f(std::vector<Tensor>(inputs)); }, Tensors(xs),
          where_);
    }
  }

 private:
  F f_;
  Where where_;
};

template <class F>
class Recomputed {
 public:
  using MadeOf = F;
  Recomputed(F f, Where where) : f_(std::move(f)), where_(where) {}

  template <std::convertible_to<Tensor>... Xs>
  auto operator()(const Xs&... xs) const {
    if constexpr (can_be_recomputed<F, TensorFor<Xs>...>()) {
      using Result = ResultType<std::invoke_result_t<const F&, const TensorFor<Xs>&...>>;
      return unflatten<Result>(recompute(
          [f = f_](const Tensors& inputs) -> Tensors {
            return flatten(spread(f, inputs, std::index_sequence_for<Xs...>()));
          },
          Tensors{Tensor(xs)...}, where_));
    }
  }
  auto operator()(const std::vector<Tensor>& xs) const requires TakesList<F> {
    if constexpr (can_be_recomputed<F, std::vector<Tensor>>()) {
      using Result = ResultType<std::invoke_result_t<const F&, const std::vector<Tensor>&>>;
      return unflatten<Result>(
          recompute([f = f_](const Tensors& inputs) -> Tensors { return flatten(f(std::vector<Tensor>(inputs))); },
                    Tensors(xs), where_));
    }
  }

 private:
  F f_;
  Where where_;
};

}  // namespace detail

/// Gives a function a gradient of its own:
///
///     auto log1pexp = tp::custom_gradient([](const tp::Tensor& x) -> tp::CustomGradient {
///       auto e = tp::exp(x);
///       return {tp::log(1.0 + e), [=](const tp::Tensor& g) { return g * (1.0 - 1.0 / (1.0 + e)); }};
///     });
///
/// The gradient is made of ops, so it can be differentiated again. A function that returns a `CustomGradients` has
/// several results, which the call gives in a std::vector: its gradient function gets those of all of them at once. A
/// function that takes one std::vector of Tensors is called with such a list, of any length, such as the weights of a
/// module.
template <class F>
auto custom_gradient(F f, Where where = Where::here()) {
  detail::require_function(f, "custom_gradient", where);
  return detail::WithGradient<F>(std::move(f), where);
}

/// A function that computes f, and that trades time for memory: a tape keeps only the arguments and the Variables that
/// f reads, and the backward pass computes f again, from the same values and random numbers; of several results, once
/// for each that has a gradient. f takes and returns what a function of `trace` may. What f does to Variables is done
/// once. A tensor that f captures is a constant: what needs a gradient must be an argument or a Variable. Throws
/// FailedPreconditionError in the backward pass if f then reads or changes other Variables. (T. Chen et al., "Training
/// deep nets with sublinear memory cost", 2016.)
///
/// In a graph, a function with a branch or loop that draws random numbers or changes Variables is computed once, as if
/// without recompute: a second run of them would draw other numbers.
template <class F>
auto recompute(F f, Where where = Where::here()) {
  detail::require_function(f, "recompute", where);
  return detail::Recomputed<F>(std::move(f), where);
}

/// @}

}  // namespace tapestry
