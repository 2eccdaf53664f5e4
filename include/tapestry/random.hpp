#pragma once

#include <cstdint>
#include <string_view>

#include "tapestry/ops/arguments.hpp"

namespace tapestry::random {

/// @addtogroup random
/// Random tensors. All numbers come from one stream of the process: Philox4x32-10 (Salmon et al. 2011), whose n-th
/// number is a function of the seed and n. When an op runs, it takes as many numbers from the stream as its result has
/// elements. So the same seed and the same order of ops give the same numbers, for any number of threads and on every
/// device. Threads share the stream, in the order in which their ops happen to run. No gradient flows to the parameters
/// of a distribution.
/// @{

/// Restarts the stream with a seed. Without this call, each process has a different seed.
TAPESTRY_API void seed(std::uint64_t seed);

/// A position in the stream, which can be saved with a checkpoint.
struct State {
  std::uint64_t seed = 0;    ///< the seed of the stream
  std::uint64_t offset = 0;  ///< how many numbers have been taken from it
  /// Whether both are the same position of the same stream.
  friend bool operator==(const State&, const State&) = default;
};
/// The current position of the stream.
TAPESTRY_API State state();
/// Returns to an earlier position: the numbers that followed it follow again.
TAPESTRY_API void set_state(const State& state);

/// The parameters of a normal distribution, by default of the standard one, and the kind of tensor.
struct NormalOptions {
  double mean = 0;        ///< the mean
  double stddev = 1;      ///< the standard deviation
  DType dtype = float32;  ///< a float type
  Device device = cpu();  ///< the device that draws the numbers
};
/// Normally distributed numbers. Throws InvalidArgumentError for a negative deviation.
TAPESTRY_API Tensor normal(const Shape& shape, const NormalOptions& options = {}, std::string_view name = {},
                           Where where = Where::here());
/// The same, except that numbers more than two deviations away from the mean are drawn again.
TAPESTRY_API Tensor truncated_normal(const Shape& shape, const NormalOptions& options = {}, std::string_view name = {},
                                     Where where = Where::here());

/// An interval, and the kind of tensor.
struct UniformOptions {
  double low = 0;         ///< the lower bound, included
  double high = 1;        ///< the upper bound, excluded
  DType dtype = float32;  ///< a float type, int32 or int64
  Device device = cpu();  ///< the device that draws the numbers
};
/// Uniformly distributed numbers in [low, high): of a float type, or integers in int32 or int64. Throws
/// InvalidArgumentError unless low < high.
TAPESTRY_API Tensor uniform(const Shape& shape, const UniformOptions& options = {}, std::string_view name = {},
                            Where where = Where::here());

/// Uniformly distributed integers in [low, high), in int64 or int32.
TAPESTRY_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = int64,
                            Device device = cpu(), std::string_view name = {}, Where where = Where::here());

/// The kind of tensor.
struct BernoulliOptions {
  DType dtype = float32;  ///< a float type
  Device device = cpu();  ///< the device that draws the numbers
};
/// 1 with the given probability, otherwise 0. Throws InvalidArgumentError unless the probability is in [0, 1].
TAPESTRY_API Tensor bernoulli(const Shape& shape, double probability = 0.5, const BernoulliOptions& options = {},
                              std::string_view name = {}, Where where = Where::here());

/// The same in float32, in int64 or with the probability 0.5, on the CPU, with a name.
/// @{
inline Tensor normal(const Shape& shape, const NodeName auto& name, Where where = Where::here()) {
  return normal(shape, {}, detail::plain_name(name, detail::Worded::dtype, where), where);
}
inline Tensor truncated_normal(const Shape& shape, const NodeName auto& name, Where where = Where::here()) {
  return truncated_normal(shape, {}, detail::plain_name(name, detail::Worded::dtype, where), where);
}
inline Tensor uniform(const Shape& shape, const NodeName auto& name, Where where = Where::here()) {
  return uniform(shape, {}, detail::plain_name(name, detail::Worded::dtype, where), where);
}
inline Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, const NodeName auto& name,
                      Where where = Where::here()) {
  return randint(low, high, shape, int64, cpu(), detail::plain_name(name, detail::Worded::dtype_alone, where), where);
}
inline Tensor bernoulli(const Shape& shape, double probability, const NodeName auto& name,
                        Where where = Where::here()) {
  return bernoulli(shape, probability, {}, detail::plain_name(name, detail::Worded::dtype, where), where);
}
inline Tensor bernoulli(const Shape& shape, const NodeName auto& name, Where where = Where::here()) {
  return bernoulli(shape, 0.5, name, where);
}
/// @}

/// The parameters of a normal distribution, by default of the standard one.
struct NormalLikeOptions {
  double mean = 0;    ///< the mean
  double stddev = 1;  ///< the standard deviation
};
/// An interval.
struct UniformLikeOptions {
  double low = 0;   ///< the lower bound, included
  double high = 1;  ///< the upper bound, excluded
};
/// `normal`, `uniform` and `bernoulli` with the shape, dtype and device of another tensor, whose elements are not read.
/// @{
TAPESTRY_API Tensor normal_like(In like, const NormalLikeOptions& options = {}, std::string_view name = {});
TAPESTRY_API Tensor uniform_like(In like, const UniformLikeOptions& options = {}, std::string_view name = {});
TAPESTRY_API Tensor bernoulli_like(In like, double probability = 0.5, std::string_view name = {});
/// @}
/// The same with default parameters and a name.
/// @{
inline Tensor normal_like(In like, const NodeName auto& name) { return normal_like(like, {}, name); }
inline Tensor uniform_like(In like, const NodeName auto& name) { return uniform_like(like, {}, name); }
inline Tensor bernoulli_like(In like, const NodeName auto& name) { return bernoulli_like(like, 0.5, name); }
/// @}

/// Random classes (int64), each drawn with the probability softmax(logits): [batch, classes] give [batch, num_samples],
/// and [classes] give [num_samples]. A class with the logit -inf is never drawn. A row gives class 0 if it has no
/// finite logit, or has NaN or inf, because it is no distribution. TensorFlow's random.categorical. Throws
/// InvalidArgumentError when there are no classes, for a negative number of samples, and for another rank.
TAPESTRY_API Tensor categorical(In logits, std::int64_t num_samples = 1, std::string_view name = {});
/// The same for one sample, with a name.
inline Tensor categorical(In logits, const NodeName auto& name) { return categorical(logits, 1, name); }

/// The numbers 0 ... n-1 (int64) in random order. Every order is equally likely.
TAPESTRY_API Tensor permutation(std::int64_t n, Device device = cpu(), std::string_view name = {},
                                Where where = Where::here());
/// The slices x(0), x(1), ... in random order. Throws InvalidArgumentError for a scalar.
TAPESTRY_API Tensor shuffle(In x, std::string_view name = {});

/// @}

}  // namespace tapestry::random
