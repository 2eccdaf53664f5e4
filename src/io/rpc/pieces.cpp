#include "io/rpc/pieces.hpp"

#include <utility>

#include "core/make_tensor.hpp"

namespace tapestry::io::rpc {

std::string_view Pieces::Piece::view() const {
  if (!tensor) return bytes;
  return {static_cast<const char*>(tensor.impl().data), detail::nbytes(tensor)};
}

void Pieces::add(std::string_view bytes) {
  if (list_.empty() || bool(list_.back().tensor)) list_.emplace_back();
  list_.back().bytes += bytes;
  size_ += bytes.size();
}

void Pieces::add(const Tensor& tensor) {
  // Copying this much costs less than a piece of its own.
  constexpr std::size_t smallest_piece = 4096;
  Piece piece{.tensor = tensor};
  const std::string_view bytes = piece.view();
  if (bytes.size() < smallest_piece) return add(bytes);
  size_ += bytes.size();
  list_.push_back(std::move(piece));
}

void Pieces::add(Pieces other) {
  for (Piece& each : other.list_) {
    if (!each.tensor) {
      add(each.bytes);
    } else {
      size_ += each.view().size();
      list_.push_back(std::move(each));
    }
  }
}

std::string Pieces::joined() const {
  std::string bytes;
  bytes.reserve(size_);
  for (const Piece& each : list_) bytes += each.view();
  return bytes;
}

}  // namespace tapestry::io::rpc
