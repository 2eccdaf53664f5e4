#include "io/onnx/onnx_plugin.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/onnx.hpp"

namespace tapestry::onnx {

void save(const std::string& path, const Signature& signature, Where where) {
  save(path, Model(signature, where), where);
}

void save(const std::string& path, const Model& model, Where where) {
  detail::locating({}, where, [&] { io::onnx_plugin().save(path, model, where); });
}

Model load(const std::string& path, const GraphLimits& limits, Where where) {
  return detail::locating({}, where, [&] { return io::onnx_plugin().load(path, limits, where); });
}

}  // namespace tapestry::onnx
