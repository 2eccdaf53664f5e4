#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/vector_code.hpp"
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
};
/// Runs a program's functions on values that record. `inputs` are the dtypes of its inputs. Where a function has no
/// vector code, `code.is_complete()` says so.
RecordedProgram record(const Program& program, std::span<const DType> inputs, bool avx512);

}  // namespace tapestry::host
