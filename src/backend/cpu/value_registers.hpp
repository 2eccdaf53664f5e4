#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include <xbyak/xbyak.h>

#include "backend/cpu/compiled_program.hpp"
#include "backend/cpu/register_file.hpp"
#include "backend/cpu/vector_code.hpp"

namespace tapestry::host {

using Xbyak::Opmask, Xbyak::Xmm, Xbyak::Ymm, Xbyak::Zmm;

/// Where the values of vector code are while machine code is written for an iteration of its loop: in registers, on the
/// stack, or in memory as constants and inputs. Whatever has to be loaded, kept or stored for that is written here.
///
/// The code of an iteration is straight, so that the next use of every value is known: where registers are short, the
/// value is given up that is needed last (Belady, A Study of Replacement Algorithms, 1966). Constants and inputs are
/// loaded again, other values are kept on the stack. Registers that are left over hold what is the same in all
/// iterations.
class ValueRegisters : public Xbyak::CodeGenerator {
 protected:
  using Node = VectorCode::Node;
  static constexpr std::size_t most_bytes = 1 << 18;  // of address space
  static constexpr int slot_bytes = 64;
  static constexpr int never = std::numeric_limits<int>::max();

  /// Bit i of `single` says that input i is one element, which is repeated; bit i of `fixed`, that it is the same in
  /// all iterations.
  ValueRegisters(const VectorCode& code, std::uint64_t single, std::uint64_t fixed)
      : CodeGenerator(most_bytes, Xbyak::DontSetProtectRWE),
        code_(code),
        single_(single),
        fixed_(fixed),
        places_(code.nodes().size()),
        labels_(places_.size()),
        end_(static_cast<int>(code.nodes().size())),
        vectors_(0, code.avx512() ? 32 : 16) {}

  /// What the code knows of a node.
  struct Place {
    std::vector<int> uses;  ///< the positions at which it is used, in their order
    std::size_t used = 0;   ///< how many of them are past
    int number = RegisterFile::none, slot = -1;
    bool held = false;  ///< the register is its own in all iterations
    int next_use() const { return used < uses.size() ? uses[used] : never; }
  };

  const Node& node(int i) const { return code_.nodes()[i]; }
  Xbyak::Label& label(int i) { return labels_[i]; }
  Place& place(int i) { return places_[i]; }
  bool is_leaf(int i) const { return node(i).op == VectorOp::constant || node(i).op == VectorOp::input; }
  /// Whether a value is loaded from one element in memory.
  bool is_single(int i) const {
    switch (node(i).op) {
      case VectorOp::input:
        return (single_ >> node(i).bits & 1) != 0;
      case VectorOp::call:
        return code_.calls()[node(i).bits].reduces;
      default:
        return node(i).op == VectorOp::look_up || node(i).op == VectorOp::element;
    }
  }
  bool is_invariant(int i) const {
    return node(i).op == VectorOp::constant || (node(i).op == VectorOp::input && (fixed_ >> node(i).bits & 1) != 0);
  }
  bool is_wide(int i) const { return node(i).lane == Lane::bits64 || node(i).lane == Lane::mask64; }

  // --- Registers --------------------------------------------------------------------------------------------------

  /// Whether a node's value is in a mask register.
  bool in_mask(int i) const { return code_.avx512() && is_mask(node(i).lane); }
  RegisterFile& file(int i) { return in_mask(i) ? masks_ : vectors_; }
  /// A vector register as wide as that of a node.
  Xmm vector(int number, bool wide) const {
    const int bytes = lanes_ * (wide ? 8 : 4);
    if (bytes == 64) return Zmm(number);
    if (bytes == 32) return Ymm(number);
    return Xmm(number);
  }
  Xmm vector(int i) { return vector(place(i).number, is_wide(i)); }
  Opmask mask(int i) { return Opmask(place(i).number); }

  /// A register for `owner`, which need not be a node: `temporary` holds nothing.
  int allocate(RegisterFile& from, int owner) {
    int number = from.free();
    if (number == RegisterFile::none) {
      number = last_needed(from);
      give_up(from.owner(number));
    }
    from.give(number, owner);
    return number;
  }
  int last_needed(const RegisterFile& from) {
    int found = RegisterFile::none, next = -1;
    for (int number = from.first(); number < from.first() + from.count(); ++number) {
      const int owner = from.owner(number);
      if (owner == temporary || place(owner).held || is_pinned(owner)) continue;
      if (place(owner).next_use() > next) found = number, next = place(owner).next_use();
    }
    return found;
  }
  /// Takes the register of a value that is needed again.
  void give_up(int i) {
    Place& from = place(i);
    if (!is_leaf(i) && from.slot < 0) {
      from.slot = new_slot();
      if (in_mask(i)) {
        kmovw(slot(from.slot), mask(i));
      } else {
        vmovups(slot(from.slot), vector(i));
      }
    }
    file(i).release(from.number);
    from.number = RegisterFile::none;
  }
  int new_slot() {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (!slots_[i]) return slots_[i] = true, static_cast<int>(i);
    slots_.push_back(true);
    return static_cast<int>(slots_.size()) - 1;
  }
  Xbyak::Address slot(int number) { return ptr[rsp + slot_bytes * number]; }

  bool is_pinned(int i) const { return std::find(pinned_.begin(), pinned_.end(), i) != pinned_.end(); }
  /// Loads a value if it is in no register. It stays in its register until the instruction is written.
  void need(int i) {
    pinned_.push_back(i);
    if (place(i).number != RegisterFile::none) return;
    const int number = allocate(file(i), i);
    place(i).number = number;
    load(i);
  }
  /// Says that the instruction at `position` has been the last to read its operands up to there. Registers of values
  /// that are not needed again are free.
  void pass(int i) {
    Place& at = place(i);
    while (at.used < at.uses.size() && at.uses[at.used] <= position_) ++at.used;
    if (at.next_use() != never || at.held) return;
    if (at.number != RegisterFile::none) file(i).release(at.number);
    at.number = RegisterFile::none;
    if (at.slot >= 0) freed_slots_.push_back(at.slot);
    at.slot = -1;
  }
  void pass_operands(int i) {
    for (const int operand : node(i).operands)
      if (operand >= 0) pass(operand);
  }
  /// The instruction has been written: what it read from the stack may be overwritten.
  void finish_instruction() {
    pinned_.clear();
    for (const int each : freed_slots_) slots_[each] = false;
    freed_slots_.clear();
  }
  bool dies(int i) {
    const Place& at = place(i);
    if (at.held || at.number == RegisterFile::none) return false;
    return at.uses.back() <= position_;
  }
  /// A register for the result of the instruction, which is written behind the last read of its operands.
  void make_result(int i) {
    pass_operands(i);
    place(i).number = allocate(file(i), i);
  }
  /// The same, where the result overwrites an operand that is in a register, and that dies.
  void take_over(int i, int operand) {
    const int number = place(operand).number;
    pass(operand);
    place(i).number = number;
    file(i).give(number, i);
  }

  /// Copies a register of the node's kind to the node's.
  void move(int i, int from) {
    if (in_mask(i)) return kmovw(mask(i), Opmask(from));
    vmovaps(vector(i), vector(from, is_wide(i)));
  }

  // --- Operands ---------------------------------------------------------------------------------------------------

  bool in_register(int i) { return place(i).number != RegisterFile::none; }
  /// Whether a value can be read from memory by the instruction that uses it.
  bool in_memory(int i) {
    return !in_register(i) && !in_mask(i) && (node(i).op == VectorOp::constant || place(i).slot >= 0);
  }
  void need_source(int i) {
    if (!in_memory(i)) need(i);
  }
  /// A value that an instruction reads from a register or from memory.
  struct Source {
    Xmm number;
    std::optional<Xbyak::Address> memory;
    const Xbyak::Operand& operand() const { return memory ? static_cast<const Xbyak::Operand&>(*memory) : number; }
  };
  Source source_of(int i) {
    if (in_register(i)) return {vector(i), std::nullopt};
    if (place(i).slot >= 0) return {Xmm(0), slot(place(i).slot)};
    if (code_.avx512()) return {Xmm(0), ptr_b[rip + label(i)]};
    return {Xmm(0), ptr[rip + label(i)]};
  }
  void copy(int i, int from) {
    if (in_register(from)) return vmovaps(vector(i), vector(from));
    if (place(from).slot >= 0) return vmovups(vector(i), slot(place(from).slot));
    load_constant(i, from);
  }

  void load(int i) {
    if (place(i).slot >= 0) {
      if (in_mask(i)) return kmovw(mask(i), slot(place(i).slot));
      return vmovups(vector(i), slot(place(i).slot));
    }
    if (node(i).op == VectorOp::constant) return load_constant(i, i);
    mov(address_, operand_address(static_cast<int>(node(i).bits)));
    load_from_address(i);
  }
  /// Loads an operand, or an element of one, from where `address_` says.
  void load_from_address(int i) {
    const auto stored = static_cast<Stored>(node(i).detail);
    if (is_mask(node(i).lane)) return load_bools(i);
    if (stored == Stored::byte) return load_bytes(i);
    if (stored != Stored::plain) return load_halves(i, stored);
    if (is_single(i)) return broadcast(i, ptr[address_]);
    vmovups(vector(i), element(i));
  }
  void load_constant(int i, int constant) {
    if (!code_.avx512()) return vmovups(vector(i), ptr[rip + label(constant)]);
    broadcast(i, ptr[rip + label(constant)]);
  }
  void broadcast(int i, const Xbyak::Address& from) {
    if (!is_wide(i)) return vbroadcastss(vector(i), from);
    const int number = place(i).number;
    code_.avx512() ? vbroadcastsd(Zmm(number), from) : vbroadcastsd(Ymm(number), from);
  }
  void store_value(int i, Stored stored, bool stream) {
    if (is_mask(node(i).lane)) return store_bools(i);
    if (stored == Stored::byte) return store_bytes(i);
    if (stored != Stored::plain) return store_halves(i, stored);
    if (stream) return vmovntps(element(i), vector(i));
    vmovups(element(i), vector(i));
  }

  static constexpr std::uint8_t nearest_even = 0;
  /// The lower half of a node's register.
  Xmm half_of(int i) {
    const int number = place(i).number;
    return lanes_ == 16 ? Xmm(Ymm(number)) : Xmm(number);
  }
  Xbyak::Address half_element() { return ptr[address_ + index_ * 2]; }
  void load_halves(int i, Stored stored) {
    const Xmm half = half_of(i), to = vector(i);
    if (is_single(i)) vpbroadcastw(half, ptr[address_]);
    if (stored == Stored::float16) return is_single(i) ? vcvtph2ps(to, half) : vcvtph2ps(to, half_element());
    is_single(i) ? vpmovzxwd(to, half) : vpmovzxwd(to, half_element());
    vpslld(to, to, 16);
  }
  /// The lanes have been rounded.
  void store_halves(int i, Stored stored) {
    if (stored == Stored::float16) return vcvtps2ph(half_element(), vector(i), nearest_even);
    const int number = allocate(vectors_, temporary);
    const Xmm upper = vector(number, false), low(number);
    vpsrld(upper, vector(i), 16);
    if (code_.avx512()) {
      vpmovdw(half_element(), upper);
    } else if (lanes_ == 4) {
      vpackusdw(low, low, low);
      vmovq(half_element(), low);
    } else {
      const int other = allocate(vectors_, temporary);
      vextracti128(Xmm(other), Ymm(number), 1);
      vpackusdw(low, low, Xmm(other));
      vmovups(half_element(), low);
      vectors_.release(other);
    }
    vectors_.release(number);
  }
  Xbyak::Address byte_element() { return ptr[address_ + index_]; }
  /// One byte for each lane of 32 bits.
  void load_bytes(int i) {
    const Xmm to = vector(i), low(to.getIdx());
    if (!is_single(i)) return vpmovzxbd(to, byte_element());
    vpbroadcastb(low, ptr[address_]);
    vpmovzxbd(to, low);
  }
  void store_bytes(int i) {
    if (code_.avx512()) return vpmovdb(byte_element(), vector(i));
    const int number = allocate(vectors_, temporary);
    pack_bytes(i, number, false);
    store_packed(Xmm(number));
    vectors_.release(number);
  }
  /// The lanes of 32 bits of AVX2 as bytes of the register `number`: they are within the range of bytes, or masks.
  void pack_bytes(int i, int number, bool masks) {
    const Xmm bytes(number), low(place(i).number);
    if (lanes_ == 8) vextracti128(bytes, Ymm(low.getIdx()), 1);
    vpackssdw(bytes, low, lanes_ == 8 ? bytes : low);
    masks ? vpacksswb(bytes, bytes, bytes) : vpackuswb(bytes, bytes, bytes);
  }
  void store_packed(const Xmm& bytes) {
    if (lanes_ == 16) return vmovdqu8(byte_element(), bytes);
    if (lanes_ == 8) return vmovq(byte_element(), bytes);
    vmovd(byte_element(), bytes);
  }
  /// One byte for each lane becomes a mask.
  void load_bools(int i) {
    const bool single = is_single(i);
    if (!code_.avx512()) {
      const Xmm to = vector(i);
      load_bytes(i);
      vpslld(to, to, 31);
      return vpsrad(to, to, 31);
    }
    const Xmm bytes(allocate(vectors_, temporary));
    if (single) {
      vpbroadcastb(bytes, ptr[address_]);
    } else if (lanes_ == 16) {
      vmovdqu8(bytes, element(i));
    } else {
      vmovq(bytes, element(i));
    }
    vptestmb(mask(i), bytes, bytes);
    vectors_.release(bytes.getIdx());
  }
  void store_bools(int i) {
    const int number = allocate(vectors_, temporary);
    const Xmm bytes(number);
    if (code_.avx512()) {
      vpmovm2b(bytes, mask(i));
    } else {
      pack_bytes(i, number, true);
    }
    vpabsb(bytes, bytes);
    store_packed(bytes);
    vectors_.release(number);
  }

  Xbyak::Address operand_address(int number) {
    return ptr[operands_ + static_cast<std::size_t>(number) * sizeof(Operand)];
  }
  /// The elements of this iteration of the operand whose address has been loaded.
  Xbyak::Address element(int i) {
    if (is_mask(node(i).lane)) return byte_element();
    return is_wide(i) ? ptr[address_ + index_ * 8] : ptr[address_ + index_ * 4];
  }

  /// A vector has as many lanes as it holds of the widest elements.
  void set_lanes(bool wide) { lanes_ = (code_.avx512() ? 64 : 32) / (wide ? 8 : 4); }
  /// Forgets, before an iteration, which values are in registers, except for those that are held there.
  void start_over() {
    for (Place& each : places_) {
      each.used = 0;
      if (!each.held) each.number = RegisterFile::none;
      each.slot = -1;
    }
    std::fill(slots_.begin() + reserved_slots_, slots_.end(), false);
  }
  /// Keeps the first slots of the stack for other things than values.
  void reserve_slots(int count) {
    slots_.resize(static_cast<std::size_t>(count), true);
    reserved_slots_ = count;
  }
  /// Moves all values that are needed again out of the registers, which a called function may use.
  void give_up_all() {
    for (RegisterFile* file : {&vectors_, &masks_})
      for (int number = file->first(); number < file->first() + file->count(); ++number)
        if (file->owner(number) >= 0) give_up(file->owner(number));
  }
  void discard_code() {
    reset();
    labels_ = std::vector<Xbyak::Label>(places_.size());  // labels that were used keep their old numbers
  }

  /// Gives the registers that no iteration needs to the values that are used most of those that never change.
  void hold_invariants() {
    std::vector<int> by_use;
    for (int i = 0; i < end_; ++i)
      if (is_invariant(i)) by_use.push_back(i);
    std::stable_sort(by_use.begin(), by_use.end(),
                     [this](int a, int b) { return place(a).uses.size() > place(b).uses.size(); });
    hold(by_use);
  }
  /// Gives them to some values, as far as there are any.
  void hold(const std::vector<int>& values) {
    for (const int i : values) {
      if (place(i).uses.empty()) continue;
      RegisterFile& from = file(i);
      int& left = in_mask(i) ? masks_left_ : vectors_left_;
      if (left < 0) left = from.count() - from.peak();
      if (left == 0) continue;
      --left;
      place(i).held = true;
      place(i).number = from.free();
      from.give(place(i).number, i);
    }
  }

  void write_constants() {
    align(32);
    for (int i = 0; i < end_; ++i) {
      if (node(i).op != VectorOp::constant || place(i).uses.empty()) continue;
      const bool wide = is_wide(i);
      if (code_.avx512() && wide) align(8);
      L(label(i));
      const int copies = code_.avx512() ? 1 : wide ? 4 : 8;
      for (int copy = 0; copy < copies; ++copy) {
        if (wide) {
          dq(node(i).bits);
        } else {
          dd(static_cast<std::uint32_t>(node(i).bits));
        }
      }
    }
  }

  static constexpr int temporary = -2;
  // The first two are the arguments: the operands, and the number of elements. All registers that the code uses belong
  // to the called function.
  const Xbyak::Reg64 &operands_ = rdi, &count_ = rsi, &index_ = rcx, &address_ = rax;

  const VectorCode& code_;
  std::uint64_t single_, fixed_;
  std::vector<Place> places_;
  std::vector<Xbyak::Label> labels_;  ///< of the constants
  int end_, lanes_ = 0, position_ = 0, vectors_left_ = -1, masks_left_ = -1;
  RegisterFile vectors_, masks_{1, 7};  // k0 means no mask
  std::vector<int> pinned_, freed_slots_;
  std::vector<bool> slots_;  ///< which are in use
  int reserved_slots_ = 0;
};

}  // namespace tapestry::host
