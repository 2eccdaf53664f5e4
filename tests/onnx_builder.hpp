#pragma once

#include <string>
#include <variant>
#include <vector>

#include <protozero/pbf_writer.hpp>

#include "io/wire.hpp"
#include "tapestry/tensor.hpp"

/// ONNX models for tests, message by message.

namespace tapestry::test::onnx_file {

using protozero::pbf_writer;

struct Attribute {
  std::string name;
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>> value{};
  std::string graph = {};      ///< a GraphProto instead
  std::string reference = {};  ///< an attribute of the function around instead
};

inline std::string attribute(const Attribute& each) {
  std::string bytes;
  pbf_writer w(bytes);
  w.add_string(1, each.name);
  if (!each.reference.empty()) {
    w.add_string(21, each.reference);
  } else if (!each.graph.empty()) {
    w.add_message(6, each.graph);
    w.add_int64(20, 5);
  } else if (const auto* whole = std::get_if<std::int64_t>(&each.value)) {
    w.add_int64(3, *whole);
    w.add_int64(20, 2);
  } else if (const auto* real = std::get_if<float>(&each.value)) {
    w.add_float(2, *real);
    w.add_int64(20, 1);
  } else if (const auto* text = std::get_if<std::string>(&each.value)) {
    w.add_string(4, *text);
    w.add_int64(20, 3);
  } else {
    for (const std::int64_t i : std::get<3>(each.value)) w.add_int64(8, i);
    w.add_int64(20, 7);
  }
  return bytes;
}

inline std::string node(const std::string& type, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::vector<Attribute>& attributes = {},
                        const std::string& domain = {}) {
  std::string bytes;
  pbf_writer w(bytes);
  for (const std::string& each : inputs) w.add_string(1, each);
  for (const std::string& each : outputs) w.add_string(2, each);
  w.add_string(4, type);
  for (const Attribute& each : attributes) w.add_message(5, attribute(each));
  if (!domain.empty()) w.add_string(7, domain);
  return bytes;
}

inline std::int64_t type_code(DType dtype) {
  return dtype == float32 ? 1 : dtype == int64 ? 7 : dtype == boolean ? 9 : 11;
}

inline std::string value_info(const std::string& name, DType dtype, const Shape& shape) {
  std::string bytes;
  pbf_writer w(bytes);
  w.add_string(1, name);
  io::add_message(w, 2, [&](pbf_writer& type) {
    io::add_message(type, 1, [&](pbf_writer& tensor) {
      tensor.add_int64(1, type_code(dtype));
      if (shape.has_rank())
        io::add_message(tensor, 2, [&](pbf_writer& sizes) {
          for (const std::int64_t size : shape.sizes())
            io::add_message(sizes, 1, [&](pbf_writer& one) {
              if (size >= 0) one.add_int64(1, size);
              if (size < 0) one.add_string(2, "any");
            });
        });
    });
  });
  return bytes;
}

inline std::string initializer(const std::string& name, const Tensor& value) {
  std::string bytes;
  pbf_writer w(bytes);
  for (const std::int64_t size : value.shape().sizes()) w.add_int64(1, size);
  w.add_int64(2, type_code(value.dtype()));
  w.add_string(8, name);
  w.add_bytes(9, static_cast<const char*>(value.impl().data),
              static_cast<std::size_t>(value.size()) * size_of(value.dtype()));
  return bytes;
}

struct GraphParts {
  std::vector<std::string> nodes, inputs, outputs, initializers{};
};

inline std::string graph(const GraphParts& parts) {
  std::string bytes;
  pbf_writer w(bytes);
  for (const std::string& each : parts.nodes) w.add_message(1, each);
  w.add_string(2, "g");
  for (const std::string& each : parts.initializers) w.add_message(5, each);
  for (const std::string& each : parts.inputs) w.add_message(11, each);
  for (const std::string& each : parts.outputs) w.add_message(12, each);
  return bytes;
}

inline std::string model_bytes(const GraphParts& parts, std::int64_t opset,
                               const std::vector<std::string>& functions = {}) {
  std::string bytes;
  pbf_writer w(bytes);
  w.add_int64(1, 8);
  w.add_string(2, "test");
  w.add_message(7, graph(parts));
  io::add_message(w, 8, [&](pbf_writer& entry) { entry.add_int64(2, opset); });
  for (const std::string& each : functions) w.add_message(25, each);
  return bytes;
}

}  // namespace tapestry::test::onnx_file
