#include "io/tensorflow/graph_import.hpp"

#include "io/tensorflow/reader_plugin.hpp"

namespace tapestry::io {

Graph import_graph(GraphDef file, const GraphLimits& limits, Where where) {
  Graph graph;
  graph.set_limits(limits, where);
  reader_plugin().import_into(*graph.state(), std::move(file), where, nullptr);
  return graph;
}

Graph import_graph(const std::function<GraphDef(const UnevenLists&)>& read, const GraphLimits& limits, Where where,
                   const std::shared_ptr<VariableTable>& shared) {
  UnevenLists uneven, found;
  const auto import = [&] {
    GraphDef file = read(uneven);
    Graph graph;
    graph.set_limits(limits, where);
    found = reader_plugin().import_into(*graph.state(), std::move(file), where, shared);
    return graph;
  };
  Graph graph = import();
  for (std::size_t before = 0;; before = uneven.size()) {
    uneven.insert(found.begin(), found.end());
    if (uneven.size() == before) return graph;
    try {
      graph = import();
    } catch (const Error&) {
      return graph;  // they are used in ways that such lists lack: a run that needs them is refused
    }
  }
}

}  // namespace tapestry::io
