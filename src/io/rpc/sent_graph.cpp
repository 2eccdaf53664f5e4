#include "io/rpc/sent_graph.hpp"

#include <iterator>

#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/graph_import.hpp"
#include "io/tensorflow/read_graph.hpp"

namespace tapestry::io::rpc {

void SentGraph::extend(std::string_view graph_def) { extend(io::decode(graph_def, limits_)); }

void SentGraph::extend(GraphDef more) {
  if (std::cmp_greater(file_.nodes.size() + more.nodes.size(), limits_.nodes))
    throw ResourceExhaustedError(detail::join("The graph would have ", file_.nodes.size() + more.nodes.size(),
                                              " nodes; it may have ", limits_.nodes, " (GraphLimits::nodes)"));
  for (const NodeDef& each : more.nodes)
    if (names_.contains(each.name))
      throw InvalidArgumentError(detail::join("GraphDef argument to Extend includes node '", each.name,
                                              "', which was created by a previous call to Create or Extend in this "
                                              "session."));
  std::string library = file_.library;
  merge_library(library, more.library);
  for (const NodeDef& each : more.nodes) names_.insert(each.name);
  std::move(more.nodes.begin(), more.nodes.end(), std::back_inserter(file_.nodes));
  file_.library = std::move(library);
  if (more.producer != 0) file_.producer = more.producer;
}

Graph SentGraph::read(const std::shared_ptr<VariableTable>& variables) const {
  const auto read = [&](const UnevenLists& uneven) { return read_graph(file_, limits_, uneven); };
  return import_graph(read, limits_, {}, variables);
}

}  // namespace tapestry::io::rpc
