#include <filesystem>

#include "io/file.hpp"
#include "io/known_format.hpp"
#include "io/tensorflow/graph_export.hpp"
#include "io/tensorflow/graph_import.hpp"
#include "io/tensorflow/read_graph.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry {
namespace {

bool is_text(const std::filesystem::path& path) { return path.extension() == ".pbtxt"; }

}  // namespace

std::string Graph::as_graph_def(const SaveOptions& options, Where where) const {
  return detail::locating({}, where, [&] { return io::encode(io::export_graph(*state_, options)); });
}

void Graph::save(const std::string& path, const SaveOptions& options, Where where) const {
  std::string bytes = as_graph_def(options, where);
  if (is_text(path)) bytes = io::to_text(bytes);
  io::write_file(path, std::as_bytes(std::span(bytes)), where);
}

Graph Graph::from_graph_def(std::string_view bytes, const GraphLimits& limits, Where where) {
  return detail::locating({}, where, [&] {
    Graph().set_limits(limits);  // throws for negative ones
    const auto read = [&](const io::UnevenLists& uneven) { return io::read_graph(bytes, limits, uneven); };
    return io::import_graph(read, limits, where);
  });
}

Graph Graph::load(const std::string& path, const GraphLimits& limits, Where where) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::path(path) / "saved_model.pb", error))
    throw InvalidArgumentError(path + " is the folder of a SavedModel; read it with tp::saved_model::load", where);
  const std::string bytes = io::bytes_of_file(path, limits.bytes, where);
  return detail::locating({}, where, [&] {
    io::refuse_all_but(is_text(path) ? io::Format::graph_text : io::Format::graph, bytes, path, where);
    return io::naming(path,
                      [&] { return from_graph_def(is_text(path) ? io::from_text(bytes) : bytes, limits, where); });
  });
}

}  // namespace tapestry
