// What indices bring together: segments, updates of elements, counts.

#include <algorithm>
#include <limits>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/foreign_segments.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {
namespace {

Tensor combined(Combine f, const Tensor& a, const Tensor& b) {
  return f == Combine::largest ? maximum(a, b) : f == Combine::smallest ? minimum(a, b) : a * b;
}

/// A vector as a factor for the rows of x.
Tensor for_rows(const Tensor& vector, const Tensor& x) {
  Shape column(std::vector<std::int64_t>(static_cast<std::size_t>(x.shape().rank()), 1));
  column.set(0, -1);
  return reshape(vector, column);
}

}  // namespace

Tensor added_by_segments(const ForeignNode& n, const Tensor& x, const Tensor& segments, std::int64_t count) {
  Shape shape = x.shape();
  shape.set(0, count);
  const Tensor rows = where(for_rows(segments < 0, x), 0, x);
  return make_op(*rule_of("UnsortedSegmentSum"), n.node, {maximum(segments, 0), rows, shape_only(n, shape, x.dtype())},
                 {{"axis", std::int64_t{0}}}, n.where, "Sum")[0];
}

Tensor combined_by_segments(Combine f, const Tensor& x, const Tensor& segments, std::int64_t count,
                            const Tensor& nothing) {
  const Tensor found = f == Combine::largest    ? unsorted_segment_max(x, segments, count)
                       : f == Combine::smallest ? unsorted_segment_min(x, segments, count)
                                                : unsorted_segment_prod(x, segments, count);
  if (!nothing) return found;
  const Tensor numbers = unsorted_segment_sum(ones_like(segments), segments, count);
  return where(for_rows(numbers > 0, x), found, nothing);
}

std::vector<Tensor> coordinates_of(const Tensor& places, const std::vector<std::int64_t>& sizes) {
  std::vector<Tensor> axes(sizes.size());
  Tensor rest = places;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const std::int64_t size = std::max<std::int64_t>(sizes[i], 1);  // of an axis without elements there are no places
    axes[i] = mod(rest, size);
    rest = floor_divide(rest, size);
  }
  return axes;
}

namespace {

std::int64_t segment_count(const ForeignNode& n, std::size_t input) {
  const std::int64_t count = n.number(input);
  if (count < 0 || count > most_numbers) n.node.refuse(detail::join("it has ", count, " segments"));
  return count;
}

Combine combine_of(const ForeignNode& n) {
  const std::string& op = n.node.def().op;
  return op.find("Max") != std::string::npos   ? Combine::largest
         : op.find("Min") != std::string::npos ? Combine::smallest
                                               : Combine::product;
}

/// Segments of any order, which have the first axes of x.
Tensors read_unsorted_segments(const ForeignNode& n) {
  const Tensor &x = n.in(0), &segments = n.in(1);
  const Combine f = combine_of(n);
  if (segments.shape().rank() > x.shape().rank()) n.node.refuse("it has more segments than elements");
  Shape rows{segments.shape().num_elements()};
  for (int axis = segments.shape().rank(); axis < x.shape().rank(); ++axis) rows.push_back(x.shape().sizes()[axis]);
  const std::int64_t count = segment_count(n, 2);
  return n.composed([&] {
    const Tensor list = reshape(segments, {rows.sizes()[0]});
    if (n.node.def().op == "UnsortedSegmentSum") return added_by_segments(n, reshape(x, rows), list, count);
    return combined_by_segments(f, reshape(x, rows), list, count);
  });
}

/// The number of ascending segments, which is told by the last one or by an input.
std::int64_t count_of_ascending(const ForeignNode& n, std::size_t segments, std::size_t told) {
  if (n.inputs.size() > told) return segment_count(n, told);
  const std::vector<std::int64_t> list = n.numbers(segments);
  if (!std::is_sorted(list.begin(), list.end()) || (!list.empty() && list[0] < 0))
    n.node.refuse("its segments do not ascend");
  const std::int64_t count = list.empty() ? 0 : list.back() + 1;
  if (count > most_places) n.node.refuse(detail::join("it has ", count, " segments"));
  return count;
}

/// The numbers of an input, which may be an attribute of ours.
Tensor list_of(const ForeignNode& n, std::size_t input) {
  return bool(n.in(input)) ? n.in(input) : vector_of(n.numbers(input), int64);
}

Tensors read_ascending_segments(const ForeignNode& n) {
  const Tensor& x = n.in(0);
  const Combine f = combine_of(n);
  if (x.shape().rank() < 1) n.node.refuse("its input is a scalar");
  const std::int64_t count = count_of_ascending(n, 1, 2);
  const bool old = n.inputs.size() == 2;  // says 0 of an empty segment
  return n.composed([&] {
    const Tensor nothing = old && f != Combine::product ? detail::make_scalar(0, x.dtype()) : Tensor();
    return combined_by_segments(f, x, list_of(n, 1), count, nothing);
  });
}

/// The sums of the rows of ascending segments, whose number an input tells, a constant, or the last segment.
Tensor added_by_ascending(const ForeignNode& n, const Tensor& rows, std::size_t ids) {
  if (n.inputs.size() > ids + 1 || n.node.is_constant(ids))
    return added_by_segments(n, rows, list_of(n, ids), count_of_ascending(n, ids, ids + 1));
  const Tensor& segments = n.in(ids);
  const std::int64_t count = segments.shape().sizes()[0];
  if (count == 0) return rows;
  const Tensor last = slice(segments, {count - 1}, {1});
  const Tensor each = reshape(sequence_mask(last + 1), {-1});  // an element for each segment
  return scatter_add(zeros_like(gather(rows, each.cast(int32) * 0)), segments, rows);
}

/// What the rows of segments are divided by: their number (Mean), or its root (SqrtN).
Tensor divisor_of_segments(const ForeignNode& n, const Tensor& numbers) {
  const Tensor some = maximum(numbers, 1);
  return n.node.def().op.find("Mean") != std::string::npos ? some : sqrt(some);
}
bool is_plain_sum(const ForeignNode& n) { return n.node.def().op.find("SegmentSum") != std::string::npos; }

/// Sums of rows, which indices pick in the sparse ops.
Tensors read_segment_sums(const ForeignNode& n) {
  const bool sparse = n.node.def().op.starts_with("Sparse");
  const std::size_t ids = sparse ? 2 : 1;
  if (n.in(0).shape().rank() < 1) n.node.refuse("its input is a scalar");
  return n.composed([&] {
    const Tensor rows = sparse ? gather(n.in(0), n.in(1)) : Tensor(n.in(0));
    Tensor sum = added_by_ascending(n, rows, ids);
    if (is_plain_sum(n)) return sum;
    const Tensor one = ones({rows.shape().sizes()[0]}, {.dtype = sum.dtype()});
    return sum / for_rows(divisor_of_segments(n, added_by_ascending(n, one, ids)), sum);
  });
}

/// The gradient of these sums by the rows: of all rows, or in the newer ops of those that were picked, in the order of
/// their numbers, which are the second output.
Tensors read_segment_gradients(const ForeignNode& n) {
  const Tensor &g = n.in(0), &picked = n.in(1), &ids = n.in(2);
  if (g.shape().rank() < 1) n.node.refuse("its gradient is a scalar");
  const std::int64_t count = picked.shape().num_elements();
  return n.composed([&]() -> Tensors {
    Tensor rows = gather(g, ids);
    if (!is_plain_sum(n)) {
      const Tensor one = ones({count}, {.dtype = g.dtype()});
      const Tensor numbers = added_by_segments(n, one, ids, g.shape().sizes()[0]);
      rows = rows / for_rows(gather(divisor_of_segments(n, numbers), ids), rows);
    }
    if (!n.node.def().op.ends_with("V2")) return {added_by_segments(n, rows, picked, segment_count(n, 3))};
    const Unique found = unique(concat({sort(picked), picked}, 0));
    const Tensor places = slice(found.inverse, {count}, {count});
    return {scatter_add(zeros_like(gather(rows, found.counts * 0)), places, rows), found.values};
  });
}

// ---- Elements by coordinates ----------------------------------------------------------------------------------------

/// An update of parts of x, as rows: for each row of updates the number of the row of x.
struct Rows {
  Tensor x, places, updates;
};
Rows rows_of(const ForeignNode& n, const Tensor& x, const Tensor& indices, const Tensor& updates) {
  const Shape &shape = x.shape(), &list = indices.shape();
  const std::int64_t depth = list.rank() < 1 ? -1 : list.sizes()[list.rank() - 1];
  if (depth < 0 || depth > shape.rank()) n.node.refuse(detail::join("its indices have the shape ", list));
  Shape first, row{-1}, taken;
  for (int axis = 0; axis < shape.rank(); ++axis) (axis < depth ? first : row).push_back(shape.sizes()[axis]);
  for (int axis = 0; axis + 1 < list.rank(); ++axis) taken.push_back(list.sizes()[axis]);
  row.set(0, first.num_elements());
  // The places are looked up in a table of all places, so that those that do not exist are errors.
  const Tensor all_places = reshape(arange(first.num_elements(), {.dtype = int64}), first);
  const Tensor places = reshape(gather_nd(all_places, indices), {taken.num_elements()});
  Shape update_rows = row;
  update_rows.set(0, taken.num_elements());
  return {reshape(x, row), places, reshape(updates, update_rows)};
}

/// x with the last update of each element in its place.
Tensor updated(const Rows& rows) {
  const std::int64_t count = rows.updates.shape().sizes()[0];
  if (count == 0) return rows.x;
  const Tensor last = combined_by_segments(Combine::largest, arange(count, {.dtype = int64}), rows.places,
                                           rows.x.shape().sizes()[0], detail::make_scalar(-1, int64));
  return where(for_rows(last >= 0, rows.x), gather(rows.updates, maximum(last, 0)), rows.x);
}

Tensors read_scatter_update(const ForeignNode& n) {
  require_checked_indices(n.node);
  const Tensor& x = n.in(0);
  if (x.dtype() != n.in(2).dtype()) n.node.refuse("its inputs have several types");
  const std::string& op = n.node.def().op;
  return n.composed([&] {
    const Rows rows = rows_of(n, x, n.in(1), n.in(2));
    if (op == "TensorScatterUpdate") return reshape(updated(rows), x.shape());
    const Combine f = combine_of(n);
    const Tensor changes = combined_by_segments(f, rows.updates, rows.places, rows.x.shape().sizes()[0]);
    return reshape(combined(f, rows.x, changes), x.shape());
  });
}

Tensors read_sparse_to_dense(const ForeignNode& n) {
  const Shape shape = n.shape(1);
  const Tensor &indices = n.in(0), &values = n.in(2);
  if (shape.size() > most_numbers) n.node.refuse(detail::join("its shape is ", shape));
  if (indices.shape().rank() > 2) n.node.refuse(detail::join("its indices have the shape ", indices.shape()));
  return n.composed([&] {
    const std::int64_t count = indices.shape().rank() == 0 ? 1 : indices.shape().sizes()[0];
    const Tensor places = reshape(indices, {count, shape.rank()});
    const Tensor background = broadcast_to(n.in(3), shape);
    return reshape(updated(rows_of(n, background, places, broadcast_to(values, {count}))), shape);
  });
}

// ---- Searching and counting -----------------------------------------------------------------------------------------

/// How many numbers of each sorted row are below (LowerBound), or not above, each value.
Tensors read_bound(const ForeignNode& n) {
  require_rank(n, 0, 2);
  require_rank(n, 1, 2);
  require_one_type(n);
  const DType dtype = dtype_of(n.node.attr_or<TypeCode>("out_type", code_of(int32)));
  return n.composed([&] {
    const Tensor sorted = expand_dims(n.in(0), 1), values = expand_dims(n.in(1), 2);
    const Tensor before = n.node.def().op == "LowerBound" ? sorted < values : sorted <= values;
    return reduce_sum(before.cast(dtype), -1);
  });
}

/// The coordinates of places in a flattened tensor: a row for each axis.
Tensors read_coordinates(const ForeignNode& n) {
  const std::vector<std::int64_t> sizes = n.numbers(1);
  if (sizes.empty() || std::any_of(sizes.begin(), sizes.end(), [](std::int64_t each) { return each < 1; }))
    n.node.refuse("its sizes are no shape of elements");
  return n.composed([&] { return stack(coordinates_of(n.in(0), sizes)); });
}

Tensors read_histogram(const ForeignNode& n) {
  const std::int64_t bins = n.number(2);
  if (bins < 1 || bins > most_numbers) n.node.refuse(detail::join("it has ", bins, " bins"));
  const DType dtype = dtype_of(n.node.attr_or<TypeCode>("dtype", code_of(int32)));
  require_rank(n, 1, 1);
  return n.composed([&] {
    const Tensor flat = reshape(n.in(0), {-1}).cast(float64), range = n.in(1).cast(float64);
    const auto end = [&](std::int64_t i) { return squeeze(slice(range, {i}, {1}), 0); };
    const Tensor place = floor((flat - end(0)) / (end(1) - end(0)) * static_cast<double>(bins));
    const Tensor bin = clip(place, 0, static_cast<double>(bins - 1)).cast(int64);
    return added_by_segments(n, ones({flat.shape().sizes()[0]}, {.dtype = dtype}), bin, bins);
  });
}

}  // namespace

ForeignOps foreign_scatter() {
  ForeignOps ops{
      {.name = "HistogramFixedWidth",
       .inputs = 3,
       .values = {2},
       .lacks_sizes = lacks_any_size,
       .outputs = {told_by("dtype", int32)},
       .read = read_histogram},
      {.name = "SparseToDense",
       .inputs = 4,
       .values = {1},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(2)},
       .read = read_sparse_to_dense},
      {.name = "UnravelIndex", .inputs = 2, .values = {1}, .outputs = {like(0)}, .read = read_coordinates},
  };
  for (const char* name : {"LowerBound", "UpperBound"})
    ops.push_back({.name = name,
                   .inputs = 2,
                   .lacks_sizes = lacks_rank,
                   .outputs = {told_by("out_type", int32)},
                   .read = read_bound});
  for (const char* name : {"TensorScatterMax", "TensorScatterMin", "TensorScatterUpdate"})
    ops.push_back(
        {.name = name, .inputs = 3, .lacks_sizes = lacks_any_size, .outputs = {like(0)}, .read = read_scatter_update});
  const auto add = [&](std::string_view name, int inputs, std::vector<std::size_t> values,
                       Tensors (*read)(const ForeignNode&)) {
    ops.push_back({.name = name,
                   .inputs = inputs,
                   .values = std::move(values),
                   .lacks_sizes = lacks_any_size,
                   .outputs = {like(0)},
                   .read = read});
  };
  for (const char* name : {"UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd", "UnsortedSegmentSum"})
    add(name, 3, {2}, read_unsorted_segments);
  for (const char* name : {"SegmentMax", "SegmentMin", "SegmentProd"}) add(name, 2, {1}, read_ascending_segments);
  for (const char* name : {"SegmentMaxV2", "SegmentMinV2", "SegmentProdV2"}) add(name, 3, {2}, read_ascending_segments);
  const auto add_sums = [&](std::string_view name, int inputs, std::size_t segments) {
    add(name, inputs, {}, read_segment_sums);
    ops.back().values_if_constant = {segments};
  };
  for (const char* name : {"SegmentMean", "SegmentSum"}) add_sums(name, 2, 1);
  add("SegmentSumV2", 3, {2}, read_segment_sums);
  for (const char* name : {"SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum"}) add_sums(name, 3, 2);
  for (const char* name : {"SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad", "SparseSegmentSumGrad"})
    add(name, 4, {3}, read_segment_gradients);
  for (const char* name : {"SparseSegmentMeanGradV2", "SparseSegmentSqrtNGradV2", "SparseSegmentSumGradV2"}) {
    add(name, 4, {}, read_segment_gradients);
    ops.back().outputs = {like(0), like(1)};
  }
  for (const char* name :
       {"SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments", "SparseSegmentSumWithNumSegments"})
    add(name, 4, {3}, read_segment_sums);
  return ops;
}

}  // namespace tapestry::io
