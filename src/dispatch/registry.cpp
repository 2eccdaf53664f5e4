#include <algorithm>
#include <cctype>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <set>

#include "core/make_tensor.hpp"
#include "dispatch/composition.hpp"
#include "dispatch/declaration.hpp"
#include "dispatch/define.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, const Op*, std::less<>> ops;
  std::set<std::string, std::less<>> replaced_gradients;
  std::set<const Op*> with_own_gradients;  ///< the library's ops, without those whose gradients were replaced
};

/// Never destroyed: tensors in static variables may be differentiated until the very end of a program.
Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

void add(const Op& op, Where where) {
  if (op.name.empty()) throw InvalidArgumentError("register_op: an op needs a name", where);
  if (int{!!op.forward} + int{!!op.view} + int{!!op.cpu} + int{!!op.evaluate} != 1)
    throw InvalidArgumentError(
        detail::join("register_op: op '", op.name, "' needs exactly one of forward, view, cpu and evaluate"), where);
  Registry& all_ops = registry();
  const std::lock_guard lock(all_ops.mutex);
  if (!all_ops.ops.emplace(op.name, &op).second)
    throw InvalidArgumentError(detail::join("register_op: an op named '", op.name, "' is registered already"), where);
}

void check_declaration(const Op& op, Where where) {
  const auto refuse = [&](const auto&... problem) {
    throw InvalidArgumentError(detail::join("register_op: op '", op.name, "' ", problem...), where);
  };
  if (!op.name.empty() && !detail::is_valid_node_name(op.name)) refuse("has a name that no operation may have");
  if (!op.infer) refuse("lacks infer");
  if (op.outputs < -1) refuse("has outputs = ", op.outputs);
  for (const OpAttr& each : op.attrs)
    if (find_attr(op, each.name) != &each) refuse("has two attributes '", each.name, "'");
}

/// Throws unless an op with this gradient may have so many outputs. An op whose number of outputs depends on its call
/// is judged by that.
void check_gradient(const Gradient& gradient, std::int64_t outputs, Where where) {
  if (gradient.takes_one() && outputs >= 0 && outputs != 1)
    throw InvalidArgumentError(
        detail::join("The gradient takes one Tensor, where the op has ", outputs, " outputs: it must take Tensors"),
        where);
}

/// An exception that is no Error, with what it lacks.
struct NamedException final : Error, std::nested_exception {
  explicit NamedException(const char* what) : Error(Code::internal, what) {}
};

/// Within a handler: throws an exception that does not tell where it comes from as an Error that does.
[[noreturn]] void throw_named(const Call& call) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& exception) {
    NamedException error(exception.what());
    error.locate(call.type(), call.where());
    throw error;
  }
}

template <class R>
void name_exceptions(std::function<R(const Call&)>& function) {
  if (!function) return;
  function = [function = std::move(function)](const Call& call) -> R {
    try {
      return function(call);
    } catch (...) {
      throw_named(call);
    }
  };
}

/// A tensor as a tape keeps it that releases its elements. Small tensors are kept whole, so that a gradient that reads
/// what it must not would be noticed only with large ones.
void strip(Tensors& tensors, std::uint32_t needed) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if ((needed >> std::min<std::size_t>(i, 31) & 1) == 0 && bool(tensors[i]) && tensors[i].impl().storage)
      tensors[i] = detail::without_data(tensors[i]);
}

Gradient checked(Gradient gradient, Needs needs, bool sums) {
  if (!gradient) return gradient;
  const auto function = [gradient, needs, sums](const Call& call, const Tensors& arrived) -> Tensors {
    if (!sums) check_gradient(gradient, static_cast<std::int64_t>(arrived.size()), call.where());
    Call as_kept = call;
    strip(as_kept.mutable_inputs(), needs.inputs);
    strip(as_kept.mutable_outputs(), needs.outputs);
    try {
      return gradient(as_kept, arrived);
    } catch (...) {
      throw_named(call);
    }
  };
  return function;
}

/// An op from outside the library whose functions are held to what they tell: plans rely on it.
Op checked(Op op) {
  op.of_program = true;
  op.infer = [infer = std::move(op.infer), outputs = op.outputs](const Call& call) {
    Specs specs = infer(call);
    if (outputs >= 0 && std::cmp_not_equal(specs.size(), outputs))
      throw InvalidArgumentError(
          detail::join("infer returns ", specs.size(), " Specs, where the op has outputs = ", outputs));
    return specs;
  };
  if (op.evaluate)
    op.evaluate = [evaluate = std::move(op.evaluate)](const Call& call) {
      Tensors results = evaluate(call);
      check_results("evaluate", results, call.op().infer(call));
      return results;
    };
  name_exceptions(op.infer);
  name_exceptions(op.cpu);
  name_exceptions(op.evaluate);
  name_exceptions(op.composition);
  op.gradient = checked(std::move(op.gradient), op.needs, op.gradient_sums);
  return op;
}

}  // namespace

OpDefinition::OpDefinition(Op op) : Op(std::move(op)) {
  add(*this, {});
  const std::lock_guard lock(registry().mutex);
  registry().with_own_gradients.insert(this);
}

const Op& register_op(Op op, Where where) {
  detail::link_op_families();
  check_declaration(op, where);
  if (!op.gradient_sums) detail::locating(op.name, where, [&] { check_gradient(op.gradient, op.outputs, where); });
  auto owned = std::make_unique<const Op>(checked(std::move(op)));
  add(*owned, where);
  return *owned.release();  // lives for ever, as the registry does
}

void register_gradient(std::string_view op, Gradient gradient, Where where) {
  const Op* found = &registered_op(op, where);
  detail::locating(op, where, [&] { check_gradient(gradient, found->outputs, where); });
  const std::lock_guard lock(registry().mutex);
  if (!registry().replaced_gradients.emplace(op).second)
    throw LookupError(detail::join("Registering two gradients with name '", op, "'!"), where);
  // Ops are constants to everyone else; this is the one change that the registry makes to them.
  const_cast<Op*>(found)->gradient = checked(std::move(gradient), Needs{}, false);
  const_cast<Op*>(found)->needs = Needs{};
  registry().with_own_gradients.erase(found);
}

bool has_own_gradient(const Op& op) {
  const std::lock_guard lock(registry().mutex);
  return registry().with_own_gradients.contains(&op);
}

bool detail::is_valid_node_name(std::string_view name) {
  const auto is_start = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.'; };
  const auto is_part = [&](char c) {
    return is_start(c) || std::string_view("_\\/>-").find(c) != std::string_view::npos;
  };
  return !name.empty() && is_start(name[0]) && std::all_of(name.begin(), name.end(), is_part);
}

const Op* find_op(std::string_view name) {
  detail::link_op_families();
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().ops.find(name);
  return found == registry().ops.end() ? nullptr : found->second;
}

const Op& registered_op(std::string_view name, Where where) {
  if (const Op* op = find_op(name)) return *op;
  throw NotFoundError(detail::join("Unrecognized Op name ", name), where);
}

std::vector<const Op*> registered_ops() {
  detail::link_op_families();
  const std::lock_guard lock(registry().mutex);
  std::vector<const Op*> list;
  for (const auto& [name, op] : registry().ops) list.push_back(op);
  return list;
}

Call named_call(std::string_view name, const InList& inputs, const Attrs& attrs, std::string_view node) {
  const Op& op = registered_op(name, inputs.where());
  const Attrs complete = checked_attrs(op, with_defaults(op, attrs), inputs.where());
  Call call(op, inputs.tensors(), complete, inputs.where(), node);
  detail::locating(op.name, call.where(), [&] { check_input_count(call); });
  return call;
}

Tensor apply_op(std::string_view op, const InList& inputs, const Attrs& attrs, std::string_view name) {
  const Call call = named_call(op, inputs, attrs, name);
  const Tensors outputs = apply_all(call.op(), call.inputs(), call.attrs(), name, call.where());
  return outputs.empty() ? Tensor() : outputs[0];
}

void Call::throw_missing_input(std::size_t i) const {
  throw InvalidArgumentError(detail::join(type(), " needs at least ", i + 1, " inputs, but got ", inputs_.size()));
}

void Call::throw_missing_output(std::size_t i) const {
  throw InvalidArgumentError(detail::join(type(), " has ", outputs_.size(), " outputs, no output ", i));
}

Specs same_shape(const Call& call) { return {call.input(0).spec()}; }

}  // namespace tapestry
