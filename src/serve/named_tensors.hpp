#pragma once

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tapestry/error.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::serve {

/// When a request has to be answered, and whether somebody still waits for the answer.
class Deadline : public std::chrono::steady_clock::time_point {
 public:
  Deadline() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): it is such a time
  Deadline(std::chrono::steady_clock::time_point when, std::stop_token gone = {})
      : time_point(when), gone_(std::move(gone)) {}

  /// A stop is requested when the client has gone.
  const std::stop_token& gone() const { return gone_; }
  bool is_over() const { return gone_.stop_requested() || std::chrono::steady_clock::now() >= *this; }

 private:
  std::stop_token gone_;
};

/// Values by their names, in the order of these. A request has a few, which come in that order: a list takes one
/// allocation where a std::map takes one for each.
template <class T>
class Named {
 public:
  using Entry = std::pair<std::string, T>;
  using Iterator = typename std::vector<Entry>::iterator;
  using ConstIterator = typename std::vector<Entry>::const_iterator;

  Named() = default;
  Named(std::initializer_list<Entry> entries) {
    for (const auto& [name, value] : entries) emplace(name, value);
  }

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  Iterator begin() { return entries_.begin(); }
  Iterator end() { return entries_.end(); }
  ConstIterator begin() const { return entries_.begin(); }
  ConstIterator end() const { return entries_.end(); }

  /// The entry of a name; end() if there is none.
  ConstIterator find(std::string_view name) const {
    const auto found = std::lower_bound(begin(), end(), name, is_before);
    return found == end() || found->first != name ? end() : found;
  }
  /// The value of a name. Throws std::out_of_range if there is none.
  const T& at(std::string_view name) const {
    const auto found = find(name);
    if (found == end()) throw std::out_of_range(std::string(name));
    return found->second;
  }

  /// Makes space for so many values.
  void reserve(std::size_t count) { entries_.reserve(count); }
  /// Adds a value, unless there is one of that name.
  template <class Name, class Value>
  void emplace(Name&& name, Value&& value) {
    auto place = end();
    if (!empty() && !(entries_.back().first < name)) {
      place = std::lower_bound(begin(), end(), name, is_before);
      if (place->first == name) return;
    }
    entries_.emplace(place, std::forward<Name>(name), std::forward<Value>(value));
  }
  /// Takes away the entries of which `is_out` is true.
  template <class F>
  void erase_if(F is_out) {
    std::erase_if(entries_, is_out);
  }

 private:
  static bool is_before(const Entry& entry, std::string_view name) { return entry.first < name; }

  std::vector<Entry> entries_;
};

/// Tensors by their names.
using NamedTensors = Named<Tensor>;

/// What tensors cannot hold: an array of texts, or of any bytes, in row-major order.
struct Texts {
  std::vector<std::int64_t> sizes{};
  std::vector<std::string> elements{};
};

/// The values of a request or of an answer, by the names of the signature.
using NamedValues = Named<std::variant<Tensor, Texts>>;

/// Throws DeadlineExceededError when a request has no time left, and CancelledError when its client has gone.
inline void require_time(const Deadline& deadline) {
  if (deadline.gone().stop_requested()) throw CancelledError("The client has gone");
  if (std::chrono::steady_clock::now() >= deadline)
    throw DeadlineExceededError("Timed out before the request was answered");
}

}  // namespace tapestry::serve
