#pragma once

#include <string>

#include "tapestry/state_dict.hpp"

namespace tapestry::tensor_bundle {

/// @addtogroup keeping
/// @{

/// Reads all tensors of a checkpoint of TensorFlow's (V2), which `tf.train.Saver`, `tf.train.Checkpoint` and
/// SavedModels ("variables/variables") write. `prefix` is the common beginning of the names of its files: "ckpt/model"
/// for "ckpt/model.index" and "ckpt/model.data-00000-of-00001". There may be several of the latter, and a Variable that
/// was saved in slices is joined.
///
///     tp::StateDict weights = tp::tensor_bundle::load("ckpt/model");
///     tp::Tensor kernel = weights.at("dense/kernel/.ATTRIBUTES/VARIABLE_VALUE");
///
/// The names are the file's: "dense/kernel" and "dense/kernel/Adam" in TensorFlow 1, and paths of attributes, as above,
/// in TensorFlow 2. An element type that tensors do not have becomes the next wider one that holds all its values:
/// int32 for int8, int16 and uint16, and int64 for uint32. Left out are the texts in which TensorFlow notes how its
/// Python objects belong together, "_CHECKPOINTABLE_OBJECT_GRAPH" and those that end in
/// ".ATTRIBUTES/OBJECT_CONFIG_JSON".
///
/// Throws NotFoundError when one of the files does not exist; DataLossError when one is damaged, truncated or
/// inconsistent, which checksums tell; UnimplementedError, with the tensor's name, when tensors cannot have the element
/// type (other texts, complex numbers, uint64) or the number of dimensions, and for big-endian checkpoints.
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
