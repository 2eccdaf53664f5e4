#include "tapestry/data.hpp"

#include <cstdlib>
#include <numeric>

#include <doctest/doctest.h>
#include <zlib.h>

#include "temporary_folder.hpp"

namespace data_test {

using namespace tapestry;
using data::mnist;
using data::read_idx;
using data::Split;

namespace {

Bytes idx(int type, const std::vector<std::uint32_t>& sizes, const Bytes& elements) {
  Bytes bytes{0, 0, static_cast<std::uint8_t>(type), static_cast<std::uint8_t>(sizes.size())};
  for (const std::uint32_t size : sizes)
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(size >> shift));
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  return bytes;
}

Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  const int gzip_wrapper = 15 + 16;
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, gzip_wrapper, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes packed(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// What a DataLossError for these bytes says; fails the test when there is none.
std::string refusal(const Bytes& bytes) {
  const TemporaryFolder folder;
  const auto path = folder.write("file-idx", bytes);
  try {
    read_idx(path);
  } catch (const DataLossError& error) {
    CHECK(error.message().find(path.string()) == 0);
    CHECK(to_string(error.where()).find("data_test.cpp:") == 0);
    return error.message().substr(path.string().size());
  }
  FAIL("no DataLossError");
  return {};
}

/// A set in the format of MNIST: image i has the shade `i` everywhere.
void write_mnist(const TemporaryFolder& folder, const std::string& prefix, const Bytes& labels) {
  Bytes pixels;
  for (std::size_t i = 0; i < labels.size(); ++i) pixels.insert(pixels.end(), 784, static_cast<std::uint8_t>(i));
  const auto count = static_cast<std::uint32_t>(labels.size());
  folder.write(prefix + "-images-idx3-ubyte.gz", gzip(idx(8, {count, 28, 28}, pixels)));
  folder.write(prefix + "-labels-idx1-ubyte", idx(8, {count}, labels));
}

}  // namespace

TEST_CASE("read_idx: types, shapes, packed or not") {
  const TemporaryFolder folder;
  const Bytes pixels = idx(8, {2, 3}, {1, 2, 3, 4, 5, 255});
  for (const Bytes& bytes : {pixels, gzip(pixels)}) {
    const Tensor x = read_idx(folder.write("x", bytes));
    CHECK(x.dtype() == uint8);
    CHECK(x.shape() == Shape{2, 3});
    CHECK(x.to_vector<int>() == std::vector{1, 2, 3, 4, 5, 255});
  }
  const auto read = [&](int type, const Bytes& elements) {
    return read_idx(folder.write("y", idx(type, {1}, elements)));
  };
  CHECK(read(0x09, {0xFE}).item<int>() == -2);
  CHECK(read(0x0B, {0xFF, 0x00}).item<int>() == -256);
  CHECK(read(0x0C, {0x01, 0x02, 0x03, 0x04}).item<int>() == 0x01020304);
  CHECK(read(0x0D, {0x3F, 0xC0, 0, 0}).item<float>() == 1.5F);
  CHECK(read(0x0D, {0x3F, 0xC0, 0, 0}).dtype() == float32);
  CHECK(read(0x0E, {0xBF, 0xF8, 0, 0, 0, 0, 0, 0}).item<double>() == -1.5);
  CHECK(read_idx(folder.write("z", idx(8, {}, {7}))).shape() == Shape{});
  CHECK(read_idx(folder.write("z", idx(8, {0, 5}, {}))).shape() == Shape{0, 5});
}

TEST_CASE("read_idx: files that lie") {
  CHECK(refusal({}) == " is not an IDX file: it has fewer than 4 bytes; it is empty");
  CHECK(refusal({'P', 'K', 3, 4, 5}).find(" is not an IDX file: it starts with the bytes 80 75 3 4,") == 0);
  CHECK(refusal(idx(0x0A, {1}, {1})).find(" is not an IDX file") == 0);
  CHECK(refusal(idx(8, std::vector<std::uint32_t>(9, 1), {1})).find(" is not an IDX file") == 0);
  CHECK(refusal({0, 0, 8, 3, 0, 0, 0, 1, 0}) == " stops within the sizes of its 3 dimensions");
  CHECK(refusal(idx(8, {2, 3}, {1, 2, 3, 4, 5})) ==
        " stops early: its shape [2,3] needs 6 bytes of data, but there are 5");
  CHECK(refusal(idx(8, {2, 3}, {1, 2, 3, 4, 5, 6, 7})) ==
        " goes on behind the 6 bytes of data that its shape [2,3] needs");

  // Sizes that no file backs must not be allocated.
  const std::uint32_t huge = 0xFFFFFFFF;
  CHECK(refusal(idx(8, {huge, huge}, {})) == " claims more than 2^63 bytes of data");
  CHECK(refusal(idx(8, {0, huge, huge, huge}, {})) == " claims more than 2^63 bytes of data");
  CHECK(refusal(idx(0x0E, {1 << 30, 1 << 30}, {})) == " claims more than 2^63 bytes of data");
  CHECK(refusal(idx(8, {huge, 784}, {1, 2})) ==
        " claims 3367254359280 bytes of data for its shape [4294967295,784], but cannot hold more than 14");
  CHECK(refusal(gzip(idx(8, {huge, 784}, {}))).find(" claims 3367254359280 bytes of data") == 0);
}

TEST_CASE("read_idx: damaged files never pass for whole ones") {
  Bytes elements(300);
  std::iota(elements.begin(), elements.end(), std::uint8_t{0});
  const Bytes plain = idx(8, {30, 10}, elements), packed = gzip(plain);
  for (const Bytes& whole : {plain, packed})
    for (std::size_t length = 0; length < whole.size(); ++length)
      CHECK_FALSE(refusal(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))).empty());

  const TemporaryFolder folder;
  int refused = 0;
  for (std::size_t place = 0; place < packed.size(); ++place) {
    Bytes damaged = packed;
    damaged[place] ^= 0x41;
    const auto path = folder.write("damaged.gz", damaged);
    Tensor survivor;
    try {
      survivor = read_idx(path);
    } catch (const DataLossError&) {
      ++refused;
      continue;
    }
    // Some bytes of gzip's header, such as the time, mean nothing to the data.
    CHECK(place < 10);
    CHECK(survivor.to_vector<std::uint8_t>() == elements);
  }
  CHECK(refused > static_cast<int>(packed.size()) - 10);
}

TEST_CASE("read_idx: no file") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_idx(folder / "absent"), NotFoundError);
  CHECK_THROWS_AS(read_idx(folder.path()), NotFoundError);
}

TEST_CASE("mnist") {
  const TemporaryFolder folder;
  try {
    mnist(folder.path(), Split::train);
    FAIL("no NotFoundError");
  } catch (const NotFoundError& error) {
    for (const char* part : {"neither train-images-idx3-ubyte.gz nor train-images-idx3-ubyte", "9912422 bytes",
                             "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c",
                             "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", "yann.lecun.com"})
      CHECK(error.message().find(part) != std::string::npos);
    CHECK(error.message().find(folder.path().string()) != std::string::npos);
  }

  write_mnist(folder, "train", {3, 9, 0});
  const data::Dataset train = mnist(folder.path(), Split::train);
  CHECK(train.size() == 3);
  CHECK(train.x.shape() == Shape{3, 784});
  CHECK(train.x.dtype() == float32);
  CHECK(train.y.dtype() == int64);
  CHECK(train.y.to_vector<int>() == std::vector{3, 9, 0});
  CHECK(train.x(2, 783).item<float>() == 2.0F / 255.0F);
  CHECK_THROWS_AS(mnist(folder.path(), Split::test), NotFoundError);

  write_mnist(folder, "t10k", {1, 10});
  CHECK_THROWS_WITH_AS(mnist(folder.path(), Split::test),
                       doctest::Contains("holds the label 10 at index 1, but the labels of MNIST are 0 to 9"),
                       DataLossError);
  folder.write("t10k-labels-idx1-ubyte", idx(8, {3}, {1, 2, 3}));
  CHECK_THROWS_WITH_AS(mnist(folder.path(), Split::test), doctest::Contains("the 2 images need as many labels"),
                       DataLossError);
  folder.write("t10k-images-idx3-ubyte", idx(8, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));
  CHECK_THROWS_WITH_AS(mnist(folder.path(), Split::test), doctest::Contains("holds uint8[2,4] where MNIST has images"),
                       DataLossError);
}

TEST_CASE("mnist: the original files" * doctest::skip(std::getenv("TAPESTRY_MNIST") == nullptr)) {
  const char* folder = std::getenv("TAPESTRY_MNIST");
  REQUIRE(folder);
  const data::Dataset train = mnist(folder, Split::train);
  std::vector<int> counts(10);
  for (const int digit : train.y.to_vector<int>()) ++counts[static_cast<std::size_t>(digit)];
  CHECK(counts == std::vector{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});
  const auto pixels = train.x.to_vector<float>();
  CHECK(std::accumulate(pixels.begin(), pixels.end(), 0.0) / static_cast<double>(pixels.size()) ==
        doctest::Approx(0.13066).epsilon(1e-4));
  CHECK(mnist(std::getenv("TAPESTRY_MNIST"), Split::test).size() == 10000);
}

}  // namespace data_test
