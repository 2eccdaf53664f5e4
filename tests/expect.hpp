#pragma once

// What tests of values and errors share.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "same_bits.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::test {

inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// What a stream prints of a value.
template <class T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

inline std::vector<double> values(const Tensor& tensor) { return tensor.to_vector<double>(); }

/// Whether two numbers agree to a part of the larger one (or of 1); NaN agrees with NaN.
inline bool agree(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= tolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

inline void check_values(const Tensor& tensor, const std::vector<double>& expected, double tolerance = 0) {
  const std::vector<double> actual = values(tensor);
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    INFO("element ", i, ": ", actual[i], ", expected ", expected[i]);
    CHECK(agree(actual[i], expected[i], tolerance));
  }
}

inline void check_same(const Tensor& actual, const Tensor& expected, double tolerance = 0) {
  CHECK(to_string(actual.shape()) == to_string(expected.shape()));
  CHECK(to_string(actual.dtype()) == to_string(expected.dtype()));
  check_values(actual, values(expected), tolerance);
}

/// Checks that the lists have tensors of the same bits.
inline void check_same_bits(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    INFO("result ", i);
    CHECK(same_bits(actual[i], expected[i]));
  }
}

/// A function that is called while the expression that names it is evaluated. What takes an Action is compiled once,
/// not for each function that it is given: there are a thousand of them.
class Action {
 public:
  template <class F>
  Action(const F& f)  // NOLINT(google-explicit-constructor)
      : function_(&f), call_([](const void* function) { static_cast<void>((*static_cast<const F*>(function))()); }) {}

  void operator()() const { call_(function_); }

 private:
  const void* function_;
  void (*call_)(const void*);
};

/// The error of type E that `f` throws; fails the test when it does not.
template <class E = Error>
E caught(Action f) {
  std::optional<E> error;
  try {
    f();
  } catch (const E& e) {
    error = e;
  } catch (const std::exception& e) {
    FAIL("another error: ", e.what());
  }
  REQUIRE_MESSAGE(error.has_value(), "no error was thrown");
  return *error;
}

/// The message, without the place, of the error of type E that `f` throws.
template <class E = Error>
std::string message_of(Action f) {
  return caught<E>(f).message();
}

/// "tape_test.cpp:41": the place of an error that a call on the line before has thrown.
inline std::string line_before(Where where = Where::here()) { return to_string(Where{where.file, where.line - 1}); }

inline std::string place(const Error& error) { return to_string(error.where()); }

}  // namespace tapestry::test
