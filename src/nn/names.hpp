#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "tapestry/nn/module.hpp"

namespace tapestry::nn {

/// Sets the paths of this thread's modules and of their Variables, which begin at the outermost module: "1.b",
/// "1.b.weight". Costs nothing unless this thread's modules have changed since the last call.
void update_names();

/// Makes this thread the one that uses the module and finds its paths.
void adopt(const Module& module);

/// Notes a Variable of a module, for `holds_parts`.
void note_cell(const std::shared_ptr<Variable::Cell>& cell);

/// Whether the `bytes` bytes of this module contain a Parameter, a Buffer, or a module that has named its parts.
bool holds_parts(const Module& module, std::size_t bytes);

/// The path of the module from the outermost one; "" for the outermost one itself and for a module that is not listed.
std::string path_of(const Module& module);

/// Throws FailedPreconditionError for a module that was moved to another one, and has lost parts thereby. `path` is the
/// module's path from the one that the user has named.
void require_parts(const Module& module, std::string_view path, Where where);

/// Puts the module in which an error happened in front of the error's message: "1.b: Dense(8, 9) got [2,5]: ". Only the
/// innermost of nested modules is named.
void name_module(Error& error, const Module& module, std::initializer_list<Tensor> inputs);

/// Calls f as the call of a module on the inputs. Errors get the module's name.
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
