// Every tensor of a file has its name, by which it is fetched and fed.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/hash_index.hpp"
#include "expect.hpp"
#include "node_text.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::foreign_names_test {
namespace {

std::set<std::string> names_of(const Graph& graph) {
  std::set<std::string> names;
  for (const Operation& each : graph.operations()) names.insert(each.name());
  return names;
}

}  // namespace

TEST_CASE("every tensor of a file is fetched and fed by its name") {
  Graph graph =
      read(placeholder_node("x", "dim { size: 2 } dim { size: 3 }") + ints_node("perm", {1, 0}) +
           node("y", "Transpose", {"x", "perm"}, t_float + attr("Tperm", "type: DT_INT32")) + ints_node("axis", {0}) +
           node("sum", "Sum", {"y", "axis"}, t_float + attr("Tidx", "type: DT_INT32")) +
           node("both", "IdentityN", {"x", "y"}, attr("T", "list { type: DT_FLOAT type: DT_FLOAT }")) +
           node("shapes", "ShapeN", {"x", "y"}, t_float + attr("N", "i: 2")) +
           node("flat", "Reshape", {"y", "shapes"}, t_float));
  const Session session(graph);
  const Tensor value = tensor<float>({{1, 2, 3}, {4, 5, 6}});
  const Feeds x{{"x:0", value}};
  check_same(session.run("sum:0", x), tensor<float>({6, 15}));
  check_same(session.run("perm:0"), tensor<std::int32_t>({1, 0}));
  check_same(session.run("both:0", x), value);
  check_same(session.run("both:1", x), transpose(value));
  check_same(session.run("shapes:1", x), tensor<std::int32_t>({3, 2}));
  check_same(session.run("flat:0", x), reshape(transpose(value), {2, 3}));

  SUBCASE("a value that is an attribute elsewhere") {
    check_same(session.run("sum:0", {{"x:0", value}, {"axis:0", tensor<std::int32_t>({1})}}), tensor<float>({5, 7, 9}));
    check_same(session.run("y:0", {{"x:0", value}, {"perm:0", tensor<std::int32_t>({0, 1})}}), value);
    check_same(session.run("flat:0", {{"x:0", value}, {"shapes:0", tensor<std::int32_t>({6, 1})}}),
               reshape(transpose(value), {6, 1}));
    check_same(session.run("sum:0", x), tensor<float>({6, 15}));
    auto call = session.make_callable({"sum:0"}, {graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("axis:0")});
    check_same(call(value, tensor<std::int32_t>({1}))[0], tensor<float>({5, 7, 9}));
    check_same(call(value, tensor<std::int32_t>({0}))[0], tensor<float>({6, 15}));
  }
  SUBCASE("the second output of a node") {
    check_same(session.run("both:1", {{"both:1", zeros({3, 2})}}), zeros({3, 2}));
  }
  SUBCASE("what was added later is refused while a value is an attribute") {
    const auto scope = graph.as_default();
    const Tensor later = negative(graph.get_tensor_by_name("sum:0"), "later");
    check_same(session.run(later, x), tensor<float>({-6, -15}));
    CHECK(message_of<InvalidArgumentError>([&] {
            session.run(later, {{"x:0", value}, {"axis:0", tensor<std::int32_t>({1})}});
          }).starts_with("'later:0' cannot be fetched while a value is fed"));
  }
  SUBCASE("a finalized graph") {
    graph.finalize();
    check_same(session.run("perm:0"), tensor<std::int32_t>({1, 0}));
    CHECK(graph.finalized());
  }
}

TEST_CASE("feeding a tensor changes what the file's nodes make of it, and nothing else") {
  const auto one = [](const std::string& name, const std::string& value) {
    return constant_node(name, "DT_FLOAT", "tensor_shape { dim { size: 1 } } float_val: " + value);
  };
  const auto norm = [](const std::string& name, const std::vector<std::string>& inputs, bool training) {
    return node(name, "FusedBatchNormV3", inputs,
                t_float + attr("U", "type: DT_FLOAT") + attr("is_training", training ? "b: true" : "b: false"));
  };
  std::string text = placeholder_node("x", "dim { size: 1 } dim { size: 2 } dim { size: 2 } dim { size: 1 }") +
                     one("scale", "2") + one("mean", "0.5") +
                     constant_node("none", "DT_FLOAT", "tensor_shape { dim { } }") + ints_node("axes", {0, 1, 2, 3}) +
                     ints_node("axis", {0}) + norm("in", {"x", "scale", "mean", "mean", "scale"}, false) +
                     norm("out", {"x", "scale", "mean", "none", "none"}, true) +
                     node("back", "FusedBatchNormGradV3", {"in", "x", "scale", "out:3", "out:4", "out:5"},
                          t_float + attr("U", "type: DT_FLOAT")) +
                     node("pair", "IdentityN", {"x", "mean"}, attr("T", "list { type: DT_FLOAT type: DT_FLOAT }")) +
                     node("flat", "Reshape", {"x", "minus"}, t_float) + ints_node("minus", {-1}) +
                     node("top", "TopKV2", {"flat", "two"}, t_float) + constant_node("two", "DT_INT32", "int_val: 2");
  // The result is the sum of each tensor's elements, times a number of its own.
  const std::vector<std::pair<std::string, std::string>> parts{
      {"in", "axes"},   {"in:1", "axis"},   {"in:2", "axis"},   {"out", "axes"},  {"out:1", "axis"},  {"out:2", "axis"},
      {"back", "axes"}, {"back:1", "axis"}, {"back:2", "axis"}, {"pair", "axes"}, {"pair:1", "axis"}, {"top", "axis"}};
  std::vector<std::string> terms;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    text += node("sum" + number, "Sum", {parts[i].first, parts[i].second}, t_float + attr("Tidx", "type: DT_INT32")) +
            float_node("factor" + number, number) +
            node("term" + number, "Mul", {"sum" + number, "factor" + number}, t_float);
    terms.push_back("term" + number);
  }
  text += node("y", "AddN", terms, t_float + attr("N", "i: " + std::to_string(terms.size())));
  const Graph graph = read(text);
  const Feeds x{{"x:0", tensor<float>({{{{1}, {3}}, {{2}, {-1}}}})}};
  const Session session(graph);
  const double before = session.run("y:0", x).item<double>();
  for (std::size_t i = 1; i < parts.size(); ++i) {  // the gradient takes in:0
    const std::string name = parts[i].first + (parts[i].first.find(':') == std::string::npos ? ":0" : "");
    CAPTURE(name);
    const Tensor value = session.run(name, x);
    Feeds fed = x;
    fed.add(name, value + 1.0F);
    const double due = before + static_cast<double>(i + 1) * static_cast<double>(value.size());
    CHECK(session.run("y:0", fed).item<double>() == doctest::Approx(due).epsilon(1e-6));
  }
  for (const std::string name : {"axis:0", "two:0", "minus:0"}) CHECK(session.run(name, x).dtype() == int32);
  const Feeds shorter{{"x:0", ones({1, 2, 2, 1})}, {"two:0", tensor(1)}};
  CHECK(session.run("top:0", shorter).shape() == Shape{1});
  for (const std::string name : {"in", "out", "back", "pair", "top"})
    check_same(session.run(graph.get_operation_by_name(name).output(0), x), session.run(name + ":0", x));
  const Graph again = Graph::from_graph_def(graph.as_graph_def());
  CHECK(Session(again).run("y:0", x).item<double>() == before);
  CHECK(again.as_graph_def() == Graph::from_graph_def(again.as_graph_def()).as_graph_def());
}

TEST_CASE("what is fed does not change the order in which random numbers are drawn") {
  Graph built;
  {
    const auto scope = built.as_default();
    random::normal({3}, {}, "first");
    random::uniform({2}, {}, "second");
  }
  const Session session(Graph::from_graph_def(built.as_graph_def()));
  const std::vector<std::string> fetches{"first:0", "second:0"};
  random::seed(7);
  const auto expected = session.run(fetches);
  random::seed(7);
  const auto found = session.run(fetches, {{"first/shape:0", tensor({3})}});
  for (std::size_t i = 0; i < fetches.size(); ++i) CHECK(same_bits(found[i], expected[i]));
}

TEST_CASE("a loop's counter is not fed: the loop does not read it") {
  const std::string counter = constant_node("zero", "DT_INT32", "int_val: 0");
  const auto frame = attr("T", "type: DT_INT32") + attr("frame_name", "s: 'loop'");
  const auto t_int = attr("T", "type: DT_INT32");
  const Graph graph = read(
      placeholder_node("x", "dim { size: 2 }") + counter + constant_node("n", "DT_INT32", "int_val: 3") +
      node("i", "Enter", {"zero"}, frame) + node("s", "Enter", {"x"}, t_float + attr("frame_name", "s: 'loop'")) +
      node("i_now", "Merge", {"i", "i_next"}, t_int + attr("N", "i: 2")) +
      node("s_now", "Merge", {"s", "s_next"}, t_float + attr("N", "i: 2")) +
      node("most", "Enter", {"n"}, frame + attr("is_constant", "b: true")) +
      node("goes_on", "Less", {"i_now", "most"}, t_int) + node("test", "LoopCond", {"goes_on"}) +
      node("i_switch", "Switch", {"i_now", "test"}, t_int) + node("s_switch", "Switch", {"s_now", "test"}, t_float) +
      constant_node("one", "DT_INT32", "int_val: 1") + node("i_more", "AddV2", {"i_switch:1", "step"}, t_int) +
      node("step", "Enter", {"one"}, frame + attr("is_constant", "b: true")) +
      node("s_more", "Neg", {"s_switch:1"}, t_float) + node("i_next", "NextIteration", {"i_more"}, t_int) +
      node("s_next", "NextIteration", {"s_more"}, t_float) + node("count", "Exit", {"i_switch"}, t_int) +
      node("result", "Exit", {"s_switch"}, t_float));
  const Session session(graph);
  const Feeds x{{"x:0", {1.0, 2.0}}};
  check_same(session.run("result:0", x), tensor<float>({-1, -2}));
  check_same(session.run("count:0", x), tensor(3));
  CHECK(message_of<UnimplementedError>([&] {
          session.run("result:0", {{"x:0", {1.0, 2.0}}, {"zero:0", tensor(1)}});
        }).starts_with("'zero' cannot be fed: the loop "));
}

TEST_CASE("names of the file are the file's, whatever their case") {
  const Graph graph = read(placeholder_node("x", "dim { size: 2 }") + placeholder_node("X", "dim { size: 2 }") +
                           node("add", "Add", {"x", "X"}, t_float) +
                           node("pair", "ArgMax", {"add", "zero"}, t_float + attr("output_type", "type: DT_INT32")) +
                           ints_node("zero", {0}) + node("pair/int64", "Neg", {"add"}, t_float) +
                           node("Add", "Mul", {"x", "X"}, t_float));
  const Session session(graph);
  const Feeds feeds{{"x:0", {1.0, 2.0}}, {"X:0", {3.0, 5.0}}};
  check_same(session.run("add:0", feeds), tensor<float>({4, 7}));
  check_same(session.run("Add:0", feeds), tensor<float>({3, 10}));
  check_same(session.run("pair/int64:0", feeds), tensor<float>({-4, -7}));
  const std::set<std::string> names = names_of(graph);
  for (const char* name : {"x", "X", "add", "Add", "pair/int64"}) CHECK(names.contains(name));
  const Graph again = Graph::from_graph_def(graph.as_graph_def());
  check_same(Session(again).run("Add:0", feeds), tensor<float>({3, 10}));
}

TEST_CASE("an index of names finds what was added and not erased") {
  std::map<std::string, std::uint32_t> due;
  std::vector<std::string> names;
  detail::HashIndex index;
  std::uint32_t state = 3;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1664525 + 1013904223;
    const std::string name = "n" + std::to_string((state >> 16) % 300);
    const std::uint32_t hash = detail::HashIndex::hash(name) % 61;  // many have the same
    const auto is_it = [&](std::uint32_t position) { return names[position] == name; };
    const auto found = due.find(name);
    REQUIRE(index.find(hash, is_it) == (found == due.end() ? detail::HashIndex::none : found->second));
    if (found != due.end()) {
      index.erase(hash, is_it);
      due.erase(found);
    } else {
      const auto position = static_cast<std::uint32_t>(names.size());
      names.push_back(name);
      due.emplace(name, position);
      index.add(hash, position);
    }
    REQUIRE(index.size() == due.size());
  }
}

TEST_CASE("who writes a file again keeps the names of all nodes, also of constants that are attributes") {
  const std::string t_index = attr("Tidx", "type: DT_INT32");
  const std::string text =
      placeholder_node("x", "dim { size: 2 } dim { size: 3 }") + ints_node("perm", {1, 0}) +
      node("y", "Transpose", {"x", "perm"}, t_float + attr("Tperm", "type: DT_INT32")) +
      constant_node("sum/axis", "DT_INT32", "tensor_shape { } int_val: -1") +
      node("sum", "Sum", {"y", "sum/axis"}, t_float + t_index) + ints_node("to", {-1, 2}) +
      node("flat", "Reshape", {"y", "to"}, t_float) + ints_node("shape", {3, -1}) +
      node("again", "Reshape", {"flat", "shape"}, t_float) +
      constant_node("again/shape", "DT_INT32", "tensor_shape { dim { size: 2 } } int_val: 7 int_val: 8") +
      node("all", "Sum", {"again", "again/shape_1"}, t_float + t_index) + ints_node("again/shape_1", {0, 1}) +
      constant_node("pads", "DT_INT32",
                    "tensor_shape { dim { size: 2 } dim { size: 2 } } int_val: 1 int_val: 0 int_val: 0 int_val: 2") +
      node("wide", "Pad", {"x", "pads"}, t_float) + node("a/_/b", "Identity", {"x"}, t_float) +
      node("a/_/six", "Relu6", {"x"}, t_float) +
      node("a/_/both", "IdentityN", {"a/_/six", "x"}, attr("T", "list { type: DT_FLOAT type: DT_FLOAT }")) +
      node("joined", "ConcatV2", {"x", "x", "sum/axis"}, t_float + t_index + attr("N", "i: 2"));
  const Feeds x{{"x:0", tensor<float>({{1, 2, 3}, {4, 5, 9}})}};
  const auto values_of = [&](const Graph& graph, const std::vector<std::string>& names) {
    std::map<std::string, Tensor> values;
    const Session session(graph);
    for (const std::string& name : names) values.emplace(name, session.run(name, x));
    return values;
  };
  std::vector<std::string> names{"a/_/both:1"};
  for (const io::NodeDef& each : io::decode(io::from_text(text)).nodes) names.push_back(each.name + ":0");
  const std::map<std::string, Tensor> expected = values_of(read(text), names);
  std::string bytes = io::from_text(text), before;
  for (int generation = 0; generation < 3; ++generation) {
    CAPTURE(generation);
    before = std::exchange(bytes, Graph::from_graph_def(bytes).as_graph_def());
    // TensorFlow takes the nodes that have the names, not what the reader makes of them.
    for (const auto& each : expected) {
      const std::string& name = each.first;
      CAPTURE(name);
      const io::NodeDef written = def_of(bytes, name.substr(0, name.find(':')));
      if (const auto found = written.attrs.find("value"); found != written.attrs.end() && written.op == "Const")
        check_same(std::get<io::TensorDef>(found->second).value, each.second);
    }
    for (const auto& each : values_of(Graph::from_graph_def(bytes), names))
      check_same(each.second, expected.at(each.first));
  }
  CHECK(io::decode(bytes).nodes.size() == io::decode(before).nodes.size());
}

}  // namespace tapestry::test::foreign_names_test
