#include "io/tensorflow/foreign_windows.hpp"

#include <algorithm>

namespace tapestry::io {

Tensor Track::places() const {
  std::vector<std::int64_t> list;
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t k = 0; k < window; ++k) list.push_back(i * stride + k * rate);
  return vector_of(list, int32);
}

Track track(const ForeignNode& n, std::int64_t size, std::int64_t window, std::int64_t stride, std::int64_t rate) {
  const auto& padding = n.node.attr<std::string>("padding");
  if (padding != "SAME" && padding != "VALID") n.node.refuse("its padding is " + padding);
  if (std::min({window, stride, rate}) < 1 || std::max({window, stride, rate}) > most_blocks)
    n.node.refuse(detail::join("it has a window of ", window, ", the stride ", stride, " and the rate ", rate));
  const std::int64_t reach = (window - 1) * rate + 1;
  Track made{0, 0, 0, window, stride, rate};
  made.count = padding == "SAME" ? (size + stride - 1) / stride : (size - reach) / stride + 1;
  if ((padding == "VALID" && size < reach) || product(std::max<std::int64_t>(made.count, 1), window) > most_places)
    n.node.refuse(detail::join("its window of ", reach, " does not fit the size ", size));
  const std::int64_t missing = std::max<std::int64_t>((made.count - 1) * stride + reach - size, 0);
  if (padding == "SAME") {
    made.before = missing / 2;
    made.after = missing - missing / 2;
  }
  return made;
}

std::vector<std::int64_t> for_axes(const ForeignNode& n, std::string_view name, std::size_t rank) {
  const std::vector<std::int64_t> none(rank, 1);
  auto list = n.node.attr_or<ListDef>(name, {.ints = none}).ints;
  if (list.size() != rank || list.front() != 1 || list.back() != 1)
    n.node.refuse(detail::join("its '", name, "' are not for ", rank, " axes"));
  return list;
}

Tensor windows(const Tensor& x, const Track& rows, const Track& columns, double border) {
  const std::int64_t channels = x.shape().sizes()[3];
  const std::vector<Padding> widths{{}, {rows.before, rows.after}, {columns.before, columns.after}, {}};
  const Tensor bordered = pad(x, widths, {.value = border});
  const Tensor picked = gather(gather(bordered, rows.places(), 1), columns.places(), 2);
  const Tensor parts = reshape(picked, {-1, rows.count, rows.window, columns.count, columns.window, channels});
  return reshape(transpose(parts, {0, 1, 3, 2, 4, 5}),
                 {-1, rows.count, columns.count, product(rows.window, columns.window), channels});
}

}  // namespace tapestry::io
