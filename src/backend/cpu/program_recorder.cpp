#include "backend/cpu/program_recorder.hpp"

#ifdef __x86_64__

#include <optional>
#include <variant>

#include "backend/cpu/vector_value.hpp"

namespace tapestry::host {
namespace {

namespace math = emitted::math;
using math::Mask;
using math::Value;

/// What an operand of a program holds.
using AnyValue = std::variant<std::monostate, Value<float>, Value<double>, Mask>;

#define TAPESTRY_CASE(name, formula) \
  case Family::name:                 \
    return formula;

template <class T, class Scalar>
AnyValue apply(Unary f, T x, Scalar p) {
  using Family = Unary;
  switch (f) {
    TAPESTRY_UNARY_FLOAT(TAPESTRY_CASE)
    TAPESTRY_UNARY_NUMBER(TAPESTRY_CASE)
    TAPESTRY_UNARY_PREDICATE(TAPESTRY_CASE)
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

template <class T, class Scalar>
AnyValue apply(Binary f, T a, T b, Scalar p) {
  using Family = Binary;
  switch (f) {
    TAPESTRY_BINARY_NUMBER(TAPESTRY_CASE)
    TAPESTRY_BINARY_FLOAT(TAPESTRY_CASE)
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

/// Writes down what a program does. Its operands change, the nodes of the code do not.
class Recorder {
 public:
  Recorder(const Program& program, std::span<const DType> inputs, VectorCode& code)
      : code_(code), operands_(static_cast<std::size_t>(program.operands())), dtypes_(operands_.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) operands_[i] = input(static_cast<int>(i), inputs[i]);
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
    if (dtype == DType::boolean) return Mask(code_, add(Lane::mask32));
    if (dtype == DType::float64) return Value<double>(code_, add(Lane::float64));
    return Value<float>(code_, add(Lane::float32));
  }
  const AnyValue& operand(const Program::Instruction& each, std::size_t i) const { return operands_[each.operands[i]]; }
  template <class T>
  const T* get(const Program::Instruction& each, std::size_t i) const {
    return std::get_if<T>(&operand(each, i));
  }

  static AnyValue converted(Value<float> x, DType to) {
    if (to == DType::boolean) return x != Value<float>(0);
    if (to == DType::float64) return math::widen(x);
    return x;
  }
  static AnyValue converted(Value<double> x, DType to) {
    if (to == DType::boolean) return x != Value<double>(0);
    if (to == DType::float64) return x;
    if (to == DType::float32) return math::narrow(x);
    return {};  // to 16 bits a double is rounded once, by way of an odd float
  }
  static AnyValue converted(Mask x, DType to) {
    if (to == DType::boolean) return x;
    const auto chosen = [&]<class T>(T) {
      const Value<T> one(x.code(), Value<T>(1).node_in(x.code()));
      return math::select(x, one, Value<T>(0));
    };
    if (to == DType::float64) return chosen(double{});
    return chosen(float{});
  }
  AnyValue run(Convert, const Program::Instruction& each) const {
    if (const auto* x = get<Value<float>>(each, 0)) return converted(*x, each.dtype);
    if (const auto* x = get<Value<double>>(each, 0)) return converted(*x, each.dtype);
    return converted(*get<Mask>(each, 0), each.dtype);
  }
  AnyValue run(Unary f, const Program::Instruction& each) const {
    if (const auto* x = get<Value<float>>(each, 0)) return apply(f, *x, static_cast<float>(each.number));
    if (const auto* x = get<Value<double>>(each, 0)) return apply(f, *x, each.number);
    return apply(f, *get<Mask>(each, 0));
  }
  AnyValue run(Binary f, const Program::Instruction& each) const {
    if (const auto* a = get<Value<float>>(each, 0))
      return apply(f, *a, *get<Value<float>>(each, 1), static_cast<float>(each.number));
    if (const auto* a = get<Value<double>>(each, 0)) return apply(f, *a, *get<Value<double>>(each, 1), each.number);
    return apply(f, *get<Mask>(each, 0), *get<Mask>(each, 1));
  }
  AnyValue run(Ternary f, const Program::Instruction& each) const {
    const auto apply_to = [&]<class T>(const T& b) -> AnyValue {
      if (const auto* a = get<Mask>(each, 0)) return apply(f, *a, b, *get<T>(each, 2));
      if constexpr (!std::is_same_v<T, Mask>) {
        return apply(f, *get<T>(each, 0), b, *get<T>(each, 2));
      } else {
        return {};
      }
    };
    if (const auto* b = get<Value<float>>(each, 1)) return apply_to(*b);
    if (const auto* b = get<Value<double>>(each, 1)) return apply_to(*b);
    return apply_to(*get<Mask>(each, 1));
  }

  VectorCode& code_;
  std::vector<AnyValue> operands_;
  std::vector<DType> dtypes_;  ///< of the operands
};

}  // namespace

bool has_vector_code(DType dtype) { return is_floating(dtype) || dtype == DType::boolean; }

Stored stored_as(DType dtype) {
  return dtype == DType::float16 ? Stored::float16 : dtype == DType::bfloat16 ? Stored::bfloat16 : Stored::plain;
}

RecordedProgram record(const Program& program, std::span<const DType> inputs, bool avx512) {
  RecordedProgram recorded{VectorCode(avx512), {}};
  const Recorder recorder(program, inputs, recorded.code);
  if (!recorded.code.is_complete()) return recorded;
  for (int i = 0; i < program.outputs; ++i) {
    const RecordedProgram::Output output = recorder.output(program.inputs + i);
    // The output of before may lie where the input does, which would be read too late.
    if (recorded.code.nodes()[static_cast<std::size_t>(output.node)].op == VectorOp::input) recorded.code.give_up();
    recorded.outputs.push_back(output);
  }
  return recorded;
}

}  // namespace tapestry::host

#endif
