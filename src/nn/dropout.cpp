#include "tapestry/nn/dropout.hpp"

#include "tapestry/ops/nn.hpp"

namespace tapestry::nn {

Dropout::Dropout(double rate, Where where) : rate_(rate) {
  if (!(rate >= 0 && rate < 1))
    throw InvalidArgumentError(detail::join("Dropout: the rate must be in [0, 1), but is ", rate), where);
}

Tensor Dropout::forward(const Tensor& x) const { return training() ? dropout(x, rate_) : x; }

}  // namespace tapestry::nn
