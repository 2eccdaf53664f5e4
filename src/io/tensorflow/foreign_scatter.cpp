// What indices bring together: segments, updates of elements, sparse matrices, counts.

#include <limits>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {
namespace {

enum class Combine { largest, smallest, product };

Tensor combined(Combine f, const Tensor& a, const Tensor& b) {
  return f == Combine::largest ? maximum(a, b) : f == Combine::smallest ? minimum(a, b) : a * b;
}

/// The result of combining no elements: the lowest finite number, the highest, or 1.
Tensor neutral(Combine f, DType dtype) {
  if (f == Combine::product) return detail::make_scalar(1, dtype);
  if (dtype == float16 || dtype == bfloat16) {
    const double most = dtype == float16 ? 65504 : 0x1.fep127;
    return detail::make_scalar(f == Combine::largest ? -most : most, dtype);
  }
  Tensor value = detail::make_tensor(dtype, Shape(), cpu());
  detail::visit_dtype(dtype, [&]<class T>() {
    using Limits = std::numeric_limits<T>;
    *detail::mutable_data<T>(value) = f == Combine::largest ? Limits::lowest() : Limits::max();
  });
  return value;
}

/// A vector as a factor for the rows of x.
Tensor for_rows(const Tensor& vector, const Tensor& x) {
  Shape column(std::vector<std::int64_t>(static_cast<std::size_t>(x.shape().rank()), 1));
  column.set(0, -1);
  return reshape(vector, column);
}

/// The sums of the rows of each segment. Those of negative segments are left out.
Tensor added_by_segments(const ForeignNode& n, const Tensor& x, const Tensor& segments, std::int64_t count) {
  Shape shape = x.shape();
  shape.set(0, count);
  const Tensor rows = where(for_rows(segments < 0, x), 0, x);
  return make_op(*rule_of("UnsortedSegmentSum"), n.node, {maximum(segments, 0), rows, shape_only(n, shape, x.dtype())},
                 {{"axis", std::int64_t{0}}}, n.where, "Sum")[0];
}

/// Combines the rows of x that have the same segment, those of negative segments left out. The rows are sorted by their
/// segments, and each is combined with the one 1, 2, 4, ... places on, as long as that has the same segment: then the
/// first row of each segment has all.
Tensor combined_by_segments(const ForeignNode& n, Combine f, const Tensor& x, const Tensor& segments,
                            std::int64_t count, const Tensor& nothing) {
  const std::int64_t rows = x.shape().sizes()[0];
  Shape shape = x.shape();
  shape.set(0, count);
  if (rows == 0 || count == 0) return broadcast_to(nothing, shape);
  const Tensor order = argsort(segments), ids = gather(segments, order);
  const Tensor place = arange(rows, {.dtype = int64});
  Tensor sorted = gather(x, order);
  for (std::int64_t step = 1; step < rows; step *= 2) {
    const Tensor same = equal(ids, roll(ids, -step, 0)) & (place < rows - step);
    sorted = where(for_rows(same, x), combined(f, sorted, roll(sorted, -step, 0)), sorted);
  }
  const Tensor counts = added_by_segments(n, ones({rows}, {.dtype = int64}), segments, count);
  const Tensor left_out = reduce_sum((segments < 0).cast(int64));
  const Tensor first = left_out + cumsum(counts, 0, {.exclusive = true});
  return where(for_rows(counts > 0, x), gather(sorted, minimum(first, rows - 1)), nothing);
}

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
    return combined_by_segments(n, f, reshape(x, rows), list, count, neutral(f, x.dtype()));
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
    const Tensor nothing = old && f != Combine::product ? detail::make_scalar(0, x.dtype()) : neutral(f, x.dtype());
    return combined_by_segments(n, f, x, list_of(n, 1), count, nothing);
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
Tensor updated(const ForeignNode& n, const Rows& rows) {
  const std::int64_t count = rows.updates.shape().sizes()[0];
  if (count == 0) return rows.x;
  const Tensor last = combined_by_segments(n, Combine::largest, arange(count, {.dtype = int64}), rows.places,
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
    if (op == "TensorScatterUpdate") return reshape(updated(n, rows), x.shape());
    const Combine f = combine_of(n);
    const Tensor changes =
        combined_by_segments(n, f, rows.updates, rows.places, rows.x.shape().sizes()[0], neutral(f, x.dtype()));
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
    return reshape(updated(n, rows_of(n, background, places, broadcast_to(values, {count}))), shape);
  });
}

/// A sparse matrix, as coordinates and values, by a dense one.
Tensors read_sparse_product(const ForeignNode& n) {
  require_rank(n, 0, 2);
  require_rank(n, 3, 2);
  const std::vector<std::int64_t> shape = n.numbers(2);
  if (shape.size() != 2) n.node.refuse("its sparse input is no matrix");
  const bool adjoint = n.node.attr_or<bool>("adjoint_a", false), adjoint_b = n.node.attr_or<bool>("adjoint_b", false);
  const std::int64_t count = shape[adjoint ? 1 : 0];
  if (count < 0 || count > most_numbers) n.node.refuse(detail::join("its sparse input has ", count, " rows"));
  return n.composed([&] {
    const auto coordinate = [&](std::int64_t axis) { return squeeze(slice(n.in(0), {0, axis}, {-1, 1}), 1); };
    const Tensor rows = coordinate(adjoint ? 1 : 0), columns = coordinate(adjoint ? 0 : 1);
    const Tensor b = adjoint_b ? transpose(n.in(3)) : Tensor(n.in(3));
    return added_by_segments(n, expand_dims(n.in(1), 1) * gather(b, columns), rows, count);
  });
}

/// The numbers of the coordinates of a sparse tensor, whose shape is known, in the flattened dense one.
Tensor places_of(const ForeignNode& n) {
  const Shape shape = n.shape(2);
  const Tensor coordinates = n.in(0);
  require_rank(n, 0, 2);
  if (shape.size() > most_numbers || coordinates.shape().sizes()[1] != shape.rank())
    n.node.refuse(detail::join("its shape is ", shape, ", its coordinates have the shape ", coordinates.shape()));
  return gather_nd(reshape(arange(shape.size(), {.dtype = int64}), shape), coordinates);
}

/// The shape may be far too large for a dense tensor.
Tensors read_sparse_order(const ForeignNode& n) {
  require_rank(n, 0, 2);
  const Shape shape = n.shape(2);
  std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.rank()), 1);
  for (std::size_t i = strides.size(); i-- > 1;) strides[i - 1] = product(strides[i], shape.sizes()[i]);
  return n.composed([&]() -> Tensors {
    const Tensor order = argsort(reduce_sum(n.in(0) * vector_of(strides, int64), 1));
    return {gather(n.in(0), order), gather(n.in(1), order)};
  });
}

Tensors read_sparse_reduction(const ForeignNode& n) {
  const std::vector<std::int64_t> axes = n.numbers(3);
  const bool keep_dims = n.node.attr_or<bool>("keep_dims", false);
  return n.composed([&] {
    const Tensor none = zeros({n.shape(2).size()}, {.dtype = n.in(1).dtype()});
    const Tensor dense = reshape(scatter_add(none, places_of(n), n.in(1)), n.shape(2));
    return axes.empty() ? identity(dense) : reduce_sum(dense, Ints(axes), {.keep_dims = keep_dims});
  });
}

/// The values of a sparse tensor, with those that a dense one, broadcast, has at the same coordinates.
Tensors read_sparse_elementwise(const ForeignNode& n) {
  const std::string& op = n.node.def().op;
  if (n.in(1).dtype() != n.in(3).dtype()) n.node.refuse("its inputs have several types");
  return n.composed([&]() -> Tensor {
    const Tensor dense = gather(reshape(broadcast_to(n.in(3), n.shape(2)), {-1}), places_of(n));
    return op.ends_with("Mul") ? n.in(1) * dense : op.ends_with("Div") ? n.in(1) / dense : n.in(1) + dense;
  });
}

/// For each axis of a shape the coordinates of places in the flattened tensor.
std::vector<Tensor> coordinates_of(const Tensor& places, const std::vector<std::int64_t>& sizes) {
  std::vector<Tensor> axes(sizes.size());
  Tensor rest = places;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    axes[i] = mod(rest, sizes[i]);
    rest = floor_divide(rest, sizes[i]);
  }
  return axes;
}

/// The same elements of a sparse tensor by their coordinates in another shape, which may leave one size open.
Tensors read_sparse_reshape(const ForeignNode& n) {
  const std::vector<std::int64_t> from = n.numbers(1);
  std::vector<std::int64_t> to = n.numbers(2);
  std::int64_t size = 1, rest = 1;
  for (const std::int64_t each : from) size = product(size, each);
  for (const std::int64_t each : to) rest = product(rest, each < 0 ? 1 : each);
  for (std::int64_t& each : to)
    if (each < 0) each = rest > 0 ? size / std::exchange(rest, 0) : 0;
  std::int64_t told = 1;
  for (const std::int64_t each : to) told = product(told, each);
  if (from.empty() || to.empty() || size < 1 || told != size)
    n.node.refuse(detail::join("a tensor of ", size, " elements does not fit the shape it asks for"));
  return n.composed([&]() -> Tensors {
    Tensor place;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const Tensor coordinate = squeeze(slice(n.in(0), {0, static_cast<std::int64_t>(i)}, {-1, 1}), 1);
      place = bool(place) ? place * from[i] + coordinate : coordinate;
    }
    return {stack(coordinates_of(place, to), 1), vector_of(to, int64)};
  });
}

/// A sparse tensor in which each row has an element: those without one get the default, at the coordinate 0. Also tells
/// which rows those are, and where each element went.
Tensors read_filled_rows(const ForeignNode& n) {
  const Tensor &indices = n.in(0), &values = n.in(1);
  require_rank(n, 0, 2);
  const std::vector<std::int64_t> shape = n.numbers(2);
  const std::int64_t count = values.shape().num_elements();
  if (shape.empty() || shape[0] < 0 || shape[0] > most_numbers || indices.shape().sizes()[1] < 1)
    n.node.refuse(detail::join("its sparse tensor has the shape ", Shape(shape)));
  return n.composed([&]() -> Tensors {
    const Tensor rows = squeeze(slice(indices, {0, 0}, {-1, 1}), 1);
    const Tensor is_empty = equal(added_by_segments(n, ones({count}, {.dtype = int64}), rows, shape[0]), 0);
    const Tensor empty = nonzero(is_empty), none = squeeze(empty, 1);
    const Tensor added = pad(empty, {{0, 0}, {0, indices.shape().sizes()[1] - 1}});
    // Elements keep their order in a row.
    const Tensor order = argsort(concat({rows * (count + 1) + arange(count, {.dtype = int64}), none * (count + 1)}, 0));
    const Tensor filled = (none * 0).cast(values.dtype()) + n.in(3);
    return {gather(concat({indices, added}, 0), order), gather(concat({values, filled}, 0), order), is_empty,
            slice(argsort(order), {0}, {count}).cast(int64)};
  });
}

Tensors read_filled_rows_gradient(const ForeignNode& n) {
  return n.composed([&]() -> Tensors {
    const Tensor own = gather(n.in(1), n.in(0));
    return {own, reduce_sum(n.in(1)) - reduce_sum(own)};
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
      {.name = "SparseFillEmptyRows",
       .inputs = 4,
       .values = {2},
       .lacks_sizes = lacks_any_size,
       .outputs = {typed(int64), like(1), typed(boolean), typed(int64)},
       .read = read_filled_rows},
      {.name = "SparseFillEmptyRowsGrad",
       .inputs = 2,
       .outputs = {like(1), like(1)},
       .read = read_filled_rows_gradient},
      {.name = "SparseReshape",
       .inputs = 3,
       .values = {1, 2},
       .outputs = {typed(int64), typed(int64)},
       .read = read_sparse_reshape},
      {.name = "SparseTensorDenseMatMul",
       .inputs = 4,
       .values = {2},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(1)},
       .read = read_sparse_product},
      {.name = "SparseReduceSum",
       .inputs = 4,
       .values = {2, 3},
       .lacks_sizes = lacks_rank,
       .outputs = {like(1)},
       .read = read_sparse_reduction},
      {.name = "SparseReorder",
       .inputs = 3,
       .values = {2},
       .lacks_sizes = lacks_rank,
       .outputs = {like(0), like(1)},
       .read = read_sparse_order},
      {.name = "SparseToDense",
       .inputs = 4,
       .values = {1},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(2)},
       .read = read_sparse_to_dense},
      {.name = "UnravelIndex", .inputs = 2, .values = {1}, .outputs = {like(0)}, .read = read_coordinates},
  };
  for (const char* name : {"SparseDenseCwiseAdd", "SparseDenseCwiseDiv", "SparseDenseCwiseMul"})
    ops.push_back({.name = name,
                   .inputs = 4,
                   .values = {2},
                   .lacks_sizes = lacks_rank,
                   .outputs = {like(1)},
                   .read = read_sparse_elementwise});
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
