#include "backend/cuda/program_text.hpp"

#include <vector>

#include "tapestry/error.hpp"

namespace tapestry::gpu {
namespace {

/// The C++ type in which an element is stored, and the one in which functions compute. Every instruction rounds its
/// result to the stored type, as the kernels of single functions do.
struct ElementType {
  const char* stored;
  const char* computed;
};
ElementType element_type(DType dtype) {
  switch (dtype) {
    case boolean:
      return {"bool", "bool"};
    case uint8:
      return {"std::uint8_t", "std::uint8_t"};
    case int32:
      return {"std::int32_t", "std::int32_t"};
    case int64:
      return {"std::int64_t", "std::int64_t"};
    case float16:
      return {"tapestry::float16_t", "float"};
    case bfloat16:
      return {"tapestry::bfloat16_t", "float"};
    case float32:
      return {"float", "float"};
    case float64:
      return {"double", "double"};
    default:
      throw InternalError(detail::join("a program has elements of type ", to_string(dtype)));
  }
}

std::string numbered(const char* name, std::size_t number) { return name + std::to_string(number); }

class Writer {
 public:
  explicit Writer(const ProgramKernel& kernel)
      : program_(kernel.program),
        form_(kernel.form),
        width_(std::to_string(kernel.form.width)),
        inputs_(kernel.program.inputs),
        arrays_(inputs_ + kernel.program.outputs),
        types_(kernel.program.operands(), DType::unknown),
        values_(types_.size()) {
    for (std::size_t k = 0; k < inputs_; ++k) types_[k] = kernel.inputs[k].dtype();
    for (std::size_t k = 0; k < arrays_; ++k) located_ += is_located(form_.access[k]) ? 1 : 0;
  }

  std::string text() {
    std::string lanes;
    for (std::size_t k = 0; k < inputs_; ++k) values_[k] = is_single(k) ? numbered("a", k) : numbered("a", k) + "[j]";
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) lanes += instruction(i);
    std::string loads_before, loads, stores;
    for (std::size_t k = 0; k < inputs_; ++k) (form_.access[k] == Access::scalar ? loads_before : loads) += load(k);
    for (std::size_t k = inputs_; k < arrays_; ++k) {
      loads += "    " + stored(k) + " " + numbered("a", k) + "[" + width_ + "];\n";
      lanes += "      " + numbered("a", k) + "[j] = " + values_[k] + ";\n";
      stores += store(k);
    }
    const std::string locate = "    std::int32_t at[" + std::to_string(located_) +
                               "];\n    layout.locate(static_cast<std::uint32_t>(i), at);\n";
    return "#include \"backend/cuda/kernels/program.cuh\"\n\nusing namespace tapestry::gpu;\n\n" + head() +
           loads_before + "  for (std::int64_t i = global_thread() * " + width_ + "; i < n; i += grid_threads() * " +
           width_ + ") {\n" + (located_ > 0 ? locate : "") + loads + "#pragma unroll\n    for (int j = 0; j < " +
           width_ + "; ++j) {\n" + lanes + "    }\n" + stores + "  }\n}\n";
  }

 private:
  std::string stored(std::size_t operand) const { return element_type(types_[operand]).stored; }
  /// Whether a thread loads one element of an array for all elements that it computes at once.
  bool is_single(std::size_t array) const {
    return form_.access[array] == Access::scalar || form_.access[array] == Access::column;
  }

  std::string head() const {
    std::string text = "extern \"C\" __global__ void __launch_bounds__(block_threads)\n    program(";
    for (std::size_t k = 0; k < arrays_; ++k)
      text += (k < inputs_ ? "const " : "") + stored(k) + "* " + numbered("x", k) + ", ";
    text += "std::int64_t n";
    for (std::size_t i = 0; i < program_.instructions.size(); ++i)
      if (has_number(program_.instructions[i])) text += ", double " + numbered("p", i);
    if (located_ > 0) text += ", const __grid_constant__ LayoutOf<" + std::to_string(located_) + "> layout";
    return text + ") {\n";
  }

  /// The expression for the address of a thread's first element in a located array.
  std::string address(std::size_t array) const {
    return numbered("x", array) + " + at[" + std::to_string(layout_index(array)) + "]";
  }
  std::size_t layout_index(std::size_t array) const {
    std::size_t index = 0;
    for (std::size_t k = 0; k < array; ++k) index += is_located(form_.access[k]) ? 1 : 0;
    return index;
  }
  std::string stride(std::size_t array) const {
    return "layout.stride[" + std::to_string(layout_index(array)) + "][layout.axes - 1]";
  }

  std::string load(std::size_t k) const {
    const std::string type = stored(k), array = numbered("a", k);
    if (form_.access[k] == Access::scalar) return "  const " + type + " " + array + " = *" + numbered("x", k) + ";\n";
    if (form_.access[k] == Access::column) return "    const " + type + " " + array + " = *(" + address(k) + ");\n";
    const std::string storage = "    " + type + " " + array + "[" + width_ + "];\n";
    if (form_.access[k] == Access::flat)
      return storage + "    load_flat(" + numbered("x", k) + ", i, n, " + array + ");\n";
    if (form_.access[k] == Access::row) return storage + "    load(" + address(k) + ", " + array + ");\n";
    return storage + "    load_strided(" + address(k) + ", " + stride(k) + ", " + array + ");\n";
  }

  std::string store(std::size_t k) const {
    const std::string array = numbered("a", k);
    if (form_.access[k] == Access::flat) return "    store_flat(" + array + ", " + numbered("x", k) + ", i, n);\n";
    if (form_.access[k] == Access::strided)
      return "    store_strided(" + array + ", " + address(k) + ", " + stride(k) + ");\n";
    return "    store(" + array + ", " + address(k) + ");\n";
  }

  std::string instruction(std::size_t i) {
    const Program::Instruction& each = program_.instructions[i];
    const ElementType result = element_type(each.dtype);
    std::string value;
    if (each.function.index() == 0) {
      value = std::string("convert<") + result.stored + ">(" + values_[each.operands[0]] + ")";
    } else {
      value = std::string("static_cast<") + result.stored + ">(" + call(each, i) + ")";
    }
    types_[each.result] = each.dtype;
    values_[each.result] = numbered("v", i);
    return std::string("      const ") + result.stored + " " + numbered("v", i) + " = " + value + ";\n";
  }

  std::string call(const Program::Instruction& each, std::size_t i) const {
    constexpr const char* families[] = {"", "unary", "binary", "ternary"};
    const int operands = operands_of(each.function);
    const std::string first = element_type(types_[each.operands[0]]).computed;
    const std::string type = operands == 1 ? first : element_type(types_[each.operands[1]]).computed;
    std::string arguments;
    for (int k = 0; k < 3; ++k) arguments += (k < operands ? values_[each.operands[k]] : "0") + ", ";
    arguments += has_number(each) ? "static_cast<" + type + ">(" + numbered("p", i) + ")" : "0";
    return std::string(families[each.function.index()]) + "::" + to_string(each.function) + "::apply<" + first + ", " +
           type + ">(" + arguments + ")";
  }

  const Program& program_;
  const ProgramForm& form_;
  std::string width_;
  std::size_t inputs_, arrays_, located_ = 0;
  std::vector<DType> types_;         ///< of the operands, as far as they have a value
  std::vector<std::string> values_;  ///< the expression for an operand's element
};

/// A number that distinguishes a function from all others of its family.
char code_of(const ElementFunction& function) {
  return std::visit(
      []<class F>(F f) {
        if constexpr (std::is_same_v<F, Convert>)
          return '\0';
        else
          return static_cast<char>(f);
      },
      function);
}

}  // namespace

std::string text_of(const ProgramKernel& kernel) { return Writer(kernel).text(); }

std::string signature_of(const ProgramKernel& kernel) {
  const Program& program = kernel.program;
  std::string bytes;
  bytes.reserve(8 + 2 * (program.inputs + program.outputs) + 8 * program.instructions.size());
  const auto add = [&](auto... numbers) { (bytes.push_back(static_cast<char>(numbers)), ...); };
  add(program.inputs, program.outputs, program.registers, kernel.form.width);
  for (const Tensor& input : kernel.inputs) add(input.dtype());
  for (int k = 0; k < program.inputs + program.outputs; ++k) add(kernel.form.access[k]);
  for (const Program::Instruction& each : program.instructions)
    add(each.function.index(), code_of(each.function), each.operands[0], each.operands[1], each.operands[2],
        each.result, each.dtype, has_number(each));
  return bytes;
}

}  // namespace tapestry::gpu
