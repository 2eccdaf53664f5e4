#include "serve/rest.hpp"

#include <algorithm>
#include <charconv>
#include <new>

#include "serve/examples.hpp"
#include "serve/inference.hpp"
#include "serve/json_tensor.hpp"
#include "serve/request_log.hpp"

namespace tapestry::serve {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Whether the text begins with the prefix, in letters of either case; then the prefix is taken off.
bool take(std::string_view& text, std::string_view prefix) {
  const bool begins = text.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), text.begin(),
                                                                 [](char a, char b) { return lower(a) == lower(b); });
  if (begins) text.remove_prefix(prefix.size());
  return begins;
}

/// Takes off the characters up to the next '/' or ':'.
std::string_view take_name(std::string_view& text) {
  const std::string_view name = text.substr(0, text.find_first_of("/:"));
  text.remove_prefix(name.size());
  return name;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char letter = lower(c);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

int http_status(Code code) {
  switch (code) {
    case Code::invalid_argument:
    case Code::failed_precondition:
    case Code::out_of_range:
      return 400;
    case Code::not_found:
    case Code::lookup:
      return 404;
    case Code::aborted:
      return 409;
    case Code::cancelled:
      return 499;
    case Code::resource_exhausted:
      return 429;
    case Code::unimplemented:
      return 501;
    case Code::unavailable:
      return 503;
    case Code::deadline_exceeded:
      return 504;
    default:
      return 500;
  }
}

/// The signature that a request names. Throws InvalidArgumentError unless the model has it.
const SignatureInfo& signature_of(const Servable& model, const std::string& name) {
  const auto found = model.signatures().find(name);
  if (found == model.signatures().end())
    throw InvalidArgumentError("Serving signature name: \"" + name + "\" not found in signature def");
  return found->second;
}

std::string signature_name(const Json& request) {
  const Json* name = member(request, "signature_name");
  if (name && !name->IsString())
    throw InvalidArgumentError("JSON Value: " + quoted(request) +
                               " not formatted correctly. 'signature_name' key must be a string value.");
  return name && name->GetStringLength() > 0 ? std::string(text_of(*name)) : "serving_default";
}

void append_tensors(std::string& json, const std::map<std::string, TensorInfo>& tensors) {
  json += "{";
  for (const auto& [key, info] : tensors) {
    json += json.ends_with("{") ? "\n    " : ",\n    ";
    append_string(json, key);
    json += ": {\n     \"dtype\": ";
    append_string(json, enum_name(info.type));
    json += ",\n     \"tensor_shape\": {\n      \"dim\": [";
    for (const std::int64_t size : info.sizes.value_or(std::vector<std::int64_t>())) {
      json += json.ends_with("[") ? "\n       " : ",\n       ";
      json += "{\n        \"size\": \"" + std::to_string(size) + "\",\n        \"name\": \"\"\n       }";
    }
    if (!json.ends_with("[")) json += "\n      ";
    json += "],\n      \"unknown_rank\": ";
    json += info.sizes ? "false" : "true";
    json += "\n     },\n     \"name\": ";
    append_string(json, info.name);
    json += "\n    }";
  }
  json += json.ends_with("{") ? "}" : "\n   }";
}

/// The log of a model's requests, if the next one is to be written.
std::shared_ptr<RequestLog> due_log(const ModelStore& models, const std::string& model) {
  std::shared_ptr<RequestLog> log = models.request_log(model);
  return log && log->is_due() ? log : nullptr;
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool coded =
        text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    decoded += coded ? static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])) : text[i];
    if (coded) i += 2;
  }
  return decoded;
}

std::string_view code_name(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return "INVALID_ARGUMENT";
    case Code::cancelled:
      return "CANCELLED";
    case Code::deadline_exceeded:
      return "DEADLINE_EXCEEDED";
    case Code::not_found:
    case Code::lookup:
      return "NOT_FOUND";
    case Code::resource_exhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::failed_precondition:
      return "FAILED_PRECONDITION";
    case Code::aborted:
      return "ABORTED";
    case Code::out_of_range:
      return "OUT_OF_RANGE";
    case Code::unimplemented:
      return "UNIMPLEMENTED";
    case Code::unavailable:
      return "UNAVAILABLE";
    case Code::data_loss:
      return "DATA_LOSS";
    default:
      return "INTERNAL";
  }
}

std::string_view state_name(VersionState state) {
  switch (state) {
    case VersionState::start:
      return "START";
    case VersionState::loading:
      return "LOADING";
    case VersionState::available:
      return "AVAILABLE";
    case VersionState::unloading:
      return "UNLOADING";
    default:
      return "END";
  }
}

std::int64_t parse_version(std::string_view digits) {
  std::int64_t version = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  if (error != std::errc() || end != digits.data() + digits.size())
    throw InvalidArgumentError(detail::join("Failed to convert version: ", digits, " to numeric."));
  return version;
}

/// The parts of a path.
struct RestApi::Target {
  enum class Kind { predict, classify, regress, status, metadata };
  Kind kind = Kind::status;
  std::string model{};
  std::string version{};  ///< its digits
  std::optional<std::string> label{};
};

Answer error_answer(Code code, std::string_view text) {
  return {.status = http_status(code), .body = error_body(text)};
}

std::optional<RestApi::Target> RestApi::target_of(const Request& request) {
  Target target;
  std::string_view path = request.path;
  if (!take(path, "/v1/models")) return std::nullopt;
  if (take(path, "/")) {
    target.model = percent_decoded(take_name(path));
    if (target.model.empty()) return std::nullopt;
    if (take(path, "/versions/")) {
      target.version = take_name(path);
      const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
      if (target.version.empty() || !std::all_of(target.version.begin(), target.version.end(), is_digit))
        return std::nullopt;
    } else if (take(path, "/labels/")) {
      target.label = percent_decoded(take_name(path));
      if (target.label->empty()) return std::nullopt;
    }
  }
  using Kind = Target::Kind;
  if (request.method == "POST") {
    if (target.model.empty() || !take(path, ":")) return std::nullopt;
    target.kind = take(path, "predict") ? Kind::predict : take(path, "classify") ? Kind::classify : Kind::regress;
    if (target.kind == Kind::regress && !take(path, "regress")) return std::nullopt;
  } else if (request.method == "GET") {
    if (take(path, "/metadata")) target.kind = Kind::metadata;
  } else {
    return std::nullopt;
  }
  if (!path.empty()) return std::nullopt;
  return target;
}

VersionChoice RestApi::choice_of(const Target& target) {
  VersionChoice choice{.version = {}, .label = target.label};
  if (!target.version.empty()) choice.version = parse_version(target.version);
  return choice;
}

Answer RestApi::answer(const Request& request) const {
  const auto start = std::chrono::steady_clock::now();
  const std::optional<Target> target = target_of(request);
  if (!target) return error_answer(Code::invalid_argument, "Malformed request: " + request.method + " " + request.path);
  Answer answer;
  std::optional<Code> code;
  const auto failed = [&](Code why, std::string_view text) {
    code = why;
    answer = error_answer(why, text);
  };
  try {
    answer = handle(request, *target);
  } catch (const Error& error) {
    failed(error.code(), error.message());
  } catch (const std::bad_alloc&) {
    failed(Code::resource_exhausted, "Not enough memory for the request");
  } catch (const std::exception& error) {
    failed(Code::internal, error.what());
  }
  constexpr std::array<const char*, 3> methods{"Predict", "Classify", "Regress"};
  const auto method = static_cast<std::size_t>(target->kind);
  // Names that no model has would each make new numbers.
  if (method < methods.size() && models_.contains(target->model))
    metrics_.count({.model = target->model, .api = methods[method], .entrypoint = "REST"},
                   code ? std::string(code_name(*code)) : "OK", std::chrono::steady_clock::now() - start);
  return answer;
}

Answer RestApi::handle(const Request& request, const Target& target) const {
  switch (target.kind) {
    case Target::Kind::predict:
      return {.body = predict(target, request)};
    case Target::Kind::classify:
    case Target::Kind::regress:
      return {.body = infer_examples(target, request)};
    case Target::Kind::metadata:
      return {.body = metadata(target)};
    default:
      return {.body = status(target)};
  }
}

std::string RestApi::predict(const Target& target, const Request& request) const {
  const VersionChoice choice = choice_of(target);
  const ParsedObject parsed(request.body);
  const Json& json = parsed.json();
  const std::string name = signature_name(json);
  const std::shared_ptr<const Servable> model = models_.find(target.model, choice);
  auto [form, inputs] = read_inputs(json, name, signature_of(*model, name));
  const ModelSpec spec = used(*model, name);
  const std::shared_ptr<RequestLog> log = due_log(models_, target.model);
  const std::string asked = log ? write_predict_request(inputs, spec) : "";
  const NamedValues outputs = model->run(name, std::move(inputs), request.deadline);
  if (log) log->write(PredictionLog::Kind::predict, spec, asked, write_predict_response(outputs, spec));
  return write_outputs(form, outputs);
}

std::string RestApi::infer_examples(const Target& target, const Request& request) const {
  const bool classifies = target.kind == Target::Kind::classify;
  const VersionChoice choice = choice_of(target);
  const ParsedObject parsed(request.body);
  const Json& json = parsed.json();
  const std::string name = signature_name(json);
  const auto examples = read_examples(json);
  const std::shared_ptr<const Servable> model = models_.find(target.model, choice);
  const NamedValues outputs = model->run(name, inputs_of(examples, signature_of(*model, name)), request.deadline);
  const ModelSpec spec = used(*model, name);
  const std::shared_ptr<RequestLog> log = due_log(models_, target.model);
  const auto write_log = [&](PredictionLog::Kind kind, const auto& write_response) {
    if (!log) return;
    std::vector<std::string> encoded;
    for (const data::Example& each : examples) encoded.push_back(data::encode(each));
    log->write(kind, spec, write_examples_request(encoded, spec), write_response());
  };
  if (classifies) {
    const std::vector<Classes> classes = classes_of(outputs, examples.size());
    write_log(PredictionLog::Kind::classify, [&] { return write_classification_response(classes, spec); });
    return write_json(classes);
  }
  const std::vector<float> results = regressions_of(outputs, examples.size());
  write_log(PredictionLog::Kind::regress, [&] { return write_regression_response(results, spec); });
  return write_json(results);
}

std::string RestApi::status(const Target& target) const {
  if (target.model.empty()) throw InvalidArgumentError("Missing model name in request.");
  std::string json = "{\n \"model_version_status\": [";
  for (const VersionStatus& each : models_.status(target.model, choice_of(target))) {
    json += json.ends_with("[") ? "\n  {\n" : ",\n  {\n";
    json += "   \"version\": \"" + std::to_string(each.version) + "\",\n   \"state\": \"";
    json += state_name(each.state);
    json += "\",\n   \"status\": {\n    \"error_code\": \"";
    json += each.error ? code_name(*each.error) : "OK";
    json += "\",\n    \"error_message\": ";
    append_string(json, each.message);
    json += "\n   }\n  }";
  }
  return json + "\n ]\n}\n";
}

std::string RestApi::metadata(const Target& target) const {
  if (target.model.empty()) throw InvalidArgumentError("Missing model name in request.");
  const std::shared_ptr<const Servable> model = models_.find(target.model, choice_of(target));
  std::string json = "{\n\"model_spec\":{\n \"name\": ";
  append_string(json, target.model);
  json += ",\n \"signature_name\": \"\",\n \"version\": \"" + std::to_string(model->version()) +
          "\"\n}\n,\n\"metadata\": {\"signature_def\": {\n \"signature_def\": {";
  for (const auto& [name, signature] : model->signatures()) {
    json += json.ends_with("{") ? "\n  " : ",\n  ";
    append_string(json, name);
    json += ": {\n   \"inputs\": ";
    append_tensors(json, signature.inputs);
    json += ",\n   \"outputs\": ";
    append_tensors(json, signature.outputs);
    json += ",\n   \"method_name\": ";
    append_string(json, signature.method);
    json += ",\n   \"defaults\": {}\n  }";
  }
  return json + "\n }\n}\n}\n}\n";
}

}  // namespace tapestry::serve
