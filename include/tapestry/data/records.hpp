#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapestry/data/stream.hpp"
#include "tapestry/detail/handle.hpp"

namespace tapestry::data {

/// @addtogroup records
/// @{

/// How a whole TFRecord file is compressed.
enum class Compression {
  none,  ///< not at all
  gzip,  ///< TensorFlow's "GZIP"
  zlib,  ///< TensorFlow's "ZLIB"
};

/// Bytes from a TFRecord file, and where they stand.
struct Record {
  std::string bytes;                                  ///< the data
  std::shared_ptr<const std::string> path = nullptr;  ///< the file's path; nullptr for a record of none
  std::int64_t offset = 0;                            ///< the offset of the record in the file, unpacked

  /// The data.
  operator std::string_view() const { return bytes; }  // NOLINT(google-explicit-constructor): it stands for them
};

/// How record files are read.
struct RecordOptions {
  Compression compression = Compression::none;  ///< of all files
  /// Is called, by the thread that reads, for each damage in a file, which is then passed over: one record, or, where
  /// it is unknown where the next one begins, the rest of the file. Without it, damage is an error.
  std::function<void(const DataLossError& damage)> on_damage = {};
};

/// One or several paths, in which `*`, `?` and `[...]` match as in a shell.
class Patterns {
 public:
  /// One: a string, a literal or a std::filesystem::path.
  template <class T>
  requires std::convertible_to<const T&, std::string>
  Patterns(  // NOLINT(google-explicit-constructor): it stands for it
      const T& one)
      : list_{std::string(one)} {}
  /// Several, in this order.
  /// @{
  Patterns(std::initializer_list<std::string> several) : list_(several) {}
  Patterns(std::vector<std::string> several) : list_(std::move(several)) {}  // NOLINT(google-explicit-constructor)
  /// @}

  /// The patterns.
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::vector<std::string> list_;
};

/// The records of TFRecord files, TensorFlow's format for training data, one file after the other. A file is open only
/// while it is read. The files of a pattern come in the order of their names; they are listed when the stream is made.
///
///     for (const tp::data::Record& record : tp::data::records("train-*.tfrecord")) ...
///
/// Throws NotFoundError when a pattern matches no file, and when it matches some of the files of a set, such as
/// "train-00003-of-00010", of which one does not exist. A loop throws DataLossError for a file that is truncated or
/// damaged, with the path and the offset in bytes of the record, after all records before the damage; and no length
/// that a damaged file claims makes it allocate more memory than the file can fill.
TAPESTRY_API Stream<Record> records(const Patterns& patterns, const RecordOptions& options = {},
                                    Where where = Where::here());

/// The files that match a pattern, as `records` takes it, in the order of their names. Files that a writer has not
/// completed are passed over. Throws NotFoundError when there are none.
TAPESTRY_API std::vector<std::string> glob(const std::string& pattern, Where where = Where::here());

/// The name that TensorFlow gives a file of several: "train-00003-of-00010" for "train", 3 and 10. Throws
/// InvalidArgumentError unless 0 <= shard < shards.
TAPESTRY_API std::string shard_name(const std::string& prefix, std::int64_t shard, std::int64_t shards,
                                    Where where = Where::here());

/// Writes a TFRecord file, which `tf.data.TFRecordDataset` and `records` read.
///
///     tp::data::RecordWriter writer("train.tfrecord");
///     writer.write(tp::data::encode(example));
///     writer.close();
///
/// The file has another name beside `path` until it is complete. One thread at a time may use a writer.
class TAPESTRY_API RecordWriter {
 public:
  /// Throws NotFoundError when the folder does not exist, FailedPreconditionError when the file cannot be created.
  explicit RecordWriter(const std::string& path, Compression compression = Compression::none,
                        Where where = Where::here());
  /// Closes the file, but not while an exception is thrown: then there is no file.
  ~RecordWriter();
  /// A writer can be moved, but not copied.
  /// @{
  RecordWriter(RecordWriter&&) noexcept;
  RecordWriter& operator=(RecordWriter&&) noexcept;
  /// @}

  /// Adds a record. Throws ResourceExhaustedError when the disk is full, FailedPreconditionError after `close`.
  void write(std::string_view bytes, Where where = Where::here());
  /// Completes the file and gives it its name. Throws what `write` throws. Closing twice does nothing.
  void close(Where where = Where::here());

 private:
  struct State;
  detail::Owned<State> state_;
};

/// @}

}  // namespace tapestry::data
