// Event files, read back by a decoder of the test's own.

#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include <doctest/doctest.h>
#include <protozero/pbf_reader.hpp>

#include "io/crc32c.hpp"
#include "io/events/run_metadata.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::events_test {
namespace {

using protozero::pbf_reader;

struct Value {
  std::string tag, image, text_plugin, text;
  std::optional<float> scalar;
  std::vector<double> limits, counts;
  std::array<double, 5> histogram{};  ///< min, max, num, sum, sum of squares
  std::array<std::int64_t, 3> size{};
};

struct Event {
  double time = 0;
  std::int64_t step = 0;
  std::string version, graph, metadata_tag, metadata;
  std::vector<Value> values;
};

Value read_value(pbf_reader reader) {
  Value value;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        value.tag = reader.get_string();
        break;
      case 2:
        value.scalar = reader.get_float();
        break;
      case 4: {
        pbf_reader image = reader.get_message();
        while (image.next()) {
          if (image.tag() == 4) {
            value.image = image.get_string();
          } else {
            std::int64_t& size = value.size.at(image.tag() - 1);
            size = image.get_int64();
          }
        }
        break;
      }
      case 5: {
        pbf_reader histogram = reader.get_message();
        while (histogram.next()) {
          if (histogram.tag() <= 5) {
            double& number = value.histogram.at(histogram.tag() - 1);
            number = histogram.get_double();
          } else {
            std::vector<double>& numbers = histogram.tag() == 6 ? value.limits : value.counts;
            for (const double each : histogram.get_packed_double()) numbers.push_back(each);
          }
        }
        break;
      }
      case 8: {
        pbf_reader tensor = reader.get_message();
        while (tensor.next()) {
          if (tensor.tag() == 8) {
            value.text = tensor.get_string();
          } else {
            tensor.skip();
          }
        }
        break;
      }
      case 9: {
        pbf_reader metadata = reader.get_message();
        REQUIRE(metadata.next(1));
        pbf_reader plugin = metadata.get_message();
        REQUIRE(plugin.next(1));
        value.text_plugin = plugin.get_string();
        break;
      }
      default:
        FAIL("a value has the field ", reader.tag());
    }
  }
  return value;
}

Event read_event(const std::string& bytes) {
  Event event;
  pbf_reader reader(bytes);
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        event.time = reader.get_double();
        break;
      case 2:
        event.step = reader.get_int64();
        break;
      case 3:
        event.version = reader.get_string();
        break;
      case 4:
        event.graph = reader.get_string();
        break;
      case 5: {
        pbf_reader summary = reader.get_message();
        while (summary.next(1)) event.values.push_back(read_value(summary.get_message()));
        break;
      }
      case 8: {
        pbf_reader tagged = reader.get_message();
        REQUIRE(tagged.next(1));
        event.metadata_tag = tagged.get_string();
        REQUIRE(tagged.next(2));
        event.metadata = tagged.get_string();
        break;
      }
      default:
        FAIL("an event has the field ", reader.tag());
    }
  }
  return event;
}

/// The CRC bit by bit, unlike the library's.
std::uint32_t slow_crc(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82F63B78U & (0U - (crc & 1)));
  }
  return ~crc;
}
std::uint32_t mask(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

std::vector<Event> events_in(const std::filesystem::path& path) {
  const Bytes file = read_bytes(path);
  const std::string bytes(file.begin(), file.end());
  std::vector<Event> events;
  for (std::size_t at = 0; at < bytes.size();) {
    REQUIRE(at + 12 <= bytes.size());
    std::uint64_t length = 0;
    std::uint32_t length_crc = 0, data_crc = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    std::memcpy(&length_crc, bytes.data() + at + 8, 4);
    CHECK(length_crc == mask(slow_crc(bytes.substr(at, 8))));
    REQUIRE(at + 16 + length <= bytes.size());
    const std::string data = bytes.substr(at + 12, length);
    std::memcpy(&data_crc, bytes.data() + at + 12 + length, 4);
    CHECK(data_crc == mask(slow_crc(data)));
    events.push_back(read_event(data));
    at += 16 + length;
  }
  return events;
}

}  // namespace

TEST_CASE("crc32c") {
  CHECK(io::crc32c("123456789") == 0xE3069283U);
  CHECK(io::crc32c("") == 0U);
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    CHECK(io::crc32c(bytes) == slow_crc(bytes));
    bytes += static_cast<char>(i * 37);
  }
  for (const std::size_t size : {24575, 24576, 24577, 50000}) {
    while (bytes.size() < size) bytes += static_cast<char>(bytes.size() * 37 + bytes.size() / 251);
    CHECK(io::crc32c(std::string_view(bytes).substr(1)) == slow_crc(bytes.substr(1)));
    CHECK(io::crc32c(std::string_view(bytes).substr(10), io::crc32c(bytes.substr(0, 10))) == slow_crc(bytes));
  }
}

TEST_CASE("an event file: name, version, scalars, texts, metadata") {
  const TemporaryFolder folder;
  summary::FileWriter writer(folder / "logs/run");
  const std::string name = std::filesystem::path(writer.path()).filename();
  CHECK(name.starts_with("events.out.tfevents."));
  writer.add_scalar("loss", 0.5, 3);
  writer.add_text("note", "**bold**", 4);
  const RunMetadata metadata;
  writer.add_run_metadata(metadata, "step 3", 3);
  TAPESTRY_REFUSED(InvalidArgumentError, "The tag 'step 3' was used for a run before",
                   writer.add_run_metadata(metadata, "step 3", 4));
  CHECK(events_in(writer.path()).size() == 1);
  writer.flush();
  const std::vector<Event> events = events_in(writer.path());
  REQUIRE(events.size() == 4);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[0].time > 1.6e9);
  CHECK(events[1].step == 3);
  CHECK(events[1].values.at(0).tag == "loss");
  CHECK(events[1].values.at(0).scalar == 0.5F);
  CHECK(events[2].values.at(0).text == "**bold**");
  CHECK(events[2].values.at(0).text_plugin == "text");
  CHECK(events[3].metadata_tag == "step 3");
  CHECK(events[3].metadata == io::encode(metadata));
  writer.close();
  CHECK_THROWS_AS(writer.add_scalar("loss", 0.4, 4), FailedPreconditionError);
  writer.close();
}

TEST_CASE("a histogram has TensorFlow's default buckets") {
  const TemporaryFolder folder;
  summary::FileWriter writer(folder.path());
  writer.add_histogram("w", tensor({-1.0, 0.0, 1.0, 1.0, 2.5}), 7);
  writer.add_histogram("empty", zeros({0}), 7);
  CHECK_THROWS_AS(writer.add_histogram("nan", tensor({std::nanf("")}), 7), InvalidArgumentError);
  writer.close();
  const std::vector<Event> events = events_in(writer.path());
  const Value& value = events.at(1).values.at(0);
  CHECK(value.histogram == std::array<double, 5>{-1, 2.5, 5, 3.5, 9.25});
  REQUIRE(value.limits.size() == value.counts.size());
  double total = 0, before = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < value.limits.size(); ++i) {
    CHECK(value.limits[i] > before);
    // What a bucket counts lies below its limit and not below the one before.
    double within = 0;
    for (const double each : {-1.0, 0.0, 1.0, 1.0, 2.5}) within += each >= before && each < value.limits[i] ? 1 : 0;
    CHECK(value.counts[i] == within);
    total += value.counts[i];
    before = value.limits[i];
  }
  CHECK(total == 5);
  CHECK(value.limits.size() < 16);  // runs of empty buckets are one
  CHECK(events.at(2).values.at(0).histogram[2] == 0);
}

TEST_CASE("a picture") {
  const TemporaryFolder folder;
  summary::FileWriter writer(folder.path());
  const Tensor image = zeros({2, 3, 3}, {.dtype = uint8});
  writer.add_image("grid", image, 1);
  write_png(folder / "grid.png", image);
  const Bytes png = read_bytes(folder / "grid.png");
  writer.add_image("file", std::as_bytes(std::span(png)), 1);
  CHECK_THROWS_AS(writer.add_image("bad", std::as_bytes(std::span("no PNG")), 1), InvalidArgumentError);
  CHECK_THROWS_AS(writer.add_image("bad", zeros({2, 3}), 1), InvalidArgumentError);
  writer.close();
  const std::vector<Event> events = events_in(writer.path());
  REQUIRE(events.size() == 3);
  for (const std::size_t i : {1U, 2U}) {
    CHECK(events[i].values.at(0).size == std::array<std::int64_t, 3>{2, 3, 3});
    CHECK(events[i].values.at(0).image == std::string(png.begin(), png.end()));
  }
}

TEST_CASE("a graph, as it stands, with its shapes") {
  const TemporaryFolder folder;
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1, 4}, "x");
  sum_like(x, zeros({4}), "y");
  square(placeholder(), "untyped");
  summary::FileWriter writer(folder.path(), graph);
  writer.close();
  const std::vector<Event> events = events_in(writer.path());
  REQUIRE(events.size() == 2);
  const io::GraphDef file = io::decode(events[1].graph);
  REQUIRE(file.nodes.size() == graph.operations().size());
  CHECK(file.nodes[0].name == "x");
  const auto& shapes = std::get<io::ListDef>(file.nodes[0].attrs.at("_output_shapes")).shapes;
  REQUIRE(shapes.size() == 1);
  CHECK(shapes[0] == Shape{-1, 4});
}

TEST_CASE("threads write whole records") {
  const TemporaryFolder folder;
  summary::FileWriter writer(folder.path());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&writer, t] {
      for (int i = 0; i < 200; ++i) {
        writer.add_scalar("thread " + std::to_string(t), i, i);
        if (i % 50 == 0) writer.flush();
      }
    });
  for (std::thread& each : threads) each.join();
  writer.close();
  CHECK(events_in(writer.path()).size() == 801);
}

TEST_CASE("a folder that cannot be made is an error") {
  const TemporaryFolder folder;
  const auto file = folder.write("file", {1});
  CHECK_THROWS_AS(summary::FileWriter{file}, FailedPreconditionError);
}

}  // namespace tapestry::test::events_test
