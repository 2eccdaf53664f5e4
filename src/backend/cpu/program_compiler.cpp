#include "backend/cpu/program_compiler.hpp"

#ifdef __x86_64__

#include <vector>

#include "backend/cpu/levels.hpp"
#include "backend/cpu/program_recorder.hpp"
#include "backend/cpu/value_registers.hpp"

namespace tapestry::host {
namespace {

/// Writes machine code that computes vector code in a loop, for the System V calling convention of x86-64. It is
/// written twice in vain first: then it is known how many registers and how much of the stack it needs.
class Compiler : public ValueRegisters {
 public:
  Compiler(const RecordedProgram& recorded, int inputs, std::uint64_t single, int near)
      : ValueRegisters(recorded.code, single), outputs_(recorded.outputs), inputs_(inputs), near_(near) {
    find_uses();
    body(false);
    hold_invariants();
    body(false);  // how much of the stack it needs is known behind it
    discard_code();
    compiled_.lanes = lanes_;
    compiled_.store = function(false);
    align(64);
    compiled_.stream = function(true);
    write_constants();
    setProtectModeRE();
  }
  CompiledProgram& compiled() { return compiled_; }

 private:
  // --- The loop ---------------------------------------------------------------------------------------------------

  CompiledProgram::Code function(bool stream) {
    const auto code = getCurr<CompiledProgram::Code>();
    Xbyak::Label loop;
    push(rbp);
    mov(rbp, rsp);
    and_(rsp, -slot_bytes);
    sub(rsp, static_cast<std::uint32_t>(slots_.size()) * slot_bytes);
    xor_(index_.cvt32(), index_.cvt32());
    for (int i = 0; i < end_; ++i)
      if (place(i).held) load(i);
    align(64);
    L(loop);
    body(stream);
    add(index_, lanes_);
    cmp(index_, count_);
    jl(loop, T_NEAR);
    mov(rsp, rbp);
    pop(rbp);
    vzeroupper();
    ret();
    return code;
  }

  void body(bool stream) {
    start_over();
    for (position_ = 0; position_ < end_; ++position_) {
      if (place(position_).uses.empty() || is_leaf(position_)) continue;
      write(position_, node(position_));
      finish_instruction();
    }
    // An output may lie where an input does, so nothing is written before everything has been read.
    for (std::size_t i = 0; i < outputs_.size(); ++i) store(static_cast<int>(i), stream);
  }
  /// `position_` is that of the output now, behind all nodes.
  void store(int number, bool stream) {
    const auto [i, stored] = outputs_[static_cast<std::size_t>(number)];
    need(i);
    mov(address_, operand_address(inputs_ + number));
    store_value(i, stored, stream && number != near_);
    pass(i);
    finish_instruction();
    ++position_;
  }
  /// Finds which nodes the outputs need, and where.
  void find_uses() {
    std::vector<bool> needed(places_.size());
    for (const auto& output : outputs_) needed[static_cast<std::size_t>(output.node)] = true;
    for (int i = end_ - 1; i >= 0; --i)
      if (needed[static_cast<std::size_t>(i)])
        for (const int operand : node(i).operands)
          if (operand >= 0) needed[static_cast<std::size_t>(operand)] = true;
    bool any_wide = false;
    for (int i = 0; i < end_; ++i) {
      if (!needed[static_cast<std::size_t>(i)]) continue;
      any_wide = any_wide || is_wide(i);
      for (const int operand : node(i).operands)
        if (operand >= 0) place(operand).uses.push_back(i);
    }
    int position = end_;
    for (const auto& output : outputs_) place(output.node).uses.push_back(position++);
    set_lanes(any_wide);
  }

  // --- Instructions -----------------------------------------------------------------------------------------------

  void write(int i, const Node& it) {
    const auto [a, b, c] = it.operands;
    switch (it.op) {
      case VectorOp::add:
      case VectorOp::multiply:
      case VectorOp::add_bits:
      case VectorOp::bit_and:
      case VectorOp::bit_or:
      case VectorOp::bit_xor:
        if (in_mask(i)) return of_masks(i, a, b);
        return in_memory(a) && !in_memory(b) ? binary(i, b, a) : binary(i, a, b);
      case VectorOp::subtract:
      case VectorOp::divide:
      case VectorOp::subtract_bits:
      case VectorOp::limit:
      case VectorOp::scale:
        return binary(i, a, b);
      case VectorOp::compare:
        return compare(i, a, b);
      case VectorOp::invert:
        return of_masks(i, a, a);
      case VectorOp::square_root:
      case VectorOp::round:
      case VectorOp::widen:
      case VectorOp::narrow:
      case VectorOp::round_to_float16:
      case VectorOp::shift_left:
      case VectorOp::shift_right:
        return unary(i, a);
      case VectorOp::multiply_add:
      case VectorOp::subtract_product:
        return in_memory(a) && !in_memory(b) ? multiply_add(i, b, a, c) : multiply_add(i, a, b, c);
      case VectorOp::select:
        return select(i, a, b, c);
      case VectorOp::resize_mask:
        return resize_mask(i, a);
      case VectorOp::copy_sign:
        return copy_sign(i, a, b, c);
      case VectorOp::constant:
      case VectorOp::input:
        return;  // loaded where they are used
    }
  }

  void binary(int i, int left, int right) {
    constexpr std::uint8_t least_magnitude = 2;
    need(left);
    need_source(right);
    const Xmm a = vector(left);
    const Source source = source_of(right);
    make_result(i);
    const Xmm y = vector(i);
    const Xbyak::Operand& b = source.operand();
    const bool wide = is_wide(i);
    switch (node(i).op) {
      case VectorOp::add:
        return wide ? vaddpd(y, a, b) : vaddps(y, a, b);
      case VectorOp::subtract:
        return wide ? vsubpd(y, a, b) : vsubps(y, a, b);
      case VectorOp::multiply:
        return wide ? vmulpd(y, a, b) : vmulps(y, a, b);
      case VectorOp::divide:
        return wide ? vdivpd(y, a, b) : vdivps(y, a, b);
      case VectorOp::bit_and:
        return wide ? vandpd(y, a, b) : vandps(y, a, b);
      case VectorOp::bit_or:
        return wide ? vorpd(y, a, b) : vorps(y, a, b);
      case VectorOp::bit_xor:
        return wide ? vxorpd(y, a, b) : vxorps(y, a, b);
      case VectorOp::add_bits:
        return wide ? vpaddq(y, a, b) : vpaddd(y, a, b);
      case VectorOp::subtract_bits:
        return wide ? vpsubq(y, a, b) : vpsubd(y, a, b);
      case VectorOp::limit:
        return wide ? vrangepd(y, a, b, least_magnitude) : vrangeps(y, a, b, least_magnitude);
      default:
        return wide ? vscalefpd(y, a, b) : vscalefps(y, a, b);
    }
  }

  void unary(int i, int operand) {
    need(operand);
    const Xmm x = vector(operand);
    make_result(i);
    const Xmm y = vector(i);
    const bool wide = is_wide(i);
    const std::uint8_t detail = node(i).detail;
    switch (node(i).op) {
      case VectorOp::square_root:
        return wide ? vsqrtpd(y, x) : vsqrtps(y, x);
      case VectorOp::round:
        if (code_.avx512()) return wide ? vrndscalepd(y, x, detail) : vrndscaleps(y, x, detail);
        return wide ? vroundpd(y, x, detail) : vroundps(y, x, detail);
      case VectorOp::widen:
        return vcvtps2pd(y, x);
      case VectorOp::narrow:
        return vcvtpd2ps(y, x);
      case VectorOp::round_to_float16:
        vcvtps2ph(half_of(i), x, nearest_even);
        return vcvtph2ps(y, half_of(i));
      case VectorOp::shift_left:
        return wide ? vpsllq(y, x, detail) : vpslld(y, x, detail);
      default:
        return wide ? vpsrlq(y, x, detail) : vpsrld(y, x, detail);
    }
  }

  void of_masks(int i, int left, int right) {
    need(left);
    need(right);
    const Opmask a = mask(left), b = mask(right);
    make_result(i);
    switch (node(i).op) {
      case VectorOp::bit_and:
        return kandw(mask(i), a, b);
      case VectorOp::bit_or:
        return korw(mask(i), a, b);
      case VectorOp::bit_xor:
        return kxorw(mask(i), a, b);
      default:
        return knotw(mask(i), a);
    }
  }

  void compare(int i, int left, int right) {
    need(left);
    need_source(right);
    const Xmm a = vector(left);
    const Source source = source_of(right);
    make_result(i);
    const Xbyak::Operand& b = source.operand();
    const std::uint8_t predicate = node(i).detail;
    if (in_mask(i)) return is_wide(i) ? vcmppd(mask(i), a, b, predicate) : vcmpps(mask(i), a, b, predicate);
    is_wide(i) ? vcmppd(vector(i), a, b, predicate) : vcmpps(vector(i), a, b, predicate);
  }

  /// The result overwrites an operand that dies, if there is one: y = y + a b, or y = y b + c.
  void multiply_add(int i, int a, int b, int c) {
    need(a);
    need_source(b);
    need_source(c);
    const bool over_sum = dies(c), over_a = dies(a), over_b = dies(b);
    if (!over_sum && over_a) need(b);  // the instruction reads c from memory, but not b
    const Source left = source_of(a), right = source_of(b), sum = source_of(c);
    if (over_sum) {
      take_over(i, c);
    } else if (over_a || over_b) {
      take_over(i, over_a ? a : b);
      pass_operands(i);
      const Source& factor = over_a ? right : left;
      return write_multiply_add(i, false, factor.number, sum.operand());
    } else {
      place(i).number = allocate(vectors_, i);
      copy(i, c);
    }
    pass_operands(i);
    write_multiply_add(i, true, left.number, right.operand());
  }
  /// y = y + a b, or else y = a y + b; the product is subtracted where the node says so.
  void write_multiply_add(int i, bool to_sum, const Xmm& a, const Xbyak::Operand& b) {
    const Xmm y = vector(i);
    const bool wide = is_wide(i);
    if (node(i).op == VectorOp::multiply_add) {
      if (to_sum) return wide ? vfmadd231pd(y, a, b) : vfmadd231ps(y, a, b);
      return wide ? vfmadd213pd(y, a, b) : vfmadd213ps(y, a, b);
    }
    if (to_sum) return wide ? vfnmadd231pd(y, a, b) : vfnmadd231ps(y, a, b);
    wide ? vfnmadd213pd(y, a, b) : vfnmadd213ps(y, a, b);
  }

  void select(int i, int condition, int chosen, int other) {
    const bool or_zero = node(other).op == VectorOp::constant && node(other).bits == 0;
    const bool wide = is_wide(i);
    need(condition);
    if (!or_zero) need(other);
    or_zero&& code_.avx512() ? need(chosen) : need_source(chosen);
    const int first = place(condition).number;
    const Source a = source_of(chosen), b = source_of(other);
    make_result(i);
    if (code_.avx512()) {
      const Opmask k(first);
      if (or_zero) return wide ? vmovapd(vector(i) | k | T_z, a.number) : vmovaps(vector(i) | k | T_z, a.number);
      return wide ? vblendmpd(vector(i) | k, b.number, a.operand()) : vblendmps(vector(i) | k, b.number, a.operand());
    }
    const Xmm lanes = vector(first, wide);
    if (or_zero) return wide ? vandpd(vector(i), lanes, a.operand()) : vandps(vector(i), lanes, a.operand());
    wide ? vblendvpd(vector(i), b.number, a.operand(), lanes) : vblendvps(vector(i), b.number, a.operand(), lanes);
  }

  /// Four lanes of AVX2, which are 128 bits of 32-bit lanes.
  void resize_mask(int i, int from) {
    need(from);
    const int number = place(from).number;
    if (is_wide(i)) {
      make_result(i);
      return vpmovsxdq(vector(i), Xmm(number));
    }
    place(i).number = allocate(vectors_, i);
    vextractf128(vector(i), Ymm(number), 1);
    vshufps(vector(i), Xmm(number), vector(i), 0x88);  // the low halves of all four
    pass_operands(i);
  }

  void copy_sign(int i, int magnitude, int sign, int bit) {
    need(magnitude);
    need(sign);
    need_source(bit);
    const Xmm b = vector(sign);
    const Source c = source_of(bit);
    if (dies(magnitude)) {
      take_over(i, magnitude);
    } else {
      place(i).number = allocate(vectors_, i);
      copy(i, magnitude);
    }
    pass_operands(i);
    constexpr std::uint8_t b_where_c = 0xd8;  // a truth table: c ? b : a
    is_wide(i) ? vpternlogq(vector(i), b, c.operand(), b_where_c) : vpternlogd(vector(i), b, c.operand(), b_where_c);
  }

  const std::vector<RecordedProgram::Output>& outputs_;
  int inputs_, near_;
  CompiledProgram compiled_{};
};

}  // namespace

std::shared_ptr<const CompiledProgram> compile(const Program& program, std::span<const DType> inputs,
                                               std::uint64_t single, int near) {
  const RecordedProgram recorded = record(program, inputs, cpu_level() == Level::v4);
  if (!recorded.code.is_complete()) return nullptr;
  try {
    const auto compiler = std::make_shared<Compiler>(recorded, program.inputs, single, near);
    CompiledProgram& compiled = compiler->compiled();
    compiled.inputs = inputs.size();
    for (const DType dtype : inputs) compiled.element_bytes.push_back(static_cast<std::int64_t>(size_of(dtype)));
    compiled.element_bytes.resize(static_cast<std::size_t>(program.inputs + program.outputs));
    for (const Program::Instruction& each : program.instructions)
      if (!program.is_register(each.result))
        compiled.element_bytes[each.result] = static_cast<std::int64_t>(size_of(each.dtype));
    return {compiler, &compiled};
  } catch (const Xbyak::Error&) {  // the system gives no memory for code
    return nullptr;
  }
}

}  // namespace tapestry::host

#else

namespace tapestry::host {

std::shared_ptr<const CompiledProgram> compile(const Program&, std::span<const DType>, std::uint64_t, int) {
  return nullptr;
}

}  // namespace tapestry::host

#endif
