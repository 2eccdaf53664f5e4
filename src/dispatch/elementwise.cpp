#include "dispatch/elementwise.hpp"

namespace tapestry {

Elementwise Forward::elementwise(const Call& call) const { return elementwise_(call); }

void run(const Elementwise& function, Backend& backend, const Call& call) {
  Operands x{};
  for (int i = 0; i < operands_of(function.function); ++i) {
    const auto at = i;
    x[at] = &call.input(function.inputs[at]);
  }
  run(backend, function.function, x, function.number, call.output());
}

}  // namespace tapestry
