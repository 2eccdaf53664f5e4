#include "distributed/rpc/tensor_queue.hpp"

#include <limits>

#include "core/make_tensor.hpp"
#include "io/rpc/resource_ops.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::detail {
namespace {

using io::rpc::attr_or;

std::int64_t bytes_of(const Tensors& element) {
  constexpr std::int64_t overhead = 64;
  std::int64_t sum = 0;
  for (const Tensor& each : element) sum += overhead + static_cast<std::int64_t>(nbytes(each));
  return sum;
}

}  // namespace

TensorQueue::TensorQueue(const io::NodeDef& maker, std::string name, std::shared_ptr<HeldBytes> held)
    : shapes_(attr_or<io::ListDef>(maker, "shapes", {}).shapes), name_(std::move(name)), held_(std::move(held)) {
  for (const io::TypeCode each : attr_or<io::ListDef>(maker, "component_types", {}).types)
    types_.push_back(io::dtype_of(each));
  const std::int64_t capacity = attr_or<std::int64_t>(maker, "capacity", -1);
  capacity_ = capacity < 0 ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(capacity);
  if (types_.empty() || (!shapes_.empty() && shapes_.size() != types_.size()))
    throw InvalidArgumentError(
        join("Node '", maker.name, "' is a queue of ", types_.size(), " components with ", shapes_.size(), " shapes"));
}

TensorQueue::~TensorQueue() {
  for (const Tensors& each : elements_) held_->give(bytes_of(each));
}

Tensors TensorQueue::use(const io::NodeDef& node, const Tensors& inputs, const std::stop_token& stop) {
  const std::string_view op = io::rpc::resource_op(node.op);
  if (op == "QueueEnqueue") return enqueue(inputs, stop), Tensors();
  if (op == "QueueEnqueueMany") return enqueue_many(inputs, stop), Tensors();
  if (op == "QueueDequeue") return dequeue(stop);
  if (op == "QueueDequeueMany" && inputs.size() == 1)
    return dequeue_many(inputs[0].cast(int64).item<std::int64_t>(), stop);
  if (op == "QueueClose") return close(attr_or<bool>(node, "cancel_pending_enqueues", false)), Tensors();
  const std::lock_guard lock(mutex_);
  if (op == "QueueSize") return {tensor(static_cast<std::int32_t>(elements_.size()))};
  if (op == "QueueIsClosed") return {tensor(closed_)};
  throw InvalidArgumentError(join("Node '", node.name, "' (op: '", node.op, "') does not use a queue like this"));
}

void TensorQueue::check(const Tensors& element) const {
  if (element.size() != types_.size())
    throw InvalidArgumentError(
        join("FIFOQueue '", name_, "' has elements of ", types_.size(), " components, not ", element.size()));
  for (std::size_t i = 0; i < element.size(); ++i) {
    if (element[i].dtype() != types_[i])
      throw InvalidArgumentError(join("Type mismatch in tuple component ", i, ". Expected ", to_string(types_[i]),
                                      ", got ", to_string(element[i].dtype())));
    if (!shapes_.empty() && !can_be(element[i].shape(), shapes_[i]))
      throw InvalidArgumentError(
          join("Shape mismatch in tuple component ", i, ". Expected ", shapes_[i], ", got ", element[i].shape()));
  }
}

void TensorQueue::enqueue(const Tensors& element, const std::stop_token& stop) {
  check(element);
  std::unique_lock lock(mutex_);
  const auto refuse_closed = [&] {
    if (closed_) throw CancelledError(join("FIFOQueue '", name_, "' is closed."));
  };
  refuse_closed();  // what waits already when the queue is closed may still come in
  changed_.wait(lock, stop, [&] { return elements_.size() < capacity_ || cancelled_; });
  if (cancelled_) refuse_closed();
  if (elements_.size() >= capacity_) throw CancelledError("Enqueue operation was cancelled");
  held_->take(bytes_of(element));
  elements_.push_back(element);
  changed_.notify_all();
}

void TensorQueue::enqueue_many(const Tensors& elements, const std::stop_token& stop) {
  if (elements.empty()) throw InvalidArgumentError(join("Nothing was given to FIFOQueue '", name_, "'"));
  for (const Tensor& each : elements)
    if (each.rank() == 0 || each.shape()[0] != elements[0].shape()[0])
      throw InvalidArgumentError(
          join("All components for FIFOQueue '", name_, "' must have the same size in the 0th ", "dimension"));
  const std::int64_t count = elements[0].shape()[0];
  for (std::int64_t i = 0; i < count; ++i) {
    Tensors element;
    for (const Tensor& each : elements) element.push_back(each(i).contiguous());
    enqueue(element, stop);
  }
}

Tensors TensorQueue::take() {
  Tensors element = std::move(elements_.front());
  elements_.pop_front();
  held_->give(bytes_of(element));
  changed_.notify_all();
  return element;
}

Tensors TensorQueue::dequeue(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [&] { return !elements_.empty() || closed_; });
  if (!elements_.empty() && !stop.stop_requested()) return take();
  if (elements_.empty() && closed_)
    throw OutOfRangeError(
        join("FIFOQueue '", name_, "' is closed and has insufficient elements (requested 1, current size 0)"));
  throw CancelledError("Dequeue operation was cancelled");
}

Tensors TensorQueue::dequeue_many(std::int64_t count, const std::stop_token& stop) {
  if (count < 0 || (shapes_.empty() && count == 0))
    throw InvalidArgumentError(join("DequeueMany requested ", count, " elements of FIFOQueue '", name_, "'"));
  std::unique_lock lock(mutex_);
  const auto wanted = static_cast<std::size_t>(count);
  if (wanted > capacity_)
    throw InvalidArgumentError(
        join("DequeueMany requested ", count, " elements of FIFOQueue '", name_, "', which can have ", capacity_));
  changed_.wait(lock, stop, [&] { return elements_.size() >= wanted || closed_; });
  if (elements_.size() < wanted && closed_)
    throw OutOfRangeError(join("FIFOQueue '", name_, "' is closed and has insufficient elements (requested ", count,
                               ", current size ", elements_.size(), ")"));
  if (elements_.size() < wanted) throw CancelledError("Dequeue operation was cancelled");
  std::vector<Tensors> taken;
  for (std::size_t i = 0; i < wanted; ++i) taken.push_back(take());
  lock.unlock();
  Tensors results;
  for (std::size_t k = 0; k < types_.size(); ++k) {
    std::vector<Tensor> component;
    component.reserve(taken.size());
    for (const Tensors& each : taken) component.push_back(each[k]);
    if (component.empty()) {
      Shape shape{0};
      for (const std::int64_t size : shapes_[k].sizes()) shape.push_back(size);
      results.push_back(zeros(shape, {types_[k]}));
    } else {
      results.push_back(stack(component));
    }
  }
  return results;
}

void TensorQueue::close(bool cancel_pending_enqueues) {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  cancelled_ |= cancel_pending_enqueues;
  changed_.notify_all();
}

}  // namespace tapestry::detail
