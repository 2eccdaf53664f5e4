#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace support {

/// One option of a program, `--name VALUE`, and the variable that takes its value.
class Flag {
 public:
  Flag(std::string name, std::string help, std::string& value);
  Flag(std::string name, std::string help, int& value);

 private:
  friend void parse_flags(int, char**, const std::string&, std::initializer_list<Flag>);

  std::string name_, help_, default_;
  std::function<bool(const std::string&)> set_;  ///< returns false when the text is not a valid value
};

/// Sets the flags' variables from the command line. `--help` prints the flags and ends the program; an invalid argument
/// is named, and ends the program with status 2.
void parse_flags(int count, char** arguments, const std::string& about, std::initializer_list<Flag> flags);

/// Runs an example's body; an exception is printed and becomes exit status 1.
int run(const std::function<void()>& body);

}  // namespace support
