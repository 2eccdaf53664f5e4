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

Tensor windows(const Tensor& x, const std::vector<Track>& tracks, double border) {
  const std::int64_t channels = x.shape().sizes()[static_cast<int>(tracks.size()) + 1];
  std::vector<Padding> widths(tracks.size() + 2);
  // Places and elements of the window in turns, which become places first.
  std::vector<std::int64_t> parts{-1}, result{-1};
  std::vector<int> places{0}, elements;
  std::int64_t window = 1;
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    const Track& each = tracks[i];
    widths[i + 1] = {each.before, each.after};
    places.push_back(static_cast<int>(parts.size()));
    elements.push_back(static_cast<int>(parts.size()) + 1);
    parts.insert(parts.end(), {each.count, each.window});
    result.push_back(each.count);
    window = product(window, each.window);
  }
  Tensor picked = pad(x, widths, {.value = border});
  for (std::size_t i = 0; i < tracks.size(); ++i) picked = gather(picked, tracks[i].places(), static_cast<int>(i) + 1);
  places.insert(places.end(), elements.begin(), elements.end());
  places.push_back(static_cast<int>(parts.size()));
  parts.push_back(channels);
  result.insert(result.end(), {window, channels});
  return reshape(transpose(reshape(picked, parts), places), result);
}

}  // namespace tapestry::io
