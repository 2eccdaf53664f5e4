// Numbers of categories by hashes of whole numbers, as columns of features have them. A hash is computed on the CPU
// when the values are known.

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/hashed_numbers.hpp"
#include "io/tensorflow/hashes.hpp"
#include "io/tensorflow/node_adder.hpp"
#include "io/tensorflow/node_writer.hpp"

namespace tapestry::io {
namespace {

using Numbers = std::vector<std::int64_t>;

// ---- Hashes of the digits -------------------------------------------------------------------------------------------

Tensors read_hash(const ForeignNode& n) {
  const Tensor numbers = n.node.constant(0);
  const auto buckets = n.node.attr<std::int64_t>("num_buckets");
  const auto& kind = n.node.attr<std::string>("kind");
  const Numbers key = n.node.attr_or<ListDef>("key", {}).ints;
  if (!is_integer(numbers.dtype()) || buckets < 1 || (kind == "StringToHashBucketStrong" && key.size() != 2))
    n.node.refuse(detail::join("it hashes ", to_string(numbers.dtype()), " to ", buckets, " numbers"));
  Numbers hashes;
  for (const std::int64_t number : numbers.to_vector<std::int64_t>()) {
    const std::string digits = std::to_string(number);
    const std::uint64_t hash = kind == "StringToHashBucketFast" ? farm_hash(digits)
                               : kind == "StringToHashBucket"   ? murmur_hash(digits)
                                                                : sip_hash(digits, static_cast<std::uint64_t>(key[0]),
                                                                           static_cast<std::uint64_t>(key[1]));
    hashes.push_back(static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(buckets)));
  }
  return constant_nodes(n, {reshape(vector_of(hashes, int64), numbers.shape())});
}

Specs specs_of_hash(const NodeReader&, const Tensors& inputs) { return {{int64, inputs[0].shape()}}; }

/// The digits as a text, and the hash of the text.
std::vector<std::string> write_hash(const NodeReader& reader, const Tensors& inputs, NodeAdder& add) {
  const auto& kind = reader.attr<std::string>("kind");
  const std::string text = add.typed("AsString", {endpoint_name(inputs[0])}, inputs[0].dtype());
  AttrDefs attrs{{"num_buckets", reader.attr<std::int64_t>("num_buckets")}};
  if (const auto* key = reader.find<ListDef>("key")) attrs.emplace("key", *key);
  return {add.op(kind, {text}, std::move(attrs))};
}

// ---- Crossed columns ------------------------------------------------------------------------------------------------

/// The features of each example in one column.
using Column = std::vector<Numbers>;

Column column_of(const ForeignNode& n, const Tensor& coordinates, const Tensor& features, std::int64_t examples) {
  if (coordinates.dtype() != int64 || features.dtype() != int64 || coordinates.rank() != 2 ||
      coordinates.shape().sizes()[1] != 2 || features.shape() != Shape{coordinates.shape().sizes()[0]})
    n.node.refuse(detail::join("a column has ", to_string(features.dtype()), features.shape(), " at ",
                               to_string(coordinates.dtype()), coordinates.shape()));
  Column column(static_cast<std::size_t>(examples));
  const Numbers places = coordinates.to_vector<std::int64_t>(), all = features.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (places[2 * i] < 0 || places[2 * i] >= examples) n.node.refuse("a coordinate is outside the shape");
    column[static_cast<std::size_t>(places[2 * i])].push_back(all[i]);
  }
  return column;
}

Column column_of(const ForeignNode& n, const Tensor& dense) {
  if (dense.dtype() != int64 || dense.rank() != 2)
    n.node.refuse(detail::join("a column is ", to_string(dense.dtype()), dense.shape()));
  Column column;
  const Numbers all = dense.to_vector<std::int64_t>();
  const std::int64_t width = dense.shape().sizes()[1];
  for (std::int64_t row = 0; row < dense.shape().sizes()[0]; ++row)
    column.emplace_back(all.begin() + row * width, all.begin() + (row + 1) * width);
  return column;
}

/// Appends the hash of each choice of one feature from each column, of which the last one changes first.
void append_crosses(const std::vector<Column>& columns, std::size_t example, std::size_t next, std::uint64_t hash,
                    std::uint64_t buckets, Numbers& crosses) {
  if (next == columns.size()) {
    crosses.push_back(static_cast<std::int64_t>(hash % buckets));
    return;
  }
  for (const std::int64_t feature : columns[next][example])
    append_crosses(columns, example, next + 1, pair_hash(hash, static_cast<std::uint64_t>(feature)), buckets, crosses);
}

/// Columns that are sparse, as the coordinates, the elements and the shapes of all, and behind them those that are not.
Tensors read_crosses(const ForeignNode& n) {
  const auto count = n.node.attr<std::int64_t>("N"), buckets = n.node.attr_or<std::int64_t>("num_buckets", 0);
  if (!n.node.attr_or<bool>("hashed_output", false)) lack(n, "texts");
  if (count < 0 || std::cmp_greater(count, n.inputs.size() / 3) || n.inputs.empty() || buckets < 0)
    n.node.refuse(detail::join("it has ", n.inputs.size(), " inputs for ", count, " sparse columns"));
  const auto sparse = static_cast<std::size_t>(count);
  std::vector<Column> columns;
  for (std::size_t i = 0; i < sparse; ++i) {
    const Numbers shape = n.numbers(2 * sparse + i);
    if (shape.size() != 2 || shape[0] < 0 || shape[0] > most_numbers)
      n.node.refuse(detail::join("a column has the shape ", Shape(shape)));
    columns.push_back(column_of(n, n.node.constant(i), n.node.constant(sparse + i), shape[0]));
  }
  for (std::size_t i = 3 * sparse; i < n.inputs.size(); ++i) columns.push_back(column_of(n, n.node.constant(i)));
  const auto key = static_cast<std::uint64_t>(n.node.attr_or<std::int64_t>("hash_key", 0));
  const auto most = static_cast<std::uint64_t>(buckets > 0 ? buckets : std::numeric_limits<std::int64_t>::max());
  Numbers coordinates, hashes;
  std::int64_t longest = 0;
  for (std::size_t example = 0; example < columns[0].size(); ++example) {
    std::int64_t size = 1;
    for (const Column& column : columns) {
      if (column.size() != columns[0].size()) n.node.refuse("its columns have several lengths");
      size = product(size, static_cast<std::int64_t>(column[example].size()));
    }
    if (size > most_numbers - static_cast<std::int64_t>(hashes.size())) n.node.refuse("it has too many crosses");
    append_crosses(columns, example, 0, key, most, hashes);
    for (std::int64_t i = 0; i < size; ++i)
      coordinates.insert(coordinates.end(), {static_cast<std::int64_t>(example), i});
    longest = std::max(longest, size);
  }
  return constant_nodes(n, {reshape(vector_of(coordinates, int64), {-1, 2}), vector_of(hashes, int64),
                            vector_of({static_cast<std::int64_t>(columns[0].size()), longest}, int64)});
}

}  // namespace

ForeignOps foreign_hashes() {
  return {
      {.name = hash_of_numbers,
       .inputs = 1,
       .values = {0},
       .specs = specs_of_hash,
       .read = read_hash,
       .write = write_hash},
      {.name = "SparseCross",
       .inputs = -1,
       .all_values = true,
       .outputs = {typed(int64), typed(int64), typed(int64)},
       .read = read_crosses},
  };
}

}  // namespace tapestry::io
