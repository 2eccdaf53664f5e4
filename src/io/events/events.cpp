/// Event files: event.proto and summary.proto in TFRecord's frames.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <protozero/pbf_writer.hpp>
#include <unistd.h>

#include "core/make_tensor.hpp"
#include "io/drawing/png.hpp"
#include "io/events/run_metadata.hpp"
#include "io/records.hpp"
#include "io/tensorflow/graph_export.hpp"
#include "tapestry/summary.hpp"

namespace tapestry::summary {
namespace {

using protozero::pbf_writer;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "localhost";
}

// ---- Histograms -------------------------------------------------------------------------------------------------------

/// The upper bounds of TensorFlow's default buckets.
const std::vector<double>& bucket_limits() {
  static const auto& limits = *new std::vector<double>([] {
    std::vector<double> positive;
    for (double v = 1e-12; v < 1e20; v *= 1.1) positive.push_back(v);
    positive.push_back(std::numeric_limits<double>::max());
    std::vector<double> all;
    for (auto each = positive.rbegin(); each != positive.rend(); ++each) all.push_back(-*each);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    return all;
  }());
  return limits;
}

std::string encode_histogram(const std::vector<double>& values) {
  const std::vector<double>& limits = bucket_limits();
  std::vector<double> counts(limits.size());
  double sum = 0, squares = 0;
  for (const double value : values) {
    const auto bucket = std::upper_bound(limits.begin(), limits.end(), value) - limits.begin();
    ++counts[std::min(static_cast<std::size_t>(bucket), counts.size() - 1)];
    sum += value;
    squares += value * value;
  }
  // A run of empty buckets is written as one.
  std::vector<double> bounds, filled;
  for (std::size_t i = 0; i < counts.size();) {
    std::size_t last = i;
    if (counts[i] == 0)
      while (last + 1 < counts.size() && counts[last + 1] == 0) ++last;
    bounds.push_back(limits[last]);
    filled.push_back(counts[i]);
    i = last + 1;
  }
  const auto [lowest, highest] = std::minmax_element(values.begin(), values.end());
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_double(1, values.empty() ? 0 : *lowest);
  writer.add_double(2, values.empty() ? 0 : *highest);
  writer.add_double(3, static_cast<double>(values.size()));
  writer.add_double(4, sum);
  writer.add_double(5, squares);
  writer.add_packed_double(6, bounds.begin(), bounds.end());
  writer.add_packed_double(7, filled.begin(), filled.end());
  return bytes;
}

// ---- Pictures ---------------------------------------------------------------------------------------------------------

/// Width, height and number of channels of a PNG file, from its header.
std::array<std::int64_t, 3> png_size(std::string_view png, Where where) {
  constexpr std::string_view signature("\x89PNG\r\n\x1A\n", 8);
  if (png.size() < 33 || !png.starts_with(signature) || png.substr(12, 4) != "IHDR")
    throw InvalidArgumentError("A picture must be the bytes of a PNG file", where);
  const auto byte = [&](std::size_t i) { return static_cast<std::int64_t>(static_cast<unsigned char>(png[i])); };
  const auto number = [&](std::size_t at) {
    return byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
  };
  constexpr std::array<std::int64_t, 7> channels{1, 0, 3, 3, 2, 0, 4};  // by PNG's colour type
  const std::int64_t colour = byte(25);
  return {number(16), number(20), colour < 7 ? channels[colour] : 0};
}

std::string encode_image(std::string_view png, Where where) {
  const auto [width, height, channels] = png_size(png, where);
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_int64(1, height);
  writer.add_int64(2, width);
  writer.add_int64(3, channels);
  writer.add_bytes(4, png.data(), png.size());
  return bytes;
}

std::string_view view_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

// ---- The file ---------------------------------------------------------------------------------------------------------

struct FileWriter::State {
  static constexpr double most_seconds_unwritten = 120;

  State(const std::filesystem::path& folder, Where where) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    static std::atomic<int> counter{0};
    path = folder / detail::join("events.out.tfevents.", static_cast<std::int64_t>(now()), ".", host_name(), ".",
                                 static_cast<std::int64_t>(::getpid()), ".", counter.fetch_add(1));
    descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) refuse(errno, where);
    std::string event;
    pbf_writer writer(event);
    writer.add_double(1, now());
    writer.add_string(3, "brain.Event:2");
    io::append_record(buffer, event);
    write_buffer(where);
  }
  ~State() {
    if (descriptor >= 0) ::close(descriptor);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[noreturn]] void refuse(int error, Where where) const {
    const std::string message =
        detail::join("Cannot write ", path.string(), ": ", std::generic_category().message(error));
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) throw ResourceExhaustedError(message, where);
    throw FailedPreconditionError(message, where);
  }

  void require_open(Where where) const {
    if (descriptor < 0) throw FailedPreconditionError("The FileWriter is closed", where);
  }

  /// Writes the buffer to the file. Bytes that could not be written stay in the buffer.
  void write_buffer(Where where) {
    while (!buffer.empty()) {
      const ::ssize_t count = ::write(descriptor, buffer.data(), buffer.size());
      if (count < 0 && errno != EINTR) refuse(errno, where);
      if (count > 0) buffer.erase(0, count);
    }
    written = now();
  }

  /// Adds an event with one field that is a message.
  void add(std::uint32_t field, std::string_view message, std::int64_t step, Where where) {
    std::string event;
    pbf_writer writer(event);
    const double time = now();
    writer.add_double(1, time);
    if (step != 0) writer.add_int64(2, step);
    writer.add_message(field, message.data(), message.size());
    const std::lock_guard lock(mutex);
    require_open(where);
    io::append_record(buffer, event);
    if (time - written > most_seconds_unwritten) write_buffer(where);
  }

  /// Adds a summary of one value; `write` writes the value.
  void add_value(std::string_view tag, std::int64_t step, Where where, auto write) {
    std::string summary;
    pbf_writer writer(summary);
    {
      pbf_writer value(writer, 1);
      value.add_string(1, tag.data(), tag.size());
      write(value);
    }
    add(5, summary, step, where);
  }

  std::filesystem::path path;
  std::mutex mutex;
  std::set<std::string, std::less<>> run_tags;
  std::string buffer;  ///< records that are not written yet
  int descriptor = -1;
  double written = 0;  ///< when the buffer was last empty
};

FileWriter::FileWriter(const std::string& folder, Where where) : state_(std::make_unique<State>(folder, where)) {}

FileWriter::FileWriter(const std::string& folder, const Graph& graph, Where where) : FileWriter(folder, where) {
  add_graph(graph, where);
}

FileWriter::~FileWriter() {
  if (!state_) return;
  try {
    close({});
  } catch (const Error&) {
    // A destructor cannot report the error; `close` does.
  }
}
FileWriter::FileWriter(FileWriter&&) noexcept = default;
FileWriter& FileWriter::operator=(FileWriter&&) noexcept = default;

std::string FileWriter::path() const { return state_->path.string(); }

void FileWriter::flush(Where where) {
  const std::lock_guard lock(state_->mutex);
  state_->require_open(where);
  state_->write_buffer(where);
}

void FileWriter::close(Where where) {
  const std::lock_guard lock(state_->mutex);
  if (state_->descriptor < 0) return;
  state_->write_buffer(where);
  ::close(std::exchange(state_->descriptor, -1));
}

void FileWriter::add_graph(const Graph& graph, Where where) {
  state_->add(4, io::encode(io::describe_graph(*graph.state())), 0, where);
}

void FileWriter::add_scalar(std::string_view tag, double value, std::int64_t step, Where where) {
  state_->add_value(tag, step, where, [&](pbf_writer& writer) { writer.add_float(2, static_cast<float>(value)); });
}

void FileWriter::add_histogram(std::string_view tag, const Tensor& values, std::int64_t step, Where where) {
  const std::vector<double> elements = values.to_vector<double>(where);
  for (const double each : elements)
    if (!std::isfinite(each))
      throw InvalidArgumentError(
          detail::join(std::isnan(each) ? "Nan" : "Infinity", " in summary histogram for: ", tag), where);
  const std::string histogram = encode_histogram(elements);
  state_->add_value(tag, step, where, [&](pbf_writer& writer) { writer.add_message(5, histogram); });
}

void FileWriter::add_image(std::string_view tag, const Tensor& image, std::int64_t step, Where where) {
  add_image(tag, std::span<const std::byte>(io::encode_png(image, where)), step, where);
}

void FileWriter::add_image(std::string_view tag, std::span<const std::byte> png, std::int64_t step, Where where) {
  const std::string image = encode_image(view_of(png), where);
  state_->add_value(tag, step, where, [&](pbf_writer& writer) { writer.add_message(4, image); });
}

void FileWriter::add_text(std::string_view tag, std::string_view text, std::int64_t step, Where where) {
  state_->add_value(tag, step, where, [&](pbf_writer& writer) {
    {
      pbf_writer tensor(writer, 8);
      const int string_type = 7;
      tensor.add_enum(1, string_type);
      tensor.add_bytes(8, text.data(), text.size());
    }
    pbf_writer metadata(writer, 9);
    pbf_writer plugin(metadata, 1);
    plugin.add_string(1, "text");
  });
}

void FileWriter::add_run_metadata(const RunMetadata& metadata, std::string_view tag, std::int64_t step, Where where) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->run_tags.emplace(tag).second)
      throw InvalidArgumentError(detail::join("The tag '", tag, "' was used for a run before"), where);
  }
  const std::string bytes = io::encode(metadata);
  std::string tagged;
  pbf_writer writer(tagged);
  writer.add_string(1, tag.data(), tag.size());
  writer.add_bytes(2, bytes.data(), bytes.size());
  state_->add(8, tagged, step, where);
}

}  // namespace tapestry::summary
