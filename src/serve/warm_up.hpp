#pragma once

#include <filesystem>

#include "serve/servable.hpp"

namespace tapestry::serve {

/// How a version is warmed up.
struct WarmUpOptions {
  int iterations = 1;  ///< how often each request is run; 0: the file is not read
  std::chrono::milliseconds request_timeout{30'000};
};

/// Runs the requests in a version's `assets.extra/tf_serving_warmup_requests`, so that plans are made before clients
/// wait for them. The file has TensorFlow Serving's format, a TFRecord file of at most 1000 `PredictionLog` messages; a
/// version without one is not warmed up. The models that the requests name are not looked at. Throws Error with the
/// path and the number of the request: DATA_LOSS and INVALID_ARGUMENT for a file that is damaged or no such one,
/// UNIMPLEMENTED for requests of sessions and of streams, and what a request throws.
void warm_up(const Servable& model, const std::filesystem::path& folder, const WarmUpOptions& options);

}  // namespace tapestry::serve
