/// How an Executable has its device record what it does in every run, and replay it.

#include <algorithm>
#include <optional>

#include "autodiff/variable_cell.hpp"
#include "backend/backend.hpp"
#include "backend/matmul_precision.hpp"
#include "core/make_tensor.hpp"
#include "graph/executable.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

using Locks = std::vector<std::unique_lock<std::recursive_mutex>>;

/// The Variables that a step reads or changes; none for most steps.
std::span<const Variable> variables_of(const Call& call) {
  const VariablesRef* variables = call.attrs().find<VariablesRef>("variables");
  return variables ? std::span<const Variable>(**variables) : std::span<const Variable>();
}

}  // namespace

/// Neighbouring steps that can be recorded. A recording is as good as the memory on which it was made: that of the
/// Variables, and what earlier steps have bound. It is made when a run finds the memory that the run before it found,
/// and replayed while that stays so; other runs execute the steps.
struct Executable::Segment {
  struct Use {
    Variable variable;
    bool changed = false;
  };

  std::size_t end = 0;
  std::vector<Use> uses;
  std::vector<std::int32_t> bound;  ///< the roots that it finds bound
  std::optional<Addresses> seen;    ///< by the last run: of the Variables, then of `bound`
  bool is_due = false;              ///< to be recorded at once, as a piece of one that was
  std::unique_ptr<Recording> recording;
  Addresses recorded;                                    ///< what the recording is for
  MatmulPrecision precision = MatmulPrecision::highest;  ///< and with which setting it was made

  /// Keeps other threads from the Variables; nothing when one of them uses one now.
  std::optional<Locks> lock() const {
    Locks locks;
    for (const Use& use : uses) {
      locks.push_back(use.variable.cell()->try_lock());
      if (!locks.back()) return std::nullopt;
    }
    return locks;
  }
};

Executable::Segment& Executable::segment_at(std::size_t begin) {
  std::shared_ptr<Segment>& known = steps_[begin].segment;
  if (known) return *known;
  known = std::make_shared<Segment>();
  Segment& segment = *known;
  std::vector<std::int32_t> seen;
  for (segment.end = begin; segment.end < steps_.size() && !steps_[segment.end].obstacle; ++segment.end) {
    const Step& step = steps_[segment.end];
    for (const Variable& variable : variables_of(step.call)) {
      const auto is_same = [&](const Segment::Use& use) { return use.variable.cell() == variable.cell(); };
      auto use = std::find_if(segment.uses.begin(), segment.uses.end(), is_same);
      if (use == segment.uses.end()) use = segment.uses.insert(use, {variable});
      use->changed = use->changed || step.kind != Step::Kind::read;
    }
    for (const std::int32_t index : step.roots) {
      if (root(index).lies_in_arena() || std::find(seen.begin(), seen.end(), index) != seen.end()) continue;
      seen.push_back(index);
      if (step.root != index) segment.bound.push_back(index);
    }
  }
  return segment;
}

/// Finds the memory on which a segment would work. Returns false where no recording can: values that do not lie in
/// row-major order, or that would be copied before they are changed, because somebody else holds them.
bool Executable::find_memory(const Segment& segment, Addresses& memory) {
  for (const auto& [variable, changed] : segment.uses) {
    memory.push_back(variable.cell()->memory());
    if (!memory.back()) return false;
    // What the plan itself has read it lets go of, before it changes it.
    std::uint32_t own = 0;
    for (const std::int32_t index : segment.bound)
      if (const Root& each = root(index); each.last_step < segment.end && !each.fetched)
        if (each.tensors[0].first.impl().data == memory.back()) own += static_cast<std::uint32_t>(each.tensors.size());
    if (changed && !variable.cell()->may_change_in_place(own)) return false;
  }
  for (const std::int32_t index : segment.bound) memory.push_back(root(index).tensors[0].first.impl().data);
  return true;
}

void Executable::run_segments(const Deadline* deadline) {
  for (std::size_t i = 0; i < steps_.size();) {
    require_time(deadline, i);
    if (!steps_[i].obstacle) {
      i = run_segment(i, deadline);
    } else {
      run_step(steps_[i], deadline);
      let_go(steps_[i++]);
    }
  }
}

/// Returns the step behind those that have run.
std::size_t Executable::run_segment(std::size_t begin, const Deadline* deadline) {
  Segment& segment = segment_at(begin);
  const std::size_t end = segment.end;
  if (const std::optional<Locks> locks = segment.lock()) {
    Addresses memory;
    const bool is_fit = find_memory(segment, memory);
    const bool is_current = memory == segment.recorded && segment.precision == current_matmul_precision();
    if (is_fit && segment.recording && is_current) return replay(begin);
    segment.recording.reset();  // a Variable may come back to an address, which is other memory then
    if (is_fit && (segment.is_due || segment.seen == memory)) return record(begin, memory);
    segment.seen.reset();
    if (is_fit) segment.seen = std::move(memory);
  }
  for (std::size_t i = begin; i < end; ++i) {
    require_time(deadline, i);
    run_step(steps_[i], deadline);
    let_go(steps_[i]);
  }
  return end;
}

/// Does from the recording what the steps would do. The Variables are locked.
std::size_t Executable::replay(std::size_t begin) {
  Segment& segment = *steps_[begin].segment;
  segment.recording->replay();
  for (std::size_t i = begin; i < segment.end; ++i) {
    steps_[i].replayed = true;
    let_go(steps_[i]);
  }
  for (const auto& [variable, changed] : segment.uses)
    if (changed) variable.cell()->renew();
  // What is read here and used later.
  for (std::size_t i = begin; i < segment.end; ++i)
    if (const Step& step = steps_[i]; step.kind == Step::Kind::read && root(step.root).last_step >= segment.end)
      bind(root(step.root), variables_of(step.call)[0].cell()->load());
  return segment.end;
}

/// What the roots of `bound` hold, but for what lies in the memory of a Variable, which nobody may hold while it
/// changes.
Tensors Executable::held_by(const Segment& segment, const Addresses& memory) {
  const auto variables_end = memory.begin() + static_cast<std::ptrdiff_t>(segment.uses.size());
  Tensors held;
  for (const std::int32_t index : segment.bound) {
    const Tensor& value = root(index).tensors[0].first;
    const bool is_variable = std::find(memory.begin(), variables_end, value.impl().data) != variables_end;
    held.push_back(is_variable ? Tensor() : make_view(value, value.shape(), value.strides()));
  }
  return held;
}

/// Binds them again, when nothing has been done after all.
void Executable::hold_again(const Segment& segment, const Addresses& memory, const Tensors& held) {
  for (std::size_t i = 0; i < held.size(); ++i) {
    Tensor value = held[i];
    for (std::size_t k = 0; k < segment.uses.size() && !value; ++k)
      if (memory[k] == memory[segment.uses.size() + i]) value = segment.uses[k].variable.cell()->load();
    bind(root(segment.bound[i]), value);
  }
}

/// After new obstacles in [begin, end): what is left between them is recorded as soon as it is met.
void Executable::split(std::size_t begin, std::size_t end) {
  steps_[begin].segment.reset();
  for (std::size_t i = begin; i < end; ++i)
    if (!steps_[i].obstacle && (i == begin || steps_[i - 1].obstacle)) segment_at(i).is_due = true;
}

/// Whether the Variables still have the memory with which the segment began; steps that gave one another get an
/// obstacle.
bool Executable::has_kept_memory(std::size_t begin, const Addresses& memory) {
  const Segment& segment = *steps_[begin].segment;
  bool all = true;
  for (std::size_t k = 0; k < segment.uses.size(); ++k) {
    const auto& cell = segment.uses[k].variable.cell();
    if (cell->memory() == memory[k]) continue;
    all = false;
    for (std::size_t i = begin; i < segment.end; ++i)
      for (const Variable& variable : variables_of(steps_[i].call))
        if (variable.cell() == cell && steps_[i].kind != Step::Kind::read)
          steps_[i].obstacle = "changes a Variable whose value is needed later";
  }
  return all;
}

/// Runs a segment and keeps a recording of it; where a step turns out to do more than can be recorded, it is split.
/// Returns the step behind those that have run. The Variables are locked.
std::size_t Executable::record(std::size_t begin, const Addresses& memory) {
  Segment& segment = *steps_[begin].segment;
  const std::size_t end = segment.end;
  const Tensors held = held_by(segment, memory);
  const MatmulPrecision precision = current_matmul_precision();
  std::size_t done = begin;
  const char* obstacle = nullptr;
  std::exception_ptr error;
  std::unique_ptr<Recording> recording = steps_[begin].backend->record([&] {
    try {
      for (; done < end; ++done) {
        run_step(steps_[done], nullptr);
        let_go(steps_[done]);
      }
    } catch (const CannotRecord&) {
      obstacle = "waits for the device, or copies from the host";
    } catch (const ResourceExhaustedError&) {
      obstacle = "needs more memory than a recording can keep";
    } catch (...) {
      error = std::current_exception();
    }
  });
  if (!recording) {
    hold_again(segment, memory, held);
    for (std::size_t i = begin; i < end; ++i) steps_[i].obstacle = "could not be recorded";
    split(begin, end);
    return begin;
  }
  recording->replay();
  for (std::size_t i = begin; i < done; ++i) steps_[i].replayed = true;
  segment.seen.reset();
  if (error) std::rethrow_exception(error);
  if (obstacle) steps_[done].obstacle = obstacle;
  if (has_kept_memory(begin, memory) && !obstacle) {
    segment.recording = std::move(recording);
    segment.recorded = memory;
    segment.precision = precision;
    segment.is_due = false;
  } else {
    split(begin, end);
  }
  return done;
}

}  // namespace tapestry::detail
