#pragma once

// Random programs over the op table, and the ways to run them, which must all give the same.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::programs {

using Values = std::vector<Tensor>;

/// The size of some axes of a program's inputs. It is unknown or known when the program is traced, and changes from the
/// first batch to the second if it is unknown.
struct Size {
  std::int64_t first = 1, second = 1;
  bool unknown = false;
};

/// How the elements of a tensor lie in memory.
enum class Layout { dense, transposed, sliced, strided, reversed, broadcast };
constexpr int layouts = 6;

/// Which numbers.
enum class Numbers { usual, whole, special };

/// A tensor that is made by a rule: an input, a constant, or the initial value of a Variable.
struct Data {
  DType dtype = float32;
  std::vector<std::size_t> axes = {};  ///< each a number of one of the program's sizes
  Layout layout = Layout::dense;
  Numbers numbers = Numbers::usual;
  double low = -2, high = 2;
  unsigned seed = 0;
};

struct Production;

/// One step; its value has the number of the step, counted from the number of inputs on.
struct Step {
  const Production* production = nullptr;
  const OpCase* row = nullptr;          ///< of the op table, where the production uses one
  std::vector<std::size_t> operands{};  ///< numbers of values that come before it
  std::vector<std::int64_t> numbers{};  ///< sizes, axes, seeds: what the production makes of them
  DType dtype = float32;
  /// It draws random numbers. Then its value is a result: a graph draws only what it needs, and others come later.
  bool draws = false;
  /// A function of the operands and of nothing else but Variables: its last step is its value.
  std::vector<Step> body{};
  std::vector<Step> other{};  ///< another one: what a branch does otherwise
};

struct Program {
  std::uint64_t seed = 0;
  std::vector<Size> sizes{};
  std::vector<Data> inputs{};
  std::vector<Data> variables{};
  std::vector<Step> steps{};
  std::vector<bool> fetched{};  ///< for each step whether its value is a result
  bool everything = false;      ///< all values are results, also those in the bodies of tapes
};

/// Random choices that depend on the seed only, on every machine.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  /// One of 0 ... n-1.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low + 1)));
  }
  bool chance(int percent) { return below(100) < static_cast<std::size_t>(percent); }
  template <class List>
  const auto& one_of(const List& list) {
    return list[below(list.size())];
  }

 private:
  std::mt19937_64 engine_;
};

/// Runs the steps of a program on tensors that may be symbolic.
class Machine {
 public:
  /// Where the program runs: at once or in a trace, both in the order of the program, or in a graph built by hand,
  /// where control edges have to say the order and gradients are nodes.
  enum class Place { program_order, graph };
  explicit Machine(std::vector<Variable> variables, Place place = Place::program_order)
      : variables_(std::move(variables)), place_(place) {}

  /// The values that are fetched; and what steps have observed on their way: gradients, assignments, random numbers.
  Values run(const Program& program, const Values& inputs);
  /// One step, of which these are the values so far.
  Tensor run(const Step& step, const Values& values);
  /// The value of a body.
  Tensor run(const std::vector<Step>& body, const Values& operands);
  /// The value of a body that is called again and again, so that nothing in it can be observed.
  Tensor run_quietly(const std::vector<Step>& body, const Values& operands);
  /// The same for a branch or the body of a loop, which in a graph is a graph of its own, in the order of the program.
  Tensor run_function(const std::vector<Step>& body, const Values& operands);

  const Variable& variable(std::int64_t i) const { return variables_[static_cast<std::size_t>(i)]; }
  std::size_t variables() const { return variables_.size(); }
  Place place() const { return place_; }
  /// Also fetches a value; not inside a function that is called again and again.
  Tensor observe(const Tensor& value);
  /// How many of the program's own steps have run.
  std::size_t steps_done() const { return steps_done_; }

 private:
  std::vector<Variable> variables_;
  Place place_;
  Values observed_;
  bool observes_ = true;
  std::vector<std::unique_ptr<Machine>> functions_;  ///< kept for functions that run again for their gradient
  bool everything_ = false;
  std::vector<Operation> last_effects_;
  std::size_t steps_done_ = 0;
};

/// What a program is made of besides its inputs. Steps that a generator makes may turn out to be refused.
struct Production {
  std::string_view name;
  int weight;  ///< how often it is drawn, in relation to the others
  /// A step on some of these values, by chance; nothing where it cannot be.
  std::function<std::optional<Step>(class Generator&, Values& values)> make;
  std::function<Tensor(Machine&, const Step&, const Values& operands)> run;
};
const std::vector<Production>& productions();
/// Of these, the branches and loops, and the functions that are made of several ops.
std::vector<Production> flow_productions();
std::vector<Production> composite_productions();
const Production& production(std::string_view name);
const OpCases& rows();

/// Makes programs.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : dice(seed) { program_.seed = seed; }
  Program program();

  Dice dice;
  /// Steps that begin with these values, and whose last value nobody refuses.
  std::vector<Step> body(Values values, std::size_t length, bool float_result);
  /// A step ahead of the one that is being made; returns the number of its value.
  std::size_t prepend(Step step, Values& values);
  /// The number of some value, if there is one for which this is true.
  std::optional<std::size_t> value_where(const Values& values, const std::function<bool(const Tensor&)>& suits);
  DType some_dtype();
  std::size_t variables() const { return program_.variables.size(); }
  const Variable& variable(std::size_t i) const { return variables_[i]; }
  bool pure = false;  ///< of functions that are run again for their gradient: nothing is assigned
  int depth = 0;      ///< of bodies in bodies
  int tapes = 0;      ///< of these bodies, how many are differentiated

 private:
  void choose_inputs();
  void add_steps(std::vector<Step>& steps, Values& values, std::size_t length);

  std::vector<Step>* steps_ = nullptr;  ///< that are being made
  Program program_;
  std::vector<Variable> variables_;
};

inline bool is_float(const Tensor& x) { return is_floating(x.dtype()); }
/// A production's step, if it can make one of the values.
using Made = std::optional<Step>;

/// The tensor that a rule makes for the first or the second batch.
Tensor make(const Data& data, const std::vector<Size>& sizes, bool second);
/// The same elements in another place; for `broadcast`, the first row for all.
Tensor laid_out(const Tensor& x, Layout layout);

/// Where two ways to run a program differ.
struct Difference {
  std::string where, what;
};
/// Runs a program in all ways.
std::optional<Difference> difference(const Program& program);

/// A program as short as the shrinker can make it for which `fails` still holds.
Program shrunk(Program program, const std::function<bool(const Program&)>& fails);
/// As a C++ function.
std::string to_string(const Program& program);

/// How many programs there were that a way of running could not take, and for which reason.
struct Statistics {
  std::size_t programs = 0, refused = 0, steps = 0, unknown = 0, size_needed = 0, not_written = 0;
};
Statistics& statistics();

}  // namespace tapestry::test::programs
