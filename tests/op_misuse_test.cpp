// Every op of the table and of its gradients, called by its name with inputs and attributes that do not fit it: it
// refuses them with an error of ours, or computes something, and touches no memory but that of its tensors, as the
// address sanitizer sees. Files bring such calls, too.

#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "call_collector.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::op_misuse_test {
namespace {

/// "MatMul([2,3] [3,4] transpose_a=false)": what tells one call from another here.
std::string describe(const std::string& type, const Tensors& inputs, const Attrs& attrs) {
  std::string text = type + "(";
  for (const Tensor& input : inputs) text += detail::join(to_string(input.dtype()), input.shape(), " ");
  return text + to_string(attrs) + ")";
}

/// Different calls of registered ops: of all rows, their gradients, and the gradients of these.
std::vector<Call> calls_of_the_table() {
  CallCollector collector;
  for (const OpCase& row : op_cases()) {
    GradientTape tape;
    std::vector<Tensor> sources;
    for (const Tensor& input : row.inputs)
      if (is_floating(input.dtype())) sources.push_back(input);
    tape.watch(sources);
    const std::vector<Tensor> results = value_and_gradients(row, row.inputs);
    if (row.orders == 2 && !sources.empty())
      static_cast<void>(tape.gradient(reduce_sum(results.back()), sources, {.unconnected = Unconnected::zero}));
  }
  std::vector<Call> calls;
  std::set<std::string> seen;
  for (const Call& call : collector.calls) {
    bool has_data = find_op(call.type()) != nullptr;
    for (const Tensor& input : call.inputs())
      has_data = has_data && bool(input) && !input.is_symbolic() && input.size() < 10'000;
    if (has_data && seen.insert(describe(call.type(), call.inputs(), call.attrs())).second) calls.push_back(call);
  }
  return calls;
}

/// The shape with something wrong with it.
std::vector<Shape> distorted(const Shape& shape) {
  std::vector<Shape> shapes{{}, {0}, {1}, {2, 2, 2, 2, 2, 2, 2, 2}};
  for (int axis = 0; axis < shape.rank(); ++axis)
    for (const std::int64_t size : {std::int64_t{0}, std::int64_t{1}, shape[axis] - 1, shape[axis] + 1}) {
      if (size < 0) continue;
      Shape changed = shape;
      changed.set(axis, size);
      shapes.push_back(changed);
    }
  if (shape.rank() < Shape::max_rank) {
    Shape longer = shape;
    longer.push_back(2);
    shapes.push_back(longer);
  }
  return shapes;
}

constexpr std::int64_t odd_numbers[] = {0,
                                        -1,
                                        2,
                                        std::int64_t{1} << 50,
                                        std::numeric_limits<std::int64_t>::max(),
                                        std::numeric_limits<std::int64_t>::min()};

/// The value with something wrong with it.
std::vector<AttrValue> distorted(const AttrValue& value) {
  std::vector<AttrValue> values;
  if (std::holds_alternative<std::int64_t>(value)) {
    values.assign(std::begin(odd_numbers), std::end(odd_numbers));
  } else if (const auto* list = std::get_if<Ints>(&value)) {
    values.emplace_back(Ints{});
    for (std::size_t i = 0; i < list->size(); ++i)
      for (const std::int64_t number : odd_numbers) {
        Ints changed = *list;
        changed[i] = number;
        values.emplace_back(changed);
      }
    Ints longer = *list;
    longer.push_back(1);
    values.emplace_back(longer);
  } else if (std::holds_alternative<double>(value)) {
    values = {0.0, -1e300, std::numeric_limits<double>::quiet_NaN()};
  } else if (std::holds_alternative<std::string>(value)) {
    values = {std::string(), std::string("SAME"), std::string("ab,bc->ac")};
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    values = {!*flag};
  }
  return values;
}

/// The op's outputs, read to their last element, unless it refuses.
bool accepts(const std::string& type, const Tensors& inputs, const Attrs& attrs) {
  INFO(describe(type, inputs, attrs));
  try {
    for (const Tensor& output : apply_all(*find_op(type), inputs, attrs, {}, Where::here()))
      if (output.size() < 1'000'000) static_cast<void>(output.to_vector<double>());
    return true;
  } catch (const Error&) {
    return false;
  } catch (const std::exception& error) {
    FAIL_CHECK(error.what());
    return false;
  }
}

TEST_CASE("ops refuse inputs that do not fit them") {
  int accepted = 0, refused = 0;
  for (const Call& call : calls_of_the_table()) {
    CHECK(accepts(call.type(), call.inputs(), call.attrs()));
    for (std::size_t i = 0; i < call.inputs().size(); ++i) {
      Tensors inputs = call.inputs();
      for (const Shape& shape : distorted(inputs[i].shape())) {
        inputs[i] = ones(shape, {.dtype = call.input(i).dtype()});
        ++(accepts(call.type(), inputs, call.attrs()) ? accepted : refused);
      }
      for (const DType dtype : {boolean, uint8, int64, float32}) {
        inputs[i] = call.input(i).cast(dtype);
        ++(accepts(call.type(), inputs, call.attrs()) ? accepted : refused);
      }
      inputs.pop_back();
      ++(accepts(call.type(), inputs, call.attrs()) ? accepted : refused);
    }
  }
  CHECK(refused > 1000);
  CHECK(accepted > 1000);  // broadcasts, other batches
}

TEST_CASE("ops refuse attributes that do not fit them") {
  int refused = 0;
  for (const Call& call : calls_of_the_table()) {
    for (const Attr& attr : call.attrs()) {
      std::vector<Attr> others;
      for (const Attr& each : call.attrs())
        if (each.name != attr.name) others.push_back(each);
      refused += !accepts(call.type(), call.inputs(), Attrs(others));
      for (const AttrValue& value : distorted(attr.value)) {
        std::vector<Attr> attrs = others;
        attrs.emplace_back(attr.name, value);
        refused += !accepts(call.type(), call.inputs(), Attrs(attrs));
      }
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("a function that needs a rank says so at the line of its caller") {
  int refused = 0;
  for (const OpCase& row : op_cases()) {
    INFO(row.name);
    const Graph graph;
    const auto scope = graph.as_default();
    std::vector<Tensor> inputs, sources;
    for (const Tensor& input : row.inputs) {
      inputs.push_back(placeholder(input.dtype(), Shape::unknown_rank()));
      if (row.orders > 0 && is_floating(input.dtype())) sources.push_back(inputs.back());
    }
    try {
      const Tensor result = row.f(inputs);
      if (!sources.empty()) static_cast<void>(gradients(result, sources));
    } catch (const Error& error) {
      ++refused;
      const std::string_view file = error.where().file ? error.where().file : "";
      CHECK_MESSAGE(file.find("tests/") != std::string_view::npos, error.what());
    }
  }
  CHECK(refused > 10);
}

}  // namespace
}  // namespace tapestry::test::op_misuse_test
