#pragma once

#include <concepts>
#include <map>
#include <string>

#include "tapestry/state_dict.hpp"

namespace tapestry {

/// @addtogroup keeping
/// @{

/// Whatever gives its state away as tensors and takes it back: modules, optimizers, loaders, and the user's own types.
template <class T>
concept Stateful = requires(const T& from, T& to, const StateDict& tensors) {
  { from.state_dict() } -> std::convertible_to<StateDict>;
  to.load_state_dict(tensors);
};

/// What a file says beside its tensors.
using Metadata = std::map<std::string, std::string>;

/// Writes tensors to a file that Python opens, too. The ending of its name says which kind: ".safetensors", of Hugging
/// Face's library of that name, or ".npz", NumPy's. Only the first can hold metadata; programs that want to know who
/// has written a file look there for the key "format", which is "pt" for PyTorch's names and shapes.
///
/// Nobody ever sees half of the file; equal tensors give equal files. Throws InvalidArgumentError for another ending,
/// metadata in an npz file, a name that is not UTF-8, or an empty tensor; FailedPreconditionError for a symbolic one;
/// NotFoundError when the folder does not exist; ResourceExhaustedError when the disk is full.
TAPESTRY_API void save(const std::string& path, const StateDict& tensors, const Metadata& metadata = {},
                       Where where = Where::here());

/// Puts all tensors of a file in the place of what `tensors` held: those that `save` has written, or another program.
/// Element types that tensors do not have become the next wider one that holds all their values, such as int32 for
/// int8 and uint16.
///
/// Throws NotFoundError when there is no such file; DataLossError when it is damaged, stops early or contradicts
/// itself; UnimplementedError when a tensor's elements or dimensions are none that tensors have; InvalidArgumentError
/// for another ending. Then nothing has changed.
TAPESTRY_API void load(const std::string& path, StateDict& tensors, Where where = Where::here());

/// The metadata of a safetensors file. Errors as those of `load`; InvalidArgumentError for an npz file.
TAPESTRY_API Metadata load_metadata(const std::string& path, Where where = Where::here());

/// The same for the state of a module, an optimizer, or anything else that has one.
/// @{
template <Stateful T>
void save(const std::string& path, const T& object, const Metadata& metadata = {}, Where where = Where::here()) {
  save(path, StateDict(object.state_dict()), metadata, where);
}
template <Stateful T>
void load(const std::string& path, T& object, Where where = Where::here()) {
  StateDict tensors;
  load(path, tensors, where);
  if constexpr (requires { object.load_state_dict(tensors, where); }) {
    object.load_state_dict(tensors, where);
  } else {
    object.load_state_dict(tensors);
  }
}
/// @}

/// @}

}  // namespace tapestry
