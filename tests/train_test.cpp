// Optimizers: their mathematics against plain loops in double, and what they accept, skip and refuse.

#include "tapestry/train.hpp"

#include "expect.hpp"
#include "tapestry/ops.hpp"

namespace train_test {

using namespace tapestry;
using namespace tapestry::test;
using namespace tapestry::train;

namespace {

/// One element's update, written from the paper or the documentation that the optimizer's doc comment names.
struct Reference {
  std::string name;
  std::function<std::unique_ptr<Optimizer>(LearningRate)> make;
  std::function<void(double& v, double g, double& s, double& t, double lr, int step)> update;
  std::vector<std::string> slots = {};
  std::array<double, 2> initial = {0, 0};
};

/// Kingma and Ba 2015, algorithm 1, line by line.
void adam(double& v, double g, double& m, double& s, double lr, int t, double beta1, double beta2, double epsilon) {
  m = beta1 * m + (1 - beta1) * g;
  s = beta2 * s + (1 - beta2) * g * g;
  const double m_hat = m / (1 - std::pow(beta1, t)), s_hat = s / (1 - std::pow(beta2, t));
  v = v - lr * m_hat / (std::sqrt(s_hat) + epsilon);
}

template <class T, class... Args>
auto maker(Args... args) {
  return [=](LearningRate rate) { return std::make_unique<T>(std::move(rate), args...); };
}

const std::vector<Reference>& references() {
  static const std::vector<Reference> all = {
      {.name = "gradient descent",
       .make = maker<GradientDescentOptimizer>(),
       .update = [](double& v, double g, double&, double&, double lr, int) { v -= lr * g; }},
      {.name = "gradient descent with weight decay",
       .make = maker<GradientDescentOptimizer>(GradientDescentOptions{.weight_decay = 0.1}),
       .update = [](double& v, double g, double&, double&, double lr, int) { v -= lr * (g + 0.1 * v); }},
      {.name = "momentum",
       .make = maker<MomentumOptimizer>(0.9),
       .update =
           [](double& v, double g, double& m, double&, double lr, int) {
             m = 0.9 * m + g;
             v -= lr * m;
           },
       .slots = {"momentum"}},
      {.name = "momentum with weight decay",
       .make = maker<MomentumOptimizer>(0.8, MomentumOptions{.weight_decay = 0.1}),
       .update =
           [](double& v, double g, double& m, double&, double lr, int) {
             m = 0.8 * m + g + 0.1 * v;
             v -= lr * m;
           },
       .slots = {"momentum"}},
      {.name = "Nesterov's momentum",
       .make = maker<MomentumOptimizer>(0.9, MomentumOptions{.use_nesterov = true, .weight_decay = 0.1}),
       .update =
           [](double& v, double g, double& m, double&, double lr, int) {
             g += 0.1 * v;
             m = 0.9 * m + g;
             v -= lr * g + lr * 0.9 * m;
           },
       .slots = {"momentum"}},
      {.name = "Adam",
       .make = maker<AdamOptimizer>(),
       .update = [](double& v, double g, double& m, double& s, double lr,
                    int t) { adam(v, g, m, s, lr, t, 0.9, 0.999, 1e-8); },
       .slots = {"m", "v"}},
      {.name = "Adam, other numbers",
       .make = maker<AdamOptimizer>(AdamOptions{.beta1 = 0.5, .beta2 = 0.7, .epsilon = 0.1, .weight_decay = 0.1}),
       .update = [](double& v, double g, double& m, double& s, double lr,
                    int t) { adam(v, g + 0.1 * v, m, s, lr, t, 0.5, 0.7, 0.1); },
       .slots = {"m", "v"}},
      {.name = "AdamW",
       .make = maker<AdamWOptimizer>(AdamWOptions{.weight_decay = 0.1}),
       .update =
           [](double& v, double g, double& m, double& s, double lr, int t) {
             v -= lr * 0.1 * v;
             adam(v, g, m, s, lr, t, 0.9, 0.999, 1e-8);
           },
       .slots = {"m", "v"}},
      {.name = "RMSProp",
       .make = maker<RMSPropOptimizer>(),
       .update =
           [](double& v, double g, double& s, double&, double lr, int) {
             s = 0.9 * s + (1 - 0.9) * g * g;
             v -= lr * g / std::sqrt(s + 1e-10);
           },
       .slots = {"rms"},
       .initial = {1, 0}},
      {.name = "RMSProp with momentum",
       .make =
           maker<RMSPropOptimizer>(RMSPropOptions{.decay = 0.7, .momentum = 0.9, .epsilon = 0.01, .weight_decay = 0.1}),
       .update =
           [](double& v, double g, double& s, double& m, double lr, int) {
             g += 0.1 * v;
             s = 0.7 * s + (1 - 0.7) * g * g;
             m = 0.9 * m + lr * g / std::sqrt(s + 0.01);
             v -= m;
           },
       .slots = {"rms", "momentum"},
       .initial = {1, 0}},
      {.name = "Adagrad",
       .make = maker<AdagradOptimizer>(),
       .update =
           [](double& v, double g, double& s, double&, double lr, int) {
             s += g * g;
             v -= lr * g / (std::sqrt(s) + 1e-7);
           },
       .slots = {"accumulator"},
       .initial = {0.1, 0}},
      {.name = "Adagrad from zero",
       .make = maker<AdagradOptimizer>(
           AdagradOptions{.initial_accumulator_value = 0, .epsilon = 1e-3, .weight_decay = 0.1}),
       .update =
           [](double& v, double g, double& s, double&, double lr, int) {
             g += 0.1 * v;
             s += g * g;
             v -= lr * g / (std::sqrt(s) + 1e-3);
           },
       .slots = {"accumulator"}},
  };
  return all;
}

/// Numbers of both signs and several magnitudes, another sequence for each seed.
std::vector<double> numbers(std::size_t count, int seed) {
  std::vector<double> list(count);
  for (std::size_t i = 0; i < count; ++i)
    list[i] = std::sin(1.7 * static_cast<double>(i) + seed) * std::pow(10.0, static_cast<double>(i % 5) - 3);
  return list;
}

Tensor as(DType dtype, const std::vector<double>& list) { return tensor(list).cast(dtype); }

TEST_CASE("every optimizer, step by step, against plain loops") {
  const auto rate = [](std::int64_t step) { return 0.1 / static_cast<double>(step + 1); };
  for (const Reference& reference : references())
    for (const DType dtype : {float32, float64})
      for (const std::size_t size : {0, 1, 7, 1001, 70001}) {
        INFO(reference.name, " ", to_string(dtype), " of ", size);
        const std::unique_ptr<Optimizer> optimizer = reference.make(rate);
        Variable variable(as(dtype, numbers(size, 0)));
        std::vector<double> v = values(variable);
        std::vector<double> s(size, reference.initial[0]), t(size, reference.initial[1]);
        for (int step = 1; step <= 5; ++step) {
          const Tensor gradient = as(dtype, numbers(size, step));
          const std::vector<double> g = values(gradient);
          for (std::size_t i = 0; i < size; ++i) reference.update(v[i], g[i], s[i], t[i], rate(step - 1), step);
          const Tensor before = variable;
          const std::vector<double> old = values(before);
          optimizer->apply_gradients({gradient}, {variable});
          CHECK(values(before) == old);
          CHECK(optimizer->iterations() == step);
        }
        double worst = 0;
        const auto compare = [&](const Tensor& actual, const std::vector<double>& expected) {
          CHECK(actual.dtype() == dtype);
          const std::vector<double> found = values(actual);
          REQUIRE(found.size() == expected.size());
          for (std::size_t i = 0; i < size; ++i)
            worst = std::max(worst, std::abs(found[i] - expected[i]) / std::max(1.0, std::abs(expected[i])));
        };
        compare(variable, v);
        for (std::size_t i = 0; i < reference.slots.size(); ++i)
          compare(optimizer->get_slot(variable, reference.slots[i]), i == 0 ? s : t);
        CHECK(worst < (dtype == float32 ? 1e-5 : 1e-13));
      }
}

TEST_CASE("Adam's first step in float32 has the size of the learning rate, to the last digits") {
  // With 1 - beta2 computed in float32 it would be off by 6e-6.
  Variable w({0.0, 0.0});
  AdamOptimizer optimizer(1.0);
  optimizer.apply_gradients({tensor({3.0, -0.02})}, {w});
  check_values(w, {-1, 1}, 1e-6);
}

TEST_CASE("a Variable on its way to the minimum") {
  for (const Reference& reference : references()) {
    if (reference.name.find("decay") != std::string::npos || reference.name.find("numbers") != std::string::npos)
      continue;
    INFO(reference.name);
    const std::unique_ptr<Optimizer> optimizer = reference.make(0.05);
    Variable w({4.0, -3.0});
    double first = 0, last = 0;
    for (int i = 0; i < 300; ++i) {
      last = optimizer->minimize([&] { return reduce_sum(square(w - tensor({1.0, 2.0}))); }).item<double>();
      if (i == 0) first = last;
    }
    CHECK(first == 34);
    CHECK(last < first / 2);
  }
}

TEST_SUITE("minimize") {
  TEST_CASE("returns the loss of before the update") {
    Variable w(3.0);
    GradientDescentOptimizer optimizer(0.25);
    const Tensor loss = optimizer.minimize([&] { return w * w; });
    CHECK(loss.item<float>() == 9);
    CHECK(w.value().item<float>() == 1.5);
    CHECK(optimizer.minimize([&] { return w * w; }, {w}).item<float>() == 2.25);
    CHECK(w.value().item<float>() == 0.75);
  }

  TEST_CASE("computes all by itself, from the first call on") {
    // TensorSlow's minimize() needed a run of the loss before it, and updated from values that were left behind.
    Variable w(3.0, {.name = "w"});
    GradientDescentOptimizer optimizer(0.5);
    optimizer.minimize([&] { return w * w; });
    CHECK(w.value().item<float>() == 0);
  }

  TEST_CASE("changes trainable Variables, or those that are named") {
    Variable w(1.0), b(1.0), frozen(1.0, {.trainable = false});
    const auto loss = [&] { return w * 2.0 + b * 3.0 + frozen * 4.0; };
    GradientDescentOptimizer optimizer(1.0);
    optimizer.minimize(loss);
    check_values(stack({w, b, frozen}), {-1, -2, 1});
    optimizer.minimize(loss, {b});
    check_values(stack({w, b, frozen}), {-1, -5, 1});
    const std::vector<Variable> list{frozen, w};
    optimizer.minimize(loss, list);
    check_values(stack({w, b, frozen}), {-3, -5, -3});
  }

  TEST_CASE("counts in global_step") {
    Variable w(1.0), step(0, {.name = "step", .dtype = int64});
    GradientDescentOptimizer optimizer(0.1);
    const auto loss = [&] { return w * w; };
    optimizer.minimize(loss, {.global_step = step});
    optimizer.minimize(loss, {w}, {.global_step = step});
    optimizer.apply_gradients(optimizer.compute_gradients(loss), {.global_step = step});
    CHECK(step.value().item<int>() == 3);
    CHECK(optimizer.iterations() == 3);
  }

  TEST_CASE("a loss of several elements counts as its sum") {
    Variable w(1.0);
    GradientDescentOptimizer optimizer(1.0);
    optimizer.minimize([&] { return w * tensor({1.0, 2.0, 3.0}); });
    CHECK(w.value().item<float>() == -5);
  }

  TEST_CASE("a loss that is computed already is refused in TensorFlow's words") {
    Variable w(1.0);
    GradientDescentOptimizer optimizer(1.0);
    const Tensor loss = w * w;
    const auto error = caught<InvalidArgumentError>([&] { optimizer.minimize(loss); });
    CHECK(place(error) == line_before());
    CHECK(error.message() ==
          "`loss` passed to Optimizer.compute_gradients should be a function when eager execution is enabled.");
    CHECK_THROWS_AS(optimizer.minimize(loss, {w}), InvalidArgumentError);
    CHECK_THROWS_AS((void)optimizer.compute_gradients(loss), InvalidArgumentError);
    CHECK(w.value().item<float>() == 1);
  }

  TEST_CASE("nothing to optimize, nothing that depends on it, no loss") {
    Variable w(1.0, {.name = "w"}), b(1.0, {.name = "b"});
    const Variable whole({{1, -1}, {1, -1}}, {.name = "whole"});
    GradientDescentOptimizer optimizer(1.0);
    auto error = caught<InvalidArgumentError>([&] { optimizer.minimize([&] { return tensor(1.0); }); });
    CHECK(place(error) == line_before());
    CHECK(error.message() == "No variables to optimize.");
    CHECK_THROWS_WITH_AS(optimizer.minimize([&] { return w * w; }, std::vector<Variable>{}),
                         doctest::Contains("No variables to optimize."), InvalidArgumentError);
    // Whole numbers are no parameters.
    CHECK_THROWS_WITH_AS(optimizer.minimize([&] { return reduce_sum(whole * 2.0); }),
                         doctest::Contains("No variables to optimize."), InvalidArgumentError);
    error = caught<InvalidArgumentError>([&] { optimizer.minimize([&] { return tensor(1.0); }, {w, b}); });
    CHECK(error.message() ==
          "No gradients provided for any variable, check your graph for ops that do not support gradients, between "
          "variables ['w', 'b'] and loss float32[].");
    CHECK_THROWS_AS(optimizer.minimize([&] { return Tensor(); }), InvalidArgumentError);
    CHECK(optimizer.iterations() == 0);
  }

  TEST_CASE("an error in the loss comes through, and nothing has changed") {
    Variable w({1.0, 2.0});
    AdamOptimizer optimizer;
    const auto error = caught<InvalidArgumentError>([&] {
      optimizer.minimize([&] { return w + tensor({1.0, 2.0, 3.0}); });
    });
    CHECK(error.op() == "AddV2");
    check_values(w, {1, 2});
    CHECK(optimizer.variables().size() == 1);
  }

  TEST_CASE("inside another tape") {
    Variable w(3.0);
    const Tensor x = tensor(2.0);
    GradientDescentOptimizer optimizer(0.5);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * w;
    optimizer.minimize([&] { return w * w * x; }, {w});
    CHECK(w.value().item<float>() == -3);
    CHECK(tape.gradient(y, x).item<float>() == 3);
  }
}

TEST_SUITE("compute_gradients and apply_gradients") {
  TEST_CASE("without Variables, one pair for every trainable one that the loss reads") {
    const Variable w(2.0, {.name = "w"}), b(3.0, {.name = "b"}), frozen(5.0, {.trainable = false}), unread(1.0);
    GradientDescentOptimizer optimizer(0.1);
    const auto pairs = optimizer.compute_gradients([&] {
      const Tensor product = w * w * frozen;  // first: the order in which operands are evaluated is the compiler's
      return product + b;
    });
    REQUIRE(pairs.size() == 2);
    CHECK(pairs[0].second.is(w));
    CHECK(pairs[0].first.item<float>() == 20);
    CHECK(pairs[1].second.is(b));
    CHECK(pairs[1].first.item<float>() == 1);
  }

  TEST_CASE("named Variables keep their order, unconnected ones have no gradient") {
    const Variable w(2.0), b(3.0);
    GradientDescentOptimizer optimizer(0.1);
    const auto pairs = optimizer.compute_gradients([&] { return w * w; }, {b, w});
    REQUIRE(pairs.size() == 2);
    CHECK_FALSE(pairs[0].first);
    CHECK(pairs[1].first.item<float>() == 4);
  }

  TEST_CASE("all spellings") {
    Variable w(1.0), b(1.0);
    GradientDescentOptimizer optimizer(1.0);
    const auto array = [&] {
      GradientTape tape;
      const Tensor loss = w * 2.0 + b * 3.0;
      return tape.gradient(loss, w, b);
    };
    const auto [dw, db] = array();
    optimizer.apply_gradients({dw, db}, {w, b});
    optimizer.apply_gradients(array(), {w, b});
    optimizer.apply_gradients(std::vector<Tensor>{dw, db}, std::vector<Variable>{w, b});
    optimizer.apply_gradients({{dw, w}, {db, b}});
    check_values(stack({w, b}), {-7, -11});
    optimizer.apply_gradients({dw}, {w});
    optimizer.apply_gradients(db, {b});
    optimizer.apply_gradients({{dw, w}});
    check_values(stack({w, b}), {-11, -14});
  }

  TEST_CASE("empty gradients are skipped; if all are empty it is an error") {
    Variable w(1.0, {.name = "w"}), b(1.0, {.name = "b"});
    AdamOptimizer optimizer;
    optimizer.apply_gradients({Tensor(), tensor(1.0)}, {w, b});
    CHECK(w.value().item<float>() == 1);
    CHECK(b.value().item<float>() < 1);
    CHECK_THROWS_AS((void)optimizer.get_slot(w, "m"), NotFoundError);
    auto error = caught<InvalidArgumentError>([&] { optimizer.apply_gradients({Tensor(), Tensor()}, {w, b}); });
    CHECK(place(error) == line_before());
    CHECK(error.message() == "No gradients provided for any variable: ['w', 'b'].");
    error = caught<InvalidArgumentError>([&] { optimizer.apply_gradients(GradientsAndVariables{}); });
    CHECK(error.message() == "No variables provided.");
    error = caught<InvalidArgumentError>([&] { optimizer.apply_gradients({tensor(1.0)}, {w, b}); });
    CHECK(error.message() == "There are 1 gradients and 2 variables");
    CHECK(optimizer.iterations() == 1);
  }

  TEST_CASE("a gradient that does not fit is refused before anything changes") {
    Variable w({1.0, 2.0}, {.name = "w"}), b(1.0, {.name = "b"}), count({1, 2}, {.name = "count"}), step(0);
    const Tensor good = tensor({1.0, 1.0});
    AdamOptimizer optimizer(0.1);
    auto error = caught<InvalidArgumentError>([&] {
      optimizer.apply_gradients({good, zeros({3})}, {w, b}, {.global_step = step});
    });
    CHECK(to_string(error.where()).starts_with("train_test.cpp:"));
    CHECK(error.message() == "The gradient of variable 'b' is float32[3] on cpu; the variable is float32[] on cpu");
    error = caught<InvalidArgumentError>([&] { optimizer.apply_gradients({good, tensor<double>(1.0)}, {w, b}); });
    CHECK(error.message() == "The gradient of variable 'b' is float64[] on cpu; the variable is float32[] on cpu");
    CHECK_THROWS_AS(optimizer.apply_gradients({good, good}, {w, count}), InvalidArgumentError);
    CHECK_THROWS_AS(optimizer.apply_gradients({good, tensor({1, 2})}, {w, count}), InvalidArgumentError);
    CHECK_THROWS_AS(optimizer.apply_gradients({good}, {w}, {.global_step = w}), InvalidArgumentError);
    check_values(w, {1, 2});
    CHECK(b.value().item<float>() == 1);
    CHECK(step.value().item<int>() == 0);
    CHECK(optimizer.iterations() == 0);
    CHECK(optimizer.variables().size() == 1);
  }

  TEST_CASE("a Variable that is given twice is updated twice, as in TensorFlow") {
    Variable w(1.0);
    GradientDescentOptimizer optimizer(1.0);
    optimizer.apply_gradients({tensor(2.0), tensor(3.0)}, {w, w});
    CHECK(w.value().item<float>() == -4);
    CHECK(optimizer.iterations() == 1);
  }

  TEST_CASE("views as gradients: broadcast, transposed, or the Variable's own value") {
    Variable w({{1.0, 2.0}, {3.0, 4.0}});
    GradientDescentOptimizer optimizer(1.0);
    optimizer.minimize([&] { return reduce_sum(w); });  // the gradient is a broadcast 1
    check_values(w, {0, 1, 2, 3});
    optimizer.apply_gradients({transpose(tensor({{1.0, 2.0}, {3.0, 4.0}}))}, {w});
    check_values(w, {-1, -2, 0, -1});
    optimizer.apply_gradients({w}, {w});
    check_values(w, {0, 0, 0, 0});
  }

  TEST_CASE("values that are held stay as they are; those that are not are updated in place") {
    Variable w(ones({1000})), other(w.value());
    MomentumOptimizer optimizer(1.0, 0.5);
    const Tensor gradient = ones({1000});
    optimizer.apply_gradients({gradient}, {w});
    CHECK(values(w)[999] == 0);
    CHECK(values(other)[999] == 1);
    const void* memory = w.value().impl().data;
    const void* slot_memory = optimizer.get_slot(w, "momentum").value().impl().data;
    optimizer.apply_gradients({gradient}, {w});
    CHECK(w.value().impl().data == memory);
    CHECK(optimizer.get_slot(w, "momentum").value().impl().data == slot_memory);
    const Tensor held = w, held_slot = optimizer.get_slot(w, "momentum");
    optimizer.apply_gradients({gradient}, {w});
    CHECK(values(held)[0] == -1.5);
    CHECK(values(held_slot)[0] == 1.5);
    CHECK(values(w)[0] == -3.25);
    CHECK(values(optimizer.get_slot(w, "momentum"))[0] == 1.75);
  }

  TEST_CASE("handles on one Variable share its slots") {
    Variable w(1.0);
    const Variable same = w;
    MomentumOptimizer optimizer(1.0, 1.0);
    optimizer.apply_gradients({tensor(1.0)}, {w});
    optimizer.apply_gradients({tensor(1.0)}, {same});
    CHECK(w.value().item<float>() == -2);
    CHECK(optimizer.variables().size() == 2);
  }

  TEST_CASE("NaN and infinity travel, and only where they are") {
    for (const Reference& reference : references()) {
      INFO(reference.name);
      const std::unique_ptr<Optimizer> optimizer = reference.make(0.1);
      Variable w({1.0, 1.0, 1.0});
      optimizer->apply_gradients({as(float32, {not_a_number, 1.0, -infinity})}, {w});
      const std::vector<double> after = values(w);
      CHECK(std::isnan(after[0]));
      CHECK(std::isfinite(after[1]));
      CHECK_FALSE(std::isfinite(after[2]));
    }
  }

  TEST_CASE("nothing is recorded") {
    Variable w(1.0);
    AdamOptimizer optimizer;
    GradientTape tape({.persistent = true});
    const Tensor gradient = w * 1.0;
    const std::size_t recorded = tape.size();
    optimizer.apply_gradients({gradient}, {w});
    CHECK(tape.size() == recorded);
  }
}

TEST_SUITE("state") {
  TEST_CASE("slots, as in TensorFlow, in the order of the first updates") {
    Variable w({1.0, 2.0}, {.name = "w"}), b(1.0, {.name = "b", .dtype = float64});
    AdamOptimizer optimizer;
    CHECK(optimizer.name() == "Adam");
    CHECK(optimizer.get_slot_names() == std::vector<std::string>{"m", "v"});
    CHECK(optimizer.variables().size() == 1);
    optimizer.apply_gradients({tensor({1.0, 2.0}), tensor<double>(1.0)}, {w, b});
    std::vector<std::string> names;
    for (const Variable& variable : optimizer.variables()) {
      names.push_back(variable.name());
      CHECK_FALSE(variable.trainable());
    }
    CHECK(names == std::vector<std::string>{"Adam/iterations", "w/Adam", "w/Adam_1", "b/Adam", "b/Adam_1"});
    CHECK(optimizer.get_slot(w, "v").is(optimizer.variables()[2]));
    CHECK(optimizer.get_slot(b, "m").dtype() == float64);
    const auto error = caught<NotFoundError>([&] { (void)optimizer.get_slot(w, "momentum"); });
    CHECK(place(error) == line_before());
    CHECK(error.message() == "Adam has no slot named 'momentum' for variable 'w'");
    CHECK(GradientDescentOptimizer(0.1).get_slot_names().empty());
  }

  TEST_CASE("an optimizer whose Variables are restored goes on where the other was") {
    Variable w({1.0, 2.0}), copy({1.0, 2.0});
    AdamOptimizer first(0.1), second(0.1);
    const Tensor g1 = tensor({1.0, -3.0}), g2 = tensor({0.5, 2.0});
    first.apply_gradients({g1}, {w});
    second.apply_gradients({g2}, {copy});  // makes the slots; what is in them is overwritten
    copy.assign(w);
    for (std::size_t i = 0; i < first.variables().size(); ++i) second.variables()[i].assign(first.variables()[i]);
    CHECK(second.iterations() == 1);
    first.apply_gradients({g2}, {w});
    second.apply_gradients({g2}, {copy});
    check_same(copy, w);
  }

  TEST_CASE("a Variable that the optimizer knows lives as long as the optimizer") {
    MomentumOptimizer optimizer(1.0, 0.5);
    for (int i = 0; i < 10; ++i) {
      Variable w(0.0);
      optimizer.apply_gradients({tensor(1.0)}, {w});
      CHECK(w.value().item<float>() == -1);  // and not what the slot of a former one makes of it
    }
    CHECK(optimizer.variables().size() == 11);
  }

  TEST_CASE("the learning rate can be read and set, and follows its schedule") {
    Variable w(0.0);
    GradientDescentOptimizer optimizer(0.5);
    CHECK(optimizer.learning_rate() == 0.5);
    optimizer.apply_gradients({tensor(1.0)}, {w});
    optimizer.set_learning_rate([](std::int64_t step) { return static_cast<double>(step); });
    CHECK(optimizer.learning_rate() == 1);
    optimizer.apply_gradients({tensor(1.0)}, {w});
    CHECK(w.value().item<float>() == -1.5);
    CHECK(optimizer.learning_rate() == 2);
  }

  TEST_CASE("numbers that make no sense are refused with the line") {
    const auto error = caught<InvalidArgumentError>([] { GradientDescentOptimizer optimizer(-1); });
    CHECK(place(error) == line_before());
    CHECK(error.message() == "learning_rate must be a finite number >= 0, got -1.000000");
    CHECK_THROWS_AS(GradientDescentOptimizer{not_a_number}, InvalidArgumentError);
    CHECK_THROWS_AS(MomentumOptimizer(0.1, -0.5), InvalidArgumentError);
    CHECK_THROWS_AS(AdamOptimizer(0.1, {.beta1 = 1}), InvalidArgumentError);
    CHECK_THROWS_AS(AdamOptimizer(0.1, {.beta2 = -0.1}), InvalidArgumentError);
    CHECK_THROWS_AS(AdamWOptimizer(0.1, {.epsilon = not_a_number}), InvalidArgumentError);
    CHECK_THROWS_AS(RMSPropOptimizer(0.1, {.decay = 2}), InvalidArgumentError);
    CHECK_THROWS_AS(AdagradOptimizer(0.1, {.initial_accumulator_value = -1}), InvalidArgumentError);
    CHECK_THROWS_AS(GradientDescentOptimizer(0.1, {.weight_decay = infinity}), InvalidArgumentError);

    Variable w(1.0);
    GradientDescentOptimizer optimizer([](std::int64_t) { return not_a_number; });
    CHECK_THROWS_AS(optimizer.apply_gradients({tensor(1.0)}, {w}), InvalidArgumentError);
    CHECK(w.value().item<float>() == 1);
  }
}

}  // namespace

}  // namespace train_test
