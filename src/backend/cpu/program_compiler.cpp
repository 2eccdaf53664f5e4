#include "backend/cpu/program_compiler.hpp"

#ifdef __x86_64__

#include <algorithm>
#include <vector>

#include "backend/cpu/levels.hpp"
#include "backend/cpu/program_recorder.hpp"
#include "backend/cpu/vector_instructions.hpp"

namespace tapestry::host {
namespace {

/// Writes machine code that computes vector code in a loop, for the System V calling convention of x86-64. It
/// first writes the code twice and discards it, to learn how many registers and how much of the stack it needs.
class Compiler : public VectorInstructions {
 public:
  Compiler(const RecordedProgram& recorded, int inputs, std::uint64_t single, int near)
      : VectorInstructions(recorded.code, single, single), outputs_(recorded.outputs), inputs_(inputs), near_(near) {
    find_uses();
    body(false);
    hold_invariants();
    body(false);  // after which it is known how much of the stack is needed
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
    const auto [i, stored] = outputs_[number];
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
