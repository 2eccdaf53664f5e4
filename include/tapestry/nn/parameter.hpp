#pragma once

#include <string>

#include "tapestry/variable.hpp"

namespace tapestry::nn {

/// A Variable that belongs to a module. Copies of a Variable are handles on one cell; a copy of this is a cell of its
/// own with the same value, and that is why modules can be copied as values. (The memory is shared until one of the two
/// changes.) `tp::Variable w = net.weight` is a handle, as ever; `auto w = net.weight` is a copy.
///
/// Assigning one to another sets the value and keeps the cell, so that traces and optimizers that know the cell see the
/// new value; only where dtype or shape differ the cell becomes a new one. Moving hands the cell over.
class TAPESTRY_API ModuleVariable : public Variable {
 public:
  ModuleVariable(const ModuleVariable& other);
  ModuleVariable(ModuleVariable&&) noexcept = default;
  ModuleVariable& operator=(const ModuleVariable& other);
  ModuleVariable& operator=(ModuleVariable&&) noexcept = default;
  ~ModuleVariable() = default;

 protected:
  using Variable::Variable;
};

/// What a module learns.
class TAPESTRY_API Parameter : public ModuleVariable {
 public:
  explicit Parameter(const Init& initial_value, std::string name = "parameter", Where where = Where::here());
};

/// What a module keeps beside its parameters and saves with them, but does not learn by gradients: running statistics.
class TAPESTRY_API Buffer : public ModuleVariable {
 public:
  explicit Buffer(const Init& initial_value, std::string name = "buffer", Where where = Where::here());
};

}  // namespace tapestry::nn
