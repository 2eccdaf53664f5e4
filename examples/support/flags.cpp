#include "flags.hpp"

#include <charconv>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <utility>

namespace support {

Flag::Flag(std::string name, std::string help, std::string& value)
    : name_(std::move(name)), help_(std::move(help)), default_(value), set_([&value](const std::string& text) {
        value = text;
        return true;
      }) {}

Flag::Flag(std::string name, std::string help, int& value)
    : name_(std::move(name)),
      help_(std::move(help)),
      default_(std::to_string(value)),
      set_([&value](const std::string& text) {
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        return error == std::errc() && end == text.data() + text.size() && value >= 0;
      }) {}

void parse_flags(int count, char** arguments, const std::string& about, std::initializer_list<Flag> flags) {
  const auto fail = [&](const std::string& message) {
    std::cerr << arguments[0] << ": " << message << "; try --help\n";
    std::exit(2);
  };
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--help") {
      std::cout << about << "\n\n";
      for (const Flag& flag : flags)
        std::cout << "  " << flag.name_ << "  " << flag.help_ << " (default: " << flag.default_ << ")\n";
      std::exit(0);
    }
    bool known = false;
    for (const Flag& flag : flags) {
      if (flag.name_ != name) continue;
      known = true;
      if (++i == count) fail(name + " needs a value");
      if (!flag.set_(arguments[i])) fail(name + " does not take \"" + arguments[i] + '"');
    }
    if (!known) fail("unknown argument " + name);
  }
}

int run(const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

}  // namespace support
