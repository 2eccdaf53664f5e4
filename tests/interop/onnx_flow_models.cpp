// Branches and loops, their gradients, and loops over no elements.

#include "interop/onnx_models.hpp"

namespace tapestry::test {
namespace {

struct OnnxFlowModel {
  std::string name;
  std::function<Tensor(const Tensor& x, const Tensor& n)> f;  ///< of float32[batch, 3] and int32[]
  bool has_gradient = true;
};

/// Computes `step` n times, from x.
template <class F>
Tensor repeated(const Tensor& x, const Tensor& n, F step) {
  const auto [count, last] = while_loop([&](Tensor i, Tensor) { return less(i, n); },
                                        [&](Tensor i, Tensor s) {
                                          return std::tuple{i + 1, step(i, s)};
                                        },
                                        std::tuple{0, x});
  return last;
}

std::vector<OnnxFlowModel> onnx_flow_models(const Variable& w) {
  return {
      {"branch",
       [&w](const Tensor& x, const Tensor& n) {
         return cond(
             less(n, 2), [&] { return sin(x) * w; }, [&] { return x * x + w; });
       }},
      {"branch that returns what is around it",
       [](const Tensor& x, const Tensor& n) {
         return cond(
             less(n, 2), [&] { return x; }, [&] { return ones_like(x); });
       }},
      {"switch",
       [&w](const Tensor& x, const Tensor& n) {
         return switch_case(n - 1, {[&] { return x * 2.0; }, [&] { return sin(x * w); }, [&] { return tanh(x); }});
       }},
      {"branch in a branch",
       [&w](const Tensor& x, const Tensor& n) {
         return cond(
             less(n, 3),
             [&] {
               const Tensor y = exp(x);
               return cond(
                   less(n, 1), [&] { return y * y; }, [&] { return sin(y) * w; });
             },
             [&] { return x / (1.0 + x * x); });
       }},
      {"loop",
       [&w](const Tensor& x, const Tensor& n) {
         return repeated(x, n, [&](const Tensor&, const Tensor& s) { return sin(s * w) + x; });
       }},
      {"loop that ends by its values",
       [](const Tensor& x, const Tensor&) {
         return while_loop([](Tensor s) { return less(reduce_max(abs(s)), 20.0); },
                           [](Tensor s) { return 1.5 * s + 1.0; }, x, {.maximum_iterations = 4});
       }},
      {"branch in a loop",
       [&w](const Tensor& x, const Tensor& n) {
         return repeated(x, n, [&](const Tensor& i, const Tensor& s) {
           return cond(
               equal(mod(i, 2), 0), [&] { return sin(s) * w; }, [&] { return s * s + x; });
         });
       },
       false},
      {"loop in a branch",
       [&w](const Tensor& x, const Tensor& n) {
         return cond(
             less(n, 4), [&] { return repeated(x, n, [&](const Tensor&, const Tensor& s) { return tanh(s + w); }); },
             [&] { return x * w; });
       }},
      {"loop in a loop",
       [&w](const Tensor& x, const Tensor& n) {
         return repeated(x, n, [&](const Tensor& i, const Tensor& s) {
           return repeated(s, i, [&](const Tensor&, const Tensor& t) { return sin(t) * w; }) + x;
         });
       }},
      {"scan",
       [&w](const Tensor& x, const Tensor&) {
         auto [h, ys] = scan(
             [&](Tensor before, Tensor row) {
               const Tensor next = tanh(before * w + row);
               return std::tuple{next, next * row};
             },
             zeros({3}), x);
         return ys + h;
       }},
      {"scan from the end",
       [&w](const Tensor& x, const Tensor&) {
         auto [carried, ys] = scan(
             [&](std::tuple<Tensor, Tensor> c, std::tuple<Tensor, Tensor> e) {
               auto [a, b] = c;
               auto [p, q] = e;
               return std::tuple{std::tuple{sin(a) + p, b * w}, a * q};
             },
             std::tuple{zeros({3}), ones({3})}, std::tuple{x, cos(x)}, {.reverse = true});
         return ys * std::get<0>(carried) + std::get<1>(carried);
       }},
      {"map",
       [&w](const Tensor& x, const Tensor&) { return map([&](Tensor row) { return reduce_sum(row * w) * row; }, x); }},
      {"a shape that changes",
       [&w](const Tensor& x, const Tensor& n) {
         const auto [count, last] = while_loop([&](Tensor i, Tensor) { return less(i, n); },
                                               [&](Tensor i, Tensor s) {
                                                 return std::tuple{i + 1, concat({s, s * w}, 0)};
                                               },
                                               std::tuple{0, x}, {.shape_invariants = {{}, {-1, 3}}});
         return last;
       },
       false},
  };
}

}  // namespace

int write_onnx_flow_models(const std::filesystem::path& folder) {
  const Variable w(tensor<float>({0.5, -0.25, 1.25}), {.name = "w"});
  int models = 0;
  for (const OnnxFlowModel& model : onnx_flow_models(w))
    for (const bool gradients : {false, true}) {
      if (gradients && !model.has_gradient) continue;
      const auto traced = trace(
          [&](const Tensor& x, const Tensor& n) {
            GradientTape tape;
            tape.watch(x);
            const Tensor y = model.f(x, n);
            return gradients ? tape.gradient(reduce_sum(sin(y)), x) : y;
          },
          {spec(float32, {-1, 3}), spec(int32, {})});
      for (const std::int32_t n : {0, 1, 2, 5})
        for (const std::int64_t batch : {2, 0}) {
          if (gradients && batch == 0) continue;
          const std::string title =
              detail::join(gradients ? "the gradient of a " : "a ", model.name, " for n ", n, " and ", batch, " rows");
          const Tensor x = slice(tensor<float>({{0.5, -1, 2}, {1.5, 0.25, -0.75}}), {0, 0}, {batch, 3});
          const std::string problem = write_onnx_model(
              folder, title,
              {.inputs = {{"x", traced.input(0)}, {"n", traced.input(1)}}, .outputs = {{"y", traced.output()}}},
              {{"x", x}, {"n", tensor(n)}});
          if (!problem.empty()) throw InternalError(title + ": " + problem);
          ++models;
        }
    }
  return models;
}

}  // namespace tapestry::test
