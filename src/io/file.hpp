#pragma once

#include <filesystem>
#include <span>

#include "tapestry/error.hpp"

namespace tapestry::io {

/// Writes a file so that nobody ever sees half of it: into a temporary file beside it, which then takes its name.
/// Throws NotFoundError when the folder does not exist, ResourceExhaustedError when the disk is full, and
/// FailedPreconditionError when the place cannot be written for another reason; then the old file is as it was.
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes, Where where);

}  // namespace tapestry::io
