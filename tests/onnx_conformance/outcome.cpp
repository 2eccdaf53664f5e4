#include <cmath>

#include "onnx_conformance/ops.hpp"
#include "tapestry/onnx.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/tape.hpp"

namespace tapestry::test::onnx_case {
namespace {

namespace fs = std::filesystem;

/// Of floats. The windows of signals were computed with 3.1415 for pi, and GridSample's numbers have four digits.
double tolerance_of(const Tensor& expected, const std::string& name) {
  if (!is_floating(expected.dtype())) return 0;
  if (is_half(expected.dtype())) return 1e-2;
  if (!name.starts_with("test_")) return 2e-5;  // of onnxruntime
  return name.find("window") == std::string::npos && name.find("gridsample") == std::string::npos ? 2e-6 : 2e-4;
}

/// Cases of optimizers, which are no ops of ours: our optimizers make the step.
bool is_of_optimizer(const std::string& name) {
  return name.starts_with("test_ada") || name.starts_with("test_momentum") || name.starts_with("test_nesterov");
}

std::vector<Tensor> results_of_optimizer(const Case& each) {
  static const Functions functions = optimizer_functions();
  std::vector<Tensor> inputs, results;
  for (const std::string& name : each.nodes.at(0).inputs) inputs.push_back(each.values.at(name));
  return functions.at(each.nodes[0].type)(each.nodes[0], inputs);
}

/// Cases that draw random numbers expect those of another library.
bool draws(const std::string& name) {
  return name.find("bernoulli") != std::string::npos || name.starts_with("test_training_dropout") ||
         name == "test_randomuniformlike";
}

std::string difference_of(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected,
                          const std::string& name) {
  if (actual.size() < expected.size()) return "it has too few outputs";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Tensor &a = actual[i], &e = expected[i];
    if (a.dtype() != e.dtype() || a.shape() != e.shape())
      return detail::join("output ", i, " is ", to_string(a.dtype()), a.shape(), ", not ", to_string(e.dtype()),
                          e.shape());
    const std::vector<double> x = a.cast(float64).to_vector<double>(), y = e.cast(float64).to_vector<double>();
    const double tolerance = tolerance_of(e, name);
    for (std::size_t k = 0; k < x.size(); ++k) {
      const bool same = x[k] == y[k] || (std::isnan(x[k]) && std::isnan(y[k])) ||
                        std::abs(x[k] - y[k]) <= tolerance * std::max(1.0, std::abs(y[k]));
      if (!same) return detail::join("output ", i, " has ", x[k], " at ", k, ", not ", y[k]);
    }
  }
  return {};
}

}  // namespace

Outcome outcome_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  try {
    if (is_of_optimizer(name)) {
      const Case each = read_case(folder);
      return {{}, difference_of(results_of_optimizer(each), each.expected, name)};
    }
    require_tensors(folder);
    const Model model = onnx::load(folder / "model.onnx");
    if (draws(name) && name.find("zero_ratio") == std::string::npos) {
      const std::vector<TensorSpec> outputs = model.outputs();
      return {"another library's random numbers", outputs.empty() ? "it has no outputs" : ""};
    }
    for (int set = 0; fs::exists(folder / detail::join("test_data_set_", set)); ++set) {
      const fs::path data = folder / detail::join("test_data_set_", set);
      const std::vector<Tensor> inputs = read_tensors(data, "input"), expected = read_tensors(data, "output");
      const std::vector<TensorSpec> specs = model.inputs();
      if (inputs.size() != specs.size()) return {{}, detail::join("it has ", specs.size(), " inputs")};
      Feeds feeds;
      for (std::size_t i = 0; i < inputs.size(); ++i) feeds.add(specs[i].name, inputs[i]);
      const std::vector<Tensor> results = model(feeds);
      if (std::string found = difference_of(results, expected, name); !found.empty()) return {{}, found};
      GradientTape tape;
      if (std::string found = difference_of(model(feeds), expected, name); !found.empty())
        return {{}, "op by op: " + found};
    }
    return {};
  } catch (const Inexpressible& lack) {
    return {lack.reason, {}};
  } catch (const UnimplementedError& lack) {
    return {lack.message(), {}};
  } catch (const InvalidArgumentError& error) {
    if (error.message().find("must follow from constants and shapes") != std::string::npos)
      return {"sizes that depend on values which the model computes", {}};
    return {{}, error.what()};
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

}  // namespace tapestry::test::onnx_case
