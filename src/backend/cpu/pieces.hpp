#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/threads.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::host {

inline constexpr int max_inputs = 3;
/// The fewest elements of a task of an elementwise kernel. Splitting an addition pays from some 10,000 on.
inline constexpr std::int64_t task_elements = 16384;
/// Results of at least this size are written past the caches, where they come as blocks, because they would only flush
/// the caches. A smaller result stays in the third-level cache for the next op: streamed, a chain of ops on 16 MiB is a
/// quarter slower.
inline constexpr std::int64_t streaming_bytes = std::int64_t{32} << 20;
/// A thread calls this between its streaming stores and its notification that it is done. They are not ordered
/// otherwise.
inline void finish_streaming() {
#ifdef __SSE2__
  __builtin_ia32_sfence();
#endif
}

/// Some elements of an elementwise function, contiguous in y: y[i] = f(input[0][i * step[0]], ...) for i < n.
struct Piece {
  std::array<const std::byte*, max_inputs> input{};
  std::array<std::int64_t, max_inputs> step{};  ///< 1, or 0 where one element is repeated
  std::byte* y = nullptr;
  std::int64_t n = 0;
};

/// Calls `body` for pieces that make up all of y, on the pool's threads. Inputs of any strides are broadcast to y's
/// shape. Inputs that are not contiguous, such as transposed ones, are gathered block by block in the cache.
void for_each_piece(const Tensor& y, std::span<const Tensor* const> inputs, FunctionRef<void(const Piece&)> body);

/// y = x, of one dtype, in the same way.
void copy_pieces(const Tensor& x, const Tensor& y);

}  // namespace tapestry::host
