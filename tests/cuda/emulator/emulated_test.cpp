// What only an emulated device can show: other orders of threads and blocks, too little memory, no device and several.

#include <cstdlib>
#include <cstring>
#include <thread>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "backend/cuda_plugin.hpp"
#include "environment.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test {
namespace {

const Device gpu = cuda(0);

bool same_bits(const Tensor& a, const Tensor& b) {
  const Elements x = a.to_vector<double>(), y = b.to_vector<double>();
  return a.shape() == b.shape() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0);
}

std::string status() {
  void* handle = dlopen(std::getenv("TAPESTRY_CUDA_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle);
  return static_cast<const CudaPlugin*>(dlsym(handle, cuda_plugin_symbol))->find().status;
}

TEST_SUITE("emulated CUDA device") {
  TEST_CASE("no bit depends on the order of threads and blocks") {
    std::vector<OpCase> rows = op_cases();
    const auto large = [&](const std::string& name, const Shape& shape, const std::function<Tensor(const Tensor&)>& f) {
      rows.push_back({.name = name + ", large", .inputs = {numbers(shape, -1, 1, 7)}, .f = [=](const auto& x) {
                        return f(x[0].cast(float32));
                      }});
    };
    for (const Shape& shape : {Shape{100, 1100}, Shape{1100, 100}, Shape{70000}}) {
      const int last = shape.rank() - 1;
      large("sum", shape, [](const Tensor& x) { return reduce_sum(square(x)); });
      large("sum of rows", shape, [=](const Tensor& x) { return reduce_sum(square(x), {last}); });
      large("sum of columns", shape, [](const Tensor& x) { return reduce_sum(square(x), {0}); });
      large("cumsum", shape, [=](const Tensor& x) { return cumsum(x, last); });
      large("softmax", shape, [](const Tensor& x) { return softmax(x); });
      large("log_softmax", shape, [](const Tensor& x) { return log_softmax(x); });
      large("sort", shape, [](const Tensor& x) { return sort(x); });
      large("gather", shape, [](const Tensor& x) { return gather(x, tensor({3, 7, 3, 0}).to(x.device()), 0); });
    }
    for (const OpCase& row : rows) {
      INFO(row.name);
      std::vector<Tensor> moved, first;
      for (const Tensor& input : row.inputs) moved.push_back(input.to(gpu));
      for (const char* order : {"forward", "backward", "3"}) {
        const Setting in_order("EMULATED_CUDA_ORDER", order);
        INFO(std::string(order));
        random::seed(3);
        const std::vector<Tensor> results = value_and_gradients(row, moved);
        if (first.empty()) first = results;
        for (std::size_t i = 0; i < results.size(); ++i) CHECK(same_bits(results[i], first[i]));
      }
    }
  }

  TEST_CASE("too little memory: what is kept is given back, and then an error tells the sizes") {
    trim_memory(gpu);
    const std::int64_t before = memory_stats(gpu).in_use;
    const Setting limit("EMULATED_CUDA_MEMORY", std::to_string(before + 56'000'000));
    const Shape large{4'000'000};
    const TensorOptions there{.dtype = float32, .device = gpu};
    { const Tensor gone = zeros({3'000'000}, there); }
    CHECK(memory_stats(gpu).cached >= 12'000'000);
    const Tensor first = zeros(large, there), second = zeros(large, there), third = zeros(large, there);
    CHECK(memory_stats(gpu).cached < 12'000'000);
    CHECK(memory_stats(gpu).in_use == before + 48'000'000);
    CHECK_THROWS_WITH_AS(zeros({8'000'000}, there),
                         doctest::Contains("OOM when allocating 32000000 bytes on /device:GPU:0: "),
                         ResourceExhaustedError);
    CHECK_THROWS_WITH_AS(zeros({8'000'000}, there),
                         doctest::Contains(" bytes are in use, 0 more are in the pool, and the device has "),
                         ResourceExhaustedError);
    CHECK(reduce_sum(first).item<float>() == 0);
  }

  TEST_CASE("memory comes back after all ops") {
    const auto run_all = [] {
      for (const OpCase& row : op_cases()) {
        std::vector<Tensor> moved;
        for (const Tensor& input : row.inputs) moved.push_back(input.to(gpu));
        value_and_gradients(row, moved);
      }
      trim_memory(gpu);
    };
    run_all();
    const std::int64_t before = memory_stats(gpu).in_use;
    run_all();
    CHECK(memory_stats(gpu).in_use == before);
    CHECK(memory_stats(gpu).cached == 0);
  }

  TEST_CASE("several devices are several memories") {
    REQUIRE(devices() == std::vector<Device>{cpu(), cuda(0), cuda(1)});
    const Tensor x = tensor({1.0F, 2.0F, 3.0F}), a = x.to(cuda(0)), b = a.to(cuda(1));
    CHECK(b.device() == cuda(1));
    CHECK((b * 2.0F).to_vector<float>() == std::vector<float>{2, 4, 6});
    CHECK_THROWS_WITH_AS(a + b, doctest::Contains("input #0 is on /device:GPU:0 and input #1 on /device:GPU:1"),
                         InvalidArgumentError);
    const std::int64_t before = memory_stats(cuda(0)).in_use;
    const Tensor c = zeros({1000}, {.dtype = float32, .device = cuda(1)});
    CHECK(memory_stats(cuda(0)).in_use == before);
    CHECK(matmul(reshape(b, {1, 3}), reshape(b, {3, 1})).item<float>() == 14);
  }

  TEST_CASE("threads use devices side by side") {
    std::vector<std::thread> threads;
    std::vector<double> sums(4);
    for (std::size_t i = 0; i < sums.size(); ++i)
      threads.emplace_back([&, i] {
        for (int j = 0; j < 20; ++j) {
          const Tensor x = ones({300, 20}, {.dtype = float64, .device = cuda(static_cast<int>(i) % 2)});
          sums[i] += reduce_sum(softmax(x) + x).item<double>();
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const double sum : sums) CHECK(sum == doctest::Approx(20 * 6300));
  }

  TEST_CASE("a graph on two devices and the CPU") {
    const Tensor data = numbers({16, 8}, -1, 1, 3);
    const auto expected = reduce_sum(cumsum(tanh(data), 1) * tanh(data)).item<double>();
    const Graph graph;
    const auto scope = graph.as_default();
    const Tensor x = placeholder(float64, {-1, 8}, "x");
    const auto on = [](Device place, const auto& make) {
      const auto there = device(place);
      return make();
    };
    const Tensor first = on(cuda(0), [&] { return tanh(x); });
    const Tensor second = on(cuda(1), [&] { return cumsum(first, 1); });
    const Tensor third = on(cpu(), [&] { return second * first; });
    const Tensor last = on(cuda(1), [&] { return reduce_sum(third); });
    Session session(graph);
    for (int i = 0; i < 50; ++i)
      CHECK(session.run(last, {{x, data}}).item<double>() == doctest::Approx(expected).epsilon(1e-10));
  }

  TEST_CASE("why there is no device") {
    CHECK(status().starts_with("CUDA is available: Emulated GPU (compute capability 9.0, 1024 MiB), Emulated GPU"));
    const Setting none("EMULATED_CUDA_DEVICES", "0");
    CHECK(status() == "the driver finds no device (is CUDA_VISIBLE_DEVICES set?)");
    {
      const Setting old("EMULATED_CUDA_DRIVER", "12040");
      CHECK(status().starts_with("the NVIDIA driver is for CUDA 12.4, and this build needs 13.0"));
    }
    const Setting missing("EMULATED_CUDA_DRIVER", "0");
    CHECK(status().starts_with("there is no NVIDIA driver"));
  }
}

}  // namespace
}  // namespace tapestry::test
