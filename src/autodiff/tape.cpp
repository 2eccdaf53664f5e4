#include "tapestry/tape.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "autodiff/backward.hpp"
#include "autodiff/recorded_tape.hpp"
#include "autodiff/variable_cell.hpp"
#include "core/make_tensor.hpp"
#include "dispatch/abandoned_recorders.hpp"
#include "dispatch/declaration.hpp"
#include "dispatch/recorder.hpp"
#include "dispatch/tape_limits.hpp"
#include "ops/batching.hpp"
#include "ops/sparse.hpp"
#include "tapestry/ops.hpp"

namespace tapestry {

namespace {

void require_floating(DType dtype) {
  if (!is_floating(dtype))
    throw InvalidArgumentError(
        detail::join("The dtype of the watched tensor must be floating (e.g. tf.float32), got ", to_string(dtype)));
}

/// Whether a gradient can flow to a tensor of that type. A graph may learn only when it runs that it is a float.
bool may_flow(DType dtype) { return is_floating(dtype) || dtype == DType::unknown; }

/// Checks the arguments of `gradient` before it uses the tape up.
void check_arguments(const Tensors& targets, const std::vector<Source>& sources, const Tensors& seeds) {
  for (const Source& source : sources)
    if (!source.cell()) source.tensor().impl();
  for (const Tensor& target : targets) target.impl();
  check_seeds(targets, seeds);
}

const Tensor& only_target(const TensorList& targets) {
  if (targets.tensors().size() != 1)
    throw InvalidArgumentError(detail::join("A jacobian has one target, not ", targets.tensors().size()));
  targets.tensors()[0].impl();
  return targets.tensors()[0];
}

Tensor value_of(const Source& source) {
  if (!source.cell()) return source.tensor();
  const PauseRecording pause;
  return Variable(source.cell()).value();
}

}  // namespace

class GradientTape::Record final : public Recorder {
 public:
  explicit Record(const TapeOptions& options) : options_(options) { start(); }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  void start() {
    home_ = &recorders();
    abandoned_of_home_ = abandoned_recorders();
    home_->push_back(this);
    recording_ = true;
  }
  void stop() {
    require_home();
    const auto found = std::find(home_->begin(), home_->end(), this);
    if (found != home_->end()) home_->erase(found);
    recording_ = false;
  }
  /// Throws FailedPreconditionError when another thread is recorded: only that thread may change its list of recorders.
  /// A tape that does not record is in no list, and any thread may use it.
  void require_home() const {
    if (recording_ && home_ != &recorders())
      throw FailedPreconditionError("A GradientTape records the thread that made it and cannot be used by another one");
  }
  /// Called when the tape is destroyed. A record that another thread's list still has stays as long as that list.
  static void retire(std::unique_ptr<Record> record) {
    if (!record->recording_) return;
    if (record->home_ == &recorders()) return record->stop();
    record->abandoned_.store(true, std::memory_order_relaxed);
    if (const auto abandoned = record->abandoned_of_home_.lock()) abandoned->add(std::move(record));
  }
  /// Called after a pause. A tape that has given its gradient in the meantime stays stopped.
  void resume() {
    if (!claimed_) start();
  }
  bool is_recording() const { return recording_; }
  bool is_persistent() const { return options_.persistent; }

  void watch(const Tensor& tensor) {
    require_home();
    require_floating(tensor.dtype());
    slots_.insert(tensor.id());
  }
  void watch(const Variable& variable) {
    require_home();
    require_floating(variable.dtype());
    const PauseRecording pause;
    // In a graph, a Variable has the name scope in which it is read first: that of its layer.
    const Sink* const graph = open_sink();
    const Tensor value = graph ? graph->known_value(variable) : variable.value();
    if (value)
      see(variable, value);
    else
      slots_of_watched(variable);
  }

  void record(Call&& call) override {
    if (!call.op().gradient.flows() || is_abandoned()) return;
    Slots inputs;
    bool tracked = false;
    for (const Tensor& input : call.inputs()) {
      const std::int32_t slot = slots_.find(input.id());
      inputs.push_back(slot);
      tracked |= slot != SlotTable::none;
    }
    const auto flows_to = [](const Tensor& output) { return may_flow(output.dtype()); };
    if (!tracked || std::none_of(call.outputs().begin(), call.outputs().end(), flows_to)) return;
    RecordedCall& record = calls_.emplace_back(std::move(call), std::move(inputs));
    for (const Tensor& output : record.call.outputs()) record.outputs.push_back(slot_for(output));
    const Needs needs = needs_of(record.call.op());
    strip(record.call.mutable_inputs(), needs.inputs);
    strip(record.call.mutable_outputs(), needs.outputs);
  }

  bool keeps_input(const Call& call, std::size_t i) const override {
    const Op& op = call.op();
    return op.gradient.flows() && (needs_of(op).inputs >> std::min<std::size_t>(i, 31) & 1) != 0;
  }

  void extend(const Call& call) override {
    for (std::size_t i = calls_.size(); i-- > 0;) {
      RecordedCall& record = calls_[i];
      if (&record.call.op() != &call.op() || record.call.output(0).id() != call.output(0).id()) continue;
      for (std::size_t k = record.outputs.size(); k < call.outputs().size(); ++k) {
        const Tensor& output = call.output(k);
        record.outputs.push_back(slot_for(output));
        record.call.mutable_outputs().push_back(output);
      }
      return;
    }
  }

  void read(const Variable& variable, Tensor& value) override {
    if (is_abandoned()) return;
    if (options_.watch_accessed_variables && variable.trainable() && is_floating(variable.dtype()))
      see(variable, value);
    else if (watched_.contains(variable.cell().get()))
      see(variable, value);
  }

  std::vector<Tensor> gradients(const TensorList& targets, const std::vector<Source>& sources,
                                const GradientOptions& options, bool consume);
  void run_and_tell(Backward& walk, const std::vector<Source>& sources, bool consume,
                    const std::function<void(std::size_t)>& complete) const;

  /// Ends a tape that is not persistent. Throws FailedPreconditionError the second time.
  void claim() {
    require_home();
    if (is_persistent()) return;
    if (claimed_)
      throw FailedPreconditionError(
          "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)");
    claimed_ = true;
    if (recording_) stop();
  }

  void forget_calls() { calls_.clear(); }
  void forget() {
    calls_.clear();
    slots_.clear();
    watched_.clear();
    order_.clear();
    claimed_ = false;
  }

  std::vector<Variable> watched_variables() const { return order_; }
  const CallList& calls() const { return calls_; }
  std::unordered_map<std::int32_t, Variable> reads() const {
    std::unordered_map<std::int32_t, Variable> list;
    for (const Variable& variable : order_)
      for (const std::int32_t slot : watched_.at(variable.cell().get())) list.emplace(slot, variable);
    return list;
  }
  std::size_t size() const { return calls_.size(); }
  std::size_t bytes() const {
    std::unordered_set<const detail::Storage*> kept;
    std::size_t total = 0;
    for (std::size_t i = 0; i < calls_.size(); ++i)
      for (const Tensors* list : {&calls_[i].call.inputs(), &calls_[i].call.outputs()})
        for (const Tensor& tensor : *list)
          if (const detail::Storage* storage = tensor.impl().storage.get(); storage && kept.insert(storage).second)
            total += storage->bytes;
    return total;
  }

 private:
  /// Asked by the thread that is recorded, which alone may free what it has recorded.
  bool is_abandoned() {
    if (!abandoned_.load(std::memory_order_relaxed)) return false;
    forget();
    return true;
  }

  /// The slot of an output: none where no gradient can flow.
  std::int32_t slot_for(const Tensor& output) {
    return may_flow(output.dtype()) ? slots_.insert(output.id()) : SlotTable::none;
  }

  static void strip(Tensors& tensors, std::uint32_t needed) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if ((needed >> std::min<std::size_t>(i, 31) & 1) == 0) strip(tensors[i]);
  }
  static void strip(Tensor& tensor) {
    const detail::Storage* storage = tensor.impl().storage.get();
    if (storage && storage->bytes > strip_above_bytes) tensor = detail::without_data(tensor);
  }

  void see(const Variable& variable, const Tensor& value) {
    if (slots_.find(value.id()) != SlotTable::none) return;
    slots_of_watched(variable).push_back(slots_.insert(value.id()));
  }
  Slots& slots_of_watched(const Variable& variable) {
    const auto [found, is_new] = watched_.try_emplace(variable.cell().get());
    if (is_new) order_.push_back(variable);
    return found->second;
  }

  /// A tensor has one slot, a Variable one for each value that was read.
  Slots slots_of(const Source& source) const {
    if (!source.cell()) return {slots_.find(source.tensor().id())};
    const auto found = watched_.find(source.cell().get());
    return found == watched_.end() ? Slots{} : found->second;
  }

  TapeOptions options_;
  Recorders* home_ = nullptr;  ///< the list of the thread that is recorded
  std::weak_ptr<AbandonedRecorders> abandoned_of_home_;
  bool recording_ = false, claimed_ = false;
  std::atomic<bool> abandoned_ = false;
  SlotTable slots_;
  CallList calls_;
  std::unordered_map<const Variable::Cell*, Slots> watched_;
  std::vector<Variable> order_;  ///< the watched Variables, in the order of their first reads; keeps the cells alive
};

std::vector<Tensor> GradientTape::Record::gradients(const TensorList& targets, const std::vector<Source>& sources,
                                                    const GradientOptions& options, bool consume) {
  std::vector<Slots> slots;
  for (const Source& source : sources) slots.push_back(slots_of(source));

  const SinkScope scope("gradients");
  std::vector<std::int32_t> stops;
  for (const Tensor& stop : options.stop_gradients.tensors()) stops.push_back(slots_.find(stop.id()));
  Backward walk(calls_, slots_.size(), slots, stops);
  for (std::size_t i = 0; i < targets.tensors().size(); ++i) {
    const std::int32_t slot = slots_.find(targets.tensors()[i].id());
    if (slot == SlotTable::none) continue;
    walk.accumulate(slot, first_gradient(targets.tensors(), options.output_gradients.tensors(), i));
  }
  const auto gradient_of = [&](std::size_t i) {
    const Tensor gradient = walk.gradient(slots[i]);
    return !gradient && options.unconnected == Unconnected::zero ? zeros_like(value_of(sources[i])) : gradient;
  };
  std::vector<Tensor> found;
  if (options.when_final) {
    found.resize(sources.size());
    run_and_tell(walk, sources, consume, [&](std::size_t i) {
      found[i] = gradient_of(i);
      options.when_final(i, found[i]);
    });
  } else {
    walk.run(consume);
    for (std::size_t i = 0; i < sources.size(); ++i) found.push_back(gradient_of(i));
  }
  return found;
}

/// Runs the walk, and calls `complete` with the number of each source as soon as its gradient is complete.
void GradientTape::Record::run_and_tell(Backward& walk, const std::vector<Source>& sources, bool consume,
                                        const std::function<void(std::size_t)>& complete) const {
  const std::vector<std::size_t> readers = walk.first_readers();
  std::multimap<std::size_t, std::size_t, std::greater<>> pending;  // by call, the sources that are complete after it
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::size_t first = SIZE_MAX;
    for (const std::int32_t slot : slots_of(sources[i]))
      if (slot != SlotTable::none) first = std::min(first, readers[slot]);
    pending.emplace(first, i);
  }
  auto next = pending.begin();
  const auto tell_until = [&](std::size_t call) {
    for (; next != pending.end() && next->first >= call; ++next) complete(next->second);
  };
  tell_until(SIZE_MAX);
  walk.run(consume, tell_until);
}

GradientTape::GradientTape(const TapeOptions& options) : record_(std::make_unique<Record>(options)) {}
GradientTape::~GradientTape() { Record::retire(std::move(record_)); }

void GradientTape::watch(const Tensor& tensor, Where where) {
  blaming({}, where, [&] { record_->watch(tensor); });
}
void GradientTape::watch(const Variable& variable, Where where) {
  blaming({}, where, [&] { record_->watch(variable); });
}

std::vector<Tensor> GradientTape::gradients(const TensorList& targets, const std::vector<Source>& sources,
                                            const GradientOptions& options) {
  return blaming({}, targets.where(), [&] {
    check_arguments(targets.tensors(), sources, options.output_gradients.tensors());
    record_->claim();
    return record_->gradients(targets, sources, options, !record_->is_persistent());
  });
}

namespace {

/// The gradients of the columns of the target, seen as [rows, columns], stacked along axis 1 of [rows, columns, ...].
/// `row`: the shape that the target has without its rows. Each column takes one backward walk; a graph that does not
/// know their number walks once for all.
Tensor stacked_gradients(const Tensor& target, const Shape& row,
                         const std::function<Tensor(const Tensor& seed)>& gradient, Where where) {
  if (!row.is_known()) {
    const auto of_column = [&](const Tensor& unit) {
      Tensor seed;
      {
        const PauseRecording pause;
        seed = broadcast_to(reshape(unit, row), target.shape());
      }
      return gradient(seed);
    };
    Tensor units;
    {
      const PauseRecording pause;
      units = unit_vectors(row, target.dtype(), target.device(), where);
    }
    const Tensor found = sink_of(target)->map(units, of_column, where);
    return found ? with_axes_moved(found, 0, 1, 1, where) : found;
  }
  const Shape::Size rows = target.rank() > row.rank() ? target.shape()[0] : Shape::Size(1);
  std::vector<Tensor> parts;
  bool connected = false;
  for (std::int64_t j = 0; j < row.size(); ++j) {
    Tensor seed;
    {
      const PauseRecording pause;
      const Tensor column = one_hot(full({rows}, j, {.dtype = int64}), row.size(), target.dtype());
      seed = reshape(column, target.shape()).to(target.device());
    }
    parts.push_back(gradient(seed));
    connected |= static_cast<bool>(parts.back());
  }
  return connected ? stack(parts, 1) : Tensor();
}

}  // namespace

Tensor GradientTape::jacobian(const TensorList& targets, const Source& source) {
  return blaming({}, targets.where(), [&] {
    const Tensor& target = only_target(targets);
    const Tensor value = value_of(source);
    Shape shape = target.shape();
    for (const Dimension& size : value.shape()) shape.push_back(size);
    record_->claim();
    if (target.shape().num_elements() == 0) return zeros(shape, {.dtype = value.dtype(), .device = value.device()});
    const auto gradient = [&](const Tensor& seed) {
      Tensor row = record_->gradients(target, {source}, {.output_gradients = seed}, false)[0];
      return row ? expand_dims(row, 0) : row;
    };
    const Tensor rows = stacked_gradients(target, target.shape(), gradient, targets.where());
    if (!record_->is_persistent()) record_->forget_calls();
    return rows ? reshape(rows, shape) : rows;
  });
}

Tensor GradientTape::batch_jacobian(const TensorList& targets, const Source& source) {
  return blaming({}, targets.where(), [&] {
    const Tensor& target = only_target(targets);
    const Tensor value = value_of(source);
    if (target.rank() < 1 || value.rank() < 1 || !agree({target.shape()[0]}, {value.shape()[0]}))
      throw InvalidArgumentError(detail::join("batch_jacobian: the first dimensions of the target ", target.shape(),
                                              " and of the source ", value.shape(), " must be equal"));
    Shape row = target.shape(), shape = target.shape();
    row.erase(0);
    for (int i = 1; i < value.rank(); ++i) shape.push_back(value.shape()[i]);
    record_->claim();
    if (target.shape().num_elements() == 0) return zeros(shape, {.dtype = value.dtype(), .device = value.device()});
    const auto gradient = [&](const Tensor& seed) {
      return record_->gradients(target, {source}, {.output_gradients = seed}, false)[0];
    };
    const Tensor columns = stacked_gradients(target, row, gradient, targets.where());
    if (!record_->is_persistent()) record_->forget_calls();
    return columns ? reshape(columns, shape) : columns;
  });
}

GradientTape::Pause::Pause(Record& record) : record_(record) { record_.stop(); }
GradientTape::Pause::~Pause() { record_.resume(); }

GradientTape::Pause GradientTape::stop_recording(Where where) {
  if (!record_->is_recording())
    throw FailedPreconditionError("Trying to stop recording a tape which is not recording.", where);
  return blaming({}, where, [&] { return Pause(*record_); });
}

void GradientTape::reset(Where where) {
  blaming({}, where, [&] { record_->require_home(); });
  record_->forget();
  if (!record_->is_recording()) record_->start();
}

std::vector<Variable> GradientTape::watched_variables() const { return record_->watched_variables(); }
std::size_t GradientTape::size() const { return record_->size(); }
std::size_t GradientTape::bytes() const { return record_->bytes(); }

RecordedTape::RecordedTape(const GradientTape& tape) : calls(tape.record_->calls()), reads(tape.record_->reads()) {}

}  // namespace tapestry
