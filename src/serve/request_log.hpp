#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "serve/rpc_messages.hpp"
#include "tapestry/data/records.hpp"

namespace tapestry::serve {

/// Writes requests of a model, with their answers, as the `PredictionLog` messages of TensorFlow Serving, into TFRecord
/// files PREFIX-MODEL-TIME-PROCESS-NUMBER.tfrecord. A file has at most 1000 requests, so that it can be the file
/// `tf_serving_warmup_requests` of a version, and is there when it is complete: after a minute, or when the server
/// ends. Members may be called from several threads.
class RequestLog {
 public:
  /// Lines for the user go to `tell`. Throws NotFoundError where the folder of the prefix does not exist.
  RequestLog(const std::string& model, LoggingConfig config, std::function<void(const std::string&)> tell);
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;
  ~RequestLog();

  const LoggingConfig& config() const { return config_; }
  /// Whether the next request is to be written: of all a random part.
  bool is_due();
  /// Writes a request that was answered. Where that fails, it tells so, and goes on a minute later.
  void write(PredictionLog::Kind kind, const ModelSpec& used, std::string_view request,
             std::string_view response) noexcept;
  /// Completes the file if it was begun this long ago.
  void complete(std::chrono::steady_clock::duration age) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  void add(std::string_view record);
  void close();
  template <class F>
  void tell_errors(F f) noexcept;

  const LoggingConfig config_;
  const std::string model_;
  const std::function<void(const std::string&)> tell_;
  std::atomic<std::uint64_t> asked_;
  std::mutex mutex_;  ///< of what follows
  std::optional<data::RecordWriter> file_;
  Clock::time_point begun_{}, silent_until_{};
  std::int64_t records_ = 0, files_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace tapestry::serve
