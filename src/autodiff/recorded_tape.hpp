#pragma once

#include <unordered_map>

#include "autodiff/call_list.hpp"
#include "tapestry/tape.hpp"

namespace tapestry {

/// What a tape has recorded, for making a graph of it.
struct RecordedTape {
  explicit RecordedTape(const GradientTape& tape);

  const CallList& calls;
  std::unordered_map<std::int32_t, Variable> reads;  ///< by slot: the Variable whose value it is
};

}  // namespace tapestry
