// matmul, einsum, norms and decompositions in the corners that the op table does not visit: all equations of einsum
// against plain loops, messages, and shapes with unknown sizes.

#include <cmath>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "core/make_tensor.hpp"
#include "expect.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/random.hpp"
#include "tapestry/tape.hpp"
#include "tapestry/trace.hpp"
#include "tapestry/transformations.hpp"

namespace tapestry::test::ops_linalg_test {
namespace {

/// 1, 2, 3, ... in a shape; whole numbers, so that sums are exact.
Tensor counted(const Shape& shape, DType dtype = float64) {
  return reshape(arange(1, shape.size() + 1, {dtype}), shape);
}

Shape inferred(const std::string& op, const std::vector<Shape>& inputs, const Attrs& attrs = {},
               std::size_t output = 0) {
  Tensors tensors;
  for (const Shape& shape : inputs) tensors.push_back(detail::make_symbolic(float32, shape));
  const Op* found = find_op(op);
  REQUIRE(found != nullptr);
  return found->infer(Call(*found, tensors, attrs, Where::here()))[output].shape;
}

/// einsum by its definition: a sum over all values of all letters. No ellipsis.
Tensor einsum_by_loops(const std::string& equation, const std::vector<Tensor>& operands) {
  const std::size_t arrow = equation.find("->");
  const std::string output = equation.substr(arrow + 2);
  std::vector<std::string> terms(1);
  for (const char c : equation.substr(0, arrow)) c == ',' ? terms.emplace_back() : terms.back() += c;
  std::map<char, std::int64_t> sizes, index;
  for (std::size_t i = 0; i < terms.size(); ++i)
    for (std::size_t j = 0; j < terms[i].size(); ++j) sizes[terms[i][j]] = operands[i].shape()[static_cast<int>(j)];
  Shape shape;
  for (const char letter : output) shape.push_back(sizes[letter]);
  const auto place = [&](const std::string& term) {
    std::int64_t offset = 0;
    for (const char letter : term) offset = offset * sizes[letter] + index[letter];
    return static_cast<std::size_t>(offset);
  };
  std::vector<std::vector<double>> data;
  for (const Tensor& operand : operands) data.push_back(values(operand));
  std::vector<double> result(static_cast<std::size_t>(shape.size()));
  std::int64_t total = 1;
  for (const auto& [letter, size] : sizes) total *= size;
  for (std::int64_t step = 0; step < total; ++step) {
    std::int64_t rest = step;
    for (const auto& [letter, size] : sizes) {
      index[letter] = rest % size;
      rest /= size;
    }
    double product = 1;
    for (std::size_t i = 0; i < terms.size(); ++i) product *= data[i][place(terms[i])];
    result[place(output)] += product;
  }
  return tensor(result, shape);
}

}  // namespace

TEST_CASE("matmul takes whole numbers, promotes, and treats vectors as NumPy does") {
  const Tensor a = tensor({{1, 0}, {0, -1}});
  check_same(matmul(a, tensor({1, 2})), tensor({1, -2}));
  check_same(matmul(a, tensor({{1.5, 2.5}, {3.0, 4.0}})), tensor({{1.5, 2.5}, {-3.0, -4.0}}));
  check_same(matmul(tensor({1, 2}), tensor({3, 4})), tensor(11));
  CHECK(matmul(counted({3}), counted({2, 3, 4})).shape() == Shape{2, 4});
  CHECK(matmul(counted({2, 4, 3}), counted({3})).shape() == Shape{2, 4});
  CHECK(matmul(counted({5, 1, 2, 3}), counted({4, 3, 2})).shape() == Shape{5, 4, 2, 2});
  CHECK(matmul(counted({0, 2, 3}), counted({3, 2})).shape() == Shape{0, 2, 2});
  check_same(matmul(zeros({2, 0}), zeros({0, 3})), zeros({2, 3}));
  check_same(matmul(counted({3}), counted({3, 2}), {.transpose_a = true}), matmul(counted({3}), counted({3, 2})));
}

TEST_CASE("a batch that shares one matrix is multiplied as the single products are") {
  const Tensor a = counted({2, 3, 4}), b = counted({4, 5});
  for (const Tensor& batch : {a, transpose(counted({2, 4, 3}), {0, 2, 1})}) {
    const Tensor y = matmul(batch, b), flipped = matmul(batch, transpose(b), {.transpose_b = true});
    for (int i = 0; i < 2; ++i) check_same(y(i), matmul(batch(i), b));
    check_same(flipped, y);
  }
  check_same(matmul(reshape(a, {2, 1, 3, 4}), reshape(b, {1, 4, 5})), reshape(matmul(a, b), {2, 1, 3, 5}));
}

TEST_CASE("matmul says which shapes do not fit, and where") {
  const Tensor a = zeros({2, 3}), b = zeros({4, 5});
  const auto error = caught<InvalidArgumentError>([&] { matmul(a, b); });
  const std::string line = line_before();
  CHECK(std::string(error.what()) == "Matrix size-incompatible: In[0]: [2,3], In[1]: [4,5] [Op:MatMul] at " + line);
  CHECK(caught([&] { matmul(a, 2.0); }).message() ==
        "Shape must be rank 2 but is rank 0 for 'MatMul' (op: 'MatMul') with input shapes: [2,3], [].");
  CHECK(caught([&] {
          matmul(zeros({2, 2, 3}), zeros({3, 3, 2}));
        }).message() == "In[0] and In[1] must have compatible batch dimensions: [2,2,3] vs. [3,3,2]");
  CHECK(caught([&] { matmul(equal(a, a), equal(b, b)); }).message() ==
        "Value for attr 'T' of bool is not in the list of allowed values: uint8, int32, int64, half, bfloat16, float, "
        "double");
  const auto vector = caught([&] { matmul(a, zeros({4})); });
  CHECK(place(vector) == line_before());
  const auto symbolic = caught([&] {
    inferred("MatMul", {{-1, 3}, {4, 5}}, {{"transpose_a", false}, {"transpose_b", false}});
  });
  CHECK(symbolic.message() ==
        "Dimensions must be equal, but are 3 and 4 for 'MatMul' (op: 'MatMul') with input shapes: [?,3], [4,5].");
}

TEST_CASE("products of unknown sizes") {
  CHECK(inferred("MatMul", {{-1, 3}, {-1, 5}}) == Shape{-1, 5});
  CHECK(inferred("MatMul", {{-1, 2}, {5, -1}}, {{"transpose_a", true}, {"transpose_b", true}}) == Shape{2, 5});
  CHECK(inferred("BatchMatMulV2", {{-1, 4, 3}, {3, 2}}) == Shape{-1, 4, 2});
  CHECK(inferred("BatchMatMulV2", {{-1, 4, 3}, {7, 3, 2}}) == Shape{7, 4, 2});
  CHECK(inferred("MatrixSolve", {{-1, 3, 3}, {-1, 3, -1}}) == Shape{-1, 3, -1});
  CHECK(inferred("Cholesky", {{-1, 3, -1}}) == Shape{-1, 3, -1});
  CHECK(inferred("Svd", {{-1, 4, 3}}, {}, 0) == Shape{-1, 3});
  CHECK(inferred("Svd", {{-1, 4, 3}}, {}, 1) == Shape{-1, 4, 3});
  CHECK(inferred("Svd", {{2, -1, 3}}, {}, 2) == Shape{2, 3, -1});
  CHECK(inferred("MatrixDeterminant", {{-1, 3, -1}}) == Shape{-1});
  CHECK(inferred("LogMatrixDeterminant", {{2, -1, 3, 3}}, {}, 1) == Shape{2, -1});
  CHECK(inferred("Qr", {{-1, 4, 3}}, {}, 0) == Shape{-1, 4, 3});
  CHECK(inferred("Qr", {{-1, 4, 3}}, {}, 1) == Shape{-1, 3, 3});
  CHECK(inferred("Qr", {{2, -1, 3}}, {}, 1) == Shape{2, -1, 3});
  CHECK(inferred("SelfAdjointEigV2", {{-1, 3, 3}}, {}, 0) == Shape{-1, 3});
  CHECK(inferred("SelfAdjointEigV2", {{-1, 3, 3}}, {}, 1) == Shape{-1, 3, 3});
  CHECK(inferred("MatrixDiagPart", {{2, 4, 3}}) == Shape{2, 3});
  CHECK(inferred("MatrixSetDiag", {{2, -1, 3}, {2, 3}}) == Shape{2, -1, 3});
}

TEST_CASE("einsum does what its definition says") {
  const std::map<std::string, std::vector<Shape>> cases{
      {"i->i", {{3}}},
      {"i->", {{3}}},
      {"ij->ji", {{2, 3}}},
      {"ijk->ki", {{2, 3, 4}}},
      {"ii->i", {{3, 3}}},
      {"ii->", {{3, 3}}},
      {"iji->j", {{2, 3, 2}}},
      {"iii->i", {{3, 3, 3}}},
      {"ijij->ij", {{2, 3, 2, 3}}},
      {"i,j->ij", {{2}, {3}}},
      {"i,j->ji", {{2}, {3}}},
      {"i,i->", {{3}, {3}}},
      {"i,i->i", {{3}, {3}}},
      {"ij,jk->ik", {{2, 3}, {3, 4}}},
      {"ij,jk->ki", {{2, 3}, {3, 4}}},
      {"ij,kj->ik", {{2, 3}, {4, 3}}},
      {"ij,j->i", {{2, 3}, {3}}},
      {"ij,j->", {{2, 3}, {3}}},
      {"bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}},
      {"ijb,bkj->ikb", {{3, 4, 2}, {2, 5, 4}}},
      {"abc,bcd->ad", {{2, 3, 4}, {3, 4, 5}}},
      {"abc,cbd->ad", {{2, 3, 4}, {4, 3, 5}}},
      {"abcd,bd->ca", {{2, 3, 4, 5}, {3, 5}}},
      {"bhqd,bhkd->bhqk", {{2, 2, 3, 4}, {2, 2, 5, 4}}},
      {"ij,kl->ijkl", {{2, 3}, {4, 5}}},
      {"ii,ij->j", {{3, 3}, {3, 2}}},
      {"ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 5}}},
      {"bn,anm,bm->ba", {{2, 3}, {4, 3, 5}, {2, 5}}},
      {"i,i,i->i", {{3}, {3}, {3}}},
      {"ij,->ij", {{2, 3}, {}}},
      {"Ab,bC->AC", {{2, 3}, {3, 2}}},
  };
  for (const auto& each : cases) {
    const std::string& equation = each.first;
    INFO(equation);
    std::vector<Tensor> operands;
    for (const Shape& shape : each.second) operands.push_back(counted(shape));
    check_same(einsum(equation, operands), einsum_by_loops(equation, operands));
  }
}

TEST_CASE("einsum without an arrow, with dots and with spaces") {
  const Tensor a = counted({2, 3}), b = counted({3, 4}), c = counted({5, 2, 3}), s = counted({3, 3});
  check_same(einsum("ij,jk", {a, b}), matmul(a, b));
  check_same(einsum("ba", {a}), transpose(a));
  check_same(einsum("ii", {s}), trace(s));
  check_same(einsum(" ij , jk -> ik ", {a, b}), matmul(a, b));
  check_same(einsum("...ij,...jk->...ik", {c, b}), matmul(c, b));
  check_same(einsum("...ij,jk", {c, b}), matmul(c, b));
  check_same(einsum("i...->...i", {c}), transpose(c, {1, 2, 0}));
  check_same(einsum("...,...->...", {c, a}), c * a);
  check_same(einsum("...i,...i->...", {c, a}), reduce_sum(c * a, -1));
  check_same(einsum("i...,...j->...ij", {counted({2, 1, 3}), counted({4, 1, 5})}),
             einsum("iae,bcj->beij", {counted({2, 1, 3}), counted({4, 1, 5})}), 0);
  check_same(einsum("ij,jk->ik", {a.cast(int32), b}), matmul(a, b));
  CHECK(einsum("ij,jk->ik", {a.cast(int32), b.cast(int32)}).dtype() == int32);
}

TEST_CASE("einsum refuses what it cannot mean") {
  const Tensor a = zeros({2, 3}), b = zeros({4, 5});
  const auto message = [&](const std::string& equation, const std::vector<Tensor>& operands) {
    return caught<InvalidArgumentError>([&] { einsum(equation, operands); }).message();
  };
  CHECK(message("ij,jk->ik", {a, b}) ==
        "einsum: the equation \"ij,jk->ik\" gives the letter 'j' to axes of sizes 3 and 4");
  CHECK(message("ij,jk->ik", {a}) == "einsum: the equation \"ij,jk->ik\" has 2 operands, but 1 tensors were given");
  CHECK(message("ijk->i", {a}) ==
        "einsum: the equation \"ijk->i\" gives \"ijk\" to a tensor of shape [2,3], which has 2 dimensions");
  CHECK(message("ij->k", {a}) == "einsum: the equation \"ij->k\" has 'k' behind the arrow, but not before it");
  CHECK(message("ij->ii", {a}) == "einsum: the equation \"ij->ii\" has 'i' twice behind the arrow");
  CHECK(message("i1->i", {a}) ==
        "einsum: the equation \"i1->i\" has '1' where a letter, '...', ',' or '->' is expected");
  CHECK(message("ii->i", {a}) == "einsum: the equation \"ii->i\" gives the letter 'i' to axes of sizes 2 and 3");
  CHECK(message("i...->i", {a}) == "einsum: the equation \"i...->i\" lacks '...' behind the arrow");
  CHECK(message("...,...", {a, b}) ==
        "einsum: the equation \"...,...\" has dimensions of sizes 2 and 4 in '...', which do not broadcast");
  for (const std::string broken : {"ij->i->j", "......->", "ij-i", ".ij", "->", ""}) CHECK_THROWS(einsum(broken, {a}));
  const auto error = caught([&] { einsum("ij,jk->ik", {a, b}); });
  CHECK(place(error) == line_before());
}

TEST_CASE("tensordot sums over pairs of axes") {
  const Tensor a = counted({2, 3, 4}), b = counted({3, 4, 5});
  check_same(tensordot(a, b), einsum("abc,bcd->ad", {a, b}));
  check_same(tensordot(a, b, 2), einsum("abc,bcd->ad", {a, b}));
  check_same(tensordot(a, b, {{1}, {0}}), einsum("abc,bde->acde", {a, b}));
  check_same(tensordot(a, b, {{-1, 1}, {1, 0}}), einsum("abc,bcd->ad", {a, b}));
  check_same(tensordot(counted({2}), counted({3}), 0), outer(counted({2}), counted({3})));
  CHECK_THROWS_AS(tensordot(a, b, 4), InvalidArgumentError);
  CHECK_THROWS_AS(tensordot(a, b, {{0, 1}, {0}}), InvalidArgumentError);
  CHECK_THROWS_AS(tensordot(a, b, {{1, 1}, {0, 1}}), InvalidArgumentError);
  CHECK_THROWS_AS(tensordot(a, b, {{0}, {0}}), InvalidArgumentError);
  CHECK_THROWS_AS(tensordot(a, b, {{7}, {0}}), InvalidArgumentError);
}

TEST_CASE("diagonals and bands of any matrix") {
  const Tensor x = counted({2, 3, 4}, int32);
  check_same(diag_part(x), tensor({{1, 6, 11}, {13, 18, 23}}));
  check_same(diag_part(transpose(x, {0, 2, 1})), diag_part(x));
  check_same(trace(x), tensor({18, 54}));  // not the trace of a function
  check_same(set_diag(zeros({2, 3}, {int32}), tensor({7, 8})), tensor({{7, 0, 0}, {0, 8, 0}}));
  check_same(band_part(x(0), 0, 0), tensor({{1, 0, 0, 0}, {0, 6, 0, 0}, {0, 0, 11, 0}}));
  check_same(band_part(x(0), 1, 0), tensor({{1, 0, 0, 0}, {5, 6, 0, 0}, {0, 10, 11, 0}}));
  check_same(band_part(x(0), 0, -1), tensor({{1, 2, 3, 4}, {0, 6, 7, 8}, {0, 0, 11, 12}}));
  check_same(band_part(x, -1, -1), x);
  CHECK(diag_part(zeros({0, 3})).shape() == Shape{0});
  CHECK(caught([&] {
          set_diag(zeros({2, 3}), zeros({3}));
        }).message() == "The diagonal of [2,3] has shape [2], but the diagonal given has shape [3]");
  CHECK_THROWS_AS(trace(zeros({3})), InvalidArgumentError);
}

TEST_CASE("decompositions say what is wrong with a matrix") {
  CHECK(caught([] { inverse(zeros({2, 3})); }).message() == "Input matrices must be squares, got 2 != 3");
  CHECK(caught([] {
          solve(zeros({2, 3, 3}), zeros({4, 3, 1}));
        }).message() == "Batch dimensions of matrix and rhs do not match: [2,3,3] vs. [4,3,1]");
  CHECK(caught([] {
          solve(eye(3), zeros({2, 1}));
        }).message() == "Input matrix and rhs are incompatible: [3,3] vs. [2,1]");
  CHECK_THROWS_AS(cholesky(zeros({3})), InvalidArgumentError);
  CHECK_THROWS_AS(inverse(zeros({2, 2})), InvalidArgumentError);
  CHECK_THROWS_AS(solve(zeros({2, 2}), zeros({2, 2})), InvalidArgumentError);
  const auto error = caught([] { cholesky(tensor({{1.0, 2.0}, {2.0, 1.0}})); });
  CHECK(place(error) == line_before());
  CHECK(error.op() == "Cholesky");
}

TEST_CASE("decompositions take whole numbers and empty batches") {
  check_same(inverse(tensor({{2, 0}, {0, 4}})), tensor({{0.5, 0.0}, {0.0, 0.25}}));
  check_same(solve(tensor({{2, 0}, {0, 4}}), tensor({2, 4})), tensor({1.0, 1.0}));
  CHECK(inverse(zeros({0, 3, 3})).shape() == Shape{0, 3, 3});
  CHECK(solve(zeros({0, 0}), zeros({0, 2})).shape() == Shape{0, 2});
  const Svd parts = svd(tensor<double>({{3, 0, 0}, {0, 0, 4}}));
  check_same(parts.s, tensor<double>({4, 3}), 1e-12);
  CHECK(parts.u.shape() == Shape{2, 2});
  CHECK(parts.v.shape() == Shape{3, 2});
}

TEST_CASE("determinants of matrices that are singular, empty or large") {
  const Tensor singular = tensor<double>({{1, 2}, {2, 4}});
  check_same(det(singular), tensor<double>(0));
  const LogDeterminant of_singular = slogdet(singular);
  check_same(of_singular.sign, tensor<double>(0));
  check_same(of_singular.log_determinant, tensor<double>(-infinity));
  check_same(det(zeros({2, 0, 0})), ones({2}));
  check_same(slogdet(zeros({2, 0, 0})).sign, ones({2}));
  check_same(slogdet(zeros({2, 0, 0})).log_determinant, zeros({2}));
  CHECK(det(zeros({0, 3, 3})).shape() == Shape{0});
  check_same(det(tensor({{2, 1}, {0, 3}})), tensor(6.0));
  check_same(slogdet(-1000.0 * eye(201)).sign, tensor(-1.0));
  check_same(slogdet(-1000.0 * eye(201)).log_determinant, tensor(201 * std::log(1000.0)), 1e-6);
  GradientTape tape;
  tape.watch(singular);
  const Tensor y = det(singular);
  CHECK(message_of<InvalidArgumentError>([&] { tape.gradient(y, singular); }) == "Input matrix is not invertible.");
}

TEST_CASE("orthonormal factors and eigenvectors of odd matrices") {
  for (const auto& shape : {Shape{0, 3}, Shape{3, 0}, Shape{2, 0, 0}, Shape{0, 2, 3}}) {
    const Qr parts = qr(zeros(shape));
    check_same(matmul(parts.q, parts.r), zeros(shape));
  }
  CHECK(eigh(zeros({2, 0, 0})).e.shape() == Shape{2, 0});
  CHECK(eigh(zeros({0, 3, 3})).v.shape() == Shape{0, 3, 3});
  // Only the lower triangle is read.
  check_same(eigh(tensor<double>({{3, 99}, {0, -4}})).e, tensor<double>({-4, 3}));
  check_same(abs(eigh(tensor<double>({{3, 99}, {0, -4}})).v), tensor<double>({{0, 1}, {1, 0}}));
  const Tensor equal_values = eye(3, {.dtype = float64});
  check_same(grad([](const Tensor& x) { return reduce_sum(square(eigh(x).e)); })(equal_values), 2.0 * equal_values);
}

TEST_CASE("the gradient of qr of unknown sizes") {
  const auto f = grad([](const Tensor& x) {
    const Qr parts = qr(x);
    return reduce_sum(square(parts.r) + 1.0) + reduce_sum(exp(parts.q));
  });
  const auto traced = trace(f, {spec(float64, {-1, -1})});
  for (const auto& shape : {Shape{4, 3}, Shape{3, 3}, Shape{2, 5}}) {
    const Tensor x = random::normal(shape, {.dtype = float64});
    CHECK(same_bits(traced(x), f(x)));
  }
}

TEST_CASE("norms of vectors and matrices") {
  const Tensor x = tensor<double>({{3, -4}, {0, 12}});
  check_same(norm(x), tensor<double>(13), 1e-15);
  check_same(norm(x, {.ord = 1}), tensor<double>(19));
  check_same(norm(x, {.ord = "inf"}), tensor<double>(12));
  check_same(norm(x, {.ord = 3}), tensor<double>(std::cbrt(27.0 + 64 + 1728)), 1e-15);
  check_same(norm(x, {.axis = 1}), tensor<double>({5, 12}), 1e-15);
  check_same(norm(x, {.axis = -1, .keep_dims = true}), tensor<double>({{5}, {12}}), 1e-15);
  check_same(norm(x, {.ord = "fro", .axis = {0, 1}}), tensor<double>(13), 1e-15);
  check_same(norm(x, {.ord = 1, .axis = {0, 1}}), tensor<double>(16));
  check_same(norm(x, {.ord = infinity, .axis = {0, 1}}), tensor<double>(12));
  check_same(norm(x, {.ord = 2, .axis = {0, 1}}), svd(x).s(0), 1e-15);
  CHECK(norm(zeros({2, 3, 4}), {.ord = 2, .axis = {2, 0}, .keep_dims = true}).shape() == Shape{1, 3, 1});
  CHECK(norm(zeros({2, 3, 4}), {.ord = 1, .axis = {2, 0}}).shape() == Shape{3});
  check_same(norm(tensor({3, 4})), tensor(5.0));
  CHECK_THROWS_AS(norm(x, {.ord = 0.5}), InvalidArgumentError);
  CHECK_THROWS_AS(norm(x, {.ord = "nuclear"}), InvalidArgumentError);
  CHECK_THROWS_AS(norm(x, {.ord = 3, .axis = {0, 1}}), InvalidArgumentError);
  CHECK_THROWS_AS(norm(x, {.axis = {0, 1, 2}}), InvalidArgumentError);
  CHECK_THROWS_AS(norm(x, {.axis = {0, -2}}), InvalidArgumentError);
}

TEST_CASE("pinv has derivatives where singular values are alike, or 0") {
  // The inverse of [[c, -s], [s, c]] is [[c, s], [-s, c]] / (c^2 + s^2).
  const auto inverse_of = [](const Tensor& x) {
    const Tensor c = x(0), s = x(1), n = square(c) + square(s);
    return stack({c / n, s / n, -s / n, c / n});
  };
  const auto pinv_of = [](const Tensor& x) {
    const Tensor c = x(0), s = x(1);
    return reshape(pinv(stack({stack({c, -s}), stack({s, c})})), {4});
  };
  const auto twice = [](const auto& f, const Tensor& x) {
    return jacobian([f](const Tensor& t) { return jacobian(f)(t); })(x);
  };
  const Tensor x = tensor<double>({0.8, -0.6});
  check_same(pinv_of(x), inverse_of(x), 1e-12);
  check_same(jacobian(pinv_of)(x), jacobian(inverse_of)(x), 1e-12);
  check_same(twice(pinv_of, x), twice(inverse_of, x), 1e-11);
  // Of rank 1: a b^T, whose inverse is b a^T / (a^2 b^2).
  const Tensor a = tensor<double>({1, 2, -1}), b = tensor<double>({3, 1});
  const auto of_one = [&](const Tensor& t) { return pinv(outer(t, b)); };
  const auto expected = [&](const Tensor& t) { return outer(b, t) / (reduce_sum(square(t)) * reduce_sum(square(b))); };
  check_same(of_one(a), expected(a), 1e-12);
  check_same(jacobian(of_one)(a), jacobian(expected)(a), 1e-12);
  check_same(pinv(zeros({2, 3}, float64)), zeros({3, 2}, float64));
  CHECK(matrix_rank(outer(a, b)).item<int>() == 1);
  CHECK(matrix_rank(tensor({{1.0, 0.0}, {0.0, 0.01}}), {.rtol = 0.1}).item<int>() == 1);
  CHECK(message_of<InvalidArgumentError>([&] { pinv(a, {.rtol = -1}); }) ==
        "rtol must not be negative, but is -1.000000");
}

TEST_CASE("the gradient of a norm at 0 is 0") {
  const Tensor x = zeros({2, 2}, {float64});
  for (const NormOrder& ord : {NormOrder(1), NormOrder(2), NormOrder(3), NormOrder("inf")}) {
    GradientTape tape;
    tape.watch(x);
    check_values(tape.gradient(norm(x, {.ord = ord, .axis = 1}), x), {0, 0, 0, 0});
  }
}

}  // namespace tapestry::test::ops_linalg_test
