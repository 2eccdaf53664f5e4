// Forward differentiation.

#include <algorithm>
#include <exception>
#include <unordered_map>

#include "autodiff/backward.hpp"
#include "autodiff/points.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/tape.hpp"

namespace tapestry {
namespace {

/// Whether a tensor can have a derivative. The dtype of a tensor of a graph may be unknown.
bool may_depend(const Tensor& tensor) { return is_floating(tensor.dtype()) || tensor.dtype() == DType::unknown; }

/// Differentiates in one direction while ops run: each call's outputs get their derivatives at once, so nothing of the
/// call need be kept. An op has a gradient function g -> J^T g only; as this is linear, its own gradient is u -> J u
/// (J. Townsend, "A new trick for calculating Jacobian vector products", 2017).
class Pushforward final : public Recorder {
 public:
  Pushforward(const Tensors& points, const Tensors& directions) {
    for (std::size_t i = 0; i < points.size(); ++i) keep(points[i], {directions[i], nullptr});
    recorders().push_back(this);
  }
  ~Pushforward() override { recorders().erase(std::find(recorders().begin(), recorders().end(), this)); }
  Pushforward(const Pushforward&) = delete;
  Pushforward& operator=(const Pushforward&) = delete;

  void record(Call&& call) override {
    if (!call.op().gradient.flows()) return;
    std::exception_ptr problem;
    bool any = false;
    for (const Tensor& input : call.inputs()) {
      const Derivative* known = find(input);
      any = any || known;
      if (known && known->problem) problem = known->problem;
    }
    if (!any) return;
    const Tensors outputs = call.outputs();
    std::vector<Tensor> pushed(outputs.size());
    try {
      if (!problem) pushed = push(std::move(call));
    } catch (const LookupError&) {
      problem = std::current_exception();  // thrown where the result depends on this op
    }
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (bool(pushed[i]) || (problem && may_depend(outputs[i]))) keep(outputs[i], {pushed[i], problem});
  }
  /// The new outputs, which a gradient of the call reads, have derivatives, too.
  void extend(const Call& call) override { record(Call(call)); }
  void read(const Variable&, Tensor&) override {}

  /// The derivative of a tensor that the ops have computed.
  Tensor of(const Tensor& y, Where where) const {
    const Derivative* known = find(y);
    if (known && known->problem) std::rethrow_exception(known->problem);
    return known ? known->value : zeros_like(In(y, where));
  }

 private:
  struct Derivative {
    Tensor value;
    std::exception_ptr problem;  ///< why there is no value
  };
  struct Entry {
    Tensor tensor;
    Derivative derivative;
  };
  /// While it lives, only the recorders outside of this one see what runs.
  struct Outside {
    explicit Outside(const Recorder* inner) : all(std::move(recorders())) {
      recorders() = Recorders(all.begin(), std::find(all.begin(), all.end(), inner));
    }
    ~Outside() { recorders() = std::move(all); }
    Outside(const Outside&) = delete;
    Outside& operator=(const Outside&) = delete;
    Recorders all;
  };

  const Derivative* find(const Tensor& tensor) const {
    const auto found = tensor ? entries_.find(tensor.id()) : entries_.end();
    return found == entries_.end() ? nullptr : &found->second.derivative;
  }

  /// Forgets the derivatives of tensors that nobody else has any more, each time that their number has doubled.
  void keep(const Tensor& tensor, Derivative derivative) {
    entries_.insert_or_assign(tensor.id(), Entry{tensor, std::move(derivative)});
    if (entries_.size() < enough_) return;
    std::erase_if(entries_, [](const auto& each) { return !each.second.tensor.impl().references.is_shared(); });
    enough_ = std::max(least, 2 * entries_.size());
  }

  /// The derivatives of the outputs; empty for those that do not depend on x.
  std::vector<Tensor> push(Call&& call) const {
    const Outside outside(this);
    GradientTape tape({.watch_accessed_variables = false});
    Slots inputs, outputs;
    std::vector<std::int64_t> ids;
    std::vector<Slots> sources;
    std::vector<Tensor> directions, cotangents, of_outputs;
    for (const Tensor& input : call.inputs()) {
      const Derivative* known = find(input);
      const auto at = known ? std::find(ids.begin(), ids.end(), input.id()) : ids.end();
      inputs.push_back(known ? static_cast<std::int32_t>(at - ids.begin()) : SlotTable::none);
      if (!known || at != ids.end()) continue;
      sources.push_back({static_cast<std::int32_t>(ids.size())});
      ids.push_back(input.id());
      directions.push_back(known->value);
    }
    for (const Tensor& output : call.outputs()) {
      const bool depends = may_depend(output);
      outputs.push_back(depends ? static_cast<std::int32_t>(ids.size() + cotangents.size()) : SlotTable::none);
      if (!depends) continue;
      cotangents.push_back(zeros_like(In(output, call.where())));
      tape.watch(cotangents.back(), call.where());
    }
    std::vector<Tensor> pushed(call.outputs().size());
    if (cotangents.empty()) return pushed;
    CallList calls;
    const Where where = call.where();
    calls.emplace_back(std::move(call), std::move(inputs)).outputs = outputs;
    Backward walk(calls, static_cast<std::int32_t>(ids.size() + cotangents.size()), sources, {});
    for (std::size_t i = 0; i < cotangents.size(); ++i)
      walk.accumulate(static_cast<std::int32_t>(ids.size() + i), cotangents[i]);
    walk.run(false);
    std::vector<Tensor> pulled, along;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Tensor gradient = walk.gradient(sources[i]);
      if (!gradient) continue;
      pulled.push_back(gradient);
      along.push_back(directions[i]);
    }
    if (pulled.empty()) return pushed;
    const std::vector<Tensor> found = tape.gradient({pulled, where}, cotangents, {.output_gradients = along});
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] != SlotTable::none) pushed[i] = found[static_cast<std::size_t>(outputs[i]) - ids.size()];
    return pushed;
  }

  static constexpr std::size_t least = 8;
  std::unordered_map<std::int64_t, Entry> entries_;  ///< by id: what depends on x, and its derivative
  std::size_t enough_ = least;
};

std::string describe(const Tensor& x) { return x ? to_string(x.dtype()) + to_string(x.shape()) : "None"; }

}  // namespace

std::pair<Tensor, Tensor> detail::flat_jvp(const ListFunction& f, const std::vector<Value>& points,
                                           const std::vector<Value>& directions, Where where) {
  if (directions.size() != points.size())
    throw InvalidArgumentError(
        join("jvp: there are ", directions.size(), " directions for ", points.size(), " arguments"), where);
  Tensors xs, vs;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Tensor x = points[i].tensor({}, where), v = x ? like(directions[i], x, where) : Tensor();
    if (!v || v.dtype() != x.dtype() || !agree(v.shape(), x.shape()))
      throw InvalidArgumentError(join("jvp: the direction ", describe(v), " does not fit the argument ", describe(x)),
                                 where);
    if (!may_depend(x))
      throw InvalidArgumentError(join("jvp: the argument must be of a float type, not ", describe(x)), where);
    xs.push_back(own_argument(x, where));
    vs.push_back(v);
  }
  return locating({}, where, [&]() -> std::pair<Tensor, Tensor> {
    const Pushforward pushforward(xs, vs);
    const Tensor y = f(xs);
    return {y, pushforward.of(y, where)};
  });
}

}  // namespace tapestry
