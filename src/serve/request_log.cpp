#include "serve/request_log.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <random>

#include <unistd.h>

#include "tapestry/error.hpp"

namespace tapestry::serve {
namespace {

/// A part of a file's name.
std::string file_name(std::string text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  std::replace_if(
      text.begin(), text.end(), [&](char c) { return !is_plain(c); }, '_');
  return text;
}

/// "20261129T021000Z"
std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 32> text{};
  gmtime_r(&now, &parts);
  return {text.data(), std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts)};
}

/// Bits that look random, of a counter.
std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

}  // namespace

RequestLog::RequestLog(const std::string& model, LoggingConfig config, std::function<void(const std::string&)> tell)
    : config_(std::move(config)), model_(model), tell_(std::move(tell)), asked_(std::random_device()()) {
  const std::filesystem::path folder = std::filesystem::path(config_.filename_prefix).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error))
    throw NotFoundError(detail::join("The requests of ", model, " cannot be logged: there is no folder ",
                                     folder.string(), " for the filename_prefix ", config_.filename_prefix));
}

RequestLog::~RequestLog() { complete({}); }

bool RequestLog::is_due() {
  if (config_.sampling_rate >= 1) return true;
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15U;
  const std::uint64_t bits = mixed(asked_.fetch_add(golden, std::memory_order_relaxed));
  return std::ldexp(static_cast<double>(bits >> 11U), -53) < config_.sampling_rate;
}

void RequestLog::write(PredictionLog::Kind kind, const ModelSpec& used, std::string_view request,
                       std::string_view response) noexcept {
  tell_errors([&] {
    if (Clock::now() < silent_until_) return;
    const std::string record = write_prediction_log(kind, used, config_.sampling_rate, request, response);
    add(record);
  });
}

void RequestLog::complete(std::chrono::steady_clock::duration age) noexcept {
  tell_errors([&] {
    if (file_ && Clock::now() - begun_ >= age) close();
  });
}

void RequestLog::add(std::string_view record) {
  if (!file_) {
    file_.emplace(detail::join(config_.filename_prefix, "-", file_name(model_), "-", time_now(), "-", ::getpid(), "-",
                               files_++, ".tfrecord"));
    begun_ = Clock::now();
    records_ = 0;
    bytes_ = 0;
  }
  file_->write(record);
  bytes_ += record.size();
  constexpr std::int64_t most_records = 1000;  // that a server runs before it serves a version
  constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20U;
  if (++records_ >= most_records || bytes_ >= most_bytes) close();
}

void RequestLog::close() {
  data::RecordWriter file = std::move(*file_);
  file_.reset();
  file.close();
}

template <class F>
void RequestLog::tell_errors(F f) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    f();
  } catch (const std::exception& error) {
    file_.reset();
    silent_until_ = Clock::now() + std::chrono::minutes(1);
    try {
      const auto* known = dynamic_cast<const Error*>(&error);
      if (tell_)
        tell_(detail::join("Requests of ", model_,
                           " are not logged for a minute: ", known ? known->message() : std::string(error.what())));
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): not even that can be told
    }
  }
}

}  // namespace tapestry::serve
