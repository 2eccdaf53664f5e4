#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "dispatch/recorder.hpp"

namespace tapestry::test {

/// Keeps every call that runs while it lives.
class CallCollector final : public Recorder {
 public:
  CallCollector() { recorders().push_back(this); }
  ~CallCollector() override { recorders().erase(std::find(recorders().begin(), recorders().end(), this)); }
  CallCollector(const CallCollector&) = delete;
  CallCollector& operator=(const CallCollector&) = delete;
  void record(Call&& call) override { calls.push_back(std::move(call)); }
  void read(const Variable&, Tensor&) override {}
  std::vector<Call> calls;
};

}  // namespace tapestry::test
