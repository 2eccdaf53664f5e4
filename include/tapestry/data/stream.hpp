#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/data/collate.hpp"
#include "tapestry/data/shard.hpp"
#include "tapestry/data/stages.hpp"
#include "tapestry/detail/function.hpp"
#include "tapestry/detail/handle.hpp"
#include "tapestry/state_dict.hpp"

namespace tapestry::data {

/// @addtogroup streams
/// @{

/// The options of `Stream::map`.
struct MapOptions {
  /// The number of threads that call the function, at the same time, ahead of the loop; 0 calls it in the loop. The
  /// order of the elements is the same.
  std::int64_t threads = 0;
};
/// The options of `Stream::shuffle`.
struct ShuffleOptions {
  std::uint64_t seed = 0;  ///< the seed of the orders; every epoch has another one
};
/// The options of `Stream::interleave`.
struct InterleaveOptions {
  std::int64_t cycle = 4;     ///< how many streams are open at the same time
  std::int64_t block = 1;     ///< how many elements of one follow each other
  std::int64_t prefetch = 0;  ///< how many elements of each open stream a thread of its own makes in advance
};

/// The base of all streams: the position in the epochs.
class TAPESTRY_API StreamPosition {
 public:
  /// A copy starts at the same position, and then advances independently.
  /// @{
  StreamPosition(const StreamPosition& other);
  StreamPosition& operator=(const StreamPosition& other);
  ~StreamPosition() = default;
  /// @}

  /// The number of epochs that have ended: their loop has come to the end, or has been left early.
  std::int64_t epoch() const;
  /// The position: "epoch" and "element", the number of elements of that epoch that have been handed out (int64). After
  /// a loop that was left early, it is still the position at which the loop was left.
  StateDict state_dict() const;
  /// Restores a position. The next loop passes over the elements before it, see Stream. Throws InvalidArgumentError
  /// unless these are the tensors of a `state_dict`.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 protected:
  struct State;
  /// A loop over an epoch.
  class TAPESTRY_API Pass {
   public:
    /// Starts the next epoch, or continues the one that `load_state_dict` has restored.
    explicit Pass(const StreamPosition& position);
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    /// A loop that is left early, by a break or an exception, ends its epoch.
    ~Pass();

    std::int64_t epoch() const;    ///< the number of the epoch
    std::int64_t element() const;  ///< how many elements of it have been handed out
    void advance();                ///< an element has been handed out
    void end();                    ///< there are no more

   private:
    std::shared_ptr<State> state_;
  };

  StreamPosition();
  /// Calls a function outside of the thread's graphs and device scopes: what streams hand out is eager.
  static void call_eagerly(const std::function<void()>& function);
  /// Throws InvalidArgumentError: a restored position is behind the end.
  [[noreturn]] static void refuse_position(std::int64_t element, std::int64_t size);
  /// Throws OutOfRangeError: an iterator is past the last element.
  [[noreturn]] static void refuse_end();

 private:
  std::shared_ptr<State> state_;  ///< shared with the passes, which may outlive the stream
};

/// Elements of any type, one after the other, which need not fit in memory: a source, such as `records` or a list, and
/// stages that each make a new stream of one. A stream is a small value; nothing is read before a loop asks for it.
///
///     auto batches = tp::data::records("train-*.tfrecord")
///                        .shuffle(10'000, {.seed = 1}).batch(64).map(parser, {.threads = 2}).prefetch(2);
///     for (auto& features : batches) ...
///
/// Every loop is one epoch. The elements and their order follow from the sources, the seeds and the number of the
/// epoch, and not from the number of threads. A loop that is left early ends its epoch.
///
/// The position is part of the state, for checkpoints, as that of a Loader is. After `load_state_dict`, the next loop
/// passes over the elements before the position: records are read, but functions of `map` are not called again unless
/// a `filter` or a `shuffle` follows them. So let maps that take long come after the shuffle.
///
/// A function that throws ends the loop. The error names the line of the function's call in the library, or that of the
/// stage.
template <class T>
class Stream : public StreamPosition {
 public:
  using Element = T;  ///< the type of the elements
  struct End {};      ///< the type of `end`

  /// The elements of a list.
  explicit Stream(std::vector<T> elements)
      : Stream(Source<T>([list = std::make_shared<const std::vector<T>>(std::move(elements))](std::int64_t) {
          return std::make_unique<stages::List<T>>(list);
        })) {}
  /// A source of one's own. Every cursor that it makes for an epoch must have the same elements.
  explicit Stream(Source<T> source, Where where = Where::here())
      : source_(std::make_shared<const Source<T>>(std::move(source))) {
    tapestry::detail::require_function(*source_, "Stream", where);
  }
  /// A source of one's own, as a function that takes the number of the epoch and returns a function that returns the
  /// next element, or nothing at the end.
  template <class F>
  static Stream generate(F start, Where where = Where::here()) {
    tapestry::detail::require_function(start, "generate", where);
    return Stream(Source<T>([start = std::move(start), where](std::int64_t epoch) {
      return std::make_unique<stages::Generated<T>>(stages::call("generate", where, start, epoch), where);
    }));
  }

  /// The results of a function of each element. With threads it is called by several at the same time.
  template <class F>
  auto map(F function, const MapOptions& options = {}, Where where = Where::here()) const {
    using U = std::remove_cvref_t<std::invoke_result_t<const F&, T>>;
    stages::require_at_least(0, "threads", options.threads, where);
    const auto shared = share<U, T>("map", std::move(function), where);
    return composed<U>([source = source_, shared, threads = options.threads](std::int64_t epoch) -> CursorOf<U> {
      if (threads == 0) return std::make_unique<stages::Map<T, U>>(stages::start(*source, epoch), shared);
      return std::make_unique<stages::ParallelMap<T, U>>(stages::start(*source, epoch), shared, threads, 2 * threads);
    });
  }
  /// The elements for which a function of a `const T&` returns true.
  template <class F>
  Stream filter(F keep, Where where = Where::here()) const {
    const auto shared = share<bool, const T&>("filter", std::move(keep), where);
    return composed<T>([source = source_, shared](std::int64_t epoch) {
      return std::make_unique<stages::Filter<T>>(stages::start(*source, epoch), shared);
    });
  }
  /// The elements in a random order: each is drawn from a buffer of the next `buffer` elements. The order is uniform if
  /// all elements of an epoch fit into the buffer. Every epoch has another one.
  Stream shuffle(std::int64_t buffer, const ShuffleOptions& options = {}, Where where = Where::here()) const {
    stages::require_at_least(1, "buffer", buffer, where);
    return composed<T>([source = source_, buffer, seed = options.seed](std::int64_t epoch) {
      return std::make_unique<stages::Shuffle<T>>(stages::start(*source, epoch), buffer, seed, epoch);
    });
  }
  /// The elements of the streams that a function makes of the elements, `Stream<U>` of T: of several at a time, in
  /// turn. The order is that of TensorFlow's `interleave`.
  template <class F>
  auto interleave(F function, const InterleaveOptions& options = {}, Where where = Where::here()) const {
    using Inner = std::remove_cvref_t<std::invoke_result_t<const F&, T>>;
    using U = typename Inner::Element;
    stages::require_at_least(1, "cycle", options.cycle, where);
    stages::require_at_least(1, "block", options.block, where);
    stages::require_at_least(0, "prefetch", options.prefetch, where);
    tapestry::detail::require_function(function, "interleave", where);
    auto open = [function = std::move(function), prefetch = options.prefetch, where](T element, std::int64_t epoch) {
      const Inner inner = function(std::move(element));
      return prefetch == 0 ? inner.open(epoch) : inner.prefetch(prefetch, where).open(epoch);
    };
    const auto shared = share<CursorOf<U>, T, std::int64_t>("interleave", std::move(open), where);
    return composed<U>(
        [source = source_, shared, cycle = options.cycle, block = options.block](std::int64_t epoch) -> CursorOf<U> {
          return std::make_unique<stages::Interleave<T, U>>(stages::start(*source, epoch), shared, cycle, block, epoch);
        });
  }
  /// Batches of `size` elements, as `collate` makes them. The last one of an epoch may be smaller.
  auto batch(std::int64_t size, const BatchOptions& options = {}, Where where = Where::here()) const {
    stages::require_at_least(1, "size", size, where);
    const Stream<std::vector<T>> groups =
        composed<std::vector<T>>([source = source_, size, drop_last = options.drop_last](std::int64_t epoch) {
          return std::make_unique<stages::Group<T>>(stages::start(*source, epoch), size, drop_last);
        });
    return groups.map([options, where](std::vector<T> group) { return collate(std::move(group), options, where); }, {},
                      where);
  }
  /// The same elements, made by a thread of its own, up to `ahead` of them in advance.
  Stream prefetch(std::int64_t ahead, Where where = Where::here()) const {
    stages::require_at_least(1, "ahead", ahead, where);
    const auto shared = share<T, T>(
        "prefetch", [](T element) { return element; }, where);
    return composed<T>([source = source_, shared, ahead](std::int64_t epoch) {
      return std::make_unique<stages::ParallelMap<T, T>>(stages::start(*source, epoch), shared, 1, ahead);
    });
  }
  /// Several epochs as one; -1: epochs for ever. Each has its own random orders.
  Stream repeat(std::int64_t count = -1, Where where = Where::here()) const {
    stages::require_at_least(-1, "count", count, where);
    return composed<T>([source = source_, count](std::int64_t epoch) {
      return std::make_unique<stages::Repeat<T>>(source, count, epoch);
    });
  }
  /// The first elements of an epoch.
  Stream take(std::int64_t count, Where where = Where::here()) const {
    stages::require_at_least(0, "count", count, where);
    return slice(0, 1, count);
  }
  /// All but the first elements of an epoch.
  Stream skip(std::int64_t count, Where where = Where::here()) const {
    stages::require_at_least(0, "count", count, where);
    return slice(count, 1, INT64_MAX);
  }
  /// Every `count`-th element from number `index` on: the part of one of `count` workers.
  Stream shard(std::int64_t count, std::int64_t index, Where where = Where::here()) const {
    stages::require_at_least(1, "count", count, where);
    if (index < 0 || index >= count)
      throw InvalidArgumentError(detail::join("There is no shard ", index, " of ", count), where);
    return slice(index, count, INT64_MAX);
  }
  /// The same for a Shard, such as `world.shard()`.
  Stream shard(const Shard& part, Where where = Where::here()) const { return shard(part.count, part.index, where); }

  /// A pass over the elements that does not touch the position: for sources and stages of one's own.
  std::unique_ptr<Cursor<T>> open(std::int64_t epoch = 0) const { return stages::start(*source_, epoch); }

  /// An iterator over the elements of an epoch. Copies share the epoch, so that advancing one of them invalidates the
  /// others.
  class Iterator {
   public:
    /// The current element, which may be moved from. Throws OutOfRangeError past the last one.
    T& operator*() const {
      if (!loop_) refuse_end();
      return *loop_->current;
    }
    /// The same.
    T* operator->() const { return &**this; }
    /// Advances to the next element. Throws what reading and the functions of the stages throw, and OutOfRangeError
    /// past the last one.
    Iterator& operator++() {
      if (!loop_) refuse_end();
      const std::shared_ptr<Loop> loop = std::exchange(loop_, nullptr);  // an exception ends the epoch
      call_eagerly([&] { loop->current = loop->cursor->next(); });
      if (loop->current) {
        loop->pass.advance();
        loop_ = loop;
      } else {
        loop->pass.end();
      }
      return *this;
    }
    /// Whether the iterator is past the last element.
    friend bool operator==(const Iterator& i, End) { return !i.loop_; }

   private:
    friend class Stream;
    struct Loop {
      explicit Loop(const Stream& stream) : pass(stream) {
        call_eagerly([&] {
          cursor = stream.open(pass.epoch());
          const std::int64_t before = pass.element(), there = before > 0 ? cursor->skip(before) : 0;
          if (there < before) refuse_position(before, there);
        });
      }
      Pass pass;
      std::unique_ptr<Cursor<T>> cursor;
      std::optional<T> current;
    };
    explicit Iterator(std::shared_ptr<Loop> loop) : loop_(std::move(loop)) { ++*this; }

    std::shared_ptr<Loop> loop_;  ///< empty past the last element
  };

  /// Starts the next epoch, or continues the one that `load_state_dict` has restored.
  Iterator begin() { return Iterator(std::make_shared<typename Iterator::Loop>(*this)); }
  /// The end of a loop over an epoch.
  End end() const { return {}; }

  /// All elements of the next epoch, or what is left of a restored one.
  std::vector<T> collect() {
    std::vector<T> all;
    for (T& each : *this) all.push_back(std::move(each));
    return all;
  }

 private:
  template <class U>
  using CursorOf = std::unique_ptr<Cursor<U>>;

  template <class Result, class... Arguments, class F>
  static stages::SharedFunction<Result, Arguments...> share(std::string_view stage, F function, Where where) {
    tapestry::detail::require_function(function, stage, where);
    return std::make_shared<const stages::Function<Result, Arguments...>>(
        stages::Function<Result, Arguments...>{stage, std::move(function), where});
  }
  template <class U>
  static Stream<U> composed(Source<U> source) {
    return Stream<U>(std::move(source));
  }
  Stream slice(std::int64_t skip, std::int64_t step, std::int64_t count) const {
    return composed<T>([source = source_, skip, step, count](std::int64_t epoch) {
      return std::make_unique<stages::Slice<T>>(stages::start(*source, epoch), skip, step, count);
    });
  }

  detail::Handle<const Source<T>> source_;
};

/// @}

}  // namespace tapestry::data
