#pragma once

#include <span>

namespace tapestry::gpu {

/// A header that programs' kernels include, without its comments. See embed.py, which makes the list.
struct EmbeddedHeader {
  const char* name;  ///< as #include names it
  const char* text;
};
std::span<const EmbeddedHeader> embedded_headers();

}  // namespace tapestry::gpu
