#pragma once

// What the op families share: forward functions, checks for `infer`, and helpers for gradients.

#include <concepts>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "backend/backend.hpp"
#include "backend/program.hpp"
#include "core/lack_refusal.hpp"
#include "core/make_tensor.hpp"
#include "dispatch/define.hpp"
#include "dispatch/elementwise.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/ops/arguments.hpp"

/// Defines the function that families.cpp calls, so that the linker takes a file of op definitions out of the static
/// library.
#define TAPESTRY_OP_FAMILY(family) \
  namespace tapestry::detail {     \
  void link_##family() {}          \
  }

namespace tapestry {

// ---- Element types ------------------------------------------------------------------------------------------------

/// A set of element types: bit i stands for the DType with the number i.
using TypeSet = std::uint32_t;

constexpr TypeSet types(std::same_as<DType> auto... each) { return ((1U << static_cast<unsigned>(each)) | ... | 0U); }
inline constexpr TypeSet bool_type = types(boolean);
inline constexpr TypeSet index_types = types(int32, int64);
inline constexpr TypeSet whole_types = types(uint8, int32, int64);
inline constexpr TypeSet float_types = types(float16, bfloat16, float32, float64);
inline constexpr TypeSet number_types = whole_types | float_types;
inline constexpr TypeSet all_types = number_types | bool_type;

/// Throws LackRefusal.
[[noreturn]] void refuse_type(DType dtype, TypeSet allowed, std::string_view attr);
/// Throws InvalidArgumentError, "Value for attr 'T' of bool is not in the list of allowed values: ...", unless the
/// element type is in the set. A type that is not known yet passes.
inline void require_type(DType dtype, TypeSet allowed, std::string_view attr = "T") {
  if (dtype != DType::unknown && (allowed & types(dtype)) == 0) [[unlikely]]
    refuse_type(dtype, allowed, attr);
}
inline void require_type(const Tensor& input, TypeSet allowed, std::string_view attr = "T") {
  require_type(input.dtype(), allowed, attr);
}
/// The highest finite number of an element type, for a half as a float.
template <class T>
constexpr auto highest_number() {
  if constexpr (std::is_same_v<T, float16_t>)
    return 65504.0F;
  else if constexpr (std::is_same_v<T, bfloat16_t>)
    return 0x1.fep127F;
  else
    return std::numeric_limits<T>::max();
}
/// Throws InvalidArgumentError for a number that elements of a whole type cannot be.
void require_fits(double number, DType dtype);
/// Whether the argument is a tensor of bools.
inline bool is_mask(const In& x) { return bool(x.tensor()) && x->dtype() == boolean; }
/// Throws InvalidArgumentError unless the input has at least that many dimensions.
void require_rank_at_least(const Tensor& input, int rank);

/// Throws InvalidArgumentError when one call would give more tensors than memory can hold: each takes some, even an
/// empty one.
void require_few_results(std::int64_t count);

/// The batch dimensions of a shape of matrices: all but the last two.
inline Shape batch_of(const Shape& shape) { return Shape(std::span(shape.sizes().begin(), shape.sizes().end() - 2)); }

/// The number of dimensions. When it is unknown, the error has no line of its own: `blaming` adds the user's.
inline int rank_of(const Tensor& x) { return x.rank({}); }

// ---- infer --------------------------------------------------------------------------------------------------------

/// One output like the first input, which must be of an allowed type.
template <TypeSet allowed>
Specs same_shape_of(const Call& call) {
  require_type(call.input(0), allowed);
  return {call.input(0).spec()};
}

/// The shape that the inputs from the `first` on broadcast to.
Shape broadcast_inputs(const Call& call, std::size_t first = 0);

/// One output of the shape that all inputs broadcast to; of the dtype `result`, or of the first input's.
template <TypeSet allowed, DType result = DType::unknown>
Specs broadcast_of(const Call& call) {
  for (const Tensor& input : call.inputs()) require_type(input, allowed);
  return {{result == DType::unknown ? call.input(0).dtype() : result, broadcast_inputs(call)}};
}

/// One output of the first input's dtype and the second's shape: that of the "like" ops and of gradients.
inline Specs like_second(const Call& call) { return {{call.input(0).dtype(), call.input(1).shape()}}; }

/// Whether two sizes can be the same: one of them may be unknown.
constexpr bool sizes_agree(std::int64_t a, std::int64_t b) { return a == b || a < 0 || b < 0; }

/// Throws InvalidArgumentError unless the shape broadcasts to the other one.
void require_broadcast(const Shape& from, const Shape& to);
/// Throws InvalidArgumentError unless the shapes are the same, as far as they are known.
void require_same_shape(const Shape& actual, const Shape& expected);

/// Checks that the number of elements of a shape, whose sizes were set one by one, fits 64 bits.
inline Shape checked(const Shape& shape) { return Shape(shape.sizes()); }

/// Sums and products of sizes. Throw InvalidArgumentError when the result does not fit 64 bits.
std::int64_t add_sizes(std::int64_t a, std::int64_t b);
std::int64_t multiply_sizes(std::int64_t a, std::int64_t b);

/// The shape of the result of `reshape`. A size of -1 is inferred from `total`, the number of the input's elements,
/// unless that is unknown, -1, as well. Throws InvalidArgumentError when they do not fit.
Shape reshaped(std::int64_t total, Shape shape);

// ---- forward ------------------------------------------------------------------------------------------------------

/// The `forward` of an op that is one elementwise function of its inputs, in their order.
template <auto f>
struct ElementwiseForward {
  void operator()(Backend& backend, const Call& call) const {
    if constexpr (std::is_same_v<decltype(f), Unary>) {
      backend.unary(f, call.input(0), 0, call.output());
    } else if constexpr (std::is_same_v<decltype(f), Binary>) {
      backend.binary(f, call.input(0), call.input(1), 0, call.output());
    } else {
      backend.ternary(f, call.input(0), call.input(1), call.input(2), call.output());
    }
  }
  static Elementwise elementwise(const Call&) { return {.function = f}; }
};
template <Unary f>
inline constexpr ElementwiseForward<f> unary{};
template <Binary f>
inline constexpr ElementwiseForward<f> binary{};
template <Ternary f>
inline constexpr ElementwiseForward<f> ternary{};

/// The same for a function that `choose(call)` returns: `elementwise([](const Call& call) -> Elementwise {...})`.
template <class Choose>
struct ChosenForward {
  void operator()(Backend& backend, const Call& call) const { run(elementwise(call), backend, call); }
  static Elementwise elementwise(const Call& call) { return Choose{}(call); }
};
template <class Choose>
constexpr ChosenForward<Choose> elementwise(Choose) {
  return {};
}

/// The product of the sizes first ... last - 1.
std::int64_t size_between(const Shape& shape, int first, int last);

// ---- Attributes ---------------------------------------------------------------------------------------------------

/// The value of an attribute, or a default when the call has none of that name.
template <class T>
T attr_or(const Call& call, std::string_view name, T otherwise) {
  const T* value = call.attrs().find<T>(name);
  return value ? *value : otherwise;
}

/// The attribute "axis" (one number) as 0 ... rank-1 of the first input.
int axis_of(const Call& call);

/// The axes of the attribute "axis" (a list; absent: all) as bits, checked. Throws InvalidArgumentError for one that is
/// out of range or named twice.
std::uint32_t axes_mask(const Call& call, int rank);
constexpr bool has_axis(std::uint32_t mask, int axis) { return (mask >> axis & 1) != 0; }

/// All axes but the last.
Ints row_axes(const Tensor& x);
/// The sum over these axes, where the rank is not known in the shape of `like`, which is [c].
Tensor sum_over_rows(const Tensor& x, const Tensor& like);

// ---- gradient -----------------------------------------------------------------------------------------------------

/// The gradients that are asked for, by one function each: `return wanted(call, [&] { return g * b; }, ...)`.
template <std::invocable... Each>
Tensors wanted(const Call& call, Each... each) {
  Tensors gradients;
  (gradients.push_back(call.wants_gradient(gradients.size()) ? Tensor(each()) : Tensor()), ...);
  return gradients;
}

/// A tensor filled with a value, in a shape with unknown sizes, which are those of other tensors of a graph. Ops that
/// take the shape of their result from a tensor take it from this one. One unknown size may have no source: it is
/// inferred from the number of elements of `rest`. Without `rest` it throws InvalidArgumentError.
Tensor fill_like(const Shape& shape, double value, const TensorOptions& options, const Tensor& rest,
                 std::string_view name, Where where);

// ---- Composed functions: those that call ops instead of being one -------------------------------------------------

/// The attributes of a node that replaces a composed function while ranks are unknown on which it depends. The function
/// is called again when the ranks are known.
Attrs with_redo(const Attrs& attrs, std::function<Tensors(const Tensors&)> function);

/// The tensor in float32, unless it has a float type already.
Tensor as_floats(const Tensor& x);
/// Halves and whole numbers in float32, for a function of several ops whose squares and sums leave the range of these
/// types, or their digits.
Tensor widened(const Tensor& x);
/// A result that was computed from `widened(given)` in the type of `given`, if that is a half. An Autocast keeps
/// float32, which the result may need.
Tensor narrowed(const Tensor& result, const Tensor& given, std::string_view name = {});
/// The result under the name that the caller asked for, if any.
Tensor named(const Tensor& result, std::string_view name);
/// x with its last two axes exchanged.
Tensor matrix_transpose(const Tensor& x);

}  // namespace tapestry
