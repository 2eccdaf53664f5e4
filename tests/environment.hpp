#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace tapestry::test {

/// How many cases a test draws that by itself draws `usual`: what TAPESTRY_CASES says, for a long search.
inline long number_of_cases(long usual) {
  const char* wish = std::getenv("TAPESTRY_CASES");
  return wish ? std::atol(wish) : usual;
}

/// The seed of a test that by itself takes `usual`: what TAPESTRY_SEED says, so that a long search can be run in parts.
inline unsigned seed_of_cases(unsigned usual) {
  const char* wish = std::getenv("TAPESTRY_SEED");
  return wish ? static_cast<unsigned>(std::atol(wish)) : usual;
}

/// Sets an environment variable while it lives.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Setting() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace tapestry::test
