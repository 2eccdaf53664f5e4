#include <array>
#include <string_view>
#include <utility>

#include "fuzz/mutants.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test {
namespace {

using namespace std::string_literals;

std::string lowest_first(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
  return text;
}

/// A file of torch.save as its instructions, and its storages.
class TorchFile {
 public:
  explicit TorchFile(Dice& dice) : dice_(dice) {
    add("\x80\x02"s);
    dict(2);
    add(".");
  }

  /// The form that PyTorch wrote before its version 1.6.
  std::string bytes() {
    if (dice_.one_in(2)) change_instructions();
    std::string all = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}."s;
    for (const std::string& each : instructions_) all += each;
    all += "\x80\x02](";
    for (const auto& [key, data] : storages_) all += text(key);
    all += "e.";
    for (const auto& [key, data] : storages_)
      all += lowest_first(dice_.one_in(32) ? static_cast<std::uint64_t>(dice_.number()) : data.size() / 4, 8) + data;
    return dice_.one_in(32) ? dice_.damaged(all) : all;
  }

 private:
  void add(std::string instruction) { instructions_.push_back(std::move(instruction)); }
  static std::string text(const std::string& value) { return "X" + lowest_first(value.size(), 4) + value; }
  void add_text(const std::string& value) { add(text(dice_.one_in(64) ? dice_.damaged(value) : value)); }
  void add_integer(std::int64_t value) {
    if (dice_.one_in(24)) value = dice_.number();
    add(value >= 0 && value < 256 ? "K" + lowest_first(static_cast<std::uint64_t>(value), 1)
                                  : "\x8a\x08" + lowest_first(static_cast<std::uint64_t>(value), 8));
  }
  void add_integers(const std::vector<std::int64_t>& values) {
    add("(");
    for (const std::int64_t each : values) add_integer(each);
    add("t");
  }
  void remember() {
    const std::string place = lowest_first(places_++ % 256, 1);
    add("q" + (dice_.one_in(8) ? lowest_first(dice_.below(8), 1) : place));
  }

  void dict(int depth) {
    if (dice_.one_in(2)) {
      add("}");
    } else {
      add("ccollections\nOrderedDict\n");
      add(")");
      add("R");
    }
    remember();
    add("(");
    for (std::size_t i = dice_.below(4); i > 0; --i) {
      if (dice_.one_in(4))
        add_integer(static_cast<std::int64_t>(i));
      else
        add_text("k" + std::to_string(i));
      if (depth > 0 && dice_.one_in(3))
        dict(depth - 1);
      else if (dice_.one_in(6))
        add(dice_.one_in(2) ? "N" : "h" + lowest_first(dice_.below(4), 1));
      else
        tensor();
    }
    add("u");
  }

  void tensor() {
    const bool is_parameter = dice_.one_in(4);
    if (is_parameter) {
      add("ctorch._utils\n_rebuild_parameter\n");
      add("(");
    }
    constexpr auto types = std::to_array<std::string_view>({"Float", "Int", "Float", "Double", "Bool", "ComplexFloat"});
    std::vector<std::int64_t> sizes, strides;
    std::int64_t count = 1;
    for (std::size_t i = dice_.below(4); i > 0; --i) {
      sizes.push_back(static_cast<std::int64_t>(1 + dice_.below(3)));
      strides.push_back(dice_.one_in(4) ? 0 : count);
      count *= sizes.back();
    }
    if (storages_.empty() || !dice_.one_in(4))
      storages_.emplace_back(std::to_string(storages_.size()), std::string(static_cast<std::size_t>(count) * 4, '?'));
    add("ctorch._utils\n_rebuild_tensor_v2\n");
    add("(");
    add("(");
    add_text("storage");
    add("ctorch\n" + std::string(dice_.one_in(4) ? dice_.of(types) : types[0]) + "Storage\n");
    add_text(storages_.back().first);
    add_text("cpu");
    add_integer(static_cast<std::int64_t>(storages_.back().second.size() / 4));
    add("N");
    add("t");
    add("Q");
    add_integer(dice_.one_in(8) ? 1 : 0);
    add_integers(sizes);
    add_integers(strides);
    add("\x89");
    add("t");
    add("R");
    remember();
    if (!is_parameter) return;
    add("\x88");
    add("t");
    add("R");
  }

  void change_instructions() {
    for (std::size_t count = 1 + dice_.below(3); count > 0 && !instructions_.empty(); --count) {
      const auto at = instructions_.begin() + static_cast<std::ptrdiff_t>(dice_.below(instructions_.size()));
      switch (dice_.below(4)) {
        case 0:
          instructions_.erase(at);
          break;
        case 1:
          std::swap(*at, dice_.of(instructions_));
          break;
        case 2: {
          const std::string other = dice_.of(instructions_);
          instructions_.insert(at, other);
          break;
        }
        default:
          *at = dice_.one_in(2) ? std::string(1, static_cast<char>(dice_.below(256))) : dice_.damaged(*at);
      }
    }
  }

  Dice& dice_;
  std::vector<std::string> instructions_;
  std::vector<std::pair<std::string, std::string>> storages_;  ///< key and bytes
  std::uint64_t places_ = 0;
};

bool use_pytorch(const std::string& bytes, Dice&) {
  static const TemporaryFolder folder;
  const std::string path = folder.write("weights.pth", Bytes(bytes.begin(), bytes.end()));
  StateDict found, small;
  try {
    found = load_weights(path);
  } catch (const Error&) {
    return false;
  }
  for (const auto& [name, tensor] : found)
    if (tensor.size() < 1 << 16) small.emplace(std::to_string(small.size()), tensor);
  save(folder / "again.safetensors", small);
  return true;
}

}  // namespace

Mutants pytorch_mutants() {
  return {.name = "mutate_pytorch", .make = [](Dice& dice) { return TorchFile(dice).bytes(); }, .use = use_pytorch};
}

}  // namespace tapestry::test
