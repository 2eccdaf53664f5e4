#include "tapestry/data/stages.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/philox.hpp"

namespace tapestry::data::stages {

struct TaskQueue::State {
  /// A task that has been taken, until it is given back.
  struct Slot {
    std::unique_ptr<Task> task;
    std::exception_ptr error{};
    bool done = false;
  };

  void run(const std::stop_token& stop) {
    for (;;) {
      Slot* slot = nullptr;
      {
        const std::lock_guard taking(take_mutex);
        {
          std::unique_lock lock(mutex);
          if (!changed.wait(lock, stop, [&] { return ended || slots.size() < room; }) || ended) return;
        }
        slot = next_slot();
      }
      if (!slot) return;
      if (!slot->error) work(*slot);
      const std::lock_guard lock(mutex);
      slot->done = true;
      changed.notify_all();
    }
  }

  /// Takes the next task. An error takes its place in the order, and is the last.
  Slot* next_slot() {
    Slot slot;
    try {
      slot.task = take();
    } catch (...) {
      slot.error = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    if (ended) return nullptr;
    ended = !slot.task;
    changed.notify_all();
    if (ended && !slot.error) return nullptr;
    slots.push_back(std::move(slot));  // which moves no other slot
    return &slots.back();
  }

  static void work(Slot& slot) {
    try {
      slot.task->run();
    } catch (...) {
      slot.error = std::current_exception();
    }
  }

  std::function<std::unique_ptr<Task>()> take;
  std::size_t room = 0;
  std::mutex take_mutex;  ///< before the other one
  std::mutex mutex;       ///< of what follows
  std::condition_variable_any changed;
  std::deque<Slot> slots;
  bool ended = false;                 ///< there are no further tasks
  std::vector<std::jthread> threads;  ///< last: they are stopped and joined before the rest goes
};

TaskQueue::TaskQueue(std::int64_t threads, std::int64_t ahead, std::function<std::unique_ptr<Task>()> take)
    : state_(std::make_unique<State>()) {
  state_->take = std::move(take);
  state_->room = static_cast<std::size_t>(ahead);
  for (std::int64_t i = 0; i < threads; ++i)
    state_->threads.emplace_back([state = state_.get()](const std::stop_token& stop) { state->run(stop); });
}

TaskQueue::~TaskQueue() {
  const std::lock_guard lock(state_->mutex);
  state_->ended = true;  // so that no thread takes another task while the others are waited for
  state_->changed.notify_all();
}

std::unique_ptr<Task> TaskQueue::next() {
  std::unique_lock lock(state_->mutex);
  auto& slots = state_->slots;
  state_->changed.wait(lock, [&] { return slots.empty() ? state_->ended : slots.front().done; });
  if (slots.empty()) return {};
  State::Slot slot = std::move(slots.front());
  slots.pop_front();
  if (slot.error) {
    state_->ended = true;
    state_->changed.wait(lock, [&] {
      return std::all_of(slots.begin(), slots.end(), [](const State::Slot& each) { return each.done; });
    });
    slots.clear();
  }
  state_->changed.notify_all();
  if (slot.error) std::rethrow_exception(slot.error);
  return std::move(slot.task);
}

std::uint64_t random_number(std::uint64_t seed, std::int64_t epoch, std::int64_t position) {
  using philox::Word;
  // tp::random draws from counters whose last word is 0, the orders of loaders have 1.
  const philox::Block counter{
      {static_cast<Word>(position), static_cast<Word>(position >> 32), static_cast<Word>(epoch), 2}};
  const philox::Block random = philox::scramble(counter, static_cast<Word>(seed), static_cast<Word>(seed >> 32));
  return std::uint64_t{random.words[1]} << 32 | random.words[0];
}

void refuse_cursor(std::int64_t epoch) {
  throw InvalidArgumentError(
      tapestry::detail::join("The source of a stream has returned a null pointer as the cursor of epoch ", epoch));
}

void require_at_least(std::int64_t least, std::string_view name, std::int64_t value, Where where) {
  if (value < least)
    throw InvalidArgumentError(detail::join("`", name, "` of a stream must be at least ", least, ", not ", value),
                               where);
}

void rethrow_at(std::string_view stage, Where where) {
  try {
    throw;
  } catch (Error& error) {
    error.locate({}, where);
    throw;
  } catch (const std::exception& error) {
    std::throw_with_nested(
        FailedPreconditionError(detail::join("The function of `", stage, "` has failed: ", error.what()), where));
  }
}

}  // namespace tapestry::data::stages
