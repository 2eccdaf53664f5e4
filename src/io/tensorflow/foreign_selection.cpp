// What values select: sets, parts of tensors, boxes. Their sizes are known only when the values are.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <queue>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

// ---- Sets --------------------------------------------------------------------------------------------------------------

using Numbers = std::vector<std::int64_t>;

/// The elements of both sets, or of one and not of the other, in ascending order.
Numbers combined_sets(const ForeignNode& n, Numbers a, Numbers b) {
  const auto& operation = n.node.attr<std::string>("set_operation");
  for (Numbers* each : {&a, &b}) {
    std::sort(each->begin(), each->end());
    each->erase(std::unique(each->begin(), each->end()), each->end());
  }
  Numbers result;
  const auto to = std::back_inserter(result);
  if (operation == "a-b")
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), to);
  else if (operation == "b-a")
    std::set_difference(b.begin(), b.end(), a.begin(), a.end(), to);
  else if (operation == "intersection")
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), to);
  else if (operation == "union")
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), to);
  else
    n.node.refuse(detail::join("its 'set_operation' is '", operation, "'"));
  return result;
}

/// Sets in the rows of a tensor, by the coordinates of the rows, and the sizes of the axes of these.
struct Sets {
  std::map<Numbers, Numbers> rows{};
  Numbers sizes{};
  DType dtype{};
};

Sets sets_of_dense(const ForeignNode& n, std::size_t input) {
  const Tensor value = n.node.constant(input);
  if (value.rank() < 1) n.node.refuse(detail::join("its sets are ", to_string(value.dtype()), value.shape()));
  Sets sets{.sizes = value.shape().to_vector(), .dtype = value.dtype()};
  const std::int64_t width = sets.sizes.back();
  sets.sizes.pop_back();
  const Numbers all = value.to_vector<std::int64_t>();
  Numbers place(sets.sizes.size());
  for (std::int64_t row = 0; row < Shape(sets.sizes).size(); ++row) {
    std::int64_t rest = row;
    for (std::size_t axis = place.size(); axis-- > 0; rest /= sets.sizes[axis]) place[axis] = rest % sets.sizes[axis];
    sets.rows[place] = Numbers(all.begin() + row * width, all.begin() + (row + 1) * width);
  }
  return sets;
}

/// From coordinates, elements and a shape, which are three inputs.
Sets sets_of_sparse(const ForeignNode& n, std::size_t first) {
  const Tensor coordinates = n.node.constant(first), elements = n.node.constant(first + 1);
  Sets sets{.sizes = n.numbers(first + 2), .dtype = elements.dtype()};
  const auto rank = static_cast<std::int64_t>(sets.sizes.size());
  if (rank < 1 || coordinates.dtype() != int64 || coordinates.shape() != Shape{elements.size(), rank})
    n.node.refuse(detail::join("its sets are ", elements.size(), " elements at ", coordinates.shape()));
  sets.sizes.pop_back();
  const Numbers places = coordinates.to_vector<std::int64_t>(), all = elements.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto at = places.begin() + static_cast<std::ptrdiff_t>(i) * rank;
    sets.rows[Numbers(at, at + rank - 1)].push_back(all[i]);
  }
  return sets;
}

/// The coordinates of the elements of each row's result, these, and the shape.
Tensors read_set_operation(const ForeignNode& n) {
  const bool is_sparse = n.node.def().op.starts_with("Sparse"), is_dense = n.node.def().op.starts_with("DenseToDense");
  Sets a = is_sparse ? sets_of_sparse(n, 0) : sets_of_dense(n, 0);
  Sets b = is_dense ? sets_of_dense(n, 1) : sets_of_sparse(n, is_sparse ? 3 : 1);
  if (a.sizes != b.sizes || a.dtype != b.dtype || !is_integer(a.dtype))
    n.node.refuse(
        detail::join("its sets are ", to_string(a.dtype), Shape(a.sizes), " and ", to_string(b.dtype), Shape(b.sizes)));
  for (const auto& [place, row] : b.rows) a.rows.try_emplace(place);
  const auto rank = static_cast<std::int64_t>(a.sizes.size()) + 1;
  Numbers elements, coordinates, shape = a.sizes;
  shape.push_back(0);
  for (const auto& [place, row] : a.rows) {
    const Numbers found = combined_sets(n, row, b.rows[place]);
    shape.back() = std::max(shape.back(), static_cast<std::int64_t>(found.size()));
    for (std::size_t i = 0; i < found.size(); ++i) {
      coordinates.insert(coordinates.end(), place.begin(), place.end());
      coordinates.push_back(static_cast<std::int64_t>(i));
      elements.push_back(found[i]);
    }
  }
  return constant_nodes(
      n, {reshape(vector_of(coordinates, int64), {-1, rank}), vector_of(elements, a.dtype), vector_of(shape, int64)});
}

/// Where a sampled class is one of the true ones: the number of the example, that of the sample, and a logit that rules
/// it out.
Tensors read_accidental_hits(const ForeignNode& n) {
  require_rank(n, 0, 2);
  require_rank(n, 1, 1);
  return n.composed([&]() -> Tensors {
    // Of a candidate that was drawn several times, TensorFlow names the last draw.
    const Tensor is_same = equal(expand_dims(n.in(0), 2), n.in(1));
    const Tensor places = cumsum(ones_like(n.in(1)), 0, {.exclusive = true});
    const Tensor hits = nonzero(reduce_any(is_same, 2));
    const Tensor sample = gather_nd(reduce_max(where(is_same, places, -1), 2), hits);
    const Tensor example = squeeze(slice(hits, {0, 0}, {-1, 1}), 1);
    return {example.cast(int32), sample, sample.cast(float32) * 0.0F + std::numeric_limits<float>::lowest()};
  });
}

// ---- Parts ----------------------------------------------------------------------------------------------------------------

bool lacks_partition_sizes(const NodeReader&, const Tensors& inputs) {
  const Shape &x = inputs[0].shape(), &partitions = inputs[1].shape();
  return !x.has_rank() || !partitions.has_rank() ||
         (partitions.rank() != 1 && (!x.is_known() || !partitions.is_known()));
}

Tensors read_partition(const ForeignNode& n) {
  const auto count = n.node.attr<std::int64_t>("num_partitions");
  if (count < 1 || count > most_outputs) n.node.refuse(detail::join("it has ", count, " partitions"));
  return n.composed([&] {
    Tensors parts;
    for (const Tensor& each : dynamic_partition(n.in(0), n.in(1), count)) parts.push_back(each);
    return parts;
  });
}

/// Any of several equal indices may count. Here the last one does.
Tensors read_parallel_stitch(const ForeignNode& n) {
  const std::size_t half = n.inputs.size() / 2;
  if (n.inputs.size() % 2 != 0) n.node.refuse(detail::join("it has ", n.inputs.size(), " inputs"));
  const std::vector<Tensor> indices(n.inputs.begin(), n.inputs.begin() + half);
  return {dynamic_stitch(indices, std::vector<Tensor>(n.inputs.begin() + half, n.inputs.end()), n.name())};
}

// ---- Ragged rows --------------------------------------------------------------------------------------------------------

/// The inputs that tell where the elements are: all but the elements and what stands for missing ones.
std::vector<std::size_t> partitions_of(const NodeReader& reader) {
  std::vector<std::size_t> inputs{0};
  for (std::size_t i = 3; i < reader.input_count(); ++i) inputs.push_back(i);
  return inputs;
}

bool lacks_ragged_sizes(const NodeReader& reader, const Tensors& inputs) {
  return inputs.size() > 1 && lacks_element_sizes(reader, {inputs[1]});
}

/// The lengths of the rows that an input tells by their limits, or by the number of each element's row.
Numbers row_lengths(const ForeignNode& n, std::size_t input, bool by_limits, std::size_t rows) {
  const Numbers told = n.numbers(input);
  if (by_limits && told.size() != rows + 1)
    n.node.refuse(detail::join("its input ", input, " has ", told.size(), " limits"));
  Numbers lengths(rows);
  for (std::size_t i = 0; i < told.size(); ++i) {
    const bool is_first = i == 0;
    if (!is_first && told[i] < told[i - 1]) n.node.refuse(detail::join("its input ", input, " is not in order"));
    if (by_limits ? is_first && told[0] != 0 : told[i] < 0 || std::cmp_greater_equal(told[i], rows))
      n.node.refuse(detail::join("its input ", input, " has ", told[i]));
    if (!by_limits) ++lengths[static_cast<std::size_t>(told[i])];
    if (by_limits && !is_first) lengths[i - 1] = told[i] - told[i - 1];
  }
  return lengths;
}

/// Rows of different lengths, as long as the longest one or as the shape says.
Tensors read_ragged(const ForeignNode& n) {
  const std::vector<std::string> types = n.node.attr<ListDef>("row_partition_types").strings;
  const bool has_count = !types.empty() && types[0] == "FIRST_DIM_SIZE";
  if (n.inputs.size() != types.size() + 3 || types.size() < (has_count ? 2 : 1) || n.in(1).shape().rank() < 1)
    n.node.refuse(detail::join("it has ", types.size(), " partitions for ", n.inputs.size(), " inputs"));
  const Numbers asked = n.numbers(0);
  const std::size_t levels = types.size() - (has_count ? 1 : 0);
  const auto size_of = [&](std::size_t axis, std::int64_t found) {
    return asked.size() > axis && asked[axis] >= 0 && n.node.constant(0).rank() == 1 ? asked[axis] : found;
  };
  std::int64_t rows = has_count ? n.number(3) : static_cast<std::int64_t>(n.numbers(3).size()) - 1;
  if (rows < 0 || rows > most_numbers) n.node.refuse(detail::join("it has ", rows, " rows"));
  Shape shape{size_of(0, rows)};
  Numbers places;  // of the rows in the result; -1 for those that it leaves out
  for (std::int64_t i = 0; i < rows; ++i) places.push_back(i < shape.sizes()[0] ? i : -1);
  for (std::size_t level = 0; level < levels; ++level) {
    const std::size_t input = 3 + level + (has_count ? 1 : 0);
    const std::string& type = types[input - 3];
    if (type != "ROW_SPLITS" && type != "VALUE_ROWIDS") n.node.refuse(detail::join("its partition is ", type));
    const Numbers lengths = row_lengths(n, input, type == "ROW_SPLITS", places.size());
    const std::int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
    const std::int64_t size = size_of(level + 1, longest);
    shape.push_back(size);
    if (shape.size() > most_numbers) n.node.refuse(detail::join("its shape is ", shape));
    Numbers next;
    for (std::size_t row = 0; row < places.size(); ++row)
      for (std::int64_t i = 0; i < lengths[row]; ++i)
        next.push_back(places[row] >= 0 && i < size ? places[row] * size + i : -1);
    places = std::move(next);
  }
  // The number of the element at each place, from 1 on; 0 where there is none.
  Numbers elements(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i] >= 0) elements[static_cast<std::size_t>(places[i])] = static_cast<std::int64_t>(i) + 1;
  return n.composed([&] {
    Shape first{1};
    for (const std::int64_t size : n.in(1).shape().sizes().subspan(1)) first.push_back(size);
    const Tensor missing = expand_dims(broadcast_to(n.in(2), Shape(first.sizes().subspan(1))), 0);
    return gather(concat({missing, n.in(1)}, 0), reshape(vector_of(elements, int64), shape));
  });
}

// ---- Boxes ----------------------------------------------------------------------------------------------------------------

struct Box {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

/// The area that two boxes share, as a part of that which they cover.
float overlap(const Box& a, const Box& b) {
  if (a.area() <= 0 || b.area() <= 0) return 0;
  const float height = std::max(std::min(a.bottom, b.bottom) - std::max(a.top, b.top), 0.0F);
  const float width = std::max(std::min(a.right, b.right) - std::max(a.left, b.left), 0.0F);
  return height * width / (a.area() + b.area() - height * width);
}

std::vector<Box> boxes_in(const Tensor& values) {
  const std::vector<float> all = values.cast(float32).to_vector<float>();
  std::vector<Box> boxes;
  for (std::size_t i = 0; i + 4 <= all.size(); i += 4)
    boxes.push_back({std::min(all[i], all[i + 2]), std::min(all[i + 1], all[i + 3]), std::max(all[i], all[i + 2]),
                     std::max(all[i + 1], all[i + 3])});
  return boxes;
}

struct Selection {
  Numbers indices{};
  std::vector<float> scores{};
};

/// Takes the box of the best score again and again, and lessens the scores of those that overlap it (`deviation` > 0),
/// or drops those that overlap it by more than `most_overlap`.
template <class F>
Selection best_of(F shared_by, const std::vector<float>& scores, std::int64_t most, float most_overlap,
                  float least_score, float deviation) {
  struct Candidate {
    float score;
    std::int64_t index;
    std::size_t seen;  ///< with how many of the selected boxes it was compared
  };
  const auto is_worse = [](const Candidate& a, const Candidate& b) {
    return a.score < b.score || (a.score == b.score && a.index > b.index);
  };
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(is_worse)> candidates(is_worse);
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (scores[i] > least_score) candidates.push({scores[i], static_cast<std::int64_t>(i), 0});
  Selection found;
  while (!candidates.empty() && std::cmp_less(found.indices.size(), most)) {
    Candidate next = candidates.top();
    candidates.pop();
    const float before = next.score;
    bool is_dropped = false;
    for (std::size_t i = found.indices.size(); i-- > next.seen && !is_dropped;) {
      const float shared = shared_by(next.index, found.indices[i]);
      is_dropped = deviation > 0 ? shared > most_overlap && most_overlap < 1 : shared > most_overlap;
      if (deviation > 0 && !is_dropped) next.score *= std::exp(-0.5F / deviation * shared * shared);
      is_dropped = is_dropped || next.score <= least_score;
    }
    next.seen = found.indices.size();
    if (is_dropped) continue;
    if (next.score == before) {
      found.indices.push_back(next.index);
      found.scores.push_back(next.score);
    } else {
      candidates.push(next);
    }
  }
  return found;
}

Selection best_boxes(const std::vector<Box>& boxes, const std::vector<float>& scores, std::int64_t most,
                     float most_overlap, float least_score, float deviation) {
  const auto shared = [&](std::int64_t a, std::int64_t b) { return overlap(boxes[a], boxes[b]); };
  return best_of(shared, scores, most, most_overlap, least_score, deviation);
}

/// A matrix tells how much each box overlaps each other one.
Tensors read_suppression_by_matrix(const ForeignNode& n) {
  const Tensor overlaps = n.node.constant(0), scores = n.node.constant(1);
  const std::int64_t count = scores.size(), most = n.number(2);
  if (scores.rank() != 1 || overlaps.shape() != Shape{count, count} || most < 0)
    n.node.refuse(detail::join("its overlaps have the shape ", overlaps.shape(), " for ", count, " boxes"));
  const std::vector<float> all = overlaps.to_vector<float>();
  const auto shared = [&](std::int64_t a, std::int64_t b) { return all[a * count + b]; };
  const Selection found = best_of(shared, scores.to_vector<float>(), most, n.node.constant(3).item<float>(),
                                  n.node.constant(4).item<float>(), 0);
  return constant_nodes(n, {vector_of(found.indices, int32)});
}

Tensors read_suppression(const ForeignNode& n) {
  const std::string& op = n.node.def().op;
  const auto real = [&](std::size_t input, float otherwise) {
    return n.inputs.size() > input ? n.node.constant(input).item<float>() : otherwise;
  };
  const Tensor boxes = n.node.constant(0), scores = n.node.constant(1);
  if (boxes.rank() != 2 || boxes.shape().sizes()[1] != 4 || scores.shape() != Shape{boxes.shape().sizes()[0]})
    n.node.refuse(detail::join("its boxes have the shape ", boxes.shape(), ", the scores ", scores.shape()));
  const std::int64_t most = n.number(2);
  if (most < 0 || most > most_numbers) n.node.refuse(detail::join("it selects ", most, " boxes"));
  const float most_overlap = real(3, n.node.attr_or<float>("iou_threshold", 0.5F));
  if (!(most_overlap >= 0 && most_overlap <= 1)) n.node.refuse("iou_threshold must be in [0, 1]");
  Selection found = best_boxes(boxes_in(boxes), scores.cast(float32).to_vector<float>(), most, most_overlap,
                               real(4, std::numeric_limits<float>::lowest()), real(5, 0));
  const auto count = static_cast<std::int64_t>(found.indices.size());
  if (n.node.attr_or<bool>("pad_to_max_output_size", false)) {
    found.indices.resize(static_cast<std::size_t>(most));
    found.scores.resize(static_cast<std::size_t>(most));
  }
  std::vector<Tensor> results{vector_of(found.indices, int32)};
  if (op.ends_with("V5")) results.push_back(Tensor(tensor(found.scores)).cast(scores.dtype()));
  if (op.ends_with("V4") || op.ends_with("V5"))
    results.push_back(detail::make_scalar(static_cast<double>(count), int32));
  return constant_nodes(n, results);
}

/// The best boxes of all classes, for each image of a batch, filled up with zeros.
Tensors read_combined_suppression(const ForeignNode& n) {
  const Tensor boxes = n.node.constant(0), scores = n.node.constant(1);
  const auto limit = [&](std::size_t input) { return n.node.constant(input).item<float>(); };
  const bool fits = boxes.rank() == 4 && scores.rank() == 3 && boxes.shape().sizes()[3] == 4;
  const std::int64_t images = fits ? scores.shape().sizes()[0] : 0, count = fits ? scores.shape().sizes()[1] : 0,
                     classes = fits ? scores.shape().sizes()[2] : 0, own = fits ? boxes.shape().sizes()[2] : 0;
  if (!fits || boxes.shape() != Shape{images, count, own, 4} || (own != 1 && own != classes))
    n.node.refuse(detail::join("its boxes have the shape ", boxes.shape(), ", the scores ", scores.shape()));
  const std::int64_t most_of_class = n.number(2), most = n.number(3);
  if (std::min(most_of_class, most) < 0 || std::max(most_of_class, most) > most_numbers)
    n.node.refuse(detail::join("it selects ", most_of_class, " boxes of a class and ", most, " in all"));
  const std::int64_t size =
      n.node.attr_or<bool>("pad_per_class", false) ? std::min(most, product(most_of_class, classes)) : most;
  if (product(images, product(size, 4)) > most_numbers) n.node.refuse(detail::join("it selects ", most, " boxes"));
  const bool clips = n.node.attr_or<bool>("clip_boxes", true);

  const std::vector<float> corners = boxes.cast(float32).to_vector<float>(), all = scores.to_vector<float>();
  std::vector<float> found_boxes(images * size * 4), found_scores(images * size), found_classes(images * size);
  std::vector<std::int64_t> counts;
  for (std::int64_t image = 0; image < images; ++image) {
    struct Found {
      float score;
      std::int64_t number, of_class;
    };
    std::vector<Found> found;
    for (std::int64_t c = 0; c < classes; ++c) {
      const Tensor one = slice(boxes, {image, 0, own == 1 ? 0 : c, 0}, {1, count, 1, 4});
      std::vector<float> of_class;
      for (std::int64_t i = 0; i < count; ++i) of_class.push_back(all[(image * count + i) * classes + c]);
      const Selection best =
          best_boxes(boxes_in(reshape(one, {count, 4})), of_class, most_of_class, limit(4), limit(5), 0);
      for (std::size_t i = 0; i < best.indices.size(); ++i) found.push_back({best.scores[i], best.indices[i], c});
    }
    std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
    found.resize(std::min(found.size(), static_cast<std::size_t>(size)));
    counts.push_back(static_cast<std::int64_t>(found.size()));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t to = image * size + i;
      const std::size_t from = ((image * count + found[i].number) * own + (own == 1 ? 0 : found[i].of_class)) * 4;
      found_scores[to] = found[i].score;
      found_classes[to] = static_cast<float>(found[i].of_class);
      for (std::size_t k = 0; k < 4; ++k)
        found_boxes[to * 4 + k] = clips ? std::clamp(corners[from + k], 0.0F, 1.0F) : corners[from + k];
    }
  }
  const auto shaped = [](const std::vector<float>& list, const Shape& shape) { return reshape(tensor(list), shape); };
  return constant_nodes(n, {shaped(found_boxes, {images, size, 4}), shaped(found_scores, {images, size}),
                            shaped(found_classes, {images, size}), vector_of(counts, int32)});
}

}  // namespace

ForeignOps foreign_selection() {
  const OutputType index = typed(int32);
  ForeignOps ops{
      {.name = "ComputeAccidentalHits",
       .inputs = 2,
       .lacks_sizes = lacks_rank,
       .outputs = {index, typed(int64), typed(float32)},
       .read = read_accidental_hits},
      {.name = "DenseToDenseSetOperation",
       .inputs = 2,
       .values = {0, 1},
       .outputs = {typed(int64), like(0), typed(int64)},
       .read = read_set_operation},
      {.name = "DenseToSparseSetOperation",
       .inputs = 4,
       .values = {0, 1, 2, 3},
       .outputs = {typed(int64), like(0), typed(int64)},
       .read = read_set_operation},
      {.name = "SparseToSparseSetOperation",
       .inputs = 6,
       .values = {0, 1, 2, 3, 4, 5},
       .outputs = {typed(int64), like(1), typed(int64)},
       .read = read_set_operation},
      {.name = "DynamicPartition", .inputs = 2, .lacks_sizes = lacks_partition_sizes, .read = read_partition},
      {.name = "ParallelDynamicStitch", .inputs = -1, .lacks_sizes = lacks_rank, .read = read_parallel_stitch},
  };
  ops.push_back({.name = "RaggedTensorToTensor",
                 .inputs = -1,
                 .lacks_sizes = lacks_ragged_sizes,
                 .outputs = {like(1)},
                 .find_values = partitions_of,
                 .read = read_ragged});
  ops.push_back(
      {.name = "NonMaxSuppression", .inputs = 3, .values = {0, 1, 2}, .outputs = {index}, .read = read_suppression});
  const auto add = [&](const char* name, std::size_t inputs, std::vector<OutputType> outputs) {
    ForeignOp op{.name = name, .inputs = static_cast<int>(inputs), .outputs = std::move(outputs)};
    for (std::size_t i = 0; i < inputs; ++i) op.values.push_back(i);
    op.read = read_suppression;
    ops.push_back(std::move(op));
  };
  add("NonMaxSuppressionV2", 4, {index});
  add("NonMaxSuppressionV3", 5, {index});
  add("NonMaxSuppressionV4", 5, {index, index});
  add("NonMaxSuppressionV5", 6, {index, like(1), index});
  add("NonMaxSuppressionWithOverlaps", 5, {index});
  ops.back().read = read_suppression_by_matrix;
  add("CombinedNonMaxSuppression", 6, {like(0), like(0), like(0), index});
  ops.back().read = read_combined_suppression;
  return ops;
}

}  // namespace tapestry::io
