#pragma once

#include <string_view>
#include <vector>

#include "graph/graph_state.hpp"
#include "io/tensorflow/graph_def.hpp"

/// How each op is written as TensorFlow's, and read. Where TensorFlow has an op of the same meaning, one description
/// serves both directions. Every other op is written as a small graph of TensorFlow's ops, its composition or what the
/// table says, whose last node has the op's own name; hints, attributes that TensorFlow passes over because they begin
/// with '_', tell what the op was, so that Tapestry reads back what it wrote, bit for bit.

namespace tapestry::io {

class NodeWriter;

/// An input of TensorFlow's op: one of ours, or a constant that holds one of our attributes.
struct InputRule {
  enum class Form : std::uint8_t { input, rest, scalar, vector, pairs, real };
  Form form;
  int input = 0;                    ///< Form::input: our number; Form::rest: the first of all that remain
  std::string_view attr = {};       ///< ours, for a constant
  std::string_view label = {};      ///< the constant's name is "<node>/<label>"
  std::string_view type_attr = {};  ///< TensorFlow's attribute that tells the constant's type
};

/// An attribute of TensorFlow's op.
struct FieldRule {
  enum class Source : std::uint8_t { input_type, output_type, attr, bit, fixed, input_count, output_count };
  std::string_view name;
  Source source;
  int index = 0;               ///< of the input, output or element
  std::string_view attr = {};  ///< ours
  AttrDef value = {};          ///< the fixed one, or what an absent one stands for
};

inline constexpr int any_number = -1;   ///< of inputs, from 1 on
inline constexpr int none_or_one = -2;  ///< a shape from an input, or from the attributes

struct OpRule {
  std::string_view op;               ///< ours
  int inputs = 0;                    ///< ours: how many, or one of the constants above
  std::string_view tensorflow = {};  ///< its op of the same meaning; empty: there is none
  std::vector<InputRule> input_rules = {};
  std::vector<FieldRule> fields = {};
  std::vector<Attr> implied = {};                    ///< our attributes that TensorFlow's op does not have
  bool (*is_direct)(const detail::Node&) = nullptr;  ///< whether TensorFlow's op serves; nullptr: always
  void (*expand)(NodeWriter&) = nullptr;             ///< otherwise; nullptr: the op's composition, if it has one
  const Op* entry = nullptr;                         ///< ours
  bool by_entry = false;  ///< made from the entry alone: then hints keep the digits of a real that a float has not
};

/// The rule of a registered op: that of the table; by default it is TensorFlow's op of that name, with "T" and the
/// attributes that its entry declares, or its composition where it has one. nullptr for what keeps a program's state.
const OpRule* rule_of(std::string_view op);
/// The rule by which an op of TensorFlow's is read directly, or nullptr.
const OpRule* rule_of_tensorflow(std::string_view op);

/// Ops that are written and read by their meaning for Variables (see graph_export.cpp), not by a rule.
bool is_state_op(std::string_view op);

/// The attribute of a node, or what its absence stands for as far as the shapes tell: all axes, the reversed
/// permutation, the whole last axis.
std::optional<AttrValue> attr_or_implied(const detail::Node& node, std::string_view name);

/// The names of the hints.
inline constexpr std::string_view hint_op = "_tapestry_op", hint_inputs = "_tapestry_inputs",
                                  hint_prefix = "_tapestry.", hint_numbers = "_tapestry_numbers",
                                  hint_not_trainable = "_tapestry_not_trainable";

}  // namespace tapestry::io
