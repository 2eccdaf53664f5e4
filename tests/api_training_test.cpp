// The public interface as a program outside the library spells it: gradients, training, extending, errors.

#include <sstream>

#include <tapestry/tapestry.hpp>

#include "api.hpp"

namespace api_training_test {

using tapestry::test::all_same, tapestry::test::caught, tapestry::test::check_same, tapestry::test::line_before,
    tapestry::test::place, tapestry::test::text;

TEST_SUITE("3. gradients") {
  TEST_CASE("tapes") {
    const tp::Tensor x = tp::tensor({1.0, 2.0});
    tp::GradientTape tape;
    tape.watch(x);
    const tp::Tensor y = x * x, unrelated = tp::tensor(1.0);
    CHECK(tape.size() == 1);
    CHECK(tape.bytes() > 0);
    CHECK(text(tape.gradient(y, x)) == "float32[2]: 2 4");
    const auto error = caught<tp::FailedPreconditionError>([&] { tape.gradient(y, x); });
    CHECK(place(error) == line_before());
    CHECK(error.message() ==
          "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)");
    tape.reset();
    tape.watch(x);
    CHECK(!tape.gradient(x * x, unrelated));
  }

  TEST_CASE("several sources, Tensors or Variables") {
    tp::Variable w({2.0, 3.0}), c(1.0, {.name = "c", .trainable = true});
    const tp::Tensor x = tp::tensor({4.0, 5.0});
    tp::GradientTape tape({.persistent = true, .watch_accessed_variables = true});
    tape.watch(x);
    const tp::Tensor e = tp::reduce_sum(w * x + c);
    auto [dw, dx] = tape.gradient(e, w, x);
    auto [dw2, dx2, dc] = tape.gradient(e, w, x, c);
    static_assert(std::is_same_v<decltype(tape.gradient(e, w, x)), std::array<tp::Tensor, 2>>);
    const std::vector<tp::Variable> variables{w, c};
    const std::vector<tp::Tensor> grads = tape.gradient(e, variables), braced = tape.gradient(e, {w, c}),
                                  tensors = tape.gradient(e, std::vector<tp::Tensor>{x});
    all_same({x, dw, dw2, grads.at(0), braced.at(0)});
    all_same({w, dx, dx2, tensors.at(0)});
    all_same({dc, grads.at(1), tp::tensor(2.0)});
    const std::vector<tp::Variable> watched = tape.watched_variables();
    CHECK(watched.size() == 2);
    CHECK(watched[0].is(w) != watched[1].is(w));
  }

  TEST_CASE("options and pauses") {
    tp::Variable w(3.0);
    const tp::Tensor x = tp::tensor({1.0, 2.0}), seeds = tp::tensor({10.0, 100.0});
    tp::GradientTape tape({.persistent = true, .watch_accessed_variables = false});
    tape.watch(x);
    tp::Tensor y = x * x * w;
    CHECK(!tape.gradient(y, w));
    CHECK(text(tape.gradient(y, x, {.output_gradients = seeds})) == "float32[2]: 60 1200");
    const auto both = tape.gradient(y, {x, w}, {.output_gradients = seeds, .unconnected = tp::Unconnected::zero});
    CHECK(text(both.at(1)) == "float32[]: 0");
    CHECK(text(tape.gradient(y, w, {.unconnected = tp::Unconnected::zero})) == "float32[]: 0");
    {
      auto pause = tape.stop_recording();
      y = y * x;
    }
    CHECK(!tape.gradient(y, x));
    tape.watch(w);
    tape.watch({x, seeds});
    CHECK(text(tape.gradient({x * 2, x * 3}, x)) == "float32[2]: 5 5");
  }

  TEST_CASE("jacobians and tapes in tapes") {
    const tp::Tensor x = tp::tensor({{1.0, 2.0}});
    tp::GradientTape outer({.persistent = true});
    outer.watch(x);
    tp::Tensor first;
    {
      tp::GradientTape inner;
      inner.watch(x);
      first = inner.gradient(x * x * x, x);
    }
    CHECK(text(outer.gradient(first, x)) == "float32[1,2]: 6 12");
    CHECK(text(outer.jacobian(first, x)) == "float32[1,2,1,2]: 6 0 0 12");
    CHECK(text(outer.batch_jacobian(first, x)) == "float32[1,2,2]: 6 0 0 12");
  }

  TEST_CASE("functional forms") {
    const tp::Tensor x = tp::tensor({1.0, 2.0});
    const tp::Variable w(3.0), c(4.0);
    const auto f = [](const tp::Tensor& t) { return tp::reduce_sum(t * t * t); };
    auto [v, grads] = tp::value_and_grad([](const tp::Tensor& s, const tp::Tensor& t) { return s * t; })(w, c);
    CHECK(text(v) == "float32[]: 12");
    auto [dw, dc] = grads;
    all_same({dw, c});
    all_same({dc, w});
    all_same({tp::grad(f)(x), tp::value_and_grad(f)(x).second, 3 * x * x});
    CHECK(text(tp::hessian(f)(x)) == "float32[2,2]: 6 0 0 12");
    const auto square = [](const tp::Tensor& t) { return t * t; };
    const auto [y, pullback] = tp::vjp(square, x);
    all_same(
        {pullback(x), tp::vjp(square, x, x).second, tp::jvp(square, x, x).second, tp::jvp(square)(x, x).second, 2 * y});
    const auto doubled = tp::custom_gradient([](const tp::Tensor& t) -> tp::CustomGradient {
      return {t * 2, [](const tp::Tensor& g) -> tp::Tensors { return {g * 5}; }};
    });
    CHECK(text(tp::grad([&](const tp::Tensor& t) { return doubled(t); })(x)) == "float32[2]: 5 5");
    all_same({tp::grad(tp::recompute(f))(x), tp::grad(f)(x)});
  }

  TEST_CASE("Variables") {
    tp::Variable w(tp::random::normal({784, 10}), {.name = "w", .trainable = true});
    CHECK(w.name() == "w");
    CHECK(w.shape() == tp::Shape{784, 10});
    CHECK(text(tp::Variable({{1, 0}, {0, -1}})) == "int32[2,2]: 1 0 0 -1");
    CHECK(text(tp::Variable({1, 1})) == "int32[2]: 1 1");
    CHECK(text(tp::Variable(0)) == "int32[]: 0");
    CHECK(text(tp::Variable({0.5})) == "float32[1]: 0.5");
    CHECK(text(tp::Variable({{1, 2}}, {.name = "A"})) == "int32[1,2]: 1 2");
    CHECK(text(tp::Variable(std::vector<double>{1, 2})) == "float64[2]: 1 2");
    CHECK(text(tp::Variable(1, {.dtype = tp::float64})) == "float64[]: 1");
    tp::Variable b({1.0, 2.0}), step(0);
    const tp::Tensor before = b;
    CHECK(text(b.assign({3.0, 4.0})) == "float32[2]: 3 4");
    CHECK(text(b.assign(std::vector<double>{5, 6})) == "float32[2]: 5 6");
    CHECK(text(b.assign(b * 2)) == "float32[2]: 10 12");
    CHECK(text(b.assign_add({1, 1})) == "float32[2]: 11 13");
    CHECK(text(b.assign_sub(b.value())) == "float32[2]: 0 0");
    CHECK(text(step.assign_add(1)) == "int32[]: 1");
    CHECK(text(before) == "float32[2]: 1 2");
    CHECK(tp::Variable(b).is(b));
  }
}

TEST_SUITE("5. training") {
  TEST_CASE("optimizers, in every style") {
    tp::Variable w({1.0, 2.0}), step(0);
    const auto loss = [&] { return tp::reduce_sum(w * w); };
    const std::vector<tp::Variable> vars{w};
    tp::train::GradientDescentOptimizer opt(0.25);
    CHECK(text(opt.minimize([&] { return loss(); }, vars)) == "float32[]: 5");
    CHECK(text(w) == "float32[2]: 0.5 1");
    opt.minimize(loss, {w}, {.global_step = step});
    auto grads_and_vars = opt.compute_gradients(loss, vars);
    opt.apply_gradients(grads_and_vars, {.global_step = step});
    CHECK(text(step) == "int32[]: 2");
    tp::GradientTape tape;
    auto grads = tape.gradient(loss(), vars);
    opt.apply_gradients(grads, vars);
    opt.apply_gradients({grads[0]}, {w});
    opt.apply_gradients({{grads[0], w}});
    opt.minimize(loss);
    CHECK(opt.iterations() == 7);
    CHECK(tp::reduce_max(w).item<float>() < 0.1F);
  }

  TEST_CASE("all optimizers and schedules make the loss smaller") {
    tp::train::GradientDescentOptimizer plain(tp::train::ExponentialDecay(0.1, 10, 0.5));
    tp::train::MomentumOptimizer momentum(0.01, 0.9, {.use_nesterov = true});
    tp::train::AdamOptimizer adam;
    tp::train::AdamWOptimizer adam_w(tp::train::CosineDecay(0.01, 100), {.beta1 = 0.8, .weight_decay = 0.1});
    tp::train::RMSPropOptimizer rms_prop(tp::train::PiecewiseConstantDecay({5}, {0.01, 0.001}), {.decay = 0.95});
    tp::train::AdagradOptimizer adagrad(tp::train::LinearWarmup(0.1, 5));
    for (tp::train::Optimizer* opt :
         std::initializer_list<tp::train::Optimizer*>{&plain, &momentum, &adam, &adam_w, &rms_prop, &adagrad}) {
      INFO(opt->name());
      tp::Variable w({1.0, -2.0});
      const auto loss = [&] { return tp::reduce_sum(tp::square(w)); };
      for (int i = 0; i < 10; ++i) opt->minimize(loss, {w});
      CHECK(loss().item<float>() < 5);
    }
    const auto [clipped, norm] = tp::clip_by_global_norm({tp::tensor({3.0}), tp::tensor({4.0})}, 1.0);
    CHECK(text(norm) == "float32[]: 5");
    all_same({tp::clip_by_norm({3.0, 4.0}, 1), tp::concat(clipped)}, 1e-6);
  }

  TEST_CASE("Loader") {
    const tp::Tensor x = tp::reshape(tp::arange(10.0), {5, 2}), y = tp::arange(5);
    std::int64_t rows = 0;
    for (auto [points, labels] : tp::data::Loader({x, y}, {.batch = 2, .shuffle = true, .seed = 1})) {
      rows += labels.size();
      check_same(points(tp::all, 0), labels.cast(tp::float32) * 2);
    }
    CHECK(rows == 5);
    CHECK_THROWS_AS(tp::data::mnist("no such folder", tp::data::Split::train), tp::NotFoundError);
  }
}

TEST_SUITE("6. extending") {
  TEST_CASE("register_op, register_gradient, apply_op") {
    tp::register_op({.name = "ApiCube", .infer = tp::same_shape, .cpu = [](const tp::Call& call) {
                       const float* x = call.input(0).data<float>();
                       float* y = call.output_data<float>();
                       for (std::int64_t i = 0; i < call.input(0).size(); ++i) y[i] = x[i] * x[i] * x[i];
                     }});
    const tp::Tensor x = tp::tensor({1.0, 2.0});
    CHECK(text(tp::apply_op("ApiCube", {x})) == "float32[2]: 1 8");
    CHECK_THROWS_AS(tp::grad([](const tp::Tensor& t) { return tp::apply_op("ApiCube", {t}); })(x), tp::LookupError);
    tp::register_gradient("ApiCube", [](const tp::Operation& op, const tp::Tensor& grad) -> std::vector<tp::Tensor> {
      return {grad * (3.0 * op.input(0) * op.input(0))};
    });
    CHECK(text(tp::grad([](const tp::Tensor& t) { return tp::apply_op("ApiCube", {t}, {}, "cube"); })(x)) ==
          "float32[2]: 3 12");
    CHECK(text(tp::apply_op("ZerosLike", {x}, {}, "zeros")) == "float32[2]: 0 0");
    CHECK(text(tp::apply_op("Sum", {x}, {{"axis", tp::Ints{0}}})) == "float32[]: 3");
  }
}

TEST_SUITE("7. errors") {
  TEST_CASE("the text names op, shapes and line") {
    const auto error = caught<tp::InvalidArgumentError>([] { tp::ones({2, 3}) + tp::ones({4, 3}); });
    CHECK(std::string(error.what()) == "Incompatible shapes: [2,3] vs. [4,3] [Op:AddV2] at " + line_before());
    CHECK(error.code() == tp::Code::invalid_argument);
    CHECK(error.op() == "AddV2");
    CHECK(std::string_view(error.where().file) == __FILE__);
    static_assert(std::is_base_of_v<std::runtime_error, tp::Error>);
  }

  TEST_CASE_TEMPLATE("every class of error is an Error", E, tp::InvalidArgumentError, tp::FailedPreconditionError,
                     tp::NotFoundError, tp::LookupError, tp::OutOfRangeError, tp::UnimplementedError,
                     tp::ResourceExhaustedError, tp::DataLossError, tp::InternalError) {
    CHECK(std::string(caught<tp::Error>([] { throw E("text"); }).what()) == "text");
  }
}

}  // namespace api_training_test
