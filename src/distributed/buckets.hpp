#pragma once

#include <vector>

#include "distributed/collective_ops.hpp"

namespace tapestry::detail {

/// Reduces many tensors, such as the gradients of a step, in buckets of about `bytes` bytes, each of one dtype. A
/// bucket travels as soon as it is full.
class Buckets {
 public:
  Buckets(const Communicator& among, Reduce reduce, std::int64_t bytes, Where where)
      : among_(among), reduce_(reduce), bytes_(bytes), where_(where) {}

  /// Adds the tensor of that number; an empty one is left out.
  void add(std::size_t number, const Tensor& tensor);
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
  void send(Bucket& bucket);

  Communicator among_;
  Reduce reduce_;
  std::int64_t bytes_;
  Where where_;
  std::vector<Bucket> open_;  ///< one for each dtype, in the order of their first tensors
  std::vector<Sent> sent_;
};

}  // namespace tapestry::detail
