#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace support {

/// How far long work has come, how many parts are done in a second, and the time that is left: a bar that is redrawn on
/// a terminal, a line every five seconds where the output goes elsewhere. Writes to the standard error output, so that
/// the program's own output stays clean.
class Progress {
 public:
  Progress(std::string label, std::int64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Takes the bar away again.
  ~Progress();

  /// One of the `total` parts is done. The note, such as the loss, is shown beside the bar.
  void advance(const std::string& note = {});

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  std::int64_t total_, done_ = 0;
  bool terminal_;
  Clock::time_point start_, next_;
};

}  // namespace support
