// Graphs as pictures.

#include <map>
#include <regex>

#include <doctest/doctest.h>

#include "tapestry/tapestry.hpp"

namespace tapestry::test {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

struct Box {
  double x, y, width, height;
};

/// The boxes of an SVG's nodes by the names in their titles.
std::map<std::string, Box> boxes_of(const std::string& svg) {
  const std::regex node(
      "<title>([^ ]+) [^<]*</title><rect x=\"(-?\\d+)\" y=\"(-?\\d+)\" width=\"(\\d+)\" height=\"(\\d+)\"");
  std::map<std::string, Box> boxes;
  for (std::sregex_iterator each(svg.begin(), svg.end(), node), end; each != end; ++each)
    boxes[(*each)[1]] = {std::stod((*each)[2]), std::stod((*each)[3]), std::stod((*each)[4]), std::stod((*each)[5])};
  return boxes;
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

}  // namespace

TEST_CASE("DOT has a cluster for each name scope") {
  Graph graph;
  {
    const auto scope = graph.as_default();
    const Tensor x = placeholder(float32, {-1, 2}, "x");
    const auto hidden = name_scope("hidden");
    const Tensor y = square(x, "y");
    const auto inner = name_scope("inner");
    const auto after = control_dependencies({y});
    negative(x, "z");
  }
  const std::string dot = graph.to_dot();
  CHECK(dot.starts_with("digraph {\n  rankdir=LR;\n"));
  CHECK(dot.ends_with("}\n"));
  CHECK(count(dot, "{") == count(dot, "}"));
  CHECK(count(dot, "subgraph \"cluster_hidden\" {") == 1);
  CHECK(count(dot, "subgraph \"cluster_hidden/inner\" {") == 1);
  CHECK(count(dot, "\"hidden/y\" [label=\"y : Square\", shape=box") == 1);
  CHECK(count(dot, "\"x\" -> \"hidden/y\" [label=\"[?,2]\"];") == 1);
  CHECK(count(dot, "\"hidden/y\" -> \"hidden/inner/z\" [style=dashed];") == 1);
  CHECK(graph.to_dot({.rankdir = "TB"}).starts_with("digraph {\n  rankdir=TB;\n"));
  CHECK_THROWS_AS(graph.to_dot({.rankdir = "RL"}), InvalidArgumentError);
  CHECK_THROWS_AS(graph.to_svg({.rankdir = ""}), InvalidArgumentError);
}

TEST_CASE("in an SVG nodes follow their inputs and none covers another") {
  Graph graph;
  {
    const auto scope = graph.as_default();
    Variable w(tensor<float>({{1, 2}, {3, 4}}), {.name = "w"}), b(zeros({2}), {.name = "b"});
    const Tensor x = placeholder(float32, {-1, 2}, "x");
    const Tensor loss = reduce_mean(square(sigmoid(matmul(x, w) + b)), "loss");
    train::GradientDescentOptimizer(0.1).minimize(loss);
  }
  for (const char* direction : {"LR", "TB"}) {
    CAPTURE(direction);
    const std::string svg = graph.to_svg({.rankdir = direction});
    const auto boxes = boxes_of(svg);
    REQUIRE(boxes.size() == graph.operations().size());
    const bool right = direction == std::string("LR");
    for (const Operation& operation : graph.operations()) {
      const Box& to = boxes.at(operation.name());
      CHECK(to.x >= 0);
      CHECK(to.y >= 0);
      for (const Tensor& input : operation.inputs()) {
        const Box& from = boxes.at(input.op().name());
        CHECK((right ? from.x + from.width < to.x : from.y + from.height < to.y));
      }
    }
    for (auto a = boxes.begin(); a != boxes.end(); ++a)
      for (auto b = std::next(a); b != boxes.end(); ++b) {
        CAPTURE(a->first);
        CAPTURE(b->first);
        CHECK_FALSE(overlap(a->second, b->second));
      }
    CHECK(count(svg, "<g>") == count(svg, "</g>"));
  }
}

TEST_CASE("deep and wide graphs are drawn in reasonable time") {
  Graph graph;
  {
    const auto scope = graph.as_default();
    Tensor x = placeholder(float32, {2}, "x"), y = x;
    for (int i = 0; i < 1500; ++i) y = i % 3 == 0 ? y + x : square(y);
  }
  CHECK(boxes_of(graph.to_svg()).size() == graph.operations().size());
  CHECK(count(graph.to_dot(), "label=") > 1500);
}

TEST_CASE("an empty graph is an empty picture") {
  CHECK(Graph().to_dot().ends_with("}\n"));
  CHECK(Graph().to_svg().ends_with("</svg>\n"));
}

}  // namespace tapestry::test
