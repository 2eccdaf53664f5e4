#include "graph/infer_specs.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/make_tensor.hpp"
#include "dispatch/declaration.hpp"
#include "graph/graph_state.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

/// What the results of an op have in common.
bool merge(std::optional<Specs>& all, const Specs& specs) {
  if (!all) {
    all = specs;
    return true;
  }
  if (all->size() != specs.size()) return false;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    Spec& known = (*all)[i];
    if (known.dtype != specs[i].dtype) known.dtype = DType::unknown;
    if (known.shape.rank() != specs[i].shape.rank()) known.shape = Shape::unknown_rank();
    for (int axis = 0; axis < known.shape.rank(); ++axis)
      if (known.shape.sizes()[axis] != specs[i].shape.sizes()[axis]) known.shape.set(axis, -1);
  }
  return true;
}

/// What an op infers for every rank that its inputs of unknown rank, the open ones, can have with all sizes `size`.
/// Those whose bit is set in `deeper` have one axis more than the others. Nothing when the op takes none of these
/// ranks, or when the number of its results depends on them.
std::optional<Specs> infer_for_all_ranks(const Call& call, const std::vector<std::size_t>& open, std::uint32_t deeper,
                                         std::int64_t size = -1) {
  std::optional<Specs> all;
  int last = -1;  // the last rank that the op takes
  for (int rank = 0; rank <= Shape::max_rank; ++rank) {
    Call trial(call.op(), call.inputs(), call.attrs(), call.where(), call.name());
    for (std::size_t i = 0; i < open.size(); ++i) {
      const int own = std::min(rank + static_cast<int>(deeper >> i & 1), Shape::max_rank);
      trial.mutable_inputs()[open[i]] = make_symbolic(
          call.input(open[i]).dtype(), Shape(std::vector<std::int64_t>(static_cast<std::size_t>(own), size)), cpu());
    }
    try {
      if (!merge(all, call.op().infer(trial))) return {};
      last = rank;
    } catch (const Error&) {
      continue;  // the op does not take these ranks
    }
  }
  // An op that takes scalars only may be one that needs the sizes of others, such as a squeeze without axes.
  if (last == 0)
    for (Spec& each : *all) each.shape = Shape::unknown_rank();
  return all;
}

/// What an op infers for all ranks of its inputs that it takes.
std::optional<Specs> infer_for_all_ranks(const Call& call) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < call.inputs().size(); ++i)
    if (!call.input(i).shape().has_rank()) open.push_back(i);
  std::optional<Specs> all = infer_for_all_ranks(call, open, 0);
  if (all && open.size() == 1) return all;
  // Classes, say, have an axis less than what they are the classes of. Other ops need the sizes of indices.
  const std::uint32_t combinations = open.size() <= 3 ? 1U << open.size() : 0;
  for (const std::int64_t size : {-1, 1})
    for (std::uint32_t deeper = size < 0 ? 1 : 0; !all && deeper < combinations && (size < 0 || call.op().outputs > 0);
         ++deeper)
      all = infer_for_all_ranks(call, open, deeper, size);
  // Not all combinations of ranks and sizes were tried: these tell dtypes, but no shapes.
  for (std::size_t i = 0; all && i < all->size(); ++i) (*all)[i].shape = Shape::unknown_rank();
  return all;
}

/// How many results an op has if its inputs of unknown dtype are floats; no dtype changes their number. Nothing when
/// the number depends on a rank or a size.
std::optional<Specs> infer_as_floats(const Call& call) {
  Call trial(call.op(), call.inputs(), call.attrs(), call.where(), call.name());
  for (Tensor& each : trial.mutable_inputs())
    if (each.dtype() == DType::unknown) each = make_symbolic(float32, each.shape(), cpu());
  const auto& inputs = trial.inputs();
  std::optional<Specs> specs;
  if (std::any_of(inputs.begin(), inputs.end(), is_unknown))
    specs = infer_for_all_ranks(trial);
  else
    specs = trial.op().infer(trial);
  for (std::size_t i = 0; specs && i < specs->size(); ++i) (*specs)[i] = {DType::unknown, Shape::unknown_rank()};
  return specs;
}

}  // namespace

Specs infer_specs(const Call& call) {
  const AttrValue* dtype = call.attrs().find("dtype");
  if (const auto* asked = dtype ? std::get_if<DType>(dtype) : nullptr;
      asked && size_of(*asked) == 0 && &call.op() != &placeholder_op)
    throw InvalidArgumentError(join("A tensor cannot be made of the dtype ", *asked));
  if (std::none_of(call.inputs().begin(), call.inputs().end(), is_unknown)) return call.op().infer(call);
  const bool has_types = std::none_of(call.inputs().begin(), call.inputs().end(),
                                      [](const Tensor& input) { return input.dtype() == DType::unknown; });
  if (has_types)
    if (const std::optional<Specs> specs = infer_for_all_ranks(call)) return *specs;
  if (find_attr(call.op(), "functions")) return call.op().infer(call);  // they tell as much as is known
  if (call.op().outputs < 0 && !has_types)
    if (const std::optional<Specs> specs = infer_as_floats(call)) return *specs;
  if (call.op().outputs < 0)
    throw InvalidArgumentError(
        "The number of results depends on an input whose dtype or rank is not known yet; give "
        "the placeholder a dtype and a shape");
  return Specs(static_cast<std::size_t>(call.op().outputs), Spec{DType::unknown, Shape::unknown_rank()});
}

}  // namespace tapestry::detail
