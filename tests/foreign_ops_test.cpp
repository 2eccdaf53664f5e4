// Single nodes of TensorFlow's ops: golden/foreign_ops.pb holds them, and foreign_ops.expected.pb what they are fed and
// what TensorFlow computes. tests/interop/foreign_ops.py is the table of cases.

#include <filesystem>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "node_text.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::foreign_ops_test {
namespace {

const std::filesystem::path folder = GOLDEN_FILES;

/// A node, by the name of its case, with what it is fed and what it gives.
struct Case {
  std::map<std::string, Tensor> feeds{}, outputs{};
  bool has_steps = false;  ///< whether its slope is not that of its gradient
};

std::map<std::string, Case> all_cases() {
  std::map<std::string, Case> cases;
  for (const io::NodeDef& node : io::decode(read_text(folder / "foreign_ops.expected.pb")).nodes) {
    const Tensor value = std::get<io::TensorDef>(node.attrs.at("value")).value;
    const std::size_t slash = node.name.rfind('/');
    const std::string name = node.name.substr(0, slash), part = node.name.substr(slash + 1);
    if (part == "steps") {
      cases[name].has_steps = true;
    } else if (part.starts_with("in")) {
      cases[name].feeds.emplace(node.name + ":0", value);
    } else {
      cases[name].outputs.emplace(name + ":" + part.substr(3), value);
    }
  }
  // All branches have one argument.
  const Case shared = cases.extract("branches").mapped();
  for (auto& [name, each] : cases)
    if (name.starts_with("branches/")) each.feeds = shared.feeds;
  return cases;
}

enum class Known { all, all_but_batch, nothing };

/// The graph, in which the sizes of feeds are known so far.
Graph graph_with(Known known) {
  io::GraphDef def = io::decode(read_text(folder / "foreign_ops.pb"));
  for (io::NodeDef& node : def.nodes) {
    if (node.op != "Placeholder" || known == Known::all) continue;
    Shape shape = std::get<Shape>(node.attrs.at("shape"));
    if (known == Known::nothing) shape = Shape::unknown_rank();
    if (known == Known::all_but_batch && shape.rank() > 0) shape.set(0, -1);
    node.attrs.insert_or_assign("shape", shape);
  }
  return Graph::from_graph_def(io::encode(def));
}

Feeds feeds_of(const Case& each) {
  Feeds feeds;
  for (const auto& [name, value] : each.feeds) feeds.add(name, value);
  return feeds;
}

/// Numbers that differ from element to element.
Tensor pattern(const Shape& shape, double step) {
  const Tensor numbers = sin(arange(shape.size(), {.dtype = float32}) * step + 0.5);
  return reshape(numbers, shape);
}

constexpr double tolerance = 2e-5;

}  // namespace

TEST_CASE("nodes give TensorFlow's numbers, whatever is known of their inputs") {
  for (const Known known : {Known::all, Known::all_but_batch, Known::nothing}) {
    CAPTURE(static_cast<int>(known));
    const Graph graph = graph_with(known);
    const Session session(graph);
    // What is kept without a rank cannot be written with what depends on it.
    const Session again(known == Known::all ? Graph::from_graph_def(graph.as_graph_def()) : graph);
    for (const auto& row : all_cases()) {
      const auto& name = row.first;
      const auto& each = row.second;
      CAPTURE(name);
      const Feeds feeds = feeds_of(each);
      for (const auto& output : each.outputs) {
        const auto& fetch = output.first;
        const auto& value = output.second;
        CAPTURE(fetch);
        try {
          check_same(session.run(fetch, feeds), value, tolerance);
          // Other outputs have names of their own.
          if (fetch.ends_with(":0")) check_same(again.run(fetch, feeds), value, tolerance);
        } catch (const Error& error) {
          FAIL_CHECK(error.message());
        }
      }
    }
  }
}

TEST_CASE("gradients of nodes are the slopes of their results") {
  for (const Known known : {Known::all, Known::nothing}) {
    CAPTURE(static_cast<int>(known));
    const Graph graph = graph_with(known);
    const Session session(graph);
    for (const auto& row : all_cases()) {
      const auto& name = row.first;
      const auto& each = row.second;
      CAPTURE(name);
      if (each.has_steps || each.feeds.empty()) continue;
      const auto& [fetch, value] = *each.outputs.begin();
      if (value.dtype() != float32) continue;
      const Tensor weights = pattern(value.shape(), 1.3);
      const Tensor loss = [&, &fetch = fetch] {
        const auto scope = graph.as_default();
        return reduce_sum(graph.get_tensor_by_name(fetch) * weights);
      }();
      for (const auto& feed : each.feeds) {
        const auto& input = feed.first;
        const auto& x = feed.second;
        CAPTURE(input);
        if (x.dtype() != float32) continue;
        try {
          const Tensor gradient = [&, &input = input] {
            const auto scope = graph.as_default();
            return gradients(loss, graph.get_tensor_by_name(input), {.unconnected = Unconnected::zero})[0];
          }();
          const Tensor direction = pattern(x.shape(), 0.7);
          const double slope = reduce_sum(session.run(gradient, feeds_of(each)) * direction).item<float>();
          const auto at = [&](double step) {
            Case moved = each;
            moved.feeds[input] = x + direction * step;
            return static_cast<double>(session.run(loss, feeds_of(moved)).item<float>());
          };
          constexpr double step = 4e-3;
          const double expected = (at(step) - at(-step)) / (2 * step);
          CHECK_MESSAGE(agree(slope, expected, 1e-2), slope, " and ", expected);
        } catch (const Error& error) {
          FAIL_CHECK(error.message());
        }
      }
    }
  }
}

TEST_CASE("of several equal sums in a window of Dilation2D the first one has the gradient") {
  io::GraphDef def;
  for (const char* name : {"x", "filter"})
    def.nodes.push_back(
        {.name = name,
         .op = "Placeholder",
         .attrs = {{"dtype", io::code_of(float32)}, {"shape", name[0] == 'x' ? Shape{-1, 2, 3, 1} : Shape{2, 2, 1}}}});
  const io::ListDef ones{.ints = {1, 1, 1, 1}};
  def.nodes.push_back(
      {.name = "y",
       .op = "Dilation2D",
       .inputs = {"x", "filter"},
       .attrs = {{"T", io::code_of(float32)}, {"strides", ones}, {"rates", ones}, {"padding", std::string("VALID")}}});
  const Graph graph = Graph::from_graph_def(io::encode(def));
  const std::vector<Tensor> found = [&] {
    const auto scope = graph.as_default();
    return gradients(graph.get_tensor_by_name("y:0"),
                     {graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("filter:0")});
  }();
  const Session session(graph);
  const Feeds feeds{{"x:0", reshape(tensor({0.F, 1.F, 0.F, 0.F, 1.F, 0.F}), {1, 2, 3, 1})},
                    {"filter:0", zeros({2, 2, 1})}};
  check_same(session.run("y:0", feeds), ones_like(zeros({1, 1, 2, 1})));
  check_same(session.run(found[0], feeds), reshape(tensor({0.F, 2.F, 0.F, 0.F, 0.F, 0.F}), {1, 2, 3, 1}));
  check_same(session.run(found[1], feeds), reshape(tensor({1.F, 1.F, 0.F, 0.F}), {2, 2, 1}));
}

TEST_CASE("gamma and Poisson numbers of the graph's stream have their mean, and are others in each run") {
  const std::string seeds = attr("seed", "i: 7") + attr("seed2", "i: 9"), sizes = attr("S", "type: DT_INT32");
  const Graph graph = read(ints_node("shape", {400, 25}) + placeholder_node("means", "dim { size: 2 }") +
                           node("poisson", "RandomPoissonV2", {"shape", "means"},
                                seeds + sizes + attr("R", "type: DT_FLOAT") + attr("dtype", "type: DT_FLOAT")) +
                           node("whole", "RandomPoissonV2", {"shape", "means"}, sizes + attr("R", "type: DT_FLOAT")) +
                           node("gamma", "RandomGamma", {"shape", "means"}, seeds + sizes + t_float) +
                           node("both", "Sub", {"gamma", "gamma"}, t_float));
  const Session session(graph);
  const Feeds feeds{{"means:0", {2.0, 30.0}}};
  for (const std::string name : {"poisson:0", "whole:0", "gamma:0"}) {
    CAPTURE(name);
    const Tensor first = session.run(name, feeds).cast(float64);
    CHECK(first.shape() == Shape{400, 25, 2});
    const std::vector<double> mean = reduce_mean(first, {0, 1}).to_vector<double>();
    const std::vector<double> variance = reduce_mean(square(first - tensor({2.0, 30.0})), {0, 1}).to_vector<double>();
    for (const auto& [found, due] : {std::pair{mean[0], 2.0}, {mean[1], 30.0}, {variance[0], 2.0}, {variance[1], 30.0}})
      CHECK(found == doctest::Approx(due).epsilon(0.1));
    CHECK(!reduce_all(equal(first, session.run(name, feeds).cast(float64))).item<bool>());
  }
  CHECK(session.run("whole:0", feeds).dtype() == int64);
  check_same(session.run("both:0", feeds), zeros({400, 25, 2}));
}

TEST_CASE("a type that an op lacks, and a Variable without a shape or a value, harm only what needs them") {
  io::GraphDef def;
  def.nodes.push_back({.name = "x", .op = "Placeholder"});
  def.nodes.push_back({.name = "variable", .op = "VariableV2"});
  for (io::NodeDef& node : def.nodes)
    node.attrs = {{"dtype", io::code_of(boolean)}, {"shape", node.name == "x" ? Shape{2} : Shape{-1}}};
  for (const char* op : {"Identity", "MatrixDiag"})
    def.nodes.push_back({.name = op, .op = op, .inputs = {"x"}, .attrs = {{"T", io::code_of(boolean)}}});
  const Graph graph = Graph::from_graph_def(io::encode(def));
  const Session session(Graph::from_graph_def(graph.as_graph_def()));
  const Feeds feeds{{"x:0", tensor<bool>({true, false})}};
  check_same(session.run("Identity:0", feeds), tensor<bool>({true, false}));
  CHECK_THROWS_AS(session.run("MatrixDiag:0", feeds), UnimplementedError);
  CHECK_THROWS_AS(session.run("variable:0", feeds), FailedPreconditionError);
}

}  // namespace tapestry::test::foreign_ops_test
