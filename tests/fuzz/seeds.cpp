#include "fuzz/seeds.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "flow_models.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The files of a folder in the order of their names.
std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files(fs::directory_iterator(folder), fs::directory_iterator{});
  std::sort(files.begin(), files.end());
  return files;
}

bool is_graph(const std::string& bytes) {
  try {
    io::decode(bytes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void add_files(std::vector<std::string>& seeds) {
  for (const char* kind : {"read_graph", "read_graph_text", "run_graph"})
    for (const fs::path& each : files_of(fs::path(FUZZ_CORPUS) / kind))
      seeds.push_back(kind == std::string_view("read_graph") ? bytes_of(each) : io::from_text(bytes_of(each)));
  for (const fs::path& folder : {fs::path(GOLDEN_FILES), fs::path(GOLDEN_FILES) / "flow"})
    for (const fs::path& each : files_of(folder)) {
      const std::string name = each.filename();
      const bool is_graph_file =
          name.ends_with(".pb") && !name.ends_with(".expected.pb") && !name.ends_with(".steps.pb");
      if (is_graph_file) seeds.push_back(bytes_of(each));
    }
  std::erase_if(seeds, [](const std::string& bytes) { return !is_graph(bytes); });
}

void add_rows(std::vector<std::string>& seeds) {
  for (const OpCase& row : op_cases()) {
    std::vector<TensorSpec> specs;
    for (const Tensor& input : row.inputs) {
      Shape shape = input.shape();
      if (shape.rank() > 0 && row.name != "squeeze") shape.set(0, -1);
      specs.push_back(spec(input.dtype(), shape));
    }
    const auto traced = trace([&](const std::vector<Tensor>& x) { return value_and_gradients(row, x); }, specs);
    seeds.push_back(traced.graph().as_graph_def());
  }
}

void add_networks(std::vector<std::string>& seeds) {
  using namespace train;
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  optimizers.push_back(std::make_unique<GradientDescentOptimizer>(0.5));
  optimizers.push_back(std::make_unique<MomentumOptimizer>(0.1, 0.9));
  optimizers.push_back(std::make_unique<AdamOptimizer>(0.05));
  optimizers.push_back(std::make_unique<AdamWOptimizer>(0.05));
  optimizers.push_back(std::make_unique<RMSPropOptimizer>(0.05));
  optimizers.push_back(std::make_unique<AdagradOptimizer>(0.1));
  const Tensor weights = ones({3, 2}), bias = zeros({2});
  for (const auto& optimizer : optimizers) {
    const Graph graph;
    const auto open = graph.as_default();
    const Tensor x = placeholder(float32, {-1, 3}, "x"), labels = placeholder(float32, {-1, 2}, "labels");
    const Variable w(weights, {.name = "w"}), b(bias, {.name = "b"});
    const Tensor loss = reduce_mean(softmax_cross_entropy(labels, matmul(x, w) + b), {}, {}, "loss");
    optimizer->minimize(loss);
    global_variables_initializer();
    for (const VariableStyle style : {VariableStyle::resource, VariableStyle::reference, VariableStyle::frozen})
      seeds.push_back(graph.as_graph_def({.variables = style}));
  }
}

void add_branches_and_loops(std::vector<std::string>& seeds) {
  const Variable w({0.5, -0.25, 1.25}, {.name = "w", .dtype = float64});
  const Variable sum({0.125, 0.5, -1.0}, {.name = "sum", .trainable = false, .dtype = float64});
  for (const FlowModel& model : flow_models()) {
    const auto traced = trace(
        [&](const Tensor& x, const Tensor& n) -> std::vector<Tensor> {
          GradientTape tape;
          tape.watch(x);
          const Tensor y = model.f(x, n, w, sum);
          return {y, tape.gradient(reduce_sum(y), {x}, {.unconnected = Unconnected::zero})[0]};
        },
        {spec(float64, {-1, 3}), spec(int32, {})});
    seeds.push_back(traced.graph().as_graph_def());
  }
}

}  // namespace

const std::vector<std::string>& graph_seeds() {
  static const std::vector<std::string>& all = *new std::vector<std::string>([] {
    std::vector<std::string> seeds;
    add_files(seeds);
    add_rows(seeds);
    add_networks(seeds);
    add_branches_and_loops(seeds);
    return seeds;
  }());
  return all;
}

}  // namespace tapestry::test
