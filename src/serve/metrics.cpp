#include "serve/metrics.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

namespace tapestry::serve {
namespace {

/// A value of a label, with its quotes.
std::string label(std::string_view text) {
  std::string value = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') value += '\\';
    if (c == '\n') {
      value += "\\n";
    } else {
      value += c;
    }
  }
  return value + "\"";
}

std::string number(double value) {
  std::array<char, 32> text;
  return {text.begin(), std::to_chars(text.begin(), text.end(), value).ptr};
}

/// The most microseconds of a bucket.
template <std::size_t buckets>
const std::array<double, buckets>& bounds() {
  static const auto list = [] {
    std::array<double, buckets> made;
    for (std::size_t i = 0; i < buckets; ++i) made[i] = 10 * std::pow(1.8, static_cast<double>(i));
    return made;
  }();
  return list;
}

}  // namespace

void Metrics::count(const Call& call, const std::string& code, std::chrono::nanoseconds time) {
  const double microseconds = static_cast<double>(time.count()) / 1000;
  const auto& most = bounds<buckets - 1>();
  const std::ptrdiff_t bucket = std::lower_bound(most.begin(), most.end(), microseconds) - most.begin();
  const std::lock_guard lock(mutex_);
  ++requests_[{call.model, code}];
  if (code != "OK") return;
  Latency& latency = latencies_[{call.model, call.api, call.entrypoint}];
  ++latency.counts[static_cast<std::size_t>(bucket)];
  latency.microseconds += microseconds;
}

std::string Metrics::prometheus() const {
  const std::lock_guard lock(mutex_);
  std::string text = "# TYPE :tensorflow:serving:request_count counter\n";
  for (const auto& [key, count] : requests_)
    text += ":tensorflow:serving:request_count{model_name=" + label(key.first) + ",status=" + label(key.second) + "} " +
            std::to_string(count) + "\n";
  text += "# TYPE :tensorflow:serving:request_latency histogram\n";
  for (const auto& [key, latency] : latencies_) {
    const auto& [model, api, entrypoint] = key;
    const std::string labels = "model_name=" + label(model) + ",API=" + label(api) + ",entrypoint=" + label(entrypoint);
    std::uint64_t count = 0;
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      count += latency.counts[bucket];
      const std::string most = bucket + 1 == buckets ? "+Inf" : number(bounds<buckets - 1>()[bucket]);
      text += ":tensorflow:serving:request_latency_bucket{" + labels + ",le=\"" + most + "\"} " +
              std::to_string(count) + "\n";
    }
    text += ":tensorflow:serving:request_latency_sum{" + labels + "} " + number(latency.microseconds) + "\n";
    text += ":tensorflow:serving:request_latency_count{" + labels + "} " + std::to_string(count) + "\n";
  }
  return text;
}

}  // namespace tapestry::serve
