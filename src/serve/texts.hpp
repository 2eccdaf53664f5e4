#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "serve/named_tensors.hpp"

/// Texts in graphs: tensors hold numbers, so each text has a number, by which the graph moves it about.

namespace tapestry::serve {

/// The digits of a number, as tf.strings.as_string writes them, are the text of that number itself, and nobody needs to
/// keep them. Other texts have numbers between these two: a model's are even, a request's odd. The digits of a number
/// between these two have none, which is told by the first one.
inline constexpr std::int64_t first_text = std::numeric_limits<std::int64_t>::min(),
                              end_of_texts = first_text + (std::int64_t{1} << 33);

/// The texts that a model has itself, such as the labels of its classes.
class ModelTexts {
 public:
  /// The number of a text, which gets one if it has none.
  std::int64_t add(const std::string& text);
  /// Nothing if the model does not have the text.
  std::optional<std::int64_t> find(const std::string& text) const;
  std::int64_t size() const { return std::ssize(texts_); }
  /// Throws InternalError for a number that no text has.
  const std::string& text(std::int64_t number) const;

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::int64_t> numbers_;
};

/// The texts of one request, beside those of the model. Equal texts have equal numbers.
class RequestTexts {
 public:
  explicit RequestTexts(const ModelTexts& model) : model_(model) {}

  /// The numbers of texts, int64, and the texts of numbers.
  /// @{
  Tensor numbers(const Texts& texts);
  Texts texts(const Tensor& numbers) const;
  /// @}

 private:
  const ModelTexts& model_;
  std::vector<const std::string*> texts_;
  std::unordered_map<std::string, std::int64_t> numbers_;
};

}  // namespace tapestry::serve
