#include "distributed/collective_ops.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <numeric>
#include <span>

#include "backend/backend.hpp"
#include "backend/views.hpp"
#include "core/deferred.hpp"
#include "core/make_tensor.hpp"
#include "dispatch/define.hpp"
#include "dispatch/recorder.hpp"
#include "distributed/background.hpp"
#include "distributed/buckets.hpp"
#include "distributed/carrier.hpp"
#include "tapestry/ops.hpp"

namespace tapestry {
namespace detail {
namespace {

// ---- Attributes -------------------------------------------------------------------------------------------------------

Collectives& collectives_of(const Call& call) { return *call.attr<CommunicatorRef>("communicator"); }
Communicator communicator_of(const Call& call) { return Communicator(call.attr<CommunicatorRef>("communicator")); }
Reduce reduce_of(const Call& call) { return static_cast<Reduce>(call.attr<std::int64_t>("reduce")); }

Attrs attrs_of(const Communicator& among) { return {{"communicator", among.collectives()}}; }
Attrs attrs_of(const Communicator& among, Reduce reduce) {
  return {{"communicator", among.collectives()}, {"reduce", static_cast<std::int64_t>(reduce)}};
}
Attrs attrs_of(const Communicator& among, Reduce reduce, std::int64_t slot, std::int64_t layout) {
  return {{"communicator", among.collectives()},
          {"reduce", static_cast<std::int64_t>(reduce)},
          {"slot", slot},
          {"layout", layout}};
}

/// Throws InvalidArgumentError for a type that cannot be reduced in that way.
void check_reduce(DType dtype, Reduce reduce) {
  if (reduce == Reduce::mean && !is_floating(dtype))
    throw InvalidArgumentError(join("Reduce::mean is for float types, not for ", to_string(dtype)));
  if (reduce == Reduce::sum && dtype == boolean)
    throw InvalidArgumentError("Reduce::sum is for numbers, not for bool; Reduce::max tells whether one is true");
}

// ---- Bodies -----------------------------------------------------------------------------------------------------------

/// The type in which elements travel to be reduced.
DType wire_type(DType dtype) { return is_half(dtype) ? float32 : dtype; }

/// The elements without gaps, on the same device.
Tensor as_type(const Tensor& tensor, DType dtype) {
  Backend& backend = backend_of(tensor.device());
  if (tensor.dtype() == dtype) return backend.contiguous(tensor);
  Tensor result = make_tensor(dtype, tensor.shape(), tensor.device());
  backend.copy(tensor, result);
  return result;
}

void divide_by(const Tensor& sum, int ranks) {
  Backend& backend = backend_of(sum.device());
  const Tensor count = make_tensor(sum.dtype(), {}, sum.device());
  backend.fill(ranks, count);
  backend.binary(Binary::divide, sum, count, 0, sum);
}

/// The body of AllReduce and ReduceScatter.
void reduce(Backend& backend, const Call& call, Exchange::Kind kind) {
  const Tensor &x = call.input(0), &y = call.output();
  const DType wire = wire_type(x.dtype());
  const Tensor result = y.dtype() == wire ? y : make_tensor(wire, y.shape(), y.device());
  const bool is_mean = reduce_of(call) == Reduce::mean;
  collectives_of(call).carrier().run({.kind = kind,
                                      .name = call.type(),
                                      .input = as_type(x, wire),
                                      .output = result,
                                      .given = x.dtype(),
                                      .reduce = is_mean ? Reduce::sum : reduce_of(call),
                                      .where = call.where()});
  if (is_mean) divide_by(result, collectives_of(call).size);
  if (!result.is(y)) backend.copy(result, y);
}

/// The body of AllGather and Broadcast.
void move(const Call& call, Exchange::Kind kind, int root = 0) {
  collectives_of(call).carrier().run({.kind = kind,
                                      .name = call.type(),
                                      .input = as_type(call.input(0), call.input(0).dtype()),
                                      .output = call.output(),
                                      .root = root,
                                      .where = call.where()});
}

// ---- Gradients --------------------------------------------------------------------------------------------------------

/// The product of the tensors that the other ranks have. (A quotient would be wrong where there are zeros.)
Tensor product_of_others(const Communicator& among, const Tensor& x) {
  const Tensor all = among.all_gather(expand_dims(x, 0));
  Tensor product = ones_like(x);
  for (int rank = 0; rank < among.size(); ++rank)
    if (rank != among.rank()) product = product * all(rank);
  return product;
}

/// The gradient of this rank's x: `y` is the reduced tensor and `g` the sum of the ranks' gradients of it.
Tensor gradient_of_reduce(const Communicator& among, Reduce reduce, const Tensor& x, const Tensor& y, const Tensor& g) {
  switch (reduce) {
    case Reduce::sum:
      return g;
    case Reduce::mean:
      return g / static_cast<double>(among.size());
    case Reduce::product:
      return g * product_of_others(among, x);
    default: {
      // The elements that equal the extreme one share its gradient.
      const Tensor extreme = equal(x, y).cast(x.dtype());
      return extreme * (g / among.all_reduce(extreme));
    }
  }
}

bool reads_values(Reduce reduce) { return reduce != Reduce::sum && reduce != Reduce::mean; }

// ---- Ops --------------------------------------------------------------------------------------------------------------

Specs infer_reduced(const Call& call) {
  check_reduce(call.input(0).dtype(), reduce_of(call));
  return {call.input(0).spec()};
}

TAPESTRY_OP(all_reduce_op){{
    .name = "AllReduce",
    .attrs = {{"communicator", AttrKind::communicator}, {"reduce", AttrKind::number}},
    .infer = infer_reduced,
    .forward = [](Backend& backend, const Call& call) { reduce(backend, call, Exchange::Kind::all_reduce); },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const Communicator among = communicator_of(call);
      return {gradient_of_reduce(among, reduce_of(call), call.input(0), call.output(), among.all_reduce(g))};
    },
    .stateful = true,
}};

TAPESTRY_OP(reduce_scatter_op){{
    .name = "ReduceScatter",
    .attrs = {{"communicator", AttrKind::communicator}, {"reduce", AttrKind::number}},
    .infer = [](const Call& call) -> Specs {
      Specs specs = infer_reduced(call);
      Shape& shape = specs[0].shape;
      const int ranks = collectives_of(call).size;
      if (shape.rank() < 1) throw InvalidArgumentError("A scalar has no parts for the ranks");
      const std::int64_t rows = shape.sizes()[0];
      if (rows % ranks != 0 && rows >= 0)
        throw InvalidArgumentError(join("The first axis of ", shape, " cannot be divided among ", ranks, " ranks"));
      shape.set(0, rows < 0 ? rows : rows / ranks);
      return specs;
    },
    .forward = [](Backend& backend, const Call& call) { reduce(backend, call, Exchange::Kind::reduce_scatter); },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const Communicator among = communicator_of(call);
      const Tensor y = reads_values(reduce_of(call)) ? among.all_gather(call.output()) : Tensor();
      return {gradient_of_reduce(among, reduce_of(call), call.input(0), y, among.all_gather(g))};
    },
    .stateful = true,
}};

TAPESTRY_OP(all_gather_op){{
    .name = "AllGather",
    .attrs = {{"communicator", AttrKind::communicator}},
    .infer = [](const Call& call) -> Specs {
      Spec spec = call.input(0).spec();
      const std::int64_t ranks = collectives_of(call).size;
      if (spec.shape.rank() == 0) {
        spec.shape = {ranks};
      } else if (spec.shape.sizes()[0] >= 0) {
        Shape shape = spec.shape;
        shape.set(0, shape.sizes()[0] * ranks);
        spec.shape = Shape(shape.sizes());  // checks that the number of elements fits
      }
      return {spec};
    },
    .forward = [](Backend&, const Call& call) { move(call, Exchange::Kind::all_gather); },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {reshape_like(communicator_of(call).reduce_scatter(g), call.input(0))};
    },
    .needs = needs_nothing,
    .stateful = true,
}};

int root_of(const Call& call) { return static_cast<int>(call.attr<std::int64_t>("root")); }

Specs infer_from_root(const Call& call) {
  const std::int64_t root = call.attr<std::int64_t>("root");
  if (root < 0 || root >= collectives_of(call).size)
    throw InvalidArgumentError(join("There is no rank ", root, " among ", collectives_of(call).size));
  return {call.input(0).spec()};
}

extern const Op& broadcast_grad;

TAPESTRY_OP(broadcast_op){{
    .name = "Broadcast",
    .attrs = {{"communicator", AttrKind::communicator}, {"root", AttrKind::number}},
    .infer = infer_from_root,
    .forward = [](Backend&, const Call& call) { move(call, Exchange::Kind::broadcast, root_of(call)); },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {apply(broadcast_grad, {{g, call.where()}}, call.attrs())};
    },
    .needs = needs_nothing,
    .stateful = true,
}};

/// The sum of all ranks' tensors on the root, and zeros on the others.
TAPESTRY_OP(broadcast_grad_op){{
    .name = "BroadcastGrad",
    .attrs = {{"communicator", AttrKind::communicator}, {"root", AttrKind::number}},
    .infer = infer_from_root,
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor& y = call.output();
          const Tensor sum = make_tensor(wire_type(y.dtype()), y.shape(), y.device());
          Collectives& among = collectives_of(call);
          among.carrier().run({.kind = Exchange::Kind::all_reduce,
                               .name = call.type(),
                               .input = as_type(call.input(0), sum.dtype()),
                               .output = sum,
                               .given = y.dtype(),
                               .where = call.where()});
          among.rank == root_of(call) ? backend.copy(sum, y) : backend.fill(0, y);
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {apply(broadcast_op, {{g, call.where()}}, call.attrs())};
    },
    .needs = needs_nothing,
    .stateful = true,
}};
const Op& broadcast_grad = broadcast_grad_op;

TAPESTRY_OP(barrier_op){{
    .name = "Barrier",
    .attrs = {{"communicator", AttrKind::communicator}},
    .infer = [](const Call&) -> Specs { return {}; },
    .forward =
        [](Backend&, const Call& call) {
          collectives_of(call).run({.kind = Exchange::Kind::barrier, .name = call.type(), .where = call.where()});
        },
    .gradient = no_gradient,
    .outputs = 0,
    .stateful = true,
}};

// ---- Buckets ----------------------------------------------------------------------------------------------------------

// AllReduceStart gives the elements of its inputs, one after the other, to the communicator's thread, and
// AllReduceWait takes the results from there. What runs between them runs beside the communication.

/// A number that tensors of other dtypes and shapes, or in another order, would not have.
std::uint64_t layout_of(const Call& call) {
  auto hash = static_cast<std::uint64_t>(call.attr<std::int64_t>("layout"));
  for (const Tensor& each : call.inputs()) {
    const Exchange one{.kind = Exchange::Kind::all_reduce, .name = call.type(), .input = each, .layout = hash};
    hash = one.signature();
  }
  return hash;
}

std::int64_t count_elements(const Tensors& tensors) {
  std::int64_t count = 0;
  for (const Tensor& each : tensors) count += each.size();
  return count;
}

/// Six digits: what differs in more of them comes from another machine, not from another setting.
std::string short_text(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", number);
  return text.data();
}

/// The settings as a text: "Adam(clip_norm 1, step 3, learning_rate 0.001, numbers 0.001 0.9 0.999)".
std::string settings_of(const Call& call) {
  const auto* text = call.attrs().find<std::string>("settings");
  if (!text) return {};
  const PauseRecording pause;
  const ExecuteNow now;
  const std::vector<double> numbers = (*call.attr<Closure>("numbers"))({})[0].to_vector<double>();
  std::string all =
      join(*text, ", step ", short_text(numbers[0]), ", learning_rate ", short_text(numbers[1]), ", numbers");
  for (std::size_t i = 2; i < numbers.size(); ++i) all += " " + short_text(numbers[i]);
  return all + ")";
}

Attrs with_settings(const Attrs& attrs, const SharedSettings& settings) {
  if (settings.name.empty()) return attrs;
  std::vector<Attr> all(attrs.begin(), attrs.end());
  all.emplace_back("settings", settings.name + "(clip_norm " + short_text(settings.clip_norm));
  all.emplace_back("numbers", settings.numbers);
  return Attrs(all);
}

std::vector<OpAttr> bucket_attrs() {
  return {{"communicator", AttrKind::communicator},
          {"reduce", AttrKind::number},
          {"slot", AttrKind::number},
          {"layout", AttrKind::number},
          {"settings", AttrKind::text, optional},
          {"numbers", AttrKind::function, optional}};
}

TAPESTRY_OP(all_reduce_start_op){{
    .name = "AllReduceStart",
    .attrs = bucket_attrs(),
    .infer = [](const Call& call) -> Specs {
      for (const Tensor& each : call.inputs()) {
        check_reduce(each.dtype(), reduce_of(call));
        if (each.dtype() != call.input(0).dtype())
          throw InvalidArgumentError(
              join("A bucket has one dtype, not ", to_string(call.input(0).dtype()), " and ", to_string(each.dtype())));
      }
      return {{uint8, {}}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          backend.fill(0, call.output());
          const Shape all{count_elements(call.inputs())};
          const DType wire = wire_type(call.input(0).dtype());
          const Device device = call.output().device();
          Exchange exchange{.kind = Exchange::Kind::all_reduce,
                            .name = call.type(),
                            .input = make_tensor(wire, all, device),
                            .output = make_tensor(wire, all, device),
                            .given = call.input(0).dtype(),
                            .layout = layout_of(call),
                            .settings = settings_of(call),
                            .where = call.where()};
          std::int64_t next = 0;
          for (const Tensor& each : call.inputs()) {
            backend.copy(each, view_as(exchange.input, each.shape(), next));
            next += each.size();
          }
          if (reduce_of(call) != Reduce::mean) exchange.reduce = reduce_of(call);
          collectives_of(call).carrier().start(call.attr<std::int64_t>("slot"), exchange);
        },
    .gradient = no_gradient,
    .stateful = true,
}};

TAPESTRY_OP(all_reduce_wait_op){{
    .name = "AllReduceWait",
    .attrs = bucket_attrs(),
    .infer = [](const Call& call) -> Specs {
      Specs specs;
      for (std::size_t i = 1; i < call.inputs().size(); ++i) specs.push_back(call.input(i).spec());
      return specs;
    },
    .forward =
        [](Backend& backend, const Call& call) {
          Collectives& among = collectives_of(call);
          const Device device = call.input(0).device();
          const Tensor flat = among.carrier().finish(call.attr<std::int64_t>("slot"), device, call.where());
          if (reduce_of(call) == Reduce::mean) divide_by(flat, among.size);
          std::int64_t next = 0;
          for (const Tensor& each : call.outputs()) {
            backend.copy(view_as(flat, each.shape(), next), each);
            next += each.size();
          }
        },
    .gradient = [](const Call& call, const Tensors& g) -> Tensors {
      std::vector<Tensor> list;
      for (std::size_t i = 0; i < g.size(); ++i) list.push_back(g[i] ? g[i] : zeros_like(call.input(i + 1)));
      const std::vector<Tensor> reduced = communicator_of(call).all_reduce(list, reduce_of(call), {}, call.where());
      Tensors gradients{Tensor()};
      gradients.append(reduced.data(), reduced.data() + reduced.size());
      return gradients;
    },
    .needs = needs_nothing,
    .shape_inputs = ~1U,
    .outputs = -1,
    .stateful = true,
}};

// ---- Rows -------------------------------------------------------------------------------------------------------------

std::atomic<std::int64_t> slots = 0;

/// So many rows from one of a tensor on, as the same kind of view on all devices.
Tensor rows_at(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  Shape shape = tensor.shape();
  const std::int64_t row = shape[0] == 0 ? 0 : tensor.size() / shape[0];
  shape.set(0, count);
  return view_as(tensor, shape, first * row);
}

/// The rows of all ranks, of which rank i has counts[i].
Tensor gather_unequal(const Call& call, const Tensor& own, std::span<const std::int64_t> counts) {
  Backend& backend = backend_of(own.device());
  const std::int64_t most = *std::max_element(counts.begin(), counts.end());
  const auto rows_like = [&](std::int64_t count) {
    Shape shape = own.shape();
    shape.set(0, count);
    return make_tensor(own.dtype(), shape, own.device());
  };
  Tensor all = rows_like(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  if (all.size() == 0) return all;
  // A collective needs equal shapes.
  const Tensor padded = rows_like(most), gathered = rows_like(most * std::ssize(counts));
  backend.fill(0, padded);
  if (own.size() > 0) backend.copy(own, rows_at(padded, 0, own.shape()[0]));
  collectives_of(call).carrier().run({.kind = Exchange::Kind::all_gather,
                                      .name = call.type(),
                                      .input = padded,
                                      .output = gathered,
                                      .where = call.where()});
  std::int64_t next = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    backend.copy(rows_at(gathered, static_cast<std::int64_t>(i) * most, counts[i]), rows_at(all, next, counts[i]));
    next += counts[i];
  }
  return all;
}

/// The ranks have different numbers of rows, and first tell them to each other. That is done by the thread that reduces
/// buckets: where a rank's gradient is not row-sparse it is there that it meets the others, and all get an error.
Tensors gather_rows_of(const Call& call) {
  const PauseRecording pause;
  const ExecuteNow now;
  Collectives& among = collectives_of(call);
  // A row that was looked up often travels once.
  const Unique rows = unique(call.input(0));
  Shape shape = call.input(1).shape();
  shape.set(0, rows.values.size());
  const Tensor like = make_tensor(call.input(1).dtype(), shape, call.input(1).device());
  const Tensor values = computed(to_tensor({rows.inverse, call.input(1)}, like));
  Exchange exchange{.kind = Exchange::Kind::all_gather,
                    .name = call.type(),
                    .input = make_tensor(int64, {1}, cpu()),
                    .output = make_tensor(int64, {among.size}, cpu()),
                    .layout = static_cast<std::uint64_t>(call.attr<std::int64_t>("layout")) + 1,
                    .settings = settings_of(call),
                    .where = call.where()};
  *mutable_data<std::int64_t>(exchange.input) = rows.values.size();
  const std::int64_t slot = ++slots;
  among.background(call.where()).start(slot, std::move(exchange));
  const std::vector<std::int64_t> counts = among.background(call.where()).wait(slot).to_vector<std::int64_t>();
  Backend& backend = backend_of(values.device());
  return {gather_unequal(call, backend.contiguous(rows.values), counts),
          gather_unequal(call, backend.contiguous(values), counts)};
}

/// Inputs: indices (int64) and values of rows. Not registered: only training makes it. Never destroyed, as the
/// registered ops outlive a program's static objects.
const Op& gather_rows_op = *new Op{
    .name = "AllGatherRows",
    .attrs = {{"communicator", AttrKind::communicator},
              {"layout", AttrKind::number},
              {"settings", AttrKind::text, optional},
              {"numbers", AttrKind::function, optional}},
    .infer = [](const Call& call) -> Specs {
      Shape rows = call.input(1).shape();
      rows.set(0, -1);
      return {{int64, {-1}}, {call.input(1).dtype(), rows}};
    },
    .evaluate = gather_rows_of,
    .gradient = no_gradient,
    .outputs = 2,
    .stateful = true,
};

}  // namespace

PendingReduce start_all_reduce(const Communicator& among, const Tensors& tensors, Reduce reduce, std::int64_t layout,
                               Where where, const SharedSettings& settings) {
  PendingReduce pending{attrs_of(among, reduce, ++slots, layout), tensors, {}, where};
  pending.handle = apply_all(all_reduce_start_op, tensors, with_settings(pending.attrs, settings), {}, where)[0];
  return pending;
}

IndexedSlices gather_rows(const Communicator& among, const IndexedSlices& rows, std::int64_t layout, Where where,
                          const SharedSettings& settings) {
  if (among.size() == 1) return rows;
  const Attrs attrs = with_settings({{"communicator", among.collectives()}, {"layout", layout}}, settings);
  const Tensors all = apply_all(gather_rows_op, {rows.indices.cast(int64), rows.values}, attrs, {}, where);
  return {all[0], all[1]};
}

Tensors finish(const PendingReduce& pending) {
  Tensors inputs{pending.handle};
  inputs.append(pending.tensors.begin(), pending.tensors.end());
  return apply_all(all_reduce_wait_op, inputs, pending.attrs, {}, pending.where);
}

}  // namespace detail

using namespace detail;

Tensor Communicator::all_reduce(In x, Reduce reduce, std::string_view name) const {
  return apply(all_reduce_op, {x}, attrs_of(*this, reduce), name);
}

std::vector<Tensor> Communicator::all_reduce(const std::vector<Tensor>& tensors, Reduce reduce, std::string_view name,
                                             Where where) const {
  std::vector<Tensor> results(tensors.size());
  if (reads_values(reduce)) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i]) results[i] = all_reduce({tensors[i], where}, reduce, name);
    return results;
  }
  const CallSiteScope site(where);
  Buckets buckets(*this, reduce, INT64_MAX, where);
  for (std::size_t i = 0; i < tensors.size(); ++i) buckets.add(i, tensors[i]);
  return buckets.finish(tensors.size());
}

Tensor Communicator::broadcast(In x, int root, std::string_view name) const {
  return apply(broadcast_op, {x}, {{"communicator", collectives_}, {"root", std::int64_t{root}}}, name);
}

void Communicator::broadcast(const std::vector<Variable>& variables, int root, Where where) const {
  const PauseRecording pause;
  std::vector<Tensor> values;
  values.reserve(variables.size());
  for (const Variable& each : variables) values.push_back(broadcast({each.value(), where}, root));
  for (std::size_t i = 0; i < variables.size(); ++i) variables[i].assign({values[i], where});
}

Tensor Communicator::all_gather(In x, std::string_view name) const {
  return apply(all_gather_op, {x}, attrs_of(*this), name);
}

Tensor Communicator::reduce_scatter(In x, Reduce reduce, std::string_view name) const {
  return apply(reduce_scatter_op, {x}, attrs_of(*this, reduce), name);
}

void Communicator::barrier(Where where) const { apply_all(barrier_op, {}, attrs_of(*this), {}, where); }

}  // namespace tapestry
