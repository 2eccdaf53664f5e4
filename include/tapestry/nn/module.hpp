#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tapestry/nn/parameter.hpp"
#include "tapestry/state_dict.hpp"

namespace tapestry::nn {

/// @addtogroup nn
/// @{

class Module;

/// A part of a module and its name.
struct Field {
  std::string name;                                ///< "hidden", "layers.0"
  std::variant<Variable*, Tensor*, Module*> part;  ///< what it is
  bool is_parameter = false;                       ///< a Parameter, whether it is frozen or not
  std::size_t bytes = 0;                           ///< sizeof a module's class, as far as that is known
};

/// The parts of a module, in order. A list of parts is named by their places, "layers.0"; an std::optional without a
/// value and an empty Tensor are left out.
class TAPESTRY_API Fields {
 public:
  /// None.
  Fields() = default;

  /// The parts under the names of a list such as "hidden, logits", which TAPESTRY_FIELDS makes.
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

  /// One more part. A constant is saved with the module; a trace takes the value that it has then.
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

  /// The parts in order.
  std::vector<Field> list() const { return list_; }
  /// Whether a class has named its parts, even if they are none; the default of Module::fields has not.
  bool are_named() const { return are_named_; }

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
  bool are_named_ = true;
};

/// Tells the library that a module is there whose parts have names: a member that TAPESTRY_FIELDS adds to the class.
/// Errors, graphs and optimizers name layers and parameters by their paths from the outermost module, "hidden.weight";
/// a layer alone does not know its path, and the modules that are there do.
class TAPESTRY_API NamedParts {
 public:
  /// Of the module in which it is a member.
  explicit NamedParts(Module* module);
  /// Of the module into which the other one's is copied or moved. What has been moved from is no longer asked.
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

  std::ptrdiff_t offset_;                           ///< of the module from here, in bytes: copies are at another place
  std::thread::id thread_;                          ///< that uses the module: no other one may look at its parts
  std::string path_;                                ///< of the module, when it was looked for last
  NamedParts *before_ = nullptr, *next_ = nullptr;  ///< in the list of all
  bool is_listed_ = false;
};

/// The base of everything that holds parameters. A module is a value: its parts are members, named once, and copying it
/// copies their values.
///
///     struct Net : tp::nn::Module {
///       tp::nn::Dense hidden{784, 128}, logits{128, 10};
///       TAPESTRY_FIELDS(hidden, logits)
///       tp::Tensor operator()(const tp::Tensor& x) const { return logits(tp::relu(hidden(x))); }
///     };
///
/// Parts are Parameters, Buffers, Tensors (constants), modules, and std::optional or containers of these.
class TAPESTRY_API Module {
 public:
  virtual ~Module() = default;

  /// The module's own parts; TAPESTRY_FIELDS writes this function. Without it nothing of a module is trained or saved.
  virtual Fields fields();
  /// What errors say of the module behind its class's name: "8, 9" of a Dense(8, 9). By default nothing.
  virtual std::string size_text() const { return {}; }

  /// Handles on all parameters that are not frozen, those of parts included, in the order of the fields. Throws
  /// FailedPreconditionError when the class, or that of a part that holds modules, has not named its parts, by
  /// TAPESTRY_FIELDS; a module without any says TAPESTRY_FIELDS().
  std::vector<Variable> parameters() const;
  /// The same with their names, "hidden.weight".
  std::vector<std::pair<std::string, Variable>> named_parameters() const;
  /// The buffers and constants with their names and values.
  std::vector<std::pair<std::string, Tensor>> named_buffers() const;
  /// This module, under the name "", and all modules in it, each before its parts.
  std::vector<std::pair<std::string, const Module*>> named_modules() const;
  /// How many numbers the parameters are.
  std::int64_t parameter_count() const;

  /// The values of all parameters, buffers and constants. They are values: training on does not change them. Throws
  /// FailedPreconditionError when the class has not named its parts, and so does `load_state_dict`.
  StateDict state_dict() const;
  /// Sets all values. Those of another type are converted, but floats never to whole numbers. Throws
  /// InvalidArgumentError, with all that is wrong, when the state lacks an entry, has one too many, or one does not fit
  /// in shape or type; then nothing has changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

  /// Moves all Variables and constants to a device. Optimizers and handles keep their Variables.
  void to(Device device);
  /// Gives all that is of a float type that one instead. The Variables become new ones, which handles from before,
  /// and optimizers and traces with them, do not know. Throws InvalidArgumentError for another type.
  void to(DType dtype, Where where = Where::here());

  /// Whether Dropout drops and BatchNorm learns its statistics, here and in all parts: true at first. A trace keeps
  /// the mode that it was made in.
  void train(bool on = true);
  /// The same as `train(false)`: for everything but training.
  void eval() { train(false); }
  /// The mode of this module.
  bool training() const { return training_; }

  /// Whether the parameters, here and in all parts, are learnt: those that are frozen are none of `parameters()`, tapes
  /// do not watch them by themselves, and `minimize` without a list leaves them as they are. They are saved as ever.
  /// @{
  void freeze(bool on = true);
  void unfreeze() { freeze(false); }
  /// @}

 protected:
  Module() = default;
  /// For derived classes: a module is copied with its parts. Assigning sets the values of Variables and keeps their
  /// cells.
  /// @{
  Module(const Module&) = default;
  Module(Module&&) noexcept = default;
  Module& operator=(const Module&) = default;
  Module& operator=(Module&&) noexcept = default;
  /// @}

 private:
  bool training_ = true;
};

/// "Dense": the name of the module's class, without namespaces.
TAPESTRY_API std::string type_name(const Module& module);

/// @}

}  // namespace tapestry::nn

/// @ingroup nn
/// Names the parts of a tapestry::nn::Module, once, behind their declaration. A class derived from another module names
/// that one's parts as well. TAPESTRY_FIELDS() says that there are none.
#define TAPESTRY_FIELDS(...)                                                       \
  ::tapestry::nn::Fields fields() override {                                       \
    return ::tapestry::nn::Fields::named(#__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__); \
  }                                                                                \
  ::tapestry::nn::NamedParts tapestry_named_parts_{this};
