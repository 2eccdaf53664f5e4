// Where a module stands: the paths of layers in errors, and those of parameters in graphs, files and optimizers.

#include <algorithm>
#include <thread>

#include "expect.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace nn_names_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The message of the error that f throws.
template <class F>
std::string said_by(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    CHECK(bool{error.where()});
    return error.what();
  }
  return "no error";
}

bool starts_with(const std::string& text, const std::string& beginning) {
  CHECK_MESSAGE(text.starts_with(beginning), text << " does not start with " << beginning);
  return text.starts_with(beginning);
}

struct Two : nn::Module {
  nn::Dense a{4, 8}, b{8, 9};
  TAPESTRY_FIELDS(a, b)
  Tensor operator()(const Tensor& x) const { return b(a(x)); }
};

/// Fills its list in the constructor, behind the line that names it.
struct Deep : nn::Module {
  std::vector<nn::Dense> layers;
  std::optional<nn::Parameter> scale;
  TAPESTRY_FIELDS(layers, scale)
  explicit Deep(const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) layers.emplace_back(sizes[i], sizes[i + 1]);
    scale.emplace(ones({sizes.back()}));
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (const nn::Dense& layer : layers) y = relu(layer(y));
    return y * *scale;
  }
};

/// Everything in everything; `head` does not fit what is in front of it.
struct Net : nn::Module {
  nn::Sequential body{nn::Flatten(), Two(), nn::ReLU()};
  Deep deep{{9, 5, 3}};
  nn::Dense head{7, 2};
  TAPESTRY_FIELDS(body, deep, head)
  Tensor operator()(const Tensor& x) const { return head(deep(body(x))); }
};

/// A layer of a user's own, of which nothing has a size.
struct Broken : nn::Layer {
  TAPESTRY_FIELDS()
  Tensor forward(const Tensor& x) const override { return x + zeros({17}); }
};

}  // namespace

TEST_CASE("errors in modules: the path, the kind with its sizes, and the shape") {
  const nn::Sequential net{nn::Dense(3, 4), Two(), nn::Dense(9, 1)};
  const std::string text = said_by([&] { net(zeros({2, 5})); });
  starts_with(text, "0: Dense(3, 4) got [2,5]: ");
  CHECK(text.find("[Op:MatMul] at nn_names_test.cpp:") != std::string::npos);

  nn::Sequential wrong{nn::Dense(3, 5), Two()};
  starts_with(said_by([&] { wrong(zeros({2, 3})); }), "1.a: Dense(4, 8) got [2,5]: ");
  starts_with(said_by([&] { Net()(zeros({2, 2, 2})); }), "head: Dense(7, 2) got [2,3]: ");
  starts_with(said_by([&] { Net()(zeros({2, 3})); }), "body.1.a: Dense(4, 8) got [2,3]: ");
  starts_with(said_by([&] { Deep({4, 5, 6})(zeros({2, 3})); }), "layers.0: Dense(4, 5) got [2,3]: ");
  starts_with(said_by([&] { nn::Dense(8, 9)(zeros({2, 5})); }), "Dense(8, 9) got [2,5]: ");
  starts_with(said_by([&] { nn::Sequential{Broken()}(zeros({2, 5})); }), "0: Broken got [2,5]: ");
}

TEST_CASE("errors in modules: of copies, of what has been moved, of what came later") {
  Net first;
  const Net second = first;
  starts_with(said_by([&] { second(zeros({2, 3})); }), "body.1.a: Dense(4, 8) got [2,3]: ");
  const nn::Dense alone = second.head;
  starts_with(said_by([&] { alone(zeros({2, 3})); }), "Dense(7, 2) got [2,3]: ");
  const Net third = std::move(first);
  starts_with(said_by([&] { third(zeros({2, 3})); }), "body.1.a: Dense(4, 8) got [2,3]: ");

  Deep deep({4, 5});
  starts_with(said_by([&] { deep(zeros({2, 3})); }), "layers.0: Dense(4, 5) got [2,3]: ");
  for (int i = 0; i < 20; ++i) deep.layers.emplace_back(5, 5);
  deep.layers.emplace_back(6, 5);
  starts_with(said_by([&] { deep(zeros({2, 4})); }), "layers.21: Dense(6, 5) got [2,5]: ");
  nn::Sequential growing;
  growing.add(nn::Dense(2, 3)).add(nn::Dense(4, 5));
  starts_with(said_by([&] { growing(zeros({1, 2})); }), "1: Dense(4, 5) got [1,3]: ");
}

TEST_CASE("errors in modules: each kind of layer, and only the innermost") {
  starts_with(said_by([] { nn::Conv2D(3, 8, {3, 5})(zeros({1, 9, 9, 4})); }), "Conv2D(3, 8, {3, 5}) got [1,9,9,4]: ");
  starts_with(said_by([] { nn::BatchNorm(4)(zeros({2, 5})); }), "BatchNorm(4) got [2,5]: ");
  starts_with(said_by([] { nn::LayerNorm(4)(zeros({2, 5})); }), "LayerNorm(4) got [2,5]: ");
  starts_with(said_by([] { nn::Embedding(4, 2)(tensor({1, 7})); }), "Embedding(4, 2) got [2]: ");
  starts_with(said_by([] { nn::LSTM(4, 2)(zeros({1, 2, 5})); }), "LSTM(4, 2) got [1,2,5]: ");
  starts_with(said_by([] { nn::MultiHeadAttention(4, 2)(zeros({1, 2, 5})); }), "MultiHeadAttention(4, 2) got [1,2,5]");
  const std::string text = said_by([] { nn::TransformerBlock(4, 2, 8)(zeros({1, 2, 5})); });
  starts_with(text, "self_attn: MultiHeadAttention(4, 2) got [1,2,5]");
  CHECK(text.find(" got ") == text.rfind(" got "));
}

TEST_CASE("errors in modules: in a trace, too") {
  const Net net;
  const auto run = [&] { trace([&](Tensor x) { return net(x); }, {spec(float32, {-1, 3})}); };
  starts_with(said_by(run), "body.1.a: Dense(4, 8) got [?,3]: ");

  // What only the run knows is wrong in a node, whose name has the path.
  const nn::Sequential unknown{nn::ReLU(), Two()};
  const auto traced = trace([&](Tensor x) { return unknown(x); }, {spec(float32, {-1, -1})});
  CHECK(said_by([&] { traced(zeros({2, 5})); }).find("'Sequential/1/a/MatMul'") != std::string::npos);
}

TEST_CASE("errors in modules keep their class, op and place") {
  const nn::Sequential net{nn::Dense(3, 4)};
  for (int turn = 0; turn < 2; ++turn) {
    CHECK_THROWS_AS(net(zeros({2, 5})), InvalidArgumentError);
    try {
      net(zeros({2, 5}));
    } catch (const InvalidArgumentError& error) {
      CHECK(error.op() == "MatMul");
      CHECK(error.code() == Code::invalid_argument);
    }
  }
}

TEST_CASE("errors in modules: another thread than the one that made them") {
  Net net;
  net.eval();
  std::string text;
  std::thread([&] { text = said_by([&] { net(zeros({2, 3})); }); }).join();
  starts_with(text, "body.1.a: Dense(4, 8) got [2,3]: ");
}

TEST_CASE("parameters are called by their paths, and their nodes lie in the scopes of their layers") {
  Net net;
  for (const auto& [name, parameter] : net.named_parameters()) CHECK(parameter.name() == name);
  CHECK(said_by([&] { net.head.weight.assign(zeros({3})); }).find("'head.weight'") != std::string::npos);
  const nn::Dense alone = net.head;
  CHECK(alone.weight.name() == "weight");
  CHECK(net.head.weight.name() == "head.weight");

  const Two two;
  const Deep deep({9, 5, 3});
  const auto names_in = [](const Graph& graph) {
    std::vector<std::string> names;
    for (const Variable& variable : graph.variables()) names.push_back(variable.name());
    std::sort(names.begin(), names.end());
    return names;
  };
  const std::vector<std::string> expected = {"a.bias",        "a.weight",        "b.bias",
                                             "b.weight",      "layers.0.bias",   "layers.0.weight",
                                             "layers.1.bias", "layers.1.weight", "scale"};
  const auto traced = trace([&](Tensor x) { return deep(two(x)); }, {spec(float32, {-1, 4})});
  CHECK(names_in(traced.graph()) == expected);
  for (std::string name : expected) {
    std::replace(name.begin(), name.end(), '.', '/');
    CHECK_MESSAGE(traced.graph().has_operation(name), name);
  }

  const Graph graph;
  {
    const Graph::Scope scope(graph);
    const Two by_hand;
    by_hand(placeholder(float32, {-1, 4}));
    for (const char* name : {"a/weight", "a/MatMul", "b/weight"}) CHECK_MESSAGE(graph.has_operation(name), name);
  }
}

TEST_CASE("however a step is made, Variables are in the scopes of their layers") {
  const nn::Sequential net{nn::Dense(4, 3), nn::BatchNorm(3)};
  const std::vector<Variable> trained = net.parameters();
  train::AdamOptimizer opt(0.1), grouped(0.1);
  train::ParameterGroups groups{{&grouped, trained}};
  train::GradientAccumulation accumulation(2);
  train::LossScale scale;
  using Loss = std::function<Tensor()>;
  const std::vector<std::pair<std::string, std::function<Tensor(const Loss&)>>> steps{
      {"minimize", [&](const Loss& loss) { return opt.minimize(loss); }},
      {"minimize with a list", [&](const Loss& loss) { return opt.minimize(loss, trained); }},
      {"groups", [&](const Loss& loss) { return groups.minimize(loss); }},
      {"accumulation", [&](const Loss& loss) { return accumulation.minimize(opt, loss, trained); }},
      {"loss scale", [&](const Loss& loss) { return scale.minimize(opt, loss, trained); }},
      {"watched",
       [&](const Loss& loss) {
         GradientTape tape({.watch_accessed_variables = false});
         tape.watch(trained);
         const Tensor value = loss();
         opt.apply_gradients(tape.gradient(value, trained), trained);
         return value;
       }},
      {"applied",
       [&](const Loss& loss) {
         GradientTape tape;
         const Tensor value = loss();
         opt.apply_gradients(tape.gradient(value, trained), trained);
         return value;
       }},
  };
  for (const auto& named : steps) {
    const auto& step = named.second;
    CAPTURE(named.first);
    const auto traced =
        trace([&, &make = step](const Tensor& x) { return make([&] { return reduce_sum(square(net(x))); }); },
              {spec(float32, {5, 4})});
    for (const Variable& each : trained) {
      std::string node = "Sequential/" + each.name();
      std::replace(node.begin(), node.end(), '.', '/');
      CHECK_MESSAGE(traced.graph().has_operation(node), node);
    }
    for (const Operation& each : traced.graph().operations())
      CHECK_MESSAGE((!each.name().starts_with("0/") && !each.name().starts_with("1/")), each.name());
  }
}

TEST_CASE("a tape in a graph watches a Variable that was read before, is read later, or is never read") {
  const Variable early(2.0, {.name = "early"}), late(3.0, {.name = "late"}), never(4.0, {.name = "never"});
  const auto f = trace(
      [&](const Tensor& x) {
        const Tensor read = early.value();
        GradientTape tape({.watch_accessed_variables = false});
        for (const Variable& each : {early, late, never}) tape.watch(each);
        const Tensor y = x * read * late.value() * late.value();
        const auto found = tape.gradient(y, {early, late, never});
        CHECK(!found[2]);
        return std::pair{found[0], found[1]};
      },
      {spec(float32, {})});
  const auto [of_early, of_late] = f(5.0);
  CHECK(of_early.item<float>() == 45.0F);
  CHECK(of_late.item<float>() == 60.0F);
  CHECK(!f.graph().has_operation("never"));
}

TEST_CASE("the graph of a training: Variables and slots are in the scopes of their layers") {
  const auto model = [] { return nn::Sequential{nn::Dense(4, 4), Two(), nn::BatchNorm(9)}; };
  const nn::Sequential net = model(), other = model(), unused = model();
  const Net deeper;
  const nn::Dense alone(3, 2);
  train::AdamOptimizer opt(0.1);
  train::ExponentialMovingAverage averages(0.9, alone.parameters());
  const auto traced = trace(
      [&](Tensor x) {
        const Tensor tied = matmul(x, unused.parameters()[0]);
        Tensor y;
        {
          const auto scope = name_scope("model");
          y = net(x);
        }
        GradientTape tape;
        const Tensor parts = alone(deeper.deep(deeper.body(x)));
        Tensor loss = reduce_sum(square(y + other(x) + other(tied))) + reduce_sum(square(parts));
        std::vector<Variable> trained = alone.parameters();
        for (const Variable& each : other.parameters()) trained.push_back(each);
        opt.apply_gradients(tape.gradient(loss, trained), trained);
        averages.update();
        return loss;
      },
      {spec(float32, {-1, 4})});
  const Graph& graph = traced.graph();
  for (const char* name : {"model/Sequential/0/weight",
                           "model/Sequential/0/MatMul",
                           "model/Sequential/0/weight/read",
                           "model/Sequential/1/a/weight",
                           "model/Sequential/1/a/MatMul",
                           "model/Sequential/2/running_mean",
                           "Sequential/0/weight",
                           "Sequential/0/MatMul",
                           "Sequential/0/weight/Adam",
                           "Sequential/0/weight/Adam_1",
                           "Sequential/1/b/bias/Adam",
                           "Adam/update_Sequential/1/b/bias/ResourceApplyAdam",
                           "0/weight",  // read outside its layer
                           "body/1/a/weight",
                           "body/1/a/MatMul",
                           "deep/layers/0/weight",
                           "deep/layers/0/MatMul",
                           "deep/scale",
                           "Dense/weight",
                           "Dense/bias/Adam",
                           "Dense/weight/average"})
    CHECK_MESSAGE(graph.has_operation(name), name);
  // A second call uses the same Variables.
  CHECK(graph.has_operation("Sequential_1/0/MatMul"));
  CHECK_FALSE(graph.has_operation("Sequential_1/0/weight"));
  for (const Operation& each : graph.operations()) CHECK(each.name().find('.') == std::string::npos);
  CHECK(other.parameters()[0].name() == "0.weight");
}

TEST_CASE("slots belong to names: layers that change places keep theirs") {
  struct Pair : nn::Module {
    nn::Dense a{2, 2}, b{2, 2};
    bool a_first = true;
    TAPESTRY_FIELDS(a, b)
    Tensor operator()(const Tensor& x) const { return a_first ? b(a(x)) : a(b(x)); }
  };
  const auto step = [](train::Optimizer& opt, const Pair& net) {
    opt.minimize([&] { return reduce_sum(square(net(tensor({{1.0, 2.0}})))); });
  };
  Pair net;
  train::MomentumOptimizer opt(0.1, 0.9);
  step(opt, net);
  const StateDict state = opt.state_dict();
  CHECK(state.contains("a.weight.momentum"));
  CHECK(state.contains("b.bias.momentum"));

  Pair other = net;
  other.a_first = false;
  train::MomentumOptimizer restored(0.0, 1.0);
  restored.load_state_dict(state);
  // With a rate of 0 the Variables stay; the slots are those of before plus the gradient.
  const auto gradients = restored.compute_gradients([&] { return reduce_sum(square(other(tensor({{1.0, 2.0}})))); });
  restored.apply_gradients(gradients);
  for (const auto& [gradient, variable] : gradients)
    CHECK(
        same_bits(restored.get_slot(variable, "momentum").value(), state.at(variable.name() + ".momentum") + gradient));
}

TEST_CASE("states of optimizers from before parameters had paths are read by the order of updates") {
  const Two net;
  train::MomentumOptimizer opt(0.1, 0.9);
  const auto loss = [&] { return reduce_sum(square(net(ones({1, 4})))); };
  opt.minimize(loss, net.parameters());
  StateDict old;
  const StateDict now = opt.state_dict();
  old["iterations"] = now.at("iterations");
  old["weight.momentum"] = now.at("a.weight.momentum");
  old["bias.momentum"] = now.at("a.bias.momentum");
  old["weight#2.momentum"] = now.at("b.weight.momentum");
  old["bias#2.momentum"] = now.at("b.bias.momentum");

  opt.load_state_dict(old);  // of Variables that it knows
  CHECK(same_bits(opt.state_dict(), now));
  train::MomentumOptimizer fresh(0.0, 1.0);
  fresh.load_state_dict(old);  // of Variables that come later
  const auto gradients = fresh.compute_gradients(loss, net.parameters());
  fresh.apply_gradients(gradients);
  for (const auto& [gradient, variable] : gradients)
    CHECK(same_bits(fresh.get_slot(variable, "momentum").value(), now.at(variable.name() + ".momentum") + gradient));
}

TEST_CASE("a class that has not named its parts says so when it is saved or trained") {
  struct Forgotten : nn::Module {
    nn::Dense hidden{2, 2};
    Tensor operator()(const Tensor& x) const { return hidden(x); }
  };
  struct Swish : nn::Module {
    double steepness = 1;
    Tensor operator()(const Tensor& x) const { return x * sigmoid(steepness * x); }
  };
  Forgotten net;
  const TemporaryFolder folder;
  const std::string path = folder.path() / "net.safetensors";
  train::GradientDescentOptimizer opt(0.1);
  const auto refused = [](const auto& f) {
    CHECK_THROWS_WITH_AS(f(), doctest::Contains("The class Forgotten has not named its parts"),
                         FailedPreconditionError);
  };
#define TAPESTRY_UNNAMED(...) \
  TAPESTRY_REFUSED(FailedPreconditionError, "Forgotten has not named its parts", __VA_ARGS__)
  TAPESTRY_UNNAMED(save(path, net));
  TAPESTRY_UNNAMED(net.state_dict());
  TAPESTRY_UNNAMED(net.load_state_dict({}));
  TAPESTRY_UNNAMED(net.parameters());
  TAPESTRY_UNNAMED(net.freeze());
  TAPESTRY_UNNAMED(nn::summary(net, {spec(float32, {-1, 2})}));
#undef TAPESTRY_UNNAMED
  refused([&] { opt.minimize([&] { return reduce_sum(net(ones({1, 2}))); }, net.parameters()); });
  refused([&] {
    const Checkpoint checkpoint{.model = &net};
    checkpoint.save(folder.path());
  });
  CHECK_THROWS_AS(opt.apply_gradients(std::vector<Tensor>{}, {}), InvalidArgumentError);
  CHECK(nn::ReLU().parameters().empty());
  CHECK(nn::Sequential().state_dict().empty());
  // Parts, too, when there is something in them that would be lost.
  struct Holder : nn::Module {
    Forgotten part;
    TAPESTRY_FIELDS(part)
    Tensor operator()(const Tensor& x) const { return part(x); }
  };
  CHECK_THROWS_WITH_AS(Holder().state_dict(), doctest::Contains("The class Forgotten of 'part' has not named"),
                       FailedPreconditionError);
  CHECK_THROWS_WITH_AS(nn::Sequential{Holder()}.parameters(), doctest::Contains("The class Forgotten of '0.part'"),
                       FailedPreconditionError);
  CHECK_THROWS_WITH_AS((nn::Sequential{nn::ReLU(), Forgotten()}.state_dict()),
                       doctest::Contains("The class Forgotten of '1'"), FailedPreconditionError);
  CHECK(nn::Sequential{nn::Dense(2, 3), nn::ReLU(), nn::Dropout(), Swish()}.state_dict().size() == 2);
}

TEST_CASE("frozen modules are saved, and not learnt") {
  Net net;
  const std::size_t count = net.parameters().size();
  const StateDict before = net.state_dict();
  net.body.freeze();
  CHECK(net.parameters().size() == count - 4);
  CHECK(net.state_dict().size() == before.size());
  GradientTape tape;
  const Tensor y = net.body(ones({2, 4}));
  CHECK(tape.watched_variables().empty());
  net.unfreeze();
  CHECK(net.parameters().size() == count);

  nn::Sequential model{nn::Dense(2, 3), nn::BatchNorm(3), nn::Dense(3, 1)};
  model.at<nn::Dense>(0).freeze();
  const Tensor kept = model.at<nn::Dense>(0).weight, learnt = model.at<nn::Dense>(2).weight;
  train::AdamOptimizer opt(0.1);
  const Tensor x = random::normal({8, 2});
  opt.minimize([&] { return reduce_sum(square(model(x))); });
  CHECK(same_bits(model.at<nn::Dense>(0).weight, kept));
  CHECK_FALSE(same_bits(model.at<nn::Dense>(2).weight, learnt));
  model.freeze();
  model.unfreeze();
  CHECK(model.named_buffers().size() == 3);
}

}  // namespace nn_names_test
