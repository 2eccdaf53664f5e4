// Event files that are read: our own, TensorFlow's, and damaged ones.

#include <cstring>
#include <fstream>
#include <map>

#include <protozero/pbf_writer.hpp>

#include "expect.hpp"
#include "io/crc32c.hpp"
#include "io/events/run_metadata.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::summary_reader_test {
namespace {

using protozero::pbf_writer;
using summary::Event;
using summary::FileReader;
using summary::FileWriter;
using summary::Histogram;
using summary::SessionLog;

const std::filesystem::path golden = GOLDEN_FILES;

std::string checked(std::string_view bytes) {
  const std::uint32_t crc = io::masked(io::crc32c(bytes));
  std::string both(bytes);
  both.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  return both;
}

/// A record that claims to have `size` bytes of data.
std::string record(std::string_view data, std::uint64_t size) {
  return checked({reinterpret_cast<const char*>(&size), sizeof size}) + checked(data);
}
std::string record(std::string_view data) { return record(data, data.size()); }

std::string message(const auto& fill) {
  std::string bytes;
  pbf_writer writer(bytes);
  fill(writer);
  return bytes;
}
/// An event with a summary of one value.
std::string event_of(const auto& fill) {
  return message([&](pbf_writer& event) {
    event.add_message(5, message([&](pbf_writer& summary) { summary.add_message(1, message(fill)); }));
  });
}

std::string write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

/// The ends of the records of a file.
std::vector<std::size_t> ends_in(const std::string& file) {
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; at < file.size(); ends.push_back(at)) {
    std::uint64_t size = 0;
    REQUIRE(at + sizeof size <= file.size());
    std::memcpy(&size, file.data() + at, sizeof size);
    at += 16 + size;
  }
  return ends;
}

std::vector<Event> events_of(const FileReader& reader) {
  std::vector<Event> events;
  for (const Event& each : reader) events.push_back(each);
  return events;
}

std::string described(const Event& event) {
  std::string text = detail::join(event.wall_time, ' ', event.step, ' ', event.file_version, ' ',
                                  event.graph_def.size(), ' ', event.meta_graph_def.size());
  for (const summary::Value& value : event.values)
    text += detail::join(' ', value.tag, ' ', value.plugin, ' ', value.data.index());
  return text;
}

double total(const Histogram& histogram) {
  double sum = 0, before = -infinity;
  for (const Histogram::Bucket& each : histogram.buckets) {
    CHECK(each.left < each.right);
    CHECK(each.left >= before);
    before = each.right;
    sum += each.count;
  }
  return sum;
}

RunMetadata run_metadata() {
  RunMetadata metadata;
  metadata.plan.steps.push_back({.name = "y", .type = "Square", .device = cpu()});
  metadata.times.push_back({.duration = 1000});
  return metadata;
}

/// Writes one of everything, and returns the path.
std::string write_everything(const std::filesystem::path& folder) {
  const Graph graph;
  {
    const auto open = graph.as_default();
    square(placeholder(float32, {-1, 2}, "x"), "y");
  }
  FileWriter writer(folder, graph);
  writer.add_scalar("loss", 0.5, 3);
  writer.add_scalar("accuracy", 0.1, 3);
  writer.add_scalar("loss", 0.25, 4);
  writer.add_histogram("w", tensor({-1.0, 0.0, 1.0, 1.0, 2.5}), 7);
  writer.add_image("grid", zeros({2, 3, 3}, {.dtype = uint8}), 1);
  writer.add_text("note", "**bold**", 4);
  writer.add_run_metadata(run_metadata(), "step 3", 3);
  return writer.path();
}

const std::vector<std::string> theirs = {"tensorflow.tfevents", "tensorflow07.tfevents", "tensorflow1.tfevents",
                                         "tensorflow2.tfevents"};

}  // namespace

TEST_CASE("what FileWriter writes, FileReader reads") {
  const TemporaryFolder folder;
  const std::string path = write_everything(folder.path());
  const FileReader reader(path);
  CHECK(reader.damage().empty());
  using Tags = std::map<std::string, std::string>;
  CHECK(reader.tags() ==
        Tags{{"loss", "scalars"}, {"accuracy", "scalars"}, {"w", "histograms"}, {"grid", "images"}, {"note", "text"}});

  const auto losses = reader.scalars("loss");
  REQUIRE(losses.size() == 2);
  CHECK(losses[0].step == 3);
  CHECK(losses[0].wall_time > 1.6e9);
  CHECK(losses[0].value == 0.5);
  CHECK(losses[1].step == 4);
  CHECK(losses[1].value == 0.25);
  CHECK(reader.scalars("accuracy")[0].value == 0.1F);

  const auto histograms = reader.histograms("w");
  REQUIRE(histograms.size() == 1);
  const Histogram& histogram = histograms[0].value;
  CHECK(histogram.min == -1);
  CHECK(histogram.max == 2.5);
  CHECK(histogram.num == 5);
  CHECK(histogram.sum == 3.5);
  CHECK(histogram.sum_squares == 9.25);
  CHECK(histogram.buckets.front().left == -1);
  CHECK(histogram.buckets.back().right == 2.5);
  CHECK(total(histogram) == 5);

  const auto images = reader.images("grid");
  REQUIRE(images.size() == 1);
  CHECK(images[0].value.width == 3);
  CHECK(images[0].value.height == 2);
  write_png(folder / "grid.png", zeros({2, 3, 3}, {.dtype = uint8}));
  const Bytes png = read_bytes(folder / "grid.png");
  const auto bytes = std::as_bytes(std::span(png));
  CHECK(std::equal(bytes.begin(), bytes.end(), images[0].value.encoded.begin(), images[0].value.encoded.end()));

  CHECK(reader.texts("note")[0].value == "**bold**");
  CHECK(values(Session(reader.graph()).run("y:0", {{"x:0", {{3, 4}}}})) == std::vector<double>{9, 16});

  const std::vector<Event> events = events_of(reader);
  REQUIRE(events.size() == 9);
  CHECK(events[0].file_version == "brain.Event:2");
  CHECK(Graph::from_graph_def(events[1].graph_def).operations().size() == 2);
  REQUIRE(events[8].tagged_run_metadata);
  CHECK(events[8].tagged_run_metadata->tag == "step 3");
  CHECK(events[8].tagged_run_metadata->run_metadata == io::encode(run_metadata()));
}

TEST_CASE("a histogram of nothing, and of one number") {
  const TemporaryFolder folder;
  FileWriter writer(folder.path());
  writer.add_histogram("none", zeros({0}), 1);
  writer.add_histogram("one", tensor({3.0}), 1);
  writer.close();
  const FileReader reader(writer.path());
  CHECK(reader.histograms("none")[0].value.buckets.empty());
  CHECK(reader.histograms("none")[0].value.num == 0);
  CHECK(reader.histograms("one")[0].value.num == 1);
  CHECK(reader.histograms("one")[0].value.buckets.size() == 1);
}

TEST_CASE("an event file of TensorFlow 1") {
  const FileReader reader(golden / "tensorflow1.tfevents");
  CHECK(reader.damage().empty());
  for (const auto& [tag, plugin] : reader.tags()) CHECK_FALSE(plugin.empty());
  const auto losses = reader.scalars("loss");
  REQUIRE(losses.size() == 2);
  for (const auto& [step, time, loss] : losses) CHECK(loss == 0.25);
  const auto histograms = reader.histograms("weights");
  REQUIRE(histograms.size() == 2);
  for (const auto& [step, time, histogram] : histograms) {
    CHECK(histogram.min == -1);
    CHECK(histogram.max == 2.5);
    CHECK(histogram.sum == 3.5);
    CHECK(total(histogram) == 5);
  }
  const auto images = reader.images("picture/image/0");
  REQUIRE(images.size() == 2);
  CHECK(images[0].value.width == 3);
  CHECK(images[0].value.height == 2);
  CHECK(images[0].value.encoded.at(1) == std::byte{'P'});
  const auto texts = reader.texts("note");
  REQUIRE(texts.size() == 2);  // the second value does not say that it is a text
  CHECK(texts[1].value == "**bold**");
  CHECK(texts[1].step == 8);
  CHECK(reader.tags().at("sound/audio/0") == "audio");
  Session session(reader.graph());
  session.run("w/Assign");
  check_values(session.run("y:0", {{"x:0", {{1, 1}}}}), {4, 6});

  int logs = 0, metas = 0;
  for (const Event& event : reader) {
    if (event.session_log && event.session_log->status == SessionLog::Status::checkpoint) {
      CHECK(event.session_log->checkpoint_path == "model");
      CHECK(event.step == 8);
      ++logs;
    }
    metas += !event.meta_graph_def.empty() && !event.graph_def.empty();
    if (event.tagged_run_metadata) {
      CHECK(event.tagged_run_metadata->tag == "step 8");
      CHECK(event.tagged_run_metadata->run_metadata.find("/device:CPU:0") != std::string::npos);
      ++logs;
    }
  }
  CHECK(logs == 2);
  CHECK(metas == 1);
}

TEST_CASE("an event file of TensorFlow 2") {
  const FileReader reader(golden / "tensorflow2.tfevents");
  CHECK(reader.damage().empty());
  CHECK(reader.scalars("loss").size() == 2);
  CHECK(reader.scalars("loss")[1].value == 0.25);
  const Histogram histogram = reader.histograms("weights")[0].value;
  CHECK(histogram.buckets.size() == 5);
  CHECK(histogram.min == -1);
  CHECK(histogram.max == 2.5);
  CHECK(histogram.num == 5);
  CHECK_FALSE(histogram.sum);
  CHECK(total(histogram) == 5);
  CHECK(reader.histograms("none")[0].value.num == 0);
  const auto images = reader.images("pictures");
  REQUIRE(images.size() == 2);
  for (const auto& [step, time, image] : images) {
    CHECK(image.width == 3);
    CHECK(image.height == 2);
    CHECK(image.encoded.at(1) == std::byte{'P'});
  }
  CHECK(reader.texts("note")[0].value == "**bold**");
  std::string notes;
  for (const auto& [step, time, text] : reader.texts("notes")) notes += text;
  CHECK(notes == "abcd");
  CHECK(reader.graph().has_operation("y"));
  for (const Event& event : reader)
    for (const summary::Value& value : event.values)
      if (value.tag == "tensor") check_values(std::get<Tensor>(value.data), {1, 2, 3, 4});
}

TEST_CASE("an event file of TensorFlow 0.7") {
  const FileReader reader(golden / "tensorflow07.tfevents");
  CHECK(reader.damage().empty());
  CHECK((*reader.begin()).file_version == "brain.Event:1");
  CHECK(reader.scalars("loss")[0].value == 0.25);
  const Histogram histogram = reader.histograms("weights")[0].value;
  CHECK(histogram.buckets.front().left == -1);
  CHECK(histogram.buckets.back().right == 2.5);
  CHECK(total(histogram) == 5);
  CHECK(reader.graph().has_operation("y"));
}

TEST_CASE("of a file that is cut off, what is whole is read, and the reader says what is lost") {
  const TemporaryFolder folder;
  std::vector<std::string> files{read_text(write_everything(folder.path()))};
  for (const std::string& name : theirs) files.push_back(read_text(golden / name));
  for (const std::string& file : files) {
    const std::vector<std::size_t> ends = ends_in(file);
    const std::vector<Event> all = events_of(FileReader(write(folder / "whole", file)));
    REQUIRE(all.size() == ends.size());
    const std::string path = write(folder / "cut", file);
    for (std::size_t size = file.size(); size-- > 0;) {
      std::filesystem::resize_file(path, size);
      const FileReader reader(path);
      std::size_t count = 0;
      for (const Event& event : reader) CHECK(described(event) == described(all.at(count++)));
      const auto after = std::upper_bound(ends.begin(), ends.end(), size);
      CHECK(count == static_cast<std::size_t>(after - ends.begin()));
      const std::size_t place = count == 0 ? 0 : ends[count - 1];
      const std::string reason =
          detail::join(path, " is still being written, or cut off: it lacks the end of the record at byte ", place);
      CHECK(reader.damage() == (size == 0 ? path + " is empty" : size == place ? "" : reason));
    }
  }
}

TEST_CASE("a single wrong bit does not pass") {
  const TemporaryFolder folder;
  std::vector<std::string> files{read_text(write_everything(folder.path()))};
  for (const std::string& name : theirs) files.push_back(read_text(golden / name));
  for (const std::string& file : files) {
    const std::vector<std::size_t> ends = ends_in(file);
    const std::string path = write(folder / "damaged", file);
    std::fstream bytes(path, std::ios::binary | std::ios::in | std::ios::out);
    for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
      const std::size_t place = bit / 8, before = bit == 0 ? 0 : (bit - 1) / 8;
      bytes.seekp(static_cast<std::streamoff>(before)).put(file[before]);
      bytes.seekp(static_cast<std::streamoff>(place)).put(static_cast<char>(file[place] ^ 1 << bit % 8)).flush();
      const auto sound = std::upper_bound(ends.begin(), ends.end(), place) - ends.begin();
      if (sound == 0) {
        CHECK_THROWS_AS(FileReader{path}, DataLossError);
        continue;
      }
      const FileReader reader(path);
      CHECK(std::ssize(events_of(reader)) == sound);
      CHECK(reader.damage().ends_with(detail::join(" of the record at byte ", ends[sound - 1])));
    }
  }
}

TEST_CASE("a file that grows") {
  const TemporaryFolder folder;
  FileWriter writer(folder.path());
  FileReader reader(folder.path());
  auto at = reader.begin();
  CHECK((*at).file_version == "brain.Event:2");
  CHECK(++at == reader.end());
  CHECK_THROWS_AS(*at, OutOfRangeError);
  CHECK(++at == reader.end());
  CHECK(message_of<NotFoundError>([&] { reader.scalars("loss"); }) ==
        folder.path().string() + " has no scalars 'loss', but none at all");
  CHECK(reader.reload() == 0);
  for (int i = 0; i < 3; ++i) writer.add_scalar("loss", i, i);
  writer.flush();
  CHECK(at == reader.end());
  CHECK(reader.reload() == 3);
  for (int i = 0; i < 3; ++i, ++at) CHECK((*at).step == i);
  CHECK(at == reader.end());
  CHECK(reader.scalars("loss").size() == 3);

  // A second writer, while the first one goes on.
  FileWriter second(folder.path());
  second.add_scalar("other", 1, 10);
  second.flush();
  writer.add_scalar("loss", 3, 3);
  writer.flush();
  CHECK(reader.reload() == 3);
  std::vector<std::int64_t> steps;
  for (; at != reader.end(); ++at) steps.push_back((*at).step);
  CHECK(steps == std::vector<std::int64_t>{3, 0, 10});
  CHECK(reader.tags().contains("other"));
  CHECK(reader.damage().empty());
}

TEST_CASE("a file of which half a record is written") {
  const TemporaryFolder folder;
  const std::string file = read_text(write_everything(folder.path()));
  const std::vector<Event> all = events_of(FileReader(write(folder / "whole", file)));
  const std::string path = write(folder / "growing", "");
  FileReader reader(path);
  auto at = reader.begin();
  std::size_t count = 0;
  for (const char each : file) {
    std::ofstream(path, std::ios::binary | std::ios::app) << each;
    const std::int64_t added = reader.reload();
    CHECK(added == (reader.damage().empty() ? 1 : 0));
    for (; at != reader.end(); ++at) CHECK(described(*at) == described(all.at(count++)));
  }
  CHECK(count == all.size());
  CHECK(reader.damage().empty());

  write(path, file.substr(0, file.size() / 2));
  CHECK_THROWS_AS(events_of(reader), DataLossError);
  CHECK_THROWS_WITH_AS(reader.reload(), doctest::Contains("it is shorter than it was"), DataLossError);
  std::filesystem::remove(path);
  CHECK_THROWS_AS(reader.scalars("loss"), NotFoundError);
}

TEST_CASE("what is no event file") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(FileReader(folder / "missing"), NotFoundError);
  CHECK_THROWS_WITH_AS(FileReader(folder.path()), doctest::Contains("There is no event file"), NotFoundError);

  const std::string example = record(message([](pbf_writer& out) { out.add_message(1, std::string()); }));
  for (const std::string& bytes : {std::string("\x01 something else"), std::string(100, '\0'), example}) {
    const std::string path = write(folder / "x.tfevents", bytes);
    const auto error = caught<DataLossError>([&] { FileReader{path}; });
    CHECK(error.message().starts_with(path + " is damaged: "));
    CHECK(error.message().ends_with("; is it an event file?"));
    CHECK(place(error) == to_string(Where{__FILE__, __LINE__ - 3}));
  }
  // Beside others, it does not matter.
  write_everything(folder.path());
  const FileReader reader(folder.path());
  CHECK(reader.scalars("loss").size() == 2);
  CHECK(reader.damage().starts_with((folder / "x.tfevents is damaged: ").string()));
  CHECK(message_of<NotFoundError>([&] { reader.scalars("los"); }) ==
        folder.path().string() + " has no scalars 'los', but 'accuracy', 'loss'; " + reader.damage());
}

TEST_CASE("files that lie behind sound checksums") {
  const TemporaryFolder folder;
  const std::string version = record(message([](pbf_writer& event) { event.add_string(3, "brain.Event:2"); }));
  const auto damage_of = [&](const std::string& second) {
    const FileReader reader(write(folder / "lies", version + second));
    CHECK(events_of(reader).size() == 1);
    return reader.damage().substr(reader.damage().find(' '));
  };
  CHECK(damage_of(record("abc", std::uint64_t{1} << 62)) ==
        detail::join(" is still being written, or cut off: it lacks the end of the record at byte ", version.size()));
  CHECK(damage_of(record("abc")).find("is not an event: The data are no Event, or damaged") != std::string::npos);

  // A histogram of two limits and one count.
  const std::vector<double> two = {1, 2}, one = {1};
  CHECK(damage_of(record(event_of([&](pbf_writer& value) {
          value.add_message(5, message([&](pbf_writer& histogram) {
                              histogram.add_packed_double(6, two.begin(), two.end());
                              histogram.add_packed_double(7, one.begin(), one.end());
                            }));
        }))).ends_with("is not an event: A histogram has 2 limits and 1 counts"));

  // Tensors with sizes that the file has no room for.
  for (const std::vector<std::uint64_t>& sizes : {std::vector<std::uint64_t>{1 << 20, 3}, {1ULL << 62, 3}, {~0ULL}}) {
    const auto tensor_event = [&](const std::vector<float>& numbers) {
      return record(event_of([&](pbf_writer& value) {
        value.add_string(1, "h");
        value.add_message(8, message([&](pbf_writer& tensor) {
                            tensor.add_enum(1, 1);
                            tensor.add_message(2, message([&](pbf_writer& shape) {
                                                 for (const std::uint64_t size : sizes)
                                                   shape.add_message(
                                                       2, message([&](pbf_writer& dim) { dim.add_uint64(1, size); }));
                                               }));
                            tensor.add_packed_float(5, numbers.begin(), numbers.end());
                          }));
        value.add_message(9, message([](pbf_writer& metadata) {
                            metadata.add_message(
                                1, message([](pbf_writer& plugin) { plugin.add_string(1, "histograms"); }));
                          }));
      }));
    };
    CHECK(damage_of(tensor_event({1, 2})).find("is not an event: ") != std::string::npos);
    // A single element may be repeated, but is not made a histogram.
    if (sizes[0] == 1 << 20) {
      const FileReader reader(write(folder / "repeats", version + tensor_event({1})));
      CHECK(reader.damage().empty());
      CHECK_THROWS_AS(reader.histograms("h"), NotFoundError);
    }
  }
}

}  // namespace tapestry::test::summary_reader_test
