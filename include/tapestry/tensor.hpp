#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/detail/config.hpp"
#include "tapestry/detail/tensor_impl.hpp"
#include "tapestry/device.hpp"
#include "tapestry/dtype.hpp"
#include "tapestry/error.hpp"
#include "tapestry/shape.hpp"

namespace tapestry {

/// @addtogroup tensors
/// @{

class Feeds;
class Index;
class Operation;
class Tensor;
class Variable;

/// What is known of a tensor before it has a value. A size of -1 is known later.
struct Spec {
  DType dtype = DType::unknown;  ///< `unknown` stands for the dtype of the value that is fed
  Shape shape;                   ///< by default the shape of a scalar
  /// Whether dtypes and shapes are equal. An unknown size equals only an unknown one.
  friend bool operator==(const Spec&, const Spec&) = default;
};
/// The result of an op's `infer`: one Spec for each output.
using Specs = SmallVector<Spec, 1>;

namespace detail {
template <>
inline constexpr bool is_relocatable<Tensor> = true;  // one pointer
}  // namespace detail

/// A list of tensors, such as an op's inputs. It converts to and from std::vector<Tensor>.
using Tensors = SmallVector<Tensor, 2>;

/// These operators are deleted, because C++ would give them a meaning that is not intended: `==` and `!=` (use
/// `tp::equal` for elements, `a.is(b)` for identity), `&&` and `||` (use `&` and `|` for elements, `bool(a) && bool(b)`
/// for handles).
/// @{
template <class T>
bool operator==(const Tensor&, const T&) = delete;       // use tp::equal(a, b) for elements, a.is(b) for identity
bool operator==(const Tensor&, const Tensor&) = delete;  // use tp::equal(a, b) for elements, a.is(b) for identity
template <class T>
bool operator&&(const Tensor&, const T&) = delete;  // use a & b for elements, bool(a) for handles
template <class T>
bool operator&&(const T&, const Tensor&) = delete;       // use a & b for elements, bool(a) for handles
bool operator&&(const Tensor&, const Tensor&) = delete;  // use a & b for elements, bool(a) for handles
template <class T>
bool operator||(const Tensor&, const T&) = delete;  // use a | b for elements, bool(a) for handles
template <class T>
bool operator||(const T&, const Tensor&) = delete;       // use a | b for elements, bool(a) for handles
bool operator||(const Tensor&, const Tensor&) = delete;  // use a | b for elements, bool(a) for handles
/// @}

/// A cheap handle to an immutable array of up to 8 dimensions. A tensor is either eager (it has data) or symbolic (it
/// has only a dtype and a shape until a graph runs). An empty handle, `if (!t)`, corresponds to TensorFlow's None.
class TAPESTRY_API Tensor {
 public:
  /// An empty handle.
  Tensor() = default;
  /// Another handle to the same tensor.
  Tensor(const Tensor&) = default;
  /// The handle itself; the other one is empty afterwards.
  Tensor(Tensor&&) noexcept = default;
  /// The value of a Variable, as by its `value()`.
  template <class V>
  requires(!std::same_as<V, Tensor> && std::derived_from<V, Variable>)
      Tensor(const V& variable, Where where = Where::here());  // NOLINT: reading is what a Variable is for
  /// Assigns the handle. Only named handles can be assigned: `x(0) = y` would assign a temporary handle and change no
  /// tensor. To replace elements, use `slice_update`.
  /// @{
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// @}
  ~Tensor() = default;

  /// Whether there is a tensor. An empty handle has no other property.
  explicit operator bool() const { return static_cast<bool>(impl_); }
  /// Whether both are handles to the same tensor. `tp::equal` compares the elements.
  bool is(const Tensor& other) const { return impl_.get() == other.impl_.get(); }

  /// The sizes of the dimensions. Some sizes of a symbolic tensor may be unknown.
  const Shape& shape() const { return impl().shape; }
  /// The type of the elements.
  DType dtype() const { return impl().dtype; }
  /// The device that holds the elements.
  Device device() const { return impl().device; }
  /// The number of dimensions. Throws FailedPreconditionError when it is unknown, `!shape().has_rank()`.
  int rank(Where where = Where::here()) const {
    const int rank = impl().shape.rank();
    if (rank < 0) [[unlikely]]
      refuse_rank(where);
    return rank;
  }
  /// The number of elements. Throws FailedPreconditionError when a size is unknown, `!shape().is_known()`.
  std::int64_t size(Where where = Where::here()) const { return impl().shape.size(where); }
  /// A number that no other tensor of the process has.
  std::int64_t id() const { return impl().id; }
  /// Whether the value exists only while a graph runs.
  bool is_symbolic() const { return !impl().storage; }
  /// The dtype and the shape.
  Spec spec() const { return {dtype(), shape()}; }

  /// The value of a tensor of one element, converted to T. Throws InvalidArgumentError for any other size, and
  /// FailedPreconditionError for a symbolic tensor.
  template <class T>
  T item(Where where = Where::here()) const {
    if constexpr (detail::is_other_integer<T>) {
      return static_cast<T>(item<std::int64_t>(where));
    } else {
      T value;
      copy_out(&value, 1, dtype_of<T>(), "item", where);
      return value;
    }
  }
  /// The elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector(Where where = Where::here()) const {
    if constexpr (std::is_same_v<T, bool>) {
      const auto bytes = to_vector<std::uint8_t>(boolean, where);
      return std::vector<bool>(bytes.begin(), bytes.end());
    } else if constexpr (detail::is_other_integer<T>) {
      const auto numbers = to_vector<std::int64_t>(where);
      std::vector<T> values(numbers.size());
      std::transform(numbers.begin(), numbers.end(), values.begin(),
                     [](auto number) { return static_cast<T>(number); });
      return values;
    } else {
      return to_vector<T>(dtype_of<T>(), where);
    }
  }
  /// A pointer to the elements, in row-major order. It is valid while a handle exists. Throws FailedPreconditionError
  /// unless the tensor is eager, on the CPU and contiguous (see `contiguous`), and InvalidArgumentError when T is not
  /// its element type.
  template <class T>
  const T* data(Where where = Where::here()) const {
    return static_cast<const T*>(host_data(dtype_of<T>(), where));
  }

  /// This tensor on another device, or this tensor itself if it is already there. Tapes and graphs record the move.
  Tensor to(Device device, Where where = Where::here()) const;
  /// This tensor with another element type, or this tensor itself if it already has it. Floats that become integers are
  /// truncated towards zero.
  Tensor cast(DType dtype, Where where = Where::here()) const;
  /// This tensor with its elements in row-major order without gaps: a copy if it is, for example, a transposed or
  /// sliced view.
  Tensor contiguous(Where where = Where::here()) const;
  /// Whether the elements are stored in row-major order without gaps.
  bool is_contiguous() const { return impl().contiguous; }
  /// The distance between neighbours along each axis, in elements; 0 along a broadcast axis.
  std::span<const std::int64_t> strides() const {
    return {impl().strides.data(), static_cast<std::size_t>(impl().shape.rank())};
  }

  /// NumPy's basic indexing: integers, `tp::all`, `tp::range`, `tp::newaxis`, `tp::ellipsis`. The result is a view.
  template <class... Indices>
  requires(std::constructible_from<Index, Indices>&&...) Tensor operator()(Index first, Indices... rest) const;

  /// The parts of this tensor where a mask is true; see `boolean_mask`.
  Tensor operator()(const Tensor& mask, Where where = Where::here()) const;

  /// A summary of the tensor, "float32[64,784] cpu min -0.42 max 2.8 mean 0.13", and how many elements are NaN, if any.
  std::string describe() const;

  /// The operation of a graph that has this tensor as an output; an empty handle for an eager tensor.
  Operation op() const;
  /// The name of the operation and the number of the output, "u:0"; "" for an eager tensor.
  std::string name() const;
  /// The operations of a graph that have this tensor as an input.
  std::vector<Operation> consumers() const;
  /// The value, computed by the thread's default session if it is one of this graph, otherwise by a new session. An
  /// eager tensor is its own value.
  /// @{
  Tensor eval(Where where = Where::here()) const;
  Tensor eval(const Feeds& feeds, Where where = Where::here()) const;
  /// @}

  /// For backends and the dispatcher only: the implementation. The handle must not be empty.
  /// @{
  detail::TensorImpl& impl() const {
    if (!impl_) [[unlikely]]
      detail::throw_empty_tensor();
    return *impl_;
  }
  explicit Tensor(detail::Intrusive<detail::TensorImpl> impl) : impl_(std::move(impl)) {}
  /// @}

 private:
  void copy_out(void* out, std::int64_t count, DType to, std::string_view what, Where where) const;
  /// The elements, converted to the dtype, which T represents.
  template <class T>
  std::vector<T> to_vector(DType dtype, Where where) const {
    std::vector<T> values;
    try {
      values.resize(static_cast<std::size_t>(std::max<std::int64_t>(shape().num_elements(), 0)));
    } catch (const std::exception&) {
      refuse_vector(sizeof(T), where);
    }
    copy_out(values.data(), -1, dtype, "to_vector", where);
    return values;
  }
  [[noreturn]] void refuse_rank(Where where) const;
  [[noreturn]] void refuse_vector(std::size_t element_bytes, Where where) const;
  const void* host_data(DType wanted, Where where) const;

  detail::Intrusive<detail::TensorImpl> impl_;
};

/// Prints the elements as NumPy does: `[ 2 -1]`.
TAPESTRY_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

/// How tensors are printed, as in numpy.set_printoptions.
struct PrintOptions {
  int precision = 8;      ///< the largest number of digits after the point
  int threshold = 1000;   ///< the largest number of elements that is printed in full; larger tensors show `...`
  int edge_items = 3;     ///< the number of elements shown at each end of a shortened axis
  int line_width = 75;    ///< the number of characters in a line
  bool suppress = false;  ///< never use the scientific notation
};
/// Sets how tensors are printed from now on, by all threads. Throws InvalidArgumentError for a negative number, or when
/// `edge_items` or `line_width` is 0.
TAPESTRY_API void set_print_options(const PrintOptions& options, Where where = Where::here());
/// The current options.
TAPESTRY_API PrintOptions print_options();

namespace detail {
[[noreturn]] TAPESTRY_API void refuse_literal(std::uint64_t number);
}

/// A literal: a number, a tensor, a container or a nested list of these. As in TensorFlow, 1 is int32, 1.0 is float32
/// and true is bool. A container keeps its element type, and a mixed list takes the widest type in it.
class TAPESTRY_API Init {
 public:
  /// From a number. Throws InvalidArgumentError when it does not fit int64.
  template <class T>
  requires detail::is_number<T> Init(T number) {  // NOLINT: a literal stands for its tensor
    if constexpr (is_float16<T>) {
      real_ = static_cast<double>(number);
      dtype_ = dtype_of<T>();
    } else if constexpr (std::is_floating_point_v<T>) {
      real_ = static_cast<double>(number);
      dtype_ = float32;
    } else if constexpr (std::is_same_v<T, bool>) {
      whole_ = number;
      dtype_ = boolean;
    } else {
      whole_ = static_cast<std::int64_t>(number);
      dtype_ = dtype_of<detail::LiteralInteger<T>>();
      if constexpr (std::is_unsigned_v<T>)
        if (whole_ < 0) detail::refuse_literal(number);
    }
  }
  /// From a tensor's size, as a number.
  Init(const Dimension& size) : Init(std::int64_t{size}) {}  // NOLINT
  /// From a tensor. It stays the same tensor unless another element type is asked for.
  Init(const Tensor& tensor) : kind_(Kind::tensor), tensor_(tensor) {}  // NOLINT
  /// From a list in braces, which adds a first dimension.
  Init(std::initializer_list<Init> items);  // NOLINT
  /// From a container of numbers, which becomes a tensor [n]. Integers of a type that is no element type become int32
  /// or int64. Throws InvalidArgumentError when one does not fit int64.
  template <std::ranges::contiguous_range R>
  requires(detail::is_number<std::ranges::range_value_t<R>> && !std::convertible_to<R, std::string_view>)
      Init(const R& items)
      : Init(copy_of(std::ranges::data(items), static_cast<std::int64_t>(std::ranges::size(items)))) {}
  /// The same for std::vector<bool>, whose elements have no addresses.
  Init(const std::vector<bool>& items);  // NOLINT
  /// From a container of rows, which must be literals of one shape.
  template <std::ranges::forward_range R>
  requires(!detail::is_number<std::ranges::range_value_t<R>>) Init(const R& rows)  // NOLINT: a container of rows
      : kind_(Kind::list), items_(std::ranges::begin(rows), std::ranges::end(rows)) {}

  /// Whether the literal is a tensor, and whether it is an empty one.
  /// @{
  bool is_tensor() const { return kind_ == Kind::tensor; }
  bool is_empty_tensor() const { return is_tensor() && !tensor_; }
  /// @}
  /// The tensor of this literal, with the given element type or its own. Throws InvalidArgumentError for a ragged list.
  Tensor tensor(std::optional<DType> dtype = {}, Where where = {}) const;

 private:
  enum class Kind : std::uint8_t { number, tensor, list };
  friend class InitFlattener;

  template <class T>
  static Tensor copy_of(const T* items, std::int64_t count) {
    if constexpr (detail::is_other_integer<T>) {
      std::vector<detail::LiteralInteger<T>> converted(items, items + count);
      if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8)
        for (std::int64_t i = 0; i < count; ++i)
          if (converted[static_cast<std::size_t>(i)] < 0) detail::refuse_literal(items[i]);
      return copy_of(converted.data(), count);
    } else {
      return copy_of(items, dtype_of<T>(), count);
    }
  }
  static Tensor copy_of(const void* items, DType dtype, std::int64_t count);

  Kind kind_ = Kind::number;
  DType dtype_ = DType::unknown;
  double real_ = 0;
  std::int64_t whole_ = 0;
  Tensor tensor_;
  std::vector<Init> items_;
};

/// The tensor of a literal, optionally with another element type T, and with another shape of the same size. A literal
/// that is not a tensor becomes one on the CPU. Throws InvalidArgumentError when the shape has another size, when the
/// rows of a list differ in shape, and when an integer does not fit T. (`Place` is a template parameter so that braces
/// after the value, `{}` and `{0}` too, can only be a shape.)
/// @{
template <std::same_as<Where> Place = Where>
Tensor tensor(const Init& value, Place where = Place::here()) {
  return value.tensor({}, where);
}
TAPESTRY_API Tensor tensor(const Init& value, const Shape& shape, Where where = Where::here());
template <class T, std::same_as<Where> Place = Where>
Tensor tensor(const Init& value, Place where = Place::here()) {
  return value.tensor(dtype_of<T>(), where);
}
template <class T>
Tensor tensor(const Init& value, const Shape& shape, Where where = Where::here()) {
  return tensor(Init(value.tensor(dtype_of<T>(), where)), shape, where);
}
/// @}

struct AllIndex {};       ///< the type of `tp::all`
struct EllipsisIndex {};  ///< the type of `tp::ellipsis`
struct NewAxisIndex {};   ///< the type of `tp::newaxis`
/// The result of `tp::range`.
struct RangeIndex {
  std::optional<std::int64_t> start;  ///< the first index; a negative one counts from the end
  std::optional<std::int64_t> stop;   ///< the index before which the range ends; a negative one counts from the end
  std::int64_t step = 1;              ///< the distance of two indices; a negative one goes backwards
};

inline constexpr AllIndex all{};            ///< Python's `:`
inline constexpr EllipsisIndex ellipsis{};  ///< Python's `...`
inline constexpr NewAxisIndex newaxis{};    ///< numpy.newaxis
/// Python's `start:stop:step`. std::nullopt stands for a missing bound.
constexpr RangeIndex range(std::optional<std::int64_t> start, std::optional<std::int64_t> stop, std::int64_t step = 1) {
  return {start, stop, step};
}
/// Python's `:stop`.
constexpr RangeIndex range(std::int64_t stop) { return {std::nullopt, stop, 1}; }

/// One index of `x(...)`, with its call site.
class TAPESTRY_API Index {
 public:
  /// Which of Python's forms the index has.
  enum class Kind : std::uint8_t {
    number,    ///< `2`
    range,     ///< `1:3`, with a step
    colon,     ///< `:`
    dots,      ///< `...`
    new_axis,  ///< None
  };

  /// An integer selects one position along the axis, which disappears. The other forms are as in NumPy.
  /// @{
  template <std::integral T>
  requires(!std::same_as<T, bool>) Index(T i, Where at = Where::here()) : kind(Kind::number), where(at) {  // NOLINT
    range.start = static_cast<std::int64_t>(i);
  }
  Index(const Dimension& i, Where at = Where::here()) : Index(std::int64_t{i}, at) {}        // NOLINT
  Index(RangeIndex r, Where at = Where::here()) : kind(Kind::range), range(r), where(at) {}  // NOLINT
  Index(AllIndex, Where at = Where::here()) : kind(Kind::colon), where(at) {}                // NOLINT
  Index(EllipsisIndex, Where at = Where::here()) : kind(Kind::dots), where(at) {}            // NOLINT
  Index(NewAxisIndex, Where at = Where::here()) : kind(Kind::new_axis), where(at) {}         // NOLINT
  /// @}

  Kind kind;         ///< the form of the index
  RangeIndex range;  ///< the bounds of a range; the `start` of a number is the number
  Where where;       ///< the call site
};

namespace detail {
TAPESTRY_API Tensor index(const Tensor& x, std::initializer_list<Index> indices);
}

// The caller converts `first`, so that it knows the call site.
template <class... Indices>
requires(std::constructible_from<Index, Indices>&&...) Tensor Tensor::operator()(Index first, Indices... rest) const {
  return detail::index(*this, {first, Index(rest)...});
}

/// @}

}  // namespace tapestry
