#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

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
  /// Adds what a run has done, under a tag that must be used only once per file. TensorBoard colours the graph by the
  /// times and the memory of the operations.
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
  std::unique_ptr<State> state_;
};

/// @}

}  // namespace tapestry::summary
