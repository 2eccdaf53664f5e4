#include "tapestry/variable.hpp"

#include "autodiff/variable_cell.hpp"
#include "backend/backend.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/ops.hpp"

namespace tapestry {
namespace {

/// The value as the cell wants it: a number or another dtype is converted, but never a float to whole numbers.
Tensor fitting(const Variable::Cell& cell, const In& value, std::string_view what) {
  const Tensor& given = value.tensor();
  if (!given) throw FailedPreconditionError(detail::join(what, ": the value is an empty Tensor"), value.where());
  const auto refuse = [&](std::string_view problem) {
    throw InvalidArgumentError(
        detail::join(what, ": variable '", cell.name, "' is ", to_string(cell.spec.dtype), cell.spec.shape,
                     ", the value is ",
                     value.is_number() ? "a number" : to_string(given.dtype()) + to_string(given.shape()), problem),
        value.where());
  };
  if (given.shape() != cell.spec.shape) refuse("; the shapes must be equal");
  if (given.dtype() == cell.spec.dtype) return given;
  if (is_floating(given.dtype()) && !is_floating(cell.spec.dtype))
    refuse("; a float does not turn into a whole number");
  return given.cast(cell.spec.dtype, value.where());
}

}  // namespace

void Variable::Cell::modify(const std::function<void(const Tensor&)>& change) {
  const std::lock_guard lock(mutex_);
  const bool shared =
      value_.impl().references.is_shared() || value_.impl().storage->references.is_shared() || !value_.is_contiguous();
  Tensor next;
  if (shared) {
    next = detail::make_tensor(value_.dtype(), value_.shape(), value_.device());
    backend_of(value_.device()).copy(value_, next);
  } else {
    next = detail::make_view(value_, value_.shape(), value_.strides());
  }
  change(next);
  value_ = std::move(next);
}

Variable::Variable(const Init& initial_value, const VariableOptions& options, Where where)
    : cell_(std::make_shared<Cell>()) {
  Tensor value = initial_value.tensor({}, where);
  if (options.dtype != DType::unknown) value = value.cast(options.dtype, where);
  cell_->name = options.name;
  cell_->trainable = options.trainable;
  cell_->spec = value.spec();
  cell_->device = value.device();
  cell_->store(value);
}

Tensor Variable::value() const {
  Tensor value = cell_->load();
  tell_read(recorders(), *this, value);
  return value;
}

Tensor Variable::assign(In value) {
  Tensor next = fitting(*cell_, value, "assign").to(cell_->device, value.where());
  cell_->store(next);
  return next;
}

Tensor Variable::assign_add(In delta) {
  const PauseRecording pause;
  Tensor next = add(In(cell_->load(), delta.where()), In(fitting(*cell_, delta, "assign_add"), delta.where()));
  cell_->store(next);
  return next;
}

Tensor Variable::assign_sub(In delta) {
  const PauseRecording pause;
  Tensor next = subtract(In(cell_->load(), delta.where()), In(fitting(*cell_, delta, "assign_sub"), delta.where()));
  cell_->store(next);
  return next;
}

const std::string& Variable::name() const { return cell_->name; }
const Shape& Variable::shape() const { return cell_->spec.shape; }
DType Variable::dtype() const { return cell_->spec.dtype; }
Device Variable::device() const { return cell_->device; }
bool Variable::trainable() const { return cell_->trainable; }

In::In(const Variable& variable, const char* file, int line) : own_(variable.value()), where_{file, line} {}

}  // namespace tapestry
