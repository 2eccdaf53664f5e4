// An LSTM reads Shakespeare character by character, learns which one comes next, and then writes a text of its own.
// Writes the losses for TensorBoard: tensorboard --logdir logs
#include <cstdio>
#include <iostream>
#include <set>

#include <tapestry/tapestry.hpp>

#include "support/data_file.hpp"
#include "support/flags.hpp"
#include "support/progress.hpp"

namespace {

constexpr std::int64_t piece_length = 64;

/// The characters of a text, numbered in their order.
class Alphabet {
 public:
  explicit Alphabet(const std::string& text) {
    const std::set<char> used(text.begin(), text.end());
    letters_.assign(used.begin(), used.end());
  }
  std::int64_t size() const { return static_cast<std::int64_t>(letters_.size()); }
  char letter(std::int64_t number) const { return letters_.at(static_cast<std::size_t>(number)); }
  /// int64 [text.size()]. Throws InvalidArgumentError for a letter that is not in the alphabet.
  tp::Tensor numbers(const std::string& text) const {
    std::vector<std::int64_t> numbers;
    numbers.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto number = letters_.find(text[i]);
      if (number == std::string::npos) {
        std::size_t size = 1;  // the other bytes of a character of UTF-8 begin with the bits 10
        while (i + size < text.size() && (text[i + size] & 0xC0) == 0x80) ++size;
        throw tp::InvalidArgumentError("The text to learn from has no '" + text.substr(i, size) + "'");
      }
      numbers.push_back(static_cast<std::int64_t>(number));
    }
    return tp::tensor(numbers);
  }

 private:
  std::string letters_;
};

struct Model : tp::nn::Module {
  tp::nn::Embedding embedding;
  tp::nn::LSTM lstm;
  tp::nn::Dense logits;
  TAPESTRY_FIELDS(embedding, lstm, logits)

  Model(std::int64_t letters, std::int64_t units) : embedding(letters, 64), lstm(64, units), logits(units, letters) {}

  /// Logits [batch,time,letters] of the letter that follows each of the letters [batch,time]. The LSTM starts from the
  /// given state.
  std::pair<tp::Tensor, tp::nn::LSTMState> operator()(const tp::Tensor& letters,
                                                      const tp::nn::LSTMState& state = {}) const {
    auto [output, next] = lstm(embedding(letters), state);
    return {logits(output), next};
  }
};

/// Pieces of the text, and as targets the same pieces one letter further on.
tp::data::Dataset pieces(const tp::Tensor& letters) {
  const std::int64_t end = (letters.size() - 1) / piece_length * piece_length;
  return {tp::reshape(letters(tp::range(0, end)), {-1, piece_length}),
          tp::reshape(letters(tp::range(1, end + 1)), {-1, piece_length})};
}

/// Continues a text. Each letter is drawn with the probability that the model gives it; a temperature below 1 favours
/// likely letters.
std::string continuation(const Model& model, const Alphabet& alphabet, std::string text, int length,
                         double temperature) {
  auto [logits, state] = model(tp::expand_dims(alphabet.numbers(text), 0));
  for (int i = 0; i < length; ++i) {
    auto next = tp::random::categorical(logits(tp::all, -1) / temperature);
    text += alphabet.letter(next.item<std::int64_t>());
    std::tie(logits, state) = model(next, state);
  }
  return text;
}

}  // namespace

int main(int count, char** arguments) {
  std::string data = "data/text", start = "ROMEO:\n", log = "logs";
  int epochs = 5, units = 256, length = 400, seed = 1;
  support::parse_flags(count, arguments, "Learns to write like Shakespeare.",
                       {{"--data", "folder with tinyshakespeare.txt", data},
                        {"--epochs", "passes over the text", epochs, 1},
                        {"--units", "of the LSTM", units, 1},
                        {"--start", "of the text that it writes", start},
                        {"--length", "of the text that it writes, in characters", length},
                        {"--seed", "of the first weights, of the order of the pieces, and of the text", seed},
                        {"--log", "folder for TensorBoard", log}});
  return support::run([&] {
    const std::string text = tp::data::read_text(support::data_file(
        data, "tinyshakespeare.txt",
        "It is data/tinyshakespeare/input.txt of https://github.com/karpathy/char-rnn (A. Karpathy), "
        "1,115,394 bytes; any other text will do."));
    const Alphabet alphabet(text);
    if (start.empty()) throw tp::InvalidArgumentError("--start needs a character, from which the text goes on");
    alphabet.numbers(start);  // before the training: throws for a character that the text lacks
    const auto [train, validation] = tp::data::split(pieces(alphabet.numbers(text)), 0.1, {.shuffle = false});
    tp::data::Loader batches(
        train, {.batch = 32, .shuffle = true, .seed = static_cast<std::uint64_t>(seed), .drop_last = true});

    tp::random::seed(static_cast<std::uint64_t>(seed));
    Model model(alphabet.size(), units);
    tp::train::AdamOptimizer optimizer(tp::train::CosineDecay(0.005, epochs * batches.size()));
    const auto loss_of = [&](const tp::Tensor& x, const tp::Tensor& y) {
      return tp::losses::cross_entropy(y, model(x).first);
    };
    const auto piece = tp::spec(tp::int64, {-1, piece_length});
    const auto evaluate = tp::trace(loss_of, {piece, piece});
    const auto step = tp::trace(
        [&](const tp::Tensor& x, const tp::Tensor& y) {
          tp::GradientTape tape;
          auto loss = loss_of(x, y);
          // A long chain of time steps sometimes makes a huge gradient; clipping keeps its direction and limits its
          // length.
          auto [gradients, norm] = tp::clip_by_global_norm(tape.gradient(loss, model.parameters()), 1);
          optimizer.apply_gradients(gradients, model.parameters());
          return loss;
        },
        {piece, piece});

    tp::summary::FileWriter log_file(log, step.graph());
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      {
        support::Progress progress("epoch " + std::to_string(epoch), batches.size());
        for (auto [x, y] : batches) {
          const double loss = step(x, y).item<double>();
          log_file.add_scalar("loss", loss, optimizer.iterations());
          progress.advance("loss " + std::to_string(loss));
        }
      }
      double sum = 0;
      tp::data::Loader parts(validation, {.batch = 64});
      for (auto [x, y] : parts) sum += evaluate(x, y).item<double>() * static_cast<double>(x.shape().dim(0));
      const double loss = sum / static_cast<double>(validation.size());
      log_file.add_scalar("validation loss", loss, optimizer.iterations());
      std::printf("Epoch %d  validation loss %.3f\n", epoch, loss);
      std::fflush(stdout);
    }
    std::cout << '\n' << continuation(model, alphabet, start, length, 0.6) << '\n';
  });
}

// Output:
// Epoch 1  validation loss 1.720
// Epoch 2  validation loss 1.626
// Epoch 3  validation loss 1.579
// Epoch 4  validation loss 1.554
// Epoch 5  validation loss 1.551
//
// ROMEO:
// O man are contral, that would not be a wind;
// My lord starm'd to the ground in this country's great as the constants
// With all the complaining comfortable leadings,
// Shall be sad him concented thee that the breast,
// That thou down to the law on them more hearted the world
// And stand the shame, sir, being and one.
// For the people to the less with your boots,
// The slander when to my death; as I think, the
