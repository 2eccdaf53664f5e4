#pragma once

#include <concepts>
#include <map>
#include <string>

#include "tapestry/state_dict.hpp"

namespace tapestry {

/// @addtogroup keeping
/// @{

/// A type that returns its state as tensors and can be set to such a state: modules, optimizers, loaders, and the
/// user's own types.
template <class T>
concept Stateful = requires(const T& from, T& to, const StateDict& tensors) {
  { from.state_dict() } -> std::convertible_to<StateDict>;
  to.load_state_dict(tensors);
};

/// Texts that a file holds in addition to its tensors, by their keys.
using Metadata = std::map<std::string, std::string>;

/// Writes tensors to a file that can also be opened in Python. The ending of its name selects the format:
/// ".safetensors", of Hugging Face's library of that name, or ".npz", NumPy's. Only safetensors files can hold
/// metadata. Their key "format" tells programs who has written the file; it is "pt" for PyTorch's names and shapes.
///
/// No other program ever sees an incomplete file. Equal tensors give equal files. Throws InvalidArgumentError for
/// another ending, metadata in an npz file, a name that is not UTF-8, or an empty tensor; FailedPreconditionError for a
/// symbolic tensor; NotFoundError when the folder does not exist; ResourceExhaustedError when the disk is full.
TAPESTRY_API void save(const std::string& path, const StateDict& tensors, const Metadata& metadata = {},
                       Where where = Where::here());

/// Replaces the contents of `tensors` by all tensors of a file, which `save` or another program has written. An element
/// type that tensors do not have becomes the next wider one that holds all its values, such as int32 for int8 and
/// uint16.
///
/// Throws NotFoundError when there is no such file; DataLossError when it is damaged, truncated or inconsistent;
/// UnimplementedError when tensors cannot have the element type or the number of dimensions; InvalidArgumentError for
/// another ending. Then nothing has changed.
TAPESTRY_API void load(const std::string& path, StateDict& tensors, Where where = Where::here());

/// Reads the weights that another program has written, in any of the formats that Tapestry knows, told apart by the
/// file's contents, not by its name: safetensors, NPZ, what torch.save writes (.pt, .pth, .bin), and a checkpoint of
/// TensorFlow's, whose `path` is the prefix of its files, "ckpt/model" for "ckpt/model.index", or its one file in the
/// form that it had until 2016.
///
///     tp::StateDict weights = tp::load_weights("pytorch_model.bin");
///
/// In a file of PyTorch, tensors are called by the keys that lead to them, joined by ".", and its elements of a list by
/// their numbers; a tensor that is the whole file is called "tensor". What is no tensor is left out. Tensors share
/// memory as they do in the file. Nothing in the file is executed.
///
/// Throws NotFoundError when there is neither such a file nor such a checkpoint; UnimplementedError, with the format's
/// name, for files of Keras (.keras) and HDF5 (.h5), for sparse, quantized and complex tensors, and for tensors in an
/// object of a class, such as a module that torch.save has saved as a whole; InvalidArgumentError for any other file;
/// and what `load` and `tensor_bundle::load` throw.
TAPESTRY_API StateDict load_weights(const std::string& path, Where where = Where::here());

/// The metadata of a safetensors file. Throws what `load` throws, and InvalidArgumentError for an npz file.
TAPESTRY_API Metadata load_metadata(const std::string& path, Where where = Where::here());

/// The same for the state of a module, an optimizer, or anything else that has one.
/// @{
template <Stateful T>
void save(const std::string& path, const T& object, const Metadata& metadata = {}, Where where = Where::here()) {
  if constexpr (requires { object.state_dict(where); }) {
    save(path, StateDict(object.state_dict(where)), metadata, where);
  } else {
    save(path, StateDict(object.state_dict()), metadata, where);
  }
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
