#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dispatch/recorder.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::io {

/// The names that the nodes of a file or of a function have.
class FileNames {
 public:
  auto insert(std::string name) { return taken_.insert(std::move(name)); }
  bool contains(const std::string& name) const { return taken_.contains(name); }
  void erase(const std::string& name) { taken_.erase(name); }

  /// The name itself, or the first of "name_1", "name_2", ... that no node has; from now on it is taken.
  std::string unique(const std::string& name) {
    std::string free = name;
    for (int number = 1; !taken_.insert(free).second; ++number) free = detail::join(name, "_", number);
    return free;
  }

  /// Keeps the name of a constant for a node that has its value.
  void keep(const std::string& name, const Tensor& value) {
    if (taken_.insert(name).second) kept_.emplace(name, value);
  }
  /// What `unique` returns, or a name that is kept for this value.
  std::string unique_constant(const std::string& name, const Tensor& value);
  /// Whether the name is kept for a constant that no node has become.
  bool keeps(const std::string& name) const { return kept_.contains(name); }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, Tensor> kept_;
};

}  // namespace tapestry::io
