#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "tapestry/op.hpp"

namespace tapestry {

/// @addtogroup tape
/// @{

/// What a Variable is besides its value.
struct VariableOptions {
  std::string name = "Variable";  ///< in errors, checkpoints and graphs
  bool trainable = true;          ///< tapes watch it by themselves, and optimizers update it when none is named
  DType dtype = DType::unknown;   ///< unknown: the initial value's
};

class Value;

/// A named, mutable cell that holds a tensor. Copies of a Variable are handles on the same cell. A value that was read
/// never changes: an assignment gives the cell another one.
class TAPESTRY_API Variable {
 public:
  /// Throws InvalidArgumentError for an empty Tensor, and for one whose dtype or shape is not known. A symbolic initial
  /// value is assigned when the initializer runs.
  explicit Variable(const Init& initial_value, const VariableOptions& options = {}, Where where = Where::here());
  /// A nested list; but `Variable w{tensor}` holds the tensor, not a list of one.
  explicit Variable(std::initializer_list<Init> initial_value, const VariableOptions& options = {},
                    Where where = Where::here())
      : Variable(initial_value.size() == 1 && initial_value.begin()->is_tensor() ? *initial_value.begin()
                                                                                 : Init(initial_value),
                 options, where) {}

  /// The current value. Tapes that watch Variables see the read. In a graph built by hand all reads are one, but for
  /// those in a scope of `control_dependencies`: each of them is a read of its own, which sees what the operations of
  /// the scope have assigned. (`read_value` is TensorFlow's name.)
  /// @{
  Tensor value() const;
  Tensor read_value() const { return value(); }
  operator Tensor() const { return value(); }  // NOLINT(google-explicit-constructor): reading is what a Variable is for
  /// @}
  /// The part of the value that the indices name: see Tensor::operator().
  template <class... Indices>
  requires(std::constructible_from<Index, Indices>&&...) Tensor operator()(Index first, Indices... rest) const {
    return value()(first, rest...);
  }

  /// The value, in a graph, once the initializer has run: for the initial value of another Variable.
  Tensor initialized_value(Where where = Where::here()) const;
  /// The operation that assigns the initial value in a graph; an empty handle outside.
  Operation initializer() const;

  /// Each sets the cell's value and returns the new one; a const handle is a handle all the same. The dtype and shape
  /// stay: anything else throws InvalidArgumentError and changes nothing. A literal takes the Variable's dtype, in
  /// which a whole number must fit; a tensor of another dtype is converted as by `cast`. Floats never become whole
  /// numbers.
  /// @{
  Tensor assign(const Value& value) const;
  Tensor assign_add(const Value& delta) const;
  Tensor assign_sub(const Value& delta) const;
  /// @}

  /// As it was given, several Variables may have the same; of a module's Parameter its path, "hidden.weight".
  const std::string& name() const;
  /// Those of the value, also while there is none yet.
  /// @{
  const Shape& shape() const;
  DType dtype() const;
  Device device() const;
  /// @}
  /// Whether tapes watch it by themselves, and optimizers update it when none is named.
  bool trainable() const;
  /// Whether both handles name the same cell.
  bool is(const Variable& other) const { return cell_ == other.cell_; }

  struct Cell;
  /// For tapes, optimizers and graphs.
  const std::shared_ptr<Cell>& cell() const { return cell_; }
  /// For them, too: a handle on a cell. (A template, because the literal in `Variable(0)` is a null pointer as well.)
  template <std::same_as<std::shared_ptr<Cell>> Pointer>
  explicit Variable(Pointer cell) : cell_(std::move(cell)) {}

 private:
  std::shared_ptr<Cell> cell_;
};

/// What is assigned, fed, or given to a traced function, with the place where it was written: a tensor, a Variable
/// (which is read), or a literal, which takes the dtype that is wanted there.
class Value : public Init {
 public:
  /// A list in braces.
  Value(std::initializer_list<Init> items, Where where = Where::here()) : Init(items), where_(where) {}
  /// A tensor, a Variable, a number, or a container.
  template <class T>
  Value(const T& value, Where where = Where::here())  // NOLINT(google-explicit-constructor): it stands for its tensor
      : Init(checked(value)), where_(where) {}

  /// The user's line.
  Where where() const { return where_; }

 private:
  template <class T>
  static Init checked(const T& value) {
    constexpr bool good = std::constructible_from<Init, const T&>;
    static_assert(good, "A value is a tp::Tensor, a tp::Variable, a number, or a list or container of these.");
    if constexpr (good) {
      return Init(value);
    } else {
      return {};
    }
  }

  Where where_;
};

/// @}

}  // namespace tapestry
