#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tapestry/detail/config.hpp"
#include "tapestry/detail/intrusive.hpp"
#include "tapestry/device.hpp"
#include "tapestry/dtype.hpp"
#include "tapestry/shape.hpp"

namespace tapestry {
namespace detail {

/// Where the bytes of tensors come from and go to; every backend is one.
class TAPESTRY_API Allocator {
 public:
  virtual ~Allocator() = default;
  /// `bytes` > 0 of memory, aligned to 64 bytes. Throws ResourceExhaustedError.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
};

/// A block of memory that tensors share. Blocks of up to `inline_bytes` on the CPU lie behind the header itself.
struct alignas(64) Storage {
  static constexpr std::size_t inline_bytes = 448;

  ReferenceCount references;
  Device device;
  std::size_t bytes = 0;
  void* data = nullptr;
  Allocator* allocator = nullptr;  ///< nullptr: the data lie behind the header

  /// Memory on a device for tensors of that many bytes. Throws ResourceExhaustedError.
  TAPESTRY_API static Intrusive<Storage> make(Device device, std::size_t bytes);
  TAPESTRY_API static void destroy(Storage* storage) noexcept;
};

struct TensorImpl {
  explicit TensorImpl(const Shape& sizes) : shape(sizes) {}
  TAPESTRY_API static void destroy(TensorImpl* impl) noexcept;

  ReferenceCount references;
  DType dtype = DType::unknown;
  bool contiguous = true;
  bool weak = false;  ///< a C++ number among an op's arguments, whose type gives way to that of the tensors beside it
  Device device;
  std::int64_t id = 0;
  void* data = nullptr;        ///< first element, in the storage
  Intrusive<Storage> storage;  ///< empty on a symbolic tensor
  Intrusive<Origin> origin;    ///< of a symbolic tensor in a graph
  Shape shape;
  std::array<std::int64_t, Shape::max_rank> strides;  ///< in elements; only the first rank() are set
};

[[noreturn]] TAPESTRY_API void throw_empty_tensor();

}  // namespace detail
}  // namespace tapestry
