// Reads what others have written with TensorFlow, and does the steps beside it: read_foreign FOLDER

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "interop/steps.hpp"
#include "onnx_conformance/case.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test {
namespace {

namespace fs = std::filesystem;

/// How far a case gets; each includes those before.
enum class Reached { refused, loads, runs, equal };
constexpr const char* words[] = {"refused", "loads", "runs", "equal"};

/// Whether the squares of the results, which the tape has recorded, have the gradients that the steps tell, each of
/// which has the value of its Variable before it.
bool are_gradients_equal(const Model& model, GradientTape& tape, const Tensors& results, const std::vector<Step>& steps,
                         std::string& problem) {
  std::vector<Variable> parameters;
  for (const Variable& each : model.parameters())
    if (is_floating(each.dtype())) parameters.push_back(each);
  Tensor total = zeros({}, float64);
  for (const Tensor& each : results)
    if (is_floating(each.dtype())) total = total + reduce_sum(square(each.cast(float64)));
  const std::vector<Tensor> gradients = tape.gradient(total, parameters);
  bool equal = true;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    if (steps[i].kind != "variable") continue;
    bool found = false;
    for (std::size_t k = 0; k < parameters.size(); ++k)
      found = found || (is_equal(parameters[k].value(), steps[i].value) && bool(gradients[k]) &&
                        is_equal(gradients[k], steps[i + 1].value));
    if (!found && equal) problem = "The gradient by " + steps[i].target;
    equal = equal && found;
  }
  return equal;
}

/// Calls the signatures of a model: all that comes before the next one belongs to the last.
Reached do_steps(const Model& model, const std::vector<Step>& steps, std::string& problem) {
  bool equal = true;
  for (auto step = steps.begin(); step != steps.end();) {
    const Model called = model.signature(step->target);
    const auto end = std::find_if(step + 1, steps.end(), [](const Step& each) { return each.kind == "signature"; });
    Feeds feeds;
    for (auto each = step + 1; each != end; ++each)
      if (each->kind == "feed") feeds.add(each->target, each->value);
    const std::vector<Step> own(step, end);
    std::optional<GradientTape> tape;
    if (std::any_of(own.begin(), own.end(), [](const Step& each) { return each.kind == "gradient"; })) tape.emplace();
    const Tensors results = called(feeds);
    const std::vector<TensorSpec> outputs = called.outputs();
    for (auto each = step + 1; each != end; ++each)
      for (std::size_t i = 0; i < outputs.size(); ++i)
        if (each->kind == "fetch" && each->target == outputs[i].name) {
          const bool same = is_equal(results[i], each->value);
          if (!same && equal) problem = difference(each->target, results[i], each->value);
          equal = same && equal;
        }
    if (tape) equal = are_gradients_equal(called, *tape, results, own, problem) && equal;
    step = end;
  }
  return equal ? Reached::equal : Reached::runs;
}

Reached try_case(const fs::path& base, const std::vector<Step>& steps, std::string& problem) {
  Reached reached = Reached::refused;
  try {
    if (fs::is_directory(base)) {
      const Model model = saved_model::load(base.string());
      reached = Reached::loads;
      reached = do_steps(model, steps, problem);
      const std::string again = base.string() + ".again";
      saved_model::save(again, saved_model::load(base.string()));  // as it was before these steps
      return std::min(reached, do_steps(saved_model::load(again), steps, problem));
    }
    const Graph graph = Graph::load(base.string() + ".pb");
    reached = Reached::loads;
    const std::string again = graph.as_graph_def();
    const auto end = std::find_if(steps.begin(), steps.end(), [](const Step& each) { return each.kind == "once"; });
    const bool equal = do_steps(graph, steps, &problem) &&
                       do_steps(Graph::from_graph_def(again), std::vector<Step>(steps.begin(), end), &problem);
    return equal ? Reached::equal : Reached::runs;
  } catch (const Error& error) {
    problem = error.message();
    return reached;
  }
}

}  // namespace
}  // namespace tapestry::test

int main(int count, char** arguments) {
  using namespace tapestry::test;
  if (count != 2) {
    std::cerr << "usage: read_foreign FOLDER\n";
    return 2;
  }
  const fs::path folder = arguments[1];
  constexpr std::string_view ending = ".steps.pb";
  std::vector<std::string> rows;
  for (const auto& each : fs::recursive_directory_iterator(folder)) {
    const std::string path = each.path().string();
    if (each.path().filename() == "model.onnx") {
      const auto outcome = onnx_case::outcome_of(each.path().parent_path());
      const bool equal = outcome.lack.empty() && outcome.difference.empty();
      rows.push_back(tapestry::detail::join(equal ? "equal " : "refused ",
                                            fs::relative(each.path().parent_path(), folder).string(),
                                            equal ? "" : "\t" + outcome.lack + outcome.difference));
      continue;
    }
    if (!path.ends_with(ending)) continue;
    const fs::path base = path.substr(0, path.size() - ending.size());
    std::string problem;
    const Reached reached = try_case(base, steps_in(path), problem);
    rows.push_back(tapestry::detail::join(words[static_cast<int>(reached)], ' ', fs::relative(base, folder).string(),
                                          problem.empty() ? "" : "\t" + problem.substr(0, problem.find('\n'))));
  }
  std::sort(rows.begin(), rows.end());
  for (const std::string& row : rows) std::cout << row << '\n';
}
