#include "backend/program.hpp"

#include <algorithm>

#include "backend/backend.hpp"
#include "backend/views.hpp"

namespace tapestry {
namespace {

#define TAPESTRY_TEXT(name, formula) #name,
constexpr const char* unary_names[] = {TAPESTRY_UNARY_FLOAT(TAPESTRY_TEXT) TAPESTRY_UNARY_NUMBER(
    TAPESTRY_TEXT) TAPESTRY_UNARY_PREDICATE(TAPESTRY_TEXT) TAPESTRY_UNARY_LOGICAL(TAPESTRY_TEXT)};
constexpr const char* binary_names[] = {TAPESTRY_BINARY_NUMBER(TAPESTRY_TEXT) TAPESTRY_BINARY_FLOAT(
    TAPESTRY_TEXT) TAPESTRY_BINARY_COMPARE(TAPESTRY_TEXT) TAPESTRY_BINARY_LOGICAL(TAPESTRY_TEXT)};
constexpr const char* ternary_names[] = {TAPESTRY_TERNARY_NUMBER(TAPESTRY_TEXT) TAPESTRY_TERNARY_SELECT(TAPESTRY_TEXT)};
#undef TAPESTRY_TEXT

}  // namespace

void run(Backend& backend, const ElementFunction& function, const Operands& x, double number, const Tensor& y) {
  if (const Unary* f = std::get_if<Unary>(&function)) {
    backend.unary(*f, x[0]->shape() == y.shape() ? *x[0] : view_broadcast(*x[0], y.shape()), number, y);
  } else if (const Binary* g = std::get_if<Binary>(&function)) {
    backend.binary(*g, *x[0], *x[1], number, y);
  } else if (const Ternary* h = std::get_if<Ternary>(&function)) {
    backend.ternary(*h, *x[0], *x[1], *x[2], y);
  } else {
    backend.copy(*x[0], y);
  }
}

bool are_contiguous(std::span<const Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& each) { return each.is_contiguous(); });
}

std::string to_string(const ElementFunction& function) {
  if (const Unary* f = std::get_if<Unary>(&function)) return unary_names[static_cast<std::size_t>(*f)];
  if (const Binary* g = std::get_if<Binary>(&function)) return binary_names[static_cast<std::size_t>(*g)];
  if (const Ternary* h = std::get_if<Ternary>(&function)) return ternary_names[static_cast<std::size_t>(*h)];
  return "convert";
}

std::string to_string(const Program& program) {
  const auto name = [&](int operand) {
    if (operand < program.inputs) return "x" + std::to_string(operand);
    if (program.is_register(operand)) return "r" + std::to_string(operand - program.inputs - program.outputs);
    return "y" + std::to_string(operand - program.inputs);
  };
  std::string text;
  for (const Program::Instruction& each : program.instructions) {
    text += (text.empty() ? "" : "; ") + name(each.result) + " = " + to_string(each.function) + "(";
    for (int i = 0; i < operands_of(each.function); ++i) text += (i > 0 ? ", " : "") + name(each.operands[i]);
    text += ")";
  }
  return text;
}

ProgramInputs with_product(std::span<const Tensor> others, std::size_t place, const Tensor& product) {
  ProgramInputs inputs(others.begin(), others.begin() + place);
  inputs.push_back(product);
  for (const Tensor& other : others.subspan(place)) inputs.push_back(other);
  return inputs;
}

}  // namespace tapestry
