// libtapestry_onnx.so.

#include "io/onnx/onnx_ops.hpp"
#include "io/onnx/onnx_plugin.hpp"

extern "C" {
TAPESTRY_API extern const tapestry::io::OnnxPlugin tapestry_onnx_plugin;
const tapestry::io::OnnxPlugin tapestry_onnx_plugin{.bytes = sizeof(tapestry::io::OnnxPlugin),
                                                    .layout = tapestry::io::onnx_layout,
                                                    .version = TAPESTRY_VERSION,
                                                    .library = &tapestry::library_mark,
                                                    .save = tapestry::io::save_onnx,
                                                    .load = tapestry::io::load_onnx,
                                                    .find_op = tapestry::io::find_onnx_op};
}
