#pragma once

#include <array>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/detail/handle.hpp"
#include "tapestry/execution_plan.hpp"

namespace tapestry {

/// @addtogroup graphs
/// @{

/// A tensor of the graph (itself or its name, "x:0"), and the value that it has in a run.
struct Feed {
  /// A tensor of the graph, or its name.
  class Key {
   public:
    /// From a tensor, or from a name.
    /// @{
    Key(const Tensor& tensor) : tensor_(tensor) {}  // NOLINT(google-explicit-constructor)
    Key(std::string_view name) : name_(name) {}     // NOLINT(google-explicit-constructor)
    Key(const char* name) : name_(name) {}          // NOLINT(google-explicit-constructor)
    Key(const std::string& name) : name_(name) {}   // NOLINT(google-explicit-constructor)
    /// Does not compile: the argument is neither a tensor nor a name.
    template <class T>
    requires(!std::convertible_to<const T&, Tensor> && !std::convertible_to<const T&, std::string_view>)
        Key(const T&) {  // NOLINT(google-explicit-constructor)
      constexpr bool good = std::convertible_to<const T&, Tensor>;
      static_assert(good, "What is fed is a tp::Tensor of the graph, or its name.");
    }
    /// @}
    /// The tensor; an empty handle if a name was given.
    const Tensor& tensor() const { return tensor_; }
    /// The name; "" if a tensor was given.
    const std::string& name() const { return name_; }

   private:
    Tensor tensor_;
    std::string name_;
  };

  Key key;      ///< the tensor that is fed
  Value value;  ///< its value: a tensor, a Variable or a literal
};

/// The feeds of a run: `{{x, {1, 2}}, {"y:0", 3.0}}`.
class Feeds {
 public:
  /// No feeds.
  Feeds() = default;
  /// A list of feeds, or values by the names of the tensors.
  /// @{
  Feeds(std::initializer_list<Feed> feeds) : feeds_(feeds) {}
  Feeds(const std::vector<Feed>& feeds) : feeds_(feeds) {}  // NOLINT(google-explicit-constructor)
  Feeds(const std::map<std::string, Tensor>& feeds) {       // NOLINT(google-explicit-constructor)
    for (const auto& [name, value] : feeds) feeds_.push_back({name, value});
  }
  /// @}
  /// Adds a feed.
  void add(const Feed::Key& key, const Value& value) { feeds_.push_back({key, value}); }
  /// The feeds in order.
  /// @{
  auto begin() const { return feeds_.begin(); }
  auto end() const { return feeds_.end(); }
  /// @}
  /// The number of feeds.
  std::size_t size() const { return feeds_.size(); }

 private:
  std::vector<Feed> feeds_;
};

/// One thing to fetch: a tensor, a Variable, an operation (whose result is an empty Tensor), or a name.
class TAPESTRY_API Fetch {
 public:
  /// From a tensor, an operation, a Variable, or the name of a tensor or operation.
  /// @{
  Fetch(const Tensor& tensor) : tensor_(tensor), kind_(Kind::tensor) {}                 // NOLINT
  Fetch(const Operation& operation) : operation_(operation), kind_(Kind::operation) {}  // NOLINT
  Fetch(const Variable& variable);                                                      // NOLINT
  Fetch(std::string_view name) : name_(name), kind_(Kind::name) {}                      // NOLINT
  Fetch(const char* name) : name_(name), kind_(Kind::name) {}                           // NOLINT
  Fetch(const std::string& name) : name_(name), kind_(Kind::name) {}                    // NOLINT

  /// @}

 private:
  friend class SessionState;
  enum class Kind : std::uint8_t { tensor, operation, variable, name };
  Tensor tensor_;
  Operation operation_;
  detail::Handle<Variable::Cell> cell_;
  std::string name_;
  Kind kind_;
};

/// A type that converts to a Fetch: one thing, and not a structure of several.
template <class T>
concept Fetchable = std::convertible_to<const T&, Fetch>;

namespace detail {

/// Whether a type is a structure of fetches.
template <class T>
inline constexpr bool is_fetches = Fetchable<T>;
template <class T>
inline constexpr bool is_fetches<std::vector<T>> = is_fetches<T>;
template <class T, std::size_t N>
inline constexpr bool is_fetches<std::array<T, N>> = is_fetches<T>;
template <class K, class T>
inline constexpr bool is_fetches<std::map<K, T>> = is_fetches<T>;
template <class... T>
inline constexpr bool is_fetches<std::tuple<T...>> = (is_fetches<T> && ...);
template <class A, class B>
inline constexpr bool is_fetches<std::pair<A, B>> = is_fetches<std::tuple<A, B>>;

}  // namespace detail

/// How a session plans and runs a graph.
struct SessionOptions {
  /// Whether the graph is optimised. Otherwise every operation runs as it is in the graph.
  bool optimize = true;
  /// Passes of the optimisation that are left out: "fold", "fuse", ...
  std::vector<std::string> disabled_passes = {};
  /// Whether operations that ask for a missing device run on the CPU. Those of a graph that was read from a file always
  /// do, as in TensorFlow 2.
  bool allow_soft_placement = false;
  /// Whether to write the device of each operation to std::clog.
  bool log_device_placement = false;
  /// The number of plans that are kept. The one that has not been used for the longest time is dropped first. A
  /// callable keeps its own plan.
  std::size_t most_plans = 64;
  /// Whether a GPU replays recordings. The steps that it does in the same way in every run are recorded in the second
  /// run, and started as a whole from then on; the plan in a RunMetadata tells which steps were replayed. The results
  /// are the same bits.
  bool replay = true;
  /// The timeout, in milliseconds, of each run without one of its own, and of each other call to a server; 0 means
  /// none.
  std::int64_t operation_timeout_in_ms = 0;
  /// The tasks of a server's cluster that the session may use: "/job:ps", "/job:worker/task:0". By default all.
  std::vector<std::string> device_filters = {};
  /// Whether the session's Variables on a server are its own. By default, all sessions of the server share Variables by
  /// their names.
  bool isolate_session_state = false;
};

/// A device of a session, in this process or in a task of its server's cluster.
struct DeviceAttributes {
  std::string name;               ///< "/job:worker/replica:0/task:1/device:CPU:0"
  std::string device_type;        ///< "CPU", "GPU"
  std::int64_t memory_limit = 0;  ///< in bytes; 0 if it is not known
  std::uint64_t incarnation = 0;  ///< a number that differs after each start of the device's task
};

class SessionState;

/// Runs parts of a graph. A run computes only what the fetches need, and runs each operation once. The first run with
/// given fetches, and feeds of given dtypes and shapes, makes a plan, which later runs reuse;
/// SessionOptions::most_plans limits the number of plans. `run` may be called from several threads.
class TAPESTRY_API Session {
 public:
  /// A session for the default graph.
  explicit Session(const SessionOptions& options = {}, Where where = Where::here());
  /// A session for a graph.
  explicit Session(const Graph& graph, const SessionOptions& options = {}, Where where = Where::here());
  /// A session on a server, such as "grpc://localhost:2222": a Server, or one of TensorFlow's
  /// (tf.distribute.Server). The server runs the graph, and has the values of its Variables: `run` the initializers
  /// (`global_variables_initializer` also sends the values of Variables that were made outside of the graph), and fetch
  /// a Variable to get its value; the Variable in this process stays as it is. The graph is sent at the first run, and
  /// what has been added since at later ones. With the target "" the session runs the graph in this process.
  ///
  /// The constructor connects to nothing. A run throws UnavailableError when the server cannot be reached, AbortedError
  /// when it no longer knows the session, which then has to be made anew, and the error of the operation that failed on
  /// the server, with the line of this program that made it.
  /// @{
  explicit Session(std::string_view target, const SessionOptions& options = {}, Where where = Where::here());
  Session(std::string_view target, const Graph& graph, const SessionOptions& options = {}, Where where = Where::here());
  /// @}
  ~Session();
  /// A session can be moved, but not copied.
  /// @{
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  /// @}

  /// Computes the fetches. The result of a tensor, a Variable or a name is a Tensor, and that of an operation an empty
  /// Tensor. A std::vector, std::array, std::tuple, std::pair or std::map of fetches, which may be nested, gives the
  /// same structure of results.
  /// @{
  template <class T>
  auto run(const T& fetches, const Feeds& feeds = {}, Where where = Where::here()) const;
  std::vector<Tensor> run(std::initializer_list<Fetch> fetches, const Feeds& feeds = {},
                          Where where = Where::here()) const {
    return run_all(std::vector<Fetch>(fetches), feeds, {}, nullptr, where);
  }
  /// @}
  /// The same with options. `metadata`, if it is given, tells what was run and, if the options ask for it, when.
  template <class T>
  auto run(const T& fetches, const Feeds& feeds, const RunOptions& options, RunMetadata* metadata = nullptr,
           Where where = Where::here()) const;

  /// Explains what `run` would do for these fetches and feeds: the graph after each stage of planning, and the plan. It
  /// computes only values that do not depend on the feeds.
  template <class T>
  Explanation explain(const T& fetches, const Feeds& feeds = {}, Where where = Where::here()) const;

  class Callable;
  class TensorCallable;
  /// A function from the values of the feeds to the fetches, with the least work per call. It returns a Tensor for one
  /// fetch, and Tensors for a list.
  /// @{
  template <class T>
  TensorCallable make_callable(const T& fetch, const std::vector<Tensor>& feeds = {},
                               Where where = Where::here()) const;
  Callable make_callable(std::initializer_list<Fetch> fetches, const std::vector<Tensor>& feeds = {},
                         Where where = Where::here()) const;
  Callable make_callable(const std::vector<Fetch>& fetches, const std::vector<Tensor>& feeds = {},
                         Where where = Where::here()) const;
  template <Fetchable T>
  Callable make_callable(const std::vector<T>& fetches, const std::vector<Tensor>& feeds = {},
                         Where where = Where::here()) const;
  /// @}
  /// The same with targets, which are run for their effect and have no result.
  Callable make_callable(const std::vector<Fetch>& fetches, const std::vector<Tensor>& feeds,
                         const std::vector<Operation>& targets, Where where = Where::here()) const;

  class PartialRun;
  /// Prepares a run in several parts, from all that the parts will fetch and feed.
  PartialRun partial_run_setup(const std::vector<Fetch>& fetches, const std::vector<Tensor>& feeds = {},
                               Where where = Where::here()) const;

  class Scope;
  /// While the scope exists, `Tensor::eval` and `Operation::run` of this thread use this session.
  [[nodiscard]] Scope as_default() const;
  /// Closes the session: runs of other threads end with CancelledError, later ones throw FailedPreconditionError.
  void close();
  /// The graph of the session.
  Graph graph() const;
  /// The devices that the session can use.
  std::vector<DeviceAttributes> list_devices(Where where = Where::here()) const;
  /// Removes the values of Variables from a server, for all of its sessions: those in the named containers, or, if none
  /// is named, in the default one. Sessions of the server end.
  static void reset(std::string_view target, const std::vector<std::string>& containers = {},
                    const SessionOptions& options = {}, Where where = Where::here());

  /// For the templates: `run` and `explain` of a flat list.
  /// @{
  std::vector<Tensor> run_all(const std::vector<Fetch>& fetches, const Feeds& feeds, const RunOptions& options,
                              RunMetadata* metadata, Where where) const;
  Explanation explain_all(const std::vector<Fetch>& fetches, const Feeds& feeds, Where where) const;
  /// @}

 private:
  detail::Handle<SessionState> state_;
};

/// The result of `Session::as_default`.
class TAPESTRY_API Session::Scope {
 public:
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  friend class Session;
  explicit Scope(std::shared_ptr<SessionState> session);

  std::shared_ptr<SessionState> saved_;
};

/// The result of `Session::make_callable` for a list of fetches.
class TAPESTRY_API Session::Callable {
 public:
  /// Computes the fetches, in their order. The arguments are the values of the feeds, in the order of the feeds:
  /// tensors, Variables or literals.
  /// @{
  Tensors operator()(Where where = Where::here()) const { return call({}, where); }
  template <class... Rest>
  Tensors operator()(Value first, const Rest&... rest) const {
    const Where where = first.where();
    return call(std::array<Value, 1 + sizeof...(Rest)>{std::move(first), Value(rest)...}, where);
  }
  /// @}
  /// The same with the values in a list.
  Tensors call(std::span<const Value> values, Where where = Where::here()) const;
  /// The same with options, such as a time and a stop token that end the run.
  Tensors call(std::span<const Value> values, const RunOptions& options, Where where = Where::here()) const;

 private:
  friend class Session;
  Callable(std::shared_ptr<SessionState> session, const std::vector<Fetch>& fetches, const std::vector<Tensor>& feeds,
           const std::vector<Operation>& targets, Where where);
  struct State;
  detail::Handle<State> state_;
};

/// The result of `Session::make_callable` for one fetch.
class Session::TensorCallable {
 public:
  /// Computes the fetch. The arguments are the values of the feeds, in the order of the feeds: tensors, Variables or
  /// literals.
  /// @{
  Tensor operator()(Where where = Where::here()) const { return callable_(where)[0]; }
  template <class... Rest>
  Tensor operator()(const Value& first, const Rest&... rest) const {
    return callable_(first, rest...)[0];
  }
  /// @}

 private:
  friend class Session;
  explicit TensorCallable(Callable callable) : callable_(std::move(callable)) {}
  Callable callable_;
};

/// A run in several parts, which continues as its feeds become known. Each operation runs once in all parts together,
/// so that a later part uses the random numbers and the values of Variables that an earlier one has read.
///
///     auto run = session.partial_run_setup({p, train_op}, {x, y});
///     auto prediction = run.run(p, {{x, points}});
///     run.run(train_op, {{y, labels_for(prediction)}});
class TAPESTRY_API Session::PartialRun {
 public:
  /// Computes fetches from these feeds and those of earlier parts. The result is that of `Session::run`. Each feed and
  /// each fetch of the setup may be used once. A part that throws leaves the run as it was, except for changes of
  /// Variables.
  template <class T>
  auto run(const T& fetches, const Feeds& feeds = {}, Where where = Where::here());
  /// For the template: `run` of a flat list.
  std::vector<Tensor> run_all(const std::vector<Fetch>& fetches, const Feeds& feeds, Where where);

 private:
  friend class Session;
  PartialRun(std::shared_ptr<SessionState> session, const std::vector<Fetch>& fetches, const std::vector<Tensor>& feeds,
             Where where);
  struct State;
  detail::Handle<State> state_;
};

inline Session::Callable Session::make_callable(std::initializer_list<Fetch> fetches, const std::vector<Tensor>& feeds,
                                                Where where) const {
  return make_callable(std::vector<Fetch>(fetches), feeds, where);
}

namespace detail {

// A structure of fetches is flattened and run. Then a structure of the same form is filled with the results, in order.

template <class T>
struct Structure;  // collect(fetches, out) appends; fill(fetches, values, next) takes as many results

template <Fetchable T>
struct Structure<T> {
  static void collect(const T& fetch, std::vector<Fetch>& out) { out.emplace_back(fetch); }
  static Tensor fill(const T&, const std::vector<Tensor>& values, std::size_t& next) { return values[next++]; }
};

template <class T>
requires(!Fetchable<std::vector<T>>) struct Structure<std::vector<T>> {
  static void collect(const std::vector<T>& list, std::vector<Fetch>& out) {
    for (const T& each : list) Structure<T>::collect(each, out);
  }
  static auto fill(const std::vector<T>& list, const std::vector<Tensor>& values, std::size_t& next) {
    std::vector<decltype(Structure<T>::fill(list[0], values, next))> result;
    result.reserve(list.size());
    for (const T& each : list) result.push_back(Structure<T>::fill(each, values, next));
    return result;
  }
};

template <class T, std::size_t N>
struct Structure<std::array<T, N>> {
  static void collect(const std::array<T, N>& list, std::vector<Fetch>& out) {
    for (const T& each : list) Structure<T>::collect(each, out);
  }
  static auto fill(const std::array<T, N>& list, const std::vector<Tensor>& values, std::size_t& next) {
    std::array<decltype(Structure<T>::fill(list[0], values, next)), N> result;
    for (std::size_t i = 0; i < N; ++i) result[i] = Structure<T>::fill(list[i], values, next);
    return result;
  }
};

template <class K, class T>
struct Structure<std::map<K, T>> {
  static void collect(const std::map<K, T>& items, std::vector<Fetch>& out) {
    for (const auto& [key, each] : items) Structure<T>::collect(each, out);
  }
  static auto fill(const std::map<K, T>& items, const std::vector<Tensor>& values, std::size_t& next) {
    std::map<K, decltype(Structure<T>::fill(items.begin()->second, values, next))> result;
    for (const auto& [key, each] : items) result.emplace(key, Structure<T>::fill(each, values, next));
    return result;
  }
};

template <class... T>
struct Structure<std::tuple<T...>> {
  static void collect(const std::tuple<T...>& items, std::vector<Fetch>& out) {
    std::apply([&](const auto&... each) { (Structure<std::remove_cvref_t<decltype(each)>>::collect(each, out), ...); },
               items);
  }
  static auto fill(const std::tuple<T...>& items, const std::vector<Tensor>& values, std::size_t& next) {
    return std::apply(
        [&](const auto&... each) {
          // Braces make sure that the elements are filled from left to right.
          return std::tuple<decltype(Structure<std::remove_cvref_t<decltype(each)>>::fill(each, values, next))...>{
              Structure<std::remove_cvref_t<decltype(each)>>::fill(each, values, next)...};
        },
        items);
  }
};

template <class A, class B>
struct Structure<std::pair<A, B>> {
  static void collect(const std::pair<A, B>& items, std::vector<Fetch>& out) {
    Structure<A>::collect(items.first, out);
    Structure<B>::collect(items.second, out);
  }
  static auto fill(const std::pair<A, B>& items, const std::vector<Tensor>& values, std::size_t& next) {
    auto first = Structure<A>::fill(items.first, values, next);
    auto second = Structure<B>::fill(items.second, values, next);
    return std::pair{std::move(first), std::move(second)};
  }
};

template <class T>
constexpr bool are_fetches() {
  constexpr bool good = is_fetches<T>;
  static_assert(good,
                "A fetch is a tp::Tensor, a tp::Operation, a tp::Variable or a name, or a std::vector, std::array, "
                "std::tuple, std::pair or std::map of them.");
  return good;
}

/// The results of a structure of fetches. `run` computes them for a flat list.
template <class T, class Run>
auto run_structure(const T& fetches, const Run& run) {
  if constexpr (are_fetches<T>()) {
    std::vector<Fetch> flat;
    Structure<T>::collect(fetches, flat);
    const std::vector<Tensor> values = run(flat);
    std::size_t next = 0;
    return Structure<T>::fill(fetches, values, next);
  }
}

}  // namespace detail

template <class T>
auto Session::run(const T& fetches, const Feeds& feeds, Where where) const {
  return run(fetches, feeds, {}, nullptr, where);
}

template <class T>
auto Session::run(const T& fetches, const Feeds& feeds, const RunOptions& options, RunMetadata* metadata,
                  Where where) const {
  return detail::run_structure(
      fetches, [&](const std::vector<Fetch>& flat) { return run_all(flat, feeds, options, metadata, where); });
}

template <class T>
auto Session::PartialRun::run(const T& fetches, const Feeds& feeds, Where where) {
  return detail::run_structure(fetches, [&](const std::vector<Fetch>& flat) { return run_all(flat, feeds, where); });
}

template <class T>
Explanation Session::explain(const T& fetches, const Feeds& feeds, Where where) const {
  std::vector<Fetch> flat;
  if constexpr (detail::are_fetches<T>()) detail::Structure<T>::collect(fetches, flat);
  return explain_all(flat, feeds, where);
}

template <Fetchable T>
Session::Callable Session::make_callable(const std::vector<T>& fetches, const std::vector<Tensor>& feeds,
                                         Where where) const {
  return make_callable(std::vector<Fetch>(fetches.begin(), fetches.end()), feeds, where);
}

template <class T>
Session::TensorCallable Session::make_callable(const T& fetch, const std::vector<Tensor>& feeds, Where where) const {
  std::vector<Fetch> fetches;
  constexpr bool good = Fetchable<T>;
  static_assert(good,
                "make_callable takes a tp::Tensor, a tp::Operation, a tp::Variable or a name, or a std::vector or "
                "braced list of them.");
  if constexpr (good) fetches.emplace_back(fetch);
  return TensorCallable(make_callable(fetches, feeds, where));
}

/// @}

}  // namespace tapestry
