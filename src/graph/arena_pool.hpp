#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "tapestry/tensor.hpp"

namespace tapestry::detail {

/// Memory for the intermediate tensors of the plans of a graph. A plan has a block only while it runs, so plans that
/// run one after the other share one, which is as large as the largest of them needs.
class ArenaPool {
 public:
  /// A block of at least so many bytes, which nobody else has until it is given back; the one at `last`, if that is
  /// free. Throws ResourceExhaustedError.
  Tensor take(Device device, std::int64_t bytes, const void* last);
  void give_back(Tensor block) noexcept;

  /// The blocks are freed with the last plan.
  /// @{
  void add_plan();
  void remove_plan() noexcept;
  /// @}

 private:
  std::mutex mutex_;
  std::vector<Tensor> free_;  ///< has room for all blocks
  std::size_t blocks_ = 0, plans_ = 0;
};

}  // namespace tapestry::detail
