#include "backend/cuda/reductions.hpp"

#include <algorithm>
#include <cstdlib>

#include "backend/cuda/loop.hpp"

namespace tapestry::gpu {
namespace {

/// The neighbouring results that neighbouring threads should read together: a cache line of floats.
constexpr std::int64_t row = 32;
/// The least elements that each thread reduces before several blocks share a result: more of them would wait for memory
/// one after another.
constexpr std::int64_t thread_elements = 8;

/// A loop over some axes of x.
using AxisLoop = StridedLoop<1>;

Layout layout_of(AxisLoop& loop) {
  Layout layout;
  loop.join_axes();
  write_layout(loop, layout, [](int) { return true; });
  return layout;
}

/// Whether neighbouring threads read elements of one result rather than of neighbouring results, whichever are closer
/// in memory.
bool are_reduced_closer(const AxisLoop& kept, const AxisLoop& reduced) {
  const auto distance = [](const AxisLoop& loop) {
    return loop.axes == 0 || loop.last().stride[0] == 0 ? index_limit : std::abs(loop.last().stride[0]);
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
  AxisLoop all(x.shape), kept, reduced;
  all.add(x.shape, x.stride);
  kept.operands = reduced.operands = 1;
  for (int i = 0; i < all.axes; ++i) {
    AxisLoop& loop = (reduced_axes >> i & 1) != 0 ? reduced : kept;
    loop.axis[loop.axes++] = all.axis[i];
  }
  Reduction plan;
  plan.x = x.data;
  plan.outputs = kept.elements();
  plan.count = reduced.elements();
  if (plan.outputs >= index_limit || plan.count >= index_limit || all.span(0) >= index_limit)
    throw UnimplementedError("A reduction over more than 2^31 elements is not implemented on GPU");
  reduced.sort_axes([](const AxisLoop::Axis& axis) { return std::abs(axis.stride[0]); });
  plan.kept = layout_of(kept);
  plan.reduced = layout_of(reduced);
  plan.along = are_reduced_closer(kept, reduced);
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
