#include "interop/judgement.hpp"

namespace tapestry::test {
namespace {

data::Example example_of(std::int64_t i) {
  const auto count = static_cast<std::size_t>(i % 4);
  data::Example example{
      {"x", std::vector<float>{static_cast<float>(i) / 4, -static_cast<float>(i)}},
      {"n", std::vector<std::int64_t>(count, i % 2 == 0 ? i << 40 : -i)},
      {"s", std::string(static_cast<std::size_t>(3 * i), static_cast<char>(i))},
      {"words", std::vector<std::string>(count, i % 3 == 0 ? "red" : "other")},
  };
  if (i % 5 == 3) example.erase("x");
  if (i % 5 == 4) example["x"] = data::FeatureValues();
  return example;
}

/// Writes "<title>/examples-SSSSS-of-NNNNN", and what must be read from them.
void write(const std::filesystem::path& folder, const std::string& title, data::Compression compression,
           std::int64_t shards, std::int64_t count) {
  std::filesystem::create_directories(folder / title);
  const std::string prefix = folder / title / "examples";
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    data::RecordWriter writer(data::shard_name(prefix, shard, shards), compression);
    for (std::int64_t i = shard; i < count; i += shards) writer.write(data::encode(example_of(i)));
    writer.close();
  }
  using data::Feature;
  const data::ExampleParser parser(
      {{"x", Feature::floats({.shape = {2}, .missing = -1.5})},
       {"n", Feature::integers({.shape = {-1}, .pad = -7})},
       {"s", Feature::hashed(1000)},
       {"words", Feature::words(data::Vocabulary({"", "red"}, {.unknown_buckets = 5}), {.shape = {-1}})}});
  auto batches = data::records(prefix + "-*", {.compression = compression}).batch(count).map(parser);
  Judgement judgement(folder / (title + ".judge.pb"));
  judgement.add("title", title);
  for (const data::Features& batch : batches) {
    for (const auto& [name, tensor] : batch.tensors) judgement.fetch(name, tensor);
    for (const auto& [name, tensor] : batch.lengths) judgement.fetch(name + " lengths", tensor);
  }
  judgement.save();
}

}  // namespace

void write_records(const std::filesystem::path& folder) {
  write(folder, "plain", data::Compression::none, 1, 50);
  write(folder, "gzip", data::Compression::gzip, 1, 50);
  write(folder, "zlib", data::Compression::zlib, 1, 50);
  write(folder, "shards", data::Compression::none, 7, 50);
  write(folder, "many", data::Compression::gzip, 2, 20'000);
}

}  // namespace tapestry::test
