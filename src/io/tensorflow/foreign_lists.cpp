// Lists of tensors. A list whose elements are alike is the tensor in which they are stacked along axis 0.

#include <algorithm>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

void require_list(const ForeignNode& n) {
  if (n.in(0).shape().rank() == 0) n.node.refuse("its list is a scalar");
}

/// The whole number that is an input.
Tensor index_of(const ForeignNode& n) {
  const Tensor& index = n.in(1);
  if (index.shape().rank() > 0 || (index.dtype() != int32 && index.dtype() != int64))
    n.node.refuse(detail::join("its index is ", to_string(index.dtype()), index.shape()));
  return index;
}

Tensors read_list(const ForeignNode& n) {
  require_list(n);
  return {identity(n.in(0), n.name())};
}

Tensors read_list_item(const ForeignNode& n) {
  require_list(n);
  return {gather(n.in(0), index_of(n), 0, n.name())};
}

Tensors read_element_shape(const ForeignNode& n) {
  require_list(n);
  return n.composed([&] { return slice(shape(n.in(0)), {1}, {-1}).cast(n.node.type("shape_type")); });
}

Tensors read_list_length(const ForeignNode& n) {
  require_list(n);
  return n.composed([&] { return gather(shape(n.in(0)), 0, 0).cast(int32); });
}

/// The shape of a list of `count` elements, none of which is set. Unknown sizes of the elements become 0.
Shape shape_of_unset(const ForeignNode& n, std::int64_t count) {
  const std::vector<std::int64_t> element =
      n.node.constant(0).rank() == 1 ? n.numbers(0) : std::vector<std::int64_t>{-1};
  if (count < 0 || element.size() >= Shape::max_rank) n.node.refuse(detail::join("it reserves ", count, " elements"));
  Shape shape{count};
  for (const std::int64_t size : element) shape.push_back(std::max<std::int64_t>(size, 0));
  return shape;
}

Tensors read_list_reserve(const ForeignNode& n) {
  return {zeros(shape_of_unset(n, n.number(1)), {.dtype = n.node.type("element_dtype")}, n.name(), n.where)};
}
Tensors read_list_empty(const ForeignNode& n) {
  return {zeros(shape_of_unset(n, 0), {.dtype = n.node.type("element_dtype")}, n.name(), n.where)};
}

/// The list with as many elements, of which those are zeros that it lacks.
Tensors read_list_resize(const ForeignNode& n) {
  require_list(n);
  const std::int64_t count = n.number(1);
  if (count < 0 || count > most_places) n.node.refuse(detail::join("it asks for ", count, " elements"));
  return n.composed([&] {
    const Tensor& list = n.in(0);
    const Tensor zero = zeros_like(reduce_sum(list, {0}, {.keep_dims = true}));
    const Tensor places = minimum(arange(count), gather(shape(list), 0, 0).cast(int64));
    return gather(concat({list, zero}, 0), places, 0);
  });
}

/// Whether a list becomes longer when an element beyond its end is set.
bool grows(const NodeReader& reader) { return reader.attr_or<bool>("resize_if_index_out_of_bounds", false); }
std::vector<std::size_t> values_to_set_item(const NodeReader& reader) {
  return grows(reader) ? std::vector<std::size_t>{1} : std::vector<std::size_t>();
}

/// A list of at least so many elements, of which those are zeros that it lacks.
Tensor lengthened(const Tensor& list, std::int64_t count, const Shape& element) {
  const std::int64_t missing = count - list.shape().sizes()[0];
  if (missing <= 0) return list;
  Shape shape{missing};
  for (const std::int64_t size : element.sizes()) shape.push_back(size);
  const Tensor added = zeros(shape, {.dtype = list.dtype()});
  return missing == count ? added : concat({list, added}, 0);
}

/// The list with another element.
Tensors read_list_with_item(const ForeignNode& n) {
  require_list(n);
  const Tensor& item = n.in(2);
  if (item.dtype() != n.in(0).dtype()) n.node.refuse("its element and its list have different types");
  const std::int64_t least = grows(n.node) ? n.number(1) + 1 : 0;
  if (least > most_places) n.node.refuse(detail::join("it sets element ", least - 1));
  return n.composed([&] {
    const Tensor list = lengthened(n.in(0), least, item.shape());
    std::vector<int> others;
    for (int axis = 1; axis < list.shape().rank(); ++axis) others.push_back(axis);
    if (list.shape().has_rank() && item.shape() != Shape(list.shape().sizes().subspan(1)))
      lack(n, "list of elements whose shape is not known");
    const Tensor places = arange(list.shape().sizes()[0], {.dtype = int64});
    Tensor is_it = equal(places, gather(places, bool(n.in(1)) ? index_of(n) : n.node.constant(1)));  // or out of range
    for (const int axis : others) is_it = expand_dims(is_it, axis);
    return where(is_it, expand_dims(item, 0), list);
  });
}

Tensors read_list_push(const ForeignNode& n) {
  require_list(n);
  return n.composed([&] { return concat({n.in(0), expand_dims(n.in(1), 0)}, 0); });
}

Tensors read_list_gather(const ForeignNode& n) {
  require_list(n);
  return {gather(n.in(0), n.in(1), 0, n.name())};
}

/// A list whose element indices[i] is tensor[i].
Tensors read_list_scatter(const ForeignNode& n) {
  require_list(n);
  const std::vector<std::int64_t> indices = n.numbers(1);
  const std::int64_t most = *std::max_element(indices.begin(), indices.end());
  const std::int64_t count = n.inputs.size() > 3 && n.number(3) >= 0 ? n.number(3) : most + 1;
  std::vector<std::int64_t> places(indices.size(), -1);
  for (std::size_t i = 0; i < indices.size(); ++i)
    if (std::cmp_less(indices[i], places.size()) && indices[i] >= 0) places[indices[i]] = static_cast<std::int64_t>(i);
  if (std::cmp_not_equal(count, indices.size()) || std::find(places.begin(), places.end(), -1) != places.end())
    lack(n, "list with elements that are not set");
  return {gather(n.in(0), tensor(places), 0, n.name())};
}

/// The elements of a list, one after the other along axis 0, and their lengths.
Tensors read_list_concat(const ForeignNode& n) {
  require_list(n);
  const Shape& list = n.in(0).shape();
  if (list.rank() < 2) n.node.refuse("its elements are scalars");
  Shape joined(list.sizes().subspan(1));
  joined.set(0, list.sizes()[0] * list.sizes()[1]);
  return n.composed([&]() -> Tensors {
    return {reshape(n.in(0), joined), full({list.sizes()[0]}, list.sizes()[1], {.dtype = int64})};
  });
}

/// The list of the parts of a tensor, which have these lengths along axis 0.
Tensors read_list_split(const ForeignNode& n) {
  require_list(n);
  const Shape& whole = n.in(0).shape();
  const std::vector<std::int64_t> lengths = n.numbers(2);
  if (lengths.empty() || std::any_of(lengths.begin(), lengths.end(), [&](auto each) { return each != lengths[0]; }))
    lack(n, "list of elements with different shapes");
  const auto count = static_cast<std::int64_t>(lengths.size());
  if (lengths[0] < 0 || product(lengths[0], count) != whole.sizes()[0])
    n.node.refuse(detail::join("its parts have not ", whole.sizes()[0], " rows"));
  Shape list{count, lengths[0]};
  for (const std::int64_t size : whole.sizes().subspan(1)) list.push_back(size);
  return {reshape(n.in(0), list, n.name())};
}

}  // namespace

ForeignOps foreign_lists() {
  const OutputType element = told_by("element_dtype", DType::unknown);
  return {
      {.name = "EmptyTensorList", .inputs = 2, .values = {0}, .outputs = {element}, .read = read_list_empty},
      {.name = "TensorListConcatV2",
       .inputs = 3,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0), typed(int64)},
       .read = read_list_concat},
      {.name = "TensorListElementShape",
       .inputs = 1,
       .outputs = {told_by("shape_type", int32)},
       .read = read_element_shape},
      {.name = "TensorListFromTensor", .inputs = 2, .outputs = {like(0)}, .read = read_list},
      {.name = "TensorListGather", .inputs = 3, .outputs = {like(0)}, .read = read_list_gather},
      {.name = "TensorListGetItem", .inputs = 3, .outputs = {like(0)}, .read = read_list_item},
      {.name = "TensorListLength", .inputs = 1, .outputs = {typed(int32)}, .read = read_list_length},
      {.name = "TensorListPushBack", .inputs = 2, .outputs = {like(0)}, .read = read_list_push},
      {.name = "TensorListReserve", .inputs = 2, .values = {0, 1}, .outputs = {element}, .read = read_list_reserve},
      {.name = "TensorListResize", .inputs = 2, .values = {1}, .outputs = {like(0)}, .read = read_list_resize},
      {.name = "TensorListScatterV2", .inputs = 4, .values = {1, 3}, .outputs = {like(0)}, .read = read_list_scatter},
      {.name = "TensorListSetItem",
       .inputs = 3,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .find_values = values_to_set_item,
       .read = read_list_with_item},
      {.name = "TensorListSplit",
       .inputs = 3,
       .values = {2},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_list_split},
      {.name = "TensorListStack", .inputs = 2, .outputs = {like(0)}, .read = read_list},
  };
}

}  // namespace tapestry::io
