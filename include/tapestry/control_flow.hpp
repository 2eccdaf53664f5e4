#pragma once

#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/detail/function.hpp"
#include "tapestry/trace.hpp"

namespace tapestry {

/// @addtogroup graphs
/// @{

/// How `while_loop` runs.
struct WhileOptions {
  /// The loop ends after this number of iterations, whatever the condition says; nothing for no such end.
  std::optional<std::int64_t> maximum_iterations = {};
  /// Whether the backward loop computes an iteration again instead of keeping its intermediate results: it keeps the
  /// loop variables of few iterations only, and computes those between them again.
  bool recompute = false;
  /// The shapes of the loop variables, where they change from iteration to iteration: one shape for each variable, with
  /// -1 for each size that changes. Empty if no shape changes.
  std::vector<Shape> shape_invariants = {};
  /// The name of the operation in a graph.
  std::string name = {};
};

/// How `scan` and `map` run.
struct SequenceOptions {
  bool reverse = false;   ///< from the last element to the first
  std::string name = {};  ///< of the operation in a graph
};

namespace detail {

using Predicate = std::function<Tensor(const Tensors&)>;

TAPESTRY_API Tensors flat_case(const Value& selector, const std::vector<FlatFunction>& branches, bool is_condition,
                               std::string_view name, Where where);
TAPESTRY_API Tensors flat_while(const Predicate& condition, const FlatFunction& body, const Tensors& variables,
                                const WhileOptions& options, Where where);
/// The body takes the carried values and an element of each sequence, and returns `carried` values and what is stacked.
TAPESTRY_API Tensors flat_scan(const FlatFunction& body, const Tensors& carried, const Tensors& sequences,
                               const SequenceOptions& options, Where where);

/// Loop variables, which are one Tensor, a std::vector of them, a std::tuple of tensors, Variables and numbers, or a
/// std::pair, std::array or struct.
template <class T>
struct LoopVariables {
  using Type = Tensor;
  static Tensors list(const T& value, Where where) { return {Value(value, where).tensor({}, where)}; }
  template <class F>
  static constexpr bool fit = std::is_invocable_v<F&, const Tensor&>;
  template <class F>
  static decltype(auto) call(F& f, const Tensors& values) {
    return f(values[0]);
  }
  static Type from(const Tensor* first, std::size_t) { return *first; }
};
template <>
struct LoopVariables<std::vector<Tensor>> {
  using Type = std::vector<Tensor>;
  static Tensors list(const std::vector<Tensor>& values, Where) { return values; }
  template <class F>
  static constexpr bool fit = std::is_invocable_v<F&, std::vector<Tensor>>;
  template <class F>
  static decltype(auto) call(F& f, const Tensors& values) {
    return f(std::vector<Tensor>(values));
  }
  static Type from(const Tensor* first, std::size_t count) { return {first, first + count}; }
};
template <class... T>
struct LoopVariables<std::tuple<T...>> {
  using Type = std::tuple<TensorFor<T>...>;
  using Numbers = std::index_sequence_for<T...>;
  static Tensors list(const std::tuple<T...>& values, Where where) {
    return std::apply([&](const auto&... each) { return Tensors{Value(each, where).tensor({}, where)...}; }, values);
  }
  template <class F>
  static constexpr bool fit = std::is_invocable_v<F&, const TensorFor<T>&...>;
  template <class F>
  static decltype(auto) call(F& f, const Tensors& values) {
    return spread(f, values, Numbers());
  }
  static Type from(const Tensor* first, std::size_t) { return from(first, Numbers()); }

 private:
  template <std::size_t... I>
  static Type from(const Tensor* first, std::index_sequence<I...>) {
    return Type(first[I]...);
  }
};
template <class T>
requires(is_structure<T> && !is_one_tensor<T>) struct LoopVariables<T> {
  using Type = ResultType<T>;
  static Tensors list(const T& values, Where) { return flatten(values); }
  template <class F>
  static constexpr bool fit = std::is_invocable_v<F&, const Type&>;
  template <class F>
  static decltype(auto) call(F& f, const Tensors& values) {
    return f(unflatten<Type>(values));
  }
  static Type from(const Tensor* first, std::size_t) { return take<Type>(first); }
};

/// What a loop's condition returns as a tensor, which is weak if it is a C++ bool.
template <class T>
Tensor condition_of(const T& result) {
  if constexpr (is_number<T>)
    return In(result).tensor();
  else
    return Value(result).tensor();
}

// The requirements on the functions, each with a message of its own.

template <class... F>
constexpr bool are_branches() {
  constexpr bool callable = (std::is_invocable_v<F&> && ...);
  static_assert(callable, "A branch of tp::cond or tp::switch_case is a function without arguments.");
  if constexpr (callable) {
    constexpr bool good = (is_result<std::remove_cvref_t<std::invoke_result_t<F&>>> && ...);
    static_assert(good,
                  "A branch returns a tp::Tensor, a std::vector, std::array, std::pair, std::tuple or struct of them, "
                  "or nothing.");
    return good;
  }
  return callable;
}
template <class Variables, class Condition, class Body>
constexpr bool are_loop_functions() {
  using List = LoopVariables<Variables>;
  constexpr bool fit = List::template fit<Condition> && List::template fit<Body>;
  static_assert(fit,
                "The functions of tp::while_loop take the loop variables: a tp::Tensor, a std::vector, std::pair, "
                "std::array or struct of them, or the tensors of a std::tuple one by one.");
  if constexpr (fit) {
    using Result = std::remove_cvref_t<decltype(List::call(std::declval<Body&>(), std::declval<const Tensors&>()))>;
    constexpr bool good = is_result<Result> && !std::is_void_v<Result>;
    static_assert(good, "The body of tp::while_loop returns the next values of the loop variables.");
    return good;
  }
  return fit;
}
template <class Sequences, class F>
constexpr bool maps() {
  constexpr bool fit = std::is_invocable_v<F&, typename LoopVariables<Sequences>::Type>;
  static_assert(fit, "The function of tp::map takes an element of each sequence, in the form of the sequences.");
  if constexpr (fit) {
    using Result = std::remove_cvref_t<std::invoke_result_t<F&, typename LoopVariables<Sequences>::Type>>;
    constexpr bool good = is_result<Result> && !std::is_void_v<Result>;
    static_assert(good, "The function of tp::map returns an output for each element.");
    return good;
  }
  return fit;
}
template <class Carried, class Sequences, class F>
constexpr bool scans() {
  using C = typename LoopVariables<Carried>::Type;
  using S = typename LoopVariables<Sequences>::Type;
  constexpr bool fit = std::is_invocable_v<F&, C, S>;
  static_assert(fit, "The function of tp::scan takes the carried value and an element, in the forms of the arguments.");
  if constexpr (fit) {
    using Result = std::remove_cvref_t<std::invoke_result_t<F&, C, S>>;
    constexpr bool good = requires { requires std::tuple_size<Result>::value == 2; };
    static_assert(good, "The function of tp::scan returns {next carried value, output}.");
    return good;
  }
  return fit;
}

template <class F>
FlatFunction flat_branch(F& f) {
  using Result = std::remove_cvref_t<std::invoke_result_t<F&>>;
  return [&f](const Tensors&) -> Tensors {
    if constexpr (std::is_void_v<Result>) {
      f();
      return {};
    } else {
      return flatten(f());
    }
  };
}

/// Throws InvalidArgumentError unless a body gives as many loop variables as it takes.
TAPESTRY_API void require_count(std::size_t taken, std::size_t given);

/// What a scan's function returns in one list.
template <class Next, class Output>
Tensors scan_results(const Next& next, const Output& output, std::size_t carried) {
  Tensors list = flatten(next);
  require_count(carried, list.size());
  const Tensors outputs = flatten(output);
  list.append(outputs.begin(), outputs.end());
  return list;
}

}  // namespace detail

/// The result of `then()` where the predicate is true, and of `otherwise()` where it is false. Both return alike: a
/// Tensor, a std::vector, std::array, std::pair, std::tuple or struct of Tensors, or nothing; a Variable or a number
/// stands for its Tensor. Only the function that is chosen runs, with all that it does to Variables. A symbolic
/// predicate makes one operation, TensorFlow's `If`, whose branches are functions of the graph; they may read all
/// tensors around them, may be called more than once while they are traced, and are differentiable to any order. Throws
/// InvalidArgumentError for a predicate that is no bool scalar, and for branches that do not return alike.
template <class F, class G>
auto cond(const Value& predicate, F then, G otherwise, std::string_view name = {}, Where where = Where::here()) {
  if constexpr (detail::are_branches<F, G>()) {
    using Result = detail::ResultType<std::invoke_result_t<F&>>;
    constexpr bool alike = std::is_same_v<Result, detail::ResultType<std::invoke_result_t<G&>>>;
    static_assert(alike, "Both branches of tp::cond return the same type.");
    if constexpr (alike) {
      detail::require_function(then, "cond", where);
      detail::require_function(otherwise, "cond", where);
      return detail::unflatten<Result>(
          detail::flat_case(predicate, {detail::flat_branch(then), detail::flat_branch(otherwise)}, true, name, where));
    }
  }
}

namespace detail {

/// A branch that returns nothing. A std::function<void()> would take functions that return something, too.
struct Effect : std::function<void()> {
  template <class F>
  requires(std::is_void_v<std::invoke_result_t<F&>>) Effect(F f)  // NOLINT(google-explicit-constructor)
      : std::function<void()>(std::move(f)) {}
};

template <class Result, class Branch>
Result switch_among(const Value& index, const std::vector<Branch>& branches, std::string_view name, Where where) {
  std::vector<FlatFunction> flat;
  flat.reserve(branches.size());
  for (const Branch& each : branches) {
    require_function(each, "switch_case", where);
    flat.push_back(flat_branch(each));
  }
  return unflatten<Result>(flat_case(index, flat, false, name, where));
}

}  // namespace detail

/// The result of the branch number `index`; an index out of range takes the last branch. Otherwise like `cond`; the
/// operation is TensorFlow's `Case`. Branches in braces return a Tensor, a std::vector, a std::tuple of two, three or
/// four, or nothing; a std::vector of std::function may return whatever those of `cond` do. Throws InvalidArgumentError
/// if there is no branch.
/// @{
template <class Result>
Result switch_case(const Value& index, const std::vector<std::function<Result()>>& branches, std::string_view name = {},
                   Where where = Where::here()) {
  return detail::switch_among<Result>(index, branches, name, where);
}
inline Tensor switch_case(const Value& index, const std::vector<std::function<Tensor()>>& branches,
                          std::string_view name = {}, Where where = Where::here()) {
  return detail::switch_among<Tensor>(index, branches, name, where);
}
inline std::vector<Tensor> switch_case(const Value& index,
                                       const std::vector<std::function<std::vector<Tensor>()>>& branches,
                                       std::string_view name = {}, Where where = Where::here()) {
  return detail::switch_among<std::vector<Tensor>>(index, branches, name, where);
}
inline std::tuple<Tensor, Tensor> switch_case(const Value& index,
                                              const std::vector<std::function<std::tuple<Tensor, Tensor>()>>& branches,
                                              std::string_view name = {}, Where where = Where::here()) {
  return detail::switch_among<std::tuple<Tensor, Tensor>>(index, branches, name, where);
}
inline std::tuple<Tensor, Tensor, Tensor> switch_case(
    const Value& index, const std::vector<std::function<std::tuple<Tensor, Tensor, Tensor>()>>& branches,
    std::string_view name = {}, Where where = Where::here()) {
  return detail::switch_among<std::tuple<Tensor, Tensor, Tensor>>(index, branches, name, where);
}
inline std::tuple<Tensor, Tensor, Tensor, Tensor> switch_case(
    const Value& index, const std::vector<std::function<std::tuple<Tensor, Tensor, Tensor, Tensor>()>>& branches,
    std::string_view name = {}, Where where = Where::here()) {
  return detail::switch_among<std::tuple<Tensor, Tensor, Tensor, Tensor>>(index, branches, name, where);
}
inline void switch_case(const Value& index, const std::vector<detail::Effect>& branches, std::string_view name = {},
                        Where where = Where::here()) {
  detail::switch_among<void>(index, branches, name, where);
}
/// @}

/// Calls `body` with the loop variables as long as `condition` of them is true, and returns their last values. The loop
/// variables are a Tensor, a std::vector, std::pair, std::array or struct of Tensors, such as an LSTM's state, or a
/// std::tuple of tensors, Variables and numbers; both functions take them (those of a tuple one by one), and `body`
/// returns their next values.
///
/// Eagerly this is the C++ loop. Where a loop variable or the condition is symbolic it is one operation, TensorFlow's
/// `While`, which is differentiable to any order and gives the same bits. The functions may read all tensors around
/// them, and read and assign Variables; they may be called more than once while they are traced. Throws
/// InvalidArgumentError for a condition that is no bool scalar, or in a graph a C++ bool that is true, and for a
/// loop variable whose dtype changes, or whose shape changes where `shape_invariants` does not say so.
template <class Condition, class Body, class Variables>
auto while_loop(Condition condition, Body body, const Variables& variables, const WhileOptions& options = {},
                Where where = Where::here()) {
  if constexpr (detail::are_loop_functions<Variables, Condition, Body>()) {
    using List = detail::LoopVariables<Variables>;
    detail::require_function(condition, "while_loop", where);
    detail::require_function(body, "while_loop", where);
    const Tensors first = List::list(variables, where);
    const Tensors last = detail::flat_while(
        [&](const Tensors& values) -> Tensor { return detail::condition_of(List::call(condition, values)); },
        [&](const Tensors& values) -> Tensors { return detail::flatten(List::call(body, values)); }, first, options,
        where);
    return List::from(last.begin(), last.size());
  }
}

/// Calls `f(carried, element)` for each element of the sequences along axis 0. It returns a std::tuple or std::pair of
/// the next carried value and an output; `scan` returns the last carried value, and the outputs stacked along a new
/// axis 0. The carried value, the sequences and the output are each a Tensor, or a std::vector, std::pair, std::array,
/// std::tuple or struct of Tensors. The sequences must have the same length; of none, the outputs have the length 0.
///
/// In a graph this is one operation, a `While`, like `while_loop`, and it can be differentiated to any order.
template <class F, class Carried, class Sequences>
auto scan(F f, const Carried& carried, const Sequences& sequences, const SequenceOptions& options = {},
          Where where = Where::here()) {
  if constexpr (detail::scans<Carried, Sequences, F>()) {
    using C = detail::LoopVariables<Carried>;
    using S = detail::LoopVariables<Sequences>;
    using Result = std::remove_cvref_t<std::invoke_result_t<F&, typename C::Type, typename S::Type>>;
    using Output = std::remove_cvref_t<std::tuple_element_t<1, Result>>;
    detail::require_function(f, "scan", where);
    const Tensors first = C::list(carried, where), elements = S::list(sequences, where);
    const Tensors results = detail::flat_scan(
        [&](const Tensors& values) -> Tensors {
          auto [next, output] =
              f(C::from(values.begin(), first.size()), S::from(values.begin() + first.size(), elements.size()));
          return detail::scan_results(next, output, first.size());
        },
        first, elements, options, where);
    const Tensors stacked(results.begin() + first.size(), results.end());
    using Stacked = detail::ResultType<Output>;
    return std::tuple<typename C::Type, Stacked>(C::from(results.begin(), first.size()),
                                                 detail::unflatten<Stacked>(stacked));
  }
}

/// The outputs of `f` for each element of the sequences along axis 0, stacked along a new axis 0. `f` takes and returns
/// what those of `scan` may be. Otherwise like `scan`.
template <class F, class Sequences>
auto map(F f, const Sequences& sequences, const SequenceOptions& options = {}, Where where = Where::here()) {
  if constexpr (detail::maps<Sequences, F>()) {
    using S = detail::LoopVariables<Sequences>;
    using Output = detail::ResultType<std::invoke_result_t<F&, typename S::Type>>;
    detail::require_function(f, "map", where);
    const Tensors elements = S::list(sequences, where);
    const Tensors stacked = detail::flat_scan(
        [&](const Tensors& values) -> Tensors { return detail::flatten(f(S::from(values.begin(), values.size()))); },
        {}, elements, options, where);
    return detail::unflatten<Output>(stacked);
  }
}

/// @}

}  // namespace tapestry
