#include "backend/cuda/epilogues.hpp"

namespace tapestry::gpu {
namespace {

/// In bytes: cuBLASLt reads a bias in vectors.
constexpr std::uintptr_t bias_alignment = 16;

/// Whether x is an aligned, contiguous row that is broadcast to all rows of y.
bool is_row(const Tensor& x, const Tensor& y) {
  const std::int64_t columns = y.shape().sizes().back();
  const auto last = x.rank() - 1;
  return x.dtype() == y.dtype() && x.rank() > 0 && x.size() == columns && x.shape().sizes().back() == columns &&
         (columns == 1 || x.strides()[last] == 1) &&
         reinterpret_cast<std::uintptr_t>(x.impl().data) % bias_alignment == 0;
}

/// Reads the instructions of a program in their order.
class Reader {
 public:
  Reader(const Program& program, std::size_t product, std::span<const Tensor> others)
      : program_(program), product_(product), others_(others), value_(product) {}

  /// The input that the next instruction adds to the value, or null. If there is one, the sum becomes the value.
  const Tensor* added() {
    const Program::Instruction* add = at(Binary::add);
    if (!add) return nullptr;
    const auto [a, b, c] = add->operands;
    const std::size_t other = a == value_ ? b : a;
    if ((a != value_ && b != value_) || other == product_ || other >= static_cast<std::size_t>(program_.inputs))
      return nullptr;
    advance();
    return &others_[other < product_ ? other : other - 1];
  }

  /// Whether the next instruction is f of the value. If so, its result becomes the value.
  bool applies(Unary f) {
    const Program::Instruction* instruction = at(f);
    if (!instruction || instruction->operands[0] != value_) return false;
    advance();
    return true;
  }

  /// Whether the value is the output, and no instruction is left.
  bool is_done() const {
    return next_ == program_.instructions.size() && value_ == static_cast<std::size_t>(program_.inputs);
  }

 private:
  const Program::Instruction* at(const ElementFunction& function) const {
    const bool is_next = next_ < program_.instructions.size() && program_.instructions[next_].function == function;
    return is_next ? &program_.instructions[next_] : nullptr;
  }
  void advance() { value_ = program_.instructions[next_++].result; }

  const Program& program_;
  std::size_t product_;
  std::span<const Tensor> others_;
  std::size_t value_;  ///< the operand that holds what is computed so far
  std::size_t next_ = 0;
};

}  // namespace

std::optional<Epilogue> epilogue_of(const Backend::FusedProduct& fused, const Program& program,
                                    std::span<const Tensor> others, const Tensor& y) {
  if (program.outputs != 1 || y.rank() != 2 || y.dtype() == float64) return {};
  Reader reader(program, fused.product, others);
  Epilogue epilogue;
  if (const Tensor* bias = reader.added()) {
    if (!is_row(*bias, y)) return {};
    epilogue.bias = bias->impl().data;
  }
  if (reader.applies(Unary::relu)) {
    epilogue.function = Epilogue::Function::relu;
  } else if (reader.applies(Unary::gelu_tanh)) {
    epilogue.function = Epilogue::Function::gelu_tanh;
  }
  if (!reader.is_done()) return {};
  return epilogue;
}

}  // namespace tapestry::gpu
