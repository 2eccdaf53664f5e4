#include <algorithm>
#include <charconv>

#include "backend/program.hpp"
#include "tapestry/op.hpp"

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

}  // namespace tapestry
