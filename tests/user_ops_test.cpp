// Ops that a program registers: what they may get wrong, and what files have of them.

#include <stdexcept>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "same_bits.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::user_ops_test {
namespace {

using Function = std::function<Tensor(Tensor)>;

/// The messages of a call that is wrong, eagerly and in a trace.
std::vector<std::string> messages_of(const Function& f) {
  const Tensor x = tensor<float>({1, 2, 3});
  return {message_of<InvalidArgumentError>([&] { f(x); }),
          message_of<InvalidArgumentError>([&] { trace(f, {spec(float32, {3}, "x")})(x); }),
          message_of<InvalidArgumentError>([&] { vmap(f)(x); })};
}

/// The text with another word, of the same length, in the place of each `from`.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(from.size() == to.size());
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) text.replace(at, from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("an op's functions are held to what they tell") {
  const auto nothing = [](const Call&) {};
  static const Op& none =
      register_op({.name = "InfersNone", .infer = [](const Call&) { return Specs(); }, .cpu = nothing});
  static const Op& two = register_op(
      {.name = "InfersTwo", .infer = [](const Call& call) { return Specs(2, call.input(0).spec()); }, .cpu = nothing});
  for (const std::string& each : messages_of([](Tensor x) { return apply(none, {x}); }))
    CHECK(each == "infer returns 0 Specs, where the op has outputs = 1");
  for (const std::string& each : messages_of([](Tensor x) { return apply(two, {x}); }))
    CHECK(each == "infer returns 2 Specs, where the op has outputs = 1");

  const auto evaluates = [](const char* name, std::function<Tensors(const Call&)> f) -> const Op& {
    return register_op({.name = name, .infer = same_shape, .evaluate = std::move(f)});
  };
  static const Op& absent = evaluates("EvaluatesNone", [](const Call&) { return Tensors(); });
  static const Op& empty = evaluates("EvaluatesEmpty", [](const Call&) { return Tensors{Tensor()}; });
  static const Op& longer = evaluates("EvaluatesLonger", [](const Call&) { return Tensors{zeros({7})}; });
  static const Op& whole =
      evaluates("EvaluatesWhole", [](const Call& call) { return Tensors{call.input(0).cast(int32)}; });
  CHECK(messages_of([](Tensor x) { return apply(absent, {x}); })[0] ==
        "evaluate returns 0 tensors, where infer tells 1");
  CHECK(messages_of([](Tensor x) { return apply(empty, {x}); })[0] == "evaluate returns an empty Tensor as output 0");
  CHECK(messages_of([](Tensor x) { return apply(longer, {x}); })[0] ==
        "evaluate returns float32[7] as output 0, where infer tells float32[3]");
  CHECK(messages_of([](Tensor x) { return apply(whole, {x}); })[0] ==
        "evaluate returns int32[3] as output 0, where infer tells float32[3]");
  for (const Op* op : {&absent, &empty, &longer, &whole})
    for (const std::string& each : messages_of([op](Tensor x) { return apply(*op, {x}); }))
      CHECK(each.starts_with("evaluate returns "));

  static const Op& flat =
      register_op({.name = "BatchesFlat", .infer = same_shape, .cpu = nothing, .batch = [](const BatchedCall&) {
                     return Tensors{zeros({7})};
                   }});
  CHECK(message_of<InvalidArgumentError>([&] {
          vmap([](Tensor x) { return apply(flat, {x}); })(zeros({2, 3}));
        }) == "batch returns float32[7] as output 0, which is float32[3] for one example");

  static const Op& beyond = register_op({.name = "WritesBeyond", .infer = same_shape, .cpu = [](const Call& call) {
                                           call.output_data<float>(1)[0] = 1;
                                         }});
  CHECK(messages_of([](Tensor x) { return apply(beyond, {x}); })[0] == "WritesBeyond has 1 outputs, no output 1");
}

TEST_CASE("a composition is held to what infer tells") {
  const auto composed = [](const char* name, std::function<Tensors(const Call&)> f) -> const Op& {
    return register_op({.name = name, .infer = same_shape, .cpu = [](const Call&) {}, .composition = std::move(f)});
  };
  const std::vector<std::pair<const Op*, std::string>> cases{
      {&composed("ComposesSum", [](const Call& call) -> Tensors { return {reduce_sum(call.input(0))}; }),
       "returns float32[] as output 0, where infer tells float32[3]"},
      {&composed("ComposesDouble", [](const Call& call) -> Tensors { return {call.input(0).cast(float64)}; }),
       "returns float64[3] as output 0, where infer tells float32[3]"},
      {&composed("ComposesNone", [](const Call&) { return Tensors(); }), "returns 0 tensors, where infer tells 1"},
      {&composed("ComposesEmpty", [](const Call&) { return Tensors{Tensor()}; }),
       "returns an empty Tensor as output 0"},
      {&composed("ComposesItself", [](const Call& call) { return apply_all(call.op(), call.inputs(), {}, {}, {}); }),
       "applies the op itself, without an end"},
  };
  const TemporaryFolder folder;
  for (const auto& each : cases) {
    const Op* const op = each.first;
    CAPTURE(op->name);
    const Function f = [op](Tensor x) { return apply(*op, {x}); };
    const Tensor x = tensor<float>({1, 2, 3});
    const auto traced = trace(f, {spec(float32, {3}, "x")});
    const std::vector<std::function<void()>> users{
        [&] { grad(f)(x); },
        [&] {
          vmap(f)(ones({2, 3}));
        },
        [&] { traced.graph().as_graph_def(); },
        [&] {
          onnx::save(folder / "x.onnx", {.inputs = {{"x", traced.input()}}, .outputs = {{"y", traced.output()}}});
        },
    };
    for (const auto& use : users) {
      const auto error = caught<InvalidArgumentError>(use);
      CHECK(error.message().find(each.second) != std::string::npos);
      CHECK(error.op() == op->name);
    }
  }
}

TEST_CASE("a gradient that reads what needs leaves out is told so at every size") {
  const auto reads = [](const char* name, Needs needs, bool output) -> const Op& {
    return register_op(
        {.name = name,
         .infer = same_shape,
         .cpu = [](const Call& call) { std::fill_n(call.output_data<float>(), call.output().size(), 1); },
         .gradient = [output](const Call& call,
                              const Tensor& g) { return g * (output ? call.output() : call.input(0)); },
         .needs = needs});
  };
  const std::vector<std::pair<const Op*, std::string>> cases{
      {&reads("NeedsNothing", needs_nothing, false), "The gradient reads input 0, which `needs` leaves out"},
      {&reads("NeedsOutputs", needs_outputs, false), "The gradient reads input 0, which `needs` leaves out"},
      {&reads("NeedsInputs", needs_inputs, true), "The gradient reads output 0, which `needs` leaves out"},
      {&reads("NeedsRight", needs_inputs, false), ""},
  };
  for (const auto& each : cases)
    for (const std::int64_t size : {1, 3, 1000}) {
      const Op* const op = each.first;
      CAPTURE(op->name);
      const auto gradient = grad([op](Tensor x) { return apply(*op, {x}); });
      if (each.second.empty()) {
        CHECK(same_bits(gradient(ones({size})), ones({size})));
        continue;
      }
      const auto error = caught<FailedPreconditionError>([&] { gradient(ones({size})); });
      CHECK(error.message() == each.second);
      CHECK(error.op() == op->name);
    }
}

TEST_CASE("ops without inputs, and without outputs") {
  static int calls = 0;
  static const Op& next = register_op({.name = "UsersCounter",
                                       .infer = [](const Call&) -> Specs {
                                         return {{int32, {}}};
                                       },
                                       .cpu = [](const Call& call) { *call.output_data<std::int32_t>() = ++calls; },
                                       .gradient = no_gradient,
                                       .stateful = true});
  CHECK(apply(next, {}).item<int>() == 1);
  CHECK(apply_op("UsersCounter", {}).item<int>() == 2);
  const auto traced = trace([](Tensor x) { return x + apply(next, {}); }, {spec(int32, {}, "x")});
  CHECK(traced(tensor(10)).item<int>() == 13);
  CHECK(traced(tensor(10)).item<int>() == 14);
  CHECK_THROWS_AS(apply(*find_op("MatMul"), {}), InvalidArgumentError);

  static const Op& sink = register_op({.name = "UsersSink",
                                       .infer = [](const Call&) { return Specs(); },
                                       .cpu = [](const Call&) { ++calls; },
                                       .outputs = 0,
                                       .stateful = true});
  GradientTape tape;
  const Tensor x = ones({3});
  tape.watch(x);
  CHECK(!apply(sink, {x}));
  CHECK(!apply_op("UsersSink", {x}));
  CHECK(apply_all(sink, {x}, {}, {}, {}).empty());
  CHECK(calls == 7);
}

TEST_CASE("a call's attributes are those that its op declares") {
  static const Op& op = register_op(
      {.name = "UsersShrink",
       .attrs = {{"by", AttrKind::real}, {"times", AttrKind::number, true}},
       .infer = same_shape,
       .cpu = [](const Call& call) { *call.output_data<float>() = static_cast<float>(call.attr<double>("by")); }});
  const Tensor x = ones({});
  const auto by_apply = [&](const Attrs& attrs) { return apply(op, {x}, attrs); };
  const auto by_all = [&](const Attrs& attrs) { return apply_all(op, {x}, attrs, {}, Where::here())[0]; };
  const auto by_name = [&](const Attrs& attrs) { return apply_op("UsersShrink", {x}, attrs); };
  for (const std::function<Tensor(const Attrs&)>& call :
       std::vector<std::function<Tensor(const Attrs&)>>{by_apply, by_all, by_name}) {
    CHECK(call({{"by", 2}}).item<float>() == 2);
    CHECK(call({{"by", 0.5}, {"times", 3}}).item<float>() == 0.5F);
    const auto missing = caught<NotFoundError>([&] { call({{"times", 3}}); });
    CHECK(missing.message() == "The attribute 'by' is missing, which is a number");
    const auto other = caught<NotFoundError>([&] { call({{"by", true}}); });
    CHECK(other.message() == "The attribute 'by' must be a number, but is a bool");
    const auto whole = caught<NotFoundError>([&] { call({{"by", 2.0}, {"times", 3.0}}); });
    CHECK(whole.message() == "The attribute 'times' must be a whole number, but is a number");
    const auto unknown = caught<InvalidArgumentError>([&] { call({{"by", 2.0}, {"tims", 3}}); });
    CHECK(unknown.message() == "Op UsersShrink has no attribute 'tims'; it has by, times");
    for (const Error& error : {Error(missing), Error(other), Error(whole)}) CHECK(error.op() == "UsersShrink");
  }
  CHECK(apply_op("LeakyRelu", {-x}, {{"alpha", 2}}).item<float>() == -2);
}

TEST_CASE("exceptions of an op's functions get its name and line, and stay within") {
  static const auto boom = [] { throw std::out_of_range("boom"); };
  static const auto twice = [](const Call& call) { return Tensors{call.input(0) * 2.0}; };
  static const Op& infers = register_op({.name = "BoomInfer",
                                         .infer =
                                             [](const Call& call) {
                                               boom();
                                               return same_shape(call);
                                             },
                                         .evaluate = twice});
  static const Op& computes = register_op({.name = "BoomCpu", .infer = same_shape, .cpu = [](const Call&) { boom(); }});
  static const Op& evaluates =
      register_op({.name = "BoomEvaluate", .infer = same_shape, .evaluate = [](const Call& call) {
                     boom();
                     return twice(call);
                   }});
  static const Op& differentiates = register_op(
      {.name = "BoomGradient", .infer = same_shape, .evaluate = twice, .gradient = [](const Call&, const Tensor& g) {
         boom();
         return g;
       }});
  static const Op& composes = register_op(
      {.name = "BoomComposition", .infer = same_shape, .evaluate = twice, .composition = [](const Call& call) {
         boom();
         return twice(call);
       }});
  for (const Op* op : {&infers, &computes, &evaluates, &differentiates, &composes}) {
    CAPTURE(op->name);
    Where line;
    const auto f = [&](Tensor x) {
      line = Where::here(), x = apply(*op, {x});
      return x;
    };
    try {
      grad(f)(ones({3}));
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.message() == "boom");
      CHECK(error.op() == op->name);
      CHECK(place(error) == to_string(line));
      CHECK_THROWS_AS(std::rethrow_if_nested(error), std::out_of_range);
    }
  }
  const auto traced = trace([](Tensor x) { return apply(computes, {x}); }, {spec(float32, {3}, "x")});
  CHECK(caught<Error>([&] { traced(ones({3})); }).op() == "BoomCpu");
}

TEST_CASE("a program that lacks an op reads what it is composed of") {
  static const Op& triple = register_op(
      {.name = "UsersTriple",
       .attrs = {{"times", AttrKind::real}},
       .infer = same_shape,
       .cpu = [](const Call&) { FAIL("the composition was to run"); },
       .composition = [](const Call& call) -> Tensors { return {call.input(0) * call.attr<double>("times")}; }});
  const auto f = trace([](Tensor x) { return tanh(apply(triple, {x}, {{"times", 3.0}})); }, {spec(float32, {2}, "x")});
  const std::string bytes = f.graph().as_graph_def();
  CHECK(bytes.find("UsersTriple") != std::string::npos);
  const Graph known = Graph::from_graph_def(bytes);
  const auto has = [](const Graph& graph, const std::string& type) {
    const auto all = graph.operations();
    return std::any_of(all.begin(), all.end(), [&](const Operation& each) { return each.type() == type; });
  };
  CHECK(has(known, "UsersTriple"));
  const Graph lacking = Graph::from_graph_def(replaced(bytes, "UsersTriple", "OthersTripl"));
  CHECK(!has(lacking, "UsersTriple"));
  const Tensor x = tensor<float>({0.25, -1});
  const Session session(lacking);
  CHECK(same_bits(session.run(f.output().name(), {{"x:0", x}}), tanh(x * 3.0)));
}

TEST_CASE("an op with a tensor among its attributes is written as its composition") {
  static const Op& shifted = register_op({.name = "UsersShift",
                                          .attrs = {{"by", AttrKind::tensor, true}},
                                          .infer = same_shape,
                                          .cpu = [](const Call&) { FAIL("the composition was to run"); },
                                          .composition = [](const Call& call) -> Tensors {
                                            const Tensor* by = call.attrs().find<Tensor>("by");
                                            return {by ? call.input(0) + *by : call.input(0) * 2.0};
                                          }});
  const Tensor x = tensor<float>({0.25, -1});
  for (const Attrs& attrs : {Attrs(), Attrs{{"by", tensor<float>({1, 2})}}}) {
    const auto f = trace([&](Tensor v) { return apply(shifted, {v}, attrs); }, {spec(float32, {2}, "x")});
    const Session session(Graph::from_graph_def(f.graph().as_graph_def()));
    const Tensor expected = attrs.find("by") ? x + tensor<float>({1, 2}) : x * 2.0;
    CHECK(same_bits(session.run(f.output().name(), {{"x:0", x}}), expected));
  }
}

}  // namespace tapestry::test::user_ops_test
