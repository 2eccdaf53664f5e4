#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/vector_code.hpp"
#include "backend/loop_program.hpp"
#include "backend/program.hpp"

namespace tapestry::host {

/// How elements of a type lie in memory.
Stored stored_as(DType dtype);

/// A program as vector code.
struct RecordedProgram {
  struct Output {
    int node;
    Stored stored;
  };
  VectorCode code;
  std::vector<Output> outputs;
  int condition = -1;  ///< of a loop: the node that says whether an iteration runs, or -1
  /// Of a loop: nodes that say for each element whether a function is defined, such as a division of whole numbers.
  std::vector<int> guards{};
};
/// Runs a program's functions on values that record. `inputs` are the dtypes of its inputs. Where a function has no
/// vector code, `code.is_complete()` says so.
RecordedProgram record(const Program& program, std::span<const DType> inputs, bool avx512);
/// The same for a loop; the outputs are its results. Node i is input i. For functions without vector code, their
/// kernels are called.
RecordedProgram record(const LoopProgram& loop, bool avx512);

}  // namespace tapestry::host
