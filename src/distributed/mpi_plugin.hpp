#pragma once

#include <cstdint>

#include "core/open_plugin.hpp"
#include "distributed/collectives.hpp"

namespace tapestry::detail {

/// libtapestry_mpi.so exports this as the C symbol `tapestry_mpi_plugin`. The first members are as in every plugin (see
/// `mismatch`).
struct MpiPlugin {
  std::uint32_t bytes;         ///< of this structure
  std::uint32_t layout;        ///< `mpi_layout` of the plugin
  const char* version;         ///< the version of Tapestry that it belongs to
  const void* library;         ///< `library_mark` of the library that it is linked with
  CommunicatorRef (*world)();  ///< all processes; throws UnavailableError
};
inline constexpr const char* mpi_plugin_symbol = "tapestry_mpi_plugin";

/// Differs as soon as one of the structures that the library and the plugin share has another size.
inline constexpr std::uint32_t mpi_layout = [] {
  std::uint32_t sum = 0;
  for (const std::size_t bytes : {sizeof(TensorImpl), sizeof(Exchange), sizeof(Collectives), sizeof(Error)})
    sum = sum * 31 + static_cast<std::uint32_t>(bytes);
  return sum;
}();

}  // namespace tapestry::detail
