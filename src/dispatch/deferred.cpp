#include "dispatch/deferred.hpp"

#include <algorithm>
#include <mutex>

#include "core/deferred.hpp"
#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry {
namespace {

/// The origin of a deferred tensor.
class DeferredCall final : public detail::Origin {
 public:
  DeferredCall(Call call, Specs specs, Device device)
      : call_(std::move(call)), specs_(std::move(specs)), device_(device) {}

  const Call& call() const { return call_; }
  /// The result has this id: it is the same tensor.
  void set_id(std::int64_t id) { id_ = id; }

  Sink& sink() override { throw InternalError("A deferred tensor is in no graph"); }
  Tensor tensor() const override {
    const std::lock_guard lock(mutex_);
    if (!value_) {
      const ExecuteNow now;
      const PauseRecording pause;
      Call call = call_;
      detail::locating(call.type(), call.where(), [&] { execute(call, specs_, device_); });
      call.output().impl().id = id_;
      value_ = call.output();
    }
    return value_;
  }
  std::string describe() const override { return "the result of " + call_.name(); }

 private:
  Call call_;
  Specs specs_;
  Device device_;
  std::int64_t id_ = 0;
  mutable std::mutex mutex_;
  mutable Tensor value_;
};

bool reads_shape_only(const Op& op, std::size_t input) {
  return (op.shape_inputs >> std::min<std::size_t>(input, 31) & 1) != 0;
}

/// Whether all inputs have elements, as far as the op reads them, and are on one device.
bool can_be_deferred(const Op& op, const Tensors& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (sink_of(inputs[i]) || (inputs[i].is_symbolic() && !reads_shape_only(op, i)) ||
        inputs[i].device() != inputs[0].device())
      return false;
  return true;
}

}  // namespace

Tensor apply_deferred(const Op& op, const Tensors& inputs, const Attrs& attrs, Where where) {
  if (!can_be_deferred(op, inputs)) return apply_all(op, inputs, attrs, {}, where)[0];
  if (const Where outer = CallSiteScope::current()) where = outer;
  Call call(op, {}, attrs, where);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    call.mutable_inputs().push_back(reads_shape_only(op, i) ? detail::without_data(inputs[i])
                                                            : detail::computed(inputs[i]));
  const Specs specs = detail::locating(op.name, where, [&] { return op.infer(call); });
  const Device device = inputs[0].device();
  auto* const origin = new DeferredCall(call, specs, device);
  const Tensor result =
      detail::make_deferred(specs[0].dtype, specs[0].shape, device, detail::Intrusive<detail::Origin>(origin));
  origin->set_id(result.id());
  if (recorders().empty()) return result;
  Call recorded(op, inputs, attrs, where);
  recorded.mutable_outputs().push_back(result);
  tell_recorders(std::move(recorded));
  return result;
}

const Call* call_of(const Tensor& tensor) {
  if (!tensor.impl().origin) return nullptr;
  if (!detail::is_deferred(tensor)) return &tensor.op().call();
  return &static_cast<const DeferredCall&>(*tensor.impl().origin).call();
}

}  // namespace tapestry
