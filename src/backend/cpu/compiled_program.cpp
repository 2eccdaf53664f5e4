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

namespace tapestry::host {
namespace {

/// What the code of a program depends on, as bytes. All operands are float32, so their dtypes are left out.
class Key {
 public:
  Key(const Program& program, std::uint64_t single) {
    add(single);
    add(program.inputs);
    add(program.outputs);
    for (const Program::Instruction& each : program.instructions) {
      add(static_cast<std::uint8_t>(each.function.index()));
      std::visit([this](auto f) { add(f); }, each.function);
      add(each.operands);
      add(each.result);
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
  std::array<char, 16 + Program::max_instructions*(2 + sizeof(Program::Instruction))> bytes_;
  std::size_t size_ = 0;
};

/// Compiled programs by their keys.
class Cache {
 public:
  std::shared_ptr<const CompiledProgram> find_or_compile(const Program& program, std::uint64_t single) {
    const Key key(program, single);
    {
      const std::shared_lock lock(mutex_);
      if (const auto found = programs_.find(key.bytes()); found != programs_.end()) return found->second;
    }
    std::shared_ptr<const CompiledProgram> made = compile(program, single);
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

bool may_be_compiled(const Program& program, std::span<const Tensor> inputs) {
  const auto is_known = [](const Program::Instruction& each) {
    const bool has_code = std::holds_alternative<Unary>(each.function) || std::holds_alternative<Binary>(each.function);
    return has_code && each.dtype == DType::float32;
  };
  return cpu_level() == Level::v4 && program.operands() <= most_compiled_operands &&
         std::all_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return x.dtype() == DType::float32; }) &&
         std::all_of(program.instructions.begin(), program.instructions.end(), is_known);
}

std::shared_ptr<const CompiledProgram> compiled(const Program& program, std::uint64_t single) {
  static Cache& cache = *new Cache;  // never destroyed: threads may compute while the process ends
  return cache.find_or_compile(program, single);
}

}  // namespace tapestry::host
