// Calls: what a literal, a Variable or a list means there, and where an error says that it happened.

#include "api.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"

namespace api_calls_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor twice(const Tensor& x) { return x * 2.0; }

/// Of the numbers 0 ... 5.
template <class T>
void check_lists(const Tensor& x) {
  const Tensor matrix = reshape(x, std::vector<T>{2, 3});
  CHECK(text(matrix) == "int32[2,3]: 0 1 2 3 4 5");
  CHECK(text(transpose(matrix, std::array<T, 2>{1, 0})) == "int32[3,2]: 0 3 1 4 2 5");
  CHECK(text(reduce_sum(matrix, std::vector<T>{1})) == "int32[2]: 3 12");
  CHECK(text(split(x, std::vector<T>{2, 4})[0]) == "int32[2]: 0 1");
  CHECK(text(tile(x, std::vector<T>{1})) == text(x));
  CHECK(text(slice(x, std::vector<T>{1}, std::vector<T>{2})) == "int32[2]: 1 2");
  CHECK(zeros(std::vector<T>{2, 1}).shape() == Shape{2, 1});
  CHECK(spec(float32, std::vector<T>{4}).shape == Shape{4});
}

}  // namespace

// ---- Digits -----------------------------------------------------------------------------------------------------------

TEST_CASE("a literal has the digits of the dtype that it takes") {
  const Tensor z = zeros({2}, {.dtype = float64}), yes = tensor({true, true});
  const Variable w(zeros({2}), {.dtype = float64}), number(0.0, {.dtype = float64});
  Graph graph;
  const auto session_of = [&](const auto& make) {
    const auto scope = graph.as_default();
    return Session(graph).run(make());
  };
  const Tensor x = [&] {
    const auto scope = graph.as_default();
    return placeholder(float64, {-1}, "x");
  }();
  const auto spec64 = spec(float64, {-1});
  const std::vector<std::pair<const char*, Tensor>> values{
      {"Variable of a number", Variable(0.1, {.dtype = float64})},
      {"Variable of a list", Variable({0.1, 0.1}, {.dtype = float64})},
      {"Variable in a graph", session_of([] { return Variable(0.1, {.dtype = float64}); })},
      {"tensor of a number", tensor<double>(0.1)},
      {"tensor of a list", tensor<double>({{0.1}, {0.1}})},
      {"full of a number", full({2}, 0.1, {.dtype = float64})},
      {"full of a list", full({2}, {0.1, 0.1}, {.dtype = float64})},
      {"linspace", linspace(0.1, 1.0, 3, {.dtype = float64})},
      {"arange", arange(0.1, 1.0, 0.5, {.dtype = float64})},
      {"assign a number", number.assign(0.1)},
      {"assign a list", w.assign({0.1, 0.1})},
      {"assign_sub a list", (static_cast<void>(w.assign({0.0, 0.0})), w.assign_sub({-0.1, -0.1}))},
      {"assign_add a list", (static_cast<void>(w.assign({0.0, 0.0})), w.assign_add({0.1, 0.1}))},
      {"assign a list in a graph", session_of([&] {
         return w.assign({0.1, 0.1});
       })},
      {"add a number", z + 0.1},
      {"add a list", add(z, {0.1, 0.1})},
      {"add to a list", add({{0.1}, {0.1}}, z)},
      {"add a vector of rows", add(z, std::vector<std::vector<double>>{{0.1, 0.1}})},
      {"add a list in a graph", session_of([&] {
         return add(z, {0.1, 0.1});
       })},
      {"slice_update", slice_update(z, {0.1, 0.1}, all)},
      {"where", where(yes, {0.1, 0.1}, z)},
      {"clip", clip(z, {0.1, 0.1}, {1.0, 1.0})},
      {"maximum", maximum({0.1, 0.1}, z)},
      {"pad", pad(z, {{1, 1}}, {.value = 0.1})},
      {"feed", Session(graph).run(x, {{x, {0.1, 0.1}}})},
      {"feed by name", Session(graph).run("x:0", {{"x:0", {0.1, 0.1}}})},
      {"callable", Session(graph).make_callable(x, {x})({0.1, 0.1})},
      {"traced", trace([](Tensor v) { return v * 1.0; }, {spec64})({0.1, 0.1})},
  };
  for (const auto& each : values) {
    INFO(std::string(each.first));
    CHECK(to_string(each.second.dtype()) == "float64");
    CHECK(each.second.to_vector<double>()[0] == 0.1);
  }
}

TEST_CASE("a list of floats beside float32 and whole numbers is float32") {
  CHECK(text(add(tensor({1, 2}), {0.5, 0.25})) == "float32[2]: 1.5 2.25");
  CHECK(text(add(ones({2}), {0.5, 0.25})) == "float32[2]: 1.5 1.25");
  CHECK(text(reduce_sum({0.5, 0.25})) == "float32[]: 0.75");
  CHECK(to_string(full({2}, {0.1, 0.1}).dtype()) == "float32");
}

TEST_CASE("a number gives way to the tensors beside it wherever it is passed on, and what is computed of it does not") {
  const auto type = [](const Tensor& x) { return to_string(x.dtype()); };
  const auto passed_on = [](In x, const Tensor& beside) { return multiply(Tensor(x), beside); };
  const Tensor bytes = ones({2}, {.dtype = uint8});
  for (const DType dtype : {uint8, int32, int64, float16, bfloat16, float32, float64})
    CHECK(type(passed_on(2, ones({2}, {.dtype = dtype}))) == to_string(dtype));
  for (const DType dtype : {float16, bfloat16, float32, float64})
    CHECK(type(passed_on(0.1, ones({2}, {.dtype = dtype}))) == to_string(dtype));
  CHECK(passed_on(0.1, ones({}, {.dtype = float64})).item<double>() == 0.1);
  const auto function = [](In x) { return std::pair(add(x, ones({2})), add(x, ones({2}, {.dtype = float64}))); };
  CHECK(type(function(0.1).first) == "float32");
  CHECK(function(0.1).second.to_vector<double>()[0] == 1.1);

  CHECK(type(3 + bytes) == "uint8");
  CHECK(type(add(1, 2) + bytes) == "int32");
  CHECK(type(cast(3, int32) + bytes) == "int32");
  CHECK(type(cast(0.5, float64) + ones({2})) == "float64");
  CHECK(type(cast(0.5, float32) + ones({2}, {.dtype = float16})) == "float32");
  CHECK(cast(0.1, float64).item<double>() == 0.1);
  CHECK(type(add(0.5, 0.25) + ones({2}, {.dtype = float16})) == "float32");
  const Variable variable(0.0, {.dtype = float64});
  const auto assigned = [&](In x) { return variable.assign(x.tensor()); };
  assigned(0.5);
  CHECK(type(variable + ones({2})) == "float64");
}

TEST_CASE("a whole number that is assigned fits its Variable") {
  const Variable bytes({1, 2}, {.dtype = uint8});
  CHECK(text(bytes.assign({3, 255})) == "uint8[2]: 3 255");
  TAPESTRY_REFUSED(InvalidArgumentError, "300 does not fit the element type uint8", bytes.assign({3, 300}));
  TAPESTRY_REFUSED(InvalidArgumentError, "a float does not turn into a whole number", bytes.assign({3.0, 4.0}));
  CHECK(text(bytes) == "uint8[2]: 3 255");
}

// ---- Places -----------------------------------------------------------------------------------------------------------

TEST_CASE("an error of a call names the caller's line") {
  const auto traced = trace(twice, {spec(float32, {2}, "x")});
  const auto two = trace([](Tensor x, Tensor y) { return x + y; }, {spec(float32, {2}), spec(float32, {2})});
  const auto list =
      trace([](const std::vector<Tensor>& xs) { return xs[0] + xs[1]; }, {spec(float32, {2}), spec(float32, {2})});
  const auto anew = function(twice);
  const Graph graph;
  const Tensor a = [&] {
    const auto scope = graph.as_default();
    return placeholder(float32, {2}, "a");
  }();
  const Session session(graph);
  const auto one = session.make_callable(a, {a});
  const auto many = session.make_callable({a, a}, {a});

  TAPESTRY_REFUSED(InvalidArgumentError, "Argument 0, 'x', of the traced function is float32[2], not float32[3]",
                   traced(tensor({1.0, 2.0, 3.0})));
  TAPESTRY_REFUSED(InvalidArgumentError, "not float32[3]", two({1.0, 2.0}, {1.0, 2.0, 3.0}));
  TAPESTRY_REFUSED(InvalidArgumentError, "not an empty Tensor", traced(Tensor()));
  TAPESTRY_REFUSED(InvalidArgumentError, "not float32[3]", list({tensor({1.0, 2.0}), tensor({1.0, 2.0, 3.0})}));
  TAPESTRY_REFUSED(InvalidArgumentError, "not float32[3]", list(tensor({1.0, 2.0, 3.0}), {1.0, 2.0}));
  TAPESTRY_REFUSED(InvalidArgumentError, "The traced function takes 2 tensors, not 1", list(tensor({1.0, 2.0})));
  TAPESTRY_REFUSED(InvalidArgumentError, "The traced function takes 2 tensors, not 0", list());
  TAPESTRY_REFUSED(InvalidArgumentError, "an empty Tensor", anew(Tensor()));
  TAPESTRY_REFUSED(InvalidArgumentError, "A nested list must be rectangular", anew({{1.0}, {1.0, 2.0}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "Cannot feed value of shape (3,)", one({1.0, 2.0, 3.0}));
  TAPESTRY_REFUSED(InvalidArgumentError, "Cannot feed value of shape (3,)", many(tensor({1.0, 2.0, 3.0})));
  TAPESTRY_REFUSED(InvalidArgumentError, "The callable takes 1 values, not 2", many(1.0, 2.0));
  TAPESTRY_REFUSED(InvalidArgumentError, "The callable takes 1 values, not 0", one());
}

// ---- Traced calls -----------------------------------------------------------------------------------------------------

TEST_CASE("a traced call converts what fits and refuses what it would narrow") {
  const auto to = [](DType type) { return trace([](Tensor x) { return identity(x); }, {spec(type, {-1})}); };
  const auto f64 = to(float64), f32 = to(float32), f16 = to(float16), i64 = to(int64), i32 = to(int32), u8 = to(uint8),
             b = to(boolean);
  CHECK(text(f32({1, 2})) == "float32[2]: 1 2");
  CHECK(text(f32({0.5, 1})) == "float32[2]: 0.5 1");
  CHECK(text(f16({0.5, 1})) == "float16[2]: 0.5 1");
  CHECK(text(f32(tensor({true, false}))) == "float32[2]: 1 0");
  CHECK(text(f32(tensor({16777216, 3}))) == "float32[2]: 1.67772e+07 3");
  CHECK(text(f64(tensor({0.5, 1.0}))) == "float64[2]: 0.5 1");
  CHECK(text(f64(tensor({2147483647}))) == "float64[1]: 2.14748e+09");
  CHECK(text(i64(tensor({3}))) == "int64[1]: 3");
  CHECK(text(i32({std::int64_t{3}})) == "int32[1]: 3");
  CHECK(text(u8({255, 0})) == "uint8[2]: 255 0");
  CHECK(text(f32(Variable({1.0, 2.0}))) == "float32[2]: 1 2");
  CHECK(text(f32(std::vector<float>{1, 2})) == "float32[2]: 1 2");

  TAPESTRY_REFUSED(InvalidArgumentError, "is float32[?], not float64[2], which is not narrowed",
                   f32(tensor<double>({0.5, 1})));
  TAPESTRY_REFUSED(InvalidArgumentError, "not float64[1]", f32(std::vector<double>{0.5}));
  TAPESTRY_REFUSED(InvalidArgumentError, "not float32[1]", f16(tensor({0.5})));
  TAPESTRY_REFUSED(InvalidArgumentError, "not int64[1]", i32(tensor<std::int64_t>({3})));
  TAPESTRY_REFUSED(InvalidArgumentError, "not int32[1]", u8(tensor({3})));
  TAPESTRY_REFUSED(InvalidArgumentError, "not float32[1]", i32({1.0}));
  TAPESTRY_REFUSED(InvalidArgumentError, "not float32[1]", i64(tensor({1.0})));
  TAPESTRY_REFUSED(InvalidArgumentError, "not int32[1]", b({1}));
  TAPESTRY_REFUSED(InvalidArgumentError, "3000000000 does not fit the element type int32", i32({3000000000}));
  TAPESTRY_REFUSED(InvalidArgumentError, "-1 does not fit the element type uint8", u8({-1}));
  TAPESTRY_REFUSED(InvalidArgumentError, "of which a value does not fit float32", f32({1e39}));
  TAPESTRY_REFUSED(InvalidArgumentError, "of which a value does not fit float32", f32({16777217}));
  TAPESTRY_REFUSED(InvalidArgumentError, "of which a value does not fit float32", f32(tensor({16777217})));
  TAPESTRY_REFUSED(InvalidArgumentError, "of which a value does not fit float64",
                   f64(tensor<std::int64_t>({std::numeric_limits<std::int64_t>::max()})));
}

TEST_CASE("a traced call that is watched takes and refuses the same") {
  const auto f = trace([](Tensor x) { return reduce_sum(square(x)); }, {spec(float64, {2})});
  const Tensor x = tensor({1.0, 2.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  CHECK(to_string(y.dtype()) == "float64");
  CHECK(text(tape.gradient(y, x)) == "float32[2]: 2 4");
  GradientTape other;
  TAPESTRY_REFUSED(InvalidArgumentError, "is float64[2], not float32[3]", f({1.0, 2.0, 3.0}));
  const auto outer = trace([&](Tensor v) { return f(v); }, {spec(float32, {2})});
  CHECK(text(outer({1.0, 2.0})) == "float64[]: 5");
  TAPESTRY_REFUSED(InvalidArgumentError, "is float64[2], not float32[3]",
                   trace([&](Tensor v) { return f(v); }, {spec(float32, {3})}));
}

TEST_CASE("braces, numbers and Variables are arguments of every call") {
  const auto f = trace([](Tensor x, Tensor y) { return x * y; }, {spec(float32, {2}), spec(float32, {})});
  CHECK(text(f({1, 2}, 0.5)) == "float32[2]: 0.5 1");
  CHECK(text(f(Variable({1.0, 2.0}), 2)) == "float32[2]: 2 4");
  const auto g = function([](Tensor x, Tensor y) { return x * y; });
  CHECK(text(g({{1.0, 2.0}}, {{3.0}, {4.0}})) == "float32[2,2]: 3 6 4 8");
  CHECK(text(trace([] { return ones({1}); }, {})()) == "float32[1]: 1");
  CHECK(text(function([] { return ones({1}); })()) == "float32[1]: 1");
  const Graph graph;
  const Tensor a = [&] {
    const auto scope = graph.as_default();
    return placeholder(float32, {-1}, "a");
  }();
  const Variable w({4.0});
  const Session session(graph);
  CHECK(text(session.run(a, {{a, w}})) == "float32[1]: 4");
  CHECK(text(session.make_callable(a * 2.0, {a})({1, 2})) == "float32[2]: 2 4");
  CHECK(text(session.make_callable(a * 2.0, {a})(w)) == "float32[1]: 8");
}

TEST_CASE("a traced function of a list is called with one, or with tensors") {
  const auto sum = [](const std::vector<Tensor>& xs) { return xs[0] + xs[1]; };
  const auto traced = trace(sum, {spec(float32, {2}), spec(float32, {2})});
  const auto anew = function(sum);
  const Tensor a = tensor({1.0, 2.0}), b = tensor({3.0, 4.0});
  const std::vector<Variable> variables{Variable(a), Variable(b)};
  all_same({a + b, traced(std::vector<Tensor>{a, b}), traced(a, b), traced({a, b}), traced({1, 2}, {3, 4}),
            traced({{1, 2}, {3, 4}}), traced(std::array{a, b}), traced(Tensors{a, b}), traced(variables),
            anew(std::vector<Tensor>{a, b}), anew(a, b), anew({a, b}), anew(variables)});
  const auto one = trace([](const std::vector<Tensor>& xs) { return xs[0]; }, {spec(float32, {2})});
  all_same({a, one(a), one({a}), one(std::vector<Tensor>{a}), one(std::vector<float>{1, 2}), one(variables[0])});
}

TEST_CASE("lists of integers of any width are shapes, axes, permutations, sizes and literals") {
  const Tensor x = arange(6);
  check_lists<int>(x);
  check_lists<short>(x);
  check_lists<unsigned>(x);
  check_lists<std::size_t>(x);
  check_lists<std::int64_t>(x);
  CHECK(text(tensor(std::vector<short>{1, -2})) == "int32[2]: 1 -2");
  CHECK(text(tensor(std::array<unsigned, 1>{4000000000}) - 3999999999) == "int64[1]: 1");
  CHECK(text(tensor<float>(std::vector<std::size_t>{1, 2})) == "float32[2]: 1 2");
  CHECK(text(tensor(std::vector<std::vector<unsigned short>>{{1}, {2}})) == "int32[2,1]: 1 2");
  CHECK(tensor({3, 4}).to_vector<std::size_t>() == std::vector<std::size_t>{3, 4});
  CHECK(argmax(tensor({1.0, 3.0})).item<std::size_t>() == 1);
  constexpr std::size_t huge = std::numeric_limits<std::size_t>::max();
  CHECK_THROWS_AS(tensor(std::vector{huge}, {1}), InvalidArgumentError);
  TAPESTRY_REFUSED(InvalidArgumentError, "Dimension -5 must be >= 0", zeros(std::vector<int>{-5}));
  TAPESTRY_REFUSED(InvalidArgumentError, "the product of its sizes exceeds", zeros(std::vector<std::size_t>{huge, 2}));
}

TEST_CASE("a Variable or a number in a result stands for its tensor") {
  const Variable w({1.0, 2.0});
  const auto choose = [&](const Tensor& x) {
    return cond(
        x(0) > 0.0,
        [&] {
          return std::tuple{w, 1};
        },
        [&] {
          return std::tuple{x, 3};
        });
  };
  const auto count = [](const Tensor& x) {
    return while_loop([](Tensor i, Tensor) { return i < 3; },
                      [](Tensor i, Tensor) {
                        return std::tuple{i + 1, 2.0};
                      },
                      std::tuple{0, x});
  };
  const auto traced_choose = trace(choose, {spec(float32, {2})});
  const auto traced_count = trace(count, {spec(float32, {})});
  for (const Tensor& x : {tensor({1.0, 5.0}), tensor({-1.0, 5.0})}) {
    const auto [chosen, number] = choose(x);
    const auto [traced, traced_number] = traced_choose(x);
    all_same({chosen, traced});
    all_same({number, traced_number});
    const auto [i, last] = count(x(1));
    const auto [traced_i, traced_last] = traced_count(x(1));
    CHECK(text(last) == "float32[]: 2");
    all_same({i, traced_i});
    all_same({last, traced_last});
  }
  CHECK(text(cond(
            true, [&] { return Variable(w); }, [] { return ones({2}); })) == "float32[2]: 1 2");
  CHECK(text(trace([&] { return std::pair{w, 0.5}; }, {})().second) == "float32[]: 0.5");
  CHECK(text(vmap([](Tensor x) { return std::pair{x, 1.0}; })(w).second) == "float32[2]: 1 1");
  CHECK(text(std::get<1>(scan([](Tensor h, Tensor x) { return std::tuple{h + x, 1}; }, 0.0, w))) == "int32[2]: 1 1");
}

TEST_CASE("a struct of tensors is a result, an argument and a loop variable, eagerly and traced") {
  struct Own {
    Tensor first;
    nn::LSTMState state;
  };
  const Tensor x = tensor({{3.0, 1.0, 2.0}, {4.0, 6.0, 5.0}});
  const nn::GRU gru(3, 2);
  const auto list = [&](const Tensor& a) -> std::vector<Tensor> {
    const Own chosen = cond(
        reduce_sum(a) > 0.0,
        [&] {
          return Own{a, {a * 2.0, sin(a)}};
        },
        [&] {
          return Own{-a, {a, a}};
        });
    const TopK best = vmap([](const Tensor& row) { return top_k(row, 2); })(a);
    const auto mapped = map([](const Tensor& row) { return std::pair{top_k(row, 1), moments(row, {0})}; }, a);
    const nn::LSTMState looped = while_loop([](const nn::LSTMState& s) { return reduce_sum(s.h) < 99.0; },
                                            [](const nn::LSTMState& s) {
                                              return nn::LSTMState{s.h + s.c, s.h};
                                            },
                                            nn::LSTMState{a, a * 0.5});
    const auto [carried, outputs] = scan(
        [](const nn::LSTMState& s, const Tensor& row) {
          return std::pair{nn::LSTMState{s.h + row, s.c * row}, TopK{row, s.h}};
        },
        nn::LSTMState{zeros({3}), ones({3})}, a);
    const Tensor examples = vmap([](const nn::LSTMState& s) { return s.h - s.c; })(nn::LSTMState{a, cos(a)});
    const nn::RNNResult run = gru(reshape(a, {1, 2, 3}));
    return {chosen.first,           chosen.state.h, chosen.state.c, best.values, best.indices, mapped.first.indices,
            mapped.second.variance, looped.h,       looped.c,       carried.h,   carried.c,    outputs.values,
            outputs.indices,        examples,       run.output,     run.state};
  };
  const auto traced = trace(list, {spec(float32, {2, 3})});
  const std::vector<Tensor> expected = list(x), given = traced(x);
  for (std::size_t i = 0; i < expected.size(); ++i) all_same({expected[i], given[i]});
  const TopK best = trace([](const Tensor& a) { return top_k(a, 2); }, {spec(float32, {2, 3})})(x);
  CHECK(text(best.indices) == "int32[2,2]: 0 2 1 2");
  const Unique found = function([](const Tensor& a) { return unique(a); })(tensor({4, 4, 2}));
  CHECK(text(found.counts) == "int32[2]: 2 1");
  const Own own = function([](const Tensor& a) { return Own{a, {a + 1, a + 2}}; })(tensor(1));
  CHECK(text(own.state.c) == "int32[]: 3");
  const nn::PackedRNNResult packed = trace([&](const Tensor& a) { return gru(nn::pack_padded_sequence(a, {2})); },
                                           {spec(float32, {1, 2, 3})})(ones({1, 2, 3}));
  CHECK(packed.output.data.shape() == Shape{2, 2});
  const auto nested = trace(
      [](const Tensor& a) {
        return std::tuple{top_k(a, 1), 2.0, std::array{a, a}};
      },
      {spec(float32, {3})})(tensor({1.0, 3.0, 2.0}));
  CHECK(text(std::get<0>(nested).values) == "float32[1]: 3");
  CHECK(text(std::get<1>(nested)) == "float32[]: 2");
}

TEST_CASE("parameters of a traced function that have defaults keep them") {
  const auto f = [](const Tensor& x, const Tensor& factor = tensor(3.0), int more = 1) { return x * factor + more; };
  CHECK(text(trace(f, {spec(float32, {})})(2.0)) == "float32[]: 7");
  CHECK(text(function(f)(2.0)) == "float32[]: 7");
  TAPESTRY_REFUSED(InvalidArgumentError, "The function takes 1 tensors, not 2",
                   trace(f, {spec(float32, {}), spec(float32, {})}));
}

TEST_CASE("a dtype stands for options") {
  CHECK(text(zeros({1}, float64)) == "float64[1]: 0");
  CHECK(text(ones({1}, int32, "ones")) == "int32[1]: 1");
  CHECK(text(full({1}, 3, float32)) == "float32[1]: 3");
}

TEST_CASE("a trace of a traced function, and of a gradient, takes what they take") {
  const auto f = trace([](Tensor x, Tensor y) { return x * y; }, {spec(float32, {}), spec(float32, {})});
  CHECK(text(trace(f, {spec(float32, {}), spec(float32, {})})(2, 3)) == "float32[]: 6");
  CHECK(text(function(f)(2.0, 3.0)) == "float32[]: 6");
  const auto both = trace(grad([](Tensor x, Tensor y) { return x * y; }), {spec(float32, {}), spec(float32, {})});
  CHECK(text(both(2, 3)[1]) == "float32[]: 2");
  const auto [value, slope] = trace(value_and_grad([](Tensor x) { return x * x; }), {spec(float32, {})})(3);
  CHECK(text(value) == "float32[]: 9");
  CHECK(text(slope) == "float32[]: 6");
  const auto list = trace([](const std::vector<Tensor>& xs) { return xs[0]; }, {spec(float32, {})});
  CHECK(text(trace(list, {spec(float32, {})})(5)) == "float32[]: 5");
}

TEST_CASE("a spec of a tensor or a Variable") {
  const TensorSpec of_tensor = spec(tensor<double>({{1, 2}}), "x"), of_variable = spec(Variable({1, 2}));
  CHECK(to_string(of_tensor.dtype) + to_string(of_tensor.shape) + of_tensor.name == "float64[1,2]x");
  CHECK(to_string(of_variable.dtype) + to_string(of_variable.shape) + of_variable.name == "int32[2]");
  const Tensor x = tensor({1.0, 2.0});
  CHECK(text(trace(twice, {spec(x)})(x)) == "float32[2]: 2 4");
}

TEST_CASE("options of a trace reach its session") {
  const auto f = [](Tensor x) { return exp(x * 2.0 + 1.0); };
  const Tensor x = tensor({0.5, 1.0});
  const auto plain = trace(f, {spec(float32, {-1})}, {.most_plans = 1});
  const auto without = trace(f, {spec(float32, {-1})}, {.disabled_passes = {"fuse", "fold"}});
  check_same(without(x), plain(x), 1e-6);
  TAPESTRY_REFUSED(InvalidArgumentError, "no such pass",
                   trace(f, {spec(float32, {-1})}, {.disabled_passes = {"no such pass"}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "no such pass", Session(Graph(), {.disabled_passes = {"no such pass"}}));
  const auto few = function(f, {.most_plans = 2});
  for (std::int64_t n = 1; n < 6; ++n) check_same(few(ones({n})), f(ones({n})), 1e-6);
  CHECK(few.trace_count() == 2);
}

// ---- Variables and gradients ------------------------------------------------------------------------------------------

TEST_CASE("a const Variable can be assigned") {
  const Variable w(1.0);
  CHECK(text(w.assign(2.0)) == "float32[]: 2");
  CHECK(text(w.assign_add(3.0)) == "float32[]: 5");
  CHECK(text(w.assign_sub(1.0)) == "float32[]: 4");
  const auto by_value = [w] { w.assign_add(1); };
  by_value();
  CHECK(text(w) == "float32[]: 5");
  const nn::Dense layer(1, 1);
  layer.weight.assign({{7.0}});
  CHECK(text(layer.weight) == "float32[1,1]: 7");
}

TEST_CASE("gradients come in the form of their sources") {
  const Variable w({1.0, 2.0}), v(3.0);
  const std::vector<Variable> parameters{w, v};
  const Tensor x = tensor({4.0, 5.0});
  const auto loss = [&] { return reduce_sum(w * x) * v; };
  const auto check = [](const std::vector<Tensor>& list, const Tensor& dx) {
    REQUIRE(list.size() == 2);
    CHECK(text(list[0]) == "float32[2]: 12 15");
    CHECK(text(list[1]) == "float32[]: 14");
    CHECK(text(dx) == "float32[2]: 3 6");
  };
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = loss();
  {
    const auto [list, dx] = tape.gradient(y, parameters, x);
    check(list, dx);
    const auto [again, more] = tape.gradient(y, x, parameters);
    check(more, again);
  }
  const auto [first, dx, second] = tape.gradient(y, std::vector{w}, x, std::array{v});
  check({first[0], second[0]}, dx);
  const std::array<Tensor, 3> each = tape.gradient(y, w, v, x);
  check({each[0], each[1]}, each[2]);
  const std::vector<Tensor> braced = tape.gradient(y, {w, v, x}), array = tape.gradient(y, std::array{w, v});
  check({braced[0], braced[1]}, braced[2]);
  check(array, braced[2]);

  const auto [value, gradients] = value_and_grad(
      [](const std::vector<Variable>& ws, Tensor a) { return reduce_sum(ws[0] * a) * ws[1]; })(parameters, x);
  CHECK(text(value) == "float32[]: 42");
  check(std::get<0>(gradients), std::get<1>(gradients));

  Graph graph;
  const auto scope = graph.as_default();
  const Tensor fed = placeholder(float32, {2}, "x");
  const auto [list, symbolic] = tapestry::gradients(reduce_sum(w * fed) * v, parameters, fed);
  const auto [values, dfed] = Session().run(std::tuple{list, symbolic}, {{fed, x}});
  check(values, dfed);
}

// ---- Modules ----------------------------------------------------------------------------------------------------------

TEST_CASE("a function is a layer of a Sequential") {
  nn::Sequential net{nn::Dense(2, 2), relu, [](const Tensor& x) { return x * 2.0; }};
  net.add([](Tensor x) { return x + 1.0; });
  const Tensor x = tensor({{1.0, -1.0}});
  check_same(net(x), relu(net.at<nn::Dense>(0)(x)) * 2.0 + 1.0);
  CHECK(net.parameters().size() == 2);
  const nn::Sequential copy = net;
  check_same(copy(x), net(x));
}

// ---- Shapes in errors -------------------------------------------------------------------------------------------------

TEST_CASE("errors have the operands of a product as the user has them") {
  const Tensor v3 = ones({3}), v4 = ones({4}), m = ones({4, 5}), batch = ones({2, 4, 5}), scalar = ones({});
  TAPESTRY_REFUSED(InvalidArgumentError, "In[0]: [3], In[1]: [4,5] [Op:MatMul]", matmul(v3, m));
  TAPESTRY_REFUSED(InvalidArgumentError, "In[0]: [4,5], In[1]: [3] [Op:MatMul]", matmul(m, v3));
  TAPESTRY_REFUSED(InvalidArgumentError, "In[0]: [4,5]^T, In[1]: [3]", matmul(m, v3, {.transpose_a = true}));
  TAPESTRY_REFUSED(InvalidArgumentError, "In[0]: [4], In[1]: [4,5]^T", matmul(v4, m, {.transpose_b = true}));
  TAPESTRY_REFUSED(InvalidArgumentError, "In[0]: [3], In[1]: [4] [Op:MatMul]", matmul(v3, v4));
  TAPESTRY_REFUSED(InvalidArgumentError, "In[0]: [3], In[1]: [2,4,5]", matmul(v3, batch));
  TAPESTRY_REFUSED(InvalidArgumentError, "is rank 0 for 'MatMul' (op: 'MatMul') with input shapes: [], [3].",
                   matmul(scalar, v3));
  TAPESTRY_REFUSED(InvalidArgumentError, "incompatible: [3,3] vs. [4]", solve(eye(3), v4));
  TAPESTRY_REFUSED(InvalidArgumentError, "of the shapes [4,5] and [2,4,5]", tensordot(m, batch, 2));
  TAPESTRY_REFUSED(InvalidArgumentError, "gives the letter 'j' to axes of sizes 5 and 4", einsum("ij,jk->ik", {m, m}));
  const auto in_trace = [](const auto& f, const std::vector<TensorSpec>& specs) { trace(f, specs); };
  const auto text_of = [&](const auto& f, const std::vector<TensorSpec>& specs) {
    return message_of<InvalidArgumentError>([&] { in_trace(f, specs); });
  };
  const auto product = [](Tensor a, Tensor b) { return matmul(a, b); };
  CHECK(text_of(product, {spec(float32, {3}), spec(float32, {4, 5})}) ==
        "Dimensions must be equal, but are 3 and 4 for 'MatMul' (op: 'MatMul') with input shapes: [3], [4,5].");
  CHECK(text_of(product, {spec(float32, {-1, 5}), spec(float32, {4})}) ==
        "Dimensions must be equal, but are 5 and 4 for 'MatMul' (op: 'MatMul') with input shapes: [?,5], [4].");
  const auto late = trace(product, {spec(float32, {-1}), spec(float32, {-1})});
  CHECK(message_of<InvalidArgumentError>([&] { late(v3, v4); }) ==
        "Dimensions must be equal, but are 3 and 4 for 'MatMul' (op: 'MatMul') with input shapes: [3], [4].");
  const nn::Dense layer(8, 9);
  CHECK(text_of([&](Tensor x) { return layer(x); }, {spec(float32, {-1, 5})}).find("[?,5], [9,8]^T") !=
        std::string::npos);
}

}  // namespace api_calls_test
