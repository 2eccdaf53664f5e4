#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/grpc_server.hpp"
#include "serve/http_server.hpp"

namespace tapestry::serve {

/// What the program is told to do. The flags and files are those of TensorFlow Serving, as far as they apply.
struct Flags {
  HttpOptions http{};
  std::optional<GrpcOptions> grpc{};           ///< nothing: no gRPC
  std::vector<ModelConfig> models{};           ///< of --model_name and --model_base_path
  std::string model_config_file{};             ///< "": none
  std::int64_t model_config_poll_seconds = 0;  ///< 0: the file is read once
  std::int64_t folder_poll_seconds = 1;        ///< 0: the folders are looked at once
  std::optional<BatchingOptions> batching{};
  std::size_t most_runs = 0;               ///< of each model at the same time; 0: twice the processors
  bool labels_of_absent_versions = false;  ///< as in StoreOptions, and so are the next two
  std::chrono::milliseconds load_retry_interval = StoreOptions().retry_interval;
  int most_load_retries = StoreOptions().most_retries;
  int warm_up_iterations = WarmUpOptions().iterations;
  std::vector<std::string> notes{};  ///< what is accepted and does nothing, a line for each
  bool help = false, version = false;
};

/// What --help prints.
std::string_view usage();

/// Throws InvalidArgumentError for a flag that makes no sense, or where a server that others can reach would have
/// neither a token nor --insecure; NotFoundError for a file that is missing.
Flags parse_flags(const std::vector<std::string>& arguments);

/// The models of a configuration file: `model_config_list { config { name: "m" base_path: "/models/m" } }`.
/// `notes`: gets a line for each field that does nothing.
std::vector<ModelConfig> parse_models(std::string_view text, const std::string& name,
                                      std::vector<std::string>* notes = nullptr);
/// The parameters of batches: `max_batch_size { value: 32 }`.
BatchingOptions parse_batching(std::string_view text, const std::string& name,
                               std::vector<std::string>* notes = nullptr);

/// The keys of gRPC's port: `server_key: "..." server_cert: "..." custom_ca: "..." client_verify: true`.
detail::TlsKeys parse_ssl(std::string_view text, const std::string& name);

/// The bytes of a file. Throws NotFoundError.
std::string read_file(const std::string& path);

}  // namespace tapestry::serve
