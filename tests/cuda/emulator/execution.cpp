// Kernels on the processor: the threads of a block are fibers, which take turns at barriers; blocks run one after
// another.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

#include <sys/mman.h>

#include "emulator.hpp"

#ifdef EMULATOR_ASAN
#include <sanitizer/asan_interface.h>
#endif

dim3 gridDim, blockDim;
uint3 blockIdx, threadIdx;

// Saves the registers that a function keeps and the stack pointer, and takes up where `to` was saved.
extern "C" void emulator_switch(void** from, void* to);
asm(R"(
.pushsection .text
.type emulator_switch, @function
emulator_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size emulator_switch, .-emulator_switch
.popsection
)");

namespace emulator {
namespace {

constexpr unsigned warp = 32;
constexpr std::size_t shared_limit = 48 << 10;
constexpr std::size_t page = 4096, stack_bytes = 64 * page;

/// A stack and where it was left; the last three are for AddressSanitizer. The fibers' stacks begin at different
/// offsets in their pages: at one and the same, they would all want the same lines of the cache.
struct Fiber {
  explicit Fiber(std::size_t number) : offset(number % 61 * 192) {}
  std::size_t offset;
  std::byte* stack = nullptr;
  void* place = nullptr;
  void* sanitizer = nullptr;
  const void* bottom = nullptr;
  std::size_t bytes = 0;
};

struct Thread {
  enum class State { fresh, ready, at_block, at_warp, done } state = State::fresh;
  Fiber* fiber = nullptr;
  uint3 index;
  int line = 0;  ///< of the barrier at which it waits
  unsigned mask = 0, source = 0;
  std::byte value[16], result[16];
};

/// The block that is running.
class Block {
 public:
  std::string run(std::size_t shared, const std::vector<unsigned>& order, const Kernel& kernel);
  void wait(Thread::State state, int line);
  void enter_shared(void* data, std::size_t bytes);
  void fail(std::string_view what);
  Thread& current() { return threads_[current_]; }

 private:
  static void fiber_main();
  void enter(Fiber& fiber);
  void leave();
  void select(unsigned thread);
  Fiber& free_fiber();
  bool advance(unsigned thread);
  const std::vector<unsigned>& order_of_warp(unsigned first) const { return warps_[first / warp]; }
  bool release_block();
  bool release_lanes(unsigned first, unsigned lane);
  void describe_deadlock();

  const Kernel* kernel_ = nullptr;
  std::string error_;
  std::vector<unsigned> order_;
  std::vector<std::vector<unsigned>> warps_;  ///< the order of their threads
  std::vector<Thread> threads_;
  std::size_t started_ = 0;
  unsigned current_ = 0;
  std::vector<void*> shared_;
  std::size_t shared_bytes_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  Fiber *running_ = nullptr, scheduler_{0};
} block;

void prepare(Fiber& fiber, void (*entry)()) {
  if (!fiber.stack) {
    void* memory =
        mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) std::abort();
    fiber.stack = static_cast<std::byte*>(memory);
    fiber.bottom = fiber.stack + page;
    fiber.bytes = stack_bytes - page;
  }
#ifdef EMULATOR_ASAN
  ASAN_UNPOISON_MEMORY_REGION(fiber.bottom, fiber.bytes);
#endif
  auto* top = reinterpret_cast<void**>(fiber.stack + stack_bytes - fiber.offset);
  std::memset(top - 8, 0, 8 * sizeof *top);
  top[-2] = reinterpret_cast<void*>(entry);  // what emulator_switch returns to; then the stack is as behind a call
  fiber.place = top - 8;
  fiber.sanitizer = nullptr;
}

void Block::fiber_main() {
#ifdef EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &block.scheduler_.bottom, &block.scheduler_.bytes);
#endif
  for (;;) {
    while (block.started_ < block.order_.size()) {
      block.select(block.order_[block.started_++]);
      block.current().fiber = block.running_;
      block.kernel_->thread();
      block.current().state = Thread::State::done;
    }
    block.free_.push_back(block.running_);
    block.leave();
  }
}

void Block::enter(Fiber& fiber) {
  running_ = &fiber;
#ifdef EMULATOR_ASAN
  __sanitizer_start_switch_fiber(&scheduler_.sanitizer, fiber.bottom, fiber.bytes);
#endif
  emulator_switch(&scheduler_.place, fiber.place);
#ifdef EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(scheduler_.sanitizer, nullptr, nullptr);
#endif
}

/// Back to `enter`, until that is called again for this fiber.
void Block::leave() {
  Fiber& fiber = *running_;
#ifdef EMULATOR_ASAN
  __sanitizer_start_switch_fiber(&fiber.sanitizer, scheduler_.bottom, scheduler_.bytes);
#endif
  emulator_switch(&fiber.place, scheduler_.place);
#ifdef EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(fiber.sanitizer, &scheduler_.bottom, &scheduler_.bytes);
#endif
}

Fiber& Block::free_fiber() {
  if (free_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(fibers_.size()));
    prepare(*fibers_.back(), fiber_main);
    free_.push_back(fibers_.back().get());
  }
  Fiber& fiber = *free_.back();
  free_.pop_back();
  return fiber;
}

void Block::select(unsigned thread) {
  current_ = thread;
  threadIdx = threads_[thread].index;
}

std::string to_string(const uint3& i) {
  std::ostringstream text;
  text << "(" << i.x << ", " << i.y << ", " << i.z << ")";
  return text.str();
}

/// Ends the block with this message; the fiber that calls it is never entered again, and destroys nothing.
void Block::fail(std::string_view what) {
  if (error_.empty()) error_ = what;
  leave();
}

void Block::wait(Thread::State state, int line) {
  const unsigned self = current_;
  current().state = state;
  current().line = line;
  leave();
  select(self);
}

void Block::enter_shared(void* data, std::size_t bytes) {
  if (std::find(shared_.begin(), shared_.end(), data) != shared_.end()) return;
  shared_.push_back(data);
  shared_bytes_ += bytes;
  if (shared_bytes_ > shared_limit) fail("more than 48 KiB of shared memory");
  std::memset(data, 0xff, bytes);
}

bool Block::release_block() {
  const Thread& first = threads_.front();
  for (const Thread& thread : threads_)
    if (thread.state != Thread::State::at_block || thread.line != first.line) return false;
  for (Thread& thread : threads_) thread.state = Thread::State::ready;
  return true;
}

/// Lets the lanes go on for which a lane waits, if all of them are there.
bool Block::release_lanes(unsigned first, unsigned lane) {
  const Thread& self = threads_[first + lane];
  const unsigned count = std::min<unsigned>(warp, static_cast<unsigned>(threads_.size()) - first);
  const auto member = [&](unsigned i) { return i < warp && (self.mask >> i & 1) != 0; };
  if (self.state != Thread::State::at_warp || !member(lane)) return false;
  for (unsigned i = 0; i < warp; ++i) {
    if (!member(i)) continue;
    if (i >= count) return false;
    const Thread& other = threads_[first + i];
    if (other.state != self.state || other.mask != self.mask || other.line != self.line || !member(other.source))
      return false;
  }
  for (unsigned i = 0; i < count; ++i)
    if (Thread& to = threads_[first + i]; member(i))
      std::memcpy(to.result, threads_[first + to.source].value, sizeof to.result);
  const unsigned mask = self.mask;
  for (unsigned i = 0; i < count; ++i)
    if ((mask >> i & 1) != 0) threads_[first + i].state = Thread::State::ready;
  return true;
}

/// Lets a thread go on, and then its warp, as far as it comes before another one does: what holds only while warps keep
/// step does not hold.
bool Block::advance(unsigned thread) {
  const unsigned first = thread / warp * warp;
  bool any = false;
  for (bool again = true; again && error_.empty();) {
    again = threads_[thread].state == Thread::State::ready || release_lanes(first, thread % warp);
    for (const unsigned i : order_of_warp(first))
      if (again && error_.empty() && threads_[i].state == Thread::State::ready) enter(*threads_[i].fiber);
    any = any || again;
  }
  return any;
}

void Block::describe_deadlock() {
  const auto waits = [](const Thread& t) { return t.state != Thread::State::done; };
  const auto waiting = std::find_if(threads_.begin(), threads_.end(), waits);
  // For a lane, those of its warp count.
  const auto first_lane = (waiting - threads_.begin()) / warp * warp, after = first_lane + warp;
  const bool lane = waiting->state == Thread::State::at_warp;
  const auto begin = lane ? threads_.begin() + first_lane : threads_.begin();
  const auto end =
      lane && after < static_cast<std::ptrdiff_t>(threads_.size()) ? threads_.begin() + after : threads_.end();
  const auto other = std::find_if(begin, end, [&](const Thread& t) {
    return t.state != waiting->state || t.line != waiting->line || t.mask != waiting->mask;
  });
  const auto describe = [&](auto thread) {
    select(static_cast<unsigned>(thread - threads_.begin()));
    std::ostringstream text;
    text << "thread " << to_string(threadIdx);
    if (thread->state == Thread::State::done) {
      text << " has ended";
    } else if (thread->state == Thread::State::at_block) {
      text << " waits at __syncthreads in line " << thread->line;
    } else {
      text << " waits for lanes " << std::hex << thread->mask << std::dec << " in line " << thread->line;
    }
    return text.str();
  };
  error_ = describe(waiting);
  error_ += other == end ? " for lanes that there are not" : ", while " + describe(other);
}

std::string Block::run(std::size_t shared, const std::vector<unsigned>& order, const Kernel& kernel) {
  kernel_ = &kernel;
  error_.clear();
  order_ = order;
  warps_.assign((order.size() + warp - 1) / warp, {});
  for (const unsigned i : order) warps_[i / warp].push_back(i);
  threads_.assign(order.size(), {});
  for (unsigned i = 0; i < threads_.size(); ++i)
    threads_[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
  started_ = 0;
  shared_.clear();
  shared_bytes_ = shared;
  // A fiber runs one thread after another, until one of them waits: few kernels need more than one fiber.
  while (error_.empty() && started_ < order_.size()) enter(free_fiber());
  const auto ended = [](const Thread& thread) { return thread.state == Thread::State::done; };
  while (error_.empty() && !std::all_of(threads_.begin(), threads_.end(), ended)) {
    bool any = release_block();
    for (std::size_t i = 0; i < order_.size() && error_.empty(); ++i) any = advance(order_[i]) || any;
    if (error_.empty() && !any) describe_deadlock();
  }
  if (error_.empty()) return "";
  // What was left in the middle begins anew.
  free_.clear();
  for (const auto& fiber : fibers_) {
    prepare(*fiber, fiber_main);
    free_.push_back(fiber.get());
  }
  return "block " + to_string(blockIdx) + ": " + error_;
}

std::string refused(const Configuration& c) {
  if (c.grid.x == 0 || c.grid.y == 0 || c.grid.z == 0) return "a grid without blocks";
  if (c.grid.x > 0x7fffffffu || c.grid.y > 65535 || c.grid.z > 65535) return "a grid that is too large";
  if (c.block.x == 0 || c.block.y == 0 || c.block.z == 0) return "a block without threads";
  if (c.block.x > 1024 || c.block.y > 1024 || c.block.z > 64 || c.block.x * c.block.y * c.block.z > 1024)
    return "more threads than a block can have";
  return c.shared > shared_limit ? "more than 48 KiB of shared memory" : "";
}

}  // namespace

Order Order::asked_for() {
  Order order;
  const char* value = std::getenv("EMULATED_CUDA_ORDER");
  const std::string text = value ? value : "forward";
  if (text == "backward") {
    order.kind_ = Kind::backward;
  } else if (text != "forward") {
    order.kind_ = Kind::shuffled;
    order.seed_ = static_cast<unsigned>(std::stoul(text));
  }
  return order;
}

std::vector<unsigned> Order::of(unsigned count) const {
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0U);
  if (kind_ == Kind::backward) std::reverse(order.begin(), order.end());
  if (kind_ == Kind::shuffled) std::shuffle(order.begin(), order.end(), std::mt19937(seed_));
  return order;
}

std::string run(const Configuration& configuration, const Order& order, const Kernel& kernel) {
  const dim3 grid = configuration.grid;
  gridDim = grid;
  blockDim = configuration.block;
  const std::vector<unsigned> threads = order.of(blockDim.x * blockDim.y * blockDim.z);
  for (const unsigned i : order.of(grid.x * grid.y * grid.z)) {
    blockIdx = {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
    if (std::string error = block.run(configuration.shared, threads, kernel); !error.empty()) return error;
  }
  return "";
}

namespace {
Recording* recording = nullptr;
}  // namespace

Recording::Recording() {
  const std::lock_guard lock(mutex());
  recording = this;
}
Recording::~Recording() {
  const std::lock_guard lock(mutex());
  recording = nullptr;
}

void note(const std::string& name) {
  if (recording) recording->names.push_back(name);
}

void start(const std::string& name, const Configuration& configuration, std::unique_ptr<Kernel> kernel) {
  const std::lock_guard lock(mutex());
  note(name.substr(0, name.find(" (")));
  if (const std::string reason = refused(configuration); !reason.empty()) {
    refuse(cudaErrorInvalidConfiguration, name + ": " + reason);
    return;
  }
  // Any word of the arguments that points into a block counts as what the kernel works on.
  std::vector<const void*> memory;
  for (std::size_t i = 0; i + sizeof(void*) <= kernel->argument_bytes(); i += sizeof(void*)) {
    const void* word = nullptr;
    std::memcpy(&word, static_cast<const std::byte*>(kernel->arguments()) + i, sizeof word);
    if (block_number(word) != 0) memory.push_back(word);
  }
  enqueue(
      configuration.stream, name + ", ",
      [=, order = Order::asked_for(), shared = std::shared_ptr<Kernel>(std::move(kernel))] {
        return run(configuration, order, *shared);
      },
      memory);
}

void check_launch_bounds(unsigned threads) {
  if (blockDim.x * blockDim.y * blockDim.z > threads) block.fail("more threads than __launch_bounds__ says");
}
void enter_shared(void* data, std::size_t bytes) { block.enter_shared(data, bytes); }
void wait_for_block(int line) { block.wait(Thread::State::at_block, line); }
unsigned lane() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % warp; }

void exchange(unsigned mask, int line, unsigned source, const void* value, std::size_t bytes, void* result) {
  Thread& self = block.current();
  self.mask = mask;
  self.source = source;
  std::memcpy(self.value, value, bytes);
  block.wait(Thread::State::at_warp, line);
  std::memcpy(result, self.result, bytes);
}

}  // namespace emulator
