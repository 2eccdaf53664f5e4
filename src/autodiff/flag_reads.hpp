#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

namespace tapestry {

/// An object of the user's that holds tensors which are constants of a trace, such as a module.
class ConstantOwner {
 public:
  ConstantOwner() = default;
  ConstantOwner(const ConstantOwner&) = delete;
  ConstantOwner& operator=(const ConstantOwner&) = delete;
  virtual ~ConstantOwner() = default;

  /// Whether it holds the same tensors as when it was found. One that is gone cannot get others.
  virtual bool still_has_them() const = 0;
};

/// The flags that a function reads while it is traced, with the values that it finds. A flag that the function itself
/// has set before is none of them.
class FlagReads {
 public:
  /// While a Scope exists, the flags that its thread reads are noted. The innermost one counts.
  class Scope {
   public:
    explicit Scope(FlagReads& reads);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    FlagReads* outer_;
  };

  /// Whether all flags have the values that were found, and the owners of the constants still hold them.
  bool hold() const;

  /// Notes on this thread that an eager tensor has become a constant.
  static void note_constant(std::int64_t id);
  /// Looks for the owners of the constants, once all are known.
  void find_owners();
  using Owners = std::vector<std::unique_ptr<const ConstantOwner>>;
  /// Finds the owners of tensors by the tensors' ids. The first module sets it.
  static inline std::atomic<Owners (*)(const std::unordered_set<std::int64_t>&)> owners_of = nullptr;

  using Value = std::shared_ptr<const std::atomic<std::uint64_t>>;
  /// Notes on this thread that a flag is read or set.
  /// @{
  static void note_read(const Value& flag);
  static void note_set(const Value& flag);
  /// @}

 private:
  std::map<Value, std::optional<std::uint64_t>> found_;  ///< without a value: the function has set the flag
  std::unordered_set<std::int64_t> constants_;
  Owners owners_;
  mutable std::atomic<std::uint64_t> checked_ = 0;  ///< the number of changes of any flags until `hold` was true
};

}  // namespace tapestry
