#pragma once

#include <string>
#include <vector>

#include "tapestry/state_dict.hpp"
#include "tapestry/variable.hpp"

namespace tapestry::train {

/// @addtogroup optimizers
/// @{

/// Running means of Variables: average = decay * average + (1 - decay) * value at each `update`, from the values that
/// the Variables have when this is made. Averaged weights often predict better than the last ones.
///
///     tp::train::ExponentialMovingAverage averages(0.999, net.parameters());
///     ... optimizer.minimize(...); averages.update();
///     averages.exchange();      // the net has the averages
///     ... evaluate ...
///     averages.exchange();      // and its own values again
///
/// `update` is made of ops and may stand in a trace. (B. Polyak, A. Juditsky, "Acceleration of stochastic approximation
/// by averaging", 1992.)
class TAPESTRY_API ExponentialMovingAverage {
 public:
  /// Throws InvalidArgumentError unless 0 <= decay < 1, for no Variables, and for one that is not of a float type.
  ExponentialMovingAverage(double decay, const std::vector<Variable>& variables, Where where = Where::here());

  /// Takes the values in that the Variables have now.
  void update(Where where = Where::here());
  /// The average of a Variable. Throws NotFoundError for one that is not averaged.
  Tensor average(const Variable& variable, Where where = Where::here()) const;
  /// Gives the Variables their averages, and keeps their values in place of those; at the next call it is undone. Not
  /// for traces, which it would not become part of.
  void exchange();

  /// The averages by the names of the Variables, for checkpoints; of several of one name the second is "w#2".
  StateDict state_dict() const;
  /// Throws InvalidArgumentError when a name is missing or one too many, or a value does not fit; then nothing has
  /// changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  struct Average {
    Variable variable, average;
    std::string key;
  };

  double decay_;
  std::vector<Average> averages_;
};

/// @}

}  // namespace tapestry::train
