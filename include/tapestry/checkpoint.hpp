#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "tapestry/save.hpp"
#include "tapestry/variable.hpp"

namespace tapestry {

/// @addtogroup keeping
/// @{

/// A reference on something with a state: a module, an optimizer, a Loader, any type with `state_dict()` and
/// `load_state_dict(StateDict)`; a Variable; a number. What it refers to must outlive it.
class TAPESTRY_API StateRef {
 public:
  /// On nothing: a part that a checkpoint does not have.
  StateRef() = default;
  /// On an object, whose state has the names that it gives.
  template <Stateful T>
  StateRef(T* object)  // NOLINT(google-explicit-constructor): written as `.model = &net`
      : get_([object] { return StateDict(object->state_dict()); }), set_([object](const StateDict& state, Where where) {
          if constexpr (requires { object->load_state_dict(state, where); }) {
            object->load_state_dict(state, where);
          } else {
            object->load_state_dict(state);
          }
        }) {}
  /// On a number, which is saved as a float64 or int64 scalar.
  template <class T>
  requires std::is_arithmetic_v<T> StateRef(T* number)  // NOLINT(google-explicit-constructor)
      : get_([number] { return of_number(static_cast<Number<T>>(*number)); }),
        set_([number](const StateDict& state, Where where) {
          *number = static_cast<T>(single(state, dtype_of<Number<T>>(), where).template item<Number<T>>());
        }) {}
  /// On a Variable, whose value is assigned when its state is loaded.
  StateRef(Variable* variable);  // NOLINT(google-explicit-constructor)

  /// Whether it refers to anything; without that it has no state.
  explicit operator bool() const { return static_cast<bool>(get_); }
  /// The state; that of a Variable or a number is one tensor with the name "".
  StateDict state_dict() const { return get_(); }
  /// Puts what it refers to into that state. Throws what the object throws; InvalidArgumentError for a state that is
  /// not one tensor of the right dtype, of a Variable or a number.
  void load_state_dict(const StateDict& state, Where where) const { set_(state, where); }

 private:
  template <class T>
  using Number = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
  template <class T>
  static StateDict of_number(T number) {
    return {{"", tensor(std::vector<T>{number}, Shape{})}};
  }
  /// The only tensor of a state. Throws InvalidArgumentError unless it is one, of that dtype.
  static const Tensor& single(const StateDict& state, DType dtype, Where where);

  std::function<StateDict()> get_;
  std::function<void(const StateDict&, Where)> set_;
};

/// What it takes to go on with a training exactly where it was:
///
///     tp::Checkpoint checkpoint{.model = &net, .optimizer = &opt, .step = &step, .loader = &loader};
///     if (tp::Checkpoint::latest(dir)) checkpoint.restore(dir);
///     ... checkpoint.save(dir);
///
/// Each `save` makes a new file in the folder, "checkpoint-17.safetensors", numbered in the order in which they were
/// written. It holds the tensors of all parts, "model.hidden.weight", "optimizer.iterations", "step", "random.seed",
/// and can be opened with `tp::load`, or in Python. One program at a time may write into a folder; any number may read.
struct TAPESTRY_API Checkpoint {
  StateRef model = {};                        ///< "model" in the file, as for the other parts
  StateRef optimizer = {};                    ///< with its slots and number of steps
  StateRef step = {};                         ///< the program's own count
  StateRef loader = {};                       ///< the place in the data
  std::map<std::string, StateRef> more = {};  ///< further parts by their names, which have no dots
  bool random = true;                         ///< the place in the stream of `tp::random`, too
  int keep = 5;                               ///< so many of the newest stay in the folder; 0: all

  /// Writes a checkpoint and returns its path; makes the folder if there is none. A file has its name only once it is
  /// whole and on the disk, so that neither a crash nor a power failure leaves a damaged one. Older checkpoints than
  /// `keep` says are removed, and so is what crashed writers have left behind.
  /// Throws what `tp::save` throws, and InvalidArgumentError for a part that has a part's name or a dot in its name.
  std::string save(const std::string& dir, Where where = Where::here()) const;

  /// Puts all parts that this checkpoint has into the state of the newest whole file of a folder, or of a file, and
  /// returns its path. Parts that only the file has are left alone. Throws NotFoundError when there is no checkpoint;
  /// DataLossError when the file that was named is damaged; InvalidArgumentError when it lacks a part, or a part
  /// refuses its state. Then the parts have the states that they had.
  std::string restore(const std::string& dir, Where where = Where::here()) const;

  /// The newest file of a folder that is whole; nothing when there is none, or no folder.
  static std::optional<std::string> latest(const std::string& dir);

 private:
  std::map<std::string, StateRef> parts(Where where) const;
};

/// @}

}  // namespace tapestry
