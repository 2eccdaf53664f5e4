#include "io/tensorflow/node_reader.hpp"

#include <algorithm>

#include "dispatch/declaration.hpp"
#include "io/tensorflow/updates.hpp"

namespace tapestry::io {

namespace {

/// The limit of a list. A constant that repeats one element is small in a file, but the list of its elements is not.
constexpr std::int64_t most_listed = std::int64_t{1} << 20;

/// The value of a Const of a type that Tapestry has; nullptr for any other node.
const TensorDef* constant_of(const NodeDef& def) {
  const auto value = def.attrs.find("value");
  return def.op == "Const" && value != def.attrs.end() ? std::get_if<TensorDef>(&value->second) : nullptr;
}

bool may_lack_inputs(const OpRule& rule) { return rule.inputs == 0 || rule.inputs == none_or_one; }

}  // namespace

void NodeReader::refuse(const std::string& problem) const {
  throw InvalidArgumentError(detail::join("Node '", def_.name, "' (op: '", def_.op, "'): ", problem));
}

void NodeReader::refuse_attr(std::string_view name) const {
  if (const auto* raw = find<RawAttr>(name); raw && raw->lacks_rank)
    throw UnimplementedError(detail::join("Node '", def_.name, "' (op: '", def_.op, "'): its '", name,
                                          "' has more than ", Shape::max_rank, " dimensions"));
  refuse(detail::join("it has no attribute '", name, "' of the type that is due"));
}

DType NodeReader::type(std::string_view name) const {
  const TypeCode code = attr<TypeCode>(name);
  const DType dtype = dtype_of(code);
  if (size_of(dtype) == 0)
    throw UnimplementedError(detail::join("Node '", def_.name, "' (op: '", def_.op,
                                          "'): Tapestry lacks TensorFlow's type ", type_name(code)));
  return dtype;
}

Tensor NodeReader::constant(std::size_t input) const {
  if (input >= inputs_.size()) refuse(detail::join("it has no input ", input));
  if (input < values_.size() && bool(values_[input])) return values_[input];
  const NodeDef* node = inputs_[input].node;
  const TensorDef* tensor = constant_of(*node);
  if (!tensor)
    throw UnimplementedError(detail::join("Node '", def_.name, "' (op: '", def_.op, "'): input ", input, ", '",
                                          node->name, "', must be a constant"));
  return tensor->value;
}

bool NodeReader::is_constant(std::size_t input) const {
  if (input >= inputs_.size()) return false;
  return (input < values_.size() && bool(values_[input])) || (inputs_[input].node && constant_of(*inputs_[input].node));
}

std::vector<std::int64_t> NodeReader::listed(const Tensor& value) const {
  if (value.size() > most_listed) refuse(detail::join("it is told a list of ", value.size(), " numbers"));
  return value.to_vector<std::int64_t>();
}

// ---- By hints -----------------------------------------------------------------------------------------------------------

const OpRule* NodeReader::hinted() const {
  const auto* op = find<std::string>(hint_op);
  if (!op || update_rule_of(*op)) return nullptr;
  const OpRule* rule = rule_of(*op);
  if (!rule || !(rule->expand || rule->entry->composition || rule->tensorflow == def_.op))
    refuse(detail::join("the hint names the op '", *op, "', which is not written with hints"));
  return rule;
}

Attrs NodeReader::hinted_attrs(const OpRule& rule) const {
  std::vector<Attr> attrs;
  for (const OpAttr& each : rule.entry->attrs) {
    const std::string name = std::string(hint_prefix) + std::string(each.name);
    if (def_.attrs.find(name) == def_.attrs.end()) continue;
    switch (each.kind) {
      case AttrKind::flag:
        attrs.emplace_back(each.name, attr<bool>(name));
        break;
      case AttrKind::number:
        attrs.emplace_back(each.name, attr<std::int64_t>(name));
        break;
      case AttrKind::real:
        attrs.emplace_back(each.name, *exact_number(each.name));
        break;
      case AttrKind::type:
        attrs.emplace_back(each.name, type(name));
        break;
      case AttrKind::device:
        attrs.emplace_back(each.name, Device(attr<std::string>(name)));
        break;
      case AttrKind::numbers: {
        const std::vector<std::int64_t>& list = attr<ListDef>(name).ints;
        attrs.emplace_back(each.name, Ints(list));
        break;
      }
      case AttrKind::shape:
        attrs.emplace_back(each.name, attr<Shape>(name));
        break;
      case AttrKind::text:
        attrs.emplace_back(each.name, attr<std::string>(name));
        break;
      case AttrKind::any:
        attrs.emplace_back(each.name, any_value(def_.attrs.at(name), name));
        break;
      default:
        refuse(detail::join(name, " is no part of a file"));
    }
  }
  return checked(rule, std::move(attrs));
}

// ---- By the rule --------------------------------------------------------------------------------------------------------

std::size_t NodeReader::place_of(const OpRule& rule, std::size_t rule_index) const {
  const auto rest = std::find_if(rule.input_rules.begin(), rule.input_rules.end(),
                                 [](const InputRule& each) { return each.form == InputRule::Form::rest; });
  const auto rest_index = static_cast<std::size_t>(rest - rule.input_rules.begin());
  if (rest == rule.input_rules.end() || rule_index <= rest_index) return rule_index;
  return inputs_.size() - (rule.input_rules.size() - rule_index);
}

std::vector<std::size_t> NodeReader::direct_inputs(const OpRule& rule) const {
  const bool has_rest = std::any_of(rule.input_rules.begin(), rule.input_rules.end(),
                                    [](const InputRule& each) { return each.form == InputRule::Form::rest; });
  const std::size_t due = rule.input_rules.size();
  if (has_rest ? inputs_.size() < due : inputs_.size() != due)
    refuse(detail::join("it has ", inputs_.size(), " inputs; ", has_rest ? "at least " : "", due, " are due"));
  std::vector<std::pair<int, std::size_t>> places;
  for (std::size_t i = 0; i < due; ++i) {
    const InputRule& each = rule.input_rules[i];
    if (each.form == InputRule::Form::input) places.emplace_back(each.input, place_of(rule, i));
    if (each.form == InputRule::Form::rest)
      for (std::size_t k = 0; k <= inputs_.size() - due; ++k)
        places.emplace_back(each.input + static_cast<int>(k), i + k);
  }
  std::sort(places.begin(), places.end());
  std::vector<std::size_t> result;
  result.reserve(places.size());
  for (const auto& [ours, theirs] : places) result.push_back(theirs);
  return result;
}

std::vector<std::size_t> NodeReader::attribute_inputs(const OpRule& rule) const {
  const std::vector<std::size_t> direct = direct_inputs(rule);
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (std::find(direct.begin(), direct.end(), i) == direct.end()) others.push_back(i);
  return others;
}

AttrValue NodeReader::from_constant(const InputRule& rule, std::size_t input, const OpAttr& target) const {
  const Tensor value = constant(input);
  const auto bad = [&] {
    refuse(detail::join("its constant '", rule.label, "' is ", to_string(value.dtype()), value.shape()));
  };
  if (rule.form == InputRule::Form::real) {
    if (value.size() != 1) bad();
    return value.item<double>();
  }
  const bool pairs = rule.form == InputRule::Form::pairs;
  if (value.dtype() != int32 && value.dtype() != int64) bad();
  if (pairs ? value.rank() != 2 || value.shape().sizes()[1] != 2 : value.rank() > 1) bad();
  const std::vector<std::int64_t> numbers = listed(value);
  if (target.kind == AttrKind::number) {
    if (numbers.size() != 1) bad();
    return numbers[0];
  }
  if (target.kind == AttrKind::shape) return Shape(numbers);
  return Ints(numbers);
}

std::optional<AttrValue> NodeReader::from_field(const FieldRule& rule, const OpAttr& target) const {
  const auto given = def_.attrs.find(rule.name);
  const AttrDef& value = given == def_.attrs.end() ? rule.value : given->second;
  if (target.optional && std::holds_alternative<std::monostate>(value)) return {};
  const auto as = [&]<class T>() -> const T& {
    const T* typed = std::get_if<T>(&value);
    if (!typed) refuse_attr(rule.name);
    return *typed;
  };
  switch (target.kind) {
    case AttrKind::flag:
      return as.template operator()<bool>();
    case AttrKind::number:
      return as.template operator()<std::int64_t>();
    case AttrKind::real:
      if (const auto exact = exact_number(rule.attr)) return *exact;
      return static_cast<double>(as.template operator()<float>());
    case AttrKind::type:
      return type(rule.name);
    case AttrKind::text:
      return as.template operator()<std::string>();
    case AttrKind::numbers: {
      const Ints list(as.template operator()<ListDef>().ints);
      // An empty list of TensorFlow's is an absent attribute of ours.
      if (list.empty() && target.optional && target.name == "axis") return {};
      return list;
    }
    case AttrKind::shape:
      return as.template operator()<Shape>();
    case AttrKind::device:
      return Device(as.template operator()<std::string>());
    case AttrKind::any:
      return any_value(value, rule.name);
    default:
      refuse(detail::join("its '", rule.name, "' is no part of a file"));
  }
}

std::optional<double> NodeReader::exact_number(std::string_view attr) const {
  const auto found = def_.attrs.find(std::string(hint_prefix) + std::string(attr));
  if (found == def_.attrs.end()) return {};
  return number_of(this->attr<TensorDef>(found->first), found->first);
}

double NodeReader::number_of(const TensorDef& tensor, std::string_view name) const {
  if (!tensor.value || tensor.value.dtype() != float64 || tensor.value.size() != 1)
    refuse(detail::join(name, " is no number"));
  return tensor.value.item<double>();
}

AttrValue NodeReader::any_value(const AttrDef& value, std::string_view name) const {
  return std::visit(
      [&]<class T>(const T& each) -> AttrValue {
        if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, Shape> ||
                      std::is_same_v<T, std::string>) {
          return each;
        } else if constexpr (std::is_same_v<T, float>) {
          const auto exact = exact_number(name);
          return exact ? *exact : each;
        } else if constexpr (std::is_same_v<T, TypeCode>) {
          return type(name);
        } else if constexpr (std::is_same_v<T, ListDef>) {
          return Ints(each.ints);
        } else if constexpr (std::is_same_v<T, TensorDef>) {
          return number_of(each, name);
        } else {
          if constexpr (std::is_same_v<T, RawAttr>)
            if (each.lacks_rank) refuse_attr(name);
          refuse(detail::join("its '", name, "' is of a type that no attribute has"));
        }
      },
      value);
}

Attrs NodeReader::direct_attrs(const OpRule& rule) const {
  std::vector<Attr> attrs = rule.implied;
  const auto target_of = [&](std::string_view name) { return find_attr(*rule.entry, name); };
  for (std::size_t i = 0; i < rule.input_rules.size(); ++i) {
    const InputRule& each = rule.input_rules[i];
    if (const OpAttr* target = target_of(each.attr))
      attrs.emplace_back(target->name, from_constant(each, place_of(rule, i), *target));
  }
  Ints bits;
  std::string_view bits_name;
  for (const FieldRule& each : rule.fields) {
    const auto given = def_.attrs.find(each.name);
    if (each.source == FieldRule::Source::bit) {
      bits_name = each.attr;
      bits.push_back(attr_or<std::int64_t>(each.name, 0));
    } else if (each.source == FieldRule::Source::attr) {
      const OpAttr& target = *target_of(each.attr);
      if (auto value = from_field(each, target)) attrs.emplace_back(target.name, std::move(*value));
    } else if (each.source == FieldRule::Source::fixed && given != def_.attrs.end()) {
      const bool same = std::visit(
          [&]<class T>(const T& due) {
            if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, bool> ||
                          std::is_same_v<T, std::int64_t>) {
              const T* value = std::get_if<T>(&given->second);
              // Seeds are ignored: the random numbers of two libraries differ anyway.
              return (value && *value == due) || each.name.starts_with("seed");
            } else {
              return true;
            }
          },
          each.value);
      if (!same)
        throw UnimplementedError(
            detail::join("Node '", def_.name, "' (op: '", def_.op, "'): Tapestry lacks its '", each.name, "'"));
    }
  }
  if (!bits.empty()) attrs.emplace_back(bits_name, bits);
  return checked(rule, std::move(attrs));
}

// ---- Checks -------------------------------------------------------------------------------------------------------------

Attrs NodeReader::checked(const OpRule& rule, std::vector<Attr> attrs) const {
  const auto find = [&](std::string_view name) {
    return std::find_if(attrs.begin(), attrs.end(), [&](const Attr& each) { return each.name == name; });
  };
  for (const OpAttr& each : rule.entry->attrs) {
    const auto found = find(each.name);
    if (found != attrs.end()) {
      if (const auto problem = problem_of(each, found->value)) refuse(detail::join("its '", each.name, "' ", *problem));
    } else if (!each.optional) {
      refuse(detail::join("it does not tell its '", each.name, "'"));
    }
  }
  // Without an input, no size may be unknown.
  if (const auto shape = find("shape"); shape != attrs.end() && may_lack_inputs(rule))
    if (const auto* sizes = std::get_if<Shape>(&shape->value); sizes && !sizes->is_known())
      refuse(detail::join("its shape is ", *sizes));
  // The lists of an index expression must have the same length.
  if (const auto strides = find("strides"); strides != attrs.end() && find("masks") != attrs.end()) {
    const auto size = [&](std::string_view name) {
      const auto list = find(name);
      return list == attrs.end() ? 0 : std::get<Ints>(list->value).size();
    };
    if (size("begin") != size("strides") || size("end") != size("strides") || size("begin") > 2 * Shape::max_rank + 1)
      refuse("its begin, end and strides do not fit together");
  }
  return Attrs(attrs);
}

}  // namespace tapestry::io
