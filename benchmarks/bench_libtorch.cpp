// The suite on libtorch, in one file, because libtorch's headers take 20 s and 1.2 GB to compile.
#include <memory>
#include <sstream>

#include <ATen/Version.h>
#include <torch/torch.h>

#include "harness.hpp"

namespace {

using bench::Numbers;
using bench::Workload;
using torch::Tensor;

Tensor make(const Numbers& values, at::IntArrayRef shape) {
  return torch::from_blob(const_cast<float*>(values.data()), shape).clone();
}
Numbers elements(const Tensor& x) {
  const Tensor y = x.detach().contiguous();
  return Numbers(y.data_ptr<float>(), y.data_ptr<float>() + y.numel());
}

// ---- Training steps

struct Training {
  std::vector<Tensor> parameters;  // weights and bias of each layer
  Tensor x, target, loss;
  std::unique_ptr<torch::optim::Optimizer> optimizer;

  explicit Training(const std::vector<bench::Layer>& layers) {
    for (const bench::Layer& layer : layers) {
      parameters.push_back(make(layer.weights, {layer.inputs, layer.outputs}).set_requires_grad(true));
      parameters.push_back(make(layer.bias, {layer.outputs}).set_requires_grad(true));
    }
  }
  void step(const Tensor& new_loss) {
    loss = new_loss;
    for (Tensor& p : parameters) p.mutable_grad().reset();  // cheaper than zero_grad(), which fills and then adds
    loss.backward();
    optimizer->step();
  }
};

Workload training(std::shared_ptr<Training> state, std::function<Tensor(const Training&)> loss) {
  return {[state, loss] { state->step(loss(*state)); },
          [state] {
            std::vector<Numbers> results{elements(state->loss)};
            for (const Tensor& p : state->parameters) results.push_back(elements(p));
            return results;
          }};
}

Workload mlp_step() {
  const std::int64_t points = 200;
  auto state = std::make_shared<Training>(bench::layers({2, 4, 8, 2, 2}));
  state->x = make(bench::numbers(2 * points, 100), {points, 2});
  state->target = torch::one_hot(torch::tensor(bench::labels(points, 101, 2)), 2).to(torch::kFloat32);
  state->optimizer = std::make_unique<torch::optim::SGD>(state->parameters, torch::optim::SGDOptions(0.001));
  return training(state, [](const Training& s) {
    const auto& p = s.parameters;
    Tensor h = s.x;
    for (std::size_t i = 0; i < 6; i += 2) h = torch::sigmoid(torch::matmul(h, p[i]) + p[i + 1]);
    const Tensor probabilities = torch::softmax(torch::matmul(h, p[6]) + p[7], 1);
    return -(s.target * torch::log(probabilities)).sum(1).sum();
  });
}

Tensor dense_relu(const Training& s) {
  Tensor h = s.x;
  for (std::size_t i = 0; i < s.parameters.size(); i += 2) {
    h = torch::addmm(s.parameters[i + 1], h, s.parameters[i]);
    if (i + 2 < s.parameters.size()) h = torch::relu(h);
  }
  return h;
}

Workload adam_step() {
  const std::int64_t batch = 128;
  auto state = std::make_shared<Training>(bench::layers({784, 512, 256, 10}));
  state->x = make(bench::numbers(784 * batch, 100, 0, 1), {batch, 784});
  state->target = torch::tensor(bench::labels(batch, 101, 10));
  state->optimizer = std::make_unique<torch::optim::Adam>(state->parameters,
                                                          torch::optim::AdamOptions(0.001).eps(bench::adam_epsilon));
  return training(state, [](const Training& s) { return torch::cross_entropy_loss(dense_relu(s), s.target); });
}

Workload sgd_step(std::int64_t width, std::int64_t batch) {
  auto state = std::make_shared<Training>(bench::layers({width, width, width, width}));
  const auto count = static_cast<std::size_t>(batch * width);
  state->x = make(bench::numbers(count, 100), {batch, width});
  state->target = make(bench::numbers(count, 101), {batch, width});
  state->optimizer = std::make_unique<torch::optim::SGD>(state->parameters, torch::optim::SGDOptions(0.01));
  return training(state, [](const Training& s) { return torch::mse_loss(dense_relu(s), s.target); });
}

/// NHWC images and HWIO filters, in libtorch's order of the axes, and back.
Tensor to_nchw(const Tensor& x) { return x.permute({0, 3, 1, 2}).contiguous(); }
Tensor to_nhwc(const Tensor& x) { return x.permute({0, 2, 3, 1}).contiguous(); }
Tensor to_oihw(const Tensor& filter) { return filter.permute({3, 2, 0, 1}).contiguous(); }
Tensor to_hwio(const Tensor& filter) { return filter.permute({2, 3, 1, 0}).contiguous(); }

/// Reorders the rows of a dense layer's weights from those of [7, 7, 32] pixels to those of [32, 7, 7], and back.
Tensor rows_to_chw(const Tensor& w) {
  return w.reshape({7, 7, 32, -1}).permute({2, 0, 1, 3}).reshape({7 * 7 * 32, -1});
}
Tensor rows_to_hwc(const Tensor& w) {
  return w.reshape({32, 7, 7, -1}).permute({1, 2, 0, 3}).reshape({7 * 7 * 32, -1});
}

Workload cnn_step() {
  const std::int64_t batch = 64;
  auto state = std::make_shared<Training>(std::vector<bench::Layer>{});
  const auto add = [&](const bench::Layer& layer, const Tensor& weights) {
    state->parameters.push_back(weights.clone().set_requires_grad(true));
    state->parameters.push_back(make(layer.bias, {layer.outputs}).set_requires_grad(true));
  };
  for (const auto& [in, out] : {std::pair<int, int>{1, 16}, {16, 32}}) {
    const bench::Layer layer = bench::layers({9 * in, out})[0];
    add(layer, to_oihw(make(layer.weights, {3, 3, in, out})));
  }
  const std::vector<bench::Layer> dense = bench::layers({7 * 7 * 32, 128, 10});
  add(dense[0], rows_to_chw(make(dense[0].weights, {7 * 7 * 32, 128})));
  add(dense[1], make(dense[1].weights, {128, 10}));
  state->x = make(bench::numbers(28 * 28 * batch, 100, 0, 1), {batch, 1, 28, 28});
  state->target = torch::tensor(bench::labels(batch, 101, 10));
  state->optimizer = std::make_unique<torch::optim::Adam>(state->parameters,
                                                          torch::optim::AdamOptions(0.001).eps(bench::adam_epsilon));
  Workload workload = training(state, [](const Training& s) {
    const auto& p = s.parameters;
    const auto block = [&](const Tensor& h, std::size_t i) {
      return torch::max_pool2d(torch::relu(torch::conv2d(h, p[i], p[i + 1], 1, 1)), 2);
    };
    const Tensor h = block(block(s.x, 0), 2).reshape({batch, -1});
    return torch::cross_entropy_loss(torch::addmm(p[7], torch::relu(torch::addmm(p[5], h, p[4])), p[6]), s.target);
  });
  workload.results = [state] {
    const auto& p = state->parameters;
    return std::vector<Numbers>{elements(state->loss),   elements(to_hwio(p[0])), elements(p[1]),
                                elements(to_hwio(p[2])), elements(p[3]),          elements(rows_to_hwc(p[4])),
                                elements(p[5]),          elements(p[6]),          elements(p[7])};
  };
  return workload;
}

// ---- Single functions

/// A function with its inputs and its results: y = f(inputs) and, in `gradient`, the gradients of all inputs. The seed
/// is dy, or empty for a scalar y.
struct Function {
  std::vector<Tensor> inputs;
  std::function<Tensor(const std::vector<Tensor>&)> f;
  Tensor seed, y;
  std::vector<Tensor> gradients;
};
/// Converts y and the gradients to Tapestry's layout, whose images and filters have other orders of axes.
using Layouts = std::vector<Tensor (*)(const Tensor&)>;
Tensor as_it_is(const Tensor& x) { return x; }

Workload forward(std::vector<Tensor> inputs, std::function<Tensor(const std::vector<Tensor>&)> f,
                 Tensor (*layout)(const Tensor&) = as_it_is) {
  auto state = std::make_shared<Function>(Function{std::move(inputs), std::move(f), {}, {}, {}});
  return {[state] {
            const torch::NoGradGuard no_grad;
            state->y = state->f(state->inputs);
          },
          [state, layout] { return std::vector<Numbers>{elements(layout(state->y))}; }, [state] { state->y.reset(); }};
}

Workload gradient(std::vector<Tensor> inputs, Tensor seed, std::function<Tensor(const std::vector<Tensor>&)> f,
                  const Layouts& layouts = Layouts(4, as_it_is)) {
  auto state = std::make_shared<Function>(Function{std::move(inputs), std::move(f), std::move(seed), {}, {}});
  for (Tensor& x : state->inputs) x.set_requires_grad(true);
  return {[state] {
            state->y = state->f(state->inputs);
            state->gradients = torch::autograd::grad({state->y}, state->inputs, {state->seed});
          },
          [state, layouts] {
            std::vector<Numbers> results{elements(layouts[0](state->y))};
            for (std::size_t i = 0; i < state->gradients.size(); ++i)
              results.push_back(elements(layouts[i + 1](state->gradients[i])));
            return results;
          },
          [state] {
            state->y.reset();
            state->gradients.clear();
          }};
}

Tensor matrix(std::int64_t rows, std::int64_t columns, unsigned seed = 100) {
  return make(bench::numbers(static_cast<std::size_t>(rows * columns), seed), {rows, columns});
}

/// x + c + c + ...
constexpr int chain_length = 1000;

struct AddChain {
  Tensor x = torch::tensor(0.5F).set_requires_grad(true), c = torch::tensor(0.25F), y;
  std::vector<Tensor> gradients;
  void forward() {
    y = x;
    for (int i = 0; i < chain_length; ++i) y = y + c;
  }
  void backward() {
    gradients = torch::autograd::grad({y}, {x});
    y.reset();
  }
};

Workload add_chain(void (*before)(AddChain&), void (*run)(AddChain&), void (*after)(AddChain&)) {
  auto state = std::make_shared<AddChain>();
  return {[=] { run(*state); }, [=] { return std::vector<Numbers>{elements(state->gradients[0])}; },
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
  return torch::tanh(1.5 * x + 0.25) * torch::sigmoid(x) + torch::exp(-x * x);
}
Workload chain_forward(std::int64_t size) {
  return forward({make(bench::numbers(static_cast<std::size_t>(size), 100), {size})}, chain);
}
Workload chain_gradient(std::int64_t size) {
  return gradient({make(bench::numbers(static_cast<std::size_t>(size), 100), {size})}, {},
                  [](const std::vector<Tensor>& in) { return chain(in).sum(); });
}

Tensor convolution(const std::vector<Tensor>& in) { return torch::conv2d(in[0], in[1], {}, 1, 1); }
std::vector<Tensor> convolution_inputs() {
  return {to_nchw(make(bench::numbers(32 * 32 * 32 * 64, 100), {32, 32, 32, 64})),
          to_oihw(make(bench::numbers(3 * 3 * 64 * 64, 102), {3, 3, 64, 64}))};
}

Tensor softmax(const std::vector<Tensor>& in) { return torch::softmax(in[0], 1); }
Tensor layer_norm(const std::vector<Tensor>& in) { return torch::layer_norm(in[0], {in[0].size(1)}, in[1], in[2]); }
std::vector<Tensor> layer_norm_inputs() {
  return {matrix(4096, 1024), make(bench::numbers(1024, 102), {1024}), make(bench::numbers(1024, 103), {1024})};
}

Workload product(const bench::Product& p) {
  const auto matrices = [&](std::int64_t rows, std::int64_t columns, unsigned seed) {
    const auto count = static_cast<std::size_t>(p.batch * rows * columns);
    const Tensor all = make(bench::numbers(count, seed), {p.batch, rows, columns});
    return p.batch == 1 ? all[0] : all;
  };
  const Tensor b = p.transposed ? matrices(p.n, p.k, 101).transpose(-2, -1) : matrices(p.k, p.n, 101);
  return forward({matrices(p.m, p.k, 100), b}, [](const auto& in) { return torch::matmul(in[0], in[1]); });
}

// ---- The list

constexpr std::int64_t side = 4096, chain_size = std::int64_t{1} << 24;

std::vector<bench::Benchmark> benchmarks() {
  std::vector<bench::Benchmark> list{
      {"a/mlp_step", mlp_step},
      {"b/adam_step", adam_step},
      {"c/sgd_step", [] { return sgd_step(2048, 256); }},
      {"d/add_forward", add_forward},
      {"d/add_backward", add_backward},
      {"e/chain_forward", [] { return chain_forward(chain_size); }},
      {"e/chain_gradient", [] { return chain_gradient(chain_size); }},
      {"f/outer_add",
       [] {
         return forward({matrix(side, 1), matrix(1, side)}, [](const auto& in) { return in[0] + in[1]; });
       }},
      {"f/sum_rows", [] { return forward({matrix(side, side)}, [](const auto& in) { return in[0].sum(1); }); }},
      {"f/sum_columns", [] { return forward({matrix(side, side)}, [](const auto& in) { return in[0].sum(0); }); }},
      {"f/transpose",
       [] { return forward({matrix(side, side)}, [](const auto& in) { return in[0].t().contiguous(); }); }},
      {"f/add_transposed",
       [] { return forward({matrix(side, side)}, [](const auto& in) { return in[0] + in[0].t(); }); }},
      {"f/softmax_forward", [] { return forward({matrix(4096, 1024)}, softmax); }},
      {"f/softmax_gradient", [] { return gradient({matrix(4096, 1024)}, matrix(4096, 1024, 101), softmax); }},
      {"f/layer_norm_forward", [] { return forward(layer_norm_inputs(), layer_norm); }},
      {"f/layer_norm_gradient", [] { return gradient(layer_norm_inputs(), matrix(4096, 1024, 101), layer_norm); }},
      {"g/conv_forward", [] { return forward(convolution_inputs(), convolution, to_nhwc); }},
      {"g/conv_gradient",
       [] {
         const Tensor seed = to_nchw(make(bench::numbers(32 * 32 * 32 * 64, 101), {32, 32, 32, 64}));
         return gradient(convolution_inputs(), seed, convolution, {to_nhwc, to_nhwc, to_hwio});
       }},
      {"g/cnn_step", cnn_step},
  };
  for (const bench::Product& each : bench::products()) list.push_back({each.name, [&each] { return product(each); }});
  return list;
}

std::vector<bench::MemoryBenchmark> memory_benchmarks() {
  return {{"h/sgd_step", [] { return sgd_step(2048, 256); }, [] { return sgd_step(16, 4); }},
          {"h/chain_gradient", [] { return chain_gradient(chain_size); }, [] { return chain_gradient(64); }}};
}

/// The value of an environment variable, or `otherwise` if it is not set.
std::string setting(const char* variable, const std::string& otherwise) {
  const char* value = std::getenv(variable);
  return value ? value : otherwise;
}

std::vector<std::pair<std::string, std::string>> facts() {
  const std::string config = at::show_config();
  const std::string key = "CPU capability usage: ";
  const std::size_t found = config.find(key);
  const std::string capability = found == std::string::npos
                                     ? "unknown"
                                     : config.substr(found + key.size(), config.find('\n', found) - found - key.size());
  return {{"library", std::string("libtorch ") + TORCH_VERSION},
          {"threads", std::to_string(at::get_num_threads())},
          {"cpu_capability", capability},
          {"omp_proc_bind", setting("OMP_PROC_BIND", "unset")},
          {"omp_wait_policy", setting("OMP_WAIT_POLICY", "unset")},
          {"malloc", setting("GLIBC_TUNABLES", "unset")}};
}

}  // namespace

int main(int argc, char** argv) {
  bench::Library library;
  library.facts = facts;
  library.set_threads = [](int count) { at::set_num_threads(count); };
  library.benchmarks = benchmarks();
  library.memory_benchmarks = memory_benchmarks();
  return bench::run_suite(argc, argv, library);
}
