#include <algorithm>
#include <set>

#include "interop/judgement.hpp"
#include "io/tensorflow/op_rules.hpp"
#include "op_cases/op_cases.hpp"
#include "ops/handles.hpp"

namespace tapestry::test {
namespace {

using Inputs = std::vector<Tensor>;

/// The row's value and its gradients; then, where they exist, the gradients of the sum of those.
Inputs all_values(const OpCase& row, const Inputs& inputs) {
  // In less than double precision what is left of a second derivative may be less than TensorFlow's rounding.
  const bool exact = std::none_of(inputs.begin(), inputs.end(),
                                  [](const Tensor& x) { return is_floating(x.dtype()) && x.dtype() != float64; });
  if (row.orders < 2 || !exact) return value_and_gradients(row, inputs);
  GradientTape tape;
  Inputs sources;
  for (const Tensor& input : inputs)
    if (is_floating(input.dtype())) sources.push_back(input);
  tape.watch(sources);
  Inputs results = value_and_gradients(row, inputs);
  const Inputs first(results.begin() + 1, results.end());
  for (const Tensor& each : tape.gradient(TensorList(first), sources, {.unconnected = Unconnected::zero}))
    results.push_back(each);
  return results;
}

void write_model(const std::filesystem::path& folder, const std::string& title, const OpCase& row, const Inputs& inputs,
                 bool unknown_batch, std::set<std::string>& seen) {
  std::vector<TensorSpec> specs;
  for (const Tensor& input : inputs) {
    Shape shape = input.shape();
    if (unknown_batch && shape.rank() > 0) shape.set(0, -1);
    specs.push_back(spec(input.dtype(), shape));
  }
  const auto traced = trace([&](const Inputs& x) { return all_values(row, x); }, specs);
  for (const Operation& each : traced.graph().operations()) seen.insert(each.type());

  Feeds feeds;
  Judgement judgement(folder, title, traced.graph());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    feeds.add(traced.input(i), inputs[i]);
    judgement.feed(traced.input(i).name(), inputs[i]);
  }
  Session session(traced.graph());
  const Inputs results = session.run(traced.outputs(), feeds);
  for (std::size_t i = 0; i < results.size(); ++i) judgement.fetch(traced.output(i).name(), results[i]);
  std::size_t gradient = 1;
  for (std::size_t i = 0; i < inputs.size() && row.orders > 0; ++i)
    if (is_floating(inputs[i].dtype()))
      judgement.gradient(traced.output(0).name(), traced.input(i).name(), results[gradient++]);
  judgement.save();
}

}  // namespace

int write_op_models(const std::filesystem::path& folder) {
  int count = 0;
  std::set<std::string> seen;
  for (OpCase row : op_cases()) {
    // TensorFlow takes labels to be probabilities, whose sum is 1.
    if (row.name == "softmax_cross_entropy")
      row.inputs[0] = row.inputs[0] / reduce_sum(row.inputs[0], 1, {.keep_dims = true});
    // TensorFlow gives gradients also to rows that later ones replace.
    if (row.name == "dynamic_stitch of equal indices") row.orders = 0;
    // TensorFlow's gradient of the gradient of a maximum takes no explicit padding.
    if (row.name == "max_pool3d, padded") row.orders = 1;
    for (const DType dtype : {float64, float32, float16, bfloat16}) {
      const std::string title = detail::join(row.name, " (", dtype, ")");
      write_model(folder, title, row, converted(row.inputs, dtype), false, seen);
      ++count;
    }
    // The rank of what a squeeze without axes gives depends on the batch size.
    if (row.inputs.empty() || row.name == "squeeze") continue;
    write_model(folder, row.name + " (unknown batch size)", row, row.inputs, true, seen);
    ++count;
  }
  for (const Op* op : registered_ops())
    // A graph has no views, of which alone there are snapshots, and the rows are of one device.
    if (!seen.contains(op->name) && io::rule_of(op->name) && op != &ops::snapshot && op != &ops::device_copy)
      throw InternalError(detail::join("No row of the op table makes a graph with ", op->name));
  return count;
}

}  // namespace tapestry::test
