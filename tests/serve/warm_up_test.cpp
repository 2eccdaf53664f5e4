#include <doctest/doctest.h>

#include "client_messages.hpp"
#include "models.hpp"

// What a version's file of requests does before the version is served.

namespace tapestry::serve::warm_up_test {
namespace {

constexpr const char* file = "assets.extra/tf_serving_warmup_requests";

/// A PredictionLog: of a kind, which is a field's number.
std::string log(int kind, const std::string& request) {
  return message([&](auto& record) {
    record.add_message(1, std::string());  // the metadata
    record.add_message(static_cast<protozero::pbf_tag_type>(kind),
                       message([&](auto& each) { each.add_message(1, request); }));
  });
}

/// Writes a version of a model that counts its runs and answers with their number.
void write_counter(const std::filesystem::path& version, const std::vector<std::string>& records) {
  const std::filesystem::path hidden = version.parent_path() / "hidden";
  const Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1}, "x");
  const Variable runs(tensor(0.0), {.name = "runs", .trainable = false});
  saved_model::save(
      hidden,
      Model(Signature{{{"x", x}}, {{"outputs", x * 0.0 + runs.assign_add(1.0)}, {"scores", expand_dims(x, 1)}}}));
  std::filesystem::create_directories((hidden / file).parent_path());
  data::RecordWriter writer(hidden / file);
  for (const std::string& record : records) writer.write(record);
  writer.close();
  std::filesystem::rename(hidden, version);
}

TEST_CASE("the requests that a version brings along are run before it is served") {
  const std::string spec = model_spec("any"), example = data::encode(data::Example{{"x", 1.0F}}),
                    examples = examples_request(spec, {example}),
                    good = log(6, predict_request(spec, {{"x", floats({1}, {1})}})),
                    bad = log(6, predict_request(spec, {{"z", floats({1}, {1})}}));
  const std::string both = message([&](auto& request) {
    request.add_message(1, message([&](auto& task) {
                          task.add_message(1, spec);
                          task.add_string(2, "tensorflow/serving/regress");
                        }));
    request.add_message(2, message([&](auto& input) {
                          input.add_message(1, message([&](auto& list) { list.add_message(1, example); }));
                        }));
  });
  struct Case {
    std::string name;
    std::vector<std::string> records;
    int iterations;
    int runs;           ///< of the model; -1: the version is refused
    std::string error;  ///< a part of its text
  };
  const std::vector<Case> cases{
      {"one", {good}, 1, 1, ""},
      {"none", {}, 1, 0, ""},
      {"each_kind", {good, log(2, examples), log(3, examples), log(4, both)}, 3, 12, ""},
      {"not_asked_for", {bad}, 0, 0, ""},
      {"all_there_may_be", std::vector<std::string>(1000, good), 1, 1000, ""},
      {"too_many", std::vector<std::string>(1001, good), 1, -1, "has more than 1000 requests"},
      {"wrong_input", {good, bad}, 1, -1, "Request 2 of "},
      {"wrong_signature", {log(2, examples_request(model_spec("any", -1, "s"), {example}))}, 1, -1, "the name: s"},
      {"no_tasks", {log(4, "")}, 1, -1, "Request 1 of "},
      {"session", {log(5, "")}, 1, -1, "cannot be run"},
      {"stream", {log(7, "")}, 1, -1, "cannot be run"},
      {"no_request", {""}, 1, -1, "no PredictionLog"},
      {"no_message", {"\xff\xff\xff"}, 1, -1, "Request 1 of "},
  };
  const TemporaryFolder folder;
  for (const Case& each : cases) {
    CAPTURE(each.name);
    std::filesystem::create_directories(folder / each.name);
    write_counter(folder / each.name / "1", each.records);
    ModelStore store({.warm_up = {.iterations = each.iterations}});
    store.configure({{.name = each.name, .base_path = folder / each.name}});
    store.look();
    const VersionStatus status = store.status(each.name).at(0);
    CHECK(status.error.has_value() == (each.runs < 0));
    CHECK_MESSAGE(status.message.find(each.error) != std::string::npos, status.message);
    if (each.runs < 0) continue;
    const NamedValues outputs = store.find(each.name)->run("serving_default", {{"x", tensor<float>({1})}}, soon());
    CHECK(std::get<Tensor>(outputs.at("outputs")).item<float>() == static_cast<float>(each.runs + 1));
  }
}

TEST_CASE("a file of requests that is cut off is told with its path") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "m");
  const std::filesystem::path version = folder / "m" / "1";
  write_counter(version, {log(6, predict_request(model_spec("m"), {{"x", floats({1}, {1})}}))});
  std::filesystem::resize_file(version / file, 20);
  ModelStore store;
  store.configure({{.name = "m", .base_path = folder / "m"}});
  store.look();
  const VersionStatus status = store.status("m").at(0);
  CHECK(status.error == Code::data_loss);
  CHECK_MESSAGE(status.message.find(file) != std::string::npos, status.message);
}

}  // namespace
}  // namespace tapestry::serve::warm_up_test
