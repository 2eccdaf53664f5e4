// Graphs as files: what is written is TensorFlow's, and what is read back computes the same bits.

#include <functional>
#include <map>
#include <random>
#include <set>

#include <doctest/doctest.h>

#include "dispatch/declaration.hpp"
#include "expect.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "io/tensorflow/op_rules.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"
#include "two_layers.hpp"

namespace tapestry::test::graphdef_test {
namespace {

using Inputs = std::vector<Tensor>;

Inputs run(const Graph& graph, const std::vector<std::string>& inputs, const Inputs& values,
           const std::vector<std::string>& outputs) {
  Feeds feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (graph.has_operation(inputs[i].substr(0, inputs[i].find(':')))) feeds.add(inputs[i], values[i]);
  Session session(graph);
  random::seed(5);
  return session.run(outputs, feeds);
}

std::vector<std::string> names_of(const Tensors& tensors) {
  std::vector<std::string> names;
  for (const Tensor& each : tensors) names.push_back(each.name());
  return names;
}

/// What a file's nodes are, by name.
std::map<std::string, io::NodeDef> nodes_of(const std::string& bytes) {
  std::map<std::string, io::NodeDef> nodes;
  for (const io::NodeDef& each : io::decode(bytes).nodes) nodes.emplace(each.name, each);
  return nodes;
}

Graph reload(const Graph& graph, const SaveOptions& options = {}) {
  return Graph::from_graph_def(graph.as_graph_def(options));
}

const Tensor points = tensor<float>({{1, 2, 3}, {-1, 0, 2}});
const Tensor classes = tensor<float>({{1, 0}, {0, 1}});

std::vector<float> losses_of(const Graph& graph, const std::string& loss, const std::string& step) {
  Session session(graph);
  std::vector<float> losses;
  for (int i = 0; i < 3; ++i) {
    losses.push_back(session.run(loss.c_str(), {{"x:0", points}, {"labels:0", classes}}).item<float>());
    session.run(step.c_str(), {{"x:0", points}, {"labels:0", classes}});
  }
  return losses;
}

}  // namespace

TEST_CASE("every op of the library is written and read by one rule") {
  const Graph graph;  // whose ops are registered where a graph is used
  for (const Op* op : registered_ops()) {
    CAPTURE(op->name);
    const io::OpRule* rule = io::rule_of(op->name);
    CHECK((rule != nullptr) != io::is_state_op(op->name));
    if (!rule) continue;
    CHECK(rule->entry == op);
    CHECK((!rule->tensorflow.empty() || rule->expand || op->composition));
    if (rule->tensorflow.empty()) continue;           // then hints tell all attributes
    std::set<std::string_view> told{"", "function"};  // a closure is no part of a file
    for (const io::InputRule& each : rule->input_rules) told.insert(each.attr);
    for (const io::FieldRule& each : rule->fields) told.insert(each.attr);
    for (const Attr& each : rule->implied) told.insert(each.name);
    for (const std::string_view name : told) CHECK((name.empty() || name == "function" || find_attr(*op, name)));
    for (const OpAttr& attr : op->attrs) {
      CAPTURE(attr.name);  // without a rule it would be lost on its way
      CHECK((told.contains(attr.name) || rule->is_direct || attr.optional));
    }
  }
}

TEST_CASE("over the op table: a file read back gives the same bits, for values and gradients") {
  for (const OpCase& row : op_cases()) {
    CAPTURE(row.name);
    std::vector<TensorSpec> specs;
    for (const Tensor& input : row.inputs) specs.push_back(spec(input.dtype(), input.shape()));
    const auto traced = trace([&](const Inputs& x) { return value_and_gradients(row, x); }, specs);
    const std::vector<std::string> inputs = names_of(traced.inputs()), outputs = names_of(traced.outputs());
    const Inputs expected = run(traced.graph(), inputs, row.inputs, outputs);
    std::string bytes;
    CHECK_NOTHROW(bytes = traced.graph().as_graph_def());
    for (const bool text : {false, true}) {
      CAPTURE(text);
      Inputs found;
      CHECK_NOTHROW(found = run(Graph::from_graph_def(text ? io::from_text(io::to_text(bytes)) : bytes), inputs,
                                row.inputs, outputs));
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
    }
    // A file that has no gradients is read as an identity for each value.
    if (row.name != "registered gradients") CHECK(Graph::from_graph_def(bytes).as_graph_def() == bytes);
    const std::string text = io::to_text(bytes);
    CHECK(io::to_text(io::from_text(text)) == text);
  }
}

TEST_CASE("attributes of ours are constant inputs of TensorFlow's") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1, 4}, "x");
  reduce_sum(x, {0, 1}, {.keep_dims = true}, "sum");
  reshape(x, {2, -1}, "reshaped");
  clip(x, 0.0, 1.0, "clipped");
  const auto nodes = nodes_of(graph.as_graph_def());
  CHECK(nodes.at("sum").op == "Sum");
  CHECK(nodes.at("sum").inputs == std::vector<std::string>{"x", "sum/axis"});
  CHECK(std::get<bool>(nodes.at("sum").attrs.at("keep_dims")));
  CHECK(std::get<io::TypeCode>(nodes.at("sum").attrs.at("T")) == io::TypeCode{1});
  CHECK(std::get<io::TypeCode>(nodes.at("sum").attrs.at("Tidx")) == io::TypeCode{3});
  CHECK(std::get<io::TensorDef>(nodes.at("sum/axis").attrs.at("value")).value.to_vector<int>() ==
        std::vector<int>{0, 1});
  CHECK(std::get<Shape>(nodes.at("x").attrs.at("shape")) == Shape{-1, 4});
  CHECK(std::get<io::TensorDef>(nodes.at("reshaped/shape").attrs.at("value")).value.to_vector<int>() ==
        std::vector<int>{2, -1});
  CHECK(nodes.at("clipped").op == "ClipByValue");
}

TEST_CASE("an op that TensorFlow lacks becomes several of its own") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1, 4}, "x"), b = placeholder(float32, {4}, "b");
  sum_like(x, b, "sum");
  const auto nodes = nodes_of(graph.as_graph_def());
  CHECK(nodes.at("sum").op == "Reshape");
  CHECK(nodes.at("sum/BroadcastGradientArgs").inputs == std::vector<std::string>{"sum/Shape", "sum/Shape_1"});
  CHECK(nodes.at("sum/Sum").inputs == std::vector<std::string>{"x", "sum/BroadcastGradientArgs"});
  const Graph again = reload(graph);
  CHECK(again.operations().size() == 3);
  CHECK(again.get_operation_by_name("sum").type() == "SumLike");
}

/// An op that multiplies its input with an attribute, in float64.
Op scaling_op(const char* name, std::vector<OpAttr> attrs) {
  return {
      .name = name,
      .attrs = std::move(attrs),
      .infer = same_shape,
      .cpu =
          [](const Call& call) {
            for (std::int64_t i = 0; i < call.input(0).size(); ++i)
              call.output_data<double>()[i] = call.input(0).data<double>()[i] * call.attr<double>("by");
          },
  };
}

TEST_CASE("an op of a user's own is written by its name, with its attributes, and read back") {
  const std::vector<OpAttr> typed{{"by", AttrKind::real},      {"flag", AttrKind::flag},
                                  {"count", AttrKind::number}, {"list", AttrKind::numbers},
                                  {"shape", AttrKind::shape},  {"text", AttrKind::text},
                                  {"type", AttrKind::type},    {"absent", AttrKind::real, true}};
  register_op(scaling_op("GraphDefTyped", typed));
  register_op(scaling_op("GraphDefNamed", {"by", "flag", "count", "list", "text"}));
  const Tensor values = tensor<double>({1, -2.5, 1e-300});
  for (const std::string name : {"GraphDefTyped", "GraphDefNamed"}) {
    CAPTURE(name);
    Graph graph;
    const auto scope = graph.as_default();
    std::vector<Attr> attrs{
        {"by", 0.1}, {"flag", true}, {"count", std::int64_t{7}}, {"list", Ints{3, -4}}, {"text", std::string("a b")}};
    if (name == "GraphDefTyped") {
      attrs.emplace_back("shape", Shape{2, -1});
      attrs.emplace_back("type", int32);
    }
    const Tensor y = apply_op(name, {placeholder(float64, {-1}, "x")}, Attrs(attrs), "y");
    const auto nodes = nodes_of(graph.as_graph_def());
    CHECK(nodes.size() == 2);
    CHECK(nodes.at("y").op == name);
    CHECK(std::get<io::TypeCode>(nodes.at("y").attrs.at("T")) == io::TypeCode{2});
    CHECK(std::get<float>(nodes.at("y").attrs.at("by")) == 0.1F);
    const Graph again = reload(graph);
    CHECK(again.get_operation_by_name("y").type() == name);
    for (const Attr& each : attrs) {
      CAPTURE(each.name);
      const AttrValue* found = again.get_operation_by_name("y").attrs().find(each.name);
      REQUIRE(found);
      CHECK(Attrs({{"same", *found}}) == Attrs({{"same", each.value}}));
    }
    CHECK(same_bits(run(again, {"x:0"}, {values}, {"y:0"})[0], values * 0.1));
  }
  Graph graph;
  const auto scope = graph.as_default();
  apply_op("GraphDefNamed", {placeholder(float64, {-1}, "x")}, {{"by", 0.1}, {"text", tensor(1.0)}}, "y");
  const auto error = caught<UnimplementedError>([&] { graph.as_graph_def(); });
  CHECK(error.message().ends_with("its attribute 'text' is no part of a file"));
}

TEST_CASE("an op with a composition is written as that, and read back as itself") {
  const auto composed = [](const char* name, std::function<Tensors(const Call&)> composition) -> const Op& {
    Op op = scaling_op(name, {{"by", AttrKind::real}});
    op.composition = std::move(composition);
    return register_op(std::move(op));
  };
  composed("GraphDefScaled", [](const Call& call) -> Tensors { return {call.input(0) * call.attr<double>("by")}; });
  // The last op is one that is composed itself; and one gives its input.
  composed("GraphDefNested",
           [](const Call& call) -> Tensors { return {apply_op("GraphDefScaled", {call.input(0)}, call.attrs())}; });
  composed("GraphDefPassed", [](const Call& call) -> Tensors { return {call.input(0)}; });
  const Tensor values = tensor<double>({1, -2.5, 3});
  for (const std::string name : {"GraphDefScaled", "GraphDefNested", "GraphDefPassed"}) {
    CAPTURE(name);
    Graph graph;
    const auto scope = graph.as_default();
    const Tensor x = placeholder(float64, {-1}, "x");
    const Tensor taken = square(x, "y/Mul");  // the name that the composition would give
    const Tensor y = apply_op(name, {unstack(stack({taken, x}, 0), 0)[1]}, {{"by", 0.1}}, "y");
    identity(y, "z");
    const auto nodes = nodes_of(graph.as_graph_def());
    CHECK(nodes.at("y").op == (name == "GraphDefPassed" ? "Identity" : "Mul"));
    CHECK(nodes.at("y/Mul").op == "Square");
    const Graph again = reload(graph);
    CHECK(again.get_operation_by_name("y").type() == name);
    CHECK(again.get_operation_by_name("y").attr<double>("by") == 0.1);
    CHECK(same_bits(run(again, {"x:0"}, {values}, {"z:0"})[0], values * 0.1));
    // Without the hints it is what it was composed of.
    io::GraphDef bare = io::decode(graph.as_graph_def());
    for (io::NodeDef& each : bare.nodes)
      std::erase_if(each.attrs, [](const auto& attr) { return attr.first.starts_with("_tapestry"); });
    const Graph foreign = Graph::from_graph_def(io::encode(bare));
    const double by = name == "GraphDefPassed" ? 1 : 0.1;
    CHECK(same_bits(run(foreign, {"x:0"}, {values}, {"z:0"})[0], values * by));
  }
}

TEST_CASE("what TensorFlow cannot say is refused with the op and the line") {
  Graph graph;
  const auto scope = graph.as_default();
  square(placeholder(), "y");
  try {
    graph.as_graph_def();
    FAIL("no error");
  } catch (const UnimplementedError& error) {
    CHECK(error.message().starts_with("Node 'Placeholder' (op: 'Placeholder') cannot be written as TensorFlow's"));
    CHECK(to_string(error.where()).starts_with("graphdef_test.cpp:"));
  }
}

TEST_CASE("Variables in three styles") {
  TwoLayers model(train::GradientDescentOptimizer(0.5));
  const std::string loss = model.loss.name(), step = model.step.name();
  const std::string resource = model.graph.as_graph_def();
  const std::string reference = model.graph.as_graph_def({.variables = VariableStyle::reference});
  const std::string frozen = model.graph.as_graph_def({.variables = VariableStyle::frozen});

  const auto nodes = nodes_of(reference);
  CHECK(nodes.at("hidden/w").op == "VariableV2");
  CHECK(nodes.at("hidden/w/Assign").op == "Assign");
  CHECK(nodes.at("hidden/w/Assign").inputs == std::vector<std::string>{"hidden/w", "hidden/w/initial_value"});
  CHECK(nodes.at("hidden/w/read").op == "Identity");
  CHECK(nodes.at("hidden/w/read").inputs == std::vector<std::string>{"hidden/w"});
  const io::NodeDef& update = nodes.at("GradientDescent/update_hidden/w/ResourceApplyGradientDescent");
  CHECK(update.op == "ApplyGradientDescent");
  CHECK(update.inputs[0] == "hidden/w");
  CHECK(update.inputs[1] == "GradientDescent/learning_rate");
  CHECK(nodes.at("init").op == "NoOp");
  CHECK(nodes_of(resource).at("hidden/w").op == "VarHandleOp");
  for (const auto& each : nodes_of(frozen)) {
    CAPTURE(each.first);
    CHECK(each.second.op.find("Var") == std::string::npos);
    CHECK(each.second.op.find("Apply") == std::string::npos);
  }

  const Graph from_frozen = Graph::from_graph_def(frozen);
  CHECK_FALSE(from_frozen.has_operation(step));
  const Tensor constant_loss = Session(from_frozen).run(loss.c_str(), {{"x:0", points}, {"labels:0", classes}});
  const Graph from_resource = Graph::from_graph_def(resource), from_reference = Graph::from_graph_def(reference);
  const std::vector<float> expected = losses_of(model.graph, loss, step);
  CHECK(constant_loss.item<float>() == expected[0]);
  CHECK(losses_of(from_resource, loss, step) == expected);
  CHECK(losses_of(from_reference, loss, step) == expected);
  CHECK(expected[2] < expected[0]);

  // The file has the values of now: after the steps a second file goes on where the first has ended.
  CHECK(losses_of(reload(model.graph), loss, step) == losses_of(from_resource, loss, step));
}

TEST_CASE("the steps of all optimizers go through a file, in both styles, and go on where they were") {
  const auto check = [](auto make) {
    TwoLayers model(make()), same(make());
    const std::string loss = same.loss.name(), step = same.step.name();
    const auto file = [&](VariableStyle style) { return model.graph.as_graph_def({.variables = style}); };
    const Graph resource = Graph::from_graph_def(file(VariableStyle::resource)),
                reference = Graph::from_graph_def(file(VariableStyle::reference));
    const std::vector<float> expected = losses_of(same.graph, loss, step);
    CHECK(losses_of(resource, loss, step) == expected);
    CHECK(losses_of(reference, loss, step) == expected);
    const std::vector<float> later = losses_of(same.graph, loss, step);
    CHECK(losses_of(reload(resource), loss, step) == later);
    // The file's "init" gives all Variables the values that they had, those of the optimizer included.
    Session(resource).run("init");
    CHECK(losses_of(resource, loss, step) == expected);
  };
  check([] { return train::GradientDescentOptimizer(0.1, {.weight_decay = 0.1}); });
  check([] { return train::MomentumOptimizer(0.1, 0.9); });
  check([] { return train::MomentumOptimizer(0.1, 0.9, {.use_nesterov = true, .weight_decay = 0.1}); });
  check([] { return train::AdagradOptimizer(0.1); });
  check([] { return train::RMSPropOptimizer(0.1, {.weight_decay = 0.1}); });
  check([] { return train::AdamOptimizer(0.1); });
  check([] { return train::AdamOptimizer(0.1, {.beta1 = 0.7, .epsilon = 0.1, .weight_decay = 0.1}); });
  check([] { return train::AdamWOptimizer(0.1); });
}

TEST_CASE("initial values that a graph computes are written as its operations, on request") {
  const std::map<std::string, std::function<Tensor()>> initial_values{
      {"constant",
       [] {
         return tensor<float>({1, 2});
       }},
      {"computed",
       [] {
         return sqrt(constant(2.0F)) * ones({2, 3});
       }},
      {"normal",
       [] {
         return random::normal({3, 4});
       }},
      {"scaled", [] { return random::normal({5}, {.mean = 2, .stddev = 0.1, .dtype = float64}); }},
      {"truncated",
       [] {
         return random::truncated_normal({2, 2}, {.stddev = 3});
       }},
      {"uniform", [] { return random::uniform({7}, {.low = -1, .high = 4}); }},
      {"glorot",
       [] {
         return random::uniform({4, 4}) * 2.0 - 1.0;
       }},
      {"whole", [] { return random::randint(-5, 9, {6}); }},
      {"bernoulli", [] { return random::bernoulli({9}, 0.3); }},
      {"permutation", [] { return random::permutation(8); }},
      {"classes", [] {
         return random::categorical(log(tensor<float>({0.2F, 0.5F, 0.3F})), 4);
       }}};
  for (const VariableStyle style : {VariableStyle::resource, VariableStyle::reference}) {
    const Graph graph;
    const Operation step = [&] {
      const auto scope = graph.as_default();
      Tensor loss = constant(0.0F);
      for (const auto& [name, make] : initial_values) {
        const Variable variable(make(), {.name = name});
        if (is_floating(variable.dtype())) loss = loss + reduce_sum(square(variable.value() - 1.0)).cast(float32);
      }
      Operation made = train::MomentumOptimizer(0.1, 0.9).minimize(loss);
      global_variables_initializer();
      return made;
    }();
    const Session session(graph);
    const auto values_of = [](const Graph& of) {
      std::map<std::string, Tensor> values;
      for (const Variable& each : of.variables()) values.emplace(each.name(), each.value());
      return values;
    };
    const auto drawn = [&](const Graph& of) {
      random::seed(11);
      Session(of).run("init");
      return values_of(of);
    };
    const auto first = drawn(graph);
    session.run(step);
    const auto now = values_of(graph);
    const Graph anew = reload(graph, {.variables = style, .computed_initial_values = true});
    const Graph kept = reload(graph, {.variables = style});
    const auto drawn_anew = drawn(anew), drawn_kept = drawn(kept);
    REQUIRE(drawn_anew.size() == first.size());
    for (const auto& entry : first) {
      const auto& name = entry.first;
      const auto& value = entry.second;
      CAPTURE(name);
      // The slots of the optimizer are no Variables of the graph's own.
      check_same(drawn_anew.at(name), initial_values.contains(name) ? value : now.at(name));
      check_same(drawn_kept.at(name), now.at(name));
    }
    // Another seed, other numbers.
    random::seed(12);
    Session(anew).run("init");
    for (const Variable& each : anew.variables())
      if (each.name() == "normal") CHECK_FALSE(reduce_all(equal(each.value(), first.at("normal"))).item<bool>());
  }
}

TEST_CASE("a learning rate that changes is written as its formula, if it has one") {
  using namespace train;
  const std::vector<std::pair<std::string, LearningRate>> schedules{
      {"a staircase", ExponentialDecay(0.3, 2, 0.5, {.staircase = true})},
      {"exponential", ExponentialDecay(0.3, 2, 0.5)},
      {"cosine", CosineDecay(0.3, 4, {.alpha = 0.1})},
      {"pieces", PiecewiseConstantDecay({0, 3}, {0.1, 0.3, 0.2})},
      {"a short rise", PiecewiseConstantDecay({2, 4}, {0.1, 0.3, 0.1})},
      {"a warm-up", LinearWarmup(CosineDecay(0.3, 4), 3)},
      {"a warm-up of a number", LinearWarmup(0.3, 3, {.start_factor = 0.5})}};
  const std::vector<std::function<TwoLayers(const LearningRate&)>> optimizers{
      [](const LearningRate& rate) { return TwoLayers(GradientDescentOptimizer(rate, {.weight_decay = 0.1})); },
      [](const LearningRate& rate) { return TwoLayers(MomentumOptimizer(rate, 0.9)); },
      [](const LearningRate& rate) { return TwoLayers(AdamOptimizer(rate)); },
      [](const LearningRate& rate) { return TwoLayers(AdamWOptimizer(rate, {.weight_decay = 0.2})); },
      [](const LearningRate& rate) { return TwoLayers(RMSPropOptimizer(rate)); },
      [](const LearningRate& rate) { return TwoLayers(AdagradOptimizer(rate)); }};
  for (const auto& schedule : schedules)
    for (const auto& make : optimizers)
      for (const VariableStyle style : {VariableStyle::resource, VariableStyle::reference}) {
        const TwoLayers model = make(schedule.second);
        const std::string loss = model.loss.name(), step = model.step.name();
        CAPTURE(schedule.first);
        CAPTURE(step);
        const Graph read = Graph::from_graph_def(model.graph.as_graph_def({.variables = style}));
        const Graph again = Graph::from_graph_def(read.as_graph_def({.variables = style}));
        for (const Graph& each : {model.graph, read, again}) Session(each).run("init");
        std::vector<float> losses[3];
        const Graph graphs[3] = {model.graph, read, again};
        for (int g = 0; g < 3; ++g)
          for (int part = 0; part < 2; ++part)  // six steps
            for (const float each : losses_of(graphs[g], loss, step)) losses[g].push_back(each);
        for (std::size_t i = 0; i < losses[0].size(); ++i) {
          CHECK(losses[1][i] == doctest::Approx(losses[0][i]).epsilon(1e-5));
          CHECK(losses[2][i] == doctest::Approx(losses[0][i]).epsilon(1e-5));
        }
        CHECK(losses[0].front() > losses[0].back());
      }
  for (const LearningRate& rate :
       {LearningRate([](std::int64_t steps) { return steps < 1 ? 0.1 : 0.2; }),
        LearningRate(LinearWarmup([](std::int64_t steps) { return 0.1 / static_cast<double>(steps + 1); }, 2))}) {
    const TwoLayers model{AdamOptimizer(rate)};
    CHECK_THROWS_AS(model.graph.as_graph_def(), UnimplementedError);
    CHECK_NOTHROW(model.graph.as_graph_def({.variables = VariableStyle::frozen}));
  }
}

TEST_CASE("AdamW of a schedule decays by the same bits when it is read from a file") {
  // The decay times the last rate, divided by that rate, is not the decay in floating point.
  for (const auto& numbers_of : std::map<double, double>{{0.0016, 0.01}, {0.0034, 0.1}, {0.053, 0.3}}) {
    const double last = numbers_of.first, decay = numbers_of.second;
    CAPTURE(decay);
    const Graph graph;
    const Variable w(numbers({64}, 0.5, 1, 3), {.name = "w"});
    train::AdamWOptimizer optimizer(train::PiecewiseConstantDecay({2}, {0.01, last}), {.weight_decay = decay});
    std::string step;
    {
      const auto scope = graph.as_default();
      step = optimizer.minimize(reduce_sum(square(w))).name();
    }
    const Graph read = Graph::from_graph_def(graph.as_graph_def());
    const Session here(graph), there(read);
    for (int i = 0; i < 5; ++i) {
      here.run(graph.get_operation_by_name(step));
      there.run(read.get_operation_by_name(step));
    }
    for (const Variable& each : read.variables())
      if (each.name() == "w") CHECK(same_bits(each.value(), w.value()));
  }
}

TEST_CASE("Adam as TensorFlow 1 writes it: the powers of the betas are Variables, and epsilon is not corrected") {
  // x <- x - lr sqrt(1 - b2) / (1 - b1) m / (sqrt(v) + epsilon), of which the first step tells all.
  const auto scalar = [](const std::string& name, double value) {
    return "node { name: '" + name +
           "' op: 'Const' attr { key: 'dtype' value { type: DT_DOUBLE } } attr { key: 'value' " +
           "value { tensor { dtype: DT_DOUBLE tensor_shape { } double_val: " + std::to_string(value) + " } } } }";
  };
  std::string text;
  for (const auto& [name, value] :
       std::map<std::string, double>{{"x", 2}, {"m", 0}, {"v", 0}, {"beta1_power", 0.9}, {"beta2_power", 0.99}})
    text += "node { name: '" + name +
            "' op: 'VariableV2' attr { key: 'dtype' value { type: DT_DOUBLE } } attr { key: " +
            "'shape' value { shape { } } } }" + scalar(name + "/initial_value", value) + "node { name: '" + name +
            "/Assign' op: 'Assign' input: ['" + name + "', '" + name + "/initial_value'] } node { name: '" + name +
            "/read' op: 'Identity' input: '" + name + "' }";
  text += scalar("rate", 0.5) + scalar("beta1", 0.9) + scalar("beta2", 0.99) + scalar("epsilon", 0.25) +
          scalar("gradient", 3) + R"(node { name: "step" op: "ApplyAdam" input: ["x", "m", "v", "beta1_power/read",
          "beta2_power/read", "rate", "beta1", "beta2", "epsilon", "gradient"] })";
  const Graph graph = Graph::from_graph_def(io::from_text(text));
  Session session(graph);
  session.run("step");
  const double m = 0.1 * 3, v = 0.01 * 9;
  const double expected = 2 - 0.5 * std::sqrt(1 - 0.99) / (1 - 0.9) * m / (std::sqrt(v) + 0.25);
  CHECK(session.run("x/read:0").item<double>() == doctest::Approx(expected).epsilon(1e-13));
}

TEST_CASE("output shapes are those of what the file has") {
  const TwoLayers model(train::GradientDescentOptimizer(0.5));
  const auto shape_in = [&](VariableStyle style) {
    const auto nodes = nodes_of(model.graph.as_graph_def({.variables = style, .output_shapes = true}));
    return std::get<io::ListDef>(nodes.at("hidden/w").attrs.at("_output_shapes")).shapes.at(0);
  };
  CHECK(shape_in(VariableStyle::resource) == Shape{});
  CHECK(shape_in(VariableStyle::reference) == Shape{3, 4});
  CHECK(shape_in(VariableStyle::frozen) == Shape{3, 4});
}

TEST_CASE("files: the name's end tells the form, and the file's order does not matter") {
  const TemporaryFolder folder;
  const TwoLayers model(train::GradientDescentOptimizer(0.5));
  model.graph.save(folder / "mlp.pb");
  model.graph.save(folder / "mlp.pbtxt");
  const Bytes text = read_bytes(folder / "mlp.pbtxt");
  CHECK(std::string(text.begin(), text.begin() + 7) == "node {\n");
  CHECK(Graph::load(folder / "mlp.pb").as_graph_def() == model.graph.as_graph_def());
  CHECK(Graph::load(folder / "mlp.pbtxt").as_graph_def() == model.graph.as_graph_def());
  CHECK_THROWS_AS(Graph::load(folder / "none.pb"), NotFoundError);
  CHECK_THROWS_AS(model.graph.save(folder / "none/mlp.pb"), NotFoundError);

  io::GraphDef file = io::decode(model.graph.as_graph_def());
  std::reverse(file.nodes.begin(), file.nodes.end());
  const Graph reversed = Graph::from_graph_def(io::encode(file));
  CHECK(losses_of(reversed, model.loss.name(), model.step.name()) ==
        losses_of(reload(model.graph), model.loss.name(), model.step.name()));
}

TEST_CASE("a text as TensorFlow's Python writes it") {
  const Graph graph = Graph::from_graph_def(io::from_text(R"(
    # The samples' e = (a + b) * 2
    node { name: "e" op: "Mul" input: "sum" input: "two" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: 'a' op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "shape" value { shape { dim { size: -1 } } } } }
    node { name: "two" op: "Const" attr { key: "dtype" value: { type: DT_FLOAT } }
           attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 2.0 } } } }
    node { name: "sum" op: "AddN" input: ["a", "a", "a:0"] attr { key: "N" value { i: 3 } }
           attr { key: "T" value { type: DT_FLOAT } } }
    versions { producer: 27 } library { function { signature { name: "f" } } })"));
  CHECK(Session(graph).run("e:0", {{"a:0", {1.0, 2.0}}}).to_vector<float>() == std::vector<float>{6, 12});
}

TEST_CASE("a constant that is a view has in a file the layout that decides the order of its sums") {
  const Tensor plain = numbers({31, 37}, -1, 1, 3).cast(float32), cube = numbers({7, 11, 13}, -1, 1, 4).cast(float32);
  const std::vector<std::pair<std::string, Tensor>> views{
      {"transposed", transpose(plain)},
      {"of permuted axes", transpose(cube, {1, 2, 0})},
      {"broadcast", broadcast_to(plain, {9, 31, 37})},
      {"broadcast along an inner axis", broadcast_to(expand_dims(plain, 1), {31, 9, 37})},
      {"transposed and broadcast", transpose(broadcast_to(cube, {5, 7, 11, 13}), {2, 0, 3, 1})},
      {"a number for all elements", broadcast_to(tensor(0.1F), {50, 60})},
      {"with axes of size 1", transpose(expand_dims(plain, 1), {2, 1, 0})},
      {"of no elements", transpose(broadcast_to(zeros({0, 3}), {4, 0, 3}))},
      {"broadcast to no elements", broadcast_to(tensor({{1.0F}}), {0, 3})},
      {"of bools", transpose(greater(plain, 0.0))},
  };
  for (const auto& each : views) {
    CAPTURE(each.first);
    const Tensor view = each.second;
    // The identity of a gradient of one's own is a node, of whose value the sum is one, too.
    const auto kept = [&](const Tensor& x) {
      return custom_gradient([&](const Tensor& y) {
        return CustomGradient{identity(view), [y](const Tensor&) -> Tensors { return {y}; }};
      })(x);
    };
    const auto traced = trace(
        [&](const Tensor& x) {
          return std::vector<Tensor>{kept(x), reduce_sum(kept(x).cast(float32)), reduce_sum(kept(x).cast(float32), 0)};
        },
        {spec(float32, {})});
    const std::vector<Tensor> expected = traced(tensor(1.0F));
    const Graph read = Graph::from_graph_def(traced.graph().as_graph_def());
    const Session session(read);
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(same_bits(session.run(traced.output(i).name(), {{traced.input().name(), tensor(1.0F)}}), expected[i]));
    CHECK(same_bits(Session(Graph::from_graph_def(read.as_graph_def()))
                        .run(traced.output(1).name(), {{traced.input().name(), tensor(1.0F)}}),
                    expected[1]));
  }
}

TEST_CASE("an axis that is broadcast to size 0 is one in the file, too, where other sizes are not known") {
  const Graph graph;
  {
    const auto scope = graph.as_default();
    broadcast_to(placeholder(float32, {-1, 1, -1}, "x"), {-1, 0, 3}, "y");
  }
  const Session session(Graph::from_graph_def(graph.as_graph_def()));
  CHECK(session.run("y:0", {{"x:0", ones({2, 1, 1})}}).shape() == Shape{2, 0, 3});
}

}  // namespace tapestry::test::graphdef_test
