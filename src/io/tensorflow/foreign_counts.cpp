// How often numbers occur, or the sums of their weights, in a list or in each row.

#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/foreign_segments.hpp"

namespace tapestry::io {
namespace {

/// The numbers that a node counts: dense, sparse or of rows of different lengths.
struct Numbers {
  Tensor rows{}, values{};  ///< of int64, one after the other; no rows for a single list
  std::int64_t row_count = 1;
};

/// Numbers that are counted are not negative. The index of the one element refuses others.
Tensor checked(const Tensor& numbers) {
  const Tensor values = reshape(numbers, {-1}).cast(int64);
  return values + gather(zeros({1}, {.dtype = int64}), minimum(values, 0));
}

Numbers of_dense(const ForeignNode& n) {
  const Shape& shape = n.in(0).shape();
  if (shape.rank() > 2) n.node.refuse(detail::join("its numbers have the shape ", shape));
  Numbers made{.values = checked(n.in(0))};
  if (shape.rank() < 2) return made;
  made.row_count = shape.sizes()[0];
  made.rows = reshape(broadcast_to(expand_dims(arange(made.row_count, {.dtype = int64}), 1), shape), {-1});
  return made;
}

Numbers of_sparse(const ForeignNode& n) {
  const std::vector<std::int64_t> shape = n.numbers(2);
  if (shape.empty() || shape.size() > 2) n.node.refuse(detail::join("its numbers have ", shape.size(), " axes"));
  Numbers made{.values = checked(n.in(1))};
  if (shape.size() < 2) return made;
  require_rank(n, 0, 2);
  made.row_count = shape[0];
  made.rows = squeeze(slice(n.in(0), {0, 0}, {-1, 1}), 1).cast(int64);
  return made;
}

Numbers of_ragged(const ForeignNode& n) {
  require_rank(n, 0, 1);
  require_rank(n, 1, 1);
  const Tensor places = arange(n.in(1).shape().sizes()[0], {.dtype = int64});
  const Tensor rows = searchsorted(n.in(0).cast(int64), places, Side::right).cast(int64) - 1;
  return {rows, checked(n.in(1)), n.in(0).shape().sizes()[0] - 1};
}

Numbers numbers_of(const ForeignNode& n) {
  const std::string_view op = n.node.def().op;
  Numbers made = op.starts_with("Sparse") ? of_sparse(n) : op.starts_with("Ragged") ? of_ragged(n) : of_dense(n);
  if (made.row_count < 0 || made.row_count > most_numbers)
    n.node.refuse(detail::join("it has ", made.row_count, " rows"));
  return made;
}

/// One weight for each number.
Tensor weights_of(const ForeignNode& n, std::size_t input, const Tensor& numbers) {
  const Tensor& given = n.in(input);
  if (given.size() == 0) return ones_like(numbers).cast(given.dtype());
  if (given.size() != numbers.size()) n.node.refuse("it has not one weight for each number");
  return reshape(given, {-1});
}

/// Counts each of the numbers 0, 1, ..., or adds up their weights. Greater ones are left out.
Tensors read_counts(const ForeignNode& n) {
  const std::size_t weights = n.inputs.size() - 1;
  const std::int64_t size = n.number(weights - 1);
  if (size < 0 || size > most_numbers) n.node.refuse(detail::join("it counts ", size, " numbers"));
  const bool is_flat = n.node.def().op == "Bincount", binary = n.node.attr_or<bool>("binary_output", false);
  return n.composed([&] {
    const Numbers numbers = is_flat ? Numbers{.values = checked(n.in(0))} : numbers_of(n);
    const Tensor places = numbers.rows ? numbers.rows * size + numbers.values : numbers.values;
    const Tensor sums = added_by_segments(n, weights_of(n, weights, numbers.values),
                                          where(numbers.values < size, places, -1), product(numbers.row_count, size));
    const Tensor counts = binary ? (sums > 0).cast(sums.dtype()) : sums;
    return numbers.rows ? reshape(counts, {numbers.row_count, size}) : counts;
  });
}

/// The same as a sparse tensor of the numbers that there are.
Tensors read_sparse_counts(const ForeignNode& n) {
  const std::int64_t least = n.node.attr_or<std::int64_t>("minlength", -1),
                     most = n.node.attr_or<std::int64_t>("maxlength", -1);
  const bool binary = n.node.attr_or<bool>("binary_output", false);
  return n.composed([&]() -> Tensors {
    const Numbers numbers = numbers_of(n);
    const Tensor &values = numbers.values, none = zeros({1}, {.dtype = int64});
    const std::int64_t count = values.shape().sizes()[0];
    const Tensor end = reduce_max(concat({values, none}, 0)) + 1;
    // Those that are too great have a row of their own, the last one.
    Tensor rows = numbers.rows ? numbers.rows : zeros_like(values);
    if (most >= 0) rows = where(values < most, rows, numbers.row_count);
    const Tensor keys = rows * end + values;
    const Unique found = unique(concat({sort(keys), keys}, 0));
    const Tensor places = slice(found.inverse, {count}, {count});
    const Tensor weights = weights_of(n, n.inputs.size() - 1, values);
    const Tensor sums = scatter_add(zeros_like(found.values).cast(weights.dtype()), places, weights);
    const Tensor kept = squeeze(nonzero(found.values < end * numbers.row_count), 1), left = gather(found.values, kept);
    const Tensor chosen = gather(binary ? ones_like(sums) : sums, kept), of_list = mod(left, end);
    const Tensor size = reshape(most >= 0 ? full({}, most, {.dtype = int64}) : maximum(end, least), {1});
    if (!numbers.rows) return {expand_dims(of_list, 1), chosen, size};
    return {stack({floor_divide(left, end), of_list}, 1), chosen,
            concat({full({1}, numbers.row_count, {.dtype = int64}), size}, 0)};
  });
}

}  // namespace

ForeignOps foreign_counts() {
  ForeignOps ops;
  const auto add = [&](std::string_view name, int inputs, std::vector<std::size_t> values,
                       Tensors (*read)(const ForeignNode&)) {
    const std::vector<OutputType> sparse{typed(int64), like(inputs - 1), typed(int64)};
    ops.push_back({.name = name,
                   .inputs = inputs,
                   .values = std::move(values),
                   .lacks_sizes = lacks_any_size,
                   .outputs = read == read_counts ? std::vector{like(inputs - 1)} : sparse,
                   .read = read});
  };
  add("Bincount", 3, {1}, read_counts);
  add("DenseBincount", 3, {1}, read_counts);
  add("RaggedBincount", 4, {2}, read_counts);
  add("SparseBincount", 5, {2, 3}, read_counts);
  add("DenseCountSparseOutput", 2, {}, read_sparse_counts);
  add("RaggedCountSparseOutput", 3, {}, read_sparse_counts);
  add("SparseCountSparseOutput", 4, {2}, read_sparse_counts);
  return ops;
}

}  // namespace tapestry::io
