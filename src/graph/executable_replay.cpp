/// How an Executable has its device record the steps that do the same in every run, and replay them.

#include <algorithm>
#include <optional>

#include "autodiff/variable_cell.hpp"
#include "backend/backend.hpp"
#include "backend/matmul_precision.hpp"
#include "backend/views.hpp"
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

/// The fewest steps that are worth a recording of their own, which runs while the host waits for the one before it.
constexpr std::size_t worthwhile_steps = 8;

}  // namespace

/// Consecutive steps that can be recorded. A recording is valid only for the addresses with which it was made: those of
/// the Variables, of the roots that earlier steps have bound, and of the arenas. It is made when a run finds the same
/// addresses as the run before, and is replayed as long as they stay the same. Other runs execute the steps.
struct Executable::Segment {
  struct Use {
    Variable variable;
    bool changed = false;
  };

  std::size_t end = 0;
  std::vector<Use> uses;
  std::vector<std::int32_t> bound;  ///< the roots that are bound before it runs
  std::optional<Addresses> seen;    ///< the addresses of the last run: of the Variables, of `bound`, of the arenas
  bool is_due = false;              ///< to be recorded at once: it comes from a segment that was split
  bool changes = false;             ///< whether it changes Variables
  bool checks_later = false;        ///< whether a step of it does
  std::shared_ptr<Recording> recording;
  Addresses recorded;                                    ///< the addresses of the recording
  MatmulPrecision precision = MatmulPrecision::highest;  ///< the setting of the recording

  /// Locks the Variables; nothing if another thread uses one of them now.
  std::optional<Locks> lock() const {
    Locks locks;
    for (const Use& use : uses) {
      locks.push_back(use.variable.cell()->try_lock());
      if (!locks.back()) return std::nullopt;
    }
    return locks;
  }
};

/// The end of the segment that begins at a step. No Variable is changed behind a late check, but for that of a change
/// itself (LateChecks). The segment ends behind its last late check if much else could follow: so the host waits for
/// the check while the device goes on.
std::size_t Executable::segment_end(std::size_t begin) const {
  std::size_t end = begin, checked = begin;
  for (; end < steps_.size() && !steps_[end].obstacle; ++end) {
    if (checked > begin && changes_variables(steps_[end].call)) break;
    if (steps_[end].checks_later && !changes_variables(steps_[end].call)) checked = end + 1;
  }
  return checked > begin && end - checked >= worthwhile_steps ? checked : end;
}

Executable::Segment& Executable::segment_at(std::size_t begin) {
  std::shared_ptr<Segment>& known = steps_[begin].segment;
  if (known) return *known;
  known = std::make_shared<Segment>();
  Segment& segment = *known;
  segment.end = segment_end(begin);
  std::vector<std::int32_t> seen;
  for (std::size_t i = begin; i < segment.end; ++i) {
    const Step& step = steps_[i];
    segment.changes |= changes_variables(step.call);
    segment.checks_later |= step.checks_later;
    for (const Variable& variable : variables_of(step.call)) {
      const auto is_same = [&](const Segment::Use& use) { return use.variable.cell() == variable.cell(); };
      auto use = std::find_if(segment.uses.begin(), segment.uses.end(), is_same);
      if (use == segment.uses.end()) use = segment.uses.insert(use, {variable});
      use->changed = use->changed || step.kind != Step::Kind::read;
    }
    for (const std::int32_t index : step.roots) {
      if (root(index).is_in_arena() || std::find(seen.begin(), seen.end(), index) != seen.end()) continue;
      seen.push_back(index);
      if (step.root != index) segment.bound.push_back(index);
    }
  }
  return segment;
}

/// Finds the addresses with which a segment would run. Returns false if a recording cannot use them: if the value of a
/// Variable is not contiguous, or would be copied before it is changed, because another tensor shares its memory.
bool Executable::find_memory(const Segment& segment, Addresses& memory) {
  for (const auto& [variable, changed] : segment.uses) {
    memory.push_back(variable.cell()->memory());
    if (!memory.back()) return false;
    // The plan's own tensors on this memory do not count if the segment releases them.
    std::uint32_t own = 0;
    for (const std::int32_t index : segment.bound)
      if (const Root& each = root(index); each.last_step < segment.end && !each.fetched)
        if (each.tensors[0].first.impl().data == memory.back()) own += static_cast<std::uint32_t>(each.tensors.size());
    if (changed && !variable.cell()->may_change_in_place(own)) return false;
  }
  for (const std::int32_t index : segment.bound) memory.push_back(root(index).tensors[0].first.impl().data);
  for (const Arena& arena : arenas_) memory.push_back(arena.address);
  return true;
}

void Executable::run_segments(const Deadline* deadline) {
  for (std::size_t i = 0; i < steps_.size();) {
    require_time(deadline, i);
    if (!steps_[i].obstacle) {
      i = run_segment(i, deadline);
    } else {
      // Only a kernel may run on what a refused value has led to.
      if (steps_[i].kind != Step::Kind::kernel || changes_variables(steps_[i].call)) settle_checks();
      run_step(steps_[i], deadline);
      unbind_unused(steps_[i++]);
    }
  }
}

/// Replays, records or executes the segment that begins at this step. Returns the index of the next step to run.
std::size_t Executable::run_segment(std::size_t begin, const Deadline* deadline) {
  Segment& segment = segment_at(begin);
  const std::size_t end = segment.end;
  if (segment.changes) settle_checks();
  if (may_lack_values_)
    for (std::size_t i = begin; i < end; ++i) require_values(steps_[i]);
  if (const std::optional<Locks> locks = segment.lock()) {
    Addresses memory;
    const bool is_fit = find_memory(segment, memory);
    const bool is_current = memory == segment.recorded && segment.precision == current_matmul_precision();
    if (is_fit && segment.recording && is_current) return replay(begin);
    segment.recording.reset();  // the same address may later belong to other memory
    if (is_fit && (segment.is_due || segment.seen == memory)) return record(begin, memory);
    segment.seen.reset();
    if (is_fit) segment.seen = std::move(memory);
  }
  for (std::size_t i = begin; i < end; ++i) {
    require_time(deadline, i);
    run_step(steps_[i], deadline);
    unbind_unused(steps_[i]);
  }
  return end;
}

/// Replays the recording instead of running the steps. The Variables are locked.
std::size_t Executable::replay(std::size_t begin) {
  Segment& segment = *steps_[begin].segment;
  segment.recording->replay();
  if (segment.checks_later) unsettled_.push_back({segment.recording, begin, segment.end});
  for (std::size_t i = begin; i < segment.end; ++i) {
    steps_[i].replayed = true;
    unbind_unused(steps_[i]);
  }
  for (const auto& [variable, changed] : segment.uses)
    if (changed) variable.cell()->renew();
  // Bind the values that are read here and used after the segment.
  for (std::size_t i = begin; i < segment.end; ++i)
    if (const Step& step = steps_[i]; step.kind == Step::Kind::read && root(step.root).last_step >= segment.end)
      bind(root(step.root), variables_of(step.call)[0].cell()->load());
  return segment.end;
}

/// The values of the roots of `bound`, with empty handles for those in the memory of a Variable: a handle on it would
/// prevent a change in place.
Tensors Executable::held_by(const Segment& segment, const Addresses& memory) {
  const auto variables_end = memory.begin() + segment.uses.size();
  Tensors held;
  for (const std::int32_t index : segment.bound) {
    const Tensor& value = root(index).tensors[0].first;
    const bool is_variable = std::find(memory.begin(), variables_end, value.impl().data) != variables_end;
    held.push_back(is_variable ? Tensor() : view_of(value));
  }
  return held;
}

/// Binds the roots of `bound` again to the values that they had, when the device could not record.
void Executable::bind_held(const Segment& segment, const Addresses& memory, const Tensors& held) {
  for (std::size_t i = 0; i < held.size(); ++i) {
    Tensor value = held[i];
    for (std::size_t k = 0; k < segment.uses.size() && !value; ++k)
      if (memory[k] == memory[segment.uses.size() + i]) value = segment.uses[k].variable.cell()->load();
    bind(root(segment.bound[i]), value);
  }
}

/// Splits the segment [begin, end) at its new obstacles and behind its late checks. The new segments are recorded as
/// soon as a run reaches them.
void Executable::split(std::size_t begin, std::size_t end) {
  steps_[begin].segment.reset();
  for (std::size_t i = begin; i < end;) {
    if (steps_[i].obstacle) {
      ++i;
      continue;
    }
    Segment& segment = segment_at(i);
    segment.is_due = true;
    i = segment.end;
  }
}

/// Whether the integers that a step reads stay where they are until its check is settled.
bool Executable::may_check_later(const Step& step) const {
  return std::all_of(step.roots.begin(), step.roots.end(), [&](std::int32_t index) {
    return roots_[index].is_in_arena() || !is_integer(roots_[index].source.dtype());
  });
}

/// Waits for the late checks of what was replayed in this run. If one has refused a value, the step that was given it
/// runs again, and throws its error.
void Executable::settle_checks() {
  const std::vector<Unsettled> replayed = std::exchange(unsettled_, {});
  const Unsettled* refused = nullptr;
  for (const Unsettled& each : replayed)
    if (each.recording->has_refused() && !refused) refused = &each;
  if (!refused) return;
  for (std::size_t i = refused->begin; i < refused->end; ++i)
    if (steps_[i].checks_later) run_step(steps_[i], nullptr);
  throw InternalError("A recorded kernel refused a value that it takes when it runs again");
}

/// Whether the Variables still have the memory with which the segment began. If one has not, the steps that change it
/// get an obstacle.
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

/// Runs a step while the device records. Returns whether it has a late check.
bool Executable::record_step(Step& step) {
  std::optional<LateChecks> late;
  if (may_check_later(step)) late.emplace(changes_variables(step.call));
  run_step(step, nullptr);
  step.checks_later = late && late->used();
  return step.checks_later;
}

/// Runs a segment and keeps a recording of it. Splits the segment if a step turns out not to be recordable. Returns the
/// index of the next step to run. The Variables are locked.
std::size_t Executable::record(std::size_t begin, const Addresses& memory) {
  Segment& segment = *steps_[begin].segment;
  const std::size_t end = segment.end;
  const Tensors held = held_by(segment, memory);
  const MatmulPrecision precision = current_matmul_precision();
  std::size_t done = begin;
  const char* obstacle = nullptr;
  std::exception_ptr error;
  bool checks_later = false, may_change = true;
  const std::shared_ptr<Recording> recording = steps_[begin].backend->record([&] {
    try {
      for (; done < end; ++done) {
        const bool changes = changes_variables(steps_[done].call);
        if (changes && !may_change) break;
        const bool checks = record_step(steps_[done]);
        checks_later |= checks;
        may_change &= changes || !checks;
        unbind_unused(steps_[done]);
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
    bind_held(segment, memory, held);
    for (std::size_t i = begin; i < end; ++i) steps_[i].obstacle = "could not be recorded";
    split(begin, end);
    return begin;
  }
  recording->replay();
  if (checks_later) unsettled_.push_back({recording, begin, done});
  for (std::size_t i = begin; i < done; ++i) steps_[i].replayed = true;
  segment.seen.reset();
  if (error) std::rethrow_exception(error);
  if (obstacle) steps_[done].obstacle = obstacle;
  if (has_kept_memory(begin, memory) && segment_end(begin) == end) {
    segment.recording = recording;
    segment.checks_later = checks_later;
    segment.recorded = memory;
    segment.precision = precision;
    segment.is_due = false;
  } else {
    split(begin, end);
  }
  return done;
}

}  // namespace tapestry::detail
