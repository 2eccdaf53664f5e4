#include "tapestry/ops/linalg.hpp"

#include "backend/views.hpp"
#include "core/lack_refusal.hpp"
#include "ops/batching.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"

TAPESTRY_OP_FAMILY(linalg)

namespace tapestry {
namespace {

std::int64_t row_count(const Shape& shape) { return shape.sizes()[shape.rank() - 2]; }
void require_square(const Tensor& x) {
  require_type(x, float_types);
  require_rank_at_least(x, 2);
  if (!sizes_agree(row_count(x.shape()), x.shape().sizes().back()))
    throw InvalidArgumentError(
        detail::join("Input matrices must be squares, got ", row_count(x.shape()), " != ", x.shape().sizes().back()));
}

/// `infer` of an op from square matrices to square matrices.
Specs square_to_square(const Call& call) {
  require_square(call.input(0));
  return {call.input(0).spec()};
}

/// `infer` of a solver: matrices [..., n, n] and right sides [..., n, k].
Specs solution_like_right_side(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  require_square(a);
  require_rank_at_least(b, 2);
  bool batches_agree = a.rank() == b.rank();
  for (int i = 0; batches_agree && i < a.rank() - 2; ++i)
    batches_agree = sizes_agree(a.shape().sizes()[i], b.shape().sizes()[i]);
  if (!batches_agree)
    throw InvalidArgumentError(
        detail::join("Batch dimensions of matrix and rhs do not match: ", a.shape(), " vs. ", b.shape()));
  if (!sizes_agree(a.shape().sizes().back(), row_count(b.shape())))
    throw InvalidArgumentError(detail::join("Input matrix and rhs are incompatible: ", a.shape(), " vs. ", b.shape()));
  return {b.spec()};
}

template <Linalg f>
void run_linalg(Backend& backend, const Call& call) {
  backend.linalg(f, call.inputs(), attr_or(call, "adjoint", false), call.outputs());
}

/// `cpu` of what only the host computes.
template <Linalg f>
void run_linalg_on_host(const Call& call) {
  backend_of(cpu()).linalg(f, call.inputs(), false, call.outputs());
}

/// `busy` of an op on one matrix; 0 for a batch, because the kernel divides the matrices among threads. `nanoseconds`
/// is the cost per n^3, measured at 100 x 100.
template <Linalg f>
double busy_with(const Call& call) {
  constexpr double nanoseconds = f == Linalg::svd || f == Linalg::eigh        ? 2
                                 : f == Linalg::inverse || f == Linalg::solve ? .6
                                                                              : .1;
  const Shape& shape = call.input(0).shape();
  const auto n = static_cast<double>(std::max(row_count(shape), shape.sizes().back()));
  return size_between(shape, 0, shape.rank() - 2) == 1 ? nanoseconds * n * n * n : 0;
}

// ---- Diagonals and triangles -------------------------------------------------------------------------------------------

/// The main diagonals as a view.
Tensor diagonal_view(const Tensor& x, const Shape& shape) {
  const auto rank = static_cast<std::size_t>(x.rank());
  std::array<std::int64_t, Shape::max_rank> strides{};
  std::copy(x.strides().begin(), x.strides().end() - 2, strides.begin());
  strides[rank - 2] = x.strides()[rank - 2] + x.strides()[rank - 1];
  return detail::make_view(x, shape, strides);
}

Shape diagonal_shape(const Tensor& x) {
  require_rank_at_least(x, 2);
  Shape shape = batch_of(x.shape());
  shape.push_back(std::min(row_count(x.shape()), x.shape().sizes().back()));
  return shape;
}

TAPESTRY_OP(diag_part_op){{
    .name = "MatrixDiagPart",
    .infer = [](const Call& call) -> Specs {
      return {{call.input(0).dtype(), diagonal_shape(call.input(0))}};
    },
    .view = [](const Call& call, const Spec& spec) { return diagonal_view(call.input(0), spec.shape); },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors { return {set_diag(zeros_like(call.input(0)), g)}; },
    .needs = needs_nothing,
    .batch = batch_in_front,
}};

TAPESTRY_OP(set_diag_op){{
    .name = "MatrixSetDiag",
    .infer = [](const Call& call) -> Specs {
      const Shape expected = diagonal_shape(call.input(0)), &given = call.input(1).shape();
      bool fits = given.rank() == expected.rank();
      for (int i = 0; fits && i < given.rank(); ++i) fits = sizes_agree(given.sizes()[i], expected.sizes()[i]);
      if (!fits)
        throw InvalidArgumentError(detail::join("The diagonal of ", call.input(0).shape(), " has shape ", expected,
                                                ", but the diagonal given has shape ", given));
      return {call.input(0).spec()};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          backend.copy(call.input(0), call.output());
          backend.copy(call.input(1), diagonal_view(call.output(), call.input(1).shape()));
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return wanted(
          call, [&] { return set_diag(g, zeros_like(call.input(1))); }, [&] { return diag_part(g); });
    },
    .promotion = common_type,
    .needs = needs_nothing,
    .batch = batch_in_front,
}};

TAPESTRY_OP(band_part_op){{
    .name = "MatrixBandPart",
    .attrs = {{"num_lower", AttrKind::number}, {"num_upper", AttrKind::number}},
    .infer = [](const Call& call) -> Specs {
      // TensorFlow reads a file with such a node; only its run fails.
      if (rank_of(call.input(0)) < 2)
        throw LackRefusal(detail::join("Shape must be at least rank 2 but is rank ", rank_of(call.input(0)), ": ",
                                       call.input(0).shape()));
      return {call.input(0).spec()};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor &x = call.input(0), &y = call.output();
          const auto lower = call.attr<std::int64_t>("num_lower"), upper = call.attr<std::int64_t>("num_upper");
          const int row_axis = x.rank() - 2, column_axis = x.rank() - 1;
          const std::int64_t columns = x.shape().sizes().back();
          backend.fill(0, y);
          if (y.size() == 0) return;  // there may be very many rows without columns
          for (std::int64_t i = 0; i < row_count(x.shape()); ++i) {
            const std::int64_t first = lower < 0 ? 0 : std::max<std::int64_t>(0, i - lower);
            const std::int64_t last = upper < 0 || upper >= columns ? columns : std::min(columns, i + upper + 1);
            if (first >= last) continue;
            const auto part = [&](const Tensor& t) {
              return view_part(view_part(t, row_axis, i, 1), column_axis, first, last - first);
            };
            backend.copy(part(x), part(y));
          }
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors { return {apply(call.op(), {g}, call.attrs())}; },
    .needs = needs_nothing,
    .batch = batch_in_front,
}};

// ---- Decompositions ----------------------------------------------------------------------------------------------------

/// The gradient of x from the gradient g of l, where l l^T = x: the symmetric part of l^-T phi(l^T g) l^-1, where phi
/// takes the lower triangle with half the diagonal.
Tensors cholesky_gradient(const Call& call, const Tensor& g) {
  const Tensor& l = call.output();
  const Tensor triangle = band_part(matmul(l, band_part(g, -1, 0), {.transpose_a = true}), -1, 0);
  const Tensor phi = set_diag(triangle, 0.5 * diag_part(triangle));
  const Tensor left = triangular_solve(l, phi, {.adjoint = true});
  const Tensor both = triangular_solve(l, matrix_transpose(left), {.adjoint = true});
  return {0.5 * (both + matrix_transpose(both))};
}

TAPESTRY_OP(cholesky_op){{
    .name = "Cholesky",
    .infer = square_to_square,
    .forward = run_linalg<Linalg::cholesky>,
    .gradient = cholesky_gradient,
    .promotion = floating_type,
    .needs = needs_outputs,
    .busy = busy_with<Linalg::cholesky>,
    .batch = batch_in_front,
}};

/// The gradients of a and b where op(a) x = b, op = transpose if adjoint, from that of b, the solution with the other
/// op.
Tensors solve_gradients(const Call& call, const Tensor& of_b) {
  const Tensor& x = call.output();
  const auto of_a = [&] {
    return attr_or(call, "adjoint", false) ? -matmul(x, of_b, {.transpose_b = true})
                                           : -matmul(of_b, x, {.transpose_b = true});
  };
  return wanted(call, of_a, [&] { return of_b; });
}

TAPESTRY_OP(solve_op){{
    .name = "MatrixSolve",
    .attrs = {{"adjoint", AttrKind::flag, optional}},
    .infer = solution_like_right_side,
    .forward = run_linalg<Linalg::solve>,
    .gradient =
        [](const Call& call, const Tensor& g) {
          return solve_gradients(call, solve(call.input(0), g, {.adjoint = !attr_or(call, "adjoint", false)}));
        },
    .promotion = floating_type,
    .needs = Needs{1, 1},
    .busy = busy_with<Linalg::solve>,
    .batch = batch_in_front,
}};

TAPESTRY_OP(triangular_solve_op){{
    .name = "MatrixTriangularSolve",
    .attrs = {{"lower", AttrKind::flag, optional}, {"adjoint", AttrKind::flag, optional}},
    .infer = solution_like_right_side,
    .forward =
        [](Backend& backend, const Call& call) {
          // The kernels take lower triangles. An upper one is the adjoint of a lower one.
          const bool lower = attr_or(call, "lower", true);
          const Tensor a = lower ? call.input(0) : view_transposed(call.input(0));
          const std::array inputs{a, call.input(1)};
          backend.linalg(Linalg::triangular_solve, inputs, attr_or(call, "adjoint", false) == lower, call.outputs());
        },
    .gradient =
        [](const Call& call, const Tensor& g) {
          const bool lower = attr_or(call, "lower", true), adjoint = attr_or(call, "adjoint", false);
          Tensors gradients =
              solve_gradients(call, triangular_solve(call.input(0), g, {.lower = lower, .adjoint = !adjoint}));
          if (gradients[0]) gradients[0] = band_part(gradients[0], lower ? -1 : 0, lower ? 0 : -1);
          return gradients;
        },
    .promotion = floating_type,
    .needs = Needs{1, 1},
    .busy = busy_with<Linalg::triangular_solve>,
    .batch = batch_in_front,
}};

TAPESTRY_OP(inverse_op){{
    .name = "MatrixInverse",
    .infer = square_to_square,
    .forward = run_linalg<Linalg::inverse>,
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const Tensor& y = call.output();
      return {-matmul(matmul(y, g, {.transpose_a = true}), y, {.transpose_b = true})};
    },
    .promotion = floating_type,
    .needs = needs_outputs,
    .busy = busy_with<Linalg::inverse>,
    .batch = batch_in_front,
}};

// ---- Determinants ------------------------------------------------------------------------------------------------------

Tensor as_matrices(const Tensor& numbers) { return expand_dims(expand_dims(numbers, -1), -1); }

TAPESTRY_OP(det_op){{
    .name = "MatrixDeterminant",
    .infer = [](const Call& call) -> Specs {
      require_square(call.input(0));
      return {{call.input(0).dtype(), batch_of(call.input(0).shape())}};
    },
    .cpu = run_linalg_on_host<Linalg::determinant>,
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {as_matrices(g * call.output()) * matrix_transpose(inverse(call.input(0)))};
    },
    .promotion = floating_type,
    .needs = Needs{1, 1},
    .busy = busy_with<Linalg::determinant>,
    .batch = batch_in_front,
}};

TAPESTRY_OP(slogdet_op){{
    .name = "LogMatrixDeterminant",
    .infer = [](const Call& call) -> Specs {
      require_square(call.input(0));
      const Spec each{call.input(0).dtype(), batch_of(call.input(0).shape())};
      return {each, each};
    },
    .cpu = run_linalg_on_host<Linalg::log_determinant>,
    .gradient = [](const Call& call, const Tensors& g) -> Tensors {
      if (!g[1]) return {zeros_like(call.input(0))};
      return {as_matrices(g[1]) * matrix_transpose(inverse(call.input(0)))};
    },
    .promotion = floating_type,
    .needs = needs_inputs,
    .outputs = 2,
    .busy = busy_with<Linalg::log_determinant>,
    .batch = batch_in_front,
}};

// ---- Orthonormal and triangular factors --------------------------------------------------------------------------------

Specs infer_qr(const Call& call) {
  const Tensor& x = call.input(0);
  require_type(x, float_types);
  const std::int64_t k = diagonal_shape(x).sizes().back();
  Shape q = x.shape(), r = x.shape();
  q.set(x.rank() - 1, k);
  r.set(x.rank() - 2, k);
  return {{x.dtype(), q}, {x.dtype(), r}};
}

/// The gradient of a matrix that is not wide, so that r is square.
Tensor tall_qr_gradient(const Tensor& q, const Tensor& r, const Tensor& of_q, const Tensor& of_r) {
  const auto antisymmetric = [](const Tensor& x) { return x - matrix_transpose(x); };
  const auto divided = [&](const Tensor& x) {  // x r^-T
    return matrix_transpose(triangular_solve(matrix_transpose(r), matrix_transpose(x), {.adjoint = true}));
  };
  const Tensor inner = matmul(q, of_q, {.transpose_a = true});
  const Tensor rotation = antisymmetric(inner) + antisymmetric(matmul(r, of_r, {.transpose_b = true}));
  return matmul(q, of_r + divided(band_part(rotation, -1, 0))) + divided(of_q - matmul(q, inner));
}

Tensors qr_gradient(const Call& call, const Tensors& g) {
  const Tensor &x = call.input(0), &q = call.output(0), &r = call.output(1);
  const Tensor of_q = g[0] ? g[0] : zeros_like(q), of_r = g[1] ? g[1] : zeros_like(r);
  // The columns of a wide matrix beyond its square part determine only those of r. A product selects the square part:
  // it does so for unknown sizes, too.
  const Tensor none = zeros_like(matrix_transpose(r)), unit = set_diag(none, ones_like(diag_part(none)));
  const auto square_part = [&](const Tensor& wide) { return matmul(wide, unit); };
  const auto widened = [&](const Tensor& square) { return matmul(square, unit, {.transpose_b = true}); };
  const Tensor beyond = of_r - widened(square_part(of_r));
  const Tensor of_square = of_q + matmul(x, beyond, {.transpose_b = true});
  return {widened(tall_qr_gradient(q, square_part(r), of_square, square_part(of_r))) + matmul(q, beyond)};
}

TAPESTRY_OP(qr_op){{
    .name = "Qr",
    .infer = infer_qr,
    .cpu = run_linalg_on_host<Linalg::qr>,
    .gradient = qr_gradient,
    .promotion = floating_type,
    .needs = Needs{1, 3},
    .outputs = 2,
    .busy = busy_with<Linalg::qr>,
    .batch = batch_in_front,
}};

// ---- Eigenvalues -------------------------------------------------------------------------------------------------------

Tensors eigh_gradient(const Call& call, const Tensors& g) {
  const Tensor &e = call.output(0), &v = call.output(1);
  Tensor core = zeros_like(v);
  if (g[1]) {
    // The rotation of the vectors is divided by the gaps between their values. The diagonal, which is 1 instead of 0,
    // is replaced below.
    const Tensor gaps = set_diag(expand_dims(e, -2) - expand_dims(e, -1), ones_like(e));
    core = matmul(v, g[1], {.transpose_a = true}) / gaps;
  }
  core = set_diag(core, g[0] ? g[0] : zeros_like(e));
  const Tensor full = matmul(v, matmul(core, v, {.transpose_b = true}));
  const Tensor triangle = band_part(full + matrix_transpose(full), -1, 0);
  return {set_diag(triangle, 0.5 * diag_part(triangle))};
}

TAPESTRY_OP(eigh_op){{
    .name = "SelfAdjointEigV2",
    .infer = [](const Call& call) -> Specs {
      require_square(call.input(0));
      return {{call.input(0).dtype(), diagonal_shape(call.input(0))}, call.input(0).spec()};
    },
    .cpu = run_linalg_on_host<Linalg::eigh>,
    .gradient = eigh_gradient,
    .promotion = floating_type,
    .needs = needs_outputs,
    .outputs = 2,
    .busy = busy_with<Linalg::eigh>,
    .batch = batch_in_front,
}};

// ---- Singular values ---------------------------------------------------------------------------------------------------

Specs infer_svd(const Call& call) {
  const Tensor& x = call.input(0);
  require_type(x, float_types);
  const Shape s = diagonal_shape(x);
  Shape u = x.shape(), v = x.shape();
  u.set(x.rank() - 1, s.sizes().back());
  v.set(x.rank() - 2, x.shape().sizes().back());
  v.set(x.rank() - 1, s.sizes().back());
  return {{x.dtype(), s}, {x.dtype(), u}, {x.dtype(), v}};
}

/// x - u (u^T x): the component of x outside the space that the orthonormal columns of u span.
Tensor outside(const Tensor& u, const Tensor& x) { return x - matmul(u, matmul(u, x, {.transpose_a = true})); }

/// Townsend 2016, "Differentiating the singular value decomposition", equations 26 to 28.
Tensors svd_gradient(const Call& call, const Tensors& g) {
  const Tensor &s = call.output(0), &u = call.output(1), &v = call.output(2);
  const Tensor s_row = expand_dims(s, -2), s_column = expand_dims(s, -1);
  const auto back = [&](const Tensor& left, const Tensor& right) { return matmul(left, right, {.transpose_b = true}); };
  if (!g[1] && !g[2]) return {back(u * expand_dims(g[0], -2), v)};

  // The rotation of the vectors is divided by the gaps between the squares of their values. The diagonal of the gaps is
  // 1 instead of 0.
  const Tensor gaps = set_diag(square(s_row) - square(s_column), ones_like(s));
  const auto rotation = [&](const Tensor& vectors, const Tensor& gradient) {
    const Tensor inner = matmul(vectors, gradient, {.transpose_a = true});
    return (inner - matrix_transpose(inner)) / gaps;
  };
  Tensor core = g[0] ? set_diag(zeros_like(gaps), g[0]) : zeros_like(gaps);
  if (g[1]) core = core + rotation(u, g[1]) * s_row;
  if (g[2]) core = core + rotation(v, g[2]) * s_column;
  Tensor result = back(matmul(u, core), v);

  // As many vectors as each is long span the whole space; what rounding leaves outside must not count.
  const auto add_if_longer = [&](const Tensor& vectors, const auto& part) {
    const std::int64_t length = vectors.shape().sizes()[vectors.rank() - 2], count = s.shape().sizes().back();
    if (length >= 0 && length == count) return;
    const Tensor sum = result + part();
    result = length >= 0 && count >= 0 ? sum : where(greater(size(vectors, -2), size(s, -1)), sum, result);
  };
  if (g[1]) add_if_longer(u, [&] { return back(outside(u, g[1]) / s_row, v); });
  if (g[2]) add_if_longer(v, [&] { return back(u / s_row, outside(v, g[2])); });
  return {result};
}

TAPESTRY_OP(svd_op){{
    .name = "Svd",
    .infer = infer_svd,
    .forward = run_linalg<Linalg::svd>,
    .gradient = svd_gradient,
    .promotion = floating_type,
    .needs = needs_outputs,
    .outputs = 3,
    .busy = busy_with<Linalg::svd>,
    .batch = batch_in_front,
}};

/// Applies a solver; a vector as the right side becomes a matrix of one column.
Tensor solve_by(const Op& op, In a, In b, const Attrs& attrs, std::string_view name) {
  return blaming(op.name, a.where(), [&] {
    if (rank_of(b) != 1) return apply(op, {a, b}, attrs, name);
    // The error shows the shapes that the user gave.
    if (a->shape().has_rank() && (a->rank() != 2 || !sizes_agree(a->shape().sizes().back(), b->shape().sizes()[0])))
      throw InvalidArgumentError(
          detail::join("Input matrix and rhs are incompatible: ", a->shape(), " vs. ", b->shape()));
    return squeeze(apply(op, {a, expand_dims(b, -1)}, attrs), -1, name);
  });
}

}  // namespace

Tensor diag_part(In x, std::string_view name) { return apply(diag_part_op, {std::move(x)}, {}, name); }
Tensor set_diag(In x, In diagonal, std::string_view name) {
  return apply(set_diag_op, {std::move(x), std::move(diagonal)}, {}, name);
}
Tensor trace(In x, std::string_view name) {
  const CallSiteScope site(x.where());
  return reduce_sum(diag_part(x), -1, name);
}
Tensor band_part(In x, std::int64_t lower, std::int64_t upper, std::string_view name) {
  return apply(band_part_op, {std::move(x)}, {{"num_lower", lower}, {"num_upper", upper}}, name);
}

Tensor cholesky(In x, std::string_view name) { return apply(cholesky_op, {std::move(x)}, {}, name); }
Tensor solve(In a, In b, const SolveOptions& options, std::string_view name) {
  return solve_by(solve_op, a, b, {{"adjoint", options.adjoint}}, name);
}
Tensor triangular_solve(In a, In b, const TriangularSolveOptions& options, std::string_view name) {
  return solve_by(triangular_solve_op, a, b, {{"lower", options.lower}, {"adjoint", options.adjoint}}, name);
}
Tensor inverse(In x, std::string_view name) { return apply(inverse_op, {std::move(x)}, {}, name); }
Tensor det(In x, std::string_view name) { return apply(det_op, {std::move(x)}, {}, name); }
LogDeterminant slogdet(In x, std::string_view name) {
  const Tensors parts = apply_all(slogdet_op, {x.tensor()}, {}, name, x.where());
  return {parts[0], parts[1]};
}
Qr qr(In x, std::string_view name) {
  const Tensors parts = apply_all(qr_op, {x.tensor()}, {}, name, x.where());
  return {parts[0], parts[1]};
}
Eigh eigh(In x, std::string_view name) {
  const Tensors parts = apply_all(eigh_op, {x.tensor()}, {}, name, x.where());
  return {parts[0], parts[1]};
}
Svd svd(In x, std::string_view name) {
  const Tensors parts = apply_all(svd_op, {x.tensor()}, {}, name, x.where());
  return {parts[0], parts[1], parts[2]};
}

}  // namespace tapestry
