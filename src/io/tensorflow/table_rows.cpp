#include "io/tensorflow/table_rows.hpp"

#include "ops/bitcast.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::io {

bool is_table(const Variable& variable) {
  const Shape& shape = variable.shape();
  return variable.dtype() == int64 && shape.rank() == 2 && shape.sizes()[0] < 0 && shape.sizes()[1] > 0;
}

bool has_rows(DType dtype) {
  return dtype == float32 || dtype == float64 || dtype == int32 || dtype == int64 || dtype == boolean;
}

Tensor rows_of_table(const Tensor& keys, const Tensor& values, const Shape& value_shape) {
  const Tensor elements = reshape(values, {-1, value_shape.num_elements()});
  const Tensor words = elements.dtype() == float32   ? bitcast(elements, int32).cast(int64)
                       : elements.dtype() == float64 ? bitcast(elements, int64)
                                                     : elements.cast(int64);
  return concat({reshape(keys.cast(int64), {-1, 1}), words}, 1);
}

Tensor values_of_rows(const Tensor& columns, DType dtype, const Shape& value_shape) {
  const Tensor elements = dtype == float32   ? bitcast(columns.cast(int32), float32)
                          : dtype == float64 ? bitcast(columns, float64)
                                             : columns.cast(dtype);
  Shape shape{-1};
  for (const std::int64_t each : value_shape.sizes()) shape.push_back(each);
  return reshape(elements, shape);
}

Tensor empty_table(const Shape& value_shape) { return zeros({0, 1 + value_shape.num_elements()}, {.dtype = int64}); }

}  // namespace tapestry::io
