#include "fuzz/readers.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "io/crc32c.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test {
namespace {

/// Larger tensors cost a fuzzer time, and show nothing that smaller ones do not.
constexpr std::int64_t most_elements = 1 << 12;

std::string_view text_of(Fuzzed bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Returns whether the bytes were accepted: by an Error a reader says no.
template <class F>
bool is_accepted(F read) {
  try {
    read();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// A graph that was accepted can be written, and read again.
void write_again(const Graph& graph) {
  std::string bytes;
  try {
    bytes = graph.as_graph_def();
  } catch (const UnimplementedError&) {
    return;  // TensorFlow has a word for a part of our ops only while their shapes are known
  } catch (const FailedPreconditionError&) {
    return;  // a Variable without a value
  }
  Graph::from_graph_def(bytes);
}

bool is_small(const Tensor& tensor) { return !tensor.shape().is_known() || tensor.size() <= most_elements; }

void run_all(const Graph& graph) {
  std::vector<Tensor> fetches;
  for (const Operation& each : graph.operations())
    for (const Tensor& output : each.outputs()) {
      if (!is_small(output)) return;
      if (output.dtype() != DType::resource) fetches.push_back(output);
    }
  Feeds feeds;
  for (const Tensor& each : graph.placeholders()) {
    Shape shape = each.shape().has_rank() ? each.shape() : Shape{2};
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (!shape[axis].is_known()) shape.set(axis, 2);
    if (shape.size() > most_elements) return;
    feeds.add(each, ones(shape, {.dtype = each.dtype()}));
  }
  Session session(graph);
  session.run(fetches, feeds);
}

/// The path of a file of these bytes.
std::string in_file(const std::string& name, Fuzzed bytes) {
  static const TemporaryFolder folder;
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return folder.write(name, Bytes(first, first + bytes.size()));
}

/// Reads an event file in each way that there is.
void read_all_events(const std::string& path) {
  summary::FileReader reader(path);
  for (const summary::Event& event : reader)
    if (!event.graph_def.empty()) is_accepted([&] { write_again(Graph::from_graph_def(event.graph_def)); });
  for (const auto& each : reader.tags()) {
    is_accepted([&] { reader.scalars(each.first); });
    is_accepted([&] { reader.histograms(each.first); });
    is_accepted([&] { reader.images(each.first); });
    is_accepted([&] { reader.texts(each.first); });
  }
  if (reader.reload() != 0) throw std::logic_error("A file has grown by itself");
}

/// A record of a TFRecord file.
std::string record_of(Fuzzed bytes) {
  const auto checked = [](std::string_view data) {
    const std::uint32_t crc = io::masked(io::crc32c(data));
    return std::string(data).append(reinterpret_cast<const char*>(&crc), sizeof crc);
  };
  const std::uint64_t size = bytes.size();
  return checked({reinterpret_cast<const char*>(&size), sizeof size}) + checked(text_of(bytes));
}

}  // namespace

bool read_graph(Fuzzed bytes) {
  return is_accepted([&] { write_again(Graph::from_graph_def(text_of(bytes))); });
}

bool read_graph_text(Fuzzed bytes) {
  return is_accepted([&] {
    const std::string binary = io::from_text(text_of(bytes));
    io::from_text(io::to_text(binary));
    write_again(Graph::from_graph_def(binary));
  });
}

bool run_graph(Fuzzed bytes) {
  return is_accepted([&] { run_all(Graph::from_graph_def(io::from_text(text_of(bytes)))); });
}

bool read_idx(Fuzzed bytes) {
  return is_accepted([&] { data::read_idx(in_file("data", bytes)); });
}

bool read_npy(Fuzzed bytes) {
  return is_accepted([&] {
    const Tensor tensor = data::read_npy(in_file("data.npy", bytes));
    data::write_npy(in_file("again.npy", {}), tensor);
  });
}

bool read_npz(Fuzzed bytes) {
  return is_accepted([&] {
    const StateDict tensors = data::read_npz(in_file("data.npz", bytes));
    data::write_npz(in_file("again.npz", {}), tensors, {.compress = true});
  });
}

bool read_safetensors(Fuzzed bytes) {
  return is_accepted([&] {
    StateDict tensors;
    const std::string path = in_file("data.safetensors", bytes), again = in_file("again.safetensors", {});
    load(path, tensors);
    save(again, tensors, load_metadata(path));
    load(again, tensors);
  });
}

bool read_bundle(Fuzzed bytes) {
  static const std::string prefix = [] {
    for (const char* name : {"0-of-00001", "0-of-00002", "1-of-00002"})
      in_file(std::string("bundle.data-0000") + name, std::as_bytes(std::span(bundle_shard())));
    const std::string index = in_file("bundle.index", {});
    return index.substr(0, index.rfind('.'));
  }();
  const auto read = [&](const std::string& path) {
    return is_accepted([&] {
      tensor_bundle::save(prefix + "-again", load_weights(path));
      tensor_bundle::load(prefix + "-again");
    });
  };
  in_file("bundle.index", bytes);
  return read(prefix) || read(prefix + ".index");  // a checkpoint V1 is one file
}

const std::string& bundle_shard() {
  static const std::string& bytes = *new std::string([] {
    std::string made(1024, '\0');
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<char>(i * i % 251);
    return made;
  }());
  return bytes;
}

bool read_csv(Fuzzed bytes) {
  return is_accepted([&] { data::read_csv(in_file("data.csv", bytes), {.fill = 0}).matrix(); });
}

bool read_events(Fuzzed bytes) {
  const bool is_file = is_accepted([&] { read_all_events(in_file("data.tfevents", bytes)); });
  // Few changes keep the checksums of a file.
  const std::string event = record_of(bytes);
  return is_accepted([&] { read_all_events(in_file("event.tfevents", std::as_bytes(std::span(event)))); }) || is_file;
}

bool read_records(Fuzzed bytes) {
  using data::Feature;
  static const data::ExampleParser parser({{"x", Feature::floats({.shape = {2}, .missing = 1})},
                                           {"n", Feature::integers({.shape = {-1}})},
                                           {"t", Feature::texts({.missing = "-"})},
                                           {"h", Feature::hashed(100, {.shape = {-1}})}});
  const std::string path = in_file("data.tfrecord", bytes);
  const auto starts_with = [&](std::string_view magic) { return text_of(bytes).substr(0, magic.size()) == magic; };
  data::RecordOptions options;
  if (starts_with("\x1f\x8b")) options.compression = data::Compression::gzip;
  if (starts_with("\x78")) options.compression = data::Compression::zlib;
  const bool is_sound = is_accepted([&] { data::records(path, options).batch(8).map(parser).collect(); });
  // Whoever passes over what is damaged finds at least as many records as one who stops there.
  std::size_t strict = 0, tolerant = 0;
  const bool is_whole = is_accepted([&] {
    for (const auto cursor = data::records(path, options).open(); cursor->next();) ++strict;
  });
  options.on_damage = [](const DataLossError&) {};
  for (const data::Record& each : data::records(path, options)) {
    ++tolerant;
    is_accepted([&] {
      const data::Example example = data::decode_example(each);
      data::decode_example({.bytes = data::encode(example)});
    });
    is_accepted([&] { data::encode(data::decode_sequence_example(each)); });
  }
  if (tolerant < strict || (is_whole && tolerant != strict)) throw std::logic_error("other records than before");
  return is_sound;
}

}  // namespace tapestry::test
