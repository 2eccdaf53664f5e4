#include "backend/cuda/recording.hpp"

#include <algorithm>
#include <utility>

#include "backend/cuda/cuda_backend.hpp"
#include "tapestry/error.hpp"

namespace tapestry::gpu {
namespace {

constinit thread_local Capture* current = nullptr;

/// While it lives, the thread may make calls that CUDA refuses while recording, such as allocations.
class Relaxed {
 public:
  Relaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Relaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

/// A recording: a CUDA graph, and the workspace of its kernels.
class Graph final : public Recording {
 public:
  Graph(Context& gpu, cudaGraphExec_t work, std::vector<DeviceBuffer> own, std::vector<DeviceBuffer> old,
        PinnedWord refused)
      : gpu_(gpu), work_(work), own_(std::move(own)), old_(std::move(old)), refused_(std::move(refused)) {
    if (refused_) check(cudaEventCreateWithFlags(&checked_, cudaEventDisableTiming), "creating an event");
  }
  ~Graph() override {
    if (checked_) {
      cudaEventSynchronize(checked_);  // the device may still write the word
      cudaEventDestroy(checked_);
    }
    // A graph that is still running is not stopped: CUDA frees it when it is done.
    cudaGraphExecDestroy(work_);
    free_all(own_);
    free_all(old_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void replay() override {
    make_current(gpu_.index());
    check(cudaGraphLaunch(work_, gpu_.stream()), "starting what was recorded");
    if (checked_) check(cudaEventRecord(checked_, gpu_.stream()), "recording an event");
    free_all(old_);
  }

  bool has_refused() override {
    if (!checked_) return false;
    make_current(gpu_.index());
    check(cudaEventSynchronize(checked_), "waiting for the device");
    return std::exchange(*refused_, Refusal::none) != Refusal::none;
  }

 private:
  void free_all(std::vector<DeviceBuffer>& blocks) noexcept {
    for (const DeviceBuffer& block : blocks) gpu_.memory().deallocate(block.data, block.bytes);
    blocks.clear();
  }

  Context& gpu_;
  cudaGraphExec_t work_;
  std::vector<DeviceBuffer> own_, old_;
  PinnedWord refused_;             ///< of late checks, if there are any
  cudaEvent_t checked_ = nullptr;  ///< behind them
};

Capture::Capture(Context& gpu) : gpu_(gpu), outer_(current) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  if (const cudaError_t error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
      error != cudaSuccess) {
    cudaStreamDestroy(stream_);
    check(error, "starting to record");
  }
  current = this;
}

Capture::~Capture() {
  current = outer_;
  cudaGraph_t unfinished = nullptr;
  if (stream_ && cudaStreamEndCapture(stream_, &unfinished) == cudaSuccess) cudaGraphDestroy(unfinished);
  if (stream_) cudaStreamDestroy(stream_);
  cudaGetLastError();
  for (const std::vector<DeviceBuffer>* blocks : {&free_, &old_})
    for (const DeviceBuffer& block : *blocks) gpu_.memory().deallocate(block.data, block.bytes);
}

Capture* Capture::on(const Context& gpu) { return current && &current->gpu_ == &gpu ? current : nullptr; }

/// Returns the smallest free block that fits and is not more than twice as large, else a new one. CUDA allocates the
/// new one now, not in the replay.
void* Capture::allocate(std::size_t bytes) {
  auto best = free_.end();
  for (auto each = free_.begin(); each != free_.end(); ++each)
    if (each->bytes >= bytes && each->bytes / 2 <= bytes && (best == free_.end() || each->bytes < best->bytes))
      best = each;
  if (best != free_.end()) {
    used_.push_back(*best);
    free_.erase(best);
  } else {
    const Relaxed relaxed;
    void* data = gpu_.memory().try_allocate(bytes);
    if (!data) throw ResourceExhaustedError(detail::join("OOM when recording with ", bytes, " bytes more"));
    used_.push_back({data, bytes});
  }
  return used_.back().data;
}

void Capture::deallocate(void* data, std::size_t bytes) noexcept {
  const auto found =
      std::find_if(used_.begin(), used_.end(), [&](const DeviceBuffer& block) { return block.data == data; });
  if (found == used_.end()) return old_.push_back({data, bytes});
  free_.push_back(*found);
  used_.erase(found);
}

unsigned long long* Capture::refused() {
  if (!refused_) {
    const Relaxed relaxed;
    void* word = nullptr;
    check(cudaMallocHost(&word, sizeof(unsigned long long)), "allocating pinned memory");
    refused_.reset(static_cast<unsigned long long*>(word));
    *refused_ = Refusal::none;
  }
  return refused_.get();
}

std::unique_ptr<Recording> Capture::finish() {
  current = outer_;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t work = nullptr;
  cudaError_t error = cudaStreamEndCapture(stream_, &graph);
  cudaStreamDestroy(std::exchange(stream_, nullptr));
  if (error == cudaSuccess) error = cudaGraphInstantiate(&work, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  cudaGetLastError();
  if (error != cudaSuccess) return nullptr;
  return std::make_unique<Graph>(gpu_, work, std::exchange(free_, {}), std::exchange(old_, {}), std::move(refused_));
}

bool CudaBackend::can_record() { return !is_synchronous(); }

std::unique_ptr<Recording> CudaBackend::record(const std::function<void()>& work) {
  Capture capture(context());
  work();
  return capture.finish();
}

}  // namespace tapestry::gpu
