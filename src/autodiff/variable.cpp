#include "tapestry/variable.hpp"

#include <algorithm>
#include <optional>

#include "autodiff/variable_cell.hpp"
#include "backend/backend.hpp"
#include "backend/views.hpp"
#include "core/deferred.hpp"
#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/ops.hpp"

namespace tapestry {
namespace {

/// Whether a type has all numbers of a tensor of whole numbers.
bool has_room(DType type, const Tensor& given) {
  if (!is_integer(type) || promote(given.dtype(), type) == type) return true;
  return std::ranges::all_of(given.to_vector<std::int64_t>(), [type](std::int64_t each) {
    return each == (type == uint8 ? std::int64_t{static_cast<std::uint8_t>(each)} : static_cast<std::int32_t>(each));
  });
}

/// The value in the cell's dtype. A literal or a tensor of another dtype is converted, but never a float to whole
/// numbers.
Tensor fitting(const Variable& variable, const Value& value, std::string_view what) {
  const Variable::Cell& cell = *variable.cell();
  const Where where = value.where();
  if (value.is_empty_tensor())
    throw FailedPreconditionError(detail::join(what, ": the value is an empty Tensor"), where);
  Tensor given = detail::computed(value.tensor({}, where));
  const auto refuse = [&](std::string_view problem) {
    throw InvalidArgumentError(
        detail::join(
            what, ": variable '", variable.name(), "' is ", to_string(cell.spec.dtype), cell.spec.shape,
            ", the value is ",
            !value.is_tensor() && given.rank() == 0 ? "a number" : to_string(given.dtype()) + to_string(given.shape()),
            problem),
        where);
  };
  if (!agree(given.shape(), cell.spec.shape)) refuse("; the shapes must be equal");
  if (cell.spec.dtype == boolean && what != "assign") refuse("; bools do not add up");
  if (given.dtype() == cell.spec.dtype) return given;
  if (is_floating(given.dtype()) && !is_floating(cell.spec.dtype))
    refuse("; a float does not turn into a whole number");
  if (!value.is_tensor()) return value.tensor(cell.spec.dtype, where);
  if (!given.is_symbolic() && !has_room(cell.spec.dtype, given)) refuse("; a number does not fit");
  return given.cast(cell.spec.dtype, where);
}

/// The graph in which an assignment becomes an operation; nullptr when it happens now.
Sink* sink_for(const Tensor& value) {
  Sink* open = open_sink();
  return open ? open : sink_of(value);
}

/// What a change makes of the value. For `set`, this is not the tensor that was given: no gradient flows through a
/// Variable.
Tensor changed_now(const Variable& variable, Assign kind, const Tensor& given, Where where) {
  Variable::Cell& cell = *variable.cell();
  if (kind == Assign::set) {
    cell.store(given.to(cell.device, where));
  } else {
    const ExecuteNow now;
    const PauseRecording pause;
    const Tensor before = cell.load(), change = given.to(cell.device, where);
    const In a(before, where), b(change, where);
    cell.store(kind == Assign::add ? add(a, b) : subtract(a, b));
  }
  return cell.load();
}

/// Changes the Variable now, or when the graph runs; the value after that.
Tensor changed(const Variable& variable, Assign kind, const Value& value, std::string_view what) {
  const Where where = value.where();
  const Tensor given = fitting(variable, value, what);
  Tensor after;
  if (!is_change_replayed(recorders(), variable, after)) {
    Sink* graph = sink_for(given);
    after = graph ? graph->assign(variable, kind, given, where) : changed_now(variable, kind, given, where);
  }
  tell_change(recorders(), variable, after);
  return after;
}

}  // namespace

void Variable::Cell::throw_uninitialized() const {
  throw FailedPreconditionError(detail::join("Attempting to use uninitialized value ", name));
}

/// The value as a new tensor with its own id, on memory that nothing else uses: if it is shared, as a copy.
Tensor Variable::Cell::to_be_changed() const {
  if (!value_) throw_uninitialized();
  const bool shared =
      value_.impl().references.is_shared() || value_.impl().storage->references.is_shared() || !value_.is_contiguous();
  if (!shared) return view_of(value_);
  return backend_of(value_.device()).contiguous_copy(value_);
}

void Variable::Cell::move_to(Device place) {
  if (place == device) return;
  const PauseRecording pause;
  if (is_initialized()) store(load().to(place));
  device = place;
}

void Variable::Cell::copy_from(const Tensor& value) {
  const std::lock_guard lock(mutex_);
  if (!value_ || value_.shape() != value.shape()) {
    if (!agree(value.shape(), spec.shape))
      throw InvalidArgumentError(
          detail::join("variable '", name, "' is ", spec.shape, ", and not ", value.shape(), ", as its value"));
    store(detail::make_tensor(spec.dtype, value.shape(), device));
  }
  modify([&](const Tensor& next) { backend_of(device).copy(value, next); });
}

void detail::require_same_shape(const Variable& variable, const Tensor& value, const Tensor& other) {
  if (value.shape() != other.shape())
    throw InvalidArgumentError(join("Cannot update variable '", variable.name(), "' with shape ", value.shape(),
                                    " using a Tensor with shape ", other.shape(), ", shapes must be equal."));
}

void update_in_place(Update formula, const Tensor& numbers, const Tensor& gradient,
                     std::span<const Variable> variable_and_slots) {
  Backend& backend = backend_of(gradient.device());
  const Tensor in_order =
      backend.contiguous(detail::computed(gradient));  // the gradient of a transposed Variable is a view
  modify_all(variable_and_slots, [&](std::span<const Tensor> opened) {
    detail::require_same_shape(variable_and_slots[0], opened[0], in_order);
    backend.update(formula, numbers, in_order, opened.subspan(1), opened[0]);
  });
}

Variable::Variable(const Init& initial_value, const VariableOptions& options, Where where)
    : cell_(std::make_shared<Cell>(options.trainable)) {
  if (initial_value.is_empty_tensor()) throw InvalidArgumentError("initial_value must be specified.", where);
  // A literal is converted to the wanted dtype directly, so that it keeps all its digits.
  const bool literal = !initial_value.is_tensor() && options.dtype != DType::unknown;
  Tensor value = initial_value.tensor(literal ? std::optional(options.dtype) : std::nullopt, where);
  Sink* const graph = open_sink() ? open_sink() : sink_of(value);
  if (options.dtype != DType::unknown && options.dtype != value.dtype()) {
    std::optional<ExecuteNow> now;
    if (!value.is_symbolic()) now.emplace();
    value = value.cast(options.dtype, where);
  }
  if (!value.shape().is_known() || value.dtype() == DType::unknown)
    throw InvalidArgumentError(detail::join("initial_value must have a shape specified: ", value.shape()), where);
  if (DeviceRequest* request = graph ? nullptr : device_request())
    if (const std::optional<Device> place = request->place("Variable")) value = value.to(*place, where);
  cell_->name = cell_->given_name = options.name;
  cell_->spec = value.spec();
  cell_->device = value.device();
  if (!value.is_symbolic()) cell_->store(detail::computed(value));
  if (graph) graph->declare(*this, value, where);
}

Tensor Variable::value(Where where) const {
  Tensor value;
  if (Sink* const graph = open_sink()) {
    value = graph->read(*this, {});  // errors of a run name the line of the declaration
  } else {
    try {
      value = cell_->load();
    } catch (const FailedPreconditionError& error) {
      throw FailedPreconditionError(
          error.message() + ": its initial value is symbolic, so that a session must run its initializer first", where);
    }
  }
  tell_read(recorders(), *this, value);
  return value;
}

Tensor Variable::assign(const Value& value) const { return changed(*this, Assign::set, value, "assign"); }
Tensor Variable::assign_add(const Value& delta) const { return changed(*this, Assign::add, delta, "assign_add"); }
Tensor Variable::assign_sub(const Value& delta) const { return changed(*this, Assign::subtract, delta, "assign_sub"); }

const std::string& Variable::name() const {
  if (cell_->path_names) cell_->path_names->update();
  return cell_->name;
}
const Shape& Variable::shape() const { return cell_->spec.shape; }
DType Variable::dtype() const { return cell_->spec.dtype; }
Device Variable::device() const { return cell_->device; }
bool Variable::trainable() const { return cell_->trainable.read(); }

In::In(const Variable& variable, const char* file, int line)
    : own_(variable.value({file, line})), variable_(&variable), where_{file, line} {}

}  // namespace tapestry
