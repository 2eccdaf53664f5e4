#include "tapestry/train/callbacks.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <ostream>

#include "tapestry/detail/function.hpp"
#include "tapestry/summary.hpp"
#include "train/arguments.hpp"

namespace tapestry::train {
namespace {

using detail::join;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// "4:05", "1:00:07".
std::string duration(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(seconds));
  std::array<char, 32> text;
  if (whole >= 3600) {
    std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%lld:%02lld", whole / 60, whole % 60);
  }
  return text.data();
}

std::string short_number(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

double find(const Logs& logs, const std::string& name, Where where) {
  const auto found = logs.find(name);
  if (found != logs.end()) return found->second;
  std::string names;
  for (const auto& [each, value] : logs) names += (names.empty() ? "" : ", ") + each;
  throw NotFoundError(join("The logs of an epoch have no '", name, "', but ", names.empty() ? "nothing" : names),
                      where);
}

/// What `show_progress` keeps.
class Progress {
 public:
  Progress(std::ostream& out, double seconds) : out_(out), seconds_(seconds) {}

  void begin() { start_ = epoch_start_ = last_ = Clock::now(); }

  void end_batch(const FitState& state) {
    if (seconds_since(last_) < seconds_) return;
    last_ = Clock::now();
    const double rate = static_cast<double>(state.step) / seconds_since(start_);
    out_ << "epoch " << state.epoch << '/' << state.epochs << ", batch " << state.batch;
    if (state.batches > 0) out_ << '/' << state.batches;
    out_ << ", " << short_number(rate) << " batches/s";
    if (state.batches > 0) {
      const std::int64_t all = (state.epochs - state.epoch + 1) * state.batches;
      out_ << ", " << duration(static_cast<double>(all - state.batch) / rate) << " left";
    }
    out_ << std::endl;
  }

  void end_epoch(const FitState& state) {
    out_ << "epoch " << state.epoch << '/' << state.epochs << ':';
    for (const auto& [name, value] : state.logs) out_ << ' ' << name << ' ' << short_number(value);
    const auto epochs_left = static_cast<double>(state.epochs - state.epoch);
    const double took = seconds_since(epoch_start_);
    out_ << " (" << duration(took);
    if (epochs_left > 0 && !state.stop) out_ << ", " << duration(epochs_left * took) << " left";
    out_ << ')' << std::endl;
    epoch_start_ = last_ = Clock::now();
  }

 private:
  std::ostream& out_;
  double seconds_;
  Clock::time_point start_, epoch_start_, last_;
};

}  // namespace

Callback show_progress(std::ostream& out, double seconds) {
  const auto progress = std::make_shared<Progress>(out, seconds);
  return {.begin = [progress](FitState&) { progress->begin(); },
          .batch_end = [progress](FitState& state) { progress->end_batch(state); },
          .epoch_end = [progress](FitState& state) { progress->end_epoch(state); }};
}

Callback stop_early(const std::string& log, const EarlyStoppingOptions& options, Where where) {
  const auto stopping = std::make_shared<EarlyStopping>(options, where);
  return {.epoch_end = [stopping, log, where](FitState& state) {
    if (stopping->update(find(state.logs, log, where))) state.stop = true;
  }};
}

Callback on_best(const std::string& log, std::function<void(const FitState&)> function,
                 const EarlyStoppingOptions& options, Where where) {
  detail::require_function(function, "on_best", where);
  const auto best = std::make_shared<EarlyStopping>(options, where);
  return {.epoch_end = [best, log, function = std::move(function), where](FitState& state) {
    best->update(find(state.logs, log, where));
    if (best->is_best()) function(state);
  }};
}

Callback save_checkpoints(const Checkpoint& checkpoint, const std::string& dir, const SavingOptions& options,
                          Where where) {
  require(options.every_epochs >= 1, "every_epochs", options.every_epochs, ">= 1", where);
  require(options.every_steps >= 0, "every_steps", options.every_steps, ">= 0", where);
  const auto save = [checkpoint, dir, where] { checkpoint.save(dir, where); };
  Callback callback;
  if (options.every_steps > 0)
    callback.batch_end = [save, every = options.every_steps](FitState& state) {
      if (state.step % every == 0) save();
    };
  callback.epoch_end = [save, every = options.every_epochs](FitState& state) {
    if (state.epoch % every == 0 || state.epoch == state.epochs || state.stop) save();
  };
  return callback;
}

Callback write_summaries(const std::string& dir, Where where) {
  const auto writer = std::make_shared<summary::FileWriter>(dir, where);
  return {.epoch_end = [writer, where](FitState& state) {
    for (const auto& [name, value] : state.logs) writer->add_scalar(name, value, state.epoch, where);
    writer->flush(where);
  }};
}

Callback log_learning_rate(const Optimizer& optimizer) {
  return {.epoch_end = [&optimizer](FitState& state) { state.logs["learning_rate"] = optimizer.learning_rate(); }};
}

Callback reduce_learning_rate(Optimizer& optimizer, const std::string& log, const PlateauOptions& options,
                              Where where) {
  require(options.factor > 0 && options.factor < 1, "factor", options.factor, "in (0, 1)", where);
  require_not_negative(options.least, "least", where);
  const EarlyStoppingOptions waiting{options.patience, options.min_delta, options.maximize};
  struct Plateau {
    EarlyStopping best;
    std::int64_t waited = 0;
  };
  const auto plateau = std::make_shared<Plateau>(Plateau{EarlyStopping(waiting, where)});
  return {.epoch_end = [plateau, &optimizer, log, options, where](FitState& state) {
    plateau->best.update(find(state.logs, log, where));
    plateau->waited = plateau->best.is_best() ? 0 : plateau->waited + 1;
    if (plateau->waited < options.patience) return;
    plateau->waited = 0;
    optimizer.set_learning_rate(std::max(options.least, optimizer.learning_rate() * options.factor));
  }};
}

}  // namespace tapestry::train
