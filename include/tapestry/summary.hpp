#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tapestry/execution_plan.hpp"

namespace tapestry::summary {

/// @addtogroup summary
/// @{

/// Writes an event file, which TensorBoard reads: the graph, and what happens while it is trained. One file for each
/// writer, in a folder that is made if need be. May be used by several threads. Records are written in blocks: by
/// `flush`, when 120 seconds have passed, and at the end.
///
///     tp::summary::FileWriter writer("./graphs", graph);
///     writer.add_scalar("loss", loss.item<float>(), step);
class TAPESTRY_API FileWriter {
 public:
  /// Throws FailedPreconditionError when the folder or the file cannot be made.
  explicit FileWriter(const std::string& folder, Where where = Where::here());
  /// The same with `add_graph`.
  FileWriter(const std::string& folder, const Graph& graph, Where where = Where::here());
  ~FileWriter();
  /// A writer moves, and is not copied.
  /// @{
  FileWriter(FileWriter&&) noexcept;
  FileWriter& operator=(FileWriter&&) noexcept;
  /// @}

  /// The graph as it is now, with the shapes of its tensors.
  void add_graph(const Graph& graph, Where where = Where::here());
  /// A point of a curve, as float32.
  void add_scalar(std::string_view tag, double value, std::int64_t step, Where where = Where::here());
  /// How the elements of a tensor are distributed, in TensorFlow's default buckets: 10 % wide, from 1e-12 to 1e20 on
  /// both sides of 0. Throws InvalidArgumentError for a NaN or an infinity.
  void add_histogram(std::string_view tag, const Tensor& values, std::int64_t step, Where where = Where::here());
  /// A picture, as `write_png` takes it: uint8 of shape [height,width] or [height,width,3].
  void add_image(std::string_view tag, const Tensor& image, std::int64_t step, Where where = Where::here());
  /// A picture that is a PNG file's bytes. Throws InvalidArgumentError for anything else.
  void add_image(std::string_view tag, std::span<const std::byte> png, std::int64_t step, Where where = Where::here());
  /// A text in Markdown.
  void add_text(std::string_view tag, std::string_view text, std::int64_t step, Where where = Where::here());
  /// What a run has done, under a tag that the file has only once: TensorBoard colours the graph by the times and the
  /// memory of its operations.
  void add_run_metadata(const RunMetadata& metadata, std::string_view tag, std::int64_t step = 0,
                        Where where = Where::here());

  /// Throw ResourceExhaustedError when the disk is full. After `close` adding throws FailedPreconditionError.
  /// @{
  void flush(Where where = Where::here());
  void close(Where where = Where::here());
  /// @}
  /// "<folder>/events.out.tfevents.<seconds>.<host>..."
  std::string path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// @}

}  // namespace tapestry::summary
