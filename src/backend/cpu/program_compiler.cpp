#include "backend/cpu/program_compiler.hpp"

#ifdef __x86_64__

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <vector>

#include <xbyak/xbyak.h>

// The constants of the formulas.
#define TAPESTRY_KERNEL_LEVEL constants
#include "backend/cpu/kernels/math.hpp"

namespace tapestry::host {
namespace {

using Real = constants::math::Real<float>;

/// Writes the code of one program, for the System V calling convention of x86-64. The functions are those of
/// kernels/math.hpp, operation by operation, so that they round alike. One AVX-512 instruction replaces several
/// operations only where it gives the same bits: vscalefps multiplies by 2^n, and rounds once even where the result is
/// denormal.
class Compiler : public Xbyak::CodeGenerator {
 public:
  Compiler(const Program& program, std::uint64_t single)
      : CodeGenerator(most_bytes, Xbyak::DontSetProtectRWE), program_(program), single_(single) {
    body(false, false);  // to count the uses of the constants
    reset();
    hold_constants();
    code_.store = function(false);
    align(64);
    code_.stream = function(true);
    write_constants();
    setProtectModeRE();
  }
  const CompiledProgram& code() const { return code_; }
  /// Whether the program has only functions that are known here.
  bool is_complete() const { return complete_; }

 private:
  using Zmm = Xbyak::Zmm;
  static constexpr std::size_t most_bytes = 1 << 18;  // of address space
  static constexpr int lanes = 16;
  /// Predicates of comparisons. The last two hold for NaN.
  static constexpr std::uint8_t equal = 0x00, less = 0x11, greater = 0x1e, unordered = 0x03, not_less_or_equal = 0x16;

  // The first two are the arguments: the operands, and the number of elements, which counts those that are left. All
  // registers that the code uses are caller-saved.
  const Xbyak::Reg64 &operands_ = rdi, &left_ = rsi, &offset_ = rcx, &address_ = rax;
  const Xbyak::Opmask &tail_ = k1, &chosen_ = k2;

  static Zmm operand(int i) { return Zmm(i); }
  static Zmm scratch(int i) { return Zmm(most_compiled_operands + i); }

  // --- The loop ---------------------------------------------------------------------------------------------------

  CompiledProgram::Code function(bool stream) {
    const auto code = getCurr<CompiledProgram::Code>();
    Xbyak::Label loop, tail, end;
    for (int i = 0; i < program_.inputs; ++i)
      if (is_single(i)) {
        mov(address_, address(i));
        vbroadcastss(operand(i), ptr[address_]);
      }
    load_held_constants();
    xor_(offset_.cvt32(), offset_.cvt32());
    cmp(left_, lanes);
    jl(tail, T_NEAR);
    align(64);
    L(loop);
    body(stream, false);
    add(offset_, lanes * 4);
    sub(left_, lanes);
    cmp(left_, lanes);
    jge(loop, T_NEAR);
    L(tail);
    test(left_, left_);
    jz(end, T_NEAR);
    mov(address_.cvt32(), 0xffffffffU);
    bzhi(address_.cvt32(), address_.cvt32(), left_.cvt32());
    kmovw(tail_, address_.cvt32());
    body(false, true);
    L(end);
    vzeroupper();
    ret();
    return code;
  }

  bool is_single(int input) const { return (single_ >> input & 1) != 0; }
  Xbyak::Address address(int i) const { return ptr[operands_ + static_cast<std::size_t>(i) * sizeof(Operand)]; }

  void body(bool stream, bool masked) {
    for (int i = 0; i < program_.inputs; ++i) {
      if (is_single(i)) continue;
      mov(address_, address(i));
      vmovups(masked ? operand(i) | tail_ | T_z : operand(i), ptr[address_ + offset_]);
    }
    for (const Program::Instruction& each : program_.instructions) {
      instruction(each);
      if (program_.is_register(each.result)) continue;
      mov(address_, address(each.result));
      if (stream) {
        vmovntps(ptr[address_ + offset_], operand(each.result));
      } else {
        vmovups(masked ? ptr[address_ + offset_] | tail_ : ptr[address_ + offset_], operand(each.result));
      }
    }
  }

  // --- Constants --------------------------------------------------------------------------------------------------

  struct Constant {
    int uses = 0;
    Xbyak::Label label;
    std::optional<Xbyak::Address> memory;
    std::optional<Zmm> held;  ///< a register that has it in every lane
  };

  /// The constants that are used most get one each of the registers that no operand needs.
  void hold_constants() {
    std::vector<Constant*> by_use;
    for (auto& each : constants_) by_use.push_back(&each.second);
    std::stable_sort(by_use.begin(), by_use.end(), [](auto* a, auto* b) { return a->uses > b->uses; });
    int next = program_.operands();
    for (Constant* each : by_use)
      each->held = next < most_compiled_operands ? std::optional(Zmm(next++)) : std::nullopt;
  }
  void load_held_constants() {
    for (auto& [bits, constant] : constants_)
      if (constant.held) vbroadcastss(*constant.held, ptr[rip + constant.label]);
  }
  void write_constants() {
    align(4);
    for (auto& [bits, constant] : constants_) {
      L(constant.label);
      dd(bits);
    }
  }

  Constant& find(float value) {
    const auto [found, is_new] = constants_.try_emplace(std::bit_cast<std::uint32_t>(value));
    if (is_new) found->second.held = scratch(0);  // while uses are counted, any register will do
    ++found->second.uses;
    return found->second;
  }
  /// A register that has the constant: its own, or else `room`, to which it is loaded.
  Zmm load(const Zmm& room, float value) {
    Constant& found = find(value);
    if (found.held) return *found.held;
    vbroadcastss(room, ptr[rip + found.label]);
    return room;
  }
  void copy(const Zmm& to, float value) {
    const Zmm from = load(to, value);
    if (from != to) vmovaps(to, from);
  }
  /// The constant as the last operand of an instruction, which can broadcast it from memory.
  const Xbyak::Operand& constant(float value) {
    Constant& found = find(value);
    if (found.held) return *found.held;
    return found.memory.emplace(ptr_b[rip + found.label]);
  }

  // --- Functions --------------------------------------------------------------------------------------------------

  void instruction(const Program::Instruction& each) {
    const Zmm y = operand(each.result), a = operand(each.operands[0]), b = operand(each.operands[1]);
    const auto number = static_cast<float>(each.number);
    if (const Unary* f = std::get_if<Unary>(&each.function)) {
      unary(*f, y, a, number);
    } else if (const Binary* g = std::get_if<Binary>(&each.function)) {
      binary(*g, y, a, b, number);
    } else {
      complete_ = false;
    }
  }

  void unary(Unary f, const Zmm& y, const Zmm& x, float number) {
    const Zmm s = scratch(0), t = scratch(1);
    switch (f) {
      case Unary::reciprocal:
        return vdivps(y, load(s, 1), x);
      case Unary::sqrt:
        return vsqrtps(y, x);
      case Unary::rsqrt:
        vsqrtps(t, x);
        return vdivps(y, load(s, 1), t);
      case Unary::exp:
        return exp(y, x);
      case Unary::tanh:
        return tanh(y, x);
      case Unary::log:
        return log(y, x);
      case Unary::sigmoid:
        return sigmoid(y, x);
      case Unary::silu:
        sigmoid(s, x);
        return vmulps(y, s, x);
      case Unary::gelu_tanh:
        return gelu_tanh(y, x);
      case Unary::floor:
        return vrndscaleps(y, x, 1);
      case Unary::ceil:
        return vrndscaleps(y, x, 2);
      case Unary::round:
        return vrndscaleps(y, x, 0);
      case Unary::negative:
        return vxorps(y, x, constant(sign));
      case Unary::abs:
        return vandps(y, x, constant(not_sign));
      case Unary::square:
        return vmulps(y, x, x);
      case Unary::relu:
        vcmpps(chosen_, x, constant(0), not_less_or_equal);
        return vmovaps(y | chosen_ | T_z, x);
      case Unary::leaky_relu:
        vcmpps(chosen_, x, constant(0), greater);
        vmulps(s, x, constant(number));
        return vblendmps(y | chosen_, s, x);
      default:
        complete_ = false;
    }
  }

  void binary(Binary f, const Zmm& y, const Zmm& a, const Zmm& b, float number) {
    const Zmm s = scratch(0), t = scratch(1);
    switch (f) {
      case Binary::add:
        return vaddps(y, a, b);
      case Binary::subtract:
        return vsubps(y, a, b);
      case Binary::multiply:
        return vmulps(y, a, b);
      case Binary::divide:
        return vdivps(y, a, b);
      case Binary::maximum:
        vmaxps(s, a, b);  // b where both are zeros, and where one is NaN
        return replace_by_nan(y, s, a);
      case Binary::minimum:
        vminps(s, a, b);
        return replace_by_nan(y, s, a);
      case Binary::squared_difference:
        vsubps(s, a, b);
        return vmulps(y, s, s);
      case Binary::relu_grad:
        vcmpps(chosen_, b, constant(0), greater);
        return vmovaps(y | chosen_ | T_z, a);
      case Binary::leaky_relu_grad:
        vcmpps(chosen_, b, constant(0), greater);
        vmulps(s, a, constant(number));
        return vblendmps(y | chosen_, s, a);
      case Binary::sigmoid_grad:
        vsubps(s, load(s, 1), b);
        vmulps(t, a, b);
        return vmulps(y, t, s);
      case Binary::tanh_grad:
        vmulps(t, b, b);
        vsubps(s, load(s, 1), t);
        return vmulps(y, a, s);
      default:
        complete_ = false;
    }
  }

  /// y = a where a is NaN, x elsewhere.
  void replace_by_nan(const Zmm& y, const Zmm& x, const Zmm& a) {
    vcmpps(chosen_, a, a, unordered);
    vblendmps(y | chosen_, x, a);
  }

  static constexpr std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
  static constexpr float from_bits(std::uint32_t x) { return std::bit_cast<float>(x); }
  static constexpr float sign = -0.0f, not_sign = std::bit_cast<float>(0x7fffffffu);

  /// Splits x, or -x, into n ln(2) + r with |r| <= ln(2) / 2.
  void reduce(const Zmm& n, const Zmm& r, const Zmm& x, bool of_negative = false) {
    copy(n, Real::rounder);
    vmovaps(r, x);
    if (of_negative) {
      vfnmadd231ps(n, x, constant(Real::log2_e));
      vsubps(n, n, constant(Real::rounder));
      vfnmsub231ps(r, n, constant(Real::ln2_high));
    } else {
      vfmadd231ps(n, x, constant(Real::log2_e));
      vsubps(n, n, constant(Real::rounder));
      vfnmadd231ps(r, n, constant(Real::ln2_high));
    }
    vfnmadd231ps(r, n, constant(Real::ln2_low));
  }

  /// y = exp(r) - 1 for an r of `reduce`.
  void small_expm1(const Zmm& y, const Zmm& r) {
    const Zmm square = scratch(10), low = scratch(11);
    vmulps(square, r, r);
    copy(low, Real::exp[0]);
    vfmadd231ps(low, r, constant(Real::exp[1]));
    copy(y, Real::exp[2]);
    vfmadd231ps(y, r, constant(Real::exp[3]));
    vfmadd231ps(y, square, constant(Real::exp[4]));
    vfmadd213ps(y, square, low);
    vfmadd213ps(y, square, r);
  }

  /// y = 2^n exp(r), infinity or 0 where n is too large or too small.
  void scaled_exp(const Zmm& y, const Zmm& n, const Zmm& r) {
    const Zmm e = scratch(8);
    small_expm1(e, r);
    vaddps(e, e, constant(1));
    vscalefps(y, e, n);
  }

  void exp(const Zmm& y, const Zmm& x) {
    const Zmm n = scratch(0), r = scratch(1);
    reduce(n, r, x);
    // If x is out of range, r may be anything. vrangeps limits it to a number, so that n alone decides; n is NaN where
    // x is.
    constexpr std::uint8_t least_magnitude = 2;
    vrangeps(r, r, constant(1), least_magnitude);
    scaled_exp(y, n, r);
  }

  void sigmoid(const Zmm& y, const Zmm& x) {
    const Zmm e = scratch(1), s = scratch(2), n = scratch(3), r = scratch(4);
    vandps(e, x, constant(not_sign));
    vminps(e, load(s, 105), e);  // exp(-105) is 0; NaN stays
    reduce(n, r, e, true);
    scaled_exp(e, n, r);
    copy(s, 1);
    vpmovd2m(chosen_, x);  // where the sign is set
    vmovaps(s | chosen_, e);
    vaddps(e, e, constant(1));
    vdivps(y, s, e);
  }

  void tanh(const Zmm& y, const Zmm& x) {
    const Zmm e = scratch(0), n = scratch(1), half = scratch(2), s = scratch(3), r = scratch(4);
    vandps(s, x, constant(not_sign));
    vaddps(s, s, s);
    vminps(s, load(e, 2 * Real::tanh_high), s);  // beyond, e / (e + 1) is 1; NaN stays
    reduce(n, r, s);
    small_expm1(e, r);
    vscalefps(half, load(half, 0.5f), n);
    vsubps(s, half, constant(0.5f));
    vfmadd213ps(e, half, s);
    vaddps(s, e, constant(1));
    vdivps(e, e, s);
    vpternlogd(e, x, constant(sign), 0xd8);  // the sign bit from x, the others from e
    vmovaps(y, e);
  }

  void gelu_tanh(const Zmm& y, const Zmm& x) {
    const Zmm s = scratch(5), t = scratch(6);
    vmulps(s, x, constant(0.044715f));
    vmulps(s, s, x);
    vmulps(s, s, x);
    vaddps(s, x, s);
    vmulps(s, s, constant(0.79788456080286535588f));
    tanh(s, s);
    vaddps(s, s, constant(1));
    vmulps(t, x, constant(0.5f));
    vmulps(y, t, s);
  }

  /// x = 2^k m with m near 1, as in `split`. The rest, with f = m - 1, is as in `log_of_parts`.
  void log(const Zmm& y, const Zmm& x) {
    const Zmm b = scratch(0), k = scratch(1), f = scratch(2), s = scratch(3), square = scratch(4), half_f2 = scratch(5),
              rest = scratch(6), low = scratch(7);
    vmovaps(b, x);
    vcmpps(chosen_, x, constant(Real::least_normal), less);
    vmulps(b | chosen_, x, constant(Real::two_to_mantissa));
    vpaddd(b, b, constant(from_bits(bits(1.0f) - Real::sqrt_half)));
    vpsrld(k, b, Real::mantissa_bits);
    vorps(k, k, constant(Real::two_to_mantissa));
    vsubps(k, k, constant(Real::two_to_mantissa + static_cast<float>(Real::bias)));
    vsubps(k | chosen_, k, constant(static_cast<float>(Real::mantissa_bits)));
    vandps(b, b, constant(from_bits((1U << Real::mantissa_bits) - 1)));
    vpaddd(b, b, constant(from_bits(Real::sqrt_half)));
    vsubps(f, b, constant(1));

    vaddps(s, f, constant(2));
    vdivps(s, f, s);
    vmulps(square, s, s);
    vmulps(half_f2, f, constant(0.5f));
    vmulps(half_f2, half_f2, f);
    copy(rest, Real::log[0]);
    vfmadd231ps(rest, square, constant(Real::log[1]));
    vmulps(low, square, square);
    vfmadd231ps(rest, low, constant(Real::log[2]));
    vmulps(rest, square, rest);
    vaddps(rest, half_f2, rest);
    vmulps(low, k, constant(Real::ln2_low));
    vfmadd213ps(s, rest, low);
    vsubps(s, half_f2, s);
    vsubps(s, f, s);
    vfmadd231ps(s, k, constant(Real::ln2_high));

    copy(b, Real::nan);
    vcmpps(chosen_, x, constant(0), equal);
    vmovaps(b | chosen_, load(f, -Real::infinity));
    vcmpps(chosen_, x, constant(0), greater);
    vmovaps(b | chosen_, s);
    vcmpps(chosen_, x, constant(Real::infinity), equal);
    vmovaps(b | chosen_, x);
    vmovaps(y, b);
  }

  const Program& program_;
  std::uint64_t single_;
  std::map<std::uint32_t, Constant> constants_;
  CompiledProgram code_{};
  bool complete_ = true;
};

}  // namespace

std::shared_ptr<const CompiledProgram> compile(const Program& program, std::uint64_t single) {
  try {
    const auto compiler = std::make_shared<const Compiler>(program, single);
    if (compiler->is_complete()) return {compiler, &compiler->code()};
  } catch (const Xbyak::Error&) {  // the system gives no memory for code
  }
  return nullptr;
}

}  // namespace tapestry::host

#else

namespace tapestry::host {

std::shared_ptr<const CompiledProgram> compile(const Program&, std::uint64_t) { return nullptr; }

}  // namespace tapestry::host

#endif
