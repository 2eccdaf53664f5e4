#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/hash_index.hpp"
#include "tapestry/device.hpp"

namespace tapestry::detail {

/// The names of a graph's operations and scopes. Each is given once; names that differ only in case count as the
/// same.
class TAPESTRY_API NameTable {
 public:
  /// Takes the name, or the first of "name_1", "name_2", ... that is free, and returns it.
  std::string unique(std::string_view name);
  /// Takes a name, whether it is free or not.
  void take(std::string_view name);
  /// Frees a name that was taken.
  void release(std::string_view name);
  /// Makes room for so many names.
  void reserve(std::size_t names) { index_.reserve(names); }

 private:
  struct Used {
    std::string name;  ///< in lower case
    int next = 1;      ///< the next number to try
  };

  /// Whether the name was free.
  std::pair<Used&, bool> try_take(std::string_view name);

  HashIndex index_;
  std::deque<Used> used_;
  std::vector<std::uint32_t> free_;  ///< the elements of `used_` that are free
};

/// The rule of `is_valid_node_name` at the root; within a scope, a name may begin with any of its characters.
bool is_valid_scope_name(std::string_view name, bool at_root);

/// Merges two device names of TensorFlow, component by component; those of the inner name win. "/job:ps" and "/cpu:0"
/// give "/job:ps/device:CPU:0". Throws InvalidArgumentError for a malformed name.
TAPESTRY_API std::string merge_device_names(std::string_view outer, std::string_view inner);
/// Whether a full name, "/job:localhost/replica:0/task:0/device:CPU:0", matches the merged name that was asked for, in
/// which components may be missing and the number of the device may be "*".
bool is_device_asked_for(std::string_view asked, std::string_view full_name);
/// The device that a merged name asks for; nothing if it names no kind of device. If no device matches, returns the CPU
/// if `soft`, and otherwise throws InvalidArgumentError with the name of the operation.
std::optional<Device> device_asked_for(const std::string& asked, bool soft, std::string_view operation);

}  // namespace tapestry::detail
