#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "tapestry/tensor.hpp"

namespace tapestry {

/// @addtogroup extending
/// @{

class Backend;
class Call;
class Variable;
struct Elementwise;
struct Program;
namespace detail {
class GraphState;
}

/// A function kept inside an attribute: the gradient of `custom_gradient`, the body of `recompute`.
using Closure = std::shared_ptr<const std::function<Tensors(const Tensors&)>>;

/// Variables inside an attribute, of the ops that read and change them.
using VariablesRef = std::shared_ptr<const std::vector<Variable>>;

/// Several elementwise functions inside an attribute, of the op that stands in a plan for the ops of a graph.
using ProgramRef = std::shared_ptr<const Program>;

/// The value of an op's attribute.
using AttrValue = std::variant<bool, std::int64_t, double, DType, Device, Ints, Shape, std::string, Closure, Tensor,
                               VariablesRef, ProgramRef>;

/// An argument of an op that is no tensor: `{"axis", 1}`.
struct Attr {
  std::string_view name;  ///< lives for ever: a literal, or interned
  AttrValue value;        ///< of one of the types of AttrValue
};

/// An op's attributes: a short immutable list of named values, shared by its copies.
class TAPESTRY_API Attrs {
 public:
  /// None.
  Attrs() = default;
  /// Attributes in this order.
  /// @{
  Attrs(std::initializer_list<Attr> items);
  explicit Attrs(const std::vector<Attr>& items);
  /// @}

  /// The value of an attribute; throws NotFoundError when there is none of that name and type.
  template <class T>
  const T& get(std::string_view name) const {
    const T* value = find<T>(name);
    if (!value) throw_missing(name);
    return *value;
  }
  /// The same, or nullptr when there is no attribute of that name; still throws when its type is another one.
  template <class T>
  const T* find(std::string_view name) const {
    const AttrValue* value = find(name);
    const T* typed = value ? std::get_if<T>(value) : nullptr;
    if (value && !typed) throw_missing(name);
    return typed;
  }
  /// The value of an attribute of any type, or nullptr when there is none of that name.
  const AttrValue* find(std::string_view name) const;
  /// The attributes in the order in which they were given.
  /// @{
  const Attr* begin() const { return list_ ? list_->data() : nullptr; }
  const Attr* end() const { return list_ ? list_->data() + list_->size() : nullptr; }
  /// @}
  /// Whether there are none.
  bool empty() const { return !list_; }
  /// The same names with the same values in the same order; tensors are the same only as handles on one tensor.
  friend bool operator==(const Attrs& a, const Attrs& b);

 private:
  [[noreturn]] static void throw_missing(std::string_view name);
  std::shared_ptr<const SmallVector<Attr, 2>> list_;
};
/// "transpose_a=true, axis=[0,1]"
TAPESTRY_API std::string to_string(const Attrs& attrs);

/// The type of an attribute's value: the types of AttrValue, in their order.
enum class AttrKind : std::uint8_t {
  flag,       ///< bool
  number,     ///< std::int64_t
  real,       ///< double
  type,       ///< DType
  device,     ///< Device
  numbers,    ///< Ints
  shape,      ///< Shape
  text,       ///< std::string
  function,   ///< Closure
  tensor,     ///< Tensor
  variables,  ///< VariablesRef
  program,    ///< ProgramRef
  any,        ///< not told
};

/// The declaration of an attribute that an op may have. The door, graphs in TensorFlow's format and ONNX read it.
struct OpAttr {
  /// A name alone, as in `.attrs = {"axis"}`: of any kind, and optional.
  /// @{
  constexpr OpAttr(const char* known_name) : name(known_name) {}       // NOLINT(google-explicit-constructor)
  constexpr OpAttr(std::string_view known_name) : name(known_name) {}  // NOLINT(google-explicit-constructor)
  /// @}
  /// An attribute of that kind, by default one that must be given.
  constexpr OpAttr(std::string_view known_name, AttrKind its_kind, bool may_lack = false, int elements = -1,
                   bool is_small = false)
      : name(known_name), kind(its_kind), optional(may_lack), count(elements), small(is_small) {}

  std::string_view name;          ///< lives for ever, as a literal does
  AttrKind kind = AttrKind::any;  ///< the type of its value
  bool optional = true;           ///< whether a call may lack it
  int count = -1;                 ///< how many elements a list must have; -1: any number
  bool small = false;             ///< whether elements must fit 32 bits, so that sums and products of some fit 64
};

/// How an op brings its inputs to one element type before `infer` sees them. Every change is a Cast op of its own.
struct Promotion {
  /// What the inputs become.
  enum class Kind : std::uint8_t {
    none,      ///< they stay as they are
    common,    ///< of the widest type among them
    floating,  ///< the same, and whole numbers and bools become float32
  };
  Kind kind = Kind::none;  ///< of the inputs from `first` on
  int first = 0;           ///< the inputs before this one keep their types (the condition of `where`)
};
/// The inputs keep their types; a C++ number becomes the tensor that `tp::tensor` makes of it.
inline constexpr Promotion no_promotion{};
/// All inputs get the widest type among them, as PyTorch's result_type has it.
inline constexpr Promotion common_type{Promotion::Kind::common};
/// As `common_type`; whole numbers and bools become float32.
inline constexpr Promotion floating_type{Promotion::Kind::floating};

/// Which inputs and outputs (bits 0, 1, ...) the gradient reads the elements of. Of the others it may read dtype and
/// shape only, and a tape lets their memory go.
struct Needs {
  std::uint32_t inputs = ~0U;   ///< by default all
  std::uint32_t outputs = ~0U;  ///< by default all
};
/// No elements, those of all inputs, those of all outputs.
/// @{
inline constexpr Needs needs_nothing{0, 0};
inline constexpr Needs needs_inputs{~0U, 0};
inline constexpr Needs needs_outputs{0, ~0U};
/// @}

/// What an op does with the elements of its inputs when it only moves them. Who reasons about a graph asks for it.
enum class Movement : std::uint8_t {
  none,      ///< it computes new elements, or looks at those it has
  keeps,     ///< the output is the first input itself, in the same layout
  reshapes,  ///< the elements of the first input in their order, in another shape
  repeats,   ///< the first input, broadcast to another shape
  moves,     ///< elements of the first input, all or some of them, in other places
  joins,     ///< the elements of all inputs, in other places
};

/// In which float type an op runs inside the scope of an `Autocast`.
enum class Precision : std::uint8_t {
  given,  ///< that of its inputs
  low,    ///< the scope's: products of matrices, which gain most by it
  full,   ///< float32: what leaves the range of float16 easily, or adds up much
};

/// Nothing flows back through the op: comparisons, argmax, shapes.
struct NoGradient {};
inline constexpr NoGradient no_gradient{};  ///< to be written as an op's `gradient`
/// The op's gradient exists in mathematics and is not written: asking for it throws LookupError with the op's name.
struct NotDifferentiableYet {};
inline constexpr NotDifferentiableYet not_differentiable_yet{};  ///< the default

/// The gradient of an op: from the gradients of its outputs (empty handles where nothing flows) to those of its inputs
/// (empty handles where none is), one each. It is a composition of public ops and never touches elements, so
/// derivatives of any order, and gradients as graphs, come by themselves. An op of one output may take its gradient as
/// a Tensor.
class Gradient {
 public:
  /// Throws LookupError when it is asked for.
  Gradient(NotDifferentiableYet = {}) {}  // NOLINT(google-explicit-constructor)
  /// Nothing flows back.
  Gradient(NoGradient) : flows_(false) {}  // NOLINT(google-explicit-constructor)
  /// A function of the call and of the gradients of its outputs (of the one output), which gives those of its inputs.
  template <class F>
  requires(std::is_invocable_v<F, const Call&, const Tensor&> || std::is_invocable_v<F, const Call&, const Tensors&>)
      Gradient(F f) {  // NOLINT(google-explicit-constructor): written as a lambda in an op's definition
    if constexpr (std::is_invocable_v<F, const Call&, const Tensor&>) {
      function_ = [f](const Call& call, const Tensors& g) -> Tensors { return f(call, g[0]); };
    } else {
      function_ = [f](const Call& call, const Tensors& g) -> Tensors { return f(call, g); };
    }
  }

  /// Whether anything can flow back through the op.
  bool flows() const { return flows_; }
  /// Whether there is a function to call.
  explicit operator bool() const { return static_cast<bool>(function_); }
  /// The gradients of the inputs.
  Tensors operator()(const Call& call, const Tensors& gradients) const { return function_(call, gradients); }

 private:
  std::function<Tensors(const Call&, const Tensors&)> function_;
  bool flows_ = true;
};

/// How an op computes its outputs, which are allocated, by the backend's kernel families.
class TAPESTRY_API Forward {
 public:
  /// No function: of an op that has a `view` or a `cpu` instead.
  Forward() = default;
  /// A function of one elementwise function of its backend says which by `F::elementwise(call)`.
  template <class F>
  requires std::is_invocable_v<const F&, Backend&, const Call&> Forward(F f)  // NOLINT: written in an op's definition
      : run_(std::move(f)) {
    if constexpr (requires { &F::elementwise; }) elementwise_ = &F::elementwise;
  }

  /// Whether there is a function to call.
  explicit operator bool() const { return static_cast<bool>(run_); }
  /// Writes the outputs of the call.
  void operator()(Backend& backend, const Call& call) const { run_(backend, call); }
  /// Whether each element of the one output is a function of one element of each input, which a plan may compute
  /// together with those of other ops.
  bool is_elementwise() const { return elementwise_ != nullptr; }
  /// The function of a call.
  Elementwise elementwise(const Call& call) const;

 private:
  std::function<void(Backend&, const Call&)> run_;
  Elementwise (*elementwise_)(const Call&) = nullptr;
};

/// An operation: a constant, written once, that serves eager execution, the tape and the graph on every device.
struct Op {
  std::string name;                ///< TensorFlow's
  std::vector<OpAttr> attrs = {};  ///< all attributes that it may have
  /// Checks the inputs and attributes and tells dtype and shape of every output; the only shape code of an op. It must
  /// work when sizes are unknown.
  std::function<Specs(const Call&)> infer = {};
  Forward forward = {};  ///< computes the outputs, on any device
  /// Instead of `forward`, for an op whose output shares its input's memory. It may look at shapes and strides only: in
  /// a plan it is called once, before there is memory.
  std::function<Tensor(const Call&, const Spec&)> view = {};
  bool view_copies = false;  ///< `view` copies an input that is not contiguous; a plan does that beforehand
  /// Instead of `forward`, for ops from outside the library: computes on the host. The inputs are contiguous; the
  /// outputs are written through `call.output_data<T>(i)`.
  std::function<void(const Call&)> cpu = {};
  /// What the op computes, by public ops: from the inputs and attributes of a call to the outputs. A file gets it where
  /// its format has no such op. It equals the op but for rounding, and so does its gradient.
  std::function<Tensors(const Call&)> composition = {};
  Gradient gradient = {};                  ///< by default one that is not written yet
  Promotion promotion = no_promotion;      ///< of the inputs, before `infer`
  Needs needs = {};                        ///< what the gradient reads
  Precision precision = Precision::given;  ///< inside the scope of an `Autocast`
  /// The inputs (bits 0, 1, ...; the last for all from 31 on) of which the op itself reads dtype and shape only. They
  /// need no value: what `sum_like` and its kin are given by a gradient has often let its memory go.
  std::uint32_t shape_inputs = 0;
  bool broadcasts = false;             ///< the gradient of an input that was broadcast is summed to the input's shape
  Movement movement = Movement::none;  ///< whether elements are only moved
  int outputs = 1;                     ///< how many; -1 when that depends on the inputs or attributes
  bool stateful = false;  ///< two calls with equal inputs may differ (random numbers), or the op changes a Variable
  /// About how many nanoseconds a call keeps one core busy while the others have nothing to do; 0, as by default, when
  /// that is little or when the kernel splits its work. A plan runs such calls side by side, which `cpu` must bear.
  std::function<double(const Call&)> busy = {};
};

/// One application of an op. A tape is a list of calls; a node of a graph is a call with a name.
class TAPESTRY_API Call {
 public:
  /// An application that has not happened: there are no outputs yet. The op must outlive it.
  Call(const Op& op, Tensors inputs, Attrs attrs, Where where, std::string_view name = {})
      : op_(&op), inputs_(std::move(inputs)), attrs_(std::move(attrs)), where_(where) {
    if (!name.empty()) name_ = std::make_shared<const std::string>(name);
  }

  /// What is applied.
  const Op& op() const { return *op_; }
  /// The op's name: "MatMul".
  const std::string& type() const { return op_->name; }
  /// What the caller named this application; by default the op's name.
  const std::string& name() const { return name_ ? *name_ : op_->name; }
  /// As the op reads them: promoted, on one device.
  const Tensors& inputs() const { return inputs_; }
  /// The results, as many as the op has.
  const Tensors& outputs() const { return outputs_; }
  /// Throws InvalidArgumentError when there are fewer inputs.
  const Tensor& input(std::size_t i) const {
    if (i >= inputs_.size()) [[unlikely]]
      throw_missing_input(i);
    return inputs_[i];
  }
  /// Output i, which must exist.
  const Tensor& output(std::size_t i = 0) const { return outputs_[i]; }
  /// The op's arguments that are no tensors.
  const Attrs& attrs() const { return attrs_; }
  /// The value of an attribute; throws NotFoundError when there is none of that name and type.
  template <class T>
  const T& attr(std::string_view name) const {
    return attrs_.get<T>(name);
  }
  /// The user's line.
  Where where() const { return where_; }
  /// For an op's gradient: whether anybody asks for the gradient of that input. A costly one that nobody asks for is
  /// better left out, as an empty handle.
  bool wants_gradient(std::size_t i) const { return i >= 32 || (unwanted_gradients_ >> i & 1) == 0; }

  /// For an op's `cpu` function: the elements of an output, to be written.
  template <class T>
  T* output_data(std::size_t i = 0) const {
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

  const Op* op_;
  Tensors inputs_, outputs_;
  Attrs attrs_;
  Where where_;
  std::uint32_t unwanted_gradients_ = 0;
  std::shared_ptr<const std::string> name_;
};

class Feeds;
class Graph;

/// A handle on an application of an op: on a node of a graph, which it keeps alive, or, in a gradient function, on the
/// call that is being differentiated.
class TAPESTRY_API Operation {
 public:
  /// An empty handle.
  Operation() = default;
  /// On a call, which must outlive it.
  Operation(const Call& call) : call_(&call) {}  // NOLINT(google-explicit-constructor): a view of it
  /// On a node of a graph: for graphs.
  Operation(const Call& node, std::shared_ptr<detail::GraphState> graph) : call_(&node), graph_(std::move(graph)) {}

  /// Whether there is an operation: false for an empty handle, whose properties throw FailedPreconditionError.
  explicit operator bool() const { return call_ != nullptr; }
  /// Whether both handles name the same operation.
  bool is(const Operation& other) const { return call_ == other.call_; }

  /// "hidden/MatMul": unique within its graph.
  const std::string& name() const { return call().name(); }
  /// The op's name: "MatMul".
  const std::string& type() const { return call().type(); }
  /// The tensors that it reads.
  const Tensors& inputs() const { return call().inputs(); }
  /// The tensors that it makes.
  const Tensors& outputs() const { return call().outputs(); }
  /// One of them; throws InvalidArgumentError when there are not that many.
  /// @{
  const Tensor& input(std::size_t i) const;
  const Tensor& output(std::size_t i = 0) const;
  /// @}
  /// The op's arguments that are no tensors.
  const Attrs& attrs() const { return call().attrs(); }
  /// The value of an attribute; throws NotFoundError when there is none of that name and type.
  template <class T>
  const T& attr(std::string_view name) const {
    return call().attr<T>(name);
  }
  /// The user's line that made it.
  Where where() const { return call().where(); }

  /// The operations that have to run before this one although it does not use their outputs.
  std::vector<Operation> control_inputs() const;
  /// The device that was asked for, "/device:GPU:0"; "" where none was.
  std::string device() const;
  /// The graph that it is in; throws FailedPreconditionError when it is in none.
  Graph graph() const;
  /// Runs it and what it needs, by the thread's default session, or by a session of the graph's own.
  /// @{
  void run(Where where = Where::here()) const;
  void run(const Feeds& feeds, Where where = Where::here()) const;
  /// @}

  /// For graphs. Throws FailedPreconditionError for an empty handle.
  const Call& call() const;

 private:
  const Call* call_ = nullptr;
  std::shared_ptr<detail::GraphState> graph_;
};

/// An argument of an op, with the place where it was written: a tensor, a Variable (which is read), a C++ number (which
/// takes the dtype of the other arguments), or a literal in braces or a container (a tensor as `tp::tensor` makes it);
/// `{}` is an empty Tensor. Always a parameter by value; never kept.
/// `tensor()` of a float number is float64, so that it loses no digit on its way to the dtype that it takes; ops to
/// which it is passed on take it for the number that it is.
class TAPESTRY_API In {
 public:
  /// An empty Tensor.
  In() = default;
  /// At the place where it is written, which the default arguments know.
  /// @{
  In(const Tensor& tensor, const char* file = __builtin_FILE(), int line = __builtin_LINE())  // NOLINT
      : tensor_(&tensor), where_{file, line} {}
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
  /// With the place of somebody else, for functions that pass an argument on.
  In(const Tensor& tensor, Where where) : tensor_(&tensor), where_(where) {}

  /// The argument as a tensor, of a Variable its value, of a number one without dimensions.
  /// @{
  const Tensor& tensor() const { return tensor_ ? *tensor_ : own_; }
  const Tensor* operator->() const { return &tensor(); }
  operator const Tensor&() const { return tensor(); }  // NOLINT(google-explicit-constructor)
  /// @}
  /// The argument with another element type. A number or a list of numbers has all its digits there.
  Tensor as(DType dtype) const { return (bool(wide_) && dtype == float64 ? wide_ : tensor()).cast(dtype, where_); }
  /// Whether a C++ number was given.
  bool is_number() const { return bool(tensor()) && tensor().impl().weak; }
  /// Whether a list of floats was given, which has more digits than its tensor.
  bool is_list() const { return static_cast<bool>(wide_); }
  /// The Variable that was given, or nullptr.
  const Variable* variable() const { return variable_; }
  /// The user's line.
  Where where() const { return where_; }

 private:
  In(const Init& literal, Where where);

  const Tensor* tensor_ = nullptr;  ///< the caller's; nullptr: own_
  Tensor own_;
  Tensor wide_;  ///< of a list of floats the float64 that were written
  const Variable* variable_ = nullptr;
  Where where_;
};

/// A list argument of an op, such as what `concat` joins, with the place where it was written.
class TAPESTRY_API InList {
 public:
  /// At the place where it is written.
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

  /// What the list holds.
  const Tensors& tensors() const { return tensors_; }
  /// The user's line.
  Where where() const { return where_; }

 private:
  Tensors tensors_;
  Where where_;
};

/// Applies an op: the one door through which everything executes. Promotes and checks the inputs, infers, allocates,
/// runs the op on its device and tells this thread's tapes and traces.
TAPESTRY_API Tensor apply(const Op& op, std::initializer_list<In> inputs, const Attrs& attrs = {},
                          std::string_view name = {});
/// The same for an op of a variable number of inputs, of several outputs, or of none.
TAPESTRY_API Tensors apply_all(const Op& op, const Tensors& inputs, const Attrs& attrs, std::string_view name,
                               Where where);

/// Adds an op to the registry and returns the registered one, which lives for ever. Throws InvalidArgumentError when it
/// lacks a name, `infer`, or exactly one of `forward`, `view` and `cpu`, and when the name is taken.
TAPESTRY_API const Op& register_op(Op op, Where where = Where::here());
/// Gives a registered op its gradient, in place of the one it was defined with. Throws NotFoundError when there is no
/// such op, and LookupError the second time.
TAPESTRY_API void register_gradient(std::string_view op, Gradient gradient, Where where = Where::here());
/// Applies a registered op by its name. Throws NotFoundError, "Unrecognized Op name X", and InvalidArgumentError for an
/// attribute that is not among those of the op.
TAPESTRY_API Tensor apply_op(std::string_view op, const InList& inputs, const Attrs& attrs = {},
                             std::string_view name = {});

/// The registered op of that name, or nullptr.
TAPESTRY_API const Op* find_op(std::string_view name);
/// All registered ops, by name.
TAPESTRY_API std::vector<const Op*> registered_ops();

/// `infer` of an op whose one output is like its first input.
TAPESTRY_API Specs same_shape(const Call& call);

/// @}

}  // namespace tapestry
