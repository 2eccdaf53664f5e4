#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tapestry/data/records.hpp"

namespace tapestry::data {

/// @addtogroup records
/// @{

/// The values of a feature in a tf.Example: any number of bytes, floats or integers, or nothing at all.
class FeatureValues
    : public std::variant<std::monostate, std::vector<std::string>, std::vector<float>, std::vector<std::int64_t>> {
 public:
  using variant::variant;
  using variant::operator=;
  /// No values, of no type.
  FeatureValues() = default;
  /// One value: an integer or bool, a floating number, or anything that a std::string can be made of.
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_constructible_v<std::string, T>)
      FeatureValues(T value) {  // NOLINT(google-explicit-constructor): it stands for it
    if constexpr (std::is_integral_v<T>) {
      *this = std::vector<std::int64_t>{static_cast<std::int64_t>(value)};
    } else if constexpr (std::is_arithmetic_v<T>) {
      *this = std::vector<float>{static_cast<float>(value)};
    } else {
      *this = std::vector<std::string>{std::string(value)};
    }
  }

  /// The values as bytes, floats or integers. Throw InvalidArgumentError when they are of another type.
  /// @{
  const std::vector<std::string>& texts(Where where = Where::here()) const { return list<1>(where); }
  const std::vector<float>& floats(Where where = Where::here()) const { return list<2>(where); }
  const std::vector<std::int64_t>& integers(Where where = Where::here()) const { return list<3>(where); }
  /// @}

 private:
  template <std::size_t number>
  const std::variant_alternative_t<number, variant>& list(Where where) const {
    const auto* found = std::get_if<number>(this);
    if (!found) refuse(number, where);
    return *found;
  }
  [[noreturn]] TAPESTRY_API void refuse(std::size_t wanted, Where where) const;
};

/// A tf.Example: features by their names.
///
///     tp::data::Example example{{"age", 39}, {"job", "clerk"}, {"scores", std::vector<float>{0.5F, 1.5F}}};
using Example = std::map<std::string, FeatureValues>;

/// A tf.SequenceExample.
struct SequenceExample {
  Example context = {};                                                  ///< features of the whole sequence
  std::map<std::string, std::vector<FeatureValues>> feature_lists = {};  ///< features of each step
};

/// The bytes of TensorFlow's message, for a RecordWriter. Equal examples give equal bytes.
/// @{
TAPESTRY_API std::string encode(const Example& example);
TAPESTRY_API std::string encode(const SequenceExample& example);
/// @}

/// Reads such a message. Throws DataLossError, with the path and the offset of a record of a file, when the bytes are
/// none. An ExampleParser is faster, and makes tensors.
/// @{
TAPESTRY_API Example decode_example(const Record& record, Where where = Where::here());
TAPESTRY_API SequenceExample decode_sequence_example(const Record& record, Where where = Where::here());
/// @}

/// @}

}  // namespace tapestry::data
