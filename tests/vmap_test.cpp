// vmap, and the jacobians that are made of it.

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::vmap_test {
namespace {

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;

Tensor f64(const Init& value) { return tensor<double>(value); }

constexpr int examples = 3;

/// Another example of an input: of its dtype and shape, with elements that the row's function takes, too.
Tensor variant(const Tensor& x, int example) {
  if (is_floating(x.dtype())) return x * (1.0 - 0.25 * example);
  return example == 1 ? reshape(flip(reshape(x, {-1}), {0}), x.shape()) : x;
}

/// A sum of the elements in which each counts differently; the size need not be known.
Tensor weighted(const Tensor& y) {
  const Tensor flat = reshape(y, {-1});
  return reduce_sum(flat * cos(cumsum(ones_like(flat))));
}

/// The gradients of all float arguments as one vector, in the style of f itself.
Function gradient_of(const Function& f) {
  return [f](const Inputs& inputs) {
    GradientTape tape;
    Inputs sources, flat;
    for (const Tensor& input : inputs) {
      if (!is_floating(input.dtype())) continue;
      tape.watch(input);
      sources.push_back(input);
    }
    for (const Tensor& each : tape.gradient(weighted(f(inputs)), sources, {.unconnected = Unconnected::zero}))
      flat.push_back(reshape(each, {-1}));
    return concat(flat, 0);
  };
}

/// The inputs of one example: those of the mask differ from example to example.
Inputs inputs_of(const OpCase& row, unsigned mask, int example) {
  Inputs inputs = row.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if ((mask >> i & 1) != 0) inputs[i] = variant(inputs[i], example);
  return inputs;
}

Tensor mapped(const Function& f, const OpCase& row, unsigned mask, const Inputs& batch) {
  std::vector<std::optional<int>> axes;
  for (std::size_t i = 0; i < row.inputs.size(); ++i) axes.push_back((mask >> i & 1) != 0 ? std::optional(0) : none);
  return detail::flat_vmap([&](const Tensors& example) -> Tensors { return {f(Inputs(example))}; }, Tensors(batch),
                           axes, 0, Where::here())[0];
}

/// Checks that what f gives for a batch is what it gives for each example; `tolerance`: for sums in another order.
void check_mapped(const Function& f, const OpCase& row, unsigned mask, double tolerance) {
  Inputs batch = row.inputs, results;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if ((mask >> i & 1) == 0) continue;
    Inputs all;
    for (int example = 0; example < examples; ++example) all.push_back(variant(row.inputs[i], example));
    batch[i] = stack(all);
  }
  for (int example = 0; example < examples; ++example) results.push_back(f(inputs_of(row, mask, example)));
  const bool alike = std::all_of(results.begin(), results.end(),
                                 [&](const Tensor& each) { return each.shape() == results[0].shape(); });
  if (!alike) {
    CHECK_THROWS_AS(mapped(f, row, mask, batch), InvalidArgumentError);
    return;
  }
  check_same(mapped(f, row, mask, batch), stack(results), tolerance);
}

/// All inputs together, and each alone.
std::vector<unsigned> masks_of(const OpCase& row) {
  const auto count = static_cast<unsigned>(row.inputs.size());
  std::vector<unsigned> masks;
  if (count > 0) masks.push_back((1U << count) - 1);
  for (unsigned i = 0; count > 1 && i < count; ++i) masks.push_back(1U << i);
  return masks;
}

/// Whether the row's function draws random numbers, or has tensors of as many axes as there can be.
bool is_left_out(const OpCase& row) {
  const random::State before = random::state();
  const Tensor result = row.f(row.inputs);
  const bool draws = random::state() != before;
  const auto is_full = [](const Tensor& each) { return each.rank() >= Shape::max_rank - 1; };
  return draws || is_full(result) || std::any_of(row.inputs.begin(), row.inputs.end(), is_full);
}

}  // namespace

TEST_CASE("vmap of every op, of its gradient and of that one's gradient gives what each example gives") {
  int rows = 0;
  for (const OpCase& row : op_cases()) {
    if (is_left_out(row)) continue;
    CAPTURE(row.name);
    for (const unsigned mask : masks_of(row)) {
      CAPTURE(mask);
      ++rows;
      check_mapped(row.f, row, mask, 1e-12);
      if (row.orders >= 1) check_mapped(gradient_of(row.f), row, mask, 1e-10);
      if (row.orders >= 2) check_mapped(gradient_of(gradient_of(row.f)), row, mask, 1e-8);
    }
  }
  CHECK(rows > 300);
}

TEST_CASE("the gradient of what vmap gives") {
  for (const OpCase& row : op_cases()) {
    if (is_left_out(row) || row.orders == 0) continue;
    CAPTURE(row.name);
    for (const unsigned mask : masks_of(row)) {
      CAPTURE(mask);
      const auto by_loop = [&](const Inputs& batch) {
        Inputs results;
        for (int example = 0; example < examples; ++example) {
          Inputs inputs = batch;
          for (std::size_t i = 0; i < inputs.size(); ++i)
            if ((mask >> i & 1) != 0) inputs[i] = gather(batch[i], example);
          results.push_back(row.f(inputs));
        }
        return stack(results);
      };
      Inputs batch = row.inputs;
      for (std::size_t i = 0; i < batch.size(); ++i)
        if ((mask >> i & 1) != 0) batch[i] = stack({batch[i], variant(batch[i], 1), variant(batch[i], 2)});
      Tensor expected;
      try {
        expected = gradient_of(by_loop)(batch);
      } catch (const InvalidArgumentError&) {
        continue;  // the examples' results have different shapes
      }
      check_same(gradient_of([&](const Inputs& x) { return mapped(row.f, row, mask, x); })(batch), expected, 1e-10);
    }
  }
}

TEST_CASE("jvp of every op, and of its gradient, agrees with the gradient") {
  for (const OpCase& row : op_cases()) {
    if (is_left_out(row)) continue;
    CAPTURE(row.name);
    for (std::size_t i = 0; i < row.inputs.size(); ++i) {
      if (!is_floating(row.inputs[i].dtype())) continue;
      CAPTURE(i);
      const auto check = [&](const Function& f) {
        const auto of_one = [&](const Tensor& x) {
          Inputs inputs = row.inputs;
          inputs[i] = x;
          return f(inputs);
        };
        const Tensor &x = row.inputs[i], d = numbers(x.shape(), -1, 1, 5).cast(x.dtype());
        const auto [y, dy] = jvp(of_one, x, d);
        const Tensor u = numbers(y.shape(), -1, 1, 6).cast(y.dtype());
        const double forward = reduce_sum(u * dy).item<double>();
        const double backward = reduce_sum(vjp(of_one, x, u).second * d).item<double>();
        CHECK(agree(forward, backward, 1e-10));
      };
      if (row.orders >= 1) check(row.f);
      if (row.orders >= 2) check(gradient_of(row.f));
    }
  }
}

TEST_CASE("axes of the arguments and of the outputs") {
  const Tensor x = reshape(arange(24).cast(float64), {2, 3, 4}), w = f64({1, 2, 3, 4});
  const auto f = [](const Tensor& a, const Tensor& b) { return reduce_sum(a * b, -1); };
  CHECK(to_string(vmap(f, {.in_axes = {0, none}})(x, w).shape()) == "[2,3]");
  check_same(vmap(f, {.in_axes = {1, none}})(x, w), transpose(reduce_sum(x * w, -1)));
  check_same(vmap(f, {.in_axes = {1, none}, .out_axis = 1})(x, w), reduce_sum(x * w, -1));
  check_same(vmap(f, {.in_axes = {-2, none}, .out_axis = -1})(x, w), reduce_sum(x * w, -1));
  const Tensor last = vmap(f, {.in_axes = {-1, 0}})(x, w);
  for (int i = 0; i < 4; ++i) check_same(last(i), reduce_sum(x(all, all, i) * w(i), -1));
}

TEST_CASE("several results, lists and tuples, Variables, and results that all examples share") {
  const Tensor x = f64({{1, 2}, {3, 4}, {5, 6}});
  const Variable v(f64({10, 20}));
  const auto [sum, shared] = vmap([&](const Tensor& row) { return std::pair(reduce_sum(row * v), 2.0 * v); })(x);
  check_values(sum, {50, 110, 170});
  check_values(shared, {20, 40, 20, 40, 20, 40});
  const std::vector<Tensor> list = vmap([](const std::vector<Tensor>& rows) {
    return std::vector<Tensor>{rows[0] + rows[1], rows[0]};
  })(std::vector<Tensor>{x, 2.0 * x});
  check_same(list[0], 3.0 * x);
  check_same(list[1], x);
  check_values(vmap([](const Tensor& row, const Tensor& factor) { return reduce_max(row) * factor; },
                    {.in_axes = {0, none}})(x, 2.0),
               {4, 8, 12});
}

TEST_CASE("vmap nests") {
  const Tensor a = numbers({3, 4}, -1, 1, 1), b = numbers({5, 4}, -1, 1, 2);
  const auto dot = [](const Tensor& x, const Tensor& y) { return reduce_sum(x * y); };
  const auto rows = vmap(vmap(dot, {.in_axes = {none, 0}}), {.in_axes = {0, none}});
  check_same(rows(a, b), matmul(a, b, {.transpose_b = true}), 1e-14);
}

TEST_CASE("the gradient of each example, of each row of a jacobian, and of a sum over examples") {
  const Tensor x = numbers({6, 3}, -1, 1, 1), w = numbers({3}, -1, 1, 2);
  const auto loss = [](const Tensor& parameters, const Tensor& example) {
    return square(tanh(reduce_sum(parameters * example)) - 0.5);
  };
  const auto of_parameters = [&](const Tensor& p, const Tensor& e) { return grad(loss)(p, e)[0]; };
  const Tensor per_example = vmap(of_parameters, {.in_axes = {none, 0}})(w, x);
  CHECK(to_string(per_example.shape()) == "[6,3]");
  for (int i = 0; i < 6; ++i)
    check_same(per_example(i), grad([&](const Tensor& p) { return loss(p, x(i)); })(w), 1e-14);
  const Tensor total = grad([&](const Tensor& p) { return reduce_sum(vmap(loss, {.in_axes = {none, 0}})(p, x)); })(w);
  check_same(total, reduce_sum(per_example, 0), 1e-14);
  const Variable v(w);
  GradientTape tape;
  const Tensor through_capture = reduce_sum(vmap([&](const Tensor& e) { return loss(square(v), e); })(x));
  const Tensor expected = grad([&](const Tensor& p) {
    return reduce_sum(vmap(loss, {.in_axes = {none, 0}})(square(p), x));
  })(w);
  check_same(tape.gradient(through_capture, v), expected, 1e-14);
}

TEST_CASE("an op on captured tensors alone has its gradient") {
  const Tensor w = f64({2, 3});
  const Tensor slope = grad([](const Tensor& p) {
    return reduce_sum(vmap([&](const Tensor& e) { return reduce_sum(p * p * e); })(f64({{1, 2}, {3, 4}})));
  })(w);
  check_values(slope, {16, 36});
}

TEST_CASE("jvp and vjp of vmap, vmap of jvp and hessian") {
  const Tensor x = numbers({4, 3}, -1, 1, 1), d = numbers({4, 3}, -1, 1, 2);
  const auto f = [](const Tensor& row) { return sin(row) * reduce_sum(row); };
  const auto [y, dy] = jvp(vmap(f))(x, d);
  for (int i = 0; i < 4; ++i) check_same(dy(i), jvp(f)(x(i), d(i)).second, 1e-14);
  const auto [y2, dy2] = vmap(jvp(f))(x, d);
  check_same(y2, y);
  check_same(dy2, dy, 1e-14);
  const auto g = [](const Tensor& row) { return reduce_sum(exp(row * reduce_sum(row))); };
  const Tensor curvature = vmap(hessian(g))(x);
  for (int i = 0; i < 4; ++i) check_same(curvature(i), hessian(g)(x(i)), 1e-11);
}

TEST_CASE("in traces, with an unknown number of examples, and of traced functions") {
  const Tensor w = numbers({3, 2}, -1, 1, 3), x = numbers({5, 3}, -1, 1, 1);
  const auto f = [&](const Tensor& row) { return softmax(tanh(matmul(row, w))); };
  const auto batched = vmap(f);
  const auto traced = trace([&](const Tensor& rows) { return batched(rows); }, {spec(float64, {-1, 3})});
  check_same(traced(x), batched(x), 1e-14);
  check_same(traced(x(range(0, 2))), batched(x(range(0, 2))), 1e-14);
  const auto one = trace(f, {spec(float64, {3})});
  check_same(vmap([&](const Tensor& row) { return one(row); })(x), batched(x), 1e-14);
  const auto slopes = trace(
      [&](const Tensor& rows) { return vmap(grad([&](const Tensor& r) { return reduce_sum(square(f(r))); }))(rows); },
      {spec(float64, {-1, 3})});
  for (int i = 0; i < 5; ++i)
    check_same(slopes(x)(i), grad([&](const Tensor& r) { return reduce_sum(square(f(r))); })(x(i)), 1e-13);
}

TEST_CASE("vmap of every op in a trace that does not know the sizes has the bits of the eager one") {
  int ran = 0, refused = 0;
  for (const OpCase& row : op_cases()) {
    if (row.inputs.empty() || row.open || is_left_out(row)) continue;
    CAPTURE(row.name);
    Inputs batch;
    for (const Tensor& x : row.inputs) batch.push_back(stack({x, variant(x, 1), variant(x, 2)}));
    const unsigned all_inputs = masks_of(row)[0];
    const auto f = [&](const Inputs& xs) { return mapped(row.f, row, all_inputs, xs); };
    for (const int unknown_axes : {1, Shape::max_rank}) {
      std::vector<TensorSpec> specs;
      for (const Tensor& x : batch) {
        Shape shape = x.shape();
        for (int axis = 0; axis < std::min(unknown_axes, x.rank()); ++axis) shape.set(axis, -1);
        specs.push_back(spec(x.dtype(), shape));
      }
      try {
        const Tensor found = trace(f, specs)(batch);
        CHECK(same_bits(found, f(batch)));
        ++ran;
      } catch (const Error&) {
        CHECK(unknown_axes > 1);  // the op itself needs a size
        ++refused;
      }
    }
  }
  CHECK(ran > 50 * refused);
}

TEST_CASE("branches and loops by values of the examples") {
  const Tensor x = f64({-2, 0.5, 3});
  const auto f = [](const Tensor& v) {
    const Tensor y = cond(
        greater(v, 0.0), [&] { return v * v; }, [&] { return -v; });
    return while_loop([](const Tensor& u) { return less(u, 8.0); }, [](const Tensor& u) { return 2.0 * u; }, y);
  };
  check_values(vmap(f)(x), {8, 8, 9});
  check_values(grad([&](const Tensor& v) { return reduce_sum(vmap(f)(v)); })(x), {-4, 32, 6});
  check_values(vmap(grad(f))(x), {-4, 32, 6});
  const auto traced = trace([&](const Tensor& v) { return vmap(f)(v); }, {spec(float64, {-1})});
  check_values(traced(x), {8, 8, 9});
}

TEST_CASE("derivatives forward, and second ones, of branches and loops by values of the examples") {
  const std::vector<TensorFunction> functions{
      [](const Tensor& x) {
        return cond(
            greater(x, 0.0), [&] { return x * x; }, [&] { return sin(x); });
      },
      [](const Tensor& x) {
        return cond(
            greater(x, 0.0), [&] { return x * x * x; }, [&] { return 3.0 + 0.0 * x; });
      },
      [](const Tensor& x) {
        return std::get<1>(while_loop([&](const Tensor& i, const Tensor&) { return less(i, abs(x)); },
                                      [&](const Tensor& i, const Tensor& y) {
                                        return std::tuple{i + 1.0, y * x};
                                      },
                                      std::tuple{f64(0), x}));
      },
  };
  const Tensor xs = f64({1, -2, 3});
  for (const TensorFunction& f : functions) {
    const std::vector<TensorFunction> derivatives{
        [&](const Tensor& x) { return jvp(f, x, ones_like(x)).second; },
        [&](const Tensor& x) { return jacfwd(f)(x); },
        [&](const Tensor& x) { return hessian(f)(x); },
        [&](const Tensor& x) { return grad(grad(f))(x); },
        [&](const Tensor& x) { return jvp(grad(f), x, ones_like(x)).second; },
    };
    for (std::size_t i = 0; i < derivatives.size(); ++i) {
      CAPTURE(i);
      std::vector<Tensor> each;
      for (int k = 0; k < 3; ++k) {
        const Tensor one = derivatives[i](xs(k));
        each.push_back(one ? one : zeros({}, {.dtype = float64}));
      }
      check_same(vmap(derivatives[i])(xs), stack(each), 1e-13);
    }
  }
}

TEST_CASE("custom_gradient and recompute") {
  const Tensor x = numbers({4, 3}, -1, 1, 1), w = numbers({3}, -1, 1, 2);
  const auto custom = custom_gradient([](const Tensor& a, const Tensor& b) {
    return CustomGradient{a * b, [=](const Tensor& g) -> Tensors { return {2.0 * g * b, 3.0 * g * a}; }};
  });
  const auto again = recompute([](const Tensor& a, const Tensor& b) { return sin(a) * b; });
  const auto check = [&](const auto& f) {
    const auto one = [&](const Tensor& v, const Tensor& p) { return f(v, p); };
    const auto batched = vmap(one, {.in_axes = {0, none}});
    const auto found = grad([&](const Tensor& v, const Tensor& p) { return reduce_sum(batched(v, p)); })(x, w);
    Tensor of_w = zeros({3}, {.dtype = float64});
    for (int i = 0; i < 4; ++i) {
      const auto expected = grad([&](const Tensor& v, const Tensor& p) { return reduce_sum(f(v, p)); })(x(i), w);
      check_same(found[0](i), expected[0], 1e-14);
      of_w = of_w + expected[1];
    }
    check_same(found[1], of_w, 1e-14);
  };
  const auto constant_value = custom_gradient([](const Tensor& a, const Tensor& b) {
    return CustomGradient{ones({3}, {.dtype = float64}), [=](const Tensor& g) -> Tensors {
                            return {g * b, 3.0 * g * a};
                          }};
  });
  check(custom);
  check(constant_value);
  // In a trace the function of the examples is another graph, which ends with the vmap.
  const auto of_shared = [&](const Tensor& v, const Tensor& p) {
    return grad([&](const Tensor& q) {
      return reduce_sum(vmap([&](const Tensor& row) { return row + constant_value(q, q * 2.0); })(v));
    })(p);
  };
  check_same(trace(of_shared, {spec(float64, {4, 3}), spec(float64, {3})})(x, w), of_shared(x, w), 1e-14);
  check(again);
}

TEST_CASE("derivatives of loops whose examples take different branches") {
  const auto branches = [](const Tensor& r) {
    return cond(
        r > 0.0, [&] { return sin(r); }, [&] { return exp(r) * r; });
  };
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> functions{
      {"map", [&](const Tensor& x) { return map(branches, x); }},
      {"scan",
       [&](const Tensor& x) {
         const auto step = [&](const Tensor& h, const Tensor& r) {
           const Tensor next = branches(r * h);
           return std::pair{next, next};
         };
         return std::get<1>(scan(step, tensor<double>(1.0), x));
       }},
      {"one of three", [&](const Tensor& x) {
         const auto one = [](const Tensor& r) {
           return switch_case(r.cast(int32), {[&] { return sin(r); }, [&] { return r * r; }, [&] { return r; }});
         };
         return map(one, x);
       }}};
  const Tensor x = f64({{1, -2, 0.5}, {-1, 2.5, 3}, {-1, -0.5, -3}});
  for (const auto& each : functions) {
    INFO(each.first);
    const auto& f = each.second;
    const auto total = [&](const Tensor& row) { return reduce_sum(square(f(row))); };
    const auto tangent = [&](const Tensor& row) { return jvp(f)(row, ones_like(row)).second; };
    std::vector<Tensor> gradients, tangents;
    for (int i = 0; i < 3; ++i) {
      gradients.push_back(grad(total)(x(i)));
      tangents.push_back(tangent(x(i)));
    }
    check_same(vmap(grad(total))(x), stack(gradients), 1e-14);
    check_same(vmap(tangent)(x), stack(tangents), 1e-14);
  }
}

TEST_CASE("ops of a program's own, with and without a rule") {
  static int runs = 0;
  const auto cube = [](const Call& call) {
    ++runs;
    for (std::int64_t i = 0; i < call.input(0).size(); ++i)
      call.output_data<double>()[i] = std::pow(call.input(0).data<double>()[i], 3);
  };
  const auto slope = [](const Call& call, const Tensor& g) -> Tensors { return {3.0 * g * square(call.input(0))}; };
  static const Op& plain = register_op({.name = "VmapPlain", .infer = same_shape, .cpu = cube, .gradient = slope});
  static const Op& ruled = register_op(
      {.name = "VmapRuled", .infer = same_shape, .cpu = cube, .gradient = slope, .batch = [](const BatchedCall& call) {
         return call.apply(call.all(), call.one().attrs());
       }});
  const Tensor x = numbers({5, 2}, -1, 1, 3);
  for (const Op* op : {&plain, &ruled}) {
    const auto f = [op](const Tensor& row) { return apply(*op, {row}); };
    runs = 0;
    check_same(vmap(f)(x), power(x, 3.0), 1e-14);
    CHECK(runs == (op == &plain ? 5 : 1));
    check_same(vmap(grad(f))(x), 3.0 * x * x, 1e-14);
    check_same(grad([&](const Tensor& all) { return reduce_sum(vmap(f)(all)); })(x), 3.0 * x * x, 1e-14);
  }
}

TEST_CASE("no examples, one example") {
  const auto f = [](const Tensor& row) { return reduce_sum(sin(row)); };
  CHECK(to_string(vmap(f)(zeros({0, 3})).shape()) == "[0]");
  CHECK(to_string(vmap(f)(zeros({1, 3})).shape()) == "[1]");
  const auto by_value = [](const Tensor& v) {
    return cond(
        greater(v, 0.0), [&] { return v; }, [&] { return -v; });
  };
  CHECK(to_string(vmap(by_value)(zeros({0})).shape()) == "[0]");
}

TEST_CASE("what vmap refuses") {
  const auto f = [](const Tensor& a, const Tensor& b) { return a + b; };
  const Tensor x = zeros({2, 3}), y = zeros({4, 3});
  CHECK(message_of<InvalidArgumentError>([&] { vmap(f)(x, y); }) ==
        "The inputs have different numbers of examples: 2 and, in input 1, 4");
  CHECK(message_of<InvalidArgumentError>([&] { vmap(f, {.in_axes = {0}})(x, y); }) ==
        "There are 1 in_axes for 2 arguments");
  CHECK(message_of<InvalidArgumentError>([&] {
          vmap(f, {.in_axes = {0, 2}})(x, y);
        }).starts_with("Input 1 has the shape [4,3], which has no axis 2 of examples"));
  CHECK(message_of<InvalidArgumentError>([&] {
          vmap(f, {.in_axes = {none, none}})(x, y);
        }) == "No argument has an axis of examples");
  CHECK(message_of<InvalidArgumentError>([&] { vmap(f, {.out_axis = 5})(x, x); }) ==
        "Output 0 has the shape [2,3], in which no axis can be number 5");
  Variable v(1.0, {.name = "count"});
  CHECK(message_of<UnimplementedError>([&] {
          vmap([&](const Tensor& row) {
            v.assign_add(1.0);
            return row;
          })(x);
        }) == "The function changes the Variable 'count', which all examples share");
  CHECK(v.value().item<float>() == 1);
  const Error read = caught<FailedPreconditionError>(
      [&] { vmap([](const Tensor& row) { return row * row.item<float>(); })(zeros({2})); });
  CHECK(read.message() == "item() needs a value, and this tensor of shape [] has none until a graph runs");
  const Error misfit = caught<InvalidArgumentError>([&] {
    vmap([](const Tensor& row) { return matmul(row, zeros({7, 2})); })(x);
  });
  CHECK(place(misfit) == line_before(Where{misfit.where().file, misfit.where().line + 1}));
  CHECK(misfit.message().find("[3]") != std::string::npos);
}

TEST_CASE("jacobians, forward and backward") {
  const auto f = [](const Tensor& x) { return stack({reduce_sum(x * x), reduce_prod(x)}) * x(0, 0); };
  const Tensor x = f64({{1, 2, 3}, {4, 5, 6}});
  const Tensor j = jacrev(f)(x);
  CHECK(to_string(j.shape()) == "[2,2,3]");
  GradientTape tape;
  tape.watch(x);
  check_same(j, tape.jacobian(f(x), x));
  check_same(jacfwd(f)(x), j, 1e-12);
  check_same(jacobian(f)(x), j);
  const auto grows = [](const Tensor& v) { return concat({sin(v), cos(v), v * v}, 0); };
  const Tensor v = f64({0.3, -1});
  check_same(jacobian(grows)(v), jacrev(grows)(v), 1e-14);
  CHECK(to_string(jacfwd(grows)(v).shape()) == "[6,2]");
  const auto constant = [](const Tensor&) { return f64({1, 2}); };
  check_values(jacrev(constant)(v), {0, 0, 0, 0});
  check_values(jacfwd(constant)(v), {0, 0, 0, 0});
  check_same(jacfwd(jacrev([](const Tensor& u) { return reduce_sum(exp(u)); }))(v),
             hessian([](const Tensor& u) { return reduce_sum(exp(u)); })(v), 1e-14);
  const auto scalar = [](const Tensor& u) { return u * u; };
  CHECK(jacfwd(scalar)(f64(3.0)).item<double>() == 6);
  CHECK(jacobian(scalar)(f64(3.0)).item<double>() == 6);
}

TEST_CASE("a sparse jacobian") {
  constexpr int n = 50;
  int evaluations = 0;
  const auto laplace = [&](const Tensor& x) {
    ++evaluations;
    const Tensor wide = pad(x * x, {{1, 1}});
    return wide(range(0, n)) + wide(range(2, n + 2)) - 2.0 * sin(x);
  };
  const Tensor pattern = band_part(ones({n, n}), 1, 1), x = numbers({n}, -1, 1, 4);
  const SparseMatrix sparse = sparse_jacobian(laplace, pattern)(x);
  CHECK(to_string(sparse.values.shape()) == detail::join("[", 3 * n - 2, "]"));
  CHECK(to_string(sparse.indices.shape()) == detail::join("[", 3 * n - 2, ",2]"));
  check_same(sparse.dense(), jacobian(laplace)(x), 1e-13);
  const Tensor dense = sparse_jacobian(laplace, pattern)(x);
  check_same(dense, sparse.dense());
  // Rows and columns of a matrix are the elements of f(x) and of x, whatever their shapes.
  const auto square_each = [](const Tensor& m) { return m * m; };
  const Tensor m = f64({{1, 2}, {3, 4}});
  check_values(sparse_jacobian(square_each, eye(4))(m).values, {2, 4, 6, 8});
  check_values(sparse_jacobian(square_each, zeros({4, 4}))(m).dense(), std::vector<double>(16));
  CHECK(message_of<InvalidArgumentError>([&] { sparse_jacobian(square_each, eye(3))(m); }) ==
        "The pattern [3,3] has 3 columns for the 4 elements of x");
  CHECK(message_of<InvalidArgumentError>([&] {
          sparse_jacobian(square_each, ones({5, 4}))(m);
        }) == "The pattern [5,4] has 5 rows for the 4 elements of f(x)");
  CHECK(message_of<InvalidArgumentError>([&] { sparse_jacobian(square_each, ones({4})); }) ==
        "The pattern must be a matrix, not [4]");
  const auto unknown = caught<FailedPreconditionError>([&] {
    trace([&](const Tensor& given) { return sparse_jacobian(square_each, given)(m).values; }, {spec(boolean, {4, 4})});
  });
  CHECK(unknown.message() == "The pattern has no elements until a graph runs: make it outside of the trace");
  CHECK(place(unknown).find("vmap_test.cpp") != std::string::npos);
}

}  // namespace tapestry::test::vmap_test
