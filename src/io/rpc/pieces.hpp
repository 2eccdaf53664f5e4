#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/tensor.hpp"

namespace tapestry::io::rpc {

/// The bytes of a message, in pieces that need not lie together: large tensors stay where they are.
class Pieces {
 public:
  struct Piece {
    std::string bytes{};
    Tensor tensor{};  ///< on the host and contiguous; not empty: its memory is the piece

    std::string_view view() const;
  };

  void add(std::string_view bytes);
  /// Adds the memory of a tensor on the host, which must be contiguous.
  void add(const Tensor& tensor);

  /// A place in the message.
  struct Mark {
    std::size_t piece, offset;
    std::size_t size;  ///< of the message before it
  };
  /// The end of the message.
  Mark end();
  /// Adds bytes at a place that was the end of the message, such as the length of what came since. Marks of later
  /// places are no longer valid.
  void insert(const Mark& at, std::string_view bytes);

  std::size_t size() const { return size_; }
  const std::vector<Piece>& list() const { return list_; }
  /// All bytes in one string.
  std::string joined() const;

 private:
  std::string& last_bytes();

  std::vector<Piece> list_;
  std::size_t size_ = 0;
};

}  // namespace tapestry::io::rpc
