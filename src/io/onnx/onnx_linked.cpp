// For the static library, which has the plugin's code: a program that uses no ONNX does not link it.

#include "io/onnx/onnx_ops.hpp"
#include "io/onnx/onnx_plugin.hpp"

namespace tapestry::io {

const OnnxPlugin& onnx_plugin() {
  static const OnnxPlugin& plugin = []() -> const OnnxPlugin& {
    static constexpr OnnxPlugin own{.bytes = sizeof(OnnxPlugin),
                                    .layout = onnx_layout,
                                    .version = "",
                                    .library = nullptr,
                                    .save = save_onnx,
                                    .load = load_onnx,
                                    .find_op = find_onnx_op};
    set_other_ops(own.find_op);
    return own;
  }();
  return plugin;
}

}  // namespace tapestry::io
