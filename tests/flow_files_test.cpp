// Branches and loops in TensorFlow's files: what is written and read again gives the same bits, with the gradients that
// the file holds, and is written alike the next time.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "control_flow_programs.hpp"
#include "expect.hpp"
#include "flow_models.hpp"
#include "graph/graph_state.hpp"
#include "interop/steps.hpp"
#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/op_rules.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"

namespace flow_files_test {

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("branches and loops are written and read again, with their gradients") {
  for (const FlowModel& model : flow_models()) {
    CAPTURE(model.name);
    for (const bool with_gradient : {false, true}) {
      const Variable w({0.5, -0.25, 1.25}, {.name = "w", .dtype = float64});
      const Variable sum({0.125, 0.5, -1.0}, {.name = "sum", .trainable = false, .dtype = float64});
      const auto f = [&](const Tensor& x, const Tensor& n) { return results_of(model, with_gradient, x, n, w, sum); };
      const auto traced = trace(f, {spec(float64, {-1, 3}), spec(int32, {})});
      const std::string bytes = traced.graph().as_graph_def();
      CHECK(bytes == traced.graph().as_graph_def());
      const Graph again = Graph::from_graph_def(bytes);
      const Tensor initial = sum.value() * 1.0;
      const auto read = [&](const Graph& graph, const Tensor& x, const Tensor& n, std::size_t i) {
        const Session session(graph);
        if (graph.has_operation("init")) session.run(graph.get_operation_by_name("init"));
        return session.run(traced.output(i).name(), {{traced.input(0).name(), x}, {traced.input(1).name(), n}});
      };
      for (const int n : {0, 1, 2, 3, 5}) {
        CAPTURE(n);
        const Tensor x = tensor({{0.5, -1.0, 0.25}, {1.5, 0.75, -0.5}}).cast(float64);
        sum.assign(initial);
        // The values of now become constants; a function that changes Variables has no such form.
        const std::optional<Graph> frozen =
            model.has_gradient ? std::optional(Graph::from_graph_def(
                                     traced.graph().as_graph_def({.variables = VariableStyle::frozen})))
                               : std::nullopt;
        const std::vector<Tensor> expected = traced(x, tensor(n));
        for (std::size_t i = 0; i < expected.size(); ++i) {
          CAPTURE(i);
          const Tensor actual = read(again, x, tensor(n), i);
          CHECK_MESSAGE(same_bits(actual, expected[i]), printed(actual), printed(expected[i]));
          if (frozen) CHECK(same_bits(read(*frozen, x, tensor(n), i), expected[i]));
        }
      }
      if (!model.has_gradient)
        CHECK_THROWS_WITH_AS(traced.graph().as_graph_def({.variables = VariableStyle::frozen}),
                             doctest::Contains("changes Variables, and VariableStyle::frozen has none"),
                             UnimplementedError);
    }
  }
}

namespace {

/// Whether each input of a node is a list, as TensorFlow demands of the op.
std::vector<bool> wanted_lists(const io::NodeDef& node) {
  std::vector<bool> lists(node.inputs.size());
  const auto add_types = [&](std::string_view attr, std::size_t first) {
    const auto found = node.attrs.find(attr);
    if (found == node.attrs.end()) return;
    const auto* types = std::get_if<io::ListDef>(&found->second);
    for (std::size_t i = 0; types && i < types->types.size(); ++i)
      lists.at(first + i) = types->types[i].value == io::variant_type.value;
  };
  if (node.op == "While" || node.op == "StatelessWhile" || node.op == "IdentityN") add_types("T", 0);
  if (node.op == "If" || node.op == "StatelessIf" || node.op == "Case") add_types("Tin", 1);
  const bool takes_tensor = node.op == "TensorListFromTensor" || node.op == "TensorListReserve" ||
                            node.op == "TensorListSplit" || node.op == "TensorListScatterV2";
  if (node.op.starts_with("TensorList") && !takes_tensor) lists.at(0) = true;
  if (node.op == "TensorListConcatLists") lists.at(1) = true;
  return lists;
}

/// The inputs that are lists where tensors are due, or the other way round, outside of functions.
std::string misused_lists(const io::GraphDef& file) {
  std::set<std::string> lists;
  for (const io::NodeDef& node : file.nodes) {
    const bool reads = node.op == "TensorListStack" || node.op == "TensorListLength" ||
                       node.op == "TensorListGetItem" || node.op == "TensorListElementShape" ||
                       node.op == "TensorListConcat" || node.op == "TensorListConcatV2";
    if ((node.op.starts_with("TensorList") && !reads) || node.op == "EmptyTensorList") lists.insert(node.name);
    const std::vector<bool> given = wanted_lists(node);
    if (node.op.ends_with("While") || node.op == "IdentityN")
      for (std::size_t i = 0; i < given.size(); ++i)
        if (given[i]) lists.insert(detail::join(node.name, ":", i));
  }
  std::string misused;
  for (const io::NodeDef& node : file.nodes) {
    const std::vector<bool> wanted = wanted_lists(node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (lists.contains(node.inputs[i]) != wanted[i])
        misused += node.op + " " + node.name + ": " + node.inputs[i] + "\n";
  }
  return misused;
}

}  // namespace

TEST_CASE("branches and loops of TensorFlow's are read and written again") {
  int cases = 0;
  for (const auto& each : std::filesystem::directory_iterator(std::filesystem::path(GOLDEN_FILES) / "flow")) {
    const std::string path = each.path().string();
    constexpr std::string_view ending = ".steps.pb";
    if (!path.ends_with(ending)) continue;
    CAPTURE(path);
    const Graph graph = Graph::load(path.substr(0, path.size() - ending.size()) + ".pb");
    const std::string again = graph.as_graph_def();
    const Graph read_again = Graph::from_graph_def(again);
    CHECK(do_steps(graph, steps_in(path)));
    CHECK(do_steps(read_again, steps_in(path)));
    CHECK(misused_lists(io::decode(again)) == "");
    // No node for a list is left over from one time to the next.
    const auto count = [](const std::string& bytes) {
      const std::vector<io::NodeDef> nodes = io::decode(bytes).nodes;
      return std::count_if(nodes.begin(), nodes.end(),
                           [](const io::NodeDef& node) { return node.attrs.contains("_tapestry_list"); });
    };
    CHECK(count(read_again.as_graph_def()) == count(again));
    ++cases;
  }
  CHECK(cases >= 21);
}

TEST_CASE("sequences of unequal lengths are refused in a file, too") {
  const auto both = [](const Tensor& xs, const Tensor& ys) {
    const auto [last, all] = scan(
        [](const Tensor& sum, const std::vector<Tensor>& each) {
          const Tensor next = sum + each[0] * each[1];
          return std::pair{next, next};
        },
        zeros({2}), std::vector{xs, ys});
    const std::vector<Tensor> mapped =
        map([](const std::vector<Tensor>& each) { return std::vector{each[0] - each[1]}; }, std::vector{xs, ys});
    return std::vector{last, all, mapped[0]};
  };
  const auto traced = trace(both, {spec(float32, {-1, 2}, "xs"), spec(float32, {-1, 2}, "ys")});
  const Session reloaded(Graph::from_graph_def(traced.graph().as_graph_def()));
  const Tensor three = ones({3, 2}), four = ones({4, 2});
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string output = traced.output(i).name();
    CHECK(same_bits(reloaded.run(output, {{"xs:0", four}, {"ys:0", four}}), traced(four, four)[i]));
    for (const auto& [xs, ys] : {std::pair{three, four}, std::pair{four, three}})
      CHECK_THROWS_WITH_AS(reloaded.run(output, {{"xs:0", xs}, {"ys:0", ys}}),
                           doctest::Contains("must have the same length along axis 0"), InvalidArgumentError);
  }
}

TEST_CASE("a model with branches and loops is called with eager tensors, and differentiated") {
  const Variable w({0.5, -0.25, 1.25}, {.name = "w", .dtype = float64});
  const Variable sum({0.125, 0.5, -1.0}, {.name = "sum", .trainable = false, .dtype = float64});
  const Tensor x = tensor({{0.5, -1.0, 0.25}, {1.5, 0.75, -0.5}}).cast(float64);
  const auto gradient = [&](const std::function<Tensor()>& f, const std::vector<Variable>& parameters) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = f();
    std::vector<Tensor> found = tape.gradient(reduce_sum(sin(y)), {x}, {.unconnected = Unconnected::zero});
    for (const Variable& each : parameters)
      if (each.trainable())
        found.push_back(tape.gradient(reduce_sum(sin(y)), {each}, {.unconnected = Unconnected::zero})[0]);
    found.push_back(y);
    return found;
  };
  for (const FlowModel& model : flow_models()) {
    if (!model.has_gradient) continue;  // they change a Variable
    CAPTURE(model.name);
    const auto traced =
        trace([&](Tensor a, Tensor n) { return model.f(a, n, w, sum); }, {spec(float64, {-1, 3}), spec(int32, {})});
    const Model called(
        Signature{.inputs = {{"x", traced.input(0)}, {"n", traced.input(1)}}, .outputs = {{"y", traced.output()}}});
    for (const int n : {0, 1, 3}) {
      CAPTURE(n);
      CHECK(same_bits(called({{"x", x}, {"n", tensor(n)}})[0], traced(x, tensor(n))));
      const std::vector<Tensor> expected = gradient([&] { return model.f(x, tensor(n), w, sum); }, {});
      const std::vector<Tensor> actual = gradient([&] { return called({{"x", x}, {"n", tensor(n)}})[0]; }, {});
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK_MESSAGE(same_bits(actual[i], expected[i]), printed(actual[i]), printed(expected[i]));
    }
  }
}

TEST_CASE("the gradient of a loop that recomputes, called with eager tensors") {
  const Variable w({0.5, -0.25, 1.25}, {.name = "w", .dtype = float64});
  const Variable sum({0.125, 0.5, -1.0}, {.name = "sum", .trainable = false, .dtype = float64});
  const Tensor x = tensor({{0.5, -1.0, 0.25}, {1.5, 0.75, -0.5}}).cast(float64);
  int models = 0;
  for (const FlowModel& model : flow_models()) {
    if (model.name != "while_loop that recomputes" && model.name != "while_loop whose shape changes") continue;
    CAPTURE(model.name);
    ++models;
    const auto traced = trace(
        [&](Tensor a, Tensor n) {
          GradientTape tape;
          tape.watch(a);
          return tape.gradient(reduce_sum(model.f(a, n, w, sum)), a);
        },
        {spec(float64, {-1, 3}), spec(int32, {})});
    const Model called(
        Signature{.inputs = {{"x", traced.input(0)}, {"n", traced.input(1)}}, .outputs = {{"dx", traced.output()}}});
    for (const int n : {0, 1, 3, 5}) CHECK(same_bits(called({{"x", x}, {"n", tensor(n)}})[0], traced(x, tensor(n))));
  }
  CHECK(models == 2);
}

TEST_CASE("an LSTM of unknown length is written as a loop, with its gradients") {
  random::seed(4);
  nn::LSTM lstm(3, 4, {.layers = 2, .bidirectional = true});
  lstm.to(float64);
  const auto f = [&](const Tensor& x, const Tensor& lengths) {
    GradientTape tape;
    tape.watch(x);
    const auto result = lstm(x, {}, lengths);
    const Tensor loss = reduce_sum(sin(result.output)) + reduce_sum(result.state.h * result.state.c);
    std::vector<Tensor> list = tape.gradient(loss, {x, lstm.layers[0].weight_hh, lstm.layers[3].weight_ih});
    list.push_back(result.output);
    list.push_back(result.state.c);
    return list;
  };
  const auto traced = trace(f, {spec(float64, {-1, -1, 3}), spec(int32, {-1})});
  const std::string bytes = traced.graph().as_graph_def({.variables = VariableStyle::frozen});
  io::GraphDef foreign = io::decode(bytes);
  for (io::NodeDef& each : foreign.nodes) each.attrs.erase(std::string(io::hint_op));
  const auto is_loop = [](const io::NodeDef& each) { return each.op == "StatelessWhile"; };
  CHECK(std::count_if(foreign.nodes.begin(), foreign.nodes.end(), is_loop) >= 4 * 2);
  std::vector<std::string> names;
  for (const Tensor& each : traced.outputs()) names.emplace_back(each.name());
  for (const auto& [batch, time] : {std::pair(2, 5), std::pair(1, 1), std::pair(3, 2)}) {
    const Tensor x = random::normal({batch, time, 3}, {.dtype = float64});
    const Tensor lengths = minimum(arange(batch).cast(int32) + 1, time);
    const std::vector<Tensor> expected = f(x, lengths);
    for (const bool with_hints : {true, false}) {
      const Session session(Graph::from_graph_def(with_hints ? bytes : io::encode(foreign)));
      const std::vector<Tensor> found =
          session.run(names, {{traced.input(0).name(), x}, {traced.input(1).name(), lengths}});
      for (std::size_t i = 0; i < found.size(); ++i) check_same(found[i], expected[i], with_hints ? 0 : 1e-12);
    }
  }
}

TEST_CASE("recurrent layers over an unknown length have the bits of eager mode, with their gradients") {
  const nn::RNN rnn(3, 4);
  const nn::GRU gru(3, 4, {.layers = 2, .bidirectional = true});
  const auto check = [](const auto& layer) {
    const auto with_gradient = [&](const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = layer(x).output;
      return std::vector{y, tape.gradient(reduce_sum(square(y)), x)};
    };
    const auto traced = trace(with_gradient, {spec(float32, {-1, -1, 3}, "x")});
    const Session reloaded(Graph::from_graph_def(traced.graph().as_graph_def({.variables = VariableStyle::frozen})));
    for (const std::int64_t length : {1, 4, 7}) {
      CAPTURE(length);
      const Tensor x = random::normal({2, length, 3});
      const std::vector<Tensor> expected = with_gradient(x), found = traced(x);
      for (std::size_t i = 0; i < 2; ++i) {
        CAPTURE(i);
        CHECK(same_bits(found[i], expected[i]));
        CHECK(same_bits(reloaded.run(traced.output(i).name(), {{"x:0", x}}), expected[i]));
      }
    }
  };
  check(rnn);
  check(gru);
}

TEST_CASE("an LSTM of unknown length has derivatives of second order") {
  random::seed(4);
  nn::LSTM lstm(3, 4);
  lstm.to(float64);
  const auto f = [&](const Tensor& x) {
    GradientTape outer;
    outer.watch(x);
    GradientTape inner;
    inner.watch(x);
    const Tensor g = inner.gradient(reduce_sum(sin(lstm(x).output)), x);
    return outer.gradient(reduce_sum(square(g)), x);
  };
  const auto traced = trace(f, {spec(float64, {-1, -1, 3})});
  for (const auto& [batch, time] : {std::pair(2, 4), std::pair(1, 1)}) {
    const Tensor x = random::normal({batch, time, 3}, {.dtype = float64});
    check_same(traced(x), f(x), 1e-12);
  }
}

TEST_CASE("the sizes of a loop of a file do not change where a branch cannot take those that its reader tries") {
  const auto f = [](const Tensor& x, const Tensor& factor) {
    return while_loop([](Tensor s) { return less(reduce_sum(s), 9.0); },
                      [&](Tensor s) {
                        return cond(
                            reduce_max(s) > 1.0, [&] { return s * s + factor; }, [&] { return s * 2.0; });
                      },
                      x);
  };
  const auto traced = trace(f, {spec(float32, {-1}), spec(float32, {-1})});
  const Graph again = Graph::from_graph_def(traced.graph().as_graph_def());
  const detail::Node& loop = detail::producer_of(again.get_tensor_by_name(traced.output().name()));
  CHECK(loop.type() == "StatelessWhile");
  CHECK(loop.attrs().find("varying") == nullptr);
}

TEST_CASE("in TensorFlow's If, a number is true unless it is 0") {
  const auto traced = trace(
      [](Tensor p, Tensor x) {
        return cond(
            p, [&] { return x + 1; }, [&] { return x - 1; });
      },
      {spec(boolean, {}, "p"), spec(float32, {}, "x")});
  for (const DType dtype : {int32, float32}) {
    io::GraphDef file = io::decode(traced.graph().as_graph_def());
    for (io::NodeDef& node : file.nodes) {
      if (node.name == "p") node.attrs.at("dtype") = io::code_of(dtype);
      if (node.op.ends_with("If")) node.attrs.insert_or_assign("Tcond", io::code_of(dtype));
    }
    const Session session(Graph::from_graph_def(io::encode(file)));
    for (const double p : {0.0, 1.0, 3.0})
      CHECK(session.run(traced.output(0).name(), {{"p:0", full({}, p, {.dtype = dtype})}, {"x:0", 10}}).item<float>() ==
            (p == 0 ? 9 : 11));
  }
}

TEST_CASE("one tensor may be several operands of a branch or loop of a file, whose gradient counts each") {
  const auto branch = [](const Tensor& x, const Tensor& y) {
    return cond(
        less(x, 100.0), [&] { return x * y * y; }, [&] { return x + y; });
  };
  const auto loop = [](const Tensor& x, const Tensor& y) {
    return std::get<1>(while_loop([](const Tensor& i, const Tensor&, const Tensor&) { return less(i, 2); },
                                  [](const Tensor& i, const Tensor& a, const Tensor& b) {
                                    return std::tuple{i + 1, a * b, b};
                                  },
                                  std::tuple{std::int64_t{0}, x, y}));
  };
  for (const std::function<Tensor(const Tensor&, const Tensor&)>& f : {std::function(branch), std::function(loop)}) {
    const auto traced = trace([&](const Tensor& x, const Tensor& y) { return f(x, y); },
                              {spec(float64, {}, "x"), spec(float64, {}, "y")});
    io::GraphDef file = io::decode(traced.graph().as_graph_def());
    int changed = 0;
    for (io::NodeDef& node : file.nodes)
      if (node.op == "StatelessIf" || node.op == "StatelessWhile")
        for (std::string& input : node.inputs)
          if (input == "y") changed += (input = "x").empty() ? 0 : 1;
    REQUIRE(changed == 1);
    const Graph graph = Graph::from_graph_def(io::encode(file));
    const Graph::Scope scope(graph);
    const Tensor x = graph.get_tensor_by_name("x:0"), y = graph.get_tensor_by_name(traced.output(0).name());
    const Tensor slope = gradients(y, x)[0], bend = gradients(slope, x)[0];
    // Both compute x^3.
    const auto [a, b, c] = Session(graph).run(std::tuple{y, slope, bend}, {{x, tensor(3.0)}});
    CHECK(a.item<double>() == 27);
    CHECK(b.item<double>() == 27);
    CHECK(c.item<double>() == 18);
  }
}

namespace {

/// Lets an op read each of the results that branches keep for their gradients, where they were taken and where not.
void read_all_results(const std::function<Tensor(const Tensor&)>& branch_of) {
  const auto traced = trace(
      [&](const Tensor& x, const Tensor& n) {
        GradientTape tape;
        tape.watch(x);
        const Tensor y = cond(
            less(n, 3), [&] { return branch_of(x); }, [&] { return x / (x * x + 1.0); });
        return std::vector<Tensor>{y, tape.gradient(reduce_sum(y), x)};
      },
      {spec(float64, {-1, 3}, "x"), spec(int32, {}, "n")});
  const io::GraphDef file = io::decode(traced.graph().as_graph_def());
  const auto branch =
      std::find_if(file.nodes.begin(), file.nodes.end(), [](const auto& each) { return each.op == "StatelessIf"; });
  REQUIRE(branch != file.nodes.end());
  const auto& outputs = std::get<io::ListDef>(branch->attrs.at("Tout"));
  int refused = 0;
  for (std::size_t i = 1; i < outputs.types.size(); ++i) {
    if (outputs.types[i] != io::code_of(float64)) continue;
    io::GraphDef damaged = file;
    io::NodeDef reader{.name = "reader", .op = "Exp", .inputs = {branch->name + ":" + std::to_string(i)}};
    reader.attrs["T"] = outputs.types[i];
    damaged.nodes.push_back(reader);
    const Session session(Graph::from_graph_def(io::encode(damaged)));
    for (const int n : {0, 5}) {
      const Tensor x = ones({2, 3}, {.dtype = float64});
      try {
        session.run("reader:0", {{"x:0", x}, {"n:0", tensor(n)}});
      } catch (const InvalidArgumentError& error) {
        ++refused;
        CHECK(std::string(error.what()).find("has no value: it is of a branch that was not taken") !=
              std::string::npos);
      }
    }
  }
  CHECK(refused > 0);
}

}  // namespace

TEST_CASE("a file in which an op reads what the taken branch does not give") {
  read_all_results([](const Tensor& x) { return exp(x); });
  // The sizes of what this one keeps are known only when it has run.
  read_all_results([](const Tensor& x) { return x * reduce_sum(square(exp(boolean_mask(x, greater(x, 0.5))))); });
}

TEST_CASE("what a loop of a file passes on is fetched by its name") {
  const Variable v(2.0, {.name = "v", .dtype = float32});
  const auto traced = trace(
      [&](const Tensor& x) {
        return std::get<1>(while_loop([](const Tensor& i, const Tensor&, const Tensor&) { return less(i, 3); },
                                      [&](const Tensor& i, const Tensor& y, const Tensor& kept) {
                                        return std::tuple{i + 1, y * v, kept};
                                      },
                                      std::tuple{tensor(0), x, exp(x)}));
      },
      {spec(float32, {}, "x")});
  const Graph graph = Graph::from_graph_def(traced.graph().as_graph_def());
  const Session session(graph);
  const std::string name = traced.output(0).op().name();
  int tensors = 0, others = 0;
  std::vector<float> found;
  for (int i = 0; graph.has_operation(name + "/While"); ++i) {
    try {
      const Tensor output = graph.get_tensor_by_name(name + "/While:" + std::to_string(i));
      found.push_back(session.run(output, {{"x:0", 1.0F}}).cast(float32).item<float>());
      ++tensors;
    } catch (const LookupError&) {
      break;  // there is no such output
    } catch (const InvalidArgumentError& error) {
      CHECK(error.message().find("not to a Tensor") != std::string::npos);
      ++others;
    }
  }
  CHECK(std::count(found.begin(), found.end(), 8.0F) == 1);                         // x * v * v * v
  CHECK(std::count(found.begin(), found.end(), exp(ones({})).item<float>()) == 1);  // what is passed on
  CHECK(tensors >= 3);
  CHECK(others >= 1);  // the Variable
}

TEST_CASE("second derivatives of branches and loops are written, and have the same bits when they are read") {
  const Variable w({0.5, -0.25, 1.25}, {.name = "w", .dtype = float64});
  const Variable sum({0.125, 0.5, -1.0}, {.name = "sum", .trainable = false, .dtype = float64});
  for (const control_flow_test::FlowProgram& program : control_flow_test::programs()) {
    const bool is_pure = program.name.find("Variable that") == std::string::npos &&
                         program.name.find("random numbers") == std::string::npos;
    if (!is_pure) continue;
    CAPTURE(program.name);
    const auto traced = trace(
        [&](const Tensor& x, const Tensor& n) {
          GradientTape outer, inner;
          outer.watch(x);
          inner.watch(x);
          const Tensor slope = inner.gradient(reduce_sum(sin(program.f(x, n, w, sum))), x);
          return outer.gradient(reduce_sum(square(slope)), x, {.unconnected = Unconnected::zero});
        },
        {spec(float64, {-1, 3}, "x"), spec(int32, {}, "n")});
    const Session read(Graph::from_graph_def(traced.graph().as_graph_def({.variables = VariableStyle::frozen})));
    for (const int n : {0, 1, 3}) {
      CAPTURE(n);
      const Tensor x = random::normal({2, 3}, {.dtype = float64});
      CHECK(same_bits(read.run(traced.output().name(), {{"x:0", x}, {"n:0", n}}), traced(x, tensor(n))));
    }
  }
}

}  // namespace flow_files_test
