#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "backend/backend.hpp"
#include "backend/views.hpp"
#include "core/make_tensor.hpp"
#include "graph/passes/passes.hpp"
#include "graph/rewrite.hpp"
#include "graph/state_ops.hpp"
#include "ops/handles.hpp"

namespace tapestry::detail {
namespace {

bool only_reshapes(const Node& node) { return node.op().movement == Movement::reshapes; }

/// Whether the elements are known to be contiguous in row-major order. The layout of an operand affects the rounding of
/// sums, so a dense tensor must not be replaced by one that may not be dense. Feeds and values of Variables are dense,
/// because the Executable copies those that are not.
bool is_dense(Tensor tensor) {
  for (;;) {
    const Node& node = producer_of(tensor);
    if (const Tensor value = constant_value(tensor)) return value.is_contiguous();
    if (!node.op().view || &node.op() == &read_variable_op || node.op().view_copies) return true;
    if (node.op().movement != Movement::keeps && !only_reshapes(node)) return false;
    tensor = node.input(0);
  }
}

/// Whether the type `wide` has every value of the type `narrow`.
bool holds_all(DType wide, DType narrow) {
  if (narrow == boolean || wide == narrow) return true;
  if (wide == float64) return narrow != int64;
  if (wide == float32) return narrow == uint8 || is_half(narrow);
  if (is_half(wide)) return narrow == uint8;
  return is_integer(wide) && is_integer(narrow) && wide > narrow;
}

Ints permutation_of(const Node& node) {
  const int rank = node.input(0).rank();
  const AttrValue* given = node.attrs().find("perm");
  Ints perm;
  for (int i = 0; i < rank; ++i) perm.push_back(given ? normalize_axis(std::get<Ints>(*given)[i], rank) : rank - 1 - i);
  return perm;
}

class Simplifier {
 public:
  explicit Simplifier(const PlanGraph& plan) : plan_(plan), rewrite_(plan) {}

  PlanGraph run() {
    for (std::size_t i = 0; i < plan_.graph->size(); ++i) {
      const Node& node = plan_.graph->node(i);
      Tensors inputs = rewrite_.inputs_of(node);
      rewrite_.build(node, [&]() -> Tensors {
        if (Tensor simpler = simplified(node, inputs)) return {simpler};
        return rewrite_.copy_of(node, inputs).outputs();
      });
    }
    return rewrite_.plan_like(plan_);
  }

 private:
  using Rule = Tensor (Simplifier::*)(const Node&, const Tensors&);

  /// The tensor that replaces the node's output; an empty handle if the node stays. May replace inputs by simpler ones.
  Tensor simplified(const Node& node, Tensors& inputs) {
    static const auto& rules = *new std::unordered_map<const Op*, Rule>{
        {&ops::snapshot, &Simplifier::dense_input},
        {&ops::cast, &Simplifier::cast},
        {&ops::sum_like, &Simplifier::dense_input_of_same_shape},
        {&ops::transpose, &Simplifier::transpose},
        {&ops::multiply, &Simplifier::multiply},
        {&ops::divide, &Simplifier::divide},
        {&ops::add, &Simplifier::add},
        {&ops::subtract, &Simplifier::subtract},
    };
    if (node.op().stateful || node.outputs().size() != 1) return {};
    if (node.op().forward.is_elementwise() && node.op().broadcasts)
      if (Tensor uniform = with_uniform_inputs(node, inputs)) return uniform;
    switch (node.op().movement) {
      case Movement::keeps:
        return inputs[0];
      case Movement::repeats:
        return input_of_same_shape(node, inputs);
      case Movement::reshapes:
        return reshape(node, inputs);
      default:
        const auto rule = rules.find(&node.op());
        return rule == rules.end() ? Tensor() : (this->*rule->second)(node, inputs);
    }
  }

  // ---- Views and copies -------------------------------------------------------------------------------------------

  Tensor dense_input(const Node&, const Tensors& inputs) { return is_dense(inputs[0]) ? inputs[0] : Tensor(); }

  Tensor input_of_same_shape(const Node& node, const Tensors& inputs) {
    return inputs[0].shape() == node.output().shape() ? inputs[0] : Tensor();
  }

  Tensor dense_input_of_same_shape(const Node& node, const Tensors& inputs) {
    return is_dense(inputs[0]) ? input_of_same_shape(node, inputs) : Tensor();
  }

  Tensor cast(const Node& node, const Tensors& inputs) {
    const DType to = node.output().dtype();
    Tensor x = inputs[0];
    if (const Node& inner = producer_of(x);
        &inner.op() == &ops::cast && inner.input(0).dtype() == to && holds_all(x.dtype(), to))
      x = inner.input(0);
    return x.dtype() == to && is_dense(x) ? x : Tensor();
  }

  Tensor reshape(const Node& node, const Tensors& inputs) {
    const Shape& shape = node.output().shape();
    Tensor x = inputs[0];
    while (only_reshapes(producer_of(x))) x = producer_of(x).input(0);
    if (!is_dense(x)) return {};
    if (x.shape() == shape) return x;
    if (&node.op() == &ops::reshape && x.is(inputs[0])) return {};
    return rewrite_.add(ops::reshape, {x}, {{"shape", shape}}, {node.output().spec()}, node).output();
  }

  Tensor transpose(const Node& node, const Tensors& inputs) {
    Ints perm = permutation_of(node);
    Tensor x = inputs[0];
    const Node& inner = producer_of(x);
    const bool twice = &inner.op() == &node.op();
    if (twice) {
      const Ints before = permutation_of(inner);
      for (std::int64_t& axis : perm) axis = before[axis];
      x = inner.input(0);
    }
    if (std::is_sorted(perm.begin(), perm.end())) return x;
    if (!twice) return {};
    return rewrite_.add(node.op(), {x}, {{"perm", perm}}, {node.output().spec()}, node).output();
  }

  // ---- Arithmetic -------------------------------------------------------------------------------------------------
  // Only rules that are exact for every value: x + 0 is not x where x is -0.

  /// The operand, if all elements of the other one are `number`, which is neutral; otherwise an empty handle.
  Tensor neutral(const Node& node, const Tensor& operand, const Tensor& other, double number) {
    const Tensor value = uniform_value(other);
    if (!value || operand.shape() != node.output().shape() || !is_dense(operand)) return {};
    const auto found = value.item<double>();
    return found == number && !std::signbit(found) ? operand : Tensor();
  }

  Tensor multiply(const Node& node, const Tensors& inputs) {
    if (Tensor a = neutral(node, inputs[0], inputs[1], 1)) return a;
    return neutral(node, inputs[1], inputs[0], 1);
  }
  Tensor divide(const Node& node, const Tensors& inputs) { return neutral(node, inputs[0], inputs[1], 1); }
  Tensor subtract(const Node& node, const Tensors& inputs) { return neutral(node, inputs[0], inputs[1], 0); }
  Tensor add(const Node& node, const Tensors& inputs) {
    if (is_floating(node.output().dtype())) return {};
    if (Tensor a = neutral(node, inputs[0], inputs[1], 0)) return a;
    return neutral(node, inputs[1], inputs[0], 0);
  }

  // ---- Tensors of equal elements ----------------------------------------------------------------------------------

  /// The value of all elements, as a scalar; an empty handle if they differ or are not known.
  Tensor uniform_value(const Tensor& tensor) {
    const auto [known, is_new] = uniform_.try_emplace(tensor.id());
    if (!is_new) return known->second;
    const Tensor found = find_uniform(tensor);
    return uniform_[tensor.id()] = found;
  }

  Tensor find_uniform(Tensor tensor) {
    if (tensor.size() == 0 || !tensor.device().is_cpu() || size_of(tensor.dtype()) == 0) return {};
    while (only_reshapes(producer_of(tensor)) || producer_of(tensor).op().movement == Movement::repeats)
      tensor = producer_of(tensor).input(0);
    const Node& node = producer_of(tensor);
    if (const Tensor value = constant_value(tensor)) return only_element(value);
    double number = 0;
    if (&node.op() == &ops::fill) {
      number = node.attr<double>("value");
    } else if (&node.op() == &ops::ones_like) {
      number = 1;
    } else if (&node.op() != &ops::zeros_like) {
      return {};
    }
    Tensor scalar = make_tensor(tensor.dtype(), {}, cpu());
    backend_of(cpu()).fill(number, scalar);
    return scalar;
  }

  static Tensor only_element(const Tensor& value) {
    const bool repeats = std::all_of(value.strides().begin(), value.strides().end(), [](auto s) { return s == 0; });
    const auto* data = static_cast<const std::byte*>(value.impl().data);
    const std::size_t element = size_of(value.dtype());
    const auto rest = (value.size() - 1) * element;
    const bool equal = repeats || (value.is_contiguous() && std::memcmp(data, data + element, rest) == 0);
    return equal ? view_as(value, {}) : Tensor();
  }

  /// Replaces each input of equal elements by a scalar, which is broadcast, to save memory. If all inputs are such,
  /// returns the output, whose elements are then equal, too; otherwise an empty handle.
  Tensor with_uniform_inputs(const Node& node, Tensors& inputs) {
    Tensors values;
    Shape others;
    for (const Tensor& input : inputs) {
      values.push_back(uniform_value(input));
      if (!values.back()) others = broadcast_shapes(others, input.shape());
    }
    if (std::all_of(values.begin(), values.end(), [](const Tensor& value) { return static_cast<bool>(value); }))
      return uniform_result(node, values);
    if (others != node.output().shape()) return {};
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (bool(values[i]) && inputs[i].rank() > 0)
        inputs[i] = rewrite_.constant(values[i], node, node.name() + "/Const");
    return {};
  }

  Tensor uniform_result(const Node& node, const Tensors& values) {
    const Tensor& output = node.output();
    if (output.dtype() == int64) return {};  // `fill` takes a double, which does not hold every int64
    Call call(node.op(), values, node.attrs(), node.where());
    {
      const ExecuteNow now;
      try {
        execute(call, {{output.dtype(), {}}}, cpu());
      } catch (const Error&) {
        return {};
      }
    }
    const Attrs attrs{{"dtype", output.dtype()},
                      {"shape", output.shape()},
                      {"value", call.output().item<double>()},
                      {"device", output.device()}};
    return rewrite_.add(ops::fill, {}, attrs, {output.spec()}, node).output();
  }

  const PlanGraph& plan_;
  Rewrite rewrite_;
  std::unordered_map<std::int64_t, Tensor> uniform_;  ///< by id
};

}  // namespace

PlanGraph simplify(const PlanGraph& plan) { return Simplifier(plan).run(); }

}  // namespace tapestry::detail
