#pragma once

#include <condition_variable>
#include <deque>

#include "distributed/rpc/shared_resources.hpp"

namespace tapestry::detail {

/// TensorFlow's FIFOQueue: elements of one or more tensors, which come out in the order in which they went in.
class TensorQueue final : public SharedResource {
 public:
  TensorQueue(const io::NodeDef& maker, std::string name, std::shared_ptr<HeldBytes> held);
  TensorQueue(const TensorQueue&) = delete;
  TensorQueue& operator=(const TensorQueue&) = delete;
  ~TensorQueue() override;

  Tensors use(const io::NodeDef& node, const Tensors& inputs, const std::stop_token& stop) override;

 private:
  void check(const Tensors& element) const;
  void enqueue(const Tensors& element, const std::stop_token& stop);
  void enqueue_many(const Tensors& elements, const std::stop_token& stop);
  Tensors dequeue(const std::stop_token& stop);
  Tensors dequeue_many(std::int64_t count, const std::stop_token& stop);
  void close(bool cancel_pending_enqueues);
  /// Takes the oldest element. Called with the lock held.
  Tensors take();

  std::vector<DType> types_;
  std::vector<Shape> shapes_;  ///< none: any
  std::size_t capacity_;
  std::string name_;
  std::shared_ptr<HeldBytes> held_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Tensors> elements_;
  bool closed_ = false, cancelled_ = false;
};

}  // namespace tapestry::detail
