#include <new>

#include "core/make_tensor.hpp"
#include "core/pool.hpp"

namespace tapestry::detail {
namespace {

constexpr std::size_t header_bytes = sizeof(Storage);
static_assert(header_bytes == 64 && header_bytes + Storage::inline_bytes <= pool_limit);

}  // namespace

Intrusive<Storage> Storage::make(Device device, std::size_t bytes) {
  if (device.is_cpu() && bytes <= inline_bytes) {
    auto* storage = ::new (pool_allocate(header_bytes + bytes)) Storage;
    storage->bytes = bytes;
    storage->data = reinterpret_cast<std::byte*>(storage) + header_bytes;
    return Intrusive<Storage>(storage);
  }
  Allocator& allocator = allocator_of(device);
  void* data = allocator.allocate(bytes > 0 ? bytes : 1);
  auto* storage = ::new (pool_allocate(header_bytes)) Storage;
  storage->device = device;
  storage->bytes = bytes;
  storage->data = data;
  storage->allocator = &allocator;
  return Intrusive<Storage>(storage);
}

void Storage::destroy(Storage* storage) noexcept {
  const std::size_t block = header_bytes + (storage->allocator ? 0 : storage->bytes);
  if (storage->allocator) storage->allocator->deallocate(storage->data, storage->bytes > 0 ? storage->bytes : 1);
  storage->~Storage();
  pool_free(storage, block);
}

void TensorImpl::destroy(TensorImpl* impl) noexcept {
  impl->~TensorImpl();
  pool_free(impl, sizeof(TensorImpl));
}

}  // namespace tapestry::detail
