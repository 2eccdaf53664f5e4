#pragma once

#include <optional>

#include "graph/deadline.hpp"
#include "tapestry/graph.hpp"

namespace tapestry::detail {

/// The limits of a graph and what its constants take. The graphs that are made of it for a run have the same limits.
class Budget {
 public:
  const GraphLimits& limits() const { return limits_; }
  /// Throws InvalidArgumentError for negative limits.
  void set_limits(const GraphLimits& limits);

  /// A node is to be added to so many others, whose outputs are to be these. Throws InvalidArgumentError for shapes
  /// whose elements nobody could count, whatever the limits, and what GraphLimits says for those that exceed one.
  void take_node(const Call& node, const Specs& outputs, std::size_t nodes);
  /// The same for a tensor that a node makes or holds.
  void require_tensor(const Call& node, const Spec& spec) const;
  /// A plan needs so much memory, most of it for that tensor.
  void require_bytes(std::size_t bytes, const std::string& largest) const;
  /// When what begins now is to have ended: by the limits, or sooner. A timeout of 0 is none.
  std::optional<Deadline> deadline(std::int64_t timeout_in_ms) const;

 private:
  GraphLimits limits_ = GraphLimits::none();
  std::int64_t constant_bytes_ = 0;
};

/// While it lives, this thread adds nodes to graphs until the deadline only, if there is one.
class NodeDeadline {
 public:
  explicit NodeDeadline(const std::optional<Deadline>& deadline);
  ~NodeDeadline();
  NodeDeadline(const NodeDeadline&) = delete;
  NodeDeadline& operator=(const NodeDeadline&) = delete;

 private:
  const Deadline* saved_;
};

}  // namespace tapestry::detail
