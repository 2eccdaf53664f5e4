#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "io/tensorflow/graph_def.hpp"
#include "tapestry/tapestry.hpp"

/// The steps that are to be done with a graph of TensorFlow's, and what TensorFlow finds: a GraphDef whose nodes are
/// feed, unfeed, run and fetch (see foreign_programs.py). Those after `once` are not done with the file that is written
/// again.

namespace tapestry::test {

/// A sixth digit, of the largest number or of 1: networks of float32, trained for some steps.
inline constexpr double tolerance = 2e-5;

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline bool is_equal(const Tensor& found, const Tensor& expected) {
  if (found.dtype() != expected.dtype() || found.shape() != expected.shape()) return false;
  const std::vector<double> a = found.cast(float64).to_vector<double>(), b = expected.cast(float64).to_vector<double>();
  double scale = 1;
  for (const double each : b)
    if (std::isfinite(each)) scale = std::max(scale, std::abs(each));
  return std::equal(a.begin(), a.end(), b.begin(), [&](double x, double y) {
    return x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= tolerance * scale;
  });
}

struct Step {
  std::string kind, target;
  Tensor value;
};

inline std::vector<Step> steps_in(const std::filesystem::path& path) {
  std::vector<Step> steps;
  for (const io::NodeDef& node : io::decode(bytes_of(path)).nodes) {
    Step& step = steps.emplace_back(Step{node.op, std::get<std::string>(node.attrs.at("target")), {}});
    if (const auto value = node.attrs.find("value"); value != node.attrs.end())
      step.value = std::get<io::TensorDef>(value->second).value;
  }
  return steps;
}

/// Feeds, runs and fetches by the names of a graph. Returns whether all that is fetched is equal.
inline bool do_steps(const Graph& graph, const std::vector<Step>& steps) {
  const Session session(graph);
  std::map<std::string, Tensor> given;  // a later feed takes the place of an earlier one
  bool equal = true;
  for (const Step& step : steps) {
    if (step.kind == "feed" && graph.has_operation(step.target.substr(0, step.target.rfind(':'))))
      given[step.target] = step.value;
    if (step.kind == "unfeed") given.erase(step.target);
    if (step.kind == "run") session.run(step.target, given);
    if (step.kind == "fetch") equal = is_equal(session.run(step.target, given), step.value) && equal;
  }
  return equal;
}

}  // namespace tapestry::test
