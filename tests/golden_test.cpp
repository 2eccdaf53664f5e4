// The files in golden/: what TensorFlow has written is read, and gives TensorFlow's numbers; what TensorFlow has
// accepted of ours is still what we write. tools/interop --golden makes them anew.

#include "interop/golden.hpp"

#include <cstring>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/crc32c.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::golden_test {
namespace {

const std::filesystem::path folder = GOLDEN_FILES;

/// The constants of a file.
std::map<std::string, Tensor> constants_of(const std::string& name) {
  std::map<std::string, Tensor> constants;
  for (const io::NodeDef& node : io::decode(read_text(folder / name)).nodes)
    constants.emplace(node.name, std::get<io::TensorDef>(node.attrs.at("value")).value);
  return constants;
}

/// The data of the records of an event file, whose checksums must be right.
std::vector<std::string> records_of(const std::filesystem::path& path) {
  const std::string file = read_text(path);
  const auto masked_at = [&](std::size_t at) {
    std::uint32_t number = 0;
    std::memcpy(&number, file.data() + at, sizeof number);
    return number;
  };
  std::vector<std::string> records;
  for (std::size_t at = 0; at < file.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data() + at, sizeof length);
    REQUIRE(at + length + 16 <= file.size());
    CHECK(masked_at(at + 8) == io::masked(io::crc32c(file.substr(at, 8))));
    records.push_back(file.substr(at + 12, length));
    CHECK(masked_at(at + 12 + length) == io::masked(io::crc32c(records.back())));
    at += length + 16;
  }
  return records;
}

}  // namespace

TEST_CASE("networks that TensorFlow has written train as they do there") {
  for (const char* name : {"tensorflow1", "tensorflow2"}) {
    CAPTURE(name);
    const auto known = constants_of(std::string(name) + ".expected.pb");
    const Feeds feeds{{"x:0", known.at("x")}, {"labels:0", known.at("labels")}};
    const Graph graph = Graph::load((folder / (std::string(name) + ".pb")).string());
    Session session(graph);
    session.run("init");
    for (const char* loss : {"loss_0", "loss_1", "loss_2"}) {
      check_same(session.run("loss:0", feeds), known.at(loss), 1e-6);
      session.run("train", feeds);
    }
    check_same(session.run("loss:0", feeds), known.at("loss_end"), 1e-6);
    for (const Variable& each : graph.variables())
      if (each.name() == "count") CHECK(each.value().item<int>() == 3);
  }
}

TEST_CASE("each optimizer of TensorFlow trains as it does there, and so it does written again") {
  for (const std::string name : {"training1", "training2"}) {
    const Graph read = Graph::load((folder / (name + ".pb")).string());
    const auto style = name == "training1" ? VariableStyle::reference : VariableStyle::resource;
    const auto known = constants_of(name + ".expected.pb");
    for (const Graph& graph : {Graph::from_graph_def(read.as_graph_def({.variables = style})), read}) {
      const Session session(graph);
      session.run("init");
      for (int step = 0; step < 5; ++step) {
        int losses = 0;
        for (const auto& entry : known) {
          const std::string& key = entry.first;
          const std::size_t slash = key.find('/');
          if (slash == std::string::npos || key.substr(slash + 1) != std::to_string(step)) continue;
          CAPTURE(key);
          const Feeds feeds{{"x:0", known.at("x")}, {"ids:0", known.at("ids")}};
          check_same(session.run(key.substr(0, slash) + "/loss:0", feeds), entry.second, 1e-5);
          ++losses;
        }
        CHECK(losses == (name == "training1" ? 5 : 11));
        session.run("train", {{"x:0", known.at("x")}, {"ids:0", known.at("ids")}});
      }
    }
  }
}

TEST_CASE("a learning rate that is fed") {
  const Graph graph = Graph::load((folder / "tensorflow1.pb").string());
  std::string rate;
  for (const io::NodeDef& each : io::decode(read_text(folder / "tensorflow1.pb")).nodes)
    if (each.name.ends_with("learning_rate")) rate = each.name + ":0";
  const auto known = constants_of("tensorflow1.expected.pb");
  const Feeds feeds{{"x:0", known.at("x")}, {"labels:0", known.at("labels")}};
  const Session session(graph);
  session.run("init");
  Feeds with_rate = feeds;
  with_rate.add(rate, 0.0F);
  session.run("train", with_rate);
  check_same(session.run("loss:0", feeds), known.at("loss_0"), 1e-6);
  session.run("train", feeds);
  CHECK(session.run("loss:0", feeds).item<float>() < known.at("loss_0").item<float>());
}

TEST_CASE("TensorFlow's text form gives TensorFlow's numbers") {
  const auto known = constants_of("tensorflow_text.expected.pb");
  Session session(Graph::load((folder / "tensorflow_text.pbtxt").string()));
  const Feeds feeds{{"x:0", known.at("x")}};
  check_same(session.run("y:0", feeds), known.at("y"), 1e-15);
  check_same(session.run("shape:0", feeds), known.at("shape"));
}

TEST_CASE("frozen networks whose shapes are computed give TensorFlow's numbers at two sizes") {
  for (const std::string name : {"cnn", "attention", "keras_attention", "parts", "gradients"}) {
    CAPTURE(name);
    const std::string path = (folder / ("foreign_" + name)).string();
    const auto known = constants_of("foreign_" + name + ".expected.pb");
    const Graph graph = Graph::load(path + ".pb");
    const Graph again = Graph::from_graph_def(graph.as_graph_def());
    CHECK(again.as_graph_def() == graph.as_graph_def());
    const Session session(graph), plain(graph, {.optimize = false}), session_again(again);
    for (const std::string run : {"run0/", "run1/"}) {
      CAPTURE(run);
      Feeds feeds;
      for (const Tensor& input : graph.placeholders()) feeds.add(input.name(), known.at(run + input.op().name()));
      int compared = 0;
      for (const auto& each : known) {
        const std::string& key = each.first;
        if (!key.starts_with(run + "Identity")) continue;
        CAPTURE(key);
        const std::string fetch = key.substr(run.size()) + ":0";
        const Tensor result = session.run(fetch, feeds);
        check_same(result, each.second, 2e-5);
        check_same(plain.run(fetch, feeds), result);
        check_same(session_again.run(fetch, feeds), result);
        ++compared;
      }
      CHECK(compared > 0);
      const Tensor first = graph.get_tensor_by_name(name == "gradients" ? "Identity_3:0" : "Identity:0");
      for (const Tensor& input : graph.placeholders()) {
        const auto expected = known.find(run + "gradient/" + input.op().name());
        if (expected == known.end()) continue;
        const Tensor gradient = gradients(reduce_sum(square(first)), input, {.unconnected = Unconnected::zero})[0];
        check_same(session.run(gradient, feeds), expected->second, 2e-5);
      }
    }
  }
}

TEST_CASE("graphs are written as TensorFlow has accepted them") {
  for (const auto& file : golden_files()) {
    CAPTURE(file.first);
    CHECK(io::to_text(file.second) == io::to_text(read_text(folder / file.first)));
  }
}

TEST_CASE("event files have TensorFlow's records") {
  const TemporaryFolder own;
  summary::FileWriter writer(own.path().string());
  writer.add_scalar("loss", 0.25, 7);
  writer.close();
  const std::vector<std::string> ours = records_of(writer.path()), theirs = records_of(folder / "tensorflow.tfevents");
  REQUIRE(ours.size() == theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    // All but the time, a tag and eight bytes.
    CHECK(ours[i].substr(0, 1) == theirs[i].substr(0, 1));
    CHECK(ours[i].substr(9) == theirs[i].substr(9));
  }
}

}  // namespace tapestry::test::golden_test
