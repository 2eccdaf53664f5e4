// Functions in the libraries of files: calls become their nodes.

#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "io/tensorflow/inline_functions.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::function_library_test {
namespace {

/// The nodes of `graph` and the functions of `library`, in the text format.
io::GraphDef graph_with(const std::string& graph, const std::string& library) {
  return io::decode(io::from_text(graph + " library { " + library + " }"));
}

constexpr const char* call_of_f =
    R"(node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
                                         attr { key: "shape" value { shape { dim { size: 2 } } } } }
       node { name: "first" op: "NoOp" }
       node { name: "call" op: "PartitionedCall" input: "x" input: "^first"
              attr { key: "f" value { func { name: "f" attr { key: "T" value { type: DT_FLOAT } } } } } }
       node { name: "y" op: "Neg" input: "call:1" attr { key: "T" value { type: DT_FLOAT } } })";
/// Gives TopKV2's indices and values, and calls g by its name.
constexpr const char* f_and_g =
    R"(function { signature { name: "f" input_arg { name: "a" type_attr: "T" } output_arg { name: "i" type: DT_INT32 }
                             output_arg { name: "v" type_attr: "T" } }
                 node_def { name: "k" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
                            attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape {} int_val: 1 } } } }
                 node_def { name: "twice" op: "g" input: "a" }
                 node_def { name: "top" op: "TopKV2" input: "twice:sum:0" input: "k:output:0"
                            attr { key: "T" value { placeholder: "T" } } }
                 node_def { name: "effect" op: "NoOp" input: "^a" }
                 ret { key: "i" value: "top:indices:0" } ret { key: "v" value: "top:values:0" }
                 control_ret { key: "e" value: "effect" } }
       function { signature { name: "g" input_arg { name: "b" type: DT_FLOAT }
                              output_arg { name: "same" type: DT_FLOAT } output_arg { name: "sum" type: DT_FLOAT } }
                 node_def { name: "add" op: "AddV2" input: "b" input: "b" attr { key: "T" value { type: DT_FLOAT } } }
                 ret { key: "same" value: "b" } ret { key: "sum" value: "add:z:0" } })";

TEST_CASE("Calls of functions become their nodes") {
  const io::GraphDef file = io::inline_functions(graph_with(call_of_f, f_and_g), GraphLimits::none());
  std::map<std::string, io::NodeDef> nodes;
  for (const io::NodeDef& each : file.nodes) nodes.emplace(each.name, each);
  using Inputs = std::vector<std::string>;
  CHECK(nodes.at("call/twice/add").inputs == Inputs{"x", "x", "^call/twice/input_control_node"});
  CHECK(nodes.at("call/twice").op == "IdentityN");
  CHECK(nodes.at("call/top").inputs == Inputs{"call/twice:1", "call/k", "^call/input_control_node"});
  CHECK(std::get<io::TypeCode>(nodes.at("call/top").attrs.at("T")) == io::code_of(float32));
  CHECK(nodes.at("call/effect").inputs == Inputs{"^x", "^call/input_control_node"});
  CHECK(nodes.at("call").inputs == Inputs{"call/top:1", "call/top", "^call/effect", "^call/input_control_node"});
  CHECK(file.library.empty());
  const Graph graph = Graph::from_graph_def(io::encode(graph_with(call_of_f, f_and_g)));
  const Session session(graph);
  const auto results = session.run({"y:0", "call:0"}, {{"x:0", {1, 3}}});
  CHECK(results[0].to_vector<float>() == std::vector<float>{-6});
  CHECK(results[1].to_vector<std::int32_t>() == std::vector<std::int32_t>{1});
}

TEST_CASE("A library survives both encodings, and stays where a node needs it") {
  const io::GraphDef file = graph_with(call_of_f, f_and_g);
  CHECK_FALSE(file.library.empty());
  CHECK(io::decode(io::encode(file)).library == file.library);
  CHECK(io::decode(io::from_text(io::to_text(io::encode(file)))).library == file.library);
  const std::string condition =
      R"(node { name: "c" op: "If" attr { key: "then_branch" value { func { name: "g" } } } })";
  const Graph graph = Graph::from_graph_def(io::encode(graph_with(condition, f_and_g)));
  CHECK(io::decode(graph.as_graph_def()).library == file.library);
}

TEST_CASE("Calls that make no sense are errors") {
  const auto problem = [](const std::string& graph, const std::string& library) {
    return message_of<InvalidArgumentError>(
        [&] { io::inline_functions(graph_with(graph, library), GraphLimits::none()); });
  };
  const std::string f = R"(signature { name: "f" } )";
  const std::string call = R"(node { name: "n" op: "f" })";
  CHECK(problem(R"(node { name: "n" op: "f" input: "x" })", "function { " + f + "}").find("with 1 inputs, not 0") !=
        std::string::npos);
  CHECK(problem(call, "function { " + f + R"(node_def { name: "m" op: "f" } })").find("calls itself") !=
        std::string::npos);
  CHECK(problem(call, "function { " + f + R"(node_def { name: "m" op: "NoOp" input: "z" } })").find("'z'") !=
        std::string::npos);
  CHECK(problem(call, R"(function { signature { name: "f" output_arg { name: "r" type: DT_FLOAT } } })")
            .find("does not return 'r'") != std::string::npos);
  CHECK(problem(call, "function { " + f +
                          R"(node_def { name: "m" op: "NoOp" attr { key: "T" value { placeholder: "T" } } } })")
            .find("lacks the attribute 'T'") != std::string::npos);
}

TEST_CASE("Functions that call each other do not exceed the limits") {
  // Each one calls the next one twice: 2^40 nodes.
  std::string library;
  for (int i = 0; i < 40; ++i) {
    const std::string next = i == 39 ? "NoOp" : "f" + std::to_string(i + 1);
    library += "function { signature { name: \"f" + std::to_string(i) + "\" } node_def { name: \"a\" op: \"" + next +
               "\" } node_def { name: \"b\" op: \"" + next + "\" } }";
  }
  const io::GraphDef file = graph_with(R"(node { name: "n" op: "f0" })", library);
  CHECK_THROWS_AS(io::inline_functions(file, {.nodes = 1000}), ResourceExhaustedError);
  std::string chain;
  for (int i = 0; i < 1000; ++i)
    chain += "function { signature { name: \"f" + std::to_string(i) + "\" } node_def { name: \"a\" op: \"f" +
             std::to_string(i + 1) + "\" } }";
  CHECK_THROWS_AS(io::inline_functions(graph_with(R"(node { name: "n" op: "f0" })", chain), {}), InvalidArgumentError);
}

}  // namespace
}  // namespace tapestry::test::function_library_test
