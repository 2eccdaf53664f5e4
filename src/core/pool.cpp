#include "core/pool.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

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

/// A free block of a list. The first one of a list that is put away knows the other lists and its own length.
struct FreeBlock {
  FreeBlock* next;
  FreeBlock* next_list;
  std::uint32_t count;
};

constexpr std::size_t granule = 64;
constexpr std::size_t class_count = pool_limit / granule;
constexpr std::size_t slab_bytes = 64 * 1024;
/// The free blocks of a size class that a thread puts away at once.
constexpr std::uint32_t batch = 1024;

/// The free blocks of a thread: those that it takes and gives back, and a list of others, so that a thread at the
/// border of two lists does not put one away again and again.
struct FreeList {
  FreeBlock* head = nullptr;
  std::uint32_t count = 0;
  std::uint32_t limit = 0;  ///< `batch` as soon as the thread is known to give its blocks to the others at its end
  FreeBlock* other = nullptr;
};

/// The lists of free blocks that all threads share. A thread puts its surplus here, and takes from here before it asks
/// the system. Whole lists change hands, so that nobody walks along them. This is never destroyed, because tensors in
/// static variables are freed after everything else.
struct Shared {
  std::mutex mutex;
  std::array<FreeBlock*, class_count> lists{};
};
Shared& shared() {
  static Shared& instance = *new Shared;
  return instance;
}

void give_to_shared(std::size_t index, FreeBlock* list) {
  if (!list) return;
  const std::lock_guard lock(shared().mutex);
  list->next_list = std::exchange(shared().lists[index], list);
}

FreeBlock* take_from_shared(std::size_t index) {
  const std::lock_guard lock(shared().mutex);
  FreeBlock* const list = shared().lists[index];
  if (list) shared().lists[index] = list->next_list;
  return list;
}

/// Takes the blocks out of a thread's list, as one that knows its length.
FreeBlock* put_away(FreeList& list) {
  if (list.head) list.head->count = std::exchange(list.count, 0);
  return std::exchange(list.head, nullptr);
}

// Trivially destructible and constant-initialised, so that access needs no guard and works during thread exit.
constinit thread_local std::array<FreeList, class_count> free_lists __attribute__((tls_model("initial-exec")));

struct ReturnAtThreadExit {
  ~ReturnAtThreadExit() {
    for (std::size_t i = 0; i < class_count; ++i) {
      give_to_shared(i, put_away(free_lists[i]));
      give_to_shared(i, std::exchange(free_lists[i].other, nullptr));
    }
  }
};

void return_at_thread_exit() {
  thread_local ReturnAtThreadExit registered;
  static_cast<void>(registered);
}

void put(void* block, FreeList& list) {
  auto* const free = ::new (block) FreeBlock;  // two of its members count in the first block only
  free->next = list.head;
  list.head = free;
  ++list.count;
}

void* take(FreeList& list) {
  FreeBlock* block = list.head;
  list.head = block->next;
  --list.count;
  return block;
}

/// Fills an empty list, from the thread's other one, from the shared ones or from a new slab, and takes a block from
/// it.
[[gnu::noinline]] void* refill_and_take(std::size_t index, FreeList& list) {
  return_at_thread_exit();
  list.head = list.other ? std::exchange(list.other, nullptr) : take_from_shared(index);
  if (list.head) {
    list.count = list.head->count;
    return take(list);
  }
  const std::size_t size = (index + 1) * granule;
  auto* slab = static_cast<std::byte*>(::operator new (slab_bytes, std::align_val_t{granule}));
  for (std::size_t at = 0; at + size <= slab_bytes; at += size) put(slab + at, list);
  return take(list);
}

/// Empties a full list. A thread may free blocks before it takes any.
[[gnu::noinline]] void make_room(std::size_t index, FreeList& list) {
  return_at_thread_exit();
  if (std::exchange(list.limit, batch) == 0) return;
  give_to_shared(index, list.other);
  list.other = put_away(list);
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
  if (list.count >= list.limit) [[unlikely]]
    make_room(index, list);
  put(block, list);
}

#endif

}  // namespace tapestry::detail
