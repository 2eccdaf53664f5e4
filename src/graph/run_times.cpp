#include "graph/run_times.hpp"

#include <algorithm>
#include <chrono>

namespace tapestry::detail {

std::int64_t RunTimes::now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

RunMetadata::Function* RunTimes::find(const std::string& name, std::size_t steps_of_plan) {
  const auto found = std::find_if(functions.begin(), functions.end(), [&](const RunMetadata::Function& each) {
    return each.name == name && each.times.size() == steps_of_plan;
  });
  return found == functions.end() ? nullptr : &*found;
}

void RunTimes::add_run(RunMetadata::Function& known, std::int64_t runs, const std::vector<RunMetadata::Time>& times) {
  known.runs += runs;
  for (std::size_t i = 0; i < times.size(); ++i) known.times[i].duration += times[i].duration;
}

void RunTimes::add_functions_of(const std::string& outer, const std::vector<RunMetadata::Function>& list) {
  for (const RunMetadata::Function& each : list) {
    RunMetadata::Function nested = each;
    nested.name = outer + "/" + each.name;
    if (RunMetadata::Function* known = find(nested.name, nested.times.size()))
      add_run(*known, nested.runs, nested.times);
    else
      functions.push_back(std::move(nested));
  }
}

}  // namespace tapestry::detail
