#pragma once

#include <cstdint>
#include <string_view>

#include "tapestry/op.hpp"

namespace tapestry::random {

/// @addtogroup random
/// Random tensors, from one stream of the process: Philox4x32-10 (Salmon et al. 2011), whose n-th number is a function
/// of the seed and n. Each op takes its place in the stream when it runs, and passes on by as many places as its result
/// has elements. So the same seed and the same order of ops give the same numbers, for any number of threads and on
/// every device. Threads share the stream, in the order in which their ops happen to run. No gradient flows to the
/// parameters of a distribution.
/// @{

/// Starts the stream anew. Without it a process starts at a seed of its own that differs each time.
TAPESTRY_API void seed(std::uint64_t seed);

/// A place in the stream, to be saved with a checkpoint.
struct State {
  std::uint64_t seed = 0;    ///< that the stream was started with
  std::uint64_t offset = 0;  ///< places that have been taken
  /// The same place of the same stream.
  friend bool operator==(const State&, const State&) = default;
};
/// The place at which the stream is now.
TAPESTRY_API State state();
/// Goes on from there: the numbers that followed then follow again.
TAPESTRY_API void set_state(const State& state);

/// Which normal distribution, and what tensor; by default the standard one.
struct NormalOptions {
  double mean = 0;        ///< the centre
  double stddev = 1;      ///< the standard deviation
  DType dtype = float32;  ///< a float type
  Device device = cpu();  ///< where the numbers are drawn
};
/// Normally distributed numbers of a float type. Throws InvalidArgumentError for a negative deviation.
TAPESTRY_API Tensor normal(const Shape& shape, const NormalOptions& options = {}, std::string_view name = {},
                           Where where = Where::here());
/// The same, redrawn where they are more than two deviations away from the mean.
TAPESTRY_API Tensor truncated_normal(const Shape& shape, const NormalOptions& options = {}, std::string_view name = {},
                                     Where where = Where::here());

/// Which interval, and what tensor.
struct UniformOptions {
  double low = 0;         ///< included
  double high = 1;        ///< excluded
  DType dtype = float32;  ///< a float type, int32 or int64
  Device device = cpu();  ///< where the numbers are drawn
};
/// Random numbers spread evenly over [low, high): of a float type, or whole numbers in int32 or int64. Throws
/// InvalidArgumentError when low is not below high.
TAPESTRY_API Tensor uniform(const Shape& shape, const UniformOptions& options = {}, std::string_view name = {},
                            Where where = Where::here());

/// Whole numbers in [low, high), int64 unless the options say int32.
TAPESTRY_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = int64,
                            Device device = cpu(), std::string_view name = {}, Where where = Where::here());

/// What tensor of zeros and ones.
struct BernoulliOptions {
  DType dtype = float32;  ///< a float type
  Device device = cpu();  ///< where the numbers are drawn
};
/// 1 with the given probability and 0 otherwise. Throws InvalidArgumentError unless it is in [0, 1].
TAPESTRY_API Tensor bernoulli(const Shape& shape, double probability = 0.5, const BernoulliOptions& options = {},
                              std::string_view name = {}, Where where = Where::here());

/// Which normal distribution; by default the standard one.
struct NormalLikeOptions {
  double mean = 0;    ///< the centre
  double stddev = 1;  ///< the standard deviation
};
/// Which interval.
struct UniformLikeOptions {
  double low = 0;   ///< included
  double high = 1;  ///< excluded
};
/// As `normal`, `uniform` and `bernoulli`, in the shape, dtype and place of a tensor, of which nothing else is read.
/// @{
TAPESTRY_API Tensor normal_like(In like, const NormalLikeOptions& options = {}, std::string_view name = {});
TAPESTRY_API Tensor uniform_like(In like, const UniformLikeOptions& options = {}, std::string_view name = {});
TAPESTRY_API Tensor bernoulli_like(In like, double probability = 0.5, std::string_view name = {});
/// @}

/// Classes (int64), each drawn with the probability softmax(logits): [batch, classes] give [batch, num_samples], and
/// [classes] give [num_samples]. A logit of -inf is a class that is never drawn; a row without a finite logit, or with
/// NaN or inf, is no distribution and gives class 0. TensorFlow's random.categorical. Throws InvalidArgumentError when
/// there are no classes, for less than 0 samples, and for another rank.
TAPESTRY_API Tensor categorical(In logits, std::int64_t num_samples = 1, std::string_view name = {});

/// The numbers 0 ... n-1 (int64) in random order; every order is equally likely.
TAPESTRY_API Tensor permutation(std::int64_t n, Device device = cpu(), std::string_view name = {},
                                Where where = Where::here());
/// x with the parts along its first axis in random order. Throws InvalidArgumentError for a scalar.
TAPESTRY_API Tensor shuffle(In x, std::string_view name = {});

/// @}

}  // namespace tapestry::random
