#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tapestry/data/dataset.hpp"
#include "tapestry/data/shard.hpp"
#include "tapestry/state_dict.hpp"

namespace tapestry::data {

/// @addtogroup data
/// @{

/// Some rows of a data set: row i of `x` belongs to row i of `y`.
struct Batch {
  Tensor x;  ///< the examples, [batch, ...]
  Tensor y;  ///< the targets, [batch, ...]
};

/// How a loader makes batches, which are of the type B.
template <class B>
struct BasicLoaderOptions {
  /// The number of rows in a batch.
  std::int64_t batch = 32;
  /// Whether every epoch has a new random order.
  bool shuffle = false;
  /// The seed of the orders. The order of an epoch depends only on the seed and the number of the epoch, so that it is
  /// the same on every machine.
  std::uint64_t seed = 0;
  /// Whether to leave out the last batch of an epoch if it is smaller than the others.
  bool drop_last = false;
  /// A function that is applied to each batch: scaling, noise, flips. It must return a new batch and leave its argument
  /// unchanged.
  std::function<B(const B&)> transform = {};
  /// The number of batches that are prepared in advance, by a thread of the epoch's own; 0 prepares each batch when it
  /// is needed. This pays when a transform takes time. If a prefetched transform draws from `tp::random`, its draws mix
  /// with those of the loop in a random order, so that the run cannot be repeated.
  std::int64_t prefetch = 0;
  /// The part of the rows that the loader reads, such as `world.shard()`; `batch` counts rows of this part. All shards
  /// have equally many rows, at least one: those that are left over do not occur in the epoch, which are others in each
  /// random order. The n-th batches of all shards together are the n-th batch, `count` times as large, of a loader of
  /// all rows.
  Shard shard = {};
};
/// The options of a Loader.
using LoaderOptions = BasicLoaderOptions<Batch>;

/// The base of all loaders: it makes batches of some arrays with equally many rows, epoch after epoch.
class TAPESTRY_API RowLoader {
 public:
  struct End {};  ///< the type of `end`

  /// A copy starts at the same position, and then advances independently.
  /// @{
  RowLoader(const RowLoader& other);
  RowLoader& operator=(const RowLoader& other);
  ~RowLoader() = default;
  /// @}

  /// The end of a loop over an epoch.
  End end() const { return {}; }

  /// The number of batches in an epoch.
  std::int64_t size() const;
  /// The number of epochs that have ended: their last batch has been handed out, or their loop has been left early.
  std::int64_t epoch() const { return position_->epoch + (position_->left ? 1 : 0); }

  /// The position: "epoch" and "batch", the number of batches of that epoch that have been handed out (int64). After a
  /// loop that was left early, it is still the position at which the loop was left: a training that is stopped and
  /// saved there continues with the batches that it has not seen, whereas the next loop of this loader starts a new
  /// epoch.
  StateDict state_dict() const;
  /// Restores a position. Throws InvalidArgumentError unless these are the tensors of a `state_dict`, and the position
  /// exists in this loader's epochs.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 protected:
  /// For derived classes. In the options, batches are lists of tensors. Throws what the derived classes document.
  RowLoader(Tensors arrays, BasicLoaderOptions<Tensors> options, Where where);

  /// The batches of one epoch. Destroying the object ends the epoch, even if batches are left.
  class Epoch;
  /// Starts the next epoch, or continues the one that `load_state_dict` has restored.
  std::shared_ptr<Epoch> start();
  /// The next batch of an epoch. When there is none, it makes the handle empty. Throws OutOfRangeError for an empty
  /// one.
  static Tensors next(std::shared_ptr<Epoch>& epoch);

 private:
  struct Position {
    std::int64_t epoch = 0, batch = 0;
    bool restored = false;           ///< the next loop continues the epoch
    bool left = false;               ///< the last loop has ended early
    const Epoch* running = nullptr;  ///< the epoch that was started last, while it exists
  };

  /// The number of rows of the shard.
  std::int64_t rows() const;

  Tensors arrays_;
  BasicLoaderOptions<Tensors> options_;
  std::shared_ptr<Position> position_;  ///< shared with the epochs, which may outlive the loader
};

/// A RowLoader with batches of the type B, which are made from lists of tensors by `B{list[0], list[1], ...}`.
template <class B, std::size_t size_of_batch>
class BasicLoader : public RowLoader {
 public:
  using Batch = B;  ///< the type of a batch

  /// An iterator over the batches of an epoch. Copies share the epoch, so that advancing one of them invalidates the
  /// others.
  class Iterator {
   public:
    /// The current batch.
    const B& operator*() const { return batch_; }
    /// Advances to the next batch. Throws what a transform throws, and OutOfRangeError past the last one.
    Iterator& operator++() {
      const Tensors list = next(epoch_);
      batch_ = epoch_ ? batch_of(list) : B{};
      return *this;
    }
    /// Whether the iterator is past the last batch.
    friend bool operator==(const Iterator& i, End) { return !i.epoch_; }

   private:
    friend class BasicLoader;
    explicit Iterator(std::shared_ptr<Epoch> epoch) : epoch_(std::move(epoch)) { ++*this; }

    std::shared_ptr<Epoch> epoch_;  ///< empty past the last batch
    B batch_;
  };

  /// Starts the next epoch, or continues the one that `load_state_dict` has restored.
  Iterator begin() { return Iterator(start()); }

 protected:
  /// The same as for a RowLoader.
  BasicLoader(Tensors arrays, const BasicLoaderOptions<B>& options, Where where)
      : RowLoader(std::move(arrays),
                  {.batch = options.batch,
                   .shuffle = options.shuffle,
                   .seed = options.seed,
                   .drop_last = options.drop_last,
                   .transform = of_lists(options.transform),
                   .prefetch = options.prefetch,
                   .shard = options.shard},
                  where) {}

 private:
  static B batch_of(const Tensors& list) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return B{list[i]...}; }
    (std::make_index_sequence<size_of_batch>());
  }
  static Tensors list_of(const data::Batch& batch) { return {batch.x, batch.y}; }
  template <std::size_t n>
  static Tensors list_of(const std::array<Tensor, n>& batch) {
    Tensors list;
    for (const Tensor& each : batch) list.push_back(each);
    return list;
  }
  static std::function<Tensors(const Tensors&)> of_lists(const std::function<B(const B&)>& transform) {
    if (!transform) return {};
    return [transform](const Tensors& list) { return list_of(transform(batch_of(list))); };
  }
};

/// The batches of a data set in memory. Every loop over a Loader is one epoch:
///
///     for (auto [x, y] : loader) ...
///
/// A batch is a view of the data set's rows, or, if they are shuffled, the result of one gather. It is never copied row
/// by row. The loop throws what a transform throws. A loop that is left early ends its epoch.
///
/// The position is part of the state, for checkpoints. After `load_state_dict`, the next loop starts after the last
/// batch that had been handed out when the state was taken:
///
///     while (loader.epoch() < 10)
///       for (auto [x, y] : loader) ...
class TAPESTRY_API Loader : public BasicLoader<Batch, 2> {
 public:
  /// Throws InvalidArgumentError for a batch below 1, a negative prefetch, a shard that does not exist, scalars, and
  /// when x and y have different numbers of rows.
  explicit Loader(Dataset dataset, const LoaderOptions& options = {}, Where where = Where::here());
  /// Does not compile: the argument is not a data set.
  template <class T>
  requires(!std::convertible_to<const T&, Dataset> &&
           !std::derived_from<T, Loader>) explicit Loader(const T&, const LoaderOptions& options = {})
      : Loader(Dataset(), options) {
    constexpr bool good = std::convertible_to<const T&, Dataset>;
    static_assert(
        good,
        "A Loader takes a tp::data::Dataset: x and y, two tp::Tensors in braces, row i of one for row i of the other.");
  }

  /// All rows, in their original order.
  const Dataset& dataset() const { return dataset_; }

 private:
  Dataset dataset_;
};

/// The same for any number of arrays. Row i of one belongs to row i of the others:
///
///     tp::data::TupleLoader loader({ids, mask, labels}, {.batch = 32, .shuffle = true});
///     for (auto [ids, mask, labels] : loader) ...
///
/// A transform takes and returns a std::array of as many tensors.
template <std::size_t count>
class TupleLoader : public BasicLoader<std::array<Tensor, count>, count> {
 public:
  /// Throws InvalidArgumentError for a batch below 1, a negative prefetch, a shard that does not exist, scalars, and
  /// when the arrays have different numbers of rows.
  explicit TupleLoader(const Tensor (&arrays)[count], const BasicLoaderOptions<std::array<Tensor, count>>& options = {},
                       Where where = Where::here())
      : BasicLoader<std::array<Tensor, count>, count>(list_of_all(arrays), options, where) {}

 private:
  static Tensors list_of_all(const Tensor (&arrays)[count]) {
    Tensors list;
    for (const Tensor& each : arrays) list.push_back(each);
    return list;
  }
};

/// @}

}  // namespace tapestry::data
