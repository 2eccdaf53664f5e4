// Sparse tensors, as coordinates, values and a shape.

#include <algorithm>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/foreign_segments.hpp"

namespace tapestry::io {
namespace {

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

/// The numbers of the coordinates of a sparse tensor, whose shape is known, in the flattened dense one. Coordinates
/// outside are refused.
Tensor places_of(const ForeignNode& n) {
  const Shape shape = n.shape(2);
  const Tensor coordinates = n.in(0);
  require_rank(n, 0, 2);
  if (shape.size() > most_numbers || coordinates.shape().sizes()[1] != shape.rank())
    n.node.refuse(detail::join("its shape is ", shape, ", its coordinates have the shape ", coordinates.shape()));
  return gather_nd(reshape(arange(shape.size(), {.dtype = int64}), shape), coordinates);
}

/// The numbers of coordinates in a flattened tensor of this shape, which may be far too large to be made.
Tensor numbers_of(const ForeignNode& n, const Tensor& coordinates, const std::vector<std::int64_t>& shape) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (!agree(coordinates.shape(), Shape{-1, rank}))
    n.node.refuse(
        detail::join("its shape is ", Shape(shape), ", its coordinates have the shape ", coordinates.shape()));
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = strides.size(); i-- > 1;) strides[i - 1] = product(strides[i], shape[i]);
  const bool has_size = coordinates.shape().has_rank() && coordinates.shape().sizes()[1] == rank;
  const Tensor rows = has_size ? coordinates : ensure_shape(coordinates, {-1, rank});
  return reduce_sum(rows * vector_of(strides, int64), 1);
}

Tensors read_sparse_order(const ForeignNode& n) {
  return n.composed([&]() -> Tensors {
    const Tensor order = argsort(numbers_of(n, n.in(0), n.numbers(2)));
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
    if (op.ends_with("Mul")) return n.in(1) * dense;
    if (!op.ends_with("Div")) return n.in(1) + dense;
    if (is_floating(dense.dtype())) return n.in(1) / dense;
    if (dense.dtype() == uint8) return floor_divide(n.in(1), dense);
    return floor_divide(abs(n.in(1)), abs(dense)) * sign(n.in(1)) * sign(dense);  // rounded toward 0
  });
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
    return {stack(coordinates_of(numbers_of(n, n.in(0), from), to), 1), vector_of(to, int64)};
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

// ---- Several sparse tensors -----------------------------------------------------------------------------------------

/// The reverse of `numbers_of`.
Tensor coordinate_rows(const Tensor& numbers, const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return slice(expand_dims(numbers, 1), {0, 0}, {-1, 0});
  return stack(coordinates_of(numbers, shape), 1);
}

/// The different numbers of a list, in ascending order, and for each element the place of its number.
struct Merged {
  Tensor numbers, places;
  Tensor counts;  ///< twice how often each number occurs
};
Merged merged(const Tensor& all) {
  const std::int64_t count = all.shape().sizes()[0];
  const Unique found = unique(concat({sort(all), all}, 0));
  return {found.values, slice(found.inverse, {count}, {count}), found.counts};
}

/// The sum of the elements of each different number.
Tensor added(const Merged& list, const Tensor& elements) {
  return scatter_add(zeros_like(gather(elements, list.counts * 0)), list.places, elements);
}

/// For each of the coordinates `wanted` what x has at the same of the coordinates `given`, or 0.
Tensor picked(const Tensor& x, const Tensor& given, const Tensor& wanted) {
  const std::int64_t count = given.shape().sizes()[0], size = wanted.shape().sizes()[0];
  if (size == 0) return zeros({0}, {.dtype = x.dtype()});
  const Tensor all = concat({given, wanted}, 0);
  const Tensor strides = cumprod(reduce_max(all, 0) + 1, 0, {.exclusive = true, .reverse = true});
  const Tensor places = slice(unique(reduce_sum(all * strides, 1)).inverse, {count}, {size});
  return gather(concat({x, zeros({1}, {.dtype = x.dtype()})}, 0), minimum(places, count));
}

/// The rows of a sparse tensor where the mask is true.
std::pair<Tensor, Tensor> rows_where(const Tensor& mask, const Tensor& coordinates, const Tensor& values) {
  const Tensor places = squeeze(nonzero(mask), 1);
  return {gather(coordinates, places), gather(values, places)};
}

std::vector<std::int64_t> shape_of_both(const ForeignNode& n) {
  std::vector<std::int64_t> shape = n.numbers(2);
  if (shape != n.numbers(5)) n.node.refuse("its two tensors have different shapes");
  if (n.in(1).dtype() != n.in(4).dtype()) n.node.refuse("its inputs have several types");
  return shape;
}

/// Elements that both tensors have are added up; of these sums, those nearer to 0 than the threshold are left out.
Tensors read_sparse_sum(const ForeignNode& n) {
  const std::vector<std::int64_t> shape = shape_of_both(n);
  return n.composed([&]() -> Tensors {
    const Merged all = merged(numbers_of(n, concat({n.in(0), n.in(3)}, 0), shape));
    const Tensor sum = added(all, concat({n.in(1), n.in(4)}, 0));
    const Tensor is_of_one = all.counts <= 2;
    const auto [coordinates, values] =
        rows_where(is_of_one | (abs(sum) >= n.in(6)), coordinate_rows(all.numbers, shape), sum);
    return {coordinates, values, vector_of(shape, int64)};
  });
}

Tensors read_sparse_sum_gradient(const ForeignNode& n) {
  return n.composed([&]() -> Tensors {
    return {picked(n.in(0), n.in(3), n.in(1)), picked(n.in(0), n.in(3), n.in(2))};
  });
}

/// What one tensor lacks is 0.
Tensors read_sparse_extremes(const ForeignNode& n) {
  const std::vector<std::int64_t> shape = shape_of_both(n);
  return n.composed([&]() -> Tensors {
    const Merged all = merged(numbers_of(n, concat({n.in(0), n.in(3)}, 0), shape));
    const Tensor a = added(all, concat({n.in(1), zeros_like(n.in(4))}, 0));
    const Tensor b = added(all, concat({zeros_like(n.in(1)), n.in(4)}, 0));
    return {coordinate_rows(all.numbers, shape),
            n.node.def().op == "SparseSparseMaximum" ? maximum(a, b) : minimum(a, b)};
  });
}

std::vector<std::size_t> shapes_of_parts(const NodeReader& reader) {
  const std::size_t count = reader.input_count() / 3;
  std::vector<std::size_t> inputs(count);
  for (std::size_t i = 0; i < count; ++i) inputs[i] = 2 * count + i;
  return inputs;
}

Tensors read_sparse_concat(const ForeignNode& n) {
  const std::size_t count = n.inputs.size() / 3;
  if (count == 0 || n.inputs.size() % 3 != 0) n.node.refuse("its tensors lack parts");
  std::vector<std::int64_t> shape = n.numbers(2 * count);
  const auto axis = static_cast<std::size_t>(normalize_axis(
      n.node.attr<std::int64_t>("concat_dim"), static_cast<int>(std::min<std::size_t>(shape.size(), Shape::max_rank))));
  std::vector<std::int64_t> offsets{0};
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> own = n.numbers(2 * count + i);
    if (own.size() != shape.size()) n.node.refuse("its tensors have several ranks");
    std::int64_t end = 0;
    if (__builtin_add_overflow(offsets.back(), std::exchange(own[axis], shape[axis]), &end))
      n.node.refuse("its sizes are too large");
    offsets.push_back(end);
    if (own != shape) n.node.refuse("its tensors have sizes that do not fit");
  }
  shape[axis] = offsets.back();
  return n.composed([&]() -> Tensors {
    std::vector<Tensor> lists, values;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::int64_t> offset(shape.size());
      offset[axis] = offsets[i];
      lists.push_back(n.in(i) + vector_of(offset, int64));
      values.push_back(n.in(count + i));
    }
    const Tensor coordinates = concat(lists, 0), order = argsort(numbers_of(n, coordinates, shape));
    return {gather(coordinates, order), gather(concat(values, 0), order), vector_of(shape, int64)};
  });
}

/// The elements of a part of a sparse tensor, and the shape of this part.
Tensors part_of(const ForeignNode& n, std::size_t first, const std::vector<std::int64_t>& start,
                std::vector<std::int64_t> size) {
  const std::vector<std::int64_t> shape = n.numbers(first + 2);
  if (start.size() != shape.size() || size.size() != shape.size()) n.node.refuse("its part has another rank");
  for (std::size_t i = 0; i < size.size(); ++i) {
    if (shape[i] < 0) n.node.refuse("its shape has a negative size");
    if (start[i] < 0 || size[i] < 0) n.node.refuse("its part begins, or ends, before the beginning");
    size[i] = std::clamp<std::int64_t>(shape[i] - start[i], 0, size[i]);
  }
  const Tensor moved = subtract(n.in(first), vector_of(start, int64));
  auto [coordinates, values] =
      rows_where(reduce_all((moved >= 0) & (moved < vector_of(size, int64)), 1), moved, n.in(first + 1));
  return {coordinates, values, vector_of(size, int64)};
}

Tensors read_sparse_slice(const ForeignNode& n) {
  return n.composed([&] { return part_of(n, 0, n.numbers(3), n.numbers(4)); });
}

Tensors read_sparse_slice_gradient(const ForeignNode& n) {
  return n.composed([&] { return picked(n.in(0), n.in(3) + vector_of(n.numbers(2), int64), n.in(1)); });
}

/// Equal parts, or where the axis cannot be divided the first ones longer by 1: their coordinates, values, and shapes.
Tensors read_sparse_split(const ForeignNode& n) {
  const std::vector<std::int64_t> shape = n.numbers(3);
  const std::int64_t count = n.node.attr<std::int64_t>("num_split");
  const auto axis = static_cast<std::size_t>(
      normalize_axis(n.number(0), static_cast<int>(std::min<std::size_t>(shape.size(), Shape::max_rank))));
  if (count < 1 || count > shape[axis]) n.node.refuse(detail::join("it makes ", count, " parts of ", shape[axis]));
  return n.composed([&] {
    Tensors results(static_cast<std::size_t>(3 * count));
    std::vector<std::int64_t> start(shape.size()), size = shape;
    for (std::int64_t i = 0; i < count; ++i) {
      size[axis] = shape[axis] / count + (i < shape[axis] % count ? 1 : 0);
      const Tensors part = part_of(n, 1, start, size);
      start[axis] += size[axis];
      for (std::int64_t k = 0; k < 3; ++k) results[k * count + i] = part[k];
    }
    return results;
  });
}

Specs specs_of_sparse_split(const NodeReader& reader, const Tensors& inputs) {
  const std::int64_t count = std::clamp<std::int64_t>(reader.attr_or<std::int64_t>("num_split", 1), 1, most_blocks);
  Specs specs;
  for (const Spec& each : {Spec{int64, Shape{-1, -1}}, Spec{inputs[2].dtype(), Shape{-1}}, Spec{int64, Shape{-1}}})
    for (std::int64_t i = 0; i < count; ++i) specs.push_back(each);
  return specs;
}

// ---- One sparse tensor ----------------------------------------------------------------------------------------------

/// The numbers of the coordinates without some of the axes, and the sizes of the others.
std::pair<Tensor, std::vector<std::int64_t>> groups_of(const ForeignNode& n, const std::vector<std::int64_t>& axes) {
  std::vector<std::int64_t> shape = n.numbers(2), strides(shape.size());
  const auto rank = static_cast<int>(std::min<std::size_t>(shape.size(), Shape::max_rank));
  std::vector<char> is_reduced(shape.size());
  for (const std::int64_t each : axes) is_reduced[static_cast<std::size_t>(normalize_axis(each, rank))] = 1;
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (is_reduced[i]) continue;
    strides[i] = stride;
    stride = product(stride, shape[i]);
  }
  std::vector<std::int64_t> left;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!is_reduced[i])
      left.push_back(shape[i]);
    else if (n.node.attr_or<bool>("keep_dims", false))
      left.push_back(1);
  }
  return {reduce_sum(n.in(0) * vector_of(strides, int64), 1), left};
}

/// The largest of the elements that there are; where there is none, 0.
Tensors read_sparse_maximum(const ForeignNode& n) {
  require_rank(n, 0, 2);
  return n.composed([&] {
    const auto [groups, sizes] = groups_of(n, n.numbers(3));
    const Shape shape(sizes);
    if (shape.size() > most_numbers) n.node.refuse(detail::join("its result has the shape ", shape));
    const Tensor nothing = detail::make_scalar(0, n.in(1).dtype());
    return reshape(combined_by_segments(Combine::largest, n.in(1), groups, shape.size(), nothing), shape);
  });
}

/// The same as a sparse tensor.
Tensors read_reduced_sparse(const ForeignNode& n) {
  require_rank(n, 0, 2);
  const std::int64_t count = n.in(1).shape().num_elements();
  return n.composed([&]() -> Tensors {
    const auto [groups, sizes] = groups_of(n, n.numbers(3));
    const Merged all = merged(groups);
    const Tensor largest =
        combined_by_segments(Combine::largest, n.in(1), all.places, count, detail::make_scalar(0, n.in(1).dtype()));
    const bool is_sum = n.node.def().op == "SparseReduceSumSparse";
    const Tensor values =
        is_sum ? added(all, n.in(1)) : gather(largest, cumsum(ones_like(all.counts), 0, {.exclusive = true}));
    return {coordinate_rows(all.numbers, sizes), values, vector_of(sizes, int64)};
  });
}

/// Over the elements that there are in each row.
Tensors read_sparse_softmax(const ForeignNode& n) {
  require_rank(n, 0, 2);
  const std::int64_t count = n.in(1).shape().num_elements();
  if (n.numbers(2).size() < 2) n.node.refuse("its tensor is no matrix");
  return n.composed([&] {
    const Tensor rows = merged(groups_of(n, {-1}).first).places;
    const Tensor largest =
        combined_by_segments(Combine::largest, n.in(1), rows, count, detail::make_scalar(0, n.in(1).dtype()));
    const Tensor exponential = exp(n.in(1) - stop_gradient(gather(largest, rows)));
    return exponential / gather(added_by_segments(n, exponential, rows, count), rows);
  });
}

/// How many different elements the set in each row has.
Tensors read_set_size(const ForeignNode& n) {
  require_rank(n, 0, 2);
  const std::int64_t count = n.in(1).shape().num_elements();
  return n.composed([&] {
    const auto [rows, sizes] = groups_of(n, {-1});
    const Shape shape(sizes);
    if (shape.size() > most_numbers) n.node.refuse(detail::join("it has ", shape.size(), " sets"));
    const Tensor elements = unique(n.in(1)).inverse.cast(int64);
    const Tensor different = floor_divide(unique(rows * std::max<std::int64_t>(count, 1) + elements).values,
                                          std::max<std::int64_t>(count, 1));
    const Tensor counts =
        scatter_add(zeros({shape.size()}, {.dtype = int32}), different, ones_like(different).cast(int32));
    return reshape(counts, shape);
  });
}

}  // namespace

ForeignOps foreign_sparse() {
  ForeignOps ops{
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
      {.name = "SetSize",
       .inputs = 3,
       .values = {2},
       .lacks_sizes = lacks_any_size,
       .outputs = {typed(int32)},
       .read = read_set_size},
      {.name = "SparseAdd",
       .inputs = 7,
       .values = {2, 5},
       .lacks_sizes = lacks_any_size,
       .outputs = {typed(int64), like(1), typed(int64)},
       .read = read_sparse_sum},
      {.name = "SparseAddGrad",
       .inputs = 4,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0), like(0)},
       .read = read_sparse_sum_gradient},
      {.name = "SparseConcat",
       .inputs = -1,
       .lacks_sizes = lacks_any_size,
       .outputs = {typed(int64), told_by("T", DType::unknown), typed(int64)},
       .find_values = shapes_of_parts,
       .read = read_sparse_concat},
      {.name = "SparseReduceMax",
       .inputs = 4,
       .values = {2, 3},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(1)},
       .read = read_sparse_maximum},
      {.name = "SparseSlice",
       .inputs = 5,
       .values = {2, 3, 4},
       .lacks_sizes = lacks_any_size,
       .outputs = {typed(int64), like(1), typed(int64)},
       .read = read_sparse_slice},
      {.name = "SparseSliceGrad",
       .inputs = 4,
       .values = {2},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_sparse_slice_gradient},
      {.name = "SparseSoftmax",
       .inputs = 3,
       .values = {2},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(1)},
       .read = read_sparse_softmax},
      {.name = "SparseSplit",
       .inputs = 4,
       .values = {0, 3},
       .lacks_sizes = lacks_any_size,
       .specs = specs_of_sparse_split,
       .read = read_sparse_split},
  };
  for (const char* name : {"SparseDenseCwiseAdd", "SparseDenseCwiseDiv", "SparseDenseCwiseMul"})
    ops.push_back({.name = name,
                   .inputs = 4,
                   .values = {2},
                   .lacks_sizes = lacks_rank,
                   .outputs = {like(1)},
                   .read = read_sparse_elementwise});
  for (const char* name : {"SparseReduceMaxSparse", "SparseReduceSumSparse"})
    ops.push_back({.name = name,
                   .inputs = 4,
                   .values = {2, 3},
                   .lacks_sizes = lacks_any_size,
                   .outputs = {typed(int64), like(1), typed(int64)},
                   .read = read_reduced_sparse});
  for (const char* name : {"SparseSparseMaximum", "SparseSparseMinimum"})
    ops.push_back({.name = name,
                   .inputs = 6,
                   .values = {2, 5},
                   .lacks_sizes = lacks_any_size,
                   .outputs = {typed(int64), like(1)},
                   .read = read_sparse_extremes});
  return ops;
}

}  // namespace tapestry::io
