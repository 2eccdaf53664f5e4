#pragma once

#include <optional>

#include "io/op_rules.hpp"

namespace tapestry::io {

/// Finds a node of the file and the number of its output by the name of an input: "n", "n:k".
struct Source {
  const NodeDef* node = nullptr;
  std::int64_t output = 0;
};

/// What a node of the file says, checked: every function throws InvalidArgumentError where the node lies.
class NodeReader {
 public:
  /// `data_inputs`: without the control inputs.
  NodeReader(const NodeDef& def, const std::vector<Source>& data_inputs) : def_(def), inputs_(data_inputs) {}

  const NodeDef& def() const { return def_; }

  /// The attribute of that name and kind; an absent one throws.
  template <class T>
  const T& attr(std::string_view name) const {
    const T* value = find<T>(name);
    if (!value) refuse(detail::join("it has no attribute '", name, "' of the type that is due"));
    return *value;
  }
  template <class T>
  T attr_or(std::string_view name, T otherwise) const {
    const auto found = def_.attrs.find(name);
    return found == def_.attrs.end() ? otherwise : attr<T>(name);
  }
  template <class T>
  const T* find(std::string_view name) const {
    const auto found = def_.attrs.find(name);
    return found == def_.attrs.end() ? nullptr : std::get_if<T>(&found->second);
  }
  DType type(std::string_view name) const;

  /// The value of an input, which must be a constant.
  Tensor constant(std::size_t input) const;

  /// What the hints say the node was, or nullptr.
  const OpRule* hinted() const;
  /// The attributes of our op, by the hints or by the rule.
  Attrs hinted_attrs(const OpRule& rule) const;
  Attrs direct_attrs(const OpRule& rule) const;
  /// The numbers of our op's inputs among TensorFlow's.
  std::vector<std::size_t> direct_inputs(const OpRule& rule) const;

  [[noreturn]] void refuse(const std::string& problem) const;

 private:
  AttrValue from_constant(const InputRule& rule, std::size_t input, const AttrRule& target) const;
  std::optional<AttrValue> from_field(const FieldRule& rule, const AttrRule& target) const;
  void check_list(const AttrRule& rule, const AttrValue& value) const;
  Attrs checked(const OpRule& rule, std::vector<Attr> attrs) const;
  std::size_t place_of(const OpRule& rule, std::size_t rule_index) const;

  const NodeDef& def_;
  const std::vector<Source>& inputs_;
};

}  // namespace tapestry::io
