// Nodes and tensors by the names that they have in the file.

#include <unordered_set>
#include <utility>

#include "graph/state_ops.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/foreign_ops.hpp"
#include "io/tensorflow/importer.hpp"
#include "io/tensorflow/left_out.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::io {

const Tensors* Importer::outputs(std::string_view name, std::size_t wanted) {
  Entry* entry = file_.find(name);
  if (!entry) {
    const Moved* moved = find_moved(name, wanted);
    return moved ? &moved->outputs : nullptr;
  }
  add_missing(*entry);
  if (entry->outputs.empty() && refers_to_variable(*entry)) tensor_of({entry->def});
  if (entry->def->flow) pass_on(*entry);
  if (!entry->shared.empty()) separate_rest(*entry);
  if (wanted == 1 && entry->outputs.size() == 1 && entry->named.size() < 2) add_value_index(*entry);
  if (!entry->named.empty()) return &entry->named;
  return &entry->outputs;
}

Node* Importer::find(std::string_view name) {
  Entry* entry = file_.find(name);
  if (!entry) {
    const Moved* moved = find_moved(name);
    return moved ? moved->node : nullptr;
  }
  add_missing(*entry);
  return entry->node;
}

std::vector<detail::FileNodes::Alias> Importer::aliases() {
  std::vector<Alias> found;
  for (const Entry* each : file_.in_order()) {
    const NodeDef& def = *each->def;
    const bool is_made_by_us = is_named_by_reader(file_.file(), def.name) || (def.flow && def.flow->is_raised) ||
                               (def.attrs.contains(hint_loop) && !def.op.starts_with("Identity"));
    if (each->is_read && !is_made_by_us && !each->outputs.empty() && !state().find(def.name))
      found.push_back({def.name, each->outputs, def.flow && def.flow->is_loop});
  }
  return found;
}

std::vector<detail::FileNodes::Constant> Importer::constants_left_out() {
  // Those inside the expansion of an op of ours are made anew with it.
  std::unordered_set<const NodeDef*> used;
  for (const Entry* each : file_.in_order())
    if (each->is_read && !each->def->attrs.contains(hint_op) && !each->def->attrs.contains(hint_loop))
      for (const Source& input : each->inputs) used.insert(input.node);
  std::vector<Constant> found;
  for (const Entry* each : file_.in_order()) {
    const NodeDef& def = *each->def;
    if (each->is_read || def.op != "Const" || is_named_by_reader(file_.file(), def.name) ||
        !(used.contains(&def) || def.attrs.contains(hint_left_out)))
      continue;
    const auto value = def.attrs.find("value");
    const auto* tensor = value == def.attrs.end() ? nullptr : std::get_if<TensorDef>(&value->second);
    if (tensor && bool(tensor->value)) found.push_back({def.name, tensor->value, def.device});
  }
  return found;
}

detail::FileNodes::Name Importer::name_of(const Tensor& tensor) {
  for (const Entry* each : file_.in_order())
    for (const Tensors* list : {&each->named, &each->outputs})
      for (std::size_t i = 0; i < list->size(); ++i)
        if ((*list)[i].is(tensor)) return {each->def->name, i};
  for (const auto& [name, moved] : known_moved_)
    for (std::size_t i = 0; i < moved.outputs.size(); ++i)
      if (moved.outputs[i].is(tensor)) return {name, i};
  throw InvalidArgumentError(not_in_file(tensor.name()));
}

std::string Importer::name_of(const Node& node) {
  for (const Entry* each : file_.in_order())
    if (each->node == &node) return each->def->name;
  for (const auto& [name, moved] : known_moved_)
    if (moved.node == &node) return name;
  throw InvalidArgumentError(not_in_file(node.name()));
}

std::string Importer::not_in_file(const std::string& name) {
  return detail::join("'", name, "' cannot be fetched while a value is fed that the file's nodes have as an attribute",
                      ", because it was added after the graph was read");
}

void Importer::extend_for_names(const std::function<void()>& f) {
  const std::size_t first = state().size();
  extend([&] {
    const detail::OptionsScope open(state().shared_from_this(), {});
    f();
  });
  for (std::size_t i = first; i < state().size(); ++i) for_names_.insert(&state().node(i));
}

void Importer::separate_rest(Entry& entry) {
  const std::vector<std::size_t> shared = std::exchange(entry.shared, {});
  entry.named = entry.outputs;
  extend_for_names([&] {
    for (const std::size_t k : shared) {
      entry.named[k] = own_output(entry, k);
      state().absorbed.insert(entry.named[k].id());
    }
  });
}

void Importer::add_value_index(Entry& merge) {
  const auto numbers = merge.def->attrs.find(value_index);
  const Entry* condition = merge.inputs.empty() ? nullptr : &file_.entry(merge.inputs[0].node);
  if (numbers == merge.def->attrs.end() || !condition->def->flow) return;
  const std::vector<std::int64_t>& taken = std::get<ListDef>(numbers->second).ints;
  add_missing(file_.entry(condition->inputs[0].node));
  extend_for_names([&] {
    const NameScope inside(merge.def->name + "/_/", where_);
    const ControlScope taken_before({merge.outputs[0]});  // the number comes with the branch and with what it changes
    const Tensor selector = tensor_of(condition->inputs[0]);
    const Tensor list = constant_node(vector_of(taken, int32), "value_index", where_);
    if (merge.named.empty()) merge.named = merge.outputs;
    merge.named.push_back(gather(list, condition->def->op == "Case" ? selector : cast(selector, int32)));
    state().absorbed.insert(merge.named.back().id());
  });
}

}  // namespace tapestry::io
