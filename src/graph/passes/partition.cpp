#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "core/make_tensor.hpp"
#include "graph/passes/passes.hpp"
#include "graph/state_ops.hpp"
#include "ops/handles.hpp"

namespace tapestry::detail {
namespace {

class Partitioner {
 public:
  explicit Partitioner(const PlanGraph& plan)
      : plan_(plan), controls_(plan.graph->size()), readers_(plan.graph->size()) {}

  std::vector<Partition> run() {
    order_random_numbers();
    find_readers();
    for (std::size_t i = 0; i < plan_.graph->size(); ++i)
      if (!is_copied_on_use(plan_.graph->node(i))) copy(plan_.graph->node(i));
    assign_feeds_and_fetches();
    if (drafts_.empty()) draft_on(cpu());  // only constants were asked for, as operations
    return finished();
  }

 private:
  struct Draft {
    Device device;
    std::shared_ptr<GraphState> graph = std::make_shared<GraphState>();
    std::unordered_map<std::int64_t, Tensor> tensors{};  ///< by the id of a tensor of the plan: that of the draft
    std::unordered_map<const Node*, Node*> controls{};   ///< by node of the plan: that of the draft
    std::vector<int> groups{};
    std::vector<std::size_t> feeds{}, fetches{};
  };
  using DeviceKey = std::pair<int, int>;

  Draft& draft_on(Device device) {
    const auto [draft, is_new] = drafts_.try_emplace({device.kind(), device.index()}, Draft{.device = device});
    if (is_new) {
      GraphState& graph = *draft->second.graph;
      graph.budget().set_limits(plan_.graph->budget().limits());
      graph.arena_pool = plan_.graph->arena_pool;
    }
    return draft->second;
  }

  /// Whether a node is copied into each draft that uses it, so that nothing is sent: a constant, or a placeholder that
  /// is not fed, of which only the shape is read.
  bool is_copied_on_use(const Node& node) const {
    const auto is_node = [&](const Tensor& feed) { return endpoint_of(feed).node == &node; };
    return &node.op() == &const_op ||
           (&node.op() == &placeholder_op && std::none_of(plan_.feeds.begin(), plan_.feeds.end(), is_node));
  }

  /// Finds the other devices on which the outputs of each node are needed.
  void find_readers() {
    const auto read = [&](const Node& source, std::int32_t output, Device device) {
      if (plan_.device_of(source) != device && !is_copied_on_use(source))
        readers_[source.index].emplace(output, DeviceKey(device.kind(), device.index()));
    };
    for (std::size_t i = 0; i < plan_.graph->size(); ++i) {
      const Node& node = plan_.graph->node(i);
      for (const Tensor& input : node.inputs())
        read(*endpoint_of(input).node, endpoint_of(input).output, plan_.device_of(node));
    }
  }

  /// Collects the control inputs. Each node that draws random numbers gets the previous one as a further control input,
  /// because all random numbers come from one stream.
  void order_random_numbers() {
    const Node* last = nullptr;
    for (std::size_t i = 0; i < plan_.graph->size(); ++i) {
      const Node& node = plan_.graph->node(i);
      controls_[i].assign(node.control_inputs.begin(), node.control_inputs.end());
      if (!node.op().stateful || node.attrs().find("variables")) continue;
      if (last) controls_[i].push_back(last);
      last = &node;
    }
  }

  void copy(const Node& node) {
    Draft& draft = draft_on(plan_.device_of(node));
    Tensors inputs;
    for (const Tensor& input : node.inputs()) inputs.push_back(in_draft(draft, input));
    const std::vector<Node*> controls = waits_of(draft, node);
    Node& made = add(draft, node, node.op(), inputs, node.attrs(), node.name(), specs_of(node), controls);
    draft.groups.back() = plan_.group_of(node);
    draft.controls.emplace(&node, &made);
    for (std::size_t i = 0; i < made.outputs().size(); ++i) draft.tensors.emplace(node.output(i).id(), made.output(i));
    for (const auto& [output, device] : readers_[node.index])
      send(draft, node, output, made.output(output), Device(device.first, device.second), {&made});
  }

  static Node& add(Draft& draft, const Node& like, const Op& op, const Tensors& inputs, const Attrs& attrs,
                   const std::string& name, const Specs& specs, const std::vector<Node*>& controls = {}) {
    draft.groups.push_back(0);
    return draft.graph->add_node(Call(op, inputs, attrs, like.where(), name), specs,
                                 {.control_inputs = controls, .outputs_on = draft.device});
  }

  /// The tensor that stands in a draft for one of the plan; adds it if need be.
  Tensor in_draft(Draft& draft, const Tensor& tensor) {
    const auto found = draft.tensors.find(tensor.id());
    if (found != draft.tensors.end()) return found->second;
    const auto [node, output] = endpoint_of(tensor);
    Tensor local;
    if (&node->op() == &const_op) {
      const Attrs attrs{{"dtype", tensor.dtype()}, {"value", node->attr<Tensor>("value").to(draft.device)}};
      local = add(draft, *node, const_op, {}, attrs, node->name(), {tensor.spec()}).output();
    } else if (is_copied_on_use(*node)) {
      local = add(draft, *node, node->op(), {}, node->attrs(), node->name(), {tensor.spec()}).output();
    } else {
      local = receive(draft, *node, output, tensor.spec());
    }
    return draft.tensors.emplace(tensor.id(), local).first->second;
  }

  /// The nodes that stand in a draft for the control inputs of a node. Those on one other device become one signal.
  std::vector<Node*> waits_of(Draft& draft, const Node& node) {
    std::vector<Node*> controls;
    std::map<DeviceKey, std::vector<const Node*>> elsewhere;
    for (const Node* control : controls_[node.index]) {
      if (is_copied_on_use(*control)) continue;
      const auto found = draft.controls.find(control);
      if (found != draft.controls.end()) {
        controls.push_back(found->second);
      } else {
        const Device device = plan_.device_of(*control);
        elsewhere[{device.kind(), device.index()}].push_back(control);
      }
    }
    for (const auto& [device, sources] : elsewhere)
      controls.push_back(signal(draft_on(plan_.device_of(*sources[0])), sources, draft));
    return controls;
  }

  /// Signals from one draft to another that these nodes have run, by an empty constant named after the last of them.
  /// Returns the node to wait for.
  Node* signal(Draft& from, const std::vector<const Node*>& sources, Draft& to) {
    const Node& last = *sources.back();
    std::vector<Node*> done;
    done.reserve(sources.size());
    for (const Node* each : sources) done.push_back(from.controls.at(each));
    const Attrs attrs{{"dtype", empty_.dtype}, {"value", make_tensor(empty_.dtype, empty_.shape, from.device)}};
    const Tensor sent = add(from, last, const_op, {}, attrs, last.name() + "/done", {empty_}, done).output();
    send(from, last, waits, sent, to.device, done);
    const Tensor received = receive(to, last, waits, empty_);
    Node& arrived = add(to, last, ops::identity, {received}, {}, last.name() + "/arrived", {empty_});
    for (const Node* each : sources) to.controls.emplace(each, &arrived);
    return to.controls.at(&last);
  }

  /// Adds a node that sends a tensor after the nodes `done`. The sender itself has to wait for them, because a constant
  /// is not a step of the execution plan.
  void send(Draft& from, const Node& node, std::int32_t output, const Tensor& tensor, Device to,
            const std::vector<Node*>& done) const {
    add(from, node, send_op, {tensor}, transfer_attrs(node, output, to, tensor.spec()), node.name() + "/send", {},
        done);
  }

  Tensor receive(Draft& draft, const Node& node, std::int32_t output, const Spec& spec) const {
    const Attrs attrs = transfer_attrs(node, output, draft.device, spec);
    return add(draft, node, recv_op, {}, attrs, node.name() + "/recv", {spec}).output();
  }

  Attrs transfer_attrs(const Node& node, std::int32_t output, Device to, const Spec& spec) const {
    const Device from = plan_.device_of(node);
    const std::string name = output == waits ? "^" + node.name() : join(node.name(), ":", output);
    return {{"dtype", spec.dtype}, {"shape", spec.shape},
            {"tensor_name", name}, {"send_device", from},
            {"recv_device", to},   {"key", join(tensorflow_name(from), ";", tensorflow_name(to), ";", name)}};
  }

  void assign_feeds_and_fetches() {
    for (std::size_t i = 0; i < plan_.feeds.size(); ++i)
      draft_on(plan_.device_of(*endpoint_of(plan_.feeds[i]).node)).feeds.push_back(i);
    for (std::size_t i = 0; i < plan_.fetches.size(); ++i) {
      Draft& draft = draft_on(plan_.device_of(*endpoint_of(plan_.fetches[i]).node));
      in_draft(draft, plan_.fetches[i]);
      draft.fetches.push_back(i);
    }
  }

  std::vector<Partition> finished() {
    std::vector<Partition> partitions;
    for (auto& [device, draft] : drafts_) {
      PlanGraph plan{.graph = draft.graph,
                     .feeds = {},
                     .fetches = {},
                     .operations = {},
                     .devices = std::vector<Device>(draft.graph->size(), draft.device),
                     .groups = std::move(draft.groups)};
      for (const std::size_t i : draft.feeds) plan.feeds.push_back(draft.tensors.at(plan_.feeds[i].id()));
      for (const std::size_t i : draft.fetches) plan.fetches.push_back(draft.tensors.at(plan_.fetches[i].id()));
      partitions.push_back({.device = draft.device,
                            .plan = std::move(plan),
                            .feeds = std::move(draft.feeds),
                            .fetches = std::move(draft.fetches)});
    }
    return partitions;
  }

  static constexpr std::int32_t waits = -1;  ///< instead of an output's number: a control edge, without a tensor

  const Spec empty_{float32, {0}};  ///< of the constant that signals that nodes have run

  const PlanGraph& plan_;
  std::vector<std::vector<const Node*>> controls_;                     ///< by node: the nodes that it waits for
  std::vector<std::set<std::pair<std::int32_t, DeviceKey>>> readers_;  ///< by node: output and device
  std::map<DeviceKey, Draft> drafts_;
};

}  // namespace

std::vector<Partition> partition(const PlanGraph& plan) {
  const GraphState& graph = *plan.graph;
  std::size_t alike = 0;
  while (alike < graph.size() && plan.devices[alike] == plan.devices[0]) ++alike;
  if (alike == 0 || alike < graph.size()) return Partitioner(plan).run();
  const auto all_of = [](const Tensors& list) {
    std::vector<std::size_t> indices(list.size());
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    return indices;
  };
  return {{plan.devices[0], plan, all_of(plan.feeds), all_of(plan.fetches)}};
}

}  // namespace tapestry::detail
