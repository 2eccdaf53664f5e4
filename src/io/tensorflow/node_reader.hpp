#pragma once

#include <optional>

#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {

/// What the name of an input, "n" or "n:k", refers to: a node of the file and the number of its output.
struct Source {
  const NodeDef* node = nullptr;
  std::int64_t output = 0;
};

/// Reads a node of the file, and checks it: every function throws InvalidArgumentError when the node is not valid.
class TAPESTRY_API NodeReader {
 public:
  /// `data_inputs`: without the control inputs. `known_values[i]`: the value of input i, which then need not be a
  /// constant of the file; an empty handle, or no element, if it is not known.
  NodeReader(const NodeDef& def, const std::vector<Source>& data_inputs, Tensors known_values = {})
      : def_(def), inputs_(data_inputs), values_(std::move(known_values)) {}

  const NodeDef& def() const { return def_; }
  std::size_t input_count() const { return inputs_.size(); }
  const Source& input(std::size_t i) const { return inputs_[i]; }

  /// The attribute of that name and kind; an absent one throws.
  template <class T>
  const T& attr(std::string_view name) const {
    const T* value = find<T>(name);
    if (!value) refuse_attr(name);
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

  /// The value of an input, which must be known.
  Tensor constant(std::size_t input) const;
  /// Whether the value of an input is known, or is a constant of the file.
  bool is_constant(std::size_t input) const;

  /// The elements of a value that lists sizes, axes or indices. Throws for a longer list than any real graph has.
  std::vector<std::int64_t> listed(const Tensor& value) const;

  /// The rule of the op that the hints name, or nullptr.
  const OpRule* hinted() const;
  /// The attributes of our op: from the hints, or from TensorFlow's op by the rule.
  Attrs hinted_attrs(const OpRule& rule) const;
  Attrs direct_attrs(const OpRule& rule) const;
  /// For each input of our op, its number among TensorFlow's inputs.
  std::vector<std::size_t> direct_inputs(const OpRule& rule) const;
  /// The numbers of TensorFlow's inputs that become our attributes.
  std::vector<std::size_t> attribute_inputs(const OpRule& rule) const;

  [[noreturn]] void refuse(const std::string& problem) const;
  /// The same for an attribute that is absent or of another kind. Throws UnimplementedError for one of too many
  /// dimensions.
  [[noreturn]] void refuse_attr(std::string_view name) const;
  /// Calls f, and adds the node's name to its errors if they lack it.
  template <class F>
  auto blaming(F f) const {
    try {
      return f();
    } catch (const UnimplementedError&) {
      throw;
    } catch (const ResourceExhaustedError&) {
      throw;
    } catch (const DeadlineExceededError&) {
      throw;
    } catch (const Error& error) {
      if (error.message().starts_with("Node '")) throw;
      refuse(error.message());
    }
  }

 private:
  AttrValue from_constant(const InputRule& rule, std::size_t input, const OpAttr& target) const;
  /// The exact value of a real attribute of ours, from its hint: TensorFlow's attribute is only a float.
  std::optional<double> exact_number(std::string_view attr) const;
  double number_of(const TensorDef& tensor, std::string_view name) const;
  /// The value of an attribute whose type only the file tells.
  AttrValue any_value(const AttrDef& value, std::string_view name) const;
  std::optional<AttrValue> from_field(const FieldRule& rule, const OpAttr& target) const;
  Attrs checked(const OpRule& rule, std::vector<Attr> attrs) const;
  std::size_t place_of(const OpRule& rule, std::size_t rule_index) const;

  const NodeDef& def_;
  const std::vector<Source>& inputs_;
  Tensors values_;
};

}  // namespace tapestry::io
