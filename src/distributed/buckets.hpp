#pragma once

#include <vector>

#include "distributed/collective_ops.hpp"
#include "tapestry/sparse.hpp"

namespace tapestry::detail {

/// Reduces many tensors, such as the gradients of a step, in buckets of about `bytes` bytes, each of one dtype. A
/// bucket travels as soon as it is full. `settings` must be equal on all ranks.
class Buckets {
 public:
  Buckets(const Communicator& among, Reduce reduce, std::int64_t bytes, Where where, SharedSettings settings = {})
      : among_(among), reduce_(reduce), bytes_(bytes), where_(where), settings_(std::move(settings)) {}

  /// Adds the tensor of that number; an empty one is left out.
  void add(std::size_t number, const Tensor& tensor);
  /// Adds a row-sparse tensor, of the shape of `like`. Its sum or mean is row-sparse, too: `finish` gathers the rows.
  void add_rows(std::size_t number, const IndexedSlices& rows, const Tensor& like);
  /// The reduced tensors with the numbers below `count`.
  std::vector<Tensor> finish(std::size_t count);

 private:
  struct Bucket {
    DType dtype;
    Tensors tensors{};
    std::vector<std::size_t> numbers{};
    std::int64_t bytes = 0;
  };
  struct Sent {
    PendingReduce pending;
    std::vector<std::size_t> numbers;
  };
  struct Rows {
    std::size_t number;
    IndexedSlices rows;
    Tensor like;
  };
  void send(Bucket& bucket);

  Communicator among_;
  Reduce reduce_;
  std::int64_t bytes_;
  Where where_;
  SharedSettings settings_;
  std::vector<Rows> rows_;
  std::vector<Bucket> open_;  ///< one for each dtype, in the order of their first tensors
  std::vector<Sent> sent_;
};

}  // namespace tapestry::detail
