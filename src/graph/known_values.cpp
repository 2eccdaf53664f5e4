#include "graph/known_values.hpp"

#include <algorithm>

#include "core/make_tensor.hpp"
#include "dispatch/declaration.hpp"
#include "graph/passes/passes.hpp"
#include "graph/state_ops.hpp"
#include "ops/handles.hpp"

namespace tapestry::detail {
namespace {

/// Enough for shapes and indices. Larger tensors take time to compute and are left to the run.
constexpr std::int64_t most_elements = 1 << 10;

bool has_few_elements(const Tensor& tensor) {
  return size_of(tensor.dtype()) > 0 && tensor.shape().is_known() && tensor.size() <= most_elements;
}

bool is_whole(DType dtype) { return dtype == int32 || dtype == int64; }

bool is_complete(const Tensor& value) {
  if (!is_whole(value.dtype())) return true;
  const std::vector<std::int64_t> numbers = value.to_vector<std::int64_t>();
  return std::find(numbers.begin(), numbers.end(), KnownValues::unknown_element) == numbers.end();
}

/// Whether an op passes on elements of an input, all or some of them, without looking at their values.
bool moves_elements(const Node& node, std::size_t input) {
  const Op& op = node.op();
  if (op.movement == Movement::joins) return true;
  if (input != 0 || !is_whole(node.output().dtype())) return false;
  return op.movement != Movement::none || &op == &ops::cast;
}

Tensor whole_numbers(const Tensor& like, const auto& element) {
  Tensor value = make_tensor(like.dtype(), like.shape(), cpu());
  visit_dtype(like.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < value.size(); ++i) mutable_data<T>(value)[i] = static_cast<T>(element(i));
  });
  return value;
}

/// Whether outputs of these types and shapes, as far as they are known, are as they should be.
bool fit(const Specs& found, const Specs& due) {
  return std::equal(found.begin(), found.end(), due.begin(), due.end(),
                    [](const Spec& a, const Spec& b) { return a.dtype == b.dtype && can_be(a.shape, b.shape); });
}

}  // namespace

Tensors evaluate(const Node& node, const Tensors& inputs) {
  Call call(node.op(), inputs, node.attrs(), node.where(), node.name());
  const ExecuteNow now;
  const Specs specs = specs_of(node);
  try {
    // The values may have other sizes than were expected when the node was made.
    if (!node.op().evaluate && !fit(node.op().infer(call), specs)) return {};
    execute(call, specs, cpu());
  } catch (const Error&) {
    return {};  // such as a division by zero, which is reported with its call site when the node runs
  }
  return call.outputs();
}

void KnownValues::note(const Node& node) {
  const Op& op = node.op();
  const bool allocates = op.evaluate && !find_attr(op, "functions");
  const bool computes = op.forward || op.view || op.cpu || allocates;
  if (op.stateful || !computes || &op == &const_op || &op == &placeholder_op || node.outputs().empty() ||
      (!allocates && !std::all_of(node.outputs().begin(), node.outputs().end(), has_few_elements)))
    return;
  if (&op == &ops::shape) {
    const Shape& sizes = node.input(0).shape();
    const auto size = [&](std::int64_t i) {
      const std::int64_t known = sizes.sizes()[i];
      return known < 0 ? unknown_element : known;
    };
    values_.emplace(node.output().id(), whole_numbers(node.output(), size));
    return;
  }
  Tensors inputs;
  bool complete = true;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    const Tensor& input = node.input(i);
    const bool reads_value = !reads_shape_only(op, i);
    const Tensor value = reads_value ? find(input) : input;
    if (reads_value && (!value || !has_few_elements(value) || !value.device().is_cpu())) return;
    complete = complete && (reads_value ? is_complete(value) || moves_elements(node, i) : input.shape().is_known());
    inputs.push_back(value);
  }
  const Tensors results = complete ? evaluate(node, inputs) : Tensors();
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    const Tensor& output = node.output(i);
    if (!results.empty()) {
      values_.emplace(output.id(), results[i]);
    } else if (!complete && !allocates && is_whole(output.dtype())) {
      values_.emplace(output.id(), whole_numbers(output, [](std::int64_t) { return unknown_element; }));
    }
  }
}

Tensor KnownValues::find(const Tensor& tensor) const {
  if (Tensor value = constant_value(tensor)) return value;
  if (const auto given = given_.find(tensor.id()); given != given_.end()) return given->second;
  const auto found = values_.find(tensor.id());
  return found == values_.end() ? Tensor() : found->second;
}

Tensor KnownValues::find_complete(const Tensor& tensor) const {
  if (const auto given = given_.find(tensor.id()); given != given_.end()) return given->second;
  const Tensor value = find(tensor);
  return bool(value) && (value.size() > most_elements || is_complete(value)) ? value : Tensor();
}

void KnownValues::absorb(const Tensor& known) {
  std::vector<Tensor> pending{known};
  while (!pending.empty()) {
    const Tensor tensor = pending.back();
    pending.pop_back();
    const Node& node = *endpoint_of(tensor).node;
    if (!node.graph->absorbed.insert(tensor.id()).second) continue;
    for (std::size_t i = 0; i < node.inputs().size(); ++i)
      if (!reads_shape_only(node.op(), i)) pending.push_back(node.input(i));
  }
}

}  // namespace tapestry::detail
