#include "tapestry/distributed/data_parallel.hpp"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "autodiff/variable_cell.hpp"
#include "dispatch/recorder.hpp"
#include "distributed/buckets.hpp"
#include "tapestry/control_flow.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/sparse.hpp"
#include "tapestry/train/clip.hpp"
#include "train/arguments.hpp"

namespace tapestry::train {

namespace {

void add(detail::Buckets& buckets, std::size_t number, const Tensor& gradient) {
  if (const std::optional<IndexedSlices> rows = gradient ? indexed_slices(gradient) : std::nullopt) {
    buckets.add_rows(number, *rows, gradient);
  } else {
    buckets.add(number, gradient);
  }
}

std::vector<Tensor> parts_of(const std::vector<Tensor>& gradients) {
  std::vector<Tensor> parts;
  for (const Tensor& each : gradients) {
    if (const std::optional<IndexedSlices> rows = indexed_slices(each)) {
      parts.push_back(rows->indices.cast(int64));
      parts.push_back(rows->values);
    } else {
      parts.push_back(each);
    }
  }
  return parts;
}

/// The gradients that `parts_of` has taken apart; those of `like` are row-sparse in the same places.
std::vector<Tensor> of_parts(const std::vector<Tensor>& parts, const std::vector<Tensor>& like) {
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; const Tensor& each : like) {
    if (indexed_slices(each)) {
      gradients.push_back(to_tensor({parts[i], parts[i + 1]}, each));
      i += 2;
    } else {
      gradients.push_back(parts[i++]);
    }
  }
  return gradients;
}

}  // namespace

DataParallel::DataParallel(const AnyOptimizer& optimizer, const Communicator& world, const DataParallelOptions& options,
                           Where where)
    : optimizer_(optimizer), world_(world), options_(options), accumulation_(options.accumulate, where) {
  require(options.bucket_bytes >= 1, "bucket_bytes", options.bucket_bytes, ">= 1", where);
  require_not_negative(options.clip_norm, "clip_norm", where);
}

/// What must be equal on all ranks, so that all copies of the model stay equal.
detail::SharedSettings DataParallel::settings() const {
  // The optimizers themselves may be destroyed before a graph.
  std::string name;
  std::vector<std::pair<std::shared_ptr<const Optimizer::Rule>, Variable>> rules;
  for (const Optimizer* each : optimizer_.all()) {
    name += (name.empty() ? "" : ", ") + each->name();
    rules.emplace_back(each->rule_, each->iterations_);
  }
  const auto scale = options_.loss_scale ? std::optional(options_.loss_scale->scale_) : std::nullopt;
  const auto numbers = [rules, scale](const Tensors&) -> Tensors {
    std::vector<double> all;
    for (const auto& [rule, steps] : rules) {
      const auto before = steps.cell()->load().item<std::int64_t>();
      const double rate = rule->learning_rate(before);
      all.push_back(static_cast<double>(before + 1));
      all.push_back(rate);
      for (const double each : rule->numbers(rate, before + 1)) all.push_back(each);
    }
    if (scale) all.push_back(scale->cell()->load().item<double>());
    return {tensor(all)};
  };
  return {.name = std::move(name),
          .clip_norm = options_.clip_norm,
          .numbers = std::make_shared<const std::function<Tensors(const Tensors&)>>(numbers)};
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
  detail::Buckets buckets(world_, Reduce::mean, options_.bucket_bytes, where, settings());
  const bool sends_now = options_.accumulate == 1;
  const auto send = [&](std::size_t i, const Tensor& gradient) { add(buckets, i, gradient); };
  Tensor value;
  const auto scaled = [&] {
    value = loss();
    return bool(value) && options_.loss_scale ? options_.loss_scale->scale({value, where}) : value;
  };
  const ParameterGroups* groups = variables ? nullptr : optimizer_.groups_;
  const std::vector<Variable> of_groups = groups ? groups->trained() : std::vector<Variable>();
  const Optimizer::Evaluation found =
      Optimizer::evaluate(scaled, groups ? &of_groups : variables, where,
                          sends_now ? send : std::function<void(std::size_t, const Tensor&)>());
  std::vector<Tensor> gradients;
  std::vector<Variable> of;
  for (const auto& [gradient, variable] : found.gradients) {
    gradients.push_back(gradient);
    of.push_back(variable);
  }
  if (sends_now) gradients = buckets.finish(of.size());
  if (groups) groups->check_gradients(found.gradients, where);
  gradients = unscaled(gradients, where);
  if (sends_now) {
    step(clipped(gradients, where), of, options, {}, where);
  } else {
    apply(gradients, of, options, where);
  }
  return value;
}

Operation DataParallel::minimize(const Tensor& loss, const std::vector<Variable>& variables,
                                 const ApplyOptions& options, Where where) {
  if (options_.accumulate > 1)
    throw UnimplementedError(
        "A graph that is built by hand makes a step with every batch; trace the step to accumulate", where);
  const Tensor scaled = options_.loss_scale ? options_.loss_scale->scale({loss, where}) : loss;
  const bool of_groups = variables.empty() && optimizer_.groups_;
  const GradientsAndVariables found =
      optimizer_.all()[0]->compute_gradients(scaled, of_groups ? optimizer_.groups_->trained() : variables, where);
  if (of_groups) optimizer_.groups_->check_gradients(found, where);
  std::vector<Tensor> gradients;
  std::vector<Variable> of;
  for (const auto& [gradient, variable] : found) {
    gradients.push_back(gradient);
    of.push_back(variable);
  }
  return apply(unscaled(gradients, where), of, options, where);
}

Operation DataParallel::apply_gradients(const TensorList& gradients, const std::vector<Variable>& variables,
                                        const ApplyOptions& options, Where where) {
  return apply(gradients.tensors(), variables, options, where);
}

std::vector<Tensor> DataParallel::unscaled(const std::vector<Tensor>& gradients, Where where) const {
  return options_.loss_scale ? options_.loss_scale->unscale({gradients, where}) : gradients;
}

/// Makes a step with gradients that are the same on all ranks; of several batches, if this is the last one.
Operation DataParallel::step(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables,
                             const ApplyOptions& options, const Tensor& is_last, Where where) {
  if (!options_.loss_scale) return optimizer_.apply_gradients({gradients, where}, variables, options, where);
  return options_.loss_scale->step(optimizer_, {gradients, where}, variables, options, is_last, where);
}

Operation DataParallel::apply(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables,
                              const ApplyOptions& options, Where where) {
  const auto reduced = [&](const std::vector<Tensor>& own) {
    const CallSiteScope site(where);
    detail::Buckets buckets(world_, Reduce::mean, options_.bucket_bytes, where, settings());
    for (std::size_t i = 0; i < own.size(); ++i) add(buckets, i, own[i]);
    return clipped(buckets.finish(own.size()), where);
  };
  if (options_.accumulate == 1) return step(reduced(gradients), variables, options, {}, where);
  accumulation_.add(
      {gradients, where}, variables, options,
      [&](const Tensor& is_last, const std::vector<Tensor>& means, const ApplyOptions& conditional) {
        // Results of a branch are whole tensors: a row-sparse one leaves it as its indices and values.
        const std::vector<Tensor> parts = cond(
            is_last, [&] { return parts_of(reduced(means)); }, [&] { return parts_of(means); });
        step(of_parts(parts, means), variables, conditional, is_last, where);
      },
      where);
  return {};
}

std::vector<Tensor> DataParallel::clipped(std::vector<Tensor> gradients, Where where) const {
  if (options_.clip_norm == 0) return gradients;
  return clip_by_global_norm({gradients, where}, options_.clip_norm).first;
}

}  // namespace tapestry::train
