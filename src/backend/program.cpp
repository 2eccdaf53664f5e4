#include "backend/program.hpp"

#include "backend/backend.hpp"
#include "core/make_tensor.hpp"

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

namespace {

/// A view of a tensor in the shape that it broadcasts to; itself when it has that shape.
Tensor stretched(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  std::array<std::int64_t, Shape::max_rank> strides{};
  const int added = shape.rank() - x.rank();
  for (int i = 0; i < x.rank(); ++i) {
    const int axis = added + i;
    if (x.shape().sizes()[i] == shape.sizes()[axis])
      strides[static_cast<std::size_t>(axis)] = x.strides()[static_cast<std::size_t>(i)];
  }
  return detail::make_view(x, shape, strides);
}

}  // namespace

void run(Backend& backend, const ElementFunction& function, const Operands& x, double number, const Tensor& y) {
  if (const Unary* f = std::get_if<Unary>(&function)) {
    backend.unary(*f, stretched(*x[0], y.shape()), number, y);
  } else if (const Binary* g = std::get_if<Binary>(&function)) {
    backend.binary(*g, *x[0], *x[1], number, y);
  } else if (const Ternary* h = std::get_if<Ternary>(&function)) {
    backend.ternary(*h, *x[0], *x[1], *x[2], y);
  } else {
    backend.copy(*x[0], y);
  }
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
    for (int i = 0; i < operands_of(each.function); ++i)
      text += (i > 0 ? ", " : "") + name(each.operands[static_cast<std::size_t>(i)]);
    text += ")";
  }
  return text;
}

double busy_with_product(const Tensor& a, bool transpose_a, const Tensor& y) {
  constexpr double multiplications_per_nanosecond = 50;
  const std::int64_t k = a.shape().sizes()[transpose_a ? 0 : 1];
  const double work = static_cast<double>(y.size()) * static_cast<double>(k);
  const bool is_vector = y.shape().sizes()[0] == 1 || y.shape().sizes()[1] == 1;
  return is_vector || work >= large_product ? 0 : work / multiplications_per_nanosecond;
}

// What a device that can do no better does: one call after another.

void Backend::run_side_by_side(std::int64_t count, const std::function<void(std::int64_t)>& task) {
  for (std::int64_t i = 0; i < count; ++i) task(i);
}

std::unique_ptr<Recording> Backend::record(const std::function<void()>&) { return nullptr; }

bool Backend::copy_from_peer(Backend&, void*, const void*, std::size_t) { return false; }

void Backend::program(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  std::vector<Tensor> values(inputs.begin(), inputs.end());
  values.insert(values.end(), outputs.begin(), outputs.end());
  values.resize(static_cast<std::size_t>(program.operands()));
  for (const Program::Instruction& each : program.instructions) {
    const Tensor y = program.is_register(each.result)
                         ? detail::make_tensor(each.dtype, outputs[0].shape(), outputs[0].device())
                         : values[each.result];
    const auto& [a, b, c] = each.operands;
    run(*this, each.function, {&values[a], &values[b], &values[c]}, each.number, y);
    values[each.result] = y;
  }
}

ProgramInputs with_product(std::span<const Tensor> others, std::size_t place, const Tensor& product) {
  ProgramInputs inputs(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(place));
  inputs.push_back(product);
  for (const Tensor& other : others.subspan(place)) inputs.push_back(other);
  return inputs;
}

void Backend::gemm_program(const FusedProduct& fused, const Tensor& a, const Tensor& b, const Program& program,
                           std::span<const Tensor> others, std::span<const Tensor> outputs) {
  const Tensor& product = outputs[fused.into];
  gemm(a, b, fused.transpose_a, fused.transpose_b, product);
  const ProgramInputs inputs = with_product(others, fused.product, product);
  this->program(program, {inputs.data(), inputs.size()}, outputs);
}

}  // namespace tapestry
