#include <algorithm>
#include <iostream>
#include <unordered_map>

#include "autodiff/variable_cell.hpp"
#include "graph/passes/passes.hpp"
#include "graph/rewrite.hpp"
#include "graph/state_ops.hpp"
#include "ops/handles.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry::detail {
namespace {

class Placer {
 public:
  Placer(const PlanGraph& plan, const Placement& options) : plan_(plan), options_(options), rewrite_(plan) {}

  PlanGraph run() {
    const GraphState& graph = *plan_.graph;
    place_handles();
    for (std::size_t i = 0; i < graph.size(); ++i) {
      const Node& node = graph.node(i);
      const Device device = device_of(node);
      devices_.push_back(device);
      rewrite_.build(node, [&] { return placed(node, device).outputs(); });
      if (options_.log) std::clog << node.name() << ": (" << node.type() << "): " << full_name(device) << '\n';
    }
    return rewrite_.plan_like(plan_);
  }

 private:
  /// Moves each Variable to the device that was asked for; by default it stays where it is. Variables that one op
  /// changes together get the device of the first one.
  void place_handles() {
    const GraphState& graph = *plan_.graph;
    for (std::size_t i = 0; i < graph.size(); ++i) {
      const Node& node = graph.node(i);
      if (&node.op() == &var_handle_op) {
        const std::optional<Device> asked = asked_for(node);
        handles_.emplace(&node, asked ? *asked : variable_of(node).device());
      }
      const Node* first = nullptr;
      for (const Tensor& input : node.inputs()) {
        if (input.dtype() != DType::resource) continue;
        const Node* handle = endpoint_of(input).node;
        if (first) handles_.at(handle) = handles_.at(first);
        if (!first) first = handle;
      }
    }
    for (const auto& [handle, device] : handles_) variable_of(*handle).cell()->move_to(device);
  }

  static const Variable& variable_of(const Node& handle) { return handle.attr<VariablesRef>("variables")->front(); }

  Device device_of(const Node& node) const {
    if (const auto handle = handles_.find(&node); handle != handles_.end()) return handle->second;
    for (const Tensor& input : node.inputs())
      if (input.dtype() == DType::resource) return handles_.at(endpoint_of(input).node);
    if (is_device_copy(node)) return plan_.device_of(node);
    const Node* other = node.colocation.empty() ? nullptr : plan_.graph->find(node.colocation);
    if (other && other->index < devices_.size()) return devices_[other->index];
    if (const std::optional<Device> asked = asked_for(node)) return *asked;
    const bool says_itself = node.inputs().empty() || node.attrs().find("device");
    return says_itself ? plan_.device_of(node) : device_of_inputs(node);
  }

  /// The device of the first input on an accelerator, else the CPU. Inputs of which only the shape is read count last.
  Device device_of_inputs(const Node& node) const {
    const auto is_elsewhere = [&](std::size_t i) { return !rewrite_.of(node.input(i)).device().is_cpu(); };
    for (const bool shapes_too : {false, true})
      for (std::size_t i = 0; i < node.inputs().size(); ++i)
        if (is_elsewhere(i) && (shapes_too || !reads_shape_only(node.op(), i)))
          return rewrite_.of(node.input(i)).device();
    return cpu();
  }

  /// The device that the program asked for; nothing where it did not name any.
  std::optional<Device> asked_for(const Node& node) const {
    return detail::locating({}, node.where(),
                            [&] { return device_asked_for(node.device, options_.soft, node.name()); });
  }

  static bool is_device_copy(const Node& node) { return &node.op() == &ops::device_copy; }

  /// Copies the node to its device. A constant is moved now. A device copy becomes an identity, since the transfer
  /// between partitions makes the copy.
  Node& placed(const Node& node, Device device) {
    NodeOptions options = rewrite_.options_like(node);
    options.device = full_name(device);
    options.colocation.clear();
    options.outputs_on = device;
    const bool is_copy = is_device_copy(node);
    Attrs attrs = is_copy ? Attrs() : node.attrs();
    if (&node.op() == &const_op) {
      const Tensor value = node.attr<Tensor>("value").to(device);
      attrs = {{"dtype", value.dtype()}, {"value", value}};
    }
    Call call(is_copy ? ops::identity : node.op(), rewrite_.inputs_of(node), std::move(attrs), node.where(),
              node.name());
    return rewrite_.add(std::move(call), specs_of(node), std::move(options));
  }

  const PlanGraph& plan_;
  const Placement& options_;
  Rewrite rewrite_;
  std::unordered_map<const Node*, Device> handles_;
  std::vector<Device> devices_;  ///< of the nodes so far
};

}  // namespace

PlanGraph place(const PlanGraph& plan, const Placement& options) { return Placer(plan, options).run(); }

}  // namespace tapestry::detail
