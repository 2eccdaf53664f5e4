#pragma once

// One kernel source, several instruction sets. Every file in kernels/ is compiled once per level of x86-64 (v2: SSE4.2,
// v3: AVX2, v4: AVX-512; elsewhere once, as `portable`) with TAPESTRY_KERNEL_LEVEL naming the level, and the driver
// picks a table of functions at start-up. A family needs three things, and no common list:
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
// Tests may call `v3::reduce_table.sum` itself, up to `cpu_level()`.
//
// TRAP: whatever a kernel file defines or instantiates must lie in namespace TAPESTRY_KERNEL_LEVEL (best in an unnamed
// namespace in it). An inline function or a template of std:: or of a common header becomes a weak symbol, of which the
// linker keeps one copy for all levels, maybe one with instructions that the processor lacks. So kernels are plain
// loops over pointers with __builtin_ functions, the C functions of libm, and kernels/math.hpp.

#include <cstdint>

namespace tapestry::host {

/// What this processor runs, lowered by the environment variable TAPESTRY_CPU_LEVEL ("v2", "v3", "v4"), which the tests
/// use.
enum class Level : std::uint8_t { portable, v2, v3, v4 };
Level cpu_level();

template <class Table>
const Table& pick_level(const Table& v2, const Table& v3, const Table& v4) {
  const Level level = cpu_level();
  return level == Level::v4 ? v4 : level == Level::v3 ? v3 : v2;
}

#ifdef __x86_64__
#define TAPESTRY_KERNEL_TABLE(Table, name) \
  namespace v2 {                           \
  extern const Table name;                 \
  }                                        \
  namespace v3 {                           \
  extern const Table name;                 \
  }                                        \
  namespace v4 {                           \
  extern const Table name;                 \
  }
#define TAPESTRY_PICK_LEVEL(name) pick_level(v2::name, v3::name, v4::name)
#else
#define TAPESTRY_KERNEL_TABLE(Table, name) \
  namespace portable {                     \
  extern const Table name;                 \
  }
#define TAPESTRY_PICK_LEVEL(name) (portable::name)
#endif

}  // namespace tapestry::host

// Vectorise the next loop without asking whether y overlaps an operand: it may only be the operand itself.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // which it says of the loops that call libm
#define TAPESTRY_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TAPESTRY_INDEPENDENT _Pragma("GCC ivdep")
#endif
