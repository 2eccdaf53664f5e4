#pragma once

#include <cstdint>

#include "tapestry/op.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// Sequences of unequal lengths without padding, in the form of PyTorch's PackedSequence. The sequences are sorted by
/// length, the longest first; `data` has their first steps, then the second steps of those that have one, and so on.
/// RNN, GRU and LSTM take one and return one; what treats each step by itself, such as a Dense, takes `data`.
struct PackedSequence {
  Tensor data;              ///< [sum of lengths, ...]
  Tensor batch_sizes;       ///< for each step the number of sequences that have it: int64 [longest]
  Tensor sorted_indices;    ///< the sequences in the order of the pack: int32 [batch]
  Tensor unsorted_indices;  ///< the place of each sequence in that order: int32 [batch]
};

/// Packs padded sequences [batch, time, ...], or [time, batch, ...] without `batch_first`. `lengths` [batch] are int32
/// or int64, in any order. In a graph, batch and time may be unknown. Gradients flow. Throws InvalidArgumentError for
/// lengths that do not fit; in a graph, the run throws.
TAPESTRY_API PackedSequence pack_padded_sequence(In x, In lengths, bool batch_first = true);
/// Packs sequences [length, ...] of equal other sizes.
TAPESTRY_API PackedSequence pack_sequence(const InList& sequences);

/// The result of `pad_packed_sequence`.
struct PaddedSequences {
  Tensor output;   ///< [batch, longest, ...], or [longest, batch, ...], in the order before packing
  Tensor lengths;  ///< int64 [batch]
};
/// The way back: the sequences with padding behind their ends.
TAPESTRY_API PaddedSequences pad_packed_sequence(const PackedSequence& packed, bool batch_first = true,
                                                 double padding = 0, Where where = Where::here());

/// @}

}  // namespace tapestry::nn
