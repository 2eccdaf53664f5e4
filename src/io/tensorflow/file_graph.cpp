#include "io/tensorflow/file_graph.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>

#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/left_out.hpp"
#include "io/tensorflow/op_reader.hpp"

namespace tapestry::io {
bool is_reference_variable(const NodeDef& def) { return def.op == "VariableV2" || def.op == "Variable"; }
bool is_variable(const NodeDef& def) { return def.op == "VarHandleOp" || is_reference_variable(def); }

const UpdateRule* update_rule(const NodeReader& reader) {
  const NodeDef& def = reader.def();
  if (const auto* op = reader.find<std::string>(hint_op)) {
    const UpdateRule* rule = update_rule_of(*op);
    return rule && (rule->resource == def.op || rule->reference == def.op) ? rule : nullptr;
  }
  if (!reader.attr_or<bool>("update_slots", true)) return nullptr;  // a composed update reads it
  for (const UpdateRule& each : update_rules())
    if ((each.resource == def.op || each.reference == def.op) && !each.has(UpdateRule::Part::difference) &&
        each.nesterov == reader.attr_or<bool>("use_nesterov", false))
      return &each;
  return nullptr;
}

bool is_number(const UpdateRule& rule, std::size_t input) {
  if (input >= rule.arguments.size()) return false;
  const UpdateRule::Argument& each = rule.arguments[input];
  return each.part == UpdateRule::Part::number ||
         (each.part == UpdateRule::Part::from_step && each.index == UpdateRule::epsilon);
}

const NodeDef* rate_of(const Entry& entry) {
  const UpdateRule* rule = update_rule(NodeReader(*entry.def, entry.inputs));
  if (!rule || rule->arguments.size() != entry.inputs.size()) return nullptr;
  if (rule->is_of_rows() && !entry.hinted.empty()) return entry.hinted.back().node;
  for (std::size_t i = 0; i < entry.inputs.size(); ++i)
    if (rule->arguments[i].part == UpdateRule::Part::number && rule->arguments[i].index == 0)
      return entry.inputs[i].node;
  return nullptr;
}

FileGraph::FileGraph(GraphDef file, const std::vector<std::string>* ends) : file_(std::move(file)) {
  entries_.reserve(file_.nodes.size());
  for (const NodeDef& def : file_.nodes) {
    if (!index_.emplace(def.name, entries_.size()).second)
      throw InvalidArgumentError(detail::join("Node '", def.name, "' is not unique"));
    entries_.push_back({.def = &def});
  }
  for (Entry& each : entries_) resolve(each);
  sort();
  wait_for_attributes();
  mark(ends);
}

Entry* FileGraph::find(std::string_view name) {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

void FileGraph::resolve(Entry& entry) {
  for (const std::string& input : entry.def->inputs) {
    if (input.starts_with('^')) {
      entry.controls.push_back(source(*entry.def, input.substr(1)).node);
    } else if (!entry.controls.empty()) {
      throw InvalidArgumentError(
          detail::join("Node '", entry.def->name, "': input '", input, "' stands behind a control input"));
    } else {
      entry.inputs.push_back(source(*entry.def, input));
    }
  }
  const NodeReader reader(*entry.def, entry.inputs);
  if (reader.find<std::string>(hint_op))
    for (const std::string& each : reader.attr<ListDef>(hint_inputs).strings)
      entry.hinted.push_back(source(*entry.def, each));
}

Source FileGraph::source(const NodeDef& user, const std::string& input) {
  std::string name = input;
  std::int64_t output = 0;
  if (const std::size_t colon = input.rfind(':'); colon != std::string::npos) {
    name = input.substr(0, colon);
    const std::string digits = input.substr(colon + 1);
    if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
      throw InvalidArgumentError(detail::join("Node '", user.name, "': '", input, "' is no name of a tensor"));
    output = std::stoll(digits);
  }
  Entry* found = find(name);
  if (!found) throw InvalidArgumentError(detail::join("Node '", user.name, "': Unknown input node '", input, "'"));
  if (std::cmp_greater_equal(output, found->used.size())) found->used.resize(static_cast<std::size_t>(output) + 1);
  found->used[output] = 1;
  return {found->def, output};
}

void FileGraph::sort() {
  std::vector<std::size_t> waits(entries_.size());
  std::vector<std::vector<std::size_t>> users(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i)
    for_all_needed(entries_[i], [&](const Entry& needed) {
      ++waits[i];
      users[&needed - entries_.data()].push_back(i);
    });
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (waits[i] == 0) ready.push(i);
  while (!ready.empty()) {
    const std::size_t i = ready.top();
    ready.pop();
    entries_[i].position = order_.size();
    order_.push_back(&entries_[i]);
    for (const std::size_t user : users[i])
      if (--waits[user] == 0) ready.push(user);
  }
  if (order_.size() < entries_.size()) {
    const auto stuck = std::find_if(waits.begin(), waits.end(), [](std::size_t count) { return count > 0; });
    throw InvalidArgumentError(
        detail::join("The graph has a cycle at node '", entries_[stuck - waits.begin()].def->name, "'"));
  }
}

void FileGraph::wait_for_attributes() {
  constexpr std::size_t most_nodes = 64, most_controls = 4;  // more than compute any shape, and of these
  std::vector<char> waits(order_.size());  // by position: whether the node or one whose outputs it needs waits
  for (Entry* each : order_) {
    const bool inputs_wait = std::any_of(each->inputs.begin(), each->inputs.end(), [&](const Source& input) {
      return waits[this->entry(input.node).position] != 0;
    });
    waits[each->position] = inputs_wait || !each->controls.empty();
    if (!inputs_wait || !is_readable(*each->def)) continue;
    std::vector<const Entry*> found;
    const auto note = [&](const Source& input) {
      const Entry* next = &this->entry(input.node);
      if (waits[next->position] && found.size() < most_nodes &&
          std::find(found.begin(), found.end(), next) == found.end())
        found.push_back(next);
    };
    for (const std::size_t i : value_inputs(NodeReader(*each->def, each->inputs))) note(each->inputs[i]);
    for (std::size_t i = 0; i < found.size(); ++i) {
      // The node stands for what it waits for, if that is much.
      const std::vector<const NodeDef*>& waits_for = found[i]->controls;
      const std::vector<const NodeDef*> own{found[i]->def};
      for (const NodeDef* control : waits_for.size() > most_controls ? own : waits_for)
        if (std::find(each->controls.begin(), each->controls.end(), control) == each->controls.end())
          each->controls.push_back(control);
      if (const std::string& op = found[i]->def->op; op != "Shape" && op != "ShapeN" && op != "Size" && op != "Rank")
        for (const Source& input : found[i]->inputs) note(input);
    }
  }
}

/// Whether the reader has made a node to give something a name, such as the output of a TensorFlow 1 loop or what is
/// left of a list: it matters only where another node uses it.
static bool only_names(const GraphDef& graph, const NodeDef& def) {
  return is_named_by_reader(graph, def.name) && (def.op == "Identity" || def.op.starts_with("TensorList"));
}

/// Marks the nodes that our graph needs: the ends, and what marked nodes require.
void FileGraph::mark(const std::vector<std::string>* ends) {
  std::vector<char> used(entries_.size());
  for (const Entry& each : entries_) for_all_needed(each, [&](const Entry& needed) { used[needed.position] = 1; });
  for (Entry& each : entries_)
    each.needed =
        !ends && used[each.position] == 0 && !only_names(file_, *each.def) && !each.def->attrs.contains(hint_left_out);
  for (std::size_t i = 0; ends && i < ends->size(); ++i)
    if (Entry* end = find((*ends)[i])) end->needed = true;
  for (auto each = order_.rbegin(); each != order_.rend(); ++each) {
    if (!(*each)->needed) continue;
    for (Entry* required : requirements(**each)) required->needed = true;
  }
}

std::vector<Source> FileGraph::used_inputs(const Entry& entry) {
  const NodeReader reader(*entry.def, entry.inputs);
  const UpdateRule* update = update_rule(reader);
  if (reader.find<std::string>(hint_op)) {
    std::vector<Source> used = entry.hinted;
    if (update && update->is_of_rows() && !used.empty()) used.pop_back();  // the learning rate
    return used;
  }
  // The shape of a list's elements is made anew for each file.
  if (is_result_of_loop(*entry.def) && !entry.inputs.empty() && entry.def->op.starts_with("TensorList"))
    return {entry.inputs[0]};
  std::vector<Source> used;
  if (const Flow* flow = entry.def->flow.get(); flow && flow->is_loop) {
    for (const std::size_t i : flow->used_variables()) used.push_back(entry.inputs[i]);
    return used;
  }
  std::vector<char> left_out(entry.inputs.size());
  if (update) {
    for (std::size_t i = 0; i < left_out.size(); ++i) left_out[i] = is_number(*update, i) && reader.is_constant(i);
  } else if (is_readable(*entry.def) && !may_need_sizes(*entry.def)) {
    // A node that may become a KeptNode keeps all its inputs.
    const std::vector<std::size_t> values = value_inputs(reader);
    if (std::all_of(values.begin(), values.end(), [&](std::size_t i) { return reader.is_constant(i); }))
      for (const std::size_t i : values) left_out[i] = 1;
  }
  for (std::size_t i = 0; i < entry.inputs.size(); ++i)
    if (!left_out[i]) used.push_back(entry.inputs[i]);
  return used;
}

std::vector<Entry*> FileGraph::requirements(const Entry& entry) {
  std::vector<Entry*> list;
  for (const Source& input : used_inputs(entry)) list.push_back(&this->entry(input.node));
  for (const NodeDef* control : entry.controls) list.push_back(&this->entry(control));
  // An update's learning rate becomes another node, with the same control inputs.
  if (const NodeDef* rate = rate_of(entry))
    for (const NodeDef* control : this->entry(rate).controls) list.push_back(&this->entry(control));
  return list;
}

namespace {

using Constants = std::map<std::string, NodeDef>;  // by the name, as an input, of the tensor that each replaces

/// Notes in `used` which constants the tensor's name or the node has now.
bool replace(std::string& tensor, const Constants& constants, Constants* used) {
  const auto found = constants.find(without_zero(tensor));
  if (found == constants.end()) return false;
  if (used) used->insert(*found);
  tensor = found->second.name;
  return true;
}

/// Throws UnimplementedError if a loop was read on the assumption that such a tensor is the constant that it was.
void require_no_counter(const NodeDef& node, const Constants& constants) {
  if (!node.flow || !node.flow->is_loop) return;
  for (const std::size_t i : node.flow->counters)
    if (i < node.inputs.size() && constants.contains(without_zero(node.inputs[i])))
      throw UnimplementedError(detail::join("'", node.inputs[i], "' cannot be fed: the loop '", node.name,
                                            "' counts its iterations from it"));
}

bool replace_inputs(NodeDef& node, const Constants& constants, Constants* used) {
  bool changed = false;
  require_no_counter(node, constants);
  for (std::string& input : node.inputs) changed = replace(input, constants, used) || changed;
  if (!node.flow || !node.flow->is_raised) return changed;
  Flow flow = *node.flow;
  for (FunctionBody& body : flow.functions) {
    Constants inside;
    for (NodeDef& each : body.graph.nodes) replace_inputs(each, constants, &inside);
    for (std::string& output : body.outputs) replace(output, constants, &inside);
    for (const auto& [tensor, constant] : inside) body.graph.nodes.push_back(constant);
    changed = changed || !inside.empty();
  }
  node.flow = std::make_shared<const Flow>(std::move(flow));
  return changed;
}

}  // namespace

GraphDef FileGraph::with_constants(const std::vector<std::pair<detail::FileNodes::Name, Tensor>>& constants) {
  GraphDef file = file_;
  Constants replaced;
  // They come first, so that all other nodes keep their order, in which random numbers are drawn.
  std::vector<NodeDef> nodes;
  nodes.reserve(constants.size() + file.nodes.size());
  for (const auto& [tensor, value] : constants) {
    std::string name = detail::join(tensor.node, "/fed_", tensor.output);
    while (has(name)) name += '_';
    const TypeCode type = code_of(value.dtype());
    nodes.push_back({.name = name, .op = "Const", .attrs = {{"dtype", type}, {"value", TensorDef{type, value}}}});
    replaced.emplace(tensor.output == 0 ? tensor.node : detail::join(tensor.node, ":", tensor.output), nodes.back());
  }
  std::vector<char> depends(order_.size());  // by position: whether the node needs such a constant
  for (const Entry* each : order_) {
    NodeDef& def = file.nodes[each->def - file_.nodes.data()];
    bool changed = replace_inputs(def, replaced, nullptr);
    for_all_needed(*each, [&](const Entry& needed) { changed = changed || depends[needed.position] != 0; });
    depends[each->position] = changed ? 1 : 0;
    if (changed)
      std::erase_if(def.attrs, [](const auto& attr) {
        return attr.first.starts_with(hint_prefix) || attr.first == hint_op || attr.first == hint_inputs ||
               attr.first == hint_numbers;
      });
  }
  nodes.insert(nodes.end(), std::move_iterator(file.nodes.begin()), std::move_iterator(file.nodes.end()));
  file.nodes = std::move(nodes);
  return file;
}

}  // namespace tapestry::io
