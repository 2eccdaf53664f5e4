#include "backend/cpu/cpu_backend.hpp"
#include "backend/loop_program.hpp"

#ifdef __x86_64__

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "backend/cpu/compiled_program.hpp"
#include "backend/cpu/levels.hpp"
#include "backend/cpu/program_recorder.hpp"
#include "backend/cpu/vector_instructions.hpp"

namespace tapestry::host {
namespace {

/// The lanes of a loop's vectors: as few as are enough; 0 if none are.
int lanes_for(const LoopProgram& loop, const VectorCode& code) {
  const bool any_wide = std::any_of(code.nodes().begin(), code.nodes().end(), [](const VectorCode::Node& node) {
    return node.lane == Lane::bits64 || node.lane == Lane::mask64;
  });
  const int most = (code.avx512() ? 64 : 32) / (any_wide ? 8 : 4);
  for (int lanes = 4; lanes <= most; lanes *= 2)
    if (loop.elements <= lanes) return lanes;
  return 0;
}

/// Writes the machine code of a loop. A vector holds the few elements of a value; one element is repeated in all lanes.
/// Carried values stay in registers, if there are enough of them, and otherwise in memory.
class LoopCompiler final : public VectorInstructions, public LoopCode {
 public:
  LoopCompiler(const LoopProgram& loop, const RecordedProgram& recorded, int lanes)
      : VectorInstructions(recorded.code, loop.single, fixed_inputs(loop)), loop_(loop), recorded_(recorded) {
    lanes_ = lanes;
    find_uses();
    reserve_slots(call_slots);
    function();  // is discarded: it shows how many registers are left, and how much of the stack is needed
    if (!has_calls()) hold_registers();
    function();
    discard_code();
    code_address_ = function();
    write_constants();
    setProtectModeRE();
  }

  std::int64_t run(std::span<const LoopCode::Place> places, std::int64_t count) const override {
    // Vectors are loaded and stored as a whole, so what stays in its place gets memory for a whole one.
    alignas(vector_bytes) std::array<std::byte, LoopProgram::most_inputs * vector_bytes> room;
    std::array<Operand, LoopProgram::most_inputs + LoopProgram::most_operands> operands;
    const auto in_room = [&](std::size_t i) { return &room[i * vector_bytes]; };
    for (std::size_t i = 0; i < places.size(); ++i) {
      operands[i] = {places[i].data, places[i].step};
      if (is_moving(i) || is_table(i)) continue;
      operands[i].data = in_room(i);
      std::memset(in_room(i), 0, vector_bytes);
      std::memcpy(in_room(i), places[i].data, bytes_of(i));
    }
    const std::int64_t done = code_address_(operands.data(), count);
    for (std::size_t i = 0; i < loop_.carried; ++i) std::memcpy(places[i].data, in_room(i), bytes_of(i));
    return done;
  }

 private:
  static constexpr std::size_t vector_bytes = 64;
  using Code = std::int64_t (*)(Operand* operands, std::int64_t count);

  static std::uint64_t fixed_inputs(const LoopProgram& loop) {
    const std::size_t changing = loop.carried + loop.sequences;
    return changing >= 64 ? 0 : ~std::uint64_t{0} << changing;
  }
  bool has_calls() const { return !recorded_.code.calls().empty(); }
  void hold_registers() {
    std::vector<int> carried;
    for (std::size_t i = 0; i < loop_.carried; ++i) carried.push_back(static_cast<int>(i));
    hold(carried);
    hold_invariants();
  }
  std::size_t stacks() const { return loop_.results.size() - loop_.carried; }
  /// Whether an operand is an element of a sequence or of a stack.
  bool is_moving(std::size_t operand) const {
    return operand >= loop_.dtypes.size() || (operand >= loop_.carried && operand < loop_.carried + loop_.sequences);
  }
  bool is_table(std::size_t operand) const {
    for (std::size_t i = 0; i < loop_.special.size(); ++i)
      if (loop_.special[i].kind == LoopProgram::Special::Kind::look_up &&
          loop_.program.instructions[i].operands[0] == operand)
        return true;
    return false;
  }
  std::size_t bytes_of(std::size_t input) const {
    return size_of(loop_.dtypes[input]) *
           static_cast<std::size_t>((loop_.single >> input & 1) != 0 ? 1 : loop_.elements);
  }
  const RecordedProgram::Output& result(std::size_t i) const { return recorded_.outputs[i]; }
  /// Whether a carried value stays what it is.
  bool stays(std::size_t carried) const { return result(carried).node == static_cast<int>(carried); }

  /// Finds which nodes are needed, and where. Stacks are written before the carried values change.
  void find_uses() {
    std::vector<bool> needed(places_.size());
    const auto need_node = [&](int i) { needed[i] = true; };
    if (recorded_.condition >= 0) need_node(recorded_.condition);
    for (const int guard : recorded_.guards) need_node(guard);
    for (std::size_t i = 0; i < loop_.results.size(); ++i)
      if (i >= loop_.carried || !stays(i)) need_node(result(i).node);
    for (int i = end_ - 1; i >= 0; --i)
      if (needed[i])
        for (const int operand : node(i).operands)
          if (operand >= 0) need_node(operand);
    if (const int condition = recorded_.condition; condition >= 0)
      place(condition).uses.push_back(is_leaf(condition) ? 0 : condition);
    for (const int guard : recorded_.guards) place(guard).uses.push_back(guard);
    for (int i = 0; i < end_; ++i)
      if (needed[i])
        for (const int operand : node(i).operands)
          if (operand >= 0) place(operand).uses.push_back(i);
    int position = end_;
    for (std::size_t i = loop_.carried; i < loop_.results.size(); ++i) place(result(i).node).uses.push_back(position++);
    for (std::size_t i = 0; i < loop_.carried; ++i)
      if (!stays(i)) place(result(i).node).uses.push_back(position++);
  }

  Code function() {
    const auto code = getCurr<Code>();
    Xbyak::Label loop, exit;
    push(rbp);
    mov(rbp, rsp);
    and_(rsp, -slot_bytes);
    sub(rsp, static_cast<std::uint32_t>(slots_.size()) * slot_bytes);
    xor_(index_.cvt32(), index_.cvt32());  // elements are where their operands begin
    mov(whole_count_, count_);
    if (has_calls()) {  // behind the elements of results
      vpxor(xmm0, xmm0, xmm0);
      for (int part = 0; part < slot_bytes; part += 16) vmovups(ptr[rsp + slot_bytes * result_slot + part], xmm0);
    }
    for (int i = 0; i < end_; ++i)
      if (place(i).held) load(i);
    align(64);
    L(loop);
    iteration(exit);
    dec(count_);
    jnz(loop, T_NEAR);
    L(exit);
    store_held();
    mov(rax, whole_count_);
    sub(rax, count_);
    mov(rsp, rbp);
    pop(rbp);
    vzeroupper();
    ret();
    return code;
  }

  void iteration(const Xbyak::Label& exit) {
    start_over();
    position_ = 0;
    const int condition = recorded_.condition;
    if (condition >= 0 && is_leaf(condition)) leave_unless(condition, exit);
    for (; position_ < end_; ++position_) {
      if (place(position_).uses.empty() || is_leaf(position_)) continue;
      switch (node(position_).op) {
        case VectorOp::call:
          call(position_);
          break;
        case VectorOp::look_up:
          look_up(position_);
          break;
        case VectorOp::element:
          take_element(position_);
          break;
        default:
          write(position_, node(position_));
      }
      finish_instruction();
      if (is_guard(position_))
        leave_unless(position_, exit, elements_mask());
      else if (position_ == condition)
        leave_unless(condition, exit);
    }
    for (std::size_t i = loop_.carried; i < loop_.results.size(); ++i) store_in_stack(i);
    for (std::size_t i = 0; i < loop_.carried; ++i)
      if (!stays(i)) carry(i);
    for (std::size_t i = 0; i < loop_.dtypes.size() + stacks(); ++i) {
      if (!is_moving(i)) continue;
      const std::size_t at = i * sizeof(Operand);
      mov(address_, ptr[operands_ + at + offsetof(Operand, stride)]);
      add(ptr[operands_ + at], address_);
    }
  }

  bool is_guard(int i) const {
    return std::find(recorded_.guards.begin(), recorded_.guards.end(), i) != recorded_.guards.end();
  }
  std::uint32_t elements_mask() const { return (1U << loop_.elements) - 1; }

  /// Leaves the loop unless a condition holds in some lanes: those of all elements, or the first one. Nothing has been
  /// carried yet, so the values are those before the iteration.
  void leave_unless(int condition, const Xbyak::Label& exit, std::uint32_t lanes = 1) {
    need(condition);
    if (recorded_.code.avx512()) {
      kmovw(address_.cvt32(), mask(condition));  // the bits behind those of the lanes may be anything
    } else {
      vmovmskps(address_.cvt32(), vector(condition));
    }
    and_(address_.cvt32(), lanes);
    cmp(address_.cvt32(), lanes);
    pass(condition);
    finish_instruction();
    jne(exit, T_NEAR);
  }

  /// The guard of the index stands before it.
  void look_up(int i) {
    const int index = node(i).operands[0];
    const auto table = static_cast<std::size_t>(node(i).bits);
    need(index);
    const Xmm first(place(index).number);
    const Xbyak::Reg64 number = scalar_.cvt64();
    if (is_wide(index)) {
      vmovq(number, first);
    } else {
      vmovd(scalar_, first);  // it is not negative
    }
    make_result(i);
    mov(address_, operand_address(static_cast<int>(table)));
    lea(address_, ptr[address_ + number * static_cast<int>(size_of(loop_.dtypes[table]))]);
    load_from_address(i);
  }

  /// By way of a slot of the stack.
  void take_element(int i) {
    const int from = node(i).operands[0];
    const auto stored = static_cast<Stored>(node(i).detail);
    const int size = is_mask(node(i).lane) || stored == Stored::byte ? 1 : is_wide(i) ? 8 : 4;
    need(from);
    lea(address_, slot(0));
    store_value(from, stored, false);
    make_result(i);
    lea(address_, ptr[rsp + static_cast<int>(node(i).bits) * size]);
    load_from_address(i);
  }

  /// Calls a kernel for the elements of a value, in slots of the stack.
  void call(int i) {
    const KernelCall& call = recorded_.code.calls()[node(i).bits];
    for (int k = 0; k < call.operands; ++k) {
      const int operand = node(i).operands[static_cast<std::size_t>(k)];
      need(operand);
      lea(address_, slot(k));
      store_value(operand, call.from[static_cast<std::size_t>(k)], false);
    }
    pass_operands(i);
    pinned_.clear();
    give_up_all();
    const Xbyak::Reg64* const kept[] = {&operands_, &count_, &whole_count_};
    const auto kept_at = [this](int k) { return ptr[rsp + slot_bytes * kept_slot + 8 * k]; };
    for (int k = 0; k < 3; ++k) mov(kept_at(k), *kept[k]);
    mov(address_, std::bit_cast<std::uint64_t>(call.number));
    vmovq(xmm0, address_);
    lea(rdi, slot(0));
    if (call.operands == 2) {
      mov(esi, 1);
      lea(rdx, slot(1));
      mov(ecx, 1);
      lea(r8, slot(result_slot));
      mov(r9d, static_cast<std::uint32_t>(loop_.elements));
    } else {
      lea(rsi, slot(result_slot));
      mov(edx, static_cast<std::uint32_t>(loop_.elements));
    }
    vzeroupper();
    mov(address_, reinterpret_cast<std::uint64_t>(call.kernel));
    CodeGenerator::call(address_);
    for (int k = 0; k < 3; ++k) mov(*kept[k], kept_at(k));
    xor_(index_.cvt32(), index_.cvt32());
    place(i).number = allocate(file(i), i);
    lea(address_, slot(result_slot));
    load_from_address(i);
  }

  /// Overwrites a carried value by its result. The results that remain do not need the old value: `copy_old_values` has
  /// made copies of those that are old values.
  void carry(std::size_t i) {
    const auto [from, stored] = result(i);
    const int to = static_cast<int>(i);
    need(from);
    if (place(to).held) {
      move(to, place(from).number);
    } else {
      mov(address_, operand_address(to));
      store_value(from, stored, false);
    }
    pass(from);
    finish_instruction();
    ++position_;
  }
  void store_held() {
    for (std::size_t i = 0; i < loop_.carried; ++i) {
      const int value = static_cast<int>(i);
      if (!place(value).held || stays(i)) continue;
      mov(address_, operand_address(value));
      store_value(value, static_cast<Stored>(node(value).detail), false);
    }
  }

  void store_in_stack(std::size_t number) {
    const auto [i, stored] = result(number);
    need(i);
    mov(address_, operand_address(static_cast<int>(loop_.dtypes.size() + number - loop_.carried)));
    store_first(i, stored);
    pass(i);
    finish_instruction();
    ++position_;
  }
  /// Stores the element of the first lane.
  void store_first(int i, Stored stored) {
    if (is_mask(node(i).lane)) {
      in_mask(i) ? kmovw(scalar_, mask(i)) : vmovd(scalar_, Xmm(place(i).number));
      and_(scalar_, 1);
      return mov(byte[address_], scalar_.cvt8());
    }
    const Xmm value(place(i).number);
    if (is_wide(i)) return vmovq(qword[address_], value);
    if (stored == Stored::plain) return vmovd(dword[address_], value);
    if (stored == Stored::float16) {
      const Xmm half(allocate(vectors_, temporary));
      vcvtps2ph(half, value, nearest_even);
      vmovd(scalar_, half);
      vectors_.release(half.getIdx());
    } else {
      vmovd(scalar_, value);
      if (stored == Stored::bfloat16) shr(scalar_, 16);
    }
    stored == Stored::byte ? mov(byte[address_], scalar_.cvt8()) : mov(word[address_], scalar_.cvt16());
  }

  static constexpr int result_slot = 2, kept_slot = 3, call_slots = 4;
  const Xbyak::Reg64& whole_count_ = rdx;
  const Xbyak::Reg32& scalar_ = r8d;
  const LoopProgram loop_;
  const RecordedProgram& recorded_;
  Code code_address_ = nullptr;
};

/// The recorded code must outlive its compiler.
struct CompiledLoop {
  CompiledLoop(const LoopProgram& loop, RecordedProgram&& made, int lanes)
      : recorded(std::move(made)), compiler(loop, recorded, lanes) {}
  RecordedProgram recorded;
  LoopCompiler compiler;
};

/// Makes a copy of each result that is the old value of another carried one, because `carry` overwrites them in turn.
void copy_old_values(const LoopProgram& loop, RecordedProgram& recorded) {
  for (std::size_t i = 0; i < loop.carried; ++i) {
    int& result = recorded.outputs[i].node;
    if (result < static_cast<int>(loop.carried) && result != static_cast<int>(i))
      result = recorded.code.add({VectorOp::copy, recorded.code.lane(result), 0, {result}});
  }
}

std::shared_ptr<const LoopCode> compiled_loop(const LoopProgram& loop) {
  RecordedProgram recorded = record(loop, cpu_level() == Level::v4);
  if (!recorded.code.is_complete()) return nullptr;
  copy_old_values(loop, recorded);
  const int lanes = lanes_for(loop, recorded.code);
  if (lanes == 0) return nullptr;
  try {
    const auto compiled = std::make_shared<const CompiledLoop>(loop, std::move(recorded), lanes);
    return {compiled, &compiled->compiler};
  } catch (const Xbyak::Error&) {  // the system gives no memory for code
    return nullptr;
  }
}

}  // namespace

std::shared_ptr<const LoopCode> CpuBackend::loop_code(const LoopProgram& loop) {
  return may_be_compiled() ? compiled_loop(loop) : nullptr;
}

}  // namespace tapestry::host

#else

namespace tapestry::host {

std::shared_ptr<const LoopCode> CpuBackend::loop_code(const LoopProgram&) { return nullptr; }

}  // namespace tapestry::host

#endif
