#pragma once

#include "tapestry/ops/arguments.hpp"

namespace tapestry {

/// @addtogroup linalg
/// Products and linear algebra. A matrix is the last two dimensions of a tensor; the dimensions before them are a
/// batch. Products are for any dtype but bool, and whole numbers stay whole; decompositions make float32 of them.
/// @{

// ---- Products: any dtype but bool, brought to one dtype; whole numbers stay whole

/// Which matrices `matmul` transposes, without a copy.
struct MatMulOptions {
  bool transpose_a = false;  ///< those of a
  bool transpose_b = false;  ///< those of b
};

/// The product of matrices, as numpy.matmul: [..., m, k] and [..., k, n] give [..., m, n]; the batch dimensions
/// broadcast. A vector as the first argument is a row and as the second a column, and its axis disappears from the
/// result; it ignores its `transpose_` option. Throws InvalidArgumentError, "Matrix size-incompatible: In[0]: [2,3],
/// In[1]: [4,5]", and for scalars.
TAPESTRY_API Tensor matmul(In a, In b, const MatMulOptions& options = {}, std::string_view name = {});
/// The same with a name and the defaults.
inline Tensor matmul(In a, In b, const NodeName auto& name) { return matmul(a, b, {}, name); }

/// The axes that `tensordot` sums over: the last `count` of a with the first of b, or the listed ones pair by pair.
class ContractedAxes {
 public:
  /// The last `count` axes of a with the first of b, in order; 0 gives the outer product.
  template <AxisNumber T>
  ContractedAxes(T count) : count_(static_cast<std::int64_t>(count)), listed_(false) {}  // NOLINT: a number counts axes
  /// Axis a[i] of a with axis b[i] of b; negative ones count from the end.
  ContractedAxes(Ints a, Ints b) : axes_of_a_(std::move(a)), axes_of_b_(std::move(b)) {}

  /// Whether the axes were listed, and not counted.
  bool listed() const { return listed_; }
  /// How many axes; 0 where they were listed.
  std::int64_t count() const { return count_; }
  /// The axes as they were listed; empty where they were counted.
  /// @{
  const Ints& axes_of_a() const { return axes_of_a_; }
  const Ints& axes_of_b() const { return axes_of_b_; }
  /// @}

 private:
  std::int64_t count_ = 0;
  Ints axes_of_a_, axes_of_b_;
  bool listed_ = true;
};

/// Products of the elements of a and b summed over pairs of axes, as numpy.tensordot: `tensordot(a, b, 2)`,
/// `tensordot(a, b, {{0, 1}, {1, 0}})`. The result has the other axes of a, then those of b.
TAPESTRY_API Tensor tensordot(In a, In b, const ContractedAxes& axes = 2, std::string_view name = {});
/// Over two axes, with a name.
inline Tensor tensordot(In a, In b, const NodeName auto& name) { return tensordot(a, b, 2, name); }

/// Einstein's summation, as numpy.einsum: `einsum("bij,bjk->bik", {a, b})`. Each axis has a letter; letters that are
/// absent behind the arrow are summed over. Without an arrow the result has, in alphabetical order, the letters that
/// occur once. A letter that one operand repeats takes its diagonal, and `...` stands for dimensions that broadcast.
/// More than two operands are multiplied from left to right. Throws InvalidArgumentError for an equation that is
/// malformed or does not fit the shapes.
TAPESTRY_API Tensor einsum(std::string_view equation, const InList& operands, std::string_view name = {});
/// The same with the operands side by side: `einsum("ij,jk->ik", a, b)`.
template <std::convertible_to<Tensor>... Operands>
Tensor einsum(std::string_view equation, In first, const Operands&... rest) {
  return einsum(equation, InList({first, Tensor(rest)...}, first.where()));
}

/// All products of an element of a with one of b, both flattened: [m] and [n] give [m, n].
TAPESTRY_API Tensor outer(In a, In b, std::string_view name = {});

// ---- Diagonals and triangles: any dtype

/// The main diagonals: [..., m, n] gives [..., min(m, n)]. A view.
TAPESTRY_API Tensor diag_part(In x, std::string_view name = {});
/// A copy of x [..., m, n] with the given main diagonals [..., min(m, n)].
TAPESTRY_API Tensor set_diag(In x, In diagonal, std::string_view name = {});
/// The sums of the main diagonals: [..., m, n] gives [...]. Any dtype but bool.
TAPESTRY_API Tensor trace(In x, std::string_view name = {});
/// A copy of x with zeros outside a band: `lower` subdiagonals and `upper` superdiagonals stay, all of them for a
/// negative number. `band_part(x, -1, 0)` is the lower triangle.
TAPESTRY_API Tensor band_part(In x, std::int64_t lower, std::int64_t upper, std::string_view name = {});

// ---- Decompositions: float types; whole numbers become float32

/// The lower triangular l with l l^T = x, for symmetric positive definite matrices [..., n, n]; only the lower triangle
/// of x is read, and its gradient is symmetric. Throws InvalidArgumentError when a matrix is not positive definite.
/// Gradient: Murray 2016, "Differentiation of the Cholesky decomposition", section 3.
TAPESTRY_API Tensor cholesky(In x, std::string_view name = {});

/// Which system of equations `solve` and `triangular_solve` solve.
struct SolveOptions {
  bool adjoint = false;  ///< with the transposed matrices: a^T x = b
};
/// The x with a x = b, for a [..., n, n] and b [..., n, k] of the same batch, or b a vector [n]. Throws
/// InvalidArgumentError when a matrix is singular.
TAPESTRY_API Tensor solve(In a, In b, const SolveOptions& options = {}, std::string_view name = {});
/// The same with a name and the defaults.
inline Tensor solve(In a, In b, const NodeName auto& name) { return solve(a, b, {}, name); }
/// The same for lower triangular a, whose upper triangle is not read.
TAPESTRY_API Tensor triangular_solve(In a, In b, const SolveOptions& options = {}, std::string_view name = {});
/// The same with a name and the defaults.
inline Tensor triangular_solve(In a, In b, const NodeName auto& name) { return triangular_solve(a, b, {}, name); }
/// The inverses of [..., n, n]. Throws InvalidArgumentError when a matrix is singular.
TAPESTRY_API Tensor inverse(In x, std::string_view name = {});

/// What `svd` gives, for [..., m, n] and k = min(m, n).
struct Svd {
  Tensor s;  ///< [..., k], the largest first
  Tensor u;  ///< [..., m, k]
  Tensor v;  ///< [..., n, k], not transposed
};
/// The thin singular value decomposition x = u diag(s) v^T of [..., m, n], k = min(m, n), in tf.linalg.svd's order.
/// Signs of the vectors are arbitrary, so only functions that do not depend on them have a derivative. Gradients
/// through u and v are infinite or NaN where two singular values are equal or, for matrices that are not square, one is
/// 0; gradients through s alone are always finite.
TAPESTRY_API Svd svd(In x, std::string_view name = {});

/// Which norm: a number p >= 1 or infinity, "euclidean" (the root of the sum of squares, for matrices too), "fro" (the
/// same), or "inf". Throws InvalidArgumentError for another name or number.
class TAPESTRY_API NormOrder {
 public:
  /// Throws InvalidArgumentError for a name or number that is none of these.
  /// @{
  NormOrder(const char* name, Where where = Where::here());  // NOLINT(google-explicit-constructor): its name
  template <class T>
  requires std::is_arithmetic_v<T> NormOrder(T p, Where where = Where::here())  // NOLINT: its number
      : p_(static_cast<double>(p)) {
    check(where);
  }
  /// @}

  /// 0 for "euclidean".
  double p() const { return p_; }

 private:
  void check(Where where) const;
  double p_ = 0;
};
/// Which norm, and of what.
struct NormOptions {
  NormOrder ord = "euclidean";  ///< the power, or its name
  Axes axis = {};               ///< one axis: norms of vectors; two: of matrices; by default all elements as one vector
  bool keep_dims = false;       ///< the axes stay, of size 1
};
/// Norms in TensorFlow's convention. Of vectors: (sum |x|^p)^(1/p), or the largest |x| for infinity. Of matrices,
/// `norm(x, {.ord = 2, .axis = {-2, -1}})`: the largest column sum (1), the largest row sum (infinity), the largest
/// singular value (2) or the euclidean one; no other p. The gradient of a norm at 0 is 0.
TAPESTRY_API Tensor norm(In x, const NormOptions& options = {}, std::string_view name = {});
/// The same with a name and the defaults.
inline Tensor norm(In x, const NodeName auto& name) { return norm(x, {}, name); }

/// @}

}  // namespace tapestry
