#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tapestry/detail/function.hpp"
#include "tapestry/error.hpp"

namespace tapestry::data {

/// @addtogroup streams
/// @{

/// One pass over a stream's elements. It belongs to one thread at a time.
template <class T>
class Cursor {
 public:
  Cursor() = default;
  virtual ~Cursor() = default;
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;

  /// The next element; nothing behind the last one.
  virtual std::optional<T> next() = 0;
  /// Passes over that many elements, without making them where that can be avoided. Returns how many there were.
  virtual std::int64_t skip(std::int64_t count) {
    std::int64_t skipped = 0;
    while (skipped < count && next()) ++skipped;
    return skipped;
  }
};

/// Starts a pass. What depends on chance in it may depend on the number of the epoch, but on nothing else.
template <class T>
using Source = std::function<std::unique_ptr<Cursor<T>>(std::int64_t epoch)>;

/// @}

/// The stages of which streams are composed; see Stream for what they do.
namespace stages {

/// Part of a pass that another thread may do.
class Task {
 public:
  virtual ~Task() = default;
  virtual void run() = 0;
};

/// Takes tasks one after the other, runs them on threads of its own, and gives them back in the order in which they
/// were taken. At most `ahead` tasks are taken that have not been given back.
class TAPESTRY_API TaskQueue {
 public:
  /// `take` is called by one thread at a time. It returns an empty pointer behind the last task.
  TaskQueue(std::int64_t threads, std::int64_t ahead, std::function<std::unique_ptr<Task>()> take);
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;
  /// Waits for the tasks that run.
  ~TaskQueue();

  /// Waits for the end of the next task; an empty pointer behind the last one. Throws what taking or running it threw,
  /// after which there are no more.
  std::unique_ptr<Task> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A random number that depends on these three alone, the same on every machine.
TAPESTRY_API std::uint64_t random_number(std::uint64_t seed, std::int64_t epoch, std::int64_t position);
/// Throws InvalidArgumentError, with the name and the value of an option, if it is below `least`.
TAPESTRY_API void require_at_least(std::int64_t least, std::string_view name, std::int64_t value, Where where);
/// Throws InvalidArgumentError: a source has returned a null pointer.
[[noreturn]] TAPESTRY_API void refuse_cursor(std::int64_t epoch);
/// Must be called while an exception is handled, and throws it again: an Error with the call site unless it has one,
/// any other std::exception nested in a FailedPreconditionError that has it.
[[noreturn]] TAPESTRY_API void rethrow_at(std::string_view stage, Where where);

/// Starts a pass over a source.
template <class T>
std::unique_ptr<Cursor<T>> start(const Source<T>& source, std::int64_t epoch) {
  std::unique_ptr<Cursor<T>> cursor = source(epoch);
  if (!cursor) refuse_cursor(epoch);
  return cursor;
}

/// Calls a function of the user's. Its errors name the call of the stage.
template <class F, class... Arguments>
decltype(auto) call(std::string_view stage, Where where, const F& function, Arguments&&... arguments) {
  try {
    return function(std::forward<Arguments>(arguments)...);
  } catch (...) {
    rethrow_at(stage, where);
  }
}

template <class T>
class List final : public Cursor<T> {
 public:
  explicit List(std::shared_ptr<const std::vector<T>> elements) : elements_(std::move(elements)) {}
  std::optional<T> next() override {
    if (at_ == elements_->size()) return {};
    return std::optional<T>((*elements_)[at_++]);
  }
  std::int64_t skip(std::int64_t count) override {
    const auto skipped = std::min(count, static_cast<std::int64_t>(elements_->size() - at_));
    at_ += static_cast<std::size_t>(skipped);
    return skipped;
  }

 private:
  std::shared_ptr<const std::vector<T>> elements_;
  std::size_t at_ = 0;
};

template <class T>
class Generated final : public Cursor<T> {
 public:
  Generated(std::function<std::optional<T>()> function, Where where) : function_(std::move(function)), where_(where) {
    tapestry::detail::require_function(function_, "generate", where);
  }
  std::optional<T> next() override { return call("generate", where_, function_); }

 private:
  std::function<std::optional<T>()> function_;
  Where where_;
};

/// A function of a stage, which all passes share.
template <class Result, class... Arguments>
struct Function {
  std::string_view stage;
  std::function<Result(Arguments...)> body;
  Where where;

  Result operator()(Arguments... arguments) const {
    return call(stage, where, body, std::forward<Arguments>(arguments)...);
  }
};
template <class Result, class... Arguments>
using SharedFunction = std::shared_ptr<const Function<Result, Arguments...>>;

template <class T, class U>
class Map final : public Cursor<U> {
 public:
  Map(std::unique_ptr<Cursor<T>> input, SharedFunction<U, T> function)
      : input_(std::move(input)), function_(std::move(function)) {}
  std::optional<U> next() override {
    std::optional<T> element = input_->next();
    if (!element) return {};
    return std::optional<U>((*function_)(*std::move(element)));
  }
  std::int64_t skip(std::int64_t count) override { return input_->skip(count); }

 private:
  std::unique_ptr<Cursor<T>> input_;
  SharedFunction<U, T> function_;
};

/// Calls a function on threads of its own, ahead of what is asked for. The order stays.
template <class T, class U>
class ParallelMap final : public Cursor<U> {
 public:
  ParallelMap(std::unique_ptr<Cursor<T>> input, SharedFunction<U, T> function, std::int64_t threads, std::int64_t ahead)
      : input_(std::move(input)), function_(std::move(function)), threads_(threads), ahead_(ahead) {}

  std::optional<U> next() override {
    // Not before: what is skipped first need not be made.
    if (!queue_) queue_.emplace(threads_, ahead_, [this] { return take(); });
    const std::unique_ptr<Task> task = queue_->next();
    if (!task) return {};
    return std::move(static_cast<One&>(*task).result);
  }
  std::int64_t skip(std::int64_t count) override { return queue_ ? Cursor<U>::skip(count) : input_->skip(count); }

 private:
  struct One final : Task {
    One(T of, SharedFunction<U, T> by) : element(std::move(of)), function(std::move(by)) {}
    void run() override { result.emplace((*function)(std::move(element))); }

    T element;
    SharedFunction<U, T> function;
    std::optional<U> result;
  };
  std::unique_ptr<Task> take() {
    std::optional<T> element = input_->next();
    if (!element) return {};
    return std::make_unique<One>(*std::move(element), function_);
  }

  std::unique_ptr<Cursor<T>> input_;
  SharedFunction<U, T> function_;
  std::int64_t threads_, ahead_;
  std::optional<TaskQueue> queue_;  ///< last: its threads use the rest
};

template <class T>
class Filter final : public Cursor<T> {
 public:
  Filter(std::unique_ptr<Cursor<T>> input, SharedFunction<bool, const T&> keep)
      : input_(std::move(input)), keep_(std::move(keep)) {}
  std::optional<T> next() override {
    std::optional<T> element = input_->next();
    while (element && !(*keep_)(*element)) element = input_->next();
    return element;
  }

 private:
  std::unique_ptr<Cursor<T>> input_;
  SharedFunction<bool, const T&> keep_;
};

/// Draws from a buffer of the next elements, and fills the gap with the element behind them.
template <class T>
class Shuffle final : public Cursor<T> {
 public:
  Shuffle(std::unique_ptr<Cursor<T>> input, std::int64_t size, std::uint64_t seed, std::int64_t epoch)
      : input_(std::move(input)), size_(static_cast<std::size_t>(size)), seed_(seed), epoch_(epoch) {}
  std::optional<T> next() override {
    while (!ended_ && buffer_.size() < size_) {
      std::optional<T> element = input_->next();
      ended_ = !element;
      if (element) buffer_.push_back(*std::move(element));
    }
    if (buffer_.empty()) return {};
    const auto at = static_cast<std::size_t>(random_number(seed_, epoch_, drawn_++) % buffer_.size());
    std::swap(buffer_[at], buffer_.back());
    std::optional<T> drawn(std::move(buffer_.back()));
    buffer_.pop_back();
    return drawn;
  }

 private:
  std::unique_ptr<Cursor<T>> input_;
  std::size_t size_;
  std::uint64_t seed_;
  std::int64_t epoch_, drawn_ = 0;
  std::vector<T> buffer_;
  bool ended_ = false;
};

/// Goes through several streams in turn, as TensorFlow's Interleave does: `block` elements of each, and when one ends,
/// the next one of the input takes its place at its next turn.
template <class T, class U>
class Interleave final : public Cursor<U> {
 public:
  using Open = SharedFunction<std::unique_ptr<Cursor<U>>, T, std::int64_t>;
  Interleave(std::unique_ptr<Cursor<T>> input, Open open, std::int64_t cycle, std::int64_t block, std::int64_t epoch)
      : input_(std::move(input)),
        open_(std::move(open)),
        turns_(static_cast<std::size_t>(cycle)),
        block_(block),
        epoch_(epoch) {}
  std::optional<U> next() override {
    for (std::size_t idle = 0; idle < turns_.size();) {
      std::unique_ptr<Cursor<U>>& turn = turns_[at_];
      if (!turn && !ended_) {
        std::optional<T> element = input_->next();
        ended_ = !element;
        if (element) turn = (*open_)(*std::move(element), epoch_);
      }
      if (turn) {
        idle = 0;
        if (std::optional<U> element = turn->next()) {
          if (++taken_ == block_) pass();
          return element;
        }
        turn.reset();
      } else {
        ++idle;
      }
      pass();
    }
    return {};
  }

 private:
  void pass() {
    at_ = (at_ + 1) % turns_.size();
    taken_ = 0;
  }

  std::unique_ptr<Cursor<T>> input_;
  Open open_;
  std::vector<std::unique_ptr<Cursor<U>>> turns_;
  std::size_t at_ = 0;
  std::int64_t block_, epoch_, taken_ = 0;
  bool ended_ = false;
};

/// Lists of `size` elements.
template <class T>
class Group final : public Cursor<std::vector<T>> {
 public:
  Group(std::unique_ptr<Cursor<T>> input, std::int64_t size, bool drop_last)
      : input_(std::move(input)), size_(size), drop_last_(drop_last) {}
  std::optional<std::vector<T>> next() override {
    std::vector<T> group;
    group.reserve(static_cast<std::size_t>(std::min<std::int64_t>(size_, 1 << 16)));
    while (static_cast<std::int64_t>(group.size()) < size_) {
      std::optional<T> element = input_->next();
      if (!element) break;
      group.push_back(*std::move(element));
    }
    if (group.empty() || (drop_last_ && static_cast<std::int64_t>(group.size()) < size_)) return {};
    return group;
  }
  std::int64_t skip(std::int64_t count) override {
    if (count > INT64_MAX / size_) count = INT64_MAX / size_;  // more than there ever are
    const std::int64_t elements = input_->skip(count * size_), whole = elements / size_;
    return drop_last_ || elements % size_ == 0 ? whole : whole + 1;
  }

 private:
  std::unique_ptr<Cursor<T>> input_;
  std::int64_t size_;
  bool drop_last_;
};

template <class T>
class Repeat final : public Cursor<T> {
 public:
  /// `count` may be -1: for ever.
  Repeat(std::shared_ptr<const Source<T>> source, std::int64_t count, std::int64_t epoch)
      : source_(std::move(source)), left_(count), epoch_(count < 0 ? epoch : first_of(epoch, count)) {}
  std::optional<T> next() override {
    while (open()) {
      if (std::optional<T> element = pass_->next()) {
        empty_ = false;
        return element;
      }
      close();
    }
    return {};
  }
  std::int64_t skip(std::int64_t count) override {
    std::int64_t skipped = 0;
    while (skipped < count && open()) {
      const std::int64_t more = pass_->skip(count - skipped);
      if (more > 0) empty_ = false;
      skipped += more;
      if (skipped < count) close();
    }
    return skipped;
  }

 private:
  /// Wraps around at the end of 64 bits: a position may have been read from any file.
  static std::int64_t first_of(std::int64_t epoch, std::int64_t count) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(epoch) * static_cast<std::uint64_t>(count));
  }
  bool open() {
    if (pass_) return true;
    if (left_ == 0) return false;
    if (left_ > 0) --left_;
    empty_ = true;
    pass_ = start(*source_, epoch_++);
    return true;
  }
  void close() {
    pass_.reset();
    if (empty_) left_ = 0;  // else a loop over nothing would never end
  }

  std::shared_ptr<const Source<T>> source_;
  std::int64_t left_, epoch_;
  std::unique_ptr<Cursor<T>> pass_;
  bool empty_ = true;
};

/// Passes over the first `skip` elements, then takes one of every `step`, at most `count`.
template <class T>
class Slice final : public Cursor<T> {
 public:
  Slice(std::unique_ptr<Cursor<T>> input, std::int64_t skip, std::int64_t step, std::int64_t count)
      : input_(std::move(input)), before_(skip), step_(step), left_(count) {}
  std::optional<T> next() override {
    if (left_ == 0 || !reach()) return {};
    std::optional<T> element = input_->next();
    left_ = element ? left_ - 1 : 0;
    before_ = step_ - 1;
    return element;
  }
  std::int64_t skip(std::int64_t count) override {
    if (step_ != 1) return Cursor<T>::skip(count);
    if (left_ == 0 || !reach()) return 0;
    const std::int64_t skipped = input_->skip(std::min(count, left_));
    left_ -= skipped;
    return skipped;
  }

 private:
  /// Passes over what comes before the next element; false if there are fewer.
  bool reach() {
    const std::int64_t before = std::exchange(before_, 0);
    const bool is_there = before == 0 || input_->skip(before) == before;
    if (!is_there) left_ = 0;
    return is_there;
  }

  std::unique_ptr<Cursor<T>> input_;
  std::int64_t before_, step_, left_;
};

}  // namespace stages

}  // namespace tapestry::data
