#include "serve/rpc_messages.hpp"

#include "io/wire.hpp"
#include "serve/proto_tensor.hpp"

namespace tapestry::serve {
namespace {

using io::add_message;
using io::WireReader;
using protozero::pbf_writer;

/// Reads a message: calls f(reader) for each of its fields, which f reads or skips.
template <class F>
void read_message(WireReader reader, F f) {
  while (reader.next()) f(reader);
}

/// The same for a request.
template <class F>
void read_request(std::string_view bytes, F f) {
  try {
    read_message(WireReader(bytes.data(), bytes.size()), f);
  } catch (const protozero::exception&) {
    throw InvalidArgumentError("The request is no message of this method, or damaged");
  }
}

ModelSpec read_model_spec(WireReader reader) {
  ModelSpec spec;
  read_message(reader, [&](WireReader& field) {
    switch (field.tag()) {
      case 1:
        spec.name = field.get_text();
        break;
      case 2:  // of the version and its label the last one counts
        spec.choice = {.version = 0, .label = {}};
        for_fields(field.get_message(), 1, [&](WireReader& number) { spec.choice.version = number.get_int64(); });
        break;
      case 3:
        spec.signature = field.get_text();
        break;
      case 4:
        spec.choice = {.version = {}, .label = std::string(field.get_text())};
        break;
      default:
        field.skip();
    }
  });
  return spec;
}

/// The examples of an Input. Messages that lie one behind the other are one message, in which the last value of a
/// feature counts: so an example gets its context.
std::vector<std::string> read_input(WireReader reader) {
  std::vector<std::string> examples;
  read_message(reader, [&](WireReader& field) {
    if (field.tag() != 1 && field.tag() != 2) return field.skip();
    const bool has_context = field.tag() == 2;  // protozero forgets the tag of a field that was read
    examples.clear();
    std::string context;
    read_message(field.get_message(), [&](WireReader& each) {
      if (each.tag() == 1) {
        examples.emplace_back(each.get_text());
      } else if (each.tag() == 2 && has_context) {
        context += each.get_text();
      } else {
        each.skip();
      }
    });
    for (std::string& each : examples) each.insert(0, context);
  });
  return examples;
}

void write_model_spec(pbf_writer& writer, protozero::pbf_tag_type tag, const ModelSpec& spec) {
  add_message(writer, tag, [&](pbf_writer& out) {
    if (!spec.name.empty()) out.add_string(1, spec.name);
    if (spec.choice.version)
      add_message(out, 2, [&](pbf_writer& number) {
        if (*spec.choice.version != 0) number.add_int64(1, *spec.choice.version);
      });
    if (!spec.signature.empty()) out.add_string(3, spec.signature);
  });
}

void write_values(pbf_writer& writer, protozero::pbf_tag_type tag, const NamedValues& values) {
  for (const auto& [name, value] : values) {
    pbf_writer entry(writer, tag);
    entry.add_string(1, name);
    pbf_writer inner(entry, 2);
    std::visit([&](const auto& each) { write_value(inner, each); }, value);
  }
}

void write_results(pbf_writer& writer, protozero::pbf_tag_type tag, const std::vector<Classes>& results) {
  add_message(writer, tag, [&](pbf_writer& result) {
    for (const Classes& each : results)
      add_message(result, 1, [&](pbf_writer& classifications) {
        for (const auto& [label, score] : each)
          add_message(classifications, 1, [&, &name = label, &value = score](pbf_writer& out) {
            if (!name.empty()) out.add_string(1, name);
            if (value != 0) out.add_float(2, value);
          });
      });
  });
}

void write_results(pbf_writer& writer, protozero::pbf_tag_type tag, const std::vector<float>& results) {
  add_message(writer, tag, [&](pbf_writer& result) {
    for (const float each : results)
      add_message(result, 1, [&](pbf_writer& regression) {
        if (each != 0) regression.add_float(1, each);
      });
  });
}

template <class Results>
std::string examples_response(const Results& results, const ModelSpec& model_spec) {
  std::string bytes;
  pbf_writer writer(bytes);
  write_results(writer, 1, results);
  write_model_spec(writer, 2, model_spec);
  return bytes;
}

template <class Results>
std::string inference_result(const Results& results, const ModelSpec& model_spec) {
  constexpr protozero::pbf_tag_type tag = std::is_same_v<Results, std::vector<float>> ? 3 : 2;
  std::string bytes;
  pbf_writer response(bytes);
  add_message(response, 1, [&](pbf_writer& result) {
    write_model_spec(result, 1, model_spec);
    write_results(result, tag, results);
  });
  return bytes;
}

VersionPolicy read_policy(WireReader reader) {
  VersionPolicy policy;
  read_message(reader, [&](WireReader& field) {
    switch (field.tag()) {
      case 100:
        policy = {};
        for_fields(field.get_message(), 1, [&](WireReader& number) { policy.latest = number.get_int64(); });
        if (policy.latest < 1) throw InvalidArgumentError("num_versions must be at least 1");
        break;
      case 101:
        policy = {.kind = VersionPolicy::Kind::all};
        field.skip();
        break;
      case 102: {
        policy = {.kind = VersionPolicy::Kind::specific};
        std::vector<std::int64_t> versions;
        for_fields(field.get_message(), 1, [&](WireReader& each) {
          io::read_numbers(each, versions, &WireReader::get_int64, &WireReader::get_packed_int64);
        });
        policy.specific.insert(versions.begin(), versions.end());
        break;
      }
      default:
        field.skip();
    }
  });
  return policy;
}

std::optional<LoggingConfig> read_logging(WireReader reader) {
  LoggingConfig logging;
  read_message(reader, [&](WireReader& field) {
    if (field.tag() == 1) {
      for_fields(field.get_message(), 2, [&](WireReader& each) { logging.filename_prefix = each.get_text(); });
    } else if (field.tag() == 2) {
      for_fields(field.get_message(), 1, [&](WireReader& each) { logging.sampling_rate = each.get_double(); });
    } else {
      field.skip();
    }
  });
  if (logging.filename_prefix.empty() || !(logging.sampling_rate > 0)) return std::nullopt;
  return logging;
}

ModelConfig read_model_config(WireReader reader) {
  ModelConfig model;
  read_message(reader, [&](WireReader& field) {
    switch (field.tag()) {
      case 1:
        model.name = field.get_text();
        break;
      case 2:
        model.base_path = std::string(field.get_text());
        break;
      case 4:
        if (const std::string_view platform = field.get_text(); platform != "tensorflow")
          throw InvalidArgumentError(detail::join("There is no platform ", platform, " but tensorflow"));
        break;
      case 6:
        model.logging = read_logging(field.get_message());
        break;
      case 7:
        model.policy = read_policy(field.get_message());
        break;
      case 8: {
        std::string key;
        std::int64_t value = 0;
        read_message(field.get_message(), [&](WireReader& entry) {
          if (entry.tag() == 1) {
            key = entry.get_text();
          } else if (entry.tag() == 2) {
            value = entry.get_int64();
          } else {
            entry.skip();
          }
        });
        model.labels[key] = value;
        break;
      }
      default:
        field.skip();
    }
  });
  if (model.base_path.empty()) throw InvalidArgumentError("The model " + model.name + " has no base_path");
  return model;
}

}  // namespace

PredictRequest read_predict_request(std::string_view bytes) {
  PredictRequest request;
  read_request(bytes, [&](WireReader& field) {
    switch (field.tag()) {
      case 1:
        request.model_spec = read_model_spec(field.get_message());
        break;
      case 2: {
        std::string key;
        std::string_view tensor;
        read_message(field.get_message(), [&](WireReader& entry) {
          if (entry.tag() == 1) {
            key = entry.get_text();
          } else if (entry.tag() == 2) {
            tensor = entry.get_text();
          } else {
            entry.skip();
          }
        });
        request.inputs[key] = tensor;
        break;
      }
      case 3:
        request.output_filter.emplace_back(field.get_text());
        break;
      default:
        field.skip();
    }
  });
  return request;
}

ExamplesRequest read_examples_request(std::string_view bytes) {
  ExamplesRequest request;
  read_request(bytes, [&](WireReader& field) {
    if (field.tag() == 1) {
      request.model_spec = read_model_spec(field.get_message());
    } else if (field.tag() == 2) {
      request.examples = read_input(field.get_message());
    } else {
      field.skip();
    }
  });
  return request;
}

MultiInferenceRequest read_multi_inference_request(std::string_view bytes) {
  MultiInferenceRequest request;
  read_request(bytes, [&](WireReader& field) {
    if (field.tag() == 1) {
      InferenceTask& task = request.tasks.emplace_back();
      read_message(field.get_message(), [&](WireReader& each) {
        if (each.tag() == 1) {
          task.model_spec = read_model_spec(each.get_message());
        } else if (each.tag() == 2) {
          task.method_name = each.get_text();
        } else {
          each.skip();
        }
      });
    } else if (field.tag() == 2) {
      request.examples = read_input(field.get_message());
    } else {
      field.skip();
    }
  });
  return request;
}

PredictionLog read_prediction_log(std::string_view bytes) {
  PredictionLog log;
  read_request(bytes, [&](WireReader& field) {
    using Kind = PredictionLog::Kind;
    const int kind = static_cast<int>(field.tag());
    if (kind < static_cast<int>(Kind::classify) || kind > static_cast<int>(Kind::predict_streamed)) return field.skip();
    log = {.kind = static_cast<Kind>(kind)};
    for_fields(field.get_message(), 1, [&](WireReader& each) { log.request = each.get_text(); });
  });
  return log;
}

ModelRequest read_model_request(std::string_view bytes) {
  ModelRequest request;
  read_request(bytes, [&](WireReader& field) {
    if (field.tag() == 1) {
      request.model_spec = read_model_spec(field.get_message());
    } else if (field.tag() == 2) {
      request.metadata_fields.emplace_back(field.get_text());
    } else {
      field.skip();
    }
  });
  return request;
}

std::optional<std::vector<ModelConfig>> read_reload_request(std::string_view bytes) {
  std::optional<std::vector<ModelConfig>> models;
  read_request(bytes, [&](WireReader& field) {
    if (field.tag() != 1) return field.skip();
    for_fields(field.get_message(), 1, [&](WireReader& list) {
      if (!models) models.emplace();
      for_fields(list.get_message(), 1,
                 [&](WireReader& config) { models->push_back(read_model_config(config.get_message())); });
    });
  });
  return models;
}

std::string read_text_request(std::string_view bytes) {
  std::string text;
  read_request(bytes, [&](WireReader& field) {
    if (field.tag() == 1) {
      text = field.get_text();
    } else {
      field.skip();
    }
  });
  return text;
}

std::string write_predict_response(const NamedValues& outputs, const ModelSpec& model_spec) {
  std::string bytes;
  pbf_writer writer(bytes);
  write_values(writer, 1, outputs);
  write_model_spec(writer, 2, model_spec);
  return bytes;
}

std::string write_predict_request(const NamedValues& inputs, const ModelSpec& model_spec) {
  std::string bytes;
  pbf_writer writer(bytes);
  write_model_spec(writer, 1, model_spec);
  write_values(writer, 2, inputs);
  return bytes;
}

std::string write_examples_request(const std::vector<std::string>& examples, const ModelSpec& model_spec) {
  std::string bytes;
  pbf_writer writer(bytes);
  write_model_spec(writer, 1, model_spec);
  add_message(writer, 2, [&](pbf_writer& input) {
    add_message(input, 1, [&](pbf_writer& list) {
      for (const std::string& each : examples) list.add_message(1, each);
    });
  });
  return bytes;
}

std::string write_prediction_log(PredictionLog::Kind kind, const ModelSpec& used, double sampling_rate,
                                 std::string_view request, std::string_view response) {
  std::string bytes;
  bytes.reserve(request.size() + response.size() + 128);
  pbf_writer writer(bytes);
  add_message(writer, 1, [&](pbf_writer& metadata) {
    write_model_spec(metadata, 1, used);
    add_message(metadata, 2, [&](pbf_writer& sampling) { sampling.add_double(1, sampling_rate); });
  });
  add_message(writer, static_cast<protozero::pbf_tag_type>(kind), [&](pbf_writer& log) {
    log.add_message(1, request.data(), request.size());
    log.add_message(2, response.data(), response.size());
  });
  return bytes;
}

std::string write_classification_response(const std::vector<Classes>& results, const ModelSpec& model_spec) {
  return examples_response(results, model_spec);
}
std::string write_regression_response(const std::vector<float>& results, const ModelSpec& model_spec) {
  return examples_response(results, model_spec);
}
std::string write_inference_result(const std::vector<Classes>& results, const ModelSpec& model_spec) {
  return inference_result(results, model_spec);
}
std::string write_inference_result(const std::vector<float>& results, const ModelSpec& model_spec) {
  return inference_result(results, model_spec);
}

std::string write_metadata_response(const std::map<std::string, SignatureInfo>& signatures,
                                    const ModelSpec& model_spec) {
  std::string map, bytes;
  pbf_writer map_writer(map);
  for (const auto& [name, signature] : signatures)
    add_message(map_writer, 1, [&, &key = name, &proto = signature.proto](pbf_writer& entry) {
      entry.add_string(1, key);
      entry.add_message(2, proto);
    });
  pbf_writer writer(bytes);
  write_model_spec(writer, 1, model_spec);
  add_message(writer, 2, [&](pbf_writer& entry) {
    entry.add_string(1, "signature_def");
    add_message(entry, 2, [&](pbf_writer& any) {
      any.add_string(1, "type.googleapis.com/tensorflow.serving.SignatureDefMap");
      any.add_bytes(2, map);
    });
  });
  return bytes;
}

std::string write_status_response(const std::vector<VersionStatus>& versions) {
  std::string bytes;
  pbf_writer writer(bytes);
  for (const VersionStatus& each : versions)
    add_message(writer, 1, [&](pbf_writer& version) {
      if (each.version != 0) version.add_int64(1, each.version);
      version.add_enum(2, static_cast<std::int32_t>(each.state));
      add_message(version, 3, [&](pbf_writer& status) {
        if (!each.error) return;
        status.add_enum(1, static_cast<std::int32_t>(*each.error == Code::lookup ? Code::not_found : *each.error));
        status.add_string(2, each.message);
      });
    });
  return bytes;
}

std::string write_health_response(bool serves) {
  constexpr std::int32_t serving = 1, not_serving = 2;
  std::string bytes;
  pbf_writer(bytes).add_enum(1, serves ? serving : not_serving);
  return bytes;
}

std::string write_reload_response() {
  std::string bytes;
  pbf_writer writer(bytes);
  add_message(writer, 1, [](pbf_writer&) {});
  return bytes;
}

}  // namespace tapestry::serve
