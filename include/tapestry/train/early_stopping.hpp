#pragma once

#include <cstdint>

#include "tapestry/state_dict.hpp"

namespace tapestry::train {

/// @addtogroup optimizers
/// @{

/// What counts as getting better.
struct EarlyStoppingOptions {
  std::int64_t patience = 5;  ///< so many values in a row that are no better than the best one end it, >= 1
  double min_delta = 0;       ///< a value is better only by more than this, >= 0
  bool maximize = false;      ///< whether larger is better, as for an accuracy
};

/// Says when a value, mostly the loss on data set aside, has stopped getting better:
///
///     tp::train::EarlyStopping stopping({.patience = 3});
///     while (!stopping.update(validation_loss()))
///       if (stopping.is_best()) best = net;
class TAPESTRY_API EarlyStopping {
 public:
  /// Throws InvalidArgumentError for options out of their range.
  explicit EarlyStopping(const EarlyStoppingOptions& options = {}, Where where = Where::here());

  /// Takes the next value in, and returns whether to stop: `patience` values in a row were no better than the
  /// best one. A NaN is never better.
  bool update(double value);
  /// Whether the last value was the best one so far.
  bool is_best() const { return updates_ > 0 && updates_ == best_update_; }
  /// The best value so far; before the first one, infinity or its negative.
  double best() const { return best_; }
  /// Which update gave it, from 1; 0 before the first.
  std::int64_t best_update() const { return best_update_; }

  /// "best", "best_update" and "updates", for checkpoints.
  StateDict state_dict() const;
  /// Throws InvalidArgumentError when these are not the tensors that `state_dict` gives.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  EarlyStoppingOptions options_;
  double best_;
  std::int64_t updates_ = 0, best_update_ = 0;
};

/// @}

}  // namespace tapestry::train
