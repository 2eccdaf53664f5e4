/// event.proto, summary.proto and histogram.proto. The numbers of the fields are TensorFlow's. TensorFlow 2 writes all
/// values as tensors; they become what TensorFlow 1 writes for them, as in TensorBoard.

#include "io/events/event_decoder.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "io/tensorflow/graph_def.hpp"
#include "io/wire.hpp"

namespace tapestry::summary {
namespace {

using io::WireReader;
using Strings = std::vector<std::string>;
using Plugins = std::map<std::string, std::string>;

// ---- Values of TensorFlow 1 -----------------------------------------------------------------------------------------

std::vector<std::byte> copied(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Image read_image(WireReader reader) {
  Image image;
  while (reader.next()) {
    if (reader.tag() == 1) {
      image.height = reader.get_int64();
    } else if (reader.tag() == 2) {
      image.width = reader.get_int64();
    } else if (reader.tag() == 4) {
      image.encoded = copied(reader.get_text());
    } else {
      reader.skip();
    }
  }
  return image;
}

/// The sound, and a label that only tensors have.
Strings read_audio(WireReader reader) {
  Strings audio(2);
  while (reader.next()) {
    if (reader.tag() == 4) {
      audio[0] = reader.get_text();
    } else {
      reader.skip();
    }
  }
  return audio;
}

/// Adds the buckets with these upper bounds and counts, without empty ones at both ends. The first bucket begins at the
/// least value of the histogram, and the last one ends at the greatest.
void add_buckets(Histogram& histogram, const std::vector<double>& limits, const std::vector<double>& counts) {
  if (limits.size() != counts.size())
    throw DataLossError(detail::join("A histogram has ", limits.size(), " limits and ", counts.size(), " counts"));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool first = histogram.buckets.empty();
    if (first && !(counts[i] > 0)) continue;
    histogram.buckets.push_back({first ? histogram.min : limits[i - 1], limits[i], counts[i]});
  }
  while (!histogram.buckets.empty() && !(histogram.buckets.back().count > 0)) histogram.buckets.pop_back();
  if (!histogram.buckets.empty()) histogram.buckets.back().right = histogram.max;
}

Histogram read_histogram(WireReader reader) {
  Histogram histogram;
  histogram.sum = histogram.sum_squares = 0;  // what protobuf leaves out
  std::vector<double> limits, counts;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        histogram.min = reader.get_double();
        break;
      case 2:
        histogram.max = reader.get_double();
        break;
      case 3:
        histogram.num = reader.get_double();
        break;
      case 4:
        histogram.sum = reader.get_double();
        break;
      case 5:
        histogram.sum_squares = reader.get_double();
        break;
      case 6:
        io::read_numbers(reader, limits, &WireReader::get_double, &WireReader::get_packed_double);
        break;
      case 7:
        io::read_numbers(reader, counts, &WireReader::get_double, &WireReader::get_packed_double);
        break;
      default:
        reader.skip();
    }
  }
  add_buckets(histogram, limits, counts);
  return histogram;
}

// ---- Values of TensorFlow 2: TensorProto messages -------------------------------------------------------------------

/// The rows are left, right, count.
Histogram histogram_of(const Tensor& rows) {
  const std::vector<double> numbers = rows.to_vector<double>();
  Histogram histogram;
  for (std::size_t i = 0; i < numbers.size(); i += 3) {
    histogram.buckets.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
    histogram.num += numbers[i + 2];
  }
  if (!histogram.buckets.empty()) {
    histogram.min = histogram.buckets.front().left;
    histogram.max = histogram.buckets.back().right;
  }
  return histogram;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

/// Width, height, and files of that size; nothing for other strings.
std::optional<std::vector<Image>> images_of(const Strings& strings) {
  if (strings.size() < 2) return {};
  const auto width = whole_number(strings[0]), height = whole_number(strings[1]);
  if (!width || !height) return {};
  std::vector<Image> images;
  for (std::size_t i = 2; i < strings.size(); ++i) images.push_back({*width, *height, copied(strings[i])});
  return images;
}

Strings strings_of(std::string_view message) {
  Strings strings;
  WireReader reader(message.data(), message.size());
  while (reader.next()) {
    if (reader.tag() == 8) {
      strings.emplace_back(reader.get_text());
    } else {
      reader.skip();
    }
  }
  return strings;
}

decltype(Value::data) data_of(std::string_view message, std::string_view plugin) {
  constexpr io::TypeCode string_type{7};
  const io::TensorDef tensor = io::decode_tensor(message);
  if (tensor.type == string_type) {
    Strings strings = strings_of(message);
    if (plugin == "images")
      if (auto images = images_of(strings)) return *std::move(images);
    return strings;
  }
  const Tensor& value = tensor.value;
  if (!value) return {};
  if (plugin == "scalars" && value.size() == 1) return value.to_vector<double>()[0];
  // A tensor may repeat an element more often than memory has room for.
  const bool listed = value.size() <= std::ssize(message);
  if (plugin == "histograms" && value.rank() == 2 && value.shape()[1] == 3 && listed) return histogram_of(value);
  return value;
}

void read_metadata(WireReader reader, Value& value) {
  while (reader.next()) {
    if (reader.tag() != 1) {
      reader.skip();
      continue;
    }
    WireReader plugin = reader.get_message();
    while (plugin.next()) {
      if (plugin.tag() == 1) {
        value.plugin = plugin.get_text();
      } else if (plugin.tag() == 2) {
        value.plugin_data = plugin.get_text();
      } else {
        plugin.skip();
      }
    }
  }
}

Value read_value(WireReader reader, const Plugins& plugins) {
  Value value;
  std::string_view own_plugin;  // of a value that is not a tensor
  std::optional<std::string_view> tensor;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        value.tag = reader.get_text();
        break;
      case 2:
        value.data = static_cast<double>(reader.get_float());
        own_plugin = "scalars";
        break;
      case 4:
        value.data = std::vector<Image>{read_image(reader.get_message())};
        own_plugin = "images";
        break;
      case 5:
        value.data = read_histogram(reader.get_message());
        own_plugin = "histograms";
        break;
      case 6:
        value.data = read_audio(reader.get_message());
        own_plugin = "audio";
        break;
      case 8:
        tensor = reader.get_text();
        break;
      case 9:
        read_metadata(reader.get_message(), value);
        break;
      default:
        reader.skip();
    }
  }
  if (!own_plugin.empty()) value.plugin = own_plugin;
  if (value.plugin.empty())
    if (const auto known = plugins.find(value.tag); known != plugins.end()) value.plugin = known->second;
  if (tensor) value.data = data_of(*tensor, value.plugin);
  return value;
}

// ---- Events -----------------------------------------------------------------------------------------------------------

std::string graph_in(std::string_view meta_graph_def) {
  std::string graph_def;
  WireReader reader(meta_graph_def.data(), meta_graph_def.size());
  while (reader.next()) {
    if (reader.tag() == 2) {
      graph_def = reader.get_text();
    } else {
      reader.skip();
    }
  }
  return graph_def;
}

SessionLog read_session_log(WireReader reader) {
  SessionLog log;
  while (reader.next()) {
    if (reader.tag() == 1) {
      log.status = static_cast<SessionLog::Status>(reader.get_enum());
    } else if (reader.tag() == 2) {
      log.checkpoint_path = reader.get_text();
    } else if (reader.tag() == 3) {
      log.message = reader.get_text();
    } else {
      reader.skip();
    }
  }
  return log;
}

TaggedRunMetadata read_run_metadata(WireReader reader) {
  TaggedRunMetadata tagged;
  while (reader.next()) {
    if (reader.tag() == 1) {
      tagged.tag = reader.get_text();
    } else if (reader.tag() == 2) {
      tagged.run_metadata = reader.get_text();
    } else {
      reader.skip();
    }
  }
  return tagged;
}

void read_summary(WireReader reader, Event& event, const Plugins& plugins) {
  while (reader.next()) {
    if (reader.tag() == 1) {
      event.values.push_back(read_value(reader.get_message(), plugins));
    } else {
      reader.skip();
    }
  }
}

Event read_event(WireReader reader, const Plugins& plugins) {
  Event event;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        event.wall_time = reader.get_double();
        break;
      case 2:
        event.step = reader.get_int64();
        break;
      case 3:
        event.file_version = reader.get_text();
        break;
      case 4:
        event.graph_def = reader.get_text();
        break;
      case 5:
        read_summary(reader.get_message(), event, plugins);
        break;
      case 7:
        event.session_log = read_session_log(reader.get_message());
        break;
      case 8:
        event.tagged_run_metadata = read_run_metadata(reader.get_message());
        break;
      case 9:
        event.meta_graph_def = reader.get_text();
        event.graph_def = graph_in(event.meta_graph_def);
        break;
      default:
        reader.skip();
    }
  }
  return event;
}

}  // namespace

Event decode_event(std::string_view bytes, const std::map<std::string, std::string>& plugins) {
  return io::decoding("The data are no Event, or damaged",
                      [&] { return read_event(WireReader(bytes.data(), bytes.size()), plugins); });
}

}  // namespace tapestry::summary
