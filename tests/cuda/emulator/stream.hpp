#pragma once

// What the runtime and its graphs share.

#include <deque>

#include "emulator.hpp"

namespace emulator {
struct Capture;
}

struct CUstream_st {
  int device;
  std::deque<emulator::Task> work;
  emulator::Capture* capture;  ///< while the stream is captured
};

namespace emulator {

/// The calling thread's device.
int current();

/// Whether a stream is one of the calling thread's device.
bool is_current(cudaStream_t stream);

/// Appends work to a stream of any device that is not captured.
void append(cudaStream_t stream, const std::string& name, Task task);

/// Does the work of a stream until a piece of it has set `done`. Returns an error, if not empty.
std::string work_until(cudaStream_t stream, const bool& done);

/// Adds work to what is captured of a stream.
void capture(cudaStream_t stream, const std::string& name, Task task, const std::vector<const void*>& memory);

/// Refuses what must not become part of a graph, in a stream that is captured; the capture is lost.
cudaError_t refuse_in_capture(cudaStream_t stream, const char* what);

}  // namespace emulator
