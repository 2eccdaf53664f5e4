#pragma once

#include <string>

#include "tapestry/variable.hpp"

namespace tapestry::nn {

/// @addtogroup nn
/// @{

/// A Variable that belongs to a module. Copies of a Variable are handles to one cell, but a copy of a ModuleVariable
/// has a cell of its own with the same value. So modules can be copied as values. (The memory is shared until one of
/// the two changes.) `tp::Variable w = net.weight` is a handle as usual; `auto w = net.weight` is a copy.
///
/// Assigning a ModuleVariable to another one sets the value and keeps the cell, so that traces and optimizers that use
/// the cell see the new value. The cell is replaced only if the two differ in dtype or shape, or in whether they are
/// trainable. Moving hands the cell over. A `function` that has used a cell that is replaced is traced anew.
class TAPESTRY_API ModuleVariable : public Variable {
 public:
  /// Creates a new cell with the same value.
  ModuleVariable(const ModuleVariable& other);
  /// Takes over the cell.
  ModuleVariable(ModuleVariable&&) noexcept = default;
  /// Sets the value of this cell.
  ModuleVariable& operator=(const ModuleVariable& other);
  /// Replaces this cell by the other one.
  ModuleVariable& operator=(ModuleVariable&& other) noexcept;
  ~ModuleVariable() = default;

 protected:
  using Variable::Variable;
};

/// A Variable of a module that is trained.
class TAPESTRY_API Parameter : public ModuleVariable {
 public:
  /// `name` is the name of the Variable in errors and graphs while it is not a part of a module. In a module, the
  /// member's path is its name. Throws InvalidArgumentError for a value that is not of a float type.
  explicit Parameter(const Init& initial_value, std::string name = "parameter", Where where = Where::here());
};

/// A Variable of a module that is saved with the parameters, but not trained by gradients, such as running statistics.
class TAPESTRY_API Buffer : public ModuleVariable {
 public:
  /// The same as for a Parameter, but not trainable.
  explicit Buffer(const Init& initial_value, std::string name = "buffer", Where where = Where::here());
};

/// @}

}  // namespace tapestry::nn
