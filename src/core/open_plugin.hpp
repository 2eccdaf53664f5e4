#pragma once

#include <cstdint>
#include <string>

#include "tapestry/error.hpp"

namespace tapestry {

/// Its address identifies a copy of the library. A program that is linked with the static library would get a second
/// copy together with a plugin.
TAPESTRY_API extern const char library_mark;

namespace detail {

/// Where a plugin is looked for.
struct PluginSearch {
  const char* file;      ///< the name of the file, which lies beside the library or in the linker's folders
  const char* what;      ///< what a build without it lacks, "CUDA backend"
  const char* variable;  ///< the environment variable that names another file
  std::string path;      ///< its value; empty: no other file
};

struct OpenedPlugin {
  void* handle = nullptr;
  std::string reason;  ///< why there is no handle
};

/// Opens a plugin. It is never closed: what it has made may be in use until the process ends.
OpenedPlugin open_plugin(const PluginSearch& search);
/// What a plugin exports under that name, or nullptr.
const void* exported_by(const OpenedPlugin& opened, const char* symbol);

/// Why a plugin cannot be used by this library, whose version is `ours`; empty when it can. Plugins are compiled by the
/// library's own compiler from the same headers. The first members of the structure that they export tell whether they
/// were: `bytes`, `layout`, `version`, `library`.
template <class Plugin>
std::string mismatch(const Plugin& plugin, std::uint32_t layout, const std::string& ours) {
  if (plugin.bytes != sizeof(Plugin) || plugin.version != ours)
    return join("the plugin belongs to another version of Tapestry",
                plugin.bytes == sizeof(Plugin) ? join(", ", plugin.version, ", not ", ours) : "");
  if (plugin.layout != layout) return "the plugin was compiled with another layout of Tapestry's structures";
  if (plugin.library != &library_mark)
    return "the plugin works with the shared libtapestry only, and this program has a copy of its own (is it linked "
           "with the static library?)";
  return "";
}

template <class Plugin>
struct FoundPlugin {
  const Plugin* plugin = nullptr;
  std::string reason;  ///< why there is none
};

/// Opens the plugin that exports a structure `symbol` and can be used by this library, whose version is `ours`.
template <class Plugin>
FoundPlugin<Plugin> find_plugin(const PluginSearch& search, const char* symbol, std::uint32_t layout,
                                const std::string& ours) {
  const OpenedPlugin opened = open_plugin(search);
  if (!opened.handle) return {nullptr, opened.reason};
  const auto* plugin = static_cast<const Plugin*>(exported_by(opened, symbol));
  if (!plugin) return {nullptr, join("the plugin does not define ", symbol)};
  const std::string reason = mismatch(*plugin, layout, ours);
  return {reason.empty() ? plugin : nullptr, reason};
}

/// The value of an environment variable; "" if it is not set.
TAPESTRY_API std::string environment(const char* name);

}  // namespace detail
}  // namespace tapestry
