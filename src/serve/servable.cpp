#include "serve/servable.hpp"

#include <algorithm>
#include <utility>

#include "tapestry/error.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::serve {

// Each batch size has a plan.
Servable::Servable(std::string name, std::int64_t version, const std::filesystem::path& folder,
                   const std::optional<BatchingOptions>& batching)
    : name_(std::move(name)),
      version_(version),
      signatures_(read_signatures(folder)),
      model_(saved_model::load(folder.string())),
      session_(model_.graph(), {.allow_soft_placement = true, .most_plans = 256}) {
  if (batching)
    batcher_ = std::make_unique<Batcher>(*batching, [this](const auto&... request) { return run_alone(request...); });
}

const Signature& Servable::callable(const std::string& signature) const {
  const auto found = model_.signatures().find(signature);
  if (found != model_.signatures().end()) return found->second;
  if (!signatures_.contains(signature))
    throw InvalidArgumentError("Serving signature name: \"" + signature + "\" not found in signature def");
  throw UnimplementedError("The signature \"" + signature + "\" has tensors that are not plain arrays");
}

std::string Servable::svg(const std::string& signature) const {
  try {
    Feeds feeds;
    for (const auto& [name, input] : callable(signature).inputs) {
      std::vector<std::int64_t> sizes =
          signatures_.at(signature).inputs.at(name).sizes.value_or(std::vector<std::int64_t>());
      std::replace(sizes.begin(), sizes.end(), std::int64_t{-1}, std::int64_t{1});
      feeds.add(input, zeros(Shape(sizes), {.dtype = input.dtype()}));
    }
    std::vector<Fetch> fetches;
    for (const auto& [name, tensor] : callable(signature).outputs) fetches.emplace_back(tensor);
    return session_.explain_all(fetches, feeds, Where()).stages.front().graph.to_svg();
  } catch (const UnimplementedError&) {
    return model_.graph().to_svg();
  }
}

NamedTensors Servable::run(const std::string& signature, const NamedTensors& inputs, Deadline deadline) const {
  return batcher_ ? batcher_->run(signature, inputs, deadline) : run_alone(signature, inputs, deadline);
}

NamedTensors Servable::run_alone(const std::string& signature, const NamedTensors& inputs, Deadline deadline) const {
  const Signature& called = callable(signature);
  Feeds feeds;
  for (const auto& [name, placeholder] : called.inputs) {
    const auto given = inputs.find(name);
    if (given == inputs.end()) throw InvalidArgumentError("Missing named input: " + name);
    feeds.add(placeholder, given->second);
  }
  std::vector<Fetch> fetches;
  for (const auto& [name, tensor] : called.outputs) fetches.emplace_back(tensor);
  const RunOptions options{.timeout_in_ms = time_left(deadline).count()};
  std::vector<Tensor> values = session_.run_all(fetches, feeds, options, nullptr, Where());
  NamedTensors outputs;
  std::size_t next = 0;
  for (const auto& [name, tensor] : called.outputs) outputs.emplace(name, values[next++].to(Device()).contiguous());
  return outputs;
}

}  // namespace tapestry::serve
