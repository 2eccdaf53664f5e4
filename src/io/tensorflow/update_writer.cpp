#include "io/tensorflow/update_writer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>

#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "graph/known_values.hpp"
#include "graph/state_ops.hpp"
#include "graph/training.hpp"
#include "io/composition.hpp"
#include "io/tensorflow/graph_export.hpp"
#include "io/tensorflow/updates.hpp"
#include "train/adam.hpp"

namespace tapestry::io {
namespace {

using detail::endpoint_of;
using detail::Node;
using Reals = std::vector<double>;

/// The numbers of an optimizer's formula, as a function of the number of steps done before.
class UpdateFormula {
 public:
  explicit UpdateFormula(const Node& rate) : rate_(rate) {
    if (&rate.op() == &const_op) {
      constant_ = rate.attr<Tensor>("value").cast(float64).to_vector<double>();
    } else if (&rate.op() == &learning_rate_op) {
      const ExecuteNow now;
      now_ = variable_of(rate).cell()->load().item<std::int64_t>();
      if (const Closure* schedule = rate.attrs().find<Closure>("rate")) schedule_ = *schedule;
    } else {
      refuse(rate, "an optimizer's numbers must be constant");
    }
  }

  /// Whether the learning rate follows a formula of ops.
  bool is_scheduled() const { return bool(schedule_); }

  /// The numbers, which must be the same in all steps but for the learning rate.
  Reals scheduled() const {
    Reals numbers = present();
    const auto expected = [&](std::int64_t step) {
      numbers[0] = rate_at(step);
      return numbers;
    };
    require(expected, is_near);
    return numbers;
  }

  /// The numbers of an optimizer that is composed of ops: a learning rate that changes, and the number of the step.
  void require_composed_schedule() const {
    const auto expected = [&](std::int64_t step) { return Reals{rate_at(step), static_cast<double>(step + 1)}; };
    require(expected, is_near);
  }

  /// The numbers, which must be the same in all steps.
  Reals constant() const {
    Reals numbers = present();
    require([&](std::int64_t) { return numbers; });
    return numbers;
  }

  /// The numbers of the next step.
  Reals present() const { return at(now_); }

  /// The learning rate of an optimizer that is composed of ops, whose other number is that of the step.
  double composed_rate() const {
    const double rate = present()[0];
    require([&](std::int64_t step) { return Reals{rate, static_cast<double>(step + 1)}; });
    return rate;
  }

  /// The five numbers from which Adam's are computed (see UpdateRule). `decays_by_rate`: the decay of AdamW follows a
  /// rate that changes, and is given per rate.
  Reals adam_parts(bool decays_by_rate) const {
    if (!constant_.empty()) refuse(rate_, "nobody counts the steps of Adam");
    // By then beta1^step and beta2^step are too small to change the numbers.
    constexpr std::int64_t far = std::int64_t{1} << 52;
    const Reals late = at(far);
    Reals parts{late[0], late[1], late[3], late[6], late[7]};
    if (is_scheduled()) {
      if (decays_by_rate) parts[4] = at(now_, 1.0)[7];
      const auto expected = [&](std::int64_t step) {
        const double rate = rate_at(step), decay = decays_by_rate ? rate * parts[4] : parts[4];
        return Reals(train::adam_numbers(rate, step + 1, parts[1], parts[2], parts[3], decay));
      };
      require(expected, is_near);
      return parts;
    }
    require([&](std::int64_t step) {
      return Reals(train::adam_numbers(parts[0], step + 1, parts[1], parts[2], parts[3], parts[4]));
    });
    return parts;
  }

 private:
  /// The numbers, those of another rate if one is given.
  Reals at(std::int64_t step, std::optional<double> rate = {}) const {
    if (!constant_.empty()) return constant_;
    const ExecuteNow now;
    Tensors arguments{tensor(step)};
    if (rate) arguments.push_back(tensor<double>(*rate));
    return (*rate_.attr<Closure>("numbers"))(arguments)[0].to_vector<double>();
  }

  double rate_at(std::int64_t step) const {
    const ExecuteNow now;
    return (*schedule_)({tensor<double>(static_cast<double>(step))})[0].item<double>();
  }

  /// Whether numbers that an op and C++ compute by the same formula are the same.
  static bool is_near(double x, double y) { return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y)); }

  template <class F, class Same = std::equal_to<>>
  void require(F expected, Same same = {}) const {
    for (const std::int64_t step : probes)
      if (!std::ranges::equal(at(now_ + step), expected(now_ + step), same))
        refuse(rate_, "the learning rate changes from step to step");
  }

  static constexpr std::array<std::int64_t, 4> probes{0, 1, 1000, 1000000};
  const Node& rate_;
  Closure schedule_;
  Reals constant_;
  std::int64_t now_ = 0;
};

/// Whether the graph computes the numbers of an update, the last of which, the decay, is 0.
bool is_computed(const Node& rate) {
  if (&rate.op() == &const_op || &rate.op() == &learning_rate_op) return false;
  const Tensor decay = rate.inputs().empty() ? Tensor() : detail::KnownValues().find(rate.inputs().back());
  return rate.op().movement == Movement::joins && bool(decay) && decay.item<double>() == 0;
}

}  // namespace

const Node& rate_of(const Node& update) { return *endpoint_of(update.input(update.inputs().size() - 2)).node; }

bool is_update(const Node& node) {
  // A node that is kept as it is may have the name of an op of ours, too, such as Adam's with Nesterov's momentum.
  return node.attrs().find("variables") && update_rule_of(node.type());
}

const Variable& variable_of(const Node& node) { return node.attr<VariablesRef>("variables")->front(); }

AttrDef class_of(const Node& handle) { return ListDef{.strings = {"loc:@" + handle.name()}}; }

void UpdateWriter::note(const Node& update) {
  const UpdateRule& rule = *update_rule_of(update.type());
  if (update.inputs().size() > update.attr<VariablesRef>("variables")->size() + (rule.is_of_rows() ? 3 : 2))
    refuse(update, "whether it is made depends on a condition");
  const Node& rate = rate_of(update);
  const bool adam = rule.is_adam();
  if (is_computed(rate)) {
    rates_.try_emplace(&rate, Rate{.dtype = float64, .is_adam = adam, .is_computed = true});
  } else if (!rates_.contains(&rate)) {
    const UpdateFormula formula(rate);
    const bool is_scheduled = formula.is_scheduled();
    rates_.emplace(&rate, Rate{.dtype = update.inputs().back().dtype(),
                               .is_adam = adam,
                               .is_scheduled = is_scheduled,
                               .numbers = adam           ? formula.adam_parts(rule.decays_variable)
                                          : is_scheduled ? formula.scheduled()
                                                         : formula.constant()});
  }
  rates_.at(&rate).gradients.push_back(endpoint_of(update.inputs().back()).node->name());
}

void UpdateWriter::write_rate(NodeWriter& writer) {
  Rate& rate = rates_.at(&writer.node());
  if (rate.is_adam) write_adam_step(writer, rate);
  if (rate.is_scheduled) {
    rate.scheduled = write_schedule(writer);
    return writer.finish("Cast", {rate.scheduled.name},
                         {{"SrcT", code_of(float64)}, {"DstT", code_of(rate.dtype)}, {"Truncate", false}});
  }
  const Tensor value = detail::make_scalar(rate.numbers[0], rate.dtype);
  writer.finish("Const", {}, {{"dtype", code_of(value.dtype())}, {"value", TensorDef{code_of(value.dtype()), value}}});
}

void UpdateWriter::write_composed_numbers(NodeWriter& writer) const {
  const Node& node = writer.node();
  const UpdateFormula formula(node);
  if (frozen_) {
    const ExecuteNow now;
    const Tensor numbers = tensor(formula.present());
    return writer.finish("Const", {}, {{"dtype", code_of(float64)}, {"value", TensorDef{code_of(float64), numbers}}});
  }
  const bool is_scheduled = formula.is_scheduled();
  if (is_scheduled) formula.require_composed_schedule();
  const Value rate = is_scheduled ? write_schedule(writer)
                                  : writer.constant("rate", detail::make_scalar(formula.composed_rate(), float64));
  const Value step = write_step(writer);
  writer.finish("Pack", {rate.name, step.name},
                {{"N", std::int64_t{2}}, {"T", code_of(float64)}, {"axis", std::int64_t{0}}});
}

/// Writes the number of the step, from 1, as a function of the Variable that counts the steps.
Value UpdateWriter::write_step(NodeWriter& writer) const {
  const Node& node = writer.node();
  const Value before = read(writer, endpoint_name(node.input(0)), variable_of(node).dtype());
  return writer.op("AddV2", {writer.cast(before, float64), writer.number(1, float64)});
}

/// Writes the learning rate as a function of the Variable that counts the steps. A float64 scalar.
Value UpdateWriter::write_schedule(NodeWriter& writer) const {
  const Node& node = writer.node();
  const Value step = writer.cast(read(writer, endpoint_name(node.input(0)), variable_of(node).dtype()), float64);
  const ComposedGraph formula = compose({{float64, {}}}, *node.attr<Closure>("rate"), node.where());
  std::vector<NodeDef> nodes = export_graph(*formula.graph, {}).nodes;
  std::erase_if(nodes, [](const NodeDef& each) { return each.op == "Placeholder"; });
  writer.add_inner(std::move(nodes), formula.inputs, {step}, formula.outputs);
  return std::exchange(writer.result, {})[0];
}

/// Writes the powers of the betas and epsilon, in double precision, as functions of the Variable that counts the steps.
void UpdateWriter::write_adam_step(NodeWriter& writer, Rate& rate) const {
  rate.counter = endpoint_name(writer.node().input(0));
  const Value step = write_step(writer);
  const auto power = [&](double base, std::string_view label) {
    return writer.op("Pow", {writer.number(base, float64), step}, float64, {}, label);
  };
  const Value left = power(rate.numbers[2], "beta2_power");
  const Value correction = writer.op("Sqrt", {writer.op("Sub", {writer.number(1, float64), left})});
  const Value epsilon = writer.op("Mul", {writer.number(rate.numbers[3], float64), correction}, float64, {}, "epsilon");
  rate.from_step = {power(rate.numbers[1], "beta1_power"), left, epsilon};
}

/// Reads a Variable after the control inputs of the node, and so in the order of the program.
Value UpdateWriter::read(NodeWriter& writer, const std::string& handle, DType dtype) const {
  return writer.stateful_op(resource_ ? "ReadVariableOp" : "Identity", {{handle, dtype}}, dtype,
                            {{resource_ ? "dtype" : "T", code_of(dtype)}});
}

/// The decay of an update, which is not 0.
Value UpdateWriter::decay_of(NodeWriter& writer, const Rate& rate, DType dtype) {
  const bool follows_rate = rate.is_scheduled && update_rule_of(writer.node().type())->decays_variable;
  if (!follows_rate) return writer.number(rate.numbers.back(), dtype);
  return writer.cast(writer.op("Mul", {rate.scheduled, writer.number(rate.numbers.back(), float64)}), dtype);
}

/// The gradient for the update. The decay is added to it; that of AdamW is subtracted from the Variable before.
Value UpdateWriter::decayed_gradient(NodeWriter& writer, const Rate& rate) const {
  const Node& node = writer.node();
  Value gradient = writer.in(node.inputs().size() - 1);
  if (rate.numbers.back() == 0) return gradient;
  const DType dtype = gradient.dtype;
  const Value handle{endpoint_name(node.input(0)), dtype};
  const Value lost = writer.op("Mul", {decay_of(writer, rate, dtype), read(writer, handle.name, dtype)});
  if (!update_rule_of(node.type())->decays_variable) return writer.op("AddV2", {gradient, lost});
  FieldList fields{{resource_ ? "dtype" : "T", code_of(dtype)}};
  if (!resource_) {
    fields.emplace("_class", class_of(*endpoint_of(node.input(0)).node));
    fields.emplace("use_locking", false);
  }
  const Value shrunk =
      writer.stateful_op(resource_ ? "AssignSubVariableOp" : "AssignSub", {handle, lost}, dtype, std::move(fields));
  return writer.op("Identity", {gradient, {"^" + shrunk.name}});
}

/// Writes an update whose numbers the graph computes. The learning rate of our Adam is already divided by
/// 1 - beta1^step, so that beta1^step is written as 0.
void UpdateWriter::write_computed_update(NodeWriter& writer, const UpdateRule& rule) const {
  const Node& node = writer.node();
  const DType dtype = node.inputs().back().dtype();
  const Value numbers = writer.in(node.inputs().size() - 2);
  const auto number = [&](std::int64_t i) { return writer.element(numbers, i); };
  const auto left = [&] { return writer.op("Reciprocal", {number(5)}); };
  constexpr std::int64_t adam_numbers[] = {0, 1, 3};
  std::vector<std::string> inputs;
  for (const UpdateRule::Argument& each : rule.arguments) {
    const auto index = static_cast<std::size_t>(each.index);
    if (each.part == UpdateRule::Part::handle) {
      inputs.push_back(endpoint_name(node.input(index)));
    } else if (each.part == UpdateRule::Part::gradient) {
      inputs.push_back(writer.in(node.inputs().size() - 1).name);
    } else {
      const Value value =
          each.part == UpdateRule::Part::number   ? number(rule.is_adam() ? adam_numbers[index] : each.index)
          : each.index == UpdateRule::beta1_power ? writer.number(0, float64)
          : each.index == UpdateRule::beta2_power ? writer.op("Sub", {writer.number(1, float64), left()})
                                                  : writer.op("Mul", {number(6), writer.op("Sqrt", {left()})});
      inputs.push_back(dtype == float64 ? value.name : writer.cast(value, dtype).name);
    }
  }
  FieldList fields{{"T", code_of(dtype)}, {"use_locking", false}};
  if (rule.resource.ends_with("Momentum") || rule.is_adam()) fields.emplace("use_nesterov", rule.nesterov);
  if (rule.resource.ends_with("V2")) fields.emplace("update_slots", true);
  if (!resource_) fields.emplace("_class", class_of(*endpoint_of(node.input(0)).node));
  writer.finish(resource_ ? rule.resource : rule.reference, inputs, std::move(fields));
}

void UpdateWriter::write_update(NodeWriter& writer) const {
  const Node& node = writer.node();
  const UpdateRule& rule = *update_rule_of(node.type());
  const Rate& rate = rates_.at(&rate_of(node));
  const DType dtype = node.inputs().back().dtype();
  // Reading a reference gives the Variable itself, which must not change before all gradients are computed. Nor may the
  // decay of AdamW, which needs no gradient, come before that.
  if (!resource_ || rule.decays_variable) writer.wait_for(rate.gradients);
  if (rule.is_of_rows()) return write_row_update(writer, rule);
  if (rate.is_computed) return write_computed_update(writer, rule);
  std::vector<std::string> inputs;
  for (const UpdateRule::Argument& each : rule.arguments) {
    const auto index = static_cast<std::size_t>(each.index);
    switch (each.part) {
      case UpdateRule::Part::handle:
        inputs.push_back(endpoint_name(node.input(index)));
        break;
      case UpdateRule::Part::gradient:
        inputs.push_back(decayed_gradient(writer, rate).name);
        break;
      case UpdateRule::Part::from_step:
        inputs.push_back(dtype == float64 ? rate.from_step[index].name
                                          : writer.cast(rate.from_step[index], dtype).name);
        break;
      case UpdateRule::Part::indices:
      case UpdateRule::Part::difference:
        break;  // of updates of rows only
      case UpdateRule::Part::number:
        if (each.index == 0 && rate.dtype == dtype) {
          inputs.push_back(rate_of(node).name());
        } else if (each.index == 0 && rate.is_scheduled) {
          inputs.push_back(writer.cast(rate.scheduled, dtype).name);
        } else {
          const std::string_view label = each.label.empty() ? "learning_rate" : each.label;
          inputs.push_back(writer.constant(label, detail::make_scalar(rate.numbers[index], dtype)).name);
        }
    }
  }
  const ExecuteNow now;
  FieldList fields{{"T", code_of(dtype)}, {"use_locking", false}};
  // A reader takes a rate that changes, and what comes with it, from the nodes.
  if (!rate.is_scheduled)
    fields.emplace(std::string(hint_numbers), TensorDef{code_of(float64), Init(rate.numbers).tensor()});
  if (!rate.is_scheduled && (rate.is_adam || rate.numbers.back() != 0)) {
    fields.emplace(hint_op, node.type());
    ListDef hinted;
    for (std::size_t i = 0; i + 2 < node.inputs().size(); ++i) hinted.strings.push_back(endpoint_name(node.input(i)));
    if (rate.is_adam) hinted.strings.push_back(rate.counter);
    hinted.strings.push_back(endpoint_name(node.inputs().back()));
    fields.emplace(hint_inputs, hinted);
  }
  if (rule.resource.ends_with("Momentum") || rate.is_adam) fields.emplace("use_nesterov", rule.nesterov);
  if (rule.resource.ends_with("V2")) fields.emplace("update_slots", true);
  if (!resource_) fields.emplace("_class", class_of(*endpoint_of(node.input(0)).node));
  writer.finish(resource_ ? rule.resource : rule.reference, inputs, std::move(fields));
}

}  // namespace tapestry::io
