// What is selected of many: different elements, and the best boxes.

#include "io/onnx/onnx_ops.hpp"
#include "tapestry/control_flow.hpp"

namespace tapestry::io {
namespace {

// ---- Different elements ----------------------------------------------------------------------------------------------

/// The order of rows [n, columns] by their first elements, those with equal ones by their second elements, and so on;
/// equal rows keep their order. The columns are sorted one after the other, the last one first.
Tensor order_of_rows(const Tensor& rows) {
  const Tensor columns = transpose(rows, {1, 0});
  const Tensor first = cumsum(ones_like(columns).cast(int64), 1, {.exclusive = true});
  const Tensor start = argsort(reduce_sum(first, 0)).cast(int64);
  const auto [order, nothing] = scan(
      [](const Tensor& before, const Tensor& column) {
        const Tensor next = gather(before, argsort(gather(column, before)).cast(int64));
        return std::pair{next, reduce_sum(next)};
      },
      start, columns, {.reverse = true});
  return order;
}

/// Rows [n, columns], each once: their numbers, in the order of their values or of their first occurrences, the number
/// among these of each row, and how often each occurs.
struct DifferentRows {
  Tensor first, inverse, counts;
};
DifferentRows different_rows(const Tensor& rows, bool is_vector, bool sorted_by_value) {
  const Tensor order = is_vector ? argsort(squeeze(rows, 1)).cast(int64) : order_of_rows(rows),
               sorted = gather(rows, order);
  const Tensor number = cumsum(ones_like(order), 0, {.exclusive = true});
  const Tensor is_new = logical_or(equal(number, 0), reduce_any(not_equal(sorted, roll(sorted, 1, 0)), 1));
  const Tensor starts = squeeze(nonzero(is_new), 1), places = argsort(order).cast(int64);
  DifferentRows found;
  found.first = gather(order, starts);
  found.inverse = gather(cumsum(is_new.cast(int64)) - 1, places);
  found.counts = scatter_add(zeros_like(starts), found.inverse, ones_like(found.inverse));
  if (sorted_by_value) return found;
  const Tensor by_first = argsort(found.first).cast(int64);
  return {gather(found.first, by_first), gather(argsort(by_first).cast(int64), found.inverse),
          gather(found.counts, by_first)};
}

/// The different elements, or the different parts along an axis.
Tensors read_unique(const OnnxCall& c) {
  const bool whole = !c.has_attr("axis");
  const Tensor x = whole ? reshape(c[0], {-1}) : c[0];
  const int axis = whole ? 0 : c.axis("axis", 0);
  Tensor rows = whole ? expand_dims(x, 1) : c[0];
  if (!whole) {
    std::int64_t width = 1;
    for (int i = 0; i < c.rank(); ++i)
      if (i != axis) width = product(width, c.size(i));
    rows = reshape(transpose(x, onnx_moved(c.rank(), axis, 0)), {c.size(axis), width});
  }
  const DifferentRows found = different_rows(rows, whole || c.rank() == 1, c.flag("sorted", true));
  return {gather(x, found.first, axis), found.first, found.inverse, found.counts};
}
std::vector<DType> types_of_unique(const OnnxCall& c) { return {c.dtype(), int64, int64, int64}; }
int rank_of_unique(const OnnxCall& c) { return c.has_attr("axis") ? c.rank() : 1; }
bool unique_lacks(const OnnxCall& c) { return c.has_attr("axis") && onnx_lacks_sizes(c); }

// ---- Boxes -----------------------------------------------------------------------------------------------------------

/// The edges of boxes [batch, 1, count] along two axes.
struct BoxEdges {
  Tensor low[2], high[2];
};

/// Boxes are told by two opposite corners, or by their centers and sizes.
BoxEdges edges_of(const OnnxCall& c, const Tensor& boxes) {
  const std::int64_t form = c.whole("center_point_box", 0);
  if (form != 0 && form != 1) c.refuse(detail::join("its center_point_box is ", form));
  const auto column = [&](int i) { return expand_dims(squeeze(onnx_cut(boxes, {{2, i, i + 1}}), 2), 1); };
  BoxEdges edges;
  for (int i = 0; i < 2; ++i) {
    const Tensor a = column(i), b = column(i + 2);
    edges.low[i] = form == 1 ? a - b / 2 : minimum(a, b);
    edges.high[i] = form == 1 ? a + b / 2 : maximum(a, b);
  }
  return edges;
}

/// Of each class the box of the best score is selected, and those that overlap it are left out, again and again.
/// Returns for each score [batch, classes, count] when it was selected, or -1.
Tensor turns_of_boxes(const BoxEdges& boxes, const Tensor& scores, const Tensor& candidates, const Tensor& limit,
                      const Tensor& most_overlap) {
  const Tensor area = (boxes.high[0] - boxes.low[0]) * (boxes.high[1] - boxes.low[1]);
  const Tensor lowest = zeros_like(scores) - std::numeric_limits<float>::infinity();
  const Tensor places = cumsum(ones_like(scores).cast(int64), 2, {.exclusive = true});
  const auto step = [&](const std::vector<Tensor>& now) {
    const Tensor &open = now[0], &turns = now[1], &turn = now[2];
    const Tensor best = expand_dims(argmax(where(open, scores, lowest), 2), 2);
    const Tensor is_best = logical_and(equal(places, best), reduce_any(open, 2, {.keep_dims = true}));
    const auto of_best = [&](const Tensor& each) {
      return reduce_sum(where(is_best, each, zeros_like(scores)), 2, {.keep_dims = true});
    };
    Tensor common;
    for (int i = 0; i < 2; ++i) {
      const Tensor length =
          maximum(minimum(boxes.high[i], of_best(boxes.high[i])) - maximum(boxes.low[i], of_best(boxes.low[i])), 0);
      common = bool(common) ? common * length : length;
    }
    const Tensor own = of_best(area), are_boxes = logical_and(greater(area, 0), greater(own, 0));
    const Tensor joined = where(are_boxes, area + own - common, 1);
    const Tensor overlaps = logical_and(are_boxes, greater(common / joined, most_overlap));
    const Tensor left = logical_and(open, logical_not(logical_or(is_best, overlaps)));
    return std::vector<Tensor>{left, where(is_best, turn, turns), turn + 1};
  };
  const auto goes_on = [&](const std::vector<Tensor>& now) {
    return logical_and(less(now[2], limit), reduce_any(now[0]));
  };
  const std::vector<Tensor> first{candidates, zeros_like(places) - 1, reduce_sum(zeros_like(limit))};
  return while_loop(goes_on, step, first)[1];
}

/// The batch, the class and the number of each selected box, ordered by these and by the scores.
Tensors read_suppression(const OnnxCall& c) {
  if (c.rank() != 3 || c.rank(1) != 3 || (c.size(2) >= 0 && c.size(2) != 4))
    c.refuse(detail::join("its boxes have the shape ", c.shape(), ", the scores ", c.shape(1)));
  const auto number = [&](std::size_t place, DType dtype) {
    return c.has(place) ? reshape(c[place], {}).cast(dtype) : detail::make_scalar(0, dtype);
  };
  // One box more, which is never selected: there may be none, of which no best one exists.
  const Tensor boxes = pad(c[0], {{}, {0, 1}, {}}), scores = pad(c[1], {{}, {}, {0, 1}});
  const Tensor good = c.has(4) ? greater(c[1], number(4, scores.dtype())) : equal(zeros_like(c[1]), 0);
  const Tensor candidates = greater(pad(good.cast(int32), {{}, {}, {0, 1}}), 0);
  const Tensor turns =
      turns_of_boxes(edges_of(c, boxes), scores, candidates, number(2, int64), number(3, scores.dtype()));
  const Tensor is_selected = greater_equal(turns, 0);
  const Tensor last = where(is_selected, turns, std::numeric_limits<std::int64_t>::max());
  const Tensor order = argsort(last, 2).cast(int64);
  const Tensor found = nonzero(take_along_axis(is_selected, order, 2));
  return {concat({onnx_cut(found, {{1, 0, 2}}), expand_dims(gather_nd(order, found), 1)}, 1)};
}
int rank_of_suppression(const OnnxCall&) { return 2; }

}  // namespace

OnnxOps onnx_selection() {
  return {
      {"NonMaxSuppression", 2, 5, read_suppression, {}, onnx_lacks_ranks, onnx_type_int64, rank_of_suppression},
      {"Unique", 1, 1, read_unique, {}, unique_lacks, types_of_unique, rank_of_unique},
  };
}

}  // namespace tapestry::io
