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
#include "tapestry/state_dict.hpp"

namespace tapestry::data {

/// @addtogroup data
/// @{

/// Rows of a data set: row i of `x` belongs to row i of `y`.
struct Batch {
  Tensor x;  ///< [batch, ...]
  Tensor y;  ///< [batch, ...]
};

/// How a loader makes batches, which are of the type B.
template <class B>
struct BasicLoaderOptions {
  std::int64_t batch = 32;  ///< rows in a batch
  bool shuffle = false;     ///< a new order in every epoch
  std::uint64_t seed = 0;   ///< of the orders: epoch k of a seed has the same order on every machine
  bool drop_last = false;   ///< leave out the last batch of an epoch when it is smaller than the others
  /// Applied to each batch: scaling, noise, flips. It must give a batch of its own and leave the one that it gets.
  std::function<B(const B&)> transform = {};
  /// So many batches are made ready beforehand, by a thread of the epoch's own; 0: each when its turn comes. Worth it
  /// when a transform costs time. Draws of `tp::random` in a prefetched transform mix with those of the loop in an
  /// order that chance decides, so that a run with them cannot be repeated.
  std::int64_t prefetch = 0;
};
/// Those of a Loader.
using LoaderOptions = BasicLoaderOptions<Batch>;

/// What all loaders have in common: the batches of some arrays with equally many rows, epoch after epoch.
class TAPESTRY_API RowLoader {
 public:
  struct End {};  ///< behind the last batch

  /// Copies stand at the same place, and go on by themselves.
  /// @{
  RowLoader(const RowLoader& other);
  RowLoader(RowLoader&&) noexcept = default;
  RowLoader& operator=(const RowLoader& other) { return *this = RowLoader(other); }
  RowLoader& operator=(RowLoader&&) noexcept = default;
  ~RowLoader() = default;
  /// @}

  /// The end of every loop.
  End end() const { return {}; }

  /// Number of batches in an epoch.
  std::int64_t size() const;
  /// Number of epochs of which the last batch has been handed out, or that have been left early.
  std::int64_t epoch() const { return position_->epoch + (position_->left ? 1 : 0); }

  /// The position: "epoch" and "batch", the number of batches of that epoch that have been handed out (int64). Behind a
  /// loop that was left early it is still the place where that was: a training that is stopped and saved there goes on
  /// with the batches that it has not seen, while the next loop of this loader starts an epoch.
  StateDict state_dict() const;
  /// Throws InvalidArgumentError when these are not the tensors that `state_dict` gives, or the epochs are too short.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 protected:
  /// For the classes of loaders: options whose batches are lists. Throws what those say.
  RowLoader(Tensors arrays, BasicLoaderOptions<Tensors> options, Where where);

  /// The batches of one epoch, of which a loop takes one after the other. Its end, wherever that is, ends the epoch.
  class Epoch;
  /// The next epoch, or the rest of the one that `load_state_dict` has left open.
  std::shared_ptr<Epoch> start();
  /// The next batch of an epoch; makes the handle empty when there is none.
  static Tensors next(std::shared_ptr<Epoch>& epoch);

 private:
  struct Position {
    std::int64_t epoch = 0, batch = 0;
    bool restored = false;           ///< the next loop does not start an epoch
    bool left = false;               ///< the loop that was here has ended early
    const Epoch* running = nullptr;  ///< the last one that was started, while it lasts
  };

  Tensors arrays_;
  BasicLoaderOptions<Tensors> options_;
  std::shared_ptr<Position> position_;  ///< shared with the epochs, which may end later than the loader
};

/// A RowLoader with batches of the type B, made of lists by `B{list[0], list[1], ...}`.
template <class B, std::size_t size_of_batch>
class BasicLoader : public RowLoader {
 public:
  using Batch = B;  ///< what the loop gets

  /// Copies of an iterator stand at the same place and move together only until one of them is advanced: use one.
  class Iterator {
   public:
    /// The batch at this place.
    const B& operator*() const { return batch_; }
    /// Goes on to the next batch; throws what a transform throws.
    Iterator& operator++() {
      const Tensors list = next(epoch_);
      batch_ = epoch_ ? batch_of(list) : B{};
      return *this;
    }
    /// Whether the last batch lies behind it.
    friend bool operator==(const Iterator& i, End) { return !i.epoch_; }

   private:
    friend class BasicLoader;
    explicit Iterator(std::shared_ptr<Epoch> epoch) : epoch_(std::move(epoch)) { ++*this; }

    std::shared_ptr<Epoch> epoch_;  ///< empty behind the last batch
    B batch_;
  };

  /// Starts the next epoch, or goes on with the one that `load_state_dict` has left open.
  Iterator begin() { return Iterator(start()); }

 protected:
  /// As that of a RowLoader.
  BasicLoader(Tensors arrays, const BasicLoaderOptions<B>& options, Where where)
      : RowLoader(std::move(arrays),
                  {.batch = options.batch,
                   .shuffle = options.shuffle,
                   .seed = options.seed,
                   .drop_last = options.drop_last,
                   .transform = of_lists(options.transform),
                   .prefetch = options.prefetch},
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
class TAPESTRY_API Loader : public BasicLoader<Batch, 2> {
 public:
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

  /// All rows, in their own order.
  const Dataset& dataset() const { return dataset_; }

 private:
  Dataset dataset_;
};

/// The same for any number of arrays, whose rows belong together:
///
///     tp::data::TupleLoader loader({ids, mask, labels}, {.batch = 32, .shuffle = true});
///     for (auto [ids, mask, labels] : loader) ...
///
/// A transform gets and gives a std::array of as many tensors.
template <std::size_t count>
class TupleLoader : public BasicLoader<std::array<Tensor, count>, count> {
 public:
  /// Throws InvalidArgumentError for a batch below 1, a negative prefetch, scalars, and when the arrays are not equally
  /// long.
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
