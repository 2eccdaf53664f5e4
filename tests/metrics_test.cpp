// Metrics against their definitions as plain loops.

#include "tapestry/metrics.hpp"

#include <algorithm>
#include <functional>
#include <memory>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "refused.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/random.hpp"
#include "tapestry/tape.hpp"
#include "tapestry/trace.hpp"
#include "temporary_folder.hpp"
#include "toy_backend.hpp"

namespace metrics_test {

using namespace tapestry;
using namespace tapestry::test;
using metrics::Metric;

namespace {

using Numbers = std::vector<double>;

/// A batch of a metric: predictions, labels, and weights or none.
struct Examples {
  Tensor predictions, labels, weights;
};

struct Row {
  std::string name;
  std::function<std::unique_ptr<Metric>()> make;
  std::function<void(Metric&, const Examples&)> update;
  std::function<Examples(std::int64_t count)> examples;
  std::function<double(const Examples&)> expected;
};

Tensor some_labels(std::int64_t count, double classes) {
  return floor(random::uniform({count}, {.low = 0, .high = classes})).cast(int64);
}
Tensor some_weights(std::int64_t count) { return random::uniform({count}); }

/// Probabilities that are higher where the label is 1, and sometimes equal.
Examples binary(std::int64_t count) {
  const Tensor labels = some_labels(count, 2), noise = random::uniform({count});
  return {round((noise + labels.cast(float32)) * 20.0) / 40.0, labels, some_weights(count)};
}
Examples classes(std::int64_t count) {
  return {random::normal({count, 5}), some_labels(count, 5), some_weights(count)};
}

double quotient(double a, double b) { return b == 0 ? 0 : a / b; }

/// The weighted share of the examples for which `right` holds, of those for which `counts` does.
template <class Right, class Counts>
double share(const Examples& examples, Right right, Counts counts) {
  const Numbers weights = values(examples.weights);
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!counts(i)) continue;
    all += weights[i];
    sum += right(i) ? weights[i] : 0;
  }
  return quotient(sum, all);
}

/// The area under the curve through the points of evenly distributed thresholds.
double area(const Examples& examples, int thresholds) {
  const Numbers p = values(examples.predictions), y = values(examples.labels), w = values(examples.weights);
  Numbers true_rates, false_rates;
  for (int k = 0; k < thresholds; ++k) {
    const double threshold = k == 0                ? -1e-7
                             : k == thresholds - 1 ? 1 + 1e-7
                                                   : static_cast<double>(k) / (thresholds - 1);
    double found[2] = {0, 0}, all[2] = {0, 0};
    for (std::size_t i = 0; i < p.size(); ++i) {
      const std::size_t label = y[i] != 0 ? 1 : 0;
      all[label] += w[i];
      if (p[i] > threshold) found[label] += w[i];
    }
    true_rates.push_back(quotient(found[1], all[1]));
    false_rates.push_back(quotient(found[0], all[0]));
  }
  double sum = 0;
  for (std::size_t k = 1; k < true_rates.size(); ++k)
    sum += (false_rates[k - 1] - false_rates[k]) * (true_rates[k - 1] + true_rates[k]) / 2;
  return sum;
}

template <class M, class... Arguments>
Row row(const std::string& name, std::function<Examples(std::int64_t)> examples,
        std::function<double(const Examples&)> expected, Arguments... arguments) {
  return {name, [=] { return std::make_unique<M>(arguments...); },
          [](Metric& metric, const Examples& batch) {
            dynamic_cast<M&>(metric).update(batch.labels, batch.predictions, batch.weights);
          },
          std::move(examples), std::move(expected)};
}

std::vector<Row> rows() {
  const auto all = [](std::size_t) { return true; };
  std::vector<Row> rows{
      row<metrics::Accuracy>("accuracy of classes", classes,
                             [all](const Examples& e) {
                               const Numbers y = values(e.labels), best = values(argmax(e.predictions, -1));
                               return share(
                                   e, [&](auto i) { return best[i] == y[i]; }, all);
                             }),
      row<metrics::Accuracy>(
          "accuracy of integers",
          [](std::int64_t count) {
            return Examples{some_labels(count, 3).cast(int32), some_labels(count, 3), some_weights(count)};
          },
          [all](const Examples& e) {
            const Numbers p = values(e.predictions), y = values(e.labels);
            return share(
                e, [&](auto i) { return p[i] == y[i]; }, all);
          }),
      row<metrics::AUC>("AUC", binary, [](const Examples& e) { return area(e, 200); }),
      row<metrics::AUC>(
          "coarse AUC", binary, [](const Examples& e) { return area(e, 3); }, metrics::AUCOptions{.thresholds = 3})};
  for (const double threshold : {0.5, 0.3}) {
    const auto over = [threshold](const Examples& e, bool prediction, bool label) {
      const Numbers p = values(e.predictions), y = values(e.labels);
      return [=](std::size_t i) {
        return (!prediction || p[i] > static_cast<double>(static_cast<float>(threshold))) && (!label || y[i] != 0);
      };
    };
    const metrics::ThresholdOptions options{threshold};
    rows.push_back(row<metrics::Precision>(
        "precision", binary, [=](const Examples& e) { return share(e, over(e, true, true), over(e, true, false)); },
        options));
    rows.push_back(row<metrics::Recall>(
        "recall", binary, [=](const Examples& e) { return share(e, over(e, true, true), over(e, false, true)); },
        options));
    rows.push_back(row<metrics::Accuracy>(
        "accuracy of probabilities", binary,
        [=](const Examples& e) {
          const Numbers y = values(e.labels);
          const auto positive = over(e, true, false);
          return share(
              e, [&](auto i) { return positive(i) == (y[i] != 0); }, all);
        },
        options));
  }
  for (const std::int64_t k : {1, 2, 5, 9})
    rows.push_back(row<metrics::TopKAccuracy>(
        "top k", classes,
        [=](const Examples& e) {
          const Numbers x = values(e.predictions), y = values(e.labels);
          return share(
              e,
              [&](std::size_t i) {
                const double own = x[5 * i + static_cast<std::size_t>(y[i])];
                return std::count_if(x.begin() + static_cast<long>(5 * i), x.begin() + static_cast<long>(5 * i + 5),
                                     [&](double each) { return each > own; }) < k;
              },
              all);
        },
        k));
  return rows;
}

Examples part(const Examples& all, std::int64_t begin, std::int64_t end) {
  return {all.predictions(range(begin, end)), all.labels(range(begin, end)), all.weights(range(begin, end))};
}

}  // namespace

TEST_CASE("metrics: the definitions, in any batches, parts and modes") {
  constexpr double tolerance = 1e-12;
  random::seed(1);
  for (const Row& each : rows()) {
    CAPTURE(each.name);
    for (const std::int64_t count : {0, 1, 2, 57}) {
      CAPTURE(count);
      const Examples examples = each.examples(count);
      const double expected = each.expected(examples);
      const auto metric = each.make();
      CHECK(metric->result().item<double>() == 0);
      CHECK(metric->result().dtype() == float64);
      each.update(*metric, examples);
      CHECK(agree(metric->result().item<double>(), expected, tolerance));

      // Batch by batch, on two ranks, whose sums are added, and in a trace.
      const auto first = each.make(), second = each.make(), traced = each.make();
      const auto step = trace(
          [&](Tensor p, Tensor y, Tensor w) {
            each.update(*traced, {p, y, w});
            return reduce_sum(w);
          },
          {spec(examples.predictions.dtype(), examples.predictions.rank() == 2 ? Shape{-1, 5} : Shape{-1}),
           spec(int64, {-1}), spec(float32, {-1})});
      for (std::int64_t begin = 0; begin < count; begin += 10) {
        const Examples batch = part(examples, begin, std::min(begin + 10, count));
        each.update(begin % 20 == 0 ? *first : *second, batch);
        step(batch.predictions, batch.labels, batch.weights);
      }
      if (count > 0) CHECK(agree(traced->result().item<double>(), expected, tolerance));
      const auto summed = each.make();
      summed->set_sums(first->sums() + second->sums());
      CHECK(agree(summed->result().item<double>(), expected, tolerance));
      first->merge(*second);
      CHECK(agree(first->result().item<double>(), expected, tolerance));

      // A saved state, and a metric that forgets.
      const auto restored = each.make();
      restored->load_state_dict(first->state_dict());
      CHECK(restored->result().item<double>() == first->result().item<double>());
      first->reset();
      CHECK(first->result().item<double>() == 0);
      CHECK(agree(restored->result().item<double>(), expected, tolerance));

      // On another device, where the sums stay.
      const auto there = each.make();
      const Device toy = toy_device();
      each.update(*there, {examples.predictions.to(toy), examples.labels.to(toy), examples.weights.to(toy)});
      CHECK(there->sums().device() == toy);
      CHECK(there->result().device() == toy);
      CHECK(agree(there->result().to(cpu()).item<double>(), expected, tolerance));
    }
    // Without weights all count the same.
    const auto with = each.make(), without = each.make();
    Examples examples = each.examples(20);
    examples.weights = ones({20});
    each.update(*with, examples);
    examples.weights = {};
    each.update(*without, examples);
    check_same(with->sums(), without->sums());
  }
}

TEST_CASE("metrics: the numbers of Keras") {
  std::map<std::string, Tensor> keras;
  for (const io::NodeDef& node :
       io::decode(read_text(std::filesystem::path(GOLDEN_FILES) / "metrics.expected.pb")).nodes)
    keras.emplace(node.name, std::get<io::TensorDef>(node.attrs.at("value")).value);
  const auto check = [&](const std::string& name, auto metric, const char* predictions, const char* labels) {
    CAPTURE(name);
    auto weighted = metric;
    metric.update(keras.at(labels), keras.at(predictions));
    weighted.update(keras.at(labels), keras.at(predictions), keras.at("weights"));
    CHECK(agree(metric.result().template item<double>(), keras.at(name).item<double>(), 1e-6));
    CHECK(agree(weighted.result().template item<double>(), keras.at(name + "_weighted").item<double>(), 1e-6));
  };
  check("binary_accuracy", metrics::Accuracy(), "probabilities", "labels");
  check("accuracy", metrics::Accuracy(), "scores", "classes");
  check("top_k", metrics::TopKAccuracy(2), "scores", "classes");
  check("precision", metrics::Precision({.threshold = 0.3}), "probabilities", "labels");
  check("recall", metrics::Recall({.threshold = 0.3}), "probabilities", "labels");
  check("auc", metrics::AUC(), "probabilities", "labels");
  check("auc_20", metrics::AUC({.thresholds = 20}), "probabilities", "labels");
  metrics::ConfusionMatrix matrix(5);
  matrix.update(keras.at("classes"), keras.at("scores"));
  check_values(matrix.result(), values(keras.at("confusion")));
}

TEST_CASE("metrics: means and matrices") {
  metrics::Mean mean;
  mean.update(tensor({1, 2, 6}));
  CHECK(mean.result().item<double>() == 3);
  mean.update(11.0);
  CHECK(mean.result().item<double>() == 5);
  mean.update(tensor({{1.0, 2.0}, {3.0, 4.0}}), tensor({2.0, 0.0}));
  CHECK(mean.result().item<double>() == 28.0 / 8);
  metrics::Mean copy = mean;
  copy.update(100.0);
  CHECK(mean.result().item<double>() == 28.0 / 8);
  copy = mean;
  CHECK(copy.result().item<double>() == 28.0 / 8);
  // Many small addends: float32 would lose them.
  mean.reset();
  for (int i = 0; i < 40; ++i) mean.update(ones({1'000'000}));
  check_same(mean.sums(), tensor<double>({4e7, 4e7}));

  metrics::ConfusionMatrix matrix(3);
  matrix.update(tensor({0, 1, 2, 2}), tensor({0, 1, 1, 2}));
  matrix.update(tensor({0}), tensor({{0.0, 1.0, 0.5}}), tensor({0.5}));
  check_same(matrix.result(), tensor<double>({{1, 0.5, 0}, {0, 1, 0}, {0, 1, 1}}));

  // A label whose score is not finite is in no top k.
  metrics::TopKAccuracy top(2);
  top.update(tensor({0, 0}), tensor({{not_a_number, 1.0, 2.0}, {infinity, 1.0, 2.0}}));
  CHECK(top.result().item<double>() == 0);
}

TEST_CASE("metrics: a tape does not record them") {
  const Variable w(2.0);
  const GradientTape tape;
  const Tensor y = w * 3.0;
  const auto before = tape.size();
  metrics::Mean mean;
  mean.update(y);
  CHECK(mean.result().item<double>() == 6);
  CHECK(tape.size() == before);
}

TEST_CASE("metrics: what does not fit") {
  metrics::Accuracy accuracy;
  metrics::Precision precision;
  metrics::ConfusionMatrix matrix(3);
  const Tensor three = tensor({0.1, 0.2, 0.3}), two = tensor({1, 0});
  TAPESTRY_REFUSED(InvalidArgumentError, "shape [3] do not fit labels of the shape [2]", accuracy.update(two, three));
  TAPESTRY_REFUSED(InvalidArgumentError, "shape [3] do not fit labels of the shape [2]", precision.update(two, three));
  TAPESTRY_REFUSED(InvalidArgumentError, "shape [3] do not fit labels of the shape [2]",
                   metrics::AUC().update(two, three));
  TAPESTRY_REFUSED(InvalidArgumentError, "one axis more", metrics::TopKAccuracy().update(three, three));
  TAPESTRY_REFUSED(InvalidArgumentError, "are scores of a single class",
                   metrics::Accuracy().update(tensor({0, 1}), tensor({{0.1}, {0.9}})));
  TAPESTRY_REFUSED(InvalidArgumentError, "Predictions [2,1] for labels [2] are scores of a single class",
                   metrics::TopKAccuracy().update(tensor({0, 1}), tensor({{0.1}, {0.9}})));
  TAPESTRY_REFUSED(InvalidArgumentError, "Predictions that are classes must be integers, but are float32[2]",
                   metrics::ConfusionMatrix(2).update(tensor({0, 1}), tensor({0.2, 0.7})));
  TAPESTRY_REFUSED(InvalidArgumentError, "Labels that are classes must be integers, but are float32[2]",
                   metrics::ConfusionMatrix(2).update(tensor({0.9, 1.2}), tensor({0, 1})));
  TAPESTRY_REFUSED(InvalidArgumentError, "k must be >= 1", metrics::TopKAccuracy(0));
  TAPESTRY_REFUSED(InvalidArgumentError, "thresholds must be >= 2", metrics::AUC({.thresholds = 1}));
  TAPESTRY_REFUSED(InvalidArgumentError, "classes must be >= 1", metrics::ConfusionMatrix(0));
  for (const int wrong : {3, -1}) {
    CHECK_THROWS_AS(matrix.update(tensor({0, wrong}), tensor({0, 0})), Error);
    CHECK_THROWS_AS(matrix.update(tensor({0, 0}), tensor({0, wrong})), Error);
  }
  CHECK(reduce_sum(matrix.result()).item<double>() == 0);
  CHECK_THROWS_AS(accuracy.update(two, two, tensor({1.0, 2.0, 3.0})), InvalidArgumentError);
  TAPESTRY_REFUSED(InvalidArgumentError, "different sums, [2] and [3,3]", accuracy.merge(matrix));
  TAPESTRY_REFUSED(InvalidArgumentError, "float64[2], not float32[2]", accuracy.set_sums(zeros({2})));
  TAPESTRY_REFUSED(InvalidArgumentError, "'sums'", accuracy.load_state_dict({}));
}

TEST_CASE("metrics: a trace that does not know the sizes refuses in its runs what does not fit") {
  for (const Row& row : rows()) {
    INFO(row.name);
    const Examples examples = row.examples(6);
    const auto metric = row.make();
    const auto unknown = [](const Tensor& x) {
      Shape shape = x.shape();
      shape.set(0, -1);
      return spec(x.dtype(), shape);
    };
    const auto update = trace(
        [&](const Tensor& labels, const Tensor& predictions) {
          row.update(*metric, {predictions, labels, {}});
          return metric->result();
        },
        {unknown(examples.labels), unknown(examples.predictions)});
    if (row.name.starts_with("mean")) continue;  // it has no labels
    for (const auto& [labels, predictions] : {std::pair{1, 6}, std::pair{6, 1}, std::pair{5, 6}})
      CHECK_THROWS_AS(update(examples.labels(range(0, labels)), examples.predictions(range(0, predictions))), Error);
    CHECK(reduce_sum(metric->sums()).item<double>() == 0);
  }
}

TEST_CASE("metrics: what replaces the sums is part of a trace") {
  metrics::Mean of_batch, other;
  other.update({1.0, 5.0});
  const auto traced = trace(
      [&](const Tensor& x) {
        of_batch.reset();
        of_batch.update(x);
        const Tensor own = of_batch.result();
        of_batch.merge(other);
        metrics::Mean copy;
        copy = of_batch;
        return std::tuple{own, of_batch.result(), copy.result()};
      },
      {spec(float32, {-1})});
  for (int run = 0; run < 2; ++run)
    for (const double x : {7.0, 10.0}) {
      const auto [own, merged, copied] = traced(tensor({x}));
      CHECK(own.item<double>() == x);
      CHECK(merged.item<double>() == (x + 6) / 3);
      CHECK(copied.item<double>() == (x + 6) / 3);
    }
  Graph graph;  // built by hand: a loop resets between its runs
  const auto scope = graph.as_default();
  of_batch.reset();
  CHECK(of_batch.state_dict().at("sums").to_vector<double>() == std::vector<double>{0, 0});
}

}  // namespace metrics_test
