// Files with graphs that make no sense, and damaged ones.

#include <functional>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"
#include "two_layers.hpp"

namespace tapestry::test::graphdef_refused_test {

TEST_CASE("graphs that make no sense are refused") {
  const auto load = [](const std::string& text) { return Graph::from_graph_def(io::from_text(text)); };
  const std::string x = R"(node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } })";
  CHECK(message_of([&] { load(R"(node { name: "y" op: "Neg" input: "x" })"); }) == "Node 'y': Unknown input node 'x'");
  CHECK(message_of([&] { load(x + x); }) == "Node 'x' is not unique");
  CHECK(message_of([&] {
          load(R"(node { name: "a" op: "Neg" input: "b" } node { name: "b" op: "Neg" input: "a" })");
        }) == "The graph has a cycle at node 'a'");
  CHECK(message_of([&] { load(x + R"(node { name: "y" op: "Neg" input: "x:3" })"); }) ==
        "Node 'y' (op: 'Neg'): output 3 of node 'x' is used, which has 1");
  CHECK(message_of([&] { load(x + R"(node { name: "y" op: "Sum" input: "x" input: "x" })"); }) ==
        "Node 'y' (op: 'Sum'): its input 1, 'x:0', is float32, where whole numbers are due");
  CHECK(message_of([&] { load(x + R"(node { name: "y" op: "Mul" input: "x" })"); }) ==
        "Node 'y' (op: 'Mul'): it has 1 inputs; 2 are due");
  CHECK(message_of([&] {
          load(x + R"(node { name: "i" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }
                      node { name: "y" op: "Mul" input: "x" input: "i" })");
        }) == "Node 'y' (op: 'Mul'): its inputs have the types float32 and int32");
  CHECK(message_of([&] {
          load(R"(node { name: "axis" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }
                                node { name: "y" op: "ConcatOffset" input: "axis" })");
        }) == "Node 'y' (op: 'ConcatOffset'): it has no input 1");
  CHECK(message_of([&] {
          load(x +
               R"(node { name: "y" op: "Foo" input: "x" attr { key: "_tapestry_op" value { s: "ResourceApplyAdam" } }
                      attr { key: "_tapestry_inputs" value { list { } } } })");
        }) == "Node 'y' (op: 'Foo'): the hint names an op that is not written so");
  CHECK(message_of([&] { load("node { name: \"x\" op: }"); }).find("in line 1") != std::string::npos);
  const auto constant = [](const std::string& name, const std::string& size, const std::string& values) {
    return "node { name: \"" + name +
           R"(" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value"
      value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: )" +
           size + " } } " + values + " } } } }\n";
  };
  // One element for all is no memory; other repetitions are limited for the file.
  const std::string one = constant("c", "4000000000000", "float_val: 7");
  CHECK_THROWS_AS(load(one), ResourceExhaustedError);
  const Graph huge = Graph::from_graph_def(io::from_text(one), GraphLimits::none());
  CHECK(Session(huge).run("c:0")(-1).item<float>() == 7);
  CHECK(huge.as_graph_def().size() < 1000);
  CHECK(Session(Graph::from_graph_def(huge.as_graph_def(), GraphLimits::none())).run("c:0")(-1).item<float>() == 7);
  for (const DType dtype : {boolean, uint8, int32, int64, float16, bfloat16, float32, float64})
    for (const double value : {0.0, 1.0, 2.5, -3.0}) {
      CAPTURE(dtype);
      const Tensor element = tensor(value).cast(dtype), all = broadcast_to(element, {3, 2});
      const Graph graph;
      const auto scope = graph.as_default();
      tapestry::constant(all, "c");
      const Graph again = Graph::from_graph_def(graph.as_graph_def());
      CHECK(same_bits(Session(again).run("c:0"), all.contiguous()));
    }
  const std::string two = "float_val: 1 float_val: 2";
  CHECK_THROWS_AS(load(constant("c", "4000000000000", two)), InvalidArgumentError);
  CHECK_NOTHROW(load(constant("c", "9000000", two)));
  CHECK_THROWS_AS(load(constant("c", "9000000", two) + constant("d", "9000000", two)), InvalidArgumentError);
  CHECK_THROWS_AS(
      load(R"(node { name: "c" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value"
      value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 3 } } tensor_content: "\000\000" } } } })"),
      DataLossError);
}

TEST_CASE("damaged files are errors and nothing worse") {
  const TwoLayers model(train::MomentumOptimizer(0.1, 0.9));
  const std::string bytes = model.graph.as_graph_def(), text = io::to_text(bytes);
  int loaded = 0, refused = 0;
  const auto attempt = [&](const std::string& data, bool is_text) {
    try {
      Graph::from_graph_def(is_text ? io::from_text(data) : data);
      ++loaded;
    } catch (const Error&) {
      ++refused;
    }
  };
  for (std::size_t size = 0; size < bytes.size(); ++size) attempt(bytes.substr(0, size), false);
  for (std::size_t size = 0; size < text.size(); size += 7) attempt(text.substr(0, size), true);
  std::mt19937 random(1);
  for (int i = 0; i < 4000; ++i) {
    std::string data = i % 2 == 0 ? bytes : text;
    for (unsigned k = 0; k <= random() % 4; ++k) {
      const std::size_t at = random() % data.size();
      switch (random() % 4) {
        case 0:
          data[at] = static_cast<char>(random());
          break;
        case 1:
          data.erase(at, 1 + random() % 16);
          break;
        case 2:
          data.insert(at, data.substr(random() % data.size(), random() % 32));
          break;
        default:
          data[at] = static_cast<char>(data[at] ^ (1 << random() % 8));
      }
    }
    attempt(data, i % 2 != 0);
  }
  CHECK(loaded > 0);
  CHECK(refused > 1000);
}

}  // namespace tapestry::test::graphdef_refused_test
