// What ops are given and cannot take: an error of the right class that names the op, the values and the user's line.
// What is odd but has a meaning in NumPy or TensorFlow has it here. Sizes: bad_size_test; everything but ops:
// bad_use_test.

#include <tapestry/tapestry.hpp>

#include "refused.hpp"

namespace tapestry::test::bad_input_test {
namespace {

constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();

#define TAPESTRY_INVALID(text, ...) TAPESTRY_REFUSED(InvalidArgumentError, text, __VA_ARGS__)

/// A fresh one per test; at its end it must be as it was.
struct Unchanged {
  Tensor x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  ~Unchanged() { check_values(x, {1, 2, 3, 4, 5, 6}); }
};

TEST_CASE_FIXTURE(Unchanged, "shapes that do not fit") {
  const Tensor y = ones({4, 3});
  TAPESTRY_INVALID("Incompatible shapes: [2,3] vs. [4,3] [Op:Mul]", x * y);
  TAPESTRY_INVALID("Incompatible shapes: [2,3] vs. [2] [Op:Maximum]", maximum(x, {1.0, 2.0}));
  TAPESTRY_INVALID("Incompatible shapes: [2,3] vs. [4,3] [Op:Equal]", equal(x, y));
  TAPESTRY_INVALID("Incompatible shapes: [2,3] vs. [4,3] [Op:SelectV2]", where(tensor(true), x, y));
  TAPESTRY_INVALID("In[0]: [2,3], In[1]: [4,3] [Op:MatMul]", matmul(x, y));
  TAPESTRY_INVALID("rank 0 for 'MatMul'", matmul(x, 1.0));
  TAPESTRY_INVALID("The values have the shape [3], and the elements or rows that are chosen [2] [Op:MaskedAssign]",
                   masked_assign({1, 2, 3}, {true, false, true}, {7, 8, 9}));
  TAPESTRY_INVALID("The values have the shape [2,3], and the elements or rows that are chosen [2] [Op:MaskedAssign]",
                   masked_assign({1, 2, 3}, {true, false, true}, x));
  TAPESTRY_INVALID("The values have the shape [2], and the elements or rows that are chosen [3]",
                   ragged_to_padded({1, 2}, {1, 2}));
  TAPESTRY_INVALID("The values have the shape [2,3], and the elements or rows that are chosen [?] [Op:MaskedAssign]",
                   trace(
                       [](const Tensor& v) {
                         return masked_assign(v, greater(v, 0.0), {{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
                       },
                       {spec(float64, {-1, 3})}));
  TAPESTRY_INVALID("tensordot: cannot sum over 3 axes of the shapes [2,3] and [4,3] [Op:Tensordot]",
                   tensordot(x, y, 3));
  TAPESTRY_INVALID("cannot sum over -1 axes", tensordot(x, y, -1));
  TAPESTRY_INVALID("cannot pair the axes 0 and 1 of the shapes [2,3] and [4,3]", tensordot(x, y, {{0}, {1}}));
  TAPESTRY_INVALID("cannot pair 1 axes with 2", tensordot(x, y, {{0}, {0, 1}}));
  TAPESTRY_INVALID("'j' to axes of sizes 3 and 4 [Op:Einsum]", einsum("ij,jk->ik", x, y));
  TAPESTRY_INVALID("has '$' where a letter", einsum("i$", x));
  TAPESTRY_INVALID("does not broadcast to the shape [2,3] [Op:LayerNorm]", layer_norm(x, {1.0, 1.0}, {}));
  TAPESTRY_INVALID("does not broadcast to the shape [2,3] [Op:BatchNorm]", batch_norm(x, {0.0, 0.0}, 1.0, {}, {}));
  TAPESTRY_INVALID("received ([2,3] vs [4,3]) [Op:SigmoidCrossEntropyWithLogits]", sigmoid_cross_entropy(y, x));
  TAPESTRY_INVALID("got 2 != 3 [Op:MatrixInverse]", inverse(x));
  TAPESTRY_INVALID("[Op:MatrixSolve]", solve(eye(2), ones({3})));
  TAPESTRY_INVALID("tensor_in must be 4-dimensional: [2,3] [Op:MaxPool]", max_pool2d(x));
  TAPESTRY_INVALID("Expected a tensor of shape [1,3], but got [3]", scatter_add(x, {0}, ones({3})));
  TAPESTRY_INVALID("A literal of 6 elements cannot have the shape [4]", tensor(std::vector<int>(6), {4}));
  TAPESTRY_INVALID("parts of shape [2] and of shape [1]", tensor({{1, 2}, {3}}));
  TAPESTRY_INVALID("at most 8 dimensions, but 9 were given", tensor({{{{{{{{{1}}}}}}}}}));
  TAPESTRY_INVALID("at most 8 dimensions, but 9 were given [Op:ExpandDims]",
                   expand_dims(ones({1, 1, 1, 1, 1, 1, 1, 1}), 0));
}

TEST_CASE_FIXTURE(Unchanged, "dtypes that an op does not have") {
  const Tensor flags = tensor({true, false});
  TAPESTRY_INVALID("of bool is not in the list of allowed values", flags + flags);
  TAPESTRY_INVALID("[Op:MatMul]", matmul(flags, flags));
  TAPESTRY_INVALID("[Op:Prod]", reduce_prod(flags));
  TAPESTRY_INVALID("[Op:Any]", reduce_any(x));
  TAPESTRY_INVALID("[Op:LogicalNot]", logical_not(x));
  TAPESTRY_INVALID("[Op:SelectV2]", where(x, 1, 2));
  TAPESTRY_INVALID("'Tindices' of float", gather(x, {0.5}));
  TAPESTRY_INVALID("'Tindices' of uint8", gather(x, tensor<std::uint8_t>({1})));
  TAPESTRY_INVALID("'Tindices' of bool", gather(x, {true}));
  TAPESTRY_INVALID("'TI' of bool is not in the list of allowed values: uint8, int32, int64 [Op:OneHot]",
                   one_hot(flags, 2));
  TAPESTRY_INVALID("A tensor cannot be made without a known dtype [Op:Cast]", x.cast(DType::unknown));
  TAPESTRY_INVALID("without a known dtype", random::normal({2}, {.dtype = DType::unknown}));
  TAPESTRY_INVALID("data<float64>() of a float32 tensor", x.data<double>());
}

TEST_CASE_FIXTURE(Unchanged, "a string that means an option elsewhere, where a name stands here") {
  const Tensor image = ones({1, 3, 3, 1}), filter = ones({2, 2, 1, 1});
  TAPESTRY_INVALID("\"REFLECT\" would be the name of the operation: say {.mode = tp::PadMode::reflect}",
                   pad(x, {{1, 0}, {0, 0}}, "REFLECT"));
  TAPESTRY_INVALID("say tp::Direction::descending", sort(x, -1, "DESCENDING"));
  TAPESTRY_INVALID("say tp::Direction::descending", argsort(x, "descending"));
  TAPESTRY_INVALID("say {.ord = \"inf\"}", norm(x, "inf"));
  TAPESTRY_INVALID("say {.padding = \"SAME\"}", conv2d(image, filter, "SAME"));
  TAPESTRY_INVALID("say {.padding = \"SAME\"}", conv2d_transpose(image, filter, "same"));
  TAPESTRY_INVALID("say {.padding = \"VALID\"}", max_pool2d(image, "valid"));
  TAPESTRY_INVALID("say {.padding = \"SAME\"}", avg_pool2d(image, "SAME"));
  TAPESTRY_INVALID("say {.mode = tp::PadMode::reflect}", pad(x, {{1, 0}, {0, 0}}, {}, "reflect"));
  TAPESTRY_INVALID("say {.padding = \"SAME\"}", conv2d(image, filter, {.strides = 2}, "SAME"));
  TAPESTRY_INVALID("say {.padding = \"VALID\"}", conv2d_transpose(image, filter, {}, "VALID"));
  TAPESTRY_INVALID("say {.padding = \"SAME\"}", max_pool2d(image, {}, "SAME"));
  TAPESTRY_INVALID("say {.padding = \"SAME\"}", avg_pool2d(image, {.window = 3}, "SAME"));
  TAPESTRY_INVALID("images are NHWC", bias_add(image, ones({1}), "NCHW"));
  TAPESTRY_INVALID("say true, for the form with tanh", gelu(x, "tanh"));
  TAPESTRY_INVALID("say {.dtype = tp::boolean}", zeros({2}, "bool"));
  TAPESTRY_INVALID("say {.dtype = tp::float32}", ones({2}, "float"));
  TAPESTRY_INVALID("say {.dtype = tp::int32}", full({2}, 1.0, "int32"));
  TAPESTRY_INVALID("say {.dtype = tp::float64}", eye(2, "float64"));
  TAPESTRY_INVALID("say {.dtype = tp::float64}", arange(0, 4, 2, "double"));
  TAPESTRY_INVALID("say {.dtype = tp::float64}", linspace(0, 1, "float64"));
  TAPESTRY_INVALID("say {.dtype = tp::float64}", random::normal({2}, "float64"));
  TAPESTRY_INVALID("say tp::int32", random::randint(0, 2, {2}, "int32"));
  TAPESTRY_INVALID("say tp::int32", one_hot({1}, 2, "int32"));
  TAPESTRY_INVALID("say tp::cast(..., tp::int32)", argmax(x, 0, "int32"));
  TAPESTRY_INVALID("say tp::cast(..., tp::int32)", shape(x, "int32"));
  TAPESTRY_INVALID("say tp::cast(..., tp::int32)", size(x, "int32"));
  TAPESTRY_INVALID("say tp::cast(..., tp::int64)", unique({1, 2}, "int64"));
  TAPESTRY_INVALID("say tp::cast(..., tp::float32)", sequence_mask({1, 2}, 3, "float32"));
  // Any other string is a name.
  const Graph graph;
  const auto scope = graph.as_default();
  CHECK(max_pool2d(zeros({1, 3, 3, 1}), {}, "SAME_SIZE").name() == "SAME_SIZE:0");
  CHECK(pad(zeros({2, 3}), {{1, 0}, {0, 0}}, "re").name() == "re:0");
  CHECK(norm(zeros({2}), "info").name() == "info:0");
}

TEST_CASE("every function takes a name, and its options may be left out") {
  const Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = ones({2, 2});
  const Tensor results[] = {einsum("ij->ji", x, "name"),
                            einsum("ij->ji", {x}, "name"),
                            einsum("ij,jk->ik", x, x, "name"),
                            einsum("ij,jk,kl->il", x, x, x, "name"),
                            slice_update(x, 1.0, 0, "name"),
                            slice_update(x, 1.0, all, 0, std::string("name")),
                            arange(4, "name"),
                            arange(1, 4, "name"),
                            arange(0, 10, 2, "name"),
                            linspace(0, 1, "name"),
                            linspace(0, 1, 5, "name"),
                            eye(3, "name"),
                            eye(3, 2, "name"),
                            eye(3, {}, "name"),
                            random::normal({2}, "name"),
                            random::truncated_normal({2}, "name"),
                            random::uniform({2}, "name"),
                            random::randint(0, 2, {2}, "name"),
                            random::bernoulli({2}, "name"),
                            random::bernoulli({2}, 0.25, "name"),
                            random::normal_like(x, "name"),
                            random::uniform_like(x, "name"),
                            random::bernoulli_like(x, "name"),
                            random::categorical(x, "name"),
                            moments(x, "name").mean,
                            moments(x, 0, "name").mean,
                            sequence_mask(zeros({2}, {.dtype = int32}), "name"),
                            reverse_sequence(x, {1, 2}, "name"),
                            ragged_to_padded(x, {1, 1}, "name")};
  for (const Tensor& result : results) {
    INFO("result ", &result - results);
    CHECK(result.op().name().starts_with("name"));
  }
  CHECK(results[13].shape() == Shape{3, 3});
}

TEST_CASE_FIXTURE(Unchanged, "axes out of range, or named twice") {
  TAPESTRY_INVALID("in the range [-2, 2), but got 2 [Op:Sum]", reduce_sum(x, 2));
  TAPESTRY_INVALID("but got -3 [Op:Max]", reduce_max(x, -3));
  TAPESTRY_INVALID("but got 4611686018427387904 [Op:Mean]", reduce_mean(x, most / 2 + 1));
  TAPESTRY_INVALID("duplicate dimension: 1 [Op:Prod]", reduce_prod(x, {1, -1}));
  TAPESTRY_INVALID("but got 2 [Op:ArgMax]", argmax(x, 2));
  TAPESTRY_INVALID("in the range [0, 0), but got 0 [Op:ArgMax]", argmax(tensor(1.0)));
  TAPESTRY_INVALID("but got 5 [Op:Cumsum]", cumsum(x, 5));
  TAPESTRY_INVALID("but got 7 [Op:Softmax]", softmax(x, 7));
  TAPESTRY_INVALID("but got 5 [Op:Sort]", sort(x, 5));
  TAPESTRY_INVALID("at least rank 1 but is rank 0: [] [Op:Sort]", sort(tensor(1.0)));
  TAPESTRY_INVALID("but got 2 [Op:ConcatV2]", concat({x, x}, 2));
  TAPESTRY_INVALID("but got 3 [Op:Pack]", stack({x, x}, 3));
  TAPESTRY_INVALID("but got 2 [Op:Unpack]", unstack(x, 2));
  TAPESTRY_INVALID("but got 2 [Op:Split]", split(x, 1, 2));
  TAPESTRY_INVALID("but got -3 [Op:GatherV2]", gather(x, {0}, -3));
  TAPESTRY_INVALID("but got 2 [Op:TakeAlongAxis]", take_along_axis(x, {{0}, {0}}, 2));
  TAPESTRY_INVALID("but got 2 [Op:ReverseV2]", flip(x, 2));
  TAPESTRY_INVALID("but got 2 [Op:Repeat]", repeat(x, 2, 2));
  TAPESTRY_INVALID("axis 0 appears twice in the permutation [Op:Transpose]", transpose(x, {0, 0}));
  TAPESTRY_INVALID("vector of size 2. But input(1) is a vector of size 1 [Op:Transpose]", transpose(x, {0}));
  TAPESTRY_INVALID("duplicate dimension: 0 [Op:ExpandDims]", expand_dims(x, {0, 0}));
  TAPESTRY_INVALID("Can not squeeze dim[1], expected a dimension of 1, got 3 [Op:Squeeze]", squeeze(x, 1));
  TAPESTRY_INVALID("norm: both axes are 1 [Op:Norm]", norm(x, {.axis = {1, -1}}));
  TAPESTRY_INVALID("but 3 were given [Op:Norm]", norm(x, {.axis = {0, 1, 2}}));
}

TEST_CASE_FIXTURE(Unchanged, "indices out of range") {
  TAPESTRY_INVALID("indices[1] = 2 is not in [0, 2) [Op:GatherV2]", gather(x, {0, 2}));
  TAPESTRY_INVALID("indices[0] = -1 is not in [0, 2) [Op:GatherV2]", embedding_lookup(x, {-1}));
  TAPESTRY_INVALID("indices[0] = 9223372036854775807 is not in [0, 2)", gather(x, {most}));
  TAPESTRY_INVALID("indices[0] = [0, 3] does not index into param shape [2,3] [Op:GatherNd]", gather_nd(x, {{0, 3}}));
  TAPESTRY_INVALID("saw: 3 vs. 2 [Op:GatherNd]", gather_nd(x, {{0, 0, 0}}));
  TAPESTRY_INVALID("indices[0] = 2 is not in [0, 2)", scatter_add(x, {2}, ones({1, 3})));
  TAPESTRY_INVALID("indices[0] = [0, 5] does not index into shape [2,3]", tensor_scatter_nd_add(x, {{0, 5}}, {1.0}));
  TAPESTRY_INVALID("indices[1,0] = 3 is not in [0, 3) [Op:TakeAlongAxis]", take_along_axis(x, {{0}, {3}}, 1));
  TAPESTRY_INVALID("label value of 3 which is outside the valid range of [0, 3)",
                   sparse_softmax_cross_entropy({0, 3}, x));
  TAPESTRY_INVALID("slice index 2 of dimension 0 out of bounds. [Op:StridedSlice]", x(2));
  TAPESTRY_INVALID("slice index -4 of dimension 1 out of bounds.", x(0, -4));
  TAPESTRY_INVALID("slice index -9223372036854775808", x(least));
  TAPESTRY_INVALID("has only 2 dims [Op:StridedSlice]", x(0, 0, 0));
  TAPESTRY_INVALID("strides[0] must be non-zero", x(range(0, 2, 0)));
  TAPESTRY_INVALID("slice index 9 of dimension 0", slice_update(x, 1.0, 9));
  TAPESTRY_INVALID("Expected begin[0] in [0, 2], but got -1 [Op:Slice]", slice(x, {-1, 0}, {1, 1}));
  TAPESTRY_INVALID("Expected size[0] in [0, 1], but got 9223372036854775807", slice(x, {1, 0}, {most, 1}));
  TAPESTRY_INVALID("needed 4 [Op:TopKV2]", top_k(x, 4));
  TAPESTRY_INVALID("Need k >= 0, got -1 [Op:TopKV2]", top_k(x, -1));
}

TEST_CASE_FIXTURE(Unchanged,
                  "ranges beyond an axis are cut, as in Python; labels out of range give zeros, as in TensorFlow") {
  check_same(x(range(least, most)), x);
  check_same(x(range(most, least, -1)), flip(x, 0));
  CHECK(x(range(0, 2, most)).shape() == Shape{1, 3});
  CHECK(x(range(5, 9)).shape() == Shape{0, 3});
  check_values(one_hot(tensor<std::int64_t>({-1, 2, most}), 2), {0, 0, 0, 0, 0, 0});
  check_same(band_part(x, most, most), x);
}

TEST_CASE("nothing, where there must be something") {
  const Tensor no_rows = zeros({0, 3});
  TAPESTRY_INVALID("axis 0 is empty in shape [0,3] [Op:ArgMax]", argmax(no_rows));
  TAPESTRY_INVALID("axis 0 is empty in shape [0] [Op:ArgMin]", argmin(zeros({0})));
  TAPESTRY_INVALID("Had 0, needed 1 [Op:TopKV2]", top_k(zeros({2, 0})));
  TAPESTRY_INVALID("Expected at least one tensor [Op:ConcatV2]", concat({}));
  TAPESTRY_INVALID("Expected at least one tensor [Op:Pack]", stack(std::vector<Tensor>{}));
  TAPESTRY_INVALID("0 tensors were given [Op:Einsum]", einsum("i", {}));
  TAPESTRY_INVALID("is not in [0, 0) [Op:GatherV2]", gather(no_rows, {0}));
  TAPESTRY_INVALID("valid range of [0, 0)", sparse_softmax_cross_entropy({0}, zeros({1, 0})));
  TAPESTRY_INVALID("Got: 0 for size 2", split(zeros({2}), std::vector<std::int64_t>{}));
  TAPESTRY_INVALID("needs a tensor of exactly one element, but the shape is [0,3]", no_rows.item<float>());
  TAPESTRY_INVALID("filter must not have zero elements", conv2d(ones({1, 4, 4, 1}), zeros({0, 2, 1, 1})));
  // TensorFlow's and NumPy's results of the others.
  check_values(reduce_max(no_rows, 0), {-infinity, -infinity, -infinity});
  check_values(reduce_mean(zeros({0})), {not_a_number});
  CHECK(argmax(no_rows, 1).shape() == Shape{0});
  CHECK(softmax(no_rows).shape() == Shape{0, 3});
  CHECK(sort(zeros({2, 0})).shape() == Shape{2, 0});
  CHECK(unstack(no_rows).empty());
  CHECK(gather(no_rows, zeros({0}, {.dtype = int32})).shape() == Shape{0, 3});
  CHECK(inverse(zeros({0, 0})).shape() == Shape{0, 0});
  CHECK(conv2d(zeros({0, 4, 4, 1}), ones({2, 2, 1, 1})).shape() == Shape{0, 3, 3, 1});
}

TEST_CASE_FIXTURE(Unchanged, "an empty Tensor is no argument") {
  const Tensor no_tensor;
  const auto says = "An empty Tensor was used";
  TAPESTRY_REFUSED(FailedPreconditionError, says, no_tensor + 1);
  TAPESTRY_REFUSED(FailedPreconditionError, says, x + no_tensor);
  TAPESTRY_REFUSED(FailedPreconditionError, says, concat({x, no_tensor}));
  TAPESTRY_REFUSED(FailedPreconditionError, says, softmax(no_tensor, 0));
  TAPESTRY_REFUSED(FailedPreconditionError, says, tensordot(no_tensor, x));
  TAPESTRY_REFUSED(FailedPreconditionError, says, tensor(no_tensor));
  TAPESTRY_REFUSED(FailedPreconditionError, says, no_tensor.item<int>());
#define TAPESTRY_EMPTY(op, ...) TAPESTRY_REFUSED(FailedPreconditionError, "dtype or shape [Op:" op "]", __VA_ARGS__)
  TAPESTRY_EMPTY("reduce_logsumexp", reduce_logsumexp(no_tensor));
  TAPESTRY_EMPTY("variance", variance(no_tensor));
  TAPESTRY_EMPTY("cumulative_logsumexp", cumulative_logsumexp(no_tensor));
  TAPESTRY_EMPTY("is_inf", is_inf(no_tensor));
  TAPESTRY_EMPTY("Dropout", dropout(no_tensor, 0.5));
  TAPESTRY_EMPTY("SoftmaxCrossEntropyWithLogits", softmax_cross_entropy(no_tensor, x));
  TAPESTRY_EMPTY("SparseSoftmaxCrossEntropyWithLogits", sparse_softmax_cross_entropy({1}, no_tensor));
  TAPESTRY_EMPTY("CTCLossDense", ctc_loss(x, no_tensor, {1}, {1}));
  TAPESTRY_EMPTY("Multinomial", random::categorical(no_tensor));
  TAPESTRY_EMPTY("RandomUniform", random::uniform_like(no_tensor));
  TAPESTRY_EMPTY("BroadcastTo", full({2}, no_tensor));
  TAPESTRY_EMPTY("MatMul", matmul(x, no_tensor));
  TAPESTRY_EMPTY("MatMul", matmul(no_tensor, x));
#undef TAPESTRY_EMPTY
}

TEST_CASE("a shape is changed where it has a dimension, and by sizes that there are") {
  Shape shape{2, 3};
  CHECK(message_of([&] { shape.set(2, 1); }) == "There is no dimension 2 in the shape [2,3]");
  CHECK(message_of([&] { shape.set(-1, 1); }) == "There is no dimension -1 in the shape [2,3]");
  CHECK(message_of([&] { shape.erase(2); }) == "There is no dimension 2 in the shape [2,3]");
  CHECK(message_of([&] { shape.insert(3, 1); }) == "There is no dimension 3 in the shape [2,3]");
  CHECK(message_of([&] { shape.insert(1, -2); }) == "Dimension -2 must be >= 0");
  CHECK(message_of([&] { shape.push_back(-7); }) == "Dimension -7 must be >= 0");
  CHECK(message_of([&] { shape.set(0, least); }) == "Dimension -9223372036854775808 must be >= 0");
  CHECK(shape == Shape{2, 3});
  Shape open = Shape::unknown_rank();
#define TAPESTRY_OPEN(...) \
  CHECK(message_of<FailedPreconditionError>([&] { __VA_ARGS__; }).find("A shape of unknown rank") == 0)
  TAPESTRY_OPEN(open.push_back(1));
  TAPESTRY_OPEN(open.set(0, 1));
  TAPESTRY_OPEN(open.erase(0));
  TAPESTRY_OPEN(open.insert(0, 1));
#undef TAPESTRY_OPEN
  CHECK_FALSE(open.has_rank());
  CHECK_FALSE(broadcast_shapes(open, {2, 3}).has_rank());
}

TEST_CASE("a number that is no type") {
  constexpr auto no_type = static_cast<DType>(200);
  CHECK(to_string(no_type) == "DType(200)");
  CHECK(size_of(no_type) == 0);
  TAPESTRY_INVALID("A tensor cannot be made of the dtype DType(200) [Op:Fill]", zeros({2}, {.dtype = no_type}));
  TAPESTRY_INVALID("A tensor cannot be made of the dtype DType(200) [Op:Cast]", ones({2}).cast(no_type));
  TAPESTRY_INVALID("A tensor cannot be made of the dtype DType(200) [Op:Cast]",
                   trace([](const Tensor& t) { return t.cast(no_type); }, {spec(float32, {2})}));
}

TEST_CASE_FIXTURE(Unchanged, "options out of their range") {
  const Tensor image = ones({1, 4, 4, 1}), filter = ones({2, 2, 1, 1});
  TAPESTRY_INVALID("'strides' must be at least 1, but is {-1, -1} [Op:Conv2D]", conv2d(image, filter, {.strides = -1}));
  TAPESTRY_INVALID("'dilations' must be at least 1, but is {0, 0} [Op:Conv2D]",
                   conv2d(image, filter, {.dilations = 0}));
  TAPESTRY_INVALID("'groups' must be at least 1, but is 0 [Op:Conv2D]", conv2d(image, filter, {.groups = 0}));
  TAPESTRY_INVALID("is \"valid\"", conv2d(image, filter, {.padding = "valid"}));
  TAPESTRY_INVALID("eight numbers of at least 0 [Op:Conv2D]", conv2d(image, filter, {.padding = {0, -1, 0, 0}}));
  TAPESTRY_INVALID("'window' must be at least 1, but is {2, 0} [Op:AvgPool]", avg_pool2d(image, {.window = {2, 0}}));
  TAPESTRY_INVALID("'strides' must be at least 1, but is {0, 1} [Op:MaxPool]", max_pool2d(image, {.strides = {0, 1}}));
  TAPESTRY_INVALID("range [0, 1). Received: rate=1", dropout(x, 1));
  TAPESTRY_INVALID("rate=nan [Op:Dropout]", dropout(x, not_a_number));
  TAPESTRY_INVALID("must be in [0, 1], but is 1.5", random::bernoulli({2}, 1.5));
  TAPESTRY_INVALID("stddev must be at least 0, but is -1", random::normal({2}, {.stddev = -1}));
  TAPESTRY_INVALID("minval < maxval, got 1", random::uniform({2}, {.low = 1, .high = 1}));
  TAPESTRY_INVALID("not within the range of float32 [Op:RandomUniform]",
                   random::uniform({2}, {.low = 0, .high = infinity}));
  TAPESTRY_INVALID("not within the range of int32", random::randint(0, std::int64_t{1} << 40, {2}, int32));
  TAPESTRY_INVALID("norm: 'ord' must be at least 1, but is 0.5", norm(x, {.ord = 0.5}));
  TAPESTRY_INVALID("is \"nuc\"", norm(x, {.ord = "nuc"}));
  TAPESTRY_INVALID("Requires delta != 0: 0 [Op:Range]", arange(0, 5, 0));
  TAPESTRY_INVALID("Requires num > 0: 0 [Op:LinSpace]", linspace(0, 1, 0));
  TAPESTRY_INVALID("eye: sizes must be >= 0, but are -1 and -1 [Op:Eye]", eye(-1));
  TAPESTRY_INVALID("depth must be non-negative, got: -1 [Op:OneHot]", one_hot({0}, -1));
  TAPESTRY_INVALID("Dimension -5 must be >= 0", zeros({2, -5}));
  TAPESTRY_INVALID("partly unknown shape [2,?] [Op:Fill]", zeros({2, -1}));
  TAPESTRY_INVALID("Number of ways to split should be > 0, but got -1 [Op:Split]", split(x, -1));
  TAPESTRY_INVALID("Split sizes must be >= 0, but one is -2 [Op:SplitV]", split(x, {-2, 4}));
  TAPESTRY_INVALID("Paddings must be non-negative: -1 0 [Op:PadV2]", pad(x, {{-1, 0}, {0, 0}}));
  TAPESTRY_INVALID("less than the dimension size: 0, 3 for 2 [Op:MirrorPad]",
                   pad(x, {{0, 3}, {0, 0}}, {.mode = PadMode::reflect}));
}

TEST_CASE("NaN and infinities in whole numbers") {
  const Tensor x = tensor({not_a_number, infinity, -infinity, 1e30, -5.7});
  constexpr auto greatest = std::numeric_limits<std::int32_t>::max(), lowest = std::numeric_limits<std::int32_t>::min();
  CHECK(x.cast(int32).to_vector<int>() == std::vector<int>{0, greatest, lowest, greatest, -5});
  CHECK(x.to_vector<int>() == x.cast(int32).to_vector<int>());
  CHECK(x.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, most, least, most, -5});
  CHECK(x.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{0, 255, 0, 255, 0});
  CHECK(x.cast(boolean).to_vector<bool>() == std::vector<bool>(5, true));
  CHECK(x(0).item<int>() == 0);
  TAPESTRY_INVALID("nan does not fit the element type int32 [Op:Fill]", full({2}, not_a_number, {.dtype = int32}));
  TAPESTRY_INVALID("-inf does not fit the element type int32 [Op:PadV2]", pad({1}, {{1, 0}}, {.value = -infinity}));
  TAPESTRY_INVALID("from 0.000000 to nan [Op:Range]", arange(not_a_number));
  TAPESTRY_INVALID("from 0.000000 to inf [Op:Range]", arange(0.0, infinity));
}

TEST_CASE("NaN in an order, as in NumPy") {
  const Tensor x = tensor({1.0, not_a_number, infinity, -infinity});
  check_values(sort(x), {-infinity, 1, infinity, not_a_number});
  check_values(sort(x, -1, Direction::descending), {not_a_number, infinity, 1, -infinity});
  check_values(top_k(x, 2).values, {not_a_number, infinity});
  check_values(top_k(x, 2).indices, {1, 2});
  check_values(argmax(x), {1});
  check_values(argmin(x), {1});
  check_values(reduce_max(x), {not_a_number});
  check_values(maximum(x, 0), {1, not_a_number, infinity, 0});
  check_values(clip(x, 0, 2), {1, not_a_number, 2, 0});
  check_values(clip(x, 2, 1.5), {2, not_a_number, 2, 2});
  check_values(relu(x), {1, not_a_number, infinity, 0});
  check_values(sign(x), {1, not_a_number, 1, -1});
}

TEST_CASE("whole numbers: division by zero and what does not fit") {
  constexpr auto lowest = std::numeric_limits<std::int32_t>::min();
  TAPESTRY_INVALID("Integer division by zero [Op:FloorMod]", mod({5, -5}, 0));
  TAPESTRY_INVALID("Integer division by zero [Op:FloorDiv]", floor_divide({5}, {0}));
  TAPESTRY_INVALID("negative integer powers are not allowed [Op:Pow]", power({2}, -1));
  TAPESTRY_INVALID("300 does not fit the element type uint8 [Op:AddV2]", tensor<std::uint8_t>({1}) + 300);
  TAPESTRY_INVALID("-1 does not fit the element type uint8 [Op:Maximum]", maximum(tensor<std::uint8_t>({1}), -1));
  TAPESTRY_INVALID("1099511627776 does not fit the element type int32", tensor({1}) * (std::int64_t{1} << 40));
  TAPESTRY_INVALID("300 does not fit the element type uint8", tensor<std::uint8_t>({300}));
  CHECK_THROWS_AS(tensor(std::numeric_limits<std::uint64_t>::max()), InvalidArgumentError);
  TAPESTRY_INVALID("300 does not fit the element type uint8 [Op:Fill]", full({1}, 300, {.dtype = uint8}));
  TAPESTRY_INVALID("-1 does not fit the element type uint8 [Op:Fill]", full({1}, -1, {.dtype = uint8}));
  TAPESTRY_INVALID("2.5 does not fit the element type int32 [Op:Fill]", full({1}, 2.5, {.dtype = int32}));
  TAPESTRY_INVALID("does not fit the element type int32 [Op:Fill]", full({1}, std::int64_t{1} << 60, {.dtype = int32}));
  TAPESTRY_INVALID("2.5 does not fit the element type int32 [Op:PadV2]", pad({1}, {{1, 0}}, {.value = 2.5}));
  TAPESTRY_INVALID("2.5 does not fit the element type int32", ragged_to_padded({1, 2}, {2, 0}, 2.5));
  TAPESTRY_INVALID("299 does not fit the element type uint8 [Op:Range]", arange(300, {.dtype = uint8}));
  TAPESTRY_INVALID("0.5 does not fit the element type int32 [Op:Range]", arange(0.0, 2.0, 0.5, {.dtype = int32}));
  TAPESTRY_INVALID("the value is int64[1]; a number does not fit",
                   Variable({1}).assign(tensor<std::int64_t>({std::int64_t{1} << 40})));
  TAPESTRY_INVALID("the value is int32[1]; a number does not fit",
                   Variable(tensor<std::uint8_t>({1})).assign(tensor({-1})));
  check_values(Variable({1}).assign(tensor<std::int64_t>({least / 4294967296})), {lowest});
  check_values(arange(5, 0, -1, {.dtype = uint8}), {5, 4, 3, 2, 1});
  CHECK(masked_assign({1, 2}, {true, false}, {2.5}).dtype() == masked_assign({1, 2}, {true, false}, 2.5).dtype());
  // As in NumPy, results wrap around.
  check_values(floor_divide({lowest}, -1), {lowest});
  check_values(mod({lowest}, -1), {0});
  check_values(abs({lowest}), {lowest});
  check_values(tensor({lowest}) - 1, {std::numeric_limits<std::int32_t>::max()});
  check_values(-tensor<std::uint8_t>({1}), {255});
}

TEST_CASE("matrices that cannot be decomposed") {
  TAPESTRY_INVALID("Cholesky decomposition was not successful", cholesky({{1.0, 2.0}, {2.0, 1.0}}));
  TAPESTRY_INVALID("Cholesky decomposition was not successful", cholesky({{not_a_number, 0.0}, {0.0, 1.0}}));
  TAPESTRY_INVALID("not invertible. [Op:MatrixInverse]", inverse({{1.0, 1.0}, {1.0, 1.0}}));
  TAPESTRY_INVALID("not invertible. [Op:MatrixSolve]", solve({{0.0, 0.0}, {0.0, 0.0}}, {1.0, 2.0}));
  TAPESTRY_INVALID("at least rank 2 but is rank 1: [2] [Op:Svd]", svd({1.0, 2.0}));
  TAPESTRY_INVALID("must be squares, got 2 != 3 [Op:MatrixDeterminant]", det(zeros({2, 3})));
  TAPESTRY_INVALID("must be squares, got 2 != 3 [Op:LogMatrixDeterminant]", slogdet(zeros({2, 3})));
  TAPESTRY_INVALID("must be squares, got 2 != 3 [Op:SelfAdjointEigV2]", eigh(zeros({2, 3})));
  TAPESTRY_INVALID("at least rank 2 but is rank 1: [2] [Op:Qr]", qr({1.0, 2.0}));
  check_values(eigh({{not_a_number, 1.0}, {1.0, infinity}}).e, {not_a_number, not_a_number});
  check_values(det({{not_a_number, 1.0}, {1.0, 2.0}}), {not_a_number});
  check_values(slogdet({{not_a_number, 1.0}, {1.0, 2.0}}).log_determinant, {not_a_number});
  check_values(svd({{not_a_number, 1.0}, {1.0, infinity}}).s, {not_a_number, not_a_number});
}

}  // namespace
}  // namespace tapestry::test::bad_input_test
