#pragma once

// Number types that compute nothing: they write down what is done with them, as vector code. The formulas of
// functors.hpp and kernels/math.hpp are instantiated with them, so that compiled programs have no formulas of their
// own.

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "backend/cpu/vector_code.hpp"
#include "tapestry/dtype.hpp"

#define TAPESTRY_KERNEL_LEVEL emitted
#define TAPESTRY_INLINE inline
namespace tapestry::host::emitted::math {

template <class T>
concept Float = std::is_floating_point_v<T>;

/// A truth value in each lane.
class Mask {
 public:
  Mask(VectorCode& code, int node) : code_(&code), node_(node) {}
  VectorCode& code() const { return *code_; }
  int node() const { return node_; }
  Lane lane() const { return code_->lane(node_); }

  /// The same truth values for lanes as wide as those of `lane`.
  Mask resized(Lane lane) const {
    if (code_->avx512() || mask_of(lane) == this->lane()) return *this;
    return {*code_, code_->add({VectorOp::resize_mask, mask_of(lane), 0, {node_}})};
  }

  friend Mask operator!(Mask a) {
    VectorCode& code = a.code();
    if (code.avx512()) return {code, code.add({VectorOp::invert, a.lane(), 0, {a.node_}})};
    const int ones = code.add({VectorOp::constant, a.lane(), 0, {-1, -1, -1}, ~std::uint64_t{0}});
    return {code, code.add({VectorOp::bit_xor, a.lane(), 0, {a.node_, ones}})};
  }
  friend Mask operator&(Mask a, Mask b) { return combine(VectorOp::bit_and, a, b); }
  friend Mask operator|(Mask a, Mask b) { return combine(VectorOp::bit_or, a, b); }
  friend Mask operator^(Mask a, Mask b) { return combine(VectorOp::bit_xor, a, b); }
  friend Mask operator==(Mask a, Mask b) { return !(a ^ b); }
  friend Mask operator!=(Mask a, Mask b) { return a ^ b; }
  friend Mask operator<(Mask a, Mask b) { return (!a) & b; }
  friend Mask operator>(Mask a, Mask b) { return a & (!b); }
  friend Mask operator<=(Mask a, Mask b) { return (!a) | b; }
  friend Mask operator>=(Mask a, Mask b) { return a | (!b); }

 private:
  static Mask combine(VectorOp op, Mask a, Mask b) {
    const Mask same = b.resized(a.lane());
    return {a.code(), a.code().add({op, a.lane(), 0, {a.node_, same.node_}})};
  }
  VectorCode* code_;
  int node_;
};

/// A number of type T in each lane: a float, or, as std::uint32_t or std::uint64_t, the bits of one. A constant needs
/// no code until it meets a number that has some.
template <class T>
class Value {
 public:
  static constexpr Lane lane = sizeof(T) == 4 ? Lane::bits32 : Lane::bits64;
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

  template <class Number>
  requires std::is_arithmetic_v<Number>
  constexpr Value(Number constant) : constant_(static_cast<T>(constant)) {}
  Value(VectorCode& code, int node) : code_(&code), node_(node) {}
  bool is_constant() const { return code_ == nullptr; }
  T constant() const { return constant_; }
  /// That of a number that is no constant.
  VectorCode& code() const { return *code_; }  // NOLINT(clang-analyzer-core.uninitialized.UndefReturn)
  int node_in(VectorCode& code) const {
    if (code_) return node_;
    return code.add({VectorOp::constant, lane, 0, {-1, -1, -1}, std::bit_cast<Bits>(constant_)});
  }

  Value<Bits> bits() const {
    if (is_constant()) return std::bit_cast<Bits>(constant_);
    return {*code_, node_};
  }
  static Value from_bits(const Value<Bits>& bits) {
    if (bits.is_constant()) return std::bit_cast<T>(bits.constant());
    return {bits.code(), bits.node_in(bits.code())};
  }

  friend Value operator+(Value a, Value b) {
    return combine(Float<T> ? VectorOp::add : VectorOp::add_bits, a, b, [](T x, T y) { return x + y; });
  }
  friend Value operator-(Value a, Value b) {
    return combine(Float<T> ? VectorOp::subtract : VectorOp::subtract_bits, a, b, [](T x, T y) { return x - y; });
  }
  friend Value operator*(Value a, Value b) requires Float<T> {
    return combine(VectorOp::multiply, a, b, [](T x, T y) { return x * y; });
  }
  friend Value operator/(Value a, Value b) requires Float<T> {
    return combine(VectorOp::divide, a, b, [](T x, T y) { return x / y; });
  }
  friend Value operator&(Value a, Value b) requires(!Float<T>) {
    return combine(VectorOp::bit_and, a, b, [](T x, T y) { return x & y; });
  }
  friend Value operator|(Value a, Value b) requires(!Float<T>) {
    return combine(VectorOp::bit_or, a, b, [](T x, T y) { return x | y; });
  }
  friend Value operator-(Value a) requires Float<T> {
    return a.is_constant() ? Value(-a.constant_) : record(VectorOp::bit_xor, a, T(-0.0));
  }
  friend Value operator<<(Value a, int count) requires(!Float<T>) {
    if (a.is_constant()) return a.constant_ << count;
    return shift(VectorOp::shift_left, a, count);
  }
  friend Value operator>>(Value a, int count) requires(!Float<T>) { return shift(VectorOp::shift_right, a, count); }

  // The predicates of vcmpps that raise no exception but for the ones of C++.
  friend Mask operator==(Value a, Value b) requires Float<T> { return compare(a, b, 0x00); }
  friend Mask operator!=(Value a, Value b) requires Float<T> { return compare(a, b, 0x04); }
  friend Mask operator<(Value a, Value b) requires Float<T> { return compare(a, b, 0x11); }
  friend Mask operator<=(Value a, Value b) requires Float<T> { return compare(a, b, 0x12); }
  friend Mask operator>(Value a, Value b) requires Float<T> { return compare(a, b, 0x1e); }
  friend Mask operator>=(Value a, Value b) requires Float<T> { return compare(a, b, 0x1d); }

  /// The code of an operation on a and b, of which one at least is no constant.
  static Value record(VectorOp op, Value a, Value b) {
    VectorCode& code = a.is_constant() ? b.code() : a.code();
    const int left = a.node_in(code), right = b.node_in(code);
    return {code, code.add({op, lane, 0, {left, right}})};
  }

 private:
  /// Two constants are computed at once.
  template <class Compute>
  static Value combine(VectorOp op, Value a, Value b, Compute compute) {
    if (a.is_constant() && b.is_constant()) return compute(a.constant_, b.constant_);
    return record(op, a, b);
  }
  static Value shift(VectorOp op, Value a, int count) {
    return {a.code(), a.code().add({op, lane, static_cast<std::uint8_t>(count), {a.node_}})};
  }
  static Mask compare(Value a, Value b, std::uint8_t predicate) {
    VectorCode& code = a.is_constant() ? b.code() : a.code();
    const int left = a.node_in(code), right = b.node_in(code);
    return {code, code.add({VectorOp::compare, mask_of(lane), predicate, {left, right}})};
  }

  VectorCode* code_ = nullptr;
  int node_ = -1;
  T constant_{};
};

/// A whole number of one of the element types in each lane; a uint8 is the value of a lane of 32 bits. A constant has
/// the type of the number that it meets.
class Whole {
 public:
  template <std::integral Number>
  constexpr Whole(Number constant) : constant_(constant) {}
  Whole(VectorCode& code, int node, DType dtype) : code_(&code), node_(node), dtype_(dtype) {}
  VectorCode& code() const { return *code_; }
  DType dtype() const { return dtype_; }
  Lane lane() const { return lane_of(dtype_); }
  int node() const { return node_; }
  static Lane lane_of(DType dtype) { return dtype == DType::int64 ? Lane::bits64 : Lane::bits32; }

  friend Whole operator+(Whole a, Whole b) { return combine(VectorOp::add_bits, a, b); }
  friend Whole operator-(Whole a, Whole b) { return combine(VectorOp::subtract_bits, a, b); }
  friend Whole operator-(Whole a) { return Whole(0) - a; }
  friend Whole operator*(Whole a, Whole b) {
    unify(a, b);
    if (a.dtype_ == DType::int64 && !a.code().avx512()) return product_of_halves(a, b);
    return combine(VectorOp::multiply_bits, a, b);
  }
  friend Whole operator&(Whole a, Whole b) { return combine(VectorOp::bit_and, a, b); }

  friend Mask operator==(Whole a, Whole b) { return compare(a, b, equal_bits); }
  friend Mask operator!=(Whole a, Whole b) { return compare(a, b, unequal_bits); }
  friend Mask operator<(Whole a, Whole b) { return compare(a, b, less_bits); }
  friend Mask operator<=(Whole a, Whole b) { return compare(a, b, less_equal_bits); }
  friend Mask operator>(Whole a, Whole b) { return compare(a, b, greater_bits); }
  friend Mask operator>=(Whole a, Whole b) { return compare(a, b, greater_equal_bits); }

  /// Gives a constant the code and the type of the other number.
  static void unify(Whole& a, Whole& b) {
    if (!a.code_) a = b.like(a.constant_);
    if (!b.code_) b = a.like(b.constant_);
  }
  /// A constant of this number's type.
  Whole like(std::int64_t number) const {
    const auto bits = static_cast<std::uint64_t>(number);
    const std::uint64_t own = dtype_ == DType::int64   ? bits
                              : dtype_ == DType::int32 ? bits & 0xffffffffU
                                                       : bits & 0xffU;
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): of two numbers that meet, one has code
    return {*code_, code_->add({VectorOp::constant, lane(), 0, {-1, -1, -1}, own}), dtype_};
  }

 private:
  Whole record(VectorOp op, Whole b, std::uint8_t detail = 0) const {
    return {*code_, code_->add({op, lane(), detail, {node_, b.node_}}), dtype_};
  }
  static Whole combine(VectorOp op, Whole a, Whole b) {
    unify(a, b);
    const Whole result = a.record(op, b);
    if (a.dtype_ != DType::uint8 || op == VectorOp::bit_and) return result;
    return result.record(VectorOp::bit_and, result.like(0xff));
  }
  /// The low half of a product of 64 bits: a b = a0 b0 + (a0 b1 + a1 b0) 2^32 + ...
  static Whole product_of_halves(Whole a, Whole b) {
    const auto shifted = [](Whole x, VectorOp op) {
      return Whole(*x.code_, x.code_->add({op, x.lane(), 32, {x.node_}}), x.dtype_);
    };
    const Whole mixed = a.record(VectorOp::multiply_halves, shifted(b, VectorOp::shift_right)) +
                        shifted(a, VectorOp::shift_right).record(VectorOp::multiply_halves, b);
    return a.record(VectorOp::multiply_halves, b) + shifted(mixed, VectorOp::shift_left);
  }
  /// AVX2 knows two of the predicates.
  static Mask compare(Whole a, Whole b, std::uint8_t predicate) {
    unify(a, b);
    const bool all = a.code().avx512();
    const bool swapped = !all && (predicate == less_bits || predicate == greater_equal_bits);
    const bool inverted = !all && predicate != equal_bits && predicate != less_bits && predicate != greater_bits;
    if (!all && predicate == unequal_bits) predicate = equal_bits;
    if (!all && predicate != equal_bits) predicate = greater_bits;
    if (swapped) std::swap(a, b);
    const Mask mask(a.code(), a.code().add({VectorOp::compare_bits, mask_of(a.lane()), predicate, {a.node_, b.node_}}));
    return inverted ? !mask : mask;
  }

  VectorCode* code_ = nullptr;
  int node_ = -1;
  DType dtype_ = DType::unknown;
  std::int64_t constant_ = 0;
};
inline Whole select(Mask first, Whole a, Whole b) {
  Whole::unify(a, b);
  VectorCode& code = a.code();
  return {code, code.add({VectorOp::select, a.lane(), 0, {first.resized(a.lane()).node(), a.node(), b.node()}}),
          a.dtype()};
}

template <class T>
Value<T> select(Mask first, Value<T> a, Value<T> b) {
  VectorCode& code = first.code();
  const int mask = first.resized(Value<T>::lane).node(), left = a.node_in(code), right = b.node_in(code);
  return {code, code.add({VectorOp::select, Value<T>::lane, 0, {mask, left, right}})};
}
inline Mask select(Mask first, Mask a, Mask b) { return (first & a) | ((!first) & b); }

template <class T>
Value<T> multiply_add(Value<T> a, std::type_identity_t<Value<T>> b, std::type_identity_t<Value<T>> c) {
  VectorCode& code = a.code();
  const int left = a.node_in(code), right = b.node_in(code), sum = c.node_in(code);
  return {code, code.add({VectorOp::multiply_add, Value<T>::lane, 0, {left, right, sum}})};
}

template <class T>
Value<T> unary(VectorOp op, Value<T> x, std::uint8_t detail = 0) {
  VectorCode& code = x.code();
  return {code, code.add({op, Value<T>::lane, detail, {x.node_in(code)}})};
}
template <class T>
Value<T> sqrt(Value<T> x) {
  return unary(VectorOp::square_root, x);
}
template <class T>
Value<T> round_half_even(Value<T> x) {
  return unary(VectorOp::round, x, 0);
}
template <class T>
Value<T> floor(Value<T> x) {
  return unary(VectorOp::round, x, 1);
}
template <class T>
Value<T> ceil(Value<T> x) {
  return unary(VectorOp::round, x, 2);
}
inline Value<double> widen(Value<float> x) {
  return {x.code(), x.code().add({VectorOp::widen, Lane::bits64, 0, {x.node_in(x.code())}})};
}
inline Value<float> narrow(Value<double> x) {
  return {x.code(), x.code().add({VectorOp::narrow, Lane::bits32, 0, {x.node_in(x.code())}})};
}
template <Float T>
Value<T> to_real(Whole x) {
  return {x.code(), x.code().add({VectorOp::whole_to_real, Value<T>::lane, 0, {x.node()}})};
}
/// Towards zero; out of range it is the lowest number.
template <Float T>
Whole truncated(Value<T> x, DType dtype) {
  const int node = x.code().add({VectorOp::real_to_whole, Whole::lane_of(dtype), 0, {x.node_in(x.code())}});
  return {x.code(), node, dtype};
}

/// The nearest 16-bit float, as a float.
inline Value<float> round_to_float16(Value<float> x) { return unary(VectorOp::round_to_float16, x); }
/// As Brain16::encode, and back.
inline Value<float> round_to_bfloat16(Value<float> x) {
  using Bits = Value<std::uint32_t>;
  const Bits all = x.bits(), last = (all >> 16) & Bits(1U);
  const Bits rounded = select(x != x, all | Bits(0x400000U), all + Bits(0x7fffU) + last);
  return Value<float>::from_bits(rounded & Bits(0xffff0000U));
}

}  // namespace tapestry::host::emitted::math

#include "backend/cpu/kernels/math.hpp"

namespace tapestry::host::emitted::math {

template <class T>
struct Real<Value<T>> : Real<T> {
  using Bits = Value<typename Real<T>::Bits>;
};

template <Float T>
Value<T> abs(Value<T> x) {
  return Value<T>::from_bits(x.bits() & Value<typename Real<T>::Bits>(~Real<T>::sign));
}

// One AVX-512 instruction stands for a function of math.hpp where it gives the same bits.

template <Float T>
Value<T> copy_sign(Value<T> magnitude, Value<T> sign) {
  VectorCode& code = sign.code();
  if (!code.avx512()) return copy_sign<Value<T>>(magnitude, sign);
  const int left = magnitude.node_in(code), right = sign.node_in(code);
  const int bit = Value<typename Real<T>::Bits>(Real<T>::sign).node_in(code);
  return {code, code.add({VectorOp::copy_sign, Value<T>::lane, 0, {left, right, bit}})};
}

/// vscalefps multiplies by 2^n and rounds once, even where the result is denormal, 0 or infinite. Where x is that
/// large, expm1_r may be anything, and is limited to what lets n alone decide; n is NaN where x is.
template <Float T>
Value<T> exp(Value<T> x) {
  if (!x.code().avx512()) return exp<Value<T>>(x);
  const auto [shifted, expm1_r] = split_exponential(x);
  const Value<T> limited = Value<T>::record(VectorOp::limit, expm1_r, T(0.5));
  return Value<T>::record(VectorOp::scale, T(1) + limited, shifted - Real<T>::rounder);
}
template <Float T>
Value<T> exp_not_above(Value<T> x) {
  return x.code().avx512() ? exp(x) : exp_not_above<Value<T>>(x);
}

// Functions of libm, for which there is no vector code.
template <class T>
T without_code(T x) {
  x.code().give_up();
  return x;
}
#define TAPESTRY_WITHOUT_CODE(name) \
  template <class T>                \
  Value<T> name(Value<T> x) {       \
    return without_code(x);         \
  }
TAPESTRY_WITHOUT_CODE(sin)
TAPESTRY_WITHOUT_CODE(cos)
TAPESTRY_WITHOUT_CODE(tan)
#undef TAPESTRY_WITHOUT_CODE
#define TAPESTRY_WITHOUT_CODE(name) \
  inline Value<double> name(Value<double> x) { return without_code(x); }
TAPESTRY_WITHOUT_CODE(asin)
TAPESTRY_WITHOUT_CODE(acos)
TAPESTRY_WITHOUT_CODE(atan)
TAPESTRY_WITHOUT_CODE(sinh)
TAPESTRY_WITHOUT_CODE(cosh)
TAPESTRY_WITHOUT_CODE(erf)
#undef TAPESTRY_WITHOUT_CODE
inline Value<double> atan2(Value<double> y, Value<double>) { return without_code(y); }
inline Value<double> power(Value<double> a, Value<double>) { return without_code(a); }
inline Value<float> power(Value<float> a, Value<float> b) { return float_power(a, b); }
template <class T>
Value<T> floor_mod(Value<T> a, Value<T>) {
  return without_code(a);
}
// The processor divides no vectors of whole numbers.
inline Whole floor_mod(Whole a, Whole) { return without_code(a); }
inline Whole floor_divide(Whole a, Whole) { return without_code(a); }
inline Whole power(Whole a, Whole) { return without_code(a); }
template <class T>
Value<T> floor_divide(Value<T> a, Value<T> b) {
  return float_floor_divide(a, b);
}

}  // namespace tapestry::host::emitted::math
