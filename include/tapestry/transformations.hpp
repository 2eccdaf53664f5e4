#pragma once

#include <algorithm>
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
#include "tapestry/detail/function.hpp"
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
                  "A function for vmap returns a tp::Tensor, or a std::vector, std::array, std::pair, std::tuple or "
                  "struct of them.");
    return good;
  }
  return fit;
}

template <class F>
class Vmapped {
 public:
  using MadeOf = F;
  Vmapped(F f, VmapOptions options, Where where) : f_(std::move(f)), options_(std::move(options)), where_(where) {}

  // Braces have no type, so that up to four arguments are values by default.
  template <class A = Value>
  auto operator()(const A& a) const {
    return map(a);
  }
  template <class A = Value, class B = Value>
  auto operator()(const A& a, const B& b) const {
    return map(a, b);
  }
  template <class A = Value, class B = Value, class C = Value>
  auto operator()(const A& a, const B& b, const C& c) const {
    return map(a, b, c);
  }
  template <class A = Value, class B = Value, class C = Value, class D = Value, class... Rest>
  auto operator()(const A& a, const B& b, const C& c, const D& d, const Rest&... rest) const {
    return map(a, b, c, d, rest...);
  }

 private:
  template <class... Xs>
  auto map(const Xs&... xs) const {
    if constexpr (is_mapped<F, Xs...>()) {
      using Result = ResultType<std::invoke_result_t<const F&, typename LoopVariables<Xs>::Type...>>;
      const std::array<Tensors, sizeof...(Xs)> lists{LoopVariables<Xs>::list(xs, where_)...};
      Tensors inputs;
      for (const Tensors& each : lists) inputs.append(each.begin(), each.end());
      return unflatten<Result>(flat_vmap(
          [&](const Tensors& example) -> Tensors {
            return call<Xs...>(example, lists, std::index_sequence_for<Xs...>());
          },
          inputs, axes(lists, std::index_sequence_for<Xs...>()), options_.out_axis, where_));
    }
  }
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
/// are Tensors, Variables, literals, or a std::vector, std::array, std::pair, std::tuple or struct of them; it returns
/// a Tensor, or a std::vector, std::array, std::pair, std::tuple or struct of Tensors. Nests, and may stand inside and
/// outside of `grad`, `jvp`, `vjp` and `trace`.
///
/// f runs once, on symbolic tensors that have the shape of one example, so that it cannot read their elements in C++;
/// then each of its ops runs once on all examples. An op without a rule for that, such as a branch or a loop on values
/// of the examples, runs once for each. Random ops draw other numbers for each example. Throws InvalidArgumentError for
/// axes that do not exist or differ in size, and UnimplementedError if f changes a Variable.
template <class F>
auto vmap(F&& f, VmapOptions options = {}, Where where = Where::here()) {
  detail::require_function(f, "vmap", where);
  return detail::Vmapped<detail::Kept<F>>(detail::Kept<F>(std::forward<F>(f)), std::move(options), where);
}

// ---- Derivatives along directions, and all derivatives --------------------------------------------------------------

namespace detail {

enum class Way : std::uint8_t { shorter, backward, forward };

/// The derivative by each point.
TAPESTRY_API Tensors flat_jacobian(const ListFunction& f, const std::vector<Value>& points, Way way, Where where);

/// The number of Tensors at which a function is differentiated: of one that takes any number, 1; 0 for a list.
template <class F>
inline constexpr std::size_t point_count = takes_list<F>() ? 0 : std::max<std::size_t>(arity<F>(), 1);
/// The points at which a function is differentiated: one value or several.
template <class F>
using Points = std::conditional_t<point_count<F> == 1, Value, Values>;
inline std::vector<Value> list_of(const Value& point) { return {point}; }
inline std::vector<Value> list_of(const Values& points) { return points.list(); }

/// What there is for each argument: a T if there is one, otherwise a std::array of T, or for a list a std::vector.
template <class T, std::size_t N>
struct ForEachPoint {
  using Type = std::array<T, N>;
};
template <class T>
struct ForEachPoint<T, 1> {
  using Type = T;
};
template <class T>
struct ForEachPoint<T, 0> {
  using Type = std::vector<T>;
};
template <class F, class T = Tensor>
using PerPoint = typename ForEachPoint<T, point_count<F>>::Type;

/// A function of the points: of as many values as f takes, or of a list.
template <class Result, std::size_t... I>
std::function<Result(const ValueAt<I>&...)> function_of_points(auto f, std::index_sequence<I...>) {
  return [f = std::move(f)](const ValueAt<I>&... points) -> Result { return f(std::vector<Value>{points...}); };
}
template <class F, class Result>
auto function_of_points(auto f) {
  if constexpr (point_count<F> == 0) {
    return std::function<Result(const std::vector<Tensor>&)>(
        [f = std::move(f)](const std::vector<Tensor>& points) -> Result {
          return f(std::vector<Value>(points.begin(), points.end()));
        });
  } else {
    return function_of_points<Result>(std::move(f), std::make_index_sequence<point_count<F>>());
  }
}

template <class F>
inline constexpr bool takes_one = std::is_invocable_v<F&, const Tensor&>;
template <class F>
decltype(auto) call_with_points(F& f, const Tensors& points) {
  if constexpr (!takes_list<F>() && arity<F>() == 0) {
    return f(points[0]);
  } else {
    return call_with(f, points);
  }
}
/// Whether f can be differentiated by its arguments.
template <class F>
constexpr bool has_derivatives() {
  constexpr bool callable = takes_list<F>() || (point_count<F> <= 16 && (arity<F>() > 0 || takes_one<F>));
  static_assert(callable, "A function that is differentiated takes tp::Tensors, at most 16, or a std::vector of them.");
  if constexpr (callable) {
    using Result = decltype(call_with_points(std::declval<F&>(), std::declval<const Tensors&>()));
    constexpr bool good = std::convertible_to<Result, Tensor>;
    static_assert(good, "A function that is differentiated returns one tp::Tensor.");
    return good;
  }
  return callable;
}
template <class F>
ListFunction of_list(F f) {
  return [f = std::move(f)](const Tensors& points) mutable -> Tensor { return call_with_points(f, points); };
}

template <class F>
auto jacobian_of(F f, Way way, Where where) {
  using Result = PerPoint<F>;
  return function_of_points<F, Result>(
      [f = of_list(std::move(f)), way, where](const std::vector<Value>& points) -> Result {
        return unflatten<Result>(flat_jacobian(f, points, way, where));
      });
}

}  // namespace detail

// f takes one Tensor, several, or a std::vector of them, and returns one. A point is a Tensor, a Variable or a literal;
// several are given in a list, and what there is for each is a std::array, or a std::vector if f takes one. Derivatives
// are those by the arguments alone: what f captures is constant.

/// f(x), and J v: the derivative in the direction v, which has the shape of x. It is computed forward, while f runs,
/// and the derivative of a tensor is kept as long as the tensor. For several arguments, points and directions are
/// lists, `jvp(f, {x, y}, {dx, dy})`, and the derivatives are added up. Throws InvalidArgumentError for directions that
/// do not fit.
template <class F>
std::pair<Tensor, Tensor> jvp(F f, const detail::Points<F>& x, const detail::Points<F>& v,
                              Where where = Where::here()) {
  detail::require_function(f, "jvp", where);
  if constexpr (detail::has_derivatives<F>())
    return detail::flat_jvp(detail::of_list(std::move(f)), detail::list_of(x), detail::list_of(v), where);
  return {};
}
/// The same as a function of x and v.
template <class F>
auto jvp(F f, Where where = Where::here()) {
  detail::require_function(f, "jvp", where);
  using Points = detail::Points<F>;
  return std::function<std::pair<Tensor, Tensor>(const Points&, const Points&)>(
      [f = std::move(f), where](const Points& x, const Points& v) { return jvp(f, x, v, where); });
}

/// f(x), and the pullback: a function from a gradient with respect to f(x) to the gradient with respect to x. For
/// several arguments, `auto [value, pullback] = vjp(f, {x, y})`, the pullback gives the gradient of each. (`Place` is a
/// template parameter so that braces after x are a v.)
template <class F, std::same_as<Where> Place = Where>
auto vjp(F f, const detail::Points<F>& x, Place where = Place::here()) {
  detail::require_function(f, "vjp", where);
  using Result = detail::PerPoint<F>;
  using Pullback = std::function<Result(const Value&)>;
  if constexpr (detail::has_derivatives<F>()) {
    auto [value, pullback] = detail::flat_vjp(detail::of_list(std::move(f)), detail::list_of(x), where);
    return std::pair<Tensor, Pullback>(value, [pullback = std::move(pullback)](const Value& v) -> Result {
      return detail::unflatten<Result>(pullback(v));
    });
  } else {
    return std::pair<Tensor, Pullback>();
  }
}
/// f(x), and v^T J: the transposed derivative applied to v, which has the shape of f(x); for several arguments, that by
/// each.
template <class F>
std::pair<Tensor, detail::PerPoint<F>> vjp(F f, const detail::Points<F>& x, const Value& v,
                                           Where where = Where::here()) {
  detail::require_function(f, "vjp", where);
  if constexpr (detail::has_derivatives<F>()) {
    const auto [value, gradients] = detail::flat_vjp(detail::of_list(std::move(f)), detail::list_of(x), v, where);
    return {value, detail::unflatten<detail::PerPoint<F>>(gradients)};
  }
  return {};
}
/// The same as a function of x and v.
template <class F>
auto vjp(F f, Where where = Where::here()) {
  detail::require_function(f, "vjp", where);
  using Points = detail::Points<F>;
  return std::function<std::pair<Tensor, detail::PerPoint<F>>(const Points&, const Value&)>(
      [f = std::move(f), where](const Points& x, const Value& v) { return vjp(f, x, v, where); });
}

/// `jacobian(f)(x)` is the derivative of f at x. Its shape is that of f(x) followed by that of x. `jacrev` goes
/// backward once for each element of f(x), `jacfwd` forward for all elements of x at once, by `vmap` of `jvp`;
/// `jacobian` takes the one that has fewer elements to go through, or `jacrev` where a size is unknown. For several
/// arguments, `auto [by_x, by_y] = jacobian(f)(x, y)`, there is one for each.
/// @{
template <class F>
auto jacobian(F f, Where where = Where::here()) {
  detail::require_function(f, "jacobian", where);
  if constexpr (detail::has_derivatives<F>())
    return detail::jacobian_of(std::move(f), detail::Way::shorter, where);
  else
    return TensorFunction();
}
template <class F>
auto jacrev(F f, Where where = Where::here()) {
  detail::require_function(f, "jacrev", where);
  if constexpr (detail::has_derivatives<F>())
    return detail::jacobian_of(std::move(f), detail::Way::backward, where);
  else
    return TensorFunction();
}
template <class F>
auto jacfwd(F f, Where where = Where::here()) {
  detail::require_function(f, "jacfwd", where);
  if constexpr (detail::has_derivatives<F>())
    return detail::jacobian_of(std::move(f), detail::Way::forward, where);
  else
    return TensorFunction();
}
/// @}

/// `hessian(f)(x)` is the matrix of second derivatives of a scalar function. Its shape is x's shape twice. For several
/// arguments, element i of element j of `hessian(f)(x, y)` is the derivative by argument i of that by argument j.
/// Throws InvalidArgumentError if the value of f has more than one element.
template <class F>
auto hessian(F f, Where where = Where::here()) {
  detail::require_function(f, "hessian", where);
  if constexpr (detail::has_derivatives<F>()) {
    using Row = detail::PerPoint<F>;
    using Result = detail::PerPoint<F, Row>;
    return detail::function_of_points<F, Result>(
        [f = detail::of_list(std::move(f)), where](const std::vector<Value>& points) -> Result {
          const Tensors flat = detail::flat_hessian(f, points, where);
          if constexpr (!detail::takes_list<F>()) {
            return detail::unflatten<Result>(flat);
          } else {
            Result rows;
            for (const Tensor* row = flat.begin(); row != flat.end(); row += points.size())
              rows.emplace_back(row, row + points.size());
            return rows;
          }
        });
  } else {
    return TensorFunction();
  }
}

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
TAPESTRY_API std::function<SparseMatrix(const Value&)> sparse_jacobian_of(TensorFunction f, const Tensor& pattern,
                                                                          Where where);

/// Whether f is a function of which there is a sparse jacobian.
template <class F>
constexpr bool has_sparse_jacobian() {
  constexpr bool good = std::convertible_to<const F&, TensorFunction>;
  static_assert(good, "A sparse jacobian is that of a function of one tp::Tensor that returns one.");
  return good;
}
}  // namespace detail

/// `sparse_jacobian(f, pattern)(x)` is the jacobian of f as a matrix, with a row for each element of f(x) and a column
/// for each element of x, of which the elements outside the pattern are known to be 0. The pattern is a bool tensor
/// [rows, columns]; of numbers, those other than 0 are elements. Columns that share no row are computed together, by
/// one direction of `jvp`, so that a band matrix takes as many directions as the band is wide (A. Curtis, M. Powell, J.
/// Reid, "On the estimation of sparse Jacobian matrices", 1974). Where f depends on an element that the pattern leaves
/// out, the result is wrong. Throws InvalidArgumentError for a pattern of another shape.
template <class F>
std::function<SparseMatrix(const Value&)> sparse_jacobian(F f, const Tensor& pattern, Where where = Where::here()) {
  detail::require_function(f, "sparse_jacobian", where);
  if constexpr (detail::has_sparse_jacobian<F>()) return detail::sparse_jacobian_of(std::move(f), pattern, where);
  return {};
}

/// @}

}  // namespace tapestry
