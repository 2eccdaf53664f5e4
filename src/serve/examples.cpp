#include "serve/examples.hpp"

#include <array>
#include <span>

#include "serve/json_tensor.hpp"
#include "tapestry/error.hpp"
#include "tapestry/op.hpp"

namespace tapestry::serve {
namespace {

/// What a value of a feature is. A number with a point or an exponent is a float, a whole one and a bool are integers.
enum class FeatureKind { none, whole, real, text };

FeatureKind feature_kind(const Json& value, const std::string& name) {
  if (value.IsString() || is_bytes(value)) return FeatureKind::text;
  if (value.IsBool() || value.IsInt64()) return FeatureKind::whole;
  if (value.IsDouble()) return FeatureKind::real;
  if (value.IsNumber())
    throw InvalidArgumentError("Feature: " + name + " has uint64_t element. Only int64_t is supported.");
  throw InvalidArgumentError(
      detail::join("Feature: ", name, " has element with unexpected JSON type: ", kind_of(value)));
}

data::FeatureValues read_feature(const std::string& name, const Json& json) {
  const std::span<const Json> values =
      json.IsArray() ? std::span<const Json>(json.Begin(), json.Size()) : std::span<const Json>(&json, 1);
  FeatureKind kind = FeatureKind::none;
  for (const Json& each : values) {
    const FeatureKind found = feature_kind(each, name);
    if (kind != FeatureKind::none && kind != found) {
      constexpr std::array<std::string_view, 4> names{"UNKNOWN", "int64", "float", "bytes"};
      throw InvalidArgumentError(detail::join("Unexpected element type in feature: ", name,
                                              " expecting type: ", names[static_cast<std::size_t>(kind)]));
    }
    kind = found;
  }
  std::vector<std::string> texts;
  std::vector<float> reals;
  std::vector<std::int64_t> wholes;
  for (const Json& each : values) {
    if (kind == FeatureKind::text) {
      texts.push_back(bytes_of(each));
    } else if (kind == FeatureKind::real) {
      reals.push_back(static_cast<float>(each.GetDouble()));
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

/// Whether a signature takes whole examples.
bool takes_examples(const SignatureInfo& signature) {
  return signature.inputs.size() == 1 && signature.inputs.begin()->second.type == string_type;
}

NamedValues whole_examples(std::vector<std::string> encoded, const SignatureInfo& signature) {
  const std::int64_t count = std::ssize(encoded);
  return {{signature.inputs.begin()->first, Texts{.sizes = {count}, .elements = std::move(encoded)}}};
}

/// The output of a signature that has this meaning; nullptr if there is none.
const std::variant<Tensor, Texts>* output(const NamedValues& outputs, const std::string& name) {
  const auto found = outputs.find(name);
  return found == outputs.end() ? nullptr : &found->second;
}

/// The output as float32. Throws InvalidArgumentError. `title`: what it is in the error.
const Tensor& floats_of(const std::variant<Tensor, Texts>& value, const std::string& title) {
  const Tensor* tensor = std::get_if<Tensor>(&value);
  if (tensor && tensor->dtype() == float32) return *tensor;
  throw InvalidArgumentError("Expected " + title + " Tensor of DT_FLOAT. Was: " +
                             std::string(tensor ? tensorflow_name(tensor->dtype()) : "string"));
}

template <class Sizes>
void check_classes(const Sizes& sizes, const char* title, std::size_t examples) {
  if (sizes.size() != 2)
    throw InvalidArgumentError(detail::join("Expected Tensor shape: [batch_size num_classes] but got ", Shape(sizes)));
  if (!std::cmp_equal(sizes[0], examples))
    throw InvalidArgumentError(
        detail::join("Expected ", title, " output batch size of ", examples, ". Got: ", sizes[0]));
}

}  // namespace

std::vector<data::Example> read_examples(const Json& request) {
  const auto refuse = [&](const char* text) {
    throw InvalidArgumentError("JSON Value: " + quoted(request) + " " + text);
  };
  data::Example context;
  if (const Json* given = member(request, "context")) read_features(*given, context);
  const Json* list = member(request, "examples");
  // TensorFlow Serving says so of regress, too.
  if (!list) refuse("When method is classify, key 'examples' is expected and was not found");
  if (!list->IsArray()) refuse("Expecting 'examples' value to be an list/array");
  if (list->Empty()) refuse("'examples' value is an empty array");
  std::vector<data::Example> examples;
  for (const Json& each : list->GetArray()) {
    data::Example example = context;
    read_features(each, example);
    examples.push_back(std::move(example));
  }
  return examples;
}

NamedValues inputs_of(const std::vector<data::Example>& examples, const SignatureInfo& signature) {
  if (takes_examples(signature)) {
    std::vector<std::string> encoded;
    encoded.reserve(examples.size());
    for (const data::Example& each : examples) encoded.push_back(data::encode(each));
    return whole_examples(std::move(encoded), signature);
  }
  NamedValues inputs;
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

NamedValues inputs_of(const std::vector<std::string>& encoded, const SignatureInfo& signature) {
  if (takes_examples(signature)) return whole_examples(encoded, signature);
  std::vector<data::Example> examples;
  for (const std::string& each : encoded) {
    try {
      examples.push_back(data::decode_example({.bytes = each}, Where()));
    } catch (const DataLossError&) {
      throw InvalidArgumentError(detail::join("Could not parse example input, number ", examples.size()));
    }
  }
  return inputs_of(examples, signature);
}

std::vector<Classes> classes_of(const NamedValues& outputs, std::size_t examples) {
  const auto *labels = output(outputs, "classes"), *scores = output(outputs, "scores");
  if (!labels && !scores)
    throw InvalidArgumentError(
        "Expected classification signature outputs to contain at least one of classes or scores");
  const Texts* texts = labels ? std::get_if<Texts>(labels) : nullptr;
  if (labels && !texts)
    throw InvalidArgumentError("Expected classes Tensor of DT_STRING. Was: " +
                               std::string(tensorflow_name(std::get<Tensor>(*labels).dtype())));
  if (texts) check_classes(std::vector(texts->sizes), "classes", examples);
  const float* values = nullptr;
  std::int64_t classes = texts ? texts->sizes[1] : 0;
  if (scores) {
    const Tensor& tensor = floats_of(*scores, "scores");
    const auto& sizes = tensor.shape().sizes();
    check_classes(std::vector<std::int64_t>(sizes.begin(), sizes.end()), "scores", examples);
    if (texts && classes != sizes[1])
      throw InvalidArgumentError(
          detail::join("Tensors class and score should match in dim_size(1). Got ", classes, " vs. ", sizes[1]));
    classes = sizes[1];
    values = tensor.data<float>();
  }
  std::vector<Classes> results(examples);
  std::size_t next = 0;
  for (Classes& each : results)
    for (std::int64_t i = 0; i < classes; ++i, ++next)
      each.emplace_back(texts ? texts->elements[next] : "", values ? values[next] : 0.0F);
  return results;
}

std::vector<float> regressions_of(const NamedValues& outputs, std::size_t examples) {
  const auto count = static_cast<std::int64_t>(examples);
  const auto* found = output(outputs, "outputs");
  if (!found) throw InvalidArgumentError("No regression outputs found in SignatureDef");
  const Tensor& values = floats_of(*found, "output");
  const bool fits = values.rank() == 1 || (values.rank() == 2 && values.shape().sizes()[1] == 1);
  if (!fits)
    throw InvalidArgumentError(detail::join(
        "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got ", values.shape()));
  if (values.size() != count)
    throw InvalidArgumentError(detail::join("Expected output batch size to be ", count, ". Got: ", values.size()));
  return {values.data<float>(), values.data<float>() + count};
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
