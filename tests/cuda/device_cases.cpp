// What holds for every op and for the memory of a CUDA device: the first GPU there is, or one that is emulated.

#include <cmath>
#include <limits>
#include <numeric>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::device_cases {
namespace {

const Device gpu = cuda(0);

/// Whether two results agree, to a part of the largest element: sums are added in another order on the GPU.
bool agree(const Tensor& actual, const Tensor& expected, double tolerance) {
  const std::vector<double> a = values(actual), b = values(expected);
  double scale = 1;
  for (const double each : b)
    if (std::isfinite(each)) scale = std::max(scale, std::abs(each));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (!same && !(std::abs(a[i] - b[i]) <= tolerance * scale)) return false;
  }
  return a.size() == b.size();
}

/// Of results of a type, relative to the largest element; of the half types some roundings one after the other.
double tolerance_of(DType dtype) {
  return dtype == float64 ? 1e-10 : dtype == float32 ? 1e-4 : dtype == float16 ? 0x1p-7 : 0x1p-4;
}

std::vector<Tensor> moved(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> result;
  for (const Tensor& each : inputs) result.push_back(each.to(gpu));
  return result;
}

Tensor random_values(const Shape& shape, DType dtype) {
  return random::uniform(shape, {.low = 0, .high = 100}).cast(dtype);
}

TEST_SUITE("CUDA device") {
  TEST_CASE("every op and its gradient agree with the CPU") {
    for (const OpCase& row : op_cases()) {
      for (const DType dtype : {float64, float32, float16, bfloat16}) {
        INFO(row.name, ", ", to_string(dtype));
        const std::vector<Tensor> inputs = converted(row.inputs, dtype);
        random::seed(3);
        std::vector<Tensor> expected;
        try {
          expected = value_and_gradients(row, inputs);
        } catch (const InvalidArgumentError&) {
          continue;  // the row mixes its inputs with float64 numbers of its own
        }
        random::seed(3);
        std::vector<Tensor> actual;
        CHECK_NOTHROW(actual = value_and_gradients(row, moved(inputs)));
        CHECK(actual.size() == expected.size());
        if (actual.size() != expected.size()) continue;
        for (std::size_t i = 0; i < actual.size(); ++i) {
          INFO("result ", i);
          CHECK(actual[i].shape() == expected[i].shape());
          CHECK(actual[i].dtype() == expected[i].dtype());
          CHECK(agree(actual[i], expected[i], tolerance_of(dtype)));
        }
      }
    }
  }

  TEST_CASE("tensors of all sizes and types come and go unchanged") {
    // The blocks of pinned memory have 4 MiB.
    constexpr std::int64_t block = 1 << 20;
    for (const std::int64_t n :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{77}, block - 1, block, block + 1, 5 * block + 3}) {
      for (const DType dtype : {boolean, uint8, int32, int64, float16, bfloat16, float32, float64}) {
        if (n > 77 && dtype != float32) continue;
        const Tensor x =
            n == 0 ? zeros({0}, {.dtype = dtype}) : random::uniform({n}, {.low = 0, .high = 100}).cast(dtype);
        const Tensor there = x.to(gpu);
        CHECK(there.device() == gpu);
        CHECK(values(there.to(cpu())) == values(x));
      }
    }
  }

  TEST_CASE("many small copies in a row bring what each of them was given") {
    std::vector<Tensor> there;
    for (int i = 0; i < 300; ++i) there.push_back(full({i % 5 + 1}, static_cast<float>(i)).contiguous().to(gpu));
    for (int i = 0; i < 300; ++i)
      CHECK(values(there[static_cast<std::size_t>(i)]) == std::vector<double>(static_cast<std::size_t>(i % 5 + 1), i));
  }

  TEST_CASE("transpositions of all sizes") {
    for (const Shape& shape :
         {Shape{16, 16}, Shape{100, 33}, Shape{3, 70, 65}, Shape{17, 3, 90}, Shape{2, 20, 3, 31}}) {
      for (const DType dtype : {uint8, bfloat16, float32, float64}) {
        const Tensor x = random_values(shape, dtype), there = x.to(gpu);
        for (int first = 0; first < shape.rank(); ++first) {
          std::vector<std::int64_t> order(static_cast<std::size_t>(shape.rank()));
          for (int i = 0; i < shape.rank(); ++i) order[static_cast<std::size_t>(i)] = (first + i) % shape.rank();
          INFO(to_string(shape), ", ", to_string(dtype), ", from axis ", first);
          CHECK(values(transpose(there, order).contiguous()) == values(transpose(x, order)));
        }
      }
    }
  }

  TEST_CASE("many parts are joined and split as on the CPU") {
    for (const DType dtype : {boolean, bfloat16, float32, int64}) {
      const std::vector<std::int64_t> sizes{1, 7, 0, 64, 3, 300, 2, 2, 5, 1, 1, 9, 31, 8, 16, 4, 4, 6, 1, 3};
      std::vector<Tensor> parts, turned, equal;
      for (const std::int64_t size : sizes) {
        parts.push_back(random_values({3, size, 2}, dtype));
        turned.push_back(transpose(random_values({size, 3}, dtype)));
        equal.push_back(broadcast_to(random_values({3, 1}, dtype), {3, 50}));
      }
      parts.push_back(random_values({3, 50000, 2}, dtype));  // alone in its kernel
      const auto agree = [&](const std::vector<Tensor>& here, const auto& f) {
        std::vector<Tensor> there;
        for (const Tensor& each : here) there.push_back(each.to(gpu));
        const std::vector<Tensor> expected = f(here), found = f(there);
        REQUIRE(expected.size() == found.size());
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i].to(cpu()), expected[i].contiguous()));
      };
      INFO(to_string(dtype));
      for (const std::vector<Tensor>& some : {parts, turned, equal}) {
        agree(some, [&](const std::vector<Tensor>& in) {
          const Tensor whole = concat(in, 1);
          std::vector<std::int64_t> widths;
          for (const Tensor& each : in) widths.push_back(each.shape()[1]);
          std::vector<Tensor> out = split(whole, widths, 1);
          out.push_back(whole);
          return out;
        });
      }
      agree(equal, [&](const std::vector<Tensor>& in) {
        const Tensor whole = stack(in, 1);
        std::vector<Tensor> out = unstack(whole, 1);
        out.push_back(whole);
        return out;
      });
    }
  }

  TEST_CASE("views are read where they are") {
    const Tensor x = random::uniform({4, 6, 8}), there = x.to(gpu);
    CHECK(values(transpose(there, {2, 0, 1}) + 1.0) == values(transpose(x, {2, 0, 1}) + 1.0));
    CHECK(values(transpose(there, {2, 0, 1}).contiguous()) == values(transpose(x, {2, 0, 1})));
    CHECK(agree(reduce_sum(transpose(there, {1, 2, 0}), {0, 2}), reduce_sum(transpose(x, {1, 2, 0}), {0, 2}), 1e-6));
    CHECK(values(flip(there, {1}) * there) == values(flip(x, {1}) * x));
  }

  TEST_CASE("long reductions, shared by several blocks, agree and repeat") {
    random::seed(7);
    for (const Shape& shape : {Shape{1000003}, Shape{1003, 1009}, Shape{3, 400001}, Shape{400001, 3}}) {
      const Tensor x = random::uniform(shape), there = x.to(gpu);
      for (int axis = 0; axis < shape.rank(); ++axis) {
        INFO(to_string(shape), ", axis ", axis);
        CHECK(agree(reduce_sum(there, {axis}), reduce_sum(x, {axis}), 1e-6));
        CHECK(values(reduce_max(there, {axis})) == values(reduce_max(x, {axis})));
        CHECK(values(argmax(there, axis)) == values(argmax(x, axis)));
        CHECK(values(reduce_sum(there, {axis})) == values(reduce_sum(there, {axis})));
      }
      CHECK(agree(reduce_mean(there), reduce_mean(x), 1e-6));
    }
  }

  TEST_CASE("random numbers are the CPU's") {
    for (const DType dtype : {float32, float64, float16, bfloat16}) {
      for (const std::int64_t n : {1, 1000, 100003}) {
        const auto drawn = [&](Device device) {
          random::seed(5);
          return std::vector<Tensor>{random::uniform({n}, {.low = -2, .high = 3, .dtype = dtype, .device = device}),
                                     random::normal({n}, {.mean = 1, .stddev = 2, .dtype = dtype, .device = device}),
                                     random::truncated_normal({n}, {.dtype = dtype, .device = device}),
                                     random::bernoulli({n}, 0.3, {.dtype = dtype, .device = device}),
                                     random::randint(-5, 1000, {n}, int64, device)};
        };
        const std::vector<Tensor> here = drawn(cpu()), there = drawn(gpu);
        for (std::size_t i = 0; i < here.size(); ++i) {
          INFO("distribution ", i, ", ", to_string(dtype), ", ", n);
          // Without fused multiplication the CPU's normal numbers have other last bits.
          const bool exact = (i != 1 && i != 2) || __builtin_cpu_supports("fma");
          CHECK(agree(there[i], here[i], exact ? 0 : is_half(dtype) ? tolerance_of(dtype) : 1e-5));
        }
      }
    }
  }

  TEST_CASE("row-sparse gradients change the rows of a table as on the CPU") {
    for (const DType dtype : {float32, float64, float16}) {
      const Tensor table = random::normal({50, 20}, {.dtype = float64}).cast(dtype);
      const auto trained = [&](Device device) {
        const Variable w(table.to(device));
        const Tensor ids = tensor({3, 49, 3, 0}).to(device);
        train::GradientDescentOptimizer optimizer(0.5);
        train::MomentumOptimizer momentum(0.5, 0.5);
        for (int i = 0; i < 2; ++i) {
          optimizer.minimize([&] { return reduce_sum(square(gather(w, ids))); }, {w});
          momentum.minimize([&] { return reduce_sum(square(gather(w, ids))); }, {w});
        }
        return w.value();
      };
      const Tensor here = trained(cpu()), there = trained(gpu).to(cpu());
      check_values(there, values(here), dtype == float16 ? 1e-2 : 1e-5);
      check_values(there(2), values(table(2)));
      CHECK(values(there(3)) != values(table(3)));
    }
  }

  TEST_CASE("values that an op refuses are refused in the CPU's words") {
    const Tensor x = zeros({5, 2}, {.device = gpu});
    const auto whole = [](const std::vector<int>& numbers) { return tensor(numbers).to(gpu); };
    CHECK_THROWS_WITH_AS(gather(x, whole({0, 4, 7})), doctest::Contains("indices[2] = 7 is not in [0, 5)"),
                         InvalidArgumentError);
    CHECK_THROWS_WITH_AS(mod(whole({1, 2}), whole({1, 0})), doctest::Contains("Integer division by zero"),
                         InvalidArgumentError);
    CHECK_THROWS_WITH_AS(power(whole({1, 2}), whole({1, -1})),
                         doctest::Contains("Integers to negative integer powers are not allowed"),
                         InvalidArgumentError);
    // Indices that do not lie one behind another, of rows to be changed.
    const Variable table(x);
    const Tensor column = reshape(whole({0, 1, 7, 3, 2, 5}), {3, 2})(range(0, 3), 0);
    train::GradientDescentOptimizer optimizer(0.1);
    CHECK_THROWS_WITH_AS(optimizer.apply_gradients({{to_tensor({column, ones({3, 2}, {.device = gpu})}, x), table}}),
                         doctest::Contains("indices[1] = 7 is not in [0, 5)"), InvalidArgumentError);
    // And what comes after works.
    CHECK(values(gather(whole({3, 4, 5}), whole({2, 0}))) == std::vector<double>{5, 3});
    CHECK(values(mod(whole({7, -7}), whole({3, 3}))) == std::vector<double>{1, 2});
  }

  TEST_CASE("a tensor on the wrong device is an error that names both") {
    CHECK_THROWS_WITH_AS(zeros({2}, {.device = gpu}) + zeros({2}),
                         doctest::Contains("input #0 is on /device:GPU:0 and input #1 on /device:CPU:0"),
                         InvalidArgumentError);
  }

  TEST_CASE("memory comes back") {
    trim_memory(gpu);
    const std::int64_t before = memory_stats(gpu).in_use;
    {
      const Tensor x = random::uniform({1000, 1000}, {.device = gpu});
      CHECK(reduce_sum(x + x).item<float>() > 0);
      GradientTape tape;
      tape.watch(x);
      const Tensor y = reduce_sum(square(x) * 3.0);
      CHECK(tape.gradient(y, x).device() == gpu);
    }
    CHECK(memory_stats(gpu).in_use == before);
    CHECK(trim_memory(gpu) >= 0);
  }

  TEST_CASE("a model trains as on the CPU") {
    const auto loss_after = [](Device device) {
      random::seed(11);
      const Tensor x = random::uniform({64, 8}).to(device), target = reduce_sum(square(x), {1}, {.keep_dims = true});
      Variable w(random::normal({8, 16}, {.stddev = 0.3}).to(device)),
          v(random::normal({16, 1}, {.stddev = 0.3}).to(device));
      train::AdamOptimizer optimizer(0.01);
      Tensor loss;
      for (int step = 0; step < 50; ++step)
        loss = optimizer.minimize([&] { return reduce_mean(square(matmul(tanh(matmul(x, w)), v) - target)); }, {w, v});
      return loss.item<float>();
    };
    CHECK(loss_after(gpu) == doctest::Approx(loss_after(cpu())).epsilon(1e-3));
  }

  TEST_CASE("mixed precision trains as on the CPU, eagerly and traced") {
    const auto losses_on = [](Device device, bool traced) {
      random::seed(11);
      nn::Dense hidden(3, 8), output(8, 1);
      hidden.to(device);
      output.to(device);
      std::vector<Variable> parameters = hidden.parameters();
      for (const Variable& each : output.parameters()) parameters.push_back(each);
      train::AdamOptimizer optimizer(0.05);
      train::LossScale loss_scale({.growth_steps = 4});
      const auto minimize = [&](const Tensor& x, const Tensor& y) {
        const auto loss = [&] {
          const Autocast scope(float16);
          return losses::mse(y, output(tanh(hidden(x))));
        };
        return loss_scale.minimize(optimizer, loss, parameters);
      };
      const auto step = trace(minimize, {spec(float32, {-1, 3}), spec(float32, {-1, 1})});
      const Tensor x = reshape(linspace(-1.0, 1.0, 24), {8, 3}).to(device), y = reduce_sum(x, 1, {.keep_dims = true});
      std::vector<double> found;
      for (int i = 0; i < 10; ++i) {
        // One of the steps has a gradient that float16 cannot hold.
        const Tensor from = i == 3 ? x * 1e6 : x;
        const auto loss = (traced ? step(from, y) : minimize(from, y)).item<double>();
        found.push_back(std::isfinite(loss) ? loss : -1);
        found.push_back(loss_scale.value());
      }
      found.push_back(static_cast<double>(optimizer.iterations()));
      return found;
    };
    const std::vector<double> expected = losses_on(cpu(), false);
    CHECK(expected.back() == 9);
    for (const bool traced : {false, true}) {
      const std::vector<double> found = losses_on(gpu, traced);
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-2));
    }
  }

  TEST_CASE("a graph split over CPU and GPU learns what it learns on the CPU") {
    const auto losses = [](const Device& first, const Device& second) {
      random::seed(11);
      const Tensor points = reshape(linspace(-1.0, 1.0, 24), {8, 3});
      const Graph graph;
      const Graph::Scope scope(graph);
      const Tensor x = placeholder(float32, {-1, 3}, "x");
      Tensor y = x;
      for (const Device& place : {first, second}) {
        const auto there = device(place);
        const std::int64_t width = y.shape().back();
        const Variable w(random::normal({width, 4})), b(zeros({4}));
        y = tanh(matmul(y, w) + b);
      }
      const Tensor loss = reduce_mean(square(y - 0.5));
      const Operation step = train::AdamOptimizer(0.1).minimize(loss);
      Session session;
      session.run(global_variables_initializer());
      std::vector<double> found;
      for (int i = 0; i < 5; ++i)
        found.push_back(std::get<0>(session.run(std::tuple{loss, step}, {{x, points}})).item<float>());
      return found;
    };
    const std::vector<double> expected = losses(cpu(), cpu());
    for (const Device& first : {cpu(), gpu}) {
      const std::vector<double> found = losses(first, gpu);
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-4));
    }
    CHECK(expected.back() < expected.front());
  }

  TEST_CASE("what does not fit is refused, with the numbers") {
    const auto ask = [] { return zeros({std::int64_t{1} << 40}, {.device = gpu}); };
    CHECK_THROWS_WITH_AS(ask(), doctest::Contains("OOM when allocating 4398046511104 bytes on /device:GPU:0: "),
                         ResourceExhaustedError);
    CHECK(reduce_sum(ones({10}, {.device = gpu})).item<float>() == 10);
  }
}

}  // namespace
}  // namespace tapestry::test::device_cases
