#include "io/tensorflow/conditions.hpp"

#include <algorithm>
#include <charconv>
#include <unordered_set>

namespace tapestry::io {
namespace {

bool is_merge_of_condition(const NodeDef& node) { return node.op == "Merge" || node.op == "RefMerge"; }

bool reads_sizes(const NodeDef& node) {
  return node.op == "Shape" || node.op == "ShapeN" || node.op == "Rank" || node.op == "Size";
}

void unite(Conditions::Context& all, const Conditions::Context& more) {
  for (const auto& each : more)
    if (std::find(all.begin(), all.end(), each) == all.end()) all.push_back(each);
}

/// The innermost condition that has the tensors on different sides; one of them may be in no branch of it.
std::optional<std::size_t> predicate_between(const std::vector<Conditions::Context>& contexts) {
  std::optional<std::size_t> found;
  for (const Conditions::Context& context : contexts)
    for (const auto& each : context) {
      const bool is_shared = std::all_of(contexts.begin(), contexts.end(), [&](const Conditions::Context& other) {
        return std::find(other.begin(), other.end(), each) != other.end();
      });
      if (!is_shared) found = each.first;
    }
  return found;
}

}  // namespace

bool is_case_switch(const NodeDef& node) { return node.op == "_SwitchN"; }
bool is_switch_of_condition(const NodeDef& node) {
  return node.op == "Switch" || node.op == "RefSwitch" || is_case_switch(node);
}

/// Whether a Switch passes on a Variable.
bool passes_variable(const NodeDef& node) {
  const auto type = node.attrs.find("T");
  const auto* code = type == node.attrs.end() ? nullptr : std::get_if<TypeCode>(&type->second);
  return node.op == "RefSwitch" || (node.op == "Switch" && code && *code == resource_type);
}

void refuse_condition(const NodeDef& node, std::string_view problem) {
  throw UnimplementedError(detail::join("Node '", node.name, "' (op: '", node.op,
                                        "') belongs to no condition that Tapestry can read: ", problem));
}

Conditions::Edge Conditions::edge_of(std::string_view input) const {
  const bool control = input.starts_with('^');
  const std::string_view name = input.substr(control ? 1 : 0);
  const std::size_t colon = name.rfind(':');
  const auto found = numbers_.find(name.substr(0, colon));
  if (found == numbers_.end()) return {.node = numbers_.size()};
  std::int64_t output = 0;
  if (colon != std::string_view::npos) std::from_chars(name.data() + colon + 1, name.data() + name.size(), output);
  return {found->second, output, control};
}

bool Conditions::find() {
  if (!find_edges() || !sort() || !find_switches()) return false;
  for (const std::size_t i : order_) find_context(i);
  return true;
}

/// Returns false for inputs that do not exist.
bool Conditions::find_edges() {
  const std::size_t size = graph_.nodes.size();
  numbers_.clear();
  for (std::size_t i = 0; i < size; ++i) numbers_.emplace(def(i).name, i);
  edges_.assign(size, {});
  is_used_.assign(size, 0);
  for (std::size_t i = 0; i < size; ++i)
    for (const std::string& input : def(i).inputs) {
      edges_[i].push_back(edge_of(input));
      if (edges_[i].back().node >= size) return false;
      is_used_[edges_[i].back().node] = 1;
    }
  switches_.clear();
  side_of_second_.clear();
  gives_number_.assign(size, 0);
  contexts_.assign(size, {});
  predicate_of_switch_.assign(size, {});
  predicate_of_merge_.assign(size, {});
  return true;
}

/// Depth first, so that what is in one condition stands together. Returns false for a graph with a cycle.
bool Conditions::sort() {
  const std::size_t size = graph_.nodes.size();
  std::vector<char> is_open(size), is_done(size);
  std::vector<std::pair<std::size_t, std::size_t>> path;  // nodes, and how many of their inputs are done
  order_.clear();
  positions_.assign(size, 0);
  for (std::size_t root = 0; root < size; ++root) {
    if (!is_done[root]) path.emplace_back(root, 0);
    while (!path.empty()) {
      auto& [i, next] = path.back();
      is_open[i] = 1;
      if (next == edges_[i].size()) {
        is_open[i] = 0;
        is_done[i] = 1;
        positions_[i] = order_.size();
        order_.push_back(i);
        path.pop_back();
        continue;
      }
      const std::size_t input = edges_[i][next++].node;
      if (is_open[input]) return false;
      if (!is_done[input]) path.emplace_back(input, 0);
    }
  }
  return true;
}

/// Finds the Switches whose predicates do not follow from constants or from sizes, which choose a branch before the
/// graph runs. Where a condition passes on a Variable, they do not: operations in its branches may change the
/// Variable, and must run only if the branch is taken. If there is such a condition, or a Merge of one takes what needs
/// only the sizes of a branch's tensor, a placeholder with a default is no constant, either: once sizes are known,
/// nothing tells which branch that is of.
bool Conditions::find_switches() {
  std::vector<std::size_t> switches;
  std::unordered_set<std::size_t> passing;  // predicates
  for (const std::size_t i : order_) {
    if (!is_switch_of_condition(def(i)) || edges_[i].size() < 2) continue;
    if (edges_[i][0].is_control || edges_[i][1].is_control) continue;
    switches.push_back(i);
    if (passes_variable(def(i))) passing.insert(number_of_predicate(edges_[i][1]));
  }
  const bool defaults_depend = !passing.empty() || merges_by_sizes();
  std::vector<char> depends(graph_.nodes.size());
  for (const std::size_t i : order_) {
    const std::string& op = def(i).op;
    if (reads_sizes(def(i))) continue;
    bool has_inputs = false;
    for (const Edge& each : edges_[i]) {
      if (each.is_control) continue;
      has_inputs = true;
      if (depends[each.node]) depends[i] = 1;
    }
    if ((!has_inputs && op != "Const") || (defaults_depend && op == "PlaceholderWithDefault")) depends[i] = 1;
  }
  for (const std::size_t i : switches) {
    const Edge& predicate = edges_[i][1];
    const std::size_t number = number_of_predicate(predicate);
    if (!depends[predicate.node] && !passing.contains(number)) continue;
    predicate_of_switch_[i] = number;
    switches_.insert_or_assign(number, i);
  }
  return !switches_.empty();
}

/// Whether a Merge takes a tensor that depends on a Switch by sizes only.
bool Conditions::merges_by_sizes() const {
  std::vector<char> by_value(graph_.nodes.size()), by_size(graph_.nodes.size());
  for (const std::size_t i : order_) {
    by_value[i] = is_switch_of_condition(def(i));
    for (const Edge& each : edges_[i]) {
      if (each.is_control) continue;
      if (is_merge_of_condition(def(i)) && by_size[each.node] && !by_value[each.node]) return true;
      if (by_value[each.node]) (reads_sizes(def(i)) ? by_size : by_value)[i] = 1;
      if (by_size[each.node]) by_size[i] = 1;
    }
    if (is_merge_of_condition(def(i))) by_value[i] = by_size[i] = 0;
  }
  return false;
}

std::size_t Conditions::number_of_predicate(Edge edge) {
  while (def(edge.node).op == "Identity" && !edges_[edge.node].empty() && !edges_[edge.node][0].is_control)
    edge = edges_[edge.node][0];
  const std::string tensor = detail::join(def(edge.node).name, ":", edge.output);
  return predicates_.emplace(tensor, predicates_.size()).first->second;
}

std::optional<std::size_t> Conditions::switch_of(std::size_t predicate) const {
  const auto found = switches_.find(predicate);
  return found == switches_.end() ? std::nullopt : std::optional(found->second);
}

std::int64_t Conditions::side_of(const Edge& edge) const {
  const auto found = side_of_second_.find(edge.node);
  if (found == side_of_second_.end()) return edge.output;
  return edge.output == 1 ? found->second : 1 - found->second;
}

Conditions::Context Conditions::context_of(const Edge& edge) const {
  Context context = contexts_[edge.node];
  if (predicate_of_switch_[edge.node] && !edge.is_control)
    context.emplace_back(*predicate_of_switch_[edge.node], side_of(edge));
  return context;
}

void Conditions::find_context(std::size_t i) {
  if (def(i).op == "NoOp" && !is_used_[i]) return;  // a name for what it waits for, in branches and out of them
  if (predicate_of_switch_[i]) follow_branch_number(i);
  const bool is_merge = is_merge_of_condition(def(i));
  std::vector<Context> of_data;
  for (const Edge& each : edges_[i]) {
    if (is_merge && each.is_control) continue;
    of_data.push_back(context_of(each));
  }
  for (const Edge& each : edges_[i])
    if (is_merge_of_condition(def(each.node)) && each.output == 1 && !each.is_control) gives_number_[each.node] = 1;
  Context& context = contexts_[i];
  for (const Context& each : of_data) unite(context, each);
  if (!is_merge) return;
  if (const auto predicate = predicate_between(of_data)) {
    predicate_of_merge_[i] = predicate;
    std::erase_if(context, [&](const auto& each) { return each.first == *predicate; });
  }
}

/// TensorFlow's gradient of a Merge is on the side that the Merge has taken: Switch(gradient, Merge:1 == k). Such a
/// Switch is one of the Merge's own condition.
void Conditions::follow_branch_number(std::size_t i) {
  const std::size_t test = edges_[i][1].node;
  if (def(test).op != "Equal" || data_inputs(def(test)) != 2) return;
  const Edge &number = edges_[test][0], &wanted = edges_[test][1];
  const auto predicate = predicate_of_merge_[number.node];
  if (!predicate || number.output != 1 || data_inputs(def(number.node)) != 2) return;
  const auto value = def(wanted.node).attrs.find("value");
  const auto* constant = value == def(wanted.node).attrs.end() ? nullptr : std::get_if<TensorDef>(&value->second);
  if (!constant || !constant->value || constant->value.dtype() != int32 || constant->value.size() != 1) return;
  const auto k = constant->value.item<std::int64_t>();
  if (k != 0 && k != 1) return;
  const auto side_taken_from = [&](std::int64_t input) -> std::optional<std::int64_t> {
    for (const auto& each : context_of(edges_[number.node][static_cast<std::size_t>(input)]))
      if (each.first == *predicate) return each.second;
    return {};
  };
  const auto own = side_taken_from(k), other = side_taken_from(1 - k);
  const std::int64_t side = own ? *own : 1 - *other;
  if (side != 0 && side != 1) return;
  predicate_of_switch_[i] = predicate;
  side_of_second_[i] = side;
}

std::size_t Conditions::input_taken(std::size_t merge, std::int64_t side, std::size_t predicate) const {
  std::optional<std::size_t> own, outside;
  for (std::size_t k = 0; k < data_inputs(def(merge)); ++k) {
    const Context context = context_of(edges_[merge][k]);
    const auto found =
        std::find_if(context.begin(), context.end(), [&](const auto& entry) { return entry.first == predicate; });
    if (found == context.end()) outside = k;
    if (found != context.end() && found->second == side) {
      if (own) refuse_condition(def(merge), "it takes two tensors of one side");
      own = k;
    }
  }
  if (!own && !outside) refuse_condition(def(merge), "it takes no tensor of one of the sides");
  return own ? *own : *outside;
}

}  // namespace tapestry::io
