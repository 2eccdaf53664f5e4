// Packs of sequences. What networks make of them is compared with padded sequences in nn_recurrent_test.

#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"

namespace nn_packed_test {

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("a pack has the form of PyTorch's") {
  const Tensor x = tensor({{1, 2, 0}, {3, 0, 0}, {4, 5, 6}, {7, 8, 0}});
  const nn::PackedSequence pack = nn::pack_padded_sequence(x, tensor({2, 1, 3, 2}));
  check_values(pack.data, {4, 1, 7, 3, 5, 2, 8, 6});
  check_values(pack.batch_sizes, {4, 3, 1});
  check_values(pack.sorted_indices, {2, 0, 3, 1});
  check_values(pack.unsorted_indices, {1, 3, 0, 2});
  const nn::PackedSequence same = nn::pack_sequence({tensor({1, 2}), tensor({3}), tensor({4, 5, 6}), tensor({7, 8})});
  check_same_bits({same.data, same.batch_sizes, same.sorted_indices, same.unsorted_indices},
                  {pack.data, pack.batch_sizes, pack.sorted_indices, pack.unsorted_indices});
  const nn::PaddedSequences back = nn::pad_packed_sequence(pack, false, -1);
  check_same(back.output, transpose(where(equal(x, 0), -1, x)));
  check_values(back.lengths, {2, 1, 3, 2});
  // Gradients reach what is no padding.
  const Tensor rows = random::normal({3, 4, 2});
  GradientTape tape;
  tape.watch(rows);
  const nn::PackedSequence some = nn::pack_padded_sequence(rows, tensor({1, 0, 3}));
  const Tensor sum = reduce_sum(square(some.data)) + reduce_sum(nn::pad_packed_sequence(some).output);
  const Tensor used = expand_dims(less(arange(4), tensor({1, 0, 3}, {3, 1})), 2);
  check_same(tape.gradient(sum, rows), where(used, 2 * rows + 1, zeros_like(rows)), 1e-6);

  const auto pack_of = [&](const Tensor& lengths) { return nn::pack_padded_sequence(x, lengths).data; };
  const auto traced = trace(pack_of, {spec(int32, {-1})});
  for (const Tensor& wrong : {tensor({1, 2, 4, 1}), tensor({1, 2, -1, 1}), tensor({1, 2, 3})}) {
    CHECK_THROWS_AS(pack_of(wrong), InvalidArgumentError);
    CHECK_THROWS_AS(traced(wrong), InvalidArgumentError);
  }
  TAPESTRY_REFUSED(InvalidArgumentError, "x must be [batch, time, ...]",
                   nn::pack_padded_sequence(ones({3}), tensor({1})));
  TAPESTRY_REFUSED(InvalidArgumentError, "There is no sequence to pack", nn::pack_sequence(std::vector<Tensor>()));
  TAPESTRY_REFUSED(InvalidArgumentError, "The data of the pack must be [sum of lengths, 3]", nn::GRU(3, 4)(pack));
}

}  // namespace nn_packed_test
