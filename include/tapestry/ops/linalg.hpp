#pragma once

#include <optional>

#include "tapestry/ops/arguments.hpp"

namespace tapestry {

/// @addtogroup linalg
/// Products and linear algebra. A matrix is the last two dimensions of a tensor; the dimensions before them are a
/// batch. Products take any dtype but bool, and integers stay integers. Decompositions convert integers to float32.
/// @{

// ---- Products: any dtype but bool, promoted to one dtype; integers stay integers

/// The matrices that `matmul` transposes, without a copy.
struct MatMulOptions {
  bool transpose_a = false;  ///< whether to transpose the matrices of a
  bool transpose_b = false;  ///< whether to transpose the matrices of b
};

/// The matrix product, as in numpy.matmul: [..., m, k] and [..., k, n] give [..., m, n]. The batch dimensions
/// broadcast. A vector as the first argument is a row, and as the second a column; its axis disappears from the result,
/// and its `transpose_` option is ignored. Throws InvalidArgumentError, "Matrix size-incompatible: In[0]: [2,3], In[1]:
/// [4,5]", and for scalars.
TAPESTRY_API Tensor matmul(In a, In b, const MatMulOptions& options = {}, std::string_view name = {});
/// The same with default options and a name.
inline Tensor matmul(In a, In b, const NodeName auto& name) { return matmul(a, b, {}, name); }

/// The axes over which `tensordot` sums.
class ContractedAxes {
 public:
  /// The last `count` axes of a with the first `count` axes of b, in order. 0 gives the outer product.
  template <AxisNumber T>
  ContractedAxes(T count) : count_(static_cast<std::int64_t>(count)), listed_(false) {}  // NOLINT: a number counts axes
  /// Axis a[i] of a with axis b[i] of b. Negative axes count from the end.
  ContractedAxes(Ints a, Ints b) : axes_of_a_(std::move(a)), axes_of_b_(std::move(b)) {}

  /// Whether the axes were listed instead of counted.
  bool listed() const { return listed_; }
  /// The number of axes; 0 if they were listed.
  std::int64_t count() const { return count_; }
  /// The axes as they were listed; empty if they were counted.
  /// @{
  const Ints& axes_of_a() const { return axes_of_a_; }
  const Ints& axes_of_b() const { return axes_of_b_; }
  /// @}

 private:
  std::int64_t count_ = 0;
  Ints axes_of_a_, axes_of_b_;
  bool listed_ = true;
};

/// The products of the elements of a and b, summed over pairs of axes, as in numpy.tensordot: `tensordot(a, b, 2)`,
/// `tensordot(a, b, {{0, 1}, {1, 0}})`. The result has the other axes of a, then those of b.
TAPESTRY_API Tensor tensordot(In a, In b, const ContractedAxes& axes = 2, std::string_view name = {});
/// The same over two axes, with a name.
inline Tensor tensordot(In a, In b, const NodeName auto& name) { return tensordot(a, b, 2, name); }

/// Einstein's summation, as in numpy.einsum: `einsum("bij,bjk->bik", {a, b})`. Each axis has a letter. Letters that do
/// not appear after the arrow are summed over. Without an arrow, the result has the letters that occur once, in
/// alphabetical order. A letter that is repeated within one operand takes the diagonal, and `...` stands for dimensions
/// that broadcast. More than two operands are multiplied from left to right. Throws InvalidArgumentError for an
/// equation that is malformed or does not fit the shapes.
TAPESTRY_API Tensor einsum(std::string_view equation, const InList& operands, std::string_view name = {});
/// The same with the operands side by side: `einsum("ij,jk->ik", a, b)`.
template <std::convertible_to<Tensor>... Operands>
Tensor einsum(std::string_view equation, In first, const Operands&... rest) {
  return einsum(equation, InList({first, In(rest, first.where().file, first.where().line).tensor()...}, first.where()));
}
/// The same with a name behind one, two or three operands.
/// @{
template <std::convertible_to<Tensor> Operand>
Tensor einsum(std::string_view equation, const Operand& a, const NodeName auto& name, Where where = Where::here()) {
  return einsum(equation, InList({In(a, where.file, where.line).tensor()}, where), std::string_view(name));
}
inline Tensor einsum(std::string_view equation, In a, In b, const NodeName auto& name) {
  return einsum(equation, InList({a.tensor(), b.tensor()}, a.where()), std::string_view(name));
}
inline Tensor einsum(std::string_view equation, In a, In b, In c, const NodeName auto& name) {
  return einsum(equation, InList({a.tensor(), b.tensor(), c.tensor()}, a.where()), std::string_view(name));
}
/// @}

/// The products of each element of a and each element of b, both flattened: [m] and [n] give [m, n].
TAPESTRY_API Tensor outer(In a, In b, std::string_view name = {});

// ---- Diagonals and triangles: any dtype

/// The main diagonals: [..., m, n] gives [..., min(m, n)]. A view.
TAPESTRY_API Tensor diag_part(In x, std::string_view name = {});
/// A copy of x [..., m, n] with other main diagonals, [..., min(m, n)].
TAPESTRY_API Tensor set_diag(In x, In diagonal, std::string_view name = {});
/// The sums of the main diagonals: [..., m, n] gives [...]. Any dtype but bool.
TAPESTRY_API Tensor trace(In x, std::string_view name = {});
/// A copy of x with zeros outside a band of `lower` subdiagonals and `upper` superdiagonals. A negative number keeps
/// all of them: `band_part(x, -1, 0)` is the lower triangle.
TAPESTRY_API Tensor band_part(In x, std::int64_t lower, std::int64_t upper, std::string_view name = {});

// ---- Decompositions: float types; integers become float32

/// The lower triangular l with l l^T = x, for symmetric positive definite matrices [..., n, n]. Only the lower triangle
/// of x is read, and its gradient is symmetric. Throws InvalidArgumentError when a matrix is not positive definite. The
/// gradient is that of Murray 2016, "Differentiation of the Cholesky decomposition", section 3.
TAPESTRY_API Tensor cholesky(In x, std::string_view name = {});

/// The system of equations that `solve` solves.
struct SolveOptions {
  bool adjoint = false;  ///< whether to solve a^T x = b
};
/// The x with a x = b, for a [..., n, n] and b [..., n, k] of the same batch, or for a vector b [n]. Throws
/// InvalidArgumentError when a matrix is singular.
TAPESTRY_API Tensor solve(In a, In b, const SolveOptions& options = {}, std::string_view name = {});
/// The same with default options and a name.
inline Tensor solve(In a, In b, const NodeName auto& name) { return solve(a, b, {}, name); }
/// The system of equations that `triangular_solve` solves.
struct TriangularSolveOptions {
  bool lower = true;     ///< whether a is the lower triangle; otherwise it is the upper one
  bool adjoint = false;  ///< whether to solve a^T x = b
};
/// The same for triangular matrices a: only the triangle that `lower` names is read, and only it has a gradient.
/// TensorFlow's triangular_solve, and PyTorch's solve_triangular with upper = !lower.
TAPESTRY_API Tensor triangular_solve(In a, In b, const TriangularSolveOptions& options = {},
                                     std::string_view name = {});
/// The same with default options and a name.
inline Tensor triangular_solve(In a, In b, const NodeName auto& name) { return triangular_solve(a, b, {}, name); }
/// The inverses of matrices [..., n, n]. Throws InvalidArgumentError when a matrix is singular.
TAPESTRY_API Tensor inverse(In x, std::string_view name = {});

/// The determinants of matrices [..., n, n]: [...]. The gradient throws InvalidArgumentError for a singular matrix.
TAPESTRY_API Tensor det(In x, std::string_view name = {});

/// The result of `slogdet` for [..., n, n].
struct LogDeterminant {
  Tensor sign;             ///< -1, 0 or 1, [...]; it has no gradient
  Tensor log_determinant;  ///< the logarithm of the absolute value of the determinant, [...]
};
/// The determinants of matrices [..., n, n] as sign * exp(log_determinant), which neither overflow nor underflow: 0 and
/// -infinity for a singular matrix, for which the gradient throws InvalidArgumentError.
TAPESTRY_API LogDeterminant slogdet(In x, std::string_view name = {});

/// The result of `qr` for [..., m, n], with k = min(m, n).
struct Qr {
  Tensor q;  ///< orthonormal columns [..., m, k]
  Tensor r;  ///< upper triangles [..., k, n]
};
/// The thin decomposition x = q r of [..., m, n]. The signs of the rows of r are LAPACK's. The gradient is that of
/// Roberts and Roberts 2020, "QR and LQ decomposition matrix backpropagation algorithms", and is infinite or NaN where
/// the first k columns are linearly dependent.
TAPESTRY_API Qr qr(In x, std::string_view name = {});

/// The result of `eigh` for [..., n, n].
struct Eigh {
  Tensor e;  ///< the eigenvalues [..., n], the smallest first
  Tensor v;  ///< the eigenvectors as columns [..., n, n]
};
/// The decomposition x = v diag(e) v^T of symmetric matrices [..., n, n], of which only the lower triangle is read. The
/// signs of the vectors are arbitrary, so only functions that do not depend on them have a derivative. The gradient is
/// a lower triangle: that of Giles 2008, "An extended collection of matrix derivative results for forward and reverse
/// mode", section 3.1. Through v it is infinite or NaN where two eigenvalues are equal; through e alone it is finite.
TAPESTRY_API Eigh eigh(In x, std::string_view name = {});

/// The result of `svd` for [..., m, n], with k = min(m, n).
struct Svd {
  Tensor s;  ///< the singular values [..., k], the largest first
  Tensor u;  ///< the left vectors [..., m, k]
  Tensor v;  ///< the right vectors [..., n, k], not transposed
};
/// The thin singular value decomposition x = u diag(s) v^T of [..., m, n], with k = min(m, n), in the order of
/// tf.linalg.svd. The signs of the vectors are arbitrary, so only functions that do not depend on them have a
/// derivative. Gradients through u and v are infinite or NaN where two singular values are equal, or, for matrices that
/// are not square, where one is 0. Gradients through s alone are always finite.
TAPESTRY_API Svd svd(In x, std::string_view name = {});

/// Which singular values `pinv`, `lstsq` and `matrix_rank` take for 0.
struct RankOptions {
  /// Those of at most `rtol` times the largest one; by default the larger size of the matrix times the machine epsilon.
  std::optional<double> rtol = {};
};
/// The Moore-Penrose inverses of matrices: [..., m, n] gives [..., n, m]. The derivatives are those for matrices that
/// keep their rank. Throws InvalidArgumentError for a negative tolerance.
TAPESTRY_API Tensor pinv(In x, const RankOptions& options = {}, std::string_view name = {});
/// The x for which |a x - b| is smallest, and of several the smallest, for a [..., m, n] and b [..., m, k], or a vector
/// b [m]: `pinv(a)` times b.
TAPESTRY_API Tensor lstsq(In a, In b, const RankOptions& options = {}, std::string_view name = {});
/// The ranks of matrices [..., m, n], the numbers of singular values that are not 0: int32 [...].
TAPESTRY_API Tensor matrix_rank(In x, const RankOptions& options = {}, std::string_view name = {});

/// The order of a norm: a number p >= 1 or infinity, "euclidean" (the root of the sum of squares, for matrices, too),
/// "fro" (the same), or "inf".
class TAPESTRY_API NormOrder {
 public:
  /// Throws InvalidArgumentError for any other name or number.
  /// @{
  NormOrder(const char* name, Where where = Where::here());  // NOLINT(google-explicit-constructor): its name
  template <class T>
  requires std::is_arithmetic_v<T> NormOrder(T p, Where where = Where::here())  // NOLINT: its number
      : p_(static_cast<double>(p)) {
    check(where);
  }
  /// @}

  /// The number p; 0 for "euclidean".
  double p() const { return p_; }

 private:
  void check(Where where) const;
  double p_ = 0;
};
/// The order of a norm, and the axes along which it is taken.
struct NormOptions {
  /// The number p, or a name.
  NormOrder ord = "euclidean";
  /// One axis for norms of vectors, two axes for norms of matrices. By default, all elements together are a vector.
  Axes axis = {};
  /// Whether the axes stay, with size 1.
  bool keep_dims = false;
};
/// Norms in TensorFlow's convention. The norm of a vector is (sum |x|^p)^(1/p), or the largest |x| for infinity. The
/// norm of a matrix, `norm(x, {.ord = 2, .axis = {-2, -1}})`, is the largest column sum (p = 1), the largest row sum
/// (infinity), the largest singular value (2) or the euclidean norm; other p are not possible. The gradient of a norm
/// at 0 is 0.
TAPESTRY_API Tensor norm(In x, const NormOptions& options = {}, std::string_view name = {});
/// The same with default options and a name.
inline Tensor norm(In x, const NodeName auto& name) {
  return norm(x, {}, detail::plain_name(name, detail::Worded::norm_order, x.where()));
}

/// @}

}  // namespace tapestry
