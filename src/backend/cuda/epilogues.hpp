#pragma once

#include <optional>

#include "backend/backend.hpp"
#include "backend/program.hpp"

namespace tapestry::gpu {

/// What cuBLASLt can do with the elements of a product before it writes them: y = function(product + bias).
struct Epilogue {
  enum class Function : std::uint8_t { none, relu, gelu_tanh };
  const void* bias = nullptr;  ///< a number for each column, or none
  Function function = Function::none;
};

/// The epilogue that computes what the program behind a product does: y is its only output. Nothing where there is
/// none: for float64, for what needs more than the product and one row of numbers, and for any other function.
std::optional<Epilogue> epilogue_of(const Backend::FusedProduct& fused, const Program& program,
                                    std::span<const Tensor> others, const Tensor& y);

}  // namespace tapestry::gpu
