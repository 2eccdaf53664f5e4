#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>
#include <string>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/threads.hpp"

namespace tapestry {
namespace host {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool caching = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool caching = false;
#else
constexpr bool caching = true;
#endif
#else
constexpr bool caching = true;
#endif

constexpr std::size_t alignment = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;
/// Requests of at least this size are compared with the memory that the system has left, because Linux promises more
/// than it has and would kill the process later.
constexpr std::size_t checked_bytes = std::size_t{64} << 20;
/// The allocator may hold what tensors needed at most at one time, an eighth of that, and this.
constexpr std::int64_t slack_bytes = std::int64_t{16} << 20;

/// The smallest size class that holds `bytes`. The classes are multiples of 64 up to 512, then eight per power of two,
/// so that at most an eighth of a larger block is wasted.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= 512) return (bytes - 1) / 64;
  const auto power = std::bit_width(bytes - 1) - 4;  // the step is 2^power
  return (power - 6) * 8 + ((bytes - 1) >> power);
}
std::size_t class_bytes(std::size_t index) { return index < 8 ? (index + 1) * 64 : (index % 8 + 9) << (index / 8 + 5); }
constexpr std::size_t largest_request = std::size_t{1} << 50;
constexpr std::size_t class_count = 44 * 8;

/// Held for some nanoseconds and never during a system call.
class SpinLock {
 public:
  void lock() {
    while (locked_.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

/// A free block, with the link in its first bytes.
struct FreeBlock {
  FreeBlock* next;
};

/// The free blocks of all classes. Constant-initialised and never destroyed, because tensors in static variables may be
/// made before and freed after everything else.
struct Cache {
  SpinLock lock;
  std::array<FreeBlock*, class_count> free{};
  MemoryStats stats;
  std::int64_t demand = 0;  ///< the most in use since the memory was trimmed; resetting the peak does not lower it
  std::size_t largest = 0;  ///< no class above has a free block
};
constinit Cache cache;

void* from_system(std::size_t bytes) {
  if (!caching || bytes < huge_page) return std::aligned_alloc(alignment, bytes);
  // A fresh page costs a fault; 2 MiB pages make that six times cheaper, but exist only in aligned blocks.
  const std::size_t room = bytes + huge_page;
  void* mapping = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(mapping);
  const std::size_t before = (huge_page - reinterpret_cast<std::uintptr_t>(begin) % huge_page) % huge_page;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + bytes, huge_page - before);
  madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}

void to_system(void* block, std::size_t bytes) {
  if (!caching || bytes < huge_page)
    std::free(block);
  else
    munmap(block, bytes);
}

/// Gives cached blocks back to the system, the largest first, until these are at least `bytes` or none is left. Returns
/// how many bytes it has given back.
std::int64_t release(std::int64_t bytes) {
  std::int64_t released = 0;
  while (released < bytes) {
    FreeBlock* block = nullptr;
    std::size_t size = 0;
    {
      const std::lock_guard lock(cache.lock);
      while (cache.largest > 0 && !cache.free[cache.largest]) --cache.largest;
      block = cache.free[cache.largest];
      if (!block) break;
      cache.free[cache.largest] = block->next;
      size = class_bytes(cache.largest);
      cache.stats.cached -= size;
    }
    to_system(block, size);
    released += static_cast<std::int64_t>(size);
  }
  return released;
}

/// The bytes that the system could hand out now, from /proc/meminfo; the highest number where it does not say.
std::int64_t system_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  std::int64_t value = 0, total = 0;
  bool found = false;
  while (file >> name >> value && std::getline(file, unit)) {
    if (name == "MemAvailable:" || name == "SwapFree:") total += value * 1024;
    found = found || name == "MemAvailable:";
  }
  return found ? total : std::numeric_limits<std::int64_t>::max();
}

[[noreturn]] void refuse(std::size_t bytes) {
  MemoryStats stats;
  {
    const std::lock_guard lock(cache.lock);
    stats = cache.stats;
  }
  throw ResourceExhaustedError(detail::join("OOM when allocating ", bytes, " bytes on the CPU: ", stats.in_use,
                                            " bytes are in use, and the system has ", system_bytes(), " left"));
}

/// A block from the system. First it gives back the cached memory with which the allocator would hold more than it may.
void* fresh_block(std::size_t bytes, std::size_t size) {
  std::int64_t excess = 0;
  {
    const std::lock_guard lock(cache.lock);
    const std::int64_t held = cache.stats.in_use + cache.stats.cached + static_cast<std::int64_t>(size);
    excess = held - cache.demand - cache.demand / 8 - slack_bytes;
  }
  if (excess > 0) release(excess);
  const auto fits = [size] { return size < checked_bytes || static_cast<std::int64_t>(size) < system_bytes(); };
  void* block = fits() ? from_system(size) : nullptr;
  if (!block && release(std::numeric_limits<std::int64_t>::max()) > 0 && fits()) block = from_system(size);
  if (!block) refuse(bytes);
  return block;
}

void count(std::size_t bytes) {
  cache.stats.in_use += bytes;
  cache.stats.peak = std::max(cache.stats.peak, cache.stats.in_use);
  cache.demand = std::max(cache.demand, cache.stats.in_use);
  ++cache.stats.allocations;
}

}  // namespace

void* CpuBackend::allocate(std::size_t bytes) {
  if (bytes > largest_request) refuse(bytes);
  const std::size_t index = size_class(bytes);
  if (caching) {
    const std::lock_guard lock(cache.lock);
    if (FreeBlock* block = cache.free[index]) {
      cache.free[index] = block->next;
      cache.stats.cached -= class_bytes(index);
      count(bytes);
      return block;
    }
  }
  void* block = fresh_block(bytes, caching ? class_bytes(index) : (bytes + alignment - 1) / alignment * alignment);
  const std::lock_guard lock(cache.lock);
  count(bytes);
  return block;
}

void CpuBackend::deallocate(void* data, std::size_t bytes) noexcept {
  const std::size_t index = size_class(bytes);
  if (!caching) to_system(data, bytes);
  const std::lock_guard lock(cache.lock);
  cache.stats.in_use -= bytes;
  if (!caching) return;
  cache.free[index] = ::new (data) FreeBlock{cache.free[index]};
  cache.largest = std::max(cache.largest, index);
  cache.stats.cached += class_bytes(index);
}

MemoryStats CpuBackend::memory_stats() {
  const std::lock_guard lock(cache.lock);
  return cache.stats;
}

void CpuBackend::reset_peak_memory() {
  const std::lock_guard lock(cache.lock);
  cache.stats.peak = cache.stats.in_use;
}

std::int64_t CpuBackend::trim_memory() {
  const std::int64_t released = release(std::numeric_limits<std::int64_t>::max());
  const std::lock_guard lock(cache.lock);
  cache.demand = cache.stats.in_use;
  return released;
}

std::string_view CpuBackend::name() const { return "CPU"; }
int CpuBackend::device_count() { return 1; }
void CpuBackend::copy_to_host(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void CpuBackend::copy_from_host(void* to, const void* from, std::size_t bytes) { copy_to_host(to, from, bytes); }
void CpuBackend::synchronize() {}

void CpuBackend::run_side_by_side(std::int64_t count, const std::function<void(std::int64_t)>& task) {
  parallel_tasks(count, task);
}

}  // namespace host

std::unique_ptr<Backend> make_cpu_backend() {
  // The child of a fork() must not inherit the lock held by a thread that it does not have.
  static const int registered = pthread_atfork([] { host::cache.lock.lock(); }, [] { host::cache.lock.unlock(); },
                                               [] { host::cache.lock.unlock(); });
  static_cast<void>(registered);
  return std::make_unique<host::CpuBackend>();
}

}  // namespace tapestry
