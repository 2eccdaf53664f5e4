#pragma once

#include <cstdint>
#include <memory>

#include "backend/cpu/compiled_program.hpp"

namespace tapestry::host {

/// Null where the program has a function that is not known there, and where the system gives no memory for code. All
/// elements are float32. `single`: see `compiled`.
std::shared_ptr<const CompiledProgram> compile(const Program& program, std::uint64_t single);

}  // namespace tapestry::host
