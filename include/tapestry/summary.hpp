#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tapestry/detail/handle.hpp"
#include "tapestry/execution_plan.hpp"

namespace tapestry::summary {

/// @addtogroup summary
/// @{

/// Writes an event file for TensorBoard: the graph, and what happens while it is trained. Each writer has a file of its
/// own, in a folder that is created if necessary. Several threads may use one writer. Records are written in blocks: by
/// `flush`, after 120 seconds, and at the end.
///
///     tp::summary::FileWriter writer("./graphs", graph);
///     writer.add_scalar("loss", loss.item<float>(), step);
class TAPESTRY_API FileWriter {
 public:
  /// Throws FailedPreconditionError when the folder or the file cannot be created.
  explicit FileWriter(const std::string& folder, Where where = Where::here());
  /// The same, followed by `add_graph`.
  FileWriter(const std::string& folder, const Graph& graph, Where where = Where::here());
  ~FileWriter();
  /// A writer can be moved, but not copied.
  /// @{
  FileWriter(FileWriter&&) noexcept;
  FileWriter& operator=(FileWriter&&) noexcept;
  /// @}

  /// Adds the graph as it is now, with the shapes of its tensors.
  void add_graph(const Graph& graph, Where where = Where::here());
  /// Adds a point of a curve, as float32.
  void add_scalar(std::string_view tag, double value, std::int64_t step, Where where = Where::here());
  /// Adds a histogram of the elements of a tensor, with TensorFlow's default buckets: they are 10 % wide, and go from
  /// 1e-12 to 1e20 on both sides of 0. Throws InvalidArgumentError for a NaN or an infinity.
  void add_histogram(std::string_view tag, const Tensor& values, std::int64_t step, Where where = Where::here());
  /// Adds a picture, as `write_png` takes it: uint8 of shape [height,width] or [height,width,3].
  void add_image(std::string_view tag, const Tensor& image, std::int64_t step, Where where = Where::here());
  /// Adds a picture from the bytes of a PNG file. Throws InvalidArgumentError for other bytes.
  void add_image(std::string_view tag, std::span<const std::byte> png, std::int64_t step, Where where = Where::here());
  /// Adds a text in Markdown.
  void add_text(std::string_view tag, std::string_view text, std::int64_t step, Where where = Where::here());
  /// Adds what a run has done, under a tag that no other run in the file has. TensorBoard colours the graph by the
  /// times and the memory of the operations. Throws InvalidArgumentError for a tag that was used before.
  void add_run_metadata(const RunMetadata& metadata, std::string_view tag, std::int64_t step = 0,
                        Where where = Where::here());

  /// Write the records that are still in memory. After `close`, adding throws FailedPreconditionError. Both throw
  /// ResourceExhaustedError when the disk is full.
  /// @{
  void flush(Where where = Where::here());
  void close(Where where = Where::here());
  /// @}
  /// The path of the file: "<folder>/events.out.tfevents.<seconds>.<host>..."
  std::string path() const;

 private:
  struct State;
  detail::Owned<State> state_;
};

// ---- Reading --------------------------------------------------------------------------------------------------------

/// A histogram in an event file.
struct Histogram {
  /// The numbers from `left` to `right`.
  struct Bucket {
    double left = 0;   ///< the lower bound
    double right = 0;  ///< the upper bound
    double count = 0;  ///< how many numbers lie between them
  };

  double min = 0;                     ///< the smallest number
  double max = 0;                     ///< the largest number
  double num = 0;                     ///< how many numbers there are
  std::optional<double> sum;          ///< their sum; TensorFlow 2 does not store it
  std::optional<double> sum_squares;  ///< the sum of their squares; TensorFlow 2 does not store it
  /// Adjacent buckets from `min` to `max`, as TensorBoard shows them: none is left of the first number or right of the
  /// last one.
  std::vector<Bucket> buckets;
};

/// A picture in an event file.
struct Image {
  std::int64_t width = 0;          ///< in pixels
  std::int64_t height = 0;         ///< in pixels
  std::vector<std::byte> encoded;  ///< the bytes of a picture file: PNG, or what another program has chosen
};

/// A tagged value of an event.
struct Value {
  std::string tag;          ///< the name of the curve, histogram, ...
  std::string plugin;       ///< TensorBoard's plugin that shows it: "scalars", "histograms", "images", "text", ...
  std::string plugin_data;  ///< bytes for the plugin, where the file has some with this value
  /// A scalar, a histogram, pictures, texts, or a tensor of another plugin. The sounds of the plugin "audio" are texts,
  /// each followed by its label. std::monostate stands for no value, or one of a type that Tapestry lacks.
  std::variant<std::monostate, double, Histogram, std::vector<Image>, std::vector<std::string>, Tensor> data;
};

/// What happens to a TensorFlow session.
struct SessionLog {
  /// TensorFlow's numbers.
  enum class Status : std::int32_t {
    unspecified = 0,  ///< nothing that is known
    start = 1,        ///< the session begins
    stop = 2,         ///< the session ends
    checkpoint = 3,   ///< a checkpoint has been written
  };

  Status status = Status::unspecified;  ///< what has happened
  std::string checkpoint_path;          ///< of the status `checkpoint`
  std::string message;                  ///< a text for people
};

/// What a run has done.
struct TaggedRunMetadata {
  std::string tag;           ///< its name
  std::string run_metadata;  ///< the bytes of TensorFlow's message RunMetadata
};

/// An event of an event file. Besides its time and its step, one of the other members is set.
struct Event {
  double wall_time = 0;        ///< in seconds since 1970
  std::int64_t step = 0;       ///< of the training
  std::string file_version;    ///< of the first event of a file: "brain.Event:2"
  std::vector<Value> values;   ///< of a summary
  std::string graph_def;       ///< the bytes of a GraphDef, for `Graph::from_graph_def`; also that of `meta_graph_def`
  std::string meta_graph_def;  ///< the bytes of TensorFlow's message MetaGraphDef
  std::optional<TaggedRunMetadata> tagged_run_metadata;  ///< what a run has done
  std::optional<SessionLog> session_log;                 ///< that a session begins, ends, or has written a checkpoint
};

/// What an event file holds for a tag at a step.
template <class T>
struct Entry {
  std::int64_t step = 0;  ///< of the training
  double wall_time = 0;   ///< in seconds since 1970
  T value{};              ///< the scalar, histogram, picture or text
};

/// Reads event files, those of FileWriter and of TensorFlow since its version 0.7.
///
///     tp::summary::FileReader reader("./graphs");
///     for (const auto& [step, wall_time, loss] : reader.scalars("loss")) std::cout << step << ' ' << loss << '\n';
///     if (!reader.damage().empty()) std::cerr << reader.damage() << '\n';
///
/// A file that is cut off or damaged is read up to the damage. A file that is still being written is read as far as it
/// was written when it was opened; `reload` reads on. Both read everything once, to find the tags and the damage. The
/// other functions read the files again, an event at a time, and throw DataLossError when one has changed,
/// NotFoundError when one is gone. Several threads may use one reader, but not while it reloads.
class TAPESTRY_API FileReader {
 public:
  /// Opens a file, or all files of a folder that have "tfevents" in their names, in the order of the names, as
  /// TensorBoard does. Throws NotFoundError when there is no such file, or none in the folder; FailedPreconditionError
  /// when a file may not be read; DataLossError when a file is damaged from its beginning, or no event file. In a
  /// folder, such a file is only named by `damage`.
  explicit FileReader(const std::string& path, Where where = Where::here());

  /// Reads what has been written to the files since, and new files of the folder; returns the number of new events.
  /// Iterators that were at the end go on with these. Throws DataLossError when a file has become shorter.
  std::int64_t reload(Where where = Where::here());

  class Iterator;
  /// The events in the order of the files: `for (const tp::summary::Event& event : reader)`.
  /// @{
  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }
  /// @}

  /// Why files could not be read to their ends, a line for each: its name, what is wrong, and the offset in bytes of
  /// the record that is not read any more. "" when all have been read.
  const std::string& damage() const;
  /// The tags of the values, each with the plugin that shows it.
  const std::map<std::string, std::string>& tags() const;

  /// What the files hold for a tag, in their order. A training that was resumed may have the same step several times.
  /// Throws NotFoundError when there is nothing of that kind for the tag.
  /// @{
  std::vector<Entry<double>> scalars(std::string_view tag, Where where = Where::here()) const;
  std::vector<Entry<Histogram>> histograms(std::string_view tag, Where where = Where::here()) const;
  std::vector<Entry<Image>> images(std::string_view tag, Where where = Where::here()) const;
  std::vector<Entry<std::string>> texts(std::string_view tag, Where where = Where::here()) const;
  /// @}
  /// The last graph; that of a MetaGraphDef only if there is no other. Throws NotFoundError when there is none, and
  /// what `Graph::from_graph_def` throws, such as UnimplementedError for operations that Tapestry lacks.
  Graph graph(const GraphLimits& limits = {}, Where where = Where::here()) const;

 private:
  struct State;
  class Pass;
  template <class T, class Data>
  std::vector<Entry<T>> entries(std::string_view plugin, std::string_view tag, Where where) const;

  detail::Handle<State> state_;
};

/// A position among the events of a FileReader. Copies advance together.
class TAPESTRY_API FileReader::Iterator {
 public:
  /// The types of the standard library's input iterators.
  /// @{
  using iterator_concept = std::input_iterator_tag;
  using value_type = Event;
  using difference_type = std::ptrdiff_t;
  /// @}

  /// The event. Throws OutOfRangeError when there is none.
  /// @{
  const Event& operator*() const;
  const Event* operator->() const { return &**this; }
  /// @}
  /// Reads the next event, which replaces this one.
  /// @{
  Iterator& operator++();
  void operator++(int) { ++*this; }
  /// @}
  /// Whether there is no further event.
  friend bool operator==(const Iterator& at, std::default_sentinel_t) { return at.at_end(); }

 private:
  friend FileReader;
  explicit Iterator(std::shared_ptr<Pass> pass) : pass_(std::move(pass)) {}
  bool at_end() const;

  detail::Handle<Pass> pass_;
};

/// @}

}  // namespace tapestry::summary
