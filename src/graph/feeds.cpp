#include "graph/feeds.hpp"

#include <sstream>

#include "core/deferred.hpp"
#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"

namespace tapestry::detail {
namespace {

/// "(3,)", "(2, 3)", "(?, 3)": a shape as Python writes it.
std::string python_shape(const Shape& shape) {
  if (!shape.has_rank()) return "<unknown>";
  std::string text = "(";
  for (int i = 0; i < shape.rank(); ++i)
    text += (i > 0 ? ", " : "") + (shape.sizes()[i] < 0 ? std::string("?") : std::to_string(shape.sizes()[i]));
  return text + (shape.rank() == 1 ? ",)" : ")");
}

/// Whether a value may be fed to a tensor of another dtype: not to bool, floats only to floats, and int64 to int32 only
/// as a scalar that fits.
bool can_be_fed_as(const Tensor& value, DType wanted) {
  if (wanted == boolean || (is_floating(value.dtype()) && !is_floating(wanted))) return false;
  if (value.dtype() != int64 || wanted != int32) return true;
  return value.rank() == 0 && std::in_range<std::int32_t>(value.item<std::int64_t>());
}

}  // namespace

Tensor fed_value(const Tensor& key, const Init& value, Where where) {
  const ExecuteNow now;
  Tensor tensor = value.tensor({}, where);
  if (tensor) tensor = computed(tensor);
  if (!tensor || tensor.is_symbolic())
    throw InvalidArgumentError(
        join("The value of a feed cannot be a symbolic tensor, as for Tensor '", key.name(), "'"), where);
  if (!can_be(key.shape(), tensor.shape()))
    throw InvalidArgumentError(join("Cannot feed value of shape ", python_shape(tensor.shape()), " for Tensor '",
                                    key.name(), "', which has shape '", python_shape(key.shape()), "'"),
                               where);
  const DType wanted = key.dtype();
  if (wanted == DType::unknown || wanted == tensor.dtype()) return tensor;
  if (!can_be_fed_as(tensor, wanted)) {
    std::ostringstream number;
    if (tensor.rank() == 0) number << tensor << ' ';
    const std::string_view larger =
        is_integer(tensor.dtype()) && is_integer(wanted)
            ? " Try explicitly setting the type of the feed tensor to a larger type (e.g. int64)."
            : "";
    throw InvalidArgumentError(
        join("Type of feed value ", number.str(), "with type ", to_string(tensor.dtype()),
             " is not compatible with Tensor type ", to_string(wanted), " of Tensor '", key.name(), "'.", larger),
        where);
  }
  return value.tensor(wanted, where);
}

}  // namespace tapestry::detail
