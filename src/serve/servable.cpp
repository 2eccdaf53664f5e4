#include "serve/servable.hpp"

#include <algorithm>
#include <utility>

#include "tapestry/error.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::serve {

Servable::Servable(std::string name, std::int64_t version, const std::filesystem::path& folder,
                   const ServableOptions& options)
    : name_(std::move(name)),
      version_(version),
      signatures_(read_signatures(folder)),
      model_(saved_model::load(folder.string())),
      runners_(model_.graph()) {
  GraphLimits limits;
  limits.time_in_ms = options.run_timeout.count();
  model_.graph().set_limits(limits);
  if (options.batching)
    batcher_ =
        std::make_unique<Batcher>(*options.batching, [this](const auto&... request) { return run_alone(request...); });
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
    return Session(model_.graph(), {.allow_soft_placement = true})
        .explain_all(fetches, feeds, Where())
        .stages.front()
        .graph.to_svg();
  } catch (const UnimplementedError&) {
    return model_.graph().to_svg();
  }
}

NamedTensors Servable::run(const std::string& signature, const NamedTensors& inputs, Deadline deadline) const {
  return batcher_ ? batcher_->run(signature, inputs, deadline) : run_alone(signature, inputs, deadline);
}

NamedTensors Servable::run_alone(const std::string& signature, const NamedTensors& inputs, Deadline deadline) const {
  const Signature& called = callable(signature);
  std::vector<Value> given;
  given.reserve(called.inputs.size());
  for (const auto& [name, placeholder] : called.inputs) {
    const auto input = inputs.find(name);
    if (input == inputs.end()) throw InvalidArgumentError("Missing named input: " + name);
    given.emplace_back(input->second, Where());
  }
  require_time(deadline);
  const Tensors values = runners_.take(deadline)->run(signature, called, given);
  require_time(deadline);
  NamedTensors outputs;
  std::size_t next = 0;
  for (const auto& [name, tensor] : called.outputs) outputs.emplace(name, values[next++].to(Device()).contiguous());
  return outputs;
}

}  // namespace tapestry::serve
