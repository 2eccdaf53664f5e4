#include <cmath>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "refused.hpp"
#include "state_samples.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/save.hpp"
#include "temporary_folder.hpp"

namespace safetensors_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

Bytes file(std::string_view header, const Bytes& data = {}, std::int64_t claimed = -1) {
  Bytes bytes;
  const auto length = static_cast<std::uint64_t>(claimed < 0 ? static_cast<std::int64_t>(header.size()) : claimed);
  for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<std::uint8_t>(length >> shift));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

/// {"a": {...}} with one tensor.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

const TemporaryFolder& folder() {
  static const TemporaryFolder instance;
  return instance;
}

StateDict read(const Bytes& bytes, Where where = Where::here()) {
  StateDict tensors;
  load(folder().write("x.safetensors", bytes), tensors, where);
  return tensors;
}

StateDict samples() {
  StateDict tensors = state_samples();
  tensors["name \"in\" many\nlanguages \xC3\xA4\xE2\x82\xAC"] = ones({2, 1, 2});
  return tensors;
}

/// A model of a user's own.
struct Line {
  Tensor slope, offset;
  StateDict state_dict() const { return {{"slope", slope}, {"offset", offset}}; }
  void load_state_dict(const StateDict& tensors) {
    slope = tensors.at("slope");
    offset = tensors.at("offset");
  }
};

}  // namespace

TEST_CASE("save and load: what is written can be read") {
  for (const std::string name : {"x.safetensors", "x.npz"}) {
    const std::string path = folder() / name;
    const StateDict tensors = samples();
    save(path, tensors);
    StateDict back{{"gone", tensor(1)}};
    load(path, back);
    REQUIRE(back.size() == tensors.size());
    for (const auto& each : tensors) CHECK_MESSAGE(same_bits(back.at(each.first), each.second), each.first);
    const Bytes first = read_bytes(path);
    save(path, tensors);
    CHECK(read_bytes(path) == first);

    save(path, {});
    load(path, back);
    CHECK(back.empty());

    save(path, Line{tensor(2.0), tensor(1.0)});
    Line line;
    load(path, line);
    CHECK(line.slope.item<float>() == 2);
    CHECK(line.offset.item<float>() == 1);
  }
}

TEST_CASE("safetensors: the bytes are those of Hugging Face's library") {
  const std::string path = folder() / "x.safetensors";
  save(path, {{"b", tensor(true)}, {"w", tensor<float>({1, 2})}}, {{"format", "pt"}});
  // Wide elements first; the header is padded to a multiple of 8 bytes.
  CHECK(read_bytes(path) ==
        file(R"({"__metadata__":{"format":"pt"},"b":{"data_offsets":[8,9],"dtype":"BOOL","shape":[]},)"
             R"("w":{"data_offsets":[0,8],"dtype":"F32","shape":[2]}}      )",
             {0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 1}));
  CHECK(load_metadata(path) == Metadata{{"format", "pt"}});
}

TEST_CASE("safetensors: element types") {
  const auto check = [](const char* type, const Bytes& data, DType dtype, double value) {
    CAPTURE(std::string(type));
    const StateDict tensors = read(file(one(type, "[]", "[0," + std::to_string(data.size()) + "]"), data));
    CHECK(tensors.at("a").dtype() == dtype);
    CHECK(tensors.at("a").item<double>() == value);
  };
  check("BOOL", {7}, boolean, 1);
  check("U8", {255}, uint8, 255);
  check("I8", {255}, int32, -1);
  check("U16", {255, 255}, int32, 65535);
  check("I16", {255, 255}, int32, -1);
  check("U32", {255, 255, 255, 255}, int64, 4294967295);
  check("I32", {255, 255, 255, 255}, int32, -1);
  check("I64", {2, 1, 0, 0, 0, 0, 0, 0}, int64, 258);
  check("F16", {0x00, 0x3E}, float16, 1.5);
  check("BF16", {0xC0, 0x3F}, bfloat16, 1.5);
  check("F32", {0, 0, 0xC0, 0x3F}, float32, 1.5);
  check("F64", {0, 0, 0, 0, 0, 0, 0xF8, 0xBF}, float64, -1.5);
}

TEST_CASE("safetensors: files that lie") {
  TAPESTRY_REFUSED(DataLossError, "fewer than 8 bytes", read({1, 2}));
  TAPESTRY_REFUSED(DataLossError, "claims a header of 3 bytes", read(file("{}", {}, 3)));
  TAPESTRY_REFUSED(DataLossError, "claims a header of 18446744073709551615 bytes", read(Bytes(20, 255)));
  TAPESTRY_REFUSED(DataLossError, "does not start with {", read(file("")));
  TAPESTRY_REFUSED(DataLossError, "does not start with {", read(file("[]")));
  for (const char* header : {"{", "{} x", "{\"a\":}", "{\"a\xFF\":{}}", "{\"a\":1e999}", "{\"\\ud800\":{}}"}) {
    CAPTURE(std::string(header));
    TAPESTRY_REFUSED(DataLossError, "has a header that is not JSON", read(file(header)));
  }
  for (const char* header : {R"({"a":1})", R"({"a":[1]})", R"({"a":"b"})", R"({"a":{"shape":{}}})",
                             R"({"a":{"shape":[[]]}})", R"({"a":{"shape":[{}]}})"}) {
    CAPTURE(std::string(header));
    TAPESTRY_REFUSED(DataLossError, "has a header that is no table of tensors", read(file(header)));
  }
  const std::string deep = R"({"a":{"shape":)" + std::string(100'000, '[');
  TAPESTRY_REFUSED(DataLossError, "has a header that is no table of tensors", read(file(deep)));

  const std::string whole = R"("dtype":"U8","shape":[1],"data_offsets":[0,1])";
  for (const std::string& entry :
       {std::string(), whole + R"(,"more":1)", whole + R"(,"dtype":"U8")", std::string(R"("dtype":"U8","shape":[1])"),
        std::string(R"("dtype":"U8","shape":1,"data_offsets":[0,1])"),
        std::string(R"("dtype":1,"shape":[1],"data_offsets":[0,1])"),
        std::string(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"),
        std::string(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"),
        std::string(R"("dtype":"U8","shape":["1"],"data_offsets":[0,1])"),
        std::string(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1])"),
        std::string(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])")}) {
    CAPTURE(entry);
    TAPESTRY_REFUSED(DataLossError, "tensor a is not described as it must be",
                     read(file("{\"a\":{" + entry + "}}", {7})));
  }
  TAPESTRY_REFUSED(DataLossError, "has two tensors called a",
                   read(file("{\"a\":{" + whole + "},\"a\":{" + whole + "}}", {7})));
  TAPESTRY_REFUSED(DataLossError, "metadata that are not texts", read(file(R"({"__metadata__":{"a":1}})")));

  TAPESTRY_REFUSED(DataLossError, "begins at byte 1 of the data, not at 0",
                   read(file(one("U8", "[1]", "[1,2]"), {1, 2})));
  TAPESTRY_REFUSED(
      DataLossError, "begins at byte 0 of the data, not at 1",
      read(file("{\"a\":{" + whole + R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", {1, 2})));
  TAPESTRY_REFUSED(DataLossError, "has 2 bytes of data for its shape [1], which needs 1",
                   read(file(one("U8", "[1]", "[0,2]"), {1, 2})));
  TAPESTRY_REFUSED(DataLossError, "has 0 bytes of data for its shape [], which needs 4",
                   read(file(one("F32", "[]", "[0,0]"))));
  TAPESTRY_REFUSED(DataLossError, "has 3 bytes of data, but its tensors need 4",
                   read(file(one("F32", "[]", "[0,4]"), {1, 2, 3})));
  TAPESTRY_REFUSED(DataLossError, "has 5 bytes of data, but its tensors need 4",
                   read(file(one("F32", "[]", "[0,4]"), {1, 2, 3, 4, 5})));
  TAPESTRY_REFUSED(DataLossError, "claims more than 2^63 bytes",
                   read(file(one("F32", "[4294967296,4294967296]", "[0,0]"))));
  TAPESTRY_REFUSED(DataLossError, "claims more than 2^63 bytes",
                   read(file(one("F32", "[0,9223372036854775807]", "[0,0]"))));
  TAPESTRY_REFUSED(UnimplementedError, "'F8_E4M3', which no dtype can hold",
                   read(file(one("F8_E4M3", "[1]", "[0,1]"), {1})));
  TAPESTRY_REFUSED(UnimplementedError, "more than 8 dimensions",
                   read(file(one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), {1})));
}

TEST_CASE("safetensors: damaged files never crash the reader, and never change their shape unseen") {
  save(folder() / "whole.safetensors", {{"a", tensor<float>({{1, 2}, {3, 4}})}, {"b", tensor(true)}});
  const Bytes whole = read_bytes(folder() / "whole.safetensors");
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK_THROWS_AS(read(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))), DataLossError);
  for (std::size_t place = 0; place < whole.size(); ++place)
    for (const int bit : {1, 8, 64}) {
      Bytes damaged = whole;
      damaged[place] = static_cast<std::uint8_t>(damaged[place] ^ bit);
      try {
        // What survives has other elements, another name or other types of the same sizes.
        const StateDict survivor = read(damaged);
        CHECK(survivor.size() == 2);
      } catch (const Error&) {
        CHECK(place < whole.size() - 17);
      }
    }
}

TEST_CASE("save and load: what is refused") {
  StateDict tensors{{"kept", tensor(1)}};
  const std::string path = folder() / "x.safetensors";
  TAPESTRY_REFUSED(InvalidArgumentError, "end in .safetensors or .npz, not .pt", save(folder() / "x.pt", tensors));
  TAPESTRY_REFUSED(InvalidArgumentError, "end in .safetensors or .npz", load(folder() / "x", tensors));
  TAPESTRY_REFUSED(InvalidArgumentError, "cannot hold metadata", save(folder() / "x.npz", tensors, {{"a", "b"}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "There is no tensor to save as w", save(path, {{"w", Tensor{}}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "No tensor can be called __metadata__",
                   save(path, {{"__metadata__", tensor(1)}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "must be UTF-8", save(path, {{"\xFF", tensor(1)}}));
  TAPESTRY_REFUSED(NotFoundError, "There is no file", load(folder() / "absent.safetensors", tensors));
  TAPESTRY_REFUSED(NotFoundError, "Cannot write", save(folder() / "no/x.safetensors", tensors));
  CHECK(tensors.at("kept").item<int>() == 1);
}

}  // namespace safetensors_test
