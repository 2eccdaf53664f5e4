#include "ops/sparse.hpp"

#include "dispatch/deferred.hpp"
#include "dispatch/recorder.hpp"
#include "ops/handles.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/selection.hpp"

namespace tapestry {
namespace {

const Attrs& along_rows() {
  static const Attrs& attrs = *new Attrs{{"axis", std::int64_t{0}}};
  return attrs;
}

}  // namespace

std::optional<IndexedSlices> indexed_slices(const Tensor& gradient, Where where) {
  const Call* call = call_of(gradient);
  if (!call || &call->op() != &ops::unsorted_segment_sum || call->attrs() != along_rows()) return {};
  const Tensor &indices = call->input(0), &values = call->input(1), &table = call->input(2);
  if (!indices.shape().has_rank() || !values.shape().has_rank() || !table.shape().has_rank()) return {};
  if (indices.rank() == 1) return IndexedSlices{indices, values};
  const CallSiteScope site(where);
  Shape rows{indices.shape().num_elements()};
  for (int axis = 1; axis < table.rank(); ++axis) rows.push_back(table.shape()[axis]);
  return IndexedSlices{reshape(indices, {rows[0]}), reshape(values, rows)};
}

Tensor to_tensor(const IndexedSlices& slices, In like) {
  return apply_deferred(ops::unsorted_segment_sum, {slices.indices, slices.values, like.tensor()}, along_rows(),
                        like.where());
}

Tensor add_gradients(const Tensor& a, const Tensor& b) {
  const std::optional<IndexedSlices> x = indexed_slices(a), y = x ? indexed_slices(b) : std::nullopt;
  if (!x || !y || x->values.dtype() != y->values.dtype()) return add(a, b);
  const DType type = x->indices.dtype() == y->indices.dtype() ? x->indices.dtype() : int64;
  return to_tensor({concat({x->indices.cast(type), y->indices.cast(type)}, 0), concat({x->values, y->values}, 0)}, a);
}

Tensor elements_of(const Tensor& gradient) {
  const std::optional<IndexedSlices> slices = indexed_slices(gradient);
  if (!slices) return gradient;
  // The sums are in the first rows, and the other rows are 0: so the shape does not depend on values.
  return apply(ops::unsorted_segment_sum, {unique(slices->indices).inverse, slices->values, slices->values},
               along_rows());
}

}  // namespace tapestry
