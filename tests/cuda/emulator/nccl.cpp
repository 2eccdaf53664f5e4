// NCCL by plain loops, between the devices of threads of one process, as the plugin uses it: communicators that do not
// block. A call is in progress until all ranks have made it, as the first ones of a communicator are in NCCL.

#include "backend/cuda/nccl.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "cuda_runtime.h"
#include "stream.hpp"

namespace tapestry::gpu {
namespace {

constexpr int system_error = 2, invalid_argument = 4, invalid_usage = 5;

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast };
constexpr const char* names[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast"};

/// One rank's call of a collective. `count` is of the elements that it gives, or, of reduce_scatter, gets.
struct Part {
  const void* from = nullptr;
  void* to = nullptr;
  cudaStream_t stream = nullptr;
  bool reached = false;  ///< whether its stream has come there
};

struct Collective {
  Kind kind;
  std::size_t count;
  int type, op, root;
  std::vector<Part> parts{};
  std::size_t called = 0;
  bool done = false;

  bool is_like(const Collective& other) const {
    return kind == other.kind && count == other.count && type == other.type && op == other.op && root == other.root;
  }
};

/// The ranks of one id.
struct Clique {
  std::vector<int> devices;  ///< by rank; -1 before it has come
  int error = nccl_success;
  std::string text{};
  std::map<std::uint64_t, std::shared_ptr<Collective>> open{};  ///< not called by all yet, by their number

  bool is_complete() const { return std::count(devices.begin(), devices.end(), -1) == 0; }
  int fail(int result, const std::string& why) {
    text = why;
    return error = result;
  }
};

}  // namespace

struct NcclCommunicator {
  std::shared_ptr<Clique> clique;
  int rank, device;
  std::uint64_t calls = 0;
};

namespace {

/// Whether the rank is the one that is to fail.
bool fails(const char* variable, int rank) {
  const char* value = std::getenv(variable);
  return value && std::atoi(value) == rank;
}

template <class T>
T combined(int op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == nccl_max) return std::fmax(a, b);
    if (op == nccl_min) return std::fmin(a, b);
  }
  if (op == nccl_max) return std::max(a, b);
  if (op == nccl_min) return std::min(a, b);
  using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  const auto x = static_cast<Wide>(a), y = static_cast<Wide>(b);
  return static_cast<T>(op == nccl_prod ? x * y : x + y);
}

/// In another order than that of the ranks.
template <class T>
void reduce(const Collective& all, std::size_t count, std::vector<std::byte>& result) {
  result.resize(count * sizeof(T));
  T* to = reinterpret_cast<T*>(result.data());
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = static_cast<const T*>(all.parts.back().from)[i];
    for (std::size_t rank = all.parts.size() - 1; rank-- > 0;)
      to[i] = combined(all.op, to[i], static_cast<const T*>(all.parts[rank].from)[i]);
  }
}

std::size_t bytes_of(int type) {
  switch (type) {
    case nccl_uint8:
      return 1;
    case nccl_float16:
    case nccl_bfloat16:
      return 2;
    case nccl_int32:
    case nccl_float32:
      return 4;
    default:
      return 8;
  }
}

/// Writes the results of all ranks.
void compute(const Collective& all) {
  const std::size_t ranks = all.parts.size(), bytes = all.count * bytes_of(all.type);
  std::vector<std::byte> whole;
  if (all.kind == Kind::broadcast) {
    const auto* from = static_cast<const std::byte*>(all.parts[static_cast<std::size_t>(all.root)].from);
    whole.assign(from, from + bytes);
  } else if (all.kind == Kind::all_gather) {
    for (const Part& each : all.parts) {
      const auto* from = static_cast<const std::byte*>(each.from);
      whole.insert(whole.end(), from, from + bytes);
    }
  } else {
    const std::size_t count = all.kind == Kind::reduce_scatter ? ranks * all.count : all.count;
    switch (all.type) {
      case nccl_uint8:
        reduce<std::uint8_t>(all, count, whole);
        break;
      case nccl_int32:
        reduce<std::int32_t>(all, count, whole);
        break;
      case nccl_int64:
        reduce<std::int64_t>(all, count, whole);
        break;
      case nccl_float32:
        reduce<float>(all, count, whole);
        break;
      default:
        reduce<double>(all, count, whole);
    }
  }
  const bool scatters = all.kind == Kind::reduce_scatter;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    std::memcpy(all.parts[rank].to, whole.data() + (scatters ? rank * bytes : 0), scatters ? bytes : whole.size());
}

/// Does what one stream has come to: once all others have come there, too. A device waits for them meanwhile, so none
/// of them may have to wait for it.
std::string perform(Collective& all, cudaStream_t own) {
  static std::set<cudaStream_t>& waiting = *new std::set<cudaStream_t>;
  if (all.done) return "";
  waiting.insert(own);
  std::string error;
  for (Part& each : all.parts) {
    if (each.reached || !error.empty()) continue;
    error = waiting.contains(each.stream) ? "two devices have collectives in different orders, and wait for each other"
                                          : emulator::work_until(each.stream, each.reached);
  }
  waiting.erase(own);
  if (error.empty() && !all.done) compute(all);
  all.done = true;
  return error;
}

/// Notes a rank's call. The last one appends the collective to the streams of all.
int call(NcclComm comm, const Collective& asked, const void* from, void* to, cudaStream_t stream) {
  const std::lock_guard lock(emulator::mutex());
  Clique& clique = *comm->clique;
  if (clique.error != nccl_success) return clique.error;
  if (fails("EMULATED_NCCL_FAILS", comm->rank)) return system_error;
  const bool reduces = asked.kind == Kind::all_reduce || asked.kind == Kind::reduce_scatter;
  if (!emulator::is_current(stream) || stream->device != comm->device || stream->capture) return invalid_usage;
  if (emulator::block_number(from) == 0 || emulator::block_number(to) == 0 || asked.count == 0) return invalid_argument;
  if (reduces && (asked.type == nccl_float16 || asked.type == nccl_bfloat16)) return invalid_argument;
  const char* name = names[static_cast<int>(asked.kind)];
  emulator::note(name);
  std::shared_ptr<Collective>& open = clique.open[comm->calls];
  if (!open) {
    open = std::make_shared<Collective>(asked);
    open->parts.resize(clique.devices.size());
  }
  if (!open->is_like(asked)) return clique.fail(invalid_usage, "the ranks call different collectives");
  open->parts[static_cast<std::size_t>(comm->rank)] = {.from = from, .to = to, .stream = stream};
  if (++open->called == clique.devices.size()) {
    for (std::size_t rank = 0; rank < open->parts.size(); ++rank) {
      Part& part = open->parts[rank];
      emulator::append(part.stream, name, [all = open, rank] {
        all->parts[rank].reached = true;
        return "";
      });
      emulator::append(part.stream, std::string(name) + ": ",
                       [all = open, own = part.stream] { return perform(*all, own); });
    }
    clique.open.erase(comm->calls);
  }
  ++comm->calls;
  return nccl_in_progress;
}

}  // namespace
}  // namespace tapestry::gpu

using namespace tapestry::gpu;  // NOLINT(google-build-using-namespace): what follows is NCCL's

// NOLINTBEGIN(readability-identifier-naming): NCCL's names
extern "C" {

int ncclGetVersion(int* number) {
  *number = 22809;
  return nccl_success;
}
const char* ncclGetErrorString(int result) {
  return result == system_error    ? "unhandled system error"
         : result == invalid_usage ? "invalid usage"
                                   : "invalid argument";
}
const char* ncclGetLastError(NcclComm comm) { return comm ? comm->clique->text.c_str() : ""; }

int ncclGetUniqueId(NcclId* id) {
  const std::lock_guard lock(emulator::mutex());
  static std::uint64_t last = 0;
  std::memset(id->bytes, 0x5a, sizeof id->bytes);
  std::memcpy(id->bytes, &++last, sizeof last);
  return nccl_success;
}

int ncclCommInitRankConfig(NcclComm* comm, int ranks, NcclId id, int rank, NcclConfig* config) {
  const std::lock_guard lock(emulator::mutex());
  static auto& all = *new std::map<std::string, std::weak_ptr<Clique>>;
  if (config->magic != 0xcafebeef || config->version != 21400 || config->size != sizeof *config ||
      config->blocking != 0)
    return invalid_argument;
  if (fails("EMULATED_NCCL_START_FAILS", rank)) return system_error;
  const std::string name(id.bytes, sizeof id.bytes);
  std::shared_ptr<Clique> clique = all[name].lock();
  if (!clique) {
    clique = std::make_shared<Clique>(Clique{.devices = std::vector<int>(static_cast<std::size_t>(ranks), -1)});
    all[name] = clique;
  }
  const int device = emulator::current();
  if (std::count(clique->devices.begin(), clique->devices.end(), device) > 0)
    clique->fail(invalid_usage, "Duplicate GPU detected");
  clique->devices.at(static_cast<std::size_t>(rank)) = device;
  *comm = new NcclCommunicator{.clique = clique, .rank = rank, .device = device};
  return nccl_in_progress;
}
int ncclCommAbort(NcclComm comm) {
  const std::lock_guard lock(emulator::mutex());
  delete comm;
  return nccl_success;
}
int ncclCommGetAsyncError(NcclComm comm, int* result) {
  const std::lock_guard lock(emulator::mutex());
  const Clique& clique = *comm->clique;
  const bool is_called = comm->calls == 0 || !clique.open.contains(comm->calls - 1);
  *result = clique.error != nccl_success        ? clique.error
            : clique.is_complete() && is_called ? nccl_success
                                                : nccl_in_progress;
  return nccl_success;
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int op, NcclComm comm, CUstream_st* stream) {
  return call(comm, {Kind::all_reduce, count, type, op, 0}, from, to, stream);
}
int ncclReduceScatter(const void* from, void* to, std::size_t received, int type, int op, NcclComm comm,
                      CUstream_st* stream) {
  return call(comm, {Kind::reduce_scatter, received, type, op, 0}, from, to, stream);
}
int ncclAllGather(const void* from, void* to, std::size_t sent, int type, NcclComm comm, CUstream_st* stream) {
  return call(comm, {Kind::all_gather, sent, type, 0, 0}, from, to, stream);
}
int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, NcclComm comm,
                  CUstream_st* stream) {
  return call(comm, {Kind::broadcast, count, type, 0, root}, from, to, stream);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

#define TAPESTRY_SAME_TYPE(member, name) static_assert(std::is_same_v<decltype(Nccl{}.member), decltype(&(name))>);
TAPESTRY_NCCL(TAPESTRY_SAME_TYPE)
