#include "tapestry/train/early_stopping.hpp"

#include <limits>

#include "tapestry/ops/creation.hpp"
#include "train/arguments.hpp"

namespace tapestry::train {

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options, Where where)
    : options_(options), best_(std::numeric_limits<double>::infinity()) {
  require(options.patience >= 1, "patience", options.patience, ">= 1", where);
  require_not_negative(options.min_delta, "min_delta", where);
  if (options.maximize) best_ = -best_;
}

bool EarlyStopping::update(double value) {
  ++updates_;
  const bool better = options_.maximize ? value > best_ + options_.min_delta : value < best_ - options_.min_delta;
  if (better) {
    best_ = value;
    best_update_ = updates_;
  }
  return updates_ - best_update_ >= options_.patience;
}

StateDict EarlyStopping::state_dict() const {
  return {{"best", tensor<double>(best_)}, {"best_update", tensor(best_update_)}, {"updates", tensor(updates_)}};
}

void EarlyStopping::load_state_dict(const StateDict& state, Where where) {
  const auto scalar = [&](const char* name, DType dtype) {
    const auto found = state.find(name);
    if (found == state.end() || !found->second || found->second.dtype() != dtype || found->second.rank() != 0)
      throw InvalidArgumentError(
          detail::join("The state of an EarlyStopping needs '", name, "', a scalar of ", to_string(dtype)), where);
    return found->second;
  };
  const auto best = scalar("best", float64).item<double>();
  const auto best_update = scalar("best_update", int64).item<std::int64_t>();
  const auto updates = scalar("updates", int64).item<std::int64_t>();
  if (state.size() != 3 || best_update < 0 || updates < best_update ||
      updates == std::numeric_limits<std::int64_t>::max())
    throw InvalidArgumentError(
        detail::join("No EarlyStopping has had its best value at update ", best_update, " of ", updates), where);
  best_ = best;
  best_update_ = best_update;
  updates_ = updates;
}

}  // namespace tapestry::train
