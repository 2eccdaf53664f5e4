#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tapestry/attrs.hpp"
#include "tapestry/detail/function.hpp"
#include "tapestry/detail/handle.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry {

/// @addtogroup extending
/// @{

class Backend;
class BatchedCall;
class Call;
class Variable;
struct Elementwise;
namespace detail {
class GraphState;
}  // namespace detail

/// How an op converts its inputs to one element type before `infer` sees them. Every conversion of a tensor is a Cast
/// op of its own.
struct Promotion {
  /// The type to which inputs are converted.
  enum class Kind : std::uint8_t {
    none,      ///< the inputs keep their types
    common,    ///< the widest type among them
    floating,  ///< the same, but float32 instead of integers and bools
  };
  Kind kind = Kind::none;  ///< how the inputs from `first` on are converted
  int first = 0;           ///< the inputs before this one keep their types, such as the condition of `where`
};
/// The inputs keep their types. A C++ number becomes the tensor that `tp::tensor` makes of it.
inline constexpr Promotion no_promotion{};
/// All inputs get the widest type among them, as by PyTorch's result_type.
inline constexpr Promotion common_type{Promotion::Kind::common};
/// As `common_type`, but integers and bools become float32.
inline constexpr Promotion floating_type{Promotion::Kind::floating};

/// The inputs and outputs (bits 0, 1, ...; bit 31 for all from 31 on) whose elements the gradient reads. It may read
/// only the dtype and shape of the others, and tapes release their memory.
struct Needs {
  std::uint32_t inputs = ~0U;   ///< by default all
  std::uint32_t outputs = ~0U;  ///< by default all
};
/// The gradient reads no elements, those of all inputs, or those of all outputs.
/// @{
inline constexpr Needs needs_nothing{0, 0};
inline constexpr Needs needs_inputs{~0U, 0};
inline constexpr Needs needs_outputs{0, ~0U};
/// @}

/// How an op moves the elements of its inputs, if it does nothing else. The optimisation of graphs uses this.
enum class Movement : std::uint8_t {
  none,      ///< the op computes new elements, or depends on the values of elements
  keeps,     ///< the output is the first input itself, in the same layout
  reshapes,  ///< the output has the elements of the first input, in the same order and another shape
  repeats,   ///< the output is the first input, broadcast to another shape
  moves,     ///< the output has elements of the first input, all or some of them, at other positions
  joins,     ///< the output has the elements of all inputs, at other positions
};

/// The float type in which an op runs inside the scope of an `Autocast`.
enum class Precision : std::uint8_t {
  given,  ///< the type of its inputs
  low,    ///< the type of the scope: for matrix products and convolutions, which gain most by it
  full,   ///< float32: for ops that easily leave the range of float16, or that add up many numbers
};

/// The gradient of an op through which no gradient flows, such as comparisons, argmax and shapes.
struct NoGradient {};
inline constexpr NoGradient no_gradient{};  ///< for an op's member `gradient`
/// Marks an op whose gradient exists in mathematics, but is not implemented. Asking for it throws LookupError with the
/// op's name.
struct NotDifferentiableYet {};
inline constexpr NotDifferentiableYet not_differentiable_yet{};  ///< the default of an op's member `gradient`

/// The gradient of an op: a function from the gradients of its outputs (empty handles where nothing flows) to the
/// gradients of its inputs (empty handles for inputs without a gradient), one for each. It is a composition of public
/// ops and never accesses elements, so derivatives of any order, and gradients as graphs, need nothing else. The
/// function of an op with one output may take one Tensor instead of a list, and that of an op with one input may return
/// one.
class Gradient {
 public:
  /// A gradient that is not implemented: asking for it throws LookupError.
  Gradient(NotDifferentiableYet = {}) {}  // NOLINT(google-explicit-constructor)
  /// No gradient flows.
  Gradient(NoGradient) : flows_(false) {}  // NOLINT(google-explicit-constructor)
  /// A function of the call and of the gradients of its outputs (or of its only output), which returns the gradients of
  /// its inputs.
  template <class F>
  requires(std::is_invocable_v<F, const Call&, const Tensor&> || std::is_invocable_v<F, const Call&, const Tensors&>)
      Gradient(F f, Where where = Where::here()) {  // NOLINT(google-explicit-constructor): written as a lambda
    detail::require_function(f, "Gradient", where);
    if constexpr (std::is_invocable_v<F, const Call&, const Tensor&>) {
      takes_one_ = true;
      function_ = [f](const Call& call, Tensors&& g) { return in_list(f, call, std::move(g[0])); };
    } else {
      function_ = [f](const Call& call, Tensors&& g) { return in_list(f, call, std::move(g)); };
    }
  }

  /// Whether anything can flow back through the op.
  bool flows() const { return flows_; }
  /// Whether there is a function to call.
  explicit operator bool() const { return static_cast<bool>(function_); }
  /// Whether the function takes one Tensor, so that the op must have one output.
  bool takes_one() const { return takes_one_; }
  /// The gradients of the inputs.
  Tensors operator()(const Call& call, Tensors gradients) const { return function_(call, std::move(gradients)); }

 private:
  /// What f returns, a list or the only Tensor in it.
  template <class F, class G>
  static Tensors in_list(const F& f, const Call& call, G&& g) {
    if constexpr (std::is_convertible_v<std::invoke_result_t<const F&, const Call&, G>, Tensor>) {
      Tensors list;
      list.push_back(f(call, std::forward<G>(g)));
      return list;
    } else {
      return f(call, std::forward<G>(g));
    }
  }

  std::function<Tensors(const Call&, Tensors&&)> function_;
  bool flows_ = true, takes_one_ = false;
};

/// How an op computes its outputs with the kernels of a backend. The outputs are already allocated.
class TAPESTRY_API Forward {
 public:
  /// No function: the op has a `view` or a `cpu` instead.
  Forward() = default;
  /// The function that computes the outputs. If it calls one elementwise function of the backend and nothing else,
  /// `F::elementwise(call)` tells which one.
  template <class F>
  requires std::is_invocable_v<const F&, Backend&, const Call&> Forward(F f)  // NOLINT: written in an op's definition
      : run_(std::move(f)) {
    if constexpr (requires { &F::elementwise; }) elementwise_ = &F::elementwise;
  }

  /// Whether there is a function to call.
  explicit operator bool() const { return static_cast<bool>(run_); }
  /// Writes the outputs of the call.
  void operator()(Backend& backend, const Call& call) const { run_(backend, call); }
  /// Whether each element of the only output is a function of one element of each input. Plans can fuse such ops.
  bool is_elementwise() const { return elementwise_ != nullptr; }
  /// The elementwise function of a call.
  Elementwise elementwise(const Call& call) const;

 private:
  std::function<void(Backend&, const Call&)> run_;
  Elementwise (*elementwise_)(const Call&) = nullptr;
};

/// The definition of an op: a constant that serves eager execution, tapes and graphs on every device.
struct Op {
  /// The name, which is TensorFlow's if TensorFlow has the op.
  std::string name;
  /// All attributes that the op may have.
  std::vector<OpAttr> attrs = {};
  /// Checks the inputs and attributes, and returns the dtype and shape of every output. It is the only shape code of an
  /// op, and must work when sizes are unknown.
  std::function<Specs(const Call&)> infer = {};

  // Exactly one of `forward`, `view`, `cpu` and `evaluate` computes the outputs.

  /// Computes the outputs, on any device.
  Forward forward = {};
  /// Returns the output of an op whose output shares its input's memory. It must read shapes and strides only: in a
  /// plan it is called once, before there is memory.
  std::function<Tensor(const Call&, const Spec&)> view = {};
  /// Whether `view` copies an input that is not contiguous. A plan copies it beforehand.
  bool view_copies = false;
  /// Computes the outputs on the host, for ops from outside the library. The inputs are contiguous; the outputs are
  /// written through `call.output_data<T>(i)`.
  std::function<void(const Call&)> cpu = {};

  /// Computes and allocates the outputs of an op whose sizes depend on the values of its inputs, on their device.
  /// `infer` gives these sizes as unknown.
  std::function<Tensors(const Call&)> evaluate = {};

  /// Computes the outputs of a call from its inputs and attributes by public ops. It is written to files whose format
  /// has no such op. Its results and its gradient equal those of the op but for rounding.
  std::function<Tensors(const Call&)> composition = {};
  /// The gradient: by default that of the composition, or one that is not implemented if there is no composition.
  Gradient gradient = {};
  /// Whether the gradient function is given, after the gradients of the outputs, the sums of the inputs' gradients so
  /// far, and returns the new sums. So a loop adds to a sum in the order in which a tape does.
  bool gradient_sums = false;
  /// The conversion of the inputs before `infer`.
  Promotion promotion = no_promotion;
  /// The inputs and outputs that the gradient reads.
  Needs needs = {};
  /// The float type inside the scope of an `Autocast`.
  Precision precision = Precision::given;
  /// The inputs (bits 0, 1, ...; bit 31 for all from 31 on) of which the op itself reads only dtype and shape. They
  /// need no value: gradients often pass tensors without memory to ops such as `sum_like`.
  std::uint32_t shape_inputs = 0;
  /// Whether the gradient of an input that was broadcast is summed to the input's shape.
  bool broadcasts = false;
  /// Whether the op only moves elements, and how.
  Movement movement = Movement::none;
  /// The number of outputs; -1 when it depends on the inputs or attributes.
  int outputs = 1;
  /// Whether two calls with equal inputs may differ (random numbers), or the op changes a Variable, or meets other
  /// ranks. Such calls are neither merged nor left out, and those of a trace keep their order.
  bool stateful = false;
  /// Estimates for how many nanoseconds a call keeps one core busy while the others have nothing to do. It is 0, as by
  /// default, when that is short or when the kernel splits its work. A plan runs such calls side by side, so `cpu` must
  /// be thread-safe if there is an estimate.
  std::function<double(const Call&)> busy = {};
  /// Computes the outputs of all examples of a batch at once, for `vmap`; each output has the axis of the batch in
  /// front. Without this function an elementwise op runs once on aligned inputs, an op with a composition runs what it
  /// is composed of, and any other op runs once for each example. It does so, too, where this returns no tensors.
  Tensors (*batch)(const BatchedCall&) = nullptr;
  /// For the registry: whether `register_op` made the op, so that every call's attributes are checked.
  bool of_program = false;
};

/// One application of an op. A tape is a list of calls, and a node of a graph is a call.
class TAPESTRY_API Call {
 public:
  /// An application that has not been executed, so that it has no outputs yet. The op must outlive it.
  Call(const Op& op, Tensors inputs, Attrs attrs, Where where, std::string_view name = {})
      : op_(&op), inputs_(std::move(inputs)), attrs_(std::move(attrs)), where_(where) {
    if (!name.empty()) name_ = std::make_shared<const std::string>(name);
  }

  /// The op that is applied.
  const Op& op() const { return *op_; }
  /// The op's name: "MatMul".
  const std::string& type() const { return op_->name; }
  /// The name that the caller gave this application; by default the op's name.
  const std::string& name() const { return name_ ? *name_ : op_->name; }
  /// The inputs as the op reads them: promoted, on one device.
  const Tensors& inputs() const { return inputs_; }
  /// The outputs.
  const Tensors& outputs() const { return outputs_; }
  /// Input i. Throws InvalidArgumentError when there are fewer inputs.
  const Tensor& input(std::size_t i) const {
    if (i >= inputs_.size()) [[unlikely]]
      throw_missing_input(i);
    return inputs_[i];
  }
  /// Output i, which must exist.
  const Tensor& output(std::size_t i = 0) const { return outputs_[i]; }
  /// The arguments that are not tensors.
  const Attrs& attrs() const { return attrs_; }
  /// The value of an attribute. Throws NotFoundError when there is no attribute of that name and type.
  template <class T>
  const T& attr(std::string_view name) const {
    return attrs_.get<T>(name);
  }
  /// The call site in the user's program.
  Where where() const { return where_; }
  /// For an op's gradient: whether the gradient of input i is used. For one that is not used, the op may return an
  /// empty handle, which saves time if it is costly.
  bool wants_gradient(std::size_t i) const { return i >= 32 || (unwanted_gradients_ >> i & 1) == 0; }

  /// For an op's `cpu` function: the elements of an output, which it writes.
  template <class T>
  T* output_data(std::size_t i = 0) const {
    if (i >= outputs_.size()) throw_missing_output(i);
    return const_cast<T*>(outputs_[i].data<T>(where_));
  }

  /// For the dispatcher, tapes and graphs.
  /// @{
  Tensors& mutable_inputs() { return inputs_; }
  Tensors& mutable_outputs() { return outputs_; }
  void set_name(std::string name) { name_ = std::make_shared<const std::string>(std::move(name)); }
  void set_attrs(Attrs attrs) { attrs_ = std::move(attrs); }
  void set_unwanted_gradients(std::uint32_t inputs) { unwanted_gradients_ = inputs; }
  /// @}

 private:
  [[noreturn]] void throw_missing_input(std::size_t i) const;
  [[noreturn]] void throw_missing_output(std::size_t i) const;

  const Op* op_;
  Tensors inputs_, outputs_;
  Attrs attrs_;
  Where where_;
  std::uint32_t unwanted_gradients_ = 0;
  std::shared_ptr<const std::string> name_;
};

class Feeds;
class Graph;

/// A handle to an application of an op: to a node of a graph, which it keeps alive, or, in a gradient function, to the
/// call that is differentiated.
class TAPESTRY_API Operation {
 public:
  /// An empty handle.
  Operation() = default;
  /// A handle to a call, which must outlive it.
  Operation(const Call& call) : call_(&call) {}  // NOLINT(google-explicit-constructor): a view of it
  /// For graphs: a handle to a node.
  Operation(const Call& node, std::shared_ptr<detail::GraphState> graph) : call_(&node), graph_(std::move(graph)) {}

  /// Whether there is an operation. The properties of an empty handle throw FailedPreconditionError.
  explicit operator bool() const { return call_ != nullptr; }
  /// Whether both are handles to the same operation.
  bool is(const Operation& other) const { return call_ == other.call_; }

  /// The name, "hidden/MatMul", which is unique within the graph.
  const std::string& name() const { return call().name(); }
  /// The op's name: "MatMul".
  const std::string& type() const { return call().type(); }
  /// The tensors that the operation reads.
  const Tensors& inputs() const { return call().inputs(); }
  /// The tensors that the operation computes.
  const Tensors& outputs() const { return call().outputs(); }
  /// One of the inputs or outputs. Throw InvalidArgumentError when there are not that many.
  /// @{
  const Tensor& input(std::size_t i) const;
  const Tensor& output(std::size_t i = 0) const;
  /// @}
  /// The arguments that are not tensors.
  const Attrs& attrs() const { return call().attrs(); }
  /// The value of an attribute. Throws NotFoundError when there is no attribute of that name and type.
  template <class T>
  const T& attr(std::string_view name) const {
    return call().attr<T>(name);
  }
  /// The call site that created the operation.
  Where where() const { return call().where(); }

  /// The operations that must run before this one although it does not use their outputs.
  std::vector<Operation> control_inputs() const;
  /// The device that was asked for, such as "/device:GPU:0"; "" if none was.
  std::string device() const;
  /// The graph of the operation. Throws FailedPreconditionError when it is in none.
  Graph graph() const;
  /// Runs the operation and everything that it needs, by the thread's default session if it is one of this graph,
  /// otherwise by a new session.
  /// @{
  void run(Where where = Where::here()) const;
  void run(const Feeds& feeds, Where where = Where::here()) const;
  /// @}

  /// For graphs: the call. Throws FailedPreconditionError for an empty handle.
  const Call& call() const;

 private:
  const Call* call_ = nullptr;
  detail::Handle<detail::GraphState> graph_;
};

/// An argument of an op, with its call site: a tensor, a Variable (which is read), a C++ number (which takes the dtype
/// of the other arguments), or a literal in braces or a container (which becomes a tensor as by `tp::tensor`); `{}` is
/// an empty Tensor. It is always a parameter by value, and is never stored.
///
/// An elementwise op may compute its result in the memory of a temporary tensor, which std::move makes of a named one.
///
/// `tensor()` of a float number is float64, so that the number loses no digit before it takes its dtype. An op to which
/// this tensor is passed on still treats it as a number.
class TAPESTRY_API In {
 public:
  /// An empty Tensor.
  In() = default;
  /// An argument at its call site, which the default arguments know.
  /// @{
  In(const Tensor& tensor, const char* file = __builtin_FILE(), int line = __builtin_LINE())  // NOLINT
      : tensor_(&tensor), where_{file, line} {}
  In(Tensor&& temporary, const char* file = __builtin_FILE(), int line = __builtin_LINE())  // NOLINT
      : In(std::as_const(temporary), file, line) {
    is_temporary_ = true;
  }
  In(const Variable& variable, const char* file = __builtin_FILE(), int line = __builtin_LINE());  // NOLINT
  template <class T>
  requires detail::is_number<T> In(T number, const char* file = __builtin_FILE(),
                                   int line = __builtin_LINE())  // NOLINT
      : own_(Init(number).tensor(std::is_floating_point_v<T> || is_float16<T> ? std::optional(float64) : std::nullopt)),
        where_{file, line} {
    own_.impl().weak = true;
  }
  In(const Dimension& size, const char* file = __builtin_FILE(), int line = __builtin_LINE())  // NOLINT
      : In(std::int64_t{size}, file, line) {}
  In(std::initializer_list<Init> items, const char* file = __builtin_FILE(), int line = __builtin_LINE())  // NOLINT
      : In(Init(items), Where{file, line}) {}
  template <std::ranges::forward_range R>
  requires std::constructible_from<Init, const R&> In(const R& items, const char* file = __builtin_FILE(),
                                                      int line = __builtin_LINE())  // NOLINT
      : In(Init(items), Where{file, line}) {}
  /// @}
  /// A tensor with another call site, for functions that pass an argument on.
  In(const Tensor& tensor, Where where) : tensor_(&tensor), where_(where) {}
  /// The same argument. A temporary stays with the other one: a function whose last use of its argument is to pass it
  /// on gives it away by std::move.
  /// @{
  In(const In& other)
      : tensor_(other.tensor_),
        own_(other.own_),
        wide_(other.wide_),
        variable_(other.variable_),
        where_(other.where_) {}
  In(In&&) noexcept = default;
  In& operator=(const In&) = delete;
  ~In() = default;
  /// @}

  /// The argument as a tensor: the value of a Variable, or a number as a tensor without dimensions.
  /// @{
  const Tensor& tensor() const { return tensor_ ? *tensor_ : own_; }
  const Tensor* operator->() const { return &tensor(); }
  operator const Tensor&() const { return tensor(); }  // NOLINT(google-explicit-constructor)
  /// @}
  /// The argument with another element type. A number or a list of numbers is converted as it was written, without loss
  /// of digits on the way.
  Tensor as(DType dtype) const { return (bool(wide_) && dtype == float64 ? wide_ : tensor()).cast(dtype, where_); }
  /// For the dispatcher: empties the temporary tensor that was given, so that it keeps no memory until the end of the
  /// caller's expression. Returns whether one was given.
  bool release() const {
    if (is_temporary_) *const_cast<Tensor*>(tensor_) = Tensor();
    return is_temporary_;
  }
  /// Whether a C++ number was given.
  bool is_number() const { return bool(tensor()) && tensor().impl().weak; }
  /// Whether a list of floats was given, which has more digits than its float32 tensor.
  bool is_list() const { return static_cast<bool>(wide_); }
  /// The Variable that was given, or nullptr.
  const Variable* variable() const { return variable_; }
  /// The call site in the user's program.
  Where where() const { return where_; }

 private:
  In(const Init& literal, Where where);

  const Tensor* tensor_ = nullptr;  ///< the caller's tensor; nullptr: own_
  bool is_temporary_ = false;
  Tensor own_;
  Tensor wide_;  ///< a list of floats as float64
  const Variable* variable_ = nullptr;
  Where where_;
};

/// A list of tensors as an argument of an op, such as `concat`, with its call site.
class TAPESTRY_API InList {
 public:
  /// A list at its call site.
  /// @{
  InList(std::initializer_list<Tensor> tensors, Where where = Where::here())  // NOLINT
      : tensors_(tensors), where_(where) {}
  InList(const std::vector<Tensor>& tensors, Where where = Where::here())  // NOLINT
      : tensors_(tensors), where_(where) {}
  template <std::size_t N>
  InList(const std::array<Tensor, N>& tensors, Where where = Where::here())  // NOLINT
      : tensors_(tensors.begin(), tensors.end()), where_(where) {}
  InList(const Tensors& tensors, Where where = Where::here()) : tensors_(tensors), where_(where) {}  // NOLINT
  /// @}

  /// The tensors in the list.
  const Tensors& tensors() const { return tensors_; }
  /// The call site in the user's program.
  Where where() const { return where_; }

 private:
  Tensors tensors_;
  Where where_;
};

/// Applies an op. Everything that is executed or recorded goes through `apply` or `apply_all`: they promote and check
/// the inputs, infer and allocate the outputs, run the op on its device, and inform the tapes and traces of this
/// thread. `apply` returns the first output, or an empty Tensor for an op without outputs. The call site is that of the
/// first input; an op without inputs is given one by `apply_all`.
TAPESTRY_API Tensor apply(const Op& op, std::initializer_list<In> inputs, const Attrs& attrs = {},
                          std::string_view name = {});
/// The same for an op with a variable number of inputs, with several outputs, or with none.
TAPESTRY_API Tensors apply_all(const Op& op, const Tensors& inputs, const Attrs& attrs, std::string_view name,
                               Where where);

/// Adds an op to the registry and returns the registered op, which is never destroyed. Throws InvalidArgumentError when
/// the op lacks a name that a node may have, or `infer`, when it does not have exactly one of `forward`, `view`, `cpu`
/// and `evaluate`, when two attributes have one name, when `outputs` is below -1, when the gradient takes one Tensor
/// but the op has not one output, and when the name is taken. An exception that is no Error, thrown by one of the op's
/// functions, becomes an Error with the op and the call site; std::rethrow_if_nested throws it as it was.
TAPESTRY_API const Op& register_op(Op op, Where where = Where::here());
/// Replaces the gradient of a registered op. Throws NotFoundError when there is no such op, LookupError when its
/// gradient has been replaced before, and InvalidArgumentError when the function takes one Tensor but the op has not
/// one output.
TAPESTRY_API void register_gradient(std::string_view op, Gradient gradient, Where where = Where::here());
/// Applies a registered op by its name, and returns its first output. Throws NotFoundError, "Unrecognized Op name X",
/// InvalidArgumentError for an attribute that the op does not have, and NotFoundError for an attribute that is missing
/// or of another type.
TAPESTRY_API Tensor apply_op(std::string_view op, const InList& inputs, const Attrs& attrs = {},
                             std::string_view name = {});

/// The registered op of that name, or nullptr.
TAPESTRY_API const Op* find_op(std::string_view name);
/// All registered ops, sorted by name.
TAPESTRY_API std::vector<const Op*> registered_ops();

/// An `infer` for ops with one output, which has the dtype and shape of the first input.
TAPESTRY_API Specs same_shape(const Call& call);

/// @}

}  // namespace tapestry
