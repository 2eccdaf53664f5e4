#include "io/rpc/islands.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "io/rpc/compositions.hpp"
#include "io/rpc/resource_ops.hpp"

namespace tapestry::io::rpc {
namespace {

/// Whether a node is a constant, or names a Variable or a shared resource: each island may have a copy of it.
bool is_leaf(const NodeDef& node) {
  if (makes_shared_resource(node.op)) return true;
  return node.inputs.empty() &&
         (node.op == "Const" || node.op == "VariableV2" || node.op == "Variable" || node.op == "VarHandleOp");
}

/// TensorFlow's master fuses products with what follows: `_FusedMatMul` with the functions "BiasAdd" and "Relu". Adds
/// the single nodes; returns false for a fusion of other functions.
bool unfuse(const NodeDef& node, std::vector<NodeDef>& nodes) {
  const std::string plain = node.op == "_FusedMatMul" ? "MatMul" : node.op == "_FusedConv2D" ? "Conv2D" : "";
  if (plain.empty()) return false;
  const std::vector<std::string> functions = attr_or<ListDef>(node, "fused_ops", {}).strings;
  const auto is_known = [&](std::size_t i) {
    constexpr std::string_view elementwise[] = {"Relu", "Relu6", "Elu", "Tanh", "Sigmoid", "LeakyRelu"};
    if (i == 0) return functions[0] == "BiasAdd";
    return std::find(std::begin(elementwise), std::end(elementwise), functions[i]) != std::end(elementwise);
  };
  for (std::size_t i = 0; i < functions.size(); ++i)
    if (!is_known(i)) return false;
  const auto is_control = [](const std::string& input) { return input.starts_with('^'); };
  if (functions.empty() || node.inputs.size() < 3 ||
      std::any_of(node.inputs.begin(), node.inputs.begin() + 3, is_control) ||
      (node.inputs.size() > 3 && !is_control(node.inputs[3])))
    return false;
  NodeDef product = node;
  product.op = plain;
  product.name = node.name + "/_product";
  product.inputs.erase(product.inputs.begin() + 2);
  for (const char* each : {"fused_ops", "num_args", "epsilon", "leakyrelu_alpha", "TArgs", "host_args"})
    product.attrs.erase(each);
  if (plain == "MatMul")
    for (const char* each : {"data_format", "padding", "strides", "dilations"}) product.attrs.erase(each);
  const AttrDef type = node.attrs.at("T");
  std::string last = product.name;
  nodes.push_back(std::move(product));
  for (std::size_t i = 0; i < functions.size(); ++i) {
    NodeDef next{.name = i + 1 == functions.size() ? node.name : detail::join(node.name, "/_", functions[i]),
                 .op = functions[i],
                 .device = node.device,
                 .inputs = {last},
                 .attrs = {{"T", type}}};
    if (i == 0) {
      next.inputs.push_back(node.inputs[2]);
      if (plain == "Conv2D") next.attrs.emplace("data_format", attr_or<std::string>(node, "data_format", "NHWC"));
    }
    if (next.op == "LeakyRelu") next.attrs.emplace("alpha", attr_or<float>(node, "leakyrelu_alpha", 0.2F));
    last = next.name;
    nodes.push_back(std::move(next));
  }
  return true;
}

/// The part with names and ops that a graph of ours can have.
std::vector<NodeDef> readable(std::vector<NodeDef> given) {
  std::vector<NodeDef> nodes;
  const auto rename = [](std::string& name) {
    // TensorFlow's own nodes: "_recv_x_0".
    const std::size_t at = name.starts_with('^') ? 1 : 0;
    if (name.size() > at && name[at] == '_') name.insert(at, "own/");
  };
  for (NodeDef& each : given) {
    rename(each.name);
    each.device.erase(0, std::min(each.device.find("/device:"), each.device.size()));  // the task is this one
    for (std::string& input : each.inputs) rename(input);
    if (!unfuse(each, nodes)) nodes.push_back(std::move(each));
  }
  return nodes;
}

/// A node may tell that it is the last of several that stand for one of our ops. That holds if all of its inputs are
/// there.
void drop_broken_hints(GraphDef& graph) {
  std::unordered_set<std::string> names;
  for (const NodeDef& each : graph.nodes) names.insert(each.name);
  for (NodeDef& node : graph.nodes) {
    const std::vector<std::string> inputs = attr_or<ListDef>(node, hint_inputs, {}).strings;
    if (std::all_of(inputs.begin(), inputs.end(),
                    [&](const std::string& each) { return names.contains(edge_of(each).node); }))
      continue;
    std::erase_if(node.attrs, [](const auto& attr) { return is_hint(attr.first); });
  }
}

class Builder {
 public:
  Builder(Islands& part, GraphDef file, const IslandOptions& options)
      : part_(part),
        library_(std::move(file.library)),
        producer_(file.producer),
        options_(options),
        nodes_(readable(std::move(file.nodes))) {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!index_.emplace(nodes_[i].name, i).second)
        throw InvalidArgumentError(detail::join("Node '", nodes_[i].name, "' is not unique"));
    for (const NodeDef& each : nodes_) {
      edges_.emplace_back();
      for (const std::string& input : each.inputs) edges_.back().push_back(edge_of(input));
      for (const Edge& edge : edges_.back()) static_cast<void>(at(each, edge));
    }
  }

  void build() {
    find_receives();
    find_islands();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (is_send(i)) add_send(i);
      // A constant that such a node gets has a place, too.
      if (is_use(i))
        for (std::size_t k = 1; k < edges_[i].size(); ++k)
          if (!edges_[i][k].is_control) static_cast<void>(place_of(edges_[i][k]));
    }
    part_.islands.resize(members_.size());
    // The islands are in order: each needs only earlier ones, which wait for fewer tensors.
    for (std::size_t i = 0; i < members_.size(); ++i)
      is_use(members_[i][0]) ? build_use(i, members_[i][0]) : build_island(i);
    for (auto& [tensor, place] : fetched_) {
      Islands::Island& island = part_.islands[place.island];
      island.fetches.emplace_back(tensor, place.place);
    }
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (!part_.islands[i].use) find_targets(i);
    part_.places = places_;
  }

 private:
  using Bits = std::vector<std::uint64_t>;
  struct Place {
    std::size_t island, place;
  };
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  std::size_t at(const NodeDef& user, const Edge& edge) const {
    const auto found = index_.find(edge.node);
    if (found == index_.end())
      throw InvalidArgumentError(
          detail::join("Node '", user.name, "' has an input from unknown node '", edge.node, "'"));
    return found->second;
  }
  std::size_t at(const Edge& edge) const { return index_.at(edge.node); }
  bool is_receive(std::size_t i) const { return nodes_[i].op == "_Recv" || nodes_[i].op == "_HostRecv"; }
  bool is_send(std::size_t i) const { return nodes_[i].op == "_Send" || nodes_[i].op == "_HostSend"; }
  bool is_use(std::size_t i) const { return uses_shared_resource(nodes_[i].op); }

  void find_receives() {
    receive_of_.assign(nodes_.size(), none);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!is_receive(i)) continue;
      receive_of_[i] = part_.receives.size();
      part_.receives.push_back({Transfer(nodes_[i]), places_++});
    }
  }

  /// The tensors, and the uses of queues and accumulators, that each node waits for; nodes that wait for the same ones
  /// make an island.
  void find_islands() {
    std::vector<std::size_t> bit_of = receive_of_;
    std::size_t waited = part_.receives.size();
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (is_use(i)) bit_of[i] = waited++;
    const std::size_t words = (waited + 63) / 64;
    if (std::cmp_greater(words * sizeof(Bits::value_type), options_.most_bytes / std::int64_t(nodes_.size() + 1)))
      throw ResourceExhaustedError(detail::join("A part of a graph has ", nodes_.size(), " nodes and waits for ",
                                                waited, " tensors, which are too many (GraphLimits::bytes)"));
    std::vector<Bits> waits(nodes_.size(), Bits(words));
    std::vector<std::vector<std::size_t>> users(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (const Edge& edge : edges_[i]) users[at(edge)].push_back(i);
    std::deque<std::size_t> pending;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (bit_of[i] == none) continue;
      waits[i][bit_of[i] / 64] |= std::uint64_t{1} << (bit_of[i] % 64);
      pending.push_back(i);
    }
    // Loops of TensorFlow 1 are cycles: a node is looked at again when what it waits for has grown.
    for (; !pending.empty(); pending.pop_front())
      for (const std::size_t user : users[pending.front()]) {
        bool grows = false;
        for (std::size_t k = 0; k < words; ++k) {
          const std::uint64_t more = waits[pending.front()][k] & ~waits[user][k];
          grows |= more != 0;
          waits[user][k] |= more;
        }
        if (grows) pending.push_back(user);
      }
    keep_compositions(users, waits);
    const auto count = [](const Bits& bits) {
      int sum = 0;
      for (const std::uint64_t each : bits) sum += std::popcount(each);
      return sum;
    };
    // A use comes before the other nodes that wait for it.
    std::map<std::tuple<int, Bits, bool>, std::vector<std::size_t>> classes;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (is_receive(i) || is_send(i) || is_leaf(nodes_[i])) continue;
      std::vector<std::size_t>& members = classes[{count(waits[i]), waits[i], !is_use(i)}];
      if (is_use(i) && !members.empty())
        throw UnimplementedError(detail::join("Node '", nodes_[i].name, "' uses a queue or an accumulator in a loop"));
      members.push_back(i);
    }
    island_of_.assign(nodes_.size(), none);
    for (auto& [wait, members] : classes) {
      for (const std::size_t i : members) island_of_[i] = members_.size();
      members_.push_back(std::move(members));
    }
  }

  /// Has the nodes that stand for one op wait together, where nothing else needs those between.
  void keep_compositions(const std::vector<std::vector<std::size_t>>& users, std::vector<Bits>& waits) const {
    const auto number_of = [&](const std::string& name) {
      const auto found = index_.find(name);
      return found == index_.end() ? none : found->second;
    };
    for (std::size_t last = 0; last < nodes_.size(); ++last) {
      const std::vector<std::size_t> inner = inner_nodes(nodes_, last, number_of);
      const std::unordered_set<std::size_t> members(inner.begin(), inner.end());
      const auto is_own = [&](std::size_t user) { return user == last || members.contains(user); };
      const auto may_wait = [&](std::size_t i) {
        return !is_receive(i) && !is_use(i) && std::all_of(users[i].begin(), users[i].end(), is_own);
      };
      if (!std::all_of(inner.begin(), inner.end(), may_wait)) continue;
      for (const std::size_t i : inner) waits[i] = waits[last];
    }
  }

  /// The place of a tensor that a run must know, and the island that computes it.
  std::size_t place_of(const Edge& edge) {
    const std::size_t node = at(edge);
    if (receive_of_[node] != none) return part_.receives[receive_of_[node]].place;
    const auto [found, is_new] = fetched_.try_emplace(edge.tensor());
    if (is_new) {
      std::size_t island = island_of_[node];
      if (island == none) island = leaf_island(node);
      found->second = {island, places_++};
    }
    return found->second.place;
  }

  /// An island for a leaf that is sent itself.
  std::size_t leaf_island(std::size_t node) {
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (members_[i].size() == 1 && members_[i][0] == node) return i;
    members_.push_back({node});
    return members_.size() - 1;
  }

  /// What a node or a send waits for because of a control input.
  void wait_for(Islands::Waits& waiting, std::size_t node) const {
    if (receive_of_[node] != none) {
      waiting.after_tensors.push_back(part_.receives[receive_of_[node]].place);
    } else if (island_of_[node] != none) {
      waiting.after_islands.push_back(island_of_[node]);
    }
  }

  void add_send(std::size_t i) {
    if (edges_[i].empty() || edges_[i][0].is_control)
      throw InvalidArgumentError(detail::join("Node '", nodes_[i].name, "' sends nothing"));
    Islands::Send send;
    send.transfer = Transfer(nodes_[i]);
    send.place = place_of(edges_[i][0]);
    for (const Edge& edge : edges_[i])
      if (edge.is_control) wait_for(send, at(edge));
    part_.sends.push_back(std::move(send));
  }

  /// The node of an island that has what another one computes.
  static std::string fed_name(const Edge& edge) {
    return edge.output == 0 ? edge.node : detail::join(edge.node, "/_output_", edge.output);
  }

  void build_island(std::size_t number) {
    Islands::Island& island = part_.islands[number];
    GraphDef graph{.nodes = {}, .library = library_, .producer = producer_};
    std::unordered_set<std::string> there;
    const auto add_once = [&](NodeDef node) {
      if (there.insert(node.name).second) graph.nodes.push_back(std::move(node));
    };
    for (const std::size_t i : members_[number]) {
      NodeDef node = nodes_[i];
      node.inputs.clear();
      for (std::size_t k = 0; k < edges_[i].size(); ++k) {
        const Edge& edge = edges_[i][k];
        const std::size_t from = at(edge);
        if (island_of_[from] == number) {
          node.inputs.push_back(nodes_[i].inputs[k]);
        } else if (edge.is_control) {
          wait_for(island, from);
        } else if (is_leaf(nodes_[from])) {
          add_once(nodes_[from]);
          node.inputs.push_back(nodes_[i].inputs[k]);
        } else {
          const std::string name = fed_name(edge);
          const std::size_t place = place_of(edge);
          const std::pair<std::string, std::size_t> feed{name + ":0", place};
          if (std::find(island.feeds.begin(), island.feeds.end(), feed) == island.feeds.end())
            island.feeds.push_back(feed);
          add_once({.name = name, .op = "Placeholder", .attrs = {{"dtype", type_of(edge)}, {"shape", shape_of(edge)}}});
          node.inputs.push_back(name);
        }
      }
      rename_hinted(node, [&](const Edge& edge) {
        const bool is_fed = edge.output > 0 && there.contains(fed_name(edge));
        return is_fed ? fed_name(edge) : edge.input();
      });
      graph.nodes.push_back(std::move(node));
      there.insert(nodes_[i].name);
    }
    drop_broken_hints(graph);
    options_.make(number, std::move(graph));
  }

  /// An island of a node that uses a queue or an accumulator.
  void build_use(std::size_t number, std::size_t i) {
    Islands::Island& island = part_.islands[number];
    const NodeDef& node = nodes_[i];
    if (edges_[i].empty() || edges_[i][0].is_control || !makes_shared_resource(nodes_[at(edges_[i][0])].op))
      throw UnimplementedError(detail::join("Node '", node.name, "' (op: '", node.op,
                                            "') uses what is no queue or accumulator of this task\n\t [[{{node ",
                                            node.name, "}}]]"));
    island.use = {node, nodes_[at(edges_[i][0])]};
    for (std::size_t k = 1; k < edges_[i].size(); ++k) {
      const Edge& edge = edges_[i][k];
      if (edge.is_control) {
        wait_for(island, at(edge));
      } else {
        island.feeds.emplace_back(edge.tensor(), place_of(edge));
      }
    }
    options_.make(number, {});
  }

  /// As far as it is known.
  Shape shape_of(const Edge& edge) const {
    const std::size_t node = at(edge);
    if (!is_receive(node) && !is_use(node)) return options_.spec_of(island_of_[node], edge.tensor()).shape;
    const std::vector<Shape> shapes = attr_or<ListDef>(nodes_[node], "_output_shapes", {}).shapes;
    return std::cmp_less(edge.output, shapes.size()) ? shapes[edge.output] : Shape::unknown_rank();
  }

  TypeCode type_of(const Edge& edge) const {
    const std::size_t node = at(edge);
    if (receive_of_[node] != none) return attr_or<TypeCode>(nodes_[node], "tensor_type", {});
    const TypeCode type = is_use(node) ? output_type(nodes_[node], edge.output)
                                       : code_of(options_.spec_of(island_of_[node], edge.tensor()).dtype);
    if (type == TypeCode{} || type == resource_type)
      throw UnimplementedError(detail::join("Node '", edge.node,
                                            "' computes what cannot be handed from one part of the graph ",
                                            "to another\n\t [[{{node ", edge.node, "}}]]"));
    return type;
  }

  /// The nodes of an island that nothing in it needs, and whose results nobody fetches.
  void find_targets(std::size_t number) {
    Islands::Island& island = part_.islands[number];
    std::unordered_set<std::string> used;
    for (const std::size_t i : members_[number])
      for (const Edge& edge : edges_[i]) used.insert(edge.node);
    for (const auto& [tensor, place] : island.fetches) used.insert(edge_of(tensor).node);
    for (const std::size_t i : members_[number])
      if (!used.contains(nodes_[i].name)) island.targets.push_back(nodes_[i].name);
  }

  Islands& part_;
  std::string library_;
  std::int32_t producer_;
  const IslandOptions& options_;
  std::vector<NodeDef> nodes_;
  std::vector<std::vector<Edge>> edges_;  ///< by node
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<std::size_t> receive_of_, island_of_;  ///< by node
  std::vector<std::vector<std::size_t>> members_;    ///< by island: nodes
  std::map<std::string, Place> fetched_;             ///< by tensor
  std::size_t places_ = 0;
};

}  // namespace

Islands find_islands(GraphDef part, const IslandOptions& options) {
  Islands islands;
  Builder(islands, std::move(part), options).build();
  return islands;
}

}  // namespace tapestry::io::rpc
