#include "data/rows.hpp"

#include <cmath>
#include <numeric>
#include <utility>

#include "backend/philox.hpp"
#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/ops/array.hpp"

namespace tapestry::data {

void check_rows(const Dataset& dataset, Where where) {
  if (!dataset.x || !dataset.y) throw FailedPreconditionError("A data set needs examples and their targets", where);
  const Shape &x = dataset.x.shape(), &y = dataset.y.shape();
  if (x.rank() < 1 || y.rank() < 1 || x[0] != y[0] || !x.is_known() || !y.is_known())
    throw InvalidArgumentError(
        detail::join("The examples and their targets need the same number of rows, but their shapes are ", x, " and ",
                     y),
        where);
}

Tensor shuffled_rows(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  using philox::Word;
  Tensor order = detail::make_tensor(int64, {n}, cpu());
  auto* rows = detail::mutable_data<std::int64_t>(order);
  std::iota(rows, rows + n, 0);
  // Fisher and Yates' shuffle; std::shuffle gives another order with every standard library. tp::random draws from
  // counters whose last word is 0, so these are other numbers than its own for the same seed.
  const Word low = static_cast<Word>(seed), high = static_cast<Word>(seed >> 32);
  for (std::int64_t i = n; i > 1; --i) {
    const philox::Block counter{{static_cast<Word>(i), static_cast<Word>(i >> 32), static_cast<Word>(epoch), 1}};
    const philox::Block random = philox::scramble(counter, low, high);
    const std::uint64_t number = std::uint64_t{random.words[1]} << 32 | random.words[0];
    std::swap(rows[i - 1], rows[number % static_cast<std::uint64_t>(i)]);
  }
  return order;
}

Dataset gather_rows(const Dataset& dataset, const Tensor& rows) {
  const ExecuteNow now;
  return {gather(dataset.x, rows), gather(dataset.y, rows)};
}

Dataset slice_rows(const Dataset& dataset, std::int64_t begin, std::int64_t end) {
  const ExecuteNow now;
  const RangeIndex rows = range(begin, end);
  return {dataset.x(rows, ellipsis), dataset.y(rows, ellipsis)};
}

TrainValidation split(const Dataset& dataset, double validation_fraction, const SplitOptions& options, Where where) {
  check_rows(dataset, where);
  const std::int64_t n = dataset.size();
  const double wanted = static_cast<double>(n) * validation_fraction;
  const std::int64_t validation = wanted >= 0 && wanted <= static_cast<double>(n) ? std::llround(wanted) : -1;
  if (validation < 1 || validation >= n)
    throw InvalidArgumentError(detail::join("A fraction of ", validation_fraction, " of ", n,
                                            " rows leaves a part of the data set without any"),
                               where);
  if (!options.shuffle) return {slice_rows(dataset, 0, n - validation), slice_rows(dataset, n - validation, n)};
  const ExecuteNow now;
  const Tensor order = shuffled_rows(n, options.seed, 0).to(dataset.x.device());
  return {gather_rows(dataset, order(range(0, n - validation))), gather_rows(dataset, order(range(n - validation, n)))};
}

}  // namespace tapestry::data
