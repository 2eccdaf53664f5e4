#include "serve/http_body.hpp"

#include <charconv>

#include "tapestry/error.hpp"

namespace tapestry::serve {

std::size_t HttpBody::read(std::span<std::byte> bytes) {
  if (left_ == 0 && in_chunks_) begin_chunk();
  if (left_ == 0) return 0;
  require_time(deadline_);
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), left_));
  const ssize_t count = connection_.read(reinterpret_cast<char*>(bytes.data()), most);
  if (count <= 0) io::refuse(*this, " was cut off");
  left_ -= static_cast<std::uint64_t>(count);
  return static_cast<std::size_t>(count);
}

/// Reads the mark of the next chunk: its size in hexadecimal, perhaps with something behind a ';'. Behind the last one,
/// of size 0, there may be headers.
void HttpBody::begin_chunk() {
  if (!is_first_ && !line().empty()) io::refuse(*this, " has a chunk that does not end");
  is_first_ = false;
  const std::string mark = line();
  const auto [end, error] = std::from_chars(mark.data(), mark.data() + mark.size(), left_, 16);
  const std::string_view behind(end, static_cast<std::size_t>(mark.data() + mark.size() - end));
  const std::size_t next = behind.find_first_not_of(" \t");
  if (error != std::errc() || (next != std::string_view::npos && behind[next] != ';'))
    io::refuse(*this, " has a chunk of no size");
  if (left_ > 0) return;
  in_chunks_ = false;
  constexpr int most_headers = 100;
  for (int i = 0; !line().empty(); ++i)
    if (i == most_headers) io::refuse(*this, " has too many headers behind it");
}

/// A line without its end.
std::string HttpBody::line() {
  constexpr std::size_t most = 8192;
  std::string text;
  char c = 0;
  while (connection_.read(&c, 1) == 1 && text.size() < most) {
    require_time(deadline_);
    if (c != '\n') {
      text += c;
    } else if (text.ends_with('\r')) {
      text.pop_back();
      return text;
    } else {
      break;  // who takes a bare '\n' for the end of a line may see other chunks than a proxy
    }
  }
  io::refuse(*this, " was cut off, or its chunks are wrong");
}

std::size_t UnpackedBody::read(std::span<std::byte> bytes) {
  while (true) {
    if (const std::size_t done = inflater_.read(bytes); done > 0 || bytes.empty()) return done;
    if (!inflater_.ended()) io::refuse(*this, " was cut off");
    if (!inflater_.next_member()) return 0;
    if (wrapping_ != io::Wrapping::gzip) io::refuse(*this, " has bytes behind its packed data");
  }
}

}  // namespace tapestry::serve
