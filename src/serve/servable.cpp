#include "serve/servable.hpp"

#include <algorithm>
#include <utility>

#include "tapestry/error.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::serve {

std::string for_clients(std::string text) {
  constexpr std::string_view begin = " (GraphLimits::";
  for (std::size_t at; (at = text.find(begin)) != std::string::npos;) {
    const std::size_t end = text.find(')', at);
    text.erase(at, end == std::string::npos ? end : end + 1 - at);
  }
  return text;
}

Servable::Servable(std::string name, std::int64_t version, const std::filesystem::path& folder,
                   const ServableOptions& options)
    : name_(std::move(name)), version_(version), model_(folder), runners_(model_.graph(), options.most_runs) {
  GraphLimits limits;
  limits.time_in_ms = options.run_timeout.count();
  model_.graph().set_limits(limits);
  if (options.batching)
    batcher_ =
        std::make_unique<Batcher>(*options.batching, [this](const auto&... request) { return run_alone(request...); });
}

std::string Servable::svg(const std::string& signature) const {
  try {
    Feeds feeds;
    for (const auto& [name, input] : model_.signature(signature).inputs) {
      std::vector<std::int64_t> sizes;
      if (const Shape shape = input.shape(); shape.has_rank()) sizes.assign(shape.sizes().begin(), shape.sizes().end());
      std::replace(sizes.begin(), sizes.end(), std::int64_t{-1}, std::int64_t{1});
      feeds.add(input, zeros(Shape(sizes), {.dtype = input.dtype()}));
    }
    std::vector<Fetch> fetches;
    for (const auto& [name, tensor] : model_.signature(signature).outputs) fetches.emplace_back(tensor);
    return Session(model_.graph(), {.allow_soft_placement = true})
        .explain_all(fetches, feeds, Where())
        .stages.front()
        .graph.to_svg();
  } catch (const UnimplementedError&) {
    return model_.graph().to_svg();
  }
}

NamedValues Servable::run(const std::string& signature, NamedValues inputs, Deadline deadline) const {
  RequestTexts texts(model_.texts());
  const NamedTensors tensors = model_.tensors_of(signature, std::move(inputs), texts);
  try {
    return model_.values_of(
        signature, batcher_ ? batcher_->run(signature, tensors, deadline) : run_alone(signature, tensors, deadline),
        texts);
  } catch (const ResourceExhaustedError& error) {
    throw ResourceExhaustedError(for_clients(error.message()));
  } catch (const DeadlineExceededError& error) {
    throw DeadlineExceededError(for_clients(error.message()));
  }
}

NamedTensors Servable::run_alone(const std::string& signature, const NamedTensors& inputs, Deadline deadline) const {
  const Signature& called = model_.signature(signature);
  std::vector<Value> given;
  given.reserve(called.inputs.size());
  auto next_input = inputs.begin();
  for (const auto& [name, placeholder] : called.inputs) {  // in the order of the names, too
    next_input = std::find_if(next_input, inputs.end(), [&key = name](const auto& each) { return each.first == key; });
    if (next_input == inputs.end()) throw InvalidArgumentError("Missing named input: " + name);
    given.emplace_back(next_input->second, Where());
  }
  require_time(deadline);
  const Tensors values = runners_.take(deadline)->run(signature, called, given, deadline);
  require_time(deadline);
  NamedTensors outputs;
  outputs.reserve(values.size());
  std::size_t next = 0;
  for (const auto& [name, tensor] : called.outputs) outputs.emplace(name, values[next++].to(Device()).contiguous());
  return outputs;
}

}  // namespace tapestry::serve
