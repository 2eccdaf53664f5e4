#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "core/make_tensor.hpp"
#include "tapestry/data/arrays.hpp"
#include "tapestry/data/dataset.hpp"

namespace tapestry::data {
namespace {

namespace fs = std::filesystem;

struct File {
  const char* name;
  int bytes;
  const char* md5;
  const char* sha256;
};

/// The files as they were published, packed; in the order of Split, images first.
constexpr std::array<File, 4> files{{
    {"train-images-idx3-ubyte", 9'912'422, "f68b3c2dcbeaaa9fbdd348bbdeb94873",
     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
    {"train-labels-idx1-ubyte", 28'881, "d53e105ee54ea40749a09fcbcd1e9432",
     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
    {"t10k-images-idx3-ubyte", 1'648'877, "9fb629c4189551a2d022fa330f9573f3",
     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
    {"t10k-labels-idx1-ubyte", 4'542, "ec29112dd5afa0611ce80d1b7f02629c",
     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
}};

[[noreturn]] void refuse_missing(const fs::path& dir, const File& missing, Where where) {
  std::error_code error;  // an empty name is that of the current folder
  const fs::path folder = fs::absolute(dir.empty() ? "." : dir, error);
  std::string text = detail::join("There is neither ", missing.name, ".gz nor ", missing.name, " in the folder ",
                                  folder.string(), ".\nThe MNIST database consists of these files:\n");
  for (const File& file : files)
    text += detail::join("  ", file.name, ".gz  ", file.bytes, " bytes\n    md5    ", file.md5, "\n    sha256 ",
                         file.sha256, '\n');
  text +=
      "Its authors published it at http://yann.lecun.com/exdb/mnist/; other sites mirror the same files. Download them "
      "into the folder, packed or unpacked";
  throw NotFoundError(text, where);
}

fs::path find(const fs::path& dir, const File& file, Where where) {
  for (const char* ending : {"", ".gz"}) {
    std::error_code error;
    fs::path path = dir / (std::string(file.name) + ending);
    if (fs::is_regular_file(path, error)) return path;
  }
  refuse_missing(dir, file, where);
}

/// uint8 [n,28,28] to float32 [n,784], 255 to 1.
Tensor pixels(const Tensor& images) {
  std::array<float, 256> shade;
  for (std::size_t i = 0; i < shade.size(); ++i) shade[i] = static_cast<float>(i) / 255.0F;
  Tensor x = detail::make_tensor(float32, {images.shape().sizes()[0], 784}, cpu());
  const auto* from = images.data<std::uint8_t>();
  std::transform(from, from + images.size(), detail::mutable_data<float>(x), [&](std::uint8_t i) { return shade[i]; });
  return x;
}

}  // namespace

Dataset mnist(const std::string& dir, Split split, Where where) {
  const std::size_t first = split == Split::train ? 0 : 2;
  const fs::path image_path = find(dir, files[first], where), label_path = find(dir, files[first + 1], where);
  const Tensor images = read_idx(image_path, where), labels = read_idx(label_path, where);

  const Shape expected{images.rank() == 3 ? images.shape().sizes()[0] : -1, 28, 28};
  if (images.dtype() != uint8 || images.shape() != expected)
    throw DataLossError(detail::join(image_path.string(), " holds ", images.dtype(), images.shape(),
                                     " where MNIST has images, uint8[?,28,28]"),
                        where);
  if (labels.dtype() != uint8 || labels.shape() != Shape{images.shape().sizes()[0]})
    throw DataLossError(
        detail::join(label_path.string(), " holds ", labels.dtype(), labels.shape(), " where the ",
                     images.shape().sizes()[0], " images need as many labels, uint8[", images.shape().sizes()[0], ']'),
        where);
  const auto digits = labels.to_vector<std::int64_t>();
  const auto wrong = std::find_if(digits.begin(), digits.end(), [](std::int64_t digit) { return digit > 9; });
  if (wrong != digits.end())
    throw DataLossError(detail::join(label_path.string(), " holds the label ", *wrong, " at index ",
                                     wrong - digits.begin(), ", but the labels of MNIST are 0 to 9"),
                        where);
  return {pixels(images), tensor(digits)};
}

}  // namespace tapestry::data
