#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tapestry/detail/function.hpp"
#include "tapestry/metrics.hpp"

namespace tapestry::train {

/// @addtogroup fit
/// @{

/// Numbers by their names: "loss", and those of the metrics.
using Logs = std::map<std::string, double>;

/// Where a `fit` is.
struct FitState {
  std::int64_t epochs = 0;   ///< how many there will be, if nothing stops it
  std::int64_t epoch = 0;    ///< the number of the current one, from 1
  std::int64_t batches = 0;  ///< of an epoch; 0 while that is unknown
  std::int64_t batch = 0;    ///< how many of the epoch have been trained on
  std::int64_t step = 0;     ///< how many of all epochs of this call have been
  double loss = 0;           ///< of the last batch, if a callback `needs_loss`
  Logs logs;                 ///< at the end of an epoch: what has been measured in it
  bool stop = false;         ///< a callback sets it to end the fit after this epoch, or at once within one
};

/// What happens beside the training. Each function may be empty.
struct Callback {
  std::function<void(FitState&)> begin = {};      ///< before the first epoch
  std::function<void(FitState&)> batch_end = {};  ///< after each batch
  std::function<void(FitState&)> epoch_end = {};  ///< after each epoch, when `logs` are known; in the order of the list
  std::function<void(FitState&)> end = {};        ///< after the last epoch
  /// Whether `batch_end` reads the loss of each batch. Then every step waits for a device.
  bool needs_loss = false;
};

/// Metrics by the names that they have in the logs. Only those whose result is a single number are logged.
using MetricsByName = std::map<std::string, metrics::Metric*>;

/// What `fit` does besides calling the step.
struct FitOptions {
  std::int64_t epochs = 1;  ///< train until the loader's epoch() has this value, so that a restored training goes on
  /// Metrics that the step updates. They are reset before each epoch and logged after it.
  MetricsByName metrics = {};
  /// Is called after each epoch, before its callbacks, and updates the metrics below.
  std::function<void()> validate = {};
  /// Metrics of the validation, such as "val_loss": reset before `validate`, and logged after it.
  MetricsByName validation_metrics = {};
  /// In the order in which they are called.
  std::vector<Callback> callbacks = {};
};

/// What `fit` has done.
struct FitHistory {
  std::vector<Logs> epochs;  ///< the logs of each epoch
  bool stopped = false;      ///< whether a callback has stopped it
};

/// For `fit` only: what does not depend on the types of the data and of the step.
class TAPESTRY_API FitLoop {
 public:
  /// Throws InvalidArgumentError for negative epochs, null pointers, and a name of two metrics.
  FitLoop(const FitOptions& options, std::int64_t epoch, std::int64_t batches, Where where);
  /// Whether there is a further epoch.
  bool begin_epoch(std::int64_t epoch);
  /// Whether the epoch goes on.
  bool end_batch(const Tensor& loss);
  /// Measures and logs.
  void end_epoch();
  /// What has been done.
  FitHistory end();

 private:
  void log(const MetricsByName& list);
  void call(std::function<void(FitState&)> Callback::*function);

  FitOptions options_;
  Where where_;
  FitState state_;
  FitHistory history_;
  metrics::Mean loss_;
  bool needs_loss_ = false, began_ = false;
};

/// Trains for some epochs: the loop that one would write by hand, with callbacks.
///
///     tp::metrics::Accuracy accuracy;
///     auto history = tp::train::fit(loader, [&](const tp::data::Batch& batch) {
///       auto [x, y] = batch;
///       return optimizer.minimize([&, x = x, y = y] { return loss(y, net(x)); });
///     }, {.epochs = 10, .metrics = {{"accuracy", &accuracy}},
///         .callbacks = {tp::train::show_progress(std::cerr), tp::train::save_checkpoints(checkpoint, dir)}});
///
/// `data` is a Loader, a Stream, or anything else with `begin`, `end` and `epoch()`. `step` takes a batch, makes a step
/// of training, and returns the loss, whose mean over the batches becomes "loss" of the logs. The loss is a number or a
/// tensor of one element, which may be on a device. Throws what the step and the callbacks throw, and
/// InvalidArgumentError when the loss is not a single number.
template <class Data, class Step>
FitHistory fit(Data& data, Step step, const FitOptions& options = {}, Where where = Where::here()) {
  tapestry::detail::require_function(step, "fit", where);
  std::int64_t batches = 0;
  if constexpr (requires { data.size(); }) batches = data.size();
  FitLoop loop(options, data.epoch(), batches, where);
  while (loop.begin_epoch(data.epoch())) {
    for (auto&& batch : data)
      if (!loop.end_batch(tensor(step(batch)))) break;
    loop.end_epoch();
  }
  return loop.end();
}

/// @}

}  // namespace tapestry::train
