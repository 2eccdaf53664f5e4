#include "serve/servable.hpp"

#include <utility>

#include "tapestry/error.hpp"

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

std::string Servable::svg() const { return model_.graph().to_svg(); }

NamedTensors Servable::run(const std::string& signature, const NamedTensors& inputs, Deadline deadline) const {
  return batcher_ ? batcher_->run(signature, inputs, deadline) : run_alone(signature, inputs, deadline);
}

NamedTensors Servable::run_alone(const std::string& signature, const NamedTensors& inputs, Deadline deadline) const {
  const auto found = model_.signatures().find(signature);
  if (found == model_.signatures().end())
    throw UnimplementedError("The signature \"" + signature + "\" has tensors that are not plain arrays");
  Feeds feeds;
  for (const auto& [name, placeholder] : found->second.inputs) {
    const auto given = inputs.find(name);
    if (given == inputs.end()) throw InvalidArgumentError("Missing named input: " + name);
    feeds.add(placeholder, given->second);
  }
  std::vector<Fetch> fetches;
  for (const auto& [name, tensor] : found->second.outputs) fetches.emplace_back(tensor);
  const RunOptions options{.timeout_in_ms = time_left(deadline).count()};
  std::vector<Tensor> values = session_.run_all(fetches, feeds, options, nullptr, Where());
  NamedTensors outputs;
  std::size_t next = 0;
  for (const auto& [name, tensor] : found->second.outputs)
    outputs.emplace(name, values[next++].to(Device()).contiguous());
  return outputs;
}

}  // namespace tapestry::serve
