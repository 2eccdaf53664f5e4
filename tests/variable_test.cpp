// Variables: named mutable cells of immutable values.

#include "tapestry/variable.hpp"

#include <atomic>
#include <thread>

#include "autodiff/variable_cell.hpp"
#include "expect.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/tape.hpp"
#include "toy_backend.hpp"

namespace variable_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

TEST_CASE("a Variable is made of a number, a list or a tensor") {
  const Variable zero(0), one(1.5), matrix({{1, 0}, {0, -1}}), vector({1, 1});
  CHECK(to_string(zero.dtype()) == "int32");
  CHECK(to_string(one.dtype()) == "float32");
  CHECK(to_string(matrix.shape()) == "[2,2]");
  CHECK(to_string(vector.shape()) == "[2]");
  CHECK(matrix.name() == "Variable");
  CHECK(matrix.trainable());
  CHECK(matrix.device() == cpu());
  const Variable w(ones({3}), {.name = "w", .trainable = false, .dtype = float64});
  CHECK(w.name() == "w");
  CHECK_FALSE(w.trainable());
  CHECK(to_string(w.dtype()) == "float64");
  check_values(w, {1, 1, 1});
  CHECK_THROWS_AS(Variable({{1, 2}, {3}}), InvalidArgumentError);
}

TEST_CASE("copies are handles on one cell") {
  const Variable w(1.0);
  const std::vector<Variable> copies{w};
  copies[0].assign(2.0);
  CHECK(w.value().item<float>() == 2);
  CHECK(w.is(copies[0]));
  CHECK_FALSE(w.is(Variable(2.0)));
}

TEST_CASE("assignments return the new value and keep the dtype") {
  Variable w({1.0, 2.0}, {.dtype = float64});
  check_values(w.assign(tensor({3, 4})), {3, 4});
  check_values(w.assign_add(tensor({0.5, 0.25})), {3.5, 4.25});
  check_values(w.assign_sub(tensor({1, 1})), {2.5, 3.25});
  CHECK(to_string(w.value().dtype()) == "float64");
  check_values(w, {2.5, 3.25});
  Variable step(0, {.dtype = int64});
  step.assign_add(1);
  CHECK(step.assign_add(1).item<std::int64_t>() == 2);
  CHECK(to_string(step.value().dtype()) == "int64");
}

TEST_CASE("a Variable on another device takes numbers and values from anywhere") {
  Variable v(tensor({1.0, 2.0}).to(toy_device())), step(tensor(std::int64_t{0}).to(toy_device()));
  v.assign_add({1.0, 1.0});
  v.assign_sub(tensor({0.5, 0.25}).to(toy_device()));
  step.assign_add(1);
  step.assign_add(2);
  CHECK(v.value().device() == toy_device());
  CHECK(step.value().device() == toy_device());
  check_values(v, {1.5, 2.75});
  check_values(step, {3});
}

TEST_CASE("a value that was read never changes") {
  Variable w({1.0, 2.0});
  const Tensor before = w, view = before(range(0, 1));
  w.assign_add(tensor({1.0, 1.0}));
  const Tensor between = w;
  w.assign_sub(tensor({5.0, 5.0}));
  check_values(before, {1, 2});
  check_values(view, {1});
  check_values(between, {2, 3});
  check_values(w, {-3, -2});
}

TEST_CASE("neither the tensor it was made of, nor one that was assigned, is changed in place") {
  const Tensor initial = tensor({1.0, 2.0}), next = tensor({3.0, 4.0});
  Variable w(initial);
  const auto add_one = [](const Tensor& value) {
    auto* data = static_cast<float*>(value.impl().data);
    for (std::int64_t i = 0; i < value.size(); ++i) data[i] += 1;
  };
  w.cell()->modify(add_one);
  check_values(w, {2, 3});
  check_values(initial, {1, 2});
  w.assign(next);
  w.cell()->modify(add_one);
  check_values(w, {4, 5});
  check_values(next, {3, 4});
}

TEST_CASE("the elements of a Variable are contiguous, whatever it was made of or assigned") {
  const Tensor view = transpose(tensor({{0, 1, 2}, {3, 4, 5}}));
  Variable w(view);
  CHECK(w.value().is_contiguous());
  w.assign(flip(view, {0}));
  CHECK(w.value().is_contiguous());
  check_values(w.value(), {2, 5, 1, 4, 0, 3});
}

TEST_CASE("in place where nobody holds the value, on a copy where somebody does") {
  Variable w({1.0, 2.0});
  const auto touch = [](const Tensor& value) { static_cast<float*>(value.impl().data)[0] += 1; };
  const void* memory = w.value().impl().data;
  w.cell()->modify(touch);
  CHECK(w.value().impl().data == memory);
  const Tensor held = w;
  w.cell()->modify(touch);
  CHECK(w.value().impl().data != memory);
  check_values(held, {2, 2});
  check_values(w, {3, 2});
}

TEST_CASE("a change that fails leaves the value") {
  Variable w({1.0, 2.0});
  const Tensor before = w;
  CHECK_THROWS_AS(w.cell()->modify([](const Tensor&) { throw InternalError("no"); }), InternalError);
  CHECK(w.value().is(before));
}

TEST_CASE("a Variable in braces holds the tensor that stands in them") {
  const Variable matrix{zeros({2, 3})}, named{zeros({3}), {.name = "b"}}, list{1.0, 2.0}, row({{1.0, 2.0}});
  CHECK(matrix.shape() == Shape{2, 3});
  CHECK(named.shape() == Shape{3});
  CHECK(list.shape() == Shape{2});
  CHECK(row.shape() == Shape{1, 2});
}

TEST_CASE("a value of another shape or kind is refused, and nothing changes") {
  Variable w({1.0, 2.0}, {.name = "w"}), count({1, 2}, {.name = "count"});
  const Tensor wide = zeros({3});
  auto error = caught<InvalidArgumentError>([&] { w.assign(wide); });
  CHECK(place(error) == line_before());
  CHECK(error.message() == "assign: variable 'w' is float32[2], the value is float32[3]; the shapes must be equal");
  error = caught<InvalidArgumentError>([&] { w.assign_add(1.0); });
  CHECK(error.message() == "assign_add: variable 'w' is float32[2], the value is a number; the shapes must be equal");
  error = caught<InvalidArgumentError>([&] { count.assign(tensor({1.0, 2.0})); });
  CHECK(error.message() ==
        "assign: variable 'count' is int32[2], the value is float32[2]; a float does not turn into a whole number");
  CHECK_THROWS_AS(count.assign_sub(tensor({0.5, 0.5})), InvalidArgumentError);
  CHECK_THROWS_AS(w.assign(Tensor()), FailedPreconditionError);
  check_values(w, {1, 2});
  check_values(count, {1, 2});
}

TEST_CASE("assigning its own value, or a view of it") {
  Variable w({{1.0, 2.0}, {3.0, 4.0}});
  w.assign(w);
  check_values(w, {1, 2, 3, 4});
  w.assign(transpose(w));
  check_values(w, {1, 3, 2, 4});
  w.assign_add(transpose(w));
  check_values(w, {2, 5, 5, 8});
  w.assign(broadcast_to(1.0, {2, 2}));
  w.cell()->modify([](const Tensor& value) { static_cast<float*>(value.impl().data)[0] = 9; });
  check_values(w, {9, 1, 1, 1});
}

TEST_CASE("an assignment has no gradient, and what was assigned is no history of the Variable") {
  const Tensor x = tensor(3.0);
  Variable w(0.0);
  GradientTape tape;
  tape.watch(x);
  w.assign(x * x);
  const Tensor y = w * 2.0 + w.assign_add(1.0) * 0.0;
  const auto [dx, dw] = tape.gradient(y, x, w);
  CHECK_FALSE(dx);
  CHECK(dw.item<float>() == 2);
}

TEST_CASE("a Variable stands wherever a tensor does") {
  const Variable w({1.0, 4.0});
  check_values(w + 1.0, {2, 5});
  check_values(sqrt(w), {1, 2});
  check_values(2.0 * w - w, {1, 4});
  const Tensor read = w;
  CHECK(read.size() == 2);
}

TEST_CASE("readers on other threads see whole values only") {
  Variable w(zeros({1000}));
  std::atomic<bool> done{false};
  std::atomic<int> torn{0};
  std::thread reader([&] {
    while (!done) {
      const std::vector<double> seen = values(w);
      for (const double each : seen) torn += each != seen[0];
    }
  });
  for (int i = 0; i < 2000; ++i)
    w.cell()->modify([](const Tensor& value) {
      auto* data = static_cast<float*>(value.impl().data);
      for (std::int64_t k = 0; k < value.size(); ++k) data[k] += 1;
    });
  done = true;
  reader.join();
  CHECK(torn == 0);
  CHECK(values(w)[0] == 2000);
}

}  // namespace

}  // namespace variable_test
