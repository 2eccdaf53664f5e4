// Functions of programs that are made of several ops and compare the sizes of what they are given: contractions,
// losses, and choices that the user's own program makes by a size.

#include <algorithm>
#include <map>
#include <utility>

#include "fuzz/programs.hpp"

namespace tapestry::test::programs {
namespace {

bool fits_contraction(const Tensor& x) { return is_float(x) && x.rank() > 0 && x.rank() <= 4 && x.size() <= 400; }

// ---- Contractions ---------------------------------------------------------------------------------------------------

/// The letters of two operands' axes, "ab,bc->ac", as numbers: the letters, -1 between the operands, -2 before the
/// result. Axes of one size share a letter more often than others, which are refused where they meet.
Made make_einsum(Generator& g, Values& values) {
  const auto a = g.value_where(values, fits_contraction), b = g.value_where(values, fits_contraction);
  if (!a || !b) return {};
  Step step{.operands = {*a, *b}};
  std::map<std::int64_t, std::int64_t> sizes;  // of the letters so far
  for (const std::size_t operand : step.operands) {
    if (operand == step.operands[1] && !step.numbers.empty()) step.numbers.push_back(-1);
    for (const std::int64_t size : values[operand].shape().to_vector()) {
      std::vector<std::int64_t> same;
      for (const auto& [letter, its] : sizes)
        if (its == size || g.dice.chance(3)) same.push_back(letter);
      const auto fresh = static_cast<std::int64_t>(sizes.size());
      const std::int64_t letter = !same.empty() && g.dice.chance(60) ? g.dice.one_of(same) : fresh;
      sizes.emplace(letter, size);
      step.numbers.push_back(letter);
    }
  }
  step.numbers.push_back(-2);
  std::vector<std::int64_t> result;
  for (const auto& [letter, size] : sizes)
    if (g.dice.chance(50)) result.insert(g.dice.chance(50) ? result.begin() : result.end(), letter);
  step.numbers.insert(step.numbers.end(), result.begin(), result.end());
  return step;
}
Tensor run_einsum(Machine&, const Step& step, const Values& x) {
  std::string equation;
  for (const std::int64_t each : step.numbers)
    equation += each == -1   ? std::string(",")
                : each == -2 ? std::string("->")
                             : std::string(1, static_cast<char>('a' + each));
  return einsum(equation, x[0], x[1].cast(x[0].dtype()));
}

Made make_tensordot(Generator& g, Values& values) {
  const auto a = g.value_where(values, fits_contraction), b = g.value_where(values, fits_contraction);
  if (!a || !b) return {};
  Step step{.operands = {*a, *b}};
  const std::vector<std::int64_t> left = values[*a].shape().to_vector(), right = values[*b].shape().to_vector();
  for (std::size_t i = 0; i < left.size(); ++i)
    for (std::size_t k = 0; k < right.size(); ++k) {
      const bool is_used =
          std::find(step.numbers.begin(), step.numbers.end(), static_cast<std::int64_t>(k)) != step.numbers.end();
      if (left[i] != right[k] || is_used || !g.dice.chance(60)) continue;
      step.numbers.push_back(static_cast<std::int64_t>(i));
      step.numbers.push_back(static_cast<std::int64_t>(k));
      break;
    }
  return step;
}
Tensor run_tensordot(Machine&, const Step& step, const Values& x) {
  Ints left, right;
  for (std::size_t i = 0; i + 1 < step.numbers.size(); i += 2) {
    left.push_back(step.numbers[i]);
    right.push_back(step.numbers[i + 1]);
  }
  return tensordot(x[0], x[1].cast(x[0].dtype()), {left, right});
}

// ---- Losses ---------------------------------------------------------------------------------------------------------

constexpr std::size_t kinds_of_loss = 10;

Tensor run_loss(Machine&, const Step& step, const Values& x) {
  const auto reduction = static_cast<losses::Reduction>(step.numbers[1]);
  const Tensor &targets = x[0], predictions = x[1].cast(targets.dtype());
  switch (static_cast<std::size_t>(step.numbers[0])) {
    case 0:
      return losses::mse(targets, predictions, {.reduction = reduction});
    case 1:
      return losses::l1(targets, predictions, {.reduction = reduction});
    case 2:
      return losses::huber(targets, predictions, {.delta = 0.5, .reduction = reduction});
    case 3:
      return losses::cross_entropy(softmax(targets), predictions, {.label_smoothing = 0.1, .reduction = reduction});
    case 4:
      return losses::cross_entropy(argmax(targets, -1), predictions, {.reduction = reduction});
    case 5:
      return losses::binary_cross_entropy_with_logits(sigmoid(targets), predictions,
                                                      {.pos_weight = exp(targets(0)), .reduction = reduction});
    case 6:
      return losses::kl_divergence(softmax(targets), log_softmax(predictions), {.reduction = reduction});
    case 7:
      return losses::hinge(sign(targets), predictions, {.reduction = reduction});
    case 8:
      return losses::cosine_similarity(targets, predictions);
    default:
      return losses::cross_entropy(argmax(targets, -1), predictions,
                                   {.class_weights = exp(predictions(0)), .reduction = reduction});
  }
}
Made make_loss(Generator& g, Values& values) {
  const auto suits = [](const Tensor& x) { return is_float(x) && x.rank() > 0; };
  const auto targets = g.value_where(values, suits);
  if (!targets) return {};
  auto predictions =
      g.value_where(values, [&](const Tensor& x) { return suits(x) && x.shape() == values[*targets].shape(); });
  if (g.dice.chance(20)) predictions = g.value_where(values, suits);  // which is refused, or broadcasts
  if (!predictions) return {};
  return Step{.operands = {*targets, *predictions},
              .numbers = {static_cast<std::int64_t>(g.dice.below(kinds_of_loss)), g.dice.between(0, 3)}};
}

// ---- Sizes as numbers -----------------------------------------------------------------------------------------------

/// What a program does otherwise for large inputs. A trace that does not know the size refuses the comparison.
Tensor run_guard(Machine&, const Step& step, const Values& x) {
  return x[0].shape()[step.numbers[0]] > step.numbers[1] ? x[0] * 2 : x[0] + 1;
}
Made make_guard(Generator& g, Values& values) {
  const auto operand = g.value_where(values, [](const Tensor& x) { return x.rank() > 0; });
  if (!operand) return {};
  const std::int64_t rank = values[*operand].rank();
  return Step{.operands = {*operand}, .numbers = {g.dice.between(-rank, rank - 1), g.dice.between(0, 4)}};
}

}  // namespace

std::vector<Production> composite_productions() {
  return {{"einsum", 3, make_einsum, run_einsum},
          {"tensordot", 2, make_tensordot, run_tensordot},
          {"loss", 5, make_loss, run_loss},
          {"guard", 1, make_guard, run_guard}};
}

}  // namespace tapestry::test::programs
