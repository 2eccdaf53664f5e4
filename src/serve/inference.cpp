#include "serve/inference.hpp"

#include <algorithm>
#include <set>
#include <variant>

#include "io/tensorflow/graph_def.hpp"
#include "serve/proto_tensor.hpp"

namespace tapestry::serve {
namespace {

/// "{a,b}" of the names in a map or a set.
template <class Names>
std::string listed(const Names& names) {
  std::string text = "{";
  for (const auto& each : names) {
    if (text.size() > 1) text += ",";
    if constexpr (requires { each.first; }) {
      text += each.first;
    } else {
      text += each;
    }
  }
  return text + "}";
}

/// The names that only the first map has.
template <class A, class B>
std::set<std::string> only_in(const A& a, const B& b) {
  std::set<std::string> names;
  for (const auto& [name, value] : a)
    if (!b.contains(name)) names.insert(name);
  return names;
}

constexpr std::string_view classify_method = "tensorflow/serving/classify",
                           regress_method = "tensorflow/serving/regress";

std::string signature_name(const ModelSpec& spec) {
  return spec.signature.empty() ? "serving_default" : spec.signature;
}

/// Throws InvalidArgumentError unless an input has the signature's type: no number becomes a less exact one. `place`:
/// the input's among the inputs.
void require_type(const std::variant<Tensor, Texts>& value, TypeNumber type, std::size_t place) {
  const Tensor* tensor = std::get_if<Tensor>(&value);
  const DType due = dtype_of(type);
  if (!tensor || due == DType::unknown || tensor->dtype() == due) return;
  throw InvalidArgumentError(detail::join("Expects arg[", place, "] to be ", type_name(type), " but ",
                                          type_name(io::code_of(tensor->dtype()).value), " is provided"));
}

/// The inputs that a signature has. Throws InvalidArgumentError for others.
NamedValues inputs_of(const PredictRequest& request, const SignatureInfo& signature) {
  const auto& given = request.inputs;
  if (given.size() != signature.inputs.size())
    throw InvalidArgumentError(detail::join(
        "input size does not match signature: ", given.size(), "!=", signature.inputs.size(), " len(", listed(given),
        ") != len(", listed(signature.inputs), "). Sent extra: ", listed(only_in(given, signature.inputs)),
        ". Missing but required: ", listed(only_in(signature.inputs, given)), "."));
  NamedValues inputs;
  inputs.reserve(given.size());
  for (const auto& [name, info] : signature.inputs) {
    const auto found = given.find(name);
    if (found == given.end())
      throw InvalidArgumentError(
          detail::join("Signature input alias: ", name, "(feed name: ", info.name,
                       ") not found in request and no default value provided. Inputs expected to be in the request ",
                       listed(given), ", or default input alias set: "));
    std::variant<Tensor, Texts> value = read_value(name, found->second);
    require_type(value, info.type, inputs.size());
    inputs.emplace(name, std::move(value));
  }
  return inputs;
}

/// Takes the outputs that nobody asked for away.
void filter(NamedValues& outputs, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return;
  const std::set<std::string> names(wanted.begin(), wanted.end());
  outputs.erase_if([&](const auto& each) { return !names.contains(each.first); });
}

void check_filter(const std::vector<std::string>& wanted, const SignatureInfo& signature) {
  std::set<std::string_view> seen;
  for (const std::string& each : wanted) {
    if (!signature.outputs.contains(each))
      throw InvalidArgumentError(detail::join("output tensor alias not found in signature: ", each,
                                              " Outputs expected to be in the set ", listed(signature.outputs), "."));
    if (!seen.insert(each).second) throw InvalidArgumentError("duplicate output tensor alias: " + each);
  }
}

/// What a classification or regression found.
struct Inferred {
  NamedValues outputs;
  std::size_t examples;
  ModelSpec used;
};

Inferred infer(const Servable& model, const std::string& name, const std::vector<std::string>& examples,
               Deadline deadline) {
  const auto signature = model.signatures().find(name);
  if (signature == model.signatures().end())
    throw InvalidArgumentError("No signature was found with the name: " + name);
  if (examples.empty()) throw InvalidArgumentError("Input is empty.");
  return {.outputs = model.run(name, serve::inputs_of(examples, signature->second), deadline),
          .examples = examples.size(),
          .used = used(model, name)};
}

Inferred infer(const Servable& model, const ExamplesRequest& request, Deadline deadline) {
  return infer(model, signature_name(request.model_spec.value_or(ModelSpec())), request.examples, deadline);
}

}  // namespace

ModelSpec used(const Servable& model, const std::string& signature) {
  return {.name = model.name(), .choice = {.version = model.version(), .label = {}}, .signature = signature};
}
ModelSpec used(const Servable& model, const std::optional<ModelSpec>& asked) {
  return used(model, signature_name(asked.value_or(ModelSpec())));
}

std::string predict(const Servable& model, const PredictRequest& request, Deadline deadline) {
  const std::string name = signature_name(request.model_spec.value_or(ModelSpec()));
  const auto signature = model.signatures().find(name);
  if (signature == model.signatures().end())
    throw FailedPreconditionError("Serving signature key \"" + name + "\" not found.");
  NamedValues inputs = inputs_of(request, signature->second);
  check_filter(request.output_filter, signature->second);
  NamedValues outputs = model.run(name, std::move(inputs), deadline);
  filter(outputs, request.output_filter);
  return write_predict_response(outputs, used(model, name));
}

std::string classify(const Servable& model, const ExamplesRequest& request, Deadline deadline) {
  const Inferred found = infer(model, request, deadline);
  return write_classification_response(classes_of(found.outputs, found.examples), found.used);
}

std::string regress(const Servable& model, const ExamplesRequest& request, Deadline deadline) {
  const Inferred found = infer(model, request, deadline);
  return write_regression_response(regressions_of(found.outputs, found.examples), found.used);
}

void require_tasks(const MultiInferenceRequest& request) {
  std::set<std::string> names;
  for (const InferenceTask& task : request.tasks) {
    const ModelSpec& spec = task.model_spec;
    if (spec.name.empty()) throw InvalidArgumentError("Found ModelSpec with an empty model name.");
    if (spec.name != request.tasks.front().model_spec.name)
      throw InvalidArgumentError("All ModelSpecs in a MultiInferenceRequest must access the same model name.");
    if (!names.insert(signature_name(spec)).second)
      throw InvalidArgumentError("Duplicate evaluation of signature: " + signature_name(spec));
    if (task.method_name != classify_method && task.method_name != regress_method)
      throw UnimplementedError("Unsupported signature method_name: " + task.method_name);
  }
  if (request.tasks.empty()) throw InvalidArgumentError("ModelSpec has no name specified.");
}

std::string multi_inference(const Servable& model, const MultiInferenceRequest& request, Deadline deadline) {
  std::string response;
  for (const InferenceTask& task : request.tasks) {
    const std::string name = signature_name(task.model_spec);
    if (!model.signatures().contains(name))
      throw InvalidArgumentError("Requested signature not found in model graph: " + name);
    const Inferred found = infer(model, name, request.examples, deadline);
    response += task.method_name == classify_method
                    ? write_inference_result(classes_of(found.outputs, found.examples), found.used)
                    : write_inference_result(regressions_of(found.outputs, found.examples), found.used);
  }
  return response;
}

}  // namespace tapestry::serve
