// Files with branches and loops that were changed by hand: what they may say in other ways, and what is refused.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "expect.hpp"
#include "flow_models.hpp"
#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/op_rules.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"

namespace flow_files_changed_test {

using namespace tapestry;
using namespace tapestry::test;

#define TAPESTRY_INVALID(text, ...) TAPESTRY_REFUSED(InvalidArgumentError, text, __VA_ARGS__)

namespace {

/// The file of a loop that counts to n, with a change.
std::string changed_file(const std::function<void(io::GraphDef&, std::vector<io::FunctionDef>&)>& change) {
  const auto traced = trace(
      [](Tensor n) { return while_loop([&](Tensor i) { return less(i, n); }, [](Tensor i) { return i + 1; }, 0); },
      {spec(int32, {})});
  io::GraphDef file = io::decode(traced.graph().as_graph_def());
  std::vector<io::FunctionDef> functions = io::decode_library(file.library, GraphLimits::none());
  change(file, functions);
  file.library.clear();
  for (const io::FunctionDef& each : functions) file.library += io::encode_function(each);
  return io::encode(file);
}

io::NodeDef& loop_in(io::GraphDef& file) {
  return *std::find_if(file.nodes.begin(), file.nodes.end(),
                       [](const io::NodeDef& each) { return each.op.ends_with("While"); });
}

/// A message with the fields of one number in the reverse order, each changed by a function.
std::string reversed(
    std::string_view message, protozero::pbf_tag_type tag,
    const std::function<std::string(std::string)>& change = [](const std::string& field) { return field; }) {
  std::vector<std::pair<protozero::pbf_tag_type, std::string>> fields;
  std::vector<std::string> turned;
  protozero::pbf_reader reader(message.data(), message.size());
  while (reader.next()) {
    REQUIRE(reader.wire_type() == protozero::pbf_wire_type::length_delimited);
    fields.emplace_back(reader.tag(), reader.get_string());
    if (fields.back().first == tag) turned.push_back(change(fields.back().second));
  }
  std::string out;
  protozero::pbf_writer writer(out);
  for (const auto& [number, bytes] : fields) {
    writer.add_message(number, number == tag ? turned.back() : bytes);
    if (number == tag) turned.pop_back();
  }
  return out;
}

}  // namespace

TEST_CASE("a library may give a function again with its nodes and the entries of its maps in another order") {
  const Graph graph = Graph::from_graph_def(changed_file([](io::GraphDef&, std::vector<io::FunctionDef>&) {}));
  const std::string library = io::decode(graph.as_graph_def()).library;
  constexpr protozero::pbf_tag_type function = 1, node = 3, returned = 4, input = 3, attr = 5;
  const auto same = [&](const std::string& f) {
    return reversed(reversed(f, returned), node, [&](const std::string& n) { return reversed(n, attr); });
  };
  const auto other = [&](const std::string& f) {
    return reversed(f, node, [&](const std::string& n) { return reversed(n, input); });
  };
  const std::string again = reversed(library, function, same), different = reversed(library, function, other);
  std::string merged = library;
  io::merge_library(merged, library);
  io::merge_library(merged, again);
  CHECK(again != library);
  CHECK(merged == library);
  CHECK_THROWS_WITH_AS(io::merge_library(merged, different), doctest::Contains("There is already another function"),
                       InvalidArgumentError);
  CHECK(merged == library);
  CHECK(io::decode_library(library + again, GraphLimits::none()).size() == 2);
  CHECK_THROWS_WITH_AS(io::decode_library(library + different, GraphLimits::none()),
                       doctest::Contains("two different functions"), InvalidArgumentError);
}

TEST_CASE("files whose functions lie are refused") {
  using File = io::GraphDef;
  using Functions = std::vector<io::FunctionDef>;  // the condition and the body
  CHECK_NOTHROW(Graph::from_graph_def(changed_file([](File&, Functions&) {})));
  TAPESTRY_INVALID(
      "which takes 4 tensors and returns 3, not 4 and 4",
      Graph::from_graph_def(changed_file([](File&, Functions& library) { library[1].outputs.pop_back(); })));
  TAPESTRY_INVALID("which takes 5 tensors and returns 1, not 4 and 1",
                   Graph::from_graph_def(changed_file([](File&, Functions& library) {
                     library[0].inputs.push_back(library[0].inputs.back());
                     library[0].inputs.back().name = "more";
                   })));
  TAPESTRY_INVALID("which calls itself", Graph::from_graph_def(changed_file([](File& file, Functions& library) {
                     io::NodeDef call = loop_in(file);
                     call.inputs.clear();
                     for (const auto& each : library[1].inputs) call.inputs.push_back(each.name);
                     library[1].nodes.push_back(call);
                   })));
  TAPESTRY_INVALID("is neither an argument nor an output",
                   Graph::from_graph_def(
                       changed_file([](File&, Functions& library) { library[1].returns.begin()->second = "absent"; })));
  TAPESTRY_INVALID("is bool, but is declared as int32",
                   Graph::from_graph_def(changed_file([](File&, Functions& library) {
                     for (io::NodeDef& node : library[1].nodes)
                       if (node.op == "AddV2" && node.name != "next") node.op = "Less";
                   })));
  const auto refuse = [](const std::string& text, const std::function<void(File&, Functions&)>& change) {
    CAPTURE(text);
    TAPESTRY_INVALID(text, Graph::from_graph_def(changed_file(change)));
  };
  for (const std::size_t f : {0, 1}) {
    refuse("has an attribute 'T' with DT_INT32 for tensor 2, which its function '",
           [&](File&, Functions& library) { library[f].inputs[2].type = io::code_of(float32); });
    refuse("in which the name '", [&](File&, Functions& library) { library[f].nodes.push_back(library[f].nodes[0]); });
    refuse("in which the name '",
           [&](File&, Functions& library) { library[f].nodes[0].name = library[f].inputs[0].name; });
    refuse("in which the name '",
           [&](File&, Functions& library) { library[f].inputs[1].name = library[f].inputs[0].name; });
    refuse("The graph has two different functions '", [&](File&, Functions& library) {
      library.push_back(library[f]);
      library.back().nodes.pop_back();
    });
    CHECK_NOTHROW(
        Graph::from_graph_def(changed_file([&](File&, Functions& library) { library.push_back(library[f]); })));
  }
  refuse("in which the name '",
         [](File&, Functions& library) { library[1].outputs[1].name = library[1].outputs[0].name; });
  refuse("DT_INT32 for tensor 2, which its function '",
         [](File&, Functions& library) { library[1].outputs[2].type = io::code_of(float32); });
  refuse("is bool, but is declared as int32",
         [](File&, Functions& library) { library[0].outputs[0].type = io::code_of(int32); });
  refuse("' is int32, but is declared as float32", [](File& file, Functions& library) {
    std::get<io::ListDef>(loop_in(file).attrs.at("T")).types[2] = io::code_of(float32);
    for (io::FunctionDef& each : library) each.inputs[2].type = io::code_of(float32);
    library[1].outputs[2].type = io::code_of(float32);
  });
  refuse("has an attribute 'T' of 0 types, but its function '",
         [](File& file, Functions&) { std::get<io::ListDef>(loop_in(file).attrs.at("T")).types.clear(); });
  refuse("has an attribute 'T' that is no list of types",
         [](File& file, Functions&) { loop_in(file).attrs.at("T") = std::int64_t{3}; });
  refuse("output 0 of its function '",
         [](File&, Functions& library) { library[0].returns.begin()->second = library[0].inputs[2].name; });
  // What only a run needs is refused by a run.
  const Graph graph = Graph::from_graph_def(changed_file([](File&, Functions& library) { library.clear(); }));
  TAPESTRY_REFUSED(UnimplementedError,
                   "'StatelessWhile') runs functions that its file lacks, or that take lists: 'StatelessWhile_body",
                   Session(graph).run("StatelessWhile:0", {{graph.placeholders()[0], tensor(3)}}));
}

TEST_CASE("a loop of a file that has no end meets a time limit") {
  const Graph graph = Graph::from_graph_def(changed_file([](io::GraphDef&, std::vector<io::FunctionDef>& library) {
    for (io::NodeDef& node : library[0].nodes)
      if (node.op == "Less") node.op = "GreaterEqual";
  }));
  graph.set_limits({.time_in_ms = 50});
  const Session session(graph);
  const Tensor result = graph.operations().back().outputs()[0];
  CHECK(session.run(result, {{graph.placeholders()[0], tensor(3)}}).item<int>() == 0);
  CHECK_THROWS_AS(session.run(result, {{graph.placeholders()[0], tensor(-100)}}), DeadlineExceededError);
}

TEST_CASE("a file whose loop goes on by something that is no single truth value") {
  const auto traced = trace(
      [](const Tensor& x, const Tensor& n) {
        return std::get<1>(while_loop([&](const Tensor& i, const Tensor&) { return less(i, n); },
                                      [](const Tensor& i, const Tensor& y) {
                                        return std::tuple{i + 1, y * 2.0};
                                      },
                                      std::tuple{tensor(0), x}));
      },
      {spec(float32, {3}, "x"), spec(int32, {}, "n")});
  for (const Shape& shape : {Shape{0}, Shape{0, 2}, Shape{2}}) {
    io::GraphDef file = io::decode(traced.graph().as_graph_def());
    for (io::NodeDef& node : file.nodes)
      if (node.name == "n") node.attrs["shape"] = shape;
    CAPTURE(to_string(shape));
    TAPESTRY_INVALID("",
                     Session(Graph::from_graph_def(io::encode(file)))
                         .run(traced.output(0).name(), {{"x:0", ones({3})}, {"n:0", zeros(shape, {.dtype = int32})}}));
  }
}

}  // namespace flow_files_changed_test
