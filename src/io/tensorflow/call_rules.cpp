#include "dispatch/declaration.hpp"
#include "io/tensorflow/op_rules.hpp"

// What the rules of TensorFlow's ops tell of calls by name.

namespace tapestry {
namespace {

/// The value of TensorFlow's that an absent attribute of ours stands for; nothing if calls must tell it.
std::optional<AttrValue> default_of(const io::OpRule* rule, const OpAttr& attr) {
  if (attr.kind == AttrKind::flag) return false;
  if (!rule) return {};
  for (const Attr& each : rule->implied)
    if (each.name == attr.name) return each.value;
  for (const io::FieldRule& each : rule->fields) {
    if (each.attr != attr.name) continue;
    if (each.source == io::FieldRule::Source::bit) return Ints(static_cast<std::size_t>(attr.count));
    if (const auto* number = std::get_if<std::int64_t>(&each.value)) return *number;
    if (const auto* real = std::get_if<float>(&each.value)) return double{*real};
  }
  return {};
}

}  // namespace

Attrs with_defaults(const Op& op, const Attrs& attrs) {
  if (!missing_attr(op, attrs)) return attrs;
  const io::OpRule* rule = io::rule_of(op.name);
  std::vector<Attr> complete(attrs.begin(), attrs.end());
  for (const OpAttr& each : op.attrs)
    if (!each.optional && !attrs.find(each.name))
      if (auto value = default_of(rule, each)) complete.emplace_back(each.name, std::move(*value));
  return Attrs(complete);
}

void check_input_count(const Call& call) {
  const io::OpRule* rule = io::rule_of(call.type());
  if (!rule || (rule->by_entry && rule->inputs < 0)) return;
  const std::size_t count = call.inputs().size();
  if (io::takes(*rule, count)) return;
  const std::string due = rule->inputs == io::any_number    ? "at least 1"
                          : rule->inputs == io::none_or_one ? "at most 1"
                                                            : std::to_string(rule->inputs);
  throw InvalidArgumentError(
      detail::join(call.type(), " takes ", due, due.back() == '1' ? " input" : " inputs", ", but got ", count));
}

}  // namespace tapestry
