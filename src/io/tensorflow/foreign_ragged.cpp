// Rows of different lengths: lists of numbers tell where each row begins, and where the last one ends. They decide the
// sizes of what comes out, so that these ops wait for them; the elements may be tensors.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

using Numbers = std::vector<std::int64_t>;

/// Where the rows of an input begin, in order and within `count` elements; -1: of any number of them.
Numbers limits_of(const ForeignNode& n, std::size_t input, std::int64_t count = -1) {
  Numbers limits = n.numbers(input);
  if (limits.empty() || limits[0] != 0 || !std::is_sorted(limits.begin(), limits.end()) ||
      (count >= 0 && limits.back() != count))
    n.node.refuse(detail::join("its input ", input, " is no list of where rows begin"));
  if (limits.back() > most_numbers) n.node.refuse(detail::join("it has ", limits.back(), " elements"));
  return limits;
}

std::size_t levels_of(const NodeReader& reader, std::string_view attr, std::size_t others) {
  const auto levels = reader.attr<std::int64_t>(attr);
  if (levels < 1 || std::cmp_not_equal(levels + static_cast<std::int64_t>(others), reader.input_count()))
    reader.refuse(detail::join("it has ", reader.input_count(), " inputs for ", levels, " levels of rows"));
  return static_cast<std::size_t>(levels);
}

// ---- Ranges ---------------------------------------------------------------------------------------------------------

template <class T>
void append_range(const ForeignNode& n, T start, T limit, T delta, std::vector<T>& elements, Numbers& limits) {
  if (delta == T(0)) n.node.refuse("a range goes on by 0");
  const double steps = (static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta);
  const std::int64_t count = steps > 0 ? static_cast<std::int64_t>(std::min(std::ceil(steps), 1e18)) : 0;
  if (count > most_numbers - limits.back()) n.node.refuse(detail::join("a range has ", count, " elements"));
  for (std::int64_t i = 0; i < count; ++i) elements.push_back(static_cast<T>(start + static_cast<T>(i) * delta));
  limits.push_back(limits.back() + count);
}

/// For each row the numbers from a start on, up to a limit. One number stands for that of all rows.
Tensors read_ranges(const ForeignNode& n) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor value = n.node.constant(i);
    if (value.rank() > 1 || value.dtype() != n.node.constant(0).dtype())
      n.node.refuse(detail::join("its input ", i, " is ", to_string(value.dtype()), value.shape()));
    if (value.rank() == 1) rows = value.size();
  }
  const DType dtype = n.node.constant(0).dtype();
  Numbers limits{0};
  Tensor elements;
  const auto make = [&]<class T>(T) {
    std::vector<T> parts[3], all;
    for (std::size_t i = 0; i < 3; ++i) {
      const Tensor value = n.node.constant(i);
      parts[i] = value.to_vector<T>();
      if (value.rank() == 0) parts[i].resize(static_cast<std::size_t>(rows), parts[i][0]);
      if (std::cmp_not_equal(parts[i].size(), rows)) n.node.refuse("its inputs have several lengths");
    }
    for (std::size_t row = 0; std::cmp_less(row, rows); ++row)
      append_range<T>(n, parts[0][row], parts[1][row], parts[2][row], all, limits);
    elements = Tensor(tensor(all)).cast(dtype);
  };
  is_floating(dtype) ? make(double()) : make(std::int64_t());
  const auto* splits = n.node.find<TypeCode>("Tsplits");
  return constant_nodes(n, {vector_of(limits, splits ? dtype_of(*splits) : int64), elements});
}

// ---- Rows of rows ---------------------------------------------------------------------------------------------------

std::vector<std::size_t> all_but_elements(const NodeReader& reader) {
  std::vector<std::size_t> inputs;
  const bool has_indices = reader.def().op == "RaggedGather";
  for (std::size_t i = 0; i < reader.input_count(); ++i)
    if (i + (has_indices ? 2 : 1) != reader.input_count()) inputs.push_back(i);
  return inputs;
}

Specs specs_of_gathered_rows(const NodeReader& reader, const Tensors& inputs) {
  const auto count = std::clamp<std::int64_t>(reader.attr_or<std::int64_t>("OUTPUT_RAGGED_RANK", 1), 0, most_blocks);
  Specs specs(static_cast<std::size_t>(count), Spec{inputs[0].dtype(), Shape{-1}});
  const Tensor& elements = inputs[inputs.size() - 2];
  Shape shape = elements.shape();
  if (shape.rank() > 0) shape.set(0, -1);
  specs.push_back({elements.dtype(), shape});
  return specs;
}

/// Picks rows by their numbers. Indices of several axes make rows of rows.
Tensors read_gathered_rows(const ForeignNode& n) {
  const std::size_t levels = levels_of(n.node, "PARAMS_RAGGED_RANK", 2);
  const Tensor indices = n.node.constant(levels + 1);
  const DType dtype = n.node.constant(0).dtype();
  if (!is_integer(indices.dtype()) || n.in(levels).shape().rank() < 1)
    n.node.refuse(detail::join("its indices are ", to_string(indices.dtype()), indices.shape()));
  Tensors results;
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < indices.rank(); ++axis) {
    rows = product(rows, indices.shape().sizes()[axis]);
    Numbers limits;
    for (std::int64_t i = 0; i <= rows; ++i) limits.push_back(i * indices.shape().sizes()[axis + 1]);
    results.push_back(vector_of(limits, dtype));
  }
  Numbers places = indices.to_vector<std::int64_t>();  // at this level
  for (std::size_t level = 0; level < levels; ++level) {
    const Numbers from = limits_of(n, level);
    Numbers limits{0}, next;
    for (const std::int64_t row : places) {
      if (row < 0 || std::cmp_greater_equal(row + 1, from.size()))
        n.node.refuse(detail::join("there is no row ", row, " among ", from.size() - 1));
      for (std::int64_t i = from[static_cast<std::size_t>(row)]; i < from[static_cast<std::size_t>(row) + 1]; ++i)
        next.push_back(i);
      if (std::cmp_greater(next.size(), most_numbers)) n.node.refuse("it picks too many elements");
      limits.push_back(static_cast<std::int64_t>(next.size()));
    }
    results.push_back(vector_of(limits, dtype));
    places = std::move(next);
  }
  if (indices.rank() == 0) results.erase(results.begin());
  return n.composed([&] {
    results.push_back(gather(n.in(levels), vector_of(places, int64)));
    return results;
  });
}

/// The elements as a sparse tensor: their coordinates, and the size of the longest row at each level.
Tensors read_sparse_rows(const ForeignNode& n) {
  const std::size_t levels = levels_of(n.node, "RAGGED_RANK", 1);
  const Tensor& elements = n.in(levels);
  std::vector<Numbers> coordinates;  // of the rows at this level, and at last of the elements
  Numbers shape;
  for (std::size_t level = 0; level < levels; ++level) {
    const Numbers limits = limits_of(n, level);
    const std::size_t rows = limits.size() - 1;
    if (level == 0) {
      shape.push_back(static_cast<std::int64_t>(rows));
      for (std::size_t row = 0; row < rows; ++row) coordinates.push_back({static_cast<std::int64_t>(row)});
    }
    if (coordinates.size() != rows) n.node.refuse(detail::join("its input ", level, " has ", rows, " rows"));
    std::vector<Numbers> next;
    std::int64_t longest = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      longest = std::max(longest, limits[row + 1] - limits[row]);
      for (std::int64_t i = 0; i < limits[row + 1] - limits[row]; ++i) {
        next.push_back(coordinates[row]);
        next.back().push_back(i);
      }
    }
    shape.push_back(longest);
    coordinates = std::move(next);
  }
  const Shape& sizes = elements.shape();
  if (std::cmp_not_equal(coordinates.size(), sizes.rank() < 1 ? -1 : sizes.sizes()[0]))
    n.node.refuse(detail::join("its elements have the shape ", sizes, " for ", coordinates.size()));
  const Shape inner(sizes.sizes().subspan(1));
  if (product(sizes.size(), static_cast<std::int64_t>(levels) + sizes.rank()) > most_numbers)
    n.node.refuse(detail::join("its elements have the shape ", sizes));
  Numbers all;
  for (const Numbers& row : coordinates)
    for (std::int64_t i = 0; i < inner.size(); ++i) {
      all.insert(all.end(), row.begin(), row.end());
      std::int64_t count = inner.size(), place = i;
      for (const std::int64_t size : inner.sizes()) {
        count /= size;
        all.push_back(place / count);
        place %= count;
      }
    }
  for (const std::int64_t size : inner.sizes()) shape.push_back(size);
  const auto width = static_cast<std::int64_t>(shape.size());
  return n.composed([&]() -> Tensors {
    return {reshape(vector_of(all, int64), {-1, width}), reshape(elements, {-1}), vector_of(shape, int64)};
  });
}

}  // namespace

ForeignOps foreign_ragged() {
  return {
      {.name = "RaggedRange",
       .inputs = 3,
       .values = {0, 1, 2},
       .outputs = {told_by("Tsplits", int64), like(0)},
       .takes_reals = true,
       .read = read_ranges},
      {.name = "RaggedGather",
       .inputs = -1,
       .lacks_sizes = lacks_rank,
       .find_values = all_but_elements,
       .specs = specs_of_gathered_rows,
       .read = read_gathered_rows},
      {.name = "RaggedTensorToSparse",
       .inputs = -1,
       .lacks_sizes = lacks_any_size,
       .outputs = {typed(int64), told_by("T", DType::unknown), typed(int64)},
       .find_values = all_but_elements,
       .read = read_sparse_rows},
  };
}

}  // namespace tapestry::io
