#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/dice.hpp"

/// Damaged files that are made of sound ones by changes which know the format, so that the damage lies deep: what a
/// reader meets first is whole. The same dice give the same file.

namespace tapestry::test {

/// A kind of files.
struct Mutants {
  std::string name;
  /// A file of the kind with some changes.
  std::function<std::string(Dice&)> make;
  /// Reads the file and uses what it holds. Returns whether it was accepted: that an Error refuses it is caught.
  std::function<bool(const std::string&, Dice&)> use;
};

/// "mutate_graph": GraphDefs, read and run. "mutate_checkpoint": safetensors files that a training goes on from.
/// "mutate_npz", "mutate_safetensors": arrays, read and written again. "mutate_bundle": the indices of checkpoints of
/// TensorFlow's. "mutate_records": TFRecord files of tf.Examples, packed or not. "mutate_saved_model": SavedModels with
/// their variables, run and written again. "mutate_events": event files. "mutate_graph_text": GraphDefs in the text
/// form. "mutate_onnx": ONNX models, run, differentiated and written again. "mutate_pytorch": files of torch.save.
/// @{
Mutants graph_mutants();
Mutants checkpoint_mutants();
Mutants npz_mutants();
Mutants safetensors_mutants();
Mutants bundle_mutants();
Mutants record_mutants();
Mutants saved_model_mutants();
Mutants event_mutants();
Mutants graph_text_mutants();
Mutants onnx_mutants();
Mutants pytorch_mutants();
/// @}

/// All kinds, each with a number of cases that takes a test some seconds.
std::vector<std::pair<Mutants, std::uint64_t>> all_mutants();

}  // namespace tapestry::test
