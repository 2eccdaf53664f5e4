// Attention and what it takes.

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {
namespace {

/// Heads that lie one after the other in the last axis become an axis of their own: [batch, length, heads, size].
Tensor heads_of(const OnnxCall& c, std::size_t place, std::int64_t heads) {
  const std::int64_t width = c.size(2, place);
  if (heads < 1 || width < 0 || width % heads != 0)
    c.refuse(detail::join("it has ", heads, " heads for ", c.shape(place)));
  return reshape(c[place], {c.size(0, place), c.size(1, place), heads, width / heads});
}
/// Whether that lacks sizes: one may be unknown.
bool heads_lack(const OnnxCall& c, std::size_t place) {
  return c.rank(place) == 3 &&
         (c.size(2, place) < 0 || (c.size(0, place) < 0 && c.size(1, place) < 0) ||
          (c.size(0, place) * c.size(1, place) * c.size(2, place) == 0 && !c.shape(place).is_known()));
}

constexpr std::array<std::int64_t, 4> heads_first{0, 2, 1, 3};  // and back

// ---- Attention -------------------------------------------------------------------------------------------------------

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// [batch, heads, length, size]
Tensor attention_input(const OnnxCall& c, std::size_t place, std::string_view heads) {
  if (c.rank(place) == 4) return c[place];
  if (c.rank(place) != 3) c.refuse(detail::join("its input ", place, " has the shape ", c.shape(place)));
  return transpose(heads_of(c, place, c.whole(heads)), heads_first);
}

/// What is added to the products of queries and keys: -inf where a query does not see a key. Empty if there is nothing.
Tensor attention_bias(const OnnxCall& c, const Tensor& scores) {
  Tensor bias = c.find(3);
  if (bool(bias) && bias.dtype() == boolean) bias = where(bias, 0.0, minus_infinity).cast(scores.dtype());
  if (!c.flag("is_causal")) return bias;
  // The query i sees the keys up to i, and all of the past.
  const Tensor each = ones_like(onnx_cut(scores, {{0, 0, 1}, {1, 0, 1}})).cast(int64);
  Tensor distance = cumsum(each, 2) - cumsum(each, 3);
  if (c.has(4)) distance = distance + tapestry::size(c[4], 2);
  const Tensor causal = where(less(distance, 0), minus_infinity, 0.0).cast(scores.dtype());
  return bool(bias) ? bias + causal : causal;
}

/// A query that sees no key gets zeros.
Tensor attention_weights(const OnnxCall& c, const Tensor& scores, Tensor bias) {
  const DType precision = c.whole("softmax_precision", 0) != 0 ? c.type("softmax_precision") : scores.dtype();
  if (!is_floating(precision)) c.refuse(detail::join("its softmax_precision is ", to_string(precision)));
  if (!bias) return softmax(scores.cast(precision), -1).cast(scores.dtype());
  const Tensor is_blind = less_equal(reduce_max(bias, -1, {.keep_dims = true}), minus_infinity);
  bias = where(is_blind, zeros_like(bias), bias);
  const Tensor seen = softmax((scores + bias).cast(precision), -1).cast(scores.dtype());
  return where(is_blind, zeros_like(seen), seen);
}

Tensors read_attention(const OnnxCall& c) {
  if (c.version() > 23) c.lack(detail::join("its version ", c.version()));
  if (c.rank(1) != c.rank() || c.rank(2) != c.rank()) c.refuse("its inputs have different ranks");
  if (c.has(4) != c.has(5)) c.refuse("it has the past of keys or of values only");
  const Tensor query = attention_input(c, 0, "q_num_heads");
  Tensor key = attention_input(c, 1, "kv_num_heads"), value = attention_input(c, 2, "kv_num_heads");
  if (c.has(4)) {
    key = concat({c[4], key}, 2);
    value = concat({c[5], value}, 2);
  }
  const auto size = [](const Tensor& x, int axis) { return x.shape().sizes()[axis]; };
  const std::int64_t heads = size(query, 1), own = size(key, 1), width = size(query, 3);
  if (heads < 1 || own < 1 || width < 1 || heads % own != 0 || size(value, 1) != own)
    c.refuse(detail::join("its inputs are ", query.shape(), ", ", key.shape(), " and ", value.shape()));
  const auto for_queries = [&](const Tensor& x) { return own == heads ? x : repeat(x, heads / own, 1); };
  // Both factors get the root, so that products of halves do not overflow.
  const double root = std::sqrt(c.real("scale", 1 / std::sqrt(static_cast<double>(width))));
  const Tensor product = matmul(query * root, for_queries(key) * root, {.transpose_b = true});
  const double cap = c.real("softcap", 0);
  const Tensor scores = cap > 0 ? cap * tanh(product / cap) : product, bias = attention_bias(c, scores);
  const Tensor weights = attention_weights(c, scores, bias);
  Tensor y = matmul(weights, for_queries(value));
  if (c.rank() == 3) {
    const std::int64_t batch = size(y, 0), length = size(y, 2);
    y = reshape(transpose(y, heads_first), {batch, length, tapestry::io::product(heads, size(y, 3))});
  }
  const std::int64_t shown = c.whole("qk_matmul_output_mode", 0);
  if (shown < 0 || shown > 3) c.refuse(detail::join("its qk_matmul_output_mode is ", shown));
  return {y, key, value,
          shown == 0   ? product
          : shown == 1 ? scores
          : shown == 3 ? weights
          : bool(bias) ? scores + bias
                       : scores};
}

std::vector<DType> types_of_attention(const OnnxCall& c) { return {c.dtype(), c.dtype(1), c.dtype(2), c.dtype()}; }

bool attention_lacks(const OnnxCall& c) {
  if (onnx_lacks_ranks(c)) return true;
  for (std::size_t i = 0; i < 3; ++i)
    if (c.rank(i) == 4 ? c.size(1, i) < 0 || c.size(3, i) < 0 : heads_lack(c, i)) return true;
  return false;
}

// ---- Positions as rotations ------------------------------------------------------------------------------------------

/// Turns pairs of numbers by the angles of their position: those of the two halves, or neighbours.
Tensors read_rotary_embedding(const OnnxCall& c) {
  if (c.rank() != 3 && c.rank() != 4) c.refuse(detail::join("its input has the shape ", c.shape()));
  const bool flat = c.rank() == 3;
  const Tensor x = flat ? heads_of(c, 0, c.whole("num_heads", 0)) : transpose(c[0], heads_first);
  const std::int64_t width = x.shape().sizes()[3], told = c.whole("rotary_embedding_dim", 0),
                     turned = told == 0 ? width : told;
  if (turned < 0 || turned > width || turned % 2 != 0)
    c.refuse(detail::join("it turns ", turned, " of ", width, " numbers"));
  const auto angles = [&](std::size_t place) {
    const Tensor list = c.has(3) ? gather(c[place], c[3]) : c[place];
    if (list.shape().rank() != 3 || (list.shape().sizes()[2] >= 0 && list.shape().sizes()[2] != turned / 2))
      c.refuse(detail::join("its input ", place, " has the shape ", c.shape(place)));
    return expand_dims(list, 2);
  };
  const Tensor cosine = angles(1), sine = angles(2);
  const bool neighbours = c.flag("interleaved");
  const auto part = [&](std::int64_t first) {
    return neighbours ? onnx_cut(x, {{3, first, turned, 2}})
                      : onnx_cut(x, {{3, first * (turned / 2), (first + 1) * (turned / 2)}});
  };
  const Tensor a = part(0), b = part(1), real = cosine * a - sine * b, imaginary = sine * a + cosine * b;
  Tensor y = neighbours ? reshape_like(stack({real, imaginary}, -1), onnx_cut(x, {{3, 0, turned}}))
                        : concat({real, imaginary}, 3);
  if (turned < width) y = concat({y, onnx_cut(x, {{3, turned, width}})}, 3);
  return {flat ? reshape_like(y, c[0]) : transpose(y, heads_first)};
}

bool rotary_lacks(const OnnxCall& c) { return onnx_lacks_ranks(c) || heads_lack(c, 0) || c.size(c.rank() - 1) < 0; }

}  // namespace

OnnxOps onnx_attention() {
  constexpr auto same_rank = onnx_rank_of_input;
  return {
      {"Attention", 3, 6, read_attention, {}, attention_lacks, types_of_attention, same_rank},
      {"RotaryEmbedding", 3, 4, read_rotary_embedding, {}, rotary_lacks, nullptr, same_rank},
  };
}

}  // namespace tapestry::io
