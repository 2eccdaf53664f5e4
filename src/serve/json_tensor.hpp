#pragma once

#include <string>

#include "serve/json.hpp"
#include "serve/servable.hpp"

/// Tensors in the JSON of predict requests and of their answers.

namespace tapestry::serve {

/// How a request lists its values, and its answer the results.
enum class Form {
  row,      ///< "instances": one element for each example
  columnar  ///< "inputs": whole tensors
};

/// The values of a request's object. Throws InvalidArgumentError, with TensorFlow Serving's texts, for values that do
/// not fit the signature, and UnimplementedError for types that JSON or tensors do not have.
/// `name`: the signature's.
std::pair<Form, NamedValues> read_inputs(const Json& request, const std::string& name, const SignatureInfo& signature);

/// The body of the answer. Throws InvalidArgumentError for outputs that the form cannot list.
std::string write_outputs(Form form, const NamedValues& outputs);

/// A float as answers write it: with six digits if these tell it exactly, else with nine.
void append_number(std::string& json, float value);
/// The same of a double, with up to 17 digits.
void append_number(std::string& json, double value);

}  // namespace tapestry::serve
