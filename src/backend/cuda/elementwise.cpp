#include "backend/cuda/kernels/elementwise.hpp"

#include <algorithm>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/pieces.hpp"

namespace tapestry::gpu {
namespace {

void start(Context& gpu, Launch kernel, std::string_view family, DType dtype, double number, const View& y,
           std::initializer_list<View> inputs) {
  if (!kernel)
    throw InvalidArgumentError(detail::join("This function is not defined for elements of type ", to_string(dtype)));
  for_each_piece(y, {inputs.begin(), inputs.size()}, [&](const Elements& elements) {
    kernel(gpu.stream(), elements, number);
    gpu.started(family);
  });
}

/// Throws if an integer function has no result for an element of b: a divisor of 0, or a negative exponent. The
/// processor waits for the device to find it.
void check_partial(Context& gpu, Binary f, const Tensor& b) {
  const bool power = f == Binary::power;
  if (!is_integer(b.dtype()) || (!power && f != Binary::floor_mod && f != Binary::floor_divide)) return;
  if (power && b.dtype() == uint8) return;
  Refusal refusal(gpu);
  const View x(b);
  for_each_piece(x, {&x, 1}, [&](const Elements& elements) {
    find_refused(gpu.stream(), type_of(b), elements, power, refusal.word());
    gpu.started("the check of a divisor or an exponent");
  });
  if (refusal.position() < 0) return;
  throw InvalidArgumentError(power ? "Integers to negative integer powers are not allowed"
                                   : "Integer division by zero");
}

void start_copy(Context& gpu, std::int64_t element_bytes, const Elements& elements) {
  if (const std::optional<Transposition> transposition = transposition_of(elements)) {
    transpose(gpu.stream(), element_bytes, *transposition);
  } else {
    move_kernel(element_bytes)(gpu.stream(), elements, 0);
  }
  gpu.started("copy");
}

/// The largest copy that shares a kernel with others: a larger one fills the device by itself, and uses vectors.
constexpr std::int64_t most_shared = 1 << 18;

/// `elements`, at most `most_shared`, as one of several copies.
Copies::Copy shared_copy(const Elements& elements) {
  Copies::Copy copy{elements.x[0], elements.y, static_cast<std::uint32_t>(elements.n), {}};
  if (elements.flat) {
    copy.layout.axes = 1;
    copy.layout.size[0] = Divider(copy.n);
    copy.layout.stride[0][0] = 1;
    copy.layout.stride[1][0] = elements.step[0];
    return copy;
  }
  copy.layout.axes = elements.layout.axes;
  std::ranges::copy(elements.layout.size, copy.layout.size);
  for (int k = 0; k < 2; ++k) std::ranges::copy(elements.layout.stride[k], copy.layout.stride[k]);
  return copy;
}

}  // namespace

// A step of -0 changes no number; a step of +0 would turn -0 into +0.
void CudaBackend::fill(double value, const Tensor& y) { iota(value, -0.0, y); }

void CudaBackend::iota(double start, double step, const Tensor& y) {
  if (y.size() == 0) return;
  Context& gpu = context();
  gpu::iota(gpu.stream(), type_of(y), start, step, y.impl().data, y.size());
  gpu.started("fill or iota");
}

void CudaBackend::copy(const Tensor& x, const Tensor& y) {
  Context& gpu = context();
  const View from(x), to(y);
  if (x.dtype() != y.dtype())
    return start(gpu, convert_kernel(type_of(x), type_of(y)), "copy", x.dtype(), 0, to, {from});
  for_each_piece(to, {&from, 1}, [&](const Elements& elements) { start_copy(gpu, to.element_bytes, elements); });
}

void CudaBackend::copy_each(const Tensors& from, const Tensors& to) {
  Context& gpu = context();
  Copies copies{};  // a recorded graph would keep what lies behind the last one
  std::int64_t element_bytes = 0;
  const auto start_copies = [&] {
    if (copies.count == 0) return;
    gpu::copy_each(gpu.stream(), element_bytes, copies);
    gpu.started("several copies");
    copies = {};
  };
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (from[i].dtype() != to[i].dtype()) {
      copy(from[i], to[i]);
      continue;
    }
    const View x(from[i]), y(to[i]);
    for_each_piece(y, {&x, 1}, [&](const Elements& elements) {
      if (elements.n > most_shared || transposition_of(elements)) return start_copy(gpu, y.element_bytes, elements);
      if (copies.count == Copies::capacity || y.element_bytes != element_bytes) start_copies();
      element_bytes = y.element_bytes;
      copies.copy[copies.count++] = shared_copy(elements);
      copies.largest = std::max(copies.largest, static_cast<std::uint32_t>(elements.n));
    });
  }
  start_copies();
}

void CudaBackend::unary(Unary f, const Tensor& x, double alpha, const Tensor& y) {
  if (is_half(x.dtype())) return Backend::unary(f, x, alpha, y);
  start(context(), unary_kernel(f, type_of(x)), "an elementwise kernel", x.dtype(), alpha, View(y), {View(x)});
}

void CudaBackend::binary(Binary f, const Tensor& a, const Tensor& b, double alpha, const Tensor& y) {
  if (is_half(a.dtype())) return Backend::binary(f, a, b, alpha, y);
  Context& gpu = context();
  if (y.size() > 0) check_partial(gpu, f, b);
  start(gpu, binary_kernel(f, type_of(a)), "an elementwise kernel", a.dtype(), alpha, View(y), {View(a), View(b)});
}

void CudaBackend::ternary(Ternary f, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::ternary(f, a, b, c, y);
  start(context(), ternary_kernel(f, type_of(y)), "an elementwise kernel", y.dtype(), 0, View(y),
        {View(a), View(b), View(c)});
}

}  // namespace tapestry::gpu
