/// The formulas are those of TensorFlow's training_ops.cc and resource_variable_ops.cc, in its order of arguments.

#include "io/tensorflow/composed_updates.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "core/make_tensor.hpp"
#include "graph/state_ops.hpp"
#include "io/tensorflow/foreign_ops.hpp"
#include "io/tensorflow/kept_node.hpp"
#include "io/tensorflow/op_reader.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::io {
namespace {

/// The value of a Variable after some of its rows have changed: the mean of the rows of an index that comes twice.
Tensor with_rows(const Tensor& whole, const Tensor& indices, const Tensor& rows, Assign kind) {
  const Tensor nothing = zeros_like(whole), one = detail::make_scalar(1, whole.dtype());
  const Tensor counts = scatter_add(nothing, indices, broadcast_like(one, rows));
  const Tensor sums = scatter_add(nothing, indices, rows), divisor = maximum(counts, 1);
  const Tensor mean = is_floating(whole.dtype()) ? sums / divisor : floor_divide(sums, divisor);
  return kind == Assign::subtract ? whole - mean : where(counts > 0, mean, whole);
}

/// Changes the Variable of an input after the operations that have changed others.
Operation assign(const UpdateCall& call, std::size_t input, Assign kind, const Tensor& value,
                 const std::vector<Operation>& after = {}) {
  std::optional<ControlScope> wait;
  if (!after.empty()) wait.emplace(after);  // an empty list would leave the scope around
  const Variable& variable = *call.variables[input];
  const Tensor handle = call.graph.variable_entry(variable, call.where).handle;
  const Tensor whole = call.rows ? with_rows(call.wholes[input], call.rows, value, kind) : value;
  const Op& op = assign_op(call.rows ? Assign::set : kind);
  return detail::operation_of(call.graph.add_in_scopes(
      Call(op, {handle, whole}, variable_attrs({variable}), call.where, call.node.def().name), {}));
}

/// A number of the type of the other inputs.
Tensor number(const UpdateCall& call, std::size_t input) {
  const Tensor& value = call.inputs[input];
  if (value.shape().has_rank() && value.rank() != 0)
    call.node.refuse(detail::join("its input ", input, ", '", value.name(), "', is no scalar"));
  return value;
}

/// `epsilon`: the number of its input.
void add_adagrad_with(const UpdateCall& call, std::optional<std::size_t> epsilon) {
  const Tensor gradient = call.inputs.back();
  const bool updates_slots = call.node.attr_or<bool>("update_slots", true);
  const Tensor sum = updates_slots ? call.inputs[1] + square(gradient) : call.inputs[1];
  std::vector<Operation> slots;
  if (updates_slots) slots.push_back(assign(call, 1, Assign::set, sum));
  const Tensor slope = epsilon ? 1.0 / (sqrt(sum) + number(call, *epsilon)) : rsqrt(sum);
  assign(call, 0, Assign::subtract, number(call, 2) * gradient * slope, slots);
}
void add_adagrad(const UpdateCall& call) { add_adagrad_with(call, {}); }
void add_adagrad_v2(const UpdateCall& call) { add_adagrad_with(call, 3); }

void add_centered_rmsprop(const UpdateCall& call) {
  const Tensor &mean = call.inputs[1], &square_mean = call.inputs[2], &velocity = call.inputs[3];
  const Tensor rate = number(call, 4), rho = number(call, 5), momentum = number(call, 6), epsilon = number(call, 7);
  const Tensor& gradient = call.inputs[8];
  const Tensor new_square = square_mean + (square(gradient) - square_mean) * (1.0 - rho);
  const Tensor new_mean = mean + (gradient - mean) * (1.0 - rho);
  const Tensor step = momentum * velocity + rate * gradient * rsqrt(new_square - square(new_mean) + epsilon);
  const std::vector<Operation> slots{assign(call, 1, Assign::set, new_mean), assign(call, 2, Assign::set, new_square),
                                     assign(call, 3, Assign::set, step)};
  assign(call, 0, Assign::subtract, step, slots);
}

void add_adadelta(const UpdateCall& call) {
  const Tensor &sum = call.inputs[1], &update_sum = call.inputs[2], &gradient = call.inputs[6];
  const Tensor rate = number(call, 3), rho = number(call, 4), epsilon = number(call, 5);
  const Tensor new_sum = sum * rho + square(gradient) * (1.0 - rho);
  const Tensor update = sqrt(update_sum + epsilon) * rsqrt(new_sum + epsilon) * gradient;
  const Tensor new_update_sum = update_sum * rho + square(update) * (1.0 - rho);
  assign(call, 0, Assign::subtract, update * rate,
         {assign(call, 1, Assign::set, new_sum), assign(call, 2, Assign::set, new_update_sum)});
}

/// `shrinkage`: the number of its input; `rate_power`: that of the learning rate's power.
void add_ftrl_with(const UpdateCall& call, std::optional<std::size_t> shrinkage, std::size_t rate_power) {
  const Tensor &variable = call.inputs[0], &sum = call.inputs[1], &linear = call.inputs[2], &gradient = call.inputs[3];
  const Tensor rate = number(call, 4), l1 = number(call, 5), l2 = number(call, 6), exponent = -number(call, rate_power);
  // The linear term times the rate stands in the slot, and so do l1 and l2.
  const bool times_rate = call.node.attr_or<bool>("multiply_linear_by_lr", false);
  const Tensor shrunk = shrinkage ? gradient + 2.0 * number(call, *shrinkage) * variable : gradient;
  const Tensor new_sum = sum + square(gradient);
  const Tensor root = power(new_sum, exponent), difference = (root - power(sum, exponent)) * variable;
  const Tensor new_linear = times_rate ? linear + shrunk * rate - difference : linear + shrunk - difference / rate;
  const Tensor bound = times_rate ? l1 * rate : l1;
  const Tensor quadratic = times_rate ? root + 2.0 * l2 * rate : root / rate + 2.0 * l2;
  const Tensor value = (clip(new_linear, -bound, bound) - new_linear) / quadratic;
  assign(call, 0, Assign::set, value,
         {assign(call, 1, Assign::set, new_sum), assign(call, 2, Assign::set, new_linear)});
}
void add_ftrl(const UpdateCall& call) { add_ftrl_with(call, {}, 7); }
void add_ftrl_v2(const UpdateCall& call) { add_ftrl_with(call, 7, 8); }

/// The proximal operator of l1 and l2 regularization, with a learning rate for each element.
Tensor proximal(const Tensor& value, const Tensor& rate, const Tensor& l1, const Tensor& l2) {
  const Tensor shrunk = sign(value) * maximum(abs(value) - rate * maximum(l1, 0.0), 0.0);
  return where(l1 > 0.0, shrunk, value) / (1.0 + l2 * rate);
}

void add_proximal_gradient_descent(const UpdateCall& call) {
  const Tensor rate = number(call, 1);
  assign(call, 0, Assign::set,
         proximal(call.inputs[0] - call.inputs[4] * rate, rate, number(call, 2), number(call, 3)));
}

void add_proximal_adagrad(const UpdateCall& call) {
  const Tensor &gradient = call.inputs[5], sum = call.inputs[1] + square(gradient);
  const Tensor rate = number(call, 2) * rsqrt(sum);
  assign(call, 0, Assign::set, proximal(call.inputs[0] - gradient * rate, rate, number(call, 3), number(call, 4)),
         {assign(call, 1, Assign::set, sum)});
}

void add_adamax(const UpdateCall& call) {
  const Tensor &mean = call.inputs[1], &greatest = call.inputs[2], &gradient = call.inputs[8];
  const Tensor beta1_power = number(call, 3), rate = number(call, 4), beta1 = number(call, 5), beta2 = number(call, 6);
  const Tensor new_mean = mean + (gradient - mean) * (1.0 - beta1);
  const Tensor new_greatest = maximum(beta2 * greatest, abs(gradient));
  const Tensor step = rate / (1.0 - beta1_power) * (new_mean / (new_greatest + number(call, 7)));
  assign(call, 0, Assign::subtract, step,
         {assign(call, 1, Assign::set, new_mean), assign(call, 2, Assign::set, new_greatest)});
}

/// Adam, but that the step is divided by the greatest of the square means so far.
void add_amsgrad(const UpdateCall& call) {
  const Tensor &mean = call.inputs[1], &square_mean = call.inputs[2], &gradient = call.inputs[10];
  const Tensor beta1 = number(call, 7), beta2 = number(call, 8);
  const Tensor rate = number(call, 6) * sqrt(1.0 - number(call, 5)) / (1.0 - number(call, 4));
  const Tensor new_mean = mean + (gradient - mean) * (1.0 - beta1);
  const Tensor new_square = square_mean + (square(gradient) - square_mean) * (1.0 - beta2);
  const Tensor greatest = maximum(call.inputs[3], new_square);
  assign(call, 0, Assign::subtract, new_mean * rate / (sqrt(greatest) + number(call, 9)),
         {assign(call, 1, Assign::set, new_mean), assign(call, 2, Assign::set, new_square),
          assign(call, 3, Assign::set, greatest)});
}

void add_sign_update(const UpdateCall& call, bool powers) {
  const Tensor &mean = call.inputs[1], &gradient = call.inputs[6];
  const Tensor rate = number(call, 2), scale = number(call, 3), decay = number(call, 4), beta = number(call, 5);
  const Tensor new_mean = mean * beta + gradient * (1.0 - beta);
  const Tensor agreement = decay * sign(gradient) * sign(new_mean);
  const Tensor factor = powers ? exp(scale * agreement) : scale + agreement;
  assign(call, 0, Assign::subtract, rate * factor * gradient, {assign(call, 1, Assign::set, new_mean)});
}
void add_power_sign(const UpdateCall& call) { add_sign_update(call, true); }
void add_add_sign(const UpdateCall& call) { add_sign_update(call, false); }

/// Like TensorFlow's momentum, but that the learning rate is in the slot.
void add_keras_momentum(const UpdateCall& call) {
  const Tensor step = number(call, 2) * call.inputs[3], momentum = number(call, 4);
  const Tensor velocity = call.inputs[1] * momentum - step;
  const bool nesterov = call.node.attr_or<bool>("use_nesterov", false);
  const Tensor change = nesterov ? velocity * momentum - step : velocity;
  assign(call, 0, Assign::subtract, -change, {assign(call, 1, Assign::set, velocity)});
}

/// Dual averaging: the Variable follows from the sums of all gradients and the number of the step.
void add_adagrad_da(const UpdateCall& call) {
  const Tensor &gradient = call.inputs[3], sum = call.inputs[1] + gradient,
               square_sum = call.inputs[2] + square(gradient);
  const Tensor rate = number(call, 4), step = number(call, 7).cast(gradient.dtype());
  const Tensor shrunk = sign(sum) * maximum(abs(sum) - number(call, 5) * step, 0.0);
  assign(call, 0, Assign::set, -rate * shrunk / (number(call, 6) * step * rate + sqrt(square_sum)),
         {assign(call, 1, Assign::set, sum), assign(call, 2, Assign::set, square_sum)});
}

/// The updates are rows, or one scalar for all.
Tensor rows_of(const UpdateCall& call) {
  const Tensor &values = call.inputs[2], &indices = call.inputs[1];
  if (!values.shape().has_rank() || !indices.shape().has_rank())
    throw UnimplementedError(detail::join("Node '", call.node.def().name, "' (op: '", call.node.def().op,
                                          "'): the rank of its indices or updates is not known"));
  if (values.rank() > 0 || !indices.shape().is_known()) return values;
  Shape shape = indices.shape();
  for (int axis = 1; axis < call.inputs[0].rank(); ++axis) shape.push_back(call.inputs[0].shape().sizes()[axis]);
  return broadcast_to(values, shape);
}

void add_scatter_add(const UpdateCall& call) {
  assign(call, 0, Assign::set, scatter_add(call.inputs[0], call.inputs[1], rows_of(call)));
}
void add_scatter_sub(const UpdateCall& call) {
  assign(call, 0, Assign::set, scatter_add(call.inputs[0], call.inputs[1], -rows_of(call)));
}

/// The result, shaped like `x`, of an op of TensorFlow's that has no Variable. If sizes are not known, it is a node
/// that is read later.
Tensor result_of(const UpdateCall& call, std::string_view op, const Tensors& inputs, const Tensor& x,
                 const Tensors& values = Tensors(3)) {
  NodeDef def{.name = "result", .op = std::string(op)};
  def.attrs = {{"T", code_of(x.dtype())}, {"Tindices", code_of(inputs[1].dtype())}};
  if (values[2]) def.attrs.emplace("Tnumsegments", code_of(values[2].dtype()));
  const std::vector<Source> sources(inputs.size());
  const NodeReader reader(def, sources, values);
  if (!lacks_sizes(reader, inputs)) return read_op(reader, inputs, call.where)[0];
  return keep_node(call.graph, reader, inputs, {x.spec()}, call.where).output();
}

/// The last of several rows for one index is taken, as on TensorFlow's CPU.
void add_scatter_update(const UpdateCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor places = expand_dims(call.inputs[1], -1);
  assign(call, 0, Assign::set, result_of(call, "TensorScatterUpdate", {x, places, rows_of(call)}, x));
}

/// Assigns to the elements that an index expression selects: where its gradient spreads ones.
void add_sliced(const UpdateCall& call) {
  const Shape& shape = call.inputs[0].shape();
  NodeDef def = call.node.def();
  def.op = "StridedSliceGrad";
  const Tensor sizes = vector_of(shape.to_vector(), call.inputs[1].dtype());
  Tensors values{sizes};
  for (std::size_t i = 1; i < 4; ++i) {
    if (!call.node.is_constant(i))
      throw UnimplementedError(detail::join("Node '", def.name, "' (op: '", call.node.def().op,
                                            "'): where it begins and ends is not known when the graph is read"));
    values.push_back(call.node.constant(i));
  }
  values.push_back({});
  const std::vector<Source> sources(values.size());
  const NodeReader reader(def, sources, values);
  const auto spread = [&](const Tensor& value) {
    const Tensor places = constant_node(sizes, "shape", call.where);
    return read_op(reader, {places, call.inputs[1], call.inputs[2], call.inputs[3], value}, call.where)[0];
  };
  def.name = "place";
  const Tensor is_place = spread(ones_like(call.inputs[4]));
  def.name = "value";
  assign(call, 0, Assign::set, where(not_equal(is_place, 0), spread(call.inputs[4]), call.inputs[0]));
}

/// The end of the name of a scatter op: "Update" of "ResourceScatterNdUpdate".
std::string kind_of(const UpdateCall& call, std::string_view before) {
  const std::string& op = call.node.def().op;
  return op.substr(op.find(before) + before.size());
}

/// Updates by coordinates are those of a tensor.
void add_scatter_nd(const UpdateCall& call) {
  require_checked_indices(call.node);
  const std::string op = "TensorScatter" + kind_of(call, "ScatterNd");
  assign(call, 0, Assign::set, result_of(call, op, call.inputs, call.inputs[0]));
}

/// The rows of one index are combined before they change the Variable's.
void add_scatter_combined(const UpdateCall& call) {
  const Tensor &x = call.inputs[0], &indices = call.inputs[1];
  const std::string kind = kind_of(call, "Scatter");
  const bool largest = kind == "Max", smallest = kind == "Min";
  if (x.rank() == 0) call.node.refuse("its Variable has no rows");
  const Tensor count = detail::make_scalar(static_cast<double>(x.shape().sizes()[0]), int32);
  const Tensor rows = call.inputs[2] * ones_like(gather(x, indices));  // the updates may be one scalar
  const Tensor combined = result_of(call, "UnsortedSegment" + (largest || smallest ? kind : "Prod"),
                                    {rows, indices, constant_node(count, "count", call.where)}, x, {{}, {}, count});
  assign(call, 0, Assign::set,
         largest                  ? maximum(x, combined)
         : smallest               ? minimum(x, combined)
         : kind == "Mul"          ? x * combined
         : is_floating(x.dtype()) ? x / combined
                                  : result_of(call, "TruncateDiv", {x, combined}, x));
}

constexpr auto updates = std::to_array<ComposedUpdate>({
    {"ResourceApplyAdagrad", "ApplyAdagrad", 2, 4, add_adagrad},
    // With update_slots: those of UpdateRule.
    {"ResourceApplyAdagradV2", "ApplyAdagradV2", 2, 5, add_adagrad_v2},
    {"ResourceSparseApplyAdagrad", "SparseApplyAdagrad", 2, 5, add_adagrad, 4},
    {"ResourceSparseApplyAdagradV2", "SparseApplyAdagradV2", 2, 6, add_adagrad_v2, 5},
    {"ResourceApplyCenteredRMSProp", "ApplyCenteredRMSProp", 4, 9, add_centered_rmsprop},
    {"ResourceApplyAdadelta", "ApplyAdadelta", 3, 7, add_adadelta},
    {"ResourceApplyFtrl", "ApplyFtrl", 3, 8, add_ftrl},
    {"ResourceApplyFtrlV2", "ApplyFtrlV2", 3, 9, add_ftrl_v2},
    {"ResourceApplyProximalGradientDescent", "ApplyProximalGradientDescent", 1, 5, add_proximal_gradient_descent},
    {"ResourceApplyProximalAdagrad", "ApplyProximalAdagrad", 2, 6, add_proximal_adagrad},
    {"ResourceApplyAdaMax", "ApplyAdaMax", 3, 9, add_adamax},
    {"ResourceApplyAdamWithAmsgrad", "ResourceApplyAdamWithAmsgrad", 4, 11, add_amsgrad},
    {"ResourceApplyKerasMomentum", "ResourceApplyKerasMomentum", 2, 5, add_keras_momentum},
    {"ResourceSparseApplyKerasMomentum", "ResourceSparseApplyKerasMomentum", 2, 6, add_keras_momentum, 4},
    {"ResourceStridedSliceAssign", "StridedSliceAssign", 1, 5, add_sliced},
    {"ResourceApplyPowerSign", "ApplyPowerSign", 2, 7, add_power_sign},
    {"ResourceApplyAddSign", "ApplyAddSign", 2, 7, add_add_sign},
    {"ResourceSparseApplyCenteredRMSProp", "SparseApplyCenteredRMSProp", 4, 10, add_centered_rmsprop, 9},
    {"ResourceSparseApplyAdadelta", "SparseApplyAdadelta", 3, 8, add_adadelta, 7},
    {"ResourceSparseApplyFtrl", "SparseApplyFtrl", 3, 9, add_ftrl, 4},
    {"ResourceSparseApplyFtrlV2", "SparseApplyFtrlV2", 3, 10, add_ftrl_v2, 4},
    {"ResourceSparseApplyProximalGradientDescent", "SparseApplyProximalGradientDescent", 1, 6,
     add_proximal_gradient_descent, 5},
    {"ResourceSparseApplyProximalAdagrad", "SparseApplyProximalAdagrad", 2, 7, add_proximal_adagrad, 6},
    {"ResourceApplyAdagradDA", "ApplyAdagradDA", 3, 8, add_adagrad_da},
    {"ResourceSparseApplyAdagradDA", "SparseApplyAdagradDA", 3, 9, add_adagrad_da, 4},
    {"ResourceScatterAdd", "ScatterAdd", 1, 3, add_scatter_add},
    {"ResourceScatterSub", "ScatterSub", 1, 3, add_scatter_sub},
    {"ResourceScatterUpdate", "ScatterUpdate", 1, 3, add_scatter_update},
    {"ResourceScatterMul", "ScatterMul", 1, 3, add_scatter_combined},
    {"ResourceScatterDiv", "ScatterDiv", 1, 3, add_scatter_combined},
    {"ResourceScatterMax", "ScatterMax", 1, 3, add_scatter_combined},
    {"ResourceScatterMin", "ScatterMin", 1, 3, add_scatter_combined},
    {"ResourceScatterNdUpdate", "ScatterNdUpdate", 1, 3, add_scatter_nd},
    {"ResourceScatterNdAdd", "ScatterNdAdd", 1, 3, add_scatter_nd},
    {"ResourceScatterNdSub", "ScatterNdSub", 1, 3, add_scatter_nd},
    {"ResourceScatterNdMax", "ScatterNdMax", 1, 3, add_scatter_nd},
    {"ResourceScatterNdMin", "ScatterNdMin", 1, 3, add_scatter_nd},
});

}  // namespace

const ComposedUpdate* find_composed_update(std::string_view op) {
  const auto* found = std::find_if(updates.begin(), updates.end(), [&](const ComposedUpdate& each) {
    return each.resource == op || each.reference == op;
  });
  return found == updates.end() ? nullptr : found;
}

}  // namespace tapestry::io
