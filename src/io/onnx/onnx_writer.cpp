#include "io/onnx/onnx_writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "core/make_tensor.hpp"
#include "io/tensorflow/op_rules.hpp"
#include "io/wire.hpp"

namespace tapestry::io {

using detail::Node;
using protozero::pbf_writer;

std::int64_t onnx_type(DType dtype) {
  // unknown, boolean, uint8, int32, int64, float16, bfloat16, float32, float64, resource
  constexpr std::array types{0, 9, 2, 6, 7, 10, 16, 1, 11, 0};
  const int type = types[static_cast<std::size_t>(dtype)];
  if (type == 0) throw UnimplementedError("ONNX needs to know the dtype of every tensor");
  return type;
}

// ---- The file -------------------------------------------------------------------------------------------------------

namespace {

/// Writes a TensorProto. `name`: "" for none.
void write_tensor(pbf_writer& writer, std::string_view name, const Tensor& value) {
  const Tensor host = detail::on_host(value);
  for (const std::int64_t size : host.shape().sizes()) writer.add_int64(1, size);
  writer.add_int64(2, onnx_type(host.dtype()));
  if (!name.empty()) writer.add_string(8, name.data(), name.size());
  writer.add_bytes(9, static_cast<const char*>(host.impl().data), detail::nbytes(host));
}

/// Writes an AttributeProto.
void write_field(pbf_writer& writer, const OnnxField& field) {
  enum Type : int {
    type_float = 1,
    type_int = 2,
    type_string = 3,
    type_tensor = 4,
    type_graph = 5,
    type_floats = 6,
    type_ints = 7,
    type_strings = 8
  };
  writer.add_string(1, field.first.data(), field.first.size());
  const auto is = [&](Type type) { writer.add_enum(20, type); };
  if (const auto* number = std::get_if<std::int64_t>(&field.second)) {
    writer.add_int64(3, *number);
    is(type_int);
  } else if (const auto* real = std::get_if<double>(&field.second)) {
    writer.add_float(2, static_cast<float>(*real));
    is(type_float);
  } else if (const auto* word = std::get_if<std::string>(&field.second)) {
    writer.add_bytes(4, *word);
    is(type_string);
  } else if (const auto* graph = std::get_if<OnnxSubgraph>(&field.second)) {
    writer.add_message(6, graph->bytes);
    is(type_graph);
  } else if (const auto* tensor = std::get_if<Tensor>(&field.second)) {
    add_message(writer, 5, [&](pbf_writer& out) { write_tensor(out, {}, *tensor); });
    is(type_tensor);
  } else if (const auto* reals = std::get_if<std::vector<float>>(&field.second)) {
    for (const float each : *reals) writer.add_float(7, each);
    is(type_floats);
  } else if (const auto* words = std::get_if<std::vector<std::string>>(&field.second)) {
    for (const std::string& each : *words) writer.add_bytes(9, each);
    is(type_strings);
  } else {
    for (const std::int64_t each : std::get<std::vector<std::int64_t>>(field.second)) writer.add_int64(8, each);
    is(type_ints);
  }
}

}  // namespace

void write_value_info(pbf_writer& writer, protozero::pbf_tag_type tag, const std::string& name, const Spec& spec,
                      const std::function<std::string(int axis)>& size_name) {
  add_message(writer, tag, [&](pbf_writer& info) {
    info.add_string(1, name);
    add_message(info, 2, [&](pbf_writer& type) {
      add_message(type, 1, [&](pbf_writer& tensor_type) {
        tensor_type.add_int64(1, onnx_type(spec.dtype));
        if (!spec.shape.has_rank()) return;
        add_message(tensor_type, 2, [&](pbf_writer& shape) {
          for (int axis = 0; axis < spec.shape.rank(); ++axis)
            add_message(shape, 1, [&](pbf_writer& size) {
              const std::int64_t known = spec.shape.sizes()[axis];
              if (known >= 0) return size.add_int64(1, known);
              if (const std::string symbol = size_name(axis); !symbol.empty()) size.add_string(2, symbol);
            });
        });
      });
    });
  });
}

OnnxGraph::Key OnnxGraph::key(const Tensor& tensor) {
  const detail::Endpoint endpoint = detail::endpoint_of(tensor);
  return {endpoint.node, endpoint.output};
}

std::string OnnxGraph::unique(std::string_view name) {
  std::string taken(name);
  for (int number = 1; !names_->insert(taken).second; ++number) taken = detail::join(name, '_', number);
  return taken;
}

void OnnxGraph::add(const OnnxNode& node) {
  add_message(writer_, 1, [&](pbf_writer& out) {
    for (const std::string& each : node.inputs) out.add_string(1, each);
    for (const std::string& each : node.outputs) out.add_string(2, each);
    out.add_string(3, node.outputs[0]);
    out.add_string(4, node.type.data(), node.type.size());
    if (!node.domain.empty()) out.add_string(7, node.domain.data(), node.domain.size());
    for (const OnnxField& each : node.fields) add_message(out, 5, [&](pbf_writer& field) { write_field(field, each); });
  });
}

void OnnxGraph::add_initializer(std::string_view name, const Tensor& value) {
  add_message(writer_, 5, [&](pbf_writer& tensor) { write_tensor(tensor, name, value); });
}

const std::map<std::string, std::int64_t>& OnnxOpsets::versions() const {
  if (versions_.at("") >= before_)
    throw UnimplementedError(detail::join("The model has nodes of ONNX's opset ", versions_.at(""),
                                          " and others that mean something else from opset ", before_, " on"));
  return versions_;
}

// ---- One of our nodes -----------------------------------------------------------------------------------------------

std::vector<std::string> OnnxWriter::ops(std::string_view type, std::vector<std::string> inputs, OnnxFields fields,
                                         std::size_t outputs, std::string_view domain) {
  OnnxNode node{type, std::move(inputs), {}, std::move(fields), domain};
  const std::string label = detail::join(node_.name(), '/', type);
  for (std::size_t i = 0; i < outputs; ++i) node.outputs.push_back(graph_.unique(label));
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

std::string OnnxWriter::op(std::string_view type, std::vector<std::string> inputs, OnnxFields fields) {
  return ops(type, std::move(inputs), std::move(fields), 1)[0];
}

std::string OnnxWriter::constant(const Tensor& value) {
  std::string name = graph_.unique(node_.name() + "/Const");
  graph_.add_initializer(name, value);
  return name;
}

std::string OnnxWriter::number(double value, DType dtype) { return constant(detail::make_scalar(value, dtype)); }

std::string OnnxWriter::ints(const std::vector<std::int64_t>& values) {
  const Tensor list = detail::make_tensor(int64, {static_cast<std::int64_t>(values.size())}, cpu());
  std::copy(values.begin(), values.end(), detail::mutable_data<std::int64_t>(list));
  return constant(list);
}

void OnnxWriter::finish(const std::vector<std::string>& results) {
  // The values of the outputs are named after the node.
  std::unordered_map<std::string, std::string> renamed;
  for (const OnnxNode& each : nodes_)
    for (const std::string& output : each.outputs) renamed.emplace(output, output);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].empty() || graph_.has(node_.output(i))) continue;  // it is not used, or it is fed
    const auto own = renamed.find(results[i]);
    if (own != renamed.end() && own->second == own->first)
      own->second = graph_.unique(i == 0 ? node_.name() : detail::join(node_.name(), ':', i));
    graph_.name(node_.output(i), own == renamed.end() ? results[i] : own->second);
  }
  for (OnnxNode& each : nodes_) {
    for (auto* names : {&each.inputs, &each.outputs})
      for (std::string& name : *names)
        if (const auto other = renamed.find(name); other != renamed.end()) name = other->second;
    graph_.add(each);
  }
}

void OnnxWriter::refuse(std::string_view reason) const {
  throw UnimplementedError(
      detail::join("Node '", node_.name(), "' (op: '", node_.type(), "') cannot be written as ONNX: ", reason),
      node_.where());
}

const AttrValue* OnnxWriter::find(std::string_view name) const {
  for (const Attr& each : added_)
    if (each.name == name) return &each.value;
  return node_.attrs().find(name);
}

std::optional<AttrValue> OnnxWriter::attr(std::string_view name) const {
  const AttrValue* given = find(name);
  std::optional<AttrValue> value = given ? *given : attr_or_implied(node_, name);
  if (value && name == "perm")  // ONNX takes no negative axes here
    for (std::int64_t& axis : std::get<Ints>(*value)) axis = normalize_axis(axis, shape().rank());
  return value;
}

// ---- Formulas -------------------------------------------------------------------------------------------------------

namespace {

/// Parses a formula (see onnx_formulas.cpp) and adds its nodes. The library's formulas are trusted, and not checked.
class Formula {
 public:
  Formula(OnnxWriter& writer, std::string_view text) : writer_(writer), rest_(text) {}

  std::vector<std::string> run() {
    std::vector<std::string> results(writer_.node().outputs().size());
    for (std::size_t end; (end = rest_.find(';')) != std::string_view::npos; rest_.remove_prefix(end + 1))
      define(rest_.substr(0, end));
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string_view part = rest_.substr(0, rest_.find('|'));
      if (writer_.is_used(i)) results[i] = Formula(*this, part).expression();
      rest_.remove_prefix(std::min(part.size() + 1, rest_.size()));
    }
    return results;
  }

 private:
  Formula(const Formula& whole, std::string_view part)
      : writer_(whole.writer_), rest_(part), defined_(whole.defined_) {}

  /// Parses "x = F(a)", or "x, y = F(a)" for an op of several outputs.
  void define(std::string_view statement) {
    const std::size_t middle = statement.find(" = ");
    Formula value(*this, statement.substr(middle + 3)), names(*this, statement.substr(0, middle));
    std::vector<std::string> list{std::string(names.word())};
    while (names.take(',')) list.emplace_back(names.word());
    const std::vector<std::string> values = value.expressions(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) defined_.insert_or_assign(list[i], values[i]);
  }

  std::string expression() { return expressions(1)[0]; }

  std::vector<std::string> expressions(std::size_t outputs) {
    const char first = peek();
    if (first == '@') return {attribute()};
    if (first == '{') return {writer_.ints(list())};
    if (is_number(first)) return {constant()};
    const bool optional = take('?');
    const std::string_view name = word();
    if (peek() == '(' || peek() == '[') return call(name, outputs, optional);
    if (const auto known = defined_.find(std::string(name)); known != defined_.end()) return {known->second};
    return {writer_.in(name[0] - 'a')};
  }

  std::vector<std::string> call(std::string_view op, std::size_t outputs, bool optional) {
    OnnxFields fields;
    bool complete = true;
    if (take('[')) {
      do {
        auto each = field();
        complete &= each.has_value();
        if (each) fields.push_back(std::move(*each));
      } while (take(','));
      take(']');
    }
    std::vector<std::string> inputs;
    take('(');
    while (!take(')')) {
      if (take('*')) {
        for (std::size_t i = 0; i < writer_.node().inputs().size(); ++i) inputs.push_back(writer_.in(i));
      } else {
        inputs.push_back(expression());
      }
      take(',');
    }
    const bool known = std::find(inputs.begin(), inputs.end(), "") == inputs.end();
    if (optional && !(complete && known)) return {inputs[0]};
    if (!known) writer_.refuse("it depends on a shape that is not known yet");
    return writer_.ops(op, std::move(inputs), std::move(fields), outputs);
  }

  /// Parses "name=value". Returns nothing if the value is that of an absent attribute.
  std::optional<OnnxField> field() {
    const std::string_view name = word();
    take('=');
    if (peek() == '{') return OnnxField{name, list()};
    if (is_number(peek())) return OnnxField{name, static_cast<std::int64_t>(number())};
    if (!take('@')) return OnnxField{name, std::string(word())};
    const std::string_view ours = word();
    if (ours == "T") return OnnxField{name, onnx_type(writer_.node().output().dtype())};
    std::optional<AttrValue> value = writer_.attr(ours);
    if (take('/'))
      if (const auto otherwise = static_cast<std::int64_t>(number()); !value) value = otherwise;
    if (!value) return {};
    if (const auto* real = std::get_if<double>(&*value)) return OnnxField{name, *real};
    if (const auto* flag = std::get_if<bool>(&*value)) return OnnxField{name, std::int64_t{*flag}};
    if (const auto* number = std::get_if<std::int64_t>(&*value)) return OnnxField{name, *number};
    if (const auto* dtype = std::get_if<DType>(&*value)) return OnnxField{name, onnx_type(*dtype)};
    if (const auto* text = std::get_if<std::string>(&*value)) return OnnxField{name, *text};
    return OnnxField{name, numbers(*value)};
  }

  /// Parses "@x" and adds the attribute as a constant; an empty name if it is absent.
  std::string attribute() {
    take('@');
    const std::optional<AttrValue> value = writer_.attr(word());
    if (!value) return {};
    if (const auto* real = std::get_if<double>(&*value)) return writer_.number(*real, element_type());
    if (const auto* number = std::get_if<std::int64_t>(&*value))
      return writer_.number(static_cast<double>(*number), int64);
    return writer_.ints(numbers(*value));
  }

  static std::vector<std::int64_t> numbers(const AttrValue& value) {
    if (const auto* shape = std::get_if<Shape>(&value))
      return std::vector<std::int64_t>(shape->sizes().begin(), shape->sizes().end());
    const Ints& list = std::get<Ints>(value);
    return {list.begin(), list.end()};
  }

  std::vector<std::int64_t> list() {
    std::vector<std::int64_t> values;
    take('{');
    while (!take('}')) {
      values.push_back(static_cast<std::int64_t>(number()));
      take(',');
    }
    return values;
  }

  /// Parses a constant: "0.5" has the type of the first input, "0.5:b" that of the second; "0:int" is an int64.
  std::string constant() {
    const double value = number();
    if (!take(':')) return writer_.number(value, element_type());
    const std::string_view type = word();
    return writer_.number(value, type == "int" ? int64 : writer_.node().input(type[0] - 'a').dtype());
  }

  DType element_type() const {
    const Node& node = writer_.node();
    return node.inputs().empty() ? node.output().dtype() : node.input(0).dtype();
  }

  static bool is_number(char first) { return first == '-' || (first >= '0' && first <= '9'); }

  double number() {
    peek();
    double value = 0;
    const char* end = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value).ptr;
    rest_.remove_prefix(end - rest_.data());
    return value;
  }

  std::string_view word() {
    peek();
    const std::string_view found = rest_.substr(0, rest_.find_first_of(" \n=,;:|/()[]{}"));
    rest_.remove_prefix(found.size());
    return found;
  }

  /// Skips spaces and returns the next character, or '\0' at the end.
  char peek() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }

  bool take(char expected) {
    if (peek() != expected) return false;
    rest_.remove_prefix(1);
    return true;
  }

  OnnxWriter& writer_;
  std::string_view rest_;
  std::map<std::string, std::string> defined_;
};

}  // namespace

std::vector<std::string> OnnxWriter::formula(std::string_view text) { return Formula(*this, text).run(); }

}  // namespace tapestry::io
