#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "io/tensorflow/concrete_function.hpp"

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
  /// The gradient of a node of a function.
  struct GradientObject {
    /// Takes the gradients of the node's outputs, and then what it captures.
    ConcreteFunction function{};
    std::string type{};                   ///< what the node names as `_gradient_op_type`
    std::vector<std::string> captured{};  ///< tensors of the node's function
    std::vector<std::int64_t> inputs{};   ///< the node's inputs that these are
    std::string node{};
    std::vector<bool> given{};                ///< by input of the node: whether the function returns its gradient
    std::shared_ptr<const GraphDef> graph{};  ///< has the function's nodes
  };
  struct SignatureObject {
    std::string name{};
    ConcreteFunction function{};
    std::vector<std::size_t> variables{};  ///< the numbers of the Variables that are its last inputs
    std::vector<GradientObject> gradients{};
    std::list<NodeDef> own_nodes{};  ///< nodes of the function that the graph has otherwise
  };
  std::vector<VariableObject> variables{};
  std::vector<SignatureObject> signatures{};
};

/// The functions of the signatures and of their gradients, as a FunctionDefLibrary.
std::string encode_functions(const ObjectGraph& graph);
/// The SavedObjectGraph of saved_model.pb.
std::string encode_objects(const ObjectGraph& graph);
/// The TrackableObjectGraph of the checkpoint, which tells the names of the Variables there.
std::string encode_checkpoint_objects(const ObjectGraph& graph);

}  // namespace tapestry::io
