// Awkward shapes and layouts, graphs, second derivatives and optimizers on a CUDA device, against the CPU.

#include <cmath>
#include <memory>
#include <set>

#include <doctest/doctest.h>

#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::device_shapes {
namespace {

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensor&)>;

const Device gpu = cuda(0);

/// How far two results are apart, as a part of the largest finite element; infinite where they differ in kind.
double distance(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return HUGE_VAL;
  const Elements x = a.to_vector<double>(), y = b.to_vector<double>();
  double scale = 1, most = 0;
  for (const double each : y)
    if (std::isfinite(each)) scale = std::max(scale, std::abs(each));
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return HUGE_VAL;
    most = std::max(most, std::abs(x[i] - y[i]) / scale);
  }
  return most;
}

/// What sums and transcendental functions may differ by; whole numbers and bools by nothing.
double tolerance(DType dtype) {
  if (is_half(dtype)) return dtype == float16 ? 0x1p-9 : 0x1p-6;  // a last bit, and one more where it was summed
  return dtype == float64 ? 1e-11 : dtype == float32 ? 1e-4 : 0;
}

/// Numbers of any type in a shape; no two neighbours are equal, and few elements are.
Tensor sample(const Shape& shape, DType dtype) {
  const Tensor x = numbers(shape, -6, 6, 901);
  return dtype == boolean ? greater(x, 0.0) : dtype == uint8 ? abs(x).cast(uint8) : x.cast(dtype);
}

struct Case {
  std::string name;
  Function f;
  bool floats_only = false;
};

/// The functions of x that its shape allows.
std::vector<Case> cases_of(const Shape& shape, DType dtype) {
  std::vector<Case> cases{
      {"copy", [](const Tensor& x) { return x.contiguous(); }},
      {"reduce_max", [](const Tensor& x) { return reduce_max(x); }},
      {"maximum", [](const Tensor& x) { return maximum(x, flip(x)); }},
      {"where", [](const Tensor& x) { return where(greater(x, zeros_like(x)), x, zeros_like(x)); }},
      {"exp", [](const Tensor& x) { return exp(x); }, true},
  };
  for (const DType to : {boolean, uint8, int32, int64, float16, bfloat16, float32, float64})
    cases.push_back(
        {"cast to " + to_string(to), [=](const Tensor& x) { return (is_floating(x.dtype()) ? abs(x) : x).cast(to); }});
  if (dtype != boolean) {
    cases.push_back({"add", [](const Tensor& x) { return x + x; }});
    cases.push_back({"reduce_sum", [](const Tensor& x) { return reduce_sum(x); }});
    cases.push_back({"scalar", [](const Tensor& x) { return x - reduce_min(x); }});
  }
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::string at = " of axis " + std::to_string(axis);
    cases.push_back({"flip" + at, [=](const Tensor& x) { return flip(x, {axis}).contiguous(); }});
    cases.push_back({"concat" + at, [=](const Tensor& x) { return concat({x, x}, axis); }});
    cases.push_back({"reduce_min" + at, [=](const Tensor& x) { return reduce_min(x, {axis}); }});
    if (shape[axis] > 0) {
      cases.push_back({"argmax" + at, [=](const Tensor& x) { return argmax(x, axis); }});
      cases.push_back({"argmin" + at, [=](const Tensor& x) { return argmin(x, axis); }});
    }
    if (dtype == boolean) continue;
    cases.push_back({"reduce_sum" + at, [=](const Tensor& x) { return reduce_sum(x, {axis}); }});
    cases.push_back({"sums of the others" + at, [=](const Tensor& x) {
                       std::vector<std::int64_t> others;
                       for (int i = 0; i < x.rank(); ++i)
                         if (i != axis) others.push_back(i);
                       return others.empty() ? x : reduce_sum(x, Axes(others));
                     }});
    cases.push_back(
        {"broadcast" + at, [=](const Tensor& x) { return x * reduce_max(x, {axis}, {.keep_dims = true}); }});
    cases.push_back({"cumsum" + at, [=](const Tensor& x) { return cumsum(x, axis); }});
    cases.push_back({"cumsum backwards" + at,
                     [=](const Tensor& x) { return cumsum(x, axis, {.exclusive = true, .reverse = true}); }});
    cases.push_back({"sort" + at, [=](const Tensor& x) { return sort(x, axis); }});
    cases.push_back({"softmax" + at, [=](const Tensor& x) { return softmax(x, axis); }, true});
    cases.push_back({"log_softmax" + at, [=](const Tensor& x) { return log_softmax(x, axis); }, true});
    cases.push_back({"mean" + at, [=](const Tensor& x) { return reduce_mean(x, {axis}); }, true});
  }
  return cases;
}

/// The same function of the inputs as they lie, of all axes exchanged, and of a view that runs backwards.
std::vector<Tensor> layouts(const Tensor& x) { return {x, transpose(x), flip(x)}; }

TEST_SUITE("CUDA device") {
  TEST_CASE("awkward shapes and layouts give the CPU's results") {
    const std::vector<Shape> shapes{{},     {0},   {1},       {3, 0, 2}, {1, 1, 1},        {2, 1, 3, 1, 2, 1, 2, 2},
                                    {5, 7}, {257}, {3, 1030}, {260, 3},  {2, 3, 33, 1, 5}, {40, 20, 3}};
    for (const Shape& shape : shapes) {
      for (const DType dtype : {boolean, uint8, int32, int64, float16, bfloat16, float32, float64}) {
        // Large ones and many axes take an emulated device seconds.
        if (dtype != float32 && dtype != boolean && (shape.size() > 300 || shape.rank() > 3)) continue;
        const Tensor x = sample(shape, dtype);
        const std::vector<Tensor> here = layouts(x), there = layouts(x.to(gpu));
        for (std::size_t i = 0; i < here.size(); ++i) {
          for (const Case& each : cases_of(here[i].shape(), dtype)) {
            if (each.floats_only && !is_floating(dtype)) continue;
            INFO(each.name, ", ", to_string(dtype), to_string(shape), ", layout ", i);
            std::optional<Tensor> expected, found;
            std::string here_error, there_error;
            try {
              expected = each.f(here[i]);
            } catch (const Error& error) {
              here_error = error.message();
            }
            try {
              found = each.f(there[i]);
            } catch (const Error& error) {
              there_error = error.message();
            }
            CHECK(there_error == here_error);
            if (expected && found) CHECK(distance(*found, *expected) <= tolerance(expected->dtype()));
          }
        }
      }
    }
  }

  TEST_CASE("products of whole numbers of several tiles") {
    const Tensor a = whole_numbers({2, 20, 70}, -9, 9, 1), b = whole_numbers({70, 18}, -9, 9, 2);
    for (const DType dtype : {uint8, int32, int64}) {
      const Tensor x = a.cast(dtype), y = b.cast(dtype);
      CHECK(distance(matmul(x.to(gpu), y.to(gpu)), matmul(x, y)) == 0);
    }
  }

  TEST_CASE("float32 is float32 in products, unless they may be rounded") {
    const Tensor x = numbers({33, 70}, 1, 2, 3).cast(float32), one = eye(70), there = x.to(gpu);
    CHECK(distance(matmul(there, one.to(gpu)), x) == 0);
    for (const char* precision : {"high", "medium"}) {
      set_matmul_precision(precision);
      CHECK(distance(matmul(there, one.to(gpu)), x) <= 1e-2);
    }
    set_matmul_precision("highest");
    CHECK(distance(matmul(there, one.to(gpu)), x) == 0);
  }

  TEST_CASE("convolutions of float32 agree with the CPU, and repeat") {
    struct Case {
      Shape image, filter;
      Conv2dOptions options;
    };
    const std::vector<Case> cases{
        {{1, 1, 1, 1}, {1, 1, 1, 1}, {}},
        {{3, 9, 10, 8}, {1, 1, 8, 16}, {}},
        {{2, 13, 12, 3}, {5, 5, 3, 6}, {.padding = "SAME"}},
        {{2, 14, 13, 4}, {3, 3, 4, 8}, {.strides = 2, .padding = "SAME"}},
        {{2, 13, 13, 4}, {3, 3, 4, 8}, {.strides = {2, 1}, .padding = 1}},
        {{2, 11, 12, 4}, {3, 2, 4, 4}, {.padding = {0, 3, 2, 1}}},
        {{2, 12, 12, 4}, {3, 3, 4, 4}, {.strides = 2, .dilations = 2}},
        {{2, 9, 9, 8}, {3, 3, 4, 6}, {.padding = "SAME", .groups = 2}},
        {{2, 9, 9, 6}, {3, 3, 1, 6}, {.padding = "SAME", .groups = 6}},
        {{1, 4, 4, 2}, {3, 3, 2, 2}, {.strides = 5, .padding = 4}},
    };
    for (std::size_t i = 0; i < cases.size(); ++i) {
      INFO("case ", i);
      const auto results = [&](Device place) {
        const Tensor x = numbers(cases[i].image, -1, 1, 3).cast(float32).to(place),
                     filter = numbers(cases[i].filter, -1, 1, 4).cast(float32).to(place);
        GradientTape tape;
        tape.watch(x);
        tape.watch(filter);
        const Tensor y = conv2d(x, filter, cases[i].options);
        Inputs all = tape.gradient(reduce_sum(square(y)), Inputs{x, filter});
        all.push_back(y);
        return all;
      };
      const Inputs expected = results(cpu()), found = results(gpu), again = results(gpu);
      for (std::size_t k = 0; k < found.size(); ++k) {
        CHECK(distance(found[k], expected[k]) <= tolerance(float32));
        CHECK(distance(again[k], found[k]) == 0);
      }
    }
  }

  TEST_CASE("windows may be far larger than the images") {
    constexpr std::int64_t large = std::int64_t{1} << 40;
    const Tensor image = numbers({2, 5, 4, 3}, -6, 6, 907).cast(float32);
    const Pool2dOptions all{.window = large, .padding = "SAME"},
        most{.window = {large, 3}, .strides = {large - 2, 1}, .padding = {large - 3, large - 3, 1, 1}};
    for (const Pool2dOptions& options : {all, most})
      for (const bool maximum : {false, true}) {
        const auto pool = [&](const Tensor& x) { return maximum ? max_pool2d(x, options) : avg_pool2d(x, options); };
        const auto gradient = [&](const Tensor& x) { return grad([&](const Tensor& y) { return pool(y); })(x); };
        CAPTURE(maximum);
        CHECK(distance(pool(image.to(gpu)), pool(image)) <= tolerance(float32));
        CHECK(distance(gradient(image.to(gpu)), gradient(image)) <= tolerance(float32));
      }
  }

  TEST_CASE("NaN goes through the activation behind a product") {
    const Tensor x = numbers({64, 24}, -1, 1, 3).cast(float32), w = numbers({24, 72}, -1, 1, 4).cast(float32);
    const Tensor spoiled = where(greater(x, 0.9F), full({64, 24}, std::nanf("")), x);
    const Tensor data = concat({w, ones({1, 72})}, 0);  // the weights, and a bias
    for (const bool is_relu : {true, false}) {
      const auto dense = [&](const Tensor& in, const Tensor& weights) {
        const Tensor y = matmul(in, slice(weights, {0, 0}, {24, 72})) + reshape(slice(weights, {24, 0}, {1, 72}), {72});
        return is_relu ? relu(y) : gelu(y, true);
      };
      const Graph graph;
      const auto scope = graph.as_default();
      const auto there = device(gpu);
      const Tensor in = placeholder(float32, {64, 24}), weights = placeholder(float32, {25, 72});
      const Tensor y = dense(in, weights);
      Session session(graph);
      CHECK(distance(session.run(y, {{in, spoiled}, {weights, data}}), dense(spoiled, data)) <= tolerance(float32));
    }
  }

  TEST_CASE("rows that take a block of threads each are normalized") {
    const Tensor x = numbers({3, 1100}, -1, 1, 3), scale = numbers({1100}, -1, 1, 4),
                 offset = numbers({1100}, -1, 1, 5);
    const Tensor found = layer_norm(x.to(gpu), scale.to(gpu), offset.to(gpu));
    CHECK(distance(found, layer_norm(x, scale, offset)) <= tolerance(float64));
  }

  TEST_CASE("labels' cross entropies in short and in long rows") {
    for (const std::int64_t classes : {1, 2, 33, 1030})
      for (const DType dtype : {float16, float32, float64}) {
        INFO(classes, to_string(dtype));
        const Tensor logits = numbers({2, 5, classes}, -30, 30, 6).cast(dtype);
        const Tensor labels = reshape(mod(arange(10) * 7, classes).cast(int32), {2, 5});
        const auto loss_and_gradient = [](const Tensor& x, const Tensor& i) {
          GradientTape tape;
          tape.watch(x);
          const Tensor loss = sparse_softmax_cross_entropy(i, x);
          return Inputs{loss, tape.gradient(loss, x)};
        };
        const Inputs expected = loss_and_gradient(logits, labels);
        // The labels as a view, too.
        const Inputs found = loss_and_gradient(logits.to(gpu), transpose(transpose(labels).contiguous().to(gpu)));
        for (std::size_t i = 0; i < 2; ++i) CHECK(distance(found[i], expected[i]) <= tolerance(dtype));
        CHECK_THROWS_WITH_AS(sparse_softmax_cross_entropy((labels + classes).to(gpu), logits.to(gpu)),
                             doctest::Contains("which is outside the valid range of [0, "), InvalidArgumentError);
      }
  }

  TEST_CASE("batches are normalized, of any number of rows and channels, far from 0, too") {
    for (const Shape& shape :
         {Shape{2, 1}, {2, 40}, {7, 3}, {300, 1}, {1000, 16}, {2, 5, 13, 33}, {530, 40}, {3, 1500}})
      for (const DType dtype : {float16, float32, float64}) {
        INFO(shape, to_string(dtype));
        const std::int64_t channels = shape.sizes().back();
        const auto vector = [&](unsigned seed) { return numbers({channels}, 0.5, 2, seed).cast(dtype); };
        const Tensor x = (numbers(shape, -1, 1, 7) + (dtype == float16 ? 10.0 : 100.0)).cast(dtype),
                     g = numbers(shape, -1, 1, 8).cast(dtype);
        const auto normalized = [](const Tensor& in, const Tensor& scale, const Tensor& offset, const Tensor& weight) {
          GradientTape tape;
          for (const Tensor& each : {in, scale, offset}) tape.watch(each);
          const BatchNormTraining y = batch_norm_training(in, scale, offset);
          Inputs results = tape.gradient(y.y, Inputs{in, scale, offset}, {.output_gradients = weight});
          for (const Tensor& each : {y.y, y.mean, y.variance}) results.push_back(each);
          return results;
        };
        // What float32 makes of these numbers is compared with float64's results: the CPU's own error is as large.
        const DType exact = dtype == float16 ? float16 : float64;
        const Inputs expected = normalized(x.cast(exact), vector(9).cast(exact), vector(10).cast(exact), g.cast(exact));
        const Inputs found = normalized(x.to(gpu), vector(9).to(gpu), vector(10).to(gpu), g.to(gpu));
        for (std::size_t i = 0; i < found.size(); ++i) {
          INFO("result ", i);
          CHECK(distance(found[i].cast(exact), expected[i]) <= 4 * tolerance(dtype));
        }
      }
  }

  TEST_CASE("rows of all widths are looked up, and their gradients added up, as on the CPU") {
    for (const std::int64_t width : {1, 2, 3, 4, 8, 33, 256})
      for (const DType dtype : {uint8, float16, float32, float64}) {
        INFO(width, to_string(dtype));
        const Tensor table = numbers({20, width}, 0, 9, 11).cast(dtype), ids = mod(arange(300) * 7, 17);
        CHECK(distance(gather(table.to(gpu), ids.to(gpu)), gather(table, ids)) == 0);
        // At an address that is no multiple of 16 bytes.
        const Tensor flat = reshape(table, {-1}), behind = concat({flat(range(0, 1)), flat}, 0).to(gpu);
        CHECK(distance(gather(reshape(behind(range(1, behind.size())), table.shape()), ids.to(gpu)),
                       gather(table, ids)) == 0);
        if (!is_floating(dtype)) continue;
        const auto trained = [&](Device device) {
          const Variable w(table.to(device));
          train::MomentumOptimizer optimizer(0.01, 0.5);
          for (int i = 0; i < 2; ++i)
            optimizer.minimize([&] { return reduce_sum(square(gather(w, ids.to(device)))); }, {w});
          return w.value();
        };
        CHECK(distance(trained(gpu), trained(cpu())) <= 4 * tolerance(dtype));
      }
  }

  TEST_CASE("second derivatives agree with the CPU") {
    const auto derivatives = [](const OpCase& row, const Inputs& inputs) {
      GradientTape outer;
      Inputs sources;
      for (const Tensor& input : inputs) {
        if (!is_floating(input.dtype())) continue;
        outer.watch(input);
        sources.push_back(input);
      }
      Tensor sum = reduce_sum(square(value_and_gradients(row, inputs)[0]));
      for (const Tensor& each : value_and_gradients(row, inputs)) sum = sum + reduce_sum(square(each)).cast(float64);
      return outer.gradient(sum, sources, {.unconnected = Unconnected::zero});
    };
    for (const OpCase& row : op_cases()) {
      if (row.orders < 2) continue;
      INFO(row.name);
      Inputs moved;
      for (const Tensor& input : row.inputs) moved.push_back(input.to(gpu));
      const Inputs expected = derivatives(row, row.inputs);
      Inputs found;
      REQUIRE_NOTHROW(found = derivatives(row, moved));
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(distance(found[i], expected[i]) <= 1e-9);
    }
  }

  TEST_CASE("every optimizer's steps agree with the CPU's, eagerly and in a session") {
    const auto optimizers = [] {
      std::vector<std::unique_ptr<train::Optimizer>> list;
      list.push_back(std::make_unique<train::GradientDescentOptimizer>(0.1));
      list.push_back(std::make_unique<train::MomentumOptimizer>(0.1, 0.9));
      list.push_back(
          std::make_unique<train::MomentumOptimizer>(0.1, 0.9, train::MomentumOptions{.use_nesterov = true}));
      list.push_back(std::make_unique<train::AdamOptimizer>(0.1));
      list.push_back(std::make_unique<train::AdamWOptimizer>(0.1));
      list.push_back(std::make_unique<train::RMSPropOptimizer>(0.1));
      list.push_back(std::make_unique<train::AdagradOptimizer>(0.1));
      return list;
    };
    for (const DType dtype : {float32, float64}) {
      const Tensor start = numbers({7, 43}, -1, 1, 5).cast(dtype), x = numbers({5, 7}, -1, 1, 6).cast(dtype);
      const auto result = [&](Device place, bool graph, train::Optimizer& optimizer) {
        Variable w(start.to(place));
        const auto loss = [&](const Tensor& data) { return reduce_sum(square(tanh(matmul(data, w)) - 0.3)); };
        if (graph) {
          const Graph steps;
          const auto scope = steps.as_default();
          const auto there = device(place);
          const Tensor data = placeholder(dtype, {-1, 7}, "data");
          const Operation step = optimizer.minimize(loss(data), std::vector<Variable>{w});
          Session session(steps);
          for (int i = 0; i < 3; ++i) session.run(step, {{data, x}});
        } else {
          for (int i = 0; i < 3; ++i) optimizer.minimize([&] { return loss(x.to(place)); }, {w});
        }
        const Tensor trained = w.value();
        CHECK(trained.device() == place);
        return trained.to(cpu());
      };
      for (const bool graph : {false, true}) {
        const auto here = optimizers(), there = optimizers();
        for (std::size_t i = 0; i < here.size(); ++i) {
          INFO("optimizer ", i, std::string(graph ? " in a session, " : ", "), to_string(dtype));
          CHECK(distance(result(gpu, graph, *there[i]), result(cpu(), graph, *here[i])) <= tolerance(dtype));
        }
      }
    }
  }

  TEST_CASE("a graph that is split over the CPU and the device") {
    const Tensor data = numbers({64, 8}, -1, 1, 8).cast(float32), matrix = numbers({8, 8}, -1, 1, 9).cast(float32);
    const Tensor inner = tanh(matmul(data, matrix));
    const auto expected = static_cast<double>(reduce_mean(inner * cumsum(inner, 1)).item<float>());
    const Graph graph;
    const auto scope = graph.as_default();
    const Tensor x = placeholder(float32, {-1, 8}, "x");
    const auto on = [](Device place, const auto& make) {
      const auto there = device(place);
      return make();
    };
    const Tensor first = on(gpu, [&] { return tanh(matmul(x, constant(matrix))); });
    const Tensor middle = on(cpu(), [&] { return cumsum(first, 1); });
    const Tensor last = on(gpu, [&] { return reduce_mean(first * middle); });
    Session session(graph);
    for (int i = 0; i < 20; ++i) {
      const Tensor found = session.run(last, {{x, data}});
      CHECK(found.device() == gpu);
      CHECK(static_cast<double>(found.item<float>()) == doctest::Approx(expected).epsilon(1e-4));
    }
  }
}

}  // namespace
}  // namespace tapestry::test::device_shapes
