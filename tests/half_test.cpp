// float16 and bfloat16: the numbers themselves against whole-number arithmetic, tensors of them, and every op of the
// table against float32 on the same numbers.

#include <bit>
#include <cmath>
#include <sstream>

#include <doctest/doctest.h>

#include "backend/cpu/kernels/movement.hpp"
#include "call_collector.hpp"
#include "dispatch/tape_limits.hpp"
#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::half_test {
namespace {

using Inputs = std::vector<Tensor>;

/// What a format of 16 bits means, from the layout alone.
struct Layout {
  int exponent_bits, fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int exponent(int bits) const { return bits >> fraction_bits & ((1 << exponent_bits) - 1); }
  int fraction(int bits) const { return bits & ((1 << fraction_bits) - 1); }
  bool is_nan(int bits) const { return exponent(bits) == (1 << exponent_bits) - 1 && fraction(bits) != 0; }
  bool is_infinite(int bits) const { return exponent(bits) == (1 << exponent_bits) - 1 && fraction(bits) == 0; }
  /// Of a pattern that is no NaN; the infinite ones stand for the number that would follow the largest.
  double value(int bits) const {
    const int e = exponent(bits), f = fraction(bits);
    const double magnitude = std::ldexp(e == 0 ? f : f + (1 << fraction_bits), std::max(e, 1) - bias() - fraction_bits);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
};

template <class T>
constexpr Layout layout_of = std::is_same_v<T, float16_t> ? Layout{5, 10} : Layout{8, 7};

template <class T>
T of_bits(int bits) {
  return T::from_bits(static_cast<std::uint16_t>(bits));
}

/// The bits of each number become a float exactly; and whatever lies between two neighbours becomes the nearer one, or
/// in the middle the even one.
template <class T>
void check_all_numbers() {
  constexpr Layout layout = layout_of<T>;
  int wrong = 0;
  for (int bits = 0; bits < 65536; ++bits) {
    const T number = of_bits<T>(bits);
    const float wide = number;
    if (layout.is_nan(bits)) {
      // A NaN stays one, of the same sign.
      wrong += !std::isnan(wide) || !layout.is_nan(T(wide).bits()) || (T(wide).bits() ^ bits) >> 15 != 0;
      continue;
    }
    const double exact = layout.is_infinite(bits) ? std::copysign(infinity, layout.value(bits)) : layout.value(bits);
    wrong += static_cast<double>(wide) != exact || std::signbit(wide) != (bits >> 15 != 0);
    wrong += T(wide).bits() != bits || T(exact).bits() != bits;
    if (layout.is_infinite(bits)) continue;
    const double next = layout.value(bits + 1), middle = (exact + next) / 2;
    const int even = (bits & 1) != 0 ? bits + 1 : bits;
    wrong += T(middle).bits() != even || T(static_cast<float>(middle)).bits() != even;
    wrong += T(std::nextafter(middle, exact)).bits() != bits || T(std::nextafter(middle, next)).bits() != bits + 1;
    const auto near = static_cast<float>(middle);
    if (static_cast<double>(near) == middle)
      wrong += T(std::nextafter(near, static_cast<float>(exact))).bits() != bits ||
               T(std::nextafter(near, static_cast<float>(next))).bits() != bits + 1;
  }
  CHECK(wrong == 0);
}

/// Whole numbers around those that lie in the middle between two of the format.
template <class T, class Whole>
void check_whole_numbers() {
  constexpr Layout layout = layout_of<T>;
  constexpr int digits = std::numeric_limits<Whole>::digits;
  int wrong = 0;
  for (int power = layout.fraction_bits + 2; power < digits; ++power)
    for (int low : {1, 2, 3, 127, 128}) {
      const auto step = Whole{1} << (power - layout.fraction_bits);  // between neighbours
      const auto lower =
          static_cast<Whole>((Whole{1} << power) + static_cast<Whole>(low % (1 << layout.fraction_bits)) * step);
      const auto middle = static_cast<Whole>(lower + step / 2);
      const auto bits = T(static_cast<double>(lower)).bits();
      const int infinite = ((1 << layout.exponent_bits) - 1) << layout.fraction_bits;
      const int above = std::min(bits + 1, infinite);
      wrong += T(middle).bits() != std::min(bits % 2 == 0 ? bits : above, infinite);
      wrong += T(static_cast<Whole>(middle + 1)).bits() != above || T(static_cast<Whole>(middle - 1)).bits() != bits;
      if constexpr (std::is_signed_v<Whole>) wrong += T(static_cast<Whole>(-middle - 1)).bits() != (above | 0x8000);
    }
  CHECK(wrong == 0);
}

/// The last bit of 1.
double precision(DType dtype) { return dtype == float16 ? 0x1p-10 : 0x1p-7; }

/// The largest element, or `least` where that is larger.
double largest(const Tensor& tensor, double least) {
  for (const double each : values(tensor))
    if (std::isfinite(each)) least = std::max(least, std::abs(each));
  return least;
}

/// Whether two results agree to a part of the largest element.
bool near(const Tensor& a, const Tensor& b, double tolerance, double least = 0x1p-14) {
  const std::vector<double> x = values(a), y = values(b);
  const double scale = largest(b, least);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    if (!same && !(std::abs(x[i] - y[i]) <= tolerance * scale)) return false;
  }
  return x.size() == y.size();
}

std::string text_of(const Tensor& tensor) {
  std::ostringstream text;
  text << tensor;
  return text.str();
}

}  // namespace

TEST_CASE("every number of 16 bits, and what lies between two of them") {
  check_all_numbers<float16_t>();
  check_all_numbers<bfloat16_t>();
}

TEST_CASE("whole numbers are rounded once") {
  check_whole_numbers<float16_t, std::int32_t>();
  check_whole_numbers<bfloat16_t, std::int32_t>();
  check_whole_numbers<bfloat16_t, std::int64_t>();
  check_whole_numbers<bfloat16_t, std::uint64_t>();
  CHECK(float16_t(65519).bits() == 0x7BFF);
  CHECK(float16_t(65520).bits() == 0x7C00);
  CHECK(std::isinf(float16_t(std::numeric_limits<std::int64_t>::min())));
  CHECK(float16_t(true) == 1.0F);
}

TEST_CASE("numbers compute as floats do") {
  const float16_t a(1.5), b(0.25);
  CHECK(a + b == 1.75F);
  CHECK(a > b);
  CHECK(-a == -1.5F);
  CHECK(static_cast<int>(a) == 1);
  CHECK(bfloat16_t(a) == 1.5F);
  CHECK(float16_t{} == 0.0F);
  static_assert(std::is_same_v<decltype(a * b), float> && !std::is_convertible_v<float, float16_t>);
  static_assert(std::is_trivially_copyable_v<bfloat16_t> && sizeof(bfloat16_t) == 2);
}

TEST_CASE("the kernels of copy convert as the numbers do, all of them") {
  const auto& cast = host::movement_kernels().cast;
  const auto check = [&]<class T>(DType dtype) {
    std::vector<T> all;
    for (int bits = 0; bits < 65536; ++bits) all.push_back(of_bits<T>(bits));
    std::vector<float> wide(all.size());
    std::vector<double> wider(all.size());
    std::vector<T> back(all.size());
    const auto at = [](DType type) { return static_cast<std::size_t>(type); };
    const auto n = static_cast<std::int64_t>(all.size());
    cast[at(dtype)][at(float32)](all.data(), wide.data(), n);
    cast[at(dtype)][at(float64)](all.data(), wider.data(), n);
    int wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      wrong += std::bit_cast<std::uint32_t>(wide[i]) != std::bit_cast<std::uint32_t>(static_cast<float>(all[i]));
      wrong += !agree(wider[i], static_cast<double>(wide[i]), 0);
      wide[i] = std::nextafter(wide[i], i % 2 == 0 ? 1e9F : -1e9F);
      wider[i] = wider[i] * 1.0001;
    }
    cast[at(float32)][at(dtype)](wide.data(), back.data(), n);
    for (std::size_t i = 0; i < all.size(); ++i) wrong += back[i].bits() != T(wide[i]).bits();
    cast[at(float64)][at(dtype)](wider.data(), back.data(), n);
    for (std::size_t i = 0; i < all.size(); ++i) wrong += back[i].bits() != T(wider[i]).bits();
    CHECK(wrong == 0);
  };
  check.operator()<float16_t>(float16);
  check.operator()<bfloat16_t>(bfloat16);
}

TEST_CASE("tensors of halves are made, read and cast") {
  const Tensor x = tensor<float16_t>({{1, 2.5}, {-3, 65504}});
  CHECK(x.dtype() == float16);
  CHECK(x.describe() == "float16[2,2] cpu min -3 max 6.55e+04 mean 1.638e+04");
  CHECK(values(x) == std::vector<double>{1, 2.5, -3, 65504});
  CHECK(x(0, 1).item<float>() == 2.5F);
  CHECK(x(0, 1).item<float16_t>() == 2.5F);
  CHECK(x.to_vector<bfloat16_t>()[3] == 65536.0F);
  CHECK(x.data<float16_t>()[2] == -3.0F);
  CHECK(message_of([&] { return x.data<bfloat16_t>(); }) == "data<bfloat16>() of a float16 tensor");
  CHECK(tensor(std::vector<bfloat16_t>(3, bfloat16_t(0.1))).dtype() == bfloat16);
  CHECK(tensor(bfloat16_t(2)).dtype() == bfloat16);
  CHECK(tensor({tensor(float16_t(2)), tensor(bfloat16_t(2))}).dtype() == float32);
  CHECK(values(tensor({1, 2, 3}).cast(bfloat16)) == std::vector<double>{1, 2, 3});
  CHECK(values(tensor<float16_t>({2.9, -2.9, 1e6, NAN}).cast(int32)) == std::vector<double>{2, -2, 2147483647, 0});
  CHECK(values(tensor<float16_t>({0.0, -0.0, 1e-7, NAN}).cast(boolean)) == std::vector<double>{0, 0, 1, 1});
  CHECK(zeros({2}, {.dtype = float16}).dtype() == float16);
  CHECK(values(full({2}, 0.1, {.dtype = bfloat16})) == std::vector<double>(2, 0.10009765625));
  CHECK(values(arange(0, 5, 2, {.dtype = float16})) == std::vector<double>{0, 2, 4});
  CHECK(values(eye(2, {.dtype = bfloat16})) == std::vector<double>{1, 0, 0, 1});
}

TEST_CASE("element types meet as in PyTorch") {
  CHECK(promote(float16, bfloat16) == float32);
  CHECK(promote(bfloat16, float16) == float32);
  CHECK(promote(float16, float16) == float16);
  CHECK(promote(int64, float16) == float16);
  CHECK(promote(float16, float32) == float32);
  CHECK(promote(boolean, bfloat16) == bfloat16);
  const Tensor h = ones({2}, {.dtype = float16}), b = ones({2}, {.dtype = bfloat16});
  CHECK((h * 2.0).dtype() == float16);
  CHECK((2 + b).dtype() == bfloat16);
  CHECK((h * float16_t(2)).dtype() == float16);
  CHECK((h + b).dtype() == float32);
  CHECK((h + ones({2})).dtype() == float32);
  CHECK((b + tensor({1, 2})).dtype() == bfloat16);
  CHECK(exp(h).dtype() == float16);
  CHECK(less(b, 2.0).dtype() == boolean);
}

TEST_CASE("printing shows the digits that tell a number from its neighbours") {
  CHECK(text_of(tensor(float16_t(0.1))) == "0.1");
  CHECK(text_of(tensor(bfloat16_t(0.1))) == "0.1");
  CHECK(text_of(tensor(float16_t(1.0 / 3))) == "0.3333");
  CHECK(text_of(tensor(float16_t(6e-8))) == "6e-08");
  CHECK(text_of(tensor<float16_t>({0.1, -2, 0.3333})) == "[ 0.1    -2.      0.3333]");
  CHECK(text_of(tensor<float16_t>({1, 65504})) == "[1.00e+00 6.55e+04]");
  CHECK(text_of(tensor<bfloat16_t>({NAN, 1, -INFINITY})) == "[ nan   1. -inf]");
  for (const DType dtype : {float16, bfloat16}) {
    // What is printed reads back as the same number.
    int wrong = 0;
    detail::visit_dtype(dtype, [&]<class T>() {
      if constexpr (is_float16<T>)
        for (int bits = 0; bits < 0x7C00; ++bits)
          wrong += T(std::stod(text_of(tensor(of_bits<T>(bits))))).bits() != bits;
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("every op computes in float32 and rounds once") {
  for (const DType dtype : {float16, bfloat16}) {
    const std::size_t usual = std::exchange(strip_above_bytes, std::numeric_limits<std::size_t>::max());
    CallCollector collector;
    for (const OpCase& row : op_cases()) {
      INFO(row.name, ", ", to_string(dtype));
      random::seed(3);
      CHECK_NOTHROW(value_and_gradients(row, converted(row.inputs, dtype)));
    }
    strip_above_bytes = usual;
    int compared = 0;
    const PauseRecording pause;  // what is computed here is no call to compare
    for (const Call& call : collector.calls) {
      const bool reads = std::any_of(call.inputs().begin(), call.inputs().end(),
                                     [](const Tensor& each) { return is_half(each.dtype()); });
      if (!reads || call.op().stateful || call.attrs().find("dtype") || call.type() == "Cast") continue;
      Tensors wide;
      for (const Tensor& each : call.inputs()) wide.push_back(is_half(each.dtype()) ? each.cast(float32) : each);
      const Tensors expected = apply_all(call.op(), wide, call.attrs(), {}, {});
      for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO(call.type(), " of ", to_string(dtype), ", output ", i);
        const Tensor& found = call.output(i);
        const Tensor rounded = expected[i].dtype() == float32 ? expected[i].cast(dtype) : expected[i];
        CHECK(found.dtype() == rounded.dtype());
        CHECK(found.shape() == rounded.shape());
        // What several families make together is rounded between them.
        const bool one_family = call.op().forward.is_elementwise() || call.type() == "MatMul" || call.op().view;
        CHECK(near(found, rounded, one_family ? 0 : 8 * precision(dtype)));
        ++compared;
      }
    }
    CHECK(compared > 500);
  }
}

TEST_CASE("gradients agree with those of float32 at the same place") {
  for (const OpCase& row : op_cases()) {
    if (row.orders == 0) continue;
    for (const DType dtype : {float16, bfloat16}) {
      INFO(row.name, ", ", to_string(dtype));
      const Inputs narrow = converted(row.inputs, dtype), wide = converted(narrow, float32);
      random::seed(3);
      const Inputs found = value_and_gradients(row, narrow);
      random::seed(3);
      const Inputs expected = value_and_gradients(row, wide);
      REQUIRE(found.size() == expected.size());
      // Some gradients are differences of larger numbers, and 0 but for rounding.
      double scale = 0x1p-14;
      for (const Tensor& each : expected) scale = largest(each, scale);
      for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        CHECK(near(found[i], expected[i], 16 * precision(dtype), scale));
      }
    }
  }
}

TEST_CASE("a result of several ops is finite where float32's is") {
  const auto outlier = [](const Tensor& x) { return variance(concat({zeros({15}, {.dtype = x.dtype()}), x}, 0)); };
  const auto many = [](const Tensor& x) { return reduce_logsumexp(broadcast_to(x, {70000})); };
  const std::vector<std::pair<Tensor, std::function<Tensor(const Tensor&)>>> cases{
      {tensor({1000, -2000, 2000}), [](const Tensor& x) { return norm(x); }},
      {tensor({{1000, -2000}, {0, 2000}}),
       [](const Tensor& x) {
         return norm(x, {.axis = {0, 1}});
       }},
      {tensor({{100, -90}, {80, 0}}), [](const Tensor& x) { return norm(x, {.ord = 3, .axis = 1}); }},
      {tensor({600}), outlier},
      {tensor({0}), many},
      {tensor({-1e4, -300, -1, 300, 1e4}), [](const Tensor& x) { return gelu(x, true); }},
      {tensor({300, 400}), [](const Tensor& x) { return clip_by_norm(x, 5); }},
      {tensor({300, 400}), [](const Tensor& x) { return clip_by_global_norm({x}, 5).first[0]; }},
      {tensor({300, 400}), [](const Tensor& x) { return nn::RMSNorm(2)(x).cast(x.dtype()); }},
      {tensor({300, 400}), [](const Tensor& x) { return losses::cosine_similarity(x, flip(x)); }},
  };
  for (const DType half : {float16, bfloat16}) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      INFO(to_string(half), ", case ", i);
      const auto& [numbers, f] = cases[i];
      const Tensor x = numbers.cast(half), wide = x.cast(float32);
      const Tensor expected = f(wide), slope = grad(f)(wide);
      CHECK(f(x).dtype() == half);
      CHECK(near(f(x), expected, 16 * precision(half), largest(expected, 1)));
      CHECK(near(grad(f)(x), slope, 16 * precision(half), largest(slope, 0x1p-14)));
      CHECK(same_bits(function(f)(x), f(x)));
    }
  }
  // Whole numbers give floats, as ever.
  check_values(losses::cosine_similarity(tensor({3, 4}), tensor({4, 3})), {0.96}, 1e-6);
  check_values(clip_by_norm(tensor({3, 4}), 1), {0.6, 0.8}, 1e-6);
  check_values(clip_by_global_norm({tensor({3, 4})}, 1).first[0], {0.6, 0.8}, 1e-6);
  check_values(nn::RMSNorm(2, {.epsilon = 0})(tensor({1, 7})), {0.2, 1.4}, 1e-6);
  CHECK(losses::cosine_similarity(tensor({3, 4}).cast(float16), ones({2})).dtype() == float32);
  {
    const Autocast in_halves(float16);
    CHECK(losses::mse(zeros({2}, {.dtype = float16}), tensor({300, 400}).cast(float16)).item<float>() == 125000);
  }
  CHECK(values(grad([](const Tensor& x) { return gelu(x, true); })(tensor({1e19F, -1e19F, 3e38F}))) ==
        std::vector<double>{1, 0, 1});
}

TEST_CASE("random numbers are float32's, rounded, and stay below the upper bound") {
  for (const DType dtype : {float16, bfloat16}) {
    const auto drawn = [](DType type) {
      random::seed(5);
      return Inputs{random::normal({1000}, {.mean = 1, .stddev = 2, .dtype = type}),
                    random::truncated_normal({1000}, {.dtype = type}), random::bernoulli({1000}, 0.3, {.dtype = type})};
    };
    const Inputs found = drawn(dtype), wide = drawn(float32);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], wide[i].cast(dtype)));
    random::seed(5);
    const Tensor uniform = random::uniform({100000}, {.low = -1, .high = 1, .dtype = dtype});
    random::seed(5);
    const Tensor exact = random::uniform({100000}, {.low = -1, .high = 1});
    CHECK(reduce_max(uniform).item<double>() == 1 - precision(dtype) / 2);
    CHECK(reduce_min(uniform).item<double>() >= -1);
    CHECK(near(uniform, exact, precision(dtype) / 2));
    CHECK(values(random::uniform({3}, {.low = 1, .high = 1.00001, .dtype = dtype})) == std::vector<double>(3, 1));
    CHECK(reduce_max(random::uniform({1000}, {.low = -1e-3, .high = 0, .dtype = dtype})).item<double>() < 0);
  }
  CHECK_THROWS_AS(random::uniform({2}, {.low = 0, .high = 1e6, .dtype = float16}), InvalidArgumentError);
}

TEST_CASE("an optimizer updates halves by float32's formula, in place") {
  const auto step = [](DType dtype) {
    Variable w(linspace(-1.0, 1.0, 700).cast(float16).cast(dtype), {.name = "w"});
    train::AdamOptimizer optimizer(0.01);
    const Tensor before = w.value();
    optimizer.apply_gradients({linspace(0.5, -2.0, 700).cast(float16).cast(dtype)}, {w});
    CHECK(values(before) == values(linspace(-1.0, 1.0, 700).cast(float16)));
    return Inputs{w.value(), optimizer.get_slot(w, "m").value(), optimizer.get_slot(w, "v").value()};
  };
  const Inputs found = step(float16), wide = step(float32);
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], wide[i].cast(float16)));
}

TEST_CASE("files hold both types, NumPy's float16 alone") {
  const TemporaryFolder folder;
  const StateDict tensors{{"b", tensor<bfloat16_t>({{1, 2.5, NAN}, {-3, 1e38, 0}})}, {"h", tensor<float16_t>({65504})}};
  save(folder / "x.safetensors", tensors);
  const auto read = [&](const char* name) {
    StateDict found;
    load(folder / name, found);
    return found;
  };
  const StateDict found = read("x.safetensors");
  for (const auto& [name, value] : tensors) CHECK(same_bits(found.at(name), value));
  save(folder / "x.npz", {{"h", tensors.at("h")}});
  CHECK(same_bits(read("x.npz").at("h"), tensors.at("h")));
  CHECK(message_of<UnimplementedError>([&] { save(folder / "y.npz", tensors); }) ==
        "NumPy has no bfloat16, which is the dtype of b; cast it to float32, or save it as .safetensors");
  CHECK_THROWS_AS(data::write_npy(folder / "b.npy", tensors.at("b")), UnimplementedError);

  // A model takes the numbers in its own type.
  nn::Dense dense(2, 1);
  const StateDict narrow{{"weight", tensor<float16_t>({{1, 2}})}, {"bias", tensor<bfloat16_t>({3})}};
  dense.load_state_dict(narrow);
  CHECK(dense.weight.dtype() == float32);
  CHECK(values(dense(tensor({{1.0, 1.0}}))) == std::vector<double>{6});
  dense.to(float16);
  CHECK(dense(tensor<float16_t>({{1, 1}})).dtype() == float16);
}

TEST_CASE("graphs hold both types, and read TensorFlow's half_val") {
  const TemporaryFolder folder;
  for (const DType dtype : {float16, bfloat16}) {
    const auto f = [&](const Tensor& x) { return matmul(x, tensor({{1.5, 2}, {0.25, -1}}).cast(dtype)) * 2.0; };
    const auto traced = trace(f, {spec(dtype, {-1, 2}, "x")});
    const Tensor x = tensor({{1, 2}, {3, 4}}).cast(dtype);
    for (const char* name : {"x.pb", "x.pbtxt"}) {
      traced.graph().save(folder / name);
      const Graph graph = Graph::load(folder / name);
      Session session(graph);
      CHECK(same_bits(session.run(traced.output().name(), {{graph.get_tensor_by_name("x:0"), x}}), f(x)));
    }
    onnx::save(folder / "x.onnx", {.inputs = {{"x", traced.input()}}, .outputs = {{"y", traced.output()}}});
  }
  const auto convolved = trace(
      [](const Tensor& x) {
        return conv2d(x, ones({1, 1, 2, 3}).cast(x.dtype()));
      },
      {spec(bfloat16, {1, 4, 4, 2}, "x")});
  CHECK(message_of<UnimplementedError>([&] {
          onnx::save(folder / "y.onnx", {.inputs = {{"x", convolved.input()}}, .outputs = {{"y", convolved.output()}}});
        }).find("ONNX's Conv takes no bfloat16") != std::string::npos);

  const auto constant = [&](const std::string& type, const std::string& numbers) {
    const std::string text = "node { name: 'c' op: 'Const' attr { key: 'dtype' value { type: " + type +
                             " } } attr { key: 'value' value { tensor { dtype: " + type +
                             " tensor_shape { dim { size: 3 } } " + numbers + " } } } }";
    folder.write("c.pbtxt", Bytes(text.begin(), text.end()));
    const Graph graph = Graph::load(folder / "c.pbtxt");
    return Session(graph).run("c:0");
  };
  check_same(constant("DT_HALF", "half_val: 15360 half_val: 49152"), tensor<float16_t>({1, -2, -2}));
  check_same(constant("DT_BFLOAT16", "half_val: 16256"), tensor<bfloat16_t>({1, 1, 1}));
  CHECK(message_of<DataLossError>([&] {
          constant("DT_HALF", "half_val: 65536 half_val: 0");
        }).find("An element of type half has more than 16 bits: 65536") != std::string::npos);
}

}  // namespace tapestry::test::half_test
