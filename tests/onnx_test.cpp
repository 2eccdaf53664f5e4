// ONNX models: what stands in the file. onnx's checker and onnxruntime judge it in tests/interop.

#include <cstring>
#include <fstream>
#include <set>

#include <doctest/doctest.h>

#include "io/wire.hpp"
#include "op_cases/op_cases.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::onnx_test {
namespace {

using io::WireReader;
using Texts = std::vector<std::string>;

/// The values of a field of a message: texts, bytes or messages, and numbers in decimal.
Texts fields(std::string_view message, protozero::pbf_tag_type tag) {
  Texts found;
  WireReader reader(message.data(), message.size());
  while (reader.next()) {
    if (reader.tag() != tag) {
      reader.skip();
    } else if (reader.wire_type() == protozero::pbf_wire_type::varint) {
      found.push_back(std::to_string(reader.get_int64()));
    } else {
      const auto view = reader.get_view();
      found.emplace_back(view.data(), view.size());
    }
  }
  return found;
}

std::string field(std::string_view message, protozero::pbf_tag_type tag) {
  const Texts found = fields(message, tag);
  REQUIRE(found.size() == 1);
  return found[0];
}

struct Node {
  Texts inputs, outputs;
  std::string name, type;
  std::map<std::string, std::string> attributes;  ///< AttributeProtos
};

struct Model {
  Model() = default;

  std::string bytes, graph;
  std::vector<Node> nodes{};
  std::map<std::string, std::string> initializers{};  ///< TensorProtos

  explicit Model(const std::filesystem::path& path) : bytes(read_text(path)), graph(field(bytes, 7)) { parse(); }
  /// A graph that is an attribute.
  static Model inner(const std::string& attribute) {
    Model model;
    model.graph = field(attribute, 6);
    model.parse();
    return model;
  }

  void parse() {
    for (const std::string& each : fields(graph, 1)) {
      Node& node = nodes.emplace_back(Node{fields(each, 1), fields(each, 2), field(each, 3), field(each, 4), {}});
      for (const std::string& attribute : fields(each, 5)) node.attributes.emplace(field(attribute, 1), attribute);
    }
    for (const std::string& each : fields(graph, 5)) initializers.emplace(field(each, 8), each);
  }

  /// The graphs that are attributes of a node.
  static std::vector<Model> inside(const Node& node) {
    std::vector<Model> graphs;
    for (const auto& [name, attribute] : node.attributes)
      if (!fields(attribute, 6).empty()) graphs.push_back(inner(attribute));
    return graphs;
  }
  const Node& node(const std::string& type) const {
    for (const Node& each : nodes)
      if (each.type == type) return each;
    FAIL("there is no ", type);
    return nodes.front();
  }

  Texts types() const {
    Texts list;
    for (const Node& node : nodes) list.push_back(node.type);
    return list;
  }
};

/// "x: float [batch,2]" of a ValueInfoProto, whose sizes may be unknown: "?".
std::string to_text(const std::string& info) {
  const std::string tensor = field(field(info, 2), 1);
  std::string text = field(info, 1) + ": " + field(tensor, 1) + " [";
  for (const std::string& size : fields(field(tensor, 2), 1)) {
    const Texts known = fields(size, 1), symbol = fields(size, 2);
    text += (text.back() == '[' ? "" : ",") + (!known.empty() ? known[0] : !symbol.empty() ? symbol[0] : "?");
  }
  return text + "]";
}

Texts values_of(const Model& model, protozero::pbf_tag_type tag) {
  Texts list;
  for (const std::string& each : fields(model.graph, tag)) list.push_back(to_text(each));
  return list;
}

template <class T>
std::vector<T> elements(const std::string& tensor) {
  const std::string raw = field(tensor, 9);
  std::vector<T> values(raw.size() / sizeof(T));
  std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

/// Every value has one origin, which stands before all that use it; every output of the model has one. The graphs that
/// are attributes see the values around them, and no name occurs twice in all graphs together.
void check_order(const Model& model, std::set<std::string> known, std::set<std::string>& names) {
  const auto define = [&](const std::string& name) {
    CHECK_MESSAGE(names.insert(name).second, name);
    known.insert(name);
  };
  for (const std::string& each : fields(model.graph, 11)) define(field(each, 1));
  for (const auto& [name, tensor] : model.initializers) define(name);
  std::set<std::string> nodes;
  for (const Node& node : model.nodes) {
    CHECK(nodes.insert(node.name).second);
    for (const std::string& input : node.inputs) CHECK_MESSAGE(known.contains(input), input);
    for (const Model& inside : Model::inside(node)) check_order(inside, known, names);
    for (const std::string& output : node.outputs) define(output);
  }
  for (const std::string& each : fields(model.graph, 12)) CHECK(known.contains(field(each, 1)));
}
void check_order(const Model& model) {
  std::set<std::string> names;
  check_order(model, {}, names);
}

constexpr int float_code = 1, int64_code = 7;

}  // namespace

TEST_CASE("a traced function, with the values that its Variables have now") {
  const TemporaryFolder folder;
  Variable w(tensor<float>({{1, 2, 3}, {4, 5, 6}}), {.name = "w"});
  const auto step = trace(
      [&](const Tensor& x) {
        const Tensor hidden = matmul(x, w, {}, "hidden");
        w.assign_add(ones({2, 3}));
        return std::pair{tanh(hidden, "y"), exp(x)};
      },
      {spec(float32, {-1, 2}, "x")});
  w.assign(tensor<float>({{1, 0, 2}, {0, 1, 3}}));
  onnx::save((folder / "m.onnx").string(),
             {.inputs = {{"points", step.input()}}, .outputs = {{"scores", step.output()}}});

  const Model model(folder / "m.onnx");
  CHECK(field(model.bytes, 1) == "8");
  CHECK(field(field(model.bytes, 8), 2) == "18");
  CHECK(values_of(model, 11) == Texts{"points: 1 [batch,2]"});
  CHECK(values_of(model, 12) == Texts{"scores: 1 [?,3]"});
  CHECK(model.types() == Texts{"MatMul", "Tanh", "Identity"});
  CHECK(model.nodes[0].name == "hidden");
  CHECK(model.nodes[0].inputs == Texts{"points", "w"});
  CHECK(model.initializers.size() == 1);
  const std::string& value = model.initializers.at("w");
  CHECK(fields(value, 1) == Texts{"2", "3"});
  CHECK(field(value, 2) == std::to_string(float_code));
  CHECK(elements<float>(value) == std::vector<float>{1, 0, 2, 0, 1, 3});
  check_order(model);
}

TEST_CASE("a graph built by hand; an input may be any tensor, an output any input") {
  const TemporaryFolder folder;
  const Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(int64, {2, 3}, "x"), y = x * 2, z = reduce_sum(y, 1);
  onnx::save((folder / "m.onnx").string(), {.inputs = {{"in", y}}, .outputs = {{"out", z}, {"same", y}, {"twice", z}}});
  const Model model(folder / "m.onnx");
  CHECK(values_of(model, 11) == Texts{"in: 7 [2,3]"});
  CHECK(values_of(model, 12) == Texts{"out: 7 [2]", "same: 7 [2,3]", "twice: 7 [2]"});
  CHECK(model.types() == Texts{"ReduceSum", "Identity", "Identity", "Identity"});
  const Node& sum = model.nodes[0];
  CHECK(field(sum.attributes.at("keepdims"), 3) == "0");
  CHECK(field(model.initializers.at(sum.inputs[1]), 2) == std::to_string(int64_code));
  CHECK(elements<std::int64_t>(model.initializers.at(sum.inputs[1])) == std::vector<std::int64_t>{1});
  check_order(model);
}

TEST_CASE("one of the outputs of an op may be an input") {
  const TemporaryFolder folder;
  const Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {2, 3}, "x");
  const std::vector<Tensor> parts = split(x, 3, 1);
  onnx::save((folder / "m.onnx").string(),
             {.inputs = {{"part", parts[1]}, {"x", x}}, .outputs = {{"y", parts[0] + parts[1]}}});
  const Model model(folder / "m.onnx");
  CHECK(model.types() == Texts{"Split", "Add", "Identity"});
  CHECK(model.nodes[1].inputs == Texts{model.nodes[0].outputs[0], "part"});
  check_order(model);
}

TEST_CASE("names of sizes and of values") {
  const TemporaryFolder folder;
  const Graph graph;
  const auto scope = graph.as_default();
  const Tensor a = placeholder(float32, {-1, -1}, "a"), b = placeholder(float32, {-1, 4}, "b");
  // The nodes are called like the signature's names.
  const Tensor y = add(reduce_sum(a), reduce_sum(b), "y"), unused = exp(y, "b_1");
  onnx::save((folder / "m.onnx").string(), {.inputs = {{"a", a}, {"b", b}}, .outputs = {{"b_1", y}, {"y", b}}});
  const Model model(folder / "m.onnx");
  CHECK(values_of(model, 11) == Texts{"a: 1 [a_batch,a_1]", "b: 1 [b_batch,4]"});
  CHECK(values_of(model, 12) == Texts{"b_1: 1 []", "y: 1 [?,4]"});
  check_order(model);
}

TEST_CASE("what is no model") {
  const TemporaryFolder folder;
  const std::string place = (folder / "m.onnx").string();
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {2, 2}, "x"), bytes = placeholder(uint8, {2}, "bytes"), untyped = placeholder();
  const auto refuse = [&]<class E>(const E&, const std::string& text, const Signature& signature) {
    const auto error = caught<E>([&] { onnx::save(place, signature); });
    CHECK(error.message() == text);
    CHECK_FALSE(std::filesystem::exists(place));
    return error.where();
  };
  const InvalidArgumentError wrong("");
  refuse(wrong, "A signature needs an output", {.inputs = {{"x", x}}});
  refuse(wrong, "The outputs depend on the placeholder 'x', which is no input of the signature",
         {.outputs = {{"y", x}}});
  refuse(wrong, "ONNX needs a name of its own for each input and output, but 'x' is two",
         {.inputs = {{"x", x}}, .outputs = {{"x", exp(x)}}});
  refuse(wrong, "ONNX needs a name of its own for each input and output, but '' is none", {.outputs = {{"", x}}});

  const UnimplementedError lacking("");
  const Where line = Where::here();
  const Tensor factor = cholesky(x, "factor");
  const Where where =
      refuse(lacking, "Node 'factor' (op: 'Cholesky') cannot be written as ONNX: ONNX has no op that does the same",
             {.inputs = {{"x", x}}, .outputs = {{"y", relu(factor)}}});
  CHECK(where.line == line.line + 1);
  refuse(lacking,
         "Node 'sum' (op: 'AddV2') cannot be written as ONNX: ONNX has no op that does the same for its type and "
         "attributes",
         {.inputs = {{"bytes", bytes}}, .outputs = {{"y", add(bytes, bytes, "sum")}}});
  refuse(lacking, "Node 'neg' (op: 'Neg') cannot be written as ONNX: its dtype is not known yet",
         {.inputs = {{"u", untyped}}, .outputs = {{"y", negative(untyped, "neg")}}});

  CHECK_THROWS_AS(onnx::save((folder / "no" / "m.onnx").string(), {.inputs = {{"x", x}}, .outputs = {{"y", exp(x)}}}),
                  NotFoundError);
}

TEST_CASE("what is computed behind a change of a Variable is refused") {
  const TemporaryFolder folder;
  Variable w(tensor<float>({1, 2}), {.name = "w"});
  const auto step = trace(
      [&](const Tensor& x) {
        const Tensor before = x * w;
        w.assign_add(x);
        return std::pair{before, x * w};
      },
      {spec(float32, {2}, "x")});
  const std::string place = (folder / "m.onnx").string();
  const auto error = caught<UnimplementedError>([&] {
    onnx::save(place, {.inputs = {{"x", step.input()}}, .outputs = {{"y", step.output(1)}}});
  });
  CHECK(error.message().find("(op: 'AssignAddVariableOp') cannot be written as ONNX: it changes a Variable") !=
        std::string::npos);
  onnx::save(place, {.inputs = {{"x", step.input()}}, .outputs = {{"y", step.output(0)}}});
  CHECK(Model(place).types() == Texts{"Mul", "Identity"});
}

TEST_CASE("branches are Ifs, whose graphs read the values around them") {
  const TemporaryFolder folder;
  const std::string place = (folder / "m.onnx").string();
  const Variable w(tensor<float>({1, 2}), {.name = "w"});
  const auto f = trace(
      [&](const Tensor& x, const Tensor& i) {
        return switch_case(i,
                           {[&] { return x * w; }, [&] { return x; },
                            [&] {
                              return cond(
                                  reduce_sum(x) > 0.0, [&] { return exp(x); }, [&] { return x + w; }, "inner");
                            }},
                           "outer");
      },
      {spec(float32, {-1, 2}, "x"), spec(int32, {}, "i")});
  onnx::save(place, {.inputs = {{"x", f.input(0)}, {"i", f.input(1)}}, .outputs = {{"y", f.output()}}});
  const Model model(place);
  check_order(model);
  CHECK(model.types() == Texts{"Equal", "If", "Identity"});
  const Node& first = model.node("If");
  CHECK(first.outputs == Texts{"outer"});
  const Model then = Model::inner(first.attributes.at("then_branch"));
  CHECK(then.types() == Texts{"Mul", "Identity"});
  CHECK(then.nodes[0].inputs == Texts{"x", "w"});
  CHECK(values_of(then, 12).size() == 1);
  CHECK(fields(then.graph, 11).empty());
  // The branches of an index that is none of those before.
  const Model second = Model::inner(first.attributes.at("else_branch"));
  CHECK(second.types() == Texts{"Equal", "If", "Identity"});
  CHECK(Model::inner(second.node("If").attributes.at("then_branch")).types() == Texts{"Identity"});
  const Model third = Model::inner(second.node("If").attributes.at("else_branch"));
  CHECK(third.types() == Texts{"ReduceSum", "Greater", "If", "Identity"});
}

TEST_CASE("loops are Loops, and Scans where they go through sequences of a known length") {
  const TemporaryFolder folder;
  const std::string place = (folder / "m.onnx").string();
  const auto f = trace(
      [](const Tensor& x, const Tensor& n, const Tensor& w) {
        const auto [count, y] = while_loop([&](Tensor i, Tensor) { return less(i, n); },
                                           [&](Tensor i, Tensor s) {
                                             return std::tuple{i + 1, sin(s) + x};
                                           },
                                           std::tuple{0, x}, {.maximum_iterations = 9});
        const auto [sum, sums] = scan(
            [](Tensor before, Tensor row) {
              return std::pair{before + row, before};
            },
            zeros({2}), y, {.reverse = true});
        return std::pair{sums + sum, map([](Tensor row) { return -row; }, w, {.reverse = true})};
      },
      {spec(float32, {3, 2}, "x"), spec(int32, {}, "n"), spec(float32, {-1, 2}, "w")});
  onnx::save(place, {.inputs = {{"x", f.input(0)}, {"n", f.input(1)}}, .outputs = {{"y", f.output()}}});
  const Model model(place);
  check_order(model);
  const Node &loop = model.node("Loop"), &scanned = model.node("Scan");
  REQUIRE(loop.inputs.size() == 4);
  CHECK(elements<std::int64_t>(model.initializers.at(loop.inputs[0])) == std::vector<std::int64_t>{9});
  const Model body = Model::inner(loop.attributes.at("body"));
  CHECK(fields(body.graph, 11).size() == 4);
  CHECK(values_of(body, 12).size() == 3);
  CHECK(values_of(body, 12)[0].ends_with(": 9 []"));
  CHECK(values_of(body, 12)[2].ends_with(": 1 [3,2]"));
  REQUIRE(scanned.inputs.size() == 2);
  const auto number = [&](const char* name, int tag) { return field(scanned.attributes.at(name), tag); };
  CHECK(number("num_scan_inputs", 3) == "1");
  CHECK(number("scan_input_directions", 8) == "1");
  CHECK(number("scan_output_directions", 8) == "1");
  const Model rows = Model::inner(scanned.attributes.at("body"));
  CHECK(values_of(rows, 11).size() == 2);
  CHECK(values_of(rows, 11)[1].ends_with(": 1 [2]"));
  CHECK(rows.types() == Texts{"Add", "Identity", "Identity"});

  // Of an unknown length: the elements are taken from the end, and the outputs turned round.
  onnx::save(place, {.inputs = {{"w", f.input(2)}}, .outputs = {{"y", f.output(1)}}});
  const Model turned(place);
  check_order(turned);
  CHECK(turned.types() == Texts{"Shape", "Squeeze", "Loop", "Slice", "Identity"});
  CHECK(Model::inner(turned.node("Loop").attributes.at("body")).types() ==
        Texts{"Sub", "Sub", "Gather", "Neg", "Identity", "Identity"});
}

TEST_CASE("an output that nobody uses is not written, and a function that changes a Variable is refused") {
  const TemporaryFolder folder;
  const std::string place = (folder / "m.onnx").string();
  const Variable count(0, {.name = "count"});
  const auto f = trace(
      [&](const Tensor& x) {
        const auto [a, b] = cond(
            reduce_sum(x) > 0.0,
            [&] {
              return std::pair{exp(x), cholesky(x)};
            },
            [&] {
              return std::pair{x, x};
            },
            "branch");
        const Tensor halved = while_loop([](Tensor y) { return reduce_max(y) > 1.0; },
                                         [&](Tensor y) {
                                           count.assign_add(1);
                                           return y * 0.5;
                                         },
                                         x, {.name = "halved"});
        GradientTape tape;
        tape.watch(x);
        const Tensor kept = while_loop([](Tensor y) { return reduce_max(y) > 1.0; }, [](Tensor y) { return y * 0.5; },
                                       x, {.recompute = true});
        return std::tuple{a, b, halved, tape.gradient(reduce_sum(kept), x)};
      },
      {spec(float32, {2, 2}, "x")});
  const auto save = [&](std::size_t output) {
    onnx::save(place, {.inputs = {{"x", f.input()}}, .outputs = {{"y", f.output(output)}}});
  };
  save(0);
  const Model model(place);
  check_order(model);
  CHECK(model.node("If").outputs.size() == 1);
  const auto lacking = caught<UnimplementedError>([&] { save(1); });
  CHECK(lacking.message().find("(op: 'Cholesky') cannot be written as ONNX") != std::string::npos);
  const auto changing = caught<UnimplementedError>([&] { save(2); });
  CHECK(changing.message() == "Node 'halved' (op: 'While') cannot be written as ONNX: it changes a Variable");
  // The gradient of a loop that recomputes: a loop that keeps the states, and one over them.
  save(3);
  check_order(Model(place));
}

TEST_CASE("an op that ONNX lacks is written as its composition") {
  const auto halved = [](const Call& call) -> Tensors { return {gelu(call.input(0)) * 0.5, call.input(0)}; };
  Op op{
      .name = "OnnxTest",
      .infer = [](const Call& call) -> Specs {
        return {call.input(0).spec(), call.input(0).spec()};
      },
      .cpu = [](const Call&) {},
      .composition = halved,
      .outputs = 2,
  };
  const Op& composed = register_op(op);
  op.name = "OnnxTestAlone";
  op.composition = {};
  const Op& alone = register_op(op);
  const TemporaryFolder folder;
  const std::string place = (folder / "m.onnx").string();
  for (const Op* each : {&composed, &alone}) {
    const Graph graph;
    const auto scope = graph.as_default();
    const Tensor x = placeholder(float32, {-1, 2}, "x");
    const Tensors both = apply_all(*each, {x}, {}, "both", Where::here());
    const Signature signature{.inputs = {{"in", x}}, .outputs = {{"half", both[0]}, {"same", both[1]}}};
    if (each == &alone) {
      const auto error = caught<UnimplementedError>([&] { onnx::save(place, signature); });
      CHECK(error.message() ==
            "Node 'both' (op: 'OnnxTestAlone') cannot be written as ONNX: ONNX has no op that does the same");
      continue;
    }
    onnx::save(place, signature);
    const Model model(place);
    check_order(model);
    std::multiset<std::string> types;
    for (const Node& node : model.nodes) types.insert(node.type);
    CHECK(types == std::multiset<std::string>{"Add", "Erf", "Identity", "Identity", "Mul", "Mul", "Mul", "Mul"});
  }
}

TEST_CASE("the rows of the op table and their gradients, and what ONNX lacks") {
  const TemporaryFolder folder;
  const std::string place = (folder / "m.onnx").string();
  std::set<std::string> lacking;
  int models = 0;
  for (const OpCase& row : op_cases())
    for (const bool gradients : {false, true}) {
      if (gradients && row.orders == 0) continue;
      CAPTURE(row.name);
      std::vector<TensorSpec> specs;
      for (const Tensor& input : row.inputs) specs.push_back(spec(input.dtype(), input.shape()));
      const auto traced = trace(
          [&](const std::vector<Tensor>& x) {
            return gradients ? value_and_gradients(row, x) : std::vector<Tensor>{row.f(x)};
          },
          specs);
      Signature signature;
      for (std::size_t i = 0; i < row.inputs.size(); ++i)
        signature.inputs.emplace("x" + std::to_string(i), traced.input(i));
      for (std::size_t i = 0; i < traced.outputs().size(); ++i)
        signature.outputs.emplace("y" + std::to_string(i), traced.output(i));
      try {
        onnx::save(place, signature);
      } catch (const UnimplementedError& error) {
        const std::string start = "(op: '";
        const std::string& message = error.message();
        const std::size_t at = message.find(start) + start.size();
        lacking.insert(message.substr(at, message.find('\'', at) - at));
        continue;
      }
      check_order(Model(place));
      ++models;
    }
  CHECK(models > 400);
  std::string list;
  for (const std::string& op : lacking) list += op + " ";
  CHECK(list ==
        "Bitcast Cholesky Conv2DBackpropFilter Cumprod LogMatrixDeterminant MatrixInverse MatrixSolve "
        "MatrixTriangularSolve Qr "
        "RandomPermutation SelfAdjointEigV2 Svd TruncatedNormal UnsortedSegmentMax UnsortedSegmentMin "
        "UnsortedSegmentProd ");
}

}  // namespace tapestry::test::onnx_test
