// Row-sparse gradients: what they are, what becomes of them, and what optimizers make of them.

#include "tapestry/sparse.hpp"

#include <functional>
#include <memory>

#include "dispatch/recorder.hpp"
#include "expect.hpp"
#include "sparse_cases.hpp"
#include "tapestry/device.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/nn.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/session.hpp"
#include "tapestry/tape.hpp"
#include "tapestry/trace.hpp"
#include "tapestry/train.hpp"

namespace sparse_test {

using namespace tapestry;
using namespace tapestry::test;
using namespace tapestry::train;

namespace {

/// Ids of a table of five rows.
struct Pattern {
  std::string name;
  Tensor ids;
};

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all = {
      {"one id", tensor(3)},
      {"one row", tensor({2})},
      {"different rows", tensor<std::int64_t>({4, 0, 2})},
      {"duplicates", tensor({1, 3, 1, 1, 3})},
      {"all rows", tensor({0, 1, 2, 3, 4})},
      {"all rows, twice", tensor<std::int64_t>({4, 3, 2, 1, 0, 0, 1, 2, 3, 4})},
      {"a matrix of ids", tensor({{1, 2, 1}, {0, 0, 2}})},
      {"a column of ids", tensor<std::int64_t>({{2}, {2}})},
      {"no ids", tensor(std::vector<std::int32_t>(), {0})},
      {"no rows of ids", tensor(std::vector<std::int64_t>(), {0, 2})},
  };
  return all;
}

Tensor gradient_of_lookup(const Variable& w, const Tensor& ids) {
  GradientTape tape;
  return tape.gradient(loss_of(embedding_lookup(w, ids)), w);
}

bool is_row_sparse(const Tensor& x) { return indexed_slices(x).has_value(); }
TEST_CASE("the gradient of a lookup has its rows, and is the whole gradient for everyone else") {
  for (const Pattern& each : patterns()) {
    INFO(each.name);
    const Variable w(table(float64));
    const Tensor gradient = gradient_of_lookup(w, each.ids);
    const std::optional<IndexedSlices> rows = indexed_slices(gradient);
    REQUIRE(rows.has_value());
    CHECK(to_string(rows->indices.shape()) == to_string(Shape{each.ids.size()}));
    CHECK(rows->indices.dtype() == each.ids.dtype());
    CHECK(values(rows->indices) == values(each.ids));
    CHECK(to_string(rows->values.shape()) == to_string(Shape{each.ids.size(), row_size}));
    CHECK_FALSE(gradient.is_symbolic());
    CHECK(to_string(gradient.shape()) == "[5,3]");

    GradientTape tape;
    const Tensor picked = matmul(one_hot(reshape(each.ids, {-1}), row_count, float64), w);
    check_same(gradient, tape.gradient(loss_of(picked), w), 1e-12);
  }
}

TEST_CASE("whatever asks for the elements gets them") {
  const Variable w(zeros({3, 2}));
  const auto fresh = [&] {
    GradientTape tape;
    return tape.gradient(reduce_sum(gather(w, {2, 0, 2}) * tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}})), w);
  };
  const std::vector<double> expected{3, 4, 0, 0, 6, 8};
  REQUIRE(is_row_sparse(fresh()));
  CHECK(fresh().to_vector<double>() == expected);
  CHECK(fresh().data<float>()[5] == 8);
  CHECK(printed(fresh()) == "[[3. 4.]\n [0. 0.]\n [6. 8.]]");
  CHECK(fresh().describe() == "float32[3,2] cpu min 0 max 8 mean 3.5");
  CHECK(fresh()(2, 1).item<double>() == 8);
  CHECK(fresh().contiguous().to_vector<double>() == expected);
  CHECK(fresh().cast(int32).to_vector<double>() == expected);
  CHECK(fresh().op().operator bool() == false);
  CHECK(fresh().name().empty());
  check_values(fresh().eval(), expected);
  check_values(Tensor(fresh()) + 1.0, {4, 5, 1, 1, 7, 9});
  check_values(1.0 - fresh(), {-2, -3, 1, 1, -5, -7});
  check_values(reduce_sum(fresh(), 0), {9, 12});
  check_values(transpose(fresh()), {3, 0, 6, 4, 0, 8});
  check_values(reshape(fresh(), {6}), expected);
  check_values(zeros_like(fresh()), {0, 0, 0, 0, 0, 0});
  check_values(concat({fresh(), fresh()}, 1), {3, 4, 3, 4, 0, 0, 0, 0, 6, 8, 6, 8});
  check_values(Variable(fresh()), expected);
  check_values(tensor({Init(fresh())}), expected);
  Variable other(ones({3, 2}));
  other.assign(fresh());
  check_values(other, expected);
  other.assign_add(fresh());
  check_values(other, {6, 8, 0, 0, 12, 16});
  other.assign_sub(fresh());
  check_values(other, expected);

  const Tensor constant = fresh(), fed = fresh();
  Graph graph;
  const Graph::Scope scope = graph.as_default();
  const Tensor x = placeholder(float32, {3, 2});
  const Session session(graph);
  check_values(session.run(x + constant, {{x, fed}}), {6, 8, 0, 0, 12, 16});
}

TEST_CASE("a traced function takes one, keeps one as a constant, and returns one") {
  const Variable w(table());
  const Tensor gradient = gradient_of_lookup(w, tensor({1, 1}));
  const auto twice = trace([&](const Tensor& x) { return x + gradient; }, {spec(float32, {row_count, row_size})});
  check_same(twice(gradient), gradient * 2.0);
  const auto whole = trace([&](const Tensor& ids) { return gradient_of_lookup(w, ids); }, {spec(int32, {-1})});
  check_same(whole(tensor({1, 1})), gradient);
}

TEST_CASE("sums, clipping and unscaling keep the rows") {
  for (const Pattern& each : patterns()) {
    INFO(each.name);
    const Variable w(table(float64)), v(table(float64));
    const Tensor a = gradient_of_lookup(w, each.ids), dense = identity(a), b = ones({2}, {.dtype = float64});
    REQUIRE_FALSE(is_row_sparse(dense));
    check_values(global_norm({a, b}), values(global_norm({dense, b})), 1e-12);
    for (const double limit : {0.1, 1e3}) {
      const auto [clipped, norm] = clip_by_global_norm({a, b}, limit);
      CHECK(is_row_sparse(clipped[0]));
      check_same(clipped[0], clip_by_global_norm({dense, b}, limit).first[0], 1e-12);
      CHECK(is_row_sparse(clip_by_norm(a, limit)));
      check_same(clip_by_norm(a, limit), clip_by_norm(dense, limit), 1e-12);
    }
    LossScale scale;
    CHECK(is_row_sparse(scale.unscale({a})[0]));
    check_same(scale.unscale({a})[0], scale.unscale({dense})[0], 1e-12);

    GradientTape tape({.persistent = true});
    const Tensor first = loss_of(gather(w, each.ids)), second = loss_of(gather(w, {4, 1}));
    const Tensor all = first + second + reduce_sum(square(w.value()));
    const Tensor both = tape.gradient(first + second, w);
    CHECK(is_row_sparse(both));
    CHECK(indexed_slices(both)->indices.size() == each.ids.size() + 2);
    check_same(both, identity(tape.gradient(first, w)) + identity(tape.gradient(second, w)), 1e-12);
    const Tensor mixed = tape.gradient(all, w);
    CHECK_FALSE(is_row_sparse(mixed));
    check_same(mixed, both + 2.0 * w.value(), 1e-12);
  }
}

TEST_CASE("only lookups of rows are row-sparse") {
  const Variable w(table());
  GradientTape tape({.persistent = true});
  CHECK(is_row_sparse(tape.gradient(reduce_sum(gather(w, {1, 1})), w)));
  CHECK_FALSE(is_row_sparse(tape.gradient(reduce_sum(gather(w, {1, 1}, 1)), w)));
  CHECK_FALSE(is_row_sparse(tape.gradient(reduce_sum(gather(w * 2.0, {1, 1})), w)));
  CHECK_FALSE(is_row_sparse(tape.gradient(reduce_sum(w(1)), w)));
  CHECK_FALSE(is_row_sparse(tensor({1.0})));
  const Variable list(tensor({1.0, 2.0, 3.0}));
  const Tensor gradient = tape.gradient(reduce_sum(gather(list, {1, 1})), list);
  CHECK(is_row_sparse(gradient));
  check_values(gradient, {0, 2, 0});
}

/// The rows that ids name.
std::vector<char> touched(const Tensor& ids) {
  std::vector<char> rows(row_count);
  for (const auto id : ids.to_vector<std::int64_t>()) rows[static_cast<std::size_t>(id)] = 1;
  return rows;
}

/// Gives the rows that were not looked up the values that they had before.
void restore(const Variable& variable, const Tensor& before, const Tensor& ids) {
  Tensor value = variable;
  const std::vector<char> is_touched = touched(ids);
  for (std::size_t i = 0; i < is_touched.size(); ++i)
    if (!is_touched[i]) value = slice_update(value, before(i), i);
  variable.assign(value);
}

TEST_CASE("every optimizer makes the dense step in the rows of the gradient, and in no others") {
  for (const Rule& rule : rules())
    for (const Pattern& each : patterns())
      for (const DType dtype : {float32, float64, float16, bfloat16}) {
        INFO(rule.name, ", ", each.name, ", ", to_string(dtype));
        const Tensor first = table(dtype);
        const Variable sparse(first), dense(first);
        const std::unique_ptr<Optimizer> a = rule.make(), b = rule.make();
        // The first step makes the slots, in all rows.
        for (const auto& [optimizer, w] : {std::pair(&a, &sparse), std::pair(&b, &dense)})
          (*optimizer)->apply_gradients({ones_like(*w)}, {*w});
        for (int step = 0; step < 3; ++step) {
          const Tensor gradient = gradient_of_lookup(sparse, each.ids);
          REQUIRE(is_row_sparse(gradient));
          std::vector<Variable> state{dense};
          for (const std::string& slot : b->get_slot_names()) state.push_back(b->get_slot(dense, slot));
          std::vector<Tensor> before(state.begin(), state.end());
          b->apply_gradients({identity(gradient)}, {dense});
          for (std::size_t i = 0; i < state.size(); ++i) restore(state[i], before[i], each.ids);
          a->apply_gradients({gradient}, {sparse});
        }
        CHECK(same_bits(sparse, dense));
        for (const std::string& slot : a->get_slot_names())
          CHECK(same_bits(a->get_slot(sparse, slot), b->get_slot(dense, slot)));
        CHECK(a->iterations() == 4);
      }
}

/// Three steps with these ids: eagerly, by a trace for any number of ids, or by a session.
enum class Mode { eager, traced, session };

std::vector<Tensor> trained(const Rule& rule, const Tensor& first, const Tensor& ids, bool clipped, Mode mode) {
  const Variable w(first, {.name = "w"});
  const std::unique_ptr<Optimizer> optimizer = rule.make();
  const auto apply = [&](const Tensor& gradient) {
    return optimizer->apply_gradients({clipped ? clip_by_global_norm({gradient}, 0.5).first[0] : gradient}, {w});
  };
  const Shape any(std::vector<std::int64_t>(static_cast<std::size_t>(ids.rank()), -1));
  const auto loss = [&](const Tensor& of) { return loss_of(gather(w, of)) + loss_of(embedding_lookup(w, {1})); };
  if (mode == Mode::session) {
    Graph graph;
    const Graph::Scope scope = graph.as_default();
    const Tensor x = placeholder(ids.dtype(), any, "ids");
    const Operation step = apply(gradients(loss(x), {w})[0]);
    const Session session(graph);
    for (int i = 0; i < 3; ++i) session.run(step, {{x, ids}});
  } else {
    const auto step = [&](const Tensor& of) {
      GradientTape tape;
      Tensor value = loss(of);
      apply(tape.gradient(value, w));
      return value;
    };
    const auto traced = trace(step, {spec(ids.dtype(), any)});
    for (int i = 0; i < 3; ++i) mode == Mode::traced ? traced(ids) : step(ids);
  }
  std::vector<Tensor> state{w};
  for (const std::string& slot : optimizer->get_slot_names()) state.emplace_back(optimizer->get_slot(w, slot));
  return state;
}

TEST_CASE("tape, trace and session give the same bits") {
  for (const Rule& rule : rules())
    for (const Pattern& each : patterns())
      for (const bool clipped : {false, true}) {
        INFO(rule.name, ", ", each.name, clipped ? ", clipped" : "");
        const Tensor first = table();
        const std::vector<Tensor> eager = trained(rule, first, each.ids, clipped, Mode::eager);
        for (const Mode mode : {Mode::traced, Mode::session}) {
          const std::vector<Tensor> other = trained(rule, first, each.ids, clipped, mode);
          REQUIRE(other.size() == eager.size());
          for (std::size_t i = 0; i < eager.size(); ++i) CHECK(same_bits(other[i], eager[i]));
        }
      }
}

TEST_CASE("gradients are accumulated by rows, eagerly and traced, and from a checkpoint") {
  const std::vector<Tensor> batches{tensor({1, 3}), tensor({3, 3}), tensor({0, 1})};
  for (const Rule& rule : rules()) {
    INFO(rule.name);
    const Tensor first = table();
    const auto trained = [&](std::size_t restored_at) {
      const Variable w(first, {.name = "w"}), bias(zeros({row_size}), {.name = "bias"});
      const std::unique_ptr<Optimizer> optimizer = rule.make();
      auto accumulation = std::make_unique<GradientAccumulation>(3);
      const auto step = [&](const Tensor& ids) {
        return accumulation->minimize(*optimizer, [&] { return loss_of(gather(w, ids) + bias); }, {w, bias});
      };
      for (std::size_t i = 0; i < 6; ++i) {
        if (i == restored_at) {
          auto next = std::make_unique<GradientAccumulation>(3);
          next->load_state_dict(accumulation->state_dict());
          accumulation = std::move(next);
        }
        step(batches[i % 3]);
        CHECK(accumulation->pending() == static_cast<std::int64_t>((i + 1) % 3));
      }
      return std::vector<Tensor>{w, bias};
    };
    const auto in_trace = [&] {
      const Variable w(first, {.name = "w"}), bias(zeros({row_size}), {.name = "bias"});
      const std::unique_ptr<Optimizer> optimizer = rule.make();
      GradientAccumulation accumulation(3);
      const auto step = trace(
          [&](const Tensor& ids) {
            return accumulation.minimize(*optimizer, [&] { return loss_of(gather(w, ids) + bias); }, {w, bias});
          },
          {spec(int32, {-1})});
      for (std::size_t i = 0; i < 6; ++i) step(batches[i % 3]);
      return std::vector<Tensor>{w, bias};
    };
    const Variable w(first), bias(zeros({row_size}));
    const std::unique_ptr<Optimizer> optimizer = rule.make();
    for (int i = 0; i < 2; ++i)
      optimizer->minimize([&] { return loss_of(gather(w, concat(batches)) + bias) / 3.0; }, {w, bias});
    const std::vector<Tensor> eager = trained(9), restored = trained(2), traced = in_trace();
    check_same(eager[0], w, 1e-5);
    check_same(eager[1], bias, 1e-5);
    check_same(restored[0], w, 1e-5);
    for (std::size_t i = 0; i < 2; ++i) CHECK(same_bits(eager[i], traced[i]));
    CHECK(same_bits(eager[0](2), first(2)));
    CHECK(same_bits(eager[0](4), first(4)));
  }
}

TEST_CASE("ids of which nothing is known while the graph is built") {
  for (const Rule& rule : rules()) {
    INFO(rule.name);
    for (const Tensor& ids : {tensor({1, 3, 1}), tensor<std::int64_t>({{0, 4}})}) {
      const Tensor first = table();
      const Variable w(first, {.name = "w"}), v(first);
      const std::unique_ptr<Optimizer> optimizer = rule.make(), eager = rule.make();
      Graph graph;
      const Graph::Scope scope = graph.as_default();
      const Tensor x = placeholder();
      const Operation step = optimizer->minimize(loss_of(gather(w, x)), {w});
      const Session session(graph);
      for (int i = 0; i < 3; ++i) {
        session.run(step, {{x, ids}});
        const ExecuteNow now;
        eager->minimize([&] { return loss_of(gather(v, ids)); }, {v});
      }
      const ExecuteNow now;
      CHECK(same_bits(w, v));
    }
  }
}

TEST_CASE("a graph has the ops that update rows") {
  Graph graph;
  const Graph::Scope scope = graph.as_default();
  const Variable w(table(), {.name = "w"});
  const Tensor ids = placeholder(int32, {-1}, "ids");
  AdagradOptimizer(0.1).minimize(loss_of(gather(w, ids)), {w});
  CHECK(graph.get_operation_by_name("Adagrad/update_w/ResourceSparseApplyAdagradV2").type() ==
        "ResourceSparseApplyAdagradV2");
}

TEST_CASE("an optimizer of one's own gets the whole gradient") {
  class Plain final : public Optimizer {
   public:
    Plain() : Optimizer("Plain", 0.5, {}) {}

   private:
    Tensors updated(const Tensor& value, const Tensor& gradient, const Tensors&, const Step& step) const override {
      return {value - step.learning_rate * gradient};
    }
  };
  const Rule mine = rule<Plain>("plain"), descent = rule<GradientDescentOptimizer>("descent", 0.5);
  for (const Mode mode : {Mode::eager, Mode::traced, Mode::session}) {
    const Tensor first = table();
    check_same(trained(mine, first, tensor({1, 1, 4}), false, mode)[0],
               trained(descent, first, tensor({1, 1, 4}), false, Mode::eager)[0], 1e-6);
  }
}

TEST_CASE("second derivatives through a row-sparse gradient") {
  const Tensor ids = tensor({1, 3, 1}), weights = random::normal({row_count, row_size}, {.dtype = float64});
  const auto f = [&](const Tensor& w) {
    GradientTape inner;
    inner.watch(w);
    const Tensor gradient = inner.gradient(loss_of(gather(w, ids)), w);
    REQUIRE(is_row_sparse(gradient));
    const Tensor clipped = clip_by_global_norm({gradient}, 1.0).first[0];
    return reduce_sum(clipped * weights) + reduce_sum(square(gradient));
  };
  const Tensor w = table(float64);
  GradientTape tape;
  tape.watch(w);
  const Tensor gradient = tape.gradient(f(w), w);
  const std::vector<double> at = values(w), found = values(gradient);
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto moved = [&](double by) {
      std::vector<double> x = at;
      x[i] += by;
      return f(tensor(x, w.shape())).item<double>();
    };
    CHECK(found[i] == doctest::Approx((moved(1e-5) - moved(-1e-5)) / 2e-5).epsilon(1e-6));
  }
}

TEST_CASE("an id outside the table is an error with the ids, and nothing changes") {
  const Tensor first = table();
  const Variable w(first), v(first);
  AdamOptimizer optimizer;
  for (const std::int64_t bad : {5L, -1L}) {
    const Tensor ids = tensor(std::vector<std::int64_t>{0, 3, bad});
    const std::string text = "indices[2] = " + std::to_string(bad) + " is not in [0, 5)";
    CHECK(message_of<InvalidArgumentError>([&] { embedding_lookup(w, ids); }).find(text) == 0);
    // The first pair is good.
    const Tensor good = gradient_of_lookup(v, tensor({1})), wrong = to_tensor({ids, ones({3, row_size})}, w);
    CHECK(message_of<InvalidArgumentError>([&] { optimizer.apply_gradients({good, wrong}, {v, w}); }).find(text) == 0);
    CHECK(message_of<InvalidArgumentError>([&] { wrong.to_vector<float>(); }).find(text) == 0);
    CHECK(same_bits(w, first));
    CHECK(same_bits(v, first));
    CHECK(optimizer.iterations() == 0);
    const auto step = trace(
        [&](const Tensor& of) {
          GradientTape tape;
          Tensor loss = loss_of(gather(w, of));
          optimizer.apply_gradients({tape.gradient(loss, w)}, {w});
          return loss;
        },
        {spec(int64, {-1})});
    CHECK(message_of<InvalidArgumentError>([&] { step(ids); }).find(text) == 0);
    CHECK(same_bits(w, first));
  }
}

TEST_CASE("rows that make no gradient are refused") {
  const Tensor like = zeros({4, 2});
  const Tensor good = to_tensor({tensor({1, 1}), tensor({{1.0, 2.0}, {3.0, 4.0}})}, like);
  CHECK(is_row_sparse(good));
  check_values(good, {0, 0, 4, 6, 0, 0, 0, 0});
  CHECK_THROWS_AS(to_tensor({tensor({1.0}), ones({1, 2})}, like), InvalidArgumentError);
  CHECK_THROWS_AS(to_tensor({tensor({1}), ones({1, 3})}, like), InvalidArgumentError);
  CHECK_THROWS_AS(to_tensor({tensor({1}), ones({2, 2})}, like), InvalidArgumentError);
  CHECK_THROWS_AS(to_tensor({tensor({1}), ones({1})}, tensor(1.0)), InvalidArgumentError);
  Variable w(zeros({3, 2}));
  GradientDescentOptimizer optimizer(1.0);
  CHECK_THROWS_AS(optimizer.apply_gradients({good}, {w}), InvalidArgumentError);
}

TEST_CASE("a step needs no memory of the size of the table") {
  constexpr std::int64_t rows = 200'000, bytes = rows * 4 * 4;
  for (const Rule& rule : rules()) {
    INFO(rule.name);
    const Variable w(zeros({rows, 4}));
    const std::unique_ptr<Optimizer> optimizer = rule.make();
    const auto step = [&](const Tensor& ids) {
      GradientTape tape;
      Tensor loss = loss_of(embedding_lookup(w, ids)) + loss_of(gather(w, {7, 8}));
      const auto [clipped, norm] = clip_by_global_norm({tape.gradient(loss, w)}, 1.0);
      optimizer->apply_gradients({clipped[0]}, {w});
      return loss;
    };
    const auto traced = trace(step, {spec(int32, {-1})});
    const Tensor ids = tensor({3, 1999, 3, 199'999});
    step(ids);  // makes the slots
    traced(ids);
    for (const bool is_traced : {false, true}) {
      reset_peak_memory();
      const std::int64_t before = memory_stats().in_use;
      is_traced ? traced(ids) : step(ids);
      CHECK(memory_stats().peak - before < bytes / 10);
    }
  }
}

TEST_CASE("a gradient of rows may be the result of recompute and of custom_gradient") {
  const Variable w(table(float64));
  const Tensor ids = tensor({1, 3, 1}), one = tensor(1.0);
  const Tensor expected = identity(gradient_of_lookup(w, ids));
  const auto recomputed = recompute([&](const Tensor&) { return gradient_of_lookup(w, ids); });
  const auto custom = custom_gradient([&](const Tensor& x) -> CustomGradient {
    return {gradient_of_lookup(w, ids), [x](const Tensor& g) -> Tensors { return {reduce_sum(g) * x}; }};
  });
  CHECK(same_bits(recomputed(one), expected));
  CHECK(same_bits(custom(one), expected));
}

}  // namespace

}  // namespace sparse_test
