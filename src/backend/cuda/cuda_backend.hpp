#pragma once

#include <mutex>
#include <string>

#include "backend/backend.hpp"
#include "backend/cuda/context.hpp"

namespace tapestry::gpu {

class Convolver;
class Multiplier;

/// One CUDA device. Each family is in the file named above its functions, and its kernels are in kernels/. A family
/// checks, plans and starts kernels in the device's stream. It returns before they have run, unless it waits for a
/// `Refusal`.
class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int index) : index_(index) {}

  // cuda_backend.cpp
  std::string_view name() const override { return "GPU"; }
  int device_count() override { return 1; }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void copy_from_host(void* to, const void* from, std::size_t bytes) override;
  bool copy_from_peer(Backend& peer, void* to, const void* from, std::size_t bytes) override;
  std::string address() override;
  std::string new_group() override;
  std::unique_ptr<DeviceGroup> join_group(const std::string& group, int rank, int ranks) override;
  void synchronize() override;
  MemoryStats memory_stats() override;
  void reset_peak_memory() override;
  std::int64_t trim_memory() override;

  // recording.cpp
  bool can_record() override;
  std::unique_ptr<Recording> record(const std::function<void()>& work) override;

  // elementwise.cpp
  void fill(double value, const Tensor& y) override;
  void iota(double start, double step, const Tensor& y) override;
  void copy(const Tensor& x, const Tensor& y) override;
  void copy_each(const Tensors& from, const Tensors& to) override;
  void unary(Unary f, const Tensor& x, double alpha, const Tensor& y) override;
  void binary(Binary f, const Tensor& a, const Tensor& b, double alpha, const Tensor& y) override;
  void ternary(Ternary f, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& y) override;

  // program.cpp
  void program(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs) override;

  // random.cpp
  void random(Distribution f, std::uint64_t key, std::uint64_t offset, double a, double b, const Tensor& y) override;

  // reduce.cpp, scan.cpp and sort.cpp
  void reduce(ReduceFunction f, const Tensor& x, std::uint32_t axes, const Tensor& y) override;
  void scan(Scan f, const Tensor& x, int axis, bool exclusive, bool reverse, const Tensor& y) override;
  void arg_reduce(ArgReduce f, const Tensor& x, int axis, const Tensor& y) override;
  void top_k(const Tensor& x, std::int64_t k, bool largest, const Tensor& values, const Tensor& indices) override;

  // matmul.cpp
  void gemm(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const Tensor& y) override;
  void gemm_program(const FusedProduct& fused, const Tensor& a, const Tensor& b, const Program& program,
                    std::span<const Tensor> others, std::span<const Tensor> outputs) override;

  // linalg.cpp
  void linalg(Linalg f, std::span<const Tensor> inputs, bool adjoint, std::span<const Tensor> outputs) override;

  // gather.cpp
  void gather(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) override;
  IndexedRows sum_rows(const IndexedRows& rows, std::int64_t size) override;
  void put_rows(const Tensor& rows, const Tensor& indices, const Tensor& y) override;
  void take_rows(const Tensor& x, const Tensor& indices, const Tensor& rows) override;
  void scatter_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) override;
  void gather_nd(const Tensor& x, const Tensor& indices, const Tensor& y) override;
  void scatter_nd_add(const Tensor& indices, const Tensor& updates, const Tensor& y) override;
  void take_along(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) override;
  void put_along_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) override;

  // normalize.cpp
  void softmax(const Tensor& x, bool logarithm, const Tensor& y) override;
  void softmax_grad(const Tensor& y, const Tensor& g, bool logarithm, const Tensor& dx) override;
  void sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& loss,
                                    const Tensor& backprop) override;
  void normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon, const Tensor& y,
                 const Tensor& mean, const Tensor& rstd) override;
  void normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd, const Tensor& g,
                      const Tensor& dx, const Tensor& dscale, const Tensor& doffset) override;

  // batch_normalize.cpp
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

  // update.cpp
  void update(Update f, const Tensor& numbers, const Tensor& gradient, std::span<const Tensor> slots,
              const Tensor& variable) override;

 private:
  /// Makes the device current in the calling thread and returns its context, which the first call creates.
  Context& context();
  /// x itself if products can read it without a copy (see `is_readable`), else a contiguous copy.
  Tensor readable(const Tensor& x);

  /// cuBLASLt on the device, opened at the first call. Throws NotFoundError when it is not installed.
  Multiplier& multiplier();

  /// cuDNN on the device, opened at the first call.
  Convolver& convolver();

  int index_;
  std::once_flag once_, multiplier_once_, convolver_once_;
  Context* context_ = nullptr;        ///< never deleted
  Multiplier* multiplier_ = nullptr;  ///< never deleted
  Convolver* convolver_ = nullptr;    ///< never deleted
};

/// "; programs run one kernel after another: " and the reason, once NVRTC was found missing; before that, nothing.
std::string program_details();

/// The Type of a tensor's elements.
inline Type type_of(const Tensor& tensor) { return static_cast<Type>(tensor.dtype()); }
static_assert(static_cast<int>(Type::b8) == static_cast<int>(DType::boolean) &&
              static_cast<int>(Type::bf16) == static_cast<int>(DType::bfloat16) &&
              static_cast<int>(Type::f64) == static_cast<int>(DType::float64) &&
              static_cast<int>(Type::i32) == static_cast<int>(DType::int32));

}  // namespace tapestry::gpu
