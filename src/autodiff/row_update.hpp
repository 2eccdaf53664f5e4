#pragma once

#include "autodiff/variable_cell.hpp"
#include "tapestry/sparse.hpp"

namespace tapestry {

/// The rows of a row-sparse gradient for `variable`, each once (Backend::sum_rows). Throws InvalidArgumentError for an
/// index outside the Variable's rows, in the words of `gather`.
IndexedSlices summed_rows(const IndexedSlices& slices, const Variable& variable);

/// As `update_in_place`, but makes the step for some rows only, those of `summed_rows`. The other rows of the Variable
/// and of its slots stay as they are.
void update_rows_in_place(Update formula, const Tensor& numbers, const IndexedSlices& rows,
                          std::span<const Variable> variable_and_slots);

}  // namespace tapestry
