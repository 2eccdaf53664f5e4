#include <numeric>
#include <random>
#include <utility>

#include "core/make_tensor.hpp"
#include "tapestry/data.hpp"
#include "tapestry/ops/array.hpp"

namespace tapestry::data {

Loader::Loader(Dataset dataset, const LoaderOptions& options, Where where)
    : dataset_(std::move(dataset)), options_(options) {
  if (options.batch < 1)
    throw InvalidArgumentError(detail::join("A batch needs at least 1 example, not ", options.batch), where);
  if (!dataset_.x || !dataset_.y) throw FailedPreconditionError("A data set needs examples and their targets", where);
  const Shape &x = dataset_.x.shape(), &y = dataset_.y.shape();
  if (x.rank() == 0 || y.rank() == 0 || x[0] != y[0] || !x.is_known() || !y.is_known())
    throw InvalidArgumentError(
        detail::join("The examples and their targets need the same number of rows, but their shapes are ", x, " and ",
                     y),
        where);
}

std::int64_t Loader::size() const {
  const std::int64_t rows = dataset_.size(), whole = rows / options_.batch;
  return options_.drop_last || rows % options_.batch == 0 ? whole : whole + 1;
}

void Loader::shuffle() {
  order_ = detail::make_tensor(int64, {dataset_.size()}, cpu());
  const std::span rows(detail::mutable_data<std::int64_t>(order_), static_cast<std::size_t>(dataset_.size()));
  std::iota(rows.begin(), rows.end(), 0);
  // Fisher and Yates' shuffle, written out: std::shuffle gives another order with every standard library.
  std::seed_seq seed{options_.seed, options_.seed >> 32, epoch_};
  std::mt19937_64 random(seed);
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random() % i]);
  order_ = order_.to(dataset_.x.device());
}

Loader::Batch Loader::batch(std::int64_t index) const {
  const std::int64_t first = index * options_.batch;
  const RangeIndex rows = range(first, std::min(first + options_.batch, dataset_.size()));
  if (!options_.shuffle) return {dataset_.x(rows, ellipsis), dataset_.y(rows, ellipsis)};
  const Tensor chosen = order_(rows);
  return {gather(dataset_.x, chosen), gather(dataset_.y, chosen)};
}

}  // namespace tapestry::data
