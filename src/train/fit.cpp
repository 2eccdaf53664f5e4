#include "tapestry/train/fit.hpp"

#include "dispatch/recorder.hpp"
#include "train/arguments.hpp"

namespace tapestry::train {

using detail::join;

FitLoop::FitLoop(const FitOptions& options, std::int64_t epoch, std::int64_t batches, Where where)
    : options_(options), where_(where) {
  require(options.epochs >= 0, "epochs", options.epochs, ">= 0", where);
  for (const auto* list : {&options.metrics, &options.validation_metrics})
    for (const auto& [name, metric] : *list)
      if (!metric) throw InvalidArgumentError(join("The metric '", name, "' is a null pointer"), where);
  for (const auto& [name, metric] : options.validation_metrics)
    if (options.metrics.contains(name))
      throw InvalidArgumentError(
          join("Two metrics have the name '", name, "' in the logs; call that of the validation '", "val_", name, "'"),
          where);
  state_.epochs = options.epochs;
  state_.epoch = epoch;
  state_.batches = batches;
  for (const Callback& each : options_.callbacks) needs_loss_ |= each.needs_loss;
}

void FitLoop::call(std::function<void(FitState&)> Callback::*function) {
  for (const Callback& each : options_.callbacks)
    if (each.*function) (each.*function)(state_);
}

bool FitLoop::begin_epoch(std::int64_t epoch) {
  if (!began_) call(&Callback::begin);
  began_ = true;
  if (state_.stop || epoch >= options_.epochs) return false;
  state_.epoch = epoch + 1;
  state_.batch = 0;
  state_.logs.clear();
  loss_.reset();
  for (const auto& [name, metric] : options_.metrics) metric->reset();
  return true;
}

bool FitLoop::end_batch(const Tensor& loss) {
  if (!loss || loss.size() != 1)
    throw InvalidArgumentError(join("The step of `fit` must return one number, the loss, not ",
                                    loss ? join(loss.dtype(), loss.shape()) : "an empty Tensor"),
                               where_);
  {
    const ExecuteNow now;
    loss_.update(loss);
  }
  ++state_.batch;
  ++state_.step;
  if (needs_loss_) state_.loss = loss.item<double>();
  call(&Callback::batch_end);
  return !state_.stop;
}

void FitLoop::log(const MetricsByName& list) {
  const ExecuteNow now;
  for (const auto& [name, metric] : list) {
    const Tensor result = metric->result();
    if (result.size() == 1) state_.logs[name] = result.item<double>();  // and not a matrix
  }
}

void FitLoop::end_epoch() {
  if (state_.batch > 0) log({{"loss", &loss_}});
  log(options_.metrics);
  if (options_.validate) {
    for (const auto& [name, metric] : options_.validation_metrics) metric->reset();
    options_.validate();
    log(options_.validation_metrics);
  }
  if (!state_.stop) state_.batches = state_.batch;
  call(&Callback::epoch_end);
  history_.epochs.push_back(state_.logs);
}

FitHistory FitLoop::end() {
  call(&Callback::end);
  history_.stopped = state_.stop;
  return history_;
}

}  // namespace tapestry::train
