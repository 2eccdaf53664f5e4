#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tapestry/state_dict.hpp"

namespace tapestry::tensor_bundle {

/// @addtogroup keeping
/// @{

/// Reads all tensors of a checkpoint of TensorFlow's (V2), which `tf.train.Saver`, `tf.train.Checkpoint` and
/// SavedModels ("variables/variables") write. `prefix` is the common beginning of the names of its files: "ckpt/model"
/// for "ckpt/model.index" and "ckpt/model.data-00000-of-00001". There may be several of the latter, and a Variable that
/// was saved in slices is joined. A checkpoint V1, which TensorFlow wrote until 2016, is one file of this name, or
/// several, "ckpt/model-00000-of-00002".
///
///     tp::StateDict weights = tp::tensor_bundle::load("ckpt/model");
///     tp::Tensor kernel = weights.at("dense/kernel/.ATTRIBUTES/VARIABLE_VALUE");
///
/// The names are the file's: "dense/kernel" and "dense/kernel/Adam" in TensorFlow 1, and paths of attributes, as above,
/// in TensorFlow 2. An element type that tensors do not have becomes the next wider one that holds all its values:
/// int32 for int8, int16 and uint16, and int64 for uint32. Left out is what tensors cannot hold: texts, such as those
/// in which TensorFlow notes how its Python objects belong together, complex numbers, uint64, more than 8 dimensions.
///
/// Throws NotFoundError when one of the files does not exist; DataLossError when one is damaged, truncated or
/// inconsistent, which checksums tell; UnimplementedError, with a tensor's name, when tensors can hold none of them but
/// TensorFlow's own texts, and for big-endian checkpoints.
TAPESTRY_API StateDict load(const std::string& prefix, Where where = Where::here());

/// Writes a checkpoint of TensorFlow's (V2): `prefix`.index and `prefix`.data-00000-of-00001. The folder is created if
/// necessary. In Python, `tf.train.load_checkpoint(prefix)` reads the tensors by their names, and
/// `tf.compat.v1.train.Saver().restore(session, prefix)` restores the Variables of these names.
///
/// Each file is written completely or not at all, the index last. Equal tensors give equal files. Throws
/// InvalidArgumentError for a prefix that names a folder, a name that is empty or begins with a byte 0, or an empty
/// tensor; FailedPreconditionError for a symbolic tensor, or when the files cannot be written; NotFoundError when the
/// folder cannot be created; ResourceExhaustedError when the disk is full.
TAPESTRY_API void save(const std::string& prefix, const StateDict& tensors, Where where = Where::here());

/// @}

}  // namespace tapestry::tensor_bundle

namespace tapestry {

/// @addtogroup keeping
/// @{

/// What TensorFlow notes of the checkpoints in a folder, in the file "checkpoint" there.
struct CheckpointState {
  std::string latest = {};            ///< the prefix of the newest checkpoint
  std::vector<std::string> all = {};  ///< the prefixes of all that are kept, the oldest first; the newest is the last
};

/// Reads `folder`/checkpoint, the text that `tf.train.Saver` and `tf.train.CheckpointManager` write. Paths in the file
/// that are relative begin in the folder, and do so in the result: "ckpt/model-7". Returns nothing if there is no such
/// file. Throws DataLossError for a file that is damaged, and ResourceExhaustedError for one above 64 MiB.
TAPESTRY_API std::optional<CheckpointState> get_checkpoint_state(const std::string& folder,
                                                                 Where where = Where::here());

/// The prefix of the newest checkpoint of TensorFlow's in a folder, as the file "checkpoint" tells it, if the folder
/// has one whose index exists. Throws DataLossError for a file that is damaged.
///
///     if (const auto prefix = tp::latest_checkpoint("ckpt")) weights = tp::tensor_bundle::load(*prefix);
TAPESTRY_API std::optional<std::string> latest_checkpoint(const std::string& folder, Where where = Where::here());

/// Writes `folder`/checkpoint, so that `latest_checkpoint`, here and in TensorFlow, finds `state.latest`. Prefixes in
/// the folder are written relative to it. The latest one is added to the end of the others if it is not there. The
/// folder is created if necessary; the file is written completely or not at all.
///
///     tp::tensor_bundle::save("ckpt/model-7", weights);
///     tp::update_checkpoint_state("ckpt", {.latest = "ckpt/model-7"});
///
/// Throws InvalidArgumentError for an empty prefix, and what writing a file throws.
TAPESTRY_API void update_checkpoint_state(const std::string& folder, const CheckpointState& state,
                                          Where where = Where::here());

/// @}

}  // namespace tapestry
