#include "backend/views.hpp"
#include "ops/batching.hpp"
#include "ops/handles.hpp"
#include "ops/merged.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/linalg.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"

TAPESTRY_OP_FAMILY(matmul)

namespace tapestry {
namespace {

/// TensorFlow's names of the attributes that transpose a matrix product's operands.
struct ProductAttrs {
  std::string_view a, b;
};
constexpr ProductAttrs matrix_attrs{"transpose_a", "transpose_b"};
constexpr ProductAttrs batch_attrs{"adj_x", "adj_y"};

MatMulOptions transposed(const Call& call) {
  MatMulOptions options;
  for (const Attr& attr : call.attrs()) {
    if (attr.name == matrix_attrs.a || attr.name == batch_attrs.a) options.transpose_a = call.attr<bool>(attr.name);
    if (attr.name == matrix_attrs.b || attr.name == batch_attrs.b) options.transpose_b = call.attr<bool>(attr.name);
  }
  return options;
}

/// The four sets of attributes of a product, made once.
template <const ProductAttrs& names>
const Attrs& product_attrs(const MatMulOptions& options) {
  static const auto& all =
      *new std::array<Attrs, 4>{Attrs{{names.a, false}, {names.b, false}}, Attrs{{names.a, false}, {names.b, true}},
                                Attrs{{names.a, true}, {names.b, false}}, Attrs{{names.a, true}, {names.b, true}}};
  return all[(options.transpose_a ? 2U : 0U) + (options.transpose_b ? 1U : 0U)];
}

// ---- infer -------------------------------------------------------------------------------------------------------------

/// The shape of an operand as the user gave it: the vector's if a vector became a matrix on the line of the product.
Shape shape_before(const Tensor& x, Where product) {
  const Operation maker = x.op();
  if (!maker || &maker.call().op() != &ops::expand_dims || !product || !maker.where()) return x.shape();
  const bool by_product = to_string(maker.where()) == to_string(product);
  return by_product ? maker.input(0).shape() : x.shape();
}

/// The operands of a product as the user gave them, for errors.
struct Operands {
  const Tensor &a, &b;
  MatMulOptions options;
  Where where;

  Operands(const Call& call)  // NOLINT(google-explicit-constructor)
      : Operands(call.input(0), call.input(1), transposed(call), call.where()) {}
  Operands(const Tensor& x, const Tensor& y, const MatMulOptions& o, Where w) : a(x), b(y), options(o), where(w) {}

  /// "[2,3]", or "[3,2]^T" for a matrix that is used transposed.
  std::string text_a() const { return to_string(shape_before(a, where)) + (options.transpose_a ? "^T" : ""); }
  std::string text_b() const { return to_string(shape_before(b, where)) + (options.transpose_b ? "^T" : ""); }
};

std::string input_shapes(const Operands& operands, std::string_view name, std::string_view op) {
  return detail::join(" for '", name, "' (op: '", op, "') with input shapes: ", operands.text_a(), ", ",
                      operands.text_b(), ".");
}

[[noreturn]] void refuse_sizes(const Operands& operands, std::string_view name, std::string_view op,
                               std::int64_t inner_a, std::int64_t inner_b) {
  // TensorFlow's text for the operands of a graph differs from that for operands with values.
  if (operands.a.is_symbolic() || operands.b.is_symbolic())
    throw InvalidArgumentError(detail::join("Dimensions must be equal, but are ", inner_a, " and ", inner_b,
                                            input_shapes(operands, name, op)));
  throw InvalidArgumentError(
      detail::join("Matrix size-incompatible: In[0]: ", operands.text_a(), ", In[1]: ", operands.text_b()));
}

/// The dtype and the shape [..., m, n] of the product with the given batch dimensions.
Spec product_spec(const Call& call, Shape batch) {
  const Tensor &a = call.input(0), &b = call.input(1);
  require_type(a, number_types);
  require_type(b, number_types);
  const auto [transpose_a, transpose_b] = transposed(call);
  const auto rows_and_columns = [](const Shape& shape, bool swap) {
    const std::int64_t rows = shape.sizes()[shape.rank() - 2], columns = shape.sizes().back();
    return swap ? std::pair(columns, rows) : std::pair(rows, columns);
  };
  const auto [m, inner_a] = rows_and_columns(a.shape(), transpose_a);
  const auto [inner_b, n] = rows_and_columns(b.shape(), transpose_b);
  if (!sizes_agree(inner_a, inner_b)) refuse_sizes(call, call.name(), call.type(), inner_a, inner_b);
  batch.push_back(m);
  batch.push_back(n);
  return {a.dtype(), batch};
}

Shape common_batch(const Call& call) {
  const Shape &a = call.input(0).shape(), &b = call.input(1).shape();
  try {
    return broadcast_shapes(batch_of(a), batch_of(b));
  } catch (const InvalidArgumentError&) {
    throw InvalidArgumentError(detail::join("In[0] and In[1] must have compatible batch dimensions: ", a, " vs. ", b));
  }
}

// ---- forward -----------------------------------------------------------------------------------------------------------

/// A view of the matrices x [..., r, c], broadcast to the given batch dimensions. If x has more batch dimensions than
/// these, the first ones must be 1 and are dropped.
Tensor with_batch(const Tensor& x, const Shape& batch) {
  Shape shape = batch;
  for (int i = x.rank() - 2; i < x.rank(); ++i) shape.push_back(x.shape().sizes()[i]);
  return view_broadcast(x, shape);
}

bool is_one_matrix(const Tensor& x) { return size_between(x.shape(), 0, x.rank() - 2) == 1; }

/// The matrix [rows, columns] of all rows of a contiguous tensor.
Tensor all_rows(const Tensor& x) {
  return view_as(x, {size_between(x.shape(), 0, x.rank() - 1), x.shape().sizes().back()});
}

void batch_product(Backend& backend, const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output();
  const auto [transpose_a, transpose_b] = transposed(call);
  if (!transpose_a && a.is_contiguous() && is_one_matrix(b) && a.rank() == y.rank()) {
    backend.gemm(all_rows(a), with_batch(b, {}), false, transpose_b, all_rows(y));  // one large product, not many
  } else {
    const Shape batch = batch_of(y.shape());
    backend.gemm(with_batch(a, batch), with_batch(b, batch), transpose_a, transpose_b, y);
  }
}

// ---- gradient ----------------------------------------------------------------------------------------------------------

/// All rows of x as one matrix.
Tensor rows(const Tensor& x) { return merged(x, {x.rank() - 1, 1}); }

/// The sum of a batch of matrices.
Tensor sum_of_batch(const Tensor& x) {
  Ints axes;
  for (int axis = 0; axis < x.rank() - 2; ++axis) axes.push_back(axis);
  return axes.empty() ? x : reduce_sum(x, axes);
}

/// The operands of the product of matrices that is a gradient.
struct GradientProduct {
  const Tensor &x, &y;
  MatMulOptions options;
};
GradientProduct product_for_a(const Tensor& g, const Tensor& b, const MatMulOptions& given) {
  return given.transpose_a ? GradientProduct{b, g, {given.transpose_b, true}}
                           : GradientProduct{g, b, {false, !given.transpose_b}};
}
GradientProduct product_for_b(const Tensor& a, const Tensor& g, const MatMulOptions& given) {
  return given.transpose_b ? GradientProduct{g, a, {true, given.transpose_a}}
                           : GradientProduct{a, g, {!given.transpose_a, false}};
}

/// The gradient by the first operand from the second one and the gradient of the product. If a batch shares the
/// operand, the gradient is still that of each of the batch.
Tensor gradient_of_a(const Tensor& g, const Tensor& b, const MatMulOptions& given) {
  if (b.rank() == 1) {
    if (g.rank() == 0) return g * b;
    const Tensor column_g = expand_dims(g, -1), column_b = expand_dims(b, -1);
    const auto& [x, y, options] = product_for_a(column_g, column_b, {given.transpose_a, false});
    return matmul(x, y, options);
  }
  if (g.rank() < b.rank()) return squeeze(matmul(expand_dims(g, -2), b, {false, !given.transpose_b}), {-2});
  const auto [x, y, options] = product_for_a(g, b, given);
  return matmul(x, y, options);
}

/// The gradient by the second operand. `is_matrix`: whether it is one matrix, which a batch shares.
Tensor gradient_of_b(const Tensor& a, const Tensor& g, const MatMulOptions& given, bool is_matrix) {
  if (a.rank() == 1 && is_matrix) return given.transpose_b ? outer(g, a) : outer(a, g);
  // This is one product, not the sum of a batch of products.
  if (a.rank() > 2 && is_matrix && !given.transpose_a)
    return given.transpose_b ? matmul(rows(g), rows(a), {true, false}) : matmul(rows(a), rows(g), {true, false});
  const auto [x, y, options] = product_for_b(a, g, given);
  const Tensor found = matmul(x, y, options);
  return is_matrix ? sum_of_batch(found) : found;
}

Tensors product_gradients(const Call& call, const Tensor& g) {
  const Tensor &a = call.input(0), &b = call.input(1);
  const MatMulOptions given = transposed(call);
  const bool have_ranks = a.shape().has_rank() && b.shape().has_rank(), awaits_ranks = call.attrs().find("redo");
  const bool is_matrix = b.shape().rank() == 2;
  // A product that a run computes again for the ranks of what is fed. As long as they are not known it is one of
  // matrices, also for files.
  const auto later = [&](const GradientProduct& product, const auto& gradient) {
    const Attrs& attrs = product_attrs<matrix_attrs>(product.options);
    return apply(call.op(), {product.x, product.y}, awaits_ranks ? with_redo(attrs, gradient) : attrs);
  };
  const auto by_a = [&] {
    if (have_ranks) return gradient_of_a(g, b, given);
    const Tensor found = later(product_for_a(g, b, given), [given](const Tensors& known) -> Tensors {
      const std::size_t of_g = given.transpose_a;
      return {gradient_of_a(known[of_g], known[1 - of_g], given)};
    });
    return awaits_ranks && !is_matrix ? sum_like(found, a) : found;
  };
  const auto by_b = [&] {
    if (have_ranks) return gradient_of_b(a, g, given, is_matrix);
    // Which of the ways is taken depends on the rank of b, unless a is one matrix.
    if (awaits_ranks && !is_matrix && a.shape().rank() != 2) require_rank_at_least(b, 0);
    const Tensor found = later(product_for_b(a, g, given), [given, is_matrix](const Tensors& known) -> Tensors {
      const std::size_t of_a = given.transpose_b;
      return {gradient_of_b(known[of_a], known[1 - of_a], given, is_matrix)};
    });
    return awaits_ranks && !is_matrix ? sum_like(found, b) : found;
  };
  return wanted(call, by_a, by_b);
}

Tensors products_of_batch(const BatchedCall& call) {
  const int rank = std::max(call.rank(0), call.rank(1));
  return {matmul(call.aligned(0, rank), call.aligned(1, rank), transposed(call.one()))};
}

TAPESTRY_OP(matmul_op){{
    .name = "MatMul",
    .attrs = {{matrix_attrs.a, AttrKind::flag}, {matrix_attrs.b, AttrKind::flag}},
    .infer = [](const Call& call) -> Specs {
      // A vector, a matrix or a batch may be fed for an operand of unknown rank.
      if (call.attrs().find("redo")) return {{call.input(0).dtype(), Shape::unknown_rank()}};
      for (const Tensor& input : call.inputs())
        if (input.rank() != 2)
          throw InvalidArgumentError(detail::join("Shape must be rank 2 but is rank ", input.rank(),
                                                  input_shapes(call, call.name(), call.type())));
      return {product_spec(call, {})};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const auto [transpose_a, transpose_b] = transposed(call);
          backend.gemm(call.input(0), call.input(1), transpose_a, transpose_b, call.output());
        },
    .gradient = product_gradients,
    .promotion = common_type,
    .needs = needs_inputs,
    .precision = Precision::low,
    .busy =
        [](const Call& call) { return busy_with_product(call.input(0), transposed(call).transpose_a, call.output()); },
    .batch = products_of_batch,
}};

TAPESTRY_OP(batch_matmul_op){{
    .name = "BatchMatMulV2",
    .attrs = {{batch_attrs.a, AttrKind::flag}, {batch_attrs.b, AttrKind::flag}},
    .infer = [](const Call& call) -> Specs {
      for (const Tensor& input : call.inputs()) require_rank_at_least(input, 2);
      return {product_spec(call, common_batch(call))};
    },
    .forward = batch_product,
    .gradient = product_gradients,
    .promotion = common_type,
    .needs = needs_inputs,
    .precision = Precision::low,
    .broadcasts = true,
    .batch = products_of_batch,
}};

/// Throws InvalidArgumentError, with the shapes that the user gave, for a vector that does not fit the other operand.
void require_product(const In& a, const In& b, const MatMulOptions& options, std::string_view name) {
  blaming(matmul_op.name, CallSiteScope::current(), [&] {
    const Operands operands(a, b, options, {});
    const std::string_view label = name.empty() ? std::string_view(matmul_op.name) : name;
    const auto inner = [&](const Tensor& x, bool first) {
      if (x.rank() == 0)
        throw InvalidArgumentError("Shape must be at least rank 1 but is rank 0" +
                                   input_shapes(operands, label, matmul_op.name));
      const bool is_last = x.rank() == 1 || (first ? !options.transpose_a : options.transpose_b);
      return x.shape().sizes()[x.rank() - (is_last ? 1 : 2)];
    };
    const std::int64_t inner_a = inner(a, true), inner_b = inner(b, false);
    if (!sizes_agree(inner_a, inner_b)) refuse_sizes(operands, label, matmul_op.name, inner_a, inner_b);
  });
}

}  // namespace

Tensor matmul(In a, In b, const MatMulOptions& options, std::string_view name) {
  if (!a.tensor() || !b.tensor()) return apply(matmul_op, {a, b}, product_attrs<matrix_attrs>(options), name);
  if (!a->shape().has_rank() || !b->shape().has_rank()) {
    const auto redo = [options](const Tensors& known) -> Tensors { return {matmul(known[0], known[1], options)}; };
    return apply(matmul_op, {std::move(a), std::move(b)}, with_redo(product_attrs<matrix_attrs>(options), redo), name);
  }
  const bool row = a->rank() == 1, column = b->rank() == 1;
  if (!row && !column) {
    if (a->rank() <= 2 && b->rank() <= 2)
      return apply(matmul_op, {std::move(a), std::move(b)}, product_attrs<matrix_attrs>(options), name);
    return apply(batch_matmul_op, {std::move(a), std::move(b)}, product_attrs<batch_attrs>(options), name);
  }
  const CallSiteScope site(a.where());
  require_product(a, b, {!row && options.transpose_a, !column && options.transpose_b}, name);
  const Tensor matrix_a = row ? expand_dims(a, 0) : a.tensor(), matrix_b = column ? expand_dims(b, -1) : b.tensor();
  const Tensor product = matmul(matrix_a, matrix_b, {!row && options.transpose_a, !column && options.transpose_b});
  if (row && column) return squeeze(product, {-2, -1}, name);
  return squeeze(product, row ? -2 : -1, name);
}

Tensor outer(In a, In b, std::string_view name) {
  const CallSiteScope site(a.where());
  return multiply(reshape(a, {-1, 1}), reshape(b, {1, -1}), name);
}

namespace ops {
const Op& matmul = matmul_op;
}  // namespace ops

}  // namespace tapestry
