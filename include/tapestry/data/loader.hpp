#pragma once

#include <cstdint>

#include "tapestry/data/dataset.hpp"

namespace tapestry::data {

struct LoaderOptions {
  std::int64_t batch = 32;
  bool shuffle = false;    ///< a new order in every epoch
  std::uint64_t seed = 0;  ///< of the orders: epoch k of a seed has the same order everywhere
  bool drop_last = false;  ///< leave out the last batch of an epoch when it is smaller than the others
};

/// The batches of a data set, in memory. Every loop over a Loader is one epoch:
///
///     for (auto [x, y] : loader) ...
///
/// A batch is a view of the data set's rows, or one gather of them when they are shuffled; never a copy row by row.
class TAPESTRY_API Loader {
 public:
  struct Batch {
    Tensor x, y;
  };
  class Iterator;
  struct End {};

  /// Throws InvalidArgumentError for a batch below 1, scalars, and when x and y are not equally long.
  explicit Loader(Dataset dataset, const LoaderOptions& options = {}, Where where = Where::here());

  /// Starts the next epoch, and ends the one before it.
  Iterator begin();
  End end() const { return {}; }

  /// Number of batches in an epoch.
  std::int64_t size() const;
  const Dataset& dataset() const { return dataset_; }

 private:
  void shuffle();
  Batch batch(std::int64_t index) const;

  Dataset dataset_;
  LoaderOptions options_;
  std::uint64_t epoch_ = 0;
  Tensor order_;  ///< int64 [n]: the rows in this epoch's order; empty when they are not shuffled
};

class Loader::Iterator {
 public:
  explicit Iterator(const Loader& loader) : loader_(&loader) {}
  Batch operator*() const { return loader_->batch(index_); }
  Iterator& operator++() {
    ++index_;
    return *this;
  }
  friend bool operator==(const Iterator& i, End) { return i.index_ == i.loader_->size(); }

 private:
  const Loader* loader_;
  std::int64_t index_ = 0;
};

inline Loader::Iterator Loader::begin() {
  ++epoch_;
  if (options_.shuffle) shuffle();
  return Iterator(*this);
}

}  // namespace tapestry::data
