#include "backend/cpu/program_recorder.hpp"

#ifdef __x86_64__

#include <type_traits>
#include <variant>

#include "backend/cpu/half.hpp"
#include "backend/cpu/kernels/elementwise.hpp"
#include "backend/cpu/kernels/movement.hpp"
#include "backend/cpu/row_reduction.hpp"
#include "backend/cpu/vector_value.hpp"

namespace tapestry::host {
namespace {

namespace math = emitted::math;
using math::Mask;
using math::Value;
using math::Whole;
using Special = LoopProgram::Special::Kind;

/// What an operand of a program holds.
using AnyValue = std::variant<std::monostate, Value<float>, Value<double>, Whole, Mask>;

#define TAPESTRY_CASE(name, formula) \
  case Family::name:                 \
    return formula;

template <math::Float Scalar>
AnyValue apply(Unary f, Value<Scalar> x, Scalar p) {
  using Family = Unary;
  using T = Value<Scalar>;
  switch (f) {
    TAPESTRY_UNARY_FLOAT(TAPESTRY_CASE)
    TAPESTRY_UNARY_NUMBER(TAPESTRY_CASE)
    TAPESTRY_UNARY_PREDICATE(TAPESTRY_CASE)
    default:
      return {};
  }
}
AnyValue apply(Unary f, Whole x) {
  using Family = Unary;
  using T = Whole;
  switch (f) {
    TAPESTRY_UNARY_NUMBER(TAPESTRY_CASE)
    default:
      return {};
  }
}
AnyValue apply(Unary f, Mask x) {
  using Family = Unary;
  switch (f) {
    TAPESTRY_UNARY_LOGICAL(TAPESTRY_CASE)
    default:
      return {};
  }
}

template <math::Float Scalar>
AnyValue apply(Binary f, Value<Scalar> a, Value<Scalar> b, Scalar p) {
  using Family = Binary;
  using T = Value<Scalar>;
  switch (f) {
    TAPESTRY_BINARY_NUMBER(TAPESTRY_CASE)
    TAPESTRY_BINARY_FLOAT(TAPESTRY_CASE)
    TAPESTRY_BINARY_COMPARE(TAPESTRY_CASE)
    default:
      return {};
  }
}
AnyValue apply(Binary f, Whole a, Whole b) {
  using Family = Binary;
  using T = Whole;
  switch (f) {
    TAPESTRY_BINARY_NUMBER(TAPESTRY_CASE)
    TAPESTRY_BINARY_COMPARE(TAPESTRY_CASE)
    default:
      return {};
  }
}
AnyValue apply(Binary f, Mask a, Mask b) {
  using Family = Binary;
  switch (f) {
    TAPESTRY_BINARY_COMPARE(TAPESTRY_CASE)
    TAPESTRY_BINARY_LOGICAL(TAPESTRY_CASE)
    default:
      return {};
  }
}

template <class A, class T>
AnyValue apply(Ternary f, A a, T b, T c) {
  using Family = Ternary;
  switch (f) {
    TAPESTRY_TERNARY_NUMBER(TAPESTRY_CASE)
    default:
      return {};
  }
}
template <class T>
AnyValue apply(Ternary f, Mask a, T b, T c) {
  using Family = Ternary;
  switch (f) {
    TAPESTRY_TERNARY_SELECT(TAPESTRY_CASE)
    default:
      return {};
  }
}
#undef TAPESTRY_CASE

// --- Conversions ------------------------------------------------------------------------------------------------

/// As the kernels: NaN becomes 0, and what is out of range the lowest or highest number.
template <math::Float From>
AnyValue to_whole(Value<From> x, DType dtype) {
  if (dtype == DType::int64 && !x.code().avx512()) return {};
  const Whole y = math::truncated(x, dtype);
  const int bits = dtype == DType::int64 ? 63 : dtype == DType::int32 ? 31 : 8;
  // The highest integer, or the float above it, and the lowest one.
  const From end = dtype == DType::int64 ? From(0x1p63) : dtype == DType::int32 ? From(0x1p31) : From(0x1p8);
  const std::int64_t high = static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1);
  const Whole low = y.like(dtype == DType::uint8 ? 0 : -high - 1);
  const Value<From> least = dtype == DType::uint8 ? From(0) : -end;
  const Whole limited = math::select(x >= Value<From>(end), y.like(high), math::select(x <= least, low, y));
  return math::select(x == x, limited, Whole(0));
}

template <math::Float From>
AnyValue converted(Value<From> x, DType to) {
  constexpr bool is_double = sizeof(From) == 8;
  if (to == DType::boolean) return x != Value<From>(0);
  if (is_integer(to)) return to_whole(x, to);
  if constexpr (is_double) {
    if (to == DType::float64) return x;
    if (to == DType::float32) return math::narrow(x);
    return {};  // to 16 bits a double is rounded once, by way of an odd float
  } else {
    if (to == DType::float64) return math::widen(x);
    return x;
  }
}

AnyValue converted(Whole x, DType to) {
  if (to == DType::boolean) return x != Whole(0);
  if (to == x.dtype()) return x;
  VectorCode& code = x.code();
  const bool is_wide = x.dtype() == DType::int64;
  if (!is_integer(to)) {
    const bool is_byte = x.dtype() == DType::uint8;
    if (is_wide && !code.avx512()) return {};
    if (to == DType::float64) return math::to_real<double>(x);
    if (to != DType::float32 && !is_byte) return {};  // rounded once, which a float32 on the way would not be
    return math::to_real<float>(x);
  }
  const auto changed = [&](VectorOp op, DType dtype) {
    return Whole(code, code.add({op, Whole::lane_of(dtype), 0, {x.node()}}), dtype);
  };
  if (to == DType::int64) return changed(VectorOp::widen_bits, to);
  const Whole narrow = is_wide ? changed(VectorOp::narrow_bits, to) : Whole(code, x.node(), to);
  return to == DType::uint8 ? narrow & Whole(0xff) : narrow;
}

AnyValue converted(Mask x, DType to) {
  VectorCode& code = x.code();
  if (to == DType::boolean) return x;
  if (is_integer(to)) {
    const Whole like(code, -1, to);
    return math::select(x, like.like(1), like.like(0));
  }
  const auto chosen = [&]<class T>(T) -> AnyValue {
    const Value<T> one(code, Value<T>(1).node_in(code));
    return math::select(x, one, Value<T>(0));
  };
  if (to == DType::float64) return chosen(double{});
  return chosen(float{});
}

/// Writes down what a program does. Its operands change, the nodes of the code do not.
class Recorder {
 public:
  /// `loop`: the one whose program it is; nullptr for none. Loops call kernels.
  Recorder(const Program& program, std::span<const DType> inputs, RecordedProgram& recorded, const LoopProgram* loop)
      : code_(recorded.code),
        guards_(recorded.guards),
        operands_(static_cast<std::size_t>(program.operands())),
        dtypes_(operands_.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      operands_[i] = input(static_cast<int>(i), inputs[i]);
      dtypes_[i] = inputs[i];
    }
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const Program::Instruction& each = program.instructions[i];
      const LoopProgram::Special special = loop ? loop->special[i] : LoopProgram::Special{};
      AnyValue result = special.kind == Special::none ? std::visit([&](auto f) { return run(f, each); }, each.function)
                                                      : run(special, each);
      const bool has_code = code_.is_complete() && !std::holds_alternative<std::monostate>(result);
      if (!has_code && loop && special.kind == Special::none)
        result = std::visit([&](auto f) { return called(f, each); }, each.function);
      if (std::holds_alternative<std::monostate>(result)) {
        code_.give_up();
        return;
      }
      operands_[each.result] = rounded(result, each.dtype);
      dtypes_[each.result] = each.dtype;
    }
  }
  RecordedProgram::Output output(int operand) const { return {node(operand), stored_as(dtypes_[operand])}; }
  /// The node of a truth value, for lanes of any width.
  int mask(int operand) const { return std::get<Mask>(operands_[operand]).node(); }

 private:
  int node(int operand) const {
    return std::visit(
        [this](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, std::monostate>) {
            return -1;
          } else if constexpr (std::is_same_v<T, Mask>) {
            return value.resized(Lane::mask32).node();
          } else if constexpr (std::is_same_v<T, Whole>) {
            return value.node();
          } else {
            return value.node_in(code_);
          }
        },
        operands_[operand]);
  }
  /// 16-bit floats are computed as float32, and every result is rounded.
  static AnyValue rounded(const AnyValue& value, DType dtype) {
    if (dtype == DType::float16) return math::round_to_float16(std::get<Value<float>>(value));
    if (dtype == DType::bfloat16) return math::round_to_bfloat16(std::get<Value<float>>(value));
    return value;
  }
  AnyValue input(int number, DType dtype) const {
    const auto stored = static_cast<std::uint8_t>(stored_as(dtype));
    return of_type(dtype, [&](Lane lane) {
      return code_.add({VectorOp::input, lane, stored, {-1, -1, -1}, static_cast<std::uint64_t>(number)});
    });
  }
  /// A value of a type whose node `add` adds.
  template <class Add>
  AnyValue of_type(DType dtype, Add add) const {
    switch (dtype) {
      case DType::boolean:
        return Mask(code_, add(Lane::mask32));
      case DType::uint8:
      case DType::int32:
      case DType::int64:
        return Whole(code_, add(Whole::lane_of(dtype)), dtype);
      case DType::float64:
        return Value<double>(code_, add(Lane::bits64));
      default:
        return Value<float>(code_, add(Lane::bits32));
    }
  }
  template <class T>
  const T& get(const Program::Instruction& each, std::size_t i) const {
    return *std::get_if<T>(&operands_[each.operands[i]]);
  }

  AnyValue run(Convert, const Program::Instruction& each) const {
    return visit(each, 0, [&](const auto& x) { return converted(x, each.dtype); });
  }
  AnyValue run(Unary f, const Program::Instruction& each) const {
    return visit(each, 0, [&]<class T>(const T& x) {
      if constexpr (std::is_same_v<T, Mask> || std::is_same_v<T, Whole>) {
        return apply(f, x);
      } else {
        return apply(f, x, T(each.number).constant());
      }
    });
  }
  AnyValue run(Binary f, const Program::Instruction& each) const {
    return visit(each, 0, [&]<class T>(const T& a) {
      if constexpr (std::is_same_v<T, Mask> || std::is_same_v<T, Whole>) {
        return apply(f, a, get<T>(each, 1));
      } else {
        return apply(f, a, get<T>(each, 1), T(each.number).constant());
      }
    });
  }
  AnyValue run(Ternary f, const Program::Instruction& each) const {
    return visit(each, 1, [&]<class T>(const T& b) -> AnyValue {
      if (const auto* a = std::get_if<Mask>(&operands_[each.operands[0]])) return apply(f, *a, b, get<T>(each, 2));
      if constexpr (std::is_same_v<T, Mask>) {
        return {};
      } else {
        return apply(f, get<T>(each, 0), b, get<T>(each, 2));
      }
    });
  }
  AnyValue run(LoopProgram::Special special, const Program::Instruction& each) const {
    if (special.kind == Special::look_up) return look_up(each, special.number);
    if (special.kind == Special::reduce) return reduced(each, static_cast<ReduceFunction>(special.number));
    const auto stored = static_cast<std::uint8_t>(stored_as(computed_in(each.dtype)));
    const int of = node(each.operands[0]);
    return of_type(each.dtype, [&](Lane lane) {
      return code_.add({VectorOp::element, lane, stored, {of, -1, -1}, static_cast<std::uint64_t>(special.number)});
    });
  }
  AnyValue reduced(const Program::Instruction& each, ReduceFunction function) const {
    const RowReduction reduction = row_reduction(function, each.dtype);
    const Stored stored = stored_as(each.dtype);
    const KernelCall made{reinterpret_cast<void (*)()>(reduction.row), 1, true, {stored}, stored, reduction.number};
    const int of = node(each.operands[0]);
    return of_type(each.dtype, [&](Lane lane) { return code_.add(made, lane, {of, -1, -1}); });
  }
  AnyValue look_up(const Program::Instruction& each, std::int64_t size) const {
    const Whole index = get<Whole>(each, 1);
    const Mask inside = (index >= Whole(0)) & (index < Whole(size));
    guards_.push_back(inside.resized(Lane::mask32).node());
    const auto stored = static_cast<std::uint8_t>(stored_as(each.dtype));
    return of_type(each.dtype, [&](Lane lane) {
      return code_.add({VectorOp::look_up, lane, stored, {index.node(), -1, -1}, std::uint64_t{each.operands[0]}});
    });
  }

  // Kernels of functions that have no vector code. They compute halves as float32, too.
  AnyValue called(Convert, const Program::Instruction& each) const {
    const DType from = dtype_of(each, 0);
    if (is_half(each.dtype)) return {};  // would be rounded twice
    return call(movement_kernels().cast[static_cast<std::size_t>(from)][static_cast<std::size_t>(each.dtype)], each, 1);
  }
  AnyValue called(Unary f, const Program::Instruction& each) const {
    const auto type = static_cast<std::size_t>(dtype_of(each, 0));
    return call(unary_kernels().rows[static_cast<std::size_t>(f)][type], each, 1);
  }
  AnyValue called(Binary f, const Program::Instruction& each) const {
    if (const Whole* b = std::get_if<Whole>(&operands_[each.operands[1]])) {
      const bool is_power = f == Binary::power;
      if (is_power || f == Binary::floor_mod || f == Binary::floor_divide) {
        const Mask defined = is_power ? *b >= Whole(0) : *b != Whole(0);
        guards_.push_back(defined.resized(Lane::mask32).node());
      }
    }
    const auto type = static_cast<std::size_t>(dtype_of(each, 0));
    return call(binary_kernels().rows[static_cast<std::size_t>(f)][type], each, 2);
  }
  AnyValue called(Ternary, const Program::Instruction&) const { return {}; }
  template <class Kernel>
  AnyValue call(Kernel kernel, const Program::Instruction& each, int operands) const {
    if (!kernel) return {};
    KernelCall made{reinterpret_cast<void (*)()>(kernel), operands,   false, {},
                    stored_as(computed_in(each.dtype)),   each.number};
    std::array<int, 3> nodes{-1, -1, -1};
    for (std::size_t i = 0; i < static_cast<std::size_t>(operands); ++i) {
      nodes[i] = node(each.operands[i]);
      made.from[i] = stored_as(dtype_of(each, i));
    }
    return of_type(each.dtype, [&](Lane lane) { return code_.add(made, lane, nodes); });
  }
  /// The type in which an operand is computed.
  DType dtype_of(const Program::Instruction& each, std::size_t i) const {
    return computed_in(dtypes_[each.operands[i]]);
  }

  /// Calls `f` with the i-th operand of an instruction.
  template <class F>
  AnyValue visit(const Program::Instruction& each, std::size_t i, F f) const {
    return std::visit(
        [&]<class T>(const T& x) -> AnyValue {
          if constexpr (std::is_same_v<T, std::monostate>) {
            return {};
          } else {
            return f(x);
          }
        },
        operands_[each.operands[i]]);
  }

  VectorCode& code_;
  std::vector<int>& guards_;
  std::vector<AnyValue> operands_;
  std::vector<DType> dtypes_;  ///< of the operands
};

}  // namespace

Stored stored_as(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return Stored::float16;
    case DType::bfloat16:
      return Stored::bfloat16;
    case DType::uint8:
      return Stored::byte;
    default:
      return Stored::plain;
  }
}

RecordedProgram record(const Program& program, std::span<const DType> inputs, bool avx512) {
  RecordedProgram recorded{VectorCode(avx512), {}};
  const Recorder recorder(program, inputs, recorded, nullptr);
  if (!recorded.code.is_complete()) return recorded;
  for (int i = 0; i < program.outputs; ++i) recorded.outputs.push_back(recorder.output(program.inputs + i));
  return recorded;
}

RecordedProgram record(const LoopProgram& loop, bool avx512) {
  RecordedProgram recorded{VectorCode(avx512), {}};
  const Recorder recorder(loop.program, loop.dtypes, recorded, &loop);
  if (!recorded.code.is_complete()) return recorded;
  if (loop.condition >= 0) recorded.condition = recorder.mask(loop.condition);
  for (const std::uint8_t result : loop.results) recorded.outputs.push_back(recorder.output(result));
  return recorded;
}

}  // namespace tapestry::host

#endif
