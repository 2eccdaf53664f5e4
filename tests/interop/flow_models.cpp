#include "flow_models.hpp"

#include "interop/judgement.hpp"

namespace tapestry::test {
namespace {

void write_model(const std::filesystem::path& folder, const FlowModel& model, bool with_gradient, int n) {
  const Variable w({0.5, -0.25, 1.25}, {.name = "w", .dtype = float64});
  const Variable sum({0.125, 0.5, -1.0}, {.name = "sum", .trainable = false, .dtype = float64});
  const auto traced = trace(
      [&](const Tensor& x, const Tensor& k) -> std::vector<Tensor> {
        GradientTape tape;
        tape.watch(x);
        const Tensor y = model.f(x, k, w, sum);
        if (!with_gradient) return {y};
        return {y, tape.gradient(reduce_sum(y), {x}, {.unconnected = Unconnected::zero})[0]};
      },
      {spec(float64, {-1, 3}), spec(int32, {})});
  Judgement judgement(folder, detail::join("flow ", model.name, with_gradient ? ", gradient" : "", " (", n, ")"),
                      traced.graph());
  const Tensor x = tensor({{0.5, -1.0, 0.25}, {1.5, 0.75, -0.5}}).cast(float64);
  // The file of a graph without Variables, such as one whose f reads none, has no operation "init".
  if (!traced.graph().variables().empty()) judgement.run("init");
  judgement.feed(traced.input(0).name(), x);
  judgement.feed(traced.input(1).name(), tensor(n));
  const std::vector<Tensor> results = traced(x, tensor(n));
  for (std::size_t i = 0; i < results.size(); ++i) judgement.fetch(traced.output(i).name(), results[i]);
  if (with_gradient && model.has_gradient)
    judgement.gradient(traced.output(0).name(), traced.input(0).name(), results[1]);
  judgement.save();
}

}  // namespace

int write_flow_models(const std::filesystem::path& folder) {
  int count = 0;
  for (const FlowModel& model : flow_models())
    for (const bool with_gradient : {false, true})
      for (const int n : {0, 1, 3}) {
        write_model(folder, model, with_gradient, n);
        ++count;
      }
  return count;
}

}  // namespace tapestry::test
