#include "io/tensorflow/assertions.hpp"

#include <algorithm>
#include <optional>
#include <sstream>

#include <protozero/pbf_reader.hpp>

#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "io/tensorflow/op_reader.hpp"

namespace tapestry::io {
namespace {

constexpr TypeCode text_type{7};
/// Stands for a tensor in the list of an error's parts, each of which ends with `part_end`.
constexpr char tensor_part = '\x1f', part_end = '\x1e';

std::vector<std::string_view> parts_of(std::string_view list) {
  std::vector<std::string_view> parts;
  for (std::size_t end = list.find(part_end); end != std::string_view::npos; end = list.find(part_end)) {
    parts.push_back(list.substr(0, end));
    list.remove_prefix(end + 1);
  }
  return parts;
}
bool is_tensor(std::string_view part) { return part == std::string_view(&tensor_part, 1); }

/// The first elements of a tensor, as TensorFlow prints them.
std::string summary(const Tensor& value, std::int64_t most) {
  const Tensor host = detail::on_host(value).cast(float64);
  std::ostringstream text;
  for (std::int64_t i = 0; i < std::min(host.size(), most); ++i)
    text << (i > 0 ? " " : "") << static_cast<const double*>(host.impl().data)[i];
  return text.str() + (host.size() > most ? "..." : "");
}

Tensors check(const Call& call) {
  const PauseRecording pause;
  const ExecuteNow now;
  const Tensor condition = detail::on_host(call.input(0)).contiguous();
  const auto* holds = static_cast<const bool*>(condition.impl().data);
  if (std::all_of(holds, holds + condition.size(), [](bool each) { return each; })) return {};
  std::string message = "assertion failed:";
  std::size_t next = 1;
  for (const std::string_view part : parts_of(call.attr<std::string>("message")))
    message += detail::join(
        " [", is_tensor(part) ? summary(call.input(next++), call.attr<std::int64_t>("summarize")) : std::string(part),
        "]");
  throw InvalidArgumentError(message);
}

/// Only files have this op, so it is not registered.
const Op& assert_op() {
  static const Op& op = *new Op{
      .name = "Assert",
      .attrs = {{"message", AttrKind::text}, {"texts", AttrKind::text}, {"summarize", AttrKind::number}},
      .infer = [](const Call& call) -> Specs {
        if (call.input(0).dtype() != boolean && call.input(0).dtype() != DType::unknown)
          throw InvalidArgumentError(
              detail::join("the condition must be bool, not ", to_string(call.input(0).dtype())));
        return {};
      },
      .evaluate = check,
      .gradient = no_gradient,
      .outputs = 0,
      .stateful = true,
  };
  return op;
}

/// The text in a constant; nothing for any other node.
std::optional<std::string> text_in(const NodeDef& def) {
  const auto value = def.attrs.find("value");
  const auto* raw = def.op == "Const" && value != def.attrs.end() ? std::get_if<RawAttr>(&value->second) : nullptr;
  if (!raw) return {};
  constexpr protozero::pbf_tag_type tensor_field = 8, dtype_field = 1, text_field = 8;
  protozero::pbf_reader attr(raw->bytes);
  if (!attr.next(tensor_field)) return {};
  protozero::pbf_reader tensor = attr.get_message();
  std::string text;
  while (tensor.next()) {
    if (tensor.tag() == text_field && tensor.wire_type() == protozero::pbf_wire_type::length_delimited) {
      text += tensor.get_string();
    } else if (tensor.tag() == dtype_field && tensor.wire_type() == protozero::pbf_wire_type::varint) {
      if (tensor.get_int32() != text_type.value) return {};
    } else {
      tensor.skip();
    }
  }
  std::replace_if(
      text.begin(), text.end(), [](char each) { return each == tensor_part || each == part_end; }, ' ');
  return text;
}

}  // namespace

bool is_assertion(const detail::Node& node) { return &node.op() == &assert_op(); }

Tensors read_assertion(const Entry& entry, const NodeReader& reader,
                       const std::function<Tensor(const Source&)>& tensor_of, Where where) {
  if (entry.inputs.empty()) reader.refuse("it has no condition");
  Tensors inputs{tensor_of(entry.inputs[0])};
  std::string message, texts;
  for (std::size_t i = 1; i < entry.inputs.size(); ++i) {
    const std::optional<std::string> text = text_in(*entry.inputs[i].node);
    const Tensor tensor = text ? Tensor() : tensor_of(entry.inputs[i]);
    if (!text && tensor.dtype() == DType::unknown) continue;  // a text that is computed
    if (tensor) inputs.push_back(tensor);
    message += (text ? *text : std::string(1, tensor_part)) + part_end;
    texts += (text ? entry.inputs[i].node->name : std::string(1, tensor_part)) + part_end;
  }
  return add_op(assert_op(), inputs,
                {{"message", message}, {"texts", texts}, {"summarize", reader.attr_or<std::int64_t>("summarize", 3)}},
                entry.def->name, where);
}

void write_assertion(NodeWriter& writer, const std::function<bool(const std::string&)>& is_written) {
  const detail::Node& node = writer.node();
  std::vector<std::string> inputs{writer.in(0).name};
  ListDef types;
  std::size_t next = 1;
  for (const std::string_view part : parts_of(node.attr<std::string>("texts"))) {
    if (!is_tensor(part) && !is_written(std::string(part))) continue;
    types.types.push_back(is_tensor(part) ? code_of(node.input(next).dtype()) : text_type);
    inputs.push_back(is_tensor(part) ? writer.in(next++).name : std::string(part));
  }
  if (types.types.empty()) {  // one part is due
    inputs.push_back(inputs[0]);
    types.types.push_back(code_of(boolean));
  }
  writer.finish("Assert", inputs, {{"T", types}, {"summarize", node.attr<std::int64_t>("summarize")}});
}

}  // namespace tapestry::io
