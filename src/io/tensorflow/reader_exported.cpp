// libtapestry_tensorflow.so.

#include "io/tensorflow/reader_plugin.hpp"

extern "C" {
TAPESTRY_API extern const tapestry::io::ReaderPlugin tapestry_tensorflow_plugin;
const tapestry::io::ReaderPlugin tapestry_tensorflow_plugin{.bytes = sizeof(tapestry::io::ReaderPlugin),
                                                            .layout = tapestry::io::reader_layout,
                                                            .version = TAPESTRY_VERSION,
                                                            .library = &tapestry::library_mark,
                                                            .raise_graph = tapestry::io::raise_graph,
                                                            .import_into = tapestry::io::import_into,
                                                            .find_op = tapestry::io::find_in_tables};
}
