#pragma once

#include <string>
#include <vector>

#include "serve/json.hpp"
#include "serve/servable.hpp"
#include "tapestry/data/example.hpp"

/// Requests to classify and to regress: lists of tf.Examples, whose features become the inputs of a signature.

namespace tapestry::serve {

/// The examples of a request's object, each with the features of its context. Throws InvalidArgumentError.
std::vector<data::Example> read_examples(const Json& request);

/// The inputs of a signature: of one that takes texts, the examples themselves, and of others the features of the
/// inputs' names. Throws InvalidArgumentError for an example that lacks a feature, or has values of another type or
/// number, and UnimplementedError for types that features cannot become.
/// @{
NamedValues inputs_of(const std::vector<data::Example>& examples, const SignatureInfo& signature);
NamedValues inputs_of(const std::vector<std::string>& encoded, const SignatureInfo& signature);
/// @}

/// The classes of one example: their labels, and their scores.
using Classes = std::vector<std::pair<std::string, float>>;

/// What is answered for each example, from the outputs "classes" and "scores", or "outputs". Throws
/// InvalidArgumentError when the outputs are not of that kind.
/// @{
std::vector<Classes> classes_of(const NamedValues& outputs, std::size_t examples);
std::vector<float> regressions_of(const NamedValues& outputs, std::size_t examples);
/// @}

/// The body of an answer in JSON.
/// @{
std::string write_json(const std::vector<Classes>& results);
std::string write_json(const std::vector<float>& results);
/// @}

}  // namespace tapestry::serve
