#include "distributed/rpc/sync_replicas.hpp"

#include <algorithm>
#include <optional>

#include "graph/graph_state.hpp"
#include "io/rpc/resource_ops.hpp"
#include "io/tensorflow/kept_node.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/sparse.hpp"

namespace tapestry::detail {
namespace {

using io::AttrDef;
using io::NodeDef;
using Fields = std::map<std::string, AttrDef, std::less<>>;

constexpr const char* sparse_accumulator = "SparseConditionalAccumulator";

/// Adds TensorFlow's nodes of queues and accumulators to the default graph.
class ServerNodes {
 public:
  explicit ServerNodes(Where where) : graph_(default_graph().state()), where_(where) {}

  Node& add(const std::string& op, const std::string& name, Tensors inputs, Fields attrs, int outputs = 1) {
    for (Tensor& each : inputs)
      if (!each.is_symbolic()) each = constant(each, {}, where_);
    const NodeDef def{.name = name, .op = op, .attrs = std::move(attrs)};
    const std::vector<io::Source> sources(inputs.size());
    return io::keep_unread_node(*graph_, io::NodeReader(def, sources), inputs, outputs, "", where_);
  }
  Operation run(const std::string& op, const std::string& name, const Tensors& inputs, Fields attrs = {}) {
    return compute(op, name, inputs, std::move(attrs)).op();
  }
  Tensor compute(const std::string& op, const std::string& name, const Tensors& inputs, Fields attrs) {
    return add(op, name, inputs, std::move(attrs)).output();
  }

  /// The operation that stands for the Variable, whose name it has in all workers' graphs.
  static Operation handle_of(const Variable& variable) { return variable.value().op().inputs()[0].op(); }

 private:
  std::shared_ptr<GraphState> graph_;
  Where where_;
};

Fields named(Fields attrs, const std::string& name) {
  attrs.emplace("container", std::string());
  attrs.emplace("shared_name", name);
  return attrs;
}

/// Where workers leave the gradients of a Variable, and the chief finds their mean.
class Accumulator {
 public:
  Accumulator(ServerNodes& nodes, const Variable& variable, const Tensor& gradient)
      : nodes_(nodes), variable_(variable), gradient_(gradient), slices_(indexed_slices(gradient)) {
    const std::string name = ServerNodes::handle_of(variable).name() + ":0/grad_accum";
    handle_ = nodes_.compute(slices_ ? sparse_accumulator : "ConditionalAccumulator", "accumulator", {},
                             named({{"dtype", type()},
                                    {"shape", slices_ ? Shape::unknown_rank() : variable.shape()},
                                    {"reduction_type", std::string(slices_ ? "SUM" : "MEAN")}},
                                   name));
  }

  Operation apply(const Tensor& local_step) const {
    if (!slices_)
      return nodes_.run("AccumulatorApplyGradient", "apply", {handle_, local_step, gradient_}, {{"dtype", type()}});
    // TensorFlow's mean of rows is that of the gradients which have the row. So the accumulator makes sums, and a row
    // of ones behind the last one counts the gradients.
    const std::int64_t count = variable_.shape()[0];
    Shape row = variable_.shape();
    row.set(0, 1);
    const Tensor indices = concat({slices_->indices.cast(int64), tensor(std::vector<std::int64_t>{count}, {1})}),
                 rows = concat({slices_->values, ones(row, {variable_.dtype()})});
    return nodes_.run("SparseAccumulatorApplyGradient", "apply",
                      {handle_, local_step, indices, rows, tensor(std::vector<std::int64_t>(), {0})},
                      {{"dtype", type()}, {"has_known_shape", false}});
  }

  /// The mean of the gradients, when so many are there.
  Tensor take(int count) const {
    const Tensor required = tensor(static_cast<std::int32_t>(count));
    if (!slices_) {
      io::ListDef shapes;
      shapes.shapes.push_back(variable_.shape());
      return nodes_.compute("AccumulatorTakeGradient", "take", {handle_, required},
                            {{"dtype", type()}, {"_output_shapes", shapes}});
    }
    Shape rows = variable_.shape();
    rows.set(0, -1);
    io::ListDef shapes;
    shapes.shapes = {Shape{-1}, rows, Shape{-1}};
    const Node& taken = nodes_.add(
        "SparseAccumulatorTakeGradient", "take", {handle_, required},
        {{"dtype", type()}, {"_output_shapes", shapes}, {"_output_types", types({int64, variable_.dtype(), int64})}},
        3);
    const Tensor &indices = taken.outputs()[0], &values = taken.outputs()[1];
    return to_tensor({indices(range(0, -1)), values(range(0, -1)) / values(range(-1, {}))}, variable_.value());
  }

  Operation set_step(const Tensor& step) const {
    return nodes_.run("AccumulatorSetGlobalStep", "set_step", {handle_, step});
  }

 private:
  static io::ListDef types(const std::vector<DType>& dtypes) {
    io::ListDef list;
    for (const DType each : dtypes) list.types.push_back(io::code_of(each));
    return list;
  }
  io::TypeCode type() const { return io::code_of(variable_.dtype()); }

  ServerNodes& nodes_;
  const Variable variable_;
  const Tensor gradient_;
  const std::optional<IndexedSlices> slices_;
  Tensor handle_;
};

/// A queue of int64 scalars.
class Queue {
 public:
  Queue(ServerNodes& nodes, const std::string& name) : nodes_(nodes) {
    io::ListDef scalar;
    scalar.shapes.emplace_back();
    handle_ =
        nodes_.compute("FIFOQueueV2", "tokens", {},
                       named({{"component_types", types()}, {"shapes", scalar}, {"capacity", std::int64_t{-1}}}, name));
  }
  Operation enqueue(const Tensor& value) const {
    return nodes_.run("QueueEnqueueV2", "enqueue", {handle_, value},
                      {{"Tcomponents", types()}, {"timeout_ms", std::int64_t{-1}}});
  }
  /// Takes all that is in it.
  Operation drain() const {
    return nodes_.run("QueueDequeueManyV2", "drain", {handle_, size()},
                      {{"component_types", types()}, {"timeout_ms", std::int64_t{-1}}});
  }
  Tensor dequeue() const {
    return nodes_.compute("QueueDequeueV2", "dequeue", {handle_},
                          {{"component_types", types()}, {"timeout_ms", std::int64_t{-1}}});
  }
  Tensor size() const {
    io::ListDef type;
    type.types.push_back(io::code_of(int32));
    return nodes_.compute("QueueSizeV2", "size", {handle_}, {{"_output_types", type}});
  }
  Operation close() const {
    return nodes_.run("QueueCloseV2", "close", {handle_}, {{"cancel_pending_enqueues", true}});
  }

 private:
  static io::ListDef types() {
    io::ListDef list;
    list.types.push_back(io::code_of(int64));
    return list;
  }
  ServerNodes& nodes_;
  Tensor handle_;
};

/// The step with whose values a worker computes: a Variable of the worker's task, which no checkpoint has.
class LocalStep {
 public:
  explicit LocalStep(ServerNodes& nodes) : nodes_(nodes) {
    handle_ = nodes_.compute(io::rpc::local_variable_op, "local_step", {},
                             named({{"dtype", io::code_of(int64)}, {"shape", Shape()}}, "sync_rep_local_step"));
  }
  Tensor read() const {
    return nodes_.compute(io::rpc::read_local_op, "local_step/read", {handle_}, {{"dtype", io::code_of(int64)}});
  }
  Operation assign(const Tensor& step, const std::string& name) const {
    return nodes_.run(io::rpc::assign_local_op, name, {handle_, step}, {{"dtype", io::code_of(int64)}});
  }

 private:
  ServerNodes& nodes_;
  Tensor handle_;
};

/// The devices of all workers, by that of one: the tasks 0, 1, ... of its job, or a chief and the tasks of "worker".
std::vector<std::string> workers_of(const std::string& own, int count) {
  const std::size_t at = own.find("/task:");
  if (at == std::string::npos) return std::vector<std::string>(static_cast<std::size_t>(count), own);
  std::string job = own.substr(0, at);
  std::vector<std::string> all;
  if (job == "/job:chief" || job == "/job:master") all.push_back(own), job = "/job:worker";
  for (int task = 0; std::cmp_less(all.size(), count); ++task) all.push_back(join(job, "/task:", task));
  return all;
}

}  // namespace

train::SyncReplicasOptimizer::Operations synchronize(train::Optimizer& optimizer,
                                                     const train::GradientsAndVariables& gradients,
                                                     const train::ApplyOptions& options, const SyncCounts& counts) {
  const Where where = counts.where;
  ServerNodes nodes(where);
  const Variable global_step = *options.global_step;
  const auto read_step = [&] { return global_step.value().cast(int64); };
  const std::string here = no_op("worker", where).device(), there = ServerNodes::handle_of(global_step).device();
  const NameScope scope("SyncReplicas", where);

  train::SyncReplicasOptimizer::Operations all;
  std::vector<Operation> applied, initialized;
  train::GradientsAndVariables means;
  std::optional<LocalStep> local;
  {
    const auto on = device(here);
    local.emplace(nodes);
  }
  const Tensor local_step = local->read();
  for (const auto& [gradient, variable] : gradients) {
    if (!gradient) continue;
    const auto on = device(ServerNodes::handle_of(variable).device());
    const Accumulator accumulator(nodes, variable, gradient);
    applied.push_back(accumulator.apply(local_step));
    means.emplace_back(accumulator.take(counts.gradients), variable);
    initialized.push_back(accumulator.set_step(read_step()));
  }
  if (means.empty()) throw InvalidArgumentError("No gradients provided for any variable");

  const auto on = device(there);
  // Each worker has a queue of tokens: a fast one cannot take the token of a slow one.
  std::vector<std::string> others = workers_of(here, counts.tokens);
  if (const auto at = std::find(others.begin(), others.end(), here); at != others.end()) others.erase(at);
  std::vector<Queue> queues;
  queues.reserve(others.size());
  for (const std::string& each : others) queues.emplace_back(nodes, "sync_token_q" + each);
  const Queue own(nodes, "sync_token_q" + here), starts(nodes, "sync_starts");
  // That of the chief comes last: it may end the run when it has its token.
  const auto give_tokens = [&](const char* name, const Tensor& step) {
    std::vector<Operation> given;
    given.reserve(queues.size());
    for (const Queue& each : queues) given.push_back(each.enqueue(step));
    std::optional<ControlScope> after;
    if (!given.empty()) after.emplace(ControlInputs(given));  // an empty list would leave the scope around
    return group({own.enqueue(step)}, name, where);
  };
  Tensor token;
  {
    const ControlScope after(applied);
    token = own.dequeue();
  }
  all.train = local->assign(token, "train");
  {
    const NameScope root("", where);
    const ControlScope after({optimizer.apply_gradients(means, options, where)});
    const NameScope again(scope.name(), where);
    all.sync = give_tokens("sync", read_step());
  }
  {
    // Tokens that an earlier worker of this task has left are not for this one.
    const ControlScope after({own.drain()});
    all.local_init = local->assign(read_step(), "local_init");
  }
  initialized.push_back(all.local_init);
  all.starts = starts.size();
  initialized.push_back(starts.enqueue(read_step()));
  all.chief_init = group(initialized, "chief_init", where);
  all.tokens = give_tokens("tokens", read_step());
  std::vector<Operation> closed{own.close()};
  for (const Queue& each : queues) closed.push_back(each.close());
  all.close = group(closed, "close", where);
  return all;
}

}  // namespace tapestry::detail
