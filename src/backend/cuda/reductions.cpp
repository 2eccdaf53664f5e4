#include "backend/cuda/reductions.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace tapestry::gpu {
namespace {

constexpr std::int64_t index_limit = std::int64_t{1} << 31;
/// Neighbours that are worth to be read by neighbouring threads: a cache line of floats.
constexpr std::int64_t row = 32;
/// Elements that a thread reduces at least, before a result is shared by several blocks.
constexpr std::int64_t thread_elements = 32;

struct Axis {
  std::int64_t size, stride;
};
using Axes = std::vector<Axis>;

/// Axes along which x goes on without a gap are one.
void join(Axes& axes) {
  for (std::size_t i = axes.size(); i-- > 1;) {
    if (axes[i - 1].stride != axes[i].stride * axes[i].size) continue;
    axes[i - 1] = {axes[i - 1].size * axes[i].size, axes[i].stride};
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::int64_t count(const Axes& axes) {
  std::int64_t n = 1;
  for (const Axis& axis : axes) n *= axis.size;
  return n;
}

std::int64_t span(const Axes& axes) {
  std::int64_t sum = 0;
  for (const Axis& axis : axes) sum += (axis.size - 1) * std::abs(axis.stride);
  return sum;
}

Layout layout_of(const Axes& axes) {
  Layout layout;
  for (const Axis& axis : axes) {
    layout.size[layout.axes] = Divider(static_cast<std::uint32_t>(axis.size));
    layout.stride[0][layout.axes++] = static_cast<std::int32_t>(axis.stride);
  }
  return layout;
}

/// Neighbouring threads read neighbouring elements: of one result, or of neighbouring results.
bool goes_along(const Axes& kept, const Axes& reduced) {
  const auto distance = [](const Axes& axes) {
    return axes.empty() || axes.back().stride == 0 ? index_limit : std::abs(axes.back().stride);
  };
  return distance(reduced) <= distance(kept);
}

int power_of_two_below(std::int64_t number) {
  int power = 1;
  while (2 * power <= number && power < block_threads) power *= 2;
  return power;
}

}  // namespace

Reduction plan_reduction(const View& x, std::uint32_t reduced_axes) {
  Axes kept, reduced;
  for (int i = 0; i < x.shape.rank(); ++i)
    if (x.shape.sizes()[i] != 1)
      ((reduced_axes >> i & 1) != 0 ? reduced : kept)
          .push_back({x.shape.sizes()[i], x.stride[static_cast<std::size_t>(i)]});
  Reduction plan;
  plan.x = x.data;
  plan.outputs = count(kept);
  plan.count = count(reduced);
  if (plan.outputs >= index_limit || plan.count >= index_limit || span(kept) + span(reduced) >= index_limit)
    throw UnimplementedError("A reduction over more than 2^31 elements is not implemented on GPU");
  const auto farther = [](const Axis& a, const Axis& b) { return std::abs(a.stride) > std::abs(b.stride); };
  std::stable_sort(reduced.begin(), reduced.end(), farther);
  join(kept);
  join(reduced);
  plan.kept = layout_of(kept);
  plan.reduced = layout_of(reduced);
  plan.along = goes_along(kept, reduced);
  if (plan.along) {
    plan.lanes = power_of_two_below(plan.count / 4);
  } else {
    const int neighbours = power_of_two_below(std::min(plan.outputs, row));
    plan.lanes = std::min(block_threads / neighbours, power_of_two_below(plan.count / 4));
  }
  const std::int64_t group = block_threads / plan.lanes, tiles = (plan.outputs + group - 1) / group;
  const std::int64_t useful = plan.count / (plan.lanes * thread_elements);
  plan.splits = std::clamp<std::int64_t>(std::min(useful, grid_limit / 2 / tiles), 1, grid_limit / 2);
  return plan;
}

}  // namespace tapestry::gpu
