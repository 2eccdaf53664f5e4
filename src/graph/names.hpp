#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tapestry/device.hpp"

namespace tapestry::detail {

/// The names of a graph's operations and scopes: each is given once, whatever its case.
class NameTable {
 public:
  /// The name itself, or the first of "name_1", "name_2", ... that is free; it is taken from then on.
  std::string unique(std::string_view name);
  /// Takes a name, whether it is free or not.
  void take(std::string_view name);

 private:
  std::unordered_map<std::string, int> used_;  ///< by the name in lower case: the next number to try
};

/// TensorFlow's rule: "^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$".
bool is_valid_node_name(std::string_view name);
/// Within a scope a name may begin with any of these characters.
bool is_valid_scope_name(std::string_view name, bool at_root);

/// The parts of TensorFlow's device names, merged: those of the inner name win. "/job:ps" and "/cpu:0" give
/// "/job:ps/device:CPU:0". Throws InvalidArgumentError for what is no device name.
std::string merge_device_names(std::string_view outer, std::string_view inner);
/// Whether a device of that full name, "/job:localhost/replica:0/task:0/device:CPU:0", is one that was asked for: a
/// merged name, in which parts may be missing and the number of the device may be "*".
bool is_device_asked_for(std::string_view asked, std::string_view full_name);
/// The device that a merged name asks for; nothing where it names no kind of device. One that is not there means, if
/// `soft`, the CPU. Throws InvalidArgumentError otherwise, with the name of the operation.
std::optional<Device> device_asked_for(const std::string& asked, bool soft, std::string_view operation);

}  // namespace tapestry::detail
