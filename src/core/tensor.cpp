#include "tapestry/tensor.hpp"

#include <cstring>
#include <new>

#include "core/convert.hpp"
#include "core/deferred.hpp"
#include "core/make_tensor.hpp"
#include "core/pool.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry {
namespace detail {
namespace {

/// A thread takes ids in blocks, so that the common case is an addition without an atomic. Tensors that are made one
/// after the other have neighbouring ids; the table of a tape relies on that for locality.
std::int64_t next_id() {
  constexpr std::int64_t block = 1 << 16;
  static constinit std::atomic<std::int64_t> blocks{0};
  static constinit thread_local std::int64_t next __attribute__((tls_model("initial-exec"))) = 0;
  if (next % block == 0) next = (blocks.fetch_add(1, std::memory_order_relaxed)) * block + 1;
  return next++;
}

Intrusive<TensorImpl> make_impl(DType dtype, const Shape& shape, Device device) {
  Intrusive<TensorImpl> impl(::new (pool_allocate(sizeof(TensorImpl))) TensorImpl(shape));
  impl->dtype = dtype;
  impl->device = device;
  impl->id = next_id();
  return impl;
}

bool is_row_major(const Shape& shape, std::span<const std::int64_t> strides) {
  std::uint64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape.sizes()[i] == 0) return true;
    if (shape.sizes()[i] != 1 && static_cast<std::uint64_t>(strides[i]) != expected) return false;
    expected *= shape.sizes()[i];
  }
  return true;
}

[[noreturn]] void refuse_spec(DType dtype, const Shape& shape) {
  if (dtype == DType::unknown) throw InvalidArgumentError("A tensor cannot be made without a known dtype");
  if (size_of(dtype) == 0) throw InvalidArgumentError(join("A tensor cannot be made of the dtype ", dtype));
  if (!shape.is_known())
    throw InvalidArgumentError(join("A tensor cannot be made with the partly unknown shape ", shape));
  throw InvalidArgumentError(join("Shape ", shape, " is too large: the product of its sizes exceeds 2^63 - 1"));
}

/// The number of elements of a new tensor. Throws InvalidArgumentError unless the dtype has elements, all sizes are
/// known and the number fits 63 bits.
std::int64_t checked_size(DType dtype, const Shape& shape) {
  const std::int64_t count = shape.num_elements();
  if (count < 0 || size_of(dtype) == 0) refuse_spec(dtype, shape);
  return count;
}

}  // namespace

void throw_empty_tensor() {
  throw FailedPreconditionError("An empty Tensor was used: it has no value, dtype or shape");
}

Tensor make_tensor(DType dtype, const Shape& shape, Device device) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(checked_size(dtype, shape), static_cast<std::int64_t>(size_of(dtype)), &bytes))
    throw ResourceExhaustedError(
        join("OOM when allocating tensor with shape ", shape, " and type ", tensorflow_name(dtype)));
  auto impl = make_impl(dtype, shape, device);
  impl->storage = Storage::make(device, bytes);
  impl->data = impl->storage->data;
  if (shape.rank() > 0) impl->strides = row_major_strides(shape);
  return Tensor(std::move(impl));
}

Tensor make_view(const Tensor& base, const Shape& shape, std::span<const std::int64_t> strides, std::int64_t offset) {
  checked_size(base.dtype(), shape);
  auto impl = make_impl(base.dtype(), shape, base.device());
  impl->storage = base.impl().storage;
  impl->data = static_cast<std::byte*>(base.impl().data) + offset * static_cast<std::int64_t>(size_of(base.dtype()));
  impl->contiguous = is_row_major(shape, strides);
  std::copy_n(strides.begin(), shape.rank(), impl->strides.begin());
  return Tensor(std::move(impl));
}

Tensor make_bitcast(const Tensor& base, DType dtype, const Shape& shape) {
  auto impl = make_impl(dtype, shape, base.device());
  impl->storage = base.impl().storage;
  impl->data = base.impl().data;
  impl->contiguous = true;
  impl->strides = row_major_strides(shape);
  return Tensor(std::move(impl));
}

Tensor make_symbolic(DType dtype, const Shape& shape, Device device) {
  auto impl = make_impl(dtype, shape, device);
  if (shape.is_known()) impl->strides = row_major_strides(shape);
  return Tensor(std::move(impl));
}

Tensor without_data(const Tensor& tensor) {
  Tensor bare = make_symbolic(tensor.dtype(), tensor.shape(), tensor.device());
  bare.impl().id = tensor.id();
  return bare;
}

Tensor make_deferred(DType dtype, const Shape& shape, Device device, Intrusive<Origin> origin) {
  checked_size(dtype, shape);
  Tensor deferred = make_symbolic(dtype, shape, device);
  deferred.impl().storage = Storage::make(cpu(), 0);  // no symbolic tensor has a storage
  deferred.impl().origin = std::move(origin);
  return deferred;
}

Tensor make_scalar(double value, DType dtype) {
  if (size_of(dtype) == 0) throw InvalidArgumentError(join("No number has the dtype ", dtype));
  Tensor scalar = make_tensor(dtype, {}, cpu());
  visit_dtype(dtype, [&]<class T>() { *mutable_data<T>(scalar) = convert<T>(value); });
  return scalar;
}

}  // namespace detail

void Tensor::copy_out(void* out, std::int64_t count, DType to, std::string_view what, Where where) const {
  detail::locating({}, where, [&] {
    if (is_symbolic())
      throw FailedPreconditionError(
          detail::join(what, "() needs a value, and this tensor of shape ", shape(), " has none until a graph runs"));
    if (count >= 0 && size() != count)
      throw InvalidArgumentError(
          detail::join(what, "() needs a tensor of exactly one element, but the shape is ", shape()));
    const Tensor host = detail::on_host(*this);
    const void* data = host.impl().data;
    const std::int64_t total = size();
    detail::visit_dtype(to, [&]<class To>() {
      detail::visit_dtype(dtype(), [&]<class From>() {
        const auto* from = static_cast<const From*>(data);
        for (std::int64_t i = 0; i < total; ++i) static_cast<To*>(out)[i] = detail::convert<To>(from[i]);
      });
    });
  });
}

void Tensor::refuse_rank(Where where) const {
  throw FailedPreconditionError(
      detail::join("The rank of ", impl().origin ? impl().origin->describe() : "a tensor",
                   " is known only when the graph runs; give the placeholder a shape, or ask shape().has_rank() first"),
      where);
}

void Tensor::refuse_vector(std::size_t element_bytes, Where where) const {
  throw ResourceExhaustedError(
      detail::join("OOM when allocating a std::vector of ", size(), " elements of ", element_bytes, " bytes"), where);
}

const void* Tensor::host_data(DType wanted, Where where) const {
  if (!impl_) detail::locating({}, where, detail::throw_empty_tensor);
  if (dtype() != wanted)
    throw InvalidArgumentError(detail::join("data<", to_string(wanted), ">() of a ", to_string(dtype()), " tensor"),
                               where);
  if (is_symbolic()) throw FailedPreconditionError("data() of a symbolic tensor, which has no value", where);
  if (!device().is_cpu())
    throw FailedPreconditionError(
        detail::join("data() of a tensor on ", to_string(device()), "; bring it to the CPU with .to(tp::cpu())"),
        where);
  if (!is_contiguous())
    throw FailedPreconditionError(detail::join("data() of a view of shape ", shape(),
                                               " whose elements are not in row-major order; use .contiguous() first"),
                                  where);
  return detail::computed(*this).impl().data;  // the origin of a deferred tensor keeps the elements
}

}  // namespace tapestry
