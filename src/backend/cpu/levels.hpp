#pragma once

// One kernel source, several instruction sets. Every file in kernels/ is compiled once per level of x86-64 (v2: SSE4.2,
// v3: AVX2, v4: AVX-512) that the option `cpu_levels` names, or once as `portable` elsewhere. TAPESTRY_KERNEL_LEVEL is
// the name of the level. The CPU backend picks a level's table of functions at its first use. A family needs three
// things, and no common list:
//
//   kernels/reduce.hpp   struct ReduceTable { void (*sum)(const float* x, std::int64_t n, float* y); };
//                        TAPESTRY_KERNEL_TABLE(ReduceTable, reduce_table)       // declares it in each level's
//                        namespace
//   kernels/reduce.cpp   namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
//                        namespace { void sum(...) {...} }
//                        const ReduceTable reduce_table = {.sum = sum};
//                        }
//   reduce.cpp           const ReduceTable& kernels() {
//                          static const ReduceTable& table = TAPESTRY_PICK_LEVEL(reduce_table);
//                          return table;
//                        }
//
// (A namespace-scope reference instead of the function would be unset in constructors of the user's global tensors.)
// Tests may call `v3::reduce_table.sum` directly, for levels up to `cpu_level()`.
//
// TRAP: whatever a kernel file defines or instantiates must be in namespace TAPESTRY_KERNEL_LEVEL (best in an unnamed
// namespace in it). An inline function or a template of std:: or of a common header becomes a weak symbol. The linker
// keeps one copy of it for all levels, which may have instructions that the processor lacks. So kernels are plain loops
// over pointers with __builtin_ functions, the C functions of libm, and kernels/math.hpp.

#include <cstdint>

#include "backend/cpu/kernels/compiled_levels.hpp"

namespace tapestry {
class FailedPreconditionError;
}

namespace tapestry::host {

enum class Level : std::uint8_t { portable, v2, v3, v4 };
/// The highest level that this processor runs and that is compiled, or a lower one that the environment variable
/// TAPESTRY_CPU_LEVEL names ("v2", "v3", "v4"). Throws InvalidArgumentError if it is another word. The tests use the
/// variable.
Level cpu_level();
/// What is thrown where no level is compiled that this processor runs.
FailedPreconditionError no_kernels();

// TAPESTRY_LEVELS(X, ...) is X(level, ...) for each level that is compiled.
#define TAPESTRY_DECLARE_TABLE(level, Table, name) \
  namespace level {                                \
  extern const Table name;                         \
  }
#define TAPESTRY_KERNEL_TABLE(Table, name) TAPESTRY_LEVELS(TAPESTRY_DECLARE_TABLE, Table, name)
#define TAPESTRY_IF_LEVEL(level, name) cpu_level() == Level::level ? level::name:
#define TAPESTRY_PICK_LEVEL(name) (TAPESTRY_LEVELS(TAPESTRY_IF_LEVEL, name) throw no_kernels())

}  // namespace tapestry::host

// Vectorises the next loop without checking whether y overlaps an operand. y may only be an operand itself.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // clang warns about the loops that call libm
#define TAPESTRY_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TAPESTRY_INDEPENDENT _Pragma("GCC ivdep")
#endif
