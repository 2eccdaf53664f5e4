#pragma once

#include <string>

#include "tapestry/variable.hpp"

namespace tapestry::nn {

/// @addtogroup nn
/// @{

/// A Variable that belongs to a module. Copies of a Variable are handles on one cell; a copy of this is a cell of its
/// own with the same value, and that is why modules can be copied as values. (The memory is shared until one of the two
/// changes.) `tp::Variable w = net.weight` is a handle, as ever; `auto w = net.weight` is a copy.
///
/// Assigning one to another sets the value and keeps the cell, so that traces and optimizers that know the cell see the
/// new value; only where dtype or shape differ the cell becomes a new one. Moving hands the cell over.
class TAPESTRY_API ModuleVariable : public Variable {
 public:
  /// A cell of its own, with the same value.
  ModuleVariable(const ModuleVariable& other);
  /// The cell itself.
  ModuleVariable(ModuleVariable&&) noexcept = default;
  /// The value, into the cell that is here.
  ModuleVariable& operator=(const ModuleVariable& other);
  /// The cell itself, in place of the one that was here.
  ModuleVariable& operator=(ModuleVariable&&) noexcept = default;
  ~ModuleVariable() = default;

 protected:
  using Variable::Variable;
};

/// What a module learns.
class TAPESTRY_API Parameter : public ModuleVariable {
 public:
  /// The name is that of the Variable, in errors and graphs; in the module the member has one of its own.
  explicit Parameter(const Init& initial_value, std::string name = "parameter", Where where = Where::here());
};

/// What a module keeps beside its parameters and saves with them, but does not learn by gradients: running statistics.
class TAPESTRY_API Buffer : public ModuleVariable {
 public:
  /// As a Parameter, but not trainable.
  explicit Buffer(const Init& initial_value, std::string name = "buffer", Where where = Where::here());
};

/// @}

}  // namespace tapestry::nn
