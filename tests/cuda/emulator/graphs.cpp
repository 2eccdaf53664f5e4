// The runtime: streams that are captured, and graphs. Stricter than CUDA's: memory is neither allocated nor freed by a
// graph nor while one is captured, and nothing is copied from or to the host in it; what a graph works on must be the
// memory that it was made with.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <thread>

#include "stream.hpp"

namespace emulator {

/// A piece of recorded work, and the blocks of memory that it was given.
struct Node {
  std::string name;
  Task task;
  std::vector<std::pair<const void*, std::uint64_t>> memory;
};
using Nodes = std::shared_ptr<std::vector<Node>>;

struct Capture {
  cudaStream_t stream;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool lost = false;
  Nodes nodes = std::make_shared<std::vector<Node>>();
};

namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

std::vector<Capture*>& captures() {
  static std::vector<Capture*>& all = *new std::vector<Capture*>;
  return all;
}

}  // namespace

cudaError_t refuse_while_capturing(const char* what) {
  const std::lock_guard lock(mutex());
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  bool any = false;
  for (Capture* each : captures()) {
    const bool own = each->thread == std::this_thread::get_id() && each->mode != cudaStreamCaptureModeRelaxed;
    const bool of_all = each->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
    if (own || of_all) any = each->lost = true;
  }
  return any ? refuse(cudaErrorStreamCaptureUnsupported, std::string(what) + ", while a stream is captured")
             : cudaSuccess;
}

cudaError_t refuse_in_capture(cudaStream_t stream, const char* what) {
  if (!stream || !stream->capture) return cudaSuccess;
  stream->capture->lost = true;
  return refuse(cudaErrorStreamCaptureUnsupported, std::string(what) + ", in a stream that is captured");
}

void capture(cudaStream_t stream, const std::string& name, Task task, const std::vector<const void*>& memory) {
  if (stream->capture->thread != std::this_thread::get_id()) {
    stream->capture->lost = true;
    refuse(cudaErrorStreamCaptureUnsupported, "work of another thread, in a stream that is captured");
    return;
  }
  Node& node = stream->capture->nodes->emplace_back(Node{name, std::move(task), {}});
  for (const void* each : memory) node.memory.emplace_back(each, block_number(each));
}

}  // namespace emulator

using namespace emulator;  // NOLINT(google-build-using-namespace): what follows is CUDA's
using Lock = std::lock_guard<std::recursive_mutex>;

struct CUgraph_st {
  int device;
  Nodes nodes;
};
struct CUgraphExec_st {
  int device;
  Nodes nodes;
};

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Lock lock(mutex());
  if (!is_current(stream) || stream->capture)
    return refuse(cudaErrorInvalidValue, "the capture of no stream, of another device's, or of one that is captured");
  stream->capture = new Capture{.stream = stream, .mode = mode, .thread = std::this_thread::get_id()};
  captures().push_back(stream->capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock(mutex());
  *graph = nullptr;
  if (!stream->capture) return refuse(cudaErrorInvalidValue, "a stream that is not captured");
  if (stream->capture->mode != cudaStreamCaptureModeRelaxed && stream->capture->thread != std::this_thread::get_id())
    return refuse(cudaErrorStreamCaptureWrongThread, "a capture ends in the thread that began it");
  const std::unique_ptr<Capture> ended(std::exchange(stream->capture, nullptr));
  std::erase(captures(), ended.get());
  if (ended->lost) return refuse(cudaErrorStreamCaptureInvalidated, "the capture has been lost");
  *graph = new CUgraph_st{stream->device, ended->nodes};
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* work, cudaGraph_t graph, unsigned long long) {
  const char* allowed = std::getenv("EMULATED_CUDA_GRAPHS");
  if (allowed && *allowed == '0') return refuse(cudaErrorMemoryAllocation, "there is no room for a graph");
  *work = new CUgraphExec_st{graph->device, graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t work) {
  delete work;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t work, cudaStream_t stream) {
  const Lock lock(mutex());
  if (const cudaError_t error = refuse_in_capture(stream, "a graph")) return error;
  if (!is_current(stream) || stream->device != work->device)
    return refuse(cudaErrorInvalidResourceHandle, "a graph in no stream, or in that of another device");
  for (const Node& node : *work->nodes)
    for (const auto& [data, number] : node.memory)
      if (block_number(data) != number)
        return refuse(cudaErrorInvalidValue,
                      node.name + "in a graph, works on memory that has been freed since it was captured");
  for (const Node& node : *work->nodes) enqueue(stream, "in a graph: ", node.task);
  return cudaSuccess;
}
