// Numbers of 8 bits for real ones: y = round(x / scale) + zero. The library has those without a sign.

#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {
namespace {

Tensor widened(const Tensor& x) { return is_half(x.dtype()) ? x.cast(float32) : x; }

/// A scale or a zero point in a shape that broadcasts to x: one number for all, for each place of an axis, or for each
/// block of places.
Tensor for_blocks(const OnnxCall& c, const Tensor& parameter) {
  const Shape& shape = parameter.shape();
  const std::int64_t block = c.whole("block_size", 0);
  if (shape.rank() == 0) return parameter;
  if (block == 0) {
    if (shape.rank() != 1) c.refuse(detail::join("a parameter has the shape ", shape));
    if (shape.sizes()[0] == 1 && c.rank() != 1) return squeeze(parameter, 0);
    const int axis = c.axis("axis", 1);
    const Ints behind = onnx_range(1, c.rank() - axis);
    return behind.empty() ? parameter : expand_dims(parameter, behind);
  }
  const int axis = c.axis("axis", 1);
  if (block < 1 || block > most_numbers || shape.rank() != c.rank() || shape.sizes()[axis] > most_numbers ||
      product(shape.sizes()[axis], block) < c.size(axis) || product(shape.sizes()[axis] - 1, block) >= c.size(axis))
    c.refuse(detail::join("its blocks of ", block, " by ", shape, " do not fit ", c.shape()));
  return onnx_cut(repeat(parameter, block, axis), {{axis, 0, c.size(axis)}});
}

bool quantization_lacks(const OnnxCall& c) {
  return c.whole("block_size", 0) != 0 ? onnx_lacks_any_size(c) : onnx_lacks_ranks(c) || !c.shape(1).is_known();
}

DType type_of_quantized(const OnnxCall& c) {
  if (c.has(2)) return c.dtype(2);
  return c.whole("output_dtype", 0) != 0 ? c.type("output_dtype") : uint8;
}
std::vector<DType> types_of_quantized(const OnnxCall& c) { return {type_of_quantized(c)}; }

/// To the nearest number, of two the even one.
Tensor quantized(const Tensor& x, const Tensor& scale, const Tensor& zero) {
  return clip(round(x / scale) + zero.cast(scale.dtype()), 0, 255).cast(uint8);
}

Tensors read_quantize(const OnnxCall& c) {
  if (const DType dtype = type_of_quantized(c); dtype != uint8) c.lack(detail::join("its type ", to_string(dtype)));
  const Tensor scale = widened(for_blocks(c, c[1]));
  const Tensor zero = c.has(2) ? for_blocks(c, c[2]) : detail::make_scalar(0, uint8);
  return {quantized(c[0].cast(scale.dtype()), scale, zero)};
}

DType type_of_dequantized(const OnnxCall& c) {
  return c.whole("output_dtype", 0) != 0 ? c.type("output_dtype") : c.dtype(1);
}
std::vector<DType> types_of_dequantized(const OnnxCall& c) { return {type_of_dequantized(c)}; }

Tensors read_dequantize(const OnnxCall& c) {
  if (c.dtype() != uint8 && c.dtype() != int32) c.lack(detail::join("its type ", to_string(c.dtype())));
  Tensor x = c[0].cast(int32);
  if (c.has(2)) x = x - for_blocks(c, c[2]).cast(int32);
  const Tensor scale = widened(for_blocks(c, c[1]));
  return {(x.cast(scale.dtype()) * scale).cast(type_of_dequantized(c))};
}

/// The scale and the zero point are those by which the range of x, and 0 with it, fills the 256 numbers.
Tensors read_dynamic_quantize(const OnnxCall& c) {
  const Tensor& x = c[0];
  const Tensor low = minimum(reduce_min(x), 0), range = maximum(reduce_max(x), 0) - low;
  const Tensor scale = where(greater(range, 0), range / 255, 1);
  const Tensor zero = round(clip(-1.0 * low / scale, 0, 255)).cast(uint8);
  return {quantized(x, scale, zero), scale, zero};
}
std::vector<DType> types_of_dynamic(const OnnxCall& c) { return {uint8, c.dtype(), uint8}; }

}  // namespace

OnnxOps onnx_quantization() {
  constexpr auto same_rank = onnx_rank_of_input;
  return {
      {"DequantizeLinear", 2, 3, read_dequantize, {}, quantization_lacks, types_of_dequantized, same_rank},
      {"DynamicQuantizeLinear", 1, 1, read_dynamic_quantize, {}, nullptr, types_of_dynamic, same_rank},
      {"QuantizeLinear", 2, 3, read_quantize, {}, quantization_lacks, types_of_quantized, same_rank},
  };
}

}  // namespace tapestry::io
