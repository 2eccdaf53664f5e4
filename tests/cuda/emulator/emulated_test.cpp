// What only an emulated device can show: other orders of threads and blocks, too little memory, no device and several.

#include <cstdlib>
#include <cstring>
#include <thread>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "backend/cuda_plugin.hpp"
#include "emulator.hpp"
#include "environment.hpp"
#include "op_cases/op_cases.hpp"
#include "same_bits.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test {
namespace {

const Device gpu = cuda(0);

using Inputs = std::vector<Tensor>;

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

  TEST_CASE("float32 products round their operands where that is allowed, and others never") {
    // TF32 holds the first number, bfloat16 neither.
    const std::vector<double> exact{1 + std::ldexp(1, -9), 1 + std::ldexp(1, -12)};
    const auto product = [&](const char* precision, DType dtype) {
      set_matmul_precision(precision);
      const Tensor x = reshape(tensor(exact), {1, 2}).cast(dtype).to(gpu), one = eye(2).cast(dtype).to(gpu);
      std::vector<double> found = matmul(x, one).to_vector<double>();
      const Tensor image = reshape(x, {1, 1, 1, 2}), filter = reshape(one, {1, 1, 2, 2});
      if (dtype != float32 || std::string_view(precision) != "medium")
        CHECK(conv2d(image, filter).to_vector<double>() == found);
      set_matmul_precision("highest");
      return found;
    };
    for (int i = 0; i < 2; ++i) {  // the second time, with what was chosen before
      CHECK(product("highest", float32) == exact);
      CHECK(product("high", float32) == std::vector<double>{exact[0], 1});
      CHECK(product("medium", float32) == std::vector<double>{1, 1});
      CHECK(product("medium", float64) == exact);
    }
  }

  TEST_CASE("bias and activation behind a product are one call of cuBLASLt where it has them") {
    const Tensor x = numbers({64, 24}, -1, 1, 3).cast(float32), w = numbers({24, 72}, -1, 1, 4).cast(float32);
    const Tensor row = numbers({72}, -1, 1, 5).cast(float32), column = reshape(slice(row, {0}, {64}), {64, 1});
    const Tensor tall = numbers({4096, 3}, -1, 1, 6).cast(float32), narrow = slice(w, {0, 0}, {3, 1});
    const Tensor whole = matmul(x, w) * 0.5F;
    const auto dense = [](const Inputs& in) { return matmul(in[0], in[1]) + in[2]; };
    struct Case {
      std::string name;
      Inputs inputs;
      std::function<Tensor(const Inputs&)> f;
      bool is_one_call = true;
    };
    const std::vector<Case> cases{
        {"bias", {x, w, row}, dense},
        {"bias in front", {x, w, row}, [](const Inputs& in) { return in[2] + matmul(in[0], in[1]); }},
        {"bias_add", {x, w, row}, [](const Inputs& in) { return bias_add(matmul(in[0], in[1]), in[2]); }},
        {"bias of rank 2", {x, w, reshape(row, {1, 72})}, dense},
        {"bias of one column", {tall, narrow, slice(row, {0}, {1})}, dense},
        {"relu", {x, w}, [](const Inputs& in) { return relu(matmul(in[0], in[1])); }},
        {"gelu", {x, w}, [](const Inputs& in) { return gelu(matmul(in[0], in[1]), true); }},
        {"bias and relu", {x, w, row}, [=](const Inputs& in) { return relu(dense(in)); }},
        {"bias and gelu", {x, w, row}, [=](const Inputs& in) { return gelu(dense(in), true); }},
        {"transposed",
         {transpose(x).contiguous(), transpose(w).contiguous(), row},
         [](const Inputs& in) {
           return relu(matmul(in[0], in[1], {.transpose_a = true, .transpose_b = true}) + in[2]);
         }},
        {"a number for each row", {x, w, column}, dense, false},
        {"one number", {x, w, row(0)}, dense, false},
        {"one number in an array", {x, w, slice(row, {0}, {1})}, dense, false},
        {"a number for each element", {x, w, whole}, dense, false},
        {"float64", {x.cast(float64), w.cast(float64), row.cast(float64)}, dense, false},
        {"float16", {x.cast(float16), w.cast(float16), row.cast(float16)}, dense},
        {"bfloat16 and gelu",
         {x.cast(bfloat16), w.cast(bfloat16), row.cast(bfloat16)},
         [=](const Inputs& in) { return gelu(dense(in), true); }},
        {"batches", {stack({x, x}), w, row}, dense, false},
        {"difference", {x, w, row}, [](const Inputs& in) { return matmul(in[0], in[1]) - in[2]; }, false},
        {"exact gelu", {x, w, row}, [=](const Inputs& in) { return gelu(dense(in)); }, false},
        {"relu before the bias",
         {x, w, row},
         [](const Inputs& in) { return relu(matmul(in[0], in[1])) + in[2]; },
         false},
        {"more behind it", {x, w, row}, [=](const Inputs& in) { return relu(dense(in)) * 2.0F; }, false},
        {"the sum is needed, too",
         {x, w, row},
         [=](const Inputs& in) {
           const Tensor sum = dense(in);
           return concat({relu(sum), sum}, 0);
         },
         false},
        {"the product is needed, too",
         {x, w, row},
         [](const Inputs& in) {
           const Tensor product = matmul(in[0], in[1]);
           return concat({relu(product + in[2]), product}, 0);
         },
         false},
        {"no algorithm for these sizes",
         {x, slice(w, {0, 0}, {24, 70}), slice(row, {0}, {70})},
         [=](const Inputs& in) { return gelu(dense(in), true); },
         false},
        {"an empty sum", {slice(x, {0, 0}, {64, 0}), slice(w, {0, 0}, {0, 72}), row}, dense, false},
    };
    for (const Case& each : cases) {
      INFO(each.name);
      const Graph graph;
      const Graph::Scope scope(graph);
      const auto place = device(gpu);
      Feeds feeds;
      Inputs symbols;
      for (const Tensor& input : each.inputs) {
        symbols.push_back(placeholder(input.dtype(), input.shape()));
        feeds.add(symbols.back(), input.contiguous().to(gpu));
      }
      const Tensor y = each.f(symbols);
      const Session session(graph, {.replay = false});  // which copies what is fed and fetched
      const emulator::Recording recording;
      const Tensor found = session.run(y, feeds);
      CHECK((recording.names == std::vector<std::string>{"cublasLtMatmul"}) == each.is_one_call);
      CHECK(std::count(recording.names.begin(), recording.names.end(), "cublasLtMatmul") <= 1);
      const Tensor expected = each.f(each.inputs);
      REQUIRE(found.shape() == expected.shape());
      const double tolerance = is_half(found.dtype()) ? 0.05 : 1e-5;
      CHECK(reduce_max(abs(found.to(cpu()) - expected)).cast(float64).item<double>() <= tolerance);
    }
  }

  TEST_CASE("half types are multiplied as they are, and their sums are rounded once") {
    Elements terms(64, -128);
    std::fill_n(terms.begin(), 32, 128);
    terms[0] = 129;  // 4097 is no number of either type
    terms[63] = -127;
    for (const DType dtype : {float16, bfloat16}) {
      const Tensor x = reshape(tensor(terms), {1, 64}).cast(dtype).to(gpu), one = ones({64, 1}).cast(dtype).to(gpu);
      const emulator::Recording recording;
      CHECK(matmul(x, one).cast(float64).item<double>() == 2);
      CHECK(recording.names.front() == "cublasLtMatmul");
    }
  }

  TEST_CASE("convolutions and their gradients are cuDNN's where it can compute them") {
    struct Case {
      std::string name;
      Shape image, filter;
      Conv2dOptions options;
      bool is_cudnns = true;
    };
    const std::vector<Case> cases{
        {"3x3", {2, 7, 6, 4}, {3, 3, 4, 5}, {}},
        {"same", {2, 7, 6, 4}, {3, 3, 4, 5}, {.padding = "SAME"}},
        {"strides that need no more at the end", {2, 7, 9, 4}, {3, 3, 4, 5}, {.strides = {2, 4}, .padding = "SAME"}},
        {"more than is read at the end", {1, 7, 7, 2}, {3, 3, 2, 3}, {.strides = 3, .padding = {1, 2, 1, 2}}},
        {"dilations", {1, 9, 9, 2}, {3, 2, 2, 3}, {.padding = 2, .dilations = {2, 3}}},
        {"groups", {2, 5, 5, 4}, {3, 3, 2, 6}, {.groups = 2}},
        {"each channel by itself", {2, 5, 5, 4}, {3, 3, 1, 8}, {.padding = "SAME", .groups = 4}},
        {"strides with more at the end", {2, 8, 8, 4}, {3, 3, 4, 5}, {.strides = 2, .padding = "SAME"}, false},
        {"more at the top", {1, 6, 6, 2}, {3, 3, 2, 3}, {.padding = {2, 0, 1, 1}}, false},
        {"no algorithm", {1, 5, 5, 6}, {3, 3, 3, 2}, {.groups = 2}, false},
        {"refused in the end", {1, 9, 9, 2}, {3, 3, 2, 3}, {.strides = 2, .dilations = 2}, false},
    };
    const std::vector<std::string> ways{"cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                        "cudnnConvolutionBackwardFilter"};
    for (const Case& each : cases) {
      for (const DType dtype : {float16, bfloat16, float32, float64}) {
        INFO(each.name, ", ", to_string(dtype));
        const auto results = [&](Device place) {
          const Tensor x = numbers(each.image, -1, 1, 3).cast(dtype).to(place),
                       filter = numbers(each.filter, -1, 1, 4).cast(dtype).to(place);
          GradientTape tape;
          tape.watch(x);
          tape.watch(filter);
          const Tensor y = conv2d(x, filter, each.options);
          Inputs all = tape.gradient(reduce_sum(square(y)), Inputs{x, filter});
          all.push_back(y);
          return all;
        };
        const Inputs expected = results(cpu());
        for (int i = 0; i < 2; ++i) {  // the second time, as it was planned before
          const emulator::Recording recording;
          const Inputs found = results(gpu);
          for (const std::string& way : ways) {
            // cuDNN is slow at the filters' gradients of float32.
            const bool is_slow = way == ways[2] && dtype == float32 && each.options.groups == 1;
            CHECK(std::count(recording.names.begin(), recording.names.end(), way) ==
                  (each.is_cudnns && dtype != float64 && !is_slow ? 1 : 0));
          }
          for (std::size_t k = 0; k < found.size(); ++k) {
            REQUIRE(found[k].shape() == expected[k].shape());
            const Tensor error = reduce_max(abs(found[k].to(cpu()) - expected[k])),
                         scale = reduce_max(abs(expected[k]));
            CHECK(error.cast(float64).item<double>() <=
                  (is_half(dtype) ? 0.02 : 1e-4) * scale.cast(float64).item<double>());
          }
        }
      }
    }
    CHECK(cuda_status().ends_with("; convolutions by cuDNN 9.19.0"));
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
    for (const Device device : devices()) synchronize(device);
    CHECK_THROWS_WITH_AS(synchronize(cuda(2)),
                         doctest::Contains("There is no device /device:GPU:2; available devices: "),
                         InvalidArgumentError);
  }

  TEST_CASE("copies between devices are in the order of the work of both") {
    for (int i = 0; i < 20; ++i) {
      Tensor x = full({3000}, i, {.dtype = float64, .device = cuda(0)});
      for (int hop = 0; hop < 6; ++hop) {
        const Tensor y = (x + 1.0).to(cuda(1 - hop % 2));
        x = Tensor();
        zeros({3000}, {.dtype = float64, .device = cuda(hop % 2)});  // takes the memory of what has been copied
        x = y;
      }
      CHECK(x.to_vector<double>() == std::vector<double>(3000, i + 6));
    }
    const Tensor m = numbers({5, 7}, -1, 1, 3).to(cuda(0));
    CHECK(same_bits(transpose(m).to(cuda(1)), transpose(m)));
    CHECK(zeros({0, 3}, {.device = cuda(0)}).to(cuda(1)).shape() == Shape{0, 3});
  }

  TEST_CASE("a training that is split over the CPU and two devices gives the same bits, recorded or not") {
    const auto on = [](Device place, const auto& make) {
      const auto there = device(place);
      return make();
    };
    const auto history = [&](bool replay) {
      const Device places[] = {cuda(0), cpu(), cuda(1)};
      std::vector<Variable> w;
      for (const Device place : places)
        w.emplace_back(numbers({8, 8}, -1, 1, static_cast<unsigned>(w.size())).to(place));
      train::MomentumOptimizer optimizer(0.05, 0.9);
      const Graph graph;
      const auto scope = graph.as_default();
      const Tensor x = placeholder(float64, {4, 8}, "x");
      Tensor y = x;
      for (std::size_t i = 0; i < 3; ++i) y = on(places[i], [&] { return tanh(matmul(y, w[i])); });
      const Tensor loss = on(cuda(0), [&] { return reduce_mean(square(y)); });
      const Operation step = optimizer.minimize(loss, w);
      const Session session(graph, {.replay = replay});
      std::vector<Tensor> seen;
      std::size_t replayed = 0;
      for (unsigned i = 0; i < 8; ++i) {
        RunMetadata metadata;
        const Tensor value =
            std::get<0>(session.run(std::tuple{loss, step}, {{x, numbers({4, 8}, -1, 1, 10 + i)}}, {}, &metadata));
        seen.push_back(value);
        CHECK(value.device() == cuda(0));
        replayed = 0;
        for (const ExecutionPlan::Step& each : metadata.plan.steps) replayed += each.replayed ? 1 : 0;
      }
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(w[i].device() == places[i]);
        seen.push_back(session.run(w[i]));
      }
      CHECK((replayed > 0) == replay);
      return seen;
    };
    const std::vector<Tensor> expected = history(false), found = history(true);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same_bits(found[i], expected[i]));
    CHECK(expected[7].item<double>() < expected[0].item<double>());
  }

  TEST_CASE("where CUDA cannot make a graph, the steps run as ever") {
    const auto history = [&](const char* graphs) {
      const Setting setting("EMULATED_CUDA_GRAPHS", graphs);
      Variable w(numbers({3, 5}, -1, 1, 21).to(gpu));
      train::MomentumOptimizer optimizer(0.1, 0.9);
      const Graph graph;
      Tensor x, loss;
      Operation step;
      {
        const auto scope = graph.as_default();
        const auto there = device(gpu);
        x = placeholder(float64, {4, 3}, "x");
        // w is read before the random numbers and used behind them.
        loss = reduce_mean(square(matmul(dropout(tanh(matmul(x, w)), 0.5), transpose(w))));
        step = optimizer.minimize(loss, std::vector<Variable>{w});
      }
      const Session session(graph);
      std::vector<Tensor> seen;
      std::string reasons;
      for (unsigned i = 0; i < 6; ++i) {
        random::seed(i);
        RunMetadata metadata;
        seen.push_back(
            std::get<0>(session.run(std::tuple{loss, step}, {{x, numbers({4, 3}, -1, 1, i)}}, {}, &metadata)));
        seen.push_back(w.value().to(cpu()));
        for (const ExecutionPlan::Step& each : metadata.plan.steps) reasons += each.why_executed + "; ";
      }
      CHECK((reasons.find("could not be recorded; ") != std::string::npos) == (*graphs == '0'));
      return seen;
    };
    const std::vector<Tensor> expected = history("1"), found = history("0");
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same_bits(found[i], expected[i]));
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

  TEST_CASE("a cuDNN that does not start is done without, and the status says so") {
    const Setting fails("EMULATED_CUDNN_FAILS", "1");
    const emulator::Recording recording;
    const Tensor x = ones({1, 3, 3, 2}, {.device = cuda(1)}), filter = ones({3, 3, 2, 1}, {.device = cuda(1)});
    CHECK(conv2d(x, filter).item<float>() == 18);
    CHECK(std::count(recording.names.begin(), recording.names.end(), "cudnnConvolutionForward") == 0);
    CHECK(cuda_status().ends_with(
        "; convolutions by Tapestry's own kernels: cuDNN does not start: CUDNN_STATUS_NOT_SUPPORTED"));
  }
}

}  // namespace
}  // namespace tapestry::test
