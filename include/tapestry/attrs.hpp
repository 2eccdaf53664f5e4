#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tapestry/tensor.hpp"

namespace tapestry {

/// @addtogroup extending
/// @{

class Variable;
struct Program;
namespace detail {
class Collectives;
struct GraphFunction;
}  // namespace detail

/// A function as the value of an attribute: the gradient of `custom_gradient`, or the body of `recompute`.
using Closure = std::shared_ptr<const std::function<Tensors(const Tensors&)>>;

/// Variables as the value of an attribute, for ops that read or change them.
using VariablesRef = std::shared_ptr<const std::vector<Variable>>;

/// Several elementwise functions as the value of an attribute, for the op that replaces fused ops in a plan.
using ProgramRef = std::shared_ptr<const Program>;

/// Functions of a graph as the value of an attribute, for ops that run them: branches, and the bodies of loops.
using FunctionsRef = std::shared_ptr<const std::vector<detail::GraphFunction>>;

/// The ranks among which an op communicates, as the value of an attribute.
using CommunicatorRef = std::shared_ptr<detail::Collectives>;

/// The value of an op's attribute.
using AttrValue = std::variant<bool, std::int64_t, double, DType, Device, Ints, Shape, std::string, Closure, Tensor,
                               VariablesRef, ProgramRef, FunctionsRef, CommunicatorRef>;

/// An argument of an op that is not a tensor: `{"axis", 1}`.
struct Attr {
  /// No argument: without a name.
  Attr() = default;
  /// An argument of that name and value.
  Attr(std::string_view attr, AttrValue its) : name(attr), value(std::move(its)) {}
  /// The same of a literal, which would do for a Device, too.
  template <std::size_t size>
  Attr(std::string_view attr, const char (&text)[size]) : name(attr), value(std::string(text)) {}

  std::string_view name;  ///< a literal or an interned string, which is never freed
  AttrValue value;        ///< the value
};

/// An op's attributes: a short immutable list of named values. Copies share it.
class TAPESTRY_API Attrs {
 public:
  /// No attributes.
  Attrs() = default;
  /// Attributes in this order.
  /// @{
  Attrs(std::initializer_list<Attr> items);
  explicit Attrs(const std::vector<Attr>& items);
  /// @}

  /// The value of an attribute. Throws NotFoundError when there is no attribute of that name and type.
  template <class T>
  const T& get(std::string_view name) const {
    const T* value = find<T>(name);
    if (!value) throw_missing(name);
    return *value;
  }
  /// The same, but nullptr when there is no attribute of that name. Throws NotFoundError when it has another type.
  template <class T>
  const T* find(std::string_view name) const {
    const AttrValue* value = find(name);
    const T* typed = value ? std::get_if<T>(value) : nullptr;
    if (value && !typed) throw_missing(name);
    return typed;
  }
  /// The value of an attribute of any type, or nullptr when there is no attribute of that name.
  const AttrValue* find(std::string_view name) const;
  /// The attributes in the order in which they were given.
  /// @{
  const Attr* begin() const { return list_ ? list_->data() : nullptr; }
  const Attr* end() const { return list_ ? list_->data() + list_->size() : nullptr; }
  /// @}
  /// Whether there are no attributes.
  bool empty() const { return !list_; }
  /// Whether both have the same names with the same values in the same order. Two tensors are the same value only if
  /// they are handles to one tensor.
  friend bool operator==(const Attrs& a, const Attrs& b);

 private:
  [[noreturn]] static void throw_missing(std::string_view name);
  std::shared_ptr<const SmallVector<Attr, 2>> list_;
};
/// Names and values as text: "transpose_a=true, axis=[0,1]".
TAPESTRY_API std::string to_string(const Attrs& attrs);

/// The type of an attribute's value. The types are those of AttrValue, in the same order.
enum class AttrKind : std::uint8_t {
  flag,          ///< bool
  number,        ///< std::int64_t
  real,          ///< double; a whole number is taken as one
  type,          ///< DType
  device,        ///< Device
  numbers,       ///< Ints
  shape,         ///< Shape
  text,          ///< std::string
  function,      ///< Closure
  tensor,        ///< Tensor
  variables,     ///< VariablesRef
  program,       ///< ProgramRef
  functions,     ///< FunctionsRef
  communicator,  ///< CommunicatorRef
  any,           ///< any of these types
};

/// The declaration of an attribute that an op may have. `apply_op`, every call of an op from outside the library and
/// the reader of TensorFlow's files check the attributes that they are given against it.
struct OpAttr {
  /// An optional attribute of any kind, as in `.attrs = {"axis"}`.
  /// @{
  constexpr OpAttr(const char* known_name) : name(known_name) {}       // NOLINT(google-explicit-constructor)
  constexpr OpAttr(std::string_view known_name) : name(known_name) {}  // NOLINT(google-explicit-constructor)
  /// @}
  /// An attribute of one kind, which by default is required.
  constexpr OpAttr(std::string_view known_name, AttrKind its_kind, bool may_lack = false, int elements = -1,
                   bool is_small = false)
      : name(known_name), kind(its_kind), optional(may_lack), count(elements), small(is_small) {}

  /// The name: a literal, or another string that is never freed.
  std::string_view name;
  /// The type of the value.
  AttrKind kind = AttrKind::any;
  /// Whether a call may lack the attribute.
  bool optional = true;
  /// The number of elements that a list must have; -1 for any number.
  int count = -1;
  /// Whether each element must fit 32 bits, so that sums and products of a few elements fit 64 bits.
  bool small = false;
};

/// @}

}  // namespace tapestry
