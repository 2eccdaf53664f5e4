#pragma once

#include <string_view>
#include <vector>

#include "graph/graph_state.hpp"
#include "io/tensorflow/graph_def.hpp"

/// How each op is written as TensorFlow's, and read. Where TensorFlow has an op of the same meaning, one description
/// serves both directions. Every other op is written as a small graph of TensorFlow's ops: as its composition, or by
/// the table's `expand` function. The last node of this graph has the name of our node. Its hints, attributes that
/// TensorFlow ignores because they begin with '_', tell what the op was, so that Tapestry reads back what it wrote, bit
/// for bit.

namespace tapestry::io {

class NodeWriter;

/// An input of TensorFlow's op: one of ours, or a constant that holds one of our attributes.
struct InputRule {
  enum class Form : std::uint8_t { input, rest, scalar, vector, pairs, real };
  Form form;
  int input = 0;                    ///< Form::input: which of ours; Form::rest: the first of all that remain
  std::string_view attr = {};       ///< our attribute, for a constant; Form::rest: of their number, unless all remain
  std::string_view label = {};      ///< the constant's name is "<node>/<label>"
  std::string_view type_attr = {};  ///< TensorFlow's attribute that tells the constant's type
};

/// An attribute of TensorFlow's op.
struct FieldRule {
  enum class Source : std::uint8_t {
    input_type,
    output_type,
    output_types,
    attr,
    bit,
    fixed,
    input_count,
    pair_count,
    output_count
  };
  std::string_view name;
  Source source;
  int index = 0;               ///< of the input, output or element
  std::string_view attr = {};  ///< our attribute
  AttrDef value = {};          ///< the fixed value, or that which an absent attribute stands for
};

inline constexpr int any_number = -1;   ///< of inputs, from 1 on
inline constexpr int none_or_one = -2;  ///< a shape from an input, or from the attributes

struct OpRule {
  std::string_view op;               ///< our op
  int inputs = 0;                    ///< the number of its inputs, or one of the constants above
  std::string_view tensorflow = {};  ///< TensorFlow's op of the same meaning; empty: there is none
  std::vector<InputRule> input_rules = {};
  std::vector<FieldRule> fields = {};
  std::vector<Attr> implied = {};                     ///< our attributes that TensorFlow's op does not have
  bool (*is_direct)(const detail::Node&) = nullptr;   ///< whether TensorFlow's op can do the same; nullptr: always
  void (*expand)(NodeWriter&) = nullptr;              ///< writes the node otherwise; nullptr: its composition does
  bool (*asks_ranks)(const detail::Node&) = nullptr;  ///< whether `expand` asks for the inputs' ranks; nullptr: never
  const Op* entry = nullptr;                          ///< our op
  bool by_entry = false;  ///< made from the entry alone; hints then keep reals that a float would round
};

/// The rule of a registered op. By default, an op is written as its composition, if it has one, and otherwise as
/// TensorFlow's op of the same name, with "T" and the attributes that our entry declares. nullptr for state ops, and
/// for ops with attributes that only a program has, such as functions.
TAPESTRY_API const OpRule* rule_of(std::string_view op);
/// Whether our op has that number of inputs.
bool takes(const OpRule& rule, std::size_t inputs);
/// Whether a node is written as the rule's op of TensorFlow's, and not as several.
bool is_written_directly(const OpRule& rule, const detail::Node& node);
/// Whether a node cannot be written before the ranks of its inputs are known.
TAPESTRY_API bool lacks_ranks(const detail::Node& node);
/// The rule by which an op of TensorFlow's is read directly, or nullptr.
const OpRule* rule_of_tensorflow(std::string_view op);

/// Whether an op is a state op: Const, Placeholder, NoOp, one that reads or changes Variables, one that runs functions
/// of a graph, or a collective. graph_export.cpp writes these and graph_import.cpp reads them, without rules; a
/// collective is no part of a file, which does not know the ranks.
bool is_state_op(std::string_view op);

/// The attribute of a node. For an absent one the value that it stands for, if the shapes tell it: "axis": all axes,
/// "perm": the reversed permutation, "k": the size of the last axis.
TAPESTRY_API std::optional<AttrValue> attr_or_implied(const detail::Node& node, std::string_view name);

/// The names of the hints.
inline constexpr std::string_view hint_op = "_tapestry_op", hint_inputs = "_tapestry_inputs",
                                  hint_prefix = "_tapestry.", hint_numbers = "_tapestry_numbers",
                                  hint_not_trainable = "_tapestry_not_trainable", hint_any_sum = "_tapestry_any_sum";

}  // namespace tapestry::io
