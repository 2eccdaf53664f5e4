#include "io/onnx/onnx_ops.hpp"

#include <algorithm>
#include <unordered_map>

#include "dispatch/recorder.hpp"
#include "io/onnx/onnx_proto.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {

// ---- A node ----------------------------------------------------------------------------------------------------------

std::size_t OnnxCall::places() const {
  const auto* places = node_.find<ListDef>(onnx_places);
  return places ? places->ints.size() : node_.input_count();
}

std::optional<std::size_t> OnnxCall::input_at(std::size_t place) const {
  const auto* places = node_.find<ListDef>(onnx_places);
  if (places) {
    if (place >= places->ints.size() || places->ints[place] < 0) return {};
    place = static_cast<std::size_t>(places->ints[place]);
  }
  return place < node_.input_count() ? std::optional(place) : std::nullopt;
}

const Tensor& OnnxCall::operator[](std::size_t place) const {
  const auto at = input_at(place);
  if (!at) refuse(detail::join("it has no input ", place));
  return inputs_[static_cast<int>(*at)];
}

std::int64_t OnnxCall::size(int axis, std::size_t place) const {
  const Shape& whole = shape(place);
  if (axis < 0 || axis >= whole.rank())
    refuse(detail::join("its input ", place, " has the shape ", whole, ", where one with an axis ", axis, " is due"));
  return whole.sizes()[axis];
}

Tensor OnnxCall::find(std::size_t place) const {
  const auto at = input_at(place);
  return at ? inputs_[static_cast<int>(*at)] : Tensor();
}

bool OnnxCall::is_known(std::size_t place) const {
  const auto at = input_at(place);
  return at && node_.is_constant(*at);
}

Tensor OnnxCall::value(std::size_t place) const {
  const auto at = input_at(place);
  if (!at) refuse(detail::join("it has no input ", place));
  return node_.constant(*at);
}

std::vector<std::int64_t> OnnxCall::numbers(std::size_t place) const {
  const Tensor known = value(place);
  if ((known.dtype() != int32 && known.dtype() != int64) || known.rank() > 1)
    refuse(detail::join("its input ", place, " is ", to_string(known.dtype()), known.shape(),
                        ", where whole numbers are due"));
  return node_.listed(known);
}

std::int64_t OnnxCall::number(std::size_t place) const {
  const std::vector<std::int64_t> all = numbers(place);
  if (all.size() != 1) refuse(detail::join("its input ", place, " has ", all.size(), " elements"));
  return all[0];
}

double OnnxCall::real(std::size_t place) const {
  const Tensor known = value(place);
  if (known.size() != 1) refuse(detail::join("its input ", place, " has the shape ", known.shape()));
  return known.cast(float64).to_vector<double>()[0];
}

std::vector<std::int64_t> OnnxCall::numbers(std::string_view attr, std::size_t place) const {
  if (has(place)) return numbers(place);
  return ints(attr);
}

std::int64_t OnnxCall::whole(std::string_view attr, std::int64_t otherwise) const {
  return node_.attr_or<std::int64_t>(attr, otherwise);
}

double OnnxCall::real(std::string_view attr, double otherwise) const {
  return has_attr(attr) ? static_cast<double>(node_.attr<float>(attr)) : otherwise;
}

std::string OnnxCall::text(std::string_view attr, std::string_view otherwise) const {
  return node_.attr_or<std::string>(attr, std::string(otherwise));
}

std::vector<std::int64_t> OnnxCall::ints(std::string_view attr, std::vector<std::int64_t> otherwise) const {
  if (has_attr(attr)) return node_.attr<ListDef>(attr).ints;
  return otherwise;
}

DType OnnxCall::type(std::string_view attr) const {
  const std::int64_t code = whole(attr);
  const DType dtype = dtype_of(type_of_onnx(code));
  if (size_of(dtype) == 0) lack(detail::join("type number ", code));
  return dtype;
}

int OnnxCall::axis(std::int64_t given, std::size_t place) const { return normalize_axis(given, rank(place)); }

void OnnxCall::lack(std::string_view what) const {
  throw UnimplementedError(
      detail::join("Node '", node_.def().name, "' (op: '", node_.def().op, "'): Tapestry lacks ", what));
}

// ---- The tables ------------------------------------------------------------------------------------------------------

namespace {

std::string_view row_name(std::string_view name) {
  constexpr std::string_view own = "ai.onnx::";
  return name.starts_with(own) ? name.substr(own.size()) : name;
}

const OnnxOp& row_of(const NodeReader& reader);

std::vector<std::size_t> onnx_value_inputs(const NodeReader& reader) {
  const OnnxOp& row = row_of(reader);
  const OnnxCall call(reader, {});
  if (call.places() < row.least || call.places() > row.most)
    reader.refuse(detail::join("it has ", call.places(), " inputs"));
  const auto* places = reader.find<ListDef>(onnx_places);
  std::vector<std::size_t> inputs;
  for (const std::size_t place : row.values) {
    if (!call.has(place)) continue;
    inputs.push_back(places ? static_cast<std::size_t>(places->ints[place]) : place);
  }
  return inputs;
}

bool lacks_sizes_of_onnx(const NodeReader& reader, const Tensors& inputs) {
  const OnnxOp& row = row_of(reader);
  return row.lacks && row.lacks(OnnxCall(reader, inputs));
}

Tensors read_onnx_op(const ForeignNode& n) {
  const OnnxOp& row = row_of(n.node);
  const OnnxCall call(n.node, n.inputs);
  return n.composed([&] {
    Tensors results = row.read(call);
    if (results.size() < call.outputs()) call.lack(detail::join("its output ", results.size()));
    results.resize(std::max<std::size_t>(call.outputs(), 1));
    return results;
  });
}

/// Whether all outputs of an op have the rank of the first one.
bool have_one_rank(std::string_view op) { return op == "Split" || op == "TopK" || op == "MaxPool" || op == "Dropout"; }

Specs onnx_specs(const NodeReader& reader, const Tensors& inputs) {
  const OnnxOp& row = row_of(reader);
  const OnnxCall call(reader, inputs);
  Specs specs(std::max<std::size_t>(call.outputs(), 1), Spec{DType::unknown, Shape::unknown_rank()});
  const std::vector<DType> types = row.types           ? row.types(call)
                                   : call.places() > 0 ? std::vector<DType>{call.dtype()}
                                                       : std::vector<DType>();
  for (std::size_t i = 0; i < std::min<std::size_t>(types.size(), specs.size()); ++i)
    specs[static_cast<int>(i)].dtype = types[i];
  const int rank = row.rank ? row.rank(call) : -1;
  if (rank >= 0 && rank <= Shape::max_rank)
    for (std::size_t i = 0; i < (have_one_rank(row.name) ? specs.size() : 1); ++i)
      specs[static_cast<int>(i)].shape = Shape(std::vector<std::int64_t>(static_cast<std::size_t>(rank), -1));
  return specs;
}

struct OnnxTable {
  std::unordered_map<std::string_view, OnnxOp> rows;
  std::unordered_map<std::string_view, ForeignOp> ops;
};

const OnnxTable& onnx_table() {
  static const auto& table = *new OnnxTable([] {
    OnnxTable made;
    for (const OnnxOps& rows :
         {onnx_elementwise(), onnx_bits(), onnx_arrays(), onnx_indexing(), onnx_selection(), onnx_reductions(),
          onnx_images(), onnx_networks(), onnx_attention(), onnx_quantization(), onnx_recurrent(), onnx_sequences()})
      for (const OnnxOp& each : rows) {
        made.rows.emplace(each.name, each);
        made.ops.emplace(each.name, ForeignOp{.name = each.name,
                                              .inputs = -1,
                                              .lacks_sizes = each.lacks ? lacks_sizes_of_onnx : nullptr,
                                              .find_values = onnx_value_inputs,
                                              .takes_parts = each.takes_parts,
                                              .specs = onnx_specs,
                                              .read = read_onnx_op,
                                              .write = write_onnx_as_tensorflow});
      }
    return made;
  }());
  return table;
}

const OnnxOp& row_of(const NodeReader& reader) { return onnx_table().rows.at(row_name(reader.def().op)); }

}  // namespace

const ForeignOp* find_onnx_op(const NodeDef& def) {
  const auto& ops = onnx_table().ops;
  const auto found = ops.find(row_name(def.op));
  return found == ops.end() ? nullptr : &found->second;
}

std::vector<std::size_t> onnx_fixed_places(const std::string& op) {
  const auto& rows = onnx_table().rows;
  const auto found = rows.find(row_name(op));
  if (found == rows.end()) return {};
  std::vector<std::size_t> places = found->second.values;
  places.insert(places.end(), found->second.statistics.begin(), found->second.statistics.end());
  return places;
}

// ---- Conditions, types, parts ----------------------------------------------------------------------------------------

bool onnx_lacks_rank(const OnnxCall& c) { return c.has(0) && !c.shape().has_rank(); }

bool onnx_lacks_ranks(const OnnxCall& c) {
  for (std::size_t i = 0; i < c.places(); ++i)
    if (const Tensor x = c.find(i); bool(x) && !x.shape().has_rank()) return true;
  return false;
}

bool onnx_lacks_sizes(const OnnxCall& c) { return !c.shape().is_known(); }

bool onnx_lacks_any_size(const OnnxCall& c) {
  for (std::size_t i = 0; i < c.places(); ++i)
    if (const Tensor x = c.find(i); bool(x) && !x.shape().is_known()) return true;
  return false;
}

bool onnx_lacks_plane(const OnnxCall& c) {
  if (onnx_lacks_ranks(c)) return true;
  for (int i = 1; i < c.rank(); ++i)
    if (c.size(i) < 0) return true;
  return false;
}

std::vector<DType> onnx_type_bool(const OnnxCall&) { return {boolean}; }
std::vector<DType> onnx_type_int64(const OnnxCall&) { return {int64}; }
int onnx_rank_of_input(const OnnxCall& c) { return c.rank(); }

Ints onnx_range(std::int64_t first, std::int64_t last) {
  Ints list;
  for (; first < last; ++first) list.push_back(first);
  return list;
}

Tensor onnx_cut(const Tensor& x, const std::vector<OnnxCut>& cuts) {
  if (cuts.empty()) return x;
  const auto rank = static_cast<std::size_t>(x.shape().rank());
  const std::int64_t whole = (std::int64_t{1} << rank) - 1;  // a bit for each axis that is taken as it is
  Ints begin(rank, 0), end(rank, 0), strides(rank, 1), masks{whole, whole, 0, 0, 0};
  for (const OnnxCut& each : cuts) {
    const auto axis = static_cast<std::size_t>(each.axis);
    begin[axis] = each.start;
    end[axis] = each.stop;
    strides[axis] = each.step;
    for (int mask : {0, 1}) masks[mask] &= ~(std::int64_t{1} << axis);
  }
  static const Op& strided_slice = *rule_of("StridedSlice")->entry;
  return apply(strided_slice, {x}, {{"begin", begin}, {"end", end}, {"strides", strides}, {"masks", masks}});
}

Ints onnx_moved(int rank, int from, int to) {
  Ints perm;
  for (int i = 0; i < rank; ++i)
    if (i != from) perm.push_back(i);
  perm.insert(perm.begin() + to, from);
  return perm;
}

}  // namespace tapestry::io
