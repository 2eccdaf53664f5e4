#include "io/rpc/split_graph.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "io/rpc/compositions.hpp"
#include "io/rpc/resource_ops.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::io::rpc {
namespace {

// ---- Devices --------------------------------------------------------------------------------------------------------

/// A device as a node asks for it; "" for what it leaves open.
struct DeviceSpec {
  std::string job{}, task{}, device{};  ///< "ps", "0", "GPU:0"

  explicit DeviceSpec(const NodeDef& node) {
    std::string_view rest = node.device;
    while (!rest.empty()) {
      rest.remove_prefix(rest.front() == '/' ? 1 : 0);
      const std::string_view part = rest.substr(0, rest.find('/'));
      rest.remove_prefix(part.size());
      const std::size_t colon = part.find(':');
      if (colon == std::string_view::npos)
        throw InvalidArgumentError(detail::join("Node '", node.name, "' has the malformed device '", node.device, "'"));
      const std::string_view key = part.substr(0, colon), value = part.substr(colon + 1);
      if (key == "job") {
        job = value;
      } else if (key == "task") {
        task = value;
      } else if (key == "device") {
        device = upper(value.find(':') == std::string_view::npos ? detail::join(value, ":0") : std::string(value));
      } else if (key != "replica") {
        device = upper(std::string(part));  // "/gpu:0"
      }
    }
    if (device.ends_with(":*")) device.replace(device.size() - 1, 1, "0");
  }

  bool names_task() const { return !job.empty() || !task.empty(); }
  bool is_at(const std::string& name) const {
    return (job.empty() || name.starts_with(detail::join("/job:", job, "/"))) &&
           (task.empty() || name.ends_with(detail::join("/task:", task)));
  }

 private:
  static std::string upper(std::string text) {
    for (char& each : text) each = static_cast<char>(each >= 'a' && each <= 'z' ? each - 'a' + 'A' : each);
    return text;
  }
};

bool is_variable(const NodeDef& node) {
  return node.op == "VariableV2" || node.op == "Variable" || node.op == "TemporaryVariable";
}

/// Whether an output of the node stands for something that lives at its task.
bool makes_resource(const NodeDef& node) {
  if (is_variable(node) || node.op.ends_with("HandleOp") || makes_shared_resource(node.op)) return true;
  for (const char* type : {"T", "dtype"})
    if (attr_or<TypeCode>(node, type, {}) == resource_type && node.op != "Const") return true;
  return false;
}

/// Whether the node changes a Variable that an input refers to, or asks for its state. Others read the value.
bool takes_reference(const NodeDef& node) {
  const std::string_view op = node.op;
  return op.starts_with("Assign") || op.starts_with("Apply") || op.starts_with("SparseApply") ||
         op.starts_with("Scatter") || op == "IsVariableInitialized" || op == "CountUpTo" ||
         op == "DestroyTemporaryVariable";
}

/// TensorFlow's text for a device that there is not. `there`: the devices that there are.
[[noreturn]] void refuse_device(const NodeDef& node, const std::vector<std::string>& there) {
  std::string list;
  for (const std::string& each : there) list += (list.empty() ? "" : ", ") + each;
  throw InvalidArgumentError(
      detail::join("Cannot assign a device for operation ", node.name, ": {{node ", node.name,
                   "}} was explicitly assigned to ", node.device, " but available devices are [ ", list,
                   " ]. Make sure the device specification refers to a valid device.\n\t [[", node.name, "]]"));
}

std::vector<std::string> names_of(const std::vector<DeviceDef>& devices) {
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (const DeviceDef& each : devices) names.push_back(each.name);
  return names;
}

/// The device of a task that a node asks for, if it names one that is there.
const DeviceDef* find_device(const NodeDef& node, const std::vector<DeviceDef>& devices) {
  const std::string wanted = DeviceSpec(node).device;
  for (const DeviceDef& each : devices)
    if (each.name.ends_with("/device:" + wanted)) return &each;
  return nullptr;
}

/// Sets of nodes that share a task.
class Groups {
 public:
  explicit Groups(std::size_t nodes) : parent_(nodes) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }
  std::size_t of(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void unite(std::size_t a, std::size_t b) { parent_[of(a)] = of(b); }

 private:
  std::vector<std::size_t> parent_;
};

}  // namespace

bool PlacedGraph::uses_resources() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const NodeDef& each) { return uses_shared_resource(each.op); });
}

bool PlacedGraph::is_all_at(const std::string& task) const {
  return std::all_of(tasks.begin(), tasks.end(), [&](const std::string& each) { return each == task; });
}

void require_devices(const PlacedGraph& graph, const std::vector<DeviceDef>& devices) {
  for (const NodeDef& each : graph.nodes)
    if (!DeviceSpec(each).device.empty() && !find_device(each, devices)) refuse_device(each, names_of(devices));
}

PlacedGraph place_on_tasks(const GraphDef& graph, const RunNames& run, const std::string& own,
                           const std::vector<std::string>& tasks) {
  std::unordered_map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) index.emplace(graph.nodes[i].name, i);
  const auto find = [&](const std::string& name, std::string_view list) {
    const auto found = index.find(edge_of(name).node);
    if (found == index.end()) throw NotFoundError(detail::join(list, " node ", name, ": not found"));
    return found->second;
  };

  const auto number_of = [&](const std::string& name) {
    const auto found = index.find(name);
    return found == index.end() ? graph.nodes.size() : found->second;
  };

  // Find the nodes that the run needs.
  std::set<std::string> fed;
  for (const std::string& each : run.feeds) {
    find(each, "FeedInputs");
    fed.insert(edge_of(each).tensor());
  }
  std::vector<char> needed(graph.nodes.size());
  std::vector<std::size_t> pending;
  const auto need = [&](std::size_t i) {
    if (!std::exchange(needed[i], 1)) pending.push_back(i);
  };
  for (const std::string& each : run.fetches)
    if (const std::size_t i = find(each, "FetchOutputs"); !fed.contains(edge_of(each).tensor())) need(i);
  for (const std::string& each : run.targets) need(find(each, "TargetNodes"));
  while (!pending.empty()) {
    const NodeDef& node = graph.nodes[pending.back()];
    pending.pop_back();
    for (const std::string& input : node.inputs) {
      const Edge edge = edge_of(input);
      const auto from = index.find(edge.node);
      if (from == index.end())
        throw InvalidArgumentError(
            detail::join("Node '", node.name, "' has an input from unknown node '", edge.node, "'"));
      const bool is_fed_placeholder = graph.nodes[from->second].op == "Placeholder" && fed.contains(edge.node + ":0");
      if (edge.is_control ? !is_fed_placeholder : !fed.contains(edge.tensor())) need(from->second);
    }
  }

  // Group the nodes that must be at one task. Unneeded ones count, so that the groups are the same in all runs.
  Groups groups(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const NodeDef& node = graph.nodes[i];
    for (const std::string& each : attr_or<ListDef>(node, "_class", {}).strings)
      if (each.starts_with("loc:@"))
        if (const auto with = index.find(std::string_view(each).substr(5)); with != index.end())
          groups.unite(i, with->second);
    for (const std::string& input : node.inputs) {
      const Edge edge = edge_of(input);
      const auto from = index.find(edge.node);
      if (edge.is_control || from == index.end()) continue;
      const NodeDef& source = graph.nodes[from->second];
      const bool reference = is_variable(source) || (takes_reference(source) && !source.op.ends_with("VariableOp"));
      if (reference ? takes_reference(node) : makes_resource(source)) groups.unite(i, from->second);
    }
    // A device scope moves an op as a whole, so that its nodes are together anyway, but for those of an update, which
    // goes to its Variable.
    for (const std::size_t inner : inner_nodes(graph.nodes, i, number_of)) groups.unite(inner, i);
  }

  // Choose a task for each group: a node that makes a resource decides first.
  std::vector<std::string> task_of(graph.nodes.size());
  const auto choose = [&](std::size_t i) {
    const DeviceSpec spec(graph.nodes[i]);
    if (spec.is_at(own)) return own;
    const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const auto& each) { return spec.is_at(each); });
    if (found != tasks.end()) return *found;
    std::vector<std::string> there;
    there.reserve(tasks.size());
    for (const std::string& each : tasks) there.push_back(each + "/device:*");
    refuse_device(graph.nodes[i], there);
  };
  std::vector<char> is_used(graph.nodes.size());  // by group
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (needed[i]) is_used[groups.of(i)] = 1;
  for (const int rank : {0, 1, 2})
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (!is_used[groups.of(i)]) continue;
      const NodeDef& node = graph.nodes[i];
      const bool resource = makes_resource(node);
      const bool asks = DeviceSpec(node).names_task();
      if (rank == 0 ? !resource || !asks : rank == 1 ? !asks : !needed[i]) continue;
      std::string& task = task_of[groups.of(i)];
      if (task.empty()) {
        task = choose(i);
      } else if (rank == 0 && needed[i] && !DeviceSpec(node).is_at(task)) {
        throw InvalidArgumentError(detail::join("Operation '", node.name, "' is at '", node.device,
                                                "', and must be together with one at ", task,
                                                ", because an operation uses both\n\t [[{{node ", node.name, "}}]]"));
      }
    }

  PlacedGraph placed{.library = graph.library, .producer = graph.producer};
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!needed[i]) continue;
    placed.nodes.push_back(graph.nodes[i]);
    placed.tasks.push_back(task_of[groups.of(i)]);
  }
  return placed;
}

// ---- Cutting --------------------------------------------------------------------------------------------------------

namespace {

class Cutter {
 public:
  Cutter(const PlacedGraph& graph, const RunNames& run, const CutOptions& options)
      : graph_(graph), run_(run), options_(options) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) index_.emplace(graph.nodes[i].name, i);
    for (const std::string& each : run.feeds) fed_.insert(edge_of(each).tensor());
    for (const std::string& each : run.targets) ends_.insert(edge_of(each).node);
    for (const NodeDef& node : graph.nodes) {
      if (node.op != "NoOp") ends_.erase(node.name);
      for (const std::string& input : node.inputs) ends_.erase(edge_of(input).node);
    }
  }

  std::vector<TaskPart> parts() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) add(graph_.nodes[i], graph_.tasks[i]);
    for (const std::string& each : run_.fetches) add_fetch(edge_of(each));
    std::vector<TaskPart> list;
    for (auto& each : parts_) {
      const std::string& task = each.first;
      GraphDef& part = each.second;
      for (NodeDef& node : part.nodes) rename_hinted(node, [&](const Edge& edge) { return name_there(edge, task); });
      part.library = graph_.library;
      part.producer = graph_.producer;
      list.push_back({task, std::move(part)});
    }
    return list;
  }

 private:
  const std::string& task_of(const std::string& node) const { return graph_.tasks[index_.at(node)]; }
  GraphDef& part(const std::string& task) { return parts_[task]; }

  const std::vector<DeviceDef>& devices(const std::string& task) {
    const auto found = devices_.find(task);
    return found != devices_.end() ? found->second : devices_.emplace(task, options_.devices_of(task)).first->second;
  }

  /// The device of a task that sends and receives.
  const DeviceDef& cpu_of(const std::string& task) {
    for (const DeviceDef& each : devices(task))
      if (each.device_type == "CPU") return each;
    throw InvalidArgumentError(detail::join("The task ", task, " has no CPU"));
  }

  std::string full_device(const NodeDef& node, const std::string& task) {
    if (DeviceSpec(node).device.empty()) return cpu_of(task).name;
    if (const DeviceDef* found = find_device(node, devices(task))) return found->name;
    if (options_.allow_soft_placement) return cpu_of(task).name;
    refuse_device(node, names_of(devices(task)));
  }

  std::string new_name(const std::string& base) { return detail::join(base, "/_", ++last_); }

  void add(const NodeDef& given, const std::string& task) {
    NodeDef node = given;
    node.device = full_device(node, task);
    node.inputs.clear();
    if (node.attrs.contains(hint_op)) take_hints(node, task);
    std::map<std::string, std::vector<std::string>> controls;  // by the other tasks: what must have ended there
    std::set<std::string> own_controls;
    for (const std::string& input : given.inputs) {
      const Edge edge = edge_of(input);
      if (!edge.is_control) {
        node.inputs.push_back(here(edge, task));
      } else if (!index_.contains(edge.node)) {
        own_controls.insert("^" + here({.node = edge.node}, task));  // a placeholder that is fed
      } else if (task_of(edge.node) == task) {
        own_controls.insert(input);
      } else if (!ends_.contains(node.name)) {
        controls[task_of(edge.node)].push_back(edge.node);
      }
    }
    for (auto& [from, nodes] : controls) own_controls.insert("^" + signal(from, task, std::move(nodes)));
    node.inputs.insert(node.inputs.end(), own_controls.begin(), own_controls.end());
    part(task).nodes.push_back(std::move(node));
  }

  /// How a node of a task names a tensor.
  std::string here(const Edge& edge, const std::string& task) {
    if (fed_.contains(edge.tensor())) {
      const std::string received = feed(edge);
      return task == options_.own
                 ? received
                 : transfer({.node = received}, type_of(edge), Shape::unknown_rank(), options_.own, task);
    }
    const std::string& from = task_of(edge.node);
    if (from == task) return edge.input();
    const NodeDef& source = graph_.nodes[index_.at(edge.node)];
    if (source.op == "Const") return copy(source, task);
    return transfer(edge, type_of(edge), options_.spec_of(edge.tensor()).shape, from, task);
  }

  /// Prepares the hints of a node for its task. They do not hold where a tensor between its nodes is fed.
  void take_hints(NodeDef& node, const std::string& task) {
    std::vector<std::size_t> all = inner_nodes(graph_.nodes, index_.at(node.name), [&](const std::string& name) {
      const auto found = index_.find(name);
      return found == index_.end() ? graph_.nodes.size() : found->second;
    });
    all.push_back(index_.at(node.name));
    for (const std::size_t i : all)
      for (const std::string& input : graph_.nodes[i].inputs)
        if (const Edge edge = edge_of(input); edge.node.starts_with(node.name + "/") && fed_.contains(edge.tensor()))
          std::erase_if(node.attrs, [](const auto& attr) { return is_hint(attr.first); });
    for (const std::string& each : attr_or<ListDef>(node, hint_inputs, {}).strings)
      if (const auto source = index_.find(edge_of(each).node); source != index_.end())
        if (const NodeDef& from = graph_.nodes[source->second]; from.op == "Const" && task_of(from.name) != task)
          copy(from, task);
  }

  /// How hints at a task name a tensor: as nodes do, if one of them needs it.
  std::string name_there(const Edge& edge, const std::string& task) const {
    const auto found = [](const auto& names, const auto& key, const std::string& otherwise) {
      const auto name = names.find(key);
      return name == names.end() ? otherwise : name->second;
    };
    if (fed_.contains(edge.tensor())) {
      const std::string received = found(feeds_, edge.tensor(), edge.input());
      return task == options_.own ? received : found(transfers_, std::pair(received + ":0", task), edge.input());
    }
    const auto source = index_.find(edge.node);
    if (source == index_.end() || graph_.tasks[source->second] == task) return edge.input();
    if (graph_.nodes[source->second].op == "Const") return found(copies_, std::pair(edge.node, task), edge.input());
    return found(transfers_, std::pair(edge.tensor(), task), edge.input());
  }

  TypeCode type_of(const Edge& edge) const {
    const auto source = index_.find(edge.node);
    const NodeDef* node = source == index_.end() ? nullptr : &graph_.nodes[source->second];
    const TypeCode type = node && is_variable(*node)               ? attr_or<TypeCode>(*node, "dtype", {})
                          : node && uses_shared_resource(node->op) ? output_type(*node, edge.output)
                                                                   : code_of(options_.spec_of(edge.tensor()).dtype);
    if (type != TypeCode{} && type != resource_type) return type;
    throw UnimplementedError(detail::join("Tensor ", edge.tensor(), " cannot be sent to another task: its type is ",
                                          type == resource_type ? "a resource" : "not known before the run",
                                          "\n\t [[{{node ", edge.node, "}}]]"));
  }

  std::string copy(const NodeDef& constant, const std::string& task) {
    const auto [made, is_new] = copies_.try_emplace({constant.name, task});
    if (is_new) {
      NodeDef node = constant;
      node.inputs.clear();  // a constant waits for nothing but its loop
      node.name = made->second = new_name(constant.name);
      node.device = cpu_of(task).name;
      part(task).nodes.push_back(std::move(node));
    }
    return made->second;
  }

  /// The node of the own task that has what is fed.
  std::string feed(const Edge& edge) {
    const auto [made, is_new] = feeds_.try_emplace(edge.tensor());
    if (is_new) {
      const std::string& device = cpu_of(options_.own).name;
      Transfer transfer;
      transfer.tensor_name = edge.tensor();
      transfer.send_device = transfer.recv_device = device;
      transfer.is_clients = true;
      NodeDef node{.name = made->second = new_name(edge.node), .op = "_Recv", .device = device};
      node.attrs.emplace("tensor_type", type_of(edge));
      transfer.write_to(node);
      part(options_.own).nodes.push_back(std::move(node));
    }
    return made->second;
  }

  /// Sends a tensor to a task, once; the name of the node that receives it there.
  std::string transfer(const Edge& edge, TypeCode type, const Shape& shape, const std::string& from,
                       const std::string& to) {
    const auto [made, is_new] = transfers_.try_emplace({edge.tensor(), to});
    if (is_new) {
      const DeviceDef &sender = cpu_of(from), &receiver = cpu_of(to);
      Transfer transfer;
      transfer.tensor_name = detail::join("edge_", ++last_, "_", edge.node);
      transfer.send_device = sender.name;
      transfer.recv_device = receiver.name;
      transfer.incarnation = static_cast<std::int64_t>(sender.incarnation.value);
      NodeDef send{.name = new_name(edge.node), .op = "_Send", .device = sender.name};
      send.inputs.push_back(edge.input());
      send.attrs.emplace("T", type);
      transfer.write_to(send);
      NodeDef receive{.name = made->second = new_name(edge.node), .op = "_Recv", .device = receiver.name};
      receive.attrs.emplace("tensor_type", type);
      ListDef shapes;
      shapes.shapes.push_back(shape);
      receive.attrs.emplace("_output_shapes", std::move(shapes));  // a hint, of which TensorFlow knows nothing
      transfer.write_to(receive);
      part(from).nodes.push_back(std::move(send));
      part(to).nodes.push_back(std::move(receive));
    }
    return made->second;
  }

  /// Tells a task that some nodes of another have ended.
  std::string signal(const std::string& from, const std::string& to, std::vector<std::string> nodes) {
    std::sort(nodes.begin(), nodes.end());
    const auto [made, is_new] = signals_.try_emplace({from, nodes});
    if (is_new) {
      const Tensor nothing = zeros({0});
      NodeDef node{.name = made->second = new_name(nodes[0]), .op = "Const", .device = cpu_of(from).name};
      for (const std::string& each : nodes) node.inputs.push_back("^" + each);
      node.attrs = {{"dtype", code_of(float32)}, {"value", TensorDef{code_of(float32), nothing}}};
      part(from).nodes.push_back(std::move(node));
    }
    return transfer({.node = made->second}, code_of(float32), {0}, from, to);
  }

  void add_fetch(const Edge& edge) {
    if (fed_.contains(edge.tensor())) return;
    const DeviceDef& own = cpu_of(options_.own);
    Transfer transfer;
    transfer.tensor_name = edge.tensor();
    transfer.send_device = transfer.recv_device = own.name;
    transfer.incarnation = static_cast<std::int64_t>(own.incarnation.value);
    transfer.is_clients = true;
    NodeDef send{.name = new_name(edge.node), .op = "_Send", .device = own.name};
    send.inputs.push_back(here(edge, options_.own));
    send.attrs.emplace("T", type_of(edge));
    transfer.write_to(send);
    part(options_.own).nodes.push_back(std::move(send));
  }

  const PlacedGraph& graph_;
  const RunNames& run_;
  const CutOptions& options_;
  std::unordered_map<std::string, std::size_t> index_;
  std::set<std::string> fed_;
  std::set<std::string> ends_;  ///< targets that do nothing, and that nothing waits for but the run, as for all parts
  std::map<std::string, GraphDef> parts_;
  std::map<std::string, std::vector<DeviceDef>> devices_;
  std::map<std::pair<std::string, std::string>, std::string> copies_, transfers_;
  std::map<std::string, std::string> feeds_;
  std::map<std::pair<std::string, std::vector<std::string>>, std::string> signals_;
  int last_ = 0;  ///< number of a node or an edge that was added
};

}  // namespace

std::vector<TaskPart> cut(const PlacedGraph& graph, const RunNames& run, const CutOptions& options) {
  return Cutter(graph, run, options).parts();
}

}  // namespace tapestry::io::rpc
