#include "progress.hpp"

#include <cstdio>
#include <utility>

#include <unistd.h>

namespace support {

Progress::Progress(std::string label, std::int64_t total)
    : label_(std::move(label)), total_(total), terminal_(::isatty(STDERR_FILENO) != 0) {
  next_ = Clock::now() + (terminal_ ? std::chrono::milliseconds(0) : std::chrono::seconds(5));
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
  if (terminal_) {
    const int width = 30, filled = percent * width / 100;
    const std::string bar =
        std::string(static_cast<std::size_t>(filled), '#') + std::string(static_cast<std::size_t>(width - filled), '-');
    std::fprintf(stderr, "\r%s [%s] %3d %% %s\033[K", label_.c_str(), bar.c_str(), percent, note.c_str());
    std::fflush(stderr);
  } else {
    std::fprintf(stderr, "%s: %d %% %s\n", label_.c_str(), percent, note.c_str());
  }
}

}  // namespace support
