#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

namespace tapestry::serve {

/// What a request asked.
struct Call {
  std::string model;
  std::string api;         ///< "Predict", "Classify"
  std::string entrypoint;  ///< "REST" or "GRPC"
};

/// Counts requests and measures their time, under the names and with the labels that TensorFlow Serving gives to
/// Prometheus.
class Metrics {
 public:
  /// Counts a request that was answered with the code of this name, such as "OK", after this time.
  void count(const Call& call, const std::string& code, std::chrono::nanoseconds time);

  /// All numbers in Prometheus' text format.
  std::string prometheus() const;

 private:
  /// Bucket i has the requests that took up to 10 µs times 1.8 to the power of i; the last one has all others.
  static constexpr std::size_t buckets = 34;
  struct Latency {
    std::array<std::uint64_t, buckets> counts{};
    double microseconds = 0;  ///< the sum
  };
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> requests_;           ///< by model and code
  std::map<std::tuple<std::string, std::string, std::string>, Latency> latencies_;  ///< of those that are OK
};

}  // namespace tapestry::serve
