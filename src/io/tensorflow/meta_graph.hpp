#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/detail/config.hpp"

/// What a SavedModel tells beside its graphs: saved_model.proto, meta_graph.proto, saver.proto and
/// saved_object_graph.proto.

namespace tapestry::io {

/// The names of a signature's tensors, by the names that its users know.
struct SignatureDef {
  std::map<std::string, std::string> inputs{}, outputs{};
  std::string method{};  ///< "tensorflow/serving/predict"
  bool is_plain = true;  ///< has neither sparse nor composite tensors
};

struct MetaGraph {
  std::vector<std::string> tags{};
  std::string_view graph{};  ///< the bytes of its GraphDef
  std::string filename{};    ///< the tensor that the saver takes the checkpoint's prefix from; "" for no saver
  std::string restore{};     ///< the operation that restores the Variables
  std::map<std::string, SignatureDef> signatures{};
  std::map<std::string, std::string> assets{};  ///< by the tensor that gets the path: the name of the file
  std::string initializer{};                    ///< the operation that fills tables; "" for none
  std::map<std::string, bool> trainable{};      ///< by the name of a Variable, of TensorFlow 1

  /// One of TensorFlow 2's objects. The first one is the root.
  struct Object {
    std::map<std::string, std::size_t, std::less<>> children{};  ///< by attribute: the number of an object
    std::optional<bool> trainable{};                             ///< of a Variable
    std::string name{};      ///< of a Variable; of a captured tensor in its function
    std::string function{};  ///< of a captured tensor: the function that computes it
  };
  std::vector<Object> objects{};
  /// By a function of TensorFlow 2's: the numbers of the objects that it takes behind its arguments.
  std::map<std::string, std::vector<std::size_t>, std::less<>> captured{};
  /// By a function that returns a list: by its elements, whether they are tensors. Others are None.
  std::map<std::string, std::vector<bool>, std::less<>> returned{};
};

/// The Variable that the checkpoint has under this key, a path of attributes; nullptr if the objects do not tell.
const MetaGraph::Object* variable_at(const MetaGraph& graph, std::string_view key);

/// The files of a MetaGraphDef, as `MetaGraph::assets`. Throws protozero's exception for bytes that are none.
TAPESTRY_API std::map<std::string, std::string> assets_in(std::string_view meta_graph);

/// Throws DataLossError for bytes that are no SavedModel. The bytes must outlive the result.
std::vector<MetaGraph> decode_saved_model(std::string_view bytes);

}  // namespace tapestry::io
