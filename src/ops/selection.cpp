#include "tapestry/ops/selection.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/lack_refusal.hpp"
#include "core/make_tensor.hpp"
#include "ops/checked_like.hpp"
#include "ops/lengths.hpp"
#include "ops/merged.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"

TAPESTRY_OP_FAMILY(selection)

namespace tapestry {
namespace {

using detail::make_tensor;
using detail::mutable_data;
using detail::on_host;

/// Results that were computed on the host, on the device of the call's first input.
Tensors on_device_of(const Call& call, Tensors results) {
  for (Tensor& each : results) each = each.to(call.input(0).device());
  return results;
}

template <class T>
Tensor vector_of(const std::vector<T>& elements) {
  const Tensor result = make_tensor(dtype_of<T>(), {static_cast<std::int64_t>(elements.size())}, cpu());
  std::copy(elements.begin(), elements.end(), mutable_data<T>(result));
  return result;
}

/// While it lives, ops are executed and no tape sees them.
struct Unseen {
  PauseRecording pause{};
  ExecuteNow now{};
};

/// Writes the indices of the true elements of a mask, [count, rank].
void write_indices(const bool* is_set, std::span<const std::int64_t> sizes, std::int64_t* to) {
  constexpr std::int64_t most = 256;
  std::int64_t found[most];
  const auto rank = static_cast<int>(sizes.size());
  const std::int64_t row = rank == 0 ? 1 : sizes[rank - 1];
  std::int64_t at[Shape::max_rank] = {};
  for (bool goes_on = true; goes_on;) {
    // A part of a row is first searched without a branch for each element, which no processor could foresee.
    for (std::int64_t first = 0; first < row; first += most) {
      std::int64_t count = 0;
      for (std::int64_t i = first; i < std::min(first + most, row); ++i) {
        found[count] = i;
        count += is_set[i];
      }
      for (std::int64_t k = 0; k < count && rank > 0; ++k) {
        for (int axis = 0; axis < rank - 1; ++axis) *to++ = at[axis];
        *to++ = found[k];
      }
    }
    is_set += row;
    int axis = rank - 2;
    while (axis >= 0 && ++at[axis] == sizes[axis]) at[axis--] = 0;
    goes_on = axis >= 0;
  }
}

Tensors indices_of_nonzero(const Call& call) {
  const Unseen unseen;
  const Tensor mask = on_host(call.input(0).cast(boolean));
  const auto* const is_set = static_cast<const bool*>(mask.impl().data);
  const std::int64_t count = std::count(is_set, is_set + mask.size(), true);
  const Tensor result = make_tensor(int64, {count, mask.rank()}, cpu());
  if (count > 0) write_indices(is_set, mask.shape().sizes(), mutable_data<std::int64_t>(result));
  return on_device_of(call, {result});
}

TAPESTRY_OP(where_op){{
    .name = "Where",
    .infer = [](const Call& call) -> Specs {
      return {{int64, {-1, call.input(0).rank()}}};
    },
    .evaluate = indices_of_nonzero,
    .gradient = no_gradient,
}};

/// The dtype of the indices and counts.
DType index_type(const Call& call) {
  const DType* given = call.attrs().find<DType>("out_idx");
  return given ? *given : int32;
}

/// Numbers the different values of a vector in the order in which they come. `Bits` is as wide as a value.
template <class Bits>
class Numbering {
 public:
  Numbering(const Tensor& x, std::int32_t* numbers) : elements_(static_cast<const Bits*>(x.impl().data)) {
    if (is_floating(x.dtype())) {
      sign_ = static_cast<Bits>(Bits(1) << (8 * sizeof(Bits) - 1));
      const Tensor infinity = tensor(std::numeric_limits<double>::infinity()).cast(x.dtype());
      infinity_ = *static_cast<const Bits*>(infinity.impl().data);
    }
    const std::int64_t size = x.size();
    for (std::int64_t i = 0; i < size; ++i) {
      constexpr std::int64_t soon = 16;
      constexpr std::size_t near = 4096;  // slots that are in the cache anyway
      if (2 * first_.size() >= slots_.size()) grow();
      if (slots_.size() > near && i + soon < size) __builtin_prefetch(&slots_[slot_of(value(i + soon))]);
      numbers[i] = number(i);
    }
  }
  /// Where each value occurs first.
  const std::vector<std::int64_t>& first() const { return first_; }

 private:
  /// -0 is 0.
  Bits value(std::int64_t i) const { return Bits(elements_[i] & ~sign_) == 0 ? Bits(0) : elements_[i]; }
  std::int32_t number(std::int64_t i) {
    const auto next = static_cast<std::int32_t>(first_.size());
    // NaN is like no other value, and not like itself.
    if (Bits(value(i) & ~sign_) <= infinity_) {
      std::size_t at = slot_of(value(i));
      for (; slots_[at] >= 0; at = (at + 1) & (slots_.size() - 1))
        if (value(first_[static_cast<std::size_t>(slots_[at])]) == value(i)) return slots_[at];
      slots_[at] = next;
    }
    first_.push_back(i);
    return next;
  }
  /// Where a value's number is, or else behind it.
  std::size_t slot_of(std::uint64_t bits) const {
    return static_cast<std::size_t>(((bits ^ (bits >> 32)) * 0x9e3779b97f4a7c15) >> shift_);
  }
  void grow() {
    std::vector<std::int32_t> before = std::move(slots_);
    shift_ -= 2;
    slots_.assign(std::size_t(1) << (64 - shift_), -1);
    for (const std::int32_t number : before) {
      if (number < 0) continue;
      std::size_t at = slot_of(value(first_[static_cast<std::size_t>(number)]));
      while (slots_[at] >= 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = number;
    }
  }

  const Bits* elements_;
  Bits sign_ = 0, infinity_ = std::numeric_limits<Bits>::max();  ///< of floats; whole numbers are all below
  std::vector<std::int64_t> first_;
  std::vector<std::int32_t> slots_;
  int shift_ = 58;
};

Tensors unique_of(const Call& call) {
  const Unseen unseen;
  const Tensor x = on_host(call.input(0));
  const Tensor inverse = make_tensor(int32, x.shape(), cpu());
  auto* const numbers = mutable_data<std::int32_t>(inverse);
  const auto first = [&]() -> Tensor {
    switch (size_of(x.dtype())) {
      case 1:
        return vector_of(Numbering<std::uint8_t>(x, numbers).first());
      case 2:
        return vector_of(Numbering<std::uint16_t>(x, numbers).first());
      case 4:
        return vector_of(Numbering<std::uint32_t>(x, numbers).first());
      default:
        return vector_of(Numbering<std::uint64_t>(x, numbers).first());
    }
  }();
  const Tensor counts = zeros(first.shape(), {.dtype = int32});
  auto* const count_of = mutable_data<std::int32_t>(counts);
  for (std::int64_t i = 0; i < x.size(); ++i) ++count_of[numbers[i]];
  const DType index = index_type(call);
  return on_device_of(call, {gather(x, first), inverse.cast(index), counts.cast(index)});
}

TAPESTRY_OP(unique_op){{
    .name = "UniqueWithCounts",
    .attrs = {{"out_idx", AttrKind::type, optional}},
    .infer = [](const Call& call) -> Specs {
      // TensorFlow reads a file with such a node, and with an axis it computes it.
      if (call.input(0).rank() != 1)
        throw LackRefusal(detail::join("unique expects a 1D vector, not ", call.input(0).shape()));
      const DType index = index_type(call);
      if (index != int32 && index != int64)
        throw InvalidArgumentError(detail::join("out_idx must be int32 or int64, not ", to_string(index)));
      return {{call.input(0).dtype(), {-1}}, {index, call.input(0).shape()}, {index, {-1}}};
    },
    .evaluate = unique_of,
    .gradient = no_gradient,
    .outputs = 3,
}};

// ---- dynamic_stitch ----------------------------------------------------------------------------------------------------

/// The inputs are all indices, then all data.
std::size_t half_of(const Call& call) { return call.inputs().size() / 2; }

Specs stitched(const Call& call) {
  const std::size_t count = half_of(call);
  if (count == 0 || call.inputs().size() != 2 * count)
    throw InvalidArgumentError(
        detail::join("As many indices as data are needed, but there are ", call.inputs().size(), " inputs"));
  Shape shape{-1};
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor &indices = call.input(i), &data = call.input(count + i);
    if (indices.dtype() != int32)
      throw InvalidArgumentError(detail::join("The indices must be int32, not ", to_string(indices.dtype())));
    if (data.dtype() != call.input(count).dtype())
      throw InvalidArgumentError(detail::join("The data must have one dtype, but are ",
                                              to_string(call.input(count).dtype()), " and ", to_string(data.dtype())));
    const auto sizes = data.shape().sizes();
    const auto depth = static_cast<std::size_t>(indices.rank());
    if (data.rank() < indices.rank() || !agree(Shape(sizes.first(depth)), indices.shape()))
      throw InvalidArgumentError(detail::join("data[", i, "].shape = ", data.shape(), " does not start with indices[",
                                              i, "].shape = ", indices.shape()));
    Shape row{-1};
    for (const std::int64_t size : sizes.subspan(depth)) row.push_back(size);
    if (i > 0 && !agree(row, shape))
      throw InvalidArgumentError(detail::join("The rows of the data must have one shape, but data[0] has the shape ",
                                              call.input(count).shape(), " and data[", i, "] ", data.shape()));
    shape = row;
  }
  return {{call.input(count).dtype(), shape}};
}

Tensors stitch(const Call& call) {
  const Unseen unseen;
  const std::size_t count = half_of(call);
  std::int64_t rows = 0;
  std::vector<Tensor> indices;
  for (std::size_t i = 0; i < count; ++i) {
    indices.push_back(on_host(call.input(i)));
    for (const std::int64_t index : indices.back().to_vector<std::int64_t>()) {
      if (index < 0) throw InvalidArgumentError(detail::join("indices[", i, "] has the negative index ", index));
      rows = std::max(rows, index + 1);
    }
  }
  Shape shape = call.op().infer(call)[0].shape;
  shape.set(0, rows);
  const Tensor result = make_tensor(call.input(count).dtype(), shape, cpu());
  backend_of(cpu()).fill(0, result);
  const std::int64_t row = rows == 0 ? 0 : result.size() / rows;
  const std::size_t bytes = static_cast<std::size_t>(row) * size_of(result.dtype());
  for (std::size_t i = 0; i < count && bytes > 0; ++i) {
    const Tensor data = on_host(call.input(count + i));
    const auto* from = static_cast<const std::byte*>(data.impl().data);
    for (const std::int64_t index : indices[i].to_vector<std::int64_t>()) {
      std::memcpy(static_cast<std::byte*>(result.impl().data) + static_cast<std::size_t>(index) * bytes, from, bytes);
      from += bytes;
    }
  }
  return on_device_of(call, {result});
}

TAPESTRY_OP(stitch_op){{
    .name = "DynamicStitch",
    .infer = stitched,
    .evaluate = stitch,
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const std::size_t count = half_of(call);
      // Of equal indices, only the last one has a part in the result.
      Tensors gradients(2 * count), inputs = call.inputs();
      for (std::size_t i = 0; i < count; ++i) {
        const Tensor places = cumsum(ones_like(reshape(call.input(i).cast(int64), {-1})));
        inputs[count + i] =
            reshape_like(places * static_cast<std::int64_t>(count) + static_cast<std::int64_t>(i), call.input(i));
      }
      const Tensor last = apply_all(stitch_op, inputs, {}, {}, call.where())[0];
      for (std::size_t i = 0; i < count; ++i) {
        const Tensor& data = call.input(count + i);
        Tensor stays = equal(gather(last, call.input(i)), inputs[count + i]);
        for (int axis = rank_of(call.input(i)); axis < rank_of(data); ++axis) stays = expand_dims(stays, -1);
        const Tensor gradient = gather(g, call.input(i));
        gradients[count + i] = where(stays, gradient, zeros_like(gradient));
      }
      return gradients;
    },
}};

// ---- sequence_mask -----------------------------------------------------------------------------------------------------

Tensors mask_of_longest(const Call& call) {
  const Unseen unseen;
  const std::vector<std::int64_t> lengths = on_host(call.input(0)).to_vector<std::int64_t>();
  const std::int64_t longest =
      lengths.empty() ? 0 : std::max<std::int64_t>(0, *std::max_element(lengths.begin(), lengths.end()));
  return on_device_of(call, {sequence_mask(on_host(call.input(0)), longest)});
}

TAPESTRY_OP(sequence_mask_op){{
    .name = "SequenceMask",
    .infer = [](const Call& call) -> Specs {
      require_type(call.input(0), index_types, "lengths");
      Shape shape = call.input(0).shape();
      if (shape.has_rank()) shape.push_back(-1);
      return {{boolean, shape}};
    },
    .evaluate = mask_of_longest,
    .gradient = no_gradient,
}};

/// Throws unless the mask has the shape of x or of its first axes.
void require_mask(std::string_view what, const Tensor& x, const Tensor& mask) {
  const auto sizes = x.shape().has_rank() ? x.shape().sizes() : std::span<const std::int64_t>();
  if (x.shape().has_rank() && mask.shape().has_rank()) {
    const auto depth = static_cast<std::size_t>(mask.rank());
    if (depth > 0 && depth <= sizes.size() && agree(Shape(sizes.first(depth)), mask.shape())) return;
  }
  if (mask.shape().rank() == 0) throw InvalidArgumentError(detail::join(what, " cannot be a scalar"));
  throw InvalidArgumentError(
      detail::join(what, " ", mask.shape(), " must have the shape of x, ", x.shape(), ", or of its first axes"));
}

void require_bools(const Tensor& mask) {
  if (mask.dtype() == boolean) return;
  throw InvalidArgumentError(
      detail::join("The mask must be bool, not ", to_string(mask.dtype()),
                   is_floating(mask.dtype()) ? "" : "; tp::gather takes parts by their indices"));
}

Specs infer_parts(const Call& call) {
  require_bools(call.input(0));
  require_mask("The mask", call.input(1), call.input(0));
  return {{int64, {-1}}};
}

/// The numbers of the parts of the second input where the mask, the first one, is true. In a graph, this is where the
/// mask meets the sizes that are fed.
TAPESTRY_OP(masked_parts_op){{
    .name = "MaskedParts",
    .infer = infer_parts,
    .evaluate =
        [](const Call& call) {
          infer_parts(call);  // now that all sizes are known
          const Unseen unseen;
          return Tensors{reshape(nonzero(reshape(call.input(0), {-1})), {-1})};
        },
    .composition = [](const Call& call) -> Tensors { return {reshape(nonzero(reshape(call.input(0), {-1})), {-1})}; },
    .gradient = no_gradient,
}};

/// The mask with as many axes as x. A mask is not repeated: its sizes are those of x, also where they become known
/// later.
Tensor over_parts(const Tensor& x, const Tensor& mask) {
  Shape first;
  for (int axis = 0; axis < rank_of(mask); ++axis) first.push_back(x.shape()[axis]);
  Tensor wide = first == mask.shape() && mask.shape().is_known() ? mask : checked_like(mask, first);
  for (int axis = rank_of(mask); axis < rank_of(x); ++axis) wide = expand_dims(wide, -1);
  return wide;
}

Tensor chosen_parts(const Tensor& x, const Tensor& mask) { return apply(masked_parts_op, {mask, x}); }

/// x with the axes that the mask has joined into one: [parts, ...].
Tensor in_parts(const Tensor& x, const Tensor& mask) {
  if (rank_of(mask) == 1) return x;
  Ints counts{rank_of(mask)};
  for (int axis = rank_of(mask); axis < rank_of(x); ++axis) counts.push_back(1);
  return merged(x, counts);
}

}  // namespace

Tensor nonzero(In x, std::string_view name) { return apply(where_op, {std::move(x)}, {}, name); }

Tensor boolean_mask(In x, In mask, std::string_view name) {
  return blaming("BooleanMask", x.where(), [&] {
    const Tensor parts = chosen_parts(x, mask);
    return gather(in_parts(x, mask), parts, 0, name);
  });
}

Tensor Tensor::operator()(const Tensor& mask, Where where) const { return boolean_mask(In(*this, where), mask); }

Tensor masked_assign(In x, In mask, In values, std::string_view name) {
  return blaming("MaskedAssign", x.where(), [&] {
    require_bools(mask);
    require_mask("The mask", x, mask);
    if (!values.is_number() && rank_of(values) > 0) {
      const Tensor parts = chosen_parts(x, mask);
      Shape chosen = in_parts(x, mask).shape();
      if (chosen.has_rank()) chosen.set(0, parts.shape().sizes()[0]);
      if (!agree(values->shape(), chosen))
        throw InvalidArgumentError(detail::join("The values have the shape ", values->shape(),
                                                ", and the elements or rows that are chosen ", chosen));
      const Tensor rest = in_parts(where(over_parts(x, mask), zeros_like(x), x), mask);
      // As beside a scalar, only floats are narrowed.
      const DType type = is_floating(x->dtype()) ? x->dtype() : promote(x->dtype(), values->dtype());
      return reshape(scatter_add(rest, parts, values.tensor().cast(type)), x->shape(), name);
    }
    return where(over_parts(x, mask), values, x, name);
  });
}

Unique unique(In x, std::string_view name) {
  const Tensors results =
      apply_all(unique_op, {x}, {}, detail::plain_name(name, detail::Worded::result, x.where()), x.where());
  return {results[0], results[1], results[2]};
}

std::vector<Tensor> dynamic_partition(In x, In partitions, std::int64_t count, std::string_view name) {
  return blaming("DynamicPartition", x.where(), [&] {
    if (count < 1) throw InvalidArgumentError(detail::join("There must be at least one partition, not ", count));
    require_few_results(count);
    require_type(partitions, index_types, "partitions");
    require_mask("partitions", x, partitions);
    std::vector<Tensor> parts;
    for (std::int64_t i = 0; i < count; ++i) parts.push_back(boolean_mask(x, equal(partitions, i), name));
    return parts;
  });
}

Tensor dynamic_stitch(const InList& indices, const InList& data, std::string_view name) {
  if (indices.tensors().empty() || indices.tensors().size() != data.tensors().size())
    throw InvalidArgumentError(detail::join("There are ", indices.tensors().size(), " tensors of indices and ",
                                            data.tensors().size(), " of data"),
                               "DynamicStitch", indices.where());
  Tensors inputs = indices.tensors();
  inputs.append(data.tensors().begin(), data.tensors().end());
  return apply_all(stitch_op, inputs, {}, name, indices.where())[0];
}

Tensor sequence_mask(In lengths, std::int64_t longest, std::string_view name) {
  if (longest < 0)
    return apply(sequence_mask_op, {lengths}, {}, detail::plain_name(name, detail::Worded::result, lengths.where()));
  return blaming("SequenceMask", lengths.where(), [&] {
    require_type(lengths, index_types, "lengths");
    const Tensor positions = arange(longest, {.dtype = lengths->dtype(), .device = lengths->device()});
    return less(positions, expand_dims(lengths, -1), detail::plain_name(name, detail::Worded::result, lengths.where()));
  });
}

void require_lengths(const Tensor& lengths, std::int64_t time) {
  if (lengths.is_symbolic()) return;
  const std::vector<std::int64_t> values = on_host(lengths).to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0 || (time >= 0 && values[i] > time))
      throw InvalidArgumentError(detail::join("lengths[", i, "] = ", values[i],
                                              time < 0 ? " is negative" : detail::join(" is not in [0, ", time, "]")));
}

Tensor checked_lengths(const Tensor& lengths, const Tensor& x, int time) {
  require_lengths(lengths, x.shape().sizes()[time]);
  const Tensor counted = lengths.cast(int64);
  if (!lengths.is_symbolic() && !x.is_symbolic()) return counted;
  // The gather refuses the others, also where x has no elements.
  const Tensor steps = cumsum(ones({x.shape()[time]}, {.dtype = int64, .device = x.device()})) - 1;
  return gather(concat({steps, expand_dims(size(x, time).cast(int64), 0)}, 0), counted);
}

Tensor reverse_sequence(In x, In lengths, std::int64_t seq_axis, std::int64_t batch_axis, std::string_view name) {
  return blaming("ReverseSequence", x.where(), [&] {
    const int rank = rank_of(x), time = normalize_axis(seq_axis, rank), batch = normalize_axis(batch_axis, rank);
    require_type(lengths, index_types, "lengths");
    if (time == batch) throw InvalidArgumentError(detail::join("The sequence axis ", time, " is the batch axis, too"));
    if (rank_of(lengths) != 1 || !agree(lengths->shape(), Shape{x->shape().sizes()[batch]}))
      throw InvalidArgumentError(
          detail::join("lengths must be [batch], but are ", lengths->shape(), " for x ", x->shape()));
    require_lengths(lengths, x->shape().sizes()[time]);
    const auto along = [rank](const Tensor& values, int axis) {
      std::vector<std::int64_t> others;
      for (int i = 0; i < rank; ++i)
        if (i != axis) others.push_back(i);
      return expand_dims(values.cast(int64), others);
    };
    const Tensor counted = cumsum(ones({x->shape()[time]}, {.dtype = int64, .device = x->device()}));
    // Where sizes become known later, the reshape refuses lengths of another number than the batch has.
    const Tensor one_each = reshape_like(lengths, zeros({x->shape()[batch]}, {.device = x->device()}));
    const Tensor position = along(counted - 1, time), length = along(checked_lengths(one_each, x, time), batch);
    const Tensor index = where(less(position, length), length - 1 - position, position);
    return take_along_axis(x, broadcast_to(index, x->shape()), time, name);
  });
}

Tensor ragged_to_padded(In values, In lengths, double padding, std::string_view name) {
  return blaming("RaggedToPadded", values.where(), [&] {
    const Tensor mask = sequence_mask(lengths);
    require_lengths(lengths, -1);
    Shape shape = mask.shape();
    for (int axis = 1; axis < rank_of(values); ++axis) shape.push_back(values->shape()[axis]);
    const Tensor empty = full(shape, padding, {.dtype = values->dtype(), .device = values->device()});
    return masked_assign(empty, mask, values, name);
  });
}

Tensor padded_to_ragged(In padded, In lengths, std::string_view name) {
  return blaming("PaddedToRagged", padded.where(), [&] {
    const Tensor& x = padded.tensor();
    if (rank_of(x) < 2)
      throw InvalidArgumentError(detail::join("A padded tensor has at least two axes, not ", x.shape()));
    // The positions are counted by a sum over ones, because the size of axis 1 may be unknown.
    const Tensor ones = full({x.shape()[0], x.shape()[1]}, 1, {.dtype = int64, .device = x.device()});
    return boolean_mask(padded, less_equal(cumsum(ones, 1), expand_dims(checked_lengths(lengths, x, 1), -1)), name);
  });
}

}  // namespace tapestry
