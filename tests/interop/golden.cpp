#include "interop/golden.hpp"

#include "tapestry/tapestry.hpp"

namespace tapestry::test {

std::map<std::string, std::string> golden_files() {
  const Graph graph;
  const auto open = graph.as_default();
  const Tensor x = placeholder(float32, {-1, 3}, "x"), labels = placeholder(float32, {-1, 2}, "labels");
  Tensor signal;
  {
    const auto scope = name_scope("hidden");
    Variable w(tensor<float>({{1, -1}, {0.5, 0.25}, {0, 2}}), {.name = "w"});
    signal = tanh(matmul(x, w));
  }
  {
    const auto scope = name_scope("logits");
    Variable w(tensor<float>({{2, 0}, {-0.5, 1}}), {.name = "w"}), b(tensor<float>({0, 1}), {.name = "b"});
    signal = matmul(signal, w) + b;
  }
  const Tensor loss = reduce_mean(softmax_cross_entropy(labels, signal), "loss");
  train::AdamWOptimizer(0.125).minimize(loss);
  global_variables_initializer();
  return {{"tapestry_resource.pb", graph.as_graph_def()},
          {"tapestry_reference.pb", graph.as_graph_def({.variables = VariableStyle::reference})},
          {"tapestry_frozen.pb", graph.as_graph_def({.variables = VariableStyle::frozen, .output_shapes = true})}};
}

}  // namespace tapestry::test
