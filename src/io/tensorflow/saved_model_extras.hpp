#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graph/graph_state.hpp"

namespace tapestry::detail {

/// What a SavedModel has beside the graph and the signatures of its Model, and needs when it is written again.
struct SavedModelExtras {
  /// A file that the graph reads when it is initialized.
  struct Asset {
    std::string tensor{};  ///< of the graph: gets the path of the file
    std::string file{};    ///< its name in the folder "assets"
  };
  std::vector<std::string> tags{"serve"};
  std::filesystem::path folder{};  ///< of the SavedModel
  std::vector<Asset> assets{};
  Node* initializer = nullptr;  ///< the operation that fills the tables of the graph; nullptr for none
};

}  // namespace tapestry::detail
