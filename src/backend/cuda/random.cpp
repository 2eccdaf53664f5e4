#include "backend/cuda/kernels/random.hpp"

#include <cmath>

#include "backend/cuda/cuda_backend.hpp"

namespace tapestry::gpu {
namespace {

static_assert(static_cast<int>(RandomKind::bernoulli) == static_cast<int>(Distribution::bernoulli) &&
              static_cast<int>(RandomKind::normal) == static_cast<int>(Distribution::normal));

/// The largest number of type T in [low, high), or `high` if there is none.
template <class T>
double below(double low, double high) {
  return static_cast<T>(low) < static_cast<T>(high) ? std::nextafter(static_cast<T>(high), static_cast<T>(low))
                                                    : static_cast<T>(high);
}

}  // namespace

void CudaBackend::random(Distribution f, std::uint64_t key, std::uint64_t offset, double a, double b, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::random(f, key, offset, a, b, y);
  if (y.size() == 0) return;
  Context& gpu = context();
  void* data = y.impl().data;
  if (is_floating(y.dtype())) {
    const double top = y.dtype() == float32 ? below<float>(a, b) : below<double>(a, b);
    random_floats(gpu.stream(), type_of(y), static_cast<RandomKind>(f), key, offset, a, b, top, data, y.size());
  } else {
    const auto low = static_cast<std::int64_t>(a);
    const auto range = static_cast<std::uint64_t>(static_cast<std::int64_t>(b)) - low;
    random_whole(gpu.stream(), type_of(y), key, offset, low, range, data, y.size());
  }
  gpu.started("random");
}

}  // namespace tapestry::gpu
