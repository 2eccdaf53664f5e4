#pragma once

#include "backend/cpu/value_registers.hpp"

namespace tapestry::host {

/// Writes the instructions for the nodes of vector code.
class VectorInstructions : public ValueRegisters {
 protected:
  using ValueRegisters::ValueRegisters;

  void write(int i, const Node& it) {
    const auto [a, b, c] = it.operands;
    switch (it.op) {
      case VectorOp::add:
      case VectorOp::multiply:
      case VectorOp::add_bits:
      case VectorOp::multiply_bits:
      case VectorOp::multiply_halves:
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
      case VectorOp::compare_bits:
        return compare(i, a, b);
      case VectorOp::invert:
        return of_masks(i, a, a);
      case VectorOp::square_root:
      case VectorOp::round:
      case VectorOp::widen:
      case VectorOp::narrow:
      case VectorOp::widen_bits:
      case VectorOp::whole_to_real:
      case VectorOp::real_to_whole:
      case VectorOp::round_to_float16:
      case VectorOp::shift_left:
      case VectorOp::shift_right:
        return unary(i, a);
      case VectorOp::narrow_bits:
        return code_.avx512() ? unary(i, a) : low_halves(i, a);
      case VectorOp::multiply_add:
      case VectorOp::subtract_product:
        return in_memory(a) && !in_memory(b) ? multiply_add(i, b, a, c) : multiply_add(i, a, b, c);
      case VectorOp::select:
        return select(i, a, b, c);
      case VectorOp::resize_mask:
        return resize_mask(i, a);
      case VectorOp::copy_sign:
        return copy_sign(i, a, b, c);
      case VectorOp::copy:
        return copy_value(i, a);
      case VectorOp::constant:
      case VectorOp::input:
      case VectorOp::look_up:
      case VectorOp::element:
      case VectorOp::call:
        return;  // loaded where they are used; `LoopCompiler` writes the last three
    }
  }

 private:
  void copy_value(int i, int from) {
    need(from);
    const int number = place(from).number;
    make_result(i);
    move(i, number);
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
      case VectorOp::multiply_bits:
        return wide ? vpmullq(y, a, b) : vpmulld(y, a, b);
      case VectorOp::multiply_halves:
        return vpmuludq(y, a, b);
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
    const bool wide = is_wide(i), from_wide = is_wide(operand);
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
      case VectorOp::widen_bits:
        return vpmovsxdq(y, x);
      case VectorOp::narrow_bits:
        return vpmovqd(y, x);
      case VectorOp::whole_to_real:
        if (from_wide) return wide ? vcvtqq2pd(y, x) : vcvtqq2ps(y, x);
        return wide ? vcvtdq2pd(y, x) : vcvtdq2ps(y, x);
      case VectorOp::real_to_whole:
        if (from_wide) return wide ? vcvttpd2qq(y, x) : vcvttpd2dq(y, x);
        return wide ? vcvttps2qq(y, x) : vcvttps2dq(y, x);
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
    if (node(i).op == VectorOp::compare_bits) return compare_bits(i, a, b, predicate);
    if (in_mask(i)) return is_wide(i) ? vcmppd(mask(i), a, b, predicate) : vcmpps(mask(i), a, b, predicate);
    is_wide(i) ? vcmppd(vector(i), a, b, predicate) : vcmpps(vector(i), a, b, predicate);
  }

  void compare_bits(int i, const Xmm& a, const Xbyak::Operand& b, std::uint8_t predicate) {
    const bool wide = is_wide(i);
    if (in_mask(i)) return wide ? vpcmpq(mask(i), a, b, predicate) : vpcmpd(mask(i), a, b, predicate);
    if (predicate == equal_bits) return wide ? vpcmpeqq(vector(i), a, b) : vpcmpeqd(vector(i), a, b);
    wide ? vpcmpgtq(vector(i), a, b) : vpcmpgtd(vector(i), a, b);
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
    if (or_zero && code_.avx512())
      need(chosen);
    else
      need_source(chosen);
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
    if (!is_wide(i)) return low_halves(i, from);
    need(from);
    const int number = place(from).number;
    make_result(i);
    vpmovsxdq(vector(i), Xmm(number));
  }
  void low_halves(int i, int from) {
    need(from);
    const int number = place(from).number;
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
};

}  // namespace tapestry::host
