// The suite on Tapestry: eagerly, and, under names that end in "_session", as graphs that a Session runs.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tapestry/tapestry.hpp>

#include "harness.hpp"
#include "tapestry_networks.hpp"

namespace {

using bench::Numbers;
using bench::Workload;
using tp::Tensor;

Numbers elements(const Tensor& x) { return x.to_vector<float>(); }

// ---- Training steps

struct Training {
  std::vector<tp::Variable> parameters;  // weights and bias of each layer
  Tensor x, target, loss;
  std::unique_ptr<tp::train::Optimizer> optimizer;

  explicit Training(const std::vector<bench::Layer>& layers) {
    for (const bench::Layer& layer : layers) add(layer, {layer.inputs, layer.outputs});
  }
  void add(const bench::Layer& layer, const tp::Shape& weights) {
    parameters.emplace_back(tp::tensor(layer.weights, weights));
    parameters.emplace_back(tp::tensor(layer.bias));
  }
};

using Loss = Tensor (*)(const std::vector<tp::Variable>& parameters, const Tensor& x, const Tensor& target);

Workload training(const std::shared_ptr<Training>& state, Loss loss, Mode mode) {
  for (Tensor* each : {&state->x, &state->target}) *each = tp::identity(*each);  // on the device that is measured
  const auto step = [s = state.get(), loss](const Tensor& x, const Tensor& target) {
    tp::GradientTape tape;
    Tensor value = loss(s->parameters, x, target);
    s->optimizer->apply_gradients(tape.gradient(value, s->parameters), s->parameters);
    return value;
  };
  std::function<void()> run = [state, step] { state->loss = step(state->x, state->target); };
  if (mode == Mode::session) {
    const auto spec = [](const Tensor& x) { return tp::spec(x.dtype(), x.shape()); };
    const auto traced = [=] { return tp::trace(step, {spec(state->x), spec(state->target)}); };
    run = [state, traced, kept = std::optional<decltype(traced())>()]() mutable {
      if (!kept) kept.emplace(traced());
      state->loss = (*kept)(state->x, state->target);
    };
  }
  return {run, [state] {
            std::vector<Numbers> results{elements(state->loss)};
            for (const tp::Variable& p : state->parameters) results.push_back(elements(p.value()));
            return results;
          }};
}

Workload mlp_step(Mode mode) {
  const std::int64_t points = 200;
  auto state = std::make_shared<Training>(bench::layers({2, 4, 8, 2, 2}));
  state->x = tp::tensor(bench::numbers(2 * points, 100), {points, 2});
  state->target = tp::one_hot(tp::tensor(bench::labels(points, 101, 2)), 2);
  state->optimizer = std::make_unique<tp::train::GradientDescentOptimizer>(0.001);
  const Loss loss = [](const std::vector<tp::Variable>& p, const Tensor& x, const Tensor& target) {
    Tensor h = x;
    for (std::size_t i = 0; i < 6; i += 2) h = tp::sigmoid(tp::matmul(h, p[i]) + p[i + 1]);
    const Tensor probabilities = tp::softmax(tp::matmul(h, p[6]) + p[7]);
    return -tp::reduce_sum(tp::reduce_sum(target * tp::log(probabilities), 1));
  };
  return training(state, loss, mode);
}

Tensor dense_relu(const std::vector<tp::Variable>& parameters, const Tensor& x) {
  Tensor h = x;
  for (std::size_t i = 0; i < parameters.size(); i += 2) {
    h = tp::matmul(h, parameters[i]) + parameters[i + 1];
    if (i + 2 < parameters.size()) h = tp::relu(h);
  }
  return h;
}

Workload adam_step(Mode mode) {
  const std::int64_t batch = 128;
  auto state = std::make_shared<Training>(bench::layers({784, 512, 256, 10}));
  state->x = tp::tensor(bench::numbers(784 * batch, 100, 0, 1), {batch, 784});
  state->target = tp::tensor(bench::labels(batch, 101, 10));
  state->optimizer =
      std::make_unique<tp::train::AdamOptimizer>(0.001, tp::train::AdamOptions{.epsilon = bench::adam_epsilon});
  const Loss loss = [](const std::vector<tp::Variable>& parameters, const Tensor& x, const Tensor& target) {
    return tp::reduce_mean(tp::sparse_softmax_cross_entropy(target, dense_relu(parameters, x)));
  };
  return training(state, loss, mode);
}

Workload sgd_step(std::int64_t width, std::int64_t batch, Mode mode) {
  auto state = std::make_shared<Training>(bench::layers({width, width, width, width}));
  const auto count = static_cast<std::size_t>(batch * width);
  state->x = tp::tensor(bench::numbers(count, 100), {batch, width});
  state->target = tp::tensor(bench::numbers(count, 101), {batch, width});
  state->optimizer = std::make_unique<tp::train::GradientDescentOptimizer>(0.01);
  const Loss loss = [](const std::vector<tp::Variable>& parameters, const Tensor& x, const Tensor& target) {
    return tp::reduce_mean(tp::squared_difference(dense_relu(parameters, x), target));
  };
  return training(state, loss, mode);
}

/// A network for digits: two convolutions, each followed by a pooling by 2, and two dense layers.
Workload cnn_step(Mode mode) {
  const std::int64_t batch = 64;
  auto state = std::make_shared<Training>(std::vector<bench::Layer>{});
  state->add(bench::layers({9 * 1, 16})[0], {3, 3, 1, 16});
  state->add(bench::layers({9 * 16, 32})[0], {3, 3, 16, 32});
  for (const bench::Layer& layer : bench::layers({7 * 7 * 32, 128, 10}))
    state->add(layer, {layer.inputs, layer.outputs});
  state->x = tp::tensor(bench::numbers(28 * 28 * batch, 100, 0, 1), {batch, 28, 28, 1});
  state->target = tp::tensor(bench::labels(batch, 101, 10));
  state->optimizer =
      std::make_unique<tp::train::AdamOptimizer>(0.001, tp::train::AdamOptions{.epsilon = bench::adam_epsilon});
  const Loss loss = [](const std::vector<tp::Variable>& p, const Tensor& x, const Tensor& target) {
    const auto block = [&](const Tensor& h, std::size_t i) {
      return tp::max_pool2d(tp::relu(tp::conv2d(h, p[i], {.padding = "SAME"}) + p[i + 1]));
    };
    const Tensor h = tp::reshape(block(block(x, 0), 2), {x.shape()[0], -1});
    const Tensor logits = tp::matmul(tp::relu(tp::matmul(h, p[4]) + p[5]), p[6]) + p[7];
    return tp::reduce_mean(tp::sparse_softmax_cross_entropy(target, logits));
  };
  return training(state, loss, mode);
}

// ---- Single functions

/// The inputs of a function and its results: y alone, or y and the gradients of the inputs.
struct Function {
  std::vector<Tensor> inputs, results;
};
using Inputs = const std::vector<Tensor>&;
using Compute = std::function<std::vector<Tensor>(Inputs)>;

Workload function(std::vector<Tensor> inputs, const Compute& compute, Mode mode) {
  for (Tensor& each : inputs) each = tp::identity(each);  // on the device that is measured
  auto state = std::make_shared<Function>(Function{inputs, {}});
  std::function<void()> run = [state, compute] { state->results = compute(state->inputs); };
  if (mode == Mode::session) {
    std::vector<tp::TensorSpec> specs;
    for (const Tensor& input : inputs) specs.push_back(tp::spec(input.dtype(), input.shape()));
    const auto traced = tp::trace(compute, specs);
    const std::vector<Tensor> outputs = traced.outputs();
    const std::vector<tp::Fetch> fetches(outputs.begin(), outputs.end());
    run = [state, callable = tp::Session(traced.graph()).make_callable(fetches, traced.inputs()),
           values = std::vector<tp::Value>(inputs.begin(), inputs.end())] {
      state->results = callable.call(values);
      // A fetched tensor may be a view of a fed one, where the eager workload has made a copy.
      for (Tensor& result : state->results) result = result.contiguous();
    };
  }
  return {run,
          [state] {
            std::vector<Numbers> results;
            for (const Tensor& each : state->results) results.push_back(elements(each));
            return results;
          },
          [state] { state->results.clear(); }};
}

/// y = f(inputs) without a tape.
Workload forward(const std::vector<Tensor>& inputs, Tensor (*f)(Inputs), Mode mode) {
  return function(
      inputs, [f](Inputs in) { return std::vector<Tensor>{f(in)}; }, mode);
}

/// y = f(inputs) and the gradients of all inputs. The seed is dy, or empty for ones.
Workload gradient(const std::vector<Tensor>& inputs, Tensor seed, Tensor (*f)(Inputs), Mode mode) {
  if (seed) seed = tp::identity(seed);
  const Compute compute = [f, seed](Inputs in) {
    tp::GradientTape tape;
    tape.watch(in);
    std::vector<Tensor> results{f(in)};
    tp::GradientOptions options;
    if (seed) options.output_gradients = seed;
    for (const Tensor& each : tape.gradient(results[0], in, options)) results.push_back(each);
    return results;
  };
  return function(inputs, compute, mode);
}

Tensor matrix(std::int64_t rows, std::int64_t columns, unsigned seed = 100) {
  return tp::tensor(bench::numbers(static_cast<std::size_t>(rows * columns), seed), {rows, columns});
}
Tensor vector(std::int64_t size, unsigned seed = 100) {
  return tp::tensor(bench::numbers(static_cast<std::size_t>(size), seed));
}

/// x + c + c + ...
constexpr int chain_length = 1000;

struct AddChain {
  Tensor x = tp::tensor(0.5), c = tp::tensor(0.25), y, gradient;
  std::unique_ptr<tp::GradientTape> tape;
  void forward() {
    tape = std::make_unique<tp::GradientTape>();
    tape->watch(x);
    y = x;
    for (int i = 0; i < chain_length; ++i) y = y + c;
  }
  void backward() {
    gradient = tape->gradient(y, x);
    tape.reset();
    y = {};
  }
};

Workload add_chain(void (*before)(AddChain&), void (*run)(AddChain&), void (*after)(AddChain&)) {
  auto state = std::make_shared<AddChain>();
  return {[=] { run(*state); }, [=] { return std::vector<Numbers>{elements(state->gradient)}; },
          [=] { before(*state); }, [=] { after(*state); }, chain_length};
}
Workload add_forward() {
  return add_chain([](AddChain&) {}, [](AddChain& c) { c.forward(); }, [](AddChain& c) { c.backward(); });
}
Workload add_backward() {
  return add_chain([](AddChain& c) { c.forward(); }, [](AddChain& c) { c.backward(); }, [](AddChain&) {});
}

Tensor chain(Inputs in) {
  const Tensor& x = in[0];
  return tp::tanh(1.5 * x + 0.25) * tp::sigmoid(x) + tp::exp(-x * x);
}
Workload chain_gradient(std::int64_t size, Mode mode) {
  return gradient(
      {vector(size)}, {}, [](Inputs in) { return tp::reduce_sum(chain(in)); }, mode);
}

Tensor convolution(Inputs in) { return tp::conv2d(in[0], in[1], {.padding = "SAME"}); }
Tensor images(unsigned seed = 100) { return tp::tensor(bench::numbers(32 * 32 * 32 * 64, seed), {32, 32, 32, 64}); }
Tensor filter() { return tp::tensor(bench::numbers(3 * 3 * 64 * 64, 102), {3, 3, 64, 64}); }

Tensor softmax(Inputs in) { return tp::softmax(in[0]); }
Tensor layer_norm(Inputs in) { return tp::layer_norm(in[0], in[1], in[2]); }
std::vector<Tensor> layer_norm_inputs() { return {matrix(4096, 1024), vector(1024, 102), vector(1024, 103)}; }

Workload rosenbrock_gradient(Mode mode) {
  return gradient(
      {vector(10)}, {},
      [](Inputs in) {
        const Tensor head = in[0](tp::range(0, 9)), tail = in[0](tp::range(1, 10));
        return tp::reduce_sum(100.0 * tp::square(tail - tp::square(head)) + tp::square(1.0 - head));
      },
      mode);
}

// ---- Loops

/// s = 0.999 s + 0.5, a hundred thousand times.
Tensor scalar_loop(Inputs in) {
  const auto is_open = [](const Tensor& i, const Tensor&) { return tp::less(i, 100'000); };
  const auto body = [](const Tensor& i, const Tensor& s) { return std::tuple{i + 1, 0.999 * s + 0.5}; };
  return std::get<1>(tp::while_loop(is_open, body, std::tuple{tp::tensor(0), in[0]}));
}

/// The sum of the last state of an LSTM over in[0] [time, batch, inputs]; in[1] are its weights.
Tensor scan(Inputs in) {
  const Tensor& weights = in[1];
  const std::int64_t batch = in[0].shape()[1], hidden = weights.shape()[1] / 4;
  const auto cell = [&](std::tuple<Tensor, Tensor> state, Tensor x) {
    const auto [h, c] = std::move(state);
    const std::vector<Tensor> gates = tp::split(tp::matmul(tp::concat({x, h}, 1), weights), 4, 1);
    const Tensor next = tp::sigmoid(gates[1]) * c + tp::sigmoid(gates[0]) * tp::tanh(gates[2]);
    const Tensor shown = tp::sigmoid(gates[3]) * tp::tanh(next);
    return std::tuple{std::tuple{shown, next}, shown};
  };
  const Tensor start = tp::zeros({batch, hidden});
  const auto [last, outputs] = tp::scan(cell, std::tuple{start, start}, in[0]);
  return tp::reduce_sum(std::get<0>(last));
}
Workload scan_gradient(Mode mode) {
  const Tensor x = tp::tensor(bench::numbers(128 * 16 * 32, 100), {128, 16, 32});
  const Tensor weights = tp::tensor(bench::numbers(96 * 256, 101, -0.1F, 0.1F), {96, 256});
  return gradient({x, weights}, {}, scan, mode);
}

Workload product(const bench::Product& p, Mode mode) {
  const auto matrices = [&](std::int64_t rows, std::int64_t columns, unsigned seed) {
    const auto count = static_cast<std::size_t>(p.batch * rows * columns);
    const tp::Shape shape = p.batch == 1 ? tp::Shape{rows, columns} : tp::Shape{p.batch, rows, columns};
    return tp::tensor(bench::numbers(count, seed), shape);
  };
  const std::vector<Tensor> inputs{matrices(p.m, p.k, 100),
                                   p.transposed ? matrices(p.n, p.k, 101) : matrices(p.k, p.n, 101)};
  if (p.transposed)
    return forward(
        inputs, [](Inputs in) { return tp::matmul(in[0], in[1], {.transpose_b = true}); }, mode);
  return forward(
      inputs, [](Inputs in) { return tp::matmul(in[0], in[1]); }, mode);
}

// ---- The list

constexpr std::int64_t side = 4096, chain_size = std::int64_t{1} << 24;

Workload on_square(Tensor (*f)(Inputs), Mode mode) { return forward({matrix(side, side)}, f, mode); }

/// The workloads that run in both modes, but for the networks.
Workloads workloads() {
  return {
      {"a/mlp_step", mlp_step},
      {"b/adam_step", adam_step},
      {"c/sgd_step", [](Mode mode) { return sgd_step(2048, 256, mode); }},
      {"e/chain_forward", [](Mode mode) { return forward({vector(chain_size)}, chain, mode); }},
      {"e/chain_gradient", [](Mode mode) { return chain_gradient(chain_size, mode); }},
      {"e/chain_mean",
       [](Mode mode) {
         return forward(
             {vector(chain_size)}, [](Inputs in) { return tp::reduce_mean(chain(in)); }, mode);
       }},
      {"e/mean_squared_error",
       [](Mode mode) {
         return forward(
             {matrix(side, side), matrix(side, side, 101)},
             [](Inputs in) { return tp::reduce_mean(tp::square(in[0] - in[1]), 1); }, mode);
       }},
      {"f/outer_add",
       [](Mode mode) {
         return forward(
             {matrix(side, 1), matrix(1, side)}, [](Inputs in) { return in[0] + in[1]; }, mode);
       }},
      {"f/sum_rows", [](Mode mode) { return on_square([](Inputs in) { return tp::reduce_sum(in[0], 1); }, mode); }},
      {"f/sum_columns", [](Mode mode) { return on_square([](Inputs in) { return tp::reduce_sum(in[0], 0); }, mode); }},
      {"f/transpose",
       [](Mode mode) { return on_square([](Inputs in) { return tp::transpose(in[0]).contiguous(); }, mode); }},
      {"f/add_transposed",
       [](Mode mode) { return on_square([](Inputs in) { return in[0] + tp::transpose(in[0]); }, mode); }},
      {"f/softmax_forward", [](Mode mode) { return forward({matrix(4096, 1024)}, softmax, mode); }},
      {"f/softmax_gradient",
       [](Mode mode) { return gradient({matrix(4096, 1024)}, matrix(4096, 1024, 101), softmax, mode); }},
      {"f/layer_norm_forward", [](Mode mode) { return forward(layer_norm_inputs(), layer_norm, mode); }},
      {"f/layer_norm_gradient",
       [](Mode mode) { return gradient(layer_norm_inputs(), matrix(4096, 1024, 101), layer_norm, mode); }},
      {"g/conv_forward",
       [](Mode mode) {
         return forward({images(), filter()}, convolution, mode);
       }},
      {"g/conv_gradient",
       [](Mode mode) {
         return gradient({images(), filter()}, images(101), convolution, mode);
       }},
      {"g/cnn_step", cnn_step},
      {"n/scalar_loop", [](Mode mode) { return forward({tp::tensor(1.0)}, scalar_loop, mode); }},
      {"n/scan_gradient", scan_gradient},
      {"o/rosenbrock_gradient", rosenbrock_gradient},
  };
}

std::vector<bench::Benchmark> benchmarks() {
  std::vector<bench::Benchmark> list{{"d/add_forward", add_forward}, {"d/add_backward", add_backward}};
  for (const Workloads& some : {workloads(), networks()}) {
    for (const auto& [name, make] : some) {
      list.push_back({name, [make = make] { return make(Mode::eager); }});
      list.push_back({name + "_session", [make = make] { return make(Mode::session); }});
    }
  }
  for (const bench::Product& each : bench::products()) {
    list.push_back({each.name, [&each] { return product(each, Mode::eager); }});
    list.push_back({each.name + "_session", [&each] { return product(each, Mode::session); }});
  }
  return list;
}

std::vector<bench::MemoryBenchmark> memory_benchmarks() {
  std::vector<bench::MemoryBenchmark> list;
  for (const Mode mode : {Mode::eager, Mode::session}) {
    const std::string suffix = mode == Mode::eager ? "" : "_session";
    list.push_back({"h/sgd_step" + suffix, [mode] { return sgd_step(2048, 256, mode); },
                    [mode] { return sgd_step(16, 4, mode); }});
    list.push_back({"h/chain_gradient" + suffix, [mode] { return chain_gradient(chain_size, mode); },
                    [mode] { return chain_gradient(64, mode); }});
    list.push_back({"h/gpt_step" + suffix, [mode] { return gpt_step(mode); }, [mode] { return gpt_step(mode, 1); }});
  }
  return list;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Library library;
  library.facts = [] {
    tp::matmul(tp::eye(2), tp::eye(2));  // makes the library choose its kernels
    return std::vector<std::pair<std::string, std::string>>{{"library", "Tapestry " TAPESTRY_VERSION},
                                                            {"threads", std::to_string(tp::num_threads())}};
  };
  library.set_threads = [](int count) { tp::set_num_threads(count); };
  library.benchmarks = benchmarks();
  library.memory_benchmarks = memory_benchmarks();
  const auto at_start = std::make_shared<std::int64_t>();
  library.start_counting = [at_start] {
    tp::trim_memory();
    tp::reset_peak_memory();
    *at_start = tp::memory_stats().in_use;
  };
  library.peak_bytes = [at_start] { return tp::memory_stats().peak - *at_start; };
  tp::Device device;
  std::optional<tp::DeviceScope> scope;
  library.use_device = [&](const std::string& name) {
    device = tp::Device(name);
    scope.emplace(tp::tensorflow_name(device), tp::Where::here());
  };
  library.synchronize = [&] { tp::synchronize(device); };
  return bench::run_suite(argc, argv, library);
}
