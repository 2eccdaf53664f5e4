// The runtime: devices, streams, memory pools, copies. Work waits in its stream until somebody waits for it, and device
// memory cannot be touched but by that work.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stream.hpp"

#ifdef EMULATOR_ASAN
#include <sanitizer/asan_interface.h>
#endif

struct CUevent_st {
  cudaStream_t stream = nullptr;
  std::shared_ptr<bool> done{};  ///< whether the stream has come to where the event was last recorded
};
/// Sizes of blocks and where they lie: those in use, and those that are kept.
struct CUmemPoolHandle_st {
  int device;
  std::size_t used = 0, kept = 0;
  std::map<std::byte*, std::size_t> blocks;
  std::multimap<std::size_t, std::byte*> free;
};

namespace emulator {
namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 36;  // address space; pages come with their first use
// Pages are huge where the kernel gives such: `protect` takes as long as there are pages.
constexpr std::size_t granule = 512, red_zone = 256, page = std::size_t{2} << 20, large_bytes = std::size_t{16} << 20,
                      end_bytes = std::size_t{1} << 16, stream_length = 1024;
constexpr int red = 0xa5, fresh = 0xff;

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::string last_text;

struct Arena {
  explicit Arena(std::byte* begin_) : begin(begin_) {}
  std::byte* begin;
  std::size_t used = granule;
  std::map<std::byte*, std::size_t> resident;  ///< the blocks that exist for the work that runs now
  std::map<std::byte*, std::size_t> pinned;
  std::map<std::byte*, std::uint64_t> numbers;  ///< of the blocks in use
  std::uint64_t last_number = 0;
  std::vector<CUmemPoolHandle_st*> pools;
};
/// The first page that begins at the address or behind it.
std::byte* next_page(std::byte* data) { return data + (page - reinterpret_cast<std::uintptr_t>(data) % page) % page; }

Arena& arena() {
  static Arena& only = *new Arena([] {
    void* memory = mmap(nullptr, arena_bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    memory = next_page(static_cast<std::byte*>(memory));
    madvise(memory, arena_bytes, MADV_HUGEPAGE);
#ifdef EMULATOR_ASAN
    ASAN_POISON_MEMORY_REGION(memory, granule);
#endif
    return static_cast<std::byte*>(memory);
  }());
  return only;
}

void protect(int rights) {
  if (mprotect(arena().begin, (arena().used + page - 1) / page * page, rights) != 0) std::abort();
}

std::size_t reserved_for(std::size_t bytes) { return (bytes + red_zone + granule - 1) / granule * granule; }

void open_block(std::byte* data, std::size_t bytes) {
  arena().resident[data] = bytes;
#ifdef EMULATOR_ASAN
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#else
  std::memset(data + bytes, red, reserved_for(bytes) - bytes);
#endif
  // Of a block as large as a library's workspace, the ends: the rest needs no pages.
  const std::size_t filled = bytes < large_bytes ? bytes : end_bytes;
  std::memset(data, fresh, filled);
  std::memset(data + bytes - filled, fresh, filled);
}

void close_block(std::byte* data, std::size_t bytes) {
  arena().resident.erase(data);
  if (bytes < 2 * page) {
    std::memset(data, red, bytes);
  } else {
    std::byte* const whole_pages = next_page(data);
    madvise(whole_pages, bytes / page * page - page, MADV_DONTNEED);
  }
#ifdef EMULATOR_ASAN
  ASAN_POISON_MEMORY_REGION(data, reserved_for(bytes));
#endif
}

/// What has been written behind a block; AddressSanitizer tells that by itself, and where.
std::string check_red_zones() {
#ifndef EMULATOR_ASAN
  static const std::vector<std::byte> untouched(red_zone + granule, std::byte{red});
  for (const auto& [data, bytes] : arena().resident) {
    std::byte *const begin = data + bytes, *const end = data + reserved_for(bytes);
    if (std::memcmp(begin, untouched.data(), static_cast<std::size_t>(end - begin)) == 0) continue;
    const auto changed = std::find_if(begin, end, [](std::byte each) { return each != std::byte{red}; });
    const std::string index = std::to_string(changed - data);
    std::memset(begin, red, static_cast<std::size_t>(end - begin));
    return "byte " + index + " of a block of " + std::to_string(bytes) + " was written";
  }
#endif
  return "";
}

/// Does the work of a stream until `count` pieces are left; among it may be to wait for that of another one.
std::string do_work(cudaStream_t stream, std::size_t count) {
  static int depth = 0;
  std::string error;
  if (depth++ == 0) protect(PROT_READ | PROT_WRITE);
  while (stream->work.size() > count) {
    const Task task = std::move(stream->work.front());
    stream->work.pop_front();
    if (std::string found = task(); error.empty()) error = found;
  }
  if (--depth == 0) protect(PROT_NONE);
  return error;
}

cudaError_t drain(cudaStream_t stream, std::size_t count = 0) {
  if (stream->work.size() <= count) return cudaSuccess;
  const std::string error = do_work(stream, count);
  return error.empty() ? cudaSuccess : refuse(cudaErrorLaunchFailure, error);
}

std::size_t number(const char* name, std::size_t otherwise) {
  const char* value = std::getenv(name);
  return value ? std::stoull(value) : otherwise;
}
std::size_t memory_limit() { return number("EMULATED_CUDA_MEMORY", std::size_t{1} << 30); }

/// What all pools of a device hold.
std::size_t held(int device) {
  std::size_t sum = 0;
  for (const CUmemPoolHandle_st* pool : arena().pools)
    if (pool->device == device) sum += pool->used + pool->kept;
  return sum;
}

/// Whether the bytes lie in one of the blocks.
bool is_inside(const std::map<std::byte*, std::size_t>& blocks, const void* data, std::size_t bytes) {
  auto* begin = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  auto next = blocks.upper_bound(begin);
  return next != blocks.begin() && begin + bytes <= std::prev(next)->first + std::prev(next)->second;
}
bool is_on_device(const void* data, std::size_t bytes) {
  return std::any_of(arena().pools.begin(), arena().pools.end(),
                     [&](const CUmemPoolHandle_st* pool) { return is_inside(pool->blocks, data, bytes); });
}

/// The task with its name in front of its errors, and those of its writes behind blocks.
Task checked(const std::string& name, Task task) {
  return [name, task = std::move(task)] {
    std::string error = task();
    if (error.empty()) error = check_red_zones();
    return error.empty() ? "" : name + error;
  };
}

}  // namespace

int current() { return current_device; }

bool is_current(cudaStream_t stream) { return stream && stream->device == current_device; }

std::recursive_mutex& mutex() {
  static std::recursive_mutex& only = *new std::recursive_mutex;
  return only;
}

cudaError_t refuse(cudaError_t error, const std::string& text) {
  last_text = text;
  return last_error = error;
}

std::uint64_t block_number(const void* data) {
  const auto next = arena().numbers.upper_bound(const_cast<std::byte*>(static_cast<const std::byte*>(data)));
  if (next == arena().numbers.begin()) return 0;
  const auto& [begin, number] = *std::prev(next);
  for (const CUmemPoolHandle_st* pool : arena().pools)
    if (const auto found = pool->blocks.find(begin); found != pool->blocks.end())
      return is_inside(pool->blocks, data, 1) ? number : 0;
  return 0;
}

void enqueue(cudaStream_t stream, const std::string& name, Task task, const std::vector<const void*>& memory) {
  if (!is_current(stream)) {
    refuse(cudaErrorInvalidResourceHandle, "work for no stream, or for that of another device than the current one");
    return;
  }
  if (stream->capture) return capture(stream, name, checked(name, std::move(task)), memory);
  if (stream->work.size() >= stream_length) drain(stream);
  append(stream, name, std::move(task));
}

void append(cudaStream_t stream, const std::string& name, Task task) {
  stream->work.push_back(checked(name, std::move(task)));
}

std::string work_until(cudaStream_t stream, const bool& done) {
  std::string error;
  while (!done && error.empty()) error = do_work(stream, stream->work.size() - 1);
  return error;
}

}  // namespace emulator

using namespace emulator;  // NOLINT(google-build-using-namespace): what follows is CUDA's
using Lock = std::lock_guard<std::recursive_mutex>;

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidKernelImage:
      return "cudaErrorInvalidKernelImage";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorSymbolNotFound:
      return "cudaErrorSymbolNotFound";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureWrongThread:
      return "cudaErrorStreamCaptureWrongThread";
  }
  return "unrecognized error code";
}
/// The emulator knows more than the number says: what the last error was about.
const char* cudaGetErrorString(cudaError_t) { return last_text.c_str(); }

// --- Devices ------------------------------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(number("EMULATED_CUDA_DEVICES", 1));
  if (*count > 0) return cudaSuccess;
  return number("EMULATED_CUDA_DRIVER", CUDART_VERSION) < CUDART_VERSION
             ? refuse(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")
             : refuse(cudaErrorNoDevice, "no CUDA-capable device is detected");
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = static_cast<int>(number("EMULATED_CUDA_DRIVER", CUDART_VERSION));
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::strcpy(properties->name, "Emulated GPU");
  properties->uuid.bytes[0] = static_cast<char>('A' + device);
  properties->totalGlobalMem = memory_limit();
  properties->major = 9;
  int count = 0;
  cudaGetDeviceCount(&count);
  return device < count ? cudaSuccess : refuse(cudaErrorInvalidDevice, "invalid device ordinal");
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  cudaDeviceProp properties{};
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  *value = which == cudaDevAttrComputeCapabilityMajor ? properties.major : properties.minor;
  return error;
}
cudaError_t cudaSetDevice(int device) {
  int count = 0;
  cudaGetDeviceCount(&count);
  if (device < 0 || device >= count) return refuse(cudaErrorInvalidDevice, "invalid device ordinal");
  current_device = device;
  return cudaSuccess;
}

// --- Streams and events -------------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st{current_device, {}, nullptr};
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(mutex());
  if (stream->capture) return refuse(cudaErrorStreamCaptureUnsupported, "a stream goes that is captured");
  const cudaError_t error = drain(stream);
  delete stream;
  return error;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(mutex());
  if (const cudaError_t error = refuse_while_capturing("to wait for a stream")) return error;
  return drain(stream);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(mutex());
  if (const cudaError_t error = refuse_in_capture(stream, "to wait for an event of another stream")) return error;
  if (!event->done) return cudaSuccess;
  // The event may be recorded anew or destroyed before the stream gets here.
  enqueue(stream,
          "waiting for an event: ", [done = event->done, other = event->stream] { return work_until(other, *done); });
  return is_current(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(mutex());
  if (const cudaError_t error = refuse_in_capture(stream, "an event")) return error;
  event->stream = stream;
  event->done = std::make_shared<bool>(false);
  enqueue(stream, "an event: ", [done = event->done] {
    *done = true;
    return "";
  });
  return is_current(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(mutex());
  cudaError_t error = refuse_while_capturing("to wait for an event");
  while (event->done && !*event->done && error == cudaSuccess)
    error = drain(event->stream, event->stream->work.size() - 1);
  return error;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

// --- Kernels that are compiled while the program runs ----------------------------------------------------------------

/// A library is what dlopen returns, and never closed: a kernel of it may be waiting in a stream.
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**, unsigned jit_count,
                                cudaLibraryOption*, void**, unsigned option_count) {
  if (jit_count > 0 || option_count > 0) return refuse(cudaErrorInvalidValue, "options for an emulated library");
  if (std::strncmp(static_cast<const char*>(code), image_magic, sizeof image_magic) != 0)
    return refuse(cudaErrorInvalidKernelImage, "this is no image that NVRTC's stand-in has made");
  Image image;
  std::memcpy(&image, code, sizeof image);
  std::string name = "/tmp/emulated-kernel-XXXXXX";
  const int file = mkstemp(name.data());
  const char* content = static_cast<const char*>(code) + sizeof image;
  if (file < 0 || write(file, content, image.bytes) != static_cast<ssize_t>(image.bytes)) std::abort();
  close(file);
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  unlink(name.c_str());
  if (!handle) return refuse(cudaErrorInvalidKernelImage, dlerror());
  *library = static_cast<cudaLibrary_t>(handle);
  return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  void* make = dlsym(library, name) ? dlsym(library, "emulated_kernel") : nullptr;
  if (!make) return refuse(cudaErrorSymbolNotFound, std::string("there is no kernel ") + name);
  *kernel = static_cast<cudaKernel_t>(make);
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  const auto make = reinterpret_cast<MakeKernel>(const_cast<void*>(kernel));
  start("a kernel compiled by NVRTC", Configuration(grid, block, shared, stream),
        std::unique_ptr<Kernel>(make(arguments)));
  return last_error;
}

// --- Memory -------------------------------------------------------------------------------------------------------

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  const Lock lock(mutex());
  *pool = new CUmemPoolHandle_st{properties->location.id, 0, 0, {}, {}};
  arena().pools.push_back(*pool);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr which, void* value) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, value, sizeof bytes);
  const bool keeps_all = which == cudaMemPoolAttrReleaseThreshold && bytes == UINT64_MAX;
  return keeps_all ? cudaSuccess : refuse(cudaErrorInvalidValue, "the emulated pool keeps what is freed");
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  const Lock lock(mutex());
  const std::uint64_t bytes = which == cudaMemPoolAttrUsedMemCurrent ? pool->used : pool->used + pool->kept;
  std::memcpy(value, &bytes, sizeof bytes);
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t keep) {
  const Lock lock(mutex());
  if (const cudaError_t error = refuse_while_capturing("to trim a pool")) return error;
  while (!pool->free.empty() && pool->used + pool->kept > keep) {
    pool->kept -= pool->free.begin()->first;
    pool->free.erase(pool->free.begin());
  }
  return cudaSuccess;
}

/// All devices are peers, and a copy needs no access.
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access, std::size_t) {
  return access->location.id == pool->device ? refuse(cudaErrorInvalidDevice, "a device is no peer of its own")
                                             : cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void** data, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  const Lock lock(mutex());
  if (const cudaError_t error = refuse_while_capturing("to allocate memory")) return error;
  if (const cudaError_t error = refuse_in_capture(stream, "memory of a graph")) return error;
  if (bytes == 0 || !is_current(stream)) return refuse(cudaErrorInvalidValue, "memory of no size, or for no stream");
  const std::size_t reserved = reserved_for(bytes);
  std::byte* block = nullptr;
  if (const auto kept = pool->free.find(reserved); kept != pool->free.end()) {
    block = kept->second;
    pool->free.erase(kept);
    pool->kept -= reserved;
  } else {
    if (held(pool->device) + reserved > memory_limit()) return refuse(cudaErrorMemoryAllocation, "out of memory");
    if (arena().used + reserved > arena_bytes) std::abort();
    block = arena().begin + std::exchange(arena().used, arena().used + reserved);
#ifdef EMULATOR_ASAN
    ASAN_POISON_MEMORY_REGION(block, reserved);
#endif
  }
  pool->used += reserved;
  pool->blocks[block] = bytes;
  arena().numbers[block] = ++arena().last_number;
  *data = block;
  enqueue(stream, "new memory: ", [=] {
    open_block(block, bytes);
    return "";
  });
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  const Lock lock(mutex());
  if (const cudaError_t error = refuse_while_capturing("to free memory")) return error;
  if (const cudaError_t error = refuse_in_capture(stream, "to free memory of a graph")) return error;
  auto* block = static_cast<std::byte*>(data);
  for (CUmemPoolHandle_st* pool : arena().pools) {
    const auto found = pool->blocks.find(block);
    if (found == pool->blocks.end() || !is_current(stream)) continue;
    const std::size_t bytes = found->second, reserved = reserved_for(bytes);
    pool->blocks.erase(found);
    arena().numbers.erase(block);
    pool->free.emplace(reserved, block);
    pool->used -= reserved;
    pool->kept += reserved;
    enqueue(stream, "freed memory: ", [=] {
      close_block(block, bytes);
      return "";
    });
    return cudaSuccess;
  }
  return refuse(cudaErrorInvalidValue, "what is freed is no memory, or not its device's stream is named");
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Lock lock(mutex());
  *total = memory_limit();
  *free = *total - std::min(*total, held(current_device));
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  const Lock lock(mutex());
  if (const cudaError_t error = refuse_while_capturing("to allocate pinned memory")) return error;
  *data = std::malloc(bytes);
  arena().pinned[static_cast<std::byte*>(*data)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  const Lock lock(mutex());
  if (const cudaError_t error = refuse_while_capturing("to free pinned memory")) return error;
  if (arena().pinned.erase(static_cast<std::byte*>(data)) == 0)
    return refuse(cudaErrorInvalidValue, "to free what is no pinned memory");
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const Lock lock(mutex());
  if (const cudaError_t error = refuse_in_capture(stream, "a copy from or to what the host may change")) return error;
  const bool up = kind == cudaMemcpyHostToDevice;
  if (!is_on_device(up ? to : from, bytes)) return refuse(cudaErrorInvalidValue, "a copy of what is no device memory");
  if (!is_inside(arena().pinned, up ? from : to, bytes))
    return refuse(cudaErrorInvalidValue, "a copy of what is no pinned memory, for which the driver would wait");
  if (!is_current(stream)) return refuse(cudaErrorInvalidResourceHandle, "a copy in another device's stream");
  enqueue(stream, "a copy: ", [=] {
    std::memcpy(to, from, bytes);
    return "";
  });
  return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  const Lock lock(mutex());
  if (const cudaError_t error = refuse_in_capture(stream, "a copy between devices")) return error;
  const auto lies_on = [&](int device, const void* data) {
    return std::any_of(arena().pools.begin(), arena().pools.end(), [&](const CUmemPoolHandle_st* pool) {
      return pool->device == device && is_inside(pool->blocks, data, bytes);
    });
  };
  if (!lies_on(to_device, to) || !lies_on(from_device, from))
    return refuse(cudaErrorInvalidValue, "a copy of what does not lie on that device");
  if (!is_current(stream)) return refuse(cudaErrorInvalidResourceHandle, "a copy in another device's stream");
  enqueue(stream, "a copy between devices: ", [=] {
    std::memcpy(to, from, bytes);
    return "";
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const Lock lock(mutex());
  if (!is_on_device(to, bytes)) return refuse(cudaErrorInvalidValue, "this is no device memory");
  const auto set = [=] {
    std::memset(to, value, bytes);
    return "";
  };
  enqueue(stream, "cudaMemsetAsync: ", set, {to});
  return is_current(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
