#pragma once

#include <filesystem>
#include <string_view>

#include "tapestry/state_dict.hpp"

namespace tapestry::io {

/// Whether a file starts as those that torch.save wrote before PyTorch 1.6; newer ones are ZIP archives.
bool is_early_pytorch(std::string_view head);
/// Whether an archive that has this member is PyTorch's.
bool is_pytorch_member(std::string_view member);

/// The tensors of a file of torch.save, by the keys that lead to them, joined by ".", as in the names of a state_dict:
/// "model.0.weight" for {"model": {"0.weight": ...}}. Elements of a list have their numbers, and a tensor that is the
/// whole file is called "tensor". What is no tensor, such as the number of an epoch, is left out. Nothing in the file
/// is executed.
///
/// Throws what `load_weights` throws, UnimplementedError for a tensor inside an object of a class, such as a module
/// that was saved as a whole.
StateDict read_pytorch(const std::filesystem::path& path, Where where);

}  // namespace tapestry::io
