#include "serve/texts.hpp"

#include "tapestry/op.hpp"

namespace tapestry::serve {
namespace {

enum Kind : std::int64_t { of_model, of_request };

/// The first pair of numbers stands for no text.
std::int64_t number_of(std::size_t index, Kind kind) {
  return first_text + 2 + 2 * static_cast<std::int64_t>(index) + kind;
}

std::int64_t index_of(std::int64_t number) { return (number - first_text) / 2 - 1; }

template <class List>
auto& at(const List& list, std::int64_t index) {
  if (index < 0 || std::cmp_greater_equal(index, list.size())) throw InternalError("a number that no text has");
  return list[index];
}

}  // namespace

std::int64_t ModelTexts::add(const std::string& text) {
  const auto [found, is_new] = numbers_.emplace(text, number_of(texts_.size(), of_model));
  if (is_new) texts_.push_back(text);
  return found->second;
}

std::optional<std::int64_t> ModelTexts::find(const std::string& text) const {
  const auto found = numbers_.find(text);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

const std::string& ModelTexts::text(std::int64_t number) const { return at(texts_, index_of(number)); }

Tensor RequestTexts::numbers(const Texts& texts) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(texts.elements.size());
  for (const std::string& each : texts.elements) {
    std::optional<std::int64_t> number = model_.find(each);
    if (!number) {
      const auto [found, is_new] = numbers_.emplace(each, number_of(texts_.size(), of_request));
      if (is_new) texts_.push_back(&found->first);
      number = found->second;
    }
    numbers.push_back(*number);
  }
  return tensor(numbers, Shape(texts.sizes));
}

Texts RequestTexts::texts(const Tensor& numbers) const {
  const auto sizes = numbers.shape().sizes();
  Texts texts{.sizes = {sizes.begin(), sizes.end()}, .elements = {}};
  for (std::int64_t i = 0; i < numbers.size(); ++i) {
    const std::int64_t number = numbers.data<std::int64_t>()[i];
    if (number >= end_of_texts) {
      texts.elements.push_back(std::to_string(number));
    } else if (number == first_text) {
      throw UnimplementedError(detail::join("as_string of a number below ", end_of_texts));
    } else if ((number - first_text) % 2 == of_model) {
      texts.elements.push_back(model_.text(number));
    } else {
      texts.elements.push_back(*at(texts_, index_of(number)));
    }
  }
  return texts;
}

}  // namespace tapestry::serve
