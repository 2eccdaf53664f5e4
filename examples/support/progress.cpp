#include "progress.hpp"

#include <cmath>
#include <cstdio>
#include <utility>

#include <unistd.h>

namespace support {

Progress::Progress(std::string label, std::int64_t total)
    : label_(std::move(label)), total_(total), terminal_(::isatty(STDERR_FILENO) != 0), start_(Clock::now()) {
  next_ = start_ + (terminal_ ? std::chrono::milliseconds(0) : std::chrono::seconds(5));
}

Progress::~Progress() {
  const char* erase_line = "\r\033[K";
  if (terminal_) std::fputs(erase_line, stderr);
}

void Progress::advance(const std::string& note) {
  ++done_;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + (terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(5));
  const auto percent = static_cast<int>(100 * done_ / total_);
  const double rate = static_cast<double>(done_) / std::chrono::duration<double>(now - start_).count();
  const auto left = static_cast<int>(std::ceil(static_cast<double>(total_ - done_) / rate));
  if (terminal_) {
    const int width = 30, filled = percent * width / 100;
    const std::string bar =
        std::string(static_cast<std::size_t>(filled), '#') + std::string(static_cast<std::size_t>(width - filled), '-');
    std::fprintf(stderr, "\r%s [%s] %3d %%  %s  %.1f/s  %d:%02d left\033[K", label_.c_str(), bar.c_str(), percent,
                 note.c_str(), rate, left / 60, left % 60);
    std::fflush(stderr);
  } else {
    std::fprintf(stderr, "%s: %d %%  %s  %.1f/s  %d:%02d left\n", label_.c_str(), percent, note.c_str(), rate,
                 left / 60, left % 60);
  }
}

}  // namespace support
