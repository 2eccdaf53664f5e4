#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tapestry/data/example.hpp"
#include "tapestry/data/text_ids.hpp"
#include "tapestry/detail/handle.hpp"

namespace tapestry::data {

/// @addtogroup records
/// @{

/// How many values a feature has, and what is done where there are none.
struct FeatureOptions {
  /// The shape of the values of one example, by default of a single value. {-1} allows any number of them.
  Shape shape = {};
  /// Takes the place of each value of an example that lacks the feature; a text for texts. Without it, that is an
  /// error. An example that lacks a feature of varying length has no values.
  std::variant<std::monostate, std::int64_t, double, std::string> missing = {};
  /// For varying lengths: the value behind those of an example that has fewer than others of the batch. Texts get none.
  double pad = 0;
};

/// What an ExampleParser makes of a feature.
class TAPESTRY_API Feature {
 public:
  /// What a feature becomes.
  enum class Kind {
    floats,    ///< float32, from floats
    integers,  ///< int64, from integers
    texts,     ///< strings, from bytes
    hashed,    ///< int64, from bytes: see `hash_bucket`
    words,     ///< int64, from bytes: see Vocabulary
  };

  /// Floats, as float32.
  static Feature floats(FeatureOptions options = {}) { return {Kind::floats, std::move(options)}; }
  /// Integers, as int64.
  static Feature integers(FeatureOptions options = {}) { return {Kind::integers, std::move(options)}; }
  /// Bytes, as strings on the host.
  static Feature texts(FeatureOptions options = {}) { return {Kind::texts, std::move(options)}; }
  /// Bytes, as numbers in [0, buckets), int64. Throws InvalidArgumentError unless `buckets` is positive.
  static Feature hashed(std::int64_t buckets, FeatureOptions options = {}, Where where = Where::here());
  /// Bytes, as the ids of a vocabulary, int64.
  static Feature words(Vocabulary vocabulary, FeatureOptions options = {});

  /// What it becomes.
  Kind kind() const { return kind_; }
  /// Shape, and what is done where values are missing.
  const FeatureOptions& options() const { return options_; }
  /// Whether the number of values varies.
  bool varies() const { return options_.shape.rank() == 1 && options_.shape.sizes()[0] < 0; }
  /// The id of a text, for `hashed` and `words`.
  std::int64_t id(std::string_view text) const {
    return vocabulary_ ? vocabulary_->id(text) : hash_bucket(text, buckets_);
  }

 private:
  Feature(Kind kind, FeatureOptions options) : kind_(kind), options_(std::move(options)) {}

  Kind kind_;
  FeatureOptions options_;
  std::int64_t buckets_ = 1;
  std::optional<Vocabulary> vocabulary_;
};

/// The features of examples as tensors. Those of a batch have an additional first axis, the examples.
struct TAPESTRY_API Features {
  /// By the features' names: of the feature's shape, or, for varying lengths, padded to the longest of the batch.
  StateDict tensors;
  /// For features of varying length: the numbers of values, int64.
  StateDict lengths;
  /// Features that are texts, in row-major order. For varying lengths, those of an example follow those of the one
  /// before.
  std::map<std::string, std::vector<std::string>> texts;

  /// The tensor of a feature. Throws NotFoundError when there is none.
  const Tensor& operator[](const std::string& name) const;
};

/// Makes one batch of several examples, as `Stream::batch` asks for. Throws what `collate` of tensors throws.
TAPESTRY_API Features collate(std::vector<Features> elements, const BatchOptions& options, Where where);

/// Makes tensors of tf.Examples: a function for `Stream::map`, before or, which is faster, behind `batch`.
///
///     tp::data::ExampleParser parser({{"age", tp::data::Feature::floats()},
///                                     {"job", tp::data::Feature::hashed(1000)},
///                                     {"clicks", tp::data::Feature::integers({.shape = {-1}, .pad = -1})}});
///     for (auto& batch : tp::data::records(path).batch(64).map(parser)) train(batch["age"], batch["job"]);
///
/// Features that the parser does not name are passed over. Copies are cheap, and several threads may use one parser.
class TAPESTRY_API ExampleParser {
 public:
  /// Throws InvalidArgumentError for a shape with -1 other than {-1}, and for a value for missing features, or behind
  /// those of a varying length, that is not of the feature's type.
  explicit ExampleParser(std::map<std::string, Feature> features, Where where = Where::here());

  /// The features of one example, or of a batch. Throws DataLossError when the bytes are no tf.Example, and
  /// InvalidArgumentError, with the name of the feature, when it is missing, of another type, or has another number of
  /// values. Both name the path and the offset of a record of a file.
  /// @{
  Features operator()(const Record& record) const;
  Features operator()(const std::vector<Record>& records) const;
  /// @}

 private:
  struct State;
  detail::Handle<const State> state_;
};

/// @}

}  // namespace tapestry::data
