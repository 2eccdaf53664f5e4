#pragma once

#include <condition_variable>

#include "distributed/rpc/shared_resources.hpp"

namespace tapestry::detail {

/// TensorFlow's ConditionalAccumulator and SparseConditionalAccumulator: sums gradients until enough are there for a
/// step, and drops those that were computed with the values of an earlier step.
class GradientAccumulator final : public SharedResource {
 public:
  GradientAccumulator(const io::NodeDef& maker, std::shared_ptr<HeldBytes> held);
  GradientAccumulator(const GradientAccumulator&) = delete;
  GradientAccumulator& operator=(const GradientAccumulator&) = delete;
  ~GradientAccumulator() override { held_->give(bytes_); }

  Tensors use(const io::NodeDef& node, const Tensors& inputs, const std::stop_token& stop) override;

 private:
  /// Of the gradients so far. A sparse one has rows, which may repeat an index.
  struct Sum {
    Tensor dense{};
    std::vector<Tensor> indices{}, rows{};
  };
  void check(const Tensor& gradient) const;
  void add(const Tensor& gradient);
  void add_rows(const Tensor& indices, const Tensor& rows);
  void apply(const io::NodeDef& node, const Tensors& inputs);
  Tensors take(std::int64_t required, const std::stop_token& stop);
  Tensors mean_of(const Sum& sum, std::int64_t count) const;
  /// Notes that it holds so many bytes more.
  void hold(std::size_t bytes);

  const std::string name_;
  const DType dtype_;
  const Shape shape_;
  const bool is_sparse_, is_mean_;
  const std::shared_ptr<HeldBytes> held_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::int64_t step_ = 0, count_ = 0, bytes_ = 0;
  Sum sum_;
};

}  // namespace tapestry::detail
