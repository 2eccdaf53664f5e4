#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness.hpp"

/// How Tapestry runs a workload: op by op, or as a graph that a Session runs.
enum class Mode { eager, session };
using Workloads = std::vector<std::pair<std::string, std::function<bench::Workload(Mode)>>>;

/// Training steps of the networks that people train.
Workloads networks();
/// One of them, a step of a small GPT, for a batch of any size.
bench::Workload gpt_step(Mode mode, std::int64_t batch = 8);
