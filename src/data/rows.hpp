#pragma once

#include <cstdint>

#include "tapestry/data/dataset.hpp"

namespace tapestry::data {

/// Throws unless x and y are there and have the same number of rows.
void check_rows(const Dataset& dataset, Where where);

/// The same for any number of arrays.
void check_rows(const Tensors& arrays, Where where);

/// The numbers 0 ... n-1 (int64 [n]) in an order that the seed and the epoch alone decide.
Tensor shuffled_rows(std::int64_t n, std::uint64_t seed, std::int64_t epoch);

/// The rows of those numbers, by one gather of each array.
Tensors gather_rows(const Tensors& arrays, const Tensor& rows);
/// The rows from `begin` to before `end`, as views.
Tensors slice_rows(const Tensors& arrays, std::int64_t begin, std::int64_t end);

}  // namespace tapestry::data
