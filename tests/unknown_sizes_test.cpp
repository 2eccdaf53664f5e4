// Sizes that are unknown when a graph is made: in a shape they stay what they are, the size of some tensor; as a C++
// number they are an error with the line.

#include <filesystem>
#include <functional>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace unknown_sizes_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

struct Case {
  std::string name;
  std::function<Tensor(const Tensor& x, const Tensor& y)> f;  ///< of [batch, time, 3] and [time, batch]
};

/// x summed to its first two axes, times y: [batch, time, time, batch].
Tensor outer_of(const Tensor& x, const Tensor& y) {
  const auto matrix = [](const Tensor& t) { return t.rank() == 3 ? reduce_sum(t, 2) : t; };
  return expand_dims(matrix(x), {2, 3}) * matrix(y);
}

/// Functions that make shapes of the sizes of their arguments.
const std::vector<Case>& cases() {
  static const std::vector<Case> list{
      {"zeros",
       [](const Tensor& x, const Tensor&) {
         return zeros({x.shape()[0], 2});
       }},
      {"ones behind a number",
       [](const Tensor& x, const Tensor&) {
         return ones({4, x.shape()[1]}, {.dtype = float64});
       }},
      {"full of a number",
       [](const Tensor& x, const Tensor&) {
         return full({x.shape()[-2], 2, x.shape()[-3]}, 7);
       }},
      {"full of a tensor",
       [](const Tensor& x, const Tensor&) {
         return full({x.shape()[0], 3}, x(0, 0));
       }},
      {"full of a tensor's own shape", [](const Tensor& x, const Tensor&) { return full(x.shape(), reduce_sum(x)); }},
      {"a whole shape", [](const Tensor& x, const Tensor&) { return zeros(x.shape()) + x; }},
      {"sizes of two tensors",
       [](const Tensor& x, const Tensor& y) {
         return ones({y.shape()[0], x.shape()[0], x.shape()[2]});
       }},
      {"sizes of results",
       [](const Tensor& x, const Tensor&) {
         const Tensor wide = concat({x, x}, 1);
         return ones({wide.shape()[1], wide.shape()[0]}) * reduce_max(x);
       }},
      {"a shape that is changed",
       [](const Tensor& x, const Tensor& y) {
         Shape shape = x.shape();
         shape.erase(0);
         shape.insert(1, 5);
         shape.push_back(x.shape().front());
         shape.set(2, y.shape()[1]);
         return zeros(shape);
       }},
      {"a shape from a loop",
       [](const Tensor& x, const Tensor&) {
         Shape shape;
         for (const Dimension& size : x.shape()) shape.push_back(size);
         return ones(shape) - x;
       }},
      {"normal",
       [](const Tensor& x, const Tensor&) {
         return random::normal({x.shape()[0], 4}, {.mean = 3});
       }},
      {"normal of a shape", [](const Tensor& x, const Tensor&) { return x + exp(x) * random::normal(x.shape()); }},
      {"truncated normal",
       [](const Tensor& x, const Tensor&) {
         return random::truncated_normal({2, x.shape()[1]});
       }},
      {"uniform, float64",
       [](const Tensor& x, const Tensor&) { return random::uniform({x.shape()[1]}, {.high = 4, .dtype = float64}); }},
      {"randint",
       [](const Tensor& x, const Tensor&) {
         return random::randint(0, 9, {x.shape()[0], 3});
       }},
      {"bernoulli",
       [](const Tensor& x, const Tensor&) {
         return random::bernoulli({x.shape()[0], x.shape()[1]}, 0.3);
       }},
      {"normal_like", [](const Tensor& x, const Tensor&) { return random::normal_like(x, {.mean = 1, .stddev = 2}); }},
      {"uniform_like", [](const Tensor& x, const Tensor&) { return random::uniform_like(x, {.low = -1}); }},
      {"uniform_like of whole numbers",
       [](const Tensor& x, const Tensor&) { return random::uniform_like(x.cast(int64), {.low = 0, .high = 100}); }},
      {"reshape",
       [](const Tensor& x, const Tensor&) {
         return reshape(x, {x.shape()[1], 3, x.shape()[0]});
       }},
      {"reshape, a size left open",
       [](const Tensor& x, const Tensor&) {
         return reshape(x, {x.shape()[0], -1});
       }},
      {"reshape, the first left open",
       [](const Tensor& x, const Tensor&) {
         return reshape(x, {-1, x.shape()[1]});
       }},
      {"reshape there and back",
       [](const Tensor& x, const Tensor&) {
         return reshape(reshape(x, {-1, 3}) * 2.0, {x.shape()[0], x.shape()[1], 3});
       }},
      {"split heads",
       [](const Tensor& x, const Tensor&) {
         return transpose(reshape(x, {x.shape()[0], x.shape()[1], 3, 1}), {0, 2, 1, 3});
       }},
      {"broadcast_to",
       [](const Tensor& x, const Tensor&) {
         return broadcast_to(x(0, 0), {x.shape()[1], 2, 3});
       }},
      {"broadcast_to, sizes kept",
       [](const Tensor& x, const Tensor&) {
         return broadcast_to(x, {2, -1, x.shape()[1], -1});
       }},
      {"einsum that sums over two axes", [](const Tensor& x, const Tensor& y) { return einsum("bti,tb->i", x, y); }},
      {"einsum of four unknown sizes", [](const Tensor& x, const Tensor& y) { return einsum("bti,sc->btsci", x, y); }},
      {"einsum of two groups of unknown sizes",
       [](const Tensor& x, const Tensor& y) { return einsum("abcd,cdef->abef", outer_of(x, y), outer_of(y, x)); }},
      {"tensordot over two axes",
       [](const Tensor& x, const Tensor& y) {
         return tensordot(x, y, {{1, 0}, {0, 1}});
       }},
      {"tensordot with nothing",
       [](const Tensor&, const Tensor& y) {
         return tensordot(y(0), zeros({0, 2}), 0);
       }},
      {"einsum with nothing",
       [](const Tensor& x, const Tensor&) {
         return einsum("ti,ij->jt", x(0), zeros({3, 0}));
       }},
      {"tensordot over one axis",
       [](const Tensor& x, const Tensor& y) {
         return tensordot(x, y, {{0}, {1}});
       }},
      {"size of an axis", [](const Tensor& x, const Tensor&) { return size(x, 0) * 100 + size(x, -2); }},
      {"the mean by hand", [](const Tensor& x, const Tensor&) { return reduce_sum(x) / size(x).cast(float32); }},
      {"a state of zeros",
       [](const Tensor& x, const Tensor&) {
         const Tensor w = ones({3 + 2, 2}) * 0.5;
         Tensor state = zeros({x.shape()[0], 2});
         for (int step = 0; step < 2; ++step) state = tanh(matmul(concat({x(all, 0), state}, 1), w));
         return state;
       }},
      {"a mask of positions",
       [](const Tensor& x, const Tensor&) {
         const Tensor position = cumsum(ones({x.shape()[1]}), 0) - 1.0;
         return expand_dims(position, 0) <= expand_dims(position, 1);
       }},
      {"a gradient",
       [](const Tensor& x, const Tensor&) {
         GradientTape tape;
         tape.watch(x);
         const Tensor z = reshape(square(x), {x.shape()[0], -1}) * broadcast_to(reduce_mean(x), {x.shape()[0], 1});
         return tape.gradient(z, x);
       }},
      {"batch_jacobian",
       [](const Tensor& x, const Tensor&) {
         GradientTape tape;
         const Tensor rows = x(all, 0);
         tape.watch(rows);
         const Tensor z = rows * reduce_sum(rows, 1, {.keep_dims = true});
         return tape.batch_jacobian(z, rows);
       }},
  };
  return list;
}

Tensor at_seed(const std::function<Tensor()>& f) {
  random::seed(11);
  return f();
}

}  // namespace

TEST_CASE("shapes made of unknown sizes: eagerly, traced, by hand and reloaded") {
  for (const Case& each : cases()) {
    CAPTURE(each.name);
    const auto traced = trace(each.f, {spec(float32, {-1, -1, 3}, "x"), spec(float32, {-1, -1}, "y")});
    Graph by_hand;
    Tensor x, y, z;
    {
      const auto scope = by_hand.as_default();
      x = placeholder(float32, {-1, -1, 3});
      y = placeholder(float32, {-1, -1});
      z = each.f(x, y);
    }
    Session session(by_hand);
    for (const bool text : {false, true}) {
      const std::string file =
          (std::filesystem::temp_directory_path() / "unknown_sizes.pb").string() + (text ? "txt" : "");
      traced.graph().save(file);
      const Graph reloaded = Graph::load(file);
      std::filesystem::remove(file);
      Session again(reloaded);
      for (const auto& sizes : {std::pair{2, 5}, {7, 1}, {1, 4}, {3, 3}}) {
        const int batch = sizes.first, time = sizes.second;
        CAPTURE(batch);
        const Tensor a = numbers({batch, time, 3}, -1, 1, 1).cast(float32), b = ones({time, batch});
        const Tensor eager = at_seed([&] { return each.f(a, b); });
        CHECK(same_bits(eager, at_seed([&] { return traced(a, b); })));
        CHECK(same_bits(eager, at_seed([&] { return session.run(z, {{x, a}, {y, b}}); })));
        CHECK(same_bits(
            eager, at_seed([&] {
              return again.run(traced.output().name(), {{traced.input(0).name(), a}, {traced.input(1).name(), b}});
            })));
      }
    }
  }
}

TEST_CASE("sizes of 0, and no axis at all") {
  const auto f = trace([](Tensor x) { return zeros({x.shape()[0], 2}) + reduce_sum(x); }, {spec(float32, {-1})});
  CHECK(to_string(f(zeros({0})).shape()) == "[0,2]");
  const auto rest = trace([](Tensor x) { return reshape(x, {x.shape()[0], -1}); }, {spec(float32, {-1, -1})});
  CHECK(to_string(rest(zeros({3, 0})).shape()) == "[3,0]");
  CHECK_THROWS_AS(rest(zeros({0, 3})), InvalidArgumentError);  // as eagerly
  CHECK_THROWS_AS(reshape(zeros({0, 3}), {0, -1}), InvalidArgumentError);
}

TEST_CASE("unknown sizes that turn out to be 0") {
  const nn::Flatten flatten;
  using Functions = std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>>;
  const Functions functions{
      {"kron",
       [](const Tensor& x) {
         return kron(x, ones({2, 3}));
       }},
      {"kron from the other side",
       [](const Tensor& x) {
         return kron(ones({2, 3}), x);
       }},
      {"max_pool3d",
       [](const Tensor& x) {
         return max_pool3d(expand_dims(x, {0, 1, 2}), {.window = 1});
       }},
      {"avg_pool3d",
       [](const Tensor& x) {
         return avg_pool3d(expand_dims(x, {1, 2, 3}), {.window = 1});
       }},
      {"conv3d, SAME",
       [](const Tensor& x) {
         return conv3d(expand_dims(x, {0, 3, 4}), ones({2, 1, 1, 1, 1}), {.padding = "SAME"});
       }},
      {"Flatten", [&](const Tensor& x) { return flatten(expand_dims(x, 2)); }},
      {"bincount without bins", [](const Tensor& x) { return bincount((x * 3.0).cast(int32), 0); }},
      {"boolean_mask", [](const Tensor& x) { return boolean_mask(expand_dims(x, 2), x > 0.0); }},
      {"boolean_mask of what has no elements",
       [](const Tensor& x) {
         return boolean_mask(expand_dims(x, 0), ones({1, 3}) > 0.0);
       }},
      {"masked_assign of two axes",
       [](const Tensor& x) {
         return masked_assign(expand_dims(x, 2), x > 2.0, zeros({0, 1}));
       }},
      {"matmul of a batch with a matrix, differentiated",
       [](const Tensor& x) {
         return grad([&](const Tensor& b) {
                  return matmul(ones({2, 4, 2}), b);
                })(ones({2, 3}) * reduce_sum(x)) +
                reduce_sum(grad([&](const Tensor& b) {
                  return matmul(stack({x, x}), b);
                })(transpose(x)));
       }},
      {"lstsq",
       [](const Tensor& x) {
         return lstsq(ones({2, 1, 3, 2}), concat({x, x, x})(range(0, 3)));
       }},
  };
  for (const auto& function : functions) {
    INFO(function.first);
    const auto& f = function.second;
    for (const Shape& open : {Shape{-1, -1}, Shape{-1, 2}, Shape{3, -1}, Shape{0, -1}, Shape{-1, 0}})
      for (const Shape& size : {Shape{3, 2}, Shape{0, 2}, Shape{3, 0}, Shape{0, 0}}) {
        if (!can_be(open, size)) continue;
        CAPTURE(size);
        const Tensor x = ones(size);
        Tensor eager;
        try {
          eager = f(x);
        } catch (const InvalidArgumentError&) {
          CHECK_THROWS_AS(trace([&](const Tensor& t) { return f(t); }, {spec(float32, open)})(x), InvalidArgumentError);
        }
        if (eager) check_same_bits({trace([&](const Tensor& t) { return f(t); }, {spec(float32, open)})(x)}, {eager});
      }
  }
}

TEST_CASE("gradients where some ranks are unknown, and types are mixed") {
  using Function = std::function<Tensor(const std::vector<Tensor>&)>;
  struct Row {
    std::string name;
    std::vector<Tensor> x;
    Function f;
  };
  const Tensor rows = numbers({3, 5}, -1, 1, 1).cast(float32), scale = numbers({5}, 1, 2, 2).cast(float32),
               offset = numbers({5}, -1, 1, 3), column = numbers({5, 1}, -1, 1, 4),
               batch = numbers({2, 4, 3}, -1, 1, 5), shared = numbers({1, 3, 2}, -1, 1, 6);
  const std::vector<Row> table{
      {"layer_norm", {rows, scale, offset}, [](const auto& x) { return layer_norm(x[0], x[1], x[2]); }},
      {"batch_norm_training",
       {rows, scale, offset},
       [](const auto& x) { return square(batch_norm_training(x[0], x[1], x[2]).y); }},
      {"matmul", {rows, column}, [](const auto& x) { return matmul(x[0], x[1]); }},
      {"matmul of a batch with a shared one", {batch, shared}, [](const auto& x) { return matmul(x[0], x[1]); }},
      {"multiply", {rows, offset}, [](const auto& x) { return x[0] * x[1]; }},
      {"where", {rows, offset}, [](const auto& x) { return where(x[0] > 0.0, x[0], x[1]); }},
      {"stack",
       {scale, offset},
       [](const auto& x) {
         return square(stack({x[0], x[1]}));
       }},
  };
  int ran = 0;
  for (const Row& row : table)
    for (unsigned open = 0; open < 1U << row.x.size(); ++open) {
      INFO(row.name, ", unknown: ", open);
      const auto gradients_of = [&](const std::vector<Tensor>& x) {
        GradientTape tape;
        for (const Tensor& each : x) tape.watch(each);
        return tape.gradient(row.f(x), x);
      };
      std::vector<TensorSpec> specs;
      for (std::size_t i = 0; i < row.x.size(); ++i)
        specs.push_back(spec(row.x[i].dtype(), (open >> i & 1) != 0 ? Shape::unknown_rank() : row.x[i].shape()));
      std::vector<Tensor> found;
      try {
        found = trace(gradients_of, specs)(row.x);
      } catch (const FailedPreconditionError&) {
        continue;  // which rank it has decides what is done
      }
      ++ran;
      const std::vector<Tensor> expected = gradients_of(row.x);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        REQUIRE(found[i]);
        check_same(found[i], expected[i], 1e-5);
      }
    }
  CHECK(ran > 30);
}

TEST_CASE("a tape sees through a placeholder whose type is not known") {
  const Graph graph;
  const auto scope = graph.as_default();
  const Tensor a = placeholder(float32, {2, 2}), x = placeholder();
  GradientTape tape;
  tape.watch(a);
  const Tensor dx = tape.gradient(matmul(a, x), a);
  REQUIRE(dx);
  Session session(graph);
  check_values(session.run(dx, {{a, {{1.0, 1.0}, {1.0, 1.0}}}, {x, {{1.0, 2.0}, {3.0, 4.0}}}}), {3, 7, 3, 7});
}

TEST_CASE("an unknown size as a C++ number is an error that names the tensor, the line and the way out") {
  const std::vector<std::pair<std::string, std::function<void(const Tensor&)>>> uses{
      {"a variable", [](const Tensor& x) { [[maybe_unused]] const std::int64_t n = x.shape()[0]; }},
      {"a loop",
       [](const Tensor& x) {
         for (int i = 0; i < x.shape()[0]; ++i) {
         }
       }},
      {"a loop over the sizes",
       [](const Tensor& x) {
         for ([[maybe_unused]] const std::int64_t n : x.shape()) {
         }
       }},
      {"arithmetic", [](const Tensor& x) { [[maybe_unused]] const auto n = 2 * x.shape()[0] + 1; }},
      {"a product of sizes", [](const Tensor& x) { zeros({x.shape()[0] * x.shape()[1]}); }},
      {"a quotient", [](const Tensor& x) { [[maybe_unused]] const std::int64_t n = 100 / x.shape()[0]; }},
      {"a comparison", [](const Tensor& x) { [[maybe_unused]] const bool b = x.shape()[0] == 3; }},
      {"a condition",
       [](const Tensor& x) {
         if (x.shape()[0]) {
         }
       }},
      {"a factor", [](const Tensor& x) { x* x.shape()[0]; }},
      {"arange", [](const Tensor& x) { arange(x.shape()[0]); }},
      {"arange from 0", [](const Tensor& x) { arange(0, x.shape()[0]); }},
      {"linspace", [](const Tensor& x) { linspace(0, 1, x.shape()[0]); }},
      {"eye", [](const Tensor& x) { eye(x.shape()[0]); }},
      {"one_hot", [](const Tensor& x) { one_hot({1}, x.shape()[0]); }},
      {"range", [](const Tensor& x) { x(range(0, x.shape()[0])); }},
      {"an index", [](const Tensor& x) { x(x.shape()[0] - 1); }},
      {"permutation", [](const Tensor& x) { random::permutation(x.shape()[0]); }},
      {"slice",
       [](const Tensor& x) {
         slice(x, {0, 0}, {x.shape()[0], 1});
       }},
      {"a literal",
       [](const Tensor& x) {
         tensor({x.shape()[0], x.shape()[1]});
       }},
      {"dim", [](const Tensor& x) { [[maybe_unused]] const std::int64_t n = x.shape().dim(-2); }},
      {"front", [](const Tensor& x) { [[maybe_unused]] const std::int64_t n = x.shape().front(); }},
      {"size", [](const Tensor& x) { [[maybe_unused]] const auto n = x.size(); }},
      {"a mean by hand", [](const Tensor& x) { reduce_sum(x) / x.size(); }},
      {"the size of the shape", [](const Tensor& x) { [[maybe_unused]] const auto n = x.shape().size(); }},
      {"to_vector", [](const Tensor& x) { [[maybe_unused]] const auto n = x.shape().to_vector(); }},
      {"a layer", [](const Tensor& x) { nn::Dense(x.shape()[0], 2); }},
      {"an initializer",
       [](const Tensor& x) {
         nn::init::kaiming_uniform({x.shape()[0], x.shape()[0]});
       }},
  };
  for (const auto& use_case : uses) {
    const std::string& name = use_case.first;
    const auto& use = use_case.second;
    CAPTURE(name);
    std::string text;
    try {
      trace([&](Tensor x) { use(x); }, {spec(float32, {-1, 2}, "points")});
    } catch (const Error& error) {
      text = error.what();
      if (name != "an initializer") CHECK(error.code() == Code::failed_precondition);
    }
    CHECK(text.find("unknown_sizes_test.cpp:") != std::string::npos);
    if (name == "an initializer") continue;  // says what a weight must be
    CHECK(text.find("points") != std::string::npos);
    CHECK(text.find("size(x, axis)") != std::string::npos);
  }
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor any = placeholder();
  CHECK(message_of<FailedPreconditionError>([&] { any.rank(); }).find("rank") != std::string::npos);
  CHECK_THROWS_AS(any.shape()[0], FailedPreconditionError);
  CHECK_THROWS_AS(any.size(), FailedPreconditionError);
}

TEST_CASE("-1 is the size of nobody: no tensor is made of it") {
  const std::vector<std::function<Tensor()>> makers{
      [] {
        return zeros({-1, 2});
      },
      [] {
        return ones({2, -1});
      },
      [] { return full({-1}, 3.0); },
      [] {
        return full({-1, 3}, tensor({1.0, 2.0, 3.0}));
      },
      [] { return random::normal({-1}); },
      [] {
        return random::uniform({-1, 3});
      },
      [] { return random::bernoulli({-1}); },
      [] { return random::randint(0, 3, {-1}); },
      [] { return random::truncated_normal({-1}); },
      [] { return zeros(Shape::unknown_rank()); },
  };
  for (const auto& make : makers) {
    CHECK_THROWS_AS(make(), InvalidArgumentError);
    CHECK_THROWS_AS(trace([&](Tensor x) { return x + make(); }, {spec(float32, {-1})}), InvalidArgumentError);
    Graph graph;
    const auto scope = graph.as_default();
    CHECK_THROWS_AS(make(), InvalidArgumentError);
  }
}

TEST_CASE("sizes as C++ numbers, where they are known") {
  const Tensor x = zeros({4, 5});
  CHECK(x.shape()[-1] == 5);
  CHECK(x.shape()[0] * x.shape()[1] == 20);
  CHECK(x.shape().dim(-2) == 4);
  CHECK((x.shape()[0] > 3 && -x.shape()[0] == -4));
  const bool first = x.size() > 3;
  const std::int64_t chosen = first ? x.shape()[0] : std::int64_t{1};
  CHECK(chosen == 4);
  CHECK(values(reduce_sum(ones({4}) * x.shape()[1])) == std::vector<double>{20});
  CHECK(to_string(arange(x.shape()[0]).shape()) == "[4]");
  CHECK(arange(x.shape()[0]).dtype() == int64);
  CHECK(to_string(x(range(0, x.shape()[0] - 1), all).shape()) == "[3,5]");
  CHECK(to_string(zeros({x.shape()[1], 2, std::size_t{3}, 'a' - 'a' + 1}).shape()) == "[5,2,3,1]");
  CHECK(values(tensor({x.shape()[0], x.shape()[1]})) == std::vector<double>{4, 5});
  CHECK(x.shape().to_vector() == std::vector<std::int64_t>{4, 5});
  std::int64_t product = 1;
  for (const std::int64_t size : x.shape()) product *= size;
  CHECK(product == x.size());
  CHECK(place(caught<InvalidArgumentError>([&] { return x.shape()[2]; })) == line_before({__FILE__, __LINE__ + 1}));
  CHECK_THROWS_AS(x.shape()[-3], InvalidArgumentError);
  CHECK_THROWS_AS(zeros({}).shape().back(), InvalidArgumentError);
}

TEST_CASE("a size whose graph is gone") {
  Shape shape;
  Tensor x;
  {
    Graph graph;
    const auto scope = graph.as_default();
    x = placeholder(float32, {-1, 2});
    shape = x.shape();
  }
  CHECK_THROWS_AS(zeros(shape), FailedPreconditionError);
  CHECK(place(caught<FailedPreconditionError>([&] { return x + 1.0F; })) == line_before({__FILE__, __LINE__ + 1}));
  CHECK(message_of<FailedPreconditionError>([&] { return shape.size(); }).find("does not exist any more") !=
        std::string::npos);
}

TEST_CASE("a size of one graph in another") {
  Graph one, two;
  Shape shape;
  {
    const auto scope = one.as_default();
    shape = placeholder(float32, {-1}).shape();
  }
  const auto scope = two.as_default();
  CHECK(message_of<InvalidArgumentError>([&] { return zeros(shape); }).find("not an element of this graph") !=
        std::string::npos);
}

TEST_CASE("gradients through shapes made of unknown sizes are those of eager mode, to second order") {
  const auto second = [](Tensor x) {
    GradientTape outer;
    outer.watch(x);
    GradientTape inner;
    inner.watch(x);
    const Tensor y =
        reduce_sum(reshape(reshape(x, {x.shape()[1], x.shape()[0]}) * reshape(x * x, {x.shape()[1], -1}), x.shape()) +
                   broadcast_to(reduce_mean(x, 0), {x.shape()[0], x.shape()[1]}).cast(float64) *
                       full({x.shape()[0], 1}, 2.0, {.dtype = float64}) * x);
    return outer.gradient(reduce_sum(square(inner.gradient(y, x))), x);
  };
  const auto traced = trace(second, {spec(float64, {-1, -1})});
  for (const Shape& shape : {Shape{2, 3}, {3, 2}, {1, 1}, {4, 1}}) {
    const Tensor x = numbers(shape, -1, 1, 5);
    CHECK(same_bits(traced(x), second(x)));
  }
}

// Where a size is not known, the backward walk has ops that are not needed where it is. They must not change in which
// order the gradients that reach a tensor are added.
TEST_CASE("gradients of gradients are added in one order, whatever is known of sizes") {
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> functions{
      {"residuals", [](const Tensor& x) { return (x + sin(x)) * 0.7 + (tanh(x) - x * x); }},
      {"a mean of differences", [](const Tensor& x) { return squared_difference(x, reduce_mean(x, 0)) - sigmoid(x); }},
      {"weighted classes",
       [](const Tensor& x) {
         return losses::binary_cross_entropy_with_logits(sigmoid(x), x, {.pos_weight = tensor({1.0, 2.0, 3.0})});
       }},
      {"similarity", [](const Tensor& x) { return losses::cosine_similarity(x, x * x) + losses::mse(x, sin(x)); }},
      {"a spectral norm",
       [](const Tensor& x) {
         return norm(x, {.ord = 2, .axis = {0, 1}});
       }},
      {"cross entropies", [](const Tensor& x) { return sigmoid_cross_entropy(sigmoid(x), x) + softmax(x) * x; }},
      {"attention", [](const Tensor& x) { return einsum("bd,kd->bk", x, x) * einsum("bd,bd->b", x, sin(x)); }},
  };
  for (const auto& each : functions) {
    CAPTURE(each.first);
    std::function<Tensor(const Tensor&)> derivative = [&f = each.second](const Tensor& x) {
      const Tensor y = f(x);
      return reduce_sum(y * sin(y));
    };
    for (int order = 1; order <= 3; ++order) {
      CAPTURE(order);
      derivative = [f = derivative](const Tensor& x) {
        GradientTape tape;
        tape.watch(x);
        const Tensor y = f(x);
        return tape.gradient(reduce_sum(y * cos(y)), x);
      };
      const auto unknown = trace(derivative, {spec(float32, {-1, -1})});
      const auto known = trace(derivative, {spec(float32, {4, 3})});
      const Tensor x = numbers({4, 3}, -1, 1, 3).cast(float32), eager = derivative(x);
      CHECK(same_bits(known(x), eager));
      CHECK(same_bits(unknown(x), eager));
    }
  }
}

TEST_CASE("a placeholder without a dtype is split into parts") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder();
  const std::vector<Tensor> thirds = split(x, 3), parts = split(x, {1, 5});
  CHECK(thirds.size() == 3);
  const Session session(graph);
  const Tensor value = tensor<float>({1, 2, 3, 4, 5, 6});
  check_same(session.run(thirds[1], {{x, value}}), tensor<float>({3, 4}));
  check_same(session.run(parts[1], {{x, value}}), tensor<float>({2, 3, 4, 5, 6}));
}

}  // namespace unknown_sizes_test
