// The Variables of a file: those that it has, their values, and assignments to them.

#include <algorithm>

#include "core/make_tensor.hpp"
#include "graph/state_ops.hpp"
#include "io/tensorflow/importer.hpp"
#include "io/tensorflow/table_rows.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::io {

using detail::GraphVariable;

namespace {

/// Whether a node passes on a Variable that it is given, on one of the sides of a condition, into a loop or in a list,
/// or makes one for a while.
bool is_passed_on(const NodeDef& def) {
  constexpr std::array ops = std::to_array<std::string_view>(
      {"Switch", "RefSwitch", "RefSelect", "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit", "Identity",
       "IdentityN", "TensorListGetItem", "TensorListPopBack", "TemporaryVariable"});
  return std::find(ops.begin(), ops.end(), def.op) != ops.end();
}

/// Which input of a RefSelect it passes on, if its index is a constant; otherwise none.
std::size_t selected(const NodeDef& def, const std::vector<Source>& inputs) {
  const NodeReader reader(def, inputs);
  if (inputs.empty() || !reader.is_constant(0)) return inputs.size();
  const Tensor index = reader.constant(0);
  if (index.size() != 1 || !is_integer(index.dtype())) return inputs.size();
  const auto number = index.cast(int64).to_vector<std::int64_t>()[0];
  return number < 0 ? inputs.size() : static_cast<std::size_t>(number) + 1;
}

}  // namespace

Tensors Importer::variable(const NodeReader& reader) {
  const NodeDef& def = reader.def();
  Spec spec{reader.type("dtype"), reader.attr<Shape>("shape")};
  // Without one shape that all its values have, its sizes change with them.
  if (!assignments_) assignments_ = assignments_of_any_sizes(file_.file().nodes);
  if (!spec.shape.is_known())
    if (const Shape initial = shape_of_initial_value(def); initial.is_known()) spec.shape = initial;
  if ((*assignments_)[def.name].is_unchecked) spec.shape = Shape::unknown_rank();
  const auto name = reader.attr_or<std::string>("shared_name", "");
  const std::pair key(reader.attr_or<std::string>("container", ""), name.empty() ? def.name : name);
  auto& cell = cells_[key];
  if (!cell) cell = make_cell(reader, key, spec);
  const Variable shared(cell);
  if (shared.dtype() != spec.dtype || shared.shape() != spec.shape)
    reader.refuse(detail::join("it is ", to_string(spec.dtype), spec.shape, ", but shares the Variable '",
                               shared.name(), "', which is ", to_string(shared.dtype()), shared.shape()));
  if (reader.find<TypeCode>(hint_table) && !cell->is_initialized()) {
    if (!is_table(shared)) reader.refuse(detail::join("it is no table: ", shared.shape()));
    const ExecuteNow now;
    cell->store(zeros({0, shared.shape().sizes()[1]}, {.dtype = int64}));
  }
  variables_.emplace(&def, shared);
  return {handle_of(shared)};
}

/// The shape of a constant that TensorFlow's initializer of a Variable assigns, if nothing else may give it other
/// sizes.
Shape Importer::shape_of_initial_value(const NodeDef& variable) {
  if ((*assignments_)[variable.name].count != 1) return Shape::unknown_rank();
  const Entry* assign = file_.find(variable.name + "/Assign");
  if (!assign || assign->inputs.size() != 2 || assign->inputs[0].node != &variable) return Shape::unknown_rank();
  const NodeDef& value = *assign->inputs[1].node;
  return value.op == "Const" ? NodeReader(*assign->def, assign->inputs).constant(1).shape() : Shape::unknown_rank();
}

std::shared_ptr<Variable::Cell> Importer::make_cell(const NodeReader& reader,
                                                    const std::pair<std::string, std::string>& key, const Spec& spec) {
  const std::string& name = reader.def().name;
  if (original_)
    for (const auto& [def, variable] : original_->variables_)
      if (def->name == name) return variable.cell();
  if (shared_) return shared_->cell(key.first, key.second, spec);
  auto cell = std::make_shared<Variable::Cell>();
  cell->name = name;
  cell->trainable.set(!reader.attr_or<bool>(hint_not_trainable, false));
  cell->spec = spec;
  const Tensor handle = handle_of(Variable(cell));
  state().budget().require_tensor(detail::producer_of(handle), spec);
  return cell;
}

const NodeDef* Importer::referred(const NodeDef* def) const {
  while (true) {
    const std::vector<Source>& inputs = file_.entry(def).inputs;
    std::size_t next = gives_reference(def->op) || def->op == "RefIdentity" ? 0 : inputs.size();
    if (def->op == "RefSelect") next = selected(*def, inputs);
    if (next >= inputs.size()) return def;
    def = inputs[next].node;
  }
}

const Variable& Importer::variable_of(const Entry& entry, const NodeReader& reader, std::size_t input) const {
  const auto found =
      input < entry.inputs.size() ? variables_.find(referred(entry.inputs[input].node)) : variables_.end();
  if (found == variables_.end() && input < entry.inputs.size() && is_variable(*entry.inputs[input].node))
    throw UnimplementedError(detail::join("Node '", entry.def->name, "' uses the Variable '",
                                          entry.inputs[input].node->name,
                                          "', of a type or a shape that Tapestry lacks"));
  if (found == variables_.end() && input < entry.inputs.size() && is_passed_on(*referred(entry.inputs[input].node)))
    throw UnimplementedError(detail::join("Node '", entry.def->name, "' uses a Variable that '",
                                          entry.inputs[input].node->name, "' passes on"));
  if (found == variables_.end() && input < entry.inputs.size() && entry.inputs[input].node->op == argument_op)
    throw UnimplementedError(detail::join("Node '", entry.def->name, "' uses '", entry.inputs[input].node->name,
                                          "' as a Variable, of which its function has the value only"));
  if (found == variables_.end()) reader.refuse(detail::join("its input ", input, " is no Variable"));
  return found->second;
}

Tensors Importer::shape_of_variable(const Entry& entry, const NodeReader& reader) {
  const Variable& variable = variable_of(entry, reader);
  const Shape& shape = variable.shape();
  const DType type = reader.find<TypeCode>("out_type") ? reader.type("out_type") : int32;
  if (!shape.is_known()) {
    const Tensor value = node(read_variable_op, {handle_of(variable)}, variable_attrs({variable}),
                              detail::join(entry.def->name, "/_/read"))[0];
    return {tapestry::shape(In(value, where_)).cast(type, where_)};
  }
  const Tensor sizes = detail::make_tensor(type, {shape.rank()}, cpu());
  detail::visit_dtype(sizes.dtype(), [&]<class T>() {
    std::transform(shape.sizes().begin(), shape.sizes().end(), detail::mutable_data<T>(sizes),
                   [](std::int64_t size) { return static_cast<T>(size); });
  });
  return node(const_op, {}, {{"dtype", sizes.dtype()}, {"value", sizes}}, entry.def->name);
}

Tensors Importer::read(const Entry& entry, const NodeReader& reader) {
  const Variable& variable = variable_of(entry, reader);
  if (state().captures) return {state().read(variable, where_)};
  Tensors value = node(read_variable_op, {handle_of(variable)}, variable_attrs({variable}), entry.def->name);
  GraphVariable& known = state().variable_entry(variable, where_);
  // Others of TensorFlow's reads are no more than their own users', who may feed them.
  const bool is_shared = entry.def->op == "Identity" || entry.def->name == variable.name() + "/read";
  if (!known.value && entry.controls.empty() && is_shared) known.value = value[0];
  return value;
}

Tensors Importer::assign(const Entry& entry, const NodeReader& reader) {
  const std::string& op = entry.def->op;
  const bool add = op == "AssignAdd" || op == "AssignAddVariableOp";
  const bool subtract = op == "AssignSub" || op == "AssignSubVariableOp";
  if (entry.inputs.size() != 2) reader.refuse("it has not two inputs");
  const Variable& variable = variable_of(entry, reader);
  const Tensor value = tensor_of(entry.inputs[1]);
  if (!reader.attr_or<bool>("validate_shape", op != "AssignVariableOp") && !agree(value.shape(), variable.shape()))
    throw UnimplementedError(detail::join("Node '", entry.def->name, "' (op: '", op, "'): its Variable '",
                                          variable.name(), "' is ", variable.shape(), ", the value ", value.shape()));
  const Assign kind = add ? Assign::add : subtract ? Assign::subtract : Assign::set;
  node(assign_op(kind), {handle_of(variable), value}, variable_attrs({variable}), entry.def->name);
  GraphVariable& known = state().variable_entry(variable, where_);
  if (kind == Assign::set && !known.initializer && !arguments_ && entry.def->name == variable.name() + "/Assign") {
    known.initializer = &state().node(state().size() - 1);
    known.initial_value = value;
    const Node& source = *detail::endpoint_of(value).node;
    if (&source.op() == &const_op && !original_ && !shared_) variable.cell()->store(source.attr<Tensor>("value"));
  }
  return {};
}

}  // namespace tapestry::io
