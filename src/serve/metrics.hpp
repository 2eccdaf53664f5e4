#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace tapestry::serve {

/// Counts requests and measures their time, under the names that TensorFlow Serving gives to Prometheus.
class Metrics {
 public:
  /// Counts a request that was answered with this status, "200" of HTTP or "OK" of gRPC, after this time.
  void count(const std::string& model, const std::string& method, const std::string& status,
             std::chrono::nanoseconds time);

  /// All numbers in Prometheus' text format.
  std::string prometheus() const;

 private:
  /// Bucket i has the requests that took up to 10 µs times 1.8 to the power of i; the last one has all others.
  static constexpr std::size_t buckets = 34;
  struct Latency {
    std::array<std::uint64_t, buckets> counts{};
    double microseconds = 0;  ///< the sum
  };
  struct Key {
    std::string model, method, status;

    friend auto operator<=>(const Key&, const Key&) = default;
  };

  mutable std::mutex mutex_;
  std::map<Key, std::uint64_t> requests_;
  std::map<std::pair<std::string, std::string>, Latency> latencies_;  ///< by model and method
};

}  // namespace tapestry::serve
