// Properties that hold for every op, over the table of op_cases/: values against an independent reference, derivatives
// of order 1 and 2 against finite differences, shape inference with unknown sizes, views, and another device.

#include <cmath>
#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "call_collector.hpp"
#include "dispatch/declaration.hpp"
#include "dispatch/tape_limits.hpp"
#include "expect.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"
#include "toy_backend.hpp"

namespace tapestry::test::op_table_test {
namespace {

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;

/// A function of the arguments whose result is one number: the result's elements, weighted so that none cancels
/// another.
double weighted_sum(const Tensor& y) {
  double sum = 0, weight = 0.7;
  for (const double element : y.to_vector<double>()) {
    sum += weight * element;
    weight = std::fmod(weight * 1.37 + 0.11, 1.0) + 0.3;
  }
  return sum;
}
Tensor weights_of(const Tensor& y) {
  std::vector<double> weights(static_cast<std::size_t>(y.size()));
  double weight = 0.7;
  for (double& each : weights) {
    each = weight;
    weight = std::fmod(weight * 1.37 + 0.11, 1.0) + 0.3;
  }
  return tensor(weights, y.shape()).cast(y.dtype());
}

Inputs gradients(const Function& f, const Inputs& inputs) {
  GradientTape tape;
  Inputs sources;
  for (const Tensor& input : inputs) {
    if (!is_floating(input.dtype())) continue;
    tape.watch(input);
    sources.push_back(input);
  }
  const Tensor y = f(inputs);
  return tape.gradient(y, sources, {.output_gradients = weights_of(y), .unconnected = Unconnected::zero});
}

/// The gradients of all float arguments as one vector, in the style of f itself, so that it can be differentiated
/// again.
Function gradient_of(const Function& f) {
  return [f](const Inputs& inputs) {
    std::vector<Tensor> flat;
    for (const Tensor& gradient : gradients(f, inputs)) flat.push_back(reshape(gradient, {-1}));
    return concat(flat, 0);
  };
}

/// The derivative along a direction, by central differences, against the gradient's product with that direction.
void check_derivative(const Function& f, const Inputs& inputs, double tolerance) {
  const Inputs found = gradients(f, inputs);
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(inputs[i].dtype())) continue;
    const Tensor& gradient = found[next++];
    CAPTURE(i);
    REQUIRE(gradient.shape() == inputs[i].shape());
    REQUIRE(gradient.dtype() == inputs[i].dtype());
    for (unsigned direction = 0; direction < 2; ++direction) {
      const Tensor d = numbers(inputs[i].shape(), -1, 1, 77 + direction);
      constexpr double step = 1e-5;
      Inputs ahead = inputs, behind = inputs;
      ahead[i] = inputs[i] + step * d;
      behind[i] = inputs[i] - step * d;
      const double numeric = (weighted_sum(f(ahead)) - weighted_sum(f(behind))) / (2 * step);
      const double analytic = reduce_sum(gradient * d).item<double>();
      CAPTURE(numeric);
      CAPTURE(analytic);
      CHECK(std::abs(numeric - analytic) <= tolerance * (1 + std::abs(numeric)));
    }
  }
}

/// The same elements in a view whose memory is not row-major.
Tensor as_view(const Tensor& x) {
  if (x.rank() == 0) return stack({x, x}, 0)(1);
  return flip(flip(x, {0}).contiguous(), {0});
}

std::string describe(const Call& call) {
  std::string text = call.type() + "(";
  for (const Tensor& input : call.inputs()) text += to_string(input.dtype()) + to_string(input.shape()) + " ";
  return text + to_string(call.attrs()) + ")";
}

/// What an op infers when the first `axes` sizes of its inputs are unknown.
Specs infer_unknown(const Call& call, int axes) {
  Tensors unknown;
  for (const Tensor& input : call.inputs()) {
    Shape shape;
    for (int i = 0; i < input.rank(); ++i)
      shape.push_back(i < axes ? -1 : input.shape().sizes()[static_cast<std::size_t>(i)]);
    unknown.push_back(detail::make_symbolic(input.dtype(), shape));
  }
  return call.op().infer(Call(call.op(), unknown, call.attrs(), {}));
}

/// All calls of all rows, forward and backward, with all their data.
std::vector<Call> all_calls() {
  const std::size_t usual = std::exchange(strip_above_bytes, std::numeric_limits<std::size_t>::max());
  CallCollector collector;
  for (const OpCase& row : op_cases()) {
    if (row.orders == 0) row.f(row.inputs);
    if (row.orders == 1) gradients(row.f, row.inputs);
    if (row.orders == 2) gradients(gradient_of(row.f), row.inputs);
  }
  strip_above_bytes = usual;
  return std::move(collector.calls);
}

/// The ops that only graphs have; what they compute is tested with sessions.
std::set<std::string> graph_ops() {
  const Graph graph;
  const auto scope = graph.as_default();
  Variable v(1.0);
  const Tensor loss = square(v) * placeholder(float32, {}) + constant(1.0);
  v.assign(2.0);
  v.assign_add(1.0);
  v.assign_sub(1.0);
  no_op();
  train::GradientDescentOptimizer(0.1).minimize(loss);
  train::MomentumOptimizer(0.1, 0.9).minimize(loss);
  train::MomentumOptimizer(0.1, 0.9, {.use_nesterov = true}).minimize(loss);
  train::AdamOptimizer().minimize(loss);
  train::AdamWOptimizer().minimize(loss);
  train::RMSPropOptimizer(0.1).minimize(loss);
  train::AdagradOptimizer(0.1).minimize(loss);
  const Variable table(zeros({3}));
  const auto lookup = [&] { return reduce_sum(gather(table, placeholder(int32, {-1}))); };
  train::GradientDescentOptimizer(0.1).minimize(lookup(), {table});
  train::MomentumOptimizer(0.1, 0.9).minimize(lookup(), {table});
  train::MomentumOptimizer(0.1, 0.9, {.use_nesterov = true}).minimize(lookup(), {table});
  train::AdamOptimizer().minimize(lookup(), {table});
  train::AdamWOptimizer().minimize(lookup(), {table});
  train::RMSPropOptimizer(0.1).minimize(lookup(), {table});
  train::AdagradOptimizer(0.1).minimize(lookup(), {table});
  Tensor x = placeholder(float32, {});
  const Tensor below = less(x, 9.0), zero = x.cast(int32);
  const auto keep = [&] { return x; };
  const auto count = [&] { return v.assign_add(1.0) + x; };
  for (const std::function<Tensor()>& f : {std::function<Tensor()>(keep), std::function<Tensor()>(count)}) {
    cond(below, f, f);
    switch_case(zero, {f, f});
    while_loop([](const Tensor& y) { return less(y, 9.0); }, [&](const Tensor& y) { return y + f(); }, x);
  }
  const Communicator alone;
  alone.all_reduce(x);
  alone.all_reduce({x, x});
  alone.all_gather(x);
  alone.reduce_scatter(expand_dims(x, 0));
  alone.barrier();
  gradients(alone.broadcast(x), {x});
  // Only graphs of files ask whether a Variable has a value.
  const Graph of_file = Graph::from_graph_def(io::from_text(R"(
    node { name: 'v' op: 'VarHandleOp' attr { key: 'dtype' value { type: DT_FLOAT } }
           attr { key: 'shape' value { shape { } } } }
    node { name: 'one' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } }
           attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } } } }
    node { name: 'set' op: 'AssignVariableOp' input: 'v' input: 'one' attr { key: 'dtype' value { type: DT_FLOAT } } }
    node { name: 'known' op: 'VarIsInitializedOp' input: 'v' })"));
  const Session session(of_file);
  CHECK_FALSE(session.run("known:0").item<bool>());
  session.run("set");
  CHECK(session.run("known:0").item<bool>());
  std::set<std::string> types;
  for (const Graph& each : {graph, of_file})
    for (const Operation& operation : each.operations()) types.insert(operation.type());
  return types;
}

/// Equal but for rounding: a reduction may take the elements of a view in another order.
bool nearly_equal(const Tensor& a, const Tensor& b) {
  if (!is_floating(a.dtype()) || a.dtype() != b.dtype() || a.shape() != b.shape()) return same_bits(a, b);
  const Elements x = a.to_vector<double>(), y = b.to_vector<double>();
  const double rounding = a.dtype() == float64 ? 1e-13 : 1e-5;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != y[i] && !(std::abs(x[i] - y[i]) <= rounding * (1 + std::abs(y[i]))) &&
        !(std::isnan(x[i]) && std::isnan(y[i])))
      return false;
  return true;
}

}  // namespace

TEST_CASE("every op computes what its reference does") {
  for (const OpCase& row : op_cases()) {
    if (!row.reference) continue;
    CAPTURE(row.name);
    std::vector<Elements> arguments;
    for (const Tensor& input : row.inputs) arguments.push_back(input.to_vector<double>());
    const Elements expected = row.reference(arguments);
    const Elements found = row.f(row.inputs).to_vector<double>();
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i);
      if (std::isnan(expected[i])) {
        CHECK(std::isnan(found[i]));
      } else if (std::isinf(expected[i])) {
        CHECK(found[i] == expected[i]);
      } else {
        CHECK(std::abs(found[i] - expected[i]) <= 1e-11 * (1 + std::abs(expected[i])));
      }
    }
  }
}

TEST_CASE("float32 agrees with float64") {
  for (const OpCase& row : op_cases()) {
    if (!row.reference) continue;
    CAPTURE(row.name);
    Inputs narrow;
    for (const Tensor& input : row.inputs) narrow.push_back(input.dtype() == float64 ? input.cast(float32) : input);
    const Tensor wide_result = row.f(row.inputs);
    const Elements wide = wide_result.to_vector<double>(), found = row.f(narrow).to_vector<double>();
    REQUIRE(found.size() == wide.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      if (std::isfinite(wide[i])) CHECK(std::abs(found[i] - wide[i]) <= 2e-4 * (1 + std::abs(wide[i])));
  }
}

TEST_CASE("first and second derivatives agree with finite differences") {
  for (const OpCase& row : op_cases()) {
    CAPTURE(row.name);
    if (row.orders >= 1) check_derivative(row.f, row.inputs, row.tolerance);
    if (row.orders >= 2) check_derivative(gradient_of(row.f), row.inputs, 10 * row.tolerance);
  }
}

TEST_CASE("a gradient reads only what its op says it needs") {
  for (const OpCase& row : op_cases()) {
    if (row.orders == 0) continue;
    CAPTURE(row.name);
    const Inputs expected = gradients(row.f, row.inputs);
    const std::size_t usual = std::exchange(strip_above_bytes, 0);
    Inputs found;
    CHECK_NOTHROW(found = gradients(row.f, row.inputs));
    strip_above_bytes = usual;
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
  }
}

TEST_CASE("every registered op has a row in the table") {
  std::set<std::string> covered;
  for (const Call& call : all_calls()) covered.insert(call.type());
  CallCollector collector;
  numbers({2}, -1, 1, 1).to(toy_device());
  for (const Call& call : collector.calls) covered.insert(call.type());
  for (const std::string& type : graph_ops()) covered.insert(type);
  for (const Op* op : registered_ops()) {
    CAPTURE(op->name);
    CHECK(covered.contains(op->name));
  }
}

TEST_CASE("every op declares its attributes, with their kinds") {
  for (const Op* op : registered_ops())
    for (const OpAttr& attr : op->attrs) {
      INFO(op->name, " ", attr.name);
      CHECK(attr.kind != AttrKind::any);
    }
  for (const Call& call : all_calls()) {
    // A composed function's closure is its own.
    if (find_op(call.type()) != &call.op() || call.attrs().find("redo")) continue;
    CAPTURE(describe(call));
    CHECK(checked_attrs(call.op(), call.attrs(), {}) == call.attrs());
  }
}

TEST_CASE("an op that is said to only move elements does so") {
  std::set<Movement> seen;
  for (const Call& call : all_calls()) {
    const Movement movement = call.op().movement;
    seen.insert(movement);
    if (movement == Movement::none) continue;
    const std::string what = describe(call);
    CAPTURE(what);
    Elements given;
    for (std::size_t i = 0; i < (movement == Movement::joins ? call.inputs().size() : 1); ++i)
      for (const double each : call.input(i).to_vector<double>()) given.push_back(each);
    const std::set<double> known(given.begin(), given.end());
    for (const Tensor& output : call.outputs()) {
      const Elements found = output.to_vector<double>();
      if (movement == Movement::keeps) CHECK(output.shape() == call.input(0).shape());
      if (movement == Movement::keeps || movement == Movement::reshapes) CHECK(found == given);
      CHECK(std::all_of(found.begin(), found.end(), [&](double each) { return known.contains(each); }));
    }
  }
  CHECK(seen.size() == 6);
}

TEST_CASE("every op equals its composition, and so does its gradient") {
  std::set<std::string> composed;
  for (const Call& call : all_calls()) {
    const Op& op = call.op();
    if (!op.composition) continue;
    composed.insert(op.name);
    const std::string what = describe(call);
    CAPTURE(what);
    const Inputs inputs(call.inputs().begin(), call.inputs().end());
    const auto by_op = [&](const Inputs& x) { return apply_all(op, Tensors(x), call.attrs(), {}, {}); };
    const auto by_composition = [&](const Inputs& x) { return op.composition(Call(op, Tensors(x), call.attrs(), {})); };
    const std::size_t outputs = by_op(inputs).size();
    REQUIRE(by_composition(inputs).size() == outputs);
    for (std::size_t i = 0; i < outputs; ++i) {
      CAPTURE(i);
      const Function one = [&](const Inputs& x) { return by_op(x)[i]; };
      const Function same = [&](const Inputs& x) { return by_composition(x)[i]; };
      check_same(same(inputs), one(inputs), 1e-12);
      if (!op.gradient) continue;
      const Inputs expected = gradients(one, inputs), found = gradients(same, inputs);
      for (std::size_t k = 0; k < expected.size(); ++k) check_same(found[k], expected[k], 1e-11);
    }
  }
  for (const Op* op : registered_ops()) {
    CAPTURE(op->name);
    CHECK(composed.contains(op->name) == static_cast<bool>(op->composition));
  }
}

TEST_CASE("a composition infers what its op infers, sizes known or not") {
  for (const Call& call : all_calls()) {
    if (!call.op().composition) continue;
    const std::string what = describe(call);
    CAPTURE(what);
    for (int axes = 0; axes <= 1; ++axes) {
      const Graph graph;
      const auto scope = graph.as_default();
      Tensors inputs;
      for (const Tensor& input : call.inputs()) {
        Shape shape = input.shape();
        for (int i = 0; i < std::min(axes, input.rank()); ++i) shape.set(i, -1);
        inputs.push_back(placeholder(input.dtype(), shape));
      }
      const Call unknown(call.op(), inputs, call.attrs(), {});
      const Specs specs = call.op().infer(unknown);
      const Tensors found = call.op().composition(unknown);
      REQUIRE(found.size() == specs.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].dtype() == specs[i].dtype);
        CHECK(found[i].shape() == specs[i].shape);
      }
    }
  }
}

TEST_CASE("inference with unknown sizes agrees with inference with known ones") {
  for (const Call& call : all_calls()) {
    const std::string what = describe(call);
    CAPTURE(what);
    Specs specs;
    try {
      specs = infer_unknown(call, Shape::max_rank);
    } catch (const InvalidArgumentError&) {
      // A few ops have a rank or a number of results that depends on sizes; they must do with an unknown batch.
      // ... but of these the batch may be the axis that goes or stays, or that tells how many results there are.
      if (call.type() == "Squeeze" || call.type() == "Unpack") continue;
      REQUIRE_NOTHROW(specs = infer_unknown(call, 1));
    }
    REQUIRE(specs.size() == call.outputs().size());
    CHECK((call.op().outputs == -1 || call.op().outputs == static_cast<int>(specs.size())));
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const Tensor& output = call.output(i);
      CHECK(specs[i].dtype == output.dtype());
      REQUIRE(specs[i].shape.rank() == output.rank());
      for (int axis = 0; axis < output.rank(); ++axis)
        CHECK((!specs[i].shape[axis].is_known() || specs[i].shape[axis] == output.shape()[axis]));
    }
  }
}

TEST_CASE("views give the same results as contiguous tensors") {
  for (const Call& call : all_calls()) {
    if (call.op().stateful) continue;
    const std::string what = describe(call);
    CAPTURE(what);
    const PauseRecording pause;
    Tensors views;
    for (const Tensor& input : call.inputs()) views.push_back(as_view(input));
    Tensors found;
    REQUIRE_NOTHROW(found = apply_all(call.op(), views, call.attrs(), {}, {}));
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(nearly_equal(found[i], call.output(i)));
  }
}

TEST_CASE("every op runs unchanged on another device, with the same bits") {
  const Device toy = toy_device();
  for (const Call& call : all_calls()) {
    if (call.op().stateful || call.op().cpu || call.inputs().empty()) continue;
    const std::string what = describe(call);
    CAPTURE(what);
    const PauseRecording pause;
    Tensors there;
    for (const Tensor& input : call.inputs()) there.push_back(input.to(toy));
    const std::int64_t before = toy_backend().kernels();
    Tensors found;
    REQUIRE_NOTHROW(found = apply_all(call.op(), there, call.attrs(), {}, {}));
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK((found[i].device() == toy || call.attrs().find("device")));
      CHECK(same_bits(found[i], call.output(i)));
    }
    if (call.op().forward && call.output().size() > 0) CHECK(toy_backend().kernels() > before);
  }
}

TEST_CASE("results do not depend on the number of threads") {
  const int usual = num_threads();
  for (const OpCase& row : op_cases()) {
    if (!row.reference) continue;
    CAPTURE(row.name);
    set_num_threads(1);
    const Tensor alone = row.f(row.inputs);
    set_num_threads(3);
    const Tensor together = row.f(row.inputs);
    CHECK(same_bits(alone, together));
  }
  set_num_threads(usual);
}

}  // namespace tapestry::test::op_table_test
