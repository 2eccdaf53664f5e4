#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/custom_gradient.hpp"  // for who includes the tape alone
#include "tapestry/detail/function.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/op.hpp"
#include "tapestry/variable.hpp"

namespace tapestry {

/// @addtogroup tape
/// @{

/// What a tape records, and how often it can be used.
struct TapeOptions {
  bool persistent = false;               ///< whether `gradient` may be called more than once
  bool watch_accessed_variables = true;  ///< whether trainable Variables are watched when they are read
};

/// The gradient of a source on which the target does not depend.
enum class Unconnected {
  none,  ///< an empty Tensor
  zero,  ///< zeros of the source's shape
};

/// One tensor or several, with their call site.
class TAPESTRY_API TensorList {
 public:
  /// No tensors.
  TensorList() = default;
  /// A tensor or a list at its call site.
  /// @{
  TensorList(const Tensor& tensor, Where where = Where::here()) : tensors_{tensor}, where_(where) {}  // NOLINT
  TensorList(const std::vector<Tensor>& tensors, Where where = Where::here())                         // NOLINT
      : tensors_(tensors), where_(where) {}
  TensorList(std::initializer_list<Tensor> tensors, Where where = Where::here())  // NOLINT
      : tensors_(tensors), where_(where) {}
  template <std::size_t N>
  TensorList(const std::array<Tensor, N>& tensors, Where where = Where::here())  // NOLINT
      : tensors_(tensors.begin(), tensors.end()), where_(where) {}
  /// @}

  /// The tensors in the list.
  const Tensors& tensors() const { return tensors_; }
  /// The call site in the user's program.
  Where where() const { return where_; }

 private:
  Tensors tensors_;
  Where where_;
};

/// The source of a gradient, with respect to which it is taken: a tensor, or a Variable (that is, all values of it that
/// the tape has seen).
class TAPESTRY_API Source {
 public:
  /// From a tensor, or from a Variable.
  /// @{
  Source(const Tensor& tensor) : tensor_(tensor) {}                        // NOLINT
  Source(const Variable& variable) : tensor_(), cell_(variable.cell()) {}  // NOLINT
  /// @}

  /// The tensor; an empty handle for a Variable.
  const Tensor& tensor() const { return tensor_; }
  /// The Variable's cell; nullptr for a tensor.
  const std::shared_ptr<Variable::Cell>& cell() const { return cell_; }

 private:
  Tensor tensor_;
  detail::Handle<Variable::Cell> cell_;
};

/// A type that converts to a Source: a Tensor, a Variable, a Parameter.
template <class T>
concept GradientSource = std::convertible_to<const T&, Source>;
/// A container of sources, such as `net.parameters()`.
template <class T>
concept GradientSources = std::ranges::forward_range<T> && GradientSource<std::ranges::range_value_t<T>>;

namespace detail {

template <class... T>
constexpr bool are_sources() {
  constexpr bool good = ((GradientSource<T> || GradientSources<T>)&&...);
  static_assert(good,
                "A gradient is with respect to tp::Tensors and tp::Variables, and containers of them such as "
                "net.parameters().");
  return good;
}

/// Joins sources and containers of sources into one list.
template <class... T>
std::vector<Source> all_sources(const T&... sources) {
  std::vector<Source> all;
  const auto append = [&all](const auto& source) {
    if constexpr (GradientSource<std::remove_cvref_t<decltype(source)>>) {
      all.emplace_back(source);
    } else {
      all.insert(all.end(), std::ranges::begin(source), std::ranges::end(source));
    }
  };
  (append(sources), ...);
  return all;
}

/// Takes the next gradients: one for a source, or as many as a container of sources has.
template <class T>
auto next_gradients(const T& sources, std::vector<Tensor>::iterator& next) {
  if constexpr (GradientSource<T>) {
    return std::move(*next++);
  } else {
    const auto first = next;
    next += std::ranges::distance(sources);
    return std::vector<Tensor>(first, next);
  }
}

/// Brings the gradients of `all_sources` into the form of the sources: a std::array of Tensors if there is no container
/// among them, otherwise a std::tuple of Tensors and std::vectors.
template <class... T>
auto in_form_of(std::vector<Tensor> gradients, const T&... sources) {
  auto next = gradients.begin();
  // Braces make sure that the elements are filled from left to right.
  if constexpr ((GradientSource<T> && ...)) {
    return std::array<Tensor, sizeof...(T)>{next_gradients(sources, next)...};
  } else {
    return std::tuple<decltype(next_gradients(sources, next))...>{next_gradients(sources, next)...};
  }
}

}  // namespace detail

/// Where the computation of gradients starts and ends, and the gradient of unconnected sources.
struct GradientOptions {
  /// The gradients with respect to the targets, one for each and of its shape; by default ones.
  TensorList output_gradients = {};
  /// The gradient of a source on which no target depends.
  Unconnected unconnected = Unconnected::none;
  /// Tensors that are treated as constants: no gradient flows into the ops that computed them.
  TensorList stop_gradients = {};
  /// Is called with the number of a source and its gradient as soon as the gradient is complete, while the others are
  /// still being computed. It is called once for each source; the order depends on the recorded ops alone. (For a
  /// graph, `tapestry::gradients` calls it at the end, in the order of the sources.)
  std::function<void(std::size_t source, const Tensor& gradient)> when_final = {};
};

/// The part of a tape that becomes a graph.
struct ToGraphOptions {
  std::vector<Tensor> inputs = {};      ///< the tensors that become placeholders
  std::vector<Tensor> outputs = {};     ///< the tensors that become the collection "outputs"
  std::vector<std::string> names = {};  ///< names for the placeholders, and after them for the outputs
};

/// Records ops of this thread while it exists, so that their results can be differentiated. It keeps only ops that
/// depend on something watched, and of their tensors only what the gradients need.
///
/// Tapes nest: an outer tape records what an inner tape's `gradient` computes, so that derivatives of any order need
/// nothing else. Recording, differentiating and destroying are loops: a chain of a million ops needs no deep stack.
/// While a tape records, it belongs to the thread that created it: it must be destroyed there, and its functions throw
/// FailedPreconditionError on any other thread.
class TAPESTRY_API GradientTape {
 public:
  /// Starts to record.
  explicit GradientTape(const TapeOptions& options = {});
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  /// Watches tensors or Variables: from now on, ops that depend on them are recorded. Throws InvalidArgumentError for a
  /// dtype that has no gradients.
  /// @{
  void watch(const Tensor& tensor, Where where = Where::here());
  void watch(const Variable& variable, Where where = Where::here());
  template <class T>
  requires(!GradientSource<T>) void watch(const T& sources, Where where = Where::here()) {
    constexpr bool good = GradientSources<T>;
    static_assert(good,
                  "A tape watches tp::Tensors and tp::Variables, and containers of them such as net.parameters().");
    if constexpr (good)
      for (const auto& source : sources) watch(source, where);
  }
  template <class T>
  void watch(std::initializer_list<T> sources, Where where = Where::here()) {
    watch(std::vector<T>(sources), where);
  }
  /// @}

  /// The derivative of the sum of the targets' elements with respect to each source, of the shape of the source. The
  /// gradient of an unconnected source is an empty Tensor, unless the options ask for zeros. A tape that is not
  /// persistent stops recording here, releases its records while it walks through them, and throws
  /// FailedPreconditionError the next time. Throws LookupError when an op on the way has no gradient.
  ///
  /// The result for one Tensor or Variable is a Tensor, and for a list or container a std::vector. For several
  /// arguments it has one of these for each: in a std::array if all are Tensors, otherwise in a std::tuple, `auto
  /// [gradients, dx] = tape.gradient(loss, net.parameters(), x)`.
  /// @{
  template <class T>
  auto gradient(const TensorList& targets, const T& source, const GradientOptions& options = {}) {
    if constexpr (!detail::are_sources<T>()) {
      return Tensor();
    } else if constexpr (GradientSource<T>) {
      return std::move(gradients(targets, {Source(source)}, options)[0]);
    } else {
      return gradients(targets, detail::all_sources(source), options);
    }
  }
  std::vector<Tensor> gradient(const TensorList& targets, std::initializer_list<Source> sources,
                               const GradientOptions& options = {}) {
    return gradients(targets, std::vector<Source>(sources), options);
  }
  template <class First, class Second, class... Rest>
  auto gradient(const TensorList& targets, const First& first, const Second& second, const Rest&... rest) {
    if constexpr (detail::are_sources<First, Second, Rest...>())
      return detail::in_form_of(gradients(targets, detail::all_sources(first, second, rest...), {}), first, second,
                                rest...);
  }
  template <class First, class Second>
  auto gradient(const TensorList& targets, const First& first, const Second& second, const GradientOptions& options) {
    if constexpr (detail::are_sources<First, Second>())
      return detail::in_form_of(gradients(targets, detail::all_sources(first, second), options), first, second);
  }
  template <class First, class Second, class Third>
  auto gradient(const TensorList& targets, const First& first, const Second& second, const Third& third,
                const GradientOptions& options) {
    if constexpr (detail::are_sources<First, Second, Third>())
      return detail::in_form_of(gradients(targets, detail::all_sources(first, second, third), options), first, second,
                                third);
  }
  /// @}
  /// Does not compile: the target is not a tensor.
  template <class Target, class... Rest>
  requires(!std::convertible_to<const Target&, TensorList>) Tensor gradient(const Target&, const Rest&...) {
    constexpr bool good = std::convertible_to<const Target&, TensorList>;
    static_assert(good, "The target of a gradient is a tp::Tensor or a list of them.");
    return {};
  }

  /// All first derivatives. The shape of the result is the target's shape, then the source's. This needs one backward
  /// pass for each element of the target.
  Tensor jacobian(const TensorList& target, const Source& source);
  /// The jacobian of each row, for a target [b, ...] whose row i depends only on row i of the source [b, ...]. The
  /// shape of the result is [b, target's rest, source's rest]. This needs one backward pass for each element of a row
  /// of the target.
  Tensor batch_jacobian(const TensorList& target, const Source& source);

  /// What the tape has recorded between the inputs and the outputs, as a graph. The graph refers to Variables, and has
  /// other tensors as constants. Throws InvalidArgumentError for an output that the tape has not recorded. Throws
  /// FailedPreconditionError when it needs a tensor whose memory the tape has released because no gradient needs it;
  /// such a tensor must be an input.
  Graph to_graph(const ToGraphOptions& options, Where where = Where::here()) const;

  class Pause;
  /// Pauses the recording until the returned object is destroyed. Throws FailedPreconditionError when the tape is not
  /// recording.
  [[nodiscard]] Pause stop_recording(Where where = Where::here());
  /// Forgets everything that was recorded and watched, and goes on recording.
  void reset(Where where = Where::here());

  /// The Variables that the tape watches, in the order of their first reads.
  std::vector<Variable> watched_variables() const;
  /// The number of recorded ops.
  std::size_t size() const;
  /// The bytes of tensor data that the records keep alive.
  std::size_t bytes() const;

 private:
  std::vector<Tensor> gradients(const TensorList& targets, const std::vector<Source>& sources,
                                const GradientOptions& options);

  friend struct RecordedTape;
  class Record;
  std::unique_ptr<Record> record_;
};

/// The result of `stop_recording`: while it exists, its tape records nothing.
class TAPESTRY_API GradientTape::Pause {
 public:
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  friend class GradientTape;
  explicit Pause(Record& record);

  Record& record_;
};

// ---- Functional forms ---------------------------------------------------------------------------------------------

// Errors name the line that calls `grad(f)` and similar functions. A derivative is that by an argument: a tensor that f
// captures, or is given twice, is another one. So f gets a tensor of its own for each argument; a Variable stays
// itself.

namespace detail {

/// @{
TAPESTRY_API Tensor own_argument(const Tensor& x, Where where);
TAPESTRY_API std::vector<Tensor> own_argument(const std::vector<Tensor>& xs, Where where);
template <class X>
decltype(auto) own_argument(const X& x, Where where) {
  if constexpr (std::is_arithmetic_v<X>)
    return tensor(x, {}, where);
  else
    return (x);
}
template <class X>
using OwnArgument = std::remove_cvref_t<decltype(own_argument(std::declval<const X&>(), Where()))>;
/// @}

/// Whether f(xs...) can be differentiated.
template <class F, class... Xs>
constexpr bool is_differentiable() {
  constexpr bool callable = std::invocable<const F&, const Xs&...>;
  static_assert(callable, "grad(f)(x, ...) calls f(x, ...), and this f does not take these arguments.");
  if constexpr (callable) {
    constexpr bool gives_tensor = std::convertible_to<std::invoke_result_t<const F&, const Xs&...>, Tensor>;
    static_assert(gives_tensor, "A function that is differentiated returns one tp::Tensor.");
    return gives_tensor;
  }
  return callable;
}

template <class F>
class ValueAndGrad {
 public:
  using MadeOf = F;
  ValueAndGrad(F f, Where where) : f_(std::move(f)), where_(where) {}

  template <class... Xs>
  auto operator()(const Xs&... xs) const {
    if constexpr (!are_sources<OwnArgument<Xs>...>()) {
      return std::pair<Tensor, Tensor>();
    } else if constexpr (!is_differentiable<F, OwnArgument<Xs>...>()) {
      return std::pair<Tensor, Tensor>();
    } else {
      return differentiate(own_argument(xs, where_)...);
    }
  }

 private:
  template <class... Xs>
  auto differentiate(const Xs&... xs) const {
    GradientTape tape;
    (tape.watch(xs, where_), ...);
    Tensor value = detail::locating({}, where_, [&]() -> Tensor { return f_(xs...); });
    auto gradient = tape.gradient(TensorList(value, where_), xs...);
    return std::pair{std::move(value), std::move(gradient)};
  }

  F f_;
  Where where_;
};

template <class F>
class Grad {
 public:
  using MadeOf = F;
  Grad(F f, Where where) : both_(std::move(f), where) {}

  template <class... Xs>
  auto operator()(const Xs&... xs) const {
    return both_(xs...).second;
  }

 private:
  ValueAndGrad<F> both_;
};

}  // namespace detail

/// `value_and_grad(f)(x)` is the pair of f(x) and its gradient with respect to x. For several arguments, which are
/// Tensors, numbers, Variables or containers of them, the second element is the result of `GradientTape::gradient`. f
/// returns one Tensor. What f captures is constant, be it the very tensor at which it is evaluated.
template <class F>
auto value_and_grad(F f, Where where = Where::here()) {
  detail::require_function(f, "value_and_grad", where);
  return detail::ValueAndGrad<F>(std::move(f), where);
}

/// `grad(f)(x)` is the gradient of f at x. For several arguments it is the result of `GradientTape::gradient`.
template <class F>
auto grad(F f, Where where = Where::here()) {
  detail::require_function(f, "grad", where);
  return detail::Grad<F>(std::move(f), where);
}

/// A function from one tensor to one tensor, made of ops.
using TensorFunction = std::function<Tensor(const Tensor&)>;

namespace detail {

/// A function of tensors, given in one list.
using ListFunction = std::function<Tensor(const Tensors&)>;

TAPESTRY_API std::pair<Tensor, Tensor> flat_jvp(const ListFunction& f, const std::vector<Value>& points,
                                                const std::vector<Value>& directions, Where where);
TAPESTRY_API std::pair<Tensor, std::function<Tensors(const Value&)>> flat_vjp(const ListFunction& f,
                                                                              const std::vector<Value>& points,
                                                                              Where where);
TAPESTRY_API std::pair<Tensor, Tensors> flat_vjp(const ListFunction& f, const std::vector<Value>& points,
                                                 const Value& v, Where where);
/// The second derivatives by each two points, row by row.
TAPESTRY_API Tensors flat_hessian(const ListFunction& f, const std::vector<Value>& points, Where where);

}  // namespace detail

/// @}

}  // namespace tapestry
