#include "core/open_plugin.hpp"

#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>

namespace tapestry {

const char library_mark = 0;

namespace detail {
namespace {

/// The file that contains this code: libtapestry.so, or the program itself.
std::filesystem::path this_file() {
  Dl_info info{};
  return dladdr(&library_mark, &info) != 0 && info.dli_fname ? info.dli_fname : "";
}

OpenedPlugin open_file(const std::string& file) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  return {handle, handle ? "" : dlerror()};
}

}  // namespace

OpenedPlugin open_plugin(const PluginSearch& search) {
  if (!search.path.empty()) {
    OpenedPlugin opened = open_file(search.path);
    if (!opened.handle) opened.reason = join(search.variable, " cannot be opened: ", opened.reason);
    return opened;
  }
  const std::filesystem::path beside = this_file().replace_filename(search.file);
  std::error_code error;
  if (std::filesystem::exists(beside, error)) return open_file(beside);
  OpenedPlugin opened = open_file(search.file);
  if (!opened.handle)
    opened.reason = join("this build of Tapestry has no ", search.what, ": there is no ", search.file, " beside ",
                         this_file().string());
  return opened;
}

const void* exported_by(const OpenedPlugin& opened, const char* symbol) { return dlsym(opened.handle, symbol); }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace detail
}  // namespace tapestry
