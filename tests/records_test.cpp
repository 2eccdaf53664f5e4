#include "tapestry/data/records.hpp"

#include <cstring>
#include <fstream>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "fuzz/dice.hpp"
#include "io/crc32c.hpp"
#include "refused.hpp"
#include "tapestry/data/csv.hpp"
#include "temporary_folder.hpp"

namespace records_test {

using namespace tapestry;
using namespace tapestry::test;
using data::Compression;
using data::Record;

namespace {

constexpr Compression compressions[] = {Compression::none, Compression::gzip, Compression::zlib};

/// Records of many sizes: empty ones, and ones above the reader's and the writer's blocks.
std::vector<std::string> some_records() {
  std::vector<std::string> records;
  Dice dice(1, 2);
  for (const std::size_t size : {0, 1, 11, 12, 13, 1000, 0, 70'000, 262'144, 5, 700'000, 3}) {
    records.emplace_back(size, '\0');
    for (char& each : records.back()) each = static_cast<char>(dice.bits());
  }
  return records;
}

std::string write(const std::filesystem::path& path, const std::vector<std::string>& records,
                  Compression compression = Compression::none) {
  data::RecordWriter writer(path, compression);
  for (const std::string& each : records) writer.write(each);
  writer.close();
  return path;
}

std::vector<std::string> bytes_of(data::Stream<Record> stream) {
  std::vector<std::string> all;
  for (Record& each : stream) all.push_back(each.bytes);
  return all;
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

}  // namespace

TEST_CASE("records: what is written is read") {
  const TemporaryFolder folder;
  const auto records = some_records();
  for (const Compression compression : compressions) {
    const std::string path = write(folder / "records", records, compression);
    auto stream = data::records(path, {.compression = compression});
    CHECK(bytes_of(stream) == records);
    std::int64_t offset = 0;
    for (Record& each : stream) {
      CHECK(*each.path == path);
      CHECK(each.offset == offset);
      offset += static_cast<std::int64_t>(each.bytes.size()) + 16;
    }
    CHECK(bytes_of(data::records(write(folder / "none", {}, compression), {.compression = compression})).empty());
  }
  CHECK(hexadecimal(read_text(write(folder / "hello", {"hello"}))) == "0500000000000000eab2043e68656c6c6fbb1f1c19");
  // gzip files one behind the other are one.
  std::ofstream(folder / "both") << read_text(write(folder / "a", {"a"}, Compression::gzip))
                                 << read_text(write(folder / "b", {"b"}, Compression::gzip));
  CHECK(bytes_of(data::records((folder / "both").string(), {.compression = Compression::gzip})) ==
        std::vector<std::string>{"a", "b"});
}

TEST_CASE("records: a set of files that lacks one") {
  const TemporaryFolder folder;
  for (const int i : {0, 2, 3}) write(folder / data::shard_name("train", i, 4), {std::to_string(i)});
  for (const int i : {0, 1}) write(folder / (data::shard_name("test", i, 2) + ".tfrecord"), {std::to_string(i)});
  for (const char* name : {"one-of-two", "part-3-of-4", "part-00009-of-00004", "part-00001-of-", "-of-00002"})
    write(folder / name, {name});
  const std::string lacks = detail::join("There is ", (folder / "train-00000-of-00004").string(), ", but no ",
                                         (folder / "train-00001-of-00004").string());
  TAPESTRY_REFUSED(NotFoundError, lacks, data::records(folder / "train-*"));
  TAPESTRY_REFUSED(NotFoundError, lacks, data::records(folder / "*"));
  // Files that exist may be left out, and files that are named may be those of a set that is elsewhere.
  write(folder / data::shard_name("train", 1, 4), {"1"});
  CHECK(bytes_of(data::records(folder / "train-0000[03]*")) == std::vector<std::string>{"0", "3"});
  std::filesystem::remove(folder / "train-00003-of-00004");
  CHECK(bytes_of(data::records(folder / "train-00001-of-00004")) == std::vector<std::string>{"1"});
  CHECK(bytes_of(data::records(folder / "test-*")) == std::vector<std::string>{"0", "1"});
  CHECK(bytes_of(data::records(folder / "*-of-*[!34]")).size() == 4);
  std::filesystem::remove(folder / "test-00000-of-00002.tfrecord");
  TAPESTRY_REFUSED(NotFoundError, "test-00000-of-00002.tfrecord", data::records(folder / "test-*"));
}

TEST_CASE("records: patterns") {
  const TemporaryFolder folder;
  for (const int i : {2, 0, 1}) write(folder / data::shard_name("train", i, 3), {std::to_string(i)});
  write(folder / "with *", {"star"});
  write(folder / "with more", {"more"});
  using Texts = std::vector<std::string>;
  const auto found = [&](const std::string& pattern) { return bytes_of(data::records(folder / pattern)); };
  CHECK(found("train-*-of-00003") == Texts{"0", "1", "2"});
  CHECK(found("train-0000[02]*") == Texts{"0", "2"});
  CHECK(found("train-0000?-of-00003") == Texts{"0", "1", "2"});
  CHECK(found("train-00001-of-00003") == Texts{"1"});
  CHECK(found("with *") == Texts{"star"});
  // Several: as strings, paths, literals, and a list of them.
  const Texts expected{"more", "0", "1", "2"};
  const std::string more = folder / "with m*", trains = folder / "train*";
  CHECK(bytes_of(data::records({folder / "with m*", folder / "train*"})) == expected);
  CHECK(bytes_of(data::records({more, trains})) == expected);
  const char *const more_text = more.c_str(), *const trains_text = trains.c_str();
  CHECK(bytes_of(data::records({more_text, trains_text})) == expected);
  CHECK(bytes_of(data::records(std::vector{more, trains})) == expected);
  CHECK(bytes_of(data::records({more})) == Texts{"more"});
  CHECK(bytes_of(data::records(more.c_str())) == Texts{"more"});
  CHECK(data::glob(folder / "train*")[2] == (folder / "train-00002-of-00003").string());
  TAPESTRY_REFUSED(NotFoundError, "No file matches ", data::records(folder / "nothing-*"));
  TAPESTRY_REFUSED(InvalidArgumentError, "no shard 3 of 3", data::shard_name("x", 3, 3));
}

TEST_CASE("records: a file gets its name when it is complete") {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  {
    data::RecordWriter writer(path);
    writer.write("one");
    CHECK(!std::filesystem::exists(path));
    // A pattern does not match what is not complete, or was left by a program that was killed.
    TAPESTRY_REFUSED(NotFoundError, "No file matches", data::glob(folder / "*"));
    data::RecordWriter moved = std::move(writer);
    moved.close();
    CHECK(std::filesystem::exists(path));
    TAPESTRY_REFUSED(FailedPreconditionError, "closed", moved.write("two"));
    moved.close();
  }
  CHECK(bytes_of(data::records(path)) == std::vector<std::string>{"one"});
  try {
    data::RecordWriter writer(path);
    writer.write("half");
    throw std::runtime_error("stop");
  } catch (const std::runtime_error&) {
  }
  CHECK(bytes_of(data::records(path)) == std::vector<std::string>{"one"});
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  { data::RecordWriter(path).write("destroyed"); }
  CHECK(bytes_of(data::records(path)) == std::vector<std::string>{"destroyed"});
  TAPESTRY_REFUSED(NotFoundError, "Cannot write", data::RecordWriter(folder / "no folder/file"));
  TAPESTRY_REFUSED(NotFoundError, "Cannot write : No such file", data::RecordWriter(""));
  TAPESTRY_REFUSED(FailedPreconditionError, "Is a directory", data::RecordWriter(folder.path()));
  TAPESTRY_REFUSED(InvalidArgumentError, "No path holds the character 0",
                   data::RecordWriter((folder / "a").string() + std::string("\0b", 2)));
  TAPESTRY_REFUSED(InvalidArgumentError, "No path holds the character 0",
                   data::read_text((folder / "a").string() + std::string("\0b", 2)));
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
}

TEST_CASE("records: damage names the file and the offset") {
  const TemporaryFolder folder;
  const std::vector<std::string> records{"first", "second", "third"};
  const std::string sound = read_text(write(folder / "sound", records));
  const std::size_t begins[] = {0, 21, 43};
  const auto path = folder / "damaged";
  // Every byte, changed, and every length of the file.
  for (std::size_t at = 0; at < sound.size(); ++at) {
    CAPTURE(at);
    const std::size_t record = at < 21 ? 0 : at < 43 ? 1 : 2, in_record = at - begins[record];
    const std::string place = " of the record at byte " + std::to_string(begins[record]);
    std::string bytes = sound;
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    std::ofstream(path, std::ios::binary) << bytes;
    auto stream = data::records(path);
    std::vector<std::string> before;
    const auto read = [&] {
      for (Record& each : stream) before.push_back(each.bytes);
    };
    const Error error = caught<DataLossError>(read);
    CHECK(error.message().find(path.string() + " is damaged: a checksum contradicts the " +
                               (in_record < 12 ? "length" : "data") + place) == 0);
    CHECK(before == std::vector<std::string>(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(record)));

    // On request, it is counted and passed over: the record, or the rest of the file.
    int count = 0;
    auto tolerant = data::records({path, folder / "sound"}, {.on_damage = [&](const DataLossError&) { ++count; }});
    std::vector<std::string> expected = before;
    if (in_record >= 12)
      expected.insert(expected.end(), records.begin() + static_cast<std::ptrdiff_t>(record) + 1, records.end());
    expected.insert(expected.end(), records.begin(), records.end());
    CHECK(bytes_of(tolerant) == expected);
    CHECK(count == 1);
    // A restored position counts the same records.
    const auto cursor = tolerant.open();
    CHECK(cursor->skip(100) == static_cast<std::int64_t>(expected.size()));

    std::ofstream(path, std::ios::binary) << sound.substr(0, at);
    if (at == begins[record]) {
      CHECK(bytes_of(data::records(path)) == before);
    } else {
      CHECK(message_of<DataLossError>([&] { bytes_of(data::records(path)); }).find("it lacks the end" + place) !=
            std::string::npos);
    }
  }
}

TEST_CASE("records: damage of packed files") {
  const TemporaryFolder folder;
  const auto records = some_records();
  for (const Compression compression : {Compression::gzip, Compression::zlib}) {
    const std::string sound = read_text(write(folder / "sound", records, compression));
    const auto path = folder / "damaged";
    for (const std::size_t size : {std::size_t{1}, sound.size() / 2, sound.size() - 1}) {
      std::ofstream(path, std::ios::binary) << sound.substr(0, size);
      const std::string message =
          message_of<DataLossError>([&] { bytes_of(data::records(path, {.compression = compression})); });
      CHECK(message.find(path.string() + " is damaged: its packed data stop early, in or behind the record at byte ") ==
            0);
    }
    Dice dice(3, 4);
    for (int i = 0; i < 200; ++i) {
      std::ofstream(path, std::ios::binary) << dice.damaged(sound);
      int count = 0;
      auto tolerant = data::records(path, {.compression = compression, .on_damage = [&](const DataLossError& error) {
                                             CHECK(error.message().find(path.string()) == 0);
                                             ++count;
                                           }});
      const auto found = bytes_of(tolerant);
      CHECK(found.size() <= records.size());
      if (count == 0) CHECK(found == records);
    }
    // A file of another compression than said.
    for (const Compression other : compressions)
      if (other != compression)
        CHECK_THROWS_AS(bytes_of(data::records(folder / "sound", {.compression = other})), DataLossError);
  }
  CHECK(message_of([&] { bytes_of(data::records(folder / "sound")); }).find("of this compression?") !=
        std::string::npos);
}

TEST_CASE("records: all records before the damage of a packed file come first") {
  const TemporaryFolder folder;
  Dice dice(5, 6);
  std::vector<std::string> records(3000, std::string(100, '\0'));  // more than the reader's block
  for (std::string& record : records)
    for (char& each : record) each = static_cast<char>(dice.bits());
  const auto path = folder / "damaged";
  for (const Compression compression : {Compression::gzip, Compression::zlib}) {
    const std::string sound = read_text(write(folder / "sound", records, compression));
    // Reads the file, in a strict loop and with on_damage, and returns how many records came before the damage.
    const auto sound_records = [&](const std::string& bytes) {
      std::ofstream(path, std::ios::binary) << bytes;
      auto strict = data::records(path, {.compression = compression});
      std::vector<std::string> before;
      const auto read = [&] {
        for (Record& each : strict) before.push_back(each.bytes);
      };
      const std::string message = message_of<DataLossError>(read);
      CHECK(message.find(path.string() + " is damaged: ") == 0);
      CHECK(message.find(", in or behind the record at byte " + std::to_string(116 * before.size())) !=
            std::string::npos);
      CHECK(std::equal(before.begin(), before.end(), records.begin()));
      int count = 0;
      auto tolerant = data::records({path, folder / "sound"},
                                    {.compression = compression, .on_damage = [&](const DataLossError&) { ++count; }});
      const auto found = bytes_of(tolerant);
      CHECK(count == 1);
      CHECK(found.size() == before.size() + records.size());
      CHECK(tolerant.open()->skip(10'000) == static_cast<std::int64_t>(found.size()));
      return before.size();
    };
    // The checksum, behind which gzip has the size, is cut off or wrong, or something follows.
    for (std::size_t cut = 1; cut <= (compression == Compression::gzip ? 8U : 4U); ++cut) {
      CAPTURE(cut);
      CHECK(sound_records(sound.substr(0, sound.size() - cut)) == records.size());
      std::string wrong = sound;
      wrong[sound.size() - cut] = static_cast<char>(wrong[sound.size() - cut] ^ 1);
      CHECK(sound_records(wrong) == records.size());
    }
    CHECK(sound_records(sound + "xx") == records.size());
    // The numbers are random, so that they hardly become fewer bytes.
    const std::size_t half = sound_records(sound.substr(0, sound.size() / 2));
    CHECK(half > 1400);
    CHECK(half < 1600);
  }
}

TEST_CASE("records: a length that lies takes no memory") {
  const TemporaryFolder folder;
  for (const std::uint64_t length : {std::uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 15, std::uint64_t{1} << 63}) {
    // The checksum of the length is right.
    const auto path = folder / "lies";
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    const std::uint32_t crc = io::masked(io::crc32c(bytes));
    bytes.append(reinterpret_cast<const char*>(&crc), 4).append(100, '\0');
    std::ofstream(path, std::ios::binary) << bytes;
    CHECK(message_of<DataLossError>([&] { bytes_of(data::records(path)); }).find("record at byte 0") !=
          std::string::npos);
  }
}

}  // namespace records_test
