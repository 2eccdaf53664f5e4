// Programs as short as they can be, and as text.

#include <algorithm>

#include "fuzz/programs.hpp"

namespace tapestry::test::programs {
namespace {

// Each of these makes a list of programs that are a little simpler.

using Simpler = std::vector<Program>;

/// Without step i, of whose value the first operand takes the place.
void drop(std::vector<Step>& steps, std::size_t i, std::size_t operands) {
  const std::size_t value = operands + i;
  const std::size_t instead = steps[i].operands.empty() ? 0 : steps[i].operands[0];
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
  for (std::size_t later = i; later < steps.size(); ++later)
    for (std::size_t& operand : steps[later].operands) {
      if (operand == value) operand = instead;
      if (operand > value) --operand;
    }
}

void without_steps(const Program& program, Simpler& simpler) {
  for (std::size_t i = program.steps.size(); i-- > 0;) {
    if (program.steps.size() == 1) break;
    Program shorter = program;
    drop(shorter.steps, i, program.inputs.size());
    shorter.fetched.erase(shorter.fetched.begin() + static_cast<std::ptrdiff_t>(i));
    simpler.push_back(std::move(shorter));
  }
}

/// A list of steps that is a body, and the number of its operands.
struct Body {
  std::vector<Step>* steps;
  std::size_t operands;
};

/// The bodies at any depth. A scan's body has the carried value after the operands.
void bodies_of(std::vector<Step>& steps, std::vector<Body>& found) {
  for (Step& step : steps)
    for (std::vector<Step>* body : {&step.body, &step.other}) {
      if (body->empty()) continue;
      found.push_back({body, step.operands.size() + (step.production->name == "scan" ? 1 : 0)});
      bodies_of(*body, found);
    }
}

void with_shorter_bodies(const Program& program, Simpler& simpler) {
  Program copy = program;
  std::vector<Body> all;
  bodies_of(copy.steps, all);
  for (std::size_t which = 0; which < all.size(); ++which)
    for (std::size_t i = 0; i < all[which].steps->size(); ++i) {
      if (all[which].steps->size() == 1) continue;
      Program shorter = program;
      std::vector<Body> found;
      bodies_of(shorter.steps, found);
      drop(*found[which].steps, i, found[which].operands);
      simpler.push_back(std::move(shorter));
    }
}

void with_fewer_results(const Program& program, Simpler& simpler) {
  for (std::size_t i = 0; i < program.fetched.size(); ++i) {
    if (!program.fetched[i]) continue;
    Program fewer = program;
    fewer.fetched[i] = false;
    simpler.push_back(std::move(fewer));
  }
}

void without_inputs(const Program& program, Simpler& simpler) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const bool used = std::any_of(program.steps.begin(), program.steps.end(), [&](const Step& step) {
      return std::find(step.operands.begin(), step.operands.end(), i) != step.operands.end();
    });
    if (used || program.inputs.size() == 1) continue;
    Program fewer = program;
    fewer.inputs.erase(fewer.inputs.begin() + static_cast<std::ptrdiff_t>(i));
    for (Step& step : fewer.steps)
      for (std::size_t& operand : step.operands) operand -= operand > i ? 1 : 0;
    simpler.push_back(std::move(fewer));
  }
}

void with_simpler_data(const Program& program, Simpler& simpler) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const auto change = [&](const std::function<void(Data&)>& f) {
      Program simple = program;
      f(simple.inputs[i]);
      simpler.push_back(std::move(simple));
    };
    const Data& data = program.inputs[i];
    if (data.layout != Layout::dense) change([](Data& each) { each.layout = Layout::dense; });
    if (data.numbers != Numbers::usual) change([](Data& each) { each.numbers = Numbers::usual; });
    if (data.dtype != float32) change([](Data& each) { each.dtype = float32; });
    for (std::size_t axis = 0; axis < data.axes.size(); ++axis)
      change([&](Data& each) { each.axes.erase(each.axes.begin() + static_cast<std::ptrdiff_t>(axis)); });
  }
  for (std::size_t i = 0; i < program.sizes.size(); ++i) {
    const auto change = [&](const std::function<void(Size&)>& f) {
      Program simple = program;
      f(simple.sizes[i]);
      simpler.push_back(std::move(simple));
    };
    const Size& size = program.sizes[i];
    if (size.unknown) change([](Size& each) { each.unknown = false; });
    if (size.first > 2) change([](Size& each) { each.first = 2; });
    if (size.first > 1) change([](Size& each) { each.first = 1; });
    if (size.unknown && size.second > 3) change([](Size& each) { each.second = 3; });
  }
}

// ---- Text -----------------------------------------------------------------------------------------------------------

template <class List>
std::string listed(const List& list, std::string_view before) {
  std::string text;
  for (const auto& each : list) text += (text.empty() ? "" : ", ") + std::string(before) + std::to_string(each);
  return "{" + text + "}";
}

std::string text_of(const Data& data, const std::vector<Size>& sizes) {
  static constexpr const char* layout_names[] = {"dense", "transposed", "sliced", "strided", "reversed", "broadcast"};
  static constexpr const char* number_names[] = {"usual", "whole", "special"};
  std::string text = "data(" + std::string(tapestry::to_string(data.dtype)) + ", {";
  for (std::size_t i = 0; i < data.axes.size(); ++i) {
    const Size& size = sizes[data.axes[i]];
    text += (i == 0 ? "" : ", ") + std::to_string(size.first);
    if (size.unknown) text += "/?" + std::to_string(size.second);
  }
  return text + "}, " + layout_names[static_cast<int>(data.layout)] + ", " +
         number_names[static_cast<int>(data.numbers)] + ", " + std::to_string(data.low) + ", " +
         std::to_string(data.high) + ", " + std::to_string(data.seed) + ");\n";
}

void append(std::string& text, const std::vector<Step>& steps, std::size_t operands, const std::string& indent,
            const std::vector<bool>& fetched) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    text += indent + "Tensor t" + std::to_string(operands + i) + " = " + std::string(step.production->name) + "(";
    if (step.row) text += "\"" + step.row->name + "\", ";
    text += listed(step.operands, "t") + ", " + listed(step.numbers, "") + ", " +
            std::string(tapestry::to_string(step.dtype));
    for (const std::vector<Step>* body : {&step.body, &step.other}) {
      if (body->empty()) continue;
      text += ", [&](Tensors t) {  // t0, t1, ...: the operands\n";
      append(text, *body, step.operands.size() + (step.production->name == "scan" ? 1 : 0), indent + "  ", {});
      text += indent + "}";
    }
    text += i < fetched.size() && fetched[i] ? ");  // a result\n" : ");\n";
  }
}

}  // namespace

std::string to_string(const Program& program) {
  std::string text = "// seed " + std::to_string(program.seed) + ". 3/?5: a size, unknown in the trace, 3 and then 5\n";
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    text += "Tensor t" + std::to_string(i) + " = " + text_of(program.inputs[i], program.sizes);
  for (std::size_t i = 0; i < program.variables.size(); ++i)
    text += "Variable v" + std::to_string(i) + " = " + text_of(program.variables[i], program.sizes);
  append(text, program.steps, program.inputs.size(), "", program.fetched);
  return text;
}

Program shrunk(Program program, const std::function<bool(const Program&)>& fails) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto simplify :
         {without_steps, with_shorter_bodies, with_fewer_results, without_inputs, with_simpler_data}) {
      Simpler simpler;
      simplify(program, simpler);
      const auto found = std::find_if(simpler.begin(), simpler.end(), fails);
      if (found == simpler.end()) continue;
      program = *found;
      changed = true;
      break;
    }
  }
  return program;
}

}  // namespace tapestry::test::programs
