#include "tapestry/data/loader.hpp"

#include <algorithm>
#include <optional>

#include "data/rows.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/data/stages.hpp"
#include "tapestry/ops/creation.hpp"

namespace tapestry::data {

class RowLoader::Epoch {
 public:
  explicit Epoch(const RowLoader& loader)
      : position_(loader.position_),
        arrays_(loader.arrays_),
        options_(loader.options_),
        rows_(loader.rows()),
        next_(position_->batch),
        size_(loader.size()),
        left_(size_ - next_) {
    position_->running = this;
    const ExecuteNow now;
    order_ = order();
    if (options_.prefetch > 0)
      queue_.emplace(1, options_.prefetch, [this, left = left_]() mutable { return left-- > 0 ? task() : nullptr; });
  }
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;
  /// A loop that is left early, by a break or an exception, ends its epoch.
  ~Epoch() {
    if (!is_running()) return;
    position_->running = nullptr;
    position_->left = position_->batch > 0;
  }

  std::int64_t left() const { return left_; }
  Tensors next() {
    const std::int64_t left = std::exchange(left_, 0);  // an exception ends the epoch
    Tensors batch = queue_ ? std::move(static_cast<Made&>(*queue_->next()).tensors) : make();
    left_ = left - 1;
    if (is_running() && ++position_->batch == size_) {
      ++position_->epoch;
      position_->batch = 0;
    }
    return batch;
  }

 private:
  struct Made final : stages::Task {
    explicit Made(Epoch& of) : epoch(of) {}
    void run() override { tensors = epoch.make(); }

    Epoch& epoch;
    Tensors tensors;
  };
  std::unique_ptr<stages::Task> task() { return std::make_unique<Made>(*this); }

  /// Whether this epoch owns the loader's position: another one may have been started, or a state loaded.
  bool is_running() const { return position_->running == this; }
  /// The rows in the order of this epoch; empty for all rows as they are.
  Tensor order() const {
    const std::int64_t all = arrays_[0].shape()[0], shards = options_.shard.count;
    if (!options_.shuffle && shards == 1) return {};
    const Tensor rows =
        options_.shuffle ? shuffled_rows(all, options_.seed, position_->epoch) : arange(all, {.dtype = int64});
    return rows(range(options_.shard.index, rows_ * shards, shards)).to(arrays_[0].device());
  }
  Tensors make() {
    const ExecuteNow now;
    const std::int64_t begin = next_++ * options_.batch, end = std::min(begin + options_.batch, rows_);
    const Tensors batch = order_ ? gather_rows(arrays_, order_(range(begin, end))) : slice_rows(arrays_, begin, end);
    return options_.transform ? options_.transform(batch) : batch;
  }

  std::shared_ptr<Position> position_;
  Tensors arrays_;
  BasicLoaderOptions<Tensors> options_;
  std::int64_t rows_;
  Tensor order_;       ///< int64 [n]: the rows in this epoch's order; empty for all rows as they are
  std::int64_t next_;  ///< the batch to be made
  std::int64_t size_;  ///< batches of a whole epoch
  std::int64_t left_;  ///< batches to be handed out
  std::optional<stages::TaskQueue> queue_;  ///< last: its thread uses the rest
};

RowLoader::RowLoader(Tensors arrays, BasicLoaderOptions<Tensors> options, Where where)
    : arrays_(std::move(arrays)), options_(std::move(options)), position_(std::make_shared<Position>()) {
  if (options_.batch < 1)
    throw InvalidArgumentError(detail::join("A batch needs at least 1 example, not ", options_.batch), where);
  if (options_.prefetch < 0)
    throw InvalidArgumentError(detail::join("There cannot be ", options_.prefetch, " batches beforehand"), where);
  const Shard& shard = options_.shard;
  if (shard.index < 0 || shard.index >= shard.count)
    throw InvalidArgumentError(detail::join("There is no shard ", shard.index, " of ", shard.count), where);
  check_rows(arrays_, where);
  // Every shard would be empty, and a training would make no step without a word.
  if (const std::int64_t all = arrays_[0].shape()[0]; all > 0 && all < shard.count)
    throw InvalidArgumentError(detail::join("There are ", all, " rows for ", shard.count, " shards"), where);
}

RowLoader::RowLoader(const RowLoader& other)
    : arrays_(other.arrays_), options_(other.options_), position_(std::make_shared<Position>(*other.position_)) {
  position_->running = nullptr;
}

RowLoader& RowLoader::operator=(const RowLoader& other) {
  RowLoader copy(other);
  arrays_ = std::move(copy.arrays_);
  options_ = std::move(copy.options_);
  position_ = std::move(copy.position_);
  return *this;
}

std::int64_t RowLoader::rows() const { return arrays_[0].shape()[0] / options_.shard.count; }

std::int64_t RowLoader::size() const {
  const std::int64_t whole = rows() / options_.batch;
  return options_.drop_last || rows() % options_.batch == 0 ? whole : whole + 1;
}

std::shared_ptr<RowLoader::Epoch> RowLoader::start() {
  Position& position = *position_;
  const bool goes_on = std::exchange(position.restored, false);
  position.left = false;
  if (position.batch > 0 && !goes_on) {
    ++position.epoch;
    position.batch = 0;
  }
  auto epoch = std::make_shared<Epoch>(*this);
  if (size() == 0) ++position.epoch;
  return epoch;
}

Tensors RowLoader::next(std::shared_ptr<Epoch>& epoch) {
  if (!epoch) throw OutOfRangeError("There is no batch behind the last one of a Loader");
  if (epoch->left() > 0) return epoch->next();
  epoch.reset();
  return {};
}

StateDict RowLoader::state_dict() const {
  return {{"epoch", tensor(position_->epoch)}, {"batch", tensor(position_->batch)}};
}

void RowLoader::load_state_dict(const StateDict& state, Where where) {
  const auto number = [&](const char* name) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.dtype() != int64 || found->second.rank() != 0)
      throw InvalidArgumentError(detail::join("The state of a Loader needs a number '", name, "' (int64)"), where);
    return found->second.item<std::int64_t>();
  };
  const std::int64_t epoch = number("epoch"), batch = number("batch");
  constexpr std::int64_t most = std::int64_t{1} << 62;  // so that what is counted from there on is a number, too
  if (state.size() != 2 || epoch < 0 || epoch > most || batch < 0 || (batch > 0 && batch >= size()))
    throw InvalidArgumentError(
        detail::join("No Loader with ", size(), " batches in an epoch stands at batch ", batch, " of epoch ", epoch),
        where);
  *position_ = {.epoch = epoch, .batch = batch, .restored = true};
}

Loader::Loader(Dataset dataset, const LoaderOptions& options, Where where)
    : BasicLoader((check_rows(dataset, where), Tensors{dataset.x, dataset.y}), options, where),
      dataset_(std::move(dataset)) {}

}  // namespace tapestry::data
