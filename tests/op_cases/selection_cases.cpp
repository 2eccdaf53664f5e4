// Ops whose results have sizes that depend on values.

#include "op_cases.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test {
namespace {

using Inputs = std::vector<Tensor>;
using Arguments = std::vector<Elements>;

Tensor mask_like(const Tensor& device_of, const Tensor& mask) { return mask.to(device_of.device()); }

}  // namespace

OpCases selection_cases() {
  const Tensor mask = tensor({{true, false, true}, {false, true, true}});
  const Tensor rows_mask = tensor({false, true, true, false});
  OpCases rows;
  rows.push_back({.name = "nonzero",
                  .inputs = {mask},
                  .f = [](const Inputs& x) { return nonzero(x[0]); },
                  .reference = [](const Arguments&) -> Elements { return {0, 0, 0, 2, 1, 1, 1, 2}; },
                  .orders = 0,
                  .open = true});
  rows.push_back({.name = "boolean_mask",
                  .inputs = {numbers({2, 3}, -2, 2, 71)},
                  .f = [mask](const Inputs& x) { return boolean_mask(x[0], mask_like(x[0], mask)); },
                  .reference = [](const Arguments& x) -> Elements {
                    return {x[0][0], x[0][2], x[0][4], x[0][5]};
                  },
                  .open = true});
  rows.push_back({.name = "boolean_mask of rows",
                  .inputs = {numbers({4, 2}, -2, 2, 72)},
                  .f = [rows_mask](const Inputs& x) { return x[0](mask_like(x[0], rows_mask)); },
                  .reference = [](const Arguments& x) -> Elements {
                    return {x[0][2], x[0][3], x[0][4], x[0][5]};
                  },
                  .open = true});
  rows.push_back({.name = "masked_assign",
                  .inputs = {numbers({2, 3}, -2, 2, 73), numbers({4}, -2, 2, 74)},
                  .f = [mask](const Inputs& x) { return masked_assign(x[0], mask_like(x[0], mask), x[1]); },
                  .reference = [](const Arguments& x) -> Elements {
                    return {x[1][0], x[0][1], x[1][1], x[0][3], x[1][2], x[1][3]};
                  }});
  rows.push_back({.name = "unique",
                  .inputs = {tensor({5, 3, 5, 5, -1, 3}).cast(int64)},
                  .f =
                      [](const Inputs& x) {
                        const Unique found = unique(x[0]);
                        return concat({found.values, found.inverse.cast(int64), found.counts.cast(int64)});
                      },
                  .reference = [](const Arguments&) -> Elements { return {5, 3, -1, 0, 1, 0, 0, 2, 1, 3, 2, 1}; },
                  .orders = 0,
                  .open = true});
  rows.push_back(
      {.name = "dynamic_partition and dynamic_stitch",
       .inputs = {numbers({4, 2}, -2, 2, 75)},
       .f =
           [](const Inputs& x) {
             const Tensor numbers_of_rows = tensor({1, 0, 1, 0}).to(x[0].device());
             const std::vector<Tensor> parts = dynamic_partition(x[0], numbers_of_rows, 2);
             return dynamic_stitch({tensor({0, 3}).to(x[0].device()), tensor({1, 4}).to(x[0].device())}, parts);
           },
       .reference = [](const Arguments& x) -> Elements {
         return {x[0][2], x[0][3], x[0][0], x[0][1], 0, 0, x[0][6], x[0][7], x[0][4], x[0][5]};
       },
       .open = true});
  rows.push_back({.name = "dynamic_stitch of equal indices",
                  .inputs = {numbers({3, 2}, -2, 2, 76), numbers({2, 2}, -2, 2, 77)},
                  .f =
                      [](const Inputs& x) {
                        const Device device = x[0].device();
                        return dynamic_stitch({tensor({0, 2, 0}).to(device), tensor({2, 1}).to(device)}, x);
                      },
                  .reference = [](const Arguments& x) -> Elements {
                    return {x[0][4], x[0][5], x[1][2], x[1][3], x[1][0], x[1][1]};
                  },
                  .open = true});
  rows.push_back({.name = "sequence_mask",
                  .inputs = {tensor({1, 0, 3}).cast(int64)},
                  .f = [](const Inputs& x) { return sequence_mask(x[0]); },
                  .reference = [](const Arguments&) -> Elements { return {1, 0, 0, 0, 0, 0, 1, 1, 1}; },
                  .orders = 0,
                  .open = true});
  rows.push_back({.name = "reverse_sequence",
                  .inputs = {numbers({3, 2, 2}, -2, 2, 77)},
                  .f =
                      [](const Inputs& x) {
                        return reverse_sequence(x[0], tensor({3, 2}).to(x[0].device()), 0, 1);
                      },
                  .reference = [](const Arguments& x) -> Elements {
                    // [time, batch, 2]: the first sequence has three elements, the second has two.
                    return {x[0][8], x[0][9], x[0][6], x[0][7], x[0][4],  x[0][5],
                            x[0][2], x[0][3], x[0][0], x[0][1], x[0][10], x[0][11]};
                  }});
  rows.push_back({.name = "ragged_to_padded",
                  .inputs = {numbers({4, 2}, -2, 2, 76)},
                  .f =
                      [](const Inputs& x) {
                        return ragged_to_padded(x[0], tensor({1, 0, 3}).to(x[0].device()), 9.0);
                      },
                  .reference = [](const Arguments& x) -> Elements {
                    Elements y(18, 9.0);
                    for (std::size_t i = 0; i < 2; ++i) y[i] = x[0][i];
                    for (std::size_t i = 0; i < 6; ++i) y[12 + i] = x[0][2 + i];
                    return y;
                  },
                  .open = true});
  return rows;
}

}  // namespace tapestry::test
