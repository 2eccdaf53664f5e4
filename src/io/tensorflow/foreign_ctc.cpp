// Labels of sequences: the loss of connectionist temporal classification, and the labels that the largest logits tell.

#include "io/tensorflow/foreign_parts.hpp"
#include "nn/ctc_loss.hpp"

namespace tapestry::io {
namespace {

/// From logits, the coordinates and values of a sparse tensor of labels, and the lengths of the sequences.
Tensors read_ctc_loss(const ForeignNode& n) {
  require_rank(n, 0, 3);
  require_rank(n, 1, 2);
  if (n.node.attr_or<bool>("preprocess_collapse_repeated", false) || !n.node.attr_or<bool>("ctc_merge_repeated", true))
    n.node.refuse("it treats repeated labels in another way than connectionist temporal classification does");
  const Tensor& logits = n.in(0);
  const std::int64_t blank = n.node.def().op == "CTCLoss" ? -1 : 0;
  return n.composed([&]() -> Tensors {
    const Tensor sequence = squeeze(slice(n.in(1), {0, 0}, {-1, 1}), 1);
    const Tensor lengths = unsorted_segment_sum(ones_like(sequence), sequence, logits.shape()[1]);
    const Tensor labels = ragged_to_padded(n.in(2), lengths, blank < 0 ? 0 : 1);
    const CTCLoss found = ctc_loss_and_gradient(labels, logits, lengths, n.in(3), blank, {}, n.where);
    if (!n.node.attr_or<bool>("ignore_longer_outputs_than_inputs", false)) return {found.loss, found.gradient};
    return {where(lengths > n.in(3).cast(int64), 0, found.loss), found.gradient};
  });
}

Tensors read_greedy_decoder(const ForeignNode& n) {
  require_rank(n, 0, 3);
  const CTCDecoderOptions options{.blank = n.node.attr_or<std::int64_t>("blank_index", -1),
                                  .merge_repeated = n.node.attr_or<bool>("merge_repeated", false)};
  return n.composed([&]() -> Tensors {
    const CTCPath path = ctc_best_path(n.in(0), n.in(1), options);
    const Tensor counts = path.counts.cast(int64), places = nonzero(path.counts);
    const Tensor sequence = slice(places, {0, 0}, {-1, 1});
    const Tensor position = expand_dims(gather_nd(cumsum(counts, 1) - 1, places), 1);
    const Tensor longest = reduce_max(concat({reduce_sum(counts, 1), zeros({1}, {.dtype = int64})}));
    return {concat({sequence, position}, 1), boolean_mask(path.classes, path.counts),
            stack({size(path.classes, 0).cast(int64), longest}), expand_dims(path.neg_sum_logits, 1)};
  });
}

}  // namespace

ForeignOps foreign_ctc() {
  ForeignOps ops{{.name = "CTCGreedyDecoder",
                  .inputs = 2,
                  .lacks_sizes = lacks_rank,
                  .outputs = {typed(int64), typed(int64), typed(int64), like(0)},
                  .read = read_greedy_decoder}};
  for (const char* name : {"CTCLoss", "CTCLossV2"})
    ops.push_back(
        {.name = name, .inputs = 4, .lacks_sizes = lacks_rank, .outputs = {like(0), like(0)}, .read = read_ctc_loss});
  return ops;
}

}  // namespace tapestry::io
