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

/// Allocates and frees the memory of tensors. Every backend is an Allocator.
class TAPESTRY_API Allocator {
 public:
  virtual ~Allocator() = default;
  /// Allocates `bytes` > 0 bytes, aligned to 64 bytes. Throws ResourceExhaustedError.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
};

/// A memory block that tensors share. On the CPU, a block of up to `inline_bytes` is stored directly after this header.
struct alignas(64) Storage {
  static constexpr std::size_t inline_bytes = 448;

  ReferenceCount references;
  Device device;
  std::size_t bytes = 0;
  void* data = nullptr;
  Allocator* allocator = nullptr;  ///< nullptr when the data is stored after the header

  /// Allocates memory for tensors on a device. Throws ResourceExhaustedError.
  TAPESTRY_API static Intrusive<Storage> make(Device device, std::size_t bytes);
  TAPESTRY_API static void destroy(Storage* storage) noexcept;
};

struct TensorImpl {
  explicit TensorImpl(const Shape& sizes) : shape(sizes) {}
  TAPESTRY_API static void destroy(TensorImpl* impl) noexcept;

  ReferenceCount references;
  DType dtype = DType::unknown;
  bool contiguous = true;
  /// Whether this is a C++ number among an op's arguments. Its type gives way to the type of the tensors beside it.
  bool weak = false;
  Device device;
  std::int64_t id = 0;
  /// The first element, in the storage.
  void* data = nullptr;
  /// Empty for a symbolic tensor.
  Intrusive<Storage> storage;
  /// The origin of a symbolic tensor in a graph.
  Intrusive<Origin> origin;
  Shape shape;
  /// In elements. Only the first rank() strides are set.
  std::array<std::int64_t, Shape::max_rank> strides;
};

[[noreturn]] TAPESTRY_API void throw_empty_tensor();

}  // namespace detail
}  // namespace tapestry
