// What modules refuse: inputs that do not fit, eagerly and where only a run knows it, and classes that name no parts.

#include "expect.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"

namespace nn_bad_use_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// A layer, a shape that it does not take, and what the error says.
struct Misfit {
  std::string name;
  std::function<Tensor(const Tensor&)> layer;
  Shape shape;
  std::string text;
};

template <class L>
std::function<Tensor(const Tensor&)> evaluated(L layer) {
  layer.eval();
  return [layer](const Tensor& x) { return layer(x); };
}

std::vector<Misfit> misfits() {
  return {
      {"batch norm of more", evaluated(nn::BatchNorm(1)), {2, 3}, "x must be [..., 1], but its shape is [2,3]"},
      {"batch norm of one", evaluated(nn::BatchNorm(3)), {2, 1}, "x must be [..., 3], but its shape is [2,1]"},
      {"layer norm of more", evaluated(nn::LayerNorm(1)), {2, 3}, "x must be [..., 1], but its shape is [2,3]"},
      {"layer norm of one", evaluated(nn::LayerNorm(3)), {2, 1}, "x must be [..., 3], but its shape is [2,1]"},
      {"rms norm of more", evaluated(nn::RMSNorm(1)), {2, 3}, "x must be [..., 1], but its shape is [2,3]"},
      {"rms norm of one", evaluated(nn::RMSNorm(3)), {2, 1}, "x must be [..., 3], but its shape is [2,1]"},
      {"rms norm of a scalar", evaluated(nn::RMSNorm(3)), {}, "x must be [..., 3], but its shape is []"},
      {"group norm of one",
       evaluated(nn::GroupNorm(1, 3)),
       {2, 1},
       "x must be [batch, ..., 3], but its shape is [2,1]"},
      {"group norm of a vector",
       evaluated(nn::GroupNorm(1, 3)),
       {3},
       "GroupNorm(1, 3) got [3]: x must be [batch, ..., 3], but its shape is [3]"},
      {"sequences of one",
       evaluated(nn::Conv1D(3, 4, 1)),
       {2, 5, 1},
       "Conv1D(3, 4, 1) got [2,5,1]: x must be [batch, time, 3], but its shape is [2,5,1]"},
      {"an image as sequences",
       evaluated(nn::Conv1D(3, 4, 1)),
       {2, 5, 5, 3},
       "x must be [batch, time, 3], but its shape is [2,5,5,3]"},
      {"positions of one",
       evaluated(nn::PositionEmbedding(3, 4)),
       {2, 2, 1},
       "x must be [batch, time, 4], but its shape is [2,2,1]"},
      {"positions of more",
       evaluated(nn::PositionEmbedding(3, 1)),
       {1, 2, 3},
       "x must be [batch, time, 1], but its shape is [1,2,3]"},
      {"positions of a matrix",
       evaluated(nn::PositionEmbedding(3, 4)),
       {3, 4},
       "PositionEmbedding(3, 4) got [3,4]: x must be [batch, time, features], but its shape is [3,4]"},
  };
}

TEST_CASE("a size that would be broadcast is refused eagerly, in a trace and in a run") {
  for (const Misfit& each : misfits()) {
    INFO(each.name);
    const auto eager = caught<InvalidArgumentError>([&] { each.layer(ones(each.shape)); });
    CHECK_MESSAGE(std::string(eager.what()).find(each.text) != std::string::npos, eager.what());
    CHECK_THROWS_AS(trace(each.layer, {spec(float32, each.shape)}), InvalidArgumentError);
    if (each.shape.rank() < 2 || each.name == "positions of a matrix" || each.name == "an image as sequences") continue;
    const Shape unknown(std::vector<std::int64_t>(each.shape.rank(), -1));
    const auto traced = trace(each.layer, {spec(float32, unknown)});
    CHECK_THROWS_AS(traced(ones(each.shape)), InvalidArgumentError);
  }
}

TEST_CASE("attention refuses batches that differ, and masks that are not bool") {
  const nn::MultiHeadAttention layer(4, 2);
  const Tensor one = ones({1, 3, 4}), two = ones({2, 5, 4});
  TAPESTRY_REFUSED(InvalidArgumentError, "The key must have the batch size of the query, but their shapes are [2,5,4]",
                   layer(one, two, two));
  TAPESTRY_REFUSED(InvalidArgumentError, "The value must have the batch size of the query",
                   layer(two, two, ones({1, 5, 4})));
  const auto traced = trace([&](const Tensor& q, const Tensor& k) { return layer(q, k, k); },
                            {spec(float32, {-1, -1, 4}, "q"), spec(float32, {-1, -1, 4}, "k")});
  CHECK(traced(two, two).shape() == Shape{2, 5, 4});
  CHECK_THROWS_AS(traced(one, two), InvalidArgumentError);
  CHECK_THROWS_AS(traced(two, one), InvalidArgumentError);
  TAPESTRY_REFUSED(InvalidArgumentError,
                   "The mask must be bool, true where a query may look at a key, but is float32[3,3]",
                   layer(one, zeros({3, 3})));
}

TEST_CASE("rates and initial values that make no sense are refused with the line") {
  TAPESTRY_REFUSED(InvalidArgumentError, "Recurrent: dropout must be in [0, 1), but is 1.5",
                   nn::GRU(2, 3, {.dropout = 1.5}));
  TAPESTRY_REFUSED(InvalidArgumentError, "MultiHeadAttention: dropout must be in [0, 1), but is -0.5",
                   nn::MultiHeadAttention(4, 2, {.dropout = -0.5}));
  TAPESTRY_REFUSED(InvalidArgumentError, "gain must be a finite number >= 0, but is -1",
                   nn::init::xavier_normal({3, 4}, {.gain = -1}));
  TAPESTRY_REFUSED(InvalidArgumentError, "gain must be a finite number >= 0",
                   nn::init::kaiming_uniform({3, 4}, {.gain = infinity}));
  TAPESTRY_REFUSED(InvalidArgumentError, "A weight is of a float type, not int32",
                   nn::init::orthogonal({3, 4}, {.dtype = int32}));
  TAPESTRY_REFUSED(InvalidArgumentError, "Parameter 'steps' is int32[], but only float types are trained",
                   nn::Parameter(1, "steps"));
}

TEST_CASE("layers of absurd sizes are refused at the user's line") {
  constexpr std::int64_t big = std::int64_t{1} << 40, huge = std::int64_t{1} << 62;
#define TAPESTRY_LARGE(...) TAPESTRY_REFUSED(InvalidArgumentError, "is too large", __VA_ARGS__)
  TAPESTRY_LARGE(nn::Dense(big, big));
  TAPESTRY_LARGE(nn::Bilinear(big, big, 2));
  TAPESTRY_LARGE(nn::Conv2D(big, big, 3));
  TAPESTRY_LARGE(nn::Conv3D(big, big, 3));
  TAPESTRY_LARGE(nn::ConvTranspose2D(big, big, 3));
  TAPESTRY_LARGE(nn::Embedding(big, big));
  TAPESTRY_LARGE(nn::LSTM(big, big));
  TAPESTRY_LARGE(nn::GRUCell(big, big));
#undef TAPESTRY_LARGE
#define TAPESTRY_MOST(...) TAPESTRY_REFUSED(InvalidArgumentError, "must be at most 281474976710656", __VA_ARGS__)
  TAPESTRY_MOST(nn::Dense(2, huge));
  TAPESTRY_MOST(nn::LSTM(3, huge));
  TAPESTRY_MOST(nn::GRUCell(3, huge));
  TAPESTRY_MOST(nn::Embedding(huge, 2));
  TAPESTRY_MOST(nn::LayerNorm(huge));
#undef TAPESTRY_MOST
}

TEST_CASE("a layer that gets nothing says so, with the line") {
  const nn::Dense layer(4, 2);
  const auto error = caught<FailedPreconditionError>([&] { layer(Tensor()); });
  CHECK(place(error) == line_before());
  CHECK(error.message().starts_with("Dense(4, 2): An empty Tensor was used"));
}

TEST_CASE("positions of an empty batch") {
  const nn::PositionEmbedding layer(7, 4);
  CHECK(layer(zeros({0, 3, 4})).shape() == Shape{0, 3, 4});
  CHECK(nn::causal_mask(zeros({0, 3, 4})).shape() == Shape{3, 3});
  const auto traced = trace(layer, {spec(float32, {-1, -1, 4})});
  CHECK(traced(zeros({0, 3, 4})).shape() == Shape{0, 3, 4});
  check_same_bits({traced(ones({2, 3, 4}))}, {layer(ones({2, 3, 4}))});
}

/// A user's class that forgot TAPESTRY_FIELDS.
struct Unnamed : nn::Module {
  nn::Dense dense{2, 2};
  nn::Dropout dropout{0.5};
  Tensor operator()(const Tensor& x) const { return dropout(dense(x)); }
};
/// One that has it, around that.
struct Around : nn::Module {
  Unnamed inner;
  TAPESTRY_FIELDS(inner)
  Tensor operator()(const Tensor& x) const { return inner(x); }
};
/// A Parameter is a part, too.
struct Scales : nn::Module {
  nn::Parameter factor{ones({2})};
  Tensor operator()(const Tensor& x) const { return factor * x; }
};
/// One that has no parts.
struct Doubles : nn::Module {
  Tensor operator()(const Tensor& x) const { return 2.0 * x; }
};

TEST_CASE("a class that names no parts is refused wherever its parts would be left out") {
  Unnamed unnamed;
  Around around;
  const std::string whole = "The class Unnamed has not named its parts", part = "The class Unnamed of 'inner' has not";
  TAPESTRY_REFUSED(FailedPreconditionError, whole, unnamed.eval());
  TAPESTRY_REFUSED(FailedPreconditionError, part, around.eval());
  TAPESTRY_REFUSED(FailedPreconditionError, part, around.train());
  TAPESTRY_REFUSED(FailedPreconditionError, part, around.to(cpu()));
  TAPESTRY_REFUSED(FailedPreconditionError, part, around.to(float64));
  TAPESTRY_REFUSED(FailedPreconditionError, part, around.named_parameters());
  TAPESTRY_REFUSED(FailedPreconditionError, part, around.named_buffers());
  TAPESTRY_REFUSED(FailedPreconditionError, part, around.parameter_count());
  CHECK(around.training());
  const std::string scales = "The class Scales of '1' has not named its parts";
  nn::Sequential with_scales{nn::Dense(2, 2), Scales()};
  TAPESTRY_REFUSED(FailedPreconditionError, scales, with_scales.parameters());
  TAPESTRY_REFUSED(FailedPreconditionError, scales, with_scales.state_dict());
  TAPESTRY_REFUSED(FailedPreconditionError, scales, with_scales.eval());
  nn::Sequential plain{nn::Dense(2, 2), Doubles()};  // a part without parts need not say so
  plain.eval();
  CHECK(plain.named_parameters().size() == 2);
}

}  // namespace

}  // namespace nn_bad_use_test
