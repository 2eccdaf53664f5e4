#include <array>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>

#include "io/deflate.hpp"
#include "io/file.hpp"
#include "io/records.hpp"
#include "tapestry/data/records.hpp"

namespace tapestry::data {
namespace {

constexpr std::size_t block = 1 << 18;

}  // namespace

struct RecordWriter::State {
  State(const std::string& path, Compression compression, Where where) : file(path, where) {
    if (compression == Compression::none) return;
    const auto wrapping = compression == Compression::gzip ? io::Wrapping::gzip : io::Wrapping::zlib;
    deflater.emplace(wrapping, [this](io::Chunk bytes) { file.write(bytes); });
  }

  void write_buffer() {
    const io::Chunk bytes = std::as_bytes(std::span(buffer));
    if (deflater) {
      deflater->add(bytes);
    } else {
      file.write(bytes);
    }
    buffer.clear();
  }

  io::NewFile file;
  std::optional<io::Deflater> deflater;
  std::string buffer;  ///< records that are not written yet
  int exceptions = std::uncaught_exceptions();
};

RecordWriter::RecordWriter(const std::string& path, Compression compression, Where where)
    : state_(std::make_unique<State>(path, compression, where)) {}

RecordWriter::~RecordWriter() {
  if (!state_ || std::uncaught_exceptions() > state_->exceptions) return;
  try {
    close({});
  } catch (const Error&) {
    // A destructor cannot report the error; `close` does.
  }
}
RecordWriter::RecordWriter(RecordWriter&&) noexcept = default;
RecordWriter& RecordWriter::operator=(RecordWriter&&) noexcept = default;

void RecordWriter::write(std::string_view bytes, Where where) {
  if (!state_) throw FailedPreconditionError("The RecordWriter is closed", where);
  io::append_record(state_->buffer, bytes);
  if (state_->buffer.size() >= block) state_->write_buffer();
}

void RecordWriter::close(Where) {
  if (!state_) return;
  const std::unique_ptr<State> state = std::move(state_);  // an error leaves no file
  state->write_buffer();
  if (state->deflater) state->deflater->end();
  state->file.take_name();
}

std::string shard_name(const std::string& prefix, std::int64_t shard, std::int64_t shards, Where where) {
  if (shard < 0 || shard >= shards)
    throw InvalidArgumentError(detail::join("There is no shard ", shard, " of ", shards), where);
  std::array<char, 64> ending;
  std::snprintf(ending.data(), ending.size(), "-%05lld-of-%05lld", static_cast<long long>(shard),
                static_cast<long long>(shards));
  return prefix + ending.data();
}

}  // namespace tapestry::data
