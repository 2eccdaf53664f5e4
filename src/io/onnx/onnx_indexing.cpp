// What indices and coordinates pick, replace and bring together.

#include <algorithm>

#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {
namespace {

void require_indices(const OnnxCall& c, std::size_t place) {
  const DType dtype = c.dtype(place);
  if (dtype != int32 && dtype != int64 && dtype != DType::unknown)
    c.refuse(detail::join("its input ", place, " is ", to_string(dtype), ", where indices are due"));
}

/// Indices that count from the end where they are negative, as ours do not.
Tensor from_the_start(const OnnxCall& c, std::size_t place, int axis) {
  require_indices(c, place);
  const Tensor& indices = c[place];
  if (c.is_known(place)) {
    const Tensor known = c.value(place);
    if (known.size() <= most_places) {
      const std::vector<std::int64_t> list = known.to_vector<std::int64_t>();
      if (std::all_of(list.begin(), list.end(), [](std::int64_t each) { return each >= 0; })) return indices;
    }
  }
  const std::int64_t size = c.size(axis);
  const Tensor moved = size >= 0 ? indices + size : indices + tapestry::size(c[0], axis).cast(indices.dtype());
  return where(less(indices, 0), moved, indices);
}

Tensors read_gather(const OnnxCall& c) {
  const int axis = c.axis("axis", 0);
  return {gather(c[0], from_the_start(c, 1, axis), axis)};
}
int rank_of_gather(const OnnxCall& c) { return c.rank() < 0 || c.rank(1) < 0 ? -1 : c.rank() + c.rank(1) - 1; }

Tensors read_gather_elements(const OnnxCall& c) {
  const int axis = c.axis("axis", 0);
  if (c.rank(1) != c.rank()) c.refuse(detail::join("it picks from ", c.shape(), " by ", c.shape(1)));
  // The other axes may be shorter in the indices.
  std::vector<OnnxCut> cuts;
  for (int i = 0; i < c.rank(); ++i)
    if (i != axis && c.size(i) != c.size(i, 1)) {
      if (c.size(i, 1) < 0 || (c.size(i) >= 0 && c.size(i, 1) > c.size(i)))
        c.refuse(detail::join("it picks from ", c.shape(), " by ", c.shape(1)));
      cuts.push_back({i, 0, c.size(i, 1)});
    }
  return {take_along_axis(onnx_cut(c[0], cuts), from_the_start(c, 1, axis), axis)};
}
bool gather_elements_lacks(const OnnxCall& c) {
  if (onnx_lacks_ranks(c) || c.rank() != c.rank(1)) return onnx_lacks_ranks(c);
  for (int i = 0; i < c.rank(); ++i)
    if (i != c.axis("axis", 0) && c.size(i) != c.size(i, 1) && (c.size(i) < 0 || c.size(i, 1) < 0)) return true;
  return false;
}

/// Coordinates that count from the end where they are negative.
Tensor coordinates_from_the_start(const OnnxCall& c, std::size_t place, int first = 0) {
  require_indices(c, place);
  const Tensor& indices = c[place];
  if (c.rank(place) < 1) c.refuse("its indices are a scalar");
  const std::int64_t depth = c.size(c.rank(place) - 1, place);
  if (depth < 0 || first + depth > c.rank())
    c.refuse(detail::join("it has coordinates of ", depth, " numbers for ", c.shape()));
  const Tensor sizes = onnx_cut(shape(c[0]), {{0, first, first + depth}}).cast(indices.dtype());
  return where(less(indices, 0), indices + sizes, indices);
}

bool coordinates_lack(const OnnxCall& c) {
  return onnx_lacks_ranks(c) || (c.rank(1) > 0 && c.size(c.rank(1) - 1, 1) < 0);
}

/// Where the axes of a batch come first, the number of the example becomes the first coordinate.
Tensors read_gather_nd(const OnnxCall& c) {
  const std::int64_t batches = c.whole("batch_dims", 0);
  if (batches == 0) return {gather_nd(c[0], coordinates_from_the_start(c, 1))};
  if (batches < 0 || batches >= std::min(c.rank(), c.rank(1)) || onnx_lacks_any_size(c))
    c.refuse(detail::join("its batch_dims are ", batches, " for ", c.shape(), " and ", c.shape(1)));
  std::int64_t examples = 1;
  Shape x{0}, indices{0};
  for (int i = 0; i < c.rank(); ++i)
    i < batches ? void(examples = product(examples, c.size(i))) : x.push_back(c.size(i));
  for (int i = static_cast<int>(batches); i < c.rank(1); ++i) indices.push_back(c.size(i, 1));
  x.set(0, examples);
  indices.set(0, examples);
  const Tensor within = reshape(coordinates_from_the_start(c, 1, static_cast<int>(batches)), indices);
  Shape column = indices, result = c.shape(1);
  column.set(column.rank() - 1, 1);
  Shape number(std::vector<std::int64_t>(static_cast<std::size_t>(column.rank()), 1));
  number.set(0, examples);
  const Tensor example = broadcast_to(reshape(arange(examples, {.dtype = within.dtype()}), number), column);
  const Tensor found = gather_nd(reshape(c[0], x), concat({example, within}, -1));
  const std::int64_t depth = result.sizes()[result.rank() - 1];
  result.erase(result.rank() - 1);
  for (int i = static_cast<int>(batches + depth); i < c.rank(); ++i) result.push_back(c.size(i));
  return {reshape(found, result)};
}
bool gather_nd_lacks(const OnnxCall& c) {
  return c.whole("batch_dims", 0) != 0 ? onnx_lacks_any_size(c) : coordinates_lack(c);
}

// ---- Updates ---------------------------------------------------------------------------------------------------------

/// Updates at coordinates, which replace what is there or are combined with it. The order in which several updates of
/// one element are combined does not matter to these functions, but to a replacement: ONNX does not say which one wins.
Tensor scattered(const OnnxCall& c, const Tensor& x, const Tensor& coordinates, const Tensor& updates) {
  if (x.dtype() != updates.dtype())
    c.refuse(detail::join("its inputs are ", to_string(x.dtype()), " and ", to_string(updates.dtype())));
  const std::string how = c.text("reduction", "none");
  if (how == "add") return tensor_scatter_nd_add(x, coordinates, updates);
  if (how != "none") c.lack(detail::join("its reduction '", how, "'"));
  // Ones that are added where an update goes: x is kept where there are none.
  const Tensor zeros = zeros_like(x);
  if (x.dtype() == boolean) {
    const Tensor numbers = tensor_scatter_nd_add(zeros.cast(int32), coordinates, updates.cast(int32));
    const Tensor hits = tensor_scatter_nd_add(zeros.cast(int32), coordinates, ones_like(updates).cast(int32));
    return where(greater(hits, 0), greater(numbers, 0), x);
  }
  const Tensor hits = tensor_scatter_nd_add(zeros, coordinates, ones_like(updates));
  return where(greater(hits, 0), tensor_scatter_nd_add(zeros, coordinates, updates), x);
}

Tensors read_scatter_nd(const OnnxCall& c) { return {scattered(c, c[0], coordinates_from_the_start(c, 1), c[2])}; }

Tensors read_scatter_elements(const OnnxCall& c) {
  const Tensor& indices = c[1];
  const int axis = c.axis("axis", 0);
  if (c.rank(1) != c.rank()) c.refuse(detail::join("it updates ", c.shape(), " by ", c.shape(1)));
  std::vector<Tensor> coordinates;
  for (int i = 0; i < c.rank(); ++i) {
    Ints others;
    for (int k = 0; k < c.rank(); ++k)
      if (k != i) others.push_back(k);
    if (i == axis) {
      coordinates.push_back(from_the_start(c, 1, axis));
    } else {
      const Tensor along = arange(c.size(i, 1), {.dtype = indices.dtype()});
      coordinates.push_back(broadcast_like(others.empty() ? along : expand_dims(along, others), indices));
    }
  }
  return {scattered(c, c[0], stack(InList(coordinates), -1), c[2])};
}
bool scatter_elements_lacks(const OnnxCall& c) { return onnx_lacks_ranks(c) || !c.shape(1).is_known(); }

// ---- Others ----------------------------------------------------------------------------------------------------------

Tensors read_one_hot(const OnnxCall& c) {
  const std::vector<double> listed = c.value(1).cast(float64).to_vector<double>();
  if (listed.size() != 1 || !(listed[0] >= 0 && listed[0] <= static_cast<double>(most_numbers)))
    c.refuse("its depth is no number of classes");
  const auto depth = static_cast<std::int64_t>(listed[0]);
  const Tensor &values = c[2], labels = c[0].cast(int64);
  const Tensor rows = one_hot(where(less(labels, 0), labels + depth, labels), depth, boolean);
  const int rank = rows.shape().rank(), axis = normalize_axis(c.whole("axis", -1), rank);
  if (values.shape().rank() != 1) c.refuse(detail::join("its values have the shape ", values.shape()));
  return {where(transpose(rows, onnx_moved(rank, rank - 1, axis)), values(1), values(0))};
}
std::vector<DType> type_of_third(const OnnxCall& c) { return {c.dtype(2)}; }
int rank_of_one_hot(const OnnxCall& c) { return c.rank() < 0 ? -1 : c.rank() + 1; }

Tensors read_trilu(const OnnxCall& c) {
  const Tensor& x = c[0];
  const std::int64_t k = c.has(1) ? c.number(1) : 0;
  if (c.rank() < 2) c.refuse(detail::join("its input has the shape ", x.shape()));
  const Tensor nothing = zeros_like(x);
  // A diagonal beyond the corner leaves nothing, or everything.
  const auto band = [&](std::int64_t lower, std::int64_t upper) { return band_part(x, lower, upper); };
  constexpr std::int64_t far = std::int64_t{1} << 40;
  const std::int64_t d = std::clamp(k, -far, far);
  if (c.flag("upper", true)) return {d <= 0 ? band(-d, -1) : x - band(-1, d - 1)};
  return {d >= 0 ? band(-1, d) : x - band(-d - 1, -1)};
}

/// ONNX has the coordinates as columns.
Tensors read_nonzero(const OnnxCall& c) { return {transpose(nonzero(c[0]).cast(int64), {1, 0})}; }
int rank_of_nonzero(const OnnxCall&) { return 2; }

Tensors read_compress(const OnnxCall& c) {
  const bool has_axis = c.has_attr("axis");
  const Tensor x = has_axis ? c[0] : reshape(c[0], {-1});
  const int axis = has_axis ? c.axis("axis", 0) : 0;
  const Tensor places = squeeze(nonzero(c[1]).cast(int64), {1});
  return {gather(x, places, axis)};
}

Tensors read_reverse_sequence(const OnnxCall& c) {
  return {reverse_sequence(c[0], c[1], c.whole("time_axis", 0), c.whole("batch_axis", 1))};
}

}  // namespace

OnnxOps onnx_indexing() {
  constexpr auto same_rank = onnx_rank_of_input;
  return {
      {"Compress", 2, 2, read_compress, {}, onnx_lacks_ranks},
      {"Gather", 2, 2, read_gather, {}, onnx_lacks_ranks, nullptr, rank_of_gather},
      {"GatherElements", 2, 2, read_gather_elements, {}, gather_elements_lacks, nullptr, same_rank},
      {"GatherND", 2, 2, read_gather_nd, {}, gather_nd_lacks},
      {"NonZero", 1, 1, read_nonzero, {}, onnx_lacks_rank, onnx_type_int64, rank_of_nonzero},
      {"OneHot", 3, 3, read_one_hot, {1}, onnx_lacks_ranks, type_of_third, rank_of_one_hot},
      {"ReverseSequence", 2, 2, read_reverse_sequence, {}, onnx_lacks_ranks, nullptr, same_rank},
      {"Scatter", 3, 3, read_scatter_elements, {}, scatter_elements_lacks, nullptr, same_rank},
      {"ScatterElements", 3, 3, read_scatter_elements, {}, scatter_elements_lacks, nullptr, same_rank},
      {"ScatterND", 3, 3, read_scatter_nd, {}, coordinates_lack, nullptr, same_rank},
      {"Trilu", 1, 2, read_trilu, {1}, onnx_lacks_rank, nullptr, same_rank},
  };
}

}  // namespace tapestry::io
