// What the CPU's kernels stand on: the caching allocator and the pool of threads.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.hpp"
#include "backend/cpu/threads.hpp"
#include "sanitizers.hpp"
#include "tapestry/device.hpp"
#include "tapestry/error.hpp"

namespace kernels_host_test {

using namespace tapestry;
using host::parallel_for;
using host::parallel_tasks;
using test::caching;

namespace {

Backend& backend() { return backend_of(cpu()); }

/// Sets the number of threads for a test.
struct Threads {
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(before); }
  int before = num_threads();
};

std::vector<int> runs_of_each_task(std::int64_t count) {
  std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
  parallel_tasks(count, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
  return {runs.begin(), runs.end()};
}

}  // namespace

TEST_CASE("allocated blocks are aligned, disjoint and writable") {
  std::vector<std::pair<std::byte*, std::size_t>> blocks;
  for (std::size_t bytes = 1; bytes < 9'000'000; bytes = bytes * 3 / 2 + 1) {
    auto* block = static_cast<std::byte*>(backend().allocate(bytes));
    CHECK(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
    std::memset(block, static_cast<int>(blocks.size()), bytes);
    blocks.emplace_back(block, bytes);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto expected = static_cast<std::byte>(i);
    CHECK(blocks[i].first[0] == expected);
    CHECK(blocks[i].first[blocks[i].second - 1] == expected);
  }
  for (const auto& [block, bytes] : blocks) backend().deallocate(block, bytes);
}

TEST_CASE("a freed block is used again, unless a sanitizer watches") {
  if (!caching) return;
  for (const std::size_t bytes : {500u, 70'000u, 5'000'000u}) {
    void* first = backend().allocate(bytes);
    backend().deallocate(first, bytes);
    void* second = backend().allocate(bytes - 1);  // of the same class
    CHECK(second == first);
    backend().deallocate(second, bytes - 1);
  }
}

TEST_CASE("the counters count") {
  backend().trim_memory();
  const MemoryStats before = memory_stats();
  CHECK(before.cached == 0);
  void* large = backend().allocate(3'000'000);
  CHECK(memory_stats().in_use == before.in_use + 3'000'000);
  CHECK(memory_stats().allocations == before.allocations + 1);
  backend().deallocate(large, 3'000'000);
  const MemoryStats after = memory_stats();
  CHECK(after.in_use == before.in_use);
  CHECK(after.peak >= before.in_use + 3'000'000);
  reset_peak_memory();
  CHECK(memory_stats().peak == before.in_use);
  if (!caching) return;
  CHECK(after.cached >= 3'000'000);
  CHECK(trim_memory() == after.cached);
  CHECK(memory_stats().cached == 0);
}

TEST_CASE("the cache does not grow beyond the peak demand and its slack") {
  if (!caching) return;
  trim_memory();  // what the cases before needed counts no more
  constexpr std::size_t step = 1'000'000;
  for (std::size_t bytes = 2 * step; bytes < 60 * step; bytes += step) {
    void* block = backend().allocate(bytes);
    backend().deallocate(block, bytes);
  }
  // One block was in use at a time; kept all, they would be 1.8 GB.
  CHECK(memory_stats().cached < 100'000'000);
  trim_memory();
}

TEST_CASE("more memory than there is, is an error with the numbers") {
  for (const std::size_t bytes : {std::size_t{1} << 46, std::size_t{1} << 62}) {
    try {
      backend().allocate(bytes);
      FAIL("the allocation succeeded");
    } catch (const ResourceExhaustedError& error) {
      CHECK(error.message().find("OOM when allocating " + std::to_string(bytes) + " bytes") == 0);
    }
  }
}

TEST_CASE("threads allocate and free each other's blocks") {
  std::vector<std::thread> threads;
  std::atomic<void*> exchange{nullptr};
  constexpr std::size_t bytes = 1000;
  const std::int64_t before = memory_stats().in_use;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&exchange, t] {
      for (int i = 0; i < 5000; ++i) {
        void* block = backend().allocate(bytes);
        std::memset(block, t, bytes);
        if (void* other = exchange.exchange(block)) backend().deallocate(other, bytes);
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (void* last = exchange.load()) backend().deallocate(last, bytes);
  CHECK(memory_stats().in_use == before);
}

TEST_CASE("every task runs once, whatever the number of threads") {
  for (const int count : {1, 2, 3, 7}) {
    const Threads threads(count);
    CHECK(num_threads() == count);
    for (const std::int64_t tasks : {0, 1, 2, 3, 10, 1000})
      CHECK(runs_of_each_task(tasks) == std::vector<int>(static_cast<std::size_t>(tasks), 1));
  }
  CHECK_THROWS_AS(set_num_threads(0), InvalidArgumentError);
}

TEST_CASE("parallel_for covers its range with chunks of at most a grain") {
  const Threads threads(3);
  for (const std::int64_t count : {0, 1, 99, 100, 101, 12345}) {
    std::atomic<std::int64_t> covered{0}, largest{0};
    parallel_for(count, 100, [&](std::int64_t begin, std::int64_t end) {
      covered += end - begin;
      std::int64_t seen = largest;
      while (end - begin > seen && !largest.compare_exchange_weak(seen, end - begin)) {
      }
    });
    CHECK(covered == count);
    CHECK(largest <= 100);
  }
}

TEST_CASE("the tasks really run at the same time") {
  const Threads threads(2);
  std::atomic<int> arrived{0};
  parallel_tasks(2, [&](std::int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();  // hangs with one thread
  });
  CHECK(arrived == 2);
}

TEST_CASE("a call inside a task runs in that task's thread") {
  const Threads threads(3);
  std::atomic<int> elsewhere{0}, inner{0};
  parallel_tasks(20, [&](std::int64_t) {
    const auto here = std::this_thread::get_id();
    parallel_tasks(5, [&](std::int64_t) {
      ++inner;
      if (std::this_thread::get_id() != here) ++elsewhere;
    });
  });
  CHECK(inner == 100);
  CHECK(elsewhere == 0);
}

TEST_CASE("the first task's exception comes out, after all tasks") {
  for (const int count : {1, 4}) {
    const Threads threads(count);
    for (int round = 0; round < 50; ++round) {
      std::string message;
      try {
        parallel_tasks(64, [](std::int64_t i) {
          if (i >= 13) throw InvalidArgumentError(std::to_string(i));
        });
      } catch (const InvalidArgumentError& error) {
        message = error.message();
      }
      CHECK(message == "13");
    }
    CHECK(runs_of_each_task(8) == std::vector<int>(8, 1));
  }
}

TEST_CASE("several user threads may call at once, while the number of threads changes") {
  const Threads restore(num_threads());
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> users;
  for (int u = 0; u < 3; ++u)
    users.emplace_back([&sum, u] {
      for (int i = 0; i < 500; ++i) {
        if (u == 0 && i % 100 == 0) set_num_threads(1 + i / 100);
        parallel_tasks(8, [&](std::int64_t task) { sum += task; });
      }
    });
  for (std::thread& user : users) user.join();
  CHECK(sum == 3 * 500 * 28);
}

TEST_CASE("a child of fork() has a pool of its own") {
  const Threads threads(2);
  CHECK(runs_of_each_task(10) == std::vector<int>(10, 1));
  const pid_t child = fork();
  if (child == 0) {
    const bool right = runs_of_each_task(100) == std::vector<int>(100, 1);
    _exit(right ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace kernels_host_test
