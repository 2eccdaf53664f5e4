#include "tapestry/nn/module.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <typeinfo>
#include <unordered_set>

#include <cxxabi.h>

#include "autodiff/variable_cell.hpp"
#include "dispatch/recorder.hpp"
#include "nn/names.hpp"

namespace tapestry::nn {
namespace {

using detail::join;

/// The fields of a module, for reading. Listing them takes their addresses and changes nothing.
std::vector<Field> fields_of(const Module& module) { return const_cast<Module&>(module).fields().list(); }

[[noreturn]] void throw_unnamed(const std::string& which, const Module& module, Where where) {
  throw FailedPreconditionError(
      join("The class ", type_name(module), which, " has not named its parts, so that nothing of it is trained or ",
           "saved: put TAPESTRY_FIELDS(...) with their names behind them, or TAPESTRY_FIELDS() if it has none"),
      where);
}

/// Throws FailedPreconditionError for a part that holds parts itself and has not named them.
void check_parts(const std::vector<Field>& fields, const std::string& prefix, Where where) {
  for (const Field& field : fields) {
    Module* const* part = std::get_if<Module*>(&field.part);
    if (!part) continue;
    require_parts(**part, prefix + field.name, where);
    const Fields parts = (*part)->fields();
    if (!parts.are_named() && holds_parts(**part, field.bytes))
      throw_unnamed(join(" of '", prefix, field.name, "'"), **part, where);
    check_parts(parts.list(), prefix + field.name + ".", where);
  }
}

/// The fields, for functions that would silently leave out parts that a class has not named. Throws
/// FailedPreconditionError for such a class, and for a module that has lost its parts.
std::vector<Field> named_fields_of(const Module& module, Where where) {
  require_parts(module, {}, where);
  const Fields fields = const_cast<Module&>(module).fields();
  if (!fields.are_named()) throw_unnamed("", module, where);
  check_parts(fields.list(), "", where);
  adopt(module);
  update_names();
  return fields.list();
}

/// Calls `visit` with the field of each Variable and constant in the fields and their parts, under its full name.
void for_each_leaf(const std::vector<Field>& fields, const std::function<void(const Field&)>& visit,
                   const std::string& prefix = {}) {
  for (const Field& field : fields) {
    const std::string name = prefix + field.name;
    if (Module* const* part = std::get_if<Module*>(&field.part)) {
      for_each_leaf((*part)->fields().list(), visit, name + ".");
    } else {
      visit({name, field.part, field.is_parameter, 0});
    }
  }
}

Variable* variable_in(const Field& field) {
  Variable* const* found = std::get_if<Variable*>(&field.part);
  return found ? *found : nullptr;
}

/// The same with each Variable and constant once, under its first name: modules may share them.
void for_each_leaf_once(const std::vector<Field>& fields, const std::function<void(const Field&)>& visit) {
  std::unordered_set<const void*> seen;
  for_each_leaf(fields, [&](const Field& leaf) {
    const Variable* variable = variable_in(leaf);
    const void* place = variable ? static_cast<const void*>(variable->cell().get()) : std::get<Tensor*>(leaf.part);
    if (seen.insert(place).second) visit(leaf);
  });
}

using NamedModules = std::vector<std::pair<std::string, const Module*>>;

/// Adds a module and its parts to the list, unless they are in it.
void add_modules(const Module& module, const std::string& name, NamedModules& list) {
  if (std::any_of(list.begin(), list.end(), [&](const auto& each) { return each.second == &module; })) return;
  list.emplace_back(name, &module);
  for (const Field& field : fields_of(module))
    if (Module* const* part = std::get_if<Module*>(&field.part))
      add_modules(**part, name.empty() ? field.name : name + "." + field.name, list);
}

Tensor value_of(const Field& leaf) {
  const Variable* variable = variable_in(leaf);
  return variable ? variable->cell()->load() : *std::get<Tensor*>(leaf.part);
}

void set_value(const Field& leaf, const Tensor& value) {
  if (const Variable* variable = variable_in(leaf)) {
    variable->cell()->store(value);
  } else {
    *std::get<Tensor*>(leaf.part) = value;
  }
}

std::string text_of(const Tensor& tensor) { return to_string(tensor.dtype()) + to_string(tensor.shape()); }

/// What is wrong with a value that is to replace another one; empty when it fits.
std::string misfit(const std::string& name, const Tensor& place, const Tensor& value) {
  if (!value || value.is_symbolic()) return join("\n  '", name, "' has no value");
  const bool loses = is_floating(value.dtype()) && !is_floating(place.dtype());
  if (value.shape() == place.shape() && !loses) return {};
  return join("\n  '", name, "' is ", text_of(value), " in the state and ", text_of(place), " in the module");
}

}  // namespace

void require_parts(const Module& module, std::string_view path, Where where) {
  if (!module.moved_ || !const_cast<Module&>(module).fields().lacks_parts()) return;
  throw FailedPreconditionError(join("The ", type_name(module), path.empty() ? "" : join(" '", path, "'"),
                                     " was moved to another one, which has its parts now: use that one"),
                                where);
}

std::string Fields::next_name(std::string_view& names) {
  const std::size_t comma = std::min(names.find(','), names.size());
  std::string_view name = names.substr(0, comma);
  names.remove_prefix(std::min(comma + 1, names.size()));
  name.remove_prefix(std::min(name.find_first_not_of(" \t\n\\"), name.size()));
  return std::string(name.substr(0, name.find_first_of(" \t\n\\")));
}

void Fields::add_field(const std::string& name, std::variant<Variable*, Tensor*, Module*> part, bool is_parameter,
                       std::size_t bytes) {
  list_.push_back({name, part, is_parameter, bytes});
}

Fields Module::fields() {
  Fields none;
  none.are_named_ = false;
  return none;
}

std::vector<std::pair<std::string, Variable>> Module::named_parameters(Where where) const {
  std::vector<std::pair<std::string, Variable>> found;
  for_each_leaf_once(named_fields_of(*this, where), [&](const Field& leaf) {
    if (const Variable* variable = variable_in(leaf); variable && variable->trainable())
      found.emplace_back(leaf.name, *variable);
  });
  return found;
}

std::vector<Variable> Module::parameters(Where where) const {
  std::vector<Variable> found;
  for (const auto& [name, parameter] : named_parameters(where)) found.push_back(parameter);
  return found;
}

std::vector<std::pair<std::string, Tensor>> Module::named_buffers(Where where) const {
  std::vector<std::pair<std::string, Tensor>> found;
  for_each_leaf_once(named_fields_of(*this, where), [&](const Field& leaf) {
    const Variable* variable = variable_in(leaf);
    if (!variable || !variable->trainable()) found.emplace_back(leaf.name, value_of(leaf));
  });
  return found;
}

std::vector<std::pair<std::string, const Module*>> Module::named_modules() const {
  NamedModules found;
  add_modules(*this, "", found);
  return found;
}

std::int64_t Module::parameter_count(Where where) const {
  std::int64_t count = 0;
  for (const auto& [name, parameter] : named_parameters(where)) count += parameter.shape().size();
  return count;
}

StateDict Module::state_dict(Where where) const {
  StateDict state;
  for_each_leaf(named_fields_of(*this, where), [&](const Field& leaf) { state.emplace(leaf.name, value_of(leaf)); });
  return state;
}

// NOLINTNEXTLINE(readability-make-member-function-const): it changes the parts of the module
void Module::load_state_dict(const StateDict& state, Where where) {
  const ExecuteNow now;
  const PauseRecording pause;
  std::string problems;
  std::vector<std::pair<Field, Tensor>> changes;
  StateDict unused = state;
  for_each_leaf(named_fields_of(*this, where), [&](const Field& leaf) {
    const auto entry = unused.extract(leaf.name);
    const Tensor place = value_of(leaf);
    const std::string problem =
        entry ? misfit(leaf.name, place, entry.mapped()) : join("\n  '", leaf.name, "' is not in the state");
    if (problem.empty()) {
      changes.emplace_back(leaf, entry.mapped().cast(place.dtype()).contiguous().to(place.device()));
    } else {
      problems += problem;
    }
  });
  for (const auto& [name, value] : unused) problems += join("\n  '", name, "' is not in the module");
  if (!problems.empty())
    throw InvalidArgumentError(join("The state does not fit the module ", type_name(*this), ":", problems), where);
  for (const auto& [leaf, value] : changes) set_value(leaf, value);
}

// NOLINTNEXTLINE(readability-make-member-function-const): it changes the parts of the module
void Module::to(Device device, Where where) {
  const CallSiteScope site(where);
  const ExecuteNow now;
  const PauseRecording pause;
  for_each_leaf(named_fields_of(*this, where), [&](const Field& leaf) {
    if (const Variable* variable = variable_in(leaf)) {
      variable->cell()->move_to(device);
    } else {
      set_value(leaf, value_of(leaf).to(device));
    }
  });
}

// NOLINTNEXTLINE(readability-make-member-function-const): it changes the parts of the module
void Module::to(DType dtype, Where where) {
  if (!is_floating(dtype))
    throw InvalidArgumentError(join("A module's numbers become a float type, not ", to_string(dtype)), where);
  const CallSiteScope site(where);
  const ExecuteNow now;
  const PauseRecording pause;
  for_each_leaf(named_fields_of(*this, where), [&](const Field& leaf) {
    const Tensor value = value_of(leaf);
    if (!is_floating(value.dtype()) || value.dtype() == dtype) return;
    if (Variable* variable = variable_in(leaf)) {
      Variable converted(value.cast(dtype), {.name = variable->name(), .trainable = variable->trainable()});
      converted.cell()->given_name = variable->cell()->given_name;
      converted.cell()->path_names = variable->cell()->path_names;
      variable->cell()->replaced.add();
      *variable = converted;
    } else {
      set_value(leaf, value.cast(dtype));
    }
  });
}

void Module::train(bool on, Where where) {
  named_fields_of(*this, where);
  set_training(on);
}

void Module::set_training(bool on) {
  training_.set(on);
  for (const Field& field : fields().list())
    if (Module* const* part = std::get_if<Module*>(&field.part)) (*part)->set_training(on);
}

// NOLINTNEXTLINE(readability-make-member-function-const): it changes the parts of the module
void Module::freeze(bool on, Where where) {
  for_each_leaf(named_fields_of(*this, where), [&](const Field& leaf) {
    if (leaf.is_parameter) variable_in(leaf)->cell()->trainable.set(!on);
  });
}

std::string type_name(const Module& module) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(typeid(module).name(), nullptr, nullptr, &status), std::free);
  const std::string name = readable ? readable.get() : typeid(module).name();
  // The name begins behind the last colon that is outside template arguments, and ends before its own arguments.
  std::size_t begin = name.size();
  int depth = 0;
  for (; begin > 0 && (depth > 0 || name[begin - 1] != ':'); --begin)
    depth += name[begin - 1] == '>' ? 1 : name[begin - 1] == '<' ? -1 : 0;
  return name.substr(begin, name.find('<', begin) - begin);
}

}  // namespace tapestry::nn
