#include "graph/budget.hpp"

#include <limits>
#include <utility>

#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

constinit thread_local const Deadline* node_deadline = nullptr;

/// "Node 'x' (op: 'Fill')"
std::string name_of(const Call& node) { return join("Node '", node.name(), "' (op: '", node.type(), "')"); }

/// The bytes of a tensor: 0 while they are not known, the largest number if they overflow, as they may for a view.
std::int64_t known_bytes(const Spec& spec) {
  std::int64_t bytes = 0;
  const auto element = static_cast<std::int64_t>(size_of(spec.dtype));
  if (spec.shape.is_known() && __builtin_mul_overflow(spec.shape.size(), element, &bytes))
    return std::numeric_limits<std::int64_t>::max();
  return bytes;
}

}  // namespace

void Budget::set_limits(const GraphLimits& limits) {
  if (limits.bytes < 0 || limits.elements < 0 || limits.nodes < 0 || limits.time_in_ms < 1)
    throw InvalidArgumentError(
        join("The limits of a graph must not be negative, and its time not below 1 ms: bytes = ", limits.bytes,
             ", elements = ", limits.elements, ", nodes = ", limits.nodes, ", time_in_ms = ", limits.time_in_ms));
  limits_ = limits;
}

void Budget::take_node(const Call& node, const Specs& outputs, std::size_t nodes) {
  if (static_cast<std::int64_t>(nodes) >= limits_.nodes)
    throw ResourceExhaustedError(join(name_of(node), " is number ", nodes + 1, " of its graph, which may have ",
                                      limits_.nodes, " (GraphLimits::nodes)"));
  if (node_deadline && node_deadline->has_passed())
    node_deadline->fail(join("node '", node.name(), "' was still to be added"));
  for (const Spec& each : outputs) require_tensor(node, each);
  if (&node.op() != &const_op) return;
  // A constant that is not contiguous, such as one repeated element, counts as 0 bytes.
  const Tensor& value = node.attr<Tensor>("value");
  const std::int64_t bytes = value.is_contiguous() ? known_bytes(value.spec()) : 0;
  if (bytes > limits_.bytes - constant_bytes_)
    throw ResourceExhaustedError(join(name_of(node), " makes the graph's constants take ", constant_bytes_, " + ",
                                      bytes, " bytes, which may take ", limits_.bytes, " (GraphLimits::bytes)"));
  constant_bytes_ += bytes;
}

void Budget::require_tensor(const Call& node, const Spec& spec) const {
  const Shape shape(spec.shape.sizes());  // throws if the number of its elements overflows
  const std::int64_t bytes = known_bytes(spec), elements = shape.num_elements();
  if (elements > limits_.elements)
    throw ResourceExhaustedError(join(name_of(node), " has a tensor of shape ", shape, " with ", elements,
                                      " elements, which may have ", limits_.elements, " (GraphLimits::elements)"));
  if (bytes > limits_.bytes)
    throw ResourceExhaustedError(join(name_of(node), " has a tensor of shape ", shape, " with ", bytes,
                                      " bytes, which may have ", limits_.bytes, " (GraphLimits::bytes)"));
}

void Budget::require_bytes(std::size_t bytes, const std::string& largest) const {
  const std::int64_t left = limits_.bytes - constant_bytes_;
  if (std::cmp_greater(bytes, left))
    throw ResourceExhaustedError(join("The run takes ", bytes, " bytes for its tensors, the largest of which is '",
                                      largest, "', and ", constant_bytes_, " for constants; it may take ",
                                      limits_.bytes, " (GraphLimits::bytes)"));
}

std::optional<Deadline> Budget::deadline(std::int64_t timeout_in_ms, const std::stop_token& stop,
                                         const std::stop_token& closing) const {
  const bool limited = limits_.time_in_ms < std::numeric_limits<std::int64_t>::max();
  if (timeout_in_ms > 0 && (!limited || timeout_in_ms <= limits_.time_in_ms))
    return Deadline(timeout_in_ms, {}, stop, closing);
  if (!limited && !stop.stop_possible() && !closing.stop_possible()) return {};
  return Deadline(limits_.time_in_ms, " (GraphLimits::time_in_ms)", stop, closing);
}

NodeDeadline::NodeDeadline(const std::optional<Deadline>& deadline)
    : saved_(std::exchange(node_deadline, deadline ? &*deadline : nullptr)) {}
NodeDeadline::~NodeDeadline() { node_deadline = saved_; }

}  // namespace tapestry::detail
