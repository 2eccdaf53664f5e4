#include <thread>

#include <doctest/doctest.h>

#include "models.hpp"
#include "serve/flags.hpp"

// Which versions are served, and configuration files.

namespace tapestry::serve::store_test {
namespace {

double answer_of(const Servable& model, double x) {
  const NamedValues outputs = model.run("serving_default", {{"x", tensor<float>({static_cast<float>(x)})}}, soon());
  return std::get<Tensor>(outputs.at("y")).item<float>();
}

std::string states_of(const ModelStore& store, const std::string& model) {
  std::string text;
  for (const VersionStatus& each : store.status(model))
    text += std::to_string(each.version) + ":" + std::to_string(static_cast<int>(each.state)) +
            (each.error ? "!" : "") + " ";
  return text;
}

TEST_CASE("a new version replaces an older one, which lives as long as it is in use") {
  const TemporaryFolder folder;
  std::vector<std::string> lines;
  ModelStore store({.log = [&](const std::string& line) { lines.push_back(line); }});
  store.configure({{.name = "m", .base_path = folder / "m"}});
  store.look();
  CHECK(!store.is_ready());
  CHECK_THROWS_AS(store.find("m"), NotFoundError);

  std::filesystem::create_directories(folder / "m" / "notes");
  write_line(folder / "m" / "2", 1, 2);
  store.look();
  CHECK(store.is_ready());
  const auto second = store.find("m");
  CHECK(second->version() == 2);

  write_line(folder / "m" / "10", 1, 10);
  write_line(folder / "m" / "9", 1, 9);
  store.look();
  CHECK(store.find("m")->version() == 10);
  CHECK_THROWS_WITH(store.find("m", {.version = 2}), "Servable not found for request: Specific(m, 2)");
  CHECK(states_of(store, "m") == "10:30 2:50 ");
  CHECK(answer_of(*second, 1) == 3);
  CHECK(answer_of(*store.find("m"), 1) == 11);

  std::filesystem::remove_all(folder / "m" / "10");
  store.look();
  CHECK(store.find("m")->version() == 9);
  std::filesystem::remove_all(folder / "m" / "9");
  std::filesystem::remove_all(folder / "m" / "2");
  store.look();
  CHECK_THROWS_AS(store.find("m"), NotFoundError);
  CHECK(states_of(store, "m") == "10:50 9:50 2:50 ");
  CHECK(lines.front().starts_with("Cannot look for versions of m in " + (folder / "m").string()));
  CHECK(lines.at(1) == "Serving version 2 of m");
  CHECK(lines.back() == "No longer serving version 9 of m");
}

TEST_CASE("of the versions that have ended, the newest hundred are known") {
  const TemporaryFolder folder;
  ModelStore store;
  store.configure({{.name = "m", .base_path = folder / "m"}});
  write_line(folder / "source", 1, 1);
  constexpr int most = 120;
  std::filesystem::create_directory(folder / "m");
  for (int i = 1; i <= most; ++i) {
    std::filesystem::rename(i == 1 ? folder / "source" : folder / "m" / std::to_string(i - 1),
                            folder / "m" / std::to_string(i));
    store.look();
    CHECK(store.find("m")->version() == i);
  }
  const std::vector<VersionStatus> known = store.known("m");
  REQUIRE(known.size() == 101);
  CHECK(known.front().state == VersionState::available);
  CHECK(known.back().version == most - 100);
  CHECK_THROWS_AS(store.status("m", {.version = 1, .label = {}}), NotFoundError);
}

TEST_CASE("what is served stays while its folder cannot be seen") {
  const TemporaryFolder folder;
  std::vector<std::string> lines;
  ModelStore store({.log = [&](const std::string& line) { lines.push_back(line); }});
  write_line(folder / "m" / "1", 1, 1);
  store.configure({{.name = "m", .base_path = folder / "m"}});
  store.look();
  std::filesystem::rename(folder / "m", folder / "gone");
  for (int i = 0; i < 3; ++i) store.look();
  CHECK(answer_of(*store.find("m"), 1) == 2);
  CHECK(lines.size() == 2);  // the trouble is told once
  std::filesystem::rename(folder / "gone", folder / "m");
  store.look();
  CHECK(lines.size() == 2);  // nothing is loaded again
}

TEST_CASE("a model without versions is told with its folder") {
  const TemporaryFolder folder;
  std::vector<std::string> lines;
  ModelStore store({.log = [&](const std::string& line) { lines.push_back(line); }});
  write_line(folder / "m" / "1", 1, 1);
  store.configure({{.name = "m", .base_path = folder / "m" / "1"}});
  store.look();
  store.look();
  CHECK(lines == std::vector<std::string>{"No versions of m found under " + (folder / "m" / "1").string() +
                                          ": each is a folder whose name is a number, such as " +
                                          (folder / "m" / "1" / "1").string()});
}

TEST_CASE("another base path is another model, also of the same version") {
  const TemporaryFolder folder;
  ModelStore store;
  write_line(folder / "a" / "1", 1, 1);
  write_line(folder / "b" / "1", 1, 100);
  for (const auto& [name, answer] : {std::pair("a", 1.0), {"b", 100.0}}) {
    store.configure({{.name = "m", .base_path = folder / name}});
    store.look();
    CHECK(answer_of(*store.find("m"), 0) == answer);
  }
}

TEST_CASE("a version that cannot be loaded ends no other, and is tried again when it changes") {
  const TemporaryFolder folder;
  ModelStore store;
  store.configure({{.name = "m", .base_path = folder / "m"}});
  write_line(folder / "m" / "1", 1, 1);
  store.look();
  std::filesystem::create_directories(folder / "m" / "2");
  store.look();
  CHECK(store.find("m")->version() == 1);
  CHECK(states_of(store, "m") == "2:50! 1:30 ");
  const VersionStatus failed = store.status("m", {.version = 2}).at(0);
  CHECK(failed.error == Code::not_found);
  CHECK(failed.message.find("saved_model.pb") != std::string::npos);

  std::ofstream(folder / "m" / "2" / "saved_model.pb") << "\xff\xff\xff";
  store.look();
  CHECK(store.status("m", {.version = 2}).at(0).error == Code::data_loss);
  std::filesystem::resize_file(folder / "m" / "2" / "saved_model.pb", std::uintmax_t{1} << 40);
  // Clocks of file systems tick slowly; a later time is what a real change brings.
  const auto in_hours = [](int hours) {
    return std::filesystem::file_time_type::clock::now() + std::chrono::hours(hours);
  };
  std::filesystem::last_write_time(folder / "m" / "2" / "saved_model.pb", in_hours(1));
  store.look();
  CHECK(store.status("m", {.version = 2}).at(0).error == Code::resource_exhausted);
  CHECK(store.find("m")->version() == 1);

  std::filesystem::remove_all(folder / "m" / "2");
  store.look();
  CHECK(states_of(store, "m") == "1:30 ");
  write_line(folder / "m" / "2", 1, 2);
  store.look();
  CHECK(store.find("m")->version() == 2);
  CHECK(states_of(store, "m") == "2:30 1:50 ");
}

TEST_CASE("a version that is completed in place, file by file, is served in the end") {
  const TemporaryFolder folder;
  ModelStore store;
  const std::filesystem::path whole = std::filesystem::path(GOLDEN_FILES) / "saved_model_texts",
                              part = folder / "m" / "1";
  store.configure({{.name = "m", .base_path = folder / "m"}});
  std::filesystem::create_directories(part / "variables");
  std::filesystem::copy(whole / "saved_model.pb", part / "saved_model.pb");
  const auto old = std::filesystem::last_write_time(part) - std::chrono::hours(1);
  const auto fails = [&] {
    store.look();
    return store.status("m").at(0).error.has_value();
  };
  CHECK(fails());
  const std::string index = "variables/variables.index", data = "variables/variables.data-00000-of-00001";
  std::filesystem::copy(whole / index, part / index);
  CHECK(fails());
  const std::string bytes = read_file(whole / data);
  std::ofstream(part / data, std::ios::binary) << bytes.substr(0, 5);
  CHECK(fails());
  std::ofstream(part / data, std::ios::binary | std::ios::app) << bytes.substr(5);
  // As copies with their times do.
  for (const std::string& each : {index, data, std::string("variables"), std::string(".")})
    std::filesystem::last_write_time(part / each, old);
  CHECK(!fails());
  CHECK(store.is_ready());
}

TEST_CASE("a version whose trouble leaves no trace is tried again a few times") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "m" / "1" / "saved_model.pb";
  int tries = 0;
  ModelStore store({.log = [&](const std::string&) { ++tries; }, .retry_interval = {}, .most_retries = 2});
  write_line(folder / "m" / "1", 1, 1);
  const auto written = std::filesystem::last_write_time(file),
             made = std::filesystem::last_write_time(folder / "m" / "1");
  const std::string bytes = read_file(file);
  const auto write = [&](const std::string& content) {
    std::ofstream(file, std::ios::binary) << content;
    std::filesystem::last_write_time(file, written);
    std::filesystem::last_write_time(folder / "m" / "1", made);
  };
  write(std::string(bytes.size(), '\xff'));
  store.configure({{.name = "m", .base_path = folder / "m"}});
  for (int i = 0; i < 10; ++i) store.look();
  CHECK(tries == 3);
  ModelStore other({.retry_interval = {}});
  other.configure({{.name = "m", .base_path = folder / "m"}});
  other.look();
  write(bytes);
  other.look();
  CHECK(other.is_ready());
}

TEST_CASE("a SavedModel as text is served, and a mistake in it is told with its file and line") {
  const TemporaryFolder folder;
  write_line(folder / "m" / "1", 2, 1);
  const std::filesystem::path binary = folder / "m" / "1" / "saved_model.pb",
                              text = folder / "m" / "1" / "saved_model.pbtxt";
  const std::string written = io::to_text(read_file(binary), io::TextMessage::saved_model);
  std::filesystem::remove(binary);
  std::ofstream(text) << written;
  const Servable model("m", 1, folder / "m" / "1");
  CHECK(answer_of(model, 3) == 7);
  std::ofstream(text) << "meta_graphs {\n  nonsense\n";
  CHECK_THROWS_AS(Servable("m", 1, folder / "m" / "1"), DataLossError);
  CHECK_THROWS_WITH(Servable("m", 1, folder / "m" / "1"), doctest::Contains("saved_model.pbtxt"));
}

TEST_CASE("policies, labels, and a configuration that changes") {
  const TemporaryFolder folder;
  ModelStore store;
  for (int version = 1; version <= 4; ++version) write_line(folder / "m" / std::to_string(version), 1, version);
  using Kind = VersionPolicy::Kind;
  const auto states_with = [&](const VersionPolicy& policy, const std::map<std::string, std::int64_t>& labels = {}) {
    store.configure({{.name = "m", .base_path = folder / "m", .policy = policy, .labels = labels}});
    store.look();
    return states_of(store, "m");
  };
  CHECK(states_with({.kind = Kind::latest, .latest = 2}, {{"canary", 4}, {"old", 3}}) == "4:30 3:30 ");
  CHECK(store.find("m", {.label = "canary"})->version() == 4);
  CHECK_THROWS_WITH(store.find("m", {.label = "new"}), "Unrecognized servable version label: new");
  // A version that is not there gets no label; the labels stay as they were.
  CHECK(states_with({.kind = Kind::latest, .latest = 2}, {{"canary", 3}, {"old", 1}}) == "4:30 3:30 ");
  CHECK_THROWS_WITH_AS(
      store.require_labels(),
      "Request to assign label to version 1 of model m, which is not currently available for inference",
      FailedPreconditionError);
  CHECK(store.find("m", {.label = "canary"})->version() == 4);
  CHECK(store.find("m", {.label = "old"})->version() == 3);
  const std::map<std::string, std::int64_t> labels{{"canary", 3}, {"old", 1}};
  CHECK(states_with({.kind = Kind::specific, .specific = {1, 3, 7}}, labels) == "4:50 3:30 1:30 ");
  store.require_labels();
  CHECK(store.find("m", {.label = "old"})->version() == 1);
  // One that goes later keeps its label.
  CHECK(states_with({.kind = Kind::specific, .specific = {3}}, labels) == "4:50 3:30 1:50 ");
  store.require_labels();
  CHECK_THROWS_WITH(store.find("m", {.label = "old"}), "Servable not found for request: Specific(m, 1)");
  ModelStore lenient({.labels_of_absent_versions = true});
  lenient.configure({{.name = "m", .base_path = folder / "m", .labels = {{"next", 5}}}});
  lenient.look();
  lenient.require_labels();
  CHECK_THROWS_WITH(lenient.find("m", {.label = "next"}), "Servable not found for request: Specific(m, 5)");
  CHECK(states_with({.kind = Kind::all}) == "4:30 3:30 2:30 1:30 ");

  store.configure({{.name = "other", .base_path = folder / "m"}});
  store.look();
  CHECK(store.names() == std::vector<std::string>{"other"});
  CHECK_THROWS_AS(store.find("m"), NotFoundError);
  CHECK_THROWS_AS(store.configure({{.name = "a", .base_path = "b"}, {.name = "a", .base_path = "c"}}),
                  InvalidArgumentError);
}

// ---- Flags and files

TEST_CASE("a configuration file of several models") {
  const auto models = parse_models(R"(
      # two models
      model_config_list: {
        config {
          name: "a", base_path: '/models/' "a"
          model_platform: "tensorflow"
          model_version_policy: { specific { versions: 1 versions: 4 } }
          version_labels { key: "stable" value: 1 }
          version_labels < key: "canary"; value: 4 >
        }
        config: { name: "b" base_path: "/models/b" model_version_policy { all {} } }
        config: { name: "c" base_path: "c" model_version_policy { latest { num_versions: 2 } } }
      })",
                                   "models.config");
  using Kind = VersionPolicy::Kind;
  const std::vector<ModelConfig> expected{{.name = "a",
                                           .base_path = "/models/a",
                                           .policy = {.kind = Kind::specific, .specific = {1, 4}},
                                           .labels = {{"stable", 1}, {"canary", 4}}},
                                          {.name = "b", .base_path = "/models/b", .policy = {.kind = Kind::all}},
                                          {.name = "c", .base_path = "c", .policy = {.latest = 2}}};
  CHECK(models == expected);
}

TEST_CASE("mistakes in configuration files are named with their lines") {
  const std::map<std::string, std::string> texts{
      {"model_config_list {\n config {\n  nam: 'a' } }", "f:3: there is no field nam here"},
      {"model_config_list {\n config { name: 'a' } }", "f:2: the model has no base_path"},
      {"model_config_list { config { base_path: 'a' } }", "f:1: the model has no name"},
      {"model_config_list {", "f:1: '}' is missing at the end"},
      {"model_config_list { config { name: 'a } }", "f:1: a string does not end"},
      {"model_config_list { config { name 'a' } }", "f:1: ':' is missing behind name"},
      {"model_config_list { config { name: } }", "f:1: the value of name is missing"},
      {"model_config_list { config { name: {} } }", "f:1: name takes a value, not { ... }"},
      {"model_config_list: 5", "f:1: model_config_list takes { ... }"},
      {"model_config_list { config { model_version_policy { latest { num_versions: x } } } }",
       "f:1: num_versions takes a whole number, not x"},
      {"model_config_list { config { model_version_policy { latest { num_versions: 0 } } } }",
       "f:1: num_versions must be at least 1"},
      {"model_config_list { config { model_platform: 'caffe' } }", "f:1: there is no platform caffe but tensorflow"},
      {"model_config_list { config { model_type: OTHER } }", "f:1: there is no model_type OTHER but TENSORFLOW"},
      {"", "f has no model"},
      {"}", "f:1: a field's name is missing"},
  };
  for (const auto& each : texts) {
    INFO(each.first);
    CHECK_THROWS_WITH(parse_models(each.first, "f"), each.second.c_str());
  }
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "a{";
  CHECK_THROWS_WITH(parse_models(deep, "f"), "f:1: messages are nested deeper than 20");
  const BatchingOptions batching = parse_batching(
      "max_batch_size { value: 32 } batch_timeout_micros: { value: 500 } max_enqueued_batches { value: 7 }\n"
      "num_batch_threads { value: 2 } allowed_batch_sizes: 8 allowed_batch_sizes: [16, 32]",
      "f");
  CHECK_THROWS_WITH(parse_batching("max_batch_size { value: 0 }", "f"), "f: max_batch_size must be at least 1");
  CHECK_THROWS_WITH(parse_batching("max_batch_size { value: 8 } allowed_batch_sizes: 4", "f"),
                    "f: allowed_batch_sizes must increase, and end with max_batch_size");
  const BatchingOptions splitting = parse_batching(
      "max_batch_size { value: 32 } enable_large_batch_splitting { value: true } max_execution_batch_size { value: 8 "
      "}\n"
      "allowed_batch_sizes: [4, 8] pad_variable_length_inputs: true",
      "f");
  CHECK(splitting.enable_large_batch_splitting);
  CHECK(splitting.most_rows() == 8);
  CHECK(splitting.pad_variable_length_inputs);
  CHECK_THROWS_WITH(parse_batching("max_batch_size { value: 8 } max_execution_batch_size { value: 9 }", "f"),
                    "f: max_execution_batch_size must be from 1 to max_batch_size, or 0 for that");
  CHECK(batching.max_batch_size == 32);
  CHECK(batching.batch_timeout_micros == 500);
  CHECK(batching.max_enqueued_batches == 7);
  CHECK(batching.num_batch_threads == 2);
  CHECK(batching.allowed_batch_sizes == std::vector<std::int64_t>{8, 16, 32});
}

TEST_CASE("what TensorFlow Serving knows and does nothing here is accepted, and named") {
  std::vector<std::string> notes;
  CHECK(parse_models("model_config_list { config { name: 'a' base_path: 'b' model_type: TENSORFLOW\n"
                     "logging_config { sampling_config { sampling_rate: 0.1 } } } }",
                     "f", &notes)
            .size() == 1);
  parse_batching("thread_pool_name { value: 'p' }", "g", &notes);
  CHECK(notes == std::vector<std::string>{"f:2: logging_config does nothing here: requests are not logged",
                                          "g:1: thread_pool_name does nothing here: threads have no pools"});
  const Flags flags =
      parse_flags({"--model_base_path=m", "--tensorflow_session_parallelism=4", "--saved_model_tags=serve",
                   "--max_runs_per_model=9", "--load_retry_interval_micros=5000"});
  CHECK(flags.notes == std::vector<std::string>{"--tensorflow_session_parallelism does nothing here"});
  CHECK(flags.most_runs == 9);
  CHECK(flags.load_retry_interval == std::chrono::milliseconds(5));
  CHECK_THROWS_AS(parse_flags({"--model_base_path=m", "--saved_model_tags=serve,gpu"}), InvalidArgumentError);
  const std::map<std::string, std::string> refused{
      {"--use_alts_credentials=true", "connections are encrypted by --ssl_certificate and --ssl_key"},
      {"--grpc_socket_path=/tmp/s", "gRPC is answered at a port (--port), not at a socket of the file system"},
      {"--platform_config_file=f", "SavedModels are the only platform; batches have --batching_parameters_file"},
      {"--prefer_tflite_model", "models of TensorFlow Lite are not served"},
      {"--mixed_precision=bfloat16", "a model computes with the types that it has"},
      {"--enable_per_model_batching_parameters=true", "all models have the parameters of --batching_parameters_file"}};
  for (const auto& each : refused) {
    const std::string flag = each.first, name = flag.substr(0, flag.find('=')), reason = each.second;
    CHECK_THROWS_WITH(parse_flags({"--model_base_path=m", flag}), (name + ": " + reason).c_str());
    // Scripts name defaults, too.
    const bool is_text =
        name == "--grpc_socket_path" || name == "--platform_config_file" || name == "--mixed_precision";
    CHECK(parse_flags({"--model_base_path=m", name + (is_text ? "=" : "=false")}).notes.empty());
  }
  CHECK(parse_flags({"--version"}).version);
  CHECK_THROWS_WITH(parse_flags({"--model_base_path=m", "--host="}), "--host needs an address");
  CHECK_THROWS_WITH(parse_flags({"--model_base_path=m", "--port=8501"}),
                    "--port and --rest_api_port are both 8501, but each protocol needs its own");
}

TEST_CASE("flags") {
  const Flags flags = parse_flags({"--model_name=m", "--model_base_path=/m", "--rest_api_port=0", "--enable_batching",
                                   "--rest_api_timeout_in_ms=50", "--rest_api_enable_cors_support=false"});
  CHECK(flags.models == std::vector<ModelConfig>{{.name = "m", .base_path = "/m"}});
  CHECK(flags.http.port == 0);
  CHECK(flags.http.timeout == std::chrono::milliseconds(50));
  CHECK(!flags.http.cors);
  CHECK(flags.batching.has_value());
  CHECK(!parse_flags({"--model_base_path=m", "--enable_batching=false"}).batching);
  CHECK(parse_flags({"--help"}).help);
  CHECK(parse_flags({"--model_base_path=m", "--host=0.0.0.0", "--insecure"}).http.host == "0.0.0.0");

  CHECK(!flags.grpc);
  const Flags both =
      parse_flags({"--model_base_path=m", "--port=5", "--grpc_max_threads=7", "--rest_api_timeout_in_ms=50"});
  REQUIRE(both.grpc);
  CHECK(both.grpc->port == 5);
  CHECK(both.grpc->calls_at_once == 7);
  CHECK(both.grpc->timeout == std::chrono::milliseconds(50));
  const std::string certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                    key = "-----BEGIN EC PRIVATE KEY-----\nA'A\n-----END EC PRIVATE KEY-----\n";
  const std::string both_keys =
      "server_key: '-----BEGIN EC PRIVATE KEY-----\\n\\x41\\'\\101\\n-----END EC PRIVATE KEY-----\\n' "
      "server_cert: '-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n' ";
  const std::string an_authority = "custom_ca: '-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n' ";
  CHECK(parse_ssl(both_keys + an_authority + "client_verify: true", "f") ==
        detail::TlsKeys{.certificate = certificate, .key = key, .authority = certificate});
  CHECK(parse_ssl(both_keys + an_authority, "f").authority.empty());
  for (const char* nothing : {" ", "\\n \\n", "# to come"})
    CHECK_THROWS_WITH(parse_ssl(detail::join(both_keys, "custom_ca: '", nothing, "' client_verify: true"), "f"),
                      "f: custom_ca has no CERTIFICATE in PEM");
  CHECK_THROWS_WITH(parse_ssl("server_key: ' ' server_cert: 'C'", "f"), "f: server_key has no PRIVATE KEY in PEM");
  CHECK_THROWS_WITH(parse_ssl("server_cert: ' ' " + both_keys.substr(0, both_keys.find("server_cert")), "f"),
                    "f: server_cert has no CERTIFICATE in PEM");
  CHECK_THROWS_WITH(parse_ssl("server_key: '\\q'", "f"), "f:1: a string has a '\\' that stands for nothing");
  CHECK_THROWS_WITH(parse_ssl("server_key: 'K'", "f"), "f needs server_key and server_cert");
  CHECK_THROWS_WITH(parse_ssl(both_keys + "client_verify: true", "f"), "f: client_verify needs custom_ca");

  const std::map<std::string, std::vector<std::string>> wrong{
      {"Either --model_base_path or --model_config_file", {}},
      {"Either --model_base_path or --model_config_file ", {"--model_base_path=m", "--model_config_file=f"}},
      {"Unknown flag: --prot=5", {"--model_base_path=m", "--prot=5"}},
      {"Unknown flag: m", {"--model_base_path=m", "m"}},
      {"--rest_api_port takes a whole number of at least 0, not \"x\"", {"--rest_api_port=x"}},
      {"--rest_api_port takes a whole number of at least 0, not \"-1\"", {"--rest_api_port=-1"}},
      {"--rest_api_port: ports end at 65535", {"--rest_api_port=65536"}},
      {"--rest_api_timeout_in_ms takes", {"--rest_api_timeout_in_ms"}},
      {"--enable_batching takes true or false", {"--enable_batching=x"}},
      {"--batching_parameters_file needs --enable_batching", {"--model_base_path=m", "--batching_parameters_file=f"}},
      {"Cannot read the file /no/file", {"--token_file=/no/file"}},
      {"--ssl_config_file is for gRPC", {"--model_base_path=m", "--ssl_config_file=f"}},
      {"Cannot read the file f", {"--model_base_path=m", "--port=0", "--ssl_config_file=f"}},
      {"--port: ports end at 65535", {"--port=65536"}},
      {"--ssl_certificate needs a file", {"--model_base_path=m", "--ssl_certificate=", "--ssl_key="}},
      {"--ssl_key needs a file", {"--model_base_path=m", "--ssl_certificate=f", "--ssl_key="}},
      {"--ssl_config_file needs a file", {"--model_base_path=m", "--port=0", "--ssl_config_file="}},
      {"/dev/null has no CERTIFICATE in PEM",
       {"--model_base_path=m", "--port=0", "--ssl_certificate=/dev/null", "--ssl_key=/dev/null"}},
      {"Cannot read the file /dev", {"--model_base_path=m", "--port=0", "--ssl_config_file=/dev"}},
      {"--ssl_certificate and --ssl_key need each other", {"--model_base_path=m", "--ssl_key=f"}},
      {"Other machines reach 0.0.0.0: set a token", {"--model_base_path=m", "--host=0.0.0.0"}},
      {"Other machines reach 127.example.com: set a token", {"--model_base_path=m", "--host=127.example.com"}},
      {"Other machines reach ::: set a token", {"--model_base_path=m", "--host=::"}},
  };
  for (const auto& each : wrong) {
    INFO(each.first);
    CHECK_THROWS_WITH(parse_flags(each.second), doctest::Contains(each.first.c_str()));
  }
}

}  // namespace
}  // namespace tapestry::serve::store_test
