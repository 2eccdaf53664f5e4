#include "io/tensorflow/node_adder.hpp"

#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"

namespace tapestry::io {

std::string NodeAdder::unique(const std::string& label) {
  std::string name = prefix_ + label;
  for (int number = 1; !names_.insert(name).second; ++number) name = detail::join(prefix_, label, "_", number);
  return name;
}

std::string NodeAdder::op(std::string_view op, const std::vector<std::string>& inputs, AttrDefs attrs,
                          std::string_view label) {
  NodeDef def{.name = unique(std::string(label.empty() ? op : label)), .op = std::string(op), .device = device_};
  def.inputs = inputs;
  def.attrs = std::move(attrs);
  nodes_.push_back(std::move(def));
  return nodes_.back().name;
}

std::string NodeAdder::constant(std::string_view label, const Tensor& value) {
  return op("Const", {}, {{"dtype", code_of(value.dtype())}, {"value", TensorDef{code_of(value.dtype()), value}}},
            label);
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
