#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "distributed/collectives.hpp"

namespace tapestry::detail {

/// How the tensors of a rank's collectives travel: on the host as they are; between devices that are joined with the
/// other ranks'; or from their device to the host and back. The ranks agree on it in each collective.
class Carrier {
 public:
  explicit Carrier(Collectives& ranks) : ranks_(ranks) {}

  /// Takes part in a collective of tensors on any device. Where devices exchange them, the work is queued at the
  /// return.
  void run(const Exchange& exchange);
  /// Begins to reduce a bucket. The result is kept in the slot until `finish`; what a run that failed has left there is
  /// dropped.
  void start(std::int64_t slot, const Exchange& exchange);
  /// The reduced bucket, on a device. Throws what the reduction has thrown.
  Tensor finish(std::int64_t slot, Device device, Where where);

  /// How tensors on a GPU have travelled, and why, for Communicator::gpu_status.
  const std::string& status() const { return status_; }

 private:
  struct Started {
    Exchange exchange;
    DeviceGroup::Work work;  ///< ends before its tensors do
  };

  bool is_alone() const;
  bool may_go_by_device(const Tensor& x);
  bool go_by_device(Exchange exchange);
  void join_devices(Device device);
  std::optional<std::vector<std::string>> of_all_ranks(const std::function<std::string()>& own);
  void refuse(const std::string& reason);
  void reduce_gathered(const Exchange& exchange, const Tensor& all);
  DeviceGroup::Work begin(const Exchange& exchange);

  Collectives& ranks_;
  std::string status_ = "no collective of tensors on a GPU yet";
  std::unique_ptr<DeviceGroup> group_;  ///< of all ranks' devices, once they are joined
  Device device_ = cpu();               ///< this rank's in the group
  bool refused_ = false;                ///< whether the devices cannot be joined, which is so on all ranks or on none
  std::optional<bool> buckets_ask_;     ///< whether each bucket may go by the devices, as the first one did
  std::map<std::int64_t, Started> started_;  ///< by slot: those that the devices reduce
};

}  // namespace tapestry::detail
