#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "tapestry/detail/config.hpp"

namespace tapestry {

/// @addtogroup errors
/// @{

/// A position in the user's source code. It uses builtins, because clang 14 lacks std::source_location.
struct Where {
  const char* file = nullptr;  ///< the path that the compiler was given; nullptr when the position is not known
  int line = 0;                ///< the line, from 1

  /// The call site, when this is the default value of a parameter.
  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
  /// Whether the position is known.
  explicit constexpr operator bool() const { return file != nullptr; }
};

/// The file's name without its folders, and the line: "train.cpp:41".
TAPESTRY_API std::string to_string(Where where);

/// TensorFlow's canonical error codes, with its numbers.
enum class Code {
  cancelled = 1,            ///< given up by the caller, who closed the session or ended the server
  invalid_argument = 3,     ///< a value, shape, dtype or name that makes no sense
  deadline_exceeded = 4,    ///< a run took longer than it may
  not_found = 5,            ///< no file, op, attribute or slot of that name
  resource_exhausted = 8,   ///< no memory, threads or disk space left
  failed_precondition = 9,  ///< not in this state: no value yet, closed, finalized
  aborted = 10,             ///< another participant of the operation has ended it
  out_of_range = 11,        ///< no element at that position
  unimplemented = 12,       ///< Tapestry, or the format of a file, lacks it
  internal = 13,            ///< a bug in the library, or a std::exception of an op of the program
  unavailable = 14,         ///< another process cannot be reached
  data_loss = 15,           ///< a damaged file
  lookup = 100,             ///< Python's LookupError, which TensorFlow raises for an op without a gradient
};

/// The base class of everything that the library throws. `what()` reads "message [Op:AddV2] at train.cpp:41"; the op
/// and the position are left out when they are not known. In a graph that was read from a file, whose lines are
/// nobody's, it names the node, too: "message [Op:AddV2] in node 'hidden/add' at train.cpp:41".
class TAPESTRY_API Error : public std::runtime_error {
 public:
  /// An error without op and position; `locate` adds them.
  Error(Code code, std::string message);

  /// The code, which tells which of the classes below this error is.
  Code code() const { return code_; }
  /// The message without op and position.
  const std::string& message() const { return message_; }
  /// The innermost op in which the error occurred, such as "AddV2"; "" when it occurred in none.
  const std::string& op() const { return op_; }
  /// The operation of a graph, such as "hidden/MatMul", that failed in a run; "" when none did.
  const std::string& node() const { return node_; }
  /// The call site in the user's program.
  Where where() const { return where_; }
  /// Message, op and position in one line.
  const char* what() const noexcept override { return text_.c_str(); }

  /// Adds the op and the position. Those that are known already stay, so that the error names the innermost op.
  void locate(std::string_view op, Where where);
  /// The same for an operation of a graph.
  void locate(std::string_view op, std::string_view node, Where where);
  /// Lets `what()` name the operation of the graph, unless the message does.
  void show_node();

 private:
  void compose();

  Code code_;
  bool shows_node_ = false;
  std::string message_, op_, node_, text_;
  Where where_;
};

/// The base of the classes below. There is one class for each code.
template <Code code_value>
class ErrorWithCode : public Error {
 public:
  /// An error without op and position; `locate` adds them.
  explicit ErrorWithCode(std::string message) : Error(code_value, std::move(message)) {}
  /// An error at a call site.
  ErrorWithCode(std::string message, Where where) : ErrorWithCode(std::move(message), {}, where) {}
  /// An error in an op, at a call site.
  ErrorWithCode(std::string message, std::string_view op, Where where) : Error(code_value, std::move(message)) {
    locate(op, where);
  }
};

/// A value, shape, dtype or name that makes no sense.
class TAPESTRY_API InvalidArgumentError : public ErrorWithCode<Code::invalid_argument> {
  using ErrorWithCode::ErrorWithCode;
};
/// A run was given up, because its session was closed or the server was stopped.
class TAPESTRY_API CancelledError : public ErrorWithCode<Code::cancelled> {
  using ErrorWithCode::ErrorWithCode;
};
/// Something is not in the required state: a Variable has no value, a session is closed, a file cannot be written.
class TAPESTRY_API FailedPreconditionError : public ErrorWithCode<Code::failed_precondition> {
  using ErrorWithCode::ErrorWithCode;
};
/// Another rank or task that takes part in an operation has failed or ended, so that the operation cannot complete.
class TAPESTRY_API AbortedError : public ErrorWithCode<Code::aborted> {
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
/// There is no element at that position.
class TAPESTRY_API OutOfRangeError : public ErrorWithCode<Code::out_of_range> {
  using ErrorWithCode::ErrorWithCode;
};
/// A run took longer than its `timeout_in_ms`, or loading or running a graph took longer than its GraphLimits allow.
class TAPESTRY_API DeadlineExceededError : public ErrorWithCode<Code::deadline_exceeded> {
  using ErrorWithCode::ErrorWithCode;
};
/// The library, or the format of a file, does not support something.
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
/// Another process, or the library that reaches it, is not available.
class TAPESTRY_API UnavailableError : public ErrorWithCode<Code::unavailable> {
  using ErrorWithCode::ErrorWithCode;
};
/// The library has a bug.
class TAPESTRY_API InternalError : public ErrorWithCode<Code::internal> {
  using ErrorWithCode::ErrorWithCode;
};

namespace detail {

/// Concatenates the parts, each as a string or as `to_string` converts it: `join("axis ", axis, " is out of range")`.
template <class... Parts>
std::string join(const Parts&... parts) {
  std::string text;
  auto append = [&text](const auto& part) {
    using Part = std::remove_cvref_t<decltype(part)>;
    // A type that converts to a number must not be appended: std::string would take the number for a character.
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
