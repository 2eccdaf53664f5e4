#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>

#include "tapestry/nn/module.hpp"

namespace tapestry::nn {

/// Gives the modules of this thread, and their Variables, their paths from the outermost module that is there: "1.b",
/// "1.b.weight". Costs nothing unless modules have been made since.
void update_names();

/// The module belongs to this thread from now on: its paths are found here.
void adopt(const Module& module);

/// Whether any module lies in the memory of this one, which has that many bytes.
bool holds_modules(const Module& module, std::size_t bytes);

/// The module's path from the outermost one; "" of that itself, and of one that nothing is known of.
std::string path_of(const Module& module);

/// Puts in front of an error's message in which module it happened: "1.b: Dense(8, 9) got [2,5]: ". Of nested modules
/// only the innermost is named.
void name_module(Error& error, const Module& module, std::initializer_list<Tensor> inputs);

/// Calls f, in a call of a module on the inputs, whose name errors get.
template <class F>
auto naming(const Module& module, std::initializer_list<Tensor> inputs, F f) {
  try {
    return f();
  } catch (Error& error) {
    name_module(error, module, inputs);
    throw;
  }
}

}  // namespace tapestry::nn
