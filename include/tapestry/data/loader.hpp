#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>

#include "tapestry/data/dataset.hpp"
#include "tapestry/state_dict.hpp"

namespace tapestry::data {

/// @addtogroup data
/// @{

/// Rows of a data set: row i of `x` belongs to row i of `y`.
struct Batch {
  Tensor x;  ///< [batch, ...]
  Tensor y;  ///< [batch, ...]
};

/// How a Loader makes batches.
struct LoaderOptions {
  std::int64_t batch = 32;  ///< rows in a batch
  bool shuffle = false;     ///< a new order in every epoch
  std::uint64_t seed = 0;   ///< of the orders: epoch k of a seed has the same order on every machine
  bool drop_last = false;   ///< leave out the last batch of an epoch when it is smaller than the others
  /// Applied to each batch: scaling, noise, flips. It must give a batch of its own and leave the one that it gets.
  std::function<Batch(const Batch&)> transform = {};
  /// So many batches are made ready beforehand, by a thread of the epoch's own; 0: each when its turn comes. Worth it
  /// when a transform costs time. Draws of `tp::random` in a prefetched transform mix with those of the loop in an
  /// order that chance decides, so that a run with them cannot be repeated.
  std::int64_t prefetch = 0;
};

/// The batches of a data set, in memory. Every loop over a Loader is one epoch:
///
///     for (auto [x, y] : loader) ...
///
/// A batch is a view of the data set's rows, or one gather of them when they are shuffled; never a copy row by row.
/// What a transform throws comes out of the loop. Left early, a loop ends its epoch.
///
/// The position is part of the state, for checkpoints. After `load_state_dict` the next loop goes on behind the batch
/// that had been handed out last when the state was taken:
///
///     while (loader.epoch() < 10)
///       for (auto [x, y] : loader) ...
class TAPESTRY_API Loader {
 public:
  using Batch = data::Batch;  ///< what the loop gets
  class Iterator;
  struct End {};  ///< behind the last batch

  /// Throws InvalidArgumentError for a batch below 1, a negative prefetch, scalars, and when x and y are not equally
  /// long.
  explicit Loader(Dataset dataset, const LoaderOptions& options = {}, Where where = Where::here());
  /// Does not compile: no data set.
  template <class T>
  requires(!std::convertible_to<const T&, Dataset> &&
           !std::derived_from<T, Loader>) explicit Loader(const T&, const LoaderOptions& options = {})
      : Loader(Dataset(), options) {
    constexpr bool good = std::convertible_to<const T&, Dataset>;
    static_assert(
        good,
        "A Loader takes a tp::data::Dataset: x and y, two tp::Tensors in braces, row i of one for row i of the other.");
  }

  /// Starts the next epoch, or goes on with the one that `load_state_dict` has left open. The Loader must stay where it
  /// is while the iterator lives.
  Iterator begin();
  /// The end of every loop.
  End end() const { return {}; }

  /// Number of batches in an epoch.
  std::int64_t size() const;
  /// All rows, in their own order.
  const Dataset& dataset() const { return dataset_; }
  /// Number of epochs of which the last batch has been handed out, or that have been left early.
  std::int64_t epoch() const { return epoch_; }

  /// The position: "epoch" and "batch", the number of batches of that epoch that have been handed out (int64).
  StateDict state_dict() const;
  /// Throws InvalidArgumentError when these are not the tensors that `state_dict` gives, or the epochs are too short.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  class Epoch;

  Dataset dataset_;
  LoaderOptions options_;
  std::int64_t epoch_ = 0, batch_ = 0;
  bool restored_ = false;  ///< the next loop does not start an epoch
};

/// Copies of an iterator stand at the same place and move together only until one of them is advanced: use one.
class TAPESTRY_API Loader::Iterator {
 public:
  /// The batch at this place.
  const Batch& operator*() const { return batch_; }
  /// Goes on to the next batch; throws what a transform throws.
  Iterator& operator++() {
    advance();
    return *this;
  }
  /// Whether the last batch lies behind it.
  friend bool operator==(const Iterator& i, End) { return !i.epoch_; }

 private:
  friend class Loader;
  Iterator(Loader& loader, std::shared_ptr<Epoch> epoch) : loader_(&loader), epoch_(std::move(epoch)) { advance(); }
  void advance();

  Loader* loader_;
  std::shared_ptr<Epoch> epoch_;  ///< empty behind the last batch
  Batch batch_;
};

/// @}

}  // namespace tapestry::data
