#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
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
  std::variant<Variable*, Tensor*, Module*> part;  ///< a Variable is a Parameter if it is trainable, else a Buffer
};

/// The parts of a module, in order. A list of parts is named by their places, "layers.0"; an std::optional without a
/// value and an empty Tensor are left out.
class TAPESTRY_API Fields {
 public:
  /// None.
  Fields() = default;

  /// The parts under the names of a list such as "hidden, logits", which TAPESTRY_FIELDS makes.
  template <class... Parts>
  static Fields named(std::string_view names, Parts&... parts) {
    Fields fields;
    const auto add = [&](auto& part) {
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
  void add(const std::string& name, Parameter& parameter) { add_field(name, &parameter); }
  void add(const std::string& name, Buffer& buffer) { add_field(name, &buffer); }
  void add(const std::string& name, Tensor& constant) {
    if (constant) add_field(name, &constant);
  }
  void add(const std::string& name, Module& module) { add_field(name, &module); }
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
  static std::string next_name(std::string_view& names);
  void add_field(const std::string& name, std::variant<Variable*, Tensor*, Module*> part);

  std::vector<Field> list_;
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

  /// The module's own parts; TAPESTRY_FIELDS writes this function. A module without parameters has none.
  virtual Fields fields() { return {}; }

  /// Handles on all parameters, those of parts included, in the order of the fields.
  std::vector<Variable> parameters() const;
  /// The same with their names, "hidden.weight".
  std::vector<std::pair<std::string, Variable>> named_parameters() const;
  /// The buffers and constants with their names and values.
  std::vector<std::pair<std::string, Tensor>> named_buffers() const;
  /// This module, under the name "", and all modules in it, each before its parts.
  std::vector<std::pair<std::string, const Module*>> named_modules() const;
  /// How many numbers the parameters are.
  std::int64_t parameter_count() const;

  /// The values of all parameters, buffers and constants. They are values: training on does not change them.
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
/// that one's parts as well.
#define TAPESTRY_FIELDS(...) \
  ::tapestry::nn::Fields fields() override { return ::tapestry::nn::Fields::named(#__VA_ARGS__, __VA_ARGS__); }
