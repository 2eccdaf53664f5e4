#pragma once

// NPY, NumPy's format for one array (numpy.lib.format, versions 1 to 3): a magic string, the length of a header, the
// header (a Python dictionary with the type, the order and the shape, as text), and the elements.

#include <string>

#include "io/stream.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::io {

/// The tensor that a stream holds. Throws DataLossError when it is damaged, UnimplementedError for element types and
/// ranks that tensors do not have.
Tensor read_npy(ByteStream& from);

/// All that precedes the elements of a row-major tensor. `name` is the tensor's name in errors. Throws
/// UnimplementedError for bfloat16, which NumPy does not have.
std::string npy_header(const Tensor& tensor, std::string_view name, Where where);

}  // namespace tapestry::io
