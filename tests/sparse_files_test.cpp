// Updates of rows in graphs and files.

#include <functional>
#include <memory>

#include "expect.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "sparse_cases.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/session.hpp"
#include "tapestry/sparse.hpp"
#include "tapestry/trace.hpp"

namespace sparse_files_test {

using namespace tapestry;
using namespace tapestry::test;
using namespace tapestry::train;

namespace {

/// A graph that trains a table of which rows are looked up twice.
struct Trained {
  Graph graph;
  Variable w{table(), {.name = "w"}};
  std::unique_ptr<Optimizer> optimizer;
  std::string step;

  explicit Trained(const Rule& rule) : optimizer(rule.make()) {
    const Graph::Scope scope = graph.as_default();
    const Tensor ids = placeholder(int32, {-1}, "ids"), more = placeholder(int64, {-1, 2}, "more");
    const Tensor loss = identity(loss_of(embedding_lookup(w, ids)) + loss_of(gather(w, more)), "loss");
    step = optimizer->minimize(loss, {w}).name();
  }
};

/// The losses of three steps.
std::vector<float> losses_of(const Graph& graph, const std::string& step) {
  const Session session(graph);
  std::vector<float> losses;
  for (int i = 0; i < 3; ++i) {
    const std::initializer_list<Feed> feeds{
        {graph.get_tensor_by_name("ids:0"), tensor({1, 3, 1})},
        {graph.get_tensor_by_name("more:0"), tensor<std::int64_t>({{0, 3}, {3, 1}})}};
    losses.push_back(session.run("loss:0", feeds).item<float>());
    session.run(graph.get_operation_by_name(step), feeds);
  }
  return losses;
}

TEST_CASE("updates of rows go through files, in both styles, and go on where they were") {
  for (const Rule& rule : rules()) {
    INFO(rule.name);
    random::seed(3);
    const Trained same(rule);
    random::seed(3);
    const Trained model(rule);
    const auto file = [&](const Graph& graph, VariableStyle style) { return graph.as_graph_def({.variables = style}); };
    const std::string resource = file(model.graph, VariableStyle::resource),
                      reference = file(model.graph, VariableStyle::reference);
    CHECK(resource.find("ResourceGather") != std::string::npos);
    const bool composed = rule.name.find("descent") != std::string::npos ||
                          rule.name.find("decay") != std::string::npos || rule.name.find("Adam") == 0;
    CHECK(resource.find(composed ? "ResourceScatterSub" : "ResourceSparseApply") != std::string::npos);
    CHECK(reference.find(composed ? "ScatterSub" : "SparseApply") != std::string::npos);
    const Graph from_resource = Graph::from_graph_def(resource), from_reference = Graph::from_graph_def(reference);
    const std::vector<float> expected = losses_of(same.graph, same.step);
    CHECK(losses_of(from_resource, same.step) == expected);
    CHECK(losses_of(from_reference, same.step) == expected);
    const std::vector<float> later = losses_of(same.graph, same.step);
    CHECK(expected[0] > expected[2]);
    for (const VariableStyle style : {VariableStyle::resource, VariableStyle::reference})
      CHECK(losses_of(Graph::from_graph_def(file(from_resource, style)), same.step) == later);
  }
}

TEST_CASE("a file without hints, as TensorFlow writes it, trains the same rows") {
  for (const Rule& rule : rules()) {
    if (rule.name != "momentum" && rule.name != "Nesterov" && rule.name != "RMSProp" && rule.name != "Adagrad")
      continue;
    for (const VariableStyle style : {VariableStyle::resource, VariableStyle::reference}) {
      INFO(rule.name);
      const Trained model(rule);
      io::GraphDef file = io::decode(model.graph.as_graph_def({.variables = style}));
      for (io::NodeDef& node : file.nodes)
        std::erase_if(node.attrs, [](const auto& attr) { return attr.first.starts_with("_tapestry"); });
      const Graph foreign = Graph::from_graph_def(io::encode(file));
      CHECK(foreign
                .get_operation_by_name(rule.make()->name() + "/update_w/" +
                                       (rule.name == "momentum"   ? "ResourceSparseApplyMomentum"
                                        : rule.name == "Nesterov" ? "ResourceSparseApplyNesterovMomentum"
                                        : rule.name == "RMSProp"  ? "ResourceSparseApplyRMSProp"
                                                                  : "ResourceSparseApplyAdagradV2"))
                .type()
                .starts_with("ResourceSparseApply"));
      const std::vector<float> found = losses_of(foreign, model.step), expected = losses_of(model.graph, model.step);
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(agree(found[i], expected[i], 1e-5));
    }
  }
}

TEST_CASE("damaged updates of rows are refused with the name of the node") {
  const auto check = [&](const Rule& rule, const std::string& update, const std::function<void(io::NodeDef&)>& damage) {
    io::GraphDef file = io::decode(Trained(rule).graph.as_graph_def());
    for (io::NodeDef& node : file.nodes)
      if (node.name == update) damage(node);
    CHECK(message_of<InvalidArgumentError>([&] { Graph::from_graph_def(io::encode(file)); }).find(update) !=
          std::string::npos);
  };
  const auto hints = [](io::NodeDef& node) -> std::vector<std::string>& {
    return std::get<io::ListDef>(node.attrs.at("_tapestry_inputs")).strings;
  };
  const std::string adagrad = "Adagrad/update_w/ResourceSparseApplyAdagradV2",
                    adam = "Adam/update_w/ResourceSparseApplyAdam";
  for (const auto& [rule, update] : {std::pair(rules().back(), adagrad), std::pair(rules()[4], adam)}) {
    check(rule, update, [&](io::NodeDef& node) { hints(node).pop_back(); });
    check(rule, update, [&](io::NodeDef& node) { hints(node)[node.name == adam ? 4 : 2] = "w"; });
    check(rule, update, [&](io::NodeDef& node) { node.inputs.pop_back(); });
    check(rule, update, [&](io::NodeDef& node) { node.inputs[0] = "ids"; });
  }
  check(rules().back(), adagrad, [&](io::NodeDef& node) { node.inputs[1] = "w"; });
  check(rules()[4], adam, [&](io::NodeDef& node) { hints(node).clear(); });
  check(rules()[4], adam, [&](io::NodeDef& node) { hints(node)[1] = "w"; });
  check(rules()[4], adam, [&](io::NodeDef& node) { hints(node)[3] = "ids"; });
}

TEST_CASE("a lookup that is written as ResourceGather comes before what changes the Variable") {
  Graph graph;
  std::string before, after;
  const Variable w(tensor({1.0, 2.0, 3.0}), {.name = "w"});
  const auto f = trace(
      [&](const Tensor& ids) {
        const Tensor old = w, first = gather(old, ids);
        w.assign_add({10.0, 10.0, 10.0});
        return std::vector<Tensor>{first, gather(old, ids), gather(w, ids)};
      },
      {spec(int32, {-1}, "ids")});
  const std::vector<Tensor> expected = f(tensor({0, 2}));
  w.assign({1.0, 2.0, 3.0});
  const Graph loaded = Graph::from_graph_def(f.graph().as_graph_def());
  std::vector<Fetch> fetches;
  for (std::size_t i = 0; i < 3; ++i) fetches.emplace_back(loaded.get_tensor_by_name(f.output(i).name()));
  const std::vector<Tensor> found =
      Session(loaded).run(fetches, {{loaded.get_tensor_by_name("ids:0"), tensor({0, 2})}});
  for (std::size_t i = 0; i < 3; ++i) check_same(found[i], expected[i]);
}

}  // namespace

}  // namespace sparse_files_test
