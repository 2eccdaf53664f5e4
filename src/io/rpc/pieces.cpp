#include "io/rpc/pieces.hpp"

#include <utility>

#include "core/make_tensor.hpp"

namespace tapestry::io::rpc {

std::string_view Pieces::Piece::view() const {
  if (!tensor) return bytes;
  return {static_cast<const char*>(tensor.impl().data), detail::nbytes(tensor)};
}

std::string& Pieces::last_bytes() {
  if (list_.empty() || bool(list_.back().tensor)) {
    constexpr std::size_t usual_bytes = 240;
    list_.emplace_back().bytes.reserve(usual_bytes);
  }
  return list_.back().bytes;
}

void Pieces::add(std::string_view bytes) {
  last_bytes() += bytes;
  size_ += bytes.size();
}

void Pieces::add(const Tensor& tensor) {
  // Copying this much costs less than a piece of its own.
  constexpr std::size_t smallest_piece = 4096;
  const std::string_view bytes(static_cast<const char*>(tensor.impl().data), detail::nbytes(tensor));
  if (bytes.size() < smallest_piece) return add(bytes);
  size_ += bytes.size();
  list_.push_back({.tensor = tensor});
}

Pieces::Mark Pieces::end() {
  const std::size_t offset = last_bytes().size();
  return {list_.size() - 1, offset, size_};
}

void Pieces::insert(const Mark& at, std::string_view bytes) {
  list_[at.piece].bytes.insert(at.offset, bytes);
  size_ += bytes.size();
}

std::string Pieces::joined() const {
  std::string bytes;
  bytes.reserve(size_);
  for (const Piece& each : list_) bytes += each.view();
  return bytes;
}

}  // namespace tapestry::io::rpc
