#include "graph/flow/loop_writer.hpp"

#include <algorithm>

#include "core/make_tensor.hpp"
#include "graph/passes/passes.hpp"
#include "ops/handles.hpp"
#include "ops/reduction.hpp"

namespace tapestry::detail {
namespace {

using Kind = LoopProgram::Special::Kind;

const std::byte* address_of(const Tensor& tensor) { return static_cast<const std::byte*>(tensor.impl().data); }

}  // namespace

LoopWriter::LoopWriter(const Tensors& values, std::size_t carried, std::size_t sequences)
    : carried_(carried), sequences_(sequences) {
  for (std::size_t i = 0; i < carried; ++i)
    if (values[i].size() > 1) elements_ = values[i].size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Tensor& value = values[i];
    const auto* const memory = static_cast<const std::byte*>(value.impl().storage->data);
    taken_.push_back({memory, memory + value.impl().storage->bytes});
    // Two values that share memory now may differ in the next iteration.
    complete_ = complete_ && std::find(values_.begin(), values_.end(), address_of(value)) == values_.end();
    values_.push_back(address_of(value));
    if (i >= carried + sequences) continue;
    complete_ = complete_ && fits(value) && (i < carried || is_single(value));
    inputs_.push_back({static_cast<Number>(i), value.dtype(), is_single(value)});
    memory_.emplace_back(address_of(value), inputs_.back());
  }
}

bool LoopWriter::is_single(const Tensor& tensor) const {
  for (int axis = 0; axis < tensor.rank(); ++axis)
    if (tensor.shape().sizes()[axis] != 1 && tensor.strides()[axis] != 0) return false;
  return tensor.size() > 0;
}

/// Whether a tensor is one element, or has as many elements as all such tensors, contiguously.
bool LoopWriter::fits(const Tensor& tensor) const {
  return is_single(tensor) || (tensor.size() == elements_ && tensor.is_contiguous());
}

void LoopWriter::add(const Executable::Repeated& function) {
  const auto calls = function.kernels();
  complete_ = complete_ && calls;
  for (std::size_t i = 0; complete_ && i < calls->size(); ++i) add(*(*calls)[i]);
}

void LoopWriter::add(const Call& call) {
  if (&call.op() == &fused_op() || call.op().forward.is_elementwise())
    add_functions(call);
  else if (&call.op() == &ops::gather)
    add_lookup(call);
  else if (const auto reduction = ops::reduction_of(call))
    add_reduction(call, reduction->function);
  else
    complete_ = false;
}

void LoopWriter::add_functions(const Call& call) {
  if (elements_ == 1) elements_ = call.output().size();
  Tensors inputs;
  const ProgramRef program = program_of(call, inputs);
  std::vector<Number> numbers;
  for (const Tensor& input : inputs) numbers.push_back(read(input));
  numbers.resize(static_cast<std::size_t>(program->operands()));
  for (const Program::Instruction& each : program->instructions) {
    Instruction written{each, {}};
    for (std::size_t i = 0; i < static_cast<std::size_t>(operands_of(each.function)); ++i)
      written.operands[i] = numbers[each.operands[i]];
    instructions_.push_back(written);
    numbers[each.result] = -static_cast<Number>(instructions_.size());
  }
  for (std::size_t i = 0; i < call.outputs().size(); ++i)
    write(call.output(i), numbers[static_cast<std::size_t>(program->inputs) + i]);
}

/// An element of a table that the loop does not change.
void LoopWriter::add_lookup(const Call& call) {
  const Tensor &table = call.input(0), &index = call.input(1);
  const auto axis = normalize_axis(call.attr<std::int64_t>("axis"), table.rank());
  const std::int64_t size = table.shape().sizes()[axis];
  const auto is_written = [&](const auto& entry) { return entry.first == address_of(table); };
  complete_ = complete_ && is_single(call.output()) && is_single(index) && table.size() == size &&
              table.is_contiguous() && std::none_of(memory_.begin(), memory_.end(), is_written);
  if (!complete_) return;
  fixed_.push_back(fixed_at(table));
  complete_ = complete_ && (bool(fixed_.back().constant) || fixed_.back().operand >= carried_ + sequences_);
  const auto number = static_cast<Number>(inputs_.size());
  inputs_.push_back({number, table.dtype(), true});
  write(call.output(), add_special({Kind::look_up, size}, {number, read(index)}, table.dtype()));
}

/// Of all elements of a value. 16-bit floats are summed in another way.
void LoopWriter::add_reduction(const Call& call, ReduceFunction function) {
  const Tensor& x = call.input(0);
  complete_ = complete_ && call.outputs().size() == 1 && call.output().size() == 1 && !is_single(x) && fits(x) &&
              x.dtype() == call.output().dtype() && !is_half(x.dtype());
  if (!complete_) return;
  write(call.output(), add_special({Kind::reduce, static_cast<std::int64_t>(function)}, {read(x)}, x.dtype()));
}

LoopWriter::Number LoopWriter::add_special(LoopProgram::Special special, std::array<Number, 3> operands, DType dtype) {
  instructions_.push_back({{Convert{}, {}, 0, dtype, 0}, operands, special});
  return -static_cast<Number>(instructions_.size());
}

std::optional<LoopWriter::Number> LoopWriter::element_at(const Tensor& tensor) {
  const std::byte* const address = address_of(tensor);
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype()));
  const auto contains = [&](const auto& entry) {
    const auto [begin, known] = entry;
    const std::int64_t elements = known.single ? 1 : elements_;
    return address >= begin && address < begin + elements * static_cast<std::int64_t>(size_of(known.dtype));
  };
  const auto found = std::find_if(memory_.rbegin(), memory_.rend(), contains);
  if (found == memory_.rend() || found->second.single || !is_single(tensor) || found->second.dtype != tensor.dtype())
    return {};
  const Number number =
      add_special({Kind::element, (address - found->first) / size}, {found->second.number}, tensor.dtype());
  return number;
}

void LoopWriter::add_result(const Tensor& result) {
  complete_ = complete_ && !result.is_symbolic() && (results_.size() < carried_ || is_single(result));
  if (complete_) results_.push_back(read(result));
}

LoopWriter::Number LoopWriter::read(const Tensor& tensor) {
  const std::byte* const address = address_of(tensor);
  if (const auto element = element_at(tensor)) return *element;
  const auto is_here = [address](const auto& entry) { return entry.first == address; };
  if (const auto found = std::find_if(memory_.rbegin(), memory_.rend(), is_here); found != memory_.rend()) {
    const Known& known = found->second;
    // A tensor at the same address may still be another one, such as the first element of the value.
    complete_ = complete_ && known.dtype == tensor.dtype() && known.single == is_single(tensor) && fits(tensor);
    return known.number;
  }
  return add_input(tensor, fixed_at(tensor));
}

/// Where a tensor is that no instruction has written.
LoopWriter::Fixed LoopWriter::fixed_at(const Tensor& tensor) {
  const std::byte* const address = address_of(tensor);
  if (const auto found = std::find(values_.begin(), values_.end(), address); found != values_.end())
    return {static_cast<std::size_t>(found - values_.begin()), Tensor()};
  const auto contains = [address](const Range& range) { return address >= range.begin && address < range.end; };
  complete_ = complete_ && std::none_of(taken_.begin(), taken_.end(), contains);
  return {0, tensor};
}

LoopWriter::Number LoopWriter::add_input(const Tensor& tensor, Fixed from) {
  complete_ = complete_ && fits(tensor);
  fixed_.push_back(std::move(from));
  inputs_.push_back({static_cast<Number>(inputs_.size()), tensor.dtype(), is_single(tensor)});
  memory_.emplace_back(address_of(tensor), inputs_.back());
  return inputs_.back().number;
}

void LoopWriter::write(const Tensor& tensor, Number number) {
  complete_ = complete_ && fits(tensor);
  memory_.emplace_back(address_of(tensor), Known{number, tensor.dtype(), is_single(tensor)});
  taken_.push_back({address_of(tensor), address_of(tensor) + nbytes(tensor)});
}

std::optional<LoopProgram> LoopWriter::program() const {
  const std::size_t operands = inputs_.size() + instructions_.size();
  if (!complete_ || inputs_.size() > LoopProgram::most_inputs || operands > LoopProgram::most_operands ||
      elements_ > LoopProgram::most_elements)
    return {};
  const auto operand = [this](Number number) {
    const int inputs = static_cast<int>(inputs_.size());
    return static_cast<std::uint8_t>(number >= 0 ? number : inputs - 1 - number);
  };
  LoopProgram loop{.elements = elements_, .carried = carried_, .sequences = sequences_};
  loop.program.inputs = static_cast<int>(inputs_.size());
  loop.program.registers = static_cast<int>(instructions_.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    loop.dtypes.push_back(inputs_[i].dtype);
    if (inputs_[i].single) loop.single |= std::uint64_t{1} << i;
  }
  for (std::size_t i = 0; i < instructions_.size(); ++i) {
    Program::Instruction instruction = instructions_[i].what;
    loop.special.push_back(instructions_[i].special);
    const Kind kind = instructions_[i].special.kind;
    const std::size_t count = kind == Kind::look_up ? 2 : static_cast<std::size_t>(operands_of(instruction.function));
    for (std::size_t k = 0; k < count; ++k) instruction.operands[k] = operand(instructions_[i].operands[k]);
    instruction.result = operand(-1 - static_cast<Number>(i));
    loop.program.instructions.push_back(instruction);
  }
  if (condition_) loop.condition = operand(*condition_);
  for (const Number result : results_) loop.results.push_back(operand(result));
  return loop;
}

}  // namespace tapestry::detail
