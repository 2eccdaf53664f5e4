#include <map>

#include "dispatch/declaration.hpp"
#include "dispatch/recorder.hpp"
#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/mutable_tables.hpp"
#include "io/tensorflow/table_rows.hpp"

// What is done with the rows of a table. How many rows there are is known when an operation runs, so that each
// allocates its results and is no reason to cut a run.

namespace tapestry::io {
namespace {

Tensor keys_in(const Tensor& rows) { return reshape(slice(rows, {0, 0}, {-1, 1}), {-1}); }
Tensor keys_of(const Tensor& keys) { return reshape(keys.cast(int64), {-1}); }
/// 0, 1, ... for the elements of a vector.
Tensor numbers_from_0(const Tensor& vector) { return cumsum(ones_like(vector).cast(int32)) - 1; }
/// Which elements of `found` are among those of `list`.
Tensor are_among(const Tensor& found, const Tensor& list) {
  const Tensor numbers = unique(concat({list, found})).inverse;
  return gather(numbers, numbers_from_0(found) + size(list, 0)) < size(unique(list).values, 0);
}

Shape value_shape(const Call& call) { return call.attr<Shape>("value_shape"); }
/// The shape of keys with that of their values.
Shape with_value_shape(const Shape& keys, const Shape& values) {
  if (!keys.has_rank() || keys.rank() + values.rank() > Shape::max_rank) return Shape::unknown_rank();
  Shape shape = keys;
  for (const std::int64_t each : values.sizes()) shape.push_back(each);
  return shape;
}

bool is_dense(const Call& call) { return !call.attr<Ints>("reserved").empty(); }
Shape exported_shape(const Call& call) {
  const Shape value = value_shape(call);
  return is_dense(call) ? Shape{value.num_elements()} : value;
}

/// The value of each key, or the default.
Tensor found_in(const Call& call) {
  const Tensor &rows = call.input(0), &keys = call.input(1), &otherwise = call.input(2);
  const Shape& value = value_shape(call);
  const Tensor count = size(rows, 0), known_keys = keys_in(rows), wanted = keys_of(keys);
  const Tensor number = gather(unique(concat({known_keys, wanted})).inverse, numbers_from_0(wanted) + count);
  const Tensor none = zeros({1, value.num_elements()}, {.dtype = int64});
  const Tensor columns = concat({slice(rows, {0, 1}, {-1, -1}), none});
  const Tensor values = values_of_rows(gather(columns, minimum(number, count)), otherwise.dtype(), value);
  const Tensor is_known = number < count;
  if (value.rank() == 0) return where(reshape_like(is_known, keys), reshape_like(values, keys), otherwise);
  Shape all, with_ones;
  for (int axis = 0; axis < keys.rank(); ++axis) all.push_back(keys.shape()[axis]);
  with_ones = all;
  for (const std::int64_t each : value.sizes()) {
    all.push_back(each);
    with_ones.push_back(1);
  }
  return where(reshape(is_known, with_ones), reshape(values, all), otherwise);
}

/// The last of several values of one key counts, and those that the table had before come last.
Tensor inserted_in(const Call& call) {
  const Tensor given = rows_of_table(call.input(1), call.input(2), value_shape(call));
  const Tensor all = concat({flip(given, 0), call.input(0)}), keys = keys_in(all);
  const Unique found = unique(keys);
  return gather(all, unsorted_segment_min(numbers_from_0(keys), found.inverse, found.values.shape()[0]));
}

Tensor removed_from(const Call& call) {
  return boolean_mask(call.input(0), logical_not(are_among(keys_in(call.input(0)), keys_of(call.input(1)))));
}

/// The keys and their values, of a dense table as matrices. TensorFlow's order is that of its hashes, and a dense table
/// of TensorFlow's has keys that stand for none among them.
Tensors exported(const Call& call) {
  const Tensor& rows = call.input(0);
  const Shape value = exported_shape(call);
  const Tensor keys = keys_in(rows).cast(call.attr<DType>("key"));
  return {is_dense(call) ? expand_dims(keys, -1) : keys,
          values_of_rows(slice(rows, {0, 1}, {-1, -1}), call.attr<DType>("value"), value)};
}

Specs rows_like(const Call& call) {
  Shape shape = call.input(0).shape();
  if (shape.rank() == 2) shape.set(0, -1);
  return {{int64, shape}};
}

Specs infer_found(const Call& call) {
  const Shape value = value_shape(call), all = with_value_shape(call.input(1).shape(), value);
  const Shape& otherwise = call.input(2).shape();
  if (!agree(otherwise, value) && !agree(otherwise, all))
    throw InvalidArgumentError(
        detail::join("Expected shape ", value, " or ", all, " for default value, got ", otherwise));
  return {{call.input(2).dtype(), all}};
}

Specs infer_inserted(const Call& call) {
  const Shape due = with_value_shape(call.input(1).shape(), value_shape(call)), &given = call.input(2).shape();
  if (!agree(given, due)) throw InvalidArgumentError(detail::join("Expected shape ", due, " for value, got ", given));
  return rows_like(call);
}

Specs infer_exported(const Call& call) {
  return {{call.attr<DType>("key"), is_dense(call) ? Shape{-1, 1} : Shape{-1}},
          {call.attr<DType>("value"), with_value_shape({-1}, exported_shape(call))}};
}

/// Throws for a key that stands for no key, or for one that was removed.
void require_usable(const Call& call) {
  const Ints& reserved = call.attr<Ints>("reserved");
  if (reserved.empty() || call.inputs().size() < 2) return;
  constexpr std::string_view names[] = {"empty_key", "deleted_key"};
  for (const std::int64_t key : call.input(1).cast(int64).to_vector<std::int64_t>())
    for (std::size_t i = 0; i < reserved.size(); ++i)
      if (key == reserved[i])
        throw InvalidArgumentError(detail::join("Using the ", names[i > 0], " as a table key is not allowed"));
}

using Compute = Tensors (*)(const Call&);

/// Computes the results in a plan, as soon as there are rows, and in a file by the ops of which they are composed.
Op table_op(std::string_view name, Specs (*infer)(const Call&), Compute compute, int outputs = 1) {
  return {.name = std::string(name.substr(name.rfind(':') + 1)),
          .attrs = {"value_shape", "reserved", "key", "value"},
          .infer = infer,
          .evaluate =
              [infer, compute](const Call& call) {
                infer(call);  // now that all sizes are known
                const PauseRecording pause;
                const ExecuteNow now;
                require_usable(call);
                return compute(call);
              },
          .composition = compute,
          .gradient = no_gradient,
          .outputs = outputs};
}

const Op& op_named(std::string_view name) {
  static const auto& ops = *new std::map<std::string_view, Op>{
      {find_in_table, table_op(find_in_table, infer_found, [](const Call& call) { return Tensors{found_in(call)}; })},
      {insert_in_table,
       table_op(insert_in_table, infer_inserted, [](const Call& call) { return Tensors{inserted_in(call)}; })},
      {remove_from_table,
       table_op(remove_from_table, rows_like, [](const Call& call) { return Tensors{removed_from(call)}; })},
      {size_of_table, table_op(
                          size_of_table,
                          [](const Call&) -> Specs {
                            return {{int64, {}}};
                          },
                          [](const Call& call) { return Tensors{size(call.input(0), 0).cast(int64)}; })},
      {export_table, table_op(export_table, infer_exported, exported, 2)},
  };
  return ops.at(name);
}

Tensors read_use(const ForeignNode& n) {
  std::vector<Attr> attrs{{"value_shape", n.node.attr<Shape>("value_shape")}};
  const auto* reserved = n.node.find<ListDef>("reserved");
  attrs.emplace_back("reserved", reserved ? Ints(reserved->ints) : Ints());
  if (n.node.def().op == export_table) {
    attrs.emplace_back("key", n.node.type("Tkeys"));
    attrs.emplace_back("value", n.node.type("Tvalues"));
  }
  return apply_all(op_named(n.node.def().op), n.inputs, Attrs(attrs), n.name(), n.where);
}

/// The values of keys have axes of their own behind those of the keys.
bool lacks_rank_of_keys(const NodeReader& reader, const Tensors& inputs) {
  return reader.attr<Shape>("value_shape").rank() > 0 && !inputs[1].shape().has_rank();
}

}  // namespace

ForeignOps foreign_mutable_tables() {
  return {
      {.name = find_in_table, .inputs = 3, .lacks_sizes = lacks_rank_of_keys, .outputs = {like(2)}, .read = read_use},
      {.name = insert_in_table, .inputs = 3, .outputs = {like(0)}, .read = read_use},
      {.name = remove_from_table, .inputs = 2, .outputs = {like(0)}, .read = read_use},
      {.name = size_of_table, .inputs = 1, .outputs = {typed(int64)}, .read = read_use},
      {.name = export_table,
       .inputs = 1,
       .outputs = {told_by("Tkeys", int64), told_by("Tvalues", float32)},
       .read = read_use},
  };
}

}  // namespace tapestry::io
