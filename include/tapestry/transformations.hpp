#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/control_flow.hpp"
#include "tapestry/tape.hpp"

namespace tapestry {

/// @addtogroup autodiff
/// @{

/// Stands for no axis, as in `vmap(f, {.in_axes = {0, tp::none}})`.
inline constexpr std::nullopt_t none = std::nullopt;

/// Along which axes `vmap` goes.
struct VmapOptions {
  /// For each argument the axis of the examples, negative from the end; `none` for an argument that all examples share.
  /// Empty: axis 0 of each argument. Of an argument that holds several tensors, the axis is that of each.
  std::vector<std::optional<int>> in_axes = {};
  /// The axis of the examples in each output, negative from the end.
  int out_axis = 0;
};

namespace detail {

TAPESTRY_API Tensors flat_vmap(const FlatFunction& function, const Tensors& inputs,
                               const std::vector<std::optional<int>>& axes, int out_axis, Where where);
/// The axes of all tensors, from those of the arguments. Throws InvalidArgumentError for another number of axes than of
/// arguments.
TAPESTRY_API std::vector<std::optional<int>> axes_of_tensors(const VmapOptions& options,
                                                             std::initializer_list<std::size_t> tensors, Where where);

template <class F, class... Xs>
constexpr bool is_mapped() {
  constexpr bool fit = std::is_invocable_v<const F&, typename LoopVariables<Xs>::Type...>;
  static_assert(fit, "vmap(f)(x, ...) calls f with one example of each argument, and this f does not take these.");
  if constexpr (fit) {
    using Result = std::remove_cvref_t<std::invoke_result_t<const F&, typename LoopVariables<Xs>::Type...>>;
    constexpr bool good = is_result<Result> && !std::is_void_v<Result>;
    static_assert(good,
                  "A function for vmap returns a tp::Tensor, or a std::vector, std::array, std::pair or std::tuple of "
                  "them.");
    return good;
  }
  return fit;
}

template <class F>
class Vmapped {
 public:
  using MadeOf = F;
  Vmapped(F f, VmapOptions options, Where where) : f_(std::move(f)), options_(std::move(options)), where_(where) {}

  template <class... Xs>
  auto operator()(const Xs&... xs) const {
    if constexpr (is_mapped<F, Xs...>()) {
      using Result = ResultType<std::invoke_result_t<const F&, typename LoopVariables<Xs>::Type...>>;
      const std::array<Tensors, sizeof...(Xs)> lists{LoopVariables<Xs>::list(xs, where_)...};
      Tensors inputs;
      for (const Tensors& each : lists) inputs.append(each.begin(), each.end());
      return Unflatten<Result>::from(flat_vmap(
          [&](const Tensors& example) -> Tensors {
            return call<Xs...>(example, lists, std::index_sequence_for<Xs...>());
          },
          inputs, axes(lists, std::index_sequence_for<Xs...>()), options_.out_axis, where_));
    }
  }

 private:
  template <class... Xs, std::size_t N, std::size_t... I>
  Tensors call(const Tensors& example, const std::array<Tensors, N>& lists, std::index_sequence<I...>) const {
    std::array<const Tensor*, N> first{};
    const Tensor* next = example.begin();
    for (std::size_t i = 0; i < N; ++i) next = (first[i] = next) + lists[i].size();
    return flatten(f_(LoopVariables<Xs>::from(first[I], lists[I].size())...));
  }
  template <std::size_t N, std::size_t... I>
  std::vector<std::optional<int>> axes(const std::array<Tensors, N>& lists, std::index_sequence<I...>) const {
    return axes_of_tensors(options_, {lists[I].size()...}, where_);
  }

  F f_;
  VmapOptions options_;
  Where where_;
};

}  // namespace detail

/// `vmap(f)(x, ...)` is what f gives for each example of a batch, stacked: f is written for one example. Its arguments
/// are Tensors, Variables, or a std::vector or std::tuple of them; it returns a Tensor, or a std::vector, std::array,
/// std::pair or std::tuple of Tensors. Nests, and may stand inside and outside of `grad`, `jvp`, `vjp` and `trace`.
///
/// f runs once, on symbolic tensors that have the shape of one example, so that it cannot read their elements in C++;
/// then each of its ops runs once on all examples. An op without a rule for that, such as a branch or a loop on values
/// of the examples, runs once for each. Random ops draw other numbers for each example. Throws InvalidArgumentError for
/// axes that do not exist or differ in size, and UnimplementedError if f changes a Variable.
template <class F>
auto vmap(F&& f, VmapOptions options = {}, Where where = Where::here()) {
  return detail::Vmapped<detail::Kept<F>>(detail::Kept<F>(std::forward<F>(f)), std::move(options), where);
}

namespace detail {

/// Whether f is a function of which there is a jacobian.
template <class F>
constexpr bool has_jacobian() {
  constexpr bool good = std::convertible_to<const F&, TensorFunction>;
  static_assert(good, "A jacobian is that of a function of one tp::Tensor that returns one.");
  return good;
}

enum class Way : std::uint8_t { shorter, backward, forward };
TAPESTRY_API TensorFunction jacobian_of(TensorFunction f, Way way, Where where);

}  // namespace detail

/// `jacobian(f)(x)` is the derivative of f at x. Its shape is that of f(x) followed by that of x. `jacrev` goes
/// backward once for each element of f(x), `jacfwd` forward for all elements of x at once, by `vmap` of `jvp`;
/// `jacobian` takes the one that has fewer elements to go through, or `jacrev` where a size is unknown.
/// @{
template <class F>
TensorFunction jacobian(F f, Where where = Where::here()) {
  if constexpr (detail::has_jacobian<F>()) return detail::jacobian_of(std::move(f), detail::Way::shorter, where);
  return {};
}
template <class F>
TensorFunction jacrev(F f, Where where = Where::here()) {
  if constexpr (detail::has_jacobian<F>()) return detail::jacobian_of(std::move(f), detail::Way::backward, where);
  return {};
}
template <class F>
TensorFunction jacfwd(F f, Where where = Where::here()) {
  if constexpr (detail::has_jacobian<F>()) return detail::jacobian_of(std::move(f), detail::Way::forward, where);
  return {};
}
/// @}

/// A matrix of which only some elements are stored; the others are 0.
struct SparseMatrix {
  Tensor indices;     ///< int64 [n, 2]: row and column of each stored element, in row-major order
  Tensor values;      ///< [n]
  Shape dense_shape;  ///< [rows, columns]

  /// The matrix with all its elements.
  /// @{
  TAPESTRY_API Tensor dense(Where where = Where::here()) const;
  operator Tensor() const { return dense(); }  // NOLINT(google-explicit-constructor): a matrix is a tensor
  /// @}
};

namespace detail {
TAPESTRY_API std::function<SparseMatrix(const Tensor&)> sparse_jacobian_of(TensorFunction f, const Tensor& pattern,
                                                                           Where where);
}  // namespace detail

/// `sparse_jacobian(f, pattern)(x)` is the jacobian of f as a matrix, with a row for each element of f(x) and a column
/// for each element of x, of which the elements outside the pattern are known to be 0. The pattern is a bool tensor
/// [rows, columns]; of numbers, those other than 0 are elements. Columns that share no row are computed together, by
/// one direction of `jvp`, so that a band matrix takes as many directions as the band is wide (A. Curtis, M. Powell, J.
/// Reid, "On the estimation of sparse Jacobian matrices", 1974). Where f depends on an element that the pattern leaves
/// out, the result is wrong. Throws InvalidArgumentError for a pattern of another shape.
template <class F>
std::function<SparseMatrix(const Tensor&)> sparse_jacobian(F f, const Tensor& pattern, Where where = Where::here()) {
  if constexpr (detail::has_jacobian<F>()) return detail::sparse_jacobian_of(std::move(f), pattern, where);
  return {};
}

/// @}

}  // namespace tapestry
