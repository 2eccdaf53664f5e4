// Graphs that lie about their sizes, and what a graph and its runs may cost.

#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include "core/make_tensor.hpp"
#include "expect.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::graph_limits_test {
namespace {

constexpr std::int64_t huge = std::int64_t{1} << 40;

std::string placeholder_text(const std::string& name, const std::string& type = "DT_FLOAT") {
  return "node { name: '" + name + "' op: 'Placeholder' attr { key: 'dtype' value { type: " + type +
         " } } attr { key: 'shape' value { shape { dim { size: -1 } } } } }";
}
/// A constant of whole numbers; of one for all when there is one only.
std::string numbers_text(const std::string& name, const std::vector<std::int64_t>& sizes,
                         const std::vector<std::int64_t>& numbers, const std::string& type = "DT_INT32") {
  std::string text = "node { name: '" + name + "' op: 'Const' attr { key: 'dtype' value { type: " + type +
                     " } } attr { key: 'value' value { tensor { dtype: " + type + " tensor_shape { ";
  for (const std::int64_t size : sizes) text += "dim { size: " + std::to_string(size) + " } ";
  text += "} ";
  for (const std::int64_t each : numbers)
    text += (type == "DT_INT64"   ? "int64_val: "
             : type == "DT_FLOAT" ? "float_val: "
                                  : "int_val: ") +
            std::to_string(each) + " ";
  return text + "} } } }";
}
std::string node_text(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                      const std::string& attrs = {}) {
  std::string text = "node { name: '" + name + "' op: '" + op + "' ";
  for (const std::string& each : inputs) text += "input: '" + each + "' ";
  return text + attrs + " }";
}

Graph load(const std::string& text, const GraphLimits& limits = {}) {
  return Graph::from_graph_def(io::from_text(text), limits);
}

/// x of any size; `y` is filled in the shape [size(x) + offset, size(x) + offset].
std::string filled(std::int64_t offset) {
  return placeholder_text("x") + node_text("size", "Size", {"x"}) + numbers_text("offset", {}, {offset}) +
         node_text("side", "AddV2", {"size", "offset"}) +
         node_text("shape", "Pack", {"side", "side"}, "attr { key: 'N' value { i: 2 } }") +
         numbers_text("one", {}, {1}, "DT_FLOAT") +
         node_text("y", "Fill", {"shape", "one"}, "attr { key: 'T' value { type: DT_FLOAT } }");
}

template <class E>
std::string refusal(const auto& f) {
  return caught<E>(f).message();
}

bool names(const std::string& text, std::initializer_list<std::string> parts) {
  CAPTURE(text);
  return std::all_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return text.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("a graph from a file has limits, one of a program's own has none") {
  CHECK(Graph().limits() == GraphLimits::none());
  CHECK(load(filled(0)).limits() == GraphLimits{});
  const GraphLimits narrow{.bytes = 1 << 20, .elements = 1000, .nodes = 100, .time_in_ms = 5000};
  const Graph graph = load(filled(0), narrow);
  CHECK(graph.limits() == narrow);
  graph.set_limits(GraphLimits::none());
  CHECK(graph.limits() == GraphLimits::none());
  for (const GraphLimits& bad : {GraphLimits{.bytes = -1}, GraphLimits{.elements = -1}, GraphLimits{.nodes = -1},
                                 GraphLimits{.time_in_ms = 0}}) {
    CHECK_THROWS_AS(graph.set_limits(bad), InvalidArgumentError);
    CHECK_THROWS_AS(load(filled(0), bad), InvalidArgumentError);
    CHECK(graph.limits() == GraphLimits::none());
  }
}

TEST_CASE("a file larger than a graph may be is not read") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "model");
  for (const char* name : {"graph.pb", "model.onnx", "model/saved_model.pb", "checkpoint"}) {
    std::ofstream(folder / name).close();
    std::filesystem::resize_file(folder / name, huge);  // without blocks on the disk
  }
  const auto refused = [](const auto& f) {
    CHECK(names(caught<ResourceExhaustedError>(f).message(), {std::to_string(huge) + " bytes; at most"}));
  };
  refused([&] { Graph::load(folder / "graph.pb"); });
  refused([&] { onnx::load(folder / "model.onnx"); });
  refused([&] { saved_model::load(folder / "model"); });
  refused([&] { get_checkpoint_state(folder.path()); });
}

TEST_CASE("the elements of a tensor that is computed when the graph runs are limited") {
  const Graph graph = load(filled(0), {.elements = 1000});
  const Session session(graph);
  CHECK(session.run("y:0", {{"x:0", zeros({30})}}).shape() == Shape{30, 30});
  const auto text = refusal<ResourceExhaustedError>([&] { session.run("y:0", {{"x:0", zeros({40})}}); });
  CHECK(names(text, {"'y'", "1600", "1000", "GraphLimits::elements"}));
  graph.set_limits({.elements = 1600});
  CHECK(session.run("y:0", {{"x:0", zeros({40})}}).shape() == Shape{40, 40});
}

TEST_CASE("the memory of a run is limited, constants and results included") {
  const Session session(load(filled(0), {.bytes = 10000}));
  CHECK(session.run("y:0", {{"x:0", zeros({20})}}).size() == 400);
  CHECK(names(refusal<ResourceExhaustedError>([&] {
                session.run("y:0", {{"x:0", zeros({60})}});
              }),
              {"'y'", "14400", "10000", "GraphLimits::bytes"}));

  // Each tensor is small enough, and what lives at one time is not.
  const Graph graph;
  Tensor x, sum;
  {
    const auto open = graph.as_default();
    x = placeholder(float32, {-1}, "x");
    std::vector<Tensor> parts;
    for (int i = 0; i < 20; ++i) parts.push_back(cumsum(x + static_cast<float>(i)));
    sum = reduce_sum(concat(parts, 0));
  }
  graph.set_limits({.bytes = 100000});
  CHECK(Session(graph).run(sum, {{x, zeros({100})}}).rank() == 0);
  CHECK(names(refusal<ResourceExhaustedError>([&] {
                Session(graph).run(sum, {{x, zeros({1000})}});
              }),
              {"bytes", "100000", "GraphLimits::bytes"}));

  const std::string file = numbers_text("a", {300}, std::vector<std::int64_t>(300, 1)) +
                           numbers_text("b", {300}, std::vector<std::int64_t>(300, 2)) +
                           node_text("y", "AddV2", {"a", "b"});
  CHECK_NOTHROW(load(file, {.bytes = 10000}));
  CHECK(names(refusal<ResourceExhaustedError>([&] { load(file, {.bytes = 2000}); }),
              {"'b'", "1200", "2000", "GraphLimits::bytes"}));
}

TEST_CASE("the nodes of a graph are limited") {
  CHECK_NOTHROW(load(filled(0), {.nodes = 100}));
  CHECK(names(refusal<ResourceExhaustedError>([&] { load(filled(0), {.nodes = 4}); }), {"4", "GraphLimits::nodes"}));
  const Graph graph;
  graph.set_limits({.nodes = 2});
  const auto open = graph.as_default();
  const Tensor x = placeholder(float32, {}, "x"), y = square(x);
  CHECK(names(refusal<ResourceExhaustedError>([&] { exp(y, "third"); }), {"'third'", "3", "2", "GraphLimits::nodes"}));
  CHECK(graph.operations().size() == 2);
}

TEST_CASE("the time of a run is limited, and a shorter timeout counts") {
  const Op& nap = register_op({.name = "LongNap", .infer = same_shape, .cpu = [](const Call& call) {
                                 std::this_thread::sleep_for(std::chrono::milliseconds(50));
                                 *call.output_data<float>() = *call.input(0).data<float>();
                               }});
  const Graph graph;
  graph.set_limits({.time_in_ms = 20});
  const auto open = graph.as_default();
  const Tensor x = placeholder(float32, {}, "x");
  const Tensor y = square(apply_op(nap.name, {x}), "after");
  const Session session(graph, {.optimize = false});
  CHECK(names(refusal<DeadlineExceededError>([&] {
                session.run(y, {{x, 3.0F}});
              }),
              {"after 20 ms", "'after'", "GraphLimits::time_in_ms"}));
  const auto sooner = refusal<DeadlineExceededError>([&] {
    session.run(y, {{x, 3.0F}}, {.timeout_in_ms = 1}, nullptr);
  });
  CHECK(names(sooner, {"after 1 ms"}));
  CHECK_FALSE(names(sooner, {"GraphLimits"}));
  CHECK(names(refusal<DeadlineExceededError>([&] {
                session.run(y, {{x, 3.0F}}, {.timeout_in_ms = 5000}, nullptr);
              }),
              {"GraphLimits::time_in_ms"}));
  graph.set_limits(GraphLimits::none());
  CHECK(session.run(y, {{x, 3.0F}}).item<float>() == 9);
}

TEST_CASE("loading takes no longer than it may") {
  std::string text = placeholder_text("n0");
  for (int i = 1; i < 20000; ++i) text += node_text("n" + std::to_string(i), "Square", {"n" + std::to_string(i - 1)});
  const std::string bytes = io::from_text(text);
  CHECK(names(refusal<DeadlineExceededError>([&] { Graph::from_graph_def(bytes, {.time_in_ms = 1}); }),
              {"after 1 ms", "'n", "GraphLimits::time_in_ms"}));
}

TEST_CASE("a size that the graph computes and that is none is refused, and nothing is written") {
  for (const std::int64_t offset : {-4, -5, -1000000}) {
    const Session session(
        load(filled(offset) + numbers_text("axes", {2}, {0, 1}) + node_text("z", "Sum", {"y", "axes"})));
    CAPTURE(offset);
    for (const char* fetch : {"y:0", "z:0"})
      CHECK(names(refusal<InvalidArgumentError>([&] { session.run(fetch, {{"x:0", zeros({3})}}); }), {"'y'"}));
    if (offset == -4) CHECK(session.run("y:0", {{"x:0", zeros({4})}}).size() == 0);
  }
  for (const char* op : {"RandomUniform", "RandomStandardNormal"}) {
    const std::string text = placeholder_text("x") + node_text("size", "Size", {"x"}) + numbers_text("four", {}, {4}) +
                             node_text("side", "Sub", {"size", "four"}) +
                             node_text("shape", "Pack", {"side"}, "attr { key: 'N' value { i: 1 } }") +
                             node_text("y", op, {"shape"}, "attr { key: 'dtype' value { type: DT_FLOAT } }");
    CAPTURE(op);
    const Session session(load(text));
    CHECK_THROWS_AS(session.run("y:0", {{"x:0", zeros({3})}}), InvalidArgumentError);
    CHECK(session.run("y:0", {{"x:0", zeros({6})}}).shape() == Shape{2});
  }
}

TEST_CASE("a list that a file makes long for nothing takes no memory") {
  // One number stands for all: 16 GB of them in a few bytes.
  const std::string list = numbers_text("list", {std::int64_t{1} << 31}, {1}, "DT_INT64");
  const std::string x = placeholder_text("x"), axis = numbers_text("axis", {}, {0});
  const std::pair<const char*, std::vector<std::string>> nodes[] = {{"Reshape", {"x", "list"}},
                                                                    {"Tile", {"x", "list"}},
                                                                    {"Transpose", {"x", "list"}},
                                                                    {"BroadcastTo", {"x", "list"}},
                                                                    {"ReverseV2", {"x", "list"}},
                                                                    {"Sum", {"x", "list"}},
                                                                    {"Slice", {"x", "list", "list"}},
                                                                    {"SplitV", {"x", "list", "axis"}},
                                                                    {"StridedSlice", {"x", "list", "list", "list"}},
                                                                    {"Fill", {"list", "x"}},
                                                                    {"DynamicStitch", {"list", "list"}},
                                                                    {"BroadcastArgs", {"list", "list"}},
                                                                    {"ConcatOffset", {"axis", "list", "list"}}};
  for (const auto& node : nodes) {
    const std::string op = node.first;
    CAPTURE(op);
    const std::string attrs = op == "SplitV" ? "attr { key: 'num_split' value { i: 2 } }" : "";
    CHECK_THROWS_AS(load(x + list + axis + node_text("y", op, node.second, attrs)), Error);
  }
}

TEST_CASE("sizes whose product nobody could count are refused where a shape becomes known") {
  const Op& growing = register_op({.name = "Growing",
                                   .infer = [](const Call& call) -> Specs {
                                     Shape shape = call.input(0).shape();
                                     for (int i = 0; i < 3; ++i) shape.push_back(huge);
                                     return {{float32, shape}};
                                   },
                                   .cpu = [](const Call&) {}});
  CHECK_THROWS_AS(apply_op(growing.name, {ones({2})}), InvalidArgumentError);
  const Graph graph;
  {
    const auto open = graph.as_default();
    const Tensor x = placeholder(float32, {2}, "x"), any = placeholder(float32, {-1}, "any");
    CHECK_THROWS_AS(apply_op(growing.name, {x}), InvalidArgumentError);
    CHECK_THROWS_AS(apply_op(growing.name, {any}), InvalidArgumentError);
  }
  Shape shape{1, 1, 1};
  for (int i = 0; i < 3; ++i) shape.set(i, huge);
  CHECK_THROWS_AS(row_major_strides(shape), InvalidArgumentError);
  CHECK(shape.size() == -1);
  // The elements of a view can be counted, and their bytes need not be.
  const Shape many{huge, std::int64_t{1} << 22};
  CHECK_THROWS_AS(exp(broadcast_to(tensor(1.0F), many)), ResourceExhaustedError);
  Tensor y, z;
  {
    const auto open = graph.as_default();
    y = broadcast_to(placeholder(float32, {}, "element"), many);
    z = exp(y);
  }
  CHECK(Session(graph).run(y, {{"element:0", 3.0F}})(-1)(-1).item<float>() == 3);
  CHECK_THROWS_AS(Session(graph).run(z, {{"element:0", 3.0F}}), ResourceExhaustedError);
  graph.set_limits({});
  CHECK_THROWS_AS(Session(graph).run(y, {{"element:0", 3.0F}}), ResourceExhaustedError);
}

TEST_CASE("the planner asserts that each block has a size") {
  const Op& vague = register_op({.name = "Vague",
                                 .infer = [](const Call&) -> Specs {
                                   return {{float32, Shape{-1}}};
                                 },
                                 .cpu = [](const Call&) {}});
  CHECK_THROWS_AS(apply_op(vague.name, {ones({2})}), InvalidArgumentError);
  const Graph graph;
  Tensor x, y;
  {
    const auto open = graph.as_default();
    x = placeholder(float32, {2}, "x");
    y = apply_op(vague.name, {x}, {}, "y");
  }
  CHECK(names(refusal<InternalError>([&] { Session(graph).run(y, {{x, ones({2})}}); }), {"'y:0'", "[?]"}));
}

TEST_CASE("a number that does not fit its element type becomes the nearest that does") {
  CHECK(detail::make_scalar(1e300, int32).item<std::int32_t>() == INT32_MAX);
  CHECK(detail::make_scalar(-1e300, int64).item<std::int64_t>() == INT64_MIN);
  CHECK(detail::make_scalar(-1, uint8).item<std::uint8_t>() == 0);
  CHECK(detail::make_scalar(NAN, int32).item<std::int32_t>() == 0);
}

}  // namespace tapestry::test::graph_limits_test
