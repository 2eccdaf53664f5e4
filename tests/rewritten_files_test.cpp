// A graph that is read from a file and written again, any number of times, stays the same for who reads it: what the
// first file names keeps its name and value, and no nodes are added from one file to the next.

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "flow_models.hpp"
#include "interop/steps.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "same_bits.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace rewritten_files_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr int generations = 4;

std::vector<std::string> names_of_tensors(const Graph& graph) {
  std::vector<std::string> names;
  for (const Operation& each : graph.operations())
    for (const Tensor& output : each.outputs())
      if (output.dtype() != DType::resource) names.push_back(output.name());
  return names;
}

/// By name, from the same state of the Variables each.
std::map<std::string, Tensor> values_of(const std::vector<std::string>& names, const Graph& graph, const Feeds& feeds) {
  const Session session(graph);
  std::map<std::string, Tensor> values;
  for (const std::string& name : names) {
    if (graph.has_operation("init")) session.run(graph.get_operation_by_name("init"));
    // A branch that was not taken has no value for its gradient.
    try {
      values[name] = session.run(name, feeds);
    } catch (const InvalidArgumentError& error) {
      CHECK(error.message().find("has no value: it is of a branch that was not taken") != std::string::npos);
    }
  }
  return values;
}

void check_same(const std::map<std::string, Tensor>& found, const std::map<std::string, Tensor>& expected) {
  CHECK(found.size() == expected.size());
  for (const auto& each : found) CHECK_MESSAGE(same_bits(each.second, expected.at(each.first)), each.first);
}

struct Traced {
  Graph graph;
  Signature signature{};
};

Traced traced(const FlowModel& model, bool with_gradient) {
  const Variable w({0.5, -0.25, 1.25}, {.name = "w", .dtype = float64});
  const Variable sum({0.125, 0.5, -1.0}, {.name = "sum", .trainable = false, .dtype = float64});
  const auto f = [&](const Tensor& x, const Tensor& n) { return results_of(model, with_gradient, x, n, w, sum); };
  const auto made = trace(f, {spec(float64, {-1, 3}, "x"), spec(int32, {}, "n")});
  Traced result{made.graph(), {.inputs = {{"x", made.input(0)}, {"n", made.input(1)}}, .outputs = {}}};
  for (std::size_t i = 0; i < made.outputs().size(); ++i)
    result.signature.outputs.emplace("y" + std::to_string(i), made.output(i));
  return result;
}

bool has_variables(const std::string& bytes) {
  const std::vector<io::NodeDef> nodes = io::decode(bytes).nodes;
  return std::any_of(nodes.begin(), nodes.end(), [](const io::NodeDef& node) { return node.op.starts_with("Var"); });
}

Tensor rows() { return tensor({{0.5, -1.0, 0.25}, {1.5, 0.75, -0.5}}).cast(float64); }

}  // namespace

TEST_CASE("a graph with branches and loops is the same from file to file") {
  const Feeds feeds{{"x:0", rows()}, {"n:0", 3}};
  for (const FlowModel& model : flow_models()) {
    CAPTURE(model.name);
    for (const bool with_gradient : {false, true})
      for (const VariableStyle style : {VariableStyle::resource, VariableStyle::frozen}) {
        if (style == VariableStyle::frozen && !model.has_gradient) continue;
        CAPTURE(with_gradient);
        const Graph graph = traced(model, with_gradient).graph;
        const auto expected = values_of(names_of_tensors(graph), Graph::from_graph_def(graph.as_graph_def()), feeds);
        std::vector<std::string> names;
        for (const auto& [name, value] : expected) names.push_back(name);
        std::string bytes = graph.as_graph_def({.variables = style});
        for (int i = 1; i <= generations; ++i) {
          CAPTURE(i);
          const Graph read = Graph::from_graph_def(bytes);
          check_same(values_of(names, read, feeds), expected);
          std::string again = read.as_graph_def({.variables = style});
          // What changes Variables gets further nodes for their gradients.
          if (i > 1 && model.has_gradient) CHECK(again == bytes);
          bytes = std::move(again);
        }
      }
  }
}

TEST_CASE("a model with branches and loops is the same from file to file") {
  const TemporaryFolder folder;
  for (const FlowModel& model : flow_models()) {
    CAPTURE(model.name);
    for (const bool with_gradient : {false, true}) {
      Model read(traced(model, with_gradient).signature);
      const auto call = [&] { return read({{"x", rows()}, {"n", 3}}); };
      const std::string path = (folder / "model").string();
      saved_model::save(path, read);
      const std::vector<Tensor> expected = call();
      for (int i = 1; i <= generations; ++i) {
        CAPTURE(i);
        read = saved_model::load(path);
        saved_model::save(path, read);
        const std::vector<Tensor> found = call();
        for (std::size_t k = 0; k < expected.size(); ++k) CHECK(same_bits(found[k], expected[k]));
      }
    }
  }
}

TEST_CASE("the outputs of another program's loops keep their numbers from file to file") {
  const TemporaryFolder folder;
  const std::string path = (folder / "model").string();
  int outputs = 0;
  for (const FlowModel& model : flow_models()) {
    CAPTURE(model.name);
    if (!model.has_gradient) continue;  // they change Variables
    io::GraphDef file = io::decode(traced(model, false).graph.as_graph_def());
    for (io::NodeDef& node : file.nodes)
      std::erase_if(node.attrs, [](const auto& attr) { return attr.first.starts_with("_tapestry"); });
    std::string bytes = io::encode(file);
    const Graph graph = Graph::from_graph_def(bytes);
    std::vector<std::string> names;
    for (const io::NodeDef& node : file.nodes)
      for (std::size_t i = 0; node.op.ends_with("While") && i < node.inputs.size(); ++i) {
        const std::string name = detail::join(node.name, ":", i);
        try {
          const Tensor output = graph.get_tensor_by_name(name);
          if (output.op().name() != node.inputs[i]) names.push_back(name);  // not what the loop is given
        } catch (const Error&) {
          continue;  // no tensor for us
        }
      }
    outputs += static_cast<int>(names.size());
    const Feeds feeds{{"x:0", rows()}, {"n:0", 3}};
    const auto expected = values_of(names, Graph::from_graph_def(bytes), feeds);
    Signature signature{.inputs = {{"x", graph.get_tensor_by_name("x:0")}, {"n", graph.get_tensor_by_name("n:0")}},
                        .outputs = {}};
    for (const std::string& name : names) signature.outputs.emplace(name, graph.get_tensor_by_name(name));
    std::optional<Model> read;
    if (!names.empty()) read.emplace(signature);
    for (int i = 2; i <= generations; ++i) {
      CAPTURE(i);
      bytes = Graph::from_graph_def(bytes).as_graph_def();
      check_same(values_of(names, Graph::from_graph_def(bytes), feeds), expected);
      if (!read) continue;
      saved_model::save(path, *read);
      read = saved_model::load(path);
      check_same(values_of(names, read->graph(), feeds), expected);
    }
  }
  CHECK(outputs > 20);
}

TEST_CASE("branches and loops of TensorFlow's are the same from file to file") {
  int cases = 0;
  for (const auto& each : std::filesystem::directory_iterator(std::filesystem::path(GOLDEN_FILES) / "flow")) {
    const std::string path = each.path().string();
    constexpr std::string_view ending = ".steps.pb";
    if (!path.ends_with(ending)) continue;
    CAPTURE(path);
    std::string bytes = Graph::load(path.substr(0, path.size() - ending.size()) + ".pb").as_graph_def();
    for (int i = 2; i < generations; ++i) {
      const std::string again = Graph::from_graph_def(bytes).as_graph_def();
      // What changes Variables gets further nodes, for gradients and for the numbers of optimizers.
      if (!has_variables(bytes)) CHECK(io::decode(again).nodes.size() == io::decode(bytes).nodes.size());
      bytes = again;
    }
    CHECK(do_steps(Graph::from_graph_def(bytes), steps_in(path)));
    ++cases;
  }
  CHECK(cases >= 21);
}

}  // namespace rewritten_files_test
