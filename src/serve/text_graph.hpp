#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/tensorflow/graph_def.hpp"
#include "serve/texts.hpp"
#include "tapestry/data/example_parser.hpp"

/// Rewrites graphs of TensorFlow's that move texts about, so that they move the texts' numbers about.

namespace tapestry::serve {

/// A feature of the tf.Examples that a graph is given as texts.
struct ParsedFeature {
  std::string name{};         ///< in the examples
  std::string placeholder{};  ///< which gets the values of all examples
  data::Feature feature;
};

/// What the graph takes from a placeholder of texts.
struct TextInput {
  bool is_moved = false;                  ///< the texts themselves
  std::vector<ParsedFeature> features{};  ///< the features of the tf.Examples that the texts are
};

struct TextGraph {
  io::GraphDef graph{};
  ModelTexts texts{};                         ///< that the graph has
  std::map<std::string, TextInput> inputs{};  ///< by the names of placeholders
};

/// The files that come with a graph, by the names of the placeholders and constants that get their paths.
using AssetFiles = std::map<std::string, std::filesystem::path>;

/// Texts become int64 where operations move them without a look at them; a ParseExample becomes a placeholder for each
/// feature, and a lookup in a table of constants or of a file the numbers' places in it. Operations that look into
/// texts stay as they are, and are refused when a run needs them. `outputs`: the nodes that signatures fetch; only what
/// they need is rewritten. Throws NotFoundError for a file of a table that is missing.
TextGraph number_texts(io::GraphDef graph, const std::vector<std::string>& outputs, const AssetFiles& assets);

}  // namespace tapestry::serve
