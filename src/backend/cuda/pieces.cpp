#include "backend/cuda/pieces.hpp"

#include <algorithm>
#include <cstdlib>

namespace tapestry::gpu {
namespace {

constexpr std::int64_t index_limit = std::int64_t{1} << 31;
constexpr std::int64_t vector_bytes = 16;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// The operands of an elementwise function, and the axes that they share: as few as possible, y's nearest neighbours
/// last. Operand 0 is y.
struct Loop {
  struct Axis {
    std::int64_t size = 1;
    std::array<std::int64_t, max_operands> stride{};  ///< 0 where an operand is broadcast
  };
  std::array<Axis, Shape::max_rank> axis;
  int axes = 0, operands = 0;
  std::array<std::byte*, max_operands> data{};
  std::array<std::int64_t, max_operands> bytes{};

  std::int64_t count() const {
    std::int64_t n = 1;
    for (int i = 0; i < axes; ++i) n *= axis[at(i)].size;
    return n;
  }
  /// How far the elements of an operand are apart.
  std::int64_t span(int operand) const {
    std::int64_t sum = 0;
    for (int i = 0; i < axes; ++i) sum += (axis[at(i)].size - 1) * std::abs(axis[at(i)].stride[at(operand)]);
    return sum;
  }
  bool is_indexable() const {
    bool near = count() < index_limit;
    for (int k = 0; k < operands; ++k) near = near && span(k) < index_limit;
    return near;
  }
};

Loop::Axis common_axis(const View& y, std::span<const View> inputs, int i) {
  Loop::Axis axis{.size = y.shape[i]};
  axis.stride[0] = y.stride[at(i)];
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const int j = i - y.shape.rank() + inputs[k].shape.rank();
    if (j >= 0 && inputs[k].shape[j] != 1) axis.stride[k + 1] = inputs[k].stride[at(j)];
  }
  return axis;
}

Loop make_loop(const View& y, std::span<const View> inputs) {
  Loop loop;
  loop.operands = static_cast<int>(inputs.size()) + 1;
  for (int k = 0; k < loop.operands; ++k) {
    const View& view = k == 0 ? y : inputs[at(k - 1)];
    loop.data[at(k)] = static_cast<std::byte*>(view.data);
    loop.bytes[at(k)] = view.element_bytes;
  }
  for (int i = 0; i < y.shape.rank(); ++i)
    if (y.shape[i] != 1) loop.axis[at(loop.axes++)] = common_axis(y, inputs, i);
  const auto farther = [](const Loop::Axis& a, const Loop::Axis& b) {
    return std::abs(a.stride[0]) > std::abs(b.stride[0]);
  };
  std::stable_sort(loop.axis.begin(), loop.axis.begin() + loop.axes, farther);
  int kept = 0;
  for (int i = 0; i < loop.axes; ++i) {
    const Loop::Axis inner = loop.axis[at(i)];
    const auto joins = [&](const Loop::Axis& outer) {
      for (int k = 0; k < loop.operands; ++k)
        if (outer.stride[at(k)] != inner.stride[at(k)] * inner.size) return false;
      return true;
    };
    if (kept > 0 && joins(loop.axis[at(kept - 1)])) {
      loop.axis[at(kept - 1)] = {loop.axis[at(kept - 1)].size * inner.size, inner.stride};
    } else {
      loop.axis[at(kept++)] = inner;
    }
  }
  loop.axes = kept;
  return loop;
}

/// Whether the elements are neighbours, or one that stands for all, and lie where vectors of them can be read.
bool is_flat(const Loop& loop) {
  if (loop.axes > 1) return false;
  const std::int64_t width = vector_bytes / *std::max_element(loop.bytes.begin(), loop.bytes.begin() + loop.operands);
  for (int k = 0; k < loop.operands; ++k) {
    const std::int64_t step = loop.axes == 0 ? (k == 0 ? 1 : 0) : loop.axis[0].stride[at(k)];
    const auto address = reinterpret_cast<std::uintptr_t>(loop.data[at(k)]);
    if (step == 0 && k > 0) continue;
    if (step != 1 || address % static_cast<std::uintptr_t>(width * loop.bytes[at(k)]) != 0) return false;
  }
  return true;
}

Elements elements_of(const Loop& loop, bool flat) {
  Elements elements;
  elements.n = loop.count();
  elements.flat = flat;
  elements.y = loop.data[0];
  for (int k = 1; k < loop.operands; ++k) {
    elements.x[k - 1] = loop.data[at(k)];
    elements.step[k - 1] = loop.axes > 0 && loop.axis[0].stride[at(k)] != 0 ? 1 : 0;
  }
  if (flat) return elements;
  elements.layout.axes = loop.axes;
  for (int i = 0; i < loop.axes; ++i) {
    elements.layout.size[i] = Divider(static_cast<std::uint32_t>(loop.axis[at(i)].size));
    for (int k = 0; k < loop.operands; ++k)
      elements.layout.stride[i][k] = static_cast<std::int32_t>(loop.axis[at(i)].stride[at(k)]);
  }
  return elements;
}

/// What 32-bit indices do not reach is halved along the axis that spreads its elements most.
void visit(const Loop& loop, const std::function<void(const Elements&)>& body) {
  const bool flat = is_flat(loop);
  if (flat || loop.is_indexable()) return body(elements_of(loop, flat));
  const auto spread = [&](const Loop::Axis& axis) {
    std::int64_t most = 1;
    for (int k = 0; k < loop.operands; ++k) most = std::max(most, std::abs(axis.stride[at(k)]));
    return (axis.size - 1) * most;
  };
  const auto less = [&](const Loop::Axis& a, const Loop::Axis& b) { return spread(a) < spread(b); };
  const auto widest = std::max_element(loop.axis.begin(), loop.axis.begin() + loop.axes, less) - loop.axis.begin();
  const Loop::Axis& whole = loop.axis[static_cast<std::size_t>(widest)];
  Loop first = loop, second = loop;
  first.axis[static_cast<std::size_t>(widest)].size = whole.size / 2;
  second.axis[static_cast<std::size_t>(widest)].size = whole.size - whole.size / 2;
  for (int k = 0; k < loop.operands; ++k)
    second.data[at(k)] += whole.size / 2 * whole.stride[at(k)] * loop.bytes[at(k)];
  visit(first, body);
  visit(second, body);
}

}  // namespace

View::View(const Tensor& tensor)
    : data(tensor.impl().data),
      element_bytes(static_cast<std::int64_t>(size_of(tensor.dtype()))),
      shape(tensor.shape()),
      stride(tensor.impl().strides) {}

void for_each_piece(const View& y, std::span<const View> inputs, const std::function<void(const Elements&)>& body) {
  if (y.shape.size() > 0) visit(make_loop(y, inputs), body);
}

std::optional<Turn> turn_of(const Elements& elements) {
  constexpr std::uint32_t smallest = 16;
  const Layout& all = elements.layout;
  const int columns = all.axes - 1;
  if (elements.flat || all.axes < 2 || all.stride[columns][0] != 1 || all.size[columns].divisor < smallest)
    return std::nullopt;
  int rows = 0;
  while (rows < columns && (all.stride[rows][1] != 1 || all.size[rows].divisor < smallest)) ++rows;
  if (rows == columns) return std::nullopt;
  Turn turn;
  turn.x = elements.x[0];
  turn.y = elements.y;
  turn.rows = all.size[rows].divisor;
  turn.columns = all.size[columns].divisor;
  turn.x_column = all.stride[columns][1];
  turn.y_row = all.stride[rows][0];
  for (int i = 0; i < columns; ++i) {
    if (i == rows) continue;
    turn.batch *= all.size[i].divisor;
    turn.layout.size[turn.layout.axes] = all.size[i];
    std::copy_n(all.stride[i], 2, turn.layout.stride[turn.layout.axes++]);
  }
  return turn;
}

}  // namespace tapestry::gpu
