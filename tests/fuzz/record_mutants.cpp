#include "fuzz/mutants.hpp"
#include "fuzz/readers.hpp"
#include "fuzz/wire_damage.hpp"
#include "io/crc32c.hpp"
#include "io/deflate.hpp"
#include "tapestry/data/example.hpp"

namespace tapestry::test {
namespace {

/// What `read_records` parses, and more.
data::Example some_example(Dice& dice) {
  data::Example example;
  const auto count = [&] { return dice.below(dice.one_in(8) ? 100 : 4); };
  if (!dice.one_in(4)) example["x"] = std::vector<float>(dice.one_in(8) ? count() : 2, 0.5F);
  if (!dice.one_in(4)) example["n"] = std::vector<std::int64_t>(count(), dice.number());
  if (!dice.one_in(4)) example["t"] = std::vector<std::string>(dice.one_in(8) ? count() : 1, "text");
  if (!dice.one_in(4)) example["h"] = std::vector<std::string>(count(), std::string(dice.below(90), 'h'));
  if (dice.one_in(4)) example["other"] = data::FeatureValues();
  return example;
}

template <class T>
void append_number(std::string& bytes, T number) {
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> 8 * i);
}

/// A record, whose checksums are right but for one in a hundred or so; so is its length.
void append_record(std::string& file, const std::string& data, Dice& dice) {
  std::string length;
  append_number(length, dice.one_in(128) ? static_cast<std::uint64_t>(dice.number()) : std::uint64_t{data.size()});
  const auto checksum = [&](const std::string& bytes) {
    return io::masked(io::crc32c(bytes)) ^ (dice.one_in(256) ? 1U : 0U);
  };
  file += length;
  append_number(file, checksum(length));
  file += data;
  append_number(file, checksum(data));
}

std::string packed(const std::string& bytes, io::Wrapping wrapping, Dice& dice) {
  std::string file;
  io::Deflater deflater(wrapping,
                        [&](io::Chunk part) { file.append(reinterpret_cast<const char*>(part.data()), part.size()); });
  deflater.add(std::as_bytes(std::span(bytes)));
  deflater.end();
  return dice.one_in(8) ? dice.damaged(file) : file;
}

std::string make_records(Dice& dice) {
  std::string file;
  for (std::size_t i = dice.below(dice.one_in(8) ? 60 : 6); i > 0; --i) {
    std::string data = data::encode(some_example(dice));
    if (dice.one_in(16)) data = damage_example_field(data, dice);
    append_record(file, data, dice);
  }
  if (dice.one_in(64)) file = dice.damaged(file);
  if (dice.one_in(4)) return packed(file, io::Wrapping::gzip, dice);
  return dice.one_in(3) ? packed(file, io::Wrapping::zlib, dice) : file;
}

}  // namespace

Mutants record_mutants() {
  return {.name = "mutate_records", .make = make_records, .use = [](const std::string& bytes, Dice&) {
            return read_records(std::as_bytes(std::span(bytes)));
          }};
}

}  // namespace tapestry::test
