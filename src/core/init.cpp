#include <cstring>

#include "core/convert.hpp"
#include "core/make_tensor.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry {

Init::Init(std::initializer_list<Init> items) : kind_(Kind::list), items_(items) {}

void detail::refuse_literal(std::uint64_t number) {
  throw InvalidArgumentError(join(number, " does not fit the element type int64"));
}

Init::Init(const std::vector<bool>& items) : kind_(Kind::tensor) {
  tensor_ = detail::make_tensor(boolean, {static_cast<std::int64_t>(items.size())}, cpu());
  std::copy(items.begin(), items.end(), detail::mutable_data<bool>(tensor_));
}

Tensor Init::copy_of(const void* items, DType dtype, std::int64_t count) {
  Tensor tensor = detail::make_tensor(dtype, std::span<const std::int64_t>(&count, 1), cpu());
  if (count > 0) std::memcpy(tensor.impl().data, items, count * size_of(dtype));
  return tensor;
}

/// Writes the elements of a nested list, which must be rectangular, into one tensor.
class InitFlattener {
 public:
  static Tensor flatten(const Init& root, std::optional<DType> dtype) {
    const DType type = dtype ? *dtype : widest(root);
    if (root.kind_ == Init::Kind::number) return scalar(root, type);
    const Shape shape = shape_of(root);
    Tensor out = detail::make_tensor(type == DType::unknown ? float32 : type, shape, cpu());
    auto* position = static_cast<std::byte*>(out.impl().data);
    write(root, shape, out.dtype(), position);
    return out;
  }

 private:
  /// As below, but quicker, because each number in an expression becomes a tensor.
  static Tensor scalar(const Init& init, DType type) {
    Tensor out = detail::make_tensor(type, {}, cpu());
    detail::visit_dtype(type, [&]<class T>() { *detail::mutable_data<T>(out) = number<T>(init); });
    return out;
  }

  static DType widest(const Init& init) {
    if (init.kind_ == Init::Kind::number) return init.dtype_;
    if (init.kind_ == Init::Kind::tensor) return init.tensor_.dtype();
    DType type = DType::unknown;
    for (const Init& item : init.items_) type = promote(type, widest(item));
    return type;
  }

  static Shape shape_of(const Init& init) {
    if (init.kind_ == Init::Kind::tensor) return init.tensor_.shape();
    Shape shape;
    if (init.kind_ == Init::Kind::list) {
      if (!init.items_.empty()) shape = shape_of(init.items_.front());
      shape.insert(0, static_cast<std::int64_t>(init.items_.size()));
    }
    return shape;
  }

  static void write(const Init& init, const Shape& shape, DType type, std::byte*& position) {
    if (shape_of(init) != shape)
      throw InvalidArgumentError(detail::join("A nested list must be rectangular: there are parts of shape ", shape,
                                              " and of shape ", shape_of(init)));
    if (init.kind_ == Init::Kind::list) {
      Shape inner = shape;
      inner.erase(0);
      for (const Init& item : init.items_) write(item, inner, type, position);
      return;
    }
    detail::visit_dtype(type, [&]<class T>() {
      auto* out = reinterpret_cast<T*>(position);
      if (init.kind_ == Init::Kind::number) {
        *out = number<T>(init);
        position += sizeof(T);
      } else {
        const std::vector<T> values = values_of<T>(init.tensor_);
        std::copy(values.begin(), values.end(), out);
        position += values.size() * sizeof(T);
      }
    });
  }

  template <class T>
  static T number(const Init& init) {
    if (is_floating(init.dtype_)) {
      if constexpr (std::is_same_v<T, bool>) return init.real_ != 0;
      return detail::convert<T>(init.real_);
    }
    if constexpr (std::is_same_v<T, bool>) return init.whole_ != 0;
    if (static_cast<std::int64_t>(static_cast<T>(init.whole_)) != init.whole_ && std::is_integral_v<T>)
      throw InvalidArgumentError(
          detail::join(init.whole_, " does not fit the element type ", to_string(dtype_of<T>())));
    return static_cast<T>(init.whole_);
  }

  template <class T>
  static std::vector<T> values_of(const Tensor& tensor) {
    return tensor.to_vector<T>();
  }
};

Tensor Init::tensor(std::optional<DType> dtype, Where where) const {
  return detail::locating({}, where, [&] {
    if (kind_ == Kind::tensor && tensor_.dtype() == dtype.value_or(tensor_.dtype())) return tensor_;
    return InitFlattener::flatten(*this, dtype);
  });
}

Tensor tensor(const Init& value, const Shape& shape, Where where) {
  const Tensor flat = value.tensor({}, where);
  if (!shape.is_known() || shape.size() != flat.size())
    throw InvalidArgumentError(detail::join("A literal of ", flat.size(), " elements cannot have the shape ", shape),
                               where);
  const Tensor dense = detail::on_host(flat);
  return detail::make_view(dense, shape, row_major_strides(shape));
}

}  // namespace tapestry
