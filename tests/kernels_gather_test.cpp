#include <string>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "kernels_support.hpp"

namespace kernels_gather_test {

using namespace tapestry;
using namespace tapestry::testing;
using tapestry::test::message_of;

namespace {

std::int64_t offset_of(const Shape& shape, const std::vector<std::int64_t>& index) {
  std::int64_t offset = 0;
  for (int i = 0; i < shape.rank(); ++i) offset = offset * shape[i] + index[static_cast<std::size_t>(i)];
  return offset;
}

Tensor random_indices(DType dtype, const Shape& shape, std::int64_t size, unsigned seed = 9) {
  std::mt19937 generator(seed);
  std::vector<double> numbers(static_cast<std::size_t>(shape.size()));
  for (double& number : numbers) number = static_cast<double>(generator() % static_cast<unsigned>(size));
  return tensor_of(dtype, shape, numbers);
}

double wrapped(double value, DType dtype) {
  if (dtype == boolean) return value != 0;
  return dtype == uint8 ? static_cast<std::uint8_t>(static_cast<std::int64_t>(value)) : value;
}

}  // namespace

TEST_CASE("gather and its gradient along every axis") {
  for (const DType dtype : all_dtypes) {
    for (const DType index_dtype : {int32, int64}) {
      for (const Shape& shape : {Shape{5}, Shape{4, 3, 6}, Shape{2, 3, 1, 2, 2, 3}, Shape{3, 0, 2}}) {
        for (const Shape& index_shape : {Shape{}, Shape{4}, Shape{2, 3}, Shape{0}}) {
          for (int axis = 0; axis < shape.rank(); ++axis) {
            if (shape[axis] == 0 || shape.rank() - 1 + index_shape.rank() > Shape::max_rank) continue;
            const Tensor x = random_tensor(dtype, shape);
            const Tensor indices = random_indices(index_dtype, index_shape, shape[axis]);
            Shape result;
            for (int i = 0; i < axis; ++i) result.push_back(shape[i]);
            for (const std::int64_t size : index_shape) result.push_back(size);
            for (int i = axis + 1; i < shape.rank(); ++i) result.push_back(shape[i]);
            const auto from = values(x), positions = values(indices);

            // The element of x that every element of y comes from.
            std::vector<std::size_t> source;
            for_each_index(result, {}, [&](const std::vector<std::int64_t>& index, std::int64_t) {
              std::vector<std::int64_t> at(index.begin(), index.begin() + axis);
              std::vector<std::int64_t> j(index.begin() + axis, index.begin() + axis + index_shape.rank());
              at.push_back(static_cast<std::int64_t>(positions[static_cast<std::size_t>(offset_of(index_shape, j))]));
              at.insert(at.end(), index.begin() + axis + index_shape.rank(), index.end());
              source.push_back(static_cast<std::size_t>(offset_of(shape, at)));
            });

            const Tensor y = empty(dtype, result);
            cpu_backend().gather(twisted(x), twisted(indices), axis, y);
            std::vector<double> expected;
            for (const std::size_t place : source) expected.push_back(from[place]);
            CHECK(values(y) == expected);

            const Tensor updates = random_tensor(dtype, result, 4), sums = empty(dtype, shape);
            cpu_backend().scatter_add(indices, twisted(updates), axis, sums);
            std::vector<double> totals(from.size(), 0);
            const auto added = values(updates);
            for (std::size_t i = 0; i < source.size(); ++i) totals[source[i]] += added[i];
            for (double& total : totals) total = wrapped(total, dtype);
            const auto got = values(sums);
            for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(totals[i]).epsilon(1e-6));
          }
        }
      }
    }
  }
}

TEST_CASE("gather_nd and its gradient") {
  for (const DType dtype : all_dtypes) {
    const Shape shape{4, 3, 5};
    const Tensor x = random_tensor(dtype, shape);
    const auto from = values(x);
    for (int depth = 0; depth <= 3; ++depth) {
      const Shape index_shape{2, 6, depth};
      std::mt19937 generator(3);
      std::vector<double> numbers;
      for (int i = 0; i < 12; ++i)
        for (int d = 0; d < depth; ++d)
          numbers.push_back(static_cast<double>(generator() % static_cast<unsigned>(shape[d])));
      const Tensor indices = tensor_of(int32, index_shape, numbers);
      Shape result{2, 6};
      std::int64_t slice = 1;
      for (int i = depth; i < 3; ++i) {
        result.push_back(shape[i]);
        slice *= shape[i];
      }
      std::vector<double> expected;
      std::vector<std::size_t> source;
      for (std::size_t i = 0; i < 12; ++i) {
        std::int64_t place = 0;
        for (int d = 0; d < depth; ++d)
          place = place * shape[d] +
                  static_cast<std::int64_t>(numbers[i * static_cast<std::size_t>(depth) + static_cast<std::size_t>(d)]);
        for (std::int64_t c = 0; c < slice; ++c) {
          source.push_back(static_cast<std::size_t>(place * slice + c));
          expected.push_back(from[source.back()]);
        }
      }
      const Tensor y = empty(dtype, result);
      cpu_backend().gather_nd(twisted(x), twisted(indices), y);
      CHECK(values(y) == expected);

      const Tensor updates = random_tensor(dtype, result, 8), sums = empty(dtype, shape);
      cpu_backend().scatter_nd_add(indices, twisted(updates), sums);
      std::vector<double> totals(from.size(), 0);
      const auto added = values(updates);
      for (std::size_t i = 0; i < source.size(); ++i) totals[source[i]] += added[i];
      const auto got = values(sums);
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(got[i] == doctest::Approx(wrapped(totals[i], dtype)).epsilon(1e-6));
    }
  }
}

TEST_CASE("take_along and its gradient") {
  for (const DType dtype : all_dtypes) {
    const Shape shape{4, 3, 5};
    const Tensor x = random_tensor(dtype, shape);
    const auto from = values(x);
    for (int axis = 0; axis < 3; ++axis) {
      for (const std::int64_t length : {0, 1, 7}) {
        Shape result = shape;
        result.set(axis, length);
        const Tensor indices = random_indices(int64, result, shape[axis]);
        const auto positions = values(indices);
        std::vector<std::size_t> source;
        std::size_t i = 0;
        for_each_index(result, {}, [&](std::vector<std::int64_t> index, std::int64_t) {
          index[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(positions[i++]);
          source.push_back(static_cast<std::size_t>(offset_of(shape, index)));
        });
        const Tensor y = empty(dtype, result);
        cpu_backend().take_along(twisted(x), twisted(indices), axis, y);
        std::vector<double> expected;
        for (const std::size_t place : source) expected.push_back(from[place]);
        CHECK(values(y) == expected);

        const Tensor updates = random_tensor(dtype, result, 8), sums = empty(dtype, shape);
        cpu_backend().put_along_add(indices, twisted(updates), axis, sums);
        std::vector<double> totals(from.size(), 0);
        const auto added = values(updates);
        for (std::size_t j = 0; j < source.size(); ++j) totals[source[j]] += added[j];
        const auto got = values(sums);
        for (std::size_t j = 0; j < got.size(); ++j)
          CHECK(got[j] == doctest::Approx(wrapped(totals[j], dtype)).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("an index outside is named in TensorFlow's words") {
  Backend& b = cpu_backend();
  const Tensor x = random_tensor(float32, {5, 2}), y = empty(float32, {3, 2});
  const Tensor wrong = tensor_of(int32, {3}, {0, 4, 7}), negative = tensor_of(int64, {1, 2}, {3, -1});
  CHECK(message_of([&] { b.gather(x, wrong, 0, y); }) == "indices[2] = 7 is not in [0, 5)");
  CHECK(message_of([&] {
          b.gather(x, negative, 0, empty(float32, {1, 2, 2}));
        }) == "indices[0,1] = -1 is not in [0, 5)");
  CHECK(message_of([&] { b.gather(x, tensor_of(int32, {}, {5}), 0, empty(float32, {2})); }) ==
        "indices = 5 is not in [0, 5)");
  CHECK(message_of([&] { b.scatter_add(wrong, y, 0, x); }) == "indices[2] = 7 is not in [0, 5)");
  CHECK(message_of([&] {
          b.gather_nd(x, tensor_of(int32, {2, 2}, {1, 1, 0, 2}), empty(float32, {2}));
        }) == "indices[1] = [0, 2] does not index into param shape [5,2]");
  CHECK(message_of([&] {
          b.scatter_nd_add(tensor_of(int32, {1, 1}, {5}), empty(float32, {1, 2}), x);
        }) == "indices[0] = [5] does not index into shape [5,2]");
  CHECK(message_of([&] {
          b.take_along(x, tensor_of(int32, {1, 2}, {0, 5}), 0, empty(float32, {1, 2}));
        }) == "indices[0,1] = 5 is not in [0, 5)");
  CHECK(message_of([&] {
          b.put_along_add(tensor_of(int32, {1, 2}, {0, 5}), empty(float32, {1, 2}), 0, x);
        }) == "indices[0,1] = 5 is not in [0, 5)");
}

TEST_CASE("sums at one place are added in order, for any number of threads") {
  const Tensor indices = random_indices(int32, {3000}, 7);
  const Tensor updates = random_tensor(float32, {3000, 100});
  CHECK(same_for_any_threads(float32, {7, 100},
                             [&](const Tensor& y) { cpu_backend().scatter_add(indices, updates, 0, y); }));
  const Tensor places = random_indices(int32, {300, 1000}, 50);
  const Tensor values_added = random_tensor(float32, {300, 1000});
  CHECK(same_for_any_threads(float32, {50, 1000},
                             [&](const Tensor& y) { cpu_backend().put_along_add(places, values_added, 0, y); }));
}

}  // namespace kernels_gather_test
