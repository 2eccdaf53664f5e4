#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include <zlib.h>

#include "fuzz/mutants.hpp"
#include "fuzz/readers.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test {
namespace {

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
  return text;
}

/// A tensor as a file describes it, which may be a lie.
struct Array {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> sizes;
  std::string data;
};

Array array(const std::string& name, const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  std::string data(static_cast<std::size_t>(dense.size()) * size_of(dense.dtype()), '\0');
  if (!data.empty()) std::memcpy(data.data(), dense.impl().data, data.size());
  return {name, dense.dtype(), dense.shape().to_vector(), data};
}

std::vector<Array> some_arrays(Dice& dice) {
  constexpr auto types = std::to_array<DType>({boolean, uint8, int32, int64, float16, float32, float64});
  std::vector<Array> arrays;
  for (std::size_t i = dice.below(5); i > 0; --i) {
    std::vector<std::int64_t> sizes;
    for (std::size_t k = dice.below(4); k > 0; --k) sizes.push_back(static_cast<std::int64_t>(dice.below(4)));
    const Shape shape(sizes);
    const Tensor counted = reshape(arange(0, shape.size(), {.dtype = int64}), shape);
    arrays.push_back(array("a" + std::to_string(i), counted.cast(dice.of(types))));
  }
  return arrays;
}

void change(Array& array, Dice& dice) {
  switch (dice.below(4)) {
    case 0:
      array.name = dice.damaged(array.name);
      return;
    case 1:
      array.data = dice.damaged(array.data);
      return;
    case 2:
      array.dtype = static_cast<DType>(1 + dice.below(8));
      return;
    default:
      if (array.sizes.empty() || dice.one_in(4)) {
        array.sizes.insert(array.sizes.end(), 1 + dice.below(dice.one_in(8) ? 12 : 3), dice.number());
      } else {
        dice.of(array.sizes) = dice.number();
      }
  }
}

// ---- NPZ ----------------------------------------------------------------------------------------------------------

std::string npy(const Array& array, Dice& dice) {
  constexpr std::string_view types[] = {"<V2", "|b1", "|u1", "<i4", "<i8", "<f2", "<V2", "<f4", "<f8"};
  constexpr std::string_view others[] = {">f4", "<u4", ">i8", "<c8", "|O", "|S3", "<f16", "=i2", ""};
  std::string type(types[static_cast<std::size_t>(array.dtype)]);
  if (dice.one_in(16)) type = dice.of(others);
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + (dice.one_in(3) ? "True" : "False") + ", 'shape': (";
  for (const std::int64_t size : array.sizes) header += std::to_string(size) + ",";
  header += "), }\n";
  if (dice.one_in(8)) header = dice.damaged(header);
  const int version = dice.one_in(16) ? static_cast<int>(dice.below(5)) : 1 + static_cast<int>(dice.below(3));
  const std::uint64_t length = dice.one_in(16) ? static_cast<std::uint64_t>(dice.number()) : header.size();
  return "\x93NUMPY" + std::string{static_cast<char>(version), '\0'} + little_endian(length, version == 1 ? 2 : 4) +
         header + array.data;
}

std::string deflated(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, static_cast<uLong>(bytes.size())) + 16, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// What comes out of damaged data, as far as they go.
std::string inflated(const std::string& packed) {
  z_stream stream{};
  inflateInit2(&stream, -MAX_WBITS);
  std::string bytes(1 << 16, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  inflate(&stream, Z_FINISH);
  bytes.resize(stream.total_out);
  inflateEnd(&stream);
  return bytes;
}

/// The headers of a member have the checksum and the size of what comes out, so that a reader goes on to that.
struct Member {
  std::string name, packed;
  std::uint32_t method, checksum;
  std::uint64_t size;
};

Member member(const std::string& name, std::string bytes, Dice& dice) {
  const bool packs = dice.one_in(2);
  std::string packed = packs ? deflated(bytes) : bytes;
  if (dice.one_in(8)) {
    packed = dice.damaged(packed);
    bytes = packs ? inflated(packed) : packed;
  }
  const auto* data = reinterpret_cast<const Bytef*>(bytes.data());
  return {name, packed, packs ? 8U : 0U, static_cast<std::uint32_t>(crc32_z(0, data, bytes.size())), bytes.size()};
}

std::string numbers_of(const Member& each) {
  return little_endian(each.method, 2) + std::string(4, '\0') + little_endian(each.checksum, 4) +
         little_endian(each.packed.size(), 4) + little_endian(each.size, 4) + little_endian(each.name.size(), 2);
}

std::string archive(const std::vector<Member>& members, Dice& dice) {
  std::string bytes, directory;
  for (const Member& each : members) {
    const std::uint64_t place = dice.one_in(64) ? static_cast<std::uint64_t>(dice.number()) : bytes.size();
    bytes += "PK\3\4" + little_endian(20, 2) + std::string(2, '\0') + numbers_of(each) + std::string(2, '\0') +
             each.name + each.packed;
    directory += "PK\1\2" + little_endian(20, 2) + little_endian(20, 2) + std::string(2, '\0') + numbers_of(each) +
                 std::string(12, '\0') + little_endian(place, 4) + each.name;
  }
  if (dice.one_in(32)) directory = dice.damaged(directory);
  const std::uint64_t begin = bytes.size(), count = members.size();
  bytes += directory + "PK\5\6" + std::string(4, '\0') + little_endian(count, 2) + little_endian(count, 2) +
           little_endian(directory.size(), 4) + little_endian(begin, 4) + std::string(2, '\0');
  return dice.one_in(64) ? dice.damaged(bytes) : bytes;
}

std::string make_npz(Dice& dice) {
  std::vector<Array> arrays = some_arrays(dice);
  std::vector<Member> members;
  for (Array& each : arrays) {
    if (dice.one_in(4)) change(each, dice);
    members.push_back(member(each.name + ".npy", npy(each, dice), dice));
    if (dice.one_in(16)) members.back().size = static_cast<std::uint64_t>(dice.number());
  }
  if (!members.empty() && dice.one_in(32)) members.push_back(members.front());
  return archive(members, dice);
}

// ---- Safetensors ----------------------------------------------------------------------------------------------------

/// What stands in a header in the place of a number: another one, or none at all.
std::string wrong_number(Dice& dice) {
  constexpr std::string_view others[] = {"1.5", "1e400", "-0", "\"1\"", "null", "[1]", "{}", "18446744073709551616",
                                         ""};
  return dice.one_in(4) ? std::string(dice.of(others)) : std::to_string(dice.number());
}

/// At most one of the arrays is described by wrong offsets, or by what is no number.
std::string safetensors(const std::vector<Array>& arrays, Dice& dice) {
  constexpr std::string_view types[] = {"U16", "BOOL", "U8", "I32", "I64", "F16", "BF16", "F32", "F64"};
  std::string header = "{\"__metadata__\":{\"format\":\"tapestry-checkpoint\"}", data;
  const std::size_t liar = dice.one_in(3) ? dice.below(arrays.size() + 1) : arrays.size();
  for (const Array& each : arrays) {
    const std::uint64_t begin = data.size(), end = begin + each.data.size();
    const auto number = [&, lies = &each == arrays.data() + liar](std::int64_t value) {
      return lies && dice.one_in(3) ? wrong_number(dice) : std::to_string(value);
    };
    data += each.data;
    header += ",\"" + each.name + "\":{\"dtype\":\"" + std::string(types[static_cast<std::size_t>(each.dtype)]) +
              "\",\"shape\":[";
    for (std::size_t i = 0; i < each.sizes.size(); ++i) header += (i > 0 ? "," : "") + number(each.sizes[i]);
    header += "],\"data_offsets\":[" + number(static_cast<std::int64_t>(begin)) + "," +
              number(static_cast<std::int64_t>(end)) + "]}";
  }
  header += "}";
  if (dice.one_in(16)) header = dice.damaged(header);
  if (dice.one_in(64)) header = std::string(dice.below(5000), '[') + header;
  const std::uint64_t length = dice.one_in(32) ? static_cast<std::uint64_t>(dice.number()) : header.size();
  const std::string bytes = little_endian(length, 8) + header + data;
  return dice.one_in(64) ? dice.damaged(bytes) : bytes;
}

std::string make_safetensors(Dice& dice) {
  std::vector<Array> arrays = some_arrays(dice);
  for (Array& each : arrays)
    if (dice.one_in(4)) change(each, dice);
  if (!arrays.empty() && dice.one_in(32)) arrays.push_back(arrays.front());
  return safetensors(arrays, dice);
}

// ---- Checkpoints ----------------------------------------------------------------------------------------------------

/// A training that a checkpoint can go on with.
struct Training {
  nn::Sequential net{nn::Dense(3, 4), nn::BatchNorm(4), nn::Dense(4, 2)};
  train::AdamOptimizer optimizer{0.01};
  std::int64_t steps = 0;
  Variable level{1.5F};

  Checkpoint checkpoint() {
    return {.model = &net, .optimizer = &optimizer, .step = &steps, .more = {{"level", &level}}};
  }
  void step() {
    GradientTape tape;
    const Tensor loss = reduce_mean(square(net(ones({2, 3}))));
    const std::vector<Variable> variables = net.parameters();
    optimizer.apply_gradients(tape.gradient(loss, variables), variables);
    ++steps;
  }
  StateDict state() {
    StateDict all;
    const auto add = [&](const std::string& part, const StateDict& state) {
      for (const auto& [name, tensor] : state) all.emplace(part + "." + name, tensor);
    };
    add("model", net.state_dict());
    add("optimizer", optimizer.state_dict());
    add("step", {{"", tensor(steps)}});
    add("level", {{"", level.value()}});
    return all;
  }
};

const std::vector<Array>& sound_checkpoint() {
  static const std::vector<Array>& arrays = *new std::vector<Array>([] {
    const TemporaryFolder folder;
    Training training;
    for (int i = 0; i < 2; ++i) training.step();
    StateDict tensors;
    load(training.checkpoint().save(folder.path()), tensors);
    std::vector<Array> made;
    for (const auto& [name, tensor] : tensors) made.push_back(array(name, tensor));
    return made;
  }());
  return arrays;
}

/// Most are whole files that say something else: other names, shapes of as many elements, other numbers.
std::string make_checkpoint(Dice& dice) {
  std::vector<Array> arrays = sound_checkpoint();
  for (std::size_t count = 1 + dice.below(3); count > 0; --count) {
    const std::size_t at = dice.below(arrays.size());
    Array& each = arrays[at];
    switch (dice.below(7)) {
      case 0:
        std::swap(each.name, dice.of(arrays).name);
        break;
      case 1:
        arrays.erase(arrays.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 2:
        std::reverse(each.sizes.begin(), each.sizes.end());
        break;
      case 3:
        each.sizes.push_back(1);
        break;
      case 4:
        if (!each.data.empty()) each.data[dice.below(each.data.size())] = static_cast<char>(dice.one_in(2) ? 255 : 127);
        break;
      case 5: {
        Array other = dice.of(arrays);
        other.name = each.name;
        each = other;
        break;
      }
      default:
        change(each, dice);
    }
    if (arrays.empty()) break;
  }
  return safetensors(arrays, dice);
}

bool use_checkpoint(const std::string& bytes, Dice& dice) {
  static const TemporaryFolder folder;
  static Training& training = *new Training;
  static const std::string sound = [] {
    training.step();
    return training.checkpoint().save(folder / "sound");
  }();
  const bool named = dice.one_in(2);
  const std::string path = folder.write("checkpoint-7.safetensors", Bytes(bytes.begin(), bytes.end()));
  const StateDict before = training.state();
  try {
    training.checkpoint().restore(named ? path : folder.path().string());
  } catch (const Error&) {
    const StateDict after = training.state();
    const bool same = std::equal(before.begin(), before.end(), after.begin(), after.end(), [](auto& a, auto& b) {
      return a.first == b.first && a.second.spec() == b.second.spec() &&
             array("", a.second).data == array("", b.second).data;
    });
    if (!same) throw std::logic_error("a checkpoint that was refused has changed the training");
    return false;
  }
  training.step();
  training.checkpoint().restore(sound);
  return true;
}

}  // namespace

Mutants npz_mutants() {
  return {.name = "mutate_npz", .make = make_npz, .use = [](const std::string& bytes, Dice&) {
            return read_npz(std::as_bytes(std::span(bytes)));
          }};
}

Mutants safetensors_mutants() {
  return {.name = "mutate_safetensors", .make = make_safetensors, .use = [](const std::string& bytes, Dice&) {
            return read_safetensors(std::as_bytes(std::span(bytes)));
          }};
}

Mutants checkpoint_mutants() { return {.name = "mutate_checkpoint", .make = make_checkpoint, .use = use_checkpoint}; }

}  // namespace tapestry::test
