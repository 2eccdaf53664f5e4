#include "io/tensorflow/rule_writer.hpp"

#include <algorithm>

#include "core/make_tensor.hpp"

namespace tapestry::io {
namespace {

using detail::Node;

std::vector<std::int64_t> whole_numbers(const AttrValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return {*number};
  if (const auto* shape = std::get_if<Shape>(&value))
    return std::vector<std::int64_t>(shape->sizes().begin(), shape->sizes().end());
  const Ints& list = std::get<Ints>(value);
  return {list.begin(), list.end()};
}

class RuleWriter {
 public:
  RuleWriter(NodeWriter& writer, const OpRule& rule) : writer_(writer), node_(writer.node()), rule_(rule) {}

  void write() {
    bool wide = false;
    for (const InputRule& each : rule_.input_rules)
      if (is_whole(each) && !is_every_axis(each)) {
        const auto numbers = whole_numbers(attr(each.attr));
        wide |= std::any_of(numbers.begin(), numbers.end(),
                            [](std::int64_t n) { return n != static_cast<std::int32_t>(n); });
      }
    for (const InputRule& each : rule_.input_rules) add_input(each, wide ? int64 : int32);
    for (const FieldRule& each : rule_.fields)
      if (AttrDef value = field(each); !std::holds_alternative<std::monostate>(value))
        fields_.emplace(each.name, std::move(value));
    if (rule_.by_entry) add_reals();
    if (std::any_of(rule_.input_rules.begin(), rule_.input_rules.end(),
                    [&](const InputRule& each) { return is_every_axis(each); }))
      fields_.merge(writer_.hints());
    writer_.finish(rule_.tensorflow, inputs_, std::move(fields_));
  }

 private:
  static bool is_whole(const InputRule& rule) {
    return rule.form == InputRule::Form::scalar || rule.form == InputRule::Form::vector ||
           rule.form == InputRule::Form::pairs;
  }

  /// Whether an input tells all axes of a tensor whose rank is not known, in order or, as a permutation, in reverse: an
  /// absent attribute of ours.
  bool is_every_axis(const InputRule& rule) const {
    return (rule.attr == "axis" || rule.attr == "perm") && !node_.attrs().find(rule.attr) &&
           !node_.input(0).shape().has_rank();
  }

  Value every_axis(bool in_reverse) {
    const auto number = [&](std::string_view label, int value) {
      return writer_.constant(label, detail::make_scalar(value, int32));
    };
    const Value zero = number("first", 0), one = number("step", 1), rank = writer_.op("Rank", {writer_.in(0)}, int32);
    Value axes = writer_.op("Range", {zero, rank, one}, int32, {{"Tidx", code_of(int32)}}, rule_.op);
    if (!in_reverse) return axes;
    const Value last = writer_.op("Sub", {rank, one});
    return writer_.op("Sub", {last, axes});
  }

  AttrValue attr(std::string_view name) const {
    if (auto value = attr_or_implied(node_, name)) return *value;
    refuse(node_, detail::join("its '", name, "' depends on a shape that is not known yet"));
  }

  void add_input(const InputRule& rule, DType whole_type) {
    if (rule.form == InputRule::Form::input) {
      inputs_.push_back(writer_.in(rule.input).name);
    } else if (rule.form == InputRule::Form::rest) {
      const std::size_t count = rule.attr.empty() ? node_.inputs().size() - rule.input
                                                  : static_cast<std::size_t>(node_.attr<std::int64_t>(rule.attr));
      for (std::size_t i = 0; i < count; ++i) inputs_.push_back(writer_.in(rule.input + i).name);
    } else if (is_every_axis(rule)) {
      inputs_.push_back(every_axis(rule.attr == "perm").name);
      if (!rule.type_attr.empty()) fields_.emplace(rule.type_attr, code_of(int32));
    } else if (rule.form == InputRule::Form::real) {
      const DType dtype = node_.inputs().empty() ? node_.attr<DType>("dtype") : node_.input(0).dtype();
      inputs_.push_back(
          writer_.constant(rule.label, detail::make_scalar(std::get<double>(attr(rule.attr)), dtype)).name);
    } else {
      const std::vector<std::int64_t> numbers = whole_numbers(attr(rule.attr));
      const auto count = static_cast<std::int64_t>(numbers.size());
      const Shape shape = rule.form == InputRule::Form::scalar  ? Shape{}
                          : rule.form == InputRule::Form::pairs ? Shape{count / 2, 2}
                                                                : Shape{count};
      const Tensor value = detail::make_tensor(whole_type, shape, cpu());
      detail::visit_dtype(whole_type, [&]<class T>() {
        std::transform(numbers.begin(), numbers.end(), detail::mutable_data<T>(value),
                       [](std::int64_t n) { return static_cast<T>(n); });
      });
      inputs_.push_back(writer_.constant(rule.label, value).name);
      if (!rule.type_attr.empty()) fields_.emplace(rule.type_attr, code_of(whole_type));
    }
  }

  AttrDef field(const FieldRule& rule) const {
    switch (rule.source) {
      case FieldRule::Source::input_type:
        if (node_.inputs().empty()) return {};
        return code_of((rule.index < 0 ? node_.inputs().back() : node_.input(rule.index)).dtype());
      case FieldRule::Source::output_type:
        return code_of(node_.output().dtype());
      case FieldRule::Source::output_types: {
        ListDef list;
        for (const Tensor& each : node_.outputs()) list.types.push_back(code_of(each.dtype()));
        return list;
      }
      case FieldRule::Source::fixed:
        return rule.value;
      case FieldRule::Source::input_count:
        return static_cast<std::int64_t>(node_.inputs().size());
      case FieldRule::Source::pair_count:
        return static_cast<std::int64_t>(node_.inputs().size() / 2);
      case FieldRule::Source::output_count:
        return static_cast<std::int64_t>(node_.outputs().size());
      case FieldRule::Source::bit:
        return node_.attr<Ints>(rule.attr)[rule.index];
      case FieldRule::Source::attr:
        break;
    }
    const AttrValue* value = node_.attrs().find(rule.attr);
    if (!value) return rule.value;
    if (const auto* real = std::get_if<double>(value)) return static_cast<float>(*real);
    return attr_def(*value);
  }

  /// TensorFlow's real attributes are floats: a hint keeps a number that a float would round.
  void add_reals() {
    for (const Attr& each : node_.attrs())
      if (const auto* real = std::get_if<double>(&each.value); real && static_cast<float>(*real) != *real)
        fields_.emplace(std::string(hint_prefix) + std::string(each.name), attr_def(*real));
  }

  NodeWriter& writer_;
  const Node& node_;
  const OpRule& rule_;
  std::vector<std::string> inputs_;
  FieldList fields_;
};

}  // namespace

void write_by_rule(NodeWriter& writer, const OpRule& rule) { RuleWriter(writer, rule).write(); }

}  // namespace tapestry::io
