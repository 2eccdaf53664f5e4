#pragma once

#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

namespace support {

/// One option of a program, `--name VALUE` or `--name=VALUE`, and the variable that takes its value.
class Flag {
 public:
  Flag(std::string name, std::string help, std::string& value);
  /// A number from `least` to `most`.
  Flag(std::string name, std::string help, int& value, int least = 0, int most = std::numeric_limits<int>::max());

 private:
  friend void parse_flags(int, char**, const std::string&, std::initializer_list<Flag>);

  std::string name_, help_, default_, takes_;
  std::function<bool(const std::string&)> set_;  ///< returns false when the text is not a valid value
};

/// Sets the flags' variables from the command line. `--help` and `-h` print the flags and end the program; an invalid
/// argument is named, and ends the program with status 2.
void parse_flags(int count, char** arguments, const std::string& about, std::initializer_list<Flag> flags);

/// Makes the folder that a flag names, and throws std::runtime_error with the flag's name unless files can be made in
/// it: before the program works long for what it could not write.
void require_folder(const std::string& flag, const std::string& folder);

/// Runs an example's body; an exception is printed and becomes exit status 1.
int run(const std::function<void()>& body);

}  // namespace support
