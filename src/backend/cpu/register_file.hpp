#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tapestry::host {

/// The registers of one kind, and which node of vector code each holds.
class RegisterFile {
 public:
  static constexpr int none = -1;

  /// Registers first, first + 1, ... of `count`.
  RegisterFile(int first, int count) : first_(first), owner_(static_cast<std::size_t>(count), none) {}

  int count() const { return static_cast<int>(owner_.size()); }
  int owner(int number) const { return owner_[index(number)]; }
  void give(int number, int node) {
    owner_[index(number)] = node;
    peak_ = std::max(peak_, count() - static_cast<int>(std::count(owner_.begin(), owner_.end(), none)));
  }
  void release(int number) { owner_[index(number)] = none; }
  /// A register that holds nothing, or `none`.
  int free() const {
    const auto found = std::find(owner_.begin(), owner_.end(), none);
    return found == owner_.end() ? none : first_ + static_cast<int>(found - owner_.begin());
  }
  int first() const { return first_; }
  /// The most registers that were in use at a time.
  int peak() const { return peak_; }

 private:
  std::size_t index(int number) const { return static_cast<std::size_t>(number - first_); }
  int first_, peak_ = 0;
  std::vector<int> owner_;
};

}  // namespace tapestry::host
