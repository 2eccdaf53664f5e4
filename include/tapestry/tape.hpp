#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/op.hpp"
#include "tapestry/variable.hpp"

namespace tapestry {

/// @addtogroup tape
/// @{

/// What a tape records, and how often it can be used.
struct TapeOptions {
  bool persistent = false;               ///< `gradient` may be called more than once
  bool watch_accessed_variables = true;  ///< trainable Variables are watched when they are read
};

/// What the gradient is of a source that the target does not depend on.
enum class Unconnected {
  none,  ///< an empty Tensor
  zero,  ///< zeros of the source's shape
};

/// One tensor or several, with the place where they were written.
class TAPESTRY_API TensorList {
 public:
  /// None.
  TensorList() = default;
  /// At the place where it is written.
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

  /// What the list holds.
  const Tensors& tensors() const { return tensors_; }
  /// The user's line.
  Where where() const { return where_; }

 private:
  Tensors tensors_;
  Where where_;
};

/// What a gradient is taken with respect to: a tensor, or a Variable (all its values that the tape saw).
class TAPESTRY_API Source {
 public:
  /// One of the two.
  /// @{
  Source(const Tensor& tensor) : tensor_(tensor) {}                        // NOLINT
  Source(const Variable& variable) : tensor_(), cell_(variable.cell()) {}  // NOLINT
  /// @}

  /// The tensor, or an empty handle.
  const Tensor& tensor() const { return tensor_; }
  /// The Variable's cell, or nullptr.
  const std::shared_ptr<Variable::Cell>& cell() const { return cell_; }

 private:
  Tensor tensor_;
  std::shared_ptr<Variable::Cell> cell_;
};

/// What converts to a Source: a Tensor, a Variable, a Parameter.
template <class T>
concept GradientSource = std::convertible_to<const T&, Source>;
/// A container of them, such as `net.parameters()`.
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

/// Sources and containers of them as one list.
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

/// The gradients of a source, or of a container of them, which are the next ones.
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

/// The gradients of `all_sources` in the form of the sources: a std::array of Tensors where each is one, otherwise a
/// std::tuple of Tensors and std::vectors.
template <class... T>
auto in_form_of(std::vector<Tensor> gradients, const T&... sources) {
  auto next = gradients.begin();
  // Braces: the elements are filled from left to right.
  if constexpr ((GradientSource<T> && ...)) {
    return std::array<Tensor, sizeof...(T)>{next_gradients(sources, next)...};
  } else {
    return std::tuple<decltype(next_gradients(sources, next))...>{next_gradients(sources, next)...};
  }
}

}  // namespace detail

/// What a gradient starts from, where it ends, and what it is where nothing flows.
struct GradientOptions {
  /// The gradients that flow into the targets, one each and of their shapes; by default ones.
  TensorList output_gradients = {};
  Unconnected unconnected = Unconnected::none;  ///< what the gradient is of a source that no target depends on
  /// Taken for constants: no gradient flows on into the ops that made them.
  TensorList stop_gradients = {};
};

/// Which part of a tape becomes a graph.
struct ToGraphOptions {
  std::vector<Tensor> inputs = {};      ///< become placeholders
  std::vector<Tensor> outputs = {};     ///< become the collection "outputs"
  std::vector<std::string> names = {};  ///< of the placeholders, and after them of the outputs
};

/// Records the ops of this thread while it lives, to differentiate what they computed. Only ops that depend on
/// something watched are kept, and of their tensors only what the gradients need.
///
/// Tapes nest: what an inner tape's `gradient` computes is recorded by the outer ones, so derivatives of any order need
/// nothing else. Recording, differentiating and freeing are loops: a chain of a million ops needs no deep stack. A tape
/// belongs to the thread that made it: there it must end, and on another one it throws FailedPreconditionError.
class TAPESTRY_API GradientTape {
 public:
  /// Records from here on.
  explicit GradientTape(const TapeOptions& options = {});
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  /// From now on, ops that use these are recorded. Throws InvalidArgumentError for a dtype that has no gradients.
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

  /// The derivative of the sum of the targets' elements with respect to each source, of its shape. An unconnected
  /// source gives an empty Tensor, unless the options ask for zeros. A tape that is not persistent stops recording
  /// here, lets its records go as it walks them, and throws FailedPreconditionError the next time. Throws LookupError
  /// for an op without a gradient on the way.
  ///
  /// Of one Tensor or Variable it gives a Tensor, of a list or a container a std::vector, and of several arguments one
  /// of these for each: as a std::array if all are Tensors, else as a std::tuple,
  /// `auto [gradients, dx] = tape.gradient(loss, net.parameters(), x)`.
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
  /// @}
  /// Does not compile: the target is no tensor.
  template <class Target, class... Rest>
  requires(!std::convertible_to<const Target&, TensorList>) Tensor gradient(const Target&, const Rest&...) {
    constexpr bool good = std::convertible_to<const Target&, TensorList>;
    static_assert(good, "The target of a gradient is a tp::Tensor or a list of them.");
    return {};
  }

  /// All first derivatives: the result's shape is the target's, then the source's. One backward walk per element of the
  /// target.
  Tensor jacobian(const TensorList& target, const Source& source);
  /// For a target [b, ...] whose row i depends on row i of the source [b, ...] only: the jacobian of each row, of shape
  /// [b, target's rest, source's rest]. One backward walk per element of a target's row.
  Tensor batch_jacobian(const TensorList& target, const Source& source);

  /// What the tape has recorded between the inputs and the outputs, as a graph. Variables are in it by reference, other
  /// tensors as constants. Throws InvalidArgumentError for an output that the tape knows nothing of, and
  /// FailedPreconditionError for a tensor whose memory the tape has let go because no gradient needs it: it must be an
  /// input.
  Graph to_graph(const ToGraphOptions& options, Where where = Where::here()) const;

  class Pause;
  /// Lets the tape sleep until the returned object goes. Throws FailedPreconditionError when it is not recording.
  [[nodiscard]] Pause stop_recording(Where where = Where::here());
  /// Forgets everything that was recorded and watched, and records on.
  void reset(Where where = Where::here());

  /// The Variables that it watches, in the order in which it met them.
  std::vector<Variable> watched_variables() const;
  /// Number of recorded ops.
  std::size_t size() const;
  /// Bytes of tensor data that the records keep alive.
  std::size_t bytes() const;

 private:
  std::vector<Tensor> gradients(const TensorList& targets, const std::vector<Source>& sources,
                                const GradientOptions& options);

  friend struct RecordedTape;
  class Record;
  std::unique_ptr<Record> record_;
};

/// While it lives, its tape records nothing.
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

// Errors name the line where the form is made, `grad(f)`.

namespace detail {

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
    if constexpr (!are_sources<Xs...>()) {
      return std::pair<Tensor, Tensor>();
    } else if constexpr (!is_differentiable<F, Xs...>()) {
      return std::pair<Tensor, Tensor>();
    } else {
      GradientTape tape;
      (tape.watch(xs, where_), ...);
      Tensor value = f_(xs...);
      auto gradient = tape.gradient(TensorList(value, where_), xs...);
      return std::pair{std::move(value), std::move(gradient)};
    }
  }

 private:
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

/// `value_and_grad(f)(x)` is the pair of f(x) and its gradient with respect to x; with several arguments, Tensors,
/// Variables or containers of them, the second is what `GradientTape::gradient` gives. f returns one Tensor.
template <class F>
auto value_and_grad(F f, Where where = Where::here()) {
  return detail::ValueAndGrad<F>(std::move(f), where);
}

/// `grad(f)(x)` is the gradient of f at x; with several arguments, what `GradientTape::gradient` gives.
template <class F>
auto grad(F f, Where where = Where::here()) {
  return detail::Grad<F>(std::move(f), where);
}

/// A function of one tensor that gives one, made of ops.
using TensorFunction = std::function<Tensor(const Tensor&)>;

/// `hessian(f)(x)`: the second derivatives of a scalar function, of x's shape twice.
TAPESTRY_API TensorFunction hessian(TensorFunction f, Where where = Where::here());

/// f(x) and the pullback: the function from a gradient of f(x) to the gradient of x.
TAPESTRY_API std::pair<Tensor, TensorFunction> vjp(const TensorFunction& f, const Tensor& x,
                                                   Where where = Where::here());
/// f(x) and v^T J, the derivative's transpose applied to v, which has f(x)'s shape.
TAPESTRY_API std::pair<Tensor, Tensor> vjp(const TensorFunction& f, const Tensor& x, const Tensor& v,
                                           Where where = Where::here());
/// f(x) and J v, the derivative in the direction v, which has x's shape: two backward walks, by the identity that the
/// pullback's own pullback is the push-forward (J. Townsend, "A new trick for calculating Jacobian vector products",
/// 2017).
TAPESTRY_API std::pair<Tensor, Tensor> jvp(const TensorFunction& f, const Tensor& x, const Tensor& v,
                                           Where where = Where::here());
/// The same as a function of x and v.
/// @{
inline auto vjp(TensorFunction f, Where where = Where::here()) {
  return [f = std::move(f), where](const Tensor& x, const Tensor& v) { return vjp(f, x, v, where); };
}
inline auto jvp(TensorFunction f, Where where = Where::here()) {
  return [f = std::move(f), where](const Tensor& x, const Tensor& v) { return jvp(f, x, v, where); };
}
/// @}

/// Do not compile: f is no such function.
/// @{
template <class F>
requires(!std::convertible_to<const F&, TensorFunction>) TensorFunction hessian(const F&) {
  constexpr bool good = std::convertible_to<const F&, TensorFunction>;
  static_assert(good, "hessian takes a function of one tp::Tensor that returns one.");
  return {};
}
template <class F, class... Rest>
requires(!std::convertible_to<const F&, TensorFunction>) auto vjp(const F&, const Rest&...) {
  constexpr bool good = std::convertible_to<const F&, TensorFunction>;
  static_assert(good, "vjp takes a function of one tp::Tensor that returns one.");
  return [](const auto&...) { return std::pair<Tensor, Tensor>(); };
}
template <class F, class... Rest>
requires(!std::convertible_to<const F&, TensorFunction>) auto jvp(const F&, const Rest&...) {
  constexpr bool good = std::convertible_to<const F&, TensorFunction>;
  static_assert(good, "jvp takes a function of one tp::Tensor that returns one.");
  return [](const auto&...) { return std::pair<Tensor, Tensor>(); };
}
/// @}

/// What the function given to `custom_gradient` returns: its value, and the gradients of its arguments, one each, from
/// the gradient of the value.
struct CustomGradient {
  Tensor value;                                    ///< f(x, ...)
  std::function<Tensors(const Tensor&)> gradient;  ///< of one tensor of the value's shape
};

namespace detail {
TAPESTRY_API Tensor custom_gradient(const std::function<CustomGradient(const Tensors&)>& f, const Tensors& inputs,
                                    Where where);
TAPESTRY_API Tensor recompute(const std::function<Tensor(const Tensors&)>& f, const Tensors& inputs, Where where);

/// Calls f with the tensors as separate arguments.
template <class F, std::size_t... I>
decltype(auto) spread(const F& f, const Tensors& xs, std::index_sequence<I...>) {
  return f(xs[I]...);
}
}  // namespace detail

/// A function with a gradient of its own:
///
///     auto log1pexp = tp::custom_gradient([](const tp::Tensor& x) -> tp::CustomGradient {
///       auto e = tp::exp(x);
///       return {tp::log(1.0 + e), [=](const tp::Tensor& g) -> tp::Tensors { return {g * (1.0 - 1.0 / (1.0 + e))}; }};
///     });
///
/// The gradient is made of ops, so it can be differentiated again.
template <class F>
auto custom_gradient(F f, Where where = Where::here()) {
  return [f = std::move(f), where](const std::convertible_to<Tensor> auto&... xs) {
    return detail::custom_gradient(
        [f](const Tensors& inputs) -> CustomGradient {
          return detail::spread(f, inputs, std::make_index_sequence<sizeof...(xs)>());
        },
        Tensors{Tensor(xs)...}, where);
  };
}

/// f, of which a tape keeps nothing but the arguments and the Variables that f reads: the backward pass computes f
/// again, from the same values and random numbers. Trades time for memory. A tensor that f captures counts as a
/// constant: what is to have a gradient must be an argument or a Variable. (T. Chen et al., "Training deep nets with
/// sublinear memory cost", 2016.)
template <class F>
auto recompute(F f, Where where = Where::here()) {
  return [f = std::move(f), where](const std::convertible_to<Tensor> auto&... xs) {
    return detail::recompute(
        [f](const Tensors& inputs) -> Tensor {
          return detail::spread(f, inputs, std::make_index_sequence<sizeof...(xs)>());
        },
        Tensors{Tensor(xs)...}, where);
  };
}

/// @}

}  // namespace tapestry
