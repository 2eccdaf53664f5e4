#include "tapestry/nn/dropout.hpp"

#include "nn/initial.hpp"
#include "tapestry/ops/nn.hpp"

namespace tapestry::nn {

Dropout::Dropout(double rate, Where where) : rate_(rate) { require_rate(rate, "Dropout", "the rate", where); }

Tensor Dropout::forward(const Tensor& x) const { return training() ? dropout(x, rate_) : x; }

}  // namespace tapestry::nn
