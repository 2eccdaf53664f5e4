#include "tapestry/distributed/data_parallel.hpp"

#include <cmath>

#include "dispatch/recorder.hpp"
#include "distributed/buckets.hpp"
#include "tapestry/control_flow.hpp"
#include "tapestry/train/clip.hpp"
#include "train/arguments.hpp"

namespace tapestry::train {

DataParallel::DataParallel(Optimizer& optimizer, const Communicator& world, const DataParallelOptions& options,
                           Where where)
    : optimizer_(optimizer), world_(world), options_(options), accumulation_(options.accumulate, where) {
  require(options.bucket_bytes >= 1, "bucket_bytes", options.bucket_bytes, ">= 1", where);
  require_not_negative(options.clip_norm, "clip_norm", where);
}

Tensor DataParallel::minimize(const Optimizer::Loss& loss, const ApplyOptions& options, Where where) {
  return minimize_all(loss, nullptr, options, where);
}

Tensor DataParallel::minimize(const Optimizer::Loss& loss, const std::vector<Variable>& variables,
                              const ApplyOptions& options, Where where) {
  return minimize_all(loss, &variables, options, where);
}

Tensor DataParallel::minimize_all(const Optimizer::Loss& loss, const std::vector<Variable>* variables,
                                  const ApplyOptions& options, Where where) {
  detail::Buckets buckets(world_, Reduce::mean, options_.bucket_bytes, where);
  const bool sends_now = options_.accumulate == 1;
  const auto send = [&](std::size_t i, const Tensor& gradient) { buckets.add(i, gradient); };
  const Optimizer::Evaluation found =
      Optimizer::evaluate(loss, variables, where, sends_now ? send : std::function<void(std::size_t, const Tensor&)>());
  std::vector<Tensor> gradients;
  std::vector<Variable> of;
  for (const auto& [gradient, variable] : found.gradients) {
    gradients.push_back(gradient);
    of.push_back(variable);
  }
  if (sends_now) {
    optimizer_.apply_gradients({clipped(buckets.finish(of.size()), where), where}, of, options, where);
  } else {
    apply(gradients, of, options, where);
  }
  return found.loss;
}

Operation DataParallel::minimize(const Tensor& loss, const std::vector<Variable>& variables,
                                 const ApplyOptions& options, Where where) {
  if (options_.accumulate > 1)
    throw UnimplementedError(
        "A graph that is built by hand makes a step with every batch; trace the step to accumulate", where);
  std::vector<Tensor> gradients;
  std::vector<Variable> of;
  for (const auto& [gradient, variable] : optimizer_.compute_gradients(loss, variables, where)) {
    gradients.push_back(gradient);
    of.push_back(variable);
  }
  return apply(gradients, of, options, where);
}

Operation DataParallel::apply_gradients(const TensorList& gradients, const std::vector<Variable>& variables,
                                        const ApplyOptions& options, Where where) {
  return apply(gradients.tensors(), variables, options, where);
}

Operation DataParallel::apply(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables,
                              const ApplyOptions& options, Where where) {
  const auto reduced = [&](const std::vector<Tensor>& own) {
    const CallSiteScope site(where);
    detail::Buckets buckets(world_, Reduce::mean, options_.bucket_bytes, where);
    for (std::size_t i = 0; i < own.size(); ++i) buckets.add(i, own[i]);
    return clipped(buckets.finish(own.size()), where);
  };
  if (options_.accumulate == 1)
    return optimizer_.apply_gradients({reduced(gradients), where}, variables, options, where);
  accumulation_.add(
      optimizer_, {gradients, where}, variables, options,
      [&](const Tensor& is_last, const std::vector<Tensor>& means) {
        return cond(
            is_last, [&] { return reduced(means); }, [&] { return means; });
      },
      where);
  return {};
}

std::vector<Tensor> DataParallel::clipped(std::vector<Tensor> gradients, Where where) const {
  if (options_.clip_norm == 0) return gradients;
  return clip_by_global_norm({gradients, where}, options_.clip_norm).first;
}

}  // namespace tapestry::train
