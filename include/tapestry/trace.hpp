#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/session.hpp"

namespace tapestry {

/// @addtogroup graphs
/// @{

/// An argument of a function that is traced; -1 is a size known at each call.
struct TensorSpec {
  DType dtype = DType::unknown;  ///< unknown: that of the argument at each call
  Shape shape;                   ///< by default a scalar's
  std::string name = {};         ///< of the placeholder
};
/// Dtype, shape and name of an argument, for `trace` and `nn::summary`.
inline TensorSpec spec(DType dtype, const Shape& shape, std::string_view name = {}) {
  return {dtype, shape, std::string(name)};
}

namespace detail {

using FlatFunction = std::function<Tensors(const Tensors&)>;

/// A traced function on lists of tensors.
class TAPESTRY_API FlatTrace {
 public:
  FlatTrace(FlatFunction function, const std::vector<TensorSpec>& specs, Where where);

  Tensors call(std::span<const Init> arguments, Where where) const;
  Graph graph() const;
  const Tensors& inputs() const;
  const Tensors& outputs() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Traces of one function, one for each signature of its arguments.
class TAPESTRY_API FlatTraces {
 public:
  explicit FlatTraces(FlatFunction function);
  Tensors call(std::span<const Init> arguments, Where where) const;
  std::size_t size() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// What a function returns, as a list and back: a Tensor, a std::vector or std::array, std::pair or std::tuple of
// Tensors, or nothing.

inline Tensors flatten(const Tensor& result) { return {result}; }
inline Tensors flatten(const std::vector<Tensor>& result) { return result; }
inline Tensors flatten(const Tensors& result) { return result; }
template <std::size_t N>
Tensors flatten(const std::array<Tensor, N>& result) {
  return Tensors(result.begin(), result.end());
}
template <class... T>
Tensors flatten(const std::tuple<T...>& result) {
  return std::apply([](const auto&... each) { return Tensors{Tensor(each)...}; }, result);
}
template <class A, class B>
Tensors flatten(const std::pair<A, B>& result) {
  return {Tensor(result.first), Tensor(result.second)};
}

template <class T>
struct Unflatten {
  static T from(const Tensors& list) { return T(list); }
};
template <>
struct Unflatten<Tensor> {
  static Tensor from(const Tensors& list) { return list[0]; }
};
template <>
struct Unflatten<void> {
  static void from(const Tensors&) {}
};
template <std::size_t N>
struct Unflatten<std::array<Tensor, N>> {
  static std::array<Tensor, N> from(const Tensors& list) {
    std::array<Tensor, N> result;
    std::copy(list.begin(), list.end(), result.begin());
    return result;
  }
};
template <class... T>
struct Unflatten<std::tuple<T...>> {
  static std::tuple<T...> from(const Tensors& list) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return std::tuple<T...>(list[I]...); }
    (std::index_sequence_for<T...>());
  }
};
template <class A, class B>
struct Unflatten<std::pair<A, B>> {
  static std::pair<A, B> from(const Tensors& list) { return {list[0], list[1]}; }
};

/// How many Tensors a function takes: the first number up to 16 that it can be called with.
template <class F, std::size_t N, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return std::is_invocable_v<F&, decltype((static_cast<void>(I), std::declval<const Tensor&>()))...>;
}
template <class F, std::size_t N = 0>
constexpr std::size_t arity() {
  if constexpr (N > 16) {
    return N;
  } else if constexpr (takes<F, N>(std::make_index_sequence<N>())) {
    return N;
  } else {
    return arity<F, N + 1>();
  }
}

template <class F>
concept ListFunction = std::invocable < F&,
        const std::vector<Tensor>
& > &&!std::invocable<F&, const Tensor&>;
template <class F>
concept TensorsFunction = ListFunction<F> ||(arity<F>() <= 16);

template <class F>
decltype(auto) call_with(F& f, const Tensors& arguments) {
  if constexpr (ListFunction<F>) {
    return f(std::vector<Tensor>(arguments));
  } else {
    constexpr std::size_t count = arity<F>();
    if (arguments.size() != count)
      throw InvalidArgumentError(join("The function takes ", count, " tensors, not ", arguments.size()));
    return spread(f, arguments, std::make_index_sequence<count>());
  }
}
template <class F>
using ResultOf = std::remove_cvref_t<decltype(call_with(std::declval<F&>(), std::declval<const Tensors&>()))>;

template <class F>
FlatFunction flat(F f) {
  return [f = std::move(f)](const Tensors& arguments) mutable -> Tensors {
    if constexpr (std::is_void_v<ResultOf<F>>) {
      call_with(f, arguments);
      return {};
    } else {
      return flatten(call_with(f, arguments));
    }
  };
}

}  // namespace detail

/// A function that has been traced: calling it runs its graph, with everything that the function does to Variables, in
/// the order of the program. Inside another trace, and while a GradientTape records, the function itself is called, so
/// that what is around it sees all ops.
template <class Result>
class Traced {
 public:
  /// For `trace`, which makes it.
  explicit Traced(detail::FlatTrace trace) : trace_(std::move(trace)) {}

  /// What the function returns for these arguments, tensors or literals. Throws InvalidArgumentError when their number
  /// is another one, and when a dtype or shape does not fit its spec.
  template <class... Arguments>
  Result operator()(const Arguments&... arguments) const {
    return detail::Unflatten<Result>::from(trace_.call(std::array<Init, sizeof...(Arguments)>{Init(arguments)...}, {}));
  }
  /// What the function did.
  Graph graph() const { return trace_.graph(); }
  /// The placeholders, and what the function returned, in order.
  /// @{
  const Tensor& input(std::size_t i = 0) const { return trace_.inputs()[i]; }
  const Tensor& output(std::size_t i = 0) const { return trace_.outputs()[i]; }
  std::vector<Tensor> inputs() const { return trace_.inputs(); }
  std::vector<Tensor> outputs() const { return trace_.outputs(); }
  /// @}

 private:
  detail::FlatTrace trace_;
};

/// Runs the function once on symbolic arguments and keeps the graph of what it did. The function takes Tensors (or one
/// std::vector of them) and returns a Tensor, a std::vector, std::array or std::tuple of Tensors, or nothing. Variables
/// are captured by reference; other eager tensors become constants.
template <detail::TensorsFunction F>
auto trace(F f, const std::vector<TensorSpec>& specs, Where where = Where::here()) {
  return Traced<detail::ResultOf<F>>(detail::FlatTrace(detail::flat(std::move(f)), specs, where));
}

/// A function that is traced at the first call, and again for arguments of other dtypes or shapes.
template <class Result>
class Function {
 public:
  /// For `function`, which makes it.
  explicit Function(detail::FlatTraces traces) : traces_(std::move(traces)) {}
  /// What the function returns for these arguments, tensors or literals.
  template <class... Arguments>
  Result operator()(const Arguments&... arguments) const {
    return detail::Unflatten<Result>::from(
        traces_.call(std::array<Init, sizeof...(Arguments)>{Init(arguments)...}, {}));
  }
  /// Number of traces made.
  std::size_t trace_count() const { return traces_.size(); }

 private:
  detail::FlatTraces traces_;
};
/// Traces f when it is called. It takes and returns what `trace` says.
template <detail::TensorsFunction F>
auto function(F f) {
  return Function<detail::ResultOf<F>>(detail::FlatTraces(detail::flat(std::move(f))));
}

/// @}

}  // namespace tapestry
