// GradientTape: what is recorded, what is kept, what comes back, what is refused.

#include "tapestry/tape.hpp"

#include <atomic>
#include <thread>

#include "expect.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/session.hpp"

namespace tape_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor f64(const Init& value) { return tensor<double>(value); }

const Op& op_without_gradient() {
  static const Op& op = register_op({
      .name = "TapeTestOpaque",
      .infer = same_shape,
      .cpu = [](const Call& call) { *call.output_data<float>() = *call.input(0).data<float>(); },
      .gradient = not_differentiable_yet,
  });
  return op;
}

const Op& op_of_wrong_gradients() {
  static const Op& op = register_op({
      .name = "TapeTestWrong",
      .infer = same_shape,
      .cpu = [](const Call& call) { *call.output_data<float>() = *call.input(0).data<float>(); },
      .gradient = [](const Call&, const Tensor& g) -> Tensors {
        return {stack({g, g})};
      },
  });
  return op;
}

/// x y, with a composition and no gradient. It asks the tape to keep nothing, which does not concern a composition.
const Op& op_with_composition() {
  static const Op& op = register_op({
      .name = "TapeTestComposed",
      .infer = same_shape,
      .cpu =
          [](const Call& call) {
            for (std::int64_t i = 0; i < call.output().size(); ++i)
              call.output_data<double>()[i] = call.input(0).data<double>()[i] * call.input(1).data<double>()[i];
          },
      .composition = [](const Call& call) -> Tensors { return {call.input(0) * call.input(1)}; },
      .needs = needs_nothing,
  });
  return op;
}

TEST_SUITE("compositions") {
  TEST_CASE("an op without a gradient has that of its composition") {
    const Tensor x = linspace(1.0, 2.0, 100).cast(float64), y = x + 1.0;
    const auto product = [](const Tensor& a, const Tensor& b) { return apply(op_with_composition(), {a, b}); };
    GradientTape tape;
    tape.watch({x, y});
    const auto [of_x, of_y] = tape.gradient(product(x, y), x, y);
    CHECK(same_bits(of_x, y));
    CHECK(same_bits(of_y, x));
  }

  TEST_CASE("of any order, for a tensor that is given twice, and in a graph") {
    const Tensor x = f64({1.0, -2.0, 3.0});
    const auto square_of = [](const Tensor& a) { return apply(op_with_composition(), {a, a}); };
    GradientTape outer;
    outer.watch(x);
    Tensor slope;
    {
      GradientTape inner;
      inner.watch(x);
      slope = inner.gradient(square_of(x), x);
    }
    CHECK(same_bits(slope, 2.0 * x));
    CHECK(same_bits(outer.gradient(slope, x), f64({2.0, 2.0, 2.0})));

    const Graph graph;
    const auto scope = graph.as_default();
    const Tensor fed = placeholder(float64, {3}), built = gradients(square_of(fed), fed)[0];
    CHECK(same_bits(Session(graph).run(built, {{fed, x}}), 2.0 * x));
  }
}

TEST_SUITE("sources") {
  TEST_CASE("a watched tensor has a gradient, another has none") {
    const Tensor x = f64({1, 2, 3}), other = f64({4, 5, 6});
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensor y = reduce_sum(x * x * other);
    check_values(tape.gradient(y, x), {8, 20, 36});
    CHECK_FALSE(tape.gradient(y, other));
    check_values(tape.gradient(y, other, {.unconnected = Unconnected::zero}), {0, 0, 0});
  }

  TEST_CASE("the structure of the sources is kept") {
    const Tensor a = f64(2.0), b = f64(3.0);
    GradientTape tape({.persistent = true});
    tape.watch({a, b});
    const Tensor e = a * b;
    const auto [da, db] = tape.gradient(e, a, b);
    const auto [again, zero] = tape.gradient(e, a, f64(1.0), {.unconnected = Unconnected::zero});
    CHECK(again.item<double>() == 3);
    CHECK(zero.item<double>() == 0);
    CHECK(tape.gradient(e, a, b, f64(1.0), {.unconnected = Unconnected::zero})[2].item<double>() == 0);
    CHECK(da.item<double>() == 3);
    CHECK(db.item<double>() == 2);
    const std::vector<Tensor> list = tape.gradient(e, std::vector<Tensor>{b, a, b});
    REQUIRE(list.size() == 3);
    CHECK(list[0].item<double>() == 2);
    CHECK(list[1].item<double>() == 3);
    CHECK(list[2].item<double>() == 2);
    const Variable v(1.0);
    const std::vector<Tensor> mixed = tape.gradient(e, {a, v});
    CHECK(mixed[0].item<double>() == 3);
    CHECK_FALSE(mixed[1]);
    CHECK(tape.gradient(e, std::vector<Variable>{}).empty());
  }

  TEST_CASE("a target is its own source") {
    const Tensor x = f64({1, 2});
    GradientTape tape;
    tape.watch(x);
    check_values(tape.gradient(x, x), {1, 1});
  }

  TEST_CASE("an intermediate result is a source as well") {
    const Tensor x = f64(3.0);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x, z = y * y;
    const auto [dx, dy] = tape.gradient(z, x, y);
    CHECK(dx.item<double>() == 108);
    CHECK(dy.item<double>() == 18);
  }

  TEST_CASE("several targets are summed") {
    const Tensor x = f64(3.0);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x, z = 5.0 * x;
    CHECK(tape.gradient({y, z}, x).item<double>() == 11);
  }

  TEST_CASE("trainable Variables are watched when they are read, in that order") {
    const Variable w(2.0f, {.name = "w"}), frozen(3.0f, {.name = "frozen", .trainable = false}), b(4.0f, {.name = "b"});
    const Variable count(7, {.name = "count"}), unread(1.0f);
    GradientTape tape;
    const Tensor y = b * w * frozen + count * b;
    REQUIRE(tape.watched_variables().size() == 2);
    CHECK(tape.watched_variables()[0].is(b));
    CHECK(tape.watched_variables()[1].is(w));
    const auto [dw, db, df, du] = tape.gradient(y, w, b, frozen, unread);
    CHECK(dw.item<float>() == 12);
    CHECK(db.item<float>() == 13);
    CHECK_FALSE(df);
    CHECK_FALSE(du);
  }

  TEST_CASE("a Variable that is watched by hand needs not be trainable, nor watched on reading") {
    const Variable w(2.0f), frozen(3.0f, {.trainable = false});
    GradientTape tape({.watch_accessed_variables = false});
    tape.watch(frozen);
    const Tensor y = w * frozen;
    const auto [dw, df] = tape.gradient(y, w, frozen);
    CHECK_FALSE(dw);
    CHECK(df.item<float>() == 2);
  }

  TEST_CASE("a Variable's gradient is the sum over all its values that the tape saw") {
    Variable w(2.0f);
    GradientTape tape;
    const Tensor before = w * 10.0;
    w.assign(5.0f);
    const Tensor after = w * w;
    CHECK(tape.gradient(before + after, w).item<float>() == 20);
  }

  TEST_CASE("a value of a Variable is a source of its own, beside the Variable or without it") {
    const Variable w(3.0, {.dtype = float64});
    const auto found = [&](const std::function<std::vector<Source>(const Tensor& before)>& sources) {
      w.assign(3.0);
      GradientTape tape;
      const Tensor before = w.value();
      const Tensor left = before * before;
      w.assign(5.0);
      return values(stack(tape.gradient(left * w + before, sources(before))));
    };
    CHECK(found([](const Tensor& before) { return std::vector<Source>{before}; }) == std::vector<double>{31});
    CHECK(found([&](const Tensor&) { return std::vector<Source>{w}; }) == std::vector<double>{40});
    CHECK(found([&](const Tensor& before) {
            return std::vector<Source>{before, w, before, w};
          }) == std::vector<double>{31, 40, 31, 40});
  }

  TEST_CASE("only floats can be watched") {
    const Tensor whole = tensor({1, 2});
    const Variable count(3, {.name = "count"});
    GradientTape tape;
    const auto error = caught<InvalidArgumentError>([&] { tape.watch(whole); });
    CHECK(error.message() == "The dtype of the watched tensor must be floating (e.g. tf.float32), got int32");
    CHECK(to_string(error.where()).starts_with("tape_test.cpp:"));
    CHECK_THROWS_AS(tape.watch(count), InvalidArgumentError);
    CHECK(tape.watched_variables().empty());
  }

  TEST_CASE("whole numbers stop the flow") {
    const Tensor x = f64({1.5, 2.5});
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensor whole = cast(x, int32);
    CHECK_FALSE(tape.gradient(reduce_sum(cast(whole, float64)), x));
    CHECK_FALSE(tape.gradient(whole, x));
    CHECK_FALSE(tape.gradient(argmax(x), x));
    check_values(tape.gradient(cast(x, float32), x), {1, 1});
  }

  TEST_CASE("tensors without elements have gradients without elements") {
    const Tensor x = zeros({0, 3});
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensor y = x * x;
    CHECK(to_string(tape.gradient(y, x).shape()) == "[0,3]");
    CHECK(to_string(tape.gradient(reduce_sum(y), x).shape()) == "[0,3]");
  }
}

TEST_SUITE("recording") {
  TEST_CASE("only what depends on something watched is recorded, and only while the tape lives") {
    const Tensor x = f64(2.0), c = f64(3.0);
    const Tensor early = x * x;
    GradientTape tape;
    tape.watch(x);
    CHECK(tape.size() == 0);
    const Tensor unrelated = c * c;
    CHECK(tape.size() == 0);
    const Tensor y = x * c + early;
    CHECK(tape.size() == 2);
    CHECK(tape.gradient(y, x).item<double>() == 3);
    const Tensor late = x * x;
    CHECK(tape.size() == 0);
  }

  TEST_CASE("stop_recording") {
    const Tensor x = f64(2.0);
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensor y = x * x;
    Tensor hidden;
    {
      const auto pause = tape.stop_recording();
      hidden = y * x;
      const auto error = caught<FailedPreconditionError>([&] { const auto again = tape.stop_recording(); });
      CHECK(place(error) == line_before());
      CHECK(error.message() == "Trying to stop recording a tape which is not recording.");
    }
    CHECK(tape.size() == 1);
    const Tensor z = y * hidden;
    CHECK(tape.gradient(z, x).item<double>() == 4 * 8);
    CHECK_FALSE(tape.gradient(hidden, x));
  }

  TEST_CASE("a tape that gives its gradient in a pause stays stopped") {
    const Tensor x = f64(2.0);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x;
    {
      const auto pause = tape.stop_recording();
      CHECK(tape.gradient(y, x).item<double>() == 4);
    }
    const Tensor z = x * x;
    CHECK(tape.size() == 0);
    CHECK_THROWS_AS((void)tape.stop_recording(), FailedPreconditionError);
  }

  TEST_CASE("reset forgets what was recorded and watched") {
    const Tensor x = f64(2.0);
    const Variable w(1.0f);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x * w;
    tape.reset();
    CHECK(tape.size() == 0);
    CHECK(tape.bytes() == 0);
    CHECK(tape.watched_variables().empty());
    tape.watch(x);
    const Tensor z = x * x * x;
    const auto [dx, dw] = tape.gradient(y + z, x, w);
    CHECK(dx.item<double>() == 12);
    CHECK_FALSE(dw);
    tape.reset();
    tape.watch(x);
    CHECK(tape.gradient(x * x, x).item<double>() == 4);
  }

  TEST_CASE("tapes may end in any order") {
    const Tensor x = f64(3.0);
    auto first = std::make_unique<GradientTape>(), second = std::make_unique<GradientTape>();
    first->watch(x);
    second->watch(x);
    const Tensor y = x * x;
    first.reset();
    const Tensor z = y * x;
    CHECK(second->gradient(z, x).item<double>() == 27);
  }

  TEST_CASE("tapes on two threads do not see each other") {
    const Tensor x = f64(2.0);
    const Variable shared(3.0, {.dtype = float64});
    std::atomic<int> arrived{0};
    std::array<double, 2> gradients{};
    std::array<std::size_t, 2> sizes{};
    const auto work = [&](std::size_t me, int ops) {
      GradientTape tape;
      tape.watch(x);
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      Tensor y = x * shared;
      for (int i = 1; i < ops; ++i) y = y * x;
      sizes[me] = tape.size();
      gradients[me] = tape.gradient(y, shared).item<double>();
    };
    std::thread other(work, 0, 5);
    work(1, 9);
    other.join();
    CHECK(sizes == std::array<std::size_t, 2>{5, 9});
    CHECK(gradients == std::array<double, 2>{32, 512});
  }

  TEST_CASE("an op that fails leaves the tape as it was") {
    const Tensor x = f64({1, 2});
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x;
    CHECK_THROWS_AS(y + f64({1, 2, 3}), InvalidArgumentError);
    CHECK(tape.size() == 1);
    check_values(tape.gradient(y, x), {2, 4});
  }
}

TEST_SUITE("gradient") {
  TEST_CASE("a tape that is not persistent gives one gradient") {
    const Tensor x = f64(2.0);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x;
    CHECK(tape.gradient(y, x).item<double>() == 4);
    const auto error = caught<FailedPreconditionError>([&] { tape.gradient(y, x); });
    CHECK(place(error) == line_before());
    CHECK(error.message() ==
          "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)");
    CHECK_THROWS_AS(tape.jacobian(y, x), FailedPreconditionError);
    CHECK_THROWS_AS(tape.batch_jacobian(f64({1, 2}), f64({1, 2})), FailedPreconditionError);
  }

  TEST_CASE("output gradients") {
    const Tensor x = f64({1, 2, 3});
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensor y = x * x, z = 2.0 * x;
    check_values(tape.gradient(y, x, {.output_gradients = f64({1, 10, 100})}), {2, 40, 600});
    check_values(tape.gradient({y, z}, x, {.output_gradients = {f64({1, 10, 100}), f64({1, 1, 1})}}), {4, 42, 602});
    check_values(tape.gradient({y, z}, x, {.output_gradients = {f64({1, 10, 100}), Tensor()}}), {4, 42, 602});
  }

  TEST_CASE("wrong output gradients are refused, and the tape can still be used") {
    const Tensor x = f64({1, 2, 3});
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x;
    const auto error = caught<InvalidArgumentError>([&] { tape.gradient(y, x, {.output_gradients = f64({1, 2})}); });
    CHECK(place(error) == line_before());
    CHECK(error.message() == "The output gradient float64[2] does not fit the target float64[3]");
    CHECK_THROWS_AS(tape.gradient(y, x, {.output_gradients = {y, y}}), InvalidArgumentError);
    CHECK_THROWS_AS(tape.gradient(y, x, {.output_gradients = tensor<float>({1, 2, 3})}), InvalidArgumentError);
    check_values(tape.gradient(y, x), {2, 4, 6});
  }

  TEST_CASE("an empty target or source is refused with the line, and the tape can still be used") {
    const Tensor x = f64(2.0);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x;
    const auto error = caught<FailedPreconditionError>([&] { tape.gradient(Tensor(), x); });
    CHECK(place(error) == line_before());
    CHECK_THROWS_AS(tape.gradient(y, Tensor()), FailedPreconditionError);
    CHECK(tape.gradient(y, x).item<double>() == 4);
  }

  TEST_CASE("an op without a gradient is named, with the line where it was called") {
    const Tensor x = tensor(2.0);
    const Op& op = op_without_gradient();
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensor y = x * apply(op, {x}, {}, "mine");
    const Where called = Where{__FILE__, __LINE__ - 1};
    const auto error = caught<LookupError>([&] { tape.gradient(y, x); });
    CHECK(error.message() == "No gradient defined for operation 'mine' (op type: TapeTestOpaque)");
    CHECK(error.op() == "TapeTestOpaque");
    CHECK(place(error) == to_string(called));
    // Off the path of the gradient it does no harm.
    CHECK(tape.gradient(x * x, x).item<float>() == 4);
  }

  TEST_CASE("a gradient that does not fit its op's input is the op's mistake") {
    const Tensor x = tensor(2.0);
    const Op& op = op_of_wrong_gradients();
    GradientTape tape;
    tape.watch(x);
    const Tensor y = apply(op, {x});
    const auto error = caught<InvalidArgumentError>([&] { tape.gradient(y, x); });
    CHECK(error.message() ==
          "Incompatible shapes between op input and calculated input gradient. Forward operation: TapeTestWrong. Input "
          "index: 0. Original input shape: [].  Calculated input gradient shape: [2]");
  }

  TEST_CASE("derivatives to order 4 by nested tapes") {
    const Tensor x = f64(3.0);
    GradientTape fourth, third, second, first;
    for (GradientTape* tape : {&fourth, &third, &second, &first}) tape->watch(x);
    const Tensor y = x * x * x * x;
    const Tensor d1 = first.gradient(y, x);
    const Tensor d2 = second.gradient(d1, x);
    const Tensor d3 = third.gradient(d2, x);
    const Tensor d4 = fourth.gradient(d3, x);
    CHECK(d1.item<double>() == 4 * 27);
    CHECK(d2.item<double>() == 12 * 9);
    CHECK(d3.item<double>() == 24 * 3);
    CHECK(d4.item<double>() == 24);
  }

  TEST_CASE("derivatives to order 4 by one persistent tape, which records its own walks") {
    const Tensor x = f64({-1.0, 0.5});
    GradientTape tape({.persistent = true});
    tape.watch(x);
    Tensor y = sin(x);
    for (int order = 1; order <= 4; ++order) y = tape.gradient(y, x);
    check_values(y, {std::sin(-1.0), std::sin(0.5)}, 1e-14);
  }

  TEST_CASE("mixed second derivatives") {
    const Tensor a = f64(2.0), b = f64(3.0);
    GradientTape outer;
    outer.watch({a, b});
    Tensor da;
    {
      GradientTape inner;
      inner.watch(a);
      da = inner.gradient(a * a * b * b, a);  // 2 a b^2
    }
    const auto [daa, dab] = outer.gradient(da, a, b);
    CHECK(daa.item<double>() == 18);
    CHECK(dab.item<double>() == 24);
  }

  TEST_CASE("the gradient of a broadcast operand has the operand's shape") {
    const Tensor x = ones({2, 3}), row = ones({3}), column = ones({2, 1}), scalar = ones({}), one = ones({1});
    GradientTape tape;
    tape.watch({x, row, column, scalar, one});
    const auto grads = tape.gradient(x * row * column * scalar * one, {x, row, column, scalar, one});
    CHECK(to_string(grads[0].shape()) == "[2,3]");
    check_values(grads[1], {2, 2, 2});
    check_values(grads[2], {3, 3});
    check_values(grads[3], {6});
    CHECK(to_string(grads[2].shape()) == "[2,1]");
    CHECK(to_string(grads[3].shape()) == "[]");
    CHECK(to_string(grads[4].shape()) == "[1]");
  }

  TEST_CASE("the gradient has the source's dtype, also through a promotion") {
    const Tensor narrow = tensor<float>({1, 2}), wide = f64({3, 4});
    GradientTape tape;
    tape.watch({narrow, wide});
    const auto [dn, dw] = tape.gradient(narrow * wide, narrow, wide);
    CHECK(to_string(dn.dtype()) == "float32");
    CHECK(to_string(dw.dtype()) == "float64");
    check_values(dn, {3, 4});
  }

  TEST_CASE("gradients flow through views") {
    const Tensor x = reshape(arange(6.0), {2, 3});
    GradientTape tape;
    tape.watch(x);
    const Tensor y = transpose(x)(range(0, 2), all);  // x without its last column, transposed
    check_values(tape.gradient(reduce_sum(y * y), x), {0, 2, 0, 6, 8, 0});
  }
}

// Where backward passes of home-made libraries go wrong.
TEST_SUITE("known traps") {
  TEST_CASE("a shared node is computed once, not once per path") {
    const Tensor x = f64(1.0);
    GradientTape tape;
    tape.watch(x);
    Tensor y = x;
    for (int i = 0; i < 60; ++i) y = y + y;
    CHECK(tape.size() == 60);
    CHECK(tape.gradient(y, x).item<double>() == std::ldexp(1.0, 60));
  }

  TEST_CASE("a sum over paths changes no tensor that somebody holds") {
    const Tensor x = f64({1, 2, 3}), seed = f64({1, 10, 100});
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensor doubled = x + x;
    const Tensor y = doubled * x + doubled + sin(0 * x) + doubled;
    const auto pause = tape.stop_recording();  // the walk itself is not recorded, so sums need not be kept
    const auto both = [&] { return tape.gradient(y, {doubled, x}, {.output_gradients = seed}); };
    const std::vector<Tensor> first = both();
    check_values(first[0], {3, 40, 500});
    check_values(first[1], {8, 120, 1600});
    const std::vector<Tensor> second = both();
    for (std::size_t i = 0; i < 2; ++i) CHECK(values(second[i]) == values(first[i]));
    check_values(first[1], {8, 120, 1600});
    check_values(seed, {1, 10, 100});
    check_values(doubled, {2, 4, 6});
  }

  TEST_CASE("paths of unequal length are waited for") {
    const Tensor x = f64(3.0);
    GradientTape tape;
    tape.watch(x);
    const Tensor a = x * x;           // 9
    const Tensor deep = exp(log(a));  // the long way
    const Tensor y = a * deep + a;    // a used at three depths: a^2 + a
    CHECK(agree(tape.gradient(y, x).item<double>(), (2 * 9 + 1) * 2 * 3, 1e-14));
  }

  TEST_CASE("a consumer that the target does not depend on is left out") {
    const Tensor x = f64(3.0);
    GradientTape tape;
    tape.watch(x);
    const Tensor a = x * x;
    const Tensor aside = sqrt(a);
    const Tensor y = a * 2.0;
    const Tensor later = a * aside;
    CHECK(tape.gradient(y, x).item<double>() == 12);
  }

  TEST_CASE("one tensor as both operands") {
    const Tensor v = f64({{1, 2}, {3, 4}});
    GradientTape tape;
    tape.watch(v);
    check_values(tape.gradient(matmul(v, v), v), {7, 11, 9, 13});
  }

  TEST_CASE("a product is summed to the shape of a broadcast Variable") {
    const Variable v({2.0});
    GradientTape tape;
    const Tensor y = reduce_sum(v * tensor({{1.0}, {2.0}, {3.0}}));
    const Tensor dv = tape.gradient(y, v);
    CHECK(to_string(dv.shape()) == "[1]");
    check_values(dv, {6});
  }

  TEST_CASE("the sum over paths of C. Olah's example") {
    const Tensor a = f64(2.0), b = f64(1.0);
    GradientTape tape;
    tape.watch({a, b});
    const Tensor e = (a + b) * (b + 1.0);
    CHECK(e.item<double>() == 6);
    const auto [da, db] = tape.gradient(e, a, b);
    CHECK(da.item<double>() == 2);
    CHECK(db.item<double>() == 5);
  }

  TEST_CASE("a value of before a view stays its own") {
    const Tensor x = f64({1, 2, 3, 4});
    GradientTape tape;
    tape.watch(x);
    const Tensor view = reshape(x, {2, 2});
    check_values(tape.gradient(reduce_sum(view * view) + reduce_sum(x), x), {3, 5, 7, 9});
  }
  TEST_CASE("an eager and a symbolic gradient of one tensor") {
    const Tensor w = f64({3, 4});
    const Graph graph;
    const auto scope = graph.as_default();
    const Tensor x = placeholder(float64, {2});
    GradientTape tape;
    tape.watch(w);
    const Tensor symbolic = reduce_sum(w * x), eager = reduce_sum(w * w);
    const Tensor sum = tape.gradient(std::vector<Tensor>{symbolic, eager}, w);
    check_values(Session(graph).run(sum, {{x, {1.0, 2.0}}}), {7, 10});
  }
  TEST_CASE("a Variable beside a tensor of a graph that is not open is watched") {
    const Variable v(f64({3, 4}));
    const Graph graph;
    const Tensor x = [&] {
      const auto scope = graph.as_default();
      return placeholder(float64, {2});
    }();
    GradientTape tape({.persistent = true});
    const Tensor symbolic = reduce_sum(v * x), eager = reduce_sum(v * v);
    const Session session(graph);
    {
      const auto scope = graph.as_default();
      session.run(global_variables_initializer());
    }
    const Feeds feeds{{x, {1.0, 2.0}}};
    check_values(session.run(tape.gradient(symbolic, v), feeds), {1, 2});
    check_values(session.run(tape.gradient(std::vector<Tensor>{symbolic, eager}, v), feeds), {7, 10});
  }
}

}  // namespace

}  // namespace tape_test
