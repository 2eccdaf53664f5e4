#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/rpc/pieces.hpp"
#include "io/tensorflow/graph_def.hpp"

/// The messages of TensorFlow's master and worker services (master.proto, worker.proto), as plain values, with the
/// protocol's own names. The numbers of their fields are TensorFlow's; each message lists them once, for writing and
/// for reading.

namespace tapestry::io::rpc {

/// A number of the wire type fixed64.
struct Fixed64 {
  std::uint64_t value = 0;
  friend bool operator==(Fixed64, Fixed64) = default;
};

struct NamedTensor {
  std::string name{};
  TensorDef tensor{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.name), each(2, self.tensor); }
};

/// RunOptions.
struct StepOptions {
  std::int64_t trace_level = 0;  ///< 3: FULL_TRACE
  std::int64_t timeout_in_ms = 0;
  static constexpr auto fields(auto& self, auto each) { each(1, self.trace_level), each(2, self.timeout_in_ms); }
};
inline constexpr std::int64_t full_trace = 3;

/// ConfigProto.
struct SessionConfig {
  std::vector<std::string> device_filters{};
  bool allow_soft_placement = false;
  std::int64_t operation_timeout_in_ms = 0;
  bool isolate_session_state = false;
  static constexpr auto fields(auto& self, auto each) {
    each(4, self.device_filters), each(7, self.allow_soft_placement), each(11, self.operation_timeout_in_ms);
    each(15, self.isolate_session_state);
  }
};

struct CreateSessionRequest {
  std::string graph_def{};
  SessionConfig config{};
  std::string target{};
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.graph_def), each(2, self.config), each(3, self.target);
  }
};
struct CreateSessionResponse {
  std::string session_handle{};
  std::int64_t graph_version = 0;
  static constexpr auto fields(auto& self, auto each) { each(1, self.session_handle), each(2, self.graph_version); }
};

struct ExtendSessionRequest {
  std::string session_handle{};
  std::string graph_def{};  ///< the new nodes only
  std::int64_t current_graph_version = 0;
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.session_handle), each(2, self.graph_def), each(3, self.current_graph_version);
  }
};
struct ExtendSessionResponse {
  std::int64_t new_graph_version = 0;
  static constexpr auto fields(auto& self, auto each) { each(4, self.new_graph_version); }
};

struct RunStepRequest {
  std::string session_handle{};
  std::vector<NamedTensor> feed{};
  std::vector<std::string> fetch{};
  std::vector<std::string> target{};
  StepOptions options{};
  std::string partial_run_handle{};
  bool store_errors_in_response_body = false;
  std::int64_t request_id = 0;
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.session_handle), each(2, self.feed), each(3, self.fetch), each(4, self.target);
    each(5, self.options), each(6, self.partial_run_handle), each(7, self.store_errors_in_response_body);
    each(8, self.request_id);
  }
};
struct RunStepResponse {
  std::vector<NamedTensor> tensor{};
  std::string metadata{};  ///< the bytes of a StepMetadata
  std::int64_t status_code = 0;
  std::string status_error_message{};
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.tensor), each(2, self.metadata), each(3, self.status_code), each(4, self.status_error_message);
  }
};

struct PartialRunSetupRequest {
  std::string session_handle{};
  std::vector<std::string> feed{};
  std::vector<std::string> fetch{};
  std::vector<std::string> target{};
  std::int64_t request_id = 0;
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.session_handle), each(2, self.feed), each(3, self.fetch), each(4, self.target);
    each(5, self.request_id);
  }
};
struct PartialRunSetupResponse {
  std::string partial_run_handle{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.partial_run_handle); }
};

struct CloseSessionRequest {
  std::string session_handle{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.session_handle); }
};

struct ListDevicesRequest {
  std::string session_handle{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.session_handle); }
};
/// DeviceAttributes.
struct DeviceDef {
  std::string name{};
  std::string device_type{};
  std::int64_t memory_limit = 0;
  Fixed64 incarnation{};
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.name), each(2, self.device_type), each(4, self.memory_limit), each(6, self.incarnation);
  }
};
struct ListDevicesResponse {
  std::vector<DeviceDef> local_device{};
  std::vector<DeviceDef> remote_device{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.local_device), each(2, self.remote_device); }
};

struct ResetRequest {
  std::vector<std::string> container{};
  std::vector<std::string> device_filters{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.container), each(2, self.device_filters); }
};

struct CallableOptions {
  std::vector<std::string> feed{};
  std::vector<std::string> fetch{};
  std::vector<std::string> target{};
  StepOptions run_options{};
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.feed), each(2, self.fetch), each(3, self.target), each(4, self.run_options);
  }
};
struct MakeCallableRequest {
  std::string session_handle{};
  CallableOptions options{};
  std::int64_t request_id = 0;
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.session_handle), each(2, self.options), each(3, self.request_id);
  }
};
struct MakeCallableResponse {
  std::int64_t handle = 0;
  static constexpr auto fields(auto& self, auto each) { each(1, self.handle); }
};
struct RunCallableRequest {
  std::string session_handle{};
  std::int64_t handle = 0;
  std::vector<TensorDef> feed{};
  std::int64_t request_id = 0;
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.session_handle), each(2, self.handle), each(3, self.feed), each(4, self.request_id);
  }
};
struct RunCallableResponse {
  std::vector<TensorDef> fetch{};
  std::string metadata{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.fetch), each(2, self.metadata); }
};
struct ReleaseCallableRequest {
  std::string session_handle{};
  std::int64_t handle = 0;
  static constexpr auto fields(auto& self, auto each) { each(1, self.session_handle), each(2, self.handle); }
};

/// A message without fields.
struct Empty {
  static constexpr auto fields(auto& /*self*/, auto /*each*/) {}
};

/// RunMetadata, as far as it tells when operations ran.
struct NodeStats {
  std::string node_name{};
  std::int64_t all_start_micros = 0;
  std::int64_t op_start_rel_micros = 0;
  std::int64_t op_end_rel_micros = 0;
  std::string timeline_label{};
  std::int64_t thread_id = 0;
  std::int64_t all_start_nanos = 0;
  std::int64_t op_start_rel_nanos = 0;
  std::int64_t op_end_rel_nanos = 0;
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.node_name), each(2, self.all_start_micros), each(3, self.op_start_rel_micros);
    each(4, self.op_end_rel_micros), each(8, self.timeline_label), each(10, self.thread_id);
    each(13, self.all_start_nanos), each(14, self.op_start_rel_nanos), each(15, self.op_end_rel_nanos);
  }
};
struct DeviceStats {
  std::string device{};
  std::vector<NodeStats> node_stats{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.device), each(2, self.node_stats); }
};
struct StepStats {
  std::vector<DeviceStats> dev_stats{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.dev_stats); }
};
struct StepMetadata {
  StepStats step_stats{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.step_stats); }
};

// ---- Between the tasks of a cluster ----

struct GetStatusResponse {
  std::vector<DeviceDef> device_attributes{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.device_attributes); }
};

/// ServerDef, without the cluster: a task knows its own.
struct ServerDef {
  std::string job_name{};
  std::int64_t task_index = 0;
  std::string protocol{};
  static constexpr auto fields(auto& self, auto each) {
    each(2, self.job_name), each(3, self.task_index), each(5, self.protocol);
  }
};
struct CreateWorkerSessionRequest {
  std::string session_handle{};
  ServerDef server_def{};
  bool isolate_session_state = false;
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.session_handle), each(2, self.server_def), each(3, self.isolate_session_state);
  }
};
struct DeleteWorkerSessionRequest {
  std::string session_handle{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.session_handle); }
};

struct RegisterGraphRequest {
  std::string session_handle{};
  std::string graph_def{};
  bool has_control_flow = false;
  bool create_worker_session_called = false;
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.session_handle), each(2, self.graph_def), each(3, self.has_control_flow);
    each(6, self.create_worker_session_called);
  }
};
struct RegisterGraphResponse {
  std::string graph_handle{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.graph_handle); }
};
struct DeregisterGraphRequest {
  std::string graph_handle{};
  std::string session_handle{};
  bool create_worker_session_called = false;
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.graph_handle), each(2, self.session_handle), each(3, self.create_worker_session_called);
  }
};

/// ExecutorOpts.
struct ExecutorOptions {
  bool record_timeline = false;
  static constexpr auto fields(auto& self, auto each) { each(3, self.record_timeline); }
};
struct RunGraphRequest {
  std::string graph_handle{};
  std::int64_t step_id = 0;
  std::vector<NamedTensor> send{};      ///< what is fed, by the names of the tensors
  std::vector<std::string> recv_key{};  ///< what is fetched
  ExecutorOptions exec_opts{};
  bool is_partial = false, is_last_partial_run = false;
  std::string session_handle{};
  bool store_errors_in_response_body = false;
  bool create_worker_session_called = false;
  std::int64_t request_id = 0;
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.graph_handle), each(2, self.step_id), each(3, self.send), each(4, self.recv_key);
    each(5, self.exec_opts), each(6, self.is_partial), each(7, self.is_last_partial_run);
    each(8, self.session_handle);
    each(9, self.store_errors_in_response_body), each(10, self.create_worker_session_called);
    each(11, self.request_id);
  }
};
struct RunGraphResponse {
  std::vector<NamedTensor> recv{};
  StepStats step_stats{};
  std::int64_t status_code = 0;
  std::string status_error_message{};
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.recv), each(2, self.step_stats), each(5, self.status_code), each(6, self.status_error_message);
  }
};

struct RecvTensorRequest {
  std::int64_t step_id = 0;
  std::string rendezvous_key{};
  std::int64_t request_id = 0;
  static constexpr auto fields(auto& self, auto each) {
    each(1, self.step_id), each(2, self.rendezvous_key), each(7, self.request_id);
  }
};
struct RecvTensorResponse {
  TensorDef tensor{};
  bool is_dead = false;  ///< of a branch that was not taken
  static constexpr auto fields(auto& self, auto each) { each(1, self.tensor), each(2, self.is_dead); }
};

struct CleanupGraphRequest {
  std::int64_t step_id = 0;
  static constexpr auto fields(auto& self, auto each) { each(1, self.step_id); }
};
struct CleanupAllRequest {
  std::vector<std::string> container{};
  static constexpr auto fields(auto& self, auto each) { each(1, self.container); }
};

/// All messages, for what is done with each of them.
#define TAPESTRY_RPC_MESSAGES(X) \
  X(CreateSessionRequest)        \
  X(CreateSessionResponse)       \
  X(ExtendSessionRequest)        \
  X(ExtendSessionResponse)       \
  X(RunStepRequest)              \
  X(RunStepResponse)             \
  X(PartialRunSetupRequest)      \
  X(PartialRunSetupResponse)     \
  X(CloseSessionRequest)         \
  X(ListDevicesRequest)          \
  X(ListDevicesResponse)         \
  X(ResetRequest)                \
  X(MakeCallableRequest)         \
  X(MakeCallableResponse)        \
  X(RunCallableRequest)          \
  X(RunCallableResponse)         \
  X(ReleaseCallableRequest)      \
  X(StepMetadata)                \
  X(GetStatusResponse)           \
  X(CreateWorkerSessionRequest)  \
  X(DeleteWorkerSessionRequest)  \
  X(RegisterGraphRequest)        \
  X(RegisterGraphResponse)       \
  X(DeregisterGraphRequest)      \
  X(RunGraphRequest)             \
  X(RunGraphResponse)            \
  X(RecvTensorRequest)           \
  X(RecvTensorResponse)          \
  X(CleanupGraphRequest)         \
  X(CleanupAllRequest)           \
  X(Empty)

/// The bytes of a message. Tensors of other devices are copied to the host; they must have values.
template <class Message>
Pieces encode(const Message& message);

/// Throws DataLossError for bytes that are no such message, and InvalidArgumentError for tensors that claim far more
/// elements than they list. Takes memory in proportion to the bytes, and for at most 2^24 elements that the bytes do
/// not list.
template <class Message>
Message decode(std::string_view bytes);

}  // namespace tapestry::io::rpc
