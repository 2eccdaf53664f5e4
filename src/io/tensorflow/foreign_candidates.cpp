// Samples of classes, for losses over more classes than a step can look at. They are drawn from Tapestry's stream.

#include <cmath>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"
#include "tapestry/random.hpp"

namespace tapestry::io {
namespace {

/// How likely each class is drawn by a list of how often they occur, which the attributes hold.
Tensor listed_probabilities(const ForeignNode& n, std::int64_t classes) {
  const std::vector<float> counts = n.node.attr_or<ListDef>("unigrams", {}).floats;
  const auto reserved = n.node.attr_or<std::int64_t>("num_reserved_ids", 0);
  const double distortion = n.node.attr_or<float>("distortion", 1);
  if (!n.node.attr_or<std::string>("vocab_file", "").empty()) lack(n, "'vocab_file'");
  if (n.node.attr_or<std::int64_t>("num_shards", 1) != 1) lack(n, "'num_shards'");
  if (reserved < 0 || std::cmp_not_equal(static_cast<std::int64_t>(counts.size()), classes - reserved))
    n.node.refuse(detail::join("it has ", counts.size(), " counts for ", classes, " classes"));
  std::vector<double> list(static_cast<std::size_t>(reserved));
  double sum = 0;
  for (const float each : counts) sum += list.emplace_back(std::pow(each, distortion));
  if (!(sum > 0)) n.node.refuse("none of its classes occurs");
  for (double& each : list) each /= sum;
  return tensor(list);
}

/// All classes, each once.
Tensors read_all_candidates(const ForeignNode& n) {
  const auto count = n.node.attr<std::int64_t>("num_sampled");
  if (count < 1 || count > most_numbers) n.node.refuse(detail::join("it has ", count, " classes"));
  return n.composed([&]() -> Tensors {
    return {arange(count, {.dtype = int64}), ones_like(n.in(0)).cast(float32), ones({count}, {.dtype = float32})};
  });
}

/// The sampled classes, and how often each true class and each sampled one is expected among the samples. Without
/// repetition, the samples are the classes that come first if each comes after an exponentially distributed time,
/// whose rate is its probability. Up to the time when the last of them comes, a class has come with the probability
/// 1 - exp(-rate * time).
Tensors read_sampler(const ForeignNode& n) {
  const auto count = n.node.attr<std::int64_t>("num_sampled"), classes = n.node.attr<std::int64_t>("range_max");
  const bool unique = n.node.attr<bool>("unique"), by_logarithm = n.node.def().op.starts_with("Log");
  const Tensor listed = n.node.def().op.starts_with("Fixed") ? listed_probabilities(n, classes) : Tensor();
  if (count < 1 || classes < 1 || count > most_numbers || classes > most_numbers || (unique && count > classes))
    n.node.refuse(detail::join("it samples ", count, " of ", classes, " classes"));
  if (n.in(0).dtype() != int64) n.node.refuse("its classes are no int64");
  const double whole = by_logarithm ? std::log(static_cast<double>(classes + 1)) : static_cast<double>(classes);
  return n.composed([&]() -> Tensors {
    const auto probability = [&](const Tensor& of) -> Tensor {
      if (listed) return gather(listed, of);
      const Tensor number = of.cast(float64);
      return (by_logarithm ? log1p(1.0 / (number + 1.0)) : ones_like(number)) / whole;
    };
    const Tensor drawn = tapestry::random::uniform({unique ? classes : count}, {.dtype = float64});
    Tensor sampled, tries;
    if (unique) {
      const TopK first = top_k(log1p(-drawn) / probability(arange(classes, {.dtype = int64})), count);
      sampled = first.indices.cast(int64);
      tries = -slice(first.values, {count - 1}, {1});
    } else if (listed) {
      // As many classes are passed as the sums of their probabilities lie below the number that is drawn.
      const Tensor is_passed = expand_dims(drawn, 1) >= cumsum(listed, 0);
      sampled = clip(reduce_sum(is_passed.cast(int64), 1), 0, classes - 1);
    } else {
      const Tensor place = drawn * whole;
      sampled = clip(by_logarithm ? expm1(place) : place, 0, static_cast<double>(classes - 1)).cast(int64);
    }
    const auto expected = [&](const Tensor& of) {
      const Tensor rate = probability(of);
      return Tensor(unique ? -expm1(-rate * tries) : rate * static_cast<double>(count)).cast(float32);
    };
    return {sampled, expected(n.in(0)), expected(sampled)};
  });
}

}  // namespace

ForeignOps foreign_candidates() {
  ForeignOps ops;
  ops.push_back({.name = "AllCandidateSampler",
                 .inputs = 1,
                 .outputs = {typed(int64), typed(float32), typed(float32)},
                 .read = read_all_candidates});
  for (const char* name : {"FixedUnigramCandidateSampler", "LogUniformCandidateSampler", "UniformCandidateSampler"})
    ops.push_back(
        {.name = name, .inputs = 1, .outputs = {typed(int64), typed(float32), typed(float32)}, .read = read_sampler});
  return ops;
}

}  // namespace tapestry::io
