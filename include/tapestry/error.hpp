#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "tapestry/detail/config.hpp"

namespace tapestry {

/// A place in the user's program. std::source_location is missing from clang 14, hence the builtins.
struct Where {
  const char* file = nullptr;
  int line = 0;

  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
  explicit constexpr operator bool() const { return file != nullptr; }
};

/// "train.cpp:41": the file's name without its folders, and the line.
TAPESTRY_API std::string to_string(Where where);

/// TensorFlow's canonical error codes, with its numbers.
enum class Code {
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  resource_exhausted = 8,
  failed_precondition = 9,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  data_loss = 15,
  lookup = 100,  ///< Python's LookupError, which TensorFlow raises for an op without a gradient
};

/// Everything that the library throws. `what()` reads "message [Op:AddV2] at train.cpp:41"; the op and the place are
/// left out where they are not known.
class TAPESTRY_API Error : public std::runtime_error {
 public:
  Error(Code code, std::string message);

  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& op() const { return op_; }
  Where where() const { return where_; }
  const char* what() const noexcept override { return text_.c_str(); }

  /// Adds the op and the place, each only where none is known yet: the innermost op is the one to name.
  void locate(std::string_view op, Where where);

 private:
  void compose();

  Code code_;
  std::string message_, op_, text_;
  Where where_;
};

template <Code code_value>
class ErrorWithCode : public Error {
 public:
  explicit ErrorWithCode(std::string message) : Error(code_value, std::move(message)) {}
  ErrorWithCode(std::string message, Where where) : ErrorWithCode(std::move(message), {}, where) {}
  ErrorWithCode(std::string message, std::string_view op, Where where) : Error(code_value, std::move(message)) {
    locate(op, where);
  }
};

class TAPESTRY_API InvalidArgumentError : public ErrorWithCode<Code::invalid_argument> {
  using ErrorWithCode::ErrorWithCode;
};
class TAPESTRY_API FailedPreconditionError : public ErrorWithCode<Code::failed_precondition> {
  using ErrorWithCode::ErrorWithCode;
};
class TAPESTRY_API NotFoundError : public ErrorWithCode<Code::not_found> {
  using ErrorWithCode::ErrorWithCode;
};
class TAPESTRY_API LookupError : public ErrorWithCode<Code::lookup> {
  using ErrorWithCode::ErrorWithCode;
};
class TAPESTRY_API OutOfRangeError : public ErrorWithCode<Code::out_of_range> {
  using ErrorWithCode::ErrorWithCode;
};
class TAPESTRY_API DeadlineExceededError : public ErrorWithCode<Code::deadline_exceeded> {
  using ErrorWithCode::ErrorWithCode;
};
class TAPESTRY_API UnimplementedError : public ErrorWithCode<Code::unimplemented> {
  using ErrorWithCode::ErrorWithCode;
};
class TAPESTRY_API ResourceExhaustedError : public ErrorWithCode<Code::resource_exhausted> {
  using ErrorWithCode::ErrorWithCode;
};
class TAPESTRY_API DataLossError : public ErrorWithCode<Code::data_loss> {
  using ErrorWithCode::ErrorWithCode;
};
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
    if constexpr (requires { text += part; } && (!std::is_arithmetic_v<Part> || std::is_same_v<Part, char>)) {
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
}  // namespace tapestry
