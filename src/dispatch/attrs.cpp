#include <algorithm>
#include <charconv>
#include <limits>

#include "backend/program.hpp"
#include "dispatch/declaration.hpp"

namespace tapestry {
namespace {

std::string text_of(double value) {
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() ? std::string(digits.data(), end) : "?";
}

std::string text_of(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::remove_cvref_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) {
          return v ? "true" : "false";
        } else if constexpr (std::is_same_v<T, double>) {
          return text_of(v);
        } else if constexpr (std::is_same_v<T, Ints>) {
          std::string list = "[";
          for (const std::int64_t each : v) list += (list.size() > 1 ? "," : "") + std::to_string(each);
          return list + "]";
        } else if constexpr (std::is_same_v<T, std::string>) {
          return "\"" + v + "\"";
        } else if constexpr (std::is_same_v<T, Closure>) {
          return "function";
        } else if constexpr (std::is_same_v<T, Tensor>) {
          return detail::join("tensor ", to_string(v.dtype()), v.shape());
        } else if constexpr (std::is_same_v<T, VariablesRef>) {
          return "variables";
        } else if constexpr (std::is_same_v<T, ProgramRef>) {
          return to_string(*v);
        } else if constexpr (std::is_same_v<T, FunctionsRef>) {
          return "functions";
        } else if constexpr (std::is_same_v<T, CommunicatorRef>) {
          return "communicator";
        } else {
          using std::to_string;
          return to_string(v);
        }
      },
      value);
}

}  // namespace

Attrs::Attrs(std::initializer_list<Attr> items)
    : list_(items.size() == 0 ? nullptr : std::make_shared<const SmallVector<Attr, 2>>(items)) {}

Attrs::Attrs(const std::vector<Attr>& items)
    : list_(items.empty() ? nullptr : std::make_shared<const SmallVector<Attr, 2>>(items)) {}

const AttrValue* Attrs::find(std::string_view name) const {
  const Attr* attr = std::find_if(begin(), end(), [&](const Attr& each) { return each.name == name; });
  return attr == end() ? nullptr : &attr->value;
}

void Attrs::throw_missing(std::string_view name) {
  throw NotFoundError(detail::join("No attr named '", name, "' of the type asked for"));
}

bool operator==(const Attrs& a, const Attrs& b) {
  const auto same_value = []<class T>(const T& x, const T& y) {
    if constexpr (std::is_same_v<T, Tensor>) {
      return x.is(y);
    } else {
      return x == y;
    }
  };
  return a.list_ == b.list_ || std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Attr& x, const Attr& y) {
           return x.name == y.name && x.value.index() == y.value.index() &&
                  std::visit(
                      [&](const auto& value) {
                        return same_value(value, std::get<std::remove_cvref_t<decltype(value)>>(y.value));
                      },
                      x.value);
         });
}

std::string to_string(const Attrs& attrs) {
  std::string text;
  for (const Attr& attr : attrs)
    text += (text.empty() ? "" : ", ") + std::string(attr.name) + "=" + text_of(attr.value);
  return text;
}

// ---- Declarations ---------------------------------------------------------------------------------------------------

namespace {

/// One for each AttrKind.
constexpr std::array kind_names{
    "a bool",   "a whole number", "a number", "a dtype",   "a device",  "whole numbers",        "a shape",
    "a text",   "a function",     "a tensor", "Variables", "a program", "functions of a graph", "a communicator",
    "any value"};
static_assert(kind_names.size() == std::size_t{1} + static_cast<std::size_t>(AttrKind::any));
static_assert(std::variant_size_v<AttrValue> == static_cast<std::size_t>(AttrKind::any));

const char* name_of_kind(AttrKind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

/// Arbitrary attributes of an elementwise op, to ask for its function. The number of the function's operands does not
/// depend on their values.
Attrs any_attrs(const Op& op) {
  std::vector<Attr> attrs;
  for (const OpAttr& each : op.attrs) {
    if (each.kind == AttrKind::flag) attrs.emplace_back(each.name, false);
    if (each.kind == AttrKind::number) attrs.emplace_back(each.name, std::int64_t{0});
    if (each.kind == AttrKind::real) attrs.emplace_back(each.name, 0.0);
  }
  return Attrs(attrs);
}

bool is_of_kind(const OpAttr& attr, const AttrValue& value) {
  return attr.kind == AttrKind::any || static_cast<std::size_t>(attr.kind) == value.index();
}

}  // namespace

std::optional<int> input_count(const Op& op) {
  if (!op.forward.is_elementwise()) return {};
  return operands_of(op.forward.elementwise(Call(op, {}, any_attrs(op), {})).function);
}

const OpAttr* find_attr(const Op& op, std::string_view name) {
  const auto found =
      std::find_if(op.attrs.begin(), op.attrs.end(), [&](const OpAttr& each) { return each.name == name; });
  return found == op.attrs.end() ? nullptr : &*found;
}

std::optional<std::string> problem_of(const OpAttr& attr, const AttrValue& value) {
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  std::optional<std::string> problem;
  const auto check = [&](std::int64_t number) {
    if (attr.small && (number < -limit || number > limit)) problem = detail::join("has the element ", number);
  };
  if (const auto* number = std::get_if<std::int64_t>(&value)) check(*number);
  if (const auto* list = std::get_if<Ints>(&value)) {
    if (attr.count >= 0 && static_cast<int>(list->size()) != attr.count)
      return detail::join("has ", list->size(), " elements");
    std::for_each(list->begin(), list->end(), check);
  }
  return problem;
}

const OpAttr* missing_attr(const Op& op, const Attrs& attrs) {
  const auto found = std::find_if(op.attrs.begin(), op.attrs.end(),
                                  [&](const OpAttr& each) { return !each.optional && !attrs.find(each.name); });
  return found == op.attrs.end() ? nullptr : &*found;
}

Attrs checked_attrs(const Op& op, const Attrs& attrs, Where where) {
  std::vector<Attr> changed;
  for (const Attr& each : attrs) {
    const OpAttr* declared = find_attr(op, each.name);
    if (!declared) {
      std::string known;
      for (const OpAttr& attr : op.attrs) known.append(known.empty() ? "; it has " : ", ").append(attr.name);
      throw InvalidArgumentError(detail::join("Op ", op.name, " has no attribute '", each.name, "'", known), where);
    }
    if (const auto* whole = std::get_if<std::int64_t>(&each.value); whole && declared->kind == AttrKind::real) {
      if (changed.empty()) changed.assign(attrs.begin(), attrs.end());
      changed[static_cast<std::size_t>(&each - attrs.begin())].value = static_cast<double>(*whole);
      continue;
    }
    if (!is_of_kind(*declared, each.value))
      throw NotFoundError(detail::join("The attribute '", each.name, "' must be ", name_of_kind(declared->kind),
                                       ", but is ", name_of_kind(static_cast<AttrKind>(each.value.index()))),
                          op.name, where);
    if (const auto problem = problem_of(*declared, each.value))
      throw InvalidArgumentError(detail::join("The attribute '", each.name, "' ", *problem), op.name, where);
  }
  if (const OpAttr* missing = missing_attr(op, attrs))
    throw NotFoundError(
        detail::join("The attribute '", missing->name, "' is missing, which is ", name_of_kind(missing->kind)), op.name,
        where);
  return changed.empty() ? attrs : Attrs(changed);
}

}  // namespace tapestry
