#include "tapestry/png.hpp"

#include <doctest/doctest.h>
#include <zlib.h>

#include "temporary_folder.hpp"

namespace png_test {

using namespace tapestry;

namespace {

std::uint32_t number(const Bytes& bytes, std::size_t at) {
  return std::uint32_t{bytes.at(at)} << 24 | std::uint32_t{bytes.at(at + 1)} << 16 |
         std::uint32_t{bytes.at(at + 2)} << 8 | bytes.at(at + 3);
}

struct Picture {
  std::uint32_t width = 0, height = 0;
  int color_type = -1;
  Bytes pixels;
};

/// Reads the one form of PNG that write_png writes, checking every length, name and CRC.
Picture decode(const Bytes& file) {
  REQUIRE(file.size() > 8);
  CHECK(Bytes(file.begin(), file.begin() + 8) == Bytes{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'});
  Picture picture;
  std::string names;
  Bytes raw;
  for (std::size_t at = 8; at < file.size();) {
    const std::uint32_t size = number(file, at);
    REQUIRE(at + 12 + size <= file.size());
    const std::string name(file.begin() + static_cast<std::ptrdiff_t>(at) + 4,
                           file.begin() + static_cast<std::ptrdiff_t>(at) + 8);
    const std::uint8_t* data = file.data() + at + 8;
    CHECK(crc32(0, file.data() + at + 4, size + 4) == number(file, at + 8 + size));
    if (name == "IHDR") {
      picture = {number(file, at + 8), number(file, at + 12), data[9], {}};
      CHECK(Bytes(data + 8, data + 13) == Bytes{8, data[9], 0, 0, 0});
      raw.resize(picture.height * (picture.width * (picture.color_type == 2 ? 3 : 1) + 1));
    } else if (name == "IDAT") {
      uLongf length = raw.size();
      CHECK(uncompress(raw.data(), &length, data, size) == Z_OK);
      CHECK(length == raw.size());
    }
    names += name + ' ';
    at += 12 + size;
  }
  CHECK(names == "IHDR IDAT IEND ");
  const std::size_t row = raw.size() / picture.height;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (i % row == 0) {
      CHECK(raw[i] == 0);
    } else {
      picture.pixels.push_back(raw[i]);
    }
  }
  return picture;
}

std::size_t files_in(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

}  // namespace

TEST_CASE("write_png: grey and color") {
  const TemporaryFolder folder;
  const Tensor grey = tensor<std::uint8_t>({{0, 128, 255}, {1, 2, 3}});
  write_png(folder / "grey.png", grey);
  const Picture one = decode(read_bytes(folder / "grey.png"));
  CHECK(one.width == 3);
  CHECK(one.height == 2);
  CHECK(one.color_type == 0);
  CHECK(one.pixels == grey.to_vector<std::uint8_t>());

  Bytes values(40 * 30 * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * i % 251);
  write_png(folder / "color.png", tensor(values, Shape{30, 40, 3}));
  const Picture two = decode(read_bytes(folder / "color.png"));
  CHECK(two.width == 40);
  CHECK(two.height == 30);
  CHECK(two.color_type == 2);
  CHECK(two.pixels == values);
  CHECK(files_in(folder) == 2);
}

TEST_CASE("write_png: a view") {
  const TemporaryFolder folder;
  const Tensor image = tensor<std::uint8_t>({{1, 2, 3}, {4, 5, 6}});
  write_png(folder / "view.png", image(all, range(0, 3, 2)));
  CHECK(decode(read_bytes(folder / "view.png")).pixels == Bytes{1, 3, 4, 6});
}

TEST_CASE("write_png: replaces a file, or leaves it as it was") {
  const TemporaryFolder folder;
  const Tensor image = tensor<std::uint8_t>({{7}});
  folder.write("old.png", {1, 2, 3});
  write_png(folder / "old.png", image);
  CHECK(decode(read_bytes(folder / "old.png")).pixels == Bytes{7});

  std::filesystem::create_directory(folder / "taken.png");
  CHECK_THROWS_AS(write_png(folder / "taken.png", image), FailedPreconditionError);
  CHECK_THROWS_AS(write_png(folder / "absent/picture.png", image), NotFoundError);
  CHECK(files_in(folder) == 2);
}

TEST_CASE("write_png: what is no picture") {
  const TemporaryFolder folder;
  const auto path = folder / "none.png";
  CHECK_THROWS_WITH_AS(write_png(path, tensor({{0.5}})), doctest::Contains("but got float32[1,1] at png_test.cpp:"),
                       InvalidArgumentError);
  CHECK_THROWS_AS(write_png(path, tensor<std::uint8_t>({1, 2})), InvalidArgumentError);
  CHECK_THROWS_AS(write_png(path, tensor(Bytes(4), Shape{1, 2, 2})), InvalidArgumentError);
  CHECK_THROWS_AS(write_png(path, tensor(Bytes(), Shape{0, 2})), InvalidArgumentError);
  CHECK_THROWS_AS(write_png(path, Tensor()), FailedPreconditionError);
  CHECK(files_in(folder) == 0);
}

}  // namespace png_test
