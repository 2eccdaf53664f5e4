#include "tapestry/data/loader.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "data/prefetcher.hpp"
#include "data/rows.hpp"
#include "dispatch/recorder.hpp"

namespace tapestry::data {

/// The batches of one epoch, from some batch on.
class Loader::Epoch {
 public:
  Epoch(const Loader& loader, std::int64_t first)
      : dataset_(loader.dataset_), options_(loader.options_), next_(first), left_(loader.size() - first) {
    const ExecuteNow now;
    if (options_.shuffle) order_ = shuffled_rows(dataset_.size(), options_.seed, loader.epoch_).to(dataset_.x.device());
    if (options_.prefetch > 0 && left_ > 0) prefetcher_.emplace(left_, options_.prefetch, [this] { return make(); });
  }

  std::int64_t left() const { return left_; }
  Batch next() {
    const std::int64_t left = std::exchange(left_, 0);  // what throws ends the epoch
    Batch batch = prefetcher_ ? prefetcher_->next() : make();
    left_ = left - 1;
    return batch;
  }

 private:
  Batch make() {
    const ExecuteNow now;
    const std::int64_t begin = next_++ * options_.batch, end = std::min(begin + options_.batch, dataset_.size());
    const Dataset rows = order_ ? gather_rows(dataset_, order_(range(begin, end))) : slice_rows(dataset_, begin, end);
    const Batch batch{rows.x, rows.y};
    return options_.transform ? options_.transform(batch) : batch;
  }

  Dataset dataset_;
  LoaderOptions options_;
  Tensor order_;       ///< int64 [n]: the rows in this epoch's order; empty when they are not shuffled
  std::int64_t next_;  ///< the batch to be made
  std::int64_t left_;  ///< batches to be handed out
  std::optional<Prefetcher<Batch>> prefetcher_;  ///< last: its thread uses the rest
};

Loader::Loader(Dataset dataset, const LoaderOptions& options, Where where)
    : dataset_(std::move(dataset)), options_(options) {
  if (options.batch < 1)
    throw InvalidArgumentError(detail::join("A batch needs at least 1 example, not ", options.batch), where);
  if (options.prefetch < 0)
    throw InvalidArgumentError(detail::join("There cannot be ", options.prefetch, " batches beforehand"), where);
  check_rows(dataset_, where);
}

std::int64_t Loader::size() const {
  const std::int64_t rows = dataset_.size(), whole = rows / options_.batch;
  return options_.drop_last || rows % options_.batch == 0 ? whole : whole + 1;
}

Loader::Iterator Loader::begin() {
  const bool goes_on = std::exchange(restored_, false);
  if (batch_ > 0 && !goes_on) {
    ++epoch_;
    batch_ = 0;
  }
  if (size() == 0) ++epoch_;
  return {*this, std::make_shared<Epoch>(*this, batch_)};
}

void Loader::Iterator::advance() {
  if (epoch_->left() == 0) {
    epoch_.reset();
    return;
  }
  batch_ = epoch_->next();
  if (++loader_->batch_ == loader_->size()) {
    ++loader_->epoch_;
    loader_->batch_ = 0;
  }
}

StateDict Loader::state_dict() const { return {{"epoch", tensor(epoch_)}, {"batch", tensor(batch_)}}; }

void Loader::load_state_dict(const StateDict& state, Where where) {
  const auto number = [&](const char* name) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.dtype() != int64 || found->second.rank() != 0)
      throw InvalidArgumentError(detail::join("The state of a Loader needs a number '", name, "' (int64)"), where);
    return found->second.item<std::int64_t>();
  };
  const std::int64_t epoch = number("epoch"), batch = number("batch");
  if (state.size() != 2 || epoch < 0 || batch < 0 || (batch > 0 && batch >= size()))
    throw InvalidArgumentError(
        detail::join("No Loader with ", size(), " batches in an epoch stands at batch ", batch, " of epoch ", epoch),
        where);
  epoch_ = epoch;
  batch_ = batch;
  restored_ = true;
}

}  // namespace tapestry::data
