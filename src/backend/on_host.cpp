#include "backend/backend.hpp"
#include "core/deferred.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::detail {

Tensor on_host(const Tensor& tensor) {
  if (tensor.device().is_cpu() && tensor.is_contiguous()) return computed(tensor);
  Backend& backend = backend_of(tensor.device());
  Tensor from = backend.contiguous(computed(tensor));
  if (from.device().is_cpu()) return from;
  Tensor host = make_tensor(tensor.dtype(), tensor.shape(), cpu());
  backend.copy_to_host(host.impl().data, from.impl().data, nbytes(tensor));
  return host;
}

}  // namespace tapestry::detail
