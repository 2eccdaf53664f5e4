#include "backend/cpu/compiled_program.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "backend/cpu/levels.hpp"
#include "backend/cpu/program_compiler.hpp"
#include "backend/cpu/program_recorder.hpp"

namespace tapestry::host {
namespace {

/// What the code of a program depends on, as bytes.
class Key {
 public:
  Key(const Program& program, std::span<const DType> inputs, std::uint64_t single, int near) {
    add(single);
    add(near);
    add(program.inputs);
    add(program.outputs);
    for (const DType dtype : inputs) add(dtype);
    for (const Program::Instruction& each : program.instructions) {
      add(static_cast<std::uint8_t>(each.function.index()));
      std::visit([this](auto f) { add(f); }, each.function);
      add(each.operands);
      add(each.result);
      add(each.dtype);
      add(each.number);
    }
  }
  std::string_view bytes() const { return {bytes_.data(), size_}; }

 private:
  template <class T>
  void add(const T& value) {
    std::memcpy(bytes_.data() + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  std::array<char, 24 + Program::max_operands + Program::max_instructions*(2 + sizeof(Program::Instruction))> bytes_;
  std::size_t size_ = 0;
};

/// Compiled programs by their keys.
class Cache {
 public:
  std::shared_ptr<const CompiledProgram> find_or_compile(const Program& program, std::span<const DType> inputs,
                                                         std::uint64_t single, int near) {
    const Key key(program, inputs, single, near);
    {
      const std::shared_lock lock(mutex_);
      if (const auto found = programs_.find(key.bytes()); found != programs_.end()) return found->second;
    }
    std::shared_ptr<const CompiledProgram> made = compile(program, inputs, single, near);
    const std::unique_lock lock(mutex_);
    if (programs_.size() >= most_programs) programs_.clear();  // a caller that runs one still holds it
    return programs_.try_emplace(std::string(key.bytes()), std::move(made)).first->second;
  }

 private:
  static constexpr std::size_t most_programs = 1024;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::shared_mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const CompiledProgram>, Hash, std::equal_to<>> programs_;
};

}  // namespace

void CompiledProgram::run(Code code, const Operand* operands, std::int64_t n) const {
  const std::int64_t whole = n / lanes * lanes, rest = n - whole;
  if (whole > 0) code(operands, whole);
  if (rest == 0) return;
  // The last elements are computed in a vector of their own, so that nothing beyond them is read or written.
  constexpr std::size_t vector_bytes = 64;
  alignas(vector_bytes) std::array<std::byte, Program::max_operands * vector_bytes> room{};
  std::array<Operand, Program::max_operands> own;
  const auto address = [&](std::size_t i) { return operands[i].data + whole * element_bytes[i]; };
  const auto bytes = [&](std::size_t i) { return static_cast<std::size_t>(rest * element_bytes[i]); };
  for (std::size_t i = 0; i < element_bytes.size(); ++i) {
    own[i] = operands[i];
    if (i < inputs && operands[i].stride == 0) continue;
    own[i].data = &room[i * vector_bytes];
    if (i < inputs) std::memcpy(own[i].data, address(i), bytes(i));
  }
  store(own.data(), lanes);
  for (std::size_t i = inputs; i < element_bytes.size(); ++i) std::memcpy(address(i), own[i].data, bytes(i));
}

bool may_be_compiled() { return cpu_level() == Level::v3 || cpu_level() == Level::v4; }

std::shared_ptr<const CompiledProgram> compiled(const Program& program, std::span<const Tensor> inputs,
                                                std::uint64_t single, int near) {
  static Cache& cache = *new Cache;  // never destroyed: threads may compute while the process ends
  std::array<DType, Program::max_operands> dtypes;
  for (std::size_t i = 0; i < inputs.size(); ++i) dtypes[i] = inputs[i].dtype();
  return cache.find_or_compile(program, std::span(dtypes).first(inputs.size()), single, near);
}

}  // namespace tapestry::host
