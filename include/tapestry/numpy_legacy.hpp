#pragma once

#include <cstdint>
#include <memory>

#include "tapestry/detail/handle.hpp"
#include "tapestry/state_dict.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::random {

/// @addtogroup random
/// @{

/// The stream of random numbers that `numpy.random.seed(seed)` starts, bit for bit, for programs that must repeat the
/// results of a Python program. It uses the Mersenne Twister (Matsumoto, Nishimura 1998) and Marsaglia's polar method
/// (1964). Its tensors are float64 on the CPU.
class TAPESTRY_API NumpyLegacy {
 public:
  /// Starts the stream of that seed.
  explicit NumpyLegacy(std::uint32_t seed);
  /// A stream can be moved, but not copied.
  /// @{
  NumpyLegacy(NumpyLegacy&&) noexcept;
  NumpyLegacy& operator=(NumpyLegacy&&) noexcept;
  /// @}
  ~NumpyLegacy();

  /// Uniformly distributed numbers in [0, 1): numpy.random.rand.
  Tensor rand(const Shape& shape, Where where = Where::here());
  /// Normally distributed numbers of mean 0 and variance 1: numpy.random.randn.
  Tensor randn(const Shape& shape, Where where = Where::here());

  /// The position in the stream, for checkpoints.
  StateDict state_dict() const;
  /// Restores a position that `state_dict` has returned. Throws InvalidArgumentError for any other state; then nothing
  /// has changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  struct Stream;
  detail::Owned<Stream> stream_;
};

/// @}

}  // namespace tapestry::random
