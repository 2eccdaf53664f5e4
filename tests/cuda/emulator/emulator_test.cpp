// The emulator sees the faults that it is there for.

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sanitizers.hpp"
#include "wrong_kernels.hpp"

namespace emulator::test {
namespace {

cudaStream_t stream() {
  static auto* const only = [] {
    cudaStream_t made = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking) == cudaSuccess);
    return made;
  }();
  return only;
}
cudaMemPool_t pool() {
  static auto* const only = [] {
    cudaMemPool_t made = nullptr;
    const cudaMemPoolProps properties{cudaMemAllocationTypePinned, {cudaMemLocationTypeDevice, 0}};
    REQUIRE(cudaMemPoolCreate(&made, &properties) == cudaSuccess);
    return made;
  }();
  return only;
}

struct Numbers {
  explicit Numbers(std::size_t n) : count(n) {
    void* data = nullptr;
    REQUIRE(cudaMallocFromPoolAsync(&data, n * sizeof(int), pool(), stream()) == cudaSuccess);
    device = static_cast<int*>(data);
    REQUIRE(cudaMallocHost(&data, n * sizeof(int)) == cudaSuccess);
    host = static_cast<int*>(data);
  }
  ~Numbers() { cudaFreeAsync(device, stream()); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  std::vector<int> read() const {
    CHECK(cudaMemcpyAsync(host, device, count * sizeof(int), cudaMemcpyDeviceToHost, stream()) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream()) == cudaSuccess);
    return {host, host + count};
  }

  std::size_t count;
  int *device = nullptr, *host = nullptr;
};

struct Event {
  Event() { REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess); }
  ~Event() { cudaEventDestroy(event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event; }

  cudaEvent_t event = nullptr;
};

/// What is said of the work started so far; empty if it was right.
std::string failure() {
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream());
  cudaGetLastError();
  return error == cudaSuccess ? "" : std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

void check_failure(const std::string& text) {
  const std::string found = failure();
  INFO(found);
  CHECK(found.find(text) != std::string::npos);
}

struct InOrder {
  explicit InOrder(const char* order) { setenv("EMULATED_CUDA_ORDER", order, 1); }
  ~InOrder() { unsetenv("EMULATED_CUDA_ORDER"); }
};
constexpr const char* orders[] = {"forward", "backward", "1", "2"};

TEST_SUITE("CUDA emulator") {
  TEST_CASE("barriers, shuffles and shared memory work in every order") {
    for (const char* order : orders) {
      const InOrder in_order(order);
      const Numbers sums(64);
      start_right(stream(), sums.device);
      const std::vector<int> found = sums.read();
      for (int i = 0; i < 64; ++i)
        CHECK(found[static_cast<std::size_t>(i)] == (i < 32 ? 496 : 1520) + 100 * ((i + 1) % 64));
    }
  }

  TEST_CASE("barriers that not all threads reach") {
    for (const char* order : orders) {
      const InOrder in_order(order);
      start_leaving(stream());
      check_failure("cudaErrorLaunchFailure: leaving_kernel (wrong_kernels.cu:");
      start_divergent(stream());
      check_failure(
          "block (0, 0, 0): thread (0, 0, 0) waits at __syncthreads in line 23, while thread (3, 0, 0) "
          "has ended");
      start_branches(stream());
      check_failure("thread (32, 0, 0) waits at __syncthreads in line 29");
      const Numbers sums(64);
      start_right(stream(), sums.device);
      CHECK(failure().empty());
    }
  }

  TEST_CASE("shuffles with lanes that are not there") {
    start_lonely_shuffle(stream());
    check_failure("waits for lanes ffffffff in line 33, while thread (31, 0, 0) has ended");
    start_short_warp(stream());
    check_failure("for lanes that there are not");
  }

  TEST_CASE("kernels that cannot start") {
    start_grid(stream(), 1, 1, 1025);
    check_failure("cudaErrorInvalidConfiguration: empty_kernel");
    start_grid(stream(), 1, 65536, 1);
    check_failure("a grid that is too large");
    start_grid(stream(), 0, 1, 1);
    check_failure("a grid without blocks");
    start_grid(stream(), 70000, 2, 1);
    CHECK(failure().empty());
    start_grid(nullptr, 1, 1, 1);
    check_failure("work for no stream");
    start_bounded(stream(), 64);
    CHECK(failure().empty());
    start_bounded(stream(), 65);
    check_failure("more threads than __launch_bounds__ says");
    start_shared(stream());
    check_failure("more than 48 KiB of shared memory");
  }

  TEST_CASE("a missing barrier shows in the order of the threads, and what nobody wrote is no old number") {
    std::vector<std::vector<int>> results;
    for (const char* order : {"forward", "backward"}) {
      const InOrder in_order(order);
      const Numbers numbers(64);
      start_racing(stream(), numbers.device);
      results.push_back(numbers.read());
      start_forgetful(stream(), numbers.device);
      CHECK(numbers.read() == std::vector<int>(64, -1));
    }
    CHECK(results[0] != results[1]);
  }

  TEST_CASE("nothing is done before somebody waits for it") {
    const Numbers numbers(1);
    *numbers.host = 7;
    CHECK(cudaMemsetAsync(numbers.device, 0, 4, stream()) == cudaSuccess);
    CHECK(cudaMemcpyAsync(numbers.host, numbers.device, 4, cudaMemcpyDeviceToHost, stream()) == cudaSuccess);
    const Event done;
    CHECK(cudaEventSynchronize(done) == cudaSuccess);
    CHECK(*numbers.host == 7);
    CHECK(cudaEventRecord(done, stream()) == cudaSuccess);
    CHECK(cudaEventSynchronize(done) == cudaSuccess);
    CHECK(*numbers.host == 0);
  }

  TEST_CASE("copies of other memory than is meant") {
    const Numbers numbers(4);
    int pageable = 0;
    CHECK(cudaMemcpyAsync(&pageable, numbers.device, 4, cudaMemcpyDeviceToHost, stream()) == cudaErrorInvalidValue);
    CHECK(cudaMemcpyAsync(numbers.host, numbers.device, 20, cudaMemcpyDeviceToHost, stream()) == cudaErrorInvalidValue);
    CHECK(cudaMemcpyAsync(numbers.host, numbers.host, 4, cudaMemcpyDeviceToHost, stream()) == cudaErrorInvalidValue);
    CHECK(cudaFreeAsync(numbers.device + 1, stream()) == cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(numbers.read() == std::vector<int>(4, -1));
  }

  // The address sanitizer ends the program itself.
  const auto not_with_address_sanitizer = doctest::skip(tapestry::test::address_sanitizer);

  TEST_CASE("a write behind a block" * not_with_address_sanitizer) {
    const Numbers numbers(10);
    start_beyond(stream(), numbers.device, 9);
    CHECK(failure().empty());
    start_beyond(stream(), numbers.device, 10);
    check_failure("beyond_kernel");
  }

  TEST_CASE("device memory cannot be read by the host" * not_with_address_sanitizer) {
    const Numbers numbers(1);
    CHECK(numbers.read() == std::vector<int>{-1});
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGSEGV, SIG_DFL);
      _exit(*static_cast<volatile int*>(numbers.device) == 0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
  }

  TEST_CASE("a stream that is captured: kernels with their arguments, done by each launch") {
    const Numbers numbers(8);
    cudaStream_t captured = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaMemsetAsync(numbers.device, 0, 32, stream()) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    for (int i = 3; i < 5; ++i) start_adding(captured, numbers.device, i);
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
    CHECK(cudaStreamDestroy(captured) == cudaSuccess);
    cudaGraphExec_t work = nullptr;
    REQUIRE(cudaGraphInstantiate(&work, graph, 0) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(numbers.read() == std::vector<int>(8, 0));
    for (int i = 1; i <= 3; ++i) {
      CHECK(cudaGraphLaunch(work, stream()) == cudaSuccess);
      if (i != 2) CHECK(numbers.read() == std::vector<int>{0, 0, 0, i, i, 0, 0, 0});
    }
    CHECK(cudaGraphExecDestroy(work) == cudaSuccess);
  }

  TEST_CASE("what must not happen while a stream is captured") {
    const Numbers numbers(1);
    const Event event;
    const auto refused = [&](const std::function<cudaError_t(cudaStream_t)>& body, bool relaxed = false) {
      cudaStream_t captured = nullptr;
      REQUIRE(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking) == cudaSuccess);
      REQUIRE(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
      cudaStreamCaptureMode mode = relaxed ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal;
      cudaThreadExchangeStreamCaptureMode(&mode);
      const cudaError_t error = body(captured);
      cudaThreadExchangeStreamCaptureMode(&mode);
      cudaGraph_t graph = nullptr;
      const cudaError_t end = cudaStreamEndCapture(captured, &graph);
      CHECK((error == cudaErrorStreamCaptureUnsupported) == (end == cudaErrorStreamCaptureInvalidated));
      CHECK((end == cudaSuccess) == (graph != nullptr));
      if (graph) cudaGraphDestroy(graph);
      cudaStreamDestroy(captured);
      cudaGetLastError();
      return error == cudaErrorStreamCaptureUnsupported;
    };
    void* data = nullptr;
    CHECK(refused([&](cudaStream_t s) { return cudaStreamSynchronize(s); }));
    CHECK(refused([&](cudaStream_t) { return cudaStreamSynchronize(stream()); }));
    CHECK(refused([&](cudaStream_t) { return cudaEventSynchronize(event); }));
    CHECK(refused([&](cudaStream_t s) { return cudaEventRecord(event, s); }));
    CHECK(refused([&](cudaStream_t s) { return cudaStreamWaitEvent(s, event, 0); }));
    CHECK(refused([&](cudaStream_t) { return cudaMallocHost(&data, 8); }));
    CHECK(refused([&](cudaStream_t s) { return cudaMallocFromPoolAsync(&data, 8, pool(), s); }));
    CHECK(refused([&](cudaStream_t s) { return cudaMallocFromPoolAsync(&data, 8, pool(), s); }, true));
    CHECK(refused([&](cudaStream_t) { return cudaMallocFromPoolAsync(&data, 8, pool(), stream()); }));
    CHECK(!refused([&](cudaStream_t) { return cudaMallocFromPoolAsync(&data, 8, pool(), stream()); }, true));
    CHECK(refused([&](cudaStream_t) { return cudaFreeAsync(data, stream()); }));
    CHECK(refused([&](cudaStream_t) { return cudaMemPoolTrimTo(pool(), 0); }));
    CHECK(refused(
        [&](cudaStream_t s) { return cudaMemcpyAsync(numbers.host, numbers.device, 4, cudaMemcpyDeviceToHost, s); }));
    CHECK(!refused([&](cudaStream_t s) { return cudaMemsetAsync(numbers.device, 0, 4, s); }));
    CHECK(refused([&](cudaStream_t s) {
      std::thread([&] { start_adding(s, numbers.device, 0); }).join();
      return cudaErrorStreamCaptureUnsupported;
    }));
    CHECK(cudaFreeAsync(data, stream()) == cudaSuccess);
    CHECK(failure().empty());
  }

  TEST_CASE("a graph that works on memory which has been freed") {
    void* data = nullptr;
    REQUIRE(cudaMallocFromPoolAsync(&data, 8, pool(), stream()) == cudaSuccess);
    cudaStream_t captured = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    start_adding(captured, static_cast<int*>(data), 1);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t work = nullptr;
    REQUIRE(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&work, graph, 0) == cudaSuccess);
    CHECK(cudaGraphLaunch(work, stream()) == cudaSuccess);
    REQUIRE(cudaFreeAsync(data, stream()) == cudaSuccess);
    CHECK(cudaGraphLaunch(work, stream()) == cudaErrorInvalidValue);
    check_failure("in a graph, works on memory that has been freed since it was captured");
    // Nor is it enough that the memory belongs to somebody else now.
    std::vector<void*> next;
    while (next.empty() || (next.back() != data && next.size() < 100))
      REQUIRE(cudaMallocFromPoolAsync(&next.emplace_back(), 8, pool(), stream()) == cudaSuccess);
    CHECK(next.back() == data);
    CHECK(cudaGraphLaunch(work, stream()) == cudaErrorInvalidValue);
    cudaGetLastError();
    for (void* each : next) cudaFreeAsync(each, stream());
    cudaGraphExecDestroy(work);
    cudaGraphDestroy(graph);
  }

  TEST_CASE("memory runs out, is kept and is given back") {
    setenv("EMULATED_CUDA_MEMORY", "100000", 1);
    void *first = nullptr, *second = nullptr;
    CHECK(cudaMallocFromPoolAsync(&first, 60000, pool(), stream()) == cudaSuccess);
    CHECK(cudaMallocFromPoolAsync(&second, 60000, pool(), stream()) == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cudaFreeAsync(first, stream()) == cudaSuccess);
    CHECK(cudaMallocFromPoolAsync(&second, 50000, pool(), stream()) == cudaErrorMemoryAllocation);
    CHECK(cudaMemPoolTrimTo(pool(), 0) == cudaSuccess);
    CHECK(cudaMallocFromPoolAsync(&second, 50000, pool(), stream()) == cudaSuccess);
    CHECK(cudaFreeAsync(second, stream()) == cudaSuccess);
    cudaGetLastError();
    unsetenv("EMULATED_CUDA_MEMORY");
  }
}

}  // namespace
}  // namespace emulator::test
