#pragma once

#include <memory>
#include <span>

#include "backend/cpu/compiled_program.hpp"

namespace tapestry::host {

/// Machine code for a program whose inputs have these dtypes, as `compiled` returns it.
std::shared_ptr<const CompiledProgram> compile(const Program& program, std::span<const DType> inputs,
                                               std::uint64_t single, int near);

}  // namespace tapestry::host
