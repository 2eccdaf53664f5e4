#pragma once

#include <optional>

#include "backend/backend.hpp"
#include "backend/program.hpp"

namespace tapestry::gpu {

/// What cuBLASLt can do with the elements of a product before it writes them: y = function(product + bias).
struct Epilogue {
  enum class Function : std::uint8_t { none, relu, gelu_tanh };
  const void* bias = nullptr;  ///< one element for each column, or null
  Function function = Function::none;
};

/// The epilogue that computes the program behind a product, which writes y. Nothing if there is none: for float64, a y
/// that is not a matrix, several outputs, inputs other than the product and one row, and other functions.
std::optional<Epilogue> epilogue_of(const Backend::FusedProduct& fused, const Program& program,
                                    std::span<const Tensor> others, const Tensor& y);

}  // namespace tapestry::gpu
