#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace support {

/// Shows the progress of long work, the items per second and the time left: as a bar on a terminal, elsewhere as a line
/// every five seconds. It writes to the standard error output, so that the program's own output stays clean.
class Progress {
 public:
  Progress(std::string label, std::int64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Removes the bar.
  ~Progress();

  /// Counts one of the `total` items as done. The note, such as the loss, is shown beside the bar.
  void advance(const std::string& note = {});

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  std::int64_t total_, done_ = 0;
  bool terminal_;
  Clock::time_point start_, next_;
};

}  // namespace support
