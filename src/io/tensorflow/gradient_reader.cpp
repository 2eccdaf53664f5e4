#include "io/tensorflow/gradient_reader.hpp"

#include "graph/flow/function_tracer.hpp"
#include "graph/flow/registered_gradient.hpp"

namespace tapestry::io {

Tensors read_with_gradient(const NodeReader& reader, const std::vector<Argument>& inputs, const ReadBody& read_body,
                           Where where) {
  const FileGradient& file = *reader.def().gradient;
  detail::RegisteredGradient gradient{.function = {}, .given = file.given, .problem = file.problem};
  gradient.given.resize(file.values);
  Tensors tensors;
  Specs specs;
  std::vector<std::string> arguments;  // of the function that are tensors
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].variable && i < file.values) reader.refuse("one of its values is a Variable");
    if (inputs[i].variable) continue;
    tensors.push_back(inputs[i].tensor);
    specs.push_back(inputs[i].tensor.spec());
    if (file.problem.empty()) arguments.push_back(file.function.inputs[i]);
  }
  if (file.problem.empty()) {
    const detail::FlatFunction body = [&](const Tensors& traced) {
      std::map<std::string, Argument> given;
      for (std::size_t i = 0; i < inputs.size(); ++i) given.emplace(file.function.inputs[i], inputs[i]);
      for (std::size_t i = 0; i < arguments.size(); ++i) given[arguments[i]] = {traced[i], {}};
      return read_body(file.function, given, file.function.outputs);
    };
    // Only who asks for the gradient needs it.
    try {
      detail::FunctionTracer tracer(tensors, where);
      gradient.function = tracer.trace({{file.function.name, body, specs, "operand"}})[0];
      const Tensors operands = tracer.operands();
      tensors.append(operands.begin(), operands.end());
    } catch (const InvalidArgumentError& error) {
      gradient.problem = error.message();
    } catch (const UnimplementedError& error) {
      gradient.problem = error.message();
    }
  }
  return detail::with_registered_gradient(gradient, tensors, reader.def().name, where);
}

}  // namespace tapestry::io
