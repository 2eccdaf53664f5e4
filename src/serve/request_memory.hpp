#pragma once

#include <atomic>
#include <cstddef>

namespace tapestry::serve {

/// The memory that the bodies of all requests may take together, from their arrival until they are answered. So what
/// waits in the queues of batches is limited, too.
class RequestMemory {
 public:
  explicit RequestMemory(std::size_t most) : left_(most) {}

  /// The share of one request.
  class Hold {
   public:
    explicit Hold(RequestMemory& memory) : memory_(memory) {}
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { memory_.left_ += held_; }
    /// Takes so many bytes more; false, and no change, if they are not left.
    bool grow(std::size_t bytes) {
      std::size_t left = memory_.left_;
      do {
        if (left < bytes) return false;
      } while (!memory_.left_.compare_exchange_weak(left, left - bytes));
      held_ += bytes;
      return true;
    }

   private:
    RequestMemory& memory_;
    std::size_t held_ = 0;
  };

  static constexpr const char* used_up =
      "The requests that are being answered take all the memory that they may (--max_request_memory_bytes)";

 private:
  std::atomic<std::size_t> left_;
};

}  // namespace tapestry::serve
