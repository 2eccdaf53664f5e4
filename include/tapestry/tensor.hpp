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

/// What is known of a tensor before it has a value; -1 in the shape is a size known later.
struct Spec {
  DType dtype = DType::unknown;  ///< unknown: that of what is fed
  Shape shape;                   ///< by default a scalar's
  /// Equal dtypes and shapes; an unknown size equals only an unknown one.
  friend bool operator==(const Spec&, const Spec&) = default;
};
/// What an op's `infer` gives: one for each output.
using Specs = SmallVector<Spec, 1>;

namespace detail {
template <>
inline constexpr bool is_relocatable<Tensor> = true;  // one pointer
}  // namespace detail

/// A list of tensors, such as an op's inputs; converts to and from std::vector<Tensor>.
using Tensors = SmallVector<Tensor, 2>;

/// What C++ would compile to something that is not meant: `==` and `!=` of tensors (use `tp::equal` for elements,
/// `a.is(b)` for identity), and `&&` and `||` (use `&` and `|` for elements, `bool(a) && bool(b)` for handles).
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

/// A cheap handle on an immutable value of up to 8 dimensions. It is eager (it has data) or symbolic (it has only a
/// dtype and a shape until a graph runs). An empty handle, `if (!t)`, is what TensorFlow calls None.
class TAPESTRY_API Tensor {
 public:
  /// An empty handle.
  Tensor() = default;
  Tensor(const Tensor&) = default;      ///< another handle on the same tensor
  Tensor(Tensor&&) noexcept = default;  ///< the handle itself; the other one is empty then
  /// Of names only: `x(0) = y` would put y into a handle that nobody has. `slice_update` is what is meant there.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;  ///< the same for a handle that nobody needs any more
  ~Tensor() = default;

  /// Whether there is a tensor: false for an empty handle, which has no other property.
  explicit operator bool() const { return static_cast<bool>(impl_); }
  /// Whether both handles name the same tensor. For the elements there is `tp::equal`.
  bool is(const Tensor& other) const { return impl_.get() == other.impl_.get(); }

  /// The sizes of the dimensions; of a symbolic tensor some may be unknown.
  const Shape& shape() const { return impl().shape; }
  /// The type of the elements.
  DType dtype() const { return impl().dtype; }
  /// The device on which the elements are.
  Device device() const { return impl().device; }
  /// Number of dimensions. Throws FailedPreconditionError when it is unknown, `!shape().has_rank()`.
  int rank(Where where = Where::here()) const {
    const int rank = impl().shape.rank();
    if (rank < 0) [[unlikely]]
      refuse_rank(where);
    return rank;
  }
  /// Number of elements. Throws FailedPreconditionError when a size is unknown, `!shape().is_known()`.
  std::int64_t size(Where where = Where::here()) const { return impl().shape.size(where); }
  /// A number that no other tensor of the process has.
  std::int64_t id() const { return impl().id; }
  /// Whether it stands for a value that exists only while a graph runs.
  bool is_symbolic() const { return !impl().storage; }
  /// Dtype and shape together.
  Spec spec() const { return {dtype(), shape()}; }

  /// The value of a tensor of one element, converted to T. Throws InvalidArgumentError for any other size, and
  /// FailedPreconditionError for a symbolic tensor.
  template <class T>
  T item(Where where = Where::here()) const {
    T value;
    copy_out(&value, 1, dtype_of<T>(), "item", where);
    return value;
  }
  /// The elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector(Where where = Where::here()) const {
    if constexpr (std::is_same_v<T, bool>) {
      const auto bytes = to_vector<std::uint8_t>(boolean, where);
      return std::vector<bool>(bytes.begin(), bytes.end());
    } else {
      return to_vector<T>(dtype_of<T>(), where);
    }
  }
  /// The elements themselves, row-major. Throws FailedPreconditionError unless the tensor is eager, on the CPU and
  /// contiguous (see `contiguous`), and InvalidArgumentError when T is another element type. Valid while a handle
  /// lives.
  template <class T>
  const T* data(Where where = Where::here()) const {
    return static_cast<const T*>(host_data(dtype_of<T>(), where));
  }

  /// This tensor on another device; itself when it is there already. Recorded, as every op.
  Tensor to(Device device, Where where = Where::here()) const;
  /// This tensor with another element type; itself when it has it already. Floats are truncated towards zero.
  Tensor cast(DType dtype, Where where = Where::here()) const;
  /// This tensor with its elements in row-major order without gaps: a copy for a transposed or sliced view.
  Tensor contiguous(Where where = Where::here()) const;
  /// Whether the elements lie in row-major order without gaps.
  bool is_contiguous() const { return impl().contiguous; }
  /// Distances between neighbours along each axis, in elements; 0 along a broadcast axis.
  std::span<const std::int64_t> strides() const {
    return {impl().strides.data(), static_cast<std::size_t>(impl().shape.rank())};
  }

  /// NumPy's basic indexing: whole numbers, `tp::all`, `tp::range`, `tp::newaxis`, `tp::ellipsis`. A view.
  template <class... Indices>
  requires(std::constructible_from<Index, Indices>&&...) Tensor operator()(Index first, Indices... rest) const;

  /// "float32[64,784] cpu min -0.42 max 2.8 mean 0.13", and how many are NaN, if any.
  std::string describe() const;

  /// The operation whose output this is in a graph; an empty handle for an eager tensor.
  Operation op() const;
  /// "u:0", the operation's name and which of its outputs; "" for an eager tensor.
  std::string name() const;
  /// The operations that have this tensor of a graph among their inputs.
  std::vector<Operation> consumers() const;
  /// The value, by the thread's default session, or, where there is none, by a session of the graph's own. An eager
  /// tensor gives itself.
  /// @{
  Tensor eval(Where where = Where::here()) const;
  Tensor eval(const Feeds& feeds, Where where = Where::here()) const;
  /// @}

  /// For backends and the dispatcher only: the implementation, which must not be empty.
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
  /// The elements as the dtype, whose values a T holds.
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

/// As numpy.set_printoptions.
struct PrintOptions {
  int precision = 8;      ///< digits after the point, at most
  int threshold = 1000;   ///< more elements than this are summarised with `...`
  int edge_items = 3;     ///< elements shown at each end of a summarised axis
  int line_width = 75;    ///< characters
  bool suppress = false;  ///< never use the scientific notation
};
/// How tensors are printed from now on, by all threads. Throws InvalidArgumentError for a negative number, or when
/// `edge_items` or `line_width` is 0.
TAPESTRY_API void set_print_options(const PrintOptions& options, Where where = Where::here());
/// The options of now.
TAPESTRY_API PrintOptions print_options();

namespace detail {
[[noreturn]] TAPESTRY_API void refuse_literal(std::uint64_t number);
}

/// A literal: a number, a tensor, a container or a nested list of them. Literals follow TensorFlow: 1 is int32, 1.0 is
/// float32 and true is bool; a container keeps its element type, and of a mixed list the widest type wins.
class TAPESTRY_API Init {
 public:
  /// Of a number. Throws InvalidArgumentError when it does not fit int64.
  template <class T>
  requires detail::is_number<T> Init(
      T number) {  // NOLINT(google-explicit-constructor): a literal stands for its tensor
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
      dtype_ = sizeof(T) > 4 || (sizeof(T) == 4 && std::is_unsigned_v<T>) ? int64 : int32;
      if constexpr (std::is_unsigned_v<T>)
        if (whole_ < 0) detail::refuse_literal(number);
    }
  }
  /// Of a tensor's size: the number.
  Init(const Dimension& size) : Init(std::int64_t{size}) {}  // NOLINT
  /// Of a tensor: itself, unless another element type is wanted.
  Init(const Tensor& tensor) : kind_(Kind::tensor), tensor_(tensor) {}  // NOLINT
  /// Of a list in braces: a new first dimension.
  Init(std::initializer_list<Init> items);  // NOLINT
  /// Of the elements of a container, a tensor [n].
  template <std::ranges::contiguous_range R>
  requires(detail::is_number<std::ranges::range_value_t<R>> && !std::convertible_to<R, std::string_view>)
      Init(const R& items)
      : Init(copy_of(std::ranges::data(items), static_cast<std::int64_t>(std::ranges::size(items)))) {}
  /// The same for the container whose elements have no addresses.
  Init(const std::vector<bool>& items);  // NOLINT
  /// Of a container of rows, which are literals of one shape.
  template <std::ranges::forward_range R>
  requires(!detail::is_number<std::ranges::range_value_t<R>>) Init(const R& rows)  // NOLINT: a container of rows
      : kind_(Kind::list), items_(std::ranges::begin(rows), std::ranges::end(rows)) {}

  /// Whether the literal is a tensor, and whether that is an empty handle.
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
    return copy_of(items, dtype_of<T>(), count);
  }
  static Tensor copy_of(const void* items, DType dtype, std::int64_t count);

  Kind kind_ = Kind::number;
  DType dtype_ = DType::unknown;
  double real_ = 0;
  std::int64_t whole_ = 0;
  Tensor tensor_;
  std::vector<Init> items_;
};

/// A tensor of a literal, by default on the CPU, optionally with another element type T or in another shape of the same
/// size. Throws InvalidArgumentError when the shape has another size, when the rows of a list differ in shape, and when
/// a whole number does not fit T. (`Place` is a template parameter so that braces behind the value, `{}` and `{0}` too,
/// can only be a shape.)
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
/// What `tp::range` makes.
struct RangeIndex {
  std::optional<std::int64_t> start;  ///< the first place; negative ones count from the end
  std::optional<std::int64_t> stop;   ///< the place before which it ends
  std::int64_t step = 1;              ///< from one place to the next; negative ones go backwards
};

inline constexpr AllIndex all{};            ///< Python's `:`
inline constexpr EllipsisIndex ellipsis{};  ///< Python's `...`
inline constexpr NewAxisIndex newaxis{};    ///< numpy.newaxis
/// Python's `start:stop:step`; std::nullopt stands for a missing bound.
constexpr RangeIndex range(std::optional<std::int64_t> start, std::optional<std::int64_t> stop, std::int64_t step = 1) {
  return {start, stop, step};
}
/// Python's `:stop`.
constexpr RangeIndex range(std::int64_t stop) { return {std::nullopt, stop, 1}; }

/// One index of `x(...)`, with the place where it was written.
class TAPESTRY_API Index {
 public:
  /// Which of Python's forms it is.
  enum class Kind : std::uint8_t {
    number,    ///< `2`
    range,     ///< `1:3`, with a step
    colon,     ///< `:`
    dots,      ///< `...`
    new_axis,  ///< None
  };

  /// Whole numbers take one place along the axis, which disappears; the others are as in NumPy.
  /// @{
  template <std::integral T>
  Index(T i, Where at = Where::here()) : kind(Kind::number), where(at) {  // NOLINT
    range.start = static_cast<std::int64_t>(i);
  }
  Index(const Dimension& i, Where at = Where::here()) : Index(std::int64_t{i}, at) {}        // NOLINT
  Index(RangeIndex r, Where at = Where::here()) : kind(Kind::range), range(r), where(at) {}  // NOLINT
  Index(AllIndex, Where at = Where::here()) : kind(Kind::colon), where(at) {}                // NOLINT
  Index(EllipsisIndex, Where at = Where::here()) : kind(Kind::dots), where(at) {}            // NOLINT
  Index(NewAxisIndex, Where at = Where::here()) : kind(Kind::new_axis), where(at) {}         // NOLINT
  /// @}

  Kind kind;         ///< says whether `range` counts
  RangeIndex range;  ///< of a number its `start`
  Where where;       ///< the user's line
};

namespace detail {
TAPESTRY_API Tensor index(const Tensor& x, std::initializer_list<Index> indices);
}

// `first` is converted where the caller wrote it, and so knows that place.
template <class... Indices>
requires(std::constructible_from<Index, Indices>&&...) Tensor Tensor::operator()(Index first, Indices... rest) const {
  return detail::index(*this, {first, Index(rest)...});
}

/// @}

}  // namespace tapestry
