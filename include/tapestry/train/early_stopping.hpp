#pragma once

#include <cstdint>

#include "tapestry/state_dict.hpp"

namespace tapestry::train {

/// @addtogroup optimizers
/// @{

/// What counts as an improvement, and how long to wait for one.
struct EarlyStoppingOptions {
  std::int64_t patience = 5;  ///< the number of values in a row without an improvement after which to stop, >= 1
  double min_delta = 0;       ///< an improvement must be larger than this, >= 0
  bool maximize = false;      ///< whether larger values are better, as for an accuracy
};

/// Tells when a value, usually the loss on validation data, no longer improves:
///
///     tp::train::EarlyStopping stopping({.patience = 3});
///     while (!stopping.update(validation_loss()))
///       if (stopping.is_best()) best = net;
class TAPESTRY_API EarlyStopping {
 public:
  /// Throws InvalidArgumentError for options out of their range.
  explicit EarlyStopping(const EarlyStoppingOptions& options = {}, Where where = Where::here());

  /// Adds the next value and returns whether to stop, because `patience` values in a row were not better than the best
  /// one. A NaN is never better.
  bool update(double value);
  /// Whether the last value was the best one so far.
  bool is_best() const { return updates_ > 0 && updates_ == best_update_; }
  /// The best value so far. Before the first one, it is infinity, or, with `maximize`, minus infinity.
  double best() const { return best_; }
  /// The number of the update with the best value, from 1; 0 before the first update.
  std::int64_t best_update() const { return best_update_; }

  /// "best", "best_update" and "updates", for checkpoints.
  StateDict state_dict() const;
  /// Restores such a state. Throws InvalidArgumentError unless these are the tensors of a `state_dict`.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  EarlyStoppingOptions options_;
  double best_;
  std::int64_t updates_ = 0, best_update_ = 0;
};

/// @}

}  // namespace tapestry::train
