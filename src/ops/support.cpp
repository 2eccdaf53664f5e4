#include "ops/support.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <numeric>
#include <sstream>

#include "tapestry/autocast.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/reduce.hpp"

namespace tapestry {
namespace {

int upper(char c) { return std::toupper(static_cast<unsigned char>(c)); }

/// The value of an argument, as it is written here, that somebody calls `word`; empty if there is none.
std::string value_of(detail::Worded argument, std::string_view word) {
  using enum detail::Worded;
  if (argument >= dtype) {
    for (const DType each : {boolean, uint8, int32, int64, float16, bfloat16, float32, float64})
      if (word == to_string(each) || word == tensorflow_name(each))
        return each == boolean ? "boolean" : to_string(each);
    return {};
  }
  constexpr std::string_view words[] = {" constant reflect symmetric ",
                                        " ascending descending ",
                                        " SAME VALID ",
                                        " euclidean fro inf ",
                                        " tanh ",
                                        " NCHW "};
  const std::string_view list = words[static_cast<std::size_t>(argument)];
  const std::string wanted = detail::join(" ", word, " ");
  const auto found = std::search(list.begin(), list.end(), wanted.begin(), wanted.end(),
                                 [](char a, char b) { return upper(a) == upper(b); });
  return found == list.end() ? "" : std::string(found + 1, found + static_cast<std::ptrdiff_t>(wanted.size()) - 1);
}

}  // namespace

std::string_view detail::plain_name(std::string_view name, Worded argument, Where where) {
  const std::string value = name.empty() ? "" : value_of(argument, name);
  if (value.empty()) return name;
  constexpr std::string_view forms[] = {"{.mode = tp::PadMode::%}",
                                        "tp::Direction::%",
                                        "{.padding = \"%\"}",
                                        "{.ord = \"%\"}",
                                        "true, for the form with tanh",
                                        "tp::transpose(x, {0, 2, 3, 1}), as images are NHWC",
                                        "{.dtype = tp::%}",
                                        "tp::%",
                                        "tp::cast(..., tp::%)"};
  std::string form(forms[static_cast<std::size_t>(argument)]);
  if (const std::size_t gap = form.find('%'); gap != std::string::npos) form.replace(gap, 1, value);
  throw InvalidArgumentError(join("\"", name, "\" would be the name of the operation: say ", form), where);
}

void refuse_type(DType dtype, TypeSet allowed, std::string_view attr) {
  std::string list;
  for (const DType each : {boolean, uint8, int32, int64, float16, bfloat16, float32, float64})
    if ((allowed & types(each)) != 0) list += (list.empty() ? "" : ", ") + std::string(tensorflow_name(each));
  throw LackRefusal(detail::join("Value for attr '", attr, "' of ", tensorflow_name(dtype),
                                 " is not in the list of allowed values: ", list));
}

void require_fits(double number, DType dtype) {
  if (!is_integer(dtype)) return;
  const double end = std::ldexp(1, dtype == uint8 ? 8 : dtype == int32 ? 31 : 63);
  if (number == std::trunc(number) && number < end && number >= (dtype == uint8 ? 0 : -end)) return;
  std::ostringstream text;
  text << number << " does not fit the element type " << dtype;
  throw InvalidArgumentError(text.str());
}

void require_few_results(std::int64_t count) {
  constexpr std::int64_t most = 1 << 20;
  if (count > most) throw InvalidArgumentError(detail::join("There can be at most ", most, " results, not ", count));
}

void require_rank_at_least(const Tensor& input, int rank) {
  if (rank_of(input) < rank)
    throw InvalidArgumentError(
        detail::join("Shape must be at least rank ", rank, " but is rank ", rank_of(input), ": ", input.shape()));
}

Shape broadcast_inputs(const Call& call, std::size_t first) {
  Shape shape = call.input(first).shape();
  for (std::size_t i = first + 1; i < call.inputs().size(); ++i)
    if (call.input(i).shape() != shape) shape = broadcast_shapes(shape, call.input(i).shape());
  return shape;
}

std::int64_t add_sizes(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    throw InvalidArgumentError(detail::join("A dimension of size ", a, " + ", b, " is too large"));
  return sum;
}

std::int64_t multiply_sizes(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw InvalidArgumentError(detail::join("A dimension of size ", a, " * ", b, " is too large"));
  return product;
}

Attrs with_redo(const Attrs& attrs, std::function<Tensors(const Tensors&)> function) {
  std::vector<Attr> list(attrs.begin(), attrs.end());
  list.emplace_back("redo", std::make_shared<const std::function<Tensors(const Tensors&)>>(std::move(function)));
  return Attrs(list);
}

void require_broadcast(const Shape& from, const Shape& to) {
  const int offset = to.rank() - from.rank();
  bool fits = offset >= 0;
  for (int i = 0; fits && i < from.rank(); ++i)
    fits = from.sizes()[i] == 1 || sizes_agree(from.sizes()[i], to.sizes()[offset + i]);
  if (!fits) throw InvalidArgumentError(detail::join("Incompatible shapes: ", from, " vs. ", to));
}

void require_same_shape(const Shape& actual, const Shape& expected) {
  if (!std::ranges::equal(actual.sizes(), expected.sizes(), sizes_agree))
    throw InvalidArgumentError(detail::join("Expected a tensor of shape ", expected, ", but got ", actual));
}

std::int64_t size_between(const Shape& shape, int first, int last) {
  return std::accumulate(shape.sizes().begin() + first, shape.sizes().begin() + last, std::int64_t{1},
                         std::multiplies<>());
}

int axis_of(const Call& call) { return normalize_axis(call.attr<std::int64_t>("axis"), call.input(0).rank()); }

std::uint32_t axes_mask(const Call& call, int rank) {
  const Ints* axes = call.attrs().find<Ints>("axis");
  if (!axes) return (1U << rank) - 1;
  std::uint32_t mask = 0;
  for (const std::int64_t each : *axes) {
    const int axis = normalize_axis(each, rank);
    if (has_axis(mask, axis))
      throw InvalidArgumentError(
          detail::join("Invalid reduction arguments: Axes contains duplicate dimension: ", axis));
    mask |= 1U << axis;
  }
  return mask;
}

Ints row_axes(const Tensor& x) {
  Ints axes;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

Tensor sum_over_rows(const Tensor& x, const Tensor& like) {
  return x.shape().has_rank() ? reduce_sum(x, row_axes(x)) : sum_like(x, like);
}

Tensor widened(const Tensor& x) { return is_half(x.dtype()) ? x.cast(float32) : as_floats(x); }

Tensor narrowed(const Tensor& result, const Tensor& given, std::string_view name) {
  const bool narrow = is_half(given.dtype()) && Autocast::current() == float32;
  return named(narrow ? result.cast(given.dtype()) : result, name);
}

Tensor as_floats(const Tensor& x) {
  return x.cast(is_floating(x.dtype()) || x.dtype() == DType::unknown ? x.dtype() : float32);
}

Tensor named(const Tensor& result, std::string_view name) { return name.empty() ? result : identity(result, name); }

Tensor matrix_transpose(const Tensor& x) {
  Ints perm(rank_of(x));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return transpose(x, perm);
}

}  // namespace tapestry
