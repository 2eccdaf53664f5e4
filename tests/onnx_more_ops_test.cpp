// Ops of ONNX that are read as compositions: what they compute at their edges, their gradients, and files that lie.

#include <cmath>
#include <fstream>
#include <limits>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "onnx_builder.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::onnx_more_ops_test {
namespace {

using namespace onnx_file;
using Named = std::vector<std::pair<std::string, Tensor>>;
using List = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

/// A model of some nodes, whose output is "y". Its inputs have unknown sizes if `open` is set.
Model model_of(const std::vector<std::string>& nodes, const Named& inputs, const Named& constants = {},
               std::int64_t opset = 18, bool open = false) {
  const TemporaryFolder folder;
  GraphParts parts{.nodes = nodes, .inputs = {}, .outputs = {value_info("y", float32, Shape::unknown_rank())}};
  for (const auto& [name, x] : inputs) {
    const Shape any(List(static_cast<std::size_t>(x.rank()), -1));
    parts.inputs.push_back(value_info(name, x.dtype(), open ? any : x.shape()));
  }
  for (const auto& [name, x] : constants) parts.initializers.push_back(initializer(name, x));
  std::ofstream(folder / "model.onnx", std::ios::binary) << model_bytes(parts, opset);
  return onnx::load(folder / "model.onnx");
}

Tensor result(const Model& model, const Named& inputs) {
  Feeds feeds;
  for (const auto& [name, x] : inputs) feeds.add(name, x);
  return model(feeds)[0];
}

/// The results for known and for unknown sizes, which must be equal.
Numbers run(const std::vector<std::string>& nodes, const Named& inputs, const Named& constants = {},
            std::int64_t opset = 18) {
  Numbers known = values(result(model_of(nodes, inputs, constants, opset), inputs));
  CHECK(values(result(model_of(nodes, inputs, constants, opset, true), inputs)) == known);
  return known;
}

/// The gradients of the sum of the squares of the result.
std::vector<Numbers> slopes(const std::vector<std::string>& nodes, const Named& inputs, const Named& constants = {},
                            std::int64_t opset = 18) {
  const Model model = model_of(nodes, inputs, constants, opset);
  GradientTape tape;
  std::vector<Tensor> watched;
  for (const auto& [name, x] : inputs)
    if (is_floating(x.dtype())) watched.push_back(x);
  tape.watch(watched);
  std::vector<Numbers> all;
  for (const Tensor& each : tape.gradient(reduce_sum(square(result(model, inputs))), watched))
    all.push_back(values(each));
  return all;
}

void check_near(const Numbers& actual, const Numbers& expected, double tolerance = 1e-5) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    CHECK((actual[i] == expected[i] || std::abs(actual[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i]))));
}

/// A cast to or from uint8, which the files of these tests do not feed.
std::string to_bytes(const std::string& from, const std::string& to) { return node("Cast", {from}, {to}, {{"to", 2}}); }
std::string to_floats(const std::string& from, const std::string& to) {
  return node("Cast", {from}, {to}, {{"to", 1}});
}

}  // namespace

TEST_CASE("of several updates of an element the last one counts") {
  const Tensor x = tensor<float>({1, 2, 3}), updates = tensor<float>({10, 20, 40});
  const Tensor rows = tensor<std::int64_t>({{2}, {0}, {2}}), places = tensor<std::int64_t>({-1, 0, 2});
  const std::string by_rows = node("ScatterND", {"x", "i", "u"}, {"y"}),
                    by_places = node("ScatterElements", {"x", "i", "u"}, {"y"});
  for (const auto& [text, indices] : {std::pair(by_rows, rows), std::pair(by_places, places)}) {
    const Named inputs{{"x", x}, {"i", indices}, {"u", updates}}, fed{{"x", x}, {"u", updates}};
    CHECK(run({text}, inputs) == Numbers{20, 2, 40});
    CHECK(run({text}, fed, {{"i", indices}}) == Numbers{20, 2, 40});
    CHECK(slopes({text}, inputs) == std::vector<Numbers>{{0, 4, 0}, {0, 40, 80}});
  }
  CHECK(run({by_rows}, {{"x", x}, {"i", zeros({0, 1}, {.dtype = int64})}, {"u", zeros({0})}}) == Numbers{1, 2, 3});
  CHECK(run({by_rows}, {{"x", x}, {"u", zeros({0})}}, {{"i", zeros({0, 1}, {.dtype = int64})}}) == Numbers{1, 2, 3});
  const std::string bools = node("Cast", {"b"}, {"y"}, {{"to", 1}});
  CHECK(run({node("ScatterND", {"x", "i", "u"}, {"b"}), bools},
            {{"x", tensor<bool>({true, true, false})}, {"i", rows}, {"u", tensor<bool>({true, false, false})}}) ==
        Numbers{0, 1, 0});
}

TEST_CASE("updates are multiplied, or the largest or smallest one is taken") {
  const Tensor x = tensor<float>({1, 2, 3}), updates = tensor<float>({5, -2, 4, 0.5});
  const Tensor rows = tensor<std::int64_t>({{2}, {0}, {-1}, {2}}), places = tensor<std::int64_t>({2, 0, -1, 2});
  const auto check = [&](const char* how, const Numbers& expected, const std::vector<Numbers>& gradients) {
    for (const auto& [op, indices] : {std::pair("ScatterND", rows), std::pair("ScatterElements", places)}) {
      const Named inputs{{"x", x}, {"i", indices}, {"u", updates}};
      const std::string text = node(op, {"x", "i", "u"}, {"y"}, {{"reduction", how}});
      CHECK(run({text}, inputs) == expected);
      CHECK(slopes({text}, inputs) == gradients);
    }
  };
  check("mul", {-2, 2, 30}, {{8, 4, 600}, {360, -4, 450, 3600}});
  check("max", {1, 2, 5}, {{2, 4, 0}, {10, 0, 0, 0}});
  check("min", {-2, 2, 0.5}, {{0, 4, 0}, {0, -4, 0, 1}});
}

TEST_CASE("functions are right where numbers are small, large or few") {
  const Named points{{"x", tensor<float>({0, 1e-6F, -0.75F, 2, -1e20F})}};
  check_near(run({node("Asinh", {"x"}, {"y"})}, points),
             {0, 1e-6, std::asinh(-0.75), std::asinh(2.0), std::asinh(-1e20)}, 1e-7);
  check_near(slopes({node("Asinh", {"x"}, {"y"})}, {{"x", tensor<float>({0, 2})}})[0],
             {0, 2 * std::asinh(2.0) / std::sqrt(5.0)});
  const Tensor origin = tensor<float>({0, -1});
  GradientTape tape;
  tape.watch(origin);
  const Named at_origin{{"x", origin}};
  check_near(
      values(tape.gradient(reduce_sum(result(model_of({node("Asinh", {"x"}, {"y"})}, at_origin), at_origin)), origin)),
      {1, 1 / std::sqrt(2.0)});
  check_near(run({node("Celu", {"x"}, {"y"}, {{"alpha", -2.0F}})}, {{"x", tensor<float>({-1, 3})}}),
             {-2 * std::expm1(0.5), 3});

  const std::int64_t least = std::numeric_limits<std::int64_t>::min(), odd = (std::int64_t{1} << 53) + 1;
  const Tensor whole = tensor<std::int64_t>({3, 1, least, 5}), bytes = tensor<float>({3, 0, 255, 5});
  const Named k{{"k", tensor<std::int64_t>({3})}};
  const std::string smallest = node("TopK", {"x", "k"}, {"y", "i"}, {{"largest", 0}});
  CHECK(result(model_of({smallest}, {{"x", whole}}, k), {{"x", whole}}).to_vector<std::int64_t>() == List{least, 1, 3});
  CHECK(run({to_bytes("f", "x"), node("TopK", {"x", "k"}, {"v", "i"}, {{"largest", 0}}), to_floats("v", "y")},
            {{"f", bytes}}, k) == Numbers{0, 3, 5});
  const Model padded = model_of({node("Pad", {"x", "w", "v"}, {"y"})}, {{"x", whole}},
                                {{"w", tensor<std::int64_t>({1, -2})}, {"v", tensor<std::int64_t>(odd)}});
  CHECK(result(padded, {{"x", whole}}).to_vector<std::int64_t>() == List{odd, 3, 1});

  // Only the activations that take a number use one up.
  const Named one_step{{"x", tensor<float>({{{1}}})}};
  const Named weights{{"w", tensor<float>({{{-1}}, {{-1}}})}, {"r", tensor<float>({{{1}}, {{1}}})}};
  std::string names;  // the list of texts, which the builder lacks
  {
    pbf_writer w(names);
    w.add_string(1, "activations");
    for (const char* name : {"Tanh", "LeakyRelu"}) w.add_string(9, name);
    w.add_int64(20, 8);
  }
  std::string alphas;
  {
    pbf_writer w(alphas);
    w.add_string(1, "activation_alpha");
    w.add_float(7, 0.5F);
    w.add_int64(20, 6);
  }
  std::string recurrent = node("RNN", {"x", "w", "r"}, {"y"}, {{"hidden_size", 1}, {"direction", "bidirectional"}});
  {
    pbf_writer w(recurrent);
    w.add_message(5, names);
    w.add_message(5, alphas);
  }
  check_near(run({recurrent}, one_step, weights), {std::tanh(-1.0), -0.5});
  for (const char* damaged : {"w", "r"}) {
    Named flat = weights;
    for (auto& [name, value] : flat)
      if (name == damaged) value = reshape(value, {-1});
    CHECK_THROWS_AS(run({recurrent}, one_step, flat), InvalidArgumentError);
  }
}

TEST_CASE("transposed convolutions take an output_shape, and volumes") {
  const Named row{{"x", tensor<float>({{{1, 2}}})}}, filter{{"w", tensor<float>({{{1, 10, 100}}})}};
  const auto transposed = [](const std::vector<Attribute>& more) {
    std::vector<Attribute> attributes{{"strides", List{2}}, {"output_shape", List{4}}};
    attributes.insert(attributes.end(), more.begin(), more.end());
    return node("ConvTranspose", {"x", "w"}, {"y"}, attributes);
  };
  CHECK(run({transposed({})}, row, filter) == Numbers{10, 102, 20, 200});
  CHECK(run({transposed({{"auto_pad", "SAME_UPPER"}})}, row, filter) == Numbers{1, 10, 102, 20});
  const Named volume{{"x", reshape(tensor<float>({1, 2}), {1, 1, 2, 1, 1})}};
  const Named deep{{"w", reshape(tensor<float>({1, 10, 100}), {1, 1, 3, 1, 1})}};
  const std::vector<std::string> apart{
      node("ConvTranspose", {"x", "w"}, {"y"},
           {{"strides", List{2, 1, 1}}, {"pads", List{1, 0, 0, 0, 0, 0}}, {"output_padding", List{1, 0, 0}}})};
  CHECK(run(apart, volume, deep) == Numbers{10, 102, 20, 200, 0});
  CHECK(slopes(apart, volume, deep)[0] == Numbers{2 * (100 + 100 * 102), 2 * (102 + 200 + 20000)});
}

TEST_CASE("images are read between their elements, with gradients") {
  const Tensor x = reshape(tensor<float>({1, 2, 3, 4}), {1, 1, 2, 2});
  const auto at = [](float column, float row) { return reshape(tensor<float>({column, row}), {1, 1, 1, 2}); };
  const auto sampled = [&](const std::vector<Attribute>& attributes, float column, float row) {
    return run({node("GridSample", {"x", "g"}, {"y"}, attributes)}, {{"x", x}, {"g", at(column, row)}})[0];
  };
  CHECK(sampled({}, 0, 0) == 2.5);
  CHECK(sampled({}, -1, -1) == 0.25);
  CHECK(sampled({{"align_corners", 1}}, -1, 1) == 3);
  CHECK(sampled({{"padding_mode", "border"}}, 1e30F, -1e30F) == 2);
  CHECK(sampled({{"padding_mode", "reflection"}}, 2.5F, -0.5F) == 1);
  CHECK(sampled({{"mode", "nearest"}}, 0.4F, 0.6F) == 4);
  CHECK(sampled({{"mode", "bicubic"}, {"padding_mode", "border"}}, 0, 0) == 2.5);
  const auto gradients = slopes({node("GridSample", {"x", "g"}, {"y"})}, {{"x", x}, {"g", at(0, 0)}});
  CHECK(gradients == std::vector<Numbers>{{1.25, 1.25, 1.25, 1.25}, {5, 10}});
  const Named pooled{{"x", reshape(tensor<float>({5, 6}), {1, 1, 1, 2})}, {"i", tensor<std::int64_t>({{{{5, 3}}}})}};
  CHECK(run({node("MaxUnpool", {"x", "i"}, {"y"}, {{"kernel_shape", List{2, 2}}, {"strides", List{2, 2}}})}, pooled) ==
        Numbers{0, 0, 0, 6, 0, 5, 0, 0});
}

TEST_CASE("the best boxes and different elements are found") {
  const Named boxes{{"b", tensor<float>({{{0, 0, 1, 1}, {1, 1.1F, 0, 0.1F}, {5, 5, 6, 6}, {0, 0, 1, 1}}})},
                    {"s", tensor<float>({{{0.5F, 0.9F, 0.7F, 0.9F}, {0.1F, 0.2F, 0.3F, 0.25F}}})}};
  const auto selected = [&](std::int64_t most, float score) {
    return run({node("NonMaxSuppression", {"b", "s", "most", "overlap", "score"}, {"y"})}, boxes,
               {{"most", tensor<std::int64_t>({most})},
                {"overlap", tensor<float>({0.5F})},
                {"score", tensor<float>({score})}});
  };
  CHECK(selected(9, 0) == Numbers{0, 0, 1, 0, 0, 2, 0, 1, 2, 0, 1, 3});
  CHECK(selected(1, 0.27F) == Numbers{0, 0, 1, 0, 1, 2});
  CHECK(selected(0, 0).empty());
  const Named none{{"b", zeros({1, 0, 4})}, {"s", zeros({1, 1, 0})}, {"most", tensor<std::int64_t>({3})}};
  CHECK(run({node("NonMaxSuppression", {"b", "s", "most"}, {"y"})}, none).empty());

  const Named list{{"x", tensor<std::int64_t>({2, 1, 1, 3, 4, 3})}};
  const auto different = [&](std::int64_t sorted, int output) {
    std::vector<std::string> names{"a", "b", "c", "d"};
    names[output] = "y";
    return run({node("Unique", {"x"}, names, {{"sorted", sorted}})}, list);
  };
  CHECK(different(1, 0) == Numbers{1, 2, 3, 4});
  CHECK(different(0, 0) == Numbers{2, 1, 3, 4});
  CHECK(different(1, 1) == Numbers{1, 0, 3, 4});
  CHECK(different(0, 2) == Numbers{0, 1, 1, 2, 3, 2});
  CHECK(different(0, 3) == Numbers{1, 2, 2, 1});
  const Named rows{{"x", tensor<float>({{1, 0, 0}, {1, 0, 0}, {-2, 3, 4}})}};
  CHECK(run({node("Unique", {"x"}, {"y"}, {{"axis", 0}})}, rows) == Numbers{-2, 3, 4, 1, 0, 0});
  CHECK(run({node("Unique", {"x"}, {"y"}, {{"axis", 1}, {"sorted", 0}})}, rows) == Numbers{1, 0, 0, 1, 0, 0, -2, 3, 4});
}

TEST_CASE("old casts name their type, and triangles of bools are cut") {
  const Named x{{"x", tensor<float>({-2.5F, 0, 3.75F})}};
  CHECK(run({node("Cast", {"x"}, {"i"}, {{"to", "INT64"}}), node("Cast", {"i"}, {"y"}, {{"to", "FLOAT"}})}, x, {}, 5) ==
        Numbers{-2, 0, 3});
  const Named ones{{"x", tensor<bool>({{true, true}, {true, true}})}};
  const auto triangle = [&](std::int64_t upper, std::int64_t k) {
    return run({node("Trilu", {"x", "k"}, {"b"}, {{"upper", upper}}), to_floats("b", "y")}, ones,
               {{"k", tensor<std::int64_t>(k)}});
  };
  CHECK(triangle(1, 1) == Numbers{0, 1, 0, 0});
  CHECK(triangle(0, 0) == Numbers{1, 0, 1, 1});
  CHECK(triangle(0, -1) == Numbers{0, 0, 1, 0});
}

TEST_CASE("numbers of 8 bits stand for real ones, and bits are combined") {
  const Named x{{"x", tensor<float>({{-300, 0.5F, 1.5F}, {3, 255, 1e9F}})}};
  const Named scale{{"s", tensor<float>({1, 2, 1})}, {"z", tensor<float>({0, 10, 3})}};
  const std::vector<std::string> there{to_bytes("z", "zero"), node("QuantizeLinear", {"x", "s", "zero"}, {"q"})};
  std::vector<std::string> bytes = there, back = there;
  bytes.push_back(to_floats("q", "y"));
  CHECK(run(bytes, x, scale) == Numbers{0, 10, 5, 3, 138, 255});
  back.push_back(node("DequantizeLinear", {"q", "s", "zero"}, {"y"}));
  CHECK(run(back, x, scale) == Numbers{0, 0, 2, 3, 256, 252});
  const Named range{{"x", tensor<float>({0, 2, -3, -2.5F, 1.34F, 0.5F})}};
  CHECK(run({node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"}), to_floats("q", "y")}, range) ==
        Numbers{153, 255, 0, 26, 221, 179});

  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const Named pair{{"a", tensor<std::int64_t>({-1, 12, least})}, {"b", tensor<std::int64_t>({5, 10, -1})}};
  const auto bits = [&](const char* op) {
    return result(model_of({node(op, {"a", "b"}, {"y"})}, pair), pair).to_vector<std::int64_t>();
  };
  CHECK(bits("BitwiseAnd") == List{5, 8, least});
  CHECK(bits("BitwiseOr") == List{-1, 14, -1});
  CHECK(bits("BitwiseXor") == List{-6, 6, -1 - least});
  CHECK(run({node("BitwiseNot", {"x"}, {"y"})}, {{"x", tensor<std::int64_t>({0, 5})}}) == Numbers{-1, -6});
  const Named shifted{{"f", tensor<float>({200, 200, 200})}, {"g", tensor<float>({1, 9, 0})}};
  CHECK(run({to_bytes("f", "a"), to_bytes("g", "b"), node("BitShift", {"a", "b"}, {"c"}, {{"direction", "LEFT"}}),
             to_floats("c", "y")},
            shifted) == Numbers{144, 0, 200});
  check_near(run({node("HannWindow", {"n"}, {"y"})}, {}, {{"n", tensor<std::int64_t>(4)}}), {0, 0.5, 1, 0.5});
  check_near(run({node("BlackmanWindow", {"n"}, {"y"}, {{"periodic", 0}})}, {}, {{"n", tensor<std::int64_t>(3)}}),
             {0, 1, 0});
}

TEST_CASE("attention sees what its masks leave") {
  const Tensor q = reshape(tensor<float>({1, 0, 0, 1}), {1, 1, 2, 2}), v = reshape(tensor<float>({2, 4}), {1, 1, 2, 1});
  const Named inputs{{"q", q}, {"k", q}, {"v", v}};
  const double a = 1 / (1 + std::exp(1 / std::sqrt(2.0))), b = 1 - a;
  const auto attention = [&](const std::vector<Attribute>& attributes, const Named& given,
                             const Named& constants = {}) {
    std::vector<std::string> names{"q", "k", "v"};
    if (!constants.empty()) names.emplace_back("m");
    return run({node("Attention", names, {"y"}, attributes)}, given, constants, 23);
  };
  check_near(attention({}, inputs), {2 * b + 4 * a, 2 * a + 4 * b});
  check_near(attention({{"is_causal", 1}}, inputs), {2, 2 * a + 4 * b});
  check_near(attention({}, inputs, {{"m", tensor<bool>({{false, false}, {false, true}})}}), {0, 4});
  check_near(attention({{"scale", 0.0F}}, inputs, {{"m", tensor<float>({{0, 0}, {0, -100}})}}), {3, 2});
  // Two heads of queries for one of keys.
  const Named flat{{"q", tensor<float>({{{1, 0, 0, 1}}})}, {"k", reshape(q, {1, 2, 2})}, {"v", reshape(v, {1, 2, 1})}};
  check_near(
      values(result(model_of({node("Attention", {"q", "k", "v"}, {"y"}, {{"q_num_heads", 2}, {"kv_num_heads", 1}})},
                             flat, {}, 23),
                    flat)),
      {2 * b + 4 * a, 2 * a + 4 * b});
  const Named turned{{"x", reshape(tensor<float>({1, 2, 3, 4, 9}), {1, 1, 1, 5})}, {"p", tensor<std::int64_t>({{1}})}};
  const Named angles{{"c", tensor<float>({{1, 1}, {0, 1}})}, {"s", tensor<float>({{0, 0}, {1, 0}})}};
  const auto rotated = [&](std::int64_t interleaved) {
    return values(result(model_of({node("RotaryEmbedding", {"x", "c", "s", "p"}, {"y"},
                                        {{"interleaved", interleaved}, {"rotary_embedding_dim", 4}})},
                                  turned, angles, 23),
                         turned));
  };
  CHECK(rotated(0) == Numbers{-3, 2, 1, 4, 9});
  CHECK(rotated(1) == Numbers{-2, 1, 3, 4, 9});
}

TEST_CASE("attributes that lie are errors of their node") {
  const Named plane{{"x", zeros({1, 1, 2, 2})}, {"g", zeros({1, 1, 1, 2})}};
  const Named list{{"x", zeros({2})}, {"g", zeros({2})}};
  const std::int64_t huge = std::int64_t{1} << 62;
  const auto refused = [](const std::string& text, const Named& inputs, const Named& constants = {}) {
    CHECK_THROWS_AS(result(model_of({text}, inputs, constants, 23), inputs), InvalidArgumentError);
  };
  const auto windows = [](const List& sizes) { return std::vector<Attribute>{{"kernel_shape", sizes}}; };
  refused(node("GridSample", {"x", "g"}, {"y"}, {{"mode", "octic"}}), plane);
  refused(node("GridSample", {"x", "x"}, {"y"}), list);
  refused(node("ScatterND", {"x", "i", "g"}, {"y"}, {{"reduction", "xor"}}), list,
          {{"i", tensor<std::int64_t>({{0}, {1}})}});
  refused(node("ScatterND", {"x", "i", "g"}, {"y"}), list, {{"i", tensor<std::int64_t>({{0}, {huge}})}});
  refused(node("ScatterND", {"x", "i", "g"}, {"y"}, {{"reduction", "max"}}), list,
          {{"i", tensor<std::int64_t>({{0}, {-3}})}});
  refused(node("ScatterND", {"x", "i", "g"}, {"y"}), list, {{"i", tensor<std::int64_t>(0)}});
  refused(node("ConvTranspose", {"x", "x"}, {"y"}, {{"output_shape", List{-huge * 2, 2}}}), plane);
  refused(node("MaxUnpool", {"x", "i"}, {"y"}, windows({huge, 1})), plane,
          {{"i", zeros({1, 1, 2, 2}, {.dtype = int64})}});
  refused(node("MaxUnpool", {"x", "i"}, {"y"}, windows({1, 1})), plane,
          {{"i", full({1, 1, 2, 2}, huge, {.dtype = int64})}});
  refused(node("HannWindow", {"n"}, {"y"}), {}, {{"n", tensor<std::int64_t>(-huge)}});
  refused(node("HannWindow", {"n"}, {"y"}), {}, {{"n", tensor<std::int64_t>(huge)}});
  refused(node("QuantizeLinear", {"x", "g"}, {"y"}, {{"block_size", huge}, {"axis", 0}}), list);
  refused(node("QuantizeLinear", {"x", "g"}, {"y"}, {{"axis", huge}}), list);
  refused(node("Attention", {"x", "x", "x"}, {"y"}, {{"qk_matmul_output_mode", huge}}), plane);
  refused(node("Attention", {"x", "x", "x"}, {"y"}, {{"q_num_heads", -huge * 2}, {"kv_num_heads", 0}}),
          {{"x", zeros({1, 2, 4})}});
  refused(node("RotaryEmbedding", {"x", "x", "x"}, {"y"}, {{"rotary_embedding_dim", -huge}}), plane);
  refused(node("NonMaxSuppression", {"x", "x"}, {"y"}), plane);
  refused(node("Unique", {"x"}, {"y"}, {{"axis", 7}}), plane);
}

TEST_CASE("nodes that wait for sizes, ranks or values are saved as TensorFlow's, which compute them") {
  const Tensor x = tensor<float>({{{1, -2, 5}, {3, -4, 0}}, {{7, 2, 2}, {-6, 9, 8}}}), whole = x.cast(int64);
  const auto list = [](const List& all) {
    return all.empty() ? zeros({0}, {.dtype = int64}) : Init(all).tensor(int64);
  };
  const auto scalar = [](std::int64_t number) { return tensor<std::int64_t>(number); };
  struct Row {
    std::string op;
    Named inputs;  ///< all of them are fed
    std::vector<Attribute> attributes = {};
    std::int64_t opset = 18, output = 0;
  };
  const std::vector<Row> rows{
      {"ArgMax", {{"x", x}}, {{"axis", -1}, {"keepdims", 0}}},
      {"ArgMin", {{"x", x}}, {{"axis", 1}}},
      {"Concat", {{"x", x}}, {{"axis", 1}}},
      {"Concat", {{"x", x}, {"y", -x}}, {{"axis", -1}}},
      {"ConstantOfShape", {{"s", list({2, 3})}}},
      {"CumSum", {{"x", x}, {"axis", scalar(-1)}}, {{"exclusive", 1}, {"reverse", 1}}},
      {"Expand", {{"x", x(all, all, range(0, 1))}, {"s", list({4, 1, 1, 5})}}},
      {"Expand", {{"x", x}, {"s", list({1})}}},
      {"Flatten", {{"x", x}}, {{"axis", 2}}},
      {"Flatten", {{"x", x}}, {{"axis", -2}}},
      {"Flatten", {{"x", x}}, {{"axis", 0}}},
      {"GatherElements", {{"x", x}, {"i", argsort(x, 1).cast(int64) - 2}}, {{"axis", 1}}},
      {"GatherElements", {{"x", x}, {"i", argsort(x, 0).cast(int64)}}},
      {"OneHot", {{"i", list({0, -1, 2, 7})}, {"depth", scalar(3)}, {"values", tensor<float>({-1, 5})}}},
      {"OneHot", {{"i", list({0, -1})}, {"depth", list({3})}, {"values", tensor<float>({0, 1})}}, {{"axis", 0}}},
      {"Pad", {{"x", x}, {"widths", list({0, 1, 2, 3, 0, 0})}, {"value", tensor<float>(4)}}},
      {"Pad", {{"x", x}, {"widths", list({0, 1, 2, 1, 0, 0})}}, {{"mode", "reflect"}}},
      {"Range", {{"a", scalar(3)}, {"b", scalar(11)}, {"c", scalar(2)}}},
      {"ReduceL1", {{"x", x}, {"axes", list({1})}}},
      {"ReduceL2", {{"x", x}, {"axes", list({1, -1})}}, {{"keepdims", 0}}},
      {"ReduceLogSum", {{"x", abs(x)}, {"axes", list({1})}}},
      {"ReduceLogSumExp", {{"x", x * 100}, {"axes", list({0, 2})}}, {{"keepdims", 0}}},
      {"ReduceMax", {{"x", x}, {"axes", list({-1})}}},
      {"ReduceMean", {{"x", x}}},
      {"ReduceMin", {{"x", x}}, {{"axes", List{1, 2}}}, 13},
      {"ReduceProd", {{"x", x}, {"axes", list({2})}}},
      {"ReduceSum", {{"x", x}, {"axes", list({})}}, {{"keepdims", 0}}},
      {"ReduceSum", {{"x", x}, {"axes", list({})}}, {{"noop_with_empty_axes", 1}}},
      {"ReduceSumSquare", {{"x", x}, {"axes", list({1})}}},
      {"Reshape", {{"x", x}, {"s", list({0, -1, 2})}}},
      {"Reshape", {{"x", x}, {"s", list({0, 0, 0, 1})}}},
      {"Reshape", {{"x", x(range(0, 0))}, {"s", list({0, 7})}}, {{"allowzero", 1}}},
      {"Slice", {{"x", x}, {"a", list({1, 0})}, {"b", list({2, 1})}}},
      {"Slice",
       {{"x", x}, {"a", list({-1, 0})}, {"b", list({-100, 100})}, {"axes", list({2, 1})}, {"steps", list({-2, 1})}}},
      {"Slice", {{"x", x}, {"a", list({1})}, {"b", list({100})}, {"axes", list({-1})}}},
      {"Split", {{"x", x}, {"sizes", list({1, 2})}}, {{"axis", 2}}, 18, 1},
      {"Squeeze", {{"x", x(all, range(0, 1))}}},
      {"Squeeze", {{"x", x(all, range(0, 1))}}, {{"axes", List{-2}}}, 11},
      {"Tile", {{"x", x}, {"n", list({2, 1, 3})}}},
      {"TopK", {{"x", x}, {"k", list({2})}}},
      {"TopK", {{"x", x}, {"k", list({1})}}, {{"axis", 1}, {"largest", 0}}, 18, 1},
      {"TopK", {{"x", whole}, {"k", list({2})}}, {{"axis", 0}, {"largest", 0}}},
      {"Transpose", {{"x", x}}},
      {"Transpose", {{"x", x}}, {{"perm", List{2, 0, 1}}}},
      {"Unsqueeze", {{"x", x}}, {{"axes", List{3, 0}}}, 11},
      {"Unsqueeze", {{"x", x}}, {{"axes", List{-1, -3}}}, 11},
  };
  const TemporaryFolder folder;
  std::vector<std::string> refused;
  for (const Row& row : rows)
    for (const bool has_rank : {true, false}) {
      CAPTURE(row.op);
      CAPTURE(has_rank);
      GraphParts parts{.nodes = {}, .inputs = {}, .outputs = {value_info("y0", float32, Shape::unknown_rank())}};
      std::vector<std::string> names, outputs;
      Named constants;
      for (const auto& [name, value] : row.inputs) {
        names.push_back(name);
        if (name == "axes" && value.size() > 0) {
          parts.initializers.push_back(initializer(name, value));
          continue;
        }
        const bool is_values = value.dtype() == int64 && value.rank() < 2 && name != "i";
        const Shape any(List(static_cast<std::size_t>(value.rank()), -1));
        parts.inputs.push_back(value_info(name, value.dtype(),
                                          is_values  ? value.shape()
                                          : has_rank ? any
                                                     : Shape::unknown_rank()));
      }
      for (std::int64_t i = 0; i <= row.output; ++i)
        outputs.push_back(detail::join(i == row.output ? "y" : "other", i == row.output ? 0 : i));
      parts.nodes = {node(row.op, names, outputs, row.attributes)};
      std::ofstream(folder / "model.onnx", std::ios::binary) << model_bytes(parts, row.opset);
      Feeds feeds;
      for (const auto& [name, value] : row.inputs)
        if (name != "axes" || value.size() == 0) feeds.add(name, value);
      const Model model = onnx::load(folder / "model.onnx");
      const Tensor expected = model(feeds)[0];
      try {
        saved_model::save(folder / "saved", model);
      } catch (const UnimplementedError&) {
        CHECK(!has_rank);
        refused.push_back(row.op);
        continue;
      }
      const Tensor found = saved_model::load(folder / "saved")(feeds)[0];
      CHECK(found.dtype() == expected.dtype());
      CHECK(found.shape() == expected.shape());
      CHECK(values(found) == values(expected));
    }
  // An axis that is not the last one, or is counted from the end.
  CHECK(refused == std::vector<std::string>{"GatherElements", "GatherElements", "Slice", "TopK", "TopK"});
}

}  // namespace tapestry::test::onnx_more_ops_test
