#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "tapestry/detail/config.hpp"

namespace tapestry {

/// @addtogroup errors
/// @{

/// A place in the user's program. std::source_location is missing from clang 14, hence the builtins.
struct Where {
  const char* file = nullptr;  ///< as the compiler was given it; nullptr when the place is not known
  int line = 0;                ///< from 1

  /// As the default value of a parameter: the place of the call.
  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
  /// Whether the place is known.
  explicit constexpr operator bool() const { return file != nullptr; }
};

/// "train.cpp:41": the file's name without its folders, and the line.
TAPESTRY_API std::string to_string(Where where);

/// TensorFlow's canonical error codes, with its numbers.
enum class Code {
  invalid_argument = 3,     ///< a value, shape, dtype or name that makes no sense
  deadline_exceeded = 4,    ///< a run took longer than it may
  not_found = 5,            ///< no file, op, attribute or slot of that name
  resource_exhausted = 8,   ///< no memory, threads or disk space left
  failed_precondition = 9,  ///< not in this state: no value yet, closed, finalized
  out_of_range = 11,        ///< no element at that place
  unimplemented = 12,       ///< Tapestry, or the format of a file, lacks it
  internal = 13,            ///< a mistake of the library
  data_loss = 15,           ///< a damaged file
  lookup = 100,             ///< Python's LookupError, which TensorFlow raises for an op without a gradient
};

/// Everything that the library throws. `what()` reads "message [Op:AddV2] at train.cpp:41"; the op and the place are
/// left out where they are not known.
class TAPESTRY_API Error : public std::runtime_error {
 public:
  /// Without op and place: see `locate`.
  Error(Code code, std::string message);

  /// Which of the classes below it is, as a number.
  Code code() const { return code_; }
  /// What happened, without op and place.
  const std::string& message() const { return message_; }
  /// The innermost op in which it happened, "AddV2"; "" when it was in none.
  const std::string& op() const { return op_; }
  /// The user's line.
  Where where() const { return where_; }
  /// Message, op and place in one line.
  const char* what() const noexcept override { return text_.c_str(); }

  /// Adds the op and the place, each only where none is known yet: the innermost op is the one to name.
  void locate(std::string_view op, Where where);

 private:
  void compose();

  Code code_;
  std::string message_, op_, text_;
  Where where_;
};

/// What the errors below are made of: one class for each code, to be caught by its name.
template <Code code_value>
class ErrorWithCode : public Error {
 public:
  /// Without op and place, which `locate` adds.
  explicit ErrorWithCode(std::string message) : Error(code_value, std::move(message)) {}
  /// With the user's line.
  ErrorWithCode(std::string message, Where where) : ErrorWithCode(std::move(message), {}, where) {}
  /// With the op, too.
  ErrorWithCode(std::string message, std::string_view op, Where where) : Error(code_value, std::move(message)) {
    locate(op, where);
  }
};

/// A value, shape, dtype or name that makes no sense.
class TAPESTRY_API InvalidArgumentError : public ErrorWithCode<Code::invalid_argument> {
  using ErrorWithCode::ErrorWithCode;
};
/// Something is not in the state that this needs: a Variable without a value, a closed session, a file that cannot be
/// written.
class TAPESTRY_API FailedPreconditionError : public ErrorWithCode<Code::failed_precondition> {
  using ErrorWithCode::ErrorWithCode;
};
/// There is no file, op, attribute or slot of that name.
class TAPESTRY_API NotFoundError : public ErrorWithCode<Code::not_found> {
  using ErrorWithCode::ErrorWithCode;
};
/// There is no gradient for an op, or no operation or tensor of that name in a graph.
class TAPESTRY_API LookupError : public ErrorWithCode<Code::lookup> {
  using ErrorWithCode::ErrorWithCode;
};
/// There is no element at that place.
class TAPESTRY_API OutOfRangeError : public ErrorWithCode<Code::out_of_range> {
  using ErrorWithCode::ErrorWithCode;
};
/// A run took longer than its `timeout_in_ms`.
class TAPESTRY_API DeadlineExceededError : public ErrorWithCode<Code::deadline_exceeded> {
  using ErrorWithCode::ErrorWithCode;
};
/// The library, or the format of a file, lacks what it would take.
class TAPESTRY_API UnimplementedError : public ErrorWithCode<Code::unimplemented> {
  using ErrorWithCode::ErrorWithCode;
};
/// No memory, no thread or no disk space is left.
class TAPESTRY_API ResourceExhaustedError : public ErrorWithCode<Code::resource_exhausted> {
  using ErrorWithCode::ErrorWithCode;
};
/// A file is damaged, stops early or contradicts itself.
class TAPESTRY_API DataLossError : public ErrorWithCode<Code::data_loss> {
  using ErrorWithCode::ErrorWithCode;
};
/// A mistake of the library itself.
class TAPESTRY_API InternalError : public ErrorWithCode<Code::internal> {
  using ErrorWithCode::ErrorWithCode;
};

namespace detail {

/// Joins what `operator<<` or `to_string` makes of each part: `join("axis ", axis, " is out of range")`.
template <class... Parts>
std::string join(const Parts&... parts) {
  std::string text;
  auto append = [&text](const auto& part) {
    using Part = std::remove_cvref_t<decltype(part)>;
    // A std::string takes whatever converts to a number as one character.
    if constexpr (requires { text += part; } &&
                  (!std::is_convertible_v<const Part&, long> || std::is_same_v<Part, char>)) {
      text += part;
    } else {
      using std::to_string;
      text += to_string(part);
    }
  };
  (append(parts), ...);
  return text;
}

}  // namespace detail

/// @}

}  // namespace tapestry
