// Features of sound, as networks that hear commands take them.

#include <bit>
#include <cmath>
#include <numbers>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

/// A matrix of numbers that `f` gives for its rows and columns.
template <class F>
Tensor matrix_of(std::int64_t rows, std::int64_t columns, F f) {
  const Tensor made = detail::make_tensor(float64, {rows, columns}, cpu());
  auto* to = detail::mutable_data<double>(made);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) *to++ = f(row, column);
  return made;
}

/// How strong each frequency is in the windows of each channel, which are faded in and out.
Tensors read_spectrogram(const ForeignNode& n) {
  require_rank(n, 0, 2);
  const auto window = n.node.attr<std::int64_t>("window_size"), stride = n.node.attr<std::int64_t>("stride");
  const std::int64_t samples = n.in(0).shape().sizes()[0];
  if (std::min(window, stride) < 1 || std::max(window, stride) > most_places)
    n.node.refuse(detail::join("it has windows of ", window, " samples and the stride ", stride));
  const std::int64_t count = samples < window ? 0 : 1 + (samples - window) / stride;
  const auto length = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(window)));
  if (product(count, window) > most_numbers || product(window, length) > most_numbers)
    n.node.refuse(detail::join("it has ", count, " windows of ", window, " samples"));
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t k = 0; k < window; ++k) places.push_back(i * stride + k);
  const double turn = 2 * std::numbers::pi;
  const auto wave = [&](auto f) {
    return matrix_of(window, length / 2 + 1, [&](std::int64_t i, std::int64_t frequency) {
      const double fade = 0.5 - 0.5 * std::cos(turn * static_cast<double>(i) / static_cast<double>(window));
      return fade * f(turn * static_cast<double>(i * frequency % length) / static_cast<double>(length));
    });
  };
  return n.composed([&]() -> Tensor {
    const Tensor channels = transpose(n.in(0)).cast(float64);
    const Tensor parts = reshape(gather(channels, vector_of(places, int32), 1), {-1, count, window});
    const Tensor real = matmul(parts, wave([](double angle) { return std::cos(angle); }));
    const Tensor imaginary = matmul(parts, wave([](double angle) { return std::sin(angle); }));
    const Tensor squares = square(real) + square(imaginary);
    const bool squared = n.node.attr_or<bool>("magnitude_squared", false);
    return Tensor(squared ? squares : sqrt(squares)).cast(float32);
  });
}

double mel(double frequency) { return 1127.0 * std::log1p(frequency / 700.0); }

/// The cepstrum of what an ear would tell apart in a spectrogram of squares.
Tensors read_cepstrum(const ForeignNode& n) {
  require_rank(n, 0, 3);
  const std::int64_t bins = n.in(0).shape().sizes()[2], rate = n.number(1);
  const double lower = n.node.attr_or<float>("lower_frequency_limit", 20),
               upper = n.node.attr_or<float>("upper_frequency_limit", 4000);
  const auto channels = n.node.attr_or<std::int64_t>("filterbank_channel_count", 40),
             coefficients = n.node.attr_or<std::int64_t>("dct_coefficient_count", 13);
  if (bins < 2 || rate < 1 || channels < 1 || channels > most_blocks || coefficients < 1 || coefficients > channels ||
      !(lower >= 0 && upper > lower))
    n.node.refuse(detail::join("it makes ", coefficients, " numbers of ", channels, " channels between ", lower,
                               " and ", upper, " Hz, of ", bins, " frequencies and ", rate, " samples a second"));
  const double step = 0.5 * static_cast<double>(rate) / static_cast<double>(bins - 1);
  const double low = mel(lower), spacing = (mel(upper) - low) / static_cast<double>(channels + 1);
  const auto first = static_cast<std::int64_t>(1.5 + lower / step), last = static_cast<std::int64_t>(upper / step);
  // Each frequency belongs to the two channels between whose centers it lies.
  const Tensor bank = matrix_of(bins, channels, [&](std::int64_t bin, std::int64_t channel) {
    if (bin < first || bin > last) return 0.0;
    const double place = (mel(static_cast<double>(bin) * step) - low) / spacing;
    return std::max(0.0, 1 - std::abs(place - static_cast<double>(channel + 1)));
  });
  const Tensor cosines = matrix_of(channels, coefficients, [&](std::int64_t channel, std::int64_t i) {
    const auto size = static_cast<double>(channels);
    return std::sqrt(2 / size) *
           std::cos(static_cast<double>(i) * std::numbers::pi / size * (static_cast<double>(channel) + 0.5));
  });
  return n.composed([&] {
    const Tensor heard = matmul(sqrt(n.in(0).cast(float64)), bank);
    return matmul(log(maximum(heard, 1e-12)), cosines).cast(float32);
  });
}

}  // namespace

ForeignOps foreign_sound() {
  return {
      {.name = "AudioSpectrogram",
       .inputs = 1,
       .lacks_sizes = lacks_any_size,
       .outputs = {typed(float32)},
       .read = read_spectrogram},
      {.name = "Mfcc",
       .inputs = 2,
       .values = {1},
       .lacks_sizes = lacks_any_size,
       .outputs = {typed(float32)},
       .read = read_cepstrum},
  };
}

}  // namespace tapestry::io
