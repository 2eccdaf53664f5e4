#include "dispatch/autocast.hpp"

#include <algorithm>
#include <utility>

namespace tapestry {

constinit thread_local DType autocast_type __attribute__((tls_model("initial-exec"))) = DType::float32;

Autocast::Autocast(DType dtype, Where where) : outer_(autocast_type) {
  if (!is_half(dtype) && dtype != float32)
    throw InvalidArgumentError(detail::join("Autocast needs float16, bfloat16 or float32, but got ", to_string(dtype)),
                               where);
  autocast_type = dtype;
}

Autocast::~Autocast() { autocast_type = outer_; }

DType Autocast::current() { return autocast_type; }

void autocast_inputs(const Op& op, Tensors& inputs, Where where) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() == DType::unknown)
      throw InvalidArgumentError(detail::join(
          "The element type of input #", i, " is not known yet, and Autocast must know it; give the placeholder one"));
    if (inputs[i].dtype() == float64 && !inputs[i].impl().weak) return;
  }
  const DType type = op.precision == Precision::low ? autocast_type : float32;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DType given = inputs[i].dtype();
    if (!inputs[i].impl().weak && (is_half(given) || given == float32)) inputs[i] = inputs[i].cast(type, where);
  }
}

}  // namespace tapestry
