// Diagonals, and options of ops of matrices that ours lack.

#include <algorithm>
#include <numeric>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

/// Throws unless another input has the type of the first one.
void require_one_type_of(const ForeignNode& n, std::size_t input) {
  if (n.in(0).dtype() != n.in(input).dtype()) n.node.refuse("its inputs have several types");
}

/// Whether sizes are not known of a tensor that is no list, or whose diagonal is none.
bool lacks_diagonal_sizes(const NodeReader& reader, const Tensors& inputs) {
  const int rank = inputs[0].shape().rank();
  return rank != (reader.def().op == "Diag" ? 1 : 2) && lacks_any_size(reader, inputs);
}

/// A tensor of any rank as the diagonal of one of twice that rank, all else in which is 0.
Tensors read_whole_diagonal(const ForeignNode& n) {
  Shape shape = n.in(0).shape();
  return n.composed([&] {
    const Tensor list = reshape(n.in(0), {-1}), none = zeros_like(list);
    Tensor matrix = set_diag(expand_dims(none, -1) + expand_dims(none, -2), list);
    if (shape.rank() == 1) return matrix;
    for (const std::int64_t each : n.in(0).shape().sizes()) shape.push_back(each);
    return reshape(matrix, shape);
  });
}

Tensors read_whole_diagonal_part(const ForeignNode& n) {
  const Shape& shape = n.in(0).shape();
  if (shape.rank() == 2) return {diag_part(n.in(0), n.name())};
  const auto half = static_cast<std::size_t>(shape.rank() / 2);
  const Shape first(shape.sizes().first(half));
  if (shape.rank() < 1 || first != Shape(shape.sizes().subspan(half)))
    n.node.refuse(detail::join("its input has the shape ", shape));
  return n.composed([&] { return reshape(diag_part(reshape(n.in(0), {first.size(), first.size()})), first); });
}

// ---- Diagonals of matrices ------------------------------------------------------------------------------------------

/// The diagonals of a matrix from the number `lower` to `upper`, numbers above 0 being above the main one. They are
/// listed as the rows of a matrix, the uppermost first, which the longest of them fill.
struct Band {
  std::int64_t lower, upper, rows = 0, columns = 0;
  bool left_above = true, left_below = true;  ///< whether shorter rows begin at the left

  bool is_main() const { return lower == 0 && upper == 0; }
  std::int64_t count() const { return upper - lower + 1; }
  std::int64_t length(std::int64_t diagonal) const {
    return std::min(rows + std::min<std::int64_t>(diagonal, 0), columns - std::max<std::int64_t>(diagonal, 0));
  }
  std::int64_t longest() const {
    return std::min(rows + std::min<std::int64_t>(upper, 0), columns - std::max<std::int64_t>(lower, 0));
  }
  /// The place in the list of an element of the matrix, -1 for one of no diagonal.
  std::int64_t place(std::int64_t row, std::int64_t column) const {
    const std::int64_t diagonal = column - row;
    if (diagonal < lower || diagonal > upper) return -1;
    const bool left = (diagonal >= 0 && left_above) || (diagonal <= 0 && left_below);
    return (upper - diagonal) * longest() + std::min(row, column) + (left ? 0 : longest() - length(diagonal));
  }
};

/// The number of the input that tells the diagonals.
std::size_t input_of_band(const NodeReader& reader) { return reader.def().op.starts_with("MatrixSetDiag") ? 2 : 1; }

/// The diagonals of a node, in matrices of unknown size.
Band band_of(const NodeReader& reader) {
  const std::size_t input = input_of_band(reader);
  if (reader.input_count() <= input) return {0, 0};
  const Tensor value = reader.constant(input);
  if ((value.dtype() != int32 && value.dtype() != int64) || value.rank() > 1 || value.size() < 1 || value.size() > 2)
    reader.refuse("its diagonals are not one or two whole numbers");
  const std::vector<std::int64_t> ends = reader.listed(value);
  if (ends.front() > ends.back() || ends.front() < -most_numbers || ends.back() > most_numbers)
    reader.refuse(detail::join("it has the diagonals from ", ends.front(), " to ", ends.back()));
  Band band{ends.front(), ends.back()};
  const bool is_new = reader.def().op.ends_with("V3");
  const auto align = reader.attr_or<std::string>("align", is_new ? "RIGHT_LEFT" : "LEFT_LEFT");
  if (align.find('_') == std::string::npos) reader.refuse("its 'align' is " + align);
  band.left_above = align.starts_with("LEFT");
  band.left_below = align.ends_with("LEFT");
  return band;
}

/// Sets the size of the matrices.
void set_size(const ForeignNode& n, Band& band, std::int64_t rows, std::int64_t columns) {
  band.rows = rows;
  band.columns = columns;
  if (std::max(rows, columns) > most_numbers || product(rows, columns) > most_numbers) lack(n, "matrices of that size");
  if (rows <= std::max<std::int64_t>(-band.lower, 0) || columns <= std::max<std::int64_t>(band.upper, 0))
    n.node.refuse(detail::join("its diagonals from ", band.lower, " to ", band.upper, " are not in a matrix of ",
                               Shape{rows, columns}));
}

/// Of the sizes of the first input only that of a batch may be unknown, unless all that is used is the main diagonal.
bool lacks_band_sizes(const NodeReader& reader, const Tensors& inputs) {
  if (lacks_rank(reader, inputs)) return true;
  if (reader.input_count() > 1 && !reader.is_constant(input_of_band(reader))) return false;
  const Band band = band_of(reader);
  const bool makes = reader.def().op.starts_with("MatrixDiagV");
  const auto follows = [&](std::size_t i) {
    return reader.is_constant(i) && reader.listed(reader.constant(i)) == std::vector<std::int64_t>{-1};
  };
  if (band.is_main() && (!makes || (follows(2) && follows(3)))) return false;
  const auto sizes = inputs[0].shape().sizes();
  const std::size_t inner = makes && band.count() == 1 ? 1 : 2;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] < 0 && (i > 0 || sizes.size() <= inner)) return true;
  return false;
}

/// The last two axes as one.
Tensor with_lists(const Tensor& x) {
  Shape shape = x.shape();
  const int rank = shape.rank();
  const std::int64_t size = product(shape.sizes()[rank - 2], shape.sizes()[rank - 1]);
  shape.erase(rank - 1);
  shape.set(rank - 2, size);
  return reshape(x, shape);
}

/// The elements of lists at these places, -1 for others.
Tensor elements_at(const Tensor& lists, const std::vector<std::int64_t>& places, const Shape& shape,
                   const Tensor& other) {
  const Tensor from = reshape(vector_of(places, int32), shape);
  return where(from >= 0, gather(lists, maximum(from, 0), -1), other);
}

/// Matrices with the diagonals, all else in which is `other`.
Tensor with_diagonals(const ForeignNode& n, const Tensor& diagonals, const Band& band, const Tensor& other) {
  const Tensor lists = band.count() == 1 ? diagonals : with_lists(diagonals);
  if (lists.shape().sizes().back() != band.count() * band.longest())
    n.node.refuse(detail::join("its diagonals have the shape ", diagonals.shape()));
  std::vector<std::int64_t> places;
  for (std::int64_t row = 0; row < band.rows; ++row)
    for (std::int64_t column = 0; column < band.columns; ++column) places.push_back(band.place(row, column));
  return elements_at(lists, places, {band.rows, band.columns}, other);
}

/// [..., n] as the diagonals of [..., n, n], or several.
Tensors read_diagonal(const ForeignNode& n) {
  const Tensor& x = n.in(0);
  Band band = band_of(n.node);
  if (x.shape().rank() < (band.count() == 1 ? 1 : 2))
    n.node.refuse(detail::join("its diagonals have the shape ", x.shape()));
  const std::int64_t size = x.shape().sizes().back();
  std::int64_t rows = n.inputs.size() > 1 ? n.number(2) : -1, columns = n.inputs.size() > 1 ? n.number(3) : -1;
  if (band.is_main() && (rows == -1 || rows == size) && (columns == -1 || columns == size))
    return n.composed([&] {
      const Tensor none = zeros_like(x);
      Tensor border = expand_dims(none, -1) + expand_dims(none, -2);
      if (n.inputs.size() > 4) border = border + n.in(4);
      return set_diag(border, x);
    });
  require_one_type_of(n, 4);
  const std::int64_t least_rows = size - std::min<std::int64_t>(band.upper, 0),
                     least_columns = size + std::max<std::int64_t>(band.lower, 0);
  if (rows == -1 && columns == -1) rows = columns = std::max(least_rows, least_columns);
  set_size(n, band, rows == -1 ? least_rows : rows, columns == -1 ? least_columns : columns);
  return n.composed([&] { return with_diagonals(n, x, band, n.in(4)); });
}

/// The size of the matrices that are the first input.
void set_size(const ForeignNode& n, Band& band) {
  const auto sizes = n.in(0).shape().sizes();
  if (sizes.size() < 2) n.node.refuse(detail::join("its input is no matrix: ", n.in(0).shape()));
  set_size(n, band, sizes[sizes.size() - 2], sizes.back());
}

Tensors read_diagonal_part(const ForeignNode& n) {
  Band band = band_of(n.node);
  if (band.is_main()) return {diag_part(n.in(0), n.name())};
  require_one_type_of(n, 2);
  set_size(n, band);
  std::vector<std::int64_t> places(static_cast<std::size_t>(product(band.count(), band.longest())), -1);
  for (std::int64_t row = 0; row < band.rows; ++row)
    for (std::int64_t column = 0; column < band.columns; ++column)
      if (const std::int64_t place = band.place(row, column); place >= 0) places[place] = row * band.columns + column;
  Shape shape{band.longest()};
  if (band.count() > 1) shape = {band.count(), band.longest()};
  return n.composed([&] { return elements_at(with_lists(n.in(0)), places, shape, n.in(2)); });
}

Tensors read_set_diagonal(const ForeignNode& n) {
  require_one_type_of(n, 1);
  Band band = band_of(n.node);
  if (band.is_main()) return {set_diag(n.in(0), n.in(1), n.name())};
  set_size(n, band);
  if (n.in(1).shape().rank() != n.in(0).shape().rank() - (band.count() == 1 ? 1 : 0))
    n.node.refuse(detail::join("its diagonals have the shape ", n.in(1).shape()));
  return n.composed([&] { return with_diagonals(n, n.in(1), band, n.in(0)); });
}

/// From the factor L and the gradient by it: the gradient by L L^T.
Tensors read_cholesky_gradient(const ForeignNode& n) {
  require_one_type(n);
  if (n.in(0).shape().rank() < 2) n.node.refuse(detail::join("its input is no matrix: ", n.in(0).shape()));
  return n.composed([&] {
    const Tensor factor = band_part(n.in(0), -1, 0);
    const Tensor product = matmul(factor, factor, {.transpose_b = true});
    return gradients_of({product}, [&](const Tensors& x) { return Tensors{cholesky(x[0]) * n.in(1)}; });
  });
}

/// A product of matrices many of whose elements are 0.
Tensors read_product_with_zeros(const ForeignNode& n) {
  for (const std::size_t i : {0, 1}) require_rank(n, i, 2);
  return n.composed([&] {
    return matmul(n.in(0).cast(float32), n.in(1).cast(float32),
                  {.transpose_a = n.node.attr_or<bool>("transpose_a", false),
                   .transpose_b = n.node.attr_or<bool>("transpose_b", false)});
  });
}

// ---- Options that our ops lack ---------------------------------------------------------------------------------------

bool is_adjoint(const NodeDef& def) { return has_flag(def, "adjoint", true); }
bool lacks_vectors(const NodeDef& def) {
  return has_flag(def, "compute_uv", false) || has_flag(def, "compute_v", false);
}

/// Each matrix, transposed.
Tensor transposed(const ForeignNode& n, const Tensor& matrices) {
  const int rank = matrices.shape().rank();
  if (rank < 2) n.node.refuse(detail::join("its input is no matrix: ", matrices.shape()));
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 2], axes.back());
  return transpose(matrices, Ints(axes));
}

Tensors read_adjoint_inverse(const ForeignNode& n) {
  return n.composed([&] { return inverse(transposed(n, n.in(0))); });
}
Tensors read_singular_values(const ForeignNode& n) {
  return n.composed([&]() -> Tensors {
    const Tensor none = zeros({}, {.dtype = n.in(0).dtype()});
    return {svd(n.in(0)).s, none, none};
  });
}
Tensors read_eigenvalues(const ForeignNode& n) {
  return n.composed([&]() -> Tensors { return {eigh(n.in(0)).e, zeros({}, {.dtype = n.in(0).dtype()})}; });
}

/// The product form of Denman's and Beavers' iteration (Higham, Functions of Matrices, 2008), in double precision.
Tensors read_square_root(const ForeignNode& n) {
  const Shape& shape = n.in(0).shape();
  if (shape.rank() < 2 || shape.sizes()[shape.rank() - 2] != shape.sizes().back())
    n.node.refuse(detail::join("its input is ", shape, ", and not of square matrices"));
  constexpr int steps = 25;  // from 10^14 times the identity on
  return n.composed([&] {
    const DType dtype = n.in(0).dtype();
    const Tensor identity = eye(shape.sizes().back(), {.dtype = float64});
    Tensor root = n.in(0).cast(float64), ratio = root;
    for (int i = 0; i < steps; ++i) {
      const Tensor back = inverse(ratio);
      root = matmul(root, identity + back) / 2.0;
      ratio = (identity + (ratio + back) / 2.0) / 2.0;
    }
    return root.cast(dtype);
  });
}

}  // namespace

ForeignOps foreign_matrices() {
  const auto inverse_op = [](std::string_view name) -> ForeignOp {
    return {.name = name,
            .inputs = 1,
            .applies = is_adjoint,
            .lacks_sizes = lacks_rank,
            .outputs = {like(0)},
            .read = read_adjoint_inverse};
  };
  const auto singular_values_op = [](std::string_view name) -> ForeignOp {
    return {.name = name,
            .inputs = 1,
            .applies = lacks_vectors,
            .lacks_sizes = lacks_rank,
            .outputs = {like(0), like(0), like(0)},
            .read = read_singular_values};
  };
  const auto eigenvalues_op = [](std::string_view name) -> ForeignOp {
    return {.name = name,
            .inputs = 1,
            .applies = lacks_vectors,
            .lacks_sizes = lacks_rank,
            .outputs = {like(0), like(0)},
            .read = read_eigenvalues};
  };
  return {
      inverse_op("BatchMatrixInverse"),
      inverse_op("MatrixInverse"),
      singular_values_op("BatchSvd"),
      singular_values_op("Svd"),
      eigenvalues_op("BatchSelfAdjointEigV2"),
      eigenvalues_op("SelfAdjointEigV2"),
      {.name = "BatchCholeskyGrad",
       .inputs = 2,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_cholesky_gradient},
      {.name = "BatchMatrixDiag", .inputs = 1, .lacks_sizes = lacks_rank, .outputs = {like(0)}, .read = read_diagonal},
      {.name = "CholeskyGrad",
       .inputs = 2,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_cholesky_gradient},
      {.name = "MatrixSquareRoot",
       .inputs = 1,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_square_root},
      {.name = "Diag",
       .inputs = 1,
       .lacks_sizes = lacks_diagonal_sizes,
       .outputs = {like(0)},
       .read = read_whole_diagonal},
      {.name = "DiagPart",
       .inputs = 1,
       .lacks_sizes = lacks_diagonal_sizes,
       .outputs = {like(0)},
       .read = read_whole_diagonal_part},
      {.name = "MatrixDiag", .inputs = 1, .lacks_sizes = lacks_rank, .outputs = {like(0)}, .read = read_diagonal},
      {.name = "MatrixDiagPartV2",
       .inputs = 3,
       .values = {1},
       .lacks_sizes = lacks_band_sizes,
       .outputs = {like(0)},
       .read = read_diagonal_part},
      {.name = "MatrixDiagPartV3",
       .inputs = 3,
       .values = {1},
       .lacks_sizes = lacks_band_sizes,
       .outputs = {like(0)},
       .read = read_diagonal_part},
      {.name = "MatrixDiagV2",
       .inputs = 5,
       .values = {1, 2, 3},
       .lacks_sizes = lacks_band_sizes,
       .outputs = {like(0)},
       .read = read_diagonal},
      {.name = "MatrixDiagV3",
       .inputs = 5,
       .values = {1, 2, 3},
       .lacks_sizes = lacks_band_sizes,
       .outputs = {like(0)},
       .read = read_diagonal},
      {.name = "MatrixSetDiagV2",
       .inputs = 3,
       .values = {2},
       .lacks_sizes = lacks_band_sizes,
       .specs = specs_like_first,
       .read = read_set_diagonal},
      {.name = "MatrixSetDiagV3",
       .inputs = 3,
       .values = {2},
       .lacks_sizes = lacks_band_sizes,
       .specs = specs_like_first,
       .read = read_set_diagonal},
      {.name = "SparseMatMul",
       .inputs = 2,
       .lacks_sizes = lacks_rank,
       .outputs = {typed(float32)},
       .read = read_product_with_zeros},
  };
}

}  // namespace tapestry::io
