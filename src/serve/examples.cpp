#include "serve/examples.hpp"

#include <span>

#include "serve/json_tensor.hpp"
#include "tapestry/error.hpp"
#include "tapestry/op.hpp"

namespace tapestry::serve {
namespace {

/// What a value of a feature is. A number with a point or an exponent is a float, a whole one and a bool are integers.
enum class FeatureKind { none, whole, real, text };

FeatureKind feature_kind(const Json& value) {
  if (value.IsString() || value.IsObject()) return FeatureKind::text;
  if (value.IsBool() || value.IsInt64()) return FeatureKind::whole;
  if (value.IsDouble()) return FeatureKind::real;
  throw InvalidArgumentError("JSON Value: " + quoted(value) + " is not a value of a feature");
}

data::FeatureValues read_feature(const std::string& name, const Json& json) {
  const std::span<const Json> values =
      json.IsArray() ? std::span<const Json>(json.Begin(), json.Size()) : std::span<const Json>(&json, 1);
  FeatureKind kind = FeatureKind::none;
  for (const Json& each : values) {
    const FeatureKind found = feature_kind(each);
    if (kind != FeatureKind::none && kind != found && (kind == FeatureKind::text || found == FeatureKind::text))
      throw InvalidArgumentError("Unexpected element type in JSON list of feature: " + name +
                                 " Value: " + quoted(each));
    kind = std::max(kind, found);  // one real number makes all of them real
  }
  std::vector<std::string> texts;
  std::vector<float> reals;
  std::vector<std::int64_t> wholes;
  for (const Json& each : values) {
    if (kind == FeatureKind::text) {
      texts.push_back(bytes_of(each));
    } else if (kind == FeatureKind::real) {
      reals.push_back(each.IsBool() ? each.GetBool() : static_cast<float>(each.GetDouble()));
    } else {
      wholes.push_back(each.IsBool() ? each.GetBool() : each.GetInt64());
    }
  }
  switch (kind) {
    case FeatureKind::text:
      return texts;
    case FeatureKind::real:
      return reals;
    case FeatureKind::whole:
      return wholes;
    default:
      return {};
  }
}

void read_features(const Json& object, data::Example& example) {
  if (!object.IsObject())
    throw InvalidArgumentError("Example must be JSON object but got JSON " + std::string(kind_of(object)));
  for (const auto& each : object.GetObject()) {
    const std::string name(text_of(each.name));
    example[name] = read_feature(name, each.value);
  }
}

/// Appends the values of a feature. Whole numbers may stand for floats.
template <class T>
void append_values(const data::FeatureValues& feature, const std::string& name, std::vector<T>& values) {
  const auto* whole = std::get_if<std::vector<std::int64_t>>(&feature);
  if (whole) {
    for (const std::int64_t each : *whole) {
      const T value = static_cast<T>(each);
      if (std::is_integral_v<T> && static_cast<std::int64_t>(value) != each)
        throw InvalidArgumentError(detail::join("Feature: ", name, " has a value that is too large: ", each));
      values.push_back(value);
    }
    return;
  }
  const auto* real = std::is_floating_point_v<T> ? std::get_if<std::vector<float>>(&feature) : nullptr;
  if (!real && !std::holds_alternative<std::monostate>(feature))
    throw InvalidArgumentError("Feature: " + name + " has values of the wrong type");
  if (real)
    for (const float each : *real) values.push_back(static_cast<T>(each));
}

template <class T>
Tensor column_of(const std::vector<data::Example>& examples, const std::string& name, const TensorInfo& info) {
  std::vector<std::int64_t> sizes = info.sizes.value_or(std::vector<std::int64_t>{-1});
  if (sizes.empty()) throw InvalidArgumentError("The input " + name + " has no axis for the examples");
  sizes[0] = static_cast<std::int64_t>(examples.size());
  std::int64_t count = 1;
  for (std::size_t axis = 1; axis < sizes.size(); ++axis) count *= sizes[axis];
  std::vector<T> values;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto found = examples[i].find(name);
    if (found == examples[i].end())
      throw InvalidArgumentError(detail::join("Example ", i, " lacks the feature: ", name));
    const std::size_t before = values.size();
    append_values(found->second, name, values);
    const auto added = static_cast<std::int64_t>(values.size() - before);
    // One size may be unknown; the first example tells it.
    if (count < 0 && i == 0) {
      const auto unknown = std::find(sizes.begin() + 1, sizes.end(), -1);
      if (count == 0 || added % -count != 0 || std::find(unknown + 1, sizes.end(), -1) != sizes.end())
        throw InvalidArgumentError(detail::join("Feature: ", name, " has ", added, " values, which do not fit"));
      *unknown = added / -count;
      count = added;
    }
    if (added != count)
      throw InvalidArgumentError(
          detail::join("Feature: ", name, " of example ", i, " has ", added, " values instead of ", count));
  }
  return tensor(values, Shape(sizes));
}

/// The output of a signature that has this meaning.
const Tensor* output(const NamedTensors& outputs, const std::string& name) {
  const auto found = outputs.find(name);
  return found == outputs.end() ? nullptr : &found->second;
}

}  // namespace

std::vector<data::Example> read_examples(const Json& request, std::string_view method) {
  data::Example context;
  if (const Json* given = member(request, "context")) read_features(*given, context);
  const Json* list = member(request, "examples");
  if (!list)
    throw InvalidArgumentError(
        detail::join("When method is ", method, ", key 'examples' is expected and was not found"));
  if (!list->IsArray())
    throw InvalidArgumentError("JSON Value: " + quoted(*list) + " Expecting 'examples' value to be an list/array");
  if (list->Empty()) throw InvalidArgumentError("JSON Value: " + quoted(*list) + " No values in 'examples' array");
  std::vector<data::Example> examples;
  for (const Json& each : list->GetArray()) {
    data::Example example = context;
    read_features(each, example);
    examples.push_back(std::move(example));
  }
  return examples;
}

NamedTensors inputs_of(const std::vector<data::Example>& examples, const SignatureInfo& signature) {
  NamedTensors inputs;
  for (const auto& [name, info] : signature.inputs) {
    switch (dtype_of(info.type)) {
      case DType::float32:
        inputs.emplace(name, column_of<float>(examples, name, info));
        break;
      case DType::float64:
        inputs.emplace(name, column_of<double>(examples, name, info));
        break;
      case DType::int32:
        inputs.emplace(name, column_of<std::int32_t>(examples, name, info));
        break;
      case DType::int64:
        inputs.emplace(name, column_of<std::int64_t>(examples, name, info));
        break;
      default:
        throw UnimplementedError("The input " + name + " is of type " + type_name(info.type) +
                                 ", which features cannot become");
    }
  }
  return inputs;
}

std::vector<Classes> classes_of(const NamedTensors& outputs, std::size_t examples) {
  const auto count = static_cast<std::int64_t>(examples);
  if (output(outputs, "classes"))
    throw InvalidArgumentError("Expected classes Tensor of DT_STRING. Was: " +
                               std::string(tensorflow_name(output(outputs, "classes")->dtype())));
  const Tensor* scores = output(outputs, "scores");
  if (!scores)
    throw InvalidArgumentError(
        "Expected classification signature outputs to contain at least one of classes or scores");
  if (scores->dtype() != float32)
    throw InvalidArgumentError("Expected scores Tensor of DT_FLOAT. Was: " +
                               std::string(tensorflow_name(scores->dtype())));
  if (scores->rank() != 2)
    throw InvalidArgumentError(
        detail::join("Expected Tensor shape: [batch_size num_classes] but got ", scores->shape()));
  const std::int64_t rows = scores->shape().sizes()[0], classes = scores->shape().sizes()[1];
  if (rows != count)
    throw InvalidArgumentError(detail::join("Expected scores output batch size of ", count, ". Got: ", rows));
  std::vector<Classes> results(examples);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < classes; ++i)
      results[static_cast<std::size_t>(row)].emplace_back("", scores->data<float>()[row * classes + i]);
  return results;
}

std::vector<float> regressions_of(const NamedTensors& outputs, std::size_t examples) {
  const auto count = static_cast<std::int64_t>(examples);
  const Tensor* values = output(outputs, "outputs");
  if (!values) throw InvalidArgumentError("No regression outputs found in SignatureDef");
  if (values->dtype() != float32)
    throw InvalidArgumentError("Expected output Tensor of DT_FLOAT. Was: " +
                               std::string(tensorflow_name(values->dtype())));
  const bool fits = values->rank() == 1 || (values->rank() == 2 && values->shape().sizes()[1] == 1);
  if (!fits)
    throw InvalidArgumentError(detail::join(
        "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got ", values->shape()));
  if (values->size() != count)
    throw InvalidArgumentError(detail::join("Expected output batch size to be ", count, ". Got: ", values->size()));
  return {values->data<float>(), values->data<float>() + count};
}

std::string write_json(const std::vector<Classes>& results) {
  std::string json = "{\n    \"results\": [";
  for (const Classes& each : results) {
    json += json.ends_with("[") ? "[" : ", [";
    for (const auto& [label, score] : each) {
      json += json.ends_with("[") ? "[" : ", [";
      append_string(json, label);
      json += ", ";
      append_number(json, score);
      json += "]";
    }
    json += "]";
  }
  return json + "\n    ]\n}";
}

std::string write_json(const std::vector<float>& results) {
  std::string json = "{\n    \"results\": [";
  for (const float each : results) {
    if (!json.ends_with("[")) json += ", ";
    append_number(json, each);
  }
  return json + "\n    ]\n}";
}

}  // namespace tapestry::serve
