#pragma once

#include "tapestry/ops/nn.hpp"

namespace tapestry {

/// What TensorFlow's op CTCLoss has as outputs.
struct CTCLoss {
  Tensor loss;      ///< [batch]
  Tensor gradient;  ///< of the sum of the losses by the logits: [time, batch, classes]
};
/// `ctc_loss` with the gradient that the forward pass computes anyway. The blank is 0 ... classes - 1, or negative and
/// counts from the end.
TAPESTRY_API CTCLoss ctc_loss_and_gradient(const Tensor& labels, const Tensor& logits, const Tensor& label_length,
                                           const Tensor& logit_length, std::int64_t blank, std::string_view name,
                                           Where where);

/// The classes with the largest logits.
struct CTCPath {
  Tensor classes;         ///< [batch, time], int64
  Tensor counts;          ///< whether they are labels: no blanks, no repetitions, and within the length
  Tensor neg_sum_logits;  ///< [batch]
};
TAPESTRY_API CTCPath ctc_best_path(const Tensor& logits, const Tensor& logit_length, const CTCDecoderOptions& options);

}  // namespace tapestry
