// Diagonals, of the ops with several of which only the main one is read, and options of ops of matrices that ours lack.

#include <algorithm>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

/// Throws unless an input, the number of the diagonal, is 0.
void require_main(const ForeignNode& n, std::size_t input) {
  for (const std::int64_t each : n.numbers(input))
    if (each != 0) lack(n, "diagonals other than the main one");
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
    const Tensor matrix = set_diag(expand_dims(none, -1) + expand_dims(none, -2), list);
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

/// [..., n] as the diagonals of [..., n, n].
Tensors read_diagonal(const ForeignNode& n) {
  if (n.in(0).shape().rank() < 1) n.node.refuse("its input is a scalar");
  if (n.inputs.size() > 1) {
    require_main(n, 1);
    for (const std::size_t each : {2, 3})
      if (const std::int64_t size = n.number(each); size != -1 && size != n.in(0).shape().sizes().back())
        lack(n, "matrices that are not square");
  }
  return n.composed([&] {
    const Tensor x = n.in(0), none = zeros_like(x);
    Tensor border = expand_dims(none, -1) + expand_dims(none, -2);
    if (n.inputs.size() > 4) border = border + n.in(4);
    return set_diag(border, x);
  });
}

Tensors read_diagonal_part(const ForeignNode& n) {
  if (n.inputs.size() > 1) require_main(n, 1);
  return {diag_part(n.in(0), n.name())};
}

Tensors read_set_diagonal(const ForeignNode& n) {
  require_main(n, 2);
  if (n.in(0).dtype() != n.in(1).dtype()) n.node.refuse("its inputs have several types");
  return {set_diag(n.in(0), n.in(1), n.name())};
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

// ---- Options that our ops lack ---------------------------------------------------------------------------------------

bool is_adjoint(const NodeDef& def) { return has_flag(def, "adjoint", true); }
bool lacks_vectors(const NodeDef& def) {
  return has_flag(def, "compute_uv", false) || has_flag(def, "compute_v", false);
}
bool is_upper(const NodeDef& def) { return has_flag(def, "lower", false); }

/// Each matrix, transposed.
Tensor transposed(const ForeignNode& n, const Tensor& matrices) {
  std::vector<std::int64_t> axes;
  for (int axis = 0; axis < matrices.shape().rank(); ++axis) axes.push_back(axis);
  if (axes.size() < 2) n.node.refuse(detail::join("its input is no matrix: ", matrices.shape()));
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
/// An upper triangular matrix is the adjoint of a lower one.
Tensors read_upper_solve(const ForeignNode& n) {
  require_one_type(n);
  return n.composed([&] {
    return triangular_solve(transposed(n, n.in(0)), n.in(1), {.adjoint = !n.node.attr_or<bool>("adjoint", false)});
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
  const auto solve_op = [](std::string_view name) -> ForeignOp {
    return {.name = name,
            .inputs = 2,
            .applies = is_upper,
            .lacks_sizes = lacks_rank,
            .outputs = {like(0)},
            .read = read_upper_solve};
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
      solve_op("BatchMatrixTriangularSolve"),
      solve_op("MatrixTriangularSolve"),
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
       .lacks_sizes = lacks_rank,
       .outputs = {like(0)},
       .read = read_diagonal_part},
      {.name = "MatrixDiagPartV3",
       .inputs = 3,
       .values = {1},
       .lacks_sizes = lacks_rank,
       .outputs = {like(0)},
       .read = read_diagonal_part},
      {.name = "MatrixDiagV2",
       .inputs = 5,
       .values = {1, 2, 3},
       .lacks_sizes = lacks_rank,
       .outputs = {like(0)},
       .read = read_diagonal},
      {.name = "MatrixDiagV3",
       .inputs = 5,
       .values = {1, 2, 3},
       .lacks_sizes = lacks_rank,
       .outputs = {like(0)},
       .read = read_diagonal},
      {.name = "MatrixSetDiagV2",
       .inputs = 3,
       .values = {2},
       .lacks_sizes = lacks_rank,
       .outputs = {like(0)},
       .read = read_set_diagonal},
      {.name = "MatrixSetDiagV3",
       .inputs = 3,
       .values = {2},
       .lacks_sizes = lacks_rank,
       .outputs = {like(0)},
       .read = read_set_diagonal},
  };
}

}  // namespace tapestry::io
