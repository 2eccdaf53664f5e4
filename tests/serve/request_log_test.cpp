#include "serve/request_log.hpp"

#include <set>
#include <thread>

#include <doctest/doctest.h>

#include "client_messages.hpp"
#include "models.hpp"
#include "serve/flags.hpp"
#include "serve/rpc_api.hpp"

// Requests that are written into files, which a later version can be warmed up with.

namespace tapestry::serve::request_log_test {
namespace {

/// A model that classifies, regresses and predicts.
void write_judge(const std::filesystem::path& folder) {
  write_model(folder, [] {
    const Tensor x = placeholder(float32, {-1, 2}, "x");
    return Signature{.inputs = {{"x", x}}, .outputs = {{"scores", x}, {"outputs", reduce_sum(x, 1)}}};
  });
}

struct Server {
  explicit Server(double sampling_rate = 1, std::string prefix = "logs/all")
      : logging{.filename_prefix = (folder / prefix).string(), .sampling_rate = sampling_rate} {
    std::filesystem::create_directory(folder / "logs");
    write_judge(folder / "m" / "1");
    store.emplace(StoreOptions{.log = [this](const std::string& line) { lines.push_back(line); }});
    store->configure(
        {{.name = "m", .base_path = folder / "m", .logging = logging}, {.name = "silent", .base_path = folder / "m"}});
    store->look();
    rest.emplace(*store, metrics);
    rpc.emplace(*store, metrics);
  }

  std::string ask(const std::string& method, const std::string& request) const {
    return rpc->answer("/tensorflow.serving." + method, request, soon());
  }
  int ask_rest(const std::string& method, const std::string& body) const {
    return rest->answer({.method = "POST", .path = "/v1/models/m:" + method, .body = body, .deadline = soon()}).status;
  }
  /// The files of the log, which are complete when the server has ended.
  std::vector<std::string> end() {
    rest.reset();
    rpc.reset();
    store.reset();
    std::vector<std::string> files;
    for (const auto& each : std::filesystem::directory_iterator(folder / "logs")) files.push_back(each.path());
    return files;
  }
  std::size_t told() const {
    return static_cast<std::size_t>(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find("not logged") != std::string::npos;
    }));
  }

  TemporaryFolder folder;
  LoggingConfig logging;
  std::vector<std::string> lines;
  Metrics metrics;
  std::optional<ModelStore> store;
  std::optional<RestApi> rest;
  std::optional<RpcApi> rpc;
};

std::string example(float first, float second) {
  return data::encode(data::Example{{"x", std::vector<float>{first, second}}});
}

/// A MultiInferenceRequest of one task.
std::string regression(const std::string& encoded) {
  return message([&](auto& request) {
    request.add_message(1, message([&](auto& task) {
                          task.add_message(1, model_spec("m"));
                          task.add_string(2, "tensorflow/serving/regress");
                        }));
    request.add_message(2, message([&](auto& input) {
                          input.add_message(1, message([&](auto& list) { list.add_message(1, encoded); }));
                        }));
  });
}

}  // namespace

TEST_CASE("requests of both protocols are written, and warm up a version") {
  Server server;
  const std::string spec = model_spec("m"), examples = examples_request(spec, {example(1, 2), example(3, 4)}),
                    predict = predict_request(spec, {{"x", floats({1, 2}, {5, 6})}}, {"outputs"});
  const std::vector<std::string> replies{server.ask("PredictionService/Predict", predict),
                                         server.ask("PredictionService/Classify", examples),
                                         server.ask("PredictionService/Regress", examples),
                                         server.ask("PredictionService/MultiInference", regression(example(7, 8)))};
  CHECK(server.ask_rest("predict", R"({"instances": [[1.5, 2], [3, 4]]})") == 200);
  CHECK(server.ask_rest("classify", R"({"examples": [{"x": [1.0, 2.5]}]})") == 200);
  CHECK(server.ask_rest("regress", R"({"examples": [{"x": [1.0, 2.5]}]})") == 200);
  // What is not answered, and other models, are not written.
  CHECK_THROWS_AS(server.ask("PredictionService/Predict", predict_request(spec, {})), InvalidArgumentError);
  CHECK(server.ask_rest("predict", "{}") == 400);
  server.ask("PredictionService/Predict", predict_request(model_spec("silent"), {{"x", floats({1, 2}, {5, 6})}}));
  const std::vector<std::string> files = server.end();
  REQUIRE(files.size() == 1);
  CHECK(files[0].find("/logs/all-m-2") != std::string::npos);

  using Kind = PredictionLog::Kind;
  std::vector<Kind> kinds;
  std::vector<std::string> requests;
  for (const data::Record& record : data::records(files[0])) {
    const PredictionLog log = read_prediction_log(record);
    kinds.push_back(log.kind);
    requests.emplace_back(log.request);
    if (requests.size() <= replies.size()) CHECK(record.bytes.find(replies[requests.size() - 1]) != std::string::npos);
  }
  CHECK(kinds == std::vector<Kind>{Kind::predict, Kind::classify, Kind::regress, Kind::multi_inference, Kind::predict,
                                   Kind::classify, Kind::regress});
  REQUIRE(requests.size() == 7);
  CHECK(requests[0] == predict);
  CHECK(requests[1] == examples);
  // Those of REST say the same as if they had come by gRPC.
  const PredictRequest of_rest = read_predict_request(requests[4]);
  CHECK(of_rest.model_spec->choice.version == 1);
  CHECK(of_rest.inputs.at("x") == floats({2, 2}, {1.5, 2, 3, 4}));
  CHECK(read_examples_request(requests[5]).examples == std::vector<std::string>{example(1, 2.5)});

  write_judge(server.folder / "hidden");
  std::filesystem::create_directories(server.folder / "hidden" / "assets.extra");
  std::filesystem::copy(files[0], server.folder / "hidden" / "assets.extra" / "tf_serving_warmup_requests");
  std::filesystem::create_directory(server.folder / "warm");
  std::filesystem::rename(server.folder / "hidden", server.folder / "warm" / "1");
  ModelStore warm;
  warm.configure({{.name = "m", .base_path = server.folder / "warm"}});
  warm.look();
  CHECK(warm.status("m").front().message == "");
  CHECK(warm.is_ready());
}

TEST_CASE("a part of the requests is written, a thousand in a file, from any number of threads") {
  struct Case {
    double rate;
    std::size_t least, most, files;
  };
  for (const Case& given : {Case{1, 2400, 2400, 3}, Case{0.25, 450, 750, 1}, Case{1e-9, 0, 0, 0}}) {
    const auto& [rate, least, most, files] = given;
    CAPTURE(given.rate);
    Server server(rate);
    const std::string request = predict_request(model_spec("m"), {{"x", floats({1, 2}, {5, 6})}});
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 600; ++k) server.ask("PredictionService/Predict", request);
      });
    for (std::thread& each : threads) each.join();
    std::size_t records = 0;
    const std::vector<std::string> written = server.end();
    for (const std::string& each : written)
      for (const data::Record& record : data::records(each))
        records += read_prediction_log(record).request == request ? 1U : 0U;
    CHECK(records >= least);
    CHECK(records <= most);
    CHECK(written.size() == files);
  }
}

TEST_CASE("a log that cannot be written is told once, and ends no request") {
  CHECK_THROWS_AS(Server(1, "nowhere/all"), NotFoundError);
  Server server;
  std::filesystem::remove_all(server.folder / "logs");
  const std::string request = predict_request(model_spec("m"), {{"x", floats({1, 2}, {5, 6})}});
  for (int i = 0; i < 3; ++i) CHECK_FALSE(server.ask("PredictionService/Predict", request).empty());
  CHECK(server.told() == 1);
}

TEST_CASE("clients keep the logs of the server's configuration, and make none") {
  Server server;
  const auto reload = [&](const std::string& prefix, double rate, const std::string& name = "m") {
    return message([&](auto& request) {
      request.add_message(
          1, message([&](auto& config) {
            config.add_message(
                1, message([&](auto& list) {
                  list.add_message(
                      1, message([&](auto& model) {
                        model.add_string(1, name);
                        model.add_string(2, (server.folder / "m").string());
                        if (prefix.empty()) return;
                        model.add_message(
                            6, message([&](auto& logging) {
                              logging.add_message(1, message([&](auto& each) { each.add_string(2, prefix); }));
                              logging.add_message(2, message([&](auto& each) { each.add_double(1, rate); }));
                            }));
                      }));
                }));
          }));
    });
  };
  const std::string method = "ModelService/HandleReloadConfigRequest";
  for (const auto& [prefix, rate] : {std::pair{std::string("/tmp/x"), 1.0}, {server.logging.filename_prefix, 0.5}})
    CHECK_THROWS_AS(server.ask(method, reload(prefix, rate)), InvalidArgumentError);
  for (const std::string& prefix : {std::string(), server.logging.filename_prefix}) {
    server.ask(method, reload(prefix, 1, prefix.empty() ? "other" : "m"));  // and back
    server.ask(method, reload(prefix, 1));
    server.ask("PredictionService/Predict", predict_request(model_spec("m"), {{"x", floats({1, 2}, {5, 6})}}));
  }
  const std::vector<std::string> files = server.end();
  REQUIRE(files.size() == 1);
  std::int64_t records = 0;
  for (const data::Record& record : data::records(files[0])) records += record.bytes.empty() ? 0 : 1;
  CHECK(records == 2);
}

TEST_CASE("the configuration of a log") {
  const auto parse = [](const std::string& logging, std::vector<std::string>* notes = nullptr) {
    return parse_models("model_config_list { config { name: 'a' base_path: 'b' logging_config { " + logging + " } } }",
                        "f", notes)
        .front()
        .logging;
  };
  const std::string files = "log_collector_config { type: '' filename_prefix: '/log/a' } ";
  CHECK(parse(files + "sampling_config { sampling_rate: 0.5f }") == LoggingConfig{"/log/a", 0.5});
  CHECK(parse("sampling_config { sampling_rate: 1 }" + files) == LoggingConfig{"/log/a", 1});
  std::vector<std::string> notes;
  CHECK_FALSE(parse(files, &notes));
  CHECK_FALSE(parse("sampling_config { sampling_rate: 1 }", &notes));
  CHECK(notes == std::vector<std::string>(2, "f:1: logging_config does nothing here: requests are not logged"));
  for (const auto& each : std::map<std::string, std::string>{
           {"log_collector_config { type: 'bigquery' }", "there is no type bigquery of logs"},
           {"sampling_config { sampling_rate: 2 }", "sampling_rate takes a number from 0 to 1, not 2"},
           {"sampling_config { sampling_rate: nan }", "not nan"},
           {"sampling_config { sampling_rate: 'half' }", "not half"},
           {"sampling_config { attributes: 1 }", "there is no field attributes"},
           {"custom_logging_config { }", "there is no field custom_logging_config"}}) {
    const auto& [text, part] = each;
    CAPTURE(each.first);
    std::string error;
    try {
      parse(text);
    } catch (const InvalidArgumentError& thrown) {
      error = thrown.message();
    }
    CHECK(error.find(part) != std::string::npos);
  }
}

}  // namespace tapestry::serve::request_log_test
