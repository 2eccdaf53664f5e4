#include "graph/flow/flow_runner.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "backend/backend.hpp"
#include "backend/views.hpp"
#include "core/element_shape.hpp"
#include "core/make_tensor.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/flow/function_runner.hpp"
#include "graph/flow/loop_stack.hpp"
#include "graph/flow/loop_writer.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry::detail {
namespace {

/// The number or truth value that decides what runs next.
template <class T>
T decision(const Tensor& value, std::string_view node) {
  if (!value || value.is_symbolic())
    throw InvalidArgumentError(join("What decides in '", node, "' has no value: it is of a branch that was not taken"));
  if (value.size() != 1)
    throw InvalidArgumentError(
        join("What decides in '", node, "' is ", to_string(value.dtype()), value.shape(), ", not one value"));
  return on_host(value).item<T>();
}

void require_time(const Deadline* deadline) {
  if (deadline && deadline->has_passed()) deadline->fail();
}

class BranchRunner final : public FlowRunner {
 public:
  BranchRunner(const Node& node, const SessionOptions& options)
      : node_(node), functions_(node.attr<FunctionsRef>("functions")), is_if_(is_if(node.op())) {
    Specs operands;
    for (std::size_t i = 1; i < node.inputs().size(); ++i) operands.push_back(node.input(i).spec());
    for (const GraphFunction& each : *functions_) branches_.emplace_back(node, each, operands, options);
  }

  std::string progress() const override { return join("'", node_.name(), "' runs ", (*functions_)[taken_].name); }

 private:
  Tensors run_functions(const Tensors& inputs, const Deadline* deadline, RunTimes* times) override {
    const std::size_t last = branches_.size() - 1;
    const std::int64_t index =
        is_if_ ? !decision<bool>(inputs[0], node_.name()) : decision<std::int64_t>(inputs[0], node_.name());
    taken_ = index < 0 ? last : std::min(static_cast<std::size_t>(index), last);
    Tensors outputs;
    branches_[taken_].run(Tensors(inputs.begin() + 1, inputs.end()), deadline, times, outputs);
    return outputs;
  }

  const Node& node_;
  FunctionsRef functions_;
  bool is_if_;
  std::vector<FunctionRunner> branches_;
  std::size_t taken_ = 0;  ///< the branch of the present run
};

/// The tensor; an empty handle for a result of a branch that was not taken.
Tensor present(const Tensor& result) { return result.is_symbolic() ? Tensor() : result; }

/// The most bytes of carried values that a quick loop copies in each iteration.
constexpr std::size_t most_copied_bytes = 4096;

/// One function of a loop whose carried values are small: they have fixed memory, to which the results of each
/// iteration are copied.
class QuickFunction {
 public:
  QuickFunction(FunctionRunner& function, Executable& executable, const Tensors& values, const Deadline* deadline)
      : function_(function), run_(executable, deadline) {
    for (std::size_t i = 0; i < function.used().size(); ++i) run_.feed(i, values[function.used()[i]]);
    for (std::size_t i = 0, next = 0; i < function.passed_on().size(); ++i) {
      const std::ptrdiff_t input = function.passed_on()[i];
      results_.push_back(input >= 0 ? &values[input] : &run_.result(next++));
    }
  }

  /// Binds an input to another value.
  void feed(std::size_t input, const Tensor& value) {
    const auto& used = function_.used();
    const auto found = std::find(used.begin(), used.end(), input);
    if (found != used.end()) run_.feed(static_cast<std::size_t>(found - used.begin()), value);
  }
  void run(const Deadline* deadline) { run_.run(deadline); }
  const Tensor& result(std::size_t i) const { return *results_[i]; }
  const Executable::Repeated& plan() const { return run_; }

 private:
  FunctionRunner& function_;
  Executable::Repeated run_;
  std::vector<const Tensor*> results_;
};

/// The memory of a quick loop's carried values. All results of an iteration are taken before any is stored, because a
/// result may be another carried value.
class CarriedMemory {
 public:
  explicit CarriedMemory(const Tensors& values) {
    for (const Tensor& each : values) parts_.push_back({static_cast<std::byte*>(each.impl().data), nbytes(each), 0});
    for (Part& each : parts_) {
      each.offset = taken_.size();
      taken_.resize(taken_.size() + each.bytes);
    }
  }

  void take(std::size_t i, const Tensor& result) {
    const Tensor in_order = result.is_contiguous() ? result : backend_of(cpu()).contiguous_copy(result);
    std::copy_n(static_cast<const std::byte*>(in_order.impl().data), parts_[i].bytes, taken_.data() + parts_[i].offset);
  }
  void store() {
    for (const Part& each : parts_) std::copy_n(taken_.data() + each.offset, each.bytes, each.data);
  }

 private:
  struct Part {
    std::byte* data;
    std::size_t bytes, offset;
  };
  std::vector<Part> parts_;
  std::vector<std::byte> taken_;
};

class LoopRunner final : public FlowRunner {
 public:
  LoopRunner(const Node& node, const SessionOptions& options)
      : node_(node),
        functions_(node.attr<FunctionsRef>("functions")),
        parts_(node),
        body_(node, parts_.body, parts_.body_specs(node.inputs()), options) {
    if (!parts_.condition) return;
    Specs specs;
    for (std::size_t i = 0; i < node.inputs().size(); ++i)
      if (i < parts_.carried || i >= parts_.carried + parts_.sequences) specs.push_back(node.input(i).spec());
    condition_ = std::make_unique<FunctionRunner>(node, *parts_.condition, specs, options);
  }

  std::string progress() const override { return join("'", node_.name(), "' has done ", done_, " iterations"); }

 private:
  Tensors run_functions(const Tensors& inputs, const Deadline* deadline, RunTimes* times) override {
    const std::size_t operands = parts_.carried + parts_.sequences;
    const std::int64_t length = length_of(inputs);
    std::vector<LoopStack> stacks = make_stacks(length);
    Tensors values(inputs.begin(), inputs.end());
    const Tensors sizes = sizes_of_sequences(inputs);
    done_ = 0;
    const bool may_be_quick = !times && parts_.ragged_sequences.empty() && parts_.ragged_stacks.empty();
    if (!may_be_quick || !run_quickly(inputs, values, stacks, length, deadline))
      for (; done_ != length && holds(values, operands, deadline, times); ++done_) {
        require_time(deadline);
        const std::int64_t at = parts_.reverse ? length - 1 - done_ : done_;
        for (std::size_t i = parts_.carried; i < operands; ++i) values[i] = element(inputs, sizes, i, at);
        results_.clear();
        body_.run(values, deadline, times, results_);
        for (std::size_t i = 0; i < parts_.carried; ++i) {
          require_next(i, inputs, results_[i]);
          values[i] = std::move(results_[i]);
        }
        for (std::size_t i = 0; i < stacks.size(); ++i) {
          const Tensor& result = results_[parts_.carried + i];
          const bool is_ragged = parts_.is_ragged_stack(i);
          stacks[i].put(at, result);
          if (is_ragged && bool(result)) stacks[i + 1].put(at, sizes_of(result));
          if (is_ragged) ++i;
        }
      }
    Tensors outputs(values.begin(), values.begin() + parts_.carried);
    for (LoopStack& each : stacks) outputs.push_back(each.take(done_));
    results_.clear();
    return outputs;
  }

  void require_next(std::size_t i, const Tensors& inputs, const Tensor& value) const {
    if (!value)
      throw InvalidArgumentError(join("Variable ", i, " of the loop '", node_.name(),
                                      "' gets no value: it is of a branch that was not taken"));
    require_loop_variable(join("variable ", i), allowed(i, inputs), value.spec(), !parts_.condition);
  }

  /// The sizes of the elements of each ragged sequence.
  Tensors sizes_of_sequences(const Tensors& inputs) const {
    Tensors sizes(inputs.size());
    for (const std::int64_t each : parts_.ragged_sequences) {
      const std::size_t i = parts_.carried + static_cast<std::size_t>(each);
      const Tensor& given = inputs[i + 1];
      if (given.dtype() != int64 || given.shape() != Shape{inputs[i].shape()[0], inputs[i].rank() - 1})
        throw InvalidArgumentError(join("The sizes of the elements of ", to_string(inputs[i].dtype()),
                                        inputs[i].shape(), " are ", to_string(given.dtype()), given.shape()));
      sizes[i] = on_host(given).contiguous();
    }
    return sizes;
  }
  /// The element of a sequence.
  Tensor element(const Tensors& inputs, const Tensors& sizes, std::size_t i, std::int64_t at) const {
    Tensor element = view_at(inputs[i], 0, at);
    for (int axis = 0; bool(sizes[i]) && bool(parts_.body.inputs[i]) && axis < element.rank(); ++axis)
      if (parts_.size_of_element(i, element, axis) < 0) {
        const std::int64_t size = sizes[i].data<std::int64_t>()[at * element.rank() + axis];
        if (size < 0 || size > element.shape().sizes()[axis])
          throw InvalidArgumentError(join("Element ", at, " of ", inputs[i].shape(), " is said to have the size ", size,
                                          " along axis ", axis));
        element = view_part(element, axis, 0, size);
      }
    return element;
  }
  static Tensor sizes_of(const Tensor& result) {
    Tensor sizes = make_tensor(int64, {result.rank()}, result.device());
    backend_of(sizes.device()).copy_from_host(sizes.impl().data, result.shape().sizes().data(), nbytes(sizes));
    return sizes;
  }

  /// Runs a loop over small values on the CPU. Returns false if the loop is another one.
  bool run_quickly(const Tensors& inputs, Tensors& values, std::vector<LoopStack>& stacks, std::int64_t length,
                   const Deadline* deadline) {
    const std::size_t operands = parts_.carried + parts_.sequences;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i] || !inputs[i].device().is_cpu() || (i < parts_.carried && parts_.may_vary(i))) return false;
    for (std::size_t i = 0; i < parts_.carried; ++i) bytes += nbytes(inputs[i]);
    if (bytes > most_copied_bytes || length == 0) return false;
    for (std::size_t i = 0; i < parts_.carried; ++i) values[i] = backend_of(cpu()).contiguous_copy(inputs[i]);
    for (std::size_t i = parts_.carried; i < operands; ++i)
      if (length > 0) values[i] = view_at(inputs[i], 0, 0);
    Tensors condition_values(values.begin(), values.begin() + parts_.carried);
    condition_values.append(values.begin() + operands, values.end());
    Executable* const body_plan = body_.repeatable(values);
    Executable* const condition_plan = condition_ ? condition_->repeatable(condition_values) : nullptr;
    if (!body_plan || (condition_ && !condition_plan)) return false;
    QuickFunction body(body_, *body_plan, values, deadline);
    for (std::size_t i = 0; i < parts_.carried; ++i)
      if (body.result(i).spec() != values[i].spec()) return false;
    std::optional<QuickFunction> condition;
    if (condition_) {
      condition.emplace(*condition_, *condition_plan, condition_values, deadline);
      if (condition->result(0).size() != 1)
        return false;  // the caller then goes the general way, whose error says what is wrong
    }
    iterate(inputs, values, stacks, length, deadline, body, condition ? &*condition : nullptr);
    return true;
  }

  void iterate(const Tensors& inputs, Tensors& values, std::vector<LoopStack>& stacks, std::int64_t length,
               const Deadline* deadline, QuickFunction& body, QuickFunction* condition) {
    CarriedMemory memory(Tensors(values.begin(), values.begin() + parts_.carried));
    bool may_have_code = true;
    for (;; ++done_) {
      if (done_ == length) return;
      if (++interpreted_ > most_interpreted && may_have_code) {
        may_have_code = find_code(values, body, condition);
        if (may_have_code) run_code(inputs, values, stacks, length, deadline, body);
        if (done_ == length) return;
        // The condition does not hold, or a function of the iteration throws, which the code does not.
      }
      if (condition) {
        condition->run(deadline);
        if (!decision<bool>(condition->result(0), node_.name())) return;
      }
      require_time(deadline);
      const std::int64_t at = parts_.reverse ? length - 1 - done_ : done_;
      for (std::size_t i = parts_.carried; i < parts_.carried + parts_.sequences; ++i) {
        values[i] = view_at(inputs[i], 0, at);  // it may also be a result
        body.feed(i, values[i]);
      }
      body.run(deadline);
      for (std::size_t i = 0; i < stacks.size(); ++i) stacks[i].put(at, present(body.result(parts_.carried + i)));
      for (std::size_t i = 0; i < parts_.carried; ++i) {
        const Tensor& next = body.result(i);
        if (next.is_symbolic() || next.shape() != values[i].shape()) require_next(i, inputs, present(next));
        memory.take(i, next);
      }
      memory.store();
    }
  }

  /// Finds the code for values of these shapes. Returns false if there is none.
  bool find_code(const Tensors& values, const QuickFunction& body, const QuickFunction* condition) {
    Specs specs;
    for (const Tensor& each : values) {
      if (!each.is_contiguous()) return false;
      specs.push_back(each.spec());
    }
    if (specs == code_specs_) return code_ != nullptr;
    code_specs_ = specs;
    LoopWriter writer(values, parts_.carried, parts_.sequences);
    if (condition) {
      writer.add(condition->plan());
      writer.set_condition(condition->result(0));
    }
    writer.add(body.plan());
    for (std::size_t i = 0; i < node_.outputs().size(); ++i) writer.add_result(body.result(i));
    const std::optional<LoopProgram> program = writer.program();
    code_ = program ? backend_of(cpu()).loop_code(*program) : nullptr;
    code_inputs_ = writer.fixed();
    if (program)
      code_iterations_ = most_instructions / static_cast<std::int64_t>(program->program.instructions.size() + 1);
    return code_ != nullptr;
  }

  /// Runs the code from the present iteration to the one that it does not run. It stops from time to time to look at
  /// the clock, and for stacks to grow.
  void run_code(const Tensors& inputs, const Tensors& values, std::vector<LoopStack>& stacks, std::int64_t length,
                const Deadline* deadline, const QuickFunction& body) {
    for (;;) {
      require_time(deadline);
      std::int64_t count = code_iterations_;
      if (length >= 0) count = std::min(count, length - done_);
      if (condition_ && !stacks.empty()) count = std::min(count, std::max<std::int64_t>(done_, 16));
      if (count == 0) return;
      const std::int64_t at = parts_.reverse ? length - 1 - done_ : done_;
      std::vector<LoopCode::Place> places;
      const auto add = [&](const Tensor& value, std::int64_t step) {
        places.push_back({static_cast<std::byte*>(value.impl().data), step});
      };
      for (std::size_t i = 0; i < parts_.carried; ++i) add(values[i], 0);
      for (std::size_t i = parts_.carried; i < parts_.carried + parts_.sequences; ++i) {
        const std::int64_t step = inputs[i].strides()[0] * static_cast<std::int64_t>(size_of(inputs[i].dtype()));
        add(view_at(inputs[i], 0, at), parts_.reverse ? -step : step);
      }
      for (const LoopWriter::Fixed& each : code_inputs_) add(each.constant ? each.constant : values[each.operand], 0);
      for (std::size_t i = 0; i < stacks.size(); ++i)
        places.push_back(stacks[i].place(at, count, parts_.reverse, body.result(parts_.carried + i).shape()));
      const std::int64_t ran = code_->run(places, count);
      done_ += ran;
      if (ran < count) return;
    }
  }

  /// The number of iterations as far as the sequences and the limit tell; -1 if only the condition does.
  std::int64_t length_of(const Tensors& inputs) const {
    std::int64_t length = parts_.sequences > 0 ? std::int64_t{inputs[parts_.carried].shape()[0]} : -1;
    for (std::size_t i = parts_.carried; i < parts_.carried + parts_.sequences; ++i)
      if (inputs[i].shape()[0] != length)
        throw InvalidArgumentError(join("The sequences must have the same length along axis 0: ",
                                        inputs[parts_.carried].shape(), " and ", inputs[i].shape()));
    if (parts_.maximum >= 0) length = length < 0 ? parts_.maximum : std::min(length, parts_.maximum);
    return length;
  }

  std::vector<LoopStack> make_stacks(std::int64_t length) const {
    std::vector<LoopStack> stacks;
    for (std::size_t i = parts_.carried; i < node_.outputs().size(); ++i) {
      const Tensor& output = node_.output(i);
      Spec element = output.spec();
      element.shape = element_shape(element.shape);
      const bool is_known = !parts_.condition, is_ragged = parts_.is_ragged_stack(i - parts_.carried);
      const Tensor& given = parts_.body.outputs[i];  // not sizes
      const bool may_lack = !given || may_lack_elements(given);
      stacks.emplace_back(element, is_known ? length : -1, LoopStack::Form{may_lack, is_ragged}, output);
    }
    return stacks;
  }

  bool holds(const Tensors& values, std::size_t operands, const Deadline* deadline, RunTimes* times) {
    if (!condition_) return true;
    asked_.clear();
    asked_.append(values.begin(), values.begin() + parts_.carried);
    asked_.append(values.begin() + operands, values.end());
    results_.clear();
    condition_->run(asked_, deadline, times, results_);
    asked_.clear();
    return decision<bool>(results_[0], node_.name());
  }

  /// What a carried value may be like after an iteration.
  Spec allowed(std::size_t i, const Tensors& inputs) const {
    return parts_.may_vary(i) ? parts_.body.inputs[i].spec() : inputs[i].spec();
  }

  const Node& node_;
  FunctionsRef functions_;
  WhileParts parts_;
  FunctionRunner body_;
  std::unique_ptr<FunctionRunner> condition_;
  Tensors asked_;  ///< what the condition is called with; kept for its memory
  Tensors results_;
  std::int64_t done_ = 0;  ///< the iterations that the present run has done

  /// So many iterations take about as long as compiling. Code runs as many iterations at a time as have together about
  /// this number of instructions, which take less than a millisecond or so.
  static constexpr std::int64_t most_interpreted = 1000, most_instructions = 1 << 18;
  std::int64_t interpreted_ = 0;
  Specs code_specs_;  ///< of the values for which the code was made
  std::shared_ptr<const LoopCode> code_;
  std::vector<LoopWriter::Fixed> code_inputs_;
  std::int64_t code_iterations_ = 0;
};

/// Runs the backward loop of a While that recomputes. The states of the forward loop are found by halving: the state in
/// the middle is computed from that at the beginning, the second half goes first. So at most log2(n) states are kept
/// besides those of a few neighbouring iterations. This is the recursion of A. Griewank, Achieving logarithmic growth
/// of temporal and spatial complexity in reverse automatic differentiation (1992).
class ReplayingRunner final : public FlowRunner {
 public:
  ReplayingRunner(const Node& node, const SessionOptions& options)
      : node_(node),
        functions_(node.attr<FunctionsRef>("functions")),
        parts_(node),
        operands_(parts_.carried + parts_.sequences),
        states_(static_cast<std::size_t>(node.attr<std::int64_t>("replayed"))),
        elements_((*functions_)[1].inputs.size() - (node.inputs().size() - operands_)),
        body_(node, (*functions_)[0], parts_.body_specs(node.inputs()), options),
        forward_(node, (*functions_)[1], forward_specs(), options) {}

  std::string progress() const override { return join("'", node_.name(), "' has come back to iteration ", iteration_); }

 private:
  static constexpr std::int64_t kept_states = 8;

  Tensors run_functions(const Tensors& inputs, const Deadline* deadline, RunTimes* times) override {
    inputs_ = inputs;
    deadline_ = deadline;
    times_ = times;
    length_ = inputs[parts_.carried].shape()[0];
    values_ = Tensors(inputs.begin(), inputs.begin() + parts_.carried);
    stacks_.clear();
    for (std::size_t i = parts_.carried; i < node_.outputs().size(); ++i) {
      Spec element = node_.output(i).spec();
      element.shape = element_shape(element.shape);
      stacks_.emplace_back(element, length_, LoopStack::Form{}, node_.output(i));
    }
    if (length_ > 0) go_back(0, length_, Tensors(inputs.begin() + operands_, inputs.begin() + operands_ + states_));
    Tensors outputs = std::exchange(values_, {});
    for (LoopStack& each : stacks_) outputs.push_back(each.take(length_));
    inputs_.clear();
    stacks_.clear();
    return outputs;
  }

  Specs forward_specs() const {
    const Specs all = parts_.body_specs(node_.inputs());
    Specs specs(all.begin() + operands_, all.begin() + operands_ + states_);
    specs.append(all.begin() + parts_.carried, all.begin() + parts_.carried + elements_);
    specs.append(all.begin() + operands_ + states_, all.end());
    return specs;
  }

  /// Goes back from iteration `end` - 1 of the forward loop to `begin`, whose state is given.
  void go_back(std::int64_t begin, std::int64_t end, const Tensors& state) {
    if (end - begin <= kept_states) {
      std::vector<Tensors> states{state};
      for (std::int64_t i = begin; i + 1 < end; ++i) states.push_back(next_state(i, states.back()));
      for (std::int64_t i = end; i-- > begin;) step(i, states[i - begin]);
      return;
    }
    const std::int64_t middle = begin + (end - begin) / 2;
    Tensors later = state;
    for (std::int64_t i = begin; i < middle; ++i) later = next_state(i, later);
    go_back(middle, end, later);
    go_back(begin, middle, state);
  }

  /// The element that an iteration of the forward loop takes. The backward loop goes the other way.
  std::int64_t element(std::int64_t iteration) const { return parts_.reverse ? iteration : length_ - 1 - iteration; }

  Tensors next_state(std::int64_t iteration, const Tensors& state) {
    iteration_ = iteration;
    require_time(deadline_);
    Tensors inputs = state;
    for (std::size_t i = 0; i < elements_; ++i)
      inputs.push_back(view_at(inputs_[parts_.carried + i], 0, element(iteration)));
    inputs.append(inputs_.begin() + operands_ + states_, inputs_.end());
    Tensors next;
    forward_.run(inputs, deadline_, times_, next);
    return next;
  }

  void step(std::int64_t iteration, const Tensors& state) {
    iteration_ = iteration;
    require_time(deadline_);
    const std::int64_t at = element(iteration);
    Tensors inputs = values_;
    for (std::size_t i = parts_.carried; i < operands_; ++i) inputs.push_back(view_at(inputs_[i], 0, at));
    inputs.append(state.begin(), state.end());
    inputs.append(inputs_.begin() + operands_ + states_, inputs_.end());
    Tensors results;
    body_.run(inputs, deadline_, times_, results);
    for (std::size_t i = 0; i < parts_.carried; ++i) values_[i] = results[i];
    for (std::size_t i = 0; i < stacks_.size(); ++i) stacks_[i].put(at, results[parts_.carried + i]);
  }

  const Node& node_;
  FunctionsRef functions_;
  WhileParts parts_;
  std::size_t operands_;  ///< the number of the first operand among the inputs
  std::size_t states_;    ///< the number of values in a state of the forward loop
  std::size_t elements_;  ///< the number of its sequences, which are the first ones here
  FunctionRunner body_, forward_;
  // During a run:
  Tensors inputs_, values_;
  std::vector<LoopStack> stacks_;
  std::int64_t length_ = 0, iteration_ = 0;
  const Deadline* deadline_ = nullptr;
  RunTimes* times_ = nullptr;
};

}  // namespace

std::unique_ptr<FlowRunner> make_flow_runner(const Node& node, const SessionOptions& options) {
  if (is_replayed(node)) return std::make_unique<ReplayingRunner>(node, options);
  if (is_while(node.op())) return std::make_unique<LoopRunner>(node, options);
  return std::make_unique<BranchRunner>(node, options);
}

}  // namespace tapestry::detail
