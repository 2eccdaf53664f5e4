#include "tapestry/distributed/sync_batch_norm.hpp"

#include "tapestry/ops.hpp"

namespace tapestry::nn {

Tensor SyncBatchNorm::train_on(const Tensor& x) const {
  Ints axes;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) axes.push_back(axis);
  const Tensor sum = reduce_sum(x, axes);
  const std::vector<Tensor> totals = world_.all_reduce({sum, size_like(x, sum)});
  const Tensor count = stop_gradient(totals[1]), mean = totals[0] / count;
  // The variance comes from the deviations: the difference of mean squares would lose digits.
  const Tensor variance = world_.all_reduce(reduce_sum(square(x - mean), axes)) / count;
  learn(count, stop_gradient(mean), stop_gradient(variance));
  return batch_norm(x, mean, variance, bias, weight, options().epsilon);
}

}  // namespace tapestry::nn
