#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tapestry {

namespace detail {
/// Whether an object can be moved by copying its bytes, without a constructor. This is true of a handle that nothing
/// points to.
template <class T>
inline constexpr bool is_relocatable = std::is_trivially_copyable_v<T>;

/// A std::vector, std::array, std::span or SmallVector of integers of any width.
template <class R>
concept IntegerList = std::ranges::contiguous_range<R> && std::integral<std::ranges::range_value_t<R>> &&
                      !std::same_as<std::ranges::range_value_t<R>, bool> &&
                      !std::convertible_to<R, std::string_view>;
/// The number as int64; the largest one stands for what exceeds it, which is beyond any size or index.
template <std::integral T>
constexpr std::int64_t saturated(T number) {
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  return std::cmp_greater(number, largest) ? largest : static_cast<std::int64_t>(number);
}
}  // namespace detail

/// A vector that stores up to N elements inside the object. The lists of an op's inputs, outputs and axes are short,
/// and a heap block for each would cost more than the rest of recording the op.
template <class T, std::size_t N>
class SmallVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() = default;
  SmallVector(std::initializer_list<T> items) { append(items.begin(), items.end()); }
  template <class Iterator>
  SmallVector(Iterator first, Iterator last) {
    append(first, last);
  }
  SmallVector(const std::vector<T>& items)  // NOLINT(google-explicit-constructor): the two are the same list
      requires(!std::is_same_v<T, bool>) {
    append(items.begin(), items.end());
  }
  template <detail::IntegerList R>
  SmallVector(const R& items)  // NOLINT(google-explicit-constructor): a list of integers of any width
      requires(std::same_as<T, std::int64_t>) {
    reserve(std::ranges::size(items));
    for (const auto item : items) push_back(detail::saturated(item));
  }
  explicit SmallVector(std::size_t count, const T& value = T()) {
    reserve(count);
    for (std::size_t i = 0; i < count; ++i) push_back(value);
  }
  SmallVector(const SmallVector& other) { append(other.begin(), other.end()); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) {
      SmallVector copy(other);
      *this = std::move(copy);
    }
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~SmallVector() {
    std::destroy_n(data_, size_);
    free_block();
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) [[unlikely]]
      return grow_and_emplace(std::forward<Args>(args)...);
    return *std::construct_at(data_ + size_++, std::forward<Args>(args)...);
  }
  void push_back(const T& item) { emplace_back(item); }
  void push_back(T&& item) { emplace_back(std::move(item)); }
  void pop_back() { std::destroy_at(data_ + --size_); }
  void clear() {
    std::destroy_n(data_, size_);
    size_ = 0;
  }
  void resize(std::size_t count) {
    reserve(count);
    while (size_ > count) pop_back();
    while (size_ < count) emplace_back();
  }
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    T* block = std::allocator<T>().allocate(count);
    std::uninitialized_move_n(data_, size_, block);
    const std::uint32_t size = size_;
    release();
    data_ = block;
    size_ = size;
    capacity_ = static_cast<std::uint32_t>(count);
  }
  template <class Iterator>
  void append(Iterator first, Iterator last) {
    reserve(size_ + static_cast<std::size_t>(std::distance(first, last)));
    for (; first != last; ++first, ++size_) std::construct_at(data_ + size_, *first);
  }
  T* insert(T* position, T item) {
    const std::ptrdiff_t index = position - data_;
    push_back(std::move(item));
    std::rotate(data_ + index, data_ + size_ - 1, data_ + size_);
    return data_ + index;
  }
  T* erase(T* position) {
    std::move(position + 1, end(), position);
    pop_back();
    return position;
  }

  operator std::span<const T>() const { return {data_, size_}; }  // NOLINT(google-explicit-constructor)
  operator std::vector<T>() const { return {begin(), end()}; }    // NOLINT(google-explicit-constructor)
  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  T* inline_data() { return reinterpret_cast<T*>(storage_); }

  /// This is apart from `emplace_back`, so that the compiler inlines the common case.
  template <class... Args>
  [[gnu::noinline]] T& grow_and_emplace(Args&&... args) {
    // The new element is constructed first, because an argument may refer to the memory block that reserve() frees.
    T item(std::forward<Args>(args)...);
    reserve(std::size_t{capacity_} * 2);
    return *std::construct_at(data_ + size_++, std::move(item));
  }

  void free_block() {
    if (data_ != inline_data()) [[unlikely]]
      std::allocator<T>().deallocate(data_, capacity_);
  }
  /// Leaves the vector empty, with its inline storage.
  void release() {
    clear();
    free_block();
    data_ = inline_data();
    capacity_ = N;
  }
  /// Takes over the elements of another vector. This vector must be empty, with its inline storage.
  void take(SmallVector& other) {
    if (other.data_ != other.inline_data()) {
      data_ = std::exchange(other.data_, other.inline_data());
      capacity_ = std::exchange(other.capacity_, N);
      size_ = std::exchange(other.size_, 0);
    } else if constexpr (detail::is_relocatable<T>) {
      // The whole storage is copied: a size that is known at compile time is faster than fewer bytes.
      std::memcpy(storage_, other.storage_, sizeof storage_);
      size_ = std::exchange(other.size_, 0);
    } else {
      std::uninitialized_move_n(other.data_, other.size_, data_);
      size_ = other.size_;
      other.clear();
    }
  }

  T* data_ = inline_data();
  std::uint32_t size_ = 0, capacity_ = N;
  alignas(T) std::byte storage_[N * sizeof(T)];
};

}  // namespace tapestry
