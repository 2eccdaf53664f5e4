// NVRTC by the compiler that has compiled the emulator: of a text it makes a shared object for the processor.

#include "nvrtc.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "emulator.hpp"

struct _nvrtcProgram {
  std::string text;
  std::vector<std::pair<std::string, std::string>> headers;  ///< name and text
  std::string image, log;
};

namespace {

namespace fs = std::filesystem;

constexpr std::array known_archs = {80, 90};
std::atomic<int> compilations{0};

/// Behind the text: what cudaLaunchKernel calls for a kernel's function and the addresses of its arguments.
constexpr const char* epilogue = R"(
template <class... P>
struct Arguments {
  explicit Arguments(void**) {}
  void give(const auto& kernel, const auto&... before) const { kernel(before...); }
};
template <class First, class... Rest>
struct Arguments<First, Rest...> {
  explicit Arguments(void** from) : first(*static_cast<First*>(*from)), rest(from + 1) {}
  void give(const auto& kernel, const auto&... before) const { rest.give(kernel, before..., first); }
  First first;
  Arguments<Rest...> rest;
};
template <class... P>
emulator::Kernel* emulated_kernel_of(void (*kernel)(P...), void** from) {
  const auto make = [&] {
    return [kernel, arguments = Arguments<P...>(from)] {
      emulator::check_launch_bounds(emulated_bounds);
      arguments.give(kernel);
    };
  };
  return new emulator::KernelOf<decltype(make)>(make);
}
extern "C" emulator::Kernel* emulated_kernel(void** arguments) { return emulated_kernel_of(program, arguments); }
)";

/// In place of <cmath>, which takes longer to compile than all the rest: C's functions alone. The macro is libstdc++'s
/// word for that.
constexpr const char* mathematics = R"(#pragma once
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
)";

/// A folder while it is needed.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "emulated-nvrtc-XXXXXX").string();
    if (!mkdtemp(name.data())) std::abort();
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void write(const fs::path& file, const std::string& content) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << content;
}
std::string read(const fs::path& file) {
  std::ostringstream content;
  content << std::ifstream(file, std::ios::binary).rdbuf();
  return content.str();
}

/// A text as C++: without __launch_bounds__, whose number stands behind it.
std::string translated(std::string text) {
  const std::string bounds = "__launch_bounds__(";
  const std::size_t begin = text.find(bounds), end = text.find(')', begin);
  std::string number = "1024";
  if (begin != std::string::npos) {
    number = text.substr(begin + bounds.size(), end - begin - bounds.size());
    text.erase(begin, end + 1 - begin);
  }
  return "#include \"emulated_device.h\"\n#line 1 \"program.cu\"\n" + text +
         "constexpr unsigned emulated_bounds = " + number + ";\n" + epilogue;
}

/// Whether the options are those that make a kernel's bits independent of what else is in it, for a known architecture.
bool is_known(const std::string& option) {
  constexpr std::array known = {"--std=c++20", "--fmad=false", "-default-device",
                                "--minimal",   "--no-cache",   "--disable-warnings"};
  for (const int arch : known_archs)
    for (const char* kind : {"sm_", "compute_"})
      if (option == "--gpu-architecture=" + (kind + std::to_string(arch))) return true;
  return std::find(known.begin(), known.end(), option) != known.end();
}

int run(const std::string& command, std::string& output) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) std::abort();
  std::array<char, 4096> buffer;
  while (std::size_t bytes = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), bytes);
  return pclose(pipe);
}

nvrtcResult give_size(const std::string& value, std::size_t* bytes) {
  *bytes = value.size();
  return NVRTC_SUCCESS;
}
nvrtcResult give(const std::string& value, char* to) {
  std::copy(value.begin(), value.end(), to);
  return NVRTC_SUCCESS;
}

}  // namespace

extern "C" {

/// How many texts have been compiled, for tests.
int emulated_nvrtc_compilations() { return compilations; }

const char* nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS:
      return "NVRTC_SUCCESS";
    case NVRTC_ERROR_INVALID_INPUT:
      return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_OPTION:
      return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION:
      return "NVRTC_ERROR_COMPILATION";
  }
  return "NVRTC_ERROR unknown";
}

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(known_archs.size());
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* archs) {
  std::copy(known_archs.begin(), known_archs.end(), archs);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text, const char*, int header_count,
                               const char* const* headers, const char* const* header_names) {
  *program = new _nvrtcProgram{text, {}, "", ""};
  for (int i = 0; i < header_count; ++i) (*program)->headers.emplace_back(header_names[i], headers[i]);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int option_count, const char* const* options) {
  for (int i = 0; i < option_count; ++i)
    if (!is_known(options[i])) return NVRTC_ERROR_INVALID_OPTION;
  ++compilations;
  const Folder folder;
  for (const auto& [name, text] : program->headers)
    // The standard library is the compiler's own.
    if (name.find('/') != std::string::npos) write(folder.path() / name, text);
  write(folder.path() / "cmath", mathematics);
  const fs::path source = folder.path() / "program.cpp", object = folder.path() / "program.so";
  write(source, translated(program->text));
  Dl_info emulator{};
  dladdr(&gridDim, &emulator);
  // The program that loads it has the C++ library, whose symbols take the linker long; of the mathematical library the
  // linker must see which version of a function is today's.
  const std::string command =
      std::string(COMPILER " -std=c++20 -O1 -ffp-contract=off -w -fPIC -shared -nostdlib -I" INCLUDES " -I") +
      folder.path().string() + " " + source.string() + " -o " + object.string() + " " + emulator.dli_fname + " -lm";
  if (run(command, program->log) != 0) return NVRTC_ERROR_COMPILATION;
  const std::string content = read(object);
  emulator::Image image{};
  std::memcpy(image.magic, emulator::image_magic, sizeof image.magic);
  image.bytes = content.size();
  program->image = std::string(reinterpret_cast<const char*>(&image), sizeof image) + content;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* bytes) { return give_size(program->image, bytes); }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) { return give(program->image, cubin); }
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, std::size_t* bytes) { return give_size(program->image, bytes); }
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) { return give(program->image, ptx); }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* bytes) {
  *bytes = program->log.size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}
}
