#include "fuzz/wire_damage.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace tapestry::test {
namespace {

/// Which fields of a message are messages themselves.
struct Layout {
  std::vector<std::pair<std::uint64_t, const Layout*>> messages{};

  const Layout* of(std::uint64_t field) const {
    for (const auto& [known, layout] : messages)
      if (known == field) return layout;
    return nullptr;
  }
};

const Layout plain_layout{};
const Layout shape_layout{.messages = {{2, &plain_layout}}};
const Layout tensor_layout{.messages = {{2, &shape_layout}}};
const Layout list_layout{.messages = {{7, &shape_layout}, {8, &tensor_layout}}};
const Layout value_layout{.messages = {{1, &list_layout}, {7, &shape_layout}, {8, &tensor_layout}}};
const Layout attr_layout{.messages = {{2, &value_layout}}};
const Layout node_layout{.messages = {{5, &attr_layout}}};
const Layout arg_layout{.messages = {{7, &shape_layout}}};
const Layout signature_layout{.messages = {{2, &arg_layout}, {3, &arg_layout}, {4, &attr_layout}}};
const Layout function_layout{.messages = {{1, &signature_layout},
                                          {3, &node_layout},
                                          {4, &plain_layout},
                                          {5, &attr_layout},
                                          {6, &plain_layout},
                                          {7, &attr_layout}}};
const Layout library_layout{.messages = {{1, &function_layout}, {3, &plain_layout}}};
const Layout graph_layout{.messages = {{1, &node_layout}, {2, &library_layout}}};
const Layout slice_layout{.messages = {{1, &plain_layout}}};
const Layout values_layout{.messages = {{1, &plain_layout}, {2, &plain_layout}, {3, &plain_layout}}};
const Layout feature_layout{.messages = {{2, &values_layout}}};
const Layout feature_map_layout{.messages = {{1, &feature_layout}}};
const Layout example_layout{.messages = {{1, &feature_map_layout}}};
const Layout bundle_layout{.messages = {{2, &shape_layout}, {3, &plain_layout}, {7, &slice_layout}}};

const Layout lists_layout{.messages = {{1, &plain_layout}, {2, &plain_layout}}};
const Layout collection_layout{.messages = {{2, &lists_layout}}};
const Layout info_layout{.messages = {{3, &shape_layout}}};
const Layout tensor_entry_layout{.messages = {{2, &info_layout}}};
const Layout tensors_layout{.messages = {{1, &tensor_entry_layout}, {2, &tensor_entry_layout}}};
const Layout tensors_entry_layout{.messages = {{2, &tensors_layout}}};
const Layout asset_layout{.messages = {{1, &info_layout}}};
const Layout variable_layout{.messages = {{2, &shape_layout}}};
const Layout object_layout{
    .messages = {{1, &plain_layout}, {4, &plain_layout}, {7, &variable_layout}, {12, &plain_layout}}};
const Layout returned_layout{.messages = {{51, &lists_layout}, {52, &lists_layout}}};
const Layout concrete_function_layout{.messages = {{2, &plain_layout}, {4, &returned_layout}}};
const Layout concrete_function_entry_layout{.messages = {{2, &concrete_function_layout}}};
const Layout objects_layout{.messages = {{1, &object_layout}, {2, &concrete_function_entry_layout}}};
const Layout meta_graph_layout{.messages = {{1, &plain_layout},
                                            {2, &graph_layout},
                                            {3, &plain_layout},
                                            {4, &collection_layout},
                                            {5, &tensors_entry_layout},
                                            {6, &asset_layout},
                                            {7, &objects_layout}}};
const Layout saved_model_layout{.messages = {{2, &meta_graph_layout}}};

const Layout metadata_layout{.messages = {{1, &plain_layout}}};
const Layout value_of_summary_layout{
    .messages = {
        {4, &plain_layout}, {5, &plain_layout}, {6, &plain_layout}, {8, &tensor_layout}, {9, &metadata_layout}}};
const Layout summary_layout{.messages = {{1, &value_of_summary_layout}}};
const Layout event_layout{.messages = {{4, &graph_layout},
                                       {5, &summary_layout},
                                       {6, &plain_layout},
                                       {7, &plain_layout},
                                       {8, &plain_layout},
                                       {9, &meta_graph_layout}}};

// ONNX: a graph has nodes, whose attributes may be graphs.
const Layout onnx_tensor_layout{.messages = {{13, &plain_layout}}};
const Layout onnx_shape_layout{.messages = {{1, &plain_layout}}};
const Layout onnx_tensor_type_layout{.messages = {{2, &onnx_shape_layout}}};
const Layout onnx_type_layout{.messages = {{1, &onnx_tensor_type_layout}}};
const Layout onnx_value_layout{.messages = {{2, &onnx_type_layout}}};
extern const Layout onnx_graph_layout;
const Layout onnx_attribute_layout{.messages = {{5, &onnx_tensor_layout}, {6, &onnx_graph_layout}}};
const Layout onnx_node_layout{.messages = {{5, &onnx_attribute_layout}}};
const Layout onnx_graph_layout{
    .messages = {{1, &onnx_node_layout}, {5, &onnx_tensor_layout}, {11, &onnx_value_layout}, {12, &onnx_value_layout}}};
const Layout onnx_layout{.messages = {{7, &onnx_graph_layout}, {8, &plain_layout}, {14, &plain_layout}}};

enum Wire : std::uint64_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

struct Field {
  std::uint64_t tag, wire;
  std::uint64_t value = 0;  ///< of a varint
  std::string bytes{};      ///< of the others
};

void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value > 127; value >>= 7) bytes += static_cast<char>(value | 128);
  bytes += static_cast<char>(value);
}

std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte} % 128 << shift;
    if (byte < 128) return value;
  }
  return {};
}

/// The fields of a message; nothing when it is none.
std::optional<std::vector<Field>> fields_of(std::string_view bytes) {
  std::vector<Field> fields;
  while (!bytes.empty()) {
    const auto tag = take_varint(bytes);
    if (!tag) return {};
    Field field{.tag = *tag >> 3, .wire = *tag & 7};
    std::uint64_t size = field.wire == fixed64 ? 8 : 4;
    if (field.wire == varint) {
      const auto value = take_varint(bytes);
      if (!value) return {};
      field.value = *value;
      size = 0;
    } else if (field.wire == delimited) {
      const auto length = take_varint(bytes);
      if (!length) return {};
      size = *length;
    } else if (field.wire != fixed64 && field.wire != fixed32) {
      return {};
    }
    if (size > bytes.size()) return {};
    field.bytes = bytes.substr(0, size);
    bytes.remove_prefix(size);
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string message_of(const std::vector<Field>& fields) {
  std::string bytes;
  for (const Field& field : fields) {
    append_varint(bytes, field.tag << 3 | field.wire);
    if (field.wire == varint) append_varint(bytes, field.value);
    if (field.wire == delimited) append_varint(bytes, field.bytes.size());
    bytes += field.bytes;
  }
  return bytes;
}

void change(std::vector<Field>& fields, std::size_t at, Dice& dice) {
  Field& field = fields[at];
  switch (dice.below(7)) {
    case 0:
      fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    case 1:
      fields.push_back(field);
      return;
    case 2:
      std::swap(field, dice.of(fields));
      return;
    case 3:
      field.tag = dice.one_in(2) ? 1 + dice.below(14) : dice.of(fields).tag;
      return;
    default:
      if (field.wire == varint) {
        field.value = dice.one_in(4) ? field.value ^ std::uint64_t{1} << dice.below(64)
                                     : static_cast<std::uint64_t>(dice.number());
      } else if (field.wire == delimited) {
        field.bytes = dice.damaged(field.bytes);
      } else {
        field.bytes[dice.below(field.bytes.size())] = static_cast<char>(dice.bits());
      }
  }
}

std::string damage(const std::string& bytes, const Layout& layout, Dice& dice) {
  auto fields = fields_of(bytes);
  if (!fields) return dice.damaged(bytes);
  if (fields->empty() || dice.one_in(16)) {
    // A field of a message that had none such.
    fields->push_back(dice.one_in(2) ? Field{1 + dice.below(14), varint, static_cast<std::uint64_t>(dice.number())}
                                     : Field{1 + dice.below(14), delimited, 0, std::string(dice.below(20), '\1')});
    return message_of(*fields);
  }
  const std::size_t at = dice.below(fields->size());
  Field& field = (*fields)[at];
  const Layout* inner = field.wire == delimited ? layout.of(field.tag) : nullptr;
  if (inner && !dice.one_in(12)) {
    field.bytes = damage(field.bytes, *inner, dice);
  } else {
    change(*fields, at, dice);
  }
  return message_of(*fields);
}

}  // namespace

std::string damage_field(const std::string& graph_def, Dice& dice) { return damage(graph_def, graph_layout, dice); }
std::string damage_bundle_field(const std::string& entry, Dice& dice) { return damage(entry, bundle_layout, dice); }
std::string damage_example_field(const std::string& example, Dice& dice) {
  return damage(example, example_layout, dice);
}
std::string damage_saved_model_field(const std::string& saved_model, Dice& dice) {
  return damage(saved_model, saved_model_layout, dice);
}
std::string damage_event_field(const std::string& event, Dice& dice) { return damage(event, event_layout, dice); }
std::string damage_onnx_field(const std::string& model, Dice& dice) { return damage(model, onnx_layout, dice); }

}  // namespace tapestry::test
