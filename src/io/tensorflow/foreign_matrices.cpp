// Diagonals and decompositions. Of the ops with several diagonals, only the main one is read.

#include <algorithm>
#include <string_view>
#include <variant>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

/// Throws unless an input, the number of the diagonal, is 0.
void require_main(const ForeignNode& n, std::size_t input) {
  for (const std::int64_t each : n.numbers(input))
    if (each != 0) lack(n, "diagonals other than the main one");
}

/// [..., n] as the diagonals of [..., n, n].
Tensors read_diagonal(const ForeignNode& n) {
  if (n.in(0).shape().rank() < 1) n.node.refuse("its input is a scalar");
  if (n.node.def().op == "Diag" && n.in(0).shape().rank() != 1) lack(n, "rank");
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
  if (n.node.def().op == "DiagPart" && n.in(0).shape().rank() != 2) lack(n, "rank");
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

bool is_false(const NodeDef& def, std::string_view attr) {
  const auto found = def.attrs.find(attr);
  const auto* value = found == def.attrs.end() ? nullptr : std::get_if<bool>(&found->second);
  return value && !*value;
}
/// Whether a decomposition gives values without vectors.
bool lacks_vectors(const NodeDef& def) { return is_false(def, "compute_v") || is_false(def, "compute_uv"); }

Tensors read_values_only(const ForeignNode& n) {
  return n.composed([&] { return n.node.def().op.ends_with("Svd") ? svd(n.in(0)).s : eigh(n.in(0)).e; });
}

}  // namespace

ForeignOps foreign_matrices() {
  return {
      {.name = "BatchCholeskyGrad",
       .inputs = 2,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_cholesky_gradient},
      {.name = "BatchMatrixDiag", .inputs = 1, .lacks_sizes = lacks_rank, .outputs = {like(0)}, .read = read_diagonal},
      {.name = "BatchSelfAdjointEigV2",
       .inputs = 1,
       .applies = lacks_vectors,
       .outputs = {like(0)},
       .read = read_values_only},
      {.name = "BatchSvd", .inputs = 1, .applies = lacks_vectors, .outputs = {like(0)}, .read = read_values_only},
      {.name = "CholeskyGrad",
       .inputs = 2,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_cholesky_gradient},
      {.name = "Diag", .inputs = 1, .lacks_sizes = lacks_rank, .outputs = {like(0)}, .read = read_diagonal},
      {.name = "DiagPart", .inputs = 1, .lacks_sizes = lacks_rank, .outputs = {like(0)}, .read = read_diagonal_part},
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
      {.name = "SelfAdjointEigV2",
       .inputs = 1,
       .applies = lacks_vectors,
       .outputs = {like(0)},
       .read = read_values_only},
      {.name = "Svd", .inputs = 1, .applies = lacks_vectors, .outputs = {like(0)}, .read = read_values_only},
  };
}

}  // namespace tapestry::io
