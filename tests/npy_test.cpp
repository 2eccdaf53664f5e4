#include <cmath>
#include <cstring>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.hpp"
#include "refused.hpp"
#include "state_samples.hpp"
#include "tapestry/data/arrays.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "temporary_folder.hpp"

namespace npy_test {

using namespace tapestry;
using namespace tapestry::test;
using data::read_npy;
using data::read_npz;
using data::write_npy;
using data::write_npz;

namespace {

/// The file numpy.save writes: the header's text is padded to a multiple of 64 bytes.
Bytes npy(std::string header, const Bytes& elements, int version = 1) {
  const std::size_t start = version == 1 ? 10 : 12;
  header.append(63 - (start + header.size()) % 64, ' ');
  header += '\n';
  Bytes bytes{0x93, 'N', 'U', 'M', 'P', 'Y', static_cast<std::uint8_t>(version), 0};
  for (std::size_t i = 0; i < start - 8; ++i) bytes.push_back(static_cast<std::uint8_t>(header.size() >> 8 * i));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  return bytes;
}

Bytes npy_of(const std::string& type, const std::string& shape, const Bytes& elements, const char* order = "False") {
  return npy("{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }", elements);
}

/// numpy.savez_compressed of w = [[0, 1, 2], [3, 4, 5]] (float32) and n = 7 (big-endian int16), NumPy 2.
constexpr std::string_view numpy_npz =
    "504b03042d0000000800000021004fe9002affffffffffffffff05001400772e6e70790100100098000000000000005500000000000000"
    "9bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402"
    "f91a463a0ac69a3a0ab50a64032e063068b007120e4004c40d40bcc00100504b03042d0000000800000021009f4665e9ffffffffffffff"
    "ff050014006e2e6e707901001000820000000000000044000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9769a4"
    "aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a9a3a0ab50a14012e067600504b01022d032d0000000800"
    "000021004fe9002a5500000098000000050000000000000000000000800100000000772e6e7079504b01022d032d000000080000002100"
    "9f4665e9440000008200000005000000000000000000000080018c0000006e2e6e7079504b050600000000020002006600000007010000"
    "0000";

Bytes unhex(std::string_view text) {
  Bytes bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

/// The bytes with a number of `size` bytes written over those at an offset.
Bytes patched(Bytes bytes, std::size_t offset, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) bytes.at(offset + i) = static_cast<std::uint8_t>(value >> 8 * i);
  return bytes;
}

const TemporaryFolder& folder() {
  static const TemporaryFolder instance;
  return instance;
}

Tensor read(const Bytes& bytes, Where where = Where::here()) { return read_npy(folder().write("x.npy", bytes), where); }
StateDict read_archive(const Bytes& bytes, Where where = Where::here()) {
  return read_npz(folder().write("x.npz", bytes), where);
}

}  // namespace

TEST_CASE("npy: what is written can be read") {
  for (const auto& each : state_samples()) {
    CAPTURE(each.first);
    write_npy(folder() / "x.npy", each.second);
    CHECK(same_bits(read_npy(folder() / "x.npy"), each.second));
  }
}

TEST_CASE("npy: the bytes are those of numpy.save") {
  const auto written = [](const Tensor& tensor) {
    write_npy(folder() / "x.npy", tensor);
    return read_bytes(folder() / "x.npy");
  };
  CHECK(written(tensor(true)) == npy_of("|b1", "()", {1}));
  CHECK(written(tensor<int>({258})) == npy_of("<i4", "(1,)", {2, 1, 0, 0}));
  CHECK(written(tensor<std::uint8_t>({{1, 2, 3}})) == npy_of("|u1", "(1, 3)", {1, 2, 3}));
  CHECK(written(tensor<float16_t>({1.5})) == npy_of("<f2", "(1,)", {0x00, 0x3E}));
  CHECK(written(tensor<float>({1})) == npy_of("<f4", "(1,)", {0, 0, 0x80, 0x3F}));
  CHECK(written(tensor<double>({-1})) == npy_of("<f8", "(1,)", {0, 0, 0, 0, 0, 0, 0xF0, 0xBF}));
  CHECK(written(tensor<std::int64_t>({-2})) == npy_of("<i8", "(1,)", {254, 255, 255, 255, 255, 255, 255, 255}));
}

TEST_CASE("npy: element types, byte orders and versions") {
  const auto check = [](const char* type, const Bytes& elements, DType dtype, double value) {
    CAPTURE(std::string(type));
    const Tensor x = read(npy_of(type, "(1,)", elements));
    CHECK(x.dtype() == dtype);
    CHECK(agree(x.item<double>(), value, 0));
  };
  check("|b1", {2}, boolean, 1);
  check("|i1", {0xFE}, int32, -2);
  check("<i2", {0x00, 0xFF}, int32, -256);
  check(">i2", {0xFF, 0x00}, int32, -256);
  check("<u2", {0xFF, 0xFF}, int32, 65535);
  check("<u4", {0xFF, 0xFF, 0xFF, 0xFF}, int64, 4294967295);
  check(">i8", {0, 0, 0, 0, 0, 0, 1, 2}, int64, 258);
  check(">f4", {0x3F, 0xC0, 0, 0}, float32, 1.5);
  check(">f8", {0xBF, 0xF8, 0, 0, 0, 0, 0, 0}, float64, -1.5);
  check("<f2", {0x00, 0x3E}, float16, 1.5);
  check(">f2", {0xFB, 0xFF}, float16, -65504);
  check("<f2", {0x01, 0x00}, float16, 0x1p-24);
  check("<f2", {0x00, 0xFC}, float16, -INFINITY);
  check("<f2", {0x01, 0x7C}, float16, NAN);

  const std::string header = "{'shape': (2L,), 'fortran_order': True, 'descr': \"<i4\"}";
  for (const int version : {1, 2, 3})
    CHECK(read(npy(header, {1, 0, 0, 0, 2, 0, 0, 0}, version)).to_vector<int>() == std::vector{1, 2});
}

TEST_CASE("npy: column-major arrays") {
  const Tensor matrix = read(npy_of("|u1", "(2, 3)", {0, 3, 1, 4, 2, 5}, "True"));
  CHECK(matrix.is_contiguous());
  CHECK(same_bits(matrix, tensor<std::uint8_t>({{0, 1, 2}, {3, 4, 5}})));
  Bytes elements(24);
  for (std::uint8_t i = 0; i < 24; ++i) elements[i] = i;
  const Tensor cube = read(npy_of("|u1", "(2, 3, 4)", elements, "True"));
  CHECK(same_bits(cube, transpose(reshape(arange(0, 24).cast(uint8), {4, 3, 2}))));
  CHECK(read(npy_of("<f4", "(3, 0)", {}, "True")).shape() == Shape{3, 0});
}

TEST_CASE("npy: files that lie") {
  const Bytes four{1, 0, 0, 0};
  TAPESTRY_REFUSED(DataLossError, "is not an NPY file", read({}));
  TAPESTRY_REFUSED(DataLossError, "is not an NPY file", read({0x93, 'N', 'U', 'M', 'P', 'X', 1, 0, 0, 0}));
  TAPESTRY_REFUSED(DataLossError, "stops within its header", read({0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0, '{'}));
  TAPESTRY_REFUSED(DataLossError, "claims a header of 4294967295 bytes",
                   read({0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 255, 255, 255, 255, '{'}));
  TAPESTRY_REFUSED(UnimplementedError, "of version 9", read(npy("{}", {}, 9)));
  for (const char* header : {"", "{", "{}", "[]", "{'descr': '<i4'}", "{'descr': '<i4', 'descr': '<i4'}",
                             "{'descr': '<i4", "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), } x",
                             "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
                             "{'descr': '<i4', 'fortran_order': Maybe, 'shape': (1,)}",
                             "{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}",
                             "{'descr': '<i4', 'fortran_order': False, 'shape': (1 2)}",
                             "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}"}) {
    CAPTURE(std::string(header));
    TAPESTRY_REFUSED(DataLossError, "has a header that is not NumPy's", read(npy(header, four)));
  }

  TAPESTRY_REFUSED(DataLossError, "claims 800 bytes of data for its shape [200], but cannot hold more than 132",
                   read(npy_of("<i4", "(200,)", four)));
  TAPESTRY_REFUSED(DataLossError, "stops early: its shape [2] needs 8 bytes of data, but there are 4",
                   read(npy_of("<i4", "(2,)", four)));
  TAPESTRY_REFUSED(DataLossError, "goes on behind the 4 bytes", read(npy_of("<i4", "()", {1, 0, 0, 0, 0})));
  TAPESTRY_REFUSED(DataLossError, "claims more than 2^63 bytes", read(npy_of("<i4", "(4294967296, 4294967296)", four)));
  TAPESTRY_REFUSED(DataLossError, "claims more than 2^63 bytes", read(npy_of("<i4", "(0, 9223372036854775807)", four)));
  TAPESTRY_REFUSED(UnimplementedError, "of 9 dimensions", read(npy_of("|u1", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", {1})));
  for (const char* type : {"<u8", "<c8", "<U5", "|S1", "|O", "<f16", "<M8[s]", "i4", "<i3", "<i99999999999"})
    TAPESTRY_REFUSED(UnimplementedError, "which no dtype can hold", read(npy_of(type, "(1,)", four)));
  TAPESTRY_REFUSED(UnimplementedError, "records of several fields",
                   read(npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", four)));
  TAPESTRY_REFUSED(NotFoundError, "There is no file", read_npy(folder() / "absent.npy"));
}

TEST_CASE("npy: what cannot be written") {
  TAPESTRY_REFUSED(InvalidArgumentError, "There is no tensor to save as", write_npy(folder() / "x.npy", Tensor{}));
  TAPESTRY_REFUSED(NotFoundError, "Cannot write", write_npy(folder() / "no/x.npy", tensor(1)));
}

TEST_CASE("npy: links, permissions and pipes outlive what is written to them") {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "x.npy", link = folder.path() / "link.npy", pipe = folder.path() / "pipe";
  write_npy(file, tensor({1, 2}));
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("x.npy", link);
  write_npy(link, tensor({3, 4}));
  CHECK(fs::is_symlink(link));
  CHECK(values(read_npy(file)) == std::vector<double>{3, 4});
  CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));

  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  write_npy(pipe, tensor({3, 4}));
  CHECK(fs::is_fifo(pipe));
  Bytes bytes(1000);
  const auto count = ::read(reader, bytes.data(), bytes.size());
  ::close(reader);
  REQUIRE(count > 0);
  bytes.resize(static_cast<std::size_t>(count));
  CHECK(bytes == read_bytes(file));
  TAPESTRY_REFUSED(NotFoundError, "it is a device or a pipe", read_npy(pipe));
  TAPESTRY_REFUSED(NotFoundError, "it is a folder", read_npy(folder.path()));
}

TEST_CASE("npz: what is written can be read") {
  for (const bool compress : {false, true}) {
    const StateDict tensors = state_samples();
    write_npz(folder() / "x.npz", tensors, {.compress = compress});
    const StateDict back = read_npz(folder() / "x.npz");
    REQUIRE(back.size() == tensors.size());
    for (const auto& each : tensors) CHECK_MESSAGE(same_bits(back.at(each.first), each.second), each.first);
    const Bytes first = read_bytes(folder() / "x.npz");
    write_npz(folder() / "x.npz", tensors, {.compress = compress});
    CHECK(read_bytes(folder() / "x.npz") == first);
    CHECK((first.size() > 400'000) == !compress);
  }
  write_npz(folder() / "x.npz", {});
  CHECK(read_npz(folder() / "x.npz").empty());
}

TEST_CASE("npz: an archive that NumPy has written") {
  const StateDict tensors = read_archive(unhex(numpy_npz));
  REQUIRE(tensors.size() == 2);
  CHECK(same_bits(tensors.at("w"), tensor<float>({{0, 1, 2}, {3, 4, 5}})));
  CHECK(same_bits(tensors.at("n"), tensor<int>(7)));
  Bytes with_comment = patched(unhex(numpy_npz), numpy_npz.size() / 2 - 2, 3, 2);
  with_comment.insert(with_comment.end(), {'h', 'i', '!'});
  CHECK(read_archive(with_comment).size() == 2);
}

TEST_CASE("npz: damaged archives never pass for whole ones") {
  const Bytes packed = unhex(numpy_npz);
  write_npz(folder() / "plain.npz", {{"w", tensor<float>({{0, 1, 2}, {3, 4, 5}})}, {"n", tensor<int>(7)}});
  for (const Bytes& whole : {packed, read_bytes(folder() / "plain.npz")}) {
    for (std::size_t length = 0; length < whole.size(); ++length)
      CHECK_THROWS_AS(read_archive(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))),
                      DataLossError);
    int refused = 0;
    for (std::size_t place = 0; place < whole.size(); ++place) {
      Bytes damaged = whole;
      damaged[place] ^= 0x41;
      try {
        const StateDict survivor = read_archive(damaged);
        // Versions, times and attributes mean nothing to the data.
        CAPTURE(place);
        REQUIRE(survivor.size() == 2);
        CHECK(same_bits(survivor.at("w"), tensor<float>({{0, 1, 2}, {3, 4, 5}})));
        CHECK(survivor.at("n").item<int>() == 7);
      } catch (const Error&) {
        ++refused;
      }
    }
    CHECK(refused > static_cast<int>(whole.size()) / 2);
  }
}

TEST_CASE("npz: archives that lie") {
  const Bytes whole = unhex(numpy_npz);
  constexpr std::size_t w = 263, n = w + 51, end = n + 51;  // the entries of the directory, and its end
  TAPESTRY_REFUSED(DataLossError, "is not a ZIP archive", read_archive({'P', 'K'}));
  TAPESTRY_REFUSED(DataLossError, "has its directory outside of it", read_archive(patched(whole, end + 16, 400, 4)));
  TAPESTRY_REFUSED(DataLossError, "has its directory outside of it",
                   read_archive(patched(whole, end + 12, 0xFFFFFFFF, 4)));
  TAPESTRY_REFUSED(DataLossError, "claims 65535 members", read_archive(patched(whole, end + 10, 65535, 2)));
  TAPESTRY_REFUSED(DataLossError, "has a damaged directory", read_archive(patched(whole, w + 28, 65535, 2)));
  TAPESTRY_REFUSED(DataLossError, "member w.npy lies outside", read_archive(patched(whole, w + 42, 386, 4)));
  TAPESTRY_REFUSED(DataLossError, "member w.npy lies outside", read_archive(patched(whole, w + 20, 0xFFFFFFFF, 4)));
  TAPESTRY_REFUSED(DataLossError, "member n.npy is not where", read_archive(patched(whole, n + 42, 1, 4)));
  TAPESTRY_REFUSED(DataLossError, "member n.npy is called w.npy", read_archive(patched(whole, n + 42, 0, 4)));
  TAPESTRY_REFUSED(DataLossError, "claims 4294967294 bytes, packed into 85",
                   read_archive(patched(whole, w + 24, 0xFFFFFFFE, 4)));
  TAPESTRY_REFUSED(DataLossError, "members w.npy and n.npy overlap", read_archive(patched(whole, w + 20, 200, 4)));
  TAPESTRY_REFUSED(DataLossError, "its packed data stop early", read_archive(patched(whole, w + 24, 153, 4)));
  TAPESTRY_REFUSED(DataLossError, "its checksum is wrong", read_archive(patched(whole, w + 16, 0, 4)));
  TAPESTRY_REFUSED(UnimplementedError, "is encrypted", read_archive(patched(whole, w + 8, 1, 2)));
  TAPESTRY_REFUSED(UnimplementedError, "is packed by method 12", read_archive(patched(whole, w + 10, 12, 2)));
  // Both names, here and in the member's own header.
  TAPESTRY_REFUSED(DataLossError, "has two members called w.npy",
                   read_archive(patched(patched(whole, n + 46, 'w', 1), 140 + 30, 'w', 1)));
  TAPESTRY_REFUSED(UnimplementedError, "is not an NPY file",
                   read_archive(patched(patched(whole, n + 50, 'x', 1), 140 + 34, 'x', 1)));
}

}  // namespace npy_test
