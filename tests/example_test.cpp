// tf.Examples: their bytes, and the tensors that are made of them. tests/golden has some that TensorFlow has written,
// with what TensorFlow makes of them.

#include "tapestry/data/example.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "fuzz/dice.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "refused.hpp"
#include "tapestry/data/example_parser.hpp"
#include "tapestry/ops.hpp"
#include "temporary_folder.hpp"

namespace example_test {

using namespace tapestry;
using namespace tapestry::test;
using data::Example;
using data::ExampleParser;
using data::Feature;
using data::FeatureValues;
using data::Record;

namespace {

const std::filesystem::path golden = GOLDEN_FILES;

std::map<std::string, Tensor> expected_constants() {
  std::map<std::string, Tensor> constants;
  for (const io::NodeDef& node : io::decode(read_text(golden / "examples.expected.pb")).nodes)
    constants.emplace(node.name, std::get<io::TensorDef>(node.attrs.at("value")).value);
  return constants;
}

std::string bytes_of(std::string_view hexadecimal) {
  std::string bytes, digits;
  for (const char c : hexadecimal) {
    if (c != ' ') digits += c;
    if (digits.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
    digits.clear();
  }
  return bytes;
}

Record record(const Example& example) { return {.bytes = data::encode(example)}; }

Example random_example(Dice& dice) {
  Example example;
  for (std::size_t i = dice.below(5); i > 0; --i) {
    std::string name(dice.below(4), ' ');
    for (char& each : name) each = static_cast<char>('a' + dice.below(3));
    const std::size_t count = dice.below(dice.one_in(4) ? 200 : 4);
    FeatureValues values;
    if (dice.one_in(3)) {
      std::vector<float> floats(count);
      for (float& each : floats) each = static_cast<float>(dice.number());
      values = floats;
    } else if (dice.one_in(2)) {
      std::vector<std::int64_t> integers(count);
      for (std::int64_t& each : integers) each = dice.number();
      values = integers;
    } else if (!dice.one_in(8)) {
      std::vector<std::string> texts(count);
      for (std::string& each : texts) each.assign(dice.below(20), static_cast<char>(dice.bits()));
      values = texts;
    }
    example[name] = values;
  }
  return example;
}

}  // namespace

TEST_CASE("tf.Example: TensorFlow's bytes") {
  const Example example{{"n", std::vector<std::int64_t>{3, -1}},
                        {"s", std::vector<std::string>{"ab", ""}},
                        {"x", std::vector<float>{1, 2}}};
  const std::string bytes = bytes_of(
      "0a38 0a14 0a01 6e 120f 1a0d 0a0b 03 ffffffffffffffffff01 0a0d 0a01 73 1208 0a06 0a02 6162 0a00"
      "0a11 0a01 78 120c 120a 0a08 0000803f 00000040");
  CHECK(data::encode(example) == bytes);
  CHECK(data::decode_example({bytes}) == example);
}

TEST_CASE("tf.Example: what is written is read") {
  for (std::uint64_t i = 0; i < 500; ++i) {
    CAPTURE(i);
    Dice dice(5, i);
    const Example example = random_example(dice);
    CHECK(data::decode_example(record(example)) == example);
    data::SequenceExample sequence{.context = example};
    for (std::size_t k = dice.below(3); k > 0; --k)
      for (const auto& [name, values] : random_example(dice)) sequence.feature_lists[name].push_back(values);
    const data::SequenceExample read = data::decode_sequence_example({data::encode(sequence)});
    CHECK(read.context == sequence.context);
    CHECK(read.feature_lists == sequence.feature_lists);
  }
  const Example literals{{"bool", true}, {"int", -3}, {"float", 0.5}, {"text", "word"}};
  CHECK(literals.at("bool").integers() == std::vector<std::int64_t>{1});
  CHECK(literals.at("int").integers() == std::vector<std::int64_t>{-3});
  CHECK(literals.at("float").floats() == std::vector<float>{0.5F});
  CHECK(literals.at("text").texts() == std::vector<std::string>{"word"});
}

TEST_CASE("tf.Example: TensorFlow's files give TensorFlow's tensors") {
  const auto expected = expected_constants();
  const ExampleParser parser(
      {{"x", Feature::floats({.shape = {2}, .missing = -1.5})},
       {"n", Feature::integers({.shape = {-1}, .pad = -7})},
       {"s", Feature::hashed(1000)},
       {"tags", Feature::words(data::Vocabulary({"blue", "red"}, {.unknown_buckets = 5}), {.shape = {-1}})}});
  const std::map<std::string, data::Compression> files{{"examples.tfrecord", data::Compression::none},
                                                       {"examples.tfrecord.gz", data::Compression::gzip},
                                                       {"examples.tfrecord.zlib", data::Compression::zlib}};
  const auto check = [&](const data::Features& found) {
    for (const auto& entry : found.tensors) {
      const auto& name = entry.first;
      const auto& tensor = entry.second;
      CAPTURE(name);
      check_same(tensor, expected.at(name));
    }
    CHECK(found.tensors.size() == 4);
  };
  for (const auto& file : files) {
    const auto& name = file.first;
    const auto& compression = file.second;
    CAPTURE(name);
    const auto stream = data::records(golden / name, {.compression = compression});
    // Parsed as a batch, and one by one.
    check(stream.batch(100).map(parser).collect().at(0));
    check(stream.map(parser)
              .batch(100, {.pad = -7})
              .map([](data::Features features) {
                Tensor& tags = features.tensors.at("tags");
                tags = where(equal(tags, -7), zeros_like(tags), tags);
                return features;
              })
              .collect()
              .at(0));
  }
}

TEST_CASE("hash_bucket: TensorFlow's numbers") {
  const Tensor expected = expected_constants().at("hashes");
  for (std::int64_t size = 0; size < expected.size(); ++size) {
    std::string text(static_cast<std::size_t>(size), '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 % 256);
    CHECK(data::hash_bucket(text, INT64_MAX) == expected(size).item<std::int64_t>());
  }
  TAPESTRY_REFUSED(InvalidArgumentError, "0 buckets", data::hash_bucket("x", 0));
  TAPESTRY_REFUSED(InvalidArgumentError, "-3 buckets", Feature::hashed(-3));
}

TEST_CASE("interleave: TensorFlow's order") {
  using data::Stream;
  int count = 0;
  for (const auto& entry : expected_constants()) {
    const auto& name = entry.first;
    const auto& order = entry.second;
    std::int64_t cycle = 0, block = 0;
    if (std::sscanf(name.c_str(), "interleave_%ld_%ld", &cycle, &block) != 2) continue;
    CAPTURE(name);
    ++count;
    const auto range_of = [](std::int64_t x) {
      std::vector<std::int64_t> numbers;
      for (std::int64_t i = 0; i < x * 5 % 7; ++i) numbers.push_back(10 * x + i);
      return Stream<std::int64_t>(numbers);
    };
    Stream<std::int64_t> stream({0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(stream.interleave(range_of, {.cycle = cycle, .block = block}).collect() == order.to_vector<std::int64_t>());
  }
  CHECK(count == 5);
}

TEST_CASE("Vocabulary: words and ids") {
  const data::Vocabulary known({"a", "b"}), more({"a", "b"}, {.unknown_buckets = 3});
  CHECK(known.id("b") == 1);
  CHECK(known.id("c") == -1);
  CHECK(known.size() == 2);
  CHECK(more.size() == 5);
  CHECK(more.id("c") == 2 + data::hash_bucket("c", 3));
  CHECK(more.word(1) == "b");
  TAPESTRY_REFUSED(OutOfRangeError, "none of id 2", more.word(2));
  TAPESTRY_REFUSED(InvalidArgumentError, "'a' occurs twice, as number 0 and 2", data::Vocabulary({"a", "b", "a"}));
  TAPESTRY_REFUSED(InvalidArgumentError, "needs words", data::Vocabulary({}));
  const TemporaryFolder folder;
  folder.write("words", {'x', '\n', 'y', '\n'});
  CHECK(data::Vocabulary::read(folder / "words").id("y") == 1);
}

TEST_CASE("ExampleParser: texts, lengths and missing features") {
  const ExampleParser parser({{"t", Feature::texts()},
                              {"u", Feature::texts({.shape = {-1}})},
                              {"v", Feature::texts({.shape = {2}, .missing = "-"})},
                              {"w", Feature::words(data::Vocabulary({"-", "x"}), {.shape = {2}, .missing = "-"})},
                              {"n", Feature::integers({.missing = 9})},
                              {"m", Feature::integers({.shape = {2, 2}})},
                              {"f", Feature::floats({.missing = 3})},
                              {"g", Feature::floats({.shape = {-1}, .pad = 0.5})}});
  const std::vector<std::int64_t> four{1, 2, 3, 4};
  using Texts = std::vector<std::string>;
  const std::vector<Record> records{
      record({{"t", "one"},
              {"u", Texts{"a", "b"}},
              {"v", Texts{"x", "y"}},
              {"w", Texts{"x", "z"}},
              {"n", 1},
              {"m", four},
              {"f", 1.5}}),
      record({{"t", "two"}, {"m", four}, {"g", std::vector<float>{7, 8}}, {"n", FeatureValues()}}),
      record({{"t", "three"}, {"u", "c"}, {"m", four}, {"g", 6.0}})};
  const data::Features batch = parser(records);
  CHECK(batch.texts.at("t") == Texts{"one", "two", "three"});
  CHECK(batch.texts.at("u") == Texts{"a", "b", "c"});
  CHECK(batch.texts.at("v") == Texts{"x", "y", "-", "-", "-", "-"});
  check_same(batch["w"], tensor<std::int64_t>({{1, -1}, {0, 0}, {0, 0}}));
  check_same(batch["n"], tensor<std::int64_t>({1, 9, 9}));
  CHECK(batch["m"].shape() == Shape{3, 2, 2});
  check_same(batch["f"], tensor({1.5, 3.0, 3.0}));
  check_same(batch["g"], tensor({{0.5, 0.5}, {7.0, 8.0}, {6.0, 0.5}}));
  check_same(batch.lengths.at("g"), tensor<std::int64_t>({0, 2, 1}));
  check_same(batch.lengths.at("u"), tensor<std::int64_t>({2, 0, 1}));
  CHECK(message_of<NotFoundError>([&] { batch["t"]; }).find("whose values are texts") != std::string::npos);

  // No examples at all.
  const data::Features empty = parser(std::vector<Record>{});
  CHECK(empty["m"].shape() == Shape{0, 2, 2});
  CHECK(empty["g"].shape() == Shape{0, 0});
  // One example has no axis of the batch.
  const data::Features one = parser(records[1]);
  CHECK(one["n"].shape() == Shape{});
  check_same(one["g"], tensor({7.0, 8.0}));
  CHECK(one.lengths.at("g").item<int>() == 2);

  // Examples one by one and batched are the same as a batch.
  std::vector<data::Features> apart;
  for (const Record& each : records) apart.push_back(parser(each));
  const data::Features joined = collate(apart, {.pad = 0.5}, Where::here());
  CHECK(joined.texts == batch.texts);
  for (const auto& [name, tensor] : batch.tensors) check_same(joined[name], tensor);
  for (const auto& [name, tensor] : batch.lengths) check_same(joined.lengths.at(name), tensor);
}

TEST_CASE("ExampleParser: what does not fit names the record and the feature") {
  const TemporaryFolder folder;
  const std::string path = folder / "examples";
  {
    data::RecordWriter writer(path);
    writer.write(data::encode({{"x", 1.0}}));
    writer.write(data::encode({{"x", std::vector<float>{1, 2}}, {"n", 1}, {"s", "text"}}));
    writer.write("\x0a\x05\x0a");
  }
  const auto parse = [&](const Feature& feature, const std::string& name, std::int64_t skip = 1) {
    const ExampleParser parser({{name, feature}});
    return message_of<Error>([&] { data::records(path).skip(skip).batch(1).map(parser).collect(); });
  };
  const std::string second = path + ": the record at byte 33: the feature ";
  CHECK(parse(Feature::floats(), "x") == second + "'x' has 2 values, which do not fit the shape []");
  CHECK(parse(Feature::integers(), "x") == second + "'x' has floats, not integers");
  CHECK(parse(Feature::floats(), "n") == second + "'n' has integers, not floats");
  CHECK(parse(Feature::hashed(3), "n") == second + "'n' has integers, not bytes");
  CHECK(parse(Feature::floats({.shape = {-1}}), "s") == second + "'s' has bytes, not floats");
  CHECK(parse(Feature::floats(), "y") == second + "'y' is missing");
  CHECK(parse(Feature::texts({.missing = "-"}), "y", 2).find(path + ": the record at byte ") == 0);
  CHECK(parse(Feature::texts({.missing = "-"}), "y", 2).find(" is no tf.Example, or damaged") != std::string::npos);
  CHECK(message_of<DataLossError>([&] { data::decode_example({"\x0a\x05\x0a"}); }).find("A record is no tf.Example") ==
        0);

  using Features = std::map<std::string, Feature>;
  TAPESTRY_REFUSED(InvalidArgumentError, "The shape [2,?] of the feature 'x'",
                   ExampleParser(Features{{"x", Feature::floats({.shape = {2, -1}})}}));
  for (const Feature& bad : {Feature::floats({.missing = "-"}), Feature::integers({.missing = 0.5}),
                             Feature::texts({.missing = 1}), Feature::hashed(2, {.missing = 1.5})})
    TAPESTRY_REFUSED(InvalidArgumentError, "`missing` of the feature 'x'", ExampleParser(Features{{"x", bad}}));
  for (const double pad : {0.5, not_a_number, infinity, 1e30})
    for (const Feature& bad :
         {Feature::integers({.shape = {-1}, .pad = pad}), Feature::hashed(2, {.shape = {-1}, .pad = pad})})
      TAPESTRY_REFUSED(InvalidArgumentError, "`pad` of the feature 'x'", ExampleParser(Features{{"x", bad}}));
  const data::FeatureValues one(1);
  TAPESTRY_REFUSED(InvalidArgumentError, "The feature has integers, not floats", one.floats());
  TAPESTRY_REFUSED(InvalidArgumentError, "The feature has integers, not bytes", one.texts());
  TAPESTRY_REFUSED(InvalidArgumentError, "The feature has no values, not integers", data::FeatureValues().integers());
}

}  // namespace example_test
