#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/stream.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::io {

/// How a file stores its elements, and as which they are read: those of a type that we lack become the next wider one
/// that holds all their values.
struct FileElements {
  std::size_t size = 0;          ///< bytes of one in the file
  DType dtype = DType::unknown;  ///< unknown: there is no such type, or none of ours holds its values
  void (*convert)(const std::byte* from, std::int64_t count, void* to) = nullptr;  ///< absent: the bytes stay
};

/// The elements of a kind and size: 'b' truth values, 'i' and 'u' whole numbers with and without a sign, 'f' floats (as
/// in NumPy's type strings), 'B' bfloat16.
FileElements file_elements(char kind, std::size_t size, std::endian order = std::endian::little);

/// The bytes of so many elements; -1 when they are no 63-bit number. A size of 0 does not excuse the others.
std::int64_t claimed_bytes(std::span<const std::int64_t> sizes, std::size_t element_size);

/// A tensor whose elements are all the rest of a stream. Throws DataLossError, before it allocates anything, when the
/// stream cannot hold as many, and then when it ends early or goes on behind them.
Tensor read_elements(ByteStream& from, const FileElements& elements, const Shape& shape);

/// The elements of a tensor that is to be saved, on the CPU, row-major and without gaps. `name` is what an error calls
/// it. Throws InvalidArgumentError for an empty handle, FailedPreconditionError for a symbolic tensor.
Tensor saved_form(const Tensor& tensor, std::string_view name, Where where);

/// The memory of such a tensor, which lives as long as it does.
std::span<const std::byte> bytes_of(const Tensor& host);

}  // namespace tapestry::io
