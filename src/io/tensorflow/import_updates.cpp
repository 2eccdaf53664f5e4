// The updates of Variables by optimizers, as TensorFlow's files have them.

#include "core/make_tensor.hpp"
#include "graph/state_ops.hpp"
#include "graph/training.hpp"
#include "io/tensorflow/importer.hpp"
#include "tapestry/ops.hpp"
#include "train/adam.hpp"

namespace tapestry::io {

Tensors Importer::update(const Entry& entry, const NodeReader& reader, const UpdateRule& rule) {
  if (entry.inputs.size() != rule.arguments.size())
    reader.refuse(detail::join("it has ", entry.inputs.size(), " inputs, not ", rule.arguments.size()));
  std::vector<Variable> variables;
  Source gradient, indices;
  for (std::size_t i = 0; i < rule.arguments.size(); ++i) {
    const UpdateRule::Argument& each = rule.arguments[i];
    if (each.part == UpdateRule::Part::handle) variables.push_back(variable_of(entry, reader, i));
    if (each.part == UpdateRule::Part::gradient) gradient = entry.inputs[i];
    if (each.part == UpdateRule::Part::indices) indices = entry.inputs[i];
  }
  const bool hinted = !entry.hinted.empty();
  if (!hinted && rule.has(UpdateRule::Part::difference)) reader.refuse("its hints do not fit");
  if (hinted) {
    // The Variable, its slots, Adam's counter of steps, the gradient, or its indices, rows and the learning rate.
    const std::size_t behind = (rule.is_adam() ? 1 : 0) + (rule.is_of_rows() ? 3 : 1), slots = rule.is_adam() ? 2 : 0;
    if (rule.has(UpdateRule::Part::difference) && entry.hinted.size() == 1 + slots + behind)
      for (std::size_t i = 1; i <= slots; ++i) variables.push_back(hinted_variable(entry, reader, i));
    if (entry.hinted.size() != variables.size() + behind) reader.refuse("its hints do not fit");
    gradient = entry.hinted[entry.hinted.size() - (rule.is_of_rows() ? 2 : 1)];
    if (rule.is_of_rows()) indices = entry.hinted[entry.hinted.size() - 3];
  }
  if (rule.is_of_rows()) take_summands(gradient, indices);
  const Tensor g = tensor_of(gradient);
  rule.is_of_rows() ? check_row_update(reader, variables, tensor_of(indices), g) : check_update(reader, variables, g);
  Tensors inputs;
  for (const Variable& each : variables) inputs.push_back(handle_of(each));
  if (rule.is_of_rows()) inputs.push_back(tensor_of(indices));
  const Entry& rate = file_.entry(rate_of(entry));
  if (rule.is_adam() && hinted) {
    inputs.push_back(
        adam_numbers_by_counter(rate, reader, entry.hinted[variables.size()], constant_numbers(reader, rule)));
  } else if (rule.is_adam()) {
    inputs.push_back(adam_numbers_by_powers(entry, reader));
  } else {
    inputs.push_back(has_constant_numbers(reader, rule) ? numbers_node(rate, constant_numbers(reader, rule))
                                                        : numbers_by_tensors(entry, reader, rule));
  }
  inputs.push_back(g);
  node(*find_op(rule.op), inputs, variable_attrs(variables), entry.def->name);
  return {};
}

bool Importer::has_constant_numbers(const NodeReader& reader, const UpdateRule& rule) {
  if (reader.find<TensorDef>(hint_numbers)) return true;
  for (std::size_t i = 0; i < rule.arguments.size(); ++i)
    if (rule.arguments[i].part == UpdateRule::Part::number && !reader.is_constant(i)) return false;
  return true;
}

std::vector<double> Importer::constant_numbers(const NodeReader& reader, const UpdateRule& rule) {
  if (const auto* exact = reader.find<TensorDef>(hint_numbers)) {
    if (exact->value.dtype() != float64 || exact->value.shape() != Shape{rule.numbers})
      reader.refuse("its exact numbers do not fit");
    return exact->value.to_vector<double>();
  }
  std::vector<double> numbers(static_cast<std::size_t>(rule.numbers));
  for (std::size_t i = 0; i < rule.arguments.size(); ++i)
    if (const UpdateRule::Argument& each = rule.arguments[i]; each.part == UpdateRule::Part::number)
      numbers[each.index] = reader.constant(i).item<double>();
  if (rule.op.ends_with("RMSProp")) numbers[2] = 1 - numbers[1];
  return numbers;
}

Tensor Importer::number_of(const Entry& entry, const NodeReader& reader, std::size_t input) {
  if (reader.is_constant(input)) return detail::make_scalar(reader.constant(input).item<double>(), float64);
  const Tensor value = tensor_of(entry.inputs[input]);
  const bool is_scalar = !value.shape().has_rank() || value.rank() == 0;
  if (!is_scalar || (value.dtype() != DType::unknown && !is_floating(value.dtype())))
    reader.refuse(detail::join("its input ", input, ", '", value.name(), "', is no floating-point scalar"));
  const Tensor wide = cast(value, float64);
  return wide.shape().has_rank() ? wide : reshape(wide, Shape());
}

Tensor Importer::numbers_by_tensors(const Entry& entry, const NodeReader& reader, const UpdateRule& rule) {
  const NameScope scope(entry.def->name + "/numbers/", where_);
  std::vector<Tensor> numbers(static_cast<std::size_t>(rule.numbers), detail::make_scalar(0, float64));
  for (std::size_t i = 0; i < rule.arguments.size(); ++i)
    if (const UpdateRule::Argument& each = rule.arguments[i]; each.part == UpdateRule::Part::number)
      numbers[each.index] = number_of(entry, reader, i);
  if (rule.op.ends_with("RMSProp")) numbers[2] = 1.0 - numbers[1];
  return stack(numbers);
}

Tensors Importer::compose(const Entry& entry, const NodeReader& reader, const ComposedUpdate& update) {
  if (entry.inputs.size() != update.inputs)
    reader.refuse(detail::join("it has ", entry.inputs.size(), " inputs, not ", update.inputs));
  UpdateCall call{state(), reader, {}, {}, where_};
  std::vector<Variable> variables;
  if (update.indices > 0) call.rows = tensor_of(entry.inputs[update.indices]);
  for (std::size_t i = 0; i < update.inputs; ++i) {
    if (bool(call.rows) && i == update.indices) continue;
    call.variables.emplace_back();
    if (i < update.variables) {
      variables.push_back(variable_of(entry, reader, i));
      call.variables.back() = variables.back();
    }
    call.inputs.push_back(i < update.variables
                              ? value_before(variables.back(), detail::join(entry.def->name, "/_/read"))
                              : tensor_of(entry.inputs[i]));
    if (call.inputs.back().dtype() == DType::resource) reader.refuse("an input is a resource");
  }
  check_slots(reader, variables);
  const NameScope scope(entry.def->name + "/_/", where_);
  // TensorFlow's optimizers add up the rows of one index before, by Unique. The gradient comes before the indices.
  if (const std::size_t g = update.indices > update.variables ? update.indices - 1 : 0;
      g > 0 && !entry.inputs[update.indices].node->op.starts_with("Unique"))
    call.inputs[g] = gather(scatter_add(zeros_like(call.inputs[0]), call.rows, call.inputs[g]), call.rows);
  call.wholes = Tensors(call.inputs.begin(), call.inputs.begin() + static_cast<std::ptrdiff_t>(update.variables));
  for (std::size_t i = 0; bool(call.rows) && i < update.variables; ++i)
    call.inputs[i] = gather(call.inputs[i], call.rows);
  update.add(call);
  return {};
}

Tensor Importer::value_before(const Variable& variable, const std::string& name) {
  if (composed_.insert(variable.cell().get()).second) return state().read(variable, where_);
  return node(read_variable_op, {handle_of(variable)}, variable_attrs({variable}), name)[0];
}

Tensors Importer::gather_rows(const Entry& entry, const NodeReader& reader) {
  if (entry.inputs.size() != 2) reader.refuse("it has not two inputs");
  if (reader.attr_or<std::int64_t>("batch_dims", 0) != 0)
    throw UnimplementedError(
        detail::join("Node '", entry.def->name, "' (op: '", entry.def->op, "'): Tapestry lacks its 'batch_dims'"));
  const Tensor rows = state().read(variable_of(entry, reader), where_);
  const Tensor indices = tensor_of(entry.inputs[1]);
  if (entry.def->op == "ResourceGatherNd") return {gather_nd(rows, indices, entry.def->name)};
  return {gather(rows, indices, 0, entry.def->name)};
}

void Importer::check_update(const NodeReader& reader, const std::vector<Variable>& variables, const Tensor& gradient) {
  check_slots(reader, variables);
  if (!is_floating(variables[0].dtype()) || variables[0].dtype() != gradient.dtype() ||
      !agree(gradient.shape(), variables[0].shape()))
    reader.refuse("the Variables, their slots and the gradient are not alike");
}

void Importer::check_row_update(const NodeReader& reader, const std::vector<Variable>& variables, const Tensor& indices,
                                const Tensor& rows) {
  check_slots(reader, variables);
  Shape shape = variables[0].shape();
  if (shape.rank() == 0) reader.refuse("its Variable has no rows");
  shape.set(0, indices.shape().has_rank() && indices.rank() == 1 ? indices.shape().sizes()[0] : -1);
  if (!is_floating(variables[0].dtype()) || variables[0].dtype() != rows.dtype() || !agree(rows.shape(), shape) ||
      (indices.shape().has_rank() && indices.rank() != 1) || (indices.dtype() != int32 && indices.dtype() != int64))
    reader.refuse("the Variables, their slots, the indices and the rows of the gradient do not fit");
}

void Importer::take_summands(Source& rows, Source& indices) {
  const Entry &sums = file_.entry(rows.node), &unique = file_.entry(indices.node);
  if (sums.def->op != "UnsortedSegmentSum" || sums.inputs.size() != 3 || !unique.def->op.starts_with("Unique") ||
      indices.output != 0 || sums.inputs[1].node != unique.def || sums.inputs[1].output != 1)
    return;
  rows = sums.inputs[0];
  indices = unique.inputs.at(0);
}

const Variable& Importer::hinted_variable(const Entry& entry, const NodeReader& reader, std::size_t place) const {
  const auto found = variables_.find(entry.hinted[place].node);
  if (found == variables_.end()) reader.refuse("its hints do not fit");
  return found->second;
}

void Importer::check_slots(const NodeReader& reader, const std::vector<Variable>& variables) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].dtype() != variables[0].dtype() || variables[i].shape() != variables[0].shape())
      reader.refuse("the Variables, their slots and the gradient are not alike");
    for (std::size_t k = 0; k < i; ++k)
      if (variables[k].is(variables[i])) reader.refuse("a Variable is its own slot");
  }
}

Tensor Importer::numbers_named(const Entry& rate, Tensor numbers) {
  if (!rate.is_read && !state().find(rate.def->name)) state().rename(detail::producer_of(numbers), rate.def->name);
  return numbers;
}

Tensor Importer::numbers_node(const Entry& rate, const std::vector<double>& numbers) {
  Tensor& known = numbers_of(rate, numbers);
  if (known) return known;
  const Tensor value = [&] {
    const ExecuteNow now;
    return Init(numbers).tensor();
  }();
  const ControlScope nothing(ControlInputs{});
  return known = numbers_named(rate, node(const_op, {}, {{"dtype", float64}, {"value", value}}, rate.def->name)[0]);
}

Tensor Importer::adam_numbers_by_counter(const Entry& rate, const NodeReader& reader, const Source& counter,
                                         const std::vector<double>& parts) {
  const auto found = variables_.find(counter.node);
  if (found == variables_.end() || found->second.dtype() != int64 || found->second.shape().rank() != 0)
    reader.refuse("no Variable counts its steps");
  Tensor& known = numbers_of(rate, parts);
  if (known) return known;
  const auto numbers = [parts](const Tensors& steps) -> Tensors {
    const auto step = steps[0].item<std::int64_t>() + 1;
    const ExecuteNow now;
    return {tensor(std::vector<double>(train::adam_numbers(parts[0], step, parts[1], parts[2], parts[3], parts[4])))};
  };
  const Variable& variable = found->second;
  const Attrs attrs{{"variables", std::make_shared<const std::vector<Variable>>(1, variable)},
                    {"numbers", std::make_shared<const std::function<Tensors(const Tensors&)>>(numbers)},
                    {"count", std::int64_t{8}}};
  std::vector<Operation> waits;
  for (Node* each : nodes_of(rate.controls)) waits.push_back(detail::operation_of(*each));
  const ControlScope nothing(ControlInputs{}), same(waits);
  return known = numbers_named(rate, node(learning_rate_op, {handle_of(variable)}, attrs, rate.def->name)[0]);
}

Tensor Importer::adam_numbers_by_powers(const Entry& entry, const NodeReader& reader) {
  const NameScope scope(entry.def->name + "/numbers/", where_);
  Tensor powers[2], parts[3], epsilon;
  const UpdateRule& rule = *update_rule(reader);
  for (std::size_t i = 0; i < rule.arguments.size(); ++i) {
    const UpdateRule::Argument& each = rule.arguments[i];
    if (each.part == UpdateRule::Part::number) parts[each.index] = number_of(entry, reader, i);
    if (each.part != UpdateRule::Part::from_step) continue;
    (each.index == UpdateRule::epsilon ? epsilon : powers[each.index]) = number_of(entry, reader, i);
  }
  const auto& [rate, beta1, beta2] = parts;
  const Tensor left = 1.0 - powers[1];
  return stack({rate / (1.0 - powers[0]), beta1, 1.0 - beta1, beta2, 1.0 - beta2, 1.0 / left, epsilon / sqrt(left),
                detail::make_scalar(0, float64)});
}

}  // namespace tapestry::io
