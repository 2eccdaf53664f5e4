#pragma once

#include <stop_token>
#include <utility>

namespace tapestry::detail {

/// A stop that is requested as soon as one of two others is.
class AnyStop {
 public:
  AnyStop(std::stop_token a, std::stop_token b)
      : first_(std::move(a), Request{&source_}), second_(std::move(b), Request{&source_}) {}
  AnyStop(const AnyStop&) = delete;
  AnyStop& operator=(const AnyStop&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  struct Request {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };

  std::stop_source source_;
  std::stop_callback<Request> first_, second_;
};

}  // namespace tapestry::detail
