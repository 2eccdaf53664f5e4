// Replaces nodes whose values follow from the graph by constants.

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>
#include <utility>

#include "core/lack_refusal.hpp"
#include "dispatch/recorder.hpp"
#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

Tensors read_fill(const ForeignNode& n) {
  const OpRule& rule = *rule_of("Fill");
  // A number that a call of the graph gives may be on a tape.
  if (!n.in(1) || (!n.in(1).is_symbolic() && open_sink()))
    return make_op(rule, n.node, {}, n.node.direct_attrs(rule), n.where);
  return {broadcast_to(n.in(1), n.shape(0), n.name())};
}

Tensors read_range(const ForeignNode& n) {
  double bounds[3];
  const DType dtype = n.node.constant(0).dtype();
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor value = n.node.constant(i);
    if (value.size() != 1 || value.dtype() != dtype || dtype == boolean) n.node.refuse("its bounds are no numbers");
    bounds[i] = value.item<double>();
  }
  if (!(std::abs(bounds[1] - bounds[0]) <= std::abs(bounds[2]) * most_numbers))
    n.node.refuse(detail::join("its bounds are ", bounds[0], " and ", bounds[1], ", its step is ", bounds[2]));
  return {arange(bounds[0], bounds[1], bounds[2], {.dtype = dtype}, n.name(), n.where)};
}

Tensors read_rank(const ForeignNode& n) {
  return {constant_node(detail::make_scalar(n.in(0).shape().rank(), int32), n.name(), n.where)};
}

Tensors read_shape_n(const ForeignNode& n) {
  const DType dtype = dtype_of(n.node.attr_or<TypeCode>("out_type", code_of(int32)));
  if (dtype != int32 && dtype != int64) n.node.refuse("its 'out_type' is neither int32 nor int64");
  Tensors shapes;
  {
    const NameScope inside(n.name() + "/_/", n.where);
    for (const Tensor& each : n.inputs) shapes.push_back(shape(each).cast(dtype));
  }
  shapes[0] = identity(shapes[0], n.name());
  return shapes;
}

Tensors read_broadcast_args(const ForeignNode& n) {
  const Shape both = broadcast_shapes(n.shape(0), n.shape(1));
  return {constant_node(vector_of(both.to_vector(), n.node.constant(0).dtype()), n.name(), n.where)};
}

/// The axes over which the gradients of broadcast operands are summed: those of size 1, too, unless the shapes are
/// alike.
Tensors read_broadcast_gradient_args(const ForeignNode& n) {
  const Shape shapes[] = {n.shape(0), n.shape(1)};
  const int rank = broadcast_shapes(shapes[0], shapes[1]).rank();
  std::vector<Tensor> axes;
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<std::int64_t> list;
    for (int axis = 0; axis < rank && shapes[0] != shapes[1]; ++axis) {
      const int own = axis - rank + shapes[i].rank();
      if (own < 0 || shapes[i].sizes()[own] == 1) list.push_back(axis);
    }
    axes.push_back(vector_of(list, n.node.constant(i).dtype()));
  }
  return constant_nodes(n, axes);
}

/// The offset of each tensor in the result of `concat`, from the tensors' shapes.
Tensors read_concat_offset(const ForeignNode& n) {
  if (n.inputs.size() < 2) n.node.refuse("it has no shapes");
  const std::size_t rank = n.numbers(1).size();
  const auto axis = static_cast<std::size_t>(
      normalize_axis(n.number(0), static_cast<int>(std::min<std::size_t>(rank, Shape::max_rank))));
  std::vector<std::int64_t> offset(rank);
  std::vector<Tensor> values;
  for (std::size_t i = 1; i < n.inputs.size(); ++i) {
    const std::vector<std::int64_t> sizes = n.numbers(i);
    if (sizes.size() != rank)
      n.node.refuse(detail::join("its input ", i, " has ", sizes.size(), " elements, not ", rank));
    values.push_back(vector_of(offset, n.node.constant(i).dtype()));
    if (__builtin_add_overflow(offset[axis], sizes[axis], &offset[axis])) n.node.refuse("its sizes are too large");
  }
  return constant_nodes(n, values);
}

Tensors read_lin_space(const ForeignNode& n) {
  const Tensor start = n.node.constant(0), stop = n.node.constant(1);
  const std::int64_t count = n.number(2);
  if (start.size() != 1 || stop.size() != 1 || start.dtype() != stop.dtype() || !is_floating(start.dtype()))
    n.node.refuse("its bounds are no numbers");
  if (count < 1 || count > most_numbers) n.node.refuse(detail::join("it has ", count, " numbers"));
  return {linspace(start.item<double>(), stop.item<double>(), count, {.dtype = start.dtype()}, n.name(), n.where)};
}

Tensors read_empty(const ForeignNode& n) {
  return n.composed([&] { return zeros(n.shape(0), {.dtype = n.node.type("dtype")}); });
}

Tensors read_invert_permutation(const ForeignNode& n) {
  const std::vector<std::int64_t> perm = n.numbers(0);
  std::vector<std::int64_t> inverse(perm.size(), -1);
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] < 0 || std::cmp_greater_equal(perm[i], perm.size()) || inverse[perm[i]] >= 0)
      n.node.refuse("its input is no permutation");
    inverse[perm[i]] = static_cast<std::int64_t>(i);
  }
  return constant_nodes(n, {vector_of(inverse, n.node.constant(0).dtype())});
}

/// The position of each letter of one data format in another, and lists of sizes in this order.
std::vector<std::int64_t> format_permutation(const ForeignNode& n) {
  const auto from = n.node.attr_or<std::string>("src_format", "NHWC");
  const auto to = n.node.attr_or<std::string>("dst_format", "NCHW");
  std::vector<std::int64_t> places;
  for (const char letter : to) places.push_back(static_cast<std::int64_t>(from.find(letter)));
  if (from.size() != to.size() || std::find(places.begin(), places.end(), -1) != places.end())
    n.node.refuse(detail::join("it goes from ", from, " to ", to));
  return places;
}

Tensors read_format_sizes(const ForeignNode& n) {
  std::vector<std::int64_t> places = format_permutation(n);
  const Tensor& x = n.in(0);
  const std::int64_t count = x.shape().rank() < 1 ? 0 : x.shape().sizes()[0];
  // Lists may hold the two sizes of the image only.
  if (count == 2 && places.size() == 4) {
    const std::string from = n.node.attr_or<std::string>("src_format", "NHWC");
    const bool rows_first = from.find('H') < from.find('W');
    std::erase_if(places, [&](std::int64_t at) { return from[at] != 'H' && from[at] != 'W'; });
    for (std::int64_t& at : places) at = (from[at] == 'H') == rows_first ? 0 : 1;
  }
  if (std::cmp_not_equal(places.size(), count)) n.node.refuse(detail::join("its input has the shape ", x.shape()));
  return {gather(x, vector_of(places, int32), 0, n.name())};
}

Tensors read_format_axes(const ForeignNode& n) {
  const std::vector<std::int64_t> places = format_permutation(n);
  std::vector<std::int64_t> moved(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) moved[places[i]] = static_cast<std::int64_t>(i);
  return n.composed([&] {
    const auto rank = static_cast<std::int64_t>(places.size());
    return gather(vector_of(moved, n.in(0).dtype()), where(n.in(0) < 0, n.in(0) + rank, n.in(0)));
  });
}

// ---- The elements of lists ------------------------------------------------------------------------------------

DType index_type(const ForeignNode& n) {
  const DType dtype = dtype_of(n.node.attr_or<TypeCode>("out_idx", code_of(int32)));
  if (dtype != int32 && dtype != int64) n.node.refuse("its 'out_idx' is neither int32 nor int64");
  return dtype;
}

/// For a vector its size does not matter.
bool lacks_unique_sizes(const NodeReader& reader, const Tensors& inputs) {
  return inputs[0].shape().has_rank() ? inputs[0].shape().rank() != 1 && lacks_any_size(reader, inputs) : true;
}

/// Of each part of x at an index of the axis, the index of the first one that is equal.
Tensor first_equal_rows(const Tensor& x, int axis) {
  std::vector<std::int64_t> order{axis};
  for (int i = 0; i < x.shape().rank(); ++i)
    if (i != axis) order.push_back(i);
  const Tensor rows = reshape(transpose(x, Ints(order)), {x.shape().sizes()[axis], -1});
  return argmax(reduce_all(equal(expand_dims(rows, 1), expand_dims(rows, 0)), 2).cast(int32), 1);
}

Tensors read_unique(const ForeignNode& n) {
  const std::vector<std::int64_t> axes = n.inputs.size() > 1 ? n.numbers(1) : std::vector<std::int64_t>();
  if (axes.size() > 1) n.node.refuse("it has several axes");
  return n.composed([&]() -> Tensors {
    const bool has_rows = !axes.empty() && n.in(0).shape().rank() != 1;
    const int axis = axes.empty() ? 0 : normalize_axis(axes[0], n.in(0).shape().rank());
    const Unique found = unique(has_rows ? first_equal_rows(n.in(0), axis) : n.in(0));
    Tensors results{has_rows ? gather(n.in(0), found.values, axis) : found.values, found.inverse.cast(index_type(n))};
    if (n.node.def().op.starts_with("UniqueWithCounts")) results.push_back(found.counts.cast(index_type(n)));
    return results;
  });
}

/// The places of the elements of one list that another lacks.
template <class T>
std::vector<std::int64_t> places_without(const Tensor& list, const Tensor& others) {
  const std::vector<T> elements = list.to_vector<T>(), left_out = others.to_vector<T>();
  const std::unordered_set<T> without(left_out.begin(), left_out.end());
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < elements.size(); ++i)
    if (!without.contains(elements[i])) places.push_back(static_cast<std::int64_t>(i));
  return places;
}

/// The elements of one list that another lacks, and their places.
Tensors read_list_difference(const ForeignNode& n) {
  const Tensor list = n.node.constant(0), others = n.node.constant(1);
  if (list.rank() != 1 || others.rank() != 1 || list.dtype() != others.dtype())
    throw LackRefusal(detail::join("its lists are ", to_string(list.dtype()), list.shape(), " and ",
                                   to_string(others.dtype()), others.shape()));
  const Tensor places = vector_of(
      is_floating(list.dtype()) ? places_without<double>(list, others) : places_without<std::int64_t>(list, others),
      index_type(n));
  const Tensor rest = [&] {
    const ExecuteNow now;
    return gather(list, places);
  }();
  return constant_nodes(n, {rest, places});
}

}  // namespace

ForeignOps foreign_values() {
  return {
      {.name = "BroadcastArgs", .inputs = 2, .values = {0, 1}, .read = read_broadcast_args},
      {.name = "BroadcastGradientArgs", .inputs = 2, .values = {0, 1}, .read = read_broadcast_gradient_args},
      {.name = "ConcatOffset", .inputs = -1, .all_values = true, .read = read_concat_offset},
      {.name = "DataFormatDimMap",
       .inputs = 1,
       .lacks_sizes = lacks_rank,
       .outputs = {like(0)},
       .read = read_format_axes},
      {.name = "DataFormatVecPermute",
       .inputs = 1,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_format_sizes},
      {.name = "Empty", .inputs = 1, .values = {0}, .outputs = {told_by("dtype", float32)}, .read = read_empty},
      {.name = "Fill", .inputs = 2, .values = {0}, .values_if_constant = {1}, .read = read_fill},
      {.name = "InvertPermutation", .inputs = 1, .values = {0}, .outputs = {like(0)}, .read = read_invert_permutation},
      {.name = "LinSpace", .inputs = 3, .values = {0, 1, 2}, .outputs = {like(0)}, .read = read_lin_space},
      {.name = "ListDiff",
       .inputs = 2,
       .values = {0, 1},
       .outputs = {like(0), told_by("out_idx", int32)},
       .read = read_list_difference},
      {.name = "Range", .inputs = 3, .values = {0, 1, 2}, .read = read_range},
      {.name = "Rank", .inputs = 1, .lacks_sizes = lacks_rank, .read = read_rank},
      {.name = "ShapeN", .inputs = -1, .read = read_shape_n},
      {.name = "Unique", .inputs = 1, .outputs = {like(0), told_by("out_idx", int32)}, .read = read_unique},
      {.name = "UniqueV2",
       .inputs = 2,
       .values = {1},
       .lacks_sizes = lacks_unique_sizes,
       .outputs = {like(0), told_by("out_idx", int32)},
       .read = read_unique},
      {.name = "UniqueWithCountsV2",
       .inputs = 2,
       .values = {1},
       .lacks_sizes = lacks_unique_sizes,
       .outputs = {like(0), told_by("out_idx", int32), told_by("out_idx", int32)},
       .read = read_unique},
  };
}

}  // namespace tapestry::io
