// Graphs as TensorFlow's programs write them: shapes, axes and the like that the graph computes. golden_test.cpp runs
// whole networks; here are single nodes, and those that lie.

#include <array>
#include <random>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "io/tensorflow/op_rules.hpp"
#include "node_text.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::foreign_graph_test {
namespace {

using Fields = std::map<std::string, io::AttrDef, std::less<>>;
using Names = std::vector<std::string>;

constexpr std::int64_t none = 0;

/// A file in the making.
struct File {
  io::GraphDef def{};

  File& add(const std::string& name, const std::string& op, const Names& inputs, const Fields& fields = {}) {
    def.nodes.push_back({.name = name, .op = op, .inputs = inputs, .attrs = fields});
    return *this;
  }
  File& input(const std::string& name, const Shape& shape, DType dtype = float32) {
    return add(name, "Placeholder", {}, {{"dtype", io::code_of(dtype)}, {"shape", shape}});
  }
  File& constant(const std::string& name, const Tensor& value) {
    const io::TypeCode type = io::code_of(value.dtype());
    return add(name, "Const", {}, {{"dtype", type}, {"value", io::TensorDef{type, value}}});
  }
  File& numbers(const std::string& name, const std::vector<std::int32_t>& list) { return constant(name, tensor(list)); }
  /// The size of an axis of a tensor, as TensorFlow's `tf.shape(x)[axis]`.
  File& size(const std::string& name, const std::string& of, int axis) {
    add(name + "/shape", "Shape", {of}, {{"out_type", io::code_of(int32)}});
    numbers(name + "/begin", {axis}).numbers(name + "/end", {axis + 1}).numbers(name + "/strides", {1});
    return add(name, "StridedSlice", {name + "/shape", name + "/begin", name + "/end", name + "/strides"},
               {{"begin_mask", none}, {"end_mask", none}, {"shrink_axis_mask", std::int64_t{1}}});
  }
  File& pack(const std::string& name, const Names& inputs) {
    return add(name, "Pack", inputs, {{"N", static_cast<std::int64_t>(inputs.size())}, {"axis", none}});
  }
  File& scalar(const std::string& name, std::int32_t value) { return constant(name, tensor(value)); }

  std::string bytes() const { return io::encode(def); }
  Graph load() const { return Graph::from_graph_def(bytes()); }
};

/// x of shape [?, ?], and y, x in the shape [rows of x, -1, last].
File with_computed_shape(std::int32_t last = 10, const Shape& shape = {-1, -1}) {
  return File()
      .input("x", shape)
      .size("rows", "x", 0)
      .scalar("rest", -1)
      .scalar("last", last)
      .pack("to", {"rows", "rest", "last"})
      .add("y", "Reshape", {"x", "to"});
}

Tensor counting(const Shape& shape) { return reshape(arange(shape.size(), {.dtype = float32}), shape); }

/// A file of ours as another program might write it: without hints, the sizes of placeholders unknown, and a sum with
/// 0, which depends on a size, in place of each constant of whole numbers.
File with_computed_constants(const std::string& bytes) {
  File file{io::decode(bytes)};
  std::string first;
  std::map<std::string, std::string, std::less<>> replaced;
  for (io::NodeDef& node : file.def.nodes) {
    std::erase_if(node.attrs, [](const auto& attr) { return attr.first.starts_with('_'); });
    if (node.op == "Placeholder") {
      if (first.empty()) first = node.name;
      const Shape& shape = std::get<Shape>(node.attrs.at("shape"));
      node.attrs.insert_or_assign("shape", Shape(std::vector<std::int64_t>(shape.to_vector().size(), -1)));
    } else if (node.op == "Const") {
      const Tensor& value = std::get<io::TensorDef>(node.attrs.at("value")).value;
      if (value.dtype() != int32 && value.dtype() != int64) continue;
      replaced.emplace(node.name, to_string(value.dtype()));
      node.name += "/constant";  // ours and TensorFlow's names may differ in case only, which no other program does
    }
  }
  if (first.empty()) return file;
  for (io::NodeDef& node : file.def.nodes)
    for (std::string& input : node.inputs)
      if (replaced.contains(input)) input += "/computed";
  for (const auto& [name, type] : replaced) file.add(name + "/computed", "AddV2", {name + "/constant", "zero/" + type});
  file.add("zero/size", "Size", {first}, {{"out_type", io::code_of(int32)}})
      .add("zero/int32", "Sub", {"zero/size", "zero/size"})
      .add("zero/int64", "Cast", {"zero/int32"}, {{"DstT", io::code_of(int64)}});
  return file;
}

/// What a run of "y:0" with x says.
std::string refusal(const File& file, const Tensor& x) {
  const Session session(file.load());
  return message_of([&] { session.run("y:0", {{"x:0", x}}); });
}

}  // namespace

TEST_CASE("all outputs of a node have their names after they were written again, once and twice") {
  Graph graph = File()
                    .input("x", {-1})
                    .add("both", "IdentityN", {"x", "x"},
                         {{"T", io::ListDef{.types = {io::code_of(float32), io::code_of(float32)}}}})
                    .add("ids", "Unique", {"both:1"}, {{"T", io::code_of(float32)}, {"out_idx", io::code_of(int32)}})
                    .add("sum", "AddV2", {"ids", "both"}, {{"T", io::code_of(float32)}})
                    .load();
  const Tensor x = tensor({5.0, 3.0, 5.0});
  std::size_t nodes = 0;
  for (int time = 0; time < 3; ++time) {
    const Session session(graph);
    for (const char* name : {"both:0", "both:1"}) check_same(session.run(name, {{"x:0", x}}), x);
    check_values(session.run("ids:0", {{"x:0", x}}), {5, 3});
    check_values(session.run("ids:1", {{"x:0", x}}), {0, 1, 0});
    const std::string written = graph.as_graph_def();
    if (time == 1) nodes = io::decode(written).nodes.size();
    if (time == 2) CHECK(io::decode(written).nodes.size() == nodes);
    graph = Graph::from_graph_def(written);
  }
}

TEST_CASE("a shape that the graph computes is known when it runs") {
  const Graph graph = with_computed_shape().load();
  const Tensor y = graph.get_tensor_by_name("y:0");
  CHECK(y.spec() == Spec{float32, {-1, -1, 10}});
  CHECK(y.op().type() == "Reshape");
  CHECK(graph.as_graph_def() == Graph::from_graph_def(graph.as_graph_def()).as_graph_def());
  for (const bool optimize : {false, true})
    for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
      const Session session(each, {.optimize = optimize});
      for (const Shape& shape : {Shape{2, 20}, Shape{3, 10}}) {
        const Tensor x = counting(shape);
        check_same(session.run("y:0", {{"x:0", x}}), reshape(x, {shape[0], shape[1] / 10, 10}));
      }
    }
  const Explanation explanation = Session(graph).explain("y:0", {{"x:0", counting({2, 20})}});
  CHECK(explanation.stages[1].graph.get_operation_by_name("y").attr<Shape>("shape") == Shape{2, -1, 10});
  CHECK(explanation.plan.steps.empty());
}

TEST_CASE("a computed shape is written for TensorFlow only") {
  const Graph graph = with_computed_shape().load();
  const TemporaryFolder folder;
  const Signature signature{.inputs = {{"x", graph.get_tensor_by_name("x:0")}},
                            .outputs = {{"y", graph.get_tensor_by_name("y:0")}}};
  CHECK_NOTHROW(saved_model::save(folder / "model", signature));
  CHECK(message_of([&] { onnx::save(folder / "model.onnx", signature); }) ==
        "Node 'y' (op: 'Reshape') cannot be written as ONNX: it waits for a shape that the graph computes");
}

TEST_CASE("gradients flow through what is known later") {
  const Graph graph = with_computed_shape().load();
  const Tensor x = graph.get_tensor_by_name("x:0"), y = graph.get_tensor_by_name("y:0");
  const Tensor first = gradients(reduce_sum(y * y * y), x)[0], second = gradients(reduce_sum(first), x)[0];
  const Session session(graph);
  const Tensor value = counting({2, 20});
  check_same(session.run(first, {{x, value}}), 3.0F * value * value);
  check_same(session.run(second, {{x, value}}), 6.0F * value);
  CHECK(message_of([&] { graph.as_graph_def(); }).find("SymbolicGradient") != std::string::npos);
}

TEST_CASE("a training step behind a computed shape") {
  const Graph graph = with_computed_shape(2).load();
  const auto scope = graph.as_default();
  Variable w(tensor<float>({1, 1}), {.name = "w"});
  const Tensor x = graph.get_tensor_by_name("x:0"), y = graph.get_tensor_by_name("y:0");
  const Tensor loss = reduce_mean(square(matmul(reshape(y, {-1, 2}), expand_dims(w.value(), -1))));
  const Operation step = train::GradientDescentOptimizer(0.05).minimize(loss);
  const Session session(graph);
  session.run(global_variables_initializer());
  const std::vector<float> numbers{1, 2, 3, 4};
  const Feeds feeds{{x, std::vector<std::vector<float>>{{1, 2}, {0, 1}}}};
  const float before = session.run(loss, feeds).item<float>();
  for (int i = 0; i < 10; ++i) session.run(step, feeds);
  CHECK(session.run(loss, feeds).item<float>() < before / 4);
}

TEST_CASE("over the op table: computed constants give the same values and gradients") {
  int compared = 0;
  for (const OpCase& row : op_cases()) {
    CAPTURE(row.name);
    std::vector<TensorSpec> specs;
    for (const Tensor& input : row.inputs) specs.push_back(spec(input.dtype(), input.shape()));
    const auto forward = trace([&](const std::vector<Tensor>& x) { return row.f(x); }, specs);
    const File file = with_computed_constants(forward.graph().as_graph_def());
    const auto draws = [](const io::NodeDef& node) { return node.op.starts_with("Random"); };
    if (std::any_of(file.def.nodes.begin(), file.def.nodes.end(), draws)) continue;
    if (row.name == "sequence_mask") continue;  // without hints, its Range goes to a number that is fed
    const std::vector<Tensor> expected = value_and_gradients(row, row.inputs);
    if (std::any_of(file.def.nodes.begin(), file.def.nodes.end(), [](const auto& node) { return node.op == "Invert"; }))
      continue;
    const Graph graph = file.load();
    std::vector<Source> sources;
    Feeds feeds;
    for (std::size_t i = 0; i < row.inputs.size(); ++i) {
      const Tensor input = graph.get_tensor_by_name(forward.inputs()[i].name());
      feeds.add(input, row.inputs[i]);
      if (is_floating(input.dtype())) sources.emplace_back(input);
    }
    const Tensor value = graph.get_tensor_by_name(forward.outputs()[0].name());
    const Session session(graph);
    check_same(session.run(value, feeds), expected[0], 1e-9);
    if (expected.size() > 1) {
      const auto found = session.run(gradients(value, sources, {.unconnected = Unconnected::zero}), feeds);
      REQUIRE(found.size() + 1 == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) check_same(found[i], expected[i + 1], 1e-9);
    }
    ++compared;
  }
  CHECK(compared > 200);
}

TEST_CASE("over the op table: computed constants that lie are errors and nothing worse") {
  constexpr std::array lies{-7, -1, 0, 1, 2, 3, 5};
  std::mt19937 random(1);
  int ran = 0, refused = 0;
  for (const OpCase& row : op_cases()) {
    CAPTURE(row.name);
    std::vector<TensorSpec> specs;
    for (const Tensor& input : row.inputs) specs.push_back(spec(input.dtype(), input.shape()));
    const auto forward = trace([&](const std::vector<Tensor>& x) { return row.f(x); }, specs);
    for (int i = 0; i < 4; ++i) {
      File file = with_computed_constants(forward.graph().as_graph_def());
      for (io::NodeDef& node : file.def.nodes) {
        if (!node.name.ends_with("/constant")) continue;
        Tensor& value = std::get<io::TensorDef>(node.attrs.at("value")).value;
        std::vector<std::int64_t> numbers = value.to_vector<std::int64_t>();
        for (std::int64_t& each : numbers)
          if (random() % 2 == 0) each = lies[random() % lies.size()];
        value = reshape(tensor(numbers), value.shape()).cast(value.dtype());
      }
      try {
        const Graph graph = file.load();
        Feeds feeds;
        for (std::size_t k = 0; k < row.inputs.size(); ++k) feeds.add(forward.inputs()[k].name(), row.inputs[k]);
        Session(graph).run(forward.outputs()[0].name(), feeds);
        ++ran;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  CHECK(ran > 100);
  CHECK(refused > 100);
}

TEST_CASE("what is known of a shape while the graph is read") {
  const auto shape_of = [](const File& file) { return file.load().get_tensor_by_name("y:0").shape(); };
  File start;
  start.input("x", {-1, 5, -1}).size("n", "x", 0).scalar("two", 2).numbers("zeros", {0, 0, 0}).scalar("zero", 0);
  const auto with = [&](const std::string& op, const Names& inputs, const Fields& fields = {}) {
    File file = start;
    file.pack("list", {"n", "two", "n"});
    return shape_of(file.add("y", op, inputs, fields));
  };
  CHECK(with("BroadcastTo", {"x", "list"}) == Shape{-1, 2, -1});
  CHECK(with("Tile", {"x", "list"}) == Shape{-1, 10, -1});
  CHECK(with("Fill", {"list", "two"}) == Shape{-1, 2, -1});
  CHECK(with("Slice", {"x", "zeros", "list"}) == Shape{-1, 2, -1});
  CHECK(with("Transpose", {"x", "list"}) == Shape{-1, -1, -1});
  CHECK(with("RandomUniform", {"list"}, {{"dtype", io::code_of(float32)}}) == Shape{-1, 2, -1});
  CHECK(with("Sum", {"x", "n"}) == Shape::unknown_rank());
  CHECK(with("Sum", {"x", "list"}, {{"keep_dims", true}}) == Shape{-1, -1, -1});
  CHECK(with("Range", {"zero", "n", "two"}) == Shape{-1});
  CHECK(with("StridedSlice", {"x", "zeros", "list", "list"}) == Shape{-1, -1, -1});
  CHECK(with("StridedSlice", {"x", "zeros", "list", "list"},
             {{"shrink_axis_mask", std::int64_t{1}}, {"new_axis_mask", std::int64_t{2}}}) == Shape{1, -1, -1});
  CHECK(with("Rank", {"x"}) == Shape{});
}

TEST_CASE("what follows from constants and declared sizes is an attribute at once") {
  const Graph graph = with_computed_shape(2, {3, 4}).load();
  const Tensor y = graph.get_tensor_by_name("y:0");
  CHECK(y.op().attr<Shape>("shape") == Shape{3, -1, 2});
  CHECK(y.shape() == Shape{3, 2, 2});
  const Session session(graph);
  const Feeds feeds{{"x:0", counting({3, 4})}};
  check_same(session.run("y:0", feeds), reshape(counting({3, 4}), {3, 2, 2}));
  // Feeding what it was computed from computes it anew.
  check_same(session.run("y:0", {{"x:0", counting({3, 4})}, {"to:0", {2, 3, 2}}}),
             reshape(counting({3, 4}), {2, 3, 2}));
  check_same(session.run("y:0", feeds), reshape(counting({3, 4}), {3, 2, 2}));
}

TEST_CASE("what depends on values that are fed is planned for each of them") {
  const File file = File()
                        .input("x", {-1})
                        .input("n", {-1}, int32)
                        .add("twice", "AddV2", {"n", "n"})
                        .add("y", "Reshape", {"x", "twice"});
  const Session session(file.load());
  const Feeds feeds{{"x:0", counting({4})}, {"n:0", {1, 1}}};
  const auto y = session.make_callable(
      "y:0", {session.graph().get_tensor_by_name("n:0"), session.graph().get_tensor_by_name("x:0")});
  for (int i = 0; i < 2; ++i) {
    check_same(session.run("y:0", feeds), reshape(counting({4}), {2, 2}));
    check_same(session.run("y:0", {{"x:0", counting({4})}, {"n:0", {2}}}), counting({4}));
    check_same(y(tensor({1, 1}), counting({4})), reshape(counting({4}), {2, 2}));
    check_same(y(tensor({2}), counting({4})), counting({4}));
  }
  CHECK(message_of([&] {
          session.run("y:0", {{"x:0", counting({4})}, {"n:0", {3}}});
        }).find("has 6") != std::string::npos);
  // The rest of the graph runs, and so does what is behind the node when that is fed.
  check_values(session.run("twice:0", feeds), {2, 2});
  check_values(session.run("y:0", {{"y:0", {1.0F}}}), {1});

  const Session shapes(with_computed_shape().load());
  check_same(shapes.run("y:0", {{"x:0", counting({2, 10})}, {"rows:0", 1}}), reshape(counting({2, 10}), {1, 2, 10}));

  const File two = File()
                       .input("x", {-1})
                       .input("n", {}, int32)
                       .input("m", {}, int32)
                       .pack("to", {"n", "m"})
                       .add("y", "Reshape", {"x", "to"});
  check_same(Session(two.load()).run("y:0", {{"x:0", counting({6})}, {"n:0", 2}, {"m:0", 3}}),
             reshape(counting({6}), {2, 3}));

  File random = File().input("x", {-1});
  random.numbers("one", {1})
      .add("draw", "RandomUniform", {"one"}, {{"dtype", io::code_of(float32)}})
      .add("whole", "Cast", {"draw"}, {{"DstT", io::code_of(int32)}})
      .add("y", "Reshape", {"x", "whole"});
  random.scalar("zero", 0).add("rest", "Maximum", {"whole", "one"}, {{"T", io::code_of(int32)}});
  random.add("z", "Reshape", {"x", "rest"});
  check_same(Session(random.load()).run("z:0", {{"x:0", counting({1})}}), counting({1}));
}

TEST_CASE("what depends on values that a run computes is planned when they are known") {
  const File file = File()
                        .input("n", {}, int32)
                        .scalar("zero", 0)
                        .scalar("one", 1)
                        .add("numbers", "Range", {"one", "n", "one"}, {{"Tidx", io::code_of(int32)}})
                        .add("count", "Sum", {"numbers", "zero"})
                        .pack("to", {"count", "one"})
                        .constant("half", tensor(0.5F))
                        .add("filled", "Fill", {"to", "half"}, {{"T", io::code_of(float32)}})
                        .add("y", "Neg", {"filled"});
  for (const Graph& graph : {file.load(), Graph::from_graph_def(file.load().as_graph_def())}) {
    const Session session(graph);
    for (const int n : {3, 1, 4, 3}) {
      const std::int64_t rows = n * (n - 1) / 2;
      check_same(session.run("y:0", {{"n:0", n}}), full({rows, 1}, -0.5F));
      CHECK_NOTHROW(session.explain("y:0", {{"n:0", n}}));
    }
  }
}

TEST_CASE("an assertion of a file ends a run with its texts and values") {
  File file = File().input("x", {-1}).constant("limit", tensor(3.0F));
  file.add("holds", "Less", {"x", "limit"}).scalar("zero", 0).add("all", "All", {"holds", "zero"});
  io::RawAttr text{std::string("\x42\x0e\x08\x07\x12\x00\x42\x08too much", 16)};
  file.add("text", "Const", {}, {{"dtype", io::TypeCode{7}}, {"value", text}});
  file.add("check", "Assert", {"all", "text", "x"}, {{"T", io::ListDef{.types = {{7}, {1}}}}});
  file.add("y", "Neg", {"x", "^check"});
  for (const Graph& graph : {file.load(), Graph::from_graph_def(file.load().as_graph_def())}) {
    const Session session(graph);
    check_values(session.run("y:0", {{"x:0", {1.0F, 2.0F}}}), {-1, -2});
    const std::string message = message_of([&] { session.run("y:0", {{"x:0", {1.0F, 5.0F, 2.0F, 0.5F}}}); });
    CHECK(message == "assertion failed: [too much] [1 5 2...]");
    session.run("y:0", {{"x:0", {1.0F}}});
  }
}

TEST_CASE("lying shapes are errors with the node's name") {
  const Tensor x = counting({2, 10});
  const auto reshape_to = [&](const std::vector<Names>& steps) {
    File file = File()
                    .input("x", {-1, -1})
                    .size("n", "x", 0)
                    .size("m", "x", 1)
                    .scalar("zero", 0)
                    .scalar("big", 1 << 30)
                    .scalar("half", 500000000)
                    .constant("float", tensor(1.5F));
    for (const Names& each : steps) {
      const Names inputs(each.begin() + 2, each.end());
      if (each[1] == "Pack") {
        file.pack(each[0], inputs);
      } else {
        file.add(each[0], each[1], inputs);
      }
    }
    return refusal(file.add("y", "Reshape", {"x", "to"}), x);
  };
  const std::string node = "Node 'y' (op: 'Reshape'): ";
  CHECK(reshape_to({{"k", "Sub", "n", "m"}, {"to", "Pack", "k", "m"}}).starts_with(node));
  CHECK(reshape_to({{"k", "Mul", "n", "half"}, {"to", "Pack", "k", "k", "k"}}) ==
        node + "Shape [1000000000,1000000000,1000000000] is too large: the product of its sizes exceeds 2^63 - 1");
  CHECK(reshape_to({{"to", "Pack", "big", "n"}}).find("the requested shape [1073741824,2] has 2147483648") !=
        std::string::npos);
  CHECK(reshape_to({{"k", "FloorDiv", "n", "zero"}, {"to", "Pack", "k", "m"}}) == "Integer division by zero");
  CHECK(reshape_to({{"k", "Pack", "n", "m"}, {"to", "Pack", "k", "k"}}).starts_with(node));
  CHECK(reshape_to({{"k", "Pack", "n", "m", "n", "m", "n", "m"}, {"to", "ConcatV2", "k", "k", "zero"}})
            .starts_with(node));

  const auto load_of = [](File file) { return message_of([&] { file.load(); }); };
  File start = File().input("x", {-1, -1}).size("n", "x", 0).scalar("one", 1).constant("half", tensor(0.5F));
  start.add("real", "Cast", {"n"}, {{"DstT", io::code_of(float32)}});
  CHECK(load_of(File(start).add("y", "Reshape", {"x", "real"})) ==
        node + "its input 1, 'real:0', is float32, where whole numbers are due");
  CHECK(load_of(File(start).add("a", "Reshape", {"x", "b"}).add("b", "Shape", {"a"}))
            .starts_with("The graph has a cycle"));
  CHECK(load_of(File(start).add("y", "Split", {"n", "x"}, {{"num_split", std::int64_t{1} << 40}})) ==
        "Node 'y' (op: 'Split'): it has 1099511627776 outputs");
  CHECK(load_of(File(start).add("y", "Unpack", {"x"}, {{"num", std::int64_t{-1}}, {"axis", none}})) ==
        "Node 'y' (op: 'Unpack'): it has -1 outputs");
  CHECK(load_of(File(start).add("y", "ConcatOffset", {"one"})) == "Node 'y' (op: 'ConcatOffset'): it has no shapes");

  CHECK(refusal(File(start).add("y", "Sum", {"x", "n"}), x).starts_with("Node 'y' (op: 'Sum'): "));
  CHECK(refusal(File(start).add("y", "Unpack", {"x"}, {{"num", std::int64_t{3}}, {"axis", none}}), x) ==
        "Node 'y' (op: 'Unpack'): its 'num' is not 2");
  CHECK(refusal(File(start).add("y", "Split", {"n", "x"}, {{"num_split", std::int64_t{2}}}), x)
            .starts_with("Node 'y' (op: 'Split'): "));
  CHECK(refusal(File(start).add("y", "ConcatOffset", {"n", "one"}), x).find("ConcatOffset") != std::string::npos);
  CHECK(refusal(File(start).add("y", "Range", {"one", "n", "real"}), x) ==
        "Node 'y' (op: 'Range'): its bounds are no numbers");
  CHECK(refusal(File(start).scalar("zero", 0).add("none", "Sub", {"n", "n"}).add("y", "Range", {"one", "n", "none"}), x)
            .starts_with("Node 'y' (op: 'Range'): "));
  CHECK(load_of(File(start).scalar("most", 2147483647).add("y", "OneHot", {"n", "most", "one", "one"})) ==
        "Node 'y' (op: 'OneHot'): its depth is 2147483647");
  CHECK(refusal(File(start).scalar("most", 2147483647).add("y", "Range", {"n", "most", "one"}), x)
            .starts_with("Node 'y' (op: 'Range'): its bounds are "));
}

TEST_CASE("memory that a computed shape asks for in vain is an error") {
  const File file = File()
                        .input("x", {-1, -1})
                        .size("n", "x", 0)
                        .scalar("half", 500000000)
                        .add("k", "Mul", {"n", "half"})
                        .pack("to", {"k", "k"})
                        .constant("one", tensor(1.0F))
                        .add("ones", "Fill", {"to", "one"}, {{"T", io::code_of(float32)}})
                        .add("y", "Neg", {"ones"});
  const Session session(file.load());
  CHECK_THROWS_AS(session.run("y:0", {{"x:0", counting({2, 1})}}), ResourceExhaustedError);
  CHECK(session.run("k:0", {{"x:0", counting({2, 1})}}).item<int>() == 1000000000);
}

TEST_CASE("a long way from a size to a shape needs no deep stack") {
  File file = File().input("x", {-1, -1}).size("n0", "x", 0);
  constexpr int length = 20000;
  for (int i = 1; i <= length; ++i) file.add("n" + std::to_string(i), "Identity", {"n" + std::to_string(i - 1)});
  file.scalar("rest", -1).pack("to", {"n" + std::to_string(length), "rest"}).add("y", "Reshape", {"x", "to"});
  CHECK(Session(file.load()).run("y:0", {{"x:0", counting({3, 2})}}).shape() == Shape{3, 2});
}

TEST_CASE("a placeholder with a default may be fed in other sizes") {
  const File file =
      File()
          .constant("default", tensor<float>({{1, 2}}))
          .add("x", "PlaceholderWithDefault", {"default"}, {{"dtype", io::code_of(float32)}, {"shape", Shape{-1, 2}}})
          .add("y", "Neg", {"x"});
  for (const Graph& graph : {file.load(), Graph::from_graph_def(file.load().as_graph_def())}) {
    const Session session(graph);
    check_values(session.run("y:0"), {-1, -2});
    check_values(session.run("y:0", {{"x:0", {{1.0F, 1.0F}, {2.0F, 2.0F}}}}), {-1, -1, -2, -2});
  }
}

TEST_CASE("random numbers of a computed shape") {
  const File file = File()
                        .input("x", {-1})
                        .size("n", "x", 0)
                        .pack("to", {"n", "n"})
                        .add("y", "RandomUniform", {"to"}, {{"dtype", io::code_of(float32)}})
                        .add("z", "RandomStandardNormal", {"to"}, {{"dtype", io::code_of(float32)}});
  const Graph graph = file.load();
  const Session session(graph), again(Graph::from_graph_def(graph.as_graph_def()));
  for (const std::int64_t size : {2, 5}) {
    const Feeds feeds{{"x:0", counting({size})}};
    random::seed(3);
    const auto [y, z] = session.run(std::pair{"y:0", "z:0"}, feeds);
    random::seed(3);
    check_same(again.run("y:0", feeds), y);
    random::seed(3);
    check_same(random::uniform({size, size}), y);
    CHECK(z.shape() == Shape{size, size});
  }
}

TEST_CASE("a list whose elements are not set is written as one that TensorFlow lets have any") {
  const Fields type{{"element_dtype", io::code_of(float32)}, {"shape_type", io::code_of(int32)}};
  const Graph graph = File()
                          .input("x", {-1})
                          .numbers("shape", {-1})
                          .constant("count", tensor(3))
                          .constant("place", tensor(1))
                          .add("none", "TensorListReserve", {"shape", "count"}, type)
                          .add("one", "TensorListSetItem", {"none", "place", "x"}, type)
                          .add("two", "TensorListPushBack", {"one", "x"}, type)
                          .add("y", "TensorListStack", {"two", "shape"}, type)
                          .load();
  const std::string bytes = graph.as_graph_def();
  const Graph again = Graph::from_graph_def(bytes);
  for (const Graph& each : {graph, again})
    check_same(Session(each).run("y:0", {{"x:0", {1.0, 2.0}}}), tensor<float>({{0, 0}, {1, 2}, {0, 0}, {1, 2}}));
  const std::vector<io::NodeDef> nodes = io::decode(bytes).nodes;
  const auto count = [](const std::vector<io::NodeDef>& list, std::string_view op) {
    return std::count_if(list.begin(), list.end(), [&](const io::NodeDef& each) { return each.op == op; });
  };
  CHECK(count(nodes, "TensorListResize") == 4);  // to no elements and back, for each of the two
  CHECK(io::decode(again.as_graph_def()).nodes.size() == nodes.size());
}

TEST_CASE("of a candidate that was drawn several times, the last draw is the accidental hit") {
  const Graph graph = File()
                          .constant("true", tensor<std::int64_t>({{5}, {7}, {2}}))
                          .constant("drawn", tensor<std::int64_t>({7, 5, 5, 3}))
                          .add("hits", "ComputeAccidentalHits", {"true", "drawn"}, {{"num_true", std::int64_t{1}}})
                          .load();
  const std::vector<Tensor> hits = Session(graph).run({"hits:0", "hits:1"});
  CHECK(hits[0].to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 1});
  CHECK(hits[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 0});
}

TEST_CASE("a run in parts of a graph that computes a shape") {
  File file = with_computed_shape(2);
  const Graph graph = file.add("z", "Neg", {"y"}).load();
  const Session session(graph);
  auto run = session.partial_run_setup({"y:0", "z:0"}, {graph.get_tensor_by_name("x:0")});
  check_values(run.run("y:0", {{"x:0", counting({1, 2})}}), {0, 1});
  check_values(run.run("z:0"), {0, -1});
}

TEST_CASE("what only resembles our ops is refused") {
  File start = File().input("x", {-1, 4, 4, 2}).numbers("ones", {1, 1}).constant("c", tensor<float>({1, 1}));
  const auto message = [&](const std::string& op, const Names& inputs, const Fields& fields) {
    return message_of([&] {
      Session(File(start).add("y", op, inputs, fields).load()).run("y:0", {{"x:0", zeros({1, 4, 4, 2})}});
    });
  };
  CHECK(message("FusedBatchNormV3", {"x", "c"}, {}) == "Node 'y' (op: 'FusedBatchNormV3'): it has 2 inputs; 5 are due");
  CHECK(message("DepthToSpace", {"x"}, {{"block_size", std::int64_t{3}}}) ==
        "Node 'y' (op: 'DepthToSpace'): its block size is 3 for [?,4,4,2]");
  CHECK(message("ResizeBilinear", {"x", "c"}, {}) == "Node 'y' (op: 'ResizeBilinear'): its input 1 is float32[2]");
  CHECK(message("Gather", {"x"}, {}) == "Node 'y' (op: 'Gather'): it has 1 inputs; 2 are due");
  CHECK(message("AddN", {}, {}) == "Node 'y' (op: 'AddN'): it has no inputs");
}

TEST_CASE("indices whose last size is not known choose elements or rows") {
  const std::string t_int = attr("T", "type: DT_INT32");
  const auto ints = [](const std::string& name, const std::string& shape) {
    return node(name, "Placeholder", {}, attr("dtype", "type: DT_INT32") + attr("shape", "shape { " + shape + " }"));
  };
  const Graph graph = read(
      placeholder_node("x", "dim { size: -1 } dim { size: -1 }") + ints("list", "dim { size: -1 }") +
      ints("sizes", "dim { size: 2 }") + node("indices", "Reshape", {"list", "sizes"}, t_int) +
      node("y", "GatherNd", {"x", "indices"}, attr("Tparams", "type: DT_FLOAT") + attr("Tindices", "type: DT_INT32")) +
      node("z", "Square", {"y"}, t_float));
  const Session session(graph);
  const Tensor x = tensor<float>({{1, 2}, {3, 4}});
  check_same(session.run("z:0", {{"x:0", x}, {"list:0", {1, 0, 0, 1}}, {"sizes:0", {2, 2}}}), tensor<float>({9, 4}));
  check_same(session.run("z:0", {{"x:0", x}, {"list:0", {1, 0}}, {"sizes:0", {2, 1}}}),
             tensor<float>({{9, 16}, {1, 4}}));
}

TEST_CASE("what fills a shape that is computed has a gradient") {
  const Graph graph = read(
      placeholder_node("x", "") +
      node("sizes", "Placeholder", {}, attr("dtype", "type: DT_INT32") + attr("shape", "shape { dim { size: 2 } }")) +
      node("square", "Square", {"x"}, t_float) + node("y", "Fill", {"sizes", "square"}, t_float));
  const auto at = [&](const std::string& name) { return graph.get_tensor_by_name(name + ":0"); };
  const Model model({.inputs = {{"x", at("x")}, {"sizes", at("sizes")}}, .outputs = {{"y", at("y")}}});
  const Variable x(3.0F);
  GradientTape tape;
  const Tensor y = model({{"x", x}, {"sizes", {2, 5}}})[0];
  check_same(y, full({2, 5}, 9.0F));
  check_same(tape.gradient(reduce_sum(y), x), tensor(60.0F));
}

}  // namespace tapestry::test::foreign_graph_test
