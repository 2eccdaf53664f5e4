#include "backend/cuda/compiler.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "backend/cuda/headers.hpp"
#include "backend/cuda/libraries.hpp"
#include "tapestry/error.hpp"

namespace tapestry::gpu {
namespace {

/// --fmad=false keeps a multiplication and an addition of two instructions from being fused, so that programs have the
/// bits of the kernels of single functions, which are compiled with it, too. --no-cache turns off NVRTC's own cache, as
/// disk_cache.hpp keeps the results.
constexpr const char* fixed_options[] = {"--std=c++20", "--fmad=false", "-default-device",
                                         "--minimal",   "--no-cache",   "--disable-warnings"};

std::string arch_option(Target target) {
  return detail::join("--gpu-architecture=", target.machine_code ? "sm_" : "compute_", target.arch);
}

void check_nvrtc(nvrtcResult result, const char* what) {
  if (result != NVRTC_SUCCESS)
    throw InternalError(detail::join("NVRTC: ", what, " failed: ", nvrtc().error_string(result)));
}

struct Destroy {
  void operator()(nvrtcProgram program) const { nvrtc().destroy(&program); }
};
using Compilation = std::unique_ptr<std::remove_pointer_t<nvrtcProgram>, Destroy>;

Compilation compilation_of(const std::string& text) {
  std::vector<const char*> names, texts;
  for (const EmbeddedHeader& header : embedded_headers()) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  nvrtcProgram program = nullptr;
  check_nvrtc(
      nvrtc().create(&program, text.c_str(), "program.cu", static_cast<int>(names.size()), texts.data(), names.data()),
      "taking a program");
  return Compilation(program);
}

/// A result that NVRTC returns by two functions: one tells its number of bytes, the other writes it.
template <class Size, class Get>
std::string bytes_of(nvrtcProgram program, Size size, Get get) {
  std::size_t bytes = 0;
  check_nvrtc(size(program, &bytes), "asking for a result");
  std::string result(bytes, '\0');
  check_nvrtc(get(program, result.data()), "asking for a result");
  return result;
}

}  // namespace

Target target_for(int compute_capability) {
  int count = 0;
  check_nvrtc(nvrtc().arch_count(&count), "asking for architectures");
  std::vector<int> archs(count);
  check_nvrtc(nvrtc().archs(archs.data()), "asking for architectures");
  Target target;
  for (const int arch : archs)
    if (arch <= compute_capability) target.arch = std::max(target.arch, arch);
  target.machine_code = target.arch == compute_capability;
  return target;
}

std::string compilation_key(const std::string& text, Target target) {
  static const std::string& headers = *new std::string([] {
    std::string all;
    for (const EmbeddedHeader& header : embedded_headers()) all += detail::join("// ", header.name, "\n", header.text);
    return all;
  }());
  std::string key = detail::join("NVRTC ", nvrtc().major, ".", nvrtc().minor, " ", arch_option(target));
  for (const char* option : fixed_options) key += detail::join(" ", option);
  return key + "\n" + headers + text;
}

Compiled compile(const std::string& text, Target target, std::span<const char* const> more_options) {
  const Compilation compilation = compilation_of(text);
  const std::string arch = arch_option(target);
  std::vector<const char*> options{arch.c_str()};
  options.insert(options.end(), std::begin(fixed_options), std::end(fixed_options));
  options.insert(options.end(), more_options.begin(), more_options.end());
  const nvrtcResult result = nvrtc().compile(compilation.get(), static_cast<int>(options.size()), options.data());
  Compiled compiled;
  compiled.log = bytes_of(compilation.get(), nvrtc().log_size, nvrtc().log);
  compiled.log.resize(std::strlen(compiled.log.c_str()));  // removes the zero at its end
  if (result != NVRTC_SUCCESS)
    throw InternalError(detail::join("NVRTC cannot compile a program (", nvrtc().error_string(result), "):\n",
                                     compiled.log, "\nThe text is:\n", text));
  compiled.image = target.machine_code ? bytes_of(compilation.get(), nvrtc().cubin_size, nvrtc().cubin)
                                       : bytes_of(compilation.get(), nvrtc().ptx_size, nvrtc().ptx);
  return compiled;
}

}  // namespace tapestry::gpu
