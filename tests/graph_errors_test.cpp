// TensorFlow's words for what cannot be done with graphs and sessions, each with the line of the program that is to
// blame: the one that made the node, or the call itself.

#include <fstream>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "call_collector.hpp"
#include "op_cases/op_cases.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::graph_errors_test {
namespace {

#define TAPESTRY_INVALID(text, ...) TAPESTRY_REFUSED(InvalidArgumentError, text, __VA_ARGS__)
#define TAPESTRY_PRECONDITION(text, ...) TAPESTRY_REFUSED(FailedPreconditionError, text, __VA_ARGS__)

/// A graph and a session of it.
struct Opened {
  Graph graph{};
  Graph::Scope scope{graph};
  Tensor a = placeholder(float32, {1}, "a");
  Tensor y = square(a, "y");
  Session session{graph};
};

/// The line after this one.
Where next_line(Where where = Where::here()) { return {where.file, where.line + 1}; }

}  // namespace

TEST_CASE("fetches") {
  Opened here;
  Session& session = here.session;
  const Feeds feeds{{here.a, {3}}};
  TAPESTRY_INVALID("Fetch argument None has invalid type <class 'NoneType'>", session.run(Tensor(), feeds));
  TAPESTRY_INVALID("Must specify at least one target to fetch or execute.", session.run(std::vector<Tensor>(), feeds));
  Graph other;
  const Tensor foreign = [&] {
    const auto inside = other.as_default();
    return placeholder(float32, {}, "z");
  }();
  TAPESTRY_INVALID("Fetch argument Tensor(\"z:0\", shape=[], dtype=float32) cannot be interpreted as a Tensor. (Tensor",
                   session.run(foreign, feeds));
  TAPESTRY_INVALID("is not an element of this graph.)", session.run(foreign, feeds));
  TAPESTRY_INVALID("Fetch argument z cannot be interpreted as a Tensor. (Operation z is not an element of this graph.)",
                   session.run(foreign.op(), feeds));
  CHECK(session.run(here.y, feeds).item<float>() == 9);
}

TEST_CASE("feeds") {
  Opened here;
  Session& session = here.session;
  const Tensor &a = here.a, &y = here.y;
  const Variable w({1.0F}, {.name = "w"});
  const Tensor sum = y + w;
  TAPESTRY_INVALID("Cannot feed value of shape (3,) for Tensor 'a:0', which has shape '(1,)'",
                   session.run(y, {{a, {1, 2, 3}}}));
  TAPESTRY_INVALID("Cannot feed value of shape () for Tensor 'a:0', which has shape '(1,)'", session.run(y, {{a, 1}}));
  TAPESTRY_INVALID("Endpoint \"a:0\" fed more than once.", session.run(y, {{a, {1}}, {"a:0", {2}}}));
  TAPESTRY_INVALID("Tensor w:0 may not be fed.", session.run(sum, {{a, {1}}, {"w:0", 1}}));
  TAPESTRY_INVALID("Cannot interpret feed_dict key as Tensor: it is an eager tensor",
                   session.run(y, {{tensor({1.0F}), {1}}}));
  TAPESTRY_INVALID("The value of a feed cannot be a symbolic tensor", session.run(y, {{a, a}}));
  const Tensor n = placeholder(int32, {}, "n"), negated = negative(n);
  TAPESTRY_INVALID(
      "Type of feed value 3000000000 with type int64 is not compatible with Tensor type int32 of Tensor 'n:0'. Try "
      "explicitly setting the type of the feed tensor to a larger type (e.g. int64).",
      session.run(negated, {{n, std::int64_t{3000000000}}}));
  // A larger type would not help.
  TAPESTRY_INVALID("with type float32 is not compatible with Tensor type int32 of Tensor 'n:0'. at",
                   session.run(negated, {{n, 1.5}}));
  TAPESTRY_INVALID("Type of feed value 1.5 with type", session.run(negated, {{n, 1.5}}));
  CHECK(session.run(negated, {{n, std::int64_t{3}}}).item<int>() == -3);
  CHECK(session.run(std::pair{a, y}, {{a, {2}}}).second.item<float>() == 4);
}

TEST_CASE("what must not be fed or fetched") {
  Opened here;
  const Graph& graph = here.graph;
  const Tensor hidden = square(here.y, "hidden");
  CHECK(graph.is_feedable(here.y));
  CHECK(graph.is_fetchable(hidden.op()));
  graph.prevent_feeding(here.y);
  graph.prevent_fetching(hidden.op());
  CHECK_FALSE(graph.is_feedable(here.y));
  CHECK_FALSE(graph.is_fetchable(hidden.op()));
  const Feeds feeds{{here.a, {3}}};
  TAPESTRY_INVALID("Tensor y:0 may not be fed.", here.session.run(here.y + 1, {{here.y, {3}}}));
  TAPESTRY_INVALID("Operation 'hidden' has been marked as not fetchable.", here.session.run(hidden, feeds));
  TAPESTRY_INVALID("Operation 'hidden' has been marked as not fetchable.", here.session.run("hidden", feeds));
  CHECK(here.session.run(hidden + 1, feeds).item<float>() == 82);
  TAPESTRY_REFUSED(NotFoundError, "Unrecognized Op name Cubed", gradient_override_map({{"Cubed", {}}}));
}

TEST_CASE("a constant whose value is not known") {
  Opened here;
  TAPESTRY_INVALID("The value of a constant cannot be a symbolic tensor", constant(ones({2})));
  TAPESTRY_INVALID("The value of a constant cannot be a symbolic tensor",
                   trace([](const Tensor& x) { return constant(x) * 2.0; }, {spec(float32, {})}));
}

TEST_CASE("a placeholder that is not fed is blamed on the line that made it") {
  Opened here;
  const auto refuse = [&](const std::string& text, Where made, const Tensor& fetch) {
    const auto error = caught<InvalidArgumentError>([&] { here.session.run(fetch); });
    CHECK(error.message() == text);
    CHECK(place(error) == to_string(made));
  };
  Where made = next_line();
  const Tensor vector = placeholder(float32, {1}, "vector");
  refuse("You must feed a value for placeholder tensor 'vector' with dtype float and shape [1]\n\t [[{{node vector}}]]",
         made, square(vector));
  made = next_line();
  const Tensor scalar = placeholder(float64, {}, "scalar");
  refuse("You must feed a value for placeholder tensor 'scalar' with dtype double\n\t [[{{node scalar}}]]", made,
         square(scalar));
  made = next_line();
  const Tensor any = placeholder();
  refuse("You must feed a value for placeholder tensor 'Placeholder'\n\t [[{{node Placeholder}}]]", made, square(any));
  CHECK(here.session.run(here.y, {{here.a, {2}}}).item<float>() == 4);
}

TEST_CASE("sessions that cannot run") {
  Graph empty;
  Session nothing(empty);
  TAPESTRY_PRECONDITION("The Session graph is empty.  Add operations to the graph before calling run().",
                        nothing.run("x:0"));
  Opened here;
  here.session.close();
  TAPESTRY_PRECONDITION("Attempted to use a closed Session.", here.session.run(here.y, {{here.a, {1}}}));
}

TEST_CASE("names") {
  Opened here;
  const Graph& graph = here.graph;
  const Tensor& a = here.a;
  TAPESTRY_INVALID("'bad name' is not a valid node name", square(a, "bad name"));
  TAPESTRY_INVALID("'_x' is not a valid node name", square(a, "_x"));
  TAPESTRY_INVALID("'bad scope' is not a valid scope name", name_scope("bad scope"));
  TAPESTRY_REFUSED(
      LookupError,
      "The name 'x:0' refers to a Tensor which does not exist. The operation, 'x', does not exist in the graph.",
      graph.get_tensor_by_name("x:0"));
  TAPESTRY_REFUSED(LookupError, "The operation, 'a', exists but only has 1 outputs.", graph.get_tensor_by_name("a:1"));
  TAPESTRY_INVALID("The name 'a' refers to an Operation, not a Tensor.", graph.get_tensor_by_name("a"));
  TAPESTRY_INVALID("The name 'a:0' appears to refer to a Tensor, not a Operation.", graph.get_operation_by_name("a:0"));
  TAPESTRY_INVALID(
      "The name 'a.b' looks like an (invalid) Operation name, not a Tensor. Tensor names must be of the form "
      "\"<op_name>:<output_index>\".",
      graph.get_tensor_by_name("a.b"));
  TAPESTRY_REFUSED(LookupError, "The name 'x' refers to an Operation not in the graph.",
                   graph.get_operation_by_name("x"));
  TAPESTRY_REFUSED(NotFoundError, "Unrecognized Op name Foo", graph.create_op("Foo", {a}));
}

TEST_CASE("operations by name, with inputs and attributes that do not fit") {
  Opened here;
  const Graph& graph = here.graph;
  const Tensor& a = here.a;
  for (const char* type : {"AddV2", "Mul", "Sub", "RealDiv", "Maximum", "Pow", "Less", "BiasAdd"}) {
    const std::string takes = detail::join(type, " takes 2 inputs, but got ");
    for (const Tensors& inputs : {Tensors{}, Tensors{a}, Tensors{a, a, a}}) {
      const std::string text = takes + std::to_string(inputs.size()) + " [Op:" + type + "]";
      TAPESTRY_INVALID(text, graph.create_op(type, inputs));
      TAPESTRY_INVALID(text, apply_op(type, inputs));
    }
    // Whoever has the op itself meets the same error, and not one of the optimizer.
    TAPESTRY_INVALID("needs at least 2 inputs, but got 1", apply_all(*find_op(type), {a}, {}, {}, Where::here()));
  }
  for (const auto& [name, number] : {std::pair{"Relu", 4}, {"ZerosLike", 2}, {"MatMul", 3}, {"Where", 2}}) {
    const char* type = name;  // clang 14 takes no structured bindings into a function
    const int count = number;
    const Tensors inputs(static_cast<std::size_t>(count), tensor({{1.0F}}));
    TAPESTRY_INVALID(detail::join(", but got ", count), graph.create_op(type, inputs));
    TAPESTRY_INVALID(detail::join(", but got ", count), apply_op(type, inputs));
  }
  TAPESTRY_INVALID("ConcatV2 takes at least 1 input, but got 0",
                   graph.create_op("ConcatV2", Tensors(), {.attrs = {{"axis", std::int64_t{0}}}}));
  TAPESTRY_INVALID("Op Neg has no attribute 'bogus'", graph.create_op("Neg", {a}, {.attrs = {{"bogus", true}}}));
  TAPESTRY_REFUSED(NotFoundError, "The attribute 'dtype' is missing", graph.create_op("Cast", {a}));
  TAPESTRY_PRECONDITION("An empty Tensor was used", graph.create_op("Neg", {Tensor()}));
  CHECK(graph.operations().size() == 2);
}

TEST_CASE("operations by name take the number of inputs that the op has") {
  CallCollector collector;
  for (const OpCase& row : op_cases()) value_and_gradients(row, row.inputs);
  std::map<std::string, Call> calls;
  for (const Call& call : collector.calls)
    if (find_op(call.type()) && !call.op().stateful) calls.emplace(call.type(), call);
  CHECK(calls.size() > 100);
  const std::set<std::string_view> lists{
      "ConcatV2",       "Pack",      "DynamicStitch",       "ConcatGrad",         "FillLike",
      "CustomGradient", "Recompute", "OptimizationBarrier", "RegisteredGradient", "RegisteredGradients"};
  for (const auto& each : calls) {
    const std::string& type = each.first;  // clang 14 takes no structured bindings into functions
    const Call& call = each.second;
    INFO(type);
    const Graph graph;
    const auto creates = [&](const Tensors& inputs) {
      try {
        return static_cast<bool>(graph.create_op(type, inputs, {.attrs = call.attrs()}));
      } catch (const InvalidArgumentError& error) {
        CHECK(error.op() == type);
        return false;
      }
    };
    Tensors inputs = call.inputs();
    CHECK(creates(inputs));
    if (lists.contains(type) || inputs.empty()) continue;
    inputs.push_back(inputs[0]);
    CHECK_FALSE(creates(inputs));
    inputs.pop_back();
    inputs.pop_back();
    CHECK_FALSE(creates(inputs));
  }
}

TEST_CASE("dtypes without elements") {
  const Tensor eager = ones({2});
  const auto refuse = [&](DType dtype, const Tensor& x) {
    const std::string text = dtype == DType::unknown ? "dtype" : "the dtype resource";
    TAPESTRY_INVALID(text, x.cast(dtype));
    TAPESTRY_INVALID(text, apply_op("Fill", {}, {{"dtype", dtype}, {"shape", Shape({2})}, {"value", 0.0}}));
    if (dtype == DType::unknown) return;  // stands for the natural dtype
    TAPESTRY_INVALID(text, zeros({2}, {.dtype = dtype}));
    TAPESTRY_INVALID(text, ones({2}, {.dtype = dtype}));
    TAPESTRY_INVALID(text, full({2}, 1.0, {.dtype = dtype}));
    TAPESTRY_INVALID(text, full({2}, x(0), {.dtype = dtype}));
    TAPESTRY_INVALID(text, arange(3, {.dtype = dtype}));
    TAPESTRY_INVALID(text, linspace(0, 1, 3, {.dtype = dtype}));
    TAPESTRY_INVALID(text, eye(2, {.dtype = dtype}));
    TAPESTRY_INVALID(text, Variable(1.0, {.dtype = dtype}));
  };
  for (const DType dtype : {DType::unknown, DType::resource}) refuse(dtype, eager);
  Opened here;
  for (const DType dtype : {DType::unknown, DType::resource}) refuse(dtype, here.a);
}

TEST_CASE("errors that need no graph any more, or found none, name the line") {
  Tensor orphan;
  {
    const Opened here;
    orphan = here.y;
  }
  TAPESTRY_PRECONDITION("does not exist any more", orphan.eval());
  TAPESTRY_PRECONDITION("does not exist any more", square(orphan));
  TAPESTRY_PRECONDITION("An empty Tensor was used", Tensor().eval());
  TAPESTRY_PRECONDITION("An empty Tensor was used", Tensor().data<float>());
  TAPESTRY_PRECONDITION("An empty Tensor was used", Tensor().item<float>());
  TAPESTRY_PRECONDITION("An empty Operation was used", Operation().run());
  TAPESTRY_PRECONDITION("is in no graph", Operation(Call(*find_op("NoOp"), {}, {}, {})).run());
}

TEST_CASE("damaged files of graphs") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, std::string_view bytes) {
    std::string path = (folder / name).string();
    std::ofstream(path) << bytes;
    return path;
  };
  const std::string binary = write("damaged.pb", "\xff\xff\xff\xff"), text = write("damaged.pbtxt", "garbage");
  for (const std::string& path : {binary, text}) TAPESTRY_REFUSED(DataLossError, path, Graph::load(path));
  const std::string other = write("text.pb", "garbage");
  TAPESTRY_REFUSED(InvalidArgumentError, other + " is a text", Graph::load(other));
}

TEST_CASE("collections of what is in another graph") {
  const Opened other;
  const Opened here;
  CHECK(caught<Error>([&] { here.graph.add_to_collection("losses", other.y); }).message() ==
        "Operation y is not an element of this graph.");
  CHECK(caught<Error>([&] { here.graph.add_to_collection("losses", other.y.op()); }).message() ==
        "Operation y is not an element of this graph.");
  CHECK(caught<Error>([&] { here.graph.add_to_collection("losses", Tensor()); })
            .message()
            .starts_with("An empty Tensor was used"));
  CHECK(here.graph.get_collection("losses").empty());
}

TEST_CASE("graphs that do not go together, or are closed") {
  Opened here;
  Graph other;
  const Tensor foreign = [&] {
    const auto inside = other.as_default();
    return placeholder(float32, {1}, "b");
  }();
  TAPESTRY_INVALID("Tensor(\"b:0\", shape=[1], dtype=float32) must be from the same graph as Tensor(\"a:0\", shape=[1]",
                   add(here.a, foreign));
  TAPESTRY_PRECONDITION("reset_default_graph", reset_default_graph());
  here.graph.finalize();
  TAPESTRY_PRECONDITION("Graph is finalized and cannot be modified.", square(here.a));
  TAPESTRY_PRECONDITION("Graph is finalized and cannot be modified.", placeholder(float32, {}));
  CHECK(here.session.run(here.y, {{here.a, {2}}}).item<float>() == 4);
}

TEST_CASE("Variables") {
  Opened here;
  TAPESTRY_INVALID("initial_value must be specified.", Variable(Tensor()));
  TAPESTRY_INVALID("initial_value must have a shape specified: [?,2]", Variable(placeholder(float32, {-1, 2})));
  const Where declared = next_line();
  const Variable w(here.a * 2.0, {.name = "W"});
  const auto error = caught<FailedPreconditionError>([&] { here.session.run(w + 1.0); });
  CHECK(error.message() == "Attempting to use uninitialized value W");
  CHECK(place(error) == to_string(declared));
}

TEST_CASE("gradients and optimizers") {
  Opened here;
  const Variable unused({1.0F}, {.name = "unused"});
  TAPESTRY_PRECONDITION("is not supported when eager execution is enabled. Use tf.GradientTape instead.",
                        gradients(tensor({1.0F}), {here.a}));
  train::GradientDescentOptimizer optimizer(0.1);
  TAPESTRY_INVALID("No gradients provided for any variable, check your graph for ops that do not support gradients",
                   optimizer.minimize(here.y, std::vector{unused}));
  static const Op& opaque = register_op({.name = "GraphErrorsOpaque",
                                         .infer = same_shape,
                                         .cpu = [](const Call&) {},
                                         .gradient = not_differentiable_yet});
  const Where made = next_line();
  const Tensor hidden = apply_op(opaque.name, {here.a}, {}, "hidden");
  const auto error = caught<LookupError>([&] { gradients(hidden, {here.a}); });
  CHECK(error.message().starts_with("No gradient defined for operation 'hidden' (op type: GraphErrorsOpaque)"));
  CHECK(place(error) == to_string(made));
}

TEST_CASE("shapes that do not fit, while the graph is built and while it runs") {
  const Tensor narrow_value = ones({2, 3}), wide_value = ones({4, 5});
  Opened here;
  const Tensor matrix = placeholder(float32, {2, 3}), wide = placeholder(float32, {4, 5});
  TAPESTRY_INVALID(
      "Dimensions must be equal, but are 3 and 4 for 'MatMul' (op: 'MatMul') with input shapes: [2,3], [4,5].",
      matmul(matrix, wide));
  const Tensor open = placeholder(float32, {-1, -1});
  const Where made = next_line();
  const Tensor product = matmul(matrix, open);
  const auto error = caught<InvalidArgumentError>([&] {
    here.session.run(product, {{matrix, narrow_value}, {open, wide_value}});
  });
  CHECK(place(error) == to_string(made));
  CHECK(std::string(error.what()).find("MatMul") != std::string::npos);
  TAPESTRY_INVALID("Incompatible shapes: [2,3] vs. [4,5] [Op:AddV2]", matrix + wide);
  TAPESTRY_INVALID("Matrix size-incompatible: In[0]: [2,3], In[1]: [4,5] [Op:MatMul]",
                   matmul(narrow_value, wide_value));
}

}  // namespace tapestry::test::graph_errors_test
