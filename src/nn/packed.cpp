#include "tapestry/nn/packed.hpp"

#include <algorithm>
#include <numeric>

#include "ops/lengths.hpp"
#include "ops/support.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {
namespace {

/// The first two axes change places.
Tensor swapped(const Tensor& x) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[0], axes[1]);
  return transpose(x, axes);
}

/// 0, 1, ..., size - 1, of a size that may be unknown: int64.
Tensor numbers_below(const Dimension& size) { return cumsum(ones({size}, {.dtype = int64})) - 1; }

}  // namespace

PackedSequence pack_padded_sequence(In x, In lengths, bool batch_first) {
  return blaming("pack_padded_sequence", x.where(), [&]() -> PackedSequence {
    if (x->rank() < 2)
      throw InvalidArgumentError(detail::join("x must be ", batch_first ? "[batch, time, ...]" : "[time, batch, ...]",
                                              ", but its shape is ", x->shape()));
    require_type(lengths, index_types, "lengths");
    const Tensor sequences = batch_first ? x.tensor() : swapped(x);
    const Dimension batch = sequences.shape()[0], time = sequences.shape()[1];
    if (!agree(lengths->shape(), Shape{batch}))
      throw InvalidArgumentError(
          detail::join("lengths must be [batch], but are ", lengths->shape(), " for x ", x->shape()));
    require_lengths(lengths, sequences.shape().sizes()[1]);
    const Tensor steps = numbers_below(time);
    // In a graph, the reshape refuses lengths of another number, and the gather a length that there is not.
    const Tensor sizes = gather(concat({steps, expand_dims(size(sequences, 1).cast(int64), 0)}, 0),
                                reshape(lengths.tensor().cast(int64), {batch}));
    const Tensor order = argsort(sizes, 0, Direction::descending);
    const Tensor used = less(expand_dims(steps, 1), expand_dims(gather(sizes, order), 0));
    const Tensor count = reduce_sum(used.cast(int64), {1});
    return {boolean_mask(swapped(gather(sequences, order)), used), boolean_mask(count, greater(count, 0)), order,
            argsort(order)};
  });
}

PackedSequence pack_sequence(const InList& sequences) {
  return blaming("pack_sequence", sequences.where(), [&]() -> PackedSequence {
    if (sequences.tensors().empty()) throw InvalidArgumentError("There is no sequence to pack");
    std::vector<Tensor> sizes;
    for (const Tensor& each : sequences.tensors()) {
      if (each.rank() < 1) throw InvalidArgumentError("A sequence is a scalar");
      sizes.push_back(size(each, 0).cast(int64));
    }
    const Tensor lengths = stack(sizes);
    return pack_padded_sequence(ragged_to_padded(concat(sequences, 0), lengths), lengths);
  });
}

PaddedSequences pad_packed_sequence(const PackedSequence& packed, bool batch_first, double padding, Where where) {
  return blaming("pad_packed_sequence", where, [&]() -> PaddedSequences {
    const auto vector_of = [](const Tensor& tensor, TypeSet allowed, const char* name) {
      require_type(tensor, allowed, name);
      if (tensor.rank() != 1)
        throw InvalidArgumentError(detail::join(name, " must be a vector, but its shape is ", tensor.shape()));
      return tensor.shape()[0];
    };
    const Dimension longest = vector_of(packed.batch_sizes, index_types, "batch_sizes");
    const Dimension batch = vector_of(packed.unsorted_indices, index_types, "unsorted_indices");
    const Tensor used =
        less(expand_dims(numbers_below(batch), 0), expand_dims(packed.batch_sizes.cast(int64), 1));  // [longest, batch]
    Shape shape{longest, batch};
    for (int axis = 1; axis < packed.data.rank(); ++axis) shape.push_back(packed.data.shape()[axis]);
    const Tensor empty = full(shape, padding, {.dtype = packed.data.dtype(), .device = packed.data.device()});
    const Tensor by_step = gather(masked_assign(empty, used, packed.data), packed.unsorted_indices, 1);
    return {batch_first ? swapped(by_step) : by_step,
            gather(reduce_sum(used.cast(int64), {0}), packed.unsorted_indices)};
  });
}

}  // namespace tapestry::nn
