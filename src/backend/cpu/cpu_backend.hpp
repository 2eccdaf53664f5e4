#pragma once

#include <string_view>

#include "backend/backend.hpp"

namespace tapestry::host {

/// The backend of the CPU. Comments name the files of its families. The tests derive their toy device from this class.
class CpuBackend : public Backend {
 public:
  // memory.cpp
  void* allocate(std::size_t bytes) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  std::string_view name() const override;
  int device_count() override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void copy_from_host(void* to, const void* from, std::size_t bytes) override;
  void synchronize() override;
  void run_side_by_side(std::int64_t count, const std::function<void(std::int64_t)>& task) override;
  MemoryStats memory_stats() override;
  void reset_peak_memory() override;
  std::int64_t trim_memory() override;

  // movement.cpp
  void copy(const Tensor& x, const Tensor& y) override;
  bool join(const Tensors& parts, int axis, const Tensor& y) override;

  // elementwise.cpp
  void fill(double value, const Tensor& y) override;
  void iota(double start, double step, const Tensor& y) override;
  void unary(Unary f, const Tensor& x, double alpha, const Tensor& y) override;
  void binary(Binary f, const Tensor& a, const Tensor& b, double alpha, const Tensor& y) override;
  void ternary(Ternary f, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& y) override;

  // program.cpp
  void gemm_program(const FusedProduct& fused, const Tensor& a, const Tensor& b, const Program& program,
                    std::span<const Tensor> others, std::span<const Tensor> outputs) override;
  void program(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs) override;
  std::shared_ptr<const LoopCode> loop_code(const LoopProgram& loop) override;

  // reduce.cpp
  void reduce(ReduceFunction f, const Tensor& x, std::uint32_t reduced, const Tensor& y) override;
  void program_reduce(const Program& program, std::span<const Tensor> inputs, const Shape& shape,
                      const ReducedOutput& reduced, std::span<const Tensor> outputs) override;
  void scan(Scan f, const Tensor& x, int axis, bool exclusive, bool reverse, const Tensor& y) override;
  void arg_reduce(ArgReduce f, const Tensor& x, int axis, const Tensor& y) override;

  // sort.cpp
  void top_k(const Tensor& x, std::int64_t k, bool largest, const Tensor& values, const Tensor& indices) override;

  // matmul.cpp
  void gemm(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const Tensor& y) override;

  // linalg.cpp
  void linalg(Linalg f, std::span<const Tensor> inputs, bool adjoint, std::span<const Tensor> outputs) override;

  // gather.cpp
  void gather(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) override;
  void put_rows(const Tensor& rows, const Tensor& indices, const Tensor& y) override;
  void scatter_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) override;
  void gather_nd(const Tensor& x, const Tensor& indices, const Tensor& y) override;
  void scatter_nd_add(const Tensor& indices, const Tensor& updates, const Tensor& y) override;
  void take_along(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) override;
  void put_along_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) override;

  // normalize.cpp
  void softmax(const Tensor& x, bool logarithm, const Tensor& y) override;
  void softmax_grad(const Tensor& y, const Tensor& g, bool logarithm, const Tensor& dx) override;
  void normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon, const Tensor& y,
                 const Tensor& mean, const Tensor& rstd) override;
  void normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd, const Tensor& g,
                      const Tensor& dx, const Tensor& dscale, const Tensor& doffset) override;

  // batch_norm.cpp
  void batch_normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon, const Tensor& y,
                       const Tensor& mean, const Tensor& variance) override;
  void batch_normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& variance,
                            const Tensor& g, double epsilon, const Tensor& dx, const Tensor& dscale,
                            const Tensor& doffset) override;

  // conv.cpp
  void conv2d(const Tensor& x, const Tensor& filter, const Window2d& window, const Tensor& y) override;
  void conv2d_grad_input(const Tensor& g, const Tensor& filter, const Window2d& window, const Tensor& dx) override;
  void conv2d_grad_filter(const Tensor& x, const Tensor& g, const Window2d& window, const Tensor& dfilter) override;

  // pool.cpp
  void pool2d(PoolKind f, const Tensor& x, const Window2d& window, const Tensor& y) override;
  void pool2d_grad(PoolKind f, const Tensor& x, const Tensor& y, const Tensor& g, const Window2d& window,
                   const Tensor& dx) override;

  // random.cpp
  void random(Distribution f, std::uint64_t key, std::uint64_t offset, double a, double b, const Tensor& y) override;

  // update.cpp
  void update(Update f, const Tensor& numbers, const Tensor& gradient, std::span<const Tensor> slots,
              const Tensor& variable) override;
};

}  // namespace tapestry::host
