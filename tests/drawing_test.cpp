// Graphs as pictures.

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <doctest/doctest.h>

#include "tapestry/tapestry.hpp"

namespace tapestry::test::drawing_test {
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

/// A loop around a branch, its gradient, and a loop over a sequence.
Graph flow_graph() {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1, 2}, "x"), n = placeholder(int32, {}, "n");
  const auto [count, y] =
      while_loop([&](Tensor i, Tensor) { return less(i, n); },
                 [&](Tensor i, Tensor s) {
                   const Tensor next = cond(
                       greater(reduce_sum(s), 10.0), [&] { return s * 0.5; }, [&] { return sin(s) + x; }, "branch");
                   return std::tuple{i + 1, next};
                 },
                 std::tuple{0, x}, {.name = "outer/loop"});
  const Tensor rows = map([](Tensor row) { return square(row); }, y, {.name = "rows"});
  gradients(reduce_sum(rows, {}, {}, "loss"), {x});
  return graph;
}

/// The boxes of functions, "node:function", each with the names of what must be inside it.
std::map<std::string, std::vector<std::string>> functions_of(const std::map<std::string, Box>& boxes) {
  std::map<std::string, std::vector<std::string>> functions;
  for (const auto& each : boxes) {
    const std::size_t colon = each.first.rfind(':');
    if (colon == std::string::npos) continue;
    const std::size_t slash = each.first.find('/', colon);
    std::vector<std::string>& nodes = functions[each.first.substr(0, slash)];
    if (slash != std::string::npos) nodes.push_back(each.first);
  }
  return functions;
}

bool is_inside(const Box& inner, const Box& outer) {
  return inner.x > outer.x && inner.y > outer.y && inner.x + inner.width < outer.x + outer.width &&
         inner.y + inner.height < outer.y + outer.height;
}

TEST_CASE("DOT has clusters for the functions of a node") {
  const std::string dot = flow_graph().to_dot();
  CHECK(count(dot, "{") == count(dot, "}"));
  for (const char* cluster : {"outer/loop:", "outer/loop:body", "outer/loop:cond", "outer/loop:body/branch:",
                              "outer/loop:body/branch:then", "outer/loop:body/branch:else", "rows:body"}) {
    CAPTURE(cluster);
    CHECK(count(dot, "subgraph \"cluster_" + std::string(cluster) + "\" {") == 1);
  }
  CHECK(count(dot, "\"outer/loop:body/branch:else/Sin\" [label=\"Sin\", shape=box, ") == 1);
  CHECK(count(dot, "\"outer/loop:body/branch:else/Sin\" -> \"outer/loop:body/branch:else/AddV2\"") == 1);
  CHECK(count(dot, "\"outer/loop\" -> \"outer/loop:body/variable\" [style=invis];") == 1);
  // A function's inputs are ellipses, and what computes its outputs has a thick line.
  CHECK(count(dot, "\"outer/loop:body/variable\" [label=\"variable : Placeholder\", shape=ellipse") == 1);
  const std::regex result("\"outer/loop:cond/Less\" \\[[^\\]]*penwidth=2\\];");
  CHECK(std::regex_search(dot, result));
  // Every end of an edge is a node that is declared.
  const std::regex declared("\n *(\"[^\"]+\") \\[label="), edge("\n  (\"[^\"]+\") -> (\"[^\"]+\") \\[");
  std::set<std::string> nodes;
  for (std::sregex_iterator each(dot.begin(), dot.end(), declared), end; each != end; ++each) nodes.insert((*each)[1]);
  std::size_t edges = 0;
  for (std::sregex_iterator each(dot.begin(), dot.end(), edge), end; each != end; ++each, ++edges)
    for (const int side : {1, 2}) CHECK_MESSAGE(nodes.contains((*each)[side]), (*each)[side].str());
  CHECK(edges > 40);
}

TEST_CASE("an SVG has the functions of a node inside its box") {
  const Graph graph = flow_graph();
  for (const char* direction : {"LR", "TB"}) {
    CAPTURE(direction);
    const std::string svg = graph.to_svg({.rankdir = direction});
    const auto boxes = boxes_of(svg);
    const auto functions = functions_of(boxes);
    for (const auto& [title, nodes] : functions) {
      const std::string& name = title;  // clang 14 cannot capture a part of a structured binding
      CAPTURE(name);
      CHECK(is_inside(boxes.at(name), boxes.at(name.substr(0, name.rfind(':')))));
      for (const std::string& a : nodes) {
        CAPTURE(a);
        CHECK(is_inside(boxes.at(a), boxes.at(name)));
        for (const std::string& b : nodes)
          if (a < b) CHECK_FALSE(overlap(boxes.at(a), boxes.at(b)));
      }
      for (const auto& other : functions)
        if (name < other.first && name.substr(0, name.rfind(':')) == other.first.substr(0, other.first.rfind(':')))
          CHECK_FALSE(overlap(boxes.at(name), boxes.at(other.first)));
    }
    const std::string dot = graph.to_dot();
    const std::regex cluster("subgraph \"cluster_[^\"]*:[^\"/:]+\" ");
    CHECK(functions.size() ==
          static_cast<std::size_t>(std::distance(std::sregex_iterator(dot.begin(), dot.end(), cluster), {})));
    CHECK(functions.size() > 5);
    for (const Operation& a : graph.operations()) {
      for (const Operation& b : graph.operations())
        if (a.name() < b.name()) CHECK_FALSE(overlap(boxes.at(a.name()), boxes.at(b.name())));
    }
    CHECK(count(svg, "<g>") == count(svg, "</g>"));
  }
}

TEST_CASE("the labels of the lines from a node do not cover each other") {
  Graph graph;
  {
    const auto scope = graph.as_default();
    const Tensor x = placeholder(float32, {3, 4}, "x");
    const auto best = top_k(x, 2);
    const auto rows = split(x, 3, 0);
    while_loop([](const Tensor& a, const Tensor&) { return reduce_all(a < 9.0); },
               [](const Tensor& a, const Tensor& b) {
                 return std::tuple{a + b, b + 1.0};
               },
               std::tuple{rows[0] + rows[1] + rows[2], reduce_sum(best.values)});
  }
  for (const char* direction : {"LR", "TB"}) {
    CAPTURE(direction);
    const std::string svg = graph.to_svg({.rankdir = direction});
    const std::regex label("<text x=\"(-?\\d+)\" y=\"(-?\\d+)\" font-size=\"8\"");
    std::set<std::pair<std::string, std::string>> places;
    std::size_t labels = 0;
    for (std::sregex_iterator each(svg.begin(), svg.end(), label), end; each != end; ++each, ++labels)
      CHECK_MESSAGE(places.emplace((*each)[1], (*each)[2]).second, (*each)[1].str(), " ", (*each)[2].str());
    CHECK(labels > 8);
  }
}

TEST_CASE("explain prints the functions of a node once, below it") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1, 2}, "x");
  const Tensor y = while_loop([](Tensor s) { return less(reduce_sum(s), 10.0); },
                              [&](Tensor s) {
                                return cond(
                                    less(reduce_max(s), 3.0), [&] { return s * x; }, [&] { return s; }, "branch");
                              },
                              x, {.name = "loop"});
  std::ostringstream out;
  out << Session().explain(y, {{x, {{1.0, 2.0}}}});
  const std::string text = out.str();
  CAPTURE(text);
  CHECK(count(text, "functions") == 0);
  CHECK(count(text, "\n    body(variable, ") == 1);
  CHECK(count(text, "\n    cond(variable, _) -> Less\n      Sum = Sum(variable)") == 1);
  CHECK(count(text, "\n      branch = StatelessIf(") == 1);
  CHECK(count(text, "\n        then(variable, x) -> Mul\n          Mul = Mul(variable, x)") == 1);
  CHECK(count(text, "\n        else(variable, _) -> variable\n") == 1);
  CHECK(count(text, "\n    body: as before\n    cond: as before\n") >= 1);
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

}  // namespace tapestry::test::drawing_test
