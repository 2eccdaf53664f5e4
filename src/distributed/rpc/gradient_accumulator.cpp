#include "distributed/rpc/gradient_accumulator.hpp"

#include <algorithm>
#include <numeric>

#include "core/make_tensor.hpp"
#include "io/rpc/resource_ops.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::detail {
namespace {

using io::rpc::attr_or;

std::int64_t number(const Tensor& value) { return value.cast(int64).item<std::int64_t>(); }

/// Rows with each index once, in order, and how often each came.
struct SummedRows {
  Tensor indices, rows, counts;
};

SummedRows summed(const Tensor& indices, const Tensor& rows) {
  std::vector<std::int64_t> all = indices.to_vector<std::int64_t>(), unique = all;
  std::sort(unique.begin(), unique.end());
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  std::vector<double> counts(unique.size());
  for (std::int64_t& each : all) {
    each = std::lower_bound(unique.begin(), unique.end(), each) - unique.begin();
    ++counts[each];
  }
  const auto count = static_cast<std::int64_t>(unique.size());
  Shape shape = rows.shape(), columns = rows.shape();
  shape.set(0, count);
  for (int i = 0; i < columns.rank(); ++i) columns.set(i, i == 0 ? count : 1);
  const Tensor places = tensor(all, {static_cast<std::int64_t>(all.size())});
  return {tensor(unique, {count}), scatter_add(zeros(shape, {rows.dtype()}), places, rows),
          reshape(tensor(counts, {count}).cast(rows.dtype()), columns)};
}

}  // namespace

GradientAccumulator::GradientAccumulator(const io::NodeDef& maker, std::shared_ptr<HeldBytes> held)
    : name_(maker.name),
      dtype_(io::dtype_of(attr_or<io::TypeCode>(maker, "dtype", {}))),
      shape_(attr_or<Shape>(maker, "shape", Shape::unknown_rank())),
      is_sparse_(maker.op == "SparseConditionalAccumulator"),
      is_mean_(attr_or<std::string>(maker, "reduction_type", "MEAN") == "MEAN"),
      held_(std::move(held)) {
  if (!is_floating(dtype_))
    throw UnimplementedError(join("Node '", maker.name, "' accumulates gradients of a type that is none of floats"));
}

Tensors GradientAccumulator::use(const io::NodeDef& node, const Tensors& inputs, const std::stop_token& stop) {
  const std::string_view op = io::rpc::resource_op(node.op);
  const std::string_view own = is_sparse_ ? "SparseAccumulator" : "Accumulator";
  if (op == join(own, "ApplyGradient")) return apply(node, inputs), Tensors();
  if (op == join(own, "TakeGradient") && inputs.size() == 1) return take(number(inputs[0]), stop);
  const std::lock_guard lock(mutex_);
  if (op == "AccumulatorSetGlobalStep" && inputs.size() == 1) return step_ = number(inputs[0]), Tensors();
  if (op == "AccumulatorNumAccumulated") return {tensor(static_cast<std::int32_t>(count_))};
  throw InvalidArgumentError(
      join("Node '", node.name, "' (op: '", node.op, "') does not use the accumulator '", name_, "' like this"));
}

void GradientAccumulator::check(const Tensor& gradient) const {
  if (gradient.dtype() != dtype_)
    throw InvalidArgumentError(join("The accumulator '", name_, "' takes gradients of ", to_string(dtype_), ", not of ",
                                    to_string(gradient.dtype())));
  const Shape& known = is_sparse_ || !sum_.dense ? shape_ : sum_.dense.shape();
  if (!is_sparse_ && !can_be(gradient.shape(), known))
    throw InvalidArgumentError(
        join("Shape mismatch: the accumulator '", name_, "' expects ", known, ", got ", gradient.shape()));
}

void GradientAccumulator::hold(std::size_t bytes) {
  held_->take(static_cast<std::int64_t>(bytes));
  bytes_ += static_cast<std::int64_t>(bytes);
}

void GradientAccumulator::apply(const io::NodeDef& node, const Tensors& inputs) {
  if (inputs.size() != (is_sparse_ ? 4 : 2))
    throw InvalidArgumentError(join("Node '", node.name, "' has ", inputs.size(), " inputs beside the accumulator"));
  const std::lock_guard lock(mutex_);
  const Tensor& gradient = inputs[is_sparse_ ? 2 : 1];
  check(gradient);
  if (is_sparse_ && (inputs[1].dtype() != int64 || inputs[1].rank() != 1 || gradient.rank() == 0 ||
                     gradient.shape()[0] != inputs[1].size()))
    throw InvalidArgumentError(join("The accumulator '", name_, "' takes int64 indices and a row for each, got ",
                                    inputs[1].shape(), " and ", gradient.shape()));
  if (number(inputs[0]) < step_) return;  // it is stale
  if (is_sparse_) {
    // A row that comes twice in a gradient is one row of it.
    const SummedRows rows = summed(inputs[1], gradient);
    add_rows(rows.indices, rows.rows);
  } else {
    add(gradient);
  }
  ++count_;
  changed_.notify_all();
}

void GradientAccumulator::add(const Tensor& gradient) {
  if (sum_.dense) {
    sum_.dense = sum_.dense + gradient;
    return;
  }
  hold(nbytes(gradient));
  sum_.dense = gradient;
}

void GradientAccumulator::add_rows(const Tensor& indices, const Tensor& rows) {
  if (!sum_.rows.empty()) {
    const Tensor& before = sum_.rows.front();
    if (before(range(0, 0)).shape() != rows(range(0, 0)).shape())
      throw InvalidArgumentError(join("Shape mismatch: the accumulator '", name_, "' has rows of a gradient of ",
                                      before.shape(), ", got ", rows.shape()));
  }
  hold(nbytes(rows) + nbytes(indices));
  sum_.indices.push_back(indices);
  sum_.rows.push_back(rows);
}

Tensors GradientAccumulator::take(std::int64_t required, const std::stop_token& stop) {
  if (required < 1) throw InvalidArgumentError(join("Argument num_required must be positive, but was ", required));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [&] { return count_ >= required; });
  if (count_ < required || stop.stop_requested()) throw CancelledError("TakeGrad operation was cancelled");
  ++step_;
  const std::int64_t count = std::exchange(count_, 0);
  const Sum sum = std::exchange(sum_, {});
  held_->give(std::exchange(bytes_, 0));
  lock.unlock();
  return mean_of(sum, count);
}

Tensors GradientAccumulator::mean_of(const Sum& sum, std::int64_t count) const {
  if (!is_sparse_)
    return {is_mean_ && count > 1 ? sum.dense / full({}, static_cast<double>(count), {dtype_}) : sum.dense};
  const SummedRows rows = summed(concat(sum.indices), concat(sum.rows));
  const Tensor values = is_mean_ ? rows.rows / rows.counts : rows.rows;
  std::vector<std::int64_t> shape{0};
  if (rows.indices.size() > 0) shape[0] = reduce_max(rows.indices).item<std::int64_t>() + 1;
  for (int i = 1; i < values.rank(); ++i) shape.push_back(values.shape()[i]);
  return {rows.indices, values, tensor(shape, {static_cast<std::int64_t>(shape.size())})};
}

}  // namespace tapestry::detail
