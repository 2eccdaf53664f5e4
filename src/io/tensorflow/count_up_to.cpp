#include "io/tensorflow/count_up_to.hpp"

#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "graph/state_ops.hpp"
#include "io/tensorflow/op_reader.hpp"

namespace tapestry::io {
namespace {

const Variable& counter_of(const Call& call) { return call.attr<VariablesRef>("variables")->front(); }

Tensors count(const Call& call) {
  Variable::Cell& cell = *counter_of(call).cell();
  const Tensor value = cell.load();
  const auto now = detail::on_host(value).item<std::int64_t>();
  const auto limit = call.attr<std::int64_t>("limit");
  if (now >= limit) throw OutOfRangeError(detail::join("Reached limit of ", limit));
  const Tensor next = detail::make_scalar(static_cast<double>(now + 1), value.dtype());
  cell.store(value.device().is_cpu() ? next : next.to(value.device()));
  return {value};
}

/// Only files have this op, so it is not registered.
const Op& count_up_to_op() {
  static const Op& op = *new Op{
      .name = "CountUpTo",
      .attrs = {{"variables", AttrKind::variables}, {"limit", AttrKind::number}},
      .infer = [](const Call& call) -> Specs { return {variable_spec(counter_of(call))}; },
      .evaluate = count,
      .gradient = no_gradient,
      .shape_inputs = 1,
      .stateful = true,
  };
  return op;
}

}  // namespace

Tensors read_count_up_to(const NodeReader& reader, const Variable& variable, const Tensor& handle, Where where) {
  if ((variable.dtype() != int32 && variable.dtype() != int64) || variable.shape().rank() != 0)
    reader.refuse(
        detail::join("its Variable is ", to_string(variable.dtype()), variable.shape(), ", not a whole number"));
  return add_op(count_up_to_op(), {handle},
                {{"variables", std::make_shared<const std::vector<Variable>>(1, variable)},
                 {"limit", reader.attr<std::int64_t>("limit")}},
                reader.def().name, where);
}

bool is_count_up_to(const detail::Node& node) { return &node.op() == &count_up_to_op(); }

void write_count_up_to(NodeWriter& writer, bool is_resource, const AttrDef& class_of_handle) {
  const detail::Node& node = writer.node();
  const std::vector<std::string> handle{detail::producer_of(node.input(0)).name()};
  const TypeCode type = code_of(node.output().dtype());
  const auto limit = node.attr<std::int64_t>("limit");
  if (is_resource) return writer.finish("ResourceCountUpTo", handle, {{"T", type}, {"limit", limit}});
  writer.finish("CountUpTo", handle, {{"T", type}, {"limit", limit}, {"_class", class_of_handle}});
}

}  // namespace tapestry::io
