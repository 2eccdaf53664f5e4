#include "io/signature.hpp"

namespace tapestry::io {

Graph graph_of(const Signature& signature) {
  if (signature.outputs.empty()) throw InvalidArgumentError("A signature needs an output");
  const Tensor& first = signature.outputs.begin()->second;
  for (const auto* list : {&signature.outputs, &signature.inputs})
    for (const auto& [name, tensor] : *list) {
      if (!tensor || !tensor.op())
        throw InvalidArgumentError(detail::join("'", name, "' of the signature is not a tensor of a graph"));
      if (!tensor.op().graph().is(first.op().graph()))
        throw InvalidArgumentError(detail::join("'", name, "' of the signature is of another graph than '",
                                                signature.outputs.begin()->first, "'"));
    }
  return first.op().graph();
}

InvalidArgumentError never_fed(const std::string& placeholder) {
  return InvalidArgumentError(
      detail::join("The outputs depend on the placeholder '", placeholder, "', which is no input of the signature"));
}

}  // namespace tapestry::io
