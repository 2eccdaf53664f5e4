#pragma once

#include <string>
#include <vector>

#include "tapestry/execution_plan.hpp"

namespace tapestry::detail {

/// The measured times of a run's steps, and of the functions that steps ran.
struct RunTimes {
  explicit RunTimes(std::int64_t start = now(), int number = 0) : begin(start), thread(number) {}
  static std::int64_t now();  ///< in nanoseconds

  /// The times of a function's run in one of these steps, which are to be added by `add_function`.
  RunTimes inner() const { return RunTimes(begin, thread); }
  /// Adds such a run to those of the same function that were added before. `plan()` describes the function.
  template <class Plan>
  void add_function(const std::string& name, const RunTimes& run, const Plan& plan) {
    if (RunMetadata::Function* known = find(name, run.steps.size()))
      add_run(*known, 1, run.steps);
    else
      functions.push_back({.name = name, .runs = 1, .plan = plan(), .times = run.steps});
    add_functions_of(name, run.functions);
  }

  std::int64_t begin;
  int thread;
  std::vector<RunMetadata::Time> steps{};
  std::vector<RunMetadata::Function> functions{};

 private:
  /// Another shape may have another number of steps.
  RunMetadata::Function* find(const std::string& name, std::size_t steps_of_plan);
  static void add_run(RunMetadata::Function& known, std::int64_t runs, const std::vector<RunMetadata::Time>& times);
  void add_functions_of(const std::string& outer, const std::vector<RunMetadata::Function>& list);
};

}  // namespace tapestry::detail
