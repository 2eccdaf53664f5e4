#pragma once

#include <string>
#include <vector>

#include "io/tensorflow/graph_function.hpp"

/// TensorFlow 2's objects in a SavedModel: saved_object_graph.proto and trackable_object_graph.proto. The numbers of
/// the fields are TensorFlow's.

namespace tapestry::io {

/// A model as a Python object with the attributes `signatures`, `variables`, `trainable_variables` and
/// `non_trainable_variables`.
struct ObjectGraph {
  struct VariableObject {
    std::string name{};  ///< also in the checkpoint
    TypeCode type{};
    Shape shape{};
    bool trainable = true;
  };
  struct SignatureObject {
    std::string name{};
    GraphFunction function{};
    std::vector<std::size_t> variables{};  ///< the numbers of the Variables that are its last inputs
  };
  std::vector<VariableObject> variables{};
  std::vector<SignatureObject> signatures{};
};

/// The SavedObjectGraph of saved_model.pb.
std::string encode_objects(const ObjectGraph& graph);
/// The TrackableObjectGraph of the checkpoint, which tells the names of the Variables there.
std::string encode_checkpoint_objects(const ObjectGraph& graph);

}  // namespace tapestry::io
