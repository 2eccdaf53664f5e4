#pragma once

#include <string>
#include <vector>

#include "tapestry/state_dict.hpp"
#include "tapestry/variable.hpp"

namespace tapestry::train {

/// @addtogroup optimizers
/// @{

/// Running means of Variables. Each `update` computes average = decay * average + (1 - decay) * value; the first
/// averages are the values that the Variables have when the object is created. Averaged weights often predict better
/// than the last ones.
///
///     tp::train::ExponentialMovingAverage averages(0.999, net.parameters());
///     ... optimizer.minimize(...); averages.update();
///     averages.exchange();      // the net has the averages
///     ... evaluate ...
///     averages.exchange();      // and its own values again
///
/// `update` is made of ops and can be part of a trace. (B. Polyak, A. Juditsky, "Acceleration of stochastic
/// approximation by averaging", 1992.)
class TAPESTRY_API ExponentialMovingAverage {
 public:
  /// Throws InvalidArgumentError unless 0 <= decay < 1, for an empty list, and for a Variable that is not of a float
  /// type.
  ExponentialMovingAverage(double decay, const std::vector<Variable>& variables, Where where = Where::here());

  /// A move copies, so that what was moved from can still be used.
  /// @{
  ExponentialMovingAverage(const ExponentialMovingAverage&) = default;
  ExponentialMovingAverage& operator=(const ExponentialMovingAverage&) = default;
  ~ExponentialMovingAverage() = default;
  /// @}

  /// Updates the averages with the current values of the Variables.
  void update(Where where = Where::here());
  /// The average of a Variable. Throws NotFoundError for a Variable that is not averaged.
  Tensor average(const Variable& variable, Where where = Where::here()) const;
  /// Exchanges the values of the Variables and their averages. The next call undoes this. It can be part of a trace,
  /// but it is no node of a graph that is built by hand.
  void exchange(Where where = Where::here());

  /// The averages by the names of the Variables, for checkpoints. The second Variable of the name "w" is "w#2".
  StateDict state_dict() const;
  /// Restores such a state. Throws InvalidArgumentError when a name is missing or unknown, or a value does not fit;
  /// then nothing has changed.
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
