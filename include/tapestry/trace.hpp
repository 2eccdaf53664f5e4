#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/detail/function.hpp"
#include "tapestry/detail/handle.hpp"
#include "tapestry/detail/results.hpp"
#include "tapestry/session.hpp"

namespace tapestry {

/// @addtogroup graphs
/// @{

/// An argument of a traced function. A size of -1 is known only at each call.
struct TensorSpec {
  DType dtype = DType::unknown;  ///< `unknown` stands for the dtype of the argument at each call
  Shape shape;                   ///< by default the shape of a scalar
  std::string name = {};         ///< the name of the placeholder
};
/// Dtype, shape and name of an argument, for `trace` and `nn::summary`. Dtype and shape are given, or are those of a
/// tensor or a Variable.
/// @{
inline TensorSpec spec(DType dtype, const Shape& shape, std::string_view name = {}) {
  return {dtype, shape, std::string(name)};
}
inline TensorSpec spec(const Tensor& like, std::string_view name = {}) {
  return spec(like.dtype(), like.shape(), name);
}
inline TensorSpec spec(const Variable& like, std::string_view name = {}) {
  return spec(like.dtype(), like.shape(), name);
}
/// @}

/// How a traced function runs.
struct TraceOptions {
  /// The number of plans that are kept, one for each combination of shapes (for a `function`, the number of traces).
  /// The one that has not been used for the longest time is dropped first.
  std::size_t most_plans = 64;
  /// Passes of the optimisation that are left out: "fold", "fuse", ...
  std::vector<std::string> disabled_passes = {};
};

/// The arguments of a traced function that takes a list, with their call site.
class Values {
 public:
  /// From a list in braces, such as `{x, 1.0}`.
  Values(std::initializer_list<Value> list, Where where = Where::here()) : list_(list), where_(where) {}
  /// From a container of tensors or Variables, such as a std::vector; or from one argument: a tensor, a Variable or a
  /// literal.
  template <class T>
  Values(const T& list, Where where = Where::here()) : where_(where) {  // NOLINT(google-explicit-constructor)
    if constexpr (requires { requires std::convertible_to<std::ranges::range_reference_t<const T>, Tensor>; }) {
      list_.assign(std::ranges::begin(list), std::ranges::end(list));
    } else {
      list_.emplace_back(list, where);
    }
  }

  /// The arguments.
  const std::vector<Value>& list() const { return list_; }
  /// The call site in the user's program.
  Where where() const { return where_; }

 private:
  std::vector<Value> list_;
  Where where_;
};

namespace detail {

using FlatFunction = std::function<Tensors(const Tensors&)>;

/// A traced function on lists of tensors.
class TAPESTRY_API FlatTrace {
 public:
  FlatTrace(FlatFunction function, const std::vector<TensorSpec>& specs, const TraceOptions& options, Where where);

  /// Converts the arguments in place to what the specs say, and calls the function.
  Tensors call(std::span<Value> arguments, Where where) const;
  Graph graph() const;
  const Tensors& inputs() const;
  const Tensors& outputs() const;
  /// Whether the flags that the function has read, such as the mode of a module, still have the values of that time.
  bool is_current() const;
  /// Throw InvalidArgumentError if there is no number i.
  /// @{
  const Tensor& input(std::size_t i) const;
  const Tensor& output(std::size_t i) const;
  /// @}

 private:
  struct State;
  Handle<State> state_;
};

/// Traces of one function, one for each signature of its arguments and for each state of the flags that it reads.
class TAPESTRY_API FlatTraces {
 public:
  FlatTraces(FlatFunction function, const TraceOptions& options);
  Tensors call(std::span<Value> arguments, Where where) const;
  std::size_t size() const;

 private:
  struct State;
  Handle<State> state_;
};

/// The number of Tensors that a function takes: the smallest number up to 16 with which it can be called. A function
/// that is made of another one, such as `grad(f)`, takes what that one takes.
template <class F, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return std::is_invocable_v<F&, decltype((static_cast<void>(I), std::declval<const Tensor&>()))...>;
}
template <class F, std::size_t N = 0>
constexpr std::size_t arity() {
  if constexpr (requires { typename F::MadeOf; }) {
    return arity<typename F::MadeOf>();
  } else if constexpr (N > 16) {
    return N;
  } else if constexpr (takes<F>(std::make_index_sequence<N>())) {
    return N;
  } else {
    return arity<F, N + 1>();
  }
}

template <class F>
constexpr bool takes_list() {
  if constexpr (requires { typename F::MadeOf; }) {
    return takes_list<typename F::MadeOf>();
  } else {
    return std::is_invocable_v<F&, const std::vector<Tensor>&> && !std::is_invocable_v<F&, const Tensor&>;
  }
}

template <class F>
decltype(auto) call_with(F& f, const Tensors& arguments) {
  if constexpr (takes_list<F>()) {
    return f(std::vector<Tensor>(arguments));
  } else {
    constexpr std::size_t count = arity<F>();
    if (arguments.size() != count)
      throw InvalidArgumentError(join("The function takes ", count, " tensors, not ", arguments.size()));
    return spread(f, arguments, std::make_index_sequence<count>());
  }
}

// The requirements on a traced function, each with a message of its own.

template <class F>
constexpr bool takes_tensors() {
  constexpr bool good = takes_list<F>() || arity<F>() <= 16;
  static_assert(good,
                "A traced function takes tp::Tensor arguments, at most 16, by value or as const tp::Tensor&, or one "
                "std::vector<tp::Tensor>.");
  return good;
}
template <class F>
constexpr bool gives_tensors() {
  constexpr bool good =
      is_result<std::remove_cvref_t<decltype(call_with(std::declval<F&>(), std::declval<const Tensors&>()))>>;
  static_assert(
      good,
      "A traced function returns a tp::Tensor, a std::vector, std::array, std::pair, std::tuple or struct of them, or "
      "nothing.");
  return good;
}
template <class F>
using ResultOf = ResultType<decltype(call_with(std::declval<F&>(), std::declval<const Tensors&>()))>;

/// How a function is kept: a module that has a name by reference, as a copy of it would have weights of its own.
template <class F>
concept NamedModule = std::is_lvalue_reference_v<F> && requires(const std::remove_reference_t<F>& f) {
  f.parameters();
};
template <class F>
using Kept = std::conditional_t<NamedModule<F>, std::reference_wrapper<std::remove_reference_t<F>>, std::decay_t<F>>;

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

/// The call of a traced function with a fixed number of arguments. Errors name the caller's line.
template <class Result, class Traces, class... Arguments>
class TracedCall {
 public:
  using MadeOf = Result(std::conditional_t<true, const Tensor&, Arguments>...);

  /// The result of the function for these arguments: tensors, Variables or literals. Throws InvalidArgumentError when a
  /// shape does not fit its spec, and for a dtype or a literal that the spec's dtype would narrow.
  template <std::same_as<Where> Place = Where>
  Result operator()(Arguments... arguments, Place where = Place::here()) const {
    std::array<Value, sizeof...(Arguments)> values{std::move(arguments)...};
    return unflatten<Result>(traces_.call(values, where));
  }
  /// Does not compile: another number of arguments.
  template <class... Others>
  requires(sizeof...(Others) != sizeof...(Arguments)) Result operator()(const Others&...) const {
    static_assert(sizeof...(Others) == sizeof...(Arguments),
                  "A traced function is called with as many arguments as the function takes.");
    return unflatten<Result>({});
  }

 protected:
  explicit TracedCall(Traces traces) : traces_(std::move(traces)) {}
  Traces traces_;
};

/// The call of a traced function that takes a list.
template <class Result, class Traces>
class TracedCall<Result, Traces, Values> {
 public:
  using MadeOf = Result(const std::vector<Tensor>&);

  /// The result of the function for these arguments, which are given in one list or separately. Throws
  /// InvalidArgumentError when their number is not that of the specs, when a shape does not fit its spec, and for a
  /// dtype or a literal that the spec's dtype would narrow.
  /// @{
  Result operator()(Where where = Where::here()) const { return call({}, where); }
  Result operator()(const Values& arguments) const { return call(arguments.list(), arguments.where()); }
  template <class... Rest>
  Result operator()(const Value& first, const Value& second, const Rest&... rest) const {
    return call({first, second, Value(rest)...}, first.where());
  }
  /// @}

 protected:
  explicit TracedCall(Traces traces) : traces_(std::move(traces)) {}
  Traces traces_;

 private:
  Result call(std::vector<Value> values, Where where) const { return unflatten<Result>(traces_.call(values, where)); }
};

/// The type of Traced or Function for a function of type F.
template <std::size_t>
using ValueAt = Value;
template <template <class, class...> class Kind, class F, std::size_t... I>
std::type_identity<Kind<ResultOf<F>, ValueAt<I>...>> traced_type(std::index_sequence<I...>) {
  return {};
}
template <template <class, class...> class Kind, class F>
auto traced_type() {
  if constexpr (takes_list<F>()) {
    return std::type_identity<Kind<ResultOf<F>, Values>>();
  } else {
    return traced_type<Kind, F>(std::make_index_sequence<arity<F>()>());
  }
}
template <template <class, class...> class Kind, class F>
using TracedAs = typename decltype(traced_type<Kind, F>())::type;

}  // namespace detail

/// A function that has been traced. Calling it runs its graph, including everything that the function does to
/// Variables, in the order of the program. Inside another trace, and while a GradientTape records, it calls the
/// function itself, so that the trace or the tape around it sees all ops.
template <class Result, class... Arguments>
class Traced : public detail::TracedCall<Result, detail::FlatTrace, Arguments...> {
 public:
  /// For `trace`.
  explicit Traced(detail::FlatTrace trace) : Traced::TracedCall(std::move(trace)) {}

  /// The graph of what the function did.
  Graph graph() const { return this->traces_.graph(); }
  /// The placeholders, and the results of the function, in order.
  /// @{
  const Tensor& input(std::size_t i = 0) const { return this->traces_.input(i); }
  const Tensor& output(std::size_t i = 0) const { return this->traces_.output(i); }
  std::vector<Tensor> inputs() const { return this->traces_.inputs(); }
  std::vector<Tensor> outputs() const { return this->traces_.outputs(); }
  /// @}
};

/// Calls a function once with symbolic arguments and keeps the graph of what it does. The function takes Tensors (or
/// one std::vector of them); parameters that have defaults keep these. It returns a Tensor, a std::vector, std::array,
/// std::pair, std::tuple or struct of Tensors, such as TopK, or nothing; a Variable or a number in a result stands for
/// its Tensor. Variables are captured by reference; other eager tensors become constants. Of a module,
/// `trace(net, specs)` keeps a reference.
template <class F>
auto trace(F&& f, const std::vector<TensorSpec>& specs, const TraceOptions& options = {}, Where where = Where::here()) {
  using Kept = detail::Kept<F>;
  if constexpr (detail::takes_tensors<Kept>())
    if constexpr (detail::gives_tensors<Kept>()) {
      detail::require_function(f, "trace", where);
      return detail::TracedAs<Traced, Kept>(
          detail::FlatTrace(detail::flat(Kept(std::forward<F>(f))), specs, options, where));
    }
}
/// Does not compile: a trace needs the specs. (The trace of a matrix is another function.)
template <class F>
requires(!std::convertible_to<F, In>) auto trace(F) {
  static_assert(!std::same_as<F, F>,
                "tp::trace needs a spec for each argument, tp::trace(f, {tp::spec(tp::float32, {-1, 2})}); "
                "tp::function(f) does without.");
}

/// A function that is traced at the first call, and again at a call that differs: by dtypes or shapes of its arguments,
/// by the device scope or the Autocast scope around it, or by a module that it uses and that has changed its mode, has
/// been frozen, or has other Variables since. Each trace is kept for later calls that it fits.
template <class Result, class... Arguments>
class Function : public detail::TracedCall<Result, detail::FlatTraces, Arguments...> {
 public:
  /// For `function`.
  explicit Function(detail::FlatTraces traces) : Function::TracedCall(std::move(traces)) {}

  /// The number of traces that are kept.
  std::size_t trace_count() const { return this->traces_.size(); }
};
/// Makes a Function of f, which may be and return what `trace` allows.
template <class F>
auto function(F&& f, const TraceOptions& options = {}, Where where = Where::here()) {
  using Kept = detail::Kept<F>;
  if constexpr (detail::takes_tensors<Kept>())
    if constexpr (detail::gives_tensors<Kept>()) {
      detail::require_function(f, "function", where);
      return detail::TracedAs<Function, Kept>(detail::FlatTraces(detail::flat(Kept(std::forward<F>(f))), options));
    }
}

/// @}

}  // namespace tapestry
