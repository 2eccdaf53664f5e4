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
/// Of the same, in numbers of 16 bits: some of their last bits.
inline double tolerance_of(DType dtype) { return dtype == float16 ? 2e-3 : dtype == bfloat16 ? 1.6e-2 : tolerance; }

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
    return x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= tolerance_of(found.dtype()) * scale;
  });
}

/// How far the numbers are from what they should be, for people.
inline std::string difference(const std::string& name, const Tensor& found, const Tensor& expected) {
  if (found.dtype() != expected.dtype() || found.shape() != expected.shape())
    return detail::join(name, " has ", found.dtype(), found.shape(), ", not ", expected.dtype(), expected.shape());
  const std::vector<double> a = found.cast(float64).to_vector<double>(), b = expected.cast(float64).to_vector<double>();
  double largest = 0, scale = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, a[i] == b[i] ? 0 : std::abs(a[i] - b[i]));
    if (std::isfinite(b[i])) scale = std::max(scale, std::abs(b[i]));
  }
  return detail::join(name, " differs by ", largest, " of ", scale);
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

/// Feeds, runs and fetches by the names of a graph. Returns whether all that is fetched is equal, and tells the first
/// difference.
inline bool do_steps(const Graph& graph, const std::vector<Step>& steps, std::string* problem = nullptr) {
  const Session session(graph);
  std::map<std::string, Tensor> given;  // a later feed takes the place of an earlier one
  bool equal = true;
  for (const Step& step : steps) {
    if (step.kind == "feed" && graph.has_operation(step.target.substr(0, step.target.rfind(':'))))
      given[step.target] = step.value;
    if (step.kind == "unfeed") given.erase(step.target);
    if (step.kind == "run") session.run(step.target, given);
    if (step.kind != "fetch") continue;
    const Tensor found = session.run(step.target, given);
    const bool same = is_equal(found, step.value);
    if (!same && equal && problem) *problem = difference(step.target, found, step.value);
    equal = same && equal;
  }
  return equal;
}

}  // namespace tapestry::test
