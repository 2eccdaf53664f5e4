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
