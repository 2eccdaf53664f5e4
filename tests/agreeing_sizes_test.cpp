// Sizes that must be the same, of which a graph does not know that they are: the run compares them.

#include <functional>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::agreeing_sizes_test {
namespace {

class Descent final : public train::Optimizer {
 public:
  Descent() : Optimizer("Descent", 0.0, {}) {}

 private:
  Tensors updated(const Tensor& value, const Tensor& g, const Tensors&, const Step& step) const override {
    return {value - step.learning_rate * g};
  }
};

}  // namespace

// What is broadcast where it need not be the same size would give a number that nobody asked for.
TEST_CASE("sizes that must be the same are compared when they become known") {
  const nn::GRU gru(3, 2);
  const nn::LSTM lstm(3, 2);
  const nn::EmbeddingBag bag(4, 2);
  const nn::Dense dense(5, 1, {.bias = false});
  const Variable w(ones({5}), {.name = "w"});
  train::AdamOptimizer adam(0);
  Descent descent;
  train::GradientAccumulation sums(1);
  register_op({.name = "HalfWithGradient",
               .infer = same_shape,
               .cpu =
                   [](const Call& call) {
                     for (std::int64_t i = 0; i < call.input(0).size(); ++i)
                       call.output_data<float>()[i] = call.input(0).data<float>()[i] / 2;
                   },
               .gradient = [](const Call& call, const Tensor& g) -> Tensors {
                 return {call.input(1) * reduce_sum(g), Tensor()};
               }});
  const auto product = [](const Tensor& x) { return x * x; };
  const auto matrix = [](const Tensor& rows, const Tensor& columns) { return expand_dims(rows, 1) * columns; };
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&, const Tensor&)>>> cases{
      {"cosine_similarity",
       [](const Tensor& a, const Tensor& b) {
         return losses::cosine_similarity(expand_dims(a, 1), expand_dims(b, 1));
       }},
      {"cosine_embedding",
       [](const Tensor& a, const Tensor& b) {
         return losses::cosine_embedding(a, expand_dims(b, 1), expand_dims(b * 2.0, 1));
       }},
      {"class weights",
       [](const Tensor& a, const Tensor& b) {
         return losses::cross_entropy(tensor({0}), expand_dims(b, 0), {.class_weights = a});
       }},
      {"class weights of nll",
       [](const Tensor& a, const Tensor& b) {
         return losses::nll(tensor({0}), expand_dims(b, 0), {.class_weights = a});
       }},
      {"weighted distributions",
       [](const Tensor& a, const Tensor& b) {
         return losses::cross_entropy(expand_dims(a, 1) * ones({3}), expand_dims(b, 1) * ones({3}),
                                      {.class_weights = ones({3})});
       }},
      {"pos_weight", [](const Tensor& a,
                        const Tensor& b) { return losses::binary_cross_entropy_with_logits(b, b, {.pos_weight = a}); }},
      {"weights of an EmbeddingBag",
       [&](const Tensor& a, const Tensor& b) { return bag(expand_dims(a.cast(int32), 0), expand_dims(b, 0)); }},
      {"a letter of einsum", [](const Tensor& a, const Tensor& b) { return einsum("i,i->i", a, b); }},
      {"a letter that is summed", [](const Tensor& a, const Tensor& b) { return einsum("i,i->", a, b); }},
      {"a letter twice in a term", [&](const Tensor& a, const Tensor& b) { return einsum("ii->i", matrix(a, b)); }},
      {"a letter in three terms", [](const Tensor& a, const Tensor& b) { return einsum("i,i,i->i", a, a, b); }},
      {"a letter of a batch",
       [&](const Tensor& a, const Tensor& b) {
         return einsum("bij,bjk->bik", expand_dims(matrix(a, ones({3})), 1), expand_dims(matrix(b, ones({3})), 2));
       }},
      {"pairs of tensordot whose product is the same",
       [&](const Tensor& a, const Tensor& b) { return tensordot(matrix(a, b), matrix(b, a), 2); }},
      {"an output gradient",
       [](const Tensor& a, const Tensor& b) {
         GradientTape tape;
         tape.watch(b);
         return tape.gradient(b * b, b, {.output_gradients = a});
       }},
      {"vjp", [&](const Tensor& a, const Tensor& b) { return vjp(product, a, b).second; }},
      {"jvp", [&](const Tensor& a, const Tensor& b) { return jvp(product, a, b).second; }},
      {"the result of a custom gradient",
       [](const Tensor& a, const Tensor& b) {
         GradientTape tape;
         tape.watch(b);
         const auto f = custom_gradient([&](const Tensor& x) -> CustomGradient {
           return {x * 2.0, [&](const Tensor&) -> Tensors { return {a * 3.0}; }};
         });
         return tape.gradient(f(b), b);
       }},
      {"the result of a registered gradient",
       [](const Tensor& a, const Tensor& b) {
         GradientTape tape;
         tape.watch(b);
         return tape.gradient(apply_op("HalfWithGradient", {b, a}), b);
       }},
      {"a value of functional_call",
       [&](const Tensor& a, const Tensor& b) {
         return nn::functional_call(dense, StateDict{{"weight", expand_dims(a, 0)}}, ones({2, 5})) * b;
       }},
      {"a gradient for an optimizer",
       [&](const Tensor& a, const Tensor& b) {
         adam.apply_gradients({a}, {w});
         return w * reduce_sum(b);
       }},
      {"a gradient for an optimizer of one's own",
       [&](const Tensor& a, const Tensor& b) {
         descent.apply_gradients({a}, {w});
         return w * reduce_sum(b);
       }},
      {"a gradient that is accumulated",
       [&](const Tensor& a, const Tensor& b) {
         sums.apply_gradients(adam, {a}, {w});
         return w * reduce_sum(b);
       }},
      {"sigmoid_cross_entropy", [](const Tensor& a, const Tensor& b) { return sigmoid_cross_entropy(a, b); }},
      {"mse", [](const Tensor& a, const Tensor& b) { return losses::mse(a, b); }},
      {"l1", [](const Tensor& a, const Tensor& b) { return losses::l1(a, b); }},
      {"huber", [](const Tensor& a, const Tensor& b) { return losses::huber(a, b); }},
      {"hinge", [](const Tensor& a, const Tensor& b) { return losses::hinge(a, b); }},
      {"binary_cross_entropy_with_logits",
       [](const Tensor& a, const Tensor& b) { return losses::binary_cross_entropy_with_logits(a, b); }},
      {"kl_divergence", [](const Tensor& a, const Tensor& b) { return losses::kl_divergence(a, b); }},
      {"a state of a GRU",
       [&](const Tensor& a, const Tensor& b) {
         return gru(expand_dims(a, {1, 2}) * ones({4, 3}), expand_dims(b, {0, 2}) * ones({2})).state;
       }},
      {"lengths of reverse_sequence",
       [](const Tensor& a, const Tensor& b) { return reverse_sequence(expand_dims(a, 1) * ones({3}), b.cast(int32)); }},
      {"points of a trapezoid", [](const Tensor& a, const Tensor& b) { return trapezoid(b, a, 0); }},
      {"points of a trapezoid, each with its own",
       [](const Tensor& a, const Tensor& b) { return trapezoid(expand_dims(b, 0), expand_dims(a, 0), -1); }},
      {"segments of unsorted_segment_sum",
       [](const Tensor& a, const Tensor& b) { return unsorted_segment_sum(a, b.cast(int32), 2); }},
      {"segments of unsorted_segment_max",
       [](const Tensor& a, const Tensor& b) { return unsorted_segment_max(expand_dims(a, 1), b.cast(int32), 2); }},
      {"a mask of masked_assign",
       [](const Tensor& a, const Tensor& b) { return masked_assign(expand_dims(a, 1), expand_dims(b, 1) > 0, 2.0); }},
      {"lengths of ctc_greedy_decoder",
       [](const Tensor& a, const Tensor& b) {
         return ctc_greedy_decoder(expand_dims(a, {1, 2}) * ones({5, 3}), b.cast(int32)).neg_sum_logits;
       }},
      {"the batch of ctc_greedy_decoder",
       [](const Tensor& a, const Tensor& b) {
         return ctc_greedy_decoder(expand_dims(a, {0, 2}) * ones({5, 1, 3}), b.cast(int32)).neg_sum_logits;
       }},
      {"lengths of an LSTM",
       [&](const Tensor& a, const Tensor& b) {
         return lstm(expand_dims(a, {1, 2}) * ones({4, 3}), {}, b.cast(int32)).state.h;
       }},
  };
  for (const auto& each : cases) {
    CAPTURE(each.first);
    const auto& f = each.second;
    const auto traced =
        trace([&f](const Tensor& a, const Tensor& b) { return f(a, b); }, {spec(float32, {-1}), spec(float32, {-1})});
    check_same(traced(ones({5}), ones({5})), f(ones({5}), ones({5})));
    int refused = 0;
    for (const auto& sizes : {std::pair(5, 1), {1, 5}, {5, 4}, {0, 1}, {1, 0}}) {
      CAPTURE(sizes.first);
      CAPTURE(sizes.second);
      const Tensor a = ones({sizes.first}), b = ones({sizes.second});
      Tensor eager;
      try {
        eager = f(a, b);
      } catch (const InvalidArgumentError&) {
        ++refused;
      }
      if (eager)
        check_same(traced(a, b), eager);
      else
        CHECK_THROWS_AS(traced(a, b), InvalidArgumentError);
    }
    CHECK(refused > 0);
  }
}

}  // namespace tapestry::test::agreeing_sizes_test
