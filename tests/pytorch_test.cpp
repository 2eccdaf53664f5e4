// Files of torch.save. tests/interop/pytorch_files.py has written those in tests/golden/pytorch.

#include <bit>
#include <string_view>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/arrays/zip.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::pytorch_test {
namespace {

using namespace std::string_literals;

const std::filesystem::path golden = std::filesystem::path(GOLDEN_FILES) / "pytorch";

TemporaryFolder& folder() {
  static TemporaryFolder& made = *new TemporaryFolder;
  return made;
}

StateDict read(const std::string& name) { return load_weights((golden / name).string()); }

/// An archive with one storage of two floats, and this pickle.
std::string archive(const std::string& pickle, const std::array<float, 2>& numbers = {1, 2}) {
  io::ZipWriter writer;
  const std::array<io::Chunk, 2> chunks{std::as_bytes(std::span(pickle)), std::as_bytes(std::span(numbers))};
  writer.add("weights/data.pkl", std::span(chunks).first(1), false);
  writer.add("weights/data/0", std::span(chunks).last(1), false);
  std::string path = folder() / "weights.pt";
  writer.write(path, {});
  return path;
}

std::string text(std::string_view value) {
  return "X" + std::string{static_cast<char>(value.size()), 0, 0, 0} + std::string(value);
}
/// The instructions that make a tensor of this storage.
std::string tensor_of(const std::string& offset, const std::string& sizes, const std::string& strides,
                      const std::string& type = "Float", const std::string& count = "K\2") {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + type + "Storage\n" + text("0") +
         text("cpu") + count + "tQ" + offset + "(" + sizes + "t(" + strides + "t\x89NtR";
}
/// The same for the types whose storage is bytes, so many of them.
std::string typed_tensor_of(const std::string& offset, const std::string& sizes, const std::string& strides,
                            const std::string& type, const std::string& bytes = "K\10") {
  return "ctorch._utils\n_rebuild_tensor_v3\n((" + text("storage") + "ctorch.storage\nUntypedStorage\n" + text("0") +
         text("cpu") + bytes + "tQ" + offset + "(" + sizes + "t(" + strides + "t\x89Nctorch\n" + type + "\ntR";
}
std::string dict_of(const std::string& value) { return "\x80\x02}" + text("w") + value + "s."; }

template <class E>
void refused_pickle(std::string_view problem, const std::string& pickle) {
  CAPTURE(problem);
  const std::string path = archive(pickle);
  CHECK(message_of<E>([&] { load_weights(path); }).find(problem) != std::string::npos);
}

}  // namespace

TEST_CASE("all that torch.save makes of tensors") {
  const Tensor numbers = reshape(arange(0, 6), {2, 3}).cast(float32);
  StateDict expected{{"numbers", numbers},
                     {"transposed", transpose(numbers)},
                     {"part", tensor<float>({4, 5})},
                     {"tied", numbers},
                     {"scalar", tensor<float>(2.5)},
                     {"empty", zeros({0, 3})},
                     {"expanded", tensor<float>({{1, 2}, {1, 2}, {1, 2}})},
                     {"parameter", ones({2})},
                     {"uint8", tensor<std::uint8_t>({0, 1, 2})},
                     {"bool", tensor({false, true, true})}};
  for (const DType dtype : {float64, float32, float16, bfloat16, int64, int32})
    expected.emplace(to_string(dtype), tensor({-1, 0, 1, 2}).cast(dtype));
  for (const char* narrow : {"int16", "int8"}) expected.emplace(narrow, tensor({-1, 0, 1, 2}));
  for (const char* name : {"state.pt", "protocol_4.pt", "early.pth"}) {
    CAPTURE(name);
    CHECK(same_bits(read(name), expected));
  }
}

TEST_CASE("a checkpoint of PyTorch's: dicts in dicts, lists, and what is no tensor") {
  const Tensor momentum = ones({1});
  CHECK(same_bits(read("checkpoint.pth"), {{"model.dense.weight", tensor<float>({{0.5, 1.5}})},
                                           {"model.dense.bias", tensor<float>({2.5})},
                                           {"model.norm.weight", tensor<float>({0.5})},
                                           {"model.norm.bias", tensor<float>({-0.5})},
                                           {"model.norm.running_mean", tensor<float>({0})},
                                           {"model.norm.running_var", tensor<float>({1})},
                                           {"model.norm.num_batches_tracked", tensor<std::int64_t>(0)},
                                           {"optimizer.state.0.momentum_buffer", ones({1, 2})},
                                           {"optimizer.state.1.momentum_buffer", momentum},
                                           {"optimizer.state.2.momentum_buffer", momentum},
                                           {"optimizer.state.3.momentum_buffer", momentum},
                                           {"history.1", tensor<std::int64_t>({1, 2})},
                                           {"history.2.0", tensor(true)}}));
  check_same_bits({read("tensor.pt").at("tensor")}, {tensor<std::int64_t>({0, 1, 2})});
}

TEST_CASE("tensors are parts of storages") {
  CHECK(load_weights(archive(dict_of(tensor_of("K\0"s, "K\2", "K\1")))).at("w").to_vector<float>() ==
        std::vector<float>{1, 2});
  CHECK(load_weights(archive(dict_of(tensor_of("K\1", "K\1", "K\1")))).at("w").to_vector<float>() ==
        std::vector<float>{2});
  CHECK(load_weights(archive("\x80\x02}.")).empty());
}

TEST_CASE("tensors whose storage is bytes have a type of their own") {
  // The floats' bits are c000'0000 and 3f80'0001.
  const std::array<float, 2> numbers{-2, std::bit_cast<float>(0x3f800001)};
  const auto read = [&](const std::string& value) { return load_weights(archive(dict_of(value), numbers)).at("w"); };
  CHECK(same_bits(read(typed_tensor_of("K\0"s, "K\4", "K\1", "uint16")), tensor({0, 0xc000, 1, 0x3f80})));
  CHECK(
      same_bits(read(typed_tensor_of("K\0"s, "K\2", "K\1", "uint32")), tensor<std::int64_t>({0xc0000000, 0x3f800001})));
  // Parts, other strides, none, and two types of one storage.
  CHECK(same_bits(read(typed_tensor_of("K\1", "K\1K\2", "K\1K\2", "uint16")), tensor({{0xc000, 0x3f80}})));
  CHECK(same_bits(read(typed_tensor_of("K\0"s, "K\0"s, "K\1", "uint32")), zeros({0}, int64)));
  const StateDict both = load_weights(archive("\x80\x02}" + text("a") + typed_tensor_of("K\3", "", "", "uint16") + "s" +
                                                  text("b") + typed_tensor_of("K\1", "", "", "uint32") + "s.",
                                              numbers));
  CHECK(same_bits(both, {{"a", tensor(0x3f80)}, {"b", tensor<std::int64_t>(0x3f800001)}}));

  const auto lacks = [](std::string_view problem, const std::string& value) {
    refused_pickle<UnimplementedError>(problem, dict_of(value));
  };
  const auto damaged = [](std::string_view problem, const std::string& value) {
    refused_pickle<DataLossError>(problem, dict_of(value));
  };
  lacks("has elements of the type torch.uint64", typed_tensor_of("K\0"s, "K\1", "K\1", "uint64"));
  lacks("has elements of the type torch.float8_e5m2", typed_tensor_of("K\0"s, "K\1", "K\1", "float8_e5m2"));
  lacks("has a storage of 7 bytes for elements of the type torch.uint32",
        typed_tensor_of("K\0"s, "K\1", "K\1", "uint32", "K\7"));
  damaged("a tensor beyond its storage 0 of 4 elements", typed_tensor_of("K\0"s, "K\5", "K\1", "uint16"));
  damaged("a tensor beyond its storage 0 of 2 elements", typed_tensor_of("K\2", "K\1", "K\1", "uint32"));
  damaged("claims 12 bytes of data", typed_tensor_of("K\0"s, "K\1", "K\1", "uint32", "K\14"));
  damaged("goes on behind the 4 bytes", typed_tensor_of("K\0"s, "K\1", "K\1", "uint32", "K\4"));
  damaged("a storage of negative size", typed_tensor_of("K\0"s, "K\1", "K\1", "uint16", "J\xfe\xff\xff\xff"));
  std::string untyped = typed_tensor_of("K\0"s, "K\1", "K\1", "uint16");
  untyped.replace(untyped.find("ctorch\nuint16\n"), 14, "");
  damaged("a tensor without a type", untyped);
  untyped = typed_tensor_of("K\0"s, "K\1", "K\1", "uint16");
  untyped.replace(untyped.find("ctorch\nuint16\n"), 14, "N");
  damaged("a tensor without a type", untyped);
}

TEST_CASE("what is no plain tensor is refused by its name") {
  const auto refused_file = [](const char* name, const char* problem) {
    CAPTURE(name);
    CHECK(message_of<UnimplementedError>([&] { read(name); }).find(problem) != std::string::npos);
  };
  refused_file("module.pt", "has tensors in an object of Python's class 'torch.nn.modules.linear.Linear'");
  refused_file("sparse.pt", "has tensors in an object of Python's class 'torch._utils._rebuild_sparse_tensor'");
  refused_file("complex.pt", "has elements of the type torch.ComplexFloatStorage");
}

TEST_CASE("files of PyTorch's that lie") {
  const auto damaged = [](std::string_view problem, const std::string& value) {
    refused_pickle<DataLossError>(problem, dict_of(value));
  };
  const std::string most = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"s, minus = "J\xff\xff\xff\xff";
  damaged("a tensor beyond its storage 0 of 2 elements", tensor_of("K\0"s, "K\3", "K\1"));
  damaged("a tensor beyond its storage 0 of 2 elements", tensor_of("K\2", "K\1", "K\1"));
  damaged("a tensor of impossible sizes", tensor_of(minus, "K\1", "K\1"));
  damaged("a tensor of impossible sizes", tensor_of("K\0"s, "K\1", ""));
  damaged("a tensor of impossible sizes", tensor_of("K\0"s, most + "K\3", "K\0K\0"s));
  damaged("a tensor of impossible strides", tensor_of("K\0"s, "K\2", minus));
  damaged("a tensor of impossible strides", tensor_of("K\0"s, "K\3", most));
  damaged("claims 16 bytes of data for its shape [2]", tensor_of("K\0"s, "K\1", "K\1", "Double"));
  damaged("claims more than 2^63 bytes", tensor_of("K\0"s, "K\1", "K\1", "Float", most));
  damaged("a storage of negative size", tensor_of("K\0"s, "K\1", "K\1", "Float", minus));
  damaged("a tensor without a storage", "ctorch._utils\n_rebuild_tensor_v2\n(NK\0(t(ttR"s);
  damaged("a tensor without strides", "ctorch._utils\n_rebuild_tensor_v2\n)R");
  // A dict in itself, and a parameter of itself.
  refused_pickle<DataLossError>("too many dicts in dicts", "\x80\x02}q\0"s + text("w") + "h\0s."s);
  refused_pickle<DataLossError>("a parameter without a tensor",
                                "ctorch._utils\n_rebuild_parameter\n]q\0Rq\1h\0h\1a0."s);
  // Dicts that are twice in each other, 40 deep.
  std::string doubled = "(}q\0"s;
  for (char i = 1; i < 41; ++i) {
    const std::string before{'h', static_cast<char>(i - 1)};
    doubled += "}q"s + i + text("a") + before + "s" + text("b") + before + "s";
  }
  refused_pickle<DataLossError>("too many dicts in dicts", doubled + "l.");

  // Many names that begin with a long one.
  std::string long_names = "}X" + std::string{0, 0, 16, 0} + std::string(1 << 20, 'n') + "}(";
  for (int i = 0; i < 300; ++i) long_names += text(std::to_string(i)) + "N";
  refused_pickle<DataLossError>("names of more than 268435456 bytes", long_names + "us.");

  for (const auto& [problem, pickle] : {std::pair{"stops early", "\x80\x02}"s},
                                        {"claims a text of 4294967295 bytes", "X\xff\xff\xff\xff"s},
                                        {"is no pickle of Python's: byte 1", "t"s},
                                        {"is no pickle of Python's", "}K\1a."s},
                                        {"is no pickle of Python's", "K\1K\1."s},
                                        {"is no pickle of Python's", "h\5."s},
                                        {"is no pickle of Python's", "](K\1u."s},
                                        {"is no pickle of Python's", "\x80\x09}."s}})
    refused_pickle<DataLossError>(problem, pickle);
  refused_pickle<UnimplementedError>("has the instruction 73, which is not read", "I01\n.");
  refused_pickle<DataLossError>("has no member weights/data/1", [] {
    std::string pickle = dict_of(tensor_of("K\0"s, "K\1", "K\1"));
    pickle.replace(pickle.find(text("0")), text("0").size(), text("1"));
    return pickle;
  }());
}

TEST_CASE("damaged files of PyTorch's are refused or read") {
  const std::string whole = read_text(golden / "early.pth");
  const auto try_to_read = [](const std::string& bytes) {
    const std::string path = folder().write("damaged.pth", Bytes(bytes.begin(), bytes.end()));
    try {
      load_weights(path);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  CHECK(try_to_read(whole));
  for (std::size_t size = 0; size < whole.size(); size += 7) CHECK(!try_to_read(whole.substr(0, size)));
  int read = 0;
  for (std::size_t i = 0; i < whole.size(); i += 3) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x21);
    read += try_to_read(bytes) ? 1 : 0;
  }
  CHECK(read > 0);
}

}  // namespace tapestry::test::pytorch_test
