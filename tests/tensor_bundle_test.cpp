#include "io/tensorflow/tensor_bundle.hpp"

#include <cstring>

#include <doctest/doctest.h>
#include <protozero/pbf_writer.hpp>

#include "expect.hpp"
#include "io/crc32c.hpp"
#include "io/known_format.hpp"
#include "io/tensorflow/leveldb_table.hpp"
#include "io/tensorflow/snappy.hpp"
#include "refused.hpp"
#include "state_samples.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::tensor_bundle_test {
namespace {

const std::string data_ending = ".data-00000-of-00001";

const TemporaryFolder& folder() {
  static const TemporaryFolder instance;
  return instance;
}

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

std::string golden(const std::string& name) { return std::string(GOLDEN_FILES) + "/checkpoint_" + name; }

/// The checkpoint of these two files, read.
StateDict read_files(const Bytes& index, const Bytes& data, Where where = Where::here()) {
  folder().write("x.index", index);
  folder().write("x" + data_ending, data);
  return tensor_bundle::load(folder() / "x", where);
}

using Entries = std::map<std::string, io::BundleEntry>;

/// The 8 bytes of every shard that the entries below are about: two float32, 1 and 2.
const std::string shard_bytes("\0\0\x80\x3F\0\0\0\x40", 8);

/// An entry that is right: [2] float32.
io::BundleEntry pair() { return {{{1}, {2}, 0, 0, 8, io::masked(io::crc32c(shard_bytes))}, {}}; }

StateDict read_entries(const Entries& entries, const io::BundleHeader& header = {.shards = 1},
                       Where where = Where::here()) {
  std::map<std::string, std::string> table{{"", io::encode(header)}};
  for (const auto& [key, entry] : entries) table.emplace(key, io::encode(entry));
  return read_files(bytes_of(io::table_bytes(table)), bytes_of(shard_bytes), where);
}

/// The entries of a tensor "a" in slices of one row each, which are the elements 0 and 1 of the shard.
Entries sliced(std::vector<std::int64_t> sizes, const std::vector<io::SliceExtents>& slices) {
  Entries entries;
  io::BundleEntry whole{{{1}, std::move(sizes)}, slices};
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const std::size_t at = 4 * (i % 2);
    io::BundleEntry part{{{1}, {}, 0, static_cast<std::int64_t>(at), 4, 0}, {}};
    part.stored.checksum = io::masked(io::crc32c(std::string_view(shard_bytes).substr(at, 4)));
    for (std::size_t axis = 0; axis < slices[i].size(); ++axis)
      part.stored.sizes.push_back(slices[i][axis].length == -1 ? whole.stored.sizes[axis] : slices[i][axis].length);
    entries.emplace(io::slice_key("a", slices[i]), part);
  }
  entries.emplace("a", whole);
  return entries;
}

constexpr std::string_view table_end = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";

/// A block with its trailer.
std::string with_trailer(const std::string& block, char compression = 0) {
  const std::uint32_t checksum = io::masked(io::crc32c(block + compression));
  std::string bytes(5, compression);
  std::memcpy(bytes.data() + 1, &checksum, sizeof checksum);
  return block + bytes;
}

/// A varint of three bytes.
std::string varint3(std::size_t number) {
  return {static_cast<char>(number | 128), static_cast<char>(number >> 7 | 128), static_cast<char>(number >> 14)};
}

/// What ends a block of which only the first key stands whole.
const std::string one_restart("\0\0\0\0\1\0\0\0", 8);

/// A table of one data block and these handles in its index, under the keys "x", "y", ...
std::string table_of(const std::string& block, char compression, const std::vector<std::string>& handles) {
  std::string table = with_trailer(block, compression), index;
  for (std::size_t i = 0; i < handles.size(); ++i)
    index += std::string{'\0', '\1', static_cast<char>(handles[i].size()), static_cast<char>('x' + i)} + handles[i];
  index += one_restart;
  std::string footer = std::string(2, '\0') + varint3(table.size()) + varint3(index.size());
  footer.resize(40);
  return table + with_trailer(index) + footer + std::string(table_end);
}
std::string table_of(const std::string& block, char compression = 0) {
  return table_of(block, compression, {std::string(1, '\0') + varint3(block.size())});
}

std::map<std::string, std::string> read_table(const std::string& bytes, Where where = Where::here()) {
  std::map<std::string, std::string> entries;
  io::read_table(io::SourceFile(folder().write("table", bytes_of(bytes)), where),
                 [&](std::string_view key, std::string_view value) { entries.emplace(key, value); });
  return entries;
}

}  // namespace

TEST_CASE("tensor_bundle: what is written can be read, and equal tensors give equal files") {
  StateDict tensors = state_samples();
  tensors["layer.bfloat16"] = tensor({0.5, -1.0}).cast(bfloat16);
  for (const std::string name : {"a b", "\xC3\xA4/\xE2\x82\xAC", "line\n\"quoted\"", "\x01", "\xFF\xFE", "../x"})
    tensors[name] = tensor(1.0);
  tensors[std::string("nul\0inside", 10)] = tensor(2.0);
  tensors[std::string(3000, 'n')] = tensor(3.0);
  StateDict many;
  for (int i = 0; i < 1000; ++i) many["layer_" + std::to_string(i) + std::string(300, '/')] = tensor({i, i + 1});
  for (const StateDict& each : {tensors, many, StateDict{}}) {
    const std::string prefix = folder() / "new/ckpt/model";
    tensor_bundle::save(prefix, each);
    CHECK(same_bits(tensor_bundle::load(prefix), each));
    CHECK(same_bits(load_weights(prefix), each));
    const Bytes index = read_bytes(prefix + ".index"), data = read_bytes(prefix + data_ending);
    tensor_bundle::save(prefix, each);
    CHECK(read_bytes(prefix + ".index") == index);
    CHECK(read_bytes(prefix + data_ending) == data);
  }
}

TEST_CASE("tensor_bundle: the bytes are TensorFlow's") {
  tensor_bundle::save(folder() / "w", {{"w", tensor<float>({1, 2})}});
  CHECK(read_text(folder() / ("w" + data_ending)) == shard_bytes);
  Bytes index{// The block: the header, and w with its dtype, shape, size and checksum; the restart at byte 0.
              0, 0, 6, 8, 1, 0x1A, 2, 8, 1,                                                        //
              0, 1, 15, 'w', 8, 1, 0x12, 4, 0x12, 2, 8, 2, 0x28, 8, 0x35, 0x59, 0x3C, 0xE5, 0x35,  //
              0, 0, 0, 0, 1, 0, 0, 0,                                                              //
              0, 0x09, 0x21, 0xAD, 0xC3,                                                           //
                                          // The block of filters, which is empty.
              0, 0, 0, 0, 1, 0, 0, 0, 0, 0xC0, 0xF2, 0xA1, 0xB0,
              // The index: the first block ends before "x", and lies at byte 0 with 36 bytes.
              0, 1, 2, 'x', 0, 36, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xAB, 0x30, 0x70, 0x7F,
              // The footer: filters at 41 with 8 bytes, index at 54 with 14.
              41, 8, 54, 14};
  index.resize(index.size() + 36);
  for (const int each : {0x57, 0xFB, 0x80, 0x8B, 0x24, 0x75, 0x47, 0xDB})
    index.push_back(static_cast<std::uint8_t>(each));
  CHECK(read_bytes(folder() / "w.index") == index);

  // The one with all dtypes was written by TensorFlow itself.
  const StateDict types = tensor_bundle::load(golden("types"));
  tensor_bundle::save(folder() / "types", types);
  for (const std::string& ending : {std::string(".index"), data_ending})
    CHECK(read_bytes(folder() / ("types" + ending)) == read_bytes(golden("types" + ending)));
}

TEST_CASE("tensor_bundle: TensorFlow's checkpoints give TensorFlow's numbers") {
  const StateDict types = tensor_bundle::load(golden("types"));
  CHECK(types.size() == 12);
  for (const DType dtype : {boolean, uint8, int32, int64, float16, bfloat16, float32, float64})
    CHECK(same_bits(types.at(to_string(dtype)), tensor({{0, 1, 2}, {3, 0, 255}}).cast(dtype)));
  CHECK(same_bits(types.at("scalar"), tensor(1.5F)));
  CHECK(same_bits(types.at("empty"), zeros({3, 0, 2})));
  CHECK(same_bits(types.at("axes"), ones({1, 2, 1, 2, 1, 2, 1, 2})));
  CHECK(same_bits(types.at("a \"name\"\nin many languages \xC3\xA4\xE2\x82\xAC"), tensor({1, 2}).cast(int32)));

  const StateDict wider = tensor_bundle::load(golden("wider"));
  CHECK(same_bits(wider.at("int8"), tensor({1, 2, 127}).cast(int32)));
  CHECK(same_bits(wider.at("int16"), tensor({1, 2, 32767}).cast(int32)));
  CHECK(same_bits(wider.at("uint16"), tensor({1, 2, 65535}).cast(int32)));
  CHECK(same_bits(wider.at("uint32"), tensor<std::int64_t>({1, 2, 4294967295})));

  const Tensor counted = reshape(arange(0, 24), {4, 6}).cast(float32);
  const StateDict slices = tensor_bundle::load(golden("slices")), shards = tensor_bundle::load(golden("shards"));
  CHECK(same_bits(slices, {{"tiles", counted}, {"whole", counted}}));
  CHECK(same_bits(shards, {{"rows", counted},
                           {"own0", tensor(0).cast(int32)},
                           {"own1", tensor(1).cast(int32)},
                           {"own2", tensor(2).cast(int32)}}));

  const StateDict saver = tensor_bundle::load(golden("saver"));
  CHECK(saver.size() == 15);
  CHECK(saver.at("hidden/w").shape() == Shape{3, 4});
  CHECK(same_bits(saver.at("hidden/w/Adam_1"), zeros({3, 4})));
  CHECK(same_bits(saver.at("beta1_power"), tensor(0.9F)));
  CHECK(same_bits(saver.at("count"), tensor<std::int64_t>(0)));

  const StateDict objects = tensor_bundle::load(golden("objects"));
  CHECK(same_bits(objects, {{"model/w/.ATTRIBUTES/VARIABLE_VALUE", tensor<float>({{1, 2}})},
                            {"model/layers/0/.ATTRIBUTES/VARIABLE_VALUE", tensor(3.0F)},
                            {"step/.ATTRIBUTES/VARIABLE_VALUE", tensor<std::int64_t>(5)}}));
}

TEST_CASE("tensor_bundle: a tensor that no dtype can hold does not hide the others") {
  CHECK(same_bits(tensor_bundle::load(golden("lacking")), {{"w", ones({2})}}));
  const io::TensorBundle bundle(golden("lacking"), {});
  CHECK(bundle.entries().size() == 5);
  CHECK(bundle.entries().at("text").stored.sizes == std::vector<std::int64_t>{2});
  CHECK(same_bits(bundle.read("w"), ones({2})));
  for (const auto& [name, problem] :
       {std::pair{"text", "has the type DT_STRING"}, {"uint64", "DT_UINT64"}, {"rank 9", "more than 8 dimensions"}})
    CHECK(std::string_view(caught<UnimplementedError>([&, key = name] { bundle.read(key); }).what()).find(problem) !=
          std::string_view::npos);
  CHECK(caught<NotFoundError>([&] { bundle.read("absent"); }).message().starts_with("There is no tensor absent in "));
}

TEST_CASE("tensor_bundle: damaged files are refused, or give the same tensors") {
  for (const std::string name : {"types", "slices", "objects"}) {
    CAPTURE(name);
    const Bytes index = read_bytes(golden(name + ".index")), data = read_bytes(golden(name + data_ending));
    const StateDict whole = read_files(index, data);
    for (std::size_t size = 0; size < index.size(); ++size)
      CHECK_THROWS_AS(read_files(Bytes(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(size)), data),
                      DataLossError);
    for (std::size_t size = 0; size < data.size() && name != "objects"; ++size)
      CHECK_THROWS_AS(read_files(index, Bytes(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(size))),
                      DataLossError);
    int survivors = 0;
    const auto read_damaged = [&](bool in_index, std::size_t place, int bits) {
      Bytes changed_index = index, changed_data = data;
      Bytes& changed = in_index ? changed_index : changed_data;
      changed[place] = static_cast<std::uint8_t>(changed[place] ^ bits);
      try {
        const StateDict survivor = read_files(changed_index, changed_data);
        CHECK(same_bits(survivor, whole));
        ++survivors;
      } catch (const DataLossError&) {
      }
    };
    for (const int bits : {1, 8, 128, 255}) {
      for (std::size_t place = 0; place < index.size(); ++place) read_damaged(true, place, bits);
      for (std::size_t place = 0; place < data.size() && name != "objects"; ++place) read_damaged(false, place, bits);
    }
    // Nothing reads the block of filters, of 13 bytes, nor its place in the footer and the zeros behind the places.
    CHECK(survivors <= 4 * (13 + 40));
  }
}

/// A checkpoint V1 of these messages, by their keys.
std::string old_file(const std::map<std::string, std::string>& entries) { return io::table_bytes(entries); }

/// The field of a message that is a message, or a number.
std::string field(int tag, const std::string& message) {
  std::string bytes;
  protozero::pbf_writer(bytes).add_message(static_cast<protozero::pbf_tag_type>(tag), message);
  return bytes;
}
std::string field(int tag, std::int64_t number) {
  std::string bytes;
  protozero::pbf_writer(bytes).add_int64(static_cast<protozero::pbf_tag_type>(tag), number);
  return bytes;
}

TEST_CASE("checkpoints V1 give the tensors that TensorFlow writes as V2 as well") {
  const StateDict expected = tensor_bundle::load(golden("old_as_new"));
  CHECK(expected.size() == 12);
  CHECK(same_bits(tensor_bundle::load(golden("old")), expected));
  CHECK(same_bits(load_weights(golden("old")), expected));
  CHECK(io::name_of(io::format_of_file(golden("old"))).starts_with("a checkpoint V1"));

  const Bytes bytes = read_bytes(golden("old"));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_THROWS_AS(
        load_weights(folder().write("old", Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)))),
        Error);
}

TEST_CASE("checkpoints V1 that lie") {
  const auto list = [](const std::string& sizes, int type) {
    return field(1, field(1, field(1, std::string("w")) + field(2, sizes) + field(3, type)));
  };
  const std::string size_2 = field(2, field(1, 2)), two = field(5, std::string("\0\0\x80\x3F\0\0\0\x40", 8));
  const auto slice = [&](const std::string& extents, const std::string& data) {
    return field(2, field(1, std::string("w")) + field(2, extents) + field(3, data));
  };
  const std::string all = field(1, std::string());
  const auto load = [&](const std::map<std::string, std::string>& entries) {
    return load_weights(folder().write("old", bytes_of(old_file(entries))));
  };
  CHECK(same_bits(load({{"", list(size_2, 1)}, {"w", slice(all, two)}}), {{"w", tensor<float>({1, 2})}}));
  const auto lies = [&](std::string_view problem, const std::map<std::string, std::string>& entries) {
    CAPTURE(problem);
    CHECK(caught<DataLossError>([&] { load(entries); }).message().find(problem) != std::string::npos);
  };
  lies("lacks elements", {{"", list(size_2, 1)}});
  lies("which it does not list", {{"", field(1, std::string())}, {"w", slice(all, two)}});
  lies("of another rank", {{"", list(size_2, 1)}, {"w", slice("", two)}});
  lies("reaches beyond it", {{"", list(size_2, 1)}, {"w", slice(field(1, field(1, 1) + field(2, 2)), two)}});
  lies("slices that overlap", {{"", list(size_2, 1)}, {"v", slice(all, two)}, {"w", slice(all, two)}});
  lies("bytes of data for", {{"", list(field(2, field(1, 1 << 30)), 1)}, {"w", slice(all, two)}});
  lies("a shape that no tensor has", {{"", list(field(2, field(1, -2)), 1)}});
  lies("two tensors", {{"", list(size_2, 1) + list(size_2, 1)}});
  CHECK(caught<UnimplementedError>([&] {
          load({{"", list(size_2, 7)}, {"w", slice(all, two)}});
        })
            .message()
            .find("DT_STRING") != std::string::npos);
}

TEST_CASE("a checkpoint V1 in several files") {
  const std::string extent_0 = field(1, field(2, 1)), extent_1 = field(1, field(1, 1) + field(2, 1));
  const auto list = [](const std::string& name, std::int64_t size) {
    return field(1, field(1, name) + field(2, field(2, field(1, size))) + field(3, 1));
  };
  const auto slice = [](const std::string& name, const std::string& extents, const std::string& data) {
    return field(2, field(1, name) + field(2, extents) + field(3, field(5, data)));
  };
  const std::string one("\0\0\x80\x3F", 4), two("\0\0\0\x40", 4);
  const std::string last = "parts-00001-of-00002";
  const auto write = [&](const std::string& name, const std::map<std::string, std::string>& entries) {
    return folder().write(name, bytes_of(old_file(entries)));
  };
  write("parts-00000-of-00002", {{"", field(1, list("w", 2))}, {"a", slice("w", extent_0, one)}});
  const std::string path = write(last, {{"", field(1, list("v", 1) + list("w", 2))},
                                        {"a", slice("w", extent_1, two)},
                                        {"b", slice("v", field(1, std::string()), two)}});
  const std::string prefix = path.substr(0, path.size() - std::string("-00001-of-00002").size());
  const StateDict expected{{"v", tensor<float>({2})}, {"w", tensor<float>({1, 2})}};
  CHECK(same_bits(tensor_bundle::load(prefix), expected));
  CHECK(same_bits(load_weights(prefix), expected));
  CHECK(same_bits(load_weights(prefix + "-" + std::string(5, '?') + "-of-00002"), expected));
  CHECK(caught<DataLossError>([&] { load_weights(path); }).message().find("lacks elements") != std::string::npos);
  write(last, {{"", field(1, list("w", 3))}});
  CHECK(caught<DataLossError>([&] { load_weights(prefix); }).message().find("another type or shape") !=
        std::string::npos);
  std::filesystem::remove(path);
  CHECK(caught<NotFoundError>([&] { load_weights(prefix); }).message().find(last) != std::string::npos);
}

TEST_CASE("tensor_bundle: entries that lie") {
  CHECK(same_bits(read_entries({{"a", pair()}}), {{"a", tensor<float>({1, 2})}}));
  const auto refused_entry = [](const char* problem, auto change, Where where = Where::here()) {
    io::BundleEntry entry = pair();
    change(entry.stored);
    refused<DataLossError>(problem, problem, where, [&] { read_entries({{"a", entry}}, {.shards = 1}, where); });
  };
  using Stored = io::StoredTensor;
  refused_entry("has 8 bytes of data for its shape, which needs 12", [](Stored& a) { a.sizes = {3}; });
  refused_entry("has 8 bytes of data for its shape, which needs 4", [](Stored& a) { a.sizes = {}; });
  refused_entry("has a shape that no tensor has", [](Stored& a) { a.sizes = {-2}; });
  refused_entry("has a shape that no tensor has", [](Stored& a) { a.sizes = {INT64_MAX, 2}; });
  refused_entry("has a shape that no tensor has", [](Stored& a) { a.sizes = {0, INT64_MAX}; });
  refused_entry("lies in shard 1 of 1", [](Stored& a) { a.shard = 1; });
  refused_entry("lies in shard -1 of 1", [](Stored& a) { a.shard = -1; });
  refused_entry("lies at byte -1", [](Stored& a) { a.offset = -1; });
  refused_entry("lies at byte 9223372036854775807", [](Stored& a) { a.offset = INT64_MAX; });
  refused_entry("has -8 bytes", [](Stored& a) { a.size = -8; });
  refused_entry("stops early, at byte 8: tensor a ends at byte 9", [](Stored& a) { a.offset = 1; });
  refused_entry("x.data-00000-of-00001, tensor a is damaged: it does not have its checksum",
                [](Stored& a) { a.checksum ^= 1; });
  refused_entry("tensor a has no type", [](Stored& a) { a.type = {}; });
  refused_entry("stops early, at byte 8: tensor a ends at byte 4611686018427387904", [](Stored& a) {
    a.size = std::int64_t{1} << 62;
    a.sizes = {1 << 30, 1 << 30};
  });
  TAPESTRY_REFUSED(DataLossError, "has tensors that share byte 0 of shard 0",
                   read_entries({{"a", pair()}, {"b", pair()}}));

  TAPESTRY_REFUSED(UnimplementedError, "x.index is of a checkpoint with big-endian tensors",
                   read_entries({}, {.shards = 1, .endianness = 1}));
  TAPESTRY_REFUSED(UnimplementedError, "has version 2 of the format; version 1 is known",
                   read_entries({}, {.shards = 1, .min_consumer = 2}));
  TAPESTRY_REFUSED(DataLossError, "claims to have 0 shards", read_entries({}, {.shards = 0}));
  TAPESTRY_REFUSED(DataLossError, "claims to have -1 shards", read_entries({}, {.shards = -1}));
  TAPESTRY_REFUSED(NotFoundError, "There is no file", read_entries({{"a", pair()}}, {.shards = 100000}));
  TAPESTRY_REFUSED(DataLossError, "it has no header", read_files(bytes_of(io::table_bytes({{"a", ""}})), {}));
  TAPESTRY_REFUSED(DataLossError, "x.index is damaged", read_files(bytes_of(io::table_bytes({{"", "\x08"}})), {}));
  // The rank of a shape may be unknown in a graph, but not of a tensor that is stored.
  const std::string unknown_rank = io::encode(pair()) + std::string("\x12\x02\x18\x01");
  TAPESTRY_REFUSED(
      DataLossError, "has a shape that no tensor has",
      read_files(bytes_of(io::table_bytes({{"", io::encode(io::BundleHeader{.shards = 1})}, {"a", unknown_rank}})),
                 {}));
}

TEST_CASE("tensor_bundle: slices that lie") {
  CHECK(same_bits(read_entries(sliced({2, 1}, {{{0, 1}, {}}, {{1, 1}, {}}})), {{"a", tensor<float>({{1}, {2}})}}));
  CHECK(same_bits(read_entries(sliced({2}, {{{1, 1}}, {{0, 1}}})), {{"a", tensor<float>({2, 1})}}));
  CHECK(same_bits(read_entries(sliced({}, {{}})), {{"a", tensor(1.0F)}}));
  TAPESTRY_REFUSED(DataLossError, "has slices that do not cover it", read_entries(sliced({3}, {{{0, 1}}, {{1, 1}}})));
  TAPESTRY_REFUSED(DataLossError, "has slices that overlap", read_entries(sliced({1}, {{{0, 1}}, {{0, -1}}})));
  TAPESTRY_REFUSED(DataLossError, "a slice that reaches beyond it", read_entries(sliced({2}, {{{0, 1}}, {{2, 1}}})));
  TAPESTRY_REFUSED(DataLossError, "a slice that reaches beyond it", read_entries(sliced({2}, {{{-1, 1}}, {{1, 1}}})));
  TAPESTRY_REFUSED(DataLossError, "a slice that reaches beyond it",
                   read_entries(sliced({2}, {{{INT64_MAX, 1}}, {{1, INT64_MAX}}})));
  TAPESTRY_REFUSED(DataLossError, "a slice of another rank", read_entries(sliced({1, 1}, {{{0, 1}}})));
  TAPESTRY_REFUSED(DataLossError, "has a shape that no tensor has", read_entries(sliced({-1}, {{{0, 1}}})));
  // Two slices of the same elements, for as many elements.
  Entries doubled = sliced({1, 2}, {{{0, 1}, {0, 1}}, {{0, -1}, {0, 1}}});
  TAPESTRY_REFUSED(DataLossError, "has slices that overlap", read_entries(doubled));

  Entries entries = sliced({2}, {{{0, 1}}, {{1, 1}}});
  entries.at("a").slices.pop_back();
  TAPESTRY_REFUSED(DataLossError, "has slices that do not cover it", read_entries(entries));
  entries.erase("a");
  TAPESTRY_REFUSED(DataLossError, "has a slice that no tensor consists of", read_entries(entries));
  entries = sliced({2}, {{{0, 1}}, {{1, 1}}});
  entries.erase(entries.begin());
  TAPESTRY_REFUSED(DataLossError, "tensor a lacks a slice", read_entries(entries));
  entries = sliced({2}, {{{0, 1}}, {{1, 1}}});
  entries.begin()->second.stored.type = {3};
  TAPESTRY_REFUSED(DataLossError, "has a slice of another type or shape", read_entries(entries));
  // A slice that claims more than its shard has is found before there is memory for all of the tensor.
  entries = sliced({1 << 30, 1 << 30}, {{{}, {}}});
  entries.begin()->second.stored.size = std::int64_t{1} << 62;
  TAPESTRY_REFUSED(DataLossError, "stops early, at byte 8", read_entries(entries));
}

TEST_CASE("tensor_bundle: the keys of slices are TensorFlow's") {
  // From a file: [6,2] in three parts, the second one.
  CHECK(io::slice_key("part", {{2, 2}, {0, 2}}) == std::string("\0part\0\1\1\2\x82\x82\x80\x82", 13));
  CHECK(io::slice_key(std::string("\0\xFF", 2), {}) == std::string("\0\0\xFF\xFF\0\0\1\0", 8));
  const auto coded = [](std::int64_t number) { return io::slice_key("", {{number, 0}}).substr(5); };
  const std::string zero("\x80");
  CHECK(coded(-1) == "\x7F" + zero);
  CHECK(coded(63) == "\xBF" + zero);
  CHECK(coded(64) == "\xC0\x40" + zero);
  CHECK(coded(-65) == "\x3F\xBF" + zero);
  CHECK(coded(8191) == "\xDF\xFF" + zero);
  CHECK(coded(8192) == "\xE0\x20" + std::string(1, '\0') + zero);
  CHECK(coded(INT64_MAX) == "\xFF\xC0\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF" + zero);
  std::string before;
  for (const std::int64_t number : {INT64_MIN, INT64_MIN / 2, std::int64_t{-8193}, std::int64_t{-64}, std::int64_t{0},
                                    std::int64_t{1}, std::int64_t{127}, std::int64_t{1} << 55, INT64_MAX / 2}) {
    CHECK(before < coded(number));
    before = coded(number);
  }
}

TEST_CASE("tables of LevelDB: blocks that lie") {
  const auto block = [&](const std::string& entries) { return entries + one_restart; };
  const std::string two = std::string("\0\2\1", 3) + "abv" + std::string("\1\1\0", 3) + "c";
  CHECK(read_table(table_of(block(two))) == std::map<std::string, std::string>{{"ab", "v"}, {"ac", ""}});

  TAPESTRY_REFUSED(DataLossError, "is no table of LevelDB, or it stops early: it has 0 bytes", read_table(""));
  TAPESTRY_REFUSED(DataLossError, "does not end with the format's number", read_table(std::string(100, 'x')));
  TAPESTRY_REFUSED(DataLossError, "has a block of 0 bytes, which is too short", read_table(table_of("")));
  TAPESTRY_REFUSED(DataLossError, "has a block of 4 bytes with 255 restarts",
                   read_table(table_of(std::string("\xFF\0\0\0", 4))));
  TAPESTRY_REFUSED(DataLossError, "behind its block", read_table(table_of(block(std::string("\0\2\0", 3) + "a"))));
  TAPESTRY_REFUSED(DataLossError, "behind its block", read_table(table_of(block(std::string("\0\1\1", 3) + "a"))));
  TAPESTRY_REFUSED(DataLossError, "behind its block", read_table(table_of(block(std::string("\1\1\0", 3) + "a"))));
  TAPESTRY_REFUSED(DataLossError, "is damaged", read_table(table_of(block("\x80"))));
  TAPESTRY_REFUSED(DataLossError, "has keys that do not ascend",
                   read_table(table_of(block(two + std::string("\0\2\0", 3) + "ab"))));
  TAPESTRY_REFUSED(DataLossError, "behind its end", read_table(table_of(block(two), 0, {"\1\x7F"})));
  TAPESTRY_REFUSED(DataLossError, "behind its end",
                   read_table(table_of(block(two), 0, {"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1\1"})));
  TAPESTRY_REFUSED(UnimplementedError, "has a block with the unknown compression 2", read_table(table_of(two, 2)));
  TAPESTRY_REFUSED(DataLossError, "is not what Snappy writes", read_table(table_of(two, 1)));

  const std::string handle = std::string(1, '\0') + varint3(block(two).size());
  TAPESTRY_REFUSED(DataLossError, "has a block at byte 0 that lies in the one before",
                   read_table(table_of(block(two), 0, {handle, handle})));

  // A key of 16 KiB that a thousand others share.
  std::string shared = std::string("\0\x80\x80\1\0", 5) + std::string(16384, 'k');
  for (int i = 0; i < 1000; ++i)
    shared += std::string("\x80\x80\1\2\0", 5) + static_cast<char>('a' + i / 40) + static_cast<char>(i % 40);
  TAPESTRY_REFUSED(DataLossError, "has keys that are far longer than the file", read_table(table_of(block(shared))));
}

TEST_CASE("tables of LevelDB: Snappy") {
  // As LevelDB 1.23 writes it, with a block in which keys and values repeat.
  const std::string value = std::string("\x08\1\x12\4\x12\2\x08\2(\x08") + "5abcd";
  const std::string packed =
      std::string("\x67\x90\0\x0a\x0f", 5) + "layer/bias" + std::string("\x08\1\x12\4\x12\2\x08\2(\x08") + "5abcd" +
      std::string("\x0a\5\x0f/Adam\x08\x36\x17\0\x10\x0f\2\x0f_1:+\0 \6\6\x0fkernel:\x18\0\x1c\0\0\0\0\1\0\0\0", 43);
  const std::map<std::string, std::string> entries = read_table(table_of(packed, 1));
  CHECK(entries ==
        std::map<std::string, std::string>{
            {"layer/bias", value}, {"layer/bias/Adam", value}, {"layer/bias/Adam_1", value}, {"layer/kernel", value}});

  const auto unpacked = [](std::string_view bytes) { return io::snappy_decompressed(bytes); };
  using namespace std::string_view_literals;
  CHECK(unpacked("\0"sv) == "");
  CHECK(unpacked("\3\x08"
                 "abc"sv) == "abc");
  CHECK(unpacked("\3\xF0\2"
                 "abc"sv) == "abc");  // the length of a literal in a byte,
  CHECK(unpacked("\3\xF4\2\0"
                 "abc"sv) == "abc");  // two,
  CHECK(unpacked("\3\xFC\2\0\0\0"
                 "abc"sv) == "abc");  // four
  CHECK(unpacked("\7\x08"
                 "abc\1\3"sv) == "abcabca");  // a copy that overlaps itself
  CHECK(unpacked("\5\x08"
                 "abc\6\2\0"sv) == "abcbc");  // the distance in two bytes,
  CHECK(unpacked("\5\x08"
                 "abc\7\2\0\0\0"sv) == "abcbc");  // four
  for (const std::string_view bad : {""sv, "\x80"sv, "\1"sv,
                                     "\4\x08"
                                     "abc"sv,
                                     "\2\x08"
                                     "abc"sv,
                                     "\3\x08"
                                     "ab"sv,
                                     "\7\x08"
                                     "abc\1\4"sv,
                                     "\7\x08"
                                     "abc\1\0"sv,
                                     "\7\x08"
                                     "abc\1"sv,
                                     "\6\x08"
                                     "abc\1\3"sv,
                                     "\xFF\xFF\xFF\xFF\x0F\x08"
                                     "abc"sv,
                                     "\3\xFC\xFF\xFF\xFF\xFF"
                                     "abc"sv})
    CHECK(!unpacked(bad));
  for (std::size_t size = 0; size < packed.size(); ++size) CHECK(!unpacked(packed.substr(0, size)));
}

TEST_CASE("tensor_bundle: what is refused") {
  const std::string prefix = folder() / "refused";
  TAPESTRY_REFUSED(InvalidArgumentError, "neither empty nor begins with a byte 0",
                   tensor_bundle::save(prefix, {{"", tensor(1)}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "neither empty nor begins with a byte 0",
                   tensor_bundle::save(prefix, {{std::string("\0a", 2), tensor(1)}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "There is no tensor to save as w",
                   tensor_bundle::save(prefix, {{"w", Tensor{}}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "A checkpoint's prefix cannot be", tensor_bundle::save(prefix + "/", {}));
  TAPESTRY_REFUSED(InvalidArgumentError, "A checkpoint's prefix cannot be", tensor_bundle::save("", {}));
  CHECK(!std::filesystem::exists(prefix + data_ending));
  TAPESTRY_REFUSED(NotFoundError, "There is no file", tensor_bundle::load(prefix));
  folder().write("plain", {});
  TAPESTRY_REFUSED(NotFoundError, "Cannot write", tensor_bundle::save(folder() / "plain/model", {}));

  // The data of another save, as when a program is killed between the two files.
  tensor_bundle::save(prefix, {{"w", tensor(1.0)}});
  const Bytes index = read_bytes(prefix + ".index");
  tensor_bundle::save(prefix, {{"w", tensor(2.0)}});
  folder().write("refused.index", index);
  TAPESTRY_REFUSED(DataLossError, "refused.data-00000-of-00001, tensor w is damaged", tensor_bundle::load(prefix));
  std::filesystem::remove(prefix + data_ending);
  TAPESTRY_REFUSED(NotFoundError, "There is no file", tensor_bundle::load(prefix));
}

}  // namespace tapestry::test::tensor_bundle_test
