#pragma once

#include <cstdint>
#include <memory>

#include "backend/cpu/compiled_program.hpp"

namespace tapestry::host {

/// Compiles a program whose elements are all float32. Null if the compiler does not know one of the functions, or if
/// the system gives no memory for code. `single`: see `compiled`.
std::shared_ptr<const CompiledProgram> compile(const Program& program, std::uint64_t single);

}  // namespace tapestry::host
