#include "graph/state_ops.hpp"

#include "autodiff/variable_cell.hpp"
#include "backend/backend.hpp"
#include "core/make_tensor.hpp"
#include "dispatch/define.hpp"

namespace tapestry {
namespace {

const Variable& variable_of(const Call& call) { return call.attr<VariablesRef>("variables")->front(); }

/// Checks a new value's dtype and shape, as far as they are known while the graph is built.
Specs check_assignment(const Call& call) {
  const Variable& variable = variable_of(call);
  const Tensor& value = call.input(1);
  if (value.dtype() != variable.dtype() || !agree(value.shape(), variable.shape()))
    throw InvalidArgumentError(detail::join("variable '", variable.name(), "' is ", to_string(variable.dtype()),
                                            variable.shape(), ", the value is ", to_string(value.dtype()),
                                            value.shape(), "; they must be alike"));
  return {};
}

template <Binary f>
void change(Backend& backend, const Call& call) {
  const Variable& variable = variable_of(call);
  variable.cell()->modify([&](const Tensor& value) {
    detail::require_same_shape(variable, value, call.input(1));
    backend.binary(f, value, call.input(1), 0, value);
  });
}

Op assignment(const char* name, void (*forward)(Backend&, const Call&)) {
  return {
      .name = name,
      .attrs = {{"variables", AttrKind::variables}},
      .infer = check_assignment,
      .forward = forward,
      .gradient = no_gradient,
      .shape_inputs = 1,
      .outputs = 0,
      .stateful = true,
  };
}

TAPESTRY_OP(const_definition){{
    .name = "Const",
    .attrs = {{"dtype", AttrKind::type}, {"value", AttrKind::tensor}},
    .infer = [](const Call& call) -> Specs { return {call.attr<Tensor>("value").spec()}; },
    .view = [](const Call& call, const Spec&) { return call.attr<Tensor>("value"); },
    .gradient = no_gradient,
}};

TAPESTRY_OP(placeholder_definition){{
    .name = "Placeholder",
    .attrs = {{"dtype", AttrKind::type}, {"shape", AttrKind::shape}, {"may_be_absent", AttrKind::flag, optional}},
    .infer = [](const Call& call) -> Specs {
      return {{call.attr<DType>("dtype"), call.attr<Shape>("shape")}};
    },
    .forward =
        [](Backend&, const Call& call) {
          const DType dtype = call.attr<DType>("dtype");
          const Shape& shape = call.attr<Shape>("shape");
          throw InvalidArgumentError(detail::join(
              "You must feed a value for placeholder tensor '", call.name(), "'",
              dtype == DType::unknown ? "" : detail::join(" with dtype ", tensorflow_name(dtype)),
              shape.rank() > 0 ? detail::join(" and shape ", shape) : "", "\n\t [[{{node ", call.name(), "}}]]"));
        },
    .gradient = no_gradient,
}};

TAPESTRY_OP(no_op_definition){{
    .name = "NoOp",
    .infer = [](const Call&) -> Specs { return {}; },
    .forward = [](Backend&, const Call&) {},
    .gradient = no_gradient,
    .outputs = 0,
}};

TAPESTRY_OP(var_handle_definition){{
    .name = "VarHandleOp",
    .attrs = {{"variables", AttrKind::variables},
              {"dtype", AttrKind::type, optional},
              {"shape", AttrKind::shape, optional}},
    .infer = [](const Call&) -> Specs {
      return {{DType::resource, {}}};
    },
    .forward = [](Backend&, const Call&) {},
    .gradient = no_gradient,
}};

TAPESTRY_OP(read_variable_definition){{
    .name = "ReadVariableOp",
    .attrs = {{"variables", AttrKind::variables}},
    .infer = [](const Call& call) -> Specs { return {variable_spec(variable_of(call))}; },
    .view = [](const Call& call, const Spec&) { return variable_of(call).cell()->load(); },
    .gradient = no_gradient,
    .shape_inputs = 1,
    .stateful = true,
}};

TAPESTRY_OP(is_initialized_definition){{
    .name = "VarIsInitializedOp",
    .attrs = {{"variables", AttrKind::variables}},
    .infer = [](const Call&) -> Specs {
      return {{boolean, {}}};
    },
    .view =
        [](const Call& call, const Spec&) {
          return detail::make_scalar(variable_of(call).cell()->is_initialized() ? 1 : 0, boolean);
        },
    .gradient = no_gradient,
    .shape_inputs = 1,
    .stateful = true,
}};

void refuse_to_run(Backend&, const Call&) { throw InternalError("runs in the plan of a Session only"); }

// Only plans have these two ops, so they are not registered.

const Op& make_send_op() {
  return *new Op{
      .name = "_Send",
      .infer = [](const Call&) -> Specs { return {}; },
      .forward = refuse_to_run,
      .gradient = no_gradient,
      .outputs = 0,
      .stateful = true,
  };
}

const Op& make_recv_op() {
  return *new Op{
      .name = "_Recv",
      .infer = [](const Call& call) -> Specs {
        return {{call.attr<DType>("dtype"), call.attr<Shape>("shape")}};
      },
      .forward = refuse_to_run,
      .gradient = no_gradient,
      .stateful = true,
  };
}

TAPESTRY_OP(assign_variable_definition)
(assignment("AssignVariableOp",
            [](Backend&, const Call& call) { variable_of(call).cell()->copy_from(call.input(1)); }));
TAPESTRY_OP(assign_add_variable_definition)(assignment("AssignAddVariableOp", change<Binary::add>));
TAPESTRY_OP(assign_sub_variable_definition)(assignment("AssignSubVariableOp", change<Binary::subtract>));

}  // namespace

const Op& const_op = const_definition;
const Op& placeholder_op = placeholder_definition;
const Op& no_op_op = no_op_definition;
const Op& var_handle_op = var_handle_definition;
const Op& read_variable_op = read_variable_definition;
const Op& is_initialized_op = is_initialized_definition;
const Op& send_op = make_send_op();
const Op& recv_op = make_recv_op();

const Op& assign_op(Assign kind) {
  switch (kind) {
    case Assign::add:
      return assign_add_variable_definition;
    case Assign::subtract:
      return assign_sub_variable_definition;
    default:
      return assign_variable_definition;
  }
}

std::string_view assign_name(Assign kind) {
  switch (kind) {
    case Assign::add:
      return "AssignAdd";
    case Assign::subtract:
      return "AssignSub";
    default:
      return "Assign";
  }
}

bool changes_variables(const Call& call) {
  return call.op().stateful && &call.op() != &read_variable_op && call.inputs().size() > 1 &&
         call.attrs().find<VariablesRef>("variables") != nullptr;
}

bool allocates_results(const Call& call) {
  const Op& op = call.op();
  return op.evaluate || (&op == &read_variable_op && !variable_of(call).shape().is_known());
}

bool assigns_any_sizes(const Call& call) {
  return &call.op() == &assign_op(Assign::set) && !variable_of(call).shape().is_known();
}

Attrs variable_attrs(const std::vector<Variable>& variables) {
  return {{"variables", std::make_shared<const std::vector<Variable>>(variables)}};
}

}  // namespace tapestry
