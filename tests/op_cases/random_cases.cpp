#include <limits>

#include "op_cases/op_cases.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/random.hpp"

namespace tapestry::test {
namespace {

using Inputs = std::vector<Tensor>;

}  // namespace

// Random ops have no reference; these rows hold what is true of any numbers that they draw.
OpCases random_cases() {
  OpCases rows;
  rows.push_back({.name = "random numbers have the shape asked for and lie where they should",
                  .inputs = {},
                  .f =
                      [](const Inputs&) {
                        const Tensor u = random::uniform({50}, {.low = -1, .high = 2, .dtype = float64});
                        const Tensor n = random::normal({50}, {.mean = 100, .stddev = 1, .dtype = float64});
                        const Tensor t = random::truncated_normal({50}, {.dtype = float64});
                        const Tensor i = random::randint(3, 5, {50});
                        const Tensor b = random::bernoulli({50}, 0.5, {.dtype = float64});
                        return stack({reduce_all(logical_and(greater_equal(u, -1.0), less(u, 2.0))),
                                      reduce_all(less(abs(n - 100.0), 10.0)), reduce_all(less_equal(abs(t), 2.0)),
                                      reduce_all(logical_or(equal(i, 3), equal(i, 4))),
                                      reduce_all(logical_or(equal(b, 0.0), equal(b, 1.0)))});
                      },
                  .reference = [](const std::vector<Elements>&) { return Elements(5, 1.0); },
                  .orders = 0});
  rows.push_back({.name = "permutation and shuffle",
                  .inputs = {numbers({6}, -1, 1, 131)},
                  .f =
                      [](const Inputs& x) {
                        return concat({sort(random::permutation(4, x[0].device())).cast(float64),
                                       sort(random::shuffle(x[0])) - sort(x[0])});
                      },
                  .reference = [](const std::vector<Elements>&) { return Elements{0, 1, 2, 3, 0, 0, 0, 0, 0, 0}; },
                  .orders = 0});
  rows.push_back(
      {.name = "categorical draws classes that are possible, the certain one always",
       .inputs = {numbers({3, 5}, -1, 1, 133)},
       .f =
           [](const Inputs& x) {
             const double never = -std::numeric_limits<double>::infinity();
             const Tensor drawn = random::categorical(x[0], 40);
             const Tensor certain = random::categorical(tensor({{never, never, 0.5, never}}).to(x[0].device()), 3);
             return concat({reshape(reduce_all(logical_and(greater_equal(drawn, 0), less(drawn, 5))), {1}),
                            equal(reshape(certain, {-1}), 2)});
           },
       .reference = [](const std::vector<Elements>&) { return Elements(4, 1.0); },
       .orders = 0});
  rows.push_back({.name = "dropout keeps an element or drops it",
                  .inputs = {numbers({40}, 0.5, 1, 132)},
                  .f =
                      [](const Inputs& x) {
                        const Tensor y = dropout(x[0], 0.25);
                        return reduce_all(logical_or(equal(y, 0.0), less(abs(y * 0.75 - x[0]), 1e-6)));
                      },
                  .reference = [](const std::vector<Elements>&) { return Elements{1}; },
                  .orders = 0});
  return rows;
}

}  // namespace tapestry::test
