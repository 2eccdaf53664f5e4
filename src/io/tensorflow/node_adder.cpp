#include "io/tensorflow/node_adder.hpp"

#include <algorithm>

#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "io/arrays/elements.hpp"

namespace tapestry::io {
namespace {

bool has_bits_of(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.is_contiguous() && b.is_contiguous() &&
         std::ranges::equal(bytes_of(a), bytes_of(b));
}

}  // namespace

std::string FileNames::unique_constant(const std::string& name, const Tensor& value) {
  std::string free = name;
  for (int number = 1; !taken_.insert(free).second; ++number) {
    const auto found = kept_.find(free);
    if (found != kept_.end() && has_bits_of(found->second, value)) {
      kept_.erase(found);
      break;
    }
    free = detail::join(name, "_", number);
  }
  return free;
}

NodeDef constant_def(std::string name, const Tensor& value, std::string device) {
  const TypeCode type = code_of(value.dtype());
  return {.name = std::move(name),
          .op = "Const",
          .device = std::move(device),
          .attrs = {{"dtype", type}, {"value", TensorDef{type, value}}}};
}

std::string NodeAdder::unique(const std::string& label) { return names_.unique(prefix_ + label); }

std::string NodeAdder::op(std::string_view op, const std::vector<std::string>& inputs, AttrDefs attrs,
                          std::string_view label) {
  NodeDef def{.name = unique(std::string(label.empty() ? op : label)), .op = std::string(op), .device = device_};
  def.inputs = inputs;
  def.attrs = std::move(attrs);
  nodes_.push_back(std::move(def));
  return nodes_.back().name;
}

std::string NodeAdder::constant(std::string_view label, const Tensor& value) {
  nodes_.push_back(constant_def(names_.unique_constant(prefix_ + std::string(label), value), value, device_));
  return nodes_.back().name;
}

std::string NodeAdder::number(std::string_view label, std::int64_t value) {
  return constant(label, detail::make_scalar(static_cast<double>(value), int32));
}

std::string NodeAdder::shape(std::string_view label, const Shape& shape) {
  const ExecuteNow now;
  if (!shape.has_rank()) return number(label, -1);
  const Tensor value = detail::make_tensor(int32, Shape{shape.rank()}, cpu());
  for (int i = 0; i < shape.rank(); ++i)
    detail::mutable_data<std::int32_t>(value)[i] = static_cast<std::int32_t>(shape.sizes()[i]);
  return constant(label, value);
}

std::string NodeAdder::whole(std::string_view name, const std::string& a, const std::string& b) {
  return typed(name, {a, b}, int32);
}

std::string NodeAdder::typed(std::string_view name, const std::vector<std::string>& inputs, DType dtype,
                             std::string_view label) {
  return op(name, inputs, {{"T", code_of(dtype)}}, label);
}

}  // namespace tapestry::io
