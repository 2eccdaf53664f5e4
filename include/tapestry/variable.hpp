#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "tapestry/detail/handle.hpp"
#include "tapestry/op.hpp"

namespace tapestry {

/// @addtogroup tape
/// @{

/// The properties of a Variable besides its value.
struct VariableOptions {
  /// The name in errors, checkpoints and graphs.
  std::string name = "Variable";
  /// Whether tapes watch the Variable by themselves, and optimizers update it when they are given no list.
  bool trainable = true;
  /// The element type; `unknown` stands for that of the initial value.
  DType dtype = DType::unknown;
};

class Value;

/// A named, mutable cell that holds a tensor. Copies of a Variable are handles to the same cell. A value that was read
/// never changes: an assignment puts another tensor into the cell.
class TAPESTRY_API Variable {
 public:
  /// Throws InvalidArgumentError for an empty Tensor, and for one of unknown dtype or shape. A symbolic initial value
  /// is assigned when the initializer runs.
  explicit Variable(const Init& initial_value, const VariableOptions& options = {}, Where where = Where::here());
  /// A Variable with a nested list as its initial value. `Variable w{tensor}` holds the tensor, not a list of one
  /// tensor.
  explicit Variable(std::initializer_list<Init> initial_value, const VariableOptions& options = {},
                    Where where = Where::here())
      : Variable(initial_value.size() == 1 && initial_value.begin()->is_tensor() ? *initial_value.begin()
                                                                                 : Init(initial_value),
                 options, where) {}

  /// The current value. Tapes that watch Variables record the read. In a graph built by hand, all reads of a Variable
  /// are one operation, except those in a scope of `control_dependencies`: each of these is an operation of its own,
  /// which sees what the operations of the scope have assigned. (`read_value` is TensorFlow's name.) A Variable
  /// converts to a Tensor by itself, too. Throws FailedPreconditionError for a Variable whose symbolic initial value no
  /// session has assigned yet.
  /// @{
  Tensor value(Where where = Where::here()) const;
  Tensor read_value(Where where = Where::here()) const { return value(where); }
  /// @}
  /// The indexed part of the value: see Tensor::operator().
  template <class... Indices>
  requires(std::constructible_from<Index, Indices>&&...) Tensor operator()(Index first, Indices... rest) const {
    return value()(first, rest...);
  }

  /// In a graph, the value after the initializer has run. The initial value of another Variable can depend on it.
  Tensor initialized_value(Where where = Where::here()) const;
  /// The operation of the default graph that assigns the initial value; an empty handle if there is none.
  Operation initializer() const;

  /// Set the cell's value and return the new one. They are const, because a const Variable is still a handle to the
  /// same cell. A tensor of another dtype is converted as by `cast`, and a literal takes the Variable's dtype, in which
  /// an integer must fit. Throw InvalidArgumentError for another shape, when a float would become an integer, and for
  /// sums of bools, and FailedPreconditionError for an empty Tensor; then nothing has changed.
  /// @{
  Tensor assign(const Value& value) const;
  Tensor assign_add(const Value& delta) const;
  Tensor assign_sub(const Value& delta) const;
  /// @}

  /// The name that was given, which several Variables may share. For a module's Parameter it is the path,
  /// "hidden.weight".
  const std::string& name() const;
  /// The shape, dtype and device of the value, even if there is no value yet.
  /// @{
  const Shape& shape() const;
  DType dtype() const;
  Device device() const;
  /// @}
  /// Whether tapes watch the Variable by themselves, and optimizers update it when they are given no list.
  bool trainable() const;
  /// Whether both are handles to the same cell.
  bool is(const Variable& other) const { return cell_ == other.cell_; }

  struct Cell;
  /// For tapes, optimizers and graphs: the cell.
  const std::shared_ptr<Cell>& cell() const { return cell_; }
  /// For tapes, optimizers and graphs: a handle to a cell. (It is a template, because the literal in `Variable(0)` is a
  /// null pointer, too.)
  template <std::same_as<std::shared_ptr<Cell>> Pointer>
  explicit Variable(Pointer cell) : cell_(std::move(cell)) {}

 private:
  detail::Handle<Cell> cell_;
};

template <class V>
requires(!std::same_as<V, Tensor> && std::derived_from<V, Variable>) Tensor::Tensor(const V& variable, Where where)
    : Tensor(static_cast<const Variable&>(variable).value(where)) {}

/// A value that is assigned, fed, or passed to a traced function, with its call site: a tensor, a Variable (which is
/// read), or a literal (which takes the dtype that the receiver needs).
class Value : public Init {
 public:
  /// From a list in braces.
  Value(std::initializer_list<Init> items, Where where = Where::here()) : Init(items), where_(where) {}
  /// From a tensor, a Variable, a number, or a container.
  template <class T>
  Value(const T& value, Where where = Where::here())  // NOLINT(google-explicit-constructor): it stands for its tensor
      : Init(checked(value)), where_(where) {}

  /// The call site in the user's program.
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
