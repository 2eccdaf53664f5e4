// Graphs of others are judged by what is run: nodes that Tapestry lacks harm nothing.

#include <algorithm>
#include <limits>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/tensorflow/op_outputs.hpp"
#include "node_text.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::foreign_nodes_test {
TEST_CASE("nodes that Tapestry lacks harm nothing until a run needs them") {
  const std::string text =
      placeholder_node("x", "dim { size: 2 }") + node("y", "Neg", {"x"}, t_float) +
      constant_node("file", "DT_STRING", "tensor_shape { } string_val: 'model.ckpt'") +
      node("names", "Placeholder", {}, attr("dtype", "type: DT_STRING")) +
      node("summary", "ScalarSummary", {"file", "y"}, t_float) + node("foo", "Foo", {"y"}) +
      node("bar", "Bar", {"foo:1", "y", "^summary"}, attr("f", "func { name: 'body' }")) +
      node("again", "Foo", {"bar"}) + node("sum", "AddN", {"y", "again"}, t_float + attr("N", "i: 2")) +
      node("quantized", "Cast", {"y"}, attr("SrcT", "type: DT_FLOAT") + attr("DstT", "type: DT_QINT8"));
  const Graph graph = read(text);
  const Session session(graph);
  const Feeds x{{"x:0", {1.0, 2.0}}};
  check_same(session.run("y:0", x), tensor<float>({-1, -2}));
  const auto refusal = [&](const Fetch& fetch, const Feeds& feeds) {
    return message_of<UnimplementedError>([&] { session.run(fetch, feeds); });
  };
  CHECK(refusal("foo:0", x) == "Tapestry lacks the op 'Foo' of node 'foo'");
  CHECK(refusal("sum:0", x) ==
        "Tapestry lacks the op 'Bar' of node 'bar', the op 'Foo' of node 'foo' and of 1 more, the op 'ScalarSummary' "
        "of node 'summary'");
  CHECK(refusal("summary", x) == "Tapestry lacks the op 'ScalarSummary' of node 'summary'");
  CHECK(refusal("file:0", x) == "Node 'file' (op: 'Const'): Tapestry lacks TensorFlow's type DT_STRING");
  CHECK(refusal("quantized:0", x) == "Node 'quantized' (op: 'Cast'): Tapestry lacks TensorFlow's type DT_QINT8");

  SUBCASE("their outputs can be fed, and have the dtype that their users tell") {
    CHECK(graph.get_tensor_by_name("again:0").dtype() == float32);
    check_same(session.run("sum:0", {{"x:0", {1.0, 2.0}}, {"again:0", {10.0, 20.0}}}), tensor<float>({9, 18}));
  }
  SUBCASE("a gradient that needs them is refused, another is not") {
    const auto scope = graph.as_default();
    const Tensor in = graph.get_tensor_by_name("x:0");
    const Tensor good = gradients({graph.get_tensor_by_name("y:0")}, {in})[0];
    const Tensor bad = gradients({graph.get_tensor_by_name("sum:0")}, {in})[0];
    check_same(session.run(good, x), tensor<float>({-1, -1}));
    CHECK(refusal(bad, x).starts_with("Tapestry lacks the op 'Bar' of node 'bar'"));
    check_same(session.run(bad, {{"x:0", {1.0, 2.0}}, {"again:0", {10.0, 20.0}}}), tensor<float>({-1, -1}));
  }
  SUBCASE("they are written again unchanged") {
    const std::string before = io::from_text(text), after = graph.as_graph_def();
    for (const char* name : {"file", "names", "summary", "foo", "bar", "again", "quantized"}) {
      CAPTURE(name);
      io::GraphDef one, two;
      one.nodes = {def_of(before, name)};
      two.nodes = {def_of(after, name)};
      CHECK(io::encode(one) == io::encode(two));
    }
    CHECK(Graph::from_graph_def(after).as_graph_def() == after);
  }
}

TEST_CASE("the outputs of an op of several lists are told apart in functions") {
  using namespace io;
  const auto types = [](std::size_t count) { return ListDef{.types = std::vector<TypeCode>(count, code_of(float32))}; };
  const NodeDef parse{.name = "parse",
                      .op = "ParseExampleV2",
                      .attrs = {{"num_sparse", std::int64_t{2}},
                                {"sparse_types", types(2)},
                                {"Tdense", types(3)},
                                {"ragged_value_types", types(0)},
                                {"ragged_split_types", types(0)}}};
  for (const auto& [name, first] : {std::pair{"sparse_indices", 0}, {"sparse_values", 2}, {"sparse_shapes", 4}})
    CHECK(first_output(parse, name) == first);
  for (const std::int64_t output : {0, 1, 2, 5, 6, 8}) {
    const std::string name = output_in_function(parse, output);
    const std::size_t colon = name.find(':');
    CHECK(first_output(parse, name.substr(0, colon)) + std::stoll(name.substr(colon + 1)) == output);
  }
  CHECK(output_in_function(parse, 7) == "dense_values:1");
  CHECK_THROWS_AS(output_in_function(parse, 9), InvalidArgumentError);
  CHECK_THROWS_AS(first_output(parse, "others"), InvalidArgumentError);
  for (const AttrDef& length : {AttrDef(std::int64_t{-1}), AttrDef(std::int64_t{1} << 40), AttrDef()}) {
    NodeDef lying = parse;
    lying.attrs.insert_or_assign("num_sparse", length);
    CHECK_THROWS_AS(first_output(lying, "dense_values"), InvalidArgumentError);
  }
}

TEST_CASE("an output that no node uses of a node that Tapestry lacks is refused with its op") {
  const Graph graph =
      read(placeholder_node("x", "dim { size: 2 }") + node("foo", "Foo", {"x"}) + node("y", "Neg", {"x"}, t_float) +
           node("quantized", "Cast", {"x"}, attr("SrcT", "type: DT_FLOAT") + attr("DstT", "type: DT_QINT8")));
  const Session session(graph);
  const auto refusal = [&](const std::string& name) {
    return message_of<UnimplementedError>([&] { session.run(name, {{"x:0", {1.0, 2.0}}}); });
  };
  CHECK(refusal("foo:1") == "Tapestry lacks the op 'Foo' of node 'foo'");
  CHECK(refusal("quantized:3") == "Node 'quantized' (op: 'Cast'): Tapestry lacks TensorFlow's type DT_QINT8");
  CHECK(message_of<LookupError>([&] { session.run("y:1"); }).find("only has 1 outputs") != std::string::npos);
}

TEST_CASE("dimensions and dtypes that Tapestry lacks harm nothing until a run needs them") {
  const std::string nine =
      "dim { size: 1 } dim { size: 1 } dim { size: 1 } dim { size: 1 } dim { size: 1 } "
      "dim { size: 1 } dim { size: 1 } dim { size: 1 } dim { size: 1 }";
  const std::string index = attr("out_idx", "type: DT_INT32");
  const std::string text =
      placeholder_node("x", "dim { size: 1 }") + node("y", "Neg", {"x"}, t_float) +
      ints_node("ones", {1, 1, 1, 1, 1, 1, 1, 1, 1}) + ints_node("axis", {0}) +
      node("deep", "Reshape", {"x", "ones"}, t_float + attr("Tshape", "type: DT_INT32")) +
      node("after", "Neg", {"deep"}, t_float) +
      constant_node("wide", "DT_FLOAT", "tensor_shape { " + nine + " } float_val: 1") + placeholder_node("fed", nine) +
      node("v", "VarHandleOp", {}, attr("shape", "shape { " + nine + " }") + attr("dtype", "type: DT_FLOAT")) +
      node("read", "ReadVariableOp", {"v"}, attr("dtype", "type: DT_FLOAT")) + float_node("five", "5") +
      node("known", "ListDiff", {"five", "five"}, t_float + index) +
      node("hinted", "Neg", {"y"}, t_float + attr("_output_shapes", "list { shape { " + nine + " } }"));
  const Graph graph = read(text);
  const Session session(graph);
  check_same(session.run("y:0", {{"x:0", {1.0}}}), tensor<float>({-1}));
  check_same(session.run("hinted:0", {{"x:0", {1.0}}}), tensor<float>({1}));
  const auto refusal = [&](const std::string& name) {
    return message_of<UnimplementedError>([&] { session.run(name, {{"x:0", {1.0}}}); });
  };
  CHECK(refusal("deep:0") == "Node 'deep' (op: 'Reshape'): A tensor has at most 8 dimensions, but 9 were given");
  CHECK(refusal("after:0") == refusal("deep:0"));
  CHECK(refusal("wide:0") == "Node 'wide' (op: 'Const'): its 'value' has more than 8 dimensions");
  CHECK(refusal("fed:0") == "Node 'fed' (op: 'Placeholder'): its 'shape' has more than 8 dimensions");
  CHECK(refusal("read:0").find("'v'") != std::string::npos);
  CHECK(refusal("known:0") == "Node 'known' (op: 'ListDiff'): its lists are float32[] and float32[]");
  const std::string before = io::from_text(text), after = graph.as_graph_def();
  for (const char* name : {"deep", "after", "wide", "fed", "v", "known"}) {
    CAPTURE(name);
    CHECK(io::encode_node(def_of(before, name)) == io::encode_node(def_of(after, name)));
  }
}

TEST_CASE("nodes that fail only when TensorFlow runs them, or that it computes, leave the rest of the file") {
  const std::string index = attr("out_idx", "type: DT_INT32"), axis = attr("Taxis", "type: DT_INT32");
  const std::string text =
      placeholder_node("x", "dim { size: 2 } dim { size: -1 }") + placeholder_node("list", "dim { size: 3 }") +
      node("y", "Neg", {"x"}, t_float) + ints_node("axis", {0}) +
      constant_node("one", "DT_INT32", "tensor_shape { } int_val: 1") +
      node("rows", "UniqueV2", {"x", "axis"}, t_float + index + axis) +
      node("counts", "UniqueWithCounts", {"x"}, t_float + index) + node("unique", "Unique", {"x"}, t_float + index) +
      node("band", "MatrixBandPart", {"list", "one", "one"}, t_float + attr("Tindex", "type: DT_INT32"));
  const Graph graph = read(text);
  const Session session(graph);
  const Feeds feeds{{"x:0", tensor<float>({{1}, {2}})}, {"list:0", {1.0, 2.0, 3.0}}};
  check_same(session.run("y:0", feeds), tensor<float>({{-1}, {-2}}));
  check_same(session.run("rows:0", feeds), tensor<float>({{1}, {2}}));
  for (const std::string name : {"counts", "unique"})
    CHECK(message_of<UnimplementedError>([&] { session.run(name + ":0", feeds); }).find("expects a 1D vector") !=
          std::string::npos);
  CHECK(message_of<UnimplementedError>([&] {
          session.run("band:0", feeds);
        }).find("at least rank 2 but is rank 1: [3]") != std::string::npos);
  const std::string before = io::from_text(text), after = graph.as_graph_def();
  for (const char* name : {"rows", "counts", "unique", "band"})
    CHECK(io::encode_node(def_of(before, name)) == io::encode_node(def_of(after, name)));
}

TEST_CASE("a list of floats lacks the elements of another, but for those that are no number") {
  const Graph graph = read(placeholder_node("x", "dim { size: -1 }") +
                           constant_node("y", "DT_FLOAT",
                                         "tensor_shape { dim { size: 3 } } float_val: 0.5 float_val: 0 "
                                         "float_val: nan") +
                           node("rest", "ListDiff", {"x", "y"}, t_float + attr("out_idx", "type: DT_INT64")));
  const Session session(graph);
  const Feeds feeds{{"x:0", tensor<float>({1.5, 0.5, -0.0F, 2.5, 1.5})}};
  check_same(session.run("rest:0", feeds), tensor<float>({1.5, 2.5, 1.5}));
  check_same(session.run("rest:1", feeds), tensor<std::int64_t>({0, 3, 4}));
  CHECK(session.run("rest:0", {{"x:0", tensor<float>({std::numeric_limits<float>::quiet_NaN()})}}).size() == 1);
}

TEST_CASE("the last output of FusedBatchNormV3 is empty, as on TensorFlow's CPU") {
  const auto two = [](const std::string& name) {
    return constant_node(name, "DT_FLOAT", "tensor_shape { dim { size: 2 } } float_val: 1");
  };
  const Graph graph = read(placeholder_node("x", "dim { size: 1 } dim { size: 1 } dim { size: 1 } dim { size: 2 }") +
                           two("scale") + two("mean") +
                           node("y", "FusedBatchNormV3", {"x", "scale", "mean", "mean", "scale"},
                                t_float + attr("U", "type: DT_FLOAT") + attr("is_training", "b: false")) +
                           node("same", "Identity", {"y:5"}, t_float));
  CHECK(Session(graph).run("y:5", {{"x:0", ones({1, 1, 1, 2})}}).shape() == Shape{0});
  CHECK(Session(graph).run("same:0", {{"y:5", zeros({0})}}).shape() == Shape{0});
}

TEST_CASE("a graph is written again before its Variables have values, whatever their assignments are called") {
  const std::string spec = attr("shape", "shape { }") + attr("dtype", "type: DT_FLOAT");
  const Graph graph = read(node("w", "VariableV2", {}, spec) + node("never", "VariableV2", {}, spec) +
                           float_node("two", "2") + node("restored", "Assign", {"w", "two"}, t_float) +
                           node("start", "NoOp", {"^restored"}) + node("get", "Identity", {"w"}, t_float));
  for (const VariableStyle style : {VariableStyle::resource, VariableStyle::reference}) {
    const Graph again = Graph::from_graph_def(graph.as_graph_def({.variables = style}));
    const Session session(again);
    session.run("start");
    check_same(session.run("get:0"), tensor(2.F));
  }
  CHECK_THROWS_AS(graph.as_graph_def({.variables = VariableStyle::frozen}), FailedPreconditionError);
  Session(graph).run("start");
  const Graph later = Graph::from_graph_def(graph.as_graph_def());
  const Session session(later);
  session.run("init");  // the value of w, for which the file has no initializer of its own
  check_same(session.run("get:0"), tensor(2.F));
}

TEST_CASE("what tf.print writes does not stop a run") {
  const Graph graph =
      read(placeholder_node("x", "dim { size: 2 }") + node("text", "StringFormat", {"x"}) +
           node("print", "PrintV2", {"text"}, attr("end", "s: 'x'")) + node("y", "Neg", {"x", "^print"}, t_float));
  for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())})
    check_same(Session(each).run("y:0", {{"x:0", {1.0, 2.0}}}), tensor<float>({-1, -2}));
}

TEST_CASE("an element beyond the end of a list makes it longer only where the file says so") {
  const std::string type = attr("element_dtype", "type: DT_FLOAT");
  const auto list_with = [&](const std::string& more) {
    return read(ints_node("shape", {2}) + constant_node("count", "DT_INT32", "tensor_shape { } int_val: 1") +
                node("list", "TensorListReserve", {"shape", "count"}, type + attr("shape_type", "type: DT_INT32")) +
                node("k", "Placeholder", {}, attr("dtype", "type: DT_INT32") + attr("shape", "shape { }")) +
                placeholder_node("item", "dim { size: 2 }") +
                node("longer", "TensorListSetItem", {"list", "k", "item"}, type + more) +
                node("stack", "TensorListStack", {"longer", "shape"}, type));
  };
  const auto stacked = [](const Graph& graph, int k) {
    return Session(graph).run("stack:0", {{"k:0", k}, {"item:0", {3.0, 4.0}}});
  };
  const Graph fixed = list_with(""), grows = list_with(attr("resize_if_index_out_of_bounds", "b: true"));
  check_same(stacked(fixed, 0), tensor<float>({{3, 4}}));
  CHECK_THROWS_AS(stacked(fixed, 2), InvalidArgumentError);
  check_same(stacked(grows, 0), tensor<float>({{3, 4}}));
  check_same(stacked(grows, 2), tensor<float>({{0, 0}, {0, 0}, {3, 4}}));
  CHECK_THROWS_AS(stacked(grows, -1), InvalidArgumentError);
  CHECK_THROWS_AS(Session(read(placeholder_node("list", "dim { size: 2 } dim { size: 2 }") +
                               node("longer", "TensorListSetItem", {"list"},
                                    type + attr("resize_if_index_out_of_bounds", "b: true"))))
                      .run("longer:0", {{"list:0", ones({2, 2})}}),
                  InvalidArgumentError);
}

TEST_CASE("a convolution of volumes in groups") {
  const Graph graph =
      read(placeholder_node("x", "dim { size: -1 } dim { size: 1 } dim { size: 1 } dim { size: 2 } dim { size: 2 }") +
           constant_node("filter", "DT_FLOAT",
                         "tensor_shape { dim { size: 1 } dim { size: 1 } dim { size: 1 } dim { size: 1 } "
                         "dim { size: 2 } } float_val: 10 float_val: 100") +
           node("y", "Conv3D", {"x", "filter"},
                t_float + attr("strides", "list { i: 1 i: 1 i: 1 i: 1 i: 1 }") + attr("padding", "s: 'VALID'")));
  const Tensor x = reshape(tensor<float>({1, 2, 3, 4}), {1, 1, 1, 2, 2});
  check_same(reshape(Session(graph).run("y:0", {{"x:0", x}}), {2, 2}), tensor<float>({{10, 200}, {30, 400}}));
}

TEST_CASE("whole random numbers and permutations of TensorFlow are drawn from our stream") {
  const Graph graph =
      read(ints_node("shape", {2000}) + constant_node("low", "DT_INT64", "tensor_shape { } int64_val: -2") +
           constant_node("high", "DT_INT64", "tensor_shape { } int64_val: 3") +
           node("whole", "RandomUniformInt", {"shape", "low", "high"},
                attr("T", "type: DT_INT32") + attr("Tout", "type: DT_INT64")) +
           placeholder_node("x") + node("shuffled", "RandomShuffle", {"x"}, t_float));
  const Tensor x = reshape(arange(40, {.dtype = float32}), {20, 2});
  const auto draw = [&](const Graph& from) {
    random::seed(5);
    const Session session(from);
    return std::pair(session.run("whole:0"), session.run("shuffled:0", {{"x:0", x}}));
  };
  const auto [whole, shuffled] = draw(graph);
  CHECK(whole.dtype() == int64);
  const std::vector<std::int64_t> numbers = whole.to_vector<std::int64_t>();
  for (std::int64_t each = -2; each < 3; ++each) {
    const auto count = std::count(numbers.begin(), numbers.end(), each);
    CHECK(count > 300);
    CHECK(count < 500);
  }
  check_same(sort(shuffled, 0), x);
  CHECK_FALSE(reduce_all(equal(shuffled, x)).item<bool>());
  const auto same = draw(graph);
  check_same(same.first, whole);
  check_same(same.second, shuffled);
}

TEST_CASE("devices of another machine are placed softly") {
  Graph graph = read(placeholder_node("x", "dim { size: 2 }") +
                     node("y", "Neg", {"x"}, t_float + " device: '/job:ps/task:3/device:GPU:7'"));
  check_same(Session(graph).run("y:0", {{"x:0", {1.0, 2.0}}}), tensor<float>({-1, -2}));
  CHECK(def_of(graph.as_graph_def(), "y").device == "/job:ps/task:3/device:GPU:7");
  // What waits for a value is planned when the value is known, in a graph of its own.
  graph = read(placeholder_node("x", "dim { size: 2 }") +
               node("y", "Fill", {"sizes", "one"}, t_float + " device: '/job:ps'") + float_node("one", "1") +
               node("sizes", "Cast", {"x"}, attr("SrcT", "type: DT_FLOAT") + attr("DstT", "type: DT_INT32")));
  check_same(Session(graph).run("y:0", {{"x:0", {1.0, 2.0}}}), tensor<float>({{1, 1}}));
  CHECK(Session(graph).explain("y:0", {{"x:0", {1.0, 2.0}}}).stages.size() > 1);
}

TEST_CASE("hashes of whole numbers are TensorFlow's, by each of its functions") {
  const std::vector<std::int64_t> numbers{2, 0, -57, 12345, 1234567890123, -987654321012345678, 9223372036854775807};
  const std::string buckets = attr("num_buckets", "i: 1000"), key = attr("key", "list { i: 3 i: 4 }");
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> found{
      {"StringToHashBucketFast", {759, 735, 30, 728, 114, 747, 319}},
      {"StringToHashBucketStrong", {701, 345, 282, 639, 233, 394, 416}},
      {"StringToHashBucket", {362, 773, 33, 416, 924, 365, 520}}};
  for (const auto& row : found) {
    const std::string& op = row.first;
    CAPTURE(op);
    const bool is_keyed = op.ends_with("Strong");
    const Graph graph = read(node("x", "Placeholder", {}, attr("dtype", "type: DT_INT64")) +
                             node("digits", "AsString", {"x"}, attr("T", "type: DT_INT64")) +
                             node("same", "Identity", {"digits"}, attr("T", "type: DT_STRING")) +
                             node("hash", op, {"same"}, buckets + (is_keyed ? key : "")));
    for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())})
      CHECK(Session(each).run("hash:0", {{"x:0", tensor(numbers)}}).to_vector<std::int64_t>() == row.second);
  }
  // A text of another form is not taken for the digits.
  const Graph wide = read(node("x", "Placeholder", {}, attr("dtype", "type: DT_INT64")) +
                          node("digits", "AsString", {"x"}, attr("T", "type: DT_INT64") + attr("width", "i: 8")) +
                          node("hash", "StringToHashBucketFast", {"digits"}, buckets));
  CHECK_THROWS_AS(Session(wide).run("hash:0", {{"x:0", tensor(numbers)}}), UnimplementedError);
}

TEST_CASE("a Switch takes a tensor of its own condition's branch") {
  // -x where p holds; then the sum of that and of what has been merged.
  const Graph graph =
      read(placeholder_node("x", "dim { size: 1 }") +
           node("p", "Placeholder", {}, attr("dtype", "type: DT_BOOL") + attr("shape", "shape { }")) +
           node("switch", "Switch", {"x", "p"}, t_float) + node("minus", "Neg", {"switch:1"}, t_float) +
           node("merge", "Merge", {"switch", "minus"}, t_float + attr("N", "i: 2")) +
           node("again", "Switch", {"minus", "p"}, t_float) + node("merged", "Switch", {"merge", "p"}, t_float) +
           node("sum", "Add", {"again:1", "merged:1"}, t_float) +
           node("result", "Merge", {"merged", "sum"}, t_float + attr("N", "i: 2")));
  const Session session(graph);
  check_same(session.run("result:0", {{"x:0", {3.0}}, {"p:0", true}}), tensor<float>({-6}));
  check_same(session.run("result:0", {{"x:0", {3.0}}, {"p:0", false}}), tensor<float>({3}));
}

TEST_CASE("lists in lists in lists are read up to a limit") {
  const auto nested = [](int depth) {
    const std::string of_floats = attr("element_dtype", "type: DT_FLOAT"),
                      of_lists = attr("element_dtype", "type: DT_VARIANT");
    std::string text = placeholder_node("x", "dim { size: 2 }") + ints_node("shape", {2}) + ints_node("most", {9}) +
                       node("empty0", "EmptyTensorList", {"shape", "most"}, of_floats) +
                       node("list0", "TensorListPushBack", {"empty0", "x"}, of_floats);
    for (int i = 1; i < depth; ++i) {
      const std::string now = std::to_string(i), before = "list" + std::to_string(i - 1);
      text += node("empty" + now, "EmptyTensorList", {"shape", "most"}, of_lists) +
              node("list" + now, "TensorListPushBack", {"empty" + now, before}, of_lists);
    }
    read(text);
  };
  nested(6);
  CHECK_THROWS_WITH_AS(nested(60), doctest::Contains("is a variant of 512 tensors; at most 256 are read"),
                       UnimplementedError);
}

TEST_CASE("a loop that goes on by, or with, what only one branch gives") {
  // Counts up to n as TensorFlow 1 does. What is called "if_even" is of the branch for even numbers.
  const std::string t_int = attr("T", "type: DT_INT32"), t_bool = attr("T", "type: DT_BOOL"), two = attr("N", "i: 2"),
                    frame = t_int + attr("frame_name", "s: 'loop'"), fixed = frame + attr("is_constant", "b: true");
  const auto number = [](const std::string& name, int value) {
    return constant_node(name, "DT_INT32", "tensor_shape { } int_val: " + std::to_string(value));
  };
  const auto loop = [&](const std::string& goes_on, const std::string& next) {
    return read(
        node("n", "Placeholder", {}, attr("dtype", "type: DT_INT32") + attr("shape", "shape { }")) + number("zero", 0) +
        number("one", 1) + number("two", 2) + node("i", "Enter", {"zero"}, frame) + node("end", "Enter", {"n"}, fixed) +
        node("step", "Enter", {"one"}, fixed) + node("pair", "Enter", {"two"}, fixed) +
        node("merge", "Merge", {"i", "next"}, t_int + two) + node("less", "Less", {"merge", "end"}, t_int) +
        node("rest", "FloorMod", {"merge", "pair"}, t_int) + node("even", "Less", {"rest", "step"}, t_int) +
        node("reached", "Switch", {"less", "even"}, t_bool) + node("reached_if_even", "LogicalNot", {"reached:1"}) +
        node("goes_on", "LoopCond", {goes_on}) + node("switch", "Switch", {"merge", "goes_on"}, t_int) +
        node("add", "Add", {"switch:1", "step"}, t_int) + node("rest_inside", "FloorMod", {"switch:1", "pair"}, t_int) +
        node("even_inside", "Less", {"rest_inside", "step"}, t_int) +
        node("added", "Switch", {"add", "even_inside"}, t_int) +
        node("add_if_even", "Add", {"added:1", "pair"}, t_int) + node("next", "NextIteration", {next}, t_int) +
        node("exit", "Exit", {"switch"}, t_int));
  };
  const auto run = [](const Graph& graph, int n) { return Session(graph).run("exit:0", {{"n:0", n}}).item<int>(); };
  const auto refuses = [&](const Graph& graph, int n) {
    CHECK_THROWS_WITH_AS(run(graph, n), doctest::Contains("of a branch that was not taken"), InvalidArgumentError);
  };
  CHECK(run(loop("less", "add"), 3) == 3);
  CHECK(message_of<UnimplementedError>([&] {
          Session(loop("less", "add")).run("add:0", {{"n:0", 3}});
        }).starts_with("'add' is in the loop 'loop', each of whose iterations has another value of it"));
  CHECK(run(loop("reached_if_even", "add"), 3) == 0);
  refuses(loop("reached_if_even", "add"), 0);
  CHECK(run(loop("less", "add_if_even"), 3) == 3);
  refuses(loop("less", "add_if_even"), 4);
}

TEST_CASE("what an unknown op gives to a sparse op has the type that is due there when it is fed") {
  const Feeds feeds{{"odd:0", tensor<std::int64_t>({{0, 1}, {1, 0}})}, {"odd:1", {3.0F, 2.0F}}};
  const std::string shape = "tensor_shape { dim { size: 2 } } int64_val: 2 int64_val: 2";
  const auto run = [&](const std::string& op, std::vector<std::string> inputs, const std::string& output = "y:0") {
    inputs.insert(inputs.begin(), {"odd", "odd:1", "shape"});
    const Graph graph =
        read(node("odd", "SomeOp", {}) + constant_node("shape", "DT_INT64", shape) + ints_node("axes", {1}) +
             constant_node("begin", "DT_INT64", "tensor_shape { dim { size: 2 } } int64_val: 0") +
             float_node("half", "0.5") + node("y", op, inputs, t_float));
    return Session(graph).run(output, feeds);
  };
  check_same(run("SparseReduceSum", {"axes"}), tensor<float>({3, 2}));
  check_same(run("SparseReduceMax", {"axes"}), tensor<float>({3, 2}));
  check_same(run("SparseSoftmax", {}), tensor<float>({1, 1}));
  check_same(run("SparseSlice", {"begin", "shape"}, "y:1"), tensor<float>({3, 2}));
  check_same(run("SparseDenseCwiseMul", {"half"}), tensor<float>({1.5, 1}));
}

TEST_CASE("numbers that are counted are not negative") {
  const Graph graph =
      read(node("x", "Placeholder", {}, attr("dtype", "type: DT_INT32") + attr("shape", "shape { dim { size: -1 } }")) +
           constant_node("size", "DT_INT32", "tensor_shape { } int_val: 3") +
           constant_node("weights", "DT_FLOAT", "tensor_shape { dim { } }") +
           node("y", "Bincount", {"x", "size", "weights"}, t_float));
  const Session session(graph);
  check_same(session.run("y:0", {{"x:0", {2, 7, 2}}}), tensor<float>({0, 0, 2}));
  CHECK_THROWS_WITH_AS(session.run("y:0", {{"x:0", {2, -1}}}), doctest::Contains("-1 is not in [0, 1)"),
                       InvalidArgumentError);
}

TEST_CASE("a model whose shapes are computed is called with sizes that a trace does not know") {
  const std::string t_int = attr("T", "type: DT_INT32");
  const Graph graph = read(
      placeholder_node("x", "dim { size: -1 } dim { size: 3 }") + ints_node("begin", {0}) + ints_node("end", {1}) +
      ints_node("step", {1}) + node("shape", "Shape", {"x"}, t_float) +
      node("n", "StridedSlice", {"shape", "begin", "end", "step"},
           t_int + attr("Index", "type: DT_INT32") + attr("shrink_axis_mask", "i: 1")) +
      constant_node("three", "DT_INT32", "tensor_shape { } int_val: 3") +
      node("sizes", "Pack", {"n", "three"}, t_int + attr("N", "i: 2")) + node("total", "Mul", {"n", "three"}, t_int) +
      node("flat_size", "Pack", {"total"}, t_int + attr("N", "i: 1")) + float_node("half", "0.5") +
      node("start", "Fill", {"sizes", "half"}, t_float) + node("square", "Square", {"x"}, t_float) +
      node("flat", "Reshape", {"square", "flat_size"}, t_float) + node("back", "Reshape", {"flat", "sizes"}, t_float) +
      node("y", "Mul", {"back", "start"}, t_float));
  const Model model(
      {.inputs = {{"x", graph.get_tensor_by_name("x:0")}}, .outputs = {{"y", graph.get_tensor_by_name("y:0")}}});
  const auto results = [&](const Tensor& x) -> std::vector<Tensor> {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = model({{"x", x}})[0];
    return {y, tape.gradient(reduce_sum(sin(y)), x), vmap([&](const Tensor& each) {
              return model({{"x", each}})[0];
            })(stack({x, 2.0F * x}))};
  };
  const auto unknown = trace(results, {spec(float32, {-1, 3})});
  for (const std::int64_t rows : {1, 2, 5}) {
    CAPTURE(rows);
    random::seed(3);
    const Tensor x = random::normal({rows, 3});
    const std::vector<Tensor> expected = results(x);
    check_same(expected[1], cos(x * x * 0.5F) * x, 1e-6);
    const auto known = trace(results, {spec(x)});
    for (const auto& traced : {unknown, known}) {
      const std::vector<Tensor> found = traced(x);
      for (std::size_t i = 0; i < expected.size(); ++i) check_same(found[i], expected[i]);
    }
  }
  const auto twice = [&] {
    trace(
        [&](const Tensor& x) {
          return grad(grad([&](const Tensor& z) { return reduce_sum(model({{"x", z}})[0]); }))(x);
        },
        {spec(float32, {-1, 3})});
  };
  CHECK_THROWS_AS(twice(), LookupError);
}

TEST_CASE("a placeholder without a rank is trained, by the file's own types") {
  const Graph graph = read(placeholder_node("x") + placeholder_node("labels") + float_node("scale", "2") +
                           node("y", "Mul", {"x", "scale"}, t_float) + node("loss", "L2Loss", {"y"}, t_float));
  for (const char* name : {"x:0", "y:0", "loss:0"}) {
    CAPTURE(name);
    CHECK(graph.get_tensor_by_name(name).dtype() == float32);
  }
  const auto scope = graph.as_default();
  const Tensor x = graph.get_tensor_by_name("x:0");
  const Tensor gradient = gradients({graph.get_tensor_by_name("loss:0")}, {x})[0];
  CHECK(gradient.dtype() == float32);
  check_same(Session(graph).run(gradient, {{x, {1.0, 2.0}}}), tensor<float>({4, 8}));
}

TEST_CASE("a loop of TensorFlow 1 that cannot be read harms nothing until a run needs it") {
  const auto frame = attr("frame_name", "s: 'loop/context'"), t_int = attr("T", "type: DT_INT32");
  const auto number = [](const std::string& name, const std::string& value) {
    return constant_node(name, "DT_INT32", "tensor_shape { } int_val: " + value);
  };
  const Graph graph =
      read(placeholder_node("x", "dim { size: 1 }") + node("y", "Neg", {"x"}, t_float) + number("zero", "0") +
           number("end", "4") + node("loop/i", "Enter", {"zero"}, t_int + frame) +
           node("loop/end", "Enter", {"end"}, t_int + frame + attr("is_constant", "b: true")) +
           node("loop/Merge", "Merge", {"loop/i", "loop/Next"}, t_int + attr("N", "i: 2")) +
           node("loop/Less", "Less", {"loop/Merge", "loop/end"}, t_int) + node("loop/Cond", "LoopCond", {"loop/Less"}) +
           node("loop/Switch", "Switch", {"loop/Merge", "loop/Cond"}, t_int) +
           node("loop/now", "Identity", {"loop/Switch:1"}, t_int) +
           node("loop/add", "AddV2", {"loop/now", "loop/end"}, t_int) +
           node("loop/Next", "NextIteration", {"loop/add"}, t_int) +
           node("loop/Exit", "Exit", {"loop/Less"}, attr("T", "type: DT_BOOL")) +
           node("after", "LogicalNot", {"loop/Exit"}) + node("both", "Neg", {"x", "^loop/Exit"}, t_float));
  const Session session(graph);
  const Feeds x{{"x:0", {1.0}}};
  check_same(session.run("y:0", x), tensor<float>({-1}));
  const auto refusal = [&](const std::string& name) {
    return message_of<UnimplementedError>([&] { session.run(name, x); });
  };
  const std::string reason =
      "The frame 'loop/context' is no loop that Tapestry can read: 'loop/Exit' leaves no loop variable";
  for (const char* name : {"loop/Exit:0", "after:0", "both:0"}) CHECK(refusal(name) == reason);
  CHECK(refusal("loop/add:0").starts_with("'loop/add' is in the loop 'loop'"));
  check_same(session.run("after:0", {{"loop/Exit:0", true}}), tensor(false));
  CHECK(message_of<UnimplementedError>([&] { (void)graph.as_graph_def(); }).find("Tapestry lacks a part of it") !=
        std::string::npos);
}

TEST_CASE("small integers that meet an op that cannot do with wider ones stay as they are") {
  const std::string small = attr("T", "type: DT_INT8"), dtype = attr("dtype", "type: DT_INT8");
  const std::string to_wide = attr("SrcT", "type: DT_INT8") + attr("DstT", "type: DT_INT32");
  const std::string number = "tensor_shape { dim { size: 2 } } int_val: 100 int_val: -128";
  const Graph graph =
      read(constant_node("a", "DT_INT8", number) + node("twice", "Add", {"a", "a"}, small) +
           node("wide", "Cast", {"twice"}, to_wide) + constant_node("b", "DT_INT8", number) +
           node("foo", "Foo", {"b"}, small) + node("wide_b", "Cast", {"b"}, to_wide) +
           constant_node("c", "DT_UINT32", "tensor_shape { } uint32_val: 4294967295") +
           node("wide_c", "Cast", {"c"}, attr("SrcT", "type: DT_UINT32") + attr("DstT", "type: DT_INT64")) +
           constant_node("d", "DT_UINT16", "tensor_shape { dim { size: 2 } } tensor_content: '\\377\\377\\001\\000'") +
           node("wide_d", "Cast", {"d"}, attr("SrcT", "type: DT_UINT16") + attr("DstT", "type: DT_FLOAT")));
  for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
    const Session session(each);
    check_same(session.run("wide:0"), tensor<int>({-56, 0}));
    check_same(session.run("wide_c:0"), tensor(std::int64_t{4294967295}));
    check_same(session.run("wide_d:0"), tensor<float>({65535, 1}));
    CHECK_THROWS_AS(session.run("wide_b:0"), UnimplementedError);
  }
  CHECK(std::get<io::TypeCode>(def_of(graph.as_graph_def(), "b").attrs.at("dtype")) == io::TypeCode{6});
  CHECK_THROWS_AS(read(constant_node("a", "DT_INT16", "tensor_shape { dim { size: 2 } } tensor_content: 'abc'")),
                  DataLossError);
}

TEST_CASE("numbers of uint64 are added, ordered and divided, also those that int64 has not") {
  const auto big = [](const std::string& name, const std::string& value) {
    return constant_node(name, "DT_UINT64", "tensor_shape { } uint64_val: " + value);
  };
  const std::string t = attr("T", "type: DT_UINT64");
  const auto to = [](const std::string& dtype) {
    return attr("SrcT", "type: DT_UINT64") + attr("DstT", "type: " + dtype);
  };
  // Each node has constants of its own: one that cannot be read keeps what it takes as it is.
  const Graph graph = read(big("a", "9223372036854775807") + big("one", "1") + node("sum", "AddV2", {"a", "one"}, t) +
                           big("most", "9223372036854775808") + node("same", "Equal", {"sum", "most"}, t) +
                           node("whole", "Cast", {"sum"}, to("DT_INT64")) + big("b", "9223372036854775808") +
                           big("two", "2") + node("less", "Less", {"b", "two"}, t) + big("c", "9223372036854775808") +
                           big("three", "3") + node("rest", "FloorMod", {"c", "three"}, t) +
                           node("number", "Cast", {"rest"}, to("DT_INT32")) + big("d", "9223372036854775808") +
                           node("real", "Cast", {"d"}, to("DT_FLOAT")) + big("e", "9223372036854775808") +
                           node("sign", "Sign", {"e"}, t) + node("signed", "Cast", {"sign"}, to("DT_INT32")));
  const Session session(graph);
  check_same(session.run("same:0"), tensor(true));
  check_same(session.run("whole:0"), tensor(std::numeric_limits<std::int64_t>::min()));
  check_same(session.run("less:0"), tensor(false));
  check_same(session.run("number:0"), tensor(2));
  check_same(session.run("real:0"), tensor(0x1p63F));
  CHECK_THROWS_AS(session.run("signed:0"), UnimplementedError);
}

TEST_CASE("a quotient of small integers is one, too") {
  const std::string small = attr("T", "type: DT_INT8");
  const std::string to_wide = attr("SrcT", "type: DT_INT8") + attr("DstT", "type: DT_INT32");
  const Graph graph = read(constant_node("a", "DT_INT8", "tensor_shape { } int_val: -128") +
                           constant_node("b", "DT_INT8", "tensor_shape { } int_val: -1") +
                           node("q", "FloorDiv", {"a", "b"}, small) + node("wide", "Cast", {"q"}, to_wide));
  check_same(Session(graph).run("wide:0"), tensor(-128));
}

TEST_CASE("lookups in a table of whole numbers that the graph fills with constants") {
  const std::string types = attr("key_dtype", "type: DT_INT64") + attr("value_dtype", "type: DT_FLOAT"),
                    ends = attr("Tin", "type: DT_INT64") + attr("Tout", "type: DT_FLOAT");
  const std::string
      keys = "tensor_shape { dim { size: 5 } } int64_val: 7 int64_val: -3 int64_val: 100 int64_val: 0 int64_val: 8",
      values = "tensor_shape { dim { size: 5 } } float_val: 1 float_val: 2 float_val: 3 float_val: 4 float_val: 5";
  const Graph graph = read(
      node("table", "HashTableV2", {}, types) + constant_node("keys", "DT_INT64", keys) +
      constant_node("values", "DT_FLOAT", values) +
      node("fill", "LookupTableImportV2", {"table", "keys", "values"}, ends) + float_node("otherwise", "-1") +
      node("x", "Placeholder", {}, attr("dtype", "type: DT_INT64") + attr("shape", "shape { unknown_rank: true }")) +
      node("found", "LookupTableFindV2", {"table", "x", "otherwise"}, ends) +
      node("size", "LookupTableSizeV2", {"table", "^found"}));
  for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
    const Session session(each);
    const Tensor x =
        tensor<std::int64_t>({{7, -3, 100, 0, 8}, {-4, 1, 99, 101, std::numeric_limits<std::int64_t>::min()}});
    check_same(session.run("found:0", {{"x:0", x}}), tensor<float>({{1, 2, 3, 4, 5}, {-1, -1, -1, -1, -1}}));
    check_same(session.run("found:0", {{"x:0", std::int64_t{100}}}), tensor(3.F));
    CHECK(session.run("size:0", {{"x:0", std::int64_t{100}}}).item<std::int64_t>() == 5);
  }
}

}  // namespace tapestry::test::foreign_nodes_test
