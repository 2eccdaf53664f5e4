#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/detail/handle.hpp"
#include "tapestry/error.hpp"

namespace tapestry::data {

/// @addtogroup records
/// @{

/// A number of 64 bits for a text: FarmHash's Fingerprint64, the same on every machine and in TensorFlow.
TAPESTRY_API std::uint64_t fingerprint(std::string_view text);
/// A number in [0, buckets) for a text, by its fingerprint: TensorFlow's `tf.strings.to_hash_bucket_fast`. Throws
/// InvalidArgumentError unless `buckets` is positive.
TAPESTRY_API std::int64_t hash_bucket(std::string_view text, std::int64_t buckets, Where where = Where::here());

/// What a Vocabulary makes of words that it lacks.
struct VocabularyOptions {
  /// The number of ids for unknown words, which follow those of the words and are chosen by the fingerprint, as in
  /// TensorFlow's StaticVocabularyTable; 0 gives all of them the id -1.
  std::int64_t unknown_buckets = 0;
};

/// Numbers words: 0, 1, ... in the order of a list. A copy is cheap.
class TAPESTRY_API Vocabulary {
 public:
  /// Throws InvalidArgumentError for an empty list, a word that occurs twice, and negative `unknown_buckets`.
  explicit Vocabulary(std::vector<std::string> words, const VocabularyOptions& options = {},
                      Where where = Where::here());
  /// Reads the words from the lines of a text file. Throws what `read_lines` and the constructor throw.
  static Vocabulary read(const std::string& path, const VocabularyOptions& options = {}, Where where = Where::here());

  /// The id of a word.
  std::int64_t id(std::string_view word) const;
  /// The word of an id. Throws OutOfRangeError for an id that is no word's.
  const std::string& word(std::int64_t id, Where where = Where::here()) const;
  /// The number of ids: of the words, and of the buckets for unknown ones.
  std::int64_t size() const;

 private:
  struct State;
  detail::Handle<const State> state_;
};

/// @}

}  // namespace tapestry::data
