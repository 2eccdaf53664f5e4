#include "device.hpp"

#include <csetjmp>
#include <memory>
#include <mutex>
#include <vector>

#include <ucontext.h>

dim3 gridDim, blockIdx, threadIdx;

namespace emulation {
namespace {

constexpr std::size_t stack_bytes = 64 << 10;
constexpr unsigned warp = 32;

/// A thread of the block at hand. A fiber is made once and then runs one thread after another.
struct Fiber {
  ucontext_t first;  ///< where it starts; from then on `place` tells where it is, which needs no system calls
  jmp_buf place;
  std::unique_ptr<char[]> stack{new char[stack_bytes]};
  unsigned syncs = 0, warp_syncs = 0;  ///< how often it has waited
  bool is_new = true, ended = false;
};

std::vector<std::unique_ptr<Fiber>> fibers;
ucontext_t unused;
jmp_buf scheduler;
unsigned running = 0, threads = 0, block_syncs = 0;  ///< the last: of all threads
std::vector<unsigned> warp_syncs;                    ///< of all threads of each warp
const std::function<void()>* body = nullptr;
std::vector<std::uint64_t> slots;
/// Every second kernel starts with the last thread: no result may depend on who comes first.
bool backwards = false;

void leave() {
  if (_setjmp(fibers[running]->place) == 0) _longjmp(scheduler, 1);
}

void run_fiber() {
  for (;;) {
    (*body)();
    fibers[running]->ended = true;
    leave();
  }
}

void resume(unsigned thread) {
  running = thread;
  threadIdx.x = thread;
  Fiber& fiber = *fibers[thread];
  if (_setjmp(scheduler) != 0) return;
  if (!fiber.is_new) _longjmp(fiber.place, 1);
  fiber.is_new = false;
  getcontext(&fiber.first);
  fiber.first.uc_stack.ss_sp = fiber.stack.get();
  fiber.first.uc_stack.ss_size = stack_bytes;
  fiber.first.uc_link = nullptr;
  makecontext(&fiber.first, run_fiber, 0);
  swapcontext(&unused, &fiber.first);
}

void run_block() {
  block_syncs = 0;
  warp_syncs.assign((threads + warp - 1) / warp, 0);
  while (fibers.size() < threads) fibers.push_back(std::make_unique<Fiber>());
  for (unsigned i = 0; i < threads; ++i) {
    fibers[i]->syncs = fibers[i]->warp_syncs = 0;
    fibers[i]->ended = false;
  }
  for (unsigned left = threads; left > 0;) {
    left = 0;
    for (unsigned turn = 0; turn < threads; ++turn) {
      const unsigned i = backwards ? threads - 1 - turn : turn;
      if (fibers[i]->ended) continue;
      resume(i);
      left += !fibers[i]->ended;
    }
  }
}

}  // namespace

void launch(dim3 grid, dim3 block, const std::function<void()>& thread) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  gridDim = grid;
  threads = block.x;
  body = &thread;
  slots.assign(threads, 0);
  backwards = !backwards;
  for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) run_block();
}

// All threads come equally often, as CUDA demands of those that have not ended.
void wait_for_block() {
  const unsigned me = running, goal = ++fibers[me]->syncs * threads;
  for (++block_syncs; block_syncs < goal;) leave();
}
void wait_for_warp() {
  const unsigned me = running, goal = ++fibers[me]->warp_syncs * warp;
  unsigned& syncs = warp_syncs[me / warp];
  for (++syncs; syncs < goal;) leave();
}
std::uint64_t& slot(unsigned thread) { return slots[thread]; }

}  // namespace emulation
