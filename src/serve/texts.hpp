#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "serve/named_tensors.hpp"

/// Texts in graphs: tensors hold numbers, so each text has a number, by which the graph moves it about.

namespace tapestry::serve {

/// The texts that a model has itself, such as the labels of its classes. Numbers are 3 k for its text k, 3 k + 1 for
/// the digits of the number k, which nobody needs to keep, and 3 k + 2 for text k of a request.
class ModelTexts {
 public:
  /// The number of a text, which gets one if it has none.
  std::int64_t add(const std::string& text);
  /// -1 if the model does not have the text.
  std::int64_t find(const std::string& text) const;
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
