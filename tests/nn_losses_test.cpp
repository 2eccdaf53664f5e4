// Losses against loops in double that are written from their definitions, eagerly and traced, with their reductions and
// gradients.

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace nn_losses_test {

using namespace tapestry;
using namespace tapestry::test;
using losses::Reduction;

namespace {

using Row = std::vector<double>;

/// A loss of rows: what one example contributes, as the elements that the loss has for it.
struct Case {
  std::string name;
  std::function<Tensor(const Tensor& targets, const Tensor& predictions, Reduction)> loss;
  std::function<Row(const Row& targets, const Row& predictions)> reference;
  std::function<Tensor(std::int64_t batch)> targets;  ///< [batch, ...]
};

constexpr std::int64_t width = 4;

Tensor real_targets(std::int64_t batch) { return random::normal({batch, width}, {.stddev = 2, .dtype = float64}); }
Tensor probabilities(std::int64_t batch) { return softmax(real_targets(batch)); }
Tensor bits(std::int64_t batch) { return random::bernoulli({batch, width}, 0.5, {.dtype = float64}); }
Tensor signs(std::int64_t batch) { return 2.0 * bits(batch) - 1.0; }
Tensor labels(std::int64_t batch) { return random::randint(0, width, {batch}); }

template <class F>
auto by_element(F f) {
  return [f](const Row& t, const Row& p) {
    Row elements;
    for (std::size_t i = 0; i < p.size(); ++i) elements.push_back(f(t[i], p[i]));
    return elements;
  };
}

Row log_softmax_of(Row x) {
  double sum = 0;
  for (const double each : x) sum += std::exp(each);
  for (double& each : x) each -= std::log(sum);
  return x;
}

/// -sum(target * log_softmax(logits)), with the targets smoothed as the definition says.
double cross_entropy_of(Row target, const Row& logits, double smoothing) {
  const Row log_p = log_softmax_of(logits);
  double sum = 0;
  for (std::size_t i = 0; i < log_p.size(); ++i) sum -= (target[i] * (1 - smoothing) + smoothing / width) * log_p[i];
  return sum;
}

Row one_hot_of(double label) {
  Row target(width);
  target[static_cast<std::size_t>(label)] = 1;
  return target;
}

std::vector<Case> cases() {
  using namespace losses;
  std::vector<Case> list{
      {"mse", [](const Tensor& t, const Tensor& p, Reduction r) { return mse(t, p, {.reduction = r}); },
       by_element([](double t, double p) { return (p - t) * (p - t); }), real_targets},
      {"l1", [](const Tensor& t, const Tensor& p, Reduction r) { return l1(t, p, {.reduction = r}); },
       by_element([](double t, double p) { return std::abs(p - t); }), real_targets},
      {"huber",
       [](const Tensor& t, const Tensor& p, Reduction r) { return huber(t, p, {.delta = 0.7, .reduction = r}); },
       by_element([](double t, double p) {
         const double d = std::abs(p - t);
         return d <= 0.7 ? d * d / 2 : 0.7 * (d - 0.35);
       }),
       real_targets},
      {"binary cross-entropy",
       [](const Tensor& t, const Tensor& p, Reduction r) {
         return binary_cross_entropy_with_logits(t, p, {.reduction = r});
       },
       by_element([](double t, double z) {
         const double p = 1 / (1 + std::exp(-z));
         return -(t * std::log(p) + (1 - t) * std::log(1 - p));
       }),
       bits},
      {"Kullback-Leibler",
       [](const Tensor& t, const Tensor& p, Reduction r) { return kl_divergence(t, p, {.reduction = r}); },
       by_element([](double t, double log_p) { return t * (std::log(t) - log_p); }), probabilities},
      {"hinge", [](const Tensor& t, const Tensor& p, Reduction r) { return hinge(t, p, {.reduction = r}); },
       by_element([](double t, double p) { return std::max(0.0, 1 - t * p); }), signs},
      {"negative log-likelihood",
       [](const Tensor& t, const Tensor& p, Reduction r) { return nll(t, p, {.reduction = r}); },
       [](const Row& t, const Row& p) { return Row{-p[static_cast<std::size_t>(t[0])]}; }, labels},
      {"cosine embedding",
       [](const Tensor& t, const Tensor& p, Reduction r) {
         const std::vector<Tensor> halves = split(p, 2, -1);
         return cosine_embedding(t, halves[0], halves[1], {.margin = 0.2, .reduction = r});
       },
       [](const Row& t, const Row& p) {
         const double dot = p[0] * p[2] + p[1] * p[3];
         const double cosine = dot / std::sqrt((p[0] * p[0] + p[1] * p[1]) * (p[2] * p[2] + p[3] * p[3]));
         return Row{t[0] > 0 ? 1 - cosine : std::max(0.0, cosine - 0.2)};
       },
       [](std::int64_t batch) { return signs(batch)(all, 0); }},
  };
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    const auto loss = [smoothing](const Tensor& t, const Tensor& p, Reduction r) {
      return cross_entropy(t, p, {.label_smoothing = smoothing, .reduction = r});
    };
    const std::string name = "cross-entropy, smoothed by " + std::to_string(smoothing);
    list.push_back(
        {name + ", of labels", loss,
         [smoothing](const Row& t, const Row& p) { return Row{cross_entropy_of(one_hot_of(t[0]), p, smoothing)}; },
         labels});
    list.push_back({name + ", of distributions", loss,
                    [smoothing](const Row& t, const Row& p) { return Row{cross_entropy_of(t, p, smoothing)}; },
                    probabilities});
  }
  return list;
}

/// The elements of all examples, one after the other.
Row elements_of(const Case& each, const Tensor& targets, const Tensor& predictions) {
  Row all_elements;
  for (std::int64_t i = 0; i < predictions.shape()[0]; ++i) {
    const Row elements = each.reference(values(targets(i)), values(predictions(i)));
    all_elements.insert(all_elements.end(), elements.begin(), elements.end());
  }
  return all_elements;
}

double sum_of(const Row& row) {
  double sum = 0;
  for (const double each : row) sum += each;
  return sum;
}

TEST_CASE("every loss and reduction against loops, eagerly and traced") {
  random::seed(11);
  for (const Case& each : cases())
    for (const std::int64_t batch : {1, 5}) {
      INFO(each.name, ", batch ", batch);
      const Tensor targets = each.targets(batch), predictions = real_targets(batch);
      const Row expected = elements_of(each, targets, predictions);
      const double sum = sum_of(expected);
      check_values(each.loss(targets, predictions, Reduction::none), expected, 1e-12);
      check_values(each.loss(targets, predictions, Reduction::sum), {sum}, 1e-12);
      check_values(each.loss(targets, predictions, Reduction::mean), {sum / static_cast<double>(expected.size())},
                   1e-12);
      check_values(each.loss(targets, predictions, Reduction::batch_mean), {sum / static_cast<double>(batch)}, 1e-12);

      Shape open = targets.shape();
      open.set(0, -1);
      for (const Reduction reduction : {Reduction::none, Reduction::sum, Reduction::mean, Reduction::batch_mean}) {
        const auto with_gradient = [&](const Tensor& t, const Tensor& p) {
          return value_and_grad([&](const Tensor& at) { return each.loss(t, at, reduction); })(p);
        };
        const auto traced = trace(with_gradient, {spec(targets.dtype(), open), spec(predictions.dtype(), {-1, width})});
        const auto [value, gradient] = with_gradient(targets, predictions);
        const auto [traced_value, traced_gradient] = traced(targets, predictions);
        CHECK(same_bits(traced_value, value));
        CHECK(same_bits(traced_gradient, gradient));
      }
    }
}

TEST_CASE("every loss: its gradient against differences") {
  random::seed(12);
  for (const Case& each : cases()) {
    INFO(each.name);
    const Tensor targets = each.targets(3), predictions = real_targets(3), direction = real_targets(3);
    const auto loss = [&](const Tensor& p) { return each.loss(targets, p, Reduction::mean); };
    const double h = 1e-6, along = reduce_sum(grad(loss)(predictions) * direction).item<double>();
    const double difference =
        (loss(predictions + h * direction).item<double>() - loss(predictions - h * direction).item<double>()) / (2 * h);
    CHECK(agree(along, difference, 1e-7));
  }
}

/// A loss of labels, the mean of which counts labels by their weights.
struct LabelCase {
  std::string name;
  std::function<Tensor(const Tensor& labels, const Tensor& scores, Reduction)> loss;
  bool of_logits;
  double smoothing;
  Row weights;           ///< of the classes
  std::int64_t ignored;  ///< this label does not count
};

std::vector<LabelCase> label_cases() {
  std::vector<LabelCase> list;
  for (const double smoothing : {0.0, 0.1})
    for (const bool weighted : {false, true})
      for (const std::optional<std::int64_t> ignored : {std::optional<std::int64_t>(), {2}, {-100}, {9}}) {
        const Row weights = weighted ? Row{0.5, 2, 1.25, 0} : Row(width, 1.0);
        const Tensor class_weights = weighted ? tensor(weights) : Tensor();
        const std::string options = detail::join(" of smoothing ", smoothing, weighted ? ", weighted" : "",
                                                 ignored ? detail::join(", ignoring ", *ignored) : "");
        const auto entropy = [=](const Tensor& t, const Tensor& p, Reduction r) {
          return losses::cross_entropy(
              t, p,
              {.label_smoothing = smoothing, .class_weights = class_weights, .ignore_index = ignored, .reduction = r});
        };
        list.push_back({"cross-entropy" + options, entropy, true, smoothing, weights, ignored.value_or(-1)});
        if (smoothing > 0) continue;
        const auto likelihood = [=](const Tensor& t, const Tensor& p, Reduction r) {
          return losses::nll(t, p, {.class_weights = class_weights, .ignore_index = ignored, .reduction = r});
        };
        list.push_back({"nll" + options, likelihood, false, 0, weights, ignored.value_or(-1)});
      }
  return list;
}

/// The elements, and the sum of what their labels count.
std::pair<Row, double> weighted_elements(const LabelCase& each, const Tensor& labels, const Tensor& scores) {
  Row elements;
  double count = 0;
  for (std::int64_t i = 0; i < labels.size(); ++i) {
    const auto label = labels(i).item<std::int64_t>();
    elements.push_back(0);
    if (label == each.ignored) continue;
    const Row row = values(scores(i)), log_p = each.of_logits ? log_softmax_of(row) : row;
    const Row target = one_hot_of(static_cast<double>(label));
    for (std::size_t k = 0; k < row.size(); ++k)
      elements.back() -= each.weights[k] * (target[k] * (1 - each.smoothing) + each.smoothing / width) * log_p[k];
    count += each.weights[static_cast<std::size_t>(label)];
  }
  return {elements, count};
}

TEST_CASE("class weights and labels that do not count, eagerly, traced and by differences") {
  random::seed(13);
  for (const LabelCase& each : label_cases()) {
    INFO(each.name);
    const Tensor scores = real_targets(6);
    Tensor labels = tensor<std::int64_t>({0, 2, 1, 2, 3, 0});
    if (each.ignored >= width || each.ignored < -1) labels = slice_update(labels, each.ignored, 1);
    const auto [elements, count] = weighted_elements(each, labels, scores);
    const double sum = sum_of(elements);
    check_values(each.loss(labels, scores, Reduction::none), elements, 1e-12);
    check_values(each.loss(labels, scores, Reduction::sum), {sum}, 1e-12);
    check_values(each.loss(labels, scores, Reduction::mean), {sum / count}, 1e-12);
    check_values(each.loss(labels, scores, Reduction::batch_mean), {sum / 6}, 1e-12);

    const auto mean = [&](const Tensor& at) { return each.loss(labels, at, Reduction::mean); };
    const Tensor direction = real_targets(6);
    const double h = 1e-6, along = reduce_sum(grad(mean)(scores) * direction).item<double>();
    const double difference =
        (mean(scores + h * direction).item<double>() - mean(scores - h * direction).item<double>()) / (2 * h);
    CHECK(agree(along, difference, 1e-7));

    const auto with_gradient = [&](const Tensor& t, const Tensor& p) {
      return value_and_grad([&](const Tensor& at) { return each.loss(t, at, Reduction::mean); })(p);
    };
    const auto traced = trace(with_gradient, {spec(int64, {-1}), spec(float64, {-1, width})});
    const auto [value, gradient] = with_gradient(labels, scores);
    const auto [traced_value, traced_gradient] = traced(labels, scores);
    CHECK(same_bits(traced_value, value));
    CHECK(same_bits(traced_gradient, gradient));
  }
}

TEST_CASE("weights of distributions and of positive targets") {
  random::seed(14);
  const Row weights{0.5, 2, 1.25, 0};
  const Tensor p = probabilities(5), z = real_targets(5);
  for (const double smoothing : {0.0, 0.2}) {
    double sum = 0;
    for (std::int64_t i = 0; i < 5; ++i) {
      const Row target = values(p(i)), log_p = log_softmax_of(values(z(i)));
      for (std::size_t k = 0; k < width; ++k)
        sum -= weights[k] * (target[k] * (1 - smoothing) + smoothing / width) * log_p[k];
    }
    // Unlike that of labels, the mean of distributions is over their number, as PyTorch has it.
    check_values(losses::cross_entropy(p, z, {.label_smoothing = smoothing, .class_weights = tensor(weights)}),
                 {sum / 5}, 1e-12);
  }

  const Tensor t = bits(5);
  double sum = 0;
  for (std::int64_t i = 0; i < 5; ++i) {
    const Row target = values(t(i)), logit = values(z(i));
    for (std::size_t k = 0; k < width; ++k) {
      const double yes = 1 / (1 + std::exp(-logit[k]));
      sum -= weights[k] * target[k] * std::log(yes) + (1 - target[k]) * std::log(1 - yes);
    }
  }
  check_values(losses::binary_cross_entropy_with_logits(t, z, {.pos_weight = tensor(weights)}), {sum / 20}, 1e-12);
  check_values(losses::binary_cross_entropy_with_logits({0.0, 1.0, 1.0}, {-200.0, 200.0, -200.0},
                                                        {.pos_weight = tensor(3.0), .reduction = Reduction::none}),
               {0, 0, 600});
}

TEST_CASE("losses at their edges") {
  CHECK(losses::mse(1.0, 3.0).item<double>() == 4);
  check_values(losses::kl_divergence({0.0, 1.0}, {-1.0, -2.0}, {.reduction = Reduction::none}), {0, 2});
  check_values(losses::cosine_similarity({{0.0, 0.0}, {3.0, 4.0}}, {{1.0, 0.0}, {3.0, 4.0}}), {0, 1}, 1e-6);
  const Tensor zero = zeros({1, 2});
  const Tensor gradient = grad([](const Tensor& a) { return losses::cosine_similarity(a, ones({1, 2})); })(zero);
  CHECK(reduce_all(is_finite(gradient)).item<bool>());
  CHECK(std::isnan(losses::cross_entropy({-100, -100}, zeros({2, 3}), {.ignore_index = -100}).item<double>()));
  check_values(losses::cross_entropy({1, -100}, {{0.0, 0.0}, {infinity, not_a_number}}, {.ignore_index = -100}),
               {std::log(2.0)}, 1e-7);
  check_values(losses::binary_cross_entropy_with_logits({0.0, 1.0}, {200.0, 200.0}, {.reduction = Reduction::none}),
               {200, 0});
}

TEST_CASE("losses of placeholders that know nothing yet") {
  const Graph graph;
  const Graph::Scope scope(graph);
  const Tensor targets = placeholder(), predictions = placeholder();
  const Tensor loss = losses::mse(targets, predictions);
  Session session(graph);
  CHECK(session.run(loss, {{targets, {1.0, 2.0}}, {predictions, {2.0, 5.0}}}).item<double>() == 5);
  CHECK(message_of<InvalidArgumentError>([&] {
          losses::mse(targets, predictions, {.reduction = Reduction::batch_mean});
        }) == "Reduction::batch_mean needs a known number of axes");
}

TEST_CASE("losses and norms of whole numbers are computed in floats") {
  const Tensor large = tensor({50000, 0}), none = tensor({0, 0});
  CHECK(losses::mse(none, large).item<double>() == 1.25e9);
  CHECK(losses::l1(tensor<std::uint8_t>({3}), tensor<std::uint8_t>({1})).item<double>() == 2);
  CHECK(losses::hinge(tensor<std::uint8_t>({1}), tensor<std::uint8_t>({3})).item<double>() == 0);
  CHECK(losses::cosine_similarity(large, large).item<double>() == 1);
  CHECK(losses::mse(tensor<std::int64_t>({(std::int64_t{1} << 40) + 1}), tensor<double>({std::pow(2.0, 40)}))
            .item<double>() == 1);
  CHECK(global_norm({large}).item<double>() == 50000);
  check_values(clip_by_norm(tensor<std::uint8_t>({200, 0}), 5), {5, 0});
  check_values(nn::RMSNorm(2)(tensor({{50000, 50000}})), {1, 1}, 1e-5);
}

TEST_CASE("what losses refuse") {
  using namespace losses;
  const auto error = caught<InvalidArgumentError>([] { mse(zeros({3}), zeros({3, 1})); });
  CHECK(error.message() == "Targets and predictions must have the same shape, but have [3] and [3,1]");
  CHECK(error.op() == "mse");
  CHECK(place(error) == to_string(Where{__FILE__, __LINE__ - 3}));
  CHECK_THROWS_AS(cross_entropy({0, 4}, zeros({2, 4})), InvalidArgumentError);
  CHECK_THROWS_AS(nll({0, 4}, zeros({2, 4})), InvalidArgumentError);
  CHECK_THROWS_AS(nll({0, -1}, zeros({2, 4})), InvalidArgumentError);
  CHECK_THROWS_AS(cross_entropy({-1, 0}, zeros({2, 4})), InvalidArgumentError);
  CHECK_THROWS_AS(cross_entropy({-1, 0}, zeros({2, 4}), {.ignore_index = 0}), InvalidArgumentError);
  CHECK(message_of<InvalidArgumentError>([] {
          cross_entropy({0}, zeros({1, 2}), {.class_weights = ones({3})});
        }) == "class_weights must be [classes] = [2], but are [3]");
  CHECK(message_of<InvalidArgumentError>([] {
          cross_entropy(ones({1, 2}), zeros({1, 2}), {.ignore_index = 0});
        }) == "ignore_index is for labels; the targets are distributions");
  CHECK_THROWS_AS(binary_cross_entropy_with_logits(ones({2}), zeros({2}), {.pos_weight = ones({3, 1})}),
                  InvalidArgumentError);
  CHECK_THROWS_AS(cosine_embedding(ones({3}), zeros({2, 4}), zeros({2, 4})), InvalidArgumentError);
  CHECK(message_of<InvalidArgumentError>([] {
          binary_cross_entropy_with_logits(zeros({3, 2}), zeros({3, 2}), {.pos_weight = ones({3})});
        }) == "pos_weight [3] must broadcast to the targets [3,2]");
  CHECK(message_of<InvalidArgumentError>([] { cosine_embedding(1.0, ones({2}), ones({2}), {.margin = 2}); }) ==
        "margin must be in [-1, 1], but is 2.000000");
  CHECK(message_of<InvalidArgumentError>([] { huber(0.0, 0.0, {.delta = 0}); }) ==
        "delta must be positive, but is 0.000000");
  CHECK(message_of<InvalidArgumentError>([] {
          cross_entropy({0}, zeros({1, 2}), {.label_smoothing = 1.5});
        }) == "label_smoothing must be in [0, 1], but is 1.500000");
}

TEST_CASE("cross-entropies say what labels they got, and what they want") {
  const Tensor logits = zeros({3, 5});
  const std::string wanted =
      "; for logits [3,5] they must be labels, int32 or int64 [3], or distributions, of a float "
      "type, [3,5]";
  const auto said = [&](const Tensor& targets) {
    return message_of<InvalidArgumentError>([&] { losses::cross_entropy(targets, logits); });
  };
  CHECK(said(zeros({3})) == "The targets are float32[3]" + wanted);
  CHECK(said(zeros({3}).cast(uint8)) == "The targets are uint8[3]" + wanted);
  CHECK(said(zeros({3}).cast(boolean)) == "The targets are bool[3]" + wanted);
  CHECK(said(zeros({3, 5}).cast(int64)) == "The targets are int64[3,5]" + wanted);
  CHECK(said(zeros({4}).cast(int64)) == "The targets are int64[4]" + wanted);
  CHECK(message_of<InvalidArgumentError>([&] { losses::nll(zeros({3}), logits); }) ==
        "The labels are float32[3]; for log_probabilities [3,5] they must be int32 or int64 [3]");
  CHECK(message_of<InvalidArgumentError>([&] {
          softmax_cross_entropy(tensor({0, 1, 2}), logits);
        }) ==
        "The labels are int32[3]; they must be distributions, of a float type and in the shape of the logits, [3,5]. "
        "The numbers of classes are for sparse_softmax_cross_entropy");
  CHECK(message_of<InvalidArgumentError>([&] {
          sparse_softmax_cross_entropy(zeros({3}), logits);
        }).find("The labels are float32[3]; they must be the numbers of classes, int32 or int64 [3]") !=
        std::string::npos);
}

TEST_CASE("cosines of vectors of any length") {
  const Tensor a = tensor({3.0, 4.0}), b = tensor({4.0, 3.0});
  for (const double by_a : {1e-6, 1.0, 1e6, 1e16})
    for (const double by_b : {1e-6, 1.0, 1e6, 1e16})
      check_same(losses::cosine_similarity(a * by_a, b * by_b), tensor(0.96), 1e-6);
  check_same(losses::cosine_similarity(a * 0.0, b), tensor(0.0));
}

TEST_CASE("the second derivative of a loss where it is 0") {
  const Tensor targets = tensor<double>({1, -2, 0});
  const auto by_element = [&](const Tensor& p) { return losses::huber(targets, p, {.reduction = Reduction::sum}); };
  check_same(hessian(by_element)(targets), eye(3, {.dtype = float64}));
  check_same(hessian(by_element)(targets + tensor<double>({0.5, 2, -3})),
             set_diag(zeros({3, 3}, float64), tensor<double>({1, 0, 0})));
}

}  // namespace

}  // namespace nn_losses_test
