#pragma once

#include <string>
#include <string_view>

#include "serve/metrics.hpp"
#include "serve/model_store.hpp"

namespace tapestry::serve {

/// What an HTTP request asks.
struct Request {
  std::string method;  ///< "POST"
  std::string path;    ///< as it was sent, without what follows a '?'
  std::string body{};
  Deadline deadline{};
};

/// What is answered.
struct Answer {
  int status = 200;
  std::string body{};
  std::string type = "application/json";
};

/// The answer to an error: its text, with the HTTP status for its code.
Answer error_answer(Code code, std::string_view text);

/// The name of gRPC's code, as protobuf's JSON writes it: "NOT_FOUND".
std::string_view code_name(Code code);
/// "AVAILABLE".
std::string_view state_name(VersionState state);
/// The text of a part of a path: "a%2Fb" is "a/b".
std::string percent_decoded(std::string_view text);
/// The number of a version. Throws InvalidArgumentError when it is none, or too large.
std::int64_t parse_version(std::string_view digits);

/// The paths below /v1/ of TensorFlow Serving's REST interface, with its answers: predict, classify, regress, status
/// and metadata. It has no part of HTTP's own, such as headers and connections.
class RestApi {
 public:
  RestApi(const ModelStore& models, Metrics& metrics) : models_(models), metrics_(metrics) {}

  /// Never throws.
  Answer answer(const Request& request) const;

 private:
  struct Target;
  static std::optional<Target> target_of(const Request& request);
  static VersionChoice choice_of(const Target& target);
  Answer handle(const Request& request, const Target& target) const;
  std::string predict(const Target& target, const Request& request) const;
  std::string infer_examples(const Target& target, const Request& request) const;
  std::string metadata(const Target& target) const;
  std::string status(const Target& target) const;

  const ModelStore& models_;
  Metrics& metrics_;
};

}  // namespace tapestry::serve
