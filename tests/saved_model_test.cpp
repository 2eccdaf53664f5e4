// TensorFlow's SavedModel: the graph, frozen, and the signature. TensorFlow itself judges it in tests/interop.

#include <fstream>

#include <doctest/doctest.h>

#include "io/tensorflow/graph_def.hpp"
#include "io/wire.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::saved_model_test {
namespace {

using io::WireReader;

/// The bytes of a field of a message, which must be there once.
std::string field(std::string_view message, protozero::pbf_tag_type tag) {
  WireReader reader(message.data(), message.size());
  std::optional<std::string> found;
  while (reader.next()) {
    if (reader.tag() != tag) {
      reader.skip();
      continue;
    }
    CHECK_FALSE(found);
    const auto view = reader.get_view();
    found.emplace(view.data(), view.size());
  }
  REQUIRE(found);
  return *found;
}

/// A map from strings to messages.
std::map<std::string, std::string> entries(std::string_view message, protozero::pbf_tag_type tag) {
  std::map<std::string, std::string> found;
  WireReader reader(message.data(), message.size());
  while (reader.next()) {
    if (reader.tag() != tag) {
      reader.skip();
      continue;
    }
    const auto view = reader.get_view();
    const std::string entry(view.data(), view.size());
    found.emplace(field(entry, 1), field(entry, 2));
  }
  return found;
}

struct Model {
  Graph graph{};
  Graph::Scope scope{graph};
  Tensor x = placeholder(float32, {-1, 2}, "x"), labels = placeholder(int64, {-1}, "labels");
  Variable w{tensor<float>({{1, 2, 3}, {4, 5, 6}}), {.name = "w"}};
  Tensor hidden = tanh(matmul(x, w), "hidden"), scores = softmax(hidden, -1, "scores");
  Tensor loss = reduce_mean(sparse_softmax_cross_entropy(labels, scores), {}, {}, "loss");
  Operation train_op = train::GradientDescentOptimizer(0.1).minimize(loss);
};

}  // namespace

TEST_CASE("the outputs, what they need, and the signature") {
  const TemporaryFolder folder;
  const Model model;
  const std::filesystem::path place = folder / "models" / "1";
  saved_model::save(place.string(), {.inputs = {{"points", model.x}}, .outputs = {{"scores", model.scores}}});
  const std::string file = read_text(place / "saved_model.pb"), meta_graph = field(file, 2);
  CHECK(field(field(meta_graph, 1), 4) == "serve");
  const std::map<std::string, std::string> signatures = entries(meta_graph, 5);
  REQUIRE(signatures.size() == 1);
  const std::string& signature = signatures.at("serving_default");
  CHECK(field(signature, 3) == "tensorflow/serving/predict");
  CHECK(field(entries(signature, 1).at("points"), 1) == "x:0");
  CHECK(field(entries(signature, 2).at("scores"), 1) == "scores:0");

  const Graph loaded = Graph::from_graph_def(field(meta_graph, 2));
  for (const char* name : {"labels", "loss", "GradientDescent"}) CHECK_FALSE(loaded.has_operation(name));
  const Tensor points = tensor<float>({{0.5, -1}, {0, 0.25}, {2, 1}});
  const Tensor expected = Session(model.graph).run(model.scores, {{model.x, points}});
  CHECK(Session(loaded).run("scores:0", {{"x:0", points}}).to_vector<float>() == expected.to_vector<float>());
}

TEST_CASE("an input may be any tensor, and two models may share a folder's name") {
  const TemporaryFolder folder;
  const Model model;
  const std::string place = (folder / "model").string();
  saved_model::save(place, {.inputs = {{"x", model.x}}, .outputs = {{"x", model.hidden}}});
  saved_model::save(place, {.inputs = {{"x", model.hidden}}, .outputs = {{"x", model.scores}}});
  const Graph loaded = Graph::from_graph_def(field(field(read_text(folder / "model" / "saved_model.pb"), 2), 2));
  CHECK(Session(loaded).run("scores:0", {{"hidden:0", {{0, 0, 0}}}}).to_vector<float>() ==
        std::vector{1.0F / 3, 1.0F / 3, 1.0F / 3});
}

TEST_CASE("a traced function") {
  const TemporaryFolder folder;
  Variable w(tensor<float>({2, 3}), {.name = "w"});
  const auto predict = trace([&](const Tensor& x) { return x * w; }, {spec(float32, {-1, 2}, "x")});
  saved_model::save((folder / "traced").string(),
                    {.inputs = {{"in", predict.input()}}, .outputs = {{"out", predict.output()}}});
  const std::string meta_graph = field(read_text(folder / "traced" / "saved_model.pb"), 2);
  const Tensor y = Session(Graph::from_graph_def(field(meta_graph, 2)))
                       .run(predict.output().name(), {{predict.input().name(), {{1, 10}}}});
  CHECK(y.to_vector<int>() == std::vector{2, 30});
}

TEST_CASE("what is no signature") {
  const TemporaryFolder folder;
  const Model model;
  const std::string place = (folder / "model").string();
  const auto refuse = [&](const std::string& text, const Signature& signature) {
    const auto error = caught<InvalidArgumentError>([&] { saved_model::save(place, signature); });
    CHECK(error.message() == text);
    CHECK_FALSE(std::filesystem::exists(place));
  };
  refuse("A signature needs an output", {.inputs = {{"x", model.x}}});
  refuse("'y' of the signature is not a tensor of a graph", {.outputs = {{"y", Tensor()}}});
  refuse("The outputs depend on the placeholder 'x', which is no input of the signature",
         {.outputs = {{"y", model.scores}}});
  Variable count(tensor(1.0F), {.name = "count"});
  const auto counting = trace(
      [&](const Tensor& x) {
        count.assign_add(1);
        return x * count;
      },
      {spec(float32, {}, "x")});
  const auto error = caught<UnimplementedError>([&] {
    saved_model::save(place, {.inputs = {{"x", counting.input()}}, .outputs = {{"y", counting.output()}}});
  });
  CHECK(error.message() ==
        "'y' of the signature comes after a change of a Variable, which a model with fixed values "
        "cannot make");
  Graph other;
  const auto scope = other.as_default();
  const Tensor foreign = placeholder(float32, {}, "z");
  refuse("'z' of the signature is of another graph than 'y'",
         {.inputs = {{"z", foreign}}, .outputs = {{"y", model.scores}}});

  std::ofstream(folder / "file") << "text";
  CHECK_THROWS_AS(
      saved_model::save((folder / "file").string(), {.inputs = {{"x", model.x}}, .outputs = {{"y", model.scores}}}),
      NotFoundError);
  CHECK(read_text(folder / "file") == "text");
}

}  // namespace tapestry::test::saved_model_test
