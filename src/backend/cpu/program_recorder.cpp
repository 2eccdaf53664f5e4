#include "backend/cpu/program_recorder.hpp"

#ifdef __x86_64__

#include <limits>
#include <type_traits>
#include <variant>

#include "backend/cpu/vector_value.hpp"

namespace tapestry::host {
namespace {

namespace math = emitted::math;
using math::Mask;
using math::Value;

/// What an operand of a program holds.
using AnyValue = std::variant<std::monostate, Value<float>, Value<double>, Value<std::int32_t>, Value<std::int64_t>,
                              Value<std::uint8_t>, Mask>;

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
template <math::Whole Scalar>
AnyValue apply(Unary f, Value<Scalar> x, Scalar) {
  using Family = Unary;
  using T = Value<Scalar>;
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
template <math::Whole Scalar>
AnyValue apply(Binary f, Value<Scalar> a, Value<Scalar> b, Scalar) {
  using Family = Binary;
  using T = Value<Scalar>;
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
template <math::Whole To, math::Float From>
AnyValue to_whole(Value<From> x) {
  if (sizeof(To) == 8 && !x.code().avx512()) return {};
  using Wide = std::conditional_t<sizeof(To) == 8, std::int64_t, std::int32_t>;
  constexpr To low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
  const auto constant = [&](auto number) { return Value<Wide>(x.code(), Value<Wide>(number).node_in(x.code())); };
  const Value<Wide> rounded = math::converted_by<Wide>(VectorOp::real_to_whole, x);
  // The highest integer may round up to a float that is out of range.
  const Value<Wide> limited =
      math::select(x >= Value<From>(static_cast<From>(high)), constant(high),
                   math::select(x <= Value<From>(static_cast<From>(low)), constant(low), rounded));
  const Value<Wide> y = math::select(x == x, limited, Value<Wide>(0));
  return Value<To>(y.code(), y.node_in(y.code()));
}

template <math::Float From>
AnyValue converted(Value<From> x, DType to) {
  constexpr bool is_double = sizeof(From) == 8;
  switch (to) {
    case DType::boolean:
      return x != Value<From>(0);
    case DType::uint8:
      return to_whole<std::uint8_t>(x);
    case DType::int32:
      return to_whole<std::int32_t>(x);
    case DType::int64:
      return to_whole<std::int64_t>(x);
    case DType::float32:
      if constexpr (is_double) return math::narrow(x);
      return x;
    case DType::float64:
      if constexpr (!is_double) return math::widen(x);
      return x;
    default:
      if constexpr (is_double) return {};  // to 16 bits a double is rounded once, by way of an odd float
      return x;
  }
}

template <math::Whole From>
AnyValue converted(Value<From> x, DType to) {
  constexpr bool is_wide = sizeof(From) == 8;
  VectorCode& code = x.code();
  // The lanes as numbers of 32 bits.
  const auto narrow = [&] {
    if constexpr (is_wide) {
      return math::converted_by<std::int32_t>(VectorOp::narrow_bits, x);
    } else {
      return Value<std::int32_t>(code, x.node_in(code));
    }
  };
  switch (to) {
    case DType::boolean:
      return x != Value<From>(0);
    case DType::uint8:
      if constexpr (sizeof(From) == 1) return x;
      return Value<std::uint8_t>(code, (narrow() & Value<std::int32_t>(0xff)).node_in(code));
    case DType::int32:
      return narrow();
    case DType::int64:
      if constexpr (is_wide) return x;
      return math::converted_by<std::int64_t>(VectorOp::widen_bits, x);
    case DType::float32:
      if (is_wide && !code.avx512()) return {};
      return math::converted_by<float>(VectorOp::whole_to_real, x);
    case DType::float64:
      if (is_wide && !code.avx512()) return {};
      return math::converted_by<double>(VectorOp::whole_to_real, x);
    default:
      if (sizeof(From) > 1) return {};  // rounded once, which a float32 on the way would not be
      return math::converted_by<float>(VectorOp::whole_to_real, x);
  }
}

AnyValue converted(Mask x, DType to) {
  const auto chosen = [&]<class T>(T) -> AnyValue {
    const Value<T> one(x.code(), Value<T>(1).node_in(x.code()));
    return math::select(x, one, Value<T>(0));
  };
  switch (to) {
    case DType::boolean:
      return x;
    case DType::uint8:
      return chosen(std::uint8_t{});
    case DType::int32:
      return chosen(std::int32_t{});
    case DType::int64:
      return chosen(std::int64_t{});
    case DType::float64:
      return chosen(double{});
    default:
      return chosen(float{});
  }
}

/// Writes down what a program does. Its operands change, the nodes of the code do not.
class Recorder {
 public:
  Recorder(const Program& program, std::span<const DType> inputs, VectorCode& code)
      : code_(code), operands_(static_cast<std::size_t>(program.operands())), dtypes_(operands_.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      operands_[i] = input(static_cast<int>(i), inputs[i]);
      dtypes_[i] = inputs[i];
    }
    for (const Program::Instruction& each : program.instructions) {
      const AnyValue result = std::visit([&](auto f) { return run(f, each); }, each.function);
      if (std::holds_alternative<std::monostate>(result)) {
        code_.give_up();
        return;
      }
      operands_[each.result] = rounded(result, each.dtype);
      dtypes_[each.result] = each.dtype;
    }
  }
  RecordedProgram::Output output(int operand) const {
    return {node(operand), stored_as(dtypes_[static_cast<std::size_t>(operand)])};
  }
  /// The node of a truth value, for lanes of any width.
  int mask(int operand) const { return std::get<Mask>(operands_[static_cast<std::size_t>(operand)]).node(); }

 private:
  int node(int operand) const {
    return std::visit(
        [this](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, std::monostate>) {
            return -1;
          } else if constexpr (std::is_same_v<T, Mask>) {
            return value.resized(Lane::mask32).node();
          } else {
            return value.node_in(code_);
          }
        },
        operands_[static_cast<std::size_t>(operand)]);
  }
  /// 16-bit floats are computed as float32, and every result is rounded.
  static AnyValue rounded(const AnyValue& value, DType dtype) {
    if (dtype == DType::float16) return math::round_to_float16(std::get<Value<float>>(value));
    if (dtype == DType::bfloat16) return math::round_to_bfloat16(std::get<Value<float>>(value));
    return value;
  }
  AnyValue input(int number, DType dtype) {
    const auto add = [&](Lane lane) {
      const auto stored = static_cast<std::uint8_t>(stored_as(dtype));
      return code_.add({VectorOp::input, lane, stored, {-1, -1, -1}, static_cast<std::uint64_t>(number)});
    };
    switch (dtype) {
      case DType::boolean:
        return Mask(code_, add(Lane::mask32));
      case DType::uint8:
        return Value<std::uint8_t>(code_, add(Lane::bits32));
      case DType::int32:
        return Value<std::int32_t>(code_, add(Lane::bits32));
      case DType::int64:
        return Value<std::int64_t>(code_, add(Lane::bits64));
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
      if constexpr (std::is_same_v<T, Mask>) {
        return apply(f, x);
      } else {
        return apply(f, x, T(each.number).constant());
      }
    });
  }
  AnyValue run(Binary f, const Program::Instruction& each) const {
    return visit(each, 0, [&]<class T>(const T& a) {
      if constexpr (std::is_same_v<T, Mask>) {
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
  const Recorder recorder(program, inputs, recorded.code);
  if (!recorded.code.is_complete()) return recorded;
  for (int i = 0; i < program.outputs; ++i) recorded.outputs.push_back(recorder.output(program.inputs + i));
  return recorded;
}

RecordedProgram record(const LoopProgram& loop, bool avx512) {
  RecordedProgram recorded{VectorCode(avx512), {}};
  const Recorder recorder(loop.program, loop.dtypes, recorded.code);
  if (!recorded.code.is_complete()) return recorded;
  if (loop.condition >= 0) recorded.condition = recorder.mask(loop.condition);
  for (const std::uint8_t result : loop.results) recorded.outputs.push_back(recorder.output(result));
  return recorded;
}

}  // namespace tapestry::host

#endif
