// The numbers of the fields are TensorFlow's.

#include "io/tensorflow/tensor_proto.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "backend/views.hpp"
#include "core/lack_refusal.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::io {

static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie in memory");

using protozero::data_view;
using protozero::pbf_writer;

// ---- Writing --------------------------------------------------------------------------------------------------------

void write_sizes(pbf_writer& writer, std::span<const std::int64_t> sizes) {
  for (const std::int64_t size : sizes)
    add_message(writer, 2, [&](pbf_writer& dim) {
      // A size of 0 is protobuf's default and is left out, as protobuf does.
      if (size != 0) dim.add_int64(1, size);
    });
}

void write_shape(pbf_writer& writer, const Shape& shape) {
  write_sizes(writer, shape.sizes());
  if (!shape.has_rank()) writer.add_bool(3, true);
}

namespace {

bool repeats_one_element(const Tensor& tensor) {
  for (int i = 0; i < tensor.rank(); ++i)
    if (tensor.shape().sizes()[i] != 1 && tensor.strides()[i] != 0) return false;
  return tensor.size() > 1;
}

/// Writes one number for all elements, in the field of its type.
void write_repeated(pbf_writer& writer, const Tensor& tensor) {
  const Tensor element = view_as(tensor, {});
  detail::visit_dtype(tensor.dtype(), [&]<class T>() {
    const T value = element.item<T>();
    if constexpr (is_float16<T>) {
      writer.add_int32(13, value.bits());
    } else if constexpr (std::is_same_v<T, float>) {
      writer.add_float(5, value);
    } else if constexpr (std::is_same_v<T, double>) {
      writer.add_double(6, value);
    } else if constexpr (std::is_same_v<T, bool>) {
      writer.add_bool(11, value);
    } else {
      writer.add_int64(std::is_same_v<T, std::int64_t> ? 10 : 7, value);
    }
  });
}

}  // namespace

void write_tensor(pbf_writer& writer, const TensorDef& tensor) {
  writer.add_enum(1, tensor.type.value);
  add_message(writer, 2, [&](pbf_writer& shape) { write_shape(shape, tensor.value.shape()); });
  // A tensor that repeats one element may be larger than any memory; the file has the element once.
  if (repeats_one_element(tensor.value)) return write_repeated(writer, tensor.value);
  const Tensor host = detail::on_host(tensor.value);
  const std::size_t bytes = detail::nbytes(host);
  if (bytes > 0) writer.add_bytes(4, static_cast<const char*>(host.impl().data), bytes);
}

// ---- Reading --------------------------------------------------------------------------------------------------------

Shape read_shape(WireReader reader, bool of_attribute) {
  Shape shape;
  bool unknown = false;
  while (reader.next()) {
    if (reader.tag() == 2) {
      WireReader dim = reader.get_message();
      std::int64_t size = 0;
      while (dim.next()) {
        if (dim.tag() == 1) {
          size = dim.get_int64();
        } else {
          dim.skip();
        }
      }
      if (of_attribute) size = std::max<std::int64_t>(size, -1);
      if (size < -1) throw DataLossError(detail::join("A shape has a dimension of size ", size));
      if (shape.rank() == Shape::max_rank)
        throw LackRefusal(detail::join("A shape has more than ", Shape::max_rank, " dimensions"));
      shape.push_back(size);
    } else if (reader.tag() == 3) {
      unknown = reader.get_bool();
    } else {
      reader.skip();
    }
  }
  return unknown ? Shape::unknown_rank() : Shape(shape.sizes());
}

namespace {

/// Reads a TensorProto. Its elements are raw bytes, or numbers, the last of which stands for all that are missing.
class TensorReader {
 public:
  TensorReader(WireReader reader, std::int64_t& repeats) : repeats_(repeats) {
    while (reader.next()) read_field(reader);
  }

  /// The value of a type of whole numbers that Tapestry lacks, as a type with more bits.
  TensorDef widened() {
    switch (type_.value) {
      case 5:
      case 15:  // qint16
        return widened_from<std::int16_t>(int32);
      case 6:
      case 11:  // qint8
        return widened_from<std::int8_t>(int32);
      case 12:  // quint8
        return widened_from<std::uint8_t>(int32);
      case 13:  // qint32
        return widened_from<std::int32_t>(int32);
      case 16:  // quint16
      case 17:
        return widened_from<std::uint16_t>(int32);
      case 22:
        return widened_from<std::uint32_t>(int64);
      case 23:
        return widened_from<std::int64_t>(int64);
      default:
        return result();
    }
  }

  /// The value of other whole numbers, or the real and the imaginary parts of complex ones, which stand beside each
  /// other.
  std::pair<TensorDef, TensorDef> parts() {
    const DType dtype = type_.value == 8 ? float32 : float64;
    if (type_.value != 8 && type_.value != 18) return {widened(), {}};
    type_ = code_of(dtype);
    const data_view content = std::exchange(content_, {});
    const std::vector<float> floats = std::exchange(floats_, {});
    const std::vector<double> doubles = std::exchange(doubles_, {});
    std::array<TensorDef, 2> found;
    for (std::size_t part = 0; part < 2; ++part) {
      floats_.clear();
      doubles_.clear();
      for (std::size_t i = part; i < floats.size(); i += 2) floats_.push_back(floats[i]);
      for (std::size_t i = part; i < doubles.size(); i += 2) doubles_.push_back(doubles[i]);
      const std::size_t size = size_of(dtype);
      std::string bytes;
      for (std::size_t i = part * size; i + size <= content.size(); i += 2 * size)
        bytes.append(content.data() + i, size);
      content_ = data_view(bytes.data(), bytes.size());
      found[part] = result();
      content_ = {};
    }
    return {found[0], found[1]};
  }

  TensorDef result() {
    if (size_of(dtype_of(type_)) == 0) return {type_};
    return {type_, value()};
  }

 private:
  template <class From>
  TensorDef widened_from(DType dtype) {
    if (content_.size() % sizeof(From) != 0)
      throw DataLossError(
          detail::join("A tensor of type ", type_name(type_), " has ", content_.size(), " bytes of data"));
    for (std::size_t i = 0; i < content_.size(); i += sizeof(From)) {
      From number;
      std::memcpy(&number, content_.data() + i, sizeof(From));
      ints_.push_back(static_cast<std::int64_t>(number));
    }
    if (!content_.empty() && ints_.size() != static_cast<std::size_t>(std::max<std::int64_t>(shape_.num_elements(), 0)))
      throw DataLossError(detail::join("A tensor of shape ", shape_, " has ", ints_.size(), " elements"));
    content_ = {};
    type_ = code_of(dtype);
    return result();
  }

  Tensor value() {
    const DType dtype = dtype_of(type_);
    if (!shape_.is_known()) throw InvalidArgumentError(detail::join("A tensor has the shape ", shape_));
    const std::int64_t count = shape_.num_elements();
    if (!content_.empty()) {
      std::int64_t bytes = 0;
      if (__builtin_mul_overflow(count, static_cast<std::int64_t>(size_of(dtype)), &bytes) ||
          static_cast<std::size_t>(bytes) != content_.size())
        throw DataLossError(detail::join("A tensor of type ", tensorflow_name(dtype), " and shape ", shape_, " has ",
                                         content_.size(), " bytes of data"));
      return from_bytes(dtype);
    }
    const std::size_t given = dtype == float32 ? floats_.size() : dtype == float64 ? doubles_.size() : ints_.size();
    if (given > static_cast<std::size_t>(count))
      throw DataLossError(detail::join("A tensor of shape ", shape_, " has ", given, " elements"));
    // A tensor that repeats one element takes the memory of one: its strides are 0.
    if (given <= 1 && count > 1) return view_broadcast(from_numbers(dtype, {}), shape_);
    repeats_ -= count - static_cast<std::int64_t>(given);
    if (repeats_ < 0)
      throw InvalidArgumentError(detail::join("A tensor of shape ", shape_, " is written as ", given, " elements"));
    return from_numbers(dtype, shape_);
  }

  void read_field(WireReader& reader) {
    switch (reader.tag()) {
      case 1:
        type_.value = reader.get_enum();
        return;
      case 2:
        shape_ = read_shape(reader.get_message(), false);
        return;
      case 4:
        content_ = reader.get_view();
        return;
      case 5:
      case 9:  // scomplex_val
        return read_numbers(reader, floats_, &WireReader::get_float, &WireReader::get_packed_float);
      case 6:
      case 12:  // dcomplex_val
        return read_numbers(reader, doubles_, &WireReader::get_double, &WireReader::get_packed_double);
      case 7:   // int_val: int32 and what is smaller
      case 10:  // int64_val
      case 13:  // half_val: the bits of float16 and bfloat16
      case 16:  // uint32_val
      case 17:  // uint64_val
        return read_numbers(reader, ints_, &WireReader::get_int64, &WireReader::get_packed_int64);
      case 11:
        return read_numbers(reader, ints_, &WireReader::get_bool, &WireReader::get_packed_bool);
      default:
        reader.skip();
    }
  }

  Tensor from_numbers(DType dtype, const Shape& shape) const {
    Tensor tensor = detail::make_tensor(dtype, shape, cpu());
    detail::visit_dtype(dtype, [&]<class T>() {
      T* out = detail::mutable_data<T>(tensor);
      if (dtype == float32) repeat_last(floats_, out, shape.size());
      if (dtype == float64) repeat_last(doubles_, out, shape.size());
      if (dtype == uint8) require_bytes();
      if (!is_floating(dtype)) repeat_last(ints_, out, shape.size());
      if constexpr (is_float16<T>) repeat_last(halves<T>(), out, shape.size());
    });
    return tensor;
  }

  void require_bytes() const {
    for (const std::int64_t each : ints_)
      if (!std::in_range<std::uint8_t>(each)) throw DataLossError(detail::join("An element of type uint8 is ", each));
  }

  /// The float16 or bfloat16 numbers with the given bits.
  template <class T>
  std::vector<T> halves() const {
    std::vector<T> numbers;
    for (const std::int64_t bits : ints_) {
      if (!std::in_range<std::uint16_t>(bits))
        throw DataLossError(detail::join("An element of type ", tensorflow_name(tapestry::dtype_of<T>()),
                                         " has more than 16 bits: ", bits));
      numbers.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
    }
    return numbers;
  }

  Tensor from_bytes(DType dtype) const {
    Tensor tensor = detail::make_tensor(dtype, shape_, cpu());
    std::memcpy(tensor.impl().data, content_.data(), content_.size());
    if (dtype == boolean)
      for (std::size_t i = 0; i < content_.size(); ++i)
        if (static_cast<unsigned char>(content_.data()[i]) > 1) throw DataLossError("A bool is neither 0 nor 1");
    return tensor;
  }

  template <class From, class To>
  static void repeat_last(const std::vector<From>& given, To* out, std::int64_t count) {
    const auto size = static_cast<std::int64_t>(given.size());
    for (std::int64_t i = 0; i < count; ++i) out[i] = size == 0 ? To{} : static_cast<To>(given[std::min(i, size - 1)]);
  }

  std::int64_t& repeats_;
  TypeCode type_;
  Shape shape_;
  data_view content_;
  std::vector<float> floats_;
  std::vector<double> doubles_;
  std::vector<std::int64_t> ints_;
};

}  // namespace

TensorDef read_tensor(WireReader reader, std::int64_t& repeats) { return TensorReader(reader, repeats).result(); }

TensorDef decode_tensor(std::string_view bytes) {
  return decoding("The data are no TensorProto, or damaged", [&] {
    auto repeats = static_cast<std::int64_t>(bytes.size());
    return TensorReader(WireReader(bytes.data(), bytes.size()), repeats).result();
  });
}

std::pair<TensorDef, TensorDef> decode_parts(const RawAttr& value) {
  return decoding("The data are no TensorProto, or damaged", [&] {
    auto repeats = static_cast<std::int64_t>(value.bytes.size());
    for (WireReader reader(value.bytes.data(), value.bytes.size()); reader.next(); reader.skip())
      if (reader.tag() == 8) return TensorReader(reader.get_message(), repeats).parts();
    throw DataLossError("A constant has no value");
  });
}

}  // namespace tapestry::io
