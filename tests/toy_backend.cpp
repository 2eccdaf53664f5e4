#include "toy_backend.hpp"

#include <cstring>

#include <sys/mman.h>

namespace tapestry::test {
namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 30;  // address space; pages come with their first use
ToyBackend* the_backend = nullptr;

}  // namespace

/// Opens the arena while a kernel runs; kernels may use one another.
class ToyBackend::Open {
 public:
  explicit Open(ToyBackend& backend) : lock_(backend.mutex_), backend_(backend) {
    if (backend_.depth_++ == 0) protect(PROT_READ | PROT_WRITE);
    ++backend_.kernels_;
  }
  ~Open() {
    if (--backend_.depth_ == 0) protect(PROT_NONE);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

 private:
  void protect(int rights) {
    if (backend_.used_ > 0 && mprotect(backend_.arena_, (backend_.used_ + 4095) / 4096 * 4096, rights) != 0)
      throw InternalError("mprotect failed");
  }
  std::lock_guard<std::recursive_mutex> lock_;
  ToyBackend& backend_;
};

ToyBackend::ToyBackend() {
  void* arena = mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) throw InternalError("mmap failed");
  arena_ = static_cast<std::byte*>(arena);
}

// Memory is handed out once and never again: a use after free finds old data, not another tensor's.
void* ToyBackend::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (used_ + bytes > arena_bytes) throw ResourceExhaustedError("OOM on the toy device");
  if (depth_ > 0) mprotect(arena_, (used_ + bytes + 4095) / 4096 * 4096, PROT_READ | PROT_WRITE);
  return arena_ + std::exchange(used_, used_ + (bytes + 63) / 64 * 64);
}
void ToyBackend::deallocate(void*, std::size_t) noexcept {}

void ToyBackend::copy_to_host(void* to, const void* from, std::size_t bytes) {
  const Open open(*this);
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void ToyBackend::copy_from_host(void* to, const void* from, std::size_t bytes) {
  const Open open(*this);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void ToyBackend::fill(double value, const Tensor& y) {
  const Open open(*this);
  CpuBackend::fill(value, y);
}
void ToyBackend::iota(double start, double step, const Tensor& y) {
  const Open open(*this);
  CpuBackend::iota(start, step, y);
}
void ToyBackend::copy(const Tensor& x, const Tensor& y) {
  const Open open(*this);
  CpuBackend::copy(x, y);
}
bool ToyBackend::join(const Tensors& parts, int axis, const Tensor& y) {
  const Open open(*this);
  return CpuBackend::join(parts, axis, y);
}
void ToyBackend::unary(Unary f, const Tensor& x, double alpha, const Tensor& y) {
  const Open open(*this);
  CpuBackend::unary(f, x, alpha, y);
}
void ToyBackend::binary(Binary f, const Tensor& a, const Tensor& b, double alpha, const Tensor& y) {
  const Open open(*this);
  CpuBackend::binary(f, a, b, alpha, y);
}
void ToyBackend::ternary(Ternary f, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& y) {
  const Open open(*this);
  CpuBackend::ternary(f, a, b, c, y);
}
// One op at a time, as on a device that knows no programs.
// NOLINTBEGIN(bugprone-parent-virtual-call): the CPU's way is what is left out
void ToyBackend::gemm_program(const FusedProduct& fused, const Tensor& a, const Tensor& b, const Program& program,
                              std::span<const Tensor> others, std::span<const Tensor> outputs) {
  Backend::gemm_program(fused, a, b, program, others, outputs);
}
void ToyBackend::program(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  if (on_program) on_program(program, inputs, outputs);
  Backend::program(program, inputs, outputs);
}
// NOLINTEND(bugprone-parent-virtual-call)
void ToyBackend::reduce(ReduceFunction f, const Tensor& x, std::uint32_t axes, const Tensor& y) {
  const Open open(*this);
  CpuBackend::reduce(f, x, axes, y);
}
void ToyBackend::scan(Scan f, const Tensor& x, int axis, bool exclusive, bool reverse, const Tensor& y) {
  const Open open(*this);
  CpuBackend::scan(f, x, axis, exclusive, reverse, y);
}
void ToyBackend::arg_reduce(ArgReduce f, const Tensor& x, int axis, const Tensor& y) {
  const Open open(*this);
  CpuBackend::arg_reduce(f, x, axis, y);
}
void ToyBackend::top_k(const Tensor& x, std::int64_t k, bool largest, const Tensor& values, const Tensor& indices) {
  const Open open(*this);
  CpuBackend::top_k(x, k, largest, values, indices);
}
void ToyBackend::gemm(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const Tensor& y) {
  const Open open(*this);
  CpuBackend::gemm(a, b, transpose_a, transpose_b, y);
}
void ToyBackend::linalg(Linalg f, std::span<const Tensor> inputs, bool adjoint, std::span<const Tensor> outputs) {
  const Open open(*this);
  CpuBackend::linalg(f, inputs, adjoint, outputs);
}
void ToyBackend::gather(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) {
  const Open open(*this);
  CpuBackend::gather(x, indices, axis, y);
}
void ToyBackend::put_rows(const Tensor& rows, const Tensor& indices, const Tensor& y) {
  const Open open(*this);
  CpuBackend::put_rows(rows, indices, y);
}
void ToyBackend::scatter_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) {
  const Open open(*this);
  CpuBackend::scatter_add(indices, updates, axis, y);
}
void ToyBackend::gather_nd(const Tensor& x, const Tensor& indices, const Tensor& y) {
  const Open open(*this);
  CpuBackend::gather_nd(x, indices, y);
}
void ToyBackend::scatter_nd_add(const Tensor& indices, const Tensor& updates, const Tensor& y) {
  const Open open(*this);
  CpuBackend::scatter_nd_add(indices, updates, y);
}
void ToyBackend::take_along(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) {
  const Open open(*this);
  CpuBackend::take_along(x, indices, axis, y);
}
void ToyBackend::put_along_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) {
  const Open open(*this);
  CpuBackend::put_along_add(indices, updates, axis, y);
}
void ToyBackend::softmax(const Tensor& x, bool logarithm, const Tensor& y) {
  const Open open(*this);
  CpuBackend::softmax(x, logarithm, y);
}
void ToyBackend::softmax_grad(const Tensor& y, const Tensor& g, bool logarithm, const Tensor& dx) {
  const Open open(*this);
  CpuBackend::softmax_grad(y, g, logarithm, dx);
}
void ToyBackend::normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon, const Tensor& y,
                           const Tensor& mean, const Tensor& rstd) {
  const Open open(*this);
  CpuBackend::normalize(x, scale, offset, epsilon, y, mean, rstd);
}
void ToyBackend::normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd,
                                const Tensor& g, const Tensor& dx, const Tensor& dscale, const Tensor& doffset) {
  const Open open(*this);
  CpuBackend::normalize_grad(x, scale, mean, rstd, g, dx, dscale, doffset);
}
void ToyBackend::batch_normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon,
                                 const Tensor& y, const Tensor& mean, const Tensor& variance) {
  const Open open(*this);
  CpuBackend::batch_normalize(x, scale, offset, epsilon, y, mean, variance);
}
void ToyBackend::batch_normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& variance,
                                      const Tensor& g, double epsilon, const Tensor& dx, const Tensor& dscale,
                                      const Tensor& doffset) {
  const Open open(*this);
  CpuBackend::batch_normalize_grad(x, scale, mean, variance, g, epsilon, dx, dscale, doffset);
}
void ToyBackend::conv2d(const Tensor& x, const Tensor& filter, const Window2d& window, const Tensor& y) {
  const Open open(*this);
  CpuBackend::conv2d(x, filter, window, y);
}
void ToyBackend::conv2d_grad_input(const Tensor& g, const Tensor& filter, const Window2d& window, const Tensor& dx) {
  const Open open(*this);
  CpuBackend::conv2d_grad_input(g, filter, window, dx);
}
void ToyBackend::conv2d_grad_filter(const Tensor& x, const Tensor& g, const Window2d& window, const Tensor& dfilter) {
  const Open open(*this);
  CpuBackend::conv2d_grad_filter(x, g, window, dfilter);
}
void ToyBackend::pool2d(PoolKind f, const Tensor& x, const Window2d& window, const Tensor& y) {
  const Open open(*this);
  CpuBackend::pool2d(f, x, window, y);
}
void ToyBackend::pool2d_grad(PoolKind f, const Tensor& x, const Tensor& y, const Tensor& g, const Window2d& window,
                             const Tensor& dx) {
  const Open open(*this);
  CpuBackend::pool2d_grad(f, x, y, g, window, dx);
}
void ToyBackend::random(Distribution f, std::uint64_t key, std::uint64_t offset, double a, double b, const Tensor& y) {
  const Open open(*this);
  CpuBackend::random(f, key, offset, a, b, y);
}
void ToyBackend::update(Update f, const Tensor& numbers, const Tensor& gradient, std::span<const Tensor> slots,
                        const Tensor& variable) {
  const Open open(*this);
  CpuBackend::update(f, numbers, gradient, slots, variable);
}

ToyBackend& toy_backend() {
  toy_device();
  return *the_backend;
}

Device toy_device(int index) {
  static const int kind = [] {
    auto backend = std::make_unique<ToyBackend>();
    the_backend = backend.get();
    return register_backend(std::move(backend));
  }();
  return Device(kind, index);
}

}  // namespace tapestry::test
