// The suite on Tapestry, eagerly.
#include <memory>

#include <tapestry/tapestry.hpp>

#include "harness.hpp"

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
    for (const bench::Layer& layer : layers) {
      parameters.emplace_back(tp::tensor(layer.weights, {layer.inputs, layer.outputs}));
      parameters.emplace_back(tp::tensor(layer.bias));
    }
  }
};

Workload training(std::shared_ptr<Training> state, Tensor (*loss)(const Training&)) {
  return {[state, loss] {
            tp::GradientTape tape;
            state->loss = loss(*state);
            state->optimizer->apply_gradients(tape.gradient(state->loss, state->parameters), state->parameters);
          },
          [state] {
            std::vector<Numbers> results{elements(state->loss)};
            for (const tp::Variable& p : state->parameters) results.push_back(elements(p.value()));
            return results;
          }};
}

Workload mlp_step() {
  const std::int64_t points = 200;
  auto state = std::make_shared<Training>(bench::layers({2, 4, 8, 2, 2}));
  state->x = tp::tensor(bench::numbers(2 * points, 100), {points, 2});
  state->target = tp::one_hot(tp::tensor(bench::labels(points, 101, 2)), 2);
  state->optimizer = std::make_unique<tp::train::GradientDescentOptimizer>(0.001);
  return training(state, [](const Training& s) {
    const auto& p = s.parameters;
    Tensor h = s.x;
    for (std::size_t i = 0; i < 6; i += 2) h = tp::sigmoid(tp::matmul(h, p[i]) + p[i + 1]);
    const Tensor probabilities = tp::softmax(tp::matmul(h, p[6]) + p[7]);
    return -tp::reduce_sum(tp::reduce_sum(s.target * tp::log(probabilities), 1));
  });
}

Tensor dense_relu(const Training& s) {
  Tensor h = s.x;
  for (std::size_t i = 0; i < s.parameters.size(); i += 2) {
    h = tp::matmul(h, s.parameters[i]) + s.parameters[i + 1];
    if (i + 2 < s.parameters.size()) h = tp::relu(h);
  }
  return h;
}

Workload adam_step() {
  const std::int64_t batch = 128;
  auto state = std::make_shared<Training>(bench::layers({784, 512, 256, 10}));
  state->x = tp::tensor(bench::numbers(784 * batch, 100, 0, 1), {batch, 784});
  state->target = tp::tensor(bench::labels(batch, 101, 10));
  state->optimizer =
      std::make_unique<tp::train::AdamOptimizer>(0.001, tp::train::AdamOptions{.epsilon = bench::adam_epsilon});
  return training(state, [](const Training& s) {
    return tp::reduce_mean(tp::sparse_softmax_cross_entropy(s.target, dense_relu(s)));
  });
}

Workload sgd_step(std::int64_t width, std::int64_t batch) {
  auto state = std::make_shared<Training>(bench::layers({width, width, width, width}));
  const auto count = static_cast<std::size_t>(batch * width);
  state->x = tp::tensor(bench::numbers(count, 100), {batch, width});
  state->target = tp::tensor(bench::numbers(count, 101), {batch, width});
  state->optimizer = std::make_unique<tp::train::GradientDescentOptimizer>(0.01);
  return training(state,
                  [](const Training& s) { return tp::reduce_mean(tp::squared_difference(dense_relu(s), s.target)); });
}

// ---- Single functions

/// y = f(inputs) without a tape, or with the gradients of all inputs from the seed (dy, or empty for ones).
struct Function {
  std::vector<Tensor> inputs;
  Tensor (*f)(const std::vector<Tensor>&);
  Tensor seed, y;
  std::vector<Tensor> gradients;
};

Workload forward(std::vector<Tensor> inputs, Tensor (*f)(const std::vector<Tensor>&)) {
  auto state = std::make_shared<Function>(Function{std::move(inputs), f, {}, {}, {}});
  return {[state] { state->y = state->f(state->inputs); }, [state] { return std::vector<Numbers>{elements(state->y)}; },
          [state] { state->y = {}; }};
}

Workload gradient(std::vector<Tensor> inputs, const Tensor& seed, Tensor (*f)(const std::vector<Tensor>&)) {
  auto state = std::make_shared<Function>(Function{std::move(inputs), f, seed, {}, {}});
  return {[state] {
            tp::GradientTape tape;
            tape.watch(state->inputs);
            state->y = state->f(state->inputs);
            tp::GradientOptions options;
            if (state->seed) options.output_gradients = state->seed;
            state->gradients = tape.gradient(state->y, state->inputs, options);
          },
          [state] {
            std::vector<Numbers> results{elements(state->y)};
            for (const Tensor& g : state->gradients) results.push_back(elements(g));
            return results;
          },
          [state] {
            state->y = {};
            state->gradients.clear();
          }};
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

Tensor chain(const std::vector<Tensor>& in) {
  const Tensor& x = in[0];
  return tp::tanh(1.5 * x + 0.25) * tp::sigmoid(x) + tp::exp(-x * x);
}
Workload chain_forward(std::int64_t size) { return forward({vector(size)}, chain); }
Workload chain_gradient(std::int64_t size) {
  return gradient({vector(size)}, {}, [](const std::vector<Tensor>& in) { return tp::reduce_sum(chain(in)); });
}

Tensor softmax(const std::vector<Tensor>& in) { return tp::softmax(in[0]); }
Tensor layer_norm(const std::vector<Tensor>& in) { return tp::layer_norm(in[0], in[1], in[2]); }
std::vector<Tensor> layer_norm_inputs() { return {matrix(4096, 1024), vector(1024, 102), vector(1024, 103)}; }

// ---- The list

constexpr std::int64_t side = 4096, chain_size = std::int64_t{1} << 24;
using Inputs = const std::vector<Tensor>&;

std::vector<bench::Benchmark> benchmarks() {
  return {
      {"a/mlp_step", mlp_step},
      {"b/adam_step", adam_step},
      {"c/sgd_step", [] { return sgd_step(2048, 256); }},
      {"d/add_forward", add_forward},
      {"d/add_backward", add_backward},
      {"e/chain_forward", [] { return chain_forward(chain_size); }},
      {"e/chain_gradient", [] { return chain_gradient(chain_size); }},
      {"f/outer_add",
       [] {
         return forward({matrix(side, 1), matrix(1, side)}, [](Inputs in) { return in[0] + in[1]; });
       }},
      {"f/sum_rows", [] { return forward({matrix(side, side)}, [](Inputs in) { return tp::reduce_sum(in[0], 1); }); }},
      {"f/sum_columns",
       [] { return forward({matrix(side, side)}, [](Inputs in) { return tp::reduce_sum(in[0], 0); }); }},
      {"f/transpose",
       [] { return forward({matrix(side, side)}, [](Inputs in) { return tp::transpose(in[0]).contiguous(); }); }},
      {"f/add_transposed",
       [] { return forward({matrix(side, side)}, [](Inputs in) { return in[0] + tp::transpose(in[0]); }); }},
      {"f/softmax_forward", [] { return forward({matrix(4096, 1024)}, softmax); }},
      {"f/softmax_gradient", [] { return gradient({matrix(4096, 1024)}, matrix(4096, 1024, 101), softmax); }},
      {"f/layer_norm_forward", [] { return forward(layer_norm_inputs(), layer_norm); }},
      {"f/layer_norm_gradient", [] { return gradient(layer_norm_inputs(), matrix(4096, 1024, 101), layer_norm); }},
  };
}

std::vector<bench::MemoryBenchmark> memory_benchmarks() {
  return {{"h/sgd_step", [] { return sgd_step(2048, 256); }, [] { return sgd_step(16, 4); }},
          {"h/chain_gradient", [] { return chain_gradient(chain_size); }, [] { return chain_gradient(64); }}};
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
  return bench::run_suite(argc, argv, library);
}
