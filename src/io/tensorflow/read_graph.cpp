#include "io/tensorflow/read_graph.hpp"

#include <algorithm>
#include <cctype>

#include "io/known_format.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/reader_plugin.hpp"

namespace tapestry::io {
namespace {

/// The name as a message may show it: "a\x0ab".
std::string escaped(std::string_view name) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::iscntrl(byte)) {
      text += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
    } else {
      text += c;
    }
  }
  return text;
}

/// Messages quote names: no control character of a file reaches a terminal or a log.
void require_printable(std::string_view name) {
  if (std::any_of(name.begin(), name.end(), [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; }))
    throw InvalidArgumentError(detail::join("The name '", escaped(name), "' has a control character"));
}

}  // namespace

void require_printable(const GraphDef& file) {
  for (const NodeDef& node : file.nodes) {
    for (const std::string* each : {&node.name, &node.op, &node.device}) require_printable(*each);
    for (const std::string& each : node.inputs) require_printable(each);
    for (const auto& [name, value] : node.attrs) require_printable(name);
    for (std::size_t i = 0; node.flow && i < node.flow->functions.size(); ++i) {
      require_printable(node.flow->functions[i].name);
      require_printable(node.flow->functions[i].graph);
    }
  }
}

GraphDef read_graph(std::string_view bytes, const GraphLimits& limits, const UnevenLists& uneven) {
  if (!bytes.empty()) refuse_all_but(Format::graph, bytes, "The data", {});
  return read_graph(decode(bytes, limits), limits, uneven);
}

GraphDef read_graph(GraphDef file, const GraphLimits& limits, const UnevenLists& uneven,
                    const FileGradients& gradients) {
  return reader_plugin().raise_graph(std::move(file), limits, uneven, gradients);
}

}  // namespace tapestry::io
