#pragma once

#include <span>
#include <string>
#include <vector>

#include <protozero/pbf_writer.hpp>

// Messages of TensorFlow Serving's, as clients write them.

namespace tapestry::serve {

/// A message of fields that f writes.
template <class F>
std::string message(F f) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  f(writer);
  return bytes;
}

/// A ModelSpec. `version`: none if negative.
inline std::string model_spec(const std::string& name, std::int64_t version = -1, const std::string& signature = "",
                              const std::string& label = "") {
  return message([&](protozero::pbf_writer& spec) {
    spec.add_string(1, name);
    if (version >= 0) spec.add_message(2, message([&](auto& number) { number.add_int64(1, version); }));
    if (!signature.empty()) spec.add_string(3, signature);
    if (!label.empty()) spec.add_string(4, label);
  });
}

/// A TensorProto of these sizes, whose elements f writes.
template <class F>
std::string tensor_proto(int type, const std::vector<std::int64_t>& sizes, F f) {
  return message([&](protozero::pbf_writer& tensor) {
    tensor.add_enum(1, type);
    tensor.add_message(2, message([&](protozero::pbf_writer& shape) {
                         for (const std::int64_t size : sizes)
                           shape.add_message(2, message([&](auto& dim) { dim.add_int64(1, size); }));
                       }));
    f(tensor);
  });
}

/// The same of floats, in the field for them.
inline std::string floats(const std::vector<std::int64_t>& sizes, const std::vector<float>& elements) {
  return tensor_proto(1, sizes, [&](auto& tensor) { tensor.add_packed_float(5, elements.begin(), elements.end()); });
}

using Inputs = std::vector<std::pair<std::string, std::string>>;

/// A PredictRequest.
inline std::string predict_request(const std::string& spec, const Inputs& inputs,
                                   const std::vector<std::string>& filter = {}) {
  return message([&](protozero::pbf_writer& request) {
    request.add_message(1, spec);
    for (const auto& [name, tensor] : inputs)
      request.add_message(2, message([&, &key = name, &value = tensor](auto& entry) {
                            entry.add_string(1, key);
                            entry.add_message(2, value);
                          }));
    for (const std::string& each : filter) request.add_string(3, each);
  });
}

/// A ClassificationRequest or RegressionRequest.
inline std::string examples_request(const std::string& spec, const std::vector<std::string>& examples,
                                    const std::string& context = "") {
  return message([&](protozero::pbf_writer& request) {
    request.add_message(1, spec);
    request.add_message(2, message([&](auto& input) {
                          input.add_message(context.empty() ? 1 : 2, message([&](auto& list) {
                                              for (const std::string& each : examples) list.add_message(1, each);
                                              if (!context.empty()) list.add_message(2, context);
                                            }));
                        }));
  });
}

}  // namespace tapestry::serve
