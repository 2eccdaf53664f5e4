#include "tapestry/data/example_parser.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "io/records/example.hpp"

namespace tapestry::data {

Feature Feature::hashed(std::int64_t buckets, FeatureOptions options, Where where) {
  hash_bucket("", buckets, where);  // which checks them
  Feature feature(Kind::hashed, std::move(options));
  feature.buckets_ = buckets;
  return feature;
}

Feature Feature::words(Vocabulary vocabulary, FeatureOptions options) {
  Feature feature(Kind::words, std::move(options));
  feature.vocabulary_ = std::move(vocabulary);
  return feature;
}

const Tensor& Features::operator[](const std::string& name) const {
  const auto found = tensors.find(name);
  if (found != tensors.end()) return found->second;
  throw NotFoundError(detail::join("There is no tensor of the feature '", name, "'",
                                   texts.count(name) == 1 ? ", whose values are texts" : ""));
}

Features collate(std::vector<Features> elements, const BatchOptions& options, Where where) {
  std::vector<StateDict> tensors, lengths;
  Features batch;
  for (Features& each : elements) {
    tensors.push_back(std::move(each.tensors));
    lengths.push_back(std::move(each.lengths));
    for (auto& [name, texts] : each.texts) std::move(texts.begin(), texts.end(), std::back_inserter(batch.texts[name]));
  }
  batch.tensors = collate(std::move(tensors), options, where);
  batch.lengths = collate(std::move(lengths), options, where);
  return batch;
}

namespace {

using io::FeatureList;

FeatureList list_of(Feature::Kind kind) {
  if (kind == Feature::Kind::floats) return FeatureList::floats;
  return kind == Feature::Kind::integers ? FeatureList::integers : FeatureList::bytes;
}

std::string_view name_of(FeatureList list) {
  constexpr std::string_view names[] = {"no values", "bytes", "floats", "integers"};
  return names[static_cast<std::size_t>(list)];
}

/// Rows of different lengths as a tensor, with `pad` behind the shorter ones.
template <class T>
Tensor padded_rows(const std::vector<T>& values, const std::vector<std::int64_t>& lengths, double pad) {
  const std::int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  Tensor made = detail::make_tensor(dtype_of<T>(), {static_cast<std::int64_t>(lengths.size()), longest}, cpu());
  T* to = detail::mutable_data<T>(made);
  const T* from = values.data();
  for (const std::int64_t length : lengths) {
    to = std::copy_n(from, length, to);
    from += length;
    to = std::fill_n(to, longest - length, static_cast<T>(pad));
  }
  return made;
}

}  // namespace

struct ExampleParser::State {
  struct Named {
    std::string name;
    Feature feature;
    std::int64_t size;  ///< how many values an example has; -1 if that varies

    Feature::Kind kind() const { return feature.kind(); }
  };

  int find(std::string_view key) const {
    const auto found = std::lower_bound(features.begin(), features.end(), key,
                                        [](const Named& each, std::string_view name) { return each.name < name; });
    return found != features.end() && found->name == key ? static_cast<int>(found - features.begin()) : -1;
  }

  std::vector<Named> features;  ///< in the order of their names
  Where where;
};

namespace {

/// The values of a feature, of all examples that have been parsed.
struct Column {
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
  std::vector<std::string> texts;
  std::vector<std::int64_t> lengths;  ///< of each example, if they vary

  std::size_t size(Feature::Kind kind) const {
    if (kind == Feature::Kind::floats) return floats.size();
    return kind == Feature::Kind::texts ? texts.size() : integers.size();
  }

  /// Appends what a message Feature holds, which is of the right kind.
  void append(const Feature& feature, const io::WireReader& list) {
    switch (feature.kind()) {
      case Feature::Kind::floats:
        io::append_floats(list, floats);
        break;
      case Feature::Kind::integers:
        io::append_integers(list, integers);
        break;
      case Feature::Kind::texts:
        io::visit_texts(list, [&](std::string_view text) { texts.emplace_back(text); });
        break;
      default:
        io::visit_texts(list, [&](std::string_view text) { integers.push_back(feature.id(text)); });
    }
  }

  void append_missing(const Feature& feature, std::int64_t count) {
    const auto& missing = feature.options().missing;
    const auto number = static_cast<std::size_t>(count);
    switch (feature.kind()) {
      case Feature::Kind::floats:
        floats.insert(floats.end(), number,
                      std::holds_alternative<double>(missing) ? static_cast<float>(std::get<double>(missing))
                                                              : static_cast<float>(std::get<std::int64_t>(missing)));
        break;
      case Feature::Kind::integers:
        integers.insert(integers.end(), number, std::get<std::int64_t>(missing));
        break;
      case Feature::Kind::texts:
        texts.insert(texts.end(), number, std::get<std::string>(missing));
        break;
      default:
        integers.insert(integers.end(), number, feature.id(std::get<std::string>(missing)));
    }
  }
};

/// Finds the messages of the features that a parser names. Records of one writer have their keys in the same order, so
/// the column of the entry with the same number in the record before is tried first.
class FeatureFinder {
 public:
  explicit FeatureFinder(std::size_t columns) : found_(columns) {}

  template <class State>
  void read(const State& state, std::string_view example) {
    std::fill(found_.begin(), found_.end(), std::string_view());
    std::size_t number = 0;
    for (io::WireReader reader(example.data(), example.size()); reader.next();) {
      if (reader.tag() != 1) {
        reader.skip();
        continue;
      }
      io::visit_features(reader.get_message(), [&](std::string_view key, std::string_view feature) {
        const int column = column_of(state, number++, key);
        if (column >= 0) found_[static_cast<std::size_t>(column)] = feature;
      });
    }
  }
  /// The message of a column; empty when there is none.
  std::string_view operator[](std::size_t column) const { return found_[column]; }

 private:
  struct Guess {
    std::string key;
    int column = -1;
  };

  template <class State>
  int column_of(const State& state, std::size_t number, std::string_view key) {
    constexpr std::size_t most_guesses = 1024;
    if (number >= most_guesses) return state.find(key);
    if (number >= guesses_.size()) guesses_.resize(number + 1);
    Guess& guess = guesses_[number];
    if (guess.key != key || key.empty()) guess = {std::string(key), state.find(key)};
    return guess.column;
  }

  std::vector<std::string_view> found_;
  std::vector<Guess> guesses_;  ///< by the number of the entry
};

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the features are moved into the state
ExampleParser::ExampleParser(std::map<std::string, Feature> features, Where where) {
  auto state = std::make_shared<State>(State{{}, where});
  for (auto& [name, feature] : features) {
    const FeatureOptions& options = feature.options();
    std::int64_t size = -1;
    if (!feature.varies()) {
      if (!options.shape.is_known())
        throw InvalidArgumentError(detail::join("The shape ", options.shape, " of the feature '", name,
                                                "' must be known, or {-1} for any number of values"),
                                   where);
      size = options.shape.size();
    }
    const bool is_number = std::holds_alternative<std::int64_t>(options.missing),
               is_float = std::holds_alternative<double>(options.missing),
               is_text = std::holds_alternative<std::string>(options.missing);
    const FeatureList list = list_of(feature.kind());
    if ((list == FeatureList::bytes && (is_number || is_float)) ||
        (list == FeatureList::integers && (is_float || is_text)) || (list == FeatureList::floats && is_text))
      throw InvalidArgumentError(
          detail::join("`missing` of the feature '", name, "', which has ", name_of(list), ", is of another type"),
          where);
    const bool is_whole = options.pad == std::floor(options.pad) && std::abs(options.pad) < 0x1p63;
    if (feature.varies() && list != FeatureList::floats && feature.kind() != Feature::Kind::texts && !is_whole)
      throw InvalidArgumentError(
          detail::join("`pad` of the feature '", name, "', which becomes int64, is ", options.pad), where);
    state->features.push_back({name, std::move(feature), size});
  }
  state_ = state;
}

namespace {

/// Appends the values of an example to the columns.
template <class State>
void append_row(const State& state, const Record& record, FeatureFinder& finder, std::vector<Column>& columns) {
  finder.read(state, record.bytes);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto& named = state.features[i];
    const auto refuse = [&](const auto&... parts) {
      throw InvalidArgumentError(detail::join(io::place_of(record), ": the feature '", named.name, "' ", parts...),
                                 state.where);
    };
    Column& column = columns[i];
    const FeatureList expected = list_of(named.kind());
    const std::size_t before = column.size(named.kind());
    const FeatureList found = io::visit_lists(finder[i], [&](FeatureList list, const io::WireReader& values) {
      if (list == expected) column.append(named.feature, values);
    });
    const auto count = static_cast<std::int64_t>(column.size(named.kind()) - before);
    if (found != FeatureList::none && found != expected) refuse("has ", name_of(found), ", not ", name_of(expected));
    if (named.size < 0) {
      column.lengths.push_back(count);
    } else if (found == FeatureList::none) {
      if (std::holds_alternative<std::monostate>(named.feature.options().missing)) refuse("is missing");
      column.append_missing(named.feature, named.size);
    } else if (count != named.size) {
      refuse("has ", count, " values, which do not fit the shape ", named.feature.options().shape);
    }
  }
}

template <class T>
Tensor tensor_of(const Column& column, const std::vector<T>& values, const Feature& feature, std::int64_t rows) {
  if (feature.varies()) return padded_rows(values, column.lengths, feature.options().pad);
  std::vector<std::int64_t> sizes{rows};
  for (const std::int64_t size : feature.options().shape.sizes()) sizes.push_back(size);
  return tensor(values, Shape(sizes));
}

template <class State>
Features parse(const State& state, std::span<const Record> records) {
  const ExecuteNow now;
  std::vector<Column> columns(state.features.size());
  FeatureFinder finder(columns.size());
  for (const Record& record : records) {
    try {
      append_row(state, record, finder, columns);
    } catch (const protozero::exception&) {
      throw DataLossError(detail::join(io::place_of(record), " is no tf.Example, or damaged"), state.where);
    }
  }
  Features made;
  const auto rows = static_cast<std::int64_t>(records.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto& [name, feature, size] = state.features[i];
    Column& column = columns[i];
    if (feature.varies()) made.lengths.emplace(name, tensor(column.lengths, Shape{rows}));
    if (feature.kind() == Feature::Kind::texts) {
      made.texts.emplace(name, std::move(column.texts));
    } else if (feature.kind() == Feature::Kind::floats) {
      made.tensors.emplace(name, tensor_of(column, column.floats, feature, rows));
    } else {
      made.tensors.emplace(name, tensor_of(column, column.integers, feature, rows));
    }
  }
  return made;
}

}  // namespace

Features ExampleParser::operator()(const std::vector<Record>& records) const { return parse(*state_, records); }

Features ExampleParser::operator()(const Record& record) const {
  Features features = parse(*state_, {&record, 1});
  for (StateDict* each : {&features.tensors, &features.lengths})
    for (auto& [name, tensor] : *each) tensor = tensor(0);
  return features;
}

}  // namespace tapestry::data
