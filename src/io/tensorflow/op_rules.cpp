#include "io/tensorflow/op_rules.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "dispatch/declaration.hpp"
#include "io/composition.hpp"
#include "io/tensorflow/op_table.hpp"

namespace tapestry::io {
namespace {

using detail::Node;

const std::vector<OpRule>& op_rules() {
  static const std::vector<OpRule>& rules = *new std::vector<OpRule>([] {
    std::vector<OpRule> made = op_table();
    for (OpRule& rule : made) rule.entry = find_op(rule.op);
    return made;
  }());
  return rules;
}

// ---- Ops that the table lacks ---------------------------------------------------------------------------------------

/// Whether an op can be written by its entry alone: it is no state op, and has no attributes that only a program has.
bool is_plain(const Op& op) {
  return !is_state_op(op.name) && std::none_of(op.attrs.begin(), op.attrs.end(), [](const OpAttr& each) {
    return each.kind == AttrKind::function || each.kind == AttrKind::tensor || each.kind == AttrKind::variables ||
           each.kind == AttrKind::program || each.kind == AttrKind::communicator;
  });
}

/// The numbers of inputs of those that are not elementwise.
constexpr std::array counts = std::to_array<std::pair<std::string_view, int>>({{"BatchNormGrad", 5},
                                                                               {"BatchNormTraining", 3},
                                                                               {"GRUSequence", 4},
                                                                               {"GRUSequenceGrad", 8},
                                                                               {"LSTMSequence", 4},
                                                                               {"LSTMSequenceGrad", 10},
                                                                               {"MaskedParts", 2},
                                                                               {"UniqueWithCounts", 1},
                                                                               {"Where", 1}});

/// The rule of an op that is not in the table (see `rule_of`).
OpRule rule_by_entry(const Op& op) {
  const std::optional<int> inputs = input_count(op);
  const auto* known =
      std::find_if(counts.begin(), counts.end(), [&](const auto& each) { return each.first == op.name; });
  OpRule rule{.op = op.name,
              .inputs = inputs.value_or(known == counts.end() ? any_number : known->second),
              .entry = &op,
              .by_entry = true};
  if (op.composition) return rule;
  rule.tensorflow = op.name;
  if (!find_attr(op, "T")) rule.fields.push_back({.name = "T", .source = FieldRule::Source::input_type});
  for (int i = 0; i < inputs.value_or(0); ++i) rule.input_rules.push_back({.form = InputRule::Form::input, .input = i});
  if (!inputs) rule.input_rules.push_back({.form = InputRule::Form::rest});
  for (const OpAttr& each : op.attrs)
    rule.fields.push_back({.name = each.name, .source = FieldRule::Source::attr, .attr = each.name});
  return rule;
}

}  // namespace

const OpRule* rule_of(std::string_view op) {
  static const auto& index = *new std::unordered_map<std::string_view, const OpRule*>([] {
    std::unordered_map<std::string_view, const OpRule*> made;
    for (const OpRule& rule : op_rules()) made.emplace(rule.op, &rule);
    return made;
  }());
  if (const auto found = index.find(op); found != index.end()) return found->second;
  static std::mutex& mutex = *new std::mutex;
  static auto& others = *new std::unordered_map<std::string_view, std::optional<OpRule>>;
  const std::lock_guard lock(mutex);
  auto found = others.find(op);
  if (found == others.end()) {
    const Op* entry = find_op(op);
    if (!entry) return nullptr;
    found = others.emplace(entry->name, is_plain(*entry) ? std::optional(rule_by_entry(*entry)) : std::nullopt).first;
  }
  return found->second ? &*found->second : nullptr;
}

bool is_written_directly(const OpRule& rule, const detail::Node& node) {
  return !rule.tensorflow.empty() && (!rule.is_direct || rule.is_direct(node));
}

bool lacks_ranks(const detail::Node& node) {
  const OpRule* rule = rule_of(node.type());
  if (!rule || rule->entry != &node.op() || is_written_directly(*rule, node) ||
      std::all_of(node.inputs().begin(), node.inputs().end(),
                  [](const Tensor& input) { return input.shape().has_rank(); }))
    return false;
  if (rule->expand) return rule->asks_ranks && rule->asks_ranks(node);
  if (!node.op().composition) return true;
  try {
    const ComposedGraph composed = compose(node);
    for (std::size_t i = 0; i < composed.graph->size(); ++i)
      if (lacks_ranks(composed.graph->node(i))) return true;
    return false;
  } catch (const Error&) {
    return true;  // the composition asks for a rank
  }
}

const OpRule* rule_of_tensorflow(std::string_view op) {
  const OpRule* rule = rule_of(op_of_alias(op));
  return rule && !rule->tensorflow.empty() ? rule : nullptr;
}

bool takes(const OpRule& rule, std::size_t inputs) {
  if (rule.inputs == any_number) return inputs >= 1;
  return rule.inputs == none_or_one ? inputs <= 1 : std::cmp_equal(inputs, rule.inputs);
}

std::optional<AttrValue> attr_or_implied(const Node& node, std::string_view name) {
  if (const AttrValue* given = node.attrs().find(name)) return *given;
  if (node.inputs().empty()) return {};
  const int rank = node.input(0).shape().rank();
  if (name == "k" && rank > 0 && node.input(0).shape().sizes().back() >= 0) return node.input(0).shape().sizes().back();
  if ((name != "axis" && name != "perm") || rank < 0) return {};
  Ints axes;
  for (int i = 0; i < rank; ++i) axes.push_back(name == "axis" ? i : rank - 1 - i);
  return axes;
}

}  // namespace tapestry::io
