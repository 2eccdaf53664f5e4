#include "serve/flags.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>

#include <arpa/inet.h>

#include "serve/text_proto.hpp"

namespace tapestry::serve {
namespace {

using Field = TextProto::Field;

using Notes = std::vector<std::string>;

void note(Notes* notes, const Field& field, const char* consequence) {
  if (notes) notes->push_back(detail::join(field.place, ": ", field.name, " does nothing here: ", consequence));
}

/// Flags of TensorFlow Serving's that change no answer there, and nothing at all here.
bool has_no_effect(std::string_view flag) {
  constexpr std::array<std::string_view, 20> flags{
      "--enable_grpc_healthcheck_service",
      "--enable_profiler",
      "--enable_serialization_as_tensor_content",
      "--enable_signature_method_name_check",
      "--flush_filesystem_caches",
      "--grpc_channel_arguments",
      "--num_load_threads",
      "--num_tflite_interpreters_per_pool",
      "--num_tflite_pools",
      "--num_unload_threads",
      "--per_process_gpu_memory_fraction",
      "--profiler_max_trace_buffer_size",
      "--remove_unused_fields_from_bundle_metagraph",
      "--skip_initialize_tpu",
      "--tensorflow_inter_op_parallelism",
      "--tensorflow_intra_op_parallelism",
      "--tensorflow_session_config_file",
      "--tensorflow_session_parallelism",
      "--thread_pool_factory_config_file",
      "--xla_cpu_compilation_enabled",
  };
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

/// A wrapped number: `{ value: 32 }`.
std::int64_t wrapped_number(const Field& field) {
  std::int64_t number = 0;
  for (const Field& each : field.as_message().fields()) {
    if (each.name != "value") each.refuse();
    number = each.as_number();
  }
  return number;
}

/// A wrapped bool: `{ value: true }`.
bool wrapped_bool(const Field& field) {
  bool yes = false;
  for (const Field& each : field.as_message().fields()) {
    if (each.name != "value") each.refuse();
    yes = each.as_bool();
  }
  return yes;
}

VersionPolicy parse_policy(const Field& field) {
  VersionPolicy policy;
  using Kind = VersionPolicy::Kind;
  for (const Field& each : field.as_message().fields()) {
    const auto& inner = each.as_message().fields();
    if (each.name == "latest") {
      policy.kind = Kind::latest;
      for (const Field& number : inner) {
        if (number.name != "num_versions") number.refuse();
        policy.latest = number.as_number();
        if (policy.latest < 1) throw InvalidArgumentError(number.place + ": num_versions must be at least 1");
      }
    } else if (each.name == "all") {
      policy.kind = Kind::all;
      for (const Field& any : inner) any.refuse();
    } else if (each.name == "specific") {
      policy.kind = Kind::specific;
      for (const Field& number : inner) {
        if (number.name != "versions") number.refuse();
        policy.specific.insert(number.as_number());
      }
    } else {
      each.refuse();
    }
  }
  return policy;
}

void parse_label(const Field& field, ModelConfig& model) {
  std::string key;
  std::int64_t value = 0;
  for (const Field& each : field.as_message().fields()) {
    if (each.name == "key") {
      key = each.as_text();
    } else if (each.name == "value") {
      value = each.as_number();
    } else {
      each.refuse();
    }
  }
  model.labels[key] = value;
}

/// Nothing where there is no file to write requests into.
std::optional<LoggingConfig> parse_logging(const Field& field, Notes* notes) {
  LoggingConfig logging;
  for (const Field& part : field.as_message().fields()) {
    for (const Field& each : part.as_message().fields()) {
      if (part.name == "log_collector_config" && each.name == "filename_prefix") {
        logging.filename_prefix = each.as_text();
      } else if (part.name == "log_collector_config" && each.name == "type") {
        if (!each.as_text().empty())
          throw InvalidArgumentError(each.place + ": there is no type " + each.value + " of logs but \"\", files");
      } else if (part.name == "sampling_config" && each.name == "sampling_rate") {
        logging.sampling_rate = each.as_fraction();
      } else {
        each.refuse();
      }
    }
    if (part.name != "log_collector_config" && part.name != "sampling_config") part.refuse();
  }
  if (!logging.filename_prefix.empty() && logging.sampling_rate > 0) return logging;
  note(notes, field, "requests are not logged");
  return std::nullopt;
}

ModelConfig parse_model(const Field& field, Notes* notes) {
  ModelConfig model;
  for (const Field& each : field.as_message().fields()) {
    if (each.name == "name") {
      model.name = each.as_text();
    } else if (each.name == "base_path") {
      model.base_path = each.as_text();
    } else if (each.name == "model_platform") {
      if (each.as_text() != "tensorflow")
        throw InvalidArgumentError(each.place + ": there is no platform " + each.value + " but tensorflow");
    } else if (each.name == "model_type") {  // the platform's name before there were platforms
      const std::string& type = each.as_text();
      if (type != "TENSORFLOW" && type != "MODEL_TYPE_UNSPECIFIED" && type != "0" && type != "1")
        throw InvalidArgumentError(each.place + ": there is no model_type " + type + " but TENSORFLOW");
    } else if (each.name == "logging_config") {
      model.logging = parse_logging(each, notes);
    } else if (each.name == "model_version_policy") {
      model.policy = parse_policy(each);
    } else if (each.name == "version_labels") {
      parse_label(each, model);
    } else {
      each.refuse();
    }
  }
  if (model.name.empty()) throw InvalidArgumentError(field.place + ": the model has no name");
  if (model.base_path.empty()) throw InvalidArgumentError(field.place + ": the model has no base_path");
  return model;
}

/// Where Prometheus finds the numbers; "" if it is switched off.
std::string parse_monitoring(std::string_view text, const std::string& name) {
  bool enabled = false;
  std::string path = HttpOptions().metrics_path;
  const TextProto file = TextProto::parse(text, name);
  for (const Field& field : file.fields()) {
    if (field.name != "prometheus_config") field.refuse();
    for (const Field& each : field.as_message().fields()) {
      if (each.name == "enable") {
        enabled = each.as_bool();
      } else if (each.name == "path") {
        path = each.as_text();
      } else {
        each.refuse();
      }
    }
  }
  return enabled ? path : "";
}

/// A flag with its value.
struct Flag {
  std::string name, value;
  bool has_value;

  std::int64_t number(std::int64_t least) const {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < least)
      throw InvalidArgumentError(
          detail::join(name, " takes a whole number of at least ", least, ", not \"", value, '"'));
    return number;
  }
  int port() const {
    const std::int64_t port = number(0);
    if (port > 65535) throw InvalidArgumentError(name + ": ports end at 65535");
    return static_cast<int>(port);
  }
  [[noreturn]] void refuse(const char* reason) const { throw InvalidArgumentError(detail::join(name, ": ", reason)); }
  /// Of a file. Nothing would mean that the flag was not given, and that nothing is encrypted.
  const std::string& path() const {
    if (value.empty()) throw InvalidArgumentError(name + " needs a file");
    return value;
  }
  bool yes() const {
    if (!has_value || value == "true" || value == "1") return true;
    if (value == "false" || value == "0") return false;
    throw InvalidArgumentError(name + " takes true or false, not \"" + value + '"');
  }
};

bool is_loopback(const std::string& host) {
  in_addr address{};
  const bool is_number = ::inet_pton(AF_INET, host.c_str(), &address) == 1;
  return host == "localhost" || host == "::1" || (is_number && host.starts_with("127."));
}

std::string first_line(const std::string& text) { return text.substr(0, text.find_first_of("\r\n")); }

}  // namespace

std::string_view usage() {
  return R"(usage: tapestry-serve --model_base_path=FOLDER [--model_name=NAME] [FLAG]...
       tapestry-serve --model_config_file=FILE [FLAG]...

Answers requests for the predictions of SavedModels, as TensorFlow Serving does over HTTP and gRPC. The folder of a model has
a folder for each version, FOLDER/1, FOLDER/2; new ones are served as they appear.

  --model_name=NAME               the model's name in requests (default: default)
  --model_base_path=FOLDER        the model's folder
  --model_config_file=FILE        several models: model_config_list { config { name: "m" base_path: "/models/m" } }
  --model_config_file_poll_wait_seconds=N  how often that file is read again (default: 0, never)
  --file_system_poll_wait_seconds=N        how often the folders are looked at (default: 1; 0: once)
  --max_num_load_retries=N        how often a version that cannot be loaded is tried again, while its files stay as they
                                  are (default: 5)
  --load_retry_interval_micros=N  and after which time (default: 60000000)
  --enable_model_warmup=false     do not run the requests in the file assets.extra/tf_serving_warmup_requests of a version
                                  before it is served
  --num_request_iterations_for_warmup=N    how often each of them is run (default: 1)
  --allow_version_labels_for_unavailable_models  a label may name a version that is not served
  --rest_api_port=N               the port for HTTP (default: 8501; 0: any free one, which is printed)
  --port=N                        also answer gRPC, at this port (0: any free one, which is printed)
  --grpc_max_threads=N            the most gRPC requests that are answered at the same time (default: 1024)
  --rest_api_timeout_in_ms=N      how long a request may take (default: 30000)
  --rest_api_num_threads=N        the most connections that are served at the same time (default: 1024)
  --rest_api_enable_cors_support  pages of other sites may ask
  --rest_api_max_body_bytes=N     the largest request (default: 268435456)
  --max_runs_per_model=N          the most requests of a model that run at the same time (default: twice the processors)
  --max_request_memory_bytes=N    the bodies of all requests that are being answered (default: 2147483648)
  --enable_batching               requests that come together run together
  --batching_parameters_file=FILE max_batch_size { value: 64 } batch_timeout_micros { value: 1000 } ...
  --monitoring_config_file=FILE   prometheus_config { enable: true path: "/metrics" }
  --host=ADDRESS                  where to listen (default: 127.0.0.1, for programs on this machine only). Any other
                                  address needs --token_file or --insecure
  --token_file=FILE               the first line is a token, which requests must carry: "Authorization: Bearer TOKEN"
  --ssl_certificate=FILE, --ssl_key=FILE   encrypt both ports by TLS; files in PEM
  --ssl_config_file=FILE          encrypt gRPC's port otherwise, and let it ask for clients' certificates:
                                  server_key: "PEM" server_cert: "PEM" custom_ca: "PEM" client_verify: true
  --insecure                      anyone who reaches the address may ask
  --help, --version               print this, or the version
)";
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  try {
    if (file) return {std::istreambuf_iterator<char>(file), {}};
  } catch (const std::ios_base::failure&) {  // a folder can be opened, but not read
  }
  throw NotFoundError("Cannot read the file " + path);
}

std::vector<ModelConfig> parse_models(std::string_view text, const std::string& name, Notes* notes) {
  std::vector<ModelConfig> models;
  const TextProto file = TextProto::parse(text, name);
  for (const Field& field : file.fields()) {
    if (field.name != "model_config_list") field.refuse();
    for (const Field& each : field.as_message().fields()) {
      if (each.name != "config") each.refuse();
      models.push_back(parse_model(each, notes));
    }
  }
  if (models.empty()) throw InvalidArgumentError(name + " has no model");
  return models;
}

BatchingOptions parse_batching(std::string_view text, const std::string& name, Notes* notes) {
  BatchingOptions options;
  const TextProto file = TextProto::parse(text, name);
  for (const Field& each : file.fields()) {
    if (each.name == "max_batch_size") {
      options.max_batch_size = wrapped_number(each);
    } else if (each.name == "batch_timeout_micros") {
      options.batch_timeout_micros = wrapped_number(each);
    } else if (each.name == "max_enqueued_batches") {
      options.max_enqueued_batches = wrapped_number(each);
    } else if (each.name == "num_batch_threads") {
      options.num_batch_threads = wrapped_number(each);
    } else if (each.name == "allowed_batch_sizes") {
      options.allowed_batch_sizes.push_back(each.as_number());
    } else if (each.name == "thread_pool_name") {
      note(notes, each, "threads have no pools");
    } else if (each.name == "pad_variable_length_inputs") {
      options.pad_variable_length_inputs = each.as_bool();
    } else if (each.name == "enable_large_batch_splitting") {
      options.enable_large_batch_splitting = wrapped_bool(each);
    } else if (each.name == "max_execution_batch_size") {
      options.max_execution_batch_size = wrapped_number(each);
    } else {
      each.refuse();
    }
  }
  try {
    check(options);
  } catch (const InvalidArgumentError& error) {
    throw InvalidArgumentError(name + ": " + error.message());
  }
  return options;
}

detail::TlsKeys parse_ssl(std::string_view text, const std::string& name) {
  detail::TlsKeys keys;
  std::string authority;
  bool verifies = false;
  const TextProto file = TextProto::parse(text, name);
  for (const Field& each : file.fields()) {
    if (each.name == "server_key") {
      keys.key = each.as_text();
    } else if (each.name == "server_cert") {
      keys.certificate = each.as_text();
    } else if (each.name == "custom_ca") {
      authority = each.as_text();
    } else if (each.name == "client_verify") {
      verifies = each.as_bool();
    } else {
      each.refuse();
    }
  }
  if (keys.key.empty() || keys.certificate.empty())
    throw InvalidArgumentError(name + " needs server_key and server_cert");
  detail::require_pem(keys.key, "PRIVATE KEY", name + ": server_key");
  detail::require_pem(keys.certificate, "CERTIFICATE", name + ": server_cert");
  if (verifies && authority.empty()) throw InvalidArgumentError(name + ": client_verify needs custom_ca");
  if (verifies) {
    detail::require_pem(authority, "CERTIFICATE", name + ": custom_ca");
    keys.authority = authority;
  }
  return keys;
}

namespace {

/// What the command line has given so far.
struct Given {
  Flags flags{};
  ModelConfig model{.name = "default", .base_path = {}};
  std::string batching_file{}, ssl_file{};
  std::int64_t grpc_calls = GrpcOptions().calls_at_once;
  bool insecure = false, warms_up = true;
};

struct KnownFlag {
  std::string_view name;
  void (*take)(Given&, const Flag&);
};
constexpr KnownFlag known_flags[] = {
    {"--help", [](Given& given, const Flag&) { given.flags.help = true; }},
    {"--model_name", [](Given& given, const Flag& flag) { given.model.name = flag.value; }},
    {"--model_base_path", [](Given& given, const Flag& flag) { given.model.base_path = flag.value; }},
    {"--model_config_file", [](Given& given, const Flag& flag) { given.flags.model_config_file = flag.value; }},
    {"--model_config_file_poll_wait_seconds",
     [](Given& given, const Flag& flag) { given.flags.model_config_poll_seconds = flag.number(0); }},
    {"--file_system_poll_wait_seconds",
     [](Given& given, const Flag& flag) { given.flags.folder_poll_seconds = flag.number(0); }},
    {"--rest_api_port", [](Given& given, const Flag& flag) { given.flags.http.port = flag.port(); }},
    {"--port", [](Given& given, const Flag& flag) { given.flags.grpc.emplace().port = flag.port(); }},
    {"--grpc_max_threads", [](Given& given, const Flag& flag) { given.grpc_calls = flag.number(1); }},
    {"--rest_api_timeout_in_ms",
     [](Given& given, const Flag& flag) { given.flags.http.timeout = std::chrono::milliseconds(flag.number(1)); }},
    {"--rest_api_num_threads",
     [](Given& given, const Flag& flag) { given.flags.http.threads = static_cast<std::size_t>(flag.number(1)); }},
    {"--rest_api_enable_cors_support", [](Given& given, const Flag& flag) { given.flags.http.cors = flag.yes(); }},
    {"--max_request_memory_bytes",
     [](Given& given, const Flag& flag) {
       given.flags.http.memory = std::make_shared<RequestMemory>(static_cast<std::size_t>(flag.number(1)));
     }},
    {"--rest_api_max_body_bytes",
     [](Given& given, const Flag& flag) {
       given.flags.http.most_body_bytes = static_cast<std::size_t>(flag.number(1));
     }},
    {"--enable_batching",
     [](Given& given, const Flag& flag) {
       given.flags.batching = flag.yes() ? std::optional(BatchingOptions()) : std::nullopt;
     }},
    {"--batching_parameters_file", [](Given& given, const Flag& flag) { given.batching_file = flag.value; }},
    {"--monitoring_config_file",
     [](Given& given, const Flag& flag) {
       given.flags.http.metrics_path = parse_monitoring(read_file(flag.value), flag.value);
     }},
    {"--host", [](Given& given, const Flag& flag) { given.flags.http.host = flag.value; }},
    {"--token_file",
     [](Given& given, const Flag& flag) {
       given.flags.http.token = first_line(read_file(flag.value));
       if (given.flags.http.token.empty()) throw InvalidArgumentError("The first line of " + flag.value + " is empty");
     }},
    {"--ssl_certificate", [](Given& given, const Flag& flag) { given.flags.http.certificate = flag.path(); }},
    {"--ssl_key", [](Given& given, const Flag& flag) { given.flags.http.key = flag.path(); }},
    {"--ssl_config_file", [](Given& given, const Flag& flag) { given.ssl_file = flag.path(); }},
    {"--max_runs_per_model",
     [](Given& given, const Flag& flag) { given.flags.most_runs = static_cast<std::size_t>(flag.number(1)); }},
    {"--allow_version_labels_for_unavailable_models",
     [](Given& given, const Flag& flag) { given.flags.labels_of_absent_versions = flag.yes(); }},
    {"--max_num_load_retries",
     [](Given& given, const Flag& flag) {
       given.flags.most_load_retries = static_cast<int>(std::min<std::int64_t>(flag.number(0), 1'000'000));
     }},
    {"--load_retry_interval_micros",
     [](Given& given, const Flag& flag) {
       given.flags.load_retry_interval = std::chrono::milliseconds(flag.number(0) / 1000);
     }},
    {"--enable_model_warmup", [](Given& given, const Flag& flag) { given.warms_up = flag.yes(); }},
    {"--num_request_iterations_for_warmup",
     [](Given& given, const Flag& flag) {
       given.flags.warm_up_iterations = static_cast<int>(std::min<std::int64_t>(flag.number(1), 1'000'000));
     }},
    {"--saved_model_tags",
     [](Given&, const Flag& flag) {
       if (flag.value != "serve") throw InvalidArgumentError(flag.name + ": models are loaded by the tag serve only");
     }},
    {"--insecure", [](Given& given, const Flag& flag) { given.insecure = flag.yes(); }},
    {"--version", [](Given& given, const Flag&) { given.flags.version = true; }},
    // What TensorFlow Serving can do and this server cannot.
    {"--grpc_socket_path",
     [](Given&, const Flag& flag) {
       if (!flag.value.empty()) flag.refuse("gRPC is answered at a port (--port), not at a socket of the file system");
     }},
    {"--use_alts_credentials",
     [](Given&, const Flag& flag) {
       if (flag.yes()) flag.refuse("connections are encrypted by --ssl_certificate and --ssl_key");
     }},
    {"--platform_config_file",
     [](Given&, const Flag& flag) {
       if (!flag.value.empty())
         flag.refuse("SavedModels are the only platform; batches have --batching_parameters_file");
     }},
    {"--prefer_tflite_model",
     [](Given&, const Flag& flag) {
       if (flag.yes()) flag.refuse("models of TensorFlow Lite are not served");
     }},
    {"--mixed_precision",
     [](Given&, const Flag& flag) {
       if (!flag.value.empty()) flag.refuse("a model computes with the types that it has");
     }},
    {"--enable_per_model_batching_parameters",
     [](Given&, const Flag& flag) {
       if (flag.yes()) flag.refuse("all models have the parameters of --batching_parameters_file");
     }},
};

/// gRPC has the limits and the secrets of HTTP, unless a file gives it keys of its own.
void complete_grpc(GrpcOptions& grpc, const Given& given) {
  const HttpOptions& http = given.flags.http;
  grpc.host = http.host;
  grpc.calls_at_once = given.grpc_calls;
  grpc.most_message_bytes = static_cast<std::int64_t>(http.most_body_bytes);
  grpc.memory = http.memory;
  grpc.timeout = http.timeout;
  grpc.token = http.token;
  if (!given.ssl_file.empty()) {
    grpc.tls = parse_ssl(read_file(given.ssl_file), given.ssl_file);
  } else if (!http.certificate.empty()) {
    grpc.tls = {.certificate = read_file(http.certificate), .key = read_file(http.key), .authority = {}};
    detail::require_pem(grpc.tls.certificate, "CERTIFICATE", http.certificate);
    detail::require_pem(grpc.tls.key, "PRIVATE KEY", http.key);
  }
}

}  // namespace

Flags parse_flags(const std::vector<std::string>& arguments) {
  Given given;
  Flags& flags = given.flags;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    const Flag flag{.name = argument.substr(0, equals),
                    .value = equals == std::string::npos ? "" : argument.substr(equals + 1),
                    .has_value = equals != std::string::npos};
    const auto* known = std::ranges::find(known_flags, flag.name, &KnownFlag::name);
    if (known != std::end(known_flags))
      known->take(given, flag);
    else if (has_no_effect(flag.name))
      flags.notes.push_back(flag.name + " does nothing here");
    else
      throw InvalidArgumentError("Unknown flag: " + argument + " (--help lists them; values follow a '=')");
  }
  if (flags.help || flags.version) return flags;
  if (!given.warms_up) flags.warm_up_iterations = 0;
  if (given.model.base_path.empty() == flags.model_config_file.empty())
    throw InvalidArgumentError("Either --model_base_path or --model_config_file tells what to serve");
  if (!given.model.base_path.empty()) flags.models = {given.model};
  if (!given.batching_file.empty()) {
    if (!flags.batching) throw InvalidArgumentError("--batching_parameters_file needs --enable_batching");
    flags.batching = parse_batching(read_file(given.batching_file), given.batching_file, &flags.notes);
  }
  if (flags.http.host.empty()) throw InvalidArgumentError("--host needs an address");
  if (flags.grpc && flags.grpc->port != 0 && flags.grpc->port == flags.http.port)
    throw InvalidArgumentError(
        detail::join("--port and --rest_api_port are both ", flags.http.port, ", but each protocol needs its own"));
  if (flags.http.certificate.empty() != flags.http.key.empty())
    throw InvalidArgumentError("--ssl_certificate and --ssl_key need each other");
  if (!is_loopback(flags.http.host) && flags.http.token.empty() && !given.insecure)
    throw InvalidArgumentError("Other machines reach " + flags.http.host +
                               ": set a token by --token_file, or let anyone ask by --insecure");
  if (!given.ssl_file.empty() && !flags.grpc)
    throw InvalidArgumentError("--ssl_config_file is for gRPC, and needs --port");
  if (flags.grpc) complete_grpc(*flags.grpc, given);
  return flags;
}

}  // namespace tapestry::serve
