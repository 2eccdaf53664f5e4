// The loops that kernels plan over operands with strides.

#include <doctest/doctest.h>

#include "backend/strided_loop.hpp"
#include "kernels_support.hpp"

namespace kernels_loops_test {

using namespace tapestry;
using namespace tapestry::testing;

namespace {

using Loop = StridedLoop<3>;
/// Where an element of each operand lies.
using Offsets = std::vector<std::int64_t>;

/// What a loop visits, in its order.
std::vector<Offsets> visited(const Loop& loop) {
  std::vector<Offsets> result;
  for (std::int64_t i = 0; i < loop.elements(); ++i) {
    Offsets offsets(static_cast<std::size_t>(loop.operands), 0);
    std::int64_t rest = i;
    for (int a = loop.axes - 1; a >= 0; rest /= loop.axis[a--].size)
      for (int k = 0; k < loop.operands; ++k) offsets[k] += rest % loop.axis[a].size * loop.axis[a].stride[k];
    result.push_back(offsets);
  }
  return result;
}

/// The same by the rules of broadcasting: an operand's own index is that of the shape, or 0 where it has one element.
std::vector<Offsets> by_index(const Shape& shape, const std::vector<Tensor>& operands) {
  std::vector<Offsets> result;
  for_each_index(shape, {}, [&](const std::vector<std::int64_t>& index, std::int64_t) {
    Offsets offsets;
    for (const Tensor& x : operands) {
      std::int64_t offset = 0;
      for (int i = 0; i < x.rank(); ++i)
        if (x.shape().sizes()[i] != 1) offset += index[shape.rank() - x.rank() + i] * x.strides()[i];
      offsets.push_back(offset);
    }
    result.push_back(offsets);
  });
  return result;
}

Loop loop_over(const Shape& shape, const std::vector<Tensor>& operands) {
  Loop loop(shape);
  for (const Tensor& x : operands) loop.add(x);
  return loop;
}

/// Whether no axis could be spared.
bool is_short(const Loop& loop) {
  for (int i = 0; i < loop.axes; ++i) {
    if (loop.axis[i].size == 1) return false;
    bool goes_on = i > 0;
    for (int k = 0; goes_on && k < loop.operands; ++k)
      goes_on = loop.axis[i - 1].stride[k] == loop.axis[i].stride[k] * loop.axis[i].size;
    if (goes_on) return false;
  }
  return true;
}

/// A shape, and up to three operands that are broadcast to it.
struct Case {
  Shape shape;
  std::vector<Tensor> operands;
};
Case draw(std::mt19937& generator) {
  const auto below = [&](unsigned n) { return static_cast<int>(generator() % n); };
  Case drawn;
  constexpr int sizes[] = {1, 1, 2, 2, 3, 4};
  for (int i = below(Shape::max_rank + 1); i > 0; --i) drawn.shape.push_back(sizes[below(6)]);
  for (int k = 1 + below(3); k > 0; --k) {
    Shape own = drawn.shape;
    while (own.rank() > 0 && below(6) == 0) own.erase(0);
    for (int i = 0; i < own.rank(); ++i)
      if (below(6) == 0) own.set(i, 1);
    drawn.operands.push_back(below(2) == 0 ? empty(uint8, own) : in_any_layout(uint8, own, generator));
  }
  return drawn;
}

}  // namespace

TEST_CASE("a planned loop visits the elements of broadcast operands in their order, with as few axes as possible") {
  std::mt19937 generator(1);
  int axes_before = 0, axes_after = 0;
  for (int round = 0; round < 500; ++round) {
    const Case drawn = draw(generator);
    const Shape& shape = drawn.shape;
    INFO("round ", round, ", shape ", to_string(shape));
    const std::vector<Offsets> expected = by_index(shape, drawn.operands);
    Loop loop = loop_over(shape, drawn.operands);
    CHECK(loop.elements() == shape.size());
    CHECK(visited(loop) == expected);
    axes_before += loop.axes;
    loop.join_axes();
    CHECK(visited(loop) == expected);
    CHECK(is_short(loop));
    axes_after += loop.axes;
    loop.pad_axes(2);
    CHECK(loop.axes >= 2);
    CHECK(visited(loop) == expected);
  }
  CHECK(axes_before - axes_after > 500);  // of 500 cases
}

TEST_CASE("a planned loop in the order of an operand's memory visits the same elements") {
  std::mt19937 generator(2);
  int moved = 0;
  for (int round = 0; round < 500; ++round) {
    const Case drawn = draw(generator);
    const Shape& shape = drawn.shape;
    INFO("round ", round, ", shape ", to_string(shape));
    std::vector<Offsets> expected = by_index(shape, drawn.operands);
    const auto distance = [](const Loop::Axis& axis) { return std::abs(axis.stride[0]); };
    Loop loop = loop_over(shape, drawn.operands);
    loop.sort_axes(distance);
    for (int i = 1; i < loop.axes; ++i) CHECK(distance(loop.axis[i - 1]) >= distance(loop.axis[i]));
    loop.join_axes();
    CHECK(is_short(loop));
    std::vector<Offsets> actual = visited(loop);
    moved += actual == expected ? 0 : 1;
    std::sort(actual.begin(), actual.end());
    std::sort(expected.begin(), expected.end());
    CHECK(actual == expected);
  }
  CHECK(moved > 100);
}

TEST_CASE("axes at one distance stay in their order, and a span reaches the farthest element") {
  Loop loop(Shape{2, 3, 4});
  loop.add({2, 3, 4}, {5, -5, 7});
  CHECK(loop.span(0) == 5 + 10 + 21);
  loop.sort_axes([](const Loop::Axis& axis) { return std::abs(axis.stride[0]); });
  CHECK(loop.axis[0].size == 4);
  CHECK(loop.axis[1].size == 2);
  CHECK(loop.axis[2].size == 3);
}

TEST_CASE("a loop over no axes has one element, and one over an empty axis none") {
  Loop scalar{Shape{}};
  scalar.add({}, {});
  scalar.join_axes();
  CHECK(scalar.axes == 0);
  CHECK(scalar.elements() == 1);
  CHECK(scalar.span(0) == 0);
  Loop nothing(Shape{2, 0, 3});
  nothing.add(empty(float32, {2, 0, 3}));
  nothing.join_axes();
  CHECK(nothing.elements() == 0);
}

}  // namespace kernels_loops_test
