// For the static library, which has the plugin's code: a program that reads no graph does not link it.

#include "io/tensorflow/reader_plugin.hpp"

namespace tapestry::io {

const ReaderPlugin& reader_plugin() {
  static constexpr ReaderPlugin own{.bytes = sizeof(ReaderPlugin),
                                    .layout = reader_layout,
                                    .version = "",
                                    .library = nullptr,
                                    .raise_graph = raise_graph,
                                    .import_into = import_into,
                                    .find_op = find_in_tables};
  return own;
}

}  // namespace tapestry::io
