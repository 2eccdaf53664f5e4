#include "distributed/carrier.hpp"

#include <algorithm>
#include <cstring>

#include "backend/views.hpp"
#include "core/make_tensor.hpp"
#include "core/open_plugin.hpp"
#include "distributed/background.hpp"

namespace tapestry::detail {
namespace {

constexpr const char* status_alone = "no collectives: this rank is alone";

ReduceFunction device_function(Reduce reduce) {
  switch (reduce) {
    case Reduce::min:
      return ReduceFunction::min;
    case Reduce::max:
      return ReduceFunction::max;
    case Reduce::product:
      return ReduceFunction::prod;
    default:
      return ReduceFunction::sum;
  }
}

/// Whether a DeviceGroup may lose a NaN of one rank, which is the extreme everywhere in the library.
bool loses_nan(const Exchange& exchange) {
  return is_floating(exchange.input.dtype()) && (exchange.reduce == Reduce::min || exchange.reduce == Reduce::max);
}

/// The same with tensors on the host.
Exchange through_host(Exchange exchange) {
  exchange.input = on_host(exchange.input);
  if (!exchange.output.device().is_cpu())
    exchange.output = make_tensor(exchange.output.dtype(), exchange.output.shape(), cpu());
  return exchange;
}

}  // namespace

/// A rank that is alone gets back what it gives. The tests let it use NCCL all the same.
bool Carrier::is_alone() const { return ranks_.size == 1 && environment("TAPESTRY_NCCL") != "1"; }

void Carrier::run(const Exchange& exchange) {
  const Device device = exchange.input.device();
  if (device.is_cpu()) return ranks_.run(exchange);
  Backend& backend = backend_of(device);
  if (is_alone()) {
    status_ = status_alone;
    return backend.copy(view_as(exchange.input, exchange.output.shape()), exchange.output);
  }
  if (may_go_by_device(exchange.input)) {
    // Memory is allocated before the ranks agree: from then on, others wait for this rank on their devices.
    Tensor all;
    if (loses_nan(exchange)) all = make_tensor(exchange.input.dtype(), {ranks_.size, exchange.input.size()}, device);
    if (go_by_device(exchange)) {
      all ? reduce_gathered(exchange, all) : void(begin(exchange));  // later work of the device waits
      return;
    }
  }
  const Exchange here = through_host(exchange);
  ranks_.run(here);
  backend.copy_from_host(exchange.output.impl().data, here.output.impl().data, nbytes(here.output));
}

/// Reduces the tensors of all ranks by the kernels of the device.
void Carrier::reduce_gathered(const Exchange& exchange, const Tensor& all) {
  group_->all_gather(exchange.input, all);
  const bool scatters = exchange.kind == Exchange::Kind::reduce_scatter;
  const std::int64_t size = exchange.output.size(), strides[] = {exchange.input.size(), 1};
  const Tensor own = make_view(all, {ranks_.size, size}, strides, scatters ? ranks_.rank * size : 0);
  backend_of(all.device()).reduce(device_function(exchange.reduce), own, 1, view_as(exchange.output, {size}));
}

// Ranks that differ in where a bucket is must still meet in the same way. So all ask at the first bucket, and again at
// later ones only if that one went by the devices: on the host alone, the rank's own thread waits for nobody.
void Carrier::start(std::int64_t slot, const Exchange& exchange) {
  started_.erase(slot);
  if (!exchange.input.device().is_cpu() && is_alone()) {
    status_ = status_alone;
    Exchange kept = exchange;
    kept.output = exchange.input;
    started_.emplace(slot, Started{kept, nullptr});
    return;
  }
  const bool by_device = buckets_ask_.value_or(true) && go_by_device(exchange);
  if (!buckets_ask_) buckets_ask_ = by_device;
  if (by_device) {
    started_.emplace(slot, Started{exchange, begin(exchange)});
  } else {
    ranks_.background(exchange.where).start(slot, through_host(exchange));
  }
}

Tensor Carrier::finish(std::int64_t slot, Device device, Where where) {
  if (const auto found = started_.find(slot); found != started_.end()) {
    Tensor result = found->second.exchange.output;
    started_.erase(found);
    return result;
  }
  Tensor result = ranks_.background(where).wait(slot);
  if (device.is_cpu()) return result;
  Tensor there = make_tensor(result.dtype(), result.shape(), device);
  backend_of(device).copy_from_host(there.impl().data, result.impl().data, nbytes(result));
  return there;
}

bool Carrier::may_go_by_device(const Tensor& x) {
  if (x.device().is_cpu() || refused_) return false;
  if (!group_ || x.device() == device_) return true;
  status_ = join("collectives on the host: this rank's device was ", tensorflow_name(device_), ", and now is ",
                 tensorflow_name(x.device()));
  return false;
}

/// Agrees with the other ranks on whether their devices make a collective, and joins these before the first. All ranks
/// get the same answer.
bool Carrier::go_by_device(Exchange exchange) {
  exchange.by_device = may_go_by_device(exchange.input);
  const int other = ranks_.agree(exchange);
  if (other >= 0) {
    if (exchange.by_device)
      status_ = join("collectives on the host: the tensor of rank ", other,
                     " is on the CPU, or on another device than its tensors before");
    return false;
  }
  if (!group_) join_devices(exchange.input.device());
  if (group_) status_ = "collectives by " + group_->name();
  return bool(group_);
}

void Carrier::refuse(const std::string& reason) {
  refused_ = true;
  group_ = nullptr;
  status_ = "collectives on the host: " + reason;
}

/// What a function gives on each rank; nothing, if it throws on one of them.
std::optional<std::vector<std::string>> Carrier::of_all_ranks(const std::function<std::string()>& own) {
  constexpr std::size_t room = 256;
  bool works = true;
  std::string text;
  try {
    text = own();
  } catch (const Error& error) {
    works = false;
    text = error.message();
  }
  text.resize(std::min(text.size(), room - 2));
  const Tensor mine = make_tensor(uint8, {static_cast<std::int64_t>(room)}, cpu());
  const Tensor all = make_tensor(uint8, {ranks_.size * static_cast<std::int64_t>(room)}, cpu());
  auto* bytes = mutable_data<std::uint8_t>(mine);
  bytes[0] = works ? 1 : 0;
  bytes[1] = static_cast<std::uint8_t>(text.size());
  std::fill(std::copy(text.begin(), text.end(), bytes + 2), bytes + room, std::uint8_t{0});
  ranks_.run({.kind = Exchange::Kind::all_gather, .name = "joining devices", .input = mine, .output = all});
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks_.size; ++rank) {
    const std::uint8_t* each = mutable_data<std::uint8_t>(all) + static_cast<std::size_t>(rank) * room;
    texts.emplace_back(reinterpret_cast<const char*>(each + 2), each[1]);
    if (each[0] == 1) continue;
    refuse(join("rank ", rank, ": ", texts.back()));
    return {};
  }
  return texts;
}

void Carrier::join_devices(Device device) {
  Backend& backend = backend_of(device);
  const auto addresses = of_all_ranks([&] { return backend.address(); });
  if (!addresses) return;
  for (std::size_t i = 0; i < addresses->size(); ++i) {
    const auto first = std::find(addresses->begin(), addresses->end(), (*addresses)[i]) - addresses->begin();
    if (static_cast<std::size_t>(first) < i) return refuse(join("ranks ", first, " and ", i, " share a GPU"));
  }
  const auto names = of_all_ranks([&] { return ranks_.rank == 0 ? backend.new_group() : std::string(); });
  if (!names) return;
  device_ = device;
  of_all_ranks([&] {
    group_ = backend.join_group((*names)[0], ranks_.rank, ranks_.size);
    return std::string();
  });
}

DeviceGroup::Work Carrier::begin(const Exchange& exchange) {
  const Tensor &x = exchange.input, &y = exchange.output;
  switch (exchange.kind) {
    case Exchange::Kind::all_reduce:
      return group_->all_reduce(device_function(exchange.reduce), x, y);
    case Exchange::Kind::reduce_scatter:
      return group_->reduce_scatter(device_function(exchange.reduce), x, y);
    case Exchange::Kind::all_gather:
      return group_->all_gather(x, y);
    default:
      return group_->broadcast(exchange.root, x, y);
  }
}

}  // namespace tapestry::detail
