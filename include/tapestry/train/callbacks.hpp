#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "tapestry/checkpoint.hpp"
#include "tapestry/train/early_stopping.hpp"
#include "tapestry/train/fit.hpp"
#include "tapestry/train/optimizer.hpp"

namespace tapestry::train {

/// @addtogroup fit
/// @{

/// Writes a line for each epoch, with its logs and the seconds it took, and, every `seconds` within one, how far it is,
/// the batches per second, and the time that is left of all epochs. The stream must outlive the fit.
TAPESTRY_API Callback show_progress(std::ostream& out, double seconds = 5);

/// Stops when a number of the logs, such as "val_loss", no longer improves. The callback throws NotFoundError when the
/// logs have no such number.
TAPESTRY_API Callback stop_early(const std::string& log, const EarlyStoppingOptions& options = {},
                                 Where where = Where::here());

/// Calls a function after each epoch in which a number of the logs was the best so far: to keep the best weights.
TAPESTRY_API Callback on_best(const std::string& log, std::function<void(const FitState&)> function,
                              const EarlyStoppingOptions& options = {}, Where where = Where::here());

/// How often `save_checkpoints` saves.
struct SavingOptions {
  std::int64_t every_epochs = 1;  ///< after how many epochs; the last one is always saved
  std::int64_t every_steps = 0;   ///< after how many steps, within epochs too; 0: only after epochs
};
/// Saves checkpoints into a folder. Throws what `Checkpoint::save` throws.
TAPESTRY_API Callback save_checkpoints(const Checkpoint& checkpoint, const std::string& dir,
                                       const SavingOptions& options = {}, Where where = Where::here());

/// Writes the logs of each epoch as scalars for TensorBoard, at the number of the epoch.
TAPESTRY_API Callback write_summaries(const std::string& dir, Where where = Where::here());

/// Adds the learning rate of an optimizer, which must outlive the fit, to the logs, as "learning_rate".
TAPESTRY_API Callback log_learning_rate(const Optimizer& optimizer);

/// How `reduce_learning_rate` reduces it.
struct PlateauOptions {
  double factor = 0.1;        ///< by which the rate is multiplied, in (0, 1)
  double least = 0;           ///< the rate does not become lower
  std::int64_t patience = 5;  ///< the number of epochs without an improvement, >= 1
  double min_delta = 0;       ///< an improvement must be larger than this, >= 0
  bool maximize = false;      ///< whether larger values are better
};
/// Reduces an optimizer's learning rate, which becomes a constant, when a number of the logs no longer improves: Keras'
/// ReduceLROnPlateau. The optimizer must outlive the fit.
TAPESTRY_API Callback reduce_learning_rate(Optimizer& optimizer, const std::string& log,
                                           const PlateauOptions& options = {}, Where where = Where::here());

/// @}

}  // namespace tapestry::train
