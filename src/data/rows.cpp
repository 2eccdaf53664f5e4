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
  if (x.is_known() && y.is_known() && (x.rank() < 1 || y.rank() < 1))
    throw InvalidArgumentError(
        detail::join("The examples and their targets need a first axis, the rows, but their shapes are ", x, " and ",
                     y),
        where);
  if (!x.is_known() || !y.is_known() || x[0] != y[0])
    throw InvalidArgumentError(
        detail::join("The examples and their targets need the same number of rows, but their shapes are ", x, " and ",
                     y),
        where);
}

void check_rows(const Tensors& arrays, Where where) {
  if (arrays.empty()) throw InvalidArgumentError("A loader needs arrays", where);
  for (const Tensor& each : arrays) {
    if (!each) throw FailedPreconditionError("A loader needs arrays; one is an empty Tensor", where);
    const Shape &shape = each.shape(), &first = arrays[0].shape();
    if (shape.is_known() && shape.rank() < 1)
      throw InvalidArgumentError("The arrays need a first axis, the rows, but one is a scalar", where);
    if (!shape.is_known() || shape[0] != first[0])
      throw InvalidArgumentError(
          detail::join("The arrays need the same number of rows, but their shapes are ", first, " and ", shape), where);
  }
}

Tensor shuffled_rows(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  using philox::Word;
  Tensor order = detail::make_tensor(int64, {n}, cpu());
  auto* rows = detail::mutable_data<std::int64_t>(order);
  std::iota(rows, rows + n, 0);
  // This is Fisher and Yates' shuffle; std::shuffle gives another order with every standard library. tp::random draws
  // from counters whose last word is 0, and the last word here is 1, so that the same seed gives other numbers.
  const Word low = static_cast<Word>(seed), high = static_cast<Word>(seed >> 32);
  for (std::int64_t i = n; i > 1; --i) {
    const philox::Block counter{{static_cast<Word>(i), static_cast<Word>(i >> 32), static_cast<Word>(epoch), 1}};
    const philox::Block random = philox::scramble(counter, low, high);
    const std::uint64_t number = std::uint64_t{random.words[1]} << 32 | random.words[0];
    std::swap(rows[i - 1], rows[number % i]);
  }
  return order;
}

Tensors gather_rows(const Tensors& arrays, const Tensor& rows) {
  const ExecuteNow now;
  Tensors found;
  for (const Tensor& each : arrays) found.push_back(gather(each, rows));
  return found;
}

Tensors slice_rows(const Tensors& arrays, std::int64_t begin, std::int64_t end) {
  const ExecuteNow now;
  Tensors found;
  for (const Tensor& each : arrays) found.push_back(each(range(begin, end), ellipsis));
  return found;
}

namespace {

Dataset dataset_of(const Tensors& arrays) { return {arrays[0], arrays[1]}; }

}  // namespace

TrainValidation split(const Dataset& dataset, double validation_fraction, const SplitOptions& options, Where where) {
  check_rows(dataset, where);
  const std::int64_t n = dataset.size();
  const double wanted = static_cast<double>(n) * validation_fraction;
  const std::int64_t validation = wanted >= 0 && wanted <= static_cast<double>(n) ? std::llround(wanted) : -1;
  if (validation < 1 || validation >= n)
    throw InvalidArgumentError(detail::join("A fraction of ", validation_fraction, " of ", n,
                                            " rows leaves a part of the data set without any"),
                               where);
  const Tensors all{dataset.x, dataset.y};
  if (!options.shuffle)
    return {dataset_of(slice_rows(all, 0, n - validation)), dataset_of(slice_rows(all, n - validation, n))};
  const ExecuteNow now;
  const Tensor order = shuffled_rows(n, options.seed, 0).to(dataset.x.device());
  return {dataset_of(gather_rows(all, order(range(0, n - validation)))),
          dataset_of(gather_rows(all, order(range(n - validation, n))))};
}

}  // namespace tapestry::data
