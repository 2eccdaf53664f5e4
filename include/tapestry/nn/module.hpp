#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tapestry/detail/flag.hpp"
#include "tapestry/detail/handle.hpp"
#include "tapestry/nn/parameter.hpp"
#include "tapestry/state_dict.hpp"

namespace tapestry::nn {

/// @addtogroup nn
/// @{

class Module;

/// A part of a module and its name.
struct Field {
  /// The name: "hidden", "layers.0".
  std::string name;
  /// The part.
  std::variant<Variable*, Tensor*, Module*> part;
  /// Whether the part is a Parameter, frozen or not.
  bool is_parameter = false;
  /// The sizeof of the class of a module, if it is known.
  std::size_t bytes = 0;
};

/// The parts of a module, in order. The parts in a list are named by their indices, "layers.0". An std::optional
/// without a value and an empty Tensor are left out.
class TAPESTRY_API Fields {
 public:
  /// No parts.
  Fields() = default;

  /// The parts, under the names in a text such as "hidden, logits". TAPESTRY_FIELDS calls this.
  template <class... Parts>
  static Fields named([[maybe_unused]] std::string_view names, Parts&... parts) {
    Fields fields;
    [[maybe_unused]] const auto add = [&](auto& part) {
      constexpr bool good = is_part<std::remove_cvref_t<decltype(part)>>();
      static_assert(
          good,
          "TAPESTRY_FIELDS names tp::nn::Parameters, tp::nn::Buffers, tp::Tensors, modules, and std::optionals "
          "or containers of these; leave out what is not saved, such as numbers.");
      if constexpr (good) fields.add(next_name(names), part);
    };
    (add(parts), ...);
    return fields;
  }

  /// Adds a part. A constant is saved with the module; a trace captures its current value, and a `function` is traced
  /// anew when the module has another one.
  /// @{
  void add(const std::string& name, Parameter& parameter) { add_field(name, &parameter, true); }
  void add(const std::string& name, Buffer& buffer) { add_field(name, &buffer); }
  void add(const std::string& name, Tensor& constant) {
    if (constant) add_field(name, &constant);
  }
  void add(const std::string& name, Module& module, std::size_t bytes) { add_field(name, &module, false, bytes); }
  template <std::derived_from<Module> M>
  void add(const std::string& name, M& module) {
    add(name, module, sizeof(M));
  }
  template <class T>
  void add(const std::string& name, std::optional<T>& part) {
    if (part) add(name, *part);
  }
  template <std::ranges::forward_range List>
  void add(const std::string& name, List& parts) {
    if (std::ranges::empty(parts)) note_empty_list();
    std::size_t place = 0;
    for (auto& part : parts) add(name + "." + std::to_string(place++), part);
  }
  template <std::same_as<Variable> T>
  void add(const std::string&, T&) {
    static_assert(!std::same_as<T, T>,
                  "A module holds its state as tp::nn::Parameter or tp::nn::Buffer: copies of a module "
                  "would share a tp::Variable.");
  }
  /// @}
  /// Notes that a list of parts is empty.
  void note_empty_list() { lacks_parts_ = true; }

  /// The parts in order.
  std::vector<Field> list() const { return list_; }
  /// Whether the class has named its parts, even if there are none. The default of Module::fields has not.
  bool are_named() const { return are_named_; }
  /// Whether a list of parts is empty, as it is in a module that was moved to another one.
  bool lacks_parts() const { return lacks_parts_; }

 private:
  template <class T>
  static constexpr bool is_part() {
    if constexpr (requires { requires std::same_as<T, std::optional<typename T::value_type>>; }) {
      return is_part<typename T::value_type>();
    } else if constexpr (std::ranges::forward_range<T>) {
      return is_part<std::ranges::range_value_t<T>>();
    } else {
      return std::derived_from<T, Variable> || std::same_as<T, Tensor> || std::derived_from<T, Module>;
    }
  }
  friend class Module;
  static std::string next_name(std::string_view& names);
  void add_field(const std::string& name, std::variant<Variable*, Tensor*, Module*> part, bool is_parameter = false,
                 std::size_t bytes = 0);

  std::vector<Field> list_;
  bool are_named_ = true, lacks_parts_ = false;
};

/// Registers a module that has named its parts. TAPESTRY_FIELDS adds a member of this type to the class. Errors, graphs
/// and optimizers name layers and parameters by their paths from the outermost module, "hidden.weight". A layer does
/// not know its path; the library finds it from the registered modules.
class TAPESTRY_API NamedParts {
 public:
  /// Registers the module that has this as a member.
  explicit NamedParts(Module* module);
  /// Registers the module into which the other one's module is copied or moved. A module that has been moved from is no
  /// longer asked for its parts.
  /// @{
  NamedParts(const NamedParts& other);
  NamedParts(NamedParts&& other) noexcept;
  NamedParts& operator=(const NamedParts& other);
  NamedParts& operator=(NamedParts&& other) noexcept;
  /// @}
  ~NamedParts();

 private:
  friend struct ModuleList;
  void enter() noexcept;
  void leave() noexcept;
  Module& module() const;

  /// The offset of the module from this object, in bytes. It is the same in copies, which have other addresses.
  std::ptrdiff_t offset_;
  /// The thread that uses the module. No other thread may access its parts.
  std::thread::id thread_;
  /// The path of the module when the paths were last determined.
  std::string path_;
  /// The neighbours in the list of all registered modules.
  NamedParts *before_ = nullptr, *next_ = nullptr;
  bool is_listed_ = false;
  /// Becomes false when the module is gone or moved; nullptr while nobody watches it.
  std::shared_ptr<bool> is_here_;
};

/// The base class of everything that has parameters. A module is a value: its parts are members, which are named once,
/// and copying it copies their values.
///
///     struct Net : tp::nn::Module {
///       tp::nn::Dense hidden{784, 128}, logits{128, 10};
///       TAPESTRY_FIELDS(hidden, logits)
///       tp::Tensor operator()(const tp::Tensor& x) const { return logits(tp::relu(hidden(x))); }
///     };
///
/// Parts are Parameters, Buffers, Tensors (constants), modules, and std::optional or containers of these.
///
/// A module that was moved to another one has the same Variables as that one, except for those in std::vectors, which
/// it has lost. Then it throws FailedPreconditionError when it is asked for its parameters, saved, or called as a
/// Layer.
class TAPESTRY_API Module {
 public:
  virtual ~Module() = default;

  /// The module's own parts. TAPESTRY_FIELDS defines this function. Without it, a module has no part that is known.
  virtual Fields fields();
  /// The text that errors show after the name of the class, such as "8, 9" of a Dense(8, 9). By default it is empty.
  virtual std::string size_text() const { return {}; }

  /// Handles to all parameters that are not frozen, including those of parts, in the order of the fields; one that is
  /// reached twice counts once, by its first name. Throws
  /// FailedPreconditionError when the class, or that of a part that holds modules, has not named its parts by
  /// TAPESTRY_FIELDS. A module without parts writes TAPESTRY_FIELDS().
  std::vector<Variable> parameters(Where where = Where::here()) const;
  /// The same with their names, "hidden.weight".
  std::vector<std::pair<std::string, Variable>> named_parameters(Where where = Where::here()) const;
  /// The buffers, constants and frozen parameters, with their names and values. Throws as `parameters` does.
  std::vector<std::pair<std::string, Tensor>> named_buffers(Where where = Where::here()) const;
  /// This module, with the name "", and all modules in it. Each one comes before its parts.
  std::vector<std::pair<std::string, const Module*>> named_modules() const;
  /// The number of elements of all parameters that are not frozen. Throws as `parameters` does.
  std::int64_t parameter_count(Where where = Where::here()) const;

  /// The values of all parameters, buffers and constants. Further training does not change these tensors. Throws
  /// FailedPreconditionError when the class has not named its parts.
  StateDict state_dict(Where where = Where::here()) const;
  /// Sets all values. Values of another type are converted, but floats are never converted to integers. Throws
  /// FailedPreconditionError when the class has not named its parts. Throws InvalidArgumentError, with a list of all
  /// problems, when the state lacks an entry, has one too many, or has one of the wrong shape or type; then nothing has
  /// changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

  /// Moves all Variables and constants to a device. Optimizers and handles keep their Variables. Throws as `parameters`
  /// does.
  void to(Device device, Where where = Where::here());
  /// Converts all Variables and constants of a float type to another float type. The converted Variables are new ones:
  /// earlier handles, optimizers and traces still refer to the old ones; a `function` is traced anew. Throws
  /// InvalidArgumentError for a type that is not a float type, and as `parameters` does.
  void to(DType dtype, Where where = Where::here());

  /// Turns the training mode on or off, here and in all parts. In training mode, Dropout drops elements, and BatchNorm
  /// learns its statistics. It is on at first. A `trace` keeps the mode in which it was made; a `function` is traced
  /// anew for another mode. Throws as `parameters` does.
  void train(bool on = true, Where where = Where::here());
  /// The same as `train(false)`, for everything but training.
  void eval(Where where = Where::here()) { train(false, where); }
  /// Whether this module is in training mode.
  bool training() const { return training_.read(); }

  /// Freeze the parameters, here and in all parts, or make them trainable again. Frozen parameters are not among
  /// `parameters()`, tapes do not watch them by themselves, and `minimize` without a list does not change them. They
  /// are still saved. A `trace` that trains goes on changing the parameters that were not frozen when it was made; a
  /// `function` is traced anew.
  /// @{
  void freeze(bool on = true, Where where = Where::here());
  void unfreeze(Where where = Where::here()) { freeze(false, where); }
  // A text would be `on`. A part is frozen by its own function: net.body.freeze().
  void freeze(const char* name) = delete;
  /// @}

 protected:
  Module() = default;
  /// For derived classes: a module is copied with its parts. Assigning a module sets the values of its Variables and
  /// keeps their cells.
  /// @{
  Module(const Module&) = default;
  Module(Module&&) noexcept = default;
  Module& operator=(const Module&) = default;
  Module& operator=(Module&&) noexcept = default;
  /// @}

 private:
  friend void require_parts(const Module& module, std::string_view path, Where where);
  void set_training(bool on);

  tapestry::detail::Flag training_{true};
  tapestry::detail::Moved moved_;
};

/// The name of the module's class without namespaces, such as "Dense".
TAPESTRY_API std::string type_name(const Module& module);

/// @}

}  // namespace tapestry::nn

/// @ingroup nn
/// Names the parts of a tapestry::nn::Module, once, after their declaration. A class that is derived from another
/// module names the parts of that module, too. TAPESTRY_FIELDS() means that there are none.
#define TAPESTRY_FIELDS(...)                                                       \
  ::tapestry::nn::Fields fields() override {                                       \
    return ::tapestry::nn::Fields::named(#__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__); \
  }                                                                                \
  ::tapestry::nn::NamedParts tapestry_named_parts_{this};
