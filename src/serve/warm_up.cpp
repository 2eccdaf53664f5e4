#include "serve/warm_up.hpp"

#include "serve/inference.hpp"
#include "tapestry/data/records.hpp"

namespace tapestry::serve {
namespace {

constexpr int most_requests = 1000;

void run(const Servable& model, std::string_view bytes, Deadline deadline) {
  const PredictionLog log = read_prediction_log(bytes);
  switch (log.kind) {
    case PredictionLog::Kind::classify:
      classify(model, read_examples_request(log.request), deadline);
      return;
    case PredictionLog::Kind::regress:
      regress(model, read_examples_request(log.request), deadline);
      return;
    case PredictionLog::Kind::predict:
      predict(model, read_predict_request(log.request), deadline);
      return;
    case PredictionLog::Kind::multi_inference: {
      const MultiInferenceRequest request = read_multi_inference_request(log.request);
      require_tasks(request);
      multi_inference(model, request, deadline);
      return;
    }
    case PredictionLog::Kind::session_run:
    case PredictionLog::Kind::predict_streamed:
      throw UnimplementedError("Requests of sessions and of streams cannot be run");
    case PredictionLog::Kind::none:
      throw InvalidArgumentError("The record is no PredictionLog with a request");
  }
}

}  // namespace

void warm_up(const Servable& model, const std::filesystem::path& folder, const WarmUpOptions& options) {
  const std::filesystem::path file = folder / "assets.extra" / "tf_serving_warmup_requests";
  if (options.iterations <= 0 || !std::filesystem::exists(file)) return;
  int requests = 0;
  for (const data::Record& record : data::records(file)) {
    if (++requests > most_requests)
      throw InvalidArgumentError(detail::join(file.string(), " has more than ", most_requests, " requests"));
    try {
      for (int i = 0; i < options.iterations; ++i)
        run(model, record, std::chrono::steady_clock::now() + options.request_timeout);
    } catch (const Error& error) {
      throw Error(error.code(), detail::join("Request ", requests, " of ", file.string(), ": ", error.message()));
    }
  }
}

}  // namespace tapestry::serve
