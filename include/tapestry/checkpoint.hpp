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

/// A reference to an object that has a state: a module, an optimizer, a Loader, or any other type with `state_dict()`
/// and `load_state_dict(StateDict)`; a Variable; or a number. The object must outlive the reference.
class TAPESTRY_API StateRef {
 public:
  /// Refers to nothing: the checkpoint does not have this part.
  StateRef() = default;
  /// Refers to an object with `state_dict()` and `load_state_dict(StateDict)`.
  template <Stateful T>
  StateRef(T* object, Where given = Where::here())  // NOLINT(google-explicit-constructor): written as `.model = &net`
      : get_([object = required(object, given)] { return StateDict(object->state_dict()); }),
        set_([object](const StateDict& state, Where where) {
          if constexpr (requires { object->load_state_dict(state, where); }) {
            object->load_state_dict(state, where);
          } else {
            object->load_state_dict(state);
          }
        }) {}
  /// Refers to a number, which is saved as a float64 or int64 scalar.
  template <class T>
  requires std::is_arithmetic_v<T> StateRef(T* number,
                                            Where given = Where::here())  // NOLINT(google-explicit-constructor)
      : get_([number = required(number, given)] { return of_number(static_cast<Number<T>>(*number)); }),
        set_([number](const StateDict& state, Where where) {
          *number = static_cast<T>(single(state, dtype_of<Number<T>>(), where).template item<Number<T>>());
        }) {}
  /// Refers to a Variable. Loading a state assigns its value.
  StateRef(Variable* variable, Where given = Where::here());  // NOLINT(google-explicit-constructor)

  /// Whether it refers to an object. The other functions need one.
  explicit operator bool() const { return static_cast<bool>(get_); }
  /// The state of the object. For a Variable or a number it is one tensor with the name "".
  StateDict state_dict() const { return get_(); }
  /// Loads a state into the object. Throws what the object throws. For a Variable or a number, throws
  /// InvalidArgumentError unless the state is one tensor of the right dtype.
  void load_state_dict(const StateDict& state, Where where) const { set_(state, where); }

 private:
  /// The pointer. Throws InvalidArgumentError for one to nothing.
  template <class T>
  static T* required(T* pointer, Where where) {
    if (!pointer) refuse_null(where);
    return pointer;
  }
  [[noreturn]] static void refuse_null(Where where);
  template <class T>
  using Number = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
  template <class T>
  static StateDict of_number(T number) {
    return {{"", tensor(std::vector<T>{number}, Shape{})}};
  }
  /// The only tensor of a state. Throws InvalidArgumentError unless the state is one tensor of that dtype.
  static const Tensor& single(const StateDict& state, DType dtype, Where where);

  std::function<StateDict()> get_;
  std::function<void(const StateDict&, Where)> set_;
};

/// Everything that is needed to continue a training exactly where it stopped:
///
///     tp::Checkpoint checkpoint{.model = &net, .optimizer = &opt, .step = &step, .loader = &loader};
///     if (tp::Checkpoint::latest(dir)) checkpoint.restore(dir);
///     ... checkpoint.save(dir);
///
/// Each `save` writes a new file into the folder, such as "checkpoint-17.safetensors", with the next number. The file
/// holds the tensors of all parts under names such as "model.hidden.weight", "optimizer.iterations", "step" and
/// "random.seed". It can be opened with `tp::load`, or in Python. One program at a time may write into a folder; any
/// number may read.
struct TAPESTRY_API Checkpoint {
  /// The model.
  StateRef model = {};
  /// The optimizer, with its slots and its number of steps.
  StateRef optimizer = {};
  /// The program's own count of steps.
  StateRef step = {};
  /// The loader, with its position in the data.
  StateRef loader = {};
  /// Further parts by their names, which must not contain dots.
  std::map<std::string, StateRef> more = {};
  /// Whether to save and restore the position in the stream of `tp::random`, too.
  bool random = true;
  /// How many of the newest checkpoints stay in the folder; 0 keeps all.
  int keep = 5;

  /// Writes a checkpoint and returns its path. The folder is created if necessary. The file gets its name only when it
  /// is complete and on the disk, so that neither a crash nor a power failure leaves a damaged checkpoint. Removes the
  /// older checkpoints that exceed `keep`, and incomplete files of writers that have crashed. Throws what `tp::save`
  /// throws, and InvalidArgumentError when a name in `more` is empty, contains a dot, or is that of another part.
  std::string save(const std::string& dir, Where where = Where::here()) const;

  /// Loads all parts that this object refers to from the newest complete file of a folder, or from a given file, and
  /// returns the file's path. Further parts in the file are ignored. Throws NotFoundError when there is no checkpoint,
  /// DataLossError when the given file is damaged, and InvalidArgumentError when the file lacks a part, or a part
  /// refuses its state. After an error all parts have the states that they had before.
  std::string restore(const std::string& dir, Where where = Where::here()) const;

  /// The path of the newest complete checkpoint in a folder; nothing when there is none, or when there is no folder.
  static std::optional<std::string> latest(const std::string& dir);

 private:
  std::map<std::string, StateRef> parts(Where where) const;
};

/// @}

}  // namespace tapestry
