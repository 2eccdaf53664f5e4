// Gradients that a SavedModel has for functions of its own, as tf.custom_gradient writes them.

#include <fstream>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::saved_model_gradients_test {
namespace {

std::string golden(const std::string& name) { return std::string(GOLDEN_FILES) + "/" + name; }

/// What TensorFlow computes, by "signature/what".
std::map<std::string, Tensor> expected_values() {
  std::map<std::string, Tensor> known;
  for (const io::NodeDef& node : io::decode(read_text(golden("saved_model_gradients.expected.pb"))).nodes)
    known.emplace(node.name, std::get<io::TensorDef>(node.attrs.at("value")).value);
  return known;
}

Variable parameter(const Model& model, const std::string& name) {
  for (const Variable& each : model.graph().variables())
    if (each.name() == name) return each;
  throw NotFoundError(name);
}

/// Compares what the model computes with what TensorFlow does. `unwritten`: a gradient that files do not keep.
void check_model(const Model& model, const std::set<std::string>& unwritten = {}) {
  const std::map<std::string, Tensor> known = expected_values();
  const Tensor& x = known.at("x");
  CHECK(model.signatures().size() == 9);
  for (const auto& each : model.signatures()) {
    const std::string& name = each.first;
    INFO(name);
    const Model one = model.signature(name);
    const std::vector<Source> sources{x, parameter(model, "w"), parameter(model, "b")};
    GradientTape outer;
    outer.watch(x);
    std::vector<Tensor> gradients;
    {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = one({{"x", x}})[0];
      check_same(y, known.at(name + "/y"), 1e-6);
      gradients = tape.gradient(y, sources, {.unconnected = Unconnected::zero});
    }
    if (unwritten.contains(name)) continue;
    check_same(gradients[0], known.at(name + "/x"), 1e-5);
    check_same(gradients[1], known.at(name + "/w"), 1e-5);
    check_same(gradients[2], known.at(name + "/b"), 1e-5);
    const Tensor second = outer.gradient(reduce_sum(square(gradients[0])), x, {.unconnected = Unconnected::zero});
    check_same(second, known.at(name + "/second"), 1e-5);
    const auto scope = model.graph().as_default();
    const Signature& signature = one.signature();
    const Tensor in_graph = tapestry::gradients(signature.outputs.at("y"), signature.inputs.at("x")).at(0);
    CHECK(same_bits(Session(model.graph()).run(in_graph, {{signature.inputs.at("x"), x}}), gradients[0]));
  }
}

TEST_CASE("A model trains with the gradients that its file has for its functions") {
  check_model(saved_model::load(golden("saved_model_gradients")));
}

TEST_CASE("A model is written with the gradients of its functions, but for those in branches and loops") {
  const TemporaryFolder folder;
  saved_model::save((folder / "1").string(), saved_model::load(golden("saved_model_gradients")));
  const Model again = saved_model::load((folder / "1").string());
  check_model(again, {"branch", "loop", "map"});
  saved_model::save((folder / "2").string(), again);
  check_model(saved_model::load((folder / "2").string()), {"branch", "loop", "map"});
}

using Program = std::function<Tensor(const Tensor& x, const Variable& w, const Variable& scale)>;
CustomGradient clipped(const Tensor& a) {
  return {a * 2.0, [](const Tensor& g) -> Tensors { return {clip(g, -1.0, 1.0)}; }};
}

/// A model of the sum of the squares of what the program computes.
Model model_of(const Program& program, const Variable& w, const Variable& scale, std::int64_t batch) {
  const auto f =
      trace([&](const Tensor& x) { return reduce_sum(square(program(x, w, scale))); }, {spec(float32, {batch, 3})});
  Model::Parts parts{.graph = f.output().op().graph()};
  parts.signatures.emplace("serving_default", Signature{{{"x", f.input()}}, {{"y", f.output()}}});
  return Model(parts);
}

/// What trains with gradients of its own.
std::vector<std::pair<std::string, Program>> programs() {
  const auto constant = tensor<float>({1, 10, 100});
  return {
      {"other than the derivative",
       [](const Tensor& x, const Variable& w, const Variable&) { return custom_gradient(clipped)(x * w); }},
      {"twice",
       [](const Tensor& x, const Variable& w, const Variable&) {
         const auto f = custom_gradient(clipped);
         return f(f(x * w)) + f(x);
       }},
      {"of several arguments, one of which has none",
       [](const Tensor& x, const Variable& w, const Variable&) {
         return custom_gradient([](const Tensor& a, const Tensor& b, const Tensor& c) -> CustomGradient {
           return {a * b + c, [a, b](const Tensor& g) -> Tensors { return {g * b * 7.0, Tensor(), g * a}; }};
         })(x * w, w * x, x);
       }},
      {"of the value and of a Variable",
       [](const Tensor& x, const Variable& w, const Variable& scale) {
         return custom_gradient([&scale](const Tensor& a) -> CustomGradient {
           const Tensor s = scale.value(), y = exp(a * 0.1) * s;
           return {y, [s, y](const Tensor& g) -> Tensors { return {g * s + y}; }};
         })(x * w);
       }},
      {"of tensors around it",
       [constant](const Tensor& x, const Variable& w, const Variable&) {
         const Tensor t = tanh(x);
         return custom_gradient([t, constant](const Tensor& a) -> CustomGradient {
           return {a + t, [t, constant](const Tensor& g) -> Tensors { return {g * t * constant}; }};
         })(x * w);
       }},
      {"in the function of another one, and in its gradient",
       [](const Tensor& x, const Variable& w, const Variable&) {
         const auto f = custom_gradient(clipped);
         return custom_gradient([f](const Tensor& a) -> CustomGradient {
           return {f(a), [a, f](const Tensor& g) -> Tensors { return {f(g) * a}; }};
         })(x * w);
       }},
  };
}

TEST_CASE("A model is written with the gradients of a program's own") {
  const auto x = tensor<float>({{1, -2, 3}, {0, 5, 2}});
  const TemporaryFolder folder;
  for (const auto& each : programs())
    for (const std::int64_t batch : {2, -1}) {
      CAPTURE(each.first);
      CAPTURE(batch);
      const Variable w(tensor<float>({1, 2, 3}), {.name = "w"}), scale(tensor<float>(2.5F), {.name = "scale"});
      GradientTape own;
      own.watch(x);
      const Tensor value = reduce_sum(square(each.second(x, w, scale)));
      const std::vector<Tensor> expected = own.gradient(value, std::vector<Source>{x, w});
      Model model = model_of(each.second, w, scale, batch);
      for (const char* name : {"1", "2"}) {
        saved_model::save((folder / name).string(), model);
        model = saved_model::load((folder / name).string());
        GradientTape tape;
        tape.watch(x);
        const Tensor y = model({{"x", x}})[0];
        const std::vector<Tensor> found = tape.gradient(y, std::vector<Source>{x, parameter(model, "w")});
        check_same(y, value, 1e-6);
        check_same(found[0], expected[0], 1e-6);
        check_same(found[1], expected[1], 1e-6);
      }
    }
}

TEST_CASE("A gradient of a program's own that no function of a file can compute is refused") {
  const Variable w(tensor<float>({1, 2, 3}), {.name = "w"}), scale(tensor<float>(2.5F), {.name = "scale"});
  const auto message = [&](const std::function<Tensor(const Tensor&)>& gradient) {
    const TemporaryFolder folder;
    const Program program = [&](const Tensor& x, const Variable& v, const Variable&) {
      return custom_gradient([gradient](const Tensor& a) -> CustomGradient {
        return {a * 2.0, [gradient](const Tensor& g) -> Tensors { return {gradient(g)}; }};
      })(x * v);
    };
    const Model model = model_of(program, w, scale, 2);
    saved_model::save((folder / "frozen").string(), model.signature());
    return message_of<UnimplementedError>([&] { saved_model::save((folder / "model").string(), model); });
  };
  const std::string start = "The gradient of the program's own cannot be written for node 'CustomGradient': ",
                    end = ". A model that is saved by its Signature, which is not trained, needs none";
  CHECK(message([&](const Tensor& g) { return g * scale; }) ==
        start + "it uses the Variable 'scale', which the function does not read" + end);
  CHECK(message([&](const Tensor& g) {
          return g * random::uniform({});
        }).starts_with(start + "custom_gradient: a function that draws random numbers cannot run again"));
}

TEST_CASE("A gradient of a file that takes what is not there is refused where it is asked for") {
  const TemporaryFolder folder;
  std::filesystem::copy(golden("saved_model_gradients"), folder / "1", std::filesystem::copy_options::recursive);
  std::string bytes = read_text(folder / "1/saved_model.pb");
  for (std::size_t at = 0; (at = bytes.find("mul:0", at)) != std::string::npos; ++at) bytes.replace(at, 3, "mux");
  std::ofstream(folder / "1/saved_model.pb", std::ios::binary) << bytes;
  const std::map<std::string, Tensor> known = expected_values();
  const Tensor& x = known.at("x");
  const Model model = saved_model::load((folder / "1").string());
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor reversed = model.signature("reverse")({{"x", x}})[0], sign = model.signature("sign")({{"x", x}})[0];
  check_same(tape.gradient(reversed, x), known.at("reverse/x"), 1e-5);
  check_same(sign, known.at("sign/y"), 1e-6);
  CHECK_THROWS_WITH_AS(tape.gradient(sign, x), doctest::Contains("takes a tensor or a Variable that is not in the"),
                       UnimplementedError);
}

}  // namespace
}  // namespace tapestry::test::saved_model_gradients_test
