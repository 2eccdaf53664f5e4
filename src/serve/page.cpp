#include "serve/page.hpp"

#include <algorithm>
#include <array>

#include "serve/json.hpp"

namespace tapestry::serve {
namespace {

std::string models_body(const ModelStore& models) {
  std::string json = "{\"models\": [";
  for (const std::string& name : models.names()) {
    json += json.ends_with("[") ? "{\"name\": " : ", {\"name\": ";
    append_string(json, name);
    json += ", \"versions\": [";
    bool first = true;
    for (const VersionStatus& each : models.known(name)) {
      json += first ? "{" : ", {";
      first = false;
      json += "\"version\": \"" + std::to_string(each.version) + "\", \"state\": \"";
      json += state_name(each.state);
      json += "\", \"error\": ";
      append_string(json, each.message);
      json += "}";
    }
    json += "]}";
  }
  return json + "]}";
}

}  // namespace

Answer page_answer(std::string_view path, const ModelStore& models, const Metrics& metrics) {
  if (path == "models") return {.body = models_body(models)};
  if (path == "metrics") return {.body = metrics.prometheus(), .type = "text/plain"};
  std::array<std::string_view, 4> parts;  // "graph", the model, the version, the signature
  for (std::string_view& part : parts) {
    part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
  }
  if (parts[0] != "graph" || !path.empty()) return {.status = 404, .body = "Not found\n", .type = "text/plain"};
  try {
    const VersionChoice choice{.version = parse_version(parts[2]), .label = {}};
    const std::shared_ptr<const Servable> model = models.find(percent_decoded(parts[1]), choice);
    return {.body = model->svg(percent_decoded(parts[3])), .type = "image/svg+xml"};
  } catch (const Error& error) {
    return error_answer(error.code(), error.message());
  }
}

}  // namespace tapestry::serve
