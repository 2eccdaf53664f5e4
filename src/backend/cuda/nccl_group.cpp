#include "backend/cuda/nccl_group.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cuda/nccl.hpp"

namespace tapestry::gpu {
namespace {

/// The ranks of a communicator that are threads of this process. The last of them that goes ends the communicators of
/// all: NCCL reads the memory of one device for another until both are done.
class Clique {
 public:
  /// Those with the same id.
  static std::shared_ptr<Clique> of(const std::string& id) {
    static std::mutex& mutex = *new std::mutex;
    static auto& all = *new std::map<std::string, std::weak_ptr<Clique>>;
    const std::lock_guard lock(mutex);
    std::erase_if(all, [](const auto& each) { return each.second.expired(); });
    std::shared_ptr<Clique> clique = all[id].lock();
    if (!clique) all[id] = clique = std::make_shared<Clique>(id);
    return clique;
  }

  explicit Clique(std::string id) : id_(std::move(id)) {
    const std::lock_guard lock(failures_mutex());
    if (const auto found = failures().find(id_); found != failures().end()) failure_ = found->second;
  }
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;
  ~Clique() {
    for (const Member& each : members_) {
      try {
        make_current(each.gpu->index());
        if (failure_.empty()) cudaStreamSynchronize(each.gpu->exchange_stream());
      } catch (const Error&) {  // while the process ends, the driver may be gone
      }
      nccl().abort(each.comm);  // of work that is done; ncclCommDestroy would wait for ranks in other processes
    }
  }

  void add(Context& gpu, NcclComm comm) {
    const std::lock_guard lock(mutex_);
    members_.push_back({&gpu, comm});
  }
  /// A rank takes part in nothing more, and those that wait for it throw.
  void fail(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = reason;
    const std::lock_guard others(failures_mutex());
    failures().emplace(id_, failure_);
  }
  void require_no_failure() {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw AbortedError(failure_);
  }

 private:
  struct Member {
    Context* gpu;
    NcclComm comm;
  };
  /// By id: a rank may have failed, and its clique be gone, before the next one comes.
  static std::map<std::string, std::string>& failures() {
    static auto& all = *new std::map<std::string, std::string>;
    return all;
  }
  static std::mutex& failures_mutex() {
    static std::mutex& mutex = *new std::mutex;
    return mutex;
  }

  const std::string id_;
  std::mutex mutex_;
  std::vector<Member> members_;
  std::string failure_;
};

int nccl_type(DType dtype) {
  switch (dtype) {
    case DType::boolean:  // of which minimum, maximum and product are those of 0 and 1
    case DType::uint8:
      return nccl_uint8;
    case DType::int32:
      return nccl_int32;
    case DType::int64:
      return nccl_int64;
    case DType::float16:
      return nccl_float16;
    case DType::bfloat16:
      return nccl_bfloat16;
    case DType::float32:
      return nccl_float32;
    default:
      return nccl_float64;
  }
}

int op_of(ReduceFunction f) {
  switch (f) {
    case ReduceFunction::prod:
      return nccl_prod;
    case ReduceFunction::max:
      return nccl_max;
    case ReduceFunction::min:
      return nccl_min;
    default:
      return nccl_sum;
  }
}

/// The others wait so long for a rank in another process that has failed.
constexpr std::chrono::seconds longest_join{120};

/// Work in the stream of exchanges.
class Queued final : public StartedWork {
 public:
  explicit Queued(Context& gpu) : gpu_(gpu), done_(gpu.event_behind(gpu.exchange_stream())) {}
  ~Queued() override {
    try {
      gpu_.wait_for(done_, gpu_.stream());
    } catch (const Error&) {  // of a device that has failed, which the next call tells
    }
  }

 private:
  Context& gpu_;
  cudaEvent_t done_;
};

class NcclGroup final : public DeviceGroup {
 public:
  NcclGroup(Context& gpu, const std::string& id, int rank, int ranks)
      : gpu_(gpu), clique_(Clique::of(id)), rank_(rank) {
    gpu.exchange_stream();  // is created now: during a collective, other devices would wait for that
    telling_others([&] {
      NcclId nccl_id{};
      std::memcpy(nccl_id.bytes, id.data(), sizeof nccl_id.bytes);
      NcclConfig config;
      const int result = nccl().init(&comm_, ranks, nccl_id, rank, &config);
      if (comm_) clique_->add(gpu, comm_);
      finish(result, "joining the devices", longest_join);
    });
  }

  std::string name() const override { return nccl_name(); }

  Work all_reduce(ReduceFunction f, const Tensor& x, const Tensor& y) override {
    return queue("ncclAllReduce", x, [&](Stream stream) {
      return nccl().all_reduce(x.impl().data, y.impl().data, count(x), nccl_type(x.dtype()), op_of(f), comm_, stream);
    });
  }

  Work reduce_scatter(ReduceFunction f, const Tensor& x, const Tensor& y) override {
    return queue("ncclReduceScatter", x, [&](Stream stream) {
      return nccl().reduce_scatter(x.impl().data, y.impl().data, count(y), nccl_type(x.dtype()), op_of(f), comm_,
                                   stream);
    });
  }

  Work all_gather(const Tensor& x, const Tensor& y) override {
    return queue("ncclAllGather", x, [&](Stream stream) {
      return nccl().all_gather(x.impl().data, y.impl().data, count(x), nccl_type(x.dtype()), comm_, stream);
    });
  }

  Work broadcast(int root, const Tensor& x, const Tensor& y) override {
    return queue("ncclBroadcast", x, [&](Stream stream) {
      return nccl().broadcast(x.impl().data, y.impl().data, count(x), nccl_type(x.dtype()), root, comm_, stream);
    });
  }

 private:
  static std::size_t count(const Tensor& tensor) { return static_cast<std::size_t>(tensor.size()); }

  /// All exchanges of a device are in one stream, in the order of the calls, whichever communicators they are of. Two
  /// streams could run them in another order on each device, and wait for each other. The stream's work runs beside
  /// that of the device's own stream until the Work ends.
  template <class Call>
  Work queue(const char* name, const Tensor& x, Call call) {
    if (x.size() == 0) return nullptr;
    Work work;
    telling_others([&] {
      const Stream stream = gpu_.exchange_stream();
      gpu_.wait_for(gpu_.event_behind(gpu_.stream()), stream);
      finish(call(stream), name);
      if (is_synchronous()) check(cudaStreamSynchronize(stream), name);
      work = std::make_unique<Queued>(gpu_);
    });
    return work;
  }

  /// If this rank fails here, those that wait for it must not wait for ever.
  template <class Function>
  void telling_others(Function f) {
    clique_->require_no_failure();
    try {
      f();
    } catch (const Error& error) {
      clique_->fail(detail::join("Rank ", rank_, " has failed: ", error.message()));
      throw;
    }
  }

  /// Waits until NCCL has queued what was called, for which it may have to meet the other ranks.
  void finish(int result, const char* what, std::optional<std::chrono::seconds> most = {}) {
    const auto begin = std::chrono::steady_clock::now();
    while (result == nccl_in_progress) {
      clique_->require_no_failure();
      if (most && std::chrono::steady_clock::now() - begin > *most)
        throw DeadlineExceededError(detail::join("NCCL: ", what, " takes more than ", most->count(), " s"));
      std::this_thread::yield();
      const int asked = nccl().async_error(comm_, &result);
      if (asked != nccl_success) result = asked;
    }
    if (result == nccl_success) return;
    const char* more = nccl().last_error(comm_);
    throw InternalError(detail::join("NCCL: ", what, " failed: ", nccl().error_string(result),
                                     more && *more ? detail::join(" (", more, ")") : ""));
  }

  Context& gpu_;
  std::shared_ptr<Clique> clique_;
  int rank_;
  NcclComm comm_ = nullptr;
};

}  // namespace

std::string nccl_address(int index) {
  const char* setting = std::getenv("TAPESTRY_NCCL");
  if (setting && std::string_view(setting) == "0") throw NotFoundError("the environment variable TAPESTRY_NCCL is 0");
  nccl();
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "asking a device what it is");
  return {properties.uuid.bytes, sizeof properties.uuid.bytes};
}

std::string new_nccl_id() {
  NcclId id{};
  if (const int result = nccl().new_id(&id); result != nccl_success)
    throw InternalError(detail::join("NCCL does not start: ", nccl().error_string(result)));
  return {id.bytes, sizeof id.bytes};
}

std::unique_ptr<DeviceGroup> join_by_nccl(Context& gpu, const std::string& id, int rank, int ranks) {
  return std::make_unique<NcclGroup>(gpu, id, rank, ranks);
}

}  // namespace tapestry::gpu
