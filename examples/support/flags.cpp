#include "flags.hpp"

#include <charconv>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace support {
namespace {

std::string on_one_line(const std::string& text) {
  std::string line;
  for (const char each : text) line += each == '\n' ? std::string("\\n") : std::string(1, each);
  return line;
}

}  // namespace

Flag::Flag(std::string name, std::string help, std::string& value)
    : name_(std::move(name)), help_(std::move(help)), default_(value), set_([&value](const std::string& text) {
        value = text;
        return true;
      }) {}

Flag::Flag(std::string name, std::string help, int& value, int least, int most)
    : name_(std::move(name)),
      help_(std::move(help)),
      default_(std::to_string(value)),
      takes_("a number from " + std::to_string(least) +
             (most == std::numeric_limits<int>::max() ? " on" : " to " + std::to_string(most))),
      set_([&value, least, most](const std::string& text) {
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        return error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
      }) {}

void parse_flags(int count, char** arguments, const std::string& about, std::initializer_list<Flag> flags) {
  const auto fail = [&](const std::string& message) {
    std::cerr << arguments[0] << ": " << message << "; try --help\n";
    std::exit(2);
  };
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      std::cout << about << "\n\n";
      for (const Flag& flag : flags)
        std::cout << "  " << flag.name_ << "  " << flag.help_ << " (default: " << on_one_line(flag.default_) << ")\n";
      std::exit(0);
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    bool known = false;
    for (const Flag& flag : flags) {
      if (flag.name_ != name) continue;
      known = true;
      if (equals == std::string::npos && ++i == count) fail(name + " needs a value");
      const std::string value = equals == std::string::npos ? arguments[i] : argument.substr(equals + 1);
      if (!flag.set_(value)) fail(name + " takes " + flag.takes_ + ", not \"" + value + '"');
    }
    if (!known) fail("unknown argument " + argument);
  }
}

void require_folder(const std::string& flag, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::filesystem::path probe = std::filesystem::path(folder) / ".probe";
  const bool writable = !folder.empty() && !error && std::ofstream(probe).is_open();
  std::filesystem::remove(probe, error);
  if (!writable) throw std::runtime_error(flag + ": no files can be made in the folder \"" + folder + '"');
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
