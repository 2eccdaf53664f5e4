#include "backend/cuda/context.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "backend/cuda/recording.hpp"
#include "tapestry/error.hpp"

namespace tapestry::gpu {
namespace {

int attribute(int index, cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, index), "asking a device what it is");
  return value;
}

Stream make_stream(int index) {
  make_current(index);
  Stream stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  return stream;
}

}  // namespace

void check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clears the error, unless it is a sticky one
  throw InternalError(
      detail::join("CUDA: ", what, " failed: ", cudaGetErrorName(error), ", ", cudaGetErrorString(error)));
}

bool is_synchronous() {
  static const bool asked = [] {
    const char* value = std::getenv("TAPESTRY_CUDA_SYNC");
    return value && std::string_view(value) != "0" && *value != '\0';
  }();
  return asked;
}

void make_current(int index) {
  // -1 makes every thread call cudaSetDevice once, even for CUDA's default device, which may not be initialised yet.
  constinit static thread_local int current = -1;
  if (current == index) return;
  check(cudaSetDevice(index), "choosing a device");
  current = index;
}

Context::Context(int index)
    : index_(index),
      compute_capability_(10 * attribute(index, cudaDevAttrComputeCapabilityMajor) +
                          attribute(index, cudaDevAttrComputeCapabilityMinor)),
      stream_(make_stream(index)),
      memory_(index, stream_) {
  refused_ = static_cast<unsigned long long*>(memory_.allocate(sizeof *refused_));
}

void Context::started(std::string_view kernel) {
  check(cudaGetLastError(), kernel);
  if (is_synchronous()) check(cudaStreamSynchronize(stream_), kernel);
}

Stream Context::stream() const {
  const Capture* capture = Capture::on(*this);
  return capture ? capture->stream() : stream_;
}

Stream Context::exchange_stream() {
  std::call_once(exchange_once_, [this] { exchange_stream_ = make_stream(index_); });
  return exchange_stream_;
}

cudaEvent_t Context::event_behind(Stream stream) const {
  make_current(index_);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  if (const cudaError_t error = cudaEventRecord(event, stream); error != cudaSuccess) {
    cudaEventDestroy(event);
    check(error, "recording an event");
  }
  return event;
}

void Context::wait_for(cudaEvent_t event, Stream stream) const {
  make_current(index_);
  const cudaError_t error = cudaStreamWaitEvent(stream, event, 0);
  cudaEventDestroy(event);  // CUDA keeps the event until the wait is over
  check(error, "letting a stream wait for another");
}

void Context::require_execution() const {
  if (Capture::on(*this)) throw CannotRecord();
}

void Context::synchronize() {
  require_execution();
  check(cudaStreamSynchronize(stream_), "waiting for the device");
}

Refusal::Refusal(Context& context, bool harmless) : context_(context) {
  if (Capture* capture = Capture::on(context)) {
    LateChecks* late = LateChecks::current();
    if (!late || (late->variables_change() && !harmless)) throw CannotRecord();
    late->note();
    word_ = capture->refused();
    return;
  }
  lock_ = std::unique_lock(context.refusal_mutex_);
  word_ = context.refused_;
  check(cudaMemsetAsync(word_, 0xff, sizeof *word_, context.stream()), "setting memory");
}

std::int64_t Refusal::position() {
  if (!lock_) return -1;
  unsigned long long first = 0;
  context_.staging().to_host(&first, word_, sizeof first, context_.stream());
  return first == none ? -1 : static_cast<std::int64_t>(first);
}

}  // namespace tapestry::gpu
