#include "backend/cpu/program_compiler.hpp"

#ifdef __x86_64__

#include <algorithm>
#include <vector>

#include "backend/cpu/kernels/reduce.hpp"
#include "backend/cpu/levels.hpp"
#include "backend/cpu/program_recorder.hpp"
#include "backend/cpu/vector_instructions.hpp"

namespace tapestry::host {
namespace {

/// Writes machine code that computes vector code in a loop, for the System V calling convention of x86-64. It
/// first writes the code twice and discards it, to learn how many registers and how much of the stack it needs.
class Compiler : public VectorInstructions {
 public:
  /// `sums`: whether the near output may be added up.
  Compiler(const RecordedProgram& recorded, int inputs, std::uint64_t single, int near, bool sums)
      : VectorInstructions(recorded.code, single, single), outputs_(recorded.outputs), inputs_(inputs), near_(near) {
    find_uses();
    const Write most = sums ? Write::sum : Write::store;  // takes most registers
    body(most);
    hold_invariants();
    body(most);  // after which it is known how much of the stack is needed
    discard_code();
    compiled_.lanes = lanes_;
    compiled_.store = function(Write::store);
    align(64);
    compiled_.stream = function(Write::stream);
    align(64);
    compiled_.sum = sums ? function(Write::sum) : nullptr;
    write_constants();
    setProtectModeRE();
  }
  CompiledProgram& compiled() { return compiled_; }

 private:
  /// What becomes of the outputs: see CompiledProgram.
  enum class Write : std::uint8_t { store, stream, sum };

  // --- The loop ---------------------------------------------------------------------------------------------------

  CompiledProgram::Code function(Write how) {
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
    body(how);
    add(index_, lanes_);
    cmp(index_, count_);
    jl(loop, T_NEAR);
    mov(rsp, rbp);
    pop(rbp);
    vzeroupper();
    ret();
    return code;
  }

  void body(Write how) {
    start_over();
    for (position_ = 0; position_ < end_; ++position_) {
      if (place(position_).uses.empty() || is_leaf(position_)) continue;
      write(position_, node(position_));
      finish_instruction();
    }
    // An output may lie where an input does, so nothing is written before everything has been read.
    for (std::size_t i = 0; i < outputs_.size(); ++i) store(static_cast<int>(i), how);
  }
  /// `position_` is that of the output now, behind all nodes.
  void store(int number, Write how) {
    const auto [i, stored] = outputs_[number];
    need(i);
    mov(address_, operand_address(inputs_ + number));
    if (how == Write::sum && number == near_) {
      add_to_lanes(i);
    } else {
      store_value(i, stored, how == Write::stream && number != near_);
    }
    pass(i);
    finish_instruction();
    ++position_;
  }
  /// Adds a value to the lanes to which `address_` points. They stay in memory, which is in the first-level cache: the
  /// program needs the registers.
  void add_to_lanes(int i) {
    const bool wide = is_wide(i);
    const int bytes = wide ? 8 : 4;
    mov(lane_.cvt32(), index_.cvt32());
    and_(lane_.cvt32(), static_cast<std::uint32_t>(row_lane_bytes) / bytes - 1);
    const Xbyak::Address lanes = ptr[address_ + lane_ * bytes];
    const int number = allocate(vectors_, temporary);
    const Xmm sum = vector(number, wide);
    vmovups(sum, lanes);
    wide ? vaddpd(sum, sum, vector(i)) : vaddps(sum, sum, vector(i));
    vmovups(lanes, sum);
    vectors_.release(number);
  }
  /// Finds which nodes the outputs need, and where.
  void find_uses() {
    std::vector<bool> needed(places_.size());
    for (const auto& output : outputs_) needed[output.node] = true;
    for (int i = end_ - 1; i >= 0; --i)
      if (needed[i])
        for (const int operand : node(i).operands)
          if (operand >= 0) needed[operand] = true;
    bool any_wide = false;
    for (int i = 0; i < end_; ++i) {
      if (!needed[i]) continue;
      any_wide = any_wide || is_wide(i);
      for (const int operand : node(i).operands)
        if (operand >= 0) place(operand).uses.push_back(i);
    }
    int position = end_;
    for (const auto& output : outputs_) place(output.node).uses.push_back(position++);
    set_lanes(any_wide);
  }

  const std::vector<RecordedProgram::Output>& outputs_;
  int inputs_, near_;
  const Xbyak::Reg64& lane_ = rdx;
  CompiledProgram compiled_{};
};

}  // namespace

std::shared_ptr<const CompiledProgram> compile(const Program& program, std::span<const DType> inputs,
                                               std::uint64_t single, int near) {
  const RecordedProgram recorded = record(program, inputs, cpu_level() == Level::v4);
  // An output that is an input may lie where another input does, which would be read too late.
  const auto is_input = [&](const RecordedProgram::Output& output) {
    return recorded.code.nodes()[output.node].op == VectorOp::input;
  };
  if (!recorded.code.is_complete() || std::any_of(recorded.outputs.begin(), recorded.outputs.end(), is_input))
    return nullptr;
  try {
    const auto of_near = [&](const Program::Instruction& each) {
      return near >= 0 && each.result == program.inputs + near && (each.dtype == float32 || each.dtype == float64);
    };
    const bool sums = std::any_of(program.instructions.begin(), program.instructions.end(), of_near);
    const auto compiler = std::make_shared<Compiler>(recorded, program.inputs, single, near, sums);
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
