#include "backend/backend.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::detail {

Tensor on_host(const Tensor& tensor) {
  Tensor dense = tensor;
  if (!tensor.is_contiguous()) {
    dense = make_tensor(tensor.dtype(), tensor.shape(), tensor.device());
    backend_of(tensor.device()).copy(tensor, dense);
  }
  if (dense.device().is_cpu()) return dense;
  Tensor host = make_tensor(tensor.dtype(), tensor.shape(), cpu());
  const std::size_t bytes = static_cast<std::size_t>(tensor.size()) * size_of(tensor.dtype());
  backend_of(dense.device()).copy_to_host(host.impl().data, dense.impl().data, bytes);
  return host;
}

}  // namespace tapestry::detail
