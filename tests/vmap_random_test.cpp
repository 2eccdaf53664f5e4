// Random numbers in vmap: each example draws its own, and what the examples share draws once.

#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "same_bits.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::vmap_random_test {

TEST_CASE("each example draws its own numbers") {
  random::seed(7);
  const Tensor x = zeros({200, 4});
  const auto noisy = [](const Tensor& row) { return row + random::normal({4}); };
  const Tensor y = vmap(noisy)(x);
  CHECK(to_string(y.shape()) == "[200,4]");
  CHECK(reduce_max(abs(y(0) - y(1))).item<float>() > 0);
  CHECK(std::abs(reduce_mean(y).item<float>()) < 0.15F);
  CHECK(std::abs(reduce_mean(square(y)).item<float>() - 1) < 0.2F);
  const Tensor shuffled =
      vmap([](const Tensor& row) { return random::shuffle(row); })(broadcast_to(arange(6), {20, 6}));
  check_values(reduce_sum(shuffled, 1), std::vector<double>(20, 15));
  CHECK(reduce_max(abs(shuffled - shuffled(0))).item<std::int64_t>() > 0);
  const Tensor dropped = vmap([](const Tensor& row) { return dropout(row, 0.5); })(ones({50, 8}));
  CHECK(reduce_max(abs(dropped - dropped(0))).item<float>() > 0);
  const auto traced = trace([&](const Tensor& rows) { return vmap(noisy)(rows); }, {spec(float32, {-1, 4})});
  CHECK(reduce_max(abs(traced(x)(0) - traced(x)(1))).item<float>() > 0);
}

TEST_CASE("in a trace that does not know the sizes, each example draws what it draws eagerly") {
  const auto noisy = [](const Tensor& rows) {
    return vmap([](const Tensor& row) {
      const Tensor first = random::normal({2});
      return first + tapestry::map([](const Tensor& x) { return x + random::normal({2}); }, row);
    })(rows);
  };
  const Tensor rows = ones({3, 4});
  random::seed(7);
  const Tensor expected = noisy(rows);
  for (const Shape& shape : {Shape{3, 4}, Shape{-1, 4}, Shape{3, -1}, Shape{-1, -1}}) {
    CAPTURE(shape);
    const auto traced = trace(noisy, {spec(float32, shape)});
    random::seed(7);
    CHECK(same_bits(traced(rows), expected));
  }
}

TEST_CASE("numbers that an example draws and does not use are drawn, eagerly and in traces") {
  using Function = Tensor (*)(const Tensor& row);
  const std::vector<std::pair<const char*, Function>> list{
      {"numbers",
       [](const Tensor& row) {
         random::normal({4});
         return row * 2.0;
       }},
      {"numbers before and after those that are used",
       [](const Tensor& row) {
         random::permutation(4);
         Tensor y = row + random::uniform({2});
         random::shuffle(y);
         return y;
       }},
      {"a shuffle, of whose result only the size is used",
       [](const Tensor& row) {
         return zeros({random::shuffle(row).shape()[0], 2});
       }},
      {"in a branch",
       [](const Tensor& row) {
         cond(
             reduce_sum(row) > 0.0, [&] { return random::normal({2}); }, [&] { return row; });
         return row * 2.0;
       }},
      {"in a map",
       [](const Tensor& row) {
         tapestry::map([](const Tensor& x) { return x + random::uniform({}); }, row);
         return row * 2.0;
       }},
      {"in a vmap",
       [](const Tensor& row) {
         return vmap([](const Tensor& x) {
           random::normal({3});
           return x * 2.0;
         })(row);
       }},
      {"beside a result that is not computed at once",
       [](const Tensor& row) {
         random::normal({3});
         return reduce_sum(unique(row).values) * row;
       }},
  };
  const Tensor rows = ones({3, 2});
  random::seed(7);
  const Tensor untouched = random::uniform({4});
  for (const auto& each : list) {
    CAPTURE(std::string(each.first));
    const auto of_rows = [&](const Tensor& x) { return vmap(each.second)(x); };
    random::seed(7);
    const Tensor expected = of_rows(rows), next = random::uniform({4});
    CHECK(!same_bits(next, untouched));
    for (const Shape& shape : {Shape{3, 2}, Shape{-1, 2}, Shape{3, -1}, Shape{-1, -1}}) {
      CAPTURE(shape);
      const auto traced = trace(of_rows, {spec(float32, shape)});
      random::seed(7);
      CHECK(same_bits(traced(rows), expected));
      CHECK(same_bits(random::uniform({4}), next));
    }
  }
}

TEST_CASE("branches and loops that all examples share draw the same numbers in traces") {
  struct Shared {
    std::string name;
    std::function<Tensor(const Tensor& shared, const Tensor& row)> f;  ///< of [3]
  };
  const auto draw = [] { return random::normal({3}) * random::uniform({3}); };
  const std::vector<Shared> list{
      {"cond",
       [=](const Tensor& shared, const Tensor& row) {
         return row + cond(shared(0) > 0.0, draw, [&] { return shared * 2.0; }) + random::normal({3});
       }},
      {"switch_case",
       [=](const Tensor& shared, const Tensor& row) {
         return row + switch_case((shared(0) > 0.0).cast(int32), {[&] { return shared; }, draw});
       }},
      {"a loop that counts",
       [=](const Tensor& shared, const Tensor& row) {
         const auto body = [=](const Tensor& i, const Tensor& y) { return std::tuple{i + 1, y * 0.5 + draw()}; };
         const auto more = [](const Tensor& i, const Tensor&) { return i < 3; };
         return row + std::get<1>(while_loop(more, body, std::tuple{std::int64_t{0}, shared}));
       }},
      {"a loop that ends by values of the examples",
       [=](const Tensor& shared, const Tensor& row) {
         const auto body = [=](const Tensor& y) { return y + square(row) + square(draw()); };
         return while_loop([](const Tensor& y) { return reduce_sum(y) < 9.0; }, body, shared);
       }},
      {"a loop whose condition draws",
       [](const Tensor& shared, const Tensor& row) {
         const auto body = [=](const Tensor& y) { return y + 1.0; };
         const auto more = [](const Tensor& y) { return random::uniform({}) * reduce_sum(y) < 6.0; };
         return row + while_loop(more, body, shared);
       }},
      {"scan",
       [=](const Tensor& shared, const Tensor& row) {
         const auto body = [=](const Tensor& sum, const Tensor& each) {
           return std::pair{sum * 0.5 + reduce_sum(draw()), each + random::uniform({})};
         };
         const auto [last, all] = scan(body, reduce_sum(shared), shared, {.reverse = true});
         return row + last + all * random::normal({3});
       }},
      {"map, in vmap",
       [=](const Tensor& shared, const Tensor& row) {
         const auto noisy = [=](const Tensor& each) {
           return each + reduce_sum(map([=](const Tensor& x) { return x + draw(); }, shared));
         };
         return vmap(noisy)(row) + vmap(noisy)(shared);
       }},
  };
  const Tensor shared = tensor({0.5F, 1.0F, -0.25F}), rows = numbers({4, 3}, -1, 1, 5).cast(float32);
  for (const Shared& each : list) {
    CAPTURE(each.name);
    const auto f = [&](const Tensor& s, const Tensor& x) {
      return vmap([&](const Tensor& row) { return each.f(s, row); })(x);
    };
    random::seed(3);
    const Tensor expected = f(shared, rows);
    CHECK(reduce_max(abs(expected(0) - rows(0) - expected(1) + rows(1))).item<float>() > 0);
    for (const Shape& shape : {Shape{4, 3}, Shape{-1, 3}}) {
      const auto traced = trace(f, {spec(float32, {3}), spec(float32, shape)});
      const auto of_rows = trace([&](const Tensor& x) { return f(shared, x); }, {spec(float32, shape)});
      const auto of_shared = trace([&](const Tensor& s) { return f(s, rows); }, {spec(float32, {3})});
      random::seed(3);
      check_same(traced(shared, rows), expected);
      random::seed(3);
      check_same(of_rows(rows), expected);
      random::seed(3);
      check_same(of_shared(shared), expected);
    }
  }
}

}  // namespace tapestry::test::vmap_random_test
