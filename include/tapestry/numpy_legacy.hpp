#pragma once

#include <cstdint>
#include <memory>

#include "tapestry/state_dict.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::random {

/// @addtogroup random
/// @{

/// The stream of numbers that `numpy.random.seed(seed)` starts, bit for bit, for programs that must repeat what one in
/// Python does: the Mersenne Twister (Matsumoto, Nishimura 1998) and Marsaglia's polar method (1964). float64 on the
/// CPU.
class TAPESTRY_API NumpyLegacy {
 public:
  /// At the start of the stream of that seed.
  explicit NumpyLegacy(std::uint32_t seed);
  /// A stream moves, and is not copied.
  /// @{
  NumpyLegacy(NumpyLegacy&&) noexcept;
  NumpyLegacy& operator=(NumpyLegacy&&) noexcept;
  /// @}
  ~NumpyLegacy();

  /// numpy.random.rand: numbers spread evenly over [0, 1).
  Tensor rand(const Shape& shape, Where where = Where::here());
  /// numpy.random.randn: normally distributed numbers of mean 0 and variance 1.
  Tensor randn(const Shape& shape, Where where = Where::here());

  /// The place in the stream, for checkpoints.
  StateDict state_dict() const;
  /// Throws InvalidArgumentError when this is not what `state_dict` gives; then nothing has changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

/// @}

}  // namespace tapestry::random
