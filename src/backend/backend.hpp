#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/functors.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry {

struct Program;

enum class Reduce : std::uint8_t { sum, mean, prod, max, min, any_true, all_true };
enum class ArgReduce : std::uint8_t { max, min };
enum class Scan : std::uint8_t { sum, prod };
enum class Linalg : std::uint8_t { cholesky, solve, inverse, svd, triangular_solve };
enum class Distribution : std::uint8_t { uniform, normal, truncated_normal, bernoulli };
enum class PoolKind : std::uint8_t { max, average };

/// What an optimizer's update does to a variable in one pass; the formulas stand in functors.hpp.
enum class Update : std::uint8_t { gradient_descent, momentum, nesterov, adam, adamw, rmsprop, adagrad };

/// Sizes of a two-dimensional convolution or pooling over NHWC images; filters are [height, width, in / groups, out].
struct Window2d {
  std::int64_t height = 1, width = 1;
  std::int64_t stride_y = 1, stride_x = 1;
  std::int64_t dilation_y = 1, dilation_x = 1;
  std::int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  std::int64_t groups = 1;
};

/// A product of two matrices with that many multiplications is split; a smaller one is the work of one core.
inline constexpr double large_product = 3e6;
/// About how many nanoseconds the product y of the matrix a and another one keeps one core busy; 0 when it is split.
double busy_with_product(const Tensor& a, bool transpose_a, const Tensor& y);

/// Work of a device that can be done again: the kernels that were started while it was recorded, on the same memory.
class TAPESTRY_API Recording {
 public:
  Recording() = default;
  virtual ~Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  /// Starts the work, behind all that the device has been given to do. Whoever made the recording sees to it that the
  /// memory is still there; what the kernels needed for themselves is the recording's own.
  virtual void replay() = 0;
};

/// What a family throws while it is recorded, if its work would not be the same another time: it must wait for the
/// device to tell, or copies from the host. No Error: nobody has done anything wrong.
struct TAPESTRY_API CannotRecord final : std::exception {
  const char* what() const noexcept override { return "this work of a device cannot be recorded"; }
};

/// A kind of device: its memory, and its kernel families. It knows no op. Ops have checked all shapes and
/// dtypes before a family is called: inputs may be views with any strides, outputs (the last arguments, `y`) are
/// contiguous, allocated, of the final shape, and never overlap an input unless a family says so. Sizes may be 0.
/// Element types are all eight unless a family says so; "float types" are float16 and bfloat16, too. A family throws
/// Error, or CannotRecord, never anything else.
///
/// What a family computes of float16 and bfloat16 is computed in float32 and rounded once. A backend without kernels
/// for them calls the definition that stands here (`Backend::gemm`, in backend.cpp), which converts by `copy` and calls
/// the family again with float32; `fill`, `iota`, `copy`, `gather`, `gather_nd` and `take_along` it must have itself.
class TAPESTRY_API Backend : public detail::Allocator {
 public:
  virtual std::string_view name() const = 0;  ///< "CPU", "GPU": TensorFlow's word
  /// The devices that share this backend and its memory; a CUDA device has one of its own.
  virtual int device_count() = 0;

  virtual void copy_to_host(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes) = 0;
  /// Waits until everything that was started is done.
  virtual void synchronize() = 0;
  /// Runs `task(i)` for i in [0, count): calls of kernels, each of which would leave most of the device idle, in any
  /// order or at once. What a task throws is thrown when all have ended.
  virtual void run_side_by_side(std::int64_t count, const std::function<void(std::int64_t)>& task);
  /// Whether `record` may return something.
  virtual bool can_record() { return false; }
  /// Calls `work`. What it starts on this device is not done, but recorded, to be done by `Recording::replay`; memory
  /// that it gives back stays as it is until then. Nothing when the device could not record it: nothing has been done.
  /// What `work` throws ends the recording, which is lost.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work);
  /// Copies from the memory of another device, in the order of the work of both and without waiting for it. Returns
  /// false when there is no such way.
  virtual bool copy_from_peer(Backend& peer, void* to, const void* from, std::size_t bytes);
  virtual MemoryStats memory_stats() = 0;
  virtual void reset_peak_memory() = 0;
  virtual std::int64_t trim_memory() = 0;

  /// y = value, converted to y's dtype.
  virtual void fill(double value, const Tensor& y) = 0;
  /// y = start + i * step in y's dtype, for the i-th element.
  virtual void iota(double start, double step, const Tensor& y) = 0;
  /// y = x, converted to y's dtype (floats towards zero, to bool: x != 0) and broadcast to y's shape. y may be a
  /// strided view.
  virtual void copy(const Tensor& x, const Tensor& y) = 0;
  /// The elements in row-major order without gaps: x itself where they lie so, or a copy that no tape sees.
  Tensor contiguous(const Tensor& x);
  /// The same as a copy, which may be changed.
  Tensor contiguous_copy(const Tensor& x);
  /// y = f(x; alpha), of one shape and dtype (but see `result_dtype` in functors.hpp: predicates write bool).
  virtual void unary(Unary f, const Tensor& x, double alpha, const Tensor& y) = 0;
  /// y = f(a, b; alpha), a and b of one dtype, broadcast to y's shape. y may be a itself.
  virtual void binary(Binary f, const Tensor& a, const Tensor& b, double alpha, const Tensor& y) = 0;
  /// y = f(a, b, c), broadcast to y's shape; for Ternary::select a is bool, all others are of y's dtype.
  virtual void ternary(Ternary f, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& y) = 0;
  /// Several of these and of `copy` together; the inputs are broadcast to the outputs, which are of one shape. By
  /// default each instruction is a call of its family, with the same bits.
  virtual void program(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs);

  /// y = x reduced along the axes whose bit is set in `axes`; y's shape has those axes left out or as 1. Over nothing:
  /// sum 0, prod 1, mean NaN, max and min the lowest and highest value (-inf, inf), any_true false, all_true true. NaN
  /// travels through max and min. Float sums are split the same way for any number of threads. any_true, all_true: bool
  /// only.
  virtual void reduce(Reduce f, const Tensor& x, std::uint32_t axes, const Tensor& y) = 0;
  /// y[i] = x[0] op ... op x[i] along an axis; exclusive: without x[i]; reverse: from the end.
  virtual void scan(Scan f, const Tensor& x, int axis, bool exclusive, bool reverse, const Tensor& y) = 0;
  /// Position of the first largest or smallest element along a non-empty axis (the first NaN, if any); y is int32 or
  /// int64.
  virtual void arg_reduce(ArgReduce f, const Tensor& x, int axis, const Tensor& y) = 0;
  /// The k largest (or smallest) of the last axis in order, ties by position, NaN as the largest. indices: int32 or
  /// int64.
  virtual void top_k(const Tensor& x, std::int64_t k, bool largest, const Tensor& values, const Tensor& indices) = 0;

  /// y = op(a) op(b), op = transpose where asked; a and b have y's batch dimensions, or broadcast to them by stride 0.
  /// The last two dimensions are the matrices. Float types use BLAS, others a plain loop (not for bool).
  virtual void gemm(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const Tensor& y) = 0;
  /// The product of two matrices as the input number `product` of a program: outputs = program(..., op(a) op(b), ...).
  /// `others` are the program's other inputs in their order. The product is written to the output number `into`, which
  /// is like it, and read from there: the program writes that output only when it has read the product. Float types.
  struct FusedProduct {
    bool transpose_a, transpose_b;
    std::size_t product, into;
  };
  virtual void gemm_program(const FusedProduct& fused, const Tensor& a, const Tensor& b, const Program& program,
                            std::span<const Tensor> others, std::span<const Tensor> outputs);
  /// Inputs and outputs as TensorFlow's ops of these names, batched over the leading axes; float types.
  /// cholesky(a) -> l; solve(a, b) -> x; inverse(a) -> x; svd(a) -> s, u, v (thin; a = u s v^T);
  /// triangular_solve(l, b) -> x with l lower triangular (adjoint: l^T x = b).
  /// Throws InvalidArgumentError for a singular or indefinite matrix.
  virtual void linalg(Linalg f, std::span<const Tensor> inputs, bool adjoint, std::span<const Tensor> outputs) = 0;

  /// y[..., j, ...] = x[..., indices[j], ...]: x's axis is replaced by the dimensions of indices (int32 or int64).
  /// Throws InvalidArgumentError for an index outside the axis, in TensorFlow's words: "indices[2] = 7 is not in [0,
  /// 5)".
  virtual void gather(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) = 0;
  /// y = 0, then y[..., indices[j], ...] += updates[..., j, ...], in the order of j: the gradient of gather.
  virtual void scatter_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) = 0;
  /// y[j...] = x[indices[j..., :]]: the last axis of indices holds the leading coordinates in x.
  virtual void gather_nd(const Tensor& x, const Tensor& indices, const Tensor& y) = 0;
  /// y = 0, then y[indices[j..., :]] += updates[j...].
  virtual void scatter_nd_add(const Tensor& indices, const Tensor& updates, const Tensor& y) = 0;
  /// y[i, j, ...] = x[i, indices[i, j, ...], ...]: along one axis, numpy.take_along_axis.
  virtual void take_along(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) = 0;
  /// y = 0, then y[i, indices[i, j, ...], ...] += updates[i, j, ...].
  virtual void put_along_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) = 0;

  /// Over the last axis, stable (the maximum is subtracted): softmax, or its logarithm. Float types.
  virtual void softmax(const Tensor& x, bool logarithm, const Tensor& y) = 0;
  /// dx = (g - sum(g * y)) * y, or for the logarithm g - exp(y) * sum(g), over the last axis.
  virtual void softmax_grad(const Tensor& y, const Tensor& g, bool logarithm, const Tensor& dx) = 0;
  /// y = n * scale + offset, n = (x - mean) * rstd over the last axis, rstd = 1 / sqrt(variance + epsilon) (population
  /// variance, two passes). mean and rstd have x's shape with the last axis 1, scale and offset that axis alone.
  virtual void normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon, const Tensor& y,
                         const Tensor& mean, const Tensor& rstd) = 0;
  /// The gradients of `normalize` from its mean and rstd. With h = g * scale, dx = rstd * (h - mean(h) - n * mean(h *
  /// n)); dscale and doffset are the sums of g * n and of g over all rows.
  virtual void normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd,
                              const Tensor& g, const Tensor& dx, const Tensor& dscale, const Tensor& doffset) = 0;

  /// NHWC images and HWIO filters, float types.
  virtual void conv2d(const Tensor& x, const Tensor& filter, const Window2d& window, const Tensor& y) = 0;
  virtual void conv2d_grad_input(const Tensor& g, const Tensor& filter, const Window2d& window, const Tensor& dx) = 0;
  virtual void conv2d_grad_filter(const Tensor& x, const Tensor& g, const Window2d& window, const Tensor& dfilter) = 0;
  /// Padding never wins a maximum and does not count in an average.
  virtual void pool2d(PoolKind f, const Tensor& x, const Window2d& window, const Tensor& y) = 0;
  /// x and y are read for the maximum only (its gradient goes to the first largest element).
  virtual void pool2d_grad(PoolKind f, const Tensor& x, const Tensor& y, const Tensor& g, const Window2d& window,
                           const Tensor& dx) = 0;

  /// Fills y from the Philox stream of `key`: element i from counter offset + i / 4, of float64 and whole numbers from
  /// offset + i / 2; the same numbers on every device and for any number of threads. uniform: [a, b); normal: mean a,
  /// deviation b; truncated_normal: redrawn beyond two deviations; bernoulli: 1 with probability a. Float types;
  /// uniform also int32 and int64, in [a, b).
  virtual void random(Distribution f, std::uint64_t key, std::uint64_t offset, double a, double b, const Tensor& y) = 0;

  /// One optimizer step in one pass: reads the gradient, changes the variable and its slots in place. All of one float
  /// dtype, contiguous. `numbers` are the update's in the order of its formula in functors.hpp: float64, on the host or
  /// on the device.
  virtual void update(Update f, const Tensor& numbers, const Tensor& gradient, std::span<const Tensor> slots,
                      const Tensor& variable) = 0;
};

/// The backend of a device; throws InvalidArgumentError when the device does not exist.
Backend& backend_of(Device device);
/// Adds a kind of device; its number is its place in the order of registration (CPU 0, GPU 1, ...). Lives for ever.
int register_backend(std::unique_ptr<Backend> backend);

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace tapestry
