#include "tapestry/numpy_legacy.hpp"

#include <cmath>
#include <iterator>
#include <random>
#include <sstream>
#include <utility>

#include "core/make_tensor.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry::random {

struct NumpyLegacy::Stream {
  explicit Stream(std::uint32_t seed) : twister(seed) {}

  /// A uniform number in [0, 1) of 53 random bits, which come from two draws of the twister.
  double uniform() {
    const std::uint32_t high = static_cast<std::uint32_t>(twister()) >> 5;
    const std::uint32_t low = static_cast<std::uint32_t>(twister()) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }

  /// Normal numbers come in pairs; the second of a pair waits for the next call.
  double normal() {
    if (waiting) return std::exchange(waiting, {}).value();
    double x, y, squared_radius;
    do {
      x = 2.0 * uniform() - 1.0;
      y = 2.0 * uniform() - 1.0;
      squared_radius = x * x + y * y;
    } while (squared_radius >= 1.0 || squared_radius == 0.0);
    const double factor = std::sqrt(-2.0 * std::log(squared_radius) / squared_radius);
    waiting = factor * x;
    return factor * y;
  }

  template <class Draw>
  static Tensor fill(const Shape& shape, const Draw& draw, Where where) {
    return detail::locating({}, where, [&] {
      Tensor tensor = detail::make_tensor(float64, shape, cpu());
      auto* values = detail::mutable_data<double>(tensor);
      for (std::int64_t i = 0; i < tensor.size(); ++i) values[i] = draw();
      return tensor;
    });
  }

  std::mt19937 twister;
  std::optional<double> waiting;
};

NumpyLegacy::NumpyLegacy(std::uint32_t seed) : stream_(std::make_unique<Stream>(seed)) {}
NumpyLegacy::NumpyLegacy(NumpyLegacy&&) noexcept = default;
NumpyLegacy& NumpyLegacy::operator=(NumpyLegacy&&) noexcept = default;
NumpyLegacy::~NumpyLegacy() = default;

Tensor NumpyLegacy::rand(const Shape& shape, Where where) {
  return Stream::fill(
      shape, [this] { return stream_->uniform(); }, where);
}

Tensor NumpyLegacy::randn(const Shape& shape, Where where) {
  return Stream::fill(
      shape, [this] { return stream_->normal(); }, where);
}

StateDict NumpyLegacy::state_dict() const {
  std::stringstream text;
  text << stream_->twister;
  const std::vector<std::int64_t> twister(std::istream_iterator<std::int64_t>(text), {});
  std::vector<double> waiting;
  if (stream_->waiting) waiting.push_back(*stream_->waiting);
  return {{"twister", tensor(twister)}, {"waiting", tensor(waiting)}};
}

void NumpyLegacy::load_state_dict(const StateDict& state, Where where) {
  const auto twister = state.find("twister"), waiting = state.find("waiting");
  Stream next(0);
  bool good = state.size() == 2 && twister != state.end() && waiting != state.end() &&
              twister->second.dtype() == int64 && waiting->second.dtype() == float64 && waiting->second.size() <= 1;
  if (good) {
    std::stringstream text;
    const auto numbers = twister->second.to_vector<std::int64_t>();
    for (const std::int64_t number : numbers) {
      text << number << ' ';
      good = good && number >= 0 && number <= UINT32_MAX;
    }
    // The last number is an index into the others, which the standard library does not check.
    good = good && twister->second.shape() == state_dict().at("twister").shape() && numbers.back() <= 624 &&
           (text >> next.twister);
    if (waiting->second.size() == 1) next.waiting = waiting->second.item<double>();
  }
  if (!good) throw InvalidArgumentError("This is not the state of a NumpyLegacy generator", where);
  *stream_ = next;
}

}  // namespace tapestry::random
