#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

#include "io/rpc/islands.hpp"
#include "io/tensorflow/variable_table.hpp"

namespace tapestry::detail {

/// A queue or an accumulator. Members may be called from several threads.
class SharedResource {
 public:
  virtual ~SharedResource() = default;
  /// Runs a node that uses it, with the values of its inputs but the first; returns its outputs. Throws CancelledError
  /// when a stop is requested while it waits.
  virtual Tensors use(const io::NodeDef& node, const Tensors& inputs, const std::stop_token& stop) = 0;
};

/// The bytes that some queues and accumulators hold together.
class HeldBytes {
 public:
  explicit HeldBytes(std::int64_t most) : most_(most) {}
  /// Throws ResourceExhaustedError for too many.
  void take(std::int64_t bytes);
  void give(std::int64_t bytes);

 private:
  const std::int64_t most_;
  std::mutex mutex_;
  std::int64_t held_ = 0;
};

/// What lives at a task, by container and name: Variables, queues and accumulators. Sessions share it.
class TaskState final : public io::VariableTable {
 public:
  /// `most_bytes`: of all Variables, and of all queues and accumulators.
  TaskState(const std::string& default_container, std::int64_t most_bytes)
      : VariableTable(default_container, most_bytes),
        default_container_(default_container),
        held_(std::make_shared<HeldBytes>(most_bytes)) {}

  /// The queue or accumulator of a node that makes one; a new one if there is none of its name. Throws
  /// InvalidArgumentError if there is another one of that name.
  std::shared_ptr<SharedResource> resource(const io::NodeDef& maker);
  /// Removes those of some containers; those of the default one if none is named.
  void clear(const std::vector<std::string>& containers);

 private:
  struct Named {
    std::string definition;  ///< its op and types
    std::shared_ptr<SharedResource> resource;
  };
  const std::string default_container_;
  const std::shared_ptr<HeldBytes> held_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Named> resources_;
};

}  // namespace tapestry::detail
