// What holds for recurrent networks: they go on from a state, in both directions, over sequences of unequal lengths.

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "refused.hpp"
#include "same_bits.hpp"
#include "tapestry/tapestry.hpp"

namespace nn_recurrent_test {

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("a recurrent network goes on from the state that it gave") {
  random::seed(7);
  const nn::LSTM lstm(3, 4, {.layers = 2});
  const Tensor x = random::normal({2, 6, 3});
  const auto whole = lstm(x);
  const auto first = lstm(x(all, range(0, 4)));
  const auto rest = lstm(x(all, range(4, 6)), first.state);
  check_same(rest.output, whole.output(all, range(4, 6)), 1e-6);
  check_same(rest.state.h, whole.state.h, 1e-6);
  check_same(rest.state.c, whole.state.c, 1e-6);
  CHECK(whole.state.c.shape() == Shape{2, 2, 4});
}

TEST_CASE("the second direction of a recurrent network is another one on the reversed sequence") {
  random::seed(8);
  for (const bool batch_first : {true, false}) {
    const nn::GRU both(3, 4, {.batch_first = batch_first, .bidirectional = true});
    nn::GRU forward(3, 4, {.batch_first = batch_first}), back(3, 4, {.batch_first = batch_first});
    forward.layers[0] = both.layers[0];
    back.layers[0] = both.layers[1];
    const Tensor x = random::normal({5, 6, 3}), state = random::normal({2, batch_first ? 5 : 6, 4});
    const int time = batch_first ? 1 : 0;
    const auto found = both(x, state);
    const auto first = forward(x, state(range(0, 1))), second = back(flip(x, time), state(range(1, 2)));
    check_same(found.output, concat({first.output, flip(second.output, time)}, -1), 1e-6);
    check_same(found.state, concat({first.state, second.state}, 0), 1e-6);
  }
}

namespace {

/// The output and the last states of a recurrent network as a list.
template <class Network>
std::vector<Tensor> all_of(const Network& network, const Tensor& x, const Tensor& state, const Tensor& lengths = {}) {
  if constexpr (std::is_same_v<Network, nn::LSTM>) {
    const auto result = network(x, {state, state * 0.5}, lengths);
    return {result.output, result.state.h, result.state.c};
  } else {
    const auto result = network(x, state, lengths);
    return {result.output, result.state};
  }
}

/// Each sequence of a padded batch gives what it gives alone, with its gradients, whatever the padding holds.
template <class Network>
void check_lengths(const Network& network, bool batch_first, std::int64_t states) {
  const std::vector<std::int64_t> sizes = {4, 1, 0, 6, 3};
  const auto batch = static_cast<std::int64_t>(sizes.size()), most = std::int64_t{6};
  const Tensor x = random::normal({batch, most, 3}), state = random::normal({states, batch, 4});
  const auto in_order = [&](const Tensor& rows) { return batch_first ? rows : transpose(rows, {1, 0, 2}); };
  const Tensor mask = expand_dims(less(arange(most), tensor(sizes, {batch, 1})), 2);
  const auto loss = [](const std::vector<Tensor>& results) {
    Tensor sum = tensor(0.0);
    for (const Tensor& each : results) sum = sum + reduce_sum(sin(each));
    return sum;
  };
  const auto run = [&](const Tensor& rows, const Tensor& first, const Tensor& lengths) {
    GradientTape tape;
    const std::vector<Tensor> results = all_of(network, in_order(rows), first, lengths);
    std::vector<Tensor> list = results;
    for (const Tensor& each : tape.gradient(loss(results), network.parameters())) list.push_back(each);
    return list;
  };
  const std::vector<Tensor> found = run(where(mask, x, 0.0), state, tensor(sizes));
  for (const double padding : {1e30, -std::numeric_limits<double>::infinity(), std::nan("")}) {
    const std::vector<Tensor> same = run(where(mask, x, padding), state, tensor(sizes));
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(same[i], found[i]));
  }
  std::vector<Tensor> sums;
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::int64_t size = sizes[static_cast<std::size_t>(i)];
    const Tensor first = state(all, range(i, i + 1));
    const Tensor own = in_order(in_order(found[0])(range(i, i + 1)));
    check_same(in_order(own)(0, range(size, most)), zeros({most - size, found[0].shape()[2]}));
    if (size == 0) {
      check_same(found[1](all, i), state(all, i));
      continue;
    }
    const std::vector<Tensor> alone = run(x(range(i, i + 1), range(0, size)), first, {});
    check_same(in_order(own)(range(0, 1), range(0, size)), in_order(alone[0]), 1e-6);
    const std::size_t kinds = std::is_same_v<Network, nn::LSTM> ? 3 : 2;
    for (std::size_t k = 1; k < kinds; ++k) check_same(found[k](all, range(i, i + 1)), alone[k], 1e-6);
    if (sums.empty())
      sums.assign(alone.begin() + static_cast<std::ptrdiff_t>(kinds), alone.end());
    else
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] = sums[k] + alone[kinds + k];
  }
  for (std::size_t k = 0; k < sums.size(); ++k) check_same(found[found.size() - sums.size() + k], sums[k], 1e-5);
  // As a pack, eagerly and in a trace that knows neither the batch nor the number of steps.
  const auto as_pack = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const nn::PackedSequence pack = nn::pack_padded_sequence(in[0], in[2], batch_first);
    if constexpr (std::is_same_v<Network, nn::LSTM>) {
      const auto result = network(pack, {in[1], in[1] * 0.5});
      return {nn::pad_packed_sequence(result.output, batch_first).output, result.state.h, result.state.c};
    } else {
      const auto result = network(pack, in[1]);
      return {nn::pad_packed_sequence(result.output, batch_first).output, result.state};
    }
  };
  const std::vector<Tensor> packed = as_pack({in_order(x), state, tensor(sizes)});
  for (std::size_t i = 0; i < packed.size(); ++i) CHECK(same_bits(packed[i], found[i]));
  const auto packed_trace =
      trace(as_pack, {spec(float32, {-1, -1, 3}), spec(float32, {states, -1, 4}), spec(int64, {-1})});
  check_same_bits(packed_trace({in_order(x), state, tensor(sizes)}), packed);
  // In a trace neither the batch nor the number of steps need be known.
  const auto traced = trace([&](const std::vector<Tensor>& in) { return run(in[0], in[1], in[2]); },
                            {spec(float32, {-1, -1, 3}), spec(float32, {states, -1, 4}), spec(int64, {-1})});
  const std::vector<Tensor> again = traced({where(mask, x, 0.0), state, tensor(sizes)});
  for (std::size_t i = 0; i < again.size(); ++i) CHECK(same_bits(again[i], found[i]));
}

}  // namespace

TEST_CASE("sequences of unequal lengths give what each gives alone") {
  random::seed(9);
  for (const bool batch_first : {true, false})
    for (const bool bidirectional : {false, true})
      for (const std::int64_t layers : {1, 2}) {
        const nn::RecurrentOptions options{
            .layers = layers, .batch_first = batch_first, .bidirectional = bidirectional};
        const std::int64_t states = layers * (bidirectional ? 2 : 1);
        CAPTURE(batch_first);
        CAPTURE(bidirectional);
        CAPTURE(layers);
        check_lengths(nn::RNN(3, 4, options), batch_first, states);
        check_lengths(nn::GRU(3, 4, options), batch_first, states);
        check_lengths(nn::LSTM(3, 4, options), batch_first, states);
      }
}

TEST_CASE("lengths that do not fit are refused") {
  const nn::GRU gru(3, 4);
  const Tensor x = zeros({2, 5, 3});
  TAPESTRY_REFUSED(InvalidArgumentError, "lengths[1] = 6 is not in [0, 5]", gru(x, {}, tensor({1, 6})));
  TAPESTRY_REFUSED(InvalidArgumentError, "lengths[0] = -1 is not in [0, 5]", gru(x, {}, tensor({-1, 5})));
  for (const Shape& shape : {Shape{2, 5, 3}, Shape{-1, -1, 3}}) {
    const auto output = trace([&](Tensor v, Tensor n) { return gru(v, {}, n).output; },
                              {spec(float32, shape), spec(int32, {shape.sizes()[0]})});
    check_same(output(x, tensor({0, 5})), gru(x, {}, tensor({0, 5})).output);
    CHECK_THROWS_WITH_AS(output(x, tensor({1, 6})), doctest::Contains("indices[1] = 6 is not in [0, 6)"),
                         InvalidArgumentError);
    CHECK_THROWS_WITH_AS(output(x, tensor({-1, 5})), doctest::Contains("indices[0] = -1 is not in [0, 6)"),
                         InvalidArgumentError);
  }
  TAPESTRY_REFUSED(InvalidArgumentError, "lengths must be int32 or int64 [batch]", gru(x, {}, tensor({1, 2, 3})));
  TAPESTRY_REFUSED(InvalidArgumentError, "lengths must be int32 or int64 [batch]", gru(x, {}, tensor({1.0, 2.0})));
  TAPESTRY_REFUSED(InvalidArgumentError, "lengths[1] = 6 is not in [0, 5]", reverse_sequence(x, tensor({1, 6})));
  TAPESTRY_REFUSED(InvalidArgumentError, "lengths[1] = 6 is not in [0, 5] [Op:ReverseSequence]",
                   trace(
                       [](const Tensor& y) {
                         return reverse_sequence(y, tensor({1, 6}));
                       },
                       {spec(x.dtype(), x.shape())}));
  TAPESTRY_REFUSED(InvalidArgumentError, "is the batch axis, too", reverse_sequence(x, tensor({1, 2}), 0, 0));
  const auto traced = trace([&](const Tensor& lengths) { return gru(x, {}, lengths).state; }, {spec(int32, {2})});
  const auto reversed = trace([&](const Tensor& lengths) { return reverse_sequence(x, lengths); }, {spec(int32, {2})});
  const auto ragged = trace([&](const Tensor& lengths) { return padded_to_ragged(x, lengths); }, {spec(int32, {2})});
  for (const int wrong : {6, -1}) {
    CHECK_THROWS_AS(traced(tensor({1, wrong})), InvalidArgumentError);
    CHECK_THROWS_AS(reversed(tensor({1, wrong})), InvalidArgumentError);
    CHECK_THROWS_AS(ragged(tensor({1, wrong})), InvalidArgumentError);
  }
  TAPESTRY_REFUSED(InvalidArgumentError, "lengths[1] = 6 is not in [0, 5]", padded_to_ragged(x, tensor({1, 6})));
  TAPESTRY_REFUSED(InvalidArgumentError, "lengths[0] = -1 is negative", ragged_to_padded(x, tensor({-1, 2})));
}

namespace {

template <class Network>
void check_traces(const nn::RecurrentOptions& options, DType dtype) {
  Network network(5, 17, options);
  network.to(dtype);
  const auto f = [&](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    std::vector<Source> sources{x};
    for (const Variable& each : network.parameters()) sources.emplace_back(each);
    return tape.gradient(reduce_sum(sin(network(x).output)), sources);
  };
  const Tensor x = random::normal({7, 23, 5}, {.dtype = dtype});
  const std::vector<Tensor> expected = f(x);
  for (const Shape& shape : {Shape{-1, -1, 5}, Shape{7, -1, 5}, Shape{-1, 23, 5}, Shape{7, 23, 5}}) {
    CAPTURE(shape);
    const std::vector<Tensor> found = trace(f, {spec(dtype, shape)})(x);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
  }
}

}  // namespace

TEST_CASE("the gradients of recurrent networks have the same bits in a trace that does not know the sizes") {
  random::seed(11);
  for (const nn::RecurrentOptions& options : std::vector<nn::RecurrentOptions>{
           {}, {.batch_first = false}, {.layers = 2, .bidirectional = true}, {.bias = false}})
    for (const DType dtype : {float32, float64}) {
      check_traces<nn::RNN>(options, dtype);
      check_traces<nn::GRU>(options, dtype);
      check_traces<nn::LSTM>(options, dtype);
    }
}

}  // namespace nn_recurrent_test
