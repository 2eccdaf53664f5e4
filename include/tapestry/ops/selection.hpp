#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tapestry/ops/arguments.hpp"

namespace tapestry {

// Ops whose results have sizes that depend on values. In a graph these sizes are unknown until it runs.

/// @addtogroup ops
/// @{

/// The indices of the elements that are true or not 0, in row-major order: int64 [n, rank]. TensorFlow's name is
/// `where`.
/// @{
TAPESTRY_API Tensor nonzero(In x, std::string_view name = {});
inline Tensor where(In condition, std::string_view name = {}) { return nonzero(condition, name); }
/// @}

/// The parts of x where the mask (bool) is true, in row-major order: the mask has the shape of x or of its first axes,
/// and the result the shape [n, other axes of x...]. Throws InvalidArgumentError for another mask.
TAPESTRY_API Tensor boolean_mask(In x, In mask, std::string_view name = {});
/// x where the mask (bool, of the shape of x or of its first axes) is false. Where it is true, the parts of x are
/// replaced by the values: a scalar, or one part for each true element, as `boolean_mask` gives them.
TAPESTRY_API Tensor masked_assign(In x, In mask, In values, std::string_view name = {});

/// The result of `unique`.
struct Unique {
  Tensor values;   ///< each value once, in the order of their first occurrence: [n]
  Tensor inverse;  ///< for each element of the argument, the index of its value: int32
  Tensor counts;   ///< how often each value occurs: int32 [n]
};
/// The different values of a vector. No gradient flows. Throws InvalidArgumentError for a tensor that is no vector.
TAPESTRY_API Unique unique(In x, std::string_view name = {});

/// The parts of x whose partition is 0, 1, ..., `count` - 1, each as by `boolean_mask`. The partitions are whole
/// numbers in the shape of x or of its first axes; parts with other numbers are left out.
TAPESTRY_API std::vector<Tensor> dynamic_partition(In x, In partitions, std::int64_t count, std::string_view name = {});
/// A tensor y with `y(indices[k](i)) = data[k](i)` for all i. The indices are int32 of any shape, and the shape of a
/// tensor of data begins with that of its indices. The size of axis 0 is the largest index plus 1; rows without index
/// are 0, and of equal indices the last one counts. Throws InvalidArgumentError for a negative index.
TAPESTRY_API Tensor dynamic_stitch(const InList& indices, const InList& data, std::string_view name = {});

/// Whether each position of a padded sequence is in use: bool [shape of lengths..., longest], true where the position
/// is below the length. `longest` is the largest length by default.
TAPESTRY_API Tensor sequence_mask(In lengths, std::int64_t longest = -1, std::string_view name = {});
/// The same for the largest length, with a name.
inline Tensor sequence_mask(In lengths, const NodeName auto& name) { return sequence_mask(lengths, -1, name); }
/// Each of the padded sequences x [..., batch, ..., time, ...] with its first `length` elements in the opposite order;
/// the others stay. `lengths` [batch] are int32 or int64. The axes may be negative. Throws InvalidArgumentError for
/// shapes that do not fit, and for a length below 0 or above the size of the sequence axis. TensorFlow's
/// reverse_sequence.
TAPESTRY_API Tensor reverse_sequence(In x, In lengths, std::int64_t seq_axis = 1, std::int64_t batch_axis = 0,
                                     std::string_view name = {});
/// The same for sequences [batch, time, ...], with a name.
inline Tensor reverse_sequence(In x, In lengths, const NodeName auto& name) {
  return reverse_sequence(x, lengths, 1, 0, name);
}
/// Sequences of different lengths, which lie one after the other in `values` [sum of lengths, ...], as one tensor
/// [count, longest, ...], padded with a number.
TAPESTRY_API Tensor ragged_to_padded(In values, In lengths, double padding = 0, std::string_view name = {});
/// The same padded with zeros, with a name.
inline Tensor ragged_to_padded(In values, In lengths, const NodeName auto& name) {
  return ragged_to_padded(values, lengths, 0, name);
}
/// The way back: the first elements of each sequence, one after the other.
TAPESTRY_API Tensor padded_to_ragged(In padded, In lengths, std::string_view name = {});

/// @}

}  // namespace tapestry
