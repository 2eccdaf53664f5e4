// What indices and coordinates pick, replace and bring together.

#include <algorithm>
#include <limits>
#include <set>

#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {

Tensor onnx_last_of_equal(const Tensor& numbers) {
  const Tensor list = reshape(numbers, {-1}), order = argsort(list), sorted = gather(list, order);
  constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
  const Tensor after = onnx_cut(concat({sorted, tensor<std::int64_t>({end})}, 0), {{0, 1, end}});
  return reshape_like(gather(not_equal(sorted, after), argsort(order)), numbers);
}

namespace {

using OnnxCombination = Tensor (*)(In, In, std::string_view);

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

/// One number for each coordinate of an element of x, the same for equal ones.
Tensor places_in(const OnnxCall& c, const Tensor& coordinates) {
  const int last = coordinates.shape().rank() - 1;
  const std::int64_t depth = coordinates.shape().sizes()[last];
  if (depth == 0) return reduce_sum(coordinates.cast(int64), last);
  Tensor place;
  for (int i = 0; i < static_cast<int>(depth); ++i) {
    const Tensor own = squeeze(onnx_cut(coordinates, {{last, i, i + 1}}), last).cast(int64);
    const Tensor size =
        c.size(i) >= 0 ? detail::make_scalar(static_cast<double>(c.size(i)), int64) : tapestry::size(c[0], i);
    place = bool(place) ? place * size + own : own;
  }
  return place;
}

/// Updates, or zeros in place of those that do not count.
Tensor kept_where(const Tensor& mask, const Tensor& updates) {
  const Tensor wide = expand_dims(mask, onnx_range(mask.shape().rank(), updates.shape().rank()));
  return where(wide, updates, zeros_like(updates));
}

/// Whether the coordinates are known, and no two of them are equal.
bool are_known_to_differ(const OnnxCall& c) {
  if (!c.is_known(1)) return false;
  const Tensor known = c.value(1);
  const std::int64_t depth = known.rank() > 0 ? known.shape().sizes()[known.rank() - 1] : 0;
  if (depth < 1 || known.size() < 1 || known.size() > most_places) return false;
  const std::vector<std::int64_t> list = known.cast(int64).to_vector<std::int64_t>();
  std::set<std::vector<std::int64_t>> rows;
  for (auto at = list.begin(); at != list.end(); at += depth) rows.emplace(at, at + depth);
  return static_cast<std::int64_t>(rows.size()) * depth == known.size() &&
         *std::min_element(list.begin(), list.end()) >= 0;
}

/// x with updates in place of what is there.
Tensor replaced(const OnnxCall& c, const Tensor& x, const Tensor& coordinates, const Tensor& updates, bool differ) {
  if (x.dtype() == boolean || x.dtype() == uint8)  // which other programs do not add
    return replaced(c, x.cast(int32), coordinates, updates.cast(int32), differ).cast(x.dtype());
  const Tensor winners = differ ? Tensor() : onnx_last_of_equal(places_in(c, coordinates));
  const auto placed = [&](const Tensor& values) {
    return tensor_scatter_nd_add(zeros_like(x).cast(values.dtype()), coordinates,
                                 differ ? values : kept_where(winners, values));
  };
  const Tensor hits = placed(ones_like(updates).cast(int32));
  return where(greater(hits, 0), placed(updates), x);
}

/// x combined with updates, whose sizes are known. Sorted by its place, each update is combined with the one 1, 2, 4,
/// ... steps behind as long as that has the same place: then the first one of each place has all.
Tensor combined(const OnnxCall& c, OnnxCombination f, const Tensor& x, const Tensor& coordinates,
                const Tensor& updates) {
  const int batch = coordinates.shape().rank() - 1;
  const std::int64_t depth = coordinates.shape().sizes()[batch];
  std::int64_t rows = 1;
  Shape shape{0};
  for (int i = 0; i < updates.shape().rank(); ++i) {
    const std::int64_t size = updates.shape().sizes()[i];
    i < batch ? void(rows = product(rows, size)) : shape.push_back(size);
  }
  if (rows == 0) return x;
  shape.set(0, rows);
  const Tensor list = reshape(coordinates, {rows, depth}), places = places_in(c, list);
  const Tensor order = argsort(places), sorted = gather(places, order), row = arange(rows, {.dtype = int64});
  Tensor values = gather(reshape(updates, shape), order);
  for (std::int64_t step = 1; step < rows; step *= 2) {
    const Tensor same = logical_and(equal(sorted, roll(sorted, -step, 0)), less(row, rows - step));
    const Tensor wide = expand_dims(same, onnx_range(1, shape.rank()));
    values = where(wide, f(values, roll(values, -step, 0), {}), values);
  }
  const Tensor first = logical_or(equal(row, 0), not_equal(sorted, roll(sorted, 1, 0)));
  const auto placed = [&](const Tensor& each) {
    return tensor_scatter_nd_add(zeros_like(x).cast(each.dtype()), gather(list, order), kept_where(first, each));
  };
  return where(greater(placed(ones_like(values).cast(int32)), 0), f(x, placed(values), {}), x);
}

OnnxCombination combination_of(const OnnxCall& c) {
  const std::string how = c.text("reduction", "none");
  if (how == "mul") return multiply;
  if (how == "max") return maximum;
  if (how == "min") return minimum;
  if (how != "none" && how != "add") c.refuse(detail::join("its reduction is '", how, "'"));
  return nullptr;
}

/// Updates at coordinates. Of several ones at the same place the last one counts, unless they are combined.
Tensor scattered(const OnnxCall& c, const Tensor& x, const Tensor& coordinates, const Tensor& updates,
                 bool differ = false) {
  if (x.dtype() != updates.dtype())
    c.refuse(detail::join("its inputs are ", to_string(x.dtype()), " and ", to_string(updates.dtype())));
  if (const OnnxCombination f = combination_of(c)) return combined(c, f, x, coordinates, updates);
  if (c.text("reduction", "none") == "add") return tensor_scatter_nd_add(x, coordinates, updates);
  return replaced(c, x, coordinates, updates, differ);
}

bool scatter_nd_lacks(const OnnxCall& c) {
  if (coordinates_lack(c)) return true;
  return combination_of(c) && !(c.shape(1).is_known() && c.shape(2).is_known());
}
Tensors read_scatter_nd(const OnnxCall& c) {
  return {scattered(c, c[0], coordinates_from_the_start(c, 1), c[2], are_known_to_differ(c))};
}

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
    } else if (c.size(i, 1) < 0) {
      coordinates.push_back(cumsum(ones_like(indices), i, {.exclusive = true}));
    } else {
      const Tensor along = arange(c.size(i, 1), {.dtype = indices.dtype()});
      coordinates.push_back(broadcast_like(others.empty() ? along : expand_dims(along, others), indices));
    }
  }
  return {scattered(c, c[0], stack(InList(coordinates), -1), c[2])};
}
bool scatter_elements_lacks(const OnnxCall& c) {
  return onnx_lacks_ranks(c) || (combination_of(c) && !(c.shape(1).is_known() && c.shape(2).is_known()));
}

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
  const Tensor x = c.dtype() == boolean ? c[0].cast(int64) : c[0];
  const std::int64_t k = c.has(1) ? c.number(1) : 0;
  if (c.rank() < 2) c.refuse(detail::join("its input has the shape ", x.shape()));
  // A diagonal beyond the corner leaves nothing, or everything.
  constexpr std::int64_t far = std::int64_t{1} << 40;
  const std::int64_t d = std::clamp(k, -far, far);
  // What is left out may be infinite, so it is not subtracted.
  const auto without_band = [&](std::int64_t lower, std::int64_t upper) {
    return where(greater(band_part(ones_like(x).cast(int64), lower, upper), 0), zeros_like(x), x);
  };
  const Tensor y = c.flag("upper", true) ? (d <= 0 ? band_part(x, -d, -1) : without_band(-1, d - 1))
                                         : (d >= 0 ? band_part(x, -1, d) : without_band(-d - 1, -1));
  return {c.dtype() == boolean ? greater(y, 0) : y};
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
      {"ScatterND", 3, 3, read_scatter_nd, {}, scatter_nd_lacks, nullptr, same_rank},
      {"Trilu", 1, 2, read_trilu, {1}, onnx_lacks_rank, nullptr, same_rank},
  };
}

}  // namespace tapestry::io
