// Beam search: the most probable words of a small recurrent model, which has learnt to spell. The search ends when all
// words have ended, so its length depends on the values. The same function runs eagerly, traced, and read from a file.
#include <iostream>
#include <string>
#include <vector>

#include <tapestry/tapestry.hpp>

#include "support/flags.hpp"

constexpr int letters = 27;  // 0 ends a word; 1 to 26 are a to z
constexpr int hidden = 24, beam = 3, longest = 10;

struct Speller {
  tp::random::NumpyLegacy numpy{0};
  tp::Variable table{draw({letters, hidden})}, recurrent{draw({hidden, hidden})}, out{draw({hidden, letters})};

  /// The next state [n, hidden], and the logarithms of the probabilities of the next letter [n, letters].
  std::pair<tp::Tensor, tp::Tensor> step(const tp::Tensor& last, const tp::Tensor& state) const {
    auto next = tp::tanh(tp::embedding_lookup(table, last) + tp::matmul(state, recurrent));
    return {next, tp::log_softmax(tp::matmul(next, out))};
  }

 private:
  tp::Tensor draw(const tp::Shape& shape) { return (numpy.randn(shape) * 0.2).cast(tp::float32); }
};

/// The mean negative logarithm of the probabilities of words [n, length].
tp::Tensor loss_of(const Speller& speller, const tp::Tensor& words) {
  auto state = tp::zeros({words.shape()[0], hidden});
  auto loss = tp::tensor(0.0f);
  for (int i = 0; i + 1 < words.shape()[1]; ++i) {
    auto [next, log_p] = speller.step(words(tp::all, i), state);
    loss = loss - tp::reduce_mean(tp::reduce_sum(log_p * tp::one_hot(words(tp::all, i + 1), letters), 1));
    state = next;
  }
  return loss;
}

/// The most probable words that begin with a letter, [beam, length], the best first, and the logarithms of their
/// probabilities. Shorter words end with zeros.
std::pair<tp::Tensor, tp::Tensor> search(const Speller& speller, const tp::Tensor& first) {
  const double never = -1e9;
  auto only_the_end = (1.0 - tp::one_hot(tp::zeros({1}, {.dtype = tp::int32}), letters)) * never;
  auto start = tp::zeros({beam, 1}, {.dtype = tp::int32}) + first;
  auto [found, log_probabilities, last_state] = tp::while_loop(
      [](tp::Tensor words, tp::Tensor, tp::Tensor) { return tp::reduce_any(tp::not_equal(words(tp::all, -1), 0)); },
      [&](tp::Tensor words, tp::Tensor scores, tp::Tensor state) {
        auto last = words(tp::all, -1);
        auto [next, log_p] = speller.step(last, state);
        log_p = tp::where(tp::expand_dims(tp::equal(last, 0), 1), only_the_end, log_p);
        auto best = tp::top_k(tp::reshape(tp::expand_dims(scores, 1) + log_p, {beam * letters}), beam);
        auto row = tp::floor_divide(best.indices, letters), letter = tp::mod(best.indices, letters);
        return std::tuple{tp::concat({tp::gather(words, row), tp::expand_dims(letter, 1)}, 1), best.values,
                          tp::gather(next, row)};
      },
      std::tuple{start, tp::tensor<float>({0, never, never}), tp::zeros({beam, hidden})},
      {.maximum_iterations = longest, .shape_invariants = {{beam, -1}, {beam}, {beam, hidden}}});
  return {found, log_probabilities};
}

std::vector<std::string> texts_of(const tp::Tensor& words) {
  const std::vector<int> codes = words.to_vector<int>();
  const std::size_t length = codes.size() / beam;
  std::vector<std::string> texts(beam);
  for (std::size_t i = 0; i < codes.size(); ++i)
    if (codes[i] > 0) texts[i / length] += static_cast<char>('a' + codes[i] - 1);
  return texts;
}

int main(int count, char** arguments) {
  support::parse_flags(count, arguments, "Learns words and searches for them.", {});
  Speller speller;
  const std::vector<std::string> known{"loop",   "loop",   "loop",   "loop",   "look", "look", "lock",
                                       "branch", "branch", "branch", "branch", "beam", "beam", "break"};
  std::vector<int> codes;
  for (const std::string& word : known)
    for (std::size_t i = 0; i < longest; ++i) codes.push_back(i < word.size() ? word[i] - 'a' + 1 : 0);
  auto words = tp::reshape(tp::tensor(codes), {static_cast<std::int64_t>(known.size()), longest});
  tp::train::AdamOptimizer optimizer(0.02);
  auto train = tp::trace(
      [&](tp::Tensor batch) {
        optimizer.minimize([&] { return loss_of(speller, batch); }, {speller.table, speller.recurrent, speller.out});
      },
      {tp::spec(words)});
  for (int i = 0; i < 200; ++i) train(words);

  auto traced = tp::trace([&](tp::Tensor first) { return search(speller, first); }, {tp::spec(tp::int32, {}, "first")});
  // The same bytes as in a file, which TensorFlow reads, too, with the weights as constants.
  const tp::Session reloaded(
      tp::Graph::from_graph_def(traced.graph().as_graph_def({.variables = tp::VariableStyle::frozen})));
  for (const char first : {'l', 'b'}) {
    const auto code = tp::tensor(static_cast<int>(first - 'a' + 1));
    auto [found, scores] = search(speller, code);
    for (const std::string& text : texts_of(found)) std::cout << text << ' ';
    auto [again, scores_again] = traced(code);
    const bool same =
        texts_of(again) == texts_of(found) && scores_again.to_vector<float>() == scores.to_vector<float>();
    std::cout << (same ? "and the same traced" : "but others traced");
    auto read = reloaded.run({traced.output(0).name(), traced.output(1).name()}, {{"first:0", code}});
    const bool same_again =
        texts_of(read[0]) == texts_of(found) && read[1].to_vector<float>() == scores.to_vector<float>();
    std::cout << (same_again ? ", and read again" : ", but others read again") << '\n';
  }
}

// Output:
// loop look lock and the same traced, and read again
// branch beam break and the same traced, and read again
