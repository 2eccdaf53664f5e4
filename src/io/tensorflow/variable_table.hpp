#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tapestry/variable.hpp"

namespace tapestry::io {

/// Variables that several graphs share, by container and name. Only initializers that run give them values. A server
/// has a table, and a further one for each session that is isolated from the others.
class TAPESTRY_API VariableTable {
 public:
  /// `most_bytes`: of all Variables together.
  VariableTable(std::string default_container, std::int64_t most_bytes)
      : default_container_(std::move(default_container)), most_bytes_(most_bytes) {}

  /// The cell of this name; a new one if there is none. Throws ResourceExhaustedError for too many bytes.
  std::shared_ptr<Variable::Cell> cell(const std::string& container, const std::string& name, const Spec& spec);
  /// Removes the Variables of some containers; those of the default one if none is named.
  void clear(const std::vector<std::string>& containers);

 private:
  std::string default_container_;
  std::int64_t most_bytes_, bytes_ = 0;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Variable::Cell>> cells_;
};

}  // namespace tapestry::io
