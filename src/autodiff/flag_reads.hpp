#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

namespace tapestry {

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

  /// Whether all flags have the values that were found.
  bool hold() const;

  using Value = std::shared_ptr<const std::atomic<bool>>;
  /// Notes on this thread that a flag is read or set.
  /// @{
  static void note_read(const Value& flag);
  static void note_set(const Value& flag);
  /// @}

 private:
  std::map<Value, std::optional<bool>> found_;      ///< without a value: the function has set the flag
  mutable std::atomic<std::uint64_t> checked_ = 0;  ///< the number of changes of any flags until `hold` was true
};

}  // namespace tapestry
