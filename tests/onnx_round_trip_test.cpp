// What Tapestry writes as ONNX comes back, with its gradients, and is trained and written again.

#include <iostream>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "same_bits.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::onnx_round_trip_test {
namespace {

using Inputs = std::vector<Tensor>;

/// The largest difference, relative to 1 + |expected|; of equal bits 0.
double distance(const Tensor& actual, const Tensor& expected) {
  if (same_bits(actual, expected)) return 0;
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape()) return 1e300;
  const auto a = actual.cast(float64).to_vector<double>(), b = expected.cast(float64).to_vector<double>();
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) {
      const double d = std::abs(a[i] - b[i]) / (1 + std::abs(b[i]));
      most = std::max(most, std::isnan(d) ? 1e300 : d);
    }
  return most;
}

Feeds feeds_of(const Model& model, const Inputs& values) {
  Feeds feeds;
  const auto specs = model.inputs();
  REQUIRE(specs.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) feeds.add(specs[i].name, values[i]);
  return feeds;
}

}  // namespace

TEST_CASE("what the op table writes as ONNX is read back, with its gradients, and saved as a SavedModel") {
  const TemporaryFolder folder;
  int same = 0, near = 0;
  std::vector<std::string> refused, not_saved;
  for (const OpCase& row : op_cases()) {
    INFO(row.name);
    if (row.open) continue;  // its size depends on values, which ONNX's writer does not know
    for (const bool unknown_batch : {false, true}) {
      std::vector<TensorSpec> specs;
      for (const Tensor& input : row.inputs) {
        Shape shape = input.shape();
        if (unknown_batch && shape.rank() > 0) shape.set(0, -1);
        specs.push_back(spec(input.dtype(), shape));
      }
      std::optional<Model> model;
      std::vector<Tensor> expected;
      try {
        const auto traced = trace([&](const Inputs& x) { return Inputs{row.f(x)}; }, specs);
        Model::Parts parts{.graph = traced.output().op().graph()};
        Signature signature{.outputs = {{"y", traced.output()}}};
        for (std::size_t i = 0; i < row.inputs.size(); ++i) {
          parts.inputs.push_back(detail::join('x', i));
          signature.inputs.emplace(parts.inputs.back(), traced.input(i));
        }
        parts.signatures.emplace("serving_default", signature);
        onnx::save(folder / "row.onnx", Model(parts));
      } catch (const UnimplementedError& lack) {
        refused.push_back(row.name);
        continue;
      } catch (const InvalidArgumentError&) {
        if (unknown_batch) continue;  // the row needs its batch
        throw;
      }
      model = onnx::load(folder / "row.onnx");
      const Tensor value = row.f(row.inputs);
      if (!row.reference && row.orders == 0) {  // it may draw random numbers
        CHECK((*model)(feeds_of(*model, row.inputs))[0].shape() == value.shape());
        continue;
      }
      const double off = distance((*model)(feeds_of(*model, row.inputs))[0], value);
      CHECK(off < 1e-6);
      try {
        saved_model::save(folder / "row", *model);
        const Model again = saved_model::load(folder / "row");
        CHECK(distance(again(feeds_of(again, row.inputs))[0], value) < 1e-6);
      } catch (const UnimplementedError&) {
        not_saved.push_back(row.name);
      }
      ++(off == 0 ? same : near);
      if (row.orders == 0) continue;
      const auto gradients_by = [&](auto f) {
        GradientTape tape;
        std::vector<Tensor> watched;
        for (const Tensor& each : row.inputs)
          if (is_floating(each.dtype())) watched.push_back(each);
        tape.watch(watched);
        return tape.gradient(reduce_sum(f()), watched, {.unconnected = Unconnected::zero});
      };
      const auto theirs = gradients_by([&] { return (*model)(feeds_of(*model, row.inputs))[0]; });
      const auto ours = gradients_by([&] { return row.f(row.inputs); });
      for (std::size_t i = 0; i < ours.size(); ++i) CHECK(distance(theirs[i], ours[i]) < 1e-5);
    }
  }
  std::cout << same << " rows give the same bits, " << near << " are near; refused by the writer: " << refused.size()
            << '\n';
  CHECK(same > 300);
  // The sizes of their filters are unknown.
  CHECK(not_saved == std::vector<std::string>{"conv2d", "conv2d in groups, explicit padding", "conv2d_transpose",
                                              "conv2d_transpose in groups, SAME",
                                              "conv3d, strides, dilations, groups, padding"});
}

TEST_CASE("a network is read with its Variables, trained, and written again") {
  const TemporaryFolder folder;
  random::seed(3);
  nn::Sequential network(nn::Conv2D(2, 4, 3, {.padding = "SAME"}), nn::ReLU(), nn::MaxPool2D(2), nn::Flatten(),
                         nn::Dense(36, 8), nn::GELU(), nn::Dense(8, 3));
  const Tensor images = random::normal({5, 6, 6, 2}), labels = tensor<std::int64_t>({0, 2, 1, 1, 0});
  const auto predict = trace([&](Tensor x) { return network(x); }, {spec(float32, {-1, 6, 6, 2})});
  onnx::save(folder / "network.onnx",
             {.inputs = {{"images", predict.input()}}, .outputs = {{"scores", predict.output()}}});
  const Model model = onnx::load(folder / "network.onnx");
  CHECK(model.inputs()[0].shape == Shape{-1, 6, 6, 2});
  CHECK(model.outputs()[0].shape == Shape{-1, 3});
  CHECK(same_bits(model({{"images", images}})[0], network(images)));
  REQUIRE(model.parameters().size() == network.parameters().size());

  const auto loss_of = [&](const Tensor& scores) { return reduce_mean(sparse_softmax_cross_entropy(labels, scores)); };
  const auto gradients_of = [&](auto f, const auto& parameters) {
    GradientTape tape;
    return tape.gradient(loss_of(f()), std::vector<Variable>(parameters.begin(), parameters.end()));
  };
  const auto sums = [](const std::vector<Tensor>& gradients) {
    std::vector<double> list;
    for (const Tensor& each : gradients) list.push_back(reduce_sum(abs(each)).item<double>());
    std::sort(list.begin(), list.end());
    return list;
  };
  const auto theirs = sums(gradients_of([&] { return model({{"images", images}})[0]; }, model.parameters()));
  const auto ours = sums(gradients_of([&] { return network(images); }, network.parameters()));
  for (std::size_t i = 0; i < ours.size(); ++i) CHECK(theirs[i] == doctest::Approx(ours[i]).epsilon(1e-5));

  train::GradientDescentOptimizer optimizer(0.5);
  const double before = loss_of(model({{"images", images}})[0]).item<double>();
  for (int i = 0; i < 5; ++i)
    optimizer.minimize([&] { return loss_of(model({{"images", images}})[0]); }, model.parameters());
  CHECK(loss_of(model({{"images", images}})[0]).item<double>() < before);
  onnx::save(folder / "tuned.onnx", model);
  const Model tuned = onnx::load(folder / "tuned.onnx");
  CHECK(same_bits(tuned({{"images", images}})[0], model({{"images", images}})[0]));
  CHECK(tuned.parameters().size() == model.parameters().size());
}

TEST_CASE("transposed convolutions of images of an unknown size come back") {
  const TemporaryFolder folder;
  random::seed(5);
  const Tensor filter = random::normal({3, 4, 3, 2});
  for (const Conv2dTransposeOptions& options :
       {Conv2dTransposeOptions{}, Conv2dTransposeOptions{.strides = {2, 3}},
        Conv2dTransposeOptions{.strides = 2, .padding = 1, .output_padding = {1, 0}},
        Conv2dTransposeOptions{.strides = {3, 2}, .padding = "SAME"},
        Conv2dTransposeOptions{.padding = 1, .output_padding = 1, .dilations = 2}}) {
    const auto up =
        trace([&](Tensor x) { return conv2d_transpose(x, filter, options); }, {spec(float32, {-1, -1, -1, 2})});
    onnx::save(folder / "up.onnx", {.inputs = {{"x", up.input()}}, .outputs = {{"y", up.output()}}});
    const Model model = onnx::load(folder / "up.onnx");
    for (const Shape& shape : {Shape{1, 3, 4, 2}, Shape{2, 5, 2, 2}}) {
      const Tensor x = random::normal(shape);
      check_same(model({{"x", x}})[0], up(x), 1e-5);
    }
  }
}

TEST_CASE("the gradients of a convolution by a filter of an unknown size come back") {
  const TemporaryFolder folder;
  random::seed(5);
  const Tensor filter = random::normal({3, 2, 2, 4});
  for (const Conv2dOptions& options : {Conv2dOptions{}, Conv2dOptions{.strides = 2, .padding = 1}}) {
    const auto gradients = trace(
        [&](Tensor x, Tensor f) {
          GradientTape tape;
          tape.watch(x);
          tape.watch(f);
          return tape.gradient(square(conv2d(x, f, options)), {x, f});
        },
        {spec(float32, {-1, 6, 5, 2}), spec(float32, {-1, -1, 2, 4})});
    onnx::save(folder / "gradients.onnx", {.inputs = {{"x", gradients.input(0)}, {"f", gradients.input(1)}},
                                           .outputs = {{"a", gradients.output(0)}, {"b", gradients.output(1)}}});
    const Model model = onnx::load(folder / "gradients.onnx");
    for (const std::int64_t batch : {1, 3}) {
      const Tensor x = random::normal({batch, 6, 5, 2});
      const std::vector<Tensor> found = model({{"x", x}, {"f", filter}}), expected = gradients(x, filter);
      for (std::size_t i = 0; i < 2; ++i) check_same(found[i], expected[i], 1e-4);
    }
  }
}

TEST_CASE("branches and loops come back, with their gradients") {
  const TemporaryFolder folder;
  const Variable w(tensor<float>({0.5, -0.25, 1.25}), {.name = "w"});
  using F = std::function<Tensor(const Tensor&, const Tensor&)>;
  const std::vector<std::pair<std::string, F>> programs{
      {"branch",
       [&](const Tensor& x, const Tensor& n) {
         return cond(
             less(n, 2), [&] { return sin(x) * w; }, [&] { return x * x + w; });
       }},
      {"loop",
       [&](const Tensor& x, const Tensor& n) {
         return std::get<1>(while_loop([&](Tensor i, Tensor) { return less(i, n); },
                                       [&](Tensor i, Tensor s) {
                                         return std::tuple{i + 1, sin(s * w) + x};
                                       },
                                       std::tuple{0, x}));
       }},
      {"loop in a branch",
       [&](const Tensor& x, const Tensor& n) {
         return cond(
             less(n, 9),
             [&] {
               return while_loop([](Tensor s) { return less(reduce_max(abs(s)), 20.0); },
                                 [](Tensor s) { return 1.5 * s + 1.0; }, x, {.maximum_iterations = 4});
             },
             [&] { return x * w; });
       }},
      {"scan from the end", [&](const Tensor& x, const Tensor&) {
         auto [h, ys] = scan(
             [&](Tensor before, Tensor row) {
               const Tensor next = tanh(before * w + row);
               return std::tuple{next, next * row};
             },
             zeros({3}), x, {.reverse = true});
         return ys + h;
       }}};
  const Tensor x = tensor<float>({{1, 2, 3}, {-0.5, 0.25, 0.75}});
  for (const auto& program : programs)
    for (const int n : {0, 1, 3}) {
      INFO(program.first, " ", n);
      const auto& f = program.second;
      const Tensor count = tensor<std::int32_t>(n);
      const auto traced =
          trace([&f](Tensor a, Tensor b) { return f(a, b); }, {spec(float32, {-1, 3}), spec(int32, {})});
      onnx::save(folder / "flow.onnx",
                 {.inputs = {{"x", traced.input(0)}, {"n", traced.input(1)}}, .outputs = {{"y", traced.output()}}});
      const Model model = onnx::load(folder / "flow.onnx");
      REQUIRE(model.parameters().size() <= 1);
      const Feeds feeds{{"x", x}, {"n", count}};
      CHECK(same_bits(model(feeds)[0], f(x, count)));
      const auto gradient = [&](auto g) {
        GradientTape tape;
        tape.watch(x);
        return tape.gradient(reduce_sum(g()), x);
      };
      CHECK(distance(gradient([&] { return model(feeds)[0]; }), gradient([&] { return f(x, count); })) < 1e-6);
      onnx::save(folder / "again.onnx", model);
      CHECK(same_bits(onnx::load(folder / "again.onnx")(feeds)[0], f(x, count)));
    }
}

TEST_CASE("the gradient of a loop that grows, which a file has, is read") {
  const TemporaryFolder folder;
  const auto f = [](const Tensor& x, const Tensor& n) {
    GradientTape tape;
    tape.watch(x);
    const auto step = [](Tensor i, Tensor s) {
      return std::tuple{i + 1, concat({s, expand_dims(tanh(s(-1) * s(0)), 0)}, 0)};
    };
    const Tensor last = std::get<1>(while_loop([&](Tensor i, Tensor) { return less(i, n); }, step, std::tuple{0, x},
                                               {.shape_invariants = {{}, {-1, 2}}}));
    return tape.gradient(reduce_sum(sin(last)), x);
  };
  const auto traced = trace(f, {spec(float32, {-1, -1}), spec(int32, {})});
  onnx::save(folder / "grows.onnx",
             {.inputs = {{"x", traced.input(0)}, {"n", traced.input(1)}}, .outputs = {{"y", traced.output()}}});
  const Model model = onnx::load(folder / "grows.onnx");
  const Tensor x = tensor<float>({{0.5, -1}, {1.5, 0.25}});
  for (const int n : {0, 1, 3}) CHECK(distance(model({{"x", x}, {"n", tensor(n)}})[0], traced(x, tensor(n))) < 1e-6);
}

}  // namespace tapestry::test::onnx_round_trip_test
