#include "core/pool.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

namespace tapestry::detail {

#if defined(__SANITIZE_ADDRESS__)
#define TAPESTRY_PLAIN_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TAPESTRY_PLAIN_MALLOC 1
#endif
#endif

#ifdef TAPESTRY_PLAIN_MALLOC

// AddressSanitizer finds a use after free only if the memory is really freed.
void* pool_allocate(std::size_t bytes) { return ::operator new (bytes, std::align_val_t{64}); }
void pool_free(void* block, std::size_t) noexcept { ::operator delete (block, std::align_val_t{64}); }

#else

namespace {

struct FreeBlock {
  FreeBlock* next;
};

constexpr std::size_t granule = 64;
constexpr std::size_t class_count = pool_limit / granule;
constexpr std::size_t slab_bytes = 64 * 1024;
/// The number of blocks that a thread gives to the others when it holds twice as many free blocks of a size class.
constexpr std::uint32_t batch = 1024;

struct FreeList {
  FreeBlock* head = nullptr;
  std::uint32_t count = 0;
};

/// The free blocks that all threads share. A thread puts its surplus here, and takes from here before it asks the
/// system. This is never destroyed, because tensors in static variables are freed after everything else.
struct Shared {
  std::mutex mutex;
  std::array<FreeList, class_count> lists;
};
Shared& shared() {
  static Shared& instance = *new Shared;
  return instance;
}

void give_to_shared(std::size_t index, FreeList& list, std::uint32_t count) {
  if (count == 0) return;
  FreeBlock* first = list.head;
  FreeBlock* last = first;
  for (std::uint32_t i = 1; i < count; ++i) last = last->next;
  list.head = last->next;
  list.count -= count;
  const std::lock_guard lock(shared().mutex);
  last->next = shared().lists[index].head;
  shared().lists[index].head = first;
  shared().lists[index].count += count;
}

// Trivially destructible and constant-initialised, so that access needs no guard and works during thread exit.
constinit thread_local std::array<FreeList, class_count> free_lists __attribute__((tls_model("initial-exec")));

struct ReturnAtThreadExit {
  ~ReturnAtThreadExit() {
    for (std::size_t i = 0; i < class_count; ++i) give_to_shared(i, free_lists[i], free_lists[i].count);
  }
};

void* take(FreeList& list) {
  FreeBlock* block = list.head;
  list.head = block->next;
  --list.count;
  return block;
}

/// Fills an empty list, from the shared blocks or from a new slab, and takes a block from it.
[[gnu::noinline]] void* refill_and_take(std::size_t index, FreeList& list) {
  thread_local ReturnAtThreadExit registered;
  static_cast<void>(registered);
  {
    const std::lock_guard lock(shared().mutex);
    FreeList& others = shared().lists[index];
    while (others.head && list.count < batch) {
      FreeBlock* block = others.head;
      others.head = block->next;
      --others.count;
      block->next = list.head;
      list.head = block;
      ++list.count;
    }
  }
  if (list.head) return take(list);
  const std::size_t size = (index + 1) * granule;
  auto* slab = static_cast<std::byte*>(::operator new (slab_bytes, std::align_val_t{granule}));
  for (std::size_t at = 0; at + size <= slab_bytes; at += size) {
    list.head = ::new (slab + at) FreeBlock{list.head};
    ++list.count;
  }
  return take(list);
}

}  // namespace

void* pool_allocate(std::size_t bytes) {
  const std::size_t index = (bytes - 1) / granule;
  FreeList& list = free_lists[index];
  if (!list.head) [[unlikely]]
    return refill_and_take(index, list);
  return take(list);
}

void pool_free(void* block, std::size_t bytes) noexcept {
  const std::size_t index = (bytes - 1) / granule;
  FreeList& list = free_lists[index];
  list.head = ::new (block) FreeBlock{list.head};
  if (++list.count >= 2 * batch) [[unlikely]]
    give_to_shared(index, list, batch);
}

#endif

}  // namespace tapestry::detail
