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
struct LoopProgram;
class LoopCode;

enum class ReduceFunction : std::uint8_t { sum, mean, prod, max, min, any_true, all_true };
enum class ArgReduce : std::uint8_t { max, min };
enum class Scan : std::uint8_t { sum, prod };
enum class Linalg : std::uint8_t {
  cholesky,
  solve,
  inverse,
  svd,
  triangular_solve,
  determinant,
  log_determinant,
  qr,
  eigh
};
enum class Distribution : std::uint8_t { uniform, normal, truncated_normal, bernoulli };
enum class PoolKind : std::uint8_t { max, average };

/// An optimizer's update of a variable in one pass. The formulas are in functors.hpp.
enum class Update : std::uint8_t { gradient_descent, momentum, nesterov, adam, adamw, rmsprop, adagrad };

/// Sizes of a two-dimensional convolution or pooling over NHWC images; filters are [height, width, in / groups, out].
struct Window2d {
  std::int64_t height = 1, width = 1;
  std::int64_t stride_y = 1, stride_x = 1;
  std::int64_t dilation_y = 1, dilation_x = 1;
  std::int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  std::int64_t groups = 1;
};

/// The CPU splits a product of two matrices with at least this many multiplications; most smaller ones run on one core.
inline constexpr double large_product = 3e6;
/// Roughly how many nanoseconds the product `y` of `a` and another matrix keeps one core busy; 0 when it is split, and
/// when y is a row or a column.
double busy_with_product(const Tensor& a, bool transpose_a, const Tensor& y);

/// A recorded sequence of kernels, which a device can run again on the same memory.
class TAPESTRY_API Recording {
 public:
  Recording() = default;
  virtual ~Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  /// Queues the kernels behind the device's earlier work. The owner of the recording keeps the memory of inputs and
  /// outputs alive; the recording owns the kernels' workspaces.
  virtual void replay() = 0;
  /// Whether a family that was recorded with LateChecks has refused a value in the last replay. Waits for that replay
  /// if there is such a family.
  virtual bool has_refused() { return false; }
};

/// While it lives, families that the calling thread records may check the integers that they are given without waiting
/// for the device, which they could not do in a recording: a replay goes on with some valid integer instead of a
/// refused one, and `Recording::has_refused` tells. To call the family again on the same integers throws its error.
/// While Variables change, only `sum_rows` may check later, because it then gives no rows to change.
class TAPESTRY_API LateChecks {
 public:
  explicit LateChecks(bool variables_change);
  ~LateChecks();
  LateChecks(const LateChecks&) = delete;
  LateChecks& operator=(const LateChecks&) = delete;

  /// The calling thread's; nullptr if it has none.
  static LateChecks* current();
  bool variables_change() const { return variables_change_; }
  void note() { used_ = true; }
  /// Whether a family has made use of it.
  bool used() const { return used_; }

 private:
  bool variables_change_, used_ = false;
};

/// A kernel family throws this while it is recorded if a replay could not repeat its work: because it waits for the
/// device, or copies from or to the host. It is no Error, because nobody has made a mistake.
struct TAPESTRY_API CannotRecord final : std::exception {
  const char* what() const noexcept override { return "this work of a device cannot be recorded"; }
};

/// Work that a DeviceGroup has begun. Where its life ends, the device's later work waits for it; until then its tensors
/// must stay as they are.
class TAPESTRY_API StartedWork {
 public:
  StartedWork() = default;
  virtual ~StartedWork() = default;
  StartedWork(const StartedWork&) = delete;
  StartedWork& operator=(const StartedWork&) = delete;
};

/// The devices of several ranks, one of each, which exchange tensors without the host. All ranks make the same calls,
/// of equal dtypes and shapes, in the same order. A call returns when the work is queued behind the device's earlier
/// work. Tensors are contiguous, of any element type; reductions are sum, prod, min and max, and not of half types.
/// The extreme of a NaN and a number may be either. Calls allocate nothing: ranks that wait on their devices could not
/// be told of a failure. Throws AbortedError if another rank of this process has failed.
class TAPESTRY_API DeviceGroup {
 public:
  DeviceGroup() = default;
  virtual ~DeviceGroup() = default;
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  using Work = std::unique_ptr<StartedWork>;
  virtual std::string name() const = 0;  ///< of what connects the devices: "NCCL 2.28.9"
  /// y = all ranks' x, reduced to one.
  virtual Work all_reduce(ReduceFunction f, const Tensor& x, const Tensor& y) = 0;
  /// y = this rank's part of all ranks' x reduced to one, along the first axis.
  virtual Work reduce_scatter(ReduceFunction f, const Tensor& x, const Tensor& y) = 0;
  /// y = all ranks' x, one after the other.
  virtual Work all_gather(const Tensor& x, const Tensor& y) = 0;
  /// y = the root's x.
  virtual Work broadcast(int root, const Tensor& x, const Tensor& y) = 0;
};

/// The memory and the kernel families of a kind of device, or of one CUDA device. It knows no ops. Ops check all shapes
/// and dtypes before they call a family. Inputs may be views with any strides. Outputs (the last arguments, `y`) are
/// contiguous, allocated and of the final shape, and overlap no input unless the family says so. Sizes may be 0. A
/// family takes all eight element types unless it says otherwise; "float types" include float16 and bfloat16. A family
/// throws Error or CannotRecord and nothing else.
///
/// A family computes float16 and bfloat16 in float32 and rounds once. A backend without kernels for them calls the
/// interface's own definition (such as `Backend::gemm`, in backend.cpp), which converts by `copy` and calls the family
/// again with float32. Every backend must have its own `fill`, `iota`, `copy`, `gather`, `gather_nd` and `take_along`
/// for them.
class TAPESTRY_API Backend : public detail::Allocator {
 public:
  virtual std::string_view name() const = 0;  ///< TensorFlow's name of the kind: "CPU", "GPU"
  /// The number of devices that share this backend and its memory. Each CUDA device has a backend of its own.
  virtual int device_count() = 0;

  virtual void copy_to_host(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes) = 0;
  /// Waits until all started work is done.
  virtual void synchronize() = 0;
  /// Runs `task(i)` for i in [0, count), in any order or concurrently. Each task calls kernels that alone would leave
  /// most of the device idle. If a task throws, its exception is thrown when no task is running any more.
  virtual void run_side_by_side(std::int64_t count, const std::function<void(std::int64_t)>& task);
  /// Whether `record` may return a recording.
  virtual bool can_record() { return false; }
  /// Calls `work`, and records what it starts on this device instead of running it. Memory that `work` frees stays
  /// allocated at least until the first replay. Returns nullptr, and has run nothing, when the device cannot record the
  /// work. An exception of `work` discards the recording.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work);
  /// Copies from the memory of another device, in order with the work of both devices and without waiting for it.
  /// Returns false when this backend cannot.
  virtual bool copy_from_peer(Backend& peer, void* to, const void* from, std::size_t bytes);
  /// Names this device among those of all machines, to tell ranks that share one. Throws Error if devices of this kind
  /// cannot exchange tensors with those of other ranks, as by default.
  virtual std::string address();
  /// The name of a new DeviceGroup, of at most 200 bytes. One rank asks for it, and tells the others.
  virtual std::string new_group();
  /// Joins this device with those of the other ranks, which call this, too. Throws Error if they cannot be joined.
  virtual std::unique_ptr<DeviceGroup> join_group(const std::string& group, int rank, int ranks);
  virtual MemoryStats memory_stats() = 0;
  virtual void reset_peak_memory() = 0;
  virtual std::int64_t trim_memory() = 0;

  /// y = value, converted to y's dtype.
  virtual void fill(double value, const Tensor& y) = 0;
  /// y = start + i * step in y's dtype, for the i-th element.
  virtual void iota(double start, double step, const Tensor& y) = 0;
  /// y = x, converted to y's dtype (floats to integers towards zero; to bool: x != 0) and broadcast to y's shape. y may
  /// be a strided view.
  virtual void copy(const Tensor& x, const Tensor& y) = 0;
  /// Copies from[i] to to[i], as `copy` does, for every i. No tensor of `to` overlaps another of them or one of `from`.
  virtual void copy_each(const Tensors& from, const Tensors& to);
  /// Joins tensors along an axis, or stacks them at it: for each position along y's axes before `axis`, their elements
  /// come one after another. Returns false, and does nothing, unless this is faster than to `copy_each` to views of y.
  virtual bool join(const Tensors& parts, int axis, const Tensor& y);
  /// The elements in row-major order without gaps: x itself if it is contiguous, else a copy that no tape sees.
  Tensor contiguous(const Tensor& x);
  /// A contiguous copy, which may be changed and which no tape sees.
  Tensor contiguous_copy(const Tensor& x);
  // Of the next three, y may be an operand itself, or a view of all its elements, if that is contiguous.

  /// y = f(x; alpha), of one shape and dtype; predicates write bool.
  virtual void unary(Unary f, const Tensor& x, double alpha, const Tensor& y) = 0;
  /// y = f(a, b; alpha), a and b of one dtype, broadcast to y's shape.
  virtual void binary(Binary f, const Tensor& a, const Tensor& b, double alpha, const Tensor& y) = 0;
  /// y = f(a, b, c), broadcast to y's shape; for Ternary::select a is bool, all others are of y's dtype.
  virtual void ternary(Ternary f, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& y) = 0;
  /// Runs several of these functions and of `copy` together. The inputs are broadcast to the outputs, which have one
  /// shape. By default each instruction calls its family; the bits are the same.
  virtual void program(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs);

  /// y = x reduced along the axes whose bit is set in `axes`. y's shape omits these axes or has 1 there. Over no
  /// elements, sum is 0, prod 1, mean NaN, max and min the lowest and the highest value (-inf, inf), any_true false and
  /// all_true true. max and min propagate NaN. Float sums are split the same way for any number of threads. any_true
  /// and all_true take bool only.
  virtual void reduce(ReduceFunction f, const Tensor& x, std::uint32_t axes, const Tensor& y) = 0;
  /// Runs a program whose outputs have `shape`, and reduces one of them as `reduce` does: outputs[output] is the
  /// result, and the elements that it is made of are not kept. By default they are, until the reduction is done; the
  /// bits are the same.
  struct ReducedOutput {
    std::size_t output;
    ReduceFunction function;
    std::uint32_t axes;
  };
  virtual void program_reduce(const Program& program, std::span<const Tensor> inputs, const Shape& shape,
                              const ReducedOutput& reduced, std::span<const Tensor> outputs);
  /// Code that runs a whole loop over few elements (loop_program.hpp); nullptr if there is none for it.
  virtual std::shared_ptr<const LoopCode> loop_code(const LoopProgram& loop);
  /// y[i] = x[0] op ... op x[i] along an axis; exclusive: without x[i]; reverse: from the end.
  virtual void scan(Scan f, const Tensor& x, int axis, bool exclusive, bool reverse, const Tensor& y) = 0;
  /// Position of the first largest or smallest element along a non-empty axis (the first NaN, if any); y is int32 or
  /// int64.
  virtual void arg_reduce(ArgReduce f, const Tensor& x, int axis, const Tensor& y) = 0;
  /// The k largest (or smallest) of the last axis in order, ties by position, NaN as the largest. indices: int32 or
  /// int64.
  virtual void top_k(const Tensor& x, std::int64_t k, bool largest, const Tensor& values, const Tensor& indices) = 0;

  /// y = op(a) op(b), where op transposes if asked. The last two dimensions are the matrices; a and b have y's batch
  /// dimensions, or repeat their matrices along them by stride 0. Float types use BLAS, integers a plain loop. There is
  /// no product of bools.
  virtual void gemm(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const Tensor& y) = 0;
  /// Runs a program whose input number `product` is a product of two matrices: outputs = program(..., op(a) op(b),
  /// ...). `others` are the program's other inputs in their order. The product is stored in the output number `into`,
  /// which has its shape and dtype, and read from there; the program writes that output only after it has read the
  /// product. Float types.
  struct FusedProduct {
    bool transpose_a, transpose_b;
    std::size_t product, into;
  };
  virtual void gemm_program(const FusedProduct& fused, const Tensor& a, const Tensor& b, const Program& program,
                            std::span<const Tensor> others, std::span<const Tensor> outputs);
  /// Inputs and outputs as TensorFlow's ops of these names, batched over the leading axes; float types.
  /// cholesky(a) -> l; solve(a, b) -> x; inverse(a) -> x; svd(a) -> s, u, v (thin; a = u s v^T);
  /// triangular_solve(l, b) -> x with l lower triangular (adjoint: l^T x = b); determinant(a) -> y;
  /// log_determinant(a) -> sign, logarithm of the absolute value; qr(a) -> q, r (thin);
  /// eigh(a) -> e, v, of which a's lower triangle is read. The last four are computed on the host only.
  /// Throws InvalidArgumentError for a singular or indefinite matrix.
  virtual void linalg(Linalg f, std::span<const Tensor> inputs, bool adjoint, std::span<const Tensor> outputs) = 0;

  /// y[..., j, ...] = x[..., indices[j], ...]: x's axis is replaced by the dimensions of indices (int32 or int64).
  /// Throws InvalidArgumentError for an index outside the axis, in TensorFlow's words: "indices[2] = 7 is not in [0,
  /// 5)".
  virtual void gather(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) = 0;
  /// y = 0, then y[..., indices[j], ...] += updates[..., j, ...], in the order of j: the gradient of gather.
  virtual void scatter_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) = 0;
  /// Rows of a tensor, each with its index along the first axis.
  struct IndexedRows {
    Tensor indices, values;
  };
  /// The sums of the rows with the same index, added in their order, for each index once. The indices (int32 or int64)
  /// are one-dimensional; those of the result are int64. A backend that knows their number only after a wait may give
  /// as many rows as it gets, with the index -1 for those that stand for none: its `take_rows` and `put_rows` leave
  /// them out. Throws InvalidArgumentError as `gather` from `size` rows does. By default the host finds the rows, and
  /// `scatter_add` adds them up.
  virtual IndexedRows sum_rows(const IndexedRows& rows, std::int64_t size);
  /// y[indices[j]] = rows[j] along the first axis, for indices of `sum_rows`. y is changed in these rows only. By
  /// default a `copy` for each row.
  virtual void put_rows(const Tensor& rows, const Tensor& indices, const Tensor& y);
  /// rows[j] = x[indices[j]] along the first axis, for indices of `sum_rows`. By default `gather`.
  virtual void take_rows(const Tensor& x, const Tensor& indices, const Tensor& rows);
  /// y[j...] = x[indices[j..., :]]: the last axis of indices holds the leading coordinates in x.
  virtual void gather_nd(const Tensor& x, const Tensor& indices, const Tensor& y) = 0;
  /// y = 0, then y[indices[j..., :]] += updates[j...].
  virtual void scatter_nd_add(const Tensor& indices, const Tensor& updates, const Tensor& y) = 0;
  /// y[i, j, ...] = x[i, indices[i, j, ...], ...]: along one axis, numpy.take_along_axis.
  virtual void take_along(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) = 0;
  /// y = 0, then y[i, indices[i, j, ...], ...] += updates[i, j, ...].
  virtual void put_along_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) = 0;

  /// Softmax over the last axis, or its logarithm. It is stable, because the maximum is subtracted. Float types.
  virtual void softmax(const Tensor& x, bool logarithm, const Tensor& y) = 0;
  /// dx = (g - sum(g * y)) * y, or for the logarithm g - exp(y) * sum(g), over the last axis.
  virtual void softmax_grad(const Tensor& y, const Tensor& g, bool logarithm, const Tensor& dx) = 0;
  /// loss = -log(softmax(logits)) at the label of each row along the last axis, and backprop = softmax(logits) - 1
  /// there, softmax(logits) elsewhere. labels: int32 or int64. Float types. By default the families above compute it.
  /// Throws InvalidArgumentError for a label that is no position in the last axis.
  virtual void sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& loss,
                                            const Tensor& backprop);

  /// y = n * scale + offset, n = (x - mean) * rstd over the last axis, rstd = 1 / sqrt(variance + epsilon) (population
  /// variance, two passes). mean and rstd have x's shape with 1 as the last size; scale and offset have the last axis
  /// alone.
  virtual void normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon, const Tensor& y,
                         const Tensor& mean, const Tensor& rstd) = 0;
  /// The gradients of `normalize` from its mean and rstd. With h = g * scale, dx = rstd * (h - mean(h) - n * mean(h *
  /// n)); dscale and doffset are the sums of g * n and of g over all rows.
  virtual void normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd,
                              const Tensor& g, const Tensor& dx, const Tensor& dscale, const Tensor& doffset) = 0;

  /// y = (x - mean) * scale / sqrt(variance + epsilon) + offset, where mean and variance (of the population) are those
  /// of each element of the last axis over all others. scale, offset, mean and variance have the last axis alone. Float
  /// types. By default the families above compute it; the last bits may differ.
  virtual void batch_normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon,
                               const Tensor& y, const Tensor& mean, const Tensor& variance);
  /// The gradients of `batch_normalize` from its mean and variance. With n = (x - mean) / sqrt(variance + epsilon),
  /// dscale and doffset are the sums of g * n and of g, and dx = scale / sqrt(variance + epsilon) * (g - doffset /
  /// count - n * dscale / count).
  virtual void batch_normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& variance,
                                    const Tensor& g, double epsilon, const Tensor& dx, const Tensor& dscale,
                                    const Tensor& doffset);

  /// NHWC images and HWIO filters, float types.
  virtual void conv2d(const Tensor& x, const Tensor& filter, const Window2d& window, const Tensor& y) = 0;
  virtual void conv2d_grad_input(const Tensor& g, const Tensor& filter, const Window2d& window, const Tensor& dx) = 0;
  virtual void conv2d_grad_filter(const Tensor& x, const Tensor& g, const Window2d& window, const Tensor& dfilter) = 0;
  /// Padding never wins a maximum and does not count in an average.
  virtual void pool2d(PoolKind f, const Tensor& x, const Window2d& window, const Tensor& y) = 0;
  /// x and y are read for the maximum only (its gradient goes to the first largest element).
  virtual void pool2d_grad(PoolKind f, const Tensor& x, const Tensor& y, const Tensor& g, const Window2d& window,
                           const Tensor& dx) = 0;

  /// Fills y from the Philox stream of `key`. Element i comes from counter offset + i / 4, or offset + i / 2 for
  /// float64 and integers. The numbers are the same on every device and for any number of threads. uniform is in
  /// [a, b); normal has mean a and deviation b; truncated_normal is redrawn beyond two deviations; bernoulli is 1 with
  /// probability a. Float types; uniform also int32 and int64.
  virtual void random(Distribution f, std::uint64_t key, std::uint64_t offset, double a, double b, const Tensor& y) = 0;

  /// Makes one optimizer step in one pass: reads the gradient, and changes the variable and its slots in place. All
  /// are contiguous and of one float dtype. `numbers` are the update's numbers in the order of its formula in
  /// functors.hpp: float64, on the host or on the device.
  virtual void update(Update f, const Tensor& numbers, const Tensor& gradient, std::span<const Tensor> slots,
                      const Tensor& variable) = 0;
};

/// The backend of a device; throws InvalidArgumentError when the device does not exist.
TAPESTRY_API Backend& backend_of(Device device);
/// Registers a kind of device and returns its number: the CPU is 0, the GPU 1, the first to be registered 2. The
/// backend is never destroyed.
int register_backend(std::unique_ptr<Backend> backend);

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace tapestry
