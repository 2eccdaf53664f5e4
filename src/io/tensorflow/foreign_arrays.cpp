// Slices, joins, blocks, rows by indices.

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {
namespace {

Tensors read_pad(const ForeignNode& n) {
  Ints widths;
  for (const Padding& each : paddings_of(n)) {
    widths.push_back(each.before);
    widths.push_back(each.after);
  }
  return add_op(*rule_of("PadV2")->entry, {n.in(0)}, {{"paddings", widths}, {"constant_values", 0.0}}, n.name(),
                n.where);
}

Tensors read_mirror_pad(const ForeignNode& n) {
  const PadMode mode = mirror_mode(n);
  return n.composed([&] { return pad(n.in(0), paddings_of(n), {.mode = mode}); });
}

/// x with one axis moved to another place.
Tensor with_axis_at(const Tensor& x, int axis, int place) {
  std::vector<std::int64_t> order;
  for (int i = 0; i < x.shape().rank(); ++i)
    if (i != axis) order.push_back(i);
  order.insert(order.begin() + place, axis);
  return transpose(x, Ints(order));
}

Tensors read_one_hot(const ForeignNode& n) {
  const std::int64_t depth = n.number(1), axis = n.node.attr_or<std::int64_t>("axis", -1);
  if (depth < 0 || depth > most_numbers) n.node.refuse(detail::join("its depth is ", depth));
  const int rank = n.in(0).shape().rank(), place = normalize_axis(axis, rank + 1);
  if (n.in(2).dtype() != n.in(3).dtype()) n.node.refuse("its values have two types");
  return n.composed([&] {
    const Tensor values = where(one_hot(n.in(0), depth, boolean), n.in(2), n.in(3));
    return place == rank ? values : with_axis_at(values, rank, place);
  });
}

Tensors read_gather(const ForeignNode& n) { return {gather(n.in(0), n.in(1), 0, n.name())}; }

bool has_batches(const NodeDef& def) {
  const auto batches = def.attrs.find("batch_dims");
  const auto* count = batches == def.attrs.end() ? nullptr : std::get_if<std::int64_t>(&batches->second);
  return count && *count != 0;
}

/// Gathers along an axis, from each element of a batch by its own indices.
Tensors read_batch_gather(const ForeignNode& n) {
  const Tensor &x = n.in(0), &indices = n.in(1);
  const int batches = normalize_axis(n.node.attr<std::int64_t>("batch_dims"), indices.shape().rank() + 1);
  const int axis = batches < x.shape().rank() ? normalize_axis(n.number(2), x.shape().rank()) : -1;
  if (axis < batches) n.node.refuse("its batch has more axes than there are before its 'axis'");
  const auto add_sizes = [](Shape& to, const Shape& from, int first, int last) {
    for (int i = first; i < last; ++i) to.push_back(from.sizes()[i]);
  };
  // The indices of an element of the batch become one axis, which takes the place of the axis.
  Shape list, flat, places, result;
  add_sizes(list, indices.shape(), batches, indices.shape().rank());
  add_sizes(flat, indices.shape(), 0, batches);
  for (int i = batches; i < axis; ++i) flat.push_back(1);
  flat.push_back(list.num_elements());
  for (int i = axis + 1; i < x.shape().rank(); ++i) flat.push_back(1);
  places = x.shape();
  places.set(axis, list.num_elements());
  add_sizes(result, x.shape(), 0, axis);
  add_sizes(result, list, 0, list.rank());
  add_sizes(result, x.shape(), axis + 1, x.shape().rank());
  return n.composed(
      [&] { return reshape(take_along_axis(x, broadcast_to(reshape(indices, flat), places), axis), result); });
}

/// The size of the axis that has this label in an equation's term.
std::int64_t size_of_label(const Shape& shape, std::string_view term, char label) {
  const std::size_t at = term.find(label), dots = term.find("...");
  if (at == std::string_view::npos || term.size() > Shape::max_rank + 3) return -1;
  const int axis = static_cast<int>(dots < at ? shape.rank() - (term.size() - at) : at);
  return axis >= 0 && axis < shape.rank() ? shape.sizes()[axis] : -1;
}

/// A label that the result has twice, as in the gradient of a diagonal, becomes two, which a factor holds together: the
/// identity matrix.
std::string without_diagonals(const ForeignNode& n, std::string equation, Tensors& inputs) {
  std::erase(equation, ' ');
  const std::size_t arrow = equation.find("->");
  if (arrow == std::string::npos) return equation;
  std::string terms = equation.substr(0, arrow), result = equation.substr(arrow + 2);
  const std::string given = terms;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const char label = result[i];
    if (label == '.' || result.find(label) == i) continue;
    std::int64_t size = -1;
    std::size_t begin = 0;
    for (std::size_t k = 0; k < n.inputs.size() && begin <= given.size(); ++k) {
      const std::size_t end = std::min(given.find(',', begin), given.size());
      size = std::max(size, size_of_label(n.in(k).shape(), std::string_view(given).substr(begin, end - begin), label));
      begin = end + 1;
    }
    char fresh = 'A';
    while (fresh <= 'z' && (terms + result).find(fresh) != std::string::npos) ++fresh;
    if (size < 0 || !std::isalpha(static_cast<unsigned char>(fresh))) return equation;  // which einsum refuses
    terms += {',', label, fresh};
    result[i] = fresh;
    inputs.push_back(eye(size, {.dtype = n.in(0).dtype()}));
  }
  return terms + "->" + result;
}

Tensors read_einsum(const ForeignNode& n) {
  for (const Tensor& each : n.inputs)
    if (each.dtype() != n.in(0).dtype()) n.node.refuse("its inputs have several types");
  return n.composed([&] {
    Tensors inputs = n.inputs;
    const std::string equation = without_diagonals(n, n.node.attr<std::string>("equation"), inputs);
    return einsum(equation, InList(inputs, n.where));
  });
}

/// Moves blocks of channels to blocks of pixels (DepthToSpace), or back (SpaceToDepth).
Tensors read_depth_to_space(const ForeignNode& n) {
  require_nhwc(n);
  require_images(n);
  const auto block = n.node.attr<std::int64_t>("block_size");
  const Shape& shape = n.in(0).shape();
  const bool to_space = n.node.def().op == "DepthToSpace";
  // With block sizes up to this one, no product of sizes below overflows.
  const std::int64_t largest =
      to_space ? std::min(shape.sizes()[3], most_blocks) : std::min(shape.sizes()[1], shape.sizes()[2]);
  if (block < 1 || block > largest) n.node.refuse(detail::join("its block size is ", block, " for ", shape));
  const std::int64_t height = shape.sizes()[1], width = shape.sizes()[2], depth = shape.sizes()[3];
  return n.composed([&]() -> Tensor {
    if (to_space) {
      const Tensor blocks = reshape(n.in(0), {-1, height, width, block, block, depth / (block * block)});
      return reshape(transpose(blocks, {0, 1, 3, 2, 4, 5}),
                     {-1, height * block, width * block, depth / (block * block)});
    }
    const Tensor blocks = reshape(n.in(0), {-1, height / block, block, width / block, block, depth});
    return reshape(transpose(blocks, {0, 1, 3, 2, 4, 5}), {-1, height / block, width / block, depth * block * block});
  });
}

/// The axes of `x` that blocks divide, each as two axes, before and after: parts of the axis, and a block.
struct Blocks {
  std::vector<std::int64_t> sizes;
  std::vector<Padding> borders;
};
Blocks blocks_of(const ForeignNode& n) {
  Blocks blocks{{}, paddings_of(n, n.inputs.size() - 1)};
  if (n.inputs.size() == 3) {
    blocks.sizes = n.numbers(1);
  } else {
    blocks.sizes.assign(2, n.node.attr<std::int64_t>("block_size"));
  }
  const Shape& shape = n.in(0).shape();
  if (blocks.sizes.size() != blocks.borders.size() || std::cmp_greater(blocks.sizes.size() + 1, shape.rank()))
    n.node.refuse(detail::join("it has ", blocks.sizes.size(), " blocks for ", shape));
  for (const std::int64_t each : blocks.sizes)
    if (each < 1 || each > most_numbers) n.node.refuse(detail::join("it has blocks of ", each));
  for (const auto [before, after] : blocks.borders)
    if (before < 0 || after < 0 || before > most_numbers || after > most_numbers)
      n.node.refuse("its borders are less than nothing, or too wide");
  if (shape.rank() + static_cast<int>(blocks.sizes.size()) > Shape::max_rank) lack(n, "rank");
  return blocks;
}

/// [batch, parts 1, block 1, parts 2, block 2, ..., rest] to [block 1, block 2, ..., batch, parts 1, ..., rest].
Tensor blocks_to_front(const ForeignNode& n, const Tensor& x, const Blocks& blocks) {
  std::vector<Padding> borders = blocks.borders;
  borders.insert(borders.begin(), Padding{});
  borders.resize(static_cast<std::size_t>(x.shape().rank()));
  const Tensor padded = pad(x, borders);
  const auto count = static_cast<int>(blocks.sizes.size()), rank = padded.shape().rank();
  Shape divided{-1}, result{-1};
  Ints order;
  for (int i = 0; i < count; ++i) {
    const std::int64_t size = padded.shape().sizes()[i + 1], block = blocks.sizes[i];
    if (size % block != 0) n.node.refuse(detail::join("its blocks of ", block, " do not divide ", size));
    divided.push_back(size / block);
    divided.push_back(block);
    result.push_back(size / block);
    order.push_back(2 * i + 2);
  }
  order.push_back(0);
  for (int i = 0; i < count; ++i) order.push_back(2 * i + 1);
  for (int i = count + 1; i < rank; ++i) {
    divided.push_back(padded.shape().sizes()[i]);
    result.push_back(padded.shape().sizes()[i]);
    order.push_back(i + count);
  }
  return reshape(transpose(reshape(padded, divided), order), result);
}

/// The inverse, whose borders are cut off.
Tensor blocks_from_front(const ForeignNode& n, const Tensor& x, const Blocks& blocks) {
  const auto count = static_cast<int>(blocks.sizes.size()), rank = x.shape().rank();
  Shape divided(blocks.sizes), result{-1};
  divided.push_back(-1);
  Ints order{count}, begin{0}, size{-1};
  for (int i = 0; i < count; ++i) {
    const std::int64_t whole = product(x.shape().sizes()[i + 1], blocks.sizes[i]);
    const auto [before, after] = blocks.borders[i];
    if (before + after > whole) n.node.refuse("it crops what is not there");
    divided.push_back(x.shape().sizes()[i + 1]);
    result.push_back(whole);
    order.push_back(count + 1 + i);
    order.push_back(i);
    begin.push_back(before);
    size.push_back(whole - before - after);
  }
  for (int i = count + 1; i < rank; ++i) {
    divided.push_back(x.shape().sizes()[i]);
    result.push_back(x.shape().sizes()[i]);
    order.push_back(i + count);
    begin.push_back(0);
    size.push_back(-1);
  }
  return slice(reshape(transpose(reshape(x, divided), order), result), begin, size);
}

/// Moves blocks of pixels to images of the batch (SpaceToBatchND), or back (BatchToSpaceND). TensorFlow writes dilated
/// convolutions by these.
Tensors read_space_to_batch(const ForeignNode& n) {
  const Blocks blocks = blocks_of(n);
  const bool to_batch = n.node.def().op.starts_with("SpaceToBatch");
  return n.composed(
      [&] { return to_batch ? blocks_to_front(n, n.in(0), blocks) : blocks_from_front(n, n.in(0), blocks); });
}

Tensors read_scatter(const ForeignNode& n) {
  require_checked_indices(n.node);
  return n.composed([&] {
    const Tensor like = shape_only(n, n.shape(2), n.in(1).dtype());
    return make_op(*rule_of("ScatterNd"), n.node, {n.in(0), n.in(1), like}, {}, n.where, "ScatterNd")[0];
  });
}

Tensors read_slice_gradient(const ForeignNode& n) {
  const Attrs attrs = n.node.direct_attrs(*rule_of("StridedSlice"));
  return n.composed([&] {
    const Tensor like = shape_only(n, n.shape(0), n.in(4).dtype());
    return make_op(*rule_of("StridedSliceGrad"), n.node, {n.in(4), like}, attrs, n.where, "Slice")[0];
  });
}
/// The old form, whose axis comes first.
Tensors read_concat(const ForeignNode& n) {
  if (n.inputs.size() < 2) n.node.refuse("it has no tensors");
  require_one_type(n, 1);
  const Tensors parts(n.inputs.begin() + 1, n.inputs.end());
  return {concat(InList(parts, n.where), n.number(0), n.name())};
}

/// Rows, each of which is a tensor.
Tensors read_parallel_concat(const ForeignNode& n) {
  require_one_type(n);
  return {concat(InList(n.inputs, n.where), 0, n.name())};
}

/// The old form, which tells for each axis whether it is reversed.
Tensors read_reverse(const ForeignNode& n) {
  const Tensor flags = n.node.constant(1);
  if (flags.dtype() != boolean || flags.rank() != 1) n.node.refuse("its axes are no list of bools");
  const std::vector<std::uint8_t> list = flags.cast(uint8).to_vector<std::uint8_t>();
  Ints axes;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i]) axes.push_back(static_cast<std::int64_t>(i));
  return {flip(n.in(0), axes, n.name())};
}

/// By one axis, as a node of ours, or by several, one of which may come again.
Tensors read_roll(const ForeignNode& n) {
  const std::vector<std::int64_t> shifts = n.numbers(1), axes = n.numbers(2);
  if (shifts.size() != axes.size())
    n.node.refuse(detail::join("it has ", shifts.size(), " shifts for ", axes.size(), " axes"));
  if (axes.size() == 1) return {roll(n.in(0), shifts[0], axes[0], n.name())};
  return n.composed([&] {
    Tensor x = n.in(0);
    for (std::size_t i = 0; i < axes.size(); ++i) x = roll(x, shifts[i], axes[i]);
    return x;
  });
}

/// Reverses the first elements of each sequence of a batch.
Tensors read_reverse_sequence(const ForeignNode& n) {
  const Tensor &x = n.in(0), &lengths = n.in(1);
  const int along = normalize_axis(n.node.attr<std::int64_t>("seq_dim"), x.shape().rank());
  const int batch = normalize_axis(n.node.attr_or<std::int64_t>("batch_dim", 0), x.shape().rank());
  if (along == batch) n.node.refuse("its sequences are its batch");
  require_rank(n, 1, 1);
  return n.composed([&] {
    Shape row(std::vector<std::int64_t>(x.shape().rank(), 1)), column = row;
    row.set(along, x.shape().sizes()[along]);
    column.set(batch, x.shape().sizes()[batch]);
    const Tensor place = reshape(arange(x.shape().sizes()[along], {.dtype = lengths.dtype()}), row);
    const Tensor length = reshape(lengths, column);
    const Tensor from = where(place < length, length - 1 - place, place);
    return take_along_axis(x, broadcast_to(from, x.shape()), along);
  });
}

/// Adds to the elements at given coordinates, or subtracts from them.
Tensors read_scatter_into(const ForeignNode& n) {
  const bool subtract = n.node.def().op == "TensorScatterSub";
  require_checked_indices(n.node);
  if (n.in(0).dtype() != n.in(2).dtype()) n.node.refuse("its inputs have several types");
  return n.composed(
      [&] { return tensor_scatter_nd_add(n.in(0), n.in(1), subtract ? negative(n.in(2)) : Tensor(n.in(2))); });
}

/// Adds a sparse tensor, as coordinates and values, to a dense one.
Tensors read_sparse_sum(const ForeignNode& n) {
  if (n.in(1).dtype() != n.in(3).dtype()) n.node.refuse("its inputs have several types");
  return {tensor_scatter_nd_add(n.in(3), n.in(0), n.in(1), n.name())};
}

/// For each axis of `part`, which begins there in `whole`, the place in it of each place of the whole. Where it would
/// reach over the end, it begins before.
Tensors places_in_part(const Tensor& starts, const Shape& whole, const Shape& part) {
  Tensors places;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    const std::int64_t size = whole.sizes()[axis], count = part.sizes()[axis];
    const Tensor start = clip(slice(starts, {axis}, {1}), 0, size - count);
    places.push_back(arange(size, {.dtype = starts.dtype()}) - start);
  }
  return places;
}

Tensors read_dynamic_update(const ForeignNode& n) {
  const Tensor &x = n.in(0), &update = n.in(1);
  const Shape &whole = x.shape(), &part = update.shape();
  if (whole.rank() != part.rank() || n.in(2).shape() != Shape{whole.rank()})
    n.node.refuse(detail::join("an update ", part, " at ", n.in(2).shape(), " does not fit ", whole));
  for (int axis = 0; axis < whole.rank(); ++axis)
    if (part.sizes()[axis] > whole.sizes()[axis] || part.sizes()[axis] == 0)
      n.node.refuse(detail::join("an update ", part, " does not fit ", whole));
  return n.composed([&] {
    Tensor moved = update, is_inside;
    const Tensors places = places_in_part(n.in(2), whole, part);
    for (int axis = 0; axis < whole.rank(); ++axis) {
      const Tensor& place = places[static_cast<std::size_t>(axis)];
      const std::int64_t last = part.sizes()[axis] - 1;
      moved = gather(moved, clip(place, 0, last), axis);
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(whole.rank()), 1);
      sizes[static_cast<std::size_t>(axis)] = whole.sizes()[axis];
      const Tensor here = reshape((place >= 0) & (place <= last), Shape(sizes));
      is_inside = axis == 0 ? here : is_inside & here;
    }
    return whole.rank() == 0 ? update : where(is_inside, moved, x);
  });
}

Tensors read_dynamic_slice(const ForeignNode& n) {
  const Tensor& x = n.in(0);
  const Shape part(n.numbers(2));
  if (part.rank() != x.shape().rank() || n.in(1).shape() != Shape{part.rank()})
    n.node.refuse(detail::join("sizes ", part, " do not fit ", x.shape()));
  for (int axis = 0; axis < part.rank(); ++axis)
    if (part.sizes()[axis] < 0 || part.sizes()[axis] > x.shape().sizes()[axis])
      n.node.refuse(detail::join("sizes ", part, " do not fit ", x.shape()));
  return n.composed([&] {
    Tensor result = x;
    for (int axis = 0; axis < part.rank(); ++axis) {
      const std::int64_t count = part.sizes()[axis];
      const Tensor start = clip(slice(n.in(1), {axis}, {1}), 0, x.shape().sizes()[axis] - count);
      result = gather(result, arange(count, {.dtype = start.dtype()}) + start, axis);
    }
    return result;
  });
}

}  // namespace

ForeignOps foreign_arrays() {
  return {
      {.name = "BatchToSpace",
       .inputs = 2,
       .values = {1},
       .lacks_sizes = lacks_element_sizes,
       .outputs = {like(0)},
       .read = read_space_to_batch},
      {.name = "BatchToSpaceND",
       .inputs = 3,
       .values = {1, 2},
       .lacks_sizes = lacks_element_sizes,
       .outputs = {like(0)},
       .read = read_space_to_batch},
      {.name = "Concat", .inputs = -1, .values = {0}, .outputs = {like(1)}, .read = read_concat},
      {.name = "DepthToSpace", .inputs = 1, .lacks_sizes = lacks_image_sizes, .read = read_depth_to_space},
      {.name = "Einsum", .inputs = -1, .lacks_sizes = lacks_any_size, .read = read_einsum},
      {.name = "Gather", .inputs = 2, .read = read_gather},
      {.name = "GatherV2",
       .inputs = 3,
       .values = {2},
       .applies = has_batches,
       .lacks_sizes = lacks_any_size,
       .read = read_batch_gather},
      {.name = "MirrorPad", .inputs = 2, .values = {1}, .lacks_sizes = lacks_any_size, .read = read_mirror_pad},
      {.name = "OneHot", .inputs = 4, .values = {1}, .lacks_sizes = lacks_rank, .read = read_one_hot},
      {.name = "Pad", .inputs = 2, .values = {1}, .read = read_pad},
      {.name = "ParallelConcat", .inputs = -1, .outputs = {like(0)}, .read = read_parallel_concat},
      {.name = "Reverse", .inputs = 2, .values = {1}, .outputs = {like(0)}, .read = read_reverse},
      {.name = "ReverseSequence",
       .inputs = 2,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_reverse_sequence},
      {.name = "Roll", .inputs = 3, .values = {1, 2}, .specs = specs_like_first, .read = read_roll},
      {.name = "ScatterNd", .inputs = 3, .values = {2}, .read = read_scatter},
      {.name = "ScatterNdNonAliasingAdd", .inputs = 3, .outputs = {like(0)}, .read = read_scatter_into},
      {.name = "SpaceToBatch",
       .inputs = 2,
       .values = {1},
       .lacks_sizes = lacks_element_sizes,
       .outputs = {like(0)},
       .read = read_space_to_batch},
      {.name = "SpaceToBatchND",
       .inputs = 3,
       .values = {1, 2},
       .lacks_sizes = lacks_element_sizes,
       .outputs = {like(0)},
       .read = read_space_to_batch},
      {.name = "SpaceToDepth", .inputs = 1, .lacks_sizes = lacks_image_sizes, .read = read_depth_to_space},
      {.name = "StridedSliceGrad", .inputs = 5, .values = {0, 1, 2, 3}, .read = read_slice_gradient},
      {.name = "SparseTensorDenseAdd", .inputs = 4, .outputs = {like(3)}, .read = read_sparse_sum},
      {.name = "TensorScatterAdd", .inputs = 3, .outputs = {like(0)}, .read = read_scatter_into},
      {.name = "TensorScatterSub", .inputs = 3, .outputs = {like(0)}, .read = read_scatter_into},
      {.name = "XlaDynamicSlice",
       .inputs = 3,
       .values = {2},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_dynamic_slice},
      {.name = "XlaDynamicUpdateSlice",
       .inputs = 3,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_dynamic_update},
  };
}

}  // namespace tapestry::io
