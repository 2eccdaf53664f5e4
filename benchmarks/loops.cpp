// What loops cost: an iteration of a scalar loop and its memory, an LSTM as a loop beside the same unrolled, and
// tracing and planning over the number of iterations. Prints lines of figures; times are those of the processor's work.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <vector>

#include <sys/resource.h>
#include <tapestry/tapestry.hpp>

namespace {

using tp::Tensor;

template <class F>
double seconds(F f) {
  const std::clock_t begin = std::clock();
  f();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

/// The medians of the seconds of two functions that run in turns.
template <class F, class G>
std::pair<double, double> medians(F f, G g) {
  constexpr std::size_t runs = 15;
  std::vector<double> of_f, of_g;
  for (std::size_t i = 0; i < runs; ++i) {
    of_f.push_back(seconds(f));
    of_g.push_back(seconds(g));
  }
  std::sort(of_f.begin(), of_f.end());
  std::sort(of_g.begin(), of_g.end());
  return {of_f[runs / 2], of_g[runs / 2]};
}

/// In bytes.
long peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

Tensor scalar_loop(const Tensor& x, const Tensor& n) {
  return std::get<1>(tp::while_loop([&](Tensor i, Tensor) { return i < n; },
                                    [](Tensor i, Tensor s) {
                                      return std::tuple{i + 1, 0.999 * s + 0.5};
                                    },
                                    std::tuple{0, x}));
}

void measure_scalar_loop() {
  const auto traced = tp::trace(scalar_loop, {tp::spec(tp::float32, {}, "x"), tp::spec(tp::int32, {}, "n")});
  for (int iterations : {1000, 1'000'000, 10'000'000}) {
    traced(1.0f, iterations);
    const long before = peak_memory();
    const double each = seconds([&] { traced(1.0f, iterations); }) / iterations;
    std::printf("scalar step, %d iterations: %.1f ns each, %ld kB more\n", iterations, each * 1e9,
                (peak_memory() - before) / 1024);
  }
}

/// Steps of other functions than sums and products.
void measure_steps() {
  struct Step {
    const char* name;
    std::function<Tensor(const Tensor& i, const Tensor& s)> f;
  };
  const Tensor table = tp::random::uniform({64});
  const std::vector<Step> steps{
      {"sin", [](const Tensor&, const Tensor& s) { return tp::sin(s) + 0.5; }},
      {"power", [](const Tensor&, const Tensor& s) { return tp::power(s, 0.7) + 0.1; }},
      {"mod", [](const Tensor&, const Tensor& s) { return tp::mod(s + 0.7, 1.0); }},
      {"gather", [&](const Tensor& i, const Tensor& s) { return 0.5 * s + tp::gather(table, tp::mod(i, 64)); }},
      {"where", [](const Tensor&, const Tensor& s) { return tp::where(s > 1.0, s * 0.5, s + 0.3); }},
      {"cond",
       [](const Tensor&, const Tensor& s) {
         return tp::cond(
             s > 1.0, [&] { return s * 0.5; }, [&] { return s + 0.3; });
       }},
      {"reduce_sum of 3",
       [&](const Tensor&, const Tensor& s) { return tp::reduce_sum(table(tp::range(0, 3)) * s) * 0.3; }},
  };
  for (const Step& step : steps) {
    const auto loop = [&](const Tensor& x, const Tensor& n) {
      const auto body = [&](const Tensor& i, const Tensor& s) { return std::tuple{i + 1, step.f(i, s)}; };
      return std::get<1>(tp::while_loop([&](const Tensor& i, const Tensor&) { return i < n; }, body, std::tuple{0, x}));
    };
    const auto traced = tp::trace(loop, {tp::spec(tp::float32, {}, "x"), tp::spec(tp::int32, {}, "n")});
    constexpr int iterations = 1'000'000;
    traced(1.0F, iterations);
    const double each = seconds([&] { traced(1.0F, iterations); }) / iterations;
    std::printf("step of %s: %.1f ns\n", step.name, each * 1e9);
  }
}

std::pair<Tensor, Tensor> lstm_step(const Tensor& h, const Tensor& c, const Tensor& x, const Tensor& weights) {
  const auto gates = tp::split(tp::matmul(tp::concat({x, h}, 1), weights), 4, 1);
  const Tensor next = tp::sigmoid(gates[1]) * c + tp::sigmoid(gates[0]) * tp::tanh(gates[2]);
  return {tp::sigmoid(gates[3]) * tp::tanh(next), next};
}

Tensor looped(const Tensor& xs, const Tensor& weights) {
  const Tensor start = tp::zeros({xs.shape()[1], weights.shape()[1] / 4});
  const auto [last, all] = tp::scan(
      [&](std::tuple<Tensor, Tensor> state, Tensor x) {
        const auto [h, c] = lstm_step(std::get<0>(state), std::get<1>(state), x, weights);
        return std::pair{std::tuple{h, c}, h};
      },
      std::tuple{start, start}, xs);
  return tp::reduce_sum(all);
}

Tensor unrolled(const Tensor& xs, const Tensor& weights) {
  Tensor h = tp::zeros({xs.shape()[1], weights.shape()[1] / 4}), c = h;
  std::vector<Tensor> all;
  for (int i = 0; i < xs.shape()[0]; ++i) {
    std::tie(h, c) = lstm_step(h, c, xs(i), weights);
    all.push_back(h);
  }
  return tp::reduce_sum(tp::stack(all));
}

template <class F>
auto with_gradient(F f) {
  return [f](Tensor xs, Tensor weights) {
    tp::GradientTape tape;
    tape.watch({xs, weights});
    const Tensor y = f(xs, weights);
    const auto found = tape.gradient(y, {xs, weights});
    return std::tuple{y, found[0], found[1]};
  };
}

void measure_lstm(std::int64_t batch, std::int64_t inputs, std::int64_t hidden) {
  const std::vector<tp::TensorSpec> specs{tp::spec(tp::float32, {128, batch, inputs}),
                                          tp::spec(tp::float32, {inputs + hidden, 4 * hidden})};
  const Tensor xs = tp::random::normal({128, batch, inputs}),
               weights = 0.1 * tp::random::normal({inputs + hidden, 4 * hidden});
  const auto loop = tp::trace(looped, specs), unroll = tp::trace(unrolled, specs);
  const auto loop_gradient = tp::trace(with_gradient(looped), specs),
             unrolled_gradient = tp::trace(with_gradient(unrolled), specs);
  const auto [a, b] = medians([&] { loop(xs, weights); }, [&] { unroll(xs, weights); });
  std::printf("LSTM of 128 steps, batch %ld, %ld units: %.2f ms as a loop, %.2f of it unrolled\n", batch, hidden,
              a * 1e3, a / b);
  const auto [c, d] = medians([&] { loop_gradient(xs, weights); }, [&] { unrolled_gradient(xs, weights); });
  std::printf("  forward and backward: %.2f ms, %.2f of it unrolled\n", c * 1e3, c / d);
}

void measure_planning() {
  for (int iterations : {1, 1000, 1'000'000}) {
    const double time = seconds([&] {
      const auto traced = tp::trace(
          [&](Tensor x) {
            return with_gradient([&](Tensor a, Tensor b) {
              return tp::reduce_sum(std::get<1>(tp::while_loop([&](Tensor i, Tensor) { return i < iterations; },
                                                               [&](Tensor i, Tensor s) {
                                                                 return std::tuple{i + 1, s * a + b};
                                                               },
                                                               std::tuple{0, a})));
            })(x, x * 2.0);
          },
          {tp::spec(tp::float32, {}, "x")});
      traced.graph().as_graph_def();
    });
    std::printf("tracing and writing a loop of %d iterations with its gradient: %.2f ms\n", iterations, time * 1e3);
  }
}

}  // namespace

int main() {
  tp::set_num_threads(1);
  measure_scalar_loop();
  measure_steps();
  measure_lstm(16, 32, 64);
  measure_lstm(32, 128, 256);
  measure_planning();
}
