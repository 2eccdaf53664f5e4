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
/// As far as its element's shape is a constant of the file.
Specs specs_of_list_reserve(const NodeReader& node, const Tensors&) {
  Spec spec{node.type("element_dtype"), Shape::unknown_rank()};
  if (!node.is_constant(0)) return {spec};
  const Tensor element = node.constant(0);
  Shape list{-1};
  for (const std::int64_t size : element.rank() == 1 ? node.listed(element) : std::vector<std::int64_t>{-1})
    if (list.rank() < Shape::max_rank) list.push_back(std::max<std::int64_t>(size, 0));
  spec.shape = list;
  return {spec};
}
Tensors read_list_empty(const ForeignNode& n) {
  return {zeros(shape_of_unset(n, 0), {.dtype = n.node.type("element_dtype")}, n.name(), n.where)};
}

/// The shape of a list.
Shape list_of(std::int64_t count, const Shape& element) {
  if (!element.has_rank()) return element;
  Shape list{count};
  for (const std::int64_t size : element.sizes()) list.push_back(size);
  return list;
}

Specs specs_of_list_resize(const NodeReader&, const Tensors& inputs) {
  const Shape& list = inputs[0].shape();
  return {{inputs[0].dtype(), list.rank() > 0 ? list_of(-1, Shape(list.sizes().subspan(1))) : Shape::unknown_rank()}};
}
/// The list, cut or filled up with zeros to the given number of elements.
Tensors read_list_resize(const ForeignNode& n) {
  require_list(n);
  const std::int64_t count = n.number(1);
  if (count < 0 || count > most_places) n.node.refuse(detail::join("it asks for ", count, " elements"));
  return n.composed([&] {
    const Tensor& list = n.in(0);
    const Tensor summed = is_floating(list.dtype()) ? list : list.cast(int32);
    const Tensor zero = zeros_like(reduce_sum(summed, {0}, {.keep_dims = true})).cast(list.dtype());
    const Tensor places = minimum(arange(count), gather(shape(list), 0, 0).cast(int64));
    return gather(concat({list, zero}, 0), places, 0);
  });
}

/// Whether no element of a list is set, so that the list does not tell what they are like: a list of no elements, or
/// those of a branch that was never taken.
bool is_unset(const Shape& list) { return list.is_known() && list.num_elements() == 0; }

/// Whether a list becomes longer when an element beyond its end is set.
bool grows(const NodeReader& reader) { return reader.attr_or<bool>("resize_if_index_out_of_bounds", false); }
std::vector<std::size_t> values_to_set_item(const NodeReader& reader) {
  return grows(reader) ? std::vector<std::size_t>{1} : std::vector<std::size_t>();
}

/// The list, filled up with zeros to at least `count` elements.
Tensor lengthened(const Tensor& list, std::int64_t count, const Shape& element) {
  const std::int64_t missing = count - list.shape().sizes()[0];
  if (missing <= 0) return list;
  return concat({list, zeros(list_of(missing, element), {.dtype = list.dtype()})}, 0);
}

/// The list with another element.
Tensors read_list_with_item(const ForeignNode& n) {
  require_list(n);
  const Tensor &given = n.in(0), &item = n.in(2);
  if (item.dtype() != given.dtype()) n.node.refuse("its element and its list have different types");
  const std::int64_t least = grows(n.node) ? n.number(1) + 1 : 0;
  if (least > most_places) n.node.refuse(detail::join("it sets element ", least - 1));
  return n.composed([&] {
    const Tensor list =
        is_unset(given.shape())
            ? zeros(list_of(std::max(given.shape().sizes()[0], least), item.shape()), {.dtype = given.dtype()})
            : lengthened(given, least, item.shape());
    if (item.shape() != Shape(list.shape().sizes().subspan(1))) lack(n, "list of elements of different shapes");
    const Tensor places = arange(list.shape().sizes()[0], {.dtype = int64});
    Tensor is_it = equal(places, gather(places, bool(n.in(1)) ? index_of(n) : n.node.constant(1)));  // or out of range
    for (int axis = 1; axis < list.shape().rank(); ++axis) is_it = expand_dims(is_it, axis);
    return where(is_it, expand_dims(item, 0), list);
  });
}

Specs specs_of_list_with_item(const NodeReader& node, const Tensors& inputs) {
  const Shape &list = inputs[0].shape(), &item = inputs[2].shape();
  const std::int64_t count = grows(node) || list.rank() < 1 ? -1 : list.sizes()[0];
  return {{inputs[0].dtype(), item.has_rank() ? list_of(count, item) : Shape::unknown_rank()}};
}

Tensors read_list_gather(const ForeignNode& n) {
  require_list(n);
  return {gather(n.in(0), n.in(1), 0, n.name())};
}

/// The sizes of the elements of two lists. Those of an empty list may not be known; then they are 0, or too few.
Shape element_of_either(const Shape& a, const Shape& b) {
  if (!a.has_rank() || !b.has_rank() || a.rank() == 0 || b.rank() == 0) return Shape::unknown_rank();
  if (is_unset(b)) return Shape(a.sizes().subspan(1));
  Shape element(b.sizes().subspan(1));
  if (a.rank() != b.rank()) return a.sizes()[0] == 0 ? element : Shape(a.sizes().subspan(1));
  for (int axis = 0; axis < element.rank(); ++axis)
    if (element.sizes()[axis] < 0) element.set(axis, a.sizes()[axis + 1]);
  return element;
}
/// What is added to a list: another one, or an element.
Shape added_list(const NodeReader& node, const Tensors& inputs) {
  const Shape& added = inputs[1].shape();
  return node.def().op == "TensorListPushBack" ? list_of(1, added) : added;
}
/// Whether the sizes of elements have to be known, as those of an empty list may be wrong.
bool lacks_list_sizes(const NodeReader& node, const Tensors& inputs) {
  const Shape &list = inputs[0].shape(), added = added_list(node, inputs);
  if (list.rank() <= 0 || added.rank() <= 0) return true;
  if (list.sizes()[0] == 0 || added.sizes()[0] == 0) return false;
  return !list.is_known() || !added.is_known();
}
Tensors read_list_concat_lists(const ForeignNode& n) {
  require_list(n);
  const Shape &list = n.in(0).shape(), added = added_list(n.node, n.inputs);
  const auto unset_like = [&](const Shape& unset, const Shape& other) {
    return zeros(list_of(unset.sizes()[0], Shape(other.sizes().subspan(1))), {.dtype = n.in(0).dtype()});
  };
  return n.composed([&] {
    const Tensor more = n.node.def().op == "TensorListPushBack" ? expand_dims(n.in(1), 0) : n.in(1);
    if (list.sizes()[0] == 0) return identity(more);
    if (added.sizes()[0] == 0) return identity(n.in(0));
    if (is_unset(list)) return concat({unset_like(list, added), more}, 0);
    return concat({n.in(0), is_unset(added) ? unset_like(added, list) : more}, 0);
  });
}
Specs specs_of_list_concat_lists(const NodeReader& node, const Tensors& inputs) {
  return {{inputs[0].dtype(), list_of(-1, element_of_either(inputs[0].shape(), added_list(node, inputs)))}};
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

/// The list with other elements at some places. Of elements at the same place, as a gradient has them, the sum.
Tensors read_list_with_items(const ForeignNode& n) {
  require_list(n);
  const Tensor &given = n.in(0), &items = n.in(1);
  if (items.dtype() != given.dtype()) n.node.refuse("its elements and its list have different types");
  if (items.shape().rank() < 1 || n.in(2).shape().rank() != 1)
    n.node.refuse("its elements or their places are no list");
  const Shape element(items.shape().sizes().subspan(1));
  const Shape list = is_unset(given.shape()) ? list_of(given.shape().sizes()[0], element) : given.shape();
  if (list != list_of(list.sizes()[0], element)) lack(n, "list of elements of different shapes");
  return n.composed([&] {
    const Tensor zero = zeros(list, {.dtype = given.dtype()}), places = expand_dims(n.in(2), 1);
    Tensor filled = tensor_scatter_nd_add(zero, places, items);
    if (is_unset(given.shape())) return filled;
    return where(tensor_scatter_nd_add(zero, places, ones_like(items)) > 0, filled, given);
  });
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
      {.name = "TensorListConcat",
       .inputs = 1,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0), typed(int64)},
       .read = read_list_concat},
      {.name = "TensorListConcatLists",
       .inputs = 2,
       .lacks_sizes = lacks_list_sizes,
       .specs = specs_of_list_concat_lists,
       .read = read_list_concat_lists},
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
      {.name = "TensorListPushBack",
       .inputs = 2,
       .lacks_sizes = lacks_list_sizes,
       .specs = specs_of_list_concat_lists,
       .read = read_list_concat_lists},
      {.name = "TensorListReserve",
       .inputs = 2,
       .values = {0, 1},
       .specs = specs_of_list_reserve,
       .read = read_list_reserve},
      {.name = "TensorListResize", .inputs = 2, .values = {1}, .specs = specs_of_list_resize, .read = read_list_resize},
      {.name = "TensorListScatterIntoExistingList",
       .inputs = 3,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_list_with_items},
      {.name = "TensorListScatterV2", .inputs = 4, .values = {1, 3}, .outputs = {like(0)}, .read = read_list_scatter},
      {.name = "TensorListSetItem",
       .inputs = 3,
       .lacks_sizes = lacks_any_size,
       .find_values = values_to_set_item,
       .specs = specs_of_list_with_item,
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
