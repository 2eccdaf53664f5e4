#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "graph/executable.hpp"
#include "graph/passes/passes.hpp"
#include "graph/specialize.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test {

using detail::PlanGraph;
using Types = std::multiset<std::string>;

/// A function as a graph of its arguments, specialised for their values.
class Planned {
 public:
  Planned(const std::vector<Tensor>& values, const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f)
      : values_(values) {
    const auto scope = graph_.as_default();
    detail::Request request;
    std::vector<Tensor> arguments;
    for (const Tensor& value : values_) {
      arguments.push_back(placeholder(value.dtype(), value.shape(), "x"));
      request.feeds.push_back(arguments.back());
      request.fed.push_back(value.spec());
    }
    request.fetches = f(arguments);
    request.complete = true;
    plan = detail::specialize(*graph_.state(), request);
    expected_ = run();
  }

  /// Runs the passes of these names, and checks that the results keep their bits.
  void apply(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      for (const detail::Pass& pass : detail::passes())
        if (pass.name == name) plan = pass.run(plan);
    const Tensors found = run();
    REQUIRE(found.size() == expected_.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected_[i]));
  }

  Tensors run() const { return detail::Executable(plan).run(values_); }

  /// The types of the operations, without placeholders and constants.
  Types types() const {
    Types found;
    for (std::size_t i = 0; i < plan.graph->size(); ++i) {
      const std::string& type = plan.graph->node(i).type();
      if (type != "Placeholder" && type != "Const") found.insert(type);
    }
    return found;
  }
  const detail::Node& first(std::string_view type) const {
    for (std::size_t i = 0; i < plan.graph->size(); ++i)
      if (plan.graph->node(i).type() == type) return plan.graph->node(i);
    throw NotFoundError(detail::join("no ", type));
  }

  PlanGraph plan;

 private:
  Graph graph_;
  Tensors values_, expected_;
};

using Arguments = std::vector<Tensor>;

}  // namespace tapestry::test
