#pragma once

#include <cstdint>

namespace tapestry::host {

/// A run of windows side by side: window i reads the elements x[taps[k] + i * step + c] for its `count` taps k and each
/// channel c. Tap k is at `places[k]` of the window.
struct WindowRun {
  std::int64_t windows, step;
  const std::int64_t *taps, *places;
  std::int64_t count;
};

}  // namespace tapestry::host
