// The passes between a specialised graph and its plan: what each makes of small graphs, with the bits unchanged.

#include "graph/passes/passes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <sstream>

#include <doctest/doctest.h>

#include "backend/program.hpp"
#include "call_collector.hpp"
#include "dispatch/tape_limits.hpp"
#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "planned.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::passes_test {
namespace {

using OneToOne = std::function<Tensor(const Tensor&)>;

Planned planned(const Tensor& value, const OneToOne& f) {
  return Planned({value}, [&](const Arguments& x) { return Arguments{f(x[0])}; });
}

const Tensor matrix = numbers({6, 4}, -2, 2, 1).cast(float32);

/// The types that are left of f(matrix) after these passes.
Types left_of(const OneToOne& f, std::initializer_list<std::string_view> passes, const Tensor& value = matrix) {
  Planned graph = planned(value, f);
  graph.apply(passes);
  return graph.types();
}
Types simplified(const OneToOne& f, const Tensor& value = matrix) { return left_of(f, {"simplify", "prune"}, value); }

/// The calls of elementwise ops in the op table, forward and backward.
std::vector<Call> elementwise_calls() {
  const std::size_t usual = std::exchange(strip_above_bytes, std::numeric_limits<std::size_t>::max());
  CallCollector collector;
  for (const OpCase& row : op_cases()) {
    GradientTape tape;
    Arguments sources;
    for (const Tensor& input : row.inputs)
      if (row.orders > 0 && is_floating(input.dtype())) {
        tape.watch(input);
        sources.push_back(input);
      }
    const Tensor y = row.f(row.inputs);
    if (!sources.empty()) tape.gradient(y, sources);
  }
  strip_above_bytes = usual;
  std::erase_if(collector.calls, [](const Call& call) { return !call.op().forward.is_elementwise(); });
  return std::move(collector.calls);
}

Tensor as_type(const Tensor& x, DType dtype) { return is_floating(x.dtype()) ? x.cast(dtype) : x; }

}  // namespace

TEST_CASE("fold: what depends on constants and sizes is computed once") {
  Planned graph = planned(matrix, [](const Tensor& x) {
    const Tensor c = constant({1.0, 2.0, 3.0, 4.0});
    return x * exp(c + 1.0) + zeros_like(x) + size(x).cast(float32) * ones_like(c);
  });
  CHECK(graph.types() ==
        Types{"AddV2", "AddV2", "AddV2", "Cast", "Exp", "Mul", "Mul", "OnesLike", "Size", "ZerosLike"});
  graph.apply({"fold", "prune"});
  CHECK(graph.types() == Types{"AddV2", "AddV2", "Mul"});
}

TEST_CASE("fold: nothing large, nothing random, no error before its time") {
  CHECK(left_of([](const Tensor& x) { return reduce_sum(x) + reduce_sum(broadcast_to(constant(1.0), {1 << 22})); },
                {"fold", "prune"}) == Types{"AddV2", "BroadcastTo", "Sum", "Sum"});
  const Tensor zero = tensor({0});
  CHECK_THROWS_WITH_AS(planned(zero, [](const Tensor& x) { return x + floor_divide(constant(1), constant(0)); }),
                       doctest::Contains("Integer division by zero"), InvalidArgumentError);
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor y = random::uniform({3}) + floor_divide(constant(1), constant(0)).cast(float32);
  CHECK(graph.operations().size() > 1);
  Session session;
  CHECK_THROWS_WITH_AS(session.run(y), doctest::Contains("Integer division by zero"), InvalidArgumentError);
}

TEST_CASE("simplify: copies and views") {
  CHECK(simplified([](const Tensor& x) { return exp(identity(stop_gradient(x))); }) == Types{"Exp"});
  CHECK(simplified([](const Tensor& x) { return reshape(reshape(x, {24}), {3, 8}); }) == Types{"Reshape"});
  CHECK(simplified([](const Tensor& x) { return reshape(reshape(x, {24}), {6, 4}); }).empty());
  CHECK(simplified([](const Tensor& x) { return squeeze(expand_dims(exp(x), 1), {1}); }) == Types{"Exp"});
  CHECK(simplified([](const Tensor& x) { return reshape_like(expand_dims(x, 0), exp(x)); }).empty());
  CHECK(simplified([](const Tensor& x) { return transpose(transpose(x)); }).empty());
  CHECK(simplified([](const Tensor& x) {
          return transpose(transpose(expand_dims(x, 0), {2, 0, 1}), {2, 1, 0});
        }) == Types{"Reshape", "Transpose"});
  CHECK(simplified([](const Tensor& x) { return sum_like(x, exp(x)); }).empty());
  CHECK(simplified([](const Tensor& x) { return broadcast_to(x, {6, 4}); }).empty());
  CHECK(simplified([](const Tensor& x) { return x.cast(float64).cast(float32); }).empty());

  // A view of a transposed matrix is not dense: its reshape is a copy, and sums take its elements in another order.
  CHECK(simplified([](const Tensor& x) { return reshape(transpose(x), {4, 6}); }) == Types{"Reshape", "Transpose"});
  CHECK(simplified([](const Tensor& x) { return reduce_sum(transpose(x) * 1.0); }) == Types{"Mul", "Sum", "Transpose"});
  CHECK(simplified([](const Tensor& x) { return x.cast(int32).cast(float32); }) == Types{"Cast", "Cast"});
  CHECK(simplified([](const Tensor& x) { return x.cast(float32).cast(float64); }, numbers({3}, 0, 1, 1)) ==
        Types{"Cast", "Cast"});
}

TEST_CASE("simplify: numbers that change nothing, and only those") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({-0.0, 0.0, 1.5, -inf, std::nan("")});
  CHECK(simplified([](const Tensor& v) { return v * 1.0; }, x).empty());
  CHECK(simplified([](const Tensor& v) { return 1.0 * v / 1.0 - 0.0; }, x).empty());
  CHECK(simplified([](const Tensor& v) { return v * ones_like(v); }, x).empty());
  CHECK(simplified([](const Tensor& v) { return v + 0; }, tensor({1, 2})).empty());
  CHECK(simplified([](const Tensor& v) { return v + 0.0; }, x) == Types{"AddV2"});
  CHECK(simplified([](const Tensor& v) { return v - (-0.0); }, x) == Types{"Sub"});
  CHECK(simplified([](const Tensor& v) { return v * 0.0; }, x) == Types{"Mul"});
  CHECK(simplified([](const Tensor& v) { return 1.0 / v; }, x) == Types{"RealDiv"});
  CHECK(simplified([](const Tensor& v) { return v * constant({{1.0}, {1.0}}); }, x) == Types{"Mul"});
}

TEST_CASE("simplify: a large tensor of one number becomes that number") {
  const Tensor x = numbers({300, 9000}, -1, 1, 1).cast(float32);
  CHECK(left_of([](const Tensor& v) { return v * (2.0 * ones_like(v)); }, {"fold", "simplify", "prune"}, x) ==
        Types{"Mul"});
  CHECK(left_of([](const Tensor& v) { return gradients(reduce_sum(v * v + v), v)[0]; },
                {"fold", "simplify", "cse", "shapes", "prune"}, x) == Types{"AddV2", "AddV2"});
}

TEST_CASE("cse: what computes the same is merged") {
  CHECK(left_of([](const Tensor& x) { return exp(x) + exp(x) * constant(2.0) + constant(2.0); }, {"cse", "prune"}) ==
        Types{"AddV2", "AddV2", "Exp", "Mul"});
  CHECK(left_of([](const Tensor& x) { return leaky_relu(x, 0.1) + leaky_relu(x, 0.2); }, {"cse", "prune"}) ==
        Types{"AddV2", "LeakyRelu", "LeakyRelu"});
  Planned graph = planned(matrix, [](const Tensor& x) { return x + constant(0.0) + constant(-0.0) + constant(0.0); });
  graph.apply({"cse", "prune"});
  std::size_t constants = 0;
  for (std::size_t i = 0; i < graph.plan.graph->size(); ++i) constants += graph.plan.graph->node(i).type() == "Const";
  CHECK(constants == 2);

  Graph own;
  const auto scope = own.as_default();
  const auto difference = random::uniform({100}) - random::uniform({100});
  CHECK(reduce_max(abs(Session().run(difference))).item<float>() > 0);
}

TEST_CASE("shapes: what only lends its shape is not computed") {
  CHECK(left_of([](const Tensor& x) { return broadcast_like(reduce_sum(x, 0), exp(log(x))); }, {"shapes", "prune"}) ==
        Types{"BroadcastLike", "Sum"});
}

TEST_CASE("what changes a Variable stays, and keeps its order, whatever becomes of the rest") {
  const auto run = [](const SessionOptions& options) {
    Graph graph;
    const auto scope = graph.as_default();
    Variable v(1.0F, {.name = "v"});
    const Tensor before = v.value();
    Tensor y;
    {
      const auto after = control_dependencies({before});
      y = identity(v.assign_add(1.0F));
    }
    Tensor zero;
    {
      const auto after = control_dependencies({y});
      zero = identity(zeros_like(before));
    }
    Tensor z;
    {
      const auto after = control_dependencies({zero});
      z = v.assign(zero + 5.0F) * 1.0F;
    }
    Session session(graph, options);
    session.run(z);
    const auto [first, second, third] = session.run(std::tuple{before, y, z});
    std::vector<float> found;
    for (const Tensor& each : {first, second, third, session.run(v)}) found.push_back(each.item<float>());
    return found;
  };
  CHECK(run({}) == std::vector<float>{5, 6, 5, 5});
  CHECK(run({.optimize = false}) == std::vector<float>{5, 6, 5, 5});

  Graph graph;
  const auto scope = graph.as_default();
  Variable v(1.0F);
  const Tensor useless = zeros_like(v.assign_add(1.0F));
  Session session;
  CHECK(session.run(useless).item<float>() == 0);
  CHECK(session.run(v).item<float>() == 2);
}

TEST_CASE("fuse: a chain becomes one program") {
  Planned graph = planned(matrix, [](const Tensor& x) {
    const Tensor row = constant({1.0, 2.0, 3.0, 4.0}), column = reduce_sum(x, 1, {.keep_dims = true});
    const Tensor one = tanh(x * row + column);
    const Tensor other = (x - column).cast(float64).cast(float32);
    return where(greater(x, 0.0), one, other) * 2.0;
  });
  graph.apply({"fuse"});
  CHECK(graph.types() == Types{"Sum", "_Fused"});
  const detail::Node& fused = graph.first("_Fused");
  const Program& program = *fused.attr<ProgramRef>("program");
  CHECK(program.instructions.size() == 9);
  CHECK(program.registers == 3);
  CHECK(fused.name() == "Mul_1");
  CHECK(fused.op().infer(fused) == Specs{graph.plan.fetches[0].spec()});
}

TEST_CASE("fuse: intermediate results that others need are outputs, too") {
  Planned graph({matrix}, [](const Arguments& x) {
    const Tensor a = exp(x[0]), b = a * 2.0, c = sqrt(b);
    return Arguments{c, a, reduce_sum(b)};
  });
  graph.apply({"fuse"});
  CHECK(graph.types() == Types{"Sum", "_Fused"});
  CHECK(graph.first("_Fused").outputs().size() == 3);
}

TEST_CASE("fuse: a way around a group keeps it apart") {
  CHECK(left_of(
            [](const Tensor& x) {
              const Tensor y = exp(x);
              return y * reduce_sum(y);
            },
            {"fuse"}) == Types{"Exp", "Mul", "Sum"});
  // The second half of a softmax: two groups on both sides of each sum.
  CHECK(left_of(
            [](const Tensor& x) {
              const Tensor y = exp(x - reduce_max(x, 1, {.keep_dims = true}));
              return square(y / reduce_sum(y, 1, {.keep_dims = true}) + y);
            },
            {"fuse"}) == Types{"Max", "Sum", "_Fused", "_Fused"});
  // Each product could join the function that it takes, but then each program would need the other's sum first.
  Planned graph({matrix}, [](const Arguments& x) {
    const Tensor a = exp(x[0]), b = sin(x[0]);
    const Tensor sum_a = reduce_sum(a), sum_b = reduce_sum(b);
    return Arguments{b * sum_a, a * sum_b};
  });
  graph.apply({"fuse"});
  CHECK(graph.types() == Types{"Exp", "Mul", "Sum", "Sum", "_Fused"});
}

TEST_CASE("fuse: a way around that leads through another group keeps apart, too") {
  // `exp` and the product lie between the members of the group of `tanh`: it needs the one and is needed by the other.
  Planned graph({matrix, matrix}, [](const Arguments& x) {
    const Tensor early = tanh(x[0]), product = matmul(early, early, {.transpose_b = true});
    const Tensor row = exp(reduce_sum(x[1], 0)), late = early + reduce_sum(row);
    return Arguments{late, row * reduce_sum(product)};
  });
  graph.apply({"fuse"});
  CHECK(graph.types() == Types{"Exp", "MatMul", "Mul", "Sum", "Sum", "Sum", "_Fused"});
}

TEST_CASE("fuse: groups of random graphs have an order") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    Planned graph({numbers({3, 3}, -1, 1, 1), numbers({5}, -1, 1, 2)}, [&](const Arguments& x) {
      Arguments all = x;
      const auto any = [&] { return all[random() % all.size()]; };
      while (all.size() < 30) {
        const Tensor a = any(), b = any();
        const bool fit = a.shape() == b.shape() || b.rank() == 0;
        const unsigned kind = random() % 4;
        all.push_back(kind == 0                    ? tanh(a)
                      : kind == 1                  ? reduce_mean(a)
                      : kind == 2 && a.rank() == 2 ? matmul(a, a) * 0.25
                      : fit                        ? a * 0.5 + b
                                                   : a - reduce_mean(b));
      }
      return Arguments(all.begin() + 2, all.end());
    });
    graph.apply({"fuse"});
  }
}

TEST_CASE("fuse: what cannot be joined stays") {
  CHECK(left_of([](const Tensor& x) { return floor_divide(x + 1, x * x) + x; }, {"fuse"}, tensor({1, 2, 3})) ==
        Types{"AddV2", "AddV2", "FloorDiv", "Mul"});
  const Tensor large = numbers({80, 80}, -1, 1, 1);
  CHECK(left_of([](const Tensor& x) { return exp(transpose(x) + x) * x; }, {"fuse"}, large) ==
        Types{"AddV2", "Transpose", "_Fused"});
  const Types chain = left_of(
      [](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < 200; ++i) y = y + x;
        return y;
      },
      {"fuse"});
  CHECK(chain.count("AddV2") == 0);
  CHECK(chain.count("_Fused") == 4);
}

TEST_CASE("fuse: every elementwise op of the table, in two types and on broadcast operands") {
  std::set<std::string> covered;
  for (const Call& call : elementwise_calls()) {
    CAPTURE(call.type());
    CAPTURE(to_string(call.attrs()));
    for (const DType dtype : {float32, float64}) {
      Arguments values;
      for (const Tensor& input : call.inputs()) values.push_back(as_type(input, dtype));
      // A second op of the same shape, so that there is something to join.
      Planned graph(values, [&](const Arguments& x) {
        const Tensor y = apply_all(call.op(), x, call.attrs(), {}, {})[0];
        return Arguments{equal(y, y), y};
      });
      graph.apply({"fuse"});
      const bool may_throw = call.type() == "FloorDiv" || call.type() == "FloorMod" || call.type() == "Pow";
      if (may_throw && is_integer(values[0].dtype())) continue;
      CHECK(graph.types() == Types{"_Fused"});
      covered.insert(call.type());
    }
  }
  for (const Op* op : registered_ops())
    if (op->forward.is_elementwise()) {
      CAPTURE(op->name);
      CHECK(covered.contains(op->name));
    }
}

namespace {

Tensor floats(const Shape& shape, unsigned seed, DType dtype = float32) {
  return numbers(shape, -2, 2, seed).cast(dtype);
}

/// The types that the fusing passes leave of a product and what follows it.
Types joined(const Tensor& a, const Tensor& b, const Tensor& c,
             const std::function<Arguments(const Tensor& product, const Tensor& c)>& f,
             const MatMulOptions& options = {}) {
  Planned graph({a, b, c}, [&](const Arguments& x) { return f(matmul(x[0], x[1], options), x[2]); });
  graph.apply({"fuse", "epilogue"});
  return graph.types();
}

}  // namespace

TEST_CASE("epilogue: bias and activation run on the blocks of the product") {
  struct Case {
    std::int64_t m, k, n;
  };
  // Tiny kernels, one block, many blocks with a rest, vectors, an outer product, nothing to add up.
  for (const Case& sizes :
       {Case{600, 4, 8}, Case{5000, 2, 4}, Case{70, 40, 60}, Case{333, 170, 215}, Case{1500, 40, 1100},
        Case{1, 300, 20000}, Case{20000, 300, 1}, Case{64, 1, 100}, Case{70, 0, 60}}) {
    for (const DType dtype : {float32, float64}) {
      const std::int64_t m = sizes.m, k = sizes.k, n = sizes.n;
      CAPTURE(m);
      CAPTURE(k);
      CAPTURE(n);
      const Tensor a = floats({m, k}, 1, dtype), b = floats({k, n}, 2, dtype);
      const auto layer = [](const Tensor& product, const Tensor& c) { return Arguments{relu(product + c)}; };
      for (const Shape& shape : {Shape{n}, Shape{m, 1}, Shape{m, n}, Shape{}})
        CHECK(joined(a, b, floats(shape, 3, dtype), layer) == Types{"_FusedMatMul"});
      CHECK(joined(a, b, floats({n}, 3, dtype), [](const Tensor& product, const Tensor& c) {
              return Arguments{product + c};
            }) == Types{"_FusedMatMul"});
    }
  }
}

TEST_CASE("epilogue: transposed operands, several outputs, the product read twice") {
  const Tensor a = floats({150, 300}, 1), b = floats({170, 150}, 2), c = floats({300, 170}, 3);
  CHECK(joined(a, b, c, [](const Tensor& product, const Tensor& z) { return Arguments{tanh(product) * z}; },
               {.transpose_a = true, .transpose_b = true}) == Types{"_FusedMatMul"});
  const Tensor x = floats({300, 150}, 1), y = floats({150, 170}, 2);
  CHECK(joined(x, y, c, [](const Tensor& product, const Tensor& z) {
          const Tensor s = sigmoid(product);
          return Arguments{s, s * z, less(s, z)};
        }) == Types{"_FusedMatMul"});
  CHECK(joined(x, y, c, [](const Tensor& product, const Tensor&) { return Arguments{product * product}; }) ==
        Types{"_FusedMatMul"});
}

TEST_CASE("epilogue: what needs the product itself, or another shape of it, keeps it") {
  const Tensor a = floats({80, 20}, 1), b = floats({20, 90}, 2), c = floats({80, 90}, 3);
  const auto sum = [](const Tensor& product, const Tensor& z) { return Arguments{product + z}; };
  CHECK(joined(floats({8, 20}, 1), b, floats({8, 90}, 3), sum) == Types{"AddV2", "MatMul"});  // small
  CHECK(joined(a, floats({20, 1}, 4), c, sum) == Types{"AddV2", "MatMul"});
  CHECK(joined(whole_numbers({80, 4}, -5, 5, 1), whole_numbers({4, 90}, -5, 5, 2), whole_numbers({90}, -5, 5, 3),
               sum) == Types{"AddV2", "MatMul"});
  CHECK(joined(a, b, c, [](const Tensor& product, const Tensor& z) {
          return Arguments{product + z, product};
        }) == Types{"AddV2", "MatMul"});
  CHECK(joined(a, b, c, [](const Tensor& product, const Tensor& z) {
          return Arguments{product + z, reduce_sum(product)};
        }) == Types{"AddV2", "MatMul", "Sum"});
  CHECK(joined(a, b, c, [](const Tensor& product, const Tensor& z) {
          return Arguments{exp(product * z), product - z};
        }) == Types{"MatMul", "Sub", "_Fused"});
  // Of two products that are read together, one comes first.
  Planned both({a, b, c}, [](const Arguments& x) {
    return Arguments{tanh(matmul(x[0], x[1]) + matmul(2.0 * x[0], x[1]) + x[2])};
  });
  both.apply({"fuse", "epilogue"});
  CHECK(both.types() == Types{"MatMul", "Mul", "_FusedMatMul"});
}

namespace {

/// The types of the operations in their order, those of a group in brackets.
std::string order_of(const Planned& planned) {
  std::string text;
  int open = 0;
  for (std::size_t i = 0; i < planned.plan.graph->size(); ++i) {
    const detail::Node& node = planned.plan.graph->node(i);
    if (node.type() == "Placeholder" || node.type() == "Const") continue;
    const int group = planned.plan.group_of(node);
    if (group != open && open != 0) text += "] ";
    if (group != open && group != 0) text += "[";
    open = group;
    text += node.type() + (open != 0 ? "," : " ");
  }
  return text + (open != 0 ? "]" : "");
}

/// A symmetric matrix with a dominant diagonal.
Tensor positive_definite(std::int64_t n, unsigned seed) {
  const Tensor x = numbers({n, n}, -1, 1, seed);
  return matmul(x, x, {.transpose_b = true}) + static_cast<double>(n) * eye(n, {.dtype = float64});
}

}  // namespace

TEST_CASE("parallel: what keeps one core busy waits for its like") {
  const Tensor a = positive_definite(90, 1), b = positive_definite(80, 2);
  // Two branches, one written after the other.
  Planned branches({a, b}, [](const Arguments& x) {
    const Tensor left = reduce_sum(square(cholesky(x[0])));
    const Tensor right = reduce_sum(tanh(cholesky(x[1])));
    return Arguments{left * right};
  });
  branches.apply({"parallel"});
  CHECK(order_of(branches) == "[Cholesky,Cholesky,] Square Sum Tanh Sum Mul ");

  // In levels: each branch goes on with another one.
  Planned levels({a, b}, [](const Arguments& x) {
    const Tensor left = inverse(-inverse(x[0]));
    const Tensor right = inverse(-inverse(x[1]));
    return Arguments{left, right};
  });
  levels.apply({"parallel"});
  CHECK(order_of(levels) == "[MatrixInverse,MatrixInverse,] Neg Neg [MatrixInverse,MatrixInverse,]");
}

TEST_CASE("parallel: what is short, large or alone stays where it is") {
  const Tensor a = positive_definite(90, 1), small = positive_definite(8, 3);
  const auto order = [](const Tensor& value, const std::function<Tensor(const Arguments&)>& f) {
    Planned graph({value}, [&](const Arguments& x) { return Arguments{f(x)}; });
    graph.apply({"parallel"});
    return order_of(graph);
  };
  const auto two = [](const OneToOne& first, const OneToOne& second) {
    return [=](const Arguments& x) {
      const Tensor left = first(x[0]);
      return left + second(x[0]);
    };
  };
  const OneToOne factor = [](const Tensor& x) { return cholesky(x); };
  const OneToOne inverted = [](const Tensor& x) { return inverse(x); };
  const OneToOne squared = [](const Tensor& x) { return matmul(x, x); };
  const OneToOne self_outer = [](const Tensor& x) { return matmul(x, x, {.transpose_b = true}); };
  CHECK(order(small, two(factor, inverted)) == "Cholesky MatrixInverse AddV2 ");
  CHECK(order(a, two(factor, [](const Tensor& x) { return tanh(x); })) == "Cholesky Tanh AddV2 ");
  CHECK(order(a, [](const Arguments& x) { return inverse(cholesky(x[0])); }) == "Cholesky MatrixInverse ");
  // The kernel itself splits a large product, and shares out a batch of matrices.
  CHECK(order(floats({100, 100}, 1), two(squared, self_outer)) == "[MatMul,MatMul,] AddV2 ");
  CHECK(order(floats({160, 160}, 1), two(squared, self_outer)) == "MatMul MatMul AddV2 ");
  CHECK(order(stack({a, a}), two(factor, inverted)) == "Cholesky MatrixInverse AddV2 ");
}

TEST_CASE("parallel: an error in a group is the error of its op, and the next run is right") {
  const Tensor good = positive_definite(90, 1), indefinite = -good;
  Graph graph;
  const auto scope = graph.as_default();
  auto x = placeholder(float64, {90, 90}, "x"), y = placeholder(float64, {90, 90}, "y");
  auto bad = cholesky(y, "bad");
  const std::string line = line_before();
  auto sum = reduce_sum(cholesky(x) + bad);
  Session session(graph);
  const double expected = session.run(sum, {{x, good}, {y, good}}).item<double>();
  const Error error = caught<InvalidArgumentError>([&] { session.run(sum, {{x, good}, {y, indefinite}}); });
  CHECK(error.message() == "Cholesky decomposition was not successful. The input might not be valid.");
  CHECK(place(error) == line);
  CHECK(session.run(sum, {{x, good}, {y, good}}).item<double>() == expected);
  std::ostringstream plan;
  plan << session.explain(sum, {{x, good}, {y, good}}).plan;
  CHECK(plan.str().find("side by side: 0-1") != std::string::npos);
}

TEST_CASE("each pass can be left out, and no result changes") {
  const auto run = [](const SessionOptions& options) {
    Graph graph;
    const auto scope = graph.as_default();
    auto x = placeholder(float32, {-1, 4}, "x");
    auto y = reduce_sum(square(softmax(tanh(x * 2.0) * sigmoid(x) + exp(-x * x))) * 1.0);
    Session session(graph, options);
    auto results = session.run(std::vector<Tensor>{y, gradients(y, x)[0]}, {{x, matrix}});
    return std::pair{results[0], results[1]};
  };
  const auto expected = run({.optimize = false});
  std::vector<SessionOptions> choices{{}};
  for (const detail::Pass& pass : detail::passes()) choices.push_back({.disabled_passes = {std::string(pass.name)}});
  for (const SessionOptions& options : choices) {
    const auto found = run(options);
    CHECK(same_bits(found.first, expected.first));
    CHECK(same_bits(found.second, expected.second));
  }
  CHECK_THROWS_WITH_AS(run({.disabled_passes = {"fusion"}}), doctest::Contains("There is no pass 'fusion'"),
                       InvalidArgumentError);
}

TEST_CASE("e: forward and backward of a chain are one program") {
  Planned graph({numbers({5000}, -2, 2, 1).cast(float32)}, [](const Arguments& x) {
    const Tensor y = tanh(0.7 * x[0] + 0.3) * sigmoid(x[0]) + exp(-x[0] * x[0]);
    return Arguments{y, gradients(y, x[0])[0]};
  });
  graph.apply({"fold", "simplify", "cse", "shapes", "prune", "fuse"});
  CHECK(graph.types() == Types{"_Fused"});
}

namespace {

/// The types that are left of f(a, b) where reductions are joined with what computes their inputs.
Types reduced(const Tensor& a, const Tensor& b, const std::function<Arguments(const Tensor&, const Tensor&)>& f) {
  Planned graph({a, b}, [&](const Arguments& x) { return f(x[0], x[1]); });
  graph.apply({"simplify", "shapes", "prune", "fuse", "epilogue", "reductions"});
  return graph.types();
}

}  // namespace

TEST_CASE("reductions: large ones run where their input is computed") {
  const Tensor a = floats({300, 200}, 1), b = floats({200}, 2);
  const auto chain = [](const Tensor& x, const Tensor& y) { return exp(-x * x) + y; };
  for (const Axes& axes : {Axes(), Axes(0), Axes(1), Axes(-1)})
    for (const bool keep : {false, true}) {
      const ReduceOptions options{.keep_dims = keep};
      CHECK(reduced(a, b, [&](const Tensor& x, const Tensor& y) -> Arguments {
              return {reduce_sum(chain(x, y), axes, options), reduce_mean(x * y, axes, options)};
            }) == Types{"_FusedReduction", "_FusedReduction"});
      CHECK(reduced(a, b, [&](const Tensor& x, const Tensor& y) -> Arguments {
              return {reduce_max(x * y, axes, options)};
            }) == Types{"_FusedReduction"});
    }
  CHECK(reduced(whole_numbers({300, 200}, -5, 5, 1), whole_numbers({200}, -5, 5, 2),
                [](const Tensor& x, const Tensor& y) -> Arguments { return {reduce_prod(x - y * x, 1)}; }) ==
        Types{"_FusedReduction"});
  CHECK(reduced(a, b, [](const Tensor& x, const Tensor& y) -> Arguments { return {reduce_any(x < y, 0)}; }) ==
        Types{"_FusedReduction"});
}

TEST_CASE("reductions: gradients stay in the program that a reduction is joined with") {
  const Tensor a = floats({300, 200}, 1), b = floats({300, 200}, 2);
  CHECK(reduced(a, b, [](const Tensor& x, const Tensor& y) -> Arguments {
          GradientTape tape;
          tape.watch(x);
          const Tensor loss = reduce_mean(square(x - y));
          return {loss, tape.gradient(loss, x)};
        }).contains("_FusedReduction"));
}

TEST_CASE("reductions: what something else needs, too, is kept") {
  const Tensor a = floats({300, 200}, 1), b = floats({200}, 2);
  const auto kept = [&](const std::function<Arguments(const Tensor&, const Tensor&)>& f) {
    return !reduced(a, b, f).contains("_FusedReduction");
  };
  CHECK(kept([](const Tensor& x, const Tensor& y) -> Arguments {
    const Tensor product = x * y;
    return {product, reduce_sum(product)};
  }));
  CHECK(kept([](const Tensor& x, const Tensor& y) -> Arguments {
    const Tensor product = x * y;
    return {reduce_sum(product, 0), reduce_max(product, 1)};
  }));
  CHECK(kept([](const Tensor& x, const Tensor&) -> Arguments { return {reduce_sum(x)}; }));
  CHECK(kept([](const Tensor& x, const Tensor& y) -> Arguments { return {reduce_sum(x(range(0, 100)) * y)}; }));
  CHECK(kept(
      [](const Tensor& x, const Tensor& y) -> Arguments { return {reduce_sum(x.cast(float16) * y.cast(float16))}; }));
}

}  // namespace tapestry::test::passes_test
