#include "distributed/rpc/shared_resources.hpp"

#include <algorithm>

#include "distributed/rpc/gradient_accumulator.hpp"
#include "distributed/rpc/tensor_queue.hpp"
#include "io/rpc/resource_ops.hpp"

namespace tapestry::detail {

using io::rpc::attr_or;

void HeldBytes::take(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > most_ - held_)
    throw ResourceExhaustedError(join(bytes, " bytes for a queue or an accumulator, beside ", held_,
                                      " of others; all may hold ", most_, " (ServerOptions::variable_bytes)"));
  held_ += bytes;
}

void HeldBytes::give(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  held_ -= bytes;
}

std::shared_ptr<SharedResource> TaskState::resource(const io::NodeDef& maker) {
  constexpr std::size_t most_resources = 100'000;
  std::string definition(io::rpc::resource_op(maker.op));
  for (const char* each : {"dtype", "component_types", "capacity", "reduction_type"}) {
    const auto attr = maker.attrs.find(each);
    if (attr == maker.attrs.end()) continue;
    if (const auto* type = std::get_if<io::TypeCode>(&attr->second)) definition += " " + io::type_name(*type);
    if (const auto* text = std::get_if<std::string>(&attr->second)) definition += " " + *text;
    if (const auto* number = std::get_if<std::int64_t>(&attr->second)) definition += " " + std::to_string(*number);
    if (const auto* list = std::get_if<io::ListDef>(&attr->second))
      for (const io::TypeCode type : list->types) definition += " " + io::type_name(type);
  }
  std::string container = attr_or<std::string>(maker, "container", ""),
              name = attr_or<std::string>(maker, "shared_name", "");
  if (container.empty()) container = default_container_;
  if (name.empty()) name = maker.name;
  const std::lock_guard lock(mutex_);
  Named& named = resources_[{container, name}];
  if (named.resource && named.definition != definition)
    throw InvalidArgumentError(
        join("Node '", maker.name, "' is ", definition, "; the server has '", name, "' as ", named.definition));
  if (named.resource) return named.resource;
  if (resources_.size() > most_resources)
    throw ResourceExhaustedError(join("The server has ", most_resources, " queues and accumulators, the most it may"));
  named.definition = std::move(definition);
  named.resource = io::rpc::resource_op(maker.op) == "FIFOQueue"
                       ? std::static_pointer_cast<SharedResource>(std::make_shared<TensorQueue>(maker, name, held_))
                       : std::make_shared<GradientAccumulator>(maker, held_);
  return named.resource;
}

void TaskState::clear(const std::vector<std::string>& containers) {
  VariableTable::clear(containers);
  const std::lock_guard lock(mutex_);
  std::erase_if(resources_, [&](const auto& each) {
    const std::string& container = each.first.first;
    return containers.empty() ? container == default_container_
                              : std::find(containers.begin(), containers.end(), container) != containers.end();
  });
}

}  // namespace tapestry::detail
