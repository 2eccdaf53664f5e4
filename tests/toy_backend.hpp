#pragma once

#include <functional>
#include <mutex>

#include "backend/cpu/cpu_backend.hpp"

namespace tapestry::test {

/// A second device for the tests, "TOY": it computes as the CPU does, on memory of its own that nobody can touch
/// outside its kernels. There are six, which share one memory. An op that reaches past the Backend interface into the
/// elements of a tensor on this device crashes.
class ToyBackend final : public host::CpuBackend {
 public:
  ToyBackend();

  std::string_view name() const override { return "TOY"; }
  int device_count() override { return 6; }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void copy_from_host(void* to, const void* from, std::size_t bytes) override;

  void fill(double value, const Tensor& y) override;
  void iota(double start, double step, const Tensor& y) override;
  void copy(const Tensor& x, const Tensor& y) override;
  bool join(const Tensors& parts, int axis, const Tensor& y) override;
  void unary(Unary f, const Tensor& x, double alpha, const Tensor& y) override;
  void binary(Binary f, const Tensor& a, const Tensor& b, double alpha, const Tensor& y) override;
  void ternary(Ternary f, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& y) override;
  void gemm_program(const FusedProduct& fused, const Tensor& a, const Tensor& b, const Program& program,
                    std::span<const Tensor> others, std::span<const Tensor> outputs) override;
  void program(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs) override;
  void reduce(ReduceFunction f, const Tensor& x, std::uint32_t axes, const Tensor& y) override;
  void scan(Scan f, const Tensor& x, int axis, bool exclusive, bool reverse, const Tensor& y) override;
  void arg_reduce(ArgReduce f, const Tensor& x, int axis, const Tensor& y) override;
  void top_k(const Tensor& x, std::int64_t k, bool largest, const Tensor& values, const Tensor& indices) override;
  void gemm(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const Tensor& y) override;
  void linalg(Linalg f, std::span<const Tensor> inputs, bool adjoint, std::span<const Tensor> outputs) override;
  void gather(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) override;
  void put_rows(const Tensor& rows, const Tensor& indices, const Tensor& y) override;
  void scatter_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) override;
  void gather_nd(const Tensor& x, const Tensor& indices, const Tensor& y) override;
  void scatter_nd_add(const Tensor& indices, const Tensor& updates, const Tensor& y) override;
  void take_along(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) override;
  void put_along_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) override;
  void softmax(const Tensor& x, bool logarithm, const Tensor& y) override;
  void softmax_grad(const Tensor& y, const Tensor& g, bool logarithm, const Tensor& dx) override;
  void normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon, const Tensor& y,
                 const Tensor& mean, const Tensor& rstd) override;
  void normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd, const Tensor& g,
                      const Tensor& dx, const Tensor& dscale, const Tensor& doffset) override;
  void batch_normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon, const Tensor& y,
                       const Tensor& mean, const Tensor& variance) override;
  void batch_normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& variance,
                            const Tensor& g, double epsilon, const Tensor& dx, const Tensor& dscale,
                            const Tensor& doffset) override;
  void conv2d(const Tensor& x, const Tensor& filter, const Window2d& window, const Tensor& y) override;
  void conv2d_grad_input(const Tensor& g, const Tensor& filter, const Window2d& window, const Tensor& dx) override;
  void conv2d_grad_filter(const Tensor& x, const Tensor& g, const Window2d& window, const Tensor& dfilter) override;
  void pool2d(PoolKind f, const Tensor& x, const Window2d& window, const Tensor& y) override;
  void pool2d_grad(PoolKind f, const Tensor& x, const Tensor& y, const Tensor& g, const Window2d& window,
                   const Tensor& dx) override;
  void random(Distribution f, std::uint64_t key, std::uint64_t offset, double a, double b, const Tensor& y) override;
  void update(Update f, const Tensor& numbers, const Tensor& gradient, std::span<const Tensor> slots,
              const Tensor& variable) override;

  /// Called with every program that the device is given, where it is set.
  std::function<void(const Program&, std::span<const Tensor> inputs, std::span<const Tensor> outputs)> on_program;

  /// Number of kernels that ran.
  std::int64_t kernels() const { return kernels_; }

 private:
  class Open;

  std::recursive_mutex mutex_;  ///< one kernel at a time: the arena is open to all threads meanwhile
  std::byte* arena_ = nullptr;
  std::size_t used_ = 0;
  int depth_ = 0;
  std::int64_t kernels_ = 0;
};

/// The toy devices, registered on first use, and their backend.
Device toy_device(int index = 0);
ToyBackend& toy_backend();

}  // namespace tapestry::test
