#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/stream.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::io {

/// How a file stores its elements, and the dtype as which they are read. A type that is no dtype becomes the next wider
/// dtype that holds all its values.
struct FileElements {
  std::size_t size = 0;          ///< bytes of one element in the file
  DType dtype = DType::unknown;  ///< unknown: there is no such type, or no dtype holds its values
  void (*convert)(const std::byte* from, std::int64_t count, void* to) = nullptr;  ///< null: the bytes are copied
};

/// The elements of a kind and a size in bytes. The kinds are those of NumPy's type strings, 'b' for truth values, 'i'
/// and 'u' for signed and unsigned integers and 'f' for floats, and 'B' for bfloat16.
FileElements file_elements(char kind, std::size_t size, std::endian order = std::endian::little);

/// The bytes of an array with these sizes. -1 when a size is negative, or when the bytes do not fit 63 bits, where each
/// size of 0 counts as 1.
std::int64_t claimed_bytes(std::span<const std::int64_t> sizes, std::size_t element_size);

/// Reads a tensor whose elements are all the rest of a stream. Throws DataLossError when the stream cannot hold that
/// many, before it allocates anything, and when the stream ends early or continues after them.
Tensor read_elements(ByteStream& from, const FileElements& elements, const Shape& shape);

/// The tensor to save, on the CPU, row-major and contiguous. `name` is its name in errors. Throws InvalidArgumentError
/// for an empty handle, FailedPreconditionError for a symbolic tensor.
Tensor saved_form(const Tensor& tensor, std::string_view name, Where where);

/// The bytes of a tensor from `saved_form`, valid as long as the tensor lives.
std::span<const std::byte> bytes_of(const Tensor& host);

}  // namespace tapestry::io
