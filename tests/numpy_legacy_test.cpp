#include "tapestry/numpy_legacy.hpp"

#include <vector>

#include <doctest/doctest.h>

namespace numpy_legacy_test {

using namespace tapestry;

// The numbers are NumPy's own, to the last bit.
TEST_CASE("NumpyLegacy: the numbers of numpy.random.seed") {
  random::NumpyLegacy numpy(0);
  const Tensor three = numpy.randn({3});
  CHECK(three.dtype() == float64);
  CHECK(three.to_vector<double>() == std::vector{1.764052345967664, 0.4001572083672233, 0.9787379841057392});
  // A normal number was left over; it outlives the uniform ones.
  CHECK(numpy.rand({1, 2}).to_vector<double>() == std::vector<double>{0.4236547993389047, 0.6458941130666561});
  CHECK(numpy.randn({2}).to_vector<double>() == std::vector<double>{2.240893199201458, 0.9500884175255894});

  CHECK(random::NumpyLegacy(4294967295).randn({2}).to_vector<double>() ==
        std::vector<double>{0.6484086742306527, 0.6693235306338161});
  CHECK(random::NumpyLegacy(42).randn({10, 10, 10}).to_vector<double>().back() == 0.5725827813561586);
  CHECK(random::NumpyLegacy(1).randn({}).shape() == Shape{});
  CHECK(random::NumpyLegacy(1).randn({0, 2}).shape() == Shape{0, 2});
  CHECK_THROWS_AS(random::NumpyLegacy(1).randn({-1}), InvalidArgumentError);
}

}  // namespace numpy_legacy_test
