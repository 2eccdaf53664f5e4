#pragma once

#include <functional>
#include <string>
#include <vector>

#include "op_cases/op_cases.hpp"

namespace tapestry::test {

/// The arguments of a call that are not tensors.
struct OddNumbers {
  std::vector<std::int64_t> whole;  ///< mostly small
  std::vector<double> real;         ///< mostly small

  std::int64_t operator[](std::size_t i) const { return whole.at(i); }
  /// The numbers from one on, as many as `count` modulo 5 says.
  Ints list(std::size_t from, std::int64_t count) const;
  bool flag(std::size_t i) const { return (whole.at(i) & 1) != 0; }
};

/// A function of the interface with arguments that are not tensors.
struct OddFunction {
  std::string name;
  int tensors;  ///< how many it takes
  std::function<Tensors(const Tensors&, const OddNumbers&)> f;
};
std::vector<OddFunction> odd_functions();

/// What a search for faults found.
struct OddSearch {
  long ran = 0, refused = 0, traced = 0;
  std::vector<std::string> faults;
};

/// Calls functions of the interface, and rows of the op table, with what a user may give them by mistake: other shapes
/// and types, views that repeat elements, numbers out of range, infinities and NaN, empty tensors, and tensors of
/// graphs that are gone or of others. A call, eager, traced and traced with unknown sizes, gives the same bits, or
/// refuses with an error of ours that names the op and the caller's line and changes nothing. So do the gradients.
/// Stops at the tenth fault.
OddSearch search_odd_calls(unsigned seed, long cases);

}  // namespace tapestry::test
