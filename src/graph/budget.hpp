#pragma once

#include <optional>

#include "graph/deadline.hpp"
#include "tapestry/graph.hpp"

namespace tapestry::detail {

/// The limits of a graph, and the bytes of its constants. Graphs that are made from it for a run have the same limits.
class TAPESTRY_API Budget {
 public:
  const GraphLimits& limits() const { return limits_; }
  /// Throws InvalidArgumentError for negative limits.
  void set_limits(const GraphLimits& limits);

  /// Accounts for a node that is to be added to a graph of `nodes` others. Throws InvalidArgumentError for shapes whose
  /// number of elements overflows, whatever the limits, and the errors of GraphLimits if a limit is exceeded.
  void take_node(const Call& node, const Specs& outputs, std::size_t nodes);
  /// Checks a tensor that a node makes or holds. Throws the same errors.
  void require_tensor(const Call& node, const Spec& spec) const;
  /// Throws ResourceExhaustedError if a plan needs too many bytes. `largest` is the name of its largest tensor.
  void require_bytes(std::size_t bytes, const std::string& largest) const;
  /// The deadline of a run that begins now, by the timeout or the limits, whichever is sooner. A timeout of 0 is none.
  /// `closing`: of its session.
  std::optional<Deadline> deadline(std::int64_t timeout_in_ms, const std::stop_token& stop = {},
                                   const std::stop_token& closing = {}) const;

 private:
  GraphLimits limits_ = GraphLimits::none();
  std::int64_t constant_bytes_ = 0;
};

/// While it lives, this thread cannot add nodes to graphs after the deadline, if there is one: that throws
/// DeadlineExceededError.
class TAPESTRY_API NodeDeadline {
 public:
  explicit NodeDeadline(const std::optional<Deadline>& deadline);
  ~NodeDeadline();
  NodeDeadline(const NodeDeadline&) = delete;
  NodeDeadline& operator=(const NodeDeadline&) = delete;

 private:
  const Deadline* saved_;
};

}  // namespace tapestry::detail
