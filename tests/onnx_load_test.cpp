// ONNX models that others have written, or that are damaged.

#include <fstream>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/wire.hpp"
#include "onnx_builder.hpp"
#include "same_bits.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::onnx_load_test {
namespace {

using namespace onnx_file;

class OnnxFolder {
 public:
  std::string operator/(const std::string& name) const { return folder_ / name; }

  std::string write(const std::string& bytes, const std::string& name = "model.onnx") const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  Model load(const GraphParts& parts, std::int64_t opset = 18, const std::vector<std::string>& functions = {}) const {
    return onnx::load(write(model_bytes(parts, opset, functions)));
  }

 private:
  TemporaryFolder folder_;
};

std::string x_of(const Shape& shape, DType dtype = float32) { return value_info("x", dtype, shape); }
std::string y_of(DType dtype = float32) { return value_info("y", dtype, Shape::unknown_rank()); }

}  // namespace

TEST_CASE("ONNX's If, Loop and Scan use the values around them") {
  const OnnxFolder folder;
  const Tensor x = tensor<float>({1, 2, 3});
  const std::string scalar = value_info("c", boolean, {}), out = value_info("r", float32, Shape::unknown_rank());
  SUBCASE("If") {
    const std::string then = graph({.nodes = {node("Add", {"x", "x"}, {"r"})}, .inputs = {}, .outputs = {out}});
    const std::string otherwise =
        graph({.nodes = {node("Neg", {"x"}, {"s"}), node("Mul", {"s", "x"}, {"r"})}, .inputs = {}, .outputs = {out}});
    const Model model =
        folder.load({.nodes = {node("If", {"c"}, {"y"}, {{"then_branch", {}, then}, {"else_branch", {}, otherwise}})},
                     .inputs = {value_info("c", boolean, {1}), x_of({-1})},
                     .outputs = {y_of()}});
    CHECK(values(model({{"c", tensor({true})}, {"x", x}})[0]) == std::vector<double>{2, 4, 6});
    CHECK(values(model({{"c", tensor({false})}, {"x", x}})[0]) == std::vector<double>{-1, -4, -9});
  }
  SUBCASE("Loop") {
    // Doubles s, and stacks s + x, until s exceeds 10 or n iterations are done.
    const std::string body = graph(
        {.nodes = {node("Add", {"s", "s"}, {"t"}), node("ReduceMax", {"t"}, {"m"}, {{"keepdims", std::int64_t{0}}}),
                   node("Less", {"m", "ten"}, {"goes"}), node("Add", {"s", "x"}, {"r"})},
         .inputs = {value_info("i", int64, {}), value_info("g", boolean, {}), value_info("s", float32, {3})},
         .outputs = {value_info("goes", boolean, {}), value_info("t", float32, {3}), out},
         .initializers = {initializer("ten", tensor<float>(10))}});
    const Model model = folder.load({.nodes = {node("Loop", {"n", "", "x"}, {"y", "stack"}, {{"body", {}, body}})},
                                     .inputs = {x_of({3}), value_info("n", int64, {1})},
                                     .outputs = {y_of(), value_info("stack", float32, Shape::unknown_rank())}});
    const auto results = model({{"x", x}, {"n", tensor<std::int64_t>({9})}});
    CHECK(values(results[0]) == std::vector<double>{4, 8, 12});
    CHECK(values(results[1]) == std::vector<double>{2, 4, 6, 3, 6, 9});
    CHECK(values(model({{"x", x}, {"n", tensor<std::int64_t>({1})}})[0]) == std::vector<double>{2, 4, 6});
    CHECK(values(model({{"x", x}, {"n", tensor<std::int64_t>({0})}})[0]) == values(x));
    CHECK(model({{"x", x}, {"n", tensor<std::int64_t>({0})}})[1].shape() == Shape{0, 3});
  }
  SUBCASE("Scan along another axis, from the end") {
    const std::string body = graph({.nodes = {node("Add", {"s", "e"}, {"t"}), node("Identity", {"t"}, {"r"})},
                                    .inputs = {value_info("s", float32, {}), value_info("e", float32, {})},
                                    .outputs = {value_info("t", float32, {}), out}});
    const std::vector<std::int64_t> one{1};
    const Model model = folder.load(
        {.nodes = {node("Squeeze", {"x"}, {"row"}),
                   node("Scan", {"zero", "row"}, {"last", "y"},
                        {{"body", {}, body}, {"num_scan_inputs", std::int64_t{1}}, {"scan_input_directions", one}})},
         .inputs = {x_of({1, 3})},
         .outputs = {y_of(), value_info("last", float32, {})},
         .initializers = {initializer("zero", tensor<float>(0))}});
    const auto results = model({{"x", reshape(x, {1, 3})}});
    CHECK(values(results[0]) == std::vector<double>{3, 5, 6});  // the outputs stand in the order of the steps
    CHECK(values(results[1]) == std::vector<double>{6});
  }
}

TEST_CASE("attributes of old versions and inputs of new ones mean the same") {
  const OnnxFolder folder;
  const Tensor x = tensor<float>({{{-1, 2, 3}, {4, -5, 6}}});
  const auto run = [&](const std::vector<std::string>& nodes, std::int64_t opset,
                       std::vector<std::string> initializers = {}) {
    return folder.load({nodes, {x_of({-1, 2, 3})}, {y_of()}, std::move(initializers)}, opset)({{"x", x}})[0];
  };
  using List = std::vector<std::int64_t>;
  const std::string axes = initializer("axes", tensor<std::int64_t>({1})),
                    two = initializer("two", tensor<std::int64_t>({2}));
  CHECK(same_bits(run({node("ReduceSum", {"x"}, {"y"}, {{"axes", List{1}}})}, 11),
                  run({node("ReduceSum", {"x", "axes"}, {"y"})}, 13, {axes})));
  CHECK(same_bits(run({node("ReduceMean", {"x"}, {"y"}, {{"axes", List{1}}})}, 13),
                  run({node("ReduceMean", {"x", "axes"}, {"y"})}, 18, {axes})));
  CHECK(same_bits(run({node("Unsqueeze", {"x"}, {"y"}, {{"axes", List{1}}})}, 11),
                  run({node("Unsqueeze", {"x", "axes"}, {"y"})}, 13, {axes})));
  CHECK(same_bits(run({node("Squeeze", {"x"}, {"y"}, {{"axes", List{0}}})}, 11), reshape(x, {2, 3})));
  CHECK(same_bits(run({node("Clip", {"x"}, {"y"}, {{"min", -2.0F}, {"max", 3.0F}})}, 6),
                  run({node("Clip", {"x", "low", "high"}, {"y"})}, 13,
                      {initializer("low", tensor<float>(-2)), initializer("high", tensor<float>(3))})));
  CHECK(same_bits(run({node("Clip", {"x", "", "high"}, {"y"})}, 13, {initializer("high", tensor<float>(3))}),
                  minimum(x, 3.0F)));
  CHECK(same_bits(run({node("Slice", {"x"}, {"y"}, {{"starts", List{0}}, {"ends", List{-1}}, {"axes", List{2}}})}, 9),
                  x(all, all, range(0, -1))));
  CHECK(same_bits(run({node("Pad", {"x"}, {"y"}, {{"pads", List{0, 0, 1, 0, 0, -1}}, {"value", 7.0F}})}, 10),
                  pad(x(all, all, range(0, 2)), {{}, {}, {1, 0}}, {.value = 7})));
  CHECK(same_bits(run({node("TopK", {"x"}, {"y", "i"}, {{"k", std::int64_t{2}}})}, 9),
                  run({node("TopK", {"x", "two"}, {"y", "i"})}, 11, {two})));
  CHECK(same_bits(run({node("Dropout", {"x"}, {"y"}, {{"ratio", 0.5F}})}, 7), x));
  CHECK(same_bits(run({node("Reshape", {"x"}, {"y"}, {{"shape", List{0, -1}}})}, 1), reshape(x, {1, 6})));
  check_same(run({node("Softmax", {"x"}, {"y"})}, 11), reshape(softmax(reshape(x, {1, 6})), {1, 2, 3}), 1e-6);
  CHECK(same_bits(run({node("Softmax", {"x"}, {"y"})}, 13), softmax(x)));
  CHECK(same_bits(run({node("Upsample", {"x", "scales"}, {"y"})}, 9, {initializer("scales", tensor<float>({1, 1, 2}))}),
                  repeat(x, 2, 2)));
}

TEST_CASE("shapes that the graph computes are known when it runs") {
  const OnnxFolder folder;
  // PyTorch's x.view(x.size(0), -1) and x.expand(...)
  const Model model = folder.load(
      {.nodes = {node("Shape", {"x"}, {"s"}), node("Gather", {"s", "zero"}, {"b"}),
                 node("Unsqueeze", {"b", "first"}, {"b1"}),
                 node("Concat", {"b1", "rest"}, {"shape"}, {{"axis", std::int64_t{0}}}),
                 node("Reshape", {"x", "shape"}, {"flat"}),
                 node("Concat", {"b1", "one"}, {"column"}, {{"axis", std::int64_t{0}}}),
                 node("ConstantOfShape", {"column"}, {"z"}),
                 node("Concat", {"flat", "z"}, {"y"}, {{"axis", std::int64_t{1}}})},
       .inputs = {x_of({-1, 2, -1})},
       .outputs = {y_of()},
       .initializers = {initializer("zero", tensor<std::int64_t>(0)), initializer("first", tensor<std::int64_t>({0})),
                        initializer("rest", tensor<std::int64_t>({-1})),
                        initializer("one", tensor<std::int64_t>({1}))}});
  for (const std::int64_t batch : {1, 4}) {
    const Tensor x = random::normal({batch, 2, 3});
    CHECK(same_bits(model({{"x", x}})[0], concat({reshape(x, {batch, 6}), zeros({batch, 1})}, 1)));
    GradientTape tape;
    tape.watch(x);
    CHECK(same_bits(tape.gradient(reduce_sum(square(model({{"x", x}})[0])), x), 2.0F * x));
  }
}

TEST_CASE("functions of the model are its nodes") {
  const OnnxFolder folder;
  std::string function;
  pbf_writer w(function);
  w.add_string(1, "Scaled");
  for (const char* each : {"a", "b"}) w.add_string(4, each);
  w.add_string(5, "c");
  w.add_string(6, "slope");
  w.add_message(7, node("LeakyRelu", {"a"}, {"t"}, {{"alpha", {}, {}, "slope"}}));
  w.add_message(7, node("Add", {"t", "b"}, {"c"}));
  io::add_message(w, 9, [](pbf_writer& opset) { opset.add_int64(2, 16); });
  w.add_string(10, "own");
  const auto call = [](const char* in, const char* out, float slope) {
    return node("Scaled", {in, "x"}, {out}, {{"slope", slope}}, "own");
  };
  const Model model =
      folder.load({.nodes = {call("x", "t", 0.5F), call("t", "y", 0.25F)}, .inputs = {x_of({2})}, .outputs = {y_of()}},
                  18, {function});
  CHECK(values(model({{"x", tensor<float>({-4, 2})}})[0]) == std::vector<double>{-5.5, 6});

  std::string endless;
  pbf_writer e(endless);
  e.add_string(1, "Endless");
  e.add_string(4, "a");
  e.add_string(5, "c");
  e.add_message(7, node("Endless", {"a"}, {"c"}, {}, "own"));
  e.add_string(10, "own");
  CHECK(message_of<InvalidArgumentError>([&] {
          folder.load({.nodes = {node("Endless", {"x"}, {"y"}, {}, "own")}, .inputs = {x_of({2})}, .outputs = {y_of()}},
                      18, {endless});
        }).find("calls itself") != std::string::npos);
}

TEST_CASE("ops that Tapestry lacks do no harm until a call needs them") {
  const OnnxFolder folder;
  const Model model = folder.load({.nodes = {node("Relu", {"x"}, {"y"}), node("MelWeightMatrix", {"x"}, {"d"}),
                                             node("Fused", {"d"}, {"z"}, {}, "com.other"),
                                             node("MelWeightMatrix", {"z"}, {"e"}), node("Add", {"e", "z"}, {"w"})},
                                   .inputs = {x_of({2, 2})},
                                   .outputs = {y_of(), value_info("w", float32, {})}});
  CHECK(model.outputs().size() == 2);
  const Session session(model.graph());
  CHECK(values(session.run("y:0", {{"x:0", tensor<float>({{-1, 2}, {3, -4}})}})) == std::vector<double>{0, 2, 3, 0});
  CHECK(message_of<UnimplementedError>([&] {
          model({{"x", tensor<float>({{-1, 2}, {3, -4}})}});
        }) ==
        "Tapestry lacks the op 'ai.onnx::MelWeightMatrix' of node 'd' and of 1 more, the op 'com.other::Fused' of node "
        "'z'");
}

TEST_CASE("masks are no Variables, and pass through Trilu") {
  const OnnxFolder folder;
  const float inf = std::numeric_limits<float>::infinity();
  const auto parameters = [&](const Tensor& added) {
    return folder
        .load({.nodes = {node("Add", {"x", "m"}, {"s"}), node("Softmax", {"s"}, {"y"})},
               .inputs = {x_of({2, 2})},
               .outputs = {y_of()},
               .initializers = {initializer("m", added)}})
        .parameters()
        .size();
  };
  CHECK(parameters(tensor<float>({{0, -inf}, {0, 0}})) == 0);
  CHECK(parameters(tensor<float>({{0, -1e9F}, {0, 0}})) == 0);
  CHECK(parameters(tensor<float>({{0, 0}, {0, 0}})) == 1);
  CHECK(parameters(tensor<float>({{0, -1e9F}, {0, 1}})) == 1);
  for (const std::int64_t upper : {0, 1})
    for (const std::int64_t k : {-1, 0, 1}) {
      const Model model = folder.load({.nodes = {node("Trilu", {"x", "k"}, {"y"}, {{"upper", upper}})},
                                       .inputs = {x_of({2, 3})},
                                       .outputs = {y_of()},
                                       .initializers = {initializer("k", tensor<std::int64_t>(k))}});
      std::vector<double> expected;
      for (int row = 0; row < 2; ++row)
        for (int column = 0; column < 3; ++column)
          expected.push_back((upper ? column - row >= k : column - row <= k) ? -inf : 0);
      CHECK(values(model({{"x", full({2, 3}, -inf)}})[0]) == expected);
    }
}

TEST_CASE("nodes that wait for sizes, or whose op Tapestry lacks, are written again as they were") {
  const OnnxFolder folder;
  const auto x = tensor<float>({{-1, 2, 5}, {3, -4, 0}});
  const auto again = [&](const Model& model) {
    onnx::save(folder / "again.onnx", model);
    return onnx::load(folder / "again.onnx");
  };
  const auto sized = [&](const std::vector<std::string>& nodes, std::int64_t opset, const Tensor& expected) {
    const Model model = folder.load({.nodes = nodes,
                                     .inputs = {value_info("x", float32, {-1, -1})},
                                     .outputs = {value_info("y", float32, Shape::unknown_rank())}},
                                    opset);
    CHECK(same_bits(model({{"x", x}})[0], expected));
    CHECK(same_bits(again(model)({{"x", x}})[0], expected));
  };
  const std::string shape = node("Shape", {"x"}, {"s"});
  sized({shape, node("ConstantOfShape", {"s"}, {"y"})}, 18, zeros({2, 3}));
  sized({shape, node("ReduceProd", {"s"}, {"n"}, {{"keepdims", 1}}), node("Reshape", {"x", "n"}, {"y"})}, 18,
        reshape(x, {6}));
  // An attribute that became an input.
  sized({node("ReduceMax", {"x"}, {"y"}, {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", 0}})}, 11,
        tensor<float>({5, 3}));
  sized({node("Unsqueeze", {"x"}, {"u"}, {{"axes", std::vector<std::int64_t>{0}}}), node("Squeeze", {"u"}, {"y"})}, 11,
        x);
  // Left-out inputs keep their places.
  sized({shape, node("Cast", {"s"}, {"f"}, {{"to", 1}}), node("Resize", {"x", "", "", "s"}, {"y"})}, 18, x);

  const Model lacking =
      folder.load({.nodes = {node("Relu", {"x"}, {"y"}), node("Fused", {"x"}, {"z"}, {}, "com.other")},
                   .inputs = {value_info("x", float32, {-1, 3})},
                   .outputs = {y_of(), value_info("z", float32, {})}});
  CHECK(message_of<UnimplementedError>([&] { again(lacking); }) == "ONNX needs to know the dtype of every tensor");
  const Model used =
      folder.load({.nodes = {node("Fused", {"x"}, {"z"}, {{"factor", 2.5F}}, "com.other"), node("Shape", {"z"}, {"y"})},
                   .inputs = {value_info("x", float32, {-1, 3})},
                   .outputs = {y_of(int64)}});
  CHECK(message_of<UnimplementedError>([&] { again(used)({{"x", x}}); }).find("com.other::Fused") != std::string::npos);
  // Softmax of opset 11 normalizes over several axes.
  const Model old = folder.load({.nodes = {shape, node("Reshape", {"x", "s"}, {"r"}), node("Softmax", {"r"}, {"y"})},
                                 .inputs = {value_info("x", float32, Shape::unknown_rank())},
                                 .outputs = {y_of()}},
                                11);
  CHECK(message_of<UnimplementedError>([&] { again(old); }).find("the form of opset 11") != std::string::npos);
  CHECK(message_of<UnimplementedError>([&] {
          folder.load({.nodes = {node("Relu", {"x"}, {"y"})}, .inputs = {x_of({2})}, .outputs = {y_of()}}, 24);
        }) == "The model has opset 24 of ONNX; those up to 23 are read");
}

TEST_CASE("elements may be in a file of the model's folder, and nowhere else") {
  const OnnxFolder folder;
  const auto external = [](const std::string& location, const std::string& offset, const std::string& length) {
    std::string bytes;
    pbf_writer w(bytes);
    w.add_int64(1, 2);
    w.add_int64(2, 1);
    w.add_string(8, "w");
    for (const auto& [key, value] : {std::pair{"location", location}, {"offset", offset}, {"length", length}})
      io::add_message(w, 13, [&, k = key, v = value](pbf_writer& entry) {
        entry.add_string(1, k);
        entry.add_string(2, v);
      });
    w.add_int64(14, 1);
    return bytes;
  };
  const float elements[] = {1, 2, 3};
  folder.write(std::string(reinterpret_cast<const char*>(elements), sizeof elements), "weights.bin");
  const auto load = [&](const std::string& tensor) {
    return folder.load({.nodes = {node("Mul", {"x", "w"}, {"y"})},
                        .inputs = {x_of({2})},
                        .outputs = {y_of()},
                        .initializers = {tensor}});
  };
  CHECK(values(load(external("weights.bin", "4", "8"))({{"x", tensor<float>({10, 100})}})[0]) ==
        std::vector<double>{20, 300});
  CHECK(values(load(external("./weights.bin", "0", "8"))({{"x", tensor<float>({10, 100})}})[0]) ==
        std::vector<double>{10, 200});
  for (const char* outside : {"/etc/passwd", "../weights.bin", "a/../../weights.bin", ""})
    CHECK_THROWS_AS(load(external(outside, "0", "8")), Error);
  CHECK_THROWS_AS(load(external("weights.bin", "8", "8")), DataLossError);
  CHECK_THROWS_AS(load(external("weights.bin", "0", "12")), DataLossError);
  CHECK_THROWS_AS(load(external("weights.bin", "-4", "8")), DataLossError);
  CHECK_THROWS_AS(load(external("none.bin", "0", "8")), NotFoundError);
}

TEST_CASE("files of other kinds are named") {
  const OnnxFolder folder;
  const auto says = [&](const std::string& bytes, std::string_view text) {
    const std::string path = folder.write(bytes, "file");
    CHECK(message_of<InvalidArgumentError>([&] { onnx::load(path); }).find(text) != std::string::npos);
  };
  const auto f = trace([](Tensor x) { return relu(x); }, {spec(float32, {2})});
  const Signature signature{.inputs = {{"x", f.input()}}, .outputs = {{"y", f.output()}}};
  saved_model::save(folder / "saved", signature);
  CHECK(message_of<InvalidArgumentError>([&] { onnx::load(folder / "saved"); }).find("tp::saved_model::load") !=
        std::string::npos);
  CHECK(message_of<InvalidArgumentError>([&] { onnx::load(folder / "saved/saved_model.pb"); }).find("a SavedModel") !=
        std::string::npos);
  f.output().op().graph().save(folder / "graph.pb");
  CHECK(message_of<InvalidArgumentError>([&] { onnx::load(folder / "graph.pb"); }).find("tp::Graph::load") !=
        std::string::npos);
  says("PK\3\4 and so on", "zip archive");
  says("\x89HDF\r\n", "HDF5");
  says("node {\n}\n", "text");
  CHECK_THROWS_AS(onnx::load(folder / "nothing.onnx"), NotFoundError);
  CHECK_THROWS_AS(onnx::load(folder.write("\xff\xff\xff")), DataLossError);
  says("", "is empty");
  onnx::save(folder / "model.onnx", signature);
  CHECK(message_of<InvalidArgumentError>([&] { Graph::load(folder / "model.onnx"); }).find("tp::onnx::load") !=
        std::string::npos);
}

TEST_CASE("graphs that are not consistent are refused with the node") {
  const OnnxFolder folder;
  const auto refused = [&](const std::vector<std::string>& nodes, std::string_view text) {
    const std::string message = message_of<InvalidArgumentError>([&] {
      folder.load({nodes, {x_of({2, 3})}, {y_of()}})({{"x", zeros({2, 3})}});
    });
    INFO(message);
    CHECK(message.find(text) != std::string::npos);
  };
  using List = std::vector<std::int64_t>;
  refused({node("Relu", {"nothing"}, {"y"})}, "No node before gives the value 'nothing'");
  refused({node("Relu", {"x"}, {"y"}), node("Abs", {"x"}, {"y"})}, "is given twice");
  refused({node("Relu", {"x", "x"}, {"y"})}, "Node 'y' (op: 'ai.onnx::Relu'): it has 2 inputs");
  refused({node("Transpose", {"x"}, {"y"}, {{"perm", List{0, 0}}})}, "Node 'y'");
  refused({node("Reshape", {"x"}, {"y"}, {{"shape", List{5, 5}}})}, "Node 'y'");
  refused({node("Concat", {"x", "x"}, {"y"}, {{"axis", std::int64_t{7}}})}, "Node 'y'");
  refused({node("Softmax", {"x"}, {"y"}, {{"axis", 0.5F}})}, "Node 'y'");
  refused({node("LRN", {"x"}, {"y"}, {{"size", std::int64_t{1} << 40}})}, "its size is");
}

}  // namespace tapestry::test::onnx_load_test
